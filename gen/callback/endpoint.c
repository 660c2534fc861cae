/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint: classes, contexts, addresses and progress of the callback model.
 *
 * A class of this model owns an NA class, unless it was given one, and a bulk
 * layer. Its contexts are those of the RPC layer, but any thread may make
 * progress and trigger: NA lets one thread at a time move data, and the queue
 * gives each entry to one thread.
 *
 *     HG_Progress   hg_context_progress: until the queue has an entry
 *     HG_Trigger    NA_Trigger: runs entries of the queue
 *
 * Addresses are NA's, which counts their references. A lookup is counted in its
 * context, which is not destroyed while it is in progress. No other module
 * includes this one.
 *
 * Locking: the class's lock around data of functions and the description of a
 * context; counts are atomic.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hg/inspect.h"
#include "hg/check.h"
#include "hg/context.h"
#include "hg/forward.h"
#include "hg/serve.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/live.h"
#include "na/lookup.h"
#include "na/plugins.h"
#include "na/progress.h"
#include "na/uri.h"

/* A release of Mercury, as HG_VERSION encodes it with version 2. */
#define HG_ENDPOINT_VERSION(major, minor) \
    ((unsigned) (major) << 16 | (unsigned) (minor))

/* Default limit of a class, higher than in the request model: programs written
 * for Mercury, which has no such limit, keep many calls unanswered. */
#define HG_ENDPOINT_UNANSWERED 65536u
#define HG_ENDPOINT_IN_FLIGHT_BYTES ((size_t) 128 << 20)

/* How long HG_Context_destroy() waits for handles. */
#define HG_ENDPOINT_DRAIN_MS 5000

/* Check the class, and whether the other arguments are set. */
static hg_return_t hg_endpoint_check(
    const hg_class_t *hg_class, bool there, const char *function)
{
    hg_return_t ret = hg_check_class(hg_class, function);

    return ret != HG_SUCCESS || there
        ? ret
        : hg_log_misuse("cls", function, "an argument is NULL");
}

/* Whether a class may be queried; NULL returns false without an error. */
static bool hg_endpoint_has(const hg_class_t *hg_class, const char *function)
{
    return hg_class != NULL && hg_check_class(hg_class, function) == HG_SUCCESS;
}

/* Whether a context may be queried. */
static bool hg_endpoint_has_context(
    const hg_context_t *context, const char *function)
{
    return context != NULL && hg_check_context(context, function) == HG_SUCCESS;
}

/* ---- Opening and closing ---- */

/* Convert the options of the network layer. */
static void hg_endpoint_set_na_info(
    struct na_init_info *info, const struct na_init_info_4_0 *from)
{
    static const struct na_init_info defaults = NA_INIT_INFO_INITIALIZER;

    *info = defaults;
    info->ip_subnet = from->ip_subnet;
    info->auth_key = from->auth_key;
    info->max_unexpected_size = from->max_unexpected_size;
    info->max_expected_size = from->max_expected_size;
    info->progress_mode = from->progress_mode;
    info->addr_format = from->addr_format;
    info->thread_mode = from->thread_mode;
    info->request_mem_device = from->request_mem_device ? NA_TRUE : NA_FALSE;
}

/* The size of a struct that ends with a member. */
#define HG_ENDPOINT_UP_TO(member) \
    (offsetof(struct hg_init_info, member) + \
        sizeof(((struct hg_init_info *) 0)->member))

_Static_assert(sizeof(struct hg_init_info) - HG_ENDPOINT_UP_TO(bulk_checksum) <
        sizeof(void *),
    "a new option is read only from structs of the version that has it");

/* Read the options that a program of that version of Mercury has. Its struct is
 * that of the header it was built with: members after the last one here belong
 * to other versions. */
static void hg_endpoint_read_info(struct hg_init_info *info,
    const struct hg_init_info *from, unsigned version)
{
    size_t size = HG_ENDPOINT_UP_TO(stats);

    *info = HG_INIT_INFO_INITIALIZER;
    if (from == NULL)
        return;
    if (version >= HG_ENDPOINT_VERSION(2, 4))
        size = HG_ENDPOINT_UP_TO(bulk_checksum);
    else if (version >= HG_ENDPOINT_VERSION(2, 3))
        size = HG_ENDPOINT_UP_TO(release_input_early);
    memcpy(info, from, size);
}

/* Limit of unanswered calls, unless HG_Class_set_options sets it. A negative
 * request_post_incr limits it to request_post_init, as in Mercury. */
static unsigned hg_endpoint_unanswered(const struct hg_init_info *info)
{
    unsigned least =
        info->request_post_incr < 0 ? 4096 : HG_ENDPOINT_UNANSWERED;

    return info->request_post_init > least ? info->request_post_init : least;
}

