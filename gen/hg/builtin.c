/* SPDX-License-Identifier: BSD-3-Clause */
/* builtin: see builtin.h. */
#include "hg/builtin.h"

#include "base/log.h"
#include "hg/context.h"
#include "hg/serve.h"
#include "hg/watch.h"

/* Of a name in a list; what is longer is cut. */
#define HG_BUILTIN_NAME_MAX 512

/* ---- Texts ---- */

/* An answer's text while it is being written. */
struct hg_builtin_text {
    char text[HG_BUILTIN_TEXT_MAX];
    size_t size;
};

/* Add a line; false: there is no room for it, and nothing was added. */
HG_PRINTF_LIKE(2, 3)
static bool hg_builtin_add(struct hg_builtin_text *out, const char *format, ...)
{
    size_t room = sizeof(out->text) - out->size;
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(out->text + out->size, room, format, args);
    va_end(args);
    if (size < 0 || (size_t) size >= room) {
        out->text[out->size] = '\0';
        return false;
    }
    out->size += (size_t) size;
    return true;
}

hg_return_t hg_proc_hg_builtin_t(hg_proc_t proc, void *data)
{
    hg_builtin_t *builtin = (hg_builtin_t *) data;
    hg_return_t ret = hg_proc_uint64_t(
        proc, builtin != NULL ? (void *) &builtin->number : NULL);

    return ret == HG_SUCCESS ? hg_proc_hg_string_t(proc, &builtin->text) : ret;
}

/* Answer with a number and a text, which may be NULL. */
static hg_return_t hg_builtin_answer(
    struct hg_handle *handle, uint64_t number, char *text)
{
    hg_builtin_t answer;

    assert(handle->target);
    answer.number = number;
    answer.text = text;
    return hg_serve_respond(handle, HG_SUCCESS, &answer);
}

/* Answer with a code and why; the code. */
static hg_return_t hg_builtin_refuse(
    struct hg_handle *handle, hg_return_t ret, const char *text)
{
    (void) hg_serve_respond_error(handle, ret, text);
    return ret;
}

/* The question, decoded; to be released. HG_MSGSIZE: its text is longer than an
 * answer's may be. */
static hg_return_t hg_builtin_ask(
    struct hg_handle *handle, hg_builtin_t *question)
{
    hg_return_t ret = hg_handle_decode(handle, question);

    if (ret == HG_SUCCESS && question->text != NULL &&
        strlen(question->text) >= HG_BUILTIN_TEXT_MAX) {
        (void) hg_handle_release(hg_proc_hg_builtin_t, question);
        ret = HG_MSGSIZE;
    }
    return ret;
}

/* ---- The functions ---- */

static hg_return_t hg_builtin_ping(hg_handle_t handle)
{
    hg_builtin_t question;
    hg_return_t ret = hg_builtin_ask(handle, &question);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_builtin_answer(handle, question.number, question.text);
    (void) hg_handle_release(hg_proc_hg_builtin_t, &question);
    return ret;
}

static hg_return_t hg_builtin_version(hg_handle_t handle)
{
    na_class_t *na_class = handle->context->hg_class->na_class;
    struct hg_builtin_text out;
    unsigned version[3];

    out.size = 0;
    (void) HG_Version_get(&version[0], &version[1], &version[2]);
    (void) hg_builtin_add(&out,
        "hg %u.%u.%u\nmercury %d.%d.%d\nwire %d\ntransport %s+%s\n", version[0],
        version[1], version[2], HG_MERCURY_MAJOR, HG_MERCURY_MINOR,
        HG_MERCURY_PATCH, HG_HEADER_MAJOR, NA_Get_class_name(na_class),
        NA_Get_class_protocol(na_class));
    return hg_builtin_answer(handle,
        (uint64_t) version[0] << 16 | version[1] << 8 | version[2], out.text);
}

/* How far a list has come. */
struct hg_builtin_list {
    struct hg_builtin_text out;
    uint64_t skip; /* so many that were told before */
    uint64_t seen;
    bool full;
};

static bool hg_builtin_see(const struct hg_rpc *rpc, void *arg)
{
    struct hg_builtin_list *list = (struct hg_builtin_list *) arg;

    if (rpc->callback == NULL)
        return true;
    if (list->seen >= list->skip)
        list->full = !hg_builtin_add(&list->out, "%016" PRIx64 " %.*s\n",
            rpc->id, HG_BUILTIN_NAME_MAX, rpc->name != NULL ? rpc->name : "-");
    if (!list->full)
        list->seen++;
    return !list->full;
}

static hg_return_t hg_builtin_list(hg_handle_t handle)
{
    struct hg_builtin_list list;
    hg_builtin_t question;
    hg_return_t ret = hg_builtin_ask(handle, &question);

    if (ret != HG_SUCCESS)
        return ret;
    memset(&list, 0, sizeof(list));
    list.skip = question.number;
    (void) hg_handle_release(hg_proc_hg_builtin_t, &question);
    hg_registry_walk(
        &handle->context->hg_class->registry, hg_builtin_see, &list);
    return hg_builtin_answer(handle, list.full ? list.seen : 0, list.out.text);
}

/* What its transport counts. */
static void hg_builtin_add_transport(
    struct hg_builtin_text *out, struct na_class *na_class)
{
    const char *name;
    uint64_t value;
    unsigned i;

    for (i = 0; (name = na_class_counter_at(na_class, i, &value)) != NULL; i++)
        (void) hg_builtin_add(out, "%s %" PRIu64 "\n", name, value);
}

