/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xfer: the transfers of emulated RMA, and the frames that they send.
 *
 * A transfer exists at both ends. At the initiator it belongs to an operation,
 * at the target to a registration. The initiator of a put sends the data, and
 * so does the target of a get.
 *
 *     moving --end--> ended --no pin--> memory released --sent--> freed
 *
 * na_emul_xfer_end gives a transfer its result, and frames no longer find it.
 * A frame in the transport's hands pins the memory of its transfer. When the
 * last pin of an ended transfer is gone, the operation completes and the
 * registration is released. The transfer is freed once its last control frame
 * (DONE, ABORT, an acknowledgement) has left.
 *
 * All senders to one peer share a window of unacknowledged bytes. A transfer is
 * on at most one of these lists, by `link`:
 *
 *     emul->ready     has a frame to send
 *     emul->stalled   the transport took no frame: tried again by the next poll
 *     peer->parked    the window of the peer is full, or too many operations
 *                     with it are under way
 *
 * gen/README.md has the bytes of a frame. Flag WANT_ACK asks for an
 * acknowledgement. Flag SUM of a request asks for sums; of a frame
 * with data it says that there is one.
 *
 * Locking: the lock of the class guards everything here and is held in every
 * function, also around the transport's frame_send. Pins are atomic: the
 * transport gives frames back in any thread, with any lock held.
 */
#ifndef HG_GEN_EMUL_XFER_H
#define HG_GEN_EMUL_XFER_H

#include "base/map.h"
#include "base/mem.h"
#include "na/rma.h"

/* Operations with one peer that are under way at a time; more wait. */
#define NA_EMUL_ORIGINS_MAX 256

/* Transfers that one peer may have here; a request beyond it gets NA_AGAIN. It
 * is more than ORIGINS_MAX, because an ended transfer stays until its last
 * frame has left. */
#define NA_EMUL_TARGETS_MAX 1024

/* Transfers up to this size do not wait for the window. */
#define NA_EMUL_SMALL 16384u

/* Pieces of memory shorter than this are copied together. */
#define NA_EMUL_PIECE 16384u

#define NA_EMUL_FRAME_MIN 4096u
#define NA_EMUL_FRAME_MAX (1u << 30)
#define NA_EMUL_GATHER_MAX (1u << 18) /* of a frame that is copied together */
#define NA_EMUL_WINDOW_MAX (UINT64_C(1) << 40)

/* ---- Frames as bytes ---- */

#define NA_EMUL_WIRE_SIZE 56 /* of a header */

enum na_emul_wire_type {
    NA_EMUL_WIRE_GET_REQ = 1,
    NA_EMUL_WIRE_PUT_REQ = 2,
    NA_EMUL_WIRE_PUT_DATA = 3,
    NA_EMUL_WIRE_GET_ACK = 4,
    NA_EMUL_WIRE_ABORT = 5,
    NA_EMUL_WIRE_GET_DATA = 6,
    NA_EMUL_WIRE_PUT_ACK = 7,
    NA_EMUL_WIRE_DONE = 8
};

enum { NA_EMUL_WIRE_WANT_ACK = 0x01, NA_EMUL_WIRE_SUM = 0x02 };

/* What a type does not use is 0 when written, and ignored when read. */
struct na_emul_wire {
    uint8_t type;
    uint8_t flags;
    uint16_t status; /* DONE */
    uint64_t id;
    uint64_t key;    /* requests */
    uint64_t offset; /* requests: in the memory; data: position; acks:
                        received */
    uint64_t length; /* requests */
    uint64_t window; /* requests */
    uint64_t sum;    /* data, with NA_EMUL_WIRE_SUM */
};

/* Write a header. */
HG_PRIVATE void na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_SIZE]);

/* Read a header (borrowed) that came with `data_size` bytes of data.
 * NA_PROTOCOL_ERROR: no header of this version, too short, or data where none
 * belongs. */
HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p);

/* ---- Transfers ---- */

struct na_emul {
    struct na_class *na_class;
    size_t frame_size;    /* constant: data of a frame, at most */
    uint64_t window;      /* constant: unacknowledged bytes to a peer */
    bool sums;            /* operations started here have sums */
    struct hg_map regs;   /* registered memory, by its key */
    struct hg_map xfers;  /* by their keys */
    struct na_link spare; /* free transfers */
    unsigned spare_count;
    struct na_link ready;
    struct na_link stalled;
    struct na_link touched; /* withdrawn memory, of which the transport itself
                               still moves pieces */
    uint64_t look_at;       /* when to poll though nothing wakes progress */
    _Atomic bool unpinned;  /* the last pin of a transfer is gone */
};

