/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem: all heap allocations.
 *
 * Invariants: an allocator is either complete or absent (malloc_fn NULL: the
 * system's heap); no request of size 0 reaches it.
 *
 * Locking: none. When the application sets the allocator, no thread may be
 * inside the library and no block may be allocated.
 */
#include "base/mem.h"

#include "base/log.h"

static struct hg_allocator hg_mem_custom;

HG_EXPORT hg_return_t HG_Set_allocator(const struct hg_allocator *allocator)
{
    static const struct hg_allocator heap = {0, NULL, NULL, NULL, NULL};

    if (allocator != NULL &&
        (allocator->size < sizeof(*allocator) || allocator->malloc_fn == NULL ||
            allocator->realloc_fn == NULL || allocator->free_fn == NULL)) {
        hg_log_error("mem", "HG_Set_allocator: a member is missing");
        return HG_INVALID_ARG;
    }
    hg_mem_custom = allocator != NULL ? *allocator : heap;
    return HG_SUCCESS;
}

HG_PRIVATE void *hg_mem_alloc(size_t size)
{
    if (size == 0)
        size = 1;
    if (hg_mem_custom.malloc_fn != NULL)
        return hg_mem_custom.malloc_fn(size, hg_mem_custom.arg);
    return malloc(size);
}

HG_PRIVATE void *hg_mem_calloc(size_t count, size_t size)
{
    void *ptr;

    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    /* The system's calloc does not clear pages that are zero already. */
    if (hg_mem_custom.malloc_fn == NULL)
        return calloc(1, count * size > 0 ? count * size : 1);
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

HG_PRIVATE void hg_mem_free(void *ptr)
{
    if (hg_mem_custom.free_fn == NULL)
        free(ptr);
    else if (ptr != NULL)
        hg_mem_custom.free_fn(ptr, hg_mem_custom.arg);
}

HG_PRIVATE char *hg_mem_strdup(const char *str)
{
    size_t size = strlen(str) + 1;
    char *copy = (char *) hg_mem_alloc(size);

    if (copy != NULL)
        memcpy(copy, str, size);
    return copy;
}
