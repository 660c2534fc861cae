/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map: from a 64-bit number to a pointer; and slots, from an index with a
 * generation to a pointer.
 *
 * Invariants of a map: capacity is 0 or a power of two; count <= used; at
 * most two thirds of the entries are used, so every probe meets a free one
 * and ends. An entry is free (value NULL), a tombstone (value
 * &hg_map_tombstone) or live. Growing drops the tombstones.
 *
 * The place of a key is the product with a secret odd number, folded: of keys
 * chosen without knowing the secret, no set collides on purpose.
 *
 * Invariants of slots: the free list runs through the entries whose value is
 * NULL; a generation rises when its slot is emptied or renewed.
 */
#include "base/map.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define HG_MAP_MIN 16u
#define HG_SLOTS_MIN 16u
#define HG_SLOTS_LIMIT (UINT32_C(1) << 24)

struct hg_map_entry {
    uint64_t key;
    void *value;
};

static char hg_map_tombstone;

/* ---- Map ---- */

static bool hg_map_is_live(const struct hg_map_entry *entry)
{
    return entry->value != NULL && entry->value != (void *) &hg_map_tombstone;
}

static size_t hg_map_place(const struct hg_map *map, uint64_t key)
{
    uint64_t hash = key * map->secret;

    return (size_t) (hash ^ hash >> 32) & (map->capacity - 1);
}

/* The live entry of `key`, or NULL. */
static struct hg_map_entry *hg_map_find(const struct hg_map *map, uint64_t key)
{
    size_t i;

    if (map->count == 0)
        return NULL;
    assert(map->used < map->capacity);
    for (i = hg_map_place(map, key); map->entries[i].value != NULL;
         i = (i + 1) & (map->capacity - 1))
        if (map->entries[i].key == key && hg_map_is_live(&map->entries[i]))
            return &map->entries[i];
    return NULL;
}

/* Put a key that is not there into a table that has room. */
static void hg_map_insert(struct hg_map *map, uint64_t key, void *value)
{
    size_t i = hg_map_place(map, key);

    while (hg_map_is_live(&map->entries[i]))
        i = (i + 1) & (map->capacity - 1);
    if (map->entries[i].value == NULL)
        map->used++;
    map->entries[i].key = key;
    map->entries[i].value = value;
    map->count++;
}

/* Move to a fresh table where the live entries and one more fill at most a
 * half: the next move is then a sixth of the table away, or more. */
