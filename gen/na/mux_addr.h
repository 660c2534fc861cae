/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux_addr: the addresses of a class of several transports.
 *
 * Each stands for one of a part's, of which it has a reference. A part's may
 * have several that stand for it: one for each name that it was looked up by,
 * and the one that its messages come from. That one the class keeps, as the
 * transport keeps the connection, until the peer dies.
 *
 * Locking: the class's mutex guards the list, and which stands for a part's
 * when messages come.
 */
#ifndef HG_GEN_NA_MUX_ADDR_H
#define HG_GEN_NA_MUX_ADDR_H

#include "na/mux_part.h"

/* What stands for a part's address under that name; without one, as messages
 * come from it. A new reference; NULL: no memory (logged). */
HG_PRIVATE struct na_addr *na_mux_addr_above(
    struct na_mux_part *part, struct na_addr *inner, const char *name);

/* The living address that was looked up under that name, with a reference, or
 * NULL. */
HG_PRIVATE struct na_addr *na_mux_addr_named(
    struct na_mux_class *mux, const char *name);

/* Slots of the same names. */
HG_PRIVATE void na_mux_addr_release(struct na_addr *base);
HG_PRIVATE na_bool_t na_mux_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2);

/* core->addr_dead, addr_parted and addr_unreached of a part. */
HG_PRIVATE void na_mux_addr_dead(struct na_addr *inner, na_return_t ret);
HG_PRIVATE void na_mux_addr_parted(struct na_addr *inner);
HG_PRIVATE void na_mux_addr_unreached(struct na_addr *inner, na_return_t ret);

/* The class is closing: let go of those that it keeps, and part the others,
 * which outlive it, from what they stand for. */
HG_PRIVATE void na_mux_addr_part_all(struct na_mux_class *mux);

#endif
