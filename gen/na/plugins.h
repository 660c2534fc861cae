/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugins: the transports this program has, by name and protocol, and the list
 * of these for programs that ask before they open anything.
 *
 * First those registered at run time (latest first), then those compiled in.
 * An address that names no plugin gets the first that speaks its protocol.
 * Registering remembers the table and copies nothing; a class has a copy of
 * its own, at most as long as both sides know of, with every empty slot
 * filled, so that no path tests a pointer.
 *
 * Locking: none. A table is added by one atomic operation and never removed, so
 * that a child of fork may register while its parent's threads did.
 */
#ifndef HG_GEN_NA_PLUGINS_H
#define HG_GEN_NA_PLUGINS_H

#include "na/core.h"
#include "na/uri.h"

/* The address string of the default transport. */
HG_PRIVATE const char *na_plugins_default(void);

/* The i-th transport there is, in the order in which they are asked; NULL past
 * the last. */
HG_PRIVATE const struct na_plugin *na_plugins_get(unsigned i);

/* NULL: nobody speaks that (logged). */
HG_PRIVATE const struct na_plugin *na_plugins_find(const struct na_uri *uri);

/* Mercury's name of a transport: that of shared memory is "na" there. */
HG_PRIVATE const char *na_plugins_mercury_name(const char *name);

/* Whether `uri` names the transport, or none. Mercury's names are understood:
 * "na" is sm; "ucx", "bmi", "psm" and "psm2", which are not here, are served by
 * libfabric, "ofi". */
HG_PRIVATE bool na_plugins_named(
    const struct na_plugin *plugin, const struct na_uri *uri);

/* Whether an address string of `uri` is of the class's transport. */
HG_PRIVATE bool na_plugins_speaks(
    const struct na_plugin *plugin, const struct na_uri *uri);

/* Copy a table, filling every slot it leaves empty but those of RMA, which
 * stay NULL together when put is. */
HG_PRIVATE void na_plugins_fill(
    const struct na_plugin *plugin, struct na_plugin *ops_p);

/* Have a table's RMA emulated over its frames. */
HG_PRIVATE void na_plugins_emulate(struct na_plugin *ops);

#endif
