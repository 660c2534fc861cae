/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_arena: memory that the library allocates for the application's bulk data,
 * such that peers can map it and copy it directly.
 *
 * An arena is a memfd with an allocator of pages. A class makes them as they
 * are needed, from 4 MiB up, each twice as large as the one before it, and
 * keeps them until it is closed; a page takes memory when it is first touched.
 * There are two sorts: of READ_ONLY memory, which peers can only map read-only
 * (see sm_page.h), and of the rest. A peer that maps an arena can reach all
 * of it, also what lies there for others: see na.h.
 *
 *     arena   |block|block|      free      |block|      never used      |
 *     used     11111 11111 0000000000000000 11111 0000000000000000000000
 *     dirty    11111 11111 1111111100000000 11111 0000000000000000000000
 *                          ^ left as it was ^ a hole was punched
 *
 * What is known about an arena lies in private memory; nothing that is read
 * from the shared pages is believed. A block consists of whole pages. It is
 * zeroed where pages are dirty, when it is handed out. From 1 MiB up a block
 * that comes back gives its memory to the system by a hole, if the seals allow
 * that: of READ_ONLY memory they do not, which stays as large as it ever was.
 * (A peer that maps an arena writable may spoil zeros, as everything there.)
 *
 * A block may outlive its class; the set of arenas goes with the last of both.
 * In the child of a fork blocks are the parent's, shared: nothing is given
 * back there.
 *
 * Locking: one mutex a set, with no lock inside it. The dirty bits of a page
 * belong to whoever has the page. Must not know: peers, transfers.
 */
#ifndef HG_GEN_NA_SM_ARENA_H
#define HG_GEN_NA_SM_ARENA_H

#include "na/sm_page.h"

#if HG_ENABLE_SM

#define NA_SM_ARENAS 64u /* of a class; their ids are 1 to this */
#define NA_SM_ARENA_PAGE ((uint64_t) 4096)
#define NA_SM_ARENA_UNIT ((uint64_t) 4 << 20)  /* sizes are multiples */
#define NA_SM_ARENA_LARGE ((uint64_t) 1 << 30) /* the doubling ends */
#define NA_SM_ARENA_MAX ((uint64_t) 64 << 30)
#define NA_SM_ARENA_HOLE ((uint64_t) 1 << 20) /* blocks that leave one */

struct na_sm_arenas;

/* An empty set. NULL: out of memory (logged). */
HG_PRIVATE struct na_sm_arenas *na_sm_arenas_create(void);

/* The class is closing: descriptors are closed, and the memory goes once no
 * block is left. NULL is allowed. */
HG_PRIVATE void na_sm_arenas_close(struct na_sm_arenas *arenas);

/* Around fork: so that the child finds the set whole, and in the child, where
 * descriptors are closed. */
HG_PRIVATE void na_sm_arenas_lock(struct na_sm_arenas *arenas);
HG_PRIVATE void na_sm_arenas_unlock(struct na_sm_arenas *arenas);
HG_PRIVATE void na_sm_arenas_forked(struct na_sm_arenas *arenas);

/* The slot mem_alloc: block->size bytes, zeroed, at a page's beginning.
 * NA_NOMEM, not logged: the system gives none, or there are enough arenas. */
HG_PRIVATE na_return_t na_sm_arena_alloc(struct na_sm_arenas *arenas,
    unsigned long flags, struct na_mem_block *block);

/* The arena that memory lies in, and where: its id, or 0 if the segments are
 * not one run in one arena. */
HG_PRIVATE uint32_t na_sm_arena_find(struct na_sm_arenas *arenas,
    const struct na_segment *segments, na_size_t count, uint64_t *offset_p);

/* The descriptor of an arena, to be sent to a peer; it stays the set's. -1:
 * there is no such arena. */
HG_PRIVATE int na_sm_arena_fd(struct na_sm_arenas *arenas, uint32_t id);

#endif
#endif
