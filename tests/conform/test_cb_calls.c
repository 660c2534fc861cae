/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the callback model: one case for each guarantee that Mercury
 * programs rely on. On every transport, to oneself or to another process.
 */
#include "cb.h"

MERCURY_GEN_PROC(two_t, ((int32_t) (a))((int32_t) (b)))
MERCURY_GEN_PROC(text_t, ((hg_string_t) (text))((uint8_t) (n)))

static hg_id_t calls_inc_id, calls_text_id, calls_blob_id, calls_code_id,
    calls_keep_id, calls_release_id, calls_act_id, calls_seen_id, calls_one_id,
    calls_one_blob_id, calls_nest_id, calls_void_id, calls_bad_in_id,
    calls_bad_out_id, calls_unserved_id, calls_bare_id;

/* ---- The functions of the target ---- */

static hg_return_t calls_text(hg_handle_t handle)
{
    text_t in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    in.n++;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    return HG_Destroy(handle);
}

static hg_return_t calls_blob(hg_handle_t handle)
{
    struct blob blob = {0, NULL};

    HG_CHECK_OK(HG_Get_input(handle, &blob));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &blob));
    HG_CHECK_OK(HG_Free_input(handle, &blob));
    return HG_Destroy(handle);
}

/* Handles that wait for calls_release. */
static hg_handle_t calls_kept[256];
static int calls_kept_count;

static hg_return_t calls_keep(hg_handle_t handle)
{
    HG_CHECK(calls_kept_count < 256);
    calls_kept[calls_kept_count++] = handle;
    return HG_SUCCESS;
}

/* Release the kept handles: with a response if `value` is not 0. Returns how
 * many there were. */
