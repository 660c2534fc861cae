/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer: see transfer.h. */
#include "bulk/transfer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/rma.h"

/* Bytes that lie in one memory handle at each side. */
struct hg_transfer_piece {
    struct na_mem_handle *origin;
    struct na_mem_handle *local;
    uint64_t origin_offset;
    uint64_t local_offset;
    uint64_t size;
};

/* ---- The home ---- */

HG_PRIVATE void hg_transfer_home_init(
    struct hg_transfer_home *home, struct hg_bulk_layer *layer)
{
    hg_list_init(&home->transfers);
    home->layer = layer;
}

HG_PRIVATE unsigned hg_transfer_home_count(struct hg_transfer_home *home)
{
    unsigned count;

    hg_enter(home->layer->lock);
    count = home->count;
    hg_leave(home->layer->lock);
    return count;
}

HG_PRIVATE void hg_transfer_home_leave(struct hg_transfer_home *home)
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

static bool hg_transfer_fits(
    const struct hg_bulk *bulk, uint64_t offset, uint64_t size)
{
    return offset <= bulk->size && size <= bulk->size - offset;
}

/* What is wrong with range or flags of a transfer; NULL: nothing. `*remote_p`:
 * a peer's memory is the cause. */
static const char *hg_transfer_judge(
    const struct hg_transfer_args *args, hg_return_t *ret_p, bool *remote_p)
{
    const unsigned long from = HG_BULK_READ_ONLY;
    const unsigned long to = HG_BULK_WRITE_ONLY;
    bool pull = args->op == HG_BULK_PULL;

    *remote_p = args->origin->remote;
    *ret_p = HG_OVERFLOW;
    if (!hg_transfer_fits(args->origin, args->origin_offset, args->size))
        return "past the end of the origin's handle";
    if (!hg_transfer_fits(args->local, args->local_offset, args->size)) {
        *remote_p = false;
        return "past the end of the local handle";
    }
    *ret_p = HG_PERMISSION;
    if ((args->origin->flags & (pull ? from : to)) == 0)
        return pull ? "the origin's flags forbid to read it"
                    : "the origin's flags forbid to write it";
    *remote_p = false;
    if ((args->local->flags & (pull ? to : from)) == 0)
        return pull ? "the local flags forbid to write it"
                    : "the local flags forbid to read it";
    return NULL;
}

HG_PRIVATE hg_return_t hg_transfer_check(const struct hg_transfer_home *home,
    const struct hg_transfer_args *args, const char *function)
{
    struct na_class *na_class = home->layer->na_class;
    const char *why = NULL;
    hg_return_t ret = HG_INVALID_ARG;
    bool remote = false;

    if (args->origin == NULL || args->local == NULL)
        return hg_log_misuse("bulk", function,
            args->origin == NULL ? "the origin's handle is NULL"
                                 : "the local handle is NULL");
    if (args->op != HG_BULK_PULL && args->op != HG_BULK_PUSH) {
        hg_log_error(
            "bulk", "%s: operation %d is unknown", function, (int) args->op);
        return HG_INVALID_ARG;
    }
    if (args->local->layer == NULL || args->origin->layer == NULL) {
        hg_log_error(
            "bulk", "%s: the bulk layer of a handle has ended", function);
        return HG_FAULT;
    }
    if (args->local->layer != home->layer || args->origin->layer != home->layer)
        return hg_log_misuse("bulk", function,
            "context, handles and address are of different classes");
    if (args->local->remote)
        return hg_log_misuse(
            "bulk", function, "the local handle is of a peer's memory");
    if (args->origin->remote && args->addr != NULL && args->addr->self)
        return hg_log_misuse("bulk", function,
            "the address is the own one, but the origin's memory is a peer's");
    why = hg_transfer_judge(args, &ret, &remote);
    if (why == NULL)
        return HG_SUCCESS;
    if (remote)
        na_class->core->count(na_class, "bulk_refused", 1);
    HG_LOG_EXPLAIN(remote ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "bulk",
        "%s: %" PRIu64 " bytes at %" PRIu64 " of %zu (origin: %s) and %" PRIu64
        " of %zu (local): %s",
        function, args->size, args->origin_offset, args->origin->size,
        hg_transfer_peer_name(args), args->local_offset, args->local->size,
        why);
    return ret;
}

/* ---- Its end ---- */

/* Entry of the queue: the result stands. */
static void hg_transfer_run(struct na_completion *done)
{
    struct hg_transfer *transfer =
        HG_CONTAINER_OF(done, struct hg_transfer, done);
    struct hg_monitor *lock = transfer->home->queue->lock;

    hg_leave(lock);
    transfer->callback(transfer);
    hg_enter(lock);
}

/* Have the callback run. The lock is held once. The transfer may be gone on
 * return. */
