/* SPDX-License-Identifier: BSD-3-Clause */
/* emul_send: see emul_send.h. */
#include "na/emul_send.h"

#include "base/clock.h"
#include "base/lock.h"
#include "na/emul_wire.h"

#define NA_EMUL_SEND_BURST 16 /* frames in one poll */

/* One frame being made. */
struct na_emul_send_plan {
    struct na_emul_wire wire;
    unsigned owed;               /* what it settles */
    struct na_emul_frame *frame; /* NULL: no data */
    const void *data;
    na_size_t size;
    struct na_cursor before; /* to go back to when it cannot leave */
};

/* ---- What may leave ---- */

/* Data bytes that may leave now; 0: none. */
static na_size_t na_emul_send_allowance(const struct na_emul_xfer *xfer)
{
    const struct na_emul *emul = xfer->emul;
    na_size_t unacked = xfer->moved - xfer->acked;
    na_size_t size = xfer->length - xfer->moved;

    if (size > emul->frame_size)
        size = emul->frame_size;
    if (!xfer->windowed)
        return size;
    if (size > xfer->window)
        size = xfer->window;
    assert(unacked <= xfer->window);
    assert(xfer->peer->outstanding <= emul->window);
    if (size > xfer->window - unacked ||
        size > emul->window - xfer->peer->outstanding)
        return 0;
    return size;
}

/* Whether bytes at the cursor are sent from where they lie: the run is long,
 * or it is all there is to send. */
static bool na_emul_send_in_place(struct na_emul_xfer *xfer, na_size_t *run_p)
{
    (void) na_cursor_run(&xfer->cursor, UINT64_MAX, run_p);
    return *run_p >= NA_EMUL_PIECE || *run_p >= xfer->length - xfer->moved;
}

/* ---- Making a frame ---- */

/* Put up to `size` bytes of data into the plan. NA_NOMEM; NA_AGAIN: buffers
 * must come back first. */
static na_return_t na_emul_send_load(
    struct na_emul_xfer *xfer, struct na_emul_send_plan *plan, na_size_t size)
{
    struct na_emul *emul = xfer->emul;
    struct na_emul_reg *reg = xfer->reg;
    na_size_t run;
    bool in_place = na_emul_send_in_place(xfer, &run);

    if (!in_place && xfer->peer->gathered > 0 &&
        xfer->peer->gathered + emul->gather_size > emul->window) {
        xfer->peer->gather_wanted = true;
        return NA_AGAIN;
    }
    plan->frame = na_emul_xfer_frame_get(xfer, !in_place);
    if (plan->frame == NULL)
        return NA_NOMEM;
    plan->before = xfer->cursor;
    if (in_place) {
        plan->data = na_cursor_run(&xfer->cursor, size, &plan->size);
        na_cursor_advance(&xfer->cursor, plan->size);
        return NA_SUCCESS;
    }
    if (size > emul->gather_size)
        size = emul->gather_size;
    na_emul_xfer_copy_begin(xfer);
    hg_unlock(&emul->lock);
    plan->data = plan->frame->buf;
    plan->size =
        na_cursor_gather(&xfer->cursor, plan->frame->buf, size, NA_EMUL_PIECE);
    emul->na_class->core->count(
        emul->na_class, "rma_bytes_copied_source", plan->size);
    hg_lock(&emul->lock);
    na_emul_xfer_copy_end(xfer, reg);
    assert(plan->size > 0);
    return NA_SUCCESS;
}

/* Take note that the plan's bytes are on their way, and say where they
 * belong. */
static void na_emul_send_account(
    struct na_emul_xfer *xfer, struct na_emul_send_plan *plan)
{
    if (plan->wire.type != NA_EMUL_WIRE_PUT_REQ)
        plan->wire.offset = xfer->moved;
    xfer->moved += plan->size;
    if (!xfer->windowed || plan->size == 0)
        return;
    xfer->peer->outstanding += plan->size;
    if (!xfer->origin || xfer->moved < xfer->length)
        plan->wire.flags = NA_EMUL_WIRE_WANT_ACK;
}

