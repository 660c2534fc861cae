/* SPDX-License-Identifier: BSD-3-Clause */
/* wait: see wait.h. */
#include "hg/wait.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/waker.h"
#include "na/context.h"
#include "na/progress.h"

/* Handlers that may be running inside each other in one thread. */
#define HG_WAIT_DEPTH_MAX 16

/* Completions run before the role is handed on. */
#define HG_WAIT_BATCH 64

/* What a thread sleeps on, unless it drives. */
struct hg_wait_waiter {
    struct hg_nap nap;
    const bool *done; /* its request's flag; NULL: any event */
    bool calls;       /* runs handlers */
};

struct hg_wait_state {
    pthread_mutex_t lock;
    bool driving;     /* a thread has the role */
    bool watching;    /* and returns from progress for queued calls */
    unsigned servers; /* sleepers that run handlers */
    struct na_link waiters;
};

/* The waits of this process. */
static struct hg_wait_state hg_wait_state = {PTHREAD_MUTEX_INITIALIZER, false,
    false, 0, {&hg_wait_state.waiters, &hg_wait_state.waiters}};

/* Handlers running in this thread. */
static _Thread_local unsigned hg_wait_depth;

HG_PRIVATE void hg_wait_lock(void)
{
    hg_lock(&hg_wait_state.lock);
}

HG_PRIVATE void hg_wait_unlock(void)
{
    hg_unlock(&hg_wait_state.lock);
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
    return timeout == 0 ? 0 : hg_clock_after_ms(timeout);
}

static struct hg_wait_waiter *hg_wait_waiter_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct hg_wait_waiter, nap.link);
}

HG_PRIVATE void hg_wait_raise(bool *done)
{
    struct na_link *link;

    *done = true;
    for (link = hg_wait_state.waiters.next; link != &hg_wait_state.waiters;
         link = link->next) {
        if (hg_wait_waiter_of(link)->done == done)
            hg_waker_wake(&hg_wait_waiter_of(link)->nap);
    }
}

/* If the role is free, wake a sleeper, who takes it over. Whoever leaves a
 * wait does this too: it may have been woken for the role, and not need it
 * any more. Lock held. */
static void hg_wait_hand_on(void)
{
    struct na_link *first = hg_wait_state.waiters.next;

    if (!hg_wait_state.driving && first != &hg_wait_state.waiters)
        hg_waker_wake(&hg_wait_waiter_of(first)->nap);
}

/* A call is queued: wake a sleeper that runs handlers. Lock held. */
static void hg_wait_wake_server(void)
{
    struct na_link *link;

    for (link = hg_wait_state.waiters.next; link != &hg_wait_state.waiters;
         link = link->next) {
        if (hg_wait_waiter_of(link)->calls) {
            hg_waker_wake(&hg_wait_waiter_of(link)->nap);
            return;
        }
    }
}

/* Sleep until woken, `deadline` or a signal; lock held. */
static hg_return_t hg_wait_sleep(
    struct hg_context *context, const bool *done, bool calls, uint64_t deadline)
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
        &waiter.nap, &hg_wait_state.waiters, &hg_wait_state.lock, deadline);
    if (calls)
        hg_wait_state.servers--;
    return ret;
}

static bool hg_wait_has_calls(struct hg_context *context)
{
    return na_queue_has(context->queue, 1u << NA_LANE_CALL);
}

/* Run queued calls, at most `max` and none more once `deadline` is there,
 * counting the depth; the number run. Lock held, and free meanwhile. */
static unsigned hg_wait_run_calls(
    struct hg_context *context, unsigned max, uint64_t deadline)
{
    unsigned n = 0;

    hg_wait_hand_on(); /* progress goes on without us */
    hg_wait_unlock();
    hg_wait_depth++;
    while (na_context_run(context->na_context, 1u << NA_LANE_CALL, 1) > 0 &&
        ++n < max && hg_clock_now() < deadline)
        continue;
    hg_wait_depth--;
    hg_wait_lock();
    return n;
}

/* Drive for one round: progress, then run what completed. Adds to *events_p.
 * Lock held and role free, before and after. */
static hg_return_t hg_wait_drive(struct hg_context *context, bool calls,
    uint64_t deadline, unsigned *events_p)
{
    hg_return_t ret;

    assert(!hg_wait_state.driving);
    hg_wait_state.driving = true;
    hg_wait_state.watching = calls || hg_wait_state.servers > 0;
    hg_wait_unlock();
    ret = hg_context_progress(context,
        hg_wait_state.watching ? NA_LANES_ALL : NA_LANES_DONE, deadline);
    *events_p +=
        na_context_run(context->na_context, NA_LANES_DONE, HG_WAIT_BATCH);
    hg_wait_lock();
    if (!calls && hg_wait_has_calls(context))
        hg_wait_wake_server();
    hg_wait_state.driving = false;
    return ret;
}

HG_PRIVATE hg_return_t hg_wait_until(
    struct hg_context *context, const bool *done, bool calls, uint64_t deadline)
{
    unsigned max = done != NULL ? 1 : HG_WAIT_BATCH;
    hg_return_t ret = HG_SUCCESS;
    unsigned events = 0;
    bool looked = false; /* for news, since the beginning */

    for (;;) {
        if (done != NULL && *done) {
            ret = HG_SUCCESS;
            break;
        }
        if (calls && ret != HG_INTR && hg_wait_has_calls(context))
            events += hg_wait_run_calls(context, max, deadline);
        if (done != NULL ? *done : events > 0) {
            ret = HG_SUCCESS;
            break;
        }
        /* Calls that keep coming do not put off the end. */
        if (ret == HG_SUCCESS && looked && hg_clock_now() >= deadline)
            ret = HG_TIMEOUT;
        if (ret != HG_SUCCESS)
            break;
        if (!hg_wait_state.driving)
            ret = hg_wait_drive(context, calls, deadline, &events);
        else if (!calls || !hg_wait_has_calls(context))
            ret = hg_wait_sleep(context, done, calls, deadline);
        looked = true;
    }
    hg_wait_hand_on();
    return ret;
}
