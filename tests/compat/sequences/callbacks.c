/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles in callbacks and handlers; classes that are made in another way. */
#include "sequences.h"

#include <na.h>

MERCURY_GEN_PROC(seq_t, ((uint32_t) (value)))

static struct pair pair;
static hg_id_t add, back;
static int ended;

static hg_return_t on_responded(const struct hg_cb_info *info)
{
    return HG_Destroy(info->info.respond.handle);
}

/* The response callback frees the handle. */
static hg_return_t on_add(hg_handle_t handle)
{
    seq_t in;

    (void) HG_Get_input(handle, &in);
    (void) HG_Free_input(handle, &in);
    in.value++;
    return HG_Respond(handle, on_responded, NULL, &in);
}

static hg_return_t on_called_back(const struct hg_cb_info *info)
{
    hg_handle_t call = info->arg, handle = info->info.forward.handle;
    seq_t out = {0};

    say("called back", info->ret);
    (void) HG_Get_output(handle, &out);
    (void) HG_Free_output(handle, &out);
    say("destroy in its callback", HG_Destroy(handle));
    out.value += 100;
    return HG_Respond(call, on_responded, NULL, &out);
}

/* The server calls the client, which listens, before it responds. */
static hg_return_t on_back(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_handle_t other = HG_HANDLE_NULL;
    seq_t in = {1};

    say("a call to the caller",
        HG_Create(info->context, info->addr, add, &other));
    say("forward", HG_Forward(other, on_called_back, handle, &in));
    return HG_SUCCESS;
}

/* Forwards the same handle three times, the second time to another function,
 * and frees it in its last callback. */
static hg_return_t on_ended(const struct hg_cb_info *info)
{
    hg_handle_t handle = info->info.forward.handle;
    int *count = info->arg;
    seq_t out = {0};

    say_number("references", HG_Ref_get(handle));
    say("output", HG_Get_output(handle, &out));
    (void) HG_Free_output(handle, &out);
    say_values("callback", info->ret, "%u", out.value);
    if (++*count == 1) {
        say("reset", HG_Reset(handle, pair.addr, back));
        say("cancel", HG_Cancel(handle));
        say("forward", HG_Forward(handle, on_ended, count, &out));
    } else if (*count == 2) {
        say("reset", HG_Reset(handle, pair.addr, add));
        say("forward", HG_Forward(handle, on_ended, count, &out));
    } else {
        say("destroy", HG_Destroy(handle));
        ended = 1;
    }
    return HG_SUCCESS;
}

static hg_return_t on_error(const struct hg_cb_info *info)
{
    ended++;
    return info->ret == HG_SUCCESS ? HG_NOMEM : HG_SUCCESS;
}

static void forwarded_in_callbacks(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    seq_t in = {1};
    int count = 0;

    (void) HG_Create(pair.client_context, pair.addr, add, &handle);
    say("forward", HG_Forward(handle, on_ended, &count, &in));
    (void) pair_until(&pair, &ended);
    ended = 0;
    (void) HG_Create(pair.client_context, pair.addr, add, &handle);
    say("a callback that fails", HG_Forward(handle, on_error, NULL, &in));
    (void) pair_until(&pair, &ended);
    say("destroy", HG_Destroy(handle));
}

static void canceled_and_destroyed(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    struct done done = {0};
    seq_t in = {1};

    (void) HG_Create(pair.client_context, pair.addr, add, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    say("cancel at once", HG_Cancel(handle));
    say("destroy", HG_Destroy(handle));
    (void) pair_until(&pair, &done.count);
    say_number("ends", done.ret == HG_CANCELED || done.ret == HG_SUCCESS);
    pair_settle(&pair);
    say_number("callbacks", done.count);
}

static void registered_while_used(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    struct done done = {0};
    seq_t in = {1}, out = {0};

    (void) HG_Create(pair.client_context, pair.addr, add, &handle);
    add = MERCURY_REGISTER(pair.server, "add", seq_t, seq_t, on_back);
    add = MERCURY_REGISTER(pair.server, "add", seq_t, seq_t, on_add);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    (void) pair_until(&pair, &done.count);
    say_values("output", HG_Get_output(handle, &out), "%u", out.value);
    (void) HG_Free_output(handle, &out);
    say("destroy", HG_Destroy(handle));
}

/* ---- The proc of a call knows its handle and its class ---- */

static struct {
    hg_handle_t handle;
    hg_class_t *hg_class;
    int ops[3], known;
} seen;

static hg_return_t proc_seen(hg_proc_t proc, void *data)
{
    seen.ops[hg_proc_get_op(proc)]++;
    seen.handle = hg_proc_get_handle(proc);
    seen.hg_class = hg_proc_get_class(proc);
    seen.known += seen.handle != HG_HANDLE_NULL &&
        HG_Get_info(seen.handle)->hg_class == seen.hg_class;
    return hg_proc_uint32_t(proc, data);
}

static void seen_say(const char *step, hg_handle_t handle, hg_class_t *hg_class)
{
    printf("%s: %d %d, known %d, encoded %d, decoded %d, freed %d\n", step,
        seen.handle == handle, seen.hg_class == hg_class, seen.known,
        seen.ops[HG_ENCODE], seen.ops[HG_DECODE], seen.ops[HG_FREE]);
}

static hg_return_t on_seen(hg_handle_t handle)
{
    uint32_t value = 0;

    (void) HG_Get_input(handle, &value);
    seen_say("input", handle, pair.server);
    (void) HG_Free_input(handle, &value);
    seen_say("freed", handle, pair.server);
    (void) HG_Respond(handle, NULL, NULL, &value);
    seen_say("output", handle, pair.server);
    return HG_Destroy(handle);
}

static void procs_in_calls(void)
{
    hg_id_t id =
        HG_Register_name(pair.server, "seen", proc_seen, proc_seen, on_seen);
    hg_handle_t handle = HG_HANDLE_NULL;
    struct done done = {0};
    uint32_t value = 5;

    id = HG_Register_name(pair.client, "seen", proc_seen, proc_seen, NULL);
    (void) HG_Create(pair.client_context, pair.addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &value));
    seen_say("input", handle, pair.client);
    (void) pair_until(&pair, &done.count);
    say_values("output", HG_Get_output(handle, &value), "%u", value);
    seen_say("output", handle, pair.client);
    (void) HG_Free_output(handle, &value);
    seen_say("freed", handle, pair.client);
    say("destroy", HG_Destroy(handle));
}

