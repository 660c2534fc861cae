/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that end before their response: at a deadline, canceled, or with an
 * error and its text; in every order of the events between, with no state left.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"

#define ENDS_EAGER 4096

/* An input that is fetched in two pieces. */
#define ENDS_TWO_PIECES (HG_OVERFLOW_PIECE + 1000)

struct ends_tap {
    enum loop_fate fate;
    uint8_t type;
    unsigned count;
};

static enum loop_fate ends_meet(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    struct ends_tap *tap = (struct ends_tap *) arg;

    (void) from;
    if (*size < HG_HEADER_MIN || data[11] != tap->type)
        return LOOP_PASS;
    tap->count++;
    return tap->fate;
}

/* ---- A call that is kept, and the notifications of its handler ---- */

static unsigned ends_executed;
static unsigned ends_notified;

static void ends_receive(hg_handle_t handle, void *arg)
{
    HG_CHECK(HG_Is_canceled(handle) == HG_TRUE);
    HG_CHECK(arg == &ends_notified);
    ends_notified++;
}

static hg_return_t ends_keep(hg_handle_t handle)
{
    ends_executed++;
    HG_CHECK(HG_Is_canceled(handle) == HG_FALSE);
    HG_CHECK_OK(HG_Set_cancel_cb(handle, ends_receive, &ends_notified));
    return engine_keep(handle);
}

static void ends_begin(struct engine *engine, const struct hg_options *options)
{
    loop_register();
    HG_CHECK_OK(engine_open(engine, ENDS_EAGER, options));
    engine_kept_count = 0;
    ends_executed = 0;
    ends_notified = 0;
}

static void ends_check_empty(struct engine *engine)
{
    struct hg_context *contexts[2] = {engine->a.context, engine->b.context};
    unsigned kind;
    unsigned i;

    engine_check_empty(engine);
    for (i = 0; i < 2; i++) {
        HG_CHECK_EQ_INT(contexts[i]->transfers.count, 0);
        for (kind = 0; kind < HG_LIMIT_KINDS; kind++)
            HG_CHECK_EQ_U64(contexts[i]->hg_class->limits[kind].used, 0);
    }
}

static void ends_end(struct engine *engine)
{
    ends_check_empty(engine);
    loop_set_tap(NULL, NULL);
    engine_close(engine);
}

/* As HG_Forward_timed does. */
static void ends_start(struct engine *engine, hg_id_t id, size_t size,
    unsigned timeout, struct engine_call *call)
{
    struct blob in = engine_new_blob(size, 3);

    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(
        engine_create(engine->a.context, engine->a.peer, id, &call->handle));
    call->handle->timeout = timeout;
    HG_CHECK_OK(engine_send(call->handle, &in, engine_ended, call));
    free(in.bytes);
}

/* Its deadline passes now; no effect if it has completed. */
static void ends_pass_time(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    hg_enter(context->lock);
    if (handle->timer.index != 0) {
        hg_deadline_remove(&context->deadline, &handle->timer);
        handle->deadline = 1;
        HG_CHECK_OK(hg_deadline_add(&context->deadline, &handle->timer, 1));
    }
    (void) hg_context_run_timers(context);
    hg_leave(context->lock);
}

/* ---- Deadlines ---- */

HG_TEST(deadline_ends_a_call_never_too_early)
{
    struct engine_call call;
    struct engine engine;
    uint64_t end;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    end = hg_clock_after_ms(20);
    ends_start(&engine, id, 10, 20, &call);
    HG_CHECK(hg_handle_time_left(call.handle) > 0);
    HG_CHECK(hg_handle_time_left(call.handle) <= 20);
    engine_turn(&engine.b);
    HG_CHECK_EQ_INT(engine_kept_count, 1);
    HG_CHECK(HG_Get_time_left(engine_kept[0]) <= 20);
    while (call.ends == 0) {
        (void) engine_progress(
            engine.a.context, NA_LANES_ALL, hg_clock_after_ms(5000));
        (void) engine_run(
            engine.a.context, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER);
    }
    HG_CHECK(hg_clock_now() >= end);
    HG_CHECK_RET(call.ret, HG_TIMEOUT);
    HG_CHECK_EQ_STR(call.handle->text, "it timed out");
    HG_CHECK_EQ_INT(hg_handle_time_left(call.handle), 0);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_notified, 1); /* its handler is notified, too */
    HG_CHECK_EQ_INT(HG_Get_time_left(engine_kept[0]), 0);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    engine_forget(&call);
    ends_end(&engine);
}

/* A call that is answered in time completes then, and leaves no timer. */
HG_TEST(deadline_is_removed_when_its_call_completes)
{
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    ends_start(&engine, id, 10, 60000, &call);
    HG_CHECK_EQ_INT(engine.a.context->deadline.count, 1);
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    HG_CHECK_EQ_INT(engine.a.context->deadline.count, 0);
    engine_forget(&call);
    /* It fetches its output, too. */
    ends_start(&engine, id, 100000, 60000, &call);
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    ends_end(&engine);
}

/* The target uses its own clock: no message tells it that the call has
 * ended. */
HG_TEST(deadline_drops_a_call_that_was_not_executed)
{
    struct ends_tap tap = {LOOP_DROP, HG_HEADER_CANCEL, 0};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    loop_set_tap(ends_meet, &tap);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 5, &call);
    (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
    HG_CHECK_EQ_INT(hg_handle_count_targets(engine.b.context, false), 1);
    while (call.ends == 0)
        engine_turn(&engine.a);
    HG_CHECK_RET(call.ret, HG_TIMEOUT);
    HG_CHECK_EQ_INT(tap.count, 1);
    (void) poll(NULL, 0, 6); /* counted from the arrival of the call */
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_executed, 0);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.b.context->counts[HG_COUNT_EXPIRED]), 1);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.b.context->counts[HG_COUNT_CANCELED]), 0);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.b.context->counts[HG_COUNT_RESPONSES_SENT]), 0);
    engine_forget(&call);
    ends_end(&engine);
}

/* A hook that takes longer than the call may. */
static hg_return_t ends_take_long(const struct hg_hook_info *info, void *arg)
{
    const uint64_t *until = (const uint64_t *) arg;

    while (info->point == HG_HOOK_FORWARD && hg_clock_now() < *until)
        (void) sched_yield();
    return HG_SUCCESS;
}

/* Its request says so: in the message, 0 means none. */
HG_TEST(deadline_that_passed_before_the_call_was_sent_is_sent)
{
    struct engine_call call;
    struct engine engine;
    uint64_t until;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    until = hg_clock_after_ms(10);
    hg_watch_set_hook(engine.a.hg_class, ends_take_long, &until);
    ends_start(&engine, id, 10, 1, &call);
    (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
    HG_CHECK_EQ_INT(hg_handle_count_targets(engine.b.context, false), 1);
    HG_CHECK(
        HG_CONTAINER_OF(engine.b.context->targets.next, struct hg_handle, link)
            ->deadline != 0);
    while (call.ends == 0)
        engine_turn(&engine.a);
    HG_CHECK_RET(call.ret, HG_TIMEOUT);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_executed, 0);
    engine_forget(&call);
    ends_end(&engine);
}

