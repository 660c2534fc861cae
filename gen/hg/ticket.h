/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ticket: identifies a request for the application.
 *
 * A ticket looks like a pointer, but is odd and never dereferenced. It contains
 * the index and the generation of a slot, so that the ticket of a freed request
 * finds nothing, and an arbitrary value does no harm. Double free and use after
 * free are detected.
 *
 * The table is freed between HG_Finalize and the next HG_Init, and generations
 * would start again: a salt that changes each time keeps old tickets invalid.
 *
 * Locking: none; the owner guards its table.
 */
#ifndef HG_GEN_HG_TICKET_H
#define HG_GEN_HG_TICKET_H

#include "base/map.h"

/* ---- For who has slots of its own ---- */

/* hg_ticket_of: the ticket of a slot, never 0. hg_ticket_find: the object in
 * the slot of a ticket, and its identifier in *id_p; NULL: the ticket is
 * invalid. */
HG_PRIVATE uintptr_t hg_ticket_of(uint32_t salt, uint64_t id);
HG_PRIVATE void *hg_ticket_find(const struct hg_slots *slots, uint32_t salt,
    uintptr_t ticket, uint64_t *id_p);

/* Whether a value may be a ticket; then it is not a pointer to an object. */
static inline bool hg_ticket_is_one(uintptr_t ticket)
{
    return (ticket & 1) != 0;
}

/* The next salt. */
HG_PRIVATE uint32_t hg_ticket_next_salt(uint32_t salt);

/* ---- A table ---- */

struct hg_tickets {
    struct hg_slots slots;
    uint32_t salt;
};

/* Issue a ticket, never 0, for `object`. HG_NOMEM; HG_OVERFLOW: more than
 * 2^24. */
HG_PRIVATE hg_return_t hg_ticket_issue(
    struct hg_tickets *tickets, void *object, uintptr_t *ticket_p);

/* The object of a ticket, or NULL. */
HG_PRIVATE void *hg_ticket_get(
    const struct hg_tickets *tickets, uintptr_t ticket);

/* Get the object of a ticket and invalidate the ticket. */
HG_PRIVATE void *hg_ticket_take(struct hg_tickets *tickets, uintptr_t ticket);

/* In a child of fork: empty the table without a look at its memory. */
HG_PRIVATE void hg_ticket_forget_all(struct hg_tickets *tickets);

/* Remove any remaining object; NULL: the table is empty and was freed. */
HG_PRIVATE void *hg_ticket_take_any(struct hg_tickets *tickets);

#endif
