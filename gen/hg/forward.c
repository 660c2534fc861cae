/* SPDX-License-Identifier: BSD-3-Clause */
/* forward: see forward.h. */
#include "hg/forward.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/overflow.h"
#include "hg/watch.h"
#include "na/addr.h"

/* A target's window grows by one call for this many answered calls. */
#define HG_FORWARD_STEPS 32u

/* Get an origin handle of the context. The lock is held, but released while
 * memory is allocated. */
static HG_HOT struct hg_handle *hg_forward_make(
    struct hg_context *context, struct na_addr *addr, const struct hg_rpc *rpc)
{
    struct hg_handle *handle = hg_handle_get(context);

    if (handle == NULL)
        return NULL;
    handle->id = rpc->id;
    handle->rpc = rpc;
    if (addr != NULL)
        hg_handle_set_addr(handle, addr);
    hg_list_push(&context->origins, &handle->link);
    return handle;
}

/* Give the handle a number in the table of sequences, unless it has one. The
 * lock is held. */
static hg_return_t hg_forward_place(struct hg_handle *handle)
{
    return handle->number != 0
        ? HG_SUCCESS
        : hg_slots_add(&handle->context->sequences, handle, &handle->number);
}

/* Number and count a new call of the handle. Nothing can end it yet. HG_AGAIN:
 * the number of calls or their bytes in flight are at the limit. The lock is
 * held. */
static HG_HOT hg_return_t hg_forward_enter(struct hg_handle *handle)
{
    struct hg_class *hg_class = handle->context->hg_class;
    hg_return_t ret;

    HG_ASSERT(!handle->target && handle->weight == 0);
    if (hg_class->in_flight >= hg_class->options.max_in_flight ||
        !hg_limit_fits(
            hg_class->limits, handle->addr, HG_LIMIT_IN_FLIGHT, HG_LIMIT_CALL))
        return HG_AGAIN;
    ret = hg_forward_place(handle);
    if (ret != HG_SUCCESS)
        return ret;
    handle->weight = HG_LIMIT_CALL;
    hg_limit_add(
        hg_class->limits, handle->addr, HG_LIMIT_IN_FLIGHT, handle->weight);
    handle->sequence = handle->number;
    handle->in_flight = true;
    hg_class->in_flight++;
    hg_handle_count_locked(handle->context, HG_COUNT_REQUESTS_SENT, 1);
    return HG_SUCCESS;
}

/* Uncount a call in flight. The lock is held. */
static inline void hg_forward_leave(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    struct hg_class *hg_class = context->hg_class;

    HG_ASSERT(handle->in_flight && hg_class->in_flight > 0);
    handle->in_flight = false;
    hg_class->in_flight--;
    hg_limit_give(
        hg_class->limits, handle->addr, HG_LIMIT_IN_FLIGHT, handle->weight);
    handle->weight = 0;
    if (HG_UNLIKELY(context->quota_waits > 0))
        na_queue_raise(context->queue, &context->quota_changed);
}

/* Only a warning, because the application may retry. */
static void hg_forward_log_limit(struct hg_context *context)
{
    const struct hg_options *options = &context->hg_class->options;

    HG_LOG_EXPLAIN(HG_LOG_LEVEL_WARNING, "rpc",
        "no more than %u calls may be in flight, of %zu bytes",
        options->max_in_flight, options->max_in_flight_bytes);
}

/* Log why a call could not start. */
static inline hg_return_t hg_forward_refuse(
    struct hg_context *context, hg_return_t ret)
{
    if (HG_UNLIKELY(ret == HG_AGAIN))
        hg_forward_log_limit(context);
    return ret;
}

HG_PRIVATE const struct hg_rpc *hg_forward_find(
    struct hg_context *context, hg_id_t id, const char *function)
{
    const struct hg_rpc *rpc =
        hg_registry_find(&context->hg_class->registry, id);

    if (rpc == NULL)
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_ERROR, "rpc",
            "%s: id %016" PRIx64 " is not registered", function, id);
    return rpc;
}

