/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: see emul.h.
 *
 * A transfer is on at most one of these lists, by `link`:
 *
 *     emul->ready     has a frame to send
 *     emul->stalled   the transport refused a frame: retried by the next poll
 *     peer->parked    the limit of unanswered requests to the peer is reached
 *
 * All data from a peer is checked before it has any effect. Errors are counted,
 * and logged only if they end a local operation or a connection, or damage
 * memory, so that a peer cannot flood the log:
 *
 *     rma_malformed   not a frame, or one that no correct peer sends
 *     rma_refused     a request answered with an error
 *     rma_stale       for a transfer that does not exist (any more)
 *     rma_dropped     a request that cannot be answered: the connection ends
 *     rma_damaged     data that does not match its CRC64
 */
#include "emul/emul.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/rma.h"

/* Maximum of unanswered requests to one peer; more wait. */
#define NA_EMUL_REQUESTS_MAX 256

/* Maximum of requests of one peer that wait for an answer here. It exceeds
 * REQUESTS_MAX, because an initiator forgets requests to an address that it
 * could not reach. */
#define NA_EMUL_ANSWERS_MAX 1024

/* Shorter pieces of memory are copied into one buffer. */
#define NA_EMUL_PIECE 16384u

#define NA_EMUL_FRAME_MIN 4096u
/* Maximum size of a frame made of copies. */
#define NA_EMUL_GATHER_MAX (1u << 18)

#define NA_EMUL_BURST 16 /* maximum number of frames sent in one poll */

/* How long a peer may stop reading before its connection ends, when memory must
 * be freed. */
#define NA_EMUL_RECALL_MS 1000u

/* How often progress checks for events that do not wake it: frames returned by
 * the transport, and memory moved by the transport. */
#define NA_EMUL_LOOK_MS 2

/* ---- Transfers ---- */

struct na_emul {
    struct na_class *na_class;
    size_t frame_size;   /* constant: maximum of data in a frame */
    uint64_t window;     /* constant: maximum of unanswered bytes to a peer */
    bool sums;           /* operations started here have checksums */
    struct hg_map regs;  /* registered memory, by its key */
    struct hg_map xfers; /* by their ids */
    struct na_link ready;
    struct na_link stalled;
    /* Withdrawn memory that the transport itself still moves. */
    struct na_link touched;
    uint64_t look_at;      /* when to poll without being woken */
    _Atomic bool unpinned; /* the last pin of a transfer was released */
};

struct na_emul_xfer {
    struct na_link link; /* ready, stalled or parked */
    struct na_emul *emul;
    struct na_addr *addr;    /* with a reference */
    struct na_mem_core *mem; /* target: with a reference; NULL: released */
    struct na_op *op;        /* initiator; NULL: completed */
    uint64_t id;             /* key of emul->xfers */
    uint64_t asked;          /* target: the id of the request */
    struct na_cursor cursor; /* at the data to send next */
    na_offset_t offset;      /* in the target's memory */
    na_size_t length;
    na_size_t sent;     /* bytes requested, or answered, so far */
    na_size_t answered; /* initiator: bytes of these that were answered */
    /* Initiator: unanswered requests. Target: 1 until the last answer was
     * sent. */
    uint32_t requests;
    _Atomic uint32_t pins; /* frames that use the memory */
    na_return_t status;
    bool origin;
    bool sends; /* it sends data */
    bool sums;
    bool ended;
    bool abandoned; /* its connection is being ended */
};

static struct na_emul_peer *na_emul_peer_of(const struct na_addr *addr)
{
    return &na_addr_core_of(addr)->emul;
}

static const char *na_emul_name(const struct na_addr *addr)
{
    return addr->name != NULL ? addr->name : "a peer";
}

static struct hg_monitor *na_emul_lock(const struct na_emul *emul)
{
    return na_class_core_of(emul->na_class)->lock;
}

/* Wake progress if it has something to send. */
static void na_emul_wake_progress(const struct na_emul *emul)
{
    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    if (!hg_list_is_empty(&emul->ready))
        emul->na_class->core->wake(emul->na_class);
}

/* Iterate over transfers; the returned one may be freed before the next call.
 * *cursor is 0 at first. NULL at the end. */
static struct na_emul_xfer *na_emul_next(
    const struct na_emul *emul, size_t *cursor)
{
    uint64_t key;

    return (struct na_emul_xfer *) hg_map_next(&emul->xfers, cursor, &key);
}

/* Create a transfer that is on no list. NULL: out of memory. */
static struct na_emul_xfer *na_emul_xfer_new(
    struct na_emul *emul, struct na_addr *addr, bool origin)
{
    struct na_emul_xfer *xfer =
        (struct na_emul_xfer *) hg_mem_calloc(1, sizeof(*xfer));

