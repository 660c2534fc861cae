/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs, outputs and buffers as a handler and a client read them, and calls
 * to oneself. */
#include "sequences.h"

MERCURY_GEN_PROC(seq_t, ((uint32_t) (value))((hg_string_t) (text)))

static int calls;
static size_t offset; /* bytes before the input and output, for other layers */
static hg_return_t (*on_seq)(hg_handle_t handle); /* what the handler does */

static hg_return_t on_call(hg_handle_t handle)
{
    calls++;
    return on_seq(handle);
}

static void respond(hg_handle_t handle, const char *text)
{
    seq_t out = {43, NULL};

    out.text = malloc(strlen(text) + 1);
    memcpy(out.text, text, strlen(text) + 1);
    say("respond", HG_Respond(handle, NULL, NULL, &out));
    free(out.text);
}

static void input(const char *step, hg_handle_t handle, seq_t *in)
{
    hg_return_t ret;

    memset(in, 0, sizeof(*in));
    ret = HG_Get_input(handle, in);
    if (ret != HG_SUCCESS)
        say(step, ret);
    else
        say_values(step, ret, "%u %s", in->value,
            in->text == NULL            ? "(none)"
                : strlen(in->text) > 60 ? "(long)"
                                        : in->text);
}

static void output(hg_handle_t handle)
{
    seq_t out = {0};
    hg_return_t ret = HG_Get_output(handle, &out);

    if (ret != HG_SUCCESS) {
        say("output", ret);
        return;
    }
    say_values("output", ret, "%u %s", out.value,
        out.text == NULL            ? "(none)"
            : strlen(out.text) > 60 ? "(long)"
                                    : out.text);
    say("free output", HG_Free_output(handle, &out));
}

static hg_handle_t call_with(
    struct pair *pair, hg_context_t *context, hg_addr_t addr, const char *text)
{
    struct done done = {0};
    hg_handle_t handle = HG_HANDLE_NULL;
    seq_t in = {41, NULL};
    uint8_t flag;
    hg_id_t id;

    (void) HG_Registered_name(pair->server, "seq", &id, &flag);
    (void) HG_Create(context, addr, id, &handle);
    in.text = malloc(strlen(text) + 1);
    memcpy(in.text, text, strlen(text) + 1);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    free(in.text);
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    return handle;
}

static hg_handle_t call(struct pair *pair, const char *text)
{
    return call_with(pair, pair->client_context, pair->addr, text);
}

static void open_with(
    struct pair *pair, const char *info, const struct hg_init_info *options)
{
    pair_open(pair, info, options);
    (void) MERCURY_REGISTER(pair->server, "seq", seq_t, seq_t, on_call);
    (void) MERCURY_REGISTER(pair->client, "seq", seq_t, seq_t, on_call);
}

/* ---- When a handler reads its input ---- */

static hg_return_t input_twice(hg_handle_t handle)
{
    seq_t a, b;

    input("input", handle, &a);
    input("input again", handle, &b);
    say("free input", HG_Free_input(handle, &a));
    say("free input", HG_Free_input(handle, &b));
    say("no struct", HG_Get_input(handle, NULL));
    say("no struct", HG_Free_input(handle, NULL));
    respond(handle, "twice");
    return HG_Destroy(handle);
}

static hg_return_t input_kept(hg_handle_t handle)
{
    seq_t in;

    input("input", handle, &in);
    respond(handle, in.text);
    say("destroy", HG_Destroy(handle));
    say("free input after destroy", HG_Free_input(handle, &in));
    return HG_SUCCESS;
}

static hg_return_t input_late(hg_handle_t handle)
{
    seq_t in;

    respond(handle, "early");
    input("input after the response", handle, &in);
    say("free input", HG_Free_input(handle, &in));
    return HG_Destroy(handle);
}

static hg_return_t input_referenced(hg_handle_t handle)
{
    seq_t in;

    say("reference", HG_Ref_incr(handle));
    respond(handle, "referenced");
    say("destroy", HG_Destroy(handle));
    input("input after destroy", handle, &in);
    say("free input", HG_Free_input(handle, &in));
    return HG_Destroy(handle);
}

