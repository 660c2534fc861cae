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
#define RMA_IN_FLIGHT 4096 /* parts of an operation; more wait */

/* A copy of the source, freed when all parts were put. */
struct rma_copy {
    _Atomic int32_t *pending; /* of the operation */
    _Atomic int32_t parts;
    unsigned char bytes[];
};

/* ---- Completion ---- */

/* A peer that died ends the job soon; until then the operation is pending. */
static void rma_check(const struct na_cb_info *info)
{
    if (info->ret != NA_DISCONNECT && info->ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: %s",
            info->type == NA_CB_PUT ? "gasnet_put" : "gasnet_get",
            NA_Error_to_string(info->ret));
}

static GASNET_HG_INLINE bool rma_succeeded(const struct na_cb_info *info)
{
    if (__builtin_expect(info->ret == NA_SUCCESS, 1))
        return true;
    rma_check(info);
    return false;
}

/* The only part of an operation. */
static na_return_t rma_moved(const struct na_cb_info *info)
{
    if (rma_succeeded(info))
        atomic_store_explicit(
            (_Atomic int32_t *) info->arg, 0, memory_order_release);
    return NA_SUCCESS;
}

/* One of several parts. */
static na_return_t rma_done(const struct na_cb_info *info)
{
    if (rma_succeeded(info))
        (void) gasnet_hg_add((_Atomic int32_t *) info->arg, -1);
    return NA_SUCCESS;
}

static na_return_t rma_copy_done(const struct na_cb_info *info)
{
    struct rma_copy *copy = (struct rma_copy *) info->arg;

    if (!rma_succeeded(info))
        return NA_SUCCESS;
    (void) gasnet_hg_add(copy->pending, -1);
    if (gasnet_hg_add(&copy->parts, -1) == 1)
        free(copy);
    return NA_SUCCESS;
}

/* A part whose source is in an operation of its own. Without GASNET_PAR, since
 * the thread that ends it keeps that operation. */
static na_return_t rma_small_done(const struct na_cb_info *info)
{
    struct gasnet_hg_op *copy = (struct gasnet_hg_op *) info->arg;

    if (!rma_succeeded(info))
        return NA_SUCCESS;
    (void) gasnet_hg_add(&copy->next->pending, -1);
    gasnet_hg_op_put(gasnet_hg_self(), copy);
    return NA_SUCCESS;
}

/* ---- Start ---- */

typedef na_return_t (*rma_start_t)(na_class_t *, na_context_t *, na_cb_t,
    void *, na_mem_handle_t, na_offset_t, na_mem_handle_t, na_offset_t,
    na_size_t, na_addr_t, na_op_id_t *);

static void rma_failed(rma_start_t start, gasnet_node_t node, na_return_t ret)
{
    if (ret != NA_DISCONNECT && ret != NA_HOSTUNREACH)
        gasnet_hg_fatal("%s: node %u: %s",
            start == NA_Put ? "gasnet_put" : "gasnet_get", node,
            NA_Error_to_string(ret));
    gasnet_hg_lost(node);
}

/* Start NA_Put or NA_Get. The part is counted already. */
static GASNET_HG_INLINE na_return_t rma_call(rma_start_t start,
    gasnet_node_t node, const void *local, const void *remote, size_t nbytes,
    na_cb_t callback, void *arg)
{
    const struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];

    return start(gasnet_hg.boot.na_class, gasnet_hg.boot.context, callback, arg,
        gasnet_hg.everything, (uintptr_t) local - GASNET_HG_ALL_START,
        peer->memory, (uintptr_t) remote - peer->start, nbytes, peer->addr,
        NA_OP_ID_IGNORE);
}

static GASNET_HG_INLINE void rma_start(struct gasnet_hg_thread *self,
    rma_start_t start, gasnet_node_t node, const void *local,
    const void *remote, size_t nbytes, na_cb_t callback, void *arg)
{
    na_return_t ret;

    gasnet_hg_enter(self);
    ret = rma_call(start, node, local, remote, nbytes, callback, arg);
    gasnet_hg_leave(self);
    if (__builtin_expect(ret != NA_SUCCESS, 0))
        rma_failed(start, node, ret);
}

/* Start the move of some bytes, and wait for its end. The first poll belongs to
 * the call: where NA copies at once, it is the only one. */
static GASNET_HG_INLINE void rma_move(rma_start_t start, gasnet_node_t node,
    const void *local, const void *remote, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    _Atomic int32_t pending;
    na_return_t ret;

    atomic_init(&pending, 1);
    gasnet_hg_enter(self);
    ret = rma_call(start, node, local, remote, nbytes, rma_moved, &pending);
    if (ret == NA_SUCCESS)
        (void) gasnet_hg_progress(0);
    gasnet_hg_leave(self);
    gasnet_hg_advance_barrier();
    if (__builtin_expect(ret != NA_SUCCESS, 0))
        rma_failed(start, node, ret);
    gasnet_hg_wait_for(&pending);
}

static void rma_wait_for_others(_Atomic int32_t *pending)
{
    unsigned tries = 0;

    while (atomic_load_explicit(pending, memory_order_relaxed) >= RMA_IN_FLIGHT)
        gasnet_hg_wait(&tries);
}

