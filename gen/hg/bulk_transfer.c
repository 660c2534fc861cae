/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk_transfer: see bulk_transfer.h. */
#include "hg/bulk_transfer.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/lookup.h"
#include "na/rma.h"

/* Pieces on their way at a time. */
#define HG_TRANSFER_WINDOW 64

/* How far the memory of both sides was cut into pieces. */
struct hg_transfer_walk {
    size_t cut;        /* bytes */
    size_t origin_mem; /* where the next piece starts */
    size_t origin_within;
    size_t local_mem;
    size_t local_within;
};

struct hg_transfer_piece {
    struct na_mem_handle *origin;
    struct na_mem_handle *local;
    size_t origin_offset;
    size_t local_offset;
    size_t size;
};

struct hg_transfer {
    struct na_completion done;
    struct hg_transfer_home *home;
    struct hg_transfer_args args; /* with references */
    struct na_addr *owner;        /* of the memory, on the bulk class */
    pthread_mutex_t lock;
    /* Guarded by lock. */
    struct hg_transfer_walk walk; /* to what was started */
    unsigned pieces;              /* on their way, and 1 while being started */
    hg_return_t ret;
    void (*callback)(hg_return_t ret, void *arg);
    void *arg;
};

static void hg_transfer_delete(struct hg_transfer *transfer)
{
    if (transfer->owner != NULL)
        na_addr_unref(transfer->owner);
    atomic_fetch_sub(&transfer->home->under_way, 1);
    hg_bulk_unref(transfer->args.origin);
    hg_bulk_unref(transfer->args.local);
    pthread_mutex_destroy(&transfer->lock);
    hg_mem_free(transfer);
}

/* It went well. */
static void hg_transfer_count(const struct hg_transfer_args *args)
{
    struct hg_bulk_layer *layer = args->local->layer;

    atomic_fetch_add_explicit(
        args->op == HG_BULK_PULL ? &layer->bytes_pulled : &layer->bytes_pushed,
        args->size, memory_order_relaxed);
}

/* Entry of the queue: the result stands. */
static void hg_transfer_run(struct na_completion *done)
{
    struct hg_transfer *transfer =
        HG_CONTAINER_OF(done, struct hg_transfer, done);

    atomic_fetch_add(&transfer->args.local->layer->transfers_done, 1);
    if (transfer->ret == HG_SUCCESS)
        hg_transfer_count(&transfer->args);
    transfer->callback(transfer->ret, transfer->arg);
    hg_transfer_delete(transfer);
}

static void hg_transfer_finish(struct hg_transfer *transfer)
{
    if (atomic_load(&transfer->home->left))
        return; /* nobody is there to be told */
    /* A peer may send any code, and these two mean "not yet" to who waits. */
    if (transfer->ret == HG_TIMEOUT || transfer->ret == HG_INTR)
        transfer->ret = HG_OTHER_ERROR;
    transfer->done.run = hg_transfer_run;
    na_queue_push(transfer->home->queue, NA_LANE_DONE, &transfer->done);
}

/* One of the counted parts ended; the last one ends the transfer. */
static void hg_transfer_drop_piece(
    struct hg_transfer *transfer, hg_return_t ret)
{
    bool last;

    hg_lock(&transfer->lock);
    if (transfer->ret == HG_SUCCESS)
        transfer->ret = ret;
    assert(transfer->pieces > 0);
    last = --transfer->pieces == 0;
    hg_unlock(&transfer->lock);
    if (last)
        hg_transfer_finish(transfer);
}

/* ---- Pieces ---- */

/* Pass a side's empty rest, so that there is a byte where it stands. */
static void hg_transfer_skip_ended(
    const struct hg_bulk *bulk, size_t *mem, size_t *within)
{
    while (*within == bulk->mems[*mem]->size && *mem + 1 < bulk->mem_count) {
        *mem += 1;
        *within = 0;
    }
}

