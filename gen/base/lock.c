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

HG_PRIVATE hg_return_t hg_lock_init_class(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc != 0)
        goto error;
    rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    if (rc == 0)
        return HG_SUCCESS;

error:
    hg_log_error("lock", "pthread_mutex_init: %s", strerror(rc));
    return HG_NOMEM;
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