static hg_return_t calls_release(hg_handle_t handle)
{
    cb_one_t out = {calls_kept_count};
    cb_one_t in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    while (calls_kept_count > 0) {
        hg_handle_t kept = calls_kept[--calls_kept_count];
        cb_one_t value;

        if (in.value != 0) {
            HG_CHECK_OK(HG_Get_input(kept, &value));
            HG_CHECK_OK(HG_Free_input(kept, &value));
            HG_CHECK_OK(HG_Respond(kept, NULL, NULL, &value));
        }
        HG_CHECK_OK(HG_Destroy(kept));
    }
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* Fail with code `a`; `b`: the handle is destroyed before, or only later. */
static hg_return_t calls_code(hg_handle_t handle)
{
    two_t in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    if (in.b != 0)
        HG_CHECK_OK(HG_Destroy(handle));
    else
        (void) calls_keep(handle);
    return (hg_return_t) in.a;
}

/* The observations of calls_act and the one-way calls; calls_seen returns
 * them. */
static _Atomic int calls_saw;

static hg_return_t calls_seen(hg_handle_t handle)
{
    cb_one_t out = {atomic_load(&calls_saw)};

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* The response was sent; the handle belongs to the library by now. */
static hg_return_t calls_responded(const struct hg_cb_info *info)
{
    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(info->type, HG_CB_RESPOND);
    HG_CHECK_OK(info->ret);
    HG_CHECK(info->info.respond.handle != HG_HANDLE_NULL);
    atomic_fetch_add(&calls_saw, *(int *) info->arg);
    return HG_SUCCESS;
}

enum {
    CALLS_DESTROY,
    CALLS_DESTROY_TWICE,
    CALLS_TELL,
    CALLS_ANSWER_TWICE,
    CALLS_ANSWER_AND_DESTROY_TWICE,
    CALLS_INPUT_TWICE,
    CALLS_NULLS,
    CALLS_BUFFERS,
    CALLS_INFO,
    CALLS_ORIGINS
};

static void calls_pass_nulls(hg_handle_t handle)
{
    void *buf = NULL;
    two_t in;

    HG_CHECK_RET(HG_Get_input(handle, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Free_input(handle, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_input_buf(handle, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output_buf(handle, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Get_input_extra_buf(handle, &buf, NULL));
    HG_CHECK(buf == NULL);
    /* Functions for the origin only. */
    HG_CHECK_RET(HG_Get_output(handle, &in), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Forward(handle, NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Reset(handle, HG_ADDR_NULL, 0), HG_INVALID_ARG);
}

static void calls_look_at_buffers(hg_handle_t handle)
{
    static const unsigned char bytes[8] = {CALLS_BUFFERS, 0, 0, 0, 9, 0, 0, 0};
    hg_size_t size = 0;
    void *buf = NULL;

    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), sizeof(bytes));
    HG_CHECK_OK(HG_Get_input_buf(handle, &buf, &size));
    HG_CHECK_EQ_U64(size, sizeof(bytes));
    HG_CHECK_EQ_MEM(buf, bytes, sizeof(bytes));
    HG_CHECK_OK(HG_Get_output_buf(handle, &buf, &size));
    HG_CHECK(size > 0);
    memset(buf, 1, (size_t) size);
    HG_CHECK_OK(HG_Release_input_buf(handle));
    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), 0);
}

static void calls_look_at_info(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);

    HG_CHECK(info->hg_class == HG_Context_get_class(info->context));
    HG_CHECK(info->addr != HG_ADDR_NULL);
    HG_CHECK_EQ_U64(info->id, calls_act_id);
    HG_CHECK_EQ_INT(info->context_id, 0);
}

static hg_return_t calls_act(hg_handle_t handle)
{
    static int ten = 10;
    two_t in;
    two_t again;
    cb_one_t out = {42};

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    switch (in.a) {
    case CALLS_DESTROY_TWICE: HG_CHECK_OK(HG_Destroy(handle)); break;
    case CALLS_TELL:
        HG_CHECK_OK(HG_Respond(handle, calls_responded, &ten, &out));
        break;
    case CALLS_ANSWER_TWICE:
        HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
        out.value = 43;
        HG_CHECK_RET(HG_Respond(handle, NULL, NULL, &out), HG_EXIST);
        break;
    case CALLS_ANSWER_AND_DESTROY_TWICE:
        HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
        HG_CHECK_OK(HG_Destroy(handle));
        HG_CHECK_RET(HG_Destroy(handle), HG_INVALID_ARG);
        return HG_SUCCESS;
    case CALLS_INPUT_TWICE: {
        int32_t refs = HG_Ref_get(handle);

        HG_CHECK_OK(HG_Get_input(handle, &in));
        HG_CHECK_OK(HG_Get_input(handle, &again));
        HG_CHECK_EQ_INT(again.b, in.b);
        HG_CHECK_EQ_INT(HG_Ref_get(handle), refs + 2);
        HG_CHECK_OK(HG_Free_input(handle, &again));
        HG_CHECK_OK(HG_Free_input(handle, &in));
        HG_CHECK_EQ_INT(HG_Ref_get(handle), refs);
        break;
    }
    case CALLS_NULLS: calls_pass_nulls(handle); break;
    case CALLS_BUFFERS: calls_look_at_buffers(handle); break;
    case CALLS_INFO: calls_look_at_info(handle); break;
    default: break; /* CALLS_DESTROY */
    }
    if (in.a > CALLS_ANSWER_AND_DESTROY_TWICE)
        HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* One-way: no response is expected. */
static hg_return_t calls_one(hg_handle_t handle)
{
    cb_one_t in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    HG_CHECK_RET(HG_Respond(handle, NULL, NULL, &in), HG_OPNOTSUPPORT);
    HG_CHECK_OK(HG_Destroy(handle));
    atomic_fetch_add(&calls_saw, in.value);
    return HG_PERMISSION; /* it is not transmitted */
}

static hg_return_t calls_one_blob(hg_handle_t handle)
{
    struct blob blob = {0, NULL};
    uint64_t i;

    HG_CHECK_OK(HG_Get_input(handle, &blob));
    for (i = 0; i < blob.size; i++)
        HG_CHECK_EQ_INT(blob.bytes[i], 'x');
    atomic_fetch_add(&calls_saw, (int) blob.size);
    HG_CHECK_OK(HG_Free_input(handle, &blob));
    return HG_Destroy(handle);
}

/* A call that responds when its own call, back to its caller, was answered. */
static hg_return_t calls_nested(const struct hg_cb_info *info)
{
    hg_handle_t outer = (hg_handle_t) info->arg;
    hg_handle_t inner = info->info.forward.handle;
    cb_one_t value;

    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Get_output(inner, &value));
    HG_CHECK_OK(HG_Free_output(inner, &value));
    HG_CHECK_OK(HG_Destroy(inner));
    value.value *= 10;
    HG_CHECK_OK(HG_Respond(outer, NULL, NULL, &value));
    return HG_Destroy(outer);
}

static hg_return_t calls_nest(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_handle_t inner;
    cb_one_t value;

    HG_CHECK_OK(HG_Get_input(handle, &value));
    HG_CHECK_OK(HG_Free_input(handle, &value));
    HG_CHECK_OK(HG_Create(info->context, info->addr, calls_inc_id, &inner));
    HG_CHECK_OK(HG_Set_target_id(inner, info->context_id));
    return HG_Forward(inner, calls_nested, handle, &value);
}

static hg_return_t calls_void(hg_handle_t handle)
{
    two_t none;

    HG_CHECK_RET(HG_Get_input(handle, &none), HG_FAULT);
    HG_CHECK_RET(HG_Free_input(handle, &none), HG_FAULT);
    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), 0);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_return_t calls_proc_fail(hg_proc_t proc, void *data)
{
    (void) data;
    return hg_proc_get_op(proc) == HG_ENCODE ? HG_PROTONOSUPPORT : HG_SUCCESS;
}

/* The output cannot be encoded: the call stays unanswered, and the return code
 * of the function is its response. */
static hg_return_t calls_bad_out(hg_handle_t handle)
{
    two_t out = {0, 0};
    int32_t refs = HG_Ref_get(handle);

    HG_CHECK_RET(
        HG_Respond(handle, calls_responded, NULL, &out), HG_PROTONOSUPPORT);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), refs);
    HG_CHECK_OK(HG_Destroy(handle));
    return HG_ACCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    hg_class_t *c = hg_class;

    calls_inc_id = MERCURY_REGISTER(c, "inc", cb_one_t, cb_one_t, cb_inc);
    calls_text_id = MERCURY_REGISTER(c, "text", text_t, text_t, calls_text);
    calls_blob_id =
        HG_Register_name(c, "blob", blob_proc, blob_proc, calls_blob);
    calls_code_id = MERCURY_REGISTER(c, "code", two_t, void, calls_code);
    calls_keep_id = MERCURY_REGISTER(c, "keep", cb_one_t, cb_one_t, calls_keep);
    calls_release_id =
        MERCURY_REGISTER(c, "release", cb_one_t, cb_one_t, calls_release);
    calls_act_id = MERCURY_REGISTER(c, "act", two_t, cb_one_t, calls_act);
    calls_seen_id = MERCURY_REGISTER(c, "seen", void, cb_one_t, calls_seen);
    calls_one_id = MERCURY_REGISTER(c, "one", cb_one_t, void, calls_one);
    HG_CHECK_OK(HG_Registered_disable_response(c, calls_one_id, HG_TRUE));
    calls_one_blob_id =
        HG_Register_name(c, "one blob", blob_proc, NULL, calls_one_blob);
    HG_CHECK_OK(HG_Registered_disable_response(c, calls_one_blob_id, HG_TRUE));
    calls_nest_id = MERCURY_REGISTER(c, "nest", cb_one_t, cb_one_t, calls_nest);
    calls_void_id = MERCURY_REGISTER(c, "void", void, void, calls_void);
    calls_bad_in_id =
        HG_Register_name(c, "bad in", calls_proc_fail, NULL, calls_void);
    calls_bad_out_id =
        HG_Register_name(c, "bad out", NULL, calls_proc_fail, calls_bad_out);
    calls_bare_id = MERCURY_REGISTER(c, "bare", void, void, NULL);
    HG_CHECK(calls_bad_out_id != 0 && calls_bare_id != 0);
}

