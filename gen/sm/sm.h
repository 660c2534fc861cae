/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm: the transport between the processes of one node, through shared memory.
 *
 * sm://NAME, or sm:// for a name that the library chooses, or sm:///path for
 * processes that share a folder but no network namespace. Modules: ring (the
 * records of one direction), memory (what processes share, and how it is
 * allocated), meet (names, sockets, credentials), peer (addresses, and how a
 * connection begins and ends), flow (what passes between two), rma (registered
 * memory, and how it is moved), and this one: the class, its progress and its
 * sleep, and the table of slots.
 *
 * Awake, a class looks at its hint page, which costs nothing for idle peers;
 * once a millisecond it asks the sockets for news of deaths, callers and
 * bells; once a second, as long as it has peers, it looks at all rings, in
 * case a peer spoils hints. Asleep, it wakes for a bell, a socket, or that
 * second.
 *
 * fork: the core refuses to use a parent's class (see live.h). A child closes
 * the sockets, so that their end stays the news of a death, before it can do
 * anything else.
 *
 * Must not know: RPC.
 */
#ifndef HG_GEN_SM_SM_H
#define HG_GEN_SM_SM_H

#include "base/os.h"

#if HG_ENABLE_SM
HG_PRIVATE const struct na_plugin *na_sm_table(void);
#endif

/* Whether somebody listens at that name whom a class of sm may meet, as far as
 * one can tell without being met. Not logged. */
HG_PRIVATE bool na_sm_is_there(
    const struct na_class *na_class, const char *name);

/* Whether nobody listens at that name, nor keeps others from it. Not logged. */
HG_PRIVATE bool na_sm_is_free(const char *name);

#endif
