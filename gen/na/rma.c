/* SPDX-License-Identifier: BSD-3-Clause */
/* rma: see rma.h. */
#include "na/rma.h"

#include "base/fault.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/op.h"

/* ---- Cursors ---- */

/* The segment that contains the logical `offset` (less than the size of `mem`),
 * and the offset within it. Binary search. */
static na_size_t na_cursor_find(
    const struct na_mem_handle *mem, na_offset_t offset, na_size_t *within_p)
{
    const na_offset_t *starts = na_mem_core_of(mem)->starts;
    na_size_t low = 0;
    na_size_t high = mem->segment_count;

    HG_ASSERT(offset < mem->size);
    /* The last segment that starts at or before the offset. If several start
     * there, all but the last are empty. */
    while (high - low > 1) {
        na_size_t middle = low + (high - low) / 2;

        if (starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    *within_p = offset - starts[low];
    HG_ASSERT(*within_p < mem->segments[low].size);
    return low;
}

HG_PRIVATE void na_cursor_init(struct na_cursor *cursor,
    const struct na_mem_handle *mem, na_offset_t offset)
{
    HG_ASSERT(mem->segments != NULL || mem->size == 0);
    HG_ASSERT(offset <= mem->size);
    cursor->segments = mem->segments;
    cursor->count = mem->segment_count;
    cursor->index = mem->segment_count;
    cursor->offset = 0;
    if (offset < mem->size)
        cursor->index = na_cursor_find(mem, offset, &cursor->offset);
}

HG_PRIVATE char *na_cursor_run(
    struct na_cursor *cursor, na_size_t limit, na_size_t *size_p)
{
    const struct na_segment *segment;
    na_size_t left;

    HG_ASSERT(limit > 0);
    for (;;) {
        HG_ASSERT(cursor->index < cursor->count);
        segment = &cursor->segments[cursor->index];
        HG_ASSERT(cursor->offset <= segment->size);
        left = segment->size - cursor->offset;
        if (left > 0)
            break;
        cursor->index++;
        cursor->offset = 0;
    }
    *size_p = left < limit ? left : limit;
    return (char *) segment->address + cursor->offset;
}

HG_PRIVATE void na_cursor_advance(struct na_cursor *cursor, na_size_t size)
{
    cursor->offset += size;
    HG_ASSERT(cursor->offset <= cursor->segments[cursor->index].size);
}

HG_PRIVATE na_size_t na_cursor_gather(
    struct na_cursor *cursor, void *buf, na_size_t size, na_size_t piece)
{
    char *to = (char *) buf;
    na_size_t done = 0;
    uintptr_t page = 0;

    while (done < size) {
        na_size_t run;
        const char *from = na_cursor_run(cursor, size - done, &run);

        if (run >= piece)
            break;
        if (!hg_fault_copy_run(to + done, from, (size_t) run, from, &page))
            return 0;
        na_cursor_advance(cursor, run);
        done += run;
    }
    return done;
}

HG_PRIVATE bool na_cursor_scatter(
    struct na_cursor *cursor, const void *data, na_size_t size)
{
    const char *from = (const char *) data;
    uintptr_t page = 0;

    while (size > 0) {
        na_size_t run;
        char *to = na_cursor_run(cursor, size, &run);

        if (!hg_fault_copy_run(to, from, (size_t) run, to, &page))
            return false;
        na_cursor_advance(cursor, run);
        from += run;
        size -= run;
    }
    return true;
}

HG_PRIVATE na_return_t na_rma_fault(na_size_t size, bool write)
{
    hg_log_error("rma",
        "%" PRIu64 " bytes of bulk memory of this process cannot be %s: they "
        "were unmapped or protected, or their mapped file was cut short",
        size, write ? "written" : "read");
    return NA_FAULT;
}

#if HG_ENABLE_SM

HG_PRIVATE bool na_rma_can_access(const struct na_mem_handle *mem,
    na_offset_t offset, na_size_t size, bool write)
{
    struct na_cursor cursor;
    bool can = true;

    na_cursor_init(&cursor, mem, offset);
    while (can && size > 0) {
        na_size_t run;
        char *at = na_cursor_run(&cursor, size, &run);

        can = write ? hg_fault_can_write(at, (size_t) run)
                    : hg_fault_can_read(at, (size_t) run);
        na_cursor_advance(&cursor, run);
        size -= run;
    }
    return can;
}

#endif

HG_PRIVATE void na_rma_copy(const struct na_mem_handle *to,
    na_offset_t to_offset, const struct na_mem_handle *from,
    na_offset_t from_offset, na_size_t size)
{
    struct na_cursor reader;
    struct na_cursor writer;

    na_cursor_init(&reader, from, from_offset);
    na_cursor_init(&writer, to, to_offset);
    while (size > 0) {
        na_size_t run;
        const char *source = na_cursor_run(&reader, size, &run);
        char *sink = na_cursor_run(&writer, run, &run);

        memmove(sink, source, (size_t) run);
        na_cursor_advance(&reader, run);
        na_cursor_advance(&writer, run);
        size -= run;
    }
}

/* ---- Memory ---- */

HG_PRIVATE na_return_t na_rma_alloc_shared(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block)
{
    struct na_class_core *part = na_class_core_of(na_class);

    while (part != NULL &&
        part->ops.mem_alloc(&part->pub, flags, block) != NA_SUCCESS)
        part = part->next;
    return part != NULL ? NA_SUCCESS : NA_NOMEM;
}

HG_PRIVATE na_return_t na_rma_alloc(struct na_class *na_class, na_size_t size,
    unsigned long flags, struct na_mem_block *block_p)
{
    struct na_mem_block block = {NULL, size, NULL, NULL};

    if (na_rma_alloc_shared(na_class, flags, &block) != NA_SUCCESS)
        block.memory = hg_mem_calloc(1, (size_t) size);
    if (block.memory == NULL)
        return NA_NOMEM;
    *block_p = block;
    return NA_SUCCESS;
}

HG_PRIVATE void na_rma_free(struct na_mem_block *block)
{
    if (block->release != NULL)
        block->release(block);
    else
        hg_mem_free(block->memory);
}

/* ---- Handles ---- */

/* Create a handle of one part with `count` segments; 0: a peer's memory. NULL:
 * out of memory (logged). */
static struct na_mem_core *na_rma_new(struct na_class_core *part,
    const struct na_segment *segments, na_size_t count, unsigned long flags)
{
    struct na_mem_core *mem =
        (struct na_mem_core *) na_core_alloc(offsetof(struct na_mem_core, pub),
            sizeof(struct na_mem_handle), part->ops.mem_size);
    na_size_t i;

    if (mem == NULL || count > SIZE_MAX / sizeof(*segments) / 2)
        goto no_memory;
    if (count > 0) {
        mem->pub.segments = (struct na_segment *) hg_mem_alloc(
            (size_t) count * sizeof(*segments));
        mem->starts =
            (na_offset_t *) hg_mem_alloc((size_t) count * sizeof(na_offset_t));
        if (mem->pub.segments == NULL || mem->starts == NULL)
            goto no_memory;
    }
    hg_list_init(&mem->link);
    mem->pub.na_class = &part->pub;
    mem->pub.segment_count = count;
    mem->pub.flags = flags;
    for (i = 0; i < count; i++) {
        mem->pub.segments[i] = segments[i];
        mem->starts[i] = mem->pub.size;
        mem->pub.size += segments[i].size;
    }
    return mem;

no_memory:
    hg_log_error(
        "rma", "no memory for a handle of %" PRIu64 " segments", count);
    if (mem != NULL) {
        hg_mem_free(mem->pub.segments);
        hg_mem_free(mem->starts);
    }
    hg_mem_free(mem);
    return NULL;
}

/* Add a handle to its class's list. */
static void na_rma_enter(struct na_class_core *core, struct na_mem_core *mem)
{
    hg_enter(core->lock);
    hg_list_push(&core->head->mems, &mem->link);
    hg_leave(core->lock);
}

HG_PRIVATE void na_rma_forget(struct na_mem_handle *handle)
{
    struct na_class_core *core = na_class_core_of(handle->na_class);

    HG_ASSERT(atomic_load(&na_mem_core_of(handle)->users) == 0);
    hg_enter(core->lock);
    hg_list_remove(&na_mem_core_of(handle)->link);
    hg_leave(core->lock);
}

HG_PRIVATE void na_rma_delete(struct na_mem_handle *handle)
{
    struct na_mem_core *mem = na_mem_core_of(handle);

    while (mem != NULL) {
        const struct na_plugin *ops = na_class_ops(mem->pub.na_class);
        struct na_mem_core *next = mem->next;

        if (atomic_exchange(&mem->registered, false))
            ops->mem_deregister(&mem->pub);
        ops->mem_release(&mem->pub);
        hg_mem_free(mem->pub.segments);
        hg_mem_free(mem->starts);
        hg_mem_free(mem);
        mem = next;
    }
}

HG_PRIVATE unsigned na_rma_release_all(struct na_class *na_class)
{
    struct na_link *link;
    unsigned n = 0;

    while ((link = hg_list_pop(&na_class_core_of(na_class)->mems)) != NULL) {
        na_rma_delete(&HG_CONTAINER_OF(link, struct na_mem_core, link)->pub);
        n++;
    }
    return n;
}

static na_return_t na_rma_check_arg(
    const struct na_class *na_class, const void *other, const char *function)
{
    na_return_t ret = na_live_check(na_class, function);

    return ret == NA_SUCCESS && other == NULL
        ? hg_log_misuse("rma", function, "an argument is NULL")
        : ret;
}

HG_PRIVATE na_return_t na_rma_check_mem(const struct na_class *na_class,
    const struct na_mem_handle *mem, const char *function)
{
    na_return_t ret = na_rma_check_arg(na_class, mem, function);

    return ret == NA_SUCCESS && na_class_head(mem->na_class) != na_class
        ? hg_log_misuse("rma", function, "the handle is of another class")
        : ret;
}

/* Check the segments of a new handle. */
static na_return_t na_rma_check_segments(const struct na_segment *segments,
    na_size_t count, unsigned long flags, na_size_t max_segments)
{
    na_size_t total = 0;
    na_size_t i;

    if (flags != NA_MEM_READ_ONLY && flags != NA_MEM_WRITE_ONLY &&
        flags != NA_MEM_READWRITE) {
        hg_log_error("rma", "memory flags 0x%lx are unknown", flags);
        return NA_INVALID_ARG;
    }
    if (segments == NULL || count == 0) {
        hg_log_error("rma", "a memory handle needs at least one segment");
        return NA_INVALID_ARG;
    }
    if (max_segments > 0 && count > max_segments) {
        hg_log_error("rma",
            "this transport supports %" PRIu64 " segments in a handle",
            max_segments);
        return NA_OPNOTSUPPORT;
    }
    for (i = 0; i < count; i++) {
        if ((segments[i].address == NULL && segments[i].size > 0) ||
            segments[i].size > UINT64_MAX - total) {
            hg_log_error("rma", "segment %" PRIu64 " %s", i,
                segments[i].address == NULL ? "is NULL"
                                            : "overflows the total size");
            return NA_INVALID_ARG;
        }
        total += segments[i].size;
    }
    return NA_SUCCESS;
}

/* Create a handle for local memory, for one part or for it and all parts that
 * follow. */
static na_return_t na_rma_make(struct na_class_core *part, bool all,
    const struct na_segment *segments, na_size_t count, unsigned long flags,
    struct na_mem_handle **mem_p)
{
    struct na_class_core *core = part;
    struct na_mem_core *first = NULL;
    struct na_mem_core **next = &first;

    for (; part != NULL; part = all ? part->next : NULL) {
        *next = na_rma_new(part, segments, count, flags);
        if (*next == NULL) {
            if (first != NULL)
                na_rma_delete(&first->pub);
            return NA_NOMEM;
        }
        next = &(*next)->next;
    }
    na_rma_enter(core, first);
    *mem_p = &first->pub;
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_rma_create(struct na_class *part, void *buf,
    na_size_t size, unsigned long flags, struct na_mem_handle **mem_p)
{
    struct na_segment segment = {buf, size};

    return na_rma_make(
        na_class_core_of(part), false, &segment, 1, flags, mem_p);
}

NA_EXPORT na_return_t NA_Mem_handle_create_segments(na_class_t *na_class,
    struct na_segment *segments, na_size_t segment_count, unsigned long flags,
    na_mem_handle_t *mem_handle)
{
    na_return_t ret =
        na_rma_check_arg(na_class, mem_handle, "NA_Mem_handle_create_segments");

    if (ret == NA_SUCCESS)
        ret = na_rma_check_segments(segments, segment_count, flags,
            na_class_ops(na_class)->max_segments);
    return ret == NA_SUCCESS ? na_rma_make(na_class_core_of(na_class), true,
                                   segments, segment_count, flags, mem_handle)
                             : ret;
}

NA_EXPORT na_return_t NA_Mem_handle_create(na_class_t *na_class, void *buf,
    na_size_t buf_size, unsigned long flags, na_mem_handle_t *mem_handle)
{
    struct na_segment segment;

    segment.address = buf;
    segment.size = buf_size;
    return NA_Mem_handle_create_segments(
        na_class, &segment, 1, flags, mem_handle);
}

NA_EXPORT na_return_t NA_Mem_handle_free(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    const struct na_mem_core *mem;
    na_return_t ret =
        na_rma_check_mem(na_class, mem_handle, "NA_Mem_handle_free");

    if (ret != NA_SUCCESS)
        return ret;
    for (mem = na_mem_core_of(mem_handle); mem != NULL; mem = mem->next) {
        if (atomic_load(&mem->users) > 0) {
            hg_log_error(
                "rma", "NA_Mem_handle_free: a transfer uses the handle");
            return NA_BUSY;
        }
    }
    na_rma_forget(mem_handle);
    na_rma_delete(mem_handle);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_rma_register(struct na_mem_handle *handle)
{
    struct na_mem_core *mem = na_mem_core_of(handle);
    na_return_t ret = NA_SUCCESS;

    HG_ASSERT(hg_is_inside(na_class_core_of(handle->na_class)->lock));
    for (; mem != NULL && ret == NA_SUCCESS; mem = mem->next) {
        ret = na_class_ops(mem->pub.na_class)->mem_register(&mem->pub);
        atomic_store(&mem->registered, ret == NA_SUCCESS);
    }
    return ret;
}

HG_PRIVATE void na_rma_deregister(struct na_mem_handle *handle)
{
    struct na_mem_core *mem = na_mem_core_of(handle);

    for (; mem != NULL; mem = mem->next) {
        if (atomic_exchange(&mem->registered, false))
            na_class_ops(mem->pub.na_class)->mem_deregister(&mem->pub);
    }
}

NA_EXPORT na_return_t NA_Mem_register(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    const struct na_mem_core *mem;
    na_return_t ret = na_rma_check_mem(na_class, mem_handle, "NA_Mem_register");

    if (ret != NA_SUCCESS)
        return ret;
    mem = na_mem_core_of(mem_handle);
    if (mem_handle->remote || atomic_load(&mem->registered)) {
        hg_log_error("rma", "NA_Mem_register: the memory is %s",
            mem_handle->remote ? "a peer's" : "registered already");
        return mem_handle->remote ? NA_INVALID_ARG : NA_EXIST;
    }
    hg_enter(na_class_core_of(na_class)->lock);
    ret = na_rma_register(mem_handle);
    hg_leave(na_class_core_of(na_class)->lock);
    if (ret != NA_SUCCESS)
        na_rma_deregister(mem_handle);
    return ret;
}

NA_EXPORT na_return_t NA_Mem_deregister(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    na_return_t ret =
        na_rma_check_mem(na_class, mem_handle, "NA_Mem_deregister");

    if (ret != NA_SUCCESS)
        return ret;
    if (!atomic_load(&na_mem_core_of(mem_handle)->registered)) {
        hg_log_error("rma", "NA_Mem_deregister: it is not registered");
        return NA_NOENTRY;
    }
    na_rma_deregister(mem_handle);
    return NA_SUCCESS;
}

/* ---- Descriptions ----
 *
 * The memory of a class of several transports is described by a list:
 *
 *     0    1    2    3      4        8      9
 *     +----+----+----+------+--------+------+------+-------+----
 *     |0x68|0x58| 1  |parts | length | tag# | tag  | bytes | ...
 *     +----+----+----+------+--------+------+------+-------+----
 *      'h'  'X'              one part, and so on
 *
 * `tag` names the transport, "zmq+tcp" or "sm", `length` counts the bytes of
 * its own description. Classes of one transport read such lists too, and take
 * what is theirs. */

#define NA_RMA_LIST_MAGIC 0x5868u
#define NA_RMA_LIST_VERSION 1
#define NA_RMA_LIST_HEAD 4 /* bytes before the parts */
#define NA_RMA_LIST_PART 5 /* of a part, before its tag */

static bool na_rma_is_list(const struct na_mem_handle *handle)
{
    return na_mem_core_of(handle)->next != NULL;
}

static na_size_t na_rma_description_size(const struct na_mem_handle *handle)
{
    const struct na_mem_core *mem = na_mem_core_of(handle);
    bool list = na_rma_is_list(handle);
    na_size_t size = list ? NA_RMA_LIST_HEAD : 0;

    for (; mem != NULL; mem = mem->next) {
        const struct na_class_core *part = na_class_core_of(mem->pub.na_class);

        size += part->ops.mem_serialize_size(&mem->pub);
        if (list)
            size += NA_RMA_LIST_PART + strlen(part->tag);
    }
    return size;
}

/* Serialize a handle: one part alone, or a list of all parts. */
static void na_rma_describe(
    const struct na_mem_handle *handle, void *buf, na_size_t buf_size)
{
    const struct na_mem_core *mem = na_mem_core_of(handle);
    struct hg_wire wire = hg_wire_writer(buf, (size_t) buf_size);
    bool list = na_rma_is_list(handle);
    unsigned char *parts = (unsigned char *) buf + 3;

    if (list) {
        hg_wire_put16(&wire, NA_RMA_LIST_MAGIC);
        hg_wire_put8(&wire, NA_RMA_LIST_VERSION);
        hg_wire_put8(&wire, 0);
    }
    for (; mem != NULL; mem = mem->next) {
        const struct na_class_core *part = na_class_core_of(mem->pub.na_class);
        na_size_t size = part->ops.mem_serialize_size(&mem->pub);

        if (list) {
            hg_wire_put32(&wire, (uint32_t) size);
            hg_wire_put8(&wire, (uint8_t) strlen(part->tag));
            hg_wire_put_bytes(&wire, part->tag, strlen(part->tag));
            ++*parts;
        }
        part->ops.mem_serialize(&mem->pub, hg_wire_take(&wire, (size_t) size));
    }
    HG_ASSERT(!wire.failed);
}

/* Find a transport's part in a list: its start and its size. If the bytes are
 * not a list, they are returned whole. NULL: the list has no such part, or is
 * malformed before it. */
static const void *na_rma_find_part(
    const void *buf, na_size_t size, const char *tag, na_size_t *size_p)
{
    struct hg_wire wire = hg_wire_reader(buf, (size_t) size);
    unsigned parts;

    *size_p = size;
    if (hg_wire_get16(&wire) != NA_RMA_LIST_MAGIC ||
        hg_wire_get8(&wire) != NA_RMA_LIST_VERSION)
        return buf;
    for (parts = hg_wire_get8(&wire); parts > 0; parts--) {
        uint32_t length = hg_wire_get32(&wire);
        uint8_t tag_size = hg_wire_get8(&wire);
        const void *name = hg_wire_get_bytes(&wire, tag_size);
        const void *bytes = hg_wire_get_bytes(&wire, length);

        *size_p = length;
        if (bytes != NULL && tag_size == strlen(tag) &&
            memcmp(name, tag, tag_size) == 0)
            return bytes;
    }
    return NULL;
}

NA_EXPORT na_size_t NA_Mem_handle_get_serialize_size(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    if (na_rma_check_mem(na_class, mem_handle,
            "NA_Mem_handle_get_serialize_size") != NA_SUCCESS)
        return 0;
    return na_rma_description_size(mem_handle);
}

NA_EXPORT na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_size, na_mem_handle_t mem_handle)
{
    na_size_t size;
    na_return_t ret =
        na_rma_check_mem(na_class, mem_handle, "NA_Mem_handle_serialize");

    if (ret != NA_SUCCESS)
        return ret;
    size = na_rma_description_size(mem_handle);
    if (buf == NULL || buf_size < size ||
        !atomic_load(&na_mem_core_of(mem_handle)->registered)) {
        hg_log_error("rma", "NA_Mem_handle_serialize: %s",
            buf == NULL           ? "buf is NULL"
                : buf_size < size ? "the buffer is too small"
                                  : "the handle is not registered");
        return buf != NULL && buf_size < size ? NA_MSGSIZE : NA_INVALID_ARG;
    }
    na_rma_describe(mem_handle, buf, size);
    return NA_SUCCESS;
}

/* Create a handle of one part for a peer's memory, from the description of that
 * part or a list that contains it. NA_PROTOCOL_ERROR: the part cannot decode
 * it. */
static na_return_t na_rma_read(struct na_class_core *part, const void *buf,
    na_size_t buf_size, struct na_mem_core **mem_p)
{
    struct na_mem_core *mem;
    na_return_t ret;

    buf = na_rma_find_part(buf, buf_size, part->tag, &buf_size);
    if (buf == NULL)
        return NA_PROTOCOL_ERROR;
    mem = na_rma_new(part, NULL, 0, 0);
    if (mem == NULL)
        return NA_NOMEM;
    mem->pub.remote = NA_TRUE;
    ret = part->ops.mem_deserialize(&mem->pub, buf, buf_size);
    if (ret == NA_SUCCESS)
        *mem_p = mem;
    else
        na_rma_delete(&mem->pub);
    return ret;
}

NA_EXPORT na_return_t NA_Mem_handle_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_size)
{
    unsigned begun = hg_log_begun(HG_LOG_LEVEL_WARNING);
    struct na_mem_core *first = NULL;
    struct na_mem_core **next = &first;
    struct na_class_core *part;
    bool agree = true;
    na_return_t ret =
        na_rma_check_arg(na_class, mem_handle, "NA_Mem_handle_deserialize");

    if (ret == NA_SUCCESS)
        ret = na_rma_check_arg(na_class, buf, "NA_Mem_handle_deserialize");
    if (ret != NA_SUCCESS)
        return ret;
    /* At least one part must be able to decode it, and all that can must
     * agree. */
    for (part = na_class_core_of(na_class); part != NULL && agree;
         part = part->next) {
        ret = na_rma_read(part, buf, buf_size, next);
        if (ret != NA_SUCCESS && ret != NA_PROTOCOL_ERROR)
            goto delete_mem;
        if (ret == NA_SUCCESS) {
            agree = (*next)->pub.size == first->pub.size &&
                (*next)->pub.flags == first->pub.flags;
            next = &(*next)->next;
        }
    }
    if (first != NULL && agree) {
        na_rma_enter(na_class_core_of(na_class), first);
        *mem_handle = &first->pub;
        return NA_SUCCESS;
    }
    na_class->core->count(na_class, "rma_malformed", 1);
    if (hg_log_begun(HG_LOG_LEVEL_WARNING) == begun)
        hg_log_warning("rma",
            "these %" PRIu64 " bytes are not a memory handle%s", buf_size,
            agree ? "" : ": the parts contradict each other");
    ret = NA_PROTOCOL_ERROR;
delete_mem:
    if (first != NULL)
        na_rma_delete(&first->pub);
    return ret;
}

HG_PRIVATE na_return_t na_rma_refuse_map(
    const struct na_mem_handle *remote, na_return_t ret)
{
    struct na_class *na_class = na_class_head(remote->na_class);

    na_class->core->count(na_class, "rma_refused", 1);
    hg_log_warning("rma",
        "a handle of %" PRIu64 " bytes of a peer is not mapped: %s",
        remote->size, NA_Error_to_string(ret));
    return ret;
}

HG_PRIVATE na_return_t na_rma_check_described(
    const struct na_mem_handle *remote, na_size_t size, unsigned long flags)
{
    if (remote->size > size)
        return na_rma_refuse_map(remote, NA_OVERFLOW);
    if ((remote->flags & ~flags) != 0)
        return na_rma_refuse_map(remote, NA_PERMISSION);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_rma_pick(
    const struct na_class *part, struct na_mem_handle **handle_p)
{
    const struct na_class_core *core = na_class_core_of(part);
    struct na_mem_core *mem = na_mem_core_of(*handle_p);

    while (mem != NULL && mem->pub.na_class != part)
        mem = mem->next;
    if (HG_LIKELY(mem != NULL)) {
        *handle_p = &mem->pub;
        return NA_SUCCESS;
    }
    part->core->count(&core->head->pub, "rma_malformed", 1);
    hg_log_warning(
        "rma", "a peer did not describe its memory for %s", core->tag);
    return NA_PROTOCOL_ERROR;
}

/* ---- Transfers ---- */

/* Check the range and the access of one side of a transfer. */
static na_return_t na_rma_check_side(const struct na_mem_handle *mem,
    na_offset_t offset, na_size_t size, unsigned long needs)
{
    /* The description of remote memory came from the peer. */
    int level = mem->remote ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
    const char *side = mem->remote ? "remote" : "local";

    if (offset > mem->size || size > mem->size - offset) {
        HG_LOG_AT(level, "rma",
            "%" PRIu64 " %s bytes at %" PRIu64 " of %" PRIu64
            " are out of range",
            size, side, offset, mem->size);
        return NA_OVERFLOW;
    }
    if ((mem->flags & needs) == 0) {
        HG_LOG_AT(level, "rma", "the %s memory may not be %s", side,
            needs == NA_MEM_READ_ONLY ? "read" : "written");
        return NA_PERMISSION;
    }
    return NA_SUCCESS;
}

/* Check a transfer with `addr`, and get the handles of its part. */
static na_return_t na_rma_prepare(na_cb_type_t type,
    struct na_mem_handle **local_p, na_offset_t local_offset,
    struct na_mem_handle **remote_p, na_offset_t remote_offset, na_size_t size,
    const struct na_addr *addr)
{
    const unsigned long out = NA_MEM_READ_ONLY;
    const unsigned long in = NA_MEM_WRITE_ONLY;
    bool put = type == NA_CB_PUT;
    na_return_t ret;

    if ((*local_p)->remote || !(*remote_p)->remote) {
        hg_log_error("rma", "%s",
            (*local_p)->remote ? "the local handle is of remote memory"
                               : "the remote handle was not deserialized");
        return NA_INVALID_ARG;
    }
    ret = na_rma_check_side(*local_p, local_offset, size, put ? out : in);
    if (ret == NA_SUCCESS)
        ret = na_rma_check_side(*remote_p, remote_offset, size, put ? in : out);
    if (ret == NA_SUCCESS)
        ret = na_rma_pick(addr->na_class, local_p);
    return ret == NA_SUCCESS ? na_rma_pick(addr->na_class, remote_p) : ret;
}

HG_PRIVATE na_return_t na_rma_start(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr, na_op_id_t *op_id)
{
    struct na_class_core *part = na_class_core_of(addr->na_class);
    struct na_op_core *op;
    na_return_t ret = na_rma_prepare(
        type, &local, local_offset, &remote, remote_offset, size, addr);

    if (ret == NA_SUCCESS)
        ret = na_addr_check_alive(addr, type == NA_CB_PUT ? "put" : "get");
    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
    HG_ASSERT(hg_is_inside(part->lock));
    op = na_op_get(context, type, lane, callback, arg, op_id);
    if (op == NULL)
        return na_op_started(NA_NOMEM, op_id);
    na_op_set_addr(op, addr);
    na_op_set_part(op, addr->na_class);
    na_op_set_mems(op, local, remote);
    op->pub.local_offset = local_offset;
    op->pub.remote_offset = remote_offset;
    op->pub.size = size;
    ret = type == NA_CB_PUT ? part->ops.put(&op->pub) : part->ops.get(&op->pub);
    if (ret == NA_SUCCESS)
        na_counter_add(part->moved, size);
    else
        na_op_put(op);
    return na_op_started(ret, op_id);
}

HG_PRIVATE na_return_t na_rma_now(struct na_context *context, na_cb_type_t type,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr)
{
    struct na_class_core *part = na_class_core_of(addr->na_class);
    struct na_op op;
    na_return_t ret = na_rma_prepare(
        type, &local, local_offset, &remote, remote_offset, size, addr);

    if (ret == NA_SUCCESS)
        ret = na_addr_state(addr);
    if (ret != NA_SUCCESS)
        return ret;
    memset(&op, 0, sizeof(op));
    op.context = na_context_for(context, &part->pub);
    op.type = type;
    op.addr = addr;
    op.local = local;
    op.remote = remote;
    op.local_offset = local_offset;
    op.remote_offset = remote_offset;
    op.size = size;
    ret = part->ops.rma_now(&op);
    if (ret == NA_SUCCESS)
        na_counter_add(part->moved, size);
    return ret;
}

/* NA_Put and NA_Get. */
static na_return_t na_rma_call(struct na_class *na_class,
    struct na_context *context, na_cb_type_t type, na_cb_t callback, void *arg,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr, na_op_id_t *op_id, const char *function)
{
    na_return_t ret = na_live_check_context(na_class, context, function);

    if (ret == NA_SUCCESS)
        ret = na_rma_check_mem(na_class, local, function);
    if (ret == NA_SUCCESS)
        ret = na_rma_check_mem(na_class, remote, function);
    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, addr, function);
    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
    na_context_enter(na_context_core_of(context));
    ret = na_rma_start(context, type, NA_LANE_DONE, callback, arg, local,
        local_offset, remote, remote_offset, size, addr, op_id);
    na_context_leave(na_context_core_of(context));
    return ret;
}

NA_EXPORT na_return_t NA_Put(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id)
{
    return na_rma_call(na_class, context, NA_CB_PUT, callback, arg,
        local_mem_handle, local_offset, remote_mem_handle, remote_offset,
        data_size, remote_addr, op_id, "NA_Put");
}

NA_EXPORT na_return_t NA_Get(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id)
{
    return na_rma_call(na_class, context, NA_CB_GET, callback, arg,
        local_mem_handle, local_offset, remote_mem_handle, remote_offset,
        data_size, remote_addr, op_id, "NA_Get");
}
