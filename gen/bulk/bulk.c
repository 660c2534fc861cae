/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk: see bulk.h. */
#include "bulk/bulk.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "emul/emul.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/lookup.h"
#include "na/rma.h"
#include "na/shared.h"
#include "na/uri.h"
#include "proc/proc.h"

#define HG_BULK_MAGIC 0x31424748u /* "HGB1" */
#define HG_BULK_VERSION 2
#define HG_BULK_FIXED 45
#define HG_BULK_FLAGS_AT 5
#define HG_BULK_OWNER_SIZE_AT 6
#define HG_BULK_SIZE_AT 8
#define HG_BULK_SEGMENTS_AT 16
#define HG_BULK_IDS_AT 24 /* incarnation and id */
#define HG_BULK_IDS_SIZE 16
#define HG_BULK_MEM_SIZE_AT 40
#define HG_BULK_CONTEXT_AT 44

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

    if (layer == NULL) {
        hg_log_error("bulk", "no memory for the bulk layer");
        return HG_NOMEM;
    }
    layer->lock = na_class_core_of(na_class)->lock;
    layer->na_class = na_class;
    layer->incarnation = hg_clock_random();
    if (layer->incarnation == 0) {
        hg_mem_free(layer);
        return HG_NODEV;
    }
    hg_list_init(&layer->handles);
    hg_map_init(&layer->ids);
    na_addr_write_reachable(na_class, layer->bound_owner);
    *layer_p = layer;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_layer_set_separate(
    struct hg_bulk_layer *layer, bool separate)
{
    struct na_class *na_class = layer->na_class;

    layer->owner[0] = '\0';
    layer->mute = separate && layer->bound_owner[0] == '\0';
    if (!separate || layer->mute)
        return HG_SUCCESS;
    if (!na_class->listen) {
        memcpy(layer->owner, layer->bound_owner, sizeof(layer->owner));
        return HG_SUCCESS;
    }
    return NA_Addr_to_string(
        na_class, layer->owner, sizeof(layer->owner), na_class->self_addr);
}

/* HG_OPNOTSUPPORT (logged) if the layer cannot expose memory. */
static hg_return_t hg_bulk_check_mute(const struct hg_bulk_layer *layer)
{
    if (!layer->mute)
        return HG_SUCCESS;
    hg_log_error("bulk",
        "the bulk class is not the RPC class and does not listen, and over "
        "%s+%s no peer can reach the memory",
        na_class_ops(layer->na_class)->name, layer->na_class->protocol);
    return HG_OPNOTSUPPORT;
}

/* Free the memory handle and the owner's address of a bulk handle. */
static void hg_bulk_drop(struct hg_bulk *bulk)
{
    if (bulk->mem != NULL && bulk->original == NULL)
        (void) NA_Mem_handle_free(
            na_class_head(bulk->mem->na_class), bulk->mem);
    bulk->mem = NULL;
    if (bulk->addr != NULL)
        na_addr_unref(bulk->addr);
    bulk->addr = NULL;
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

        hg_bulk_drop(bulk);
        bulk->layer = NULL;
    }
    if (left > 0)
        hg_log_warning("bulk", "%u bulk handle%s the layer, the first %s", left,
            left == 1 ? " outlives" : "s outlive", first);
    hg_map_fini(&layer->ids);
    hg_mem_free(layer);
}

/* ---- References ---- */

/* Create an empty handle with one reference, in the layer's list, with space
 * for `count` segments or bytes. NULL: out of memory (logged). The lock is
 * held. */
static struct hg_bulk *hg_bulk_new_locked(
    struct hg_bulk_layer *layer, size_t count, size_t unit)
{
    struct hg_bulk *bulk = count > (SIZE_MAX - sizeof(*bulk)) / unit
        ? NULL
        : (struct hg_bulk *) hg_mem_calloc(1, sizeof(*bulk) + count * unit);

    HG_ASSERT(hg_is_inside(layer->lock));
    if (bulk == NULL) {
        hg_log_error("bulk", "no memory for a bulk handle");
        return NULL;
    }
    bulk->refs = 1;
    bulk->given = 1;
    bulk->layer = layer;
    bulk->segments = bulk->space;
    bulk->bytes = (unsigned char *) bulk->space;
    hg_list_push(&layer->handles, &bulk->link);
    return bulk;
}

