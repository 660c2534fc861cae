/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes, contexts, registrations, addresses. */
#include "sequences.h"

static int freed;

static void on_free(void *data)
{
    (void) data;
    freed++;
}

static hg_return_t on_create(hg_handle_t handle, void *arg)
{
    int *count = arg;

    (void) HG_Set_data(handle, arg, NULL);
    ++*count;
    return HG_SUCCESS;
}

static void handles_created(hg_class_t *hg_class, hg_context_t *context)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    int count = 0;

    say("a create callback",
        HG_Class_set_handle_create_callback(hg_class, on_create, &count));
    say("a handle", HG_Create(context, HG_ADDR_NULL, 0, &handle));
    say_number("has the data", HG_Get_data(handle) == &count);
    say("no handle", HG_Destroy(handle));
    say("another handle", HG_Create(context, HG_ADDR_NULL, 0, &handle));
    say("without it", HG_Destroy(handle));
    say_number("callbacks", count);
    say("no create callback",
        HG_Class_set_handle_create_callback(hg_class, NULL, NULL));
    say("no class", HG_Class_set_handle_create_callback(NULL, NULL, NULL));
}

static void class_busy(hg_class_t *hg_class, hg_context_t *context)
{
    hg_size_t size = 8;
    hg_addr_t addr;
    hg_bulk_t bulk;

    say("finalize with a context", HG_Finalize(hg_class));
    say("its end", HG_Context_destroy(context));
    (void) HG_Addr_self(hg_class, &addr);
    say("finalize with an address", HG_Finalize(hg_class));
    say("its end", HG_Addr_free(hg_class, addr));
    (void) HG_Bulk_create(hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk);
    say("finalize with a bulk handle", HG_Finalize(hg_class));
    say("its end", HG_Bulk_free(bulk));
    say("finalize", HG_Finalize(hg_class));
    say_number("data freed", freed);
}

void steps_of_classes(const char *info)
{
    hg_class_t *hg_class;
    hg_context_t *context;
    int value = 0;

    say_number("unknown info", HG_Init("carrier+pigeon://", HG_TRUE) == NULL);
    hg_class = HG_Init(info, HG_FALSE);
    say_number("a client", hg_class != NULL);
    say_number("listens", HG_Class_is_listening(hg_class));
    say("its end", HG_Finalize(hg_class));
    hg_class = HG_Init(info, HG_TRUE);
    say_number("a server", hg_class != NULL);
    say_number("listens", HG_Class_is_listening(hg_class));
    say_number("its name",
        strncmp(info, HG_Class_get_name(hg_class),
            strlen(HG_Class_get_name(hg_class))) == 0);
    say_number(
        "its protocol", strstr(info, HG_Class_get_protocol(hg_class)) != NULL);
    say_number("eager input", HG_Class_get_input_eager_size(hg_class) >= 1024);
    say_number(
        "eager output", HG_Class_get_output_eager_size(hg_class) >= 1024);
    say_number("no data", HG_Class_get_data(hg_class) == NULL);
    say("data", HG_Class_set_data(hg_class, &value, on_free));
    say_number("the data", HG_Class_get_data(hg_class) == &value);
    say("data again", HG_Class_set_data(hg_class, &freed, on_free));
    say_number("freed", freed);
    say_number("error 99", HG_Error_to_string((hg_return_t) 99) == NULL);
    context = HG_Context_create(hg_class);
    handles_created(hg_class, context);
    class_busy(hg_class, context);
}

static void context_idle(hg_context_t *context)
{
    unsigned int count = 7;

    say("progress", HG_Progress(context, 0));
    say_values("trigger", HG_Trigger(context, 0, 1, &count), "%u", count);
    say("trigger without a count", HG_Trigger(context, 0, 1, NULL));
    count = 7;
    say_values("trigger none", HG_Trigger(context, 0, 0, &count), "%u", count);
    say("progress without a context", HG_Progress(NULL, 0));
    say("trigger without a context", HG_Trigger(NULL, 0, 1, NULL));
    say_number("a descriptor", HG_Event_get_wait_fd(context) >= 0);
    say_number("ready", HG_Event_ready(context));
    count = 7;
    say_values(
        "event progress", HG_Event_progress(context, &count), "%u", count);
    say("event progress without a count", HG_Event_progress(context, NULL));
    count = 7;
    say_values(
        "event trigger", HG_Event_trigger(context, 1, &count), "%u", count);
    say("event trigger without a count", HG_Event_trigger(context, 1, NULL));
}

