/* SPDX-License-Identifier: BSD-3-Clause */
/* mux_addr: see mux_addr.h. */
#include "na/mux_addr.h"

#include "na/addr.h"

/* The address that stands for one of a part, under that name or, without one,
 * as messages come from it; a new reference, or NULL. The lock is held. */
static struct na_addr *na_mux_addr_find(
    struct na_mux_class *mux, const struct na_addr *inner, const char *name)
{
    struct na_addr *known = na_addr_core_of(inner)->above;
    struct na_link *link;

    if (name == NULL)
        return known != NULL && na_addr_try_ref(known) ? known : NULL;
    for (link = mux->addrs.next; link != &mux->addrs; link = link->next) {
        struct na_mux_addr *addr =
            HG_CONTAINER_OF(link, struct na_mux_addr, link);

        if (addr->inner == inner && addr->base.name != NULL &&
            strcmp(addr->base.name, name) == 0 && na_addr_try_ref(&addr->base))
            return &addr->base;
    }
    return NULL;
}

HG_PRIVATE struct na_addr *na_mux_addr_named(
    struct na_mux_class *mux, const char *name)
{
    struct na_addr *found = NULL;
    struct na_link *link;

    hg_lock(&mux->lock);
    for (link = mux->addrs.next; link != &mux->addrs && found == NULL;
         link = link->next) {
        struct na_mux_addr *addr =
            HG_CONTAINER_OF(link, struct na_mux_addr, link);

        if (!addr->pinned && addr->base.name != NULL &&
            strcmp(addr->base.name, name) == 0 &&
            !na_addr_is_dead(&addr->base) && na_addr_try_ref(&addr->base))
            found = &addr->base;
    }
    hg_unlock(&mux->lock);
    return found;
}

/* A new one. Who called us is kept, as the transport keeps it, until it dies.
 * The lock is held. */
static struct na_addr *na_mux_addr_new(
    struct na_mux_part *part, struct na_addr *inner, const char *name)
{
    struct na_mux_class *mux = part->mux;
    struct na_addr *base = na_addr_create(&mux->base,
        name != NULL ? name : na_addr_core_of(inner)->name, NA_FALSE);
    struct na_mux_addr *addr;

    assert(!inner->self && na_mux_part_of(inner->na_class) == part);
    if (base == NULL)
        return NULL;
    addr = na_mux_addr_of(base);
    na_addr_ref(inner);
    addr->inner = inner;
    addr->part = (unsigned) (part - mux->parts);
    addr->pinned = name == NULL && !na_addr_is_dead(inner);
    if (addr->pinned)
        na_addr_ref(base);
    hg_list_push(&mux->addrs, &addr->link);
    if (name == NULL || na_addr_core_of(inner)->above == NULL)
        na_addr_core_of(inner)->above = base;
    return base;
}

/* The same, found or new, with a reference of the caller's. NULL: no memory
 * (logged). */
HG_PRIVATE struct na_addr *na_mux_addr_above(
    struct na_mux_part *part, struct na_addr *inner, const char *name)
{
    struct na_mux_class *mux = part->mux;
    struct na_addr *addr;

    if (inner->self) {
        na_addr_ref(mux->base.self_addr);
        return mux->base.self_addr;
    }
    hg_lock(&mux->lock);
    addr = na_mux_addr_find(mux, inner, name);
    if (addr == NULL)
        addr = na_mux_addr_new(part, inner, name);
    hg_unlock(&mux->lock);
    /* It may have died before the list had ours. */
    if (addr != NULL && na_addr_is_dead(inner))
        mux->base.core->addr_dead(addr, na_addr_state(inner));
    return addr;
}

HG_PRIVATE void na_mux_addr_release(struct na_addr *base)
{
    struct na_mux_addr *addr = na_mux_addr_of(base);
    struct na_mux_class *mux = na_mux_of(base->na_class);

    if (addr->inner == NULL)
        return;
    hg_lock(&mux->lock);
    hg_list_remove(&addr->link);
    if (na_addr_core_of(addr->inner)->above == base)
        na_addr_core_of(addr->inner)->above = NULL;
    hg_unlock(&mux->lock);
    na_addr_unref(addr->inner);
}

/* Of two transports no address can be compared but by its name, which a peer's
 * next life has, too. */
HG_PRIVATE na_bool_t na_mux_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2)
{
    const struct na_mux_addr *addr1 = na_mux_addr_of(base1);
    const struct na_mux_addr *addr2 = na_mux_addr_of(base2);

    if (addr1->part == addr2->part)
        return na_addr_is_proven(addr1->inner, addr2->inner);
    return na_addr_is_proven(addr1->inner, addr1->inner) &&
            na_addr_is_proven(addr2->inner, addr2->inner) &&
            na_addr_is_named_alike(base1, base2)
        ? NA_TRUE
        : NA_FALSE;
}

