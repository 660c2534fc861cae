/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules mem, list and map: compared with simple models, under random
 * operations, and with failing allocations.
 */
#include "support/library.h"

#include "harness.h"

/* ---- mem ---- */

struct data_heap {
    uint64_t mallocs;
    uint64_t reallocs;
    uint64_t frees;
    size_t last_size;
    bool fails;
};

static void *data_malloc(size_t size, void *arg)
{
    struct data_heap *heap = (struct data_heap *) arg;

    heap->mallocs++;
    heap->last_size = size;
    return heap->fails ? NULL : memset(malloc(size), 0xa5, size);
}

static void *data_realloc(void *ptr, size_t size, void *arg)
{
    struct data_heap *heap = (struct data_heap *) arg;

    heap->reallocs++;
    heap->last_size = size;
    return heap->fails ? NULL : realloc(ptr, size);
}

static void data_free(void *ptr, void *arg)
{
    struct data_heap *heap = (struct data_heap *) arg;

    heap->frees++;
    free(ptr);
}

static struct hg_allocator data_allocator(struct data_heap *heap)
{
    struct hg_allocator allocator = {
        sizeof(allocator), data_malloc, data_realloc, data_free, heap};

    return allocator;
}

HG_TEST(mem_passes_everything_to_the_allocator)
{
    struct data_heap heap = {0, 0, 0, 0, false};
    struct hg_allocator allocator = data_allocator(&heap);
    unsigned char *zeros;
    char *copy;
    void *ptr;

    HG_CHECK_OK(HG_Set_allocator(&allocator));
    ptr = hg_mem_alloc(0);
    HG_CHECK(ptr != NULL);
    HG_CHECK_EQ_U64(heap.last_size, 1);
    ptr = hg_mem_realloc(ptr, 100);
    HG_CHECK_EQ_U64(heap.reallocs, 1);
    hg_mem_free(ptr);
    zeros = (unsigned char *) hg_mem_calloc(3, 5);
    HG_CHECK_EQ_U64(heap.last_size, 15);
    HG_CHECK_EQ_MEM(zeros, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    hg_mem_free(zeros);
    copy = hg_mem_strdup("copied");
    HG_CHECK_EQ_STR(copy, "copied");
    hg_mem_free(copy);
    ptr = hg_mem_realloc(NULL, 7);
    HG_CHECK_EQ_U64(heap.reallocs, 1);
    hg_mem_free(ptr);
    hg_mem_free(NULL);
    HG_CHECK_EQ_U64(heap.mallocs, 4);
    HG_CHECK_EQ_U64(heap.frees, 4);

    HG_CHECK_OK(HG_Set_allocator(NULL));
    hg_mem_free(hg_mem_alloc(10));
    HG_CHECK_EQ_U64(heap.mallocs, 4);
}

HG_TEST(mem_reports_failure)
{
    struct data_heap heap = {0, 0, 0, 0, false};
    struct hg_allocator allocator = data_allocator(&heap);
    char *ptr;

    HG_CHECK(hg_mem_calloc(SIZE_MAX / 2, 3) == NULL);
    HG_CHECK_OK(HG_Set_allocator(&allocator));
    HG_CHECK(hg_mem_calloc(SIZE_MAX / 2, 3) == NULL);
    ptr = hg_mem_strdup("stays");
    heap.fails = true;
    HG_CHECK(hg_mem_alloc(1) == NULL);
    HG_CHECK(hg_mem_calloc(1, 1) == NULL);
    HG_CHECK(hg_mem_strdup("") == NULL);
    HG_CHECK(hg_mem_realloc(ptr, 1000) == NULL);
    HG_CHECK_EQ_STR(ptr, "stays");
    hg_mem_free(ptr);
    /* Failed allocations are not counted. */
    HG_CHECK_OK(HG_Set_allocator(NULL));
}

HG_TEST(mem_refuses_a_bad_allocator)
{
    struct data_heap heap = {0, 0, 0, 0, false};
    struct hg_allocator allocator;

    hg_test_expect_log("a member is missing");
    allocator = data_allocator(&heap);
    allocator.size--;
    HG_CHECK_RET(HG_Set_allocator(&allocator), HG_INVALID_ARG);
    allocator = data_allocator(&heap);
    allocator.malloc_fn = NULL;
    HG_CHECK_RET(HG_Set_allocator(&allocator), HG_INVALID_ARG);
    allocator = data_allocator(&heap);
    allocator.realloc_fn = NULL;
    HG_CHECK_RET(HG_Set_allocator(&allocator), HG_INVALID_ARG);
    allocator = data_allocator(&heap);
    allocator.free_fn = NULL;
    HG_CHECK_RET(HG_Set_allocator(&allocator), HG_INVALID_ARG);

    allocator = data_allocator(&heap);
    HG_CHECK_EQ_U64(heap.mallocs + heap.frees, 0);
    HG_CHECK_OK(HG_Set_allocator(&allocator));
}

/* ---- list ---- */

struct data_item {
    unsigned number;
    struct na_link link;
};

static unsigned data_pop(struct na_link *head)
{
    struct na_link *link = hg_list_pop(head);

    HG_CHECK(link != NULL);
    return HG_CONTAINER_OF(link, struct data_item, link)->number;
}

HG_TEST(list_keeps_insertion_order)
{
    struct data_item items[6];
    struct na_link head;
    struct na_link other;
    unsigned i;

    hg_list_init(&head);
    hg_list_init(&other);
    HG_CHECK(hg_list_is_empty(&head));
    HG_CHECK(hg_list_pop(&head) == NULL);
    for (i = 0; i < 6; i++) {
        items[i].number = i;
        hg_list_push(i < 4 ? &head : &other, &items[i].link);
    }
    hg_list_remove(&items[1].link);
    hg_list_remove(&items[1].link);
    hg_list_splice(&head, &other);
    HG_CHECK(hg_list_is_empty(&other));
    hg_list_splice(&head, &other);
    hg_list_push(&head, &items[1].link);
    HG_CHECK_EQ_U64(data_pop(&head), 0);
    HG_CHECK_EQ_U64(data_pop(&head), 2);
    HG_CHECK_EQ_U64(data_pop(&head), 3);
    HG_CHECK_EQ_U64(data_pop(&head), 4);
    HG_CHECK_EQ_U64(data_pop(&head), 5);
    HG_CHECK_EQ_U64(data_pop(&head), 1);
    HG_CHECK(hg_list_is_empty(&head));
}

/* ---- map ---- */

#define DATA_KEYS 700u

/* Keys as close together or as far apart as a peer may choose them. */
static uint64_t data_key(unsigned n)
{
    return n % 3 == 0 ? n
        : n % 3 == 1  ? (uint64_t) n << 40
                      : n * UINT64_C(0x9e3779b97f4a7c15);
}

static void data_compare(const struct hg_map *map, char *const *model)
{
    bool seen[DATA_KEYS] = {false};
    size_t cursor = 0;
    size_t count = 0;
    uint64_t key = 0;
    unsigned i;
    void *value;

    for (i = 0; i < DATA_KEYS; i++) {
        HG_CHECK(hg_map_get(map, data_key(i)) == model[i]);
        count += model[i] != NULL;
    }
    HG_CHECK_EQ_U64(map->count, count);
    HG_CHECK(map->count <= map->used);
    HG_CHECK(map->used * 3 <= map->capacity * 2);
    while ((value = hg_map_next(map, &cursor, &key)) != NULL) {
        for (i = 0; i < DATA_KEYS && data_key(i) != key; i++)
            continue;
        HG_CHECK(i < DATA_KEYS && model[i] == value && !seen[i]);
        seen[i] = true;
        count--;
    }
    HG_CHECK_EQ_U64(count, 0);
}

HG_TEST(map_equals_a_naive_model)
{
    static char values[4];
    char *model[DATA_KEYS] = {NULL};
    uint64_t state = hg_test_seed();
    struct hg_map map;
    unsigned round;

    hg_map_init(&map);
    data_compare(&map, model);
    HG_CHECK(hg_map_remove(&map, 5) == NULL);
    for (round = 0; round < 60000; round++) {
        unsigned i = (unsigned) (hg_test_random(&state) % DATA_KEYS);
        uint64_t dice = hg_test_random(&state) % 100;
        /* Phases of growth and of shrinking. */
        uint64_t puts = round / 5000 % 2 == 0 ? 65 : 35;

        if (dice < puts) {
            model[i] = &values[dice % 4];
            HG_CHECK_OK(hg_map_put(&map, data_key(i), model[i]));
        } else {
            HG_CHECK(hg_map_remove(&map, data_key(i)) == model[i]);
            model[i] = NULL;
        }
        if (round % 500 == 0)
            data_compare(&map, model);
    }
    data_compare(&map, model);
    hg_map_fini(&map);
    HG_CHECK(hg_map_get(&map, 3) == NULL);
}

HG_TEST(map_stays_small_under_churn)
{
    static char value;
    struct hg_map map;
    uint64_t key;

    hg_map_init(&map);
    for (key = 0; key < 100000; key++) {
        HG_CHECK_OK(hg_map_put(&map, key, &value));
        if (key >= 8)
            HG_CHECK(hg_map_remove(&map, key - 8) == &value);
    }
    HG_CHECK_EQ_U64(map.count, 8);
    HG_CHECK(map.capacity <= 64);
    hg_map_fini(&map);
}

HG_TEST(map_entries_may_be_removed_during_iteration)
{
    static char value;
    struct hg_map map;
    size_t cursor = 0;
    unsigned count;
    uint64_t key = 0;

    hg_map_init(&map);
    for (count = 0; count < 1000; count++) {
        HG_CHECK_OK(hg_map_add(&map, &value, &key)); /* under random keys */
        HG_CHECK(key != 0 && hg_map_get(&map, key) == &value);
    }
    HG_CHECK_EQ_U64(map.count, 1000);
    for (count = 0; hg_map_next(&map, &cursor, &key) != NULL; count++)
        HG_CHECK(hg_map_remove(&map, key) == &value);
    HG_CHECK_EQ_U64(count, 1000);
    HG_CHECK_EQ_U64(map.count, 0);
    HG_CHECK_EQ_U64(map.used, 0);
    hg_map_fini(&map);
}

static int data_fill_map(void *arg)
{
    struct hg_map map;
    uint64_t key;
    int ret = 0;

    hg_map_init(&map);
    for (key = 0; key < 100 && ret == 0; key++) {
        ret = hg_map_put(&map, key, arg);
        HG_CHECK(hg_map_get(&map, key) == (ret == 0 ? arg : NULL));
    }
    /* Entries added before an allocation failed are still there. */
    HG_CHECK_EQ_U64(map.count, ret == 0 ? key : key - 1);
    hg_map_fini(&map);
    return ret;
}

HG_TEST(map_survives_allocation_failures)
{
    static char value;

    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(data_fill_map, &value) >= 4);
}

