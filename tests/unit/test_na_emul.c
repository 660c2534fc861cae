/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module emul, and cursors, with transfers that succeed or are refused:
 * data of every layout, windows, scheduling, refusals.
 */
#include "emul_pair.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- Moving data ---- */

/* A few transfers of random layout at once, each with its own memory. */
#define EMUL_AT_ONCE 3

static void emul_shapes_round(struct emul_pair *pair)
{
    struct emul_mem local[EMUL_AT_ONCE];
    struct emul_mem owned[EMUL_AT_ONCE];
    na_mem_handle_t remote[EMUL_AT_ONCE];
    struct emul_call call[EMUL_AT_ONCE];
    unsigned i;
    unsigned steps;

    for (i = 0; i < EMUL_AT_ONCE; i++) {
        uint64_t dice = hg_test_random(&pair->random);
        struct emul_side *side = dice % 2 == 0 ? &pair->a : &pair->b;
        bool put = dice % 4 < 2;
        size_t most = (size_t) 1 << (dice >> 8) % 17;
        size_t size, from, to;

        HG_CHECK_OK(emul_mem_make(&local[i], side, 1 + (dice >> 16) % 40, most,
            dice % 16 == 0, NA_MEM_READWRITE));
        HG_CHECK_OK(emul_mem_make(&owned[i], side->other, 1 + (dice >> 24) % 40,
            most, dice % 16 == 1, NA_MEM_READWRITE));
        HG_CHECK_OK(emul_mem_publish(&owned[i], side, &remote[i]));
        size = local[i].size < owned[i].size ? local[i].size : owned[i].size;
        size = (dice >> 32) % 3 == 0 ? size : (dice >> 34) % (size + 1);
        from = (dice >> 40) % (local[i].size - size + 1);
        to = (dice >> 48) % (owned[i].size - size + 1);
        HG_CHECK_OK(emul_start(
            &call[i], side, put, local[i].handle, from, remote[i], to, size));
        if (put)
            emul_model(&owned[i], to, &local[i], from, size);
        else
            emul_model(&local[i], from, &owned[i], to, size);
    }
    for (steps = (unsigned) hg_test_random(&pair->random) % 200; steps > 0;
         steps--)
        emul_step(pair);
    emul_settle(pair);
    emul_check_idle(pair);
    for (i = 0; i < EMUL_AT_ONCE; i++) {
        emul_check_end(&call[i], NA_SUCCESS);
        emul_mem_check(&local[i]);
        emul_mem_check(&owned[i]);
        HG_CHECK_OK(NA_Mem_handle_free(remote[i]->na_class, remote[i]));
        emul_mem_free(&local[i]);
        emul_mem_free(&owned[i]);
    }
}

/* A copy to oneself is an operation on registered memory: deregistering waits
 * for it on both sides, and so does destroying the context. */
HG_TEST(emul_copies_to_oneself_hold_both_registrations)
{
    struct na_emul_xfer xfer;
    struct na_mem_core mem;
    struct na_mem_handle local;
    struct na_mem_handle other;
    struct na_context context;
    struct na_op op;

    memset(&xfer, 0, sizeof(xfer));
    memset(&op, 0, sizeof(op));
    op.context = &context;
    op.local = &local;
    xfer.op = &op;
    xfer.mem = &mem;
    HG_CHECK(na_emul_uses(&xfer, &context, NULL));
    HG_CHECK(na_emul_uses(&xfer, NULL, &local));
    HG_CHECK(na_emul_uses(&xfer, NULL, &mem.pub));
    HG_CHECK(!na_emul_uses(&xfer, NULL, &other));
    xfer.mem = NULL;
    HG_CHECK(!na_emul_uses(&xfer, NULL, &mem.pub));
}

HG_TEST(emul_moves_every_segment_layout)
{
    static const size_t frames[] = {4096, 5000, 65536, 0};
    enum emul_release release;
    unsigned i;
    unsigned round;

    for (release = EMUL_RELEASE_COPY; release <= EMUL_RELEASE_MIXED;
         release = (enum emul_release)(release + 1)) {
        for (i = 0; i < 4; i++) {
            struct emul_pair *pair =
                emul_open(frames[i], i % 2 == 0 ? 0 : 3 * frames[i], release);

            pair->again_chance = i == 1 ? 3 : 0;
            for (round = 0; round < 6; round++)
                emul_shapes_round(pair);
            HG_CHECK(pair->a.in_bytes_max <= 2 * pair->a.core.emul->window);
            HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_refused"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_stale"), 0);
            emul_close(pair);
        }
    }
}