    if (xfer == NULL)
        return NULL;
    if (hg_map_add(&emul->xfers, xfer, &xfer->id) != HG_SUCCESS) {
        hg_mem_free(xfer);
        return NULL;
    }
    hg_list_init(&xfer->link);
    xfer->emul = emul;
    xfer->addr = addr;
    xfer->origin = origin;
    na_addr_use(addr);
    return xfer;
}

/* Release a reference of registered memory. With the last reference of
 * withdrawn memory, the handle and its buffer are freed. */
static void na_emul_unref_mem(struct na_mem_core *mem)
{
    struct na_addr *user = mem->user;
    void *buf = mem->buf;

    HG_ASSERT(mem->refs > 0);
    if (--mem->refs > 0 || user == NULL)
        return;
    atomic_fetch_sub(&na_addr_core_of(user)->lingering, mem->pub.size);
    na_rma_delete(&mem->pub);
    hg_mem_free(buf);
    na_addr_unref_locked(user);
}

/* Release what an ended transfer no longer needs. */
static void na_emul_check(struct na_emul_xfer *xfer)
{
    if (!xfer->ended || atomic_load(&xfer->pins) > 0)
        return;
    if (xfer->mem != NULL)
        na_emul_unref_mem(xfer->mem);
    if (xfer->op != NULL)
        xfer->emul->na_class->core->complete(xfer->op, xfer->status);
    xfer->mem = NULL;
    xfer->op = NULL;
    if (xfer->requests > 0)
        return;
    HG_ASSERT(hg_list_is_empty(&xfer->link));
    (void) hg_map_remove(&xfer->emul->xfers, xfer->id);
    na_addr_unuse(xfer->addr);
    hg_mem_free(xfer);
}

/* The transport has released a frame of a transfer. Any thread, any lock held:
 * na_emul_collect does the rest. */
static void na_emul_unpin(void *arg)
{
    struct na_emul_xfer *xfer = (struct na_emul_xfer *) arg;
    struct na_emul *emul = xfer->emul; /* the transfer may be freed below */

    HG_ASSERT(atomic_load(&xfer->pins) > 0);
    if (atomic_fetch_sub(&xfer->pins, 1) == 1)
        atomic_store(&emul->unpinned, true);
}

/* Release the memory of ended transfers without pins; returns their number. */
static unsigned na_emul_collect(struct na_emul *emul)
{
    struct na_emul_xfer *xfer;
    size_t before = emul->xfers.count;
    size_t cursor = 0;

    if (!atomic_load(&emul->unpinned))
        return 0;
    atomic_store(&emul->unpinned, false);
    while ((xfer = na_emul_next(emul, &cursor)) != NULL)
        na_emul_check(xfer);
    return (unsigned) (before - emul->xfers.count);
}

static bool na_emul_has_frame(const struct na_emul_xfer *xfer)
{
    if (!xfer->origin)
        return xfer->requests > 0;
    return !xfer->ended && (xfer->sent < xfer->length || xfer->requests == 0);
}

/* Put a transfer that has a frame to send on the ready list. */
static void na_emul_make_ready(struct na_emul_xfer *xfer)
{
    if (na_emul_has_frame(xfer) && hg_list_is_empty(&xfer->link))
        hg_list_push(&xfer->emul->ready, &xfer->link);
}

/* Whether its next frame may be sent. */
static bool na_emul_may_send(const struct na_emul_xfer *xfer)
{
    const struct na_emul_peer *peer = na_emul_peer_of(xfer->addr);
    na_size_t size = xfer->length - xfer->sent;

    if (size > xfer->emul->frame_size)
        size = xfer->emul->frame_size;
    return !xfer->origin ||
        (peer->requests < NA_EMUL_REQUESTS_MAX &&
            size <= xfer->emul->window - peer->outstanding);
}

/* Make the first parked transfer ready, if its frame may be sent. Once it was
 * sent, or has ended, the next one follows: each answer costs the same, however
 * many are parked. */
static void na_emul_wake(struct na_emul_peer *peer)
{
    struct na_emul_xfer *xfer;

    if (hg_list_is_empty(&peer->parked))
        return;
    xfer = HG_CONTAINER_OF(peer->parked.next, struct na_emul_xfer, link);
    HG_ASSERT(hg_is_inside(na_emul_lock(xfer->emul)));
    HG_ASSERT(xfer->origin && na_emul_has_frame(xfer));
    if (!na_emul_may_send(xfer))
        return;
    hg_list_remove(&xfer->link);
    na_emul_make_ready(xfer);
}

/* Set the transfer's result; the first one counts. The transfer may be freed on
 * return. */
static void na_emul_end(struct na_emul_xfer *xfer, na_return_t status)
{
    if (xfer->ended)
        return;
    xfer->ended = true;
    xfer->status = status;
    if (xfer->origin && !hg_list_is_empty(&xfer->link)) {
        hg_list_remove(&xfer->link);
        na_emul_wake(na_emul_peer_of(xfer->addr));
    }
    na_emul_make_ready(xfer);
    na_emul_check(xfer);
}

