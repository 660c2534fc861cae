/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the callback model that end before their response: at a deadline, or
 * canceled; the target's notification; and errors with a text. The target is
 * another process where the transport reaches one, else this process.
 */
#define HG_API_VERSION 2
#include "hg.h"

#include "harness.h"

#include <stdatomic.h>
#include <pthread.h>
#include <time.h>

#define ENDS_TIMEOUT HG_TEST_WAIT_MS

MERCURY_GEN_PROC(ends_count_t, ((uint32_t) (executed))((uint32_t) (told)))
MERCURY_GEN_PROC(ends_left_t, ((uint32_t) (left)))

struct ends_end {
    na_class_t *na_class;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t target;
    struct hg_test_peer *peer;
    hg_id_t hold, count, left, fail, chain;
};

struct ends_call {
    hg_handle_t handle;
    unsigned ends;
    hg_return_t ret;
};

/* ---- The target ---- */

static hg_addr_t ends_self;
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
    ends_count_t count;

    count.executed = ends_executed;
    count.told = ends_notified;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &count));
    return HG_Destroy(handle);
}

static hg_return_t ends_left(hg_handle_t handle)
{
    ends_left_t out;

    HG_CHECK_RET(HG_Set_deadline(handle, 1), HG_INVALID_ARG);
    out.left = HG_Get_time_left(handle);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static hg_return_t ends_fail(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond_error(handle, HG_PERMISSION, "not you"));
    HG_CHECK_RET(HG_Respond(handle, NULL, NULL, NULL), HG_EXIST);
    return HG_Destroy(handle);
}

/* A call made by a handler to its own process, with the remaining time as its
 * deadline. */
static hg_return_t ends_chained(const struct hg_cb_info *info)
{
    hg_handle_t handle = (hg_handle_t) info->arg;
    ends_left_t out;

    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Get_output(info->info.forward.handle, &out));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    HG_CHECK_OK(HG_Free_output(info->info.forward.handle, &out));
    HG_CHECK_OK(HG_Destroy(info->info.forward.handle));
    return HG_Destroy(handle);
}

static hg_return_t ends_chain(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_handle_t next;
    hg_id_t id;
    uint8_t flag;

    HG_CHECK_OK(HG_Registered_name(info->hg_class, "ends left", &id, &flag));
    HG_CHECK_OK(HG_Create(info->context, ends_self, id, &next));
    return HG_Forward(next, ends_chained, handle, NULL);
}

static void ends_open(struct ends_end *end)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();

    hg_test_allow_log(
        "HG_Set_deadline: the handle belongs to an incoming call");
    memset(end, 0, sizeof(*end));
    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    end->na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    free(string);
    HG_CHECK(end->na_class != NULL);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(2, 4), &info);
    HG_CHECK(end->hg_class != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &ends_self));
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->hold =
        MERCURY_REGISTER(end->hg_class, "ends hold", void, void, ends_hold);
    end->count = MERCURY_REGISTER(
        end->hg_class, "ends count", void, ends_count_t, ends_count);
    end->left = MERCURY_REGISTER(
        end->hg_class, "ends left", void, ends_left_t, ends_left);
    end->fail =
        MERCURY_REGISTER(end->hg_class, "ends fail", void, void, ends_fail);
    end->chain = MERCURY_REGISTER(
        end->hg_class, "ends chain", void, ends_left_t, ends_chain);
}

static void ends_turn(struct ends_end *end, unsigned ms)
{
    unsigned count = 0;
    hg_return_t ret = HG_Progress(end->context, ms);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    do
        (void) HG_Trigger(end->context, 0, 1, &count);
    while (count > 0);
}

static void ends_free_held(void)
{
    uint32_t i;

    for (i = 0; i < ends_executed; i++)
        HG_CHECK_OK(HG_Destroy(ends_held[i]));
}

static void ends_close(struct ends_end *end)
{
    ends_free_held();
    if (end->target != NA_ADDR_NULL)
        HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    HG_CHECK_OK(NA_Addr_free(end->na_class, ends_self));
    HG_CHECK_OK(HG_Context_destroy(end->context));
    HG_CHECK_OK(HG_Finalize(end->hg_class));
    HG_CHECK_OK(NA_Finalize(end->na_class));
    if (end->peer != NULL)
        hg_test_stop(end->peer);
}

static void *ends_listen_parent(void *arg)
{
    free(hg_test_read_parent());
    atomic_store((_Atomic bool *) arg, true);
    return NULL;
}

HG_TEST_ROLE(server)
{
    char address[NA_MAX_ADDR_LEN];
    _Atomic bool stop = false;
    struct ends_end end;
    pthread_t thread;

    (void) argv;
    HG_CHECK_EQ_INT(argc, 0);
    hg_test_allow_log("");
    ends_open(&end);
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), ends_self));
    hg_test_write_parent(address);
    HG_CHECK(pthread_create(&thread, NULL, ends_listen_parent, &stop) == 0);
    while (!atomic_load(&stop))
        ends_turn(&end, 20);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    ends_close(&end);
}

/* ---- The origin ---- */

