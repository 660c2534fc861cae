/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that execute posted work, in the order it was posted. */
#ifndef HG_COMPAT_MERCURY_THREAD_POOL_H
#define HG_COMPAT_MERCURY_THREAD_POOL_H

#include "mercury_queue.h"
#include "mercury_thread.h"
#include "mercury_thread_condition.h"

#include <stdlib.h>

/* The poster sets `func` and `args` and keeps the struct until func runs. */
struct hg_thread_work {
    hg_thread_func_t func;
    void *args;
    HG_QUEUE_ENTRY(hg_thread_work) entry;
};

/* `mutex` guards the rest. */
typedef struct hg_thread_pool {
    HG_QUEUE_HEAD(hg_thread_work) queue;
    bool shutdown;
    hg_thread_mutex_t mutex;
    hg_thread_cond_t cond;
    unsigned int thread_count;
    hg_thread_t *threads;
} hg_thread_pool_t;

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE void *hg_thread_pool_worker(void *arg)
{
    hg_thread_pool_t *pool = (hg_thread_pool_t *) arg;
    struct hg_thread_work *work;

    for (;;) {
        (void) hg_thread_mutex_lock(&pool->mutex);
        while (HG_QUEUE_IS_EMPTY(&pool->queue) && !pool->shutdown)
            (void) hg_thread_cond_wait(&pool->cond, &pool->mutex);
        work = HG_QUEUE_FIRST(&pool->queue);
        if (work != NULL)
            HG_QUEUE_POP_HEAD(&pool->queue, entry);
        (void) hg_thread_mutex_unlock(&pool->mutex);
        if (work == NULL)
            return NULL;
        (void) work->func(work->args);
    }
}

/* Executes what is posted, then joins the threads. NULL is allowed. */
static HG_UTIL_INLINE int hg_thread_pool_destroy(hg_thread_pool_t *pool)
{
    int ret = HG_UTIL_SUCCESS;

    if (pool == NULL)
        return HG_UTIL_SUCCESS;
    (void) hg_thread_mutex_lock(&pool->mutex);
    pool->shutdown = true;
    (void) hg_thread_cond_broadcast(&pool->cond);
    (void) hg_thread_mutex_unlock(&pool->mutex);
    while (pool->thread_count > 0)
        if (hg_thread_join(pool->threads[--pool->thread_count]))
            ret = HG_UTIL_FAIL;
    (void) hg_thread_cond_destroy(&pool->cond);
    (void) hg_thread_mutex_destroy(&pool->mutex);
    free(pool->threads);
    free(pool);
    return ret;
}

static HG_UTIL_INLINE int hg_thread_pool_init(
    unsigned int thread_count, hg_thread_pool_t **pool_p)
{
    hg_thread_pool_t *pool;

    if (pool_p == NULL)
        return HG_UTIL_FAIL;
    pool = (hg_thread_pool_t *) calloc(1, sizeof(*pool));
    if (pool == NULL)
        return HG_UTIL_FAIL;
    HG_QUEUE_INIT(&pool->queue);
    pool->threads = (hg_thread_t *) calloc(
        thread_count > 0 ? thread_count : 1, sizeof(*pool->threads));
    if (pool->threads == NULL || hg_thread_mutex_init(&pool->mutex)) {
        free(pool->threads);
        free(pool);
        return HG_UTIL_FAIL;
    }
    if (hg_thread_cond_init(&pool->cond)) {
        (void) hg_thread_mutex_destroy(&pool->mutex);
        free(pool->threads);
        free(pool);
        return HG_UTIL_FAIL;
    }
    for (; pool->thread_count < thread_count; pool->thread_count++)
        if (hg_thread_create(&pool->threads[pool->thread_count],
                hg_thread_pool_worker, pool)) {
            (void) hg_thread_pool_destroy(pool);
            return HG_UTIL_FAIL;
        }
    *pool_p = pool;
    return HG_UTIL_SUCCESS;
}

/* HG_UTIL_FAIL: NULL, or the pool is being destroyed. */
static HG_UTIL_INLINE int hg_thread_pool_post(
    hg_thread_pool_t *pool, struct hg_thread_work *work)
{
    bool shutdown;

    if (pool == NULL || work == NULL || work->func == NULL)
        return HG_UTIL_FAIL;
    (void) hg_thread_mutex_lock(&pool->mutex);
    shutdown = pool->shutdown;
    if (!shutdown) {
        HG_QUEUE_PUSH_TAIL(&pool->queue, work, entry);
        (void) hg_thread_cond_signal(&pool->cond);
    }
    (void) hg_thread_mutex_unlock(&pool->mutex);
    return shutdown ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
