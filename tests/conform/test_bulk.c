/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk data: handles, and transfers of every segment layout compared with a
 * model. On every transport, to oneself or between two processes. Both sides
 * fill memory from a seed that the call carries, so each knows what the other
 * has.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <sys/mman.h>
#include <unistd.h>

MERCURY_GEN_PROC(bulk_move_t,
    ((hg_bulk_t) (bulk))((uint8_t) (push))((uint64_t) (offset))(
        (uint64_t) (local_offset))((uint64_t) (size))((uint64_t) (seed)))
MERCURY_GEN_PROC(bulk_moved_t, ((int32_t) (ret))((uint64_t) (sum)))
MERCURY_GEN_PROC(bulk_back_t, ((hg_bulk_t) (bulk)))

static hg_id_t bulk_move_id, bulk_count_id, bulk_pass_id, bulk_huge_id,
    bulk_keep_id;

/* ---- Memory in pieces ---- */

#define BULK_MAX_SEGMENTS 100

struct bulk_memory {
    size_t count;
    size_t size;
    size_t sizes[BULK_MAX_SEGMENTS];
    void *ptrs[BULK_MAX_SEGMENTS];
    unsigned char *bytes; /* segments with gaps of one byte between them */
    size_t total;
};

static void bulk_make(struct bulk_memory *memory, uint64_t seed)
{
    uint64_t state = seed;
    size_t at = 1;
    size_t i;

    memset(memory, 0, sizeof(*memory));
    memory->count = 1 + hg_test_random(&state) % BULK_MAX_SEGMENTS;
    memory->total = 1;
    for (i = 0; i < memory->count; i++) {
        uint64_t dice = hg_test_random(&state);

        memory->sizes[i] = dice % 4 == 0 ? 0
            : dice % 16 == 1             ? (dice >> 8) % 100000
                                         : (dice >> 8) % 500;
        memory->size += memory->sizes[i];
        memory->total += memory->sizes[i] + 1;
    }
    memory->bytes = rpc_new_pattern(memory->total, seed);
    for (i = 0; i < memory->count; i++) {
        memory->ptrs[i] = memory->bytes + at;
        at += memory->sizes[i] + 1;
    }
}

/* Copy the logical bytes out of the segments, or into them. */
static void bulk_copy(const struct bulk_memory *memory, size_t offset,
    unsigned char *flat, size_t size, bool in)
{
    size_t i;

    for (i = 0; i < memory->count && size > 0; i++) {
        unsigned char *piece = (unsigned char *) memory->ptrs[i];
        size_t length = memory->sizes[i];

        if (offset >= length) {
            offset -= length;
            continue;
        }
        length -= offset;
        if (length > size)
            length = size;
        if (in)
            memcpy(piece + offset, flat, length);
        else
            memcpy(flat, piece + offset, length);
        flat += length;
        size -= length;
        offset = 0;
    }
    HG_CHECK_EQ_U64(size, 0);
}

/* Copy all of them into memory allocated by the library, or out of it. */
static void bulk_exchange(
    hg_bulk_t bulk, const struct bulk_memory *memory, bool in)
{
    void *ptrs[BULK_MAX_SEGMENTS];
    size_t sizes[BULK_MAX_SEGMENTS];
    unsigned count = 0;
    size_t at = 0;
    unsigned i;

    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, memory->size, 0, BULK_MAX_SEGMENTS, ptrs, sizes, &count));
    for (i = 0; i < count; i++) {
        bulk_copy(memory, at, (unsigned char *) ptrs[i], sizes[i], !in);
        at += sizes[i];
    }
    HG_CHECK_EQ_U64(at, memory->size);
}

/* ---- Handlers ---- */

static hg_return_t bulk_transfer(
    na_addr_t addr, const bulk_move_t *in, hg_bulk_t local)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_status_t status = HG_FALSE;
    hg_return_t ret;

    ret = HG_Bulk_transfer(in->push ? HG_BULK_PUSH : HG_BULK_PULL, addr,
        in->bulk, (size_t) in->offset, local, (size_t) in->local_offset,
        (size_t) in->size, &request);
    if (ret != HG_SUCCESS)
        return ret;
    while ((ret = HG_Bulk_wait(request, 100, &status)) == HG_TIMEOUT)
        HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_EQ_INT(status, HG_TRUE);
    return ret;
}

/* Move data between the caller's memory and memory of ours filled from the
 * seed. The output has the result, and the sum of our memory afterwards, gaps
 * included. */
