/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux: which transport of a class reaches a peer.
 *
 *     NA_Initialize("zmq+tcp://0.0.0.0:5000;sm://", NA_TRUE)
 *
 * A class of several transports is a chain of parts (na/core.h). A lookup
 * chooses the part, once, and from then on the address is that part's: sm where
 * the peer is on this node and listens there, else the first of the peer's
 * transports that the class has. No other is tried if that one fails.
 *
 * Nothing has to be announced to find out whether a peer is on this node. A
 * part sm:// without a name listens under a name derived from the address of
 * the first part. The abstract namespace of Unix sockets ends with the network
 * namespace, in which that address is valid as well. A path means another file
 * on another node, so the inode of the socket stands for it. An address inside
 * one process has no derived name. The user is part of the name, too.
 *
 * Memory is registered with each part and described to peers by all of them
 * (rma.c). The part of the address moves the data.
 *
 * Counters: "mux_sent_sm" has the bytes of messages that sm sent, and
 * "mux_moved_sm" the bytes of puts and gets that it started;
 * "mux_sent_zmq+tcp", ...
 *
 * Locking: none.
 */
#ifndef HG_GEN_MUX_MUX_H
#define HG_GEN_MUX_MUX_H

#include "na/core.h"

/* Whether a string of a list is sm, with its name left to us. */
HG_PRIVATE bool na_mux_is_auto_sm(const char *string);

/* The string to open such an sm by: under the name that follows from the
 * address of a listener, unless that is NULL, or the name is taken. */
HG_PRIVATE void na_mux_auto_sm(
    const char *address, char string[NA_MAX_ADDR_LEN]);

/* The sm address of who listens at an address of another transport. False:
 * nothing follows from that, as others on this node may have the same. */
HG_PRIVATE bool na_mux_derive(const char *address, char name[NA_MAX_ADDR_LEN]);

/* The part that is to reach a peer whose addresses are `list`, and in `name`
 * what it looks up. NULL: none of them is for this class. */
HG_PRIVATE struct na_class *na_mux_choose(const struct na_class *na_class,
    const char *list, char name[NA_MAX_ADDR_LEN]);

#endif
