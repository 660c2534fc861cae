/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul_xfer: the transfers of emulated RMA, from their start to their end.
 *
 * A transfer exists at both ends: at the initiator it belongs to an
 * operation, at the target to a registration. Which end sends is another
 * matter: the initiator of a put, the target of a get.
 *
 *     new --> moving --end--> ended, draining --check--> done --settle--> gone
 *
 * `end` gives it its one result and takes it from where frames and memory
 * find it. It then drains: borrowed frames come back, a copy under way ends,
 * a last control frame (DONE, ABORT, ACK) leaves. An operation completes as
 * soon as its memory is no longer in use. `settle` does what must be done
 * without the lock.
 *
 * Transfers of one address hang on a peer, which exists while there are any.
 * The window belongs to the peer: all senders to it share it. So a transfer
 * is on one of these lists, or on none, by `link`:
 *
 *     emul->ready     has a frame to send, and may
 *     emul->stalled   the transport had no room: again at the next poll
 *     peer->parked    has data to send, but the window is full
 *     peer->waiting   an operation waits for earlier ones to the same peer
 *
 * Locking: emul->lock guards everything here, except that the thread which
 * set `busy` owns the sender's cursor, and who raised `copies` the
 * receiver's. Functions expect the lock held unless they say otherwise.
 */
#ifndef HG_GEN_NA_EMUL_XFER_H
#define HG_GEN_NA_EMUL_XFER_H

#include "base/map.h"
#include "base/mem.h"
#include "na/cursor.h"
#include "na/emul.h"

#define NA_EMUL_BUCKETS 64

/* Operations to one peer on their way at a time; more wait their turn. */
#define NA_EMUL_ORIGINS_MAX 256

/* Transfers that one peer may have here; beyond it gets NA_AGAIN. More than
 * ORIGINS_MAX, because ended ones take a moment to drain. */
#define NA_EMUL_TARGETS_MAX 1024

/* Refusals kept for want of memory or room to send them, and those of them to
 * one peer. Past it one is lost. */
#define NA_EMUL_UNSAID_MAX 64
#define NA_EMUL_UNSAID_EACH 8

/* How soon a refusal is tried again for which there was no memory. */
#define NA_EMUL_UNSAID_MS 10

/* Transfers up to this size do not wait for the window. */
#define NA_EMUL_SMALL 16384u

/* Pieces of memory shorter than this are copied together. */
#define NA_EMUL_PIECE 16384u

/* Between two questions whether the transport is done with memory. */
#define NA_EMUL_TOUCH_MS 10

#define NA_EMUL_FRAME_MIN 4096u
#define NA_EMUL_FRAME_MAX (1u << 30)
#define NA_EMUL_GATHER_MAX (1u << 18)
#define NA_EMUL_WINDOW_MAX (UINT64_C(1) << 40)

/* Frames to send besides data: bits of na_emul_xfer.owed. */
enum na_emul_owed {
    NA_EMUL_OWED_REQ = 0x01,
    NA_EMUL_OWED_ACK = 0x02,
    NA_EMUL_OWED_ABORT = 0x04,
    NA_EMUL_OWED_DONE = 0x08
};

/* A request that got no transfer, and has not been told. */
struct na_emul_refusal {
    struct na_addr *addr; /* a reference */
    uint64_t id;
    na_return_t status;
};

