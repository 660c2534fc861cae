/* SPDX-License-Identifier: BSD-3-Clause */
/* serve: see serve.h. */
#include "hg/serve.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/cancel.h"
#include "hg/overflow.h"
#include "hg/watch.h"
#include "na/addr.h"

/* Error text of a call whose handle was freed without an answer. */
#define HG_SERVE_UNANSWERED "freed without an answer"

/* Size of the buffer for an output that the application encodes. */
#define HG_SERVE_RAW_SIZE 4096

/* ---- Arrival ---- */

/* A handle was dequeued. False: the layer is ending, so the call is not
 * executed. */
static HG_HOT bool hg_serve_enter(struct hg_handle *handle)
{
    HG_ASSERT(handle->state == HG_HANDLE_QUEUED);
    atomic_store_explicit(
        &handle->state, HG_HANDLE_ARRIVED, memory_order_release);
    return !atomic_load(&handle->context->closing);
}

/* Whether the context accepts no more calls. */
static bool hg_serve_is_ending(struct hg_context *context)
{
    return atomic_load_explicit(&context->closing, memory_order_relaxed) ||
        atomic_load_explicit(
            &context->hg_class->draining, memory_order_relaxed);
}

/* Whether the library executes the call. */
static bool hg_serve_is_builtin(const struct hg_handle *handle)
{
    return handle->rpc->entry == NULL && handle->rpc->callback != NULL;
}

/* Whether the origin no longer waits: it sent CANCEL or died. */
static bool hg_serve_is_unwanted(struct hg_handle *handle)
{
    return atomic_load_explicit(&handle->unwanted, memory_order_acquire);
}

/* How much of a text is sent: whole characters of UTF-8. */
static size_t hg_serve_text_size(const char *text)
{
    size_t size = strlen(text);

    if (size <= HG_HEADER_TEXT_MAX)
        return size;
    size = HG_HEADER_TEXT_MAX;
    while (size > 0 && ((unsigned char) text[size] & 0xc0) == 0x80)
        size--;
    return size;
}

/* Send a code with a text. False: memory is short, or the message has no
 * space. */
static bool hg_serve_send_text(
    struct hg_handle *handle, struct hg_header *header, const char *text)
{
    size_t limit = handle->context->hg_class->na_class->max_expected_size;
    size_t text_size = hg_serve_text_size(text);
    size_t size = HG_HEADER_MIN + text_size;
    struct hg_handle_message message;

    HG_ASSERT(handle->out_large.mem == NULL); /* nobody reads that buffer */
    if (text_size == 0 || size > limit ||
        hg_buf_reserve(&handle->out, size, size) != HG_SUCCESS)
        return false;
    memcpy(handle->out.data + HG_HEADER_MIN, text, text_size);
    header->payload_size = text_size;
    message.header = header;
    message.data = handle->out.data;
    message.size = size;
    hg_handle_seal(handle, &message);
    return hg_handle_send(handle, &message) == HG_SUCCESS;
}

/* Send a code instead of an output, if the origin waits; `text` may be NULL. */
static void hg_serve_send_code(
    struct hg_handle *handle, hg_return_t code, const char *text)
{
    struct hg_header header;

    if (handle->one_way && !handle->ack_fetch)
        return;
    if (hg_serve_is_unwanted(handle)) {
        if (!handle->one_way) /* otherwise it may still be executed */
            hg_handle_discount(handle);
        return;
    }
    handle->ack_fetch = false;
    hg_handle_begin_header(handle, HG_HEADER_RESPONSE, &header);
    if (!handle->one_way || handle->refused)
        header.code = hg_handle_result(code);
    if (handle->refused)
        header.flags = HG_HEADER_REFUSED;
    if (handle->mistyped)
        header.types = handle->rpc->fingerprint;
    if (header.code != HG_SUCCESS)
        hg_handle_count(handle->context, HG_COUNT_ERRORS_SENT);
    if (text != NULL && hg_serve_send_text(handle, &header, text))
        return;
    header.payload_size = 0;
    hg_enter(handle->context->lock);
    hg_handle_send_control(handle, &header);
    hg_leave(handle->context->lock);
}

