/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_perf: what GASNet costs, and NA below it.
 *
 *     gasnetrun_hg -n 2 [-a ADDRESS] gasnet_perf
 *     GASNET_HG_NEAR=0 gasnetrun_hg -n 2 gasnet_perf    without mapped segments
 *
 * Node 0 measures, node 1 serves it. A figure is the least of several batches.
 *
 *     round trips        get and put, blocking and not; active messages
 *     bandwidth          put and get of 128 KiB, 8 in flight
 *     time per message   many in flight
 *
 * These are the tables of the report that introduced GASNet. NA's columns are
 * the same operations on the same class: NA_Put() and NA_Get() of the segment,
 * and expected messages there and back. With another conduit, this file alone
 * is compiled, and there are no such columns.
 */
#define _GNU_SOURCE 1
#define GASNET_SEQ 1
#include "gasnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef GASNET_CONDUIT_HG
#include "gasnet_hg.h"
#define PERF_NA(function) function
#else
#define PERF_NA(function) NULL
#endif

#define PERF_BATCHES 31
#define PERF_BATCH_US 1000.0 /* what one takes at least */
#define PERF_MANY 100
#define PERF_DEPTH 8
#define PERF_BLOCK ((size_t) 128 << 10)
#define PERF_SEGMENT ((uintptr_t) 4 << 20)
#define PERF_TAG 100000u /* of messages of NA */
#define PERF_SMALL 32u   /* bytes of a message with a header */

enum { PERF_PING = 200, PERF_PONG, PERF_MEDIUM, PERF_MEDIUM_BACK, PERF_DO };
enum { PERF_STOP = 1, PERF_BARRIERS, PERF_ECHO };

static char *perf_there; /* the segment of node 1 */
static char *perf_here;  /* memory of this node */
static volatile int perf_replies, perf_wrong;
static volatile int perf_command, perf_count, perf_bytes;
static size_t perf_size; /* bytes of an operation */

/* ---- Handlers ---- */

static void perf_ping(gasnet_token_t token)
{
    (void) gasnet_AMReplyShort0(token, PERF_PONG);
}

static void perf_pong(gasnet_token_t token)
{
    (void) token;
    perf_replies++;
}

static void perf_medium(gasnet_token_t token, void *buf, size_t size)
{
    (void) gasnet_AMReplyMedium0(token, PERF_MEDIUM_BACK, buf, size);
}

static void perf_medium_back(gasnet_token_t token, void *buf, size_t size)
{
    (void) token;
    perf_wrong +=
        size != perf_size || memcmp(buf, perf_here, size < 8 ? size : 8) != 0;
    perf_replies++;
}

static void perf_do(gasnet_token_t token, gasnet_handlerarg_t command,
    gasnet_handlerarg_t count, gasnet_handlerarg_t bytes)
{
    (void) token;
    perf_count = count;
    perf_bytes = bytes;
    perf_command = command;
}

/* ---- What is measured: `count` operations of perf_size bytes ---- */

static void perf_get(int count)
{
    while (count-- > 0)
        gasnet_get(perf_here, 1, perf_there, perf_size);
}

static void perf_put(int count)
{
    while (count-- > 0)
        gasnet_put(1, perf_there, perf_here, perf_size);
}

/* The sizes of most programs are constants. */
static void perf_get_8(int count)
{
    while (count-- > 0)
        gasnet_get(perf_here, 1, perf_there, 8);
}

static void perf_put_8(int count)
{
    while (count-- > 0)
        gasnet_put(1, perf_there, perf_here, 8);
}

static void perf_get_nb(int count)
{
    while (count-- > 0)
        gasnet_wait_syncnb(gasnet_get_nb(perf_here, 1, perf_there, perf_size));
}

static void perf_put_nb(int count)
{
    while (count-- > 0)
        gasnet_wait_syncnb(gasnet_put_nb(1, perf_there, perf_here, 8));
}

/* PERF_MANY operations, and one wait. */
static void perf_put_nbi(int count)
{
    int i;

    while (count-- > 0) {
        for (i = 0; i < PERF_MANY; i++)
            gasnet_put_nbi(1, perf_there + 8 * i, perf_here + 8 * i, 8);
        gasnet_wait_syncnbi_puts();
    }
}

