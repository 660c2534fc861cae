/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk_transfer: see bulk_transfer.h. */
#include "hg/bulk_transfer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/context.h"
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

/* An operation of the transport's: a piece. */
struct hg_transfer_slot {
    struct hg_transfer *transfer;
    struct hg_transfer_slot *next; /* idle */
    unsigned turn;                 /* which use of it this is; 0: idle */
    na_op_id_t op_id;              /* once known */
};

struct hg_transfer {
    struct na_completion done;
    struct na_link link; /* of its home */
    uint64_t began;      /* in ticks */
    struct hg_transfer_home *home;
    struct hg_transfer_args args; /* with references */
    struct na_addr *owner;        /* of the memory, on the bulk class */
    /* Guarded by the home's lock. */
    struct hg_transfer_walk walk; /* to what was started */
    /* On their way, 1 while being started, 1 for each who holds it. */
    unsigned pieces;
    bool canceled;
    hg_return_t ret;
    unsigned turns; /* of slots, all together */
    struct hg_transfer_slot *idle;
    void (*callback)(hg_return_t ret, void *arg);
    void *arg;
    unsigned slot_count;
    struct hg_transfer_slot slots[];
};

HG_PRIVATE void hg_transfer_home_init(
    struct hg_transfer_home *home, struct hg_monitor *lock)
{
    hg_list_init(&home->transfers);
    home->lock = lock;
}

HG_PRIVATE void hg_transfer_home_fini(struct hg_transfer_home *home)
{
    assert(hg_list_is_empty(&home->transfers));
    (void) home;
}

static void hg_transfer_delete(struct hg_transfer *transfer)
{
    hg_enter(transfer->home->lock);
    hg_list_remove(&transfer->link);
    hg_leave(transfer->home->lock);
    if (transfer->owner != NULL)
        na_addr_unref(transfer->owner);
    if (transfer->args.addr != NULL)
        na_addr_unref(transfer->args.addr);
    atomic_fetch_sub(&transfer->home->under_way, 1);
    hg_bulk_unref(transfer->args.origin);
    hg_bulk_unref(transfer->args.local);
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
    struct hg_monitor *lock = transfer->home->queue->lock;

    hg_leave(lock);
    atomic_fetch_add(&transfer->args.local->layer->transfers_done, 1);
    if (transfer->ret == HG_SUCCESS)
        hg_transfer_count(&transfer->args);
    else if (transfer->ret == HG_CHECKSUM_ERROR)
        atomic_fetch_add(&transfer->args.local->layer->transfers_damaged, 1);
    transfer->callback(transfer->ret, transfer->arg);
    hg_transfer_delete(transfer);
    hg_enter(lock);
}

static void hg_transfer_finish(struct hg_transfer *transfer)
{
    if (atomic_load(&transfer->home->left))
        return; /* nobody is there to be told */
    if (transfer->ret == HG_SUCCESS && transfer->canceled &&
        transfer->walk.cut < transfer->args.size)
        transfer->ret = HG_CANCELED;
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

    hg_enter(transfer->home->lock);
    if (transfer->ret == HG_SUCCESS)
        transfer->ret = ret;
    assert(transfer->pieces > 0);
    last = --transfer->pieces == 0;
    hg_leave(transfer->home->lock);
    if (last)
        hg_transfer_finish(transfer);
}

/* ---- Slots: the lock is held ---- */

/* For an operation, which is counted; there is an idle one. */
static struct hg_transfer_slot *hg_transfer_take_slot(
    struct hg_transfer *transfer)
{
    struct hg_transfer_slot *slot = transfer->idle;

    assert(slot != NULL && slot->turn == 0);
    transfer->idle = slot->next;
    slot->turn = ++transfer->turns;
    slot->op_id = NA_OP_ID_NULL;
    transfer->pieces++;
    return slot;
}

static void hg_transfer_give_slot(struct hg_transfer_slot *slot)
{
    struct hg_transfer *transfer = slot->transfer;

    assert(slot->turn != 0);
    slot->turn = 0;
    slot->op_id = NA_OP_ID_NULL;
    slot->next = transfer->idle;
    transfer->idle = slot;
}