/* Uncount `requests` requests of an initiator with `size` bytes in all. */
static void na_emul_uncount(
    struct na_emul_xfer *xfer, uint32_t requests, na_size_t size)
{
    struct na_emul_peer *peer = na_emul_peer_of(xfer->addr);

    HG_ASSERT(
        xfer->requests >= requests && xfer->sent - xfer->answered >= size);
    HG_ASSERT(peer->requests >= requests && peer->outstanding >= size);
    xfer->requests -= requests;
    xfer->answered += size;
    peer->requests -= requests;
    peer->outstanding -= size;
    na_emul_wake(peer);
}

/* A target's transfer was answered completely. */
static void na_emul_answered(struct na_emul_xfer *xfer)
{
    na_emul_peer_of(xfer->addr)->answers -= xfer->requests;
    xfer->requests = 0;
}

/* End the transfer with `ret` if it has not ended; send nothing, and do not
 * wait for answers. */
static void na_emul_drop(struct na_emul_xfer *xfer, na_return_t ret)
{
    if (xfer->origin)
        na_emul_uncount(xfer, xfer->requests, xfer->sent - xfer->answered);
    else
        na_emul_answered(xfer);
    hg_list_remove(&xfer->link);
    if (xfer->ended)
        na_emul_check(xfer);
    else
        na_emul_end(xfer, ret);
}

/* ---- Sending ---- */

/* A frame being composed. */
struct na_emul_plan {
    struct na_emul_wire wire;
    const void *data;
    na_size_t size;
    struct na_cursor cursor;    /* after the data */
    void (*release)(void *arg); /* for the transport to call */
    void *arg;
};

/* Maximum of bytes for the next frame of data. One request may use the whole
 * window. */
static na_size_t na_emul_piece(const struct na_emul_xfer *xfer)
{
    na_size_t size = xfer->emul->frame_size;

    if (xfer->origin && !xfer->sends)
        size = xfer->emul->window - na_emul_peer_of(xfer->addr)->outstanding;
    return size < xfer->length - xfer->sent ? size : xfer->length - xfer->sent;
}

/* Add up to `size` bytes of data to the plan. A long run, or the last one, is
 * sent in place; short ones are copied together. NA_NOMEM; NA_FAULT: the memory
 * cannot be read. */
static na_return_t na_emul_load(
    struct na_emul_xfer *xfer, struct na_emul_plan *plan, na_size_t size)
{
    const struct na_core *core = xfer->emul->na_class->core;
    na_size_t run;

    (void) na_cursor_run(&plan->cursor, UINT64_MAX, &run);
    if (run >= NA_EMUL_PIECE || run >= xfer->length - xfer->sent) {
        atomic_fetch_add(&xfer->pins, 1);
        plan->arg = xfer;
        plan->release = na_emul_unpin;
        plan->data = na_cursor_run(&plan->cursor, size, &plan->size);
        na_cursor_advance(&plan->cursor, plan->size);
        if (!hg_fault_can_read(plan->data, (size_t) plan->size))
            return na_rma_fault(plan->size, false);
    } else {
        if (size > NA_EMUL_GATHER_MAX)
            size = NA_EMUL_GATHER_MAX;
        plan->arg = hg_mem_alloc((size_t) size);
        if (plan->arg == NULL)
            return NA_NOMEM;
        plan->data = plan->arg;
        plan->size =
            na_cursor_gather(&plan->cursor, plan->arg, size, NA_EMUL_PIECE);
        if (plan->size == 0)
            return na_rma_fault(run, false);
        core->count(
            xfer->emul->na_class, "rma_bytes_copied_source", plan->size);
    }
    HG_ASSERT(plan->size > 0);
    if (xfer->sums)
        plan->wire.sum = hg_crc64_update(0, plan->data, (size_t) plan->size);
    return NA_SUCCESS;
}

/* Compose the next frame. NA_NOMEM, NA_FAULT. */
static na_return_t na_emul_make(
    struct na_emul_xfer *xfer, struct na_emul_plan *plan)
{
    struct na_emul_wire *wire = &plan->wire;
    na_return_t ret = NA_SUCCESS;

    memset(plan, 0, sizeof(*plan));
    plan->release = hg_mem_free; /* no effect without data */
    plan->cursor = xfer->cursor;
    wire->offset = xfer->offset + xfer->sent;
    wire->length = na_emul_piece(xfer);
    if (xfer->sends && !xfer->ended && wire->length > 0) {
        ret = na_emul_load(xfer, plan, wire->length);
        wire->length = plan->size;
    } else if (xfer->ended) { /* one answer for the rest */
        wire->length = xfer->length - xfer->sent;
    }
    wire->flags = xfer->sums ? NA_EMUL_WIRE_SUM : 0;
    if (xfer->origin) {
        wire->type = xfer->sends ? NA_EMUL_WIRE_PUT : NA_EMUL_WIRE_GET;
        wire->id = xfer->id;
        wire->key = xfer->op->remote->key;
    } else {
        wire->type = NA_EMUL_WIRE_ANSWER;
        wire->id = xfer->asked;
        wire->status = (uint16_t) xfer->status;
        if (xfer->sent + wire->length < xfer->length)
            wire->flags |= NA_EMUL_WIRE_MORE;
    }
    return ret;
}