static hg_return_t hg_map_rebuild(struct hg_map *map)
{
    struct hg_map old = *map;
    size_t capacity = HG_MAP_MIN;
    size_t i;

    while (capacity < (old.count + 1) * 2)
        capacity *= 2;
    map->entries =
        (struct hg_map_entry *) hg_mem_calloc(capacity, sizeof(*map->entries));
    if (map->entries == NULL) {
        map->entries = old.entries;
        hg_log_error("mem", "no memory for a table of %zu entries", capacity);
        return HG_NOMEM;
    }
    if (map->secret == 0)
        map->secret = hg_clock_random() | 1;
    map->capacity = capacity;
    map->count = 0;
    map->used = 0;
    for (i = 0; i < old.capacity; i++)
        if (hg_map_is_live(&old.entries[i]))
            hg_map_insert(map, old.entries[i].key, old.entries[i].value);
    assert(map->count == old.count);
    hg_mem_free(old.entries);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_map_init(struct hg_map *map)
{
    memset(map, 0, sizeof(*map));
}

HG_PRIVATE void hg_map_fini(struct hg_map *map)
{
    hg_mem_free(map->entries);
    hg_map_init(map);
}

HG_PRIVATE hg_return_t hg_map_reserve(struct hg_map *map)
{
    return map->entries != NULL ? HG_SUCCESS : hg_map_rebuild(map);
}

HG_PRIVATE void *hg_map_get(const struct hg_map *map, uint64_t key)
{
    const struct hg_map_entry *entry = hg_map_find(map, key);

    return entry != NULL ? entry->value : NULL;
}

HG_PRIVATE hg_return_t hg_map_put(struct hg_map *map, uint64_t key, void *value)
{
    struct hg_map_entry *entry = hg_map_find(map, key);

    assert(value != NULL);
    if (entry != NULL) {
        entry->value = value;
        return HG_SUCCESS;
    }
    if ((map->used + 1) * 3 > map->capacity * 2) {
        hg_return_t ret = hg_map_rebuild(map);

        if (ret != HG_SUCCESS)
            return ret;
    }
    hg_map_insert(map, key, value);
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_map_add(
    struct hg_map *map, void *value, uint64_t *key_p)
{
    uint64_t key;
    hg_return_t ret;

    do
        key = hg_clock_random();
    while (key == 0 || hg_map_find(map, key) != NULL);
    ret = hg_map_put(map, key, value);
    if (ret == HG_SUCCESS)
        *key_p = key;
    return ret;
}

HG_PRIVATE void *hg_map_remove(struct hg_map *map, uint64_t key)
{
    struct hg_map_entry *entry = hg_map_find(map, key);
    size_t mask = map->capacity - 1;
    void *value;
    size_t i;

    if (entry == NULL)
        return NULL;
    value = entry->value;
    entry->value = &hg_map_tombstone;
    map->count--;
    /* A tombstone before a free entry keeps no probe going. */
    i = (size_t) (entry - map->entries);
    if (map->entries[(i + 1) & mask].value == NULL) {
        while (map->entries[i].value == (void *) &hg_map_tombstone) {
            map->entries[i].value = NULL;
            map->used--;
            i = (i - 1) & mask;
        }
    }
    assert(map->count <= map->used);
    return value;
}

HG_PRIVATE void *hg_map_next(
    const struct hg_map *map, size_t *cursor, uint64_t *key_p)
{
    while (*cursor < map->capacity) {
        const struct hg_map_entry *entry = &map->entries[(*cursor)++];

        if (hg_map_is_live(entry)) {
            *key_p = entry->key;
            return entry->value;
        }
    }
    return NULL;
}

/* ---- Slots ---- */

struct hg_slots_entry {
    void *value; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1, 0: none; of a free slot */
};

static uint64_t hg_slots_id(const struct hg_slots *slots, uint32_t index)
{
    return (uint64_t) slots->entries[index].generation << 32 | (index + 1);
}

/* The live entry that `id` names, or NULL. */
static HG_HOT struct hg_slots_entry *hg_slots_find(
    const struct hg_slots *slots, uint64_t id)
{
    uint32_t number = (uint32_t) id;
    struct hg_slots_entry *entry;

    if (number == 0 || number > slots->capacity)
        return NULL;
    entry = &slots->entries[number - 1];
    if (entry->value == NULL || entry->generation != (uint32_t) (id >> 32))
        return NULL;
    return entry;
}

/* Double the slots, all of which are taken. */
static hg_return_t hg_slots_grow(struct hg_slots *slots)
{
    uint32_t capacity =
        slots->capacity == 0 ? HG_SLOTS_MIN : slots->capacity * 2;
    struct hg_slots_entry *entries;
    uint32_t i;

    assert(slots->free_head == 0 && slots->count == slots->capacity);
    if (capacity > HG_SLOTS_LIMIT) {
        hg_log_error(
            "mem", "more than %" PRIu32 " objects of one kind", HG_SLOTS_LIMIT);
        return HG_OVERFLOW;
    }
    entries = (struct hg_slots_entry *) hg_mem_realloc(
        slots->entries, capacity * sizeof(*entries));
    if (entries == NULL) {
        hg_log_error("mem", "no memory for %" PRIu32 " slots", capacity);
        return HG_NOMEM;
    }
    for (i = slots->capacity; i < capacity; i++) {
        entries[i].value = NULL;
        entries[i].generation = 0;
        entries[i].next_free = i + 1 < capacity ? i + 2 : 0;
    }
    slots->free_head = slots->capacity + 1;
    slots->entries = entries;
    slots->capacity = capacity;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_slots_init(struct hg_slots *slots)
{
    memset(slots, 0, sizeof(*slots));
}

HG_PRIVATE void hg_slots_fini(struct hg_slots *slots)
{
    hg_mem_free(slots->entries);
    hg_slots_init(slots);
}

HG_PRIVATE hg_return_t hg_slots_add(
    struct hg_slots *slots, void *value, uint64_t *id_p)
{
    struct hg_slots_entry *entry;
    uint32_t index;

    assert(value != NULL);
    if (slots->free_head == 0) {
        hg_return_t ret = hg_slots_grow(slots);

        if (ret != HG_SUCCESS)
            return ret;
    }
    index = slots->free_head - 1;
    entry = &slots->entries[index];
    assert(entry->value == NULL);
    slots->free_head = entry->next_free;
    entry->value = value;
    slots->count++;
    *id_p = hg_slots_id(slots, index);
    return HG_SUCCESS;
}

HG_PRIVATE void *hg_slots_get(const struct hg_slots *slots, uint64_t id)
{
    const struct hg_slots_entry *entry = hg_slots_find(slots, id);

    return entry != NULL ? entry->value : NULL;
}

HG_PRIVATE void *hg_slots_live(
    const struct hg_slots *slots, uint32_t number, uint64_t *id_p)
{
    if (number == 0 || number > slots->capacity)
        return NULL;
    *id_p = hg_slots_id(slots, number - 1);
    return slots->entries[number - 1].value;
}

HG_PRIVATE void *hg_slots_remove(struct hg_slots *slots, uint64_t id)
{
    struct hg_slots_entry *entry = hg_slots_find(slots, id);
    void *value;

    if (entry == NULL)
        return NULL;
    value = entry->value;
    entry->value = NULL;
    entry->generation++;
    entry->next_free = slots->free_head;
    slots->free_head = (uint32_t) id;
    slots->count--;
    return value;
}

HG_PRIVATE HG_HOT uint64_t hg_slots_renew(struct hg_slots *slots, uint64_t id)
{
    assert(hg_slots_find(slots, id) != NULL);
    slots->entries[(uint32_t) id - 1].generation++;
    return id + (UINT64_C(1) << 32);
}

HG_PRIVATE void *hg_slots_next(
    const struct hg_slots *slots, uint32_t *cursor, uint64_t *id_p)
{
    while (*cursor < slots->capacity) {
        uint32_t index = (*cursor)++;

        if (slots->entries[index].value != NULL) {
            *id_p = hg_slots_id(slots, index);
            return slots->entries[index].value;
        }
    }
    return NULL;
}
