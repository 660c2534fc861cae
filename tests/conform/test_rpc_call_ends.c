/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the request model that end before their response: at a deadline, or
 * freed; the target's notification; and errors with a text.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

MERCURY_GEN_PROC(ends_count_t,
    ((uint32_t) (executed))((uint32_t) (told))((uint64_t) (expired))(
        (uint64_t) (canceled)))

static hg_id_t ends_hold_id, ends_count_id, ends_left_id, ends_fail_id,
    ends_slow_id;

/* At the target: the handles it keeps, and the notifications it got. */
static hg_handle_t ends_held[64];
static uint32_t ends_executed;
static uint32_t ends_notified;

static void ends_receive(hg_handle_t handle, void *arg)
{
    HG_CHECK(arg == &ends_notified);
    HG_CHECK(HG_Is_canceled(handle) == HG_TRUE);
    ends_notified++;
}

static hg_return_t ends_hold(hg_handle_t handle)
{
    HG_CHECK(ends_executed < 64);
    HG_CHECK_OK(HG_Set_cancel_cb(handle, ends_receive, &ends_notified));
    ends_held[ends_executed++] = handle;
    return HG_SUCCESS;
}

static hg_return_t ends_count(hg_handle_t handle)
{
    struct hg_counters counters = rpc_counters();
    ends_count_t count;

    count.executed = ends_executed;
    count.told = ends_notified;
    count.expired = counters.expired;
    count.canceled = counters.canceled;
    (void) HG_Handler_start_output(handle, &count);
    return HG_Handler_free(handle);
}

