/* SPDX-License-Identifier: BSD-3-Clause */
/* old: version 0.4: gasnet_init() with seven arguments, a given segment. */
#define _GNU_SOURCE
#define GASNET_SEQ 1
#include "jobs.h"

#include <sys/mman.h>

static _Alignas(GASNET_PAGESIZE) char old_segment[4 * GASNET_PAGESIZE];

static void old_handler(gasnet_token_t token)
{
    (void) token;
}

static void old_run(int argc, char *argv[], void *base, int honoured)
{
    gasnet_handlerentry_t table[] = {HANDLER(200, old_handler)};
    gasnet_node_t peer;
    gasnet_seginfo_t info[8];
    int i;

    CHECK(gasnet_getMaxNativeSegmentSize() > 0);
    CHECK(gasnet_init(&argc, &argv, table, 1, base, sizeof(old_segment), 0) ==
        GASNET_OK);
    CHECK(gasnet_init(&argc, &argv, table, 1, base, sizeof(old_segment), 0) !=
        GASNET_OK);
    CHECK(gasnet_getSegmentInfo(info, 8) == GASNET_OK);
    CHECK((info[gasnet_mynode()].addr == base) == honoured);
    CHECK(info[gasnet_mynode()].size == sizeof(old_segment));
    peer = (gasnet_mynode() + 1) % gasnet_nodes();
    gasnet_barrier_notify(1);
    CHECK(gasnet_barrier_wait(1) == GASNET_OK);
    gasnet_put_val(peer, (char *) info[peer].addr + 100, 77, 1);
    gasnet_barrier_notify(GASNET_ANONYMOUS_BARRIER);
    CHECK(gasnet_barrier_wait(GASNET_ANONYMOUS_BARRIER) == GASNET_OK);
    i = ((char *) info[gasnet_mynode()].addr)[100];
    CHECK(i == 77);
    gasnet_barrier_notify(2);
    CHECK(gasnet_barrier_wait(2) == GASNET_OK);
    gasnet_exit(0);
}

/* The program's own memory is the segment. */
static void old_given(int argc, char *argv[])
{
    old_run(argc, argv, old_segment, 1);
}

/* A place where no memory is: the library chooses another. */
static void old_absent(int argc, char *argv[])
{
    size_t size = (size_t) 1 << 38; /* TSan has no terabyte */
    char *base = (char *) mmap(NULL, size, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK((void *) base != MAP_FAILED && munmap(base, size) == 0);
    old_run(argc, argv, base + size / 2, 0); /* nothing else comes there */
}

static void old_any(int argc, char *argv[])
{
    old_run(argc, argv, GASNET_SEGBASE_ANY, 0);
}

const struct jobs_case jobs_old[] = {{"old_given", old_given},
    {"old_absent", old_absent}, {"old_any", old_any}, {NULL, NULL}};