/* ---- slots ---- */

HG_TEST(slots_distinguish_generations)
{
    static char values[2];
    struct hg_slots slots;
    uint64_t first = 0;
    uint64_t second = 0;
    uint64_t other = 0;

    hg_slots_init(&slots);
    HG_CHECK(hg_slots_get(&slots, 0) == NULL);
    HG_CHECK(hg_slots_get(&slots, 1) == NULL);
    HG_CHECK_OK(hg_slots_add(&slots, &values[0], &first));
    HG_CHECK_OK(hg_slots_add(&slots, &values[1], &other));
    HG_CHECK(first != 0 && other != 0 && first != other);
    HG_CHECK(hg_slots_get(&slots, first) == &values[0]);
    HG_CHECK(hg_slots_remove(&slots, first) == &values[0]);
    HG_CHECK(hg_slots_remove(&slots, first) == NULL);
    HG_CHECK_OK(hg_slots_add(&slots, &values[0], &second));
    HG_CHECK_EQ_U64(second & UINT32_MAX, first & UINT32_MAX);
    HG_CHECK(second != first);
    HG_CHECK(hg_slots_get(&slots, first) == NULL);
    HG_CHECK(hg_slots_remove(&slots, first) == NULL);
    HG_CHECK(hg_slots_get(&slots, second) == &values[0]);
    HG_CHECK(hg_slots_get(&slots, other) == &values[1]);
    HG_CHECK(hg_slots_get(&slots, UINT64_MAX) == NULL);
    first = second;
    second = hg_slots_renew(&slots, first);
    HG_CHECK(hg_slots_get(&slots, first) == NULL);
    HG_CHECK(hg_slots_get(&slots, second) == &values[0]);
    HG_CHECK_EQ_INT(slots.count, 2);
    HG_CHECK(hg_slots_remove(&slots, second) == &values[0]);
    HG_CHECK_OK(hg_slots_add(&slots, &values[0], &first));
    HG_CHECK(first != second);
    hg_slots_fini(&slots);
}