HG_PRIVATE HG_HOT hg_return_t hg_forward_encode(
    const struct hg_context *context, struct na_addr *addr,
    const struct hg_rpc *rpc, void *data, struct hg_buf *buf, size_t *size_p)
{
    const struct hg_class *hg_class = context->hg_class;
    struct hg_proc proc;
    hg_return_t ret = hg_proc_init_encode(&proc, buf, HG_HEADER_MIN,
        HG_HEADER_MIN + hg_class->options.max_args_size);

    proc.layer = hg_class->layer;
    proc.function = rpc->name;
    proc.addr = addr;
    if (ret == HG_SUCCESS && rpc->in_proc != NULL && data != NULL)
        ret = rpc->in_proc(&proc, data);
    return hg_proc_finish_encode(&proc, ret, size_p);
}

HG_PRIVATE HG_HOT hg_return_t hg_forward_create(struct hg_context *context,
    struct na_addr *addr, const struct hg_rpc *rpc, struct hg_handle **handle_p)
{
    struct hg_handle *handle = hg_forward_make(context, addr, rpc);
    hg_return_t ret = handle != NULL ? hg_forward_enter(handle) : HG_NOMEM;

    if (HG_LIKELY(ret == HG_SUCCESS))
        *handle_p = handle;
    else if (handle != NULL)
        hg_handle_unref_locked(handle);
    return hg_forward_refuse(context, ret);
}

HG_PRIVATE struct hg_handle *hg_forward_new(
    struct hg_context *context, struct na_addr *addr, const struct hg_rpc *rpc)
{
    struct hg_handle *handle;

    hg_enter(context->lock);
    handle = hg_forward_make(context, addr, rpc);
    hg_leave(context->lock);
    return handle;
}

HG_PRIVATE bool hg_forward_is_under_way(struct hg_handle *handle)
{
    return handle->state != HG_HANDLE_IDLE;
}

HG_PRIVATE hg_return_t hg_forward_claim(
    struct hg_handle *handle, const char *function)
{
    enum hg_handle_state state = HG_HANDLE_IDLE;

    if (HG_LIKELY(atomic_compare_exchange_strong(
            &handle->state, &state, HG_HANDLE_CLAIMED)))
        return HG_SUCCESS;
    (void) hg_log_misuse("rpc", function, "the handle's call is not over");
    return HG_BUSY;
}

HG_PRIVATE hg_return_t hg_forward_number(struct hg_handle *handle)
{
    HG_ASSERT(handle->state == HG_HANDLE_CLAIMED);
    return hg_forward_refuse(handle->context, hg_forward_enter(handle));
}

HG_PRIVATE void hg_forward_forget(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(hg_is_inside(context->lock));
    if (handle->in_flight) { /* the call was not sent */
        hg_forward_leave(handle);
        hg_handle_count_locked(context, HG_COUNT_REQUESTS_SENT, -1);
    }
    if (handle->number != 0)
        handle->number = hg_slots_renew(&context->sequences, handle->number);
    atomic_store_explicit(&handle->state, HG_HANDLE_IDLE, memory_order_release);
}

/* ---- The table of calls in flight ---- */

/* Remove a call from the table of calls in flight. The caller that gets true
 * ends the call, or fetches its output first; the deadline still applies to the
 * fetch. The lock is held. */
static HG_HOT bool hg_forward_take_to(
    struct hg_handle *handle, enum hg_handle_state state)
{
    struct hg_context *context = handle->context;

    if (handle->state != HG_HANDLE_SENT)
        return false;
    atomic_store_explicit(&handle->state, state, memory_order_release);
    hg_forward_leave(handle);
    if (state == HG_HANDLE_ENDED)
        hg_deadline_remove(&context->deadline, &handle->timer);
    return true;
}

static bool hg_forward_take(struct hg_handle *handle)
{
    return hg_forward_take_to(handle, HG_HANDLE_ENDED);
}

/* Entry of the queue: the call has its result. The lock is held. */
static void hg_forward_run(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_context *context = handle->context;
    bool watched = hg_watch_is_on(context->hg_class);

    HG_ASSERT(handle->state == HG_HANDLE_ENDED);
    if (HG_UNLIKELY(handle->large || watched)) {
        hg_leave(context->lock);
        hg_overflow_end(handle, &handle->in_large);
        if (watched)
            hg_watch_complete(handle);
        hg_enter(context->lock);
    }
    handle->callback(handle, handle->arg); /* it owns the handle now */
}

/* Text for the result of a call that this side ended. */
static const char *hg_forward_reason(hg_return_t ret)
{
    switch (ret) {
    case HG_TIMEOUT: return "it timed out";
    case HG_CANCELED: return "it was canceled";
    case HG_DISCONNECT: return "the peer disconnected";
    case HG_HOSTUNREACH: return "the peer cannot be reached";
    default: return NULL;
    }
}