/* A timer that expired just when its call ended does not end the next call. */
HG_TEST(deadline_of_an_earlier_call_ends_no_other)
{
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 60000, &call);
    locked_forward_expired(call.handle);
    HG_CHECK_EQ_INT(call.handle->state, HG_HANDLE_SENT);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    locked_forward_expired(call.handle);
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    ends_start(&engine, id, 10, 0, &call); /* without a deadline */
    locked_forward_expired(call.handle);
    HG_CHECK_EQ_INT(call.handle->state, HG_HANDLE_SENT);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    engine_forget(&call);
    ends_end(&engine);
}

static hg_return_t ends_answer_large(hg_handle_t handle)
{
    hg_return_t ret = engine_answer_size(handle, 100000);

    (void) hg_serve_free(handle);
    return ret;
}

/* Until a call of `a` fetches its output, which is held at `b`. */
static void ends_begin_fetch(
    struct engine *engine, unsigned timeout, struct engine_call *call)
{
    hg_id_t id = engine_register(engine, "large", ends_answer_large);

    ends_start(engine, id, 10, timeout, call);
    engine_turn(&engine->b);
    HG_CHECK_EQ_INT(engine_held(engine->b.context, NULL), 1);
    (void) locked_poll(engine->a.context->na_context);
    HG_CHECK_EQ_INT(call->handle->state, HG_HANDLE_FETCHING);
}

HG_TEST(deadline_ends_the_fetch_of_an_output)
{
    struct engine_call call;
    struct engine engine;

    ends_begin(&engine, NULL);
    ends_begin_fetch(&engine, 60000, &call);
    ends_pass_time(call.handle);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_TIMEOUT);
    engine_forget(&call);
    ends_end(&engine);
}

/* The first cancellation decides the result. */
HG_TEST(fetch_of_an_output_ends_for_the_first_reason)
{
    struct engine_call call;
    struct engine engine;

    ends_begin(&engine, NULL);
    ends_begin_fetch(&engine, 60000, &call);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    ends_pass_time(call.handle);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    ends_end(&engine);
}

static hg_return_t ends_measure(hg_handle_t handle)
{
    struct blob in = {0, NULL};

    HG_CHECK_OK(hg_handle_decode(handle, &in, NULL));
    HG_CHECK_EQ_U64(in.size, ENDS_TWO_PIECES);
    (void) hg_handle_release(blob_proc, &in);
    HG_CHECK_OK(engine_answer_size(handle, 0));
    return hg_serve_free(handle);
}

/* The timer of a piece of the input expires when the piece arrives: the fetch
 * of the next piece, which has its own timer, continues. */
HG_TEST(deadline_of_a_piece_does_not_end_the_fetch_of_the_next)
{
    struct engine_call call;
    struct engine engine;
    struct hg_context *context;
    struct hg_handle *target;

    ends_begin(&engine, NULL);
    context = engine.b.context;
    ends_start(&engine, engine_register(&engine, "measure", ends_measure),
        ENDS_TWO_PIECES, 0, &call);
    engine_turn(&engine.b);
    HG_CHECK_EQ_U64(hg_handle_count_targets(context, false), 1);
    target = HG_CONTAINER_OF(context->targets.next, struct hg_handle, link);
    HG_CHECK(target->in_large.op_id != NA_OP_ID_NULL);
    /* A thread removes the expired timer, then waits for the lock. */
    hg_enter(context->lock);
    HG_CHECK(hg_deadline_pop(&context->deadline, target->timer.when) ==
        &target->timer);
    hg_handle_ref(target);
    hg_leave(context->lock);
    while (target->in_large.got == 0) {
        engine_turn(&engine.a);
        engine_turn(&engine.b);
    }
    HG_CHECK_EQ_U64(target->in_large.got, HG_OVERFLOW_PIECE);
    locked_overflow_expired(target);
    hg_handle_unref(target);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    ends_end(&engine);
}

/* ---- Cancellation ---- */

HG_TEST(cancel_drops_a_call_that_was_not_executed)
{
    struct engine_call calls[3];
    struct engine engine;
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    for (i = 0; i < 3; i++)
        ends_start(&engine, id, i == 1 ? 10 : 20, 0, &calls[i]);
    (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
    HG_CHECK_OK(locked_forward_cancel(calls[1].handle));
    (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_executed, 2);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.b.context->counts[HG_COUNT_CANCELED]), 1);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.b.context->counts[HG_COUNT_EXPIRED]), 0);
    HG_CHECK_RET(calls[1].ret, HG_CANCELED);
    HG_CHECK_EQ_INT(ends_notified, 0); /* no other handler's */
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    engine_settle(&engine);
    for (i = 0; i < 3; i++)
        engine_forget(&calls[i]);
    ends_end(&engine);
}

/* The target is fetching, or about to fetch, or has fetched. */
HG_TEST(cancel_ends_the_fetch_of_an_input)
{
    unsigned turns;

    for (turns = 0; turns < 8; turns++) {
        struct engine_call call;
        struct engine engine;
        unsigned i;
        hg_id_t id;

        ends_begin(&engine, NULL);
        id = engine_register(&engine, "keep", ends_keep);
        ends_start(&engine, id, (size_t) 3 << 20, 0, &call);
        if (turns == 0)
            (void) locked_poll(engine.b.context->na_context);
        for (i = 0; i < turns; i++) {
            (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
            engine_turn(&engine.a);
        }
        HG_CHECK_EQ_INT(hg_handle_count_targets(engine.b.context, false), 1);
        HG_CHECK_OK(locked_forward_cancel(call.handle));
        (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
        engine_settle(&engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_RET(call.ret, HG_CANCELED);
        HG_CHECK_EQ_INT(ends_executed, 0);
        HG_CHECK_EQ_U64(
            atomic_load(&engine.b.context->counts[HG_COUNT_CANCELED]), 1);
        HG_CHECK_EQ_U64(
            atomic_load(&engine.b.context->counts[HG_COUNT_ERRORS_SENT]), 0);
        engine_forget(&call);
        ends_end(&engine);
    }
}

/* Every piece of an input has a time limit: a peer that sends only the first
 * piece holds neither the call nor its memory. */
HG_TEST(fetch_of_an_input_may_be_canceled_halfway)
{
    struct hg_context *context;
    struct hg_handle *target;
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    context = engine.b.context;
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 2 * HG_OVERFLOW_PIECE, 0, &call);
    do {
        engine_turn(&engine.a);
        (void) engine_progress(context, NA_LANES_ALL, 0);
        target = HG_CONTAINER_OF(context->targets.prev, struct hg_handle, link);
    } while (target->in_large.got == 0);
    HG_CHECK_EQ_U64(target->in_large.got, HG_OVERFLOW_PIECE);
    hg_enter(context->lock);
    HG_CHECK(target->timer.index != 0);
    hg_deadline_remove(&context->deadline, &target->timer);
    HG_CHECK_OK(hg_deadline_add(&context->deadline, &target->timer, 1));
    (void) hg_context_run_timers(context);
    hg_leave(context->lock);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    HG_CHECK_EQ_INT(ends_executed, 0);
    engine_forget(&call);
    ends_end(&engine);
}

/* The response was in flight: the target learns at once that it can release the
 * output. */
HG_TEST(cancel_releases_a_large_response_that_arrives_late)
{
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "large", ends_answer_large);
    ends_start(&engine, id, 10, 0, &call);
    engine_turn(&engine.b);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 0);
    HG_CHECK_EQ_U64(atomic_load(&engine.a.context->counts[HG_COUNT_LATE]), 1);
    HG_CHECK_EQ_U64(atomic_load(&engine.b.context->counts[HG_COUNT_LATE]), 0);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    ends_end(&engine);
}

