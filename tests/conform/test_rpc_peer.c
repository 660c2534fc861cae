/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that die, and several peers at once. For transports that reach another
 * process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <signal.h>
#include <sys/wait.h>

static hg_id_t peer_keep_id, peer_inc_id, peer_large_id;

static hg_return_t peer_keep(hg_handle_t handle)
{
    (void) handle; /* HG_Finalize answers it */
    return HG_SUCCESS;
}

static hg_return_t peer_large(hg_handle_t handle)
{
    struct blob blob = {
        (uint64_t) 32 << 20, rpc_new_pattern((size_t) 32 << 20, 3)};

    (void) HG_Handler_start_output(handle, &blob);
    free(blob.bytes);
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    peer_keep_id =
        MERCURY_REGISTER("peer keep", rpc_one_t, rpc_one_t, peer_keep);
    peer_inc_id = MERCURY_REGISTER("peer inc", rpc_one_t, rpc_one_t, rpc_inc);
    peer_large_id = HG_Register("peer large", NULL, blob_proc, peer_large);
    HG_CHECK(peer_large_id != 0);
}

HG_TEST_WHERE(peer_that_is_killed_fails_calls_once, hg_test_crosses_processes)
{
    enum { COUNT = 20 };
    struct rpc_end end;
    hg_request_t requests[COUNT + 2];
    hg_request_t late;
    rpc_one_t one = {1};
    struct blob blob = {0, NULL};
    hg_return_t ret;
    int i;

    hg_test_allow_log("");
    rpc_open(&end);
    for (i = 0; i < COUNT; i++)
        requests[i] = rpc_start_call(&end, peer_keep_id, &one, NULL);
    requests[COUNT] = rpc_start_call(&end, peer_inc_id, &one, &one);
    HG_CHECK_OK(rpc_wait(requests[COUNT])); /* all have arrived */
    requests[COUNT + 1] = rpc_start_call(&end, peer_large_id, NULL, &blob);
    (void) HG_Wait(requests[COUNT + 1], 1, HG_STATUS_IGNORE);
    hg_test_signal(end.peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_RET(rpc_wait(requests[i]), HG_DISCONNECT);
        HG_CHECK_RET(rpc_wait(requests[i]), HG_DISCONNECT);
    }
    ret = rpc_wait(requests[COUNT + 1]); /* it may have been faster */
    HG_CHECK(ret == HG_DISCONNECT || ret == HG_SUCCESS);
    for (i = 0; i < COUNT + 2; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_RET(
        HG_Forward(end.target, peer_inc_id, &one, NULL, &late), HG_DISCONNECT);
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));

    /* A server started later is another peer. */
    end.peer = hg_test_spawn("server", "one", "0", (char *) NULL);
    rpc_find_peer(&end);
    one.value = 5;
    HG_CHECK_OK(rpc_call(&end, peer_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 6);
    rpc_close(&end);
}

/* A server that finalizes answers the calls it has accepted. */
HG_TEST_WHERE(
    peer_that_finalizes_answers_accepted_calls, hg_test_crosses_processes)
{
    struct rpc_end end;
    hg_request_t requests[2];
    rpc_one_t one = {1};
    hg_return_t ret;

    rpc_open(&end);
    requests[0] = rpc_start_call(&end, peer_keep_id, &one, NULL);
    requests[1] = rpc_start_call(&end, peer_inc_id, &one, &one);
    HG_CHECK_OK(rpc_wait(requests[1]));
    hg_test_stop(end.peer);
    end.peer = NULL;
    ret = rpc_wait(requests[0]);
    HG_CHECK_RET(ret, HG_CANCELED);
    HG_CHECK_OK(HG_Request_free(requests[0]));
    HG_CHECK_OK(HG_Request_free(requests[1]));
    rpc_close(&end);
}

/* A server whose application has its own contexts, created before HG_Init. */
HG_TEST_ROLE(busy_server)
{
    na_context_t *contexts[2];
    struct rpc_end end = {NULL, NULL, NULL, NULL};

    (void) argv;
    HG_CHECK_EQ_INT(argc, 0);
    end.na_class = rpc_open_class(NA_TRUE);
    contexts[0] = NA_Context_create(end.na_class);
    contexts[1] = NA_Context_create(end.na_class);
    HG_CHECK(contexts[0] != NULL && contexts[1] != NULL);
    HG_CHECK_OK(HG_Init(end.na_class));
    rpc_register();
    rpc_serve(&end);
    HG_CHECK_OK(NA_Context_destroy(end.na_class, contexts[0]));
    HG_CHECK_OK(NA_Context_destroy(end.na_class, contexts[1]));
    rpc_end(&end);
}

HG_TEST_WHERE(
    peer_is_called_beside_application_contexts, hg_test_crosses_processes)
{
    struct rpc_end end = {NULL, NULL, NULL, NULL};
    rpc_one_t one = {1};

    rpc_start(&end, NULL, false);
    end.peer = hg_test_spawn("busy_server", (char *) NULL);
    rpc_find_peer(&end);
    HG_CHECK_OK(rpc_call(&end, peer_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    rpc_close(&end);
}

/* Calls until told to stop, and dies halfway if told to. */
HG_TEST_ROLE(client)
{
    hg_request_t request;
    struct blob blob = {0, NULL};
    struct rpc_end end;
    int32_t i;

    HG_CHECK_EQ_INT(argc, 2);
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[0], RPC_TIMEOUT, &end.target));
    for (i = 0; i < 100; i++) {
        rpc_one_t in;
        rpc_one_t out = {0};

        in.value = i;
        HG_CHECK_OK(rpc_call(&end, peer_inc_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, i + 1);
    }
    request = rpc_start_call(&end, peer_large_id, NULL, &blob);
    if (strcmp(argv[1], "dies") == 0) {
        hg_test_write_parent("now");
        for (;;)
            (void) HG_Wait(request, 0, HG_STATUS_IGNORE);
    }
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_U64(blob.size, (uint64_t) 32 << 20);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    rpc_end(&end);
}

/* Several clients at once, one of which dies while it fetches an output. This
 * process serves, and nothing of the dead client is left. */
HG_TEST_WHERE_SECONDS(
    clients_that_die_leave_nothing, hg_test_crosses_processes, 60)
{
    struct hg_test_peer *clients[3];
    char address[NA_MAX_ADDR_LEN];
    struct hg_counters counters;
    struct rpc_end end;
    na_addr_t self;
    int i;

    hg_test_alloc_install();
    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), self));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    for (i = 0; i < 3; i++)
        clients[i] = hg_test_spawn(
            "client", address, i == 1 ? "dies" : "lives", (char *) NULL);
    do {
        (void) HG_Handler_process(50, HG_STATUS_IGNORE);
        counters = rpc_counters();
    } while (counters.requests_received < 303);
    hg_test_signal(clients[1], SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(clients[1])));
    for (i = 0; i < 3; i += 2) {
        struct hg_test_peer *client = clients[i];
        siginfo_t info;

        memset(&info, 0, sizeof(info));
        while (waitid(P_PID, (id_t) hg_test_peer_pid(client), &info,
                   WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == 0)
            (void) HG_Handler_process(20, HG_STATUS_IGNORE);
        HG_CHECK_EQ_INT(hg_test_wait(client), 0);
    }
    HG_CHECK_EQ_U64(rpc_counters().unanswered, 0);
    /* The last request of the dead client may not have been started. */
    HG_CHECK_EQ_U64(
        rpc_counters().responses_sent + rpc_counters().canceled, 303);
    rpc_end(&end);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}