static void perf_short(int count)
{
    while (count-- > 0) {
        int next = perf_replies + 1;

        (void) gasnet_AMRequestShort0(1, PERF_PING);
        GASNET_BLOCKUNTIL(perf_replies == next);
    }
}

static void perf_shorts(int count)
{
    int i;

    while (count-- > 0) {
        int last = perf_replies + PERF_MANY;

        for (i = 0; i < PERF_MANY; i++)
            (void) gasnet_AMRequestShort0(1, PERF_PING);
        GASNET_BLOCKUNTIL(perf_replies == last);
    }
}

static void perf_mediums(int count)
{
    while (count-- > 0) {
        int next = perf_replies + 1;

        (void) gasnet_AMRequestMedium0(1, PERF_MEDIUM, perf_here, perf_size);
        GASNET_BLOCKUNTIL(perf_replies == next);
    }
}

static void perf_tell(int command, int count)
{
    (void) gasnet_AMRequestShort3(1, PERF_DO, command, count, (int) perf_size);
}

static void perf_run_barriers(int count)
{
    while (count-- > 0)
        (void) gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
}

static void perf_barriers(int count)
{
    perf_tell(PERF_BARRIERS, count);
    perf_run_barriers(count);
}

/* PERF_DEPTH blocks in flight. */
static void perf_flood(int count, int is_put)
{
    gasnet_handle_t handles[PERF_DEPTH] = {GASNET_INVALID_HANDLE};
    int i;

    for (i = 0; i < count; i++) {
        gasnet_handle_t *handle = &handles[i % PERF_DEPTH];
        char *there = perf_there + (size_t) (i % PERF_DEPTH) * PERF_BLOCK;
        char *here = perf_here + (size_t) (i % PERF_DEPTH) * PERF_BLOCK;

        gasnet_wait_syncnb(*handle);
        *handle = is_put ? gasnet_put_nb_bulk(1, there, here, PERF_BLOCK)
                         : gasnet_get_nb_bulk(here, 1, there, PERF_BLOCK);
    }
    gasnet_wait_syncnb_all(handles, PERF_DEPTH);
}

static void perf_flood_put(int count)
{
    perf_flood(count, 1);
}

static void perf_flood_get(int count)
{
    perf_flood(count, 0);
}

#ifdef GASNET_CONDUIT_HG

/* ---- The same with NA ---- */

static na_mem_handle_t perf_local;
static volatile int perf_pending; /* operations of NA */

static void perf_na_open(void)
{
    if (NA_Mem_handle_create(gasnet_hg.boot.na_class, perf_here, PERF_SEGMENT,
            NA_MEM_READWRITE, &perf_local) != NA_SUCCESS)
        gasnet_exit(1);
}

static na_return_t perf_done(const struct na_cb_info *info)
{
    if (info->ret != NA_SUCCESS)
        gasnet_hg_fatal("gasnet_perf: %s", NA_Error_to_string(info->ret));
    perf_pending--;
    return NA_SUCCESS;
}

static void perf_na_wait(int pending)
{
    while (perf_pending > pending)
        if (NA_Progress(gasnet_hg.boot.na_class, gasnet_hg.boot.context, 0) ==
            NA_SUCCESS)
            (void) NA_Trigger(gasnet_hg.boot.context, 0, 16, NULL);
}

static void perf_na_start(bool is_put, size_t at, size_t size)
{
    const struct gasnet_hg_peer *peer = &gasnet_hg.peers[1];
    na_return_t ret = (is_put ? NA_Put : NA_Get)(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, perf_done, NULL, perf_local, at, peer->memory,
        (uintptr_t) perf_there + at - peer->start, size, peer->addr,
        NA_OP_ID_IGNORE);

    if (ret != NA_SUCCESS)
        gasnet_hg_fatal("gasnet_perf: %s", NA_Error_to_string(ret));
    perf_pending++;
}

static void perf_na_put(int count)
{
    while (count-- > 0) {
        perf_na_start(true, 0, perf_size);
        perf_na_wait(0);
    }
}

static void perf_na_get(int count)
{
    while (count-- > 0) {
        perf_na_start(false, 0, perf_size);
        perf_na_wait(0);
    }
}