/* The error text of a call that was not executed; NULL: the code is enough. */
static const char *hg_serve_reason(
    const struct hg_handle *handle, hg_return_t ret, char *buf, size_t size)
{
    const struct hg_options *options = &handle->context->hg_class->options;

    switch (ret) {
    case HG_NOENTRY:
    case HG_INVALID_ARG:
        if (handle->rpc->callback != NULL)
            return "its input was withdrawn";
        if (handle->rpc->name != NULL)
            snprintf(buf, size, "\"%s\" is registered without a handler",
                handle->rpc->name);
        else
            snprintf(buf, size, "function %016" PRIx64 " is not registered",
                handle->id);
        return buf;
    case HG_AGAIN:
        if (hg_serve_is_ending(handle->context))
            return "it is ending";
        snprintf(buf, size, "the limits are %u calls, %zu bytes of input",
            options->max_unanswered, options->max_fetched_bytes);
        return buf;
    case HG_MSGSIZE:
        snprintf(buf, size, "arguments of at most %zu bytes",
            options->max_args_size);
        return buf;
    case HG_PROTOCOL_ERROR:
        if (handle->mistyped)
            snprintf(buf, size, "\"%s\" has the types %s", handle->rpc->name,
                hg_registry_types(handle->rpc));
        else
            snprintf(
                buf, size, "malformed, or not version %d", HG_HEADER_MAJOR);
        return buf;
    case HG_CHECKSUM_ERROR: return "it was damaged in transit";
    case HG_PERMISSION:
        return "it does not listen, and has not looked up the caller";
    case HG_CANCELED: return "its input did not arrive in time";
    default: return NULL;
    }
}

/* The error text of a call whose handler failed. The reason for the code is
 * known only if it is the result of decoding the input. */
static const char *hg_serve_reason_failed(
    struct hg_handle *handle, hg_return_t ret)
{
    if (ret != atomic_load_explicit(&handle->misread, memory_order_relaxed))
        return NULL;
    if (ret == HG_CHECKSUM_ERROR)
        return "the input is longer than its type";
    return ret == HG_OVERFLOW ? "the input is shorter than its type" : NULL;
}

/* The origin no longer waits: the call is neither executed nor answered. */
static void hg_serve_pass_over(struct hg_handle *handle)
{
    bool expired = handle->deadline != 0 && !hg_serve_is_unwanted(handle) &&
        hg_clock_now() >= handle->deadline;

    HG_ASSERT(handle->state == HG_HANDLE_QUEUED);
    hg_handle_count(
        handle->context, expired ? HG_COUNT_EXPIRED : HG_COUNT_CANCELED);
    atomic_store(&handle->state, HG_HANDLE_DROPPED);
    (void) hg_handle_take_back(handle, false);
    hg_handle_unref(handle);
}

/* Claim the single answer of a handle, which is `ret` and leads to `state`. The
 * caller that gets true sends it. */
static HG_HOT bool hg_serve_try_take(
    struct hg_handle *handle, hg_return_t ret, enum hg_handle_state state)
{
    enum hg_handle_state arrived = HG_HANDLE_ARRIVED;

    if (HG_LIKELY(hg_handle_is_mine(handle) && handle->state == arrived))
        atomic_store_explicit(&handle->state, state, memory_order_release);
    else if (!atomic_compare_exchange_strong(&handle->state, &arrived, state))
        return false;
    if (handle->addr->self || handle->one_way) /* no network message */
        hg_handle_discount(handle);
    if (hg_watch_is_on(handle->context->hg_class))
        hg_watch_respond(handle, ret);
    return true;
}

