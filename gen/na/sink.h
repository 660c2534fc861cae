/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sink: where the RPC plane of a context goes.
 *
 * An RPC engine gives its context two functions: one takes every message of
 * the context's RPC plane, the other hears of peers that died. They only file
 * what they are given and must not call back into this room. A context
 * without an engine has no sink; what comes for it waits in na/match.
 *
 * A sink has a number, which is its place in a table of the class. A place is
 * made when it is first needed and stays until the class ends, so that who
 * delivers finds it without a lock, and needs the sink's own alone.
 *
 * Who finds a gate held yields the processor, and sleeps on nothing: a thread
 * of a real-time class must not wait so for one of lower priority on its own
 * processor.
 *
 * Locking: a gate, one atomic word, counts who is inside a sink's functions,
 * which several threads may be at a time. It is shut before the functions are
 * taken back, and whoever does that waits until nobody is inside. It is held
 * while they are given, and who comes then waits. A thread that has the class's
 * poll lock, as most who bring a message, only looks at the gate: whoever shut
 * it then waits for that lock, too, and so for whoever looked before. The
 * class's context lock is held while functions change.
 */
#ifndef HG_GEN_NA_SINK_H
#define HG_GEN_NA_SINK_H

#include "na/core.h"

/* In place of a number: the first that is free. */
#define NA_SINK_ANY (-1)

/* Give the context, which has none, its functions, `arg` being borrowed by
 * both. Contexts with functions have numbers of their own: these are what peers
 * address, whatever other contexts the application makes. The gate is held on
 * return: until na_sink_let_in only the caller calls them. NA_NOMEM, NA_EXIST:
 * another context has the number, or all of them are taken (logged). */
HG_PRIVATE na_return_t na_sink_open(struct na_context *context, int number,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg);
HG_PRIVATE void na_sink_let_in(struct na_context *context);

/* Take the functions back, if there are any; no call of either is under way
 * on return. By one thread, which holds no lock and is not in one of them. */
HG_PRIVATE void na_sink_close(struct na_context *context);

/* Around poll with the class's poll lock held. */
HG_PRIVATE void na_sink_begin_poll(const struct na_class_core *core);
HG_PRIVATE void na_sink_end_poll(void);

/* Free the places; every sink is closed. */
HG_PRIVATE void na_sink_fini(struct na_class_core *core);

/* The number of a context that has a sink, or had one last. */
HG_PRIVATE uint8_t na_sink_number(const struct na_context *context);

/* Hand a message, all borrowed, to the sink of that number; what the sink
 * returns, or NA_NOENTRY: there is none. */
HG_PRIVATE na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size);

/* What the functions of that number are given; NULL: there are none. */
HG_PRIVATE void *na_sink_arg(struct na_class_core *core, unsigned number);

/* Whether there is a sink of that number. Who is told "no" while holding the
 * match lock, and files a message under it, knows that a sink set later takes
 * it along: see na_match_set_sink. */
HG_PRIVATE bool na_sink_is_set(struct na_class_core *core, uint8_t target);

/* Tell the engine of every context of the class that a peer died, or the
 * connection to it ended. */
HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret);

#endif
