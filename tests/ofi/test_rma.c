/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory, puts and gets of the libfabric transport: segments on both sides, the
 * provider's limits and demands, handles of a hostile peer, targets that
 * refuse, and registrations that fail.
 *
 * Two classes in one process, on a provider that works everywhere; hook.h adds
 * the demands of other providers.
 */
#include "../box/endpoints.h"
#include "hook.h"

#include <pthread.h>

#define RMA_SEGMENTS 9u
#define RMA_SPACE 8192u
#define RMA_HEAD 16u    /* size of a description before its segments */
#define RMA_SEGMENT 24u /* size of each */
#define RMA_BYTES 512u

struct rma_pair {
    struct conform_end owner;
    struct conform_end initiator;
    na_addr_t addr; /* of the owner, at the initiator */
};

static void rma_open(
    struct rma_pair *pair, const char *scheme, const char *words)
{
    static unsigned count;
    char string[128], name[NA_MAX_ADDR_LEN];
    struct conform_end *ends[2];
    unsigned i;

    ends[0] = &pair->owner;
    ends[1] = &pair->initiator;
    hg_test_ofi_configure(words);
    for (i = 0; i < 2; i++) {
        if (strstr(scheme, "shm") != NULL)
            (void) snprintf(string, sizeof(string), "%s://hg-rma-%ld-%u",
                scheme, (long) getpid(), count++);
        else
            (void) snprintf(string, sizeof(string), "%s://127.0.0.1:0", scheme);
        endpoint_open_with(ends[i], string, 10000, 10000);
    }
    endpoint_name(&pair->owner, pair->owner.self, name);
    pair->addr = endpoint_lookup_both(&pair->initiator, &pair->owner, name);
}

static void rma_close(struct rma_pair *pair)
{
    sigset_t blocked; /* as in libfabric's threads, but not in ours */

    HG_CHECK_EQ_INT(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    HG_CHECK(!sigismember(&blocked, SIGUSR1));
    HG_CHECK_OK(NA_Addr_free(pair->initiator.na_class, pair->addr));
    conform_close(&pair->initiator);
    conform_idle(&pair->owner); /* shm crashes when it sends to a closed peer */
    conform_close(&pair->owner);
}

static na_return_t rma_start(struct rma_pair *pair, struct conform_call *call,
    bool put, na_mem_handle_t local, na_offset_t local_offset,
    na_mem_handle_t remote, na_offset_t remote_offset, na_size_t size)
{
    memset(call, 0, sizeof(*call));
    return (put ? NA_Put : NA_Get)(pair->initiator.na_class,
        pair->initiator.context, conform_ended, call, local, local_offset,
        remote, remote_offset, size, pair->addr, &call->id);
}

static na_return_t rma_wait(struct rma_pair *pair, struct conform_call *call)
{
    return endpoint_wait_both(&pair->initiator, &pair->owner, call);
}

static na_return_t rma_move(struct rma_pair *pair, bool put,
    na_mem_handle_t local, na_offset_t local_offset, na_mem_handle_t remote,
    na_offset_t remote_offset, na_size_t size)
{
    struct conform_call call;
    na_return_t ret = rma_start(
        pair, &call, put, local, local_offset, remote, remote_offset, size);

    return ret == NA_SUCCESS ? rma_wait(pair, &call) : ret;
}

static na_size_t rma_describe(
    struct rma_pair *pair, na_mem_handle_t mem, unsigned char *bytes)
{
    na_size_t size =
        NA_Mem_handle_get_serialize_size(pair->owner.na_class, mem);

    HG_CHECK(size >= RMA_HEAD && size <= RMA_BYTES);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair->owner.na_class, bytes, size, mem));
    return size;
}

static na_mem_handle_t rma_remote(struct rma_pair *pair, na_mem_handle_t mem)
{
    unsigned char bytes[RMA_BYTES];
    na_size_t size = rma_describe(pair, mem, bytes);
    na_mem_handle_t remote;

    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->initiator.na_class, &remote, bytes, size));
    return remote;
}

static void rma_free(struct conform_end *end, na_mem_handle_t mem)
{
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, mem));
}

/* ---- Segments ---- */

/* `count` segments in `space`, in shuffled places, of random sizes, a few of
 * them empty; returns the total. */
static na_size_t rma_scatter(struct na_segment *segments, unsigned count,
    unsigned char *space, uint64_t *random)
{
    unsigned slot = (unsigned) (hg_test_random(random) % count);
    na_size_t total = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        na_size_t size = 1 + hg_test_random(random) % (RMA_SPACE / count - 1);

        if (count > 2 && i != 1 && hg_test_random(random) % 5 == 0)
            size = 0;
        segments[i].address = space + slot * (RMA_SPACE / count);
        segments[i].size = size;
        total += size;
        slot = (slot + 1) % count;
    }
    return total;
}

static unsigned char *rma_byte(
    const struct na_segment *segments, na_offset_t offset)
{
    while (offset >= segments->size)
        offset -= segments++->size;
    return (unsigned char *) segments->address + offset;
}

/* One transfer between so many segments, compared with a byte copy. */
static void rma_shape(
    struct rma_pair *pair, bool put, const unsigned counts[2], uint64_t *random)
{
    static unsigned char spaces[2][RMA_SPACE], model[RMA_SPACE];
    struct na_segment segments[2][RMA_SEGMENTS];
    na_offset_t offsets[2];
    na_size_t size = RMA_SPACE, k;
    unsigned to = put ? 1 : 0, i;
    na_mem_handle_t local, target, remote;

