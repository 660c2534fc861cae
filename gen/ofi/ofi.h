/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_ofi: the libfabric transport.
 *
 *     cc -DHG_NA_OFI=1 app.c hg.c hg_na_ofi.c -lfabric -lpthread
 *
 * A class has one fabric, one domain and one address vector. Each context of
 * the application has an endpoint (FI_EP_RDM) with a completion queue, so that
 * contexts progress in parallel. The first endpoint belongs to the class: its
 * address is the class's, and contexts of the library share it.
 *
 * Messages go by fi_send, from a buffer of ours, and arrive in multi-receive
 * buffers. They are matched by NA, as on every transport, so tagged receives
 * are not used. Puts and gets are fi_writemsg and fi_readmsg between the two
 * applications' buffers.
 *
 * An RDM endpoint does not say who sent a message, nor that a peer is gone. So
 * each message carries a token, a random number that its receiver chose for
 * this sender, and two peers begin with a handshake:
 *
 *     one that looks up                          one that is looked up
 *       HELLO  incarnation, a token for the
 *              peer, our endpoints       ------>  address made
 *       <------ WELCOME  incarnation, a token for us, its endpoints
 *     lookup done; address ready
 *       MESSAGE  with that token         ------>  address ready
 *
 * HELLO is repeated as a keep-alive, four times in the shorter death_ms of the
 * two, and each is answered. A peer that stays silent for death_ms is dead. So
 * is one that answers with another incarnation: it was restarted. A class that
 * closes says BYE. Because an application that computes polls nothing, each
 * class has a thread, the clock: it sends the keep-alives, and polls endpoints
 * that nobody has polled since its last turn. So a peer that computes answers,
 * and serves puts and gets where the provider needs our progress for that.
 *
 * Locks, outermost first:
 *     clock_lock           the table of endpoints: held while one is opened,
 *                          and while the clock goes through them
 *     endpoint->poll_lock  held by the thread that polls the endpoint
 *     class->lock          addresses, their states and lists, and the AV
 *     endpoint->lock       buffers, and puts and gets in flight
 *     class->keys_lock     calls of libfabric, for some providers
 * Functions of the core that may call a slot are called without class->lock and
 * endpoint->lock (but see na_ofi_flush_addr). Those that the clock calls with
 * clock_lock create and destroy no context.
 */
#ifndef HG_GEN_OFI_OFI_H
#define HG_GEN_OFI_OFI_H

#include "plug/bytes.h"
#include "plug/list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define NA_OFI_VERSION 1
#define NA_OFI_HEADER 24   /* bytes in front of every message */
#define NA_OFI_RAW_MAX 256 /* bytes of a provider's address */
#define NA_OFI_CONTEXTS 256
/* Over ofi_rxm a receiver fetches what is larger than RXM_MAX. When the sender
 * dies meanwhile, libfabric 1.17 never ends the send of such a message, and
 * does not tell that a multi-receive buffer is used up: a buffer takes one
 * message there. */
#define NA_OFI_RXM_RECVS 64
#define NA_OFI_RXM_MAX ((size_t) 16384)
#define NA_OFI_KEY_MAX 64     /* bytes of an authorization key */
#define NA_OFI_BATCH 16       /* completions taken at a time */
#define NA_OFI_RECVS 4        /* multi-receive buffers of an endpoint */
#define NA_OFI_PIECES 16      /* of a put or get, in flight together */
#define NA_OFI_IOV_MAX 8      /* segments of a piece */
#define NA_OFI_SMALL 4096     /* bytes of a small buffer for sending */
#define NA_OFI_INJECT_MAX 512 /* bytes that are gathered on the stack */
#define NA_OFI_RECV_MIN ((size_t) 256 << 10) /* of a multi-receive buffer */
#define NA_OFI_TRIES 32 /* of a HELLO, in which most connections are made */
#define NA_OFI_MS ((uint64_t) 1000000)
#define NA_OFI_NEVER UINT64_MAX

#define NA_OFI_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

enum na_ofi_kind {
    NA_OFI_HELLO = 1,
    NA_OFI_WELCOME,
    NA_OFI_MESSAGE,
    NA_OFI_BYE, /* "I close" */
    NA_OFI_KIND_MAX
};

