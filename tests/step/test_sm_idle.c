/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of silent peers for a process that communicates over the transport
 * sm.
 *
 * A process with both sides of a connection in one thread makes calls, awake
 * and asleep, while silent peers in other processes are connected to both of
 * its sides. It is traced step by step: instructions and system calls are
 * counted one by one, without hardware counters, so the counts are the same on
 * a busy machine. Work that is done periodically is excluded from the calls and
 * counted separately: the check of the sockets once a millisecond, and the
 * check of all rings once a second.
 */
#include "step.h"

#include "unit/engine.h"

#if HG_ENABLE_SM && defined(__x86_64__)

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#define IDLE_CALLS 1  /* number of counted calls */
#define IDLE_WARM 400 /* rounds: hints of silent peers are lowered */
#define IDLE_OF_A_PROCESS 200
#define IDLE_PROCESSES 5
#define IDLE_TIMEOUT HG_TEST_WAIT_MS

/* The counted spans, in this order: calls awake, calls asleep, a check of the
 * sockets, a check of all rings. */
enum idle_span { IDLE_AWAKE, IDLE_ASLEEP, IDLE_LOOK, IDLE_SCAN, IDLE_SPANS };

struct idle_counts {
    uint64_t instructions[IDLE_SPANS];
    uint64_t system_calls[IDLE_SPANS];
};

/* ---- Silent peers ---- */

/* COUNT NAMES...: COUNT classes that look each name up, and stay. */
HG_TEST_ROLE(sm_idle)
{
    na_class_t *classes[IDLE_OF_A_PROCESS];
    na_addr_t addrs[IDLE_OF_A_PROCESS][2];
    unsigned count, i;
    int n;

    HG_CHECK_EQ_INT(argc, 3);
    count = (unsigned) strtoul(argv[0], NULL, 10);
    HG_CHECK(count <= IDLE_OF_A_PROCESS);
    for (i = 0; i < count; i++) {
        classes[i] = NA_Initialize("sm://", NA_FALSE);
        HG_CHECK(classes[i] != NULL);
        for (n = 0; n < 2; n++)
            HG_CHECK_OK(NA_Addr_lookup_wait(
                classes[i], argv[1 + n], IDLE_TIMEOUT, &addrs[i][n]));
    }
    hg_test_write_parent("ready");
    free(hg_test_read_parent());
    for (i = 0; i < count; i++) {
        for (n = 0; n < 2; n++)
            HG_CHECK_OK(NA_Addr_free(classes[i], addrs[i][n]));
        HG_CHECK_OK(NA_Finalize(classes[i]));
    }
}

/* ---- The traced process ---- */

struct idle_run {
    struct engine engine;
    hg_id_t id;
    struct blob blob;
};

/* Begin or end a counted span. */
static void idle_mark(int signal_number)
{
    (void) syscall(
        SYS_tgkill, getpid(), (pid_t) syscall(SYS_gettid), signal_number);
}

/* A call; both sides make progress. */
static void idle_call(struct idle_run *run)
{
    struct engine_call call;

    HG_CHECK_OK(engine_start(&run->engine, run->id, &run->blob, &call));
    while (call.ends == 0) {
        engine_turn(&run->engine.b);
        engine_turn(&run->engine.a);
    }
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
}

/* The steps of an event loop before it sleeps. */
static void idle_prepare_sleep(struct engine_end *end)
{
    while (NA_Poll_try_wait(end->na_class, end->context->na_context) != NA_TRUE)
        engine_turn(end);
}

/* The steps of an event loop that was woken. */
static void idle_wake(struct engine_end *end)
{
    struct pollfd fd = {-1, POLLIN, 0};

    fd.fd = NA_Poll_get_fd(end->na_class, end->context->na_context);
    HG_CHECK_EQ_INT(poll(&fd, 1, 1000), 1);
    engine_turn(end);
    idle_prepare_sleep(end);
}

/* A call between two sides that sleep. */
static void idle_call_asleep(struct idle_run *run)
{
    struct engine_call call;

    HG_CHECK_OK(engine_start(&run->engine, run->id, &run->blob, &call));
    while (call.ends == 0) {
        idle_wake(&run->engine.b);
        idle_wake(&run->engine.a);
    }
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
}

/* Stop periodic work. */
static void idle_stop_clock(struct idle_run *run)
{
    na_class_t *ends[2] = {run->engine.a.na_class, run->engine.b.na_class};
    unsigned i;

    for (i = 0; i < 2; i++) {
        na_sm_of(ends[i])->look_at = UINT64_MAX - 1;
        na_sm_of(ends[i])->scan_at = UINT64_MAX - 1;
        na_sm_of(ends[i])->tick = UINT64_MAX - 1;
    }
}