/* Counters of the class, by name. */
static void hg_builtin_add_counters(
    struct hg_builtin_text *out, struct hg_class *hg_class)
{
#define HG_BUILTIN_COUNTER(name) \
    { \
#name, offsetof(struct hg_counters, name) \
    }
    static const struct {
        const char *name;
        size_t at;
    } names[] = {HG_BUILTIN_COUNTER(requests_sent),
        HG_BUILTIN_COUNTER(responses_received),
        HG_BUILTIN_COUNTER(requests_received),
        HG_BUILTIN_COUNTER(responses_sent), HG_BUILTIN_COUNTER(errors_sent),
        HG_BUILTIN_COUNTER(inputs_fetched), HG_BUILTIN_COUNTER(outputs_fetched),
        HG_BUILTIN_COUNTER(refused), HG_BUILTIN_COUNTER(late),
        HG_BUILTIN_COUNTER(turned_away), HG_BUILTIN_COUNTER(dropped),
        HG_BUILTIN_COUNTER(expired), HG_BUILTIN_COUNTER(canceled),
        HG_BUILTIN_COUNTER(bulk_bytes_pulled),
        HG_BUILTIN_COUNTER(bulk_bytes_pushed), HG_BUILTIN_COUNTER(in_flight),
        HG_BUILTIN_COUNTER(unanswered), HG_BUILTIN_COUNTER(fetched_bytes),
        HG_BUILTIN_COUNTER(held_bytes), HG_BUILTIN_COUNTER(bulk_damaged)};
#undef HG_BUILTIN_COUNTER
    struct hg_counters counters;
    size_t i;

    hg_context_sum(hg_class, &counters);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t value;

        memcpy(&value, (const char *) &counters + names[i].at, sizeof(value));
        (void) hg_builtin_add(out, "%s %" PRIu64 "\n", names[i].name, value);
    }
}

/* How long calls of a function took. */
static void hg_builtin_add_times(
    struct hg_builtin_text *out, const struct hg_histogram *times)
{
    unsigned i;

    (void) hg_builtin_add(out,
        "count %" PRIu64 "\nsum_ns %" PRIu64 "\nmin_ns %" PRIu64
        "\nmax_ns %" PRIu64 "\np50_ns %" PRIu64 "\np99_ns %" PRIu64 "\n",
        times->count, times->sum_ns, times->min_ns, times->max_ns,
        HG_Histogram_percentile(times, 50), HG_Histogram_percentile(times, 99));
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        if (times->bucket[i] > 0)
            (void) hg_builtin_add(
                out, "bucket_%u %" PRIu64 "\n", i, times->bucket[i]);
    }
}

static hg_return_t hg_builtin_stats_of(
    struct hg_handle *handle, const char *name, bool target)
{
    struct hg_class *hg_class = handle->context->hg_class;
    struct hg_builtin_text out;
    struct hg_histogram times;
    struct hg_rpc rpc;

    if (hg_registry_find(&hg_class->registry, hg_registry_id(name), &rpc) !=
        HG_SUCCESS)
        return hg_builtin_refuse(
            handle, HG_NOENTRY, "that function is not registered");
    if (!hg_watch_times(hg_class, &rpc, target, &times))
        return hg_builtin_refuse(
            handle, HG_OPNOTSUPPORT, "how long calls take is not counted");
    out.size = 0;
    hg_builtin_add_times(&out, &times);
    return hg_builtin_answer(handle, 0, out.text);
}

static hg_return_t hg_builtin_stats(hg_handle_t handle)
{
    struct hg_builtin_text out;
    hg_builtin_t question;
    hg_return_t ret = hg_builtin_ask(handle, &question);

    if (ret != HG_SUCCESS)
        return ret;
    if (question.text != NULL) {
        ret = hg_builtin_stats_of(handle, question.text, question.number == 0);
    } else {
        out.size = 0;
        hg_builtin_add_counters(&out, handle->context->hg_class);
        hg_builtin_add_transport(&out, handle->context->hg_class->na_class);
        ret = hg_builtin_answer(handle, 0, out.text);
    }
    (void) hg_handle_release(hg_proc_hg_builtin_t, &question);
    return ret;
}

/* ---- Finding them ---- */

HG_PRIVATE hg_return_t hg_builtin_find(hg_id_t id, struct hg_rpc *rpc_p)
{
    static const struct {
        const char *name;
        hg_rpc_cb_t callback;
        hg_proc_cb_t in_proc;
        hg_proc_cb_t out_proc;
    } all[] = {{HG_BUILTIN_PING, hg_builtin_ping, hg_proc_hg_builtin_t,
                   hg_proc_hg_builtin_t},
        {HG_BUILTIN_VERSION, hg_builtin_version, hg_proc_hg_builtin_t,
            hg_proc_hg_builtin_t},
        {HG_BUILTIN_LIST, hg_builtin_list, hg_proc_hg_builtin_t,
            hg_proc_hg_builtin_t},
        {HG_BUILTIN_STATS, hg_builtin_stats, hg_proc_hg_builtin_t,
            hg_proc_hg_builtin_t}};
    size_t i;

    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (hg_registry_id(all[i].name) != id)
            continue;
        rpc_p->id = id;
        rpc_p->in_proc = all[i].in_proc;
        rpc_p->out_proc = all[i].out_proc;
        rpc_p->callback = all[i].callback;
        rpc_p->name = all[i].name;
        rpc_p->entry = NULL;
        return HG_SUCCESS;
    }
    return HG_NOENTRY;
}
