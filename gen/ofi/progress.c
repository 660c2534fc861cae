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

/* Poll the endpoints that contexts share. Peers that specify no context send to
 * the first one: any thread that makes progress polls it, if its own context
 * does not. */
static unsigned na_ofi_poll_shared(
    struct na_ofi_class *self, const struct na_ofi_end *own)
{
    struct na_ofi_end *first = self->ends[0];
    struct na_ofi_end *other = na_ofi_other_end(self);
    unsigned n = 0;

    if (own != first && !na_ofi_is_attended(first))
        n += na_ofi_try_poll(first);
    if (other != NULL)
        n += na_ofi_try_poll(other);
    return n;
}

/* The slot. */
static unsigned na_ofi_poll(struct na_context *context)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    struct na_ofi_class *self = end->na_class;
    unsigned n = na_ofi_try_poll(end);

    if (!atomic_load_explicit(&end->polled, memory_order_relaxed))
        atomic_store_explicit(&end->polled, true, memory_order_relaxed);
    if (atomic_load_explicit(&self->end_count, memory_order_acquire) > 1)
        n += na_ofi_poll_shared(self, end);
    return n + na_ofi_offer_all(self);
}

/* One descriptor for two, or NA_POLL_FD_NONE. */
static int na_ofi_join_fds(int one, int two)
{
#ifdef __linux__
    struct epoll_event event;
    int joined = one < 0 || two < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    if (joined >= 0 && epoll_ctl(joined, EPOLL_CTL_ADD, one, &event) == 0 &&
        epoll_ctl(joined, EPOLL_CTL_ADD, two, &event) == 0)
        return joined;
    if (joined >= 0)
        (void) close(joined);
#else
    (void) one;
    (void) two;
#endif
    return NA_POLL_FD_NONE;
}

/* The slot. No descriptor, so that the core polls every millisecond, if a
 * descriptor would not always wake the context: the context must poll the first
 * endpoint as well, or its descriptor reports only sockets. With net one poll
 * serves all endpoints of a domain, so another context may have read them. */
static int na_ofi_poll_fd(struct na_context *base)
{
    struct na_ofi_context *context = (struct na_ofi_context *) base;
    struct na_ofi_end *end = context->end;
    struct na_ofi_class *self = end->na_class;
    const struct na_ofi_end *other = na_ofi_other_end(self);

    if (atomic_load(&self->end_count) > (other != NULL ? 2u : 1u) &&
        (na_ofi_has_broken_fd(self) ||
            (end->id != 0 && !na_ofi_is_attended(self->ends[0]))))
        return NA_POLL_FD_NONE;
    if (other == NULL)
        return end->fd;
    if (context->joined < 0)
        context->joined = na_ofi_join_fds(end->fd, other->fd);
    return context->joined;
}

/* Whether the descriptor of an endpoint will report what comes from now on; it
 * has nothing now. fi_trywait polls, too. */
static bool na_ofi_may_wait(struct na_ofi_end *end)
{
    struct fid *fids[1];
    int rc;

    if (pthread_mutex_trylock(&end->poll_lock) != 0)
        return false;
    fids[0] = &end->cq->fid;
    rc = fi_trywait(end->family->fabric, fids, 1);
    na_ofi_unlock(&end->poll_lock);
    return rc == 0;
}

/* The slot, which may be called several times. */
static na_bool_t na_ofi_wait_begin(struct na_context *base)
{
    struct na_ofi_context *context = (struct na_ofi_context *) base;
    struct na_ofi_end *end = context->end;
    struct na_ofi_end *other = na_ofi_other_end(end->na_class);

    if (end->fd < 0)
        return NA_TRUE;
    if (!context->sleeps)
        atomic_fetch_add(&end->sleepers, 1);
    context->sleeps = true;
    return na_ofi_may_wait(end) && (other == NULL || na_ofi_may_wait(other))
        ? NA_TRUE
        : NA_FALSE;
}

static void na_ofi_wait_end(struct na_context *base)
{
    struct na_ofi_context *context = (struct na_ofi_context *) base;

    HG_ASSERT(!context->sleeps || atomic_load(&context->end->sleepers) > 0);
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
