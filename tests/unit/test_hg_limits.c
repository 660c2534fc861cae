/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control (limit.h): a server between a peer that sends calls and never
 * completes them, and one that waits for a response. The test injects the
 * messages of the bad peer, which makes no progress.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"

#define LIMITS_EAGER 4096
#define LIMITS_LARGE ((size_t) 1 << 20)

/* ---- Thresholds ---- */

HG_TEST(limit_leaves_quota_for_new_peers)
{
    na_class_t *na_class;
    struct na_addr *peers[5];
    struct hg_limit limits[HG_LIMIT_KINDS];
    uint64_t had[5];
    unsigned i;

    loop_register();
    na_class = engine_open_class("loop://a", LIMITS_EAGER);
    memset(limits, 0, sizeof(limits));
    for (i = 0; i < HG_LIMIT_KINDS; i++)
        limits[i].max = 64;
    for (i = 0; i < 5; i++) {
        peers[i] = na_addr_create(na_class, NULL, NA_FALSE);
        HG_CHECK(peers[i] != NULL);
        for (had[i] = 0; hg_limit_take(limits, peers[i], HG_LIMIT_CALLS, 1);)
            had[i]++;
        /* Each peer may use half of what the one before could use. */
        HG_CHECK_EQ_U64(had[i], 64u >> i);
        HG_CHECK(!hg_limit_fits(limits, peers[i], HG_LIMIT_CALLS, 1));
    }
    HG_CHECK(limits[HG_LIMIT_CALLS].used < 128);
    /* The kinds of quota are independent. */
    HG_CHECK(hg_limit_take(limits, peers[0], HG_LIMIT_HELD, 64));
    HG_CHECK(!hg_limit_take(limits, peers[0], HG_LIMIT_HELD, 1));
    HG_CHECK(hg_limit_take(limits, peers[1], HG_LIMIT_HELD, 32));
    HG_CHECK(!hg_limit_take(limits, peers[2], HG_LIMIT_HELD, UINT64_MAX));
    /* A single peer may use any amount. */
    HG_CHECK(hg_limit_fits(limits, peers[2], HG_LIMIT_FETCHED, 65));
    /* 64 + 32 are used: 16 more make that, twice, 128; 17 are too many, and so
     * are 16 when 97 are used. */
    HG_CHECK(!hg_limit_take(limits, peers[2], HG_LIMIT_HELD, 17));
    hg_limit_add(limits, peers[3], HG_LIMIT_HELD, 1);
    HG_CHECK(!hg_limit_take(limits, peers[2], HG_LIMIT_HELD, 16));
    hg_limit_give(limits, peers[3], HG_LIMIT_HELD, 1);
    HG_CHECK(hg_limit_take(limits, peers[2], HG_LIMIT_HELD, 16));
    HG_CHECK(!hg_limit_fits(limits, peers[2], HG_LIMIT_HELD, 1));
    /* Quota released by the first peer is available to the others. */
    hg_limit_give(limits, peers[0], HG_LIMIT_CALLS, had[0]);
    HG_CHECK(hg_limit_take(limits, peers[1], HG_LIMIT_CALLS, 1));
    hg_limit_give(limits, peers[1], HG_LIMIT_CALLS, 1);
    for (i = 1; i < 5; i++)
        hg_limit_give(limits, peers[i], HG_LIMIT_CALLS, had[i]);
    HG_CHECK_EQ_U64(limits[HG_LIMIT_CALLS].used, 0);
    for (i = 0; i < 5; i++)
        na_addr_unref(peers[i]);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* No peer is refused as long as all together use no more than the limit. */
HG_TEST(limit_refuses_no_call_below_it)
{
    uint64_t state = hg_test_seed();
    struct na_addr *peers[8];
    struct hg_limit limits[HG_LIMIT_KINDS];
    na_class_t *na_class;
    unsigned i, n;

    loop_register();
    na_class = engine_open_class("loop://a", LIMITS_EAGER);
    for (i = 0; i < 8; i++)
        peers[i] = na_addr_create(na_class, NULL, NA_FALSE);
    for (n = 0; n < 2000; n++) {
        uint64_t taken[8] = {0};

        memset(limits, 0, sizeof(limits));
        limits[HG_LIMIT_HELD].max = 1000;
        for (i = 0; i < 40; i++) {
            unsigned who = (unsigned) (hg_test_random(&state) % 8);
            uint64_t size = hg_test_random(&state) % 400;
            bool below = limits[HG_LIMIT_HELD].used + size <= 1000;
            bool got = hg_limit_take(limits, peers[who], HG_LIMIT_HELD, size);

            HG_CHECK(got || !below);
            HG_CHECK(limits[HG_LIMIT_HELD].used <= 2000);
            taken[who] += got ? size : 0;
            if (taken[who] > 0 && hg_test_random(&state) % 4 == 0) {
                hg_limit_give(limits, peers[who], HG_LIMIT_HELD, taken[who]);
                taken[who] = 0;
            }
        }
        for (i = 0; i < 8; i++)
            hg_limit_give(limits, peers[i], HG_LIMIT_HELD, taken[i]);
    }
    for (i = 0; i < 8; i++)
        na_addr_unref(peers[i]);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- A server and a greedy peer ---- */

struct limits_attack {
    struct engine engine;
    na_class_t *bad;
    na_addr_t bad_addr; /* as the server knows it */
    hg_id_t echo;
    hg_id_t large;
    hg_id_t keep;
    uint64_t sequence;
};

static hg_return_t limits_answer_large(hg_handle_t handle)
{
    hg_return_t ret = engine_answer_size(handle, LIMITS_LARGE - 8);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
    return hg_serve_free(handle);
}

static void limits_open(struct limits_attack *attack, unsigned hold_ms)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    memset(attack, 0, sizeof(*attack));
    options.max_unanswered = 16;
    options.max_args_size = 4 * LIMITS_LARGE;
    options.output_hold_ms = hold_ms;
    loop_register();
    HG_CHECK_OK(engine_open(&attack->engine, LIMITS_EAGER, &options));
    attack->bad = engine_open_class("loop://bad", LIMITS_EAGER);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        attack->engine.b.na_class, "loop://bad", 1000, &attack->bad_addr));
    attack->echo = engine_register(&attack->engine, "echo", engine_echo);
    attack->large =
        engine_register(&attack->engine, "large", limits_answer_large);
    attack->keep = engine_register(&attack->engine, "keep", engine_keep);
}