/* An operation was started in this turn of the slot: remember it, unless it has
 * ended. Who canceled the transfer meanwhile did not find it. The lock is not
 * held. */
static void hg_transfer_note(
    struct hg_transfer_slot *slot, unsigned turn, na_op_id_t op_id)
{
    struct hg_transfer *transfer = slot->transfer;
    bool mine;

    hg_enter(transfer->home->lock);
    mine = slot->turn == turn;
    if (mine)
        slot->op_id = op_id;
    mine = mine && transfer->canceled;
    hg_leave(transfer->home->lock);
    if (mine)
        (void) na_context_cancel(transfer->home->context, op_id);
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

/* Cut the next piece off, if one may start now: its slot, with its turn. */
static struct hg_transfer_slot *hg_transfer_next(struct hg_transfer *transfer,
    struct hg_transfer_piece *piece, unsigned *turn_p)
{
    struct hg_transfer_slot *slot = NULL;

    hg_enter(transfer->home->lock);
    if (transfer->ret == HG_SUCCESS && !transfer->canceled &&
        transfer->idle != NULL &&
        hg_transfer_cut(&transfer->walk, &transfer->args, piece)) {
        slot = hg_transfer_take_slot(transfer);
        *turn_p = slot->turn;
    }
    hg_leave(transfer->home->lock);
    return slot;
}

/* Its operation is over: the slot is idle, and still counted. */
static void hg_transfer_end_slot(struct hg_transfer_slot *slot)
{
    struct hg_transfer *transfer = slot->transfer;

    hg_enter(transfer->home->lock);
    hg_transfer_give_slot(slot);
    hg_leave(transfer->home->lock);
}

static void hg_transfer_issue(struct hg_transfer *transfer);

static na_return_t hg_transfer_piece_done(const struct na_cb_info *info)
{
    struct hg_transfer_slot *slot = (struct hg_transfer_slot *) info->arg;
    struct hg_transfer *transfer = slot->transfer;
    struct hg_monitor *lock =
        na_context_core_of(transfer->home->context)->queue.lock;

    hg_leave(lock);
    hg_transfer_end_slot(slot);
    /* This piece keeps the transfer alive while others start in its place. */
    if (info->ret == NA_SUCCESS)
        hg_transfer_issue(transfer);
    hg_transfer_drop_piece(transfer, info->ret);
    hg_enter(lock);
    return NA_SUCCESS;
}

/* That the peer died, or the local handle was freed, is told by the code
 * alone. */
static hg_return_t hg_transfer_start_piece(struct hg_transfer_slot *slot,
    const struct hg_transfer_piece *piece, na_op_id_t *op_id_p)
{
    struct hg_transfer *transfer = slot->transfer;
    struct hg_bulk *local = transfer->args.local;
    hg_return_t ret = na_addr_state(transfer->owner);

    if (ret != HG_SUCCESS)
        return ret;
    if (!hg_bulk_hold(local))
        return HG_CANCELED;
    ret = na_rma_start(transfer->home->context,
        transfer->args.op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET,
        NA_LANE_INTERNAL, hg_transfer_piece_done, slot, piece->local,
        piece->local_offset, piece->origin, piece->origin_offset, piece->size,
        transfer->owner, op_id_p);
    hg_bulk_release(local);
    return ret;
}

/* Start pieces up to the window. The caller holds one of the counts. */
static void hg_transfer_issue(struct hg_transfer *transfer)
{
    struct hg_transfer_piece piece;
    struct hg_transfer_slot *slot;
    unsigned turn = 0;

    while ((slot = hg_transfer_next(transfer, &piece, &turn)) != NULL) {
        na_op_id_t op_id = NA_OP_ID_NULL;
        hg_return_t ret = hg_transfer_start_piece(slot, &piece, &op_id);

        if (ret == HG_SUCCESS) {
            hg_transfer_note(slot, turn, op_id);
        } else {
            hg_transfer_end_slot(slot);
            hg_transfer_drop_piece(transfer, ret);
        }
    }
}

/* ---- The owner's address ---- */

/* Where the origin's memory is, borrowed; NULL: that is to be looked up. */
static struct na_addr *hg_transfer_peer(const struct hg_transfer_args *args)
{
    struct na_addr *addr = hg_bulk_addr(args->origin);

