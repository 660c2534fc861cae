/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_zmq: the ZeroMQ transport: tcp, ipc and inproc.
 *
 *     cc -DHG_NA_ZMQ=1 app.c hg.c hg_na_zmq.c -lzmq -lpthread
 *
 * One ROUTER socket per class binds and dials; one monitor reports its
 * connections. An address stands for one connection. The peer of a connection
 * is identified by a handshake of this transport, never by a routing id:
 *
 *     dialler                              acceptor
 *       HELLO  incarnation, nonce, name ------>      address created
 *       <------ WELCOME  incarnation, both nonces
 *     lookup done; address ready
 *       CONFIRM  nonce ----------------------->      address ready
 *
 * WELCOME proves to the dialler that its peer exists. CONFIRM proves to the
 * acceptor that the descriptor on which HELLO arrived (ZMQ_SRCFD) still
 * belonged to the dialler afterwards. Therefore the monitor event DISCONNECTED
 * of that descriptor means that the dialler died. A lost connection is a dead
 * peer, even if it reconnects. A peer is dead when its connection ends or the
 * heartbeats of libzmq's own thread fail, never because an answer is slow. Two
 * cases need more. On ipc, output that a stopped peer blocks delays the
 * heartbeats, so probes follow the output and must be sent in time. inproc has
 * no connections, so a list of the process's classes shows which are alive.
 *
 * An address with a host name keeps the name. Each dial resolves it again, then
 * dials one number after the other until a peer answers: see plug/host.h.
 * libzmq gets numbers only: it would resolve a name in its only I/O thread.
 *
 * Each connection has a window for messages and another one for frames, in
 * each direction: a sender counts what its peer has not granted back, and sends
 * nothing more when that reaches NA_ZMQ_WINDOW. Messages then wait in `sends`,
 * and frames are refused. The receiver grants what the core has taken. Messages
 * that the core does not take yet are held (NA_CAP_HOLDS_BACK). So a peer that
 * does not read, or does not take its messages, delays only what is sent to it,
 * and uses a limited amount of memory at both sides.
 *
 * Locking: `lock` guards the sockets and everything in na_zmq_class and
 * na_zmq_addr unless stated otherwise. Functions of the core that may call a
 * slot are not called with the lock held. Messages are received and sorted with
 * the lock, and delivered without it. The release callback of a borrowed frame
 * runs in libzmq's thread, or inside a zmq_ function with the lock held: it
 * uses atomics, and functions of the core that take no lock of this transport.
 *
 * Must not know: anything of hg but hg.h.
 */
#ifndef HG_GEN_ZMQ_CLASS_H
#define HG_GEN_ZMQ_CLASS_H

#include "plug/bytes.h"
#include "plug/host.h"
#include "plug/iface.h"
#include "plug/list.h"
#include "plug/needs.h"
#include "plug/net.h"
#include "plug/plug.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <zmq.h>

#ifndef HG_ENABLE_EPOLL
#ifdef __linux__
#define HG_ENABLE_EPOLL 1
#else
#define HG_ENABLE_EPOLL 0
#endif
#endif
#if HG_ENABLE_EPOLL
#include <sys/epoll.h>
#include <sys/timerfd.h>
#endif

#define NA_ZMQ_VERSION 2
#define NA_ZMQ_HELLOS \
    16 /* answered on one connection; a correct peer sends 1 */
#define NA_ZMQ_HEADER 12 /* bytes in front of every message */
#define NA_ZMQ_ID 16     /* routing ids that this transport chooses */
#define NA_ZMQ_ID_MAX 32 /* ... or that libzmq chooses, at most */
#define NA_ZMQ_NUMBER (INET6_ADDRSTRLEN + IF_NAMESIZE + 3) /* of a host */
#define NA_ZMQ_HEADERS ((na_size_t) 512) /* space for all headers */
#define NA_ZMQ_MSG_MAX ((na_size_t) 16 << 20)
#define NA_ZMQ_BATCH 64       /* messages received under one lock, at most */
#define NA_ZMQ_KEEP 256       /* envelopes kept for reuse */
#define NA_ZMQ_COPY_MAX 4096u /* frames up to here are copied */
/* Limit of bytes of one peer inside libzmq. */
#define NA_ZMQ_FLIGHT ((uint64_t) 1 << 20)
/* Bytes sent and not granted back at which a sender stops. A message or frame
 * counts its bytes, without lent data, and NA_ZMQ_COST for its memory. Both
 * sides must have the same values. */
#define NA_ZMQ_WINDOW ((uint64_t) 1 << 20)
#define NA_ZMQ_COST 128u
/* Descriptors that are kept free for the process. */
#define NA_ZMQ_SPARE_FDS 256u
/* Resources that a class takes from the process. Descriptors: one of the
 * context, two of each of libzmq's two threads, one of each socket (the ROUTER,
 * and two of the monitor), two to sleep on, and one to listen or to connect. */
