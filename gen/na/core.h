/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core: the hidden halves of NA's objects.
 *
 * A transport sees struct na_class, na_context, na_addr, na_mem_handle and
 * na_op and may extend each. In front of every one lies the core's own half,
 * which only the modules of gen/na know: reference counts, states, queues.
 *
 *     +--------------------+-------------------+--------------------------+
 *     | struct na_X_core   | struct na_X (pub) | the transport's own part |
 *     +--------------------+-------------------+--------------------------+
 *                          ^ what everybody else has a pointer to
 *
 * A class of several transports is a chain of classes, its parts: the first
 * one is the class that everybody else knows, the head. Each part has its own
 * table of slots, emulation, addresses and self address; contexts, messages
 * that wait, counters and the lock are the head's. In the same way a context
 * has one for each part, and a memory handle too. An address belongs to the
 * part that reaches the peer, and tells which one an operation goes to.
 *
 * The lock of the class guards all of it, in contexts, operations, addresses
 * and handles, but what is atomic. It is held around the transport's slots that
 * send, poll and wait, and free around callbacks, handlers and procs of the
 * application, and wherever a thread sleeps. A thread that has it may take it
 * again. A second lock, a leaf, guards the lists of addresses, handles and
 * contexts: a transport may come to these with a lock of its own held.
 */
#ifndef HG_GEN_NA_CORE_H
#define HG_GEN_NA_CORE_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "na/queue.h"

struct na_emul;

#define NA_CORE_COUNTERS 64  /* named counters of a class */
#define NA_CORE_CONTEXTS 256 /* ids are a byte */
#define NA_CORE_STRINGS 5
#define NA_CORE_TAG 64
#define NA_CORE_PARTS HG_WAKER_FDS /* transports of a class */
#define NA_CORE_USES 5             /* what a layer counts for each peer */

enum na_op_state {
    NA_OP_FREE = 0, /* in the pool */
    NA_OP_PENDING,  /* with the transport, the emulation or a match table */
    NA_OP_DONE      /* ended; its callback waits or runs */
};

struct na_op_core {
    struct na_completion done; /* entry of the context's queue */
    uint64_t id;               /* see op.c                 */
    enum na_op_state state;
    enum na_lane lane;
    na_cb_t callback; /* NULL: nobody wants to hear */
    void *arg;
    na_return_t ret;
    struct na_context_core *home; /* whose it is; pub.context is the part's */
    struct na_op_core *next_free;
    struct na_segment *segments; /* of a queued message: a copy */
    char *name; /* lookup: as the application wrote it, a copy, and behind
                   that what the part looks up */
    _Alignas(max_align_t) struct na_op pub;
};

/* What the emulation of RMA counts for an address. */
struct na_emul_peer {
    struct na_link parked; /* transfers that wait for answers to others */
    uint64_t outstanding;  /* bytes of requests to the peer without an answer */
    uint32_t requests;     /* their number */
    uint32_t answers;      /* the peer's requests that have none */
};

struct na_addr_core {
    struct na_link link; /* class's list */
    _Atomic uint32_t refs;
    uint32_t uses; /* under the class's lock; all of them are one of refs */
    _Atomic uint32_t given; /* those of them that the application has */
    _Atomic int dead;       /* NA_SUCCESS while alive */
    /* What the application calls it, if that is not the class's prefix and the
     * transport's name; or NULL. Set once, under list_lock. */
    char *label;
    /* Bytes of ours on their way to it, withdrawn: na_emul_withdraw. */
    _Atomic uint64_t lingering;
    struct na_emul_peer emul;
    uint64_t used[NA_CORE_USES]; /* by a layer above, which knows */
    uint64_t window;       /* bytes of its calls that the peer takes at a time,
                              as answers show; UINT64_MAX: unknown */
    uint64_t queued_bytes; /* what its kept messages count for */
    _Alignas(max_align_t) struct na_addr pub;
};

struct na_mem_core {
    _Atomic uint32_t users; /* local operations in flight */
    _Atomic bool registered;
    na_offset_t *starts; /* logical offset of each segment, for searching */
    struct na_mem_core *next; /* the same memory, for another part */
    struct na_link link;      /* class's list; if withdrawn, the emulation's */
    /* The emulation's: references of the owner, while it is registered, and of
     * transfers; of withdrawn memory for whom it was (a reference), and what to
     * free with it. */
    uint64_t refs;
    struct na_addr *user;
    void *buf;
    _Alignas(max_align_t) struct na_mem_handle pub;
};