/* The transport accepted the frame. */
static void na_emul_sent(
    struct na_emul_xfer *xfer, const struct na_emul_plan *plan)
{
    struct na_emul_peer *peer = na_emul_peer_of(xfer->addr);
    struct na_class *na_class = xfer->emul->na_class;

    if (plan->size > 0) {
        na_class->core->count(na_class, "rma_frames", 1);
        na_class->core->count(na_class, "rma_bytes_sent", plan->size);
    }
    if (!na_emul_has_frame(xfer))
        return; /* the connection ended meanwhile */
    xfer->cursor = plan->cursor;
    xfer->sent += plan->wire.length;
    if (xfer->origin) {
        xfer->requests++;
        peer->requests++;
        peer->outstanding += plan->wire.length;
        na_op_core_of(xfer->op)->handed = xfer->sends &&
            xfer->sent == xfer->length &&
            (na_class_ops(na_class)->caps & NA_CAP_FRAMES_FIRST) != 0;
        na_emul_wake(peer);
    } else if ((plan->wire.flags & NA_EMUL_WIRE_MORE) == 0) {
        na_emul_answered(xfer);
        na_emul_end(xfer, NA_SUCCESS);
    }
    na_emul_make_ready(xfer);
}

/* The transport did not accept the frame, with the error `ret`. If there is no
 * memory for the data of an answer, or it cannot be read, the request is
 * refused. False: retry later. */
static bool na_emul_unsent(struct na_emul_xfer *xfer, na_return_t ret)
{
    if ((ret == NA_NOMEM || ret == NA_FAULT) && !xfer->origin)
        na_emul_end(xfer, ret);
    else if (ret != NA_AGAIN)
        na_emul_drop(xfer, ret);
    if (!na_emul_has_frame(xfer) || !hg_list_is_empty(&xfer->link))
        return true;
    hg_list_push(&xfer->emul->stalled, &xfer->link);
    return false;
}

/* Send the next frame of a transfer that is on no list. Returns whether
 * anything changed. The transfer may be freed on return. */
static bool na_emul_send(struct na_emul_xfer *xfer)
{
    const struct na_plugin *ops = na_class_ops(xfer->emul->na_class);
    unsigned char header[NA_EMUL_WIRE_SIZE];
    struct na_emul_plan plan;
    bool changed = true;
    na_return_t ret;

    HG_ASSERT(na_emul_has_frame(xfer) && hg_list_is_empty(&xfer->link));
    HG_ASSERT(hg_is_inside(na_emul_lock(xfer->emul)));
    if (!na_emul_may_send(xfer)) {
        hg_list_push(&na_emul_peer_of(xfer->addr)->parked, &xfer->link);
        return false;
    }
    /* Keeps it until the end of this function. */
    atomic_fetch_add(&xfer->pins, 1);
    ret = na_emul_make(xfer, &plan);
    na_emul_wire_encode(&plan.wire, header);
    if (ret == NA_SUCCESS)
        ret = ops->frame_send(xfer->addr, header, sizeof(header), plan.data,
            (size_t) plan.size, plan.release, plan.arg);
    if (ret == NA_SUCCESS) {
        na_emul_sent(xfer, &plan);
    } else {
        plan.release(plan.arg);
        changed = na_emul_unsent(xfer, ret);
    }
    atomic_fetch_sub(&xfer->pins, 1);
    na_emul_check(xfer);
    return changed;
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
    if (hg_fault_open() != HG_SUCCESS) {
        hg_mem_free(emul);
        return NULL;
    }
    if (frame < NA_EMUL_FRAME_MIN)
        frame = NA_EMUL_FRAME_MIN;
    if (window < frame)
        window = frame;
    emul->na_class = na_class;
    emul->frame_size = frame;
    emul->window = window;
    hg_list_init(&emul->ready);
    hg_list_init(&emul->stalled);
    hg_list_init(&emul->touched);
    hg_map_init(&emul->regs);
    hg_map_init(&emul->xfers);
    return emul;
}

/* Free withdrawn memory that the transport no longer moves; with `closed` it
 * moves none. */
