/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends: packets, and the bodies that peers request.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* Make poll end the connection: MPI could not send. The lock is held, as in all
 * of this file unless a function's comment says otherwise. */
static void na_mpi_break(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    if (addr->base.self || addr->state == NA_MPI_IDLE ||
        addr->state == NA_MPI_DEAD)
        return;
    addr->broken = true;
    addr->deadline = 0;
    if (na_plug_list_empty(&addr->timed))
        na_plug_list_push(&self->timed, &addr->timed);
}

/* ---- Packets ---- */

/* Get a packet to fill. NULL: out of memory (logged). */
static struct na_mpi_out *na_mpi_packet(struct na_mpi_class *self)
{
    struct na_link *link = na_plug_list_pop(&self->spare);
    struct na_mpi_out *out;

    if (link != NULL) {
        self->spare_count--;
        return NA_MPI_OF(link, struct na_mpi_out, link);
    }
    out = (struct na_mpi_out *) self->base.core->alloc(
        sizeof(*out) + NA_MPI_PACKET);
    if (out == NULL) {
        self->base.core->log(
            HG_LOG_LEVEL_ERROR, "mpi", "no memory for a packet");
        return NULL;
    }
    memset(out, 0, sizeof(*out));
    na_plug_list_init(&out->link);
    out->packet = (unsigned char *) (out + 1);
    return out;
}

static void na_mpi_packet_put(struct na_mpi_class *self, struct na_mpi_out *out)
{
    if (self->spare_count < NA_MPI_KEEP) {
        self->spare_count++;
        na_plug_list_push(&self->spare, &out->link);
    } else {
        self->base.core->free(out);
    }
}

/* Send a packet with `size` bytes after the header; takes it. */
static na_return_t na_mpi_packet_send(struct na_mpi_class *self,
    struct na_mpi_addr *addr, struct na_mpi_out *out,
    struct na_mpi_header *header, size_t size)
{
    int done = 0;
    int error;

    HG_ASSERT(size <= NA_MPI_PAYLOAD && out->packet != NULL);
    HG_ASSERT(addr->channel != NULL && addr->number < NA_MPI_CLASSES);
    header->version = NA_MPI_VERSION;
    header->number = (uint16_t) self->number;
    header->to = atomic_load_explicit(&addr->incarnation, memory_order_relaxed);
    header->from = self->base.incarnation;
    na_mpi_put_header(out->packet, header);
    error = MPI_Isend(out->packet, (int) (NA_MPI_HEADER + size), MPI_BYTE,
        addr->rank, NA_MPI_TAG + (int) addr->number, addr->channel->comm,
        &out->request);
    if (error != MPI_SUCCESS) {
        na_mpi_packet_put(self, out);
        (void) na_mpi_failed(self, "cannot send to", addr->base.name, error);
        na_mpi_break(self, addr);
        return NA_DISCONNECT;
    }
    if (MPI_Test(&out->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
        done)
        na_mpi_packet_put(self, out);
    else
        na_plug_list_push(&self->sending, &out->link);
    return NA_SUCCESS;
}

/* Send a packet without a head. */
static na_return_t na_mpi_control(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_kind kind)
{
    struct na_mpi_out *out = na_mpi_packet(self);
    struct na_mpi_header header;

    if (out == NULL) {
        na_mpi_break(self, addr);
        return NA_NOMEM;
    }
    memset(&header, 0, sizeof(header));
    if (kind == NA_MPI_GONE)
        addr->channel->left = true;
    header.kind = (uint8_t) kind;
    header.tag = addr->last_sent[NA_MPI_MESSAGES];
    header.id = addr->last_sent[NA_MPI_FRAMES];
    return na_mpi_packet_send(self, addr, out, &header, 0);
}

/* Send HELLO; in dynamic mode with the own name, if the class listens. */
static void na_mpi_send_hello(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    const char *name = self->base.self_addr->name;
    struct na_mpi_out *out = na_mpi_packet(self);
    struct na_mpi_header header;
    size_t size = self->dynamic && self->base.listen ? strlen(name) : 0;

    if (out == NULL)
        return; /* the dial times out */
    memset(&header, 0, sizeof(header));
    header.kind = NA_MPI_HELLO;
    header.plane = (uint8_t) lane;
    memcpy(out->packet + NA_MPI_HEADER, name, size);
    (void) na_mpi_packet_send(self, addr, out, &header, size);
}

/* ---- Bodies ---- */

/* Create a body to offer. When it was sent, `owned` is freed, or `release`
 * called. NULL: out of memory (logged). With the lock or without. */
static struct na_mpi_out *na_mpi_body(const struct na_mpi_class *self,
    const void *data, size_t size, void *owned, void (*release)(void *arg),
    void *arg)
{
    struct na_mpi_out *out =
        (struct na_mpi_out *) self->base.core->alloc(sizeof(*out));

    if (out == NULL) {
        self->base.core->log(
            HG_LOG_LEVEL_ERROR, "mpi", "no memory to send %zu bytes", size);
        return NULL;
    }
    memset(out, 0, sizeof(*out));
    na_plug_list_init(&out->link);
    out->data = data;
    out->size = size;
    out->owned = owned;
    out->release = release;
    out->arg = arg;
    return out;
}

/* Release bodies that were sent, or will not be sent. Without the lock. */
static void na_mpi_return(struct na_mpi_class *self, struct na_link *bodies)
{
    struct na_link *link;

    while ((link = na_plug_list_pop(bodies)) != NULL) {
        struct na_mpi_out *out = NA_MPI_OF(link, struct na_mpi_out, link);

        if (out->release != NULL)
            out->release(out->arg);
        self->base.core->free(out->owned);
        self->base.core->free(out);
    }
}

/* Send a MESSAGE or FRAME, with `head` in the packet, and offer `body`, which
 * may be NULL. Takes the body unless it fails. */
static na_return_t na_mpi_offer(struct na_mpi_class *self,
    struct na_mpi_addr *addr, struct na_mpi_out *packet,
    struct na_mpi_header *header, size_t head_size, struct na_mpi_out *body)
{
    enum na_mpi_lane lane =
        header->kind == NA_MPI_FRAME ? NA_MPI_FRAMES : NA_MPI_MESSAGES;
    na_return_t ret;