/* If it is set after the cancellation it runs soon; after a response or a
 * cancellation by the caller it does not. */
HG_TEST(cancel_callback_runs_while_the_call_is_open)
{
    enum { NEVER, LATE, ANSWERED, FREED, UNSET, WAYS };
    unsigned way;

    for (way = NEVER; way < WAYS; way++) {
        struct engine_call call;
        struct engine engine;
        hg_id_t id;

        ends_begin(&engine, NULL);
        id = engine_register(
            &engine, "keep", way == LATE ? engine_keep : ends_keep);
        ends_start(&engine, id, 10, 0, &call);
        engine_settle(&engine);
        HG_CHECK_EQ_INT(engine_kept_count, 1);
        if (way == UNSET)
            HG_CHECK_OK(HG_Set_cancel_cb(engine_kept[0], NULL, NULL));
        if (way != NEVER)
            HG_CHECK_OK(locked_forward_cancel(call.handle));
        (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
        HG_CHECK_EQ_INT(
            HG_Is_canceled(engine_kept[0]), way == NEVER ? HG_FALSE : HG_TRUE);
        if (way == LATE)
            HG_CHECK_OK(
                HG_Set_cancel_cb(engine_kept[0], ends_receive, &ends_notified));
        if (way == ANSWERED)
            HG_CHECK_OK(engine_answer_size(engine_kept[0], 10));
        if (way == FREED)
            HG_CHECK_OK(hg_serve_free(engine_kept[0]));
        HG_CHECK_EQ_INT(ends_notified, 0);
        engine_settle(&engine);
        HG_CHECK_EQ_INT(ends_notified, way == LATE);
        if (way != FREED)
            HG_CHECK_OK(hg_serve_free(engine_kept[0]));
        engine_settle(&engine);
        HG_CHECK_RET(call.ret, HG_CANCELED);
        engine_forget(&call);
        ends_end(&engine);
    }
}

HG_TEST(cancel_from_another_peer_is_ignored)
{
    struct engine_call call;
    struct engine engine;
    struct hg_header header;
    unsigned char bytes[HG_HEADER_MIN];
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &call);
    engine_settle(&engine);
    for (i = 0; i < 4; i++) {
        memset(&header, 0, sizeof(header));
        header.type = HG_HEADER_CANCEL;
        header.rpc_id = id;
        header.sequence = call.handle->sequence + (i == 0);
        header.origin_context = i == 1;
        hg_header_encode(&header, bytes, true);
        if (i == 3) /* damaged */
            bytes[HG_HEADER_MIN - 1] ^= 1;
        loop_inject(engine.b.na_class,
            i == 2 ? engine.b.na_class->self_addr : engine.b.peer, bytes,
            sizeof(bytes));
        engine_settle(&engine);
        HG_CHECK(HG_Is_canceled(engine_kept[0]) == HG_FALSE);
    }
    HG_CHECK_OK(engine_answer_size(engine_kept[0], 10));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    ends_end(&engine);
}

/* Deliver a message of `source` to `b`. */
static void ends_inject(struct engine *engine, struct na_addr *source,
    uint8_t type, hg_id_t id, uint64_t sequence, uint8_t origin_context)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;

    memset(&header, 0, sizeof(header));
    header.type = type;
    header.rpc_id = id;
    header.sequence = sequence;
    header.origin_context = origin_context;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine->b.na_class, source, bytes, sizeof(bytes));
}

/* Deliver a CANCEL; the `fail`th allocation that it causes fails, 0: none. */
static void ends_inject_cancel(struct engine *engine, struct na_addr *source,
    uint64_t sequence, uint8_t origin_context, uint64_t fail)
{
    ends_inject(engine, source, HG_HEADER_CANCEL, 0, sequence, origin_context);
    hg_test_alloc_fail_at(fail);
    engine_settle(engine);
    HG_CHECK(fail == 0 || hg_test_alloc_failed());
    hg_test_alloc_fail_at(0);
}

/* The first CANCEL enters all calls into a table. Later ones access no call but
 * their own: they find it while the list of calls is unreachable. */
HG_TEST(cancel_finds_its_call_in_constant_time)
{
    enum { CALLS = 60 };
    struct engine_call calls[CALLS];
    struct engine engine;
    struct hg_map *map;
    struct na_link hidden;
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    map = &engine.b.context->by_call;
    id = engine_register(&engine, "keep", ends_keep);
    for (i = 0; i < CALLS; i++)
        ends_start(&engine, id, 10, 0, &calls[i]);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_kept_count, CALLS);
    HG_CHECK(map->entries == NULL); /* it is empty before */
    ends_inject_cancel(&engine, engine.b.peer, UINT64_MAX, 0, 0);
    HG_CHECK_EQ_U64(map->count, CALLS);
    for (i = 1; i < CALLS; i++) {
        unsigned n = i * 37 % CALLS; /* in some order */
        uint64_t sequence = engine_kept[n]->sequence;

        hg_list_init(&hidden);
        hg_list_splice(&hidden, &engine.b.context->targets);
        ends_inject_cancel(&engine, engine.b.peer, sequence + 1000, 0, 0);
        ends_inject_cancel(&engine, engine.b.peer, sequence, 1, 0);
        ends_inject_cancel(
            &engine, engine.b.na_class->self_addr, sequence, 0, 0);
        HG_CHECK_EQ_INT(ends_notified, i - 1);
        ends_inject_cancel(&engine, engine.b.peer, sequence, 0, 0);
        HG_CHECK_EQ_INT(ends_notified, i);
        HG_CHECK(HG_Is_canceled(engine_kept[n]) == HG_TRUE);
        hg_list_splice(&engine.b.context->targets, &hidden);
    }
    HG_CHECK(HG_Is_canceled(engine_kept[0]) == HG_FALSE);
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    HG_CHECK_EQ_INT(engine_live(engine.b.context), 0);
    HG_CHECK_EQ_U64(map->count, 0);
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(locked_forward_cancel(calls[i].handle));
    engine_settle(&engine);
    for (i = 0; i < CALLS; i++)
        engine_forget(&calls[i]);
    ends_end(&engine);
}

