/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: the classes and addresses of the transport sm, and the pair: the
 * connection between two classes.
 *
 *     idle ----> dialling ----> ready ----> closing
 *      ^            |             |            |
 *      |            v             v            |
 *      +--------- dying <---------+------------+
 *                   |
 *                   v
 *                  dead
 *
 * An address that was looked up stands for a name: its first use dials, and so
 * does the first use after its connection was closed in order. An address that
 * was accepted stands for its connection and dies with it. The class holds a
 * reference from when the address is dialled until it is idle or dead. An idle
 * address has only references of its users; the table of names finds it as long
 * as there are any.
 *
 * Closing: the application has asked to end the connection. This side sends its
 * queue, sets `over` in the pair, waits until no copy between the two memories
 * is in progress, and writes BYE: see flow.h. If the peer prevents that for
 * death_ms, the connection is lost. But if the peer holds memory of this
 * process for a copy, only the wait ends; the connection stays until the copy
 * ends or the peer dies, because deregistering that memory must wait for it.
 *
 * Dying: the connection has ended. The remaining records of its ring are
 * delivered; then the address is dead, or idle if it was closed in order, or
 * could not be connected and never was. Any thread may set an address dying at
 * any time, even while it is dialled; the polling thread ends it.
 *
 * Connecting: the dialler connects, creates the pair's memory, sends HELLO with
 * it and waits for WELCOME. The acceptor accepts callers, whose addresses have
 * no name before HELLO, gives each 5 s to send it, and checks everything: its
 * user (from the kernel), that its memory is sealed and has the right size,
 * that its name is printable. A caller that cannot be served gets the reason.
 * Two classes that dial each other have two pairs.
 *
 * A pair is one block of memory, created by the dialler: a page with the words
 * of both directions, then the ring from dialler to acceptor, then the one
 * back. In addition each side maps the other's public page, hint page and
 * arenas. Two descriptors stay open: the socket, and the bell of the other
 * side, if that belongs to the same user.
 *
 * Locking: the lock of the class guards all of it. The functions here are
 * called with it held, except for the slots. poll holds it throughout, except
 * while memory is copied. So fork, which takes the lock, finds all descriptors
 * in a consistent state.
 *
 * Must not know: how processes find each other, how a class sleeps.
 */
#ifndef HG_GEN_SM_PEER_H
#define HG_GEN_SM_PEER_H

#include "base/lock.h"
#include "base/map.h"
#include "na/addr.h"
#include "na/op.h"
#include "na/self.h"
#include "sm/socket.h"
#include "sm/memory.h"

#if HG_ENABLE_SM

#define NA_SM_RING ((uint32_t) 128 << 10)
#define NA_SM_MSG_MAX ((na_size_t) 32 << 10)
/* Maximum of bytes in front of a frame's data. */
#define NA_SM_FRAME_HEADER 128u
#define NA_SM_NEVER UINT64_MAX
/* Interval of attempts to connect or close. */
#define NA_SM_RETRY (2u * HG_CLOCK_MS)

enum na_sm_state {
    NA_SM_IDLE, /* no connection; the next use dials */
    NA_SM_DIALLING,
    NA_SM_READY,
    NA_SM_CLOSING,
    NA_SM_DYING,
    NA_SM_DEAD
};

/* Whether the kernel copies to and from a peer's memory. */
enum na_sm_vm { NA_SM_VM_UNTRIED, NA_SM_VM_WORKS, NA_SM_VM_DENIED };

enum na_sm_rma_mode {
    NA_SM_RMA_AUTO, /* mappings, the kernel, or the rings */
    NA_SM_RMA_VM,   /* the kernel only */
    NA_SM_RMA_COPY  /* the rings only */
};

/* The memory of a pair. */
struct na_sm_shared {
    struct na_sm_control control[2]; /* from the dialler, and back */
    _Alignas(4096) unsigned char rings[2][NA_SM_RING];
};