static struct hg_bulk *hg_bulk_new(
    struct hg_bulk_layer *layer, size_t count, size_t unit)
{
    struct hg_bulk *bulk;

    hg_enter(layer->lock);
    bulk = hg_bulk_new_locked(layer, count, unit);
    hg_leave(layer->lock);
    return bulk;
}

static void hg_bulk_delete(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;

    hg_bulk_withdraw(bulk);
    if (layer != NULL) {
        hg_enter(layer->lock);
        hg_list_remove(&bulk->link);
        hg_leave(layer->lock);
    }
    hg_bulk_drop(bulk);
    HG_ASSERT(bulk->refs == 0 && bulk->holds == 0);
    na_rma_free(&bulk->memory);
    if (bulk->original != NULL)
        hg_bulk_unref(bulk->original); /* not an alias itself */
    hg_mem_free(bulk);
}

static void hg_bulk_enter(const struct hg_bulk *bulk)
{
    if (bulk->layer != NULL)
        hg_enter(bulk->layer->lock);
}

static void hg_bulk_leave(struct hg_bulk_layer *layer)
{
    if (layer != NULL)
        hg_leave(layer->lock);
}

HG_PRIVATE void hg_bulk_unref(struct hg_bulk *bulk)
{
    bool last;

    hg_bulk_enter(bulk);
    HG_ASSERT(bulk->refs > 0);
    last = --bulk->refs == 0;
    hg_bulk_leave(bulk->layer);
    if (last)
        hg_bulk_delete(bulk);
}

HG_PRIVATE void hg_bulk_unref_locked(struct hg_bulk *bulk)
{
    struct hg_monitor *lock = bulk->layer->lock;

    HG_ASSERT(hg_is_inside(lock) && bulk->refs > 0);
    if (--bulk->refs > 0)
        return;
    hg_leave(lock);
    hg_bulk_delete(bulk);
    hg_enter(lock);
}

HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk)
{
    hg_bulk_enter(bulk);
    HG_ASSERT(bulk->refs > 0);
    bulk->given++;
    hg_bulk_leave(bulk->layer);
}

HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk)
{
    unsigned given;
    bool recorded;

    hg_bulk_enter(bulk);
    given = bulk->given;
    bulk->given -= given > 0;
    recorded = bulk->recorded;
    hg_bulk_leave(bulk->layer);
    if (given == 0)
        return HG_INVALID_ARG;
    if (given == 1) {
        hg_bulk_withdraw(bulk);
        if (!recorded)
            hg_bulk_unref(bulk);
    }
    return HG_SUCCESS;
}

HG_PRIVATE void hg_bulk_settle(void *object, enum hg_proc_fate fate)
{
    struct hg_bulk *bulk = (struct hg_bulk *) object;
    unsigned given;

    hg_bulk_enter(bulk);
    bulk->recorded = fate == HG_PROC_HOLD;
    given = bulk->given;
    hg_bulk_leave(bulk->layer);
    if (given == 0)
        hg_bulk_unref(bulk);
    else if (fate == HG_PROC_RELEASE)
        (void) hg_bulk_take_back(bulk);
}

/* ---- Making handles ---- */