/* Deliver the final result of a call that was taken out. The lock is held. */
static void hg_forward_deliver(struct hg_handle *handle, hg_return_t ret)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(hg_is_inside(context->lock));
    handle->ret = ret;
    /* No application code runs, so the result need not be queued. */
    if (HG_LIKELY(!context->callbacks && !handle->large &&
            !hg_watch_is_on(context->hg_class)))
        handle->callback(handle, handle->arg);
    else
        hg_handle_push(handle, NA_LANE_DONE, hg_forward_run);
}

static void hg_forward_finish(struct hg_handle *handle, hg_return_t ret)
{
    hg_forward_deliver(handle, hg_handle_result(ret));
}

/* ---- Starting ---- */

/* Take out the call with that number. False: that call has ended, and the
 * handle may have a new call. Used when the message was sent, or could not be
 * sent. */
static bool hg_forward_take_numbered(
    struct hg_handle *handle, uint64_t sequence)
{
    HG_ASSERT(hg_is_inside(handle->context->lock));
    return handle->sequence == sequence && hg_forward_take(handle);
}

/* A one-way call ends when it has been sent. If it could not be sent,
 * hg_forward_unsent ends it. */
static void hg_forward_left(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    if (ret == HG_SUCCESS && hg_forward_take_numbered(handle, sequence))
        hg_forward_finish(handle, HG_SUCCESS);
}

/* Expose arguments that are too large for a message. Without the lock. */
static HG_NOINLINE hg_return_t hg_forward_offer(
    struct hg_handle *handle, struct hg_handle_message *message)
{
    struct hg_monitor *lock = handle->context->lock;
    hg_return_t ret = HG_SUCCESS;

    hg_leave(lock);
    if (message->data != handle->in.data) {
        ret = hg_buf_reserve(&handle->in, message->size, message->size);
        if (ret == HG_SUCCESS)
            memcpy(handle->in.data, message->data, message->size);
    }
    if (ret == HG_SUCCESS)
        ret = hg_overflow_offer(
            handle, &handle->in_large, &handle->in, &handle->in_args, message);
    hg_enter(lock);
    return ret;
}

/* Write the header, or expose arguments that are too large. */
static hg_return_t hg_forward_prepare(
    struct hg_handle *handle, struct hg_handle_message *message)
{
    struct hg_class *hg_class = handle->context->hg_class;
    struct hg_header *header = message->header;
    hg_return_t ret = HG_SUCCESS;

    hg_handle_begin_header(handle, HG_HEADER_REQUEST, header);
    if (handle->one_way)
        header->flags = HG_HEADER_ONE_WAY;
    header->types = handle->rpc->fingerprint;
    header->trace_id = handle->trace_id;
    header->payload_size = handle->in_args.size;
    if (handle->deadline != 0) {
        uint32_t left = hg_handle_time_left(handle);

        header->time_left = left > 0 ? left : 1;
    }
    /* An exposed input ends when it was fetched, and a call to the own process
     * when its handler is done. */
    if (!handle->addr->self &&
        message->size > hg_class->na_class->max_unexpected_size)
        ret = hg_forward_offer(handle, message);
    else if (handle->one_way && !handle->addr->self)
        handle->left = hg_forward_left;
    if (ret == HG_SUCCESS)
        hg_handle_seal(handle, message);
    return ret;
}

/* The request could not be sent: end the call, unless it has ended. */
static void hg_forward_unsent(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    if (!hg_forward_take_numbered(handle, sequence))
        return;
    handle->text = hg_forward_reason(ret);
    hg_forward_finish(handle, ret);
}

/* Count `more` bytes for a call. Bytes counted for it before are not counted as
 * another call's. False: that exceeds the limit. The lock is held. */
static bool hg_forward_grow(struct hg_handle *handle, uint64_t more)
{
    struct hg_limit *limits = handle->context->hg_class->limits;
    bool fits;

    hg_limit_give(limits, handle->addr, HG_LIMIT_IN_FLIGHT, handle->weight);
    fits = hg_limit_fits(
        limits, handle->addr, HG_LIMIT_IN_FLIGHT, handle->weight + more);
    if (fits)
        handle->weight += more;
    hg_limit_add(limits, handle->addr, HG_LIMIT_IN_FLIGHT, handle->weight);
    return fits;
}