    return addr != NULL || args->origin->owner != NULL ? addr : args->addr;
}

/* Resolve the owner's address and start the pieces. The caller holds a
 * count. */
static hg_return_t hg_transfer_ask(struct hg_transfer *transfer)
{
    const struct hg_transfer_args *args = &transfer->args;
    struct na_addr *addr = hg_transfer_peer(args);
    hg_return_t ret;

    assert(transfer->owner == NULL && args->origin->remote);
    if (addr != NULL) {
        na_addr_ref(addr);
    } else {
        ret = na_lookup_resolve(
            args->local->layer->na_class, args->origin->owner, NA_TRUE, &addr);
        if (ret != HG_SUCCESS)
            return ret;
        hg_bulk_set_addr(args->origin, addr);
    }
    transfer->owner = addr;
    hg_transfer_issue(transfer);
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

/* Where the origin's memory is. */
static const char *hg_transfer_peer_name(const struct hg_transfer_args *args)
{
    if (!args->origin->remote)
        return "this process";
    if (args->origin->owner != NULL)
        return args->origin->owner;
    return args->addr != NULL && args->addr->name != NULL ? args->addr->name
                                                          : "a peer";
}

static bool hg_transfer_fits(
    const struct hg_bulk *bulk, size_t offset, size_t size)
{
    return offset <= bulk->size && size <= bulk->size - offset;
}

/* Refuse a transfer; `remote`: a peer's memory is the cause. */
static hg_return_t hg_transfer_refuse(const struct hg_transfer_args *args,
    bool remote, hg_return_t ret, const char *why)
{
    struct na_class *na_class = args->local->layer->na_class;

    if (remote)
        na_class->core->count(na_class, "bulk_refused", 1);
    HG_LOG_EXPLAIN(remote ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "bulk",
        "a transfer of %zu bytes at %zu of %zu (origin: %s) and %zu of %zu "
        "(local) is refused: %s",
        args->size, args->origin_offset, args->origin->size,
        hg_transfer_peer_name(args), args->local_offset, args->local->size,
        why);
    return ret;
}

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
    if (args->local->remote ||
        (args->origin->remote && args->addr != NULL && args->addr->self)) {
        hg_log_error("bulk",
            args->local->remote ? "the local handle is of a peer's memory"
                                : "the origin's memory is not this process's");
        return HG_INVALID_ARG;
    }
    if (!hg_transfer_fits(args->local, args->local_offset, args->size))
        return hg_transfer_refuse(
            args, false, HG_OVERFLOW, "the local bytes are out of range");
    if (!hg_transfer_fits(args->origin, args->origin_offset, args->size))
        return hg_transfer_refuse(args, args->origin->remote, HG_OVERFLOW,
            "the origin's bytes are out of range");
    if (!(pull ? readable : writable))
        return hg_transfer_refuse(args, args->origin->remote, HG_PERMISSION,
            pull ? "the origin may not be read"
                 : "the origin may not be written");
    if (!(pull ? writable : readable))
        return hg_transfer_refuse(args, false, HG_PERMISSION,
            pull ? "the local memory may not be written"
                 : "the local memory may not be read");
    return HG_SUCCESS;
}

/* Whether there is a way to the origin's memory. */
static hg_return_t hg_transfer_check_peer(const struct hg_transfer_args *args)
{
    struct na_addr *addr;

    if (!args->origin->remote)
        return HG_SUCCESS;
    addr = hg_transfer_peer(args);
    if (addr == NULL && args->origin->owner == NULL) {
        hg_log_error("bulk",
            "the handle was passed on, and its owner does not listen: nobody "
            "else can reach the memory");
        return HG_HOSTUNREACH;
    }
    if (addr == NULL || addr->na_class == args->local->layer->na_class)
        return HG_SUCCESS;
    hg_log_error("bulk",
        "the handle does not tell its owner's address on the bulk class");
    return HG_PROTOCOL_ERROR;
}

/* All pieces one after the other: the result of the whole. HG_AGAIN: one is to
 * be started. */
static hg_return_t hg_transfer_move(
    struct hg_transfer_home *home, const struct hg_transfer_args *args)
{
    struct na_addr *addr = hg_transfer_peer(args);
    struct hg_transfer_walk walk;
    struct hg_transfer_piece piece;
    hg_return_t ret = HG_SUCCESS;