static void na_emul_untouch(struct na_emul *emul, bool closed)
{
    struct na_link *link = emul->touched.next;

    while (link != &emul->touched) {
        struct na_mem_core *mem =
            HG_CONTAINER_OF(link, struct na_mem_core, link);

        link = link->next;
        if (closed || !na_class_ops(emul->na_class)->mem_retract(&mem->pub)) {
            hg_list_remove(&mem->link);
            na_emul_unref_mem(mem);
        }
    }
}

HG_PRIVATE void na_emul_destroy(struct na_emul *emul)
{
    struct na_emul_xfer *xfer;
    size_t cursor = 0;

    hg_enter(na_emul_lock(emul));
    na_emul_untouch(emul, true);
    while ((xfer = na_emul_next(emul, &cursor)) != NULL)
        na_emul_drop(xfer, NA_CANCELED);
    hg_leave(na_emul_lock(emul));
    HG_ASSERT(emul->xfers.count == 0);
    hg_map_fini(&emul->xfers);
    hg_map_fini(&emul->regs);
    hg_fault_close();
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

/* Whether a transfer uses registered memory `mem`, or belongs to an operation
 * of `context`, or has the local side `mem`. */
static bool na_emul_uses(const struct na_emul_xfer *xfer,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    if (xfer->op != NULL &&
        (xfer->op->context == context || xfer->op->local == mem))
        return true;
    return xfer->mem != NULL && &xfer->mem->pub == mem;
}

/* End a connection. */
static void na_emul_abandon(struct na_addr *addr, const char *why)
{
    if (!na_addr_is_dead(addr))
        hg_log_warning(
            "rma", "closing the connection to %s: %s", na_emul_name(addr), why);
    na_addr_ref(addr);
    na_addr_abandon(addr);
    na_addr_unref_locked(addr);
}

/* End matching transfers with `status`; returns whether the transport has
 * frames of one. If it is `late`, the connection to the peer of that one is
 * ended. */
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
        /* The transport may release the other pins. */
        atomic_fetch_add(&xfer->pins, 1);
        na_emul_end(xfer, status);
        held = atomic_load(&xfer->pins) > 1;
        if (held && late && !xfer->abandoned && !xfer->addr->self) {
            xfer->abandoned = true;
            na_emul_abandon(xfer->addr,
                "it does not read the data of memory that is being withdrawn");
            cursor = 0; /* any other transfer may have been freed */
        }
        na_emul_unpin(xfer);
        used = used || held;
    }
    (void) na_emul_collect(emul);
    return used;
}

/* End matching transfers, and wait until none of them uses memory. The
 * transport may hold a frame of them, and perhaps no thread polls, so the
 * transport is asked to release frames. */
static void na_emul_end_users(struct na_emul *emul,
    const struct na_context *context, const struct na_mem_handle *mem,
    na_return_t status)
{
    uint64_t deadline = hg_clock_after_ms(NA_EMUL_RECALL_MS);
    struct timespec nap = {0, 50000};

    while (na_emul_end_some(
        emul, context, mem, status, hg_clock_is_past(deadline))) {
        hg_leave(na_emul_lock(emul));
        (void) nanosleep(&nap, NULL);
        na_class_ops(emul->na_class)->reclaim(emul->na_class);
        hg_enter(na_emul_lock(emul));
        if (nap.tv_nsec < 1000000)
            nap.tv_nsec *= 2;
    }
}

/* ---- Registrations ---- */

HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *handle)
{
    struct na_emul *emul = na_class_emul(handle->na_class);
    struct na_mem_core *mem = na_mem_core_of(handle);

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    mem->refs = 1;
    return hg_map_add(&emul->regs, mem, &handle->key);
}

HG_PRIVATE const struct na_mem_handle *na_emul_mem_find(
    const struct na_mem_handle *remote)
{
    const struct na_emul *emul = na_class_emul(remote->na_class);
    const struct na_mem_core *mem =
        (const struct na_mem_core *) hg_map_get(&emul->regs, remote->key);

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    return mem != NULL ? &mem->pub : NULL;
}

/* Peers no longer find the memory. */
static void na_emul_forget(struct na_emul *emul, struct na_mem_core *mem)
{
    const void *known = hg_map_remove(&emul->regs, mem->pub.key);

    HG_ASSERT(known == mem && mem->refs > 0);
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
    HG_ASSERT(mem->refs == 1);
    na_emul_unref_mem(mem);
    na_emul_wake_progress(emul);
    hg_leave(na_emul_lock(emul));
    handle->key = 0;
}

/* Whether the transport moves memory itself, too, and hands over what it cannot
 * move. */
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
        na_rma_delete(handle); /* deregisters, too */
        return false;
    }
    hg_enter(na_emul_lock(emul));
    touched = na_emul_shares(handle->na_class) &&
        na_class_ops(handle->na_class)->mem_retract(handle);
    na_emul_forget(emul, mem);
    while (mem->refs > 1 && (xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->mem == mem)
            na_emul_end(xfer, NA_NOENTRY);
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
        /* A sleeping thread must recompute its deadline. */
        core->wake(handle->na_class);
    } else {
        na_emul_unref_mem(mem);
    }
    na_emul_wake_progress(emul);
    hg_leave(na_emul_lock(emul));
    if (!used)
        na_rma_delete(handle);
    return used;
}

