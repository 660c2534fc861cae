/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas of the transport sm: pages are handed out once, zeroed and aligned;
 * they are returned, and outlive the class. If the system provides no arena,
 * the memory is ordinary.
 */
#include "support/library.h"

#include "harness.h"

#if HG_ENABLE_SM

#include <sys/wait.h>

#include <sys/syscall.h>

#define ARENA_MIB ((size_t) 1 << 20)

/* qemu-user: MADV_REMOVE has no effect, and reports success. */
static bool arena_system_lies;

int madvise(void *memory, size_t size, int advice)
{
    if (arena_system_lies && advice == MADV_REMOVE)
        return 0;
    return (int) syscall(SYS_madvise, memory, size, advice);
}

static struct na_mem_block arena_get(
    struct na_sm_arenas *arenas, unsigned long flags, size_t size)
{
    struct na_mem_block block = {NULL, size, NULL, NULL};
    size_t i;

    HG_CHECK_OK(na_sm_arena_alloc(arenas, flags, &block));
    HG_CHECK(block.release != NULL && block.size == size);
    HG_CHECK_EQ_U64((uintptr_t) block.memory % NA_SM_ARENA_PAGE, 0);
    for (i = 0; i < size; i += size < 4 * ARENA_MIB ? 1 : 511)
        HG_CHECK(((unsigned char *) block.memory)[i] == 0);
    HG_CHECK(((unsigned char *) block.memory)[size - 1] == 0);
    return block;
}

static void arena_put(struct na_mem_block *block)
{
    block->release(block);
    memset(block, 0, sizeof(*block));
}

static uint32_t arena_where(struct na_sm_arenas *arenas,
    const struct na_mem_block *block, uint64_t *offset_p)
{
    struct na_segment segment = {block->memory, block->size};

    return na_sm_arena_find(arenas, &segment, 1, offset_p);
}

/* Pages of a mapping that have memory. */
static size_t arena_resident(const void *at, size_t size)
{
    static unsigned char pages[1 << 16];
    size_t count = size / 4096, n = 0, i;

    HG_CHECK(count <= sizeof(pages));
    HG_CHECK(mincore((void *) (uintptr_t) at, size, pages) == 0);
    for (i = 0; i < count; i++)
        n += pages[i] & 1;
    return n;
}

