/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observing calls in the callback model: hooks at the four points of a call,
 * the trace of a call, and latencies. The target is another process where the
 * transport reaches one, else this process. Cases about both sides at once call
 * themselves.
 */
#include "cb.h"

MERCURY_GEN_PROC(hooks_trace_t, ((uint64_t) (here))((uint64_t) (nested)))
MERCURY_GEN_PROC(hooks_code_t, ((int32_t) (code)))

#define HOOKS_MAX 64u

static hg_id_t hooks_trace;
static hg_id_t hooks_nest;
static hg_id_t hooks_fail;
static hg_id_t hooks_quiet;

/* ---- The target ---- */

static _Atomic unsigned hooks_executed;

static hg_return_t hooks_on_trace(hg_handle_t handle)
{
    hooks_trace_t out = {HG_Get_trace_id(handle), 0};

    atomic_fetch_add(&hooks_executed, 1);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* The nested call has recorded its trace. */
static hg_return_t hooks_nested(const struct hg_cb_info *info)
{
    hg_handle_t handle = (hg_handle_t) info->arg;
    hg_handle_t nested = info->info.forward.handle;
    hooks_trace_t out;

    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Get_output(nested, &out));
    out.nested = out.here;
    out.here = HG_Get_trace_id(handle);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    HG_CHECK_OK(HG_Free_output(nested, &out));
    HG_CHECK_OK(HG_Addr_free(
        HG_Get_info(nested)->hg_class, (hg_addr_t) HG_Get_data(nested)));
    HG_CHECK_OK(HG_Destroy(nested));
    return HG_Destroy(handle);
}

/* A call to oneself during the execution of this one. */
static hg_return_t hooks_on_nest(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_handle_t nested;
    hg_addr_t self;

    HG_CHECK_RET(HG_Set_trace_id(handle, 1), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Addr_self(info->hg_class, &self));
    HG_CHECK_OK(HG_Create(info->context, self, hooks_trace, &nested));
    HG_CHECK_OK(HG_Set_data(nested, self, NULL));
    return HG_Forward(nested, hooks_nested, handle, NULL);
}

static hg_return_t hooks_on_fail(hg_handle_t handle)
{
    hooks_code_t in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    HG_CHECK_OK(HG_Respond_error(handle, (hg_return_t) in.code, NULL));
    return HG_Destroy(handle);
}

/* One-way: no response. */
static hg_return_t hooks_on_quiet(hg_handle_t handle)
{
    atomic_fetch_add(&hooks_executed, 1);
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    hooks_trace = MERCURY_REGISTER(
        hg_class, "watch trace", void, hooks_trace_t, hooks_on_trace);
    hooks_nest = MERCURY_REGISTER(
        hg_class, "watch nest", void, hooks_trace_t, hooks_on_nest);
    hooks_fail = MERCURY_REGISTER(
        hg_class, "watch fail", hooks_code_t, void, hooks_on_fail);
    hooks_quiet =
        MERCURY_REGISTER(hg_class, "watch quiet", void, void, hooks_on_quiet);
    HG_CHECK_OK(HG_Registered_disable_response(hg_class, hooks_quiet, HG_TRUE));
}

/* ---- A hook ---- */

struct hooks_log {
    struct hg_hook_info seen[HOOKS_MAX];
    unsigned count;
    hg_hook_point_t refuse_at; /* with HG_PERMISSION, if refuse_at matches */
    bool refuse;
};

static hg_return_t hooks_hook(const struct hg_hook_info *info, void *arg)
{
    struct hooks_log *log = (struct hooks_log *) arg;

    HG_CHECK_EQ_U64(info->size, sizeof(*info));
    HG_CHECK(log->count < HOOKS_MAX);
    log->seen[log->count++] = *info;
    return log->refuse && info->point == log->refuse_at ? HG_PERMISSION
                                                        : HG_SUCCESS;
}

