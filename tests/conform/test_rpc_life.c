/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG_Finalize beside other threads: it returns HG_BUSY while a thread is inside
 * a function, later calls are refused, and freed objects are not accessed.
 */
#include "rpc.h"

static hg_id_t life_inc_id, life_keep_id, life_slow_id, life_held_id;
static _Atomic(hg_handle_t) life_kept;

/* The result of HG_Finalize inside the input proc of "life slow"; -1: do not
 * call it. */
static _Atomic int life_seen = -1;

/* That proc first calls this address; NULL: none. */
static na_addr_t life_within;

static _Atomic int life_inside; /* 1: in the handler of "life held" */
static _Atomic bool life_hold;  /* it waits while this is set */

static hg_return_t life_keep(hg_handle_t handle)
{
    atomic_store(&life_kept, handle);
    return HG_SUCCESS;
}

static void life_call_within(void)
{
    hg_request_t request;
    rpc_one_t in = {7};

    if (life_within == NA_ADDR_NULL)
        return;
    HG_CHECK_OK(HG_Forward(life_within, life_inc_id, &in, NULL, &request));
    HG_CHECK_OK(HG_Request_free(request));
}

static hg_return_t life_slow_proc(hg_proc_t proc, void *data)
{
    if (hg_proc_get_op(proc) == HG_ENCODE)
        life_call_within();
    if (hg_proc_get_op(proc) == HG_ENCODE && atomic_load(&life_seen) >= 0)
        atomic_store(&life_seen, HG_Finalize());
    return hg_proc_rpc_one_t(proc, data);
}

static hg_return_t life_held(hg_handle_t handle)
{
    atomic_store(&life_inside, 1);
    while (atomic_load(&life_hold))
        (void) sched_yield();
    return rpc_inc(handle);
}

static void rpc_register(void)
{
    life_inc_id = MERCURY_REGISTER("life inc", rpc_one_t, rpc_one_t, rpc_inc);
    life_keep_id =
        MERCURY_REGISTER("life keep", rpc_one_t, rpc_one_t, life_keep);
    life_held_id =
        MERCURY_REGISTER("life held", rpc_one_t, rpc_one_t, life_held);
    life_slow_id =
        HG_Register("life slow", life_slow_proc, hg_proc_rpc_one_t, rpc_inc);
}

/* ---- Threads inside a function ---- */

static void *life_serve(void *arg)
{
    (void) arg;
    HG_CHECK_OK(HG_Handler_process(RPC_TIMEOUT, HG_STATUS_IGNORE));
    return NULL;
}

HG_TEST(finalize_is_busy_during_a_handler)
{
    struct rpc_end end;
    rpc_one_t in = {1};
    rpc_one_t out = {0};
    hg_request_t request;
    pthread_t thread;
    na_addr_t self;

    hg_test_expect_log("HG_Finalize: a thread waits");
    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    atomic_store(&life_hold, true);
    HG_CHECK_OK(HG_Forward(self, life_held_id, &in, &out, &request));
    HG_CHECK(pthread_create(&thread, NULL, life_serve, NULL) == 0);
    while (atomic_load(&life_inside) == 0)
        (void) sched_yield();
    HG_CHECK_RET(HG_Finalize(), HG_BUSY);
    atomic_store(&life_hold, false);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(out.value, 2);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

HG_TEST(finalize_is_busy_inside_a_proc)
{
    struct rpc_end end;
    rpc_one_t in = {1};
    rpc_one_t out = {0};

    hg_test_expect_log("HG_Finalize: a thread waits");
    rpc_open(&end);
    atomic_store(&life_seen, HG_SUCCESS);
    HG_CHECK_OK(rpc_call(&end, life_slow_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 2);
    HG_CHECK_RET(atomic_load(&life_seen), HG_BUSY);
    rpc_close(&end);
}

/* A call that begins and ends inside the proc does not mark the end of the
 * proc. */
HG_TEST(finalize_is_busy_inside_a_proc_that_made_a_call)
{
    struct rpc_end end;
    rpc_one_t in = {1};
    rpc_one_t out = {0};

    hg_test_expect_log("HG_Finalize: a thread waits");
    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &life_within));
    atomic_store(&life_seen, HG_SUCCESS);
    HG_CHECK_OK(rpc_call(&end, life_slow_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 2);
    HG_CHECK_RET(atomic_load(&life_seen), HG_BUSY);
    HG_CHECK_OK(NA_Addr_free(end.na_class, life_within));
    life_within = NA_ADDR_NULL;
    rpc_close(&end);
}

/* ---- Calls after the end ---- */

#define LIFE_LATE(call, line) \
    do { \
        hg_test_expect_log(line ": HG_Init was not called"); \
        HG_CHECK_RET(call, HG_FAULT); \
        HG_CHECK_EQ_INT( \
            hg_test_log_count(line ": HG_Init was not called"), 1); \
    } while (0)

/* A server's thread still has a handle when the layer ends: its caller was
 * answered, the handle is gone, and its use is refused. */
HG_TEST(handles_are_refused_after_finalize)
{
    struct rpc_end end;
    rpc_one_t in = {1};
    rpc_one_t out = {0};
    hg_request_t request;
    hg_handle_t handle;
    size_t size;
    void *buf;

    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    request = rpc_start_call(&end, life_keep_id, &in, &out);
    while (atomic_load(&life_kept) == NULL)
        (void) HG_Wait(request, 10, HG_STATUS_IGNORE);
    handle = atomic_load(&life_kept);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    hg_test_expect_log("1 calls were never answered, the first of \"");
    rpc_end(&end);
    LIFE_LATE(HG_Handler_get_input(handle, &in), "HG_Handler_get_input");
    LIFE_LATE(HG_Handler_free_input(handle, &in), "HG_Handler_free_input");
    LIFE_LATE(HG_Handler_start_output(handle, &out), "HG_Handler_start_output");
    LIFE_LATE(HG_Handler_get_input_buf(handle, &buf, &size),
        "HG_Handler_get_input_buf");
    LIFE_LATE(HG_Handler_get_output_buf(handle, &buf, &size),
        "HG_Handler_get_output_buf");
    LIFE_LATE(HG_Handler_start_response(handle, &out, sizeof(out)),
        "HG_Handler_start_response");
    LIFE_LATE(HG_Handler_free(handle), "HG_Handler_free");
    LIFE_LATE(HG_Wait(request, 0, HG_STATUS_IGNORE), "HG_Wait");
    LIFE_LATE(HG_Request_free(request), "HG_Request_free");
    hg_test_expect_log("HG_Handler_get_addr: HG_Init was not called");
    HG_CHECK(HG_Handler_get_addr(handle) == NULL);
    hg_test_expect_log("HG_Handler_get_id: HG_Init was not called");
    HG_CHECK_EQ_U64(HG_Handler_get_id(handle), 0);
}
