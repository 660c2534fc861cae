/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Emulated RMA that ends early: canceled, withdrawn, dead peers, out of memory,
 * false frames, and all of these with several threads.
 */
#include "emul_pair.h"

#include <sys/mman.h>

/* ---- Early ends, at every step ---- */

enum emul_ending {
    EMUL_END_CANCEL,
    EMUL_END_DEREGISTER,
    EMUL_END_DEATH_HERE,  /* the initiator learns of it first */
    EMUL_END_DEATH_THERE, /* the target does */
    EMUL_END_CONTEXT
};

static void emul_kill(struct emul_side *side, na_return_t ret)
{
    atomic_store(&na_addr_core_of(side->peer)->dead, ret);
    emul_drop_frames(side);
    emul_drop_frames(side->other);
    side->drop = true;
    side->other->drop = true;
    locked_emul_addr_dead(side->peer, ret);
}

/* Connect the two again. */
static void emul_revive(struct emul_pair *pair)
{
    pair->abandoned = pair->a.drop = pair->b.drop = false;
    atomic_store(&na_addr_core_of(pair->a.peer)->dead, NA_SUCCESS);
    atomic_store(&na_addr_core_of(pair->b.peer)->dead, NA_SUCCESS);
}

/* Deliver every frame to `side` and release its memory: a wait for that in this
 * single thread would never end. */
static void emul_flush(struct emul_side *side)
{
    while (emul_deliver(side))
        continue;
    while (emul_release_one(side->pair))
        continue;
}

static void emul_end_it(
    struct emul_pair *pair, struct emul_plain *plain, enum emul_ending ending)
{
    uint64_t id = na_op_id_of(&plain->call.op.pub);

    switch (ending) {
    case EMUL_END_CANCEL:
        HG_CHECK_RET(
            locked_emul_cancel(&plain->call.op.pub, id + 1), NA_NOENTRY);
        if (locked_emul_cancel(&plain->call.op.pub, id) == NA_SUCCESS)
            HG_CHECK_RET(
                locked_emul_cancel(&plain->call.op.pub, id), NA_NOENTRY);
        break;
    case EMUL_END_DEREGISTER:
        emul_flush(&pair->a);
        HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain->owned.handle));
        break;
    case EMUL_END_DEATH_HERE:
        emul_kill(&pair->a, NA_DISCONNECT);
        (void) emul_poll(&pair->b);
        emul_kill(&pair->b, NA_DISCONNECT);
        break;
    case EMUL_END_DEATH_THERE:
        emul_kill(&pair->b, NA_DISCONNECT);
        (void) emul_poll(&pair->a);
        emul_kill(&pair->a, NA_HOSTUNREACH);
        break;
    case EMUL_END_CONTEXT:
        emul_flush(&pair->b);
        locked_emul_context_gone(&pair->a.context.pub);
        break;
    }
}

static na_return_t emul_ending_code(enum emul_ending ending)
{
    return ending == EMUL_END_CANCEL    ? NA_CANCELED
        : ending == EMUL_END_CONTEXT    ? NA_CANCELED
        : ending == EMUL_END_DEREGISTER ? NA_NOENTRY
        : ending == EMUL_END_DEATH_HERE ? NA_DISCONNECT
                                        : NA_HOSTUNREACH;
}

/* A transfer that is ended after `steps` events. Returns whether the end came
 * early enough to make a difference. */
static bool emul_ends_at(enum emul_ending ending, bool put, bool pieces,
    enum emul_release release, unsigned steps)
{
    struct emul_pair *pair = emul_open(4096, 8192, release);
    const size_t size = 40000;
    const size_t count = pieces ? 200 : 1;
    struct emul_plain plain;
    bool late;
    bool poisoned = false;
    unsigned i;

    memset(&plain, 0, sizeof(plain));
    HG_CHECK_OK(emul_mem_make(
        &plain.local, &pair->a, count, size / count, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_make(
        &plain.owned, &pair->b, count, size / count, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&plain.owned, &pair->a, &plain.remote));
    HG_CHECK_OK(emul_plain_start(&plain, pair, put, size));
    for (i = 0; i < steps; i++)
        emul_turn(pair, i);
    emul_end_it(pair, &plain, ending);
    if (ending == EMUL_END_CONTEXT)
        HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
    if (atomic_load(&plain.call.ends) != 0) {
        /* From now on the local memory must not be accessed. */
        poisoned = true;
        memset(plain.local.store, 0xee, plain.local.store_size);
        memset(plain.local.want, 0xee, plain.local.store_size);
    }
    emul_settle(pair);
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
    late = plain.call.ret == NA_SUCCESS;
    if (!late)
        HG_CHECK_RET(plain.call.ret, emul_ending_code(ending));
    if (poisoned)
        emul_mem_check(&plain.local);
    emul_check_idle(pair);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_plain_free(&plain);
    emul_close(pair);
    return !late;
}

static void emul_ends_everywhere(enum emul_ending ending)
{
    unsigned shape;

    for (shape = 0; shape < 12; shape++) {
        unsigned steps = 0;

        while (emul_ends_at(ending, shape % 2 != 0, shape / 2 % 2 != 0,
            (enum emul_release)(shape / 4), steps))
            steps++;
        HG_CHECK(steps > 10); /* the transfer takes several steps */
    }
}

HG_TEST(emul_cancels_at_every_step)
{
    emul_ends_everywhere(EMUL_END_CANCEL);
}

HG_TEST(emul_survives_death_at_every_step)
{
    emul_ends_everywhere(EMUL_END_DEATH_HERE);
    emul_ends_everywhere(EMUL_END_DEATH_THERE);
}

HG_TEST(emul_withdraws_memory_at_every_step)
{
    emul_ends_everywhere(EMUL_END_DEREGISTER);
}

HG_TEST(emul_ends_a_context_at_every_step)
{
    emul_ends_everywhere(EMUL_END_CONTEXT);
}

/* Operations of another context continue. */
HG_TEST(emul_ends_one_context_only)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;
    struct emul_call other;

    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 50000));
    HG_CHECK_OK(emul_start(&other, &pair->a, false, plain.local.handle, 0,
        plain.remote, 0, 50000));
    locked_emul_context_gone(&pair->a.context2.pub);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_check_end(&other, NA_SUCCESS);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* No operation with a dead peer starts, and it gets no answer. */
