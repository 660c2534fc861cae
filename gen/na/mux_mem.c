/* SPDX-License-Identifier: BSD-3-Clause */
/* mux_mem: see mux_mem.h. */
#include "na/mux_mem.h"

#include "base/log.h"
#include "emul/emul.h"
#include "na/op.h"
#include "na/rma.h"

/* ---- Memory ---- */

/* What describes the memory to a part, made when it is first asked for. The
 * lock is held. */
static na_return_t na_mux_mem_describe(
    struct na_mux_mem *mem, const struct na_mux_part *part, unsigned i)
{
    struct na_mem_handle *inner = NULL;
    const void *bytes = mem->bytes;
    na_size_t size = mem->size;
    na_return_t ret;

    if (mem->base.remote && na_mux_wire_is_mem(bytes, size))
        bytes = na_mux_wire_find(bytes, size, part->tag, &size);
    if (mem->base.remote && bytes == NULL) {
        mem->base.na_class->core->count(mem->base.na_class, "rma_malformed", 1);
        hg_log_warning(
            "rma", "a peer's memory cannot be reached by %s", part->tag);
        return NA_PROTOCOL_ERROR;
    }
    ret = mem->base.remote
        ? NA_Mem_handle_deserialize(part->na_class, &inner, bytes, size)
        : NA_Mem_handle_create_segments(part->na_class, mem->base.segments,
              mem->base.segment_count, mem->base.flags, &inner);
    if (ret != NA_SUCCESS)
        return ret;
    /* All of them are of one piece of memory. */
    if (mem->base.remote && mem->base.flags != 0 &&
        (inner->size != mem->base.size || inner->flags != mem->base.flags)) {
        mem->base.na_class->core->count(mem->base.na_class, "rma_malformed", 1);
        hg_log_warning(
            "rma", "a peer's descriptions of memory contradict each other");
        (void) NA_Mem_handle_free(part->na_class, inner);
        return NA_PROTOCOL_ERROR;
    }
    atomic_store_explicit(&mem->inner[i], inner, memory_order_release);
    return NA_SUCCESS;
}

static na_return_t na_mux_mem_inner(
    struct na_mem_handle *base, unsigned i, struct na_mem_handle **inner_p)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    struct na_mux_mem *mem = na_mux_mem_of(base);
    na_return_t ret = NA_SUCCESS;

    *inner_p = atomic_load_explicit(&mem->inner[i], memory_order_acquire);
    if (HG_LIKELY(*inner_p != NULL))
        return NA_SUCCESS;
    hg_lock(&mux->lock);
    if (atomic_load(&mem->inner[i]) == NULL)
        ret = na_mux_mem_describe(mem, &mux->parts[i], i);
    *inner_p = atomic_load(&mem->inner[i]);
    hg_unlock(&mux->lock);
    return ret;
}

/* Forget what describes it to the parts; they are free. */
HG_PRIVATE void na_mux_mem_release(struct na_mem_handle *base)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    struct na_mux_mem *mem = na_mux_mem_of(base);
    unsigned i;

    for (i = 0; i < mux->count; i++) {
        struct na_mem_handle *inner = atomic_exchange(&mem->inner[i], NULL);

        if (inner != NULL)
            (void) NA_Mem_handle_free(mux->parts[i].na_class, inner);
    }
    hg_mem_free(mem->bytes);
    mem->bytes = NULL;
}

HG_PRIVATE na_return_t na_mux_mem_register(struct na_mem_handle *base)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    struct na_mem_handle *inner;
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    for (i = 0; i < mux->count && ret == NA_SUCCESS; i++) {
        ret = na_mux_mem_inner(base, i, &inner);
        if (ret == NA_SUCCESS)
            ret = NA_Mem_register(mux->parts[i].na_class, inner);
    }
    if (ret != NA_SUCCESS)
        na_mux_mem_release(base); /* which takes registrations back */
    return ret;
}

HG_PRIVATE void na_mux_mem_deregister(struct na_mem_handle *base)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    struct na_mux_mem *mem = na_mux_mem_of(base);
    unsigned i;

    for (i = 0; i < mux->count; i++) {
        struct na_mem_handle *inner = atomic_load(&mem->inner[i]);

        if (inner != NULL)
            (void) NA_Mem_deregister(mux->parts[i].na_class, inner);
    }
}

/* Also before it is registered. 0: no memory (logged). */
HG_PRIVATE na_size_t na_mux_mem_serialize_size(const struct na_mem_handle *base)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    na_size_t size = NA_MUX_WIRE_HEAD;
    unsigned i;

    if (base->remote)
        return na_mux_mem_of(base)->size;
    for (i = 0; i < mux->count; i++) {
        const struct na_mux_part *part = &mux->parts[i];
        struct na_mem_handle *inner;

        if (na_mux_mem_inner(&na_mux_mem_of(base)->base, i, &inner) !=
            NA_SUCCESS)
            return 0;
        size += na_mux_wire_part_size(part->tag) +
            na_class_ops(part->na_class)->mem_serialize_size(inner);
    }
    return size;
}