HG_PRIVATE uint64_t na_emul_lingering(const struct na_addr *user)
{
    return atomic_load(&na_addr_core_of(user)->lingering);
}

/* ---- Operations ---- */

/* Whether a request may be served, and the memory it accesses. */
static na_return_t na_emul_check_request(const struct na_emul *emul,
    const struct na_emul_wire *wire, struct na_mem_core **mem_p)
{
    struct na_mem_core *mem =
        (struct na_mem_core *) hg_map_get(&emul->regs, wire->key);
    unsigned long needs =
        wire->type == NA_EMUL_WIRE_GET ? NA_MEM_READ_ONLY : NA_MEM_WRITE_ONLY;

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

/* Execute an operation on memory of this class. A long copy is made without the
 * lock. */
static void na_emul_copy(struct na_emul_xfer *xfer)
{
    struct hg_monitor *lock = na_emul_lock(xfer->emul);
    const struct na_op *op = xfer->op;
    bool leaves = op->size > NA_EMUL_PIECE;
    struct na_mem_core *mem = NULL;
    struct na_emul_wire wire;
    na_return_t ret;

    memset(&wire, 0, sizeof(wire));
    wire.type = xfer->sends ? NA_EMUL_WIRE_PUT : NA_EMUL_WIRE_GET;
    wire.key = op->remote->key;
    wire.offset = op->remote_offset;
    wire.length = op->size;
    ret = na_emul_check_request(xfer->emul, &wire, &mem);
    if (ret != NA_SUCCESS) {
        xfer->emul->na_class->core->count(
            xfer->emul->na_class, "rma_refused", 1);
        na_emul_end(xfer, ret);
        return;
    }
    xfer->mem = mem;
    mem->refs++;
    atomic_fetch_add(&xfer->pins, 1);
    if (leaves)
        hg_leave(lock);
    if (xfer->sends)
        na_rma_copy(&mem->pub, op->remote_offset, op->local, op->local_offset,
            op->size);
    else
        na_rma_copy(op->local, op->local_offset, &mem->pub, op->remote_offset,
            op->size);
    if (leaves)
        hg_enter(lock);
    na_emul_end(xfer, NA_SUCCESS);
    atomic_fetch_sub(&xfer->pins, 1);
    na_emul_check(xfer);
}

/* Start an operation. When its transfer exists, errors are reported by
 * completing it. The first frame is sent at once. */
static na_return_t na_emul_start(struct na_op *op, bool sends)
{
    struct na_emul *emul = na_class_emul(op->context->na_class);
    struct na_emul_xfer *xfer;
    na_return_t ret;

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    ret = na_addr_state(op->addr);
    if (ret != NA_SUCCESS)
        return ret;
    xfer = na_emul_xfer_new(emul, op->addr, true);
    if (xfer == NULL) {
        hg_log_error("rma", "no memory for a transfer");
        return NA_NOMEM;
    }
    HG_ASSERT(op->local_offset <= op->local->size &&
        op->size <= op->local->size - op->local_offset);
    xfer->op = op;
    xfer->offset = op->remote_offset;
    xfer->length = op->size;
    xfer->sends = sends;
    xfer->sums = emul->sums;
    na_cursor_init(&xfer->cursor, op->local, op->local_offset);
    if (op->addr->self)
        na_emul_copy(xfer);
    else
        (void) na_emul_send(xfer);

    na_emul_wake_progress(emul);
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
    struct na_emul_xfer *xfer;
    na_return_t ret = NA_NOENTRY;
    size_t cursor = 0;

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    while ((xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->op == op && !xfer->ended && na_op_id_of(op) == op_id) {
            na_emul_end(xfer, NA_CANCELED);
            ret = NA_SUCCESS;
            break;
        }
    }
    na_emul_wake_progress(emul);
    return ret;
}

HG_PRIVATE void na_emul_context_gone(struct na_context *context)
{
    struct na_emul *emul = na_class_emul(context->na_class);

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    na_emul_end_users(emul, context, NULL, NA_CANCELED);
    na_emul_wake_progress(emul);
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
    na_emul_wake_progress(emul);
    hg_leave(na_emul_lock(emul));
}

HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_emul *emul = na_class_emul(addr->na_class);
    struct na_emul_xfer *xfer;
    size_t cursor = 0;

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    while ((xfer = na_emul_next(emul, &cursor)) != NULL) {
        if (xfer->addr == addr)
            na_emul_drop(xfer, ret);
    }
    na_emul_wake_progress(emul);
}

/* ---- What arrives: each function returns what to count, or NULL ---- */

