/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: see emul.h. The slots, and frames that arrive.
 *
 * Everything that a peer sends is checked here before it has any effect. What
 * is wrong is counted, and logged only where it ends an operation of ours or
 * damages memory, so that a peer cannot flood the log:
 *
 *     rma_malformed   not a frame, or one that no correct peer sends
 *     rma_refused     a request answered with an error
 *     rma_stale       of a transfer that is not (or no longer) here
 *     rma_dropped     a refusal that could not be sent: the connection ends
 *     rma_damaged     data that does not match its CRC64
 */
#include "emul/emul.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/wire.h"
#include "emul/xfer.h"
#include "na/addr.h"

#define NA_EMUL_HANDLE_MAGIC 0x4d68u
#define NA_EMUL_HANDLE_VERSION 1u

#define NA_EMUL_BURST 16 /* frames sent in one poll */

/* How long a peer may read no data before its connection ends, when the memory
 * is to be freed. */
#define NA_EMUL_RECALL_MS 1000u

/* How often progress looks for what nothing wakes it for: frames that the
 * transport returns, and memory that it has moved. */
#define NA_EMUL_LOOK_MS 2

static const char *na_emul_name(const struct na_addr *addr)
{
    return addr->name != NULL ? addr->name : "a peer";
}

static struct hg_monitor *na_emul_lock(const struct na_emul *emul)
{
    return na_class_core_of(emul->na_class)->lock;
}

/* Release the lock; wake progress when there is something for it to send. */
static void na_emul_leave(struct na_emul *emul)
{
    bool work = !hg_list_is_empty(&emul->ready);

    hg_leave(na_emul_lock(emul));
    if (work)
        emul->na_class->core->wake(emul->na_class);
}

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
    emul->window = window;
    hg_list_init(&emul->ready);
    hg_list_init(&emul->stalled);
    hg_list_init(&emul->touched);
    hg_map_init(&emul->regs);
    hg_map_init(&emul->xfers);
    hg_list_init(&emul->spare);
    return emul;
}

/* The next transfer, which may be freed before the one after it is asked for;
 * *cursor is 0 at first. NULL at the end. */
static struct na_emul_xfer *na_emul_next(
    const struct na_emul *emul, size_t *cursor)
{
    uint64_t key;

    return (struct na_emul_xfer *) hg_map_next(&emul->xfers, cursor, &key);
}

/* Free withdrawn memory of which the transport moves no pieces any more; with
 * `closed` it moves none. */
static void na_emul_untouch(struct na_emul *emul, bool closed)
{
    struct na_link *link = emul->touched.next;

    while (link != &emul->touched) {
        struct na_mem_core *mem =
            HG_CONTAINER_OF(link, struct na_mem_core, link);

        link = link->next;
        if (closed || !na_class_ops(emul->na_class)->mem_retract(&mem->pub)) {
            hg_list_remove(&mem->link);
            na_emul_xfer_unref_mem(mem);
        }
    }
}

HG_PRIVATE void na_emul_destroy(struct na_emul *emul)
{
    struct na_emul_xfer *xfer;
    size_t cursor = 0;

    na_emul_untouch(emul, true);
    while ((xfer = na_emul_next(emul, &cursor)) != NULL)
        na_emul_xfer_drop(xfer, NA_CANCELED);
    assert(emul->xfers.count == 0);
    while (!hg_list_is_empty(&emul->spare))
        hg_mem_free(HG_CONTAINER_OF(
            hg_list_pop(&emul->spare), struct na_emul_xfer, link));
    hg_map_fini(&emul->xfers);
    hg_map_fini(&emul->regs);
    hg_mem_free(emul);
}

HG_PRIVATE na_return_t na_emul_sum_frames(struct na_class *na_class, bool on)
{
    struct na_emul *emul = na_class_emul(na_class);

    if (emul == NULL || na_class_core_of(na_class)->next != NULL ||
        na_class_ops(na_class)->put != na_emul_put)
        return on ? NA_OPNOTSUPPORT : NA_SUCCESS;
    hg_enter(na_emul_lock(emul));
    emul->sums = on;
    hg_leave(na_emul_lock(emul));
    return NA_SUCCESS;
}

/* ---- Waiting for memory ---- */

/* Whether a transfer uses registered memory `mem`, or is an operation of
 * `context`, or one whose local side is `mem`. */
static bool na_emul_uses(const struct na_emul_xfer *xfer,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    if (xfer->op != NULL)
        return xfer->op->context == context || xfer->op->local == mem;
    return xfer->mem != NULL && &xfer->mem->pub == mem;
}

