/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_hg: what the modules of the conduit share. Programs include gasnet.h.
 *
 *     boot     rank and size, the class, the addresses of all nodes
 *     job      init, attach, segments, handlers, queries
 *     exit     threads, signals, gasnet_exit()
 *     call     runs a handler with any number of arguments
 *     am       active messages, flow control
 *     poll     progress, and waiting
 *     sync     handles of operations, and waiting for them
 *     rma      put, get and memset of nodes whose memory is not mapped here
 *     barrier  the split-phase barrier
 *     lock     handler-safe locks, no-interrupt sections, and their checks
 *
 * The conduit uses hg's public interface, and of that only NA.
 */
#ifndef GASNET_HG_INTERNAL_H
#define GASNET_HG_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg.h"

#if !defined(GASNET_SEQ) && !defined(GASNET_PARSYNC) && !defined(GASNET_PAR)
#define GASNET_PAR 1
#endif
#include "gasnet.h"

/* For functions on the path of each message or transfer, which gcc takes for
 * too large. Each saves about 15 instructions. */
#define GASNET_HG_INLINE inline __attribute__((always_inline))

/* ---- boot: how the nodes of a job find each other ---- */

/* Tags of NA's messages. Unexpected messages belong to am alone. */
enum {
    GASNET_HG_TAG_AM = 0,    /* unexpected: an active message */
    GASNET_HG_TAG_WATCH = 1, /* expected: never sent; ends if the peer dies */
    GASNET_HG_TAG_BOOT = 2   /* expected: boot, which may use all tags above */
};

/* A job as boot finds it. Arrays have `size` entries and live as long as the
 * process. */
struct gasnet_boot {
    uint32_t rank;         /* of this node, below size */
    uint32_t size;         /* nodes of the job, 1 or more */
    na_class_t *na_class;  /* listens */
    na_context_t *context; /* the only one; nothing is posted on it */
    na_addr_t *addrs;      /* of each node; that of this node is its own */
    uint32_t *hosts;       /* for each node the lowest rank on its host */
};

/*
 * Find rank, size and the peers, open the class, and look all peers up.
 *
 * Collective: it returns after all nodes of the job have called it and have
 * found each other, or after GASNET_HG_BOOT_MS (environment, milliseconds;
 * default 60,000). A job of one node needs no environment. On failure it prints
 * one line to stderr: what failed, on what, why.
 *
 * The class has NA_WAIT_SPIN over sm, if gasnet_hg.threaded is not set and each
 * node has a processor, else NA_WAIT_ADAPTIVE; and a max_queue_bytes of 2 MiB
 * for each node.
 *
 * Returns GASNET_OK; GASNET_ERR_RESOURCE on failure, and everything is closed.
 */
int gasnet_boot_start(struct gasnet_boot *boot);

/*
 * Give `size` bytes of each node to all nodes. Collective; all nodes pass the
 * same size, up to 4,096 bytes. It may be called again, in the same order on
 * all nodes. It uses expected messages alone: unexpected messages that come
 * meanwhile stay in NA's queue or in the receives that am has posted.
 *
 *     mine   borrowed
 *     all    boot->size times `size` bytes, in the order of the ranks
 *
 * Returns GASNET_OK; GASNET_ERR_RESOURCE (printed) if a node is lost.
 */
int gasnet_boot_exchange(
    struct gasnet_boot *boot, const void *mine, size_t size, void *all);

/*
 * Close the class: accepted messages leave first, for at most a second. Peers
 * see that this node is gone. No other thread uses the class.
 */
void gasnet_boot_stop(struct gasnet_boot *boot);

/* ---- The node, and its threads ---- */

#define GASNET_HG_HANDLERS 256
#define GASNET_HG_CLIENT_HANDLERS 128 /* the first index of a client */
#define GASNET_HG_ROUNDS 17           /* of a barrier, and one more */

#define GASNET_HG_CREDITS 64 /* of a sender at a peer: see am.c */
/* A handle of all memory starts at address 1 and has no last byte. */
#define GASNET_HG_ALL_START 1u
#define GASNET_HG_ALL_SIZE (UINT64_MAX - 1)
/* A segment that fits into the memory that peers on a host can map. */
#define GASNET_HG_MAX_SEGMENT ((uintptr_t) 3 << 30)

/* A barrier's round: a peer on this host writes it, or am for a message. */
struct gasnet_hg_slot {
    _Atomic uint32_t phase; /* the barrier that it belongs to; written last */
    int32_t id;
    uint32_t flags;
    unsigned char space[52]; /* a cache line */
};

/* The page in front of each segment. Barriers alternate between two rows. */
struct gasnet_hg_page {
    struct gasnet_hg_slot slots[2][GASNET_HG_ROUNDS];
};

/* Another node, or this one. Constant after gasnet_attach(), but the last
 * four members. */
