/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dump: what is in flight, in words, for who wonders why nothing happens.
 *
 * It is asked for when something hangs, so it waits for nothing: a lock that is
 * not to be had within a moment is passed over, with a note. No user callback
 * runs under a lock of the library's, so that is rare. All that is to be said
 * is put together first: what is in a context is copied under its lock, and
 * words are made of it after that. It is written when no lock is held, as a
 * stream may take its time.
 *
 * A call is looked at only while it is one, which its state tells (handle.h),
 * and with a reference, as its address is. That is let go of without locks,
 * too: the last one frees what the application has left with the handle.
 * Nothing above includes this room: it has no header.
 *
 * Locking: that of the list of classes, of the class, of the context, in this
 * order.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/check.h"
#include "hg/context.h"
#include "hg/layer.h"

/* What is said at once. */
#define HG_DUMP_LINE_MAX 1024

/* A call in flight, as it was when it was looked at. */
struct hg_dump_call {
    struct hg_handle *handle; /* a reference */
    bool target;
    const char *name; /* the registry's; NULL: none */
    hg_id_t id;
    const char *state;
    uint64_t began;
    char peer[HG_TRANSFER_PEER_MAX];
};

/* What a context has, at most so many of each. */
struct hg_dump_view {
    struct hg_dump_view *next; /* the one before */
    struct hg_dump_call *calls;
    unsigned calls_max;
    unsigned call_count;
    struct hg_transfer_view *transfers;
    unsigned transfers_max;
    unsigned transfer_count;
    bool more; /* than there is room for, as some have come meanwhile */
};

/* What is to be written, and how it went. */
struct hg_dump {
    struct hg_buf text;
    size_t size;
    hg_return_t ret;
    struct hg_dump_view *views;       /* for their references */
    const struct hg_clock_pair *born; /* of the class being written */
};

/* ---- Words ---- */

static void hg_dump_say(struct hg_dump *dump, const char *format, ...)
    HG_PRINTF_LIKE(2, 3);

/* What there is no memory for is missing, and so is the rest of its line. */
static void hg_dump_say(struct hg_dump *dump, const char *format, ...)
{
    char line[HG_DUMP_LINE_MAX];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    assert(size >= 0);
    if (size >= (int) sizeof(line)) /* it is cut */
        size = (int) sizeof(line) - 1;
    if (hg_buf_reserve(&dump->text, dump->size + (size_t) size, SIZE_MAX) !=
        HG_SUCCESS) {
        dump->ret = HG_AGAIN;
        return;
    }
    memcpy(dump->text.data + dump->size, line, (size_t) size);
    dump->size += (size_t) size;
}

/* How far a call of ours is; NULL: it is none now. */
static const char *hg_dump_state_out(struct hg_handle *handle)
{
    switch (atomic_load(&handle->state)) {
    case HG_HANDLE_SENT:
        return handle->one_way ? "is being sent" : "waits for the answer";
    case HG_HANDLE_FETCHING: return "fetches its output";
    case HG_HANDLE_ENDED:
        return !handle->context->callbacks && atomic_load(&handle->request.done)
            ? NULL /* a request that has yet to be freed */
            : "ended, its callback is to be run";
    default: return NULL;
    }
}

/* The same of a call to us. */
static const char *hg_dump_state_in(struct hg_handle *handle)
{
    switch (atomic_load(&handle->state)) {
    case HG_HANDLE_FETCHING: return "its input is being fetched";
    case HG_HANDLE_QUEUED: return "waits to be executed";
    case HG_HANDLE_ARRIVED:
        return !handle->context->callbacks || atomic_load(&handle->call.running)
            ? "is being executed"
            : "is to be answered";
    case HG_HANDLE_ANSWERED:
        if (handle->held)
            return "its output is to be fetched";
        return atomic_load(&handle->sends) > 0 ? "its answer is being sent"
                                               : NULL;
    default: return NULL;
    }
}

