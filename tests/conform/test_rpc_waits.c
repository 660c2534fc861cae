/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting, in one thread and in many, inside handlers and outside; requests
 * that are freed; initializing and finalizing the layer; wrong arguments.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

MERCURY_GEN_PROC(waits_two_t, ((int32_t) (a))((int32_t) (b)))
MERCURY_GEN_PROC(waits_text_t, ((hg_string_t) (text)))

static hg_id_t waits_keep_id, waits_release_id, waits_nest_id, waits_code_id,
    waits_inc_id, waits_hold_id, waits_large_id, waits_again_id,
    waits_expose_id, waits_block_id, waits_undo_id, waits_nested_id;

/* Handles kept; guarded by the lock, since handlers of several threads run at
 * once. */
static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER;
static hg_handle_t waits_kept[256];
static int waits_kept_count;

static hg_return_t waits_keep(hg_handle_t handle)
{
    pthread_mutex_lock(&waits_lock);
    HG_CHECK(waits_kept_count < 256);
    waits_kept[waits_kept_count++] = handle;
    pthread_mutex_unlock(&waits_lock);
    return HG_SUCCESS;
}

static hg_handle_t waits_take_kept(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;

    pthread_mutex_lock(&waits_lock);
    if (waits_kept_count > 0)
        handle = waits_kept[--waits_kept_count];
    pthread_mutex_unlock(&waits_lock);
    return handle;
}

/* Answer every kept handle with a text; returns their number. */
static hg_return_t waits_release(hg_handle_t handle)
{
    rpc_one_t count = {0};
    waits_text_t text;
    hg_handle_t kept;
    char word[] = "released";

    text.text = word;
    while ((kept = waits_take_kept()) != HG_HANDLE_NULL) {
        HG_CHECK_OK(HG_Handler_start_output(kept, &text));
        HG_CHECK_OK(HG_Handler_free(kept));
        count.value++;
    }
    HG_CHECK_OK(HG_Handler_start_output(handle, &count));
    return HG_Handler_free(handle);
}

static hg_return_t waits_code(hg_handle_t handle)
{
    rpc_one_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.value != HG_SUCCESS)
        return in.value;
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* a > 0: call back the caller with a - 1 and wait b ms for it. The output is
 * the number of nested calls; a failure of the innermost is the code of all. */
static hg_return_t waits_nest(hg_handle_t handle)
{
    waits_two_t in;
    rpc_one_t out = {0};
    hg_request_t request;
    hg_return_t ret;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.a > 0) {
        in.a--;
        HG_CHECK_OK(HG_Forward(
            HG_Handler_get_addr(handle), waits_nest_id, &in, &out, &request));
        ret = HG_Wait(request, (unsigned) in.b, HG_STATUS_IGNORE);
        HG_CHECK_OK(HG_Request_free(request));
        if (ret != HG_SUCCESS)
            return ret;
        out.value++;
    }
    ret = HG_Handler_start_output(handle, &out);
    /* The caller may have stopped waiting for it. */
    HG_CHECK(ret == HG_SUCCESS || ret == HG_DISCONNECT);
    return HG_Handler_free(handle);
}

static int waits_held; /* inside waits_hold; of one thread */

static hg_return_t waits_pull(na_addr_t addr, hg_bulk_t origin)
{
    hg_bulk_request_t request;
    size_t size = 100000;
    hg_return_t ret;
    hg_bulk_t local;
    int i;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &local));
    for (i = 0, ret = HG_SUCCESS; i < 10 && ret == HG_SUCCESS; i++) {
        ret = HG_Bulk_transfer(
            HG_BULK_PULL, addr, origin, 0, local, 0, size, &request);
        if (ret == HG_SUCCESS)
            ret = HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    }
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    return ret;
}

/* Moves bytes; while it waits for them no other handler may start here. The
 * caller may be gone by then. */
static hg_return_t waits_hold(hg_handle_t handle)
{
    hg_bulk_t origin;
    hg_return_t ret;

    HG_CHECK_EQ_INT(waits_held, 0);
    waits_held = 1;
    HG_CHECK_OK(HG_Handler_get_input(handle, &origin));
    ret = waits_pull(HG_Handler_get_addr(handle), origin);
    HG_CHECK_OK(HG_Handler_free_input(handle, &origin));
    waits_held = 0;
    if (ret != HG_SUCCESS)
        return ret;
    (void) HG_Handler_start_output(handle, NULL);
    return HG_Handler_free(handle);
}

static hg_return_t waits_large(hg_handle_t handle)
{
    struct blob blob = {300000, rpc_new_pattern(300000, 3)};

    (void) HG_Handler_start_output(handle, &blob);
    free(blob.bytes);
    return HG_Handler_free(handle);
}

/* Calls itself again until waits_enough is set: the queue of calls is never
 * empty. */
static bool waits_enough;
static hg_request_t waits_last;

static hg_return_t waits_again(hg_handle_t handle)
{
    hg_request_t before = waits_last;

    if (!waits_enough)
        HG_CHECK_OK(HG_Forward(HG_Handler_get_addr(handle), waits_again_id,
            NULL, NULL, &waits_last));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    if (!waits_enough)
        HG_CHECK_OK(HG_Request_free(before)); /* this very call's */
    return HG_Handler_free(handle);
}

/* Memory of the server, for callers. */
static hg_return_t waits_expose(hg_handle_t handle)
{
    static hg_bulk_t lent;
    size_t size = 100000;

    if (lent == HG_BULK_NULL) {
        hg_test_allow_log("1 bulk handle outlives the layer");
        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &lent));
    }
    HG_CHECK_OK(HG_Handler_start_output(handle, &lent));
    return HG_Handler_free(handle);
}

/* Frees the request that this thread waits for. */
static hg_request_t waits_awaited;

static hg_return_t waits_undo(hg_handle_t handle)
{
    hg_test_expect_log("HG_Request_free: a thread waits for the request");
    HG_CHECK_RET(HG_Request_free(waits_awaited), HG_BUSY);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static int waits_blocked; /* by one thread */

/* Blocks this thread, and with it all progress, for so many ms. */
static hg_return_t waits_block(hg_handle_t handle)
{
    struct timespec time = {0, 0};
    rpc_one_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    time.tv_nsec = in.value * 1000000L;
    (void) nanosleep(&time, NULL);
    waits_blocked++;
    (void) HG_Handler_start_output(handle, NULL);
    return HG_Handler_free(handle);
}

static const struct rpc_end *waits_nested_end; /* NULL: decode, nothing else */
static hg_request_t waits_nested_request;      /* the request of that output */
static hg_bulk_t waits_nested_bulk;            /* the target's; NULL: none */
static hg_bulk_t waits_nested_local;

/* A transfer that has completed before it is waited for. */
static void waits_bulk_at_once(const struct rpc_end *end)
{
    char from[8] = "moved", to[8] = "";
    void *memory[2] = {from, to};
    size_t size = sizeof(from);
    hg_bulk_t bulk[2];
    hg_bulk_request_t request;
    hg_status_t status = HG_FALSE;
    unsigned i;

    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_handle_create(
            1, &memory[i], &size, HG_BULK_READWRITE, &bulk[i]));
    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, end->target, bulk[0], 0, bulk[1], 0, size, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, 0, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_STR(to, "moved");
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_handle_free(bulk[i]));
}