struct gasnet_hg_peer {
    na_addr_t addr;
    na_mem_handle_t memory;      /* page and segment; or all memory */
    uintptr_t base;              /* of the segment, there */
    uintptr_t size;              /* of the segment */
    uintptr_t start;             /* of `memory`, there */
    void *mapped;                /* `memory` here; NULL: use NA */
    struct gasnet_hg_page *page; /* in it; NULL: send messages */
    _Atomic int32_t credits;     /* what this node may send */
    _Atomic int32_t returns;     /* credits that the peer gets back */
    _Atomic bool lost;           /* dead: nothing is sent to it */
    _Atomic bool apart;          /* lost, or this node */
};

#define GASNET_HG_SMALL 64u /* a larger source is copied to new memory */

/* Operations that are synchronized together: one of nb, all nbi of a thread, or
 * those of a region. NA's callbacks count `pending` down, in any thread. The
 * rest belongs to the thread that started them. */
struct gasnet_hg_op {
    _Atomic int32_t pending;
    struct gasnet_hg_op *next;     /* of the thread's free operations; the get
                                    * of a value: the get below it; the copy
                                    * for a put of nbi: what counts it */
    gasnet_register_value_t value; /* of a value get */
    unsigned char bytes[GASNET_HG_SMALL]; /* a copy of a small source */
};

/* A thread that has called GASNET. A struct outlives its thread, and the next
 * new thread takes it. */
struct gasnet_hg_thread {
    struct gasnet_hg_thread *next; /* all threads, ever */
    struct gasnet_hg_thread *idle; /* those without a thread */
    sig_atomic_t inside;           /* calls of NA that this thread is in */
    sigset_t blocked;              /* signals, when it first called GASNET */
    unsigned handlers;             /* debug: handlers that it runs */
    bool held;                     /* it is in a no-interrupt section */
    uint64_t held_since;           /* debug, in ns */
    gasnet_hsl_t *innermost;       /* debug: the lock that it took last */
    struct gasnet_hg_op *free_ops;
    struct gasnet_hg_op *region; /* of nbi operations; NULL: none */
    struct gasnet_hg_op puts, gets;
    unsigned char *loopback[2]; /* payload of a request and a reply to itself */
};

struct gasnet_hg {
    struct gasnet_boot boot;
    struct gasnet_hg_peer *peers;
    struct gasnet_hg_page *page; /* of this node */
    na_mem_handle_t everything;  /* local: all memory; not registered */
    gasnet_seginfo_t segment;
    void (*handlers[GASNET_HG_HANDLERS])(void);
    bool started;         /* gasnet_init() */
    bool attached;        /* gasnet_attach() */
    bool whole;           /* all memory is the segment */
    bool checked;         /* GASNET_DEBUG */
    bool plain;           /* attached, and not checked */
    bool threaded;        /* GASNET_PAR: several threads at a time */
    bool strict;          /* 0.4: hold and resume are never ignored */
    bool all_near;        /* every segment is mapped */
    int wait_mode;        /* GASNET_WAIT_... */
    _Atomic bool closing; /* gasnet_exit() runs: NA must not be entered */
};

extern struct gasnet_hg gasnet_hg;

/* Add to a counter, and return its value before. Without GASNET_PAR one thread
 * at a time is here, and it saves the locked instruction. */
static GASNET_HG_INLINE int32_t gasnet_hg_add(
    _Atomic int32_t *counter, int32_t n)
{
    int32_t before;

    if (gasnet_hg.threaded)
        return atomic_fetch_add(counter, n);
    before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + n, memory_order_relaxed);
    return before;
}

/* ---- job ---- */

/* Print "gasnet: node R: TEXT", and abort. */
void gasnet_hg_fatal(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* Print a warning, in the form of gasnet_hg_fatal(). */
void gasnet_hg_warn(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ---- exit: threads, signals, gasnet_exit() ---- */

/* Catch the signals that end a program: before anything else. */
void gasnet_hg_catch_signals(void);

/* Notice the death of peers. */
int gasnet_hg_watch_peers(void);

/* A peer is dead: the node gets SIGQUIT, unless it ends soon. */
void gasnet_hg_lost(gasnet_node_t node);

/* A node was lost in a step that all nodes take together: wait for SIGQUIT. So
 * the exit code of the job is that of the lost node. */
void gasnet_hg_wait_for_end(void) __attribute__((noreturn));

/* The nodes use MPI alone. */
bool gasnet_hg_is_mpi(void);

/* job: unmap and free what gasnet_attach() has made. */
void gasnet_hg_detach(void);

extern _Thread_local struct gasnet_hg_thread *gasnet_hg_current;
struct gasnet_hg_thread *gasnet_hg_new_thread(void);

static inline struct gasnet_hg_thread *gasnet_hg_self(void)
{
    struct gasnet_hg_thread *self = gasnet_hg_current;

    return self != NULL ? self : gasnet_hg_new_thread();
}

/* Wait until the process ends, since another thread ends it. */
void gasnet_hg_park(struct gasnet_hg_thread *self);

/* Every call of NA is between these. gasnet_exit() closes NA after the last
 * thread has left; it makes the store before the load with a system call. */
static inline void gasnet_hg_enter(struct gasnet_hg_thread *self)
{
    self->inside++;
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&gasnet_hg.closing, memory_order_relaxed))
        gasnet_hg_park(self);
}

