/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue: where everything that ended waits for its callback; one a context.
 *
 * Entries are embedded in what they complete, so pushing never fails and
 * never allocates. Three lanes keep apart who runs them: steps of the
 * library's own, which progress runs as soon as it holds no lock; callbacks
 * of the application; and calls that arrived for its handlers, which a wait
 * inside a handler must be able to leave alone.
 *
 * Locking: one mutex, for a few instructions. Pushing wakes whoever waits:
 * a trigger that naps, a sleeping progress through the waker. No callback runs
 * under the lock.
 */
#ifndef HG_GEN_NA_QUEUE_H
#define HG_GEN_NA_QUEUE_H

#include "base/waker.h"

enum na_lane {
    NA_LANE_INTERNAL = 0,
    NA_LANE_DONE = 1,
    NA_LANE_CALL = 2,
    NA_LANE_MAX = 3
};

/* Sets of lanes, as bits. */
#define NA_LANES_DONE (1u << NA_LANE_DONE)
#define NA_LANES_ALL ((1u << NA_LANE_DONE) | (1u << NA_LANE_CALL))

struct na_queue {
    pthread_mutex_t lock;
    /* Guarded by lock; the counts are also read without it, as hints. */
    struct na_completion *head[NA_LANE_MAX];
    struct na_completion *tail[NA_LANE_MAX];
    _Atomic uint32_t count[NA_LANE_MAX];
    uint32_t waiters;
    uint32_t running;    /* threads in na_queue_run */
    struct na_link naps; /* those of them that sleep */
    struct hg_waker waker;
};

HG_PRIVATE na_return_t na_queue_init(struct na_queue *queue);
HG_PRIVATE void na_queue_fini(struct na_queue *queue);

/* Append and wake who waits. Any thread. */
HG_PRIVATE void na_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry);

/* Run every entry that stands in the internal lane, and what these add. The
 * number run. Without a lock held. */
HG_PRIVATE unsigned na_queue_run_internal(struct na_queue *queue);

/* Run up to `max` entries of `lanes`; the number run. Without a lock held. */
HG_PRIVATE unsigned na_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max);

/* Whether any of the lanes has an entry; a hint, exact for who pushed. */
static inline bool na_queue_has(struct na_queue *queue, unsigned lanes)
{
    unsigned lane;

    for (lane = 0; lane < NA_LANE_MAX; lane++) {
        if ((lanes & (1u << lane)) != 0 &&
            atomic_load_explicit(&queue->count[lane], memory_order_acquire) !=
                0)
            return true;
    }
    return false;
}

/* Wait until `lanes` has an entry (NA_SUCCESS), `deadline` passed (NA_TIMEOUT)
 * or a signal came (NA_INTR). With `taken` not NULL: or until that is false.
 * The lock is held, and free while sleeping. */
HG_PRIVATE na_return_t na_queue_wait(struct na_queue *queue, unsigned lanes,
    const bool *taken, uint64_t deadline);

/* Let those who wait look again; the lock is held. */
HG_PRIVATE void na_queue_wake(struct na_queue *queue);

#endif
