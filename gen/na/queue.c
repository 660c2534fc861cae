/* SPDX-License-Identifier: BSD-3-Clause */
/* queue: see queue.h. */
#include "na/queue.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, struct hg_monitor *lock)
{
    memset(queue, 0, sizeof(*queue));
    queue->lock = lock;
    hg_list_init(&queue->naps);
    return hg_waker_init(&queue->waker) ? NA_SUCCESS
                                        : hg_log_no_fd("ctx", "a sleeper");
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    assert(hg_list_is_empty(&queue->naps));
    hg_waker_fini(&queue->waker);
}

HG_PRIVATE HG_HOT void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    assert(lane < NA_LANE_MAX && entry->run != NULL);
    hg_enter(queue->lock);
    entry->next = NULL;
    if (queue->first[lane] == NULL)
        queue->first[lane] = entry;
    else
        queue->last[lane]->next = entry;
    queue->last[lane] = entry;
    if (HG_UNLIKELY(!hg_list_is_empty(&queue->naps)))
        na_queue_wake_one(queue, 1u << lane);
    hg_waker_ring_after(&queue->waker);
    /* Once the lock is free the entry may be gone. The queue stays: who
     * destroys it sees to it that nobody pushes any more. */
    hg_leave(queue->lock);
}

HG_PRIVATE HG_HOT struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    assert(hg_is_inside(queue->lock));
    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        struct na_completion *entry = queue->first[lane];

        if ((lanes & (1u << lane)) != 0 && entry != NULL) {
            queue->first[lane] = entry->next;
            return entry;
        }
    }
    return NULL;
}

HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline)
{
    struct na_completion *entry;
    unsigned n = 0;

    assert(hg_is_inside(queue->lock) && queue->lock->depth == 1);
    while (n < max && (n == 0 || !hg_clock_is_past(deadline)) &&
        (entry = na_queue_pop(queue, lanes)) != NULL) {
        queue->running++;
        entry->run(entry);
        queue->running--;
        n++;
    }
    return n;
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
        for (entry = queue->first[lane]; entry != NULL; entry = entry->next)
            n++;
    }
    hg_leave(queue->lock);
    return n;
}

/* A thread that sleeps, and has a waker of its own: it can be woken alone, and
 * unlike a wait for a condition variable, a signal ends its sleep. */
struct na_nap {
    struct na_link link; /* guard: the class's lock */
    struct hg_waker waker;
    unsigned lanes;
    const _Atomic bool *done;
    bool woken;
};

static struct na_nap *na_nap_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct na_nap, link);
}

static void na_nap_wake(struct na_nap *nap)
{
    nap->woken = true;
    hg_waker_ring(&nap->waker);
}

HG_PRIVATE void na_queue_wake_one(struct na_queue *queue, unsigned lanes)
{
    struct na_nap *chosen = NULL;
    struct na_link *link;

    assert(hg_is_inside(queue->lock));
    for (link = queue->naps.next; link != &queue->naps; link = link->next) {
        struct na_nap *nap = na_nap_of(link);

        if (nap->woken && (nap->lanes & lanes & NA_LANES_ROLE) != 0)
            return;
        if (nap->woken || (nap->lanes & lanes) == 0)
            continue;
        chosen = nap;
        /* One that makes progress may leave its entries to others. */
        if ((nap->lanes & NA_LANES_ROLE) == 0)
            break;
    }
    if (chosen != NULL)
        na_nap_wake(chosen);
}

HG_PRIVATE void na_queue_wake_all(
    struct na_queue *queue, const _Atomic bool *done)
{
    struct na_link *link;

    assert(hg_is_inside(queue->lock));
    hg_waker_ring_after(&queue->waker);
    for (link = queue->naps.next; link != &queue->naps; link = link->next) {
        struct na_nap *nap = na_nap_of(link);

        if (!nap->woken && (done == NULL || nap->done == done))
            na_nap_wake(nap);
    }
}

HG_PRIVATE HG_HOT void na_queue_raise(
    struct na_queue *queue, _Atomic bool *done)
{
    atomic_store_explicit(done, true, memory_order_release);
    na_queue_wake_all(queue, done);
}

HG_PRIVATE na_return_t na_queue_nap(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline)
{
    struct na_nap nap = {{NULL, NULL}, {0, -1, -1}, lanes, done, false};
    na_return_t ret;

    if (hg_clock_now() >= deadline)
        return NA_TIMEOUT;
    hg_list_push(&queue->naps, &nap.link);
    if (hg_waker_init(&nap.waker)) {
        hg_waker_arm(&nap.waker);
        hg_leave(queue->lock);
        assert(hg_monitor_entered == 0);
        ret = hg_waker_sleep(&nap.waker, NULL, 0, deadline);
        hg_enter(queue->lock);
        hg_waker_disarm(&nap.waker);
        hg_waker_fini(&nap.waker);
    } else { /* descriptors ran out: the caller looks every millisecond */
        ret = hg_pause(queue->lock) ? NA_SUCCESS : NA_INTR;
    }
    hg_list_remove(&nap.link);
    return ret == NA_IO_ERROR ? NA_SUCCESS : ret;
}