static void perf_na_puts(int count)
{
    int i;

    while (count-- > 0) {
        for (i = 0; i < PERF_MANY; i++)
            perf_na_start(true, (size_t) (8 * i), perf_size);
        perf_na_wait(0);
    }
}

static void perf_na_flood(int count, bool is_put)
{
    int i;

    for (i = 0; i < count; i++) {
        perf_na_wait(PERF_DEPTH - 1);
        perf_na_start(
            is_put, (size_t) (i % PERF_DEPTH) * PERF_BLOCK, PERF_BLOCK);
    }
    perf_na_wait(0);
}

static void perf_na_flood_put(int count)
{
    perf_na_flood(count, true);
}

static void perf_na_flood_get(int count)
{
    perf_na_flood(count, false);
}

/* A message there and back, `count` times; node 0 sends first. */
static void perf_na_echo_side(int count, size_t size, gasnet_node_t peer)
{
    na_class_t *na_class = gasnet_hg.boot.na_class;
    na_context_t *context = gasnet_hg.boot.context;
    na_addr_t addr = gasnet_hg.boot.addrs[peer];
    static char in[65536], out[65536];

    while (count-- > 0) {
        int turn;

        for (turn = 0; turn < 2; turn++)
            if ((turn == 0) == (peer == 1)) {
                perf_pending++;
                (void) NA_Msg_send_expected(na_class, context, perf_done, NULL,
                    out, size, addr, PERF_TAG, NA_OP_ID_IGNORE);
            } else {
                perf_pending++;
                (void) NA_Msg_recv_expected(na_class, context, perf_done, NULL,
                    in, sizeof(in), addr, PERF_TAG, NA_OP_ID_IGNORE);
                perf_na_wait(0);
            }
    }
    perf_na_wait(0);
}

static void perf_na_echo(int count)
{
    perf_tell(PERF_ECHO, count);
    perf_na_echo_side(count, perf_size, 1);
}

#endif

/* ---- Batches ---- */