/* All spans, counted by the tracer. */
static void idle_spans(struct idle_run *run, int signal_number)
{
    struct na_sm_class *server = na_sm_of(run->engine.b.na_class);
    unsigned i;

    idle_mark(signal_number);
    for (i = 0; i < IDLE_CALLS; i++)
        idle_call(run);
    idle_mark(signal_number);
    idle_prepare_sleep(&run->engine.b);
    idle_prepare_sleep(&run->engine.a);
    idle_call_asleep(run);
    idle_mark(signal_number);
    for (i = 0; i < IDLE_CALLS; i++) {
        idle_call_asleep(run);
        idle_stop_clock(run);
    }
    idle_mark(signal_number);
    engine_turn(&run->engine.b);
    engine_turn(&run->engine.a);
    idle_mark(signal_number);
    (void) na_sm_look(server, 1);
    idle_mark(signal_number);
    idle_mark(signal_number);
    na_sm_flow_hint_all(server);
    idle_mark(signal_number);
    idle_stop_clock(run);
}

static void idle_open(struct idle_run *run)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine *engine = &run->engine;

    memset(run, 0, sizeof(*run));
    HG_CHECK_OK(engine_open_end(&engine->a, "sm://", 4096, &options));
    HG_CHECK_OK(engine_open_end(&engine->b, "sm://", 4096, &options));
    run->id = engine_register(engine, "idle_echo", engine_echo);
    HG_CHECK(run->id != 0);
    run->blob = engine_new_blob(64, 1);
}

static na_return_t idle_found(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    *(na_addr_t *) info->arg = info->info.lookup.addr;
    return NA_SUCCESS;
}

static void idle_turn(struct idle_run *run)
{
    engine_turn(&run->engine.b);
    engine_turn(&run->engine.a);
}

/* The client connects after all others. */
static void idle_connect(struct idle_run *run)
{
    struct engine_end *client = &run->engine.a;
    unsigned i;

    HG_CHECK_OK(NA_Addr_lookup(client->na_class, client->context->na_context,
        idle_found, &client->peer, run->engine.b.na_class->self_addr->name,
        NA_OP_ID_IGNORE));
    while (client->peer == NULL)
        idle_turn(run);
    for (i = 0; i < IDLE_WARM; i++)
        idle_turn(run);
    for (i = 0; i < IDLE_WARM; i++)
        idle_call(run);
}

/* Start the silent peers; a process for so many of them. */
static unsigned idle_gather(
    struct idle_run *run, unsigned peers, struct hg_test_peer *silent[])
{
    const struct engine *engine = &run->engine;
    unsigned processes = 0;
    unsigned left = peers;
    char count[16];
    unsigned i;

    while (left > 0) {
        unsigned n = left < IDLE_OF_A_PROCESS ? left : IDLE_OF_A_PROCESS;

        HG_CHECK(processes < IDLE_PROCESSES);
        (void) snprintf(count, sizeof(count), "%u", n);
        silent[processes++] =
            hg_test_spawn("sm_idle", count, engine->a.na_class->self_addr->name,
                engine->b.na_class->self_addr->name, NULL);
        left -= n;
    }
    while (na_sm_of(engine->a.na_class)->pairs < peers ||
        na_sm_of(engine->b.na_class)->pairs < peers)
        idle_turn(run);
    for (i = 0; i < processes; i++)
        free(hg_test_read_peer(silent[i]));
    return processes;
}

/* PEERS: makes the calls among so many silent peers. */
HG_TEST_ROLE(sm_idle_pair)
{
    struct hg_test_peer *silent[IDLE_PROCESSES];
    struct idle_run run;
    unsigned processes, i;

    HG_CHECK_EQ_INT(argc, 1);
    idle_open(&run);
    processes =
        idle_gather(&run, (unsigned) strtoul(argv[0], NULL, 10), silent);
    idle_connect(&run);
    idle_stop_clock(&run);
    hg_test_write_parent("ready");
    free(hg_test_read_parent());
    idle_spans(&run, SIGUSR1);
    idle_spans(&run, SIGUSR2);
    engine_close(&run.engine);
    free(run.blob.bytes);
    for (i = 0; i < processes; i++)
        hg_test_stop(silent[i]);
}

/* ---- The tracer ---- */

/* Continue in some way until the next stop, which is returned. */
static int idle_resume(pid_t pid, int how)
{
    int status = 0;

    HG_CHECK(ptrace((enum __ptrace_request) how, pid, NULL, NULL) == 0);
    HG_CHECK(waitpid(pid, &status, __WALL) == pid);
    HG_CHECK(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

/* Places where a process reads clocks: the longer a read takes, the more often
 * it is repeated. */
struct idle_clock {
    unsigned long begin;
    unsigned long end;
};

static struct idle_clock idle_find_clock(pid_t pid)
{
    struct idle_clock clock = {0, 0};
    char line[512];
    FILE *maps;

    (void) snprintf(line, sizeof(line), "/proc/%ld/maps", (long) pid);
    maps = fopen(line, "r");
    HG_CHECK(maps != NULL);
    while (clock.end == 0 && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "[vdso]") != NULL)
            HG_CHECK(sscanf(line, "%lx-%lx", &clock.begin, &clock.end) == 2);
    }
    (void) fclose(maps);
    return clock;
}

