/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: packets, bodies, sends that end, and deadlines.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* Receive and handle packets; returns their number. Testing for a packet that
 * has not arrived takes MPI longer than receiving one. So a poll takes one
 * packet, or twice as many as the last one if that received the maximum. The
 * lock is held, but released while a packet is handled. */
static unsigned na_mpi_poll_packets(
    struct na_mpi_class *self, struct na_mpi_channel *channel)
{
    unsigned n = 0;

    while (n < channel->batch) {
        struct na_mpi_slot *slot = na_mpi_channel_take(self, channel);
        bool handled;

        if (slot == NULL)
            break;
        handled = na_mpi_dispatch(self, channel, slot);
        na_mpi_lock();
        if (!handled) {
            slot->held = true;
            channel->next =
                (channel->next + channel->count - 1) % channel->count;
            break;
        }
        channel->used = slot;
        n++;
    }
    if (n < channel->batch)
        channel->batch = 1;
    else if (channel->batch < NA_MPI_BATCH)
        channel->batch *= 2;
    return n;
}

/* Progress of connections; returns the number of things done. The lock is held,
 * but released while a packet is handled. */
static unsigned na_mpi_poll_connections(struct na_mpi_class *self)
{
    struct na_link *link;
    unsigned n = 0;

    if (!self->dynamic)
        return 0;
    n += na_mpi_take_accepted(self);
    n += na_mpi_take_connected(self);
    na_mpi_channels_part(self);
    na_mpi_poll_over(self);
    /* Only the polling thread adds and removes channels. */
    for (link = self->channels.next; link != &self->channels;
         link = link->next) {
        struct na_mpi_channel *channel =
            NA_MPI_OF(link, struct na_mpi_channel, link);

        if (!channel->over)
            n += na_mpi_poll_packets(self, channel);
    }
    return n;
}

/* Deliver the complete packets of an inbox; returns their number. The lock is
 * held, but released meanwhile. */
static unsigned na_mpi_poll_inbox(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    struct na_mpi_in *in;
    unsigned n = 0;

    na_mpi_pull(self, addr, lane); /* memory may have been short */
    while ((in = na_mpi_inbox_take(self, addr, lane)) != NULL) {
        bool taken;

        na_mpi_pull(self, addr, lane);
        na_mpi_unlock();
        taken = na_mpi_deliver(
            self, addr, &in->header, in->head, in->head_size, in->body, false);
        na_mpi_lock();
        if (!taken && na_mpi_is_connected(addr)) {
            na_mpi_inbox_return(self, addr, lane, in);
            break;
        }
        if (!taken) { /* the connection has ended meanwhile */
            na_mpi_unlock();
            (void) na_mpi_deliver(self, addr, &in->header, in->head,
                in->head_size, in->body, true);
            na_mpi_lock();
        }
        na_mpi_in_free(self, in);
        n++;
    }
    return n;
}

/* Deliver complete packets of inboxes; returns the number of things done. */
static unsigned na_mpi_poll_inboxes(struct na_mpi_class *self)
{
    struct na_link turn;
    struct na_link *link;
    unsigned n = 0;

    na_plug_list_init(&turn);
    na_mpi_lock();
    na_plug_list_move(&turn, &self->receiving);
    while ((link = na_plug_list_pop(&turn)) != NULL) {
        struct na_mpi_addr *addr =
            NA_MPI_OF(link, struct na_mpi_addr, receiving);
        unsigned lane;

        HG_ASSERT(na_mpi_is_connected(addr));
        self->base.core->addr_ref(&addr->base);
        for (lane = 0; lane < NA_MPI_LANES; lane++)
            n += na_mpi_poll_inbox(self, addr, (enum na_mpi_lane) lane);
        if (na_plug_list_empty(&addr->receiving) &&
            (!na_plug_list_empty(&addr->inboxes[0].ins) ||
                !na_plug_list_empty(&addr->inboxes[1].ins)))
            na_plug_list_push(&self->receiving, &addr->receiving);
        na_mpi_unlock();
        self->base.core->addr_unref(&addr->base);
        na_mpi_lock();
    }
    na_mpi_unlock();
    return n;
}

/* An address whose deadline has passed, with a reference; NULL: none. The lock
 * is held. */
static struct na_mpi_addr *na_mpi_overdue(
    struct na_mpi_class *self, uint64_t now)
{
    struct na_link *link;

    for (link = self->timed.next; link != &self->timed; link = link->next) {
        struct na_mpi_addr *addr = NA_MPI_OF(link, struct na_mpi_addr, timed);

        if (addr->deadline <= now) {
            na_plug_list_remove(&addr->timed);
            self->base.core->addr_ref(&addr->base);
            return addr;
        }
    }
    return NULL;
}

/* End unanswered dials, connections that are closing too long, and connections
 * that failed in MPI. */