/* Set the defaults that differ from those of the request model. */
static void hg_endpoint_fill_options(
    const struct hg_class *hg_class, struct hg_options *options)
{
    if (options->max_unanswered == 0)
        options->max_unanswered = hg_class->max_unanswered;
    if (options->max_in_flight_bytes == 0)
        options->max_in_flight_bytes = HG_ENDPOINT_IN_FLIGHT_BYTES;
}

/* Create the class on an NA class, which is held, and a bulk layer. */
static struct hg_class *hg_endpoint_make(struct na_class *na_class,
    struct hg_bulk_layer *layer, const struct hg_init_info *info)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hg_class *hg_class = NULL;

    options.max_unanswered = hg_endpoint_unanswered(info);
    options.max_in_flight_bytes = HG_ENDPOINT_IN_FLIGHT_BYTES;
    options.no_builtins = info->no_builtins;
    options.histograms = info->histograms;
    options.bulk_checksum = info->bulk_checksum;
    options.no_checksum = info->checksum_level != HG_CHECKSUM_RPC_PAYLOAD;
    options.checksum_always = info->checksum_level != HG_CHECKSUM_NONE;
    if (hg_class_create(na_class, layer, &options, &hg_class) != HG_SUCCESS)
        return NULL;
    hg_class->builtin = options.no_builtins ? NULL : hg_inspect_find;
    hg_class->sum_messages = info->checksum_level == HG_CHECKSUM_RPC_HEADERS;
    hg_class->no_overflow = info->no_overflow;
    hg_class->release_input_early = info->release_input_early != 0;
    hg_class->own_na = info->na_class == NULL;
    hg_class->max_contexts = info->na_init_info.max_contexts;
    hg_class->max_unanswered = options.max_unanswered;
    hg_class->stats = info->stats != 0;
    return hg_class;
}

/* Open the transport, and sm, too, if requested. */
static struct na_class *hg_endpoint_open_na(
    const char *string, uint8_t listen, const struct hg_init_info *info)
{
    const char *name = info->sm_info_string != NULL ? info->sm_info_string : "";
    struct na_init_info na_info;
    char both[NA_MAX_ADDR_LEN];
    struct na_uri uri;

    hg_endpoint_set_na_info(&na_info, &info->na_init_info);
    na_info.traffic_class = (int) info->traffic_class;
    if (info->auto_sm != 0 && string[0] != '\0' &&
        na_uri_parse(string, &uri) == NA_SUCCESS) {
        int size = snprintf(both, sizeof(both), "%s%s;sm://%s", string,
            strstr(string, "://") != NULL ? "" : "://", name);

        if (!HG_ENABLE_SM || strcmp(uri.protocol, "sm") == 0 ||
            size >= (int) sizeof(both))
            hg_log_warning("cls", "auto_sm has no meaning with %s", string);
        else
            string = both;
    }
    return NA_Initialize_opt(
        string, listen != 0 ? NA_TRUE : NA_FALSE, &na_info);
}

static struct hg_class *hg_endpoint_open(
    const char *string, uint8_t listen, const struct hg_init_info *info)
{
    struct na_class *na_class = info->na_class;
    struct hg_bulk_layer *layer = NULL;
    struct hg_class *hg_class;

    if (na_class == NULL)
        na_class = hg_endpoint_open_na(string, listen, info);
    if (na_class == NULL || na_live_check(na_class, "HG_Init") != NA_SUCCESS)
        return NULL;
    na_live_hold(na_class);
    if (hg_bulk_layer_create(na_class, &layer) != HG_SUCCESS)
        goto let_go;
    hg_class = hg_endpoint_make(na_class, layer, info);
    if (hg_class != NULL)
        return hg_class;
    hg_bulk_layer_destroy(layer);
let_go:
    na_live_release(na_class);
    if (info->na_class == NULL)
        (void) NA_Finalize(na_class);
    return NULL;
}

static hg_class_t *hg_endpoint_init(const char *string, uint8_t listen,
    unsigned version, const struct hg_init_info *from)
{
    struct hg_init_info info;

    hg_endpoint_read_info(&info, from, version);
    if (string == NULL && info.na_class == NULL) {
        (void) hg_log_misuse("cls", "HG_Init", "the address string is NULL");
        return NULL;
    }
    return hg_endpoint_open(string, listen, &info);
}

hg_class_t *HG_Init2(const char *na_info_string, uint8_t na_listen)
{
    return hg_endpoint_init(na_info_string, na_listen, 0, NULL);
}

hg_class_t *HG_Init_opt(const char *na_info_string, uint8_t na_listen,
    const struct hg_init_info *hg_init_info)
{
    return hg_endpoint_init(na_info_string, na_listen, 0, hg_init_info);
}

hg_class_t *HG_Init_opt2(const char *na_info_string, uint8_t na_listen,
    unsigned int version, const struct hg_init_info *hg_init_info)
{
    unsigned int newest =
        HG_ENDPOINT_VERSION(HG_MERCURY_MAJOR, HG_MERCURY_MINOR);

    if (hg_init_info != NULL && (version == 0 || version > newest)) {
        (void) hg_log_misuse(
            "cls", "HG_Init_opt2", "options of an unknown version");
        return NULL;
    }
    return hg_endpoint_init(na_info_string, na_listen, version, hg_init_info);
}

