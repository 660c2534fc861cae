/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death at every step of the transport sm. One side, the actor, is a process
 * that kills itself at a chosen step of a fixed sequence. The other side, the
 * survivor, must see each of its operations complete once, with a documented
 * code. It then runs the whole sequence with a new actor, and has nothing left
 * after closing. The sequence: a lookup, calls, one with 512 KiB of arguments
 * moved in both directions, messages, and a BYE. The actor calls or is called,
 * at a name or at a path; the arguments are moved by the kernel, or through a
 * mapping.
 */
#include "step.h"

#include "conform/conform.h"

#include <signal.h>
#include <sys/wait.h>

#define STEPS_BULK ((size_t) 512 << 10)
#define STEPS_CALLS 3
#define STEPS_SITES 512
/* Ms; less than the watchdog's. */
#define STEPS_TIMEOUT HG_TEST_WAIT_MS

enum { STEPS_HELLO = 7, STEPS_DOWN = 8, STEPS_UP = 9 };

/* ---- Where the actor dies ---- */

struct steps_site {
    const char *function;
    unsigned line;
};

static struct {
    uint64_t count;
    uint64_t die_at;  /* 0: never */
    uint64_t die_one; /* at the first step of this line; 0: never */
    struct steps_site sites[STEPS_SITES]; /* in the order of their first step */
    unsigned site_count;
} steps_plan;

static void steps_take(const char *function, unsigned line)
{
    unsigned i = 0;

    if (++steps_plan.count == steps_plan.die_at || line == steps_plan.die_one)
        (void) raise(SIGKILL);
    while (i < steps_plan.site_count && steps_plan.sites[i].line != line)
        i++;
    if (i < steps_plan.site_count)
        return;
    HG_CHECK(i < STEPS_SITES);
    steps_plan.sites[i].function = function;
    steps_plan.sites[i].line = line;
    steps_plan.site_count++;
}

/* ---- Both sides ---- */

struct steps_end {
    struct conform_end na; /* we use the context for messages */
    hg_id_t echo;
    hg_id_t turn;
};

static hg_return_t steps_proc_number(hg_proc_t proc, void *data)
{
    return hg_proc_uint32_t(proc, data);
}

static hg_return_t steps_proc_bulk(hg_proc_t proc, void *data)
{
    return hg_proc_hg_bulk_t(proc, data);
}

/* The codes that a peer's death may give a call or a transfer. */
static bool steps_is_documented(int ret)
{
    return ret == HG_SUCCESS || ret == HG_DISCONNECT;
}

static hg_return_t steps_on_echo(hg_handle_t handle)
{
    uint32_t number = 0;

    HG_CHECK_OK(HG_Handler_get_input(handle, &number));
    number++;
    HG_CHECK(steps_is_documented(HG_Handler_start_output(handle, &number)));
    HG_CHECK_OK(HG_Handler_free(handle));
    return HG_SUCCESS;
}

static hg_return_t steps_move(
    hg_handle_t handle, hg_bulk_op_t op, hg_bulk_t origin, hg_bulk_t local)
{
    hg_bulk_request_t request;
    hg_status_t done = HG_FALSE;
    hg_return_t ret = HG_Bulk_transfer(op, HG_Handler_get_addr(handle), origin,
        0, local, 0, STEPS_BULK, &request);

    if (ret == HG_SUCCESS) {
        ret = HG_Bulk_wait(request, STEPS_TIMEOUT, &done);
        HG_CHECK(done == HG_TRUE);
    }
    HG_CHECK(steps_is_documented(ret));
    return ret;
}

/* Change the caller's memory: pull, change each byte, push. */
static hg_return_t steps_on_turn(hg_handle_t handle)
{
    static unsigned char memory[STEPS_BULK];
    void *memories[1] = {memory};
    size_t size = sizeof(memory), i;
    uint32_t number = 1;
    hg_bulk_t origin, local;
    hg_return_t ret;

    HG_CHECK_OK(HG_Handler_get_input(handle, &origin));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, memories, &size, HG_BULK_READWRITE, &local));
    ret = steps_move(handle, HG_BULK_PULL, origin, local);
    for (i = 0; i < size; i++)
        memory[i] ^= 0xff;
    if (ret == HG_SUCCESS)
        ret = steps_move(handle, HG_BULK_PUSH, origin, local);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(HG_Handler_free_input(handle, &origin));
    if (ret == HG_SUCCESS)
        HG_CHECK(steps_is_documented(HG_Handler_start_output(handle, &number)));
    HG_CHECK_OK(HG_Handler_free(handle));
    return HG_SUCCESS;
}

