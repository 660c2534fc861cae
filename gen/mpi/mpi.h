/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_mpi: the MPI transport, mpi+static and mpi+dynamic.
 *
 *     mpicc -DHG_NA_MPI=1 app.c hg.c hg_na_mpi.c -lpthread
 *
 * Every message of hg is one small MPI message, a packet: a header of 40 bytes
 * and up to NA_MPI_PACKET bytes in all. Receives for packets are posted in
 * advance, from any source, and are completed in the order in which they were
 * posted. What does not fit in a packet is its body, a second MPI message that
 * the receiver asks for:
 *
 *     sender                               receiver
 *       MESSAGE or FRAME, body size, id ---->   MPI_Irecv for the body
 *       <-------------------- PULL, id, tag
 *     MPI_Isend of the body ---------------->   delivered
 *
 * So MPI holds memory of a sender only while the receive is posted, the
 * receiver chooses how much comes at a time, and a sender can take back what
 * nobody has asked for. Frames of RMA and messages have a lane each: within a
 * lane the order is kept, and a message passes bodies of frames.
 *
 * MPI says who sent a packet, but not which class of that process. An address
 * stands for one class of a peer, and for one life of it: each class has a
 * random incarnation, which two of them exchange before they send more:
 *
 *     HELLO   incarnation of the sender --->
 *     <--- WELCOME   incarnations of both
 *
 * HELLO names the lane that is needed. A class that does not listen answers
 * strangers only if that is the lane of frames: RMA finds memory by the address
 * of its owner, who may not listen.
 *
 * Every packet carries both incarnations. What a closed class left behind is
 * dropped by the next class with the same tags. BYE ends a connection, and is
 * answered by BYE. A class that is closed says GONE to all, which nobody
 * answers. These keep their place behind messages. RESET does not: it ends a
 * connection without the bodies that were offered. All three name the last body
 * of each lane that was sent, so that the receiver of a packet whose body does
 * not come ends its receive.
 *
 * Static mode uses one communicator for all. No call is collective: classes
 * are told apart by tags. Class N of a process, counted from 0, receives
 * packets with the tag NA_MPI_TAG + N. The receiver of a body chooses its tag,
 * from NA_MPI_BODY_TAG on. In dynamic mode each connection is an
 * inter-communicator of its own, with the same tags: see mpi/dynamic.c.
 *
 * Locking: `na_mpi_job.lock` guards all classes of the process and all calls
 * of MPI but those of dynamic mode's threads, so that MPI_THREAD_SERIALIZED is
 * enough. Calls that make a connection block: dynamic mode makes them without
 * it, and needs MPI_THREAD_MULTIPLE. No function of the core that
 * may call a slot is called under the lock, and no release of a frame.
 *
 * Must not know: anything of hg but hg.h.
 */
#ifndef HG_GEN_MPI_MPI_H
#define HG_GEN_MPI_MPI_H

#include <mpi.h>

#include "plug/bytes.h"
#include "plug/list.h"
#include "plug/plug.h"

#define NA_MPI_VERSION 1
#define NA_MPI_HEADER 40u /* bytes in front of every packet */
/* Below the eager limits that MPI implementations have for shared memory. */
#define NA_MPI_PACKET 4000u
#define NA_MPI_PAYLOAD (NA_MPI_PACKET - NA_MPI_HEADER)
#define NA_MPI_SLOTS 16u    /* receives posted for packets of a channel ... */
#define NA_MPI_FEW_SLOTS 4u /* ... that has a single peer */
/* The most bytes of a message, and of data in a frame. */
#define NA_MPI_MSG_MAX ((na_size_t) 16 << 20)
/* Bytes that may wait behind a body at least: more than a correct peer sends
 * before it hears that the body is asked for. */