HG_TEST(arena_blocks_of_many_sizes_never_overlap)
{
    enum { BLOCKS = 64 };
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block blocks[BLOCKS];
    uint64_t random = hg_test_seed();
    unsigned i, k;

    HG_CHECK(arenas != NULL);
    memset(blocks, 0, sizeof(blocks));
    for (i = 0; i < 4000; i++) {
        struct na_mem_block *block = &blocks[hg_test_random(&random) % BLOCKS];
        uint64_t pick = hg_test_random(&random);
        size_t size = 1 + (size_t) (pick % (pick % 32 == 0 ? 300000 : 20000));

        if (block->memory != NULL) {
            /* No other block was written into it, as one that overlaps would
             * be. */
            unsigned char mark = (unsigned char) (block - blocks + 1);

            for (k = 0; k < block->size; k += 4096)
                HG_CHECK(((unsigned char *) block->memory)[k] == mark);
            arena_put(block);
        } else {
            *block = arena_get(
                arenas, pick & 64 ? NA_MEM_READ_ONLY : NA_MEM_READWRITE, size);
            memset(block->memory, (int) (block - blocks + 1), size);
        }
    }
    for (i = 0; i < BLOCKS; i++) {
        if (blocks[i].memory != NULL)
            arena_put(&blocks[i]);
    }
    for (i = 0; i < NA_SM_ARENAS; i++)
        HG_CHECK(memchr(arenas->arena[i].used, 1, NA_SM_ARENA_PAGES) == NULL);
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_can_be_filled_to_its_last_page)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block first, last, other, small, more;

    memset(&first, 0, sizeof(first));
    first.size = NA_SM_ARENA_SIZE - 4096;
    HG_CHECK_OK(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &first));
    last = arena_get(arenas, NA_MEM_WRITE_ONLY, 4096);
    HG_CHECK(last.memory == (char *) first.memory + first.size);
    memset(&more, 0, sizeof(more));
    more.size = 1;
    HG_CHECK_RET(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &more), NA_NOMEM);
    other = arena_get(arenas, NA_MEM_READ_ONLY, 1);
    arena_put(&last);
    small = arena_get(arenas, NA_MEM_READWRITE, 4000);
    HG_CHECK(small.memory == (char *) first.memory + first.size);
    arena_put(&first);
    first = arena_get(arenas, NA_MEM_READWRITE, 2 * ARENA_MIB);
    more = arena_get(arenas, NA_MEM_READWRITE, 3 * ARENA_MIB);
    HG_CHECK(more.memory == (char *) first.memory + first.size);
    arena_put(&more);
    arena_put(&first);
    arena_put(&other);
    arena_put(&small);
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_reused_block_is_zeroed)
{
    static const unsigned long flags[] = {NA_MEM_READWRITE, NA_MEM_READ_ONLY};
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    size_t i, size;

    for (i = 0; i < 2; i++) {
        for (size = 1; size <= 4 * ARENA_MIB; size *= 4) {
            struct na_mem_block block = arena_get(arenas, flags[i], size);
            char *at = (char *) block.memory;

            memset(at, 0x5a, size);
            arena_put(&block);
            if (size < ARENA_MIB)
                at[size / 2] = 0x5a; /* a peer may still write there */
            block = arena_get(arenas, flags[i], size);
            HG_CHECK(block.memory == at);
            arena_put(&block);
        }
    }
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_reused_block_is_zeroed_if_the_system_keeps_it)
{
    struct na_sm_arenas *arenas;
    struct na_mem_block block;
    void *at;

    arena_system_lies = true;
    arenas = na_sm_arenas_create();
    block = arena_get(arenas, NA_MEM_READWRITE, 4 * ARENA_MIB);
    at = block.memory;
    memset(at, 0x5a, block.size);
    arena_put(&block);
    block = arena_get(arenas, NA_MEM_READWRITE, 4 * ARENA_MIB);
    HG_CHECK(block.memory == at);
    arena_put(&block);
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_returns_large_blocks_to_the_system)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block large =
        arena_get(arenas, NA_MEM_READWRITE, 8 * ARENA_MIB);
    struct na_mem_block fresh;
    unsigned char *at = (unsigned char *) large.memory;

    memset(at, 1, large.size);
    HG_CHECK_EQ_U64(arena_resident(at, large.size), 2048);
    arena_put(&large);
    HG_CHECK_EQ_U64(arena_resident(at, 8 * ARENA_MIB), 0);
    /* Memory known to be zero is not touched. */
    fresh.size = 8 * ARENA_MIB;
    HG_CHECK_OK(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &fresh));
    HG_CHECK(fresh.memory == at);
    HG_CHECK_EQ_U64(arena_resident(at, 8 * ARENA_MIB), 0);
    HG_CHECK(at[4 * ARENA_MIB] == 0);
    arena_put(&fresh);
    na_sm_arenas_close(arenas);
}

static void *arena_use_large(void *arg)
{
    struct na_sm_arenas *arenas = (struct na_sm_arenas *) arg;
    unsigned round;
    size_t k;

    for (round = 0; round < 300; round++) {
        struct na_mem_block block = {NULL, ARENA_MIB, NULL, NULL};
        volatile unsigned char *bytes;

        HG_CHECK_OK(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block));
        bytes = (volatile unsigned char *) block.memory;
        for (k = 0; k < block.size; k += 4096) {
            HG_CHECK(bytes[k] == 0);
            bytes[k] = 1;
        }
        for (k = 0; k < block.size; k += 4096)
            HG_CHECK(bytes[k] == 1);
        arena_put(&block);
    }
    return NULL;
}

