/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux: chooses the transport of a class that reaches a peer.
 *
 *     NA_Initialize("zmq+tcp://0.0.0.0:5000;sm://", NA_TRUE)
 *
 * A class of several transports is a chain of parts (na/core.h). A lookup
 * chooses the part once, and the address then belongs to that part: sm if the
 * peer is on this node and listens on sm, otherwise the first of the peer's
 * transports that the class has. If that one fails, no other is tried.
 *
 * A class finds out without messages whether a peer is on this node. A part
 * sm:// without a name listens with a name derived from the address of the
 * first part. The abstract namespace of Unix sockets belongs to the network
 * namespace, and so does that address. A path means another file on another
 * node, so the inode of the socket is used instead. An address inside one
 * process has no derived name. The user is part of the name, too.
 *
 * Memory is registered with each part and described to peers by all of them
 * (rma.c). The part that the address belongs to moves the data.
 *
 * Counters: "mux_sent_sm" counts the bytes of messages that sm sent,
 * "mux_moved_sm" the bytes of puts and gets that it started; "mux_sent_zmq+tcp"
 * and so on.
 *
 * Locking: none.
 */
#ifndef HG_GEN_MUX_MUX_H
#define HG_GEN_MUX_MUX_H

#include "na/core.h"

/* Whether an address of a list is sm without a name. */
HG_PRIVATE bool na_mux_is_auto_sm(const char *string);

/* The address string for such an sm: with the name derived from the address of
 * a listener, unless that is NULL or the name is in use. */
HG_PRIVATE void na_mux_auto_sm(
    const char *address, char string[NA_MAX_ADDR_LEN]);

/* The sm address of a class that listens at an address of another transport.
 * False: none can be derived, since several classes on this node may have that
 * address. */
HG_PRIVATE bool na_mux_derive(const char *address, char name[NA_MAX_ADDR_LEN]);

/* Choose the part that reaches a peer with the addresses in `list`; `name` gets
 * the name that it looks up. NULL: the class has no transport for any of
 * them. */
HG_PRIVATE struct na_class *na_mux_choose(const struct na_class *na_class,
    const char *list, char name[NA_MAX_ADDR_LEN]);

#endif
