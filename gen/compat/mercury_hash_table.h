/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table of pointers. It is not safe between threads; an iteration ends
 * with the next insertion or removal.
 */
#ifndef HG_COMPAT_MERCURY_HASH_TABLE_H
#define HG_COMPAT_MERCURY_HASH_TABLE_H

#include "mercury_util_config.h"

#include <stdlib.h>

typedef void *hg_hash_table_key_t;
typedef void *hg_hash_table_value_t;
typedef unsigned int (*hg_hash_table_hash_func_t)(hg_hash_table_key_t value);
typedef int (*hg_hash_table_equal_func_t)(
    hg_hash_table_key_t value1, hg_hash_table_key_t value2);
typedef void (*hg_hash_table_key_free_func_t)(hg_hash_table_key_t value);
typedef void (*hg_hash_table_value_free_func_t)(hg_hash_table_value_t value);

#define HG_HASH_TABLE_NULL ((void *) 0)

typedef struct hg_hash_table_entry {
    struct hg_hash_table_entry *next; /* of the same chain */
    hg_hash_table_key_t key;
    hg_hash_table_value_t value;
} hg_hash_table_entry_t;

typedef struct hg_hash_table {
    hg_hash_table_entry_t **chains;
    unsigned int size; /* chains */
    unsigned int count;
    hg_hash_table_hash_func_t hash;
    hg_hash_table_equal_func_t equal;
    hg_hash_table_key_free_func_t key_free;     /* or NULL */
    hg_hash_table_value_free_func_t value_free; /* or NULL */
} hg_hash_table_t;

typedef struct hg_hash_table_iter {
    hg_hash_table_t *hash_table;
    hg_hash_table_entry_t *next_entry;
    unsigned int next_chain; /* that of next_entry */
} hg_hash_table_iter_t;

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: out of memory. */
static HG_UTIL_INLINE hg_hash_table_t *hg_hash_table_new(
    hg_hash_table_hash_func_t hash_func, hg_hash_table_equal_func_t equal_func)
{
    hg_hash_table_t *table = (hg_hash_table_t *) calloc(1, sizeof(*table));

    if (table == NULL)
        return NULL;
    table->size = 64;
    table->chains =
        (hg_hash_table_entry_t **) calloc(table->size, sizeof(*table->chains));
    if (table->chains == NULL) {
        free(table);
        return NULL;
    }
    table->hash = hash_func;
    table->equal = equal_func;
    return table;
}

/* Set the functions that free removed keys and values. */
static HG_UTIL_INLINE void hg_hash_table_register_free_functions(
    hg_hash_table_t *hash_table, hg_hash_table_key_free_func_t key_free_func,
    hg_hash_table_value_free_func_t value_free_func)
{
    hash_table->key_free = key_free_func;
    hash_table->value_free = value_free_func;
}

static HG_UTIL_INLINE void hg_hash_table_free_content(
    hg_hash_table_t *table, hg_hash_table_entry_t *entry)
{
    if (table->key_free != NULL)
        table->key_free(entry->key);
    if (table->value_free != NULL)
        table->value_free(entry->value);
}

static HG_UTIL_INLINE void hg_hash_table_free(hg_hash_table_t *hash_table)
{
    unsigned int i;

    for (i = 0; i < hash_table->size; i++)
        while (hash_table->chains[i] != NULL) {
            hg_hash_table_entry_t *entry = hash_table->chains[i];

            hash_table->chains[i] = entry->next;
            hg_hash_table_free_content(hash_table, entry);
            free(entry);
        }
    free(hash_table->chains);
    free(hash_table);
}

/* The pointer to the entry of that key, or to the NULL where it would be
 * inserted. */
static HG_UTIL_INLINE hg_hash_table_entry_t **hg_hash_table_find(
    hg_hash_table_t *table, hg_hash_table_key_t key)
{
    hg_hash_table_entry_t **at = &table->chains[table->hash(key) % table->size];

    while (*at != NULL && !table->equal((*at)->key, key))
        at = &(*at)->next;
    return at;
}

