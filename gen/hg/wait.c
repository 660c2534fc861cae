/* SPDX-License-Identifier: BSD-3-Clause */
/* wait: see wait.h. */
#include "hg/wait.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/waker.h"
#include "na/progress.h"

/* Completions run before the role is handed on. */
#define HG_WAIT_BATCH 64

/* Waits that end without a look for news of others, one after the other, and
 * for how long. */
#define HG_WAIT_BLIND 16
#define HG_WAIT_BLIND_NS HG_CLOCK_MS

/* What a thread sleeps on, unless it drives. */
struct hg_wait_waiter {
    struct hg_nap nap;
    const _Atomic bool *done; /* its request's flag; NULL: any event */
    bool calls;               /* runs handlers */
};

struct hg_wait_state {
    pthread_mutex_t lock;      /* of `waiters` */
    _Atomic bool driving;      /* a thread has the role */
    _Atomic bool watching;     /* and returns from progress for queued calls */
    _Atomic unsigned sleepers; /* those who sleep, or are about to */
    _Atomic unsigned servers;  /* those of them that run handlers */
    struct na_link waiters;
    unsigned blind; /* rounds since the last look for news; the driver's */
    _Atomic uint64_t now;    /* when the last wait with a timeout began */
    _Atomic uint64_t looked; /* what that was at the last look */
};

/* The waits of this process. */
static struct hg_wait_state hg_wait_state = {PTHREAD_MUTEX_INITIALIZER, false,
    false, 0, 0, {&hg_wait_state.waiters, &hg_wait_state.waiters}, 0, 0, 0};

/* Handlers running in this thread. */
static _Thread_local unsigned hg_wait_depth;

/* Whether this thread makes progress for all. A proc or hook that it runs
 * meanwhile must not wait, since no other thread makes progress. */
static _Thread_local bool hg_wait_driver;

HG_PRIVATE bool hg_wait_is_driver(void)
{
    return hg_wait_driver;
}

HG_PRIVATE bool hg_wait_in_handler(void)
{
    return hg_wait_depth > 0;
}

HG_PRIVATE bool hg_wait_may_run(void)
{
    return hg_wait_depth < HG_WAIT_DEPTH_MAX;
}

HG_PRIVATE uint64_t hg_wait_deadline(unsigned timeout)
{
    uint64_t now;

    if (timeout == 0)
        return 0;
    now = hg_clock_now();
    atomic_store_explicit(&hg_wait_state.now, now, memory_order_relaxed);
    return now + (uint64_t) timeout * HG_CLOCK_MS;
}

HG_PRIVATE bool hg_wait_wants_news(uint64_t deadline)
{
    return deadline == 0 ||
        atomic_load_explicit(&hg_wait_state.now, memory_order_relaxed) -
            atomic_load_explicit(&hg_wait_state.looked, memory_order_relaxed) >=
        HG_WAIT_BLIND_NS;
}

static struct hg_wait_waiter *hg_wait_waiter_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct hg_wait_waiter, nap.link);
}

HG_PRIVATE HG_HOT void hg_wait_raise(_Atomic bool *done)
{
    struct na_link *link;

    atomic_store(done, true);
    if (atomic_load(&hg_wait_state.sleepers) == 0)
        return;
    hg_lock(&hg_wait_state.lock);
    for (link = hg_wait_state.waiters.next; link != &hg_wait_state.waiters;
         link = link->next) {
        if (hg_wait_waiter_of(link)->done == done)
            hg_waker_wake(&hg_wait_waiter_of(link)->nap);
    }
    hg_unlock(&hg_wait_state.lock);
}

/* If the role is free, wake a sleeper, who takes it over. Whoever leaves a
 * wait does this too: it may have been woken for the role, and not need it
 * any more. */
static HG_HOT void hg_wait_hand_on(void)
{
    struct na_link *first;

    if (atomic_load(&hg_wait_state.sleepers) == 0 ||
        atomic_load(&hg_wait_state.driving))
        return;
    hg_lock(&hg_wait_state.lock);
    first = hg_wait_state.waiters.next;
    if (first != &hg_wait_state.waiters)
        hg_waker_wake(&hg_wait_waiter_of(first)->nap);
    hg_unlock(&hg_wait_state.lock);
}

