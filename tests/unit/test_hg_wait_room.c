/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG_Wait_room in the callback model; the tests set the limits of the class.
 * Over sm if it is available, so that threads wait in a context in which
 * another thread makes progress.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "harness.h"

/* Ms; less than the watchdog's. */
#define ROOM_TIMEOUT HG_TEST_WAIT_MS
#define ROOM_PUSHERS 3u
#define ROOM_CALLS 200u /* of each */

struct room_end {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t target;
    hg_id_t id;
    _Atomic bool stop;
    _Atomic unsigned ended;
    _Atomic unsigned refused;
};

static hg_return_t room_answer(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void room_open(struct room_end *end, const char *string)
{
    memset(end, 0, sizeof(*end));
    end->hg_class = HG_Init2(string, HG_TRUE);
    HG_CHECK(end->hg_class != NULL);
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->id = HG_Register_name(end->hg_class, "room", NULL, NULL, room_answer);
    HG_CHECK(end->id != 0);
}

static void room_close(struct room_end *end)
{
    HG_CHECK_OK(HG_Addr_free(end->hg_class, end->target));
    HG_CHECK_OK(HG_Context_destroy(end->context));
    HG_CHECK_OK(HG_Finalize2(end->hg_class));
}

/* Make progress for others, in waits that only a poke ends early. */
static void *room_drive(void *arg)
{
    struct room_end *end = (struct room_end *) arg;

    while (!atomic_load(&end->stop)) {
        hg_return_t ret = HG_Progress(end->context, ROOM_TIMEOUT);
        unsigned count = 1;

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
        while (count > 0)
            (void) HG_Trigger(end->context, 0, 100, &count);
    }
    return NULL;
}

static hg_return_t room_ended(const struct hg_cb_info *info)
{
    struct room_end *end = (struct room_end *) info->arg;

    HG_CHECK_OK(info->ret);
    atomic_fetch_add(&end->ended, 1);
    return HG_Destroy(info->info.forward.handle);
}

static hg_return_t room_stopped(const struct hg_cb_info *info)
{
    struct room_end *end = (struct room_end *) info->arg;

    HG_CHECK_OK(info->ret);
    atomic_store(&end->stop, true);
    return HG_Destroy(info->info.forward.handle);
}

static hg_return_t room_forward(struct room_end *end, hg_cb_t callback)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_return_t ret;

    HG_CHECK_OK(HG_Create(end->context, end->target, end->id, &handle));
    ret = HG_Forward2(handle, callback, end, NULL);
    if (ret != HG_SUCCESS)
        HG_CHECK_OK(HG_Destroy(handle));
    return ret;
}

static void *room_push(void *arg)
{
    struct room_end *end = (struct room_end *) arg;
    unsigned done = 0;

    while (done < ROOM_CALLS) {
        hg_return_t ret = room_forward(end, room_ended);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
        done += ret == HG_SUCCESS;
        if (ret != HG_AGAIN)
            continue;
        atomic_fetch_add(&end->refused, 1);
        HG_CHECK_OK(HG_Wait_room(end->target, ROOM_TIMEOUT));
    }
    return NULL;
}

/* Stop the thread that makes progress on an endpoint with the callback of one
 * more call, which that thread runs: it does not stop before that call has
 * completed. */
static void room_stop(struct room_end *end, pthread_t thread)
{
    HG_CHECK_OK(room_forward(end, room_stopped));
    HG_CHECK(pthread_join(thread, NULL) == 0);
}

static void room_push_all(struct room_end *end)
{
    pthread_t threads[ROOM_PUSHERS];
    unsigned i;

    for (i = 0; i < ROOM_PUSHERS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, room_push, end) == 0);
    for (i = 0; i < ROOM_PUSHERS; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    while (atomic_load(&end->ended) < ROOM_PUSHERS * ROOM_CALLS)
        (void) sched_yield();
    HG_CHECK(atomic_load(&end->refused) > 0);
    HG_CHECK_EQ_INT(end->hg_class->in_flight, 0);
    HG_CHECK_EQ_U64(end->hg_class->limits[HG_LIMIT_IN_FLIGHT].used, 0);
    HG_CHECK_EQ_U64(*hg_limit_of(end->target, HG_LIMIT_IN_FLIGHT), 0);
}