/* Double the number of chains. On out-of-memory the old ones are kept. */
static HG_UTIL_INLINE void hg_hash_table_grow(hg_hash_table_t *table)
{
    unsigned int i, size = table->size * 2;
    hg_hash_table_entry_t **chains =
        (hg_hash_table_entry_t **) calloc(size, sizeof(*chains));

    if (chains == NULL)
        return;
    for (i = 0; i < table->size; i++)
        while (table->chains[i] != NULL) {
            hg_hash_table_entry_t *entry = table->chains[i];
            unsigned int to = table->hash(entry->key) % size;

            table->chains[i] = entry->next;
            entry->next = chains[to];
            chains[to] = entry;
        }
    free(table->chains);
    table->chains = chains;
    table->size = size;
}

/* An entry of an equal key is replaced. 0: out of memory, else 1. */
static HG_UTIL_INLINE int hg_hash_table_insert(hg_hash_table_t *hash_table,
    hg_hash_table_key_t key, hg_hash_table_value_t value)
{
    hg_hash_table_entry_t **at;

    if (hash_table->count >= hash_table->size)
        hg_hash_table_grow(hash_table);
    at = hg_hash_table_find(hash_table, key);
    if (*at != NULL)
        hg_hash_table_free_content(hash_table, *at);
    else {
        *at = (hg_hash_table_entry_t *) calloc(1, sizeof(**at));
        if (*at == NULL)
            return 0;
        hash_table->count++;
    }
    (*at)->key = key;
    (*at)->value = value;
    return 1;
}

/* HG_HASH_TABLE_NULL: there is none. */
static HG_UTIL_INLINE hg_hash_table_value_t hg_hash_table_lookup(
    hg_hash_table_t *hash_table, hg_hash_table_key_t key)
{
    hg_hash_table_entry_t *entry = *hg_hash_table_find(hash_table, key);

    return entry != NULL ? entry->value : HG_HASH_TABLE_NULL;
}

/* 1, or 0 if there was none. */
static HG_UTIL_INLINE int hg_hash_table_remove(
    hg_hash_table_t *hash_table, hg_hash_table_key_t key)
{
    hg_hash_table_entry_t **at = hg_hash_table_find(hash_table, key);
    hg_hash_table_entry_t *entry = *at;

    if (entry == NULL)
        return 0;
    *at = entry->next;
    hash_table->count--;
    hg_hash_table_free_content(hash_table, entry);
    free(entry);
    return 1;
}

static HG_UTIL_INLINE unsigned int hg_hash_table_num_entries(
    hg_hash_table_t *hash_table)
{
    return hash_table->count;
}

/* Set next_entry to the first entry of chain next_chain or of a later one. */
static HG_UTIL_INLINE void hg_hash_table_iter_seek(hg_hash_table_iter_t *iter)
{
    iter->next_entry = NULL;
    for (; iter->next_chain < iter->hash_table->size; iter->next_chain++) {
        iter->next_entry = iter->hash_table->chains[iter->next_chain];
        if (iter->next_entry != NULL)
            return;
    }
}

static HG_UTIL_INLINE void hg_hash_table_iterate(
    hg_hash_table_t *hash_table, hg_hash_table_iter_t *iter)
{
    iter->hash_table = hash_table;
    iter->next_chain = 0;
    hg_hash_table_iter_seek(iter);
}

static HG_UTIL_INLINE int hg_hash_table_iter_has_more(
    hg_hash_table_iter_t *iterator)
{
    return iterator->next_entry != NULL;
}

/* HG_HASH_TABLE_NULL: no more. */
static HG_UTIL_INLINE hg_hash_table_value_t hg_hash_table_iter_next(
    hg_hash_table_iter_t *iterator)
{
    hg_hash_table_entry_t *entry = iterator->next_entry;

    if (entry == NULL)
        return HG_HASH_TABLE_NULL;
    iterator->next_entry = entry->next;
    if (iterator->next_entry == NULL) {
        iterator->next_chain++;
        hg_hash_table_iter_seek(iterator);
    }
    return entry->value;
}

#ifdef __cplusplus
}
#endif

#endif