HG_TEST(emul_receives_into_the_final_memory)
{
    struct emul_pair *pair = emul_open(5000, 0, EMUL_RELEASE_MIXED);
    unsigned round;

    pair->places = true;
    for (round = 0; round < 20; round++)
        emul_shapes_round(pair);
    HG_CHECK(pair->placed > 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_close(pair);
}

/* A canceled transfer completes when the transport has released its memory. */
HG_TEST(emul_keeps_memory_until_it_is_unplaced)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_pipe_frame *frame;
    struct emul_plain plain;

    pair->places = true;
    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 50000));
    HG_CHECK(emul_deliver(&pair->b)); /* the request */
    HG_CHECK(emul_poll(&pair->b) > 0);
    frame = HG_CONTAINER_OF(pair->a.in.next, struct emul_pipe_frame, link);
    HG_CHECK(frame->memory != NULL);
    HG_CHECK_OK(locked_emul_cancel(
        &plain.call.op.pub, na_op_id_of(&plain.call.op.pub)));
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_CANCELED);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Where the data of an answer of that size goes, as `source` sends it. */
static void *emul_try_place(struct emul_pair *pair, struct na_addr *source,
    uint64_t id, uint64_t offset, size_t size)
{
    struct na_emul_wire wire;
    unsigned char header[NA_EMUL_WIRE_SIZE];
    void *place = NULL;
    void *memory;

    memset(&wire, 0, sizeof(wire));
    wire.type = NA_EMUL_WIRE_ANSWER;
    wire.id = id;
    wire.offset = offset;
    wire.length = size;
    na_emul_wire_encode(&wire, header);
    memory = emul_frame_place(
        &pair->a, source, header, sizeof(header), size, &place);
    if (memory != NULL)
        na_emul_frame_unplace(&pair->a.core.pub, place);
    return memory;
}

/* Memory is placed only for the peer that was asked, only for the size that was
 * asked for, and not for a transfer that sends. */
HG_TEST(emul_places_only_what_was_asked_for)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_pipe_frame *frame;
    struct emul_plain plain;
    struct na_emul_wire wire;
    unsigned put, i;

    emul_plain_make(&plain, pair, 50000);
    for (put = 0; put < 2; put++) {
        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 10000));
        frame = HG_CONTAINER_OF(pair->b.in.next, struct emul_pipe_frame, link);
        HG_CHECK_OK(na_emul_wire_decode(
            frame->header, frame->header_size, frame->size, &wire));
        HG_CHECK_EQ_INT(wire.type, put ? NA_EMUL_WIRE_PUT : NA_EMUL_WIRE_GET);
        HG_CHECK(emul_try_place(pair, pair->a.peer, wire.id, 0, 10001) == NULL);
        HG_CHECK(emul_try_place(pair, pair->a.peer, wire.id, 1, 10000) == NULL);
        HG_CHECK(emul_try_place(pair, pair->b.peer, wire.id, 0, 10000) == NULL);
        HG_CHECK(
            emul_try_place(pair, pair->a.peer, wire.id + 1, 0, 10000) == NULL);
        for (i = 0; put && i < 10000; i++)
            HG_CHECK(emul_try_place(pair, pair->a.peer, wire.id, i, 1) == NULL);
        for (i = 0; !put && i < 10000; i += 1000)
            HG_CHECK(
                emul_try_place(pair, pair->a.peer, wire.id, i, 10000 - i) ==
                plain.local.store + plain.local.place[i]);
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
    }
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Data for memory that cannot be written is received elsewhere, and ends the
 * transfer. */
HG_TEST(emul_places_only_where_it_can_write)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    struct emul_plain plain;
    unsigned char *memory;
    unsigned put;

    hg_test_expect_log("bulk memory of this process cannot be written");
    pair->places = true;
    for (put = 0; put < 2; put++) {
        emul_plain_make(&plain, pair, 4 * page);
        memory = put ? plain.owned.store : plain.local.store;
        memory += page - (uintptr_t) memory % page;
        HG_CHECK_EQ_INT(mprotect(memory, page, PROT_READ), 0);
        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 4 * page));
        emul_settle(pair);
        HG_CHECK_EQ_INT(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
        emul_check_end(&plain.call, NA_FAULT);
        emul_check_idle(pair);
        emul_plain_free(&plain);
    }
    emul_close(pair);
}

