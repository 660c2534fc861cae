/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timed events: end of lookups, probes, silent peers.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* Close a connection whose peer does not read. */
static void na_zmq_close_stalled(
    struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    HG_ASSERT(self->protocol == NA_ZMQ_IPC && addr->reached);
    self->base.core->log(HG_LOG_LEVEL_WARNING, "zmq",
        "%s has read nothing for %" PRIu64 " ms: closing", addr->base.name,
        self->death / NA_ZMQ_MS);
    self->base.core->count(&self->base, "zmq_stalled", 1);
    if (addr->dialled)
        na_zmq_lose(self, addr, NA_DISCONNECT);
    else
        na_zmq_close_accepted(self, addr);
}

/* Output that a stopped peer blocks also delays libzmq's heartbeats, and on ipc
 * the system does not time out either. So a probe, lent to libzmq, follows the
 * output: when libzmq releases it, the output before it was sent. */
static void na_zmq_probe(
    struct na_zmq_class *self, struct na_zmq_addr *addr, uint64_t now)
{
    static unsigned char bytes[NA_ZMQ_HEADER] = {
        'h', 'z', NA_ZMQ_VERSION, NA_ZMQ_PROBE};
    uint64_t since = atomic_load(&addr->probed);
    zmq_msg_t part;

    if (since != 0 && atomic_exchange(&addr->heard, false)) {
        (void) atomic_compare_exchange_strong(&addr->probed, &since, now);
        since = now;
    }
    if (since != 0 && now - since > self->death) {
        na_zmq_close_stalled(self, addr);
    } else if (since == 0 && addr->sent &&
        na_zmq_lend(addr, bytes, sizeof(bytes), 0, &part) != NULL) {
        atomic_store(&addr->heard, false);
        atomic_store(&addr->probed, now);
        (void) na_zmq_put_one(self, addr, &part);
        addr->sent = false;
    }
}

/* Close connections whose peer did not send HELLO in time: they use descriptors
 * of the process. Called by the polling thread after it delivered received
 * messages. A HELLO may be among unread messages, so those are read first, but
 * only for a limited time, since other peers may send continuously. The lock is
 * held. */
static void na_zmq_close_silent(struct na_zmq_class *self)
{
    uint64_t now = self->base.core->now_ns();
    uint64_t check = NA_ZMQ_NEVER;
    size_t fd;

    if ((self->drained != self->round || !na_plug_list_empty(&self->inbox)) &&
        self->round < self->hello_round + NA_ZMQ_BATCH)
        return;
    na_zmq_read_monitor(self);
    for (fd = 0; fd < self->fd_count; fd++) {
        struct na_zmq_fd *record = &self->fds[fd];

        if (!record->live || record->accepted == 0)
            continue;
        if (now < record->accepted + self->hello_limit) {
            if (record->accepted + self->hello_limit < check)
                check = record->accepted + self->hello_limit;
        } else {
            na_zmq_reject(self, fd);
            self->base.core->count(&self->base, "zmq_silent", 1);
        }
    }
    /* Handle many connections together. */
    if (check != NA_ZMQ_NEVER && check < now + self->hello_limit / 16)
        check = now + self->hello_limit / 16;
    self->hello_check = check;
    self->hello_round = 0;
}

/* Handle timed events, and compute the time of the next one. */
static void na_zmq_tick(struct na_zmq_class *self, uint64_t now)
{
    struct na_link *link;
    struct na_link *next;
    uint64_t tick = self->hello_check;

    self->tick = NA_ZMQ_NEVER;
    if (self->hello_check <= now && self->hello_round == 0)
        self->hello_round = self->round;
    for (link = self->addrs.next; link != &self->addrs; link = next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, link);

        next = link->next;
        if (addr->state == NA_ZMQ_DIALLING && addr->fd < 0) {
            if (addr->deadline <= now)
                na_zmq_lose(self, addr, NA_HOSTUNREACH);
            if (addr->state == NA_ZMQ_DIALLING && addr->deadline < tick)
                tick = addr->deadline;
        } else if (self->protocol == NA_ZMQ_IPC &&
            addr->state >= NA_ZMQ_READY && addr->state <= NA_ZMQ_LEAVING) {
            na_zmq_probe(self, addr, now);
            if ((addr->sent || atomic_load(&addr->probed) != 0) &&
                now + self->death / 4 < tick)
                tick = now + self->death / 4;
        }
    }
    if (tick < self->tick)
        self->tick = tick;
}

/* End connections to classes of this process that were closed. */
static void na_zmq_check_inproc(struct na_zmq_class *self)
{
    unsigned epoch = atomic_load(&na_zmq_inproc.epoch);
    struct na_link *link;

    if (self->protocol != NA_ZMQ_INPROC || epoch == self->epoch)
        return;
    self->epoch = epoch;
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, link);

        if (na_zmq_inproc_find(NULL, atomic_load(&addr->incarnation)) == 0)
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
    }
}