struct na_sm_addr {
    struct na_addr base;
    struct na_link link;     /* class->addrs; while on it, one reference */
    struct na_link turn;     /* class->dialling, closing or dying */
    struct na_sm_name where; /* if dialled */
    bool dialled;            /* it has a name, and can be dialled again */
    bool from_peer;          /* only peers have sent this name */
    bool receives;           /* dialled only because receives wait for it */
    bool owns_name;          /* see na_sm_conn_owns_name */
    bool reached;            /* it was ready before */
    bool again;              /* dying, becomes idle and not dead */
    enum na_sm_state state;
    na_return_t lookup_ret; /* dying: the result of its lookups */
    int why; /* the errno of a connect that failed; 0: it did not */
    int fd;  /* -1: none */
    /* The peer, as long as the socket is open; its identity is constant when a
     * message may have arrived. */
    struct na_sm_user user;
    uint32_t slot;     /* in class */
    uint64_t deadline; /* end of dialling, of waiting for HELLO, of closing */
    uint64_t retry;    /* dialling: next attempt, or NA_SM_NEVER */
    /* Of the peer; 0: unknown yet. Read without the lock. */
    _Atomic uint64_t incarnation;
    _Atomic pid_t pid; /* that sent it, as the kernel says */
    struct na_link lookups;
    struct na_link sends; /* also puts and gets, until it is connected */
    struct na_link closers;
    bool open;       /* the rings may be read */
    bool held;       /* the core refused the next message for now */
    bool full;       /* something waits for space in the peer's ring */
    unsigned idle;   /* polls that found nothing */
    unsigned copies; /* bits of the hazard words in use */
    enum na_sm_vm vm;
    struct na_sm_in in;
    struct na_sm_out out;
    /* The pair and the peer's memory, by enum na_sm_fd; NULL: not mapped. */
    void *maps[NA_SM_FD_BELL];
    struct na_sm_shared *shared; /* of those */
    const struct na_sm_public *peer_public;
    struct na_sm_hints *peer_hints;
    size_t peer_open[NA_SM_ARENAS]; /* of the arenas, what is accessible */
    int peer_bell; /* -1: none, a byte on the socket wakes it */
    uint32_t peer_slot;
    uint64_t rung; /* number of the last sleep of the peer that was ended */
};

struct na_sm_class {
    struct na_class base;
    struct na_link loop; /* sends to this class that were not accepted */
    struct na_sm_policy policy;
    struct na_sm_name where;
    struct stat made;
    int listen_fd;
    int epoll_fd;
    int bell_fd;
    int spare_fd; /* unused; closed to refuse a caller if descriptors are out */
    int public_fd;
    int hints_fd;
    struct na_sm_public *public_page;
    struct na_sm_arenas *arenas; /* memory for peers to map */
    struct na_sm_hints *hints;
    struct na_link live; /* of all classes of the process; see sm.c */
    bool closed;         /* lock and tables are gone */
    struct na_link addrs;
    struct na_link dialling; /* and callers before HELLO */
    struct na_link closing;
    struct na_link dying;
    unsigned callers;    /* before HELLO */
    struct hg_map names; /* addresses by hash of their names */
    struct na_sm_addr **slots;
    uint32_t slots_end; /* slots from here on have no peer */
    uint32_t pairs;     /* slots in use */
    uint64_t tick;      /* time of the next timed event */
    uint64_t sleep;     /* number of the last sleep */
    unsigned sleepers;
    unsigned polls;
    uint64_t look_at; /* when to check the sockets next */
    uint64_t read_at; /* when a poll has read the clock last */
    uint64_t scan_at; /* when to check all rings next */
    bool look;        /* check the sockets at once */
    bool more;        /* a visit may have left records */
    /* Of rma.c. */
    enum na_sm_rma_mode rma_mode;
    uint32_t mems_at;         /* where to look for a free slot */
    struct na_link transfers; /* puts and gets that wait */
    struct na_op *moving;     /* the current one, or NULL */
    bool moving_canceled;
    struct na_counter *rma_vm;
    struct na_counter *rma_calls;
    struct na_counter *rma_mapped;
};

struct na_sm_op {
    struct na_op base;
    bool held; /* on a list of this transport */
};

static inline struct na_sm_class *na_sm_of(const struct na_class *na_class)
{
    return (struct na_sm_class *) (uintptr_t) na_class;
}

static inline struct na_sm_addr *na_sm_addr_of(const struct na_addr *addr)
{
    return (struct na_sm_addr *) (uintptr_t) addr;
}

static inline struct na_sm_op *na_sm_op_of(struct na_op *op)
{
    return HG_CONTAINER_OF(op, struct na_sm_op, base);
}

static inline struct hg_monitor *na_sm_lock(const struct na_sm_class *self)
{
    return na_class_core_of(&self->base)->lock;
}

static inline void na_sm_enter(const struct na_sm_class *self)
{
    hg_enter(na_sm_lock(self));
}

static inline void na_sm_leave(const struct na_sm_class *self)
{
    hg_leave(na_sm_lock(self));
}

/* Release the lock briefly: another thread may need it. */
HG_PRIVATE void na_sm_yield(const struct na_sm_class *self);