/* The plan's bytes did not leave. */
static void na_emul_send_unload(
    struct na_emul_xfer *xfer, struct na_emul_send_plan *plan)
{
    if (plan->frame == NULL)
        return;
    xfer->cursor = plan->before;
    if (!xfer->ended) {
        xfer->moved -= plan->size;
        if (xfer->windowed)
            xfer->peer->outstanding -= plan->size;
    }
    na_emul_xfer_frame_put(plan->frame);
}

/* Choose the transfer's next frame. False: there is none. */
static bool na_emul_send_choose(
    const struct na_emul_xfer *xfer, struct na_emul_send_plan *plan)
{
    struct na_emul_wire *wire = &plan->wire;

    memset(plan, 0, sizeof(*plan));
    wire->id = xfer->id;
    if ((xfer->owed & NA_EMUL_OWED_REQ) != 0) {
        plan->owed = NA_EMUL_OWED_REQ;
        wire->type = xfer->sends ? NA_EMUL_WIRE_PUT_REQ : NA_EMUL_WIRE_GET_REQ;
        wire->key = xfer->op->remote->key;
        wire->offset = xfer->op->remote_offset;
        wire->length = xfer->length;
        wire->window = xfer->emul->window;
    } else if ((xfer->owed & NA_EMUL_OWED_ABORT) != 0) {
        plan->owed = NA_EMUL_OWED_ABORT;
        wire->type = NA_EMUL_WIRE_ABORT;
    } else if ((xfer->owed & NA_EMUL_OWED_DONE) != 0) {
        plan->owed = NA_EMUL_OWED_DONE;
        wire->type = NA_EMUL_WIRE_DONE;
        wire->status = (uint16_t) xfer->status;
    } else if ((xfer->owed & NA_EMUL_OWED_ACK) != 0) {
        plan->owed = NA_EMUL_OWED_ACK;
        wire->type = xfer->origin ? NA_EMUL_WIRE_GET_ACK : NA_EMUL_WIRE_PUT_ACK;
        wire->offset = xfer->moved;
    } else {
        wire->type =
            xfer->origin ? NA_EMUL_WIRE_PUT_DATA : NA_EMUL_WIRE_GET_DATA;
        return xfer->sends && !xfer->ended && xfer->moved < xfer->length;
    }
    return true;
}

/* ---- Sending it ---- */

/* Whether a poll would find something to do, but for refusals. */
static bool na_emul_send_is_due(const struct na_emul *emul)
{
    return !hg_list_is_empty(&emul->ready) || !hg_list_is_empty(&emul->done) ||
        !hg_list_is_empty(&emul->buried);
}

/* The transport is done with a frame's memory. Any thread. */
static void na_emul_send_released(void *arg)
{
    struct na_emul_frame *frame = (struct na_emul_frame *) arg;
    struct na_emul *emul = frame->xfer->emul;
    bool idle;
    bool wake;

    hg_lock(&emul->lock);
    idle = !na_emul_send_is_due(emul);
    na_emul_xfer_frame_put(frame);
    wake = idle && na_emul_send_is_due(emul);
    hg_unlock(&emul->lock);
    if (wake)
        emul->na_class->core->wake(emul->na_class);
}

/* A frame without data borrows nothing. */
static void na_emul_send_nothing_released(void *arg)
{
    (void) arg;
}

/* Hand the plan to the transport; without the lock. */
static na_return_t na_emul_send_out(struct na_emul *emul, struct na_addr *addr,
    const struct na_emul_send_plan *plan)
{
    unsigned char header[NA_EMUL_WIRE_MAX];
    size_t size = na_emul_wire_encode(&plan->wire, header);

    return na_class_ops(emul->na_class)
        ->frame_send(addr, header, size, plan->data, (size_t) plan->size,
            plan->frame != NULL ? na_emul_send_released
                                : na_emul_send_nothing_released,
            plan->frame);
}

/* The frame left. */
static void na_emul_send_sent(struct na_emul_xfer *xfer)
{
    /* Nobody acknowledges a small get: that it left is its end. */
    if (xfer->sends && !xfer->origin && !xfer->windowed &&
        xfer->moved == xfer->length)
        na_emul_xfer_end(xfer, NA_SUCCESS, 0);
    na_emul_xfer_kick(xfer);
    na_emul_xfer_check(xfer);
}

/* The frame did not leave, for `ret`. What it was to settle is to do again,
 * unless the transfer ended meanwhile, which decided what is left to say. */
