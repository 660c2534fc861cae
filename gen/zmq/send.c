/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outgoing messages, in order; queued while a connection is established, and
 * while the peer's window is full.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* Pass parts to libzmq, which owns them unless this fails. The lock is held, as
 * below. */
static na_return_t na_zmq_put(struct na_zmq_class *self,
    struct na_zmq_addr *addr, zmq_msg_t *parts, unsigned count)
{
    unsigned i = 0;
    int rc;

    self->touched = true;
    do
        rc = zmq_send(
            self->socket, addr->id, addr->id_size, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    while (rc < 0 && errno == EINTR);
    while (rc >= 0 && i < count) {
        rc = zmq_msg_send(&parts[i], self->socket,
            ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0));
        if (rc >= 0)
            i++;
        else if (errno == EINTR)
            rc = 0;
    }
    if (rc >= 0) {
        if (self->protocol == NA_ZMQ_IPC && !addr->sent) {
            uint64_t soon = self->base.core->now_ns() + self->death / 4;

            addr->sent = true;
            if (soon < self->tick)
                self->tick = soon;
        }
        return NA_SUCCESS;
    }
    if (errno != EHOSTUNREACH)
        return na_zmq_failed(self, "cannot send to",
            addr->base.name != NULL ? addr->base.name : "a new peer");
    na_zmq_lose(self, addr, NA_HOSTUNREACH);
    return NA_DISCONNECT;
}

/* As na_zmq_put with one part, which is always consumed. */
static na_return_t na_zmq_put_one(
    struct na_zmq_class *self, struct na_zmq_addr *addr, zmq_msg_t *part)
{
    na_return_t ret = na_zmq_put(self, addr, part, 1);

    if (ret != NA_SUCCESS)
        (void) zmq_msg_close(part);
    return ret;
}

/* Send one part: a header, and `size` bytes. */
static na_return_t na_zmq_control(struct na_zmq_class *self,
    struct na_zmq_addr *addr, enum na_zmq_kind kind, const void *body,
    size_t size)
{
    zmq_msg_t part;
    unsigned char *p;

    if (zmq_msg_init_size(&part, NA_ZMQ_HEADER + size) != 0)
        return na_zmq_failed(self, "cannot make", "a control message");
    p = (unsigned char *) zmq_msg_data(&part);
    na_zmq_put_header(p, kind, NULL);
    if (size > 0)
        memcpy(p + NA_ZMQ_HEADER, body, size);
    return na_zmq_put_one(self, addr, &part);
}

/* Let a ready peer send `bytes` more of a lane. */
static void na_zmq_send_grant(struct na_zmq_class *self,
    struct na_zmq_addr *addr, enum na_zmq_lane lane, uint64_t bytes)
{
    struct na_msg msg;
    zmq_msg_t part;

    HG_ASSERT(addr->state == NA_ZMQ_READY && bytes <= UINT32_MAX);
    memset(&msg, 0, sizeof(msg));
    msg.plane = (uint8_t) lane;
    msg.tag = (uint32_t) bytes;
    if (zmq_msg_init_size(&part, NA_ZMQ_HEADER) != 0) {
        na_zmq_lose(self, addr, NA_DISCONNECT); /* it would wait for ever */
        return;
    }
    na_zmq_put_header(
        (unsigned char *) zmq_msg_data(&part), NA_ZMQ_GRANT, &msg);
    (void) na_zmq_put_one(self, addr, &part);
}

/* Copy a message of the core into one part. */
static na_return_t na_zmq_gather(
    const struct na_zmq_class *self, const struct na_msg *msg, zmq_msg_t *part)
{
    unsigned char *p;
    na_size_t i;

    if (zmq_msg_init_size(part, NA_ZMQ_HEADER + (size_t) msg->size) != 0)
        return na_zmq_failed(self, "cannot make", "a message");
    p = (unsigned char *) zmq_msg_data(part);
    na_zmq_put_header(p, NA_ZMQ_MESSAGE, msg);
    p += NA_ZMQ_HEADER;
    for (i = 0; i < msg->segment_count; i++) {
        size_t size = (size_t) msg->segments[i].size;

        if (size > 0)
            memcpy(p, msg->segments[i].address, size);
        p += size;
    }
    return NA_SUCCESS;
}