/* Deliver a call from a context of `source`. */
static void ends_inject_call(struct engine *engine, struct na_addr *source,
    hg_id_t id, uint64_t sequence, uint8_t origin_context)
{
    ends_inject(
        engine, source, HG_HEADER_REQUEST, id, sequence, origin_context);
    engine_settle(engine);
}

/* A peer dies. Meanwhile calls to other peers are unreachable, and of the calls
 * that arrived those before `last`, or all if that is NULL. */
static void ends_kill_peer(
    struct engine *engine, const struct na_addr *peer, struct hg_handle *last)
{
    struct na_link *link =
        last != NULL ? &last->link : &engine->b.context->targets;
    struct na_link *prev = link->prev;
    struct na_link *origins = &engine->b.context->origins;
    struct na_link *newest = origins->prev;

    link->prev = NULL;
    origins->prev = NULL;
    locked_forward_end_all(engine->b.context, peer, HG_DISCONNECT);
    locked_cancel_peer(engine->b.context, peer);
    origins->prev = newest;
    link->prev = prev;
    engine_settle(engine);
}

/* End the calls to `peer`. Meanwhile those that were forwarded before `last`,
 * or all if that is NULL, are unreachable. */
static void ends_end_calls(
    struct engine *engine, const struct na_addr *peer, struct hg_handle *last)
{
    struct na_link *origins = &engine->a.context->origins;
    struct na_link *link = last != NULL ? &last->link : origins;
    struct na_link *prev = link->prev;
    struct na_link *next = origins->next;

    link->prev = NULL;
    origins->next = NULL;
    locked_forward_end_all(engine->a.context, peer, HG_DISCONNECT);
    origins->next = next;
    link->prev = prev;
}

/* No older call of another peer is visited. */
HG_TEST(cancel_of_a_dead_peer_visits_the_newest_calls_only)
{
    enum { CALLS = 20, THEIRS = 3 };
    struct engine_call calls[CALLS];
    struct engine_end other;
    struct engine engine;
    na_addr_t peer = NA_ADDR_NULL;
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    HG_CHECK_OK(
        engine_open_end(&other, "loop://c", 4096, &engine.a.hg_class->options));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(engine.b.na_class, "loop://c", 1000, &peer));
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &calls[0]);
    engine_settle(&engine);
    ends_kill_peer(&engine, peer, NULL); /* it has no call */
    for (i = 1; i < CALLS; i++) {
        ends_start(&engine, id, 10, 0, &calls[i]);
        engine_settle(&engine);
        if (i % 5 == 0)
            ends_inject_call(&engine, peer, id, i, 0);
    }
    HG_CHECK_EQ_INT(engine_kept_count, CALLS + THEIRS);
    ends_kill_peer(&engine, peer, engine_kept[6]);
    HG_CHECK_EQ_INT(ends_notified, THEIRS);
    for (i = 0; i < CALLS + THEIRS; i++)
        HG_CHECK_EQ_INT(HG_Is_canceled(engine_kept[i]),
            engine_kept[i]->addr == peer ? HG_TRUE : HG_FALSE);
    while (i > 0)
        HG_CHECK_OK(hg_serve_free(engine_kept[--i]));
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(locked_forward_cancel(calls[i].handle));
    engine_settle(&engine);
    for (i = 0; i < CALLS; i++)
        engine_forget(&calls[i]);
    HG_CHECK_OK(NA_Addr_free(engine.b.na_class, peer));
    engine_close_end(&other);
    ends_end(&engine);
}

/* No older call to another peer is visited. */
HG_TEST(end_of_the_calls_to_a_dead_peer_visits_the_newest_calls_only)
{
    enum { CALLS = 20 };
    struct engine_call calls[CALLS];
    struct engine_end other;
    struct engine engine;
    struct na_addr *own;
    na_addr_t peer = NA_ADDR_NULL;
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    own = engine.a.peer;
    HG_CHECK_OK(
        engine_open_end(&other, "loop://c", 4096, &engine.a.hg_class->options));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(engine.a.na_class, "loop://c", 1000, &peer));
    id = engine_register(&engine, "keep", ends_keep);
    for (i = 0; i < CALLS; i++) {
        if (i == 5)
            ends_end_calls(&engine, peer, NULL); /* it has no calls */
        engine.a.peer = i >= 5 && i % 5 == 0 ? peer : own;
        ends_start(&engine, id, i == 10 ? 3000 : 10, 0, &calls[i]);
    }
    engine.a.peer = own;
    ends_end_calls(&engine, peer, calls[4].handle);
    for (i = 0; i < 3; i++)
        engine_turn(&other); /* it answers too late */
    engine_settle(&engine);
    for (i = 0; i < CALLS; i++) {
        bool ended = i >= 5 && i % 5 == 0;

        HG_CHECK_EQ_INT(calls[i].ends, ended ? 1 : 0);
        if (ended)
            HG_CHECK_RET(calls[i].ret, HG_DISCONNECT);
    }
    while (engine_kept_count > 0)
        HG_CHECK_OK(hg_serve_free(engine_kept[--engine_kept_count]));
    engine_settle(&engine);
    for (i = 0; i < CALLS; i++)
        engine_forget(&calls[i]);
    HG_CHECK_OK(NA_Addr_free(engine.a.na_class, peer));
    engine_close_end(&other);
    ends_end(&engine);
}

/* The application may keep the handle of a call after its response. The peer
 * does not wait for such a call. */
HG_TEST(cancel_of_a_dead_peer_skips_calls_that_are_answered)
{
    enum { CALLS = 6 };
    struct engine_call calls[CALLS];
    struct engine engine;
    unsigned i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    for (i = 0; i < CALLS; i++) {
        ends_start(&engine, id, 10, 0, &calls[i]);
        engine_settle(&engine);
    }
    HG_CHECK_EQ_INT(engine_kept_count, CALLS);
    for (i = 2; i < CALLS; i++)
        HG_CHECK_OK(hg_serve_respond(engine_kept[i], HG_SUCCESS, NULL));
    engine_settle(&engine);
    locked_cancel_peer(engine.b.context, engine.b.peer);
    engine_settle(&engine);
    for (i = 0; i < 2; i++)
        HG_CHECK(HG_Is_canceled(engine_kept[i]) == HG_TRUE);
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(locked_forward_cancel(calls[i].handle));
    engine_settle(&engine);
    for (i = 0; i < CALLS; i++)
        engine_forget(&calls[i]);
    ends_end(&engine);
}

/* A call beyond the peer's quota has not been refused yet when the peer dies.
 * It is not counted, so the older call of the peer is canceled, too. */