/* Memory that receives a put stays registered until it is unplaced. */
static void *emul_unplace_later(void *arg)
{
    struct emul_pair *pair = (struct emul_pair *) arg;
    bool waits = false;

    while (!waits) {
        hg_enter(pair->b.core.lock);
        waits = pair->b.core.emul->regs.count == 0;
        hg_leave(pair->b.core.lock);
        (void) sched_yield();
    }
    (void) emul_deliver(&pair->b);
    return NULL;
}

HG_TEST(emul_keeps_registered_memory_until_it_is_unplaced)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;
    pthread_t thread;

    pair->places = true;
    emul_plain_make(&plain, pair, 4096);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 4096));
    HG_CHECK(HG_CONTAINER_OF(pair->b.in.next, struct emul_pipe_frame, link)
                 ->memory != NULL);
    HG_CHECK_EQ_INT(pthread_create(&thread, NULL, emul_unplace_later, pair), 0);
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    HG_CHECK(hg_list_is_empty(&pair->b.in));
    HG_CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_NOENTRY);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_sends_contiguous_memory_in_place)
{
    struct emul_pair *pair = emul_open(65536, 0, EMUL_RELEASE_LATE);
    const size_t size = 1000000;
    struct emul_plain plain;
    unsigned put;

    emul_plain_make(&plain, pair, size);
    for (put = 0; put < 2; put++) {
        const struct emul_side *source = put ? &pair->a : &pair->b;
        const struct emul_side *sink = put ? &pair->b : &pair->a;

        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, size));
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
        emul_check_idle(pair);
        HG_CHECK_EQ_U64(emul_counter(source, "rma_bytes_copied_source"), 0);
        HG_CHECK_EQ_U64(emul_counter(source, "rma_bytes_sent"), size);
        HG_CHECK_EQ_U64(
            emul_counter(source, "rma_frames"), (size + 65535) / 65536);
        HG_CHECK(sink->in_bytes_max <= 4 * 65536);
        HG_CHECK(sink->in_bytes_max > 2 * 65536);
    }
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_gathers_only_short_pieces)
{
    struct emul_pair *pair = emul_open(1 << 20, 0, EMUL_RELEASE_MIXED);
    static unsigned char bytes[3 * 100 + 65536];
    struct na_segment segments[4] = {{bytes, 100}, {bytes + 100, 100},
        {bytes + 200, 65536}, {bytes + 200 + 65536, 100}};
    struct emul_mem local;
    struct emul_call call;
    na_mem_handle_t owned, remote;
    unsigned char handle[NA_EMUL_WIRE_HANDLE_SIZE];

    memset(bytes, 0x5a, sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->b.core.pub, segments, 4, NA_MEM_READ_ONLY, &owned));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, owned));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        &pair->b.core.pub, handle, sizeof(handle), owned));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        &pair->a.core.pub, &remote, handle, sizeof(handle)));
    HG_CHECK_OK(emul_mem_make(
        &local, &pair->a, 1, sizeof(bytes), true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_start(
        &call, &pair->a, false, local.handle, 0, remote, 0, sizeof(bytes)));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_MEM(local.handle->segments[0].address, bytes, sizeof(bytes));
    /* The first two together; the long one and the last one separately. */
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_bytes_copied_source"), 200);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_frames"), 3);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->b.core.pub, owned));
    emul_mem_free(&local);
    emul_close(pair);
}

HG_TEST(emul_walks_65536_segments)
{
    struct emul_pair *pair = emul_open(0, 0, EMUL_RELEASE_MIXED);
    struct emul_mem local, owned;
    struct emul_call call;
    na_mem_handle_t remote;
    unsigned put;

    HG_CHECK_OK(
        emul_mem_make(&local, &pair->a, 65536, 7, true, NA_MEM_READWRITE));
    HG_CHECK_OK(
        emul_mem_make(&owned, &pair->b, 65536, 14, false, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&owned, &pair->a, &remote));
    for (put = 0; put < 2; put++) {
        size_t size = 300000;

        HG_CHECK_OK(emul_start(
            &call, &pair->a, put != 0, local.handle, 123, remote, 4567, size));
        emul_settle(pair);
        emul_check_end(&call, NA_SUCCESS);
        if (put)
            emul_model(&owned, 4567, &local, 123, size);
        else
            emul_model(&local, 123, &owned, 4567, size);
    }
    emul_mem_check(&local);
    emul_mem_check(&owned);
    /* 7 bytes a segment, yet only as many frames as fill the buffers. */
    HG_CHECK(emul_counter(&pair->b, "rma_frames") <= 3);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    emul_mem_free(&local);
    emul_mem_free(&owned);
    emul_close(pair);
}

