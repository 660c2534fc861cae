/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: put, get and memset of nodes whose segments are not mapped here.
 *
 * One NA_Put or NA_Get each. The local side is a handle of all memory; the
 * remote side is the handle on the node's card. The callback of NA means that
 * the data is there, and counts the operation down.
 *
 * A put that is not "bulk" may return before NA has read the source: it puts a
 * copy, or waits if the source is larger than RMA_COPY.
 */
#include "gasnet_hg.h"

#include <stdlib.h>

#define RMA_COPY 65536u
#define RMA_SMALL 64u       /* copies up to here are used again */
#define RMA_IN_FLIGHT 4096u /* of all threads; more wait */

/* A copy of the source, freed when all parts were put. */
struct rma_copy {
    struct rma_copy *next;     /* of the free ones */
    _Atomic uint32_t *pending; /* of the operation, which it counts in once */
    bool small;
    _Atomic uint32_t parts;
    unsigned char bytes[];
};

static _Atomic uint32_t rma_in_flight;

/* Free copies of RMA_SMALL bytes. Without GASNET_PAR one thread at a time is
 * here, and it saves malloc() and free(). */
static struct rma_copy *rma_copies;

/* ---- Completion ---- */

/* A peer that died ends the job soon; until then the operation is pending. */
static bool rma_succeeded(const struct na_cb_info *info)
{
    if (info->ret != NA_SUCCESS && info->ret != NA_DISCONNECT &&
        info->ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: %s",
            info->type == NA_CB_PUT ? "gasnet_put" : "gasnet_get",
            NA_Error_to_string(info->ret));
    return info->ret == NA_SUCCESS;
}

/* The only part of a blocking operation. */
static na_return_t rma_moved(const struct na_cb_info *info)
{
    if (rma_succeeded(info))
        atomic_store_explicit(
            (_Atomic uint32_t *) info->arg, 0, memory_order_release);
    return NA_SUCCESS;
}

/* A part of an operation that does not wait. */
static na_return_t rma_done(const struct na_cb_info *info)
{
    (void) atomic_fetch_sub_explicit(&rma_in_flight, 1, memory_order_relaxed);
    if (rma_succeeded(info))
        (void) atomic_fetch_sub_explicit(
            (_Atomic uint32_t *) info->arg, 1, memory_order_release);
    return NA_SUCCESS;
}

static void rma_copy_free(struct rma_copy *copy)
{
    if (!copy->small) {
        free(copy);
        return;
    }
    copy->next = rma_copies;
    rma_copies = copy;
}

static na_return_t rma_copy_done(const struct na_cb_info *info)
{
    struct rma_copy *copy = (struct rma_copy *) info->arg;

    (void) atomic_fetch_sub_explicit(&rma_in_flight, 1, memory_order_relaxed);
    if (!rma_succeeded(info) || atomic_fetch_sub(&copy->parts, 1) != 1)
        return NA_SUCCESS;
    (void) atomic_fetch_sub_explicit(copy->pending, 1, memory_order_release);
    rma_copy_free(copy);
    return NA_SUCCESS;
}

/* ---- Start ---- */

typedef na_return_t (*rma_start_t)(na_class_t *, na_context_t *, na_cb_t,
    void *, na_mem_handle_t, na_offset_t, na_mem_handle_t, na_offset_t,
    na_size_t, na_addr_t, na_op_id_t *);

static void rma_failed(rma_start_t start, gasnet_node_t node,
    const void *remote, size_t nbytes, na_return_t ret)
{
    if (ret != NA_DISCONNECT && ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: %zu bytes at %p of node %u: %s",
            start == NA_Put ? "gasnet_put" : "gasnet_get", nbytes, remote, node,
            NA_Error_to_string(ret));
    gasnet_hg_lost(node);
}

/* Start NA_Put or NA_Get. The part is counted already. */
static inline void rma_start(rma_start_t start, gasnet_node_t node,
    const void *local, const void *remote, size_t nbytes, na_cb_t callback,
    void *arg)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    const struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    na_return_t ret;

    gasnet_hg_enter(self);
    ret = start(gasnet_hg.boot.na_class, gasnet_hg.boot.context, callback, arg,
        gasnet_hg.everything, (uintptr_t) local - GASNET_HG_ALL_START,
        peer->memory, (uintptr_t) remote - peer->start, nbytes, peer->addr,
        NA_OP_ID_IGNORE);
    gasnet_hg_leave(self);
    if (__builtin_expect(ret != NA_SUCCESS, 0))
        rma_failed(start, node, remote, nbytes, ret);
}

