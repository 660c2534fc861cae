/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: memory handles, put and get, and refusals.
 */
#define _GNU_SOURCE 1
#include "conform.h"

#include <sys/mman.h>
#include <unistd.h>

#define RMA_PIECES 8u
#define RMA_SPACE 4096u

static void rma_handle(struct conform_end *end, struct na_segment *segments,
    na_size_t count, unsigned long flags, na_mem_handle_t *mem_p)
{
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        end->na_class, segments, count, flags, mem_p));
}

static na_return_t rma_start(struct conform_end *end, struct conform_call *call,
    bool put, na_mem_handle_t local, na_offset_t local_offset,
    na_mem_handle_t remote, na_offset_t remote_offset, na_size_t size)
{
    memset(call, 0, sizeof(*call));
    return (put ? NA_Put : NA_Get)(end->na_class, end->context, conform_ended,
        call, local, local_offset, remote, remote_offset, size, end->self,
        &call->id);
}

static na_return_t rma_move(struct conform_end *end, bool put,
    na_mem_handle_t local, na_offset_t local_offset, na_mem_handle_t remote,
    na_offset_t remote_offset, na_size_t size)
{
    struct conform_call call;
    na_return_t ret = rma_start(
        end, &call, put, local, local_offset, remote, remote_offset, size);

    if (ret != NA_SUCCESS) {
        HG_CHECK_EQ_INT(call.ends, 0);
        return ret;
    }
    HG_CHECK_EQ_INT(call.ends, 0);
    ret = conform_wait(end, &call);
    HG_CHECK_EQ_INT(call.type, put ? NA_CB_PUT : NA_CB_GET);
    return ret;
}

static void rma_free(struct conform_end *end, na_mem_handle_t mem)
{
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, mem));
}

/* ---- Moving data, against a model ---- */

/* Random segments, some empty, within `space` in shuffled order; returns the
 * total. */
static na_size_t rma_scatter(unsigned char *space, uint64_t *random,
    struct na_segment segments[RMA_PIECES])
{
    na_size_t total = 0;
    unsigned i, slot = (unsigned) hg_test_random(random) % RMA_PIECES;

    for (i = 0; i < RMA_PIECES; i++) {
        na_size_t size = hg_test_random(random) % (RMA_SPACE / RMA_PIECES);

        if (size % 5 == 0)
            size = 0;
        slot = (slot + 3) % RMA_PIECES;
        segments[i].address = space + slot * (RMA_SPACE / RMA_PIECES);
        segments[i].size = size;
        total += size;
    }
    return total;
}

static unsigned char *rma_byte(
    const struct na_segment segments[RMA_PIECES], na_size_t offset)
{
    unsigned i = 0;

    while (offset >= segments[i].size)
        offset -= segments[i++].size;
    return (unsigned char *) segments[i].address + offset;
}

HG_TEST(every_segment_layout_moves_like_the_model)
{
    static unsigned char spaces[2][RMA_SPACE], model[RMA_SPACE];
    struct na_segment segments[2][RMA_PIECES];
    struct na_init_info info;
    struct conform_end end;
    uint64_t random = hg_test_seed();
    unsigned round;

    conform_info(&info);
    info.rma_frame_size = 512; /* if emulated: several frames */
    conform_open(&end, &info);
    for (round = 0; round < 400; round++) {
        bool put = (hg_test_random(&random) & 1) != 0;
        na_size_t totals[2], offsets[2], size = RMA_SPACE, i;
        na_mem_handle_t mems[2], remote;

        for (i = 0; i < 2; i++) {
            totals[i] = rma_scatter(spaces[i], &random, segments[i]);
            offsets[i] = hg_test_random(&random) % (totals[i] + 1);
            if (size > totals[i] - offsets[i])
                size = totals[i] - offsets[i];
            conform_fill(spaces[i], RMA_SPACE, hg_test_random(&random));
            rma_handle(
                &end, segments[i], RMA_PIECES, NA_MEM_READWRITE, &mems[i]);
        }
        if (round % 3 == 0 && size > 0)
            size = hg_test_random(&random) % size;
        HG_CHECK_OK(NA_Mem_register(end.na_class, mems[1]));
        remote = conform_remote(&end, mems[1]);
        /* The array was copied; the memory is used in place. */
        memcpy(model, spaces[put ? 1 : 0], RMA_SPACE);
        for (i = 0; i < size; i++) {
            unsigned char *from =
                rma_byte(segments[put ? 0 : 1], offsets[put ? 0 : 1] + i);
            unsigned char *to =
                rma_byte(segments[put ? 1 : 0], offsets[put ? 1 : 0] + i);

            model[to - spaces[put ? 1 : 0]] = *from;
        }
        memset(segments, 0, sizeof(segments));
        HG_CHECK_OK(
            rma_move(&end, put, mems[0], offsets[0], remote, offsets[1], size));
        HG_CHECK_EQ_MEM(spaces[put ? 1 : 0], model, RMA_SPACE);
        rma_free(&end, remote);
        rma_free(&end, mems[1]); /* still registered */
        rma_free(&end, mems[0]);
    }
    conform_close(&end);
}

