/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups, from a name to a connection that said hello.
 *
 * A room of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* Let a lookup wait for a connection; the lock is held. */
static void na_zmq_join(
    struct na_zmq_class *self, struct na_zmq_addr *addr, struct na_op *op)
{
    assert(addr->endpoint != NULL && addr->state != NA_ZMQ_DEAD);
    if (addr->state == NA_ZMQ_DYING || addr->state == NA_ZMQ_LEAVING) {
        na_zmq_list_push(&addr->late, &op->link);
        return;
    }
    na_zmq_list_push(&addr->lookups, &op->link);
    if (addr->state == NA_ZMQ_IDLE)
        na_zmq_dial(self, addr);
}

/* Find or dial the peer behind an endpoint. */
HG_PRIVATE na_return_t na_zmq_find_peer(struct na_op *op, const char *endpoint)
{
    struct na_zmq_class *self = na_zmq_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    struct na_zmq_addr *fresh = NULL;
    struct na_zmq_addr *addr;
    char name[NA_MAX_ADDR_LEN + 8];
    bool found;

    na_zmq_lock(self);
    na_zmq_read_monitor(self); /* a peer known to be dead is no answer */
    addr = na_zmq_find(self, NA_ZMQ_BY_ENDPOINT, endpoint, strlen(endpoint));
    while (addr == NULL && fresh == NULL) {
        na_zmq_unlock(self);
        (void) snprintf(name, sizeof(name), "zmq+%s://%s", self->base.protocol,
            strstr(endpoint, "://") + 3 + strlen(self->source));
        fresh = na_zmq_addr_new(self, name, NA_FALSE, endpoint);
        if (fresh == NULL)
            return NA_NOMEM;
        na_zmq_lock(self);
        addr =
            na_zmq_find(self, NA_ZMQ_BY_ENDPOINT, endpoint, strlen(endpoint));
    }
    if (addr == NULL) {
        addr = fresh;
        fresh = NULL;
        na_zmq_enter(self, addr, NA_ZMQ_BY_ENDPOINT);
        na_zmq_list_push(&self->addrs, &addr->link);
    }
    found = addr->state == NA_ZMQ_READY || addr->state == NA_ZMQ_CLOSING;
    if (found) {
        core->addr_ref(&addr->base);
        op->result_addr = &addr->base;
    } else
        na_zmq_join(self, addr, op);
    na_zmq_unlock(self);
    if (fresh != NULL)
        core->addr_unref(&fresh->base);
    if (found) /* else it may have ended already */
        core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

static na_return_t na_zmq_addr_lookup(struct na_op *op)
{
    struct na_zmq_class *self = na_zmq_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    const char *mark = strstr(op->name, "://");
    const char *rest = mark != NULL ? mark + 3 : "";
    const char *scheme = op->name;
    char endpoint[NA_MAX_ADDR_LEN];
    na_return_t ret;

    if (strncmp(scheme, "zmq+", 4) == 0)
        scheme += 4;
    if (mark == NULL) {
        core->log(HG_LOG_LEVEL_ERROR, "zmq", "'%s' lacks its \"://%s\"",
            op->name, self->protocol == NA_ZMQ_TCP ? "host:port" : "name");
        return NA_INVALID_ARG;
    }
    if (strncmp(scheme, self->base.protocol, (size_t) (mark - scheme)) != 0) {
        core->log(HG_LOG_LEVEL_ERROR, "zmq",
            "'%s': this class was opened for zmq+%s", op->name,
            self->base.protocol);
        return NA_PROTONOSUPPORT;
    }
    if (strcmp(scheme, self->base.self_addr->name + 4) == 0) {
        core->addr_ref(self->base.self_addr);
        op->result_addr = self->base.self_addr;
        core->complete(op, NA_SUCCESS);
        return NA_SUCCESS;
    }
    ret = na_zmq_endpoint(self, rest, endpoint);
    if (ret == NA_HOSTUNREACH) {
        core->complete(op, ret);
        return NA_SUCCESS;
    }
    return ret == NA_SUCCESS ? na_zmq_find_peer(op, endpoint) : ret;
}
