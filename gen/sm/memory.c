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

/* Get a descriptor of the same memory that cannot be mapped writable. */
static int na_sm_page_weaken(int fd)
{
    char path[64];

    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
        return fd;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Whether a file may have that size: exceeding the limit raises a signal that
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
    void *memory = MAP_FAILED;
    int given = -1;
    int error, fd;

    if (!na_sm_page_is_allowed(size))
        return false;
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t) size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED && fcntl(fd, F_ADD_SEALS, NA_SM_PAGE_SEALS) == 0)
        given = read_only ? na_sm_page_weaken(fd) : fd;
    error = errno;
    if (given >= 0) {
        (void) fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
        *memory_p = memory;
        *fd_p = given;
    } else if (memory != MAP_FAILED) {
        (void) munmap(memory, size);
    }
    if (fd >= 0 && fd != given)
        (void) close(fd);
    errno = error;
    return given >= 0;
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
    int fd, size_t size, int protection, void **memory_p)
{
    struct stat stat;
    void *memory;

    if (!na_sm_page_is_safe(fd) || fstat(fd, &stat) != 0 ||
        (uint64_t) stat.st_size != size)
        return NA_PROTOCOL_ERROR;
    memory = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED && (errno == EPERM || errno == EACCES))
        return NA_PROTOCOL_ERROR; /* it cannot be written */
    if (memory == MAP_FAILED) {
        hg_log_error("sm",
            "cannot map %zu bytes of a peer's: %s (the limits are "
            "vm.max_map_count and ulimit -v)",
            size, strerror(errno));
        return NA_NOMEM;
    }
    (void) madvise(memory, size, MADV_DONTDUMP); /* it belongs to the peer */
    *memory_p = memory;
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size)
{
    if (memory != NULL)
        (void) munmap((void *) (uintptr_t) memory, size);
}

/* ---- Slots ---- */

static uint64_t na_sm_page_rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Rounds of SipHash (Aumasson and Bernstein, 2012). */
static void na_sm_page_sip_rounds(uint64_t v[4], unsigned rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = na_sm_page_rotate(v[1], 13) ^ v[0];
        v[3] = na_sm_page_rotate(v[3], 16) ^ v[2];
        v[0] = na_sm_page_rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = na_sm_page_rotate(v[1], 17) ^ v[2];
        v[3] = na_sm_page_rotate(v[3], 21) ^ v[0];
        v[2] = na_sm_page_rotate(v[2], 32);
    }
}

/* SipHash-2-4 of the incarnation with the key: the key can be found from it
 * only by trying all keys. */
HG_PRIVATE uint64_t na_sm_slot_mark(uint64_t key, uint64_t incarnation)
{
    const uint64_t length = UINT64_C(8) << 56;
    uint64_t other = na_sm_page_rotate(key, 32);
    uint64_t v[4] = {UINT64_C(0x736f6d6570736575) ^ key,
        UINT64_C(0x646f72616e646f6d) ^ other,
        UINT64_C(0x6c7967656e657261) ^ key,
        UINT64_C(0x7465646279746573) ^ other};
    uint64_t mark;

    v[3] ^= incarnation;
    na_sm_page_sip_rounds(v, 2);
    v[0] ^= incarnation;
    v[3] ^= length;
    na_sm_page_sip_rounds(v, 2);
    v[0] ^= length;
    v[2] ^= 0xff;
    na_sm_page_sip_rounds(v, 4);
    mark = v[0] ^ v[1] ^ v[2] ^ v[3];
    return mark > NA_SM_SLOT_WITHDRAWN ? mark : NA_SM_SLOT_WITHDRAWN + 1;
}

HG_PRIVATE void na_sm_slot_fill(
    struct na_sm_slot *slot, const struct na_sm_slot_info *info, uint64_t mark)
{
    HG_ASSERT(mark != 0 && atomic_load(&slot->mark) == 0);
    /* A reader of the new values also sees that the mark has changed. */
    atomic_store_explicit(&slot->place, info->place, memory_order_release);
    atomic_store_explicit(&slot->size, info->size, memory_order_release);
    atomic_store_explicit(
        &slot->arena_offset, info->arena_offset, memory_order_release);
    atomic_store_explicit(&slot->count, info->count, memory_order_release);
    atomic_store_explicit(&slot->flags, info->flags, memory_order_release);
    atomic_store_explicit(&slot->arena, info->arena, memory_order_release);
    atomic_store_explicit(&slot->width, info->width, memory_order_release);
    atomic_store(&slot->mark, mark);
}