HG_TEST(large_and_many_transfers_succeed)
{
    enum { COUNT = 32, SIZE = 200000 };
    static struct conform_call calls[COUNT];
    struct na_init_info info;
    struct conform_end end;
    char *from = (char *) malloc(COUNT * SIZE);
    char *to = (char *) malloc(COUNT * SIZE);
    na_mem_handle_t local, target, remote;
    unsigned i, put;

    HG_CHECK(from != NULL && to != NULL);
    conform_info(&info);
    info.rma_frame_size = 16384;
    info.rma_window = 40000;
    conform_open(&end, &info);
    for (put = 0; put < 2; put++) {
        conform_fill(from, COUNT * SIZE, put);
        memset(to, 0, COUNT * SIZE);
        local = conform_memory(
            &end, put ? from : to, COUNT * SIZE, NA_MEM_READWRITE);
        target = conform_memory(
            &end, put ? to : from, COUNT * SIZE, NA_MEM_READWRITE);
        HG_CHECK_OK(NA_Mem_register(end.na_class, target));
        remote = conform_remote(&end, target);
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(rma_start(&end, &calls[i], put == 1, local, i * SIZE,
                remote, i * SIZE, SIZE));
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(conform_wait(&end, &calls[i]));
        HG_CHECK_EQ_MEM(to, from, COUNT * SIZE);
        HG_CHECK_OK(NA_Mem_deregister(end.na_class, target));
        rma_free(&end, target);
        rma_free(&end, local);
        rma_free(&end, remote);
    }
    conform_close(&end);
    free(from);
    free(to);
}

/* With the decorator of libfabric a segment takes four times as long. */
HG_TEST(transfer_of_many_segments)
{
    const char *name = getenv("HG_TEST_TRANSPORT");
    const unsigned count =
        name != NULL && strncmp(name, "ofi-", 4) == 0 ? 4096 : 65536;
    struct na_segment *segments =
        (struct na_segment *) malloc(count * sizeof(*segments));
    unsigned char *space = (unsigned char *) calloc(count, 3);
    unsigned char *whole = (unsigned char *) calloc(count, 2);
    struct conform_end end;
    na_mem_handle_t local, target, remote;
    unsigned i;

    HG_CHECK(segments != NULL && space != NULL && whole != NULL);
    conform_open(&end, NULL);
    for (i = 0; i < count; i++) {
        segments[i].address = space + 3 * (count - 1 - i);
        segments[i].size = 2;
    }
    conform_fill(whole, 2 * count, 1);
    rma_handle(&end, segments, count, NA_MEM_READWRITE, &target);
    local = conform_memory(&end, whole, 2 * count, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(rma_move(&end, true, local, 0, remote, 0, 2 * count));
    for (i = 0; i < count; i++) {
        const unsigned char *at = space + 3 * (count - 1 - i);

        HG_CHECK(at[0] == whole[2 * i] && at[1] == whole[2 * i + 1]);
        HG_CHECK(at[2] == 0);
    }
    memset(whole, 0, 2 * count);
    HG_CHECK_OK(rma_move(&end, false, local, 1, remote, 1, 2 * count - 2));
    for (i = 1; i < 2 * count - 1; i++)
        HG_CHECK(whole[i] == space[3 * (count - 1 - i / 2) + (i & 1)]);
    HG_CHECK(whole[0] == 0 && whole[2 * count - 1] == 0);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, local);
    conform_close(&end);
    free(segments);
    free(space);
    free(whole);
}

