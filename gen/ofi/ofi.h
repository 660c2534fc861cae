/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_ofi: the libfabric transport.
 *
 *     cc -DHG_NA_OFI=1 app.c hg.c hg_na_ofi.c -lfabric -lpthread
 *
 * A class has one fabric, one domain and one address vector. Each context of
 * the application has an endpoint (FI_EP_RDM) with a completion queue, so that
 * contexts progress in parallel. The first endpoint belongs to the class: its
 * address is the class's, and contexts of the library share it. These have one
 * family of internet addresses; for peers of the other one see other.c.
 *
 * Messages are sent with fi_send from a buffer of the transport, and arrive in
 * multi-receive buffers. NA matches them, as on every transport, so tagged
 * receives are not used. Puts and gets are fi_writemsg and fi_readmsg between
 * the buffers of the two applications.
 *
 * An RDM endpoint reports neither the sender of a message nor the death of a
 * peer. Therefore each message carries a token, a random number that its
 * receiver chose for this sender, and two peers start with a handshake:
 *
 *     one that looks up                          one that is looked up
 *       HELLO  incarnation, a token for the
 *              peer, own endpoints       ------>  address created
 *       <------ WELCOME  incarnation, a token, its endpoints
 *     lookup done; address ready
 *       MESSAGE  with that token         ------>  address ready
 *
 * HELLO is repeated as a keep-alive, four times within the shorter death_ms of
 * the two peers, and each is answered. A peer that is silent for death_ms is
 * dead. A peer that answers with another incarnation was restarted, and so is
 * dead, too. A class that closes sends BYE. An application that computes does
 * not poll. Therefore each class has a thread, the clock: it sends the
 * keep-alives, and polls endpoints that were not polled since its last tick. So
 * a computing peer answers, and serves puts and gets if the provider needs
 * progress for that.
 *
 * Each connection has a window for messages in each direction: a sender counts
 * what its peer has not granted back, and sends nothing more when that reaches
 * NA_OFI_WINDOW. Messages then wait in `sends`. The receiver grants what the
 * core has taken. Messages that the core does not take yet are copied and held
 * (NA_CAP_HOLDS_BACK), because the buffers serve all peers. So a peer that does
 * not poll, or does not take its messages, delays only what is sent to it, and
 * uses a limited amount of memory at both sides.
 *
 * Locks, outermost first:
 *     clock_lock           the table of endpoints: held while one is opened,
 *                          and while the clock iterates over them
 *     endpoint->poll_lock  held by the thread that polls the endpoint
 *     class->lock          addresses, their states and lists, and the AV
 *     endpoint->lock       buffers, and puts and gets in flight
 *     class->keys_lock     calls of libfabric, for some providers
 *
 * Functions of the core that may call a slot are called without class->lock and
 * endpoint->lock (but see na_ofi_flush_addr). Those that the clock calls with
 * clock_lock create and destroy no context.
 */
#ifndef HG_GEN_OFI_OFI_H
#define HG_GEN_OFI_OFI_H

#include "plug/bytes.h"
#include "plug/host.h"
#include "plug/list.h"
#include "plug/needs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#ifdef __linux__
#include <sys/epoll.h>
#endif

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define NA_OFI_VERSION 2
#define NA_OFI_MEM_VERSION 1 /* of a memory handle */
#define NA_OFI_HEADER 24     /* bytes in front of every message */
#define NA_OFI_RAW_MAX 256   /* bytes of a provider's address */
#define NA_OFI_CONTEXTS 256
#define NA_OFI_OTHER NA_OFI_CONTEXTS /* the endpoint of the other family */
#define NA_OFI_ENDS (NA_OFI_OTHER + 1)
/* With ofi_rxm a receiver fetches messages larger than RXM_MAX. If the sender
 * dies meanwhile, libfabric 1.17 never completes the receive of such a message,
 * and does not report that a multi-receive buffer is used up: therefore a
 * buffer takes only one message there. */