static hg_return_t ends_left(hg_handle_t handle)
{
    rpc_one_t out;

    out.value = (int32_t) HG_Get_time_left(handle);
    HG_CHECK(HG_Is_canceled(handle) == HG_FALSE);
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

static hg_return_t ends_fail(hg_handle_t handle)
{
    HG_CHECK_RET(
        HG_Respond_error(handle, HG_SUCCESS, "no error"), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Respond_error(handle, HG_PERMISSION, "not you"));
    return HG_Handler_free(handle);
}

static hg_return_t ends_slow(hg_handle_t handle)
{
    (void) poll(NULL, 0, 30);
    (void) HG_Handler_start_output(handle, NULL);
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    ends_hold_id = MERCURY_REGISTER("ends hold", void, void, ends_hold);
    ends_count_id =
        MERCURY_REGISTER("ends count", void, ends_count_t, ends_count);
    ends_left_id = MERCURY_REGISTER("ends left", void, rpc_one_t, ends_left);
    ends_fail_id = MERCURY_REGISTER("ends fail", void, void, ends_fail);
    ends_slow_id = MERCURY_REGISTER("ends slow", void, void, ends_slow);
}

static uint64_t ends_now(void)
{
    struct timespec now;

    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static hg_request_t ends_start(
    const struct rpc_end *end, hg_id_t id, void *out, unsigned timeout)
{
    hg_request_t request = HG_REQUEST_NULL;

    HG_CHECK_OK(
        HG_Forward_timed(end->target, id, NULL, out, timeout, &request));
    HG_CHECK_EQ_STR(HG_Get_error_text(request), "");
    return request;
}

/* The target's counters, once `told` handlers were notified that their call
 * ended. */
static ends_count_t ends_await(const struct rpc_end *end, uint32_t told)
{
    ends_count_t count;

    do
        HG_CHECK_OK(rpc_call(end, ends_count_id, NULL, &count));
    while (count.told < told);
    HG_CHECK_EQ_INT(count.told, told);
    return count;
}

static void ends_close(struct rpc_end *end)
{
    hg_test_allow_log("were never answered");
    rpc_close(end);
}

HG_TEST(deadline_ends_a_call_with_timeout)
{
    struct rpc_end end;
    hg_request_t request;
    hg_status_t statuses[2] = {HG_FALSE, HG_FALSE};
    hg_request_t requests[2];
    ends_count_t count;
    uint64_t begin;

    rpc_open(&end);
    begin = ends_now();
    request = ends_start(&end, ends_hold_id, NULL, 30);
    HG_CHECK_RET(rpc_wait(request), HG_TIMEOUT);
    HG_CHECK(ends_now() - begin >= UINT64_C(30000000));
    HG_CHECK_EQ_STR(HG_Get_error_text(request), "it timed out");
    /* The text does not repeat the code. */
    HG_CHECK(strstr(HG_Get_last_error_text(), ": it timed out") != NULL);
    HG_CHECK(strstr(HG_Get_last_error_text(), ": timed out") == NULL);
    /* Its result does not change. */
    HG_CHECK_RET(rpc_wait(request), HG_TIMEOUT);
    requests[0] = request;
    requests[1] = ends_start(&end, ends_left_id, NULL, 0);
    HG_CHECK_RET(HG_Wait_all(2, requests, RPC_TIMEOUT, statuses), HG_TIMEOUT);
    HG_CHECK(statuses[0] == HG_TRUE && statuses[1] == HG_TRUE);
    HG_CHECK_OK(HG_Request_free(requests[0]));
    HG_CHECK_OK(HG_Request_free(requests[1]));
    /* A target that runs late does not execute the call. */
    do
        HG_CHECK_OK(rpc_call(&end, ends_count_id, NULL, &count));
    while (count.told < count.executed);
    ends_close(&end);
}

HG_TEST(deadline_travels_with_the_call)
{
    struct rpc_end end;
    hg_request_t request;
    rpc_one_t left = {0};

    rpc_open(&end);
    request = ends_start(&end, ends_left_id, &left, 20000);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_STR(HG_Get_error_text(request), "");
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK(left.value > 0 && left.value <= 20000);
    request = ends_start(&end, ends_left_id, &left, 0);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK((uint32_t) left.value == HG_NO_DEADLINE);
    rpc_close(&end);
}

/* While a handler runs, the deadlines of other calls continue. */
HG_TEST(deadline_may_pass_in_the_queue)
{
    enum { COUNT = 5 };
    struct rpc_end end;
    hg_request_t requests[COUNT];
    hg_request_t slow;
    ends_count_t count;
    int i;

    rpc_open(&end);
    slow = ends_start(&end, ends_slow_id, NULL, 0);
    for (i = 0; i < COUNT; i++)
        requests[i] = ends_start(&end, ends_hold_id, NULL, 5);
    HG_CHECK_OK(rpc_wait(slow));
    for (i = 0; i < COUNT; i++)
        HG_CHECK_RET(rpc_wait(requests[i]), HG_TIMEOUT);
    do
        HG_CHECK_OK(rpc_call(&end, ends_count_id, NULL, &count));
    while (count.told + count.expired + count.canceled < COUNT);
    HG_CHECK_EQ_U64(count.executed + count.expired + count.canceled, COUNT);
    if (end.peer == NULL) /* else the notification may have been late */
        HG_CHECK_EQ_INT(count.executed, 0);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_OK(HG_Request_free(slow));
    ends_close(&end);
}

HG_TEST(cancel_of_a_request_reaches_its_handler)
{
    struct rpc_end end;
    hg_request_t requests[3];
    ends_count_t count;
    int i;

    rpc_open(&end);
    for (i = 0; i < 3; i++)
        requests[i] = ends_start(&end, ends_hold_id, NULL, 0);
    count = ends_await(&end, 0);
    while (count.executed < 3)
        count = ends_await(&end, 0);
    HG_CHECK_OK(HG_Request_free(requests[1]));
    (void) ends_await(&end, 1);
    HG_CHECK_OK(HG_Request_free(requests[0]));
    HG_CHECK_OK(HG_Request_free(requests[2]));
    (void) ends_await(&end, 3);
    ends_close(&end);
}

HG_TEST(error_carries_code_and_text)
{
    struct rpc_end end;
    hg_request_t request;
    hg_id_t id;

    hg_test_allow_log("the code is not an error");
    hg_test_allow_log("is not served by");
    rpc_open(&end);
    request = ends_start(&end, ends_fail_id, NULL, 0);
    HG_CHECK_RET(rpc_wait(request), HG_PERMISSION);
    HG_CHECK_EQ_STR(HG_Get_error_text(request), "not you");
    HG_CHECK_OK(HG_Request_free(request));
    hg_test_expect_log("no such request");
    HG_CHECK_EQ_STR(HG_Get_error_text(request), "");

    id = HG_Register("ends nowhere", NULL, NULL, NULL);
    request = ends_start(&end, id, NULL, 0);
    HG_CHECK_RET(rpc_wait(request), HG_NOENTRY);
    HG_CHECK(strstr(HG_Get_error_text(request), "is registered without") ||
        strstr(HG_Get_error_text(request), "is not registered"));
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

/* ---- An origin that dies ---- */

HG_TEST_ROLE(caller)
{
    struct rpc_end end;
    hg_request_t request;
    ends_count_t count;

    HG_CHECK_EQ_INT(argc, 1);
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[0], RPC_TIMEOUT, &end.target));
    request = ends_start(&end, ends_hold_id, NULL, 0);
    count = ends_await(&end, 0);
    HG_CHECK_EQ_INT(count.executed, 1);
    hg_test_write_parent("now");
    for (;;)
        (void) HG_Wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
}

HG_TEST_WHERE(
    death_of_the_origin_reaches_the_handler, hg_test_crosses_processes)
{
    struct hg_test_peer *caller;
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;
    na_addr_t self;

    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), self));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    caller = hg_test_spawn("caller", address, (char *) NULL);
    while (rpc_counters().responses_sent == 0)
        (void) HG_Handler_process(50, HG_STATUS_IGNORE);
    free(hg_test_read_peer(caller));
    HG_CHECK_EQ_INT(ends_notified, 0);
    hg_test_signal(caller, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(caller)));
    while (ends_notified == 0)
        (void) HG_Handler_process(50, HG_STATUS_IGNORE);
    HG_CHECK_OK(HG_Handler_free(ends_held[0]));
    HG_CHECK_EQ_U64(rpc_counters().unanswered, 0);
    rpc_end(&end);
}