/* ==== arena ==== */

#define NA_SM_ARENA_PAGES (NA_SM_ARENA_SIZE / NA_SM_ARENA_PAGE)

struct na_sm_arena {
    unsigned char *base; /* NULL: there is none */
    unsigned char *used; /* a byte for each page; NULL: none was used yet */
    size_t fresh;        /* pages from here on are unused so far */
    size_t open;         /* bytes that are accessible */
    bool punches;        /* the system takes pages back, which become zero */
    int fd;
};

struct na_sm_arenas {
    pthread_mutex_t lock;
    uint64_t blocks;
    pid_t pid; /* the owner */
    bool closed;
    struct na_sm_arena arena[NA_SM_ARENAS];
};

/* ---- Sets ---- */

HG_PRIVATE bool na_sm_arena_is_mappable(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

/* Whether memory that is returned to the system reads as zeros. The seal of a
 * read-only arena prevents that, and qemu-user reports success without effect.
 */
static bool na_sm_arena_tries_punch(unsigned char *base)
{
    volatile unsigned char *first = base;
    bool works;

    *first = 1;
    works = madvise(base, NA_SM_ARENA_PAGE, MADV_REMOVE) == 0 && *first == 0;
    *first = 0;
    return works;
}

static void na_sm_arena_make(struct na_sm_arena *arena, bool read_only)
{
    void *base = NULL;

    arena->fd = -1;
    if (!na_sm_arena_is_mappable())
        return;
    if (na_sm_page_make(
            "hg-arena", NA_SM_ARENA_SIZE, read_only, &base, &arena->fd)) {
        arena->base = (unsigned char *) base;
        arena->punches = na_sm_arena_tries_punch(arena->base);
        (void) mprotect(base, NA_SM_ARENA_SIZE, PROT_NONE);
        (void) madvise(base, NA_SM_ARENA_SIZE, MADV_DONTDUMP);
    } else {
        hg_log_info(
            "sm", "no arena, so bulk memory is ordinary: %s", strerror(errno));
    }
}

HG_PRIVATE bool na_sm_arena_open(
    unsigned char *base, size_t *open_p, size_t end, int protection)
{
    if (HG_LIKELY(end <= *open_p))
        return true;
    end = (end + NA_SM_ARENA_STEP - 1) & ~(NA_SM_ARENA_STEP - 1);
    if (mprotect(base, end, protection) != 0)
        return false;
    *open_p = end;
    return true;
}

HG_PRIVATE struct na_sm_arenas *na_sm_arenas_create(void)
{
    struct na_sm_arenas *arenas =
        (struct na_sm_arenas *) hg_mem_calloc(1, sizeof(*arenas));
    unsigned i;

    if (arenas == NULL || hg_lock_init(&arenas->lock) != HG_SUCCESS) {
        hg_log_error("sm", "no memory for arenas");
        hg_mem_free(arenas);
        return NULL;
    }
    for (i = 0; i < NA_SM_ARENAS; i++)
        na_sm_arena_make(&arenas->arena[i], i == NA_SM_ARENA_READ_ONLY);
    arenas->pid = getpid();
    return arenas;
}

/* Release the lock, and free the arenas if the class is closed and no block is
 * left. */
static void na_sm_arenas_leave(struct na_sm_arenas *arenas)
{
    bool last = arenas->closed && arenas->blocks == 0;
    unsigned i;

    hg_unlock(&arenas->lock);
    if (!last)
        return;
    (void) pthread_mutex_destroy(&arenas->lock);
    for (i = 0; i < NA_SM_ARENAS; i++) {
        na_sm_page_unmap(arenas->arena[i].base, NA_SM_ARENA_SIZE);
        hg_mem_free(arenas->arena[i].used);
    }
    hg_mem_free(arenas);
}

HG_PRIVATE void na_sm_arenas_close(struct na_sm_arenas *arenas)
{
    unsigned i;

    if (arenas == NULL)
        return;
    hg_lock(&arenas->lock);
    HG_ASSERT(!arenas->closed);
    for (i = 0; i < NA_SM_ARENAS; i++) {
        if (arenas->arena[i].fd >= 0)
            (void) close(arenas->arena[i].fd);
        arenas->arena[i].fd = -1;
    }
    arenas->closed = true;
    na_sm_arenas_leave(arenas);
}

/* ---- Parts of a peer's arena ---- */

/* The pages that a block lies in. */
static unsigned char *na_sm_arena_pages(
    unsigned char *at, size_t size, size_t *length_p)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t lead = (uintptr_t) at % page;

    *length_p = (lead + size + page - 1) & ~(page - 1);
    return at - lead;
}

