/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles and calls: states, references, reuse, cancellation, errors. */
#include "sequences.h"

MERCURY_GEN_PROC(seq_t, ((uint32_t) (value))((hg_string_t) (text)))

static hg_return_t proc_fails(hg_proc_t proc, void *data)
{
    (void) proc;
    (void) data;
    return HG_NOMEM;
}

/* Orders for the handler, and its report. */
static struct {
    hg_handle_t kept; /* the call, if it is kept without a response */
    bool keep;
    int calls, responses;
    hg_return_t respond_ret, returns;
    uint32_t value;
} server;

static hg_return_t on_response(const struct hg_cb_info *info)
{
    server.responses++;
    server.respond_ret = info->ret;
    return HG_SUCCESS;
}

static hg_return_t respond(hg_handle_t handle, uint32_t value)
{
    char text[] = "response";
    seq_t out = {value, text};

    return HG_Respond(handle, on_response, NULL, &out);
}

static hg_return_t on_call(hg_handle_t handle)
{
    seq_t in;

    server.calls++;
    if (server.keep) {
        server.kept = handle;
        return HG_SUCCESS;
    }
    if (HG_Get_input(handle, &in) != HG_SUCCESS)
        return HG_OTHER_ERROR;
    server.value = in.value;
    (void) HG_Free_input(handle, &in);
    (void) respond(handle, server.value + 1);
    (void) HG_Destroy(handle);
    return server.returns;
}

static hg_return_t on_one_way(hg_handle_t handle)
{
    server.respond_ret = HG_Respond(handle, NULL, NULL, NULL);
    server.calls++;
    return HG_Destroy(handle);
}

static hg_return_t on_output_fails(hg_handle_t handle)
{
    uint32_t value = 0;

    server.calls++;
    say("a response that is not encoded",
        HG_Respond(handle, NULL, NULL, &value));
    return HG_Destroy(handle);
}

static struct {
    hg_id_t call, unknown, one_way, no_handler, bad_input, bad_decode;
} ids;

static void register_calls(struct pair *pair)
{
    hg_class_t *c = pair->client, *s = pair->server;

    ids.call = MERCURY_REGISTER(s, "call", seq_t, seq_t, on_call);
    (void) MERCURY_REGISTER(c, "call", seq_t, seq_t, NULL);
    ids.unknown = MERCURY_REGISTER(c, "unknown", seq_t, seq_t, NULL);
    ids.one_way = MERCURY_REGISTER(s, "one_way", void, void, on_one_way);
    (void) MERCURY_REGISTER(c, "one_way", void, void, NULL);
    (void) HG_Registered_disable_response(s, ids.one_way, HG_TRUE);
    (void) HG_Registered_disable_response(c, ids.one_way, HG_TRUE);
    ids.no_handler = MERCURY_REGISTER(s, "no_handler", seq_t, seq_t, NULL);
    (void) MERCURY_REGISTER(c, "no_handler", seq_t, seq_t, NULL);
    ids.bad_input =
        HG_Register_name(c, "bad_input", proc_fails, hg_proc_seq_t, NULL);
    ids.bad_decode =
        HG_Register_name(s, "bad_decode", proc_fails, hg_proc_seq_t, on_call);
    (void) MERCURY_REGISTER(c, "bad_decode", seq_t, seq_t, NULL);
}

/* Forwards, waits for the callback and prints its code. */
static void call(struct pair *pair, const char *step, hg_handle_t handle)
{
    char text[] = "request";
    seq_t in = {41, text};
    struct done done = {0};
    hg_return_t ret = HG_Forward(handle, on_done, &done, &in);

    if (ret != HG_SUCCESS) {
        printf("%s: not forwarded, %s\n", step, code(ret));
        return;
    }
    (void) pair_until(pair, &done.count);
    say_values(step, done.ret, "%d %d", (int) done.type,
        done.info.info.forward.handle == handle);
}

static void output(const char *step, hg_handle_t handle)
{
    seq_t out = {0};
    hg_return_t ret = HG_Get_output(handle, &out);

    if (ret == HG_SUCCESS) {
        say_values(step, ret, "%u %s", out.value, out.text);
        say("free", HG_Free_output(handle, &out));
    } else
        say(step, ret);
}