/* The value of calls_saw at the target. */
static int calls_ask_seen(const struct cb_end *end)
{
    cb_one_t out = {-1};

    HG_CHECK_OK(cb_call(end, calls_seen_id, NULL, &out));
    return out.value;
}

/* Wait until it is `want`: one-way calls may still be in flight. */
static void calls_await_seen(const struct cb_end *end, int want)
{
    unsigned tries = 0;

    while (calls_ask_seen(end) != want) {
        HG_CHECK(tries++ < CB_TIMEOUT);
        (void) cb_turn(end->context, 1);
    }
}

/* Let the target release its kept handles; returns how many there were. */
static int calls_release_kept(const struct cb_end *end, bool answer)
{
    cb_one_t in = {answer};
    cb_one_t out = {-1};

    HG_CHECK_OK(cb_call(end, calls_release_id, &in, &out));
    return out.value;
}

static hg_return_t calls_do_act(const struct cb_end *end, int act, int b)
{
    two_t in = {act, b};
    cb_one_t out = {0};
    hg_return_t ret = cb_call(end, calls_act_id, &in, &out);

    if (ret == HG_SUCCESS)
        HG_CHECK_EQ_INT(out.value, 42);
    return ret;
}

/* ---- Calls that succeed ---- */

HG_TEST(call_carries_input_and_output)
{
    struct cb_end end;
    hg_handle_t handle;
    text_t in = {"sixteen letters.", 7};
    text_t out;

    hg_test_allow_log("has no such proc");
    cb_open(&end);
    handle = cb_new_handle(&end, calls_text_id);
    HG_CHECK_EQ_U64(HG_Get_output_payload_size(handle), 0);
    HG_CHECK_OK(cb_do(&end, handle, &in, &out));
    HG_CHECK_EQ_STR(out.text, in.text);
    HG_CHECK_EQ_INT(out.n, 8);
    HG_CHECK(HG_Get_output_payload_size(handle) > 16);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 2);
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(cb_call(&end, calls_void_id, NULL, NULL));
    cb_close(&end);
}

HG_TEST(operation_has_exactly_one_callback)
{
    enum { COUNT = 200 };
    static struct cb_call calls[COUNT];
    struct cb_end end;
    cb_one_t one;
    int i;

    cb_open(&end);
    for (i = 0; i < COUNT; i++) {
        one.value = i;
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, calls_inc_id), &one));
        HG_CHECK_EQ_INT(calls[i].ends, 0); /* never inside HG_Forward */
    }
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_EQ_INT(calls[i].refs, 2);
        HG_CHECK_OK(HG_Get_output(calls[i].handle, &one));
        HG_CHECK_EQ_INT(one.value, i + 1);
        HG_CHECK_OK(HG_Free_output(calls[i].handle, &one));
    }
    for (i = 0; i < 5; i++)
        (void) cb_turn(end.context, 1);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_EQ_INT(calls[i].ends, 1);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    cb_close(&end);
}

