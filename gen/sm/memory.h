/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page: shared memory of peers: creation, sealing, checks and mapping; and the
 * content of the two pages that each class has.
 *
 * Shared memory is a memfd of normal pages, sealed against shrinking and
 * growing, so that no process can make accesses to a mapping fault. The
 * receiver of a memfd checks its pages, seals and size before it maps it. A
 * descriptor is closed when it was mapped or sent; the kernel frees the memory
 * when the last process that maps it ends.
 *
 * Only the owner can write the public page; peers map it read-only
 * (F_SEAL_FUTURE_WRITE; on kernels without it a read-only descriptor, which
 * only the same user can reopen for writing).
 *
 *     asleep     0: the owner is awake, else the number of this sleep. A peer
 *                that has work for the owner rings its bell once for each
 *                number. A sleeper that has consumed a bell changes the number.
 *     incarnation_at
 *                the address of the owner's incarnation, in its own memory
 *     slots      the registered memory that was described to peers; see rma.h
 *
 * A slot contains what a peer needs to copy to or from registered memory by
 * itself. `mark`, 0 while the slot is free, identifies the registration. It is
 * derived from the key of the registration but does not reveal it: every peer
 * can read the page, and the key gives access to the memory. The other fields
 * are consistent only with their mark, which no other registration ever has.
 *
 *     0      8       16     24             32      36      37      38      39
 *     +------+-------+------+--------------+-------+-------+-------+-------+
 *     | mark | place | size | arena offset | count | flags | arena | width |
 *     +------+-------+------+--------------+-------+-------+-------+-------+
 *
 * `place`: the address of the only segment, or, if `count` is not 1, of the
 * array of segments; `width`: the size of a pointer; `arena`: its number,
 * NA_SM_ARENAS: none.
 *
 * All peers can write the hint page: it has one bit for each peer, which means
 * "this peer has sent something". It is only a hint. A peer that sets or clears
 * wrong bits causes a delay until the owner next checks all rings, but never a
 * lost message.
 *
 * Locking: none; words are atomic.
 */
/*
 * arena: memory that the library allocates for bulk data of the application, so
 * that peers can map it and copy it themselves.
 *
 * A class has two arenas: one of READ_ONLY memory, which peers can only map
 * read-only, and one of the rest. Each is a sparse memfd of NA_SM_ARENA_SIZE
 * bytes, which peers map when they connect. A page uses memory when it is first
 * accessed. Each side makes its mapping accessible only up to the used part:
 * debuggers and leak checkers would access all of it, and core dumps would
 * contain all of it. If the system refuses an arena, or the address space is
 * limited (RLIMIT_AS), bulk memory is ordinary memory. A peer that maps an
 * arena can access all of it, including memory for other peers: see na.h.
 *
 * A block consists of whole pages. The map of used pages is in private memory;
 * nothing that is read from shared pages is trusted. Blocks are zeroed when
 * they are allocated. Freeing a block of 1 MiB or more returns its memory to
 * the system, if the seals permit that: for READ_ONLY memory they do not.
 *
 * A block may outlive its class; the arenas are freed with the last of both. In
 * the child of a fork, blocks are shared with the parent, and nothing is freed.
 *
 * Locking: a mutex for the arenas of a class; no lock is taken inside it. Must
 * not know: peers, transfers.
 */
#ifndef HG_GEN_SM_MEMORY_H
#define HG_GEN_SM_MEMORY_H

#include "sm/ring.h"

#if HG_ENABLE_SM

/* ==== page ==== */

#define NA_SM_PEERS 8192u  /* of a class, at a time */
#define NA_SM_SLOTS 32766u /* registrations of a class: 2 MiB, when used */
/* A mark: of withdrawn memory that is still being copied. */
#define NA_SM_SLOT_WITHDRAWN 1u

struct na_sm_slot {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t mark;
    _Atomic uint64_t place;
    _Atomic uint64_t size;
    _Atomic uint64_t arena_offset;
    _Atomic uint32_t count;
    _Atomic uint8_t flags;
    _Atomic uint8_t arena;
    _Atomic uint8_t width;
};

/* A consistent copy of a slot. */
struct na_sm_slot_info {
    uint64_t place;
    uint64_t size;
    uint64_t arena_offset;
    uint32_t count;
    uint8_t flags;
    uint8_t arena;
    uint8_t width;
};

struct na_sm_public {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t asleep;
    _Atomic uint64_t incarnation_at;
    struct na_sm_slot slots[NA_SM_SLOTS];
};

struct na_sm_hints {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t bits[NA_SM_PEERS / 64];
};

#define NA_SM_PUBLIC_SIZE ((sizeof(struct na_sm_public) + 4095) & ~4095ul)
#define NA_SM_HINTS_SIZE ((sizeof(struct na_sm_hints) + 4095) & ~4095ul)

/* Like na_sm_page_create, but a failure sets errno and is not logged. */
HG_PRIVATE bool na_sm_page_make(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p);

/* Create shared memory of `size` bytes, mapped, and a descriptor of it for
 * peers, which the caller closes. With `read_only` peers cannot write it.
 * NA_AGAIN: out of descriptors; NA_NOMEM, NA_IO_ERROR. All are logged. */
HG_PRIVATE na_return_t na_sm_page_create(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p);

/* Whether accesses to a descriptor's memory cannot fault: it is a memfd of
 * normal pages that can neither shrink nor grow. With huge pages, accessing a
 * hole raises SIGBUS if the system has no huge page left. */
