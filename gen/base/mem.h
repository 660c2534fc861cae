/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem: all heap allocations.
 *
 * The library allocates only through these functions, so that HG_Set_allocator
 * can replace the heap and a test can make an allocation fail.
 *
 * Locking: the allocator is set before first use and then read without a lock.
 */
#ifndef HG_GEN_BASE_MEM_H
#define HG_GEN_BASE_MEM_H

#include "base/os.h"

/* Allocate `size` bytes (0 counts as 1), uninitialized. NULL: out of memory;
 * the caller reports it. Any thread. */
HG_PRIVATE void *hg_mem_alloc(size_t size);

/* Allocate zeroed memory. NULL also when count * size overflows. */
HG_PRIVATE void *hg_mem_calloc(size_t count, size_t size);

/* Resize; NULL: out of memory, and the old block is unchanged. */
HG_PRIVATE void *hg_mem_realloc(void *ptr, size_t size);

/* Free; NULL is allowed. */
HG_PRIVATE void hg_mem_free(void *ptr);

/* Copy a string; NULL: out of memory. `str` is not NULL. */
HG_PRIVATE char *hg_mem_strdup(const char *str);

/* Hides a constant size from the compiler. To clear or copy a hundred bytes it
 * then calls the C library, which is tuned for the processor, instead of a
 * string instruction, which starts slowly. */
static inline size_t hg_mem_unknown(size_t size)
{
#if defined(__GNUC__)
    __asm__("" : "+r"(size));
#endif
    return size;
}

#endif