static void limits_close(struct limits_attack *attack)
{
    engine_check_empty(&attack->engine);
    HG_CHECK_OK(NA_Addr_free(attack->engine.b.na_class, attack->bad_addr));
    engine_close(&attack->engine);
    HG_CHECK_OK(NA_Finalize(attack->bad));
}

/* A call of the bad peer, of `claim` bytes that it never sends, or with
 * none. */
static void limits_attack(
    struct limits_attack *attack, hg_id_t id, uint64_t claim)
{
    unsigned char
        bytes[HG_HEADER_MIN + HG_OVERFLOW_FIXED + NA_EMUL_WIRE_HANDLE_SIZE];
    unsigned char *payload = bytes + HG_HEADER_MIN;
    struct hg_header header;

    memset(&header, 0, sizeof(header));
    memset(bytes, 0, sizeof(bytes));
    header.type = HG_HEADER_REQUEST;
    header.rpc_id = id;
    header.sequence = ++attack->sequence;
    header.payload_size = 8;
    if (claim > 0) {
        header.flags = HG_HEADER_LARGE;
        header.payload_size = HG_OVERFLOW_FIXED + NA_EMUL_WIRE_HANDLE_SIZE;
        hg_wire_store64(payload, claim);
        hg_wire_store32(payload + 16, NA_EMUL_WIRE_HANDLE_SIZE);
        memcpy(payload + 20, "hM\1\1", 4);
        hg_wire_store64(payload + 28, 0x1234567890u);
        hg_wire_store64(payload + 36, claim);
    }
    hg_header_encode(&header, bytes, true);
    loop_inject(attack->engine.b.na_class, attack->bad_addr, bytes,
        HG_HEADER_MIN + header.payload_size);
}