/* Waits of every kind. */
static void waits_run_nested(const struct rpc_end *end)
{
    hg_status_t status = HG_TRUE;
    rpc_one_t one = {1};
    hg_request_t request;

    HG_CHECK_RET(HG_Wait(waits_nested_request, 0, &status), HG_BUSY);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    status = HG_TRUE;
    HG_CHECK_RET(
        HG_Wait_all(1, &waits_nested_request, RPC_TIMEOUT, &status), HG_BUSY);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_RET(HG_Request_free(waits_nested_request), HG_BUSY);
    request = rpc_start_call(end, waits_inc_id, &one, &one);
    HG_CHECK_OK(HG_Wait(request, RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Wait_room(end->target, RPC_TIMEOUT));
    if (hg_test_is_self())
        waits_bulk_at_once(end);
}

/* Transfers: started here, and in a call that this process serves. */
static void waits_be_nosy_of_bulk(const struct rpc_end *end)
{
    const size_t size = HG_Bulk_handle_get_size(waits_nested_bulk);
    hg_bulk_request_t request;
    hg_status_t status = HG_FALSE;
    char bytes[8];

    HG_CHECK_EQ_INT(waits_kept_count, 1);
    HG_CHECK_OK(HG_Bulk_pull(waits_kept[0], waits_nested_local, 0, bytes, 8));
    HG_CHECK_OK(HG_Bulk_push(waits_kept[0], waits_nested_local, 0, bytes, 8));
    HG_CHECK_OK(HG_Bulk_transfer(HG_BULK_PULL, end->target, waits_nested_bulk,
        0, waits_nested_local, 0, size, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
}

/* The proc of an output, which waits for its own call while it decodes. */
static hg_return_t waits_nested(hg_proc_t proc, void *data)
{
    hg_return_t ret = hg_proc_int32_t(proc, (int32_t *) data);
    const struct rpc_end *end = waits_nested_end;

    waits_nested_end = NULL;
    if (end != NULL && hg_proc_get_op(proc) == HG_DECODE) {
        waits_run_nested(end);
        if (waits_nested_bulk != HG_BULK_NULL)
            waits_be_nosy_of_bulk(end);
    } else
        waits_nested_end = end;
    return ret;
}

static void rpc_register(void)
{
    waits_nested_id =
        HG_Register("waits nosy", hg_proc_rpc_one_t, waits_nested, rpc_inc);
    HG_CHECK(waits_nested_id != 0);
    waits_again_id = MERCURY_REGISTER("waits again", void, void, waits_again);
    waits_expose_id =
        MERCURY_REGISTER("waits lend", void, hg_bulk_t, waits_expose);
    waits_undo_id = MERCURY_REGISTER("waits undo", void, void, waits_undo);
    waits_block_id =
        MERCURY_REGISTER("waits doze", rpc_one_t, void, waits_block);
    waits_keep_id =
        MERCURY_REGISTER("waits keep", void, waits_text_t, waits_keep);
    waits_release_id =
        MERCURY_REGISTER("waits release", void, rpc_one_t, waits_release);
    waits_nest_id =
        MERCURY_REGISTER("waits nest", waits_two_t, rpc_one_t, waits_nest);
    waits_code_id = MERCURY_REGISTER("waits code", rpc_one_t, void, waits_code);
    waits_inc_id = MERCURY_REGISTER("waits inc", rpc_one_t, rpc_one_t, rpc_inc);
    waits_hold_id = MERCURY_REGISTER("waits hold", hg_bulk_t, void, waits_hold);
    waits_large_id = HG_Register("waits large", NULL, blob_proc, waits_large);
    HG_CHECK(waits_large_id != 0);
}

/* The kept calls are answered. */
static void waits_do_release(const struct rpc_end *end, int32_t expected)
{
    rpc_one_t count = {0};

    HG_CHECK_OK(rpc_call(end, waits_release_id, NULL, &count));
    HG_CHECK_EQ_INT(count.value, expected);
}

/* Wrong arguments: one code, one line. */
#define WAITS_REFUSED(call, line) \
    do { \
        hg_test_expect_log(line); \
        HG_CHECK_RET(call, HG_INVALID_ARG); \
        HG_CHECK_EQ_INT(hg_test_log_count(line), 1); \
    } while (0)

/* ---- How waits end ---- */

HG_TEST(wait_times_out_and_can_be_repeated)
{
    struct rpc_end end;
    waits_text_t out = {NULL};
    hg_request_t request;
    hg_status_t status = 77;

    rpc_open(&end);
    request = rpc_start_call(&end, waits_keep_id, NULL, &out);
    HG_CHECK_RET(HG_Wait(request, 0, &status), HG_TIMEOUT);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_RET(HG_Wait(request, 5, HG_STATUS_IGNORE), HG_TIMEOUT);
    waits_do_release(&end, 1);
    HG_CHECK_OK(HG_Wait(request, RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_STR(out.text, "released");
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

static void waits_on_alarm(int signal_number)
{
    (void) signal_number;
}

HG_TEST(wait_ends_with_a_signal)
{
    struct sigaction action;
    struct itimerval often = {{0, 20000}, {0, 20000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    struct rpc_end end;
    hg_request_t requests[1];
    hg_status_t status = HG_TRUE;

    rpc_open(&end);
    requests[0] = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    HG_CHECK_RET(HG_Wait(requests[0], 10, HG_STATUS_IGNORE), HG_TIMEOUT);
    memset(&action, 0, sizeof(action));
    action.sa_handler = waits_on_alarm; /* without SA_RESTART */
    HG_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    HG_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    HG_CHECK_RET(HG_Wait(requests[0], RPC_TIMEOUT, &status), HG_INTR);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    status = HG_TRUE;
    HG_CHECK_RET(HG_Wait_all(1, requests, RPC_TIMEOUT, &status), HG_INTR);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_RET(HG_Handler_process(RPC_TIMEOUT, &status), HG_INTR);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    waits_do_release(&end, 1);
    HG_CHECK_OK(rpc_wait(requests[0]));
    HG_CHECK_OK(HG_Request_free(requests[0]));
    rpc_close(&end);
}

static uint64_t waits_now_ms(void)
{
    struct timespec now;

    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Calls that keep arriving prevent neither the timeout of a wait nor its
 * completion. */
HG_TEST(wait_times_out_while_calls_keep_arriving)
{
    rpc_one_t in = {1};
    rpc_one_t out = {0};
    struct rpc_end end;
    hg_request_t requests[8];
    hg_status_t status;
    na_addr_t self;
    uint64_t begin;
    int i;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    for (i = 0; i < 8; i++)
        requests[i] = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    waits_enough = false;
    HG_CHECK_OK(HG_Forward(self, waits_again_id, NULL, NULL, &waits_last));
    begin = waits_now_ms();
    for (i = 0; i < 20; i++) {
        HG_CHECK_RET(HG_Wait(requests[0], 0, &status), HG_TIMEOUT);
        HG_CHECK_EQ_INT(status, HG_FALSE);
        HG_CHECK_RET(HG_Wait_all(8, requests, 0, NULL), HG_TIMEOUT);
        HG_CHECK_OK(HG_Handler_process(0, &status));
    }
    HG_CHECK(waits_now_ms() - begin < 20 * 200);
    begin = waits_now_ms();
    HG_CHECK_RET(HG_Wait(requests[0], 100, &status), HG_TIMEOUT);
    HG_CHECK_RET(HG_Wait_all(8, requests, 100, NULL), HG_TIMEOUT);
    HG_CHECK(waits_now_ms() - begin >= 200);
    HG_CHECK(waits_now_ms() - begin < 20 * 200);
    HG_CHECK_OK(rpc_call(&end, waits_inc_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 2);
    waits_enough = true;
    HG_CHECK_OK(rpc_wait(waits_last));
    HG_CHECK_OK(HG_Request_free(waits_last));
    waits_do_release(&end, 8);
    HG_CHECK_OK(HG_Wait_all(8, requests, RPC_TIMEOUT, NULL));
    for (i = 0; i < 8; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

/* Slow handlers are queued: a wait runs at most two of them past its timeout,
 * and reports a completed request without running any. */
HG_TEST(wait_times_out_beside_slow_handlers)
{
    hg_status_t statuses[8];
    hg_request_t done[8];
    hg_request_t slow[30];
    rpc_one_t doze = {20};
    struct rpc_end end;
    na_addr_t self;
    int i;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    for (i = 0; i < 8; i++)
        done[i] = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    for (i = 0; i < 8; i++)
        HG_CHECK_RET(HG_Wait(done[i], 20, NULL), HG_TIMEOUT);
    waits_do_release(&end, 8);
    HG_CHECK_OK(HG_Wait_all(8, done, RPC_TIMEOUT, NULL));
    for (i = 0; i < 30; i++)
        HG_CHECK_OK(HG_Forward(self, waits_block_id, &doze, NULL, &slow[i]));
    waits_blocked = 0;
    HG_CHECK_OK(HG_Wait_all(8, done, 0, statuses));
    HG_CHECK_OK(HG_Wait(done[7], 0, NULL));
    HG_CHECK_EQ_INT(waits_blocked, 0);
    HG_CHECK_EQ_INT(statuses[7], HG_TRUE);
    HG_CHECK_OK(HG_Handler_process(5, NULL));
    HG_CHECK_EQ_INT(waits_blocked, 1);
    HG_CHECK_OK(HG_Handler_process(0, NULL));
    HG_CHECK_EQ_INT(waits_blocked, 2);
    /* The last requests are not complete: one check for all, not one for
     * each. */
    HG_CHECK_RET(HG_Wait_all(20, slow + 10, 0, NULL), HG_TIMEOUT);
    HG_CHECK(waits_blocked <= 4);
    HG_CHECK_RET(HG_Wait(slow[29], 1, NULL), HG_TIMEOUT);
    HG_CHECK(waits_blocked <= 6);
    HG_CHECK_OK(HG_Wait_all(30, slow, RPC_TIMEOUT, NULL));
    HG_CHECK_EQ_INT(waits_blocked, 30);
    for (i = 0; i < 30; i++)
        HG_CHECK_OK(HG_Request_free(slow[i]));
    for (i = 0; i < 8; i++)
        HG_CHECK_OK(HG_Request_free(done[i]));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

/* A request is not freed by a wait that times out. */
HG_TEST(wait_timeout_keeps_the_request)
{
    hg_request_t undo;
    struct rpc_end end;
    na_addr_t self;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    waits_awaited = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    HG_CHECK_OK(HG_Forward(self, waits_undo_id, NULL, NULL, &undo));
    HG_CHECK_RET(HG_Wait(waits_awaited, 50, NULL), HG_TIMEOUT);
    HG_CHECK_OK(rpc_wait(undo));
    HG_CHECK_OK(HG_Request_free(undo));
    waits_do_release(&end, 1);
    HG_CHECK_OK(rpc_wait(waits_awaited));
    HG_CHECK_OK(HG_Request_free(waits_awaited));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

static hg_bulk_request_t waits_shared;

static void *waits_take_shared(void *arg)
{
    *(hg_return_t *) arg = HG_Bulk_wait(waits_shared, RPC_TIMEOUT, NULL);
    return NULL;
}

/* Of several threads that wait for one transfer, one gets its result. */
HG_TEST(waits_for_one_transfer_return_one_result)
{
    size_t size = 4000000;
    struct rpc_end end;
    na_addr_t self;
    hg_bulk_t bulk[2];
    int i, j;

    rpc_open(&end);
    hg_test_allow_log("HG_Bulk_wait: no such request");
    hg_test_allow_log("HG_Bulk_wait: another thread waits");
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk[i]));
    for (i = 0; i < 20; i++) {
        pthread_t threads[3];
        hg_return_t rets[3];
        int results = 0;

        HG_CHECK_OK(HG_Bulk_transfer(
            HG_BULK_PULL, self, bulk[0], 0, bulk[1], 0, size, &waits_shared));
        for (j = 0; j < 3; j++)
            HG_CHECK(pthread_create(
                         &threads[j], NULL, waits_take_shared, &rets[j]) == 0);
        for (j = 0; j < 3; j++) {
            HG_CHECK(pthread_join(threads[j], NULL) == 0);
            HG_CHECK(rets[j] == HG_SUCCESS || rets[j] == HG_INVALID_ARG ||
                rets[j] == HG_BUSY);
            results += rets[j] == HG_SUCCESS;
        }
        HG_CHECK_EQ_INT(results, 1);
    }
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_handle_free(bulk[i]));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

struct waits_listener {
    hg_request_t request; /* or NULL: it serves */
    pthread_t thread;
    _Atomic bool ended;
    hg_return_t ret;
};

static void *waits_receive_signals(void *arg)
{
    struct waits_listener *mine = (struct waits_listener *) arg;

    if (mine->request != HG_REQUEST_NULL)
        mine->ret = HG_Wait(mine->request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    else
        mine->ret = HG_Handler_process(RPC_TIMEOUT, HG_STATUS_IGNORE);
    atomic_store(&mine->ended, true);
    return NULL;
}

/* One of many threads makes progress and the others sleep: a signal ends the
 * wait of the thread that it was sent to. */
HG_TEST(waits_of_every_thread_end_with_its_signal)
{
    enum { HEARERS = 5 };
    struct waits_listener hearers[HEARERS];
    struct timespec nap = {0, 2000000};
    struct sigaction action;
    struct rpc_end end;
    int i;
    int j;

    rpc_open(&end);
    memset(&action, 0, sizeof(action));
    action.sa_handler = waits_on_alarm;
    action.sa_flags = SA_RESTART; /* also with this flag */
    HG_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (i = 0; i < HEARERS; i++) {
        memset(&hearers[i], 0, sizeof(hearers[i]));
        if (i + 1 < HEARERS) {
            hearers[i].request =
                rpc_start_call(&end, waits_keep_id, NULL, NULL);
            HG_CHECK_RET(HG_Wait(hearers[i].request, 10, NULL), HG_TIMEOUT);
        }
    }
    for (i = 0; i < HEARERS; i++)
        HG_CHECK(pthread_create(&hearers[i].thread, NULL, waits_receive_signals,
                     &hearers[i]) == 0);
    for (i = HEARERS - 1; i >= 0; i--) {
        while (!atomic_load(&hearers[i].ended)) {
            HG_CHECK(pthread_kill(hearers[i].thread, SIGUSR1) == 0);
            (void) nanosleep(&nap, NULL);
        }
        HG_CHECK(pthread_join(hearers[i].thread, NULL) == 0);
        HG_CHECK_RET(hearers[i].ret, HG_INTR);
        for (j = 0; j < i; j++)
            HG_CHECK(!atomic_load(&hearers[j].ended));
    }
    waits_do_release(&end, HEARERS - 1);
    for (i = 0; i + 1 < HEARERS; i++) {
        HG_CHECK_OK(rpc_wait(hearers[i].request));
        HG_CHECK_OK(HG_Request_free(hearers[i].request));
    }
    rpc_close(&end);
}

/* A bulk request survives HG_TIMEOUT and HG_INTR, and no other result. */
HG_TEST_WHERE(waits_for_bulk_keep_the_request, hg_test_crosses_processes)
{
    struct itimerval often = {{0, 20000}, {0, 20000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action;
    hg_bulk_request_t transfer;
    hg_request_t lending;
    struct rpc_end end;
    hg_status_t status = HG_TRUE;
    size_t size = 100000;
    hg_bulk_t origin;
    hg_bulk_t local;

    /* A copy that needs the peer, which is stopped. */
    HG_CHECK(setenv("HG_SM_RMA", "copy", 1) == 0);
    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_WRITE_ONLY, &local));
    lending = rpc_start_call(&end, waits_expose_id, NULL, &origin);
    HG_CHECK_OK(rpc_wait(lending));
    hg_test_freeze(end.peer);
    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, end.target, origin, 0, local, 0, size, &transfer));
    HG_CHECK_RET(HG_Bulk_wait(transfer, 0, &status), HG_TIMEOUT);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_RET(HG_Bulk_wait(transfer, 5, NULL), HG_TIMEOUT);
    memset(&action, 0, sizeof(action));
    action.sa_handler = waits_on_alarm;
    HG_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    HG_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    status = HG_TRUE;
    HG_CHECK_RET(HG_Bulk_wait(transfer, RPC_TIMEOUT, &status), HG_INTR);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    hg_test_signal(end.peer, SIGCONT);
    HG_CHECK_OK(HG_Bulk_wait(transfer, RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    WAITS_REFUSED(
        HG_Bulk_wait(transfer, 0, &status), "HG_Bulk_wait: no such request");
    HG_CHECK_OK(HG_Request_free(lending)); /* and the origin's handle */
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    rpc_close(&end);
}

HG_TEST(wait_all_returns_the_first_error)
{
    struct rpc_end end;
    rpc_one_t codes[4] = {{HG_SUCCESS}, {HG_ACCESS}, {HG_NODEV}, {0}};
    hg_request_t requests[5];
    hg_request_t swapped[5];
    hg_status_t statuses[5];
    int i;

    rpc_open(&end);
    requests[0] = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    for (i = 1; i < 5; i++)
        requests[i] = rpc_start_call(&end, waits_code_id, &codes[i - 1], NULL);
    for (i = 1; i < 5; i++)
        HG_CHECK_RET(rpc_wait(requests[i]), codes[i - 1].value);
    /* An error takes precedence over an incomplete request, at any position. */
    HG_CHECK_RET(HG_Wait_all(5, requests, 0, statuses), HG_ACCESS);
    HG_CHECK_EQ_INT(statuses[0], HG_FALSE);
    for (i = 1; i < 5; i++)
        HG_CHECK_EQ_INT(statuses[i], HG_TRUE);
    for (i = 0; i < 5; i++)
        swapped[i] = requests[4 - i];
    HG_CHECK_RET(HG_Wait_all(5, swapped, 0, NULL), HG_NODEV);
    HG_CHECK_RET(HG_Wait_all(2, requests, 0, NULL), HG_TIMEOUT);
    HG_CHECK_OK(HG_Wait_all(0, NULL, RPC_TIMEOUT, NULL));
    waits_do_release(&end, 1);
    HG_CHECK_OK(HG_Wait_all(2, requests, RPC_TIMEOUT, NULL));
    for (i = 0; i < 5; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    rpc_close(&end);
}

/* An unknown request is reported at once, not when the others have
 * completed. */
HG_TEST(wait_all_checks_all_requests_first)
{
    hg_request_t requests[2];
    hg_status_t statuses[2] = {77, 77};
    struct rpc_end end;
    rpc_one_t in = {1};

    hg_test_expect_log("HG_Wait_all: no such request");
    rpc_open(&end);
    requests[0] = rpc_start_call(&end, waits_keep_id, NULL, NULL);
    requests[1] = rpc_start_call(&end, waits_inc_id, &in, NULL);
    HG_CHECK_OK(HG_Request_free(requests[1]));
    HG_CHECK_RET(HG_Wait_all(2, requests, 100, statuses), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(statuses[0], 77);
    HG_CHECK_EQ_INT(statuses[1], 77);
    waits_do_release(&end, 1);
    HG_CHECK_OK(rpc_wait(requests[0]));
    HG_CHECK_OK(HG_Request_free(requests[0]));
    rpc_close(&end);
}

/* After HG_Request_free the output is not written. */
HG_TEST(canceled_wait_does_not_write_the_output)
{
    static const unsigned char poison[sizeof(struct blob)] = {
        0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5};
    struct rpc_end end;
    struct blob out;
    waits_text_t text;
    hg_request_t request;
    rpc_one_t one = {1};
    int i;

    rpc_open(&end);
    memcpy(&out, poison, sizeof(out));
    memcpy(&text, poison, sizeof(text));
    request = rpc_start_call(&end, waits_keep_id, NULL, &text);
    HG_CHECK_RET(HG_Wait(request, 10, HG_STATUS_IGNORE), HG_TIMEOUT);
    HG_CHECK_OK(rpc_call(&end, waits_inc_id, &one, &one)); /* sent after it */
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    waits_do_release(&end, 1);
    for (i = 0; i < 100; i++) {
        int turns;

        request = rpc_start_call(&end, waits_large_id, NULL, &out);
        for (turns = 0; turns < i % 20; turns++)
            if (HG_Wait(request, 0, HG_STATUS_IGNORE) == HG_SUCCESS)
                break;
        if (turns < i % 20) { /* it was faster */
            HG_CHECK_OK(HG_Request_free(request));
            memcpy(&out, poison, sizeof(out));
            continue;
        }
        HG_CHECK_OK(HG_Request_free(request));
        (void) HG_Handler_process(0, HG_STATUS_IGNORE);
        HG_CHECK_EQ_MEM(&out, poison, sizeof(out));
    }
    /* A call that completes normally comes after all those. */
    request = rpc_start_call(&end, waits_large_id, NULL, NULL);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_EQ_MEM(&text, poison, sizeof(text));
    HG_CHECK_EQ_MEM(&out, poison, sizeof(out));
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

/* ---- Inside handlers ---- */

HG_TEST(waits_inside_handlers_run_handlers)
{
    struct rpc_end end;
    waits_two_t in = {0, 5000};
    rpc_one_t out = {0};
    /* Each side may nest sixteen. */
    int32_t deepest;

    rpc_open(&end);
    deepest = end.peer != NULL ? 31 : 15;
    for (in.a = 0; in.a <= deepest; in.a += in.a < 2 ? 1 : deepest - 2) {
        HG_CHECK_OK(rpc_call(&end, waits_nest_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, in.a);
    }
    rpc_close(&end);
}

HG_TEST(waits_nested_too_deep_leave_calls_queued)
{
    struct rpc_end end;
    waits_two_t in = {16, 200};
    rpc_one_t out = {0};

    rpc_open(&end);
    if (end.peer != NULL)
        in.a = 34;
    /* The wait for the last one times out; the other calls get a code that does
     * not mean "not yet". */
    hg_test_expect_log("returned 20 (timed out), which is not a valid result");
    if (end.peer == NULL)
        hg_test_expect_log("this thread already has 16 nested handlers");
    else /* the other side, or both, one after the other */
        hg_test_allow_log("this thread already has 16 nested handlers");
    HG_CHECK_RET(rpc_call(&end, waits_nest_id, &in, &out), HG_OTHER_ERROR);
    in.a = 3;
    HG_CHECK_OK(rpc_call(&end, waits_nest_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 3);
    rpc_close(&end);
}

/* The thread that waits for the request decodes its output. Its proc may wait
 * for anything but this request. */
HG_TEST(procs_of_outputs_wait_for_other_calls)
{
    hg_status_t status;
    rpc_one_t one = {5};
    struct rpc_end end;

    hg_test_expect_log("HG_Wait: a thread waits for the request");
    hg_test_expect_log("HG_Wait_all: a thread waits for the request");
    hg_test_expect_log("HG_Request_free: a thread waits for the request");
    rpc_open(&end);
    waits_nested_end = &end;
    waits_nested_request = rpc_start_call(&end, waits_nested_id, &one, &one);
    HG_CHECK_OK(HG_Wait(waits_nested_request, RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK(waits_nested_end == NULL);
    HG_CHECK_EQ_INT(one.value, 6);
    HG_CHECK_OK(HG_Request_free(waits_nested_request));
    rpc_close(&end);
}

HG_TEST(procs_of_outputs_wait_for_bulk)
{
    size_t size = 100000;
    hg_request_t kept, lent;
    na_addr_t self;
    rpc_one_t one = {5};
    struct rpc_end end;

    hg_test_allow_log("a thread waits for the request");
    hg_test_allow_log("1 bulk handle outlives the layer");
    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(HG_Forward(self, waits_keep_id, NULL, NULL, &kept));
    while (waits_kept_count == 0)
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
    HG_CHECK_OK(HG_Bulk_handle_create(
        1, NULL, &size, HG_BULK_READWRITE, &waits_nested_local));
    lent = rpc_start_call(&end, waits_expose_id, NULL, &waits_nested_bulk);
    HG_CHECK_OK(rpc_wait(lent));
    waits_nested_end = &end;
    waits_nested_request = rpc_start_call(&end, waits_nested_id, &one, &one);
    HG_CHECK_OK(rpc_wait(waits_nested_request));
    HG_CHECK(waits_nested_end == NULL);
    HG_CHECK_OK(HG_Request_free(waits_nested_request));
    HG_CHECK_OK(HG_Request_free(lent)); /* and the target's bulk handle */
    HG_CHECK_OK(HG_Bulk_handle_free(waits_nested_local));
    HG_CHECK_OK(HG_Handler_free(waits_take_kept()));
    HG_CHECK_RET(rpc_wait(kept), HG_CANCELED);
    HG_CHECK_OK(HG_Request_free(kept));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

/* Not by a thread that waits for another call. */
HG_TEST(outputs_are_decoded_by_the_wait_for_their_request)
{
    rpc_one_t one = {5}, other = {1};
    struct rpc_end end;
    int i;

    hg_test_allow_log("a thread waits for the request");
    rpc_open(&end);
    waits_nested_end = &end;
    waits_nested_request = rpc_start_call(&end, waits_nested_id, &one, &one);
    for (i = 0; i < 10; i++)
        HG_CHECK_OK(rpc_call(&end, waits_inc_id, &other, &other));
    HG_CHECK(waits_nested_end == &end);
    HG_CHECK_EQ_INT(one.value, 5);
    HG_CHECK_OK(rpc_wait(waits_nested_request));
    HG_CHECK(waits_nested_end == NULL);
    HG_CHECK_EQ_INT(one.value, 6);
    HG_CHECK_OK(HG_Request_free(waits_nested_request));
    rpc_close(&end);
}

HG_TEST(bulk_wait_inside_a_handler_starts_no_handler)
{
    enum { COUNT = 20 };
    struct rpc_end end;
    hg_request_t requests[COUNT];
    hg_bulk_t bulk;
    size_t size = 100000;
    int i;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &bulk));
    for (i = 0; i < COUNT; i++)
        requests[i] = rpc_start_call(&end, waits_hold_id, &bulk, NULL);
    HG_CHECK_OK(HG_Wait_all(COUNT, requests, RPC_TIMEOUT, NULL));
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    rpc_close(&end);
}

/* ---- Several threads ---- */

struct waits_thread {
    const struct rpc_end *end;
    pthread_t thread;
    int calls;
};

static void *waits_call_many(void *arg)
{
    const struct waits_thread *mine = (const struct waits_thread *) arg;
    int i;

    for (i = 0; i < mine->calls; i++) {
        rpc_one_t in;
        rpc_one_t out = {0};

        in.value = i;
        HG_CHECK_OK(rpc_call(mine->end, waits_inc_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, i + 1);
    }
    return NULL;
}

static void *waits_copy_many(void *arg)
{
    const struct waits_thread *mine = (const struct waits_thread *) arg;
    na_addr_t self;
    size_t size = 10000;
    int i;

    HG_CHECK_OK(NA_Addr_self(mine->end->na_class, &self));
    for (i = 0; i < mine->calls; i++) {
        hg_bulk_request_t request;
        hg_bulk_t from;
        hg_bulk_t to;

        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &from));
        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, HG_BULK_WRITE_ONLY, &to));
        HG_CHECK_OK(HG_Bulk_transfer(
            HG_BULK_PULL, self, from, 0, to, 0, size, &request));
        HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
        HG_CHECK_OK(HG_Bulk_handle_free(from));
        HG_CHECK_OK(HG_Bulk_handle_free(to));
    }
    HG_CHECK_OK(NA_Addr_free(mine->end->na_class, self));
    return NULL;
}

static _Atomic bool waits_stop;

static void *waits_serve(void *arg)
{
    (void) arg;
    while (!atomic_load(&waits_stop)) {
        hg_return_t ret = HG_Handler_process(5, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    return NULL;
}

HG_TEST_SECONDS(waits_of_many_threads_all_end, 60)
{
    struct rpc_end end;
    struct waits_thread callers[6];
    pthread_t servers[2];
    int i;

    rpc_open(&end);
    atomic_store(&waits_stop, false);
    for (i = 0; i < 2; i++)
        HG_CHECK(pthread_create(&servers[i], NULL, waits_serve, NULL) == 0);
    for (i = 0; i < 6; i++) {
        callers[i].end = &end;
        callers[i].calls = 300;
        HG_CHECK(
            pthread_create(&callers[i].thread, NULL,
                i < 5 ? waits_call_many : waits_copy_many, &callers[i]) == 0);
    }
    for (i = 0; i < 6; i++)
        HG_CHECK(pthread_join(callers[i].thread, NULL) == 0);
    atomic_store(&waits_stop, true);
    for (i = 0; i < 2; i++)
        HG_CHECK(pthread_join(servers[i], NULL) == 0);
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

/* Without a thread that serves: each waits for its own call, and progress is
 * handed to another thread whenever one leaves. */
HG_TEST_SECONDS(wait_hands_progress_to_another_thread, 60)
{
    struct rpc_end end;
    struct waits_thread callers[8];
    int i;

    rpc_open(&end);
    for (i = 0; i < 8; i++) {
        callers[i].end = &end;
        callers[i].calls = 500;
        HG_CHECK(pthread_create(&callers[i].thread, NULL, waits_call_many,
                     &callers[i]) == 0);
    }
    for (i = 0; i < 8; i++)
        HG_CHECK(pthread_join(callers[i].thread, NULL) == 0);
    rpc_close(&end);
}

struct waits_sleeper {
    hg_request_t request;
    pthread_t thread;
    hg_return_t ret;
};

static void *waits_sleep(void *arg)
{
    struct waits_sleeper *mine = (struct waits_sleeper *) arg;

    mine->ret = HG_Wait(mine->request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    return NULL;
}

/* A completion wakes the thread that waits for it, although another thread
 * makes progress and continues to. */
HG_TEST(wait_wakes_the_thread_whose_call_completed)
{
    enum { SLEEPERS = 5 };
    struct waits_sleeper sleepers[SLEEPERS];
    struct rpc_end end;
    struct hg_counters counters;
    rpc_one_t count = {0};
    int released = 0;
    int i;

    rpc_open(&end);
    for (i = 0; i < SLEEPERS; i++) {
        sleepers[i].request = rpc_start_call(&end, waits_keep_id, NULL, NULL);
        HG_CHECK(pthread_create(&sleepers[i].thread, NULL, waits_sleep,
                     &sleepers[i]) == 0);
    }
    while (released < SLEEPERS) {
        HG_CHECK_OK(rpc_call(&end, waits_release_id, NULL, &count));
        released += count.value;
    }
    for (i = 0; i < SLEEPERS; i++) {
        HG_CHECK(pthread_join(sleepers[i].thread, NULL) == 0);
        HG_CHECK_OK(sleepers[i].ret);
        HG_CHECK_OK(HG_Request_free(sleepers[i].request));
    }
    counters = rpc_counters();
    HG_CHECK_EQ_U64(counters.in_flight, 0);
    rpc_close(&end);
}

static _Atomic int waits_woken;

static void *waits_sleep_counted(void *arg)
{
    (void) waits_sleep(arg);
    atomic_fetch_add(&waits_woken, 1);
    return NULL;
}

static int waits_kept_now(void)
{
    int count;

    pthread_mutex_lock(&waits_lock);
    count = waits_kept_count;
    pthread_mutex_unlock(&waits_lock);
    return count;
}

/* The next kept handle is answered by this thread, which does not wait. */
static void waits_answer_one(void)
{
    hg_handle_t kept = waits_take_kept();
    waits_text_t text = {NULL};

    HG_CHECK(kept != HG_HANDLE_NULL);
    HG_CHECK_OK(HG_Handler_start_output(kept, &text));
    HG_CHECK_OK(HG_Handler_free(kept));
}

/* Two responses end the waits of the thread that makes progress and of a
 * sleeping one, which is woken to take over but returns instead. The third
 * thread must then not sleep without anyone making progress. */
HG_TEST_SECONDS(wait_leaves_no_thread_asleep, 60)
{
    struct waits_sleeper sleepers[3];
    struct rpc_end end;
    na_addr_t self;
    int round;
    int i;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    for (round = 0; round < 300; round++) {
        atomic_store(&waits_woken, 0);
        for (i = 0; i < 3; i++) {
            HG_CHECK_OK(HG_Forward(
                self, waits_keep_id, NULL, NULL, &sleepers[i].request));
            HG_CHECK(pthread_create(&sleepers[i].thread, NULL,
                         waits_sleep_counted, &sleepers[i]) == 0);
        }
        while (waits_kept_now() < 3)
            (void) sched_yield();
        waits_answer_one();
        waits_answer_one();
        while (atomic_load(&waits_woken) < 2)
            (void) sched_yield();
        waits_answer_one();
        for (i = 0; i < 3; i++) {
            HG_CHECK(pthread_join(sleepers[i].thread, NULL) == 0);
            HG_CHECK_OK(sleepers[i].ret);
            HG_CHECK_OK(HG_Request_free(sleepers[i].request));
        }
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

/* ---- Initializing and finalizing ---- */

HG_TEST(layer_initializes_and_finalizes_100_times)
{
    na_class_t *na_class = rpc_open_class(NA_TRUE);
    unsigned fds = 0;
    na_addr_t self;
    int i;

    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    for (i = 0; i < 100; i++) {
        rpc_one_t in = {1};
        rpc_one_t out = {0};
        struct rpc_end end = {na_class, NULL, self, NULL};

        HG_CHECK_OK(HG_Init(na_class));
        rpc_register();
        HG_CHECK_OK(rpc_call(&end, waits_inc_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, 2);
        HG_CHECK_OK(HG_Finalize());
        if (i == 0)
            fds = hg_test_fd_count();
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    }
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(layer_finalizes_with_everything_in_flight)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    size_t size = 1000000;
    int round;

    hg_test_alloc_install();
    hg_test_allow_log("");
    options.drain_ms = 50;
    for (round = 0; round < 8; round++) {
        struct blob out[20];
        hg_request_t requests[20];
        hg_bulk_request_t transfer;
        hg_bulk_t bulk[2];
        struct rpc_end end;
        rpc_one_t one = {1};
        int i;

        rpc_open_with(&end, &options, false);
        waits_kept_count = 0;
        for (i = 0; i < 2; i++)
            HG_CHECK_OK(HG_Bulk_handle_create(
                1, NULL, &size, HG_BULK_READWRITE, &bulk[i]));
        for (i = 0; i < 20; i++) {
            HG_CHECK_OK(HG_Forward(end.target,
                i % 4 == 0       ? waits_keep_id
                    : i % 4 == 1 ? waits_large_id
                    : i % 4 == 2 ? waits_inc_id
                                 : waits_hold_id,
                i % 4 < 2        ? NULL
                    : i % 4 == 2 ? (void *) &one
                                 : (void *) &bulk[0],
                &out[i], &requests[i]));
        }
        for (i = 0; i < round; i++)
            (void) HG_Wait(requests[0], 0, HG_STATUS_IGNORE);
        HG_CHECK_OK(HG_Bulk_transfer(
            HG_BULK_PULL, end.target, bulk[0], 0, bulk[1], 0, size, &transfer));
        HG_CHECK_OK(HG_Bulk_handle_free(bulk[0]));
        HG_CHECK_OK(HG_Bulk_handle_free(bulk[1]));
        rpc_close(&end);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    }
}

/* Every function that needs the layer, called without it. */
static void waits_try_all(void)
{
    hg_request_t request = HG_REQUEST_NULL;
    hg_bulk_request_t transfer;
    struct hg_counters counters;
    unsigned char bytes[16] = {0};
    size_t size = 10;
    hg_bulk_t bulk;
    hg_status_t status;

    counters.size = sizeof(counters);
    HG_CHECK_RET(HG_Forward(NULL, 1, NULL, NULL, &request), HG_FAULT);
    HG_CHECK_RET(HG_Wait(request, 0, &status), HG_FAULT);
    HG_CHECK_RET(HG_Wait_all(1, &request, 0, &status), HG_FAULT);
    HG_CHECK_RET(HG_Request_free(request), HG_FAULT);
    HG_CHECK_RET(HG_Handler_process(0, &status), HG_FAULT);
    HG_CHECK_EQ_U64(HG_Register("x", NULL, NULL, NULL), 0);
    HG_CHECK_RET(HG_Get_counters(&counters), HG_FAULT);
    HG_CHECK_RET(HG_Finalize(), HG_FAULT);
    HG_CHECK_RET(HG_Bulk_finalize(), HG_FAULT);
    HG_CHECK_RET(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &bulk),
        HG_FAULT);
    HG_CHECK_RET(HG_Bulk_handle_deserialize(&bulk, bytes, 16), HG_FAULT);
    HG_CHECK_RET(
        HG_Bulk_transfer(HG_BULK_PULL, NULL, NULL, 0, NULL, 0, 0, &transfer),
        HG_FAULT);
    HG_CHECK_RET(HG_Bulk_wait(NULL, 0, &status), HG_FAULT);
}

HG_TEST(layer_refuses_calls_before_init_and_after_finalize)
{
    static const char *const lines[] = {"HG_Forward: HG_Init was not",
        "HG_Wait: HG_Init was not", "HG_Wait_all: HG_Init was not",
        "HG_Request_free: HG_Init was not",
        "HG_Handler_process: HG_Init was not", "HG_Register: HG_Init was not",
        "HG_Get_counters: HG_Init was not", "HG_Finalize: not initialized",
        "HG_Bulk_finalize: not initialized",
        "HG_Bulk_handle_create: HG_Init was not",
        "HG_Bulk_handle_deserialize: HG_Init was not",
        "HG_Bulk_transfer: HG_Init was not", "HG_Bulk_wait: HG_Init was not"};
    unsigned char bytes[16];
    size_t size = 10;
    struct rpc_end end;
    hg_bulk_t bulk;
    size_t i;

    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        hg_test_expect_log(lines[i]);
    waits_try_all();
    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &bulk));
    hg_test_expect_log("1 bulk handle outlives the layer");
    rpc_close(&end);
    waits_try_all();
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        HG_CHECK_EQ_INT(hg_test_log_count(lines[i]), 2);
    /* A bulk handle that outlived the layer can be freed, and nothing else. */
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(bulk), 10);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_serialize_size(bulk), 0);
    hg_test_expect_log("HG_Bulk_handle_serialize: HG_Init was not");
    HG_CHECK_RET(HG_Bulk_handle_serialize(bytes, 16, bulk), HG_FAULT);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
}

HG_TEST(layer_is_initialized_once)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;

    hg_test_expect_log("HG_Init: the class is NULL");
    HG_CHECK_RET(HG_Init(NULL), HG_INVALID_ARG);
    hg_test_expect_log("HG_Bulk_init: the class is NULL");
    HG_CHECK_RET(HG_Bulk_init(NULL), HG_INVALID_ARG);
    hg_test_expect_log("HG_Set_options: size is not that");
    options.size = 4;
    HG_CHECK_RET(HG_Set_options(&options), HG_INVALID_ARG);
    hg_test_expect_log("HG_Get_options: size is not that");
    HG_CHECK_RET(HG_Get_options(&options), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_options(NULL), HG_INVALID_ARG);
    options.size = sizeof(options);
    options.max_unanswered = 7;
    HG_CHECK_OK(HG_Set_options(&options));
    HG_CHECK_OK(HG_Get_options(&options));
    HG_CHECK_EQ_INT(options.max_unanswered, 7);
    HG_CHECK_EQ_INT(options.max_in_flight, 65536);
    HG_CHECK_EQ_U64(options.max_held_bytes, options.max_args_size);
    HG_CHECK_OK(HG_Set_options(NULL));
    rpc_open(&end);
    hg_test_expect_log("HG_Init: already initialized");
    HG_CHECK_RET(HG_Init(end.na_class), HG_EXIST);
    hg_test_expect_log("HG_Bulk_init: already initialized");
    HG_CHECK_RET(HG_Bulk_init(end.na_class), HG_EXIST);
    hg_test_expect_log("HG_Set_options: HG_Init was already called");
    HG_CHECK_RET(HG_Set_options(&options), HG_BUSY);
    hg_test_expect_log("call HG_Finalize first");
    HG_CHECK_RET(HG_Bulk_finalize(), HG_BUSY);
    rpc_close(&end);
}

/* ---- Wrong arguments ---- */

HG_TEST(waits_refuse_null)
{
    hg_request_t null_request[1] = {HG_REQUEST_NULL};
    hg_request_t request = HG_REQUEST_NULL;
    struct hg_counters counters;
    struct rpc_end end;
    hg_status_t status;
    size_t got;
    void *ptr;
    char bytes[8];

    rpc_open(&end);
    WAITS_REFUSED(HG_Forward(NULL, waits_keep_id, NULL, NULL, &request),
        "HG_Forward: the address is NULL");
    WAITS_REFUSED(HG_Forward(end.target, waits_keep_id, NULL, NULL, NULL),
        "HG_Forward: request is NULL");
    WAITS_REFUSED(HG_Wait(NULL, 0, &status), "HG_Wait: request is NULL");
    WAITS_REFUSED(HG_Wait_all(1, NULL, 0, &status), "HG_Wait_all: the array");
    WAITS_REFUSED(HG_Wait_all(1, null_request, 0, &status),
        "HG_Wait_all: request is NULL");
    HG_CHECK_RET(HG_Wait_all(-1, null_request, 0, &status), HG_INVALID_ARG);
    WAITS_REFUSED(HG_Request_free(NULL), "HG_Request_free: request is NULL");
    WAITS_REFUSED(HG_Handler_get_input(NULL, bytes), "HG_Handler_get_input:");
    WAITS_REFUSED(HG_Handler_free_input(NULL, bytes), "HG_Handler_free_input:");
    WAITS_REFUSED(
        HG_Handler_start_output(NULL, bytes), "HG_Handler_start_output:");
    WAITS_REFUSED(HG_Handler_get_input_buf(NULL, &ptr, &got),
        "HG_Handler_get_input_buf:");
    WAITS_REFUSED(HG_Handler_get_output_buf(NULL, &ptr, &got),
        "HG_Handler_get_output_buf:");
    WAITS_REFUSED(
        HG_Handler_start_response(NULL, bytes, 1), "HG_Handler_start_response");
    WAITS_REFUSED(HG_Handler_free(NULL), "HG_Handler_free: handle is NULL");
    hg_test_expect_log("HG_Handler_get_addr: handle is NULL");
    HG_CHECK(HG_Handler_get_addr(NULL) == NULL);
    hg_test_expect_log("HG_Handler_get_id: handle is NULL");
    HG_CHECK_EQ_U64(HG_Handler_get_id(NULL), 0);
    WAITS_REFUSED(HG_Get_counters(NULL), "HG_Get_counters:");
    counters.size = 1;
    HG_CHECK_RET(HG_Get_counters(&counters), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

HG_TEST(waits_refuse_null_for_bulk)
{
    hg_bulk_request_t transfer;
    struct rpc_end end;
    hg_bulk_t bulk;
    hg_bulk_t other;
    hg_status_t status;
    size_t size = 8;
    size_t got;
    void *ptr;
    char bytes[8];
    unsigned count;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk));
    WAITS_REFUSED(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, NULL),
        "HG_Bulk_handle_create: handle is NULL");
    WAITS_REFUSED(
        HG_Bulk_handle_create(1, NULL, NULL, HG_BULK_READ_ONLY, &other),
        "needs the sizes");
    WAITS_REFUSED(
        HG_Bulk_handle_create(0, NULL, &size, HG_BULK_READ_ONLY, &other),
        "needs at least one segment");
    WAITS_REFUSED(
        HG_Bulk_handle_create(1, NULL, &size, 0, &other), "unknown flags");
    HG_CHECK_RET(
        HG_Bulk_handle_create(1, NULL, &size, 8, &other), HG_INVALID_ARG);
    WAITS_REFUSED(
        HG_Bulk_handle_create_segments(NULL, 1, HG_BULK_READ_ONLY, &other),
        "HG_Bulk_handle_create_segments");
    WAITS_REFUSED(HG_Bulk_handle_free(NULL), "HG_Bulk_handle_free:");
    WAITS_REFUSED(HG_Bulk_handle_access(NULL, 0, 1, 0, 1, &ptr, &got, &count),
        "HG_Bulk_handle_access:");
    HG_CHECK_RET(HG_Bulk_handle_access(bulk, 0, 1, 0, 1, NULL, &got, &count),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_handle_access(bulk, 0, 1, 0, 1, &ptr, NULL, &count),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_handle_access(bulk, 0, 1, 0, 1, &ptr, &got, NULL),
        HG_INVALID_ARG);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(NULL), 0);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(NULL), 0);
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_serialize_size(NULL), 0);
    WAITS_REFUSED(
        HG_Bulk_handle_serialize(NULL, 8, bulk), "HG_Bulk_handle_serialize:");
    HG_CHECK_RET(HG_Bulk_handle_serialize(bytes, 8, NULL), HG_INVALID_ARG);
    WAITS_REFUSED(HG_Bulk_handle_deserialize(NULL, bytes, 8),
        "HG_Bulk_handle_deserialize:");
    HG_CHECK_RET(HG_Bulk_handle_deserialize(&other, NULL, 8), HG_INVALID_ARG);
    WAITS_REFUSED(HG_Bulk_transfer(
                      HG_BULK_PULL, end.target, NULL, 0, bulk, 0, 1, &transfer),
        "HG_Bulk_transfer: the origin's handle is NULL");
    WAITS_REFUSED(HG_Bulk_transfer(
                      HG_BULK_PULL, end.target, bulk, 0, NULL, 0, 1, &transfer),
        "HG_Bulk_transfer: the local handle is NULL");
    WAITS_REFUSED(
        HG_Bulk_transfer(HG_BULK_PULL, end.target, bulk, 0, bulk, 0, 1, NULL),
        "HG_Bulk_transfer: request is NULL");
    WAITS_REFUSED(
        HG_Bulk_transfer(HG_BULK_PULL, NULL, bulk, 0, bulk, 0, 1, &transfer),
        "HG_Bulk_transfer: the address is NULL");
    WAITS_REFUSED(HG_Bulk_transfer((hg_bulk_op_t) 7, end.target, bulk, 0, bulk,
                      0, 1, &transfer),
        "the operation is unknown");
    WAITS_REFUSED(HG_Bulk_wait(NULL, 0, &status), "HG_Bulk_wait: request");
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    rpc_close(&end);
}

/* A request names one call only. A freed request is recognized, in the same
 * HG_Init or a later one, and so is a value that never was a request. */
HG_TEST(wait_refuses_freed_requests)
{
    rpc_one_t in = {1};
    rpc_one_t out = {0};
    hg_request_t request;
    hg_request_t both[2];
    hg_request_t old[100];
    struct rpc_end end;
    hg_status_t status = 77;
    int i;

    rpc_open(&end);
    for (i = 0; i < 100; i++) {
        old[i] = rpc_start_call(&end, waits_inc_id, &in, &out);
        HG_CHECK_OK(rpc_wait(old[i]));
        HG_CHECK_OK(HG_Request_free(old[i]));
    }
    request = rpc_start_call(&end, waits_inc_id, &in, &out);
    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("no such request; it may have been freed");
    for (i = 0; i < 100; i++) {
        HG_CHECK(old[i] != request);
        HG_CHECK_RET(HG_Request_free(old[i]), HG_INVALID_ARG);
        HG_CHECK_RET(HG_Wait(old[i], 0, &status), HG_INVALID_ARG);
    }
    HG_CHECK_EQ_INT(status, 77);
    both[0] = request;
    both[1] = old[99];
    HG_CHECK_RET(HG_Wait_all(2, both, 0, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Wait((hg_request_t) (void *) &in, 0, NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(
        hg_test_log_count("no such request; it may have been freed"), 202);
    HG_CHECK_OK(rpc_wait(request));
    /* A freed request is unknown, too, while its call has not completed. */
    both[0] = rpc_start_call(&end, waits_inc_id, &in, NULL);
    HG_CHECK_OK(HG_Request_free(both[0]));
    HG_CHECK_RET(HG_Request_free(both[0]), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Wait(both[0], 0, &status), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(HG_Init(end.na_class));
    rpc_register();
    for (i = 0; i < 100; i++)
        both[0] = rpc_start_call(&end, waits_inc_id, &in, NULL);
    HG_CHECK_RET(HG_Request_free(request), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Request_free(old[0]), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(
        hg_test_log_count("no such request; it may have been freed"), 206);
    rpc_close(&end); /* this frees the hundred requests */
}

/* A call that fails to start leaves nothing to free. */
HG_TEST(waits_failed_starts_leave_no_request)
{
    rpc_one_t in = {1};
    rpc_one_t out = {0};
    hg_bulk_request_t transfer;
    hg_request_t request;
    hg_request_t before;
    struct rpc_end end;
    hg_bulk_t bulk;
    size_t size = 8;

    rpc_open(&end);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk));
    request = rpc_start_call(&end, waits_inc_id, &in, &out);
    before = request;
    hg_test_expect_log("not registered");
    HG_CHECK_RET(HG_Forward(end.target, waits_inc_id + 1, &in, &out, &request),
        HG_NOENTRY);
    HG_CHECK(request == HG_REQUEST_NULL);
    request = before;
    hg_test_expect_log("in_struct is NULL");
    HG_CHECK_RET(HG_Forward(end.target, waits_inc_id, NULL, &out, &request),
        HG_INVALID_ARG);
    HG_CHECK(request == HG_REQUEST_NULL);
    HG_CHECK_OK(rpc_wait(before));
    HG_CHECK_OK(HG_Request_free(before));
    memset(&transfer, 0x55, sizeof(transfer));
    hg_test_expect_log("8 bytes");
    HG_CHECK_RET(
        HG_Bulk_read(end.target, bulk, 1, bulk, 0, 8, &transfer), HG_OVERFLOW);
    HG_CHECK(transfer == HG_BULK_REQUEST_NULL);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    rpc_close(&end);
    hg_test_expect_log("HG_Init was not called");
    request = before;
    memset(&transfer, 0x55, sizeof(transfer));
    HG_CHECK_RET(HG_Forward(NULL, 1, NULL, NULL, &request), HG_FAULT);
    HG_CHECK(request == HG_REQUEST_NULL);
    HG_CHECK_RET(HG_Bulk_write(NULL, NULL, 0, NULL, 0, 0, &transfer), HG_FAULT);
    HG_CHECK(transfer == HG_BULK_REQUEST_NULL);
}
