/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lookup: from an address string to an address, and the end of a connection.
 *
 * The string is checked to be of the class's transport; the rest is the
 * transport's. A blocking lookup drives a context of its own.
 */
#ifndef HG_GEN_NA_LOOKUP_H
#define HG_GEN_NA_LOOKUP_H

#include "na/core.h"

/* Whether an address is of the protocol that a class was opened for. */
HG_PRIVATE bool na_lookup_is_for(
    const struct na_class *na_class, const char *name);

/* Start a lookup whose end goes to `lane`; `name` is copied. */
HG_PRIVATE na_return_t na_lookup_start(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id);

#endif
