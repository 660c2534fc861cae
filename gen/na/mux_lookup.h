/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux_lookup: which part reaches a peer.
 *
 * A lookup takes turns: by sm, where the name that the address has there is one
 * that somebody listens at on this node whom we may meet; then by the part of
 * each address of the list, in order. A turn that fails is followed by the
 * next, and the last one's code is the lookup's.
 *
 * A lookup belongs to whoever begins its turn, until that has begun; then, to
 * whoever ends it. Who ends one that begins, or cancels then, leaves word of
 * it. So of all that may happen to a turn at the same time nothing is done
 * twice, and after a lookup was canceled no turn begins.
 *
 * Locking: the class's mutex guards the word that is left.
 */
#ifndef HG_GEN_NA_MUX_LOOKUP_H
#define HG_GEN_NA_MUX_LOOKUP_H

#include "na/mux_part.h"

/* The name under which sm is to be had at a listener of another transport, as
 * the address of that tells. False: it tells nothing, as others on this node
 * may have the same (mux.h). */
HG_PRIVATE bool na_mux_lookup_silent_name(
    const char *string, char name[NA_MAX_ADDR_LEN]);

/* Take a lookup back, which ends with NA_CANCELED then, or what its turn has
 * found. False: it is over, or no lookup. */
HG_PRIVATE bool na_mux_lookup_cancel(struct na_op *op, uint64_t op_id);

/* The slot addr_resolve: the address is of the first transport that may reach
 * the peer, tried in the order in which a lookup tries to connect. */
HG_PRIVATE na_return_t na_mux_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p);

/* The slot addr_lookup; and a turn ended, of a part's operation. */
HG_PRIVATE na_return_t na_mux_lookup_start(struct na_op *op);
HG_PRIVATE void na_mux_lookup_ended(
    struct na_mux_part *part, struct na_op *inner, na_return_t ret);

#endif