/* Receives the RPC plane of a context; must only file the message. That is
 * borrowed, and may change while it is looked at: see msg_arrived in
 * plugin.h. */
typedef na_return_t (*na_rpc_cb_t)(void *arg, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size);

/* Told that a peer died, or that the connection to it ended and its address
 * lives, under the same rules. */
typedef void (*na_rpc_dead_cb_t)(
    void *arg, struct na_addr *addr, na_return_t ret);

/* Where the RPC plane of a context goes; see msg.h. */
struct na_sink {
    na_rpc_cb_t take; /* NULL: no context has this number */
    na_rpc_dead_cb_t dead;
    void *arg;
};

struct na_context_core {
    unsigned char apart[HG_APART];
    struct na_queue queue;
    struct na_context_core *next; /* that of the next part, which has no queue
                                     and no operations of its own */
    bool own;                     /* the library's own, not the application's */
    bool progressing;             /* a thread makes progress on it */
    unsigned pokes;               /* na_progress_poke */
    bool poll_armed;              /* the application sleeps on our descriptor */
    int epoll_fd;                 /* for NA_Poll_get_fd; -1 until asked */
    int timer_fd;                 /* joined with that */
    uint64_t timer_set;           /* when it rings */
    uint64_t window;              /* how long to spin; see progress.h */
    unsigned idle;                /* turns that found nothing */
    bool yielded;                 /* another thread ran in the last yield */
    uint64_t busy_until;          /* the window is 0 until then */
    bool no_fd;              /* the transport has no descriptor: a sleeper does
                                not see what comes for up to a millisecond */
    struct na_op_core **ops; /* by index; type-stable until destruction */
    uint32_t op_count;
    uint32_t op_capacity;
    struct na_op_core *op_free;
    _Alignas(max_align_t) struct na_context pub;
};

/* The lists of a class: the expected plane's by tag, and one each for the other
 * planes. */
#define NA_INBOX_TAGS 256u /* a power of two */
#define NA_INBOX_UNEXPECTED NA_INBOX_TAGS
#define NA_INBOX_RPC (NA_INBOX_TAGS + 1)
#define NA_INBOX_LISTS (NA_INBOX_TAGS + 2)

/* Messages without a receive, and receives without a message: see msg.h. */
struct na_inbox {
    struct na_link kept[NA_INBOX_LISTS];
    struct na_link receives[NA_INBOX_LISTS];
    uint64_t queued_bytes; /* what kept messages count for */
    bool has_dead;         /* some may be of peers that died */
    bool held;             /* a message was held back: NA_AGAIN */
    bool retry;            /* ... and may find room now; cleared by progress */
};

struct na_counter {
    _Atomic(const char *) name;
    _Atomic uint64_t value;
};

struct na_class_core {
    struct na_plugin ops; /* every slot filled */
    struct na_init_info info;
    struct na_emul *emul;    /* NULL: the transport moves memory itself */
    uint64_t due;            /* when the transport wants to be polled, whatever
                                   its descriptor tells; HG_CLOCK_NEVER */
    _Atomic unsigned layers; /* that run on it, so it cannot be closed */
    struct na_class_core *head; /* the first part, maybe itself */
    struct na_class_core *next; /* part, or NULL */
    /* Bytes sent by, and moved by this part of several; else NULL. */
    struct na_counter *sent;
    struct na_counter *moved;
    char sent_name[NA_CORE_TAG + 16];
    char moved_name[NA_CORE_TAG + 16];
    char tag[NA_CORE_TAG];   /* plugin and protocol: "zmq+tcp", "sm" */
    char prefix[4];          /* what users see before names: "na+", or "" */
    struct hg_monitor *lock; /* of the class: the head's */
    struct hg_monitor own_lock;
    bool polling; /* a thread is in poll, perhaps without the lock */
    struct na_sink sinks[NA_CORE_CONTEXTS]; /* by number */
    struct na_link mems;                    /* memory handles */
    pthread_mutex_t list_lock;              /* of the two that follow; a leaf */
    struct na_link addrs;
    struct na_context_core *contexts[NA_CORE_CONTEXTS];
    unsigned context_high; /* none from here on was ever used */
    struct na_inbox inbox;
    struct na_counter counters[NA_CORE_COUNTERS];
    pthread_t thread; /* the optional progress thread */
    bool thread_runs;
    _Atomic bool forked; /* this process is a child of the class's */
    _Atomic bool fork_logged;
    _Atomic bool thread_stop; /* it is to end */
    struct na_context *thread_context;
    char *strings[NA_CORE_STRINGS]; /* copies of info's */
    _Alignas(max_align_t) struct na_class pub;
};

