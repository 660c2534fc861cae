/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: see emul.h. The slots, and what comes in.
 *
 * Everything a peer sends is judged here, under the lock, before it has any
 * effect. What is wrong is counted, not logged, so that nobody can flood the
 * log of another process:
 *
 *     rma_malformed   not a frame, or one that no correct peer sends
 *     rma_refused     a request answered with an error
 *     rma_stale       of a transfer that is not (or no longer) here
 *     rma_dropped     a refusal that the transport could not take
 */
#include "na/emul.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/emul_send.h"
#include "na/emul_wire.h"
#include "na/emul_xfer.h"
#include "na/rma.h"

#define NA_EMUL_RECLAIM_MS 20u /* between two requests while waiting */

/* How long a peer may take no data before its connection ends. */
#define NA_EMUL_RECALL_MS 1000u

/* ---- Life ---- */

HG_PRIVATE struct na_emul *na_emul_create(struct na_class *na_class)
{
    const struct na_init_info *info = na_class->info;
    struct na_emul *emul = (struct na_emul *) hg_mem_calloc(1, sizeof(*emul));
    size_t frame = info->rma_frame_size;
    uint64_t window = info->rma_window;

    if (emul == NULL) {
        hg_log_error("rma", "no memory for the emulation of remote access");
        return NULL;
    }
    if (hg_lock_init(&emul->lock) != HG_SUCCESS)
        goto free_emul;
    if (hg_lock_cond_init(&emul->cond) != HG_SUCCESS)
        goto destroy_lock;
    if (frame < NA_EMUL_FRAME_MIN)
        frame = NA_EMUL_FRAME_MIN;
    if (frame > NA_EMUL_FRAME_MAX)
        frame = NA_EMUL_FRAME_MAX;
    if (window < frame)
        window = frame;
    if (window > NA_EMUL_WINDOW_MAX)
        window = NA_EMUL_WINDOW_MAX;
    emul->na_class = na_class;
    emul->frame_size = frame;
    emul->gather_size = frame < NA_EMUL_GATHER_MAX ? frame : NA_EMUL_GATHER_MAX;
    emul->window = window;
    na_emul_xfer_setup(emul);
    return emul;

destroy_lock:
    pthread_mutex_destroy(&emul->lock);
free_emul:
    hg_mem_free(emul);
    return NULL;
}

HG_PRIVATE void na_emul_destroy(struct na_emul *emul)
{
    struct na_emul_reg *reg;
    size_t cursor = 0;
    uint64_t key;

    assert(emul->waiters == 0 && emul->completing == 0);
    hg_lock(&emul->lock);
    na_emul_xfer_untouch(emul, true);
    (void) na_emul_xfer_bury(emul);
    hg_unlock(&emul->lock);
    while ((reg = (struct na_emul_reg *) hg_map_next(
                &emul->regs, &cursor, &key)) != NULL) {
        assert(reg->pins == 0);
        while (hg_list_pop(&reg->xfers) != NULL)
            continue;
        hg_mem_free(reg);
    }
    na_emul_xfer_teardown(emul);
    pthread_cond_destroy(&emul->cond);
    pthread_mutex_destroy(&emul->lock);
    hg_mem_free(emul);
}

/* Release the lock; wake progress when there is something for it to send. */
static void na_emul_leave(struct na_emul *emul)
{
    bool work = !hg_list_is_empty(&emul->ready);

    (void) na_emul_xfer_leave(emul);
    if (work)
        emul->na_class->core->wake(emul->na_class);
}

/* ---- Registrations ---- */

HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *mem)
{
    struct na_emul *emul = na_class_emul(mem->na_class);
    struct na_emul_reg *reg =
        (struct na_emul_reg *) hg_mem_calloc(1, sizeof(*reg));
    hg_return_t ret;

    if (reg == NULL) {
        hg_log_error("rma", "no memory to register memory");
        return NA_NOMEM;
    }
    reg->mem = mem;
    hg_list_init(&reg->xfers);
    hg_list_init(&reg->in_buried);
    hg_lock(&emul->lock);
    ret = hg_map_add(&emul->regs, reg, &mem->key);
    hg_unlock(&emul->lock);
    if (ret != HG_SUCCESS)
        hg_mem_free(reg);
    return ret;
}

