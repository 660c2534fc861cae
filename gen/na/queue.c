/* SPDX-License-Identifier: BSD-3-Clause */
/* queue: see queue.h. */
#include "na/queue.h"

#include "base/clock.h"
#include "base/lock.h"

/* Stands for a list while its stack is being turned. */
static struct na_completion na_queue_turning;

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, pthread_mutex_t *lock)
{
    memset(queue, 0, sizeof(*queue));
    queue->lock = lock;
    hg_list_init(&queue->naps);
    return hg_waker_init(&queue->waker);
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    assert(atomic_load(&queue->waiters) == 0);
    hg_waker_fini(&queue->waker);
}

HG_PRIVATE HG_HOT void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    _Atomic(struct na_completion *) *pushed = &queue->pushed[lane];
    struct na_completion *before =
        atomic_load_explicit(pushed, memory_order_relaxed);

    assert(lane < NA_LANE_MAX && entry->run != NULL);
    do
        entry->next = before;
    while (!atomic_compare_exchange_weak_explicit(
        pushed, &before, entry, memory_order_seq_cst, memory_order_relaxed));
    /* The entry may be gone by now. The queue stays: who destroys it sees to
     * it that nobody pushes any more (op_pending, a sink that is closed). */
    na_queue_wake(queue);
    hg_waker_ring_after(&queue->waker);
}

/* The stack of a lane whose list is empty, turned over. The lock is held, or
 * the lane one's own. */
static struct na_completion *na_queue_turn(
    struct na_queue *queue, unsigned lane)
{
    struct na_completion *first = NULL;
    struct na_completion *pushed;

    atomic_store_explicit(
        &queue->head[lane], &na_queue_turning, memory_order_relaxed);
    pushed = atomic_exchange_explicit(
        &queue->pushed[lane], NULL, memory_order_acq_rel);
    while (pushed != NULL) {
        struct na_completion *next = pushed->next;

        pushed->next = first;
        first = pushed;
        pushed = next;
    }
    return first;
}

/* The first entry of a lane, taken off; NULL. The lock is held, or the lane
 * one's own. */
static HG_HOT struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lane)
{
    struct na_completion *entry =
        atomic_load_explicit(&queue->head[lane], memory_order_relaxed);

    assert(entry != &na_queue_turning);
    if (entry == NULL &&
        atomic_load_explicit(&queue->pushed[lane], memory_order_relaxed) !=
            NULL)
        entry = na_queue_turn(queue, lane);
    if (entry != NULL)
        atomic_store_explicit(
            &queue->head[lane], entry->next, memory_order_relaxed);
    return entry;
}

static struct na_completion *na_queue_take(
    struct na_queue *queue, unsigned lanes)
{
    struct na_completion *entry = NULL;
    unsigned lane;

    hg_lock(queue->lock);
    for (lane = 0; lane < NA_LANE_MAX && entry == NULL; lane++) {
        if ((lanes & (1u << lane)) != 0)
            entry = na_queue_pop(queue, lane);
    }
    if (entry != NULL)
        atomic_store_explicit(&queue->taken,
            atomic_load_explicit(&queue->taken, memory_order_relaxed) + 1,
            memory_order_relaxed);
    hg_unlock(queue->lock);
    return entry;
}

HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline)
{
    struct na_completion *entry;
    unsigned n = 0;

    if (max == 0 || !na_queue_has(queue, lanes))
        return 0;
    do {
        entry = na_queue_take(queue, lanes);
        if (entry == NULL)
            break;
        entry->run(entry);
        n++;
    } while (
        n < max && na_queue_has(queue, lanes) && !hg_clock_is_past(deadline));
    atomic_fetch_add_explicit(&queue->run, n, memory_order_release);
    return n;
}

HG_PRIVATE unsigned na_queue_run_lane(
    struct na_queue *queue, enum na_lane lane, unsigned max, uint64_t deadline)
{
    struct na_completion *entry;
    unsigned n = 0;

    while (n < max && (n == 0 || !hg_clock_is_past(deadline))) {
        hg_lock(queue->lock);
        entry = na_queue_pop(queue, lane);
        hg_unlock(queue->lock);
        if (entry == NULL)
            break;
        entry->run(entry);
        n++;
    }
    return n;
}

HG_PRIVATE unsigned na_queue_run_alone(
    struct na_queue *queue, enum na_lane lane, unsigned max)
{
    struct na_completion *entry;
    unsigned n = 0;

    while (n < max && (entry = na_queue_pop(queue, lane)) != NULL) {
        entry->run(entry);
        n++;
    }
    return n;
}

HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue)
{
    unsigned n = na_queue_run_alone(queue, NA_LANE_INTERNAL, UINT_MAX);

    if (HG_UNLIKELY(na_queue_has(queue, 1u << NA_LANE_SLOW)))
        n += na_queue_run_alone(queue, NA_LANE_SLOW, 1);
    return n;
}

static unsigned na_queue_count_list(const struct na_completion *entry)
{
    unsigned n = 0;

    for (; entry != NULL; entry = entry->next)
        n++;
    return n;
}

/* What stands below the first of a stack stays there while the lock is held:
 * who pushes only puts more on top. */
HG_PRIVATE unsigned na_queue_count(struct na_queue *queue, unsigned lanes)
{
    unsigned n = 0;
    unsigned lane;

    hg_lock(queue->lock);
    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) == 0)
            continue;
        n += na_queue_count_list(atomic_load(&queue->pushed[lane]));
        n += na_queue_count_list(atomic_load(&queue->head[lane]));
    }
    hg_unlock(queue->lock);
    return n;
}

HG_PRIVATE void na_queue_wake(struct na_queue *queue)
{
    struct na_link *link;

    if (atomic_load(&queue->waiters) == 0)
        return;
    hg_lock(queue->lock);
    for (link = queue->naps.next; link != &queue->naps; link = link->next)
        hg_waker_wake(HG_CONTAINER_OF(link, struct hg_nap, link));
    hg_unlock(queue->lock);
}

HG_PRIVATE na_return_t na_queue_wait(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *taken, uint64_t deadline)
{
    na_return_t ret = NA_SUCCESS;
    struct hg_nap nap;

    atomic_fetch_add(&queue->waiters, 1);
    while (ret == NA_SUCCESS && !na_queue_has(queue, lanes) &&
        (taken == NULL || atomic_load(taken))) {
        if (hg_clock_now() >= deadline)
            ret = NA_TIMEOUT;
        else
            ret = hg_waker_nap(&nap, &queue->naps, queue->lock, deadline);
    }
    atomic_fetch_sub(&queue->waiters, 1);
    return na_queue_has(queue, lanes) ? NA_SUCCESS : ret;
}