/* 5 GiB of addresses that share 4 MiB of memory. */
static void emul_wide(struct na_segment *segments, size_t count, char *bytes)
{
    size_t i;

    for (i = 0; i < count; i++) {
        segments[i].address = bytes;
        segments[i].size = 4 << 20;
    }
}

HG_TEST_SECONDS(emul_moves_5_gib, 120)
{
    enum { COUNT = 1280 };
    struct emul_pair *pair = emul_open(0, 0, EMUL_RELEASE_ARRIVAL);
    const uint64_t total = (uint64_t) COUNT << 22;
    /* In other builds only the part around 4 GiB. */
    const uint64_t start = hg_test_is_plain() ? 0 : UINT64_C(4091) << 20;
    const uint64_t size = hg_test_is_plain() ? total : UINT64_C(9) << 20;
    static struct na_segment segments[COUNT];
    char *from = (char *) malloc(4 << 20);
    char *to = (char *) calloc(1, 4 << 20);
    unsigned char handle[NA_EMUL_WIRE_HANDLE_SIZE];
    struct emul_call call;
    na_mem_handle_t local, owned, remote;

    HG_CHECK(from != NULL && to != NULL);
    HG_CHECK_EQ_U64(total, UINT64_C(5) << 30);
    memset(from, 0x3c, 4 << 20);
    emul_wide(segments, COUNT, from);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->b.core.pub, segments, COUNT, NA_MEM_READ_ONLY, &owned));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, owned));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        &pair->b.core.pub, handle, sizeof(handle), owned));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        &pair->a.core.pub, &remote, handle, sizeof(handle)));
    HG_CHECK_EQ_U64(remote->size, total);
    emul_wide(segments, COUNT, to);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->a.core.pub, segments, COUNT, NA_MEM_WRITE_ONLY, &local));
    HG_CHECK_OK(
        emul_start(&call, &pair->a, false, local, start, remote, start, size));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_bytes_sent"), size);
    HG_CHECK_EQ_MEM(to, from, 4 << 20);
    /* Now the last bytes alone. */
    memset(to, 0, 4 << 20);
    HG_CHECK_OK(emul_start(
        &call, &pair->a, false, local, total - 9, remote, total - 9, 9));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_MEM(to + (4 << 20) - 9, from, 9);
    HG_CHECK_EQ_INT(to[(4 << 20) - 10], 0);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, local));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->b.core.pub, owned));
    free(from);
    free(to);
    emul_close(pair);
}

/* ---- Scheduling ---- */

HG_TEST(emul_small_transfer_overtakes_a_large_one)
{
    struct emul_pair *pair = emul_open(65536, 4 * 65536, EMUL_RELEASE_ARRIVAL);
    struct emul_plain big, small;
    unsigned put;

    emul_plain_make(&big, pair, 64 * 65536);
    emul_plain_make(&small, pair, 4096);
    for (put = 0; put < 2; put++) {
        const char *frames = "rma_frames";
        struct emul_side *source = put ? &pair->a : &pair->b;
        uint64_t before;

        HG_CHECK_OK(emul_plain_start(&big, pair, put != 0, 64 * 65536));
        do /* until the window is full */
            (void) emul_deliver(&pair->b);
        while (emul_poll(&pair->b) + emul_poll(&pair->a) > 0 &&
            pair->a.in_bytes + pair->b.in_bytes < 3 * 65536);
        before = emul_counter(source, frames);
        HG_CHECK_OK(emul_plain_start(&small, pair, put != 0, 4096));
        while (atomic_load(&small.call.ends) == 0) {
            (void) emul_deliver(&pair->b);
            (void) emul_poll(&pair->b);
            (void) emul_deliver(&pair->a);
            (void) emul_poll(&pair->a);
        }
        /* It waited for the data in flight, not for the rest. */
        HG_CHECK(emul_counter(source, frames) - before <= 14);
        HG_CHECK_EQ_INT(atomic_load(&big.call.ends), 0);
        emul_settle(pair);
        emul_check_end(&big.call, NA_SUCCESS);
        emul_check_end(&small.call, NA_SUCCESS);
    }
    emul_plain_free(&big);
    emul_plain_free(&small);
    emul_close(pair);
}