HG_TEST(cancel_of_a_dead_peer_finds_calls_older_than_refused_ones)
{
    struct engine_call calls[2];
    struct hg_context *context;
    struct hg_handle *refused;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    context = engine.b.context;
    id = engine_register(&engine, "keep", ends_keep);
    context->hg_class->limits[HG_LIMIT_CALLS].max = 1;
    ends_start(&engine, id, 10, 0, &calls[0]);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_kept_count, 1);
    ends_start(&engine, id, 10, 0, &calls[1]);
    (void) locked_poll(context->na_context);
    refused = HG_CONTAINER_OF(context->targets.prev, struct hg_handle, link);
    HG_CHECK(refused->refused_early);
    HG_CHECK_EQ_INT(refused->state, HG_HANDLE_QUEUED);
    locked_cancel_peer(context, engine.b.peer);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_executed, 1);
    HG_CHECK_EQ_INT(ends_notified, 1);
    HG_CHECK(HG_Is_canceled(engine_kept[0]) == HG_TRUE);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    HG_CHECK_OK(locked_forward_cancel(calls[0].handle));
    HG_CHECK_OK(locked_forward_cancel(calls[1].handle));
    engine_settle(&engine);
    engine_forget(&calls[0]);
    engine_forget(&calls[1]);
    ends_end(&engine);
}

/* The input of a large one-way call has just been fetched when its peer dies,
 * before that call is dropped. The older call of the peer is canceled, too. */
HG_TEST(cancel_of_a_dead_peer_finds_calls_older_than_one_way)
{
    struct blob in = engine_new_blob(100000, 4);
    struct engine_call calls[2];
    struct hg_context *context;
    struct hg_handle *large;
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &calls[0]);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_kept_count, 1);
    memset(&calls[1], 0, sizeof(calls[1]));
    HG_CHECK_OK(
        engine_create(engine.a.context, engine.a.peer, id, &calls[1].handle));
    calls[1].handle->one_way = true;
    HG_CHECK_OK(engine_send(calls[1].handle, &in, engine_ended, &calls[1]));
    context = engine.b.context;
    do {
        (void) engine_progress(engine.a.context, 1u << NA_LANE_CALL, 0);
        (void) engine_progress(context, 1u << NA_LANE_CALL, 0);
        large = HG_CONTAINER_OF(context->targets.prev, struct hg_handle, link);
        if (large->state == HG_HANDLE_FETCHING) /* hg_cancel_mark, too late */
            atomic_store(&large->unwanted, true);
    } while (na_queue_count(context->queue, 1u << NA_LANE_CALL) == 0);
    HG_CHECK_EQ_INT(large->state, HG_HANDLE_QUEUED);
    HG_CHECK_EQ_U64(*hg_limit_of(engine.b.peer, HG_LIMIT_CALLS), 2);
    locked_cancel_peer(context, engine.b.peer);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(ends_executed, 1);
    HG_CHECK_EQ_INT(ends_notified, 1);
    HG_CHECK(HG_Is_canceled(engine_kept[0]) == HG_TRUE);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    HG_CHECK_OK(locked_forward_cancel(calls[0].handle));
    (void) locked_forward_cancel(calls[1].handle);
    engine_settle(&engine);
    engine_forget(&calls[0]);
    engine_forget(&calls[1]);
    free(in.bytes);
    ends_end(&engine);
}

/* Two contexts of a peer use the same sequence numbers. */
HG_TEST(cancel_distinguishes_contexts_of_a_peer)
{
    struct engine_call call;
    struct engine engine;
    uint64_t sequence;
    uint8_t i;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &call);
    engine_settle(&engine);
    sequence = call.handle->sequence;
    ends_inject_call(&engine, engine.b.peer, id, sequence, 1);
    HG_CHECK_EQ_INT(engine_kept_count, 2);
    for (i = 0; i < 2; i++) {
        HG_CHECK(HG_Is_canceled(engine_kept[i]) == HG_FALSE);
        ends_inject_cancel(&engine, engine.b.peer, sequence, i, 0);
        HG_CHECK_EQ_INT(ends_notified, i + 1);
        HG_CHECK(HG_Is_canceled(engine_kept[i]) == HG_TRUE);
    }
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    engine_forget(&call);
    ends_end(&engine);
}

/* A peer reuses a number while the handle of the earlier call exists. The end
 * of that handle leaves the later call in the table. */
HG_TEST(cancel_finds_a_call_whose_number_was_used_before)
{
    struct engine_call call;
    struct engine engine;
    uint64_t sequence;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &call);
    engine_settle(&engine);
    sequence = call.handle->sequence;
    ends_inject_call(&engine, engine.b.peer, id, sequence, 0);
    HG_CHECK_EQ_INT(engine_kept_count, 2);
    ends_inject_cancel(&engine, engine.b.peer, UINT64_MAX, 0, 0);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    ends_inject_cancel(&engine, engine.b.peer, sequence, 0, 0);
    HG_CHECK_EQ_INT(ends_notified, 1);
    HG_CHECK(HG_Is_canceled(engine_kept[1]) == HG_TRUE);
    HG_CHECK_OK(hg_serve_free(engine_kept[1]));
    engine_settle(&engine);
    engine_forget(&call);
    ends_end(&engine);
}

/* Every allocation fails when the call is canceled. */
HG_TEST(cancel_needs_no_memory)
{
    struct ends_tap tap = {LOOP_LATER, HG_HEADER_CANCEL, 0};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    hg_test_alloc_install();
    hg_test_allow_log("no memory");
    ends_begin(&engine, NULL);
    loop_set_tap(ends_meet, &tap);
    id = engine_register(&engine, "keep", ends_keep);
    ends_start(&engine, id, 10, 0, &call);
    engine_settle(&engine);
    hg_test_alloc_fail_at(1);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    HG_CHECK(hg_test_alloc_failed());
    hg_test_alloc_fail_at(0);
    while (ends_notified == 0)
        engine_settle(&engine);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    ends_end(&engine);
}

/* ---- Every order ---- */

enum ends_step {
    ENDS_ARRIVE = 0, /* messages to the target arrive */
    ENDS_ARRIVE_TOO, /* once more */
    ENDS_EXECUTE,
    ENDS_RESPOND,
    ENDS_RETURN, /* messages to the origin arrive */
    ENDS_CANCEL,
    ENDS_EXPIRE,
    ENDS_DIE,
    ENDS_STEPS
};

struct ends_order {
    struct engine engine;
    struct engine_call call;
    hg_return_t want; /* the expected result, once it is known */
    bool clear;
    bool answered;
    uint8_t steps[ENDS_STEPS];
    uint64_t runs;
    unsigned stride; /* of so many runs only the first is executed */
};

/* The call must end with this result, unless it has ended. */
static void ends_expect(struct ends_order *order, hg_return_t ret)
{
    if (order->clear)
        return;
    order->clear = true;
    order->want = ret;
}

static void ends_arrive(struct ends_order *order)
{
    (void) engine_progress(order->engine.b.context, NA_LANES_ALL, 0);
    (void) engine_run(
        order->engine.b.context, NA_LANES_DONE, UINT_MAX, HG_CLOCK_NEVER);
}

static void ends_respond(struct ends_order *order)
{
    if (engine_kept_count == 0 || order->answered)
        return;
    order->answered = true;
    HG_CHECK_OK(engine_answer_size(engine_kept[0], 10));
}

/* If the response arrives, the call has completed, or its output is being
 * fetched. */
