/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core: the private parts of NA's objects.
 *
 * A transport sees struct na_class, na_context, na_addr, na_mem_handle and
 * na_op, and may extend each. The core's private part lies in front of each,
 * and only the modules of gen/na know it: reference counts, states, queues.
 *
 *     +--------------------+-------------------+--------------------------+
 *     | struct na_X_core   | struct na_X (pub) | the transport's own part |
 *     +--------------------+-------------------+--------------------------+
 *                          ^ pointers to the object point here
 *
 * A class of several transports is a chain of classes, its parts. The first
 * part is the head: other modules use it as the class. Each part has its own
 * slot table, emulation, addresses and self address. Contexts, queued messages,
 * counters and the lock belong to the head. A context also has one object for
 * each part, and so has a memory handle. An address belongs to the part that
 * reaches the peer, and so selects the part that an operation uses.
 *
 * The lock of the class guards everything that is not atomic: contexts,
 * operations, addresses and handles. It is held around most slots of the
 * transport: see plugin.h. It is released around the application's callbacks,
 * handlers and procs, and while a thread sleeps. A second lock guards the lists
 * of addresses, handles and contexts. No lock is taken inside it, so a
 * transport may call functions that take it while it holds its own lock.
 */
#ifndef HG_GEN_NA_CORE_H
#define HG_GEN_NA_CORE_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "na/queue.h"

struct na_emul;

#define NA_CORE_COUNTERS 64  /* maximum of named counters of a class */
#define NA_CORE_CONTEXTS 256 /* an id is a byte */
#define NA_CORE_STRINGS 5
#define NA_CORE_TAG 64
#define NA_CORE_PARTS HG_WAKER_FDS /* maximum of transports of a class */
#define NA_CORE_USES 5             /* counts that a layer has for each peer */

enum na_op_state {
    NA_OP_FREE = 0, /* in the pool */
    NA_OP_PENDING,  /* in the transport, the emulation or a match table */
    NA_OP_DONE      /* ended; its callback is queued or runs */
};

struct na_op_core {
    struct na_completion done; /* entry of the context's queue */
    uint64_t id;               /* see op.c                 */
    enum na_op_state state;
    enum na_lane lane;
    na_cb_t callback; /* NULL: none */
    void *arg;
    na_return_t ret;
    /* The context it belongs to; pub.context is that of the part. */
    struct na_context_core *home;
    struct na_op_core *next_free;
    struct na_segment *segments; /* of a queued message: a copy */
    struct na_notify *notify;    /* of a put with a message */
    /* Of a receive of many messages: see op.h. */
    struct na_result_core *spare; /* for the last result */
    struct na_result_core *last;  /* it waits for the callbacks of others */
    uint32_t running;             /* callbacks */
    bool handed; /* put: its data is sent, before all later messages */
    char *name;  /* lookup: a copy of the application's name, followed by the
                 name that the part looks up; if it has failed, the error, or
                 "" */
    _Alignas(max_align_t) struct na_op pub;
};

/* Counts of the emulation of RMA for an address. */
struct na_emul_peer {
    /* Transfers that wait until answers to other requests arrive. */
    struct na_link parked;
    uint64_t outstanding; /* bytes of unanswered requests to the peer */
    uint32_t requests;    /* their number */
    uint32_t answers;     /* unanswered requests of the peer */
};

/* Where the class has the name of an address from. */
enum na_addr_named {
    NA_ADDR_NOT_NAMED = 0, /* from the connection, or not from anywhere yet */
    NA_ADDR_NAMED_BY_PEER, /* only from peers, as the owner of bulk memory; the
                              class does not listen */
    NA_ADDR_LOOKED_UP      /* from the application */
};

struct na_addr_core {
    struct na_link link; /* in the class's list */
    _Atomic uint32_t refs;
    /* Guarded by the class's lock; together they are one of refs. */
    uint32_t uses;
    _Atomic uint32_t given;   /* references of the application */
    _Atomic int dead;         /* NA_SUCCESS while alive */
    enum na_addr_named named; /* class's lock */
    /* The name that the application uses, if it is not the class's prefix and
     * the transport's name; or NULL. Set once, with list_lock held. */
    char *label;
    /* Bytes of withdrawn memory still being sent to it: na_emul_withdraw. */
    _Atomic uint64_t lingering;
    struct na_emul_peer emul;
    uint64_t used[NA_CORE_USES]; /* counts of a layer above */
    /* Bytes of calls that the peer accepts at a time, according to its
     * answers; UINT64_MAX: unknown. */
    uint64_t window;
    uint64_t queued_bytes; /* total weight of its queued messages */
    /* Of receives that wait for it: see msg.h. */
    bool connecting; /* core->addr_connected will be called */
    bool again;      /* a message that may be its peer's came */
    _Alignas(max_align_t) struct na_addr pub;
};