/* Returning memory does not affect the block that uses its pages next. */
HG_TEST(arena_returns_pages_that_no_peer_has_mapped)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    pthread_t threads[3];
    unsigned i;

    HG_CHECK(arenas != NULL);
    for (i = 0; i < 3; i++)
        HG_CHECK(!pthread_create(&threads[i], NULL, arena_use_large, arenas));
    for (i = 0; i < 3; i++)
        HG_CHECK(!pthread_join(threads[i], NULL));
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_of_read_only_memory_cannot_be_mapped_writable)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block block = arena_get(arenas, NA_MEM_READ_ONLY, 100);
    struct na_mem_block other = arena_get(arenas, NA_MEM_READWRITE, 100);
    size_t size = NA_SM_ARENA_SIZE;
    uint64_t offset = 1;
    void *view;
    char path[64];
    int fd, again;

    HG_CHECK_EQ_INT(
        arena_where(arenas, &block, &offset), NA_SM_ARENA_READ_ONLY);
    HG_CHECK_EQ_U64(offset, 0);
    HG_CHECK_EQ_INT(
        arena_where(arenas, &other, &offset), NA_SM_ARENA_READ_WRITE);
    fd = na_sm_arena_fd(arenas, NA_SM_ARENA_READ_ONLY);
    view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HG_CHECK(view == MAP_FAILED);
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0) {
        view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
        HG_CHECK(view == MAP_FAILED);
        HG_CHECK_EQ_INT(pwrite(again, "x", 1, 0), -1);
        (void) close(again);
    }
    HG_CHECK_EQ_INT(pwrite(fd, "x", 1, 0), -1);
    HG_CHECK_EQ_INT(ftruncate(fd, 0), -1);
    view = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    HG_CHECK(view != MAP_FAILED);
    HG_CHECK(mprotect(view, size, PROT_READ | PROT_WRITE) != 0);
    memcpy(block.memory, "seen", 5);
    HG_CHECK_EQ_STR((const char *) view, "seen");
    HG_CHECK(munmap(view, size) == 0);
    /* The other kind can, or these were no tests. */
    fd = na_sm_arena_fd(arenas, NA_SM_ARENA_READ_WRITE);
    view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HG_CHECK(view != MAP_FAILED);
    HG_CHECK(munmap(view, size) == 0);
    arena_put(&block);
    arena_put(&other);
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_finds_segments_that_are_contiguous)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block one = arena_get(arenas, NA_MEM_READWRITE, 10000);
    struct na_mem_block two = arena_get(arenas, NA_MEM_READWRITE, 10000);
    char *at = (char *) two.memory;
    struct na_segment segments[3] = {
        {at + 10, 100}, {at + 110, 0}, {at + 110, 9890}};
    struct na_segment outside = {segments, sizeof(segments)};
    uint64_t offset = 0;

    HG_CHECK_EQ_INT(
        na_sm_arena_find(arenas, segments, 3, &offset), NA_SM_ARENA_READ_WRITE);
    HG_CHECK_EQ_U64(offset, 3 * 4096 + 10);
    segments[2].address = at + 111;
    HG_CHECK_EQ_INT(
        na_sm_arena_find(arenas, segments, 3, &offset), NA_SM_ARENAS);
    segments[2].address = at + 110;
    segments[2].size = NA_SM_ARENA_SIZE; /* past the end */
    HG_CHECK_EQ_INT(
        na_sm_arena_find(arenas, segments, 3, &offset), NA_SM_ARENAS);
    segments[2].size = SIZE_MAX;
    HG_CHECK_EQ_INT(
        na_sm_arena_find(arenas, segments, 3, &offset), NA_SM_ARENAS);
    HG_CHECK_EQ_INT(
        na_sm_arena_find(arenas, &outside, 1, &offset), NA_SM_ARENAS);
    arena_put(&one);
    arena_put(&two);
    na_sm_arenas_close(arenas);
}

