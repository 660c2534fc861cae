/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_table: numbers for the nodes and open files of a session. A number
 * holds an index, and a serial number that makes it differ from all earlier
 * numbers of this index. So an old number is never taken for a new item. 0 is
 * no number.
 *
 * Locking: the caller's.
 */
#ifndef HG_EXAMPLES_SERVER_TABLE_H
#define HG_EXAMPLES_SERVER_TABLE_H

#include <stdint.h>

struct table_slot {
    void *item; /* NULL: free */
    uint32_t serial;
    uint32_t next_free;
};

/* A table of zeros is empty. */
struct table {
    struct table_slot *slots;
    uint32_t size;
    uint32_t count;      /* of items */
    uint32_t first_free; /* an index, or `size` */
};

/* Add an item. Returns its number; 0: out of memory. */
uint64_t table_add(struct table *table, void *item);

/* Get the item of a number; NULL: unknown. */
void *table_get(const struct table *table, uint64_t number);

/* Remove the item of a number that is in the table. */
void table_remove(struct table *table, uint64_t number);

/* Free the memory. The items are the caller's. */
void table_free(struct table *table);

#endif
