/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "hg/share.h"

#include "base/lock.h"

_Static_assert((int) HG_SHARE_KINDS <= NA_CORE_USES,
    "an address has a place for each kind");

/* Where an address counts it. */
static uint64_t *hg_share_of(struct na_addr *addr, enum hg_share_kind kind)
{
    assert(kind < HG_SHARE_KINDS);
    return &na_addr_core_of(addr)->used[kind];
}

HG_PRIVATE bool hg_share_take(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    uint64_t *used = hg_share_of(addr, kind);
    uint64_t most = 2 * share->limit[kind];

    /* No sum of these overflows. */
    if (share->left || amount > share->limit[kind] ||
        *used + amount + share->total[kind] + amount > most)
        return false;
    hg_share_add(share, addr, kind, amount);
    return true;
}

HG_PRIVATE void hg_share_add(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    uint64_t *used = hg_share_of(addr, kind);

    if (share->left)
        return;
    assert(*used <= share->total[kind]);
    *used += amount;
    share->total[kind] += amount;
}

HG_PRIVATE bool hg_share_is_full(
    const struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    return *hg_share_of(addr, kind) + share->total[kind] >=
        2 * share->limit[kind];
}

HG_PRIVATE void hg_share_give(struct hg_share *share, struct na_addr *addr,
    enum hg_share_kind kind, uint64_t amount)
{
    uint64_t *used = hg_share_of(addr, kind);

    if (share->left)
        return;
    assert(*used >= amount && share->total[kind] >= *used);
    *used -= amount;
    share->total[kind] -= amount;
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

    hg_lock(&core->lock);
    for (link = core->addrs.next; link != &core->addrs; link = link->next)
        memset(HG_CONTAINER_OF(link, struct na_addr_core, link)->used, 0,
            sizeof(((struct na_addr_core *) 0)->used));
    hg_unlock(&core->lock);
}