/* ---- Who called ---- */

static hg_return_t on_name(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    char text[256], other[256];
    hg_size_t size = sizeof(text), other_size = sizeof(other);
    hg_addr_t addr = HG_ADDR_NULL;

    say("name of the caller",
        HG_Addr_to_string(info->hg_class, text, &size, info->addr));
    (void) HG_Addr_self(pair.client, &addr);
    (void) HG_Addr_to_string(pair.client, other, &other_size, addr);
    say_number("its own", strcmp(text, other) == 0);
    say("free", HG_Addr_free(pair.client, addr));
    say("lookup of the caller", HG_Addr_lookup2(info->hg_class, text, &addr));
    say_number("equal", HG_Addr_cmp(info->hg_class, addr, info->addr));
    say("free", HG_Addr_free(info->hg_class, addr));
    (void) HG_Respond(handle, NULL, NULL, NULL);
    return HG_Destroy(handle);
}

static void names_of_callers(void)
{
    hg_id_t id = MERCURY_REGISTER(pair.server, "name", void, void, on_name);
    hg_handle_t handle = HG_HANDLE_NULL;
    struct done done = {0};

    id = MERCURY_REGISTER(pair.client, "name", void, void, NULL);
    (void) HG_Create(pair.client_context, pair.addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(&pair, &done.count);
    say("destroy", HG_Destroy(handle));
}

/* A class that does not listen has an address, too. */
static void class_of_a_client(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_FALSE);
    hg_addr_t self = HG_ADDR_NULL, same = HG_ADDR_NULL;
    char text[256];
    hg_size_t size = sizeof(text);

    say("self of a client", HG_Addr_self(hg_class, &self));
    say("its text", HG_Addr_to_string(hg_class, text, &size, self));
    (void) HG_Addr_self(hg_class, &same);
    say_number("equal", HG_Addr_cmp(hg_class, self, same));
    say("free", HG_Addr_free(hg_class, self));
    say("free", HG_Addr_free(hg_class, same));
    say("class", HG_Finalize(hg_class));
}

/* A class over a network class that the program has made. */
static void class_of_a_network_class(const char *info)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    na_class_t *na_class = NA_Initialize(info, true);
    hg_class_t *hg_class;
    hg_context_t *context;

    options.na_class = na_class;
    hg_class = HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(2, 4), &options);
    say_number("a class over a network class", hg_class != NULL);
    if (hg_class == NULL)
        return;
    say_number("listens", HG_Class_is_listening(hg_class));
    context = HG_Context_create(hg_class);
    say("context", HG_Context_destroy(context));
    say("class", HG_Finalize(hg_class));
    say("network class", (hg_return_t) NA_Finalize(na_class));
}

void steps_of_callbacks(const char *info)
{
    pair_open(&pair, info, NULL);
    add = MERCURY_REGISTER(pair.server, "add", seq_t, seq_t, on_add);
    add = MERCURY_REGISTER(pair.client, "add", seq_t, seq_t, on_add);
    back = MERCURY_REGISTER(pair.server, "back", seq_t, seq_t, on_back);
    back = MERCURY_REGISTER(pair.client, "back", seq_t, seq_t, NULL);
    forwarded_in_callbacks();
    canceled_and_destroyed();
    registered_while_used();
    procs_in_calls();
    names_of_callers();
    pair_close(&pair);
    class_of_a_client(info);
    class_of_a_network_class(info);
}