static hg_return_t bulk_move(hg_handle_t handle)
{
    struct bulk_memory memory;
    bulk_move_t in;
    bulk_moved_t out = {0, 0};
    hg_bulk_t local;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    bulk_make(&memory, in.seed);
    HG_CHECK_OK(HG_Bulk_handle_create(
        memory.count, memory.ptrs, memory.sizes, HG_BULK_READWRITE, &local));
    out.ret = bulk_transfer(HG_Handler_get_addr(handle), &in, local);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    out.sum = blob_sum(memory.bytes, memory.total);
    free(memory.bytes);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* The sum of the caller's memory. */
static hg_return_t bulk_count(hg_handle_t handle)
{
    bulk_back_t in;
    bulk_move_t move;
    bulk_moved_t out = {0, 0};
    hg_bulk_t local;
    void *bytes;
    size_t size;
    unsigned count;
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    memset(&move, 0, sizeof(move));
    move.bulk = in.bulk;
    size = HG_Bulk_handle_get_size(in.bulk);
    move.size = size;
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &local));
    out.ret = bulk_transfer(HG_Handler_get_addr(handle), &move, local);
    HG_CHECK_OK(HG_Bulk_handle_access(
        local, 0, size, HG_BULK_READ_ONLY, 1, &bytes, &size, &count));
    out.sum = blob_sum((const unsigned char *) bytes, size);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* A call whose input is used after its caller has continued. */
static hg_handle_t bulk_kept;
static bulk_back_t bulk_kept_in;

static hg_return_t bulk_keep(hg_handle_t handle)
{
    bulk_kept = handle;
    return HG_Handler_get_input(handle, &bulk_kept_in);
}

/* Read the caller's memory, and the bytes of its handle. */
static hg_return_t bulk_pass(hg_handle_t handle)
{
    bulk_back_t in;
    bulk_moved_t out = {0, 0};
    unsigned char scratch[4096];
    void *bytes;
    size_t size;
    unsigned count;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    out.ret = HG_Bulk_handle_access(
        in.bulk, 0, 1, HG_BULK_READ_ONLY, 1, &bytes, &size, &count);
    HG_CHECK_OK(HG_Bulk_handle_serialize(scratch, sizeof(scratch), in.bulk));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* ---- 5 GiB of addresses over little memory ---- */

#define BULK_HUGE ((size_t) 5 << 30)
#define BULK_WINDOW ((size_t) 64 << 20)

static unsigned char *bulk_map_huge(void)
{
    int fd = memfd_create("bulk", MFD_CLOEXEC);
    unsigned char *base;
    size_t at;

    HG_CHECK(fd >= 0);
    HG_CHECK(ftruncate(fd, (off_t) BULK_WINDOW) == 0);
    base = (unsigned char *) mmap(NULL, BULK_HUGE, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HG_CHECK(base != MAP_FAILED);
    for (at = 0; at < BULK_HUGE; at += BULK_WINDOW)
        HG_CHECK(mmap(base + at, BULK_WINDOW, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    close(fd);
    return base;
}

/* Pull all of the caller's 5 GiB into ours; returns the sum of the last
 * window. */
static hg_return_t bulk_huge(hg_handle_t handle)
{
    unsigned char *base = bulk_map_huge();
    void *ptr = base;
    size_t size = BULK_HUGE;
    bulk_move_t move;
    bulk_back_t in;
    bulk_moved_t out = {0, 0};
    hg_bulk_t local;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    memset(&move, 0, sizeof(move));
    move.bulk = in.bulk;
    move.size = size;
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &local));
    out.ret = bulk_transfer(HG_Handler_get_addr(handle), &move, local);
    out.sum = blob_sum(base + BULK_HUGE - BULK_WINDOW, BULK_WINDOW);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK(munmap(base, BULK_HUGE) == 0);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    bulk_move_id =
        MERCURY_REGISTER("bulk move", bulk_move_t, bulk_moved_t, bulk_move);
    bulk_count_id =
        MERCURY_REGISTER("bulk count", bulk_back_t, bulk_moved_t, bulk_count);
    bulk_pass_id =
        MERCURY_REGISTER("bulk pass", bulk_back_t, bulk_moved_t, bulk_pass);
    bulk_huge_id =
        MERCURY_REGISTER("bulk huge", bulk_back_t, bulk_moved_t, bulk_huge);
    bulk_keep_id = MERCURY_REGISTER("bulk keep", bulk_back_t, void, bulk_keep);
    HG_CHECK(bulk_huge_id != 0 && bulk_keep_id != 0);
}

/* ---- Every segment layout ---- */

static void bulk_try_shape(const struct rpc_end *end, uint64_t *state)
{
    struct bulk_memory mine;
    struct bulk_memory theirs;
    struct bulk_memory want;
    unsigned char *flat;
    bulk_move_t in;
    bulk_moved_t out = {-1, 0};
    size_t most;
    uint64_t seed = hg_test_random(state);
    bool librarys = hg_test_random(state) % 2 == 0;

    bulk_make(&mine, seed);
    memset(&in, 0, sizeof(in));
    in.seed = hg_test_random(state);
    in.push = hg_test_random(state) % 2 == 0;
    bulk_make(&theirs, in.seed);
    bulk_make(&want, in.push ? seed : in.seed);
    most = mine.size < theirs.size ? mine.size : theirs.size;
    in.size = hg_test_random(state) % (most + 1);
    in.offset = hg_test_random(state) % (mine.size - in.size + 1);
    in.local_offset = hg_test_random(state) % (theirs.size - in.size + 1);
    flat = (unsigned char *) malloc((size_t) in.size + 1);
    HG_CHECK(flat != NULL);
    bulk_copy(in.push ? &theirs : &mine,
        (size_t) (in.push ? in.local_offset : in.offset), flat,
        (size_t) in.size, false);
    bulk_copy(&want, (size_t) (in.push ? in.offset : in.local_offset), flat,
        (size_t) in.size, true);

    HG_CHECK_OK(HG_Bulk_handle_create(mine.count, librarys ? NULL : mine.ptrs,
        mine.sizes, in.push ? HG_BULK_WRITE_ONLY : HG_BULK_READ_ONLY,
        &in.bulk));
    if (librarys)
        bulk_exchange(in.bulk, &mine, true);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(in.bulk), mine.size);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(in.bulk), mine.count);
    HG_CHECK_OK(rpc_call(end, bulk_move_id, &in, &out));
    HG_CHECK_OK(out.ret);
    if (librarys)
        bulk_exchange(in.bulk, &mine, false);
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    if (in.push) {
        HG_CHECK_EQ_MEM(mine.bytes, want.bytes, want.total);
        HG_CHECK_EQ_U64(out.sum, blob_sum(theirs.bytes, theirs.total));
    } else {
        HG_CHECK_EQ_U64(out.sum, blob_sum(want.bytes, want.total));
    }
    free(flat);
    free(want.bytes);
    free(theirs.bytes);
    free(mine.bytes);
}

