/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes, by pthreads. */
#ifndef HG_COMPAT_MERCURY_THREAD_MUTEX_H
#define HG_COMPAT_MERCURY_THREAD_MUTEX_H

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

typedef pthread_mutex_t hg_thread_mutex_t;
#define HG_THREAD_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE int hg_thread_mutex_init(hg_thread_mutex_t *mutex)
{
    return pthread_mutex_init(mutex, NULL) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

/* Mercury's spins a little before it sleeps; this one does not. */
static HG_UTIL_INLINE int hg_thread_mutex_init_fast(hg_thread_mutex_t *mutex)
{
    return hg_thread_mutex_init(mutex);
}

static HG_UTIL_INLINE int hg_thread_mutex_destroy(hg_thread_mutex_t *mutex)
{
    return pthread_mutex_destroy(mutex) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

/* lock and unlock return a code, as in Mercury 2.0; it is HG_UTIL_SUCCESS. */
static HG_UTIL_INLINE int hg_thread_mutex_lock(hg_thread_mutex_t *mutex)
{
    return pthread_mutex_lock(mutex) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_mutex_try_lock(hg_thread_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_mutex_unlock(hg_thread_mutex_t *mutex)
{
    return pthread_mutex_unlock(mutex) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
