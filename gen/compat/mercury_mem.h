/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is aligned, in huge pages, or behind a header. */
#ifndef HG_COMPAT_MERCURY_MEM_H
#define HG_COMPAT_MERCURY_MEM_H

#include "mercury_util_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if HG_UTIL_DECLARE_POSIX
int posix_memalign(void **mem_ptr, size_t alignment, size_t size);
#endif

#define HG_MEM_CACHE_LINE_SIZE 64
#define HG_MEM_PAGE_SIZE 4096

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE long hg_mem_get_page_size(void)
{
    return sysconf(_SC_PAGESIZE);
}

/* 0: unknown. */
static HG_UTIL_INLINE long hg_mem_get_hugepage_size(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    long size = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, (int) sizeof(line), file) != NULL)
        if (sscanf(line, "Hugepagesize: %ld", &size) == 1)
            break;
    (void) fclose(file);
    return size * 1024;
}

/* `alignment` is a power of two and at least sizeof(void *). */
static HG_UTIL_INLINE void *hg_mem_aligned_alloc(size_t alignment, size_t size)
{
    void *mem_ptr;

    return posix_memalign(&mem_ptr, alignment, size) == 0 ? mem_ptr : NULL;
}

static HG_UTIL_INLINE void hg_mem_aligned_free(void *mem_ptr)
{
    free(mem_ptr);
}

/* NULL: the system has no huge pages left. */
#ifdef MAP_HUGETLB
static HG_UTIL_INLINE void *hg_mem_huge_alloc(size_t size)
{
    void *mem_ptr = mmap(NULL, size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

    return mem_ptr != MAP_FAILED ? mem_ptr : NULL;
}

static HG_UTIL_INLINE int hg_mem_huge_free(void *mem_ptr, size_t size)
{
    return munmap(mem_ptr, size) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}
#endif

/* The header's size, rounded up to the alignment (0: none). */
static HG_UTIL_INLINE size_t hg_mem_header_room(size_t size, size_t alignment)
{
    return alignment > 0 ? (size + alignment - 1) / alignment * alignment
                         : size;
}

/* Memory with `header_size` bytes in front of it. NULL: out of memory. */
static HG_UTIL_INLINE void *hg_mem_header_alloc(
    size_t header_size, size_t alignment, size_t size)
{
    size_t front = hg_mem_header_room(header_size, alignment);
    char *mem_ptr = (char *) malloc(front + size);

    return mem_ptr != NULL ? mem_ptr + front : NULL;
}

static HG_UTIL_INLINE void hg_mem_header_free(
    size_t header_size, size_t alignment, void *mem_ptr)
{
    if (mem_ptr != NULL)
        free((char *) mem_ptr - hg_mem_header_room(header_size, alignment));
}

void *hg_mem_shm_map(const char *name, size_t size, bool create)
    HG_ATTR_MISSING("hg has no hg_mem_shm_map: use shm_open and mmap");
int hg_mem_shm_unmap(const char *name, void *mem_ptr, size_t size)
    HG_ATTR_MISSING("hg has no hg_mem_shm_unmap: use munmap and shm_unlink");

#ifdef __cplusplus
}
#endif

#endif