/* Whether frames of the transfer are with the transport, and use memory `mem`
 * or are of an operation of `context`. */
static bool na_emul_holds(const struct na_emul_xfer *xfer,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    if (xfer->frames == 0)
        return false;
    return mem != NULL ? xfer->cursor.segments == mem->segments
                       : xfer->op != NULL && xfer->op->context == context;
}

/* The address of a peer whose frames are with the transport and use memory
 * `mem`, or are of an operation of `context`: the one after `skip` others, with
 * a reference. NULL: there is none. The lock is held. */
static struct na_addr *na_emul_find_holder(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem,
    unsigned skip)
{
    size_t i;

    for (i = 0; i < NA_EMUL_BUCKETS; i++) {
        struct na_link *at;

        for (at = emul->peers[i].next; at != &emul->peers[i]; at = at->next) {
            struct na_emul_peer *peer =
                HG_CONTAINER_OF(at, struct na_emul_peer, link);
            struct na_link *link = peer->xfers.next;

            while (link != &peer->xfers &&
                !na_emul_holds(
                    HG_CONTAINER_OF(link, struct na_emul_xfer, in_peer),
                    context, mem))
                link = link->next;
            if (link != &peer->xfers && skip-- == 0) {
                emul->na_class->core->addr_ref(peer->addr);
                return peer->addr;
            }
        }
    }
    return NULL;
}

/* End the connections to the peers that do not take the data of `mem`, or of
 * operations of `context`. The lock is held, but released for each peer: a peer
 * may be skipped if the frames of another one come back in that time. */
static void na_emul_abandon(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    struct na_addr *addr;
    unsigned i;

    for (i = 0; (addr = na_emul_find_holder(emul, context, mem, i)) != NULL;
         i++) {
        hg_unlock(&emul->lock);
        if (!na_addr_is_dead(addr))
            hg_log_warning("rma",
                "%s does not read its data; closing the connection, because "
                "the memory is being withdrawn",
                addr->name != NULL ? addr->name : "a peer");
        na_addr_abandon(addr);
        emul->na_class->core->addr_unref(addr);
        hg_lock(&emul->lock);
    }
}

/* Wait, releasing the lock, for frames and copies of `mem`, or of operations of
 * `context`, to end. Perhaps nobody polls meanwhile, so the transport is asked
 * to free the frames of dead peers. A peer that does not take its frames in
 * time loses its connection. */
static void na_emul_await(struct na_emul *emul, uint64_t *deadline,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    bool news = na_emul_xfer_wait(emul, hg_clock_after_ms(NA_EMUL_RECLAIM_MS));

    if (*deadline == 0)
        *deadline = hg_clock_after_ms(NA_EMUL_RECALL_MS);
    if (hg_clock_is_past(*deadline)) {
        na_emul_abandon(emul, context, mem);
        *deadline = hg_clock_after_ms(NA_EMUL_RECALL_MS);
    }
    if (news)
        return;
    hg_unlock(&emul->lock);
    na_class_ops(emul->na_class)->reclaim(emul->na_class);
    hg_lock(&emul->lock);
}

/* Nobody finds the memory any more, and what moved there has ended. */
static struct na_emul_reg *na_emul_take_reg(
    struct na_emul *emul, const struct na_mem_handle *mem)
{
    struct na_emul_reg *reg =
        (struct na_emul_reg *) hg_map_remove(&emul->regs, mem->key);

    assert(reg != NULL && reg->mem == mem);
    while (!hg_list_is_empty(&reg->xfers))
        na_emul_xfer_fail(
            HG_CONTAINER_OF(reg->xfers.next, struct na_emul_xfer, in_reg),
            NA_NOENTRY);
    return reg;
}