/* The address of `size` bytes at an offset, if they are contiguous; else NULL.
 * The range was checked. */
static char *na_emul_spot(
    const struct na_mem_handle *mem, na_offset_t offset, na_size_t size)
{
    struct na_cursor cursor;
    na_size_t run = 0;
    char *spot;

    if (size == 0)
        return NULL;
    na_cursor_init(&cursor, mem, offset);
    spot = na_cursor_run(&cursor, size, &run);
    return run == size ? spot : NULL;
}

/* Copy data to its destination, unless the transport received it there.
 * NA_CHECKSUM_ERROR: it differs from what was sent; NA_FAULT: the destination
 * cannot be written. */
static na_return_t na_emul_store(const struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, const struct na_mem_handle *mem,
    na_offset_t offset, const void *data)
{
    struct na_cursor cursor;
    uint64_t sum = wire->sum;

    if (xfer->sums)
        sum = hg_crc64_update(0, data, (size_t) wire->length);
    if (sum != wire->sum) {
        hg_log_warning("rma",
            "%" PRIu64
            " bytes from %s were damaged in transit: CRC64 %016" PRIx64
            " instead of %016" PRIx64,
            wire->length, na_emul_name(xfer->addr), sum, wire->sum);
        return NA_CHECKSUM_ERROR;
    }
    if (wire->length > 0 && na_emul_spot(mem, offset, wire->length) != data) {
        na_cursor_init(&cursor, mem, offset);
        if (!na_cursor_scatter(&cursor, data, wire->length))
            return na_rma_fault(wire->length, true);
    }
    return NA_SUCCESS;
}

static const char *na_emul_requested(struct na_emul *emul,
    struct na_addr *source, const struct na_emul_wire *wire, const void *data)
{
    struct na_emul_peer *peer = na_emul_peer_of(source);
    struct na_emul_xfer *xfer = NULL;
    struct na_mem_core *mem;
    na_return_t ret;

    if (na_addr_state(source) != NA_SUCCESS)
        return "rma_stale"; /* the peer died meanwhile */
    if (peer->answers < NA_EMUL_ANSWERS_MAX)
        xfer = na_emul_xfer_new(emul, source, false);
    if (xfer == NULL) {
        na_emul_abandon(source,
            "its request cannot be answered: too many wait, or there is no "
            "memory");
        return "rma_dropped";
    }
    peer->answers++;
    xfer->requests = 1;
    xfer->asked = wire->id;
    xfer->offset = wire->offset;
    xfer->length = wire->length;
    xfer->sums = (wire->flags & NA_EMUL_WIRE_SUM) != 0;
    ret = na_emul_check_request(emul, wire, &mem);
    if (ret == NA_SUCCESS && wire->type == NA_EMUL_WIRE_GET) {
        xfer->sends = true;
        xfer->mem = mem;
        mem->refs++;
        na_cursor_init(&xfer->cursor, &mem->pub, wire->offset);
        na_emul_make_ready(xfer);
        return NULL;
    }
    if (ret == NA_SUCCESS)
        ret = na_emul_store(xfer, wire, &mem->pub, wire->offset, data);
    na_emul_end(xfer, ret);
    if (ret == NA_SUCCESS)
        return NULL;
    hg_log_debug(
        "rma", "refused a peer's request: %s", NA_Error_to_string(ret));
    return ret == NA_CHECKSUM_ERROR ? "rma_damaged" : "rma_refused";
}

/* The transfer that an answer belongs to; NULL: there is none, or the answer
 * comes from another peer. */
static struct na_emul_xfer *na_emul_find(const struct na_emul *emul,
    const struct na_addr *source, const struct na_emul_wire *wire)
{
    struct na_emul_xfer *xfer =
        (struct na_emul_xfer *) hg_map_get(&emul->xfers, wire->id);

    return xfer != NULL && xfer->origin && xfer->addr == source &&
            xfer->requests > 0
        ? xfer
        : NULL;
}

/* Whether the data in an answer was requested. */
static bool na_emul_is_asked(
    const struct na_emul_xfer *xfer, const struct na_emul_wire *wire)
{
    return !xfer->sends && wire->status == NA_SUCCESS &&
        wire->offset >= xfer->offset &&
        wire->offset - xfer->offset <= xfer->sent &&
        wire->length <= xfer->sent - (wire->offset - xfer->offset);
}

/* Whether a correct peer could send this answer. */
static bool na_emul_is_answer(const struct na_emul_xfer *xfer,
    const struct na_emul_wire *wire, size_t size)
{
    na_size_t left = xfer->sent - xfer->answered;
    bool more = (wire->flags & NA_EMUL_WIRE_MORE) != 0;
    bool sum = (wire->flags & NA_EMUL_WIRE_SUM) != 0;

    if (wire->length > left ||
        (!more && xfer->requests == 1 && wire->length < left))
        return false;
    switch (wire->status) {
    case NA_SUCCESS:
        if (xfer->sends)
            return size == 0;
        return size == wire->length && na_emul_is_asked(xfer, wire) &&
            (sum == xfer->sums || size == 0);
    case NA_PERMISSION:
    case NA_NOENTRY:
    case NA_NOMEM:
    case NA_FAULT:
    case NA_OVERFLOW:
    case NA_CHECKSUM_ERROR: return size == 0 && !more;
    default: return false;
    }
}

