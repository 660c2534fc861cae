/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk_wire: see bulk_wire.h. */
#include "hg/bulk_wire.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/addr.h"
#include "proc/proc.h"

#define HG_BULK_MAGIC 0x31424748u /* "HGB1" */
#define HG_BULK_VERSION 1
#define HG_BULK_FIXED 44
#define HG_BULK_MEM_FIXED 12
#define HG_BULK_FLAGS_AT 5

/* ---- Descriptions of ours ---- */

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

/* A peer's memory: its description as it came. */
static void hg_bulk_pass_on(struct hg_bulk *bulk, void *buf)
{
    assert(bulk->bytes_size > HG_BULK_FIXED);
    memcpy(buf, bulk->bytes, bulk->bytes_size);
    if (hg_bulk_is_bound(bulk))
        ((unsigned char *) buf)[HG_BULK_FLAGS_AT] |= HG_BULK_WIRE_PASSED;
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
    hg_bulk_pass_on(bulk, buf);
    return HG_SUCCESS;
}

/* ---- Descriptions from peers ---- */

/* Read the memory handles behind the fixed part. */
static hg_return_t hg_bulk_read_mems(
    struct hg_bulk *bulk, struct hg_wire *wire, uint32_t count)
{
    struct na_class *na_class = bulk->layer->na_class;
    uint64_t total = 0;

    if (count == 0 || count > hg_wire_left(wire) / HG_BULK_MEM_FIXED)
        return HG_PROTOCOL_ERROR;
    bulk->mems =
        (struct na_mem_handle **) hg_mem_calloc(count, sizeof(bulk->mems[0]));
    if (bulk->mems == NULL) {
        hg_log_error("bulk", "no memory for %" PRIu32 " handles", count);
        return HG_NOMEM;
    }
    while (bulk->mem_count < count) {
        uint64_t size = hg_wire_get64(wire);
        uint32_t length = hg_wire_get32(wire);
        const void *bytes = hg_wire_get_bytes(wire, length);
        hg_return_t ret;

        if (wire->failed || length == 0)
            return HG_PROTOCOL_ERROR;
        ret = NA_Mem_handle_deserialize(
            na_class, &bulk->mems[bulk->mem_count], bytes, length);
        if (ret != HG_SUCCESS)
            return ret;
        bulk->mem_count++;
        if (bulk->mems[bulk->mem_count - 1]->size != size ||
            size > bulk->size - total)
            return HG_PROTOCOL_ERROR;
        total += size;
    }
    return total == bulk->size ? HG_SUCCESS : HG_PROTOCOL_ERROR;
}

