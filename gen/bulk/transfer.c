/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer: see transfer.h. */
#include "bulk/transfer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/rma.h"

/* ---- The home ---- */

HG_PRIVATE void hg_transfer_list_init(
    struct hg_transfer_list *home, struct hg_bulk_layer *layer)
{
    hg_list_init(&home->transfers);
    home->layer = layer;
}

HG_PRIVATE unsigned hg_transfer_list_count(const struct hg_transfer_list *home)
{
    return atomic_load_explicit(&home->count, memory_order_acquire);
}

/* Change the number; the lock is held. */
static void hg_transfer_list_add(struct hg_transfer_list *home, int change)
{
    unsigned count = atomic_load_explicit(&home->count, memory_order_relaxed);

    HG_ASSERT(hg_is_inside(home->layer->lock));
    atomic_store_explicit(
        &home->count, count + (unsigned) change, memory_order_release);
}

HG_PRIVATE void hg_transfer_list_leave(struct hg_transfer_list *home)
{
    hg_enter(home->layer->lock);
    home->left = true;
    hg_leave(home->layer->lock);
}

/* ---- Checks ---- */

HG_PRIVATE const char *hg_transfer_peer_name(
    const struct hg_transfer_args *args)
{
    if (!args->origin->remote)
        return "this process";
    if (args->origin->owner != NULL)
        return args->origin->owner;
    return args->addr != NULL && args->addr->name != NULL ? args->addr->name
                                                          : "a peer";
}

HG_PRIVATE hg_return_t hg_transfer_check(const struct hg_transfer_list *home,
    const struct hg_transfer_args *args, const char *function)
{
    struct na_class *na_class = home->layer->na_class;
    const struct hg_bulk *origin = args->origin;
    const struct hg_bulk *local = args->local;
    bool pull = args->op == HG_BULK_PULL;
    bool remote;
    /* The handle with the wrong range or access. */
    const char *side = "origin's";
    hg_return_t ret;

    if (origin == NULL || local == NULL)
        return hg_log_misuse("bulk", function,
            origin == NULL ? "the origin's handle is NULL"
                           : "the local handle is NULL");
    if (args->op != HG_BULK_PULL && args->op != HG_BULK_PUSH)
        return hg_log_misuse("bulk", function, "the operation is unknown");
    if (local->layer == NULL || origin->layer == NULL) {
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_ERROR, "bulk",
            "%s: the bulk layer of a handle has ended", function);
        return HG_FAULT;
    }
    if (local->layer != home->layer || origin->layer != home->layer)
        return hg_log_misuse("bulk", function,
            "context, handles and address are of different classes");
    if (local->remote)
        return hg_log_misuse(
            "bulk", function, "the local handle is of a peer's memory");
    if (origin->remote && !origin->withdrawn && args->addr != NULL &&
        args->addr->self)
        return hg_log_misuse("bulk", function,
            "the address is the own one, but the origin's memory is a peer's");
    ret = hg_bulk_allows(origin, args->origin_offset, args->size,
        pull ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY);
    remote = ret != HG_SUCCESS && origin->remote;
    if (ret == HG_SUCCESS) {
        side = "local";
        ret = hg_bulk_allows(local, args->local_offset, args->size,
            pull ? HG_BULK_WRITE_ONLY : HG_BULK_READ_ONLY);
    }
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    if (remote)
        na_class->core->count(na_class, "bulk_refused", 1);
    HG_LOG_EXPLAIN(remote ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "bulk",
        "%s: %" PRIu64 " bytes at %" PRIu64 " of %zu (origin: %s) and %" PRIu64
        " of %zu (local): %s the %s handle",
        function, args->size, args->origin_offset, origin->size,
        hg_transfer_peer_name(args), args->local_offset, local->size,
        ret == HG_OVERFLOW ? "past the end of" : "forbidden by the flags of",
        side);
    return ret;
}

/* ---- Its end ---- */

/* Entry of the queue: the transfer has its result. */
static void hg_transfer_run(struct na_completion *done)
{
    struct hg_transfer *transfer =
        HG_CONTAINER_OF(done, struct hg_transfer, done);
    struct hg_monitor *lock = transfer->home->queue->lock;

    hg_leave(lock);
    transfer->callback(transfer);
    hg_enter(lock);
}