HG_TEST_SECONDS(bulk_moves_every_segment_layout, 60)
{
    uint64_t state = hg_test_seed();
    struct rpc_end end;
    int i;

    rpc_open(&end);
    for (i = 0; i < 75; i++)
        bulk_try_shape(&end, &state);
    rpc_close(&end);
}

HG_TEST_SECONDS(bulk_moves_on_a_separate_class, 60)
{
    uint64_t state = hg_test_seed();
    struct rpc_end end;
    int i;

    rpc_open_with(&end, NULL, true);
    for (i = 0; i < 30; i++)
        bulk_try_shape(&end, &state);
    rpc_close(&end);
}

/* Otherwise a class that does not listen can be reached: see
 * test_bulk_class.c. */
static bool bulk_needs_listener(void)
{
    return strncmp(hg_test_transport(), "self", 4) == 0 ||
        strncmp(hg_test_transport(), "zmq", 3) == 0;
}

HG_TEST_WHERE(bulk_class_must_listen, bulk_needs_listener)
{
    size_t size = 10;
    na_class_t *rpc_class = rpc_open_class(NA_TRUE);
    na_class_t *bulk_class = rpc_open_class(NA_FALSE);
    hg_bulk_t early;
    hg_bulk_t late;
    unsigned char bytes[256];

    HG_CHECK_OK(HG_Bulk_init(bulk_class));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &early));
    HG_CHECK_OK(HG_Init(rpc_class));
    hg_test_expect_log("does not listen");
    HG_CHECK_RET(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &late),
        HG_OPNOTSUPPORT);
    HG_CHECK_RET(
        HG_Bulk_handle_serialize(bytes, sizeof(bytes), early), HG_OPNOTSUPPORT);
    HG_CHECK_OK(HG_Bulk_handle_free(early));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(HG_Bulk_finalize());
    HG_CHECK_OK(NA_Finalize(bulk_class));
    HG_CHECK_OK(NA_Finalize(rpc_class));
}