/* Whether a class cannot be closed yet (logged). Addresses of an NA class that
 * the application owns do not count. */
static bool hg_endpoint_is_used(struct hg_class *hg_class)
{
    const char *what = "a bulk handle";
    char name[HG_CONTEXT_TEXT_MAX] = "";
    unsigned count;

    count = hg_bulk_describe_left(hg_class->layer, name, sizeof(name));
    if (count == 0) {
        what = "a context";
        count = atomic_load(&hg_class->contexts_made);
        hg_enter(hg_class->lock);
        if (!hg_list_is_empty(&hg_class->contexts))
            hg_context_describe(HG_CONTAINER_OF(hg_class->contexts.next,
                                    struct hg_context, sibling),
                name, sizeof(name));
        hg_leave(hg_class->lock);
    }
    if (count == 0 && hg_class->own_na) {
        what = "an address";
        count = na_addr_count_given(hg_class->na_class, name, sizeof(name));
    }
    if (count > 0)
        hg_log_error("cls", "HG_Finalize: %s is left: %u, the first %s%s", what,
            count, what[2] == 'c' ? "has " : "", name);
    return count > 0;
}

static void hg_endpoint_count(
    struct hg_class *hg_class, struct hg_diag_counters *counters)
{
    struct hg_counters sum;

    hg_context_sum(hg_class, &sum);
    memset(counters, 0, sizeof(*counters));
    counters->rpc_req_sent_count = sum.requests_sent;
    counters->rpc_req_recv_count = sum.requests_received;
    counters->rpc_resp_sent_count = sum.responses_sent;
    counters->rpc_resp_recv_count = sum.responses_received;
    counters->rpc_req_extra_count = sum.inputs_fetched;
    counters->rpc_resp_extra_count = sum.outputs_fetched;
    counters->rpc_req_recv_active_count = sum.unanswered;
    hg_enter(hg_class->layer->lock);
    counters->bulk_count = hg_class->layer->transfers_done;
    hg_leave(hg_class->layer->lock);
}

static void hg_endpoint_log_counters(struct hg_class *hg_class, void *arg)
{
    struct hg_diag_counters counters;

    (void) arg;
    hg_endpoint_count(hg_class, &counters);
    hg_log_emit_line(HG_LOG_LEVEL_INFO, "cls",
        "requests %" PRIu64 " sent, %" PRIu64 " received; answers %" PRIu64
        " sent, %" PRIu64 " received; transfers %" PRIu64,
        counters.rpc_req_sent_count, counters.rpc_req_recv_count,
        counters.rpc_resp_sent_count, counters.rpc_resp_recv_count,
        counters.bulk_count);
}

hg_return_t HG_Finalize2(hg_class_t *hg_class)
{
    struct hg_bulk_layer *layer;
    struct na_class *na_class;
    bool own_na;
    hg_return_t ret;

    if (hg_class == NULL)
        return HG_SUCCESS;
    ret = hg_check_class(hg_class, "HG_Finalize");
    if (ret != HG_SUCCESS)
        return ret;
    if (hg_endpoint_is_used(hg_class))
        return HG_BUSY;
    if (hg_class->stats)
        hg_endpoint_log_counters(hg_class, NULL);
    if (hg_class->data != NULL && hg_class->free_data != NULL)
        hg_class->free_data(hg_class->data);
    layer = hg_class->layer;
    na_class = hg_class->na_class;
    own_na = hg_class->own_na;
    hg_class_destroy(hg_class);
    hg_bulk_layer_destroy(layer);
    na_live_release(na_class);
    return own_na ? NA_Finalize(na_class) : HG_SUCCESS;
}

/* ---- Limits ---- */

static hg_return_t hg_endpoint_check_options(const hg_class_t *hg_class,
    const struct hg_options *options, const char *function)
{
    hg_return_t ret = hg_check_class(hg_class, function);

    if (ret != HG_SUCCESS)
        return ret;
    return options != NULL && options->size == sizeof(*options)
        ? HG_SUCCESS
        : hg_log_misuse(
              "cls", function, "size is not that of struct hg_options");
}

hg_return_t HG_Class_set_options(
    hg_class_t *hg_class, const struct hg_options *options)
{
    struct hg_options mine;
    hg_return_t ret =
        hg_endpoint_check_options(hg_class, options, "HG_Class_set_options");

    if (ret != HG_SUCCESS)
        return ret;
    if (atomic_load(&hg_class->contexts_made) > 0) {
        hg_log_error("cls", "HG_Class_set_options: the class has a context");
        return HG_BUSY;
    }
    mine = *options;
    hg_endpoint_fill_options(hg_class, &mine);
    ret = hg_class_set_options(hg_class, &mine);
    if (ret == HG_SUCCESS)
        hg_class->builtin = options->no_builtins ? NULL : hg_inspect_find;
    return ret;
}

