/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugins: the transports of this program by name and protocol, and the list of
 * protocols for programs that ask before they open a class.
 *
 * Transports registered at run time come first (the latest before the others),
 * then built-in ones. An address without a plugin name gets the first transport
 * that serves its protocol. Registering stores the pointer to the table. A
 * class has its own copy of the table, no larger than the version that both
 * sides know, with every empty slot filled, so that no caller tests a pointer.
 *
 * Locking: none. A table is added by one atomic operation and never removed, so
 * that a child of fork may register one even if threads of its parent were
 * registering.
 */
#ifndef HG_GEN_NA_PLUGINS_H
#define HG_GEN_NA_PLUGINS_H

#include "na/core.h"
#include "na/uri.h"

/* The address string of the default transport. */
HG_PRIVATE const char *na_plugins_default(void);

/* The i-th transport, in the order in which they are tried; NULL after the
 * last. */
HG_PRIVATE const struct na_plugin *na_plugins_get(unsigned i);

/* Find the transport for an address. NULL: none (logged). */
HG_PRIVATE const struct na_plugin *na_plugins_find(const struct na_uri *uri);

/* Mercury's name of a transport: "na" is its name for shared memory. */
HG_PRIVATE const char *na_plugins_mercury_name(const char *name);

/* Whether `uri` names the transport, or none. Mercury's names are accepted:
 * "na" is sm; "ucx", "bmi", "psm" and "psm2" are served by libfabric, "ofi". */
HG_PRIVATE bool na_plugins_named(
    const struct na_plugin *plugin, const struct na_uri *uri);

/* Whether `uri` is an address of the class's transport. */
HG_PRIVATE bool na_plugins_speaks(
    const struct na_plugin *plugin, const struct na_uri *uri);

/* Copy a table, filling every empty slot except those of RMA, which are either
 * all set or all NULL. */
HG_PRIVATE void na_plugins_fill(
    const struct na_plugin *plugin, struct na_plugin *ops_p);

/* Replace the RMA slots of a table by the emulation. */
HG_PRIVATE void na_plugins_emulate(struct na_plugin *ops);

#endif