HG_PRIVATE void hg_serve_abandon(struct hg_handle *handle)
{
    bool once_more = handle->context->callbacks && !handle->one_way;

    if (hg_serve_try_take(handle, HG_CANCELED,
            once_more ? HG_HANDLE_ABANDONED : HG_HANDLE_ANSWERED))
        hg_serve_send_code(handle, HG_CANCELED, HG_SERVE_UNANSWERED);
}

/* Run the handler. */
static hg_return_t hg_serve_call_handler(struct hg_handle *handle)
{
    bool callbacks = handle->context->callbacks;
    hg_return_t ret = callbacks ? hg_handle_open_call(handle) : HG_SUCCESS;

    if (ret == HG_SUCCESS && hg_watch_is_on(handle->context->hg_class))
        ret = hg_watch_handle(handle);
    if (ret == HG_SUCCESS)
        return handle->rpc->callback(handle);
    /* The application has not seen it. */
    if (callbacks)
        (void) hg_handle_take_back(handle, false);
    return ret;
}

/* Execute a call that was dequeued. The lock is not held. */
static void hg_serve_execute(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    struct hg_handle *before;
    hg_return_t ret;

    if (!hg_serve_enter(handle)) {
        (void) hg_serve_free(handle);
        return;
    }
    before = hg_watch_execute(handle);
    ret = hg_serve_call_handler(handle);
    (void) hg_watch_execute(before);
    if (ret != HG_SUCCESS && hg_handle_result(ret) != ret) {
        hg_log_error("rpc",
            "the handler of \"%s\" returned %d (%s), which is not a valid "
            "result",
            hg_handle_function(handle), ret, HG_Error_to_string(ret));
        ret = HG_OTHER_ERROR;
    }
    if (ret != HG_SUCCESS && hg_serve_is_answered(handle)) {
        hg_log_error("rpc",
            "the handler of \"%s\" answered and then failed: %s",
            hg_handle_function(handle), HG_Error_to_string(ret));
    } else if (ret != HG_SUCCESS) {
        (void) hg_serve_respond_error(
            handle, ret, hg_serve_reason_failed(handle, ret));
        if (!context->callbacks)
            (void) hg_handle_take_back(handle, false);
    }
}

HG_PRIVATE HG_HOT struct hg_handle *hg_serve_next(struct hg_context *context)
{
    struct na_completion *done =
        na_queue_pop(context->queue, 1u << NA_LANE_CALL);

    if (done == NULL)
        return NULL;
    atomic_store_explicit(
        &hg_handle_of(done)->executed, hg_monitor_self(), memory_order_relaxed);
    return hg_handle_of(done);
}

HG_PRIVATE HG_HOT void hg_serve_call(struct hg_handle *handle)
{
    HG_ASSERT(hg_monitor_entered == 0);
    if (HG_UNLIKELY(hg_handle_is_over(handle))) {
        hg_serve_pass_over(handle);
        return;
    }
    hg_serve_execute(handle);
    atomic_store_explicit(&handle->executed, NULL, memory_order_relaxed);
    hg_handle_unref(handle);
}

HG_PRIVATE bool hg_serve_is_executing(struct hg_context *context)
{
    const struct na_link *link;

    hg_handle_collect(context);
    link = context->targets.next;
    while (link != &context->targets &&
        atomic_load(&HG_CONTAINER_OF(link, struct hg_handle, link)->executed) ==
            NULL)
        link = link->next;
    return link != &context->targets;
}

/* Entry of the CALL lane. */
static void hg_serve_run(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    atomic_store_explicit(
        &handle->executed, hg_monitor_self(), memory_order_relaxed);
    hg_leave(lock);
    hg_serve_call(handle);
    hg_enter(lock);
}

/* Step of the internal lane: answer without executing the call. */
static void hg_serve_run_refusal(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;
    char words[HG_ERROR_TEXT_MAX];

    hg_leave(lock);
    if (hg_handle_is_over(handle)) {
        hg_serve_pass_over(handle);
    } else {
        (void) hg_serve_enter(handle);
        (void) hg_serve_respond_error(handle, handle->ret,
            hg_serve_reason(handle, handle->ret, words, sizeof(words)));
        (void) hg_serve_free(handle);
        hg_handle_unref(handle);
    }
    hg_enter(lock);
}