/* Start the move of some bytes, and wait for its end. */
static inline void rma_move(rma_start_t start, gasnet_node_t node,
    const void *local, const void *remote, size_t nbytes)
{
    _Atomic uint32_t pending;

    atomic_init(&pending, 1);
    rma_start(start, node, local, remote, nbytes, rma_moved, &pending);
    gasnet_hg_wait_for(&pending);
}

/* One more part of an operation that does not wait. */
static void rma_count(_Atomic uint32_t *pending)
{
    unsigned tries = 0;

    while (atomic_load_explicit(&rma_in_flight, memory_order_relaxed) >=
        RMA_IN_FLIGHT)
        gasnet_hg_wait(&tries);
    (void) atomic_fetch_add_explicit(&rma_in_flight, 1, memory_order_relaxed);
    (void) atomic_fetch_add_explicit(pending, 1, memory_order_relaxed);
}

/* The operation that a transfer belongs to, which is not blocking. */
static struct gasnet_hg_op *rma_op(int how, bool put)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    if ((how & ~GASNET_HG_BULK) == GASNET_HG_NB)
        return gasnet_hg_op_get(self);
    return self->region != NULL ? self->region
        : put                   ? &self->puts
                                : &self->gets;
}

static gasnet_handle_t rma_handle(struct gasnet_hg_op *op, int how)
{
    return (how & ~GASNET_HG_BULK) == GASNET_HG_NB ? op : GASNET_INVALID_HANDLE;
}

/* ---- Put, get, memset ---- */

static struct rma_copy *rma_copy_new(_Atomic uint32_t *pending, size_t nbytes)
{
    bool small = nbytes <= RMA_SMALL && !gasnet_hg.threaded;
    struct rma_copy *copy = small ? rma_copies : NULL;

    if (copy != NULL)
        rma_copies = copy->next;
    else
        copy = (struct rma_copy *) malloc(
            sizeof(*copy) + (small ? RMA_SMALL : nbytes));
    if (copy == NULL)
        gasnet_hg_fatal("gasnet_put: out of memory for %zu bytes", nbytes);
    copy->small = small;
    copy->pending = pending;
    atomic_init(&copy->parts, 1);
    return copy;
}

gasnet_handle_t gasnet_hg_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes, int how)
{
    struct gasnet_hg_op *op;
    struct rma_copy *copy;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    if (how == GASNET_HG_BLOCKING ||
        ((how & GASNET_HG_BULK) == 0 && nbytes > RMA_COPY)) {
        rma_move(NA_Put, node, src, dest, nbytes);
        return GASNET_INVALID_HANDLE;
    }
    op = rma_op(how, true);
    rma_count(&op->pending);
    if ((how & GASNET_HG_BULK) != 0)
        rma_start(NA_Put, node, src, dest, nbytes, rma_done, &op->pending);
    else {
        copy = rma_copy_new(&op->pending, nbytes);
        memcpy(copy->bytes, src, nbytes);
        rma_start(NA_Put, node, copy->bytes, dest, nbytes, rma_copy_done, copy);
    }
    return rma_handle(op, how);
}

gasnet_handle_t gasnet_hg_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes, int how)
{
    struct gasnet_hg_op *op;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    if (how == GASNET_HG_BLOCKING) {
        rma_move(NA_Get, node, dest, src, nbytes);
        return GASNET_INVALID_HANDLE;
    }
    op = rma_op(how, false);
    rma_count(&op->pending);
    rma_start(NA_Get, node, dest, src, nbytes, rma_done, &op->pending);
    return rma_handle(op, how);
}

/* Put the same pattern again and again. The copy counts as one part of the
 * operation; each put counts as one in flight. */
gasnet_handle_t gasnet_hg_memset(
    gasnet_node_t node, void *dest, int value, size_t nbytes, int how)
{
    size_t size = nbytes < RMA_COPY ? nbytes : RMA_COPY, at, part;
    _Atomic uint32_t unused;
    struct gasnet_hg_op *op;
    struct rma_copy *copy;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    atomic_init(&unused, 0);
    op = rma_op(how == GASNET_HG_BLOCKING ? GASNET_HG_NB : how, true);
    copy = rma_copy_new(&op->pending, size);
    memset(copy->bytes, value, size);
    atomic_init(&copy->parts, (uint32_t) ((nbytes + size - 1) / size));
    (void) atomic_fetch_add(&op->pending, 1);
    for (at = 0; at < nbytes; at += part) {
        part = nbytes - at < size ? nbytes - at : size;
        rma_count(&unused);
        rma_start(NA_Put, node, copy->bytes, (char *) dest + at, part,
            rma_copy_done, copy);
    }
    if (how != GASNET_HG_BLOCKING)
        return rma_handle(op, how);
    gasnet_wait_syncnb(op);
    return GASNET_INVALID_HANDLE;
}