/* Sum the sizes, and allocate all segments without an address as one block. */
static hg_return_t hg_bulk_allocate(struct hg_bulk *bulk)
{
    size_t own = 0;
    size_t used = 0;
    size_t i;

    for (i = 0; i < bulk->segment_count; i++) {
        const struct na_segment *segment = &bulk->segments[i];

        if (segment->size > SIZE_MAX - bulk->size) {
            hg_log_error("bulk", "the segments' sizes overflow");
            return HG_INVALID_ARG;
        }
        bulk->size += (size_t) segment->size;
        if (segment->address == NULL)
            own += (size_t) segment->size;
    }
    if (own == 0)
        return HG_SUCCESS;
    if (na_rma_alloc(bulk->layer->na_class, own, bulk->flags, &bulk->memory) !=
        NA_SUCCESS) {
        hg_log_error("bulk", "no memory for %zu bytes of bulk data", own);
        return HG_NOMEM;
    }
    for (i = 0; i < bulk->segment_count; i++) {
        if (bulk->segments[i].address != NULL)
            continue;
        bulk->segments[i].address = (char *) bulk->memory.memory + used;
        used += (size_t) bulk->segments[i].size;
    }
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_begin(struct hg_bulk_layer *layer, size_t count,
    unsigned long flags, struct hg_bulk **bulk_p)
{
    hg_return_t ret = hg_bulk_check_mute(layer);

    if (ret != HG_SUCCESS)
        return ret;
    if (count == 0 || flags == 0 || flags > HG_BULK_READWRITE) {
        hg_log_error("bulk", "a bulk handle %s",
            count == 0 ? "needs at least one segment" : "has unknown flags");
        return HG_INVALID_ARG;
    }
    *bulk_p = hg_bulk_new(layer, count, sizeof(struct na_segment));
    if (*bulk_p == NULL)
        return HG_NOMEM;
    (*bulk_p)->flags = flags;
    (*bulk_p)->segment_count = count;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_finish(
    struct hg_bulk *bulk, struct hg_bulk **bulk_p)
{
    hg_return_t ret = hg_bulk_allocate(bulk);

    if (ret == HG_SUCCESS)
        ret = NA_Mem_handle_create_segments(bulk->layer->na_class,
            bulk->segments, bulk->segment_count, bulk->flags, &bulk->mem);
    if (ret == HG_SUCCESS)
        *bulk_p = bulk;
    else
        hg_bulk_unref(bulk);
    return ret;
}

HG_PRIVATE hg_return_t hg_bulk_create(struct hg_bulk_layer *layer, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, unsigned long flags,
    struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk;
    hg_return_t ret = hg_bulk_begin(layer, count, flags, &bulk);
    size_t i;

    if (ret != HG_SUCCESS)
        return ret;
    for (i = 0; i < count; i++) {
        bulk->segments[i].address = buf_ptrs != NULL ? buf_ptrs[i] : NULL;
        bulk->segments[i].size = buf_sizes[i];
    }
    return hg_bulk_finish(bulk, bulk_p);
}

/* ---- Publishing and withdrawing ---- */

HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk)
{
    if (!hg_bulk_source(bulk)->withdrawn)
        return HG_SUCCESS;
    hg_log_error("bulk", "a bulk handle of this process was freed");
    return HG_NOENTRY;
}

/* Register the memory of a local handle that is not an alias, and give it an
 * id, unless that was done. HG_NOENTRY (logged): it was withdrawn. */
static hg_return_t hg_bulk_publish(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    hg_return_t ret;

    HG_ASSERT(bulk->original == NULL);
    hg_enter(layer->lock);
    /* Checked here, because its owner may be freeing it while an alias is
     * serialized. */
    ret = hg_bulk_check_there(bulk);
    if (ret != HG_SUCCESS || bulk->published)
        goto unlock;
    ret = na_rma_register(bulk->mem);
    if (ret == HG_SUCCESS)
        ret = hg_map_add(&layer->ids, bulk, &bulk->id);
    bulk->published = ret == HG_SUCCESS;
    if (!bulk->published) {
        hg_leave(layer->lock);
        na_rma_deregister(bulk->mem);
        return ret;
    }
unlock:
    hg_leave(layer->lock);
    return ret;
}

HG_PRIVATE void hg_bulk_withdraw(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    bool withdrawn;
    bool published;

    if (bulk->original != NULL || bulk->remote)
        return;
    hg_bulk_enter(bulk);
    withdrawn = bulk->withdrawn;
    published = bulk->published;
    bulk->withdrawn = true;
    bulk->published = false;
    if (published && layer != NULL)
        (void) hg_map_remove(&layer->ids, bulk->id);
    while (bulk->holds > 0)
        (void) hg_pause(layer->lock); /* a copy uses it */
    hg_bulk_leave(layer);
    if (withdrawn || bulk->mem == NULL)
        return;
    na_emul_end_local(bulk->mem);
    if (published)
        (void) NA_Mem_deregister(layer->na_class, bulk->mem);
}

HG_PRIVATE void hg_bulk_hold(struct hg_bulk *bulk)
{
    HG_ASSERT(hg_is_inside(bulk->layer->lock));
    hg_bulk_source(bulk)->holds++;
}

HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk)
{
    struct hg_bulk *source = hg_bulk_source(bulk);

    HG_ASSERT(hg_is_inside(bulk->layer->lock) && source->holds > 0);
    source->holds--;
}

