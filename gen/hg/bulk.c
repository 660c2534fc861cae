/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk: see bulk.h. */
#include "hg/bulk.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/mux.h"
#include "na/rma.h"
#include "proc/proc.h"

static _Atomic(struct hg_bulk_layer *) hg_bulk_layer_current;

HG_PRIVATE struct hg_bulk_layer *hg_bulk_current(void)
{
    return atomic_load_explicit(&hg_bulk_layer_current, memory_order_acquire);
}

HG_PRIVATE void hg_bulk_set_current(struct hg_bulk_layer *layer)
{
    atomic_store(&hg_bulk_layer_current, layer);
}

/* ---- The layer ---- */

HG_PRIVATE hg_return_t hg_bulk_layer_create(
    struct na_class *na_class, struct hg_bulk_layer **layer_p)
{
    struct hg_bulk_layer *layer =
        (struct hg_bulk_layer *) hg_mem_calloc(1, sizeof(*layer));
    hg_return_t ret = HG_NOMEM;

    if (layer == NULL) {
        hg_log_error("bulk", "no memory for the bulk layer");
        return HG_NOMEM;
    }
    ret = hg_lock_cond_init(&layer->released);
    if (ret != HG_SUCCESS) {
        hg_mem_free(layer);
        return ret;
    }
    layer->lock = na_class_core_of(na_class)->lock;
    layer->na_class = na_class;
    layer->incarnation = hg_clock_random() | 1;
    hg_list_init(&layer->handles);
    hg_map_init(&layer->ids);
    *layer_p = layer;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_layer_set_separate(
    struct hg_bulk_layer *layer, bool separate)
{
    struct na_class *na_class = layer->na_class;

    layer->owner[0] = '\0';
    layer->mute = separate && !na_class->listen && !na_class->finds_callers;
    if (!separate || layer->mute)
        return HG_SUCCESS;
    return NA_Addr_to_string(
        na_class, layer->owner, sizeof(layer->owner), na_class->self_addr);
}

HG_PRIVATE hg_return_t hg_bulk_check_mute(const struct hg_bulk_layer *layer)
{
    if (!layer->mute)
        return HG_SUCCESS;
    hg_log_error("bulk",
        "the bulk class is not the RPC class and does not listen, and over "
        "%s+%s nobody could reach the memory",
        na_class_ops(layer->na_class)->name, layer->na_class->protocol);
    return HG_OPNOTSUPPORT;
}

/* Free the memory handles of a bulk handle, withdrawing them. */
static void hg_bulk_drop_mems(struct hg_bulk *bulk)
{
    size_t i;

    for (i = 0; bulk->original == NULL && i < bulk->mem_count; i++)
        (void) NA_Mem_handle_free(bulk->mems[i]->na_class, bulk->mems[i]);
    bulk->mem_count = 0;
}

/* Let go of the owner's address. The handle is on no list any more, where
 * others would find it (hg_bulk_recognise). */
static void hg_bulk_drop_addr(struct hg_bulk *bulk)
{
    struct na_addr *addr = atomic_exchange(&bulk->addr, NULL);

    if (addr != NULL)
        na_addr_unref(addr);
}

HG_PRIVATE unsigned hg_bulk_describe_left(
    struct hg_bulk_layer *layer, char *first, size_t size)
{
    const struct na_link *link;
    unsigned count = 0;

