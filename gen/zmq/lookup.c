/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups, from a name to a connection with a completed handshake.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* Make a lookup wait for a connection; the lock is held. */
static void na_zmq_join(
    struct na_zmq_class *self, struct na_zmq_addr *addr, struct na_op *op)
{
    HG_ASSERT(addr->endpoint != NULL && addr->state != NA_ZMQ_DEAD);
    na_plug_list_push(&addr->lookups, &op->link);
    addr->receives = false;
    if (addr->state == NA_ZMQ_IDLE)
        na_zmq_dial(self, addr);
}

/* The address of an endpoint, with a reference. An address whose last reference
 * was released, or whose connection ended so that it cannot be dialled again,
 * is removed from the table: NULL. The lock is held. */
static struct na_zmq_addr *na_zmq_known(
    struct na_zmq_class *self, const char *endpoint)
{
    struct na_zmq_addr *addr =
        na_zmq_find(self, NA_ZMQ_BY_ENDPOINT, endpoint, strlen(endpoint));

    if (addr == NULL)
        return NULL;
    if (addr->state == NA_ZMQ_LEAVING ||
        (addr->state == NA_ZMQ_DYING && !addr->closing && !addr->failed)) {
        na_zmq_lose(self, addr, NA_DISCONNECT);
        /* Its messages would be lost when the connection is closed. */
        na_zmq_pump(self);
        na_zmq_hang_up(self, addr);
    } else if (self->base.core->addr_try_ref(&addr->base)) {
        return addr;
    }
    na_zmq_remove(self, addr, NA_ZMQ_BY_ENDPOINT);
    return NULL;
}

/* Find the peer of an endpoint, which may have a host name (`named`). With
 * `op`, a lookup that waits if the peer is not connected, *addr_p may become
 * NULL. */
static na_return_t na_zmq_find_peer(struct na_zmq_class *self,
    const char *endpoint, bool named, na_bool_t from_peer, struct na_op *op,
    struct na_addr **addr_p)
{
    const struct na_core *core = self->base.core;
    struct na_zmq_addr *fresh = NULL;
    struct na_zmq_addr *addr;
    char name[NA_MAX_ADDR_LEN + 8];
    bool joins;

    na_zmq_lock(self);
    if (!from_peer)
        na_zmq_read_monitor(self); /* detect dead peers first */
    addr = na_zmq_known(self, endpoint);
    while (addr == NULL && fresh == NULL) {
        na_zmq_unlock(self);
        (void) snprintf(name, sizeof(name), "zmq+%s://%s", self->base.protocol,
            strstr(endpoint, "://") + 3 + strlen(self->source));
        fresh = na_zmq_addr_new(self, name, NA_FALSE, endpoint);
        if (fresh == NULL)
            return NA_NOMEM;
        fresh->named = named;
        na_zmq_lock(self);
        addr = na_zmq_known(self, endpoint);
    }
    if (addr == NULL) {
        addr = fresh;
        fresh = NULL;
        addr->from_peer = true;
        na_zmq_enter(self, addr, NA_ZMQ_BY_ENDPOINT);
    }
    if (!from_peer)
        addr->from_peer = false;
    joins = op != NULL && addr->state != NA_ZMQ_READY &&
        addr->state != NA_ZMQ_CLOSING;
    if (joins)
        na_zmq_join(self, addr, op);
    na_zmq_unlock(self);
    if (fresh != NULL)
        core->addr_unref(&fresh->base);
    if (joins) /* the class has its own reference */
        core->addr_unref(&addr->base);
    else
        *addr_p = &addr->base;
    return NA_SUCCESS;
}

/* Find the peer of an address string, like na_zmq_find_peer. */
static na_return_t na_zmq_seek(struct na_zmq_class *self, const char *string,
    na_bool_t from_peer, struct na_op *op, struct na_addr **addr_p)
{
    const struct na_core *core = self->base.core;
    int level = from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
    const char *mark = strstr(string, "://");
    const char *scheme = string;
    char endpoint[NA_MAX_ADDR_LEN];
    bool named;
    na_return_t ret;

    if (strncmp(scheme, "zmq+", 4) == 0)
        scheme += 4;
    if (mark == NULL) {
        core->log(level, "zmq", "'%s' lacks its \"://%s\"", string,
            self->protocol == NA_ZMQ_TCP ? "host:port" : "name");
        return NA_INVALID_ARG;
    }
    if (strncmp(scheme, self->base.protocol, (size_t) (mark - scheme)) != 0) {
        core->log(level, "zmq", "'%s': this class was opened for zmq+%s",
            string, self->base.protocol);
        return NA_PROTONOSUPPORT;
    }
    if (strcmp(scheme, self->base.self_addr->name + 4) == 0) {
        core->addr_ref(self->base.self_addr);
        *addr_p = self->base.self_addr;
        return NA_SUCCESS;
    }
    ret = na_zmq_endpoint(self, mark + 3, from_peer, endpoint, &named);
    return ret == NA_SUCCESS
        ? na_zmq_find_peer(self, endpoint, named, from_peer, op, addr_p)
        : ret;
}

static na_return_t na_zmq_addr_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    return na_zmq_seek(na_zmq_of(na_class), name, from_peer, NULL, addr_p);
}

/* A receive waits for messages of the address. */
static na_bool_t na_zmq_addr_connect(struct na_addr *base)
{
    struct na_zmq_class *self = na_zmq_of(base->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(base);
    bool dialling;

    na_zmq_lock(self);
    if (addr->state == NA_ZMQ_IDLE) {
        addr->receives = true;
        na_zmq_dial(self, addr);
    }
    dialling = addr->state == NA_ZMQ_DIALLING;
    na_zmq_unlock(self);
    return dialling ? NA_TRUE : NA_FALSE;
}

static na_return_t na_zmq_addr_lookup(struct na_op *op)
{
    struct na_zmq_class *self = na_zmq_of(op->context->na_class);
    struct na_addr *addr = NULL;
    na_return_t ret = na_zmq_seek(self, op->name, NA_FALSE, op, &addr);

    if (addr == NULL)
        return ret; /* the lookup may have ended */
    op->result_addr = addr;
    self->base.core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}