/* A peer keeps frames of a transfer: end its connection, once. */
static void na_emul_abandon(struct na_emul_xfer *xfer)
{
    struct na_addr *addr = xfer->peer->addr;

    xfer->abandoned = true;
    if (!na_addr_is_dead(addr))
        hg_log_warning("rma",
            "%s does not read its data; closing the connection, because the "
            "memory is being withdrawn",
            na_emul_name(addr));
    na_addr_ref(addr);
    na_addr_abandon(addr);
    na_addr_unref(addr);
}

/* End such transfers with `status`; whether the transport had frames of one. If
 * it is `late`, the peer of that one loses its connection. */
static bool na_emul_end_some(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem,
    na_return_t status, bool late)
{
    struct na_emul_xfer *xfer;
    size_t cursor = 0;
    bool used = false;

    while ((xfer = na_emul_next(emul, &cursor)) != NULL) {
        bool held;

        if (!na_emul_uses(xfer, context, mem))
            continue;
        atomic_fetch_add(&xfer->pins, 1); /* the transport may free the rest */
        na_emul_xfer_fail(xfer, status);
        held = atomic_load(&xfer->pins) > 1;
        if (held && late && !xfer->abandoned) {
            na_emul_abandon(xfer);
            cursor = 0; /* any other transfer may be gone */
        }
        na_emul_xfer_unpin(xfer);
        used = used || held;
    }
    (void) na_emul_xfer_collect(emul);
    return used;
}

/* End such transfers, and wait until none of them uses memory. A frame of them
 * may be with the transport, and perhaps nobody polls, so the transport is
 * asked to free frames. */
static void na_emul_end_users(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem,
    na_return_t status)
{
    uint64_t deadline = hg_clock_after_ms(NA_EMUL_RECALL_MS);
    struct timespec nap = {0, 50000};

    while (na_emul_end_some(
        emul, context, mem, status, hg_clock_is_past(deadline))) {
        unsigned depth = hg_leave_all(na_emul_lock(emul));

        (void) nanosleep(&nap, NULL);
        na_class_ops(emul->na_class)->reclaim(emul->na_class);
        hg_enter_again(na_emul_lock(emul), depth);
        if (nap.tv_nsec < 1000000)
            nap.tv_nsec *= 2;
    }
}

/* ---- Registrations ---- */

HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *handle)
{
    struct na_emul *emul = na_class_emul(handle->na_class);
    struct na_mem_core *mem = na_mem_core_of(handle);
    na_return_t ret;

    hg_list_init(&mem->link);
    hg_enter(na_emul_lock(emul));
    mem->refs = 1;
    ret = hg_map_add(&emul->regs, mem, &handle->key);
    hg_leave(na_emul_lock(emul));
    return ret;
}

/* Peers find the memory no more. */
static void na_emul_forget(struct na_emul *emul, struct na_mem_core *mem)
{
    const void *known = hg_map_remove(&emul->regs, mem->pub.key);

    assert(known == mem && mem->refs > 0);
    (void) known;
}

HG_PRIVATE void na_emul_mem_deregister(struct na_mem_handle *handle)
{
    struct na_emul *emul = na_class_emul(handle->na_class);
    struct na_mem_core *mem = na_mem_core_of(handle);

    hg_enter(na_emul_lock(emul));
    na_emul_forget(emul, mem);
    if (mem->refs > 1)
        na_emul_end_users(emul, NULL, handle, NA_NOENTRY);
    assert(mem->refs == 1);
    na_emul_xfer_unref_mem(mem);
    na_emul_leave(emul);
    handle->key = 0;
}

/* Whether the transport moves memory, too, and hands over what it cannot. */
static bool na_emul_shares(const struct na_class *na_class)
{
    return (na_class_ops(na_class)->caps & NA_CAP_HANDS_OVER) != 0;
}

HG_PRIVATE bool na_emul_withdraw(
    struct na_mem_handle *handle, void *buf, struct na_addr *user)
{
    struct na_emul *emul = na_class_emul(handle->na_class);
    struct na_mem_core *mem = na_mem_core_of(handle);
    const struct na_core *core = handle->na_class->core;
    struct na_emul_xfer *xfer;
    size_t cursor = 0;
    bool touched;
    bool used;