    hg_enter(layer->lock);
    for (link = layer->handles.next; link != &layer->handles;
         link = link->next) {
        const struct hg_bulk *bulk =
            HG_CONTAINER_OF(link, struct hg_bulk, link);

        if (count++ == 0)
            (void) snprintf(first, size, "of %zu bytes of %s", bulk->size,
                !bulk->remote             ? "this process"
                    : bulk->owner == NULL ? "a peer"
                                          : bulk->owner);
    }
    hg_leave(layer->lock);
    return count;
}

HG_PRIVATE void hg_bulk_layer_destroy(struct hg_bulk_layer *layer)
{
    struct na_link *link;
    char first[NA_MAX_ADDR_LEN + 32] = "";
    unsigned left = hg_bulk_describe_left(layer, first, sizeof(first));

    while ((link = hg_list_pop(&layer->handles)) != NULL) {
        struct hg_bulk *bulk = HG_CONTAINER_OF(link, struct hg_bulk, link);

        hg_bulk_drop_mems(bulk);
        hg_bulk_drop_addr(bulk);
        bulk->layer = NULL;
    }
    if (left > 0)
        hg_log_warning("bulk", "%u bulk handle%s the layer, the first %s", left,
            left == 1 ? " outlives" : "s outlive", first);
    hg_map_fini(&layer->ids);
    pthread_cond_destroy(&layer->released);
    hg_mem_free(layer);
}

/* ---- Making handles ---- */

static void hg_bulk_delete(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;

    hg_bulk_withdraw(bulk);
    hg_bulk_drop_mems(bulk);
    if (layer != NULL) {
        hg_enter(layer->lock);
        hg_list_remove(&bulk->link);
        hg_leave(layer->lock);
    }
    hg_bulk_drop_addr(bulk);
    assert(atomic_load(&bulk->refs) == 0);
    if (bulk->original == NULL) {
        hg_mem_free(bulk->mems);
        hg_mem_free(bulk->segments);
        na_rma_free(&bulk->memory);
    } else {
        hg_bulk_unref(bulk->original); /* which is no alias */
    }
    hg_mem_free(bulk->owner);
    hg_mem_free(bulk);
}

HG_PRIVATE void hg_bulk_ref(struct hg_bulk *bulk)
{
    uint32_t before =
        atomic_fetch_add_explicit(&bulk->refs, 1, memory_order_relaxed);

    assert(before > 0);
    (void) before;
}

HG_PRIVATE void hg_bulk_unref(struct hg_bulk *bulk)
{
    uint32_t before =
        atomic_fetch_sub_explicit(&bulk->refs, 1, memory_order_acq_rel);

    assert(before > 0);
    if (before == 1)
        hg_bulk_delete(bulk);
}

HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk)
{
    hg_bulk_ref(bulk);
    atomic_fetch_add(&bulk->given, 1);
}

HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk)
{
    uint32_t before = atomic_load(&bulk->given);

    do {
        if (before == 0) {
            hg_log_error("bulk", "a bulk handle was freed too often");
            return HG_INVALID_ARG;
        }
    } while (!atomic_compare_exchange_weak(&bulk->given, &before, before - 1));
    if (before == 1 && !bulk->remote)
        hg_bulk_withdraw(bulk);
    hg_bulk_unref(bulk);
    return HG_SUCCESS;
}

HG_PRIVATE struct hg_bulk *hg_bulk_new(
    struct hg_bulk_layer *layer, size_t capacity)
{
    struct hg_bulk *bulk = capacity > SIZE_MAX - sizeof(*bulk)
        ? NULL
        : (struct hg_bulk *) hg_mem_calloc(1, sizeof(*bulk) + capacity);

    if (bulk == NULL) {
        hg_log_error("bulk", "no memory for a bulk handle");
        return NULL;
    }
    atomic_init(&bulk->refs, 1);
    atomic_init(&bulk->given, 1);
    bulk->layer = layer;
    hg_enter(layer->lock);
    hg_list_push(&layer->handles, &bulk->link);
    hg_leave(layer->lock);
    return bulk;
}

/* Copy the description, and sum up what the library is to allocate. */
static hg_return_t hg_bulk_describe(struct hg_bulk *bulk, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, size_t *own_size_p)
{
    size_t own = 0;
    size_t i;

    if (count > SIZE_MAX / sizeof(struct na_segment))
        goto no_memory;
    bulk->segments =
        (struct na_segment *) hg_mem_alloc(count * sizeof(struct na_segment));
    if (bulk->segments == NULL)
        goto no_memory;
    bulk->segment_count = count;
    for (i = 0; i < count; i++) {
        void *address = buf_ptrs != NULL ? buf_ptrs[i] : NULL;

        if (buf_sizes[i] > SIZE_MAX - bulk->size) {
            hg_log_error("bulk", "the segments' sizes overflow");
            return HG_INVALID_ARG;
        }
        bulk->segments[i].address = address;
        bulk->segments[i].size = buf_sizes[i];
        bulk->size += buf_sizes[i];
        if (address == NULL)
            own += buf_sizes[i];
    }
    *own_size_p = own;
    return HG_SUCCESS;

no_memory:
    hg_log_error("bulk", "no memory for %zu segments", count);
    return HG_NOMEM;
}