static void ends_return(struct ends_order *order)
{
    enum hg_handle_state state;

    (void) engine_progress(order->engine.a.context, NA_LANES_ALL, 0);
    state = order->call.handle->state;
    if (state == HG_HANDLE_ENDED)
        ends_expect(order, HG_SUCCESS);
}

static void ends_die(struct ends_order *order)
{
    locked_kill(order->engine.a.na_class, order->engine.a.peer);
    locked_kill(order->engine.b.na_class, order->engine.b.peer);
    ends_expect(order, HG_DISCONNECT);
}

static void ends_do(struct ends_order *order, enum ends_step step)
{
    struct hg_handle *handle = order->call.handle;

    switch (step) {
    case ENDS_ARRIVE:
    case ENDS_ARRIVE_TOO: ends_arrive(order); break;
    case ENDS_EXECUTE:
        (void) engine_run(order->engine.b.context, 1u << NA_LANE_CALL, UINT_MAX,
            HG_CLOCK_NEVER);
        break;
    case ENDS_RESPOND: ends_respond(order); break;
    case ENDS_RETURN: ends_return(order); break;
    case ENDS_CANCEL:
        (void) locked_forward_cancel(handle);
        ends_expect(order, HG_CANCELED);
        break;
    case ENDS_EXPIRE:
        ends_pass_time(handle);
        ends_expect(order, HG_TIMEOUT);
        break;
    default: ends_die(order);
    }
}

/* Two live engines; both are restarted now and then, so that dead addresses do
 * not accumulate. */
static hg_id_t ends_revive(struct engine *engine, uint64_t round)
{
    if (round % 128 != 0) {
        HG_CHECK_OK(NA_Addr_free(engine->a.na_class, engine->a.peer));
        HG_CHECK_OK(NA_Addr_free(engine->b.na_class, engine->b.peer));
        HG_CHECK_OK(NA_Addr_lookup_wait(
            engine->a.na_class, "loop://b", 1000, &engine->a.peer));
        HG_CHECK_OK(NA_Addr_lookup_wait(
            engine->b.na_class, "loop://a", 1000, &engine->b.peer));
    } else {
        engine_close(engine);
        HG_CHECK_OK(engine_open(engine, ENDS_EAGER, NULL));
    }
    return engine_register(engine, "keep", ends_keep);
}

static void ends_run_order(struct ends_order *order)
{
    struct engine *engine = &order->engine;
    unsigned i;

    engine_kept_count = 0;
    ends_executed = 0;
    ends_notified = 0;
    order->clear = false;
    order->answered = false;
    ends_start(
        engine, ends_revive(engine, order->runs), 10, 60000, &order->call);
    for (i = 0; i < ENDS_STEPS; i++)
        ends_do(order, (enum ends_step) order->steps[i]);
    engine_settle(engine);
    HG_CHECK(order->clear);
    HG_CHECK_EQ_INT(order->call.ends, 1);
    HG_CHECK_RET(order->call.ret, order->want);
    HG_CHECK_EQ_INT(ends_executed, engine_kept_count);
    HG_CHECK(ends_notified <= (order->answered ? 1 : engine_kept_count));
    if (engine_kept_count > 0 && !order->answered && order->want != HG_SUCCESS)
        HG_CHECK_EQ_INT(ends_notified, 1);
    if (engine_kept_count > 0)
        HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(engine);
    engine_forget(&order->call);
    ends_check_empty(engine);
}

/* Every order of the steps from `first` on; the two equal steps count once. */
static void ends_permute(struct ends_order *order, unsigned first)
{
    unsigned i;

    if (first == ENDS_STEPS) {
        unsigned at = 0;

        while (order->steps[at] > ENDS_ARRIVE_TOO)
            at++;
        if (order->steps[at] == ENDS_ARRIVE &&
            order->runs++ % order->stride == 0)
            ends_run_order(order);
        return;
    }
    for (i = first; i < ENDS_STEPS; i++) {
        uint8_t step = order->steps[i];

        order->steps[i] = order->steps[first];
        order->steps[first] = step;
        ends_permute(order, first + 1);
        order->steps[first] = order->steps[i];
        order->steps[i] = step;
    }
}

HG_TEST_SECONDS(calls_complete_once_in_every_order_of_events, 120)
{
    static struct ends_order order;
    unsigned i;

    hg_test_allow_log("");
    (void) HG_Set_log_level("error");
    ends_begin(&order.engine, NULL);
    order.stride = hg_test_is_plain() ? 1 : 11;
    for (i = 0; i < ENDS_STEPS; i++)
        order.steps[i] = (uint8_t) i;
    ends_permute(&order, 0);
    HG_CHECK_EQ_U64(order.runs, 20160);
    ends_end(&order.engine);
}

/* Two or three calls at once, large and small, with steps of any of them. */
static void ends_run_random(struct engine *engine, hg_id_t id, uint64_t *state)
{
    static const size_t sizes[] = {0, 10, 20000, 300000};
    struct engine_call calls[3];
    bool answered[3] = {false, false, false};
    bool dead = false;
    unsigned count = 2 + (unsigned) (hg_test_random(state) % 2);
    uint64_t steps = hg_test_random(state) % 40;
    unsigned i;

    engine_kept_count = 0;
    for (i = 0; i < count; i++)
        ends_start(
            engine, id, sizes[hg_test_random(state) % 4], 60000, &calls[i]);
    for (i = 0; i < steps; i++) {
        unsigned which = (unsigned) (hg_test_random(state) % count);

        switch (hg_test_random(state) % 16) {
        case 0: (void) locked_forward_cancel(calls[which].handle); break;
        case 1: ends_pass_time(calls[which].handle); break;
        case 2:
            if (which == 0 && !dead) {
                locked_kill(engine->a.na_class, engine->a.peer);
                locked_kill(engine->b.na_class, engine->b.peer);
                dead = true;
            }
            break;
        case 3:
        case 4:
            if (which < engine_kept_count && !answered[which]) {
                answered[which] = true;
                HG_CHECK_OK(engine_answer_size(
                    engine_kept[which], sizes[hg_test_random(state) % 4]));
            }
            break;
        case 5:
        case 6:
        case 7: engine_turn(&engine->b); break;
        case 8:
        case 9:
        case 10: engine_turn(&engine->a); break;
        case 11:
        case 12:
            (void) engine_progress(engine->b.context, NA_LANES_ALL, 0);
            break;
        default: (void) engine_progress(engine->a.context, NA_LANES_ALL, 0);
        }
    }
    engine_settle(engine);
    for (i = 0; i < count; i++)
        (void) locked_forward_cancel(calls[i].handle);
    engine_settle(engine);
    for (i = 0; i < engine_kept_count; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    engine_settle(engine);
    for (i = 0; i < count; i++) {
        HG_CHECK_EQ_INT(calls[i].ends, 1);
        engine_forget(&calls[i]);
    }
    ends_check_empty(engine);
}

HG_TEST_SECONDS(calls_complete_once_in_any_order_of_several_calls, 120)
{
    uint64_t state = hg_test_seed();
    unsigned rounds = hg_test_is_plain() ? 2000 : 300;
    struct engine engine;
    unsigned round;

    hg_test_allow_log("");
    (void) HG_Set_log_level("error");
    ends_begin(&engine, NULL);
    for (round = 1; round <= rounds; round++)
        ends_run_random(&engine, ends_revive(&engine, round), &state);
    ends_end(&engine);
}

/* ---- Texts ---- */

static const char *ends_text;
static hg_return_t ends_code;

static hg_return_t ends_fail(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond_error(handle, ends_code, ends_text));
    HG_CHECK_RET(HG_Respond_error(handle, ends_code, "again"), HG_EXIST);
    return hg_serve_free(handle);
}

