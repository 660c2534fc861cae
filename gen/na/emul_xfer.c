/* SPDX-License-Identifier: BSD-3-Clause */
/* emul_xfer: see emul_xfer.h. */
#include "na/emul_xfer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/rma.h"

#define NA_EMUL_XFER_KEEP 256 /* free objects of each kind, at most */
#define NA_EMUL_XFER_GATHER 8 /* free buffers of gather_size, at most */

/* ---- Peers ---- */

static size_t na_emul_xfer_hash(uint64_t number)
{
    return (size_t) (number ^ number >> 6 ^ number >> 12) % NA_EMUL_BUCKETS;
}

HG_PRIVATE struct na_emul_peer *na_emul_xfer_find_peer(
    const struct na_emul *emul, const struct na_addr *addr)
{
    const struct na_link *bucket =
        &emul->peers[na_emul_xfer_hash((uintptr_t) addr >> 4)];
    struct na_link *link;

    for (link = bucket->next; link != bucket; link = link->next) {
        struct na_emul_peer *peer =
            HG_CONTAINER_OF(link, struct na_emul_peer, link);

        if (peer->addr == addr)
            return peer;
    }
    return NULL;
}

static struct na_emul_peer *na_emul_xfer_new_peer(
    struct na_emul *emul, struct na_addr *addr)
{
    bool fresh;
    struct na_emul_peer *peer =
        (struct na_emul_peer *) hg_pool_get(&emul->peer_pool, &fresh);
    size_t i;

    if (peer == NULL)
        return NULL;
    if (fresh) {
        hg_list_init(&peer->xfers);
        hg_list_init(&peer->parked);
        hg_list_init(&peer->waiting);
        for (i = 0; i < NA_EMUL_BUCKETS; i++)
            hg_list_init(&peer->targets[i]);
    }
    assert(hg_list_is_empty(&peer->xfers));
    assert(peer->origin_count == 0 && peer->target_count == 0);
    assert(peer->outstanding == 0 && peer->gathered == 0);
    hg_list_init(&peer->link);
    hg_list_push(
        &emul->peers[na_emul_xfer_hash((uintptr_t) addr >> 4)], &peer->link);
    emul->na_class->core->addr_ref(addr);
    peer->addr = addr;
    peer->gather_wanted = false;
    return peer;
}

/* Drop a peer without transfers. Returns its address, whose reference the
 * caller drops once it has left the lock. */
static struct na_addr *na_emul_xfer_drop_peer(
    struct na_emul *emul, struct na_emul_peer *peer)
{
    struct na_addr *addr = peer->addr;