#define NA_OFI_RXM_RECVS 64
#define NA_OFI_RXM_MAX ((size_t) 16384)
#define NA_OFI_KEY_MAX 64     /* bytes of an authorization key */
#define NA_OFI_BATCH 16       /* completions read at a time */
#define NA_OFI_RECVS 4        /* multi-receive buffers of an endpoint */
#define NA_OFI_PIECES 16      /* pieces of a put or get in flight at a time */
#define NA_OFI_IOV_MAX 8      /* segments of a piece */
#define NA_OFI_SMALL 4096     /* bytes of a small buffer for sending */
#define NA_OFI_INJECT_MAX 512 /* bytes that are gathered on the stack */
/* Bytes of messages, not granted back, at which further ones wait. Each counts
 * its header, and NA_OFI_COST for its memory. Both sides must have the same
 * values. */
#define NA_OFI_WINDOW ((uint64_t) 1 << 20)
#define NA_OFI_COST 128u
#define NA_OFI_RECV_MIN ((size_t) 256 << 10) /* of a multi-receive buffer */
/* Attempts of a HELLO; most connections are made within these. */
#define NA_OFI_TRIES 32
/* Descriptors and threads that a class takes at most, if its provider is
 * sockets, which crashes with fewer (libfabric 1.17). */
#define NA_OFI_FDS 13u
#define NA_OFI_THREADS 4u
#define NA_OFI_MS ((uint64_t) 1000000)
#define NA_OFI_NEVER UINT64_MAX

#define NA_OFI_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

enum na_ofi_kind {
    NA_OFI_HELLO = 1,
    NA_OFI_WELCOME,
    NA_OFI_MESSAGE,
    NA_OFI_BYE,   /* "I close" */
    NA_OFI_LINK,  /* to an endpoint for puts and gets: see rma.c */
    NA_OFI_GRANT, /* "send so many more bytes of messages" */
    NA_OFI_KIND_MAX
};

/*
 *      +-----------+---------+
 *      v           |         |
 *     idle --> asked --> ready --> dead
 *                          ^        ^
 *                       accepted ---+
 *
 * Idle: only the name is known, or it could not be reached, or was closed in
 * order; the next use sends HELLO.
 * Asked: HELLO was sent, to the number of a host name that is tried now; or the
 * name is being resolved, each time again (plug/host.h).
 * Accepted: the peer sent HELLO, but no message with its token yet.
 */
enum na_ofi_state {
    NA_OFI_IDLE,
    NA_OFI_ASKED,
    NA_OFI_ACCEPTED,
    NA_OFI_READY,
    NA_OFI_DEAD
};

/* The context of a libfabric operation. `provider` belongs to the provider
 * until the operation ends. */
enum na_ofi_work {
    NA_OFI_RECV,
    NA_OFI_SEND,
    NA_OFI_SEND_LINK, /* its failure means nothing */
    NA_OFI_RMA,
    NA_OFI_DRAIN
};

struct na_ofi_request {
    struct fi_context2 provider;
    enum na_ofi_work work;
};

/* A buffer that a message is sent from, or that messages arrive in. */
struct na_ofi_buffer {
    struct na_ofi_request request;
    struct na_ofi_buffer *next; /* in a list of free ones */
    struct na_ofi_buffer *all;  /* in the list of all, to be freed */
    struct na_ofi_addr *addr;   /* send: the receiver, with a reference */
    struct fid_mr *mr;          /* where the provider wants FI_MR_LOCAL */
    void *desc;
    size_t size;
    unsigned char *bytes;
};

/* A copy of a message that the core did not take yet. */
struct na_ofi_held {
    struct na_link link;
    uint64_t token; /* of the connection that it came by */
    na_tag_t tag;
    uint8_t plane;
    uint8_t target;
    size_t size;
    unsigned char bytes[];
};

/* The objects of libfabric for one family of addresses. A class has that of its
 * own addresses. It may open the other one of the internet: see other.c. */
struct na_ofi_family {
    struct fi_info *info; /* the configuration from the provider */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct na_link entries;
    size_t src_size; /* address of the first endpoint; 0: any */
    unsigned char src[NA_OFI_RAW_MAX];
};

/* An entry of the address vector. A provider may return one entry for all
 * insertions of an address and remove it with the first removal (shm does), so
 * the transport counts insertions. */
struct na_ofi_entry {
    struct na_link link; /* family->entries */
    unsigned uses;
    unsigned slashes; /* shm: in front of the name */
    ino_t file;       /* shm: of the peer's memory */
    fi_addr_t at;
    unsigned char raw[NA_OFI_RAW_MAX];
};