static void hg_transfer_walk_init(
    struct hg_transfer_walk *walk, const struct hg_transfer_args *args)
{
    walk->cut = 0;
    walk->origin_mem = hg_bulk_find_mem(
        args->origin, args->origin_offset, &walk->origin_within);
    walk->local_mem =
        hg_bulk_find_mem(args->local, args->local_offset, &walk->local_within);
}

/* Cut the next piece off. False: there is none. */
static bool hg_transfer_cut(struct hg_transfer_walk *walk,
    const struct hg_transfer_args *args, struct hg_transfer_piece *piece)
{
    const size_t left = args->size - walk->cut;

    if (left == 0)
        return false;
    hg_transfer_skip_ended(
        args->origin, &walk->origin_mem, &walk->origin_within);
    hg_transfer_skip_ended(args->local, &walk->local_mem, &walk->local_within);
    piece->origin = args->origin->mems[walk->origin_mem];
    piece->local = args->local->mems[walk->local_mem];
    piece->origin_offset = walk->origin_within;
    piece->local_offset = walk->local_within;
    piece->size = left;
    if (piece->size > piece->origin->size - piece->origin_offset)
        piece->size = (size_t) (piece->origin->size - piece->origin_offset);
    if (piece->size > piece->local->size - piece->local_offset)
        piece->size = (size_t) (piece->local->size - piece->local_offset);
    assert(piece->size > 0);
    walk->cut += piece->size;
    walk->origin_within += piece->size;
    walk->local_within += piece->size;
    return true;
}

/* Cut the next piece off, if one may start now. */
static bool hg_transfer_next(
    struct hg_transfer *transfer, struct hg_transfer_piece *piece)
{
    bool some;

    hg_lock(&transfer->lock);
    some = transfer->ret == HG_SUCCESS &&
        transfer->pieces <= HG_TRANSFER_WINDOW &&
        hg_transfer_cut(&transfer->walk, &transfer->args, piece);
    if (some)
        transfer->pieces++;
    hg_unlock(&transfer->lock);
    return some;
}

static void hg_transfer_issue(struct hg_transfer *transfer);

static na_return_t hg_transfer_piece_done(const struct na_cb_info *info)
{
    struct hg_transfer *transfer = (struct hg_transfer *) info->arg;

    /* This piece keeps the transfer alive while others start in its place. */
    if (info->ret == NA_SUCCESS)
        hg_transfer_issue(transfer);
    hg_transfer_drop_piece(transfer, info->ret);
    return NA_SUCCESS;
}

/* That the peer died, or the local handle was freed, is told by the code
 * alone. */
static hg_return_t hg_transfer_start_piece(
    struct hg_transfer *transfer, const struct hg_transfer_piece *piece)
{
    struct hg_bulk *local = transfer->args.local;
    hg_return_t ret = na_addr_state(transfer->owner);

    if (ret != HG_SUCCESS)
        return ret;
    if (!hg_bulk_hold(local))
        return HG_CANCELED;
    ret = na_rma_start(transfer->home->context,
        transfer->args.op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET,
        NA_LANE_INTERNAL, hg_transfer_piece_done, transfer, piece->local,
        piece->local_offset, piece->origin, piece->origin_offset, piece->size,
        transfer->owner, NA_OP_ID_IGNORE);
    hg_bulk_release(local);
    return ret;
}

/* Start pieces up to the window. The caller holds one of the counts. */
static void hg_transfer_issue(struct hg_transfer *transfer)
{
    struct hg_transfer_piece piece;

    while (hg_transfer_next(transfer, &piece)) {
        hg_return_t ret = hg_transfer_start_piece(transfer, &piece);

        if (ret != HG_SUCCESS)
            hg_transfer_drop_piece(transfer, ret);
    }
}

/* ---- The owner's address ---- */