struct na_mem_core {
    _Atomic uint32_t users; /* local operations in flight */
    _Atomic bool registered;
    na_offset_t *starts; /* logical offset of each segment, for binary search */
    struct na_mem_core *next; /* the same memory for the next part */
    /* In the class's list; if withdrawn, in the emulation's. */
    struct na_link link;
    /* Of the emulation: references of the owner, while registered, and of
     * transfers. For withdrawn memory: the peer it was registered for (a
     * reference), and the block to free with it. */
    uint64_t refs;
    struct na_addr *user;
    void *buf;
    _Alignas(max_align_t) struct na_mem_handle pub;
};

/* Receives messages of the RPC plane of a context. It must only queue the
 * message, which is borrowed and may change while it is read: see msg_arrived
 * in plugin.h. */
typedef na_return_t (*na_rpc_cb_t)(void *arg, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size);

/* Called when a peer died, or when the connection ended and its address lives.
 * The same rules apply. */
typedef void (*na_rpc_dead_cb_t)(
    void *arg, struct na_addr *addr, na_return_t ret);

/* The receiver of the RPC plane of a context; see msg.h. */
struct na_sink {
    na_rpc_cb_t take; /* NULL: no context has this number */
    na_rpc_dead_cb_t dead;
    void *arg;
};

struct na_context_core {
    unsigned char apart[HG_APART];
    struct na_queue queue;
    /* The context of the next part, which has no queue and no operations. */
    struct na_context_core *next;
    bool own;            /* created by the library */
    bool progressing;    /* a thread makes progress */
    unsigned pokes;      /* counts na_progress_poke */
    unsigned flags;      /* threads in NA_Progress_until, or that yield */
    bool put_off;        /* the entry that ran was put off, and flags is one
                            more: only inside na_context_trigger */
    _Atomic bool asked;  /* na_progress_ask was called; not poked yet */
    bool poll_armed;     /* the application sleeps on the descriptor */
    int epoll_fd;        /* for NA_Poll_get_fd(); -1 until the first call */
    int timer_fd;        /* part of epoll_fd */
    uint64_t timer_set;  /* when it expires */
    uint64_t window;     /* time to spin; see progress.h */
    unsigned idle;       /* rounds of progress that found nothing */
    bool yielded;        /* another thread ran in the last yield */
    uint64_t busy_until; /* the window is 0 until then */
    bool no_fd; /* the transport has no descriptor: a sleeper polls every
                  millisecond */
    int fds[NA_CORE_PARTS];  /* of the transports, part of epoll_fd */
    struct na_op_core **ops; /* by index; not freed before the context */
    uint32_t op_count;
    uint32_t op_capacity;
    struct na_op_core *op_free;
    struct na_result_core *results; /* of receives of many; the same holds */
    struct na_result_core *result_free;
    _Alignas(max_align_t) struct na_context pub;
};

/* The lists of a class: one for each hash of the tags of the expected plane,
 * and one for each other plane. */
#define NA_INBOX_TAGS 256u /* a power of two */
#define NA_INBOX_UNEXPECTED NA_INBOX_TAGS
#define NA_INBOX_RPC (NA_INBOX_TAGS + 1)
#define NA_INBOX_LISTS (NA_INBOX_TAGS + 2)

/* Messages without a receive, and receives without a message: see msg.h. */
struct na_inbox {
    struct na_link kept[NA_INBOX_LISTS];
    struct na_link receives[NA_INBOX_LISTS];
    uint64_t queued_bytes; /* total weight of queued messages */
    bool has_dead;         /* some may be from dead peers */
    bool unexpected;       /* the application receives unexpected messages */
    bool held;             /* a message was refused with NA_AGAIN */
    bool retry; /* ... and may be accepted now; cleared by progress */
};

struct na_counter {
    _Atomic(const char *) name;
    _Atomic uint64_t value;
};

