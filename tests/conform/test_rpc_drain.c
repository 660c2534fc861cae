/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An orderly shutdown of the layer of the request model with HG_Drain: new
 * calls are refused, accepted calls are completed. On every transport.
 */
#include "rpc.h"

static hg_id_t drain_inc_id, drain_keep_id, drain_quit_id;
static hg_handle_t drain_kept;

static hg_return_t drain_keep(hg_handle_t handle)
{
    HG_CHECK(drain_kept == NULL);
    drain_kept = handle;
    return HG_SUCCESS;
}

/* Starts the drain, which it cannot wait for. */
static hg_return_t drain_quit(hg_handle_t handle)
{
    rpc_one_t out = {0};

    HG_CHECK_RET(HG_Drain(NULL, 1), HG_BUSY);
    out.value = HG_Drain(NULL, 0);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    drain_inc_id = MERCURY_REGISTER("inc", rpc_one_t, rpc_one_t, rpc_inc);
    drain_keep_id = MERCURY_REGISTER("keep", void, rpc_one_t, drain_keep);
    drain_quit_id = MERCURY_REGISTER("quit", void, rpc_one_t, drain_quit);
}

HG_TEST(drain_of_the_layer_finishes_accepted_calls)
{
    hg_request_t kept, queued, late;
    struct rpc_end end;
    rpc_one_t in = {1};
    rpc_one_t out[3] = {{0}, {0}, {0}};

    hg_test_expect_log("refused \"inc\": it is ending");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    kept = rpc_start_call(&end, drain_keep_id, NULL, &out[0]);
    while (drain_kept == NULL)
        (void) HG_Handler_process(10, HG_STATUS_IGNORE);
    queued = rpc_start_call(&end, drain_inc_id, &in, &out[1]);
    HG_CHECK_RET(HG_Drain(NULL, 0), HG_TIMEOUT);
    late = rpc_start_call(&end, drain_inc_id, &in, &out[2]);
    HG_CHECK_RET(HG_Drain(NULL, 1), HG_TIMEOUT);
    HG_CHECK_RET(rpc_wait(late), HG_AGAIN);
    HG_CHECK_EQ_STR(HG_Get_error_text(late), "it is ending");
    in.value = 7;
    HG_CHECK_OK(HG_Handler_start_output(drain_kept, &in));
    HG_CHECK_OK(HG_Handler_free(drain_kept));
    HG_CHECK_OK(HG_Drain(NULL, RPC_TIMEOUT));
    HG_CHECK_OK(rpc_wait(kept));
    HG_CHECK_OK(rpc_wait(queued));
    HG_CHECK_EQ_INT(out[0].value, 7);
    HG_CHECK_EQ_INT(out[1].value, 2);
    HG_CHECK_EQ_U64(rpc_counters().turned_away, 1);
    HG_CHECK_OK(HG_Request_free(kept));
    HG_CHECK_OK(HG_Request_free(queued));
    HG_CHECK_OK(HG_Request_free(late));
    rpc_close(&end);
}

HG_TEST(drain_of_the_layer_may_be_called_by_a_handler)
{
    struct rpc_end end;
    rpc_one_t out = {0};

    hg_test_expect_log("HG_Drain inside a handler");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(rpc_call(&end, drain_quit_id, NULL, &out));
    HG_CHECK_EQ_INT(out.value, HG_TIMEOUT); /* its own call was in flight */
    HG_CHECK_RET(rpc_call(&end, drain_quit_id, NULL, NULL), HG_AGAIN);
    HG_CHECK_OK(HG_Drain(NULL, RPC_TIMEOUT));
    rpc_close(&end);
}
