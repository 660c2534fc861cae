/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit: flow control. One rule divides what is limited among peers.
 *
 * A class has limits for what peers have here (calls without an answer, bytes
 * of arguments, bytes of outputs) and for what it has in flight to them. A peer
 * that takes and gives nothing back must not have all of it. So a peer may use
 * at most half of what is free:
 *
 *     (what this peer uses) + (what all use) <= 2 x limit
 *
 * While all together use no more than the limit, nothing is refused. One peer
 * alone gets to the limit, a second one to half of the limit then, and all
 * together never use twice the limit. Whatever is used alone is allowed.
 *
 * What a peer uses is counted in its address, what all use in the class. What
 * goes past a limit gets HG_AGAIN: from HG_Forward at once, from a target as
 * its answer. The origin learns from such answers how much the target takes
 * (`window` of the address), and HG_Wait_room waits for that.
 *
 * Locking: the lock of the class guards all of it.
 */
#ifndef HG_GEN_HG_LIMIT_H
#define HG_GEN_HG_LIMIT_H

#include "na/core.h"

enum hg_limit_kind {
    HG_LIMIT_CALLS = 0, /* calls to us whose answer has not left */
    HG_LIMIT_REFUSALS,  /* refusals that cannot leave */
    HG_LIMIT_FETCHED,   /* bytes of large inputs */
    HG_LIMIT_HELD,      /* bytes of large outputs */
    HG_LIMIT_IN_FLIGHT, /* bytes of calls of ours */
    HG_LIMIT_KINDS
};

_Static_assert((int) HG_LIMIT_KINDS <= NA_CORE_USES,
    "an address has a counter for each kind");

/* Largest memory of a small call of ours: handle, operation, answer, and a
 * message of HG_LIMIT_SMALL bytes. */
#define HG_LIMIT_SMALL 256u
#define HG_LIMIT_CALL (1280u + HG_LIMIT_SMALL)

/* The window of a peer that has refused nothing. */
#define HG_LIMIT_UNKNOWN UINT64_MAX

struct hg_limit {
    uint64_t max;  /* below 2^61, so that no sum overflows */
    uint64_t used; /* by all peers */
};

/* What a peer uses. */
static inline uint64_t *hg_limit_of(
    const struct na_addr *addr, enum hg_limit_kind kind)
{
    return &na_addr_core_of(addr)->used[kind];
}

/* Whether the peer may use that much more. */
static inline bool hg_limit_fits(const struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    const struct hg_limit *limit = &limits[kind];

    return limit->used == 0 ||
        (amount <= limit->max &&
            na_core_is_fair(
                *hg_limit_of(addr, kind), limit->used, amount, limit->max));
}

/* Count it, which may be past the limit; and give it back. The peer keeps its
 * address meanwhile. */
static inline void hg_limit_add(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    limits[kind].used += amount;
    *hg_limit_of(addr, kind) += amount;
}

static inline void hg_limit_give(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    assert(limits[kind].used >= amount && *hg_limit_of(addr, kind) >= amount);
    limits[kind].used -= amount;
    *hg_limit_of(addr, kind) -= amount;
}

/* Count it if it fits. */
static inline bool hg_limit_take(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    bool fits = hg_limit_fits(limits, addr, kind, amount);

    if (HG_LIKELY(fits))
        hg_limit_add(limits, addr, kind, amount);
    return fits;
}

#endif