hg_return_t HG_Class_get_options(
    const hg_class_t *hg_class, struct hg_options *options)
{
    hg_return_t ret =
        hg_endpoint_check_options(hg_class, options, "HG_Class_get_options");

    if (ret == HG_SUCCESS)
        *options = hg_class->options;
    return ret;
}

/* ---- What is known of a class ---- */

const char *HG_Class_get_name(const hg_class_t *hg_class)
{
    const char *name = hg_endpoint_has(hg_class, "HG_Class_get_name")
        ? NA_Get_class_name(hg_class->na_class)
        : NULL;

    return name != NULL ? na_plugins_mercury_name(name) : NULL;
}

const char *HG_Class_get_protocol(const hg_class_t *hg_class)
{
    return hg_endpoint_has(hg_class, "HG_Class_get_protocol")
        ? NA_Get_class_protocol(hg_class->na_class)
        : NULL;
}

bool HG_Class_is_listening(const hg_class_t *hg_class)
{
    return hg_endpoint_has(hg_class, "HG_Class_is_listening") &&
        hg_class->na_class->listen != NA_FALSE;
}

hg_size_t HG_Class_get_input_eager_size(const hg_class_t *hg_class)
{
    return hg_endpoint_has(hg_class, "HG_Class_get_input_eager_size")
        ? hg_class_input_eager(hg_class)
        : 0;
}

hg_size_t HG_Class_get_output_eager_size(const hg_class_t *hg_class)
{
    return hg_endpoint_has(hg_class, "HG_Class_get_output_eager_size")
        ? hg_class_output_eager(hg_class)
        : 0;
}

/* Reserve bytes in front of the arguments for the application. */
static hg_return_t hg_endpoint_set_offset(
    hg_class_t *hg_class, bool output, hg_size_t offset, const char *function)
{
    hg_return_t ret = hg_check_class(hg_class, function);

    if (ret != HG_SUCCESS)
        return ret;
    if (offset > (output ? hg_class_output_eager(hg_class)
                         : hg_class_input_eager(hg_class)))
        return hg_log_misuse(
            "cls", function, "the offset exceeds the eager size");
    if (output)
        hg_class->output_offset = (size_t) offset;
    else
        hg_class->input_offset = (size_t) offset;
    return HG_SUCCESS;
}

hg_return_t HG_Class_set_input_offset(hg_class_t *hg_class, hg_size_t offset)
{
    return hg_endpoint_set_offset(
        hg_class, false, offset, "HG_Class_set_input_offset");
}

hg_return_t HG_Class_set_output_offset(hg_class_t *hg_class, hg_size_t offset)
{
    return hg_endpoint_set_offset(
        hg_class, true, offset, "HG_Class_set_output_offset");
}

hg_return_t HG_Class_set_data(
    hg_class_t *hg_class, void *data, void (*free_callback)(void *))
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Class_set_data");

    if (ret != HG_SUCCESS)
        return ret;
    hg_class->data = data;
    hg_class->free_data = free_callback;
    return HG_SUCCESS;
}

void *HG_Class_get_data(const hg_class_t *hg_class)
{
    return hg_endpoint_has(hg_class, "HG_Class_get_data") ? hg_class->data
                                                          : NULL;
}

hg_return_t HG_Class_set_handle_create_callback(hg_class_t *hg_class,
    hg_return_t (*callback)(hg_handle_t, void *), void *arg)
{
    hg_return_t ret =
        hg_check_class(hg_class, "HG_Class_set_handle_create_callback");

    if (ret != HG_SUCCESS)
        return ret;
    hg_class->handle_made = callback;
    hg_class->handle_made_arg = arg;
    return HG_SUCCESS;
}

hg_return_t HG_Class_get_counters(
    const hg_class_t *hg_class, struct hg_diag_counters *diag_counters)
{
    hg_return_t ret = hg_endpoint_check(
        hg_class, diag_counters != NULL, "HG_Class_get_counters");

    if (ret == HG_SUCCESS)
        hg_endpoint_count((hg_class_t *) (uintptr_t) hg_class, diag_counters);
    return ret;
}

void HG_Diag_dump_counters(void)
{
    if (hg_log_on(HG_LOG_LEVEL_INFO))
        (void) hg_class_each(true, hg_endpoint_log_counters, NULL);
}

/* ---- Contexts ---- */

/* NULL, logged: the class has max_contexts, where the initial value 1 means no
 * limit; or the context cannot be created. */
