/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps: the instructions that the conduit adds to NA's, for nodes whose
 * segments are not mapped.
 *
 *     GASNET_HG_NEAR=0 gasnetrun_hg -n 2 jobs steps         compares
 *     GASNET_HG_NEAR=0 gasnetrun_hg -n 2 jobs steps table   prints
 *
 * The processor traps after each instruction (the trap flag of x86-64), and the
 * signal handler looks at the place of the next one. It is NA's if the last
 * function of this program has the name of a function of hg.c; else it is the
 * conduit's. So both have what they call in libc. Messages are awaited without
 * traps, and a figure does not depend on the other node. A round without traps
 * comes first, since it allocates.
 */
#define _GNU_SOURCE 1
#define GASNET_SEQ 1
#include "jobs.h"

#if defined(__x86_64__)

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "gasnet_hg.h"
#include "tests/perf/counts_code.h"

#define STEPS_ROUNDS 3   /* the short test has one */
#define STEPS_TRAP 0x100 /* of the flags register */

/* Whether the limits are for this build. */
#if defined(__OPTIMIZE__) && __GNUC__ == 12 && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STEPS_KNOWN 1
#else
#define STEPS_KNOWN 0
#endif

enum { STEPS_REQUEST = 200, STEPS_REPLY };

static gasnet_seginfo_t steps_segments[2];
static char steps_here[64];
static gasnet_handle_t steps_handle;
static volatile int steps_requests, steps_replies;

/* ---- The operations ---- */

static void steps_nothing(void)
{
}

static void steps_put(void)
{
    gasnet_put(1, steps_segments[1].addr, steps_here, 8);
}

static void steps_get(void)
{
    gasnet_get(steps_here, 1, steps_segments[1].addr, 8);
}

static void steps_put_nb(void)
{
    steps_handle = gasnet_put_nb(1, steps_segments[1].addr, steps_here, 8);
}

static void steps_get_nb(void)
{
    steps_handle = gasnet_get_nb(steps_here, 1, steps_segments[1].addr, 8);
}

static void steps_wait_syncnb(void)
{
    gasnet_wait_syncnb(steps_handle);
}

static void steps_put_nbi(void)
{
    gasnet_put_nbi(1, steps_segments[1].addr, steps_here, 8);
}

static void steps_wait_syncnbi(void)
{
    gasnet_wait_syncnbi_puts();
}

static void steps_request(void)
{
    (void) gasnet_AMRequestShort0(1, STEPS_REQUEST);
}

static void steps_poll(void)
{
    (void) gasnet_AMPoll();
}

/* The cases, in the order of node 0, and the most that each may cost. The last
 * two are the poll that receives the reply, and that of node 1, which
 * receives the request and replies. */
enum { STEPS_RECEIVE = 10, STEPS_SERVE, STEPS_CASES };
static const struct {
    const char *name;
    void (*run)(void);
    unsigned limit;
} steps_cases[STEPS_CASES] = {{"nothing", steps_nothing, 0},
    {"put", steps_put, 91}, {"get", steps_get, 91},
    {"put_nb", steps_put_nb, 88}, {"its wait_syncnb", steps_wait_syncnb, 89},
    {"get_nb", steps_get_nb, 69}, {"its wait_syncnb", steps_wait_syncnb, 89},
    {"put_nbi", steps_put_nbi, 96},
    {"its wait_syncnbi", steps_wait_syncnbi, 96},
    {"request", steps_request, 70}, {"receive a reply", steps_poll, 99},
    {"receive a request and reply", steps_poll, 159}};

static unsigned steps_least[STEPS_CASES], steps_least_na[STEPS_CASES];

/* ---- Counting ---- */

static volatile unsigned steps_conduit, steps_na;
static volatile bool steps_in_na;

static void steps_trap(int number, siginfo_t *info, void *context)
{
    uintptr_t at =
        (uintptr_t) ((ucontext_t *) context)->uc_mcontext.gregs[REG_RIP];
    const struct counts_function *function = counts_function_of(at);

    (void) number, (void) info;
    if (function != NULL)
        steps_in_na = strncmp(function->name, "na_", 3) == 0 ||
            strncmp(function->name, "NA_", 3) == 0 ||
            strncmp(function->name, "hg_", 3) == 0;
    if (steps_in_na)
        steps_na++;
    else
        steps_conduit++;
}

