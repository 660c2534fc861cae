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
    hg_list_init(&queue->naps);
    ret = hg_waker_init(&queue->waker);
    if (ret != NA_SUCCESS)
        goto destroy_lock;
    return NA_SUCCESS;

destroy_lock:
    pthread_mutex_destroy(&queue->lock);
    return ret;
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    assert(queue->waiters == 0);
    hg_waker_fini(&queue->waker);
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
    na_queue_wake(queue);
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

HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max)
{
    struct na_completion *entry;
    unsigned n = 0;

    if (!na_queue_has(queue, lanes))
        return 0;
    hg_lock(&queue->lock);
    queue->running++;
    while (n < max && (entry = na_queue_take(queue, lanes)) != NULL) {
        hg_unlock(&queue->lock);
        entry->run(entry);
        n++;
        hg_lock(&queue->lock);
    }
    queue->running--;
    hg_unlock(&queue->lock);
    return n;
}

HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue)
{
    return na_queue_run(queue, 1u << NA_LANE_INTERNAL, UINT_MAX);
}

HG_PRIVATE void na_queue_wake(struct na_queue *queue)
{
    struct na_link *link;

    for (link = queue->naps.next; link != &queue->naps; link = link->next)
        hg_waker_wake(HG_CONTAINER_OF(link, struct hg_nap, link));
}

HG_PRIVATE na_return_t na_queue_wait(struct na_queue *queue, unsigned lanes,
    const bool *taken, uint64_t deadline)
{
    na_return_t ret = NA_SUCCESS;
    struct hg_nap nap;

    queue->waiters++;
    while (ret == NA_SUCCESS && !na_queue_has(queue, lanes) &&
        (taken == NULL || *taken)) {
        if (hg_clock_now() >= deadline)
            ret = NA_TIMEOUT;
        else
            ret = hg_waker_nap(&nap, &queue->naps, &queue->lock, deadline);
    }
    queue->waiters--;
    return na_queue_has(queue, lanes) ? NA_SUCCESS : ret;
}
