/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the callback model: several in one context, several contexts of a
 * class at once, and callbacks that run in another thread than the one that
 * started their operation.
 */
#include "cb.h"

#include <poll.h>

#define THREADS_COUNT 4

static hg_id_t threads_inc_id, threads_later_id;

/* Respond in a separate thread; for an odd number it destroys the handle
 * without a response. */
static void *threads_answer(void *arg)
{
    hg_handle_t handle = (hg_handle_t) arg;
    cb_one_t value;

    HG_CHECK_OK(HG_Get_input(handle, &value));
    HG_CHECK_OK(HG_Free_input(handle, &value));
    if (value.value % 2 == 0) {
        value.value++;
        HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &value));
    }
    HG_CHECK_OK(HG_Destroy(handle));
    return NULL;
}

static hg_return_t threads_later(hg_handle_t handle)
{
    pthread_t thread;

    HG_CHECK(pthread_create(&thread, NULL, threads_answer, handle) == 0);
    HG_CHECK(pthread_detach(thread) == 0);
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    threads_inc_id =
        MERCURY_REGISTER(hg_class, "inc", cb_one_t, cb_one_t, cb_inc);
    threads_later_id =
        MERCURY_REGISTER(hg_class, "later", cb_one_t, cb_one_t, threads_later);
    HG_CHECK(threads_later_id != 0);
}

/* Make progress until `flag` is set, while other threads do so, too. */
static void threads_turn_until(
    hg_context_t *context, const _Atomic unsigned *flag)
{
    while (atomic_load(flag) == 0)
        (void) cb_turn(context, 1);
}

/* A thread that makes calls. */
struct threads_caller {
    const struct cb_end *end;
    hg_context_t *context;
    uint8_t target_id;
    hg_id_t id;
    pthread_t thread;
};

static void *threads_call(void *arg)
{
    enum { CALLS = 150 };
    const struct threads_caller *caller = (const struct threads_caller *) arg;
    struct cb_call call;
    hg_handle_t handle;
    cb_one_t one = {0};
    int i;

    HG_CHECK_OK(
        HG_Create(caller->context, caller->end->target, caller->id, &handle));
    HG_CHECK_OK(HG_Set_target_id(handle, caller->target_id));
    for (i = 0; i < CALLS; i++) {
        HG_CHECK_OK(cb_forward(&call, handle, &one));
        threads_turn_until(caller->context, &call.ends);
        HG_CHECK_OK(call.ret);
        HG_CHECK_OK(HG_Get_output(handle, &one));
        HG_CHECK_OK(HG_Free_output(handle, &one));
        HG_CHECK_EQ_INT(one.value, i + 1);
    }
    HG_CHECK_OK(HG_Destroy(handle));
    return NULL;
}

static void threads_run(struct threads_caller *callers, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++)
        HG_CHECK(pthread_create(
                     &callers[i].thread, NULL, threads_call, &callers[i]) == 0);
    for (i = 0; i < count; i++)
        HG_CHECK(pthread_join(callers[i].thread, NULL) == 0);
}

HG_TEST(threads_progress_and_trigger_one_context)
{
    struct threads_caller callers[THREADS_COUNT];
    struct cb_end end;
    unsigned i;

    cb_open(&end);
    for (i = 0; i < THREADS_COUNT; i++) {
        callers[i].end = &end;
        callers[i].context = end.context;
        callers[i].target_id = 0;
        callers[i].id = threads_inc_id;
    }
    threads_run(callers, THREADS_COUNT);
    cb_close(&end);
}

/* Each thread has its own context, and its own context at the target. */
HG_TEST(contexts_of_a_class_run_in_parallel)
{
    struct threads_caller callers[3];
    struct hg_diag_counters counters;
    struct cb_end end;
    unsigned i;

    cb_open_with(&end, 3);
    for (i = 0; i < 3; i++) {
        callers[i].end = &end;
        callers[i].context = end.contexts[i];
        callers[i].target_id = (uint8_t) i;
        callers[i].id = threads_inc_id;
    }
    threads_run(callers, 3);
    HG_CHECK_OK(HG_Class_get_counters(end.hg_class, &counters));
    HG_CHECK_EQ_U64(counters.rpc_req_sent_count, 450);
    HG_CHECK_EQ_U64(counters.rpc_resp_recv_count, 450);
    cb_close(&end);
}

/* ---- One thread makes progress, a pool triggers ---- */

struct threads_pool {
    hg_context_t *context;
    _Atomic unsigned stop;
    _Atomic unsigned ended;
    _Atomic int sum;
};

static void *threads_progress(void *arg)
{
    struct threads_pool *pool = (struct threads_pool *) arg;

    while (atomic_load(&pool->stop) == 0) {
        hg_return_t ret = HG_Progress(pool->context, 20);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    return NULL;
}

static void *threads_trigger(void *arg)
{
    struct threads_pool *pool = (struct threads_pool *) arg;

    while (atomic_load(&pool->stop) == 0)
        (void) cb_trigger(pool->context, 20, 3);
    return NULL;
}

/* No other code uses the handle: it is destroyed here, perhaps before its
 * HG_Forward has returned. */
static hg_return_t threads_ended(const struct hg_cb_info *info)
{
    struct threads_pool *pool = (struct threads_pool *) info->arg;
    hg_handle_t handle = info->info.forward.handle;
    cb_one_t one;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Get_output(handle, &one));
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_OK(HG_Destroy(handle));
    atomic_fetch_add(&pool->sum, one.value);
    atomic_fetch_add(&pool->ended, 1);
    return HG_SUCCESS;
}

