/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "hg/share.h"

#include "base/lock.h"
#include "na/sink.h"

_Static_assert(2 * (int) HG_SHARE_KINDS <= NA_CORE_USES,
    "an address has two places for each kind");

#define HG_SHARE_TRIES 8u

/* Where an address counts what it took, and behind that what it gave back. */
static _Atomic uint64_t *hg_share_of(
    const struct na_addr *addr, enum hg_share_kind kind)
{
    assert(kind < HG_SHARE_KINDS);
    return &na_addr_core_of(addr)->used[2 * kind];
}

/* Other contexts may take and give back between our two looks, more than the
 * limit if we are interrupted there: then we look again. */
HG_PRIVATE uint64_t hg_share_peer(
    const struct na_addr *addr, enum hg_share_kind kind)
{
    const _Atomic uint64_t *of = hg_share_of(addr, kind);
    unsigned tries = HG_SHARE_TRIES;
    uint64_t given, taken;

    do {
        given = atomic_load_explicit(&of[1], memory_order_acquire);
        taken = atomic_load_explicit(&of[0], memory_order_acquire);
    } while (HG_UNLIKELY(
        atomic_load_explicit(&of[1], memory_order_relaxed) != given &&
        --tries > 0));
    return taken - given;
}

/* What the peer and all have of a kind. */
static HG_HOT uint64_t hg_share_sum(
    const struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    uint64_t own =
        hg_share_out(&share->own_taken[kind], &share->own_given[kind]);

    return (addr->self ? own : hg_share_peer(addr, kind)) + own +
        hg_share_out(&share->taken[kind], &share->given[kind]);
}

/* Add, where a lock keeps other writers away. */
static void hg_share_raise(_Atomic uint64_t *count, uint64_t amount)
{
    atomic_store_explicit(count,
        atomic_load_explicit(count, memory_order_relaxed) + amount,
        memory_order_relaxed);
}

HG_PRIVATE HG_HOT bool hg_share_take(struct hg_share *share,
    struct na_addr *addr, enum hg_share_kind kind, uint64_t amount)
{
    uint64_t most = 2 * share->limit[kind];

    /* No sum of these overflows. */
    if (share->left || amount > share->limit[kind] ||
        hg_share_sum(share, addr, kind) + 2 * amount > most)
        return false;
    hg_share_add(share, addr, kind, amount);
    return true;
}

HG_PRIVATE HG_HOT void hg_share_add(struct hg_share *share,
    struct na_addr *addr, enum hg_share_kind kind, uint64_t amount)
{
    if (share->left)
        return;
    if (addr->self) {
        hg_share_raise(&share->own_taken[kind], amount);
        return;
    }
    hg_share_raise(&share->taken[kind], amount);
    /* Other contexts have the peer, too, and locks of their own. */
    atomic_fetch_add_explicit(
        hg_share_of(addr, kind), amount, memory_order_relaxed);
}

HG_PRIVATE bool hg_share_is_full(
    struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    return hg_share_sum(share, addr, kind) >= 2 * share->limit[kind];
}

HG_PRIVATE HG_HOT void hg_share_give(struct hg_share *share,
    struct na_addr *addr, enum hg_share_kind kind, uint64_t amount)
{
    if (share->left)
        return;
    assert(hg_share_total(share, kind) >= amount);
    if (!addr->self)
        atomic_fetch_add_explicit(
            &hg_share_of(addr, kind)[1], amount, memory_order_release);
    atomic_fetch_add_explicit(
        addr->self ? &share->own_given[kind] : &share->given[kind], amount,
        memory_order_release);
}

HG_PRIVATE void hg_share_leave(struct hg_share *share)
{
    assert(!share->left);
    share->left = true;
}

/* Whether another context counts, and will give back what it has. */
static bool hg_share_is_used(struct na_class_core *core)
{
    unsigned number = 0;

    while (number < NA_CORE_CONTEXTS && na_sink_arg(core, number) == NULL)
        number++;
    return number < NA_CORE_CONTEXTS;
}

HG_PRIVATE void hg_share_forget(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_link *link;
    unsigned i;

    if (hg_share_is_used(core))
        return;
    hg_lock(&core->list_lock);
    for (link = core->addrs.next; link != &core->addrs; link = link->next) {
        for (i = 0; i < NA_CORE_USES; i++)
            atomic_store(
                &HG_CONTAINER_OF(link, struct na_addr_core, link)->used[i], 0);
    }
    hg_unlock(&core->list_lock);
}
