/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm: the transport between the processes of one node, through shared memory.
 *
 * sm://NAME, or sm:// for the first free name PID-N, or sm:///path for
 * processes that share a folder but no network namespace. Modules: ring (the
 * records of one direction), memory (shared memory and its allocation), socket
 * (names, sockets, credentials), peer (addresses, and the start and end of
 * connections), flow (the records between two classes), rma (registered memory
 * and transfers), and this one: the class, its progress and its sleep, and the
 * table of slots.
 *
 * While awake, a class checks its hint page, which costs nothing for idle
 * peers. Once a millisecond it checks the sockets for dead peers, callers and
 * bells. Once a second, while it has peers, it checks all rings, in case a peer
 * clears hints. While asleep, it wakes up for a bell, a socket, or that second.
 *
 * fork: the core refuses to use a parent's class (see live.h). A child closes
 * the sockets before it can do anything else, so that the end of a socket still
 * means that its process died.
 *
 * Must not know: RPC.
 */
#ifndef HG_GEN_SM_SM_H
#define HG_GEN_SM_SM_H

#include "base/os.h"

#if HG_ENABLE_SM
HG_PRIVATE const struct na_plugin *na_sm_table(void);
#endif

/* Whether a process that may connect to a class of sm listens at that name, as
 * far as can be checked without connecting. Not logged. */
HG_PRIVATE bool na_sm_is_there(
    const struct na_class *na_class, const char *name);

/* Whether the name is free: no process listens there or reserves it. Not
 * logged. */
HG_PRIVATE bool na_sm_is_free(const char *name);

#endif