static na_return_t hg_transfer_looked_up(const struct na_cb_info *info)
{
    struct hg_transfer *transfer = (struct hg_transfer *) info->arg;

    if (info->ret == NA_SUCCESS) {
        transfer->owner = info->info.lookup.addr;
        hg_bulk_add_peer(transfer->args.local->layer,
            transfer->args.origin->owner, transfer->owner);
        hg_transfer_issue(transfer);
    }
    hg_transfer_drop_piece(transfer, info->ret);
    return NA_SUCCESS;
}

/* Find out whom to ask, and begin. The caller's count is handed over. */
static hg_return_t hg_transfer_begin(struct hg_transfer *transfer)
{
    struct hg_bulk *origin = transfer->args.origin;
    struct hg_bulk_layer *layer = transfer->args.local->layer;

    if (origin->owner == NULL) {
        if (transfer->args.addr->na_class != layer->na_class) {
            hg_log_error("bulk",
                "the handle does not tell its owner's address on the bulk "
                "class");
            return HG_PROTOCOL_ERROR;
        }
        na_addr_ref(transfer->args.addr);
        transfer->owner = transfer->args.addr;
    } else {
        transfer->owner = hg_bulk_find_peer(layer, origin->owner);
        if (transfer->owner == NULL)
            return na_lookup_start(transfer->home->context, NA_LANE_INTERNAL,
                hg_transfer_looked_up, transfer, origin->owner,
                NA_OP_ID_IGNORE);
    }
    hg_transfer_issue(transfer);
    hg_transfer_drop_piece(transfer, HG_SUCCESS);
    return HG_SUCCESS;
}

/* ---- Memory of this process ---- */

/* Whoever frees a handle meanwhile waits. */
static hg_return_t hg_transfer_begin_copy(const struct hg_transfer_args *args)
{
    if (!hg_bulk_hold(args->origin))
        return hg_bulk_check_there(args->origin);
    if (hg_bulk_hold(args->local))
        return HG_SUCCESS;
    hg_bulk_release(args->origin);
    return hg_bulk_check_there(args->local);
}

static void hg_transfer_copy(const struct hg_transfer_args *args)
{
    struct hg_transfer_walk walk;
    struct hg_transfer_piece piece;

    hg_transfer_walk_init(&walk, args);
    while (hg_transfer_cut(&walk, args, &piece)) {
        if (args->op == HG_BULK_PULL)
            na_rma_copy(piece.local, piece.local_offset, piece.origin,
                piece.origin_offset, piece.size);
        else
            na_rma_copy(piece.origin, piece.origin_offset, piece.local,
                piece.local_offset, piece.size);
    }
    hg_bulk_release(args->local);
    hg_bulk_release(args->origin);
}

/* ---- Starting ---- */

static hg_return_t hg_transfer_check(const struct hg_transfer_args *args)
{
    bool pull = args->op == HG_BULK_PULL;
    const struct hg_bulk *from = pull ? args->origin : args->local;
    const struct hg_bulk *to = pull ? args->local : args->origin;
    bool readable = (from->flags & HG_BULK_READ_ONLY) != 0;
    bool writable = (to->flags & HG_BULK_WRITE_ONLY) != 0;

    if (args->op != HG_BULK_PULL && args->op != HG_BULK_PUSH) {
        hg_log_error(
            "bulk", "transfer operation %d is unknown", (int) args->op);
        return HG_INVALID_ARG;
    }
    if (args->local->layer == NULL || args->origin->layer == NULL) {
        hg_log_error("bulk", "the bulk layer of a handle has ended");
        return HG_FAULT;
    }
    if (args->local->remote || (args->origin->remote && args->addr->self)) {
        hg_log_error("bulk",
            args->local->remote ? "the local handle is of a peer's memory"
                                : "the origin's memory is not this process's");
        return HG_INVALID_ARG;
    }
    if (args->origin_offset > args->origin->size ||
        args->size > args->origin->size - args->origin_offset ||
        args->local_offset > args->local->size ||
        args->size > args->local->size - args->local_offset) {
        hg_log_error("bulk",
            "%zu bytes at %zu (origin, of %zu) and %zu (local, of %zu) are "
            "out of range",
            args->size, args->origin_offset, args->origin->size,
            args->local_offset, args->local->size);
        return HG_OVERFLOW;
    }
    if (!readable || !writable) {
        hg_log_error("bulk", "the %s may not be %s",
            (readable ? to : from) == args->origin ? "origin" : "local memory",
            readable ? "written" : "read");
        return HG_PERMISSION;
    }
    return HG_SUCCESS;
}