static void ends_check_text(
    struct engine *engine, hg_id_t id, hg_return_t ret, const char *text)
{
    struct engine_call call;

    ends_start(engine, id, 10, 0, &call);
    engine_settle(engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, ret);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), text);
    engine_forget(&call);
}

HG_TEST(error_carries_the_text_it_was_given)
{
    char longest[HG_ERROR_TEXT_MAX];
    char longer[2 * HG_ERROR_TEXT_MAX];
    struct engine engine;
    hg_id_t id;

    hg_test_expect_log("answered twice");
    ends_begin(&engine, NULL);
    id = engine_register(&engine, "fail", ends_fail);
    ends_code = HG_PERMISSION;
    ends_text = "not you";
    ends_check_text(&engine, id, HG_PERMISSION, "not you");
    ends_text = NULL;
    ends_check_text(&engine, id, HG_PERMISSION, "");
    ends_text = "";
    ends_check_text(&engine, id, HG_PERMISSION, "");
    ends_text = "two\nlines \x1b[1m and \xc3\xa9\x7f";
    ends_check_text(&engine, id, HG_PERMISSION, "two?lines ?[1m and \xc3\xa9?");
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    ends_text = longer;
    ends_check_text(&engine, id, HG_PERMISSION, longest);
    memcpy(longer + HG_ERROR_TEXT_MAX - 3, "\xe2\x82\xac", 3);
    longest[HG_ERROR_TEXT_MAX - 3] = '\0'; /* no partial character */
    ends_check_text(&engine, id, HG_PERMISSION, longest);
    ends_code = HG_TIMEOUT; /* it would mean that the call has not completed */
    ends_text = "in vain";
    ends_check_text(&engine, id, HG_OTHER_ERROR, "in vain");
    ends_end(&engine);
}

static hg_return_t ends_abandon(hg_handle_t handle)
{
    (void) handle;
    return ends_code;
}

/* Codes of a handler get no text: the library only knows the cause of errors of
 * its input. */
HG_TEST(error_of_a_handler_has_no_guessed_text)
{
    struct engine engine;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "return", ends_abandon);
    ends_code = HG_OVERFLOW;
    ends_check_text(&engine, id, HG_OVERFLOW, "");
    ends_code = HG_CHECKSUM_ERROR;
    ends_check_text(&engine, id, HG_CHECKSUM_ERROR, "");
    ends_end(&engine);
}

/* If there is no memory for the text, the code is sent without it. */
HG_TEST(error_arrives_without_text_if_memory_is_short)
{
    struct engine_call call;
    struct engine engine;
    unsigned texts = 0;
    unsigned nth;
    hg_id_t id;

    hg_test_alloc_install();
    hg_test_allow_log("");
    ends_begin(&engine, NULL);
    id = engine_register(&engine, "keep", engine_keep);
    for (nth = 1; nth < 7; nth++) {
        ends_start(&engine, id, 10, 0, &call);
        engine_settle(&engine);
        HG_CHECK_EQ_INT(engine_kept_count, nth);
        hg_buf_fini(&engine_kept[nth - 1]->out);
        hg_test_alloc_fail_at(nth);
        HG_CHECK_OK(
            HG_Respond_error(engine_kept[nth - 1], HG_PERMISSION, "not you"));
        HG_CHECK_OK(hg_serve_free(engine_kept[nth - 1]));
        hg_test_alloc_fail_at(0);
        while (call.ends == 0)
            engine_settle(&engine);
        HG_CHECK_RET(call.ret, HG_PERMISSION);
        texts += strcmp(HG_Get_error_text(call.handle), "") != 0;
        engine_forget(&call);
    }
    HG_CHECK(texts > 0 && texts < 6);
    ends_end(&engine);
}

HG_TEST(refusals_have_a_text)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hg_rpc rpc = {0, blob_proc, blob_proc, NULL, NULL, NULL, 0};
    struct engine_call call;
    struct engine engine;
    char text[64];
    hg_id_t id;

    options.max_unanswered = 1;
    ends_begin(&engine, &options);
    id = hg_registry_add(&engine.a.hg_class->registry, "stranger", NULL, &rpc);
    snprintf(
        text, sizeof(text), "function %016" PRIx64 " is not registered", id);
    hg_test_expect_log("\"stranger\" is not served by loop://b");
    ends_check_text(&engine, id, HG_NOENTRY, text);
    HG_CHECK(hg_registry_add(
                 &engine.b.hg_class->registry, "stranger", NULL, &rpc) == id);
    ends_check_text(&engine, id, HG_NOENTRY,
        "\"stranger\" is registered without a handler");

    id = engine_register(&engine, "keep", engine_keep);
    ends_start(&engine, id, 10, 0, &call);
    ends_check_text(&engine, id, HG_AGAIN,
        "the limits are 1 calls, 1073741824 bytes of input");
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    HG_CHECK_EQ_STR(call.handle->text, "freed without an answer");
    engine_forget(&call);
    ends_end(&engine);
}

static enum loop_fate ends_damage(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    const unsigned *at = (const unsigned *) arg;

    (void) from;
    if (*size > *at && data[11] == HG_HEADER_REQUEST)
        data[*at] ^= 0xff;
    return LOOP_PASS;
}