#define NA_MPI_INBOX ((size_t) 1 << 20)
#define NA_MPI_PULLS 8u  /* bodies of one lane on their way */
#define NA_MPI_BATCH 16u /* packets handled in one poll of a channel */
#define NA_MPI_TESTS 8u  /* sends looked at in one poll */
#define NA_MPI_KEEP 64u  /* send buffers kept for reuse */
#define NA_MPI_BUCKETS 256u
#define NA_MPI_MS ((uint64_t) 1000000)
/* MPI guarantees tags up to 32,767. */
#define NA_MPI_TAG 16384
#define NA_MPI_BODY_TAG 24576
#define NA_MPI_CLASSES 8192u
#define NA_MPI_BODY_TAGS 8192u

#define NA_MPI_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

enum na_mpi_kind {
    NA_MPI_HELLO = 1,
    NA_MPI_WELCOME,
    NA_MPI_MESSAGE,
    NA_MPI_FRAME, /* of emulated RMA: its header, then its data */
    NA_MPI_PULL,  /* "send me the body with this id" */
    NA_MPI_BYE,   /* "I close this connection", and the answer to that */
    NA_MPI_GONE,  /* "My class is closed": without an answer */
    NA_MPI_RESET, /* "The connection is over": waits for nothing */
    NA_MPI_KIND_MAX
};

enum na_mpi_lane { NA_MPI_MESSAGES, NA_MPI_FRAMES, NA_MPI_LANES };

/*
 *     idle ---> dialling ---> ready ---> closing ---> idle
 *       ^          |            |
 *       +-silence--+            +--BYE, failure--> dead
 *
 * Idle: no connection, the next use dials. Dialling: HELLO sent. Closing: BYE
 * sent, or to be sent when the bodies that were offered are taken.
 */
enum na_mpi_state {
    NA_MPI_IDLE,
    NA_MPI_DIALLING,
    NA_MPI_READY,
    NA_MPI_CLOSING,
    NA_MPI_DEAD
};

/* A packet's header, decoded. */
struct na_mpi_header {
    uint8_t version;
    uint8_t kind;
    uint8_t plane;
    uint8_t target;
    uint16_t number; /* which class of the sending process */
    uint32_t tag;    /* MESSAGE: its tag; FRAME: size of the frame's header;
                        PULL: the tag to send the body with; BYE, GONE, RESET:
                        the last body of a MESSAGE that was sent */
    uint32_t size;   /* of the body, or 0: MESSAGE, FRAME */
    uint32_t id;     /* of the body: MESSAGE, FRAME, PULL; BYE, GONE, RESET: the
                        last body of a FRAME that was sent */
    uint64_t to;     /* incarnation of the receiver, 0: unknown */
    uint64_t from;   /* incarnation of the sender */
};

/* A receive for packets. */
struct na_mpi_slot {
    MPI_Request request; /* MPI_REQUEST_NULL: to be posted, or held */
    bool held;           /* a packet that there is no memory to keep */
    int source;
    size_t size;
    unsigned char *bytes;
};

/* Where packets come from: a communicator and a tag. The class has one; in
 * dynamic mode that is for the own process, and each connection has another. */
struct na_mpi_channel {
    struct na_link link;      /* class->channels, of a connection */
    struct na_mpi_addr *peer; /* of a connection, or NULL */
    bool over;                /* nobody uses the connection any more */
    bool canceled;            /* ... and its receives are canceled */
    MPI_Comm comm;
    int tag; /* of our packets */
    unsigned next;
    unsigned count; /* of slots in use */
    unsigned batch; /* packets that the next poll may handle */
    /* The one handled last, or NULL: posted when the next one is looked for, as
     * its packet should be answered before. */
    struct na_mpi_slot *used;
    struct na_mpi_slot slots[NA_MPI_SLOTS];
    unsigned char *bytes; /* of all slots */
};

/* Something to send: a packet, or a body that is offered or on its way. */
struct na_mpi_out {
    struct na_link link;
    MPI_Request request;
    uint32_t id;
    const void *data;
    size_t size;
    void *owned;                /* the body is ours to free, or NULL */
    void (*release)(void *arg); /* ... or borrowed, or NULL */
    void *arg;
    unsigned char *packet; /* NULL: a body */
};

