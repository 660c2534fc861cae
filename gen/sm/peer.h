/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_peer: the classes and addresses of the transport sm, and the life of a
 * pair: the connection between two classes.
 *
 *     idle <--bye--- closing <--- ready --bye--> leaving
 *       |                           ^               |
 *       +------> dialling ----------+--> dying <----+
 *                            (accepted)     |
 *                                           v
 *                                          dead
 *
 * An address that was looked up stands for a name: its first use dials, and so
 * does the first one after its connection was closed in order. One that was
 * accepted stands for its connection and is dead after it, and so is one that
 * is given up, whatever its state. From when it is dialled on the class holds a
 * reference. An idle address is its holders' alone; the table of names finds
 * it as long as there are any.
 *
 * Dying: the connection is gone; what its ring still holds is delivered, then
 * the address is dead, or idle again: so is one that could not be connected and
 * never was. If the peer does not answer a BYE within
 * death_ms (or, after a BYE of its own, does not close while somebody waits for
 * that), the connection ends all the same. But if the peer was stopped in the
 * middle of copying to or from memory of ours, only the wait ends; the
 * connection stays until the copy ends or the peer dies, for whoever withdraws
 * that memory. Two classes that dial each other have two pairs.
 *
 * Any thread may have an address dying at any time, also while it is dialled:
 * who finds its connection ended, or believes in the peer no more. The polling
 * thread buries it, and finds it dying wherever it has let the class lock go.
 *
 * A pair is one memory, made by the dialler: a page with the words of both
 * directions, then the ring from dialler to acceptor, then the one back.
 * Besides, each side maps the other's public page and hint page. Two
 * descriptors stay open: the socket, whose end is the news of a death, and the
 * bell of the other side, if that is the same user's.
 *
 * Locking: the lock of the class guards all of it, the producing side of rings
 * included. The consuming side, the sockets and everything that closes or
 * unmaps belong to the thread that polls, which leaves the lock while it copies
 * memory. fork takes the lock: whatever alone names a socket is set, and
 * closed, under it.
 *
 * Must not know: how processes meet, how a class sleeps.
 */
/*
 * sm_door: how a connection begins, at either end.
 *
 * The dialler connects, makes the pair's memory, says HELLO with it and waits
 * for WELCOME. The acceptor takes callers in, gives each 5 s to say HELLO, and
 * believes nothing it says: who it is (the kernel tells), that its memory is
 * sealed and of the right size, that its name is printable. A caller that
 * cannot be served hears why.
 *
 * Locking: all of it is the polling thread's, which takes the class lock where
 * it touches what others do.
 */
#ifndef HG_GEN_SM_PEER_H
#define HG_GEN_SM_PEER_H

#include "base/lock.h"
#include "base/map.h"
#include "na/core.h"
#include "na/rma.h"
#include "na/loop.h"
#include "sm/meet.h"
#include "sm/memory.h"

#if HG_ENABLE_SM

/* ==== peer ==== */

#define NA_SM_RING ((uint32_t) 128 << 10)
#define NA_SM_MSG_MAX ((na_size_t) 32 << 10)
#define NA_SM_FRAME_HEADER 128u /* bytes, at most, in front of a frame's data */
#define NA_SM_NEVER UINT64_MAX

enum na_sm_state {
    NA_SM_IDLE, /* no connection; the next use dials */
    NA_SM_DIALLING,
    NA_SM_READY,
    NA_SM_CLOSING, /* we said BYE, or are about to */
    NA_SM_LEAVING, /* they did */
    NA_SM_DYING,
    NA_SM_DEAD
};

/* Whether the kernel copies to and from a peer's memory. */
enum na_sm_vm { NA_SM_VM_UNTRIED, NA_SM_VM_WORKS, NA_SM_VM_DENIED };

/* Whether a peer looks out for us when it withdraws memory. */
enum na_sm_permit { NA_SM_PERMIT_NONE, NA_SM_PERMIT_ASKED, NA_SM_PERMIT_HERE };

enum na_sm_rma_mode {
    NA_SM_RMA_AUTO, /* the kernel copies where it can */
    NA_SM_RMA_VM,   /* it must */
    NA_SM_RMA_MAP,  /* as auto, and who can be mapped is waited for */
    NA_SM_RMA_COPY  /* it need not: all goes through the rings */
};