static const char *na_emul_result(struct na_emul *emul,
    const struct na_addr *source, const struct na_emul_wire *wire,
    const void *data, size_t size)
{
    struct na_emul_xfer *xfer = na_emul_find(emul, source, wire);
    na_return_t ret = wire->status;

    if (xfer == NULL)
        return "rma_stale";
    if (!na_emul_is_answer(xfer, wire, size)) {
        hg_log_warning("rma",
            "%s violated the protocol in a transfer of %" PRIu64 " bytes",
            na_emul_name(source), xfer->length);
        na_emul_drop(xfer, NA_PROTOCOL_ERROR);
        return "rma_malformed";
    }
    if (!xfer->ended && size > 0)
        ret = na_emul_store(xfer, wire, xfer->op->local,
            xfer->op->local_offset + (wire->offset - xfer->offset), data);
    na_emul_uncount(
        xfer, (wire->flags & NA_EMUL_WIRE_MORE) == 0 ? 1 : 0, wire->length);
    if (xfer->ended)
        na_emul_check(xfer);
    else if (ret != NA_SUCCESS ||
        (xfer->requests == 0 && xfer->sent == xfer->length))
        na_emul_end(xfer, ret);
    else
        na_emul_make_ready(xfer);
    return ret == NA_CHECKSUM_ERROR && size > 0 ? "rma_damaged" : NULL;
}

HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size)
{
    struct na_emul *emul = na_class_emul(na_class);
    const char *wrong = "rma_malformed";
    struct na_emul_wire wire;

    HG_ASSERT(emul != NULL && source->na_class == na_class);
    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    if (na_emul_wire_decode(header, header_size, size, &wire) == NA_SUCCESS)
        wrong = wire.type == NA_EMUL_WIRE_ANSWER
            ? na_emul_result(emul, source, &wire, data, size)
            : na_emul_requested(emul, source, &wire, data);
    if (wrong != NULL)
        na_class->core->count(na_class, wrong, 1);
}

HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p)
{
    struct na_emul *emul = na_class_emul(na_class);
    struct na_emul_xfer *xfer = NULL;
    struct na_mem_core *mem = NULL;
    struct na_emul_wire wire;
    char *spot = NULL;

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    if (size == 0 ||
        na_emul_wire_decode(header, header_size, size, &wire) != NA_SUCCESS)
        return NULL;
    if (wire.type == NA_EMUL_WIRE_ANSWER) {
        xfer = na_emul_find(emul, source, &wire);
        if (xfer != NULL && !xfer->ended && na_emul_is_asked(xfer, &wire))
            spot = na_emul_spot(xfer->op->local,
                xfer->op->local_offset + (wire.offset - xfer->offset), size);
    } else if (na_emul_check_request(emul, &wire, &mem) == NA_SUCCESS) {
        spot = na_emul_spot(&mem->pub, wire.offset, size);
    }
    if (spot == NULL || !hg_fault_can_write(spot, size))
        return NULL;
    if (mem != NULL)
        xfer = na_emul_xfer_new(emul, source, false);
    if (xfer == NULL)
        return NULL;
    if (mem != NULL) { /* a transfer that only holds the memory */
        xfer->mem = mem;
        mem->refs++;
        xfer->ended = true;
    }
    atomic_fetch_add(&xfer->pins, 1);
    *place_p = xfer;
    return spot;
}

HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place)
{
    (void) na_class;
    na_emul_unpin(place);
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

    HG_ASSERT(hg_is_inside(na_emul_lock(emul)));
    if (HG_LIKELY(na_emul_is_idle(emul)))
        return 0;
    emul->look_at = hg_clock_after_ms(NA_EMUL_LOOK_MS);
    n = na_emul_collect(emul);
    na_emul_untouch(emul, false);
    hg_list_splice(&emul->ready, &emul->stalled);
    while (n < NA_EMUL_BURST && (link = hg_list_pop(&emul->ready)) != NULL) {
        if (na_emul_send(HG_CONTAINER_OF(link, struct na_emul_xfer, link)))
            n++;
    }
    return n;
}

HG_PRIVATE uint64_t na_emul_due(const struct na_emul *emul)
{
    if (na_emul_is_idle(emul))
        return HG_CLOCK_NEVER;
    return !hg_list_is_empty(&emul->ready) || atomic_load(&emul->unpinned)
        ? 0
        : emul->look_at;
}
