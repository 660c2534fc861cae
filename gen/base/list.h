/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list: an intrusive doubly linked circular list.
 *
 * A head is a link whose neighbours are the first and the last element. An
 * element that is on no list points to itself, so removing it twice has no
 * effect. No allocation, no lock: the owner of the list guards it.
 */
#ifndef HG_GEN_BASE_LIST_H
#define HG_GEN_BASE_LIST_H

#include "base/os.h"

static inline void hg_list_init(struct na_link *head)
{
    head->prev = head;
    head->next = head;
}

static inline bool hg_list_is_empty(const struct na_link *head)
{
    return head->next == head;
}

/* Put `link`, which is on no list, at the end. */
static inline void hg_list_push(struct na_link *head, struct na_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Take `link` off whatever list it is on. */
static inline void hg_list_remove(struct na_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    hg_list_init(link);
}

/* The first element, taken off the list; NULL when empty. */
static inline struct na_link *hg_list_pop(struct na_link *head)
{
    struct na_link *first = head->next;

    if (first == head)
        return NULL;
    hg_list_remove(first);
    return first;
}

/* Append every element of `from` to `to`, in order, leaving `from` empty. */
static inline void hg_list_splice(struct na_link *to, struct na_link *from)
{
    if (hg_list_is_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    hg_list_init(from);
}

#endif
