/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the request model: what is transmitted, how waits end, what a
 * handler may do with its handle. On every transport, to oneself or to another
 * process.
 */
#include "rpc.h"

MERCURY_GEN_PROC(two_t, ((int32_t) (a))((int32_t) (b)))
MERCURY_GEN_PROC(one_t, ((int32_t) (value)))
MERCURY_GEN_PROC(text_t, ((hg_string_t) (text))((uint8_t) (n)))

static hg_id_t calls_sum_id, calls_text_id, calls_void_id, calls_echo_id,
    calls_keep_id, calls_release_id, calls_code_id, calls_act_id, calls_raw_id,
    calls_short_in_id, calls_short_out_id, calls_long_in_id, calls_long_out_id,
    calls_bad_in_id, calls_last_id, calls_unserved_id, calls_thread_id,
    calls_join_id, calls_mute_id;

/* ---- Handlers ---- */

static hg_return_t calls_sum(hg_handle_t handle)
{
    two_t in;
    one_t out;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    out.value = in.a + in.b;
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_EQ_U64(HG_Handler_get_id(handle), calls_sum_id);
    HG_CHECK(HG_Handler_get_addr(handle) != NULL);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    out.value = 77777; /* it was encoded */
    return HG_Handler_free(handle);
}

/* One text n times, or NULL for NULL. */
static hg_return_t calls_text(hg_handle_t handle)
{
    text_t in;
    text_t out = {NULL, 0};
    hg_return_t ret = HG_Handler_get_input(handle, &in);
    uint8_t i;

    if (ret != HG_SUCCESS)
        return ret;
    if (in.text != NULL) {
        out.text = (char *) calloc(1, strlen(in.text) * in.n + 1);
        HG_CHECK(out.text != NULL);
        for (i = 0; i < in.n; i++)
            memcpy(out.text + i * strlen(in.text), in.text, strlen(in.text));
    }
    out.n = (uint8_t) (in.n + 1);
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    free(out.text);
    return HG_Handler_free(handle);
}