static enum na_emul_send_result na_emul_send_failed(struct na_emul_xfer *xfer,
    struct na_emul_send_plan *plan, bool was_ended, na_return_t ret)
{
    bool request = (plan->owed & NA_EMUL_OWED_REQ) != 0;

    na_emul_send_unload(xfer, plan);
    if (xfer->ended == was_ended)
        xfer->owed |= plan->owed;
    else if (request)
        xfer->owed = 0; /* the peer has never heard of it */
    if (ret == NA_NOMEM && (plan->owed == 0 || request)) {
        na_emul_xfer_fail(xfer, ret);
    } else if (ret != NA_AGAIN && ret != NA_NOMEM) {
        na_emul_xfer_end(xfer, ret, 0);
        xfer->owed = 0;
    }
    na_emul_xfer_kick(xfer);
    if (ret == NA_AGAIN && !hg_list_is_empty(&xfer->link)) {
        hg_list_remove(&xfer->link);
        hg_list_push(&xfer->emul->stalled, &xfer->link);
    }
    na_emul_xfer_check(xfer);
    return ret == NA_AGAIN ? NA_EMUL_SEND_STALLED : NA_EMUL_SEND_FAILED;
}

HG_PRIVATE enum na_emul_send_result na_emul_send_one(struct na_emul_xfer *xfer)
{
    struct na_emul *emul = xfer->emul;
    struct na_addr *addr = xfer->peer->addr;
    struct na_emul_send_plan plan;
    bool was_ended = xfer->ended;
    na_return_t ret = NA_SUCCESS;

    assert(!xfer->busy && hg_list_is_empty(&xfer->link));
    if (!na_emul_send_choose(xfer, &plan))
        return NA_EMUL_SEND_NOTHING;
    if (plan.owed == 0 || plan.wire.type == NA_EMUL_WIRE_PUT_REQ) {
        na_size_t size = na_emul_send_allowance(xfer);

        xfer->busy = true;
        if (size > 0)
            ret = na_emul_send_load(xfer, &plan, size);
        xfer->busy = false;
        if (ret == NA_NOMEM)
            return na_emul_send_failed(xfer, &plan, was_ended, ret);
        if (plan.frame == NULL && plan.owed == 0) {
            hg_list_push(&xfer->peer->parked, &xfer->link);
            return NA_EMUL_SEND_NOTHING;
        }
        if (xfer->ended) { /* while it was gathered */
            na_emul_xfer_frame_put(plan.frame);
            na_emul_xfer_kick(xfer);
            return NA_EMUL_SEND_FAILED;
        }
        na_emul_send_account(xfer, &plan);
    }
    xfer->owed &= ~plan.owed;
    xfer->busy = true;
    hg_unlock(&emul->lock);
    ret = na_emul_send_out(emul, addr, &plan);
    if (ret == NA_SUCCESS && plan.size > 0) {
        emul->na_class->core->count(emul->na_class, "rma_frames", 1);
        emul->na_class->core->count(
            emul->na_class, "rma_bytes_sent", plan.size);
    }
    hg_lock(&emul->lock);
    xfer->busy = false;
    if (ret != NA_SUCCESS)
        return na_emul_send_failed(xfer, &plan, was_ended, ret);
    na_emul_send_sent(xfer);
    return NA_EMUL_SEND_FRAME;
}

/* ---- Refusals ---- */

/* Keep a refusal that met `ret` for later; takes the address's reference.
 * False: no place. Where the transport has no room it will wake; when there is
 * memory again nobody says. */
static bool na_emul_send_keep(struct na_emul *emul,
    const struct na_emul_refusal *refusal, na_return_t ret)
{
    unsigned same = 0;
    unsigned i;

    for (i = 0; i < emul->unsaid_count; i++)
        same += emul->unsaid[i].addr == refusal->addr;
    if (emul->unsaid_count == NA_EMUL_UNSAID_MAX || same >= NA_EMUL_UNSAID_EACH)
        return false;
    emul->unsaid[emul->unsaid_count++] = *refusal;
    if (ret == NA_NOMEM && emul->unsaid_at == 0)
        emul->unsaid_at = hg_clock_after_ms(NA_EMUL_UNSAID_MS);
    atomic_fetch_add_explicit(&emul->active, 1, memory_order_relaxed);
    return true;
}

/* Say a refusal or keep it; takes the address's reference. Releases the lock
 * for a while. */
