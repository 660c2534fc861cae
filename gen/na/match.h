/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match: who gets what arrived.
 *
 * A message comes with a plane, a tag and a source; a receive is posted for
 * them; whichever comes first waits here for the other.
 *
 *     plane        a message goes to                  waits in
 *     expected     the receive of its source and tag  a hash table by tag
 *     unexpected   the first receive posted, in the   a list; receives in a
 *                  target context before others       list of their context
 *     RPC          the sink of the target context     a list
 *
 * Equal candidates match in the order in which they came. Waiting messages
 * are copies, which count for their size and what it costs to keep them. A
 * peer may fill the class's limit only as far as that leaves as much for
 * others (see hg/share for the rule): one alone gets all of it, all together
 * never twice as much, and who floods has only his own messages refused.
 * Whoever offered what is refused decides between holding the sender back and
 * dropping. A message outlives its sender: it can still be received, but is
 * the first to go when room is needed. Each address lists its messages, so
 * that to find those of the dead costs nothing while nobody has died.
 *
 * Locking: the class's lock guards all of it. Data is copied under it
 * (messages are small).
 */
#ifndef HG_GEN_NA_MATCH_H
#define HG_GEN_NA_MATCH_H

#include "na/core.h"

/* A message; everything it points to is borrowed. */
struct na_match_item {
    struct na_addr *source;
    const void *data;
    na_size_t size;
    na_tag_t tag;
    uint8_t plane;
    uint8_t target; /* context id */
};

HG_PRIVATE void na_match_init(struct na_match *match);

/* Drop every message that waits, with its reference. No receive is posted:
 * the contexts are gone. */
HG_PRIVATE void na_match_drop(struct na_match *match);

/* Drop, and release the rest. */
HG_PRIVATE void na_match_fini(struct na_match *match);

/* Give a message to a receive that is posted, which ends, or keep a copy.
 * NA_AGAIN: its sender has its share of the room. NA_NOMEM: not logged. */
HG_PRIVATE na_return_t na_match_offer(
    struct na_class_core *core, const struct na_match_item *item);

/* Drop the messages that wait and whose senders are dead; whether there were
 * any. */
HG_PRIVATE bool na_match_purge(struct na_class_core *core);

/* Serve a receive, which is complete but for its list, from a message that
 * waits, else post it. Of the expected plane: NA_NOMEM, or how its source
 * died, and it is not posted. */
HG_PRIVATE na_return_t na_match_post(struct na_op_core *op);

/* Take a posted receive of the context back: NA_SUCCESS, and it completes with
 * NA_CANCELED; NA_NOENTRY: it is not posted under this identifier any more. */
HG_PRIVATE na_return_t na_match_cancel(
    struct na_context *context, struct na_op_core *op, uint64_t id);

/* Fail the receives posted for this source with `ret`. */
HG_PRIVATE void na_match_addr_dead(struct na_addr *addr, na_return_t ret);

/* Give the context a sink, as na_sink_open, and hand it what waited for it
 * before whatever else comes. Codes as there. */
HG_PRIVATE na_return_t na_match_set_sink(struct na_context *context, int number,
    na_rpc_cb_t sink, na_rpc_dead_cb_t dead, void *arg);

#endif