/* Allocate what was given without an address, as one block. */
static hg_return_t hg_bulk_allocate(struct hg_bulk *bulk, size_t own_size)
{
    size_t used = 0;
    size_t i;

    if (own_size == 0)
        return HG_SUCCESS;
    if (na_rma_alloc(bulk->layer->na_class, own_size, bulk->flags,
            &bulk->memory) != NA_SUCCESS) {
        hg_log_error("bulk", "no memory for %zu bytes of bulk data", own_size);
        return HG_NOMEM;
    }
    for (i = 0; i < bulk->segment_count; i++) {
        if (bulk->segments[i].address != NULL)
            continue;
        bulk->segments[i].address = (char *) bulk->memory.memory + used;
        used += (size_t) bulk->segments[i].size;
    }
    assert(used == own_size);
    return HG_SUCCESS;
}

/* Describe the segments to the transport, in as few memory handles as it
 * takes. */
static hg_return_t hg_bulk_make_mems(struct hg_bulk *bulk)
{
    struct na_class *na_class = bulk->layer->na_class;
    size_t most = (size_t) na_class_ops(na_class)->max_segments;
    size_t count = bulk->segment_count;
    size_t mems;
    size_t done = 0;

    if (most == 0)
        most = count;
    mems = (count + most - 1) / most;
    bulk->mems =
        (struct na_mem_handle **) hg_mem_calloc(mems, sizeof(bulk->mems[0]));
    if (bulk->mems == NULL) {
        hg_log_error("bulk", "no memory for %zu memory handles", mems);
        return HG_NOMEM;
    }
    while (done < count) {
        size_t step = count - done < most ? count - done : most;
        hg_return_t ret =
            NA_Mem_handle_create_segments(na_class, bulk->segments + done, step,
                bulk->flags, &bulk->mems[bulk->mem_count]);

        if (ret != HG_SUCCESS)
            return ret;
        bulk->mem_count++;
        done += step;
    }
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_create(struct hg_bulk_layer *layer, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, unsigned long flags,
    struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk;
    size_t own_size = 0;
    hg_return_t ret;

    if (count == 0 || buf_sizes == NULL ||
        (flags != HG_BULK_READ_ONLY && flags != HG_BULK_WRITE_ONLY &&
            flags != HG_BULK_READWRITE)) {
        hg_log_error("bulk", "a bulk handle %s",
            count == 0              ? "needs a segment"
                : buf_sizes == NULL ? "needs the sizes of its segments"
                                    : "has unknown flags");
        return HG_INVALID_ARG;
    }
    ret = hg_bulk_check_mute(layer);
    if (ret != HG_SUCCESS)
        return ret;
    bulk = hg_bulk_new(layer, 0);
    if (bulk == NULL)
        return HG_NOMEM;
    bulk->flags = flags;
    ret = hg_bulk_describe(bulk, count, buf_ptrs, buf_sizes, &own_size);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_allocate(bulk, own_size);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_make_mems(bulk);
    if (ret != HG_SUCCESS) {
        hg_bulk_unref(bulk);
        return ret;
    }
    *bulk_p = bulk;
    return HG_SUCCESS;
}

/* ---- Publishing ---- */

HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk)
{
    if ((atomic_load(&hg_bulk_source(bulk)->holds) & HG_BULK_WITHDRAWN) == 0)
        return HG_SUCCESS;
    hg_log_error("bulk", "a bulk handle of this process was freed");
    return HG_NOENTRY;
}

HG_PRIVATE hg_return_t hg_bulk_publish(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    hg_return_t ret;
    size_t i;

    assert(bulk->original == NULL);
    hg_enter(layer->lock);
    /* Here, as its owner may be freeing it while an alias is serialized. */
    ret = hg_bulk_check_there(bulk);
    if (ret != HG_SUCCESS || bulk->published)
        goto unlock;
    for (i = 0; i < bulk->mem_count && ret == HG_SUCCESS; i++)
        ret = NA_Mem_register(layer->na_class, bulk->mems[i]);
    if (ret == HG_SUCCESS) {
        ret = hg_map_add(&layer->ids, bulk, &bulk->id);
    } else {
        i--; /* this one refused */
    }
    bulk->published = ret == HG_SUCCESS;
    while (ret != HG_SUCCESS && i > 0)
        (void) NA_Mem_deregister(layer->na_class, bulk->mems[--i]);
unlock:
    hg_leave(layer->lock);
    return ret;
}