static void limits_turn(struct limits_attack *attack, unsigned turns)
{
    while (turns-- > 0) {
        engine_turn(&attack->engine.a);
        engine_turn(&attack->engine.b);
    }
}

/* The good peer's call of `size` bytes; returns its result. */
static hg_return_t limits_try_call(
    struct limits_attack *attack, hg_id_t id, size_t size)
{
    struct blob in = engine_new_blob(size, 3);
    struct engine_call call;

    HG_CHECK_OK(engine_start(&attack->engine, id, &in, &call));
    while (call.ends == 0)
        limits_turn(attack, 1);
    engine_forget(&call);
    free(in.bytes);
    return call.ret;
}

/* It is answered, however slowly the server releases the bad peer's calls. */
static void limits_good_call(
    struct limits_attack *attack, hg_id_t id, size_t size)
{
    HG_CHECK_OK(limits_try_call(attack, id, size));
}

static uint64_t limits_total(
    struct limits_attack *attack, enum hg_limit_kind kind)
{
    return attack->engine.b.hg_class->limits[kind].used;
}

/* It announces arguments, as large as allowed, and sends none. */
HG_TEST(limit_holds_against_inputs_that_never_arrive)
{
    struct limits_attack attack;
    struct hg_context *context;
    unsigned i;

    limits_open(&attack, 0);
    context = attack.engine.b.context;
    for (i = 0; i < 10; i++)
        limits_attack(&attack, attack.echo, 4 * LIMITS_LARGE);
    limits_turn(&attack, 20);
    /* The first one takes all that a single peer may use. */
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_FETCHED), 4 * LIMITS_LARGE);
    HG_CHECK_EQ_U64(hg_handle_count_targets(context, false), 1);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_TURNED_AWAY]), 9);
    limits_good_call(&attack, attack.echo, 10);
    limits_good_call(&attack, attack.echo, LIMITS_LARGE);
    /* Half of the limit is left, and no more. */
    limits_good_call(&attack, attack.echo, 2 * LIMITS_LARGE - 8);
    HG_CHECK_RET(
        limits_try_call(&attack, attack.echo, 2 * LIMITS_LARGE), HG_AGAIN);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_FETCHED), 4 * LIMITS_LARGE);
    /* As many small ones as it may call. */
    for (i = 0; i < 200; i++)
        limits_attack(&attack, attack.keep, 0);
    limits_turn(&attack, 20);
    HG_CHECK_EQ_INT(engine_kept_count, 15);
    HG_CHECK_EQ_U64(
        atomic_load(&context->counts[HG_COUNT_TURNED_AWAY]), 9 + 1 + 185);
    limits_good_call(&attack, attack.echo, LIMITS_LARGE);
    /* It dies: nothing of it is left. */
    for (i = 0; i < engine_kept_count; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    locked_kill(attack.engine.b.na_class, attack.bad_addr);
    limits_turn(&attack, 20);
    for (i = 0; i < HG_LIMIT_KINDS; i++)
        HG_CHECK_EQ_U64(limits_total(&attack, (enum hg_limit_kind) i), 0);
    limits_close(&attack);
}

/* As before, but it stays alive: its time limit passes. */
HG_TEST(limit_is_released_for_inputs_that_never_arrive)
{
    struct limits_attack attack;
    struct hg_context *context;
    unsigned i;

    limits_open(&attack, 20);
    context = attack.engine.b.context;
    for (i = 0; i < 12; i++)
        limits_attack(&attack, attack.echo, 10000);
    limits_turn(&attack, 5);
    while (hg_handle_count_targets(context, false) > 0) {
        (void) engine_progress(context, NA_LANES_ALL, hg_clock_after_ms(30));
        (void) engine_run(context, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER);
    }
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_ERRORS_SENT]), 12);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_FETCHED), 0);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 0);
    limits_good_call(&attack, attack.echo, 10);
    limits_close(&attack);
}