HG_TEST(answer_has_exactly_one_callback)
{
    struct cb_end end;
    int i;

    cb_open(&end);
    for (i = 1; i <= 3; i++) {
        HG_CHECK_OK(calls_do_act(&end, CALLS_TELL, 0));
        calls_await_seen(&end, 10 * i);
    }
    cb_close(&end);
}

/* In a call to oneself the response's callback runs first, as in Mercury. */
HG_TEST_WHERE(respond_callback_runs_before_the_forward_callback_to_oneself,
    hg_test_is_self)
{
    struct cb_end end;
    struct cb_call call;
    two_t in = {CALLS_TELL, 0};

    cb_open(&end);
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, calls_act_id), &in));
    while (atomic_load(&calls_saw) == 0) {
        HG_CHECK_EQ_INT(call.ends, 0);
        (void) HG_Progress(end.context, 0);
        (void) cb_trigger(end.context, 0, 1);
    }
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_close(&end);
}

HG_TEST(input_may_be_decoded_twice)
{
    struct cb_end end;

    cb_open(&end);
    HG_CHECK_OK(calls_do_act(&end, CALLS_INPUT_TWICE, 9));
    cb_close(&end);
}

HG_TEST(buffers_of_a_call_follow_its_header)
{
    struct cb_end end;

    cb_open(&end);
    HG_CHECK_OK(calls_do_act(&end, CALLS_BUFFERS, 9));
    HG_CHECK_OK(calls_do_act(&end, CALLS_INFO, 9));
    cb_close(&end);
}

HG_TEST(nested_calls_are_issued_from_handlers)
{
    enum { COUNT = 20 };
    static struct cb_call calls[COUNT];
    struct cb_end end;
    cb_one_t one;
    int i;

    cb_open(&end);
    for (i = 0; i < COUNT; i++) {
        one.value = i;
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, calls_nest_id), &one));
    }
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_OK(HG_Get_output(calls[i].handle, &one));
        HG_CHECK_EQ_INT(one.value, 10 * (i + 1));
        HG_CHECK_OK(HG_Free_output(calls[i].handle, &one));
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    cb_close(&end);
}

/* ---- References, and reused handles ---- */

HG_TEST(ref_get_is_1_after_a_completed_forward)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;

    cb_open(&end);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_EQ_INT(call.refs, 2);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Ref_incr(handle));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 2);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_INT(HG_Ref_get(HG_HANDLE_NULL), -1);
    cb_close(&end);
}

HG_TEST(ref_get_is_1_after_a_failed_forward)
{
    struct cb_end end;
    struct cb_call call;
    two_t in = {HG_PERMISSION, 1};
    hg_handle_t handle;

    hg_test_expect_log("bad in");
    hg_test_expect_log("HG_Forward: the handle has no address");
    hg_test_expect_log("HG_Forward: the handle has no function");
    cb_open(&end);
    handle = cb_new_handle(&end, calls_bad_in_id);
    HG_CHECK_RET(cb_forward(&call, handle, &in), HG_PROTONOSUPPORT);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));

    HG_CHECK_OK(HG_Create(end.context, HG_ADDR_NULL, 0, &handle));
    HG_CHECK_RET(cb_forward(&call, handle, &in), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Reset(handle, end.target, 0));
    HG_CHECK_RET(cb_forward(&call, handle, &in), HG_FAULT);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Reset(handle, end.target, calls_code_id));
    HG_CHECK_RET(cb_do(&end, handle, &in, NULL), HG_PERMISSION);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_INT(call.ends, 0);
    cb_close(&end);
}

HG_TEST(forward_of_a_handle_in_flight_is_busy)
{
    struct cb_end end;
    struct cb_call call;
    struct cb_call other;
    cb_one_t one = {5};
    hg_handle_t handle;

    cb_open(&end);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    hg_test_expect_log("HG_Forward: the handle's call is not over");
    HG_CHECK_RET(cb_forward(&other, handle, &one), HG_BUSY);
    hg_test_expect_log("HG_Reset: the handle's call is not over");
    HG_CHECK_RET(HG_Reset(handle, HG_ADDR_NULL, 0), HG_BUSY);
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, 0));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

static void calls_count_free(void *data)
{
    (*(int *) data)++;
}

