/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lookup: converts address strings to addresses, and ends connections.
 *
 * The string is checked to belong to the class's transport; the transport
 * parses the rest. A lookup connects; it may wait, in its own context. A
 * resolved name is connected when its address is first used. In a class of
 * several transports mux/mux.h chooses the part.
 */
#ifndef HG_GEN_NA_LOOKUP_H
#define HG_GEN_NA_LOOKUP_H

#include "na/core.h"

/* Start a lookup that completes in `lane`; `name` is copied. */
HG_PRIVATE na_return_t na_lookup_start(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id);

/* Get the address of a name, with a reference, without connecting. `from_peer`:
 * a peer sent the name, see addr_resolve in plugin.h; then NA_NODEV: it is not
 * an address of the class's transport. Failures are counted as "bad_names". */
HG_PRIVATE na_return_t na_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p);

#endif