HG_PRIVATE void hg_bulk_withdraw(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    bool was = false;
    size_t i;

    if (bulk->original != NULL)
        return;
    atomic_fetch_or(&bulk->holds, HG_BULK_WITHDRAWN);
    if (layer == NULL)
        return;
    hg_enter(layer->lock);
    was = bulk->published;
    bulk->published = false;
    if (was)
        (void) hg_map_remove(&layer->ids, bulk->id);
    while (atomic_load(&bulk->holds) != HG_BULK_WITHDRAWN)
        (void) hg_monitor_wait_until(
            layer->lock, &layer->released, HG_CLOCK_NEVER);
    hg_leave(layer->lock);
    for (i = 0; i < bulk->mem_count; i++) {
        na_mux_end_local(bulk->mems[i]);
        if (was)
            (void) NA_Mem_deregister(layer->na_class, bulk->mems[i]);
    }
}

/* ---- Aliases ---- */

HG_PRIVATE bool hg_bulk_hold(struct hg_bulk *bulk)
{
    _Atomic uint32_t *holds = &hg_bulk_source(bulk)->holds;
    uint32_t before = atomic_load_explicit(holds, memory_order_relaxed);

    do {
        if ((before & HG_BULK_WITHDRAWN) != 0)
            return false;
    } while (!atomic_compare_exchange_weak(holds, &before, before + 1));
    return true;
}

HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    _Atomic uint32_t *holds = &hg_bulk_source(bulk)->holds;
    uint32_t before = atomic_load_explicit(holds, memory_order_relaxed);

    while ((before & HG_BULK_WITHDRAWN) == 0) {
        assert(before > 0);
        if (atomic_compare_exchange_weak(holds, &before, before - 1))
            return;
    }
    /* Somebody waits, and frees it next. */
    hg_enter(layer->lock);
    before = atomic_fetch_sub(holds, 1);
    assert(before > HG_BULK_WITHDRAWN);
    if (before == (HG_BULK_WITHDRAWN | 1u))
        pthread_cond_broadcast(&layer->released);
    hg_leave(layer->lock);
}

/* A handle for the memory of `original`, whose reference it takes. */
static hg_return_t hg_bulk_make_alias(struct hg_bulk_layer *layer,
    struct hg_bulk *original, struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk = hg_bulk_new(layer, 0);

    assert(original->original == NULL && !original->remote);
    if (bulk == NULL) {
        hg_bulk_unref(original);
        return HG_NOMEM;
    }
    bulk->original = original;
    bulk->flags = original->flags;
    bulk->size = original->size;
    bulk->segment_count = original->segment_count;
    bulk->segments = original->segments;
    bulk->mems = original->mems;
    bulk->mem_count = original->mem_count;
    *bulk_p = bulk;
    return HG_SUCCESS;
}

/* A reference, unless the last one is just going away. */
static bool hg_bulk_ref_living(struct hg_bulk *bulk)
{
    uint32_t refs = atomic_load(&bulk->refs);

    while (refs != 0) {
        if (atomic_compare_exchange_weak(&bulk->refs, &refs, refs + 1))
            return true;
    }
    return false;
}

HG_PRIVATE hg_return_t hg_bulk_find_own(
    struct hg_bulk_layer *layer, uint64_t id, struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk;

    hg_enter(layer->lock);
    bulk = (struct hg_bulk *) hg_map_get(&layer->ids, id);
    if (bulk != NULL && !hg_bulk_ref_living(bulk))
        bulk = NULL;
    hg_leave(layer->lock);
    if (bulk == NULL) {
        layer->na_class->core->count(layer->na_class, "bulk_freed", 1);
        hg_log_warning("bulk", "a bulk handle of this process was freed");
        return HG_NOENTRY;
    }
    return hg_bulk_make_alias(layer, bulk, bulk_p);
}

/* ---- Where memory is ---- */

