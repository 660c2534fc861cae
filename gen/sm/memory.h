/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page: the memory that peers share: made, sealed, checked, mapped; and
 * what stands in the two pages that every class has.
 *
 * Shared memory is a memfd of normal pages, sealed against shrinking and
 * growing, so that nobody can make a mapping of it fault. The receiver of one
 * checks its pages, seals and size before it maps it. A descriptor is closed
 * once it is mapped or sent: when the last process that maps it ends, the
 * kernel takes it back.
 *
 * The public page is the owner's to write; peers map it read-only, and cannot
 * do otherwise (F_SEAL_FUTURE_WRITE; on kernels without it a read-only
 * descriptor, which only the same user can open again for writing).
 *
 *     asleep     0: the owner is awake, else the number of this sleep. Who
 *                makes work for the owner rings its bell once for each number:
 *                a sleeper that eats a bell changes the number first.
 *     witness    where the owner has its incarnation, in its own memory
 *     slots      the registered memory that peers were told of; see rma.h
 *
 * A slot tells what a peer needs to copy to or from registered memory by
 * itself, and whose it is: `mark`, 0 while it is free. That is made of the key
 * of the registration and does not tell it: the page is open to every peer, and
 * a key opens the memory to whoever has it. What a slot tells is only whole
 * under its mark, which no other registration ever has.
 *
 *     0      8       16     24             32      36      37      38      39
 *     +------+-------+------+--------------+-------+-------+-------+-------+
 *     | mark | place | size | arena offset | count | flags | arena | width |
 *     +------+-------+------+--------------+-------+-------+-------+-------+
 *
 * `place`: of the one segment, or, if `count` is not 1, of the array of them;
 * `width`: the size of a pointer; `arena`: its number, NA_SM_ARENAS: none.
 *
 * The hint page is everybody's to write: one bit for each peer, that peer's
 * "I have something for you". It is only a hint. Any peer can spoil it, which
 * costs a delay until the owner next looks at all rings, and never a message.
 *
 * Locking: none; words are atomics.
 */
/*
 * arena: memory that the library allocates for the application's bulk data, so
 * that peers can map it and copy it by themselves.
 *
 * A class has two arenas: one of READ_ONLY memory, which peers can only map
 * read-only, and one of the rest. Each is a sparse memfd of NA_SM_ARENA_SIZE
 * bytes, which peers map when they connect. A page takes memory when it is
 * first touched. Each side can access its mapping only as far as it was used:
 * debuggers and leak checkers would touch it all, and core dumps would have it
 * all. Where the system refuses an arena, or the address space is limited
 * (RLIMIT_AS), bulk memory is ordinary. A peer that maps an arena can reach all
 * of it, also what lies there for others: see na.h.
 *
 * A block consists of whole pages. The map of used pages lies in private
 * memory; nothing that is read from the shared pages is believed. Blocks are
 * zeroed when they are handed out. From 1 MiB up a block that is given back
 * returns its memory to the system, if the seals allow that: of READ_ONLY
 * memory they do not.
 *
 * A block may outlive its class; the arenas are freed with the last of both. In
 * the child of a fork blocks are shared with the parent, and nothing is given
 * back.
 *
 * Locking: a mutex for the arenas of a class, with no lock inside it. Must not
 * know: peers, transfers.
 */
#ifndef HG_GEN_SM_MEMORY_H
#define HG_GEN_SM_MEMORY_H

#include "sm/ring.h"

#if HG_ENABLE_SM

/* ==== page ==== */

#define NA_SM_PEERS 8192u       /* of a class, at a time */
#define NA_SM_SLOTS 32766u      /* registrations of a class: 2 MiB, when used */
#define NA_SM_SLOT_WITHDRAWN 1u /* a mark: of memory that is still copied */

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

/* What a slot tells, at one moment. */
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

/* Like na_sm_page_create, but a failure leaves its cause in errno, and is not
 * logged. */
HG_PRIVATE bool na_sm_page_make(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p);

/* A new memory of `size` bytes, mapped, and the descriptor that names it to
 * peers, which the caller closes. With `read_only`, they cannot write it.
 * NA_AGAIN, logged: no descriptor; NA_NOMEM, NA_IO_ERROR, logged. */