static void hg_transfer_push(struct hg_transfer *transfer)
{
    struct hg_transfer_home *home = transfer->home;
    bool apart = home->queue->lock != home->layer->lock;

    assert(transfer->ended && transfer->callback != NULL);
    transfer->done.run = hg_transfer_run;
    if (apart)
        hg_leave(home->layer->lock);
    na_queue_push(home->queue, NA_LANE_DONE, &transfer->done);
    if (apart)
        hg_enter(home->layer->lock);
}

/* The result stands. The lock is held. */
static void hg_transfer_end(struct hg_transfer *transfer)
{
    struct hg_bulk_layer *layer = transfer->home->layer;

    assert(hg_is_inside(layer->lock) && !transfer->ended);
    assert(transfer->op_id == NA_OP_ID_NULL);
    if (transfer->ret == HG_SUCCESS && transfer->cut < transfer->args.size)
        transfer->ret = HG_CANCELED;
    /* A peer may send any code, and to those who wait these two mean "not
     * yet". */
    if (transfer->ret == HG_TIMEOUT || transfer->ret == HG_INTR)
        transfer->ret = HG_OTHER_ERROR;
    layer->transfers_done++;
    if (transfer->ret == HG_CHECKSUM_ERROR)
        layer->transfers_damaged++;
    else if (transfer->ret == HG_SUCCESS && transfer->args.op == HG_BULK_PULL)
        layer->bytes_pulled += transfer->args.size;
    else if (transfer->ret == HG_SUCCESS)
        layer->bytes_pushed += transfer->args.size;
    transfer->ended = true;
}

HG_PRIVATE void hg_transfer_fini(struct hg_transfer *transfer)
{
    struct hg_transfer_home *home = transfer->home;
    struct hg_transfer_args *args = &transfer->args;

    assert(hg_is_inside(home->layer->lock) && home->count > 0);
    hg_list_remove(&transfer->link);
    home->count--;
    if (transfer->owner != NULL)
        na_addr_unref(transfer->owner);
    if (args->addr != NULL)
        na_addr_unref(args->addr);
    hg_bulk_unref(args->origin);
    hg_bulk_unref(args->local);
}

/* ---- Pieces: the lock is held once ---- */

/* The memory handle of a side in which byte `offset` lies, and where in it;
 * offsets only grow. */
static struct na_mem_handle *hg_transfer_find(struct hg_transfer_side *side,
    const struct hg_bulk *bulk, uint64_t offset, uint64_t *within_p)
{
    assert(offset < bulk->size && offset >= side->start);
    while (offset - side->start >= bulk->mems[side->mem]->size)
        side->start += bulk->mems[side->mem++]->size;
    *within_p = offset - side->start;
    return bulk->mems[side->mem];
}

/* Cut the next piece off. False: there is none. */
static bool hg_transfer_cut(
    struct hg_transfer *transfer, struct hg_transfer_piece *piece)
{
    const struct hg_transfer_args *args = &transfer->args;
    uint64_t size = args->size - transfer->cut;

    if (size == 0)
        return false;
    piece->origin = hg_transfer_find(&transfer->origin_side, args->origin,
        args->origin_offset + transfer->cut, &piece->origin_offset);
    piece->local = hg_transfer_find(&transfer->local_side, args->local,
        args->local_offset + transfer->cut, &piece->local_offset);
    if (size > piece->origin->size - piece->origin_offset)
        size = piece->origin->size - piece->origin_offset;
    if (size > piece->local->size - piece->local_offset)
        size = piece->local->size - piece->local_offset;
    assert(size > 0);
    piece->size = size;
    transfer->cut += size;
    return true;
}

/* Copy between memory of this process, without the lock. */
static void hg_transfer_copy(
    struct hg_transfer *transfer, const struct hg_transfer_piece *piece)
{
    const struct hg_transfer_args *args = &transfer->args;

    hg_bulk_hold(args->origin);
    hg_leave(transfer->home->layer->lock);
    if (args->op == HG_BULK_PULL)
        na_rma_copy(piece->local, piece->local_offset, piece->origin,
            piece->origin_offset, piece->size);
    else
        na_rma_copy(piece->origin, piece->origin_offset, piece->local,
            piece->local_offset, piece->size);
    hg_enter(transfer->home->layer->lock);
    hg_bulk_release(args->origin);
}

static na_return_t hg_transfer_piece_done(const struct na_cb_info *info);