static void na_sm_arena_unmap(struct na_mem_block *block)
{
    size_t length;
    void *pages = na_sm_arena_pages(
        (unsigned char *) block->memory, (size_t) block->size, &length);

    na_sm_page_unmap(pages, length);
}

/* An old size of 0 makes a second mapping of shared memory. It inherits
 * MADV_DONTDUMP. */
HG_PRIVATE na_return_t na_sm_arena_map(unsigned char *base, uint64_t offset,
    size_t size, int protection, struct na_mem_block *block)
{
    unsigned char *at = base + offset;
    size_t length;
    unsigned char *pages = na_sm_arena_pages(at, size, &length);
    unsigned char *view =
        (unsigned char *) mremap(pages, 0, length, MREMAP_MAYMOVE);
    bool mapped = view != MAP_FAILED;

    HG_ASSERT(size > 0 && offset + size <= NA_SM_ARENA_SIZE);
    if (mapped && mprotect(view, length, protection) == 0) {
        block->memory = view + (at - pages);
        block->size = size;
        block->release = na_sm_arena_unmap;
        return NA_SUCCESS;
    }
    if (errno != ENOMEM && !mapped)
        return NA_OPNOTSUPPORT;
    hg_log_error("sm",
        "cannot map %zu bytes of a peer's: %s (the limit is vm.max_map_count)",
        size, strerror(errno));
    if (mapped)
        na_sm_page_unmap(view, length);
    return NA_NOMEM;
}

/* ---- Pages ---- */

/* The first run of `count` free pages; the lock is held. */
static bool na_sm_arena_search(
    const struct na_sm_arena *arena, size_t count, size_t *first_p)
{
    size_t first = 0;

    while (first + count <= NA_SM_ARENA_PAGES) {
        const unsigned char *at = arena->used + first;
        const unsigned char *end = (const unsigned char *) memchr(at, 1, count);

        if (end == NULL) {
            *first_p = first;
            return true;
        }
        first = (size_t) (end - arena->used);
        at = (const unsigned char *) memchr(end, 0, NA_SM_ARENA_PAGES - first);
        if (at == NULL)
            return false;
        first = (size_t) (at - arena->used);
    }
    return false;
}

/* Take the pages, and make them accessible. */
static bool na_sm_arena_take(
    struct na_sm_arena *arena, size_t count, size_t *first_p)
{
    size_t before = arena->open;

    if (!na_sm_arena_search(arena, count, first_p) ||
        !na_sm_arena_open(arena->base, &arena->open,
            (*first_p + count) * NA_SM_ARENA_PAGE, PROT_READ | PROT_WRITE))
        return false;
    if (arena->open > before)
        (void) madvise(arena->base, arena->open, MADV_DODUMP);
    memset(arena->used + *first_p, 1, count);
    return true;
}

/* Return the memory of pages to the system, if possible; then they read as
 * zeros. */
static bool na_sm_arena_punch(
    const struct na_sm_arena *arena, unsigned char *at, size_t size)
{
    return arena->punches && size >= NA_SM_ARENA_HOLE &&
        madvise(at, size, MADV_REMOVE) == 0;
}

/* ---- Blocks ---- */

/* The arena that an address lies in. */
static struct na_sm_arena *na_sm_arena_of(
    struct na_sm_arenas *arenas, const void *address)
{
    unsigned i;

