/* SPDX-License-Identifier: BSD-3-Clause */
/* flow: see flow.h. */
#include "sm/flow.h"

#if HG_ENABLE_SM

#include "base/lock.h"
#include "base/log.h"

#define NA_SM_FLOW_BATCH 64u   /* records of one peer in one visit */
#define NA_SM_FLOW_IDLE 256u   /* visits for nothing before a hint is lowered */
#define NA_SM_FLOW_LAST 16384u /* records of a dead peer: more than fit */

/* ---- Out ---- */

/* Wake the peer if it sleeps, once for each sleep: until it has eaten that
 * bell, which it does under another number, it cannot sleep on. The address
 * lock is held. */
static void na_sm_flow_ring(struct na_sm_addr *addr)
{
    uint64_t asleep = atomic_load(&addr->peer_public->asleep);

    if (HG_LIKELY(asleep == 0) || asleep == addr->rung)
        return;
    addr->rung = asleep;
    /* No room means that bells enough are there; a dead peer is noticed by
     * who polls. */
    if (HG_LIKELY(addr->peer_bell >= 0))
        na_sm_bell_ring(addr->peer_bell);
    else
        (void) send(addr->fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Something was published for the peer; the lock is held. */
static void na_sm_flow_tell(struct na_sm_addr *addr)
{
    na_sm_hint_set(addr->peer_hints, addr->peer_slot);
    na_sm_flow_ring(addr);
}

/* Write a record that consists of its extra bytes and segments. The address
 * lock is held, and the state allows it. NA_AGAIN, NA_PROTOCOL_ERROR. */
static na_return_t na_sm_flow_write(struct na_sm_addr *addr,
    const struct na_sm_record *record, const void *extra,
    const struct na_segment *segments, na_size_t count)
{
    unsigned char *at;
    na_size_t i;
    na_return_t ret;

    assert(addr->shared != NULL);
    ret = na_sm_out_reserve(&addr->out, record->size, &at);
    if (ret != NA_SUCCESS)
        return ret;
    if (record->extra > 0)
        memcpy(at, extra, record->extra);
    at += record->extra;
    for (i = 0; i < count; i++) {
        if (segments[i].size > 0)
            memcpy(at, segments[i].address, (size_t) segments[i].size);
        at += segments[i].size;
    }
    na_sm_out_commit(&addr->out, record);
    na_sm_flow_tell(addr);
    return NA_SUCCESS;
}

static na_return_t na_sm_flow_write_msg(
    struct na_sm_addr *addr, const struct na_msg *msg)
{
    struct na_sm_record record = {
        (uint32_t) msg->size, NA_SM_MESSAGE, msg->plane, msg->target, 0};

    assert(msg->size <= NA_SM_MSG_MAX);
    if (msg->tag != 0) {
        record.extra = sizeof(msg->tag);
        record.size += record.extra;
    }
    return na_sm_flow_write(
        addr, &record, &msg->tag, msg->segments, msg->segment_count);
}

static na_return_t na_sm_flow_write_word(
    struct na_sm_addr *addr, enum na_sm_kind kind)
{
    struct na_sm_record record = {0, (uint8_t) kind, 0, 0, 0};

    return na_sm_flow_write(addr, &record, NULL, NULL, 0);
}

/* The peer wrote nonsense. The connection that it was in may be gone by now,
 * and another begun. */
static void na_sm_flow_broken(struct na_sm_class *self, struct na_sm_addr *addr)
{
    enum na_sm_state state;

    na_sm_enter(self);
    state = na_sm_peer_state(addr);
    if (state == NA_SM_READY || state == NA_SM_CLOSING ||
        state == NA_SM_LEAVING) {
        self->base.core->count(&self->base, "sm_broken", 1);
        hg_log_warning("sm", "process %ld wrote what cannot be into its ring",
            (long) addr->pid);
        na_sm_peer_lose(self, addr, NA_PROTOCOL_ERROR);
    }
    na_sm_peer_unlock(self);
}

/* Send what is queued, in order: sends, then the words of a goodbye. Both
 * locks are held. Sends that left are moved to `sent`. */
static na_return_t na_sm_flow_flush(
    struct na_sm_addr *addr, struct na_link *sent, unsigned *n_p)
{
    na_return_t ret = NA_SUCCESS;

    while (ret == NA_SUCCESS && !hg_list_is_empty(&addr->sends)) {
        struct na_op *op =
            HG_CONTAINER_OF(addr->sends.next, struct na_op, link);

        ret = na_sm_flow_write_msg(addr, &op->msg);
        if (ret == NA_SUCCESS) {
            (void) na_sm_op_pop(&addr->sends);
            hg_list_push(sent, &op->link);
            ++*n_p;
        }
    }
    /* A goodbye is a promise to touch none of the peer's memory any more. */
    if (ret == NA_SUCCESS && atomic_load(&addr->touching) != 0 &&
        (addr->owes_ack || addr->owes_bye))
        ret = NA_AGAIN;
    if (ret == NA_SUCCESS && addr->owes_ack) {
        ret = na_sm_flow_write_word(addr, NA_SM_BYE_ACK);
        addr->owes_ack = ret != NA_SUCCESS;
    }
    if (ret == NA_SUCCESS && addr->owes_bye) {
        ret = na_sm_flow_write_word(addr, NA_SM_BYE);
        addr->owes_bye = ret != NA_SUCCESS;
    }
    atomic_store(&addr->waiting, ret == NA_AGAIN);
    return ret == NA_AGAIN ? NA_SUCCESS : ret;
}

/* Whether what is queued may leave now: after BYE or BYE_ACK nothing may. Both
 * locks are held. */
static bool na_sm_flow_may_flush(const struct na_sm_addr *addr)
{
    enum na_sm_state state = na_sm_peer_state(addr);

    return state == NA_SM_READY || (state == NA_SM_CLOSING && addr->owes_bye) ||
        ((state == NA_SM_LEAVING || state == NA_SM_CLOSING) && addr->owes_ack);
}

/* Send what is queued now. Without a lock; the number of things done. */
static unsigned na_sm_flow_push(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_link sent;
    unsigned n = 0;
    bool relieved;
    na_return_t ret = NA_SUCCESS;

    hg_list_init(&sent);
    na_sm_enter(self);
    na_sm_enter(na_sm_of(addr->base.na_class));
    if (na_sm_flow_may_flush(addr))
        ret = na_sm_flow_flush(addr, &sent, &n);
    /* A frame that was to wait behind the queue; nobody else tells of this. */
    relieved = ret == NA_SUCCESS && !atomic_load(&addr->waiting) &&
        atomic_exchange(&addr->stalled, false);
    na_sm_leave(na_sm_of(addr->base.na_class));
    na_sm_leave(self);
    na_sm_peer_complete(self, &sent, NA_SUCCESS);
    if (relieved)
        self->base.core->wake(&self->base);
    if (ret != NA_SUCCESS)
        na_sm_flow_broken(self, addr);
    return n;
}

/* A message that cannot leave at once. With an operation it waits for room, or
 * for the connection. */
static na_return_t na_sm_flow_queue(
    struct na_sm_class *self, struct na_sm_addr *addr, struct na_op *op)
{
    na_return_t ret = NA_AGAIN;
    bool ready;

    na_sm_enter(self);
    switch (na_sm_peer_state(addr)) {
    case NA_SM_IDLE: na_sm_peer_dial(self, addr); break;
    case NA_SM_DIALLING:
    case NA_SM_READY: break;
    case NA_SM_CLOSING:
    case NA_SM_LEAVING:
        if (!addr->dialled)
            ret = NA_DISCONNECT;
        break;
    case NA_SM_DYING:
        if (!na_sm_peer_lives(addr))
            ret = NA_DISCONNECT;
        break;
    case NA_SM_DEAD: ret = NA_DISCONNECT; break;
    }
    ready = na_sm_peer_state(addr) == NA_SM_READY;
    if (ret == NA_AGAIN && op != NULL) {
        na_sm_op_push(&addr->sends, op);
        if (ready)
            atomic_store(&addr->waiting, true);
        if (na_sm_peer_state(addr) == NA_SM_LEAVING)
            na_sm_peer_await_end(self, addr);
        ret = NA_SUCCESS;
    }
    na_sm_peer_unlock(self);
    /* Room may have come before the message was queued. */
    if (ret == NA_SUCCESS && ready)
        (void) na_sm_flow_push(self, addr);
    return ret;
}

HG_PRIVATE na_return_t na_sm_flow_send(
    struct na_sm_class *self, const struct na_msg *msg, struct na_op *op)
{
    struct na_sm_addr *addr = na_sm_addr_of(msg->addr);
    na_return_t ret = NA_AGAIN;

    na_sm_enter(na_sm_of(addr->base.na_class));
    if (HG_LIKELY(na_sm_peer_state(addr) == NA_SM_READY) &&
        !atomic_load_explicit(&addr->waiting, memory_order_relaxed))
        ret = na_sm_flow_write_msg(addr, msg);
    na_sm_leave(na_sm_of(addr->base.na_class));
    if (HG_UNLIKELY(ret == NA_PROTOCOL_ERROR)) {
        na_sm_flow_broken(self, addr);
        return NA_DISCONNECT;
    }
    if (ret == NA_AGAIN)
        return na_sm_flow_queue(self, addr, op);
    if (op != NULL)
        self->base.core->complete(op, NA_SUCCESS);
    return ret;
}

HG_PRIVATE na_return_t na_sm_flow_frame_send(struct na_sm_addr *addr,
    const void *header, size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct na_sm_class *self = na_sm_of(addr->base.na_class);
    struct na_sm_record record = {(uint32_t) (header_size + size), NA_SM_FRAME,
        0, 0, (uint8_t) header_size};
    struct na_segment segment = {(void *) (uintptr_t) data, size};
    na_return_t ret;

    assert(header_size <= NA_SM_FRAME_HEADER && size <= NA_SM_MSG_MAX);
    na_sm_enter(na_sm_of(addr->base.na_class));
    if (na_sm_peer_state(addr) == NA_SM_READY) {
        bool queued =
            atomic_load_explicit(&addr->waiting, memory_order_relaxed);

        ret = queued ? NA_AGAIN
                     : na_sm_flow_write(addr, &record, header, &segment, 1);
        if (ret == NA_AGAIN)
            atomic_store(&addr->stalled, true);
        /* Whoever polls may have heard of room before it could see that
         * somebody waits for it: look again. */
        if (ret == NA_AGAIN && !queued)
            ret = na_sm_flow_write(addr, &record, header, &segment, 1);
    } else {
        ret = NA_DISCONNECT;
    }
    na_sm_leave(na_sm_of(addr->base.na_class));
    if (HG_UNLIKELY(ret == NA_PROTOCOL_ERROR)) {
        na_sm_flow_broken(self, addr);
        return NA_DISCONNECT;
    }
    if (ret == NA_DISCONNECT) /* of one that can be dialled: not yet */
        return na_sm_flow_queue(self, addr, NULL);
    if (ret == NA_SUCCESS && size > 0)
        self->base.core->count(&self->base, "sm_rma_copied", size);
    if (ret == NA_SUCCESS && release != NULL)
        release(arg);
    return ret;
}

HG_PRIVATE na_return_t na_sm_flow_terminate(
    struct na_sm_class *self, struct na_op *op)
{
    struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    bool closed;
    bool flush = false;

    na_sm_enter(self);
    switch (na_sm_peer_state(addr)) {
    case NA_SM_IDLE:
    case NA_SM_DEAD: closed = true; break;
    default: closed = addr->base.self != NA_FALSE; break;
    }
    if (!closed) {
        na_sm_op_push(&addr->closers, op);
        flush = na_sm_peer_state(addr) == NA_SM_READY;
    }
    if (flush) {
        na_sm_peer_move(addr, NA_SM_CLOSING);
        addr->owes_bye = true;
        atomic_store(&addr->waiting, true);
    }
    if (!closed && (flush || na_sm_peer_state(addr) == NA_SM_LEAVING))
        na_sm_peer_await_end(self, addr);
    na_sm_peer_unlock(self);
    if (flush)
        (void) na_sm_flow_push(self, addr);
    if (closed)
        self->base.core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

/* ---- In ---- */

/* The peer says BYE, or answers ours. False: it had no reason to. */
static bool na_sm_flow_hear_word(
    struct na_sm_class *self, struct na_sm_addr *addr, unsigned kind)
{
    enum na_sm_state state;
    bool good = true;

    na_sm_enter(self);
    state = na_sm_peer_state(addr);
    if (state == NA_SM_DYING) {
        /* Its end was seen before its words were read. */
    } else if (kind == NA_SM_BYE) {
        if (state == NA_SM_READY)
            na_sm_peer_move(addr, NA_SM_LEAVING);
        addr->owes_ack = true;
        atomic_store(&addr->waiting, true);
    } else if (state == NA_SM_CLOSING && !addr->owes_bye) {
        na_sm_peer_lose(self, addr, NA_DISCONNECT);
    } else {
        good = false;
    }
    na_sm_peer_unlock(self);
    if (good && kind == NA_SM_BYE)
        (void) na_sm_flow_push(self, addr);
    return good;
}

/* Hand a record on. NA_AGAIN: the core has no room for it. */
static na_return_t na_sm_flow_hear(struct na_sm_class *self,
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
        /* From the ring: whoever takes it copies it before a look. */
        return core->msg_arrived(&self->base, &addr->base, record->plane,
            record->target, tag, payload + record->extra, size);
    case NA_SM_FRAME:
        if (record->extra > sizeof(header))
            return NA_PROTOCOL_ERROR;
        core->count(&self->base, "sm_rma_copied", size);
        /* The header is looked at, the data only copied to where it goes. */
        memcpy(header, payload, record->extra);
        core->frame_arrived(&self->base, &addr->base, header, record->extra,
            payload + record->extra, size);
        return NA_SUCCESS;
    case NA_SM_BYE:
    case NA_SM_BYE_ACK:
        return na_sm_flow_hear_word(self, addr, record->kind)
            ? NA_SUCCESS
            : NA_PROTOCOL_ERROR;
    default: return NA_PROTOCOL_ERROR;
    }
}

/* There is room again in the peer's ring, and it waits for that. */
static void na_sm_flow_relieve(struct na_sm_addr *addr)
{
    na_sm_enter(na_sm_of(addr->base.na_class));
    if (addr->shared != NULL)
        na_sm_flow_tell(addr);
    na_sm_leave(na_sm_of(addr->base.na_class));
}

/* Deliver up to `max` records; the number delivered. */
static unsigned na_sm_flow_deliver(
    struct na_sm_class *self, struct na_sm_addr *addr, unsigned max)
{
    struct na_sm_record record;
    const unsigned char *payload;
    unsigned n = 0;
    na_return_t ret = NA_SUCCESS;

    while (n < max) {
        ret = na_sm_in_peek(&addr->in, &record, &payload);
        if (ret == NA_AGAIN)
            break;
        if (ret == NA_SUCCESS)
            ret = na_sm_flow_hear(self, addr, &record, payload);
        if (ret == NA_AGAIN && na_sm_peer_state(addr) == NA_SM_DYING) {
            addr->dropped++; /* a dead peer cannot be held back */
            ret = NA_SUCCESS;
        }
        atomic_store_explicit(
            &addr->held, ret == NA_AGAIN, memory_order_relaxed);
        if (ret != NA_SUCCESS)
            break;
        if (na_sm_in_take(&addr->in, &record))
            na_sm_flow_relieve(addr);
        n++;
    }
    if (ret == NA_PROTOCOL_ERROR) {
        atomic_store(&addr->open, false);
        na_sm_flow_broken(self, addr);
    }
    return n;
}

HG_PRIVATE unsigned na_sm_flow_visit(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned n;

    if (!atomic_load_explicit(&addr->open, memory_order_relaxed))
        return 0;
    n = na_sm_flow_deliver(self, addr, NA_SM_FLOW_BATCH);
    if (n == NA_SM_FLOW_BATCH)
        self->more = true;
    if (atomic_load_explicit(&addr->waiting, memory_order_relaxed))
        n += na_sm_flow_push(self, addr);
    if (atomic_load_explicit(&addr->stalled, memory_order_relaxed) &&
        atomic_load(&addr->shared->control[addr->dialled ? 0 : 1].starved) ==
            0) {
        /* The emulation offers its frames after each poll. */
        atomic_store(&addr->stalled, false);
        n++;
    }
    return n;
}

/* Visit a peer whose hint is up, and lower it after enough for nothing. */
static unsigned na_sm_flow_visit_one(struct na_sm_class *self, uint32_t slot)
{
    struct na_sm_addr *addr =
        atomic_load_explicit(&self->slots[slot], memory_order_acquire);
    unsigned n;

    if (addr == NULL) { /* gone, or somebody spoils hints */
        na_sm_hint_clear(self->hints, slot);
        return 0;
    }
    n = na_sm_flow_visit(self, addr);
    if (n > 0 || atomic_load_explicit(&addr->held, memory_order_relaxed)) {
        addr->idle = 0;
    } else if (++addr->idle >= NA_SM_FLOW_IDLE) {
        addr->idle = 0;
        na_sm_hint_clear(self->hints, slot);
        n = na_sm_flow_visit(self, addr);
        if (n > 0 || atomic_load_explicit(&addr->held, memory_order_relaxed))
            na_sm_hint_set(self->hints, slot);
    }
    return n;
}

HG_PRIVATE unsigned na_sm_flow_visit_hinted(struct na_sm_class *self)
{
    unsigned n = 0;
    uint32_t i;

    for (i = 0; i < NA_SM_PEERS / 4096; i++) {
        uint64_t words = na_sm_hint_words(self->hints, i);

        for (; words != 0; words &= words - 1) {
            uint32_t w = i * 64 + (uint32_t) __builtin_ctzll(words);
            uint64_t bits = atomic_load(&self->hints->bits[w]);

            for (; bits != 0; bits &= bits - 1)
                n += na_sm_flow_visit_one(
                    self, w * 64 + (uint32_t) __builtin_ctzll(bits));
        }
    }
    return n;
}

/* Nothing came from a peer, and nothing is queued for it: there are thousands
 * of these, so that this is all that is done for one. */
static bool na_sm_flow_is_silent(const struct na_sm_addr *addr)
{
    return !atomic_load_explicit(&addr->open, memory_order_relaxed) ||
        (!na_sm_in_has(&addr->in) &&
            !atomic_load_explicit(&addr->waiting, memory_order_relaxed) &&
            !atomic_load_explicit(&addr->stalled, memory_order_relaxed));
}

HG_PRIVATE unsigned na_sm_flow_visit_all(struct na_sm_class *self)
{
    uint32_t left = self->pairs;
    unsigned n = 0;
    uint32_t i;

    for (i = 0; i < NA_SM_PEERS && left > 0; i++) {
        struct na_sm_addr *addr = atomic_load(&self->slots[i]);

        if (addr == NULL)
            continue;
        left--;
        if (!na_sm_flow_is_silent(addr))
            n += na_sm_flow_visit(self, addr);
    }
    return n;
}

HG_PRIVATE void na_sm_flow_drain(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned left = NA_SM_FLOW_LAST;

    while (left > 0 && atomic_load(&addr->open)) {
        unsigned n = na_sm_flow_deliver(self, addr, left);

        if (n == 0)
            break;
        left -= n;
    }
    if (addr->dropped == 0)
        return;
    self->base.core->count(&self->base, "msg_dropped", addr->dropped);
    hg_log_warning("sm", "dropped %u messages that process %ld left: no room",
        addr->dropped, (long) addr->pid);
    addr->dropped = 0;
}

/* ---- Before sleeping ---- */

static bool na_sm_flow_peer_has_work(const struct na_sm_addr *addr)
{
    const struct na_sm_control *out =
        &addr->shared->control[addr->dialled ? 0 : 1];

    if (!atomic_load(&addr->held) && na_sm_in_has(&addr->in))
        return true;
    return (atomic_load(&addr->waiting) || atomic_load(&addr->stalled)) &&
        atomic_load(&out->starved) == 0;
}

HG_PRIVATE bool na_sm_flow_has_work(struct na_sm_class *self)
{
    uint32_t i;
    uint32_t w;

    for (i = 0; i < NA_SM_PEERS / 4096; i++) {
        if (atomic_load(&self->hints->summary[i]) == 0)
            continue;
        for (w = i * 64; w < i * 64 + 64; w++) {
            uint64_t bits = atomic_load(&self->hints->bits[w]);

            for (; bits != 0; bits &= bits - 1) {
                const struct na_sm_addr *addr = atomic_load(
                    &self->slots[w * 64 + (uint32_t) __builtin_ctzll(bits)]);

                if (addr != NULL && atomic_load(&addr->open) &&
                    na_sm_flow_peer_has_work(addr))
                    return true;
            }
        }
    }
    return false;
}

#endif