    assert(hg_list_is_empty(&peer->parked));
    assert(hg_list_is_empty(&peer->waiting));
    hg_list_remove(&peer->link);
    peer->addr = NULL;
    hg_pool_put(&emul->peer_pool, peer);
    return addr;
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_find_target(
    const struct na_emul_peer *peer, uint64_t id)
{
    const struct na_link *bucket = &peer->targets[na_emul_xfer_hash(id)];
    struct na_link *link;

    for (link = bucket->next; link != bucket; link = link->next) {
        struct na_emul_xfer *xfer =
            HG_CONTAINER_OF(link, struct na_emul_xfer, in_bucket);

        if (xfer->id == id)
            return xfer;
    }
    return NULL;
}

HG_PRIVATE void na_emul_xfer_unpark(struct na_emul_peer *peer)
{
    struct na_link *link;

    peer->gather_wanted = false;
    while ((link = hg_list_pop(&peer->parked)) != NULL)
        na_emul_xfer_kick(HG_CONTAINER_OF(link, struct na_emul_xfer, link));
}

/* ---- Frames and copies ---- */

static void na_emul_xfer_free_buf(void *object)
{
    struct na_emul_frame *frame = (struct na_emul_frame *) object;

    hg_mem_free(frame->buf);
}

/* A frame or copy is done with its memory: that of `reg`, or of an operation
 * where that is NULL. */
static void na_emul_xfer_unpin(struct na_emul *emul, struct na_emul_reg *reg)
{
    if (reg != NULL) {
        assert(reg->pins > 0);
        reg->pins--;
        if (reg->pins == 0 && reg->user != NULL)
            hg_list_push(&emul->buried, &reg->in_buried);
    }
    if (emul->waiters > 0)
        pthread_cond_broadcast(&emul->cond);
}

HG_PRIVATE void na_emul_xfer_give_up(struct na_emul *emul,
    struct na_emul_reg *reg, void *buf, struct na_addr *user)
{
    assert(reg->pins > 0 && reg->user == NULL && user != NULL);
    assert(hg_list_is_empty(&reg->xfers));
    emul->na_class->core->addr_ref(user);
    reg->user = user;
    reg->buf = buf;
    atomic_fetch_add(&na_addr_core_of(user)->lingering, reg->mem->size);
    atomic_fetch_add_explicit(&emul->active, 1, memory_order_relaxed);
}

HG_PRIVATE void na_emul_xfer_touch(
    struct na_emul *emul, struct na_emul_reg *reg)
{
    reg->pins++;
    hg_list_push(&emul->touched, &reg->in_buried);
    emul->touched_at = hg_clock_after_ms(NA_EMUL_TOUCH_MS);
    emul->na_class->core->count(emul->na_class, "rma_touched", 1);
}

HG_PRIVATE uint64_t na_emul_xfer_touch_due(const struct na_emul *emul)
{
    return hg_list_is_empty(&emul->touched) ? HG_CLOCK_NEVER : emul->touched_at;
}

HG_PRIVATE void na_emul_xfer_untouch(struct na_emul *emul, bool closed)
{
    struct na_link asked, *link;

    if (!closed && na_emul_xfer_touch_due(emul) > hg_clock_now())
        return;
    hg_list_init(&asked);
    hg_list_splice(&asked, &emul->touched);
    emul->touched_at = hg_clock_after_ms(NA_EMUL_TOUCH_MS);
    while ((link = hg_list_pop(&asked)) != NULL) {
        struct na_emul_reg *reg =
            HG_CONTAINER_OF(link, struct na_emul_reg, in_buried);
        bool touched = false;

        if (!closed) {
            hg_unlock(&emul->lock);
            touched =
                na_class_ops(emul->na_class)->mem_retract(reg->mem) != NA_FALSE;
            hg_lock(&emul->lock);
        }
        if (touched)
            hg_list_push(&emul->touched, link);
        else
            na_emul_xfer_unpin(emul, reg);
    }
}

HG_PRIVATE unsigned na_emul_xfer_bury(struct na_emul *emul)
{
    unsigned n = 0;
    struct na_link *link;

    while ((link = hg_list_pop(&emul->buried)) != NULL) {
        struct na_emul_reg *reg =
            HG_CONTAINER_OF(link, struct na_emul_reg, in_buried);

        atomic_fetch_sub_explicit(&emul->active, 1, memory_order_relaxed);
        hg_unlock(&emul->lock);
        atomic_fetch_sub(
            &na_addr_core_of(reg->user)->lingering, reg->mem->size);
        na_rma_delete(reg->mem);
        emul->na_class->core->addr_unref(reg->user);
        hg_mem_free(reg->buf);
        hg_mem_free(reg);
        n++;
        hg_lock(&emul->lock);
    }
    return n;
}

HG_PRIVATE struct na_emul_frame *na_emul_xfer_frame_get(
    struct na_emul_xfer *xfer, bool gather)
{
    struct na_emul *emul = xfer->emul;
    struct hg_pool *pool = gather ? &emul->gather_pool : &emul->frame_pool;
    bool fresh;
    struct na_emul_frame *frame =
        (struct na_emul_frame *) hg_pool_get(pool, &fresh);

