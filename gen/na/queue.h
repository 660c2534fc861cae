/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue: where everything that ended waits for its callback; one a context.
 *
 * Entries are embedded in what they complete, so pushing never fails and
 * never allocates. Four lanes keep apart who runs them: steps of the
 * library's own, which progress runs as soon as it holds no lock; callbacks
 * of the application; calls that arrived for its handlers, which a wait
 * inside a handler must be able to leave alone; and slow steps of the library's
 * own that peers ask for, of which progress runs one in each turn.
 *
 * A lane has a stack and a list. A push puts an entry on the stack, by one
 * exchange and without a lock, so that it never waits for a thread that runs
 * entries. A thread that runs the lane takes one entry at a time off the list,
 * under the lock; without it if only one thread at a time runs this lane. When
 * the list is empty, the reversed stack becomes the list. So entries keep their
 * order, and a thread holds back only the entry that it runs. `head` holds a
 * sentinel while the stack is reversed, so that a thread that looks at the
 * stack, then at the list, finds one of them not empty.
 *
 * Locking: one mutex guards the lists and the naps, for a few instructions.
 * Pushing wakes whoever waits: a trigger that naps, a sleeping progress through
 * the waker. It takes the mutex only if somebody naps: who pushes does so, then
 * looks for waiters, and who waits counts itself, then looks for entries, all
 * sequentially consistent, so one of the two sees the other. No callback runs
 * under the lock.
 */
#ifndef HG_GEN_NA_QUEUE_H
#define HG_GEN_NA_QUEUE_H

#include "base/waker.h"

enum na_lane {
    NA_LANE_INTERNAL = 0,
    NA_LANE_DONE = 1,
    NA_LANE_CALL = 2,
    NA_LANE_SLOW = 3, /* steps of the library's own that may take long */
    NA_LANE_MAX = 4
};

/* Sets of lanes, as bits. */
#define NA_LANES_DONE (1u << NA_LANE_DONE)
#define NA_LANES_ALL ((1u << NA_LANE_DONE) | (1u << NA_LANE_CALL))
#define NA_LANES_OWN ((1u << NA_LANE_INTERNAL) | (1u << NA_LANE_SLOW))

struct na_queue {
    pthread_mutex_t *lock;                               /* the class's */
    _Atomic(struct na_completion *) pushed[NA_LANE_MAX]; /* latest first */
    /* Older ones, in order, or a mark; written under lock, or alone. */
    _Atomic(struct na_completion *) head[NA_LANE_MAX];
    _Atomic uint32_t waiters; /* threads in na_queue_wait; written under lock */
    _Atomic uint32_t taken;   /* entries, to be run; written under lock */
    _Atomic uint32_t run;     /* those of them that ran */
    struct na_link naps;      /* waiters that sleep; lock */
    struct hg_waker waker;
};

HG_PRIVATE na_return_t na_queue_init(
    struct na_queue *queue, pthread_mutex_t *lock);
HG_PRIVATE void na_queue_fini(struct na_queue *queue);

/* Append and wake who waits. Any thread. */
HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry);

/* Run the library's own steps: every entry of the internal lane and what these
 * add, and one entry of the slow lane. Returns their number. The caller is the
 * one thread that makes progress, and holds no lock. */
HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue);

/* Run up to `max` entries of `lanes`, one at least, and none more once
 * `deadline` is there; the number run. Without a lock held. */
HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline);

/* The same for one lane, where nobody asks whether an entry is being run. */
HG_PRIVATE unsigned na_queue_run_lane(
    struct na_queue *queue, enum na_lane lane, unsigned max, uint64_t deadline);

/* The same for a lane that is the caller's own, by a role that all who run it
 * take. At most `max`. */
HG_PRIVATE unsigned na_queue_run_alone(
    struct na_queue *queue, enum na_lane lane, unsigned max);

/* Whether an entry is being run. */
static inline bool na_queue_is_running(struct na_queue *queue)
{
    uint32_t run = atomic_load(&queue->run);

    return atomic_load(&queue->taken) != run;
}

/* Whether any of the lanes has an entry. While another thread takes the last
 * one it may still seem so. */
static inline bool na_queue_has(struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) != 0 &&
            (atomic_load(&queue->pushed[lane]) != NULL ||
                atomic_load(&queue->head[lane]) != NULL))
            return true;
    }
    return false;
}

/* How many entries stand in `lanes`, none of which anybody runs alone. */
HG_PRIVATE unsigned na_queue_count(struct na_queue *queue, unsigned lanes);

/* Wait until `lanes` has an entry (NA_SUCCESS), `deadline` passed (NA_TIMEOUT)
 * or a signal came (NA_INTR). With `taken` not NULL: or until that is false.
 * The lock is held, and free while sleeping. */
HG_PRIVATE na_return_t na_queue_wait(struct na_queue *queue, unsigned lanes,
    const _Atomic bool *taken, uint64_t deadline);

/* Let those who wait look again, after a change that they look for. */
HG_PRIVATE void na_queue_wake(struct na_queue *queue);

#endif