static void hg_dump_age(struct hg_dump *dump, uint64_t began)
{
    uint64_t ms = hg_clock_age(dump->born, began) / HG_CLOCK_MS;

    hg_dump_say(
        dump, ", %" PRIu64 ".%03u s\n", ms / 1000, (unsigned) (ms % 1000));
}

static void hg_dump_write_call(
    struct hg_dump *dump, const struct hg_dump_call *call)
{
    assert(call->state != NULL);
    hg_dump_say(dump, "    %s ", call->target ? "in" : "out");
    if (call->name != NULL)
        hg_dump_say(dump, "\"%s\"", call->name);
    else
        hg_dump_say(dump, "%016" PRIx64, call->id);
    hg_dump_say(dump, " %s %s: %s", call->target ? "from" : "to", call->peer,
        call->state);
    hg_dump_age(dump, call->began);
}

static void hg_dump_write_transfer(
    struct hg_dump *dump, const struct hg_transfer_view *view)
{
    hg_dump_say(dump,
        "    bulk %s %s: ", view->op == HG_BULK_PULL ? "pull from" : "push to",
        view->peer);
    if (view->ended)
        hg_dump_say(
            dump, "%zu bytes, ended, its callback is to be run", view->size);
    else
        hg_dump_say(dump, "%zu of %zu bytes begun", view->begun, view->size);
    hg_dump_age(dump, view->began);
}

/* ---- A context ---- */

/* The context's lock is held. */
static void hg_dump_see_calls(
    struct hg_dump_view *view, const struct na_link *list, bool target)
{
    const struct na_link *link;

    for (link = list->next; link != list; link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);
        struct hg_dump_call *call = &view->calls[view->call_count];
        const char *state =
            target ? hg_dump_state_in(handle) : hg_dump_state_out(handle);

        if (state == NULL)
            continue;
        if (view->call_count == view->calls_max) {
            view->more = true;
            return;
        }
        if (!hg_handle_try_ref(handle))
            continue; /* it goes just now */
        call->handle = handle;
        call->target = target;
        call->name = handle->rpc.name;
        call->id = handle->rpc.id;
        call->state = state;
        call->began = handle->began;
        (void) snprintf(
            call->peer, sizeof(call->peer), "%s", hg_handle_peer(handle));
        view->call_count++;
    }
}

/* Copy what there is. False: its lock was not to be had. */
static bool hg_dump_see(struct hg_context *context, struct hg_dump_view *view)
{
    if (!hg_enter_try(context->lock))
        return false;
    hg_dump_see_calls(view, &context->origins, false);
    hg_dump_see_calls(view, &context->targets, true);
    hg_leave(context->lock);
    return hg_transfer_look(&context->transfers, view->transfers,
        view->transfers_max, &view->transfer_count);
}

static void hg_dump_write(struct hg_dump *dump, struct hg_context *context,
    const struct hg_dump_view *view)
{
    unsigned i;

    hg_dump_say(dump,
        "  context %u: %u calls, %u transfers, %" PRIu32 " sends, %" PRIu32
        " lookups%s%s\n",
        context->id, view->call_count, view->transfer_count,
        atomic_load(&context->sending), atomic_load(&context->lookups),
        na_queue_has(context->queue, NA_LANES_DONE) ? "; callbacks to be run"
                                                    : "",
        na_queue_has(context->queue, 1u << NA_LANE_CALL) ? "; calls to be run"
                                                         : "");
    for (i = 0; i < view->call_count; i++)
        hg_dump_write_call(dump, &view->calls[i]);
    for (i = 0; i < view->transfer_count; i++)
        hg_dump_write_transfer(dump, &view->transfers[i]);
    if (view->more)
        hg_dump_say(dump, "    and more, which have come meanwhile\n");
}

/* How much room it takes; false: the lock was not to be had. */
static bool hg_dump_measure(
    struct hg_context *context, struct hg_dump_view *view)
{
    if (!hg_enter_try(context->lock))
        return false;
    view->calls_max = context->live + 1;
    hg_leave(context->lock);
    view->transfers_max = atomic_load(&context->transfers.under_way) + 1;
    return true;
}