HG_PRIVATE void na_emul_mem_deregister(struct na_mem_handle *mem)
{
    struct na_emul *emul = na_class_emul(mem->na_class);
    struct na_emul_reg *reg;
    uint64_t deadline = 0;

    hg_lock(&emul->lock);
    reg = na_emul_take_reg(emul, mem);
    while (reg->pins > 0)
        na_emul_await(emul, &deadline, NULL, mem);
    na_emul_leave(emul);
    mem->key = 0;
    hg_mem_free(reg);
}

/* Whether the transport moves memory, too, and hands over what it cannot. */
static bool na_emul_shares(const struct na_class *na_class)
{
    return (na_class_ops(na_class)->caps & NA_CAP_HANDS_OVER) != 0;
}

HG_PRIVATE bool na_emul_withdraw(
    struct na_mem_handle *mem, void *buf, struct na_addr *user)
{
    struct na_emul *emul = na_class_emul(mem->na_class);
    struct na_emul_reg *reg;
    bool touched;
    bool used;

    na_rma_forget(mem);
    if (emul == NULL ||
        !atomic_exchange(&na_mem_core_of(mem)->registered, false)) {
        na_rma_delete(mem); /* and deregisters */
        return false;
    }
    touched = na_emul_shares(mem->na_class) &&
        na_class_ops(mem->na_class)->mem_retract(mem);
    hg_lock(&emul->lock);
    reg = na_emul_take_reg(emul, mem);
    if (touched)
        na_emul_xfer_touch(emul, reg);
    used = reg->pins > 0;
    if (used)
        na_emul_xfer_give_up(emul, reg, buf, user);
    na_emul_leave(emul);
    if (touched) /* whoever sleeps does not know until when */
        mem->na_class->core->wake(mem->na_class);
    if (!used) {
        na_rma_delete(mem);
        hg_mem_free(reg);
    }
    return used;
}

HG_PRIVATE uint64_t na_emul_lingering(const struct na_addr *user)
{
    return atomic_load(&na_addr_core_of(user)->lingering);
}

HG_PRIVATE na_size_t na_emul_mem_serialize_size(const struct na_mem_handle *mem)
{
    (void) mem;
    return NA_EMUL_WIRE_HANDLE_SIZE;
}

HG_PRIVATE void na_emul_mem_serialize(
    const struct na_mem_handle *mem, void *buf)
{
    na_emul_wire_put_handle(mem, buf);
}

HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size)
{
    return na_emul_wire_get_handle(mem, buf, buf_size);
}

/* ---- Operations ---- */

/* Start an operation. Once there is a transfer for it, every end is told by
 * completing it. The first frame leaves from here. */
static na_return_t na_emul_start(struct na_op *op, bool sends)
{
    struct na_emul *emul = na_class_emul(op->context->na_class);
    struct na_emul_xfer *xfer;
    na_return_t ret;

    hg_lock(&emul->lock);
    /* Under the lock, as na_emul_addr_dead comes after the death. */
    ret = na_addr_state(op->addr);
    if (ret != NA_SUCCESS) {
        hg_unlock(&emul->lock);
        return ret;
    }
    xfer = na_emul_xfer_new(emul, op->addr, true, sends, op->size, 0);
    if (xfer == NULL) {
        hg_unlock(&emul->lock);
        hg_log_error("rma", "no memory for a transfer");
        return NA_NOMEM;
    }
    xfer->op = op;
    na_cursor_init(&xfer->cursor, op->local, op->local_offset);
    na_emul_xfer_start(xfer);
    if (xfer->started) {
        hg_list_remove(&xfer->link);
        (void) na_emul_send_one(xfer);
    }
    na_emul_leave(emul);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_emul_put(struct na_op *op)
{
    return na_emul_start(op, true);
}

HG_PRIVATE na_return_t na_emul_get(struct na_op *op)
{
    return na_emul_start(op, false);
}

HG_PRIVATE na_return_t na_emul_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_emul *emul = na_class_emul(op->context->na_class);
    na_return_t ret = NA_NOENTRY;
    uint32_t cursor = 0;
    uint64_t id;
    struct na_emul_xfer *xfer;

    hg_lock(&emul->lock);
    while ((xfer = (struct na_emul_xfer *) hg_slots_next(
                &emul->origins, &cursor, &id)) != NULL) {
        if (xfer->op == op && na_op_id_of(op) == op_id) {
            na_emul_xfer_fail(xfer, NA_CANCELED);
            ret = NA_SUCCESS;
            break;
        }
    }
    na_emul_leave(emul);
    return ret;
}