HG_PRIVATE void na_mux_mem_serialize(
    const struct na_mem_handle *base, void *buf)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    unsigned char *bytes = (unsigned char *) buf;
    unsigned i;

    na_mux_wire_put_head(bytes, mux->count);
    bytes += NA_MUX_WIRE_HEAD;
    for (i = 0; i < mux->count; i++) {
        const struct na_mux_part *part = &mux->parts[i];
        const struct na_plugin *ops = na_class_ops(part->na_class);
        struct na_mem_handle *inner =
            atomic_load(&na_mux_mem_of(base)->inner[i]);
        na_size_t size;

        assert(inner != NULL); /* it is registered */
        size = ops->mem_serialize_size(inner);
        na_mux_wire_put_part(bytes, part->tag, (uint32_t) size);
        bytes += na_mux_wire_part_size(part->tag);
        ops->mem_serialize(inner, bytes);
        bytes += size;
    }
}

/* By which part it will be reached shows later: size and permissions are taken
 * from the first description that there is. */
HG_PRIVATE na_return_t na_mux_mem_deserialize(
    struct na_mem_handle *base, const void *buf, na_size_t buf_size)
{
    struct na_mux_class *mux = na_mux_of(base->na_class);
    struct na_mux_mem *mem = na_mux_mem_of(base);
    bool list = na_mux_wire_is_mem(buf, buf_size);
    struct na_mem_handle *inner = NULL;
    na_return_t ret = NA_PROTOCOL_ERROR;
    na_size_t size;
    unsigned n;

    mem->bytes = (unsigned char *) hg_mem_alloc((size_t) buf_size + 1);
    if (mem->bytes == NULL)
        return NA_NOMEM;
    memcpy(mem->bytes, buf, (size_t) buf_size);
    mem->size = buf_size;
    for (n = 0; n < mux->count && ret != NA_SUCCESS; n++) {
        /* sm reads what an emulated transport writes, too. */
        unsigned i = mux->sm < NA_MUX_PARTS ? (mux->sm + n) % mux->count : n;

        if (!list ||
            na_mux_wire_find(buf, buf_size, mux->parts[i].tag, &size) != NULL)
            ret = na_mux_mem_inner(base, i, &inner);
    }
    if (ret != NA_SUCCESS)
        return ret;
    base->size = inner->size;
    base->flags = inner->flags;
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_mux_mem_alloc(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block)
{
    const struct na_mux_class *mux = na_mux_of(na_class);
    struct na_class *inner;

    if (mux->sm == NA_MUX_PARTS)
        return NA_NOMEM;
    inner = mux->parts[mux->sm].na_class;
    return na_class_ops(inner)->mem_alloc(inner, flags, block);
}

HG_PRIVATE void na_mux_end_local(const struct na_mem_handle *base)
{
    unsigned i;

    if (!na_mux_is(base->na_class)) {
        na_emul_end_local(base);
        return;
    }
    for (i = 0; i < NA_MUX_PARTS; i++) {
        struct na_mem_handle *inner =
            atomic_load(&na_mux_mem_of(base)->inner[i]);

        if (inner != NULL)
            na_emul_end_local(inner);
    }
}

/* ---- Transfers ---- */

/* Both handles, as the part of the address has them. */
static na_return_t na_mux_mem_both(const struct na_op *op,
    struct na_mem_handle **local_p, struct na_mem_handle **remote_p)
{
    unsigned part = na_mux_addr_of(op->addr)->part;
    na_return_t ret = na_mux_mem_inner(op->local, part, local_p);

    if (ret == NA_SUCCESS)
        ret = na_mux_mem_inner(op->remote, part, remote_p);
    return ret;
}

HG_PRIVATE na_return_t na_mux_mem_move(struct na_op *op)
{
    const struct na_mux_addr *addr = na_mux_addr_of(op->addr);
    struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_mem_handle *remote = NULL;
    struct na_mem_handle *local = NULL;
    na_return_t ret = na_mux_mem_both(op, &local, &remote);

    if (ret != NA_SUCCESS)
        return ret;
    mux_op->part = addr->part;
    return na_rma_start(na_mux_inner_context(op->context, addr->part), op->type,
        NA_LANE_INTERNAL, NULL, op, local, op->local_offset, remote,
        op->remote_offset, op->size, addr->inner, &mux_op->inner);
}

HG_PRIVATE na_return_t na_mux_mem_move_now(const struct na_op *op)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    const struct na_mux_addr *addr = na_mux_addr_of(op->addr);
    struct na_mem_handle *remote = NULL;
    struct na_mem_handle *local = NULL;
    na_return_t ret = na_mux_mem_both(op, &local, &remote);

    if (ret != NA_SUCCESS)
        return ret;
    ret = na_rma_now(na_mux_inner_context(op->context, addr->part), op->type,
        local, op->local_offset, remote, op->remote_offset, op->size,
        addr->inner);
    if (ret == NA_SUCCESS)
        na_counter_add(mux->parts[addr->part].moved, op->size);
    return ret;
}