/* Create an alias of the handle published under `id`. HG_NOENTRY (not logged):
 * it was freed. */
static hg_return_t hg_bulk_make_alias(
    struct hg_bulk_layer *layer, uint64_t id, struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk = NULL;
    struct hg_bulk *original;

    hg_enter(layer->lock);
    original = (struct hg_bulk *) hg_map_get(&layer->ids, id);
    if (original != NULL)
        bulk = hg_bulk_new_locked(layer, 0, 1);
    if (bulk != NULL) {
        HG_ASSERT(original->original == NULL && !original->withdrawn);
        original->refs++;
        bulk->original = original;
        bulk->flags = original->flags;
        bulk->size = original->size;
        bulk->segment_count = original->segment_count;
        bulk->segments = original->segments;
        bulk->mem = original->mem;
    }
    hg_leave(layer->lock);
    if (original == NULL)
        return HG_NOENTRY;
    *bulk_p = bulk;
    return bulk != NULL ? HG_SUCCESS : HG_NOMEM;
}

/* ---- Where memory is ---- */

/* Whether a bound handle came from another process than its owner. */
static bool hg_bulk_is_passed(const struct hg_bulk *bulk)
{
    return bulk->remote &&
        (bulk->bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_PASSED) != 0;
}

/* Let peers reach the class by an address that descriptions contain, unless
 * that is "". The lock is held. */
static hg_return_t hg_bulk_expose(
    struct hg_bulk_layer *layer, const char *owner)
{
    return owner[0] != '\0' ? na_addr_expose(layer->na_class) : HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_bind(
    struct hg_bulk *bulk, uint8_t context_id, const char *function)
{
    struct hg_bulk *source = hg_bulk_source(bulk);
    struct hg_bulk_layer *layer = bulk->layer;
    hg_return_t ret = HG_INVALID_ARG;
    bool can;

    hg_enter(layer->lock);
    can = !bulk->remote && !source->bound;
    if (can)
        ret = hg_bulk_expose(layer, layer->bound_owner);
    if (ret == HG_SUCCESS) {
        source->context_id = context_id;
        source->bound = true;
    }
    hg_leave(layer->lock);
    if (!can)
        hg_log_error("bulk", "%s: the handle is %s", function,
            bulk->remote ? "of a peer's memory" : "bound already");
    return ret;
}

/* The address in a description of local memory; "": it needs none, or there is
 * none. */
static const char *hg_bulk_own_name(struct hg_bulk *bulk)
{
    const struct hg_bulk_layer *layer = bulk->layer;

    HG_ASSERT(!bulk->remote);
    return layer->owner[0] == '\0' && hg_bulk_is_bound(bulk)
        ? layer->bound_owner
        : layer->owner;
}

static void hg_bulk_set_addr_locked(struct hg_bulk *bulk, struct na_addr *addr)
{
    HG_ASSERT(bulk->remote && hg_is_inside(bulk->layer->lock));
    if (bulk->addr == NULL) {
        na_addr_ref(addr);
        bulk->addr = addr;
    }
}

HG_PRIVATE void hg_bulk_set_addr(struct hg_bulk *bulk, struct na_addr *addr)
{
    hg_enter(bulk->layer->lock);
    hg_bulk_set_addr_locked(bulk, addr);
    hg_leave(bulk->layer->lock);
}

/* Whether a peer has one of the addresses in a list. */
static bool hg_bulk_is_called(const struct na_addr *peer, const char *list)
{
    char name[NA_MAX_ADDR_LEN];
    const char *at = list;

    while (peer->name != NULL && na_uri_next(&at, name)) {
        if (strcmp(peer->name, name) == 0)
            return true;
    }
    return na_addr_is_called(peer, list);
}

/* The address of the peer need not be looked up, which gives another connection
 * if the peer was looked up by another name, or none if it does not listen. But
 * a class of several transports may reach the owner by a better one. */
HG_PRIVATE void hg_bulk_set_owner_peer(
    struct hg_bulk *bulk, struct na_addr *peer)
{
    if (!bulk->remote || !bulk->bound || peer == NULL || peer->self ||
        hg_bulk_is_passed(bulk) || na_addr_class(peer) != bulk->layer->na_class)
        return;
    if (bulk->owner == NULL ||
        na_class_core_of(bulk->layer->na_class)->next == NULL ||
        hg_bulk_is_called(peer, bulk->owner))
        hg_bulk_set_addr(bulk, peer);
}

HG_PRIVATE hg_return_t hg_bulk_look_up(
    struct hg_bulk *bulk, struct na_addr **addr_p)
{
    hg_return_t ret;