/* Queue the callback. The lock is held; the queue may have another, which is
 * taken instead. The transfer may be freed on return. */
static void hg_transfer_push(struct hg_transfer *transfer)
{
    struct hg_transfer_list *home = transfer->home;
    bool apart = home->queue->lock != home->layer->lock;

    transfer->done.run = hg_transfer_run;
    if (apart) {
        hg_leave(home->layer->lock);
        hg_enter(home->queue->lock);
    }
    na_queue_push(home->queue, NA_LANE_DONE, &transfer->done);
    if (apart) {
        hg_leave(home->queue->lock);
        hg_enter(home->layer->lock);
    }
}

/* Set the result. The lock is held. */
static void hg_transfer_end(struct hg_transfer *transfer, hg_return_t ret)
{
    struct hg_bulk_layer *layer = transfer->home->layer;

    HG_ASSERT(hg_is_inside(layer->lock) && transfer->op_id == NA_OP_ID_NULL);
    /* A peer may send any code, but for waiting callers these two mean "not
     * yet". */
    if (ret == HG_TIMEOUT || ret == HG_INTR)
        ret = HG_OTHER_ERROR;
    /* Other errors are logged where they arise. */
    if (ret == HG_DISCONNECT || ret == HG_FAULT)
        hg_log_warning("bulk", "a %s of %" PRIu64 " bytes %s %s failed: %s",
            transfer->args.op == HG_BULK_PULL ? "pull" : "push",
            transfer->args.size,
            transfer->args.op == HG_BULK_PULL ? "from" : "to",
            hg_transfer_peer_name(&transfer->args), HG_Error_to_string(ret));
    transfer->ret = ret;
    layer->transfers_done++;
    if (ret == HG_CHECKSUM_ERROR)
        layer->transfers_damaged++;
    else if (ret == HG_SUCCESS && transfer->args.op == HG_BULK_PULL)
        layer->bytes_pulled += transfer->args.size;
    else if (ret == HG_SUCCESS)
        layer->bytes_pushed += transfer->args.size;
}

HG_PRIVATE void hg_transfer_fini(struct hg_transfer *transfer)
{
    struct hg_transfer_list *home = transfer->home;
    struct hg_transfer_args *args = &transfer->args;

    HG_ASSERT(hg_is_inside(home->layer->lock) && home->count > 0);
    hg_list_remove(&transfer->link);
    hg_transfer_list_add(home, -1);
    if (transfer->owner != NULL)
        na_addr_unref_locked(transfer->owner);
    hg_bulk_unref_locked(args->origin);
    hg_bulk_unref_locked(args->local);
}

/* ---- Moving: the lock is held ---- */

/* Copy between memory of this process, without the lock. */
static void hg_transfer_copy(const struct hg_transfer_args *args)
{
    struct hg_monitor *lock = args->origin->layer->lock;

    hg_bulk_hold(args->origin);
    hg_leave(lock);
    if (args->op == HG_BULK_PULL)
        na_rma_copy(args->local->mem, args->local_offset, args->origin->mem,
            args->origin_offset, args->size);
    else
        na_rma_copy(args->origin->mem, args->origin_offset, args->local->mem,
            args->local_offset, args->size);
    hg_enter(lock);
    hg_bulk_release(args->origin);
}

/* Callback of the RMA operation. */
static na_return_t hg_transfer_moved(const struct na_cb_info *info)
{
    struct hg_transfer *transfer = (struct hg_transfer *) info->arg;

    HG_ASSERT(transfer->op_id != NA_OP_ID_NULL);
    transfer->op_id = NA_OP_ID_NULL;
    hg_transfer_end(transfer, info->ret);
    if (!transfer->home->left)
        hg_transfer_push(transfer);
    return NA_SUCCESS;
}

