/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul_send: which frame leaves next.
 *
 * Transfers with something to send stand in one queue per class and take
 * turns, a frame each, so that a small one passes a big one. Control frames
 * always go; data goes while the peer's unacknowledged bytes fit the window.
 * A sender that does not fit is parked until an acknowledgement comes. Every
 * frame under the window asks for one, or is the last of a put, which DONE
 * answers; so a parked sender always has something to wait for.
 *
 * Contiguous memory is sent in place. Short pieces (below NA_EMUL_PIECE) are
 * copied together into a buffer that travels with the frame; such buffers in
 * the transport's hands are bounded by the window as well.
 *
 * Locking: emul->lock, released around the transport's frame_send and around
 * copying; `busy` keeps others off the transfer meanwhile. A release callback
 * takes the lock for a few instructions.
 */
#ifndef HG_GEN_NA_EMUL_SEND_H
#define HG_GEN_NA_EMUL_SEND_H

#include "na/emul_xfer.h"

/* What sending one frame came to. */
enum na_emul_send_result {
    NA_EMUL_SEND_NOTHING, /* parked, or nothing to say */
    NA_EMUL_SEND_FRAME,   /* a frame left */
    NA_EMUL_SEND_STALLED, /* the transport has no room */
    NA_EMUL_SEND_FAILED   /* the transfer has ended, or memory is short */
};

/* Send one frame of a transfer that is on no list and not busy. The lock is
 * held, and released meanwhile; the transfer stays until it is left. */
HG_PRIVATE enum na_emul_send_result na_emul_send_one(struct na_emul_xfer *xfer);

/* Refuse a request for which there is no transfer. The lock is held, and
 * released meanwhile. Where memory is short the refusal is kept, and sent by a
 * poll. False: it is lost. */
HG_PRIVATE bool na_emul_send_refusal(
    struct na_emul *emul, struct na_addr *addr, uint64_t id, na_return_t ret);

#endif