    na_rma_forget(handle);
    if (emul == NULL || !atomic_exchange(&mem->registered, false)) {
        na_rma_delete(handle); /* and deregisters */
        return false;
    }
    touched = na_emul_shares(handle->na_class) &&
        na_class_ops(handle->na_class)->mem_retract(handle);
    hg_enter(na_emul_lock(emul));
    na_emul_forget(emul, mem);
    while (mem->refs > 1 && (xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->mem == mem)
            na_emul_xfer_fail(xfer, NA_NOENTRY);
    }
    used = touched || mem->refs > 1;
    if (used) {
        mem->user = user;
        mem->buf = buf;
        core->addr_ref(user);
        atomic_fetch_add(&na_addr_core_of(user)->lingering, handle->size);
    }
    if (touched) {
        hg_list_push(&emul->touched, &mem->link);
        core->count(handle->na_class, "rma_touched", 1);
        core->wake(handle->na_class); /* a sleeper does not know until when */
    } else {
        na_emul_xfer_unref_mem(mem);
    }
    na_emul_leave(emul);
    if (!used)
        na_rma_delete(handle);
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
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_HANDLE_SIZE);

    hg_wire_put16(&wire, NA_EMUL_HANDLE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_HANDLE_VERSION);
    hg_wire_put8(&wire, (uint8_t) mem->flags);
    hg_wire_put32(&wire, 0);
    hg_wire_put64(&wire, mem->key);
    hg_wire_put64(&wire, mem->size);
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size)
{
    struct hg_wire wire = hg_wire_reader(buf, (size_t) buf_size);
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    uint8_t flags = hg_wire_get8(&wire);
    uint32_t zero = hg_wire_get32(&wire);
    uint64_t key = hg_wire_get64(&wire);
    uint64_t size = hg_wire_get64(&wire);

    if (buf_size != NA_EMUL_WIRE_HANDLE_SIZE || magic != NA_EMUL_HANDLE_MAGIC ||
        version != NA_EMUL_HANDLE_VERSION || flags == 0 ||
        (flags & ~NA_MEM_READWRITE) != 0 || zero != 0 ||
        key == 0) /* no registration has it */
        return NA_PROTOCOL_ERROR;
    mem->flags = flags;
    mem->key = key;
    mem->size = size;
    return NA_SUCCESS;
}

/* ---- Operations ---- */

/* Start an operation. Once there is a transfer for it, its end is told by
 * completing it. The first frame leaves from here. */
static na_return_t na_emul_start(struct na_op *op, bool sends)
{
    struct na_emul *emul = na_class_emul(op->context->na_class);
    struct na_emul_xfer *xfer;
    na_return_t ret;

    hg_enter(na_emul_lock(emul));
    ret = na_addr_state(op->addr);
    if (ret != NA_SUCCESS)
        goto leave;
    xfer = na_emul_xfer_new(emul, op->addr, true, sends, op->size, 0);
    if (xfer == NULL) {
        hg_log_error("rma", "no memory for a transfer");
        ret = NA_NOMEM;
        goto leave;
    }
    assert(op->local_offset <= op->local->size &&
        op->size <= op->local->size - op->local_offset);
    xfer->op = op;
    xfer->sums = emul->sums;
    na_cursor_init(&xfer->cursor, op->local, op->local_offset);
    (void) na_emul_xfer_send(xfer);

leave:
    na_emul_leave(emul);
    return ret;
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
    struct na_emul_xfer *xfer;
    na_return_t ret = NA_NOENTRY;
    size_t cursor = 0;

    hg_enter(na_emul_lock(emul));
    while ((xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->op == op && !xfer->ended && na_op_id_of(op) == op_id) {
            na_emul_xfer_fail(xfer, NA_CANCELED);
            ret = NA_SUCCESS;
            break;
        }
    }
    na_emul_leave(emul);
    return ret;
}

HG_PRIVATE void na_emul_context_gone(struct na_context *context)
{
    struct na_emul *emul = na_class_emul(context->na_class);

    hg_enter(na_emul_lock(emul));
    na_emul_end_users(emul, context, NULL, NA_CANCELED);
    na_emul_leave(emul);
}

HG_PRIVATE void na_emul_end_local(const struct na_mem_handle *mem)
{
    const struct na_plugin *ops = na_class_ops(mem->na_class);
    struct na_emul *emul = na_class_emul(mem->na_class);

    if (na_mem_core_of(mem)->next != NULL) /* at most NA_CORE_PARTS deep */
        na_emul_end_local(&na_mem_core_of(mem)->next->pub);
    if (atomic_load(&na_mem_core_of(mem)->users) == 0)
        return;
    if (ops->mem_end_local != NULL &&
        (emul == NULL || na_emul_shares(mem->na_class)))
        ops->mem_end_local(mem);
    if (emul == NULL)
        return;
    hg_enter(na_emul_lock(emul));
    na_emul_end_users(emul, NULL, mem, NA_CANCELED);
    na_emul_leave(emul);
}

HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_emul *emul = na_class_emul(addr->na_class);
    struct na_emul_xfer *xfer;
    size_t cursor = 0;

    hg_enter(na_emul_lock(emul));
    while ((xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->peer->addr == addr)
            na_emul_xfer_drop(xfer, ret);
    }
    na_emul_leave(emul);
}

/* ---- What arrives: each function returns what to count, or NULL ---- */

/* Whether the data of a frame is what its sender saw, as far as it is known. */
static bool na_emul_is_whole(const struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    uint64_t sum;

    if (!xfer->sums)
        return true;
    sum = hg_crc64_update(0, data, size);
    if (sum == wire->sum)
        return true;
    hg_log_warning("rma",
        "%zu bytes from %s changed on the way: CRC64 %016" PRIx64
        " instead of %016" PRIx64,
        size, na_emul_name(xfer->peer->addr), sum, wire->sum);
    return false;
}

/* Copy data that is in sequence and in range to where it belongs, unless the
 * transport received it there, as na_emul_frame_place told it. */
static void na_emul_store(
    struct na_emul_xfer *xfer, const void *data, size_t size)
{
    na_size_t run;

    if (xfer->placed > xfer->moved &&
        na_cursor_run(&xfer->cursor, size, &run) == data) {
        assert(run == size);
        na_cursor_advance(&xfer->cursor, run);
    } else {
        na_cursor_scatter(&xfer->cursor, data, size);
    }
    xfer->moved += size;
}

static const char *na_emul_receive(struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    bool want_ack = (wire->flags & NA_EMUL_WIRE_WANT_ACK) != 0;
    uint8_t ack = xfer->origin ? NA_EMUL_WIRE_GET_ACK : NA_EMUL_WIRE_PUT_ACK;
    uint8_t last = want_ack ? ack : 0;

    assert(!xfer->sends && size <= xfer->length - xfer->moved);
    if (!na_emul_is_whole(xfer, wire, data, size)) {
        na_emul_xfer_fail(xfer, NA_CHECKSUM_ERROR);
        return "rma_damaged";
    }
    if (size > 0)
        na_emul_store(xfer, data, size);
    if (xfer->moved == xfer->length) {
        na_emul_xfer_end(
            xfer, NA_SUCCESS, xfer->origin ? last : NA_EMUL_WIRE_DONE);
    } else if (want_ack) {
        xfer->control = ack;
        na_emul_xfer_kick(xfer);
    }
    return NULL;
}

/* The peer broke the protocol: the transfer ends, and the peer is told. */
static const char *na_emul_violation(struct na_emul_xfer *xfer)
{
    if (xfer->origin)
        hg_log_warning("rma",
            "%s broke the protocol of a transfer of %" PRIu64 " bytes",
            na_emul_name(xfer->peer->addr), xfer->length);
    na_emul_xfer_fail(xfer, NA_PROTOCOL_ERROR);
    return "rma_malformed";
}

static const char *na_emul_data_arrived(struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    bool sum = (wire->flags & NA_EMUL_WIRE_SUM) != 0;

    if (xfer->sends || size == 0 || wire->offset != xfer->moved ||
        size > xfer->length - xfer->moved || sum != xfer->sums)
        return na_emul_violation(xfer);
    return na_emul_receive(xfer, wire, data, size);
}

static const char *na_emul_ack_arrived(
    struct na_emul_xfer *xfer, const struct na_emul_wire *wire)
{
    if (!xfer->sends || !na_emul_xfer_is_windowed(xfer) ||
        wire->offset > xfer->moved || wire->offset < xfer->acked)
        return na_emul_violation(xfer);
    na_emul_xfer_acknowledge(xfer, wire->offset);
    if (!xfer->origin && xfer->acked == xfer->length)
        na_emul_xfer_end(xfer, NA_SUCCESS, 0);
    return NULL;
}

/* The target's result of an operation. */
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
    case NA_CHECKSUM_ERROR:
        hg_log_debug(
            "rma", "refused by the peer: %s", NA_Error_to_string(wire->status));
        break;
    default: return na_emul_violation(xfer);
    }
    na_emul_xfer_end(xfer, wire->status, 0);
    return NULL;
}

