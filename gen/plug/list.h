/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Circular lists of links. A link that is on no list points to itself.
 */
#ifndef HG_GEN_PLUG_LIST_H
#define HG_GEN_PLUG_LIST_H

#include "plug/plug.h"

static inline void na_plug_list_init(struct na_link *head)
{
    head->prev = head;
    head->next = head;
}

static inline bool na_plug_list_empty(const struct na_link *head)
{
    return head->next == head;
}

static inline void na_plug_list_push(struct na_link *head, struct na_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void na_plug_list_remove(struct na_link *link)
{
    HG_ASSERT(link->prev->next == link && link->next->prev == link);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    na_plug_list_init(link);
}

static inline struct na_link *na_plug_list_pop(struct na_link *head)
{
    struct na_link *first = head->next;

    if (first == head)
        return NULL;
    na_plug_list_remove(first);
    return first;
}

/* Whether nothing waits for an address but lookups that are tried again. */
static inline bool na_plug_is_quiet(
    const struct na_link *lookups, const struct na_link *sends)
{
    const struct na_link *link = lookups->next;

    while (
        link != lookups && ((const struct na_op *) (const void *) link)->quiet)
        link = link->next;
    return link == lookups && !na_plug_list_empty(lookups) &&
        na_plug_list_empty(sends);
}

static inline void na_plug_list_move(struct na_link *to, struct na_link *from)
{
    struct na_link *link;

    while ((link = na_plug_list_pop(from)) != NULL)
        na_plug_list_push(to, link);
}

#endif
