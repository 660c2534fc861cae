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
    hg_list_init(&queue->sleepers);
    return hg_waker_init(&queue->waker) ? NA_SUCCESS
                                        : hg_log_no_fd("ctx", "a sleeper");
}

HG_PRIVATE void na_queue_fini(struct na_queue *queue)
{
    HG_ASSERT(hg_list_is_empty(&queue->sleepers));
    hg_waker_fini(&queue->waker);
}

HG_PRIVATE HG_HOT void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    HG_ASSERT(hg_is_inside(queue->lock));
    HG_ASSERT(lane < NA_LANE_MAX && entry->run != NULL);
    entry->next = NULL;
    if (queue->first[lane] == NULL)
        queue->first[lane] = entry;
    else
        queue->last[lane]->next = entry;
    queue->last[lane] = entry;
    if (HG_UNLIKELY(!hg_list_is_empty(&queue->sleepers)))
        na_queue_wake_one(queue, 1u << lane);
    hg_waker_ring_after(&queue->waker);
}

HG_PRIVATE HG_HOT struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    HG_ASSERT(hg_is_inside(queue->lock));
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

    HG_ASSERT(hg_is_inside(queue->lock));
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

/* A sleeping thread with its own waker: it can be woken individually, and
 * unlike a wait for a condition variable, its sleep ends with a signal. */
struct na_sleeper {
    struct na_link link; /* guard: the class's lock */
    struct hg_waker waker;
    unsigned lanes;
    const _Atomic bool *done;
    bool woken;
};

static struct na_sleeper *na_sleeper_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct na_sleeper, link);
}

static void na_sleeper_wake(struct na_sleeper *sleeper)
{
    sleeper->woken = true;
    hg_waker_ring(&sleeper->waker);
}

HG_PRIVATE void na_queue_wake_one(struct na_queue *queue, unsigned lanes)
{
    struct na_sleeper *chosen = NULL;
    struct na_link *link;

    HG_ASSERT(hg_is_inside(queue->lock));
    for (link = queue->sleepers.next; link != &queue->sleepers;
         link = link->next) {
        struct na_sleeper *sleeper = na_sleeper_of(link);

        if (sleeper->woken && (sleeper->lanes & lanes & NA_LANES_DRIVER) != 0)
            return;
        if (sleeper->woken || (sleeper->lanes & lanes) == 0)
            continue;
        chosen = sleeper;
        /* A thread that makes progress may leave entries to others. */
        if ((sleeper->lanes & NA_LANES_DRIVER) == 0)
            break;
    }
    if (chosen != NULL)
        na_sleeper_wake(chosen);
}

HG_PRIVATE void na_queue_wake_all(
    struct na_queue *queue, const _Atomic bool *done)
{
    struct na_link *link;

    HG_ASSERT(hg_is_inside(queue->lock));
    hg_waker_ring_after(&queue->waker);
    for (link = queue->sleepers.next; link != &queue->sleepers;
         link = link->next) {
        struct na_sleeper *sleeper = na_sleeper_of(link);

        if (!sleeper->woken && (done == NULL || sleeper->done == done))
            na_sleeper_wake(sleeper);
    }
}

HG_PRIVATE void na_queue_wake_raised(struct na_queue *queue)
{
    struct na_link *link;

    HG_ASSERT(hg_is_inside(queue->lock));
    hg_waker_ring_after(&queue->waker);
    for (link = queue->sleepers.next; link != &queue->sleepers;
         link = link->next) {
        struct na_sleeper *sleeper = na_sleeper_of(link);

        if (!sleeper->woken && sleeper->done != NULL &&
            atomic_load_explicit(sleeper->done, memory_order_acquire))
            na_sleeper_wake(sleeper);
    }
}

HG_PRIVATE HG_HOT void na_queue_raise(
    struct na_queue *queue, _Atomic bool *done)
{
    atomic_store_explicit(done, true, memory_order_release);
    na_queue_wake_all(queue, done);
}

HG_PRIVATE na_return_t na_queue_sleep(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline)
{
    struct na_sleeper sleeper = {{NULL, NULL}, {0, -1, -1}, lanes, done, false};
    na_return_t ret;

    if (hg_clock_now() >= deadline)
        return NA_TIMEOUT;
    hg_list_push(&queue->sleepers, &sleeper.link);
    if (hg_waker_init(&sleeper.waker)) {
        hg_waker_arm(&sleeper.waker);
        hg_leave(queue->lock);
        HG_ASSERT(hg_monitor_entered == 0);
        ret = hg_waker_sleep(&sleeper.waker, NULL, 0, deadline);
        hg_enter(queue->lock);
        hg_waker_disarm(&sleeper.waker);
        hg_waker_fini(&sleeper.waker);
    } else { /* out of descriptors: the caller polls every millisecond */
        ret = hg_pause(queue->lock) ? NA_SUCCESS : NA_INTR;
    }
    hg_list_remove(&sleeper.link);
    return ret == NA_IO_ERROR ? NA_SUCCESS : ret;
}
