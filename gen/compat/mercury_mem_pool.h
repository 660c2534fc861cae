/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's pool of registered memory, which hg does not have. */
#ifndef HG_COMPAT_MERCURY_MEM_POOL_H
#define HG_COMPAT_MERCURY_MEM_POOL_H

#include "mercury_util_config.h"

#define HG_MEM_POOL_TEXT \
    "hg has no hg_mem_pool: allocate and register by yourself"

typedef int (*hg_mem_pool_register_func_t)(const void *buf, size_t size,
    unsigned long flags, void **handle, void *arg);
typedef int (*hg_mem_pool_deregister_func_t)(void *handle, void *arg);

#ifdef __cplusplus
extern "C" {
#endif

struct hg_mem_pool *hg_mem_pool_create(size_t chunk_size, size_t chunk_count,
    size_t block_count, hg_mem_pool_register_func_t register_func,
    unsigned long flags, hg_mem_pool_deregister_func_t deregister_func,
    void *arg) HG_ATTR_MISSING(HG_MEM_POOL_TEXT);
HG_MISSING(hg_mem_pool_destroy, HG_MEM_POOL_TEXT);
void *hg_mem_pool_alloc(struct hg_mem_pool *hg_mem_pool, size_t size,
    void **mr_handle) HG_ATTR_MISSING(HG_MEM_POOL_TEXT);
HG_MISSING(hg_mem_pool_free, HG_MEM_POOL_TEXT);
HG_MISSING(hg_mem_pool_chunk_offset, HG_MEM_POOL_TEXT);

#ifdef __cplusplus
}
#endif

#endif