    for (i = 0; i < 2; i++) {
        na_size_t total =
            rma_scatter(segments[i], counts[i], spaces[i], random);

        conform_fill(spaces[i], RMA_SPACE, hg_test_random(random));
        offsets[i] = hg_test_random(random) % 3 == 0
            ? hg_test_random(random) % total
            : 0;
        if (size > total - offsets[i])
            size = total - offsets[i];
    }
    memcpy(model, spaces[to], RMA_SPACE);
    for (k = 0; k < size; k++)
        model[rma_byte(segments[to], offsets[to] + k) - spaces[to]] =
            *rma_byte(segments[1 - to], offsets[1 - to] + k);
    HG_CHECK_OK(
        NA_Mem_handle_create_segments(pair->initiator.na_class, segments[0],
            counts[0], put ? NA_MEM_READ_ONLY : NA_MEM_WRITE_ONLY, &local));
    HG_CHECK_OK(NA_Mem_handle_create_segments(pair->owner.na_class, segments[1],
        counts[1], put ? NA_MEM_WRITE_ONLY : NA_MEM_READ_ONLY, &target));
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, target));
    remote = rma_remote(pair, target);
    HG_CHECK_OK(
        rma_move(pair, put, local, offsets[0], remote, offsets[1], size));
    HG_CHECK_EQ_MEM(spaces[to], model, RMA_SPACE);
    rma_free(&pair->initiator, remote);
    rma_free(&pair->initiator, local);
    rma_free(&pair->owner, target);
}

static void rma_shapes(const char *scheme, const char *words)
{
    uint64_t random = hg_test_seed();
    struct rma_pair pair;
    unsigned counts[2];

    rma_open(&pair, scheme, words);
    for (counts[0] = 1; counts[0] <= RMA_SEGMENTS; counts[0]++)
        for (counts[1] = 1; counts[1] <= RMA_SEGMENTS; counts[1]++) {
            rma_shape(&pair, false, counts, &random);
            rma_shape(&pair, true, counts, &random);
        }
    rma_close(&pair);
}

HG_TEST(segments_on_both_sides_over_tcp)
{
    rma_shapes("ofi+tcp", "plain");
}

HG_TEST(segments_on_both_sides_over_rxm)
{
    rma_shapes("ofi+tcp;ofi_rxm", "plain");
}

HG_TEST(segments_on_both_sides_over_shm)
{
    rma_shapes("ofi+shm", "plain");
}

HG_TEST(segments_on_both_sides_over_sockets)
{
    rma_shapes("ofi+sockets", "plain");
}

HG_TEST(segments_on_both_sides_over_rxd)
{
    rma_shapes("ofi+udp;ofi_rxd", "plain");
}

/* Demands of other providers, one at a time and together. */

HG_TEST(segments_where_local_memory_is_registered)
{
    rma_shapes("ofi+tcp", "local,allocated,context");
    HG_CHECK(hg_test_ofi_count("desc") > 0);
}

HG_TEST(segments_where_the_provider_chooses_keys)
{
    rma_shapes("ofi+tcp", "provkey,virt");
    HG_CHECK(hg_test_ofi_count("translated") > 0);
}

HG_TEST(segments_where_keys_are_raw)
{
    rma_shapes("ofi+tcp", "rawkey");
    HG_CHECK(hg_test_ofi_count("mapped") > 0);
    HG_CHECK_EQ_U64(hg_test_ofi_count("unmapped"), hg_test_ofi_count("mapped"));
}

HG_TEST(segments_where_memory_belongs_to_an_endpoint)
{
    rma_shapes("ofi+tcp", "endpoint");
    HG_CHECK(hg_test_ofi_count("enabled") > 0);
}

HG_TEST(segments_where_the_provider_demands_everything)
{
    rma_shapes("ofi+tcp",
        "local,rawkey,virt,allocated,context,iov=2,msg=512,again=3,"
        "order");
    HG_CHECK(hg_test_ofi_count("again") > 0);
    HG_CHECK(hg_test_ofi_count("shuffled") > 0);
}

/* ---- Pieces ---- */

/* A get of `size` bytes; returns how many reads were posted. */
static uint64_t rma_reads(const char *words, unsigned local_count,
    unsigned remote_count, na_size_t size)
{
    static unsigned char from[RMA_SPACE], to[RMA_SPACE];
    struct na_segment segments[2][RMA_SEGMENTS];
    unsigned counts[2], i;
    na_size_t k;
    struct rma_pair pair;
    na_mem_handle_t local, target, remote;
    uint64_t before, reads;

    counts[0] = local_count;
    counts[1] = remote_count;
    conform_fill(from, sizeof(from), 1);
    memset(to, 0, sizeof(to));
    rma_open(&pair, "ofi+tcp", words);
    for (i = 0; i < 2; i++)
        for (k = 0; k < counts[i]; k++) {
            na_size_t share = size / counts[i];

            segments[i][k].address = (i == 0 ? to : from) + k * share;
            segments[i][k].size = k + 1 < counts[i] ? share : size - k * share;
        }
    HG_CHECK_OK(NA_Mem_handle_create_segments(pair.initiator.na_class,
        segments[0], local_count, NA_MEM_WRITE_ONLY, &local));
    HG_CHECK_OK(NA_Mem_handle_create_segments(pair.owner.na_class, segments[1],
        remote_count, NA_MEM_READ_ONLY, &target));
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, target));
    remote = rma_remote(&pair, target);
    before = hg_test_ofi_count("read");
    HG_CHECK_OK(rma_move(&pair, false, local, 0, remote, 0, size));
    reads = hg_test_ofi_count("read") - before;
    HG_CHECK_EQ_MEM(to, from, size);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.initiator, local);
    rma_free(&pair.owner, target);
    rma_close(&pair);
    return reads;
}