HG_TEST_SECONDS(bulk_moves_65536_segments, 60)
{
    enum { COUNT = 65536, PIECE = 24 };
    unsigned char *bytes = rpc_new_pattern((size_t) COUNT * PIECE, 3);
    unsigned char *flat = (unsigned char *) malloc((size_t) COUNT * PIECE);
    hg_bulk_segment_t *segments =
        (hg_bulk_segment_t *) calloc(COUNT, sizeof(*segments));
    bulk_back_t in;
    bulk_moved_t out = {-1, 0};
    struct rpc_end end;
    size_t i;

    HG_CHECK(flat != NULL && segments != NULL);
    for (i = 0; i < COUNT; i++) { /* backwards: no two are adjacent */
        segments[i].address = bytes + (COUNT - 1 - i) * PIECE;
        segments[i].size = PIECE;
        memcpy(flat + i * PIECE, segments[i].address, PIECE);
    }
    rpc_open(&end);
    HG_CHECK_OK(HG_Bulk_handle_create_segments(
        segments, COUNT, HG_BULK_READ_ONLY, &in.bulk));
    HG_CHECK_OK(rpc_call(&end, bulk_count_id, &in, &out));
    HG_CHECK_OK(out.ret);
    HG_CHECK_EQ_U64(out.sum, blob_sum(flat, (size_t) COUNT * PIECE));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
    free(segments);
    free(flat);
    free(bytes);
}

HG_TEST_SECONDS(bulk_moves_5_gib, 120)
{
    unsigned char *base;
    unsigned char *last;
    bulk_back_t in;
    bulk_move_t move;
    bulk_moved_t out = {-1, 0};
    struct bulk_memory theirs;
    struct rpc_end end;
    size_t size = BULK_HUGE;
    void *ptr;
    hg_request_t request;
    hg_return_t ret;

    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("takes 10 s; set HG_TEST_FULL");
    base = bulk_map_huge();
    ptr = base;
    last = rpc_new_pattern(BULK_WINDOW, 11);
    memcpy(base, last, BULK_WINDOW);
    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &in.bulk));
    request = rpc_start_call(&end, bulk_huge_id, &in, &out);
    ret = HG_Wait(request, 100000, HG_STATUS_IGNORE);
    HG_CHECK_OK(ret);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(out.ret);
    HG_CHECK_EQ_U64(out.sum, blob_sum(last, BULK_WINDOW));

    /* Beyond 2^32, into other memory, from a place with other contents. */
    HG_CHECK(
        mmap(base + ((size_t) 4 << 30), BULK_WINDOW, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    memset(base + ((size_t) 4 << 30), 0x77, BULK_WINDOW);
    memset(&move, 0, sizeof(move));
    move.bulk = in.bulk;
    move.seed = 5;
    bulk_make(&theirs, move.seed);
    move.size = theirs.size;
    move.offset = ((uint64_t) 4 << 30) + 12345;
    HG_CHECK_OK(rpc_call(&end, bulk_move_id, &move, &out));
    HG_CHECK_OK(out.ret);
    bulk_copy(&theirs, 0, base + ((size_t) 4 << 30), theirs.size, true);
    HG_CHECK_EQ_U64(out.sum, blob_sum(theirs.bytes, theirs.total));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
    HG_CHECK(munmap(base, BULK_HUGE) == 0);
    free(theirs.bytes);
    free(last);
}

/* ---- Handles ---- */

HG_TEST(bulk_memory_can_be_allocated_by_the_library)
{
    size_t sizes[3] = {100, 0, 50};
    unsigned char mine[60];
    void *ptrs[3] = {NULL, NULL, mine};
    void *got[4];
    size_t lengths[4];
    unsigned count = 77;
    struct rpc_end end;
    hg_bulk_t bulk;
    unsigned i;

    rpc_open(&end);
    memset(mine, 0x11, sizeof(mine));
    HG_CHECK_OK(
        HG_Bulk_handle_create(3, ptrs, sizes, HG_BULK_READWRITE, &bulk));
    sizes[0] = 1; /* the arrays were copied */
    ptrs[2] = NULL;
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(bulk), 150);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(bulk), 3);
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, 150, HG_BULK_READWRITE, 4, got, lengths, &count));
    HG_CHECK_EQ_INT(count, 2); /* an empty segment has no bytes */
    HG_CHECK_EQ_U64(lengths[0], 100);
    HG_CHECK_EQ_U64(lengths[1], 50);
    HG_CHECK(got[1] == mine);
    for (i = 0; i < 100; i++)
        HG_CHECK_EQ_INT(((const unsigned char *) got[0])[i], 0);

    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 99, 10, HG_BULK_READ_ONLY, 4, got, lengths, &count));
    HG_CHECK_EQ_INT(count, 2);
    HG_CHECK_EQ_U64(lengths[0], 1);
    HG_CHECK_EQ_U64(lengths[1], 9);
    HG_CHECK(got[1] == mine);
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 99, 10, HG_BULK_READ_ONLY, 1, got, lengths, &count));
    HG_CHECK_EQ_INT(count, 1);
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 100, 1, HG_BULK_READ_ONLY, 4, got, lengths, &count));
    HG_CHECK(count == 1 && got[0] == mine);
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 150, 0, HG_BULK_READ_ONLY, 4, got, lengths, &count));
    HG_CHECK_EQ_INT(count, 0);
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, 150, HG_BULK_READ_ONLY, 0, NULL, NULL, &count));
    HG_CHECK_EQ_INT(count, 0);
    hg_test_expect_log("access: out of range");
    HG_CHECK_RET(
        HG_Bulk_handle_access(bulk, 150, 1, 0, 4, got, lengths, &count),
        HG_OVERFLOW);
    HG_CHECK_RET(
        HG_Bulk_handle_access(bulk, SIZE_MAX, 2, 0, 4, got, lengths, &count),
        HG_OVERFLOW);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));

    sizes[0] = 10;
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, sizes, HG_BULK_READ_ONLY, &bulk));
    hg_test_expect_log("the flags ask for more");
    HG_CHECK_RET(HG_Bulk_handle_access(
                     bulk, 0, 1, HG_BULK_WRITE_ONLY, 4, got, lengths, &count),
        HG_PERMISSION);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));

    sizes[0] = SIZE_MAX;
    sizes[1] = 2;
    hg_test_expect_log("sizes overflow");
    HG_CHECK_RET(
        HG_Bulk_handle_create(2, NULL, sizes, HG_BULK_READ_ONLY, &bulk),
        HG_INVALID_ARG);
    rpc_close(&end);
}