HG_PRIVATE void hg_wait_tell_depth(void)
{
    static _Atomic uint64_t waits;
    uint64_t count =
        atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed) + 1;

    if ((count & (count - 1)) == 0)
        hg_log_error("rpc",
            "a call is left to another thread, if there is one: in this one %d "
            "handlers wait inside each other, and it runs no more",
            HG_WAIT_DEPTH_MAX);
}

/* A call is queued: wake a sleeper that runs handlers. */
static void hg_wait_wake_server(void)
{
    struct na_link *link;

    if (atomic_load(&hg_wait_state.servers) == 0)
        return;
    hg_lock(&hg_wait_state.lock);
    link = hg_wait_state.waiters.next;
    while (link != &hg_wait_state.waiters && !hg_wait_waiter_of(link)->calls)
        link = link->next;
    if (link != &hg_wait_state.waiters)
        hg_waker_wake(&hg_wait_waiter_of(link)->nap);
    hg_unlock(&hg_wait_state.lock);
}

static bool hg_wait_has_calls(struct hg_context *context)
{
    return na_queue_has(context->queue, 1u << NA_LANE_CALL);
}

/* Whether a thread that counts as a sleeper has nothing better to do. */
static bool hg_wait_may_sleep(
    struct hg_context *context, const _Atomic bool *done, bool calls)
{
    return (done == NULL || !atomic_load(done)) &&
        atomic_load(&hg_wait_state.driving) &&
        !(calls && hg_wait_has_calls(context));
}

/* Sleep until woken, `deadline` or a signal. */
static hg_return_t hg_wait_sleep(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline)
{
    struct hg_wait_waiter waiter;
    hg_return_t ret = HG_SUCCESS;

    if (deadline == 0)
        return HG_TIMEOUT;
    waiter.done = done;
    waiter.calls = calls;
    hg_lock(&hg_wait_state.lock);
    atomic_fetch_add(&hg_wait_state.sleepers, 1);
    if (calls) {
        atomic_fetch_add(&hg_wait_state.servers, 1);
        if (!hg_wait_state.watching) /* let the driver look for calls */
            na_progress_poke(context->na_context);
    }
    /* The lock is held until the nap is on the list, or not needed. */
    if (hg_wait_may_sleep(context, done, calls))
        ret = hg_waker_nap(
            &waiter.nap, &hg_wait_state.waiters, &hg_wait_state.lock, deadline);
    if (calls)
        atomic_fetch_sub(&hg_wait_state.servers, 1);
    atomic_fetch_sub(&hg_wait_state.sleepers, 1);
    hg_unlock(&hg_wait_state.lock);
    return ret;
}

/* Run queued calls, at most `max` and none more once `deadline` is there,
 * counting the depth; the number run. */
static unsigned hg_wait_run_calls(
    struct hg_context *context, unsigned max, uint64_t deadline)
{
    unsigned n;

    hg_wait_hand_on(); /* progress goes on without us */
    hg_wait_depth++;
    n = na_queue_run_lane(context->queue, NA_LANE_CALL, max, deadline);
    hg_wait_depth--;
    return n;
}

/* Say whether calls are watched for; the role is ours. Nobody else does, so
 * what is said already need not be said again. */
static void hg_wait_watch(bool watching)
{
    if (atomic_load(&hg_wait_state.watching) != watching)
        atomic_store(&hg_wait_state.watching, watching);
}

/* Progress, until there is something for this thread or another. */
static hg_return_t hg_wait_progress(
    struct hg_context *context, bool calls, uint64_t deadline)
{
    bool watching;

    /* Either we see who sleeps for calls now, or it sees that we do not watch,
     * and pokes us: also if that was so before. */
    hg_wait_watch(calls);
    watching = calls || atomic_load(&hg_wait_state.servers) > 0;
    hg_wait_watch(watching);
    return hg_context_progress(
        context, watching ? NA_LANES_ALL : NA_LANES_DONE, deadline);
}