/* Open an endpoint, and find a target to call. */
static void ends_begin(struct ends_end *end)
{
    char *address;

    ends_open(end);
    if (!hg_test_crosses_processes()) {
        HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
        return;
    }
    end->peer = hg_test_spawn("server", (char *) NULL);
    address = hg_test_read_peer(end->peer);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        end->na_class, address, ENDS_TIMEOUT, &end->target));
    free(address);
}

static hg_return_t ends_ended(const struct hg_cb_info *info)
{
    struct ends_call *call = (struct ends_call *) info->arg;

    HG_CHECK_EQ_INT(call->ends++, 0);
    call->ret = info->ret;
    return HG_SUCCESS;
}

static void ends_forward(struct ends_call *call)
{
    call->ends = 0;
    HG_CHECK_OK(HG_Forward(call->handle, ends_ended, call, NULL));
}

static void ends_create(
    struct ends_end *end, hg_id_t id, struct ends_call *call)
{
    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(HG_Create(end->context, end->target, id, &call->handle));
}

static hg_return_t ends_wait(struct ends_end *end, struct ends_call *call)
{
    while (call->ends == 0)
        ends_turn(end, ENDS_TIMEOUT);
    HG_CHECK_EQ_INT(HG_Ref_get(call->handle), 1);
    return call->ret;
}

/* Wait until so many handlers were started, and so many were notified that
 * their call ended. */
static void ends_await(struct ends_end *end, uint32_t executed, uint32_t told)
{
    struct ends_call call;
    ends_count_t count;

    ends_create(end, end->count, &call);
    do {
        ends_forward(&call);
        HG_CHECK_OK(ends_wait(end, &call));
        HG_CHECK_OK(HG_Get_output(call.handle, &count));
        HG_CHECK_OK(HG_Free_output(call.handle, &count));
    } while (count.executed < executed || count.told < told);
    HG_CHECK_EQ_INT(count.executed, executed);
    HG_CHECK_EQ_INT(count.told, told);
    HG_CHECK_OK(HG_Destroy(call.handle));
}

/* Call a function that returns its remaining time; returns that time. */
static uint32_t ends_ask(struct ends_end *end, struct ends_call *call)
{
    ends_left_t out;

    ends_forward(call);
    HG_CHECK_OK(ends_wait(end, call));
    HG_CHECK_OK(HG_Get_output(call->handle, &out));
    HG_CHECK_OK(HG_Free_output(call->handle, &out));
    return out.left;
}

static uint64_t ends_now(void)
{
    struct timespec now;

    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

HG_TEST(deadline_ends_a_call_with_timeout)
{
    struct ends_end end;
    struct ends_call call;
    unsigned i;

    hg_test_expect_log("HG_Set_deadline: a call is in flight");
    ends_begin(&end);
    ends_create(&end, end.hold, &call);
    HG_CHECK(HG_Get_time_left(call.handle) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Set_deadline(call.handle, 200));
    HG_CHECK_EQ_INT(HG_Get_time_left(call.handle), 200);
    for (i = 1; i <= 2; i++) { /* the handle keeps its deadline */
        uint64_t begin = ends_now();

        ends_forward(&call);
        HG_CHECK_RET(HG_Set_deadline(call.handle, 5), HG_BUSY);
        HG_CHECK_RET(ends_wait(&end, &call), HG_TIMEOUT);
        HG_CHECK(ends_now() - begin >= UINT64_C(200000000));
        HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), "it timed out");
        HG_CHECK_EQ_INT(HG_Get_time_left(call.handle), 0);
        ends_await(&end, i, i);
    }
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_close(&end);
}