static hg_return_t output_none(hg_handle_t handle)
{
    say("respond nothing", HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_return_t info_of_call(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    char text[256];
    hg_size_t size = sizeof(text);
    hg_addr_t dup = HG_ADDR_NULL;

    say_number("has an address", info->addr != HG_ADDR_NULL);
    say("its text", HG_Addr_to_string(info->hg_class, text, &size, info->addr));
    say("dup", HG_Addr_dup(info->hg_class, info->addr, &dup));
    say_number("equal", HG_Addr_cmp(info->hg_class, info->addr, dup));
    say("data", HG_Set_data(handle, &calls, NULL));
    say_number("the data", HG_Get_data(handle) == &calls);
    say("target id of a call that arrived", HG_Set_target_id(handle, 0));
    respond(handle, "info");
    say("destroy", HG_Destroy(handle));
    return HG_Addr_free(info->hg_class, dup);
}

static void call_and_end(
    struct pair *pair, hg_return_t (*handler)(hg_handle_t), const char *text)
{
    hg_handle_t handle;

    on_seq = handler;
    handle = call(pair, text);
    output(handle);
    say("destroy", HG_Destroy(handle));
}

static void call_without_input(struct pair *pair)
{
    struct done done = {0};
    hg_handle_t handle = HG_HANDLE_NULL;
    uint8_t flag;
    hg_id_t id;

    on_seq = output_none;
    (void) HG_Registered_name(pair->server, "seq", &id, &flag);
    (void) HG_Create(pair->client_context, pair->addr, id, &handle);
    say("forward nothing", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    say_number("output size", (long long) HG_Get_output_payload_size(handle));
    say("destroy", HG_Destroy(handle));
}

void steps_of_inputs(const char *info)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    struct pair pair;

    open_with(&pair, info, NULL);
    call_and_end(&pair, input_twice, "twice");
    call_and_end(&pair, input_kept, "kept");
    call_and_end(&pair, input_late, "late");
    call_and_end(&pair, input_referenced, "referenced");
    call_and_end(&pair, info_of_call, "info");
    call_without_input(&pair);
    pair_close(&pair);
    options.release_input_early = true;
    options.checksum_level = HG_CHECKSUM_RPC_PAYLOAD;
    open_with(&pair, info, &options);
    call_and_end(&pair, input_kept, "released early");
    pair_close(&pair);
}

/* ---- Buffers ---- */

static char large[200000]; /* more than a message carries */

static void buffers(const char *step, hg_handle_t handle, bool in)
{
    void *buf = NULL, *extra = &buf;
    hg_size_t size = 0, extra_size = 7;
    hg_return_t ret = in ? HG_Get_input_buf(handle, &buf, &size)
                         : HG_Get_output_buf(handle, &buf, &size);
    hg_return_t extra_ret = in
        ? HG_Get_input_extra_buf(handle, &extra, &extra_size)
        : HG_Get_output_extra_buf(handle, &extra, &extra_size);
    hg_size_t payload = in ? HG_Get_input_payload_size(handle)
                           : HG_Get_output_payload_size(handle);
    uint32_t value = 0;

    if (extra == NULL && buf != NULL)
        memcpy(&value, (char *) buf + offset, sizeof(value));
    else if (extra != NULL)
        memcpy(&value, extra, sizeof(value));
    printf("%s: %s, before %.*s, value %u\n", step, code(ret), (int) offset,
        buf != NULL ? (char *) buf : "", value);
    printf("payload: %" PRIu64 ", in the buffer %d\n", payload,
        extra != NULL || payload <= size);
    say_values("extra", extra_ret, "%d %" PRIu64, extra != NULL, extra_size);
    if (in)
        say("size is not asked for", HG_Get_input_buf(handle, &buf, NULL));
    say("no place",
        in ? HG_Get_input_buf(handle, NULL, &size)
           : HG_Get_output_buf(handle, NULL, &size));
}

static hg_return_t buffers_read(hg_handle_t handle)
{
    void *buf;
    hg_size_t size;
    seq_t in;

    buffers("input", handle, true);
    input("input", handle, &in);
    say("output buffer", HG_Get_output_buf(handle, &buf, &size));
    if (offset > 0)
        memcpy(buf, "BACK", 4);
    respond(handle, in.text);
    say("free input", HG_Free_input(handle, &in));
    say("release", HG_Release_input_buf(handle));
    say("release again", HG_Release_input_buf(handle));
    return HG_Destroy(handle);
}

static void buffers_sent(struct pair *pair, const char *text)
{
    struct done done = {0};
    hg_handle_t handle = HG_HANDLE_NULL;
    seq_t in = {41, NULL};
    uint8_t flag;
    hg_size_t size = 0;
    hg_id_t id;
    void *buf = NULL;

    on_seq = buffers_read;
    (void) HG_Registered_name(pair->server, "seq", &id, &flag);
    (void) HG_Create(pair->client_context, pair->addr, id, &handle);
    say("own input buffer", HG_Get_input_buf(handle, &buf, &size));
    say_number("its size", size >= 1024);
    if (offset > 0)
        memcpy(buf, "HEAD", 4);
    say("output buffer, no response", HG_Get_output_buf(handle, &buf, &size));
    in.text = malloc(strlen(text) + 1);
    memcpy(in.text, text, strlen(text) + 1);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    free(in.text);
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    buffers("output", handle, false);
    output(handle);
    say("release at the origin", HG_Release_input_buf(handle));
    say("destroy", HG_Destroy(handle));
}

/* A layer of its own: no procs, all bytes are before the input. */
static hg_return_t raw_read(hg_handle_t handle)
{
    void *buf = NULL;
    hg_size_t size = 0;

    say_values("raw input", HG_Get_input_buf(handle, &buf, &size), "%.4s %d",
        (char *) buf, size >= 4);
    say_number("payload", (long long) HG_Get_input_payload_size(handle));
    (void) HG_Get_output_buf(handle, &buf, &size);
    memcpy(buf, "BACK", 4);
    say("respond", HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void raw_sent(struct pair *pair)
{
    struct done done = {0};
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_size_t size = 0;
    hg_id_t id;
    void *buf = NULL;

    id = HG_Register_name(pair->server, "raw", NULL, NULL, raw_read);
    (void) MERCURY_REGISTER(pair->client, "raw", void, void, NULL);
    (void) HG_Create(pair->client_context, pair->addr, id, &handle);
    (void) HG_Get_input_buf(handle, &buf, &size);
    memcpy(buf, "HEAD", 4);
    say("forward", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(pair, &done.count);
    say("callback", done.ret);
    say_values("raw output", HG_Get_output_buf(handle, &buf, &size), "%.4s %d",
        (char *) buf, size >= 4);
    say_number("payload", (long long) HG_Get_output_payload_size(handle));
    say("output without a proc", HG_Get_output(handle, &size));
    say("destroy", HG_Destroy(handle));
}

void steps_of_buffers(const char *info)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    struct pair pair;

    memset(large, 'a', sizeof(large) - 1);
    open_with(&pair, info, NULL);
    buffers_sent(&pair, "small");
    buffers_sent(&pair, large);
    offset = 4;
    say("offset", HG_Class_set_input_offset(pair.client, offset));
    (void) HG_Class_set_input_offset(pair.server, offset);
    say("offset", HG_Class_set_output_offset(pair.client, offset));
    (void) HG_Class_set_output_offset(pair.server, offset);
    buffers_sent(&pair, "small");
    buffers_sent(&pair, large);
    raw_sent(&pair);
    pair_close(&pair);
    offset = 0;
    options.no_overflow = true;
    open_with(&pair, info, &options);
    on_seq = buffers_read;
    {
        seq_t in = {41, large};
        hg_handle_t handle;
        uint8_t flag;
        hg_id_t id;

        (void) HG_Registered_name(pair.server, "seq", &id, &flag);
        (void) HG_Create(pair.client_context, pair.addr, id, &handle);
        say("no overflow", HG_Forward(handle, NULL, NULL, &in));
        say("destroy", HG_Destroy(handle));
    }
    call_and_end(&pair, input_twice, "no overflow");
    pair_close(&pair);
}

/* ---- Calls to oneself ---- */

void steps_of_self_calls(const char *info)
{
    struct pair pair;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_addr_t self;

    memset(large, 'a', sizeof(large) - 1);
    open_with(&pair, info, NULL);
    (void) HG_Addr_self(pair.server, &self);
    on_seq = input_twice;
    handle = call_with(&pair, pair.server_context, self, "self");
    output(handle);
    say("destroy", HG_Destroy(handle));
    on_seq = input_kept;
    handle = call_with(&pair, pair.server_context, self, large);
    output(handle);
    say_number("references", HG_Ref_get(handle));
    say("destroy", HG_Destroy(handle));
    say("unknown", HG_Create(pair.server_context, self, 12345, &handle));
    on_seq = output_none;
    (void) MERCURY_REGISTER(pair.server, "one_way", void, void, on_call);
    say("free", HG_Addr_free(pair.server, self));
    pair_close(&pair);
}