    for (i = 0; i < NA_SM_ARENAS; i++) {
        struct na_sm_arena *arena = &arenas->arena[i];

        if (arena->base != NULL &&
            (uintptr_t) address - (uintptr_t) arena->base < NA_SM_ARENA_SIZE)
            return arena;
    }
    return NULL;
}

static size_t na_sm_arena_count(na_size_t size)
{
    return ((size_t) size + NA_SM_ARENA_PAGE - 1) / NA_SM_ARENA_PAGE;
}

/* Free a block. */
static void na_sm_arena_release(struct na_mem_block *block)
{
    struct na_sm_arenas *arenas = (struct na_sm_arenas *) block->owner;
    unsigned char *at = (unsigned char *) block->memory;
    struct na_sm_arena *arena = na_sm_arena_of(arenas, at);
    size_t count = na_sm_arena_count(block->size);

    if (getpid() != arenas->pid)
        return;
    HG_ASSERT(arena != NULL);
    (void) na_sm_arena_punch(arena, at, count * NA_SM_ARENA_PAGE);
    hg_lock(&arenas->lock);
    HG_ASSERT(arenas->blocks > 0);
    HG_ASSERT(arena->used != NULL && arena->fresh >= count);
    memset(
        arena->used + (size_t) (at - arena->base) / NA_SM_ARENA_PAGE, 0, count);
    arenas->blocks--;
    na_sm_arenas_leave(arenas);
}

HG_PRIVATE na_return_t na_sm_arena_alloc(struct na_sm_arenas *arenas,
    unsigned long flags, struct na_mem_block *block)
{
    struct na_sm_arena *arena =
        &arenas->arena[flags == NA_MEM_READ_ONLY ? NA_SM_ARENA_READ_ONLY
                                                 : NA_SM_ARENA_READ_WRITE];
    size_t count, first, size;
    size_t fresh = 0;
    unsigned char *at;
    bool found;

    if (arena->base == NULL || block->size == 0 ||
        block->size > NA_SM_ARENA_SIZE)
        return NA_NOMEM;
    count = na_sm_arena_count(block->size);
    hg_lock(&arenas->lock);
    if (arena->used == NULL)
        arena->used = (unsigned char *) hg_mem_calloc(NA_SM_ARENA_PAGES, 1);
    found = arena->used != NULL && na_sm_arena_take(arena, count, &first);
    if (found) {
        arenas->blocks++;
        fresh = arena->fresh;
        if (first + count > fresh)
            arena->fresh = first + count;
    }
    hg_unlock(&arenas->lock);
    if (!found)
        return NA_NOMEM;
    at = arena->base + first * NA_SM_ARENA_PAGE;
    if (first < fresh) {
        size =
            (first + count < fresh ? count : fresh - first) * NA_SM_ARENA_PAGE;
        if (!na_sm_arena_punch(arena, at, size))
            memset(at, 0, size);
    }
    block->memory = at;
    block->owner = arenas;
    block->release = na_sm_arena_release;
    return NA_SUCCESS;
}

HG_PRIVATE unsigned na_sm_arena_find(struct na_sm_arenas *arenas,
    const struct na_segment *segments, na_size_t count, uint64_t *offset_p)
{
    const struct na_sm_arena *arena =
        na_sm_arena_of(arenas, segments[0].address);
    uintptr_t left, end = (uintptr_t) segments[0].address;
    na_size_t i;

    if (arena == NULL)
        return NA_SM_ARENAS;
    *offset_p = end - (uintptr_t) arena->base;
    left = NA_SM_ARENA_SIZE - (uintptr_t) *offset_p;
    for (i = 0; i < count; i++) {
        if ((uintptr_t) segments[i].address != end || segments[i].size > left)
            return NA_SM_ARENAS;
        end += (uintptr_t) segments[i].size;
        left -= (uintptr_t) segments[i].size;
    }
    return (unsigned) (arena - arenas->arena);
}

HG_PRIVATE int na_sm_arena_fd(
    const struct na_sm_arenas *arenas, unsigned number)
{
    return arenas->arena[number].fd;
}

#endif