HG_TEST(emul_shares_the_window_between_transfers)
{
    struct emul_pair *pair = emul_open(65536, 4 * 65536, EMUL_RELEASE_MIXED);
    struct emul_plain plain[6];
    unsigned i;
    unsigned put;

    for (i = 0; i < 6; i++)
        emul_plain_make(&plain[i], pair, 500000);
    for (put = 0; put < 2; put++) {
        for (i = 0; i < 6; i++)
            HG_CHECK_OK(emul_plain_start(&plain[i], pair, put != 0, 500000));
        emul_settle(pair);
        for (i = 0; i < 6; i++)
            emul_check_end(&plain[i].call, NA_SUCCESS);
        HG_CHECK((put ? &pair->b : &pair->a)->in_bytes_max <= 4 * 65536);
    }
    emul_check_idle(pair);
    for (i = 0; i < 6; i++)
        emul_plain_free(&plain[i]);
    emul_close(pair);
}

/* The initiator of a get limits the data in flight to it. */
HG_TEST(emul_obeys_the_requested_window)
{
    struct emul_pair *pair = emul_open(65536, 0, EMUL_RELEASE_ARRIVAL);
    struct emul_plain plain;

    pair->a.core.emul->window = 3 * 4096; /* less than a frame at the target */
    pair->a.core.emul->frame_size = 4096;
    emul_plain_make(&plain, pair, 100000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 100000));
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    HG_CHECK(pair->a.in_bytes_max <= 3 * 4096);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_queues_more_operations_than_a_peer_takes)
{
    enum { COUNT = 3 * NA_EMUL_ANSWERS_MAX };
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_call *calls =
        (struct emul_call *) calloc(COUNT, sizeof(*calls));
    struct emul_plain plain;
    unsigned i;

    HG_CHECK(calls != NULL);
    emul_plain_make(&plain, pair, 100);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(emul_start(&calls[i], &pair->a, false, plain.local.handle,
            i % 50, plain.remote, i % 50, i % 50));
    while (emul_deliver(&pair->b)) /* all of them before any is served */
        continue;
    emul_settle(pair);
    for (i = 0; i < COUNT; i++)
        emul_check_end(&calls[i], NA_SUCCESS);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_refused"), 0);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    free(calls);
    emul_close(pair);
}

static unsigned emul_count_links(const struct na_link *head)
{
    const struct na_link *link;
    unsigned count = 0;

    for (link = head->next; link != head; link = link->next)
        count++;
    return count;
}

/* An answer does not touch all operations that wait. */
HG_TEST(emul_an_answer_wakes_one_operation)
{
    enum { PARKED = 100, COUNT = NA_EMUL_REQUESTS_MAX + PARKED };
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_call *calls =
        (struct emul_call *) calloc(COUNT, sizeof(*calls));
    struct na_link *ready = &pair->a.core.emul->ready;
    struct na_link *parked = &na_emul_peer_of(pair->a.peer)->parked;
    struct emul_plain plain;
    unsigned i;

    HG_CHECK(calls != NULL);
    emul_plain_make(&plain, pair, 8);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(emul_start(&calls[i], &pair->a, true, plain.local.handle, 0,
            plain.remote, 0, 8));
    HG_CHECK_EQ_INT(emul_count_links(parked), PARKED);
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_INT(emul_poll(&pair->b), 1);
    HG_CHECK(emul_deliver(&pair->a));
    HG_CHECK_EQ_INT(emul_count_links(ready), 1);
    HG_CHECK_EQ_INT(emul_count_links(parked), PARKED - 1);
    emul_settle(pair);
    for (i = 0; i < COUNT; i++)
        emul_check_end(&calls[i], NA_SUCCESS);
    emul_plain_free(&plain);
    free(calls);
    emul_close(pair);
}