    HG_ASSERT(bulk->remote && bulk->owner != NULL);
    ret =
        na_lookup_resolve(bulk->layer->na_class, bulk->owner, NA_TRUE, addr_p);
    if (ret == HG_SUCCESS)
        hg_bulk_set_addr(bulk, *addr_p);
    return ret;
}

/* ---- Access ---- */

HG_PRIVATE uint32_t hg_bulk_list(const struct hg_bulk *bulk, size_t offset,
    size_t size, uint32_t max_count, void **ptrs, size_t *sizes,
    hg_size_t *wide_sizes)
{
    const struct na_segment *segment = bulk->segments;
    uint32_t count = 0;

    while (size > 0 && count < max_count) {
        size_t length = (size_t) segment->size;

        if (offset >= length) {
            offset -= length;
        } else {
            length -= offset;
            length = length < size ? length : size;
            if (ptrs != NULL)
                ptrs[count] = (char *) segment->address + offset;
            if (sizes != NULL)
                sizes[count] = length;
            if (wide_sizes != NULL)
                wide_sizes[count] = length;
            size -= length;
            offset = 0;
            count++;
        }
        segment++;
    }
    return count;
}

HG_PRIVATE hg_return_t hg_bulk_allows(const struct hg_bulk *bulk,
    uint64_t offset, uint64_t size, unsigned long access)
{
    if (offset > bulk->size || size > bulk->size - offset)
        return HG_OVERFLOW;
    return (access & ~bulk->flags) != 0 ? HG_PERMISSION : HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_check_access(
    struct hg_bulk *bulk, uint64_t offset, uint64_t size, unsigned long flags)
{
    hg_return_t ret = hg_bulk_check_there(bulk);

    if (ret != HG_SUCCESS)
        return ret;
    ret = bulk->remote ? HG_OPNOTSUPPORT
                       : hg_bulk_allows(bulk, offset, size, flags);
    if (ret != HG_SUCCESS)
        hg_log_error("bulk", "access: %s",
            ret == HG_OPNOTSUPPORT     ? "the memory is a peer's"
                : ret == HG_PERMISSION ? "the flags ask for more"
                                       : "out of range");
    return ret;
}

HG_PRIVATE hg_return_t hg_bulk_map(
    struct hg_bulk *bulk, uint64_t segment, void **ptr_p)
{
    hg_return_t ret = hg_bulk_check_there(bulk);

    if (ret == HG_SUCCESS && bulk->remote) {
        ret = na_shared_map(bulk->mem, NULL, segment, bulk, ptr_p);
    } else if (ret == HG_SUCCESS && bulk->segments[segment].size == 0) {
        ret = HG_OPNOTSUPPORT; /* as with a peer's */
    } else if (ret == HG_SUCCESS) {
        void *ptr = bulk->segments[segment].address;

        ret = na_shared_lend(bulk->layer->na_class, ptr, bulk);
        if (ret == HG_SUCCESS)
            *ptr_p = ptr;
    }
    if (ret == HG_SUCCESS)
        hg_bulk_give(bulk);
    return ret;
}

HG_PRIVATE hg_return_t hg_bulk_unmap(struct hg_bulk *bulk, const void *ptr)
{
    hg_return_t ret = na_shared_unmap(bulk->layer->na_class, ptr, bulk);

    return ret == HG_SUCCESS ? hg_bulk_take_back(bulk) : ret;
}

/* A description that was passed on came back to a process that knows the
 * memory: get the owner's address from another handle of the same memory. */
static void hg_bulk_recognise(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    struct na_link *link;

    hg_enter(layer->lock);
    for (link = layer->handles.next; link != &layer->handles;
         link = link->next) {
        const struct hg_bulk *other =
            HG_CONTAINER_OF(link, struct hg_bulk, link);

        if (other->addr != NULL &&
            memcmp(other->bytes + HG_BULK_IDS_AT, bulk->bytes + HG_BULK_IDS_AT,
                HG_BULK_IDS_SIZE) == 0)
            hg_bulk_set_addr_locked(bulk, other->addr);
    }
    hg_leave(layer->lock);
}

/* ---- Serializing ---- */

/* Size of the memory handle's description. */
static size_t hg_bulk_mem_size(const struct hg_bulk *bulk)
{
    return (size_t) NA_Mem_handle_get_serialize_size(
        bulk->layer->na_class, bulk->mem);
}

HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk)
{
    if (bulk->remote)
        return bulk->bytes_size;
    return HG_BULK_FIXED + strlen(hg_bulk_own_name(bulk)) +
        hg_bulk_mem_size(bulk);
}

/* Write the description of local memory. */
static hg_return_t hg_bulk_write_own(struct hg_bulk *bulk, struct hg_wire *wire)
{
    struct hg_bulk_layer *layer = bulk->layer;
    const char *owner = hg_bulk_own_name(bulk);
    size_t owner_size = strlen(owner);
    size_t mem_size = hg_bulk_mem_size(bulk);
    hg_return_t ret = hg_bulk_check_mute(layer);

    if (ret == HG_SUCCESS) {
        hg_enter(layer->lock);
        ret = hg_bulk_expose(layer, layer->owner);
        hg_leave(layer->lock);
    }
    if (ret == HG_SUCCESS)
        ret = hg_bulk_publish(bulk);
    if (ret != HG_SUCCESS)
        return ret;
    hg_wire_put32(wire, HG_BULK_MAGIC);
    hg_wire_put8(wire, HG_BULK_VERSION);
    hg_wire_put8(wire,
        (uint8_t) (bulk->flags |
            (bulk->bound ? (unsigned) HG_BULK_WIRE_BOUND : 0u)));
    hg_wire_put16(wire, (uint16_t) owner_size);
    hg_wire_put64(wire, bulk->size);
    hg_wire_put64(wire, bulk->segment_count);
    hg_wire_put64(wire, layer->incarnation);
    hg_wire_put64(wire, bulk->id);
    hg_wire_put32(wire, (uint32_t) mem_size);
    hg_wire_put8(wire, bulk->context_id);
    hg_wire_put_bytes(wire, owner, owner_size);
    return NA_Mem_handle_serialize(
        layer->na_class, hg_wire_take(wire, mem_size), mem_size, bulk->mem);
}

HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size)
{
    struct hg_wire wire = hg_wire_writer(buf, buf_size);

    if (buf_size < hg_bulk_serialize_size(bulk)) {
        hg_log_error(
            "bulk", "%zu bytes are too few for the bulk handle", buf_size);
        return HG_MSGSIZE;
    }
    if (!bulk->remote)
        return hg_bulk_write_own(hg_bulk_source(bulk), &wire);
    memcpy(buf, bulk->bytes, bulk->bytes_size);
    if (hg_bulk_is_bound(bulk))
        ((unsigned char *) buf)[HG_BULK_FLAGS_AT] |= HG_BULK_WIRE_PASSED;
    return HG_SUCCESS;
}