    HG_ASSERT(header->kind == NA_MPI_MESSAGE || header->kind == NA_MPI_FRAME);
    if (body != NULL) {
        HG_ASSERT(body->packet == NULL && body->size > 0);
        header->size = (uint32_t) body->size;
        header->id = body->id = ++addr->last_id;
    }
    ret = na_mpi_packet_send(self, addr, packet, header, head_size);
    if (ret == NA_SUCCESS && body != NULL)
        na_plug_list_push(&addr->offers[lane], &body->link);
    return ret;
}

/* Send BYE or GONE after all accepted messages were sent. No body is sent after
 * that. */
static void na_mpi_send_bye(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    if (addr->bye_sent || !na_plug_list_empty(&addr->offers[NA_MPI_MESSAGES]))
        return;
    HG_ASSERT(self->closing || addr->state == NA_MPI_CLOSING);
    addr->bye_sent = true;
    (void) na_mpi_control(self, addr, self->closing ? NA_MPI_GONE : NA_MPI_BYE);
}

/* Send RESET: the connection ends now, even if bodies were offered. */
static void na_mpi_send_reset(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    if (na_mpi_is_connected(addr))
        (void) na_mpi_control(self, addr, NA_MPI_RESET);
}

/* The peer requests a body, and has posted the receive. Returns NULL, or the
 * reason why the packet is refused. */
static const char *na_mpi_pulled(struct na_mpi_class *self,
    struct na_mpi_addr *addr, const struct na_mpi_header *header)
{
    unsigned lane = header->plane;
    struct na_mpi_out *out;
    int error;

