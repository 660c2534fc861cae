/* SPDX-License-Identifier: BSD-3-Clause */
/* shared: see shared.h. */
#include "na/shared.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "emul/emul.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/rma.h"

/* Of memory that no transport allocates; a divisor of every size of a page. */
#define NA_SHARED_ALIGN ((size_t) 4096)

/* An allocation, or a mapped pointer. */
struct na_shared {
    struct na_link link;
    const void *ptr; /* as the application knows it */
    const void *user;
    struct na_mem_block block;
};

/* ---- Records ---- */

/* NULL: out of memory (logged). */
static struct na_shared *na_shared_new(const char *what)
{
    struct na_shared *shared =
        (struct na_shared *) hg_mem_calloc(1, sizeof(*shared));

    if (shared == NULL)
        hg_log_error("rma", "no memory for the record of %s", what);
    return shared;
}

static void na_shared_enter(struct na_class *na_class, struct na_link *list,
    struct na_shared *shared, void *ptr)
{
    struct na_class_core *core = na_class_core_of(na_class);

    shared->ptr = ptr;
    hg_enter(core->lock);
    hg_list_push(list, &shared->link);
    hg_leave(core->lock);
}

/* Free the memory of a record, and the record. */
static void na_shared_free(struct na_shared *shared)
{
    na_rma_free(&shared->block);
    hg_mem_free(shared);
}

/* Remove the record of a pointer and free it; false: there is none. */
static bool na_shared_remove(struct na_class *na_class, struct na_link *list,
    const void *ptr, const void *user)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_shared *shared = NULL;
    struct na_link *link;

    hg_enter(core->lock);
    for (link = list->next; link != list && shared == NULL; link = link->next) {
        shared = HG_CONTAINER_OF(link, struct na_shared, link);
        if (shared->ptr != ptr || shared->user != user)
            shared = NULL;
    }
    if (shared != NULL)
        hg_list_remove(&shared->link);
    hg_leave(core->lock);
    if (shared == NULL)
        return false;
    na_shared_free(shared);
    return true;
}

HG_PRIVATE unsigned na_shared_release_all(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_link *link;
    unsigned n = 0;

    while ((link = hg_list_pop(&core->maps)) != NULL ||
        (link = hg_list_pop(&core->blocks)) != NULL) {
        na_shared_free(HG_CONTAINER_OF(link, struct na_shared, link));
        n++;
    }
    return n;
}

/* ---- Memory of the library ---- */

/* Allocate from a transport, or from the heap. NULL: out of memory. */
static void *na_shared_alloc(
    struct na_class *na_class, na_size_t size, struct na_mem_block *block)
{
    const size_t more = NA_SHARED_ALIGN - 1;

    block->size = size;
    if (na_rma_alloc_shared(na_class, NA_MEM_READWRITE, block) == NA_SUCCESS)
        return block->memory;
    if (size > SIZE_MAX - more)
        return NULL;
    block->memory = hg_mem_calloc(1, (size_t) size + more);
    if (block->memory == NULL)
        return NULL;
    return (char *) block->memory + (-(uintptr_t) block->memory & more);
}

NA_EXPORT void *NA_Mem_alloc(na_class_t *na_class, na_size_t size)
{
    struct na_shared *shared;
    void *memory;

    if (na_live_check(na_class, "NA_Mem_alloc") != NA_SUCCESS)
        return NULL;
    if (size == 0) {
        (void) hg_log_misuse("rma", "NA_Mem_alloc", "the size is 0");
        return NULL;
    }
    shared = na_shared_new("an allocation");
    if (shared == NULL)
        return NULL;
    memory = na_shared_alloc(na_class, size, &shared->block);
    if (memory == NULL) {
        hg_log_error(
            "rma", "NA_Mem_alloc: no memory for %" PRIu64 " bytes", size);
        hg_mem_free(shared);
        return NULL;
    }
    na_shared_enter(
        na_class, &na_class_core_of(na_class)->blocks, shared, memory);
    return memory;
}

NA_EXPORT na_return_t NA_Mem_free(na_class_t *na_class, void *memory)
{
    na_return_t ret = na_live_check(na_class, "NA_Mem_free");

    if (ret != NA_SUCCESS ||
        na_shared_remove(
            na_class, &na_class_core_of(na_class)->blocks, memory, NULL))
        return ret;
    return hg_log_misuse("rma", "NA_Mem_free",
        memory == NULL ? "memory is NULL"
                       : "it is no memory of NA_Mem_alloc, or was freed");
}

/* ---- Pointers ---- */

static void na_shared_return(struct na_mem_block *block)
{
    (void) block; /* the memory is another's */
}

HG_PRIVATE na_return_t na_shared_lend(
    struct na_class *na_class, void *ptr, const void *user)
{
    struct na_shared *shared = na_shared_new("a pointer");