/* Before a call starts: count what its message exceeds a small one by, and set
 * its timer. The lock is held. */
static HG_NOINLINE hg_return_t hg_forward_admit(
    struct hg_handle *handle, size_t size)
{
    if (size > HG_LIMIT_SMALL &&
        !hg_forward_grow(handle, size - HG_LIMIT_SMALL))
        return HG_AGAIN;
    return handle->deadline != 0 ? hg_handle_set_timer(handle, handle->deadline)
                                 : HG_SUCCESS;
}

/* Start the call: from now on any event may end it. HG_NOMEM, HG_AGAIN: it did
 * not start. `size` is the size of its message. */
static hg_return_t hg_forward_begin(struct hg_handle *handle, size_t size)
{
    hg_return_t ret;

    HG_ASSERT(handle->in_flight && handle->timer.index == 0);
    ret = HG_LIKELY(handle->deadline == 0 && size <= HG_LIMIT_SMALL)
        ? HG_SUCCESS
        : hg_forward_admit(handle, size);
    if (HG_LIKELY(ret == HG_SUCCESS))
        atomic_store_explicit(
            &handle->state, HG_HANDLE_SENT, memory_order_release);
    return hg_forward_refuse(handle->context, ret);
}

/* The application forwards the call: set its start time and its trace. */
static hg_return_t hg_forward_announce(struct hg_handle *handle)
{
    const struct hg_class *hg_class = handle->context->hg_class;
    hg_return_t ret;

    handle->began = hg_clock_ticks();
    hg_watch_trace(handle);
    if (HG_LIKELY(!hg_watch_is_on(hg_class)))
        return HG_SUCCESS;
    hg_leave(handle->context->lock);
    ret = hg_watch_forward(handle);
    hg_enter(handle->context->lock);
    return ret;
}

/* Start the call and send its message. On error it has not started. The lock is
 * held. */
static hg_return_t hg_forward_launch(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    uint64_t sequence = handle->sequence;
    hg_return_t ret = hg_forward_begin(handle, message->size);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_handle_send_locked(handle, message);
    if (HG_LIKELY(ret == HG_SUCCESS))
        return HG_SUCCESS;
    if (handle->context->callbacks) {
        hg_forward_unsent(handle, sequence, ret);
        return HG_SUCCESS;
    }
    if (!hg_forward_take(handle))
        return HG_SUCCESS; /* it ended meanwhile, and the callback reports it */
    hg_handle_count_locked(handle->context, HG_COUNT_REQUESTS_SENT, -1);
    return ret;
}

HG_PRIVATE HG_HOT hg_return_t hg_forward_start(struct hg_handle *handle,
    struct hg_buf *buf, void (*callback)(struct hg_handle *handle, void *arg),
    void *arg)
{
    struct hg_header header;
    struct hg_handle_message message = {
        &header, buf->data, HG_HEADER_MIN + handle->in_args.size};
    hg_return_t ret;

    HG_ASSERT(!handle->target && hg_is_inside(handle->context->lock));
    ret = na_addr_state(handle->addr);
    if (ret != HG_SUCCESS) {
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_WARNING, "rpc",
            "\"%s\" cannot be called: %s is dead: %s; look it up again",
            hg_handle_function(handle), hg_handle_peer(handle),
            HG_Error_to_string(ret));
        /* In the callback model the callback reports it. */
        if (!handle->context->callbacks)
            return ret;
    }
    handle->deadline =
        handle->timeout != 0 ? hg_clock_after_ms(handle->timeout) : 0;
    ret = hg_forward_announce(handle);
    if (ret != HG_SUCCESS)
        return ret;
    if (buf != &handle->in && !buf->on_stack) {
        struct hg_buf before = handle->in;

        handle->in = *buf;
        *buf = before;
    }
    ret = hg_forward_prepare(handle, &message);
    if (ret != HG_SUCCESS)
        return ret;
    handle->callback = callback;
    handle->arg = arg;
    handle->unsent = hg_forward_unsent;
    ret = hg_forward_launch(handle, &message);
    if (HG_UNLIKELY(ret != HG_SUCCESS && handle->large)) {
        hg_leave(handle->context->lock);
        hg_overflow_end(handle, &handle->in_large);
        hg_enter(handle->context->lock);
    }
    return ret;
}

