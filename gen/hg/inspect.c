/* SPDX-License-Identifier: BSD-3-Clause */
/* inspect: see inspect.h. */
#include "hg/inspect.h"

#include "base/clock.h"
#include "base/log.h"
#include "hg/check.h"
#include "hg/context.h"
#include "hg/serve.h"
#include "hg/watch.h"

#include <string.h>

#define HG_INSPECT_LINE_MAX 1024 /* longer lines are truncated */

/* Longest function name in a list. */
#define HG_INSPECT_NAME_MAX 512

/* ---- Texts ---- */

/* A text that grows, with a terminating NUL. */
struct hg_inspect_text {
    struct hg_buf buf;
    size_t size;     /* excluding the NUL */
    size_t limit;    /* including the NUL */
    hg_return_t ret; /* HG_AGAIN: the text is incomplete */
};

/* Append. False: the text would exceed its limit, or memory is short; nothing
 * was appended. */
HG_PRINTF_LIKE(2, 3)
static bool hg_inspect_print(
    struct hg_inspect_text *text, const char *format, ...)
{
    char line[HG_INSPECT_LINE_MAX];
    va_list args;
    size_t size;

    va_start(args, format);
    (void) vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size = strlen(line);
    if (size >= text->limit - text->size)
        return false;
    if (hg_buf_reserve(&text->buf, text->size + size + 1, text->limit) !=
        HG_SUCCESS) {
        text->ret = HG_AGAIN;
        return false;
    }
    memcpy(text->buf.data + text->size, line, size + 1);
    text->size += size;
    return true;
}

/* ---- What is in flight ---- */

/* The state of a call in words; NULL: it is not a call now. */
static const char *hg_inspect_state(struct hg_handle *handle)
{
    switch (atomic_load(&handle->state)) {
    case HG_HANDLE_SENT:
        return handle->one_way ? "is being sent" : "waits for the response";
    case HG_HANDLE_FETCHING:
        return handle->target ? "its input is being fetched"
                              : "fetches its output";
    case HG_HANDLE_ENDED:
        return !handle->context->callbacks &&
                atomic_load(&handle->request.ended)
            ? NULL /* a request that was not freed yet */
            : "ended, its callback waits to run";
    case HG_HANDLE_QUEUED: return "waits to be executed";
    case HG_HANDLE_ARRIVED:
        return atomic_load(&handle->executed) != NULL ? "is being executed"
                                                      : "waits to be answered";
    case HG_HANDLE_ANSWERED:
    case HG_HANDLE_ABANDONED:
        if (handle->held)
            return "its output waits to be fetched";
        return atomic_load(&handle->sends) > 0 ? "its answer is being sent"
                                               : NULL;
    default: return NULL;
    }
}

static void hg_inspect_print_age(struct hg_inspect_text *text,
    const struct hg_context *context, uint64_t began)
{
    uint64_t ms = hg_clock_age(&context->hg_class->born, began) / HG_CLOCK_MS;

    (void) hg_inspect_print(
        text, ", %" PRIu64 ".%03u s\n", ms / 1000, (unsigned) (ms % 1000));
}

static unsigned hg_inspect_count_calls(const struct na_link *list)
{
    const struct na_link *link;
    unsigned count = 0;

    for (link = list->next; link != list; link = link->next)
        count += hg_inspect_state(
                     HG_CONTAINER_OF(link, struct hg_handle, link)) != NULL;
    return count;
}

/* With the lock held, a handle in the list keeps its address. */
static void hg_inspect_print_calls(
    struct hg_inspect_text *text, const struct na_link *list)
{
    const struct na_link *link;

    for (link = list->next; link != list; link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);
        const char *state = hg_inspect_state(handle);

        if (state == NULL)
            continue;
        (void) hg_inspect_print(text, "    %s ", handle->target ? "in" : "out");
        if (handle->rpc->name != NULL)
            (void) hg_inspect_print(text, "\"%s\"", handle->rpc->name);
        else
            (void) hg_inspect_print(text, "%016" PRIx64, handle->id);
        (void) hg_inspect_print(text, " %s %s: %s",
            handle->target ? "from" : "to", hg_handle_peer(handle), state);
        hg_inspect_print_age(text, handle->context, handle->began);
    }
}

