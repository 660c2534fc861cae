/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map: maps 64-bit numbers to pointers; and slots: map an index with a
 * generation to a pointer.
 *
 * A map is an open-addressing table, rebuilt when two thirds are used. Keys
 * that a peer can choose are mixed with a secret of the map, so that a peer
 * cannot cause collisions. Slots have 32-bit indices with a generation that
 * changes each time a slot is reused, so that an outdated identifier does not
 * find the object that is in the slot now.
 *
 * Locking: the owner guards both. hg_slots_get and hg_slots_live need no lock
 * if the caller knows that the object is not removed meanwhile.
 */
#ifndef HG_GEN_BASE_MAP_H
#define HG_GEN_BASE_MAP_H

#include "base/os.h"

struct hg_map_entry;

struct hg_map {
    struct hg_map_entry *entries; /* NULL until the first put */
    size_t capacity;              /* a power of two, or 0 */
    size_t count;                 /* live entries */
    size_t used;                  /* live entries and tombstones */
    uint64_t secret;
};

HG_PRIVATE void hg_map_init(struct hg_map *map);
/* The owner frees the values. */
HG_PRIVATE void hg_map_fini(struct hg_map *map);

/* The value under `key`, or NULL. */
HG_PRIVATE void *hg_map_get(const struct hg_map *map, uint64_t key);

/* Put `value` (not NULL) under `key`, replacing what was there. HG_NOMEM. */
HG_PRIVATE hg_return_t hg_map_put(
    struct hg_map *map, uint64_t key, void *value);

/* Put `value` (not NULL) under a random key, which is new and not 0. HG_NOMEM;
 * HG_NODEV, logged: there are no random numbers. */
HG_PRIVATE hg_return_t hg_map_add(
    struct hg_map *map, void *value, uint64_t *key_p);

/* Remove and return the value under `key`, or NULL. */
HG_PRIVATE void *hg_map_remove(struct hg_map *map, uint64_t key);

/* Walk: start with *cursor 0; NULL at the end. The map must not grow
 * meanwhile; removing the entry just returned is allowed. */
HG_PRIVATE void *hg_map_next(
    const struct hg_map *map, size_t *cursor, uint64_t *key_p);

#define HG_SLOTS_MIN 16u
#define HG_SLOTS_CHUNKS 20
#define HG_SLOTS_LIMIT (HG_SLOTS_MIN * ((UINT32_C(1) << HG_SLOTS_CHUNKS) - 1))

struct hg_slots {
    _Atomic(struct hg_slots_entry *) chunks[HG_SLOTS_CHUNKS]; /* never move */
    _Atomic uint32_t capacity;
    uint32_t count;
    uint32_t free_head; /* index + 1 of the first free slot, 0: none */
};

HG_PRIVATE void hg_slots_init(struct hg_slots *slots);
HG_PRIVATE void hg_slots_fini(struct hg_slots *slots);

/* Store `value` (not NULL). *id_p gets its identifier, never 0: the generation
 * in the upper half, index + 1 in the lower. HG_NOMEM; HG_OVERFLOW: more than
 * HG_SLOTS_LIMIT. */
HG_PRIVATE hg_return_t hg_slots_add(
    struct hg_slots *slots, void *value, uint64_t *id_p);

/* The value of a live identifier, or NULL. */
HG_PRIVATE void *hg_slots_get(const struct hg_slots *slots, uint64_t id);

/* The value of a slot, given the lower half of its identifier; *id_p gets the
 * identifier. NULL: the slot is free. */
HG_PRIVATE void *hg_slots_live(
    const struct hg_slots *slots, uint32_t number, uint64_t *id_p);

/* Remove a live identifier. Returns its value, or NULL if the identifier is
 * outdated. */
HG_PRIVATE void *hg_slots_remove(struct hg_slots *slots, uint64_t id);

/* Replace a live identifier by a new one for the same value and slot; returns
 * the new one. */
HG_PRIVATE uint64_t hg_slots_renew(struct hg_slots *slots, uint64_t id);

/* Walk as hg_map_next does. */
HG_PRIVATE void *hg_slots_next(
    const struct hg_slots *slots, uint32_t *cursor, uint64_t *id_p);

#endif