HG_TEST(pieces_are_as_large_as_the_limits_allow)
{
    HG_CHECK_EQ_U64(rma_reads("plain", 1, 1, RMA_SPACE), 1);
    HG_CHECK_EQ_U64(rma_reads("plain", 4, 4, RMA_SPACE), 1);
    HG_CHECK_EQ_U64(rma_reads("plain", 8, 1, RMA_SPACE), 2);
    HG_CHECK_EQ_U64(rma_reads("plain", 1, 8, RMA_SPACE), 2);
    HG_CHECK_EQ_U64(rma_reads("iov=1", 8, 8, RMA_SPACE), 8);
    HG_CHECK_EQ_U64(rma_reads("iov=1", 8, 1, RMA_SPACE), 8);
    HG_CHECK_EQ_U64(rma_reads("iov=1", 1, 8, RMA_SPACE), 8);
    HG_CHECK_EQ_U64(rma_reads("iov=2", 4, 2, RMA_SPACE), 2);
    HG_CHECK_EQ_U64(rma_reads("msg=1000", 1, 1, 8000), 8);
    HG_CHECK_EQ_U64(rma_reads("msg=1000", 1, 1, 8001), 9);
    HG_CHECK_EQ_U64(rma_reads("msg=1024", 2, 4, RMA_SPACE), 8);
}

HG_TEST(many_transfers_while_the_provider_returns_again)
{
    enum { COUNT = 64, SIZE = 20000 };
    static unsigned char from[COUNT * SIZE], to[COUNT * SIZE];
    static struct conform_call calls[COUNT];
    struct rma_pair pair;
    na_mem_handle_t local, target, remote;
    unsigned i;

    rma_open(&pair, "ofi+tcp", "msg=3000,again=2");
    conform_fill(from, sizeof(from), 3);
    local = conform_memory(&pair.initiator, to, sizeof(to), NA_MEM_WRITE_ONLY);
    target = conform_memory(&pair.owner, from, sizeof(from), NA_MEM_READ_ONLY);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, target));
    remote = rma_remote(&pair, target);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(rma_start(
            &pair, &calls[i], false, local, i * SIZE, remote, i * SIZE, SIZE));
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(rma_wait(&pair, &calls[i]));
    HG_CHECK_EQ_MEM(to, from, sizeof(from));
    HG_CHECK(hg_test_ofi_count("again") > COUNT);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.initiator, local);
    rma_free(&pair.owner, target);
    rma_close(&pair);
}

HG_TEST(transfers_are_canceled_between_their_pieces)
{
    enum { COUNT = 8, SIZE = 400000 };
    static struct conform_call calls[COUNT];
    struct rma_pair pair;
    na_mem_handle_t local, target, remote;
    unsigned char *from = endpoint_map(SIZE), *to = endpoint_map(SIZE);
    unsigned round, i, canceled = 0;

    rma_open(&pair, "ofi+tcp", "msg=1000,again=5");
    target = conform_memory(&pair.owner, from, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, target));
    remote = rma_remote(&pair, target);
    for (round = 0; round < 6; round++) {
        local = conform_memory(&pair.initiator, to, SIZE, NA_MEM_READWRITE);
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(rma_start(
                &pair, &calls[i], (round & 1) != 0, local, 0, remote, 0, SIZE));
        for (i = 0; i < 10 * round; i++)
            (void) conform_turn(
                pair.initiator.na_class, pair.initiator.context, 0);
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(NA_Cancel(
                pair.initiator.na_class, pair.initiator.context, calls[i].id));
        for (i = 0; i < COUNT; i++) {
            HG_CHECK_RET(rma_wait(&pair, &calls[i]), NA_CANCELED);
            canceled++;
            HG_CHECK_RET(NA_Cancel(pair.initiator.na_class,
                             pair.initiator.context, calls[i].id),
                NA_NOENTRY);
        }
        rma_free(&pair.initiator, local);
    }
    HG_CHECK_EQ_INT(canceled, 6 * COUNT);
    /* Not all of it was moved. */
    HG_CHECK(hg_test_ofi_count("read") < 3 * COUNT * SIZE / 1000);
    HG_CHECK(hg_test_ofi_count("write") < 3 * COUNT * SIZE / 1000);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.owner, target);
    rma_close(&pair);
    endpoint_unmap(from, SIZE);
    endpoint_unmap(to, SIZE);
}

/* A transfer can be canceled until its completion is read, and completes then;
 * afterwards it cannot, although its callback has not run. */
