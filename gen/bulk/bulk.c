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
#include "proc/proc.h"

#define HG_BULK_MAGIC 0x31424748u /* "HGB1" */
#define HG_BULK_VERSION 1
#define HG_BULK_FIXED 44
#define HG_BULK_MEM_FIXED 12
#define HG_BULK_FLAGS_AT 5
#define HG_BULK_IDS_AT 24 /* incarnation and id */
#define HG_BULK_IDS_SIZE 16

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

/* HG_OPNOTSUPPORT (logged) where the layer is mute. */
static hg_return_t hg_bulk_check_mute(const struct hg_bulk_layer *layer)
{
    if (!layer->mute)
        return HG_SUCCESS;
    hg_log_error("bulk",
        "the bulk class is not the RPC class and does not listen, and over "
        "%s+%s nobody could reach the memory",
        na_class_ops(layer->na_class)->name, layer->na_class->protocol);
    return HG_OPNOTSUPPORT;
}

/* Free the memory handles of a bulk handle, and its owner's address. */
static void hg_bulk_drop(struct hg_bulk *bulk)
{
    size_t i;

    for (i = 0; bulk->original == NULL && i < bulk->mem_count; i++)
        (void) NA_Mem_handle_free(
            na_class_head(bulk->mems[i]->na_class), bulk->mems[i]);
    bulk->mem_count = 0;
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

/* An empty handle with one reference, in the layer's list, with space for a
 * description of `capacity` bytes. NULL: out of memory (logged). */
static struct hg_bulk *hg_bulk_new(struct hg_bulk_layer *layer, size_t capacity)
{
    struct hg_bulk *bulk = capacity > SIZE_MAX - sizeof(*bulk)
        ? NULL
        : (struct hg_bulk *) hg_mem_calloc(1, sizeof(*bulk) + capacity);

    if (bulk == NULL) {
        hg_log_error("bulk", "no memory for a bulk handle");
        return NULL;
    }
    bulk->refs = 1;
    bulk->given = 1;
    bulk->layer = layer;
    hg_enter(layer->lock);
    hg_list_push(&layer->handles, &bulk->link);
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
    assert(bulk->refs == 0 && bulk->holds == 0);
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
    assert(bulk->refs > 0);
    last = --bulk->refs == 0;
    hg_bulk_leave(bulk->layer);
    if (last)
        hg_bulk_delete(bulk);
}

HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk)
{
    hg_bulk_enter(bulk);
    assert(bulk->refs > 0);
    bulk->refs++;
    bulk->given++;
    hg_bulk_leave(bulk->layer);
}

HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk)
{
    bool none;
    bool last;

    hg_bulk_enter(bulk);
    none = bulk->given == 0;
    last = !none && --bulk->given == 0;
    hg_bulk_leave(bulk->layer);
    if (none) {
        hg_log_error("bulk", "a bulk handle was freed too often");
        return HG_INVALID_ARG;
    }
    if (last)
        hg_bulk_withdraw(bulk);
    hg_bulk_unref(bulk);
    return HG_SUCCESS;
}

/* ---- Making handles ---- */

