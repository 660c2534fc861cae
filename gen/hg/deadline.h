/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadline: timers.
 *
 * A binary heap of timers that are embedded in other objects. Adding a timer
 * may need memory for the heap's array; removing and expiring never fail. The
 * next expiry limits how long progress sleeps.
 *
 * Locking: none; the owner guards it.
 */
#ifndef HG_GEN_HG_DEADLINE_H
#define HG_GEN_HG_DEADLINE_H

#include "base/os.h"

struct hg_timer {
    uint64_t when;  /* hg_clock_now time */
    uint32_t index; /* position in the heap + 1; 0: not in it */
};

struct hg_deadline {
    struct hg_timer **heap;
    uint32_t count;
    uint32_t capacity;
};

HG_PRIVATE void hg_deadline_init(struct hg_deadline *deadline);
HG_PRIVATE void hg_deadline_fini(struct hg_deadline *deadline);

/* Start `timer`, which is in no heap, to expire at `when`. HG_NOMEM
 * (logged). */
HG_PRIVATE hg_return_t hg_deadline_add(
    struct hg_deadline *deadline, struct hg_timer *timer, uint64_t when);

/* Stop a timer; no effect if it is not in the heap. */
HG_PRIVATE void hg_deadline_remove(
    struct hg_deadline *deadline, struct hg_timer *timer);

/* When the first timer expires; HG_CLOCK_NEVER: there is none. */
HG_PRIVATE uint64_t hg_deadline_next(const struct hg_deadline *deadline);

/* Remove and return the first timer that expired by `now`; NULL: none. */
HG_PRIVATE struct hg_timer *hg_deadline_pop(
    struct hg_deadline *deadline, uint64_t now);

#endif