HG_PRIVATE hg_return_t hg_bulk_bind(struct hg_bulk *bulk, uint8_t context_id)
{
    struct hg_bulk *source = hg_bulk_source(bulk);
    struct hg_bulk_layer *layer = bulk->layer;
    bool done = false;

    hg_enter(layer->lock);
    if (!bulk->remote && !atomic_load(&source->bound)) {
        source->context_id = context_id;
        atomic_store(&source->bound, true);
        done = true;
    }
    hg_leave(layer->lock);
    if (done)
        return HG_SUCCESS;
    hg_log_error("bulk", "HG_Bulk_bind: the handle is %s",
        bulk->remote ? "of a peer's memory" : "bound already");
    return HG_INVALID_ARG;
}

HG_PRIVATE const char *hg_bulk_own_name(struct hg_bulk *bulk)
{
    const struct hg_bulk_layer *layer = bulk->layer;
    const char *name = layer->owner;

    assert(!bulk->remote);
    if (name[0] == '\0' && hg_bulk_is_bound(bulk) && layer->na_class->listen)
        name = layer->na_class->self_addr->name;
    return name;
}

HG_PRIVATE void hg_bulk_set_addr(struct hg_bulk *bulk, struct na_addr *addr)
{
    struct na_addr *none = NULL;

    assert(bulk->remote);
    na_addr_ref(addr);
    if (!atomic_compare_exchange_strong(&bulk->addr, &none, addr))
        na_addr_unref(addr); /* another thread was faster */
}

HG_PRIVATE struct na_addr *hg_bulk_addr(struct hg_bulk *bulk)
{
    struct na_addr *addr = atomic_load(&bulk->addr);

    if (addr != NULL && bulk->owner != NULL && na_addr_is_dead(addr))
        return NULL;
    return addr;
}

HG_PRIVATE void hg_bulk_recognise(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    struct na_link *link;

    assert(bulk->remote && atomic_load(&bulk->addr) == NULL);
    hg_enter(layer->lock);
    for (link = layer->handles.next; link != &layer->handles;
         link = link->next) {
        struct hg_bulk *other = HG_CONTAINER_OF(link, struct hg_bulk, link);
        struct na_addr *addr = atomic_load(&other->addr);

        if (addr != NULL && other->id == bulk->id &&
            other->incarnation == bulk->incarnation) {
            hg_bulk_set_addr(bulk, addr);
            break;
        }
    }
    hg_leave(layer->lock);
}

/* ---- Access ---- */

HG_PRIVATE bool hg_bulk_next_run(const struct hg_bulk *bulk, size_t *segment,
    size_t *offset, size_t *size, void **ptr_p, size_t *length_p)
{
    while (*size > 0 && *segment < bulk->segment_count) {
        const struct na_segment *at = &bulk->segments[(*segment)++];
        size_t length = (size_t) at->size;

        if (*offset >= length) {
            *offset -= length;
            continue;
        }
        length -= *offset;
        *ptr_p = (char *) at->address + *offset;
        *length_p = length < *size ? length : *size;
        *size -= *length_p;
        *offset = 0;
        return true;
    }
    return false;
}

HG_PRIVATE hg_return_t hg_bulk_access(struct hg_bulk *bulk, size_t offset,
    size_t size, unsigned long flags, unsigned max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned *actual_count)
{
    hg_return_t ret = hg_bulk_check_there(bulk);
    const char *why = NULL;
    unsigned n = 0;
    size_t segment = 0;

    if (ret != HG_SUCCESS)
        return ret;
    if (bulk->remote) {
        ret = HG_OPNOTSUPPORT;
        why = "the memory is a peer's";
    } else if ((flags & ~bulk->flags) != 0) {
        ret = HG_PERMISSION;
        why = "the flags ask for more";
    } else if (offset > bulk->size || size > bulk->size - offset) {
        ret = HG_OVERFLOW;
        why = "out of range";
    }
    if (ret != HG_SUCCESS) {
        hg_log_error("bulk", "access: %s", why);
        return ret;
    }
    while (n < max_count &&
        hg_bulk_next_run(
            bulk, &segment, &offset, &size, &buf_ptrs[n], &buf_sizes[n]))
        n++;
    *actual_count = n;
    return HG_SUCCESS;
}

HG_PRIVATE size_t hg_bulk_find_mem(
    const struct hg_bulk *bulk, size_t offset, size_t *within_p)
{
    size_t i = 0;

    while (i + 1 < bulk->mem_count && offset >= bulk->mems[i]->size) {
        offset -= (size_t) bulk->mems[i]->size;
        i++;
    }
    *within_p = offset;
    return i;
}