void steps_of_contexts(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_TRUE);
    hg_context_t *context = HG_Context_create_id(hg_class, 0);
    hg_handle_t handle = HG_HANDLE_NULL;
    int value;

    say_number("of no class", HG_Context_create(NULL) == NULL);
    say_number("its id", HG_Context_get_id(context));
    say_number("its class", HG_Context_get_class(context) == hg_class);
    say_number("no data", HG_Context_get_data(context) == NULL);
    say("data", HG_Context_set_data(context, &value, on_free));
    say_number("the data", HG_Context_get_data(context) == &value);
    say("data again", HG_Context_set_data(context, &freed, on_free));
    say_number("freed", freed);
    context_idle(context);
    (void) HG_Create(context, HG_ADDR_NULL, 0, &handle);
    say("end with a handle", HG_Context_destroy(context));
    say("no handle", HG_Destroy(handle));
    say("unpost", HG_Context_unpost(context));
    say("unpost again", HG_Context_unpost(context));
    say("progress", HG_Progress(context, 0));
    say("unpost nothing", HG_Context_unpost(NULL));
    say("end", HG_Context_destroy(context));
    say_number("freed", freed);
    say("end of nothing", HG_Context_destroy(NULL));
    say("class", HG_Finalize(hg_class));
}

static hg_return_t proc_a(hg_proc_t proc, void *data)
{
    return hg_proc_uint32_t(proc, data);
}

static hg_return_t proc_b(hg_proc_t proc, void *data)
{
    return hg_proc_uint64_t(proc, data);
}

static hg_return_t handler(hg_handle_t handle)
{
    return HG_Destroy(handle);
}

static void registered_procs(hg_class_t *hg_class, hg_id_t id)
{
    hg_proc_cb_t in = NULL, out = NULL;
    uint8_t flag = 7;

    say_values("its procs",
        HG_Registered_proc_cb(hg_class, id, &flag, &in, &out), "%u %d %d", flag,
        in == proc_a, out == proc_b);
    (void) HG_Register(hg_class, id, proc_b, NULL, handler);
    say_values("other procs",
        HG_Registered_proc_cb(hg_class, id, &flag, &in, &out), "%u %d %d", flag,
        in == proc_b, out == NULL);
    say("procs, flag only",
        HG_Registered_proc_cb(hg_class, id, &flag, NULL, NULL));
    in = proc_a;
    say_values("procs of none",
        HG_Registered_proc_cb(hg_class, id + 1, &flag, &in, NULL), "%u %d",
        flag, in == proc_a);
}

static void registered_data(hg_class_t *hg_class, hg_id_t id)
{
    int value;

    say_number("no data", HG_Registered_data(hg_class, id) == NULL);
    say("data", HG_Register_data(hg_class, id, &value, on_free));
    say_number("the data", HG_Registered_data(hg_class, id) == &value);
    say("register again", HG_Register(hg_class, id, proc_a, proc_b, handler));
    say_number("data stays", HG_Registered_data(hg_class, id) == &value);
    say_number("freed", freed);
    say("data again", HG_Register_data(hg_class, id, &freed, on_free));
    say_number("freed", freed);
    say("data of none", HG_Register_data(hg_class, id + 1, NULL, NULL));
    say_number("data of none", HG_Registered_data(hg_class, id + 1) == NULL);
}

static void registered_response(hg_class_t *hg_class, hg_id_t id)
{
    uint8_t flag = 7;

    say_values("response", HG_Registered_disabled_response(hg_class, id, &flag),
        "%u", flag);
    say("none", HG_Registered_disable_response(hg_class, id, HG_TRUE));
    say_values("response", HG_Registered_disabled_response(hg_class, id, &flag),
        "%u", flag);
    (void) HG_Register(hg_class, id, proc_a, proc_b, handler);
    say_values("after a second registration",
        HG_Registered_disabled_response(hg_class, id, &flag), "%u", flag);
    say("one", HG_Registered_disable_response(hg_class, id, HG_FALSE));
    say("of none", HG_Registered_disable_response(hg_class, id + 1, HG_TRUE));
    say("of none", HG_Registered_disabled_response(hg_class, id + 1, &flag));
}

void steps_of_registrations(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_TRUE);
    hg_id_t id, same = 0;
    uint8_t flag = 7;

    say_number("no class", HG_Register_name(NULL, "a", NULL, NULL, NULL) == 0);
    say_number(
        "no name", HG_Register_name(hg_class, NULL, NULL, NULL, NULL) == 0);
    say_values("name of none",
        HG_Registered_name(hg_class, "sequence", &same, &flag), "%u %d", flag,
        same != 0);
    id = HG_Register_name(hg_class, "sequence", proc_a, proc_b, handler);
    say_number("name", id == same);
    say_number("again",
        HG_Register_name(hg_class, "sequence", proc_a, proc_b, handler) == id);
    say_values("by name", HG_Registered_name(hg_class, "sequence", NULL, &flag),
        "%u", flag);
    say_values("by id", HG_Registered(hg_class, id, &flag), "%u", flag);
    say("without a flag", HG_Registered(hg_class, id, NULL));
    say("without a class", HG_Registered(NULL, id, &flag));
    registered_procs(hg_class, id);
    registered_data(hg_class, id);
    registered_response(hg_class, id);
    say("small id", HG_Register(hg_class, 1, NULL, NULL, NULL));
    say("large id", HG_Register(hg_class, UINT64_MAX, NULL, NULL, NULL));
    say("deregister", HG_Deregister(hg_class, id));
    say_number("freed", freed);
    say_values("by id", HG_Registered(hg_class, id, &flag), "%u", flag);
    say("deregister again", HG_Deregister(hg_class, id));
    say("class", HG_Finalize(hg_class));
    say_number("freed", freed);
}

