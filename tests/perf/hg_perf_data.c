/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: clock, byte patterns and peak memory.
 *
 * The pattern of a byte depends on its offset in the whole transfer, so that a
 * comparison finds a piece at a wrong offset. Peak memory comes from /proc:
 * writing 5 to clear_refs sets the peak to the present size.
 *
 * Data is aligned to a page, as in the bare programs. The alignment matters: a
 * copy of 64 KiB can take five times as long if source and destination differ
 * by a few bytes in their offset within a page.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* RUSAGE_THREAD */
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hg_perf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

uint64_t perf_now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) +
        (uint64_t) now.tv_nsec;
}

uint64_t perf_sleeps(void)
{
#if defined(__linux__)
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) == 0)
        return (uint64_t) usage.ru_nvcsw;
#endif
    return 0;
}

void *perf_alloc(size_t size)
{
    void *memory = NULL;

    return posix_memalign(&memory, 4096, size) == 0 ? memory : NULL;
}

static uint64_t perf_word(uint64_t index)
{
    uint64_t x = index * UINT64_C(0x9e3779b97f4a7c15) + 1;

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

void perf_fill(void *buf, size_t size, uint64_t offset)
{
    unsigned char *bytes = (unsigned char *) buf;
    size_t at;

    for (at = 0; at < size; at += 8) {
        const uint64_t word = perf_word((offset + at) / 8);

        memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
    }
}

int perf_is_filled(const void *buf, size_t size, uint64_t offset)
{
    const unsigned char *bytes = (const unsigned char *) buf;
    size_t at;

    for (at = 0; at < size; at += 8) {
        const uint64_t word = perf_word((offset + at) / 8);

        if (memcmp(bytes + at, &word, size - at < 8 ? size - at : 8) != 0)
            return 0;
    }
    return 1;
}

static FILE *perf_open_proc(long pid, const char *file, const char *mode)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%ld/%s", pid, file);
    return fopen(path, mode);
}

int perf_memory_reset(long pid)
{
    FILE *file = perf_open_proc(pid, "clear_refs", "w");
    int rc;

    if (file == NULL)
        return -1;
    rc = fputs("5\n", file) < 0 ? -1 : 0;
    return fclose(file) != 0 ? -1 : rc;
}

int perf_memory(long pid, uint64_t *peak_p, uint64_t *now_p)
{
    FILE *file = perf_open_proc(pid, "status", "r");
    char line[128];
    uint64_t peak = 0;
    uint64_t now = 0;

    if (file == NULL)
        return -1;
    while (fgets(line, sizeof(line), file) != NULL) {
        (void) sscanf(line, "VmHWM: %" SCNu64, &peak);
        (void) sscanf(line, "VmRSS: %" SCNu64, &now);
    }
    (void) fclose(file);
    if (peak == 0 || now == 0)
        return -1;
    *peak_p = peak * 1024;
    *now_p = now * 1024;
    return 0;
}
