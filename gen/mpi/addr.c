/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: creation, lookup, connection and end.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

static struct na_link *na_mpi_bucket(
    struct na_mpi_class *self, int rank, unsigned number)
{
    return &self->buckets[((unsigned) rank + 61u * number) % NA_MPI_BUCKETS];
}

/* The address of a class of a peer, with a reference; NULL: none. The lock is
 * held. */
static struct na_mpi_addr *na_mpi_find(struct na_mpi_class *self,
    const struct na_mpi_channel *channel, int rank, unsigned number)
{
    struct na_link *head = na_mpi_bucket(self, rank, number);
    struct na_link *link;

    if (channel != &self->channel)
        return channel->peer != NULL &&
                self->base.core->addr_try_ref(&channel->peer->base)
            ? channel->peer
            : NULL;
    for (link = head->next; link != head; link = link->next) {
        struct na_mpi_addr *addr = NA_MPI_OF(link, struct na_mpi_addr, bucket);

        if (addr->rank == rank && addr->number == number &&
            addr->channel == channel &&
            self->base.core->addr_try_ref(&addr->base))
            return addr;
    }
    return NULL;
}

/* Create an address; without the lock. NULL: out of memory. */
static struct na_mpi_addr *na_mpi_addr_new(struct na_mpi_class *self,
    const char *name, na_bool_t is_self, struct na_mpi_channel *channel,
    int rank, unsigned number)
{
    struct na_addr *base =
        self->base.core->addr_create(&self->base, name, is_self);
    struct na_mpi_addr *addr;
    unsigned i;

    if (base == NULL)
        return NULL;
    addr = na_mpi_addr_of(base);
    na_plug_list_init(&addr->link);
    na_plug_list_init(&addr->timed);
    na_plug_list_init(&addr->receiving);
    na_plug_list_init(&addr->bucket);
    na_plug_list_init(&addr->lookups);
    na_plug_list_init(&addr->sends);
    na_plug_list_init(&addr->closers);
    for (i = 0; i < NA_MPI_LANES; i++) {
        na_plug_list_init(&addr->offers[i]);
        na_plug_list_init(&addr->inboxes[i].ins);
    }
    addr->channel = channel;
    addr->rank = rank;
    addr->number = number;
    return addr;
}

/* Add an address to the table for packets and lookups. The lock is held. */
static void na_mpi_enter(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    na_plug_list_push(
        na_mpi_bucket(self, addr->rank, addr->number), &addr->bucket);
}

static void na_mpi_addr_release(struct na_addr *base)
{
    struct na_mpi_addr *addr = na_mpi_addr_of(base);

    HG_ASSERT(na_plug_list_empty(&addr->link));
    HG_ASSERT(na_plug_list_empty(&addr->receiving));
    HG_ASSERT(na_plug_list_empty(&addr->timed));
    na_mpi_lock();
    na_plug_list_remove(&addr->bucket);
    na_mpi_channel_leave(na_mpi_of(base->na_class), addr);
    na_mpi_unlock();
    base->na_class->core->free(addr->port);
    addr->port = NULL;
}

/* A class of a process is the same peer for as long as it lives. */
static na_bool_t na_mpi_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2)
{
    uint64_t one = atomic_load_explicit(
        &na_mpi_addr_of(base1)->incarnation, memory_order_relaxed);
    uint64_t two = atomic_load_explicit(
        &na_mpi_addr_of(base2)->incarnation, memory_order_relaxed);

    return one != 0 && one == two ? NA_TRUE : NA_FALSE;
}

/* ---- Connecting ---- */

/* The class gets a reference, unless it has one; the lock is held. */
static void na_mpi_adopt(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    HG_ASSERT(!addr->base.self);
    if (!na_plug_list_empty(&addr->link))
        return;
    self->base.core->addr_ref(&addr->base);
    na_plug_list_push(&self->addrs, &addr->link);
}

/* Make poll check the address in `ms`. The lock is held. */
static void na_mpi_set_deadline(
    struct na_mpi_class *self, struct na_mpi_addr *addr, unsigned ms)
{
    addr->deadline = self->base.core->now_ns() + ms * NA_MPI_MS;
    if (na_plug_list_empty(&addr->timed))
        na_plug_list_push(&self->timed, &addr->timed);
}

static void na_mpi_dial(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    HG_ASSERT(addr->state == NA_MPI_IDLE);
    na_mpi_adopt(self, addr);
    addr->state = NA_MPI_DIALLING;
    addr->bye_sent = false;
    atomic_store(&addr->incarnation, 0);
    na_mpi_set_deadline(self, addr, self->base.info->lookup_ms);
    HG_ASSERT(addr->connect == NULL);
    addr->error = MPI_SUCCESS;
    addr->why = NULL;
    if (addr->channel != NULL)
        na_mpi_send_hello(self, addr, lane);
    else
        na_mpi_connect_start(self, addr);
}

/* Operations and bodies to complete without the lock, after an address changed
 * its state. */