/* The target is this process: the thread that makes progress executes the
 * calls, too. */
HG_TEST(wait_room_wakes_threads_that_make_no_progress)
{
    struct room_end end;
    pthread_t driver;

    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    end.hg_class->options.max_in_flight = 1;
    HG_CHECK(pthread_create(&driver, NULL, room_drive, &end) == 0);
    room_push_all(&end);
    room_stop(&end, driver);
    room_close(&end);
}

#if HG_ENABLE_SM

/* An endpoint, and a server for which another thread makes progress, in one
 * process. */
struct room_pair {
    struct room_end end;
    struct room_end server;
    pthread_t driver;
};

static void room_open_pair(struct room_pair *pair)
{
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);

    room_open(&pair->server, "sm://");
    HG_CHECK_OK(HG_Addr_self(pair->server.hg_class, &pair->server.target));
    HG_CHECK_OK(HG_Addr_to_string(
        pair->server.hg_class, name, &size, pair->server.target));
    HG_CHECK(
        pthread_create(&pair->driver, NULL, room_drive, &pair->server) == 0);
    room_open(&pair->end, "sm://");
    HG_CHECK_OK(HG_Addr_lookup2(pair->end.hg_class, name, &pair->end.target));
}

static void room_close_pair(struct room_pair *pair)
{
    room_close(&pair->end);
    room_stop(&pair->server, pair->driver);
    room_close(&pair->server);
}

/* Waiters that make progress themselves, or find another thread doing so. */
HG_TEST(wait_room_returns_while_another_thread_makes_progress)
{
    struct room_pair pair;
    pthread_t driver;

    room_open_pair(&pair);
    pair.end.hg_class->options.max_in_flight = 1;
    HG_CHECK(pthread_create(&driver, NULL, room_drive, &pair.end) == 0);
    room_push_all(&pair.end);
    room_stop(&pair.end, driver);
    room_close_pair(&pair);
}

/* No other thread makes progress or runs callbacks. */
HG_TEST(wait_room_makes_progress_itself)
{
    struct room_pair pair;
    unsigned count = 1;

    room_open_pair(&pair);
    pair.end.hg_class->options.max_in_flight = 4;
    HG_CHECK(room_push(&pair.end) == NULL);
    HG_CHECK(atomic_load(&pair.end.refused) > 0);
    HG_CHECK_EQ_INT(atomic_load(&pair.end.ended), 0);
    while (atomic_load(&pair.end.ended) < ROOM_CALLS) {
        (void) HG_Progress(pair.end.context, 1);
        (void) HG_Trigger(pair.end.context, 0, 100, &count);
    }
    room_close_pair(&pair);
}

struct room_quota {
    struct room_end *end;
    hg_return_t ret;
};

static void *room_wait_in_vain(void *arg)
{
    struct room_quota *quota = (struct room_quota *) arg;

    quota->ret = HG_Wait_room(quota->end->target, ROOM_TIMEOUT);
    return NULL;
}

/* Wait until a thread makes progress in the context. */
static void room_await_progress(hg_context_t *context)
{
    const struct na_context_core *core =
        na_context_core_of(context->na_context);
    bool progressing;

    do {
        (void) sched_yield();
        hg_enter(context->lock);
        progressing = core->progressing;
        hg_leave(context->lock);
    } while (!progressing);
}

/* No call can be made, so a thread waits in both contexts in turn: the context
 * in which it currently waits is not destroyed, and the wait continues in any
 * case. */