/* The instructions up to the next mark, without those that read clocks. */
static uint64_t idle_step_to(
    pid_t pid, const struct idle_clock *clock, int mark)
{
    uint64_t steps = 0;
    int stop;

    while ((stop = idle_resume(pid, PTRACE_SINGLESTEP)) != mark) {
        unsigned long at = (unsigned long) ptrace(
            PTRACE_PEEKUSER, pid, (void *) offsetof(struct user, regs.rip), 0);

        HG_CHECK_EQ_INT(stop, SIGTRAP);
        if (at < clock->begin || at >= clock->end)
            steps++;
    }
    return steps;
}

/* The system calls up to the next mark: each stops once before and once
 * after. */
static uint64_t idle_call_to(pid_t pid, int mark)
{
    uint64_t stops = 0;
    int stop;

    while ((stop = idle_resume(pid, PTRACE_SYSCALL)) != mark) {
        HG_CHECK_EQ_INT(stop, SIGTRAP | 0x80);
        stops++;
    }
    return stops / 2;
}

/* The cost of calls and checks among so many silent peers. */
static void idle_count(unsigned peers, struct idle_counts *counts)
{
    struct hg_test_peer *pair;
    struct idle_clock clock;
    char text[16];
    pid_t pid;
    int i;

    (void) snprintf(text, sizeof(text), "%u", peers);
    pair = hg_test_spawn("sm_idle_pair", text, NULL);
    pid = hg_test_peer_pid(pair);
    free(hg_test_read_peer(pair));
    if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) != 0)
        hg_test_skip("processes cannot be traced: %s", strerror(errno));
    HG_CHECK(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
    HG_CHECK(waitpid(pid, &i, __WALL) == pid);
    hg_test_write_peer(pair, "go");
    clock = idle_find_clock(pid);
    for (i = 0; i < IDLE_SPANS; i++) {
        HG_CHECK_EQ_INT(idle_resume(pid, PTRACE_CONT), SIGUSR1);
        counts->instructions[i] = idle_step_to(pid, &clock, SIGUSR1);
    }
    for (i = 0; i < IDLE_SPANS; i++) {
        HG_CHECK_EQ_INT(idle_resume(pid, PTRACE_CONT), SIGUSR2);
        counts->system_calls[i] = idle_call_to(pid, SIGUSR2);
    }
    HG_CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
    hg_test_stop(pair);
}

/* At most `percent` more. */
static void idle_check(uint64_t many, uint64_t one, unsigned percent)
{
    if (many * 100 > one * (100 + percent))
        hg_test_fail(
            HG_TEST_HERE, "%" PRIu64 " instead of %" PRIu64, many, one);
}

/* A span includes the cost of marking it. The hints of 64 peers are a word,
 * which each round reads: that is less than 1 % of a call. All rings are
 * checked once a second: 1,000 peers must not make 1,000 calls a second more
 * expensive. */
HG_TEST_WHERE_SECONDS(sm_idle_peers_cost_nothing, hg_test_is_plain, 300)
{
    static const char *const names[IDLE_SPANS] = {
        "calls awake", "calls asleep", "a look", "a scan"};
    const unsigned peers = getenv("HG_TEST_FULL") != NULL ? 1000 : 66;
    struct idle_counts one, many;
    cpu_set_t here;
    uint64_t scan;
    int i;

    /* Tracer and process run in turns: switching is faster on one processor. */
    CPU_ZERO(&here);
    CPU_SET((unsigned) sched_getcpu(), &here);
    HG_CHECK(sched_setaffinity(0, sizeof(here), &here) == 0);
    /* If addresses differ, so does the cost of a copy. */
    (void) personality(ADDR_NO_RANDOMIZE);
    idle_count(1, &one);
    idle_count(peers, &many);
    for (i = 0; i < IDLE_SPANS; i++)
        printf("# 1 and %u silent peers: %s: %" PRIu64 " and %" PRIu64
               " instructions, %" PRIu64 " and %" PRIu64 " system calls\n",
            peers, names[i], one.instructions[i], many.instructions[i],
            one.system_calls[i], many.system_calls[i]);
    /* The check of the sockets, once a millisecond, may fall into a span. */
    for (i = 0; i < IDLE_SPANS; i++)
        HG_CHECK(many.system_calls[i] <= one.system_calls[i] + 1);
    for (i = 0; i < IDLE_SCAN; i++)
        idle_check(many.instructions[i], one.instructions[i], 1 + peers / 64);
    scan = many.instructions[IDLE_SCAN] - one.instructions[IDLE_SCAN];
    idle_check(one.instructions[IDLE_AWAKE] / IDLE_CALLS + scan / (peers - 1),
        one.instructions[IDLE_AWAKE] / IDLE_CALLS, 1);
}

#endif