    if (frame == NULL)
        return NULL;
    if (gather && frame->buf == NULL) {
        frame->buf = hg_mem_alloc(emul->gather_size);
        if (frame->buf == NULL) {
            hg_mem_free(frame);
            return NULL;
        }
    }
    assert((frame->buf != NULL) == gather);
    frame->xfer = xfer;
    frame->reg = gather ? NULL : xfer->reg;
    if (frame->reg != NULL)
        frame->reg->pins++;
    if (gather)
        xfer->peer->gathered += emul->gather_size;
    xfer->frames++;
    return frame;
}

HG_PRIVATE void na_emul_xfer_frame_put(struct na_emul_frame *frame)
{
    struct na_emul_xfer *xfer = frame->xfer;
    struct na_emul_peer *peer = xfer->peer;
    struct na_emul *emul = xfer->emul;

    assert(xfer->frames > 0);
    xfer->frames--;
    na_emul_xfer_unpin(emul, frame->reg);
    if (frame->buf != NULL) {
        assert(peer->gathered >= emul->gather_size);
        peer->gathered -= emul->gather_size;
        hg_pool_put(&emul->gather_pool, frame);
        if (peer->gather_wanted)
            na_emul_xfer_unpark(peer);
    } else {
        hg_pool_put(&emul->frame_pool, frame);
    }
    na_emul_xfer_check(xfer);
}

HG_PRIVATE void na_emul_xfer_copy_begin(struct na_emul_xfer *xfer)
{
    assert(!xfer->ended);
    xfer->copies++;
    if (xfer->reg != NULL)
        xfer->reg->pins++;
}

HG_PRIVATE void na_emul_xfer_copy_end(
    struct na_emul_xfer *xfer, struct na_emul_reg *reg)
{
    assert(xfer->copies > 0);
    xfer->copies--;
    na_emul_xfer_unpin(xfer->emul, reg);
}

HG_PRIVATE bool na_emul_xfer_wait(struct na_emul *emul, uint64_t deadline)
{
    bool in_time;

    emul->waiters++;
    in_time = hg_lock_wait_until(&emul->cond, &emul->lock, deadline);
    emul->waiters--;
    return in_time;
}

/* ---- Transfers ---- */

HG_PRIVATE void na_emul_xfer_setup(struct na_emul *emul)
{
    size_t i;

    for (i = 0; i < NA_EMUL_BUCKETS; i++)
        hg_list_init(&emul->peers[i]);
    hg_list_init(&emul->ready);
    hg_list_init(&emul->stalled);
    hg_list_init(&emul->done);
    hg_list_init(&emul->buried);
    hg_list_init(&emul->touched);
    hg_map_init(&emul->regs);
    hg_slots_init(&emul->origins);
    hg_pool_init(&emul->peer_pool, sizeof(struct na_emul_peer),
        offsetof(struct na_emul_peer, link), NA_EMUL_XFER_KEEP, NULL);
    hg_pool_init(&emul->xfer_pool, sizeof(struct na_emul_xfer),
        offsetof(struct na_emul_xfer, link), NA_EMUL_XFER_KEEP, NULL);
    hg_pool_init(&emul->frame_pool, sizeof(struct na_emul_frame),
        offsetof(struct na_emul_frame, xfer), NA_EMUL_XFER_KEEP, NULL);
    hg_pool_init(&emul->gather_pool, sizeof(struct na_emul_frame),
        offsetof(struct na_emul_frame, xfer), NA_EMUL_XFER_GATHER,
        na_emul_xfer_free_buf);
}

/* Set every member of a transfer that has its peer. */
static void na_emul_xfer_reset(struct na_emul_xfer *xfer,
    struct na_emul_peer *peer, bool origin, bool sends, na_size_t length,
    struct na_emul *emul)
{
    memset(xfer, 0, sizeof(*xfer));
    hg_list_init(&xfer->link);
    hg_list_init(&xfer->in_peer);
    hg_list_init(&xfer->in_bucket);
    hg_list_init(&xfer->in_reg);
    hg_list_init(&xfer->in_done);
    xfer->emul = emul;
    xfer->peer = peer;
    xfer->length = length;
    xfer->window = emul->window;
    xfer->origin = origin;
    xfer->sends = sends;
    xfer->windowed = length > NA_EMUL_SMALL;
    hg_list_push(&peer->xfers, &xfer->in_peer);
}

HG_PRIVATE struct na_emul_xfer *na_emul_xfer_new(struct na_emul *emul,
    struct na_addr *addr, bool origin, bool sends, na_size_t length,
    uint64_t id)
{
    struct na_emul_peer *peer = na_emul_xfer_find_peer(emul, addr);
    struct na_emul_xfer *xfer;
    bool fresh;

    xfer = (struct na_emul_xfer *) hg_pool_get(&emul->xfer_pool, &fresh);
    if (xfer == NULL)
        return NULL;
    if (origin && hg_slots_add(&emul->origins, xfer, &id) != HG_SUCCESS)
        goto put_xfer;
    if (peer == NULL) {
        peer = na_emul_xfer_new_peer(emul, addr);
        if (peer == NULL)
            goto remove_id;
    }
    na_emul_xfer_reset(xfer, peer, origin, sends, length, emul);
    xfer->id = id;
    if (origin) {
        xfer->owed = NA_EMUL_OWED_REQ;
    } else {
        hg_list_push(&peer->targets[na_emul_xfer_hash(id)], &xfer->in_bucket);
        peer->target_count++;
    }
    atomic_fetch_add_explicit(&emul->active, 1, memory_order_relaxed);
    return xfer;

remove_id:
    if (origin)
        (void) hg_slots_remove(&emul->origins, id);
put_xfer:
    hg_pool_put(&emul->xfer_pool, xfer);
    return NULL;
}

/* Free a drained transfer. When its peer goes with it, returns the address
 * whose reference the caller drops outside the lock; NULL otherwise. */
static struct na_addr *na_emul_xfer_free(struct na_emul_xfer *xfer)
{
    struct na_emul *emul = xfer->emul;
    struct na_emul_peer *peer = xfer->peer;