/* An answer that frees the window serves all operations that now fit. */
HG_TEST(emul_free_window_serves_all_that_wait)
{
    enum { COUNT = 10 };
    struct emul_pair *pair = emul_open(4096, 4096, EMUL_RELEASE_COPY);
    const struct na_link *parked = &na_emul_peer_of(pair->a.peer)->parked;
    struct emul_call large, calls[COUNT];
    struct emul_plain plain;
    unsigned i;

    emul_plain_make(&plain, pair, 4096);
    HG_CHECK_OK(emul_start(
        &large, &pair->a, true, plain.local.handle, 0, plain.remote, 0, 4096));
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(emul_start(&calls[i], &pair->a, true, plain.local.handle, 0,
            plain.remote, 0, 8));
    HG_CHECK_EQ_INT(emul_count_links(parked), COUNT);
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_INT(emul_poll(&pair->b), 1);
    HG_CHECK(emul_deliver(&pair->a));
    HG_CHECK_EQ_INT(emul_poll(&pair->a), COUNT);
    HG_CHECK_EQ_INT(emul_count_links(parked), 0);
    emul_settle(pair);
    emul_check_end(&large, NA_SUCCESS);
    for (i = 0; i < COUNT; i++)
        emul_check_end(&calls[i], NA_SUCCESS);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* The operation that an answer has woken is canceled: the next one goes on. */
HG_TEST(emul_canceled_operation_wakes_the_next)
{
    struct emul_pair *pair = emul_open(4096, 4096, EMUL_RELEASE_COPY);
    struct emul_call calls[3];
    struct emul_plain plain;
    unsigned i;

    emul_plain_make(&plain, pair, 4096);
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(emul_start(&calls[i], &pair->a, true, plain.local.handle, 0,
            plain.remote, 0, 4096));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_INT(emul_poll(&pair->b), 1);
    HG_CHECK(emul_deliver(&pair->a));
    HG_CHECK_OK(
        locked_emul_cancel(&calls[1].op.pub, na_op_id_of(&calls[1].op.pub)));
    emul_settle(pair);
    emul_check_end(&calls[0], NA_SUCCESS);
    emul_check_end(&calls[1], NA_CANCELED);
    emul_check_end(&calls[2], NA_SUCCESS);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_retries_when_the_transport_is_full)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_plain plain;
    unsigned put;

    emul_plain_make(&plain, pair, 50000);
    for (put = 0; put < 2; put++) {
        pair->again = 5;
        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 50000));
        /* Nothing to do until the transport wakes us: progress may sleep. */
        HG_CHECK_EQ_U64(emul_poll(&pair->a), 0);
        HG_CHECK(na_emul_due(pair->a.core.emul) < HG_CLOCK_NEVER);
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
        HG_CHECK_EQ_INT(pair->again, 0);
    }
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_reports_errors_of_the_transport)
{
    static const na_return_t errors[] = {
        NA_DISCONNECT, NA_HOSTUNREACH, NA_NOMEM};
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;
    unsigned put;
    unsigned i;

    emul_plain_make(&plain, pair, 50000);
    for (put = 0; put < 2; put++)
        for (i = 0; i < 3; i++) {
            pair->refuse = errors[i];
            HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 50000));
            emul_check_end(&plain.call, errors[i]);
            emul_check_idle(pair);
            pair->refuse = NA_SUCCESS;
            emul_settle(pair);
        }
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Checksums ---- */

/* A bit of frame n with data is flipped on the way to `side`; returns whether
 * there was such a frame. */
static bool emul_flip(struct emul_side *side, unsigned *n)
{
    struct emul_pipe_frame *frame;

    if (hg_list_is_empty(&side->in))
        return false;
    frame = HG_CONTAINER_OF(side->in.next, struct emul_pipe_frame, link);
    if (frame->size == 0 || (*n)-- != 0)
        return false;
    ((unsigned char *) frame->copy)[frame->size / 2] ^= 0x10;
    return true;
}

