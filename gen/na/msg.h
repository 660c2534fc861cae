/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg: sends, receives, and who gets a message that arrived.
 *
 *     plane        a message goes to                  else it is kept in
 *     expected     the receive of its source and tag  a hash table by tag
 *     unexpected   the first receive posted           a list
 *     RPC          the sink with the target's number  a list
 *
 * - A sink is where the RPC engine of a context takes its messages, and where
 *   it is told of peers that died. Its number is its place in a table of the
 *   class; peers address contexts by these numbers.
 * - Equal candidates match in the order in which they came.
 * - Kept messages are copies. Each counts for its size and what it costs to
 *   keep. A peer may use at most half of what is left, as in limit.h: one alone
 *   has all of max_queue_bytes, and all together have at most twice as much.
 * - A message without receiver and without room is offered again by a transport
 *   that holds senders back (NA_CAP_HOLDS_BACK). For others it is dropped,
 *   counted as "msg_dropped" and logged as a warning.
 * - A kept message outlives its sender, and can still be received. When room
 *   is needed, the messages of the dead are dropped first.
 *
 * Locking: the lock of the class is held around everything here but the NA
 * interface, which takes it.
 */
#ifndef HG_GEN_NA_MSG_H
#define HG_GEN_NA_MSG_H

#include "base/lock.h"
#include "na/core.h"

HG_PRIVATE void na_msg_inbox_init(struct na_inbox *inbox);

/* Drop every message that is kept, with its reference. */
HG_PRIVATE void na_msg_inbox_drop(struct na_class_core *core);

/* core->msg_arrived. Any thread, with the lock or without. */
HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size);

/* A peer could not be reached: fail the receives posted for it. The connection
 * to it ended: tell the sinks. Both, if it is marked dead. Any thread, with the
 * lock or without. */
HG_PRIVATE void na_msg_addr_ended(
    struct na_addr *addr, na_return_t ret, bool unreached, bool parted);

/* In place of a number: the first that is free. */
#define NA_SINK_ANY (-1)

/* A sink of the class, whose number goes to *number_p: `take` gets the messages
 * of its RPC plane, those first that were kept for it, and `dead`, if not NULL,
 * is told of peers that die. Both run with the lock held; `arg` is borrowed.
 * NA_EXIST: the number is taken, or all are (logged). Both functions: any
 * thread, with the lock or without. */
HG_PRIVATE na_return_t na_sink_open(struct na_class *na_class, int wanted,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg, uint8_t *number_p);
HG_PRIVATE void na_sink_close(struct na_class *na_class, uint8_t number);

/* Hand a message, all borrowed, to the sink of that number; what that
 * returns, or NA_NOENTRY: there is none. */
static inline na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    const struct na_sink *sink = &core->sinks[target];

    assert(hg_is_inside(core->lock));
    return sink->take != NULL ? sink->take(sink->arg, source, tag, data, size)
                              : NA_NOENTRY;
}

/* What the sink of that number is given as `arg`; NULL: there is none. Any
 * thread, with the lock or without. */
HG_PRIVATE void *na_sink_arg(const struct na_class_core *core, unsigned number);

/* Send on the RPC plane if that is possible at once; else NA_AGAIN, and the
 * message may be queued. */
HG_PRIVATE na_return_t na_msg_try_rpc(
    struct na_context *context, const struct na_msg *msg);

/* Send it when that is possible: `callback` comes in the internal lane, and the
 * payload must stay until then. *op_id_p is set before that. On error nothing
 * was sent, and no callback comes. */
HG_PRIVATE na_return_t na_msg_queue_rpc(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg,
    _Atomic(na_op_id_t) *op_id_p);

/* Take a posted receive back: NA_SUCCESS, and it completes with NA_CANCELED;
 * NA_NOENTRY: it is not posted any more. */
HG_PRIVATE na_return_t na_msg_cancel(struct na_op *op);

#endif
