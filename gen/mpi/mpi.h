/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_mpi: the MPI transport, mpi+static and mpi+dynamic.
 *
 *     mpicc -DHG_NA_MPI=1 app.c hg.c hg_na_mpi.c -lpthread
 *
 * Every message of hg is one small MPI message, a packet: a header of 40 bytes,
 * and at most NA_MPI_PACKET bytes in all. Receives for packets are posted in
 * advance, from any source, and complete in the order in which they were
 * posted. Data that does not fit in a packet is its body, a second MPI message
 * that the receiver requests:
 *
 *     sender                               receiver
 *       MESSAGE or FRAME, body size, id ---->   MPI_Irecv for the body
 *       <-------------------- PULL, id, tag
 *     MPI_Isend of the body ---------------->   delivered
 *
 * So MPI uses memory of a sender only while the receive is posted, the receiver
 * controls how much arrives at a time, and a sender can withdraw bodies that
 * were not requested. Frames of RMA and messages each have a lane: a lane keeps
 * the order, and messages can overtake bodies of frames.
 *
 * MPI reports which process sent a packet, but not which class of the process.
 * An address stands for one class of a peer, and for one incarnation of it:
 * each class has a random incarnation, and two classes exchange theirs before
 * they send anything else:
 *
 *     HELLO   incarnation of the sender --->
 *     <--- WELCOME   incarnations of both
 *
 * HELLO names the lane that is needed. A class that does not listen accepts
 * unknown peers only for the lane of frames: RMA finds memory by the address of
 * its owner, which may not listen.
 *
 * A peer that does not receive must not make its sender keep any amount of
 * messages. MPI does not report whether a packet was received, but a body is
 * requested only after the packets before it. So after half of NA_MPI_WINDOW in
 * packets, the next message is a body, however small; that of an empty message
 * is one byte, NA_MPI_EMPTY. While the bodies that were not requested, with the
 * packets before them, have NA_MPI_WINDOW bytes, further messages wait in
 * `sends`. A message that the core does not take yet
 * (NA_CAP_HOLDS_BACK) stays in the inbox, before those that follow, and no
 * further bodies are requested.
 *
 * Every packet carries both incarnations. Packets for a closed class are
 * dropped by the next class with the same tags. BYE ends a connection, and is
 * answered by BYE. A class that is closed sends GONE to all peers, which is not
 * answered. BYE and GONE stay in order with messages. RESET does not: it ends a
 * connection without sending the offered bodies. All three name the last body
 * of each lane that was sent, so that the receiver can cancel receives for
 * other bodies.
 *
 * Static mode uses one communicator for all. No call is collective: classes are
 * distinguished by tags. Class N of a process, counted from 0, receives packets
 * with the tag NA_MPI_TAG + N. The receiver of a body chooses its tag, from
 * NA_MPI_BODY_TAG on. In dynamic mode each connection is a separate
 * inter-communicator, with the same tags: see mpi/dynamic.c.
 *
 * Locking: `na_mpi_job.lock` guards all classes of the process and all calls of
 * MPI except those of dynamic mode's threads, so that MPI_THREAD_SERIALIZED is
 * sufficient. Calls that make a connection block: dynamic mode makes them
 * without the lock, and needs MPI_THREAD_MULTIPLE. Functions of the core that
 * may call a slot are not called with the lock held, nor are release functions
 * of frames.
 *
 * Must not know: anything of hg but hg.h.
 */
#ifndef HG_GEN_MPI_MPI_H
#define HG_GEN_MPI_MPI_H

#include <mpi.h>

#include "plug/bytes.h"
#include "plug/list.h"
#include "plug/needs.h"
#include "plug/plug.h"

#define NA_MPI_VERSION 2
#define NA_MPI_HEADER 40u /* bytes in front of every packet */
/* Below the eager limits that MPI implementations have for shared memory. */
#define NA_MPI_PACKET 4000u
#define NA_MPI_PAYLOAD (NA_MPI_PACKET - NA_MPI_HEADER)
#define NA_MPI_SLOTS 16u    /* receives posted for packets of a channel ... */
#define NA_MPI_FEW_SLOTS 4u /* ... that has a single peer */
/* Maximum size of a message, and of data in a frame. */
#define NA_MPI_MSG_MAX ((na_size_t) 16 << 20)
/* Bytes of packets that may wait in an inbox: more than a correct peer sends.
 * After half a window at most, it offers a body; NA_MPI_PULLS of them may be
 * requested, and then a window more is sent. Of frames there may be more: as
 * many as of messages in the queue of the class. */
#define NA_MPI_INBOX ((size_t) 8 << 20)
/* Bytes of messages that a peer has not received at which a sender stops. Each
 * message counts NA_MPI_COST more for its memory. */
#define NA_MPI_WINDOW ((uint64_t) 1 << 20)
#define NA_MPI_COST 128u
/* In the plane of a MESSAGE: its body is one byte, which stands for none. */
#define NA_MPI_EMPTY 0x80u
/* Bodies of one lane in transit. One more may be held. */
#define NA_MPI_PULLS 8u
#define NA_MPI_BATCH 16u /* packets handled in one poll of a channel */
#define NA_MPI_TESTS 8u  /* sends tested in one poll */
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
    NA_MPI_GONE,  /* "my class is closed": the last packet, not answered */
    NA_MPI_RESET, /* "the connection has ended": not in order */
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
    uint16_t number; /* number of the sender's class */
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
    MPI_Request request; /* MPI_REQUEST_NULL: must be posted, or held */
    bool held; /* has a packet that could not be queued for lack of memory */
    int source;
    size_t size;
    unsigned char *bytes;
};