HG_TEST(bulk_flags_and_ranges_hold_on_both_sides)
{
    static const struct {
        unsigned long flags;
        uint8_t push;
        uint64_t offset;
        uint64_t local_offset;
        uint64_t size;
        hg_return_t ret;
    } tries[] = {
        {HG_BULK_READ_ONLY, 1, 0, 0, 1, HG_PERMISSION},
        {HG_BULK_READ_ONLY, 1, 0, 0, 0, HG_PERMISSION},
        {HG_BULK_WRITE_ONLY, 0, 0, 0, 1, HG_PERMISSION},
        {HG_BULK_READWRITE, 0, 64, 0, 1, HG_OVERFLOW},
        {HG_BULK_READWRITE, 1, 0, 0, 65, HG_OVERFLOW},
        {HG_BULK_READWRITE, 0, UINT64_MAX, 0, 2, HG_OVERFLOW},
        {HG_BULK_READWRITE, 0, 1, 0, UINT64_MAX, HG_OVERFLOW},
        {HG_BULK_READWRITE, 0, 0, UINT64_MAX, 2, HG_OVERFLOW},
        {HG_BULK_READWRITE, 0, 64, 0, 0, HG_SUCCESS},
        {HG_BULK_READWRITE, 1, 0, 0, 0, HG_SUCCESS},
    };
    struct hg_counters counters;
    struct rpc_end end;
    size_t size = 64;
    size_t i;

    hg_test_allow_log("forbidden by the flags of the origin's");
    hg_test_allow_log("past the end of");
    rpc_open(&end);
    for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        bulk_moved_t out = {-1, 0};
        bulk_move_t in;

        in.push = tries[i].push;
        in.offset = tries[i].offset;
        in.local_offset = tries[i].local_offset;
        in.size = tries[i].size;
        in.seed = 5;
        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, tries[i].flags, &in.bulk));
        HG_CHECK_OK(rpc_call(&end, bulk_move_id, &in, &out));
        HG_CHECK_RET(out.ret, tries[i].ret);
        HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    }
    counters = rpc_counters();
    HG_CHECK_EQ_U64(counters.bulk_bytes_pulled, 0);
    HG_CHECK_EQ_U64(counters.bulk_bytes_pushed, 0);
    rpc_close(&end);
}

