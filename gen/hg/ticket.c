/* SPDX-License-Identifier: BSD-3-Clause */
/* ticket: see ticket.h. */
#include "hg/ticket.h"

/* Odd, so that all salts occur before any is repeated. */
#define HG_TICKET_SALT 0x9e3779b9u

/* Lowest bit of the generation. On 32-bit machines a ticket has 24 bits of
 * index, and the low bit is 1; the rest is left for the generation. */
#if UINTPTR_MAX > 0xffffffffu
#define HG_TICKET_INDEX_BITS 32
#else
#define HG_TICKET_INDEX_BITS 25
#endif

HG_PRIVATE uintptr_t hg_ticket_of(uint32_t salt, uint64_t id)
{
    uint64_t generation = (uint32_t) (id >> 32) ^ salt;

    return (uintptr_t) (generation << HG_TICKET_INDEX_BITS |
        (uint32_t) id << 1 | 1);
}

/* If a ticket does not hold all bits of the generation, the rest come from the
 * slot. */
HG_PRIVATE HG_HOT void *hg_ticket_find(const struct hg_slots *slots,
    uint32_t salt, uintptr_t ticket, uint64_t *id_p)
{
    uint64_t index = ticket & (((uint64_t) 1 << HG_TICKET_INDEX_BITS) - 1);
    uint64_t id = 0;
    void *object = hg_slots_live(slots, (uint32_t) (index >> 1), &id);

    if (object == NULL || hg_ticket_of(salt, id) != ticket)
        return NULL;
    *id_p = id;
    return object;
}

HG_PRIVATE uint32_t hg_ticket_next_salt(uint32_t salt)
{
    return salt + HG_TICKET_SALT;
}

HG_PRIVATE hg_return_t hg_ticket_issue(
    struct hg_tickets *tickets, void *object, uintptr_t *ticket_p)
{
    uint64_t id;
    hg_return_t ret = hg_slots_add(&tickets->slots, object, &id);

    if (ret == HG_SUCCESS)
        *ticket_p = hg_ticket_of(tickets->salt, id);
    return ret;
}

HG_PRIVATE void *hg_ticket_get(
    const struct hg_tickets *tickets, uintptr_t ticket)
{
    uint64_t id;

    return hg_ticket_find(&tickets->slots, tickets->salt, ticket, &id);
}

HG_PRIVATE void *hg_ticket_take(struct hg_tickets *tickets, uintptr_t ticket)
{
    uint64_t id;
    void *object = hg_ticket_find(&tickets->slots, tickets->salt, ticket, &id);

    return object != NULL ? hg_slots_remove(&tickets->slots, id) : NULL;
}

HG_PRIVATE void *hg_ticket_take_any(struct hg_tickets *tickets)
{
    uint32_t cursor = 0;
    uint64_t id;
    void *object = hg_slots_next(&tickets->slots, &cursor, &id);

    if (object != NULL)
        return hg_slots_remove(&tickets->slots, id);
    hg_slots_fini(&tickets->slots);
    tickets->salt = hg_ticket_next_salt(tickets->salt);
    return NULL;
}

HG_PRIVATE void hg_ticket_forget_all(struct hg_tickets *tickets)
{
    hg_slots_init(&tickets->slots);
    tickets->salt = hg_ticket_next_salt(tickets->salt);
}