/* ---- Ending ---- */

/* Send CANCEL for a call that was taken out and belongs to this side, or
 * withdraw its message if that was not sent. The lock is held. */
static void hg_forward_revoke(struct hg_handle *handle)
{
    struct hg_header header;

    HG_ASSERT(handle->state == HG_HANDLE_ENDED);
    if (hg_handle_withdraw(handle) || na_addr_is_dead(handle->addr))
        return;
    hg_handle_begin_header(handle, HG_HEADER_CANCEL, &header);
    hg_handle_send_control(handle, &header);
}

/* Whether the deadline of a call in flight has passed; the lock is held. The
 * expired timer may belong to an earlier call of the handle. */
static bool hg_forward_is_late(const struct hg_handle *handle)
{
    return (handle->state == HG_HANDLE_SENT ||
               handle->state == HG_HANDLE_FETCHING) &&
        handle->deadline != 0 && hg_clock_now() >= handle->deadline;
}

/* End a call in flight with HG_CANCELED, or with HG_TIMEOUT if its deadline has
 * passed. False: there is none, or it has ended. */
static bool hg_forward_give_up(struct hg_handle *handle, hg_return_t ret)
{
    bool fetching = false;
    bool taken = false;

    HG_ASSERT(hg_is_inside(handle->context->lock));
    if (ret != HG_TIMEOUT || hg_forward_is_late(handle)) {
        fetching = handle->state == HG_HANDLE_FETCHING;
        if (fetching && !handle->canceled) {
            handle->canceled = true;
            handle->why = ret;
        }
        taken = hg_forward_take(handle);
    }
    if (fetching)
        hg_overflow_cancel(handle, &handle->out_large);
    if (taken) {
        hg_forward_revoke(handle);
        handle->text = hg_forward_reason(ret);
        hg_forward_deliver(handle, ret);
    }
    return taken || fetching;
}

HG_PRIVATE void hg_forward_expired(struct hg_handle *handle)
{
    (void) hg_forward_give_up(handle, HG_TIMEOUT);
}

HG_PRIVATE hg_return_t hg_forward_cancel(struct hg_handle *handle)
{
    return hg_forward_give_up(handle, HG_CANCELED) ? HG_SUCCESS : HG_NOENTRY;
}

/* With an address, the scan starts at the newest call and stops when it has
 * found all bytes that the peer has in flight. */
HG_PRIVATE void hg_forward_end_all(
    struct hg_context *context, const struct na_addr *addr, hg_return_t ret)
{
    /* Unsent calls stay for the next connection, if there will be one. */
    bool next = addr != NULL && !na_addr_is_dead(addr);
    uint64_t left = UINT64_MAX;
    struct na_link ended;
    struct na_link *link;

    HG_ASSERT(hg_is_inside(context->lock));
    hg_list_init(&ended);
    if (addr != NULL)
        left = *hg_limit_of(addr, HG_LIMIT_IN_FLIGHT);
    link = context->origins.prev;
    while (left > 0 && link != &context->origins) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        link = link->prev;
        if (addr != NULL && handle->addr != addr)
            continue;
        left -= handle->weight;
        if (handle->state == HG_HANDLE_SENT &&
            !(next && atomic_load(&handle->sends) > 0) &&
            hg_forward_take(handle)) {
            hg_list_remove(&handle->link);
            hg_list_push(ended.next, &handle->link); /* oldest first */
        }
    }
    while ((link = hg_list_pop(&ended)) != NULL) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        hg_list_push(&context->origins, link);
        (void) hg_handle_withdraw(handle);
        handle->text = hg_forward_reason(ret);
        hg_forward_finish(handle, ret);
    }
}

/* ---- Answers ---- */