/* Refuse a request that gets no transfer. If the refusal cannot be sent now,
 * the connection ends. */
static const char *na_emul_refuse(
    struct na_addr *addr, uint64_t id, na_return_t ret)
{
    unsigned char header[NA_EMUL_WIRE_SIZE];
    struct na_emul_wire wire;

    memset(&wire, 0, sizeof(wire));
    wire.type = NA_EMUL_WIRE_DONE;
    wire.id = id;
    wire.status = (uint16_t) ret;
    na_emul_wire_encode(&wire, header);
    if (na_class_ops(addr->na_class)
            ->frame_send(addr, header, sizeof(header), NULL, 0, hg_mem_free,
                NULL) == NA_SUCCESS)
        return "rma_refused";
    hg_log_warning("rma",
        "closing the connection to %s: a transfer of its cannot be refused "
        "(%s) now",
        na_emul_name(addr), NA_Error_to_string(ret));
    na_addr_abandon(addr);
    return "rma_dropped";
}

/* Whether a request may be served, and from which memory. */
static na_return_t na_emul_judge(const struct na_emul *emul,
    const struct na_emul_wire *wire, size_t size, struct na_mem_core **mem_p)
{
    struct na_mem_core *mem =
        (struct na_mem_core *) hg_map_get(&emul->regs, wire->key);
    unsigned long needs = wire->type == NA_EMUL_WIRE_GET_REQ
        ? NA_MEM_READ_ONLY
        : NA_MEM_WRITE_ONLY;

    if (wire->window < NA_EMUL_FRAME_MIN || size > wire->length)
        return NA_PROTOCOL_ERROR;
    if (mem == NULL)
        return NA_NOENTRY;
    if ((mem->pub.flags & needs) == 0)
        return NA_PERMISSION;
    if (wire->offset > mem->pub.size ||
        wire->length > mem->pub.size - wire->offset)
        return NA_OVERFLOW;
    *mem_p = mem;
    return NA_SUCCESS;
}

static const char *na_emul_requested(struct na_emul *emul,
    struct na_addr *source, const struct na_emul_wire *wire, const void *data,
    size_t size)
{
    struct na_emul_peer *peer = na_emul_xfer_peer(source);
    bool sends = wire->type == NA_EMUL_WIRE_GET_REQ;
    struct na_mem_core *mem = NULL;
    struct na_emul_xfer *xfer;
    na_return_t ret;

    if (na_addr_state(source) != NA_SUCCESS)
        return "rma_stale"; /* it died on the way here */
    if (na_emul_xfer_find(emul, source, false, wire->id) != NULL)
        return "rma_malformed";
    if (peer != NULL && peer->target_count >= NA_EMUL_TARGETS_MAX)
        return na_emul_refuse(source, wire->id, NA_AGAIN);
    xfer = na_emul_xfer_new(emul, source, false, sends, wire->length, wire->id);
    if (xfer == NULL)
        return na_emul_refuse(source, wire->id, NA_NOMEM);
    ret = na_emul_judge(emul, wire, size, &mem);
    if (ret != NA_SUCCESS) {
        hg_log_debug(
            "rma", "refused a peer's request: %s", NA_Error_to_string(ret));
        na_emul_xfer_fail(xfer, ret);
        return ret == NA_PROTOCOL_ERROR ? "rma_malformed" : "rma_refused";
    }
    xfer->mem = mem;
    mem->refs++;
    na_cursor_init(&xfer->cursor, &mem->pub, wire->offset);
    xfer->sums = (wire->flags & NA_EMUL_WIRE_SUM) != 0;
    if (wire->window < xfer->peer->window)
        xfer->peer->window = wire->window;
    if (!sends)
        return na_emul_receive(xfer, wire, data, size);
    if (wire->length == 0)
        na_emul_xfer_end(xfer, NA_SUCCESS, NA_EMUL_WIRE_DONE);
    else
        na_emul_xfer_kick(xfer);
    return NULL;
}

/* The transfer that a frame is about; NULL: there is none, or the peer guesses
 * its id. */
static struct na_emul_xfer *na_emul_find(const struct na_emul *emul,
    const struct na_addr *source, const struct na_emul_wire *wire)
{
    struct na_emul_xfer *xfer = na_emul_xfer_find(
        emul, source, wire->type >= NA_EMUL_WIRE_GET_DATA, wire->id);

    return xfer != NULL && na_emul_xfer_is_known(xfer) ? xfer : NULL;
}