static void steps_open(struct steps_end *end, const char *string, bool listen)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;
    struct na_init_info info = fresh;

    memset(end, 0, sizeof(*end));
    info.wait_mode = NA_WAIT_BLOCK; /* fewer steps without effect */
    end->na.na_class =
        NA_Initialize_opt(string, listen ? NA_TRUE : NA_FALSE, &info);
    HG_CHECK(end->na.na_class != NULL);
    HG_CHECK_OK(HG_Init(end->na.na_class));
    end->na.context = NA_Context_create(end->na.na_class);
    HG_CHECK(end->na.context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na.na_class, &end->na.self));
    end->echo = HG_Register(
        "echo", steps_proc_number, steps_proc_number, steps_on_echo);
    end->turn =
        HG_Register("turn", steps_proc_bulk, steps_proc_number, steps_on_turn);
    HG_CHECK(end->echo != 0 && end->turn != 0);
}

static void steps_close(struct steps_end *end)
{
    HG_CHECK_OK(HG_Finalize());
    conform_close(&end->na);
}

/* ---- The caller ---- */

static hg_return_t steps_ended(hg_request_t request)
{
    hg_status_t done = HG_FALSE;
    hg_return_t ret = HG_Wait(request, STEPS_TIMEOUT, &done);

    HG_CHECK(done == HG_TRUE && steps_is_documented(ret));
    HG_CHECK_OK(HG_Request_free(request));
    return ret;
}

static hg_return_t steps_calls(struct steps_end *end, na_addr_t addr)
{
    hg_request_t requests[STEPS_CALLS];
    uint32_t in[STEPS_CALLS], out[STEPS_CALLS] = {0};
    hg_return_t first = HG_SUCCESS;
    unsigned i;

    for (i = 0; i < STEPS_CALLS; i++) {
        hg_return_t ret;

        in[i] = i;
        ret = HG_Forward(addr, end->echo, &in[i], &out[i], &requests[i]);
        HG_CHECK(steps_is_documented(ret));
        if (ret != HG_SUCCESS)
            first = ret;
    }
    for (i = 0; i < STEPS_CALLS; i++) {
        hg_return_t ret = HG_DISCONNECT;

        if (requests[i] != HG_REQUEST_NULL)
            ret = steps_ended(requests[i]);
        if (ret == HG_SUCCESS)
            HG_CHECK_EQ_INT(out[i], i + 1);
        else
            first = ret;
    }
    return first;
}

/* If peers map memory when possible, the memory is allocated by the library. */
static hg_return_t steps_turn(struct steps_end *end, na_addr_t addr)
{
    static unsigned char own[STEPS_BULK], want[STEPS_BULK];
    void *memories[1] = {getenv("HG_SM_RMA") != NULL ? NULL : own};
    size_t size = STEPS_BULK, i;
    hg_request_t request;
    hg_bulk_t bulk;
    unsigned count;
    uint32_t out;
    hg_return_t ret;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, memories, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, size, HG_BULK_READWRITE, 1, memories, &size, &count));
    conform_fill(memories[0], size, 3);
    ret = HG_Forward(addr, end->turn, &bulk, &out, &request);
    HG_CHECK(steps_is_documented(ret));
    if (ret == HG_SUCCESS)
        ret = steps_ended(request);
    if (ret == HG_SUCCESS) {
        conform_fill(want, size, 3);
        for (i = 0; i < size; i++)
            want[i] ^= 0xff;
        HG_CHECK_EQ_MEM(memories[0], want, size);
    }
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    return ret;
}