/* Move data from or to a peer, or start that: then op_id is set. */
static hg_return_t hg_transfer_move_remote(struct hg_transfer *transfer)
{
    const struct hg_transfer_args *args = &transfer->args;
    struct hg_transfer_list *home = transfer->home;
    na_cb_type_t type = args->op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET;
    hg_return_t ret = HG_SUCCESS;

    if (transfer->owner == NULL) {
        hg_leave(home->layer->lock);
        ret = hg_bulk_look_up(args->origin, &transfer->owner);
        hg_enter(home->layer->lock);
    }
    if (ret == HG_SUCCESS)
        ret = na_rma_now(home->context, type, args->local->mem,
            args->local_offset, args->origin->mem, args->origin_offset,
            args->size, transfer->owner);
    if (ret != HG_AGAIN)
        return ret;
    if (transfer->canceled || hg_bulk_source(args->local)->withdrawn)
        return HG_CANCELED;
    ret = na_addr_state(transfer->owner);
    if (ret != HG_SUCCESS)
        return ret;
    return na_rma_start(home->context, type, NA_LANE_INTERNAL,
        hg_transfer_moved, transfer, args->local->mem, args->local_offset,
        args->origin->mem, args->origin_offset, args->size, transfer->owner,
        &transfer->op_id);
}

/* Move the data, or start moving it. */
static hg_return_t hg_transfer_move(struct hg_transfer *transfer)
{
    const struct hg_transfer_args *args = &transfer->args;
    hg_return_t ret = HG_SUCCESS;

    if (args->size == 0)
        return HG_SUCCESS;
    hg_bulk_hold(args->local);
    if (args->origin->remote)
        ret = hg_transfer_move_remote(transfer);
    else
        hg_transfer_copy(args);
    hg_bulk_release(args->local);
    return ret;
}

/* ---- Starting and canceling ---- */

/* The address of the origin's memory, unless it must be looked up. */
static hg_return_t hg_transfer_find_owner(
    const struct hg_transfer_args *args, struct na_addr **addr_p)
{
    const struct hg_bulk *origin = args->origin;
    struct na_addr *addr = args->addr;

    /* A peer wrote the address in the handle: the caller's comes first. */
    if (addr == NULL || na_addr_class(addr) != origin->layer->na_class) {
        if (origin->owner != NULL &&
            (origin->addr == NULL || na_addr_is_dead(origin->addr)))
            return HG_SUCCESS;
        if (origin->addr != NULL)
            addr = origin->addr;
    }
    if (addr == NULL) {
        hg_log_error("bulk",
            "the handle was passed on, and its owner cannot be reached over "
            "%s, since it does not listen: open its class to listen",
            na_class_core_of(origin->layer->na_class)->tag);
        return HG_HOSTUNREACH;
    }
    if (na_addr_class(addr) != origin->layer->na_class) {
        hg_log_error("bulk",
            "the handle does not have its owner's address on the bulk class");
        return HG_PROTOCOL_ERROR;
    }
    na_addr_ref(addr);
    *addr_p = addr;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer *transfer,
    struct hg_transfer_list *home, const struct hg_transfer_args *args,
    void (*callback)(struct hg_transfer *transfer), bool *ended_p)
{
    hg_return_t ret;
    bool ended;

    HG_ASSERT(transfer->home == NULL && args->local->layer == home->layer);
    HG_ASSERT(hg_is_inside(home->layer->lock));
    ret = hg_bulk_check_there(args->local);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_check_there(args->origin);
    if (ret == HG_SUCCESS && args->origin->remote)
        ret = hg_transfer_find_owner(args, &transfer->owner);
    if (ret != HG_SUCCESS)
        return ret;
    transfer->home = home;
    transfer->args = *args;
    args->origin->refs++;
    args->local->refs++;
    transfer->args.addr = transfer->owner; /* owner holds the reference */
    transfer->callback = callback;
    transfer->began = hg_clock_ticks();
    hg_list_push(&home->transfers, &transfer->link);
    hg_transfer_list_add(home, 1);
    ret = hg_transfer_move(transfer);
    ended = transfer->op_id == NA_OP_ID_NULL;
    if (ended)
        hg_transfer_end(transfer, ret);
    if (ended_p != NULL)
        *ended_p = ended;
    else if (ended)
        hg_transfer_push(transfer);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_transfer_cancel(
    struct hg_transfer_list *home, struct hg_transfer *transfer)
{
    hg_enter(home->layer->lock);
    transfer->canceled = true;
    if (transfer->op_id != NA_OP_ID_NULL)
        (void) na_context_cancel(home->context, transfer->op_id);
    hg_leave(home->layer->lock);
}
