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

/* ---- The lock of a class ---- */

/* A thread may enter again where it is inside already. */
struct hg_monitor {
    pthread_mutex_t mutex;
    _Atomic unsigned wanted; /* threads that wait to enter */
};

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor);
HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor);

/* How often this thread has entered and not left; only kept for assertions. It
 * is 0 where the thread runs code of the application, or sleeps. */
#ifndef NDEBUG
HG_PRIVATE unsigned *hg_monitor_depth(void);
#endif

/* Somebody else is inside. */
HG_PRIVATE void hg_monitor_await(struct hg_monitor *monitor);

static inline void hg_enter(struct hg_monitor *monitor)
{
    if (HG_UNLIKELY(pthread_mutex_trylock(&monitor->mutex) != 0))
        hg_monitor_await(monitor);
#ifndef NDEBUG
    ++*hg_monitor_depth();
#endif
}

static inline void hg_leave(struct hg_monitor *monitor)
{
#ifndef NDEBUG
    assert(*hg_monitor_depth() > 0);
    --*hg_monitor_depth();
#endif
    hg_unlock(&monitor->mutex);
}

/* False: it takes too long. */
HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor);

/* Enter again after a moment outside, when those are in who waited for that: a
 * thread that came back at once would keep them out. hg_pass: such a moment. */
HG_PRIVATE void hg_reenter(struct hg_monitor *monitor);
HG_PRIVATE void hg_pass(struct hg_monitor *monitor);

#endif