HG_PRIVATE na_return_t na_sm_page_create(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p);

/* Whether access to a descriptor's memory cannot fault: it is a memfd of normal
 * pages that can neither shrink nor grow. Where the system has no huge page
 * left, a hole in memory of huge pages raises SIGBUS. */
HG_PRIVATE bool na_sm_page_is_safe(int fd);

/* Map what a peer sent; the descriptor stays the caller's. NA_PROTOCOL_ERROR:
 * it is not of that size, not safe, or cannot be mapped as it must; NA_NOMEM,
 * logged. */
HG_PRIVATE na_return_t na_sm_page_map(
    int fd, size_t size, int protection, void **memory_p);

/* NULL is allowed. */
HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size);

/* ---- Slots ---- */

/* The mark of a key, among the registrations of one incarnation; above 1. */
HG_PRIVATE uint64_t na_sm_slot_mark(uint64_t key, uint64_t incarnation);

/* Fill a free slot. To free it, its mark is set to 0 once nobody who acts on
 * what it told is left. */
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
    /* Had one of these been of another registration, this would be, too. */
    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != mark)
        return false;
    *info_p = info;
    return true;
}

/* ---- Hints ---- */

/* The peer whose bit is `slot` has something. Whatever it is has been
 * published sequentially consistently before. */
static inline void na_sm_hint_set(struct na_sm_hints *hints, uint32_t slot)
{
    _Atomic uint64_t *word = &hints->bits[slot / 64];
    uint64_t bit = UINT64_C(1) << (slot % 64);

    if ((atomic_load(word) & bit) == 0)
        atomic_fetch_or(word, bit);
}

/* The owner found nothing there for a while, and looks once more after this:
 * either it then finds what came, or the peer finds the bit cleared. */
static inline void na_sm_hint_clear(struct na_sm_hints *hints, uint32_t slot)
{
    atomic_fetch_and(&hints->bits[slot / 64], ~(UINT64_C(1) << (slot % 64)));
}

/* ==== arena ==== */

enum { NA_SM_ARENA_READ_WRITE, NA_SM_ARENA_READ_ONLY, NA_SM_ARENAS };

#define NA_SM_ARENA_PAGE ((size_t) 4096)
#define NA_SM_ARENA_SIZE ((size_t) 1 << (sizeof(void *) > 4 ? 32 : 26))
#define NA_SM_ARENA_STEP ((size_t) 4 << 20) /* of what is accessible */
#define NA_SM_ARENA_HOLE ((size_t) 1 << 20) /* blocks that leave one */

struct na_sm_arenas;

/* Arenas for a class. NULL: out of memory (logged). */
HG_PRIVATE struct na_sm_arenas *na_sm_arenas_create(void);

/* The class is closing: descriptors are closed, and the memory goes once no
 * block is left. NULL is allowed. */
HG_PRIVATE void na_sm_arenas_close(struct na_sm_arenas *arenas);

/* The slot mem_alloc: block->size bytes, zeroed, at a page's beginning.
 * NA_NOMEM, not logged: there is no arena, or it is full. */
HG_PRIVATE na_return_t na_sm_arena_alloc(struct na_sm_arenas *arenas,
    unsigned long flags, struct na_mem_block *block);

/* The arena that memory lies in, and where: its number, or NA_SM_ARENAS if the
 * segments are not one run in one arena. */
HG_PRIVATE unsigned na_sm_arena_find(struct na_sm_arenas *arenas,
    const struct na_segment *segments, na_size_t count, uint64_t *offset_p);

/* The descriptor of an arena, to be sent to a peer; it stays the set's. -1:
 * there is no such arena. */
HG_PRIVATE int na_sm_arena_fd(
    const struct na_sm_arenas *arenas, unsigned number);

/* Make a mapping of an arena accessible up to `end`; *open_p: how far it is. */
HG_PRIVATE bool na_sm_arena_open(
    unsigned char *base, size_t *open_p, size_t end, int protection);

/* Whether this process may map arenas: not if its address space is limited. */
HG_PRIVATE bool na_sm_arena_is_mappable(void);

#endif
#endif
