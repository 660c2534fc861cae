/* SPDX-License-Identifier: BSD-3-Clause */
/* memory: see memory.h. */
#include "sm/memory.h"

#if HG_ENABLE_SM

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

/* ==== page ==== */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#define NA_SM_PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define NA_SM_PAGE_TMPFS 0x01021994 /* the file system of normal pages */

/* A descriptor of the same memory that cannot be mapped writable. */
static int na_sm_page_weaken(int fd)
{
    char path[64];

    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
        return fd;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Whether a file may have that size: to exceed the limit is a signal, which
 * ends most processes. */
static bool na_sm_page_is_allowed(size_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size)
        return true;
    errno = EFBIG;
    return false;
}

HG_PRIVATE bool na_sm_page_make(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p)
{
    int given, error;
    void *memory;
    int fd;

    if (!na_sm_page_is_allowed(size))
        return false;
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t) size) != 0)
        goto close_fd;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        goto close_fd;
    if (fcntl(fd, F_ADD_SEALS, NA_SM_PAGE_SEALS) != 0)
        goto unmap;
    given = read_only ? na_sm_page_weaken(fd) : fd;
    if (given < 0)
        goto unmap;
    (void) fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
    if (given != fd)
        (void) close(fd);
    *memory_p = memory;
    *fd_p = given;
    return true;

unmap:
    error = errno;
    (void) munmap(memory, size);
    errno = error;
close_fd:
    error = errno;
    (void) close(fd);
    errno = error;
    return false;
}

HG_PRIVATE na_return_t na_sm_page_create(
    const char *name, size_t size, bool read_only, void **memory_p, int *fd_p)
{
    if (na_sm_page_make(name, size, read_only, memory_p, fd_p))
        return NA_SUCCESS;
    return hg_log_no_fd("sm", name);
}

HG_PRIVATE bool na_sm_page_is_safe(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs system;

    return seals >= 0 && (seals & NA_SM_PAGE_SEALS) == NA_SM_PAGE_SEALS &&
        fstatfs(fd, &system) == 0 && system.f_type == NA_SM_PAGE_TMPFS;
}

HG_PRIVATE na_return_t na_sm_page_map(
    int fd, size_t size, bool read_only, void **memory_p)
{
    struct stat stat;
    void *memory;

    if (!na_sm_page_is_safe(fd) || fstat(fd, &stat) != 0 ||
        (uint64_t) stat.st_size != size)
        return NA_PROTOCOL_ERROR;
    memory = mmap(NULL, size, PROT_READ | (read_only ? 0 : PROT_WRITE),
        MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED && (errno == EPERM || errno == EACCES))
        return NA_PROTOCOL_ERROR; /* it cannot be written */
    if (memory == MAP_FAILED) {
        hg_log_error("sm",
            "cannot map %zu bytes of a peer's: %s (the limits are "
            "vm.max_map_count and ulimit -v)",
            size, strerror(errno));
        return NA_NOMEM;
    }
    *memory_p = memory;
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size)
{
    if (memory != NULL)
        (void) munmap((void *) (uintptr_t) memory, size);
}

/* ---- Slots ---- */