/* The words of a pair: of the outgoing direction, and of the incoming one. */
static inline struct na_sm_control *na_sm_own_control(
    const struct na_sm_addr *addr)
{
    return &addr->shared->control[addr->dialled ? 0 : 1];
}

static inline struct na_sm_control *na_sm_theirs(const struct na_sm_addr *addr)
{
    return &addr->shared->control[addr->dialled ? 1 : 0];
}

/* Add an operation to a list of this transport, or remove it. */
static inline void na_sm_op_push(struct na_link *list, struct na_op *op)
{
    na_sm_op_of(op)->held = true;
    hg_list_push(list, &op->link);
}

static inline void na_sm_op_remove(struct na_op *op)
{
    na_sm_op_of(op)->held = false;
    hg_list_remove(&op->link);
}

/* There is work: wake sleeping threads. */
HG_PRIVATE void na_sm_wake(struct na_sm_class *self);

/* Create an address; `where` NULL: it cannot be dialled. NULL: out of
 * memory. */
HG_PRIVATE struct na_sm_addr *na_sm_peer_new(struct na_sm_class *self,
    const char *name, na_bool_t is_self, const struct na_sm_name *where);

/* The slot addr_release. */
HG_PRIVATE void na_sm_peer_release(struct na_addr *base);

/* The table of names contains an address until it is dead or released, or
 * another address gets the name. na_sm_peer_find takes a reference. NA_NOMEM,
 * logged. */
HG_PRIVATE struct na_sm_addr *na_sm_peer_find(
    struct na_sm_class *self, const char *name);
HG_PRIVATE na_return_t na_sm_peer_enter(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Make the polling thread dial an idle address. */
HG_PRIVATE void na_sm_peer_dial(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* An operation other than a receive waits for an address: dial it if it is
 * idle, and give it up after lookup_ms. */
HG_PRIVATE void na_sm_peer_want(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Start to close a connection; na_sm_flow_close does the rest. */
HG_PRIVATE void na_sm_peer_close(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The connection ended, or is unusable: the polling thread ends it when its
 * messages were delivered. */
HG_PRIVATE void na_sm_peer_lose(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t lookup_ret);

/* As na_sm_peer_lose, in any state, and the address is not dialled again. */
HG_PRIVATE void na_sm_peer_give_up(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t lookup_ret);

/* End a dying connection whose messages were delivered, and its address, unless
 * the address can be used again; then it is dialled at once if an operation
 * waits. By the polling thread. */
HG_PRIVATE void na_sm_peer_end(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Whether a pair's socket has ended, but was not polled since. */
HG_PRIVATE bool na_sm_peer_has_ended(const struct na_sm_addr *addr);

/* Whether a living peer has a key in a hazard word of a pair; 0: any. */
HG_PRIVATE bool na_sm_peer_copies(const struct na_sm_addr *addr, uint64_t key);

/* Unmap and close the resources of a pair. Waits for copies in progress in
 * other threads. */
HG_PRIVATE void na_sm_peer_part(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Complete all operations of a list of this transport. */
HG_PRIVATE void na_sm_peer_complete(struct na_link *list, na_return_t ret);

/* ---- Connecting ---- */

/* Watch a descriptor with epoll, reported as `what`: an address, the class for
 * its listening socket, or NULL. NA_IO_ERROR, NA_AGAIN, NA_NOMEM; logged. */
HG_PRIVATE na_return_t na_sm_watch(
    const struct na_sm_class *self, int fd, uint32_t events, void *what);

/* Dial addresses, and give up those that take too long; returns the number of
 * things done. Sets the class's tick to the time of the next call. */
HG_PRIVATE unsigned na_sm_conn_tick(struct na_sm_class *self, uint64_t now);

/* Whether the process that listens at an address, which is being dialled, has
 * connected to this class, as the kernel says. Then its incarnation is that of
 * the address. */
HG_PRIVATE bool na_sm_conn_prove(
    const struct na_sm_class *self, struct na_sm_addr *addr);

/* Whether no other process listens at the name that a caller claims. */
HG_PRIVATE bool na_sm_conn_owns_name(const struct na_sm_class *self,
    struct na_sm_addr *caller, const struct na_sm_name *name);

/* The listening socket is readable. */
HG_PRIVATE unsigned na_sm_conn_accept(struct na_sm_class *self);

/* The socket of an address that is not connected is readable: HELLO of a
 * caller, or the answer of a dialled peer. */
HG_PRIVATE unsigned na_sm_conn_read(
    struct na_sm_class *self, struct na_sm_addr *addr);

#endif
#endif