HG_TEST(arena_blocks_outlive_the_set)
{
    unsigned fds = hg_test_fd_count();
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block one = arena_get(arenas, NA_MEM_READWRITE, 5000);
    struct na_mem_block two = arena_get(arenas, NA_MEM_READ_ONLY, 2 << 20);

    HG_CHECK_EQ_INT(hg_test_fd_count(), fds + 2);
    memset(one.memory, 7, one.size);
    na_sm_arenas_close(arenas);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    memset(two.memory, 7, two.size);
    HG_CHECK_EQ_INT(((char *) one.memory)[4999], 7);
    arena_put(&one);
    HG_CHECK_EQ_INT(((char *) two.memory)[0], 7);
    /* Now the memory is gone: sanitizers would report a leak. */
    arena_put(&two);
}

/* No descriptor, no space for files, a limit of the address space. */
HG_TEST(arena_creation_failures_are_handled)
{
    static const __rlimit_resource_t limits[] = {
        RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS};
    struct na_mem_block block = {NULL, 100, NULL, NULL};
    struct na_sm_arenas *arenas;
    struct rlimit limit, low;
    unsigned fds = hg_test_fd_count(), i;
    uint64_t offset;

    for (i = 0; i < 3; i++) {
        HG_CHECK(getrlimit(limits[i], &limit) == 0);
        low = limit;
        low.rlim_cur = i == 0 ? NA_SM_ARENA_SIZE - 1
            : i == 1          ? 0
                              : (rlim_t) 1 << 46;
        if (i == 2 && !hg_test_is_plain()) /* sanitizers need more */
            continue;
        HG_CHECK(setrlimit(limits[i], &low) == 0);
        arenas = na_sm_arenas_create();
        HG_CHECK(setrlimit(limits[i], &limit) == 0);
        HG_CHECK_RET(
            na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block), NA_NOMEM);
        HG_CHECK_RET(
            na_sm_arena_alloc(arenas, NA_MEM_READ_ONLY, &block), NA_NOMEM);
        HG_CHECK_EQ_INT(arena_where(arenas, &block, &offset), NA_SM_ARENAS);
        HG_CHECK_EQ_INT(na_sm_arena_fd(arenas, 0), -1);
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
        na_sm_arenas_close(arenas);
    }
    arenas = na_sm_arenas_create();
    block.size = 0;
    HG_CHECK_RET(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block), NA_NOMEM);
    block.size = NA_SM_ARENA_SIZE + UINT64_C(1);
    HG_CHECK_RET(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block), NA_NOMEM);
    block.size = UINT64_MAX;
    HG_CHECK_RET(na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block), NA_NOMEM);
    na_sm_arenas_close(arenas);
}

static int arena_oom_body(void *arg)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block block = {NULL, 100, NULL, NULL};
    na_return_t ret;

    (void) arg;
    if (arenas == NULL)
        return 1;
    ret = na_sm_arena_alloc(arenas, NA_MEM_READWRITE, &block);
    if (ret == NA_SUCCESS)
        arena_put(&block);
    na_sm_arenas_close(arenas);
    return ret == NA_SUCCESS ? 0 : 1;
}

HG_TEST(arena_survives_allocation_failures)
{
    hg_test_alloc_install();
    HG_CHECK_EQ_INT(hg_test_oom_loop(arena_oom_body, NULL), 2);
}

/* In the child of a fork the blocks belong to the parent: returning one there
 * does not affect the parent. */
HG_TEST(arena_is_unusable_in_a_child)
{
    struct na_sm_arenas *arenas = na_sm_arenas_create();
    struct na_mem_block block =
        arena_get(arenas, NA_MEM_READWRITE, 2 * ARENA_MIB);
    int status = -1;
    pid_t child;

    memset(block.memory, 9, block.size);
    child = fork();
    if (child == 0) {
        arena_put(&block);
        _exit(0);
    }
    HG_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    HG_CHECK_EQ_INT(((char *) block.memory)[ARENA_MIB], 9);
    HG_CHECK_EQ_INT(((char *) block.memory)[0], 9);
    arena_put(&block);
    na_sm_arenas_close(arenas);
}

#endif
