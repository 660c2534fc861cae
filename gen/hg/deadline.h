/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadline: what is to happen at a time.
 *
 * A binary heap of timers embedded in what they belong to. Adding may need
 * memory for the heap's array; removing and expiring never fail. The next
 * expiry bounds how long progress sleeps.
 *
 * Locking: none; the owner guards it.
 */
#ifndef HG_GEN_HG_DEADLINE_H
#define HG_GEN_HG_DEADLINE_H

#include "base/os.h"

struct hg_timer {
    uint64_t when;  /* hg_clock_now time */
    uint32_t index; /* place in the heap + 1; 0: not in it */
};

struct hg_deadline {
    struct hg_timer **heap;
    uint32_t count;
    uint32_t capacity;
};

HG_PRIVATE void hg_deadline_init(struct hg_deadline *deadline);
HG_PRIVATE void hg_deadline_fini(struct hg_deadline *deadline);

/* Let `timer`, which is in no heap, expire at `when`. HG_NOMEM (logged). */
HG_PRIVATE hg_return_t hg_deadline_add(
    struct hg_deadline *deadline, struct hg_timer *timer, uint64_t when);

/* Take a timer out; nothing when it is not in. */
HG_PRIVATE void hg_deadline_remove(
    struct hg_deadline *deadline, struct hg_timer *timer);

/* When the first one expires; HG_CLOCK_NEVER for none. */
HG_PRIVATE uint64_t hg_deadline_next(const struct hg_deadline *deadline);

/* The first timer that expired by `now`, taken out; NULL. */
HG_PRIVATE struct hg_timer *hg_deadline_pop(
    struct hg_deadline *deadline, uint64_t now);

#endif
