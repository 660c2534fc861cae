/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chains: memory that is passed on, for the programs of both models, which
 * include pipelines.h first.
 *
 *     owner --chain_pass--> middle --pipe_move--> third process
 *       ^                                            |
 *       +-------------- moves the memory ------------+
 *
 * Each process is a server, and the middle one is a client, too. The owner has
 * bound its bulk handle, so the third process needs no address.
 */
#ifndef HG_TESTS_CONFORM_CHAINS_H
#define HG_TESTS_CONFORM_CHAINS_H

#include "conform/pipelines.h"

/* `code` is the result of the call of the third process. `moved` is 0 if the
 * process in the middle has moved no data. */
/* clang-format off */
MERCURY_GEN_RPC_STUB(pipe_done_t, chain_pass,
    ((hg_const_string_t)(third))((uint32_t)(timeout))((pipe_job_t)(job))
    ((hg_bulk_t)(memory)),
    ((int32_t)(code))((uint64_t)(moved)))
/* clang-format on */

/* ---- Defined by the program ---- */

static hg_return_t chain_forward(hg_handle_t call, na_addr_t addr,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done);
static uint64_t chain_moved(hg_handle_t call);
static hg_return_t chain_call_pass(pipe_end_t *end, const char *third,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, int32_t *code,
    uint64_t *moved, pipe_done_t *done);
static void chain_start(chain_pass_call_t *call, pipe_end_t *end,
    const char *third, pipe_job_t job, hg_bulk_t memory);
static bool chain_is_over(const chain_pass_call_t *call);

/* ---- The process in the middle ---- */

static na_class_t *chain_class;

pipe_done_t chain_pass(hg_const_string_t third, uint32_t timeout,
    pipe_job_t job, hg_memory_t memory, int32_t *code, uint64_t *moved)
{
    pipe_done_t done = {77, 0, 0, 0};
    na_addr_t addr;

    HG_CHECK_OK(
        NA_Addr_lookup_wait(chain_class, third, HG_TEST_WAIT_MS, &addr));
    *code = (int32_t) chain_forward(
        memory.call, addr, timeout, job, memory.bulk, &done);
    *moved = chain_moved(memory.call);
    HG_CHECK_OK(NA_Addr_free(chain_class, addr));
    return done;
}

HG_TEST_ROLE(relay)
{
    HG_CHECK_EQ_INT(argc, 1);
    pipe_follows = strcmp(argv[0], "follows") == 0;
    hg_test_allow_log(""); /* the owner checks the results it gets */
    pipe_relay();
}

/* ---- The owner ---- */

struct chain {
    pipe_end_t end; /* its target is the process in the middle */
    struct hg_test_peer *middle;
    struct hg_test_peer *third;
};

static char chain_third[NA_MAX_ADDR_LEN]; /* the address of that process */
static bool chain_binds;                  /* chain_call binds the memory */
static uint32_t chain_ms; /* the deadline of the second call; 0: none */
static hg_return_t chain_code;

/* Make the endpoint call another process. */
static void chain_find(pipe_end_t *end, const char *address)
{
    HG_CHECK_OK(NA_Addr_lookup_wait(
        end->na_class, address, HG_TEST_WAIT_MS, &end->target));
}

static void chain_open_with(
    struct chain *c, bool deaf, const char *third_follows)
{
    char address[NA_MAX_ADDR_LEN];
    char *middle;
    char *third;

    if (deaf) {
        pipe_open_deaf(&c->end);
    } else {
        pipe_open_alone(&c->end, address);
        HG_CHECK_OK(NA_Addr_free(c->end.na_class, c->end.target));
    }
    c->middle = hg_test_spawn("relay", "refuses", (char *) NULL);
    middle = hg_test_read_peer(c->middle);
    c->third = hg_test_spawn("relay", third_follows, (char *) NULL);
    third = hg_test_read_peer(c->third);
    (void) snprintf(chain_third, sizeof(chain_third), "%s", third);
    chain_find(&c->end, middle);
    free(third);
    free(middle);
    chain_binds = true;
    chain_ms = 0;
}

static void chain_open(struct chain *c, bool deaf)
{
    chain_open_with(c, deaf, "follows");
}

static void chain_close(struct chain *c)
{
    pipe_close_alone(&c->end);
    hg_test_stop(c->middle);
    hg_test_stop(c->third);
}

