/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ticket: what an application holds in place of a request.
 *
 * A ticket looks like a pointer and is none, as it is odd: it is the index and
 * the generation of a slot, so that one whose request is gone names nothing,
 * and what is no ticket at all does no harm. Freeing twice, and using what was
 * freed, are told apart from use.
 *
 * The table is freed between one HG_Init and the next, and generations would
 * begin anew: a salt that changes then keeps old tickets stale.
 *
 * Locking: none; the owner guards its table.
 */
#ifndef HG_GEN_HG_TICKET_H
#define HG_GEN_HG_TICKET_H

#include "base/map.h"

/* ---- For who has slots of its own ---- */

/* The ticket of a slot, never 0; and what lies in the slot of a ticket, whose
 * identifier is *id_p then, or NULL: it names nothing. */
HG_PRIVATE uintptr_t hg_ticket_of(uint32_t salt, uint64_t id);
HG_PRIVATE void *hg_ticket_find(const struct hg_slots *slots, uint32_t salt,
    uintptr_t ticket, uint64_t *id_p);

/* Whether something may be a ticket, and then no pointer to an object. */
static inline bool hg_ticket_is_one(uintptr_t ticket)
{
    return (ticket & 1) != 0;
}

/* The salt that follows. */
HG_PRIVATE uint32_t hg_ticket_next_salt(uint32_t salt);

/* ---- A table ---- */

struct hg_tickets {
    struct hg_slots slots;
    uint32_t salt;
};

/* A ticket, never 0, for `object`. HG_NOMEM; HG_OVERFLOW past 2^24. */
HG_PRIVATE hg_return_t hg_ticket_issue(
    struct hg_tickets *tickets, void *object, uintptr_t *ticket_p);

/* The object of a ticket, or NULL. */
HG_PRIVATE void *hg_ticket_get(
    const struct hg_tickets *tickets, uintptr_t ticket);

/* The same, and the ticket is stale from now on. */
HG_PRIVATE void *hg_ticket_take(struct hg_tickets *tickets, uintptr_t ticket);

/* Take any one that is left; NULL: the table is empty, and freed. */
HG_PRIVATE void *hg_ticket_take_any(struct hg_tickets *tickets);

#endif