/* The bulk class's lock is held. */
static void hg_inspect_print_transfers(
    struct hg_inspect_text *text, struct hg_context *context)
{
    const struct na_link *list = &context->transfers.transfers;
    const struct na_link *link;

    for (link = list->next; link != list; link = link->next) {
        const struct hg_transfer *transfer =
            HG_CONTAINER_OF(link, struct hg_transfer, link);

        (void) hg_inspect_print(text, "    bulk %s %s: %" PRIu64 " bytes%s",
            transfer->args.op == HG_BULK_PULL ? "pull from" : "push to",
            hg_transfer_peer_name(&transfer->args), transfer->args.size,
            transfer->done.run != NULL ? ", ended, its callback waits to run"
                                       : "");
        hg_inspect_print_age(text, context, transfer->began);
    }
}

/* The lock is held. */
static void hg_inspect_print_context(
    struct hg_inspect_text *text, struct hg_context *context)
{
    struct hg_monitor *bulk_lock = context->transfers.layer->lock;
    bool apart = bulk_lock != context->lock;
    bool looked = !apart || hg_enter_try(bulk_lock);

    (void) hg_inspect_print(text,
        "  context %u: %u calls, %u transfers, %u sends, %u lookups%s%s\n",
        context->id,
        hg_inspect_count_calls(&context->origins) +
            hg_inspect_count_calls(&context->targets),
        looked ? context->transfers.count : 0, atomic_load(&context->sending),
        atomic_load(&context->lookups),
        na_queue_has(context->queue, NA_LANES_DONE) ? "; callbacks wait to run"
                                                    : "",
        na_queue_has(context->queue, 1u << NA_LANE_CALL) ? "; calls wait to run"
                                                         : "");
    hg_inspect_print_calls(text, &context->origins);
    hg_inspect_print_calls(text, &context->targets);
    if (looked) {
        hg_inspect_print_transfers(text, context);
        if (apart)
            hg_leave(bulk_lock);
    } else {
        text->ret = HG_AGAIN;
    }
}

static void hg_inspect_print_class(struct hg_class *hg_class, void *arg)
{
    struct hg_inspect_text *text = (struct hg_inspect_text *) arg;
    const struct na_class *na_class = hg_class->na_class;
    const struct na_link *link;

    (void) hg_inspect_print(text, "class %s+%s, %s\n",
        NA_Get_class_name(na_class), NA_Get_class_protocol(na_class),
        na_class->self_addr != NULL && na_class->self_addr->name != NULL
            ? na_class->self_addr->name
            : "does not listen");
    if (!hg_enter_try(hg_class->lock)) {
        text->ret = HG_AGAIN;
        (void) hg_inspect_print(text, "  its lock is held: no details\n");
        return;
    }
    for (link = hg_class->contexts.next; link != &hg_class->contexts;
         link = link->next)
        hg_inspect_print_context(
            text, HG_CONTAINER_OF(link, struct hg_context, sibling));
    hg_leave(hg_class->lock);
}

HG_EXPORT hg_return_t HG_Dump(hg_class_t *hg_class, FILE *stream)
{
    struct hg_inspect_text text = {{NULL, 0, false}, 0, SIZE_MAX, HG_SUCCESS};
    hg_return_t ret;

    if (stream == NULL)
        return hg_log_misuse("rpc", "HG_Dump", "the stream is NULL");
    if (hg_class != NULL) {
        ret = hg_check_class(hg_class, "HG_Dump");
        if (ret != HG_SUCCESS)
            return ret;
        hg_inspect_print_class(hg_class, &text);
    } else if (!hg_class_each(false, hg_inspect_print_class, &text)) {
        text.ret = HG_AGAIN;
        (void) hg_inspect_print(&text, "the list of classes is locked\n");
    }
    if ((text.size > 0 &&
            fwrite(text.buf.data, 1, text.size, stream) != text.size) ||
        fflush(stream) != 0) {
        hg_log_error("rpc", "HG_Dump: the stream: %s", strerror(errno));
        text.ret = HG_IO_ERROR;
    }
    hg_buf_fini(&text.buf);
    return text.ret;
}

/* ---- What every class serves ---- */

