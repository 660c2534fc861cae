/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg: sends, receives, and the delivery of messages.
 *
 *     plane        a message goes to                  otherwise it is queued in
 *     expected     the receive of its source and tag  a hash table by tag
 *     unexpected   the first receive posted           a list
 *     RPC          the sink with the target's number  a list
 *
 * - A sink receives the messages of the RPC plane for a context of the RPC
 *   layer, and is notified when a peer dies. Its number is its index in a table
 *   of the class; peers address contexts by these numbers.
 * - Messages and receives match in the order in which they arrived.
 * - The transport knows which process an address names once the address is
 *   connected. A receive connects it. Then the receives that wait for it are
 *   matched with the queued messages again. If it cannot be connected, each
 *   message that may be for such a receive makes it try again.
 * - Queued messages are copies. The weight of a queued message is its size plus
 *   the cost of storing it. A peer may use at most half of what is free, as in
 *   limit.h: one peer alone can use all of max_queue_bytes, and all together at
 *   most twice as much.
 * - If a message has no receiver and no space in the queue, or there is no
 *   memory for a copy, a transport that holds senders back (NA_CAP_HOLDS_BACK)
 *   offers it again. With other transports it is dropped. A message that is
 *   dropped is counted as "msg_dropped" and logged as a warning.
 * - When a connection ends, the transport delivers what it still holds with
 *   na_msg_last. Their sender cannot be held back any more, so these messages
 *   may exceed its share.
 * - A queued message can be received after its sender died. If space is needed,
 *   those messages of dead peers are dropped that nothing can receive: calls;
 *   unexpected messages, if the application has never posted a receive for
 *   such; and expected messages of a peer of which it has no address.
 *
 * Locking: the lock of the class is held around all functions here except for
 * the NA interface, which takes it.
 */
#ifndef HG_GEN_NA_MSG_H
#define HG_GEN_NA_MSG_H

#include "base/lock.h"
#include "na/core.h"

HG_PRIVATE void na_msg_inbox_init(struct na_inbox *inbox);

/* Drop all queued messages, with their references. */
HG_PRIVATE void na_msg_inbox_drop(struct na_class_core *core);

/* core->msg_arrived. The lock is held. */
HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size);

/* core->msg_last. The lock is held. */
HG_PRIVATE na_return_t na_msg_last(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size);

/* With `unreached`: the peer could not be reached, fail the receives posted for
 * it. With `parted`: the connection ended, notify the sinks. Both apply to a
 * dead address. The lock is held. */
HG_PRIVATE void na_msg_addr_ended(
    struct na_addr *addr, na_return_t ret, bool unreached, bool parted);

/* core->addr_connected. The lock is held. */
HG_PRIVATE void na_msg_addr_connected(struct na_addr *addr, na_return_t ret);

/* Instead of a number: the first free one. */
#define NA_SINK_ANY (-1)

/* Open a sink; *number_p is its number. `take` receives the messages of its RPC
 * plane, queued ones first. `dead`, if not NULL, is called when a peer dies.
 * Both run with the lock held; `arg` is borrowed. NA_EXIST, logged: the number
 * is in use, or all are. Both functions may be called by any thread, with the
 * lock held or not. */
HG_PRIVATE na_return_t na_sink_open(struct na_class *na_class, int wanted,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg, uint8_t *number_p);
HG_PRIVATE void na_sink_close(struct na_class *na_class, uint8_t number);

/* Deliver a message, all borrowed, to the sink with that number. Returns the
 * sink's result; NA_NOENTRY: there is none. */
static inline na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    const struct na_sink *sink = &core->sinks[target];

    HG_ASSERT(hg_is_inside(core->lock));
    return sink->take != NULL ? sink->take(sink->arg, source, tag, data, size)
                              : NA_NOENTRY;
}

/* The `arg` of the sink with that number; NULL: there is none. The lock is
 * held. */
HG_PRIVATE void *na_sink_arg(const struct na_class_core *core, unsigned number);

/* Check the arguments of a function that sends, and compute the size of the
 * message. Errors are logged. */
HG_PRIVATE na_return_t na_msg_check_send(const struct na_class *na_class,
    const struct na_context *context, struct na_msg *msg, const char *function);

/* Send a message if that is possible at once. NA_AGAIN: it is not; the message
 * may be queued. */
HG_PRIVATE na_return_t na_msg_try(
    struct na_context *context, const struct na_msg *msg);

/* Queue a message: `callback` runs in the internal lane, and the payload must
 * stay until then. *op_id_p is set before that. On error nothing was sent, the
 * callback does not run, and *op_id_p is NA_OP_ID_NULL. */
HG_PRIVATE na_return_t na_msg_queue(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg,
    _Atomic(na_op_id_t) *op_id_p);

/* Cancel a posted receive. NA_SUCCESS: it completes with NA_CANCELED;
 * NA_NOENTRY: it is not posted any more. */
HG_PRIVATE na_return_t na_msg_cancel(struct na_op *op);

#endif