HG_TEST(handles_are_reused_by_reset)
{
    struct cb_end end;
    cb_one_t one = {1};
    text_t in = {"a", 1};
    text_t out;
    hg_handle_t handle;
    int freed = 0;
    int i;

    hg_test_expect_log("was not answered");
    cb_open(&end);
    HG_CHECK_OK(HG_Create(end.context, HG_ADDR_NULL, 0, &handle));
    HG_CHECK_OK(HG_Set_data(handle, &freed, calls_count_free));
    HG_CHECK_OK(HG_Set_target_id(handle, 3));
    HG_CHECK_OK(HG_Reset(handle, end.target, calls_inc_id));
    HG_CHECK_EQ_INT(HG_Get_info(handle)->context_id, 0);
    HG_CHECK(HG_Get_info(handle)->addr == end.target);
    HG_CHECK_EQ_U64(HG_Get_info(handle)->id, calls_inc_id);
    for (i = 0; i < 5; i++) {
        HG_CHECK_OK(cb_do(&end, handle, &one, &one));
        HG_CHECK_OK(HG_Free_output(handle, &one));
        HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, calls_text_id));
        HG_CHECK_RET(HG_Get_output(handle, &out), HG_FAULT);
        HG_CHECK_OK(cb_do(&end, handle, &in, &out));
        HG_CHECK_OK(HG_Free_output(handle, &out));
        HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, calls_inc_id));
    }
    HG_CHECK_EQ_INT(one.value, 6);
    HG_CHECK(HG_Get_data(handle) == &freed);
    HG_CHECK_EQ_INT(freed, 0);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_INT(freed, 1);
    cb_close(&end);
}

static int calls_own_freed; /* data of the handle at the target */

/* For calls of this process: the handle has no data yet. */
static hg_return_t calls_own(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_addr_t self;

    HG_CHECK_OK(HG_Addr_self(info->hg_class, &self));
    HG_CHECK(HG_Addr_cmp(info->hg_class, info->addr, self));
    HG_CHECK_OK(HG_Addr_free(info->hg_class, self));
    HG_CHECK(HG_Get_data(handle) == NULL);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 2); /* one is of its execution */
    HG_CHECK_OK(HG_Set_data(handle, &calls_own_freed, calls_count_free));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* Unlike in Mercury. */
HG_TEST(handles_of_a_call_to_oneself_are_two)
{
    struct cb_end end;
    hg_handle_t handle;
    hg_id_t id;
    int freed = 0;

    cb_start(&end, 1);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    id = MERCURY_REGISTER(end.hg_class, "own", void, void, calls_own);
    handle = cb_new_handle(&end, id);
    HG_CHECK_OK(HG_Set_data(handle, &freed, calls_count_free));
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    HG_CHECK(HG_Get_data(handle) == &freed);
    HG_CHECK_EQ_INT(calls_own_freed, 1);
    HG_CHECK_EQ_INT(freed, 0);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_EQ_INT(freed, 1);
    cb_close(&end);
}

/* A call that its own callback forwards again, so many times. */
struct calls_chain {
    _Atomic unsigned ended;
    int left;
    int32_t value;
};

static hg_return_t calls_go_on(const struct hg_cb_info *info)
{
    struct calls_chain *chain = (struct calls_chain *) info->arg;
    hg_handle_t handle = info->info.forward.handle;
    cb_one_t one;

    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Get_output(handle, &one));
    HG_CHECK_OK(HG_Free_output(handle, &one));
    chain->value = one.value;
    if (chain->left-- == 0) {
        atomic_store(&chain->ended, 1);
        return HG_SUCCESS;
    }
    if (chain->left % 2 == 0)
        HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, 0));
    return HG_Forward(handle, calls_go_on, chain, &one);
}

