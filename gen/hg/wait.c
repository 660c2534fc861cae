/* SPDX-License-Identifier: BSD-3-Clause */
/* wait: see wait.h. */
#include "hg/wait.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
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

/* The waits of this process, which has one layer at a time. */
struct hg_wait_state {
    unsigned waits;   /* threads in hg_wait_until */
    bool driving;     /* one of them has the role */
    bool watching;    /* and returns from progress for queued calls */
    unsigned servers; /* those who sleep and run handlers */
    struct na_link waiters;
    unsigned blind;          /* rounds since the last look for news */
    _Atomic uint64_t now;    /* when the last wait with a timeout began */
    _Atomic uint64_t looked; /* what that was at the last look */
};

static struct hg_wait_state hg_wait_state = {0, false, false, 0,
    {&hg_wait_state.waiters, &hg_wait_state.waiters}, 0, 0, 0};

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

HG_PRIVATE bool hg_wait_is_any(void)
{
    return hg_wait_state.waits > 0;
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

HG_PRIVATE HG_HOT void hg_wait_raise(
    const struct hg_context *context, _Atomic bool *done)
{
    struct na_link *link;

    hg_enter(context->lock);
    atomic_store_explicit(done, true, memory_order_release);
    for (link = hg_wait_state.waiters.next; link != &hg_wait_state.waiters;
         link = link->next) {
        if (hg_wait_waiter_of(link)->done == done)
            hg_waker_wake(&hg_wait_waiter_of(link)->nap);
    }
    hg_leave(context->lock);
}

/* If the role is free, wake a sleeper, who takes it over. Whoever leaves a
 * wait does this too: it may have been woken for the role, and not need it
 * any more. */
static HG_HOT void hg_wait_hand_on(void)
{
    if (!hg_wait_state.driving && !hg_list_is_empty(&hg_wait_state.waiters))
        hg_waker_wake(&hg_wait_waiter_of(hg_wait_state.waiters.next)->nap);
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

    if (hg_wait_state.servers == 0)
        return;
    link = hg_wait_state.waiters.next;
    while (link != &hg_wait_state.waiters && !hg_wait_waiter_of(link)->calls)
        link = link->next;
    if (link != &hg_wait_state.waiters)
        hg_waker_wake(&hg_wait_waiter_of(link)->nap);
}

static bool hg_wait_has_calls(const struct hg_context *context)
{
    return na_queue_has(context->queue, 1u << NA_LANE_CALL);
}

/* Sleep until woken, `deadline` or a signal. */
static hg_return_t hg_wait_sleep(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline)
{
    struct hg_wait_waiter waiter;
    hg_return_t ret;

    if (deadline == 0)
        return HG_TIMEOUT;
    waiter.done = done;
    waiter.calls = calls;
    if (calls) {
        hg_wait_state.servers++;
        if (!hg_wait_state.watching) /* let the driver look for calls */
            na_progress_poke(context->na_context);
    }
    ret = hg_waker_nap(
        &waiter.nap, &hg_wait_state.waiters, context->lock, deadline);
    if (calls)
        hg_wait_state.servers--;
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
    n = na_queue_run(context->queue, 1u << NA_LANE_CALL, max, deadline);
    hg_wait_depth--;
    return n;
}

/* Whether a wait has what it waits for: its flag, or without one any event. */
static bool hg_wait_is_over(const _Atomic bool *done, unsigned events)
{
    return done != NULL ? atomic_load_explicit(done, memory_order_acquire)
                        : events > 0;
}

/* Run what completed; the number run. The role is ours. */
static unsigned hg_wait_run_done(struct hg_context *context)
{
    return na_queue_run(
        context->queue, NA_LANES_DONE, HG_WAIT_BATCH, HG_CLOCK_NEVER);
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
 * *events_p. */
static hg_return_t hg_wait_drive(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline, unsigned *events_p)
{
    hg_return_t ret = HG_SUCCESS;

    assert(!hg_wait_state.driving);
    hg_wait_state.driving = true;
    hg_wait_driver = true;
    if (!hg_wait_need_not_look(context, done, deadline, events_p)) {
        /* What it waits for may be there all the same. */
        if (hg_wait_is_over(done, *events_p))
            deadline = 0;
        hg_wait_state.blind = 0;
        atomic_store_explicit(&hg_wait_state.looked,
            atomic_load_explicit(&hg_wait_state.now, memory_order_relaxed),
            memory_order_relaxed);
        hg_wait_state.watching = calls || hg_wait_state.servers > 0;
        ret = hg_context_progress(context,
            hg_wait_state.watching ? NA_LANES_ALL : NA_LANES_DONE, deadline);
        *events_p += hg_wait_run_done(context);
    }
    if (!calls && hg_wait_has_calls(context))
        hg_wait_wake_server();
    hg_wait_driver = false;
    hg_wait_state.driving = false;
    return ret;
}

/* Whether a call waits for a thread, and this one, the only one, has reached
 * the limit of nested handlers. */
static bool hg_wait_is_stuck(const struct hg_context *context)
{
    return !hg_wait_may_run() && hg_wait_has_calls(context) &&
        hg_wait_state.servers == 0;
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

    hg_wait_state.waits++;
    for (;;) {
        if (done != NULL && hg_wait_is_over(done, 0)) {
            ret = HG_SUCCESS;
            break;
        }
        if (looked && !hg_wait_is_over(done, events) &&
            !(calls && hg_wait_has_calls(context)))
            hg_pass(context->lock);
        if (HG_UNLIKELY(hg_wait_driver)) {
            ret = hg_wait_refuse();
            break;
        }
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
        if (!hg_wait_state.driving)
            ret = hg_wait_drive(context, done, calls, deadline, &events);
        else if (!(calls && hg_wait_has_calls(context)))
            ret = hg_wait_sleep(context, done, calls, deadline);
        looked = true;
        if (!calls && !told && hg_wait_is_stuck(context)) {
            hg_wait_tell_depth();
            told = true;
        }
    }
    hg_wait_state.waits--;
    hg_wait_hand_on();
    return ret;
}