/* An envelope with no parts; the lock is held. */
static struct na_zmq_in *na_zmq_envelope(struct na_zmq_class *self)
{
    struct na_link *link = na_plug_list_pop(&self->spare);
    struct na_zmq_in *in;

    if (link != NULL) {
        self->spare_count--;
        in = NA_ZMQ_OF(link, struct na_zmq_in, link);
    } else {
        in = (struct na_zmq_in *) self->base.core->alloc(sizeof(*in));
        if (in == NULL)
            return NULL;
    }
    na_plug_list_init(&in->link);
    in->addr = NULL;
    in->fd = -1;
    in->count = 0;
    in->id_size = 0;
    return in;
}

/* Put parts into the own inbox. Takes them unless it fails; the lock is
 * held. */
static na_return_t na_zmq_loop(
    struct na_zmq_class *self, const zmq_msg_t *parts, unsigned count)
{
    struct na_zmq_in *in = na_zmq_envelope(self);

    if (in == NULL)
        return NA_NOMEM;
    in->addr = na_zmq_addr_of(self->base.self_addr);
    for (in->count = 0; in->count < count; in->count++)
        in->parts[in->count] = parts[in->count];
    atomic_fetch_add(&self->parts, count);
    na_plug_list_push(&self->inbox, &in->link);
    return NA_SUCCESS;
}

/* Whether the window of a lane is open. */
static bool na_zmq_may_send(
    const struct na_zmq_addr *addr, enum na_zmq_lane lane)
{
    return addr->unread[lane] < NA_ZMQ_WINDOW;
}

/* Send parts of a lane to a ready peer, or to this class. Takes them unless it
 * fails. */
static na_return_t na_zmq_transmit(struct na_zmq_class *self,
    struct na_zmq_addr *addr, enum na_zmq_lane lane, zmq_msg_t *parts,
    unsigned count)
{
    uint64_t weight = na_zmq_weight(
        zmq_msg_size(&parts[0]), count > 1 ? zmq_msg_size(&parts[1]) : 0);
    na_return_t ret;

    HG_ASSERT(addr->state == NA_ZMQ_READY && na_zmq_may_send(addr, lane));
    ret = addr->base.self ? na_zmq_loop(self, parts, count)
                          : na_zmq_put(self, addr, parts, count);
    if (ret == NA_SUCCESS)
        addr->unread[lane] += weight;
    return ret;
}

/* Copy a message of the core and send it. */
static na_return_t na_zmq_send_msg(struct na_zmq_class *self,
    struct na_zmq_addr *addr, const struct na_msg *msg)
{
    zmq_msg_t part;
    na_return_t ret = na_zmq_gather(self, msg, &part);

    if (ret != NA_SUCCESS)
        return ret;
    ret = na_zmq_transmit(self, addr, NA_ZMQ_MESSAGES, &part, 1);
    if (ret != NA_SUCCESS)
        (void) zmq_msg_close(&part);
    return ret;
}

/* The result of a send to an address that is not ready. An idle address is
 * dialled. */
static na_return_t na_zmq_unready(
    struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    addr->receives = false;
    if (addr->state == NA_ZMQ_IDLE)
        na_zmq_dial(self, addr);
    if (addr->state == NA_ZMQ_DIALLING || addr->state == NA_ZMQ_CLOSING ||
        (addr->state == NA_ZMQ_DYING && (addr->closing || addr->failed)))
        return NA_AGAIN;
    return NA_DISCONNECT;
}

static na_return_t na_zmq_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_zmq_class *self = na_zmq_of(context->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(msg->addr);
    na_return_t ret = NA_AGAIN;
    bool queued = false;

    na_zmq_lock(self);
    if (addr->state != NA_ZMQ_READY) {
        ret = na_zmq_unready(self, addr);
    } else if (na_zmq_may_send(addr, NA_ZMQ_MESSAGES)) {
        HG_ASSERT(na_plug_list_empty(&addr->sends));
        ret = na_zmq_send_msg(self, addr, msg);
    }
    if (ret == NA_AGAIN && op != NULL) {
        na_plug_list_push(&addr->sends, &op->link);
        queued = true;
    }
    na_zmq_unlock(self);
    if (queued)
        return NA_SUCCESS;
    if (ret == NA_SUCCESS && op != NULL)
        self->base.core->complete(op, NA_SUCCESS);
    return ret;
}