/* Start the only part of an operation that does not wait. */
static GASNET_HG_INLINE gasnet_handle_t rma_start_only(
    struct gasnet_hg_thread *self, struct gasnet_hg_op *op, rma_start_t start,
    gasnet_node_t node, const void *local, const void *remote, size_t nbytes)
{
    atomic_store_explicit(&op->pending, 1, memory_order_relaxed);
    rma_start(
        self, start, node, local, remote, nbytes, rma_moved, &op->pending);
    return op;
}

/* One more part of an operation. */
static GASNET_HG_INLINE void rma_count(_Atomic int32_t *pending)
{
    if (gasnet_hg_add(pending, 1) >= RMA_IN_FLIGHT)
        rma_wait_for_others(pending);
}

/* The operation of nbi transfers. */
static GASNET_HG_INLINE struct gasnet_hg_op *rma_nbi(
    struct gasnet_hg_thread *self, struct gasnet_hg_op *op)
{
    return self->region != NULL ? self->region : op;
}

/* ---- Put ---- */

static struct rma_copy *rma_copy_new(
    _Atomic int32_t *pending, size_t nbytes, size_t parts)
{
    struct rma_copy *copy = (struct rma_copy *) malloc(sizeof(*copy) + nbytes);

    if (copy == NULL)
        gasnet_hg_fatal("gasnet_put: out of memory for %zu bytes", nbytes);
    copy->pending = pending;
    atomic_init(&copy->parts, (int32_t) parts);
    return copy;
}

static void rma_put_copy(struct gasnet_hg_thread *self, gasnet_node_t node,
    void *dest, const void *src, size_t nbytes, struct gasnet_hg_op *op)
{
    struct rma_copy *copy;

    if (nbytes > RMA_COPY) {
        gasnet_hg_put(node, dest, src, nbytes);
        return;
    }
    copy = rma_copy_new(&op->pending, nbytes, 1);
    memcpy(copy->bytes, src, nbytes);
    rma_count(&op->pending);
    rma_start(
        self, NA_Put, node, copy->bytes, dest, nbytes, rma_copy_done, copy);
}

void gasnet_hg_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    rma_move(NA_Put, node, src, dest, nbytes);
}

gasnet_handle_t gasnet_hg_put_nb(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = gasnet_hg_op_get(self);

    if (nbytes > GASNET_HG_SMALL) {
        rma_put_copy(self, node, dest, src, nbytes, op);
        return op;
    }
    memcpy(op->bytes, src, nbytes);
    return rma_start_only(self, op, NA_Put, node, op->bytes, dest, nbytes);
}

gasnet_handle_t gasnet_hg_put_nb_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    return rma_start_only(
        self, gasnet_hg_op_get(self), NA_Put, node, src, dest, nbytes);
}

void gasnet_hg_put_nbi(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = rma_nbi(self, &self->puts), *copy;

    if (gasnet_hg.threaded || nbytes > GASNET_HG_SMALL) {
        rma_put_copy(self, node, dest, src, nbytes, op);
        return;
    }
    rma_count(&op->pending);
    copy = gasnet_hg_op_get(self);
    copy->next = op;
    memcpy(copy->bytes, src, nbytes);
    rma_start(
        self, NA_Put, node, copy->bytes, dest, nbytes, rma_small_done, copy);
}

void gasnet_hg_put_nbi_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = rma_nbi(self, &self->puts);

    rma_count(&op->pending);
    rma_start(self, NA_Put, node, src, dest, nbytes, rma_done, &op->pending);
}

/* ---- Get ---- */

void gasnet_hg_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    rma_move(NA_Get, node, dest, src, nbytes);
}

gasnet_handle_t gasnet_hg_get_nb(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    return rma_start_only(
        self, gasnet_hg_op_get(self), NA_Get, node, dest, src, nbytes);
}

void gasnet_hg_get_nbi(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = rma_nbi(self, &self->gets);

    rma_count(&op->pending);
    rma_start(self, NA_Get, node, dest, src, nbytes, rma_done, &op->pending);
}

/* ---- Memset ---- */

/* Put the same pattern again and again. */
static void rma_memset(struct gasnet_hg_thread *self, gasnet_node_t node,
    void *dest, int value, size_t nbytes, struct gasnet_hg_op *op)
{
    size_t size = nbytes < RMA_COPY ? nbytes : RMA_COPY, at, part;
    struct rma_copy *copy =
        rma_copy_new(&op->pending, size, (nbytes + size - 1) / size);

    memset(copy->bytes, value, size);
    for (at = 0; at < nbytes; at += part) {
        part = nbytes - at < size ? nbytes - at : size;
        rma_count(&op->pending);
        rma_start(self, NA_Put, node, copy->bytes, (char *) dest + at, part,
            rma_copy_done, copy);
    }
}

gasnet_handle_t gasnet_hg_memset_nb(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = gasnet_hg_op_get(self);

    rma_memset(self, node, dest, value, nbytes, op);
    return op;
}

void gasnet_hg_memset_nbi(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    rma_memset(self, node, dest, value, nbytes, rma_nbi(self, &self->puts));
}
