/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_page: see sm_page.h. */
#include "na/sm_page.h"

#if HG_ENABLE_SM

#include "base/log.h"

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
    NA_SM_STEP();
    if (ftruncate(fd, (off_t) size) != 0)
        goto close_fd;
    NA_SM_STEP();
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        goto close_fd;
    NA_SM_STEP();
    if (fcntl(fd, F_ADD_SEALS, NA_SM_PAGE_SEALS) != 0)
        goto unmap;
    NA_SM_STEP();
    given = read_only ? na_sm_page_weaken(fd) : fd;
    if (given < 0)
        goto unmap;
    NA_SM_STEP();
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
    NA_SM_STEP();
    *memory_p = memory;
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_page_unmap(const void *memory, size_t size)
{
    NA_SM_STEP();
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
        NA_SM_STEP();
        atomic_fetch_and(&hints->summary[n], ~bit);
        NA_SM_STEP();
        if (atomic_load(&hints->bits[n * 64 + w]) != 0)
            atomic_fetch_or(&hints->summary[n], bit);
        else
            words &= ~bit;
    }
    return words;
}

#endif
