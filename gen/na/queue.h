/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue: the completion queue of a context.
 *
 * Entries are embedded in the objects they complete, so pushing never fails and
 * never allocates. Three lanes separate what runs: steps of the library, which
 * progress runs at the end of each round; callbacks of the application; and
 * calls that arrived for its handlers, which a wait inside a handler must be
 * able to leave in the queue.
 *
 * Locking: the class's lock guards lanes and sleepers. A push wakes a waiting
 * thread: a trigger that sleeps, or a sleeping progress through the waker.
 * Entries run with the lock held, and release it around application code.
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

/* Sets of lanes, as bits. A sleeping thread with NA_LANES_DRIVER is also woken
 * to take over, when the thread that makes progress returns. */
#define NA_LANES_DONE (1u << NA_LANE_DONE)
#define NA_LANES_ALL ((1u << NA_LANE_DONE) | (1u << NA_LANE_CALL))
#define NA_LANES_INTERNAL (1u << NA_LANE_INTERNAL)
#define NA_LANES_DRIVER (1u << NA_LANE_MAX)

struct na_queue {
    struct hg_monitor *lock; /* the class's */
    struct na_completion *first[NA_LANE_MAX];
    struct na_completion *last[NA_LANE_MAX];
    unsigned running;        /* entries being run */
    struct na_link sleepers; /* threads in na_queue_sleep, woken or not */
    struct hg_waker waker;
};

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, struct hg_monitor *lock);
HG_PRIVATE void na_queue_fini(struct na_queue *queue);

/* Append an entry and wake a waiting thread. The lock is held. When it is
 * released, the entry may be freed. The queue is not: its owner ensures that
 * nothing is pushed any more before it is destroyed. */
HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry);

/* Remove the first entry of the first lane that has one; NULL: none. The lock
 * is held. */
HG_PRIVATE struct na_completion *na_queue_pop(
    struct na_queue *queue, unsigned lanes);

/* Run up to `max` entries of `lanes`, at least one, and no more after
 * `deadline`. Returns the number. The lock is held. */
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

    HG_ASSERT(hg_is_inside(queue->lock));
    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) != 0 && queue->first[lane] != NULL)
            return true;
    }
    return false;
}

/* The number of entries in `lanes`. */
HG_PRIVATE unsigned na_queue_count(struct na_queue *queue, unsigned lanes);

/* Sleep until woken for an entry of `lanes` or for *done, which may be NULL
 * (NA_SUCCESS, possibly spurious), until `deadline` (NA_TIMEOUT) or a signal
 * (NA_INTR). The lock is held, and released while sleeping. */
HG_PRIVATE na_return_t na_queue_sleep(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline);

/* na_queue_wake_one: wake one thread that sleeps for one of `lanes`. A woken
 * thread is not chosen again, and only one thread at a time is woken to make
 * progress. na_queue_wake_all: wake all that wait for the flag `done`, or with
 * NULL all, including the thread that makes progress. The lock is held. */
HG_PRIVATE void na_queue_wake_one(struct na_queue *queue, unsigned lanes);
HG_PRIVATE void na_queue_wake_all(
    struct na_queue *queue, const _Atomic bool *done);

/* Code of the application ran, which may have set flags: wake the threads whose
 * flag is set, and the thread that makes progress. The lock is held. */
HG_PRIVATE void na_queue_wake_raised(struct na_queue *queue);

/* Set a flag and wake the threads that wait for it, sleeping or making
 * progress. The flag may be freed when the lock is released. */
HG_PRIVATE void na_queue_raise(struct na_queue *queue, _Atomic bool *done);

#endif