/* What is counted for one address; hangs on its na_addr_core. */
struct na_emul_peer {
    struct na_addr *addr;
    struct na_link parked;
    uint64_t salt;         /* random: its id 0 is this key of emul->xfers */
    uint32_t origin_count; /* operations started and not ended */
    uint32_t target_count; /* transfers of the peer's that exist */
    uint64_t window;       /* ours, or less, as the peer asks for */
    uint64_t outstanding;  /* bytes sent under it, not acknowledged */
};

struct na_emul_xfer {
    struct na_link link; /* ready, stalled or parked */
    struct na_emul *emul;
    struct na_emul_peer *peer; /* with a reference of its address */
    struct na_mem_core *mem;   /* target: with a reference; NULL: released */
    struct na_op *op;          /* initiator; NULL: completed */
    uint64_t key;              /* of the initiator: its id, too */
    struct na_cursor cursor;
    na_size_t length;
    na_size_t moved;  /* bytes sent, or received */
    na_size_t acked;  /* of those sent */
    na_size_t placed; /* past `moved`: up to there the transport receives in
                         the memory itself; else it has no meaning */
    struct na_cursor ahead; /* at `placed` */
    _Atomic uint32_t pins;  /* frames that use the memory */
    uint8_t control;        /* type of the control frame to send; 0: none */
    na_return_t status;
    bool origin;
    bool sends;
    bool sums;
    bool started; /* origin: counted in origin_count */
    bool ended;
    bool abandoned; /* its connection is being ended */
};

static inline bool na_emul_xfer_is_windowed(const struct na_emul_xfer *xfer)
{
    return xfer->length > NA_EMUL_SMALL;
}

/* Whether the peer knows of the transfer: its request has left. */
static inline bool na_emul_xfer_is_known(const struct na_emul_xfer *xfer)
{
    return !xfer->origin ||
        (xfer->control != NA_EMUL_WIRE_GET_REQ &&
            xfer->control != NA_EMUL_WIRE_PUT_REQ);
}

/* What is known of an address, or NULL: nothing was ever moved. */
static inline struct na_emul_peer *na_emul_xfer_peer(const struct na_addr *addr)
{
    return na_addr_core_of(addr)->emul_peer;
}

/* The transfer with `addr` of this id, which has not ended; started here, or by
 * the peer. NULL: there is none. */
HG_PRIVATE struct na_emul_xfer *na_emul_xfer_find(const struct na_emul *emul,
    const struct na_addr *addr, bool origin, uint64_t id);

/* A transfer with `addr` that is on no list of work yet. The id of an
 * initiator's is chosen here, a target's is `id`. NULL: out of memory. */
HG_PRIVATE struct na_emul_xfer *na_emul_xfer_new(struct na_emul *emul,
    struct na_addr *addr, bool origin, bool sends, na_size_t length,
    uint64_t id);

/* Put a transfer that has a frame to send on the ready list. */
HG_PRIVATE void na_emul_xfer_kick(struct na_emul_xfer *xfer);

/* The peer acknowledged bytes up to `acked`. */
HG_PRIVATE void na_emul_xfer_acknowledge(
    struct na_emul_xfer *xfer, na_size_t acked);

/* The transfer's result; the first one counts. `control` is sent to the peer;
 * 0: nothing. The transfer may be gone when this returns. */
HG_PRIVATE void na_emul_xfer_end(
    struct na_emul_xfer *xfer, na_return_t status, uint8_t control);

/* End from this side: the peer is told by a DONE of the target, or an ABORT of
 * the initiator if its request has left. */
HG_PRIVATE void na_emul_xfer_fail(
    struct na_emul_xfer *xfer, na_return_t status);

/* End with `ret`, or be ended already: nothing is sent any more. */
HG_PRIVATE void na_emul_xfer_drop(struct na_emul_xfer *xfer, na_return_t ret);

/* The transport is done with a frame of the transfer `xfer`. Any thread, any
 * lock held: what ends by that is found by na_emul_xfer_collect. */
HG_PRIVATE void na_emul_xfer_unpin(void *xfer);

/* Release the memory of ended transfers that lost their last pin; their
 * number. */
HG_PRIVATE unsigned na_emul_xfer_collect(struct na_emul *emul);

/* Drop a reference of registered memory. With the last one of what was
 * withdrawn the handle and its buffer are freed. */
HG_PRIVATE void na_emul_xfer_unref_mem(struct na_mem_core *mem);

/* Send the next frame of a transfer that is on no list. Whether anything
 * changed. The transfer may be gone when this returns. */
HG_PRIVATE bool na_emul_xfer_send(struct na_emul_xfer *xfer);

#endif