    assert(xfer->op == NULL && xfer->frames == 0 && xfer->copies == 0);
    hg_list_remove(&xfer->link);
    hg_list_remove(&xfer->in_peer);
    hg_list_remove(&xfer->in_bucket);
    hg_list_remove(&xfer->in_reg);
    hg_list_remove(&xfer->in_done);
    if (!xfer->origin)
        peer->target_count--;
    hg_pool_put(&emul->xfer_pool, xfer);
    atomic_fetch_sub_explicit(&emul->active, 1, memory_order_relaxed);
    if (!hg_list_is_empty(&peer->xfers))
        return NULL;
    return na_emul_xfer_drop_peer(emul, peer);
}

HG_PRIVATE void na_emul_xfer_teardown(struct na_emul *emul)
{
    size_t i;

    for (i = 0; i < NA_EMUL_BUCKETS; i++) {
        while (!hg_list_is_empty(&emul->peers[i])) {
            struct na_emul_peer *peer =
                HG_CONTAINER_OF(emul->peers[i].next, struct na_emul_peer, link);
            struct na_addr *addr = NULL;

            while (addr == NULL)
                addr = na_emul_xfer_free(HG_CONTAINER_OF(
                    peer->xfers.next, struct na_emul_xfer, in_peer));
            emul->na_class->core->addr_unref(addr);
        }
    }
    for (i = 0; i < emul->unsaid_count; i++) {
        emul->na_class->core->addr_unref(emul->unsaid[i].addr);
        atomic_fetch_sub_explicit(&emul->active, 1, memory_order_relaxed);
    }
    assert(atomic_load(&emul->active) == 0);
    hg_pool_fini(&emul->peer_pool);
    hg_pool_fini(&emul->xfer_pool);
    hg_pool_fini(&emul->frame_pool);
    hg_pool_fini(&emul->gather_pool);
    hg_slots_fini(&emul->origins);
    hg_map_fini(&emul->regs);
}

HG_PRIVATE void na_emul_xfer_bind(
    struct na_emul_xfer *xfer, struct na_emul_reg *reg, na_offset_t offset)
{
    assert(!xfer->origin && xfer->reg == NULL);
    xfer->reg = reg;
    hg_list_push(&reg->xfers, &xfer->in_reg);
    na_cursor_init(&xfer->cursor, reg->mem, offset);
}

HG_PRIVATE void na_emul_xfer_start(struct na_emul_xfer *xfer)
{
    struct na_emul_peer *peer = xfer->peer;

    assert(xfer->origin && !xfer->started && !xfer->ended);
    if (peer->origin_count >= NA_EMUL_ORIGINS_MAX) {
        hg_list_push(&peer->waiting, &xfer->link);
        return;
    }
    peer->origin_count++;
    xfer->started = true;
    na_emul_xfer_kick(xfer);
}

HG_PRIVATE void na_emul_xfer_kick(struct na_emul_xfer *xfer)
{
    bool data = xfer->sends && !xfer->ended && xfer->moved < xfer->length;

    if ((data || xfer->owed != 0) && !xfer->busy &&
        hg_list_is_empty(&xfer->link))
        hg_list_push(&xfer->emul->ready, &xfer->link);
}

/* An initiator's transfer no longer counts: the next one may start. */
static void na_emul_xfer_start_next(struct na_emul_peer *peer)
{
    struct na_link *link;

    assert(peer->origin_count > 0);
    peer->origin_count--;
    link = hg_list_pop(&peer->waiting);
    if (link != NULL)
        na_emul_xfer_start(HG_CONTAINER_OF(link, struct na_emul_xfer, link));
}

HG_PRIVATE void na_emul_xfer_end(
    struct na_emul_xfer *xfer, na_return_t status, unsigned owed)
{
    struct na_emul_peer *peer = xfer->peer;