/* The memory of a pair. */
struct na_sm_shared {
    struct na_sm_control control[2]; /* of the dialler's out, and back */
    _Alignas(4096) unsigned char rings[2][NA_SM_RING];
};

/* What epoll tells about: the first member of whatever it is. */
enum na_sm_watch {
    NA_SM_WATCH_LISTENER,
    NA_SM_WATCH_TIMER,
    NA_SM_WATCH_BELL,
    NA_SM_WATCH_GUEST,
    NA_SM_WATCH_PEER
};

struct na_sm_addr {
    struct na_addr base;
    enum na_sm_watch watch;
    struct na_link link;     /* class->addrs; while on it, one reference */
    struct na_link turn;     /* class->dialling, closing or dying */
    struct na_link mover;    /* class->movers */
    struct na_sm_addr *next; /* of those whose names have one hash */
    uint64_t hash;
    struct na_sm_name where; /* if dialled */
    bool dialled;            /* it has a name, and can be dialled again */
    bool named;              /* it is in the table of names; class lock */
    bool from_peer;          /* only peers have given this name; class lock */
    bool reached;            /* it was ready once */
    bool closing;            /* dying because of a BYE */
    bool failed;             /* dying because it could not be connected */
    _Atomic int state;       /* enum na_sm_state */
    na_return_t fate;        /* dying: what its lookups get */
    int why;   /* the errno of a connect that failed; 0: it did not */
    int fd;    /* -1: none */
    pid_t pid; /* of the peer, as long as the socket lives */
    bool kin;  /* it is the same user's */
    /* Of its user; constant once a message may have come. */
    char identity[NA_SM_IDENTITY];
    uint32_t slot;     /* in class->slots; NA_SM_PEERS: none */
    uint64_t deadline; /* dialling, and on class->closing: to end */
    uint64_t retry;    /* dialling: to connect again, or NA_SM_NEVER */
    _Atomic uint64_t incarnation; /* of the peer; 0: unknown yet */
    _Atomic int vm;               /* enum na_sm_vm, of this connection */
    _Atomic int permit; /* enum na_sm_permit; the lock, to change it */
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;
    bool owes_bye;
    bool owes_ack;
    _Atomic bool waiting; /* sends, or a BYE, are queued */
    _Atomic bool stalled; /* a frame was refused for want of room */
    /* Bits of the hazard words in use. Who has one reads what follows, too. */
    _Atomic unsigned touching;
    /* The polling thread's. */
    unsigned idle;     /* polls that found nothing */
    _Atomic bool open; /* the rings may be read */
    _Atomic bool held; /* the core has no room for the next message */
    unsigned dropped;  /* dying: messages that found no room */
    struct na_sm_in in;
    struct na_sm_shared *shared;
    const struct na_sm_public *peer_public; /* the peer's; RMA looks here */
    struct na_sm_hints *peer_hints;
    int peer_bell; /* -1: none, it is rung for by the socket */
    uint32_t peer_slot;
    uint64_t rung; /* the last sleep of the peer that we ended */
    struct na_sm_out out;
    struct na_sm_windows *windows; /* the peer's arenas; NULL: none asked for */
    uint64_t granted;              /* of ours, a bit for each id - 1 */
};

/* A connection that has not said HELLO. */
struct na_sm_guest {
    enum na_sm_watch watch;
    struct na_link link;
    int fd;
    uint64_t deadline;
    struct ucred peer;
};

