/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux: which transport of a class reaches a peer.
 *
 *     NA_Initialize("zmq+tcp://0.0.0.0:5000;sm://", NA_TRUE)
 *
 * A class of several transports is a chain of parts (na/core.h). A lookup
 * chooses the part, and from then on the address is that part's: sm where the
 * peer is on this node and may be met, else the first of the peer's transports
 * that the class has. A lookup that connects tries the next one if that fails.
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

/* The n-th attempt to reach a peer whose addresses are `list`: first each
 * address by sm, then each by its own transport. *part_p is the part that
 * makes it and `name` what it looks up; NULL: the attempt is skipped. False:
 * there are no more attempts. */
HG_PRIVATE bool na_mux_attempt(const struct na_class *na_class,
    const char *list, unsigned n, struct na_class **part_p,
    char name[NA_MAX_ADDR_LEN]);

#endif