HG_TEST(forward_again_inside_the_callback)
{
    struct calls_chain chain = {0, 100, 0};
    struct cb_end end;
    hg_handle_t handle;
    cb_one_t one = {0};

    cb_open(&end);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(HG_Forward(handle, calls_go_on, &chain, &one));
    cb_turn_until(end.context, &chain.ended);
    HG_CHECK_EQ_INT(chain.value, 101);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(destroy_right_after_forward)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;

    cb_open(&end);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_EQ_INT(call.refs, 1);
    /* Also without a callback. */
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(HG_Forward(handle, NULL, NULL, &one));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

static hg_return_t calls_refuse_made(hg_handle_t handle, void *arg)
{
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK(HG_Get_info(handle) != NULL);
    return *(hg_return_t *) arg;
}

HG_TEST(handle_create_callback_sees_each_handle)
{
    hg_return_t code = HG_NOMEM;
    struct cb_end end;
    hg_handle_t handle = HG_HANDLE_NULL;

    cb_open(&end);
    HG_CHECK_OK(HG_Class_set_handle_create_callback(
        end.hg_class, calls_refuse_made, &code));
    HG_CHECK_RET(
        HG_Create(end.context, end.target, calls_inc_id, &handle), HG_NOMEM);
    HG_CHECK(handle == HG_HANDLE_NULL);
    HG_CHECK_OK(HG_Class_set_handle_create_callback(end.hg_class, NULL, NULL));
    cb_close(&end);
}

/* ---- Codes ---- */

HG_TEST(unregistered_id_is_noentry_at_the_origin)
{
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle = HG_HANDLE_NULL;
    cb_one_t one = {1};

    hg_test_expect_log("HG_Create: id 0000000000003039 is not registered");
    hg_test_expect_log("HG_Reset: id 0000000000003039 is not registered");
    hg_test_expect_log("HG_Forward: id ");
    cb_open(&end);
    HG_CHECK_RET(
        HG_Create(end.context, end.target, 12345, &handle), HG_NOENTRY);
    HG_CHECK(handle == HG_HANDLE_NULL);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_RET(HG_Reset(handle, HG_ADDR_NULL, 12345), HG_NOENTRY);
    HG_CHECK_OK(cb_do(&end, handle, &one, NULL)); /* it is unchanged */
    HG_CHECK_OK(HG_Deregister(end.hg_class, calls_inc_id));
    HG_CHECK_RET(cb_forward(&call, handle, &one), HG_NOENTRY);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST_WHERE(
    unregistered_id_is_noentry_at_the_target, hg_test_crosses_processes)
{
    struct cb_end end;

    hg_test_expect_log("is not served");
    cb_open(&end);
    calls_unserved_id =
        MERCURY_REGISTER(end.hg_class, "unserved", void, void, NULL);
    HG_CHECK_RET(cb_call(&end, calls_unserved_id, NULL, NULL), HG_NOENTRY);
    HG_CHECK_OK(cb_call(&end, calls_void_id, NULL, NULL));
    cb_close(&end);
}

HG_TEST(function_without_a_handler_is_invalid_arg_at_the_target)
{
    struct cb_end end;

    hg_test_expect_log("bare");
    cb_open(&end);
    HG_CHECK_RET(cb_call(&end, calls_bare_id, NULL, NULL), HG_INVALID_ARG);
    cb_close(&end);
}

HG_TEST(code_a_handler_returns_reaches_the_caller)
{
    static const hg_return_t codes[] = {HG_PERMISSION, HG_NOENTRY, HG_INTR,
        HG_AGAIN, HG_NOMEM, HG_BUSY, HG_INVALID_ARG, HG_CANCELED,
        HG_OTHER_ERROR};
    struct cb_end end;
    size_t i;

    hg_test_allow_log("which is not a valid result");
    cb_open(&end);
    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        hg_return_t want = codes[i] == HG_INTR ? HG_OTHER_ERROR : codes[i];
        two_t in = {(int32_t) codes[i], 0};

        HG_CHECK_RET(cb_call(&end, calls_code_id, &in, NULL), want);
        in.b = 1;
        HG_CHECK_RET(cb_call(&end, calls_code_id, &in, NULL), want);
    }
    HG_CHECK_EQ_INT(calls_release_kept(&end, false), (int) i);
    cb_close(&end);
}

HG_TEST(handle_destroyed_without_an_answer_is_canceled)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};

    cb_open(&end);
    HG_CHECK_RET(calls_do_act(&end, CALLS_DESTROY, 0), HG_CANCELED);
    /* The second HG_Destroy is also valid after the function has returned. */
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, calls_keep_id), &one));
    while (calls_release_kept(&end, false) == 0)
        (void) cb_turn(end.context, 1);
    HG_CHECK_RET(cb_wait(&end, &call), HG_CANCELED);
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_close(&end);
}

/* As in Mercury, where the handle has two references. test_cb_twice.c has those
 * that are destroyed later. */
HG_TEST(handle_without_an_answer_may_be_destroyed_twice_in_its_function)
{
    struct cb_end end;
    cb_one_t one = {1};
    int i;

    cb_open(&end);
    for (i = 0; i < 3; i++) {
        HG_CHECK_RET(calls_do_act(&end, CALLS_DESTROY_TWICE, 0), HG_CANCELED);
        HG_CHECK_OK(cb_call(&end, calls_inc_id, &one, &one));
    }
    HG_CHECK_EQ_INT(one.value, 4);
    cb_close(&end);
}

/* Handles are reused: an earlier call without a response has no effect. */
HG_TEST(handle_with_an_answer_is_not_destroyed_twice)
{
    struct cb_end end;
    int i;

    hg_test_allow_log("destroyed more often");
    hg_test_allow_log("the handle was destroyed");
    cb_open(&end);
    for (i = 0; i < 20; i++)
        HG_CHECK_RET(calls_do_act(&end, CALLS_DESTROY, 0), HG_CANCELED);
    for (i = 0; i < 40; i++)
        HG_CHECK_OK(calls_do_act(&end, CALLS_ANSWER_AND_DESTROY_TWICE, 0));
    cb_close(&end);
}