struct na_mpi_end {
    bool connected;
    na_return_t closed; /* result of `closers` */
    struct na_link lookups;
    struct na_link sent; /* sends that completed */
    struct na_link sends;
    struct na_link closers;
    struct na_link bodies;
};

static void na_mpi_end_init(struct na_mpi_end *end)
{
    end->connected = false;
    end->closed = NA_SUCCESS;
    na_plug_list_init(&end->lookups);
    na_plug_list_init(&end->sent);
    na_plug_list_init(&end->sends);
    na_plug_list_init(&end->closers);
    na_plug_list_init(&end->bodies);
}

/* Complete the operations in the caller's list `ops`. Each is removed with the
 * lock held; until then it can be canceled. Without the lock. */
static void na_mpi_complete_all(struct na_mpi_class *self, struct na_link *ops,
    na_return_t ret, struct na_addr *result)
{
    for (;;) {
        struct na_link *link;
        struct na_op *op;

        na_mpi_lock();
        link = na_plug_list_pop(ops);
        na_mpi_unlock();
        if (link == NULL)
            return;
        op = NA_MPI_OF(link, struct na_op, link);
        if (result != NULL) {
            self->base.core->addr_ref(result);
            op->result_addr = result;
        }
        self->base.core->complete(op, ret);
    }
}

/* Send the messages that waited for the connection, or for the peer to receive
 * others. The lock is held. */
static void na_mpi_flush(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_end *end)
{
    while (addr->state == NA_MPI_READY && na_mpi_may_send(addr) &&
        !na_plug_list_empty(&addr->sends)) {
        struct na_op *op = NA_MPI_OF(addr->sends.next, struct na_op, link);

        if (na_mpi_transmit(self, addr, &op->msg) != NA_SUCCESS) {
            na_mpi_break(self, addr); /* the others fail with the connection */
            return;
        }
        na_plug_list_remove(&op->link);
        na_plug_list_push(&end->sent, &op->link);
    }
    if (addr->state == NA_MPI_READY && na_plug_list_empty(&addr->sends) &&
        !na_plug_list_empty(&addr->closers)) {
        addr->state = NA_MPI_CLOSING;
        na_mpi_set_deadline(self, addr, self->base.info->death_ms);
        na_mpi_send_bye(self, addr);
    }
}

/* The peer is connected, with that `incarnation`. The lock is held. */
static void na_mpi_connected(struct na_mpi_class *self,
    struct na_mpi_addr *addr, uint64_t incarnation, struct na_mpi_end *end)
{
    HG_ASSERT(addr->state == NA_MPI_IDLE || addr->state == NA_MPI_DIALLING);
    na_mpi_adopt(self, addr);
    na_plug_list_remove(&addr->timed);
    atomic_store(&addr->incarnation, incarnation);
    addr->state = NA_MPI_READY;
    addr->bye_sent = false;
    end->connected = true;
    na_plug_list_move(&end->lookups, &addr->lookups);
}

/* Complete the operations that na_mpi_connected and na_mpi_flush collected.
 * Without the lock. */
static void na_mpi_reached(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_end *end)
{
    na_mpi_return(self, &end->bodies);
    na_mpi_complete_all(self, &end->lookups, NA_SUCCESS, &addr->base);
    na_mpi_complete_all(self, &end->sent, NA_SUCCESS, NULL);
    if (end->connected)
        self->base.core->addr_connected(&addr->base, NA_SUCCESS);
}

/* ---- Ending ---- */

/* Drop packets that were not delivered and bodies that were not requested. The
 * lock is held. */
static void na_mpi_clear(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_end *end)
{
    unsigned lane;

    if (!na_plug_list_empty(&addr->offers[NA_MPI_MESSAGES]))
        end->closed = NA_DISCONNECT; /* accepted messages are lost */
    for (lane = 0; lane < NA_MPI_LANES; lane++) {
        na_plug_list_move(&end->bodies, &addr->offers[lane]);
        if (lane == NA_MPI_FRAMES)
            na_mpi_divert_all(self, addr);
        na_mpi_inbox_clear(self, &addr->inboxes[lane]);
    }
    na_mpi_connect_drop(addr);
    na_mpi_channel_leave(self, addr);
    na_plug_list_remove(&addr->receiving);
    na_plug_list_remove(&addr->timed);
    addr->broken = false;
    addr->parting = false;
    addr->offered = 0;
    addr->packed = 0;
}

/* Mark the address as dead. False: it is already, or was not connected. The
 * lock is held. */
static bool na_mpi_lose(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_end *end)
{
    if (addr->base.self || addr->state == NA_MPI_DEAD)
        return false;
    na_mpi_clear(self, addr, end);
    na_plug_list_remove(&addr->bucket);
    na_plug_list_move(&end->lookups, &addr->lookups);
    na_plug_list_move(&end->sends, &addr->sends);
    na_plug_list_move(&end->closers, &addr->closers);
    addr->state = NA_MPI_DEAD;
    return true;
}