static hg_return_t calls_void(hg_handle_t handle)
{
    one_t in;

    HG_CHECK_RET(HG_Handler_get_input(handle, &in), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Handler_free_input(handle, &in), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static hg_return_t calls_echo(hg_handle_t handle)
{
    struct blob blob = {0, NULL};
    hg_return_t ret = HG_Handler_get_input(handle, &blob);

    if (ret != HG_SUCCESS)
        return ret;
    HG_CHECK_OK(HG_Handler_start_output(handle, &blob));
    HG_CHECK_OK(HG_Handler_free_input(handle, &blob));
    return HG_Handler_free(handle);
}

/* Handles that wait for calls_release. */
static hg_handle_t calls_kept[2000];
static int calls_kept_count;

static hg_return_t calls_keep(hg_handle_t handle)
{
    HG_CHECK(calls_kept_count < 2000);
    calls_kept[calls_kept_count++] = handle;
    return HG_SUCCESS;
}

/* Answer `a` of the kept handles, the latest first; `b`: free them without a
 * response. */
static hg_return_t calls_release(hg_handle_t handle)
{
    two_t in;
    one_t out = {0};
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    while (out.value < in.a && calls_kept_count > 0) {
        hg_handle_t kept = calls_kept[--calls_kept_count];

        if (in.b == 0) {
            one_t value;

            HG_CHECK_OK(HG_Handler_get_input(kept, &value));
            HG_CHECK_OK(HG_Handler_start_output(kept, &value));
        }
        HG_CHECK_OK(HG_Handler_free(kept));
        out.value++;
    }
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* Fail with the code asked for. */
static hg_return_t calls_code(hg_handle_t handle)
{
    one_t in;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    return ret == HG_SUCCESS ? in.value : ret;
}

enum {
    CALLS_ANSWER_THEN_FAIL,
    CALLS_FREE,
    CALLS_FREE_THEN_FAIL,
    CALLS_ANSWER_TWICE,
    CALLS_FREE_TWICE,
    CALLS_INPUT_TWICE,
    CALLS_PROCESS_INSIDE,
    CALLS_FINALIZE_INSIDE,
    CALLS_OTHER_MODEL, /* use functions of the callback model */
    CALLS_ACTS
};

/* The observations of the last calls_act; calls_last returns them. */
static int32_t calls_seen;

static hg_return_t calls_act(hg_handle_t handle)
{
    two_t in = {0, 0};
    two_t again = {0, 0};
    one_t out = {42};
    void *buf = &out;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    calls_seen = -1;
    switch (in.a) {
    case CALLS_ANSWER_THEN_FAIL:
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        HG_CHECK_OK(HG_Handler_free(handle));
        return HG_NOMEM;
    case CALLS_FREE: return HG_Handler_free(handle);
    case CALLS_FREE_THEN_FAIL:
        HG_CHECK_OK(HG_Handler_free(handle));
        return HG_ACCESS;
    case CALLS_ANSWER_TWICE:
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        out.value = 43;
        calls_seen = HG_Handler_start_output(handle, &out);
        break;
    case CALLS_FREE_TWICE:
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        HG_CHECK_OK(HG_Handler_free(handle));
        calls_seen = HG_Handler_free(handle);
        return HG_SUCCESS;
    case CALLS_INPUT_TWICE:
        calls_seen = HG_Handler_get_input(handle, &again);
        HG_CHECK_EQ_INT(again.a, in.a);
        HG_CHECK_EQ_INT(again.b, in.b);
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        break;
    case CALLS_PROCESS_INSIDE:
        calls_seen = HG_Handler_process(0, HG_STATUS_IGNORE);
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        break;
    case CALLS_FINALIZE_INSIDE:
        calls_seen = HG_Finalize();
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        break;
    case CALLS_OTHER_MODEL:
        calls_seen = HG_Get_output_buf(handle, &buf, NULL);
        HG_CHECK(buf == &out);
        HG_CHECK_RET(HG_Release_input_buf(handle), HG_INVALID_ARG);
        HG_CHECK_OK(HG_Handler_get_input(handle, &again));
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        break;
    default: return HG_INVALID_ARG;
    }
    return HG_Handler_free(handle);
}

static hg_return_t calls_last(hg_handle_t handle)
{
    one_t out;

    out.value = calls_seen;
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* Input and output without procs: the sum of the bytes, in the buffer (a = 0)
 * or in extra memory of b bytes. */
static hg_return_t calls_raw(hg_handle_t handle)
{
    two_t in;
    void *bytes = NULL;
    void *buf = NULL;
    void *same = NULL;
    size_t size = 0;
    size_t i;
    int32_t sum = 0;

    HG_CHECK_OK(HG_Handler_get_input_buf(handle, &bytes, &size));
    HG_CHECK_EQ_U64(size, 8);
    for (i = 0; i < size; i++)
        sum += ((const unsigned char *) bytes)[i];
    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.a == 0) {
        HG_CHECK_OK(HG_Handler_get_output_buf(handle, &buf, &size));
        HG_CHECK(size >= 4);
        for (i = 0; i < size; i++)
            HG_CHECK_EQ_INT(((const unsigned char *) buf)[i], 0);
        memcpy(buf, &sum, 4);
        HG_CHECK_OK(HG_Handler_get_output_buf(handle, &same, &size));
        HG_CHECK(same == buf && memcmp(buf, &sum, 4) == 0);
        HG_CHECK_RET(
            HG_Handler_start_response(handle, NULL, 10), HG_INVALID_ARG);
        HG_CHECK_OK(HG_Handler_start_response(handle, NULL, 0));
    } else {
        unsigned char *extra = rpc_new_pattern((size_t) in.b, 1);

        if (in.b >= 4)
            memcpy(extra, &sum, 4);
        HG_CHECK_OK(HG_Handler_start_response(handle, extra, (size_t) in.b));
        HG_CHECK_RET(HG_Handler_start_response(handle, extra, 1), HG_EXIST);
        free(extra);
    }
    return HG_Handler_free(handle);
}

/* Procs whose two directions do not match. */
static hg_return_t calls_proc_short(hg_proc_t proc, void *data)
{
    two_t *two = (two_t *) data;
    hg_return_t ret = hg_proc_int32_t(proc, &two->a);

    if (ret == HG_SUCCESS && hg_proc_get_op(proc) == HG_ENCODE)
        ret = hg_proc_int32_t(proc, &two->b);
    return ret;
}

static hg_return_t calls_proc_long(hg_proc_t proc, void *data)
{
    two_t *two = (two_t *) data;
    hg_return_t ret = hg_proc_int32_t(proc, &two->a);

    if (ret == HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE)
        ret = hg_proc_int32_t(proc, &two->b);
    return ret;
}

/* Refuses what it decodes and, with a = 13, to encode. */
static hg_return_t calls_proc_bad(hg_proc_t proc, void *data)
{
    two_t *two = (two_t *) data;
    hg_return_t ret = hg_proc_two_t(proc, data);

    if (ret == HG_SUCCESS &&
        (hg_proc_get_op(proc) == HG_DECODE ||
            (hg_proc_get_op(proc) == HG_ENCODE && two->a == 13)))
        ret = HG_ADDRINUSE;
    return ret;
}

/* Returns the result of decoding the input. */
static hg_return_t calls_decode(hg_handle_t handle)
{
    two_t in;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    HG_CHECK(ret != HG_SUCCESS);
    return ret;
}

static hg_return_t calls_answer_two(hg_handle_t handle)
{
    two_t out = {1, 2};

    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* Cannot encode its output; calls_last returns the code. */
static hg_return_t calls_mute(hg_handle_t handle)
{
    two_t out = {13, 2};

    calls_seen = HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

/* Responds in a separate thread, after the handler returned. */
static void *calls_answer_thread(void *arg)
{
    hg_handle_t handle = (hg_handle_t) arg;
    one_t value;

    HG_CHECK_OK(HG_Handler_get_input(handle, &value));
    value.value++;
    HG_CHECK_OK(HG_Handler_start_output(handle, &value));
    HG_CHECK_OK(HG_Handler_free(handle));
    return NULL;
}

static pthread_t calls_threads[20];
static int calls_thread_count;

static hg_return_t calls_thread(hg_handle_t handle)
{
    HG_CHECK(calls_thread_count < 20);
    HG_CHECK(pthread_create(&calls_threads[calls_thread_count++], NULL,
                 calls_answer_thread, handle) == 0);
    return HG_SUCCESS;
}

/* Wait until those threads have released their handles. */
static hg_return_t calls_join(hg_handle_t handle)
{
    while (calls_thread_count > 0)
        HG_CHECK(pthread_join(calls_threads[--calls_thread_count], NULL) == 0);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    calls_sum_id = MERCURY_REGISTER("calls sum", two_t, one_t, calls_sum);
    calls_text_id = MERCURY_REGISTER("calls text", text_t, text_t, calls_text);
    calls_void_id = MERCURY_REGISTER("calls void", void, void, calls_void);
    calls_echo_id = HG_Register("calls echo", blob_proc, blob_proc, calls_echo);
    calls_keep_id = MERCURY_REGISTER("calls keep", one_t, one_t, calls_keep);
    calls_release_id =
        MERCURY_REGISTER("calls release", two_t, one_t, calls_release);
    calls_code_id = MERCURY_REGISTER("calls code", one_t, one_t, calls_code);
    calls_act_id = MERCURY_REGISTER("calls act", two_t, one_t, calls_act);
    calls_last_id = MERCURY_REGISTER("calls last", void, one_t, calls_last);
    calls_raw_id = MERCURY_REGISTER("calls raw", two_t, one_t, calls_raw);
    calls_short_in_id = HG_Register(
        "calls short in", calls_proc_short, hg_proc_one_t, calls_decode);
    calls_long_in_id = HG_Register(
        "calls long in", calls_proc_long, hg_proc_one_t, calls_decode);
    calls_bad_in_id = HG_Register(
        "calls bad in", calls_proc_bad, hg_proc_one_t, calls_decode);
    calls_short_out_id = HG_Register(
        "calls short out", NULL, calls_proc_short, calls_answer_two);
    calls_long_out_id =
        HG_Register("calls long out", NULL, calls_proc_long, calls_answer_two);
    calls_thread_id =
        MERCURY_REGISTER("calls thread", one_t, one_t, calls_thread);
    calls_join_id = MERCURY_REGISTER("calls join", void, void, calls_join);
    calls_mute_id = HG_Register("calls mute", NULL, calls_proc_bad, calls_mute);
    calls_unserved_id = MERCURY_REGISTER("calls unserved", one_t, one_t, NULL);
    HG_CHECK(calls_thread_id != 0 && calls_unserved_id != 0);
}

/* ---- Arguments and results ---- */

HG_TEST(calls_carry_arguments_and_results)
{
    struct rpc_end end;
    two_t two = {40, 2};
    one_t one = {0};
    text_t text = {NULL, 3};
    text_t answer = {NULL, 0};
    hg_request_t request;
    char word[] = "ab";

    hg_test_allow_log("no input proc"); /* calls_void tries */
    rpc_open(&end);
    request = rpc_start_call(&end, calls_sum_id, &two, &one);
    two.a = 12345; /* it was encoded: the struct may be used again at once */
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(one.value, 42);
    HG_CHECK_OK(rpc_wait(request)); /* a second wait returns the same */
    HG_CHECK_OK(HG_Request_free(request));

    HG_CHECK_OK(rpc_call(&end, calls_void_id, NULL, NULL));
    /* Output not wanted. */
    HG_CHECK_OK(rpc_call(&end, calls_sum_id, &two, NULL));

    request = rpc_start_call(&end, calls_text_id, &text, &answer);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK(answer.text == NULL && answer.n == 4);
    HG_CHECK_OK(HG_Request_free(request));
    text.text = word;
    request = rpc_start_call(&end, calls_text_id, &text, &answer);
    word[0] = 'x';
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_STR(answer.text, "ababab"); /* until the request is freed */
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

HG_TEST(calls_outlive_their_address_handle)
{
    struct rpc_end end;
    two_t two = {1, 2};
    one_t one = {0};
    hg_request_t request;
    na_addr_t addr;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_dup(end.na_class, end.target, &addr));
    HG_CHECK_OK(HG_Forward(addr, calls_sum_id, &two, &one, &request));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(one.value, 3);
    HG_CHECK_OK(HG_Request_free(request));
    rpc_close(&end);
}

HG_TEST(calls_to_oneself_run_in_a_later_wait)
{
    struct rpc_end end;
    two_t two = {1, 2};
    one_t one = {0};
    hg_request_t request;
    hg_status_t status = HG_FALSE;
    na_addr_t self;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(HG_Forward(self, calls_sum_id, &two, &one, &request));
    HG_CHECK_EQ_INT(one.value, 0);
    while (HG_Wait(request, 0, &status) == HG_TIMEOUT)
        HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_INT(one.value, 3);
    HG_CHECK_OK(HG_Request_free(request));

    /* HG_Handler_process runs it as well. */
    one.value = 0;
    HG_CHECK_OK(HG_Forward(self, calls_sum_id, &two, &one, &request));
    HG_CHECK_OK(HG_Handler_process(RPC_TIMEOUT, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_RET(HG_Handler_process(0, &status), HG_TIMEOUT);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_close(&end);
}

static void calls_echo_size(const struct rpc_end *end, size_t size)
{
    struct blob in = {size, rpc_new_pattern(size, size)};
    struct blob out = {0, NULL};
    hg_request_t request = rpc_start_call(end, calls_echo_id, &in, &out);

    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_U64(out.size, size);
    if (size > 0)
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, size);
    HG_CHECK_OK(HG_Request_free(request));
    free(in.bytes);
}

HG_TEST_SECONDS(calls_carry_arguments_of_any_size, 60)
{
    const size_t sizes[] = {
        0, 1, 4095, 1000003, (size_t) (hg_test_is_plain() ? 16 : 4) << 20};
    struct hg_counters counters;
    struct rpc_end end;
    size_t eager;
    size_t i;

    rpc_open(&end);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        calls_echo_size(&end, sizes[i]);
    eager = (size_t) NA_Msg_get_max_unexpected_size(end.na_class);
    for (i = eager - 90; i < eager - 70; i++)
        calls_echo_size(&end, i);
    eager = (size_t) NA_Msg_get_max_expected_size(end.na_class);
    for (i = eager - 90; i < eager - 70; i++)
        calls_echo_size(&end, i);
    counters = rpc_counters();
    if (end.peer != NULL)
        HG_CHECK(counters.outputs_fetched >= 2);
    HG_CHECK_EQ_U64(counters.in_flight, 0);
    rpc_close(&end);
}

HG_TEST(calls_past_the_limit_of_size_are_refused)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = {1001, rpc_new_pattern(1001, 1)};
    hg_request_t request = HG_REQUEST_NULL;
    struct rpc_end end;

    options.max_args_size = 1008;
    rpc_open_with(&end, &options, false);
    hg_test_expect_log("exceed");
    HG_CHECK_RET(
        HG_Forward(end.target, calls_echo_id, &in, NULL, &request), HG_MSGSIZE);
    HG_CHECK(request == HG_REQUEST_NULL);
    in.size = 1000;
    HG_CHECK_OK(rpc_call(&end, calls_echo_id, &in, NULL));
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    free(in.bytes);
    rpc_close(&end);
}

HG_TEST(calls_with_handwritten_procs)
{
    struct rpc_end end;
    two_t in = {0, 9};
    one_t out = {0};

    hg_test_allow_log("was answered twice"); /* calls_raw tries */
    hg_test_allow_log("has 10 bytes, but the buffer is NULL");
    rpc_open(&end);
    HG_CHECK_OK(rpc_call(&end, calls_raw_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 9);
    in.a = 1;
    in.b = 4;
    HG_CHECK_OK(rpc_call(&end, calls_raw_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 5);
    /* More than the proc decodes: a buffer of a fixed size need not be full. */
    in.b = 200000;
    HG_CHECK_OK(rpc_call(&end, calls_raw_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 1 + 0x40 + 0x0d + 0x03);
    /* Fewer bytes. */
    hg_test_expect_log("decoding needs 4 bytes");
    in.b = 3;
    HG_CHECK_RET(rpc_call(&end, calls_raw_id, &in, &out), HG_OVERFLOW);
    rpc_close(&end);
}

/* ---- Errors ---- */

HG_TEST(calls_end_with_the_code_of_their_handler)
{
    struct rpc_end end;
    one_t in;
    one_t out = {5};

    hg_test_allow_log("the handler of \"calls code\" returned");
    rpc_open(&end);
    /* Two of the codes would tell the caller to keep waiting. */
    for (in.value = 1; in.value < HG_RETURN_MAX; in.value++)
        HG_CHECK_RET(rpc_call(&end, calls_code_id, &in, &out),
            in.value == HG_TIMEOUT || in.value == HG_INTR ? HG_OTHER_ERROR
                                                          : in.value);
    in.value = HG_RETURN_MAX;
    HG_CHECK_RET(rpc_call(&end, calls_code_id, &in, &out), HG_OTHER_ERROR);
    in.value = -1;
    HG_CHECK_RET(rpc_call(&end, calls_code_id, &in, &out), HG_OTHER_ERROR);
    HG_CHECK_EQ_INT(out.value, 5);
    if (end.peer == NULL) /* one line each: two codes, two numbers */
        HG_CHECK_EQ_INT(
            hg_test_log_count("the handler of \"calls code\" returned"), 4);
    rpc_close(&end);
}

HG_TEST(calls_whose_output_cannot_be_encoded_end_with_the_cause)
{
    struct rpc_end end;
    one_t seen = {0};
    two_t out = {0, 0};

    hg_test_allow_log("\"calls mute\" with ");
    rpc_open(&end);
    HG_CHECK_RET(rpc_call(&end, calls_mute_id, NULL, &out), HG_ADDRINUSE);
    HG_CHECK_OK(rpc_call(&end, calls_last_id, NULL, &seen));
    HG_CHECK_RET(seen.value, HG_ADDRINUSE);
    if (end.peer == NULL)
        HG_CHECK_EQ_INT(hg_test_log_count("\"calls mute\" with "), 1);
    rpc_close(&end);
}

HG_TEST(calls_end_once_whatever_the_handler_does)
{
    static const struct {
        int32_t act;
        hg_return_t ret;
        hg_return_t seen;
    } acts[CALLS_ACTS] = {
        {CALLS_ANSWER_THEN_FAIL, HG_SUCCESS, -1},
        {CALLS_FREE, HG_CANCELED, -1},
        {CALLS_FREE_THEN_FAIL, HG_ACCESS, -1},
        {CALLS_ANSWER_TWICE, HG_SUCCESS, HG_EXIST},
        {CALLS_FREE_TWICE, HG_SUCCESS, HG_INVALID_ARG},
        {CALLS_INPUT_TWICE, HG_SUCCESS, HG_SUCCESS},
        {CALLS_PROCESS_INSIDE, HG_SUCCESS, HG_BUSY},
        {CALLS_FINALIZE_INSIDE, HG_SUCCESS, HG_BUSY},
        {CALLS_OTHER_MODEL, HG_SUCCESS, HG_INVALID_ARG},
    };
    struct rpc_end end;
    size_t i;

    hg_test_allow_log("\"calls act\" answered and then failed");
    hg_test_allow_log("was answered twice");
    hg_test_allow_log("freed twice");
    hg_test_allow_log("inside a handler");
    hg_test_allow_log("a thread waits or runs a handler");
    hg_test_allow_log("the call is of the request model");
    rpc_open(&end);
    for (i = 0; i < CALLS_ACTS; i++) {
        two_t in;
        one_t out = {0};
        one_t seen = {0};

        in.a = acts[i].act;
        in.b = 77;
        HG_CHECK_RET(rpc_call(&end, calls_act_id, &in, &out), acts[i].ret);
        if (acts[i].ret == HG_SUCCESS)
            HG_CHECK_EQ_INT(out.value, 42);
        HG_CHECK_OK(rpc_call(&end, calls_last_id, NULL, &seen));
        HG_CHECK_RET(seen.value, acts[i].seen);
    }
    HG_CHECK_EQ_U64(rpc_counters().unanswered, 0);
    rpc_close(&end);
}

static void calls_check_text(const char *function, const char *why)
{
    const char *text = HG_Get_last_error_text();

    HG_CHECK(strstr(text, function) == text);
    HG_CHECK(strstr(text, why) != NULL);
}

static void *calls_other_text(void *arg)
{
    (void) arg;
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "");
    return NULL;
}

/* A response reports it, not a timeout. The side that decodes logs one line
 * with function and peer. It is a warning and counted, since a peer causes
 * it. */
HG_TEST(calls_that_cannot_be_decoded_end_with_the_cause)
{
    static const char same[] = "do both sides register the same types?";
    struct rpc_end end;
    two_t in = {1, 2};
    two_t out = {0, 0};
    one_t one = {0};
    pthread_t thread;

    hg_test_allow_log(""); /* errors are counted here */
    hg_test_expect_log("\"calls short out\" with ");
    hg_test_expect_log("\"calls long out\" with ");
    hg_test_allow_log(same); /* the server's line, if it is this process */
    hg_test_allow_log("\"calls bad in\" with ");
    rpc_open(&end);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "");
    HG_CHECK_RET(
        rpc_call(&end, calls_short_in_id, &in, &one), HG_CHECKSUM_ERROR);
    calls_check_text("\"calls short in\" with ", "is longer than its type");
    HG_CHECK_RET(rpc_call(&end, calls_long_in_id, &in, &one), HG_OVERFLOW);
    calls_check_text("\"calls long in\" with ", "is shorter than its type");
    HG_CHECK_RET(rpc_call(&end, calls_bad_in_id, &in, &one), HG_ADDRINUSE);
    HG_CHECK_RET(
        rpc_call(&end, calls_short_out_id, NULL, &out), HG_CHECKSUM_ERROR);
    calls_check_text("\"calls short out\" with ", same);
    HG_CHECK_RET(rpc_call(&end, calls_long_out_id, NULL, &out), HG_OVERFLOW);
    calls_check_text("\"calls long out\" with ", same);
    HG_CHECK(pthread_create(&thread, NULL, calls_other_text, NULL) == 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(rpc_counters().refused >= 2);
    HG_CHECK_EQ_INT(hg_test_log_count(""), 0);
    HG_CHECK_EQ_INT(hg_test_log_count("\"calls short out\" with "), 1);
    HG_CHECK_EQ_INT(hg_test_log_count("\"calls long out\" with "), 1);
    /* The server continues to serve. */
    HG_CHECK_OK(rpc_call(&end, calls_sum_id, &in, &one));
    HG_CHECK_EQ_INT(one.value, 3);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "");
    rpc_close(&end);
}

HG_TEST(calls_that_cannot_be_encoded_never_start)
{
    struct rpc_end end;
    two_t in = {13, 2};
    hg_request_t request = HG_REQUEST_NULL;

    rpc_open(&end);
    hg_test_expect_log("the proc function fails: address in use");
    HG_CHECK_RET(HG_Forward(end.target, calls_bad_in_id, &in, NULL, &request),
        HG_ADDRINUSE);
    hg_test_expect_log("in_struct is NULL");
    HG_CHECK_RET(HG_Forward(end.target, calls_sum_id, NULL, NULL, &request),
        HG_INVALID_ARG);
    hg_test_expect_log("HG_Forward: id 000000000000007b is not registered");
    HG_CHECK_RET(HG_Forward(end.target, 123, &in, NULL, &request), HG_NOENTRY);
    HG_CHECK(request == HG_REQUEST_NULL);
    HG_CHECK_EQ_U64(rpc_counters().requests_sent, 0);
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

HG_TEST(calls_of_unregistered_functions_are_answered)
{
    struct rpc_end end;
    one_t in = {1};
    one_t out = {1};
    hg_id_t id;

    hg_test_allow_log(""); /* errors are counted here */
    rpc_open(&end);
    hg_test_expect_log("\"calls unserved\" is not served by ");
    HG_CHECK_RET(rpc_call(&end, calls_unserved_id, &in, &out), HG_NOENTRY);
    calls_check_text("\"calls unserved\" with ", "regist");
    id = MERCURY_REGISTER("calls known here only", one_t, one_t, NULL);
    HG_CHECK(id != 0);
    hg_test_expect_log("\"calls known here only\" is not served by ");
    HG_CHECK_RET(rpc_call(&end, id, &in, &out), HG_NOENTRY);
    HG_CHECK_EQ_INT(out.value, 1);
    /* If a handler returns this code, no line is logged. */
    in.value = HG_NOENTRY;
    HG_CHECK_RET(rpc_call(&end, calls_code_id, &in, &out), HG_NOENTRY);
    HG_CHECK_EQ_INT(
        hg_test_log_count("\"calls unserved\" is not served by "), 1);
    HG_CHECK_EQ_INT(hg_test_log_count(""), 0);
    rpc_close(&end);
}

/* A class cannot be finalized while a layer uses it. */
HG_TEST(calls_keep_their_class_open)
{
    struct rpc_end end;
    two_t in = {1, 2};
    one_t out = {0};

    rpc_open(&end);
    hg_test_expect_log("has not been called");
    HG_CHECK_RET(NA_Finalize(end.na_class), NA_BUSY);
    HG_CHECK_OK(rpc_call(&end, calls_sum_id, &in, &out));
    HG_CHECK_EQ_INT(out.value, 3);
    rpc_close(&end);
}

/* ---- Names ---- */

static hg_return_t calls_answer_nine(hg_handle_t handle)
{
    one_t out = {9};

    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

HG_TEST(calls_use_the_id_of_their_name)
{
    struct rpc_end end;
    na_addr_t self;
    one_t out = {0};
    hg_id_t first;
    hg_id_t second;
    hg_request_t request;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    first = MERCURY_REGISTER("calls first", one_t, one_t, calls_answer_nine);
    second = MERCURY_REGISTER("calls second", void, void, NULL);
    HG_CHECK(first != 0 && second != 0 && first != second);
    /* Registering again replaces the procs; a NULL callback does not replace
     * the callback. */
    HG_CHECK_EQ_U64(MERCURY_REGISTER("calls first", void, one_t, NULL), first);
    HG_CHECK_OK(HG_Forward(self, first, NULL, &out, &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_EQ_INT(out.value, 9);
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    HG_CHECK_OK(HG_Finalize());

    /* In another order, after another init. */
    HG_CHECK_OK(HG_Init(end.na_class));
    HG_CHECK_EQ_U64(MERCURY_REGISTER("calls second", void, void, NULL), second);
    HG_CHECK_EQ_U64(MERCURY_REGISTER("calls first", one_t, one_t, NULL), first);
    rpc_close(&end);
}

HG_TEST(calls_refuse_two_names_with_one_id)
{
    struct rpc_end end;

    rpc_open(&end);
    HG_CHECK(MERCURY_REGISTER("aaaaaaaaaaaaaaaaaa", void, void, NULL) != 0);
    hg_test_expect_log("rename one");
    HG_CHECK_EQ_U64(
        MERCURY_REGISTER("injdfejggfnbaiklaa", void, void, NULL), 0);
    hg_test_expect_log("the name is NULL or empty");
    HG_CHECK_EQ_U64(HG_Register(NULL, NULL, NULL, NULL), 0);
    HG_CHECK_EQ_U64(HG_Register("", NULL, NULL, NULL), 0);
    rpc_close(&end);
}

/* ---- Many, late, and in other threads ---- */

HG_TEST_SECONDS(thousand_calls_are_answered_in_reverse_order, 60)
{
    enum { COUNT = 1000 };
    static one_t in[COUNT];
    static one_t out[COUNT];
    static hg_request_t requests[COUNT];
    static hg_status_t statuses[COUNT];
    two_t release = {COUNT, 0};
    one_t released = {0};
    struct rpc_end end;
    int i;

    rpc_open(&end);
    for (i = 0; i < COUNT; i++) {
        in[i].value = i;
        requests[i] = rpc_start_call(&end, calls_keep_id, &in[i], &out[i]);
    }
    HG_CHECK_EQ_U64(rpc_counters().in_flight, COUNT);
    HG_CHECK_RET(HG_Wait_all(COUNT, requests, 0, statuses), HG_TIMEOUT);
    HG_CHECK_OK(rpc_call(&end, calls_release_id, &release, &released));
    HG_CHECK_EQ_INT(released.value, COUNT);
    HG_CHECK_OK(HG_Wait_all(COUNT, requests, RPC_TIMEOUT, statuses));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_EQ_INT(statuses[i], HG_TRUE);
        HG_CHECK_EQ_INT(out[i].value, i);
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
    rpc_close(&end);
}

HG_TEST(calls_are_answered_from_other_threads)
{
    struct rpc_end end;
    hg_request_t requests[20];
    one_t out[20];
    int i;

    rpc_open(&end);
    for (i = 0; i < 20; i++) {
        one_t in;

        in.value = i;
        requests[i] = rpc_start_call(&end, calls_thread_id, &in, &out[i]);
    }
    for (i = 0; i < 20; i++) {
        HG_CHECK_OK(rpc_wait(requests[i]));
        HG_CHECK_EQ_INT(out[i].value, i + 1);
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
    HG_CHECK_OK(rpc_call(&end, calls_join_id, NULL, NULL));
    rpc_close(&end);
}

HG_TEST(calls_beyond_the_limit_are_refused)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_request_t requests[9];
    hg_request_t more = HG_REQUEST_NULL;
    two_t release = {100, 0};
    one_t released = {0};
    one_t in = {1};
    struct rpc_end end;
    int i;

    options.max_in_flight = 8;
    options.max_unanswered = 5;
    rpc_open_with(&end, &options, false);
    for (i = 0; i < 8; i++)
        requests[i] = rpc_start_call(&end, calls_keep_id, &in, NULL);
    HG_CHECK_RET(
        HG_Forward(end.target, calls_keep_id, &in, NULL, &more), HG_AGAIN);
    HG_CHECK(more == HG_REQUEST_NULL);
    /* The target accepts five, and refuses the rest at once. */
    for (i = 5; i < 8; i++) {
        HG_CHECK_RET(rpc_wait(requests[i]), HG_AGAIN);
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
    for (i = 0; i < 5; i++)
        HG_CHECK_RET(HG_Wait(requests[i], 0, HG_STATUS_IGNORE), HG_TIMEOUT);
    HG_CHECK_RET(rpc_call(&end, calls_release_id, &release, NULL), HG_AGAIN);
    if (end.peer == NULL) { /* released as a handler would */
        while (calls_kept_count > 0) {
            one_t value = {1};
            hg_handle_t kept = calls_kept[--calls_kept_count];

            HG_CHECK_OK(HG_Handler_start_output(kept, &value));
            HG_CHECK_OK(HG_Handler_free(kept));
        }
        HG_CHECK_OK(HG_Wait_all(5, requests, RPC_TIMEOUT, NULL));
        HG_CHECK_OK(rpc_call(&end, calls_release_id, &release, &released));
    }
    for (i = 0; i < 5; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

HG_TEST(calls_are_counted)
{
    struct hg_counters before;
    struct hg_counters counters;
    struct rpc_end end;
    two_t two = {1, 2};
    one_t in = {HG_BUSY};
    hg_request_t request;
    unsigned served;
    int i;

    rpc_open(&end);
    before = rpc_counters();
    for (i = 0; i < 5; i++)
        HG_CHECK_OK(rpc_call(&end, calls_sum_id, &two, NULL));
    for (i = 0; i < 3; i++)
        HG_CHECK_RET(rpc_call(&end, calls_code_id, &in, NULL), HG_BUSY);
    request = rpc_start_call(&end, calls_keep_id, &in, NULL);
    two.a = 1;
    two.b = 0;
    HG_CHECK_OK(rpc_call(&end, calls_release_id, &two, NULL));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    counters = rpc_counters();
    served = end.peer == NULL ? 10 : 0;
    HG_CHECK_EQ_U64(counters.requests_sent - before.requests_sent, 10);
    HG_CHECK_EQ_U64(
        counters.responses_received - before.responses_received, 10);
    HG_CHECK_EQ_U64(
        counters.requests_received - before.requests_received, served);
    HG_CHECK_EQ_U64(counters.responses_sent - before.responses_sent, served);
    HG_CHECK_EQ_U64(
        counters.errors_sent - before.errors_sent, end.peer == NULL ? 3 : 0);
    HG_CHECK_EQ_U64(counters.refused, 0);
    HG_CHECK_EQ_U64(counters.late, 0);
    HG_CHECK_EQ_U64(counters.in_flight, 0);
    HG_CHECK_EQ_U64(counters.unanswered, 0);
    rpc_close(&end);
}
