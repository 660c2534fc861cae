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
#define RMA_IN_FLIGHT 4096u /* of all threads; more wait */
#define RMA_ALL_START 1u    /* the address where all memory starts */

/* A copy of the source, freed when all parts were put. */
struct rma_copy {
    _Atomic uint32_t *pending; /* of the operation, which it counts in once */
    _Atomic uint32_t parts;
    unsigned char bytes[];
};

static _Atomic uint32_t rma_in_flight;

/* ---- Completion ---- */

/* A peer that died ends the job soon; until then the operation is pending. */
static bool rma_ended(const struct na_cb_info *info)
{
    (void) atomic_fetch_sub_explicit(&rma_in_flight, 1, memory_order_relaxed);
    if (info->ret != NA_SUCCESS && info->ret != NA_DISCONNECT &&
        info->ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: %s",
            info->type == NA_CB_PUT ? "gasnet_put" : "gasnet_get",
            NA_Error_to_string(info->ret));
    return info->ret == NA_SUCCESS;
}

static na_return_t rma_done(const struct na_cb_info *info)
{
    _Atomic uint32_t *pending = (_Atomic uint32_t *) info->arg;

    if (rma_ended(info))
        (void) atomic_fetch_sub_explicit(pending, 1, memory_order_release);
    return NA_SUCCESS;
}

static na_return_t rma_copy_done(const struct na_cb_info *info)
{
    struct rma_copy *copy = (struct rma_copy *) info->arg;

    if (!rma_ended(info) || atomic_fetch_sub(&copy->parts, 1) != 1)
        return NA_SUCCESS;
    (void) atomic_fetch_sub_explicit(copy->pending, 1, memory_order_release);
    free(copy);
    return NA_SUCCESS;
}

/* ---- Start ---- */

typedef na_return_t (*rma_start_t)(na_class_t *, na_context_t *, na_cb_t,
    void *, na_mem_handle_t, na_offset_t, na_mem_handle_t, na_offset_t,
    na_size_t, na_addr_t, na_op_id_t *);

/* Start NA_Put or NA_Get. The part is counted already. */
static void rma_start(rma_start_t start, gasnet_node_t node, const void *local,
    const void *remote, size_t nbytes, na_cb_t callback, void *arg)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    const struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    unsigned tries = 0;
    na_return_t ret;

    while (atomic_load_explicit(&rma_in_flight, memory_order_relaxed) >=
        RMA_IN_FLIGHT)
        gasnet_hg_wait(&tries);
    (void) atomic_fetch_add_explicit(&rma_in_flight, 1, memory_order_relaxed);
    gasnet_hg_enter(self);
    ret = start(gasnet_hg.boot.na_class, gasnet_hg.boot.context, callback, arg,
        gasnet_hg.everything, (uintptr_t) local - RMA_ALL_START, peer->memory,
        (uintptr_t) remote - peer->start, nbytes, peer->addr, NA_OP_ID_IGNORE);
    gasnet_hg_leave(self);
    if (ret == NA_SUCCESS)
        return;
    if (ret != NA_DISCONNECT && ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: %zu bytes at %p of node %u: %s",
            start == NA_Put ? "gasnet_put" : "gasnet_get", nbytes, remote, node,
            NA_Error_to_string(ret));
    gasnet_hg_lost(node);
}

/* The operation that a transfer belongs to, or NULL: it is blocking. */
static struct gasnet_hg_op *rma_op(int how, bool put)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    switch (how & ~GASNET_HG_BULK) {
    case GASNET_HG_NB: return gasnet_hg_op_get(self);
    case GASNET_HG_NBI:
        return self->region != NULL ? self->region
            : put                   ? &self->puts
                                    : &self->gets;
    default: return NULL;
    }
}

/* ---- Put, get, memset ---- */

/* Room for a copy, counted in as a part of the operation. */
static struct rma_copy *rma_copy_new(_Atomic uint32_t *pending, size_t nbytes)
{
    struct rma_copy *copy = (struct rma_copy *) malloc(sizeof(*copy) + nbytes);

    if (copy == NULL)
        gasnet_hg_fatal("gasnet_put: out of memory for %zu bytes", nbytes);
    copy->pending = pending;
    atomic_init(&copy->parts, 1);
    (void) atomic_fetch_add_explicit(pending, 1, memory_order_relaxed);
    return copy;
}

/* `here` counts the parts of a blocking operation. */
static gasnet_handle_t rma_finish(
    struct gasnet_hg_op *op, int how, _Atomic uint32_t *here)
{
    if (op == NULL)
        gasnet_hg_wait_for(here);
    return (how & ~GASNET_HG_BULK) == GASNET_HG_NB ? op : GASNET_INVALID_HANDLE;
}

gasnet_handle_t gasnet_hg_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes, int how)
{
    _Atomic uint32_t here = 0, *pending = &here;
    struct gasnet_hg_op *op;
    struct rma_copy *copy;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    if ((how & GASNET_HG_BULK) == 0 && nbytes > RMA_COPY)
        how = GASNET_HG_BLOCKING;
    op = rma_op(how, true);
    if (op != NULL)
        pending = &op->pending;
    if (op != NULL && (how & GASNET_HG_BULK) == 0) {
        copy = rma_copy_new(pending, nbytes);
        memcpy(copy->bytes, src, nbytes);
        rma_start(NA_Put, node, copy->bytes, dest, nbytes, rma_copy_done, copy);
    } else {
        (void) atomic_fetch_add_explicit(pending, 1, memory_order_relaxed);
        rma_start(NA_Put, node, src, dest, nbytes, rma_done, pending);
    }
    return rma_finish(op, how, &here);
}

gasnet_handle_t gasnet_hg_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes, int how)
{
    _Atomic uint32_t here = 0, *pending = &here;
    struct gasnet_hg_op *op;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    op = rma_op(how, false);
    if (op != NULL)
        pending = &op->pending;
    (void) atomic_fetch_add_explicit(pending, 1, memory_order_relaxed);
    rma_start(NA_Get, node, dest, src, nbytes, rma_done, pending);
    return rma_finish(op, how, &here);
}

/* Put the same pattern again and again. */
gasnet_handle_t gasnet_hg_memset(
    gasnet_node_t node, void *dest, int value, size_t nbytes, int how)
{
    size_t size = nbytes < RMA_COPY ? nbytes : RMA_COPY, at, part;
    _Atomic uint32_t here = 0;
    struct gasnet_hg_op *op;
    struct rma_copy *copy;

    if (nbytes == 0)
        return GASNET_INVALID_HANDLE;
    op = rma_op(how, true);
    copy = rma_copy_new(op != NULL ? &op->pending : &here, size);
    memset(copy->bytes, value, size);
    atomic_init(&copy->parts, (uint32_t) ((nbytes + size - 1) / size));
    for (at = 0; at < nbytes; at += part) {
        part = nbytes - at < size ? nbytes - at : size;
        rma_start(NA_Put, node, copy->bytes, (char *) dest + at, part,
            rma_copy_done, copy);
    }
    return rma_finish(op, how, &here);
}