/* The counter of that name (borrowed as long as the class), or the first free
 * one. NULL when all are taken. A module that counts often keeps it. */
static inline struct na_counter *na_class_counter(
    struct na_class_core *core, const char *name)
{
    unsigned i;

    core = core->head;
    for (i = 0; i < NA_CORE_COUNTERS; i++) {
        const char *none = NULL;
        const char *there =
            atomic_load_explicit(&core->counters[i].name, memory_order_acquire);

        if (there == NULL &&
            atomic_compare_exchange_strong(
                &core->counters[i].name, &none, name))
            return &core->counters[i];
        if (there == NULL)
            there = none;
        if (there == name || strcmp(there, name) == 0)
            return &core->counters[i];
    }
    return NULL;
}

/* The name of the counter with that number (borrowed as long as the class),
 * and its value; NULL: there are no more. */
HG_PRIVATE const char *na_class_counter_at(
    struct na_class *na_class, unsigned number, uint64_t *value_p);

/* Nothing is counted where `counter` is NULL. */
static inline void na_counter_add(struct na_counter *counter, uint64_t n)
{
    if (counter != NULL)
        atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

/* The lock of a context's class. */
static inline void na_context_enter(const struct na_context_core *context)
{
    hg_enter(context->queue.lock);
}

static inline void na_context_leave(const struct na_context_core *context)
{
    hg_leave(context->queue.lock);
}

/* Zeroed memory for an object of three parts: what lies before the public one,
 * and that with its extension, of whose size the transport says `size`. NULL:
 * out of memory. */
static inline void *na_core_alloc(size_t before, size_t pub, size_t size)
{
    return hg_mem_calloc(1, before + (size > pub ? size : pub));
}

static inline struct na_op_core *na_op_core_of(const struct na_op *op)
{
    return HG_CONTAINER_OF(op, struct na_op_core, pub);
}

static inline struct na_addr_core *na_addr_core_of(const struct na_addr *addr)
{
    return HG_CONTAINER_OF(addr, struct na_addr_core, pub);
}

static inline struct na_mem_core *na_mem_core_of(
    const struct na_mem_handle *mem)
{
    return HG_CONTAINER_OF(mem, struct na_mem_core, pub);
}

static inline struct na_context_core *na_context_core_of(
    const struct na_context *context)
{
    return HG_CONTAINER_OF(context, struct na_context_core, pub);
}

static inline struct na_class_core *na_class_core_of(
    const struct na_class *na_class)
{
    return HG_CONTAINER_OF(na_class, struct na_class_core, pub);
}

/* The class that a part belongs to, as the application knows it; that of the
 * part that an address is of. */
static inline struct na_class *na_class_head(const struct na_class *part)
{
    return &na_class_core_of(part)->head->pub;
}

static inline struct na_class *na_addr_class(const struct na_addr *addr)
{
    return na_class_head(addr->na_class);
}

/* The context of that part, given the class's. */
static inline struct na_context *na_context_for(
    struct na_context *context, const struct na_class *part)
{
    while (HG_UNLIKELY(context->na_class != part)) {
        assert(na_context_core_of(context)->next != NULL);
        context = &na_context_core_of(context)->next->pub;
    }
    return context;
}

/* The filled slot table of a class. */
static inline const struct na_plugin *na_class_ops(
    const struct na_class *na_class)
{
    return &na_class_core_of(na_class)->ops;
}

static inline struct na_emul *na_class_emul(const struct na_class *na_class)
{
    return na_class_core_of(na_class)->emul;
}

/* Whether this process is a child of the one that opened the class: then
 * nothing may be done with it. Asked before any lock is taken, since a thread
 * that the child does not have may have held it. */
static inline bool na_class_is_forked(const struct na_class *na_class)
{
    return HG_UNLIKELY(atomic_load_explicit(
        &na_class_core_of(na_class)->forked, memory_order_relaxed));
}

/* The rule that divides what is limited among peers: whether one that uses
 * `mine` of `all` that is used may use so much more. It may use at most half of
 * what is free. No sum overflows below 2^61. */
static inline bool na_core_is_fair(
    uint64_t mine, uint64_t all, uint64_t more, uint64_t limit)
{
    return mine + all + 2 * more <= 2 * limit;
}

/* Identifier of an operation, generation included; stable while pending. */
static inline uint64_t na_op_id_of(const struct na_op *op)
{
    return na_op_core_of(op)->id;
}

#endif
