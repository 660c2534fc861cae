/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_reach: how a peer's arenas come to be mapped here, on the pair's socket.
 *
 *     initiator                          owner
 *       ASK: arena id ------------------->
 *       <------------- GRANT: arena id, + its descriptor
 *     or
 *       <------------- GRANT: arena id, without: no, or not now
 *
 * Nobody waits for an answer: a transfer takes the other ways until the arena
 * is there, and for good if it does not come. An arena is granted once in a
 * connection, so there are at most 64 such packets each way and floods of ASK
 * come to nothing; what makes no sense is counted and ignored:
 *
 *     sm_arena_granted   arenas that were given to peers
 *     sm_arena_refused   ASK for what there is not, or was granted before
 *     sm_arena_stray     GRANT that nobody asked for, or of no arena
 *
 * The descriptor is closed once it is mapped, so a peer never has more than
 * two. A mapped arena is open to the peer as a whole.
 *
 * Locking: the table of windows and the marks of grants are guarded by the
 * address lock; packets are the polling thread's.
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

/* Where bytes of a peer's arena are in this process. The address lock is held,
 * and the place is good as long as it is, or as na_sm_peer_part is kept from
 * running otherwise. Asks the peer at the first use of an arena. */
HG_PRIVATE enum na_sm_reach na_sm_reach(struct na_sm_addr *addr, uint32_t id,
    uint64_t offset, uint64_t size, bool write, unsigned char **at_p);

/* A packet came from a peer after the connection began; its descriptors stay
 * the caller's. */
HG_PRIVATE void na_sm_reach_hear(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet);

#endif
#endif