/* Copy the description, and sum up what the library is to allocate. */
static hg_return_t hg_bulk_describe(struct hg_bulk *bulk, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, size_t *own_size_p)
{
    size_t own = 0;
    size_t i;

    if (count <= SIZE_MAX / sizeof(struct na_segment))
        bulk->segments = (struct na_segment *) hg_mem_alloc(
            count * sizeof(struct na_segment));
    if (bulk->segments == NULL) {
        hg_log_error("bulk", "no memory for %zu segments", count);
        return HG_NOMEM;
    }
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

static hg_return_t hg_bulk_new_mems(struct hg_bulk *bulk, size_t count)
{
    bulk->mems =
        (struct na_mem_handle **) hg_mem_calloc(count, sizeof(bulk->mems[0]));
    if (bulk->mems != NULL)
        return HG_SUCCESS;
    hg_log_error("bulk", "no memory for %zu memory handles", count);
    return HG_NOMEM;
}

/* Describe the segments to the transport, in as few memory handles as it
 * takes. */
static hg_return_t hg_bulk_make_mems(struct hg_bulk *bulk)
{
    struct na_class *na_class = bulk->layer->na_class;
    size_t most = (size_t) na_class_ops(na_class)->max_segments;
    size_t count = bulk->segment_count;
    size_t done = 0;
    hg_return_t ret;

    if (most == 0)
        most = count;
    ret = hg_bulk_new_mems(bulk, (count + most - 1) / most);
    while (ret == HG_SUCCESS && done < count) {
        size_t step = count - done < most ? count - done : most;

        ret = NA_Mem_handle_create_segments(na_class, bulk->segments + done,
            step, bulk->flags, &bulk->mems[bulk->mem_count]);
        if (ret == HG_SUCCESS)
            bulk->mem_count++;
        done += step;
    }
    return ret;
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
    if (ret == HG_SUCCESS)
        *bulk_p = bulk;
    else
        hg_bulk_unref(bulk);
    return ret;
}

/* ---- Publishing and withdrawing ---- */

HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk)
{
    if (!hg_bulk_source(bulk)->withdrawn)
        return HG_SUCCESS;
    hg_log_error("bulk", "a bulk handle of this process was freed");
    return HG_NOENTRY;
}

/* Register the memory of a local handle that is no alias, and give it an id, if
 * that has not been done. HG_NOENTRY (logged): it was withdrawn. */
static hg_return_t hg_bulk_publish(struct hg_bulk *bulk)
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
    bool published;
    size_t i;

    if (bulk->original != NULL || bulk->remote)
        return;
    if (layer == NULL) {
        bulk->withdrawn = true;
        return;
    }
    hg_enter(layer->lock);
    if (bulk->withdrawn) {
        hg_leave(layer->lock);
        return;
    }
    bulk->withdrawn = true;
    published = bulk->published;
    assert(!published || hg_map_get(&layer->ids, bulk->id) == bulk);
    bulk->published = false;
    if (published)
        (void) hg_map_remove(&layer->ids, bulk->id);
    while (bulk->holds > 0)
        (void) hg_pause(layer->lock); /* a copy reads it */
    hg_leave(layer->lock);
    for (i = 0; i < bulk->mem_count; i++) {
        na_emul_end_local(bulk->mems[i]);
        if (published)
            (void) NA_Mem_deregister(layer->na_class, bulk->mems[i]);
    }
}

HG_PRIVATE void hg_bulk_hold(struct hg_bulk *bulk)
{
    assert(hg_is_inside(bulk->layer->lock));
    hg_bulk_source(bulk)->holds++;
}

HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk)
{
    struct hg_bulk *source = hg_bulk_source(bulk);

    assert(hg_is_inside(bulk->layer->lock) && source->holds > 0);
    source->holds--;
}

/* An alias of the handle published under `id`. HG_NOENTRY (logged): it was
 * freed. */
static hg_return_t hg_bulk_make_alias(
    struct hg_bulk_layer *layer, uint64_t id, struct hg_bulk **bulk_p)
{
    struct hg_bulk *bulk = hg_bulk_new(layer, 0);
    struct hg_bulk *original;

    if (bulk == NULL)
        return HG_NOMEM;
    hg_enter(layer->lock);
    original = (struct hg_bulk *) hg_map_get(&layer->ids, id);
    if (original != NULL) {
        assert(original->original == NULL && !original->remote);
        assert(original->refs > 0 && !original->withdrawn);
        original->refs++;
        bulk->original = original;
        bulk->flags = original->flags;
        bulk->size = original->size;
        bulk->segment_count = original->segment_count;
        bulk->segments = original->segments;
        bulk->mems = original->mems;
        bulk->mem_count = original->mem_count;
    }
    hg_leave(layer->lock);
    *bulk_p = bulk;
    if (original != NULL)
        return HG_SUCCESS;
    hg_bulk_unref(bulk);
    layer->na_class->core->count(layer->na_class, "bulk_freed", 1);
    hg_log_warning("bulk", "a bulk handle of this process was freed");
    return HG_NOENTRY;
}