struct na_emul {
    struct na_class *na_class;
    size_t frame_size;  /* constant: payload of a frame, at most */
    size_t gather_size; /* constant: of a frame copied together */
    uint64_t window;    /* constant: unacknowledged bytes to a peer */
    pthread_mutex_t lock;
    pthread_cond_t cond;     /* a pin was dropped, and somebody waits */
    unsigned waiters;        /* for cond */
    unsigned completing;     /* threads that complete operations, unlocked */
    struct hg_map regs;      /* by key */
    struct hg_slots origins; /* transfers of operations, until ended */
    struct na_link peers[NA_EMUL_BUCKETS];
    struct na_link ready;
    struct na_link stalled;
    struct na_link done;
    struct na_link buried; /* registrations given up, and used no more */
    /* Given up, and the transport moves pieces of them, for each of which they
     * have one pin; and when to ask it next. */
    struct na_link touched;
    uint64_t touched_at;
    struct hg_pool peer_pool;
    struct hg_pool xfer_pool;
    struct hg_pool frame_pool;  /* without a buffer */
    struct hg_pool gather_pool; /* with one of gather_size */
    struct na_emul_refusal unsaid[NA_EMUL_UNSAID_MAX]; /* oldest first */
    unsigned unsaid_count;
    uint64_t unsaid_at; /* when to try them again; 0: when the transport says */
    /* Transfers that exist, refusals unsaid, and registrations given up. */
    _Atomic uint32_t active;
};

/* Memory that peers may reach. */
struct na_emul_reg {
    struct na_mem_handle *mem;
    struct na_link xfers;     /* moving */
    uint64_t pins;            /* frames and copies that use the memory */
    struct na_link in_buried; /* emul->buried, or touched */
    struct na_addr *user;     /* NULL, or it was given up: a reference */
    void *buf;                /* then: freed with it */
};

struct na_emul_peer {
    struct na_link link;  /* emul->peers */
    struct na_addr *addr; /* a reference */
    struct na_link xfers; /* all */
    struct na_link parked;
    struct na_link waiting;
    struct na_link targets[NA_EMUL_BUCKETS]; /* moving, by id */
    uint32_t origin_count;                   /* requested and not ended */
    uint32_t target_count;                   /* all */
    uint64_t outstanding; /* bytes sent under the window, not acknowledged */
    uint64_t gathered;    /* bytes in buffers that the transport holds */
    bool gather_wanted;   /* somebody is parked because of `gathered` */
};

struct na_emul_xfer {
    struct na_link link;      /* ready, stalled, parked or waiting */
    struct na_link in_peer;   /* peer->xfers */
    struct na_link in_bucket; /* target: peer->targets */
    struct na_link in_reg;    /* target: reg->xfers */
    struct na_link in_done;   /* emul->done */
    struct na_emul *emul;
    struct na_emul_peer *peer;
    struct na_emul_reg *reg; /* target: until ended */
    struct na_op *op;        /* initiator: until completed */
    uint64_t id;
    struct na_cursor cursor;
    na_size_t length;
    na_size_t moved;  /* bytes sent, or received */
    na_size_t placed; /* past `moved`: up to there the transport receives in
                         the memory itself; else it has no meaning */
    struct na_cursor ahead; /* at `placed` */
    na_size_t acked;        /* of those sent */
    na_size_t window;       /* unacknowledged bytes at most */
    uint32_t frames;        /* with data, in the transport's hands */
    uint32_t copies;        /* threads that copy to or from its memory */
    unsigned owed;          /* enum na_emul_owed */
    na_return_t status;
    bool origin;
    bool sends;
    bool windowed;
    bool started; /* origin: counted in origin_count */
    bool busy;    /* a thread sends a frame of it */
    bool ended;
};

/* Payload in the transport's hands: the argument of the release callback. */
struct na_emul_frame {
    struct na_emul_xfer *xfer;
    struct na_emul_reg *reg; /* pinned, or NULL */
    void *buf;               /* gathered into, or NULL: sent in place */
};

/* Lists and pools. */
HG_PRIVATE void na_emul_xfer_setup(struct na_emul *emul);

/* Free everything; see na_emul_destroy. Without the lock. */
HG_PRIVATE void na_emul_xfer_teardown(struct na_emul *emul);

/* A transfer with `addr` that is on no list of work yet. The id of an
 * initiator's is chosen here, a target's is `id`. NULL: out of memory. */
HG_PRIVATE struct na_emul_xfer *na_emul_xfer_new(struct na_emul *emul,
    struct na_addr *addr, bool origin, bool sends, na_size_t length,
    uint64_t id);