/* Read the last field of a bound handle. */
static hg_return_t hg_bulk_read_bound(
    struct hg_bulk *bulk, struct hg_wire *wire)
{
    bulk->context_id = hg_wire_get8(wire);
    if (wire->failed)
        return HG_PROTOCOL_ERROR;
    atomic_store(&bulk->bound, true);
    return HG_SUCCESS;
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

/* The fixed part. */
struct hg_bulk_start {
    uint32_t magic;
    uint8_t version;
    uint8_t flags;
    uint16_t owner_size;
    uint64_t size;
    uint64_t segments;
    uint64_t incarnation;
    uint64_t id;
    uint32_t mems;
};

/* Whether the flags are of this version: those of a bound handle tell who
 * sends it. */
static bool hg_bulk_are_flags(unsigned flags)
{
    const unsigned bound = HG_BULK_WIRE_BOUND;
    const unsigned passed = HG_BULK_WIRE_PASSED;
    unsigned how = flags & ~(unsigned) HG_BULK_WIRE_ACCESS;

    return (flags & HG_BULK_WIRE_ACCESS) != 0 &&
        (how == 0 || how == bound || how == (bound | passed));
}

static hg_return_t hg_bulk_read_start(
    struct hg_bulk_start *start, struct hg_wire *wire)
{
    start->magic = hg_wire_get32(wire);
    start->version = hg_wire_get8(wire);
    start->flags = hg_wire_get8(wire);
    start->owner_size = hg_wire_get16(wire);
    start->size = hg_wire_get64(wire);
    start->segments = hg_wire_get64(wire);
    start->incarnation = hg_wire_get64(wire);
    start->id = hg_wire_get64(wire);
    start->mems = hg_wire_get32(wire);
    if (!wire->failed && start->magic == HG_BULK_MAGIC &&
        start->version == HG_BULK_VERSION && hg_bulk_are_flags(start->flags) &&
        start->size <= SIZE_MAX && start->segments <= SIZE_MAX &&
        start->segments > 0)
        return HG_SUCCESS;
    return HG_PROTOCOL_ERROR;
}

/* Fill a new handle from a description, of which `wire` stands behind the
 * start. */
static hg_return_t hg_bulk_read_remote(struct hg_bulk *bulk,
    const struct hg_bulk_start *start, struct hg_wire *wire, const void *buf,
    size_t buf_size)
{
    hg_return_t ret;

    assert(!bulk->published && bulk->mem_count == 0);
    bulk->remote = true;
    bulk->flags = start->flags & HG_BULK_WIRE_ACCESS;
    bulk->size = (size_t) start->size;
    bulk->segment_count = (size_t) start->segments;
    bulk->incarnation = start->incarnation;
    bulk->id = start->id;
    ret = hg_bulk_read_owner(bulk, wire, start->owner_size);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_read_mems(bulk, wire, start->mems);
    if (ret == HG_SUCCESS && (start->flags & HG_BULK_WIRE_BOUND) != 0)
        ret = hg_bulk_read_bound(bulk, wire);
    if (ret != HG_SUCCESS)
        return ret;
    bulk->bytes_size = buf_size - hg_wire_left(wire);
    memcpy(bulk->bytes, buf, bulk->bytes_size);
    return HG_SUCCESS;
}

/* `ret`, and counted if the peer that sent the description is the cause. */
static hg_return_t hg_bulk_malformed(
    struct hg_bulk_layer *layer, size_t size, hg_return_t ret)
{
    struct na_class *na_class = layer->na_class;

    if (ret == HG_PROTOCOL_ERROR) {
        na_class->core->count(na_class, "bulk_malformed", 1);
        hg_log_warning("bulk", "these %zu bytes are no bulk handle", size);
    }
    return ret;
}

HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p)
{
    struct hg_wire wire = hg_wire_reader(buf, buf_size);
    struct hg_bulk_start start;
    struct hg_bulk *bulk;
    hg_return_t ret = hg_bulk_read_start(&start, &wire);

    if (ret != HG_SUCCESS)
        return hg_bulk_malformed(layer, buf_size, ret);
    if (start.incarnation == layer->incarnation)
        return hg_bulk_find_own(layer, start.id, bulk_p);
    bulk = hg_bulk_new(layer, buf_size);
    if (bulk == NULL)
        return HG_NOMEM;
    ret = hg_bulk_read_remote(bulk, &start, &wire, buf, buf_size);
    if (ret != HG_SUCCESS) {
        hg_bulk_unref(bulk);
        return hg_bulk_malformed(layer, buf_size, ret);
    }
    if ((start.flags & HG_BULK_WIRE_PASSED) != 0)
        hg_bulk_recognise(bulk);
    *bulk_p = bulk;
    return HG_SUCCESS;
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
    if (!bulk->remote || !hg_bulk_is_bound(bulk) || peer == NULL ||
        peer->self ||
        (bulk->bytes[HG_BULK_FLAGS_AT] & HG_BULK_WIRE_PASSED) != 0 ||
        peer->na_class != bulk->layer->na_class)
        return;
    if (bulk->owner == NULL ||
        (peer->name != NULL && strcmp(bulk->owner, peer->name) == 0))
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