static void address_text(hg_class_t *hg_class, hg_addr_t addr)
{
    char text[256];
    hg_size_t size = 7, exact;

    say("size of text", HG_Addr_to_string(hg_class, NULL, &exact, addr));
    size = exact - 1;
    say_values("too small", HG_Addr_to_string(hg_class, text, &size, addr),
        "size is set %d", size == exact);
    size = exact;
    say_values("exact", HG_Addr_to_string(hg_class, text, &size, addr), "%d",
        size == exact && strlen(text) + 1 == exact);
    size = sizeof(text);
    say_values("large", HG_Addr_to_string(hg_class, text, &size, addr), "%d",
        size == exact);
    size = sizeof(text);
    say("of no address",
        HG_Addr_to_string(hg_class, text, &size, HG_ADDR_NULL));
}

static void addresses_looked_up(struct pair *pair, const char *text)
{
    struct done done = {0};
    hg_addr_t addr = HG_ADDR_NULL, same;

    say("lookup with a callback",
        HG_Addr_lookup1(
            pair->client_context, on_done, &done, text, HG_OP_ID_IGNORE));
    (void) pair_until(pair, &done.count);
    say_values("callback", done.ret, "%d", (int) done.type);
    same = done.info.info.lookup.addr;
    say_number("equal", HG_Addr_cmp(pair->client, pair->addr, same));
    say("free", HG_Addr_free(pair->client, same));
    done.count = 0;
    say("lookup of nonsense", HG_Addr_lookup2(pair->client, "nonsense", &addr));
    say_number("address set", addr != HG_ADDR_NULL);
    say("lookup of nothing", HG_Addr_lookup2(pair->client, NULL, &addr));
    say("lookup into nothing", HG_Addr_lookup2(pair->client, text, NULL));
}

void steps_of_addresses(const char *info)
{
    struct pair pair;
    hg_addr_t self, same, own, dup = HG_ADDR_NULL;
    char text[256];
    hg_size_t size = sizeof(text);

    pair_open(&pair, info, NULL);
    say("self", HG_Addr_self(pair.server, &self));
    say("self again", HG_Addr_self(pair.server, &same));
    say_number("equal", HG_Addr_cmp(pair.server, self, same));
    say("dup", HG_Addr_dup(pair.server, self, &dup));
    say("free", HG_Addr_free(pair.server, same));
    say_number("equal", HG_Addr_cmp(pair.server, self, dup));
    say("dup of none", HG_Addr_dup(pair.server, HG_ADDR_NULL, &same));
    say_number("none", HG_Addr_cmp(pair.server, HG_ADDR_NULL, HG_ADDR_NULL));
    say_number("none and one", HG_Addr_cmp(pair.server, self, HG_ADDR_NULL));
    address_text(pair.server, self);
    (void) HG_Addr_to_string(pair.server, text, &size, self);
    say("lookup of oneself", HG_Addr_lookup2(pair.server, text, &own));
    say_number("equal", HG_Addr_cmp(pair.server, self, own));
    say("lookup", HG_Addr_lookup2(pair.client, text, &same));
    say_number("equal", HG_Addr_cmp(pair.client, pair.addr, same));
    say("free", HG_Addr_free(pair.client, same));
    addresses_looked_up(&pair, text);
    say("lookup", HG_Addr_lookup2(pair.client, text, &same));
    say("set remove", HG_Addr_set_remove(pair.client, same));
    say("set remove of none", HG_Addr_set_remove(pair.client, HG_ADDR_NULL));
    say("free", HG_Addr_free(pair.client, same));
    say("lookup after it", HG_Addr_lookup2(pair.client, text, &same));
    say("free", HG_Addr_free(pair.client, same));
    say("free of none", HG_Addr_free(pair.client, HG_ADDR_NULL));
    say("free without a class", HG_Addr_free(NULL, pair.addr));
    say("free", HG_Addr_free(pair.server, self));
    say("free", HG_Addr_free(pair.server, dup));
    say("free", HG_Addr_free(pair.server, own));
    pair_close(&pair);
}
