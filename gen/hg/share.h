/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share: dividing what is limited among peers.
 *
 * A server has only so much room for calls it has not answered, for arguments
 * it fetches and for outputs it holds. A peer that takes and never gives back
 * must not have all of it. So a limit is not a wall but a threshold that moves:
 *
 *     a peer may have as much as leaves as much again free for others:
 *     (what this peer has) + (what all have) <= 2 x limit
 *
 * While all together have no more than the limit, nobody is refused. One peer
 * alone gets to the limit, and whoever comes then still finds room: half of
 * what is left, which is as much as the limit at first. All together never have
 * twice the limit.
 *
 * What a peer has is counted in its address, for all contexts of the class
 * together, where it needs no memory and no search, and is gone with it; what
 * the class itself has, in each context, and nowhere else: with that all have
 * it, too.
 *
 * Locking: the lock of the class guards all of it.
 */
#ifndef HG_GEN_HG_SHARE_H
#define HG_GEN_HG_SHARE_H

#include "na/core.h"

enum hg_share_kind {
    HG_SHARE_CALLS = 0, /* calls whose answer has not left */
    HG_SHARE_REFUSALS,  /* refusals that cannot leave */
    HG_SHARE_FETCHED,   /* bytes of arguments */
    HG_SHARE_HELD,      /* bytes of outputs */
    HG_SHARE_KINDS
};

struct hg_share {
    bool left; /* counts no more: nobody gives back what is in it */
    uint64_t limit[HG_SHARE_KINDS];  /* below 2^62 */
    uint64_t others[HG_SHARE_KINDS]; /* what peers have in this context */
    uint64_t own[HG_SHARE_KINDS];    /* what the class has that calls itself */
};

/* What all have. */
static inline uint64_t hg_share_total(
    const struct hg_share *share, enum hg_share_kind kind)
{
    return share->others[kind] + share->own[kind];
}

/* What a peer has in all contexts of the class. Not of the class's own
 * address. */
HG_PRIVATE uint64_t hg_share_peer(
    const struct na_addr *addr, enum hg_share_kind kind);

/* Count `amount` more for the peer, which keeps its address until it gives
 * that back. False: that is more than its share, and nothing was counted. */
HG_PRIVATE bool hg_share_take(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount);

/* Count it in any case; and whether the peer has more than its share. */
HG_PRIVATE void hg_share_add(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount);
HG_PRIVATE bool hg_share_is_full(
    struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind);

/* Give back what was taken or added; nothing after hg_share_leave. */
HG_PRIVATE void hg_share_give(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount);

/* Count no more, though something is not given back. hg_share_forget then, with
 * the lock not held and the sink gone, lets the peers of a class begin anew, as
 * addresses outlive what counts in them; not while other contexts count there,
 * which would give back more than is known to be taken. */
HG_PRIVATE void hg_share_leave(struct hg_share *share);
HG_PRIVATE void hg_share_forget(struct na_class *na_class);

#endif