static enum na_emul_send_result na_emul_send_no(
    struct na_emul *emul, const struct na_emul_refusal *refusal)
{
    const struct na_core *core = emul->na_class->core;
    struct na_emul_send_plan plan;
    na_return_t ret;

    memset(&plan, 0, sizeof(plan));
    plan.wire.type = NA_EMUL_WIRE_DONE;
    plan.wire.id = refusal->id;
    plan.wire.status = (uint16_t) refusal->status;
    hg_unlock(&emul->lock);
    ret = na_emul_send_out(emul, refusal->addr, &plan);
    hg_lock(&emul->lock);
    if ((ret == NA_NOMEM || ret == NA_AGAIN) &&
        na_emul_send_keep(emul, refusal, ret))
        return NA_EMUL_SEND_STALLED;
    hg_unlock(&emul->lock);
    core->addr_unref(refusal->addr);
    hg_lock(&emul->lock);
    return ret == NA_SUCCESS ? NA_EMUL_SEND_FRAME : NA_EMUL_SEND_FAILED;
}

HG_PRIVATE bool na_emul_send_refusal(
    struct na_emul *emul, struct na_addr *addr, uint64_t id, na_return_t ret)
{
    struct na_emul_refusal refusal = {addr, id, ret};

    emul->na_class->core->addr_ref(addr);
    return na_emul_send_no(emul, &refusal) != NA_EMUL_SEND_FAILED;
}

/* Once more for each of the refusals that were kept, the oldest first: what one
 * peer cannot hear keeps no other waiting. Returns how many went. */
static unsigned na_emul_send_unsaid(struct na_emul *emul)
{
    unsigned left = emul->unsaid_count;
    unsigned n = 0;

    emul->unsaid_at = 0;
    for (; left > 0 && emul->unsaid_count > 0; left--) {
        struct na_emul_refusal refusal = emul->unsaid[0];

        emul->unsaid_count--;
        memmove(emul->unsaid, emul->unsaid + 1,
            emul->unsaid_count * sizeof(emul->unsaid[0]));
        atomic_fetch_sub_explicit(&emul->active, 1, memory_order_relaxed);
        if (na_emul_send_no(emul, &refusal) != NA_EMUL_SEND_STALLED)
            n++;
    }
    return n;
}

HG_PRIVATE unsigned na_emul_poll(struct na_emul *emul)
{
    unsigned n = 0;
    struct na_link *link;

    if (atomic_load_explicit(&emul->active, memory_order_relaxed) == 0)
        return 0;
    hg_lock(&emul->lock);
    n = na_emul_send_unsaid(emul);
    na_emul_xfer_untouch(emul, false);
    hg_list_splice(&emul->ready, &emul->stalled);
    while (
        n < NA_EMUL_SEND_BURST && (link = hg_list_pop(&emul->ready)) != NULL) {
        enum na_emul_send_result result =
            na_emul_send_one(HG_CONTAINER_OF(link, struct na_emul_xfer, link));

        if (result == NA_EMUL_SEND_FRAME || result == NA_EMUL_SEND_FAILED)
            n++;
    }
    return n + na_emul_xfer_leave(emul);
}

/* When there is something to do though nobody wakes. */
static uint64_t na_emul_send_due_at(const struct na_emul *emul)
{
    uint64_t touch = na_emul_xfer_touch_due(emul);

    return emul->unsaid_at != 0 && emul->unsaid_at < touch ? emul->unsaid_at
                                                           : touch;
}

HG_PRIVATE bool na_emul_has_work(struct na_emul *emul)
{
    bool work;

    if (atomic_load_explicit(&emul->active, memory_order_relaxed) == 0)
        return false;
    hg_lock(&emul->lock);
    work = na_emul_send_is_due(emul) ||
        hg_clock_now() >= na_emul_send_due_at(emul);
    hg_unlock(&emul->lock);
    return work;
}

HG_PRIVATE uint64_t na_emul_due(struct na_emul *emul)
{
    uint64_t due;

    if (atomic_load_explicit(&emul->active, memory_order_relaxed) == 0)
        return HG_CLOCK_NEVER;
    hg_lock(&emul->lock);
    due = na_emul_send_due_at(emul);
    hg_unlock(&emul->lock);
    return due;
}