HG_TEST(emul_refuses_dead_peers)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;

    emul_plain_make(&plain, pair, 5000);
    atomic_store(&na_addr_core_of(pair->b.peer)->dead, NA_DISCONNECT);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 5000));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_stale"), 1);
    HG_CHECK_EQ_U64(pair->b.core.emul->xfers.count, 0);
    emul_mem_check(&plain.owned);
    emul_kill(&pair->a, NA_HOSTUNREACH);
    (void) emul_poll(&pair->a);
    emul_check_end(&plain.call, NA_HOSTUNREACH);
    HG_CHECK_RET(emul_plain_start(&plain, pair, true, 5000), NA_HOSTUNREACH);
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Out of memory ---- */

static int emul_oom_transfer(struct emul_pair *pair, bool put, bool pieces)
{
    const size_t size = 40000;
    const size_t count = pieces ? 200 : 1;
    struct emul_plain plain;
    na_return_t ret;

    memset(&plain, 0, sizeof(plain));
    ret = emul_mem_make(
        &plain.local, &pair->a, count, size / count, true, NA_MEM_READWRITE);
    if (ret == NA_SUCCESS)
        ret = emul_mem_make(&plain.owned, &pair->b, count, size / count, true,
            NA_MEM_READWRITE);
    if (ret == NA_SUCCESS)
        ret = emul_mem_publish(&plain.owned, &pair->a, &plain.remote);
    if (ret == NA_SUCCESS)
        ret = emul_plain_start(&plain, pair, put, size);
    if (ret == NA_SUCCESS) {
        emul_settle(pair);
        if (pair->abandoned) { /* there was no memory for a response */
            emul_kill(&pair->a, NA_NOMEM);
            emul_kill(&pair->b, NA_NOMEM);
            emul_settle(pair);
            emul_revive(pair);
        }
        emul_check_idle(pair);
        HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
        ret = plain.call.ret;
        if (ret == NA_SUCCESS) {
            if (put)
                emul_model(&plain.owned, 0, &plain.local, 0, size);
            else
                emul_model(&plain.local, 0, &plain.owned, 0, size);
            emul_mem_check(&plain.owned);
            emul_mem_check(&plain.local);
        }
    }
    HG_CHECK(ret == NA_SUCCESS || ret == NA_NOMEM);
    emul_plain_free(&plain);
    return ret;
}

static int emul_oom_body(void *arg)
{
    struct emul_pair *pair = emul_try_open(4096, 8192, EMUL_RELEASE_MIXED);
    int failed = 0;
    unsigned shape;

    (void) arg;
    if (pair == NULL)
        return NA_NOMEM;
    for (shape = 0; shape < 4; shape++)
        if (emul_oom_transfer(pair, shape % 2 != 0, shape / 2 != 0) != 0)
            failed = NA_NOMEM;
    emul_close(pair);
    return failed;
}

HG_TEST(emul_survives_every_failing_allocation)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(emul_oom_body, NULL) > 20);
}

/* ---- Hostile peers ---- */

/* Values that break arithmetic. */
static uint64_t emul_edge_value(uint64_t *random, uint64_t usual)
{
    static const uint64_t values[] = {0, 1, 4095, 4096, 16384, 16385,
        UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 1,
        UINT64_MAX};
    uint64_t dice = hg_test_random(random);

    switch (dice % 6) {
    case 0: return values[(dice >> 8) % (sizeof(values) / sizeof(values[0]))];
    case 1: return usual + (dice >> 8) % 5 - 2;
    case 2: return usual ^ (UINT64_C(1) << (dice >> 8) % 64);
    default: return usual;
    }
}

/* An almost valid frame: of a known key, a known id, any type. */
static size_t emul_forge(
    uint64_t *random, uint64_t key, uint64_t id, unsigned char *header)
{
    struct na_emul_wire wire;
    uint64_t dice = hg_test_random(random);
    size_t size = NA_EMUL_WIRE_SIZE;

    memset(&wire, 0, sizeof(wire));
    wire.type = (uint8_t) (1 + dice % NA_EMUL_WIRE_ANSWER);
    wire.flags = (uint8_t) (dice >> 8) & 3;
    wire.status = dice >> 16 & 1 ? (uint16_t) ((dice >> 17) % 30) : 0;
    wire.id = dice >> 24 & 3 ? id : (dice >> 26) % 4;
    wire.key = emul_edge_value(random, key);
    wire.offset = emul_edge_value(random, hg_test_random(random) % 8 * 4096);
    wire.length = emul_edge_value(random, hg_test_random(random) % 50000);
    na_emul_wire_encode(&wire, header);
    if (dice >> 40 & 1) /* and bits flipped, or bytes missing */
        header[(dice >> 41) % size] ^= (unsigned char) (1u << (dice >> 48) % 8);
    if ((dice >> 52) % 16 == 0)
        size = (dice >> 56) % (size + 1);
    return size;
}