static void rma_cancel_at_the_end(bool put)
{
    static unsigned char from[4096], to[4096];
    struct rma_pair pair;
    struct conform_call call;
    na_mem_handle_t local, target, remote;
    unsigned i;

    rma_open(&pair, "ofi+tcp", "plain");
    target = endpoint_register(&pair.owner, from, sizeof(from));
    local = endpoint_register(&pair.initiator, to, sizeof(to));
    remote = rma_remote(&pair, target);
    hg_test_ofi_hold(true);
    HG_CHECK_OK(
        rma_start(&pair, &call, put, local, 0, remote, 0, sizeof(from)));
    while (hg_test_ofi_count("held") == 0) {
        (void) conform_turn(pair.owner.na_class, pair.owner.context, 0);
        (void) conform_turn(pair.initiator.na_class, pair.initiator.context, 0);
    }
    HG_CHECK_OK(
        NA_Cancel(pair.initiator.na_class, pair.initiator.context, call.id));
    for (i = 0; i < 100; i++)
        (void) conform_turn(pair.initiator.na_class, pair.initiator.context, 0);
    HG_CHECK_EQ_INT(call.ends, 0); /* the memory may still be accessed */
    hg_test_ofi_hold(false);
    HG_CHECK_RET(rma_wait(&pair, &call), NA_CANCELED);
    HG_CHECK_OK(
        rma_start(&pair, &call, put, local, 0, remote, 0, sizeof(from)));
    while (NA_Progress(pair.initiator.na_class, pair.initiator.context, 1) !=
        NA_SUCCESS)
        (void) conform_turn(pair.owner.na_class, pair.owner.context, 0);
    HG_CHECK_EQ_INT(call.ends, 0);
    HG_CHECK_RET(
        NA_Cancel(pair.initiator.na_class, pair.initiator.context, call.id),
        NA_NOENTRY);
    HG_CHECK_OK(rma_wait(&pair, &call));
    HG_CHECK_EQ_INT(call.ends, 1);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.initiator, local);
    rma_free(&pair.owner, target);
    rma_close(&pair);
}

HG_TEST(cancel_races_with_the_end_of_a_get)
{
    rma_cancel_at_the_end(false);
}

HG_TEST(cancel_races_with_the_end_of_a_put)
{
    rma_cancel_at_the_end(true);
}

/* Several threads use the same local memory at once, which its first use
 * registers. */

struct rma_thread {
    struct rma_pair *pair;
    struct conform_end end;
    na_mem_handle_t local;
    na_mem_handle_t remote;
    pthread_barrier_t *start;
    unsigned number;
};

#define RMA_THREADS 4u
#define RMA_SHARE 1000u

static void *rma_thread(void *arg)
{
    struct rma_thread *thread = (struct rma_thread *) arg;
    struct conform_call call;
    na_offset_t offset = thread->number * RMA_SHARE;

    memset(&call, 0, sizeof(call));
    (void) pthread_barrier_wait(thread->start);
    HG_CHECK_OK(NA_Get(thread->end.na_class, thread->end.context, conform_ended,
        &call, thread->local, offset, thread->remote, offset, RMA_SHARE,
        thread->pair->addr, &call.id));
    HG_CHECK_OK(conform_wait(&thread->end, &call));
    return NULL;
}

HG_TEST(threads_share_local_memory_that_is_registered_at_its_first_use)
{
    static unsigned char from[RMA_THREADS * RMA_SHARE];
    static unsigned char to[RMA_THREADS * RMA_SHARE];
    struct rma_thread threads[RMA_THREADS];
    pthread_t ids[RMA_THREADS];
    pthread_barrier_t start;
    struct rma_pair pair;
    na_mem_handle_t target;
    unsigned i, round;

    rma_open(&pair, "ofi+tcp", "local");
    conform_fill(from, sizeof(from), 5);
    target = conform_memory(&pair.owner, from, sizeof(from), NA_MEM_READ_ONLY);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, target));
    HG_CHECK_EQ_INT(pthread_barrier_init(&start, NULL, RMA_THREADS), 0);
    for (i = 0; i < RMA_THREADS; i++) {
        threads[i].pair = &pair;
        threads[i].end = pair.initiator;
        if (i > 0)
            threads[i].end.context = NA_Context_create(pair.initiator.na_class);
        HG_CHECK(threads[i].end.context != NULL);
        threads[i].remote = rma_remote(&pair, target);
        threads[i].start = &start;
        threads[i].number = i;
    }
    for (round = 0; round < 20; round++) {
        na_mem_handle_t local =
            conform_memory(&pair.initiator, to, sizeof(to), NA_MEM_WRITE_ONLY);

        memset(to, 0, sizeof(to));
        for (i = 0; i < RMA_THREADS; i++) {
            threads[i].local = local;
            HG_CHECK_EQ_INT(
                pthread_create(&ids[i], NULL, rma_thread, &threads[i]), 0);
        }
        for (i = 0; i < RMA_THREADS; i++)
            HG_CHECK_EQ_INT(pthread_join(ids[i], NULL), 0);
        HG_CHECK_EQ_MEM(to, from, sizeof(from));
        rma_free(&pair.initiator, local);
    }
    for (i = 0; i < RMA_THREADS; i++) {
        rma_free(&pair.initiator, threads[i].remote);
        if (i > 0)
            HG_CHECK_OK(NA_Context_destroy(
                pair.initiator.na_class, threads[i].end.context));
    }
    HG_CHECK_EQ_INT(pthread_barrier_destroy(&start), 0);
    rma_free(&pair.owner, target);
    rma_close(&pair);
}

/* ---- Descriptions ---- */

static void rma_put32(unsigned char *p, uint32_t value)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        p[i] = (unsigned char) (value >> 8 * i);
}

