/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit: flow control. One rule divides each limit among peers.
 *
 * A class limits what peers use here (calls without an answer, bytes of
 * arguments, bytes of outputs) and what it has in flight to them. A peer must
 * not be able to use all of a limit for ever. So a peer may use at most half of
 * what is free:
 *
 *     (used by this peer) + (used by all peers) <= 2 x limit
 *
 * While all peers together use no more than the limit, nothing is refused. A
 * single peer can use the whole limit, a second peer then half of it, and all
 * peers together never use twice the limit. A request is always granted if
 * nothing else is in use.
 *
 * The use of a peer is counted in its address, the use of all peers in the
 * class. Beyond a limit the result is HG_AGAIN: from HG_Forward at once, or
 * from the target as its answer. From such answers the origin learns how much
 * the target accepts (`window` of the address). HG_Wait_room waits for that.
 *
 * Locking: the lock of the class guards all of it.
 */
#ifndef HG_GEN_HG_LIMIT_H
#define HG_GEN_HG_LIMIT_H

#include "na/core.h"

enum hg_limit_kind {
    HG_LIMIT_CALLS = 0, /* incoming calls whose answer was not sent */
    HG_LIMIT_REFUSALS,  /* refusals that cannot be sent */
    HG_LIMIT_FETCHED,   /* bytes of large inputs */
    HG_LIMIT_HELD,      /* bytes of large outputs */
    HG_LIMIT_IN_FLIGHT, /* bytes of outgoing calls */
    HG_LIMIT_KINDS
};

_Static_assert((int) HG_LIMIT_KINDS <= NA_CORE_USES,
    "an address has a counter for each kind");

/* Memory of a small outgoing call, at most: handle, operation, answer, and a
 * message of HG_LIMIT_SMALL bytes. */
#define HG_LIMIT_SMALL 256u
#define HG_LIMIT_CALL (1280u + HG_LIMIT_SMALL)

/* The window of a peer that has refused nothing. */
#define HG_LIMIT_UNKNOWN UINT64_MAX

struct hg_limit {
    uint64_t max;  /* below 2^61, so that no sum overflows */
    uint64_t used; /* by all peers */
};

/* The use of a peer. */
static inline uint64_t *hg_limit_of(
    const struct na_addr *addr, enum hg_limit_kind kind)
{
    return &na_addr_core_of(addr)->used[kind];
}

/* Whether the peer may use `amount` more. */
static inline bool hg_limit_fits(const struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    const struct hg_limit *limit = &limits[kind];

    return limit->used == 0 ||
        (amount <= limit->max &&
            na_core_is_fair(
                *hg_limit_of(addr, kind), limit->used, amount, limit->max));
}

/* Count `amount`, even beyond the limit; hg_limit_give uncounts it. The caller
 * holds a reference of the address. */
static inline void hg_limit_add(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    limits[kind].used += amount;
    *hg_limit_of(addr, kind) += amount;
}

static inline void hg_limit_give(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    HG_ASSERT(
        limits[kind].used >= amount && *hg_limit_of(addr, kind) >= amount);
    limits[kind].used -= amount;
    *hg_limit_of(addr, kind) -= amount;
}

/* Count `amount` if it fits. */
static inline bool hg_limit_take(struct hg_limit *limits,
    const struct na_addr *addr, enum hg_limit_kind kind, uint64_t amount)
{
    bool fits = hg_limit_fits(limits, addr, kind, amount);

    if (HG_LIKELY(fits))
        hg_limit_add(limits, addr, kind, amount);
    return fits;
}

#endif
