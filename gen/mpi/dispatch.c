/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch of packets: checks and delivers them. Called by the polling thread
 * without the lock.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* A received packet; borrowed. */
struct na_mpi_packet {
    bool held; /* result: out of memory, it must be dispatched again */
    struct na_mpi_channel *channel;
    int rank;
    struct na_mpi_header header;
    const unsigned char *head;
    size_t head_size;
};

/* These functions return NULL, or the reason why the packet is refused. */

/* A peer connects, or connects again. */
static const char *na_mpi_hello(
    struct na_mpi_class *self, const struct na_mpi_packet *packet)
{
    const struct na_core *core = self->base.core;
    uint64_t incarnation = packet->header.from;
    struct na_mpi_addr *fresh = NULL;
    struct na_mpi_addr *addr;
    struct na_mpi_end end;
    char name[NA_MAX_ADDR_LEN];

    na_mpi_end_init(&end);
    na_mpi_lock();
    addr =
        na_mpi_find(self, packet->channel, packet->rank, packet->header.number);
    if (addr != NULL && !addr->base.self && na_mpi_is_connected(addr) &&
        atomic_load(&addr->incarnation) != incarnation) {
        na_mpi_unlock();
        na_mpi_deliver_last(self, addr);
        na_mpi_kill(self, addr); /* its class was closed */
        core->addr_unref(&addr->base);
        addr = NULL;
        if (packet->channel != &self->channel)
            return "a second HELLO on this connection";
        na_mpi_lock();
    }
    if (addr == NULL && !self->base.listen &&
        packet->header.plane != NA_MPI_FRAMES) {
        na_mpi_unlock();
        return "it looks up a class that does not listen";
    }
    if (addr == NULL) {
        na_mpi_unlock();
        if (packet->head_size > 0 &&
            !na_mpi_hello_name(packet->head, packet->head_size, name))
            return "not a name that a listener can have";
        if (packet->head_size == 0)
            (void) na_mpi_make_name(
                self, false, packet->rank, packet->header.number, name);
        fresh = na_mpi_addr_new(self, name, NA_FALSE, packet->channel,
            packet->rank, packet->header.number);
        if (fresh == NULL)
            return NULL; /* the dialler will time out */
        if (packet->channel != &self->channel && packet->head_size > 0)
            (void) na_mpi_set_port(fresh);
        na_mpi_lock();
        addr = na_mpi_find(
            self, packet->channel, packet->rank, packet->header.number);
        if (addr == NULL && packet->channel->over) {
            na_mpi_unlock();
            core->addr_unref(&fresh->base);
            return NULL; /* the connection has ended */
        }
        if (addr == NULL) {
            addr = fresh;
            fresh = NULL;
            addr->from_peer = true;
            addr->base.stranger = !self->base.listen; /* it sends frames */
            if (packet->channel != &self->channel)
                packet->channel->peer = addr;
            na_mpi_enter(self, addr);
        }
    }
    if (addr->state == NA_MPI_IDLE || addr->state == NA_MPI_DIALLING)
        na_mpi_connected(self, addr, incarnation, &end);
    if (addr->state == NA_MPI_READY &&
        na_mpi_control(self, addr, NA_MPI_WELCOME) == NA_SUCCESS)
        na_mpi_flush(self, addr, &end);
    na_mpi_unlock();
    na_mpi_reached(self, addr, &end);
    core->addr_unref(&addr->base);
    if (fresh != NULL)
        core->addr_unref(&fresh->base);
    return NULL;
}