static void handles_made(struct pair *pair)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    const struct hg_info *info;
    int value;

    say("unknown function",
        HG_Create(pair->client_context, pair->addr, 12345, &handle));
    say_number("handle set", handle != HG_HANDLE_NULL);
    say("no context", HG_Create(NULL, pair->addr, ids.call, &handle));
    say("of nothing",
        HG_Create(pair->client_context, HG_ADDR_NULL, 0, &handle));
    say_number("references", HG_Ref_get(handle));
    info = HG_Get_info(handle);
    printf("info: %d %d %d %d %u\n", info->hg_class == pair->client,
        info->context == pair->client_context, info->addr == HG_ADDR_NULL,
        info->id == 0, info->context_id);
    say_number("no data", HG_Get_data(handle) == NULL);
    say("data", HG_Set_data(handle, &value, NULL));
    say_number("the data", HG_Get_data(handle) == &value);
    call(pair, "call nobody", handle);
    say("reset to an address", HG_Reset(handle, pair->addr, 0));
    say_number("data stays", HG_Get_data(handle) == &value);
    say_number("no id", HG_Get_info(handle)->id == 0);
    call(pair, "call nothing", handle);
    say("reset to unknown", HG_Reset(handle, pair->addr, 12345));
    say("reset", HG_Reset(handle, pair->addr, ids.call));
    info = HG_Get_info(handle);
    printf("info: %d %d\n", info->addr == pair->addr, info->id == ids.call);
    say("target id", HG_Set_target_id(handle, 3));
    say_number("its context", HG_Get_info(handle)->context_id);
    say("reset", HG_Reset(handle, pair->addr, ids.call));
    say_number("its context", HG_Get_info(handle)->context_id);
    call(pair, "call", handle);
    output("output", handle);
    say("destroy", HG_Destroy(handle));
}

static void handles_null(void)
{
    void *buf = NULL;
    hg_size_t size = 7;
    int value;

    say("destroy", HG_Destroy(HG_HANDLE_NULL));
    say("reset", HG_Reset(HG_HANDLE_NULL, HG_ADDR_NULL, 0));
    say("forward", HG_Forward(HG_HANDLE_NULL, NULL, NULL, NULL));
    say("respond", HG_Respond(HG_HANDLE_NULL, NULL, NULL, NULL));
    say("cancel", HG_Cancel(HG_HANDLE_NULL));
    say("input", HG_Get_input(HG_HANDLE_NULL, &value));
    say("output", HG_Get_output(HG_HANDLE_NULL, &value));
    say("free input", HG_Free_input(HG_HANDLE_NULL, &value));
    say("free output", HG_Free_output(HG_HANDLE_NULL, &value));
    say("input buffer", HG_Get_input_buf(HG_HANDLE_NULL, &buf, &size));
    say("output buffer", HG_Get_output_buf(HG_HANDLE_NULL, &buf, &size));
    say("release", HG_Release_input_buf(HG_HANDLE_NULL));
    say_number(
        "input size", (long long) HG_Get_input_payload_size(HG_HANDLE_NULL));
    say_number(
        "output size", (long long) HG_Get_output_payload_size(HG_HANDLE_NULL));
}

static int data_freed;

static void on_data(void *data)
{
    (void) data;
    data_freed++;
}

static void handles_referenced(struct pair *pair)
{
    hg_handle_t handle;
    hg_addr_t addr;
    int value;

    (void) HG_Addr_dup(pair->client, pair->addr, &addr);
    (void) HG_Create(pair->client_context, addr, ids.call, &handle);
    say("its address is freed", HG_Addr_free(pair->client, addr));
    say("data", HG_Set_data(handle, &value, on_data));
    say("data again", HG_Set_data(handle, handle, on_data));
    say_number("freed", data_freed);
    say("reference", HG_Ref_incr(handle));
    say_number("references", HG_Ref_get(handle));
    say("destroy", HG_Destroy(handle));
    say_number("references", HG_Ref_get(handle));
    call(pair, "call", handle);
    say_number("references", HG_Ref_get(handle));
    output("output", handle);
    output("output again", handle);
    say("no struct", HG_Get_output(handle, NULL));
    say("no struct", HG_Free_output(handle, NULL));
    say_number("freed", data_freed);
    say("destroy", HG_Destroy(handle));
    say_number("freed", data_freed);
}

/* The peer is no longer responding, says the program, which is wrong. */
static void handles_removed(struct pair *pair)
{
    char text[256];
    hg_size_t size = sizeof(text);
    hg_handle_t handle;

    (void) HG_Addr_to_string(pair->client, text, &size, pair->addr);
    say("set remove", HG_Addr_set_remove(pair->client, pair->addr));
    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    call(pair, "call after it", handle);
    say("destroy", HG_Destroy(handle));
    say("free", HG_Addr_free(pair->client, pair->addr));
    say("lookup", HG_Addr_lookup2(pair->client, text, &pair->addr));
    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    call(pair, "call", handle);
    say("destroy", HG_Destroy(handle));
}

void steps_of_handles(const char *info)
{
    struct pair pair;

    pair_open(&pair, info, NULL);
    register_calls(&pair);
    handles_null();
    handles_made(&pair);
    handles_referenced(&pair);
    handles_removed(&pair);
    pair_close(&pair);
}

/* ---- Calls ---- */

