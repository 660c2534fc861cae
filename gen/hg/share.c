/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "hg/share.h"

#include "base/lock.h"

_Static_assert((int) HG_SHARE_KINDS <= NA_CORE_USES,
    "an address has a place for each kind");

/* Where an address counts it. */
static _Atomic uint64_t *hg_share_of(
    struct na_addr *addr, enum hg_share_kind kind)
{
    assert(kind < HG_SHARE_KINDS);
    return &na_addr_core_of(addr)->used[kind];
}

/* What the peer and all have of a kind. */
static uint64_t hg_share_sum(
    const struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    return atomic_load(hg_share_of(addr, kind)) +
        atomic_load(&share->total[kind]);
}

HG_PRIVATE bool hg_share_take(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    uint64_t most = 2 * share->limit[kind];

    /* No sum of these overflows. */
    if (share->left || amount > share->limit[kind] ||
        hg_share_sum(share, addr, kind) + 2 * amount > most)
        return false;
    hg_share_add(share, addr, kind, amount);
    return true;
}

HG_PRIVATE void hg_share_add(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    if (share->left)
        return;
    atomic_fetch_add(&share->total[kind], amount);
    atomic_fetch_add(hg_share_of(addr, kind), amount);
}

HG_PRIVATE bool hg_share_is_full(
    const struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    return hg_share_sum(share, addr, kind) >= 2 * share->limit[kind];
}

HG_PRIVATE void hg_share_give(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    uint64_t used;
    uint64_t total;

    if (share->left)
        return;
    used = atomic_fetch_sub(hg_share_of(addr, kind), amount);
    total = atomic_fetch_sub(&share->total[kind], amount);
    assert(used >= amount && total >= amount);
    (void) used;
    (void) total;
}

HG_PRIVATE void hg_share_leave(struct hg_share *share)
{
    assert(!share->left);
    share->left = true;
}

HG_PRIVATE void hg_share_forget(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_link *link;
    unsigned i;

    hg_lock(&core->lock);
    for (link = core->addrs.next; link != &core->addrs; link = link->next) {
        for (i = 0; i < NA_CORE_USES; i++)
            atomic_store(
                &HG_CONTAINER_OF(link, struct na_addr_core, link)->used[i], 0);
    }
    hg_unlock(&core->lock);
}
