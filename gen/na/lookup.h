/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lookup: from an address string to an address, and the end of a connection.
 *
 * The string is checked to be of the class's transport; the rest is the
 * transport's. A lookup connects; it may wait, in a context of its own. A name
 * that is resolved is connected by the first use of its address. In a class of
 * several transports mux/mux.h chooses the part that does either.
 */
#ifndef HG_GEN_NA_LOOKUP_H
#define HG_GEN_NA_LOOKUP_H

#include "na/core.h"

/* Start a lookup whose end goes to `lane`; `name` is copied. */
HG_PRIVATE na_return_t na_lookup_start(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id);

/* The address that a name stands for, with a reference, without connecting.
 * With `from_peer` the name came from a peer: see addr_resolve in plugin.h;
 * NA_NODEV if it is no address of the class's transport. Failures are counted
 * as "bad_names". */
HG_PRIVATE na_return_t na_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p);

#endif