static void calls_in_flight(struct pair *pair)
{
    char text[] = "request";
    seq_t in = {1, text};
    struct done done = {0};
    hg_handle_t handle;

    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    server.keep = true;
    server.calls = 0;
    say("forward", HG_Forward(handle, on_done, &done, &in));
    say_number("references", HG_Ref_get(handle));
    say("forward in flight", HG_Forward(handle, on_done, &done, &in));
    say("reset in flight", HG_Reset(handle, pair->addr, ids.call));
    (void) pair_until(pair, &server.calls);
    say("forward in the server", HG_Forward(handle, on_done, &done, &in));
    say("reset in the server", HG_Reset(handle, pair->addr, ids.call));
    say("respond", respond(server.kept, 5));
    say("destroy", HG_Destroy(server.kept));
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    pair_settle(pair);
    say_values("response callback", server.respond_ret, "%d", server.responses);
    output("output", handle);
    server.keep = false;
    call(pair, "call again without reset", handle);
    output("output", handle);
    say("destroy", HG_Destroy(handle));
}

static void calls_destroyed(struct pair *pair)
{
    char text[] = "request";
    seq_t in = {1, text};
    struct done done = {0};
    hg_handle_t handle;

    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    say("destroy at once", HG_Destroy(handle));
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    server.calls = 0;
    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    say("forward without a callback", HG_Forward(handle, NULL, NULL, &in));
    say("destroy at once", HG_Destroy(handle));
    (void) pair_until(pair, &server.calls);
    pair_settle(pair);
}

static void calls_canceled(struct pair *pair)
{
    char text[] = "request";
    seq_t in = {1, text};
    struct done done = {0};
    hg_handle_t handle;

    (void) HG_Create(pair->client_context, pair->addr, ids.call, &handle);
    say("cancel before", HG_Cancel(handle));
    call(pair, "call", handle);
    say("cancel after", HG_Cancel(handle));
    output("output", handle);
    server.keep = true;
    server.calls = 0;
    say("forward", HG_Forward(handle, on_done, &done, &in));
    (void) pair_until(pair, &server.calls);
    say("cancel", HG_Cancel(handle));
    say("cancel again", HG_Cancel(handle));
    (void) pair_until(pair, &done.count);
    say_values("callback", done.ret, "%d", done.count);
    server.keep = false;
    say("late response", respond(server.kept, 6));
    say("destroy", HG_Destroy(server.kept));
    pair_settle(pair);
    say_number("callbacks", done.count);
    call(pair, "call again", handle);
    output("output", handle);
    say("reset", HG_Reset(handle, pair->addr, ids.call));
    call(pair, "and after a reset", handle);
    say("destroy", HG_Destroy(handle));
}

static void calls_fail(struct pair *pair)
{
    hg_handle_t handle;

    (void) HG_Create(pair->client_context, pair->addr, ids.unknown, &handle);
    call(pair, "unknown to the server", handle);
    say("reset", HG_Reset(handle, pair->addr, ids.call));
    call(pair, "known", handle);
    output("output", handle);
    say("reset", HG_Reset(handle, pair->addr, ids.no_handler));
    call(pair, "without a handler", handle);
    say("reset", HG_Reset(handle, pair->addr, ids.bad_input));
    call(pair, "input not encoded", handle);
    say("reset", HG_Reset(handle, pair->addr, ids.call));
    call(pair, "call", handle);
    server.returns = HG_PROTOCOL_ERROR;
    call(pair, "the handler fails after its response", handle);
    server.returns = HG_SUCCESS;
    output("output", handle);
    say("destroy", HG_Destroy(handle));
}

static void calls_one_way(struct pair *pair)
{
    struct done done = {0};
    hg_handle_t handle;

    server.calls = 0;
    (void) HG_Create(pair->client_context, pair->addr, ids.one_way, &handle);
    say("forward", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(pair, &done.count);
    say_values("callback", done.ret, "%d", (int) done.type);
    (void) pair_until(pair, &server.calls);
    done.count = 0;
    say("again", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(pair, &done.count);
    say("cancel", HG_Cancel(handle));
    say("destroy", HG_Destroy(handle));
    pair_settle(pair);
    say_number("calls", server.calls);
    say("a response", server.respond_ret);
}

static void calls_not_encoded(struct pair *pair)
{
    hg_handle_t handle;
    hg_id_t id = HG_Register_name(
        pair->server, "bad_output", hg_proc_seq_t, proc_fails, on_output_fails);

    (void) MERCURY_REGISTER(pair->client, "bad_output", seq_t, void, NULL);
    (void) HG_Create(pair->client_context, pair->addr, id, &handle);
    say("destroy", HG_Destroy(handle));
}

void steps_of_calls(const char *info)
{
    struct pair pair;

    pair_open(&pair, info, NULL);
    register_calls(&pair);
    calls_in_flight(&pair);
    calls_destroyed(&pair);
    calls_canceled(&pair);
    calls_fail(&pair);
    calls_one_way(&pair);
    calls_not_encoded(&pair);
    pair_close(&pair);
}
