/* SPDX-License-Identifier: BSD-3-Clause */
/* xfer: see xfer.h. */
#include "emul/xfer.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/wire.h"
#include "na/addr.h"

#define NA_EMUL_WIRE_MAGIC 0x5268u
#define NA_EMUL_WIRE_VERSION 1u

/* ---- Frames as bytes ---- */

/* What a frame of a type has behind its first 16 bytes. */
enum {
    NA_EMUL_WIRE_HAS_OFFSET = 0x01,
    NA_EMUL_WIRE_HAS_REQUEST = 0x02, /* key, length and window */
    NA_EMUL_WIRE_HAS_DATA = 0x04
};

static unsigned na_emul_wire_parts(uint8_t type)
{
    static const uint8_t parts[] = {0, /* GET_REQ */ 3, /* PUT_REQ */ 7,
        /* PUT_DATA */ 5, /* GET_ACK */ 1, /* ABORT */ 0, /* GET_DATA */ 5,
        /* PUT_ACK */ 1, /* DONE */ 0};

    assert(type > 0 && type < sizeof(parts));
    return parts[type];
}

HG_PRIVATE size_t na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_MAX])
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_MAX);
    unsigned parts = na_emul_wire_parts(frame->type);

    hg_wire_put16(&wire, NA_EMUL_WIRE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_WIRE_VERSION);
    hg_wire_put8(&wire, frame->type);
    hg_wire_put8(&wire, frame->flags);
    hg_wire_put8(&wire, 0);
    hg_wire_put16(&wire, frame->status);
    hg_wire_put64(&wire, frame->id);
    if ((parts & NA_EMUL_WIRE_HAS_REQUEST) != 0)
        hg_wire_put64(&wire, frame->key);
    if ((parts & NA_EMUL_WIRE_HAS_OFFSET) != 0)
        hg_wire_put64(&wire, frame->offset);
    if ((parts & NA_EMUL_WIRE_HAS_REQUEST) != 0) {
        hg_wire_put64(&wire, frame->length);
        hg_wire_put64(&wire, frame->window);
    }
    if ((parts & NA_EMUL_WIRE_HAS_DATA) != 0 &&
        (frame->flags & NA_EMUL_WIRE_SUM) != 0)
        hg_wire_put64(&wire, frame->sum);
    assert(!wire.failed);
    return NA_EMUL_WIRE_MAX - hg_wire_left(&wire);
}

HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p)
{
    struct hg_wire wire = hg_wire_reader(header, header_size);
    struct na_emul_wire frame;
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    unsigned parts;

    memset(&frame, 0, sizeof(frame));
    frame.type = hg_wire_get8(&wire);
    frame.flags = hg_wire_get8(&wire);
    hg_wire_skip(&wire, 1);
    frame.status = hg_wire_get16(&wire);
    frame.id = hg_wire_get64(&wire);
    /* If the header is too short, what is missing reads as 0. */
    if (magic != NA_EMUL_WIRE_MAGIC || version != NA_EMUL_WIRE_VERSION ||
        frame.type == 0 || frame.type > NA_EMUL_WIRE_DONE)
        return NA_PROTOCOL_ERROR;
    parts = na_emul_wire_parts(frame.type);
    if ((parts & NA_EMUL_WIRE_HAS_REQUEST) != 0)
        frame.key = hg_wire_get64(&wire);
    if ((parts & NA_EMUL_WIRE_HAS_OFFSET) != 0)
        frame.offset = hg_wire_get64(&wire);
    if ((parts & NA_EMUL_WIRE_HAS_REQUEST) != 0) {
        frame.length = hg_wire_get64(&wire);
        frame.window = hg_wire_get64(&wire);
    }
    if ((parts & NA_EMUL_WIRE_HAS_DATA) == 0 && data_size > 0)
        return NA_PROTOCOL_ERROR;
    if ((parts & NA_EMUL_WIRE_HAS_DATA) != 0 &&
        (frame.flags & NA_EMUL_WIRE_SUM) != 0)
        frame.sum = hg_wire_get64(&wire);
    if (wire.failed)
        return NA_PROTOCOL_ERROR;
    *frame_p = frame;
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
    hg_list_init(&peer->parked);
    hg_list_init(&peer->waiting);
    na_addr_core_of(addr)->emul_peer = peer;
    return peer;
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_find_target(
    const struct na_emul *emul, const struct na_addr *addr, uint64_t id)
{
    const struct na_emul_peer *peer = na_emul_xfer_peer(addr);
    struct na_emul_xfer *xfer;

    if (peer == NULL)
        return NULL;
    xfer = (struct na_emul_xfer *) hg_map_get(&emul->targets, peer->salt + id);
    return xfer != NULL && xfer->peer == peer ? xfer : NULL;
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_new(struct na_emul *emul,
    struct na_addr *addr, bool origin, bool sends, na_size_t length,
    uint64_t id)
{
    struct na_emul_peer *peer = na_emul_xfer_make_peer(addr);
    struct na_emul_xfer *xfer;
    hg_return_t ret;
    bool fresh;

    if (peer == NULL)
        return NULL;
    xfer = (struct na_emul_xfer *) hg_pool_get(&emul->xfer_pool, &fresh);
    if (xfer == NULL)
        return NULL;
    if (origin)
        ret = hg_slots_add(&emul->origins, xfer, &id);
    else if (hg_map_get(&emul->targets, peer->salt + id) != NULL)
        ret = HG_EXIST; /* another peer's, by an unlikely chance */
    else
        ret = hg_map_put(&emul->targets, peer->salt + id, xfer);
    if (ret != HG_SUCCESS) {
        hg_pool_put(&emul->xfer_pool, xfer);
        return NULL;
    }
    memset(xfer, 0, sizeof(*xfer));
    hg_list_init(&xfer->link);
    hg_list_init(&xfer->in_emul);
    xfer->emul = emul;
    xfer->peer = peer;
    xfer->id = id;
    xfer->length = length;
    xfer->window = emul->window;
    xfer->origin = origin;
    xfer->sends = sends;
    if (origin)
        xfer->control = sends ? NA_EMUL_WIRE_PUT_REQ : NA_EMUL_WIRE_GET_REQ;
    else
        peer->target_count++;
    emul->na_class->core->addr_ref(addr);
    hg_list_push(&emul->xfers, &xfer->in_emul);
    return xfer;
}

static void na_emul_xfer_free(struct na_emul_xfer *xfer)
{
    struct na_addr *addr = xfer->peer->addr;
    const struct na_core *core = xfer->emul->na_class->core;

    hg_list_remove(&xfer->link);
    hg_list_remove(&xfer->in_emul);
    if (!xfer->origin)
        xfer->peer->target_count--;
    hg_pool_put(&xfer->emul->xfer_pool, xfer);
    core->addr_unref(addr);
}

/* Release what an ended transfer does not need any more. */
static void na_emul_xfer_check(struct na_emul_xfer *xfer)
{
    struct na_op *op = xfer->op;

    if (!xfer->ended || xfer->pins > 0)
        return;
    if (xfer->reg != NULL)
        na_emul_xfer_unref_reg(xfer->reg);
    xfer->reg = NULL;
    xfer->op = NULL;
    if (op != NULL)
        xfer->emul->na_class->core->complete(op, xfer->status);
    if (xfer->control == 0)
        na_emul_xfer_free(xfer);
}

static void na_emul_xfer_unpin(struct na_emul_xfer *xfer)
{
    assert(xfer->pins > 0);
    xfer->pins--;
    na_emul_xfer_check(xfer);
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

/* Give back bytes of the window. */
static void na_emul_xfer_give_window(struct na_emul_peer *peer, na_size_t size)
{
    struct na_link *link;

    assert(peer->outstanding >= size);
    peer->outstanding -= size;
    while ((link = hg_list_pop(&peer->parked)) != NULL)
        na_emul_xfer_kick(HG_CONTAINER_OF(link, struct na_emul_xfer, link));
}

HG_PRIVATE void na_emul_xfer_acknowledge(
    struct na_emul_xfer *xfer, na_size_t acked)
{
    na_size_t size = acked - xfer->acked;

    assert(acked >= xfer->acked && acked <= xfer->moved);
    xfer->acked = acked;
    na_emul_xfer_give_window(xfer->peer, size);
}

/* A started operation ended: the next one may start. */
static void na_emul_xfer_start_next(struct na_emul_peer *peer)
{
    struct na_link *link = hg_list_pop(&peer->waiting);
    struct na_emul_xfer *next =
        HG_CONTAINER_OF(link, struct na_emul_xfer, link);

    if (link == NULL) {
        peer->origin_count--;
        return;
    }
    next->started = true;
    na_emul_xfer_kick(next);
}

HG_PRIVATE void na_emul_xfer_end(
    struct na_emul_xfer *xfer, na_return_t status, uint8_t control)
{
    struct na_emul *emul = xfer->emul;
    struct na_emul_peer *peer = xfer->peer;

    if (xfer->ended)
        return;
    xfer->ended = true;
    xfer->status = status;
    xfer->control = control;
    hg_list_remove(&xfer->link);
    if (xfer->sends && na_emul_xfer_is_windowed(xfer))
        na_emul_xfer_acknowledge(xfer, xfer->moved);
    if (!xfer->origin)
        (void) hg_map_remove(&emul->targets, peer->salt + xfer->id);
    else
        (void) hg_slots_remove(&emul->origins, xfer->id);
    if (xfer->started)
        na_emul_xfer_start_next(peer);
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
    xfer->pins++; /* it stays until the end of this */
    na_emul_xfer_end(xfer, ret, 0);
    xfer->control = 0;
    hg_list_remove(&xfer->link);
    na_emul_xfer_unpin(xfer);
}

HG_PRIVATE void na_emul_xfer_unref_reg(struct na_emul_reg *reg)
{
    struct na_addr *user = reg->user;

    assert(reg->refs > 0);
    if (--reg->refs > 0)
        return;
    if (user != NULL) {
        atomic_fetch_sub(&na_addr_core_of(user)->lingering, reg->mem->size);
        na_rma_delete(reg->mem);
        user->na_class->core->addr_unref(user);
    }
    hg_mem_free(reg->buf);
    hg_mem_free(reg);
}

/* ---- Frames in the transport's hands ---- */

HG_PRIVATE struct na_emul_frame *na_emul_xfer_get_frame(
    struct na_emul_xfer *xfer)
{
    bool fresh;
    struct na_emul_frame *frame =
        (struct na_emul_frame *) hg_pool_get(&xfer->emul->frame_pool, &fresh);

    if (frame == NULL)
        return NULL;
    frame->xfer = xfer;
    xfer->pins++;
    return frame;
}

/* Put back a frame, which the transport does not have. */
static void na_emul_xfer_put_frame(struct na_emul_frame *frame)
{
    struct na_emul_xfer *xfer = frame->xfer;

    hg_pool_put(&xfer->emul->frame_pool, frame);
    na_emul_xfer_unpin(xfer);
}

HG_PRIVATE void na_emul_xfer_return(void *arg)
{
    struct na_emul_frame *frame = (struct na_emul_frame *) arg;
    _Atomic(struct na_emul_frame *) *returned = &frame->xfer->emul->returned;
    struct na_emul_frame *head =
        atomic_load_explicit(returned, memory_order_relaxed);

    do
        frame->next = head;
    while (!atomic_compare_exchange_weak_explicit(
        returned, &head, frame, memory_order_release, memory_order_relaxed));
}

HG_PRIVATE unsigned na_emul_xfer_collect(struct na_emul *emul)
{
    struct na_emul_frame *frame;
    unsigned n = 0;

    if (atomic_load_explicit(&emul->returned, memory_order_relaxed) == NULL)
        return 0;
    frame =
        atomic_exchange_explicit(&emul->returned, NULL, memory_order_acquire);
    for (; frame != NULL; n++) {
        struct na_emul_frame *next = frame->next;

        na_emul_xfer_put_frame(frame);
        frame = next;
    }
    return n;
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
    const struct na_emul *emul = xfer->emul;
    na_size_t size = xfer->length - xfer->moved;

    if (size > emul->frame_size)
        size = emul->frame_size;
    if (!na_emul_xfer_is_windowed(xfer))
        return size;
    if (size > xfer->window)
        size = xfer->window;
    assert(xfer->moved - xfer->acked <= xfer->window);
    assert(xfer->peer->outstanding <= emul->window);
    if (size > xfer->window - (xfer->moved - xfer->acked) ||
        size > emul->window - xfer->peer->outstanding)
        return 0;
    return size;
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
        plan->arg = na_emul_xfer_get_frame(xfer);
        if (plan->arg == NULL)
            return NA_NOMEM;
        plan->release = na_emul_xfer_return;
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
    wire->id = xfer->id;
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

    if (plan->release == na_emul_xfer_return)
        na_emul_xfer_put_frame((struct na_emul_frame *) plan->arg);
    else
        hg_mem_free(plan->arg);
    if (ret != NA_AGAIN && ret != NA_NOMEM)
        na_emul_xfer_drop(xfer, ret);
    else if (ret == NA_NOMEM && fails)
        na_emul_xfer_fail(xfer, ret);
    if (!na_emul_xfer_has_frame(xfer) || !hg_list_is_empty(&xfer->link))
        return true;
    hg_list_push(&xfer->emul->stalled, &xfer->link);
    return false;
}

HG_PRIVATE bool na_emul_xfer_send(struct na_emul_xfer *xfer)
{
    const struct na_plugin *ops = na_class_ops(xfer->emul->na_class);
    unsigned char header[NA_EMUL_WIRE_MAX];
    struct na_emul_xfer_plan plan;
    na_return_t ret = NA_SUCCESS;
    bool changed = true;

    assert(na_emul_xfer_has_frame(xfer) && hg_list_is_empty(&xfer->link));
    memset(&plan, 0, sizeof(plan));
    plan.release = hg_mem_free; /* without data it has nothing to do */
    plan.cursor = xfer->cursor;
    if (na_emul_xfer_fill(xfer, &plan.wire)) {
        na_size_t size = na_emul_xfer_allowance(xfer);

        if (size == 0 && xfer->control == 0) {
            hg_list_push(&xfer->peer->parked, &xfer->link);
            return false;
        }
        if (size > 0)
            ret = na_emul_xfer_load(xfer, &plan, size);
    }
    xfer->pins++; /* the transport may end it meanwhile */
    if (ret == NA_SUCCESS)
        ret = ops->frame_send(xfer->peer->addr, header,
            na_emul_wire_encode(&plan.wire, header), plan.data,
            (size_t) plan.size, plan.release, plan.arg);
    if (ret == NA_SUCCESS) {
        na_emul_xfer_sent(xfer, &plan);
        na_emul_xfer_kick(xfer);
    } else {
        changed = na_emul_xfer_unsent(xfer, &plan, ret);
    }
    na_emul_xfer_unpin(xfer);
    return changed;
}

HG_PRIVATE void na_emul_xfer_start(struct na_emul_xfer *xfer)
{
    struct na_emul_peer *peer = xfer->peer;

    if (peer->origin_count >= NA_EMUL_ORIGINS_MAX) {
        hg_list_push(&peer->waiting, &xfer->link);
        return;
    }
    peer->origin_count++;
    xfer->started = true;
    (void) na_emul_xfer_send(xfer);
}