static void rma_put64(unsigned char *p, uint64_t value)
{
    rma_put32(p, (uint32_t) value);
    rma_put32(p + 4, (uint32_t) (value >> 32));
}

/* A description by hand, of two segments: base, size, key. */
static const uint64_t rma_two[2][3] = {
    {0x1000, 100, 0x1122334455667788}, {0, 1, 0}};

static na_size_t rma_by_hand(unsigned char bytes[RMA_BYTES])
{
    static const unsigned char head[RMA_HEAD] = {
        'h', 'O', 1, NA_MEM_READWRITE, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
    unsigned i, k;

    memset(bytes, 0xee, RMA_BYTES);
    memcpy(bytes, head, RMA_HEAD);
    for (i = 0; i < 2; i++)
        for (k = 0; k < 3; k++)
            rma_put64(
                bytes + RMA_HEAD + i * RMA_SEGMENT + k * 8, rma_two[i][k]);
    return RMA_HEAD + 2 * RMA_SEGMENT;
}

static void rma_malformed(
    struct rma_pair *pair, const unsigned char *bytes, na_size_t size)
{
    na_class_t *na_class = pair->initiator.na_class;
    uint64_t before = NA_Get_counter(na_class, "rma_malformed");
    /* Exactly so many bytes, so that a checker detects a read past the end. */
    unsigned char *copy = (unsigned char *) malloc((size_t) size + 1);
    na_mem_handle_t mem = NA_MEM_HANDLE_NULL;

    HG_CHECK(copy != NULL);
    memcpy(copy + 1, bytes, (size_t) size);
    HG_CHECK_RET(NA_Mem_handle_deserialize(na_class, &mem, copy + 1, size),
        NA_PROTOCOL_ERROR);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "rma_malformed"), before + 1);
    free(copy);
}

static void rma_accepted(
    struct rma_pair *pair, const unsigned char *bytes, na_size_t size)
{
    na_mem_handle_t mem;

    HG_CHECK_OK(
        NA_Mem_handle_deserialize(pair->initiator.na_class, &mem, bytes, size));
    rma_free(&pair->initiator, mem);
}

HG_TEST(description_matches_its_bytes)
{
    static unsigned char memory[200];
    struct na_segment segments[3] = {
        {memory, 10}, {NULL, 0}, {memory + 50, 20}};
    static const struct {
        const char *words;
        bool virt;
    } ways[] = {{"plain", false}, {"provkey,virt", true}};
    unsigned char bytes[RMA_BYTES], want[RMA_BYTES];
    struct rma_pair pair;
    na_mem_handle_t mem;
    unsigned i, k;

    for (i = 0; i < 2; i++) {
        rma_open(&pair, "ofi+tcp", ways[i].words);
        HG_CHECK_OK(NA_Mem_handle_create_segments(
            pair.owner.na_class, segments, 3, NA_MEM_WRITE_ONLY, &mem));
        HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
        HG_CHECK_EQ_U64(
            rma_describe(&pair, mem, bytes), RMA_HEAD + 2 * RMA_SEGMENT);
        (void) rma_by_hand(want);
        want[3] = NA_MEM_WRITE_ONLY;
        for (k = 0; k < 2; k++) {
            unsigned char *segment = want + RMA_HEAD + k * RMA_SEGMENT;

            rma_put64(segment,
                ways[i].virt ? (uintptr_t) segments[2 * k].address : 0);
            rma_put64(segment + 8, segments[2 * k].size);
            memcpy(segment + 16, /* any key */
                bytes + RMA_HEAD + k * RMA_SEGMENT + 16, 8);
        }
        HG_CHECK_EQ_MEM(bytes, want, RMA_HEAD + 2 * RMA_SEGMENT);
        /* Keys cannot be guessed. */
        HG_CHECK(memcmp(bytes + RMA_HEAD + 16,
                     bytes + RMA_HEAD + RMA_SEGMENT + 16, 8) != 0);
        rma_free(&pair.owner, mem);
        rma_close(&pair);
    }
}

HG_TEST(malformed_descriptions_are_refused)
{
    static const struct {
        unsigned at;
        unsigned char value;
    } wrong[] = {{0, 'x'}, {1, 'M'}, {2, 0}, {2, 2}, {3, 0}, {3, 4}, {3, 0x81},
        {5, 1}, {5, 24}, {6, 1}, {7, 1}, {8, 3}, {9, 1}, {10, 1}, {11, 0x80},
        {12, 1}, {13, 1}, {14, 1}, {15, 1}};
    /* Times 24 this is 0, 8 and 16 in 32 bits. */
    static const uint32_t counts[] = {0x20000000, 0x0aaaaaab, 0x15555556};
    unsigned char bytes[RMA_BYTES];
    unsigned char *segments[2] = {
        bytes + RMA_HEAD, bytes + RMA_HEAD + RMA_SEGMENT};
    struct rma_pair pair;
    na_size_t size, i;

    hg_test_expect_log("bytes are not a memory handle");
    rma_open(&pair, "ofi+tcp", "plain");
    size = rma_by_hand(bytes);
    rma_accepted(&pair, bytes, size);
    rma_accepted(&pair, bytes, size + 7); /* a caller's buffer may be larger */
    for (i = 0; i < size; i++)
        rma_malformed(&pair, bytes, i);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        size = rma_by_hand(bytes);
        bytes[wrong[i].at] = wrong[i].value;
        rma_malformed(&pair, bytes, size);
    }
    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size = rma_by_hand(bytes);
        rma_put32(bytes + 8, counts[i]);
        rma_malformed(&pair, bytes, size);
    }
    /* An empty segment. */
    size = rma_by_hand(bytes);
    rma_put64(segments[1] + 8, 0);
    rma_malformed(&pair, bytes, size);
    /* The end of a segment wraps around by one byte; then the last value that
     * does not. */
    size = rma_by_hand(bytes);
    rma_put64(segments[1], UINT64_MAX);
    rma_accepted(&pair, bytes, size);
    rma_put64(segments[1] + 8, 2);
    rma_malformed(&pair, bytes, size);
    /* The total wraps around, likewise. */
    size = rma_by_hand(bytes);
    rma_put64(segments[1] + 8, UINT64_MAX - 100);
    rma_accepted(&pair, bytes, size);
    rma_put64(segments[1] + 8, UINT64_MAX - 99);
    rma_malformed(&pair, bytes, size);
    /* No segment. */
    size = rma_by_hand(bytes);
    rma_put32(bytes + 8, 0);
    rma_accepted(&pair, bytes, RMA_HEAD);
    HG_CHECK_OK(NA_Get_counter(pair.owner.na_class, "rma_malformed"));
    rma_close(&pair);
}

