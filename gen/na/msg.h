/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg: sends, receives, and who gets what arrived.
 *
 * A transport delivers bytes with a plane, a tag and a source; this room finds
 * the receive. The expected plane matches on tag and source, the unexpected
 * plane takes any receive in posting order, the RPC plane goes to the sink of
 * the context it names. What finds nobody waits, up to the class's limit in
 * bytes; beyond it a transport with flow control is told to hold the sender
 * back, and the others drop and count.
 *
 *     msg_arrived --> receive posted? --yes--> copy, complete
 *                          | no
 *                          v
 *                     waits in the class --> taken by the next receive
 *
 * A message that arrived before its sender died can still be received.
 *
 * Locking: the class's match lock guards posted receives and waiting
 * messages; data is copied under it (messages are small). The RPC plane of a
 * context with a sink takes that context's sink lock only.
 */
#ifndef HG_GEN_NA_MSG_H
#define HG_GEN_NA_MSG_H

#include "na/core.h"

HG_PRIVATE na_return_t na_msg_match_init(struct na_match *match);

/* Drop what waits, with its references. */
HG_PRIVATE void na_msg_match_drop(struct na_match *match);
HG_PRIVATE void na_msg_match_fini(struct na_match *match);

/* core->msg_arrived. */
HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size);

/* Fail the receives that wait for this peer, and tell the RPC engines. */
HG_PRIVATE void na_msg_addr_dead(struct na_addr *addr, na_return_t ret);

/* Take a posted receive of the context back: NA_SUCCESS, and it completes with NA_CANCELED;
 * NA_NOENTRY when it is no longer posted under this identifier. */
HG_PRIVATE na_return_t na_msg_cancel_recv(
    struct na_context *context, struct na_op_core *op, uint64_t id);

/* Give the RPC plane of a context to `sink`, with what waited for it, and tell
 * `dead` of peers that die; NULL takes it back, and no call of either is under
 * way on return. */
HG_PRIVATE void na_msg_set_sink(struct na_context *context, na_rpc_cb_t sink,
    na_rpc_dead_cb_t dead, void *arg);

/* Send on the RPC plane: *done_p true when it went out at once and `callback`
 * will not be called; else the callback comes in the internal lane, and the
 * payload must stay until then. */
HG_PRIVATE na_return_t na_msg_send_rpc(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg, bool *done_p);

#endif