/* Hostile peers know the key of some memory and the ids in use, and attack its
 * owner and the initiator, while the two use other memory. */
HG_TEST_SECONDS(emul_serves_others_beside_a_hostile_peer, 60)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_plain plain;
    struct emul_mem bait;
    na_mem_handle_t key;
    struct na_addr *stranger =
        na_addr_create(&pair->b.core.pub, "pipe://stranger", NA_FALSE);
    struct na_addr *liar =
        na_addr_create(&pair->a.core.pub, "pipe://liar", NA_FALSE);
    static unsigned char junk[65536];
    unsigned char header[NA_EMUL_WIRE_SIZE];
    unsigned finished = 0;
    unsigned i;

    HG_CHECK(stranger != NULL && liar != NULL);
    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(
        emul_mem_make(&bait, &pair->b, 30, 3000, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&bait, &pair->a, &key));
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 50000));
    for (i = 0; i < 100000; i++) {
        uint64_t id = emul_edge_value(&pair->random, (uint64_t) i % 8);
        size_t size = emul_forge(&pair->random, key->key, id, header);
        size_t data = hg_test_random(&pair->random) % 4 == 0
            ? 0
            : (size_t) hg_test_random(&pair->random) % 8192;

        if (hg_test_random(&pair->random) % 2 == 0)
            hg_wire_store64(header + 32, data);
        locked_emul_arrived(
            &pair->b.core.pub, stranger, header, size, junk, data);
        if (i % 2 == 0) {
            (void) emul_first_origin(&pair->a, &id);
            size = emul_forge(&pair->random, key->key, id, header);
            locked_emul_arrived(
                &pair->a.core.pub, liar, header, size, junk, data);
        }
        emul_step(pair);
        if (atomic_load(&plain.call.ends) != 0) {
            emul_check_end(&plain.call, NA_SUCCESS);
            if (finished % 2 == 0)
                emul_model(&plain.owned, 0, &plain.local, 0, 50000);
            else
                emul_model(&plain.local, 0, &plain.owned, 0, 50000);
            emul_mem_check(&plain.owned);
            emul_mem_check(&plain.local);
            finished++;
            HG_CHECK_OK(
                emul_plain_start(&plain, pair, finished % 2 == 0, 50000));
        }
        HG_CHECK(pair->b.core.emul->xfers.count <= NA_EMUL_ANSWERS_MAX + 2);
    }
    HG_CHECK(finished > 100);
    HG_CHECK(emul_counter(&pair->b, "rma_malformed") > 1000);
    HG_CHECK(emul_counter(&pair->b, "rma_refused") > 1000);
    HG_CHECK(emul_counter(&pair->b, "rma_stale") > 1000);
    HG_CHECK(emul_counter(&pair->a, "rma_malformed") > 1000);
    atomic_store(&na_addr_core_of(stranger)->dead, NA_DISCONNECT);
    locked_emul_addr_dead(stranger, NA_DISCONNECT);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_check_idle(pair);
    /* Only registered bytes were written, and the gaps between are
     * unchanged. */
    for (i = 0; i < bait.size; i++)
        bait.want[bait.place[i]] = bait.store[bait.place[i]];
    emul_mem_check(&bait);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(stranger)->refs), 1);
    na_addr_unref(stranger);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(liar)->refs), 1);
    na_addr_unref(liar);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, key));
    emul_mem_free(&bait);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Frames between two peers are changed, repeated, reordered, lost. */
static void emul_spoil(struct emul_side *side, unsigned char *junk)
{
    struct emul_pair *pair = side->pair;
    uint64_t dice = hg_test_random(&pair->random);
    struct emul_pipe_frame *frame;

    if (hg_list_is_empty(&side->in))
        return;
    frame = HG_CONTAINER_OF(side->in.next, struct emul_pipe_frame, link);
    switch (dice % 8) {
    case 0: /* a bit */
        frame->header[(dice >> 8) % sizeof(frame->header)] ^=
            (unsigned char) (1u << (dice >> 16) % 8);
        break;
    case 1: /* arrives twice */
        locked_emul_arrived(&side->core.pub, frame->source, frame->header,
            frame->header_size, frame->data, frame->size);
        break;
    case 2: /* lost */
        frame = emul_take(side);
        emul_frame_give_back(frame);
        break;
    case 3: /* more or less data */
        locked_emul_arrived(&side->core.pub, frame->source, frame->header,
            frame->header_size, junk, (dice >> 8) % 8192);
        break;
    case 4: /* shorter header */
        frame->header_size = (dice >> 8) % (frame->header_size + 1);
        break;
    default: /* later */
        hg_list_remove(&frame->link);
        hg_list_push(&side->in, &frame->link);
        break;
    }
}

