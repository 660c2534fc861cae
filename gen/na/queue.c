/* SPDX-License-Identifier: BSD-3-Clause */
/* queue: see queue.h. */
#include "na/queue.h"

#include "base/clock.h"
#include "base/lock.h"

HG_PRIVATE na_return_t na_queue_init(struct na_queue *queue)
{
    na_return_t ret;

    memset(queue, 0, sizeof(*queue));
    ret = hg_lock_init(&queue->lock);
    if (ret != NA_SUCCESS)
        return ret;
    ret = hg_lock_cond_init(&queue->cond);
    if (ret != NA_SUCCESS)
        goto destroy_lock;
    ret = hg_waker_init(&queue->waker);
    if (ret != NA_SUCCESS)
        goto destroy_cond;
    return NA_SUCCESS;

destroy_cond:
    pthread_cond_destroy(&queue->cond);
destroy_lock:
    pthread_mutex_destroy(&queue->lock);
    return ret;
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    assert(queue->waiters == 0);
    hg_waker_fini(&queue->waker);
    pthread_cond_destroy(&queue->cond);
    pthread_mutex_destroy(&queue->lock);
}

HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    assert(lane < NA_LANE_MAX && entry->run != NULL);
    entry->next = NULL;
    hg_lock(&queue->lock);
    if (queue->head[lane] == NULL)
        queue->head[lane] = entry;
    else
        queue->tail[lane]->next = entry;
    queue->tail[lane] = entry;
    atomic_fetch_add_explicit(&queue->count[lane], 1, memory_order_release);
    if (queue->waiters > 0)
        pthread_cond_broadcast(&queue->cond);
    hg_unlock(&queue->lock);
    hg_waker_ring(&queue->waker);
}

/* The lock is held. */
static struct na_completion *na_queue_take(
    struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        struct na_completion *entry = queue->head[lane];

        if ((lanes & (1u << lane)) == 0 || entry == NULL)
            continue;
        queue->head[lane] = entry->next;
        atomic_fetch_sub_explicit(&queue->count[lane], 1, memory_order_relaxed);
        return entry;
    }
    return NULL;
}

HG_PRIVATE struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes)
{
    struct na_completion *entry;

    if (!na_queue_has(queue, lanes))
        return NULL;
    hg_lock(&queue->lock);
    entry = na_queue_take(queue, lanes);
    hg_unlock(&queue->lock);
    return entry;
}

HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max)
{
    unsigned n = 0;

    while (n < max) {
        struct na_completion *entry = na_queue_pop(queue, lanes);

        if (entry == NULL)
            break;
        entry->run(entry);
        n++;
    }
    return n;
}

HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue)
{
    return na_queue_run(queue, 1u << NA_LANE_INTERNAL, UINT_MAX);
}

HG_PRIVATE bool na_queue_wait(
    struct na_queue *queue, unsigned lanes, uint64_t deadline)
{
    bool ready;

    hg_lock(&queue->lock);
    queue->waiters++;
    while (!(ready = na_queue_has(queue, lanes)) && hg_clock_now() < deadline)
        (void) hg_lock_wait_until(&queue->cond, &queue->lock, deadline);
    queue->waiters--;
    hg_unlock(&queue->lock);
    return ready;
}