/* WELCOME: the answer to HELLO, perhaps after the dial was given up. */
static void na_mpi_welcome(struct na_mpi_class *self, struct na_mpi_addr *addr,
    const struct na_mpi_header *header)
{
    struct na_mpi_end end;

    na_mpi_end_init(&end);
    na_mpi_lock();
    if (header->from == self->base.incarnation) {
        addr->why = NA_PLUG_IMPOSTOR;
        na_mpi_unlock();
        na_mpi_unreachable(self, addr);
        return;
    }
    if (addr->state == NA_MPI_DIALLING || addr->state == NA_MPI_IDLE) {
        na_mpi_connected(self, addr, header->from, &end);
        na_mpi_flush(self, addr, &end);
    }
    na_mpi_unlock();
    na_mpi_reached(self, addr, &end);
}

/* BYE or GONE: the peer closes the connection after all its messages, or
 * answers a BYE. */
static void na_mpi_bye(struct na_mpi_class *self, struct na_mpi_addr *addr,
    const struct na_mpi_header *header)
{
    bool connected;
    bool closing;

    na_mpi_lock();
    connected = na_mpi_is_connected(addr);
    closing = addr->state == NA_MPI_CLOSING;
    if (connected)
        na_mpi_unpull(addr, header);
    if (connected && header->kind == NA_MPI_BYE && !addr->bye_sent)
        (void) na_mpi_control(self, addr, NA_MPI_BYE);
    na_mpi_unlock();
    if (closing)
        na_mpi_closed(self, addr);
    else if (connected)
        na_mpi_kill(self, addr);
}

/* Deliver a MESSAGE or FRAME in order, or end the connection. False: the core
 * does not take the message yet. `last`: the connection has ended. Then, and if
 * the peer ends it, the core takes all. */
static bool na_mpi_deliver(struct na_mpi_class *self, struct na_mpi_addr *addr,
    const struct na_mpi_header *header, const unsigned char *head,
    size_t head_size, const unsigned char *body, bool last)
{
    const struct na_core *core = self->base.core;
    uint8_t plane = header->plane & (uint8_t) ~NA_MPI_EMPTY;
    size_t size = body != NULL ? header->size : head_size;

    if (header->kind == NA_MPI_BYE || header->kind == NA_MPI_GONE) {
        if (!last)
            na_mpi_bye(self, addr, header);
        return true;
    }
    if (self->closing)
        return true;
    if (header->kind == NA_MPI_FRAME) {
        HG_ASSERT(header->tag <= head_size);
        core->frame_arrived(&self->base, &addr->base, head, header->tag,
            body != NULL ? body : head + header->tag,
            body != NULL ? header->size : head_size - header->tag);
        return true;
    }
    return (last || addr->parting ? core->msg_last : core->msg_arrived)(
               &self->base, &addr->base, plane, header->target, header->tag,
               body != NULL ? body : head,
               plane == header->plane ? size : 0) != NA_AGAIN;
}

HG_PRIVATE void na_mpi_deliver_last(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    struct na_mpi_in *in;

    na_mpi_lock();
    while ((in = na_mpi_inbox_take(self, addr, NA_MPI_MESSAGES)) != NULL) {
        na_mpi_unlock();
        (void) na_mpi_deliver(
            self, addr, &in->header, in->head, in->head_size, in->body, true);
        na_mpi_lock();
        na_mpi_in_free(self, in);
    }
    na_mpi_unlock();
}

/* Check the sizes and the plane of a packet of a lane. */
static const char *na_mpi_check(const struct na_mpi_packet *packet)
{
    const struct na_mpi_header *header = &packet->header;
    bool empty = (header->plane & NA_MPI_EMPTY) != 0;
    bool fits;

    switch (header->kind) {
    case NA_MPI_MESSAGE:
        if ((header->plane & ~NA_MPI_EMPTY) >= NA_MSG_PLANE_MAX)
            return "there is no such plane";
        fits = header->size <= NA_MPI_MSG_MAX &&
            (header->size == 0 || packet->head_size == 0) &&
            (!empty || header->size == 1);
        break;
    case NA_MPI_FRAME:
        fits = header->size <= NA_MPI_MSG_MAX &&
            (header->size == 0 ? header->tag <= packet->head_size
                               : header->tag == packet->head_size);
        break;
    default: fits = header->size == 0 && packet->head_size == 0; break;
    }
    return fits ? NULL : "its size is wrong";
}

