/* SPDX-License-Identifier: BSD-3-Clause */
/* serve: see serve.h. */
#include "hg/serve.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/crc64.h"
#include "hg/overflow.h"
#include "na/addr.h"
#include "na/sink.h"

/* The buffer given for an output encoded by hand. */
#define HG_SERVE_RAW_SIZE 4096

/* ---- Arrival ---- */

/* A handle came out of the queue. False: the layer is ending, so it is not to
 * be executed any more. */
static bool hg_serve_enter(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    bool open;

    hg_lock(&context->lock);
    assert(handle->state == HG_HANDLE_QUEUED);
    handle->state = HG_HANDLE_ARRIVED;
    open = !context->closing;
    hg_unlock(&context->lock);
    return open;
}

/* Entry of the CALL lane: run the handler. */
static void hg_serve_run(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_context *context = handle->context;
    hg_return_t ret;
    bool answered;
    bool freed;

    if (!hg_serve_enter(handle)) {
        (void) hg_serve_free(handle);
        return;
    }
    hg_handle_ref(handle); /* the handler may free its own */
    ret = handle->rpc.callback(handle);
    if (ret != HG_SUCCESS && hg_handle_result(ret) != ret) {
        hg_log_error("rpc",
            "the handler of \"%s\" returns %d (%s), which is no result",
            hg_handle_function(handle), ret, HG_Error_to_string(ret));
        ret = HG_OTHER_ERROR;
    }
    if (ret != HG_SUCCESS) {
        hg_lock(&context->lock);
        answered = handle->state == HG_HANDLE_ANSWERED;
        freed = handle->freed;
        hg_unlock(&context->lock);
        if (answered)
            hg_log_error("rpc",
                "the handler of \"%s\" answered and then "
                "failed: %s",
                hg_handle_function(handle), HG_Error_to_string(ret));
        else
            (void) hg_serve_respond(handle, ret, NULL);
        if (!answered && !freed)
            (void) hg_serve_free(handle);
    }
    hg_handle_unref(handle);
}

/* Step from the internal lane: answer without executing. */
static void hg_serve_run_refusal(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);

    (void) hg_serve_enter(handle);
    (void) hg_serve_respond(handle, handle->ret, NULL);
    (void) hg_serve_free(handle);
}

static void hg_serve_push_refusal(struct hg_handle *handle, hg_return_t ret)
{
    assert(ret != HG_SUCCESS);
    handle->ret = ret;
    handle->refused = true;
    hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_run_refusal);
}

static void hg_serve_fetched(struct hg_handle *handle, hg_return_t ret)
{
    struct hg_context *context = handle->context;

    hg_lock(&context->lock);
    assert(handle->state == HG_HANDLE_FETCHING);
    handle->state = HG_HANDLE_QUEUED;
    hg_unlock(&context->lock);
    if (ret != HG_SUCCESS) {
        hg_serve_push_refusal(handle, ret);
        return;
    }
    handle->in_args.data = handle->in_large.data;
    handle->in_args.size = handle->in_large.size;
    hg_handle_count(&context->hg_class->inputs_fetched);
    hg_handle_push(handle, NA_LANE_CALL, hg_serve_run);
}

static void hg_serve_fetch(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);

    hg_overflow_fetch(handle, &handle->in_large, handle->in_args.data,
        handle->in_args.size, hg_serve_fetched);
}

/* A handle for a request, in the table of unanswered ones. Beyond its peer's
 * share it is made all the same, to be refused. HG_AGAIN (logged): the peer
 * takes no refusals either. */
static hg_return_t hg_serve_new(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, bool refused,
    struct hg_handle **handle_p)
{
    struct hg_handle *handle = hg_handle_get(context, true);
    bool silent;

    if (handle == NULL)
        return HG_NOMEM;
    handle->target = true;
    handle->rpc.id = header->rpc_id;
    handle->sequence = header->sequence;
    handle->peer_context = header->origin_context;
    hg_handle_set_addr(handle, source);
    hg_lock(&context->lock);
    if (!refused && !context->closing)
        handle->counted =
            hg_share_take(&context->share, source, HG_SHARE_CALLS, 1);
    handle->counted_as = HG_SHARE_CALLS;
    handle->refused = !handle->counted;
    silent = handle->refused &&
        hg_share_is_full(&context->share, source, HG_SHARE_REFUSALS);
    if (!silent) {
        context->unanswered++;
        handle->state = HG_HANDLE_QUEUED;
        hg_list_push(&context->targets, &handle->link);
    }
    hg_unlock(&context->lock);
    if (silent) {
        hg_handle_count(&context->hg_class->dropped);
        hg_log_warning("rpc", "%s sends calls and takes no answers",
            hg_handle_peer(handle));
        hg_handle_unref(handle);
        return HG_AGAIN;
    }
    *handle_p = handle;
    return HG_SUCCESS;
}

