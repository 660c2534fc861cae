/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux_part: what the rooms of mux share: a class of several transports, its
 * parts, and the objects that stand for theirs.
 *
 * Locking: see mux.h; the class's mutex guards what says so.
 */
#ifndef HG_GEN_NA_MUX_PART_H
#define HG_GEN_NA_MUX_PART_H

#include "base/lock.h"
#include "na/mux.h"
#include "na/mux_wire.h"

#define NA_MUX_PARTS 4
#define NA_MUX_COUNTER_MAX (NA_MUX_WIRE_TAG_MAX + 16)

struct na_mux_class;

/* What an address is told after every parting. */
#define NA_MUX_DEATH UINT64_MAX

/* One transport. */
struct na_mux_part {
    struct na_mux_class *mux;
    struct na_class *na_class;
    const struct na_core *below; /* the functions it had */
    struct na_core core;         /* and has */
    char tag[NA_MUX_WIRE_TAG_MAX];
    char sent_name[NA_MUX_COUNTER_MAX];
    char moved_name[NA_MUX_COUNTER_MAX];
    struct na_counter *sent;
    struct na_counter *moved;
};

struct na_mux_class {
    struct na_class base;
    struct na_mux_part parts[NA_MUX_PARTS];
    unsigned count;
    unsigned sm;    /* which of them is sm; NA_MUX_PARTS: none */
    bool sm_silent; /* its name follows from another address */
    pthread_mutex_t lock;
    struct na_link addrs; /* struct na_mux_addr; lock */
    uint64_t partings;    /* of connections, so far; lock */
};

struct na_mux_context {
    struct na_context base;
    struct na_context *inner[NA_MUX_PARTS];
    int fd; /* of all parts; or NA_POLL_FD_... */
    int joined[NA_MUX_PARTS];
    unsigned joined_count;
};

struct na_mux_addr {
    struct na_addr base;
    struct na_link link; /* lock */
    unsigned part;
    struct na_addr *inner; /* a reference; NULL once the class is closing */
    bool pinned;           /* the class has a reference; lock */
    uint64_t told;         /* of which parting, or of its death; lock */
};

struct na_mux_op {
    struct na_op base;
    na_op_id_t inner; /* of the operation that stands for it */
    unsigned part;
    /* Lookup: see mux_lookup.h. */
    unsigned next;         /* what is to be tried then */
    na_return_t ret;       /* of the last turn */
    struct na_addr *found; /* by that; a reference, or NULL */
    bool open;             /* it is not over; lock */
    bool canceled;         /* it is to be; lock */
    bool begins;           /* a turn does; lock */
    bool ended;            /* ... and has ended already; lock */
};

struct na_mux_mem {
    struct na_mem_handle base;
    _Atomic(struct na_mem_handle *) inner[NA_MUX_PARTS]; /* set under lock */
    unsigned char *bytes; /* remote: the description as it came */
    na_size_t size;
};

static inline struct na_mux_class *na_mux_of(const struct na_class *na_class)
{
    return HG_CONTAINER_OF(na_class, struct na_mux_class, base);
}

static inline struct na_mux_addr *na_mux_addr_of(const struct na_addr *addr)
{
    return HG_CONTAINER_OF(addr, struct na_mux_addr, base);
}

static inline struct na_mux_op *na_mux_op_of(const struct na_op *op)
{
    return HG_CONTAINER_OF(op, struct na_mux_op, base);
}

static inline struct na_mux_mem *na_mux_mem_of(const struct na_mem_handle *mem)
{
    return HG_CONTAINER_OF(mem, struct na_mux_mem, base);
}

/* The part that a class inside of ours is. */
static inline struct na_mux_part *na_mux_part_of(const struct na_class *inner)
{
    struct na_mux_part *part = na_class_core_of(inner)->part;

    assert(part != NULL && part->na_class == inner);
    return part;
}

static inline struct na_context *na_mux_inner_context(
    const struct na_context *context, unsigned part)
{
    return HG_CONTAINER_OF(context, struct na_mux_context, base)->inner[part];
}

#endif