static uint64_t na_sm_page_turn(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Rounds of SipHash (Aumasson and Bernstein, 2012). */
static void na_sm_page_stir(uint64_t v[4], unsigned rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = na_sm_page_turn(v[1], 13) ^ v[0];
        v[3] = na_sm_page_turn(v[3], 16) ^ v[2];
        v[0] = na_sm_page_turn(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = na_sm_page_turn(v[1], 17) ^ v[2];
        v[3] = na_sm_page_turn(v[3], 21) ^ v[0];
        v[2] = na_sm_page_turn(v[2], 32);
    }
}

/* SipHash-2-4 of the incarnation, under the key: nobody finds that from it but
 * by trying all keys. */
HG_PRIVATE uint64_t na_sm_slot_mark(uint64_t key, uint64_t incarnation)
{
    const uint64_t length = UINT64_C(8) << 56;
    uint64_t other = na_sm_page_turn(key, 32);
    uint64_t v[4] = {UINT64_C(0x736f6d6570736575) ^ key,
        UINT64_C(0x646f72616e646f6d) ^ other,
        UINT64_C(0x6c7967656e657261) ^ key,
        UINT64_C(0x7465646279746573) ^ other};
    uint64_t mark;

    v[3] ^= incarnation;
    na_sm_page_stir(v, 2);
    v[0] ^= incarnation;
    v[3] ^= length;
    na_sm_page_stir(v, 2);
    v[0] ^= length;
    v[2] ^= 0xff;
    na_sm_page_stir(v, 4);
    mark = v[0] ^ v[1] ^ v[2] ^ v[3];
    return mark != 0 ? mark : 1;
}

HG_PRIVATE void na_sm_slot_fill(
    struct na_sm_slot *slot, const struct na_sm_told *told, uint64_t mark)
{
    assert(mark != 0 && atomic_load(&slot->mark) == 0);
    /* Whoever reads what is to come finds that the mark is not as it was. */
    atomic_store_explicit(&slot->place, told->place, memory_order_release);
    atomic_store_explicit(&slot->size, told->size, memory_order_release);
    atomic_store_explicit(
        &slot->arena_offset, told->arena_offset, memory_order_release);
    atomic_store_explicit(&slot->count, told->count, memory_order_release);
    atomic_store_explicit(&slot->flags, told->flags, memory_order_release);
    atomic_store_explicit(&slot->arena, told->arena, memory_order_release);
    atomic_store_explicit(&slot->width, told->width, memory_order_release);
    atomic_store(&slot->mark, mark);
}

HG_PRIVATE uint64_t na_sm_hint_words(struct na_sm_hints *hints, uint32_t n)
{
    uint64_t words = atomic_load(&hints->summary[n]);
    uint64_t left;

    for (left = words; left != 0; left &= left - 1) {
        unsigned w = (unsigned) __builtin_ctzll(left);
        uint64_t bit = UINT64_C(1) << w;

        if (atomic_load(&hints->bits[n * 64 + w]) != 0)
            continue;
        /* A peer sets its bit first, then looks at the summary: one of us
         * sees the other. */
        atomic_fetch_and(&hints->summary[n], ~bit);
        if (atomic_load(&hints->bits[n * 64 + w]) != 0)
            atomic_fetch_or(&hints->summary[n], bit);
        else
            words &= ~bit;
    }
    return words;
}

/* ==== arena ==== */

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

/* ==== window ==== */

HG_PRIVATE na_return_t na_sm_window_open(struct na_sm_window *window, int fd)
{
    struct stat there;
    void *base;

    assert(window->state == NA_SM_WINDOW_ASKED && window->base == NULL);
    window->state = NA_SM_WINDOW_SHUT;
    if (!na_sm_page_is_safe(fd) || fstat(fd, &there) != 0 ||
        there.st_size <= 0 || (uint64_t) there.st_size > NA_SM_ARENA_MAX ||
        (uint64_t) there.st_size % NA_SM_ARENA_UNIT != 0) {
        hg_log_warning("sm", "a peer sent what is no arena");
        return NA_PROTOCOL_ERROR;
    }
    window->writable = true;
    base = mmap(NULL, (size_t) there.st_size, PROT_READ | PROT_WRITE,
        MAP_SHARED, fd, 0);
    if (base == MAP_FAILED && (errno == EPERM || errno == EACCES)) {
        window->writable = false;
        base = mmap(NULL, (size_t) there.st_size, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (base == MAP_FAILED) {
        hg_log_info("sm", "cannot map %" PRIu64 " bytes of a peer's: %s",
            (uint64_t) there.st_size, strerror(errno));
        return NA_NOMEM;
    }
    window->base = (unsigned char *) base;
    window->size = (uint64_t) there.st_size;
    window->state = NA_SM_WINDOW_OPEN;
    return NA_SUCCESS;
}

HG_PRIVATE unsigned char *na_sm_window_at(const struct na_sm_window *window,
    uint64_t offset, uint64_t size, bool write)
{
    assert(window->state == NA_SM_WINDOW_OPEN);
    if (offset > window->size || size > window->size - offset ||
        (write && !window->writable))
        return NULL;
    return window->base + offset;
}

HG_PRIVATE void na_sm_windows_free(struct na_sm_windows *windows)
{
    unsigned i;

    for (i = 0; windows != NULL && i < NA_SM_ARENAS; i++)
        na_sm_page_unmap(
            windows->window[i].base, (size_t) windows->window[i].size);
    hg_mem_free(windows);
}

#endif