/* The result of a transfer with a bit flipped in frame n. */
static na_return_t emul_damage(bool put, size_t size, unsigned n, bool places)
{
    struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_COPY);
    struct emul_side *to = put ? &pair->b : &pair->a;
    struct emul_plain plain;
    bool flipped = false;
    bool more = true;
    na_return_t ret;

    pair->places = places;
    pair->a.core.ops.put = na_emul_put;
    HG_CHECK_OK(na_emul_sum_frames(&pair->a.core.pub, true));
    emul_plain_make(&plain, pair, size);
    HG_CHECK_OK(emul_plain_start(&plain, pair, put, size));
    while (more) {
        more = emul_poll(to) > 0 || emul_deliver(to->other) ||
            emul_poll(to->other) > 0;
        if (!more) {
            flipped = flipped || emul_flip(to, &n);
            more = emul_deliver(to);
        }
    }
    emul_settle(pair);
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
    ret = plain.call.ret;
    HG_CHECK_RET(ret, flipped ? NA_CHECKSUM_ERROR : NA_SUCCESS);
    HG_CHECK_EQ_U64(emul_counter(to, "rma_damaged"), flipped ? 1 : 0);
    HG_CHECK_EQ_U64(emul_counter(to, "rma_malformed"), 0);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
    return ret;
}

HG_TEST(emul_finds_a_changed_bit_in_each_frame)
{
    unsigned shape;

    hg_test_expect_log("damaged in transit");
    for (shape = 0; shape < 8; shape++) {
        size_t size = shape & 2 ? 100 : 40000;
        unsigned n = 0;

        while (emul_damage(shape & 1, size, n, shape & 4) != NA_SUCCESS)
            n++;
        HG_CHECK_EQ_U64(n, (size + 4095) / 4096);
    }
}

/* Without the option no checksum is verified; with it, a frame without one is
 * refused. */
HG_TEST(emul_computes_checksums_only_on_request)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_pipe_frame *frame;
    struct emul_plain plain;
    unsigned n = 0;

    emul_plain_make(&plain, pair, 1000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 1000));
    HG_CHECK(emul_flip(&pair->b, &n));
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    pair->a.core.ops.put = na_emul_put;
    HG_CHECK_OK(na_emul_sum_frames(&pair->a.core.pub, true));
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 1000));
    HG_CHECK(emul_deliver(&pair->b));
    (void) emul_poll(&pair->b);
    frame = HG_CONTAINER_OF(pair->a.in.next, struct emul_pipe_frame, link);
    frame->header[4] &= (unsigned char) ~NA_EMUL_WIRE_SUM;
    emul_settle(pair);
    emul_check_end(&plain.call, NA_PROTOCOL_ERROR);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 1);
    HG_CHECK_OK(na_emul_sum_frames(&pair->a.core.pub, false));
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 1000));
    n = 0;
    HG_CHECK(emul_flip(&pair->b, &n));
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    pair->a.core.ops.put = NULL; /* so the transport moves some itself */
    HG_CHECK_RET(na_emul_sum_frames(&pair->a.core.pub, true), NA_OPNOTSUPPORT);
    HG_CHECK_OK(na_emul_sum_frames(&pair->a.core.pub, false));
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Refusals ---- */

HG_TEST(emul_reports_refusals)
{
    static const struct {
        unsigned long flags;
        uint64_t bad_key;
        na_offset_t offset;
        na_size_t size;
        bool put;
        na_return_t ret;
    } cases[] = {
        {NA_MEM_READWRITE, 1, 0, 10, false, NA_NOENTRY},
        {NA_MEM_READWRITE, 1, 0, 10, true, NA_NOENTRY},
        {NA_MEM_READWRITE, 1, 0, 100000, true, NA_NOENTRY},
        {NA_MEM_WRITE_ONLY, 0, 0, 10, false, NA_PERMISSION},
        {NA_MEM_READ_ONLY, 0, 0, 10, true, NA_PERMISSION},
        {NA_MEM_READ_ONLY, 0, 0, 100000, true, NA_PERMISSION},
        {NA_MEM_READWRITE, 0, 100001, 0, false, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 99999, 100000, false, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 99999, 100000, true, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, UINT64_MAX - 5, 10, true, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 100000, 0, false, NA_SUCCESS},
        {NA_MEM_READWRITE, 0, 100000, 0, true, NA_SUCCESS},
        {NA_MEM_READ_ONLY, 0, 99990, 10, false, NA_SUCCESS},
        {NA_MEM_WRITE_ONLY, 0, 99990, 10, true, NA_SUCCESS},
    };
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_mem local, owned;
    struct emul_call call;
    na_mem_handle_t remote;
    uint64_t refused = 0;
    unsigned i;

    HG_CHECK_OK(
        emul_mem_make(&local, &pair->a, 1, 100000, true, NA_MEM_READWRITE));
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HG_CHECK_OK(
            emul_mem_make(&owned, &pair->b, 1, 100000, true, cases[i].flags));
        HG_CHECK_OK(emul_mem_publish(&owned, &pair->a, &remote));
        remote->key ^= cases[i].bad_key;
        HG_CHECK_OK(emul_start(&call, &pair->a, cases[i].put, local.handle, 0,
            remote, cases[i].offset, cases[i].size));
        emul_settle(pair);
        emul_check_end(&call, cases[i].ret);
        if (cases[i].ret == NA_SUCCESS && cases[i].put)
            emul_model(&owned, (size_t) cases[i].offset, &local, 0,
                (size_t) cases[i].size);
        else if (cases[i].ret == NA_SUCCESS)
            emul_model(&local, 0, &owned, (size_t) cases[i].offset,
                (size_t) cases[i].size);
        emul_mem_check(&owned);
        emul_mem_check(&local);
        HG_CHECK((emul_counter(&pair->b, "rma_refused") > refused) ==
            (cases[i].ret != NA_SUCCESS)); /* each request */
        refused = emul_counter(&pair->b, "rma_refused");
        emul_check_idle(pair);
        HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
        emul_mem_free(&owned);
    }
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_mem_free(&local);
    emul_close(pair);
}

