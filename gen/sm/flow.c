/* SPDX-License-Identifier: BSD-3-Clause */
/* flow: see flow.h. */
#include "sm/flow.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/log.h"
#include "emul/emul.h"
#include "na/msg.h"

#define NA_SM_FLOW_BATCH 64u /* maximum of records of one peer in one visit */
/* Visits without records before a hint is cleared. */
#define NA_SM_FLOW_IDLE 256u
/* Records of a dead peer: more than a ring holds. */
#define NA_SM_FLOW_LAST 16384u

/* ---- Out ---- */

/* Wake the peer if it sleeps, once for each sleep: it must consume the bell
 * before it sleeps again, with another number. */
static void na_sm_flow_ring(struct na_sm_addr *addr)
{
    uint64_t asleep = atomic_load(&addr->peer_public->asleep);

    if (HG_LIKELY(asleep == 0) || asleep == addr->rung)
        return;
    addr->rung = asleep;
    /* If the socket is full, enough bells are pending; the polling thread
     * notices a dead peer. */
    if (HG_LIKELY(addr->peer_bell >= 0))
        na_sm_bell_ring(addr->peer_bell);
    else
        (void) send(addr->fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Notify the peer that something was published. */
static void na_sm_flow_notify(struct na_sm_addr *addr)
{
    na_sm_hint_set(addr->peer_hints, addr->peer_slot);
    na_sm_flow_ring(addr);
}

/* Copy a segment, the bytes that may lie in the line of the header last. */
static void na_sm_flow_copy(
    unsigned char *at, const unsigned char *from, size_t size)
{
    if (size > NA_SM_RING_FIRST) {
        memcpy(at + NA_SM_RING_FIRST, from + NA_SM_RING_FIRST,
            size - NA_SM_RING_FIRST);
        memcpy(at, from, NA_SM_RING_FIRST);
    } else if (size > 0) {
        memcpy(at, from, size);
    }
}

/* Write a record with its extra bytes and segments. NA_AGAIN: there is no
 * space, and `full` is set; NA_PROTOCOL_ERROR. */
static na_return_t na_sm_flow_write(struct na_sm_addr *addr,
    const struct na_sm_record *record, const void *extra,
    const struct na_segment *segments, na_size_t count)
{
    unsigned char *start, *at;
    na_size_t i;
    na_return_t ret;

    HG_ASSERT(addr->shared != NULL);
    ret = na_sm_out_reserve(&addr->out, record->size, &start);
    if (ret != NA_SUCCESS) {
        addr->full = true;
        return ret;
    }
    /* Backwards: see ring.h. */
    at = start + record->size;
    for (i = count; i > 0; i--) {
        const struct na_segment *segment = &segments[i - 1];

        at -= segment->size;
        na_sm_flow_copy(at, (const unsigned char *) segment->address,
            (size_t) segment->size);
    }
    if (record->extra > 0)
        memcpy(start, extra, record->extra);
    na_sm_out_commit(&addr->out, record);
    na_sm_flow_notify(addr);
    return NA_SUCCESS;
}

static na_return_t na_sm_flow_write_msg(
    struct na_sm_addr *addr, const struct na_msg *msg)
{
    struct na_sm_record record = {
        (uint32_t) msg->size, NA_SM_MESSAGE, msg->plane, msg->target, 0};

    HG_ASSERT(msg->size <= NA_SM_MSG_MAX);
    if (msg->tag != 0) {
        record.extra = sizeof(msg->tag);
        record.size += record.extra;
    }
    return na_sm_flow_write(
        addr, &record, &msg->tag, msg->segments, msg->segment_count);
}

/* The peer wrote invalid data. */
static void na_sm_flow_broken(struct na_sm_class *self, struct na_sm_addr *addr)
{
    addr->open = false;
    if (addr->state != NA_SM_READY && addr->state != NA_SM_CLOSING)
        return;
    self->base.core->count(&self->base, "sm_broken", 1);
    hg_log_warning("sm", "process %ld wrote invalid data into its ring",
        (long) addr->user.pid);
    na_sm_peer_give_up(self, addr, NA_PROTOCOL_ERROR);
}

/* Send queued messages in order; returns the number of things done. Puts and
 * gets only waited for the connection. */
static unsigned na_sm_flow_flush(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned n = 0;

    addr->full = false;
    while (!hg_list_is_empty(&addr->sends)) {
        struct na_op *op =
            HG_CONTAINER_OF(addr->sends.next, struct na_op, link);
        na_return_t ret = NA_SUCCESS;

        if (op->type == NA_CB_PUT || op->type == NA_CB_GET) {
            na_sm_op_remove(op);
            na_sm_op_push(&self->transfers, op);
            n++;
            continue;
        }
        ret = na_sm_flow_write_msg(addr, &op->msg);
        if (ret == NA_PROTOCOL_ERROR)
            na_sm_flow_broken(self, addr);
        if (ret != NA_SUCCESS)
            break;
        na_sm_op_remove(op);
        na_op_complete(op, NA_SUCCESS);
        n++;
    }
    return n;
}

HG_PRIVATE na_return_t na_sm_flow_queue(
    struct na_sm_class *self, struct na_sm_addr *addr, struct na_op *op)
{
    na_sm_peer_want(self, addr);
    if (addr->state == NA_SM_DEAD ||
        (addr->state == NA_SM_DYING && !addr->again) ||
        (addr->state == NA_SM_CLOSING && !addr->dialled))
        return NA_DISCONNECT;
    if (op != NULL)
        na_sm_op_push(&addr->sends, op);
    return NA_AGAIN;
}

HG_PRIVATE na_return_t na_sm_flow_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(context->na_class);
    struct na_sm_addr *addr = na_sm_addr_of(msg->addr);
    na_return_t ret = NA_AGAIN;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (addr->base.self)
        return na_loop_send(&self->loop, msg, op);
    HG_ASSERT(addr->full || addr->state != NA_SM_READY ||
        hg_list_is_empty(&addr->sends));
    if (HG_LIKELY(addr->state == NA_SM_READY && !addr->full))
        ret = na_sm_flow_write_msg(addr, msg);
    if (HG_LIKELY(ret == NA_SUCCESS)) {
        if (op != NULL)
            na_op_complete(op, NA_SUCCESS);
        return NA_SUCCESS;
    }
    if (ret == NA_PROTOCOL_ERROR) {
        na_sm_flow_broken(self, addr);
        return NA_DISCONNECT;
    }
    ret = na_sm_flow_queue(self, addr, op);
    return ret == NA_AGAIN && op != NULL ? NA_SUCCESS : ret;
}

HG_PRIVATE na_return_t na_sm_flow_frame_send(struct na_addr *base,
    const void *header, size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_addr *addr = na_sm_addr_of(base);
    struct na_sm_record record = {(uint32_t) (header_size + size), NA_SM_FRAME,
        0, 0, (uint8_t) header_size};
    struct na_segment segment = {(void *) (uintptr_t) data, size};
    na_return_t ret;

    HG_ASSERT(header_size <= NA_SM_FRAME_HEADER && size <= NA_SM_MSG_MAX);
    HG_ASSERT(!base->self);
    if (addr->state != NA_SM_READY) /* it may be dialled: not yet */
        return na_sm_flow_queue(self, addr, NULL);
    if (addr->full)
        return NA_AGAIN;
    ret = na_sm_flow_write(addr, &record, header, &segment, 1);
    if (HG_UNLIKELY(ret == NA_PROTOCOL_ERROR)) {
        na_sm_flow_broken(self, addr);
        return NA_DISCONNECT;
    }
    if (ret != NA_SUCCESS)
        return ret;
    if (size > 0)
        self->base.core->count(&self->base, "sm_rma_copied", size);
    if (release != NULL)
        release(arg);
    return NA_SUCCESS;
}

/* ---- The end ---- */

/* Send the queue, then BYE. If the ring is full or a copy is in progress, this
 * is repeated until the deadline: then the connection ends; or, if the peer
 * copies, it stays as long as that takes, and the application stops waiting. */
static void na_sm_flow_close(
    struct na_sm_class *self, struct na_sm_addr *addr, uint64_t now)
{
    struct na_sm_record bye = {0, NA_SM_BYE, 0, 0, 0};
    bool copied;

    HG_ASSERT(addr->state == NA_SM_CLOSING && addr->open);
    (void) na_sm_flow_flush(self, addr);
    if (addr->state != NA_SM_CLOSING)
        return;
    atomic_store(&na_sm_own_control(addr)->over, 1);
    copied = na_sm_peer_copies(addr, 0);
    if (!copied &&
        (now >= addr->deadline ||
            (!addr->full && addr->copies == 0 &&
                na_sm_flow_write(addr, &bye, NULL, NULL, 0) == NA_SUCCESS))) {
        na_sm_peer_lose(self, addr, NA_DISCONNECT);
    } else if (now >= addr->deadline) {
        na_sm_peer_complete(&addr->lookups, NA_HOSTUNREACH);
        na_sm_peer_complete(&addr->sends, NA_DISCONNECT);
        na_sm_peer_complete(&addr->closers, NA_SUCCESS);
    }
}

HG_PRIVATE unsigned na_sm_flow_close_all(struct na_sm_class *self, uint64_t now)
{
    struct na_link *link, *next;
    unsigned n = 0;

    for (link = self->closing.next; link != &self->closing; link = next) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, turn);

        next = link->next;
        na_sm_flow_close(self, addr, now);
        n += addr->state != NA_SM_CLOSING;
    }
    return n;
}

