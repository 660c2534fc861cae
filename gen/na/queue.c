/* SPDX-License-Identifier: BSD-3-Clause */
/* queue: see queue.h. */
#include "na/queue.h"

#include "base/clock.h"
#include "base/lock.h"

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, struct hg_monitor *lock)
{
    memset(queue, 0, sizeof(*queue));
    queue->lock = lock;
    hg_list_init(&queue->naps);
    return hg_waker_init(&queue->waker);
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    assert(queue->waiters == 0);
    hg_waker_fini(&queue->waker);
}

/* Append to a lane; the lock is held. */
static HG_HOT void na_queue_append(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    entry->next = NULL;
    if (atomic_load_explicit(&queue->first[lane], memory_order_relaxed) == NULL)
        atomic_store_explicit(&queue->first[lane], entry, memory_order_release);
    else
        queue->last[lane]->next = entry;
    queue->last[lane] = entry;
}

HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    assert(lane < NA_LANE_MAX && entry->run != NULL);
    hg_enter(queue->lock);
    na_queue_append(queue, lane, entry);
    if (HG_UNLIKELY(queue->waiters > 0))
        na_queue_wake(queue);
    hg_waker_ring_after(&queue->waker);
    /* Once the lock is free the entry may be gone. The queue stays: who
     * destroys it sees to it that nobody pushes any more. */
    hg_leave(queue->lock);
}

/* The first entry of the first lane that has one, taken off; NULL. The lock is
 * held. */
static HG_HOT struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        struct na_completion *entry = (lanes & (1u << lane)) == 0
            ? NULL
            : atomic_load_explicit(&queue->first[lane], memory_order_relaxed);

        if (entry == NULL)
            continue;
        atomic_store_explicit(
            &queue->first[lane], entry->next, memory_order_relaxed);
        return entry;
    }
    return NULL;
}

HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline)
{
    struct na_completion *entry;
    unsigned n = 0;

    assert(hg_is_inside(queue->lock) && queue->lock->depth == 1);
    while (n < max && (entry = na_queue_pop(queue, lanes)) != NULL) {
        queue->running++;
        entry->run(entry);
        queue->running--;
        n++;
        if (hg_clock_is_past(deadline))
            break;
    }
    return n;
}

HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue)
{
    unsigned n =
        na_queue_run(queue, 1u << NA_LANE_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);

    return n + na_queue_run(queue, 1u << NA_LANE_SLOW, 1, HG_CLOCK_NEVER);
}

HG_PRIVATE unsigned na_queue_count(struct na_queue *queue, unsigned lanes)
{
    const struct na_completion *entry;
    unsigned n = 0;
    unsigned lane;

    hg_enter(queue->lock);
    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) == 0)
            continue;
        for (entry = atomic_load(&queue->first[lane]); entry != NULL;
             entry = entry->next)
            n++;
    }
    hg_leave(queue->lock);
    return n;
}

HG_PRIVATE void na_queue_wake(struct na_queue *queue)
{
    struct na_link *link;

    hg_enter(queue->lock);
    for (link = queue->naps.next; link != &queue->naps; link = link->next)
        hg_waker_wake(HG_CONTAINER_OF(link, struct hg_nap, link));
    hg_leave(queue->lock);
}

HG_PRIVATE na_return_t na_queue_nap(struct na_queue *queue, uint64_t deadline)
{
    struct hg_nap nap;
    na_return_t ret;

    if (hg_clock_now() >= deadline)
        return NA_TIMEOUT;
    queue->waiters++;
    ret = hg_waker_nap(&nap, &queue->naps, queue->lock, deadline);
    queue->waiters--;
    return ret;
}
