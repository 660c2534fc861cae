/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of addresses by routing id, by endpoint, and by what was dialled.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

static size_t na_zmq_hash(const void *key, size_t size)
{
    const unsigned char *bytes = (const unsigned char *) key;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t i;

    for (i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (size_t) (hash ^ hash >> 32);
}

static const void *na_zmq_key_of(
    const struct na_zmq_addr *addr, enum na_zmq_key by, size_t *size_p)
{
    const char *text =
        by == NA_ZMQ_BY_ENDPOINT ? addr->endpoint : addr->dialled;

    HG_ASSERT(by == NA_ZMQ_BY_ID || text != NULL);
    *size_p = by == NA_ZMQ_BY_ID ? addr->id_size : strlen(text);
    return by == NA_ZMQ_BY_ID ? (const void *) addr->id : text;
}

static struct na_zmq_addr **na_zmq_bucket(
    const struct na_zmq_table *table, const void *key, size_t size)
{
    HG_ASSERT(table->size > 0 && (table->size & (table->size - 1)) == 0);
    return &table->buckets[na_zmq_hash(key, size) & (table->size - 1)];
}

static struct na_zmq_addr *na_zmq_find(const struct na_zmq_class *self,
    enum na_zmq_key by, const void *key, size_t size)
{
    struct na_zmq_addr *addr = *na_zmq_bucket(&self->tables[by], key, size);
    size_t other_size;

    for (; addr != NULL; addr = addr->next[by]) {
        const void *other = na_zmq_key_of(addr, by, &other_size);

        if (other_size == size && memcmp(other, key, size) == 0)
            break;
    }
    return addr;
}

/* Grow the table if there is memory; otherwise chains become longer. */
static void na_zmq_table_grow(struct na_zmq_class *self, enum na_zmq_key by)
{
    struct na_zmq_table old = self->tables[by];
    struct na_zmq_table *table = &self->tables[by];
    size_t size = old.size == 0 ? 64 : 2 * old.size;
    size_t i;

    table->buckets = (struct na_zmq_addr **) self->base.core->alloc(
        size * sizeof(struct na_zmq_addr *));
    if (table->buckets == NULL) {
        *table = old;
        return;
    }
    memset(table->buckets, 0, size * sizeof(struct na_zmq_addr *));
    table->size = size;
    for (i = 0; i < old.size; i++) {
        while (old.buckets[i] != NULL) {
            struct na_zmq_addr *addr = old.buckets[i];
            size_t key_size;
            const void *key = na_zmq_key_of(addr, by, &key_size);
            struct na_zmq_addr **bucket = na_zmq_bucket(table, key, key_size);

            old.buckets[i] = addr->next[by];
            addr->next[by] = *bucket;
            *bucket = addr;
        }
    }
    self->base.core->free(old.buckets);
}

static void na_zmq_enter(
    struct na_zmq_class *self, struct na_zmq_addr *addr, enum na_zmq_key by)
{
    size_t size;
    const void *key = na_zmq_key_of(addr, by, &size);
    struct na_zmq_addr **bucket;

    HG_ASSERT(size > 0 && na_zmq_find(self, by, key, size) == NULL);
    if (self->tables[by].count >= self->tables[by].size)
        na_zmq_table_grow(self, by);
    bucket = na_zmq_bucket(&self->tables[by], key, size);
    addr->next[by] = *bucket;
    *bucket = addr;
    self->tables[by].count++;
}

/* No effect on an address that is not in the table. */
static void na_zmq_remove(
    struct na_zmq_class *self, struct na_zmq_addr *addr, enum na_zmq_key by)
{
    size_t size;
    const void *key = na_zmq_key_of(addr, by, &size);
    struct na_zmq_addr **at = na_zmq_bucket(&self->tables[by], key, size);

    while (*at != NULL && *at != addr)
        at = &(*at)->next[by];
    if (*at == NULL)
        return;
    *at = addr->next[by];
    HG_ASSERT(self->tables[by].count > 0);
    self->tables[by].count--;
}