struct na_class_core {
    struct na_plugin ops; /* every slot filled */
    struct na_init_info info;
    struct na_emul *emul; /* NULL: the transport moves memory itself */
    uint64_t due; /* when the transport must be polled, regardless of its
                descriptor; HG_CLOCK_NEVER */
    /* Layers that use the class, so that it cannot be closed. */
    _Atomic unsigned layers;
    struct na_class_core *head; /* the first part, possibly this one */
    struct na_class_core *next; /* next part, or NULL */
    /* Bytes sent and moved by this part of several; else NULL. */
    struct na_counter *sent;
    struct na_counter *moved;
    char sent_name[NA_CORE_TAG + 16];
    char moved_name[NA_CORE_TAG + 16];
    char tag[NA_CORE_TAG];   /* plugin and protocol: "zmq+tcp", "sm" */
    char prefix[4];          /* prefix of names that users see: "na+", or "" */
    struct hg_monitor *lock; /* of the class, which is the head's */
    struct hg_monitor own_lock;
    bool polling; /* a thread is in the slot poll, possibly without the lock */
    struct na_sink sinks[NA_CORE_CONTEXTS]; /* by number */
    struct na_link mems;                    /* memory handles */
    struct na_link blocks;                  /* of NA_Mem_alloc */
    struct na_link maps;                    /* pointers of NA_Mem_map */
    pthread_mutex_t list_lock; /* guards the two lists that follow */
    struct na_link addrs;
    struct na_context_core *contexts[NA_CORE_CONTEXTS];
    unsigned context_high; /* ids from here on were never used */
    struct na_inbox inbox;
    struct na_counter counters[NA_CORE_COUNTERS];
    pthread_t thread; /* the optional progress thread */
    bool thread_runs;
    /* This process is a fork of the one that opened the class. */
    _Atomic bool forked;
    _Atomic bool fork_logged;
    _Atomic bool thread_stop; /* the thread must end */
    struct na_context *thread_context;
    char *strings[NA_CORE_STRINGS]; /* copies of the strings in info */
    _Alignas(max_align_t) struct na_class pub;
};

/* Get the counter with a name (borrowed as long as the class), or the first
 * free one. NULL: all are in use. A module that counts often keeps the
 * pointer. */
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

/* The name of the counter with a number (borrowed as long as the class), and
 * its value; NULL: there are no more. */
HG_PRIVATE const char *na_class_counter_at(
    struct na_class *na_class, unsigned number, uint64_t *value_p);

/* No effect if `counter` is NULL. */
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

/* A receive or sink was added, or queued messages can be dropped: refused ones
 * may be offered again. The lock is held. */
static inline void na_core_retry(struct na_class_core *core)
{
    if (!core->inbox.held)
        return;
    core->inbox.held = false;
    core->inbox.retry = true;
    core->pub.core->wake(&core->pub);
}

/* Allocate a zeroed object: `before` bytes, then the public struct with its
 * extension. `size` is the transport's size of the latter. NULL: out of
 * memory. */
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

/* na_class_head: the class that a part belongs to, as the application knows it.
 * na_addr_class: the class that an address belongs to. */
static inline struct na_class *na_class_head(const struct na_class *part)
{
    return &na_class_core_of(part)->head->pub;
}

static inline struct na_class *na_addr_class(const struct na_addr *addr)
{
    return na_class_head(addr->na_class);
}

/* The context of a part, given the class's context. */
static inline struct na_context *na_context_for(
    struct na_context *context, const struct na_class *part)
{
    while (HG_UNLIKELY(context->na_class != part)) {
        HG_ASSERT(na_context_core_of(context)->next != NULL);
        context = &na_context_core_of(context)->next->pub;
    }
    return context;
}

/* The slot table of a class, all slots filled. */
static inline const struct na_plugin *na_class_ops(
    const struct na_class *na_class)
{
    return &na_class_core_of(na_class)->ops;
}

static inline struct na_emul *na_class_emul(const struct na_class *na_class)
{
    return na_class_core_of(na_class)->emul;
}

/* Whether this process is a fork of the one that opened the class; then the
 * class cannot be used. Checked before any lock is taken, because another
 * thread may have held the lock at fork. */
static inline bool na_class_is_forked(const struct na_class *na_class)
{
    return HG_UNLIKELY(atomic_load_explicit(
        &na_class_core_of(na_class)->forked, memory_order_relaxed));
}

/* The rule that divides a limit among peers: whether a peer that uses `mine` of
 * `all` may use `more`. It may use at most half of what is free. No sum
 * overflows below 2^61. */
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