/* Copy the message and find the function. */
static hg_return_t hg_serve_accept(struct hg_handle *handle,
    const struct hg_header *header, const void *message, size_t size)
{
    hg_return_t ret;

    ret = hg_registry_find(
        &handle->context->hg_class->registry, header->rpc_id, &handle->rpc);
    if (ret == HG_SUCCESS && handle->rpc.callback == NULL)
        ret = HG_NOENTRY;
    if (ret != HG_SUCCESS) {
        hg_log_warning("rpc",
            "%s calls %016" PRIx64 " (\"%s\"), which is not served",
            hg_handle_peer(handle), header->rpc_id, hg_handle_function(handle));
        return ret;
    }
    ret = hg_buf_reserve(&handle->in, size, size);
    if (ret != HG_SUCCESS)
        return ret;
    memcpy(handle->in.data, message, size);
    handle->in_args.data = handle->in.data + header->size;
    handle->in_args.size = (size_t) header->payload_size;
    handle->in_args.crc = header->args_crc;
    handle->in_args.raw = false;
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_serve_request(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, const void *message,
    size_t size)
{
    struct hg_handle *handle = NULL;
    hg_return_t ret = hg_serve_new(context, source, header, false, &handle);

    if (ret != HG_SUCCESS)
        return ret == HG_AGAIN ? HG_SUCCESS : ret;
    hg_handle_count(&context->hg_class->requests_received);
    ret = HG_AGAIN;
    if (handle->refused)
        hg_handle_count(&context->hg_class->turned_away);
    else
        ret = hg_serve_accept(handle, header, message, size);
    if (ret != HG_SUCCESS) {
        hg_serve_push_refusal(handle, ret);
    } else if ((header->flags & HG_HEADER_LARGE) != 0) {
        hg_lock(&context->lock);
        handle->state = HG_HANDLE_FETCHING;
        hg_unlock(&context->lock);
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_fetch);
    } else {
        hg_handle_push(handle, NA_LANE_CALL, hg_serve_run);
    }
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_serve_refuse(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, hg_return_t code)
{
    struct hg_handle *handle = NULL;
    hg_return_t ret = hg_serve_new(context, source, header, true, &handle);

    if (ret != HG_SUCCESS)
        return ret == HG_AGAIN ? HG_SUCCESS : ret;
    hg_serve_push_refusal(handle, code);
    return HG_SUCCESS;
}

/* ---- Answering ---- */

/* The one answer of a handle: who gets true gives it. */
static bool hg_serve_take(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    bool taken;

    hg_lock(&context->lock);
    taken = handle->state == HG_HANDLE_ARRIVED;
    if (taken) {
        handle->state = HG_HANDLE_ANSWERED;
        assert(context->unanswered > 0);
        context->unanswered--;
        if (handle->addr->self) /* nothing is sent */
            hg_handle_discount(handle);
    }
    hg_unlock(&context->lock);
    return taken;
}

/* A number for a large output. Nobody can let go of it yet. */
static hg_return_t hg_serve_number(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    hg_return_t ret;

    hg_lock(&context->lock);
    ret = hg_slots_add(&context->held, handle, &handle->held_id);
    hg_unlock(&context->lock);
    return ret;
}

/* Keep a large output until it is fetched: a reference and a timer. */
static hg_return_t hg_serve_hold(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    uint64_t until =
        hg_clock_after_ms(context->hg_class->options.output_hold_ms);
    hg_return_t ret;

    hg_lock(&context->lock);
    ret = hg_handle_set_timer(handle, until);
    handle->held = ret == HG_SUCCESS;
    if (handle->held)
        hg_handle_ref(handle);
    hg_unlock(&context->lock);
    return ret;
}

/* Nobody holds the output any more. */
static void hg_serve_let_go(struct hg_handle *handle)
{
    hg_overflow_end(handle, &handle->out_large);
    hg_handle_unref(handle);
}

static void hg_serve_run_let_go(struct na_completion *done)
{
    hg_serve_let_go(hg_handle_of(done));
}

/* Take a held output back; the lock is held. */
static bool hg_serve_take_held(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    if (!handle->held)
        return false;
    handle->held = false;
    (void) hg_slots_remove(&context->held, handle->held_id);
    hg_deadline_remove(&context->deadline, &handle->timer);
    return true;
}

static void hg_serve_fill_header(
    const struct hg_handle *handle, struct hg_header *header, hg_return_t code)
{
    memset(header, 0, sizeof(*header));
    header->type = HG_HEADER_RESPONSE;
    header->origin_context = na_sink_number(handle->context->na_context);
    header->target_context = handle->peer_context;
    header->code = code;
    header->rpc_id = handle->rpc.id;
    header->sequence = handle->sequence;
    header->incarnation = handle->context->hg_class->na_class->incarnation;
}

/* Take a held output back that could not be sent. */
static void hg_serve_take_back(struct hg_handle *handle)
{
    bool taken;

    hg_lock(&handle->context->lock);
    taken = hg_serve_take_held(handle);
    hg_unlock(&handle->context->lock);
    if (taken)
        hg_serve_let_go(handle);
}

static void hg_serve_unsent(struct hg_handle *handle, hg_return_t ret)
{
    (void) ret;
    hg_serve_take_back(handle);
}

/* Let the origin fetch an output too large for a message, and hold it. */
static hg_return_t hg_serve_offer(struct hg_handle *handle,
    struct hg_header *header, const void **message_p, size_t *size_p)
{
    struct hg_context *context = handle->context;
    hg_return_t ret = hg_serve_number(handle);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_overflow_offer(handle, &handle->out_large, &handle->out, header,
        &handle->out_args, handle->held_id, message_p, size_p);
    if (ret != HG_SUCCESS)
        goto drop_number;
    ret = hg_serve_hold(handle);
    if (ret != HG_SUCCESS)
        goto end_large;
    handle->unsent = hg_serve_unsent;
    return HG_SUCCESS;

end_large:
    hg_overflow_end(handle, &handle->out_large);
drop_number:
    hg_lock(&context->lock);
    (void) hg_slots_remove(&context->held, handle->held_id);
    hg_unlock(&context->lock);
    return ret;
}

/* Send what stands in handle->out behind the header's place. */
static hg_return_t hg_serve_send_output(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    struct hg_args *args = &handle->out_args;
    struct hg_header header;
    const void *message = handle->out.data;
    size_t size = HG_HEADER_MIN + args->size;
    bool large = !handle->addr->self &&
        size > context->hg_class->na_class->max_expected_size;
    hg_return_t ret;

    hg_serve_fill_header(handle, &header, HG_SUCCESS);
    header.args_crc = args->crc;
    header.flags = args->raw ? HG_HEADER_RAW : 0;
    if (large) {
        ret = hg_serve_offer(handle, &header, &message, &size);
        if (ret != HG_SUCCESS)
            return ret;
    } else {
        header.payload_size = args->size;
        hg_header_encode(&header, handle->out.data);
    }
    ret = hg_handle_send(handle, message, size, handle->peer_context);
    if (ret != HG_SUCCESS && large)
        hg_serve_take_back(handle);
    return ret;
}

static void hg_serve_send_code(struct hg_handle *handle, hg_return_t code)
{
    struct hg_header header;

    hg_serve_fill_header(handle, &header, code);
    if (handle->refused)
        header.flags = HG_HEADER_REFUSED;
    hg_handle_count(&handle->context->hg_class->errors_sent);
    hg_handle_send_control(handle, &header);
}

/* Send an encoded output; what cannot be sent becomes a code. */
static hg_return_t hg_serve_finish(struct hg_handle *handle)
{
    hg_return_t ret = hg_serve_send_output(handle);

    hg_handle_count(&handle->context->hg_class->responses_sent);
    if (ret == HG_SUCCESS || na_addr_is_dead(handle->addr))
        return ret;
    hg_serve_send_code(handle, ret);
    return ret;
}

HG_PRIVATE hg_return_t hg_serve_respond(
    struct hg_handle *handle, hg_return_t code, void *data)
{
    hg_return_t ret = HG_SUCCESS;

    if (!hg_serve_take(handle)) {
        hg_log_error("rpc", "a call of \"%s\" was answered twice",
            hg_handle_function(handle));
        return HG_EXIST;
    }
    handle->out_args.raw = false;
    if (code == HG_SUCCESS)
        ret = hg_handle_encode(handle, data);
    if (code == HG_SUCCESS && ret == HG_SUCCESS)
        return hg_serve_finish(handle);
    hg_handle_count(&handle->context->hg_class->responses_sent);
    hg_serve_send_code(
        handle, hg_handle_result(code != HG_SUCCESS ? code : ret));
    return ret;
}

HG_PRIVATE hg_return_t hg_serve_output_buf(
    struct hg_handle *handle, void **buf_p, size_t *size_p)
{
    hg_return_t ret = hg_buf_reserve(&handle->out,
        HG_HEADER_MIN + HG_SERVE_RAW_SIZE, HG_HEADER_MIN + HG_SERVE_RAW_SIZE);

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
    hg_return_t ret;

    if (extra == NULL && extra_size != 0) {
        hg_log_error("rpc",
            "the output of \"%s\" has %zu bytes, but the buffer is NULL",
            hg_handle_function(handle), extra_size);
        return HG_INVALID_ARG;
    }
    ret = hg_buf_reserve(
        &handle->out, HG_HEADER_MIN + size, HG_HEADER_MIN + size);
    if (ret != HG_SUCCESS)
        return ret;
    if (!hg_serve_take(handle)) {
        hg_log_error("rpc", "a call of \"%s\" was answered twice",
            hg_handle_function(handle));
        return HG_EXIST;
    }
    if (extra != NULL && size > 0)
        memcpy(handle->out.data + HG_HEADER_MIN, extra, size);
    handle->out_args.data = handle->out.data + HG_HEADER_MIN;
    handle->out_args.size = size;
    handle->out_args.crc = hg_crc64_update(0, handle->out_args.data, size);
    handle->out_args.raw = true;
    return hg_serve_finish(handle);
}

/* ---- Letting go ---- */

HG_PRIVATE hg_return_t hg_serve_free(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    bool again;
    bool unanswered;

    hg_lock(&context->lock);
    unanswered = handle->state == HG_HANDLE_ARRIVED;
    /* One that is back in the pool has another state. One that serves another
     * call by now is not told from it: that call is ended. */
    again =
        handle->freed || (!unanswered && handle->state != HG_HANDLE_ANSWERED);
    if (!again) {
        handle->freed = true;
        hg_list_remove(&handle->link);
    }
    hg_unlock(&context->lock);
    if (again) {
        hg_log_error("rpc", "a handle was freed twice");
        return HG_INVALID_ARG;
    }
    if (unanswered)
        (void) hg_serve_respond(handle, HG_CANCELED, NULL);
    hg_overflow_end(handle, &handle->in_large);
    hg_handle_unref(handle);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_serve_acknowledged(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header)
{
    struct hg_handle *handle;

    hg_lock(&context->lock);
    handle =
        (struct hg_handle *) hg_slots_get(&context->held, header->sequence);
    if (handle != NULL && !na_addr_same(handle->addr, source))
        handle = NULL;
    if (handle != NULL && !hg_serve_take_held(handle))
        handle = NULL;
    hg_unlock(&context->lock);
    if (handle == NULL)
        hg_handle_count(&context->hg_class->late);
    else /* a transport's own withdrawing may wait, which the sink must not */
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_run_let_go);
}

HG_PRIVATE void hg_serve_expired(struct hg_handle *handle)
{
    bool taken;

    hg_lock(&handle->context->lock);
    taken = hg_serve_take_held(handle);
    hg_unlock(&handle->context->lock);
    if (!taken) { /* it was the input's */
        hg_overflow_expired(handle);
        return;
    }
    hg_log_warning("rpc", "%s did not fetch the output of \"%s\" in time",
        hg_handle_peer(handle), hg_handle_function(handle));
    hg_serve_let_go(handle);
}

HG_PRIVATE void hg_serve_release_held(
    struct hg_context *context, const struct na_addr *addr)
{
    uint32_t cursor = 0;
    struct hg_handle *handle;
    uint64_t id;

    hg_lock(&context->lock);
    while ((handle = (struct hg_handle *) hg_slots_next(
                &context->held, &cursor, &id)) != NULL) {
        if (addr != NULL && handle->addr != addr)
            continue;
        if (hg_serve_take_held(handle))
            hg_handle_push(handle, NA_LANE_INTERNAL, hg_serve_run_let_go);
    }
    hg_unlock(&context->lock);
}

/* The first handle that the application has; with a reference. */
static struct hg_handle *hg_serve_first_arrived(struct hg_context *context)
{
    struct hg_handle *found = NULL;
    struct na_link *link;

    hg_lock(&context->lock);
    for (link = context->targets.next;
         link != &context->targets && found == NULL; link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        if (handle->state == HG_HANDLE_ARRIVED ||
            handle->state == HG_HANDLE_ANSWERED)
            found = handle;
    }
    if (found != NULL)
        hg_handle_ref(found);
    hg_unlock(&context->lock);
    return found;
}

HG_PRIVATE unsigned hg_serve_count_unanswered(struct hg_context *context)
{
    const struct na_link *link;
    unsigned count = 0;

    hg_lock(&context->lock);
    for (link = context->targets.next; link != &context->targets;
         link = link->next) {
        if (HG_CONTAINER_OF(link, struct hg_handle, link)->state ==
            HG_HANDLE_ARRIVED)
            count++;
    }
    hg_unlock(&context->lock);
    return count;
}

HG_PRIVATE void hg_serve_end_all(struct hg_context *context)
{
    struct hg_handle *handle;

    while ((handle = hg_serve_first_arrived(context)) != NULL) {
        (void) hg_serve_free(handle);
        hg_handle_unref(handle);
    }
}