/* Run a case, and keep its counts if they are the least. A poll may receive a
 * message of a barrier: only one that ran a handler counts. */
static void steps_count(unsigned i)
{
    int handled = steps_requests + steps_replies;

    steps_conduit = steps_na = 0;
    __builtin_ia32_writeeflags_u64(
        __builtin_ia32_readeflags_u64() | STEPS_TRAP);
    steps_cases[i].run();
    __builtin_ia32_writeeflags_u64(
        __builtin_ia32_readeflags_u64() & ~(unsigned long long) STEPS_TRAP);
    if (i >= STEPS_RECEIVE && steps_requests + steps_replies == handled)
        return;
    steps_conduit -= steps_least[0]; /* that of nothing */
    if (steps_least[i] == 0 || steps_conduit < steps_least[i])
        steps_least[i] = steps_conduit;
    if (steps_least_na[i] == 0 || steps_na < steps_least_na[i])
        steps_least_na[i] = steps_na;
}

/* Allocate. */
static void steps_warm(unsigned i)
{
    steps_cases[i].run();
}

/* ---- Both nodes ---- */

static void steps_on_request(gasnet_token_t token)
{
    steps_requests++;
    (void) gasnet_AMReplyShort0(token, STEPS_REPLY);
}

static void steps_on_reply(gasnet_token_t token)
{
    (void) token;
    steps_replies++;
}

/* Wait for a message, and leave it to the next poll. */
static void steps_await(void)
{
    while (NA_Progress(gasnet_hg.boot.na_class, gasnet_hg.boot.context, 0) !=
        NA_SUCCESS)
        (void) sched_yield();
}

/* The first request may have come during a barrier. */
static void steps_one_round(int number, void (*run)(unsigned i))
{
    unsigned i;

    for (i = 1; i < STEPS_RECEIVE && gasnet_mynode() == 0; i++)
        run(i);
    while (steps_requests + steps_replies < number) {
        steps_await();
        run(gasnet_mynode() == 0 ? STEPS_RECEIVE : STEPS_SERVE);
    }
}

static void steps_compare(bool print)
{
    unsigned i;

    for (i = 1; i < STEPS_CASES; i++) {
        if (steps_least[i] == 0)
            continue;
        if (print)
            (void) printf("%-28s %6u %6u\n", steps_cases[i].name,
                steps_least[i], steps_least_na[i]);
        else if (STEPS_KNOWN && steps_least[i] > steps_cases[i].limit)
            (void) fprintf(stderr, "%s: %u instructions, more than %u\n",
                steps_cases[i].name, steps_least[i], steps_cases[i].limit);
    }
}

static void steps_run(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(STEPS_REQUEST, steps_on_request),
        HANDLER(STEPS_REPLY, steps_on_reply)};
    bool print = argc > 1;
    struct sigaction action;
    int i, rounds = print || jobs_is_full() ? STEPS_ROUNDS : 1;

    START(table, 2, GASNET_PAGESIZE);
    CHECK(gasnet_getSegmentInfo(steps_segments, 2) == GASNET_OK);
    counts_read_program();
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = steps_trap;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    BARRIER();
    steps_count(0);
    steps_one_round(1, steps_warm);
    for (i = 0; i < rounds; i++)
        steps_one_round(2 + i, steps_count);
    /* Node 1 goes on to the barrier after its last reply: both messages may
     * come in one poll, which must not be one that counts. */
    steps_one_round(2 + i, steps_warm);
    steps_compare(print);
    (void) fflush(stdout);
    BARRIER();
    gasnet_exit(0);
}

#else

static void steps_run(int argc, char *argv[])
{
    (void) argc, (void) argv;
}

#endif

const struct jobs_case jobs_steps[] = {{"steps", steps_run}, {NULL, NULL}};
