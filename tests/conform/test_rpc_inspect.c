/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inspection in the request model: what HG_Dump prints about operations in
 * flight, the built-in functions that every process serves, hooks, traces, and
 * latencies. The target is another process where the transport reaches one,
 * else this process.
 */
#define _GNU_SOURCE 1
#include "rpc.h"

static hg_id_t inspect_inc;
static hg_id_t inspect_ping;
static hg_id_t inspect_list;

MERCURY_GEN_PROC(inspect_trace_t, ((uint64_t) (here))((uint64_t) (nested)))

static hg_id_t inspect_trace;
static hg_id_t inspect_nest;
static na_addr_t inspect_self;

static hg_return_t inspect_on_trace(hg_handle_t handle)
{
    inspect_trace_t out = {HG_Get_trace_id(handle), 0};

    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* Calls itself, and waits. */
static hg_return_t inspect_on_nest(hg_handle_t handle)
{
    hg_request_t request;
    inspect_trace_t out;

    HG_CHECK_OK(HG_Forward(inspect_self, inspect_trace, NULL, &out, &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    out.nested = out.here;
    out.here = HG_Get_trace_id(handle);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    inspect_trace =
        MERCURY_REGISTER("look trace", void, inspect_trace_t, inspect_on_trace);
    inspect_nest =
        MERCURY_REGISTER("look nest", void, inspect_trace_t, inspect_on_nest);
    inspect_inc = MERCURY_REGISTER("look inc", rpc_one_t, rpc_one_t, rpc_inc);
    inspect_ping = HG_Register(
        HG_BUILTIN_PING, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);
    inspect_list = HG_Register(
        HG_BUILTIN_LIST, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);
    HG_CHECK(inspect_ping != 0 && inspect_list != 0);
}

/* The output of HG_Dump for the layer; the caller frees it. */
static char *inspect_at(void)
{
    size_t size = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);

    HG_CHECK(stream != NULL);
    HG_CHECK_OK(HG_Dump(NULL, stream));
    HG_CHECK(fclose(stream) == 0 && text != NULL && size > 0);
    return text;
}

HG_TEST(dump_shows_calls)
{
    rpc_one_t in = {1};
    rpc_one_t out;
    struct rpc_end end;
    hg_request_t request;
    char *text;

    rpc_open(&end);
    request = rpc_start_call(&end, inspect_inc, &in, &out);
    text = inspect_at();
    HG_CHECK(strstr(text, "    out \"look inc\" to ") != NULL);
    HG_CHECK(strstr(text, ": waits for the response, 0.") != NULL);
    free(text);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(out.value, 2);
    text = inspect_at(); /* a request that is done is not in flight */
    HG_CHECK(strstr(text, "look inc") == NULL);
    HG_CHECK(strstr(text, "  context 0: 0 calls, 0 transfers") != NULL);
    free(text);
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

HG_TEST(builtins_answer)
{
    char word[] = "word";
    hg_builtin_t question = {9, word};
    hg_request_t request;
    hg_builtin_t answer;
    struct rpc_end end;

    rpc_open(&end);
    request = rpc_start_call(&end, inspect_ping, &question, &answer);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_U64(answer.number, 9);
    HG_CHECK_EQ_STR(answer.text, "word");
    HG_CHECK_OK(HG_Request_free(request));
    question.number = 0;
    request = rpc_start_call(&end, inspect_list, &question, &answer);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK(strstr(answer.text, " look inc\n") != NULL);
    HG_CHECK_OK(HG_Request_free(request));
    hg_test_expect_log("names that begin with hg: are reserved");
    HG_CHECK_EQ_U64(HG_Register("hg:any", NULL, NULL, rpc_inc), 0);
    rpc_close(&end);
}

/* Calls to oneself, without built-in functions. */
HG_TEST(builtins_can_be_switched_off)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_builtin_t question = {9, NULL};
    hg_builtin_t answer;
    struct rpc_end end;

    options.no_builtins = true;
    rpc_start(&end, &options, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    hg_test_expect_log("is not served by");
    HG_CHECK_RET(rpc_call(&end, inspect_ping, &question, &answer), HG_NOENTRY);
    rpc_close(&end);
}

/* ---- Hooks ---- */

struct inspect_log {
    struct hg_hook_info seen[16];
    unsigned count;
};

static hg_return_t inspect_hook(const struct hg_hook_info *info, void *arg)
{
    struct inspect_log *log = (struct inspect_log *) arg;

    HG_CHECK(log->count < 16);
    log->seen[log->count++] = *info;
    return HG_SUCCESS;
}

/* Calls to oneself, one nested in the other. */
HG_TEST(hook_sees_a_trace)
{
    static const hg_hook_point_t want[] = {HG_HOOK_FORWARD, HG_HOOK_HANDLE,
        HG_HOOK_FORWARD, HG_HOOK_HANDLE, HG_HOOK_RESPOND, HG_HOOK_COMPLETE,
        HG_HOOK_RESPOND, HG_HOOK_COMPLETE};
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct inspect_log log = {{{0}}, 0};
    struct hg_histogram times = HG_HISTOGRAM_INITIALIZER;
    struct rpc_end end;
    inspect_trace_t out;
    unsigned i;

    options.histograms = true;
    rpc_start(&end, &options, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    inspect_self = end.target;
    HG_CHECK_OK(HG_Set_hook(NULL, inspect_hook, &log));
    HG_CHECK_OK(rpc_call(&end, inspect_nest, NULL, &out));
    HG_CHECK_EQ_U64(log.count, 8);
    for (i = 0; i < 8; i++) {
        bool nested = i >= 2 && i <= 5;
        bool origin = want[i] == HG_HOOK_FORWARD || want[i] == HG_HOOK_COMPLETE;

        HG_CHECK_EQ_INT(log.seen[i].point, want[i]);
        HG_CHECK_EQ_STR(log.seen[i].name, nested ? "look trace" : "look nest");
        HG_CHECK((log.seen[i].handle == NULL) == origin);
        HG_CHECK_EQ_U64(log.seen[i].trace_id, out.here);
        HG_CHECK_OK(log.seen[i].ret);
    }
    HG_CHECK_EQ_U64(out.nested, out.here);
    HG_CHECK_OK(HG_Get_histogram(NULL, inspect_nest, HG_FALSE, &times));
    HG_CHECK_EQ_U64(times.count, 1);
    HG_CHECK_EQ_U64(times.max_ns, log.seen[7].elapsed_ns);
    HG_CHECK_OK(HG_Get_histogram(NULL, inspect_nest, HG_TRUE, &times));
    HG_CHECK(times.count == 1 && times.max_ns >= log.seen[6].elapsed_ns);
    HG_CHECK_OK(rpc_call(&end, inspect_trace, NULL, &out));
    HG_CHECK(out.here != log.seen[0].trace_id);
    rpc_close(&end);
    hg_test_expect_log("HG_Init was not called");
    HG_CHECK_RET(HG_Set_hook(NULL, NULL, NULL), HG_FAULT);
    HG_CHECK_RET(
        HG_Get_histogram(NULL, inspect_nest, HG_TRUE, &times), HG_FAULT);
}