    if (lane >= NA_MPI_LANES || header->tag < (uint32_t) NA_MPI_BODY_TAG ||
        header->tag >= (uint32_t) NA_MPI_BODY_TAG + NA_MPI_BODY_TAGS)
        return "it names no lane or no tag for a body";
    if (addr->bye_sent)
        return NULL; /* it ends the receive when it reads BYE */
    if (na_plug_list_empty(&addr->offers[lane]))
        return "no body was offered";
    out = NA_MPI_OF(addr->offers[lane].next, struct na_mpi_out, link);
    if (out->id != header->id)
        return "it requests a body out of order";
    error = MPI_Isend(out->data, (int) out->size, MPI_BYTE, addr->rank,
        (int) header->tag, addr->channel->comm, &out->request);
    if (error != MPI_SUCCESS) {
        (void) na_mpi_failed(self, "cannot send to", addr->base.name, error);
        na_mpi_break(self, addr);
        return NULL;
    }
    addr->last_sent[lane] = out->id;
    addr->offered -= out->weight;
    na_plug_list_remove(&out->link);
    na_plug_list_push(&self->sending, &out->link);
    if (addr->state == NA_MPI_CLOSING)
        na_mpi_send_bye(self, addr);
    return NULL;
}

/* Test some pending sends, and remove those that completed. Their bodies go to
 * `bodies`. */
static unsigned na_mpi_reap(struct na_mpi_class *self, struct na_link *bodies)
{
    unsigned ended = 0;
    unsigned i;

    for (i = 0; i < NA_MPI_TESTS; i++) {
        struct na_link *link = na_plug_list_pop(&self->sending);
        struct na_mpi_out *out;
        int done = 0;
        int error;

        if (link == NULL)
            break;
        out = NA_MPI_OF(link, struct na_mpi_out, link);
        HG_ASSERT(out->request != MPI_REQUEST_NULL);
        error = MPI_Test(&out->request, &done, MPI_STATUS_IGNORE);
        if (error == MPI_SUCCESS && !done) {
            na_plug_list_push(&self->sending, link);
            continue;
        }
        if (error != MPI_SUCCESS)
            (void) na_mpi_failed(self, "cannot send", "to a peer", error);
        if (out->packet != NULL)
            na_mpi_packet_put(self, out);
        else
            na_plug_list_push(bodies, link);
        ended++;
    }
    return ended;
}

/* ---- Messages ---- */

/* Gather the bytes of a message into a body, which has one byte if the message
 * is empty. NULL: out of memory (logged). */
static struct na_mpi_out *na_mpi_gather(
    const struct na_mpi_class *self, const struct na_msg *msg)
{
    size_t size = msg->size > 0 ? (size_t) msg->size : 1;
    unsigned char *bytes = (unsigned char *) self->base.core->alloc(size);
    struct na_mpi_out *body = NULL;
    size_t used = 0;
    na_size_t i;

    if (bytes != NULL)
        body = na_mpi_body(self, bytes, size, bytes, NULL, NULL);
    if (body == NULL) {
        self->base.core->free(bytes);
        return NULL;
    }
    bytes[0] = 0;
    for (i = 0; i < msg->segment_count; i++) {
        size = (size_t) msg->segments[i].size;
        if (size > 0)
            memcpy(bytes + used, msg->segments[i].address, size);
        used += size;
    }
    return body;
}

/* Whether the peer has received enough to be sent more. */
static bool na_mpi_may_send(const struct na_mpi_addr *addr)
{
    return addr->offered < NA_MPI_WINDOW;
}

/* Send a message to a ready peer. */
static na_return_t na_mpi_transmit(struct na_mpi_class *self,
    struct na_mpi_addr *addr, const struct na_msg *msg)
{
    uint64_t weight = NA_MPI_HEADER + NA_MPI_COST + msg->size;
    struct na_mpi_out *packet = NULL;
    struct na_mpi_out *body = NULL;
    struct na_mpi_header header;
    size_t used = 0;
    na_size_t i;
    na_return_t ret;
    bool large =
        msg->size > NA_MPI_PAYLOAD || addr->packed >= NA_MPI_WINDOW / 2;