/* The next record has that point and that function. */
static void hooks_next(const struct hooks_log *log, unsigned *at,
    hg_hook_point_t point, hg_return_t ret, const char *name)
{
    const struct hg_hook_info *info = &log->seen[*at];

    HG_CHECK(*at < log->count);
    HG_CHECK_EQ_INT(info->point, point);
    HG_CHECK_RET(info->ret, ret);
    HG_CHECK_EQ_STR(info->name, name);
    HG_CHECK(info->handle != HG_HANDLE_NULL && info->addr != HG_ADDR_NULL);
    HG_CHECK(info->id != 0 && info->trace_id != 0);
    HG_CHECK_EQ_U64(info->trace_id, log->seen[0].trace_id);
    if (point == HG_HOOK_COMPLETE || point == HG_HOOK_RESPOND)
        HG_CHECK(info->elapsed_ns > 0 &&
            info->elapsed_ns < UINT64_C(1000000) * CB_TIMEOUT);
    else
        HG_CHECK_EQ_U64(info->elapsed_ns, 0);
    *at += 1;
}

/* An endpoint that calls itself. */
static void hooks_open_self(struct cb_end *end, struct hooks_log *log)
{
    memset(end, 0, sizeof(*end));
    memset(log, 0, sizeof(*log));
    cb_start(end, 1);
    HG_CHECK_OK(HG_Addr_self(end->hg_class, &end->target));
    HG_CHECK_OK(HG_Set_hook(end->hg_class, hooks_hook, log));
}

HG_TEST(hook_runs_at_four_points)
{
    hooks_code_t in = {HG_PERMISSION};
    struct hooks_log log;
    hooks_trace_t out;
    struct cb_end end;
    unsigned at = 0;

    hooks_open_self(&end, &log);
    HG_CHECK_OK(cb_call(&end, hooks_trace, NULL, &out));
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_HANDLE, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_RESPOND, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_SUCCESS, "watch trace");
    HG_CHECK_EQ_U64(log.count, 4);
    HG_CHECK_EQ_U64(log.seen[0].trace_id, out.here);
    HG_CHECK(log.seen[0].handle == log.seen[3].handle);
    HG_CHECK(log.seen[1].handle == log.seen[2].handle);
    HG_CHECK(log.seen[3].elapsed_ns > log.seen[2].elapsed_ns);
    log.count = at = 0;
    HG_CHECK_RET(cb_call(&end, hooks_fail, &in, NULL), HG_PERMISSION);
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, "watch fail");
    hooks_next(&log, &at, HG_HOOK_HANDLE, HG_SUCCESS, "watch fail");
    hooks_next(&log, &at, HG_HOOK_RESPOND, HG_PERMISSION, "watch fail");
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_PERMISSION, "watch fail");
    log.count = at = 0;
    HG_CHECK_OK(cb_call(&end, hooks_quiet, NULL, NULL));
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, "watch quiet");
    hooks_next(&log, &at, HG_HOOK_HANDLE, HG_SUCCESS, "watch quiet");
    hooks_next(&log, &at, HG_HOOK_RESPOND, HG_SUCCESS, "watch quiet");
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_SUCCESS, "watch quiet");
    HG_CHECK_EQ_U64(log.count, 4);
    HG_CHECK_OK(HG_Set_hook(end.hg_class, NULL, NULL));
    HG_CHECK_OK(cb_call(&end, hooks_trace, NULL, &out));
    HG_CHECK_EQ_U64(log.count, 4);
    cb_close(&end);
}

/* A canceled call completes, too. The built-in functions are not seen at the
 * target. */