static void room_end_under_a_wait(const char *string)
{
    struct room_quota quota;
    hg_context_t *second;
    struct room_end end;
    pthread_t thread;
    hg_return_t ret;

    room_open(&end, string);
    second = HG_Context_create(end.hg_class);
    HG_CHECK(second != NULL);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    end.hg_class->options.max_in_flight = 0;
    quota.end = &end;
    HG_CHECK(pthread_create(&thread, NULL, room_wait_in_vain, &quota) == 0);
    room_await_progress(end.context);
    ret = HG_Context_destroy(end.context);
    HG_CHECK(ret == HG_SUCCESS || ret == HG_BUSY);
    hg_enter(end.hg_class->lock);
    end.hg_class->options.max_in_flight = 1;
    hg_leave(end.hg_class->lock);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(quota.ret);
    if (ret == HG_BUSY)
        HG_CHECK_OK(HG_Context_destroy(end.context));
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    HG_CHECK_OK(HG_Context_destroy(second));
    HG_CHECK_RET(HG_Wait_room(end.target, 0), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(HG_Finalize2(end.hg_class));
}

HG_TEST(wait_room_keeps_its_context)
{
    hg_test_allow_log("another thread is in the context");
    hg_test_expect_log(
        "HG_Wait_room: the class has no context that forwards calls");
    room_end_under_a_wait("self://");
    if (HG_ENABLE_SM)
        room_end_under_a_wait("sm://");
}

static void *room_wait_often(void *arg)
{
    struct room_end *end = (struct room_end *) arg;

    while (!atomic_load(&end->stop))
        HG_CHECK_OK(HG_Wait_room(end->target, ROOM_TIMEOUT));
    return NULL;
}

/* A thread waits in all contexts while others are created and destroyed. */
HG_TEST(wait_room_uses_no_destroyed_context)
{
    struct room_end end;
    pthread_t thread;
    unsigned i;

    hg_test_allow_log("another thread is in the context");
    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK(pthread_create(&thread, NULL, room_wait_often, &end) == 0);
    for (i = 0; i < 300; i++) {
        hg_context_t *context = HG_Context_create(end.hg_class);
        hg_return_t ret;

        HG_CHECK(context != NULL);
        while ((ret = HG_Context_destroy(context)) == HG_BUSY)
            (void) sched_yield();
        HG_CHECK_OK(ret);
    }
    atomic_store(&end.stop, true);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    room_close(&end);
}

/* A context that was not destroyed, since it has a handle left, works as
 * before. */
HG_TEST(wait_room_works_in_a_context_whose_destruction_failed)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    struct room_end end;

    hg_test_expect_log("handles, or sends, are left");
    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK_OK(HG_Create(end.context, end.target, end.id, &handle));
    HG_CHECK_RET(HG_Context_destroy(end.context), HG_BUSY);
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    HG_CHECK_OK(HG_Destroy(handle));
    room_close(&end);
}

/* The end of each call wakes the waiting thread, which checks by itself only
 * now and then. */
HG_TEST(wait_room_returns_when_a_call_completes)
{
    struct room_end end;
    unsigned count;

    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK_OK(room_forward(&end, room_ended));
    end.context->quota_waits++; /* as if a thread waited */
    HG_CHECK(!atomic_load(&end.context->quota_changed));
    while (atomic_load(&end.ended) == 0) {
        (void) HG_Progress(end.context, 0);
        (void) HG_Trigger(end.context, 0, 100, &count);
    }
    HG_CHECK(atomic_load(&end.context->quota_changed));
    end.context->quota_waits--;
    room_close(&end);
}

/* ---- Refusals of the target ---- */

struct room_results {
    unsigned good;
    unsigned again;
    unsigned canceled;
};

static hg_return_t room_fated(const struct hg_cb_info *info)
{
    struct room_results *fates = (struct room_results *) info->arg;

    switch (info->ret) {
    case HG_SUCCESS: fates->good++; break;
    case HG_AGAIN: fates->again++; break;
    default: HG_CHECK_RET(info->ret, HG_CANCELED); fates->canceled++;
    }
    return HG_Destroy(info->info.forward.handle);
}

static void room_send(struct room_end *end, struct room_results *fates)
{
    hg_handle_t handle = HG_HANDLE_NULL;

    HG_CHECK_OK(HG_Create(end->context, end->target, end->id, &handle));
    HG_CHECK_OK(HG_Forward2(handle, room_fated, fates, NULL));
}

static void room_turn(struct room_end *end)
{
    unsigned count = 1;

    (void) HG_Progress(end->context, 0);
    while (count > 0)
        (void) HG_Trigger(end->context, 0, 100, &count);
}

static hg_return_t room_work(hg_handle_t handle)
{
    uint64_t until = hg_clock_now() + 20000; /* ns */

    while (hg_clock_now() < until)
        continue;
    return room_answer(handle);
}