/* The fetch of a large output ended, or could not start. */
static void hg_forward_fetched(struct hg_handle *handle, hg_return_t ret)
{
    struct hg_context *context = handle->context;
    const char *text = "the output could not be fetched";

    ret = hg_handle_result(ret);
    hg_enter(context->lock);
    HG_ASSERT(handle->state == HG_HANDLE_FETCHING);
    handle->state = HG_HANDLE_ENDED;
    hg_deadline_remove(&context->deadline, &handle->timer);
    if (handle->canceled) {
        ret = handle->why;
        text = hg_forward_reason(ret);
    }
    hg_forward_revoke(handle); /* the target may release the output */
    hg_leave(context->lock);
    if (ret == HG_SUCCESS) {
        handle->out_args.data = handle->out_large.data;
        handle->out_args.size = handle->out_large.size;
        hg_handle_count(context, HG_COUNT_OUTPUTS_FETCHED);
    } else {
        hg_overflow_end(handle, &handle->out_large); /* it may have arrived */
        handle->text = text;
    }
    hg_enter(context->lock);
    hg_forward_deliver(handle, ret);
    hg_leave(context->lock);
}

/* Step of the internal lane: the sink must not start a transfer. */
static void hg_forward_fetch(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    if (handle->ret != HG_SUCCESS) /* no memory for the message */
        hg_forward_fetched(handle, handle->ret);
    else
        hg_overflow_fetch(handle, &handle->out_large, handle->out_args.data,
            handle->out_args.size, hg_forward_fetched);
    hg_enter(lock);
}

/* Adjust the target's window, for an answer to a call in flight. A refusal sets
 * the window to what is in flight without the refused call. Other answers widen
 * it slightly. So few calls are refused. */
static inline void hg_forward_learn(
    const struct hg_handle *handle, const struct hg_header *header)
{
    uint64_t *window = &na_addr_core_of(handle->addr)->window;
    uint64_t used = *hg_limit_of(handle->addr, HG_LIMIT_IN_FLIGHT);

    if (HG_UNLIKELY(header->code == HG_AGAIN &&
            (header->flags & HG_HEADER_REFUSED) != 0)) {
        if (used - handle->weight < *window)
            *window = used - handle->weight;
    } else if (HG_UNLIKELY(*window <= 2 * used)) {
        *window += handle->weight / HG_FORWARD_STEPS;
        if (*window < handle->weight)
            *window = handle->weight;
    }
}

/* Take out the call that an answer belongs to; NULL: no call waits for it. */
static struct hg_handle *hg_forward_match(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header, bool large)
{
    struct hg_handle *handle;

    HG_ASSERT(hg_is_inside(context->lock));
    handle = (struct hg_handle *) hg_slots_get(
        &context->sequences, header->sequence);
    if (handle != NULL &&
        (handle->state != HG_HANDLE_SENT || handle->id != header->rpc_id ||
            !na_addr_is_from(handle->addr, source)))
        handle = NULL;
    if (handle != NULL) {
        hg_forward_learn(handle, header);
        (void) hg_forward_take_to(
            handle, large ? HG_HANDLE_FETCHING : HG_HANDLE_ENDED);
        hg_handle_count_locked(context, HG_COUNT_RESPONSES_RECEIVED, 1);
    }
    return handle;
}

/* Keep the error text without control characters, if there is memory. A target
 * that refuses the types of a call names its own; the types of this side are
 * appended. */
static void hg_forward_keep_text(
    struct hg_handle *handle, const struct hg_header *header)
{
    const char *types =
        header->types != 0 ? hg_registry_types(handle->rpc) : NULL;
    size_t more = types != NULL ? sizeof("; called as ") + strlen(types) : 0;
    size_t size = header->payload_size;
    size_t i;

    if (size > HG_HEADER_TEXT_MAX)
        size = HG_HEADER_TEXT_MAX;
    if (size + more == 0 ||
        hg_buf_reserve(&handle->out, size + more + 1, size + more + 1) !=
            HG_SUCCESS)
        return;
    for (i = 0; i < size; i++) {
        unsigned char c = header->payload[i];

        handle->out.data[i] = c < ' ' || c == 0x7f ? '?' : c;
    }
    handle->out.data[size] = '\0';
    if (types != NULL)
        (void) snprintf((char *) handle->out.data + size, more + 1,
            "%scalled as %s", size > 0 ? "; " : "", types);
    handle->text = (const char *) handle->out.data;
}

/* Log why a call was not executed. An error code of the handler is not logged
 * here. */
