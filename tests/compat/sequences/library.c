/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions without an object: versions, protocols, counters. */
#include "sequences.h"

static void versions(void)
{
    unsigned int major = 0, minor = 0, patch = 0;

    say_values("version", HG_Version_get(&major, &minor, &patch), "%u.%u %d",
        major, minor,
        major == HG_VERSION_MAJOR && minor == HG_VERSION_MINOR &&
            patch == HG_VERSION_PATCH);
    major = 0;
    say_values("one number", HG_Version_get(&major, NULL, NULL), "%u", major);
    say("no number", HG_Version_get(NULL, NULL, NULL));
}

static void protocols(const char *step, const char *string)
{
    struct na_protocol_info *list = NULL, *entry;
    bool whole = true;
    hg_return_t ret = HG_Get_na_protocol_info(string, &list);

    for (entry = list; entry != NULL; entry = entry->next)
        whole = whole && entry->class_name != NULL &&
            entry->protocol_name != NULL && entry->device_name != NULL;
    say_with(step, ret, "%d %d", list != NULL, whole);
    HG_Free_na_protocol_info(list);
}

static hg_return_t on_call(hg_handle_t handle)
{
    uint32_t value = 0;

    (void) HG_Get_input(handle, &value);
    (void) HG_Free_input(handle, &value);
    (void) HG_Respond(handle, NULL, NULL, &value);
    return HG_Destroy(handle);
}

/* A proc of a call that changes the handle of its proc object. */
static hg_return_t proc_without_handle(hg_proc_t proc, void *data)
{
    static int said;
    hg_handle_t handle = hg_proc_get_handle(proc);

    hg_proc_set_handle(proc, HG_HANDLE_NULL);
    if (said++ == 0)
        say_number("proc of a call without its handle",
            handle != HG_HANDLE_NULL &&
                hg_proc_get_handle(proc) == HG_HANDLE_NULL);
    hg_proc_set_handle(proc, handle);
    return hg_proc_uint32_t(proc, data);
}

static void counters(const char *step, hg_class_t *hg_class)
{
    struct hg_diag_counters n = {0};
    hg_return_t ret = HG_Class_get_counters(hg_class, &n);

    say_with(step, ret,
        "requests %d %d, responses %d %d, extra %d %d, active %d, bulk %d",
        (int) n.rpc_req_sent_count, (int) n.rpc_req_recv_count,
        (int) n.rpc_resp_sent_count, (int) n.rpc_resp_recv_count,
        (int) n.rpc_req_extra_count, (int) n.rpc_resp_extra_count,
        (int) n.rpc_req_recv_active_count, (int) n.bulk_count);
}

static hg_return_t on_large_call(hg_handle_t handle)
{
    hg_string_t text = NULL;

    (void) HG_Get_input(handle, &text);
    (void) HG_Respond(handle, NULL, NULL, &text);
    (void) HG_Free_input(handle, &text);
    return HG_Destroy(handle);
}

/* Neither the input nor the output fits in a message. */
static void counted_large(struct pair *pair)
{
    static char large[100000];
    hg_string_t text = large;
    struct done done = {0};
    hg_handle_t handle;
    hg_id_t id;

    memset(large, 'l', sizeof(large) - 1);
    (void) HG_Register_name(pair->server, "large", hg_proc_hg_string_t,
        hg_proc_hg_string_t, on_large_call);
    id = HG_Register_name(
        pair->client, "large", hg_proc_hg_string_t, hg_proc_hg_string_t, NULL);
    (void) HG_Create(pair->client_context, pair->addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &text));
    (void) pair_until(pair, &done.count);
    pair_settle(pair);
    counters("counters of the client", pair->client);
    counters("counters of the server", pair->server);
    say("destroy", HG_Destroy(handle));
}

static void counted(const char *info)
{
    uint32_t value = 1;
    struct done done = {0};
    struct pair pair;
    hg_handle_t handle;
    hg_id_t id;

    pair_open(&pair, info, NULL);
    (void) HG_Register_name(
        pair.server, "count", hg_proc_uint32_t, hg_proc_uint32_t, on_call);
    id = HG_Register_name(
        pair.client, "count", proc_without_handle, hg_proc_uint32_t, NULL);
    counters("counters at first", pair.client);
    (void) HG_Create(pair.client_context, pair.addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &value));
    (void) pair_until(&pair, &done.count);
    pair_settle(&pair);
    counters("counters of the client", pair.client);
    counters("counters of the server", pair.server);
    say("counters of no class", HG_Class_get_counters(NULL, NULL));
    say("no counters", HG_Class_get_counters(pair.client, NULL));
    HG_Diag_dump_counters();
    say("destroy", HG_Destroy(handle));
    counted_large(&pair);
    pair_close(&pair);
    HG_Diag_dump_counters();
}

void steps_of_library(const char *info)
{
    hg_class_t *hg_class;

    versions();
    HG_Cleanup();
    protocols("its protocol", info);
    protocols("all protocols", NULL);
    protocols("no protocol", "carrier+pigeon");
    protocols("no class", "pigeon");
    HG_Free_na_protocol_info(NULL);
    hg_class = HG_Init(info, HG_TRUE);
    say_number("a class after the cleanup", hg_class != NULL);
    say("class", HG_Finalize(hg_class));
    HG_Cleanup();
    counted(info);
}