/* So many calls, each when there is quota; all have completed. */
static void room_send_many(struct room_end *end, struct room_results *fates)
{
    unsigned sent;

    memset(fates, 0, sizeof(*fates));
    for (sent = 0; sent < 1000; sent++) {
        unsigned count;

        HG_CHECK_OK(HG_Wait_room(end->target, ROOM_TIMEOUT));
        room_send(end, fates);
        (void) HG_Trigger(end->context, 0, 100, &count);
    }
    while (fates->good + fates->again < sent)
        room_turn(end);
}

/* A thread that calls HG_Wait_room sends as many calls as the target accepts,
 * and few more, once the target has refused some. */
HG_TEST(wait_room_learns_the_limit_of_the_target)
{
    struct room_results fates;
    struct room_pair pair;

    room_open_pair(&pair);
    HG_CHECK(HG_Register_name(pair.server.hg_class, "room", NULL, NULL,
                 room_work) == pair.server.id);
    hg_enter(pair.server.context->lock);
    pair.server.hg_class->limits[HG_LIMIT_CALLS].max = 8;
    hg_leave(pair.server.context->lock);
    do {
        room_send_many(&pair.end, &fates);
    } while (fates.again == 0); /* it was fast enough */
    room_send_many(&pair.end, &fates);
    HG_CHECK(fates.again * 4 < fates.good);
    room_close_pair(&pair);
}

/* ---- Several peers ---- */

/* A single peer may use the whole limit; what one uses is not available to the
 * others. */
HG_TEST(wait_room_shares_the_limit_among_peers)
{
    struct room_pair pair;
    hg_addr_t other = HG_ADDR_NULL;
    struct hg_limit *limits;
    hg_addr_t target;
    unsigned first = 0;
    unsigned second = 0;
    unsigned count = 1;

    room_open_pair(&pair);
    HG_CHECK_OK(HG_Addr_self(pair.end.hg_class, &other));
    limits = pair.end.hg_class->limits;
    limits[HG_LIMIT_IN_FLIGHT].max = UINT64_C(16) * HG_LIMIT_CALL;
    target = pair.end.target;
    /* as much as a dozen calls, which none of them releases */
    hg_limit_add(
        limits, target, HG_LIMIT_IN_FLIGHT, UINT64_C(12) * HG_LIMIT_CALL);
    while (room_forward(&pair.end, room_ended) == HG_SUCCESS)
        first++;
    HG_CHECK_EQ_INT(first, 4);
    pair.end.target = other;
    while (room_forward(&pair.end, room_ended) == HG_SUCCESS)
        second++;
    HG_CHECK_EQ_INT(second, 8);
    pair.end.target = target;
    while (atomic_load(&pair.end.ended) < first + second) {
        (void) HG_Progress(pair.end.context, 1);
        (void) HG_Trigger(pair.end.context, 0, 100, &count);
    }
    HG_CHECK_OK(HG_Addr_free(pair.end.hg_class, other));
    hg_limit_give(
        limits, target, HG_LIMIT_IN_FLIGHT, UINT64_C(12) * HG_LIMIT_CALL);
    room_close_pair(&pair);
}

#endif

/* A call of any size counts with all its bytes; a single call is always
 * allowed. */
HG_TEST(wait_room_counts_bytes_beyond_32_bits)
{
    struct room_end end;
    hg_handle_t handle;
    uint64_t size = UINT64_C(1) << 33;
    struct hg_limit *limit;

    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK_OK(HG_Create(end.context, end.target, end.id, &handle));
    limit = &end.hg_class->limits[HG_LIMIT_IN_FLIGHT];
    hg_enter(end.context->lock);
    HG_CHECK_OK(hg_forward_enter(handle));
    HG_CHECK(hg_forward_grow(handle, size));
    HG_CHECK_EQ_U64(limit->used, size + HG_LIMIT_CALL);
    hg_leave(end.context->lock);
    HG_CHECK_RET(room_forward(&end, room_ended), HG_AGAIN);
    locked_forward_forget(handle);
    HG_CHECK_EQ_U64(limit->used, 0);
    HG_CHECK_OK(HG_Destroy(handle));
    room_close(&end);
}