static void hg_serve_push_refusal(struct hg_handle *handle, hg_return_t ret)
{
    HG_ASSERT(ret != HG_SUCCESS);
    handle->ret = ret;
    handle->refused = true;
    hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_run_refusal);
}

/* Find the function: a registered one, or one of the library. */
static void hg_serve_find(struct hg_handle *handle, hg_id_t id)
{
    struct hg_class *hg_class = handle->context->hg_class;
    const struct hg_rpc *rpc = hg_registry_find(&hg_class->registry, id);
    const struct hg_rpc *builtin;

    if (HG_UNLIKELY(rpc == NULL || rpc->callback == NULL)) {
        builtin = hg_class->builtin != NULL ? hg_class->builtin(id) : NULL;
        if (builtin != NULL)
            rpc = builtin;
        else if (rpc == NULL)
            rpc = &hg_rpc_none;
    }
    handle->id = id;
    handle->rpc = rpc;
}

/* Execute a function of the library. */
static void hg_serve_execute_builtin(struct hg_handle *handle)
{
    hg_return_t ret = HG_CANCELED;

    if (hg_handle_is_over(handle)) {
        hg_serve_pass_over(handle);
        return;
    }
    if (hg_serve_enter(handle))
        ret = handle->rpc->callback(handle);
    if (ret != HG_SUCCESS && !hg_serve_is_answered(handle))
        (void) hg_serve_respond_error(
            handle, ret, hg_serve_reason_failed(handle, ret));
    (void) hg_serve_free(handle);
    hg_handle_unref(handle);
}

/* Step of the internal lane. */
static void hg_serve_run_builtin(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    hg_serve_execute_builtin(handle);
    hg_enter(lock);
}

/* The input is complete: queue the call for execution. */
static void hg_serve_push(struct hg_handle *handle)
{
    if (HG_UNLIKELY(hg_serve_is_builtin(handle)))
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_run_builtin);
    else
        hg_handle_push(handle, NA_LANE_CALL, hg_serve_run);
}

/* The lock is not held. */
static void hg_serve_fetched(struct hg_handle *handle, hg_return_t ret)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(handle->state == HG_HANDLE_FETCHING);
    atomic_store(&handle->state, HG_HANDLE_QUEUED);
    if (handle->one_way && ret == HG_SUCCESS)
        hg_serve_send_code(handle, HG_SUCCESS, NULL);
    hg_enter(context->lock);
    if (ret != HG_SUCCESS) {
        hg_serve_push_refusal(handle, ret);
    } else {
        handle->in_args.data = handle->in_large.data;
        handle->in_args.size = handle->in_large.size;
        hg_handle_count(context, HG_COUNT_INPUTS_FETCHED);
        hg_serve_push(handle);
    }
    hg_leave(context->lock);
}

static void hg_serve_fetch(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    hg_overflow_fetch(handle, &handle->in_large, handle->in_args.data,
        handle->in_args.size, hg_serve_fetched);
    hg_enter(lock);
}

/* Count a call for its peer, or decide to refuse it. False: the peer has too
 * many unsent refusals as well. The lock is held. */
static bool hg_serve_admit(struct hg_handle *handle, bool refused)
{
    struct hg_context *context = handle->context;
    struct hg_limit *limits = context->hg_class->limits;

    handle->counted_as = HG_LIMIT_CALLS;
    handle->refused = refused || hg_serve_is_ending(context) ||
        !hg_limit_take(limits, handle->addr, HG_LIMIT_CALLS, 1);
    handle->refused_early = handle->refused;
    handle->counted = !handle->refused;
    return !handle->refused ||
        hg_limit_fits(limits, handle->addr, HG_LIMIT_REFUSALS, 1);
}