/* Whether an operation of `context`, or one whose local side is `mem`, has not
 * drained yet; with `cancel`, ends its transfer first. Either may be NULL. */
static bool na_emul_is_busy(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem,
    bool cancel)
{
    bool busy = false;
    size_t i;

    for (i = 0; i < NA_EMUL_BUCKETS; i++) {
        struct na_link *at;

        for (at = emul->peers[i].next; at != &emul->peers[i]; at = at->next) {
            struct na_link *xfers =
                &HG_CONTAINER_OF(at, struct na_emul_peer, link)->xfers;
            struct na_link *link;

            for (link = xfers->next; link != xfers; link = link->next) {
                struct na_emul_xfer *xfer =
                    HG_CONTAINER_OF(link, struct na_emul_xfer, in_peer);

                if (xfer->op == NULL ||
                    (xfer->op->context != context && xfer->op->local != mem))
                    continue;
                if (cancel)
                    na_emul_xfer_fail(xfer, NA_CANCELED);
                if (hg_list_is_empty(&xfer->in_done))
                    busy = true;
            }
        }
    }
    return busy;
}

HG_PRIVATE void na_emul_context_gone(struct na_context *context)
{
    struct na_emul *emul = na_class_emul(context->na_class);
    uint64_t deadline = 0;
    bool busy;

    hg_lock(&emul->lock);
    busy = na_emul_is_busy(emul, context, NULL, true);
    while (busy || emul->completing > 0) {
        na_emul_await(emul, &deadline, context, NULL);
        busy = na_emul_is_busy(emul, context, NULL, false);
    }
    na_emul_leave(emul);
}

HG_PRIVATE na_return_t na_emul_sum_frames(struct na_class *na_class, bool on)
{
    struct na_class_core *core = na_class_core_of(na_class);

    if (on && (core->emul == NULL || (core->ops.caps & NA_CAP_HANDS_OVER) != 0))
        return NA_OPNOTSUPPORT;
    core->sums_frames = on;
    return NA_SUCCESS;
}

HG_PRIVATE void na_emul_end_local(const struct na_mem_handle *mem)
{
    const struct na_plugin *ops = na_class_ops(mem->na_class);
    struct na_emul *emul = na_class_emul(mem->na_class);
    uint64_t deadline = 0;
    bool busy;

    if (atomic_load(&na_mem_core_of(mem)->users) == 0)
        return;
    if (ops->mem_end_local != NULL &&
        (emul == NULL || na_emul_shares(mem->na_class)))
        ops->mem_end_local(mem);
    if (emul == NULL)
        return;
    hg_lock(&emul->lock);
    busy = na_emul_is_busy(emul, NULL, mem, true);
    while (busy) {
        na_emul_await(emul, &deadline, NULL, mem);
        busy = na_emul_is_busy(emul, NULL, mem, false);
    }
    na_emul_leave(emul);
}

HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_emul *emul = na_class_emul(addr->na_class);
    struct na_emul_peer *peer;
    struct na_link *link;

    hg_lock(&emul->lock);
    peer = na_emul_xfer_find_peer(emul, addr);
    for (link = peer != NULL ? peer->xfers.next : NULL;
         link != NULL && link != &peer->xfers; link = link->next) {
        struct na_emul_xfer *xfer =
            HG_CONTAINER_OF(link, struct na_emul_xfer, in_peer);

        na_emul_xfer_end(xfer, ret, 0);
        hg_list_remove(&xfer->link); /* nothing more is sent */
        xfer->owed = 0;
        na_emul_xfer_check(xfer);
    }
    na_emul_leave(emul);
}

/* ---- What comes in: each returns what to count, or NULL ---- */

/* Whether data is where it belongs already, as na_emul_frame_place said. Then
 * pass over it. */
static bool na_emul_in_place(
    struct na_emul_xfer *xfer, const void *data, size_t size)
{
    na_size_t run;