/* A packet received that cannot be delivered yet. */
struct na_mpi_in {
    struct na_link link;
    struct na_mpi_header header;
    bool arrived;        /* the body has */
    MPI_Request request; /* of the body, once that was asked for */
    int tag;             /* ... of that; 0: none yet */
    unsigned char *body; /* NULL: none, or not asked for yet */
    void *place;         /* the body is the core's memory; else NULL */
    size_t head_size;
    unsigned char head[]; /* what came in the packet */
};

/* Packets kept in order, behind one whose body has not arrived. */
struct na_mpi_inbox {
    struct na_link ins;
    size_t bytes;
    unsigned pulled; /* bodies on their way */
};

struct na_mpi_addr {
    struct na_addr base;
    struct na_link link;      /* class->addrs; while on it, one reference: from
                                 HELLO until it is idle or dead */
    struct na_link timed;     /* class->timed: `deadline` counts */
    struct na_link receiving; /* class->receiving: an inbox is not empty */
    struct na_link bucket;    /* class->buckets, until dead */
    enum na_mpi_state state;
    bool from_peer; /* only peers have given this address */
    bool bye_sent;  /* closing: BYE was sent */
    bool broken;    /* MPI refused to send: poll ends the connection */
    struct na_mpi_channel *channel; /* NULL: of a connection not made yet */
    int rank;
    unsigned number;                /* which class there */
    char *port;                     /* dynamic: to connect to, or NULL */
    struct na_mpi_connect *connect; /* the thread that does, or NULL */
    int error;                      /* of MPI, why that failed */
    const char *why;                /* ... or what it waits for, or NULL */
    _Atomic uint64_t incarnation;   /* of the peer; 0: unknown yet */
    uint64_t deadline;              /* of dialling or closing */
    uint32_t last_id;
    uint32_t last_sent[NA_MPI_LANES];    /* id of a body */
    struct na_link offers[NA_MPI_LANES]; /* bodies nobody has asked for */
    struct na_mpi_inbox inboxes[NA_MPI_LANES];
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;
};

struct na_mpi_class {
    struct na_class base;
    struct na_link link; /* na_mpi_job.classes */
    bool closing;        /* nothing is delivered any more */
    bool dynamic;
    unsigned number;
    int rank;
    int ranks;
    struct na_mpi_channel channel;
    struct na_link channels; /* of connections */
    struct na_link connects;
    struct na_link addrs;
    struct na_link timed;
    struct na_link receiving;
    struct na_link sending; /* na_mpi_out with an active request */
    struct na_link orphans; /* na_mpi_in whose receive nobody waits for */
    struct na_link spare;   /* na_mpi_out with a packet */
    unsigned spare_count;
    struct na_link buckets[NA_MPI_BUCKETS];
};

static struct na_mpi_class *na_mpi_of(const struct na_class *na_class)
{
    return (struct na_mpi_class *) (uintptr_t) na_class;
}

static bool na_mpi_is_connected(const struct na_mpi_addr *addr)
{
    return addr->state == NA_MPI_READY || addr->state == NA_MPI_CLOSING;
}

static struct na_mpi_addr *na_mpi_addr_of(const struct na_addr *addr)
{
    return (struct na_mpi_addr *) (uintptr_t) addr;
}

/* Begin to connect an idle address, which keeps its sends meanwhile. `lane` is
 * FRAMES if only RMA needs it. The lock is held. */
HG_PRIVATE void na_mpi_dial(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane);

/* The slot: end the connection, and tell the peer. Without the lock. */
HG_PRIVATE void na_mpi_addr_abandon(struct na_addr *base);

/* Dynamic mode; see mpi/dynamic.c. The lock is held. */
HG_PRIVATE void na_mpi_connect_start(
    struct na_mpi_class *self, struct na_mpi_addr *addr);
HG_PRIVATE void na_mpi_connect_drop(struct na_mpi_addr *addr);
HG_PRIVATE void na_mpi_channel_leave(
    struct na_mpi_class *self, struct na_mpi_addr *addr);

/* MPI_Finalize begins: end the accepting thread of dynamic mode. */
HG_PRIVATE void na_mpi_port_end(void);

#endif
