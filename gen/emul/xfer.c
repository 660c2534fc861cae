/* SPDX-License-Identifier: BSD-3-Clause */
/* xfer: see xfer.h. */
#include "emul/xfer.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/wire.h"
#include "na/addr.h"

#define NA_EMUL_WIRE_MAGIC 0x5268u
#define NA_EMUL_WIRE_VERSION 1u

#define NA_EMUL_SPARE 256 /* free transfers, at most */

/* ---- Frames as bytes ---- */

HG_PRIVATE void na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_SIZE])
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_SIZE);

    hg_wire_put16(&wire, NA_EMUL_WIRE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_WIRE_VERSION);
    hg_wire_put8(&wire, frame->type);
    hg_wire_put8(&wire, frame->flags);
    hg_wire_put8(&wire, 0);
    hg_wire_put16(&wire, frame->status);
    hg_wire_put64(&wire, frame->id);
    hg_wire_put64(&wire, frame->key);
    hg_wire_put64(&wire, frame->offset);
    hg_wire_put64(&wire, frame->length);
    hg_wire_put64(&wire, frame->window);
    hg_wire_put64(&wire, frame->sum);
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p)
{
    struct hg_wire wire = hg_wire_reader(header, header_size);
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    uint8_t type = hg_wire_get8(&wire);

    frame_p->type = type;
    frame_p->flags = hg_wire_get8(&wire);
    hg_wire_skip(&wire, 1);
    frame_p->status = hg_wire_get16(&wire);
    frame_p->id = hg_wire_get64(&wire);
    frame_p->key = hg_wire_get64(&wire);
    frame_p->offset = hg_wire_get64(&wire);
    frame_p->length = hg_wire_get64(&wire);
    frame_p->window = hg_wire_get64(&wire);
    frame_p->sum = hg_wire_get64(&wire);
    if (wire.failed || magic != NA_EMUL_WIRE_MAGIC ||
        version != NA_EMUL_WIRE_VERSION || type == 0 ||
        type > NA_EMUL_WIRE_DONE)
        return NA_PROTOCOL_ERROR;
    if (data_size > 0 && type != NA_EMUL_WIRE_PUT_REQ &&
        type != NA_EMUL_WIRE_PUT_DATA && type != NA_EMUL_WIRE_GET_DATA)
        return NA_PROTOCOL_ERROR;
    return NA_SUCCESS;
}

/* ---- The life of a transfer ---- */

/* What is known of an address, made with its first transfer. NULL: no memory.
 * It goes with the address. */
static struct na_emul_peer *na_emul_xfer_make_peer(struct na_addr *addr)
{
    struct na_emul_peer *peer = na_emul_xfer_peer(addr);