struct na_sm_class {
    struct na_class base;
    struct na_loop loop; /* what we send to ourselves */
    struct na_sm_policy policy;
    struct na_sm_name where;
    struct stat made;
    enum na_sm_watch listener; /* for epoll to point at */
    enum na_sm_watch timer;
    enum na_sm_watch bell;
    int listen_fd;
    int epoll_fd;
    int timer_fd;
    int bell_fd;
    int caller_fd; /* a caller who is no guest yet */
    int spare_fd;  /* given up to tell a caller that there are no more */
    int public_fd;
    int hints_fd;
    struct na_sm_public *public_page;
    struct na_sm_arenas *arenas; /* memory for peers to map */
    struct na_sm_hints *hints;
    struct na_link live; /* of all classes of the process; see sm.c */
    bool closed;         /* lock and tables are gone */
    _Atomic bool forked; /* this process is a child of the one it is of */
    _Atomic bool fork_told;
    /* Guarded by the class's lock. */
    struct na_link addrs;
    struct na_link dialling;
    struct na_link closing; /* a goodbye is to end them; soonest first */
    struct na_link dying;
    _Atomic bool mourning; /* somebody is on that list; read without it */
    struct hg_map names;   /* dialled addresses by hash of their names */
    _Atomic(struct na_sm_addr *) *slots;
    uint32_t slot_hint;        /* where to look for a free one */
    uint32_t pairs;            /* slots in use */
    uint64_t tick;             /* when time alone demands something */
    uint64_t timer_at;         /* what timer_fd is set to */
    uint64_t sleep;            /* number of the last sleep */
    _Atomic unsigned sleepers; /* read without it */
    uint64_t *slots_used;      /* bits of the public page's slots */
    uint32_t slots_at;         /* where to look for a free one */
    struct na_link movers;     /* peers that may touch memory of ours */
    struct na_link transfers;  /* puts and gets that wait for their turn */
    _Atomic bool moves;        /* some do, or did; read without it */
    struct na_link unmet; /* ... and for what a peer answers, before that */
    struct na_op *moving; /* the one that has it, or NULL */
    uint64_t moving_id;
    bool moving_canceled;
    pthread_cond_t moved; /* moving changed */
    /* Constant. */
    enum na_sm_rma_mode rma_mode;
    struct na_counter *rma_vm;
    struct na_counter *rma_calls;
    struct na_counter *rma_mapped;
    /* Of what is registered here and copied by ourselves. */
    _Atomic uint64_t own_hazards[NA_SM_HAZARDS];
    /* The polling thread's, which locks to change the list. */
    struct na_link guests;
    unsigned guest_count;
    unsigned polls;
    uint64_t look_at;   /* when to ask the sockets next */
    uint64_t scan_at;   /* when to look at all rings next */
    _Atomic bool rung;  /* ask them at once */
    _Atomic bool woken; /* somebody slept: there may be a bell to be eaten */
    bool more;          /* a visit may have left records behind */
};