static const char *na_emul_judge_frame(struct na_emul *emul,
    struct na_addr *source, const struct na_emul_wire *wire, const void *data,
    size_t size)
{
    struct na_emul_xfer *xfer;

    if (wire->type == NA_EMUL_WIRE_GET_REQ ||
        wire->type == NA_EMUL_WIRE_PUT_REQ)
        return na_emul_requested(emul, source, wire, data, size);
    xfer = na_emul_find(emul, source, wire);
    if (xfer == NULL)
        return "rma_stale";
    switch (wire->type) {
    case NA_EMUL_WIRE_GET_DATA:
    case NA_EMUL_WIRE_PUT_DATA:
        return na_emul_data_arrived(xfer, wire, data, size);
    case NA_EMUL_WIRE_GET_ACK:
    case NA_EMUL_WIRE_PUT_ACK: return na_emul_ack_arrived(xfer, wire);
    case NA_EMUL_WIRE_DONE: return na_emul_done_arrived(xfer, wire);
    default: break;
    }
    assert(wire->type == NA_EMUL_WIRE_ABORT);
    na_emul_xfer_end(xfer, NA_CANCELED, 0);
    return NULL;
}

HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size)
{
    struct na_emul *emul = na_class_emul(na_class);
    const char *wrong = "rma_malformed";
    struct na_emul_wire wire;

    assert(emul != NULL && source->na_class == na_class);
    hg_enter(na_emul_lock(emul));
    if (na_emul_wire_decode(header, header_size, size, &wire) == NA_SUCCESS)
        wrong = na_emul_judge_frame(emul, source, &wire, data, size);
    hg_leave(na_emul_lock(emul));
    if (wrong != NULL)
        na_class->core->count(na_class, wrong, 1);
}

HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p)
{
    struct na_emul *emul = na_class_emul(na_class);
    struct na_emul_xfer *xfer;
    struct na_emul_wire wire;
    na_size_t run;
    char *memory;

    if (size == 0 || !hg_is_inside(na_emul_lock(emul)) || /* it is closing */
        na_emul_wire_decode(header, header_size, size, &wire) != NA_SUCCESS ||
        (wire.type != NA_EMUL_WIRE_GET_DATA &&
            wire.type != NA_EMUL_WIRE_PUT_DATA))
        return NULL;
    xfer = na_emul_find(emul, source, &wire);
    if (xfer == NULL || xfer->sends)
        return NULL;
    if (xfer->placed <= xfer->moved) {
        xfer->placed = xfer->moved;
        xfer->ahead = xfer->cursor;
    }
    if (wire.offset != xfer->placed || size > xfer->length - xfer->placed)
        return NULL;
    assert(xfer->placed < xfer->length);
    memory = na_cursor_run(&xfer->ahead, size, &run);
    if (run < size)
        return NULL;
    na_cursor_advance(&xfer->ahead, run);
    xfer->placed += run;
    atomic_fetch_add(&xfer->pins, 1);
    *place_p = xfer;
    return memory;
}

HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place)
{
    (void) na_class;
    na_emul_xfer_unpin(place);
}

/* ---- Progress ---- */

static bool na_emul_is_idle(const struct na_emul *emul)
{
    return emul->xfers.count == 0 && hg_list_is_empty(&emul->touched);
}

HG_PRIVATE unsigned na_emul_poll(struct na_emul *emul)
{
    struct na_link *link;
    unsigned n;

    assert(hg_is_inside(na_emul_lock(emul)));
    if (HG_LIKELY(na_emul_is_idle(emul)))
        return 0;
    emul->look_at = hg_clock_after_ms(NA_EMUL_LOOK_MS);
    n = na_emul_xfer_collect(emul);
    na_emul_untouch(emul, false);
    hg_list_splice(&emul->ready, &emul->stalled);
    while (n < NA_EMUL_BURST && (link = hg_list_pop(&emul->ready)) != NULL) {
        if (na_emul_xfer_send(HG_CONTAINER_OF(link, struct na_emul_xfer, link)))
            n++;
    }
    return n;
}

HG_PRIVATE bool na_emul_has_work(const struct na_emul *emul)
{
    return !na_emul_is_idle(emul) &&
        (!hg_list_is_empty(&emul->ready) || atomic_load(&emul->unpinned) ||
            emul->look_at <= hg_clock_now());
}

HG_PRIVATE uint64_t na_emul_due(const struct na_emul *emul)
{
    return na_emul_is_idle(emul) ? HG_CLOCK_NEVER : emul->look_at;
}