    if (large)
        body = na_mpi_gather(self, msg);
    if (!large || body != NULL)
        packet = na_mpi_packet(self);
    if (packet == NULL) {
        ret = NA_NOMEM;
        goto end_body;
    }
    memset(&header, 0, sizeof(header));
    header.kind = NA_MPI_MESSAGE;
    header.plane = msg->plane;
    if (body != NULL && msg->size == 0)
        header.plane |= NA_MPI_EMPTY;
    header.target = msg->target;
    header.tag = msg->tag;
    for (i = 0; body == NULL && i < msg->segment_count; i++) {
        size_t size = (size_t) msg->segments[i].size;

        if (size > 0)
            memcpy(packet->packet + NA_MPI_HEADER + used,
                msg->segments[i].address, size);
        used += size;
    }
    HG_ASSERT(used == (body == NULL ? msg->size : 0));
    addr->packed += weight;
    if (body != NULL) {
        body->weight = addr->packed;
        addr->offered += body->weight;
        addr->packed = 0;
    }
    ret = na_mpi_offer(self, addr, packet, &header, used, body);
    if (ret == NA_SUCCESS)
        return NA_SUCCESS; /* on failure the connection ends */

end_body:
    if (body != NULL) {
        self->base.core->free(body->owned);
        self->base.core->free(body);
    }
    return ret;
}

/* The result of a send to an address that is not ready. An idle address is
 * dialled. */
static na_return_t na_mpi_unready(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    addr->receives = false;
    if (addr->state == NA_MPI_IDLE)
        na_mpi_dial(self, addr, lane);
    return addr->state == NA_MPI_DEAD ? NA_DISCONNECT : NA_AGAIN;
}

static na_return_t na_mpi_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_mpi_class *self = na_mpi_of(context->na_class);
    struct na_mpi_addr *addr = na_mpi_addr_of(msg->addr);
    na_return_t ret = NA_AGAIN;
    bool queued = false;

    na_mpi_lock();
    if (addr->state != NA_MPI_READY) {
        ret = na_mpi_unready(self, addr, NA_MPI_MESSAGES);
    } else if (na_mpi_may_send(addr)) {
        HG_ASSERT(na_plug_list_empty(&addr->sends));
        ret = na_mpi_transmit(self, addr, msg);
    }
    if (ret == NA_AGAIN && op != NULL) {
        na_plug_list_push(&addr->sends, &op->link);
        queued = true;
    }
    na_mpi_unlock();
    if (queued)
        return NA_SUCCESS;
    if (ret == NA_SUCCESS && op != NULL)
        self->base.core->complete(op, NA_SUCCESS);
    return ret;
}

/* ---- Frames of RMA ---- */

static na_return_t na_mpi_frame_send(struct na_addr *base, const void *head,
    size_t head_size, const void *data, size_t size, void (*release)(void *arg),
    void *arg)
{
    struct na_mpi_class *self = na_mpi_of(base->na_class);
    struct na_mpi_addr *addr = na_mpi_addr_of(base);
    bool copied = head_size + size <= NA_MPI_PAYLOAD;
    struct na_mpi_out *body = NULL;
    struct na_mpi_out *packet = NULL;
    struct na_mpi_header header;
    na_return_t ret;

    HG_ASSERT(head_size <= NA_MPI_PAYLOAD && size <= NA_MPI_MSG_MAX);
    if (!copied) {
        body = na_mpi_body(self, data, size, NULL, release, arg);
        if (body == NULL)
            return NA_NOMEM;
    }
    memset(&header, 0, sizeof(header));
    header.kind = NA_MPI_FRAME;
    header.tag = (uint32_t) head_size;
    na_mpi_lock();
    ret = NA_SUCCESS;
    if (addr->state != NA_MPI_READY)
        ret = na_mpi_unready(self, addr, NA_MPI_FRAMES);
    if (ret == NA_SUCCESS) {
        packet = na_mpi_packet(self);
        ret = packet != NULL ? NA_SUCCESS : NA_NOMEM;
    }
    if (ret == NA_SUCCESS) {
        memcpy(packet->packet + NA_MPI_HEADER, head, head_size);
        if (copied && size > 0)
            memcpy(packet->packet + NA_MPI_HEADER + head_size, data, size);
        ret = na_mpi_offer(self, addr, packet, &header,
            copied ? head_size + size : head_size, body);
    }
    na_mpi_unlock();
    if (ret != NA_SUCCESS)
        self->base.core->free(body);
    else if (copied)
        release(arg);
    return ret;
}