static HG_NOINLINE void hg_forward_log_code(
    const struct hg_handle *handle, const struct hg_header *header)
{
    const char *function = hg_handle_function(handle);
    const char *text = handle->text != NULL ? handle->text : "";
    const char *peer = hg_handle_peer(handle);
    hg_return_t code = header->code;

    HG_ASSERT(code != HG_SUCCESS);
    if (hg_handle_result(code) != code)
        hg_log_warning("rpc",
            "%s answered \"%s\" with %d, which is not a valid result", peer,
            function, code);
    else if ((header->flags & HG_HEADER_REFUSED) == 0)
        return;
    else if (code == HG_NOENTRY)
        hg_log_warning("rpc", "\"%s\" is not served by %s", function, peer);
    else if (code == HG_AGAIN)
        hg_log_warning("rpc", "%s refused \"%s\": %s", peer, function,
            text[0] != '\0' ? text : "it is at its limit");
    else
        hg_log_warning("rpc", "%s refused \"%s\": %s%s%s", peer, function,
            HG_Error_to_string(code), text[0] != '\0' ? ": " : "", text);
}

/* Copy a complete answer. Returns its code. */
static hg_return_t hg_forward_keep_answer(
    struct hg_handle *handle, const struct hg_header *header)
{
    size_t size = HG_HEADER_MIN + header->payload_size;
    /* Becomes the result when the call is finished. */
    hg_return_t ret = header->code;

    if (HG_UNLIKELY(ret != HG_SUCCESS)) {
        hg_forward_keep_text(handle, header);
        hg_forward_log_code(handle, header);
        return ret;
    }
    ret = hg_buf_reserve(&handle->out, size, size);
    if (ret != HG_SUCCESS)
        return ret;
    handle->out_args.data = handle->out.data + HG_HEADER_MIN;
    handle->out_args.size = header->payload_size;
    memcpy(handle->out.data + HG_HEADER_MIN, header->payload,
        header->payload_size);
    handle->out_args.raw = (header->flags & HG_HEADER_RAW) != 0;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_forward_answer(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, hg_return_t damaged)
{
    bool large = damaged == HG_SUCCESS && header->code == HG_SUCCESS &&
        (header->flags & HG_HEADER_LARGE) != 0;
    struct hg_handle *handle = hg_forward_match(context, source, header, large);
    hg_return_t ret = damaged;

    if (handle == NULL) {
        hg_handle_count(context, HG_COUNT_LATE);
        return;
    }
    if (damaged != HG_SUCCESS) {
        handle->text = damaged == HG_CHECKSUM_ERROR
            ? "the answer was damaged in transit"
            : "the answer is malformed, or of another version";
        hg_log_warning("rpc", "\"%s\" with %s: %s", hg_handle_function(handle),
            hg_handle_peer(handle), handle->text);
        goto finish;
    }
    atomic_store_explicit(
        &handle->peer_context, header->origin_context, memory_order_relaxed);
    ret = hg_forward_keep_answer(handle, header);
    if (large) {
        handle->ret = ret;
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_forward_fetch);
        return;
    }
finish:
    hg_forward_finish(handle, ret);
}

/* ---- Why a call failed ---- */

HG_PRIVATE void hg_forward_keep_why(struct hg_handle *handle)
{
    const char *why = HG_Get_last_error_text();
    size_t size = strlen(why) + 1;

    handle->text = "the output could not be decoded";
    if (hg_buf_reserve(&handle->out, size, size) != HG_SUCCESS)
        return;
    memcpy(handle->out.data, why, size);
    handle->text = (const char *) handle->out.data;
}

HG_PRIVATE void hg_forward_complete_text(const char *function, hg_return_t ret)
{
    if (HG_Get_last_error_text()[0] == '\0')
        hg_log_keep_text("%s: %s", function, HG_Error_to_string(ret));
}

HG_PRIVATE void hg_forward_explain_failure(
    const struct hg_handle *handle, hg_return_t ret)
{
    const char *text = handle->text != NULL ? handle->text : "";
    const char *reason = hg_forward_reason(ret);

    HG_ASSERT(!handle->target && ret != HG_SUCCESS);
    if (atomic_load(&handle->misread) == ret && text[0] != '\0')
        hg_log_keep_text("%s", text); /* the text names function and peer */
    else if (reason != NULL && strcmp(reason, text) == 0)
        hg_log_keep_text("\"%s\" with %s: %s", hg_handle_function(handle),
            hg_handle_peer(handle), reason); /* it says what the code says */
    else
        hg_log_keep_text("\"%s\" with %s: %s%s%s", hg_handle_function(handle),
            hg_handle_peer(handle), HG_Error_to_string(ret),
            text[0] != '\0' ? ": " : "", text);
}