HG_TEST(hook_sees_call_ends)
{
    hg_builtin_t ping = {0, NULL};
    struct hooks_log log;
    hg_handle_t handle;
    struct cb_call call;
    struct cb_end end;
    unsigned at = 0;
    hg_id_t id;

    hooks_open_self(&end, &log);
    handle = cb_new_handle(&end, hooks_trace);
    HG_CHECK_OK(cb_forward(&call, handle, NULL));
    HG_CHECK_OK(HG_Cancel(handle));
    HG_CHECK_RET(cb_wait(&end, &call), HG_CANCELED);
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_CANCELED, "watch trace");
    HG_CHECK_EQ_U64(log.count, 2);
    HG_CHECK_OK(HG_Destroy(handle));
    id = HG_Register_name(end.hg_class, HG_BUILTIN_PING, hg_proc_hg_builtin_t,
        hg_proc_hg_builtin_t, NULL);
    log.count = at = 0;
    HG_CHECK_OK(cb_call(&end, id, &ping, NULL));
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, HG_BUILTIN_PING);
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_SUCCESS, HG_BUILTIN_PING);
    HG_CHECK_EQ_U64(log.count, 2);
    cb_close(&end);
}

HG_TEST(hook_can_end_calls)
{
    struct hooks_log log;
    struct cb_call call;
    hg_handle_t handle;
    struct cb_end end;
    unsigned at = 0;

    hooks_open_self(&end, &log);
    log.refuse = true;
    log.refuse_at = HG_HOOK_FORWARD;
    handle = cb_new_handle(&end, hooks_trace);
    HG_CHECK_RET(cb_forward(&call, handle, NULL), HG_PERMISSION);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    (void) cb_turn(end.context, 0);
    HG_CHECK_EQ_INT(atomic_load(&call.ends), 0);
    HG_CHECK_EQ_U64(log.count, 1);
    log.refuse_at = HG_HOOK_HANDLE;
    log.count = 0;
    HG_CHECK_RET(cb_do(&end, handle, NULL, NULL), HG_PERMISSION);
    hooks_next(&log, &at, HG_HOOK_FORWARD, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_HANDLE, HG_SUCCESS, "watch trace");
    hooks_next(&log, &at, HG_HOOK_RESPOND, HG_PERMISSION, "watch trace");
    hooks_next(&log, &at, HG_HOOK_COMPLETE, HG_PERMISSION, "watch trace");
    HG_CHECK_EQ_INT(atomic_load(&hooks_executed), 0);
    log.refuse_at = HG_HOOK_RESPOND; /* where it is ignored */
    log.count = 0;
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    log.refuse_at = HG_HOOK_COMPLETE;
    log.count = 0;
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Traces ---- */

HG_TEST(trace_is_transmitted)
{
    uint64_t traces[3];
    hooks_trace_t out;
    hg_handle_t handle;
    struct cb_end end;
    unsigned i;

    cb_open(&end);
    HG_CHECK_EQ_U64(HG_Get_trace_id(HG_HANDLE_NULL), 0);
    handle = cb_new_handle(&end, hooks_trace);
    HG_CHECK_EQ_U64(HG_Get_trace_id(handle), 0);
    for (i = 0; i < 3; i++) { /* each has its own */
        HG_CHECK_OK(cb_do(&end, handle, NULL, &out));
        traces[i] = HG_Get_trace_id(handle);
        HG_CHECK(traces[i] != 0 && out.here == traces[i]);
        HG_CHECK(i == 0 || traces[i] != traces[i - 1]);
        HG_CHECK_OK(HG_Free_output(handle, &out));
    }
    HG_CHECK_OK(HG_Set_trace_id(handle, 42));
    HG_CHECK_EQ_U64(HG_Get_trace_id(handle), 42);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(cb_do(&end, handle, NULL, &out));
        HG_CHECK_EQ_U64(out.here, 42);
        HG_CHECK_OK(HG_Free_output(handle, &out));
        HG_CHECK_OK(HG_Reset(handle, NULL, 0)); /* keeps its trace */
    }
    HG_CHECK_OK(HG_Set_trace_id(handle, 0));
    HG_CHECK_OK(cb_do(&end, handle, NULL, &out));
    HG_CHECK(out.here != 42 && out.here == HG_Get_trace_id(handle));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_OK(HG_Destroy(handle));
    hg_test_expect_log("HG_Set_trace_id");
    HG_CHECK_RET(HG_Set_trace_id(HG_HANDLE_NULL, 1), HG_INVALID_ARG);
    cb_close(&end);
}

