/* SPDX-License-Identifier: BSD-3-Clause */
/* server_table: see server_table.h. */
#include "server_table.h"

#include <stdlib.h>

#define TABLE_SIZE_FIRST 64u
#define TABLE_SIZE_MAX ((uint32_t) 1 << 30)

/* The index of a number; `size` of the table if no item has it. */
static uint32_t table_index(const struct table *table, uint64_t number)
{
    uint32_t index = (uint32_t) number;
    const struct table_slot *slot;

    if (index >= table->size)
        return table->size;
    slot = &table->slots[index];
    return slot->item != NULL && slot->serial == number >> 32 ? index
                                                              : table->size;
}

/* Double the slots. False: out of memory. */
static int table_grow(struct table *table)
{
    uint32_t size = table->size == 0 ? TABLE_SIZE_FIRST : table->size * 2;
    struct table_slot *slots;
    uint32_t i;

    if (size > TABLE_SIZE_MAX)
        return 0;
    slots =
        (struct table_slot *) realloc(table->slots, size * sizeof(slots[0]));
    if (slots == NULL)
        return 0;
    for (i = table->size; i < size; i++) {
        slots[i].item = NULL;
        slots[i].serial = 0;
        slots[i].next_free = i + 1;
    }
    table->slots = slots;
    table->first_free = table->size;
    table->size = size;
    return 1;
}

uint64_t table_add(struct table *table, void *item)
{
    struct table_slot *slot;
    uint32_t index;

    if (table->first_free == table->size && !table_grow(table))
        return 0;
    index = table->first_free;
    slot = &table->slots[index];
    table->first_free = slot->next_free;
    slot->item = item;
    if (++slot->serial == 0)
        slot->serial = 1;
    table->count++;
    return (uint64_t) slot->serial << 32 | index;
}

void *table_get(const struct table *table, uint64_t number)
{
    uint32_t index = table_index(table, number);

    return index < table->size ? table->slots[index].item : NULL;
}

void table_remove(struct table *table, uint64_t number)
{
    uint32_t index = table_index(table, number);

    if (index == table->size)
        return;
    table->slots[index].item = NULL;
    table->slots[index].next_free = table->first_free;
    table->first_free = index;
    table->count--;
}

void table_free(struct table *table)
{
    free(table->slots);
    table->slots = NULL;
    table->size = table->count = table->first_free = 0;
}