/* A further endpoint of a peer, for its context `id`. */
struct na_ofi_far {
    struct na_ofi_far *next;
    uint8_t id;
    bool rma;   /* for the peer's puts and gets: only LINK is sent there */
    bool due;   /* a LINK */
    bool other; /* its family is the other one */
    uint64_t incarnation; /* of the peer */
    fi_addr_t at;
};

struct na_ofi_op;

struct na_ofi_addr {
    struct na_addr base;
    /* In class->addrs, with one reference while asked, accepted or ready. */
    struct na_link link;
    struct na_link named; /* class->named: can be found by its name */
    /* In class->due: has something to send that could not be sent at once. */
    struct na_link due;
    _Atomic int state; /* enum na_ofi_state */
    _Atomic bool open; /* ready, and `sends` is empty */
    bool reached;      /* it was ready before */
    bool accepted;     /* the peer looked up this class */
    bool receives;     /* asked only because receives wait for it */
    bool looked_up;    /* the application has resolved it */
    bool hello;        /* due: a HELLO or WELCOME */
    bool greeted;      /* the provider has connected it, and sent the HELLO */
    bool has_host;     /* its name has a host name instead of a number */
    uint8_t home;      /* id of the endpoint that sent or received HELLO */
    /* Its family is the other one, whose only endpoint sends to it. Changes
     * while it is idle or asked, with the class's lock. */
    _Atomic bool other;
    unsigned char raw[NA_OFI_RAW_MAX]; /* of its first endpoint */
    /* Where it is connected from, behind an address translation; family 0: the
     * host in `raw`. See translate.c. */
    struct sockaddr_storage host;
    unsigned searches; /* for that host */
    fi_addr_t at;      /* of its first endpoint; FI_ADDR_UNSPEC: none */
    _Atomic(struct na_ofi_far *) far; /* only added to */
    uint32_t slot;                    /* in class->slots, by `token` */
    uint64_t token;                   /* token in messages from the peer */
    _Atomic uint64_t theirs;          /* token in messages to the peer */
    _Atomic uint64_t incarnation;     /* 0: unknown yet */
    _Atomic uint64_t heard;           /* tick of the last message */
    _Atomic uint8_t context; /* endpoint that its last message came from */
    unsigned tries;          /* attempts of that HELLO or WELCOME */
    uint64_t asked;          /* tick of the last HELLO sent */
    /* Last tick, if the address is accepted, or the peer sent BYE; the time in
     * ns, while it is asked; else NA_OFI_NEVER. */
    uint64_t deadline;
    uint64_t late;  /* first tick after that time; 0: not yet */
    uint64_t often; /* ticks between keep-alives */
    /* While it is asked and has a host name. */
    struct na_plug_query *query;
    uint64_t limit;          /* time in ns for all its numbers */
    uint64_t share;          /* ns for the number that is tried now */
    _Atomic unsigned flight; /* pieces of puts and gets */
    /* Bytes of messages sent, by a thread that holds the core's lock, and those
     * of them that the peer has granted back. */
    _Atomic uint64_t sent;
    _Atomic uint64_t granted;
    _Atomic uint64_t taken; /* bytes that the core has taken ... */
    uint64_t grant;         /* ... and those for which a GRANT is due */
    struct na_link held;    /* messages that the core did not take, in order */
    uint64_t held_bytes;
    _Atomic bool holds;     /* `held` is not empty */
    bool offering;          /* a thread offers them */
    struct na_link holding; /* class->holding, while `held` is not empty */
    /* Endpoints of this class that the peer connected with, for puts and gets:
     * a bit each. See rma.c. */
    _Atomic uint64_t linked[NA_OFI_CONTEXTS / 64];
    uint64_t link_asked;   /* time of the request for a LINK, in ns; 0: none */
    _Atomic bool unlinked; /* it does not connect */
    bool links;            /* its WELCOMEs name the endpoints to connect with */
    uint64_t link_until;   /* last tick of the attempts to send LINK */
    /* Puts and gets that are retried alone; see rma.c. */
    _Atomic unsigned suspects;
    _Atomic(struct na_ofi_op *) turn; /* the one that is retried now */
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers; /* wait until `sends` were sent */
};

