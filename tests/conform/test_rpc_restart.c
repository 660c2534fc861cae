/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server that dies or ends during calls and is restarted at the same address.
 * For transports that reach another process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <signal.h>
#include <sys/wait.h>

#define RESTART_CALLS 100

#define RESTART_KEPT 5

static hg_id_t restart_inc_id, restart_keep_id, restart_hold_id;

/* Calls that are answered later. */
static hg_handle_t restart_held[2 * RESTART_KEPT];
static unsigned restart_count;

static hg_return_t restart_hold(hg_handle_t handle)
{
    HG_CHECK(restart_count < 2 * RESTART_KEPT);
    restart_held[restart_count++] = handle;
    return HG_SUCCESS;
}

static hg_return_t restart_keep(hg_handle_t handle)
{
    (void) handle; /* HG_Finalize answers it */
    return HG_SUCCESS;
}

static void rpc_register(void)
{
    restart_inc_id =
        MERCURY_REGISTER("restart inc", rpc_one_t, rpc_one_t, rpc_inc);
    restart_keep_id =
        MERCURY_REGISTER("restart keep", rpc_one_t, rpc_one_t, restart_keep);
    restart_hold_id =
        MERCURY_REGISTER("restart hold", rpc_one_t, rpc_one_t, restart_hold);
}

/* A server that listens at the given address. */
HG_TEST_ROLE(server_at)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    memset(&end, 0, sizeof(end));
    end.na_class = NA_Initialize(argv[0], NA_TRUE);
    HG_CHECK(end.na_class != NULL);
    HG_CHECK_OK(HG_Init(end.na_class));
    rpc_register();
    rpc_serve(&end);
    rpc_end(&end);
}

/* Start the server, or restart it if *name_p is not NULL. */
static void restart_spawn(struct rpc_end *end, char **name_p)
{
    char *string = *name_p != NULL ? *name_p : hg_test_listen_string();
    char *name;

    end->peer = hg_test_spawn("server_at", string, (char *) NULL);
    name = hg_test_read_peer(end->peer);
    if (*name_p != NULL)
        HG_CHECK_EQ_STR(name, *name_p);
    free(string);
    *name_p = name;
}

static void restart_open(struct rpc_end *end, char **name_p)
{
    hg_test_allow_log("");
    rpc_start(end, NULL, false);
    *name_p = NULL;
    restart_spawn(end, name_p);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, *name_p, RPC_TIMEOUT, &end->target));
}

static void restart_check(const struct rpc_end *end, hg_return_t want)
{
    rpc_one_t one = {5};
    hg_request_t request;
    hg_return_t ret =
        HG_Forward(end->target, restart_inc_id, &one, &one, &request);

    if (ret == HG_SUCCESS) {
        ret = rpc_wait(request);
        HG_CHECK_OK(HG_Request_free(request));
    }
    HG_CHECK_RET(ret, want);
    HG_CHECK_EQ_INT(one.value, ret == HG_SUCCESS ? 6 : 5);
}

HG_TEST_WHERE(
    killed_and_restarted_server_can_be_called, hg_test_crosses_processes)
{
    hg_request_t requests[RESTART_CALLS];
    na_addr_t before;
    struct rpc_end end;
    rpc_one_t one = {1};
    char *name;
    int i;

    restart_open(&end, &name);
    for (i = 0; i < RESTART_CALLS; i++)
        requests[i] = rpc_start_call(&end, restart_keep_id, &one, NULL);
    restart_check(&end, HG_SUCCESS); /* all have arrived */
    hg_test_signal(end.peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
    for (i = 0; i < RESTART_CALLS; i++) {
        HG_CHECK_RET(rpc_wait(requests[i]), HG_DISCONNECT);
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    restart_check(&end, HG_DISCONNECT);
    before = end.target;

    /* The server is another peer now, which must be looked up. */
    restart_spawn(&end, &name);
    restart_check(&end, HG_DISCONNECT);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, name, RPC_TIMEOUT, &end.target));
    HG_CHECK(NA_Addr_cmp(end.na_class, before, end.target) == NA_FALSE);
    restart_check(&end, HG_SUCCESS);
    HG_CHECK_OK(NA_Addr_free(end.na_class, before));
    restart_check(&end, HG_SUCCESS);
    free(name);
    rpc_close(&end);
}