HG_TEST_SECONDS(emul_survives_false_frames, 60)
{
    static unsigned char junk[8192];
    unsigned succeeded = 0;
    unsigned failed = 0;
    uint64_t malformed = 0;
    unsigned round;

    for (round = 0; round < 200; round++) {
        struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_MIXED);
        struct emul_plain plain[4];
        unsigned i;

        pair->random += round;
        for (i = 0; i < 4; i++) {
            emul_plain_make(&plain[i], pair, 30000);
            HG_CHECK_OK(emul_plain_start(&plain[i], pair, i % 2 != 0, 30000));
        }
        for (i = 0; i < 200; i++) {
            emul_step(pair);
            if (hg_test_random(&pair->random) % 16 == 0)
                emul_spoil(i % 2 != 0 ? &pair->a : &pair->b, junk);
        }
        emul_settle(pair);
        emul_kill(&pair->a, NA_DISCONNECT);
        emul_kill(&pair->b, NA_DISCONNECT);
        emul_settle(pair);
        emul_check_idle(pair);
        malformed += emul_counter(&pair->a, "rma_malformed") +
            emul_counter(&pair->b, "rma_malformed");
        for (i = 0; i < 4; i++) {
            HG_CHECK_EQ_INT(atomic_load(&plain[i].call.ends), 1);
            succeeded += plain[i].call.ret == NA_SUCCESS;
            failed += plain[i].call.ret == NA_PROTOCOL_ERROR;
            emul_plain_free(&plain[i]);
        }
        emul_close(pair);
    }
    HG_CHECK(succeeded > 20);
    HG_CHECK(failed > 20);
    HG_CHECK(malformed > 200);
}

/* One frame that no correct peer sends, while `a` has a transfer with `b`. */
struct emul_forgery {
    const char *what;
    bool put;           /* else a get */
    bool to_origin;     /* sent by the listener; else by the caller */
    uint8_t type;       /* of the frame */
    uint8_t flags;      /* of the frame */
    uint16_t status;    /* of the frame */
    uint64_t offset;    /* of the frame */
    uint64_t length;    /* of the frame */
    size_t data;        /* size of the data after it */
    uint64_t id;        /* added to the id of the transfer */
    const char *counts; /* the counter that grows where it arrives */
    na_return_t ret;    /* of the transfer */
};

#define EMUL_LIE_SIZE 30000 /* a request of 8192, or two of 4096, were sent */

static const struct emul_forgery emul_forgeries[] = {
    /* To the initiator. */
    {"no data", false, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0, 4096, 0, 0,
        "rma_malformed", NA_PROTOCOL_ERROR},
    {"data that ends too early", false, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0,
        4096, 4096, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"data of a place that was not asked for", false, true, NA_EMUL_WIRE_ANSWER,
        NA_EMUL_WIRE_MORE, 0, 8192, 100, 100, 0, "rma_malformed",
        NA_PROTOCOL_ERROR},
    {"data in front of the memory", false, true, NA_EMUL_WIRE_ANSWER,
        NA_EMUL_WIRE_MORE, 0, UINT64_MAX - 9, 100, 100, 0, "rma_malformed",
        NA_PROTOCOL_ERROR},
    {"data past what was asked for", false, true, NA_EMUL_WIRE_ANSWER,
        NA_EMUL_WIRE_MORE, 0, 8093, 100, 100, 0, "rma_malformed",
        NA_PROTOCOL_ERROR},
    {"too much data", false, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0, 8193, 8193, 0,
        "rma_malformed", NA_PROTOCOL_ERROR},
    {"less data than it says", false, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0, 8192,
        8191, 0, "rma_malformed", NA_SUCCESS},
    {"data for a put", true, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0, 4096, 4096, 0,
        "rma_malformed", NA_PROTOCOL_ERROR},
    {"data with a sum nobody asked for", false, true, NA_EMUL_WIRE_ANSWER,
        NA_EMUL_WIRE_SUM, 0, 0, 8192, 8192, 0, "rma_malformed",
        NA_PROTOCOL_ERROR},
    {"success of what has not left", true, true, NA_EMUL_WIRE_ANSWER, 0, 0, 0,
        8193, 0, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"a refusal of what has not left", true, true, NA_EMUL_WIRE_ANSWER, 0,
        NA_NOENTRY, 0, UINT64_MAX, 0, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"a refusal with data", false, true, NA_EMUL_WIRE_ANSWER, 0, NA_NOENTRY, 0,
        8192, 8192, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"a refusal with more to come", false, true, NA_EMUL_WIRE_ANSWER,
        NA_EMUL_WIRE_MORE, NA_NOENTRY, 0, 8192, 0, 0, "rma_malformed",
        NA_PROTOCOL_ERROR},
    {"a status that no peer has", true, true, NA_EMUL_WIRE_ANSWER, 0,
        NA_TIMEOUT, 0, 4096, 0, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"a status that is none", false, true, NA_EMUL_WIRE_ANSWER, 0, 0xffff, 0,
        8192, 0, 0, "rma_malformed", NA_PROTOCOL_ERROR},
    {"a frame about an unknown transfer", true, true, NA_EMUL_WIRE_ANSWER, 0, 0,
        0, 4096, 0, 77, "rma_stale", NA_SUCCESS},
    /* To the owner of the memory. */
    {"an answer", true, false, NA_EMUL_WIRE_ANSWER, 0, 0, 0, 4096, 0, 0,
        "rma_stale", NA_SUCCESS},
    {"a get with data", true, false, NA_EMUL_WIRE_GET, 0, 0, 0, 100, 1, 77,
        "rma_malformed", NA_SUCCESS},
    {"more data than its put has", true, false, NA_EMUL_WIRE_PUT, 0, 0, 0, 100,
        101, 77, "rma_malformed", NA_SUCCESS},
    {"less data than its put has", true, false, NA_EMUL_WIRE_PUT, 0, 0, 0, 100,
        0, 77, "rma_malformed", NA_SUCCESS},
    {"a request past the end", true, false, NA_EMUL_WIRE_GET, 0, 0, 29901, 100,
        0, 77, "rma_refused", NA_SUCCESS},
    {"a put past the end", true, false, NA_EMUL_WIRE_PUT, 0, 0, 29901, 100, 100,
        77, "rma_refused", NA_SUCCESS},
    {"a request behind the end", true, false, NA_EMUL_WIRE_GET, 0, 0, 30001, 0,
        0, 77, "rma_refused", NA_SUCCESS},
    {"a request whose end wraps", true, false, NA_EMUL_WIRE_GET, 0, 0, 100,
        UINT64_MAX - 50, 0, 77, "rma_refused", NA_SUCCESS},
};