hg_return_t hg_proc_hg_builtin_t(hg_proc_t proc, void *data)
{
    hg_builtin_t *builtin = (hg_builtin_t *) data;
    hg_return_t ret = hg_proc_uint64_t(
        proc, builtin != NULL ? (void *) &builtin->number : NULL);

    return ret == HG_SUCCESS ? hg_proc_hg_string_t(proc, &builtin->text) : ret;
}

/* Each function gets the request and appends the text of the answer; *number_p
 * is the number in the answer, initially 0. An error ends the call. */

static hg_return_t hg_inspect_version(struct hg_handle *handle,
    const hg_builtin_t *question, struct hg_inspect_text *out,
    uint64_t *number_p)
{
    na_class_t *na_class = handle->context->hg_class->na_class;
    const char *class_name = NA_Get_class_name(na_class);
    const char *protocol = NA_Get_class_protocol(na_class);
    const bool same = strcmp(class_name, protocol) == 0; /* sm, self */
    unsigned version[3];

    (void) question;
    (void) HG_Version_get(&version[0], &version[1], &version[2]);
    (void) hg_inspect_print(out,
        "hg %u.%u.%u\nmercury %d.%d.%d\nwire %d\ntransport %s%s%s\n",
        version[0], version[1], version[2], HG_MERCURY_MAJOR, HG_MERCURY_MINOR,
        HG_MERCURY_PATCH, HG_HEADER_MAJOR, same ? "" : class_name,
        same ? "" : "+", protocol);
    *number_p = (uint64_t) version[0] << 16 | version[1] << 8 | version[2];
    return HG_SUCCESS;
}

static hg_return_t hg_inspect_list(struct hg_handle *handle,
    const hg_builtin_t *question, struct hg_inspect_text *out,
    uint64_t *number_p)
{
    struct hg_registry *registry = &handle->context->hg_class->registry;
    const struct hg_rpc *rpc = NULL;
    uint64_t seen = 0;

    while ((rpc = hg_registry_next(registry, rpc)) != NULL) {
        if (rpc->callback == NULL)
            continue;
        if (seen >= question->number &&
            !hg_inspect_print(out, "%016" PRIx64 " %.*s\n", rpc->id,
                HG_INSPECT_NAME_MAX, rpc->name != NULL ? rpc->name : "-")) {
            *number_p = seen; /* the next request begins here */
            return HG_SUCCESS;
        }
        seen++;
    }
    return HG_SUCCESS;
}

/* Append the counters of the class and of its transport. */
static void hg_inspect_print_counters(
    struct hg_inspect_text *out, struct hg_class *hg_class)
{
    /* The members of struct hg_counters behind `size`. */
    static const char *const names[] = {"requests_sent", "responses_received",
        "requests_received", "responses_sent", "errors_sent", "inputs_fetched",
        "outputs_fetched", "refused", "late", "turned_away", "dropped",
        "expired", "canceled", "bulk_bytes_pulled", "bulk_bytes_pushed",
        "in_flight", "unanswered", "fetched_bytes", "held_bytes",
        "bulk_damaged"};
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    uint64_t values[COUNT];
    struct hg_counters counters;
    const char *name;
    uint64_t value;
    unsigned i;

    _Static_assert(
        offsetof(struct hg_counters, requests_sent) + sizeof(values) ==
            sizeof(counters),
        "each counter has a name");
    hg_context_sum(hg_class, &counters);
    memcpy(values, &counters.requests_sent, sizeof(values));
    for (i = 0; i < COUNT; i++)
        (void) hg_inspect_print(out, "%s %" PRIu64 "\n", names[i], values[i]);
    for (i = 0;
         (name = na_class_counter_at(hg_class->na_class, i, &value)) != NULL;
         i++)
        (void) hg_inspect_print(out, "%s %" PRIu64 "\n", name, value);
}

/* Append how long calls of a function took. */
static void hg_inspect_print_times(
    struct hg_inspect_text *out, const struct hg_histogram *times)
{
    unsigned i;

    (void) hg_inspect_print(out,
        "count %" PRIu64 "\nsum_ns %" PRIu64 "\nmin_ns %" PRIu64
        "\nmax_ns %" PRIu64 "\np50_ns %" PRIu64 "\np99_ns %" PRIu64 "\n",
        times->count, times->sum_ns, times->min_ns, times->max_ns,
        HG_Histogram_percentile(times, 50), HG_Histogram_percentile(times, 99));
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        if (times->bucket[i] > 0)
            (void) hg_inspect_print(
                out, "bucket_%u %" PRIu64 "\n", i, times->bucket[i]);
    }
}