/* Take over the class's reference. Returns whether there was one; then the
 * caller releases it. The lock is held. */
static bool na_mpi_take_ref(struct na_mpi_addr *addr)
{
    bool had = !na_plug_list_empty(&addr->link);

    na_plug_list_remove(&addr->link);
    return had;
}

/* Complete the operations that na_mpi_lose collected. `ref_taken`: see
 * na_mpi_take_ref. Without the lock. */
static void na_mpi_lost(struct na_mpi_class *self, struct na_mpi_addr *addr,
    struct na_mpi_end *end, bool ref_taken)
{
    self->base.core->log(
        HG_LOG_LEVEL_INFO, "mpi", "lost the peer %s", addr->base.name);
    na_mpi_return(self, &end->bodies);
    na_mpi_complete_all(self, &end->closers, end->closed, NULL);
    na_mpi_complete_all(self, &end->lookups, NA_HOSTUNREACH, NULL);
    na_mpi_complete_all(self, &end->sends, NA_DISCONNECT, NULL);
    self->base.core->addr_dead(&addr->base, NA_DISCONNECT);
    if (ref_taken)
        self->base.core->addr_unref(&addr->base);
}

/* End the connection for good. Without the lock. */
static void na_mpi_kill(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    struct na_mpi_end end;
    bool was_there;
    bool ref_taken = false;

    na_mpi_end_init(&end);
    na_mpi_lock();
    was_there = na_mpi_lose(self, addr, &end);
    if (was_there)
        ref_taken = na_mpi_take_ref(addr);
    na_mpi_unlock();
    if (was_there)
        na_mpi_lost(self, addr, &end, ref_taken);
}

/* A dial was not answered. Without the lock. */
static void na_mpi_unreachable(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    const struct na_core *core = self->base.core;
    struct na_mpi_end end;
    char why[MPI_MAX_ERROR_STRING] = "no answer";
    bool from_peer;
    bool receives;
    bool ref_taken;

    na_mpi_end_init(&end);
    na_mpi_lock();
    if (addr->state != NA_MPI_DIALLING) { /* answered meanwhile */
        na_mpi_unlock();
        return;
    }
    na_mpi_clear(self, addr, &end);
    addr->state = NA_MPI_IDLE;
    na_plug_list_move(&end.lookups, &addr->lookups);
    na_plug_list_move(&end.sends, &addr->sends);
    na_plug_list_move(&end.closers, &addr->closers);
    from_peer = addr->from_peer;
    receives = addr->receives;
    ref_taken = na_mpi_take_ref(addr);
    if (addr->error != MPI_SUCCESS)
        na_mpi_text(addr->error, why);
    else if (addr->why != NULL)
        (void) snprintf(why, sizeof(why), "%s", addr->why);
    na_mpi_unlock();
    if (from_peer)
        core->count(&self->base, "bad_names", 1);
    core->log(na_plug_is_quiet(&end.lookups, &end.sends) ? HG_LOG_LEVEL_INFO
            : from_peer || receives                      ? HG_LOG_LEVEL_WARNING
                                                         : HG_LOG_LEVEL_ERROR,
        "mpi", "%s cannot be reached: %s", addr->base.name, why);
    na_mpi_return(self, &end.bodies);
    na_mpi_complete_all(self, &end.closers, end.closed, NULL);
    na_mpi_complete_all(self, &end.lookups, NA_HOSTUNREACH, NULL);
    na_mpi_complete_all(self, &end.sends, NA_HOSTUNREACH, NULL);
    if (receives)
        core->addr_connected(&addr->base, NA_HOSTUNREACH);
    else
        core->addr_unreached(&addr->base, NA_HOSTUNREACH);
    if (ref_taken)
        core->addr_unref(&addr->base);
}

/* The connection was closed in order by this class. Without the lock. */
static void na_mpi_closed(struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    struct na_mpi_end end;
    bool ref_taken = false;

    na_mpi_end_init(&end);
    na_mpi_lock();
    if (addr->state != NA_MPI_CLOSING) {
        na_mpi_unlock();
        return;
    }
    if (addr->channel != &self->channel && addr->port == NULL) {
        na_mpi_unlock();
        na_mpi_kill(self, addr); /* it cannot be connected again */
        return;
    }
    na_mpi_clear(self, addr, &end);
    addr->state = NA_MPI_IDLE;
    /* Another class may listen there next. */
    atomic_store(&addr->incarnation, 0);
    na_plug_list_move(&end.closers, &addr->closers);
    if (!na_plug_list_empty(&addr->lookups) ||
        !na_plug_list_empty(&addr->sends))
        na_mpi_dial(self, addr, NA_MPI_MESSAGES);
    else
        ref_taken = na_mpi_take_ref(addr);
    na_mpi_unlock();
    na_mpi_return(self, &end.bodies);
    na_mpi_complete_all(self, &end.closers, end.closed, NULL);
    self->base.core->addr_parted(&addr->base);
    if (ref_taken)
        self->base.core->addr_unref(&addr->base);
}
