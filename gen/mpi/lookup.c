/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups, from a name to a connected peer.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* The peer that an address string names. */
struct na_mpi_target {
    int rank;
    unsigned number;
    bool apart;                 /* in another process, reached by `port` */
    char port[NA_MAX_ADDR_LEN]; /* dynamic */
};

/* Find the address of the target, with a reference; NULL: none. The lock is
 * held. */
static struct na_mpi_addr *na_mpi_known(
    struct na_mpi_class *self, const struct na_mpi_target *target)
{
    struct na_link *head = na_mpi_bucket(self, 0, target->number);
    struct na_link *link;

    if (!target->apart)
        return na_mpi_find(self, &self->channel, target->rank, target->number);
    for (link = head->next; link != head; link = link->next) {
        struct na_mpi_addr *addr = NA_MPI_OF(link, struct na_mpi_addr, bucket);

        if (addr->port != NULL && addr->number == target->number &&
            strcmp(addr->port, target->port) == 0 &&
            self->base.core->addr_try_ref(&addr->base))
            return addr;
    }
    return NULL;
}

/* Find or create the address of the target, with a reference. `name` is its
 * address string. NULL: out of memory (logged). Without the lock. */
static struct na_mpi_addr *na_mpi_get_addr(struct na_mpi_class *self,
    const struct na_mpi_target *target, const char *name, na_bool_t from_peer)
{
    struct na_mpi_addr *fresh = NULL;
    struct na_mpi_addr *addr;

    na_mpi_lock();
    addr = na_mpi_known(self, target);
    na_mpi_unlock();
    if (addr == NULL) {
        fresh = na_mpi_addr_new(self, name, NA_FALSE,
            target->apart ? NULL : &self->channel, target->rank,
            target->number);
        if (fresh != NULL && target->apart &&
            na_mpi_set_port(fresh) != NA_SUCCESS) {
            self->base.core->addr_unref(&fresh->base);
            fresh = NULL;
        }
        if (fresh == NULL)
            return NULL;
    }
    na_mpi_lock();
    if (addr == NULL)
        addr = na_mpi_known(self, target);
    if (addr == NULL) {
        addr = fresh;
        fresh = NULL;
        addr->from_peer = true;
        na_mpi_enter(self, addr);
    }
    if (!from_peer)
        addr->from_peer = false;
    na_mpi_unlock();
    if (fresh != NULL)
        self->base.core->addr_unref(&fresh->base);
    return addr;
}

/* Parse the part behind "://", and write the name in standard form.
 * NA_INVALID_ARG, NA_HOSTUNREACH (logged). */
static na_return_t na_mpi_parse_target(const struct na_mpi_class *self,
    na_bool_t from_peer, const char *rest, struct na_mpi_target *target,
    char name[NA_MAX_ADDR_LEN])
{
    na_return_t ret;

    memset(target, 0, sizeof(*target));
    if (self->dynamic) {
        if (!na_mpi_port_parse(rest, target->port, &target->number))
            return na_plug_bad_name(&self->base, "mpi", from_peer, rest,
                "not the address that a listener has");
        target->apart = strcmp(target->port, na_mpi_port.name) != 0;
        return na_mpi_port_name(self, target->port, target->number, name);
    }
    ret = na_mpi_parse(self, from_peer, rest, &target->rank, &target->number);
    if (ret == NA_SUCCESS && target->rank >= self->ranks) {
        self->base.core->log(
            from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "mpi",
            "mpi+static://%s cannot be reached: the communicator has %d ranks",
            rest, self->ranks);
        return NA_HOSTUNREACH;
    }
    if (ret == NA_SUCCESS)
        na_mpi_name(name, target->rank, target->number);
    return ret;
}

static na_return_t na_mpi_addr_resolve(struct na_class *na_class,
    const char *string, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct na_mpi_class *self = na_mpi_of(na_class);
    int level = from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
    const char *scheme = strncmp(string, "mpi+", 4) == 0 ? string + 4 : string;
    const char *mark = strstr(scheme, "://");
    char name[NA_MAX_ADDR_LEN];
    struct na_mpi_target target;
    struct na_mpi_addr *addr;
    na_return_t ret;

    if (mark == NULL) {
        na_class->core->log(level, "mpi", "'%s' lacks its \"://%s\"", string,
            self->dynamic ? "port" : "RANK");
        return NA_INVALID_ARG;
    }
    if (strncmp(scheme, na_class->protocol, (size_t) (mark - scheme)) != 0) {
        na_class->core->log(level, "mpi",
            "'%s': this class was opened for mpi+%s", string,
            na_class->protocol);
        return NA_PROTONOSUPPORT;
    }
    if (strcmp(mark, strstr(na_class->self_addr->name, "://")) == 0) {
        na_class->core->addr_ref(na_class->self_addr);
        *addr_p = na_class->self_addr;
        return NA_SUCCESS;
    }
    ret = na_mpi_parse_target(self, from_peer, mark + 3, &target, name);
    if (ret != NA_SUCCESS)
        return ret;
    addr = na_mpi_get_addr(self, &target, name, from_peer);
    if (addr == NULL)
        return NA_NOMEM;
    *addr_p = &addr->base;
    return NA_SUCCESS;
}

/* A receive waits for messages of the address. */
static na_bool_t na_mpi_addr_connect(struct na_addr *base)
{
    struct na_mpi_addr *addr = na_mpi_addr_of(base);
    bool dialling;

    na_mpi_lock();
    if (addr->state == NA_MPI_IDLE) {
        addr->receives = true;
        na_mpi_dial(na_mpi_of(base->na_class), addr, NA_MPI_MESSAGES);
    }
    dialling = addr->state == NA_MPI_DIALLING;
    na_mpi_unlock();
    return dialling ? NA_TRUE : NA_FALSE;
}

static na_return_t na_mpi_addr_lookup(struct na_op *op)
{
    struct na_mpi_class *self = na_mpi_of(op->context->na_class);
    struct na_addr *base = NULL;
    struct na_mpi_addr *addr;
    na_return_t ret =
        na_mpi_addr_resolve(&self->base, op->name, NA_FALSE, &base);
    bool waits;

    if (ret == NA_HOSTUNREACH) {
        self->base.core->complete(op, ret);
        return NA_SUCCESS;
    }
    if (ret != NA_SUCCESS)
        return ret;
    addr = na_mpi_addr_of(base);
    na_mpi_lock();
    waits = addr->state != NA_MPI_READY;
    if (waits && addr->state == NA_MPI_DEAD) {
        ret = NA_HOSTUNREACH; /* it died just now */
        waits = false;
    } else if (waits) {
        na_plug_list_push(&addr->lookups, &op->link);
        addr->receives = false;
        if (addr->state == NA_MPI_IDLE)
            na_mpi_dial(self, addr, NA_MPI_MESSAGES);
    }
    na_mpi_unlock();
    if (!waits) {
        if (ret == NA_SUCCESS)
            op->result_addr = base;
        self->base.core->complete(op, ret);
    }
    if (waits || ret != NA_SUCCESS)
        self->base.core->addr_unref(base); /* the class holds another */
    return NA_SUCCESS;
}