HG_TEST(raw_keys_that_do_not_fit_are_refused)
{
    static unsigned char memory[300];
    struct na_segment segments[3] = {
        {memory, 100}, {memory + 100, 100}, {memory + 200, 100}};
    unsigned char bytes[RMA_BYTES];
    struct rma_pair pair;
    na_mem_handle_t mem;
    na_size_t size;

    hg_test_allow_log("");
    rma_open(&pair, "ofi+tcp", "rawkey");
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair.owner.na_class, segments, 3, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    size = rma_describe(&pair, mem, bytes);
    HG_CHECK_EQ_U64(size, RMA_HEAD + 3 * (RMA_SEGMENT + 24));
    rma_accepted(&pair, bytes, size);
    rma_malformed(&pair, bytes, size - 1);
    bytes[4] = 0; /* claims to be numbers */
    rma_malformed(&pair, bytes, size);
    rma_free(&pair.owner, mem);
    rma_close(&pair);
    /* The keys before the one that fails are released. */
    rma_open(&pair, "ofi+tcp", "rawkey,fault=mapraw:3:22");
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair.owner.na_class, segments, 3, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    size = rma_describe(&pair, mem, bytes);
    rma_malformed(&pair, bytes, size);
    HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 1);
    HG_CHECK_EQ_U64(hg_test_ofi_count("mapped"), 2);
    HG_CHECK_EQ_U64(hg_test_ofi_count("unmapped"), 2);
    rma_free(&pair.owner, mem);
    rma_close(&pair);
}

/* ---- Empty transfers ---- */

HG_TEST(nothing_is_moved_from_and_to_empty_memory)
{
    static unsigned char memory[10];
    struct na_segment empty[3] = {{NULL, 0}, {memory, 0}, {NULL, 0}};
    struct rma_pair pair;
    na_mem_handle_t local, targets[2], remote;
    unsigned i;

    hg_test_expect_log("remote bytes at");
    rma_open(&pair, "ofi+tcp", "local");
    local = conform_memory(
        &pair.initiator, memory, sizeof(memory), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair.owner.na_class, empty, 3, NA_MEM_READWRITE, &targets[0]));
    targets[1] =
        conform_memory(&pair.owner, memory, sizeof(memory), NA_MEM_READWRITE);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, targets[i]));
        remote = rma_remote(&pair, targets[i]);
        HG_CHECK_OK(rma_move(&pair, true, local, 0, remote, 0, 0));
        HG_CHECK_OK(rma_move(&pair, false, local, 10, remote, i * 10, 0));
        HG_CHECK_RET(
            rma_move(&pair, false, local, 0, remote, i * 10, 1), NA_OVERFLOW);
        rma_free(&pair.initiator, remote);
        rma_free(&pair.owner, targets[i]);
    }
    HG_CHECK_EQ_U64(hg_test_ofi_count("read"), 0);
    HG_CHECK_EQ_U64(hg_test_ofi_count("write"), 0);
    rma_free(&pair.initiator, local);
    rma_close(&pair);
}

/* ---- Refusals ---- */

struct rma_forgery {
    unsigned long flags; /* as registered; forged: all */
    bool put;
    uint64_t key;  /* these bits of the key are flipped */
    uint64_t base; /* added to the base */
    uint64_t size; /* forged */
    bool withdrawn;
};

/* A forbidden transfer, while an allowed one is in flight. Afterwards the
 * memory is unchanged, and the peers continue. */
