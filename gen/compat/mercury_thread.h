/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads and their keys, by pthreads. */
#ifndef HG_COMPAT_MERCURY_THREAD_H
#define HG_COMPAT_MERCURY_THREAD_H

/* For cpu_set_t, as in Mercury. It works only before the first system header,
 * or with -D_GNU_SOURCE. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "mercury_util_config.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

typedef pthread_t hg_thread_t;
typedef void *(*hg_thread_func_t)(void *);
typedef void *hg_thread_ret_t;
typedef pthread_key_t hg_thread_key_t;
#define HG_THREAD_RETURN_TYPE hg_thread_ret_t

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE void hg_thread_init(hg_thread_t *thread)
{
    memset(thread, 0, sizeof(*thread));
}

static HG_UTIL_INLINE int hg_thread_create(
    hg_thread_t *thread, hg_thread_func_t f, void *data)
{
    return pthread_create(thread, NULL, f, data) ? HG_UTIL_FAIL
                                                 : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE void hg_thread_exit(hg_thread_ret_t ret)
{
    pthread_exit(ret);
}

static HG_UTIL_INLINE int hg_thread_join(hg_thread_t thread)
{
    return pthread_join(thread, NULL) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_cancel(hg_thread_t thread)
{
    return pthread_cancel(thread) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_yield(void)
{
    return sched_yield() ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE hg_thread_t hg_thread_self(void)
{
    return pthread_self();
}

static HG_UTIL_INLINE int hg_thread_equal(hg_thread_t t1, hg_thread_t t2)
{
    return pthread_equal(t1, t2);
}

static HG_UTIL_INLINE int hg_thread_key_create(hg_thread_key_t *key)
{
    return pthread_key_create(key, NULL) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_key_delete(hg_thread_key_t key)
{
    return pthread_key_delete(key) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE void *hg_thread_getspecific(hg_thread_key_t key)
{
    return pthread_getspecific(key);
}

static HG_UTIL_INLINE int hg_thread_setspecific(
    hg_thread_key_t key, const void *value)
{
    return pthread_setspecific(key, value) ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

/* Linux has processor sets, if _GNU_SOURCE was defined in time. */
#ifdef CPU_SETSIZE
typedef cpu_set_t hg_cpu_set_t;

static HG_UTIL_INLINE int hg_thread_getaffinity(
    hg_thread_t thread, hg_cpu_set_t *cpu_mask)
{
    return pthread_getaffinity_np(thread, sizeof(*cpu_mask), cpu_mask)
        ? HG_UTIL_FAIL
        : HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_thread_setaffinity(
    hg_thread_t thread, const hg_cpu_set_t *cpu_mask)
{
    return pthread_setaffinity_np(thread, sizeof(*cpu_mask), cpu_mask)
        ? HG_UTIL_FAIL
        : HG_UTIL_SUCCESS;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