    if (xfer->placed <= xfer->moved ||
        na_cursor_run(&xfer->cursor, size, &run) != data)
        return false;
    assert(run == size);
    na_cursor_advance(&xfer->cursor, run);
    xfer->moved += run;
    return true;
}

/* Data that is in sequence and in range goes where it belongs. */
static const char *na_emul_receive(struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    struct na_emul *emul = xfer->emul;
    struct na_emul_reg *reg = xfer->reg;
    bool want_ack = (wire->flags & NA_EMUL_WIRE_WANT_ACK) != 0;

    assert(!xfer->sends && xfer->copies == 0);
    assert(size <= xfer->length - xfer->moved);
    if (size > 0 && !na_emul_in_place(xfer, data, size)) {
        na_emul_xfer_copy_begin(xfer);
        hg_unlock(&emul->lock);
        na_cursor_scatter(&xfer->cursor, data, size);
        hg_lock(&emul->lock);
        na_emul_xfer_copy_end(xfer, reg);
        if (xfer->ended) {
            na_emul_xfer_check(xfer);
            return NULL;
        }
        xfer->moved += size;
    }
    if (xfer->moved == xfer->length) {
        unsigned last = want_ack ? NA_EMUL_OWED_ACK : 0;

        na_emul_xfer_end(
            xfer, NA_SUCCESS, xfer->origin ? last : NA_EMUL_OWED_DONE);
    } else if (want_ack) {
        xfer->owed |= NA_EMUL_OWED_ACK;
        na_emul_xfer_kick(xfer);
    }
    return NULL;
}

/* What no correct peer sends: the transfer ends, and the peer hears of it. */
static const char *na_emul_violation(struct na_emul_xfer *xfer)
{
    if (xfer->origin)
        hg_log_warning("rma",
            "%s broke the protocol of a transfer of %" PRIu64 " bytes",
            xfer->peer->addr->name != NULL ? xfer->peer->addr->name : "a peer",
            xfer->length);
    na_emul_xfer_fail(xfer, NA_PROTOCOL_ERROR);
    return "rma_malformed";
}

static const char *na_emul_data_arrived(struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    if (xfer->sends || size == 0 || wire->offset != xfer->moved ||
        size > xfer->length - xfer->moved)
        return na_emul_violation(xfer);
    return na_emul_receive(xfer, wire, data, size);
}

static const char *na_emul_ack_arrived(
    struct na_emul_xfer *xfer, const struct na_emul_wire *wire)
{
    struct na_emul_peer *peer = xfer->peer;

    if (!xfer->sends || !xfer->windowed || wire->offset > xfer->moved ||
        wire->offset < xfer->acked)
        return na_emul_violation(xfer);
    peer->outstanding -= wire->offset - xfer->acked;
    xfer->acked = wire->offset;
    if (!xfer->origin && xfer->acked == xfer->length)
        na_emul_xfer_end(xfer, NA_SUCCESS, 0);
    na_emul_xfer_unpark(peer);
    return NULL;
}

/* The target's verdict on an operation. */
static const char *na_emul_done_arrived(
    struct na_emul_xfer *xfer, const struct na_emul_wire *wire)
{
    switch (wire->status) {
    case NA_SUCCESS:
        if (xfer->moved < xfer->length)
            return na_emul_violation(xfer);
        break;
    case NA_PERMISSION:
    case NA_NOENTRY:
    case NA_AGAIN:
    case NA_NOMEM:
    case NA_OVERFLOW:
    case NA_PROTOCOL_ERROR:
        hg_log_debug(
            "rma", "refused by the peer: %s", NA_Error_to_string(wire->status));
        break;
    default: return na_emul_violation(xfer);
    }
    na_emul_xfer_end(xfer, wire->status, 0);
    return NULL;
}

