/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks for many readers or one writer, by pthreads. */
#ifndef HG_COMPAT_MERCURY_THREAD_RWLOCK_H
#define HG_COMPAT_MERCURY_THREAD_RWLOCK_H

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

#include <pthread.h>

typedef pthread_rwlock_t hg_thread_rwlock_t;

/* One of pthread's functions under Mercury's name. */
#define HG_THREAD_RWLOCK_FUNCTION(name, function) \
    static HG_UTIL_INLINE int hg_thread_rwlock_##name( \
        hg_thread_rwlock_t *rwlock) \
    { \
        return function(rwlock) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS; \
    }

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE int hg_thread_rwlock_init(hg_thread_rwlock_t *rwlock)
{
    return pthread_rwlock_init(rwlock, NULL) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

HG_THREAD_RWLOCK_FUNCTION(destroy, pthread_rwlock_destroy)
HG_THREAD_RWLOCK_FUNCTION(rdlock, pthread_rwlock_rdlock)
HG_THREAD_RWLOCK_FUNCTION(try_rdlock, pthread_rwlock_tryrdlock)
HG_THREAD_RWLOCK_FUNCTION(release_rdlock, pthread_rwlock_unlock)
HG_THREAD_RWLOCK_FUNCTION(wrlock, pthread_rwlock_wrlock)
HG_THREAD_RWLOCK_FUNCTION(try_wrlock, pthread_rwlock_trywrlock)
HG_THREAD_RWLOCK_FUNCTION(release_wrlock, pthread_rwlock_unlock)

#ifdef __cplusplus
}
#endif

#endif
