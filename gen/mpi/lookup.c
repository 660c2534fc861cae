/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups, from a name to a peer that said WELCOME.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* The address of a class of a peer, made if there is none, with a reference.
 * NULL: no memory (logged). Without the lock. */
static struct na_mpi_addr *na_mpi_obtain(
    struct na_mpi_class *self, int rank, unsigned number, na_bool_t from_peer)
{
    struct na_mpi_addr *fresh = NULL;
    struct na_mpi_addr *addr;
    char name[NA_MAX_ADDR_LEN];

    na_mpi_lock();
    addr = na_mpi_find(self, &self->channel, rank, number);
    na_mpi_unlock();
    if (addr == NULL) {
        na_mpi_name(name, rank, number);
        fresh =
            na_mpi_addr_new(self, name, NA_FALSE, &self->channel, rank, number);
        if (fresh == NULL)
            return NULL;
    }
    na_mpi_lock();
    if (addr == NULL)
        addr = na_mpi_find(self, &self->channel, rank, number);
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

static na_return_t na_mpi_addr_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct na_mpi_class *self = na_mpi_of(na_class);
    int level = from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
    const char *scheme = strncmp(name, "mpi+", 4) == 0 ? name + 4 : name;
    const char *mark = strstr(scheme, "://");
    struct na_mpi_addr *addr;
    unsigned number = 0;
    int rank = 0;
    na_return_t ret;

    if (mark == NULL) {
        na_class->core->log(level, "mpi", "'%s' lacks its \"://RANK\"", name);
        return NA_INVALID_ARG;
    }
    if (strncmp(scheme, na_class->protocol, (size_t) (mark - scheme)) != 0) {
        na_class->core->log(level, "mpi",
            "'%s': this class was opened for mpi+%s", name, na_class->protocol);
        return NA_PROTONOSUPPORT;
    }
    ret = na_mpi_parse(self, from_peer, mark + 3, &rank, &number);
    if (ret != NA_SUCCESS)
        return ret;
    if (rank >= self->ranks) {
        na_class->core->log(level, "mpi",
            "%s cannot be reached: the communicator has %d ranks", name,
            self->ranks);
        return NA_HOSTUNREACH;
    }
    addr = na_mpi_obtain(self, rank, number, from_peer);
    if (addr == NULL)
        return NA_NOMEM;
    *addr_p = &addr->base;
    return NA_SUCCESS;
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
        if (addr->state == NA_MPI_IDLE)
            na_mpi_dial(self, addr);
    }
    na_mpi_unlock();
    if (!waits) {
        if (ret == NA_SUCCESS)
            op->result_addr = base;
        self->base.core->complete(op, ret);
    }
    if (waits || ret != NA_SUCCESS)
        self->base.core->addr_unref(base); /* the class has its own */
    return NA_SUCCESS;
}
