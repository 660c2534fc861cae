/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipelines, and memory that is passed on, in the callback model: see
 * pipelines.h and chains.h. test_rpc_pipeline.c does this for the other model.
 */
#include "conform/cb.h"

typedef struct cb_end pipe_end_t;
#include "conform/pipelines.h"

#include "conform/chains.h"

static void cb_register(hg_class_t *hg_class)
{
    (void) pipe_move_provide(hg_class); /* a call fails without memory for it */
    (void) pipe_free_provide(hg_class);
    (void) chain_pass_provide(hg_class);
}

static void pipe_open(pipe_end_t *end)
{
    cb_open(end);
}

static void pipe_close(pipe_end_t *end)
{
    cb_close(end);
}

static bool pipe_try_open(pipe_end_t *end)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize("self://", NA_TRUE);
    if (end->na_class == NULL)
        return false;
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    if (end->hg_class == NULL)
        goto close;
    end->context = HG_Context_create(end->hg_class);
    if (end->context == NULL)
        goto finalize;
    end->contexts[end->count++] = end->context;
    cb_register(end->hg_class);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
    return true;
finalize:
    HG_CHECK_OK(HG_Finalize(end->hg_class));
close:
    HG_CHECK_OK(NA_Finalize(end->na_class));
    return false;
}

/* Start an endpoint with one context and the option passed_memory. */
static void pipe_begin(pipe_end_t *end)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    cb_start(end, 0);
    HG_CHECK_OK(HG_Class_get_options(end->hg_class, &options));
    options.passed_memory = pipe_follows;
    HG_CHECK_OK(HG_Class_set_options(end->hg_class, &options));
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->contexts[end->count++] = end->context;
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
    cb_start(end, 1);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, CB_TIMEOUT, &end->target));
}

static void pipe_close_alone(pipe_end_t *end)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    cb_end(end);
}

static void pipe_turn(pipe_end_t *end)
{
    (void) cb_turn(end->context, 1);
}

static hg_class_t *pipe_class(hg_handle_t call)
{
    return HG_Get_info(call)->hg_class;
}

static hg_bulk_t pipe_expose(pipe_end_t *end, unsigned count, void **ptrs,
    const size_t *sizes, unsigned long flags)
{
    hg_size_t *wide = (hg_size_t *) malloc(count * sizeof(*wide));
    hg_bulk_t bulk = HG_BULK_NULL;
    unsigned i;

    HG_CHECK(wide != NULL);
    for (i = 0; i < count; i++)
        wide[i] = sizes[i];
    (void) HG_Bulk_create(
        end->hg_class, count, ptrs, wide, (uint8_t) flags, &bulk);
    free(wide);
    return bulk;
}

static hg_return_t pipe_call(
    pipe_end_t *end, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done)
{
    return pipe_move_call(
        end->context, end->target, CB_TIMEOUT, job, memory, done);
}

static void pipe_call_free(pipe_end_t *end)
{
    int32_t ret = 77;

    HG_CHECK_OK(pipe_free_call(end->context, end->target, CB_TIMEOUT, &ret));
    HG_CHECK_OK(ret);
}

static void pipe_start(
    pipe_move_call_t *call, pipe_end_t *end, pipe_job_t job, hg_bulk_t memory)
{
    HG_CHECK_OK(pipe_move_start(
        call, end->context, end->target, 0, job, memory, NULL, NULL));
}

static void pipe_cancel(pipe_move_call_t *call)
{
    HG_CHECK_OK(HG_Cancel(call->handle));
}

static bool pipe_is_over(const pipe_move_call_t *call)
{
    return !call->under_way;
}

static void pipe_bind(pipe_end_t *end, hg_bulk_t bulk)
{
    HG_CHECK_OK(HG_Bulk_bind(bulk, end->context));
}

static void pipe_open_deaf(pipe_end_t *end)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();

    memset(end, 0, sizeof(*end));
    strstr(string, "://")[3] = '\0'; /* the scheme alone */
    na_info.lookup_ms = hg_test_lookup_ms();
    end->na_class = NA_Initialize_opt(string, NA_FALSE, &na_info);
    HG_CHECK(end->na_class != NULL);
    free(string);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(end->hg_class != NULL);
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->contexts[end->count++] = end->context;
    cb_register(end->hg_class);
}

/* ---- Chains ---- */

static void pipe_relay(void)
{
    struct cb_end end;

    pipe_begin(&end);
    chain_class = end.na_class;
    cb_serve(&end);
    HG_CHECK_OK(pipe_free());
    cb_end(&end);
}

static hg_return_t chain_forward(hg_handle_t call, na_addr_t addr,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done)
{
    return pipe_move_call(
        HG_Get_info(call)->context, addr, timeout, job, memory, done);
}

static uint64_t chain_moved(hg_handle_t call)
{
    struct hg_diag_counters counters;

    HG_CHECK_OK(HG_Class_get_counters(HG_Get_info(call)->hg_class, &counters));
    return counters.bulk_count;
}

static hg_return_t chain_call_pass(pipe_end_t *end, const char *third,
    uint32_t timeout, pipe_job_t job, hg_bulk_t memory, int32_t *code,
    uint64_t *moved, pipe_done_t *done)
{
    return chain_pass_call(end->context, end->target, CB_TIMEOUT, third,
        timeout, job, memory, code, moved, done);
}

static void chain_start(chain_pass_call_t *call, pipe_end_t *end,
    const char *third, pipe_job_t job, hg_bulk_t memory)
{
    HG_CHECK_OK(chain_pass_start(
        call, end->context, end->target, 0, third, 0, job, memory, NULL, NULL));
}

static bool chain_is_over(const chain_pass_call_t *call)
{
    return !call->under_way;
}