/* All pieces one after the other: the result of the whole. HG_AGAIN: one is to
 * be started. */
static hg_return_t hg_transfer_move(
    struct hg_transfer_home *home, const struct hg_transfer_args *args)
{
    struct hg_bulk_layer *layer = args->local->layer;
    struct hg_transfer_walk walk;
    struct hg_transfer_piece piece;
    hg_return_t ret = HG_SUCCESS;

    /* Whoever is elsewhere on the bulk class is to be looked up. */
    if (args->origin->owner != NULL || args->addr->na_class != layer->na_class)
        return HG_AGAIN;
    hg_transfer_walk_init(&walk, args);
    while (ret == HG_SUCCESS && hg_transfer_cut(&walk, args, &piece))
        ret = na_rma_now(home->context,
            args->op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET, piece.local,
            piece.local_offset, piece.origin, piece.origin_offset, piece.size,
            args->addr);
    return ret;
}

HG_PRIVATE hg_return_t hg_transfer_now(struct hg_transfer_home *home,
    const struct hg_transfer_args *args, hg_return_t *result_p)
{
    hg_return_t ret = hg_transfer_check(args);

    if (ret != HG_SUCCESS)
        return ret;
    if (!args->origin->remote) {
        ret = hg_transfer_begin_copy(args);
        if (ret != HG_SUCCESS)
            return ret;
        hg_transfer_copy(args);
    } else {
        if (!hg_bulk_hold(args->local))
            return hg_bulk_check_there(args->local);
        hg_bulk_ref(args->origin);
        ret = hg_transfer_move(home, args);
        hg_bulk_unref(args->origin);
        hg_bulk_release(args->local);
    }
    if (ret == HG_AGAIN)
        return HG_AGAIN;
    if (ret == HG_SUCCESS)
        hg_transfer_count(args);
    *result_p = ret;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer_home *home,
    const struct hg_transfer_args *args,
    void (*callback)(hg_return_t ret, void *arg), void *arg)
{
    struct hg_transfer *transfer;
    hg_return_t ret = hg_transfer_check(args);

    if (ret == HG_SUCCESS)
        ret = args->origin->remote ? hg_bulk_check_there(args->local)
                                   : hg_transfer_begin_copy(args);
    if (ret != HG_SUCCESS)
        return ret;
    transfer = (struct hg_transfer *) hg_mem_calloc(1, sizeof(*transfer));
    if (transfer == NULL || hg_lock_init(&transfer->lock) != HG_SUCCESS) {
        hg_mem_free(transfer);
        hg_log_error("bulk", "no memory for a transfer");
        ret = HG_NOMEM;
        goto end_copy;
    }
    transfer->home = home;
    transfer->args = *args;
    hg_bulk_ref(args->origin);
    hg_bulk_ref(args->local);
    atomic_fetch_add(&home->under_way, 1);
    transfer->pieces = 1;
    transfer->callback = callback;
    transfer->arg = arg;
    hg_transfer_walk_init(&transfer->walk, args);
    if (!args->origin->remote) {
        hg_transfer_copy(args);
        hg_transfer_drop_piece(transfer, HG_SUCCESS);
        return HG_SUCCESS;
    }
    ret = hg_transfer_begin(transfer);
    if (ret != HG_SUCCESS)
        hg_transfer_delete(transfer);
    return ret;

end_copy:
    if (!args->origin->remote) {
        hg_bulk_release(args->local);
        hg_bulk_release(args->origin);
    }
    return ret;
}