/* ---- Where memory is ---- */

HG_PRIVATE hg_return_t hg_bulk_bind(struct hg_bulk *bulk, uint8_t context_id)
{
    struct hg_bulk *source = hg_bulk_source(bulk);
    bool done;

    hg_enter(bulk->layer->lock);
    done = !bulk->remote && !source->bound;
    if (done) {
        source->context_id = context_id;
        source->bound = true;
    }
    hg_leave(bulk->layer->lock);
    if (done)
        return HG_SUCCESS;
    hg_log_error("bulk", "HG_Bulk_bind: the handle is %s",
        bulk->remote ? "of a peer's memory" : "bound already");
    return HG_INVALID_ARG;
}

/* The address that a description of our memory has; "": it needs none, or there
 * is none. */
static const char *hg_bulk_own_name(struct hg_bulk *bulk)
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
    assert(bulk->remote);
    hg_enter(bulk->layer->lock);
    if (bulk->addr == NULL) {
        na_addr_ref(addr);
        bulk->addr = addr;
    }
    hg_leave(bulk->layer->lock);
}

HG_PRIVATE hg_return_t hg_bulk_look_up(
    struct hg_bulk *bulk, struct na_addr **addr_p)
{
    hg_return_t ret;

    assert(bulk->remote && bulk->owner != NULL);
    ret =
        na_lookup_resolve(bulk->layer->na_class, bulk->owner, NA_TRUE, addr_p);
    if (ret == HG_SUCCESS)
        hg_bulk_set_addr(bulk, *addr_p);
    return ret;
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

HG_PRIVATE hg_return_t hg_bulk_check_access(
    struct hg_bulk *bulk, uint64_t offset, uint64_t size, unsigned long flags)
{
    hg_return_t ret = hg_bulk_check_there(bulk);

    if (ret != HG_SUCCESS)
        return ret;
    if (bulk->remote)
        ret = HG_OPNOTSUPPORT;
    else if ((flags & ~bulk->flags) != 0)
        ret = HG_PERMISSION;
    else if (offset > bulk->size || size > bulk->size - offset)
        ret = HG_OVERFLOW;
    if (ret != HG_SUCCESS)
        hg_log_error("bulk", "access: %s",
            ret == HG_OPNOTSUPPORT     ? "the memory is a peer's"
                : ret == HG_PERMISSION ? "the flags ask for more"
                                       : "out of range");
    return ret;
}

/* A description that was passed on came back: learn the owner's address from
 * another handle of the same memory. */
static void hg_bulk_recognise(struct hg_bulk *bulk)
{
    struct hg_bulk_layer *layer = bulk->layer;
    struct na_link *link;

    hg_enter(layer->lock);
    for (link = layer->handles.next;
         link != &layer->handles && bulk->addr == NULL; link = link->next) {
        const struct hg_bulk *other =
            HG_CONTAINER_OF(link, struct hg_bulk, link);

        if (other->addr != NULL &&
            memcmp(other->bytes + HG_BULK_IDS_AT, bulk->bytes + HG_BULK_IDS_AT,
                HG_BULK_IDS_SIZE) == 0)
            hg_bulk_set_addr(bulk, other->addr);
    }
    hg_leave(layer->lock);
}

/* ---- Serializing ---- */

HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk)
{
    size_t size = HG_BULK_FIXED;
    size_t i;

    if (bulk->remote)
        return bulk->bytes_size;
    size += strlen(hg_bulk_own_name(bulk)) + (hg_bulk_is_bound(bulk) ? 1 : 0);
    for (i = 0; i < bulk->mem_count; i++)
        size += HG_BULK_MEM_FIXED +
            (size_t) NA_Mem_handle_get_serialize_size(
                bulk->layer->na_class, bulk->mems[i]);
    return size;
}

