/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: mutexes and condition variables on the monotonic clock.
 *
 * Thin by intent: pthread mutexes are uncontended on every warm path, and
 * thread sanitizers, debuggers and profilers understand them. Only creation,
 * which can fail, and timed waiting, which has three steps, get a function.
 */
#ifndef HG_GEN_BASE_LOCK_H
#define HG_GEN_BASE_LOCK_H

#include "base/os.h"

/* HG_NOMEM when the system refuses. */
HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex);

/* The same for one that a thread that has it may take again. */
HG_PRIVATE hg_return_t hg_lock_init_class(pthread_mutex_t *mutex);
HG_PRIVATE hg_return_t hg_lock_cond_init(pthread_cond_t *cond);

static inline void hg_lock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_lock(mutex);

    assert(rc == 0);
    (void) rc;
}

/* For who must not wait for it: false, it was not to be had. */
HG_PRIVATE bool hg_lock_try(pthread_mutex_t *mutex);

static inline void hg_unlock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_unlock(mutex);

    assert(rc == 0);
    (void) rc;
}

/* Wait until signalled or `deadline` (hg_clock_now time, HG_CLOCK_NEVER for
 * no end); spurious wake-ups happen. False: the deadline passed. */
HG_PRIVATE bool hg_lock_wait_until(
    pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline);

#endif
