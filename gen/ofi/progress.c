/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of progress.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* Whether a thread polls an endpoint, or sleeps on its descriptor. */
static bool na_ofi_is_attended(struct na_ofi_end *end)
{
    return atomic_load_explicit(&end->polled, memory_order_relaxed) ||
        atomic_load_explicit(&end->sleepers, memory_order_relaxed) > 0;
}

/* Poll an endpoint; no effect if another thread polls it. */
static unsigned na_ofi_try_poll(struct na_ofi_end *end)
{
    unsigned n;

    if (pthread_mutex_trylock(&end->poll_lock) != 0)
        return 0;
    n = na_ofi_poll_end(end);
    if (atomic_load_explicit(&end->na_class->hurry, memory_order_relaxed)) {
        n += na_ofi_flush(end->na_class);
        n += na_ofi_rma_flush(end);
    }
    na_ofi_unlock(&end->poll_lock);
    return n;
}

/* The slot. Peers that specify no context send to the first endpoint: any
 * thread that makes progress polls it, if its own context does not. */
static unsigned na_ofi_poll(struct na_context *context)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    struct na_ofi_end *first = end->na_class->ends[0];
    unsigned n = na_ofi_try_poll(end);

    if (!atomic_load_explicit(&end->polled, memory_order_relaxed))
        atomic_store_explicit(&end->polled, true, memory_order_relaxed);
    if (end != first && !na_ofi_is_attended(first))
        n += na_ofi_try_poll(first);
    return n + na_ofi_offer_all(end->na_class);
}

/* The slot. No descriptor, so that the core polls every millisecond, if a
 * descriptor would not always wake the context: the context must poll the first
 * endpoint as well, or its descriptor reports only sockets. With net one poll
 * serves all endpoints of a domain, so another context may have read them. */
static int na_ofi_poll_fd(struct na_context *context)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    struct na_ofi_class *self = end->na_class;

    if (atomic_load(&self->end_count) > 1 &&
        (na_ofi_has_broken_fd(self) ||
            (end->id != 0 && !na_ofi_is_attended(self->ends[0]))))
        return NA_POLL_FD_NONE;
    return end->fd;
}

/* The slot, which may be called several times. fi_trywait polls, too. */
static na_bool_t na_ofi_wait_begin(struct na_context *base)
{
    struct na_ofi_context *context = (struct na_ofi_context *) base;
    struct na_ofi_end *end = context->end;
    struct fid *fids[1];
    int rc;

    if (end->fd < 0)
        return NA_TRUE;
    if (!context->sleeps)
        atomic_fetch_add(&end->sleepers, 1);
    context->sleeps = true;
    if (pthread_mutex_trylock(&end->poll_lock) != 0)
        return NA_FALSE;
    fids[0] = &end->cq->fid;
    rc = fi_trywait(end->na_class->fabric, fids, 1);
    na_ofi_unlock(&end->poll_lock);
    return rc == 0 ? NA_TRUE : NA_FALSE;
}

static void na_ofi_wait_end(struct na_context *base)
{
    struct na_ofi_context *context = (struct na_ofi_context *) base;

    assert(!context->sleeps || atomic_load(&context->end->sleepers) > 0);
    if (context->sleeps)
        atomic_fetch_sub(&context->end->sleepers, 1);
    context->sleeps = false;
}

/* Cancel a lookup or a send that waits for its address. */
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