HG_PRIVATE bool na_sm_page_is_safe(int fd);

/* Map a peer's memory; the caller still owns the descriptor. NA_PROTOCOL_ERROR:
 * it has another size, is not safe, or cannot be mapped with that protection;
 * NA_NOMEM, logged. */
HG_PRIVATE na_return_t na_sm_page_map(
    int fd, size_t size, int protection, void **memory_p);

/* NULL is allowed. */
HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size);

/* ---- Slots ---- */

/* The mark of a key, unique among the registrations of one incarnation; above
 * 1. */
HG_PRIVATE uint64_t na_sm_slot_mark(uint64_t key, uint64_t incarnation);

/* Fill a free slot. A slot is freed by setting its mark to 0, when no peer that
 * read it is still using it. */
HG_PRIVATE void na_sm_slot_fill(
    struct na_sm_slot *slot, const struct na_sm_slot_info *info, uint64_t mark);

/* Read a slot. False: it has another mark. */
static inline bool na_sm_slot_read(const struct na_sm_slot *slot, uint64_t mark,
    struct na_sm_slot_info *info_p)
{
    struct na_sm_slot_info info;

    if (atomic_load(&slot->mark) != mark)
        return false;
    info.place = atomic_load_explicit(&slot->place, memory_order_acquire);
    info.size = atomic_load_explicit(&slot->size, memory_order_acquire);
    info.arena_offset =
        atomic_load_explicit(&slot->arena_offset, memory_order_acquire);
    info.count = atomic_load_explicit(&slot->count, memory_order_acquire);
    info.flags = atomic_load_explicit(&slot->flags, memory_order_acquire);
    info.arena = atomic_load_explicit(&slot->arena, memory_order_acquire);
    info.width = atomic_load_explicit(&slot->width, memory_order_acquire);
    /* If any of these belonged to another registration, the mark would differ,
     * too. */
    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != mark)
        return false;
    *info_p = info;
    return true;
}

/* ---- Hints ---- */

/* Set the hint of the peer with the bit `slot`. The data was published with a
 * sequentially consistent operation before. */
static inline void na_sm_hint_set(struct na_sm_hints *hints, uint32_t slot)
{
    _Atomic uint64_t *word = &hints->bits[slot / 64];
    uint64_t bit = UINT64_C(1) << (slot % 64);

    if ((atomic_load(word) & bit) == 0)
        atomic_fetch_or(word, bit);
}

/* The owner found nothing in the ring for a while, and checks it once more
 * after this: either it then finds new data, or the peer finds the bit
 * cleared. */
static inline void na_sm_hint_clear(struct na_sm_hints *hints, uint32_t slot)
{
    atomic_fetch_and(&hints->bits[slot / 64], ~(UINT64_C(1) << (slot % 64)));
}

/* ==== arena ==== */

enum { NA_SM_ARENA_READ_WRITE, NA_SM_ARENA_READ_ONLY, NA_SM_ARENAS };

#define NA_SM_ARENA_PAGE ((size_t) 4096)
#define NA_SM_ARENA_SIZE ((size_t) 1 << (sizeof(void *) > 4 ? 32 : 26))
/* Step in which memory becomes accessible. */
#define NA_SM_ARENA_STEP ((size_t) 4 << 20)
/* Blocks of this size are returned to the system. */
#define NA_SM_ARENA_HOLE ((size_t) 1 << 20)

struct na_sm_arenas;

/* Arenas for a class. NULL: out of memory (logged). */
HG_PRIVATE struct na_sm_arenas *na_sm_arenas_create(void);

/* The class is closing: descriptors are closed, and the memory is freed with
 * the last block. NULL is allowed. */
HG_PRIVATE void na_sm_arenas_close(struct na_sm_arenas *arenas);

/* The slot mem_alloc: block->size zeroed bytes, page-aligned. NA_NOMEM, not
 * logged: there is no arena, or it is full. */
HG_PRIVATE na_return_t na_sm_arena_alloc(struct na_sm_arenas *arenas,
    unsigned long flags, struct na_mem_block *block);

/* Find the arena of memory, and the offset in it; returns its number, or
 * NA_SM_ARENAS if the segments are not contiguous in one arena. */
HG_PRIVATE unsigned na_sm_arena_find(struct na_sm_arenas *arenas,
    const struct na_segment *segments, na_size_t count, uint64_t *offset_p);

/* The descriptor of an arena, to send to a peer; the arenas own it. -1: there
 * is no such arena. */
HG_PRIVATE int na_sm_arena_fd(
    const struct na_sm_arenas *arenas, unsigned number);

/* Make a mapping of an arena accessible up to `end`; *open_p: how far it is
 * accessible. */
HG_PRIVATE bool na_sm_arena_open(
    unsigned char *base, size_t *open_p, size_t end, int protection);

/* Map `size` bytes at an offset of a mapped arena once more, with their own
 * protection, as a block. That mapping does not depend on the first one.
 * NA_OPNOTSUPPORT (not logged): the system cannot do that (valgrind); NA_NOMEM,
 * logged. */
HG_PRIVATE na_return_t na_sm_arena_map(unsigned char *base, uint64_t offset,
    size_t size, int protection, struct na_mem_block *block);

/* Whether this process may map arenas: not if its address space is limited. */
HG_PRIVATE bool na_sm_arena_is_mappable(void);

#endif
#endif