static void emul_send_forgery(const struct emul_forgery *lie)
{
    static unsigned char junk[65536];
    struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_ARRIVAL);
    struct emul_side *to = lie->to_origin ? &pair->a : &pair->b;
    struct na_emul_wire wire;
    struct emul_plain plain;
    uint64_t before;

    (void) fprintf(stderr, "%s, to the %s\n", lie->what,
        lie->to_origin ? "origin" : "target");
    emul_plain_make(&plain, pair, EMUL_LIE_SIZE);
    HG_CHECK_OK(emul_plain_start(&plain, pair, lie->put, EMUL_LIE_SIZE));
    (void) emul_poll(&pair->a);
    memset(&wire, 0, sizeof(wire));
    HG_CHECK(emul_first_origin(&pair->a, &wire.id) != NULL);
    wire.type = lie->type;
    wire.flags = lie->flags;
    wire.status = lie->status;
    wire.id += lie->id;
    wire.key = plain.remote->key;
    wire.offset = lie->offset;
    wire.length = lie->length;
    before = emul_counter(to, lie->counts);
    emul_inject(to, to->peer, &wire, junk, lie->data);
    HG_CHECK_EQ_U64(emul_counter(to, lie->counts), before + 1);
    emul_settle(pair);
    emul_check_end(&plain.call, lie->ret);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_refuses_each_frame_that_breaks_the_protocol)
{
    size_t i;

    for (i = 0; i < sizeof(emul_forgeries) / sizeof(emul_forgeries[0]); i++)
        emul_send_forgery(&emul_forgeries[i]);
}

/* A frame about a request that was not sent is a guess. */
HG_TEST(emul_ignores_responses_without_a_request)
{
    struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_ARRIVAL);
    struct na_emul_wire wire;
    struct emul_plain plain;

    pair->again = 1;
    emul_plain_make(&plain, pair, 30000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 30000));
    HG_CHECK(hg_list_is_empty(&pair->b.in));
    memset(&wire, 0, sizeof(wire));
    HG_CHECK(emul_first_origin(&pair->a, &wire.id) != NULL);
    wire.type = NA_EMUL_WIRE_ANSWER;
    wire.status = NA_NOENTRY;
    emul_inject(&pair->a, pair->a.peer, &wire, NULL, 0);
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_stale"), 1);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* The entry function of a fuzzer: `data` is a sequence of frames to either side
 * of two classes with transfers in flight. A record is a byte of kind, two of
 * payload size, one of header size, and the header. Kind bit 0 chooses the
 * side, bit 1 puts the key of real memory into a request, bits 2 and 3 let the
 * pair make progress, bit 4 puts the id of a transfer into the frame. */
int hg_fuzz_emul(const uint8_t *data, size_t size);

int hg_fuzz_emul(const uint8_t *data, size_t size)
{
    static unsigned char junk[65536];
    struct hg_wire wire = hg_wire_reader(data, size);
    struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_ARRIVAL);
    struct emul_plain get, put;

    emul_plain_make(&get, pair, 30000);
    emul_plain_make(&put, pair, 30000);
    HG_CHECK_OK(emul_plain_start(&get, pair, false, 30000));
    HG_CHECK_OK(emul_plain_start(&put, pair, true, 30000));
    while (hg_wire_left(&wire) > 0) {
        unsigned char header[NA_EMUL_WIRE_SIZE];
        uint64_t id;
        uint8_t kind = hg_wire_get8(&wire);
        size_t payload = hg_wire_get16(&wire);
        size_t header_size = hg_wire_get8(&wire) % (sizeof(header) + 1);
        const void *bytes = hg_wire_get_bytes(&wire, header_size);
        struct emul_side *side = kind & 1 ? &pair->b : &pair->a;

        if (wire.failed)
            break;
        if (header_size > 0)
            memcpy(header, bytes, header_size);
        if ((kind & 2) != 0 && header_size >= 24)
            hg_wire_store64(header + 16, get.remote->key);
        if ((kind & 16) != 0 && header_size >= 16 &&
            emul_first_origin(&pair->a, &id) != NULL)
            hg_wire_store64(header + 8, id);
        locked_emul_arrived(
            &side->core.pub, side->peer, header, header_size, junk, payload);
        if ((kind & 4) != 0)
            emul_settle(pair);
        if ((kind & 8) != 0)
            (void) emul_deliver(side);
    }
    emul_settle(pair);
    emul_kill(&pair->a, NA_DISCONNECT);
    emul_kill(&pair->b, NA_DISCONNECT);
    emul_settle(pair);
    emul_check_idle(pair);
    HG_CHECK_EQ_INT(atomic_load(&get.call.ends), 1);
    HG_CHECK_EQ_INT(atomic_load(&put.call.ends), 1);
    emul_plain_free(&get);
    emul_plain_free(&put);
    emul_close(pair);
    return 0;
}