static unsigned na_mpi_poll_time(struct na_mpi_class *self)
{
    uint64_t now = self->base.core->now_ns();
    unsigned n = 0;

    for (;;) {
        struct na_mpi_addr *addr;
        enum na_mpi_state state;
        bool broken;

        na_mpi_lock();
        addr = na_mpi_overdue(self, now);
        if (addr == NULL)
            break;
        state = addr->state;
        broken = addr->broken;
        na_mpi_send_reset(self, addr);
        na_mpi_unlock();
        na_mpi_deliver_last(self, addr);
        if (state == NA_MPI_DIALLING)
            na_mpi_unreachable(self, addr);
        else if (broken)
            na_mpi_kill(self, addr);
        else
            na_mpi_closed(self, addr);
        self->base.core->addr_unref(&addr->base);
        n++;
    }
    na_mpi_unlock();
    return n;
}

static unsigned na_mpi_poll(struct na_context *context)
{
    struct na_mpi_class *self = na_mpi_of(context->na_class);
    struct na_link bodies;
    bool timed;
    bool receiving;
    unsigned n;

    na_plug_list_init(&bodies);
    na_mpi_lock();
    n = na_mpi_poll_packets(self, &self->channel);
    n += na_mpi_poll_connections(self);
    n += na_mpi_reap(self, &bodies);
    timed = !na_plug_list_empty(&self->timed);
    receiving = !na_plug_list_empty(&self->receiving);
    if (!na_plug_list_empty(&self->orphans))
        na_mpi_orphans_free(self);
    na_mpi_unlock();
    na_mpi_return(self, &bodies);
    if (receiving)
        n += na_mpi_poll_inboxes(self);
    if (timed)
        n += na_mpi_poll_time(self);
    return n;
}

/* Release memory of the core that a slow peer keeps in use: copy bodies that it
 * has not requested, which go to `bodies`, and receive bodies elsewhere that it
 * has not sent. The lock is held. */
static void na_mpi_take_back(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_link *bodies)
{
    struct na_link *head = &addr->offers[NA_MPI_FRAMES];
    struct na_link *link;

    na_mpi_divert_all(self, addr);
    for (link = head->next; link != head; link = link->next) {
        struct na_mpi_out *out = NA_MPI_OF(link, struct na_mpi_out, link);
        struct na_mpi_out *lender;
        void *copy;

        if (out->release == NULL)
            continue;
        lender = na_mpi_body(self, NULL, 0, NULL, out->release, out->arg);
        copy = lender != NULL ? self->base.core->alloc(out->size) : NULL;
        if (copy == NULL) {
            self->base.core->free(lender);
            return;
        }
        memcpy(copy, out->data, out->size);
        out->data = copy;
        out->owned = copy;
        out->release = NULL;
        na_plug_list_push(bodies, &lender->link);
    }
}

/* Release memory of frames although no thread polls: requested bodies are being
 * received, and the rest is copied. */
static void na_mpi_reclaim(struct na_class *na_class)
{
    struct na_mpi_class *self = na_mpi_of(na_class);
    struct na_link bodies;
    struct na_link *link;
    unsigned i;

    na_plug_list_init(&bodies);
    na_mpi_lock();
    (void) na_mpi_reap(self, &bodies);
    for (i = 0; i < NA_MPI_BUCKETS; i++) {
        for (link = self->buckets[i].next; link != &self->buckets[i];
             link = link->next)
            na_mpi_take_back(
                self, NA_MPI_OF(link, struct na_mpi_addr, bucket), &bodies);
    }
    na_mpi_orphans_free(self);
    na_mpi_unlock();
    na_mpi_return(self, &bodies);
}

static na_return_t na_mpi_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_mpi_class *self = na_mpi_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    bool found;

    na_mpi_lock();
    found = core->op_id(op) == op_id && !na_plug_list_empty(&op->link);
    if (found)
        na_plug_list_remove(&op->link);
    na_mpi_unlock();
    if (!found)
        return NA_NOENTRY;
    core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* End the connection as if the peer had died, and send RESET. */
static void na_mpi_addr_abandon(struct na_addr *base)
{
    struct na_mpi_class *self = na_mpi_of(base->na_class);
    struct na_mpi_addr *addr = na_mpi_addr_of(base);
    bool dialling;

    na_mpi_lock();
    dialling = addr->state == NA_MPI_DIALLING;
    na_mpi_send_reset(self, addr);
    na_mpi_unlock();
    if (!dialling)
        na_mpi_kill(self, addr);
}

static na_return_t na_mpi_addr_terminate(struct na_op *op)
{
    struct na_mpi_class *self = na_mpi_of(op->context->na_class);
    struct na_mpi_addr *addr = na_mpi_addr_of(op->addr);
    struct na_mpi_end end;
    bool closed;

    na_mpi_end_init(&end);
    na_mpi_lock();
    closed = addr->base.self || addr->state == NA_MPI_IDLE ||
        addr->state == NA_MPI_DEAD;
    if (!closed) {
        na_plug_list_push(&addr->closers, &op->link);
        na_mpi_flush(self, addr, &end);
    }
    na_mpi_unlock();
    na_mpi_reached(self, addr, &end);
    if (closed)
        self->base.core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}