/* A call that ends while the server ends may have any result. */
static hg_return_t restart_end(hg_request_t *request)
{
    hg_return_t ret = HG_DISCONNECT;

    if (*request != HG_REQUEST_NULL) {
        ret = rpc_wait(*request);
        HG_CHECK_OK(HG_Request_free(*request));
    }
    *request = HG_REQUEST_NULL;
    HG_CHECK(ret == HG_SUCCESS || ret == HG_CANCELED || ret == HG_AGAIN ||
        ret == HG_DISCONNECT);
    return ret;
}

/* Accepted calls are answered; calls it has not read end, too. */
HG_TEST_WHERE(server_that_exits_during_calls_can_be_called_again,
    hg_test_crosses_processes)
{
    hg_request_t requests[RESTART_CALLS];
    struct rpc_end end;
    rpc_one_t one = {1};
    unsigned round;
    char *name;
    int i;

    restart_open(&end, &name);
    for (round = 0; round < 10; round++) {
        hg_return_t ret = HG_SUCCESS;

        restart_check(&end, HG_SUCCESS);
        for (i = 0; i < RESTART_CALLS; i++)
            requests[i] = rpc_start_call(&end, restart_inc_id, &one, NULL);
        hg_test_write_peer(end.peer, "stop");
        for (i = 0; ret == HG_SUCCESS; i = (i + 1) % RESTART_CALLS) {
            ret = restart_end(&requests[i]);
            if (ret == HG_SUCCESS)
                ret = HG_Forward(
                    end.target, restart_inc_id, &one, NULL, &requests[i]);
        }
        for (i = 0; i < RESTART_CALLS; i++)
            (void) restart_end(&requests[i]);
        hg_test_stop(end.peer);
        restart_check(&end, HG_DISCONNECT); /* its end was noticed */
        HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
        restart_spawn(&end, &name);
        HG_CHECK_OK(
            NA_Addr_lookup_wait(end.na_class, name, RPC_TIMEOUT, &end.target));
    }
    restart_check(&end, HG_SUCCESS);
    free(name);
    rpc_close(&end);
}

/* The address of the server that ended may still be in use. */
HG_TEST_WHERE(server_that_exits_is_looked_up_beside_its_old_address,
    hg_test_crosses_processes)
{
    enum { ROUNDS = 3 };
    na_addr_t before[ROUNDS];
    struct rpc_end end;
    unsigned round;
    char *name;

    restart_open(&end, &name);
    for (round = 0; round < ROUNDS; round++) {
        restart_check(&end, HG_SUCCESS);
        hg_test_stop(end.peer);
        restart_check(&end, HG_DISCONNECT);
        before[round] = end.target;
        restart_spawn(&end, &name);
        HG_CHECK_OK(
            NA_Addr_lookup_wait(end.na_class, name, RPC_TIMEOUT, &end.target));
    }
    restart_check(&end, HG_SUCCESS);
    for (round = 0; round < ROUNDS; round++)
        HG_CHECK_OK(NA_Addr_free(end.na_class, before[round]));
    restart_check(&end, HG_SUCCESS);
    free(name);
    rpc_close(&end);
}

static na_return_t restart_parted(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    *(bool *) info->arg = true;
    return NA_SUCCESS;
}

/* A peer that sends BYE waits for no responses; the address can be used
 * again. */
