/* SPDX-License-Identifier: BSD-3-Clause */
/* Spin locks, by pthreads. */
#ifndef HG_COMPAT_MERCURY_THREAD_SPIN_H
#define HG_COMPAT_MERCURY_THREAD_SPIN_H

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

typedef pthread_spinlock_t hg_thread_spin_t;

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE int hg_thread_spin_init(hg_thread_spin_t *lock)
{
    return pthread_spin_init(lock, PTHREAD_PROCESS_PRIVATE) ? HG_UTIL_FAIL
                                                            : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_spin_destroy(hg_thread_spin_t *lock)
{
    return pthread_spin_destroy(lock) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_spin_lock(hg_thread_spin_t *lock)
{
    return pthread_spin_lock(lock) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_spin_try_lock(hg_thread_spin_t *lock)
{
    return pthread_spin_trylock(lock) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_spin_unlock(hg_thread_spin_t *lock)
{
    return pthread_spin_unlock(lock) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