static hg_return_t hg_inspect_stats(struct hg_handle *handle,
    const hg_builtin_t *question, struct hg_inspect_text *out,
    uint64_t *number_p)
{
    struct hg_class *hg_class = handle->context->hg_class;
    struct hg_histogram times;
    const struct hg_rpc *rpc;

    (void) number_p;
    if (question->text == NULL) {
        hg_inspect_print_counters(out, hg_class);
        return HG_SUCCESS;
    }
    rpc = hg_registry_find(&hg_class->registry, hg_registry_id(question->text));
    if (rpc == NULL) {
        (void) hg_serve_respond_error(
            handle, HG_NOENTRY, "that function is not registered");
        return HG_NOENTRY;
    }
    if (!hg_watch_times(hg_class, rpc, question->number == 0, &times)) {
        (void) hg_serve_respond_error(handle, HG_OPNOTSUPPORT,
            "call times are not counted: the server does not set the option "
            "histograms of struct hg_options or struct hg_init_info");
        return HG_OPNOTSUPPORT;
    }
    hg_inspect_print_times(out, &times);
    return HG_SUCCESS;
}

static hg_return_t hg_inspect_execute(hg_handle_t handle);

#define HG_INSPECT_RPC(name) \
    { \
        0, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, hg_inspect_execute, \
            name, NULL, 0 \
    }

static const struct hg_inspect_function {
    struct hg_rpc rpc;
    hg_return_t (*fill)(struct hg_handle *handle, const hg_builtin_t *question,
        struct hg_inspect_text *out, uint64_t *number_p); /* NULL: ping */
} hg_inspect_functions[] = {{HG_INSPECT_RPC(HG_BUILTIN_PING), NULL},
    {HG_INSPECT_RPC(HG_BUILTIN_VERSION), hg_inspect_version},
    {HG_INSPECT_RPC(HG_BUILTIN_LIST), hg_inspect_list},
    {HG_INSPECT_RPC(HG_BUILTIN_STATS), hg_inspect_stats}};

static hg_return_t hg_inspect_answer(
    struct hg_handle *handle, const hg_builtin_t *question)
{
    struct hg_inspect_text out = {
        {NULL, 0, false}, 0, HG_BUILTIN_TEXT_MAX, HG_SUCCESS};
    const struct hg_inspect_function *function =
        HG_CONTAINER_OF(handle->rpc, const struct hg_inspect_function, rpc);
    hg_builtin_t answer = *question;
    hg_return_t ret;

    if (question->text != NULL && strlen(question->text) >= HG_BUILTIN_TEXT_MAX)
        return HG_MSGSIZE;
    if (function->fill == NULL)
        return hg_serve_respond(handle, HG_SUCCESS, &answer);
    answer.number = 0;
    (void) hg_inspect_print(&out, "%s", ""); /* the text is never NULL */
    ret = function->fill(handle, question, &out, &answer.number);
    if (ret == HG_SUCCESS && out.ret != HG_SUCCESS)
        ret = HG_NOMEM;
    answer.text = (char *) out.buf.data;
    if (ret == HG_SUCCESS)
        ret = hg_serve_respond(handle, HG_SUCCESS, &answer);
    hg_buf_fini(&out.buf);
    return ret;
}

static hg_return_t hg_inspect_execute(hg_handle_t handle)
{
    hg_builtin_t question;
    hg_return_t ret = hg_handle_decode(handle, &question, NULL);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_inspect_answer(handle, &question);
    (void) hg_handle_release(hg_proc_hg_builtin_t, &question);
    return ret;
}

HG_PRIVATE const struct hg_rpc *hg_inspect_find(hg_id_t id)
{
    size_t i = sizeof(hg_inspect_functions) / sizeof(hg_inspect_functions[0]);

    while (i-- > 0) {
        if (hg_registry_id(hg_inspect_functions[i].rpc.name) == id)
            return &hg_inspect_functions[i].rpc;
    }
    return NULL;
}
