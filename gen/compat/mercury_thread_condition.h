/* SPDX-License-Identifier: BSD-3-Clause */
/* Condition variables, by pthreads, with the monotonic clock. */
#ifndef HG_COMPAT_MERCURY_THREAD_CONDITION_H
#define HG_COMPAT_MERCURY_THREAD_CONDITION_H

#include "mercury_thread_mutex.h"
#include "mercury_time.h"

typedef pthread_cond_t hg_thread_cond_t;

#if HG_UTIL_DECLARE_POSIX
int pthread_condattr_setclock(pthread_condattr_t *attr, int clock);
#endif

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE int hg_thread_cond_init(hg_thread_cond_t *cond)
{
    pthread_condattr_t attr;
    int ret = HG_UTIL_FAIL;

    if (pthread_condattr_init(&attr))
        return HG_UTIL_FAIL;
    if (pthread_condattr_setclock(&attr, HG_TIME_MONOTONIC) == 0 &&
        pthread_cond_init(cond, &attr) == 0)
        ret = HG_UTIL_SUCCESS;
    (void) pthread_condattr_destroy(&attr);
    return ret;
}

static HG_UTIL_INLINE int hg_thread_cond_destroy(hg_thread_cond_t *cond)
{
    return pthread_cond_destroy(cond) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_cond_signal(hg_thread_cond_t *cond)
{
    return pthread_cond_signal(cond) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_cond_broadcast(hg_thread_cond_t *cond)
{
    return pthread_cond_broadcast(cond) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_cond_wait(
    hg_thread_cond_t *cond, hg_thread_mutex_t *mutex)
{
    return pthread_cond_wait(cond, mutex) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

/* HG_UTIL_FAIL after `timeout` milliseconds. The condition variable comes from
 * hg_thread_cond_init, which sets the clock. */
static HG_UTIL_INLINE int hg_thread_cond_timedwait(
    hg_thread_cond_t *cond, hg_thread_mutex_t *mutex, unsigned int timeout)
{
    hg_time_t now;

    if (hg_time_get_current(&now) != HG_UTIL_SUCCESS)
        return HG_UTIL_FAIL;
    now = hg_time_add(now, hg_time_from_ms(timeout));
    return pthread_cond_timedwait(cond, mutex, &now) ? HG_UTIL_FAIL
                                                     : HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