/* `total` bytes of address space that repeat `window` bytes of memory. */
static unsigned char *rma_repeat(size_t total, size_t window)
{
    int fd = memfd_create("rma", MFD_CLOEXEC);
    unsigned char *space = (unsigned char *) mmap(NULL, total, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t at;

    HG_CHECK(fd >= 0 && space != MAP_FAILED);
    HG_CHECK(!ftruncate(fd, (off_t) window));
    for (at = 0; at < total; at += window) {
        size_t size = total - at < window ? total - at : window;

        HG_CHECK(mmap(space + at, size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    }
    HG_CHECK(!close(fd));
    return space;
}

/* 5 GiB of addresses need 64 bits, and no shadow memory of TSan's. */
static bool rma_has_addresses(void)
{
#if defined(__SANITIZE_THREAD__)
    return false;
#else
    return sizeof(void *) >= 8;
#endif
}

HG_TEST_WHERE(small_transfer_beyond_4_gib, rma_has_addresses)
{
    /* Not a power of two, so that an offset truncated to 32 bits reads other
     * bytes. */
    const size_t window = (size_t) 13 << 20;
    const size_t total = (size_t) (UINT64_C(5) << 30);
    const na_offset_t offset = ((na_offset_t) 1 << 32) + 12345;
    static unsigned char small[5000];
    struct conform_end end;
    unsigned char *space = rma_repeat(total, window);
    na_mem_handle_t local, target, remote;

    conform_fill(space, window, 3);
    conform_open(&end, NULL);
    local = conform_memory(&end, small, sizeof(small), NA_MEM_READWRITE);
    target = conform_memory(&end, space, total, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(rma_move(&end, false, local, 0, remote, offset, sizeof(small)));
    HG_CHECK_EQ_MEM(small, space + offset, sizeof(small));
    conform_fill(small, sizeof(small), 9);
    HG_CHECK_OK(rma_move(&end, true, local, 0, remote, offset, sizeof(small)));
    HG_CHECK_EQ_MEM(space + offset % window, small, sizeof(small));
    rma_free(&end, local);
    rma_free(&end, remote);
    rma_free(&end, target);
    conform_close(&end);
    HG_CHECK(!munmap(space, total));
}

/* `total` bytes in segments that all name the same `piece` bytes. */
static na_mem_handle_t rma_again_and_again(struct conform_end *end,
    unsigned char *memory, na_size_t piece, na_size_t total,
    unsigned long flags)
{
    na_size_t count = total / piece, i;
    struct na_segment *segments =
        (struct na_segment *) malloc(count * sizeof(*segments));
    na_mem_handle_t mem;

    HG_CHECK(segments != NULL && total % piece == 0);
    for (i = 0; i < count; i++) {
        segments[i].address = memory;
        segments[i].size = piece;
    }
    rma_handle(end, segments, count, flags, &mem);
    free(segments);
    return mem;
}

/* It takes seconds, except within this process or where the kernel copies. */
static bool rma_moves_all_at_once(void)
{
    const char *name = getenv("HG_TEST_TRANSPORT");

    return hg_test_is_plain() &&
        (getenv("HG_TEST_FULL") != NULL || name == NULL ||
            strcmp(name, "self") == 0 || strcmp(name, "sm") == 0);
}

/* Memory of 5 GiB that needs few megabytes. Gets and a put across 4 GiB on one
 * side and on both; then, in the plain build, all of it at once. In check-full
 * on every transport. */
HG_TEST_SECONDS(transfers_across_4_gib, 120)
{
    enum { PIECE = 3 << 20, COUNT = 1707, SIZE = 2 * PIECE };
    const na_size_t total = (na_size_t) PIECE * COUNT;
    const na_offset_t limit = (na_offset_t) 1 << 32;
    const struct {
        na_offset_t local, remote;
        bool put;
    } moves[] = {{0, limit - PIECE - 5, false}, {limit - 1000, 77, false},
        {limit - PIECE + 3, limit - PIECE, false},
        {limit - PIECE, limit - PIECE + 9, true}};
    unsigned char *from = (unsigned char *) malloc(PIECE);
    unsigned char *to = (unsigned char *) malloc(PIECE);
    struct conform_end end;
    na_mem_handle_t reads, writes, targets[2], remotes[2];
    unsigned i;
    na_size_t k;

    HG_CHECK(from != NULL && to != NULL);
    conform_fill(from, PIECE, 4);
    conform_open(&end, NULL);
    writes = rma_again_and_again(&end, to, PIECE, total, NA_MEM_WRITE_ONLY);
    reads = rma_again_and_again(&end, from, PIECE, total, NA_MEM_READ_ONLY);
    targets[0] =
        rma_again_and_again(&end, from, PIECE, total, NA_MEM_READ_ONLY);
    targets[1] = rma_again_and_again(&end, to, PIECE, total, NA_MEM_WRITE_ONLY);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(NA_Mem_register(end.na_class, targets[i]));
        remotes[i] = conform_remote(&end, targets[i]);
    }
    for (i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        na_offset_t source = moves[i].put ? moves[i].local : moves[i].remote;
        na_offset_t sink = moves[i].put ? moves[i].remote : moves[i].local;

        memset(to, 0, PIECE);
        HG_CHECK_OK(rma_move(&end, moves[i].put, moves[i].put ? reads : writes,
            moves[i].local, remotes[moves[i].put ? 1 : 0], moves[i].remote,
            SIZE));
        for (k = 0; k < PIECE; k++)
            HG_CHECK(to[(sink + k) % PIECE] == from[(source + k) % PIECE]);
    }
    if (rma_moves_all_at_once()) {
        memset(to, 0, PIECE);
        HG_CHECK_OK(rma_move(&end, false, writes, 0, remotes[0], 0, total));
        HG_CHECK_EQ_MEM(to, from, PIECE);
    }
    for (i = 0; i < 2; i++) {
        rma_free(&end, remotes[i]);
        rma_free(&end, targets[i]);
    }
    rma_free(&end, reads);
    rma_free(&end, writes);
    conform_close(&end);
    free(from);
    free(to);
}

/* ---- Handles ---- */

HG_TEST(handle_arguments_are_checked)
{
    struct conform_end a, b;
    char buf[16];
    struct na_segment segments[2] = {{buf, 8}, {NULL, 8}};
    na_mem_handle_t mem = NA_MEM_HANDLE_NULL;

    conform_open(&a, NULL);
    conform_open(&b, NULL);
    hg_test_expect_log("memory flags 0x0 are unknown");
    HG_CHECK_RET(
        NA_Mem_handle_create(a.na_class, buf, 16, 0, &mem), NA_INVALID_ARG);
    hg_test_expect_log("memory flags 0x4 are unknown");
    HG_CHECK_RET(
        NA_Mem_handle_create(a.na_class, buf, 16, 4, &mem), NA_INVALID_ARG);
    hg_test_expect_log("segment 0 is NULL");
    HG_CHECK_RET(
        NA_Mem_handle_create(a.na_class, NULL, 16, 3, &mem), NA_INVALID_ARG);
    hg_test_expect_log("segment 1 is NULL");
    HG_CHECK_RET(
        NA_Mem_handle_create_segments(a.na_class, segments, 2, 3, &mem),
        NA_INVALID_ARG);
    segments[0].size = UINT64_MAX;
    segments[1].address = buf;
    hg_test_expect_log("segment 1 overflows the total size");
    HG_CHECK_RET(
        NA_Mem_handle_create_segments(a.na_class, segments, 2, 3, &mem),
        NA_INVALID_ARG);
    hg_test_expect_log("a memory handle needs at least one segment");
    HG_CHECK_RET(NA_Mem_handle_create_segments(a.na_class, NULL, 2, 3, &mem),
        NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_handle_create_segments(a.na_class, segments, 0, 3, &mem),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Mem_handle_create_segments: ");
    HG_CHECK_RET(
        NA_Mem_handle_create(a.na_class, buf, 16, 3, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_handle_create(NULL, buf, 16, 3, &mem), NA_INVALID_ARG);
    HG_CHECK(mem == NA_MEM_HANDLE_NULL);
    mem = conform_memory(&a, NULL, 0, NA_MEM_READ_ONLY); /* empty is allowed */
    hg_test_expect_log("NA_Mem_handle_free: the handle is of another class");
    HG_CHECK_RET(NA_Mem_handle_free(b.na_class, mem), NA_INVALID_ARG);
    hg_test_expect_log("NA_Mem_handle_free: an argument is NULL");
    HG_CHECK_RET(NA_Mem_handle_free(a.na_class, NULL), NA_INVALID_ARG);
    rma_free(&a, mem);
    conform_close(&a);
    conform_close(&b);
}

HG_TEST(registration_rules_are_enforced)
{
    struct conform_end end;
    char buf[16];
    unsigned char bytes[256];
    na_size_t size;
    na_mem_handle_t mem, remote;

    conform_open(&end, NULL);
    mem = conform_memory(&end, buf, sizeof(buf), NA_MEM_READWRITE);
    hg_test_expect_log("NA_Mem_deregister: it is not registered");
    HG_CHECK_RET(NA_Mem_deregister(end.na_class, mem), NA_NOENTRY);
    hg_test_expect_log("NA_Mem_handle_serialize: the handle is not registered");
    HG_CHECK_RET(
        NA_Mem_handle_serialize(end.na_class, bytes, sizeof(bytes), mem),
        NA_INVALID_ARG);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    hg_test_expect_log("NA_Mem_register: the memory is registered already");
    HG_CHECK_RET(NA_Mem_register(end.na_class, mem), NA_EXIST);
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    HG_CHECK(size > 0 && size <= sizeof(bytes));
    hg_test_expect_log("NA_Mem_handle_serialize: the buffer is too small");
    HG_CHECK_RET(NA_Mem_handle_serialize(end.na_class, bytes, size - 1, mem),
        NA_MSGSIZE);
    hg_test_expect_log("NA_Mem_handle_serialize: buf is NULL");
    HG_CHECK_RET(
        NA_Mem_handle_serialize(end.na_class, NULL, size, mem), NA_INVALID_ARG);
    remote = conform_remote(&end, mem);
    hg_test_expect_log("NA_Mem_register: the memory is a peer's");
    HG_CHECK_RET(NA_Mem_register(end.na_class, remote), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_deregister(end.na_class, remote), NA_NOENTRY);
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, mem));
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem)); /* the same again */
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, mem));
    rma_free(&end, mem);
    rma_free(&end, remote);
    hg_test_expect_log("NA_Mem_handle_get_serialize_size: ");
    HG_CHECK_EQ_U64(NA_Mem_handle_get_serialize_size(end.na_class, NULL), 0);
    conform_close(&end);
}