/* Move memory through the process in the middle, which moves no byte of it. */
static hg_return_t chain_call(
    pipe_end_t *end, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done)
{
    uint64_t moved = 77;
    int32_t code = 77;
    hg_return_t ret;

    if (chain_binds)
        pipe_bind(end, memory);
    ret = chain_call_pass(
        end, chain_third, chain_ms, job, memory, &code, &moved, done);
    if (ret == HG_SUCCESS)
        HG_CHECK_EQ_U64(moved, 0);
    chain_code = (hg_return_t) code;
    return ret;
}

static void chain_check(
    struct chain *c, pipe_job_t job, hg_return_t want, uint64_t bytes)
{
    pipe_check_by(chain_call, &c->end, job, 70000, 7, want, bytes);
    if (want != HG_CANCELED || chain_ms == 0)
        HG_CHECK_OK(chain_code);
}

HG_TEST_WHERE(
    chain_moves_memory_of_the_first_process, hg_test_crosses_processes)
{
    pipe_job_t job = pipe_job;
    struct chain c;

    chain_open(&c, false);
    job.size = 65432;
    job.offset = 2;
    chain_check(&c, job, HG_SUCCESS, job.size);
    job.push = 1;
    chain_check(&c, job, HG_SUCCESS, job.size);
    job.count = 0; /* HG_Bulk_push and HG_Bulk_pull */
    chain_check(&c, job, HG_SUCCESS, job.size);
    job.push = 0;
    chain_check(&c, job, HG_SUCCESS, job.size);
    chain_close(&c);
}

