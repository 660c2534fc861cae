/* SPDX-License-Identifier: BSD-3-Clause */
/* rma: see rma.h. */
#include "na/rma.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/op.h"

/* ---- Cursors ---- */

/* The segment that holds logical `offset` (less than the size of `mem`), and
 * where in it: a binary search. */
static na_size_t na_cursor_find(
    const struct na_mem_handle *mem, na_offset_t offset, na_size_t *within_p)
{
    const na_offset_t *starts = na_mem_core_of(mem)->starts;
    na_size_t low = 0;
    na_size_t high = mem->segment_count;

    assert(offset < mem->size);
    /* The last segment that starts at or before the offset; of several that
     * start there (empty ones) the last is the one with bytes. */
    while (high - low > 1) {
        na_size_t middle = low + (high - low) / 2;

        if (starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    *within_p = offset - starts[low];
    assert(*within_p < mem->segments[low].size);
    return low;
}

HG_PRIVATE void na_cursor_init(struct na_cursor *cursor,
    const struct na_mem_handle *mem, na_offset_t offset)
{
    assert(mem->segments != NULL || mem->size == 0);
    assert(offset <= mem->size);
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

    assert(limit > 0);
    for (;;) {
        assert(cursor->index < cursor->count);
        segment = &cursor->segments[cursor->index];
        assert(cursor->offset <= segment->size);
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
    assert(cursor->offset <= cursor->segments[cursor->index].size);
}

HG_PRIVATE na_size_t na_cursor_gather(
    struct na_cursor *cursor, void *buf, na_size_t size, na_size_t piece)
{
    char *to = (char *) buf;
    na_size_t done = 0;

    while (done < size) {
        na_size_t run;
        const char *from = na_cursor_run(cursor, size - done, &run);

        if (run >= piece)
            break;
        memcpy(to + done, from, (size_t) run);
        na_cursor_advance(cursor, run);
        done += run;
    }
    return done;
}

HG_PRIVATE void na_cursor_scatter(
    struct na_cursor *cursor, const void *data, na_size_t size)
{
    const char *from = (const char *) data;

    while (size > 0) {
        na_size_t run;
        char *to = na_cursor_run(cursor, size, &run);

        memcpy(to, from, (size_t) run);
        na_cursor_advance(cursor, run);
        from += run;
        size -= run;
    }
}

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

HG_PRIVATE na_return_t na_rma_alloc(struct na_class *na_class, na_size_t size,
    unsigned long flags, struct na_mem_block *block_p)
{
    struct na_mem_block block = {NULL, size, NULL, NULL};
    struct na_class_core *part = na_class_core_of(na_class);

    while (part != NULL &&
        part->ops.mem_alloc(&part->pub, flags, &block) != NA_SUCCESS)
        part = part->next;
    if (part == NULL)
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

/* A handle of one part, of `count` segments, none filled in. NULL: no memory
 * (logged). */
static struct na_mem_core *na_rma_new(
    struct na_class_core *core, na_size_t count)
{
    struct na_mem_core *mem;

    if (count > SIZE_MAX / sizeof(struct na_segment) / 2)
        goto no_memory;
    mem =
        (struct na_mem_core *) na_core_alloc(offsetof(struct na_mem_core, pub),
            sizeof(struct na_mem_handle), core->ops.mem_size);
    if (mem == NULL)
        goto no_memory;
    if (count > 0) {
        mem->pub.segments = (struct na_segment *) hg_mem_alloc(
            (size_t) count * sizeof(struct na_segment));
        mem->starts =
            (na_offset_t *) hg_mem_alloc((size_t) count * sizeof(na_offset_t));
        if (mem->pub.segments == NULL || mem->starts == NULL)
            goto free_mem;
    }
    mem->pub.na_class = &core->pub;
    mem->pub.segment_count = count;
    return mem;

free_mem:
    hg_mem_free(mem->pub.segments);
    hg_mem_free(mem->starts);
    hg_mem_free(mem);
no_memory:
    hg_log_error(
        "rma", "no memory for a handle of %" PRIu64 " segments", count);
    return NULL;
}

/* Enter a handle into its class's list. On error it is deleted. */
static na_return_t na_rma_enter(
    struct na_class_core *core, struct na_mem_core *mem)
{
    na_return_t ret;

    hg_lock(&core->list_lock);
    ret = hg_map_put(&core->mems, (uintptr_t) &mem->pub, mem);
    hg_unlock(&core->list_lock);
    if (ret == NA_SUCCESS)
        return NA_SUCCESS;
    hg_log_error("rma", "no memory for the list of handles");
    na_rma_delete(&mem->pub);
    return NA_NOMEM;
}

HG_PRIVATE void na_rma_forget(struct na_mem_handle *handle)
{
    struct na_class_core *core = na_class_core_of(handle->na_class)->head;

    assert(atomic_load(&na_mem_core_of(handle)->users) == 0);
    hg_lock(&core->list_lock);
    (void) hg_map_remove(&core->mems, (uintptr_t) handle);
    hg_unlock(&core->list_lock);
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
        hg_mem_free(mem->bytes);
        hg_mem_free(mem);
        mem = next;
    }
}

HG_PRIVATE unsigned na_rma_release_all(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_mem_core *mem;
    uint64_t key;
    unsigned n = 0;

    for (;;) {
        size_t cursor = 0;

        hg_lock(&core->list_lock);
        mem = (struct na_mem_core *) hg_map_next(&core->mems, &cursor, &key);
        if (mem != NULL)
            (void) hg_map_remove(&core->mems, key);
        hg_unlock(&core->list_lock);
        if (mem == NULL)
            return n;
        na_rma_delete(&mem->pub);
        n++;
    }
}

static na_return_t na_rma_check_arg(
    const struct na_class *na_class, const void *other, const char *function)
{
    na_return_t ret = na_live_check(na_class, function);

    return ret == NA_SUCCESS && other == NULL
        ? hg_log_misuse("rma", function, "an argument is NULL")
        : ret;
}

/* What is behind a pointer that is not in the table is not looked at. The
 * class is one. */
static na_return_t na_rma_check_two(const struct na_class *na_class,
    const struct na_mem_handle *one, const struct na_mem_handle *two,
    const char *function)
{
    struct na_class_core *core = na_class_core_of(na_class);
    bool known;

    hg_lock(&core->list_lock);
    known = hg_map_get(&core->mems, (uintptr_t) one) != NULL &&
        (two == one || hg_map_get(&core->mems, (uintptr_t) two) != NULL);
    hg_unlock(&core->list_lock);
    if (known)
        return NA_SUCCESS;
    return hg_log_misuse("rma", function, "the class has no such handle");
}

static na_return_t na_rma_check_mem(const struct na_class *na_class,
    const struct na_mem_handle *mem, const char *function)
{
    na_return_t ret = na_rma_check_arg(na_class, mem, function);

    if (ret != NA_SUCCESS)
        return ret;
    return na_rma_check_two(na_class, mem, mem, function);
}

/* Check what a handle is to describe. */
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
        hg_log_error("rma", "a memory handle needs a segment");
        return NA_INVALID_ARG;
    }
    if (max_segments > 0 && count > max_segments) {
        hg_log_error("rma",
            "this transport takes %" PRIu64 " segments in a handle",
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

/* A handle of one part for local memory; NULL, logged. */
static struct na_mem_core *na_rma_describe(struct na_class_core *part,
    const struct na_segment *segments, na_size_t count, unsigned long flags)
{
    struct na_mem_core *mem = na_rma_new(part, count);
    na_size_t i;

    if (mem == NULL)
        return NULL;
    for (i = 0; i < count; i++) {
        mem->pub.segments[i] = segments[i];
        mem->starts[i] = mem->pub.size;
        mem->pub.size += segments[i].size;
    }
    mem->pub.flags = flags;
    return mem;
}

HG_PRIVATE na_return_t na_rma_create(struct na_class *part, void *buf,
    na_size_t size, unsigned long flags, struct na_mem_handle **mem_p)
{
    struct na_segment segment = {buf, size};
    struct na_mem_core *mem =
        na_rma_describe(na_class_core_of(part), &segment, 1, flags);
    na_return_t ret = NA_NOMEM;

    if (mem != NULL)
        ret = na_rma_enter(na_class_core_of(part)->head, mem);
    if (ret == NA_SUCCESS)
        *mem_p = &mem->pub;
    return ret;
}

NA_EXPORT na_return_t NA_Mem_handle_create_segments(na_class_t *na_class,
    struct na_segment *segments, na_size_t segment_count, unsigned long flags,
    na_mem_handle_t *mem_handle)
{
    struct na_class_core *part;
    struct na_mem_core *first = NULL;
    struct na_mem_core **mem_p = &first;
    na_return_t ret =
        na_rma_check_arg(na_class, mem_handle, "NA_Mem_handle_create_segments");

    if (ret != NA_SUCCESS)
        return ret;
    part = na_class_core_of(na_class);
    ret = na_rma_check_segments(
        segments, segment_count, flags, part->ops.max_segments);
    if (ret != NA_SUCCESS)
        return ret;
    for (; part != NULL; part = part->next) {
        *mem_p = na_rma_describe(part, segments, segment_count, flags);
        if (*mem_p == NULL) {
            if (first != NULL)
                na_rma_delete(&first->pub);
            return NA_NOMEM;
        }
        mem_p = &(*mem_p)->next;
    }
    ret = na_rma_enter(na_class_core_of(na_class), first);
    if (ret == NA_SUCCESS)
        *mem_handle = &first->pub;
    return ret;
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
    na_return_t ret =
        na_rma_check_arg(na_class, mem_handle, "NA_Mem_handle_free");
    struct na_class_core *core;
    const struct na_mem_core *part;
    struct na_mem_core *mem;
    bool used;

    if (ret != NA_SUCCESS)
        return ret;
    core = na_class_core_of(na_class);
    hg_lock(&core->list_lock);
    mem =
        (struct na_mem_core *) hg_map_get(&core->mems, (uintptr_t) mem_handle);
    used = false;
    for (part = mem; part != NULL; part = part->next)
        used = used || atomic_load(&part->users) > 0;
    if (!used)
        (void) hg_map_remove(&core->mems, (uintptr_t) mem_handle);
    hg_unlock(&core->list_lock);
    if (mem != NULL && !used) {
        na_rma_delete(&mem->pub);
        return NA_SUCCESS;
    }
    hg_log_error("rma", "NA_Mem_handle_free: %s",
        used ? "a transfer uses the handle" : "the class has no such handle");
    return used ? NA_BUSY : NA_INVALID_ARG;
}

/* Take back what is registered of a handle. */
static void na_rma_deregister(struct na_mem_core *mem)
{
    for (; mem != NULL; mem = mem->next) {
        if (atomic_exchange(&mem->registered, false))
            na_class_ops(mem->pub.na_class)->mem_deregister(&mem->pub);
    }
}

NA_EXPORT na_return_t NA_Mem_register(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    struct na_mem_core *mem;
    na_return_t ret = na_rma_check_mem(na_class, mem_handle, "NA_Mem_register");

    if (ret != NA_SUCCESS)
        return ret;
    mem = na_mem_core_of(mem_handle);
    if (mem_handle->remote || atomic_load(&mem->registered)) {
        hg_log_error("rma", "NA_Mem_register: the memory is %s",
            mem_handle->remote ? "a peer's" : "registered already");
        return mem_handle->remote ? NA_INVALID_ARG : NA_EXIST;
    }
    for (; mem != NULL && ret == NA_SUCCESS; mem = mem->next) {
        ret = na_class_ops(mem->pub.na_class)->mem_register(&mem->pub);
        atomic_store(&mem->registered, ret == NA_SUCCESS);
    }
    if (ret != NA_SUCCESS)
        na_rma_deregister(na_mem_core_of(mem_handle));
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
    na_rma_deregister(na_mem_core_of(mem_handle));
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

static void na_rma_put_head(void *buf, unsigned parts)
{
    struct hg_wire wire = hg_wire_writer(buf, NA_RMA_LIST_HEAD);

    hg_wire_put16(&wire, NA_RMA_LIST_MAGIC);
    hg_wire_put8(&wire, NA_RMA_LIST_VERSION);
    hg_wire_put8(&wire, (uint8_t) parts);
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

/* Begin a part whose own bytes are `size`. */
static void na_rma_put_part(void *buf, const char *tag, uint32_t size)
{
    struct hg_wire wire = hg_wire_writer(buf, NA_RMA_LIST_PART + strlen(tag));

    hg_wire_put32(&wire, size);
    hg_wire_put8(&wire, (uint8_t) strlen(tag));
    hg_wire_put_bytes(&wire, tag, strlen(tag));
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

/* Find a transport's part of a list: where it begins, and its size. What is no
 * list is returned whole. NULL: the list has no such part, or is malformed
 * before it. */
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

/* Write the description of one part as it is, or a list of all of them. Returns
 * its size; with `buf` NULL it only does that. */
static na_size_t na_rma_write(const struct na_mem_handle *handle, void *buf)
{
    const struct na_mem_core *mem = na_mem_core_of(handle);
    bool list = mem->next != NULL;
    unsigned char *bytes = (unsigned char *) buf;
    na_size_t at = list ? NA_RMA_LIST_HEAD : 0;
    unsigned parts = 0;

    if (mem->bytes != NULL)
        return mem->bytes_size;
    for (; mem != NULL; mem = mem->next, parts++) {
        const struct na_class_core *part = na_class_core_of(mem->pub.na_class);
        const struct na_plugin *ops = &part->ops;
        na_size_t size = ops->mem_serialize_size(&mem->pub);

        if (list && buf != NULL)
            na_rma_put_part(bytes + at, part->tag, (uint32_t) size);
        if (list)
            at += NA_RMA_LIST_PART + strlen(part->tag);
        if (buf != NULL)
            ops->mem_serialize(&mem->pub, bytes + at);
        at += size;
    }
    if (list && buf != NULL)
        na_rma_put_head(buf, parts);
    return at;
}

NA_EXPORT na_size_t NA_Mem_handle_get_serialize_size(
    na_class_t *na_class, na_mem_handle_t mem_handle)
{
    if (na_rma_check_mem(na_class, mem_handle,
            "NA_Mem_handle_get_serialize_size") != NA_SUCCESS)
        return 0;
    return na_rma_write(mem_handle, NULL);
}

NA_EXPORT na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_size, na_mem_handle_t mem_handle)
{
    na_size_t size;
    na_return_t ret =
        na_rma_check_mem(na_class, mem_handle, "NA_Mem_handle_serialize");

    if (ret != NA_SUCCESS)
        return ret;
    size = na_rma_write(mem_handle, NULL);
    if (buf == NULL || buf_size < size ||
        !atomic_load(&na_mem_core_of(mem_handle)->registered)) {
        hg_log_error("rma", "NA_Mem_handle_serialize: %s",
            buf == NULL           ? "buf is NULL"
                : buf_size < size ? "the buffer is too small"
                                  : "the handle is not registered");
        return buf != NULL && buf_size < size ? NA_MSGSIZE : NA_INVALID_ARG;
    }
    (void) na_rma_write(mem_handle, buf);
    return NA_SUCCESS;
}

/* A handle of one part for a peer's memory, from that part's description, or a
 * list that has one. NA_PROTOCOL_ERROR: the part cannot read it. */
static na_return_t na_rma_read(struct na_class_core *part, const void *buf,
    na_size_t buf_size, struct na_mem_core **mem_p)
{
    struct na_mem_core *mem;
    na_return_t ret;

    buf = na_rma_find_part(buf, buf_size, part->tag, &buf_size);
    if (buf == NULL)
        return NA_PROTOCOL_ERROR;
    mem = na_rma_new(part, 0);
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

/* A copy of the description, for parts that are used later. */
static na_return_t na_rma_keep(
    struct na_mem_core *mem, const void *buf, na_size_t buf_size)
{
    mem->bytes = (unsigned char *) hg_mem_alloc((size_t) buf_size + 1);
    if (mem->bytes == NULL) {
        hg_log_error("rma", "no memory for a description");
        return NA_NOMEM;
    }
    memcpy(mem->bytes, buf, (size_t) buf_size);
    mem->bytes_size = buf_size;
    return NA_SUCCESS;
}

NA_EXPORT na_return_t NA_Mem_handle_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_size)
{
    unsigned begun = hg_log_begun(HG_LOG_LEVEL_WARNING);
    struct na_class_core *core;
    struct na_class_core *part;
    struct na_mem_core *mem;
    na_return_t ret =
        na_rma_check_arg(na_class, mem_handle, "NA_Mem_handle_deserialize");

    if (ret == NA_SUCCESS)
        ret = na_rma_check_arg(na_class, buf, "NA_Mem_handle_deserialize");
    if (ret != NA_SUCCESS)
        return ret;
    /* Any part that reads it will do: another reads it when it is used. */
    core = na_class_core_of(na_class);
    ret = NA_PROTOCOL_ERROR;
    for (part = core; part != NULL && ret == NA_PROTOCOL_ERROR;
         part = part->next)
        ret = na_rma_read(part, buf, buf_size, &mem);
    if (ret == NA_PROTOCOL_ERROR)
        na_class->core->count(na_class, "rma_malformed", 1);
    if (ret != NA_SUCCESS && hg_log_begun(HG_LOG_LEVEL_WARNING) == begun)
        hg_log_warning(
            "rma", "these %" PRIu64 " bytes are no memory handle", buf_size);
    if (ret != NA_SUCCESS)
        return ret;
    if (core->next != NULL)
        ret = na_rma_keep(mem, buf, buf_size);
    if (ret == NA_SUCCESS)
        ret = na_rma_enter(core, mem);
    else
        na_rma_delete(&mem->pub);
    if (ret == NA_SUCCESS)
        *mem_handle = &mem->pub;
    return ret;
}

/* The handle for a part, in place of *handle_p. That of a peer's memory is made
 * when it is first used; all must agree on the memory. */
static na_return_t na_rma_pick(
    struct na_class *na_class, struct na_mem_handle **handle_p)
{
    struct na_mem_core *first = na_mem_core_of(*handle_p);
    struct na_class_core *part = na_class_core_of(na_class);
    struct na_mem_core *mem;
    na_return_t ret = NA_SUCCESS;

    if (HG_LIKELY(first->pub.na_class == na_class))
        return NA_SUCCESS;
    hg_enter(part->lock);
    for (mem = first; mem != NULL && mem->pub.na_class != na_class;)
        mem = mem->next;
    if (mem == NULL) {
        assert(first->bytes != NULL);
        ret = na_rma_read(part, first->bytes, first->bytes_size, &mem);
        if (ret == NA_SUCCESS) {
            mem->next = first->next;
            first->next = mem;
        }
    }
    hg_leave(part->lock);
    if (ret == NA_SUCCESS && mem->pub.size == first->pub.size &&
        mem->pub.flags == first->pub.flags) {
        *handle_p = &mem->pub;
        return NA_SUCCESS;
    }
    if (ret != NA_SUCCESS && ret != NA_PROTOCOL_ERROR)
        return ret;
    part->pub.core->count(&part->pub, "rma_malformed", 1);
    hg_log_warning("rma",
        "a peer's descriptions of memory contradict each other, or none is for "
        "%s+%s",
        part->ops.name, part->pub.protocol);
    return NA_PROTOCOL_ERROR;
}

/* ---- Transfers ---- */

static bool na_rma_in_range(
    const struct na_mem_handle *mem, na_offset_t offset, na_size_t size)
{
    return offset <= mem->size && size <= mem->size - offset;
}

static na_return_t na_rma_check_transfer(bool put,
    const struct na_mem_handle *local, na_offset_t local_offset,
    const struct na_mem_handle *remote, na_offset_t remote_offset,
    na_size_t size)
{
    const unsigned long out = NA_MEM_READ_ONLY;
    const unsigned long in = NA_MEM_WRITE_ONLY;

    if (local->remote || !remote->remote) {
        hg_log_error("rma", "%s",
            local->remote ? "the local handle is of remote memory"
                          : "the remote handle was not deserialized");
        return NA_INVALID_ARG;
    }
    if (!na_rma_in_range(local, local_offset, size)) {
        hg_log_error("rma",
            "%" PRIu64 " local bytes at %" PRIu64 " of %" PRIu64
            " are out of range",
            size, local_offset, local->size);
        return NA_OVERFLOW;
    }
    if ((local->flags & (put ? out : in)) == 0) {
        hg_log_error(
            "rma", "the local memory may not be %s", put ? "read" : "written");
        return NA_PERMISSION;
    }
    /* The peer said how large its memory is, and what is allowed. */
    if (!na_rma_in_range(remote, remote_offset, size)) {
        hg_log_warning("rma",
            "%" PRIu64 " remote bytes at %" PRIu64 " of %" PRIu64
            " are out of range",
            size, remote_offset, remote->size);
        return NA_OVERFLOW;
    }
    if ((remote->flags & (put ? in : out)) == 0) {
        hg_log_warning(
            "rma", "the remote memory may not be %s", put ? "written" : "read");
        return NA_PERMISSION;
    }
    return NA_SUCCESS;
}

/* Check a transfer with `addr`, and choose the handles of its part. */
static na_return_t na_rma_prepare(na_cb_type_t type,
    struct na_mem_handle **local_p, na_offset_t local_offset,
    struct na_mem_handle **remote_p, na_offset_t remote_offset, na_size_t size,
    const struct na_addr *addr)
{
    na_return_t ret = na_rma_check_transfer(type == NA_CB_PUT, *local_p,
        local_offset, *remote_p, remote_offset, size);

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
        return ret;
    op = na_op_get(context, type, lane, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    na_op_set_addr(op, addr);
    na_op_aim(op, addr->na_class);
    na_op_set_mems(op, local, remote);
    op->pub.local_offset = local_offset;
    op->pub.remote_offset = remote_offset;
    op->pub.size = size;
    ret = type == NA_CB_PUT ? part->ops.put(&op->pub) : part->ops.get(&op->pub);
    if (ret == NA_SUCCESS)
        na_counter_add(part->moved, size);
    else
        na_op_put(op);
    return ret;
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

    if (ret == NA_SUCCESS && (local == NULL || remote == NULL))
        ret = na_rma_check_arg(na_class, NULL, function);
    if (ret == NA_SUCCESS)
        ret = na_rma_check_two(na_class, local, remote, function);
    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, addr, function);
    if (ret != NA_SUCCESS)
        return ret;
    return na_rma_start(context, type, NA_LANE_DONE, callback, arg, local,
        local_offset, remote, remote_offset, size, addr, op_id);
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
