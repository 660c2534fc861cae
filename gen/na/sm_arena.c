/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_arena: see sm_arena.h. */
#include "na/sm_arena.h"

#if HG_ENABLE_SM

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

struct na_sm_arena {
    unsigned char *base;
    uint64_t pages; /* a multiple of 64 */
    uint64_t unused;
    uint64_t low;   /* no page before this one is free */
    uint64_t *used; /* a bit for each page, then those of dirty */
    _Atomic uint64_t *dirty;
    int fd;
    bool read_only;
};

struct na_sm_arenas {
    pthread_mutex_t lock;
    unsigned count;
    uint64_t blocks;
    uint64_t next[2]; /* sizes of the next arenas: of writable, of read-only */
    pid_t pid;        /* whose they are */
    bool closed;
    bool told; /* that there was no memory */
    struct na_sm_arena arena[NA_SM_ARENAS];
};

/* ---- Sets ---- */

HG_PRIVATE struct na_sm_arenas *na_sm_arenas_create(void)
{
    struct na_sm_arenas *arenas =
        (struct na_sm_arenas *) hg_mem_calloc(1, sizeof(*arenas));

    if (arenas == NULL || hg_lock_init(&arenas->lock) != HG_SUCCESS) {
        if (arenas == NULL)
            hg_log_error("sm", "no memory for arenas");
        hg_mem_free(arenas);
        return NULL;
    }
    arenas->next[false] = NA_SM_ARENA_UNIT;
    arenas->next[true] = NA_SM_ARENA_UNIT;
    arenas->pid = getpid();
    return arenas;
}

/* The lock is held, and is released. */
static void na_sm_arenas_leave(struct na_sm_arenas *arenas)
{
    bool last = arenas->closed && arenas->blocks == 0;
    unsigned i;

    hg_unlock(&arenas->lock);
    if (!last)
        return;
    for (i = 0; i < arenas->count; i++) {
        struct na_sm_arena *arena = &arenas->arena[i];

        na_sm_page_unmap(
            arena->base, (size_t) (arena->pages * NA_SM_ARENA_PAGE));
        hg_mem_free(arena->used);
    }
    pthread_mutex_destroy(&arenas->lock);
    hg_mem_free(arenas);
}

static void na_sm_arenas_close_fds(struct na_sm_arenas *arenas)
{
    unsigned i;

    for (i = 0; i < arenas->count; i++) {
        if (arenas->arena[i].fd >= 0)
            (void) close(arenas->arena[i].fd);
        arenas->arena[i].fd = -1;
    }
}

HG_PRIVATE void na_sm_arenas_close(struct na_sm_arenas *arenas)
{
    if (arenas == NULL)
        return;
    hg_lock(&arenas->lock);
    assert(!arenas->closed);
    na_sm_arenas_close_fds(arenas);
    arenas->closed = true;
    na_sm_arenas_leave(arenas);
}

HG_PRIVATE void na_sm_arenas_lock(struct na_sm_arenas *arenas)
{
    hg_lock(&arenas->lock);
}

HG_PRIVATE void na_sm_arenas_unlock(struct na_sm_arenas *arenas)
{
    hg_unlock(&arenas->lock);
}

HG_PRIVATE void na_sm_arenas_forked(struct na_sm_arenas *arenas)
{
    na_sm_arenas_close_fds(arenas);
}

/* ---- Pages ---- */

/* Of pages [first, first + count), those of a word, whose number in the arena
 * goes up; *first and *count become what is left. */
static uint64_t na_sm_arena_step(
    uint64_t *first, uint64_t *count, uint64_t *word_p)
{
    uint64_t bit = *first % 64;
    uint64_t n = 64 - bit < *count ? 64 - bit : *count;
    uint64_t ones = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;

    *word_p = *first / 64;
    *first += n;
    *count -= n;
    return ones << bit;
}

/* The first run of `count` free pages. */
static bool na_sm_arena_search(
    const struct na_sm_arena *arena, uint64_t count, uint64_t *first_p)
{
    uint64_t page = arena->low;
    uint64_t run = 0;

    while (page < arena->pages) {
        uint64_t left = 64 - page % 64; /* in this word */
        uint64_t word = arena->used[page / 64] >> page % 64;
        bool taken = (word & 1) != 0;
        uint64_t same = taken ? ~word : word; /* 0: all that is left */
        uint64_t n = same == 0 ? left : (uint64_t) __builtin_ctzll(same);

        n = n < left ? n : left;
        page += n;
        run = taken ? 0 : run + n;
        if (run >= count) {
            *first_p = page - run;
            return true;
        }
    }
    return false;
}

