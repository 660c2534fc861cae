/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a connection after its last message was delivered.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* A dying address whose messages were all delivered, or NULL; the lock is
 * held. */
static struct na_zmq_addr *na_zmq_next_drained(struct na_zmq_class *self)
{
    struct na_link *link;

    for (link = self->dying.next; link != &self->dying; link = link->next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, dying);

        if (na_zmq_is_past(self, addr->round))
            return addr;
    }
    return NULL;
}

/* Log that a connection was lost or, with `why`, that an address cannot be
 * reached. */
static void na_zmq_log_end(struct na_zmq_class *self,
    const struct na_zmq_addr *addr, const char *why, bool from_peer, int level)
{
    const struct na_core *core = self->base.core;

    if (addr->reached)
        core->log(
            HG_LOG_LEVEL_INFO, "zmq", "lost the peer %s", addr->base.name);
    if (why == NULL)
        return;
    if (from_peer)
        core->count(&self->base, "bad_names", 1);
    core->log(level, "zmq", "%s cannot be reached: %s", addr->base.name, why);
}

/* Whether the next number of a host name is dialled instead of ending an
 * address. Then its sends and lookups wait further. The lock is held. */
static bool na_zmq_dial_again(
    struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    if (!addr->again)
        return false;
    na_plug_log_failed(addr->query, "zmq", addr->why);
    addr->again = false;
    addr->failed = false;
    atomic_store(&addr->incarnation, 0);
    na_zmq_dial(self, addr);
    return true;
}

/* End a connection. An address that was closed in order or could not be
 * connected becomes idle, any other becomes dead. */
static void na_zmq_end(struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    const struct na_core *core = self->base.core;
    na_return_t lookup_ret = addr->lookup_ret;
    na_return_t ret = addr->reached ? NA_DISCONNECT : lookup_ret;
    const char *why = NULL;
    bool closed, failed, from_peer, receives;
    struct na_link lookups, sends, closers;

    na_plug_list_init(&lookups);
    na_plug_list_init(&sends);
    na_plug_list_init(&closers);
    (void) na_zmq_offer_held(self, addr, true);
    na_zmq_lock(self);
    HG_ASSERT(addr->state == NA_ZMQ_DYING && !na_plug_list_empty(&addr->dying));
    na_zmq_hang_up(self, addr);
    na_plug_list_remove(&addr->dying);
    na_zmq_remove(self, addr, NA_ZMQ_BY_ID);
    addr->open = false;
    if (na_zmq_dial_again(self, addr)) {
        na_zmq_unlock(self);
        return;
    }
    na_plug_drop(addr->query);
    addr->query = NULL;
    closed = addr->closing && addr->endpoint != NULL;
    failed = addr->failed;
    from_peer = addr->from_peer;
    receives = addr->receives;
    if (!addr->reached)
        why = addr->why; /* another thread may dial it, once it is idle */
    addr->state = closed || failed ? NA_ZMQ_IDLE : NA_ZMQ_DEAD;
    if (addr->state == NA_ZMQ_IDLE) /* another process may listen there next */
        atomic_store(&addr->incarnation, 0);
    na_plug_list_move(&closers, &addr->closers);
    if (closed) {
        HG_ASSERT(addr->fd < 0 && !addr->dialled);
        if (!na_plug_list_empty(&addr->lookups) ||
            !na_plug_list_empty(&addr->sends))
            na_zmq_dial(self, addr);
    } else {
        if (!failed && addr->endpoint != NULL)
            na_zmq_remove(self, addr, NA_ZMQ_BY_ENDPOINT);
        na_plug_list_remove(&addr->link);
        na_plug_list_move(&lookups, &addr->lookups);
        na_plug_list_move(&sends, &addr->sends);
    }
    na_zmq_unlock(self);
    na_zmq_complete_all(self, &closers, NA_SUCCESS, NULL);
    if (closed) {
        core->addr_parted(&addr->base);
        return;
    }
    na_zmq_log_end(self, addr, why, from_peer,
        na_plug_is_quiet(&lookups, &sends) ? HG_LOG_LEVEL_INFO
            : from_peer || receives        ? HG_LOG_LEVEL_WARNING
                                           : HG_LOG_LEVEL_ERROR);
    na_zmq_complete_all(self, &lookups, lookup_ret, NULL);
    na_zmq_complete_all(self, &sends, ret, NULL);
    if (failed && receives)
        core->addr_connected(&addr->base, ret);
    else if (failed)
        core->addr_unreached(&addr->base, ret);
    else
        core->addr_dead(&addr->base, ret);
    core->addr_unref(&addr->base);
}