HG_TEST_SECONDS(emul_survives_random_frames, 60)
{
    uint64_t random = hg_test_seed();
    unsigned round;

    for (round = 0; round < 300; round++) {
        unsigned char input[4096];
        struct hg_wire wire = hg_wire_writer(input, sizeof(input));
        unsigned n;

        for (n = (unsigned) hg_test_random(&random) % 50; n > 0; n--) {
            unsigned char header[NA_EMUL_WIRE_SIZE];
            size_t size = emul_forge(&random, 1, 1 + n % 2, header);

            hg_wire_put8(&wire, (uint8_t) hg_test_random(&random));
            hg_wire_put16(&wire, (uint16_t) (hg_test_random(&random) % 9000));
            hg_wire_put8(&wire, (uint8_t) size);
            hg_wire_put_bytes(&wire, header, size);
        }
        HG_CHECK(!wire.failed);
        HG_CHECK_EQ_INT(
            hg_fuzz_emul(input, sizeof(input) - hg_wire_left(&wire)), 0);
    }
}

/* ---- Threads ---- */

/* Both sides make progress and a third thread releases memory, while the
 * application's threads start, cancel and withdraw at random. */
struct emul_worker {
    struct emul_side *side;
    uint64_t random;
    unsigned rounds;
    unsigned succeeded;
    _Atomic bool *stop;
    pthread_t thread;
};

static void *emul_progress_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;

    while (!atomic_load(worker->stop)) {
        bool more = emul_deliver(worker->side);

        more = emul_poll(worker->side) > 0 || more;
        if (!more)
            (void) sched_yield();
    }
    return NULL;
}

static void *emul_release_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;

    while (!atomic_load(worker->stop))
        if (!emul_release_one(worker->side->pair))
            (void) sched_yield();
    return NULL;
}

static void emul_delay(uint64_t *random)
{
    unsigned n = (unsigned) hg_test_random(random) % 30;

    while (n-- > 0)
        (void) sched_yield();
}

/* One transfer with a peer's memory that is unmapped once it is withdrawn. */
static void emul_work(struct emul_worker *worker)
{
    na_class_t *here = &worker->side->core.pub;
    na_class_t *there = &worker->side->other->core.pub;
    uint64_t dice = hg_test_random(&worker->random);
    size_t size = 1 + (size_t) (dice >> 8) % 200000;
    bool put = dice & 1;
    unsigned char *local = (unsigned char *) malloc(size);
    unsigned char *owned = (unsigned char *) mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];
    na_mem_handle_t mine, theirs, remote;
    struct emul_call call;
    bool withdrawn = (dice >> 2 & 3) == 0;

    HG_CHECK(local != NULL && owned != MAP_FAILED);
    memset(local, put ? 0x11 : 0, size);
    memset(owned, put ? 0 : 0x11, size);
    HG_CHECK_OK(
        NA_Mem_handle_create(here, local, size, NA_MEM_READWRITE, &mine));
    HG_CHECK_OK(
        NA_Mem_handle_create(there, owned, size, NA_MEM_READWRITE, &theirs));
    HG_CHECK_OK(NA_Mem_register(there, theirs));
    HG_CHECK_OK(NA_Mem_handle_serialize(there, bytes, sizeof(bytes), theirs));
    HG_CHECK_OK(NA_Mem_handle_deserialize(here, &remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(emul_start(&call, worker->side, put, mine, 0, remote, 0, size));
    emul_delay(&worker->random);
    if ((dice >> 4 & 3) == 0)
        (void) locked_emul_cancel(&call.op.pub, na_op_id_of(&call.op.pub));
    if (withdrawn) {
        HG_CHECK_OK(NA_Mem_deregister(there, theirs));
        HG_CHECK_EQ_INT(munmap(owned, size), 0);
    }
    while (atomic_load(&call.ends) == 0)
        (void) sched_yield();
    if (call.ret == NA_SUCCESS) {
        const unsigned char *got = put ? owned : local;

        worker->succeeded++;
        if (!withdrawn || !put)
            HG_CHECK(got[0] == 0x11 && got[size - 1] == 0x11 &&
                memcmp(got, got + 1, size - 1) == 0);
    } else {
        HG_CHECK(call.ret == NA_CANCELED || call.ret == NA_NOENTRY);
    }
    memset(local, 0x22, size);
    free(local); /* at once: it must not be accessed any more */
    HG_CHECK_OK(NA_Mem_handle_free(here, mine));
    HG_CHECK_OK(NA_Mem_handle_free(here, remote));
    HG_CHECK_OK(NA_Mem_handle_free(there, theirs));
    if (!withdrawn)
        HG_CHECK_EQ_INT(munmap(owned, size), 0);
}

static void *emul_work_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;
    unsigned i;

    for (i = 0; i < worker->rounds; i++)
        emul_work(worker);
    return NULL;
}