struct na_sm_op {
    struct na_op base;
    bool held;      /* on one of our lists; guarded by the class lock */
    bool aimed;     /* `remote` is set */
    uint8_t awaits; /* the arena without which it does not go on; 0: none */
    /* Put, get: where the next piece is. */
    struct na_cursor local;
    struct na_cursor remote;
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

static inline void na_sm_enter(const struct na_sm_class *self)
{
    hg_enter(na_class_core_of(&self->base)->lock);
}

static inline void na_sm_leave(const struct na_sm_class *self)
{
    hg_leave(na_class_core_of(&self->base)->lock);
}

static inline enum na_sm_state na_sm_peer_state(const struct na_sm_addr *addr)
{
    return (enum na_sm_state) atomic_load_explicit(
        &addr->state, memory_order_relaxed);
}

/* Whether a dying address will be idle, not dead. The class lock is held. */
static inline bool na_sm_peer_lives(const struct na_sm_addr *addr)
{
    return addr->dialled && (addr->closing || addr->failed);
}

/* An operation enters one of our lists, or leaves it; the class lock is
 * held. */
static inline void na_sm_op_push(struct na_link *list, struct na_op *op)
{
    na_sm_op_of(op)->held = true;
    hg_list_push(list, &op->link);
}

static inline struct na_op *na_sm_op_pop(struct na_link *list)
{
    struct na_link *link = hg_list_pop(list);
    struct na_op *op;

    if (link == NULL)
        return NULL;
    op = HG_CONTAINER_OF(link, struct na_op, link);
    na_sm_op_of(op)->held = false;
    return op;
}

/* Close a descriptor that a child of fork is to close, too, under the class
 * lock; -1 is none. */
HG_PRIVATE void na_sm_peer_close(struct na_sm_class *self, int *fd);

/* Unlock the class, waking a sleeper who has something to do now. */
HG_PRIVATE void na_sm_peer_unlock(struct na_sm_class *self);

/* A new address; `where` NULL: it is not for dialling. NULL: out of memory. */
HG_PRIVATE struct na_sm_addr *na_sm_peer_new(struct na_sm_class *self,
    const char *name, na_bool_t is_self, const struct na_sm_name *where);

/* The slot addr_release. */
HG_PRIVATE void na_sm_peer_release(struct na_addr *base);

/* The table of names; the class lock is held. It has an address until that is
 * dead or released. To find one gives a reference. NA_NOMEM, logged. */
HG_PRIVATE struct na_sm_addr *na_sm_peer_find(
    struct na_sm_class *self, const char *name);
HG_PRIVATE na_return_t na_sm_peer_enter(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* A slot for a pair; the class lock is held. NA_AGAIN: all are taken. */
HG_PRIVATE na_return_t na_sm_peer_take_slot(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* What waited for a permit looks again; the class lock is held, to be left by
 * na_sm_peer_unlock. */
static inline void na_sm_peer_resume(struct na_sm_class *self)
{
    hg_list_splice(&self->transfers, &self->unmet);
    atomic_store_explicit(&self->moves, true, memory_order_relaxed);
}

/* Change a state; the class lock is held. */
HG_PRIVATE void na_sm_peer_move(
    struct na_sm_addr *addr, enum na_sm_state state);

/* Have the polling thread dial an idle address; the class lock is held. */
HG_PRIVATE void na_sm_peer_dial(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Somebody waits for the connection to end: it does within death_ms. The class
 * lock is held, to be left by na_sm_peer_unlock. */
HG_PRIVATE void na_sm_peer_await_end(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The rings of a pair are mapped, and so are the peer's pages: open them.
 * False: nobody wants them any more, and it is dying. */
HG_PRIVATE bool na_sm_peer_open(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The connection is gone, or is no good: the address will be buried once what
 * came by it is delivered. The class lock is held. */
HG_PRIVATE void na_sm_peer_lose(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t fate);

/* The same of one that nobody believes in, whatever its state: it is not
 * dialled again, and what still comes by it is of no interest. */
HG_PRIVATE void na_sm_peer_give_up(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* End a dying connection, whose messages are delivered, and its address unless
 * that can be used again, which is done at once if somebody waits for it. By
 * the polling thread, without a lock. */
HG_PRIVATE void na_sm_peer_bury(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Whether a pair's socket has ended, be there bells in it, and nobody polled
 * since. The lock is held. */
HG_PRIVATE bool na_sm_peer_has_ended(const struct na_sm_addr *addr);

/* Whether a living peer copies to or from memory of ours. The class lock is
 * held. */
HG_PRIVATE bool na_sm_peer_is_touching(const struct na_sm_addr *addr);

/* Unmap and close what a pair has; the class is closing, or by bury. Waits for
 * the pieces of transfers that other threads have under way. */
HG_PRIVATE void na_sm_peer_part(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Complete every operation of a list of our own; without a lock. */
HG_PRIVATE void na_sm_peer_complete(
    struct na_sm_class *self, struct na_link *list, na_return_t ret);

/* Move every operation of a list of ours to one of the caller's, where cancel
 * does not find it; the class lock is held. */
HG_PRIVATE void na_sm_peer_take_ops(struct na_link *to, struct na_link *from);

/* In the child of a fork: NA_FAULT, logged once. */
HG_PRIVATE na_return_t na_sm_peer_forked(struct na_sm_class *self);

/* ==== door ==== */

/* Connect whom somebody asked for, connect again whoever's listener was
 * crowded, give up what takes too long, be it a call, a HELLO or the answer to
 * a goodbye; the number of things done. Sets the class's tick to when this must
 * be called again, at the latest. */
HG_PRIVATE unsigned na_sm_door_tick(struct na_sm_class *self, uint64_t now);

/* The listening socket is readable. */
HG_PRIVATE unsigned na_sm_door_accept(struct na_sm_class *self);

/* A guest's socket is. */
HG_PRIVATE unsigned na_sm_door_guest(
    struct na_sm_class *self, struct na_sm_guest *guest);

/* The socket of somebody we dial is. */
HG_PRIVATE unsigned na_sm_door_answer(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The class is closing: send every guest away. */
HG_PRIVATE void na_sm_door_close(struct na_sm_class *self);

#endif
#endif