static void rma_forge(const char *scheme, const struct rma_forgery *forgery)
{
    static unsigned char memory[3 * 4096], model[sizeof(memory)];
    static unsigned char buf[sizeof(memory)];
    unsigned char bytes[RMA_BYTES];
    struct conform_call calls[2];
    struct rma_pair pair;
    na_mem_handle_t local, mem, remote, other, good;
    na_size_t size;
    unsigned i;

    conform_fill(memory, sizeof(memory), 1);
    memcpy(model, memory, sizeof(memory));
    rma_open(&pair, scheme, "plain");
    other =
        conform_memory(&pair.owner, memory, sizeof(memory), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, other));
    good = rma_remote(&pair, other);
    local = conform_memory(&pair.initiator, buf, sizeof(buf), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_handle_create(
        pair.owner.na_class, memory + 4096, 4096, forgery->flags, &mem));
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    size = rma_describe(&pair, mem, bytes);
    bytes[3] = NA_MEM_READWRITE;
    for (i = 0; i < 8; i++)
        bytes[RMA_HEAD + 16 + i] ^= (unsigned char) (forgery->key >> 8 * i);
    if (forgery->base != 0)
        rma_put64(bytes + RMA_HEAD, forgery->base);
    if (forgery->size != 0)
        rma_put64(bytes + RMA_HEAD + 8, forgery->size);
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.initiator.na_class, &remote, bytes, size));
    if (forgery->withdrawn)
        HG_CHECK_OK(NA_Mem_deregister(pair.owner.na_class, mem));
    HG_CHECK_OK(rma_start(&pair, &calls[0], forgery->put, local, 0, remote, 0,
        forgery->size != 0 ? forgery->size : 4096));
    HG_CHECK_OK(
        rma_start(&pair, &calls[1], false, local, 4096, good, 4096, 2 * 4096));
    HG_CHECK_RET(rma_wait(&pair, &calls[0]), NA_NOENTRY);
    HG_CHECK_OK(rma_wait(&pair, &calls[1]));
    HG_CHECK_EQ_MEM(memory, model, sizeof(memory));
    HG_CHECK_EQ_MEM(buf + 4096, model + 4096, 2 * 4096);
    HG_CHECK(NA_Get_counter(pair.initiator.na_class, "rma_refused") > 0);
    HG_CHECK_OK(endpoint_send(&pair.initiator, pair.addr, false, "?", 2, 1));
    HG_CHECK_OK(rma_move(&pair, false, local, 0, good, 0, sizeof(buf)));
    HG_CHECK_EQ_MEM(buf, model, sizeof(model));
    rma_free(&pair.initiator, good);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.initiator, local);
    rma_free(&pair.owner, other);
    rma_free(&pair.owner, mem);
    rma_close(&pair);
}

static void rma_forgeries(const char *scheme)
{
    static const struct rma_forgery forgeries[] = {
        {NA_MEM_READWRITE, false, 1, 0, 0, false},
        {NA_MEM_READWRITE, true, 1, 0, 0, false},
        {NA_MEM_READ_ONLY, true, 0, 0, 0, false},
        {NA_MEM_WRITE_ONLY, false, 0, 0, 0, false},
        {NA_MEM_READWRITE, false, 0, 0, 4097, false},
        {NA_MEM_READWRITE, true, 0, 0, 4097, false},
        {NA_MEM_READWRITE, false, 0, 1, 0, false},
        {NA_MEM_READWRITE, true, 0, 1, 0, false},
        {NA_MEM_READWRITE, true, 0, UINT64_MAX - 4095, 0, false},
        {NA_MEM_READWRITE, false, 0, 0, 0, true},
        {NA_MEM_READWRITE, true, 0, 0, 0, true}};
    unsigned i;

    hg_test_allow_log("");
    for (i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++)
        rma_forge(scheme, &forgeries[i]);
}

HG_TEST(forged_transfers_are_refused_over_tcp)
{
    rma_forgeries("ofi+tcp");
}

HG_TEST(forged_transfers_are_refused_over_rxm)
{
    rma_forgeries("ofi+tcp;ofi_rxm");
}

HG_TEST(forged_transfers_are_refused_over_sockets)
{
    rma_forgeries("ofi+sockets");
}

/* ---- Providers that never complete a refused transfer ---- */

/* Memory to which a put never completes: the provider drops it, because the key
 * is wrong; or, on shm, which has no keys, because the address is not
 * mapped. */
static void rma_open_stuck(struct rma_pair *pair, const char *scheme,
    unsigned char *memory, na_size_t size, na_mem_handle_t *mem_p,
    na_mem_handle_t *remote_p)
{
    unsigned char bytes[RMA_BYTES];
    na_size_t length;

    rma_open(pair, scheme, "plain");
    *mem_p = conform_memory(&pair->owner, memory, size, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, *mem_p));
    length = rma_describe(pair, *mem_p, bytes);
    bytes[RMA_HEAD + (strstr(scheme, "shm") != NULL ? 7 : 16)] ^= 1;
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->initiator.na_class, remote_p, bytes, length));
}

/* Once canceled, it completes within a second, and the transfers after it
 * continue. */