HG_PRIVATE na_return_t na_sm_flow_terminate(struct na_op *op)
{
    struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    struct na_sm_class *self = na_sm_of(op->addr->na_class);

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (addr->state == NA_SM_IDLE || addr->state == NA_SM_DEAD) {
        na_op_complete(op, NA_SUCCESS);
    } else {
        na_sm_op_push(&addr->closers, op);
        if (addr->state == NA_SM_READY) {
            na_sm_peer_close(self, addr);
            na_sm_flow_close(self, addr, 0); /* before anything else is sent */
        } else {
            na_sm_peer_want(self, addr);
        }
    }
    return NA_SUCCESS;
}

/* The peer has closed the connection: messages that it did not read are sent on
 * the next one. */
static void na_sm_flow_handle_bye(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    if (addr->state == NA_SM_READY)
        addr->state = NA_SM_CLOSING;
    na_sm_peer_lose(self, addr, NA_DISCONNECT);
}

/* ---- In ---- */

/* Deliver a record. NA_AGAIN: the core does not accept it now. */
static na_return_t na_sm_flow_dispatch(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_record *record,
    const unsigned char *payload)
{
    const struct na_core *core = self->base.core;
    unsigned char header[NA_SM_FRAME_HEADER];
    na_tag_t tag = 0;
    na_size_t size = (na_size_t) record->size - record->extra;

    if (record->extra > record->size)
        return NA_PROTOCOL_ERROR;
    switch (record->kind) {
    case NA_SM_MESSAGE:
        if (size > NA_SM_MSG_MAX || record->plane >= NA_MSG_PLANE_MAX ||
            (record->extra != 0 && record->extra != sizeof(tag)))
            return NA_PROTOCOL_ERROR;
        if (record->extra > 0)
            memcpy(&tag, payload, sizeof(tag));
        /* In the ring: the receiver copies it before checking it. */
        payload += record->extra;
        if (HG_UNLIKELY(addr->state == NA_SM_DYING))
            return na_msg_last(&self->base, &addr->base, record->plane,
                record->target, tag, payload, size);
        return na_msg_arrived(&self->base, &addr->base, record->plane,
            record->target, tag, payload, size);
    case NA_SM_FRAME:
        if (record->extra > sizeof(header))
            return NA_PROTOCOL_ERROR;
        core->count(&self->base, "sm_rma_copied", size);
        /* The header is checked, so it is copied first; the data is only copied
         * to its destination. */
        memcpy(header, payload, record->extra);
        na_emul_frame_arrived(&self->base, &addr->base, header, record->extra,
            payload + record->extra, size);
        return NA_SUCCESS;
    case NA_SM_BYE: na_sm_flow_handle_bye(self, addr); return NA_SUCCESS;
    default: return NA_PROTOCOL_ERROR;
    }
}