/* Whether a wait has what it waits for: its flag, or without one any event. */
static bool hg_wait_is_over(const _Atomic bool *done, unsigned events)
{
    return done != NULL ? atomic_load(done) : events > 0;
}

/* Run what completed; the number run. The role is ours, and with it the lane
 * DONE. */
static unsigned hg_wait_run_done(struct hg_context *context)
{
    return na_queue_run_alone(context->queue, NA_LANE_DONE, HG_WAIT_BATCH);
}

/* Run what completed already, as calls to oneself have; whether the wait is
 * over with that, without a look for news of others: not for ever. The role is
 * ours. */
static bool hg_wait_need_not_look(struct hg_context *context,
    const _Atomic bool *done, uint64_t deadline, unsigned *events_p)
{
    if (!na_queue_has(context->queue, NA_LANES_DONE))
        return false;
    *events_p += hg_wait_run_done(context);
    return hg_wait_is_over(done, *events_p) &&
        ++hg_wait_state.blind < HG_WAIT_BLIND && !hg_wait_wants_news(deadline);
}

/* Drive for one round: progress, then run what completed, which adds to
 * *events_p. The role is ours, and free on return. */
static hg_return_t hg_wait_drive(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline, unsigned *events_p)
{
    hg_return_t ret = HG_SUCCESS;

    assert(atomic_load(&hg_wait_state.driving));
    hg_wait_driver = true;
    if (!hg_wait_need_not_look(context, done, deadline, events_p)) {
        /* What it waits for may be there all the same. */
        if (hg_wait_is_over(done, *events_p))
            deadline = 0;
        hg_wait_state.blind = 0;
        atomic_store_explicit(&hg_wait_state.looked,
            atomic_load_explicit(&hg_wait_state.now, memory_order_relaxed),
            memory_order_relaxed);
        ret = hg_wait_progress(context, calls, deadline);
        *events_p += hg_wait_run_done(context);
    }
    if (!calls && hg_wait_has_calls(context))
        hg_wait_wake_server();
    hg_wait_driver = false;
    atomic_store(&hg_wait_state.driving, false);
    return ret;
}

/* Whether a call waits for a thread, and this one, the only one, has reached
 * the limit of nested handlers. */
static bool hg_wait_is_stuck(struct hg_context *context)
{
    return !hg_wait_may_run() && hg_wait_has_calls(context) &&
        atomic_load(&hg_wait_state.servers) == 0;
}

HG_PRIVATE HG_NOINLINE hg_return_t hg_wait_refuse(void)
{
    hg_log_error("rpc",
        "a wait inside the proc of an output, or a hook, is refused: this "
        "thread makes progress and would wait for itself");
    return HG_BUSY;
}

HG_PRIVATE hg_return_t hg_wait_until(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline)
{
    unsigned max = done != NULL ? 1 : HG_WAIT_BATCH;
    hg_return_t ret = HG_SUCCESS;
    unsigned events = 0;
    bool looked = false; /* for news, since the beginning */
    bool told = false;   /* that it is stuck */

    for (;;) {
        if (done != NULL && atomic_load(done)) {
            ret = HG_SUCCESS;
            break;
        }
        if (HG_UNLIKELY(hg_wait_driver))
            return hg_wait_refuse();
        if (calls && ret != HG_INTR && hg_wait_has_calls(context))
            events += hg_wait_run_calls(context, max, deadline);
        if (hg_wait_is_over(done, events)) {
            ret = HG_SUCCESS;
            break;
        }
        /* Calls that keep coming do not put off the end. */
        if (ret == HG_SUCCESS && looked && hg_clock_now() >= deadline)
            ret = HG_TIMEOUT;
        if (ret != HG_SUCCESS)
            break;
        if (!atomic_exchange(&hg_wait_state.driving, true))
            ret = hg_wait_drive(context, done, calls, deadline, &events);
        else
            ret = hg_wait_sleep(context, done, calls, deadline);
        looked = true;
        if (!calls && !told && hg_wait_is_stuck(context)) {
            hg_wait_tell_depth();
            told = true;
        }
    }
    hg_wait_hand_on();
    return ret;
}