/* Set the origin and the function of a call. The lock is held, since others
 * search for the call. */
static void hg_serve_identify(
    struct hg_handle *handle, const struct hg_header *header)
{
    hg_serve_find(handle, header->rpc_id);
    handle->target = true;
    handle->one_way = (header->flags & HG_HEADER_ONE_WAY) != 0;
    handle->ack_fetch = handle->one_way &&
        ((header->flags & HG_HEADER_LARGE) != 0 || handle->addr->self);
    handle->sequence = header->sequence;
    handle->began = hg_clock_ticks();
    handle->trace_id = header->trace_id;
    atomic_store_explicit(
        &handle->peer_context, header->origin_context, memory_order_relaxed);
}

/* The code of a refusal: the limit is reached, or the context accepts no more
 * calls. A context that was unposted answers HG_CANCELED; a class that was
 * drained before keeps its answer. */
static hg_return_t hg_serve_why_refused(struct hg_context *context)
{
    return context->callbacks && atomic_load(&context->closing) &&
            !atomic_load(&context->hg_class->draining)
        ? HG_CANCELED
        : HG_AGAIN;
}

/* The peer sends more calls than are accepted, and does not read answers: end
 * its connection. */
static HG_NOINLINE void hg_serve_end_peer(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    hg_handle_count_locked(context, HG_COUNT_REQUESTS_RECEIVED, 1);
    hg_handle_count(context, HG_COUNT_TURNED_AWAY);
    hg_handle_count(context, HG_COUNT_DROPPED);
    hg_log_warning("rpc",
        "%s sends more calls than are accepted and does not read answers: the "
        "connection ends",
        hg_handle_peer(handle));
    na_addr_abandon(handle->addr);
    hg_handle_unref_locked(handle);
}

/* Create a handle for a request, on the list of incoming calls, with two
 * references: one for its step in the queue, one for the application, which
 * hg_serve_free releases. A call beyond its peer's share gets a handle, too, to
 * be refused. With HG_SUCCESS and no handle, the peer has too many unsent
 * refusals (logged). */
static hg_return_t hg_serve_new(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, bool refused,
    struct hg_handle **handle_p)
{
    struct hg_handle *handle;

    HG_ASSERT(hg_is_inside(context->lock));
    handle = hg_handle_get(context);
    if (handle == NULL) { /* logged; a caller in this process gets HG_NOMEM */
        na_addr_abandon(source);
        return source->self ? HG_NOMEM : HG_SUCCESS;
    }
    hg_handle_set_addr(handle, source);
    if (HG_UNLIKELY(!hg_serve_admit(handle, refused))) {
        hg_serve_end_peer(handle);
        return HG_SUCCESS;
    }
    hg_handle_hand_over(handle, true);
    hg_serve_identify(handle, header);
    if (!refused)
        hg_handle_count_locked(context, HG_COUNT_REQUESTS_RECEIVED, 1);
    atomic_store_explicit(
        &handle->state, HG_HANDLE_QUEUED, memory_order_relaxed);
    hg_list_push(&context->targets, &handle->link);
    if (hg_watch_is_on(context->hg_class))
        hg_watch_arrive(handle);
    if (header->time_left != 0)
        handle->deadline = hg_clock_after_ms(header->time_left);
    *handle_p = handle;
    return HG_SUCCESS;
}

/* Whether the types of both sides are known and differ (logged). */
static HG_NOINLINE bool hg_serve_is_mistyped(
    struct hg_handle *handle, const struct hg_header *header)
{
    if (header->types == 0 || handle->rpc->fingerprint == 0)
        return false;
    handle->mistyped = true;
    hg_log_warning("rpc", "%s calls \"%s\" with other types than %s",
        hg_handle_peer(handle), hg_handle_function(handle),
        hg_registry_types(handle->rpc));
    return true;
}

/* Copy the arguments, which are read nowhere else, if the function is served
 * with these types. */