/* It causes outputs and fetches none. */
HG_TEST(limit_holds_against_outputs_that_are_never_fetched)
{
    struct limits_attack attack;
    struct hg_context *context;
    unsigned i;

    limits_open(&attack, 0);
    context = attack.engine.b.context;
    for (i = 0; i < 100; i++) {
        limits_attack(&attack, attack.large, 0);
        limits_turn(&attack, 1);
    }
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_HELD), 4 * LIMITS_LARGE);
    HG_CHECK_EQ_INT(engine_held(context, NULL), 4);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_TURNED_AWAY]), 96);
    limits_good_call(&attack, attack.large, 10);
    limits_good_call(&attack, attack.large, LIMITS_LARGE);
    HG_CHECK_EQ_INT(engine_held(context, NULL), 4);
    locked_cancel_peer(context, attack.bad_addr);
    limits_turn(&attack, 5);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_HELD), 0);
    limits_close(&attack);
}

/* Memory that was canceled but is still in flight to a peer counts against the
 * peer's quota, but no longer than that. */
HG_TEST(limit_counts_lingering_bytes_only_while_they_linger)
{
    struct limits_attack attack;
    _Atomic uint64_t *lingering;
    struct hg_context *context;
    unsigned i;

    limits_open(&attack, 0);
    context = attack.engine.b.context;
    lingering = &na_addr_core_of(attack.bad_addr)->lingering;
    atomic_store(lingering, 3 * LIMITS_LARGE);
    for (i = 0; i < 2; i++) {
        limits_attack(&attack, attack.large, 0);
        limits_turn(&attack, 1);
    }
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_HELD), LIMITS_LARGE);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_TURNED_AWAY]), 1);
    atomic_store(lingering, 0);
    for (i = 0; i < 4; i++) {
        limits_attack(&attack, attack.large, 0);
        limits_turn(&attack, 1);
    }
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_HELD), 4 * LIMITS_LARGE);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_TURNED_AWAY]), 2);
    locked_cancel_peer(context, attack.bad_addr);
    limits_turn(&attack, 5);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_HELD), 0);
    limits_close(&attack);
}

/* It does not even read its refusals, so its connection is closed. */
HG_TEST(limit_of_queued_refusals_holds)
{
    struct limits_attack attack;
    struct hg_limit *limits;
    struct hg_context *context;

    hg_test_expect_log("does not read answers");
    limits_open(&attack, 0);
    context = attack.engine.b.context;
    limits = context->hg_class->limits;
    limits[HG_LIMIT_REFUSALS].max = 16;
    hg_limit_add(limits, attack.bad_addr, HG_LIMIT_REFUSALS, 16);
    limits_attack(&attack, attack.echo, 0);
    limits_attack(&attack, attack.echo + 1, 0);
    limits_turn(&attack, 5);
    /* A call within its quota does not count as one. */
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_DROPPED]), 0);
    HG_CHECK_EQ_U64(
        atomic_load(&context->counts[HG_COUNT_REQUESTS_RECEIVED]), 2);
    HG_CHECK(hg_limit_take(limits, attack.bad_addr, HG_LIMIT_CALLS, 16));
    HG_CHECK(!na_addr_is_dead(attack.bad_addr));
    limits_attack(&attack, attack.echo, 0);
    limits_turn(&attack, 5);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_DROPPED]), 1);
    HG_CHECK(na_addr_is_dead(attack.bad_addr));
    limits_good_call(&attack, attack.echo, LIMITS_LARGE);
    hg_limit_give(limits, attack.bad_addr, HG_LIMIT_CALLS, 16);
    hg_limit_give(limits, attack.bad_addr, HG_LIMIT_REFUSALS, 16);
    limits_close(&attack);
}

/* A response in flight counts, and so does a refusal that waits to be sent. */
static enum loop_fate limits_tap(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    (void) from;
    return *size >= HG_HEADER_MIN && data[11] == HG_HEADER_RESPONSE
        ? *(enum loop_fate *) arg
        : LOOP_PASS;
}