/* A source of packets: a communicator and a tag. The class has one, in dynamic
 * mode for its own process, and each connection has another. */
struct na_mpi_channel {
    struct na_link link;      /* class->channels, of a connection */
    struct na_mpi_addr *peer; /* of a connection, or NULL */
    bool over;                /* the connection is no longer used here */
    bool left;                /* GONE was sent */
    bool ended;               /* the peer has sent GONE, its last packet */
    bool canceled;            /* over and ended: its receives are canceled */
    MPI_Comm comm;
    int tag; /* of packets for this class */
    unsigned next;
    unsigned count; /* of slots in use */
    unsigned batch; /* packets that the next poll may handle */
    /* The last handled slot, or NULL. It is posted again before the next one is
     * checked, because its packet should be answered first. */
    struct na_mpi_slot *used;
    struct na_mpi_slot slots[NA_MPI_SLOTS];
    unsigned char *bytes; /* of all slots */
};

/* A packet to send, or a body that is offered or being sent. */
struct na_mpi_out {
    struct na_link link;
    MPI_Request request;
    uint32_t id;
    uint64_t weight; /* of a message, with the packets before it */
    const void *data;
    size_t size;
    void *owned;                /* the body, if it must be freed, or NULL */
    void (*release)(void *arg); /* ... or borrowed, or NULL */
    void *arg;
    unsigned char *packet; /* NULL: a body */
};

/* A packet received that cannot be delivered yet. */
struct na_mpi_in {
    struct na_link link;
    struct na_mpi_header header;
    bool arrived;        /* the body has */
    MPI_Request request; /* of the body, when it was requested */
    int tag;             /* tag of the body; 0: none yet */
    unsigned char *body; /* NULL: none, or not requested yet */
    void *place;         /* memory of the core for the body; else NULL */
    size_t head_size;
    unsigned char head[]; /* payload of the packet */
};

/* Packets queued behind one whose body has not arrived, or that the core does
 * not take yet. */
struct na_mpi_inbox {
    struct na_link ins;
    size_t bytes;
    unsigned pulled; /* bodies in transit */
};

struct na_mpi_addr {
    struct na_addr base;
    /* In class->addrs, with one reference, from HELLO until it is idle or
     * dead. */
    struct na_link link;
    struct na_link timed;     /* class->timed: `deadline` counts */
    struct na_link receiving; /* class->receiving: an inbox is not empty */
    struct na_link bucket;    /* class->buckets, until dead */
    enum na_mpi_state state;
    bool from_peer; /* only peers have sent this address */
    bool receives;  /* dialled only because receives wait for it */
    bool bye_sent;  /* closing: BYE was sent */
    bool broken;    /* MPI refused to send: poll ends the connection */
    bool parting;   /* BYE or GONE has come, after all messages */
    struct na_mpi_channel *channel; /* NULL: not connected yet */
    int rank;
    unsigned number;                /* number of the peer's class */
    char *port;                     /* dynamic: to connect to, or NULL */
    struct na_mpi_connect *connect; /* the thread that connects, or NULL */
    int error;                      /* of MPI, why that failed */
    const char *why;                /* ... or what it waits for, or NULL */
    _Atomic uint64_t incarnation;   /* of the peer; 0: unknown yet */
    uint64_t deadline;              /* of dialling or closing */
    uint32_t last_id;
    uint32_t last_sent[NA_MPI_LANES];    /* id of a body */
    struct na_link offers[NA_MPI_LANES]; /* bodies that were not requested */
    uint64_t offered; /* bytes of messages in `offers` and before them */
    uint64_t packed;  /* bytes of messages in packets after that */
    struct na_mpi_inbox inboxes[NA_MPI_LANES];
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;
};

struct na_mpi_class {
    struct na_class base;
    struct na_link link; /* na_mpi_job.classes */
    bool closing;        /* no more deliveries */
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
    struct na_link orphans; /* na_mpi_in whose receive is no longer needed */
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

/* Start to connect an idle address, which keeps its sends meanwhile. `lane` is
 * FRAMES if only RMA needs it. The lock is held. */
HG_PRIVATE void na_mpi_dial(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane);

/* The connection ends: deliver the messages that have arrived, in order. By the
 * polling thread, without the lock. */
HG_PRIVATE void na_mpi_deliver_last(
    struct na_mpi_class *self, struct na_mpi_addr *addr);

/* The slot: end the connection, and tell the peer. Without the lock. */
HG_PRIVATE void na_mpi_addr_abandon(struct na_addr *base);

/* Dynamic mode; see mpi/dynamic.c. The lock is held. */
HG_PRIVATE void na_mpi_connect_start(
    struct na_mpi_class *self, struct na_mpi_addr *addr);
HG_PRIVATE void na_mpi_connect_drop(struct na_mpi_addr *addr);
HG_PRIVATE void na_mpi_channel_leave(
    struct na_mpi_class *self, struct na_mpi_addr *addr);

/* MPI_Finalize starts: end the accepting thread of dynamic mode. */
HG_PRIVATE void na_mpi_port_end(void);

#endif