static hg_return_t hg_serve_accept(
    struct hg_handle *handle, const struct hg_header *header)
{
    size_t size = HG_HEADER_MIN + header->payload_size;
    hg_return_t ret;

    if (handle->rpc->callback == NULL) {
        hg_log_warning("rpc",
            "%s calls %016" PRIx64 " (\"%s\"), which is not served",
            hg_handle_peer(handle), header->rpc_id, hg_handle_function(handle));
        return handle->rpc->entry != NULL && handle->context->callbacks
            ? HG_INVALID_ARG
            : HG_NOENTRY;
    }
    if (HG_UNLIKELY(header->types != handle->rpc->fingerprint) &&
        hg_serve_is_mistyped(handle, header))
        return HG_PROTOCOL_ERROR;
    ret = hg_buf_reserve(&handle->in, size, size);
    if (ret != HG_SUCCESS)
        return ret;
    handle->in_args.data = handle->in.data + HG_HEADER_MIN;
    handle->in_args.size = header->payload_size;
    memcpy(
        handle->in.data + HG_HEADER_MIN, header->payload, header->payload_size);
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_serve_request(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, hg_return_t damaged)
{
    struct hg_handle *handle = NULL;
    hg_return_t ret =
        hg_serve_new(context, source, header, damaged != HG_SUCCESS, &handle);

    if (handle == NULL)
        return ret;
    if (damaged != HG_SUCCESS) {
        hg_serve_push_refusal(handle, damaged);
        return HG_SUCCESS;
    }
    if (handle->refused) {
        hg_handle_count(context, HG_COUNT_TURNED_AWAY);
        ret = hg_serve_why_refused(context);
    } else {
        ret = hg_serve_accept(handle, header);
    }
    if (ret != HG_SUCCESS) {
        hg_serve_push_refusal(handle, ret);
    } else if ((header->flags & HG_HEADER_LARGE) != 0) {
        atomic_store(&handle->state, HG_HANDLE_FETCHING);
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_fetch);
    } else {
        hg_serve_push(handle);
    }
    return HG_SUCCESS;
}

/* ---- Answering ---- */

/* Claim the answer, or HG_EXIST (logged). */
static hg_return_t hg_serve_take(struct hg_handle *handle, hg_return_t code)
{
    if (hg_serve_try_take(handle, code, HG_HANDLE_ANSWERED))
        return HG_SUCCESS;
    hg_log_error("rpc", "a call of \"%s\" was answered twice",
        hg_handle_function(handle));
    return HG_EXIST;
}

/* The answer is not sent, because the origin does not wait; `ret` is the
 * reason. */
static hg_return_t hg_serve_send_nothing(
    struct hg_handle *handle, hg_return_t ret)
{
    hg_enter(handle->context->lock);
    hg_handle_discount_locked(handle);
    hg_handle_notify_left(handle, ret);
    hg_leave(handle->context->lock);
    return HG_SUCCESS;
}

/* Send the output in handle->out, behind the header's place. */
static hg_return_t hg_serve_send_output(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    struct hg_args *args = &handle->out_args;
    struct hg_header header;
    struct hg_handle_message message = {
        &header, handle->out.data, HG_HEADER_MIN + args->size};
    bool large = !handle->addr->self &&
        message.size > context->hg_class->na_class->max_expected_size;
    hg_return_t ret;

    if (HG_UNLIKELY(na_addr_is_dead(handle->addr)))
        return hg_serve_send_nothing(handle, na_addr_state(handle->addr));
    if (HG_UNLIKELY(hg_serve_is_unwanted(handle)))
        return hg_serve_send_nothing(handle, HG_CANCELED);
    hg_handle_begin_header(handle, HG_HEADER_RESPONSE, &header);
    header.flags = args->raw ? HG_HEADER_RAW : 0;
    header.payload_size = args->size;
    if (HG_UNLIKELY(large)) {
        ret = hg_overflow_hold(handle, &message);
        if (ret == HG_CANCELED)
            return hg_serve_send_nothing(handle, ret);
        if (ret != HG_SUCCESS)
            return ret;
    }
    hg_handle_seal(handle, &message);
    ret = hg_handle_send(handle, &message);
    if (ret != HG_SUCCESS && large)
        hg_overflow_take_back(handle);
    if (ret != HG_SUCCESS && na_addr_is_dead(handle->addr))
        return hg_serve_send_nothing(handle, ret);
    return ret;
}