/* ---- Deserializing ---- */

/* Whether the bytes are a complete description of this version. */
static bool hg_bulk_is_whole(const unsigned char *bytes, size_t size)
{
    size_t owner_size;
    size_t mem_size;
    unsigned how;

    if (size < HG_BULK_FIXED)
        return false;
    size -= HG_BULK_FIXED;
    owner_size = hg_wire_load16(bytes + HG_BULK_OWNER_SIZE_AT);
    mem_size = hg_wire_load32(bytes + HG_BULK_MEM_SIZE_AT);
    how = bytes[HG_BULK_FLAGS_AT] & ~(unsigned) HG_BULK_WIRE_ACCESS;
    return hg_wire_load32(bytes) == HG_BULK_MAGIC &&
        bytes[4] == HG_BULK_VERSION &&
        (bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_ACCESS) != 0 &&
        (how == 0 || how == HG_BULK_WIRE_BOUND ||
            how == (HG_BULK_WIRE_BOUND | HG_BULK_WIRE_PASSED)) &&
        hg_wire_load64(bytes + HG_BULK_SIZE_AT) <= SIZE_MAX &&
        hg_wire_load64(bytes + HG_BULK_SEGMENTS_AT) <= SIZE_MAX &&
        hg_wire_load64(bytes + HG_BULK_SEGMENTS_AT) > 0 && mem_size > 0 &&
        owner_size < NA_MAX_ADDR_LEN && owner_size <= size &&
        mem_size <= size - owner_size &&
        memchr(bytes + HG_BULK_FIXED, '\0', owner_size) == NULL;
}