/* Keep the packet of a message that the core does not take yet. It is the first
 * of its inbox: earlier ones were delivered. Without the lock. */
static void na_mpi_hold(struct na_mpi_class *self, struct na_mpi_addr *addr,
    struct na_mpi_packet *packet)
{
    na_return_t ret = NA_DISCONNECT;

    na_mpi_lock();
    if (na_mpi_is_connected(addr))
        ret = na_mpi_keep(self, addr, NA_MPI_MESSAGES, &packet->header,
            packet->head, packet->head_size);
    na_mpi_unlock();
    packet->held = ret == NA_NOMEM;
    if (ret == NA_DISCONNECT) /* it has ended meanwhile */
        (void) na_mpi_deliver(self, addr, &packet->header, packet->head,
            packet->head_size, NULL, true);
}

/* The lock is held when these functions are called, and released when they
 * return. */

/* Deliver a packet now, or when earlier packets of its lane were delivered. */
static const char *na_mpi_arrived(struct na_mpi_class *self,
    struct na_mpi_addr *addr, struct na_mpi_packet *packet)
{
    const struct na_mpi_header *header = &packet->header;
    enum na_mpi_lane lane =
        header->kind == NA_MPI_FRAME ? NA_MPI_FRAMES : NA_MPI_MESSAGES;
    const char *why = na_mpi_check(packet);
    na_return_t ret = NA_SUCCESS;
    bool waits;

    if (why != NULL) {
        na_mpi_unlock();
        return why;
    }
    waits = header->size > 0 || !na_plug_list_empty(&addr->inboxes[lane].ins);
    addr->parting = addr->parting || header->kind == NA_MPI_BYE ||
        header->kind == NA_MPI_GONE;
    if (waits && !self->closing)
        ret = na_mpi_keep(
            self, addr, lane, header, packet->head, packet->head_size);
    packet->held = ret == NA_NOMEM;
    if (ret == NA_OVERFLOW)
        why = "too much waits behind a body that does not come";
    na_mpi_unlock();
    if (!waits &&
        !na_mpi_deliver(
            self, addr, header, packet->head, packet->head_size, NULL, false))
        na_mpi_hold(self, addr, packet);
    return why;
}

/* A packet of a connected peer. */
static const char *na_mpi_dispatch_connected(struct na_mpi_class *self,
    struct na_mpi_addr *addr, struct na_mpi_packet *packet)
{
    struct na_mpi_end end;
    const char *why = NULL;

    switch (packet->header.kind) {
    case NA_MPI_RESET:
        na_mpi_unlock();
        na_mpi_deliver_last(self, addr);
        na_mpi_lock();
        na_mpi_unpull(addr, &packet->header);
        na_mpi_unlock();
        na_mpi_kill(self, addr);
        break;
    case NA_MPI_WELCOME:
        na_mpi_unlock();
        na_mpi_welcome(self, addr, &packet->header);
        break;
    case NA_MPI_PULL:
        na_mpi_end_init(&end);
        why = na_mpi_pulled(self, addr, &packet->header);
        na_mpi_flush(self, addr, &end);
        na_mpi_unlock();
        na_mpi_reached(self, addr, &end);
        break;
    default: why = na_mpi_arrived(self, addr, packet); break;
    }
    if (why != NULL) /* later bodies would be missing */
        na_mpi_addr_abandon(&addr->base);
    return why;
}

/* Whether a packet belongs to the current incarnations of both ends, and to
 * their connection unless it makes one. A class that ends the connection before
 * its HELLO was answered does not know the receiver. */