/* The next address that stands for a part's and was not told this news; with a
 * reference. */
static struct na_mux_addr *na_mux_addr_untold(
    struct na_mux_class *mux, const struct na_addr *inner, uint64_t news)
{
    struct na_mux_addr *found = NULL;
    struct na_link *link;

    hg_lock(&mux->lock);
    for (link = mux->addrs.next; link != &mux->addrs && found == NULL;
         link = link->next) {
        struct na_mux_addr *addr =
            HG_CONTAINER_OF(link, struct na_mux_addr, link);

        if (addr->inner == inner && addr->told < news &&
            na_addr_try_ref(&addr->base))
            found = addr;
    }
    if (found != NULL)
        found->told = news;
    hg_unlock(&mux->lock);
    return found;
}

/* Let the class's reference go, if it has one. */
static void na_mux_addr_unpin(
    struct na_mux_class *mux, struct na_mux_addr *addr)
{
    bool pinned;

    hg_lock(&mux->lock);
    pinned = addr->pinned;
    addr->pinned = false;
    hg_unlock(&mux->lock);
    if (pinned)
        na_addr_unref(&addr->base);
}

/* core->addr_dead of a part. */
HG_PRIVATE void na_mux_addr_dead(struct na_addr *inner, na_return_t ret)
{
    struct na_mux_part *part = na_mux_part_of(inner->na_class);
    struct na_mux_class *mux = part->mux;
    struct na_mux_addr *addr;

    na_addr_ref(inner);
    part->below->addr_dead(inner, ret);
    while ((addr = na_mux_addr_untold(mux, inner, NA_MUX_DEATH)) != NULL) {
        mux->base.core->addr_dead(&addr->base, na_addr_state(inner));
        na_mux_addr_unpin(mux, addr);
        na_addr_unref(&addr->base);
    }
    na_addr_unref(inner);
}

/* A number that no address was told yet. */
static uint64_t na_mux_addr_news(struct na_mux_class *mux)
{
    uint64_t news;

    hg_lock(&mux->lock);
    news = ++mux->partings;
    hg_unlock(&mux->lock);
    return news;
}

/* core->addr_parted of a part. */
HG_PRIVATE void na_mux_addr_parted(struct na_addr *inner)
{
    struct na_mux_part *part = na_mux_part_of(inner->na_class);
    struct na_mux_class *mux = part->mux;
    struct na_mux_addr *addr;
    uint64_t parting = na_mux_addr_news(mux);

    part->below->addr_parted(inner);
    while ((addr = na_mux_addr_untold(mux, inner, parting)) != NULL) {
        mux->base.core->addr_parted(&addr->base);
        na_addr_unref(&addr->base);
    }
}

/* core->addr_unreached of a part. */
HG_PRIVATE void na_mux_addr_unreached(struct na_addr *inner, na_return_t ret)
{
    struct na_mux_part *part = na_mux_part_of(inner->na_class);
    struct na_mux_class *mux = part->mux;
    struct na_mux_addr *addr;
    uint64_t news = na_mux_addr_news(mux);

    part->below->addr_unreached(inner, ret);
    while ((addr = na_mux_addr_untold(mux, inner, news)) != NULL) {
        mux->base.core->addr_unreached(&addr->base, ret);
        na_addr_unref(&addr->base);
    }
}

/* An address that the class has a reference of, with that; NULL: no more. */
static struct na_addr *na_mux_addr_unpin_one(struct na_mux_class *mux)
{
    struct na_mux_addr *found = NULL;
    struct na_link *link;

    hg_lock(&mux->lock);
    for (link = mux->addrs.next; link != &mux->addrs && found == NULL;
         link = link->next) {
        if (HG_CONTAINER_OF(link, struct na_mux_addr, link)->pinned)
            found = HG_CONTAINER_OF(link, struct na_mux_addr, link);
    }
    if (found != NULL)
        found->pinned = false;
    hg_unlock(&mux->lock);
    return found != NULL ? &found->base : NULL;
}

HG_PRIVATE void na_mux_addr_part_all(struct na_mux_class *mux)
{
    struct na_addr *addr;
    struct na_link *link;

    while ((addr = na_mux_addr_unpin_one(mux)) != NULL)
        na_addr_unref(addr);
    while ((link = hg_list_pop(&mux->addrs)) != NULL) {
        struct na_mux_addr *left =
            HG_CONTAINER_OF(link, struct na_mux_addr, link);

        na_addr_core_of(left->inner)->above = NULL;
        na_addr_unref(left->inner);
        left->inner = NULL;
    }
}
