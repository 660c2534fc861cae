/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_reach: what is agreed on the pair's socket before an initiator touches a
 * peer's memory: a permit to do so, and how its arenas come to be mapped here.
 *
 *     initiator                          owner
 *       ASK: arena id ------------------->
 *       <------------- GRANT: arena id, + its descriptor
 *     or
 *       <------------- GRANT: arena id, without: no, or not now
 *
 * A transfer takes the other ways until the arena is there, and for good if it
 * does not come; with HG_SM_RMA=map it waits for the answer. An arena is
 * granted once in a connection, so there are at most 64 such packets each way
 * and floods of ASK come to nothing; what makes no sense is counted and
 * ignored:
 *
 *     sm_arena_granted   arenas that were given to peers
 *     sm_arena_refused   ASK for what there is not, or was granted before
 *     sm_arena_stray     GRANT that nobody asked for, or of no arena
 *     sm_rma_permits     peers that may touch memory
 *
 * Id 0 is no arena but the permit, always granted and without a descriptor.
 * From then on, and only then, the owner heeds the peer's hazard words: so who
 * withdraws memory looks at those few of its peers who move any. For the permit
 * transfers wait.
 *
 * Linux may deny all but its ancestors to read a process's memory (Yama, where
 * ptrace_scope is 1), unless the process allows it. With HG_SM_RMA=vm the owner
 * allows it to every process of its user before the first permit
 * (PR_SET_PTRACER), and logs that at level info. Otherwise the copies of peers
 * are denied there, and frames carry the data.
 *
 * The descriptor is closed once it is mapped, so a peer never has more than
 * two. A mapped arena is open to the peer as a whole.
 *
 * Locking: the lock of the class guards the table of windows, the marks of
 * grants and permits; packets are the polling thread's.
 */
#ifndef HG_GEN_NA_SM_REACH_H
#define HG_GEN_NA_SM_REACH_H

#include "na/sm_peer.h"

#if HG_ENABLE_SM

enum na_sm_reach {
    NA_SM_REACH_HERE,
    NA_SM_REACH_ASKED, /* perhaps later */
    NA_SM_REACH_NEVER
};

/* Where bytes of a peer's arena are in this process. The lock is held,
 * and the place is good as long as it is, or as na_sm_peer_part is kept from
 * running otherwise. Asks the peer at the first use of an arena. */
HG_PRIVATE enum na_sm_reach na_sm_reach(struct na_sm_addr *addr, uint32_t id,
    uint64_t offset, uint64_t size, bool write, unsigned char **at_p);

/* Whether an arena was asked for, and the answer is still to come: then
 * na_sm_peer_resume is called after it. */
HG_PRIVATE bool na_sm_reach_awaits(struct na_sm_addr *addr, uint32_t id);

/* Ask a peer for its permit, unless that was done. A failure is found out by
 * asking again. */
HG_PRIVATE void na_sm_reach_permit(struct na_sm_addr *addr);

/* A packet came from a peer after the connection began; its descriptors stay
 * the caller's. */
HG_PRIVATE void na_sm_reach_hear(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet);

#endif
#endif
