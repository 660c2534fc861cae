/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg: sends and receives, and the way of a message that arrived.
 *
 *     NA_Msg_send_*   --> the transport's msg_send: at once, else as an
 *                         operation that keeps the caller's buffers
 *     msg_arrived     --> RPC plane: na/sink; the rest, and what finds no
 *                         sink: na/match
 *     NA_Msg_recv_*   --> na/match
 *
 * What finds neither receiver nor room is offered again by a transport that
 * holds senders back (NA_CAP_HOLDS_BACK); others have it dropped, counted as
 * "msg_dropped" and logged as a warning.
 *
 * Locking: the lock of the class, around what a message finds.
 */
#ifndef HG_GEN_NA_MSG_H
#define HG_GEN_NA_MSG_H

#include "na/core.h"

/* core->msg_arrived. */
HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size);

/* Fail the receives that wait for this peer, which is marked dead, and tell
 * the RPC engines. */
HG_PRIVATE void na_msg_addr_dead(struct na_addr *addr, na_return_t ret);

/* Give the RPC plane of a context to `sink`, with what waited for it, and tell
 * `dead` of peers that die; `arg` is borrowed. Number and codes as those of
 * na_sink_open. NULL takes it back, and no call of either is under way on
 * return. */
HG_PRIVATE na_return_t na_msg_set_sink(struct na_context *context, int number,
    na_rpc_cb_t sink, na_rpc_dead_cb_t dead, void *arg);

/* Send on the RPC plane if that is possible at once; else NA_AGAIN, and the
 * message may be queued. */
HG_PRIVATE na_return_t na_msg_try_rpc(
    struct na_context *context, const struct na_msg *msg);

/* Send it when that is possible: `callback` comes in the internal lane, perhaps
 * before this returns, and the payload must stay until then. *op_id_p is set
 * before that. On error nothing was sent, and no callback comes. */
HG_PRIVATE na_return_t na_msg_queue_rpc(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg,
    _Atomic(na_op_id_t) *op_id_p);

#endif
