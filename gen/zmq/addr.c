/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: creation, comparison, reference counts and states.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* ---- Addresses ---- */

/* Create an address; without the lock. NULL: out of memory. */
static struct na_zmq_addr *na_zmq_addr_new(struct na_zmq_class *self,
    const char *name, na_bool_t is_self, const char *endpoint)
{
    const struct na_core *core = self->base.core;
    struct na_addr *base = core->addr_create(&self->base, name, is_self);
    struct na_zmq_addr *addr;

    if (base == NULL)
        return NULL;
    addr = na_zmq_addr_of(base);
    na_plug_list_init(&addr->link);
    na_plug_list_init(&addr->dying);
    na_plug_list_init(&addr->lookups);
    na_plug_list_init(&addr->sends);
    na_plug_list_init(&addr->closers);
    na_plug_list_init(&addr->held);
    na_plug_list_init(&addr->holding);
    addr->fd = -1;
    if (endpoint != NULL) {
        size_t size = strlen(endpoint) + 1;

        addr->endpoint = (char *) core->alloc(size);
        if (addr->endpoint == NULL) {
            core->addr_unref(base);
            return NULL;
        }
        memcpy(addr->endpoint, endpoint, size);
    }
    return addr;
}

/* The class gets a reference, unless it has one; the lock is held. */
static void na_zmq_adopt(struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    if (!na_plug_list_empty(&addr->link))
        return;
    self->base.core->addr_ref(&addr->base);
    na_plug_list_push(&self->addrs, &addr->link);
}

/* Takes the lock only for an idle address, which was never connected: the class
 * holds a reference to a connected one until it is dead. Therefore libzmq may
 * release borrowed bytes, and a reference with them, with the lock held: only
 * connected addresses lend bytes. */
static void na_zmq_addr_release(struct na_addr *base)
{
    struct na_zmq_class *self = na_zmq_of(base->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(base);

    HG_ASSERT(atomic_load(&addr->flight) == 0);
    if (addr->state == NA_ZMQ_IDLE && addr->endpoint != NULL &&
        self->socket != NULL) {
        (void) pthread_mutex_lock(&self->lock);
        na_zmq_remove(self, addr, NA_ZMQ_BY_ENDPOINT);
        (void) pthread_mutex_unlock(&self->lock);
    }
    HG_ASSERT(addr->query == NULL);
    if (addr->dialled != addr->endpoint) /* the class was closed */
        self->base.core->free(addr->dialled);
    addr->dialled = NULL;
    self->base.core->free(addr->endpoint);
    addr->endpoint = NULL;
}

/* The process of an address; 0: unknown. Peers know the number of this class:
 * one that connects with it is not taken for this class. */
static uint64_t na_zmq_process(const struct na_addr *base)
{
    const struct na_zmq_addr *addr = na_zmq_addr_of(base);
    uint64_t process =
        atomic_load_explicit(&addr->incarnation, memory_order_relaxed);

    return process == base->na_class->incarnation && !base->self &&
            addr->endpoint == NULL
        ? ~process
        : process;
}

/* A process is the same peer through any connection. */
static na_bool_t na_zmq_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2)
{
    uint64_t one = na_zmq_process(base1);

    return one != 0 && one == na_zmq_process(base2) ? NA_TRUE : NA_FALSE;
}

/* Make a name for a peer that sent none. */
static void na_zmq_unique_name(
    struct na_zmq_class *self, char name[NA_MAX_ADDR_LEN])
{
    (void) snprintf(name, NA_MAX_ADDR_LEN, "zmq+%s://peer-%016" PRIx64,
        self->base.protocol, self->base.core->random());
}

/* Why a dial failed, as far as libzmq and the name server show it. */
static const char *na_zmq_why(
    const struct na_zmq_class *self, const struct na_zmq_addr *addr)
{
    const char *path = addr->endpoint + strlen("ipc://");
    bool silent = addr->deadline != NA_ZMQ_NEVER &&
        self->base.core->now_ns() + NA_ZMQ_DIAL_MS * NA_ZMQ_MS >=
            addr->deadline;

    if (addr->query != NULL) {
        const char *why = na_plug_why(addr->query, addr->query->taken);

        if (why != NULL)
            return why;
    }
    if (addr->fd >= 0)
        return silent
            ? "a process listens there, but does not answer as hg"
            : "the process that listens there closed the connection: it is not "
              "hg, or has no descriptor left";
    if (silent)
        return "no answer";
    if (self->protocol == NA_ZMQ_TCP)
        return "refused or unreachable";
    if (self->protocol == NA_ZMQ_IPC && path[0] != '@' &&
        access(path, W_OK) != 0)
        return zmq_strerror(errno);
    return "nobody listens there";
}