static bool na_mpi_is_current(const struct na_mpi_class *self,
    const struct na_mpi_addr *addr, const struct na_mpi_header *header)
{
    bool connected = na_mpi_is_connected(addr);

    if (header->to != self->base.incarnation &&
        !(header->to == 0 &&
            (header->kind == NA_MPI_RESET || header->kind == NA_MPI_GONE)))
        return false;
    if (header->kind == NA_MPI_WELCOME)
        return header->from != 0;
    return connected &&
        header->from ==
        atomic_load_explicit(&addr->incarnation, memory_order_relaxed);
}

/* Handle a packet other than HELLO. */
static const char *na_mpi_dispatch_known(
    struct na_mpi_class *self, struct na_mpi_packet *packet)
{
    const struct na_mpi_header *header = &packet->header;
    const struct na_core *core = self->base.core;
    struct na_mpi_addr *addr =
        na_mpi_find(self, packet->channel, packet->rank, header->number);
    const char *why = NULL;

    if (addr != NULL && na_mpi_is_current(self, addr, header)) {
        why = na_mpi_dispatch_connected(self, addr, packet);
    } else {
        na_mpi_unlock();
        core->count(&self->base, "mpi_stale", 1);
    }
    if (addr != NULL)
        core->addr_unref(&addr->base);
    return why;
}

static const char *na_mpi_dispatch_packet(
    struct na_mpi_class *self, struct na_mpi_packet *packet)
{
    const struct na_mpi_header *header = &packet->header;
    const char *why = NULL;

    if (header->version == NA_MPI_VERSION && header->kind > NA_MPI_HELLO &&
        header->kind < NA_MPI_KIND_MAX)
        return na_mpi_dispatch_known(self, packet);
    na_mpi_unlock();
    if (header->version != NA_MPI_VERSION)
        why = "it has another version of the protocol";
    else if (header->kind != NA_MPI_HELLO)
        why = "there is no such kind";
    else if (header->from == 0 || header->size != 0 ||
        (packet->head_size != 0 && !self->dynamic))
        why = "its size is wrong";
    else if (header->from == self->base.incarnation)
        why = NA_PLUG_IMPOSTOR;
    else if (!self->closing)
        why = na_mpi_hello(self, packet);
    return why;
}

/* A HELLO has made no peer: send the last packet of its connection. */
static void na_mpi_turn_away(
    struct na_mpi_class *self, const struct na_mpi_packet *packet)
{
    struct na_mpi_addr nobody;

    memset(&nobody, 0, sizeof(nobody));
    nobody.base.name = "a peer";
    nobody.channel = packet->channel;
    nobody.rank = packet->rank;
    nobody.number = packet->header.number;
    atomic_store(&nobody.incarnation, packet->header.from);
    na_mpi_lock();
    if (packet->channel->peer == NULL)
        na_mpi_channel_leave(self, &nobody);
    na_mpi_unlock();
}

/* Handle the packet in a slot. False: it must be dispatched again. */
static bool na_mpi_dispatch(struct na_mpi_class *self,
    struct na_mpi_channel *channel, const struct na_mpi_slot *slot)
{
    struct na_mpi_packet packet;
    const char *why;

    memset(&packet, 0, sizeof(packet));
    packet.channel = channel;
    packet.rank = slot->source;
    why = na_mpi_get_header(slot->bytes, slot->size, &packet.header);
    if (why == NULL) {
        channel->ended = channel->ended || packet.header.kind == NA_MPI_GONE;
        packet.head = slot->bytes + NA_MPI_HEADER;
        packet.head_size = slot->size - NA_MPI_HEADER;
        why = na_mpi_dispatch_packet(self, &packet);
        if (packet.header.kind == NA_MPI_HELLO)
            na_mpi_turn_away(self, &packet);
    } else {
        na_mpi_unlock();
    }
    if (why == NULL)
        return !packet.held;
    self->base.core->count(&self->base, "mpi_malformed", 1);
    self->base.core->log(HG_LOG_LEVEL_WARNING, "mpi",
        "refused a packet (%zu bytes) from rank %d: %s", slot->size,
        slot->source, why);
    return true;
}