/* Empty segments have no registration, and are not described to peers. */
struct na_ofi_mem {
    struct na_mem_handle base;
    struct fid_mr **mrs; /* for peers: one a segment; NULL: not registered */
    /* For peers of the other family, with the same keys as `mrs`; NULL: that
     * family is not open. */
    struct fid_mr **others;
    struct na_link link; /* class->mems */
    /* For own puts and gets; kept as long as the handle. */
    _Atomic(struct fid_mr **) local;
    struct na_ofi_piece *there; /* remote: base.segment_count of them */
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

/* A position in memory: a segment, and an offset in it. */
struct na_ofi_place {
    na_size_t segment;
    na_size_t within;
};

/* A put or get, split into pieces, a few of which are in flight. Guarded by
 * end->lock; but `asked` to `retry`, and `left` to `remote`, belong to the
 * thread that set `busy`. It is active while it is waiting or busy, or has
 * pieces in flight. */
struct na_ofi_op {
    struct na_op base;
    _Atomic(struct na_ofi_end *) end; /* see na_ofi_rma_move */
    struct na_link active;            /* endpoint->active */
    struct na_link due;               /* endpoint->due, while `waiting` */
    uint64_t over;  /* time in ns since when it must end, or when its connection
                 was broken; 0: neither */
    bool waiting;   /* its next piece could not be started at once */
    bool busy;      /* a thread starts pieces */
    bool broken;    /* the connection broke: must be restarted */
    bool asked;     /* the peer was not ready, and HELLO was sent */
    bool started;   /* the provider accepted a piece in this attempt */
    unsigned tries; /* attempts as a suspect; see rma.c */
    uint64_t retry; /* not before this time, in ns */
    unsigned flight;
    na_return_t ret;            /* not NA_SUCCESS: start no more pieces */
    na_size_t left;             /* bytes that were not started yet */
    struct na_ofi_place local;  /* of the next piece */
    struct na_ofi_place remote; /* of the next piece */
    struct fid_mr *own; /* of its local memory; NULL: that of the handle */
    struct na_ofi_part parts[NA_OFI_PIECES];
};

/* An endpoint, with its completion queue. */
struct na_ofi_end {
    struct na_ofi_class *na_class;
    struct na_ofi_family *family;
    uint8_t id;
    struct fid_ep *ep;
    /* For puts and gets; NULL: none yet; may equal `ep`. */
    _Atomic(struct fid_ep *) rma;
    struct fid_cq *cq;
    int fd;                    /* of the queue, or NA_POLL_FD_NONE */
    unsigned contexts;         /* that use it; guarded by clock_lock */
    _Atomic bool polled;       /* polled since the last tick */
    _Atomic unsigned sleepers; /* contexts that sleep on its descriptor */
    pthread_mutex_t poll_lock;
    pthread_mutex_t lock;
    struct na_ofi_buffer *all;
    struct na_ofi_buffer *small; /* free, of NA_OFI_SMALL bytes */
    struct na_ofi_buffer *large; /* free, of the largest message */
    struct na_ofi_buffer *spent; /* receive buffers that must be posted again */
    /* Used buffers of the current batch; of the polling thread. */
    struct na_ofi_buffer *used;
    struct na_link due;    /* puts and gets whose next piece waits */
    struct na_link active; /* active puts and gets */
    unsigned flight;       /* pieces in flight */
    unsigned posting;      /* threads that start a piece */
    bool renewing;         /* no thread may start a piece */
    /* Time of the last renewal, in ns; guarded by clock_lock. */
    uint64_t renewed;
    uint64_t pause; /* minimum time until the next; guarded by clock_lock */
    size_t raw_size;
    unsigned char raw[NA_OFI_RAW_MAX];
    unsigned char rma_raw[NA_OFI_RAW_MAX]; /* of `rma`, over TCP; valid once
                     `rma` is set */
};

struct na_ofi_slot {
    struct na_ofi_addr *addr; /* NULL: free */
    uint64_t token;
};

/* The other family of a class. */
enum na_ofi_other {
    NA_OFI_OTHER_NEVER, /* the class reaches one family only */
    NA_OFI_OTHER_CLOSED,
    NA_OFI_OTHER_WANTED, /* a thread opens it, then it is open or closed */
    NA_OFI_OTHER_OPEN
};

struct na_ofi_class {
    struct na_class base;
    pthread_mutex_t lock;
    struct fi_info *info; /* that of the own family; its limits hold for both */
    struct na_ofi_family families[2];
    _Atomic int other; /* enum na_ofi_other; changes with the lock */
    pthread_t opener;  /* if `opening`: the thread, which may have ended */
    bool opening;
    struct na_plug_resolver *resolver;
    int guard;           /* shm: socket that reserves the class's name, or -1 */
    size_t message_size; /* of the largest, header included */
    bool is_rxm;         /* see NA_OFI_RXM_MAX */
    bool keys_unsafe;    /* see na_ofi_keys_lock */
    pthread_mutex_t keys_lock;
    /* If the other family may be opened: guards the list and `others` of its
     * members. keys_lock is taken inside it. */
    pthread_mutex_t mems_lock;
    struct na_link mems;    /* registered memory */
    bool mems_twice;        /* for the other family, too */
    _Atomic unsigned names; /* names of endpoints other than the first */
    /* By id; NA_OFI_OTHER: that of the other family. */
    struct na_ofi_end *ends[NA_OFI_ENDS];
    _Atomic unsigned end_count;
    struct na_link addrs; /* asked, accepted, ready */
    struct na_link named;
    struct na_link due;
    struct na_link holding;
    _Atomic unsigned holders; /* addresses there */
    /* Something could not be sent at once: the clock ticks every
     * millisecond. */
    _Atomic bool hurry;
    struct na_ofi_slot *slots;
    uint32_t slot_count;
    /* The clock. */
    pthread_t clock;
    pthread_cond_t alarm; /* `hurry` or `stopping` */
    bool ticking;
    bool stopping;
    bool full; /* out of descriptors; logged */
    /* Held while the clock polls endpoints, and while one is opened or
     * closed; outermost. */
    pthread_mutex_t clock_lock;
    uint64_t period;      /* of a tick, in ns */
    uint64_t turn;        /* number of ticks */
    uint64_t death_ticks; /* ticks of silence after which a peer is dead */
    uint64_t lookup_ticks;
};

struct na_ofi_context {
    struct na_context base;
    struct na_ofi_end *end;
    bool sleeps; /* counted in end->sleepers */
    int joined;  /* an epoll of its endpoint and that of the other family, or
                   NA_POLL_FD_NONE */
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

static struct na_ofi_family *na_ofi_family_of(
    struct na_ofi_class *self, bool other)
{
    return &self->families[other ? 1 : 0];
}

static bool na_ofi_is_other(const struct na_ofi_addr *addr)
{
    return atomic_load_explicit(&addr->other, memory_order_relaxed);
}

/* The endpoint of the other family, or NULL. */
static struct na_ofi_end *na_ofi_other_end(const struct na_ofi_class *self)
{
    return atomic_load(&self->other) == NA_OFI_OTHER_OPEN
        ? self->ends[NA_OFI_OTHER]
        : NULL;
}

/* The endpoint of a context that reaches an address; any, if its family is not
 * open. */
static struct na_ofi_end *na_ofi_end_to(
    const struct na_context *context, const struct na_ofi_addr *addr)
{
    struct na_ofi_end *end = na_ofi_end_of(context);
    struct na_ofi_end *other =
        na_ofi_is_other(addr) ? na_ofi_other_end(end->na_class) : NULL;

    return other != NULL ? other : end;
}

/* The endpoint `id` that reaches an address. */
static struct na_ofi_end *na_ofi_end_at(
    const struct na_ofi_class *self, const struct na_ofi_addr *addr, uint8_t id)
{
    return self->ends[na_ofi_is_other(addr) ? NA_OFI_OTHER : id];
}

/* Whether a peer connected its first endpoint with `end` for puts and gets. */
static bool na_ofi_is_linked(
    const struct na_ofi_end *end, const struct na_ofi_addr *addr)
{
    uint64_t bits =
        atomic_load_explicit(&addr->linked[end->id / 64], memory_order_relaxed);

    return (bits >> (end->id % 64) & 1) != 0;
}

static void na_ofi_unlink(struct na_ofi_end *end, struct na_ofi_addr *addr)
{
    atomic_fetch_and(
        &addr->linked[end->id / 64], ~(UINT64_C(1) << (end->id % 64)));
}

static void na_ofi_lock(pthread_mutex_t *lock)
{
    int rc = pthread_mutex_lock(lock);

    HG_ASSERT(rc == 0);
    (void) rc;
}

static void na_ofi_unlock(pthread_mutex_t *lock)
{
    int rc = pthread_mutex_unlock(lock);

    HG_ASSERT(rc == 0);
    (void) rc;
}

struct na_ofi_header;

/* Send what could not be sent at once; returns the number of things done. No
 * lock is held. */
HG_PRIVATE unsigned na_ofi_flush(struct na_ofi_class *self);

/* Poll an endpoint; returns the number of things done. poll_lock is held. */
HG_PRIVATE unsigned na_ofi_poll_end(struct na_ofi_end *end);

/* Send HELLO or WELCOME with the own introduction, or BYE, from the endpoint
 * that the peer knows best. The class's lock is held. */
HG_PRIVATE ssize_t na_ofi_send_control(
    struct na_ofi_class *self, struct na_ofi_addr *addr, enum na_ofi_kind kind);

/* Connect an address. NA_SUCCESS: it is ready; NA_AGAIN: HELLO was sent, or
 * will be when the host's name is resolved; else the error. The class's lock is
 * held. */
HG_PRIVATE na_return_t na_ofi_connect(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* Offer the messages held of an address to the core; returns how many it took.
 * It takes all if the connection has ended. No lock is held; the caller has a
 * reference. */
HG_PRIVATE unsigned na_ofi_offer(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* Send the GRANT that is due. 0, or an error of libfabric. The class's lock is
 * held. */
HG_PRIVATE ssize_t na_ofi_send_grant(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* Have a peer connect itself with an endpoint for puts and gets. NA_SUCCESS: it
 * has, or need not; NA_AGAIN: it was asked to. No lock is held. */
HG_PRIVATE na_return_t na_ofi_link(
    struct na_ofi_end *end, struct na_ofi_addr *addr);

/* An address of the other family is needed: open that, if it is closed. If the
 * thread does not start, it stays closed (logged). The class's lock is held. */
HG_PRIVATE void na_ofi_other_want(struct na_ofi_class *self);

/* Send HELLO to the next number of an asked address's host. False: no number is
 * left, or no time. The class's lock is held. */
HG_PRIVATE bool na_ofi_ask_next(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* Handle the answers of name servers. The class's lock is held. */
HG_PRIVATE void na_ofi_take_answers(struct na_ofi_class *self);

/* Send BYE to a peer, after all messages: the address is idle then, or dead if
 * the peer looked up this class. No lock is held. */
HG_PRIVATE void na_ofi_part(
    struct na_ofi_class *self, struct na_ofi_addr *addr);

/* The peer's endpoint for its context `id`, or else its first one. With the
 * lock or without. */
HG_PRIVATE fi_addr_t na_ofi_target(struct na_ofi_addr *addr, uint8_t id);

/* A peer died or cannot be reached: end all that waits for it. No lock is held;
 * may be called again. */
HG_PRIVATE void na_ofi_lost(
    struct na_ofi_class *self, struct na_ofi_addr *addr, na_return_t code);

/* As na_ofi_lost; `why` is logged. */
HG_PRIVATE void na_ofi_end_addr(struct na_ofi_class *self,
    struct na_ofi_addr *addr, na_return_t code, const char *why);

/* Something was added to endpoint->due: make the clock tick fast until nothing
 * is due. No lock is held. */
HG_PRIVATE void na_ofi_hurry(struct na_ofi_class *self);

/* The endpoint for puts and gets was opened: post receives for messages that
 * arrive there, because some providers queue them otherwise, without a
 * limit. */
HG_PRIVATE na_return_t na_ofi_drain_begin(struct na_ofi_end *end);

/* Start to receive on a new endpoint. */
HG_PRIVATE na_return_t na_ofi_recv_begin(struct na_ofi_end *end);

/* The endpoint is closed, so the provider no longer uses its buffers. */
HG_PRIVATE void na_ofi_buffers_free(struct na_ofi_end *end);

#endif
