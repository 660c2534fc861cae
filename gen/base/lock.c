/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: mutexes and condition variables on the monotonic clock.
 *
 * Condition variables wait on the clock that deadlines are made of, so that
 * setting the wall clock neither shortens nor stretches a wait.
 */
#include "base/lock.h"

#include "base/clock.h"
#include "base/log.h"

/* A mutex is held for a few instructions, but who holds it may not run. */
#define HG_LOCK_TRIES 1000

HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_init(mutex, NULL);

    if (rc != 0) {
        hg_log_error("lock", "pthread_mutex_init: %s", strerror(rc));
        return HG_NOMEM;
    }
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_lock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc;

    rc = pthread_condattr_init(&attr);
    if (rc != 0)
        goto error;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    if (rc != 0)
        goto error;
    return HG_SUCCESS;

error:
    hg_log_error("lock", "pthread_cond_init: %s", strerror(rc));
    return HG_NOMEM;
}

HG_PRIVATE bool hg_lock_try(pthread_mutex_t *mutex)
{
    int tries;

    for (tries = 0; tries < HG_LOCK_TRIES; tries++) {
        if (pthread_mutex_trylock(mutex) == 0)
            return true;
        (void) sched_yield();
    }
    return false;
}

HG_PRIVATE bool hg_lock_wait_until(
    pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct timespec until;
    int rc;

    if (deadline == HG_CLOCK_NEVER) {
        rc = pthread_cond_wait(cond, mutex);
        assert(rc == 0);
        return true;
    }
    until.tv_sec = (time_t) (deadline / 1000000000u);
    until.tv_nsec = (long) (deadline % 1000000000u);
    rc = pthread_cond_timedwait(cond, mutex, &until);
    assert(rc == 0 || rc == ETIMEDOUT);
    return rc != ETIMEDOUT;
}

/* ---- The lock of a class ---- */

#if HG_SPLIT
_Thread_local unsigned hg_monitor_entered;
#endif

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor)
{
    atomic_init(&monitor->owner, NULL);
    atomic_init(&monitor->wanted, 0);
    monitor->depth = 0;
    return hg_lock_init(&monitor->mutex);
}

HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor)
{
    assert(atomic_load(&monitor->wanted) == 0);
    pthread_mutex_destroy(&monitor->mutex);
}

HG_PRIVATE HG_NOINLINE void hg_monitor_await(struct hg_monitor *monitor)
{
    int tries = HG_LOCK_TRIES;

    atomic_fetch_add(&monitor->wanted, 1);
    while (tries > 0 && pthread_mutex_trylock(&monitor->mutex) != 0) {
        tries--;
        hg_clock_relax();
    }
    if (tries == 0)
        hg_lock(&monitor->mutex);
    atomic_fetch_sub(&monitor->wanted, 1);
}

HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor)
{
    if (!hg_is_inside(monitor)) {
        if (!hg_lock_try(&monitor->mutex))
            return false;
        atomic_store_explicit(
            &monitor->owner, &hg_monitor_entered, memory_order_relaxed);
    }
    hg_monitor_note(1);
    monitor->depth++;
    return true;
}

HG_PRIVATE void hg_reenter(struct hg_monitor *monitor)
{
    int tries;

    for (tries = 0; tries < HG_LOCK_TRIES &&
         atomic_load_explicit(&monitor->wanted, memory_order_relaxed) > 0;
         tries++)
        (void) sched_yield();
    hg_enter(monitor);
}

HG_PRIVATE void hg_pass(struct hg_monitor *monitor)
{
    assert(monitor->depth == 1);
    hg_clock_relax();
    if (HG_LIKELY(
            atomic_load_explicit(&monitor->wanted, memory_order_relaxed) == 0))
        return;
    hg_leave(monitor);
    hg_reenter(monitor);
}

HG_PRIVATE bool hg_monitor_wait_until(
    struct hg_monitor *monitor, pthread_cond_t *cond, uint64_t deadline)
{
    unsigned depth = monitor->depth;
    bool in_time;

    assert(hg_is_inside(monitor));
    monitor->depth = 0;
    atomic_store_explicit(&monitor->owner, NULL, memory_order_relaxed);
    in_time = hg_lock_wait_until(cond, &monitor->mutex, deadline);
    atomic_store_explicit(
        &monitor->owner, &hg_monitor_entered, memory_order_relaxed);
    monitor->depth = depth;
    return in_time;
}
