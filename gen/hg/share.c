/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "hg/share.h"

#include "base/lock.h"
#include "na/msg.h"

_Static_assert((int) HG_SHARE_KINDS <= NA_CORE_USES,
    "an address has a place for each kind");

static uint64_t *hg_share_of(
    const struct na_addr *addr, enum hg_share_kind kind)
{
    assert(kind < HG_SHARE_KINDS);
    return &na_addr_core_of(addr)->used[kind];
}

HG_PRIVATE uint64_t hg_share_peer(
    const struct na_addr *addr, enum hg_share_kind kind)
{
    return *hg_share_of(addr, kind);
}

/* What the peer and all have of a kind. */
static HG_HOT uint64_t hg_share_sum(
    const struct hg_share *share, struct na_addr *addr, enum hg_share_kind kind)
{
    return (addr->self ? share->own[kind] : hg_share_peer(addr, kind)) +
        hg_share_total(share, kind);
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
        share->own[kind] += amount;
        return;
    }
    share->others[kind] += amount;
    *hg_share_of(addr, kind) += amount;
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
    if (addr->self) {
        assert(share->own[kind] >= amount);
        share->own[kind] -= amount;
        return;
    }
    assert(share->others[kind] >= amount);
    assert(*hg_share_of(addr, kind) >= amount);
    share->others[kind] -= amount;
    *hg_share_of(addr, kind) -= amount;
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
    struct na_class_core *part = na_class_core_of(na_class);
    struct na_link *link;

    if (hg_share_is_used(part))
        return;
    for (; part != NULL; part = part->next) {
        hg_lock(&part->list_lock);
        for (link = part->addrs.next; link != &part->addrs; link = link->next) {
            struct na_addr_core *addr =
                HG_CONTAINER_OF(link, struct na_addr_core, link);

            memset(addr->used, 0, sizeof(addr->used));
        }
        hg_unlock(&part->list_lock);
    }
}