/* Take pages; the lock is held. */
static bool na_sm_arena_take(
    struct na_sm_arena *arena, uint64_t count, uint64_t *first_p)
{
    uint64_t first, word;

    if (arena->unused < count || !na_sm_arena_search(arena, count, &first))
        return false;
    *first_p = first;
    arena->unused -= count;
    if (first == arena->low)
        arena->low = first + count;
    while (count > 0) {
        uint64_t mask = na_sm_arena_step(&first, &count, &word);

        assert((arena->used[word] & mask) == 0);
        arena->used[word] |= mask;
    }
    return true;
}

static void na_sm_arena_give(
    struct na_sm_arena *arena, uint64_t first, uint64_t count)
{
    uint64_t word;

    arena->unused += count;
    if (first < arena->low)
        arena->low = first;
    while (count > 0) {
        uint64_t mask = na_sm_arena_step(&first, &count, &word);

        assert((arena->used[word] & mask) == mask);
        arena->used[word] &= ~mask;
    }
}

/* Zero what is dirty of pages just taken, and note that they will be. */
static void na_sm_arena_clean(
    struct na_sm_arena *arena, uint64_t first, uint64_t count)
{
    uint64_t word;

    while (count > 0) {
        uint64_t mask = na_sm_arena_step(&first, &count, &word);
        uint64_t was = atomic_fetch_or(&arena->dirty[word], mask) & mask;

        for (; was != 0; was &= was - 1) {
            uint64_t page = word * 64 + (uint64_t) __builtin_ctzll(was);

            memset(arena->base + page * NA_SM_ARENA_PAGE, 0,
                (size_t) NA_SM_ARENA_PAGE);
        }
    }
}

/* Give the memory of pages still taken back to the system, if it takes it:
 * they read as zeros then. */
static void na_sm_arena_punch(
    struct na_sm_arena *arena, uint64_t first, uint64_t count)
{
    uint64_t word;

    if (madvise(arena->base + first * NA_SM_ARENA_PAGE,
            (size_t) (count * NA_SM_ARENA_PAGE), MADV_REMOVE) != 0)
        return;
    while (count > 0) {
        uint64_t mask = na_sm_arena_step(&first, &count, &word);

        atomic_fetch_and(&arena->dirty[word], ~mask);
    }
}

/* ---- Arenas ---- */

/* Make an arena with room for `need` bytes; the lock is held. NULL: nothing
 * was made, which is logged once. */
static struct na_sm_arena *na_sm_arena_grow(
    struct na_sm_arenas *arenas, bool read_only, uint64_t need)
{
    struct na_sm_arena *arena = &arenas->arena[arenas->count];
    uint64_t size = arenas->next[read_only];
    void *base = NULL;
    uint64_t words;

    if (arenas->count == NA_SM_ARENAS || need > NA_SM_ARENA_MAX)
        return NULL;
    if (size < need)
        size =
            (need + NA_SM_ARENA_UNIT - 1) / NA_SM_ARENA_UNIT * NA_SM_ARENA_UNIT;
    words = size / NA_SM_ARENA_PAGE / 64;
    arena->used = (uint64_t *) hg_mem_calloc(2 * (size_t) words, 8);
    if (arena->used == NULL)
        return NULL;
    if (!na_sm_page_make(
            "hg-arena", (size_t) size, read_only, &base, &arena->fd)) {
        if (!arenas->told)
            hg_log_info("sm",
                "no memory for an arena, so bulk memory is ordinary: %s",
                strerror(errno));
        arenas->told = true;
        hg_mem_free(arena->used);
        return NULL;
    }
    arena->dirty = (_Atomic uint64_t *) (void *) (arena->used + words);
    arena->base = (unsigned char *) base;
    arena->pages = words * 64;
    arena->unused = arena->pages;
    arena->low = 0;
    arena->read_only = read_only;
    arenas->count++;
    arenas->next[read_only] =
        size < NA_SM_ARENA_LARGE / 2 ? 2 * size : NA_SM_ARENA_LARGE;
    return arena;
}