/* Deliver up to `max` records; returns the number. */
static unsigned na_sm_flow_deliver(
    struct na_sm_class *self, struct na_sm_addr *addr, unsigned max)
{
    struct na_sm_record record;
    const unsigned char *payload;
    unsigned n = 0;
    na_return_t ret = NA_SUCCESS;

    while (n < max && addr->open) {
        ret = na_sm_in_peek(&addr->in, &record, &payload);
        if (ret == NA_AGAIN)
            break;
        if (ret == NA_SUCCESS)
            ret = na_sm_flow_dispatch(self, addr, &record, payload);
        addr->held = ret == NA_AGAIN;
        if (ret != NA_SUCCESS)
            break;
        if (na_sm_in_take(&addr->in, &record))
            na_sm_flow_notify(addr); /* its ring has space again */
        n++;
    }
    if (ret == NA_PROTOCOL_ERROR)
        na_sm_flow_broken(self, addr);
    return n;
}

HG_PRIVATE unsigned na_sm_flow_visit(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned n = na_sm_flow_deliver(self, addr, NA_SM_FLOW_BATCH);

    if (n == NA_SM_FLOW_BATCH)
        self->more = true;
    /* There is space: the emulation retries its frames after each poll. */
    if (HG_UNLIKELY(addr->full) && addr->state == NA_SM_READY &&
        atomic_load(&na_sm_own_control(addr)->starved) == 0)
        n += na_sm_flow_flush(self, addr) + 1;
    return n;
}