HG_TEST(limit_counts_calls_until_their_response_is_sent)
{
    enum loop_fate fate = LOOP_STUCK;
    struct limits_attack attack;
    struct hg_limit *limits;
    struct hg_context *context;

    limits_open(&attack, 0);
    context = attack.engine.b.context;
    limits = context->hg_class->limits;
    loop_set_tap(limits_tap, &fate);
    limits_attack(&attack, attack.echo, 0);
    limits_turn(&attack, 3);
    HG_CHECK_EQ_U64(hg_handle_count_targets(context, false), 0);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 1);
    locked_unstick();
    limits_turn(&attack, 3);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 0);
    limits_attack(&attack, attack.echo + 1, 0); /* not registered */
    limits_turn(&attack, 3);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 1);
    locked_unstick();
    limits_turn(&attack, 3);
    HG_CHECK(hg_limit_take(limits, attack.bad_addr, HG_LIMIT_CALLS, 16));
    limits_attack(&attack, attack.echo, 0); /* beyond its quota */
    limits_turn(&attack, 3);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_REFUSALS), 1);
    locked_unstick();
    limits_turn(&attack, 3);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_REFUSALS), 0);
    hg_limit_give(limits, attack.bad_addr, HG_LIMIT_CALLS, 16);
    loop_set_tap(NULL, NULL);
    limits_close(&attack);
}

/* To oneself nothing has to be sent: the response ends the call, however long
 * the handler keeps its handle. */
HG_TEST(limit_counts_calls_to_oneself_until_they_are_answered)
{
    struct limits_attack attack;
    struct blob in = engine_new_blob(10, 3);
    struct engine_end *end = &attack.engine.b;
    struct engine_call call;

    limits_open(&attack, 0);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(engine_create(
        end->context, end->na_class->self_addr, attack.keep, &call.handle));
    HG_CHECK_OK(engine_send(call.handle, &in, engine_ended, &call));
    limits_turn(&attack, 2);
    HG_CHECK_EQ_INT(engine_kept_count, 1);
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 1);
    HG_CHECK_OK(engine_answer(engine_kept[0], &in));
    HG_CHECK_EQ_U64(limits_total(&attack, HG_LIMIT_CALLS), 0);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    limits_turn(&attack, 2);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    free(in.bytes);
    limits_close(&attack);
}

/* Bytes in flight: a large call needs space for all of its bytes. */
HG_TEST(limit_of_bytes_in_flight_counts_the_whole_call)
{
    struct limits_attack attack;
    struct engine *engine = &attack.engine;
    struct blob small = engine_new_blob(10, 3);
    struct blob large = engine_new_blob(1000, 3);
    struct engine_call calls[2];
    struct hg_limit *limit;
    uint64_t weight;

    hg_test_expect_log("calls may be in flight");
    limits_open(&attack, 0);
    limit = &engine->a.hg_class->limits[HG_LIMIT_IN_FLIGHT];
    HG_CHECK_OK(engine_start(engine, attack.echo, &large, &calls[0]));
    weight = calls[0].handle->weight;
    HG_CHECK(weight > HG_LIMIT_CALL);
    limits_turn(&attack, 3);
    HG_CHECK_OK(calls[0].ret);
    engine_forget(&calls[0]);
    HG_CHECK_OK(engine_start(engine, attack.keep, &small, &calls[0]));
    HG_CHECK_EQ_U64(limit->used, HG_LIMIT_CALL);
    limit->max = HG_LIMIT_CALL + weight - 1;
    HG_CHECK_RET(
        engine_start(engine, attack.echo, &large, &calls[1]), HG_AGAIN);
    HG_CHECK_EQ_U64(limit->used, HG_LIMIT_CALL);
    limit->max++;
    HG_CHECK_OK(engine_start(engine, attack.echo, &large, &calls[1]));
    limits_turn(&attack, 3);
    HG_CHECK_EQ_INT(engine_kept_count, 1);
    HG_CHECK_OK(engine_answer(engine_kept[0], &small));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    limits_turn(&attack, 3);
    HG_CHECK_OK(calls[0].ret);
    HG_CHECK_OK(calls[1].ret);
    HG_CHECK_EQ_U64(limit->used, 0);
    engine_forget(&calls[0]);
    engine_forget(&calls[1]);
    free(small.bytes);
    free(large.bytes);
    limits_close(&attack);
}