/* A call that is made during the execution of another has its trace; a call
 * made afterwards has not. */
HG_TEST(trace_is_inherited)
{
    hooks_trace_t out;
    hg_handle_t handle;
    struct cb_end end;

    cb_open(&end);
    hg_test_allow_log("HG_Set_trace_id");
    handle = cb_new_handle(&end, hooks_nest);
    HG_CHECK_OK(HG_Set_trace_id(handle, 4711));
    HG_CHECK_OK(cb_do(&end, handle, NULL, &out));
    HG_CHECK_EQ_U64(out.here, 4711);
    HG_CHECK_EQ_U64(out.nested, 4711);
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_OK(HG_Set_trace_id(handle, 0));
    HG_CHECK_OK(cb_do(&end, handle, NULL, &out));
    HG_CHECK(out.here != 4711 && out.nested == out.here);
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Latencies ---- */

static void hooks_open_timed(struct cb_end *end, const char *string)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    info.histograms = true;
    end->hg_class = HG_Init_opt2(string, HG_TRUE, HG_VERSION(2, 4), &info);
    HG_CHECK(end->hg_class != NULL);
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    cb_register(end->hg_class);
    HG_CHECK_OK(HG_Addr_self(end->hg_class, &end->target));
}

static struct hg_histogram hooks_times(
    const struct cb_end *end, hg_id_t id, hg_bool_t target)
{
    struct hg_histogram times;
    uint64_t sum = 0;
    unsigned i;

    times.size = sizeof(times);
    HG_CHECK_OK(HG_Get_histogram(end->hg_class, id, target, &times));
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++)
        sum += times.bucket[i];
    HG_CHECK_EQ_U64(sum, times.count);
    HG_CHECK(times.min_ns <= times.max_ns);
    HG_CHECK(times.sum_ns >= times.count * times.min_ns);
    HG_CHECK(times.sum_ns <= times.count * times.max_ns);
    return times;
}

HG_TEST(histograms_count_calls)
{
    enum { CALLS = 20 };
    char *string = hg_test_listen_string();
    char name[] = "watch trace";
    hg_builtin_t question = {0, name};
    struct hg_histogram origin;
    struct hg_histogram target;
    hg_builtin_t answer;
    hg_handle_t handle;
    hooks_trace_t out;
    struct cb_end end;
    hg_id_t id;
    int i;

    hooks_open_timed(&end, string);
    free(string);
    HG_CHECK_EQ_U64(hooks_times(&end, hooks_trace, HG_FALSE).count, 0);
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(cb_call(&end, hooks_trace, NULL, &out));
    HG_CHECK_OK(cb_call(&end, hooks_quiet, NULL, NULL));
    origin = hooks_times(&end, hooks_trace, HG_FALSE);
    target = hooks_times(&end, hooks_trace, HG_TRUE);
    HG_CHECK_EQ_U64(origin.count, CALLS);
    HG_CHECK_EQ_U64(target.count, CALLS);
    HG_CHECK(target.min_ns > 0 && target.sum_ns < origin.sum_ns);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&origin, 100), origin.max_ns);
    HG_CHECK_EQ_U64(hooks_times(&end, hooks_quiet, HG_TRUE).count, 1);
    HG_CHECK_EQ_U64(hooks_times(&end, hooks_fail, HG_TRUE).count, 0);
    id = HG_Register_name(end.hg_class, HG_BUILTIN_STATS, hg_proc_hg_builtin_t,
        hg_proc_hg_builtin_t, NULL);
    handle = cb_new_handle(&end, id);
    HG_CHECK_OK(cb_do(&end, handle, &question, &answer));
    HG_CHECK(strstr(answer.text, "count 20\nsum_ns ") == answer.text);
    HG_CHECK(strstr(answer.text, "\nbucket_") != NULL);
    HG_CHECK_OK(HG_Free_output(handle, &answer));
    name[0] = 'x';
    HG_CHECK_RET(cb_do(&end, handle, &question, &answer), HG_NOENTRY);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(HG_Context_destroy(end.context));
    HG_CHECK_OK(HG_Finalize(end.hg_class));
}