/* Visit a peer whose hint is set; clear the hint after enough visits without
 * records. */
static unsigned na_sm_flow_visit_one(struct na_sm_class *self, uint32_t slot)
{
    struct na_sm_addr *addr = self->slots[slot];
    unsigned n;

    if (addr == NULL) { /* the peer has ended, or another peer set the bit */
        na_sm_hint_clear(self->hints, slot);
        return 0;
    }
    n = na_sm_flow_visit(self, addr);
    if (n > 0 || addr->held) {
        addr->idle = 0;
    } else if (++addr->idle >= NA_SM_FLOW_IDLE) {
        addr->idle = 0;
        na_sm_hint_clear(self->hints, slot);
        n = na_sm_flow_visit(self, addr);
        if (n > 0 || addr->held)
            na_sm_hint_set(self->hints, slot);
    }
    return n;
}

HG_PRIVATE unsigned na_sm_flow_visit_hinted(struct na_sm_class *self)
{
    unsigned n = 0;
    uint32_t w;

    for (w = 0; w * 64 < self->slots_end; w++) {
        uint64_t bits =
            atomic_load_explicit(&self->hints->bits[w], memory_order_acquire);

        for (; bits != 0; bits &= bits - 1)
            n += na_sm_flow_visit_one(
                self, w * 64 + (uint32_t) __builtin_ctzll(bits));
    }
    return n;
}

/* Whether a visit of a peer would find something. */
static bool na_sm_flow_peer_has_work(const struct na_sm_addr *addr)
{
    if (!addr->open)
        return false;
    return (!addr->held && na_sm_in_has(&addr->in)) ||
        (addr->full && addr->state == NA_SM_READY &&
            atomic_load(&na_sm_own_control(addr)->starved) == 0);
}

HG_PRIVATE void na_sm_flow_hint_all(struct na_sm_class *self)
{
    uint32_t i;

    for (i = 0; i < self->slots_end; i++) {
        const struct na_sm_addr *addr = self->slots[i];

        if (addr != NULL && (addr->held || na_sm_flow_peer_has_work(addr)))
            na_sm_hint_set(self->hints, i);
    }
}

HG_PRIVATE void na_sm_flow_drain(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    (void) na_sm_flow_deliver(self, addr, NA_SM_FLOW_LAST);
}

HG_PRIVATE bool na_sm_flow_has_work(const struct na_sm_class *self)
{
    uint32_t w;

    for (w = 0; w * 64 < self->slots_end; w++) {
        uint64_t bits = atomic_load(&self->hints->bits[w]);

        for (; bits != 0; bits &= bits - 1) {
            const struct na_sm_addr *addr =
                self->slots[w * 64 + (uint32_t) __builtin_ctzll(bits)];

            if (addr != NULL && na_sm_flow_peer_has_work(addr))
                return true;
        }
    }
    return false;
}

#endif