    if (shared == NULL)
        return NA_NOMEM;
    shared->user = user;
    shared->block.memory = ptr;
    shared->block.release = na_shared_return;
    na_shared_enter(na_class, &na_class_core_of(na_class)->maps, shared, ptr);
    return NA_SUCCESS;
}

/* Find memory of this process by a handle of it. */
static na_return_t na_shared_map_own(
    const struct na_mem_handle *remote, struct na_mem_block *block)
{
    struct hg_monitor *lock = na_class_core_of(remote->na_class)->lock;
    const struct na_mem_handle *own;
    na_return_t ret;

    hg_enter(lock);
    own = na_emul_mem_find(remote);
    ret = own == NULL ? na_rma_refuse_map(remote, NA_NOENTRY)
                      : na_rma_check_described(remote, own->size, own->flags);
    if (ret == NA_SUCCESS && (own->segment_count != 1 || own->size == 0))
        ret = NA_OPNOTSUPPORT;
    if (ret == NA_SUCCESS) {
        block->memory = own->segments[0].address;
        block->release = na_shared_return;
    }
    hg_leave(lock);
    return ret;
}

/* Map the handle of one part. */
static na_return_t na_shared_map_part(struct na_mem_handle *remote,
    struct na_addr *owner, na_size_t segment, struct na_mem_block *block)
{
    if (owner == NULL || !owner->self)
        return na_class_ops(remote->na_class)
            ->mem_map(remote, owner, segment, block);
    return na_class_emul(remote->na_class) != NULL && segment == 0
        ? na_shared_map_own(remote, block)
        : NA_OPNOTSUPPORT;
}

/* Without an owner's address, the first part that can map the memory does. */
static na_return_t na_shared_try(struct na_mem_handle *remote,
    struct na_addr *owner, na_size_t segment, struct na_mem_block *block)
{
    struct na_mem_core *mem = na_mem_core_of(remote);
    na_return_t ret = NA_SUCCESS;

    if (owner != NULL) {
        ret = na_rma_pick(owner->na_class, &remote);
        return ret == NA_SUCCESS
            ? na_shared_map_part(remote, owner, segment, block)
            : ret;
    }
    do {
        ret = na_shared_map_part(&mem->pub, NULL, segment, block);
        mem = mem->next;
    } while (ret == NA_OPNOTSUPPORT && mem != NULL);
    return ret;
}

HG_PRIVATE na_return_t na_shared_map(struct na_mem_handle *remote,
    struct na_addr *owner, na_size_t segment, const void *user, void **ptr_p)
{
    struct na_class *na_class = na_class_head(remote->na_class);
    struct na_shared *shared = na_shared_new("a pointer");
    na_return_t ret;

    if (shared == NULL)
        return NA_NOMEM;
    shared->user = user;
    ret = na_shared_try(remote, owner, segment, &shared->block);
    if (ret != NA_SUCCESS) {
        hg_mem_free(shared);
        return ret;
    }
    HG_ASSERT(shared->block.memory != NULL && shared->block.release != NULL);
    *ptr_p = shared->block.memory;
    na_shared_enter(
        na_class, &na_class_core_of(na_class)->maps, shared, *ptr_p);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_shared_unmap(
    struct na_class *na_class, const void *ptr, const void *user)
{
    return na_shared_remove(
               na_class, &na_class_core_of(na_class)->maps, ptr, user)
        ? NA_SUCCESS
        : NA_NOENTRY;
}

NA_EXPORT na_return_t NA_Mem_map(na_class_t *na_class,
    na_mem_handle_t remote_mem_handle, na_addr_t owner, void **ptr)
{
    na_return_t ret =
        na_rma_check_mem(na_class, remote_mem_handle, "NA_Mem_map");

    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, owner, "NA_Mem_map");
    if (ret == NA_SUCCESS && (ptr == NULL || !remote_mem_handle->remote))
        ret = hg_log_misuse("rma", "NA_Mem_map",
            ptr == NULL ? "ptr is NULL" : "the handle was not deserialized");
    if (ret == NA_SUCCESS)
        ret = na_addr_check_alive(owner, "map");
    return ret == NA_SUCCESS
        ? na_shared_map(remote_mem_handle, owner, 0, NULL, ptr)
        : ret;
}

NA_EXPORT na_return_t NA_Mem_unmap(na_class_t *na_class, void *ptr)
{
    na_return_t ret = na_live_check(na_class, "NA_Mem_unmap");

    if (ret == NA_SUCCESS && na_shared_unmap(na_class, ptr, NULL) != NA_SUCCESS)
        ret = hg_log_misuse("rma", "NA_Mem_unmap",
            ptr == NULL ? "ptr is NULL"
                        : "it is no pointer of NA_Mem_map, or was unmapped");
    return ret;
}