static inline void gasnet_hg_leave(struct gasnet_hg_thread *self)
{
    atomic_signal_fence(memory_order_seq_cst);
    self->inside--;
}

/* The segment of the node has these bytes. */
static inline bool gasnet_hg_has(
    const struct gasnet_hg_peer *peer, const void *memory, size_t nbytes)
{
    uintptr_t at = (uintptr_t) memory;

    return gasnet_hg.whole ||
        (at >= peer->base && nbytes <= peer->size &&
            at - peer->base <= peer->size - nbytes);
}

/* ---- lock ---- */

/* With GASNET_DEBUG: end the job if this thread must not communicate: the node
 * has not attached, or the thread runs a handler, holds a lock, or is in a
 * no-interrupt section. */
void gasnet_hg_check_call(const char *what);

/* As gasnet_hg_check_call(), for a reply. `may`: the token is that of a request
 * that was not replied to. */
void gasnet_hg_check_reply(bool may);

/* With GASNET_DEBUG, before and after a handler: it begins without locks and
 * must leave so. */
void gasnet_hg_begin_handler(struct gasnet_hg_thread *self);
void gasnet_hg_end_handler(struct gasnet_hg_thread *self, unsigned handler);

/* ---- call ---- */

#define GASNET_HG_MAX_ARGS 16

/* Call a handler with the arguments of a message: of a short one, or with the
 * payload. In the order of a handler's own, so that little moves. */
typedef void (*gasnet_hg_call_short_t)(gasnet_token_t token,
    void (*function)(void), const gasnet_handlerarg_t *args);
typedef void (*gasnet_hg_call_t)(gasnet_token_t token, void *payload,
    size_t nbytes, void (*function)(void), const gasnet_handlerarg_t *args);

/* By the number of arguments. */
extern const gasnet_hg_call_short_t
    gasnet_hg_short_calls[GASNET_HG_MAX_ARGS + 1];
extern const gasnet_hg_call_t gasnet_hg_calls[GASNET_HG_MAX_ARGS + 1];

/* ---- am ---- */

/* Post the receives. After all nodes have attached. */
int gasnet_hg_am_start(void);

/* Write a slot of a barrier in the peer's page by a message. */
void gasnet_hg_send_slot(gasnet_node_t node, unsigned round, uint32_t phase,
    int32_t id, uint32_t flags);

/* ---- barrier ---- */

/* Advance the barrier as far as its messages are there. */
void gasnet_hg_barrier_kick(void);
extern _Atomic bool gasnet_hg_barrier_active;

static inline void gasnet_hg_advance_barrier(void)
{
    if (atomic_load_explicit(&gasnet_hg_barrier_active, memory_order_relaxed))
        gasnet_hg_barrier_kick();
}

/* ---- poll ---- */

#define GASNET_HG_BURST 16u /* callbacks of one poll */

/* Move data and run handlers, between gasnet_hg_enter() and _leave(). Returns
 * whether anything happened. `timeout_ms`: how long to sleep if not. */
static inline bool gasnet_hg_progress(unsigned timeout_ms)
{
    return NA_Progress(gasnet_hg.boot.na_class, gasnet_hg.boot.context,
               timeout_ms) == NA_SUCCESS &&
        NA_Trigger(gasnet_hg.boot.context, 0, GASNET_HG_BURST, NULL) ==
        NA_SUCCESS;
}

/* Move data, run handlers, advance the barrier. */
void gasnet_hg_poll(void);

/* Wait until `*pending` is 0. */
static inline void gasnet_hg_wait_for(_Atomic int32_t *pending)
{
    unsigned tries = 0;

    while (atomic_load_explicit(pending, memory_order_acquire) != 0)
        gasnet_hg_wait(&tries);
}

/* ---- sync ---- */

struct gasnet_hg_op *gasnet_hg_op_new(void);

/* An operation for one nb or one region, with nothing pending. */
static inline struct gasnet_hg_op *gasnet_hg_op_get(
    struct gasnet_hg_thread *self)
{
    struct gasnet_hg_op *op = self->free_ops;

    if (op == NULL)
        op = gasnet_hg_op_new();
    self->free_ops = op->next;
    return op;
}

static inline void gasnet_hg_op_put(
    struct gasnet_hg_thread *self, struct gasnet_hg_op *op)
{
    op->next = self->free_ops;
    self->free_ops = op;
}

#endif