/*
 *      +-----------+---------+
 *      v           |         |
 *     idle --> asked --> ready --> dead
 *                          ^        ^
 *                       accepted ---+
 *
 * Idle: known by name only, or could not be reached, or was closed in order;
 * the next use asks.
 * Accepted: it said HELLO, and has yet to send a message with its token.
 */
enum na_ofi_state {
    NA_OFI_IDLE,
    NA_OFI_ASKED,
    NA_OFI_ACCEPTED,
    NA_OFI_READY,
    NA_OFI_DEAD
};

/* The context of an operation of libfabric's. `provider` belongs to the
 * provider until the operation ends. */
enum na_ofi_work { NA_OFI_RECV, NA_OFI_SEND, NA_OFI_RMA, NA_OFI_DRAIN };

struct na_ofi_request {
    struct fi_context2 provider;
    enum na_ofi_work work;
};

/* Memory of ours that a message is sent from, or that messages arrive in. */
struct na_ofi_buffer {
    struct na_ofi_request request;
    struct na_ofi_buffer *next; /* in a list of free ones */
    struct na_ofi_buffer *all;  /* in the list of all, to be freed */
    struct na_ofi_addr *addr;   /* send: to whom; a reference */
    struct fid_mr *mr;          /* where the provider wants FI_MR_LOCAL */
    void *desc;
    size_t size;
    unsigned char *bytes;
};

/* An entry of the address vector. A provider may give one entry for all
 * insertions of an address and remove it with the first removal (shm does), so
 * we count ourselves. */
struct na_ofi_entry {
    struct na_link link; /* class->entries */
    unsigned uses;
    fi_addr_t at;
    unsigned char raw[NA_OFI_RAW_MAX];
};

/* A further endpoint of a peer, for its context `id`. */
struct na_ofi_far {
    struct na_ofi_far *next;
    uint8_t id;
    uint64_t incarnation; /* of the peer */
    fi_addr_t at;
};

struct na_ofi_op;

struct na_ofi_addr {
    struct na_addr base;
    struct na_link link;  /* class->addrs; while asked, accepted or ready it
                             holds one reference */
    struct na_link named; /* class->named: can be found by its name */
    struct na_link due;   /* class->due: has something to send that did not go
                             at once */
    _Atomic int state;    /* enum na_ofi_state */
    _Atomic bool open;    /* ready, and nothing waits in `sends` */
    bool reached;         /* it was ready once */
    bool accepted;        /* it looked us up */
    bool hello;           /* due: a HELLO */
    uint8_t home;         /* id of the endpoint that asks, or was asked */
    unsigned char raw[NA_OFI_RAW_MAX]; /* of its first endpoint */
    fi_addr_t at;                      /* the same; FI_ADDR_UNSPEC: none */
    _Atomic(struct na_ofi_far *) far;  /* only added to */
    uint32_t slot;                /* class->slots that knows it by `token` */
    uint64_t token;               /* what it puts into messages to us */
    _Atomic uint64_t theirs;      /* what we put into messages to it */
    _Atomic uint64_t incarnation; /* 0: unknown yet */
    _Atomic uint64_t heard;       /* last in this turn of the clock */
    _Atomic uint8_t context;      /* endpoint that its last message came from */
    unsigned tries;               /* of that HELLO, or WELCOME */
    uint64_t asked;               /* turn of our last HELLO */
    uint64_t deadline;            /* last turn: of an address that is asked or
                                accepted, or whose peer said BYE; else
                                NA_OFI_NEVER */
    uint64_t often;               /* turns between our keep-alives */
    _Atomic unsigned flight;      /* pieces of puts and gets */
    _Atomic unsigned suspects; /* puts and gets that are tried alone; rma.c */
    _Atomic(struct na_ofi_op *) turn; /* the one that is tried now */
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers; /* that wait until `sends` have left */
};

/* Empty segments have no registration, and are not described to peers. */
struct na_ofi_mem {
    struct na_mem_handle base;
    struct fid_mr **mrs; /* for peers: one a segment; NULL: not registered */
    _Atomic(struct fid_mr **) local; /* for puts and gets of ours, likewise;
                                        stays until the handle goes */
    struct na_ofi_piece *there;      /* remote: base.segment_count of them */
};