/* An output that cannot be encoded once, but succeeds the next time. */
static hg_return_t hooks_proc_stutter(hg_proc_t proc, void *data)
{
    unsigned *tries = (unsigned *) data;

    HG_CHECK_EQ_INT(hg_proc_get_op(proc), HG_ENCODE);
    return (*tries)++ == 0 ? HG_PROTOCOL_ERROR : HG_SUCCESS;
}

static hg_return_t hooks_on_stutter(hg_handle_t handle)
{
    unsigned tries = 0;

    HG_CHECK_RET(HG_Respond(handle, NULL, NULL, &tries), HG_PROTOCOL_ERROR);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &tries));
    HG_CHECK_EQ_INT(tries, 2);
    return HG_Destroy(handle);
}

HG_TEST_WHERE(histograms_count_a_call_once, hg_test_is_self)
{
    struct cb_end end;
    hg_handle_t handle;
    hg_id_t id;

    hg_test_expect_log("the proc function fails");
    hooks_open_timed(&end, "self://");
    id = HG_Register_name(
        end.hg_class, "stutter", NULL, hooks_proc_stutter, hooks_on_stutter);
    handle = cb_new_handle(&end, id);
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_U64(hooks_times(&end, id, HG_FALSE).count, 1);
    HG_CHECK_EQ_U64(hooks_times(&end, id, HG_TRUE).count, 1);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(HG_Context_destroy(end.context));
    HG_CHECK_OK(HG_Finalize(end.hg_class));
}

HG_TEST(histograms_invalid_requests_are_refused)
{
    struct hg_histogram times;
    struct cb_end end;

    cb_open(&end);
    memset(&times, 0, sizeof(times));
    hg_test_expect_log("its size not set");
    hg_test_expect_log("the option histograms");
    hg_test_expect_log("HG_Get_histogram: id ");
    HG_CHECK_RET(HG_Get_histogram(end.hg_class, hooks_trace, HG_TRUE, &times),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_histogram(end.hg_class, hooks_trace, HG_TRUE, NULL),
        HG_INVALID_ARG);
    times.size = sizeof(times);
    HG_CHECK_RET(HG_Get_histogram(end.hg_class, hooks_trace, HG_TRUE, &times),
        HG_OPNOTSUPPORT);
    HG_CHECK_RET(
        HG_Get_histogram(end.hg_class, 4711, HG_TRUE, &times), HG_NOENTRY);
    cb_close(&end);
}

/* Registering fails, or the histogram is there. */
static int hooks_register_timed(void *arg)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;
    hg_id_t id = 0;

    (void) arg;
    info.histograms = true;
    hg_class = HG_Init_opt2("self://", HG_TRUE, HG_VERSION(2, 4), &info);
    if (hg_class == NULL)
        return 1;
    id = HG_Register_name(hg_class, "timed", NULL, NULL, hooks_on_quiet);
    if (id != 0) {
        struct hg_histogram times;

        times.size = sizeof(times);
        HG_CHECK_OK(HG_Get_histogram(hg_class, id, HG_TRUE, &times));
    }
    HG_CHECK_OK(HG_Finalize(hg_class));
    return id != 0 ? 0 : 1;
}

HG_TEST_WHERE(histograms_without_memory, hg_test_is_self)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(hooks_register_timed, NULL) > 3);
}