/* The address of a handle's memory; NULL: the handle must not be used any
 * more. */
static void *bulk_start_of(hg_bulk_t bulk)
{
    void *start = NULL;
    size_t size;
    unsigned count;
    hg_return_t ret =
        HG_Bulk_handle_access(bulk, 0, HG_Bulk_handle_get_size(bulk),
            HG_BULK_READ_ONLY, 1, &start, &size, &count);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_NOENTRY);
    return ret == HG_SUCCESS ? start : NULL;
}

HG_TEST(bulk_handle_can_be_serialized)
{
    unsigned char bytes[1024];
    unsigned char again[1024];
    struct rpc_end end;
    size_t size = 10;
    size_t length;
    hg_bulk_t bulk;
    hg_bulk_t same = HG_BULK_NULL;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk));
    length = HG_Bulk_handle_get_serialize_size(bulk);
    HG_CHECK(length > 0 && length <= sizeof(bytes));
    hg_test_expect_log("too few for the bulk handle");
    HG_CHECK_RET(HG_Bulk_handle_serialize(bytes, length - 1, bulk), HG_MSGSIZE);
    HG_CHECK_OK(HG_Bulk_handle_serialize(bytes, length, bulk));
    /* Back at its owner it is the same memory; freeing it affects no other
     * handle. */
    HG_CHECK_OK(HG_Bulk_handle_deserialize(&same, bytes, length));
    HG_CHECK(bulk_start_of(same) == bulk_start_of(bulk));
    HG_CHECK_OK(HG_Bulk_handle_free(same));
    HG_CHECK_OK(HG_Bulk_handle_deserialize(&same, bytes, length));
    HG_CHECK(bulk_start_of(same) == bulk_start_of(bulk));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    hg_test_expect_log("a bulk handle of this process was freed");
    HG_CHECK(bulk_start_of(same) == NULL);
    HG_CHECK_OK(HG_Bulk_handle_free(same));
    /* Decoding succeeds, as in a peer. The bytes are what they were. */
    HG_CHECK_OK(HG_Bulk_handle_deserialize(&same, bytes, length));
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(same), 10);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(same), 1);
    HG_CHECK(bulk_start_of(same) == NULL);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_serialize_size(same), length);
    HG_CHECK_OK(HG_Bulk_handle_serialize(again, sizeof(again), same));
    HG_CHECK_EQ_MEM(again, bytes, length);
    HG_CHECK_OK(HG_Bulk_handle_free(same));
    hg_test_expect_log("bytes are not a bulk handle");
    bytes[0] ^= 1;
    HG_CHECK_RET(
        HG_Bulk_handle_deserialize(&same, bytes, length), HG_PROTOCOL_ERROR);
    HG_CHECK_RET(HG_Bulk_handle_deserialize(&same, "", 0), HG_PROTOCOL_ERROR);
    rpc_close(&end);
}

/* A pointer to memory of this process is its address. It holds the handle: the
 * memory is freed when it is unmapped. */