/* Encoding the output ended with `ret`: send it. If it cannot be encoded or
 * sent, send a code. */
static hg_return_t hg_serve_finish(struct hg_handle *handle, hg_return_t ret)
{
    if (ret == HG_SUCCESS)
        ret = hg_serve_send_output(handle);
    if (ret != HG_SUCCESS && !na_addr_is_dead(handle->addr))
        hg_serve_send_code(handle, ret, NULL);
    return ret;
}

HG_PRIVATE hg_return_t hg_serve_respond_notify(struct hg_handle *handle,
    void *data, hg_handle_left_t left, hg_cb_t callback, void *arg)
{
    hg_return_t ret = hg_serve_take(handle, HG_SUCCESS);

    if (ret != HG_SUCCESS)
        return ret;
    handle->call.callback = callback;
    handle->call.arg = arg;
    if (callback != NULL) {
        handle->left = left;
        hg_handle_ref(handle);
    }
    ret = hg_handle_encode(handle, data);
    if (ret == HG_SUCCESS)
        ret = hg_serve_send_output(handle);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    /* The callback was not run. */
    HG_ASSERT(callback == NULL || handle->left == left);
    handle->left = NULL;
    hg_cancel_reopen(handle);
    if (callback != NULL)
        hg_handle_unref(handle);
    return ret;
}

HG_PRIVATE hg_return_t hg_serve_respond(
    struct hg_handle *handle, hg_return_t code, void *data)
{
    hg_return_t ret = hg_serve_take(handle, code);

    if (ret != HG_SUCCESS)
        return ret;
    if (code == HG_SUCCESS && !handle->one_way)
        return hg_serve_finish(handle, hg_handle_encode(handle, data));
    hg_serve_send_code(handle, code, NULL);
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_serve_respond_error(
    struct hg_handle *handle, hg_return_t code, const char *text)
{
    hg_return_t ret = hg_serve_take(handle, code);

    if (ret == HG_SUCCESS)
        hg_serve_send_code(handle, code, text);
    return ret;
}

HG_PRIVATE hg_return_t hg_serve_output_buf(
    struct hg_handle *handle, void **buf_p, size_t *size_p)
{
    hg_return_t ret;

    if (hg_serve_is_answered(handle)) { /* the buffer holds the sent message */
        hg_log_error("rpc", "the output of \"%s\" was already sent",
            hg_handle_function(handle));
        return HG_EXIST;
    }
    ret = hg_buf_reserve(&handle->out, HG_HEADER_MIN + HG_SERVE_RAW_SIZE,
        HG_HEADER_MIN + HG_SERVE_RAW_SIZE);
    if (ret != HG_SUCCESS)
        return ret;
    if (handle->raw_size == 0)
        memset(handle->out.data + HG_HEADER_MIN, 0, HG_SERVE_RAW_SIZE);
    handle->raw_size = HG_SERVE_RAW_SIZE;
    *buf_p = handle->out.data + HG_HEADER_MIN;
    *size_p = handle->raw_size;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_serve_respond_raw(
    struct hg_handle *handle, const void *extra, size_t extra_size)
{
    size_t size = extra != NULL ? extra_size : handle->raw_size;
    size_t limit = handle->context->hg_class->options.max_args_size;
    hg_return_t ret;