/* HELLO to the other side, its answer, and one more. */
static na_return_t steps_talk(struct steps_end *end, na_addr_t addr)
{
    struct conform_end *na = &end->na;
    struct conform_call recv, hello, up;
    char got[8];
    na_return_t ret, ended;

    memset(&recv, 0, sizeof(recv));
    memset(&hello, 0, sizeof(hello));
    memset(&up, 0, sizeof(up));
    ret = NA_Msg_recv_expected(na->na_class, na->context, conform_ended, &recv,
        got, sizeof(got), addr, STEPS_DOWN, &recv.id);
    if (ret != NA_SUCCESS)
        return ret;
    ret = NA_Msg_send_unexpected(na->na_class, na->context, conform_ended,
        &hello, "hello", 6, addr, STEPS_HELLO, &hello.id);
    if (ret == NA_SUCCESS)
        ret = conform_wait(na, &hello);
    ended = conform_wait(na, &recv);
    if (ret == NA_SUCCESS)
        ret = ended;
    if (ret == NA_SUCCESS) {
        HG_CHECK_EQ_STR(got, "hello");
        ret = NA_Msg_send_expected(na->na_class, na->context, conform_ended,
            &up, "up", 3, addr, STEPS_UP, &up.id);
        if (ret == NA_SUCCESS)
            ret = conform_wait(na, &up);
    }
    return ret;
}

/* Run the sequence with the peer at `addr` until it dies; returns whether it
 * lived. */
static bool steps_call(struct steps_end *end, na_addr_t addr)
{
    struct conform_call bye;
    hg_return_t ret = steps_calls(end, addr);

    if (ret == HG_SUCCESS)
        ret = steps_turn(end, addr);
    if (ret == HG_SUCCESS)
        ret = (hg_return_t) steps_talk(end, addr);
    HG_CHECK(steps_is_documented(ret));
    memset(&bye, 0, sizeof(bye));
    HG_CHECK_OK(NA_Addr_terminate(
        end->na.na_class, end->na.context, conform_ended, &bye, addr, &bye.id));
    HG_CHECK_OK(conform_wait(&end->na, &bye));
    HG_CHECK_OK(NA_Addr_free(end->na.na_class, addr));
    return ret == HG_SUCCESS;
}

/* ---- The server ---- */

struct steps_server {
    struct steps_end *end;
    struct conform_call hello; /* a receive that is always posted */
    struct conform_call up, down;
    char got[8], got_up[8];
    bool talking; /* up and down were started */
    unsigned played;
};

static void steps_serve_begin(struct steps_server *server)
{
    HG_CHECK_OK(conform_recv(&server->end->na, &server->hello, false,
        server->got, sizeof(server->got), 0));
}

static void steps_receive_hello(struct steps_server *server)
{
    struct conform_end *na = &server->end->na;
    na_addr_t addr = server->hello.addr;
    na_return_t ret;

    HG_CHECK_OK(server->hello.ret);
    HG_CHECK_EQ_INT(server->hello.tag, STEPS_HELLO);
    memset(&server->up, 0, sizeof(server->up));
    memset(&server->down, 0, sizeof(server->down));
    ret = NA_Msg_recv_expected(na->na_class, na->context, conform_ended,
        &server->up, server->got_up, sizeof(server->got_up), addr, STEPS_UP,
        &server->up.id);
    HG_CHECK(steps_is_documented((int) ret));
    if (ret == NA_SUCCESS) {
        server->talking = true;
        ret = NA_Msg_send_expected(na->na_class, na->context, conform_ended,
            &server->down, server->got, server->hello.size, addr, STEPS_DOWN,
            &server->down.id);
        HG_CHECK(steps_is_documented((int) ret));
        server->down.ends += ret != NA_SUCCESS;
    }
    HG_CHECK_OK(NA_Addr_free(na->na_class, addr));
    steps_serve_begin(server);
}

/* Make progress for a moment. */
static void steps_serve(struct steps_server *server)
{
    hg_return_t ret = HG_Handler_process(1, HG_STATUS_IGNORE);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    (void) conform_turn(server->end->na.na_class, server->end->na.context, 0);
    if (server->talking && server->up.ends > 0 && server->down.ends > 0) {
        HG_CHECK(steps_is_documented((int) server->up.ret));
        HG_CHECK(steps_is_documented((int) server->down.ret));
        server->played += server->up.ret == NA_SUCCESS;
        server->talking = false;
    }
    if (server->hello.ends > 0)
        steps_receive_hello(server);
}