/* No correct peer requests so much at once, valid or not: its connection is
 * closed. */
HG_TEST(emul_ends_a_connection_that_asks_for_too_much)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    const unsigned extra = 100;
    struct na_emul_wire wire;
    struct emul_plain plain;
    unsigned i;

    hg_test_expect_log("cannot be answered");
    emul_plain_make(&plain, pair, 100000);
    memset(&wire, 0, sizeof(wire));
    wire.type = NA_EMUL_WIRE_GET;
    wire.length = 100000;
    for (i = 0; i < NA_EMUL_ANSWERS_MAX + extra; i++) {
        HG_CHECK(pair->abandoned == (i > NA_EMUL_ANSWERS_MAX));
        wire.id = i << 6;
        wire.key = plain.remote->key ^ i % 2;
        emul_inject(&pair->b, pair->b.peer, &wire, NULL, 0);
    }
    HG_CHECK_EQ_U64(pair->b.core.emul->xfers.count, NA_EMUL_ANSWERS_MAX);
    HG_CHECK_EQ_U64(
        emul_counter(&pair->b, "rma_refused"), NA_EMUL_ANSWERS_MAX / 2);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_dropped"), extra);
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    emul_settle(pair);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Memory of the class itself is copied without a frame, with the same
 * checks. */
HG_TEST(emul_copies_within_a_process)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct na_addr *peer = pair->a.peer;
    struct emul_mem local, owned;
    struct emul_call call;
    na_mem_handle_t remote;
    unsigned put;

    pair->a.peer = na_addr_create(&pair->a.core.pub, "pipe://self", NA_TRUE);
    HG_CHECK(pair->a.peer != NULL);
    HG_CHECK_OK(
        emul_mem_make(&local, &pair->a, 7, 10000, true, NA_MEM_READWRITE));
    HG_CHECK_OK(
        emul_mem_make(&owned, &pair->a, 5, 14000, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&owned, &pair->a, &remote));
    for (put = 0; put < 2; put++) {
        HG_CHECK_OK(emul_start(&call, &pair->a, put != 0, local.handle, 9,
            remote, 11, put != 0 ? 100 : 69000));
        emul_check_end(&call, NA_SUCCESS);
        if (put)
            emul_model(&owned, 11, &local, 9, 100);
        else
            emul_model(&local, 9, &owned, 11, 69000);
        emul_mem_check(&local);
        emul_mem_check(&owned);
        HG_CHECK_OK(emul_start(
            &call, &pair->a, put != 0, local.handle, 0, remote, 69999, 2));
        emul_check_end(&call, NA_OVERFLOW);
    }
    HG_CHECK_OK(NA_Mem_deregister(&pair->a.core.pub, owned.handle));
    HG_CHECK_OK(
        emul_start(&call, &pair->a, false, local.handle, 0, remote, 0, 100));
    emul_check_end(&call, NA_NOENTRY);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_refused"), 3);
    emul_check_idle(pair);
    na_addr_unref(pair->a.peer);
    pair->a.peer = peer;
    HG_CHECK_OK(NA_Mem_handle_free(remote->na_class, remote));
    emul_mem_free(&local);
    emul_mem_free(&owned);
    emul_close(pair);
}