static hg_context_t *hg_endpoint_add_context(
    hg_class_t *hg_class, int id, const char *function)
{
    struct hg_context *context = NULL;
    unsigned limit;

    if (hg_check_class(hg_class, function) != HG_SUCCESS)
        return NULL;
    limit = hg_class->max_contexts > 1 ? hg_class->max_contexts : UINT_MAX;
    if (atomic_fetch_add(&hg_class->contexts_made, 1) >= limit)
        hg_log_error(
            "ctx", "%s: the class has max_contexts, %u", function, limit);
    else
        (void) hg_context_create(hg_class, id, &context);
    if (context == NULL)
        atomic_fetch_sub(&hg_class->contexts_made, 1);
    return context;
}

hg_context_t *HG_Context_create(hg_class_t *hg_class)
{
    return hg_endpoint_add_context(
        hg_class, HG_CONTEXT_ANY, "HG_Context_create");
}

hg_context_t *HG_Context_create_id(hg_class_t *hg_class, uint8_t id)
{
    return hg_endpoint_add_context(hg_class, id, "HG_Context_create_id");
}

hg_return_t HG_Context_unpost(hg_context_t *context)
{
    hg_return_t ret = hg_check_context(context, "HG_Context_unpost");

    if (ret != HG_SUCCESS)
        return ret;
    hg_context_refuse(context);
    return HG_SUCCESS;
}

/* False: a thread uses the context. Otherwise no thread can start to wait in
 * it. */
static bool hg_endpoint_begin_end(struct hg_context *context)
{
    bool busy;

    hg_enter(context->lock);
    busy = context->waits > 0 || hg_serve_is_executing(context) ||
        na_context_is_busy(context->na_context);
    context->ending = !busy;
    hg_leave(context->lock);
    return !busy;
}

hg_return_t HG_Context_destroy(hg_context_t *context)
{
    void (*free_data)(void *data);
    char left[HG_CONTEXT_TEXT_MAX];
    void *data;
    hg_return_t ret;

    ret = hg_check_context(context, "HG_Context_destroy");
    if (ret != HG_SUCCESS)
        return ret;
    if (!hg_endpoint_begin_end(context)) {
        hg_log_error("ctx",
            "HG_Context_destroy: called from a callback, or another thread is "
            "in the context");
        return HG_BUSY;
    }
    hg_context_refuse(context);
    hg_enter(context->lock);
    hg_forward_end_all(context, NULL, HG_CANCELED);
    hg_leave(context->lock);
    if (!hg_context_drain(context, HG_ENDPOINT_DRAIN_MS)) {
        hg_enter(context->lock);
        context->ending = false;
        hg_context_describe(context, left, sizeof(left));
        hg_leave(context->lock);
        hg_log_error(
            "ctx", "HG_Context_destroy: handles, or sends, are left: %s", left);
        return HG_BUSY;
    }
    data = context->data;
    free_data = context->free_data;
    atomic_fetch_sub(&context->hg_class->contexts_made, 1);
    hg_context_destroy(context);
    if (data != NULL && free_data != NULL)
        free_data(data);
    return HG_SUCCESS;
}

hg_class_t *HG_Context_get_class(const hg_context_t *context)
{
    return hg_endpoint_has_context(context, "HG_Context_get_class")
        ? context->hg_class
        : NULL;
}

uint8_t HG_Context_get_id(const hg_context_t *context)
{
    return hg_endpoint_has_context(context, "HG_Context_get_id") ? context->id
                                                                 : 0;
}

hg_return_t HG_Context_set_data(
    hg_context_t *context, void *data, void (*free_callback)(void *))
{
    hg_return_t ret = hg_check_context(context, "HG_Context_set_data");

    if (ret != HG_SUCCESS)
        return ret;
    context->data = data;
    context->free_data = free_callback;
    return HG_SUCCESS;
}

void *HG_Context_get_data(const hg_context_t *context)
{
    return hg_endpoint_has_context(context, "HG_Context_get_data")
        ? context->data
        : NULL;
}

/* ---- Registration ---- */

hg_id_t HG_Register_name(hg_class_t *hg_class, const char *func_name,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    return hg_gen_register2(
        hg_class, func_name, NULL, in_proc_cb, out_proc_cb, rpc_cb);
}

hg_id_t hg_gen_register2(hg_class_t *hg_class, const char *func_name,
    const char *types, hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb)
{
    struct hg_rpc rpc = {0, in_proc_cb, out_proc_cb, rpc_cb, NULL, NULL, 0};
    hg_id_t id;

    if (hg_check_class(hg_class, "HG_Register_name") != HG_SUCCESS)
        return 0;
    if (func_name == NULL) {
        (void) hg_log_misuse("cls", "HG_Register_name", "func_name is NULL");
        return 0;
    }
    id = hg_registry_id(func_name);
    return hg_registry_put(&hg_class->registry, id, func_name, types, &rpc,
               false) == HG_SUCCESS
        ? id
        : 0;
}