HG_TEST(bulk_memory_of_this_process_is_mapped)
{
    size_t sizes[3] = {100, 0, 50};
    unsigned char mine[60], bytes[1024];
    void *ptrs[3] = {NULL, NULL, mine};
    struct rpc_end end;
    hg_bulk_t bulk, same;
    void *ptr = NULL, *again = NULL;
    size_t length;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(3, ptrs, sizes, HG_BULK_READWRITE, &bulk));
    hg_test_expect_log("HG_Bulk_map: ");
    HG_CHECK_RET(HG_Bulk_map(HG_BULK_NULL, 0, &ptr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_map(bulk, 0, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_map(bulk, 3, &ptr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_map(bulk, UINT64_MAX, &ptr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_map(bulk, 1, &ptr), HG_OPNOTSUPPORT);
    HG_CHECK(ptr == NULL);
    HG_CHECK_OK(HG_Bulk_map(bulk, 2, &ptr));
    HG_CHECK(ptr == mine);
    hg_test_expect_log("HG_Bulk_unmap: ");
    HG_CHECK_RET(HG_Bulk_unmap(HG_BULK_NULL, ptr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_unmap(bulk, mine + 1), HG_INVALID_ARG);
    hg_test_expect_log("NA_Mem_unmap: ");
    HG_CHECK_RET(NA_Mem_unmap(end.na_class, ptr), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_unmap(bulk, ptr));
    HG_CHECK_RET(HG_Bulk_unmap(bulk, ptr), HG_INVALID_ARG);
    length = HG_Bulk_handle_get_serialize_size(bulk);
    HG_CHECK(length > 0 && length <= sizeof(bytes));
    HG_CHECK_OK(HG_Bulk_handle_serialize(bytes, length, bulk));
    HG_CHECK_OK(HG_Bulk_handle_deserialize(&same, bytes, length));
    HG_CHECK_OK(HG_Bulk_map(same, 0, &ptr));
    HG_CHECK(ptr == bulk_start_of(bulk));
    HG_CHECK_OK(HG_Bulk_map(bulk, 0, &again));
    HG_CHECK(again == ptr);
    HG_CHECK_OK(HG_Bulk_handle_free(same));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    memset(ptr, 7, 100);
    HG_CHECK_RET(HG_Bulk_unmap(bulk, mine), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_unmap(bulk, again));
    memset(ptr, 8, 100);
    hg_test_expect_log("a bulk handle of this process was freed");
    HG_CHECK_RET(HG_Bulk_map(same, 0, &again), HG_NOENTRY);
    HG_CHECK_OK(HG_Bulk_unmap(same, ptr));
    rpc_close(&end);
}

HG_TEST(bulk_handle_of_a_peer_stays_bound_to_it)
{
    bulk_moved_t out = {-1, 0};
    struct rpc_end end;
    bulk_back_t in;
    size_t size = 10;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &in.bulk));
    HG_CHECK_OK(rpc_call(&end, bulk_pass_id, &in, &out));
    HG_CHECK_RET(out.ret, end.peer != NULL ? HG_OPNOTSUPPORT : HG_SUCCESS);
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
}

HG_TEST(bulk_handle_may_be_null)
{
    bulk_moved_t out = {-1, 0};
    bulk_back_t in = {HG_BULK_NULL};
    struct rpc_end end;

    hg_test_allow_log("the origin's handle is NULL");
    rpc_open(&end);
    HG_CHECK_OK(rpc_call(&end, bulk_count_id, &in, &out));
    HG_CHECK_RET(out.ret, HG_INVALID_ARG);
    rpc_close(&end);
}

/* Memory withdrawn before the server uses it: the function runs, and its
 * transfer fails, also in a call to oneself. Over sm, which mux uses too, the
 * server may be faster, since the owner need not take part. */
HG_TEST(bulk_handle_may_be_freed_too_early)
{
    bulk_moved_t out = {HG_SUCCESS, 0};
    struct rpc_end end;
    size_t size = 10;
    hg_request_t request;
    bulk_back_t in;

    hg_test_allow_log("a bulk handle of this process was freed");
    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &in.bulk));
    request = rpc_start_call(&end, bulk_count_id, &in, &out);
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    HG_CHECK_OK(rpc_wait(request));
    if (out.ret != HG_SUCCESS ||
        (strcmp(hg_test_transport(), "sm") != 0 && !hg_test_is_mux()))
        HG_CHECK_RET(out.ret, HG_NOENTRY);
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

/* As before, with oneself as the target: the server has the handle already when
 * its memory is withdrawn. */
HG_TEST_WHERE(bulk_to_oneself_ends_with_its_owner, hg_test_is_self)
{
    unsigned char *bytes = rpc_new_pattern(1000, 1);
    hg_bulk_request_t transfer;
    struct rpc_end end;
    size_t size = 1000;
    hg_request_t request;
    na_addr_t caller;
    hg_bulk_t local;
    bulk_back_t in;
    void *ptr = bytes;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &in.bulk));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &local));
    request = rpc_start_call(&end, bulk_keep_id, &in, NULL);
    while (bulk_kept == NULL)
        (void) HG_Wait(request, 10, HG_STATUS_IGNORE);
    caller = HG_Handler_get_addr(bulk_kept);
    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, caller, bulk_kept_in.bulk, 0, local, 0, size, &transfer));
    HG_CHECK_OK(HG_Bulk_wait(transfer, RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK(bulk_start_of(bulk_kept_in.bulk) == bytes);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    free(bytes);
    hg_test_expect_log("a bulk handle of this process was freed");
    HG_CHECK_RET(HG_Bulk_transfer(HG_BULK_PULL, caller, bulk_kept_in.bulk, 0,
                     local, 0, size, &transfer),
        HG_NOENTRY);
    HG_CHECK(bulk_start_of(bulk_kept_in.bulk) == NULL);
    /* It cannot be passed on either. */
    HG_CHECK_RET(
        HG_Forward(end.target, bulk_keep_id, &bulk_kept_in, NULL, &request),
        HG_NOENTRY);
    HG_CHECK_OK(HG_Handler_free_input(bulk_kept, &bulk_kept_in));
    HG_CHECK_OK(HG_Handler_free(bulk_kept));
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    rpc_close(&end);
}

HG_TEST(bulk_is_counted)
{
    struct hg_counters counters;
    hg_bulk_request_t request;
    struct rpc_end end;
    hg_bulk_t from;
    hg_bulk_t to;
    size_t size = 1000;
    na_addr_t self;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &from));
    HG_CHECK_OK(
        HG_Bulk_block_handle_create(NULL, size, HG_BULK_READWRITE, &to));
    HG_CHECK_EQ_U64(HG_Bulk_block_handle_get_size(to), size);
    HG_CHECK_OK(HG_Bulk_read(self, from, 0, to, 0, 600, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_OK(HG_Bulk_write(self, from, 10, to, 20, 50, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
    counters = rpc_counters();
    HG_CHECK_EQ_U64(counters.bulk_bytes_pulled, 600);
    HG_CHECK_EQ_U64(counters.bulk_bytes_pushed, 50);
    HG_CHECK_OK(HG_Bulk_handle_free(from));
    HG_CHECK_OK(HG_Bulk_block_handle_free(to));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

struct bulk_home {
    hg_bulk_t from;
    hg_bulk_t to;
    na_addr_t self;
};

static void bulk_open_local(struct bulk_home *home, const struct rpc_end *end)
{
    size_t size = 1000;

    HG_CHECK_OK(NA_Addr_self(end->na_class, &home->self));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &home->from));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &home->to));
}