/* Create a handle of a peer's memory from a complete description. */
static hg_return_t hg_bulk_read_remote(struct hg_bulk_layer *layer,
    const unsigned char *bytes, struct hg_bulk **bulk_p)
{
    size_t owner_size = hg_wire_load16(bytes + HG_BULK_OWNER_SIZE_AT);
    size_t mem_size = hg_wire_load32(bytes + HG_BULK_MEM_SIZE_AT);
    size_t size = HG_BULK_FIXED + owner_size + mem_size;
    struct hg_bulk *bulk = hg_bulk_new(layer, size + owner_size + 1, 1);
    hg_return_t ret;

    if (bulk == NULL)
        return HG_NOMEM;
    bulk->remote = true;
    bulk->flags = bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_ACCESS;
    bulk->bound = (bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_BOUND) != 0;
    bulk->context_id = bytes[HG_BULK_CONTEXT_AT];
    bulk->size = (size_t) hg_wire_load64(bytes + HG_BULK_SIZE_AT);
    bulk->segment_count = (size_t) hg_wire_load64(bytes + HG_BULK_SEGMENTS_AT);
    bulk->bytes_size = size;
    memcpy(bulk->bytes, bytes, size);
    if (owner_size > 0) /* with a NUL, which is not on the wire */
        bulk->owner = (char *) memcpy(
            bulk->bytes + size, bytes + HG_BULK_FIXED, owner_size);
    ret = NA_Mem_handle_deserialize(layer->na_class, &bulk->mem,
        bytes + HG_BULK_FIXED + owner_size, mem_size);
    if (ret == HG_SUCCESS && bulk->mem->size != bulk->size)
        ret = HG_PROTOCOL_ERROR;
    if (ret != HG_SUCCESS) {
        hg_bulk_unref(bulk);
        return ret;
    }
    if (hg_bulk_is_passed(bulk))
        hg_bulk_recognise(bulk);
    *bulk_p = bulk;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p)
{
    const unsigned char *bytes = (const unsigned char *) buf;
    hg_return_t ret = HG_PROTOCOL_ERROR;

    if (hg_bulk_is_whole(bytes, buf_size)) {
        bool own = hg_wire_load64(bytes + HG_BULK_IDS_AT) == layer->incarnation;

        ret = own ? hg_bulk_make_alias(layer,
                        hg_wire_load64(bytes + HG_BULK_IDS_AT + 8), bulk_p)
                  : HG_NOENTRY;
        /* A peer decodes a handle that was freed, so its owner does, too. */
        if (ret == HG_NOENTRY) {
            ret = hg_bulk_read_remote(layer, bytes, bulk_p);
            if (ret == HG_SUCCESS)
                (*bulk_p)->withdrawn = own;
        }
    }
    if (ret == HG_PROTOCOL_ERROR) {
        layer->na_class->core->count(layer->na_class, "bulk_malformed", 1);
        hg_log_warning(
            "bulk", "these %zu bytes are not a bulk handle", buf_size);
    }
    return ret;
}