hg_return_t HG_Register2(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    struct hg_rpc rpc = {0, in_proc_cb, out_proc_cb, rpc_cb, NULL, NULL, 0};
    hg_return_t ret = hg_check_class(hg_class, "HG_Register");

    if (ret != HG_SUCCESS)
        return ret;
    if (id == 0)
        return hg_log_misuse("cls", "HG_Register", "the id is 0");
    return hg_registry_put(&hg_class->registry, id, NULL, NULL, &rpc, false);
}

/* Find a function that must be registered. HG_NOENTRY (logged); codes of
 * hg_endpoint_check. */
static hg_return_t hg_endpoint_find(hg_class_t *hg_class, hg_id_t id,
    bool there, const char *function, struct hg_registry_entry **entry_p)
{
    hg_return_t ret = hg_endpoint_check(hg_class, there, function);
    const struct hg_rpc *rpc;

    if (ret != HG_SUCCESS)
        return ret;
    rpc = hg_registry_find(&hg_class->registry, id);
    if (rpc == NULL) {
        hg_log_error(
            "rpc", "%s: id %016" PRIx64 " is not registered", function, id);
        return HG_NOENTRY;
    }
    *entry_p = rpc->entry;
    return HG_SUCCESS;
}

hg_return_t HG_Deregister(hg_class_t *hg_class, hg_id_t id)
{
    struct hg_registry_entry *entry;
    hg_return_t ret =
        hg_endpoint_find(hg_class, id, true, "HG_Deregister", &entry);

    return ret == HG_SUCCESS ? hg_registry_remove(&hg_class->registry, id)
                             : ret;
}

/* Whether an id is registered; *rpc_p is NULL if not. */
static hg_return_t hg_endpoint_registered(hg_class_t *hg_class, hg_id_t id,
    uint8_t *flag_p, const struct hg_rpc **rpc_p, const char *function)
{
    hg_return_t ret = hg_endpoint_check(hg_class, flag_p != NULL, function);

    *rpc_p = NULL;
    if (ret == HG_SUCCESS) {
        *rpc_p = hg_registry_find(&hg_class->registry, id);
        *flag_p = *rpc_p != NULL ? HG_TRUE : HG_FALSE;
    }
    return ret;
}

hg_return_t HG_Registered_name(
    hg_class_t *hg_class, const char *func_name, hg_id_t *id_p, uint8_t *flag_p)
{
    hg_return_t ret =
        hg_endpoint_check(hg_class, func_name != NULL, "HG_Registered_name");
    const struct hg_rpc *rpc;
    hg_id_t id;

    if (ret != HG_SUCCESS)
        return ret;
    id = hg_registry_id(func_name);
    ret = hg_endpoint_registered(
        hg_class, id, flag_p, &rpc, "HG_Registered_name");
    if (ret == HG_SUCCESS && id_p != NULL)
        *id_p = id;
    return ret;
}

hg_return_t HG_Registered(hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p)
{
    const struct hg_rpc *rpc;

    return hg_endpoint_registered(hg_class, id, flag_p, &rpc, "HG_Registered");
}

hg_return_t HG_Registered_proc_cb(hg_class_t *hg_class, hg_id_t id,
    uint8_t *flag_p, hg_proc_cb_t *in_proc_cb_p, hg_proc_cb_t *out_proc_cb_p)
{
    const struct hg_rpc *rpc;
    hg_return_t ret = hg_endpoint_registered(
        hg_class, id, flag_p, &rpc, "HG_Registered_proc_cb");

    if (rpc != NULL && in_proc_cb_p != NULL)
        *in_proc_cb_p = rpc->in_proc;
    if (rpc != NULL && out_proc_cb_p != NULL)
        *out_proc_cb_p = rpc->out_proc;
    return ret;
}

hg_return_t HG_Register_data(
    hg_class_t *hg_class, hg_id_t id, void *data, void (*free_callback)(void *))
{
    struct hg_registry_entry *entry;
    hg_return_t ret =
        hg_endpoint_find(hg_class, id, true, "HG_Register_data", &entry);

    if (ret != HG_SUCCESS)
        return ret;
    hg_enter(hg_class->lock);
    entry->data = data;
    entry->free_data = free_callback;
    hg_leave(hg_class->lock);
    return HG_SUCCESS;
}

void *HG_Registered_data(hg_class_t *hg_class, hg_id_t id)
{
    const struct hg_rpc *rpc;
    void *data = NULL;

    if (!hg_endpoint_has(hg_class, "HG_Registered_data"))
        return NULL;
    hg_enter(hg_class->lock);
    rpc = hg_registry_find(&hg_class->registry, id);
    if (rpc != NULL)
        data = rpc->entry->data;
    hg_leave(hg_class->lock);
    return data;
}

hg_return_t HG_Registered_disable_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t disable)
{
    struct hg_registry_entry *entry;
    hg_return_t ret = hg_endpoint_find(
        hg_class, id, true, "HG_Registered_disable_response", &entry);

    if (ret == HG_SUCCESS)
        atomic_store(&entry->one_way, disable != 0);
    return ret;
}