static void rma_cancel_stuck(const char *scheme)
{
    static unsigned char memory[4096], buf[4096], other[4096];
    struct conform_call calls[2];
    struct rma_pair pair;
    na_mem_handle_t mem, remote, good, local, behind;
    unsigned i;

    hg_test_allow_log("");
    rma_open_stuck(&pair, scheme, memory, sizeof(memory), &mem, &remote);
    good = rma_remote(&pair, mem);
    conform_fill(memory, sizeof(memory), 1);
    local = conform_memory(&pair.initiator, buf, sizeof(buf), NA_MEM_READ_ONLY);
    behind =
        conform_memory(&pair.initiator, other, sizeof(other), NA_MEM_READ_ONLY);
    conform_fill(other, sizeof(other), 2);
    HG_CHECK_OK(
        rma_start(&pair, &calls[0], true, local, 0, remote, 0, sizeof(buf)));
    for (i = 0; i < 100; i++) {
        (void) conform_turn(pair.initiator.na_class, pair.initiator.context, 1);
        (void) conform_turn(pair.owner.na_class, pair.owner.context, 1);
    }
    HG_CHECK_EQ_INT(calls[0].ends, 0);
    HG_CHECK_OK(
        rma_start(&pair, &calls[1], true, behind, 0, good, 0, sizeof(other)));
    HG_CHECK_OK(NA_Cancel(
        pair.initiator.na_class, pair.initiator.context, calls[0].id));
    HG_CHECK_RET(rma_wait(&pair, &calls[0]), NA_CANCELED);
    HG_CHECK_OK(rma_wait(&pair, &calls[1]));
    HG_CHECK_EQ_MEM(memory, other, sizeof(other));
    HG_CHECK_EQ_U64(NA_Get_counter(pair.initiator.na_class, "rma_stuck"), 1);
    rma_free(&pair.initiator, behind);
    rma_free(&pair.initiator, local);
    rma_free(&pair.initiator, good);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.owner, mem);
    rma_close(&pair);
}

HG_TEST(transfers_that_rxd_drops_end_when_canceled)
{
    rma_cancel_stuck("ofi+udp;ofi_rxd");
}

HG_TEST(transfers_that_shm_drops_end_when_canceled)
{
    rma_cancel_stuck("ofi+shm");
}

/* Destroying a context releases the memory, also of such a transfer. */
HG_TEST(context_can_be_destroyed_with_a_transfer_that_never_ends)
{
    static unsigned char memory[4096];
    unsigned char *buf = endpoint_map(4096);
    struct conform_call call;
    struct rma_pair pair;
    na_mem_handle_t mem, remote, local;
    na_context_t *context;

    hg_test_allow_log("");
    rma_open_stuck(
        &pair, "ofi+udp;ofi_rxd", memory, sizeof(memory), &mem, &remote);
    local = conform_memory(&pair.initiator, buf, 4096, NA_MEM_READ_ONLY);
    context = pair.initiator.context;
    HG_CHECK_OK(rma_start(&pair, &call, true, local, 0, remote, 0, 4096));
    HG_CHECK_OK(NA_Context_destroy(pair.initiator.na_class, context));
    endpoint_unmap(buf, 4096);
    pair.initiator.context = NA_Context_create(pair.initiator.na_class);
    HG_CHECK(pair.initiator.context != NULL);
    rma_free(&pair.initiator, local);
    rma_free(&pair.initiator, remote);
    rma_free(&pair.owner, mem);
    rma_close(&pair);
}

/* ---- Failures ---- */

HG_TEST(registrations_that_fail_leave_nothing)
{
    static const struct {
        const char *words;
        na_return_t ret;
    } cases[] = {{"fault=mr:1", NA_NOMEM}, {"fault=mr:3", NA_NOMEM},
        {"fault=mr:2:266", NA_SUCCESS}, /* another key is tried */
        {"endpoint,fault=mrenable:2", NA_NOMEM}};
    static unsigned char memory[300];
    struct na_segment segments[3] = {
        {memory, 100}, {memory + 100, 100}, {memory + 200, 100}};
    unsigned i;

    hg_test_expect_log("fi_mr_regattr of memory");
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct conform_end end;
        na_mem_handle_t mem;

        hg_test_ofi_configure(cases[i].words);
        endpoint_open(&end, "ofi+tcp://127.0.0.1:0", 1000);
        HG_CHECK_OK(NA_Mem_handle_create_segments(
            end.na_class, segments, 3, NA_MEM_READWRITE, &mem));
        HG_CHECK_RET(NA_Mem_register(end.na_class, mem), cases[i].ret);
        HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 1);
        if (cases[i].ret != NA_SUCCESS) /* now it succeeds */
            HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
        rma_free(&end, mem);
        conform_close(&end);
    }
}

/* A piece fails: the pieces in flight end first, then the transfer. If the
 * connection broke, the transfer starts again. */
HG_TEST(failed_piece_ends_its_transfer)
{
    static const struct {
        const char *words;
        na_return_t ret;
        bool again;
    } cases[] = {{"msg=1000,fault=rma:3:266", NA_NOENTRY, false},
        {"msg=1000,fault=rma:3:12", NA_NOMEM, false},
        {"msg=1000,fault=rma:3:5", NA_SUCCESS, true},
        {"msg=1000,fault=rma:3:125", NA_SUCCESS, true}};
    static unsigned char from[20000], to[20000];
    unsigned i;

    hg_test_allow_log("");
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rma_pair pair;
        na_mem_handle_t local, target, remote;

        rma_open(&pair, "ofi+tcp", cases[i].words);
        local =
            conform_memory(&pair.initiator, to, sizeof(to), NA_MEM_WRITE_ONLY);
        target =
            conform_memory(&pair.owner, from, sizeof(from), NA_MEM_READ_ONLY);
        HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, target));
        remote = rma_remote(&pair, target);
        HG_CHECK_RET(rma_move(&pair, false, local, 0, remote, 0, sizeof(from)),
            cases[i].ret);
        HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 1);
        HG_CHECK((hg_test_ofi_count("read") >= 20) == cases[i].again);
        if (cases[i].again)
            HG_CHECK_EQ_MEM(to, from, sizeof(from));
        rma_free(&pair.initiator, remote);
        rma_free(&pair.initiator, local);
        rma_free(&pair.owner, target);
        rma_close(&pair);
    }
}
