/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm: the transport between the processes of one node, through shared memory.
 *
 * sm://NAME, or sm:// for a name that the library chooses, or sm:///path for
 * processes that share a folder but no network namespace. Rooms: sm_ring (the
 * records of one direction), sm_page (memory that is shared, and what every
 * class shows), sm_arena (memory for peers to map), sm_window (theirs, mapped
 * here), sm_meet (names, sockets, credentials), sm_peer (addresses and their
 * life), sm_mem (registered memory), sm_reach (how leave to touch it, and
 * arenas, are asked for), sm_flow (what passes between two), sm_rma (how memory
 * is moved), sm_door (how it begins), and this one: the class, its wheel and
 * its sleep, and the table of slots.
 *
 * Awake, a class looks at its hint page, which costs nothing for idle peers;
 * once a millisecond it asks the sockets for news of deaths, callers and
 * bells; once a second, as long as it has peers, it looks at all rings, in
 * case a peer spoils hints. Asleep, it wakes for a bell, a socket, or that
 * second.
 *
 * fork: a child has no part in its parent's connections (see live.h). It closes
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