/* Look, into a view that is new. NULL, or why not all is there. */
static const char *hg_dump_look(
    struct hg_context *context, struct hg_dump_view *view)
{
    const char *locked = "its lock is not to be had";

    if (!hg_dump_measure(context, view))
        return locked;
    view->calls = (struct hg_dump_call *) hg_mem_calloc(
        view->calls_max, sizeof(view->calls[0]));
    view->transfers = (struct hg_transfer_view *) hg_mem_calloc(
        view->transfers_max, sizeof(view->transfers[0]));
    if (view->calls == NULL || view->transfers == NULL)
        return "no memory to look at it";
    return hg_dump_see(context, view) ? NULL : locked;
}

static void hg_dump_context(struct hg_dump *dump, struct hg_context *context)
{
    struct hg_dump_view *view =
        (struct hg_dump_view *) hg_mem_calloc(1, sizeof(*view));
    const char *why = "no memory to look at it";

    if (view != NULL) {
        view->next = dump->views;
        dump->views = view;
        why = hg_dump_look(context, view);
    }
    if (why == NULL) {
        hg_dump_write(dump, context, view);
    } else {
        dump->ret = HG_AGAIN;
        hg_dump_say(dump, "  context %u: %s\n", context->id, why);
    }
}

/* Let go of what was looked at; no lock is held. A context may end from here
 * on. */
static void hg_dump_let_go(struct hg_dump *dump)
{
    struct hg_dump_view *view;
    unsigned i;

    while ((view = dump->views) != NULL) {
        dump->views = view->next;
        for (i = 0; i < view->call_count; i++)
            hg_handle_unref(view->calls[i].handle);
        hg_mem_free(view->calls);
        hg_mem_free(view->transfers);
        hg_mem_free(view);
    }
}

/* ---- Classes ---- */

static void hg_dump_class(struct hg_class *hg_class, void *arg)
{
    struct hg_dump *dump = (struct hg_dump *) arg;
    const struct na_class *na_class = hg_class->na_class;
    const struct na_link *link;

    dump->born = &hg_class->born;
    hg_dump_say(dump, "class %s+%s, %s\n", NA_Get_class_name(na_class),
        NA_Get_class_protocol(na_class),
        na_class->self_addr != NULL && na_class->self_addr->name != NULL
            ? na_class->self_addr->name
            : "does not listen");
    if (!hg_enter_try(hg_class->lock)) {
        dump->ret = HG_AGAIN;
        hg_dump_say(dump, "  its lock is not to be had\n");
        return;
    }
    for (link = hg_class->contexts.next; link != &hg_class->contexts;
         link = link->next)
        hg_dump_context(
            dump, HG_CONTAINER_OF(link, struct hg_context, sibling));
    hg_leave(hg_class->lock);
}

HG_EXPORT hg_return_t HG_Dump(hg_class_t *hg_class, FILE *stream)
{
    struct hg_dump dump;
    hg_return_t ret;

    if (stream == NULL)
        return hg_layer_refuse("HG_Dump", "the stream is NULL");
    if (hg_class != NULL) {
        ret = hg_check_class(hg_class, "HG_Dump");
        if (ret != HG_SUCCESS)
            return ret;
    }
    memset(&dump, 0, sizeof(dump));
    if (hg_class != NULL) {
        hg_dump_class(hg_class, &dump);
    } else if (!hg_class_each(false, hg_dump_class, &dump)) {
        dump.ret = HG_AGAIN;
        hg_dump_say(&dump, "the list of classes is not to be had\n");
    }
    hg_dump_let_go(&dump);
    if (dump.size > 0)
        (void) fwrite(dump.text.data, 1, dump.size, stream);
    (void) fflush(stream);
    hg_buf_fini(&dump.text);
    return dump.ret;
}
