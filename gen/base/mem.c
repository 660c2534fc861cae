/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem: the one door to the heap.
 *
 * A counter of live blocks is what tells whether the allocator may still be
 * replaced: a block must go back to the allocator it came from. It also makes
 * the allocation paths touch one shared cache line, which is no loss where
 * warm paths take their objects from pools.
 *
 * Invariants: an allocator is either complete or absent (malloc_fn NULL: the
 * system's heap); no request of size 0 reaches it.
 *
 * Locking: none. hg_mem_custom changes only while no block is alive, and its
 * caller promises that nobody else is inside the library.
 */
#include "base/mem.h"

#include "base/log.h"

static struct hg_allocator hg_mem_custom;
static _Atomic size_t hg_mem_live;

HG_EXPORT hg_return_t HG_Set_allocator(const struct hg_allocator *allocator)
{
    static const struct hg_allocator heap = {0, NULL, NULL, NULL, NULL};

    if (allocator != NULL &&
        (allocator->size < sizeof(*allocator) || allocator->malloc_fn == NULL ||
            allocator->realloc_fn == NULL || allocator->free_fn == NULL)) {
        hg_log_error("mem", "HG_Set_allocator: a member is missing");
        return HG_INVALID_ARG;
    }
    if (atomic_load_explicit(&hg_mem_live, memory_order_relaxed) != 0) {
        hg_log_error("mem",
            "HG_Set_allocator: %zu blocks of the former allocator are in use",
            atomic_load_explicit(&hg_mem_live, memory_order_relaxed));
        return HG_BUSY;
    }
    hg_mem_custom = allocator != NULL ? *allocator : heap;
    return HG_SUCCESS;
}

/* Count `ptr`, unless it is NULL, as alive. */
static void *hg_mem_counted(void *ptr)
{
    if (HG_LIKELY(ptr != NULL))
        atomic_fetch_add_explicit(&hg_mem_live, 1, memory_order_relaxed);
    return ptr;
}

HG_PRIVATE void *hg_mem_alloc(size_t size)
{
    if (size == 0)
        size = 1;
    if (hg_mem_custom.malloc_fn != NULL)
        return hg_mem_counted(hg_mem_custom.malloc_fn(size, hg_mem_custom.arg));
    return hg_mem_counted(malloc(size));
}

HG_PRIVATE void *hg_mem_calloc(size_t count, size_t size)
{
    void *ptr;

    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    /* The system's calloc knows which pages are zero already. */
    if (hg_mem_custom.malloc_fn == NULL)
        return hg_mem_counted(calloc(1, count * size > 0 ? count * size : 1));
    ptr = hg_mem_alloc(count * size);
    if (ptr != NULL)
        memset(ptr, 0, count * size);
    return ptr;
}

HG_PRIVATE void *hg_mem_realloc(void *ptr, size_t size)
{
    if (ptr == NULL)
        return hg_mem_alloc(size);
    if (size == 0)
        size = 1;
    if (hg_mem_custom.realloc_fn != NULL)
        return hg_mem_custom.realloc_fn(ptr, size, hg_mem_custom.arg);
    return realloc(ptr, size);
}

HG_PRIVATE void hg_mem_give(const void *ptr)
{
    size_t before;

    if (ptr == NULL)
        return;
    before = atomic_fetch_sub_explicit(&hg_mem_live, 1, memory_order_relaxed);
    assert(before > 0);
    (void) before;
}

HG_PRIVATE void hg_mem_take(const void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_add_explicit(&hg_mem_live, 1, memory_order_relaxed);
}

HG_PRIVATE void hg_mem_free(void *ptr)
{
    size_t before;

    if (ptr == NULL)
        return;
    if (hg_mem_custom.free_fn != NULL)
        hg_mem_custom.free_fn(ptr, hg_mem_custom.arg);
    else
        free(ptr);
    before = atomic_fetch_sub_explicit(&hg_mem_live, 1, memory_order_relaxed);
    assert(before > 0);
    (void) before;
}

HG_PRIVATE char *hg_mem_strdup(const char *str)
{
    size_t size = strlen(str) + 1;
    char *copy = (char *) hg_mem_alloc(size);

    if (copy != NULL)
        memcpy(copy, str, size);
    return copy;
}
