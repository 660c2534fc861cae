/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem: the one door to the heap, and pools of equal objects.
 *
 * Everything the library allocates passes through the four functions here,
 * so that HG_Set_allocator can replace the heap and a test can make any
 * allocation fail. A pool keeps freed objects for the next user; warm paths
 * take from a pool and do not reach the heap.
 *
 * Locking: the allocator is set before first use and read without a lock
 * afterwards. A pool belongs to its owner, whose lock guards it.
 */
#ifndef HG_GEN_BASE_MEM_H
#define HG_GEN_BASE_MEM_H

#include "base/os.h"

/* Allocate `size` bytes (0 counts as 1), uninitialised. NULL: out of memory;
 * the caller reports it. Any thread. */
HG_PRIVATE void *hg_mem_alloc(size_t size);

/* The same, zeroed; NULL also when count * size overflows. */
HG_PRIVATE void *hg_mem_calloc(size_t count, size_t size);

/* Resize; on NULL the old block stands. */
HG_PRIVATE void *hg_mem_realloc(void *ptr, size_t size);

/* Free; NULL is allowed. */
HG_PRIVATE void hg_mem_free(void *ptr);

/* Blocks that cross the border: `ptr` is the application's from now on, which
 * frees it as the allocator does; it was, and is the library's to free. NULL
 * is allowed. */
HG_PRIVATE void hg_mem_give(const void *ptr);
HG_PRIVATE void hg_mem_take(const void *ptr);

/* Copy a string; NULL: out of memory. `str` is not NULL. */
HG_PRIVATE char *hg_mem_strdup(const char *str);

/* `size`, as one that the compiler cannot know: to clear or copy a hundred
 * bytes it calls the C library then, which knows the processor, instead of a
 * string instruction, which takes long to begin. */
static inline size_t hg_mem_unknown(size_t size)
{
#if defined(__GNUC__)
    __asm__("" : "+r"(size));
#endif
    return size;
}

/* A pool of objects of one size. Free objects keep their contents, so that
 * buffers hanging on them survive; `fini` is called on each object before
 * its memory goes back to the heap (may be NULL). */
struct hg_pool {
    size_t object_size; /* bytes, at least sizeof(void *) + any state */
    size_t link_offset; /* where the free list's link lies in the object */
    unsigned free_count;
    unsigned max_free; /* more than this many free objects go to the heap */
    void *free_list;
    void (*fini)(void *object);
};

HG_PRIVATE void hg_pool_init(struct hg_pool *pool, size_t object_size,
    size_t link_offset, unsigned max_free, void (*fini)(void *object));

/* Release every free object. Objects still in use must have been put. */
HG_PRIVATE void hg_pool_fini(struct hg_pool *pool);

/* An object: a free one as it was put, or a new one, zeroed, with *fresh_p
 * true. NULL: out of memory. */
HG_PRIVATE void *hg_pool_get(struct hg_pool *pool, bool *fresh_p);

/* Give an object back. */
HG_PRIVATE void hg_pool_put(struct hg_pool *pool, void *object);

#endif