/* A frame about an operation of ours. */
static const char *na_emul_to_origin(struct na_emul *emul,
    const struct na_addr *source, const struct na_emul_wire *wire,
    const void *data, size_t size)
{
    struct na_emul_xfer *xfer =
        (struct na_emul_xfer *) hg_slots_get(&emul->origins, wire->id);

    if (xfer == NULL)
        return "rma_stale";
    if (xfer->peer->addr != source || (xfer->owed & NA_EMUL_OWED_REQ) != 0)
        return "rma_malformed"; /* somebody guesses */
    if (wire->type == NA_EMUL_WIRE_DONE)
        return na_emul_done_arrived(xfer, wire);
    if (wire->type == NA_EMUL_WIRE_PUT_ACK)
        return na_emul_ack_arrived(xfer, wire);
    return na_emul_data_arrived(xfer, wire, data, size);
}

/* Whether a request may be served, and from which memory. */
static na_return_t na_emul_judge(const struct na_emul *emul,
    const struct na_emul_wire *wire, size_t size, struct na_emul_reg **reg_p)
{
    struct na_emul_reg *reg =
        (struct na_emul_reg *) hg_map_get(&emul->regs, wire->key);
    unsigned long needs = wire->type == NA_EMUL_WIRE_GET_REQ
        ? NA_MEM_READ_ONLY
        : NA_MEM_WRITE_ONLY;

    if (wire->window < NA_EMUL_FRAME_MIN || size > wire->length)
        return NA_PROTOCOL_ERROR;
    if (reg == NULL)
        return NA_NOENTRY;
    if ((reg->mem->flags & needs) == 0)
        return NA_PERMISSION;
    if (wire->offset > reg->mem->size ||
        wire->length > reg->mem->size - wire->offset)
        return NA_OVERFLOW;
    *reg_p = reg;
    return NA_SUCCESS;
}

/* A request that gets no transfer of its own. */
static const char *na_emul_turn_away(
    struct na_emul *emul, struct na_addr *source, uint64_t id, na_return_t ret)
{
    return na_emul_send_refusal(emul, source, id, ret) ? "rma_refused"
                                                       : "rma_dropped";
}

static const char *na_emul_requested(struct na_emul *emul,
    struct na_addr *source, const struct na_emul_wire *wire, const void *data,
    size_t size)
{
    struct na_emul_peer *peer = na_emul_xfer_find_peer(emul, source);
    struct na_emul_reg *reg = NULL;
    bool sends = wire->type == NA_EMUL_WIRE_GET_REQ;
    struct na_emul_xfer *xfer;
    na_return_t ret;

    if (na_addr_state(source) != NA_SUCCESS)
        return "rma_stale"; /* it died on the way here */
    if (peer != NULL && na_emul_xfer_find_target(peer, wire->id) != NULL)
        return "rma_malformed";
    if (peer != NULL && peer->target_count >= NA_EMUL_TARGETS_MAX)
        return na_emul_turn_away(emul, source, wire->id, NA_AGAIN);
    xfer = na_emul_xfer_new(emul, source, false, sends, wire->length, wire->id);
    if (xfer == NULL)
        return na_emul_turn_away(emul, source, wire->id, NA_NOMEM);
    ret = na_emul_judge(emul, wire, size, &reg);
    if (ret != NA_SUCCESS) {
        hg_log_debug(
            "rma", "refused a peer's request: %s", NA_Error_to_string(ret));
        na_emul_xfer_fail(xfer, ret);
        return ret == NA_PROTOCOL_ERROR ? "rma_malformed" : "rma_refused";
    }
    na_emul_xfer_bind(xfer, reg, wire->offset);
    if (wire->window < xfer->window)
        xfer->window = wire->window;
    if (wire->length == 0)
        na_emul_xfer_end(xfer, NA_SUCCESS, NA_EMUL_OWED_DONE);
    else if (sends)
        na_emul_xfer_kick(xfer);
    else
        return na_emul_receive(xfer, wire, data, size);
    return NULL;
}