HG_TEST(deadline_travels_with_the_call)
{
    struct ends_end end;
    struct ends_call call;
    uint32_t left;

    ends_begin(&end);
    ends_create(&end, end.left, &call);
    HG_CHECK(ends_ask(&end, &call) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Set_deadline(call.handle, 20000));
    left = ends_ask(&end, &call);
    HG_CHECK(left > 0 && left <= 20000);
    HG_CHECK_OK(HG_Reset(call.handle, HG_ADDR_NULL, end.left));
    left = ends_ask(&end, &call);
    HG_CHECK(left > 0 && left <= 20000);
    /* A call made by a handler has only the deadline that is set on it. */
    HG_CHECK_OK(HG_Reset(call.handle, HG_ADDR_NULL, end.chain));
    HG_CHECK(ends_ask(&end, &call) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Set_deadline(call.handle, 0));
    HG_CHECK_OK(HG_Reset(call.handle, HG_ADDR_NULL, end.left));
    HG_CHECK(ends_ask(&end, &call) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_close(&end);
}

/* HG_Progress returns when HG_Trigger has something to run, not for a timer. */
HG_TEST(deadline_of_a_call_does_not_end_progress)
{
    struct ends_end end;
    struct ends_call call;

    ends_begin(&end);
    ends_create(&end, end.hold, &call);
    HG_CHECK_OK(HG_Set_deadline(call.handle, 60000));
    ends_forward(&call);
    ends_await(&end, 1, 0);
    HG_CHECK_RET(HG_Progress(end.context, 20), HG_TIMEOUT);
    HG_CHECK_OK(HG_Cancel(call.handle));
    HG_CHECK_RET(ends_wait(&end, &call), HG_CANCELED);
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_await(&end, 1, 1);
    ends_close(&end);
}

HG_TEST(cancel_reaches_the_handler)
{
    struct ends_end end;
    struct ends_call calls[3];
    unsigned i;

    ends_begin(&end);
    for (i = 0; i < 3; i++) {
        ends_create(&end, end.hold, &calls[i]);
        ends_forward(&calls[i]);
    }
    ends_await(&end, 3, 0);
    HG_CHECK_OK(HG_Cancel(calls[1].handle));
    HG_CHECK_RET(ends_wait(&end, &calls[1]), HG_CANCELED);
    HG_CHECK_EQ_STR(HG_Get_error_text(calls[1].handle), "it was canceled");
    ends_await(&end, 3, 1);
    HG_CHECK_OK(HG_Cancel(calls[1].handle)); /* nothing is in flight */
    /* Its handle can be reused at once. */
    HG_CHECK_OK(HG_Reset(calls[1].handle, HG_ADDR_NULL, end.left));
    HG_CHECK(ends_ask(&end, &calls[1]) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Cancel(calls[0].handle));
    HG_CHECK_OK(HG_Cancel(calls[2].handle));
    ends_await(&end, 3, 3);
    for (i = 0; i < 3; i++) {
        (void) ends_wait(&end, &calls[i]);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    ends_close(&end);
}

HG_TEST(cancel_of_many_calls_of_one_handle)
{
    struct ends_end end;
    struct ends_call call;
    unsigned i;

    ends_begin(&end);
    ends_create(&end, end.left, &call);
    for (i = 0; i < 200; i++) {
        hg_return_t ret;

        ends_forward(&call);
        if (i % 2 == 0)
            ends_turn(&end, 0);
        HG_CHECK_OK(HG_Cancel(call.handle));
        ret = ends_wait(&end, &call);
        /* The response may have arrived already: where the receive polls for
         * it, and on libfabric, whose transport polls in a thread. */
        if (i % 2 == 0 || hg_test_is_ofi())
            HG_CHECK(ret == HG_CANCELED || ret == HG_SUCCESS);
        else
            HG_CHECK_RET(ret, HG_CANCELED);
    }
    HG_CHECK(ends_ask(&end, &call) == HG_NO_DEADLINE);
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_close(&end);
}

HG_TEST(error_carries_code_and_text)
{
    struct ends_end end;
    struct ends_call call;
    hg_return_t ret;
    hg_id_t id;

    hg_test_allow_log("answered twice");
    hg_test_allow_log("is not served by");
    hg_test_allow_log("refused \"ends nowhere\": invalid argument");
    ends_begin(&end);
    ends_create(&end, end.fail, &call);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), "");
    ends_forward(&call);
    HG_CHECK_RET(ends_wait(&end, &call), HG_PERMISSION);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), "not you");
    HG_CHECK_OK(HG_Reset(call.handle, HG_ADDR_NULL, end.left));
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), "");
    (void) ends_ask(&end, &call);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), "");

    id = MERCURY_REGISTER(end.hg_class, "ends nowhere", void, void, NULL);
    HG_CHECK_OK(HG_Reset(call.handle, HG_ADDR_NULL, id));
    ends_forward(&call);
    ret = ends_wait(&end, &call);
    HG_CHECK_RET(ret, end.peer != NULL ? HG_NOENTRY : HG_INVALID_ARG);
    HG_CHECK(strstr(HG_Get_error_text(call.handle), "registered") != NULL);
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_close(&end);
}

HG_TEST(wrong_arguments_are_refused)
{
    struct ends_end end;
    struct ends_call call;

    hg_test_expect_log("HG_Set_deadline: the handle is NULL");
    hg_test_expect_log("HG_Set_cancel_cb: the handle is NULL");
    hg_test_expect_log(
        "HG_Set_cancel_cb: the handle belongs to an outgoing call");
    hg_test_expect_log("HG_Respond_error: the handle is NULL");
    hg_test_expect_log(
        "HG_Respond_error: the handle belongs to an outgoing call");
    ends_begin(&end);
    ends_create(&end, end.left, &call);
    HG_CHECK_RET(HG_Set_deadline(HG_HANDLE_NULL, 1), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_cancel_cb(HG_HANDLE_NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_cancel_cb(call.handle, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Respond_error(HG_HANDLE_NULL, HG_FAULT, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Respond_error(call.handle, HG_FAULT, NULL), HG_INVALID_ARG);
    HG_CHECK(HG_Get_time_left(HG_HANDLE_NULL) == HG_NO_DEADLINE);
    HG_CHECK(HG_Is_canceled(HG_HANDLE_NULL) == HG_FALSE);
    HG_CHECK(HG_Is_canceled(call.handle) == HG_FALSE);
    HG_CHECK_EQ_STR(HG_Get_error_text(NULL), "");
    HG_CHECK_OK(HG_Destroy(call.handle));
    ends_close(&end);
}