HG_TEST(progress_in_one_thread_and_trigger_in_a_pool)
{
    enum { COUNT = 400 };
    struct threads_pool pool;
    pthread_t threads[THREADS_COUNT];
    struct cb_end end;
    cb_one_t one;
    unsigned i;
    int want = 0;

    memset(&pool, 0, sizeof(pool));
    cb_open(&end);
    pool.context = end.context;
    for (i = 0; i < THREADS_COUNT; i++)
        HG_CHECK(pthread_create(&threads[i], NULL,
                     i == 0 ? threads_progress : threads_trigger, &pool) == 0);
    for (one.value = 0; one.value < COUNT; one.value++) {
        HG_CHECK_OK(HG_Forward(
            cb_new_handle(&end, threads_inc_id), threads_ended, &pool, &one));
        want += one.value + 1;
    }
    while (atomic_load(&pool.ended) < COUNT)
        (void) poll(NULL, 0, 1);
    HG_CHECK_EQ_INT(pool.sum, want);
    atomic_store(&pool.stop, 1);
    for (i = 0; i < THREADS_COUNT; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    HG_CHECK_EQ_INT(pool.ended, COUNT);
    cb_close(&end);
}

/* ---- Responses and cancellations from other threads ---- */

HG_TEST(calls_are_answered_by_other_threads)
{
    enum { COUNT = 60 };
    static struct cb_call calls[COUNT];
    struct cb_end end;
    cb_one_t one;
    int i;

    cb_open(&end);
    for (i = 0; i < COUNT; i++) {
        one.value = i;
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, threads_later_id), &one));
    }
    for (i = 0; i < COUNT; i++) {
        threads_turn_until(end.context, &calls[i].ends);
        HG_CHECK_RET(calls[i].ret, i % 2 == 0 ? HG_SUCCESS : HG_CANCELED);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    cb_close(&end);
}

/* Cancels the handles it is given. */
struct threads_canceler {
    _Atomic(hg_handle_t) handle; /* NULL: the last one was canceled */
    _Atomic unsigned stop;
};

static void *threads_cancel(void *arg)
{
    struct threads_canceler *canceler = (struct threads_canceler *) arg;

    while (atomic_load(&canceler->stop) == 0) {
        hg_handle_t handle = atomic_load(&canceler->handle);

        if (handle == NULL) {
            (void) sched_yield();
            continue;
        }
        HG_CHECK_OK(HG_Cancel(handle));
        atomic_store(&canceler->handle, NULL);
    }
    return NULL;
}

HG_TEST(cancel_and_answer_race_for_a_call)
{
    enum { COUNT = 300 };
    struct threads_canceler canceler;
    struct cb_call call;
    struct cb_end end;
    pthread_t thread;
    hg_handle_t handle;
    cb_one_t one = {1};
    int i;

    cb_open(&end);
    atomic_init(&canceler.handle, NULL);
    atomic_init(&canceler.stop, 0);
    HG_CHECK(pthread_create(&thread, NULL, threads_cancel, &canceler) == 0);
    handle = cb_new_handle(&end, threads_inc_id);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(cb_forward(&call, handle, &one));
        atomic_store(&canceler.handle, handle);
        threads_turn_until(end.context, &call.ends);
        HG_CHECK(call.ret == HG_SUCCESS || call.ret == HG_CANCELED);
        while (atomic_load(&canceler.handle) != NULL)
            (void) sched_yield();
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    }
    atomic_store(&canceler.stop, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

static _Atomic bool threads_ending;

static void *threads_wait_for_wake(void *arg)
{
    while (!atomic_load(&threads_ending)) { /* HG_MAX_IDLE_TIME is an hour */
        hg_return_t ret = HG_Progress((hg_context_t *) arg, HG_MAX_IDLE_TIME);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    return NULL;
}

/* HG_Wake ends the waits of all threads, whether they wait or are about to. */
HG_TEST(wake_ends_progress_in_all_threads)
{
    pthread_t threads[3];
    struct cb_end end;
    unsigned i, round;

    cb_start(&end, 1);
    for (round = 0; round < 20; round++) {
        atomic_store(&threads_ending, false);
        for (i = 0; i < 3; i++)
            HG_CHECK(pthread_create(&threads[i], NULL, threads_wait_for_wake,
                         end.context) == 0);
        for (i = 0; i < round * 5; i++)
            (void) sched_yield();
        atomic_store(&threads_ending, true);
        HG_Wake(end.context);
        for (i = 0; i < 3; i++)
            HG_CHECK(pthread_join(threads[i], NULL) == 0);
    }
    cb_end(&end);
}
