/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow: sends and receives the records of a pair: messages, frames, and BYE,
 * the last record; queued while the ring is full, delivered in order.
 *
 * No record is lost between a sender and a sleeping receiver. The sender
 * publishes it, then checks its bit in the receiver's hint page and sets it,
 * then checks whether the receiver sleeps and rings its bell. The receiver
 * publishes that it will sleep, then checks the rings whose bits are set; after
 * clearing a bit it checks the ring once more. Both sides publish before they
 * check, in a sequentially consistent order.
 *
 * When a full ring has space again, the same is done with `starved`: the
 * receiver that clears it sets the bit and rings the bell.
 *
 * To close a connection in order, a side sends its queue, sets `over`, and
 * writes BYE when no hazard word of either side is set. A side that writes a
 * hazard word checks `over` afterwards, so it starts no copy that the other
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

/* Make an operation wait until the address is connected, and dial the address
 * if it is idle; op NULL: only dial. NA_AGAIN: it waits, or would;
 * NA_DISCONNECT: the address will not be connected any more. */
HG_PRIVATE na_return_t na_sm_flow_queue(
    struct na_sm_class *self, struct na_sm_addr *addr, struct na_op *op);

/* Deliver a limited number of records from a peer, and send its queue; returns
 * the number of things done. By the polling thread. */
HG_PRIVATE unsigned na_sm_flow_visit(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Visit each peer whose hint is set; clear hints that were set without records
 * for a while. */
HG_PRIVATE unsigned na_sm_flow_visit_hinted(struct na_sm_class *self);

/* Set the hints of all peers that have records, in case a peer cleared them. */
HG_PRIVATE void na_sm_flow_hint_all(struct na_sm_class *self);

/* Deliver the remaining records of a peer that has ended. */
HG_PRIVATE void na_sm_flow_drain(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Continue closing connections, and end those that are late; returns the number
 * that ended. */
HG_PRIVATE unsigned na_sm_flow_close_all(
    struct na_sm_class *self, uint64_t now);

/* Whether a visit would find something; checked before sleeping. */
HG_PRIVATE bool na_sm_flow_has_work(const struct na_sm_class *self);

#endif
#endif
