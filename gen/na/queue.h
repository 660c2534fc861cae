/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue: where everything that ended waits for its callback; one a context.
 *
 * Entries are embedded in what they complete, so pushing never fails and
 * never allocates. Three lanes keep apart who runs them: steps of the
 * library's own, which progress runs at the end of each turn; callbacks
 * of the application; and calls that arrived for its handlers, which a wait
 * inside a handler must be able to leave alone.
 *
 * Locking: the class's lock guards lanes and naps. A push wakes whoever waits:
 * a trigger that naps, and a sleeping progress through the waker. Entries
 * run with the lock held once, and release it around code of the application.
 */
#ifndef HG_GEN_NA_QUEUE_H
#define HG_GEN_NA_QUEUE_H

#include "base/lock.h"

enum na_lane {
    NA_LANE_INTERNAL = 0,
    NA_LANE_DONE = 1,
    NA_LANE_CALL = 2,
    NA_LANE_MAX = 3
};

/* Sets of lanes, as bits. A sleeping thread with NA_LANES_DRIVER is woken when
 * no thread makes progress, to take over. */
#define NA_LANES_DONE (1u << NA_LANE_DONE)
#define NA_LANES_ALL ((1u << NA_LANE_DONE) | (1u << NA_LANE_CALL))
#define NA_LANES_INTERNAL (1u << NA_LANE_INTERNAL)
#define NA_LANES_DRIVER (1u << NA_LANE_MAX)

struct na_queue {
    struct hg_monitor *lock; /* the class's */
    struct na_completion *first[NA_LANE_MAX];
    struct na_completion *last[NA_LANE_MAX];
    unsigned running;        /* entries that threads run just now */
    struct na_link sleepers; /* threads in na_queue_sleep, woken or not */
    struct hg_waker waker;
};

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, struct hg_monitor *lock);
HG_PRIVATE void na_queue_fini(struct na_queue *queue);

/* Append and wake who waits. Any thread. */
HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry);

/* Take the first entry out of the first lane that has one; NULL. The lock is
 * held. */
HG_PRIVATE struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes);

/* Run up to `max` entries of `lanes`, one at least, and none more once
 * `deadline` is there; the number run. The lock is held, once. */
HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline);

/* Whether an entry is being run; the lock is held. */
static inline bool na_queue_is_running(const struct na_queue *queue)
{
    return queue->running > 0;
}

/* Whether any of the lanes has an entry; the lock is held. */
static inline bool na_queue_has(const struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    assert(hg_is_inside(queue->lock));
    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) != 0 && queue->first[lane] != NULL)
            return true;
    }
    return false;
}

/* How many entries stand in `lanes`. */
HG_PRIVATE unsigned na_queue_count(struct na_queue *queue, unsigned lanes);

/* Sleep until woken for an entry of `lanes` or for *done, which may be NULL
 * (NA_SUCCESS, also for no reason), until `deadline` (NA_TIMEOUT) or a signal
 * (NA_INTR). The lock is held, once, and free while sleeping. */
HG_PRIVATE na_return_t na_queue_sleep(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline);

/* Wake one thread that sleeps for one of `lanes`. A thread is woken once: the
 * next call wakes another one, but only one for the role. Or wake all that wait
 * for a flag, or all (NULL), also the one that makes progress. The lock is
 * held. */
HG_PRIVATE void na_queue_wake_one(struct na_queue *queue, unsigned lanes);
HG_PRIVATE void na_queue_wake_all(
    struct na_queue *queue, const _Atomic bool *done);

/* Set a flag and wake the threads that wait for it: those that sleep, and the
 * one that makes progress. The flag's memory may be gone once the lock is free.
 */
HG_PRIVATE void na_queue_raise(struct na_queue *queue, _Atomic bool *done);

#endif