hg_return_t HG_Registered_disabled_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t *disabled_p)
{
    struct hg_registry_entry *entry;
    hg_return_t ret = hg_endpoint_find(hg_class, id, disabled_p != NULL,
        "HG_Registered_disabled_response", &entry);

    if (ret == HG_SUCCESS)
        *disabled_p = atomic_load(&entry->one_way) ? HG_TRUE : HG_FALSE;
    return ret;
}

/* ---- Addresses ---- */

/* A lookup in progress. */
struct hg_endpoint_lookup {
    struct hg_context *context;
    hg_cb_t callback;
    void *arg;
};

/* Check the class and the address. */
static hg_return_t hg_endpoint_check_addr(const hg_class_t *hg_class,
    const struct na_addr *addr, const char *function)
{
    hg_return_t ret = hg_check_class(hg_class, function);

    return ret == HG_SUCCESS ? na_addr_check(hg_class->na_class, addr, function)
                             : ret;
}

/* Mercury's code for a failed lookup. If the class cannot parse the string, it
 * is HG_NODEV if the string names a protocol, else HG_INVALID_ARG. */
static hg_return_t hg_endpoint_lookup_code(hg_return_t ret, const char *name)
{
    HG_ASSERT(name != NULL);
    if (ret != HG_PROTONOSUPPORT && ret != HG_INVALID_ARG)
        return ret;
    return strstr(name, "://") != NULL ? HG_NODEV : HG_INVALID_ARG;
}

static void hg_endpoint_end_lookup(struct hg_endpoint_lookup *lookup)
{
    uint32_t before = atomic_fetch_sub(&lookup->context->lookups, 1);

    HG_ASSERT(before > 0);
    (void) before;
    hg_mem_free(lookup);
}

/* From the queue: pass the address to the application. */
static na_return_t hg_endpoint_found(const struct na_cb_info *na_info)
{
    struct hg_endpoint_lookup *lookup =
        (struct hg_endpoint_lookup *) na_info->arg;
    struct hg_cb_info info;

    HG_ASSERT(na_info->type == NA_CB_LOOKUP);
    memset(&info, 0, sizeof(info));
    info.arg = lookup->arg;
    info.type = HG_CB_LOOKUP;
    info.ret = na_info->ret;
    if (na_info->ret == NA_SUCCESS)
        info.info.lookup.addr = na_info->info.lookup.addr;
    if (lookup->callback != NULL)
        (void) lookup->callback(&info);
    else if (na_info->ret == NA_SUCCESS) /* the transport found the peer */
        (void) na_addr_take_back(lookup->context->hg_class->na_class,
            na_info->info.lookup.addr, "HG_Addr_lookup");
    hg_endpoint_end_lookup(lookup);
    return NA_SUCCESS;
}

hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback, void *arg,
    const char *name, hg_op_id_t *op_id_p)
{
    struct hg_endpoint_lookup *lookup;
    hg_return_t ret;

    if (op_id_p != HG_OP_ID_IGNORE)
        *op_id_p = HG_OP_ID_NULL;
    ret = hg_check_context(context, "HG_Addr_lookup");
    if (ret != HG_SUCCESS)
        return ret;
    if (name == NULL)
        return hg_log_misuse("addr", "HG_Addr_lookup", "the name is NULL");
    lookup = (struct hg_endpoint_lookup *) hg_mem_calloc(1, sizeof(*lookup));
    if (lookup == NULL) {
        hg_log_error("addr", "no memory for the lookup of '%s'", name);
        return HG_NOMEM;
    }
    lookup->context = context;
    lookup->callback = callback;
    lookup->arg = arg;
    atomic_fetch_add(&context->lookups, 1);
    ret = na_lookup_start(context->na_context, NA_LANE_DONE, hg_endpoint_found,
        lookup, name, NA_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        hg_endpoint_end_lookup(lookup);
    return hg_endpoint_lookup_code(ret, name);
}

hg_return_t HG_Addr_lookup2(
    hg_class_t *hg_class, const char *name, hg_addr_t *addr_p)
{
    struct na_addr *addr = NULL;
    hg_return_t ret = hg_endpoint_check(
        hg_class, name != NULL && addr_p != NULL, "HG_Addr_lookup");

    if (ret != HG_SUCCESS)
        return ret;
    ret = na_lookup_resolve(hg_class->na_class, name, NA_FALSE, &addr);
    if (ret != HG_SUCCESS)
        return hg_endpoint_lookup_code(ret, name);
    na_addr_give(addr);
    *addr_p = addr;
    return HG_SUCCESS;
}

hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Addr_free");

    if (ret != HG_SUCCESS)
        return ret;
    return addr != HG_ADDR_NULL
        ? na_addr_take_back(hg_class->na_class, addr, "HG_Addr_free")
        : HG_SUCCESS;
}

hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr)
{
    hg_return_t ret =
        hg_endpoint_check_addr(hg_class, addr, "HG_Addr_set_remove");

    if (ret != HG_SUCCESS)
        return ret;
    hg_enter(hg_class->lock);
    na_addr_abandon(addr);
    hg_leave(hg_class->lock);
    return HG_SUCCESS;
}

hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Addr_self");

    return ret == HG_SUCCESS ? na_addr_hand_out(hg_class->na_class->self_addr,
                                   addr_p, "HG_Addr_self")
                             : ret;
}

hg_return_t HG_Addr_dup(
    hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p)
{
    hg_return_t ret = hg_endpoint_check_addr(hg_class, addr, "HG_Addr_dup");

    return ret == HG_SUCCESS ? na_addr_hand_out(addr, new_addr_p, "HG_Addr_dup")
                             : ret;
}

uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1, hg_addr_t addr2)
{
    if (hg_check_class(hg_class, "HG_Addr_cmp") != HG_SUCCESS)
        return HG_FALSE;
    if (addr1 == HG_ADDR_NULL || addr2 == HG_ADDR_NULL)
        return addr1 == addr2 ? HG_TRUE : HG_FALSE;
    if (hg_endpoint_check_addr(hg_class, addr1, "HG_Addr_cmp") != HG_SUCCESS ||
        hg_endpoint_check_addr(hg_class, addr2, "HG_Addr_cmp") != HG_SUCCESS)
        return HG_FALSE;
    return NA_Addr_cmp(hg_class->na_class, addr1, addr2) ? HG_TRUE : HG_FALSE;
}

hg_return_t HG_Addr_to_string(
    hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p, hg_addr_t addr)
{
    hg_return_t ret =
        hg_endpoint_check_addr(hg_class, addr, "HG_Addr_to_string");
    hg_size_t size;

    if (ret != HG_SUCCESS)
        return ret;
    if (buf_size_p == NULL)
        return hg_log_misuse("addr", "HG_Addr_to_string", "buf_size_p is NULL");
    size = *buf_size_p;
    *buf_size_p = NA_Addr_get_serialize_size(hg_class->na_class, addr);
    if (buf == NULL)
        return HG_SUCCESS;
    ret =
        na_addr_write(hg_class->na_class, buf, size, addr, "HG_Addr_to_string");
    return ret == HG_MSGSIZE ? HG_OVERFLOW : ret;
}

/* ---- Progress ---- */

static hg_return_t hg_endpoint_progress(
    hg_context_t *context, unsigned int timeout, const char *function)
{
    hg_return_t ret = hg_check_context(context, function);
    bool wait;

    if (ret != HG_SUCCESS)
        return ret;
    /* Asked with the lock held: a thread that notices the wake meanwhile would
     * do so before this wait begins. */
    hg_enter(context->lock);
    wait = timeout != 0 && !hg_context_is_woken();
    ret = hg_context_progress(context, NA_LANES_ALL, NULL, 0);
    if (ret == HG_TIMEOUT && wait && !hg_context_is_woken())
        ret = hg_context_progress(
            context, NA_LANES_ALL, NULL, hg_clock_after_ms(timeout));
    hg_leave(context->lock);
    return ret == HG_INTR ? HG_TIMEOUT : ret;
}

hg_return_t HG_Progress(hg_context_t *context, unsigned int timeout)
{
    return hg_endpoint_progress(context, timeout, "HG_Progress");
}

hg_return_t HG_Trigger(hg_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count_p)
{
    hg_return_t ret = hg_check_context(context, "HG_Trigger");

    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Trigger(context->na_context, timeout, max_count, actual_count_p);
    if (max_count == 0)
        return HG_SUCCESS;
    return ret == HG_INTR ? HG_TIMEOUT : ret;
}

int HG_Event_get_wait_fd(const hg_context_t *context)
{
    if (!hg_endpoint_has_context(context, "HG_Event_get_wait_fd"))
        return -1;
    /* The descriptor is created by the first call; the context is logically
     * const. */
    return hg_context_event_fd((hg_context_t *) (uintptr_t) context);
}

bool HG_Event_ready(hg_context_t *context)
{
    return hg_endpoint_has_context(context, "HG_Event_ready") &&
        hg_context_event_ready(context);
}

hg_return_t HG_Event_progress(hg_context_t *context, unsigned int *count_p)
{
    hg_return_t ret = hg_endpoint_progress(context, 0, "HG_Event_progress");

    if (ret != HG_SUCCESS && ret != HG_TIMEOUT)
        return ret;
    if (count_p != NULL)
        *count_p = na_queue_count(context->queue, NA_LANES_ALL);
    return HG_SUCCESS;
}

hg_return_t HG_Event_trigger(
    hg_context_t *context, unsigned int max_count, unsigned int *actual_count_p)
{
    hg_return_t ret = hg_check_context(context, "HG_Event_trigger");

    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Trigger(context->na_context, 0, max_count, actual_count_p);
    return ret == HG_TIMEOUT ? HG_SUCCESS : ret;
}