/* Who talks to us through `addr`, or NULL. */
HG_PRIVATE struct na_emul_peer *na_emul_xfer_find_peer(
    const struct na_emul *emul, const struct na_addr *addr);

/* The moving transfer that a peer started here under `id`, or NULL. */
HG_PRIVATE struct na_emul_xfer *na_emul_xfer_find_target(
    const struct na_emul_peer *peer, uint64_t id);

/* Give a target's transfer its memory. */
HG_PRIVATE void na_emul_xfer_bind(
    struct na_emul_xfer *xfer, struct na_emul_reg *reg, na_offset_t offset);

/* Begin an initiator's transfer, or let it wait; then kick. */
HG_PRIVATE void na_emul_xfer_start(struct na_emul_xfer *xfer);

/* Put a transfer that has a frame to send on the ready list. */
HG_PRIVATE void na_emul_xfer_kick(struct na_emul_xfer *xfer);

/* The window may have room: everybody parked gets another look. */
HG_PRIVATE void na_emul_xfer_unpark(struct na_emul_peer *peer);

/* The transfer's result; the first counts. `owed` remains to be sent. */
HG_PRIVATE void na_emul_xfer_end(
    struct na_emul_xfer *xfer, na_return_t status, unsigned owed);

/* End from this side: with a DONE at the target, an ABORT at the initiator
 * where the peer knows of it. */
HG_PRIVATE void na_emul_xfer_fail(
    struct na_emul_xfer *xfer, na_return_t status);

/* Look whether an ended transfer has drained. Call after whatever may have
 * drained it; the transfer may be gone when the lock is next released. */
HG_PRIVATE void na_emul_xfer_check(struct na_emul_xfer *xfer);

/* A frame for data of the transfer, with a buffer or to be sent in place,
 * which keeps its transfer, and its registration where it is sent in place.
 * NULL: out of memory. */
HG_PRIVATE struct na_emul_frame *na_emul_xfer_frame_get(
    struct na_emul_xfer *xfer, bool gather);

/* The frame's memory is no longer used. Calls check, and unpark. */
HG_PRIVATE void na_emul_xfer_frame_put(struct na_emul_frame *frame);

/* A copy to or from the transfer's memory begins, and ends (without check).
 * `reg` is its registration when the copy began, NULL for an initiator. */
HG_PRIVATE void na_emul_xfer_copy_begin(struct na_emul_xfer *xfer);
HG_PRIVATE void na_emul_xfer_copy_end(
    struct na_emul_xfer *xfer, struct na_emul_reg *reg);

/* Nobody waits until a registration that is in no table any more is unused:
 * it, its handle and `buf` are freed then. */
HG_PRIVATE void na_emul_xfer_give_up(struct na_emul *emul,
    struct na_emul_reg *reg, void *buf, struct na_addr *user);

/* The transport moves pieces of a registration, that is to be given up: pin it
 * until it does not. */
HG_PRIVATE void na_emul_xfer_touch(
    struct na_emul *emul, struct na_emul_reg *reg);

/* Ask it about those, in time; or with `closed`, when it moves nothing any
 * more. The lock is released around each. */
HG_PRIVATE void na_emul_xfer_untouch(struct na_emul *emul, bool closed);

/* When to ask; HG_CLOCK_NEVER. */
HG_PRIVATE uint64_t na_emul_xfer_touch_due(const struct na_emul *emul);

/* Free the registrations that were given up and are used no more. The lock is
 * released around each. The number of them. */
HG_PRIVATE unsigned na_emul_xfer_bury(struct na_emul *emul);

/* Release the lock, then complete operations and free transfers that are
 * done, and registrations. The number of them. */
HG_PRIVATE unsigned na_emul_xfer_leave(struct na_emul *emul);

/* Wait, releasing the lock, until a pin or a copy ended, an operation
 * completed, or `deadline`; false: it passed. */
HG_PRIVATE bool na_emul_xfer_wait(struct na_emul *emul, uint64_t deadline);

#endif
