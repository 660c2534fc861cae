/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_flow: what passes between the two ends of a pair: messages, frames, the
 * two words of a goodbye; queued where the ring is full, delivered in order.
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
 * Locking: see sm_peer.h.
 */
#ifndef HG_GEN_SM_FLOW_H
#define HG_GEN_SM_FLOW_H

#include "sm/peer.h"

#if HG_ENABLE_SM

/* The slots of struct na_plugin with the same names, for a peer. */
HG_PRIVATE na_return_t na_sm_flow_send(
    struct na_sm_class *self, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_sm_flow_frame_send(struct na_sm_addr *addr,
    const void *header, size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg);
HG_PRIVATE na_return_t na_sm_flow_terminate(
    struct na_sm_class *self, struct na_op *op);

/* Deliver what came from a peer, a bounded number of records, and send what is
 * queued for it; the number of things done. By the polling thread. */
HG_PRIVATE unsigned na_sm_flow_visit(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The same for whoever's hint is up; hints that were up for nothing for a
 * while are lowered. */
HG_PRIVATE unsigned na_sm_flow_visit_hinted(struct na_sm_class *self);

/* The same for everybody: hints may be spoiled. */
HG_PRIVATE unsigned na_sm_flow_visit_all(struct na_sm_class *self);

/* A peer is dying: deliver what is left in its ring. Messages for which the
 * core has no room are dropped, counted and logged. */
HG_PRIVATE void na_sm_flow_drain(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* Whether a visit would find something, asked before sleeping. The class lock
 * is held; the polling thread may be another one. */
HG_PRIVATE bool na_sm_flow_has_work(struct na_sm_class *self);

#endif
#endif