HG_TEST(damaged_request_is_answered_with_a_text)
{
    struct engine engine;
    unsigned at;
    hg_id_t id;

    ends_begin(&engine, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    loop_set_tap(ends_damage, &at);
    hg_test_expect_log("refused \"echo\": protocol error: malformed, or");
    at = 10; /* the version */
    ends_check_text(
        &engine, id, HG_PROTOCOL_ERROR, "malformed, or not version 2");
    hg_test_expect_log("refused \"echo\": checksum error: it was damaged");
    at = 40; /* the header */
    ends_check_text(
        &engine, id, HG_CHECKSUM_ERROR, "it was damaged in transit");
    at = HG_HEADER_MIN + 9; /* the arguments */
    ends_check_text(
        &engine, id, HG_CHECKSUM_ERROR, "it was damaged in transit");
    ends_end(&engine);
}

/* ---- Reused handles ---- */

static hg_return_t ends_count_call(const struct hg_cb_info *info)
{
    unsigned *ends = (unsigned *) info->arg;

    ++*ends;
    return HG_SUCCESS;
}

static void ends_turn_context(hg_context_t *context)
{
    unsigned count = 0;

    (void) HG_Progress(context, 0);
    do
        (void) HG_Trigger(context, 0, 1, &count);
    while (count > 0);
}

/* The handle of a canceled call can be used for the next call, although the
 * message has not been sent. */
HG_TEST(handle_is_freed_while_its_message_is_queued)
{
    struct ends_tap tap = {LOOP_STUCK, HG_HEADER_REQUEST, 0};
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_handle_t handle;
    unsigned ends = 0;
    na_class_t *other;
    na_addr_t addr;
    hg_id_t id;

    loop_register();
    other = engine_open_class("loop://b", ENDS_EAGER);
    hg_class = HG_Init2("loop://a", HG_TRUE);
    HG_CHECK(hg_class != NULL);
    context = HG_Context_create(hg_class);
    HG_CHECK(context != NULL);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(hg_class->na_class, "loop://b", 1000, &addr));
    id = HG_Register_name(hg_class, "ends", NULL, NULL, NULL);
    HG_CHECK_OK(HG_Create(context, addr, id, &handle));
    loop_set_tap(ends_meet, &tap);
    HG_CHECK_OK(HG_Forward2(handle, ends_count_call, &ends, NULL));
    HG_CHECK_OK(HG_Cancel(handle));
    ends_turn_context(context);
    HG_CHECK_EQ_INT(ends, 1);
    HG_CHECK_OK(HG_Reset(handle, NULL, id));
    tap.fate = LOOP_DROP;
    HG_CHECK_OK(HG_Forward2(handle, ends_count_call, &ends, NULL));
    locked_unstick();
    ends_turn_context(context);
    HG_CHECK_EQ_INT(ends, 1);
    HG_CHECK_OK(HG_Cancel(handle));
    ends_turn_context(context);
    HG_CHECK_EQ_INT(ends, 2);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(NA_Addr_free(hg_class->na_class, addr));
    HG_CHECK_OK(HG_Context_destroy(context));
    HG_CHECK_OK(HG_Finalize2(hg_class));
    HG_CHECK_OK(NA_Finalize(other));
    loop_set_tap(NULL, NULL);
}

/* After its peer's death a handle is in the list of calls again: ending all
 * calls finds it. */
HG_TEST(handle_that_outlives_its_peer_is_listed_again)
{
    struct ends_tap tap = {LOOP_DROP, HG_HEADER_REQUEST, 0};
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_handle_t handle;
    unsigned ends = 0;
    na_class_t *other;
    unsigned i;
    hg_id_t id;

    loop_register();
    other = engine_open_class("loop://b", ENDS_EAGER);
    hg_class = HG_Init2("loop://a", HG_TRUE);
    HG_CHECK(hg_class != NULL);
    context = HG_Context_create(hg_class);
    id = HG_Register_name(hg_class, "ends", NULL, NULL, NULL);
    HG_CHECK_OK(HG_Create(context, NULL, id, &handle));
    loop_set_tap(ends_meet, &tap);
    for (i = 1; i < 4; i++) {
        na_addr_t addr;

        HG_CHECK_OK(
            NA_Addr_lookup_wait(hg_class->na_class, "loop://b", 1000, &addr));
        HG_CHECK_OK(HG_Reset(handle, addr, 0));
        HG_CHECK_OK(HG_Forward2(handle, ends_count_call, &ends, NULL));
        locked_kill(hg_class->na_class, addr);
        ends_turn_context(context);
        HG_CHECK_EQ_INT(ends, i);
        HG_CHECK_EQ_STR(HG_Get_error_text(handle), "the peer disconnected");
        HG_CHECK_OK(NA_Addr_free(hg_class->na_class, addr));
    }
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Context_destroy(context));
    HG_CHECK_OK(HG_Finalize2(hg_class));
    HG_CHECK_OK(NA_Finalize(other));
    loop_set_tap(NULL, NULL);
}

/* ---- A response that cannot be encoded, for a canceled call ---- */

struct ends_try {
    hg_context_t *context;
    hg_handle_t origin;
    hg_handle_t kept;
    bool cancel; /* during encoding; else its notification comes then */
};

static struct ends_try ends_try;

static hg_return_t ends_keep_call(hg_handle_t handle)
{
    ends_try.kept = handle;
    return HG_Set_cancel_cb(handle, ends_receive, &ends_notified);
}

static hg_return_t ends_encode_nothing(hg_proc_t proc, void *data)
{
    unsigned count = 1;

    (void) data;
    HG_CHECK_EQ_INT(hg_proc_get_op(proc), HG_ENCODE);
    if (ends_try.cancel)
        HG_CHECK_OK(HG_Cancel(ends_try.origin));
    while (!ends_try.cancel && count > 0)
        (void) HG_Trigger(ends_try.context, 0, 1, &count);
    return HG_PROTOCOL_ERROR;
}

/* The handler is notified when there is no response. */
HG_TEST(cancel_is_handled_while_a_response_fails)
{
    hg_class_t *hg_class = HG_Init2("self://", HG_TRUE);
    unsigned ends = 0;
    unsigned way;
    hg_addr_t self;
    hg_id_t id;

    HG_CHECK(hg_class != NULL);
    ends_try.context = HG_Context_create(hg_class);
    HG_CHECK_OK(HG_Addr_self(hg_class, &self));
    id = HG_Register_name(
        hg_class, "try", NULL, ends_encode_nothing, ends_keep_call);
    hg_test_expect_log("the proc function fails");
    for (way = 0; way < 2; way++) {
        ends_notified = 0;
        ends_try.cancel = way == 0;
        HG_CHECK_OK(HG_Create(ends_try.context, self, id, &ends_try.origin));
        HG_CHECK_OK(HG_Forward2(ends_try.origin, ends_count_call, &ends, NULL));
        ends_turn_context(ends_try.context);
        if (way == 1)
            HG_CHECK_OK(HG_Cancel(ends_try.origin));
        HG_CHECK_RET(
            HG_Respond(ends_try.kept, NULL, NULL, &ends), HG_PROTOCOL_ERROR);
        HG_CHECK(HG_Is_canceled(ends_try.kept) == HG_TRUE);
        HG_CHECK_EQ_INT(ends_notified, 0);
        ends_turn_context(ends_try.context);
        HG_CHECK_EQ_INT(ends_notified, 1);
        HG_CHECK_RET(
            HG_Respond(ends_try.kept, NULL, NULL, &ends), HG_PROTOCOL_ERROR);
        ends_turn_context(ends_try.context);
        HG_CHECK_EQ_INT(ends_notified, 1); /* once is enough */
        HG_CHECK_EQ_INT(ends, way + 1);
        HG_CHECK_OK(HG_Destroy(ends_try.kept));
        HG_CHECK_OK(HG_Destroy(ends_try.origin));
        ends_turn_context(ends_try.context);
    }
    HG_CHECK_OK(HG_Addr_free(hg_class, self));
    HG_CHECK_OK(HG_Context_destroy(ends_try.context));
    HG_CHECK_OK(HG_Finalize2(hg_class));
}