    if (addr == NULL)
        return HG_AGAIN;
    hg_transfer_walk_init(&walk, args);
    while (ret == HG_SUCCESS && hg_transfer_cut(&walk, args, &piece))
        ret = na_rma_now(home->context,
            args->op == HG_BULK_PUSH ? NA_CB_PUT : NA_CB_GET, piece.local,
            piece.local_offset, piece.origin, piece.origin_offset, piece.size,
            addr);
    return ret;
}

HG_PRIVATE hg_return_t hg_transfer_now(struct hg_transfer_home *home,
    const struct hg_transfer_args *args, hg_return_t *result_p)
{
    hg_return_t ret = hg_transfer_check(args);

    if (ret == HG_SUCCESS)
        ret = hg_transfer_check_peer(args);
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

/* Let go of what a copy holds. */
static void hg_transfer_end_copy(const struct hg_transfer_args *args)
{
    if (args->origin->remote)
        return;
    hg_bulk_release(args->local);
    hg_bulk_release(args->origin);
}

/* As many slots as pieces can be under way. */
static struct hg_transfer *hg_transfer_new(const struct hg_transfer_args *args)
{
    size_t count = args->origin->mem_count + args->local->mem_count;
    struct hg_transfer *transfer;
    size_t i;

    if (!args->origin->remote || count < 2)
        count = 2;
    count--; /* the cuts of both, and what is between */
    if (count > HG_TRANSFER_WINDOW)
        count = HG_TRANSFER_WINDOW;
    transfer = (struct hg_transfer *) hg_mem_calloc(
        1, sizeof(*transfer) + count * sizeof(transfer->slots[0]));
    if (transfer == NULL) {
        hg_log_error("bulk", "no memory for a transfer");
        return NULL;
    }
    assert(count >= 1);
    transfer->slot_count = (unsigned) count;
    for (i = 0; i < count; i++) {
        transfer->slots[i].transfer = transfer;
        transfer->slots[i].next = transfer->idle;
        transfer->idle = &transfer->slots[i];
    }
    return transfer;
}

HG_PRIVATE hg_return_t hg_transfer_create(struct hg_transfer_home *home,
    const struct hg_transfer_args *args,
    void (*callback)(hg_return_t ret, void *arg), void *arg,
    struct hg_transfer **transfer_p)
{
    struct hg_transfer *transfer;
    hg_return_t ret = hg_transfer_check(args);

    if (ret == HG_SUCCESS)
        ret = hg_transfer_check_peer(args);
    if (ret == HG_SUCCESS)
        ret = args->origin->remote ? hg_bulk_check_there(args->local)
                                   : hg_transfer_begin_copy(args);
    if (ret != HG_SUCCESS)
        return ret;
    transfer = hg_transfer_new(args);
    if (transfer == NULL) {
        hg_transfer_end_copy(args);
        return HG_NOMEM;
    }
    transfer->home = home;
    transfer->args = *args;
    hg_bulk_ref(args->origin);
    hg_bulk_ref(args->local);
    if (args->addr != NULL)
        na_addr_ref(args->addr);
    atomic_fetch_add(&home->under_way, 1);
    transfer->pieces = 1;
    transfer->callback = callback;
    transfer->arg = arg;
    hg_transfer_walk_init(&transfer->walk, args);
    transfer->began = hg_clock_ticks();
    hg_enter(home->lock);
    hg_list_push(&home->transfers, &transfer->link);
    hg_leave(home->lock);
    *transfer_p = transfer;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_transfer_forget(struct hg_transfer *transfer)
{
    assert(transfer->pieces == 1);
    hg_transfer_end_copy(&transfer->args);
    hg_transfer_delete(transfer);
}

/* Move all within the call, if that can be: how it ended; HG_AGAIN: it is to be
 * started. */
static hg_return_t hg_transfer_try(struct hg_transfer *transfer)
{
    const struct hg_transfer_args *args = &transfer->args;
    hg_return_t ret;

    if (!args->origin->remote) {
        hg_transfer_copy(args);
        return HG_SUCCESS;
    }
    if (args->size == 0) /* there is nobody to ask */
        return HG_SUCCESS;
    if (!hg_bulk_hold(args->local))
        return HG_CANCELED;
    ret = hg_transfer_move(transfer->home, args);
    hg_bulk_release(args->local);
    return ret;
}

HG_PRIVATE void hg_transfer_begin(struct hg_transfer *transfer)
{
    hg_return_t ret = hg_transfer_try(transfer);

    assert(transfer->turns == 0); /* nothing was started */
    if (ret == HG_AGAIN) {
        ret = hg_transfer_ask(transfer);
    } else {
        hg_enter(transfer->home->lock);
        transfer->walk.cut = transfer->args.size;
        hg_leave(transfer->home->lock);
    }
    hg_transfer_drop_piece(transfer, ret);
}

HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer_home *home,
    const struct hg_transfer_args *args,
    void (*callback)(hg_return_t ret, void *arg), void *arg)
{
    struct hg_transfer *transfer = NULL;
    hg_return_t ret = hg_transfer_create(home, args, callback, arg, &transfer);

    if (ret == HG_SUCCESS)
        hg_transfer_begin(transfer);
    return ret;
}

/* ---- Canceling ---- */

HG_PRIVATE bool hg_transfer_hold(struct hg_transfer *transfer)
{
    bool held;

    hg_enter(transfer->home->lock);
    held = transfer->pieces > 0;
    if (held)
        transfer->pieces++;
    hg_leave(transfer->home->lock);
    return held;
}

HG_PRIVATE const struct na_class *hg_transfer_class(
    const struct hg_transfer *transfer)
{
    return transfer->home->context->na_class;
}

HG_PRIVATE void hg_transfer_cancel(struct hg_transfer *transfer)
{
    struct na_context *context = transfer->home->context;
    unsigned i;

    hg_enter(transfer->home->lock);
    assert(transfer->pieces > 0);
    transfer->canceled = true;
    hg_leave(transfer->home->lock);
    for (i = 0; i < transfer->slot_count; i++) {
        na_op_id_t op_id;

        hg_enter(transfer->home->lock);
        op_id = transfer->slots[i].op_id;
        hg_leave(transfer->home->lock);
        if (op_id != NA_OP_ID_NULL) /* one that ended meanwhile is stale */
            (void) na_context_cancel(context, op_id);
    }
    hg_transfer_drop_piece(transfer, HG_SUCCESS);
}

/* ---- What is known of one ---- */

/* Its home's lock is held, so it stays. */
static void hg_transfer_tell(
    struct hg_transfer *transfer, struct hg_transfer_view *view)
{
    const struct hg_transfer_args *args = &transfer->args;

    view->op = args->op;
    view->size = args->size;
    view->began = transfer->began;
    (void) snprintf(
        view->peer, sizeof(view->peer), "%s", hg_transfer_peer_name(args));
    view->begun = 0;
    view->ended = false;
    if (!hg_enter_try(transfer->home->lock))
        return;
    view->begun = transfer->walk.cut;
    view->ended = transfer->pieces == 0;
    hg_leave(transfer->home->lock);
}

HG_PRIVATE bool hg_transfer_look(struct hg_transfer_home *home,
    struct hg_transfer_view *views, unsigned max, unsigned *count_p)
{
    const struct na_link *link;
    unsigned count = 0;

    if (!hg_enter_try(home->lock))
        return false;
    for (link = home->transfers.next; link != &home->transfers && count < max;
         link = link->next)
        hg_transfer_tell(
            HG_CONTAINER_OF(link, struct hg_transfer, link), &views[count++]);
    hg_leave(home->lock);
    *count_p = count;
    return true;
}
