/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow: what passes between the two ends of a pair: messages, frames, and BYE,
 * the last record; queued where the ring is full, delivered in order.
 *
 * Nothing is lost between a sender and a receiver who sleeps. The sender
 * publishes the tail, then looks whether its bit is set in the receiver's hint
 * page and sets it, then looks whether the receiver sleeps and rings its bell.
 * The receiver, before it sleeps, says so, then looks at the rings whose bits
 * are set; and where it clears a bit it looks at the ring once more. Each of
 * these is "publish, then look" on both sides, in one order that all agree on.
 *
 * The way back, when a full ring has room again, is the same with `starved`:
 * the receiver that lowers it sets the bit and rings the bell.
 *
 * To close a connection in order, a side sends what is queued, sets `over`, and
 * writes BYE once no hazard word of either side is set. A side that writes a
 * hazard word looks at `over` afterwards, so it begins no copy that the other
 * side has not seen. A connection that ends without BYE was lost.
 *
 * Locking: see peer.h.
 */
#ifndef HG_GEN_SM_FLOW_H
#define HG_GEN_SM_FLOW_H

#include "sm/peer.h"

#if HG_ENABLE_SM

/* The slots msg_send, frame_send and addr_terminate. */
HG_PRIVATE na_return_t na_sm_flow_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_sm_flow_frame_send(struct na_addr *base,
    const void *header, size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg);
HG_PRIVATE na_return_t na_sm_flow_terminate(struct na_op *op);

/* Have an operation wait until the address is connected, and dial it if it is
 * idle; op NULL: only dial. NA_AGAIN: it waits, or would; NA_DISCONNECT: the
 * address will not be connected any more. */
HG_PRIVATE na_return_t na_sm_flow_queue(
    struct na_sm_class *self, struct na_sm_addr *addr, struct na_op *op);

/* Deliver what came from a peer, a bounded number of records, and send what is
 * queued for it; the number of things done. By the polling thread. */
HG_PRIVATE unsigned na_sm_flow_visit(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The same for each peer whose hint is up; hints that were up for nothing for a
 * while are lowered. */
HG_PRIVATE unsigned na_sm_flow_visit_hinted(struct na_sm_class *self);

/* Raise the hints of all peers that have something: they may be spoiled. */
HG_PRIVATE void na_sm_flow_hint_all(struct na_sm_class *self);

/* Deliver what is left in the ring of a peer that has ended. Messages for which
 * the core has no room are dropped, counted and logged. */
HG_PRIVATE void na_sm_flow_drain(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Go on with connections that are being closed, and end those that are late;
 * the number of those that ended. */
HG_PRIVATE unsigned na_sm_flow_close_all(
    struct na_sm_class *self, uint64_t now);

/* Whether a visit would find something, asked before sleeping. */
HG_PRIVATE bool na_sm_flow_has_work(const struct na_sm_class *self);

#endif
#endif