HG_TEST_SECONDS(emul_serves_many_threads, 120)
{
    static void *(*const body[])(void *) = {emul_progress_thread,
        emul_progress_thread, emul_release_thread, emul_work_thread,
        emul_work_thread, emul_work_thread};
    enum { THREADS = 6, SERVERS = 3 };
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_MIXED);
    struct emul_worker workers[THREADS];
    _Atomic bool stop = false;
    unsigned succeeded = 0;
    unsigned i;

    pair->again_chance = 50;
    memset(workers, 0, sizeof(workers));
    for (i = 0; i < THREADS; i++) {
        workers[i].side = i % 2 == 0 ? &pair->a : &pair->b;
        workers[i].random = hg_test_seed() + i;
        workers[i].rounds = 150;
        workers[i].stop = &stop;
        HG_CHECK_EQ_INT(
            pthread_create(&workers[i].thread, NULL, body[i], &workers[i]), 0);
    }
    for (i = THREADS; i > 0; i--) {
        if (i == SERVERS)
            atomic_store(&stop, true);
        HG_CHECK_EQ_INT(pthread_join(workers[i - 1].thread, NULL), 0);
        succeeded += workers[i - 1].succeeded;
    }
    HG_CHECK(succeeded > 50);
    emul_settle(pair);
    emul_check_idle(pair);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_close(pair);
}

/* ---- Waiting for the transport ---- */

/* A get of more than the window: four frames arrive, the transport keeps their
 * memory, and the next request has not been sent. */
static void emul_get_a_window(
    struct emul_plain *plain, struct emul_pair *pair, size_t size)
{
    HG_CHECK_OK(emul_plain_start(plain, pair, false, size));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_poll(&pair->b), 4);
    while (emul_deliver(&pair->a))
        continue;
}

/* Whether a thread waits for frames of memory that is deregistered. */
static bool emul_is_waiting(struct emul_side *side)
{
    bool waits;

    hg_enter(side->core.lock);
    waits = side->core.emul->regs.count == 0;
    hg_leave(side->core.lock);
    return waits;
}

static void *emul_give_back_later(void *arg)
{
    struct emul_pair *pair = (struct emul_pair *) arg;

    while (!emul_is_waiting(&pair->b))
        (void) sched_yield();
    while (emul_release_one(pair))
        continue;
    return NULL;
}

HG_TEST(emul_deregisters_only_when_frames_are_released)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct emul_plain plain;
    pthread_t thread;

    emul_plain_make(&plain, pair, 50000);
    emul_get_a_window(&plain, pair, 50000);
    HG_CHECK(!hg_list_is_empty(&pair->late));
    HG_CHECK_EQ_INT(
        pthread_create(&thread, NULL, emul_give_back_later, pair), 0);
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    HG_CHECK(hg_list_is_empty(&pair->late));
    HG_CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_NOENTRY);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Frames that a transport keeps until the connection ends. */
struct emul_kept_frame {
    struct na_addr *addr;
    void (*release)(void *arg);
    void *arg;
};

static struct emul_kept_frame emul_kept[16];
static unsigned emul_kept_count;
static unsigned emul_closed;

/* Keep frames with data; drop those without. */
static na_return_t emul_keep_frame(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    (void) header;
    (void) header_size;
    (void) data;
    if (size == 0) {
        release(arg);
        return NA_SUCCESS;
    }
    HG_CHECK(emul_kept_count < sizeof(emul_kept) / sizeof(emul_kept[0]));
    emul_kept[emul_kept_count].addr = addr;
    emul_kept[emul_kept_count].release = release;
    emul_kept[emul_kept_count++].arg = arg;
    return NA_SUCCESS;
}

/* End the connection: its frames are released before this returns. */
static void emul_close_addr(struct na_addr *addr)
{
    unsigned i;

    emul_closed++;
    for (i = 0; i < emul_kept_count; i++) {
        if (emul_kept[i].addr != addr)
            continue;
        emul_kept[i].addr = NULL;
        emul_kept[i].release(emul_kept[i].arg);
    }
}

/* Two peers read nothing. The frames of the first one are released while its
 * connection is ended; the second one is handled, too. */