#define NA_ZMQ_FDS 11u
#define NA_ZMQ_INPROC_FDS 8u /* neither monitor nor connections */
#define NA_ZMQ_THREADS 2u
#define NA_ZMQ_MS ((uint64_t) 1000000)
/* The monitored events. ZMQ_EVENT_ACCEPT_FAILED must not be among them: libzmq
 * reports it in an endless loop when no descriptor is left. */
#define NA_ZMQ_EVENTS \
    (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | \
        ZMQ_EVENT_DISCONNECTED)
#define NA_ZMQ_NEVER UINT64_MAX
/* libzmq ends a dial this much after lookup_ms, so that a caller that waits for
 * lookup_ms gets its timeout first. This transport ends the dial if libzmq does
 * not. */
#define NA_ZMQ_GIVE_UP_MS 100
#define NA_ZMQ_DIAL_MS 500
/* Maximum of host names of one number in use. */
#define NA_ZMQ_ALIKE 128u
#define NA_ZMQ_RECONNECT_MS 500000000 /* days: see na_zmq_connected */

#define NA_ZMQ_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

enum na_zmq_protocol { NA_ZMQ_TCP, NA_ZMQ_IPC, NA_ZMQ_INPROC };

enum na_zmq_kind {
    NA_ZMQ_HELLO = 1,
    NA_ZMQ_WELCOME,
    NA_ZMQ_CONFIRM,
    NA_ZMQ_REFUSE, /* "I have another version", given in the header */
    NA_ZMQ_MESSAGE,
    NA_ZMQ_FRAME, /* of emulated RMA; data may follow in a second part */
    NA_ZMQ_PROBE, /* to be ignored */
    NA_ZMQ_BYE,   /* "I close this connection" ... */
    NA_ZMQ_BYE_ACK,
    NA_ZMQ_GRANT, /* "send so many more bytes of this lane" */
    NA_ZMQ_KIND_MAX
};

enum na_zmq_lane { NA_ZMQ_MESSAGES, NA_ZMQ_FRAMES, NA_ZMQ_LANES };

/*
 *     idle <--bye--- closing <--- ready --bye--> leaving
 *       |                           ^               |
 *       +------> dialling ----------+--> dying <----+
 *                accepted ----------+      |
 *                                          v
 *                                         dead
 *
 * Dying: the connection has ended, but received messages may be unread. An
 * address that could not be connected and never was connected becomes idle. An
 * address that is abandoned (addr_abandon) becomes dying from any state but
 * dialling, and then dead.
 */
enum na_zmq_state {
    NA_ZMQ_IDLE,     /* no connection, or none yet; the next use dials */
    NA_ZMQ_DIALLING, /* perhaps still resolving its name */
    NA_ZMQ_ACCEPTED, /* WELCOME sent */
    NA_ZMQ_READY,
    NA_ZMQ_CLOSING, /* BYE sent */
    NA_ZMQ_LEAVING, /* BYE received by a dialler */
    NA_ZMQ_DYING,
    NA_ZMQ_DEAD
};

/* Addresses by routing id, by endpoint, and by what libzmq dialled: chained
 * tables. */
enum na_zmq_key {
    NA_ZMQ_BY_ID,
    NA_ZMQ_BY_ENDPOINT,
    NA_ZMQ_BY_DIALLED,
    NA_ZMQ_KEYS
};

struct na_zmq_table {
    struct na_zmq_addr **buckets;
    size_t size; /* a power of two */
    size_t count;
};

struct na_zmq_addr {
    struct na_addr base;
    /* In class->addrs, with one reference, from the first dial or accept. */
    struct na_link link;
    struct na_link dying; /* class->dying */
    struct na_zmq_addr *next[NA_ZMQ_KEYS];
    enum na_zmq_state state;
    bool from_peer; /* only peers have sent this address */
    bool receives;  /* it is dialled only because receives wait for it */
    bool closing;   /* dying because of NA_Addr_terminate() */
    bool failed;    /* dying because it could not be connected */
    bool again;     /* ... and its next number will be dialled */
    bool reached;   /* it was ready before */
    bool named;     /* the endpoint has a host name */
    bool open;      /* messages are accepted; used by the polling thread */
    size_t id_size;
    unsigned char id[NA_ZMQ_ID_MAX];
    char *endpoint; /* what was looked up; NULL: accepted */
    /* The text for zmq_connect, until zmq_disconnect; else NULL. It is the
     * endpoint, unless that has a host name. */
    char *dialled;
    /* While it is dialled and has a host name. */
    struct na_plug_query *query;
    int fd; /* of the connection, or -1 */
    uint32_t fd_generation;
    _Atomic uint64_t incarnation; /* of the peer; 0: unknown yet */
    uint64_t nonce;
    uint64_t limit;         /* when the dial ends, whatever the number */
    uint64_t deadline;      /* when this attempt of the dial ends */
    uint64_t round;         /* round of polling in which it began to die */
    na_return_t lookup_ret; /* result of its lookups */
    const char *why;        /* why a dial failed, for the log; or NULL */
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;
    bool sent;                     /* since the last probe */
    uint64_t unread[NA_ZMQ_LANES]; /* bytes sent and not granted back */
    /* Used by the polling thread. */
    uint64_t received[NA_ZMQ_LANES]; /* bytes received and not granted ... */
    uint64_t taken[NA_ZMQ_LANES];    /* ... that the core has taken */
    struct na_link held;    /* messages that the core did not take, in order */
    struct na_link holding; /* class->holding: `held` is not empty */
    /* Atomic, without the lock. */
    _Atomic bool heard;
    _Atomic bool starved; /* a frame was refused: wake when one is released */
    _Atomic uint64_t flight; /* bytes borrowed by libzmq */
    _Atomic uint64_t probed; /* when the pending probe was sent, or 0 */
};