/* A frame about a transfer that the source started. */
static const char *na_emul_to_target(struct na_emul *emul,
    struct na_addr *source, const struct na_emul_wire *wire, const void *data,
    size_t size)
{
    struct na_emul_peer *peer;
    struct na_emul_xfer *xfer = NULL;

    if (wire->type == NA_EMUL_WIRE_GET_REQ ||
        wire->type == NA_EMUL_WIRE_PUT_REQ)
        return na_emul_requested(emul, source, wire, data, size);
    peer = na_emul_xfer_find_peer(emul, source);
    if (peer != NULL)
        xfer = na_emul_xfer_find_target(peer, wire->id);
    if (xfer == NULL)
        return "rma_stale";
    if (wire->type == NA_EMUL_WIRE_GET_ACK)
        return na_emul_ack_arrived(xfer, wire);
    if (wire->type == NA_EMUL_WIRE_PUT_DATA)
        return na_emul_data_arrived(xfer, wire, data, size);
    assert(wire->type == NA_EMUL_WIRE_ABORT);
    na_emul_xfer_end(xfer, NA_CANCELED, 0);
    return NULL;
}

HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size)
{
    struct na_emul *emul = na_class_emul(na_class);
    struct na_emul_wire wire;
    const char *wrong;

    assert(emul != NULL && source->na_class == na_class);
    if (na_emul_wire_decode(header, header_size, size, &wire) != NA_SUCCESS) {
        na_class->core->count(na_class, "rma_malformed", 1);
        return;
    }
    hg_lock(&emul->lock);
    switch (wire.type) {
    case NA_EMUL_WIRE_GET_DATA:
    case NA_EMUL_WIRE_PUT_ACK:
    case NA_EMUL_WIRE_DONE:
        wrong = na_emul_to_origin(emul, source, &wire, data, size);
        break;
    default: wrong = na_emul_to_target(emul, source, &wire, data, size); break;
    }
    (void) na_emul_xfer_leave(emul);
    if (wrong != NULL)
        na_class->core->count(na_class, wrong, 1);
}

/* The transfer that a frame with data belongs to, if it is one that may move
 * now. */
static struct na_emul_xfer *na_emul_find_receiver(struct na_emul *emul,
    const struct na_addr *source, const struct na_emul_wire *wire)
{
    struct na_emul_xfer *xfer = NULL;
    struct na_emul_peer *peer;

    if (wire->type == NA_EMUL_WIRE_GET_DATA) {
        xfer = (struct na_emul_xfer *) hg_slots_get(&emul->origins, wire->id);
        if (xfer != NULL &&
            (xfer->peer->addr != source ||
                (xfer->owed & NA_EMUL_OWED_REQ) != 0))
            return NULL;
    } else if (wire->type == NA_EMUL_WIRE_PUT_DATA) {
        peer = na_emul_xfer_find_peer(emul, source);
        if (peer != NULL)
            xfer = na_emul_xfer_find_target(peer, wire->id);
    }
    return xfer == NULL || xfer->sends || xfer->copies > 0 ? NULL : xfer;
}

HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p)
{
    struct na_emul *emul = na_class_emul(na_class);
    struct na_emul_frame *frame = NULL;
    struct na_emul_xfer *xfer;
    struct na_emul_wire wire;
    char *memory = NULL;
    na_size_t run = 0;

    if (size == 0 ||
        na_emul_wire_decode(header, header_size, size, &wire) != NA_SUCCESS)
        return NULL;
    hg_lock(&emul->lock);
    xfer = na_emul_find_receiver(emul, source, &wire);
    if (xfer != NULL && xfer->placed <= xfer->moved) {
        xfer->placed = xfer->moved;
        xfer->ahead = xfer->cursor;
    }
    if (xfer != NULL && wire.offset == xfer->placed &&
        size <= xfer->length - xfer->placed)
        memory = na_cursor_run(&xfer->ahead, size, &run);
    if (run == size)
        frame = na_emul_xfer_frame_get(xfer, false);
    if (frame != NULL) {
        na_cursor_advance(&xfer->ahead, run);
        xfer->placed += run;
        *place_p = frame;
    }
    hg_unlock(&emul->lock);
    return frame != NULL ? memory : NULL;
}

HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place)
{
    struct na_emul *emul = na_class_emul(na_class);

    hg_lock(&emul->lock);
    na_emul_xfer_frame_put((struct na_emul_frame *) place);
    (void) na_emul_xfer_leave(emul);
}