/* Whether no operation of a caller is in flight any more. */
static bool steps_is_quiet(const struct steps_server *server)
{
    struct hg_counters counters;

    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    return !server->talking && server->hello.ends == 0 &&
        counters.unanswered == 0 && counters.held_bytes == 0 &&
        na_sm_of(server->end->na.na_class)->pairs == 0;
}

static void steps_serve_end(struct steps_server *server)
{
    struct conform_end *na = &server->end->na;

    HG_CHECK_OK(NA_Cancel(na->na_class, na->context, server->hello.id));
    HG_CHECK_RET(conform_wait(na, &server->hello), NA_CANCELED);
}

/* ---- The actor ---- */

/* Write the steps that were executed to the parent. */
static void steps_report(void)
{
    char line[128];
    unsigned i;

    step_hook = NULL;
    for (i = 0; i < steps_plan.site_count; i++) {
        (void) snprintf(line, sizeof(line), "%u %s", steps_plan.sites[i].line,
            steps_plan.sites[i].function);
        hg_test_write_parent(line);
    }
    (void) snprintf(line, sizeof(line), "steps %" PRIu64, steps_plan.count);
    hg_test_write_parent(line);
}

/* calls|serves ADDRESS STEP LINE */
HG_TEST_ROLE(actor)
{
    struct steps_end end;
    struct steps_server server;
    na_addr_t addr = NA_ADDR_NULL;

    HG_CHECK_EQ_INT(argc, 4);
    hg_test_allow_log("");
    steps_plan.die_at = strtoull(argv[2], NULL, 10);
    steps_plan.die_one = strtoull(argv[3], NULL, 10);
    step_hook = steps_take;
    if (strcmp(argv[0], "calls") == 0) {
        steps_open(&end, "sm://", false);
        HG_CHECK_OK(NA_Addr_lookup_wait(
            end.na.na_class, argv[1], STEPS_TIMEOUT, &addr));
        HG_CHECK(steps_call(&end, addr));
        steps_close(&end);
    } else {
        memset(&server, 0, sizeof(server));
        steps_open(&end, argv[1], true);
        server.end = &end;
        steps_serve_begin(&server);
        while (server.played == 0 || !steps_is_quiet(&server))
            steps_serve(&server);
        steps_serve_end(&server);
        steps_close(&end);
    }
    steps_report();
}

/* ---- The survivor ---- */

struct steps_actor {
    bool calls;       /* otherwise it is called */
    const char *name; /* the address, then */
    unsigned apart;   /* in make check one of so many of its sites suffices */
    /* Its waits for mappings have an unlimited number of steps. */
    bool mapped;
};

struct steps_left {
    unsigned fds;
    unsigned maps;
    unsigned threads;
    int64_t blocks;
};

/* How often `part` occurs in a file of /proc. */
static unsigned steps_grep(const char *path, const char *part)
{
    FILE *file = fopen(path, "r");
    char line[512];
    unsigned count = 0;

    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, part) != NULL;
    (void) fclose(file);
    return count;
}

static void steps_look_around(struct steps_left *left)
{
    left->fds = hg_test_fd_count();
    left->maps = steps_grep("/proc/self/maps", "memfd:hg-");
    left->threads = steps_grep("/proc/self/status", "Threads:\t1\n");
    left->blocks = hg_test_alloc_live();
}

static void steps_check_left(const struct steps_left *before)
{
    struct steps_left now;

    steps_look_around(&now);
    HG_CHECK_EQ_INT(now.fds, before->fds);
    HG_CHECK_EQ_INT(now.maps, before->maps);
    HG_CHECK_EQ_INT(now.threads, before->threads);
    HG_CHECK_EQ_INT(now.blocks, before->blocks);
}

