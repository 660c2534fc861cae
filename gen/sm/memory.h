/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_page: the memory that peers share: made, sealed, checked, mapped; and
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
 *     slots      what is registered; the RMA room keeps them
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
 * `width`: the size of a pointer; `arena`, 0: it lies in none.
 *
 * The hint page is everybody's to write: one bit for each peer, that peer's
 * "I have something for you", and a summary with one bit for each word of
 * those. It is only a hint. Any peer can spoil it, which costs a delay until
 * the owner next looks at all rings, and never a message.
 *
 *     summary  |0|1|0| ...    bit w: word w may have a bit
 *     bits     |0000|0100|0000| ...
 *
 * Locking: none; words are atomics. Bits of hints are cleared by the owner's
 * polling thread alone.
 */
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
/*
 * sm_window: a peer's arenas as this process maps them, by their ids.
 *
 *     unknown --asked--> asked --opened--> open
 *        ^                 |  \
 *        +-----again-------+   +--refused--> shut
 *
 * A descriptor is checked before it is mapped: it is a memfd of normal pages,
 * sealed against shrinking and growing, and of a size that an arena can have.
 * So no access in the mapping can fault. It is mapped writable if the
 * descriptor allows that.
 *
 * Locking: its user's; for a pair, the class's lock. Must not know: peers, and
 * how descriptors come.
 */
#ifndef HG_GEN_SM_MEMORY_H
#define HG_GEN_SM_MEMORY_H

#include "sm/ring.h"

#if HG_ENABLE_SM

/* ==== page ==== */

#define NA_SM_PEERS 8192u  /* of a class, at a time */
#define NA_SM_SLOTS 32766u /* registrations of a class: 2 MiB, when used */

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
struct na_sm_told {
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
    _Atomic uint64_t witness;
    struct na_sm_slot slots[NA_SM_SLOTS];
};

struct na_sm_hints {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t summary[NA_SM_PEERS / 64 / 64];
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
    int fd, size_t size, bool read_only, void **memory_p);

/* NULL is allowed. */
HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size);

/* ---- Slots ---- */

/* The mark of a key, among the registrations of one incarnation; not 0. */
HG_PRIVATE uint64_t na_sm_slot_mark(uint64_t key, uint64_t incarnation);

/* Fill a free slot. To free it, its mark is set to 0; it may be filled again
 * once nobody who acts on what it told is left. */
HG_PRIVATE void na_sm_slot_fill(
    struct na_sm_slot *slot, const struct na_sm_told *told, uint64_t mark);

/* Read a slot. False: it has another mark. */
static inline bool na_sm_slot_read(
    const struct na_sm_slot *slot, uint64_t mark, struct na_sm_told *told_p)
{
    struct na_sm_told told;

    if (atomic_load(&slot->mark) != mark)
        return false;
    told.place = atomic_load_explicit(&slot->place, memory_order_acquire);
    told.size = atomic_load_explicit(&slot->size, memory_order_acquire);
    told.arena_offset =
        atomic_load_explicit(&slot->arena_offset, memory_order_acquire);
    told.count = atomic_load_explicit(&slot->count, memory_order_acquire);
    told.flags = atomic_load_explicit(&slot->flags, memory_order_acquire);
    told.arena = atomic_load_explicit(&slot->arena, memory_order_acquire);
    told.width = atomic_load_explicit(&slot->width, memory_order_acquire);
    /* Had one of these been of another registration, this would be, too. */
    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != mark)
        return false;
    *told_p = told;
    return true;
}

/* ---- Hints ---- */

/* The peer whose bit is `slot` has something. Whatever it is has been
 * published sequentially consistently before. */
static inline void na_sm_hint_set(struct na_sm_hints *hints, uint32_t slot)
{
    _Atomic uint64_t *word = &hints->bits[slot / 64];
    _Atomic uint64_t *sum = &hints->summary[slot / 4096];
    uint64_t bit = UINT64_C(1) << (slot % 64);
    uint64_t sum_bit = UINT64_C(1) << (slot / 64 % 64);

    if ((atomic_load(word) & bit) == 0) {
        atomic_fetch_or(word, bit);
    }
    if ((atomic_load(sum) & sum_bit) == 0) {
        atomic_fetch_or(sum, sum_bit);
    }
}

/* The owner found nothing there for a while, and looks once more after this:
 * either it then finds what came, or the peer finds the bit cleared. */
static inline void na_sm_hint_clear(struct na_sm_hints *hints, uint32_t slot)
{
    atomic_fetch_and(&hints->bits[slot / 64], ~(UINT64_C(1) << (slot % 64)));
}

/* The words that may have a bit, of the `n`th 64: clears the bits of those
 * that have none, looking again, and returns the rest. */
HG_PRIVATE uint64_t na_sm_hint_words(struct na_sm_hints *hints, uint32_t n);

/* ==== arena ==== */

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

/* ==== window ==== */

enum na_sm_window_state {
    NA_SM_WINDOW_UNKNOWN,
    NA_SM_WINDOW_ASKED,
    NA_SM_WINDOW_OPEN,
    NA_SM_WINDOW_SHUT /* it cannot be had */
};

struct na_sm_window {
    unsigned char *base;
    uint64_t size;
    bool writable;
    uint8_t state; /* enum na_sm_window_state */
};

struct na_sm_windows {
    struct na_sm_window window[NA_SM_ARENAS]; /* by id - 1 */
};

/* Map what was asked for. NA_PROTOCOL_ERROR: it is no arena; NA_NOMEM: the
 * system does not map it. Logged; the window is shut then. The descriptor stays
 * the caller's. */
HG_PRIVATE na_return_t na_sm_window_open(struct na_sm_window *window, int fd);

/* Where a range of an open window is. NULL: past its end, or to be written
 * where that cannot be. */
HG_PRIVATE unsigned char *na_sm_window_at(const struct na_sm_window *window,
    uint64_t offset, uint64_t size, bool write);

/* Unmap everything, and free the table. NULL is allowed. */
HG_PRIVATE void na_sm_windows_free(struct na_sm_windows *windows);

#endif
#endif
