/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux: one class of several transports.
 *
 *     NA_Initialize("zmq+tcp://0.0.0.0:5000;sm://", NA_TRUE)
 *
 * Each transport of the list is a class of its own, a part, inside this one;
 * contexts, addresses, operations and memory handles of this one each stand
 * for one of a part's, or for one of each. So what is above, the RPC engine
 * first of all, sees one class like any other. A part is what it is outside,
 * too; only the table of functions that it calls the core by is ours: what
 * arrives, ends or dies in a part is handed up from there.
 *
 *     above     class     address        context    memory handle
 *                 |          |              |             |
 *     parts     1 .. 4    one of them    one each     one each
 *
 * An address is of one part, chosen when it is looked up: sm where the peer is
 * on this node and may be met, else the first one of the peer's transports that
 * this class has. A lookup that connects tries the next one when the
 * first does not answer within lookup_ms. An address that is
 * connected by its first use is of the first part that may reach the peer.
 *
 * Which peers are on this node shows itself: a part sm:// whose name is left to
 * the library listens under a name that follows from the class's first other
 * address, and the abstract namespace of Unix sockets ends with the node (with
 * the network namespace, in which that other address is valid as well). An
 * address that is a file's name is valid elsewhere, so the file's number stands
 * for it; one inside a process is followed by no name, and sm is not to be had
 * there. So nothing about it has to be told: the address string is that of the
 * other transports, and a class that has no sm reads it like any other. The
 * name follows from the user, too.
 *
 * Memory is registered with each part, and described to peers by all of them
 * (mux_wire.h); the part of the address that a transfer is with moves it. What
 * a layer above shows to one peer alone it registers with that one's part: so
 * that it can be withdrawn without waiting for any.
 *
 * What each part carried is counted: "mux_sent_sm" in bytes of messages, and
 * "mux_moved_sm" in bytes put and got; "mux_sent_zmq+tcp", ...
 *
 * Locking: a mutex guards the list of addresses and what handles lack yet. It
 * is taken before locks of parts, and not held while their slots are called,
 * but those that describe memory.
 *
 * Must not know: RPC.
 */
#ifndef HG_GEN_NA_MUX_H
#define HG_GEN_NA_MUX_H

#include "na/core.h"

/* The transport; it speaks no protocol by itself. */
HG_PRIVATE const struct na_plugin *na_mux_table(void);

/* Whether a class is one of several transports. */
HG_PRIVATE bool na_mux_is(const struct na_class *na_class);

/* What an address stands for: a part's, or of a class of one transport itself.
 * Borrowed. What nobody but that peer is told of is registered with its class,
 * and no other: there it is withdrawn (na_emul_withdraw). */
HG_PRIVATE struct na_addr *na_mux_inner(struct na_addr *addr);

/* na_emul_due of any class: the soonest. */
HG_PRIVATE uint64_t na_mux_due(const struct na_class *na_class);

/* na_emul_end_local of any class. */
HG_PRIVATE void na_mux_end_local(const struct na_mem_handle *mem);

#endif