/* Whether all messages were received that had arrived before an event, which
 * was read in `round`. Events are read after messages, so they were received at
 * the latest in the next round. If other peers send continuously, a limited
 * number of rounds must suffice. */
static bool na_zmq_is_past(const struct na_zmq_class *self, uint64_t round)
{
    return self->drained > round || self->round > round + NA_ZMQ_BATCH;
}

/* Whether a message was received after all those that had arrived before an
 * event, which was read in `round`: na_zmq_is_past was true before. */
static bool na_zmq_is_before(uint64_t round, const struct na_zmq_in *in)
{
    return round < in->past;
}

/* Start to end a connection; na_zmq_end follows when its messages were read. */
static void na_zmq_begin_end(
    struct na_zmq_class *self, struct na_zmq_addr *addr, na_return_t lookup_ret)
{
    HG_ASSERT(na_plug_list_empty(&addr->dying));
    addr->state = NA_ZMQ_DYING;
    addr->lookup_ret = lookup_ret;
    addr->round = self->round;
    na_plug_list_push(&self->dying, &addr->dying);
}

/* The connection ended, or is unusable. */
static void na_zmq_lose(
    struct na_zmq_class *self, struct na_zmq_addr *addr, na_return_t lookup_ret)
{
    if (addr->state == NA_ZMQ_IDLE || addr->state >= NA_ZMQ_DYING)
        return;
    if (addr->state == NA_ZMQ_DIALLING && lookup_ret == NA_HOSTUNREACH)
        addr->why = na_zmq_why(self, addr);
    addr->closing = addr->state == NA_ZMQ_CLOSING;
    addr->again = addr->state == NA_ZMQ_DIALLING &&
        lookup_ret == NA_HOSTUNREACH && na_plug_has_next(addr->query) &&
        self->base.core->now_ns() < addr->limit;
    addr->failed = addr->state == NA_ZMQ_DIALLING && !addr->reached;
    na_zmq_begin_end(self, addr, lookup_ret);
}

/* Whether libzmq has a message. Lets it process its commands. */
static bool na_zmq_readable(struct na_zmq_class *self)
{
    int events = 0;
    size_t size = sizeof(events);

    while (zmq_getsockopt(self->socket, ZMQ_EVENTS, &events, &size) != 0) {
        if (errno != EINTR)
            return false;
    }
    self->touched = (events & ZMQ_POLLIN) != 0;
    return self->touched;
}

/* Close this side of a connection. libzmq drops its queued messages. */
static void na_zmq_hang_up(struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    HG_ASSERT(addr->fd < 0 || (size_t) addr->fd < self->fd_count);
    if (addr->fd >= 0 && self->fds[addr->fd].last_hello == addr)
        self->fds[addr->fd].last_hello = NULL;
    if (addr->fd >= 0 && self->fds[addr->fd].owner == addr) {
        self->fds[addr->fd].owner = NULL;
        if (addr->dialled) /* libzmq sends no event for connections that it
                              closes */
            self->fds[addr->fd].live = false;
    }
    addr->fd = -1;
    if (!addr->dialled)
        return;
    (void) zmq_disconnect(self->socket, addr->dialled);
    na_zmq_remove(self, addr, NA_ZMQ_BY_DIALLED);
    if (addr->dialled != addr->endpoint)
        self->base.core->free(addr->dialled);
    addr->dialled = NULL;
    (void) na_zmq_readable(self);
}

/* ---- The lock ---- */

static void na_zmq_lock(struct na_zmq_class *self)
{
    int rc = pthread_mutex_lock(&self->lock);

    HG_ASSERT(rc == 0);
    (void) rc;
}

static bool na_zmq_has_work(struct na_zmq_class *self)
{
    return !na_plug_list_empty(&self->inbox) ||
        atomic_load(&self->frame_retry) || !na_plug_list_empty(&self->dying) ||
        na_plug_has_news(self->resolver) ||
        (self->touched && na_zmq_readable(self));
}

/* Unlock after using the socket. A call on the socket may have cleared the
 * readiness of its descriptor that a sleeping thread waits for, so that thread
 * is woken. */
static void na_zmq_unlock(struct na_zmq_class *self)
{
    bool wake = self->sleepers > 0 &&
        (self->tick < self->timer || na_zmq_has_work(self));
    int rc = pthread_mutex_unlock(&self->lock);

    HG_ASSERT(rc == 0);
    (void) rc;
    if (wake)
        self->base.core->wake(&self->base);
}