    if (xfer->ended)
        return;
    xfer->ended = true;
    xfer->status = status;
    xfer->owed = owed;
    hg_list_remove(&xfer->link);
    hg_list_remove(&xfer->in_bucket);
    hg_list_remove(&xfer->in_reg);
    xfer->reg = NULL;
    if (xfer->sends && xfer->windowed) {
        assert(peer->outstanding >= xfer->moved - xfer->acked);
        peer->outstanding -= xfer->moved - xfer->acked;
        na_emul_xfer_unpark(peer);
    }
    if (xfer->origin) {
        (void) hg_slots_remove(&xfer->emul->origins, xfer->id);
        if (xfer->started)
            na_emul_xfer_start_next(peer);
    }
    na_emul_xfer_kick(xfer);
    na_emul_xfer_check(xfer);
}

HG_PRIVATE void na_emul_xfer_fail(struct na_emul_xfer *xfer, na_return_t status)
{
    unsigned owed = NA_EMUL_OWED_DONE;

    if (xfer->origin)
        owed = (xfer->owed & NA_EMUL_OWED_REQ) != 0 ? 0 : NA_EMUL_OWED_ABORT;
    na_emul_xfer_end(xfer, status, owed);
}

HG_PRIVATE void na_emul_xfer_check(struct na_emul_xfer *xfer)
{
    if (!xfer->ended || xfer->frames > 0 || xfer->copies > 0 || xfer->busy)
        return;
    if (xfer->op == NULL && xfer->owed != 0)
        return;
    if (hg_list_is_empty(&xfer->in_done))
        hg_list_push(&xfer->emul->done, &xfer->in_done);
}

/* Complete operations and free transfers that are done, releasing the lock
 * around each. The number of them. */
static unsigned na_emul_xfer_settle(struct na_emul *emul)
{
    const struct na_core *core = emul->na_class->core;
    unsigned n = 0;
    struct na_link *link;

    while ((link = hg_list_pop(&emul->done)) != NULL) {
        struct na_emul_xfer *xfer =
            HG_CONTAINER_OF(link, struct na_emul_xfer, in_done);
        struct na_op *op = xfer->op;
        na_return_t status = xfer->status;
        struct na_addr *addr = NULL;

        xfer->op = NULL;
        if (xfer->owed == 0 && !xfer->busy)
            addr = na_emul_xfer_free(xfer);
        emul->completing++;
        hg_unlock(&emul->lock);
        if (op != NULL)
            core->complete(op, status);
        if (addr != NULL)
            core->addr_unref(addr);
        n++;
        hg_lock(&emul->lock);
        emul->completing--;
        if (emul->waiters > 0)
            pthread_cond_broadcast(&emul->cond);
    }
    return n;
}

HG_PRIVATE unsigned na_emul_xfer_leave(struct na_emul *emul)
{
    unsigned n = 0;

    /* Who adds to what is not empty wakes nobody: leave nothing behind. */
    do {
        n += na_emul_xfer_settle(emul);
        n += na_emul_xfer_bury(emul);
    } while (!hg_list_is_empty(&emul->done));
    hg_unlock(&emul->lock);
    return n;
}