HG_TEST(emul_deregisters_memory_that_two_peers_do_not_read)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_COPY);
    struct na_plugin *ops = &pair->b.core.ops;
    struct emul_plain plain;
    struct emul_call other;
    struct na_addr *second;
    unsigned i;

    hg_test_expect_log("does not read the data");
    emul_closed = emul_kept_count = 0;
    second = na_addr_create(&pair->b.core.pub, "pipe://second", NA_FALSE);
    HG_CHECK(second != NULL);
    emul_plain_make(&plain, pair, 50000);
    pair->a.core.emul->window = 2 * 16384;
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 16384));
    HG_CHECK_OK(emul_start(&other, &pair->a, false, plain.local.handle, 0,
        plain.remote, 0, 16384));
    HG_CONTAINER_OF(pair->b.in.prev, struct emul_pipe_frame, link)->source =
        second;
    ops->frame_send = emul_keep_frame;
    ops->addr_abandon = emul_close_addr;
    while (emul_deliver(&pair->b))
        continue;
    while (emul_poll(&pair->b) > 0)
        continue;
    HG_CHECK_EQ_INT(emul_kept_count, 8); /* a window of each */
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    HG_CHECK_EQ_INT(emul_closed, 2);
    for (i = 0; i < emul_kept_count; i++)
        HG_CHECK(emul_kept[i].addr == NULL);
    ops->frame_send = emul_frame_send;
    (void) locked_emul_cancel(&other.op.pub, na_op_id_of(&other.op.pub));
    (void) locked_emul_cancel(
        &plain.call.op.pub, na_op_id_of(&plain.call.op.pub));
    emul_settle(pair);
    na_addr_unref(second);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Memory of the library is withdrawn while the transport holds frames of it: no
 * thread waits. It counts for the peer, and is freed with the last of the
 * frames, by a poll or, at the latest, with the class. */
static void emul_withdraw(bool polled)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct na_emul *emul = pair->b.core.emul;
    const size_t size = 50000;
    struct emul_plain plain;
    na_mem_handle_t mem;
    unsigned char *buf = (unsigned char *) hg_mem_alloc(size);
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];

    HG_CHECK(buf != NULL);
    memset(buf, 'w', size);
    emul_plain_make(&plain, pair, size);
    HG_CHECK_OK(NA_Mem_handle_create(
        &pair->b.core.pub, buf, size, NA_MEM_READ_ONLY, &mem));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, mem));
    na_emul_mem_serialize(mem, bytes);
    HG_CHECK_OK(na_emul_mem_deserialize(plain.remote, bytes, sizeof(bytes)));
    emul_get_a_window(&plain, pair, size);
    HG_CHECK(na_emul_withdraw(mem, buf, pair->b.peer));
    HG_CHECK_EQ_U64(na_emul_lingering(pair->b.peer), size);
    /* That of `plain`. */
    HG_CHECK(pair->b.core.mems.next == pair->b.core.mems.prev);
    HG_CHECK_EQ_U64(buf[size - 1], 'w');
    HG_CHECK_EQ_U64(na_emul_lingering(pair->b.peer), size);
    HG_CHECK(na_emul_due(emul) < HG_CLOCK_NEVER);
    while (emul_release_one(pair))
        continue;
    HG_CHECK(na_emul_due(emul) <= hg_clock_now());
    if (polled) {
        emul_settle(pair);
        HG_CHECK_EQ_U64(na_emul_lingering(pair->b.peer), 0);
        emul_check_end(&plain.call, NA_NOENTRY);
        emul_check_idle(pair);
    } else {
        emul_drop_frames(&pair->a);
        (void) locked_emul_cancel(
            &plain.call.op.pub, na_op_id_of(&plain.call.op.pub));
    }
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_withdraws_without_waiting)
{
    emul_withdraw(true);
    emul_withdraw(false);
}

/* Unused memory stays with the caller. */
HG_TEST(emul_withdraws_unused_memory_at_once)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    na_mem_handle_t mem;
    char buf[100];

    HG_CHECK_OK(NA_Mem_handle_create(
        &pair->b.core.pub, buf, sizeof(buf), NA_MEM_READ_ONLY, &mem));
    HG_CHECK(!na_emul_withdraw(mem, buf, pair->b.peer)); /* nor registered */
    HG_CHECK_OK(NA_Mem_handle_create(
        &pair->b.core.pub, buf, sizeof(buf), NA_MEM_READ_ONLY, &mem));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, mem));
    HG_CHECK(!na_emul_withdraw(mem, buf, pair->b.peer));
    HG_CHECK_EQ_U64(na_emul_lingering(pair->b.peer), 0);
    HG_CHECK(hg_list_is_empty(&pair->b.core.mems));
    emul_check_idle(pair);
    emul_close(pair);
}

/* No other thread releases frames: the waiting thread asks the transport. */
HG_TEST(emul_reclaims_while_it_deregisters)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct emul_plain plain;

    emul_plain_make(&plain, pair, 50000);
    emul_get_a_window(&plain, pair, 50000);
    pair->reclaims = true;
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    HG_CHECK(hg_list_is_empty(&pair->late));
    emul_settle(pair);
    emul_check_end(&plain.call, NA_NOENTRY);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Released frames are collected by a poll, which is due soon when an operation
 * waits for that. */
HG_TEST(emul_polls_for_released_frames)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct na_emul *emul = pair->a.core.emul;
    struct emul_plain plain;

    emul_plain_make(&plain, pair, 4096);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 4096));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_poll(&pair->b), 1); /* the answer is sent */
    HG_CHECK(emul_deliver(&pair->a));
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    HG_CHECK(na_emul_due(emul) <= hg_clock_after_ms(NA_EMUL_LOOK_MS));
    HG_CHECK(emul_release_one(pair));
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0); /* not on its thread */
    HG_CHECK(na_emul_due(emul) <= hg_clock_now());
    HG_CHECK_EQ_U64(emul_poll(&pair->a), 1);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_settle(pair);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}
