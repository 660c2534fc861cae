/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map: maps 64-bit numbers to pointers; and slots: map an index with a
 * generation to a pointer.
 *
 * Invariants of a map: capacity is 0 or a power of two; count <= used; at most
 * two thirds of the entries are used, so every probe reaches a free one and
 * ends. An entry is free (value NULL), a tombstone (value &hg_map_tombstone) or
 * live. Growing removes the tombstones.
 *
 * The position of a key is its product with a secret odd number, folded:
 * without knowing the secret, keys cannot be chosen to collide.
 *
 * Invariants of slots: the free list links the entries whose value is NULL; a
 * generation is incremented when its slot is emptied or renewed.
 */
#include "base/map.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define HG_MAP_MIN 16u

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
    HG_ASSERT(map->used < map->capacity);
    for (i = hg_map_place(map, key); map->entries[i].value != NULL;
         i = (i + 1) & (map->capacity - 1))
        if (map->entries[i].key == key && hg_map_is_live(&map->entries[i]))
            return &map->entries[i];
    return NULL;
}

/* Put a new key into a table that has a free entry. */
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

/* Move to a new table in which the live entries and one more fill at most half:
 * the next move comes after at least a sixth of the table was added. */
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
    map->capacity = capacity;
    map->count = 0;
    map->used = 0;
    for (i = 0; i < old.capacity; i++)
        if (hg_map_is_live(&old.entries[i]))
            hg_map_insert(map, old.entries[i].key, old.entries[i].value);
    HG_ASSERT(map->count == old.count);
    hg_mem_free(old.entries);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_map_init(struct hg_map *map)
{
    memset(map, 0, sizeof(*map));
    map->secret = hg_clock_random() | 1;
}

HG_PRIVATE void hg_map_fini(struct hg_map *map)
{
    hg_mem_free(map->entries);
    memset(map, 0, sizeof(*map));
}

HG_PRIVATE void *hg_map_get(const struct hg_map *map, uint64_t key)
{
    const struct hg_map_entry *entry = hg_map_find(map, key);

    return entry != NULL ? entry->value : NULL;
}

HG_PRIVATE hg_return_t hg_map_put(struct hg_map *map, uint64_t key, void *value)
{
    struct hg_map_entry *entry = hg_map_find(map, key);

    HG_ASSERT(value != NULL);
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
    while (key != 0 && hg_map_find(map, key) != NULL);
    if (key == 0)
        return HG_NODEV;
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
    /* A tombstone before a free entry is not needed for any probe. */
    i = (size_t) (entry - map->entries);
    if (map->entries[(i + 1) & mask].value == NULL) {
        while (map->entries[i].value == (void *) &hg_map_tombstone) {
            map->entries[i].value = NULL;
            map->used--;
            i = (i - 1) & mask;
        }
    }
    HG_ASSERT(map->count <= map->used);
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
    _Atomic(void *) value; /* NULL: free */
    _Atomic uint32_t generation;
    uint32_t next_free; /* index + 1, 0: none; of a free slot */
};

/* Chunk k has HG_SLOTS_MIN << k slots, and follows those before it. */
static unsigned hg_slots_chunk_of(uint32_t index)
{
    return 31u - (unsigned) __builtin_clz(index / HG_SLOTS_MIN + 1);
}

static uint32_t hg_slots_first_of(unsigned chunk)
{
    return HG_SLOTS_MIN * ((UINT32_C(1) << chunk) - 1);
}

static HG_HOT struct hg_slots_entry *hg_slots_at(
    const struct hg_slots *slots, uint32_t index)
{
    unsigned chunk = hg_slots_chunk_of(index);

    return atomic_load_explicit(&slots->chunks[chunk], memory_order_acquire) +
        (index - hg_slots_first_of(chunk));
}

static uint64_t hg_slots_id(const struct hg_slots_entry *entry, uint32_t index)
{
    return (uint64_t) atomic_load_explicit(
               &entry->generation, memory_order_relaxed)
        << 32 |
        (index + 1);
}

/* End a generation. Called by the owner. */
static void hg_slots_age(struct hg_slots_entry *entry)
{
    uint32_t generation =
        atomic_load_explicit(&entry->generation, memory_order_relaxed);

    atomic_store_explicit(
        &entry->generation, generation + 1, memory_order_relaxed);
}