/* A message received, or sent to this class: an envelope. */
struct na_zmq_in {
    struct na_link link;
    struct na_zmq_addr *addr; /* NULL: not identified */
    int fd;
    uint64_t past;  /* see na_zmq_is_before */
    unsigned count; /* number of parts; two are kept */
    size_t id_size;
    unsigned char id[NA_ZMQ_ID_MAX];
    zmq_msg_t parts[2];
};

/* A descriptor of libzmq, as reported by the monitor. */
struct na_zmq_fd {
    uint32_t generation; /* how many connections it has had */
    bool live;
    bool shut;         /* its sender broke the protocol */
    bool contested;    /* several peers sent HELLO on it */
    uint64_t accepted; /* when; 0: HELLO was received, or it was dialled */
    uint64_t round;    /* round of polling in which it was accepted */
    unsigned hellos;   /* received after it */
    /* The last address that sent HELLO on it, or NULL. */
    struct na_zmq_addr *last_hello;
    struct na_zmq_addr *owner; /* the address that sent CONFIRM, or NULL */
};

/* Data that libzmq borrows; without `release`, a probe. */
struct na_zmq_loan {
    struct na_zmq_addr *addr; /* a reference */
    void (*release)(void *arg);
    void *arg;
    uint64_t size;
};

struct na_zmq_class {
    struct na_class base;
    pthread_mutex_t lock;
    enum na_zmq_protocol protocol;
    void *context;
    void *socket;
    void *monitor;                  /* NULL for inproc */
    char endpoint[NA_MAX_ADDR_LEN]; /* bound, or "" */
    char source[NA_MAX_ADDR_LEN];   /* tcp: "host:0;" to dial from, or "" */
    struct stat bound;              /* ipc: the file that bind created */
    bool has_bound;
    struct na_zmq_table tables[NA_ZMQ_KEYS];
    struct na_plug_resolver *resolver;
    unsigned attempts; /* of numbers of host names */
    struct na_link addrs;
    struct na_link dying;
    struct na_link inbox;
    struct na_link spent;   /* envelopes to reuse; used by the polling thread */
    struct na_link holding; /* addresses; used by the polling thread */
    struct na_link spare;
    unsigned spare_count;
    _Atomic unsigned parts; /* parts of messages that must be closed */
    struct na_zmq_fd *fds;
    size_t fd_count;
    unsigned batch;        /* messages to receive in the next round */
    uint64_t round;        /* of polling */
    uint64_t drained;      /* the last round that read everything */
    uint64_t monitor_read; /* when it was last read; 0: read it now */
    bool slept;            /* a thread may have slept since the last round */
    uint64_t tick;         /* time of the next timed event */
    uint64_t timer;        /* what timer_fd is set to */
    uint64_t death;        /* timeout of a silent connection, in ns */
    uint64_t hello_limit;  /* from accept to HELLO, in ns */
    uint64_t hello_check;  /* when to look for connections past it */
    /* Round of polling in which hello_check had passed; or 0. */
    uint64_t hello_round;
    /* A refused frame may be sent; without the lock. */
    _Atomic bool frame_retry;
    bool touched;   /* the readiness of the socket's descriptor may have been
                    consumed */
    bool rejecting; /* connections are being rejected, and that was logged */
    unsigned sleepers;
    int epoll_fd;
    int timer_fd;
    /* inproc */
    struct na_link live; /* na_zmq_inproc.classes; guarded by its lock */
    unsigned epoch;      /* value of na_zmq_inproc.epoch when last checked */
};

struct na_zmq_context {
    struct na_context base;
    bool sleeping; /* counted in class->sleepers */
};

static struct na_zmq_class *na_zmq_of(const struct na_class *na_class)
{
    return (struct na_zmq_class *) (uintptr_t) na_class;
}

static struct na_zmq_addr *na_zmq_addr_of(const struct na_addr *addr)
{
    return (struct na_zmq_addr *) (uintptr_t) addr;
}

/* Start to connect an idle address, or, if it was dialled before, try the next
 * number of its host. Its sends wait, and fail if that fails. The lock is
 * held. */
HG_PRIVATE void na_zmq_dial(
    struct na_zmq_class *self, struct na_zmq_addr *addr);

#endif