HG_TEST_WHERE(calls_end_when_the_peer_says_bye, hg_test_crosses_processes)
{
    hg_request_t requests[RESTART_CALLS];
    na_context_t *context;
    struct rpc_end end;
    rpc_one_t one = {1};
    unsigned round;
    int i;

    rpc_open(&end);
    context = NA_Context_create(end.na_class);
    HG_CHECK(context != NULL);
    for (round = 0; round < 3; round++) {
        bool parted = false;

        for (i = 0; i < RESTART_CALLS; i++)
            requests[i] = rpc_start_call(&end, restart_keep_id, &one, NULL);
        restart_check(&end, HG_SUCCESS); /* all have arrived */
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, context, restart_parted,
            &parted, end.target, NA_OP_ID_IGNORE));
        while (!parted) {
            (void) NA_Progress(end.na_class, context, 10);
            (void) NA_Trigger(context, 0, 1, NULL);
        }
        for (i = 0; i < RESTART_CALLS; i++) {
            HG_CHECK_RET(rpc_wait(requests[i]), HG_DISCONNECT);
            HG_CHECK_OK(HG_Request_free(requests[i]));
        }
        restart_check(&end, HG_SUCCESS);
    }
    HG_CHECK_OK(NA_Context_destroy(end.na_class, context));
    rpc_close(&end);
}

/* ---- The caller is restarted ---- */

/* A caller that listens at the given address; reports the results of its
 * calls. */
HG_TEST_ROLE(client_at)
{
    hg_request_t requests[RESTART_KEPT];
    rpc_one_t outs[RESTART_KEPT];
    char name[NA_MAX_ADDR_LEN];
    struct rpc_end end;
    rpc_one_t one = {1};
    int i;

    HG_CHECK_EQ_INT(argc, 2);
    memset(&end, 0, sizeof(end));
    end.na_class = NA_Initialize(argv[0], NA_TRUE);
    HG_CHECK(end.na_class != NULL);
    HG_CHECK_OK(HG_Init(end.na_class));
    rpc_register();
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, name, sizeof(name), end.target));
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    hg_test_write_parent(name);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[1], RPC_TIMEOUT, &end.target));
    for (i = 0; i < RESTART_KEPT; i++)
        requests[i] = rpc_start_call(&end, restart_hold_id, &one, &outs[i]);
    for (i = 0; i < RESTART_KEPT; i++) {
        HG_CHECK_OK(rpc_wait(requests[i]));
        HG_CHECK_EQ_INT(outs[i].value, 2); /* the results of the second run */
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
    HG_CHECK_EQ_U64(rpc_counters().late, 0);
    rpc_close(&end);
}

/* Serve until so many calls are held. */
static void restart_hold_until(unsigned count)
{
    while (restart_count < count)
        (void) HG_Handler_process(10, HG_STATUS_IGNORE);
}

static void restart_release(unsigned first, int32_t value)
{
    rpc_one_t out;
    unsigned i;

    out.value = value;
    for (i = first; i < first + RESTART_KEPT; i++) {
        HG_CHECK_OK(HG_Handler_start_output(restart_held[i], &out));
        HG_CHECK_OK(HG_Handler_free(restart_held[i]));
    }
}

static void *restart_serve(void *arg)
{
    while (!atomic_load((_Atomic bool *) arg))
        (void) HG_Handler_process(10, HG_STATUS_IGNORE);
    return NULL;
}

/* Its calls have the same sequence numbers as before the restart. */
HG_TEST_WHERE(restarted_caller_gets_no_responses_to_earlier_calls,
    hg_test_crosses_processes)
{
    char *string = hg_test_listen_string();
    struct hg_test_peer *client;
    char name[NA_MAX_ADDR_LEN];
    _Atomic bool stop = false;
    char *first, *second;
    struct rpc_end end;
    pthread_t thread;

    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, name, sizeof(name), end.target));
    client = hg_test_spawn("client_at", string, name, (char *) NULL);
    first = hg_test_read_peer(client);
    restart_hold_until(RESTART_KEPT);
    hg_test_signal(client, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(client)));
    client = hg_test_spawn("client_at", first, name, (char *) NULL);
    second = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(second, first);
    restart_hold_until(2 * RESTART_KEPT);
    restart_release(0, 1);
    restart_release(RESTART_KEPT, 2);
    HG_CHECK(pthread_create(&thread, NULL, restart_serve, &stop) == 0);
    hg_test_stop(client);
    atomic_store(&stop, true);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    free(first);
    free(second);
    free(string);
    rpc_close(&end);
}