/* Double the number of slots, since all are in use. */
static hg_return_t hg_slots_grow(struct hg_slots *slots)
{
    uint32_t first =
        atomic_load_explicit(&slots->capacity, memory_order_relaxed);
    unsigned chunk = hg_slots_chunk_of(first);
    uint32_t count = HG_SLOTS_MIN << chunk;
    struct hg_slots_entry *entries;
    uint32_t i;

    HG_ASSERT(slots->free_head == 0 && slots->count == first);
    if (first >= HG_SLOTS_LIMIT) {
        hg_log_error("mem", "more than %" PRIu32 " objects of one kind", first);
        return HG_OVERFLOW;
    }
    entries = (struct hg_slots_entry *) hg_mem_calloc(count, sizeof(*entries));
    if (entries == NULL) {
        hg_log_error("mem", "no memory for %" PRIu32 " slots", count);
        return HG_NOMEM;
    }
    for (i = 0; i < count; i++)
        entries[i].next_free = i + 1 < count ? first + i + 2 : 0;
    atomic_store_explicit(&slots->chunks[chunk], entries, memory_order_release);
    atomic_store_explicit(
        &slots->capacity, first + count, memory_order_release);
    slots->free_head = first + 1;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_slots_init(struct hg_slots *slots)
{
    memset(slots, 0, sizeof(*slots));
}

HG_PRIVATE void hg_slots_fini(struct hg_slots *slots)
{
    unsigned i;

    for (i = 0; i < HG_SLOTS_CHUNKS; i++)
        hg_mem_free(atomic_load(&slots->chunks[i]));
    hg_slots_init(slots);
}

HG_PRIVATE hg_return_t hg_slots_add(
    struct hg_slots *slots, void *value, uint64_t *id_p)
{
    struct hg_slots_entry *entry;
    uint32_t index;

    HG_ASSERT(value != NULL);
    if (slots->free_head == 0) {
        hg_return_t ret = hg_slots_grow(slots);

        if (ret != HG_SUCCESS)
            return ret;
    }
    index = slots->free_head - 1;
    entry = hg_slots_at(slots, index);
    slots->free_head = entry->next_free;
    atomic_store_explicit(&entry->value, value, memory_order_release);
    slots->count++;
    *id_p = hg_slots_id(entry, index);
    return HG_SUCCESS;
}

HG_PRIVATE HG_HOT void *hg_slots_live(
    const struct hg_slots *slots, uint32_t number, uint64_t *id_p)
{
    const struct hg_slots_entry *entry;

    if (number == 0 ||
        number > atomic_load_explicit(&slots->capacity, memory_order_acquire))
        return NULL;
    entry = hg_slots_at(slots, number - 1);
    *id_p = hg_slots_id(entry, number - 1);
    return atomic_load_explicit(&entry->value, memory_order_acquire);
}

HG_PRIVATE HG_HOT void *hg_slots_get(const struct hg_slots *slots, uint64_t id)
{
    uint64_t live = 0;
    void *value = hg_slots_live(slots, (uint32_t) id, &live);

    return live == id ? value : NULL;
}

HG_PRIVATE void *hg_slots_remove(struct hg_slots *slots, uint64_t id)
{
    void *value = hg_slots_get(slots, id);
    struct hg_slots_entry *entry;

    if (value == NULL)
        return NULL;
    entry = hg_slots_at(slots, (uint32_t) id - 1);
    hg_slots_age(entry);
    atomic_store_explicit(&entry->value, NULL, memory_order_relaxed);
    entry->next_free = slots->free_head;
    slots->free_head = (uint32_t) id;
    slots->count--;
    return value;
}

HG_PRIVATE HG_HOT uint64_t hg_slots_renew(struct hg_slots *slots, uint64_t id)
{
    HG_ASSERT(hg_slots_get(slots, id) != NULL);
    hg_slots_age(hg_slots_at(slots, (uint32_t) id - 1));
    return id + (UINT64_C(1) << 32);
}

HG_PRIVATE void *hg_slots_next(
    const struct hg_slots *slots, uint32_t *cursor, uint64_t *id_p)
{
    while (*cursor < atomic_load(&slots->capacity)) {
        void *value = hg_slots_live(slots, ++*cursor, id_p);

        if (value != NULL)
            return value;
    }
    return NULL;
}