/* ---- Codes that are no results ---- */

HG_TEST(response_with_an_invalid_code_ends_the_call)
{
    static const int32_t codes[] = {
        HG_TIMEOUT, HG_INTR, HG_RETURN_MAX, 9999, -1, INT32_MIN};
    struct limits_attack attack;
    size_t i;

    limits_open(&attack, 0);
    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log(", which is not a valid result");
    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        unsigned char bytes[HG_HEADER_MIN];
        enum loop_fate fate = LOOP_DROP;
        struct blob in = {0, NULL};
        struct engine_call call;
        struct hg_header header;

        HG_CHECK_OK(engine_start(&attack.engine, attack.echo, &in, &call));
        loop_set_tap(limits_tap, &fate); /* the correct response is lost */
        memset(&header, 0, sizeof(header));
        header.type = HG_HEADER_RESPONSE;
        header.code = codes[i];
        header.rpc_id = attack.echo;
        header.sequence = call.handle->sequence;
        hg_header_encode(&header, bytes, true);
        loop_inject(attack.engine.a.na_class, attack.engine.a.peer, bytes,
            sizeof(bytes));
        engine_settle(&attack.engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_RET(call.ret, HG_OTHER_ERROR);
        HG_CHECK_EQ_INT(
            hg_test_log_count(", which is not a valid result"), (int) i + 1);
        engine_forget(&call);
        loop_set_tap(NULL, NULL);
    }
    limits_close(&attack);
}

/* ---- Memory that its owner withdraws ---- */

struct limits_owner {
    struct hg_bulk *bulk;
    _Atomic bool freed;
};

static void *limits_withdraw(void *arg)
{
    struct limits_owner *owner = (struct limits_owner *) arg;

    hg_bulk_withdraw(owner->bulk);
    atomic_store(&owner->freed, true);
    return NULL;
}

HG_TEST(bulk_memory_is_not_freed_during_a_copy)
{
    unsigned char bytes[1024];
    struct limits_attack attack;
    struct limits_owner owner;
    struct hg_bulk *alias = NULL;
    struct hg_monitor *lock;
    size_t size = 100;
    bool withdrawn;
    pthread_t thread;

    limits_open(&attack, 0);
    lock = attack.engine.a.layer->lock;
    HG_CHECK_OK(hg_bulk_create(
        attack.engine.a.layer, 1, NULL, &size, HG_BULK_READWRITE, &owner.bulk));
    atomic_init(&owner.freed, false);
    size = hg_bulk_serialize_size(owner.bulk);
    HG_CHECK_OK(hg_bulk_serialize(owner.bulk, bytes, sizeof(bytes)));
    HG_CHECK_OK(
        hg_bulk_deserialize(attack.engine.a.layer, bytes, size, &alias));
    hg_enter(lock);
    hg_bulk_hold(alias);
    hg_leave(lock);
    HG_CHECK(pthread_create(&thread, NULL, limits_withdraw, &owner) == 0);
    do {
        (void) sched_yield();
        hg_enter(lock);
        withdrawn = owner.bulk->withdrawn;
        hg_leave(lock);
    } while (!withdrawn);
    HG_CHECK(!atomic_load(&owner.freed));
    hg_test_expect_log("a bulk handle of this process was freed");
    HG_CHECK_RET(hg_bulk_check_access(alias, 0, 1, 0), HG_NOENTRY);
    /* An alias that is just being serialized does not expose it again. */
    HG_CHECK_RET(hg_bulk_publish(owner.bulk), HG_NOENTRY);
    HG_CHECK(!atomic_load(&owner.freed));
    hg_enter(lock);
    hg_bulk_release(alias);
    hg_leave(lock);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(atomic_load(&owner.freed));
    hg_bulk_unref(owner.bulk);
    hg_bulk_unref(alias);
    limits_close(&attack);
}