/* The arena that an address lies in; the lock is held. */
static struct na_sm_arena *na_sm_arena_of(
    struct na_sm_arenas *arenas, const void *address)
{
    unsigned i;

    for (i = 0; i < arenas->count; i++) {
        struct na_sm_arena *arena = &arenas->arena[i];

        if ((uintptr_t) address - (uintptr_t) arena->base <
            arena->pages * NA_SM_ARENA_PAGE)
            return arena;
    }
    return NULL;
}

static uint64_t na_sm_arena_count(na_size_t size)
{
    return (size + NA_SM_ARENA_PAGE - 1) / NA_SM_ARENA_PAGE;
}

/* Take a block back. */
static void na_sm_arena_release(struct na_mem_block *block)
{
    struct na_sm_arenas *arenas = (struct na_sm_arenas *) block->owner;
    struct na_sm_arena *arena;
    uint64_t count = na_sm_arena_count(block->size);
    uint64_t first;

    if (getpid() != arenas->pid)
        return;
    hg_lock(&arenas->lock);
    arena = na_sm_arena_of(arenas, block->memory);
    assert(arena != NULL && arenas->blocks > 0);
    hg_unlock(&arenas->lock);
    first = (uint64_t) ((unsigned char *) block->memory - arena->base) /
        NA_SM_ARENA_PAGE;
    if (count * NA_SM_ARENA_PAGE >= NA_SM_ARENA_HOLE)
        na_sm_arena_punch(arena, first, count);
    hg_lock(&arenas->lock);
    na_sm_arena_give(arena, first, count);
    arenas->blocks--;
    na_sm_arenas_leave(arenas);
}

HG_PRIVATE na_return_t na_sm_arena_alloc(struct na_sm_arenas *arenas,
    unsigned long flags, struct na_mem_block *block)
{
    bool read_only = flags == NA_MEM_READ_ONLY;
    struct na_sm_arena *arena = NULL;
    uint64_t count;
    uint64_t first = 0;
    unsigned i;

    if (block->size == 0 || block->size > NA_SM_ARENA_MAX)
        return NA_NOMEM;
    count = na_sm_arena_count(block->size);
    hg_lock(&arenas->lock);
    for (i = 0; i < arenas->count && arena == NULL; i++) {
        if (arenas->arena[i].read_only == read_only &&
            na_sm_arena_take(&arenas->arena[i], count, &first))
            arena = &arenas->arena[i];
    }
    if (arena == NULL) {
        arena = na_sm_arena_grow(arenas, read_only, count * NA_SM_ARENA_PAGE);
        if (arena != NULL)
            (void) na_sm_arena_take(arena, count, &first);
    }
    if (arena != NULL)
        arenas->blocks++;
    hg_unlock(&arenas->lock);
    if (arena == NULL)
        return NA_NOMEM;
    na_sm_arena_clean(arena, first, count);
    block->memory = arena->base + first * NA_SM_ARENA_PAGE;
    block->owner = arenas;
    block->release = na_sm_arena_release;
    return NA_SUCCESS;
}

HG_PRIVATE uint32_t na_sm_arena_find(struct na_sm_arenas *arenas,
    const struct na_segment *segments, na_size_t count, uint64_t *offset_p)
{
    const struct na_sm_arena *arena;
    uintptr_t start, end;
    uint32_t id = 0;
    na_size_t i;

    assert(count > 0);
    start = (uintptr_t) segments[0].address;
    end = start;
    for (i = 0; i < count; i++) {
        if ((uintptr_t) segments[i].address != end ||
            segments[i].size > UINTPTR_MAX - end)
            return 0;
        end += (uintptr_t) segments[i].size;
    }
    hg_lock(&arenas->lock);
    arena = na_sm_arena_of(arenas, segments[0].address);
    if (arena != NULL &&
        end - (uintptr_t) arena->base <= arena->pages * NA_SM_ARENA_PAGE) {
        id = (uint32_t) (arena - arenas->arena) + 1;
        *offset_p = start - (uintptr_t) arena->base;
    }
    hg_unlock(&arenas->lock);
    return id;
}

HG_PRIVATE int na_sm_arena_fd(struct na_sm_arenas *arenas, uint32_t id)
{
    int fd = -1;

    hg_lock(&arenas->lock);
    if (id >= 1 && id <= arenas->count)
        fd = arenas->arena[id - 1].fd;
    hg_unlock(&arenas->lock);
    return fd;
}

#endif