/* The memory handles of ours, which is published. */
static hg_return_t hg_bulk_write_mems(
    const struct hg_bulk *bulk, struct hg_wire *wire)
{
    struct na_class *na_class = bulk->layer->na_class;
    hg_return_t ret = HG_SUCCESS;
    size_t i;

    for (i = 0; i < bulk->mem_count && ret == HG_SUCCESS; i++) {
        size_t size =
            (size_t) NA_Mem_handle_get_serialize_size(na_class, bulk->mems[i]);

        hg_wire_put64(wire, bulk->mems[i]->size);
        hg_wire_put32(wire, (uint32_t) size);
        ret = NA_Mem_handle_serialize(
            na_class, hg_wire_take(wire, size), size, bulk->mems[i]);
    }
    return ret;
}

/* A description of memory of ours. */
static hg_return_t hg_bulk_write_own(struct hg_bulk *bulk, struct hg_wire *wire)
{
    struct hg_bulk_layer *layer = bulk->layer;
    bool bound = hg_bulk_is_bound(bulk);
    const char *owner = hg_bulk_own_name(bulk);
    size_t owner_size = strlen(owner);
    hg_return_t ret = hg_bulk_check_mute(layer);

    if (ret == HG_SUCCESS)
        ret = hg_bulk_publish(bulk);
    if (ret != HG_SUCCESS)
        return ret;
    hg_wire_put32(wire, HG_BULK_MAGIC);
    hg_wire_put8(wire, HG_BULK_VERSION);
    hg_wire_put8(wire,
        (uint8_t) (bulk->flags | (bound ? (unsigned) HG_BULK_WIRE_BOUND : 0u)));
    hg_wire_put16(wire, (uint16_t) owner_size);
    hg_wire_put64(wire, bulk->size);
    hg_wire_put64(wire, bulk->segment_count);
    hg_wire_put64(wire, layer->incarnation);
    hg_wire_put64(wire, bulk->id);
    hg_wire_put32(wire, (uint32_t) bulk->mem_count);
    hg_wire_put_bytes(wire, owner, owner_size);
    ret = hg_bulk_write_mems(bulk, wire);
    if (bound)
        hg_wire_put8(wire, bulk->context_id);
    assert(ret != HG_SUCCESS || !wire->failed);
    return ret;
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

/* Read the memory handles behind the fixed part and the owner. */
static hg_return_t hg_bulk_read_mems(
    struct hg_bulk *bulk, struct hg_wire *wire, uint32_t count)
{
    uint64_t total = 0;
    hg_return_t ret;

    if (count == 0 || count > hg_wire_left(wire) / HG_BULK_MEM_FIXED)
        return HG_PROTOCOL_ERROR;
    ret = hg_bulk_new_mems(bulk, count);
    while (ret == HG_SUCCESS && bulk->mem_count < count) {
        struct na_mem_handle **mem = &bulk->mems[bulk->mem_count];
        uint64_t size = hg_wire_get64(wire);
        uint32_t length = hg_wire_get32(wire);
        const void *bytes = hg_wire_get_bytes(wire, length);

        if (wire->failed || length == 0 || size > bulk->size - total)
            return HG_PROTOCOL_ERROR;
        ret = NA_Mem_handle_deserialize(
            bulk->layer->na_class, mem, bytes, length);
        if (ret != HG_SUCCESS)
            return ret;
        bulk->mem_count++;
        total += size;
        if ((*mem)->size != size)
            return HG_PROTOCOL_ERROR;
    }
    if (ret == HG_SUCCESS && total != bulk->size)
        ret = HG_PROTOCOL_ERROR;
    return ret;
}

/* The owner's address, a string without NUL on the wire. */
static hg_return_t hg_bulk_read_owner(
    struct hg_bulk *bulk, struct hg_wire *wire, size_t size)
{
    const void *bytes = hg_wire_get_bytes(wire, size);

    if (wire->failed || size >= NA_MAX_ADDR_LEN ||
        (size > 0 && memchr(bytes, '\0', size) != NULL))
        return HG_PROTOCOL_ERROR;
    if (size == 0)
        return HG_SUCCESS;
    bulk->owner = (char *) hg_mem_calloc(1, size + 1);
    if (bulk->owner == NULL) {
        hg_log_error("bulk", "no memory for an owner's address");
        return HG_NOMEM;
    }
    memcpy(bulk->owner, bytes, size);
    return HG_SUCCESS;
}

/* Whether a description begins as one of this version does. */
static bool hg_bulk_is_start(const unsigned char *bytes, size_t size)
{
    unsigned how;

    if (size < HG_BULK_FIXED)
        return false;
    how = bytes[HG_BULK_FLAGS_AT] & ~(unsigned) HG_BULK_WIRE_ACCESS;
    return hg_wire_load32(bytes) == HG_BULK_MAGIC &&
        bytes[4] == HG_BULK_VERSION &&
        (bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_ACCESS) != 0 &&
        (how == 0 || how == HG_BULK_WIRE_BOUND ||
            how == (HG_BULK_WIRE_BOUND | HG_BULK_WIRE_PASSED)) &&
        hg_wire_load64(bytes + 8) <= SIZE_MAX &&
        hg_wire_load64(bytes + 16) <= SIZE_MAX &&
        hg_wire_load64(bytes + 16) > 0;
}

/* Fill a new handle from a description with a right start. */
static hg_return_t hg_bulk_read_remote(
    struct hg_bulk *bulk, const unsigned char *bytes, size_t size)
{
    struct hg_wire wire = hg_wire_reader(bytes, size);
    unsigned flags = bytes[HG_BULK_FLAGS_AT];
    hg_return_t ret;

    assert(!bulk->published && bulk->mem_count == 0);
    (void) hg_wire_get_bytes(&wire, HG_BULK_FIXED);
    bulk->remote = true;
    bulk->flags = flags & HG_BULK_WIRE_ACCESS;
    bulk->bound = (flags & HG_BULK_WIRE_BOUND) != 0;
    bulk->size = (size_t) hg_wire_load64(bytes + 8);
    bulk->segment_count = (size_t) hg_wire_load64(bytes + 16);
    ret = hg_bulk_read_owner(bulk, &wire, hg_wire_load16(bytes + 6));
    if (ret == HG_SUCCESS)
        ret = hg_bulk_read_mems(bulk, &wire, hg_wire_load32(bytes + 40));
    if (ret != HG_SUCCESS)
        return ret;
    if (bulk->bound)
        bulk->context_id = hg_wire_get8(&wire);
    if (wire.failed)
        return HG_PROTOCOL_ERROR;
    assert(wire.pos >= HG_BULK_FIXED && wire.pos <= size);
    bulk->bytes_size = wire.pos;
    memcpy(bulk->bytes, bytes, bulk->bytes_size);
    if ((flags & HG_BULK_WIRE_PASSED) != 0)
        hg_bulk_recognise(bulk);
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p)
{
    const unsigned char *bytes = (const unsigned char *) buf;
    struct hg_bulk *bulk = NULL;
    hg_return_t ret = HG_PROTOCOL_ERROR;

    if (hg_bulk_is_start(bytes, buf_size)) {
        if (hg_wire_load64(bytes + HG_BULK_IDS_AT) == layer->incarnation)
            return hg_bulk_make_alias(
                layer, hg_wire_load64(bytes + HG_BULK_IDS_AT + 8), bulk_p);
        bulk = hg_bulk_new(layer, buf_size);
        if (bulk == NULL)
            return HG_NOMEM;
        ret = hg_bulk_read_remote(bulk, bytes, buf_size);
    }
    if (ret == HG_SUCCESS) {
        *bulk_p = bulk;
        return HG_SUCCESS;
    }
    if (bulk != NULL)
        hg_bulk_unref(bulk);
    if (ret == HG_PROTOCOL_ERROR) {
        layer->na_class->core->count(layer->na_class, "bulk_malformed", 1);
        hg_log_warning("bulk", "these %zu bytes are no bulk handle", buf_size);
    }
    return ret;
}

/* ---- As an argument ---- */

static void hg_bulk_unkeep(void *object)
{
    hg_bulk_unref((struct hg_bulk *) object);
}

/* Whether its layer is that of the process which forked this one. */
static bool hg_bulk_is_forked(const struct hg_bulk *bulk)
{
    return bulk->layer != NULL && na_class_is_forked(bulk->layer->na_class);
}

static hg_return_t hg_bulk_encode(hg_proc_t proc, struct hg_bulk *bulk)
{
    uint32_t length = 0;
    unsigned char *bytes;
    hg_return_t ret;
    size_t size;

    if (bulk == NULL)
        return hg_proc_uint32_t(proc, &length);
    if (bulk->layer == NULL || hg_bulk_is_forked(bulk)) {
        hg_log_error("bulk", "the bulk layer of a handle has ended");
        return hg_proc_fail(proc, HG_FAULT);
    }
    size = hg_bulk_serialize_size(bulk);
    if (size > UINT32_MAX) {
        hg_log_error("bulk", "a description of %zu bytes is too large", size);
        return hg_proc_fail(proc, HG_MSGSIZE);
    }
    length = (uint32_t) size;
    ret = hg_proc_uint32_t(proc, &length);
    if (ret != HG_SUCCESS)
        return ret;
    bytes = hg_proc_step(proc, size);
    if (bytes == NULL)
        return proc->error;
    ret = hg_bulk_serialize(bulk, bytes, size);
    return ret == HG_SUCCESS ? ret : hg_proc_fail(proc, ret);
}

/* The peer of the call owns a bound handle that was not passed on: its address
 * need not be looked up. */
static void hg_bulk_meet(struct hg_bulk *bulk, struct na_addr *peer)
{
    if (!bulk->remote || !bulk->bound || peer == NULL || peer->self ||
        (bulk->bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_PASSED) != 0 ||
        na_addr_class(peer) != bulk->layer->na_class)
        return;
    if (bulk->owner == NULL || na_addr_is_called(peer, bulk->owner))
        hg_bulk_set_addr(bulk, peer);
}

static hg_return_t hg_bulk_decode(hg_proc_t proc, hg_bulk_t *bulk_p)
{
    struct hg_bulk_layer *layer =
        proc->layer != NULL ? proc->layer : hg_bulk_current();
    struct hg_bulk *bulk = NULL;
    const unsigned char *bytes;
    uint32_t length = 0;
    hg_return_t ret;

    *bulk_p = NULL;
    ret = hg_proc_uint32_t(proc, &length);
    if (ret != HG_SUCCESS || length == 0)
        return ret;
    bytes = hg_proc_step(proc, length);
    if (bytes == NULL)
        return proc->error;
    if (layer == NULL) {
        hg_log_error("bulk", "a bulk handle, but no bulk layer");
        return hg_proc_fail(proc, HG_FAULT);
    }
    ret = hg_bulk_deserialize(layer, bytes, length, &bulk);
    if (ret == HG_PROTOCOL_ERROR)
        HG_PROC_EXPLAIN(proc, "%" PRIu32 " bytes are no bulk handle", length);
    if (ret == HG_SUCCESS)
        ret = hg_proc_keep(proc, bulk, hg_bulk_unkeep);
    if (ret != HG_SUCCESS)
        return hg_proc_fail(proc, ret);
    hg_bulk_meet(bulk, proc->addr);
    *bulk_p = bulk;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data)
{
    hg_bulk_t *bulk = (hg_bulk_t *) data;

    if (proc == NULL || data == NULL)
        return hg_proc_refuse(proc);
    switch (proc->room.op) {
    case HG_ENCODE: return hg_bulk_encode(proc, *bulk);
    case HG_DECODE: return hg_bulk_decode(proc, bulk);
    default:
        if (*bulk != NULL && !proc->keeps_const && !hg_bulk_is_forked(*bulk))
            (void) hg_bulk_take_back(*bulk);
        *bulk = NULL;
        return HG_SUCCESS;
    }
}