static void bulk_close_local(struct bulk_home *home, const struct rpc_end *end)
{
    HG_CHECK_OK(HG_Bulk_handle_free(home->from));
    HG_CHECK_OK(HG_Bulk_handle_free(home->to));
    HG_CHECK_OK(NA_Addr_free(end->na_class, home->self));
}

static hg_bulk_request_t bulk_start_local(const struct bulk_home *home)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;

    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, home->self, home->from, 0, home->to, 0, 1000, &request));
    HG_CHECK(request != HG_BULK_REQUEST_NULL);
    return request;
}

/* A transfer that completes at once takes no memory. It has a request like any
 * other, which can be waited for once. */
HG_TEST(completed_bulk_transfer_takes_no_memory)
{
    struct bulk_home home;
    struct rpc_end end;
    hg_bulk_request_t requests[2];
    hg_status_t status;
    unsigned i;

    hg_test_alloc_install();
    rpc_open(&end);
    bulk_open_local(&home, &end);
    for (i = 0; i < 2; i++) /* their table is allocated first */
        requests[i] = bulk_start_local(&home);
    HG_CHECK(requests[0] != requests[1]);
    for (i = 0; i < 2; i++) {
        status = HG_FALSE;
        HG_CHECK_OK(HG_Bulk_wait(requests[i], 0, &status));
        HG_CHECK_EQ_INT(status, HG_TRUE);
    }
    hg_test_alloc_fail_at(1);
    requests[0] = bulk_start_local(&home);
    HG_CHECK_OK(HG_Bulk_wait(requests[0], 0, &status));
    HG_CHECK(!hg_test_alloc_failed());
    hg_test_alloc_fail_at(0);
    hg_test_expect_log("no such request; it may have been waited for");
    HG_CHECK_RET(HG_Bulk_wait(requests[0], 0, &status), HG_INVALID_ARG);
    (void) bulk_start_local(&home); /* no wait for this one */
    bulk_close_local(&home, &end);
    rpc_close(&end);
}

/* A thread that only ever waits for completed transfers still makes
 * progress. */
HG_TEST_WHERE(wait_for_a_completed_bulk_transfer_makes_progress,
    hg_test_crosses_processes)
{
    bulk_moved_t out = {-1, 0};
    struct bulk_home home;
    struct rpc_end end;
    hg_request_t request;
    bulk_back_t in;

    rpc_open(&end);
    bulk_open_local(&home, &end);
    in.bulk = home.from;
    request = rpc_start_call(&end, bulk_count_id, &in, &out);
    while (rpc_counters().responses_received == 0)
        HG_CHECK_OK(HG_Bulk_wait(
            bulk_start_local(&home), RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(out.ret);
    HG_CHECK_OK(HG_Request_free(request));
    bulk_close_local(&home, &end);
    rpc_close(&end);
}
