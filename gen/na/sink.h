/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sink: where the RPC messages of a context go.
 *
 * An RPC engine gives its context two functions: one takes every message of
 * the context's RPC plane, the other hears of peers that died. They only file
 * what they are given. A context without an engine has no sink; what comes for
 * it waits in na/match.
 *
 * A sink has a number, which is its place in a table of the class. Peers
 * address contexts by these numbers.
 *
 * Locking: the class's lock guards the table, and is held while the functions
 * run. So no function runs any more once na_sink_close has returned.
 */
#ifndef HG_GEN_NA_SINK_H
#define HG_GEN_NA_SINK_H

#include "na/core.h"

/* In place of a number: the first that is free. */
#define NA_SINK_ANY (-1)

/* Give the context, which has none, its functions; both borrow `arg`. NA_EXIST:
 * another context has the number, or all are taken (logged). The lock is
 * held. */
HG_PRIVATE na_return_t na_sink_open(struct na_context *context, int number,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg);

/* Take the functions back, if there are any. */
HG_PRIVATE void na_sink_close(struct na_context *context);

/* The number of a context that has a sink, or had one last. */
HG_PRIVATE uint8_t na_sink_number(const struct na_context *context);

/* Hand a message, all borrowed, to the sink of that number; what the sink
 * returns, or NA_NOENTRY: there is none. The lock is held. */
HG_PRIVATE na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size);

/* What the functions of that number are given; NULL: there are none. */
HG_PRIVATE void *na_sink_arg(const struct na_class_core *core, unsigned number);

/* Tell the engine of every context of the class that a peer died, or the
 * connection to it ended. */
HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret);

#endif