/* A segment of remote memory. */
struct na_ofi_piece {
    uint64_t base; /* its address, or offset, for the provider */
    uint64_t size;
    uint64_t key;
    na_offset_t start; /* in the handle */
};

/* A piece of a put or get, in flight while `taken`. */
struct na_ofi_part {
    struct na_ofi_request request;
    struct na_ofi_op *op;
    bool taken;
};

/* A place in memory: a segment, and bytes into it. */
struct na_ofi_place {
    na_size_t segment;
    na_size_t within;
};

/* A put or get: cut into pieces, a few of which are in flight. Guarded by
 * end->lock; but `asked` to `retry`, and `left` to `remote`, belong to the
 * thread that set `busy`. It is under way while it is waiting or busy, or has
 * pieces in flight. */
struct na_ofi_op {
    struct na_op base;
    struct na_ofi_end *end;
    struct na_link active; /* endpoint->active */
    struct na_link due;    /* endpoint->due, while `waiting` */
    uint64_t over;         /* since when it is to end, in ns; 0: it is not; or
                              when its connection was broken */
    bool waiting;          /* its next piece did not go at once */
    bool busy;             /* a thread starts pieces */
    bool broken;           /* the connection broke: to be started anew */
    bool asked;            /* the peer was not ready, and is being asked */
    bool started;          /* the provider took a piece, in this try */
    unsigned tries;        /* as a suspect; see rma.c */
    uint64_t retry;        /* not before this time, in ns */
    unsigned flight;
    na_return_t ret;            /* not NA_SUCCESS: start no more pieces */
    na_size_t left;             /* bytes in pieces that are yet to start */
    struct na_ofi_place local;  /* of the next piece */
    struct na_ofi_place remote; /* the same */
    struct na_ofi_part parts[NA_OFI_PIECES];
};

/* An endpoint, with its completion queue. */
struct na_ofi_end {
    struct na_ofi_class *na_class;
    uint8_t id;
    struct fid_ep *ep;
    _Atomic(struct fid_ep *) rma; /* for puts and gets; NULL: none yet; may be
                                     `ep` */
    struct fid_cq *cq;
    int fd;                    /* of the queue, or NA_POLL_FD_NONE */
    unsigned contexts;         /* that use it; guarded by clock_lock */
    _Atomic bool polled;       /* since the clock's last turn */
    _Atomic unsigned sleepers; /* contexts, on its descriptor */
    pthread_mutex_t poll_lock;
    pthread_mutex_t lock;
    struct na_ofi_buffer *all;
    struct na_ofi_buffer *small; /* free, of NA_OFI_SMALL bytes */
    struct na_ofi_buffer *large; /* free, of the largest message */
    struct na_ofi_buffer *spent; /* receive buffers to be posted again */
    struct na_ofi_buffer *used;  /* the same, of the batch that is looked at;
                                    who polls */
    struct na_link due;          /* puts and gets whose next piece waits */
    struct na_link active;       /* puts and gets under way */
    unsigned flight;             /* pieces in flight */
    unsigned posting;            /* threads that start one */
    bool renewing;               /* nobody starts one */
    uint64_t renewed;            /* when, in ns; guarded by clock_lock */
    uint64_t pause;              /* the same: until it may be again */
    size_t raw_size;
    unsigned char raw[NA_OFI_RAW_MAX];
};

struct na_ofi_slot {
    struct na_ofi_addr *addr; /* NULL: free */
    uint64_t token;
};

