/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of progress.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

static unsigned na_ofi_poll(struct na_context *context)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    unsigned n;

    if (!atomic_load_explicit(&end->polled, memory_order_relaxed))
        atomic_store_explicit(&end->polled, true, memory_order_relaxed);
    if (pthread_mutex_trylock(&end->poll_lock) != 0)
        return 0; /* the clock, or a context of the library, does */
    n = na_ofi_poll_end(end);
    if (atomic_load_explicit(&end->na_class->hurry, memory_order_relaxed)) {
        n += na_ofi_flush(end->na_class);
        n += na_ofi_rma_flush(end);
    }
    na_ofi_unlock(&end->poll_lock);
    return n;
}

static int na_ofi_poll_fd(struct na_context *context)
{
    return na_ofi_end_of(context)->fd;
}

/* Whoever polls the endpoint now may leave completions behind. */
static na_bool_t na_ofi_wait_begin(struct na_context *context)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    struct fid *fids[1];

    if (end->fd < 0)
        return NA_TRUE;
    fids[0] = &end->cq->fid;
    return fi_trywait(end->na_class->fabric, fids, 1) == 0 ? NA_TRUE : NA_FALSE;
}

/* A lookup or a send that waits for its address can be taken back. */
static na_return_t na_ofi_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_ofi_class *self = na_ofi_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    bool found;

    if (op->type == NA_CB_PUT || op->type == NA_CB_GET)
        return na_ofi_rma_cancel(op, op_id);
    na_ofi_lock(&self->lock);
    found = core->op_id(op) == op_id && !na_plug_list_empty(&op->link);
    if (found)
        na_plug_list_remove(&op->link);
    na_ofi_unlock(&self->lock);
    if (!found)
        return NA_NOENTRY;
    core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}
