/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipelines, and memory that is passed on, in the request model: see
 * pipelines.h and chains.h. test_cb_pipeline.c does this for the other model.
 */
#include "conform/rpc.h"

typedef struct rpc_end pipe_end_t;
#include "conform/pipelines.h"

#include "conform/chains.h"

static void rpc_register(void)
{
    (void) pipe_move_provide(); /* a call fails if there is no memory for it */
    (void) pipe_free_provide();
    (void) chain_pass_provide();
}

static void pipe_open(pipe_end_t *end)
{
    rpc_open(end);
}

static void pipe_close(pipe_end_t *end)
{
    rpc_close(end);
}

static bool pipe_try_open(pipe_end_t *end)
{
    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize("self://", NA_TRUE);
    if (end->na_class == NULL)
        return false;
    if (HG_Init(end->na_class) != HG_SUCCESS) {
        HG_CHECK_OK(NA_Finalize(end->na_class));
        return false;
    }
    rpc_register();
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
    return true;
}

/* Start an endpoint with the option passed_memory. */
static void pipe_begin(pipe_end_t *end)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    options.passed_memory = pipe_follows;
    rpc_start(end, &options, false);
}

static void pipe_open_alone(pipe_end_t *end, char address[NA_MAX_ADDR_LEN])
{
    pipe_begin(end);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
    HG_CHECK_OK(NA_Addr_to_string(
        end->na_class, address, NA_MAX_ADDR_LEN, end->target));
}

static void pipe_open_client(pipe_end_t *end, const char *address)
{
    rpc_start(end, NULL, false);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &end->target));
}

static void pipe_close_alone(pipe_end_t *end)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    rpc_end(end);
}

static void pipe_turn(pipe_end_t *end)
{
    (void) end;
    (void) HG_Handler_process(1, HG_STATUS_IGNORE);
}

static hg_class_t *pipe_class(hg_handle_t call)
{
    (void) call;
    return NULL;
}

static hg_bulk_t pipe_expose(pipe_end_t *end, unsigned count, void **ptrs,
    const size_t *sizes, unsigned long flags)
{
    hg_bulk_t bulk = HG_BULK_NULL;

    (void) end;
    (void) HG_Bulk_handle_create(count, ptrs, sizes, flags, &bulk);
    return bulk;
}

static hg_return_t pipe_call(
    pipe_end_t *end, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done)
{
    return pipe_move_call(end->target, RPC_TIMEOUT, job, memory, done);
}

static void pipe_call_free(pipe_end_t *end)
{
    int32_t ret = 77;

    HG_CHECK_OK(pipe_free_call(end->target, RPC_TIMEOUT, &ret));
    HG_CHECK_OK(ret);
}

static void pipe_start(
    pipe_move_call_t *call, pipe_end_t *end, pipe_job_t job, hg_bulk_t memory)
{
    HG_CHECK_OK(pipe_move_start(call, end->target, 0, job, memory));
}

static void pipe_cancel(pipe_move_call_t *call)
{
    HG_CHECK_OK(pipe_move_end(call)); /* a request is canceled by its end */
}

static bool pipe_is_over(const pipe_move_call_t *call)
{
    hg_status_t over = HG_TRUE;

    if (call->request != HG_REQUEST_NULL)
        (void) HG_Wait(call->request, 1, &over);
    return over;
}

static void pipe_bind(pipe_end_t *end, hg_bulk_t bulk)
{
    (void) end;
    HG_CHECK_OK(HG_Bulk_handle_bind(bulk));
}

static void pipe_open_deaf(pipe_end_t *end)
{
    memset(end, 0, sizeof(*end));
    end->na_class = rpc_open_class(NA_FALSE);
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
}

/* ---- Chains ---- */

static void pipe_relay(void)
{
    struct rpc_end end;

    pipe_begin(&end);
    chain_class = end.na_class;
    rpc_serve(&end);
    HG_CHECK_OK(pipe_free());
    rpc_end(&end);
}

static hg_return_t chain_forward(hg_handle_t call, na_addr_t addr,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done)
{
    (void) call;
    return pipe_move_call(addr, timeout, job, memory, done);
}

static uint64_t chain_moved(hg_handle_t call)
{
    struct hg_counters counters = rpc_counters();

    (void) call;
    return counters.bulk_bytes_pulled + counters.bulk_bytes_pushed;
}

static hg_return_t chain_call_pass(pipe_end_t *end, const char *third,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, int32_t *code,
    uint64_t *moved, pipe_done_t *done)
{
    return chain_pass_call(end->target, RPC_TIMEOUT, third, timeout, job,
        memory, code, moved, done);
}

static void chain_start(chain_pass_call_t *call, pipe_end_t *end,
    const char *third, pipe_job_t job, hg_bulk_t memory)
{
    HG_CHECK_OK(chain_pass_start(call, end->target, 0, third, 0, job, memory));
}

static bool chain_is_over(const chain_pass_call_t *call)
{
    hg_status_t over = HG_FALSE;

    (void) HG_Wait(call->request, 1, &over);
    return over;
}