/* The owner is the third process, too. */
HG_TEST_WHERE(chain_may_end_at_the_owner, hg_test_crosses_processes)
{
    pipe_job_t job = pipe_job;
    na_addr_t self;
    struct chain c;

    chain_open(&c, false);
    HG_CHECK_OK(NA_Addr_self(c.end.na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(
        c.end.na_class, chain_third, sizeof(chain_third), self));
    HG_CHECK_OK(NA_Addr_free(c.end.na_class, self));
    job.size = 65432;
    chain_check(&c, job, HG_SUCCESS, job.size);
    job.push = 1;
    chain_check(&c, job, HG_SUCCESS, job.size);
    HG_CHECK_OK(pipe_free());
    chain_close(&c);
}

/* Its caller does not choose where the third process connects. */
HG_TEST_WHERE(chain_needs_the_option, hg_test_crosses_processes)
{
    pipe_job_t job = pipe_job;
    struct chain c;

    chain_open_with(&c, false, "refuses");
    job.size = 65432;
    chain_check(&c, job, HG_CANCELED, 0);
    job.push = 1;
    chain_check(&c, job, HG_CANCELED, 0);
    job.count = 0;
    chain_check(&c, job, HG_CANCELED, 0);
    job.push = 0;
    chain_check(&c, job, HG_CANCELED, 0);
    chain_close(&c);
}

/* The third process takes its caller for the owner. */
HG_TEST_WHERE(chain_needs_a_bound_handle, hg_test_crosses_processes)
{
    pipe_job_t job = pipe_job;
    struct chain c;

    chain_open(&c, false);
    chain_binds = false;
    job.size = 65432;
    chain_check(&c, job, HG_CANCELED, 0);
    job.push = 1;
    chain_check(&c, job, HG_CANCELED, 1000 * 3);
    job.count = 0;
    chain_check(&c, job, HG_CANCELED, 0);
    chain_close(&c);
}

/* The process in the middle can reach it. Whether the third one can depends on
 * the transport. */
HG_TEST_WHERE(
    chain_begins_at_an_owner_that_does_not_listen, hg_test_crosses_processes)
{
    bool found = hg_test_finds_callers();
    hg_return_t want = found ? HG_SUCCESS : HG_HOSTUNREACH;
    unsigned char memory[5000] = {1};
    pipe_done_t done = {77, 0, 0, 0};
    pipe_job_t job = pipe_job;
    size_t size = sizeof(memory);
    void *ptr = memory;
    struct chain c;
    hg_bulk_t bulk;

    chain_open(&c, true);
    job.size = 4000;
    chain_check(&c, job, want, found ? job.size : 0);
    job.count = 0;
    chain_check(&c, job, want, found ? job.size : 0);
    bulk = pipe_expose(&c.end, 1, &ptr, &size, HG_BULK_READWRITE);
    pipe_bind(&c.end, bulk);
    HG_CHECK_OK(pipe_call(&c.end, job, bulk, &done));
    HG_CHECK_OK(done.ret);
    HG_CHECK_EQ_U64(done.sum, stubs_sum(memory, (size_t) job.size));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    chain_close(&c);
}

/* The transfer, which would not end, ends with the call that it belongs to. */
HG_TEST_WHERE(
    chain_ends_at_the_deadline_of_the_second_call, hg_test_crosses_processes)
{
    unsigned char memory[5000] = {1};
    pipe_done_t done = {77, 0, 0, 0};
    pipe_job_t job = pipe_job;
    size_t size = sizeof(memory);
    void *ptr = memory;
    struct chain c;
    hg_bulk_t bulk;

    chain_open(&c, false);
    job.size = size;
    job.endless = 1;
    chain_ms = 50;
    bulk = pipe_expose(&c.end, 1, &ptr, &size, HG_BULK_READWRITE);
    HG_CHECK_OK(chain_call(&c.end, job, bulk, &done));
    if (chain_code == HG_SUCCESS) /* its response was in time */
        HG_CHECK_RET(done.ret, HG_CANCELED);
    else
        HG_CHECK_RET(chain_code, HG_TIMEOUT);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    job.endless = 0;
    chain_ms = 0;
    chain_check(&c, job, HG_SUCCESS, job.size);
    chain_close(&c);
}

/* ---- A process of the chain dies; this process is the third one ---- */

static struct hg_test_peer *chain_middle;

/* Makes one call by the process in the middle, and waits for its end. */
HG_TEST_ROLE(owner)
{
    static unsigned char memory[PIPE_VICTIM_SIZE];
    char address[NA_MAX_ADDR_LEN];
    pipe_job_t job = pipe_job;
    size_t size = sizeof(memory);
    void *ptr = memory;
    struct pollfd ready = {0, POLLIN, 0};
    chain_pass_call_t call;
    hg_bulk_t bulk;
    pipe_end_t end;

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("");
    job.push = strcmp(argv[2], "push") == 0;
    job.endless = 1;
    job.size = size;
    job.stop = PIPE_EVENT;
    job.piece = 1;
    pipe_open_alone(&end, address);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    chain_find(&end, argv[0]);
    bulk = pipe_expose(&end, 1, &ptr, &size, HG_BULK_READWRITE);
    pipe_bind(&end, bulk);
    chain_start(&call, &end, argv[1], job, bulk);
    ready.fd = hg_test_parent_fd();
    while (poll(&ready, 1, 0) == 0)
        pipe_turn(&end);
    while (!chain_is_over(&call))
        pipe_turn(&end);
    HG_CHECK_OK(chain_pass_end(&call));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    pipe_close_alone(&end);
}

static void chain_kill_middle(void)
{
    hg_test_signal(chain_middle, SIGKILL);
    (void) hg_test_wait(chain_middle); /* frees it */
    chain_middle = NULL;
}

static hg_return_t chain_serve(bool push, void (*event)(void))
{
    char address[NA_MAX_ADDR_LEN];
    pipe_end_t end;
    char *middle;

    pipe_open_alone(&end, address);
    pipe_event = event;
    pipe_moves = 0;
    chain_middle = hg_test_spawn("relay", "refuses", (char *) NULL);
    middle = hg_test_read_peer(chain_middle);
    pipe_victim = hg_test_spawn(
        "owner", middle, address, push ? "push" : "pull", (char *) NULL);
    while (pipe_moves == 0) /* the watchdog ends it */
        pipe_turn(&end);
    HG_CHECK_OK(pipe_free());
    pipe_close_alone(&end);
    if (pipe_victim != NULL)
        hg_test_stop(pipe_victim);
    if (chain_middle != NULL)
        hg_test_stop(chain_middle);
    free(middle);
    return (hg_return_t) pipe_last.ret;
}

/* The next piece may find the connection lost, and no listener any more. */
HG_TEST_WHERE(chain_ends_when_the_owner_dies, hg_test_reports_death)
{
    hg_return_t ret;

    hg_test_allow_log("");
    ret = chain_serve(false, pipe_kill);
    HG_CHECK(ret == HG_DISCONNECT || ret == HG_HOSTUNREACH);
    ret = chain_serve(true, pipe_kill);
    HG_CHECK(ret == HG_DISCONNECT || ret == HG_HOSTUNREACH);
}

/* Over libfabric only a timeout reveals that. */
static bool chain_sees_death(void)
{
    return hg_test_reports_death() && !hg_test_is_ofi();
}

HG_TEST_WHERE(chain_ends_when_the_caller_dies, chain_sees_death)
{
    hg_test_allow_log("");
    HG_CHECK_RET(chain_serve(false, chain_kill_middle), HG_DISCONNECT);
    HG_CHECK_RET(chain_serve(true, chain_kill_middle), HG_DISCONNECT);
}

#endif