/* Move a piece of a peer's memory, or start that: HG_AGAIN, and *started_p. */
static hg_return_t hg_transfer_reach(struct hg_transfer *transfer,
    const struct hg_transfer_piece *piece, bool *started_p)
{
    const struct hg_transfer_args *args = &transfer->args;
    struct hg_transfer_home *home = transfer->home;
    na_cb_type_t type = args->op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET;
    hg_return_t ret = HG_SUCCESS;

    hg_leave(home->layer->lock);
    if (transfer->owner == NULL)
        ret = hg_bulk_look_up(args->origin, &transfer->owner);
    if (ret == HG_SUCCESS)
        ret = na_rma_now(home->context, type, piece->local, piece->local_offset,
            piece->origin, piece->origin_offset, piece->size, transfer->owner);
    hg_enter(home->layer->lock);
    if (ret != HG_AGAIN)
        return ret;
    if (transfer->canceled || hg_bulk_source(args->local)->withdrawn)
        return HG_CANCELED;
    ret = na_addr_state(transfer->owner);
    if (ret == HG_SUCCESS)
        ret = na_rma_start(home->context, type, NA_LANE_INTERNAL,
            hg_transfer_piece_done, transfer, piece->local, piece->local_offset,
            piece->origin, piece->origin_offset, piece->size, transfer->owner,
            &transfer->op_id);
    *started_p = ret == HG_SUCCESS;
    return ret;
}

/* Move what is left. False: a piece is under way. */
static bool hg_transfer_go(struct hg_transfer *transfer)
{
    struct hg_bulk *origin = transfer->args.origin;
    struct hg_bulk *local = transfer->args.local;
    struct hg_transfer_piece piece;
    bool started = false;

    while (transfer->ret == HG_SUCCESS && !transfer->canceled &&
        hg_transfer_cut(transfer, &piece)) {
        if (hg_bulk_source(local)->withdrawn) {
            transfer->ret = HG_CANCELED;
        } else if (hg_bulk_source(origin)->withdrawn) {
            transfer->ret = HG_NOENTRY;
        } else {
            hg_bulk_hold(local);
            if (origin->remote)
                transfer->ret = hg_transfer_reach(transfer, &piece, &started);
            else
                hg_transfer_copy(transfer, &piece);
            hg_bulk_release(local);
            if (started)
                return false;
        }
    }
    hg_transfer_end(transfer);
    return true;
}

/* Callback of a piece that was started. */
static na_return_t hg_transfer_piece_done(const struct na_cb_info *info)
{
    struct hg_transfer *transfer = (struct hg_transfer *) info->arg;

    assert(hg_is_inside(transfer->home->layer->lock));
    assert(transfer->op_id != NA_OP_ID_NULL && !transfer->ended);
    transfer->op_id = NA_OP_ID_NULL;
    transfer->ret = info->ret;
    if (!transfer->home->left && hg_transfer_go(transfer))
        hg_transfer_push(transfer);
    return NA_SUCCESS;
}

/* ---- Starting and canceling ---- */

/* The address of the origin's memory, unless it is to be looked up. */
static hg_return_t hg_transfer_find_owner(
    const struct hg_transfer_args *args, struct na_addr **addr_p)
{
    const struct hg_bulk *origin = args->origin;
    struct na_addr *addr = origin->addr;

    if (origin->owner != NULL && (addr == NULL || na_addr_is_dead(addr)))
        return HG_SUCCESS;
    if (addr == NULL)
        addr = args->addr;
    if (addr == NULL) {
        hg_log_error("bulk",
            "the handle was passed on, and its owner does not listen: nobody "
            "else can reach the memory");
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
    struct hg_transfer_home *home, const struct hg_transfer_args *args,
    void (*callback)(struct hg_transfer *transfer), bool *ended_p)
{
    hg_return_t ret;
    bool ended;

    assert(transfer->home == NULL && args->local->layer == home->layer);
    assert(hg_is_inside(home->layer->lock));
    ret = hg_bulk_check_there(args->local);
    if (ret == HG_SUCCESS)
        ret = args->origin->remote
            ? hg_transfer_find_owner(args, &transfer->owner)
            : hg_bulk_check_there(args->origin);
    if (ret != HG_SUCCESS)
        return ret;
    transfer->home = home;
    transfer->args = *args;
    args->origin->refs++;
    args->local->refs++;
    if (args->addr != NULL)
        na_addr_ref(args->addr);
    transfer->callback = callback;
    transfer->began = hg_clock_ticks();
    hg_list_push(&home->transfers, &transfer->link);
    home->count++;
    ended = hg_transfer_go(transfer);
    if (ended_p != NULL)
        *ended_p = ended;
    else if (ended)
        hg_transfer_push(transfer);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_transfer_cancel(
    struct hg_transfer_home *home, struct hg_transfer *transfer)
{
    hg_enter(home->layer->lock);
    transfer->canceled = true;
    if (transfer->op_id != NA_OP_ID_NULL)
        (void) na_context_cancel(home->context, transfer->op_id);
    hg_leave(home->layer->lock);
}