static double perf_now_us(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

/* Microseconds of a batch: the least of some. */
static double perf_least(void (*run)(int count), int count, int batches)
{
    double least = 0, start, us;

    while (batches-- > 0) {
        start = perf_now_us();
        run(count);
        us = perf_now_us() - start;
        if (least == 0 || us < least)
            least = us;
    }
    return least;
}

/* Microseconds of one operation. A process that loses its processor may make
 * some batches longer, but not all. */
static double perf_measure(void (*run)(int count), size_t size)
{
    int count = 1;

    perf_size = size;
    while (count < 1 << 24 && perf_least(run, count, 3) < PERF_BATCH_US)
        count *= 2;
    return perf_least(run, count, PERF_BATCHES) / count;
}

static void perf_row(const char *name, void (*run)(int), void (*na)(int),
    size_t size, size_t na_size)
{
    (void) printf("%-34s %10.4f", name, perf_measure(run, size));
    if (na != NULL)
        (void) printf(" %10.4f", perf_measure(na, na_size));
    (void) printf("\n");
    (void) fflush(stdout);
}

static void perf_bandwidth(const char *name, void (*run)(int), void (*na)(int))
{
    (void) printf("%-34s %10.0f", name,
        (double) PERF_BLOCK / perf_measure(run, PERF_BLOCK));
    if (na != NULL)
        (void) printf(
            " %10.0f", (double) PERF_BLOCK / perf_measure(na, PERF_BLOCK));
    (void) printf("\n");
    (void) fflush(stdout);
}

/* Check that the operations that are measured move the data. */
static void perf_verify(void)
{
    static const size_t sizes[] = {8, 4096, 1 << 20, 8 * PERF_MANY};
    char *back = (char *) malloc(sizes[2]);
    size_t i, j;

    for (i = 0; back != NULL && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (j = 0; j < sizes[i]; j++)
            perf_here[j] = (char) (j * 7 + j / 256 + i);
        if (i == 3)
            perf_put_nbi(1);
        else
            gasnet_put(1, perf_there, perf_here, sizes[i]);
        gasnet_get(back, 1, perf_there, sizes[i]);
        perf_wrong += memcmp(back, perf_here, sizes[i]) != 0;
    }
    perf_wrong += back == NULL;
    free(back);
}

static void perf_all(void)
{
#ifdef GASNET_CONDUIT_HG
    (void) printf("%s, %s segments, least of %d batches\n\n",
        NA_Get_class_name(gasnet_hg.boot.na_class),
        gasnet_hg_shifts[1] != GASNET_HG_FAR ? "mapped" : "remote",
        PERF_BATCHES);
#endif
    (void) printf("%-34s %10s %10s\n", "microseconds", "GASNet", "NA");
    perf_row("get 8 B", perf_get_8, PERF_NA(perf_na_get), 8, 8);
    perf_row("put 8 B", perf_put_8, PERF_NA(perf_na_put), 8, 8);
    perf_row("get_nb and wait 8 B", perf_get_nb, PERF_NA(perf_na_get), 8, 8);
    perf_row("put_nb and wait 8 B", perf_put_nb, PERF_NA(perf_na_put), 8, 8);
    perf_row("get 4 KiB", perf_get, PERF_NA(perf_na_get), 4096, 4096);
    perf_row("put 4 KiB", perf_put, PERF_NA(perf_na_put), 4096, 4096);
    perf_row("put 1 MiB", perf_put, PERF_NA(perf_na_put), 1 << 20, 1 << 20);
    perf_row("AM short, round trip", perf_short, PERF_NA(perf_na_echo), 0,
        PERF_SMALL);
    perf_row("AM medium 512 B, round trip", perf_mediums, PERF_NA(perf_na_echo),
        512, 512 + PERF_SMALL);
    perf_row("AM medium 4 KiB, round trip", perf_mediums, PERF_NA(perf_na_echo),
        4096, 4096 + PERF_SMALL);
    perf_row(
        "100 put_nbi 8 B, one wait", perf_put_nbi, PERF_NA(perf_na_puts), 8, 8);
    perf_row("100 AM short, all replies", perf_shorts, NULL, 0, 0);
    perf_row("barrier", perf_barriers, NULL, 0, 0);
    (void) printf(
        "\n%-34s %10s %10s\n", "MB/s, 128 KiB, 8 in flight", "GASNet", "NA");
    perf_bandwidth("put_nb_bulk", perf_flood_put, PERF_NA(perf_na_flood_put));
    perf_bandwidth("get_nb_bulk", perf_flood_get, PERF_NA(perf_na_flood_get));
}

/* Node 1: do what node 0 says. */
static void perf_serve(void)
{
    while (perf_command != PERF_STOP) {
        int command;

        GASNET_BLOCKUNTIL(perf_command != 0);
        command = perf_command;
        if (command != PERF_STOP)
            perf_command = 0;
        if (command == PERF_BARRIERS)
            perf_run_barriers(perf_count);
#ifdef GASNET_CONDUIT_HG
        else if (command == PERF_ECHO)
            perf_na_echo_side(perf_count, (size_t) perf_bytes, 0);
#endif
    }
}

int main(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {{PERF_PING, (void (*)()) perf_ping},
        {PERF_PONG, (void (*)()) perf_pong},
        {PERF_MEDIUM, (void (*)()) perf_medium},
        {PERF_MEDIUM_BACK, (void (*)()) perf_medium_back},
        {PERF_DO, (void (*)()) perf_do}};
    gasnet_seginfo_t segments[2];

    if (gasnet_init(&argc, &argv) != GASNET_OK ||
        gasnet_attach(table, 5, PERF_SEGMENT, 0) != GASNET_OK)
        return 1;
    if (gasnet_nodes() != 2) {
        (void) fprintf(stderr, "usage: gasnetrun_hg -n 2 gasnet_perf\n");
        gasnet_exit(2);
    }
    (void) gasnet_getSegmentInfo(segments, 2);
    perf_there = (char *) segments[1].addr;
    perf_here = (char *) calloc(1, PERF_SEGMENT);
    if (perf_here == NULL)
        gasnet_exit(1);
#ifdef GASNET_CONDUIT_HG
    perf_na_open();
#endif
    (void) gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (gasnet_mynode() == 0) {
        perf_verify();
        perf_all();
        if (perf_wrong != 0)
            (void) fprintf(stderr, "gasnet_perf: wrong data\n");
        perf_tell(PERF_STOP, 0);
    } else
        perf_serve();
    (void) gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(perf_wrong != 0);
}
