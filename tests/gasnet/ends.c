/* SPDX-License-Identifier: BSD-3-Clause */
/* ends: jobs that tests/gasnetrun ends: nodes that are killed, and nodes that
 * call gasnet_exit() while others are elsewhere. */
#define _XOPEN_SOURCE 700
#define GASNET_SEQ 1
#include "jobs.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static volatile unsigned ends_count;

static void ends_ping(gasnet_token_t token)
{
    (void) token;
    ends_count++;
}

static void ends_bye(gasnet_token_t token, gasnet_handlerarg_t code)
{
    (void) token;
    gasnet_exit(code);
}

/* Send messages, move data, meet in barriers. It does not return. */
static void ends_work(void)
{
    gasnet_node_t next = (gasnet_mynode() + 1) % gasnet_nodes();
    gasnet_seginfo_t info[16];
    long value = 1;

    CHECK(gasnet_getSegmentInfo(info, 16) == GASNET_OK);
    for (;;) {
        CHECK(gasnet_AMRequestShort0(next, 200) == GASNET_OK);
        gasnet_put(next, info[next].addr, &value, sizeof(value));
        BARRIER();
    }
}

static void ends_start(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {
        HANDLER(200, ends_ping), HANDLER(201, ends_bye)};

    START(table, 2, GASNET_PAGESIZE);
}

/* Each node prints its process, and works until it is killed. */
static void ends_runs(int argc, char *argv[])
{
    ends_start(argc, argv);
    printf("%u %ld\n", gasnet_mynode(), (long) getpid());
    (void) fflush(stdout);
    ends_work();
}

/* signal NUMBER: for which the program has no handler. It ends with 5 if the
 * signal is ignored. */
static void ends_signal(int argc, char *argv[])
{
    CHECK(argc > 1);
    ends_start(argc, argv);
    CHECK(raise((int) strtol(argv[1], NULL, 10)) == 0);
    _exit(5);
}

static void ends_on_quit(int number)
{
    (void) number;
    gasnet_exit(9);
}

/* The peer dies: this node, without a launcher, gets SIGQUIT. */
static void ends_survives(int argc, char *argv[])
{
    ends_start(argc, argv);
    CHECK(signal(SIGQUIT, ends_on_quit) != SIG_ERR);
    BARRIER();
    if (gasnet_mynode() == 0)
        _exit(7);
    for (;;)
        CHECK(gasnet_AMPoll() == GASNET_OK);
}

static void ends_on_alarm(int number)
{
    (void) number;
    (void) raise(SIGQUIT);
}

/* Node 0 gets SIGQUIT inside gasnet_attach(), which waits for the others. */
static void ends_attaches(int argc, char *argv[])
{
    const struct itimerval time = {{0, 0}, {0, 100000}};

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    if (gasnet_mynode() != 0)
        for (;;)
            (void) pause();
    CHECK(signal(SIGALRM, ends_on_alarm) != SIG_ERR);
    CHECK(setitimer(ITIMER_REAL, &time, NULL) == 0);
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) == GASNET_OK);
}

/* exits WAY: how the nodes call gasnet_exit(). */
static void ends_exits(int argc, char *argv[])
{
    unsigned long way = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    gasnet_node_t last;

    ends_start(argc, argv);
    last = gasnet_nodes() - 1;
    BARRIER();
    switch (way) {
    case 0: gasnet_exit(0);
    case 1: exit(7); /* all return */
    case 2:
        if (gasnet_mynode() == last)
            gasnet_exit(7);
        break;
    case 3: /* in a handler of the last node */
        if (gasnet_mynode() == 0)
            CHECK(gasnet_AMRequestShort1(last, 201, 7) == GASNET_OK);
        break;
    default: /* while the others do not poll */
        if (gasnet_mynode() == 0)
            _exit(7);
        for (;;)
            continue;
    }
    ends_work();
}

const struct jobs_case jobs_ends[] = {{"runs", ends_runs},
    {"exits", ends_exits}, {"signal", ends_signal}, {"survives", ends_survives},
    {"attaches", ends_attaches}, {NULL, NULL}};