    if (extra == NULL && extra_size != 0) {
        hg_log_error("rpc",
            "the output of \"%s\" has %zu bytes, but the buffer is NULL",
            hg_handle_function(handle), extra_size);
        return HG_INVALID_ARG;
    }
    if (extra_size > limit) {
        hg_log_error("rpc",
            "the output of \"%s\" has %zu bytes and exceeds the limit of %zu",
            hg_handle_function(handle), extra_size, limit);
        return HG_MSGSIZE;
    }
    ret = hg_serve_take(handle, HG_SUCCESS);
    if (ret != HG_SUCCESS || handle->one_way)
        return ret;
    ret = hg_buf_reserve(
        &handle->out, HG_HEADER_MIN + size, HG_HEADER_MIN + size);
    if (ret != HG_SUCCESS)
        return hg_serve_finish(handle, ret);
    if (extra != NULL && size > 0) /* it may be in the same buffer */
        memmove(handle->out.data + HG_HEADER_MIN, extra, size);
    handle->out_args.data = handle->out.data + HG_HEADER_MIN;
    handle->out_args.size = size;
    handle->out_args.raw = true;
    return hg_serve_finish(handle, HG_SUCCESS);
}

/* ---- Letting go ---- */

/* Whether the application has the handle: it was passed to it and not freed. */
static bool hg_serve_is_given(struct hg_handle *handle)
{
    enum hg_handle_state state = atomic_load(&handle->state);

    return (state == HG_HANDLE_ARRIVED || state == HG_HANDLE_ANSWERED) &&
        hg_handle_given(handle) > 0;
}

HG_PRIVATE HG_HOT hg_return_t hg_serve_free(struct hg_handle *handle)
{
    /* A handle in the pool has another state. A handle that already serves
     * another call cannot be detected: that call ends. */
    if (HG_LIKELY(
            hg_serve_is_given(handle) && hg_handle_take_back(handle, false)))
        return HG_SUCCESS;
    hg_log_error("rpc", "a handle was freed twice");
    return HG_INVALID_ARG;
}

/* The first handle that the application has, with a new reference. */
static struct hg_handle *hg_serve_first_arrived(struct hg_context *context)
{
    struct hg_handle *found = NULL;
    struct na_link *link;

    hg_enter(context->lock);
    for (link = context->targets.next;
         link != &context->targets && found == NULL; link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        if (hg_serve_is_given(handle))
            found = handle;
    }
    if (found != NULL)
        hg_handle_ref(found);
    hg_leave(context->lock);
    return found;
}

HG_PRIVATE void hg_serve_log_unanswered(struct hg_context *context)
{
    const struct na_link *link;
    char function[NA_MAX_ADDR_LEN] = "";
    char peer[NA_MAX_ADDR_LEN] = "";
    unsigned count = 0;

    hg_enter(context->lock);
    for (link = context->targets.next; link != &context->targets;
         link = link->next) {
        const struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        if (handle->state != HG_HANDLE_ARRIVED || count++ > 0)
            continue;
        (void) snprintf(
            function, sizeof(function), "%s", hg_handle_function(handle));
        (void) snprintf(peer, sizeof(peer), "%s", hg_handle_peer(handle));
    }
    hg_leave(context->lock);
    if (count > 0)
        hg_log_error("ctx",
            "%u calls were never answered, the first of \"%s\" from %s: a "
            "handler answers, frees its handle or fails",
            count, function, peer);
}

HG_PRIVATE bool hg_serve_has_calls(struct hg_context *context)
{
    const struct na_link *link;

    HG_ASSERT(hg_is_inside(context->lock));
    hg_handle_collect(context);
    link = context->targets.next;
    while (link != &context->targets &&
        HG_CONTAINER_OF(link, struct hg_handle, link)->refused_early)
        link = link->next;
    return link != &context->targets;
}

HG_PRIVATE void hg_serve_end_all(struct hg_context *context)
{
    struct hg_handle *handle;

    while ((handle = hg_serve_first_arrived(context)) != NULL) {
        (void) hg_serve_free(handle);
        hg_handle_unref(handle);
    }
}