#define DATA_SLOTS 300u

HG_TEST(slots_equal_a_naive_model)
{
    static char values[DATA_SLOTS];
    uint64_t ids[DATA_SLOTS] = {0};
    uint64_t stale[DATA_SLOTS] = {0};
    uint64_t state = hg_test_seed();
    struct hg_slots slots;
    uint32_t cursor = 0;
    uint32_t count = 0;
    unsigned round;
    uint64_t id = 0;
    char *value;

    hg_slots_init(&slots);
    for (round = 0; round < 50000; round++) {
        unsigned i = (unsigned) (hg_test_random(&state) % DATA_SLOTS);

        HG_CHECK(hg_slots_get(&slots, ids[i]) == (ids[i] ? &values[i] : NULL));
        HG_CHECK(hg_slots_get(&slots, stale[i]) == NULL);
        if (ids[i] == 0) {
            HG_CHECK_OK(hg_slots_add(&slots, &values[i], &ids[i]));
            count++;
        } else {
            HG_CHECK(hg_slots_remove(&slots, ids[i]) == &values[i]);
            stale[i] = ids[i];
            ids[i] = 0;
            count--;
        }
        HG_CHECK_EQ_U64(slots.count, count);
    }
    while ((value = (char *) hg_slots_next(&slots, &cursor, &id)) != NULL) {
        HG_CHECK_EQ_U64(ids[value - values], id);
        HG_CHECK(hg_slots_remove(&slots, id) == value);
        count--;
    }
    HG_CHECK_EQ_U64(count, 0);
    HG_CHECK_EQ_U64(slots.count, 0);
    HG_CHECK(slots.capacity <= 1024);
    hg_slots_fini(&slots);
}

HG_TEST(slots_are_refused_past_the_limit)
{
    static char value;
    struct hg_slots slots;
    uint64_t id = 77;

    hg_test_expect_log("more than 16777200 objects");
    /* Full, as far as an addition searches. */
    hg_slots_init(&slots);
    slots.capacity = HG_SLOTS_LIMIT;
    slots.count = HG_SLOTS_LIMIT;
    HG_CHECK_RET(hg_slots_add(&slots, &value, &id), HG_OVERFLOW);
    HG_CHECK_EQ_U64(id, 77);
}

static int data_fill_slots(void *arg)
{
    struct hg_slots slots;
    uint64_t first = 0;
    uint64_t id;
    unsigned i;
    int ret;

    hg_slots_init(&slots);
    ret = hg_slots_add(&slots, arg, &first);
    for (i = 1; i < 300 && ret == 0; i++)
        ret = hg_slots_add(&slots, arg, &id);
    HG_CHECK(hg_slots_get(&slots, first) == (first != 0 ? arg : NULL));
    hg_slots_fini(&slots);
    return ret;
}

HG_TEST(slots_survive_allocation_failures)
{
    static char value;

    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(data_fill_slots, &value) >= 4);
}