HG_TEST(malformed_handles_are_refused)
{
    struct conform_end end;
    uint64_t random = hg_test_seed();
    unsigned char good[256], bytes[256];
    static char buf[64];
    na_size_t size, i;
    na_mem_handle_t mem, remote;
    unsigned round, refused = 0;

    conform_open(&end, NULL);
    hg_test_expect_log("bytes are not a memory handle");
    mem = conform_memory(&end, buf, sizeof(buf), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    HG_CHECK_OK(NA_Mem_handle_serialize(end.na_class, good, size, mem));
    HG_CHECK_OK(HG_Set_log_level("none"));
    for (round = 0; round < 10000; round++) {
        na_size_t length = size;
        na_return_t ret;

        memcpy(bytes, good, size);
        if (round % 2 == 0) { /* all of it; any length */
            length = hg_test_random(&random) % sizeof(bytes);
            for (i = 0; i < length; i++)
                bytes[i] = (unsigned char) hg_test_random(&random);
        } else if (round % 4 == 1) { /* a bit */
            bytes[hg_test_random(&random) % size] ^=
                (unsigned char) (1u << hg_test_random(&random) % 8);
        } else {
            length = hg_test_random(&random) % (size + 1);
        }
        ret = NA_Mem_handle_deserialize(end.na_class, &remote, bytes, length);
        HG_CHECK(ret == NA_SUCCESS || ret == NA_PROTOCOL_ERROR);
        refused += ret != NA_SUCCESS;
        if (ret == NA_SUCCESS)
            rma_free(&end, remote);
    }
    HG_CHECK(refused > 5000);
    HG_CHECK_OK(HG_Set_log_level("warning"));
    HG_CHECK_RET(NA_Mem_handle_deserialize(end.na_class, &remote, good, 0),
        NA_PROTOCOL_ERROR);
    hg_test_expect_log("NA_Mem_handle_deserialize: an argument is NULL");
    HG_CHECK_RET(NA_Mem_handle_deserialize(end.na_class, &remote, NULL, size),
        NA_INVALID_ARG);
    rma_free(&end, mem);
    conform_close(&end);
}

/* ---- Refusals ---- */

HG_TEST(bounds_and_permissions_are_kept_by_the_initiator)
{
    struct conform_end end;
    char a[64], b[64];
    na_mem_handle_t local, target, remote, read_only, write_only;
    struct conform_call call;

    conform_open(&end, NULL);
    local = conform_memory(&end, a, sizeof(a), NA_MEM_READWRITE);
    read_only = conform_memory(&end, a, sizeof(a), NA_MEM_READ_ONLY);
    write_only = conform_memory(&end, a, sizeof(a), NA_MEM_WRITE_ONLY);
    target = conform_memory(&end, b, sizeof(b), NA_MEM_READ_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    hg_test_expect_log("the remote memory may not be written");
    HG_CHECK_RET(rma_move(&end, true, local, 0, remote, 0, 8), NA_PERMISSION);
    HG_CHECK_OK(rma_move(&end, false, local, 0, remote, 0, 8));
    rma_free(&end, target);
    rma_free(&end, remote);
    target = conform_memory(&end, b, sizeof(b), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    hg_test_expect_log("are out of range");
    HG_CHECK_RET(rma_move(&end, true, local, 1, remote, 0, 64), NA_OVERFLOW);
    HG_CHECK_RET(rma_move(&end, true, local, 0, remote, 1, 64), NA_OVERFLOW);
    HG_CHECK_RET(rma_move(&end, false, local, 65, remote, 0, 0), NA_OVERFLOW);
    HG_CHECK_RET(
        rma_move(&end, false, local, 8, remote, 0, UINT64_MAX), NA_OVERFLOW);
    HG_CHECK_RET(
        rma_move(&end, false, local, 0, remote, UINT64_MAX, 2), NA_OVERFLOW);
    hg_test_expect_log("the local memory may not be written");
    HG_CHECK_RET(
        rma_move(&end, false, read_only, 0, remote, 0, 8), NA_PERMISSION);
    hg_test_expect_log("the local memory may not be read");
    HG_CHECK_RET(
        rma_move(&end, true, write_only, 0, remote, 0, 8), NA_PERMISSION);
    hg_test_expect_log("the local handle is of remote memory");
    HG_CHECK_RET(rma_move(&end, true, remote, 0, remote, 0, 8), NA_INVALID_ARG);
    hg_test_expect_log("the remote handle was not deserialized");
    HG_CHECK_RET(rma_move(&end, true, local, 0, target, 0, 8), NA_INVALID_ARG);
    hg_test_expect_log("NA_Put: ");
    HG_CHECK_RET(
        rma_start(&end, &call, true, NULL, 0, remote, 0, 8), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Put(end.na_class, NULL, conform_ended, &call, local, 0,
                     remote, 0, 8, end.self, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Get: ");
    HG_CHECK_RET(NA_Get(end.na_class, end.context, conform_ended, &call, local,
                     0, remote, 0, 8, NA_ADDR_NULL, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    /* The very end and an empty range are valid. */
    HG_CHECK_OK(rma_move(&end, true, local, 64, remote, 64, 0));
    HG_CHECK_OK(rma_move(&end, true, local, 0, remote, 0, 64));
    HG_CHECK_OK(rma_move(&end, true, read_only, 0, remote, 0, 64));
    HG_CHECK_OK(rma_move(&end, false, write_only, 0, remote, 0, 64));
    conform_idle(&end);
    rma_free(&end, remote);
    remote = conform_remote(&end, target);
    rma_free(&end, target);
    rma_free(&end, remote);
    rma_free(&end, local);
    rma_free(&end, read_only);
    rma_free(&end, write_only);
    conform_close(&end);
}

HG_TEST(memory_withdrawn_is_refused_by_the_target)
{
    struct conform_end end;
    char a[64], b[64], kept[64];
    na_mem_handle_t local, target, remote;

    conform_open(&end, NULL);
    hg_test_allow_log("a transfer was refused");
    conform_fill(a, sizeof(a), 1);
    conform_fill(b, sizeof(b), 2);
    memcpy(kept, b, sizeof(b));
    local = conform_memory(&end, a, sizeof(a), NA_MEM_READWRITE);
    target = conform_memory(&end, b, sizeof(b), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, target));
    HG_CHECK_RET(rma_move(&end, true, local, 0, remote, 0, 8), NA_NOENTRY);
    HG_CHECK_RET(rma_move(&end, false, local, 0, remote, 0, 8), NA_NOENTRY);
    if (!hg_test_is_ofi()) /* an empty range is not checked there */
        HG_CHECK_RET(rma_move(&end, false, local, 0, remote, 0, 0), NA_NOENTRY);
    /* Registered again, it has another handle. */
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    HG_CHECK_RET(rma_move(&end, true, local, 0, remote, 0, 8), NA_NOENTRY);
    HG_CHECK_EQ_MEM(b, kept, sizeof(b));
    rma_free(&end, target);
    rma_free(&end, remote);
    rma_free(&end, local);
    conform_close(&end);
}

HG_TEST(transfers_can_be_canceled_and_their_memory_freed)
{
    enum { COUNT = 20, SIZE = 500000 };
    static struct conform_call calls[COUNT];
    struct na_init_info info;
    struct conform_end end;
    na_mem_handle_t local, target, remote;
    char *from, *to;
    unsigned i, round, put;

    conform_info(&info);
    info.rma_frame_size = 4096;
    info.rma_window = 16384;
    conform_open(&end, &info);
    hg_test_allow_log("a transfer was refused");
    for (round = 0; round < 6; round++) {
        put = round & 1;
        from = (char *) calloc(1, SIZE);
        to = (char *) calloc(1, SIZE);
        HG_CHECK(from != NULL && to != NULL);
        local = conform_memory(&end, from, SIZE, NA_MEM_READWRITE);
        target = conform_memory(&end, to, SIZE, NA_MEM_READWRITE);
        HG_CHECK_OK(NA_Mem_register(end.na_class, target));
        remote = conform_remote(&end, target);
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(rma_start(
                &end, &calls[i], put == 1, local, 0, remote, 0, SIZE));
        for (i = 0; i < round; i++)
            (void) conform_turn(end.na_class, end.context, 0);
        if (round >= 4) /* the owner's side ends them */
            HG_CHECK_OK(NA_Mem_deregister(end.na_class, target));
        for (i = 0; i < COUNT && round < 4; i++) {
            na_return_t ret = NA_Cancel(end.na_class, end.context, calls[i].id);

            HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
        }
        for (i = 0; i < COUNT; i++) {
            na_return_t ret = conform_wait(&end, &calls[i]);

            HG_CHECK(ret == NA_SUCCESS || ret == NA_CANCELED ||
                (ret == NA_NOENTRY && round >= 4));
            HG_CHECK_RET(
                NA_Cancel(end.na_class, end.context, calls[i].id), NA_NOENTRY);
        }
        rma_free(&end, target);
        rma_free(&end, remote);
        rma_free(&end, local);
        free(from);
        free(to);
    }
    conform_close(&end);
}

HG_TEST(handle_in_use_is_not_freed)
{
    enum { SIZE = 1000000 };
    struct conform_end end;
    struct conform_call call;
    na_mem_handle_t local, target, remote;
    char *from = (char *) calloc(1, SIZE), *to = (char *) calloc(1, SIZE);
    na_return_t ret;

    HG_CHECK(from != NULL && to != NULL);
    conform_open(&end, NULL);
    hg_test_allow_log("NA_Mem_handle_free: a transfer uses the handle");
    local = conform_memory(&end, to, SIZE, NA_MEM_READWRITE);
    target = conform_memory(&end, from, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(rma_start(&end, &call, false, local, 0, remote, 0, SIZE));
    ret = NA_Mem_handle_free(end.na_class, local);
    HG_CHECK(ret == NA_SUCCESS || ret == NA_BUSY);
    HG_CHECK_OK(conform_wait(&end, &call));
    if (ret == NA_BUSY)
        rma_free(&end, local);
    rma_free(&end, target);
    rma_free(&end, remote);
    conform_close(&end);
    free(from);
    free(to);
}

/* All memory of the process is one local handle, which no provider can register
 * as a whole. */
HG_TEST(all_memory_is_a_local_handle)
{
    enum { SIZE = 300000 };
    static unsigned char fixed[SIZE];
    unsigned char *heap = (unsigned char *) malloc(SIZE);
    unsigned char *owned = (unsigned char *) malloc(SIZE);
    unsigned char stack[1000], one = 7;
    struct conform_call calls[4];
    struct conform_end end;
    na_mem_handle_t all, target, remote;
    const struct {
        unsigned char *at;
        na_size_t size;
    } places[] = {{heap, SIZE}, {fixed, SIZE}, {stack, 1000}, {&one, 1}};
    unsigned i;

    HG_CHECK(heap != NULL && owned != NULL);
    conform_open(&end, NULL);
    all = conform_memory(&end, (void *) (uintptr_t) 1,
        (na_size_t) UINT64_MAX - 1, NA_MEM_READWRITE);
    target = conform_memory(&end, owned, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    for (i = 0; i < 4; i++) {
        na_offset_t offset = (uintptr_t) places[i].at - 1;
        na_size_t size = places[i].size;

        conform_fill(places[i].at, size, i);
        HG_CHECK_OK(rma_move(&end, true, all, offset, remote, 0, size));
        HG_CHECK_EQ_MEM(owned, places[i].at, size);
        conform_fill(owned, SIZE, i + 10);
        HG_CHECK_OK(rma_move(&end, false, all, offset, remote, 0, size));
        HG_CHECK_EQ_MEM(owned, places[i].at, size);
    }
    for (i = 0; i < 4; i++) /* at the same time */
        HG_CHECK_OK(rma_start(&end, &calls[i], true, all,
            (uintptr_t) stack - 1 + i * 100, remote, i * 1000, 100));
    for (i = 0; i < 4; i++) {
        HG_CHECK_OK(conform_wait(&end, &calls[i]));
        HG_CHECK_EQ_MEM(owned + i * 1000, stack + i * 100, 100);
    }
    hg_test_expect_log("are out of range");
    HG_CHECK_RET(
        rma_move(&end, true, all, UINT64_MAX - 1, remote, 0, 1), NA_OVERFLOW);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, all);
    conform_close(&end);
    free(heap);
    free(owned);
}

/* ---- A put with a message ---- */

static na_return_t rma_notify(struct conform_end *end,
    struct conform_call *call, na_mem_handle_t local, na_mem_handle_t remote,
    na_size_t size, const void *buf, na_size_t buf_size)
{
    memset(call, 0, sizeof(*call));
    return NA_Put_notify(end->na_class, end->context, conform_ended, call,
        local, 0, remote, 0, size, end->self, buf, buf_size, 9, &call->id);
}

HG_TEST(put_with_a_message)
{
    enum { SIZE = 400000 };
    unsigned char *from = (unsigned char *) malloc(SIZE);
    unsigned char *to = (unsigned char *) calloc(1, SIZE);
    na_size_t max;
    struct conform_call put, recv;
    struct conform_end end;
    na_mem_handle_t local, target, remote;
    char got[16], *large;
    na_return_t ret;

    HG_CHECK(from != NULL && to != NULL);
    conform_fill(from, SIZE, 1);
    conform_open(&end, NULL);
    hg_test_allow_log("a transfer was refused");
    max = NA_Msg_get_max_unexpected_size(end.na_class);
    large = (char *) calloc(1, max + 1);
    local = conform_memory(&end, from, SIZE, NA_MEM_READ_ONLY);
    target = conform_memory(&end, to, SIZE, NA_MEM_WRITE_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(rma_notify(&end, &put, local, remote, SIZE, "data", 5));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_EQ_MEM(to, from, SIZE);
    HG_CHECK(recv.size == 5 && recv.tag == 9);
    HG_CHECK_EQ_STR(got, "data");
    conform_free_addr(&end, &recv);
    HG_CHECK_OK(conform_wait(&end, &put));
    HG_CHECK_EQ_INT(put.type, NA_CB_PUT_NOTIFY);
    HG_CHECK_RET(NA_Cancel(end.na_class, end.context, put.id), NA_NOENTRY);
    /* Without a callback, without data, without bytes in the message. */
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Put_notify(end.na_class, end.context, NULL, NULL, local, 0,
        remote, 0, 0, end.self, NULL, 0, 3, NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK(recv.size == 0 && recv.tag == 3);
    conform_free_addr(&end, &recv);
    /* Nothing starts. */
    hg_test_expect_log("larger than the maximum");
    HG_CHECK_RET(
        rma_notify(&end, &put, local, remote, 8, large, max + 1), NA_MSGSIZE);
    hg_test_expect_log("are out of range");
    HG_CHECK_RET(
        rma_notify(&end, &put, local, remote, SIZE + 1, "x", 1), NA_OVERFLOW);
    hg_test_expect_log("NA_Put_notify: ");
    HG_CHECK_RET(
        rma_notify(&end, &put, local, remote, 8, NULL, 1), NA_INVALID_ARG);
    HG_CHECK_RET(
        rma_notify(&end, &put, NULL, remote, 8, "x", 1), NA_INVALID_ARG);
    HG_CHECK_RET(
        rma_notify(&end, &put, local, NULL, 8, "x", 1), NA_INVALID_ARG);
    HG_CHECK(put.ends == 0 && put.id == NA_OP_ID_NULL);
    /* The put fails: there is no message. */
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, target));
    ret = rma_notify(&end, &put, local, remote, SIZE, "data", 5);
    HG_CHECK_RET(
        ret == NA_SUCCESS ? conform_wait(&end, &put) : ret, NA_NOENTRY);
    conform_idle(&end);
    HG_CHECK_EQ_INT(recv.ends, 0);
    HG_CHECK_OK(NA_Cancel(end.na_class, end.context, recv.id));
    HG_CHECK_RET(conform_wait(&end, &recv), NA_CANCELED);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, local);
    conform_close(&end);
    free(large);
    free(from);
    free(to);
}

/* Each has one callback, with its result or NA_CANCELED. A message comes after
 * a success. Then the context ends with others in flight. */
HG_TEST(puts_with_messages_are_canceled)
{
    enum { COUNT = 20, SIZE = 300000 };
    static struct conform_call puts[COUNT], recvs[COUNT];
    static char from[SIZE], to[SIZE], got[COUNT][8];
    unsigned i, done = 0, came = 0;
    na_mem_handle_t local, target, remote;
    struct conform_end end;
    struct na_init_info info;

    conform_info(&info);
    info.rma_frame_size = 16384;
    info.rma_window = 65536;
    conform_open(&end, &info);
    local = conform_memory(&end, from, SIZE, NA_MEM_READ_ONLY);
    target = conform_memory(&end, to, SIZE, NA_MEM_WRITE_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_recv(&end, &recvs[i], false, got[i], 8, 0));
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(rma_notify(&end, &puts[i], local, remote, SIZE, "x", 2));
    for (i = 0; i < COUNT; i += 2) {
        na_return_t ret = NA_Cancel(end.na_class, end.context, puts[i].id);

        HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
    }
    for (i = 0; i < COUNT; i++) {
        na_return_t ret = conform_wait(&end, &puts[i]);

        HG_CHECK(ret == NA_SUCCESS || (ret == NA_CANCELED && i % 2 == 0));
        done += ret == NA_SUCCESS;
    }
    for (i = 0; i < done; i++)
        HG_CHECK_OK(conform_wait(&end, &recvs[i]));
    conform_idle(&end);
    for (i = 0; i < COUNT; i++) {
        came += recvs[i].ends;
        if (recvs[i].ends > 0)
            conform_free_addr(&end, &recvs[i]);
        else
            HG_CHECK_OK(NA_Cancel(end.na_class, end.context, recvs[i].id));
    }
    HG_CHECK_EQ_INT(came, done);
    for (i = 0; i < COUNT; i++)
        (void) conform_wait(&end, &recvs[i]);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(rma_notify(&end, &puts[i], local, remote, SIZE, "x", 2));
    HG_CHECK_OK(NA_Context_destroy(end.na_class, end.context));
    end.context = NA_Context_create(end.na_class);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, local);
    conform_close(&end);
}

/* Over libfabric a put to the own process ends later than its data arrives. */
static bool rma_moves_own_at_once(void)
{
    return hg_test_holds_back() && !hg_test_is_ofi();
}

/* The data has arrived, and the message waits for its receiver: it is withdrawn
 * like a send. */
HG_TEST_WHERE(
    message_of_a_put_is_canceled_while_it_waits, rma_moves_own_at_once)
{
    enum { MANY = 2000 };
    static char bytes[4000], got[4000];
    char from[64], to[64] = {0};
    struct conform_call put, recv;
    struct conform_end end;
    struct na_init_info info;
    na_mem_handle_t local, target, remote;
    unsigned turns, sent = 0;

    conform_info(&info);
    info.max_queue_bytes = 1 << 17;
    conform_open(&end, &info);
    conform_fill(from, sizeof(from), 1);
    local = conform_memory(&end, from, sizeof(from), NA_MEM_READ_ONLY);
    target = conform_memory(&end, to, sizeof(to), NA_MEM_WRITE_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    for (turns = 0; turns < 20; turns++) { /* until all is full */
        while (NA_Msg_try_send_unexpected(end.na_class, end.context, bytes,
                   sizeof(bytes), end.self, 5) == NA_SUCCESS) {
            HG_CHECK(sent++ < MANY);
            turns = 0;
        }
        (void) conform_turn(end.na_class, end.context, 1);
    }
    HG_CHECK_OK(
        rma_notify(&end, &put, local, remote, sizeof(from), bytes, 4000));
    conform_idle(&end);
    HG_CHECK_EQ_MEM(to, from, sizeof(from));
    HG_CHECK_EQ_INT(put.ends, 0);
    HG_CHECK_OK(NA_Cancel(end.na_class, end.context, put.id));
    HG_CHECK_RET(conform_wait(&end, &put), NA_CANCELED);
    while (sent-- > 0) {
        HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_INT(recv.tag, 5);
        conform_free_addr(&end, &recv);
    }
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    conform_idle(&end);
    HG_CHECK_EQ_INT(recv.ends, 0);
    HG_CHECK_OK(NA_Cancel(end.na_class, end.context, recv.id));
    HG_CHECK_RET(conform_wait(&end, &recv), NA_CANCELED);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, local);
    conform_close(&end);
}

/* ---- Memory of the library, and pointers ---- */

HG_TEST(library_memory_is_zeroed_aligned_and_moved)
{
    static const na_size_t sizes[] = {1, 4095, 4096, 4097, (2 << 20) + 1};
    char *memory[sizeof(sizes) / sizeof(sizes[0])];
    na_mem_handle_t local, target, remote;
    struct conform_end end;
    size_t i, k;

    conform_open(&end, NULL);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memory[i] = (char *) NA_Mem_alloc(end.na_class, sizes[i]);
        HG_CHECK(memory[i] != NULL && (uintptr_t) memory[i] % 4096 == 0);
        for (k = 0; k < sizes[i]; k++)
            HG_CHECK(memory[i][k] == 0);
        memset(memory[i], (int) i + 1, sizes[i]);
    }
    for (k = 0; k < i; k++)
        HG_CHECK(memory[k][0] == (char) (k + 1) &&
            memory[k][sizes[k] - 1] == (char) (k + 1));
    local = conform_memory(&end, memory[3], 4097, NA_MEM_READ_ONLY);
    target = conform_memory(&end, memory[4], sizes[4], NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    HG_CHECK_OK(rma_move(&end, true, local, 0, remote, 100, 4097));
    HG_CHECK(memory[4][99] == 5 && memory[4][100] == 4);
    HG_CHECK(memory[4][4196] == 4 && memory[4][4197] == 5);
    rma_free(&end, remote);
    rma_free(&end, target);
    rma_free(&end, local);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        HG_CHECK_OK(NA_Mem_free(end.na_class, memory[i]));
    conform_close(&end);
}

HG_TEST(library_memory_arguments_are_checked)
{
    struct conform_end a, b;
    char *memory, own[16];

    conform_open(&a, NULL);
    conform_open(&b, NULL);
    hg_test_expect_log("NA_Mem_alloc: ");
    HG_CHECK(NA_Mem_alloc(NULL, 10) == NULL);
    HG_CHECK(NA_Mem_alloc(a.na_class, 0) == NULL);
    memory = (char *) NA_Mem_alloc(a.na_class, 10000);
    HG_CHECK(memory != NULL);
    hg_test_expect_log("NA_Mem_free: ");
    HG_CHECK_RET(NA_Mem_free(NULL, memory), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_free(a.na_class, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_free(a.na_class, own), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_free(a.na_class, memory + 4096), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_free(b.na_class, memory), NA_INVALID_ARG);
    hg_test_expect_log("NA_Mem_unmap: ");
    HG_CHECK_RET(NA_Mem_unmap(a.na_class, memory), NA_INVALID_ARG);
    HG_CHECK_OK(NA_Mem_free(a.na_class, memory));
    HG_CHECK_RET(NA_Mem_free(a.na_class, memory), NA_INVALID_ARG);
    conform_close(&a);
    conform_close(&b);
}

/* Memory of this process is at its own address. libfabric does not know it by
 * its handle. */
HG_TEST(pointer_to_memory_of_this_process)
{
    bool knows = !hg_test_is_ofi() && strcmp(hg_test_transport(), "mux") != 0;
    struct conform_end end, other;
    static char bytes[100];
    struct na_segment segments[2] = {{bytes, 50}, {bytes + 50, 50}};
    na_mem_handle_t mem, remote, pieces;
    void *ptr = NULL, *again = NULL;

    conform_open(&end, NULL);
    conform_open(&other, NULL);
    mem = conform_memory(&end, bytes, sizeof(bytes), NA_MEM_READ_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    remote = conform_remote(&end, mem);
    hg_test_expect_log("NA_Mem_map: ");
    HG_CHECK_RET(NA_Mem_map(NULL, remote, end.self, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_map(end.na_class, NULL, end.self, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Mem_map(end.na_class, mem, end.self, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_map(end.na_class, remote, NA_ADDR_NULL, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_map(end.na_class, remote, other.self, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_map(other.na_class, remote, other.self, &ptr), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Mem_map(end.na_class, remote, end.self, NULL), NA_INVALID_ARG);
    HG_CHECK(ptr == NULL);
    HG_CHECK_RET(NA_Mem_map(end.na_class, remote, end.self, &ptr),
        knows ? NA_SUCCESS : NA_OPNOTSUPPORT);
    if (knows) {
        HG_CHECK(ptr == bytes);
        HG_CHECK_OK(NA_Mem_map(end.na_class, remote, end.self, &again));
        HG_CHECK_OK(NA_Mem_unmap(end.na_class, ptr));
        HG_CHECK_OK(NA_Mem_unmap(end.na_class, again));
        hg_test_expect_log("NA_Mem_unmap: ");
        HG_CHECK_RET(NA_Mem_unmap(end.na_class, ptr), NA_INVALID_ARG);
        HG_CHECK_RET(NA_Mem_unmap(end.na_class, NULL), NA_INVALID_ARG);
        /* Withdrawn; and several segments. */
        HG_CHECK_OK(NA_Mem_deregister(end.na_class, mem));
        hg_test_expect_log("a handle of 100 bytes of a peer is not mapped");
        HG_CHECK_RET(
            NA_Mem_map(end.na_class, remote, end.self, &ptr), NA_NOENTRY);
    }
    rma_free(&end, remote);
    rma_handle(&end, segments, 2, NA_MEM_READWRITE, &pieces);
    HG_CHECK_OK(NA_Mem_register(end.na_class, pieces));
    remote = conform_remote(&end, pieces);
    HG_CHECK_RET(
        NA_Mem_map(end.na_class, remote, end.self, &ptr), NA_OPNOTSUPPORT);
    rma_free(&end, remote);
    rma_free(&end, pieces);
    rma_free(&end, mem);
    conform_close(&other);
    conform_close(&end);
}

HG_TEST(put_completes_before_a_later_message_arrives)
{
    struct conform_end end;
    struct conform_call put, send, recv;
    char a[100], b[100], got[4];
    na_mem_handle_t local, target, remote;
    unsigned i;

    conform_open(&end, NULL);
    local = conform_memory(&end, a, sizeof(a), NA_MEM_READ_ONLY);
    target = conform_memory(&end, b, sizeof(b), NA_MEM_WRITE_ONLY);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    for (i = 0; i < 100; i++) {
        conform_fill(a, sizeof(a), i);
        HG_CHECK_OK(
            rma_start(&end, &put, true, local, 0, remote, 0, sizeof(a)));
        HG_CHECK_OK(conform_wait(&end, &put));
        HG_CHECK_OK(conform_recv(&end, &recv, true, got, 4, 1));
        HG_CHECK_OK(conform_send(&end, &send, true, "now", 4, 1));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_MEM(b, a, sizeof(a));
        HG_CHECK_OK(conform_wait(&end, &send));
    }
    rma_free(&end, target);
    rma_free(&end, remote);
    rma_free(&end, local);
    conform_close(&end);
}