/* Whether the actor has ended; it is not reaped. */
static bool steps_has_ended(struct hg_test_peer *actor)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    HG_CHECK(waitid(P_PID, (id_t) hg_test_peer_pid(actor), &info,
                 WEXITED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid != 0;
}

static struct hg_test_peer *steps_start(const struct steps_actor *actor,
    const char *address, uint64_t step, uint64_t line)
{
    char steps[24], lines[24];

    (void) snprintf(steps, sizeof(steps), "%" PRIu64, step);
    (void) snprintf(lines, sizeof(lines), "%" PRIu64, line);
    return hg_test_spawn("actor", actor->calls ? "calls" : "serves", address,
        steps, lines, NULL);
}

/* Look up an actor that may not listen yet, or no longer. */
static bool steps_find(struct steps_end *end, const char *name,
    struct hg_test_peer *actor, na_addr_t *addr_p)
{
    bool ended;
    na_return_t ret;

    do {
        ended = steps_has_ended(actor);
        ret =
            NA_Addr_lookup_wait(end->na.na_class, name, STEPS_TIMEOUT, addr_p);
        HG_CHECK(ret == NA_SUCCESS || ret == NA_HOSTUNREACH);
        if (ret != NA_SUCCESS)
            (void) usleep(200);
    } while (ret != NA_SUCCESS && !ended);
    return ret == NA_SUCCESS;
}

/* Run the sequence with one actor until it has ended and nothing of it is left;
 * returns whether it lived. It is not reaped, so that its output can be
 * read. */
static bool steps_play(struct steps_end *end, struct steps_server *server,
    const struct steps_actor *plan, struct hg_test_peer *actor)
{
    unsigned played = server->played;
    na_addr_t addr = NA_ADDR_NULL;

    if (!plan->calls)
        return steps_find(end, plan->name, actor, &addr) &&
            steps_call(end, addr);
    while (!steps_has_ended(actor) || !steps_is_quiet(server))
        steps_serve(server);
    return server->played > played;
}

/* Reap the actor; returns true if it was not killed. */
static bool steps_end_actor(struct hg_test_peer *actor)
{
    int status = hg_test_wait(actor);

    if (WIFSIGNALED(status)) {
        HG_CHECK_EQ_INT(WTERMSIG(status), SIGKILL);
        return false;
    }
    HG_CHECK_EQ_INT(WEXITSTATUS(status), 0);
    return true;
}

/* The output of a round's surviving actor: the number of its steps, and the
 * lines of all sites. */
struct steps_met {
    uint64_t steps;
    unsigned count;
    uint64_t lines[STEPS_SITES];
};

static void steps_receive(struct hg_test_peer *actor, struct steps_met *met)
{
    met->count = 0;
    for (;;) {
        char *line = hg_test_read_peer(actor);
        bool last = strncmp(line, "steps ", 6) == 0;

        if (last)
            met->steps = strtoull(line + 6, NULL, 10);
        else
            met->lines[met->count++] = strtoull(line, NULL, 10);
        free(line);
        if (last)
            return;
        HG_CHECK(met->count < STEPS_SITES);
    }
}

/* One round with a death at that step or line, and one without. Returns whether
 * the actor died. */
static bool steps_round(const struct steps_actor *plan, uint64_t step,
    uint64_t line, struct steps_met *met)
{
    struct steps_left before;
    struct steps_end end;
    struct steps_server server;
    struct hg_test_peer *actor;
    char name[NA_MAX_ADDR_LEN];
    bool lived, unharmed;

    steps_look_around(&before);
    memset(&server, 0, sizeof(server));
    (void) snprintf(name, sizeof(name), "sm://hg-steps-%ld", (long) getpid());
    steps_open(&end, name, true);
    server.end = &end;
    steps_serve_begin(&server);
    actor = steps_start(plan, plan->calls ? name : plan->name, step, line);
    (void) steps_play(&end, &server, plan, actor);
    unharmed = steps_end_actor(actor);
    actor = steps_start(plan, plan->calls ? name : plan->name, 0, 0);
    lived = steps_play(&end, &server, plan, actor);
    HG_CHECK(lived);
    steps_receive(actor, met);
    HG_CHECK(steps_end_actor(actor));
    steps_serve_end(&server);
    steps_close(&end);
    steps_check_left(&before);
    HG_CHECK_EQ_INT(steps_grep("/proc/net/unix", name + 5), 0);
    if (!plan->calls) { /* the second has taken over the path, and removed it */
        HG_CHECK_EQ_INT(steps_grep("/proc/net/unix", plan->name + 5), 0);
        HG_CHECK(access(plan->name + 5, F_OK) != 0);
    }
    return !unharmed;
}

/* A death at each line that has steps. */
static void steps_sites(
    const struct steps_actor *plan, const struct steps_met *met, bool full)
{
    struct steps_met again;
    unsigned apart = full ? 1 : plan->apart;
    unsigned deaths = 0, i;

    if (!hg_test_is_plain())
        apart *= 8;
    for (i = 0; i < met->count; i += apart)
        deaths += steps_round(plan, 0, met->lines[i], &again);
    printf("%u deaths, at %u of %u sites\n", deaths,
        (met->count + apart - 1) / apart, met->count);
}

/* A death at each step, or at each `stride`th, until some rounds in a row have
 * no death: the number of steps varies between rounds. */
static void steps_strides(
    const struct steps_actor *plan, const struct steps_met *met, bool full)
{
    struct steps_met again;
    uint64_t seed = hg_test_seed();
    uint64_t stride = 1, step = 1;
    unsigned deaths = 0, unharmed = 0;

    if (!full) {
        stride = met->steps / (hg_test_is_plain() ? 24 / plan->apart : 8) + 1;
        step = 1 + hg_test_random(&seed) % stride;
    }
    for (; unharmed < (full ? 3 : 1); step += stride) {
        if (steps_round(plan, step, 0, &again)) {
            deaths++;
            unharmed = 0;
        } else {
            unharmed++;
        }
    }
    printf("%u deaths, at every %" PRIu64 " of %" PRIu64 " steps\n", deaths,
        stride, met->steps);
    HG_CHECK(deaths > 0);
}

static void steps_all(const struct steps_actor *plan)
{
    struct steps_met met;
    bool full = getenv("HG_TEST_FULL") != NULL && hg_test_is_plain();

    if (plan->mapped)
        HG_CHECK(setenv("HG_SM_RMA", "map", 1) == 0);
    hg_test_alloc_install();
    /* Errors of failed operations, and of actors that do not listen yet,
     * thousands of times. */
    HG_CHECK_OK(HG_Set_log_level("none"));
    /* The first run opens log and fork descriptors. */
    HG_CHECK(!steps_round(plan, 0, 0, &met));
    HG_CHECK(!steps_round(plan, 0, 0, &met)); /* and so on, permanently */
    steps_sites(plan, &met, full);
    if (!plan->mapped)
        steps_strides(plan, &met, full);
}

HG_TEST_SECONDS(sm_caller_may_be_killed_at_every_step, 600)
{
    struct steps_actor plan = {true, NULL, 1, false};

    steps_all(&plan);
}

HG_TEST_SECONDS(sm_server_may_be_killed_at_every_step, 600)
{
    struct steps_actor plan = {false, NULL, 1, false};
    char name[64];

    (void) snprintf(name, sizeof(name), "sm://hg-actor-%ld", (long) getpid());
    plan.name = name;
    steps_all(&plan);
}

/* A socket that it leaves at its path does not prevent the next listener. */
HG_TEST_SECONDS(sm_server_at_a_path_may_be_killed_at_every_step, 600)
{
    struct steps_actor plan = {false, NULL, 4, false};
    char name[200];

    (void) snprintf(name, sizeof(name), "sm://%s/actor", hg_test_dir());
    plan.name = name;
    steps_all(&plan);
}

HG_TEST_SECONDS(sm_owner_may_be_killed_at_every_step, 600)
{
    struct steps_actor plan = {true, NULL, 4, true};

    steps_all(&plan);
}

HG_TEST_SECONDS(sm_process_that_maps_may_be_killed_at_every_step, 600)
{
    struct steps_actor plan = {false, NULL, 1, true};
    char name[64];

    (void) snprintf(name, sizeof(name), "sm://hg-actor-%ld", (long) getpid());
    plan.name = name;
    steps_all(&plan);
}