struct na_ofi_class {
    struct na_class base;
    pthread_mutex_t lock;
    struct fi_info *info; /* what the provider offered */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct na_link entries;
    int guard;       /* shm: what keeps the class's name, or -1 */
    size_t src_size; /* address of the first endpoint; 0: any */
    unsigned char src[NA_OFI_RAW_MAX];
    size_t message_size; /* of the largest, header included */
    bool is_rxm;         /* see NA_OFI_RXM_MAX */
    bool keys_unsafe;    /* see na_ofi_keys_lock */
    pthread_mutex_t keys_lock;
    _Atomic unsigned names; /* of endpoints but the first */
    struct na_ofi_end *ends[NA_OFI_CONTEXTS];
    _Atomic unsigned end_count;
    struct na_link addrs; /* asked, accepted, ready */
    struct na_link named;
    struct na_link due;
    _Atomic bool hurry; /* something did not go at once: the clock ticks each
                           millisecond */
    struct na_ofi_slot *slots;
    uint32_t slot_count;
    /* The clock. */
    pthread_t clock;
    pthread_cond_t alarm; /* `hurry` or `stopping` */
    bool ticking;
    bool stopping;
    bool full;                  /* no descriptor is free, which was logged */
    pthread_mutex_t clock_lock; /* held while the clock polls endpoints, and by
                                   who opens or closes one; outermost */
    uint64_t period;            /* of a turn, in ns */
    uint64_t turn;              /* how many there were */
    uint64_t death_ticks;       /* of silence that mean death */
    uint64_t lookup_ticks;
};

struct na_ofi_context {
    struct na_context base;
    struct na_ofi_end *end;
    bool sleeps; /* counted in end->sleepers */
};

static struct na_ofi_class *na_ofi_of(const struct na_class *na_class)
{
    return (struct na_ofi_class *) (uintptr_t) na_class;
}

static struct na_ofi_addr *na_ofi_addr_of(const struct na_addr *addr)
{
    return (struct na_ofi_addr *) (uintptr_t) addr;
}

static struct na_ofi_mem *na_ofi_mem_of(const struct na_mem_handle *mem)
{
    return (struct na_ofi_mem *) (uintptr_t) mem;
}

static struct na_ofi_end *na_ofi_end_of(const struct na_context *context)
{
    return ((const struct na_ofi_context *) context)->end;
}

static void na_ofi_lock(pthread_mutex_t *lock)
{
    int rc = pthread_mutex_lock(lock);

    assert(rc == 0);
    (void) rc;
}

static void na_ofi_unlock(pthread_mutex_t *lock)
{
    int rc = pthread_mutex_unlock(lock);

    assert(rc == 0);
    (void) rc;
}

struct na_ofi_header;

/* Send what did not go at once; the number of things done. No lock is held. */
HG_PRIVATE unsigned na_ofi_flush(struct na_ofi_class *self);

/* Poll an endpoint: the number of things done. poll_lock is held. */
HG_PRIVATE unsigned na_ofi_poll_end(struct na_ofi_end *end);

/* Send HELLO or WELCOME with our introduction, or BYE, from the endpoint that
 * the peer knows best. The class's lock is held. */
HG_PRIVATE ssize_t na_ofi_send_control(
    struct na_ofi_class *self, struct na_ofi_addr *addr, enum na_ofi_kind kind);

/* Have an address ready: NA_SUCCESS, it is; NA_AGAIN, it is being asked, by
 * the endpoint `home`; else why that cannot be. The class's lock is held. */
HG_PRIVATE na_return_t na_ofi_connect(
    struct na_ofi_class *self, struct na_ofi_addr *addr, uint8_t home);

/* Say BYE to a peer, after whatever was sent to it: the address is idle then,
 * or dead if the peer had looked us up. No lock is held. */
HG_PRIVATE void na_ofi_part(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* The peer's endpoint for its context `id`, or else its first one. Without a
 * lock, too. */
HG_PRIVATE fi_addr_t na_ofi_target(struct na_ofi_addr *addr, uint8_t id);

/* A peer is gone, or cannot be reached: end what waits for it. No lock is held;
 * may be called again. */
HG_PRIVATE void na_ofi_lost(
    struct na_ofi_class *self, struct na_ofi_addr *addr, na_return_t code);

/* Something was put on endpoint->due: have the clock tick fast, until nothing
 * is due any more. No lock is held. */
HG_PRIVATE void na_ofi_hurry(struct na_ofi_class *self);

/* The endpoint for puts and gets was opened: have messages that come to it
 * taken, because some providers keep them otherwise, as many as there are. */
HG_PRIVATE na_return_t na_ofi_drain_begin(struct na_ofi_end *end);

/* Begin to receive on a new endpoint. */
HG_PRIVATE na_return_t na_ofi_recv_begin(struct na_ofi_end *end);

/* The endpoint is closed: the provider uses none of its buffers any more. */
HG_PRIVATE void na_ofi_buffers_free(struct na_ofi_end *end);

#endif