HG_TEST(second_answer_is_exist)
{
    struct cb_end end;

    hg_test_allow_log("a call of \"act\" was answered twice");
    cb_open(&end);
    HG_CHECK_OK(calls_do_act(&end, CALLS_ANSWER_TWICE, 0));
    cb_close(&end);
}

HG_TEST(response_that_cannot_be_encoded_is_not_sent)
{
    struct cb_end end;

    hg_test_allow_log("bad out");
    cb_open(&end);
    HG_CHECK_RET(cb_call(&end, calls_bad_out_id, NULL, NULL), HG_ACCESS);
    cb_close(&end);
}

HG_TEST(nulls_are_invalid_arg)
{
    struct cb_end end;
    hg_handle_t handle;
    cb_one_t one = {1};
    void *buf;

    hg_test_allow_log("");
    cb_open(&end);
    HG_CHECK_OK(calls_do_act(&end, CALLS_NULLS, 0));
    HG_CHECK_RET(
        HG_Create(NULL, end.target, calls_inc_id, &handle), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Create(end.context, end.target, calls_inc_id, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Destroy(HG_HANDLE_NULL));
    HG_CHECK_RET(HG_Reset(NULL, end.target, calls_inc_id), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Ref_incr(NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_data(NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_target_id(NULL, 0), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Forward(NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Respond(NULL, NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Cancel(NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_input(NULL, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Free_input(NULL, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output(NULL, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Free_output(NULL, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_input_buf(NULL, &buf, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output_buf(NULL, &buf, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_input_extra_buf(NULL, &buf, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output_extra_buf(NULL, &buf, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Release_input_buf(NULL), HG_INVALID_ARG);
    HG_CHECK(HG_Get_info(NULL) == NULL && HG_Get_data(NULL) == NULL);
    HG_CHECK_EQ_U64(HG_Get_input_payload_size(NULL), 0);
    HG_CHECK_EQ_U64(HG_Get_output_payload_size(NULL), 0);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(cb_do(&end, handle, &one, NULL));
    HG_CHECK_RET(HG_Get_output(handle, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Free_output(handle, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_input(handle, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Respond(handle, NULL, NULL, &one), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Cancel ---- */

HG_TEST(cancel_before_progress_ends_in_canceled)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    int i;

    cb_open(&end);
    for (i = 0; i < 10; i++) {
        HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, calls_inc_id), &one));
        HG_CHECK_OK(HG_Cancel(call.handle));
        HG_CHECK_OK(HG_Cancel(call.handle));
        HG_CHECK_EQ_INT(call.ends, 0);
        HG_CHECK_RET(cb_wait(&end, &call), HG_CANCELED);
        HG_CHECK_EQ_INT(call.refs, 2);
        HG_CHECK_EQ_INT(HG_Ref_get(call.handle), 1);
        HG_CHECK_OK(HG_Cancel(call.handle)); /* it has completed */
        HG_CHECK_OK(cb_do(&end, call.handle, &one, NULL));
        HG_CHECK_OK(HG_Destroy(call.handle));
    }
    cb_close(&end);
}

HG_TEST(cancel_of_one_way_before_progress)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};

    hg_test_allow_log("does not wait");
    cb_open(&end);
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, calls_one_id), &one));
    HG_CHECK_OK(HG_Cancel(call.handle));
    (void) cb_wait(&end, &call);
    if (end.peer == NULL)
        HG_CHECK_RET(call.ret, HG_CANCELED);
    else /* it may have been sent */
        HG_CHECK(call.ret == HG_CANCELED || call.ret == HG_SUCCESS);
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_close(&end);
}

HG_TEST(call_that_is_never_answered_is_canceled)
{
    struct cb_end end;
    struct cb_call calls[3];
    cb_one_t one = {1};
    int kept = 0;
    int i;

    cb_open(&end);
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, calls_keep_id), &one));
    for (i = 0; i < 20; i++)
        (void) cb_turn(end.context, 1);
    for (i = 0; i < 3; i++) {
        HG_CHECK_EQ_INT(calls[i].ends, 0);
        HG_CHECK_OK(HG_Cancel(calls[i].handle));
        HG_CHECK_RET(cb_wait(&end, &calls[i]), HG_CANCELED);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    /* Responses that arrive later are dropped. */
    while (kept < 3)
        kept += calls_release_kept(&end, true);
    HG_CHECK_OK(cb_call(&end, calls_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    cb_close(&end);
}

/* ---- One way ---- */

HG_TEST(one_way_calls_are_not_answered)
{
    struct cb_end end;
    cb_one_t one = {0};
    int sum = 0;

    hg_test_allow_log("does not wait");
    cb_open(&end);
    for (one.value = 1; one.value <= 20; one.value++) {
        HG_CHECK_OK(cb_call(&end, calls_one_id, &one, NULL));
        sum += one.value;
        if (end.peer == NULL) /* its function has returned */
            HG_CHECK_EQ_INT(calls_ask_seen(&end), sum);
    }
    calls_await_seen(&end, sum);
    cb_close(&end);
}

HG_TEST(handles_inherit_whether_calls_are_answered)
{
    struct cb_end end;
    hg_handle_t handle;
    uint8_t disabled = 7;
    cb_one_t one = {1};

    hg_test_expect_log("has no such proc");
    hg_test_expect_log("was not answered");
    hg_test_allow_log("does not wait");
    cb_open(&end);
    HG_CHECK_OK(
        HG_Registered_disabled_response(end.hg_class, calls_one_id, &disabled));
    HG_CHECK_EQ_INT(disabled, HG_TRUE);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK_OK(
        HG_Registered_disable_response(end.hg_class, calls_inc_id, HG_TRUE));
    HG_CHECK_OK(cb_do(&end, handle, &one, &one)); /* created before */
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(
        HG_Registered_disable_response(end.hg_class, calls_inc_id, HG_FALSE));
    HG_CHECK_OK(
        HG_Registered_disabled_response(end.hg_class, calls_inc_id, &disabled));
    HG_CHECK_EQ_INT(disabled, HG_FALSE);
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, calls_one_id));
    HG_CHECK_OK(cb_do(&end, handle, &one, NULL));
    HG_CHECK_RET(HG_Get_output(handle, &one), HG_FAULT);
    /* There is no output either, even if the function has one. */
    HG_CHECK(MERCURY_REGISTER(end.hg_class, "one", cb_one_t, cb_one_t,
                 calls_one) == calls_one_id);
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, calls_one_id));
    HG_CHECK_OK(cb_do(&end, handle, &one, NULL));
    HG_CHECK_RET(HG_Get_output(handle, &one), HG_FAULT);
    HG_CHECK_OK(HG_Destroy(handle));
    calls_await_seen(&end, 4);
    cb_close(&end);
}

static unsigned calls_encoded;

static hg_return_t calls_count_in(hg_proc_t proc, void *data)
{
    calls_encoded += hg_proc_get_op(proc) == HG_ENCODE;
    return hg_proc_cb_one_t(proc, data);
}

/* A call uses the registration at the time of HG_Forward, not of HG_Create. */
HG_TEST(handles_use_the_current_registration)
{
    struct cb_end end;
    hg_handle_t handle;
    cb_one_t one = {1};

    cb_open(&end);
    handle = cb_new_handle(&end, calls_inc_id);
    HG_CHECK(HG_Register_name(end.hg_class, "inc", calls_count_in,
                 hg_proc_cb_one_t, cb_inc) == calls_inc_id);
    HG_CHECK_OK(cb_do(&end, handle, &one, &one));
    HG_CHECK_EQ_INT(calls_encoded, 1);
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Overflow ---- */

/* A size that fits into no message, and a buffer for it. */
static struct blob calls_new_blob(const struct cb_end *end)
{
    hg_size_t eager = HG_Class_get_input_eager_size(end->hg_class);
    struct blob blob = {0, NULL};

    if (HG_Class_get_output_eager_size(end->hg_class) > eager)
        eager = HG_Class_get_output_eager_size(end->hg_class);
    blob.size = 3 * eager + 5;
    blob.bytes = (unsigned char *) malloc((size_t) blob.size);
    HG_CHECK(blob.bytes != NULL);
    memset(blob.bytes, 'x', (size_t) blob.size);
    return blob;
}

HG_TEST(overflow_both_ways)
{
    struct cb_end end;
    struct blob in;
    struct blob out;
    hg_handle_t handle;
    hg_size_t size = 0;
    void *buf = NULL;
    int i;

    cb_open(&end);
    in = calls_new_blob(&end);
    handle = cb_new_handle(&end, calls_blob_id);
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(cb_do(&end, handle, &in, &out));
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, (size_t) in.size);
        HG_CHECK_EQ_U64(HG_Get_output_payload_size(handle), in.size + 8);
        HG_CHECK_OK(HG_Get_output_extra_buf(handle, &buf, &size));
        if (end.peer == NULL) /* nothing is too large to oneself */
            HG_CHECK(buf == NULL && size == 0);
        else
            HG_CHECK(buf != NULL && size == in.size + 8);
        HG_CHECK_OK(HG_Free_output(handle, &out));
    }
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, 0));
    HG_CHECK_OK(HG_Get_output_extra_buf(handle, &buf, &size));
    HG_CHECK(buf == NULL && size == 0);
    HG_CHECK_OK(HG_Destroy(handle));
    free(in.bytes);
    cb_close(&end);
}

HG_TEST(overflow_one_way)
{
    struct cb_end end;
    struct blob in;
    int i;

    cb_open(&end);
    in = calls_new_blob(&end);
    for (i = 1; i <= 3; i++) {
        HG_CHECK_OK(cb_call(&end, calls_one_blob_id, &in, NULL));
        calls_await_seen(&end, i * (int) in.size);
    }
    free(in.bytes);
    cb_close(&end);
}