    if (peer != NULL)
        return peer;
    peer = (struct na_emul_peer *) hg_mem_calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->addr = addr;
    peer->salt = hg_clock_random();
    peer->window = na_class_emul(addr->na_class)->window;
    hg_list_init(&peer->parked);
    na_addr_core_of(addr)->emul_peer = peer;
    return peer;
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_find(const struct na_emul *emul,
    const struct na_addr *addr, bool origin, uint64_t id)
{
    const struct na_emul_peer *peer = na_emul_xfer_peer(addr);
    uint64_t key = origin || peer == NULL ? id : peer->salt + id;
    struct na_emul_xfer *xfer =
        (struct na_emul_xfer *) hg_map_get(&emul->xfers, key);

    return xfer != NULL && xfer->peer == peer && xfer->origin == origin &&
            !xfer->ended
        ? xfer
        : NULL;
}

/* Keep the memory of a transfer, on no list, for the next one. */
static void na_emul_xfer_free(struct na_emul *emul, struct na_emul_xfer *xfer)
{
    if (emul->spare_count == NA_EMUL_SPARE) {
        hg_mem_free(xfer);
        return;
    }
    hg_list_push(&emul->spare, &xfer->link);
    emul->spare_count++;
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_new(struct na_emul *emul,
    struct na_addr *addr, bool origin, bool sends, na_size_t length,
    uint64_t id)
{
    struct na_emul_peer *peer = na_emul_xfer_make_peer(addr);
    struct na_emul_xfer *xfer;
    hg_return_t ret;
    uint64_t key;

    if (peer == NULL)
        return NULL;
    if (!hg_list_is_empty(&emul->spare)) {
        xfer = HG_CONTAINER_OF(
            hg_list_pop(&emul->spare), struct na_emul_xfer, link);
        emul->spare_count--;
    } else {
        xfer = (struct na_emul_xfer *) hg_mem_alloc(sizeof(*xfer));
        if (xfer == NULL)
            return NULL;
    }
    memset(xfer, 0, sizeof(*xfer));
    hg_list_init(&xfer->link);
    key = peer->salt + id;
    if (origin)
        ret = hg_map_add(&emul->xfers, xfer, &key);
    else if (hg_map_get(&emul->xfers, key) != NULL)
        ret = HG_EXIST; /* the key of another, by an unlikely chance */
    else
        ret = hg_map_put(&emul->xfers, key, xfer);
    if (ret != HG_SUCCESS) {
        na_emul_xfer_free(emul, xfer);
        return NULL;
    }
    xfer->emul = emul;
    xfer->peer = peer;
    xfer->key = key;
    xfer->length = length;
    xfer->origin = origin;
    xfer->sends = sends;
    if (origin)
        xfer->control = sends ? NA_EMUL_WIRE_PUT_REQ : NA_EMUL_WIRE_GET_REQ;
    else
        peer->target_count++;
    emul->na_class->core->addr_ref(addr);
    return xfer;
}

/* Release what an ended transfer does not need any more. */
static void na_emul_xfer_check(struct na_emul_xfer *xfer)
{
    const struct na_core *core = xfer->emul->na_class->core;
    struct na_addr *addr = xfer->peer->addr;

    if (!xfer->ended || atomic_load(&xfer->pins) > 0)
        return;
    if (xfer->mem != NULL)
        na_emul_xfer_unref_mem(xfer->mem);
    if (xfer->op != NULL)
        core->complete(xfer->op, xfer->status);
    xfer->mem = NULL;
    xfer->op = NULL;
    if (xfer->control != 0)
        return;
    assert(hg_list_is_empty(&xfer->link));
    assert(xfer->origin || xfer->peer->target_count > 0);
    if (!xfer->origin)
        xfer->peer->target_count--;
    (void) hg_map_remove(&xfer->emul->xfers, xfer->key);
    na_emul_xfer_free(xfer->emul, xfer);
    core->addr_unref(addr);
}

HG_PRIVATE void na_emul_xfer_unpin(void *arg)
{
    struct na_emul_xfer *xfer = (struct na_emul_xfer *) arg;
    struct na_emul *emul = xfer->emul; /* the transfer may be gone next */

    assert(atomic_load(&xfer->pins) > 0);
    if (atomic_fetch_sub(&xfer->pins, 1) == 1)
        atomic_store(&emul->unpinned, true);
}

HG_PRIVATE unsigned na_emul_xfer_collect(struct na_emul *emul)
{
    struct na_emul_xfer *xfer;
    size_t before = emul->xfers.count;
    size_t cursor = 0;
    uint64_t key;

    if (!atomic_load(&emul->unpinned))
        return 0;
    atomic_store(&emul->unpinned, false);
    while ((xfer = (struct na_emul_xfer *) hg_map_next(
                &emul->xfers, &cursor, &key)) != NULL)
        na_emul_xfer_check(xfer);
    return (unsigned) (before - emul->xfers.count);
}

static bool na_emul_xfer_has_frame(const struct na_emul_xfer *xfer)
{
    return xfer->control != 0 ||
        (xfer->sends && !xfer->ended && xfer->moved < xfer->length);
}

HG_PRIVATE void na_emul_xfer_kick(struct na_emul_xfer *xfer)
{
    if (na_emul_xfer_has_frame(xfer) && hg_list_is_empty(&xfer->link))
        hg_list_push(&xfer->emul->ready, &xfer->link);
}

/* The window of a peer opened, or an operation with it ended. */
static void na_emul_xfer_unpark(struct na_emul_peer *peer)
{
    struct na_link *link;

    while ((link = hg_list_pop(&peer->parked)) != NULL)
        na_emul_xfer_kick(HG_CONTAINER_OF(link, struct na_emul_xfer, link));
}

HG_PRIVATE void na_emul_xfer_acknowledge(
    struct na_emul_xfer *xfer, na_size_t acked)
{
    assert(acked >= xfer->acked && acked <= xfer->moved);
    assert(xfer->peer->outstanding >= acked - xfer->acked);
    xfer->peer->outstanding -= acked - xfer->acked;
    xfer->acked = acked;
    na_emul_xfer_unpark(xfer->peer);
}

HG_PRIVATE void na_emul_xfer_end(
    struct na_emul_xfer *xfer, na_return_t status, uint8_t control)
{
    struct na_emul_peer *peer = xfer->peer;

    if (xfer->ended)
        return;
    xfer->ended = true;
    xfer->status = status;
    xfer->control = control;
    hg_list_remove(&xfer->link);
    if (xfer->sends && na_emul_xfer_is_windowed(xfer))
        na_emul_xfer_acknowledge(xfer, xfer->moved);
    if (xfer->started) {
        assert(xfer->origin && peer->origin_count > 0);
        peer->origin_count--;
        na_emul_xfer_unpark(peer);
    }
    na_emul_xfer_kick(xfer);
    na_emul_xfer_check(xfer);
}

HG_PRIVATE void na_emul_xfer_fail(struct na_emul_xfer *xfer, na_return_t status)
{
    uint8_t control = xfer->origin ? NA_EMUL_WIRE_ABORT : NA_EMUL_WIRE_DONE;

    na_emul_xfer_end(xfer, status, na_emul_xfer_is_known(xfer) ? control : 0);
}

HG_PRIVATE void na_emul_xfer_drop(struct na_emul_xfer *xfer, na_return_t ret)
{
    xfer->control = 0;
    hg_list_remove(&xfer->link);
    if (xfer->ended)
        na_emul_xfer_check(xfer);
    else
        na_emul_xfer_end(xfer, ret, 0);
}

HG_PRIVATE void na_emul_xfer_unref_mem(struct na_mem_core *mem)
{
    struct na_addr *user = mem->user;
    void *buf = mem->buf;

    assert(mem->refs > 0);
    if (--mem->refs > 0 || user == NULL)
        return;
    atomic_fetch_sub(&na_addr_core_of(user)->lingering, mem->pub.size);
    na_rma_delete(&mem->pub);
    hg_mem_free(buf);
    user->na_class->core->addr_unref(user);
}

/* ---- Sending ---- */

/* A frame that is being made. */
struct na_emul_xfer_plan {
    struct na_emul_wire wire;
    const void *data;
    na_size_t size;
    struct na_cursor cursor;    /* behind the data */
    void (*release)(void *arg); /* for the transport */
    void *arg;
};

/* Bytes of data that may leave now; 0: none. */
static na_size_t na_emul_xfer_allowance(const struct na_emul_xfer *xfer)
{
    const struct na_emul_peer *peer = xfer->peer;
    na_size_t size = xfer->length - xfer->moved;

    if (size > xfer->emul->frame_size)
        size = xfer->emul->frame_size;
    if (!na_emul_xfer_is_windowed(xfer))
        return size;
    if (size > peer->window)
        size = peer->window;
    return peer->outstanding + size <= peer->window ? size : 0;
}

/* Put up to `size` bytes of data into the plan. A run that is long, or all
 * there is to send, is sent from where it lies; short ones are copied together.
 * NA_NOMEM. */
static na_return_t na_emul_xfer_load(
    struct na_emul_xfer *xfer, struct na_emul_xfer_plan *plan, na_size_t size)
{
    const struct na_core *core = xfer->emul->na_class->core;
    na_size_t run;

    (void) na_cursor_run(&plan->cursor, UINT64_MAX, &run);
    if (run >= NA_EMUL_PIECE || run >= xfer->length - xfer->moved) {
        atomic_fetch_add(&xfer->pins, 1);
        plan->arg = xfer;
        plan->release = na_emul_xfer_unpin;
        plan->data = na_cursor_run(&plan->cursor, size, &plan->size);
        na_cursor_advance(&plan->cursor, plan->size);
    } else {
        if (size > NA_EMUL_GATHER_MAX)
            size = NA_EMUL_GATHER_MAX;
        plan->arg = hg_mem_alloc((size_t) size);
        if (plan->arg == NULL)
            return NA_NOMEM;
        plan->release = hg_mem_free;
        plan->data = plan->arg;
        plan->size =
            na_cursor_gather(&plan->cursor, plan->arg, size, NA_EMUL_PIECE);
        core->count(
            xfer->emul->na_class, "rma_bytes_copied_source", plan->size);
    }
    assert(plan->size > 0);
    if (xfer->sums)
        plan->wire.sum = hg_crc64_update(0, plan->data, (size_t) plan->size);
    if (na_emul_xfer_is_windowed(xfer) &&
        (!xfer->origin || xfer->moved + plan->size < xfer->length))
        plan->wire.flags |= NA_EMUL_WIRE_WANT_ACK;
    return NA_SUCCESS;
}

/* The header of the transfer's next frame. Whether data belongs to it. */
static bool na_emul_xfer_fill(
    const struct na_emul_xfer *xfer, struct na_emul_wire *wire)
{
    wire->type = xfer->control;
    wire->id = xfer->origin ? xfer->key : xfer->key - xfer->peer->salt;
    wire->offset = xfer->moved;
    switch (xfer->control) {
    case 0:
        wire->type =
            xfer->origin ? NA_EMUL_WIRE_PUT_DATA : NA_EMUL_WIRE_GET_DATA;
        wire->flags = xfer->sums ? NA_EMUL_WIRE_SUM : 0;
        return true;
    case NA_EMUL_WIRE_GET_REQ:
    case NA_EMUL_WIRE_PUT_REQ:
        wire->flags = xfer->sums ? NA_EMUL_WIRE_SUM : 0;
        wire->key = xfer->op->remote->key;
        wire->offset = xfer->op->remote_offset;
        wire->length = xfer->length;
        wire->window = xfer->emul->window;
        return xfer->sends;
    case NA_EMUL_WIRE_DONE: wire->status = (uint16_t) xfer->status; break;
    default: break;
    }
    return false;
}

/* The transport took the frame. */
static void na_emul_xfer_sent(
    struct na_emul_xfer *xfer, const struct na_emul_xfer_plan *plan)
{
    const struct na_core *core = xfer->emul->na_class->core;

    if (plan->size > 0) {
        core->count(xfer->emul->na_class, "rma_frames", 1);
        core->count(xfer->emul->na_class, "rma_bytes_sent", plan->size);
    }
    if (xfer->control == plan->wire.type)
        xfer->control = 0;
    if (xfer->ended)
        return;
    xfer->cursor = plan->cursor;
    xfer->moved += plan->size;
    if (na_emul_xfer_is_windowed(xfer))
        xfer->peer->outstanding += plan->size;
    /* Nobody acknowledges a small get: it ends when its data has left. */
    else if (xfer->sends && !xfer->origin && xfer->moved == xfer->length)
        na_emul_xfer_end(xfer, NA_SUCCESS, 0);
}

/* The transport did not take the frame, for `ret`. A control frame is tried
 * again when memory was short; data and a request are not. Whether the transfer
 * ended. */
static bool na_emul_xfer_unsent(struct na_emul_xfer *xfer,
    const struct na_emul_xfer_plan *plan, na_return_t ret)
{
    bool fails = xfer->control == 0 || !na_emul_xfer_is_known(xfer);

    plan->release(plan->arg);
    if (ret != NA_AGAIN && ret != NA_NOMEM)
        na_emul_xfer_drop(xfer, ret);
    else if (ret == NA_NOMEM && fails)
        na_emul_xfer_fail(xfer, ret);
    if (!na_emul_xfer_has_frame(xfer) || !hg_list_is_empty(&xfer->link))
        return true;
    hg_list_push(&xfer->emul->stalled, &xfer->link);
    return false;
}

/* Whether its next frame may be sent; an initiator's transfer starts with the
 * first one. */
static bool na_emul_xfer_may_send(struct na_emul_xfer *xfer)
{
    if (xfer->control == 0)
        return na_emul_xfer_allowance(xfer) > 0;
    if (na_emul_xfer_is_known(xfer) || xfer->started)
        return true;
    if (xfer->peer->origin_count >= NA_EMUL_ORIGINS_MAX)
        return false;
    xfer->peer->origin_count++;
    xfer->started = true;
    return true;
}

HG_PRIVATE bool na_emul_xfer_send(struct na_emul_xfer *xfer)
{
    const struct na_plugin *ops = na_class_ops(xfer->emul->na_class);
    unsigned char header[NA_EMUL_WIRE_SIZE];
    struct na_emul_xfer_plan plan;
    na_return_t ret = NA_SUCCESS;
    bool changed = true;
    na_size_t size;

    assert(na_emul_xfer_has_frame(xfer) && hg_list_is_empty(&xfer->link));
    if (!na_emul_xfer_may_send(xfer)) {
        hg_list_push(&xfer->peer->parked, &xfer->link);
        return false;
    }
    memset(&plan, 0, sizeof(plan));
    plan.release = hg_mem_free; /* without data it has nothing to do */
    plan.cursor = xfer->cursor;
    atomic_fetch_add(&xfer->pins, 1); /* it stays until the end of this */
    if (na_emul_xfer_fill(xfer, &plan.wire) &&
        (size = na_emul_xfer_allowance(xfer)) > 0)
        ret = na_emul_xfer_load(xfer, &plan, size);
    na_emul_wire_encode(&plan.wire, header);
    if (ret == NA_SUCCESS)
        ret = ops->frame_send(xfer->peer->addr, header, sizeof(header),
            plan.data, (size_t) plan.size, plan.release, plan.arg);
    if (ret == NA_SUCCESS) {
        na_emul_xfer_sent(xfer, &plan);
        na_emul_xfer_kick(xfer);
    } else {
        changed = na_emul_xfer_unsent(xfer, &plan, ret);
    }
    atomic_fetch_sub(&xfer->pins, 1);
    na_emul_xfer_check(xfer);
    return changed;
}
