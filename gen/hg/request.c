/* SPDX-License-Identifier: BSD-3-Clause */
/* request: see request.h. */
#include "hg/request.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/forward.h"
#include "hg/layer.h"
#include "hg/ticket.h"
#include "hg/wait.h"
#include "na/addr.h"

/* Arguments up to this size, including space for a header, are encoded on the
 * stack. */
#define HG_REQUEST_SMALL 4400

/* Differs from layer to layer; written while there is no layer. */
static uint32_t hg_request_salt;

/* This thread runs the proc of arguments. */
static _Thread_local bool hg_request_encoding;

HG_PRIVATE bool hg_request_in_proc(void)
{
    return hg_request_encoding;
}

static inline enum hg_request_state hg_request_state(
    const struct hg_handle *handle)
{
    return atomic_load_explicit(&handle->request.state, memory_order_acquire);
}

static inline void hg_request_set(
    struct hg_handle *handle, enum hg_request_state state)
{
    atomic_store_explicit(&handle->request.state, state, memory_order_release);
}

static bool hg_request_is_ended(const struct hg_handle *handle)
{
    return atomic_load_explicit(&handle->request.ended, memory_order_relaxed);
}

/* The call ended. The lock is held. */
static void hg_request_ended(struct hg_handle *handle, void *arg)
{
    (void) arg;
    if (hg_request_state(handle) == HG_REQUEST_ABANDONED)
        hg_handle_unref_locked(handle);
    else
        hg_wait_raise(handle->context, &handle->request.ended);
}

/* ---- Its beginning ---- */

/* Whether the address belongs to the context's class. */
static inline bool hg_request_may_call(
    const struct hg_context *context, const struct na_addr *addr)
{
    return addr != NULL && na_addr_class(addr) == context->hg_class->na_class;
}

/* The arguments of HG_Forward(). */
struct hg_request_call {
    struct na_addr *addr;
    const struct hg_rpc *rpc;
    void *in_struct;
    void *out_struct;
    unsigned timeout;
};

/* Send the encoded call, and make its request. The lock is held. */
static HG_HOT hg_return_t hg_request_send(struct hg_context *context,
    const struct hg_request_call *call, struct hg_buf *buf, size_t size,
    uint64_t *number_p)
{
    struct hg_handle *handle = NULL;
    hg_return_t ret =
        hg_forward_create(context, call->addr, call->rpc, &handle);

    if (ret != HG_SUCCESS)
        return ret;
    handle->in_args.size = size;
    if (call->rpc->out_proc != NULL)
        handle->request.out_struct = call->out_struct;
    handle->timeout = call->timeout;
    *number_p = handle->number;
    hg_request_set(handle, HG_REQUEST_UNDER_WAY);
    ret = hg_forward_start(handle, buf, hg_request_ended, NULL);
    if (HG_LIKELY(ret == HG_SUCCESS))
        return ret;
    hg_request_set(handle, HG_REQUEST_NONE);
    hg_forward_forget(handle);
    hg_handle_unref_locked(handle);
    return ret;
}

static HG_HOT hg_return_t hg_request_start(struct hg_context *context,
    hg_id_t id, struct hg_request_call *call, hg_request_t *request_p)
{
    unsigned char bytes[HG_REQUEST_SMALL];
    struct hg_buf buf = {bytes, sizeof(bytes), true};
    bool before = hg_request_encoding; /* a proc may forward a call */
    uint64_t number = 0;
    size_t size = 0;
    hg_return_t ret;

    if (request_p == NULL)
        return hg_layer_refuse("HG_Forward", "request is NULL");
    if (HG_UNLIKELY(!hg_request_may_call(context, call->addr)))
        return na_addr_check(
            context->hg_class->na_class, call->addr, "HG_Forward");
    call->rpc = hg_forward_find(context, id, "HG_Forward");
    if (call->rpc == NULL)
        return HG_NOENTRY;
    if (call->in_struct == NULL && call->rpc->in_proc != NULL)
        return hg_layer_refuse(
            "HG_Forward", "the function has an input, but in_struct is NULL");
    hg_request_encoding = true;
    ret = hg_forward_encode(
        context, call->addr, call->rpc, call->in_struct, &buf, &size);
    hg_request_encoding = before;
    if (HG_LIKELY(ret == HG_SUCCESS)) {
        hg_enter(context->lock);
        ret = hg_request_send(context, call, &buf, size, &number);
        hg_leave(context->lock);
    }
    hg_buf_fini(&buf);
    if (ret == HG_SUCCESS)
        *request_p = (hg_request_t) hg_ticket_of(hg_request_salt, number);
    return ret;
}

HG_EXPORT hg_return_t HG_Forward_timed(na_addr_t addr, hg_id_t id,
    void *in_struct, void *out_struct, unsigned int timeout,
    hg_request_t *request)
{
    struct hg_request_call call = {addr, NULL, in_struct, out_struct, timeout};
    struct hg_context *context;
    hg_return_t ret;

    /* After a failure, freeing the variable must not free another request. */
    if (request != NULL)
        *request = HG_REQUEST_NULL;
    hg_log_drop_text();
    context = hg_layer_find("HG_Forward");
    if (context == NULL)
        return HG_FAULT;
    ret = hg_request_start(context, id, &call, request);
    if (HG_UNLIKELY(ret != HG_SUCCESS))
        hg_forward_complete_text("HG_Forward", ret);
    return ret;
}

HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request)
{
    return HG_Forward_timed(addr, id, in_struct, out_struct, 0, request);
}

/* ---- Waiting ---- */

static hg_return_t hg_request_unknown(hg_request_t ticket, const char *function)
{
    return hg_layer_refuse(function,
        ticket == HG_REQUEST_NULL ? "request is NULL"
                                  : "no such request; it may have been freed");
}

/* Find a request; NULL: there is none. With the lock held or not. */
static HG_HOT struct hg_handle *hg_request_find(
    struct hg_context *context, hg_request_t ticket)
{
    uint64_t id;
    struct hg_handle *handle = (struct hg_handle *) hg_ticket_find(
        &context->sequences, hg_request_salt, (uintptr_t) ticket, &id);

    if (handle == NULL || hg_request_state(handle) == HG_REQUEST_NONE ||
        hg_request_state(handle) == HG_REQUEST_ABANDONED)
        return NULL;
    return handle;
}

/* The call ended and this thread waits for it: decode the output. */
static void hg_request_decode(struct hg_handle *handle)
{
    struct hg_request_part *request = &handle->request;

    HG_ASSERT(hg_request_state(handle) == HG_REQUEST_WAITED);
    if (handle->ret == HG_SUCCESS && request->out_struct != NULL) {
        handle->ret = hg_handle_decode(handle, request->out_struct, NULL);
        if (handle->ret != HG_SUCCESS)
            hg_forward_keep_why(handle);
    }
    hg_forward_explain(handle, handle->ret);
    hg_request_set(handle, HG_REQUEST_OVER);
}

static HG_NOINLINE hg_return_t hg_request_refuse_wait(const char *function)
{
    hg_log_error("rpc", "%s: a thread waits for the request", function);
    return HG_BUSY;
}

/* Wait for one request. *status becomes true if its result is final; then the
 * result is returned. */
static HG_HOT hg_return_t hg_request_wait(struct hg_context *context,
    hg_request_t ticket, struct hg_wait_end end, const char *function,
    hg_status_t *status)
{
    struct hg_handle *handle;
    hg_return_t ret = HG_SUCCESS;

    hg_enter(context->lock);
    handle = hg_request_find(context, ticket);
    if (HG_UNLIKELY(handle == NULL ||
            hg_request_state(handle) != HG_REQUEST_UNDER_WAY)) {
        hg_leave(context->lock);
        if (handle == NULL)
            return hg_request_unknown(ticket, function);
        *status = hg_request_state(handle) != HG_REQUEST_WAITED;
        if (*status == HG_FALSE)
            return hg_request_refuse_wait(function);
        hg_forward_explain(handle, handle->ret);
        return handle->ret;
    }
    hg_request_set(handle, HG_REQUEST_WAITED);
    ret = hg_wait_for(context, &handle->request.ended, hg_wait_lanes(), &end);
    if (ret != HG_SUCCESS)
        hg_request_set(handle, HG_REQUEST_UNDER_WAY);
    hg_leave(context->lock);
    *status = ret == HG_SUCCESS;
    if (ret != HG_SUCCESS)
        return ret;
    hg_request_decode(handle);
    return handle->ret;
}

HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context;
    struct hg_wait_end end = {0, timeout};
    hg_status_t ignored;

    hg_log_drop_text();
    context = hg_layer_find("HG_Wait");
    if (context == NULL)
        return HG_FAULT;
    return hg_request_wait(context, request, end, "HG_Wait",
        status != HG_STATUS_IGNORE ? status : &ignored);
}

/* Whether its result is final, so that HG_Wait returns at once. */
static bool hg_request_is_done(struct hg_context *context, hg_request_t request)
{
    const struct hg_handle *handle;
    bool done;

    hg_enter(context->lock);
    handle = hg_request_find(context, request);
    done = handle != NULL && hg_request_is_ended(handle);
    hg_leave(context->lock);
    return done;
}

/* Check that all requests exist, before waiting for any. */
static hg_return_t hg_request_check_all(
    struct hg_context *context, int count, const hg_request_t requests[])
{
    hg_return_t ret = HG_SUCCESS;
    int i;

    hg_enter(context->lock);
    for (i = 0; i < count && ret == HG_SUCCESS; i++) {
        if (hg_request_find(context, requests[i]) == NULL)
            ret = hg_request_unknown(requests[i], "HG_Wait_all");
    }
    hg_leave(context->lock);
    return ret;
}

HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    struct hg_context *context;
    struct hg_wait_end end = {hg_wait_deadline(timeout), 0};
    hg_return_t first = HG_SUCCESS;
    hg_return_t ret;
    int i;

    hg_log_drop_text();
    context = hg_layer_find("HG_Wait_all");
    if (context == NULL)
        return HG_FAULT;
    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_layer_refuse(
            "HG_Wait_all", "the array is NULL, or the count negative");
    ret = hg_request_check_all(context, count, array_of_requests);
    if (ret != HG_SUCCESS)
        return ret;
    for (i = 0; array_of_statuses != NULL && i < count; i++)
        array_of_statuses[i] = HG_FALSE;
    for (i = 0; i < count; i++) {
        hg_status_t done = HG_FALSE;
        hg_return_t result;

        if (ret == HG_TIMEOUT &&
            !hg_request_is_done(context, array_of_requests[i]))
            continue;
        result = hg_request_wait(
            context, array_of_requests[i], end, "HG_Wait_all", &done);
        if (array_of_statuses != NULL)
            array_of_statuses[i] = done;
        if (done && first == HG_SUCCESS)
            first = result;
        if (!done && result != HG_TIMEOUT)
            return result;
        if (!done)
            ret = HG_TIMEOUT;
    }
    return first != HG_SUCCESS ? first : ret;
}

/* ---- How it ended ---- */

HG_PRIVATE const char *hg_request_text(hg_request_t request)
{
    struct hg_context *context = hg_layer_find("HG_Get_error_text");
    struct hg_handle *handle;
    const char *text = NULL;

    if (context == NULL)
        return "";
    hg_enter(context->lock);
    handle = hg_request_find(context, request);
    if (handle == NULL)
        (void) hg_request_unknown(request, "HG_Get_error_text");
    else if (hg_request_state(handle) == HG_REQUEST_OVER)
        text = handle->text;
    hg_leave(context->lock);
    return text != NULL ? text : "";
}

HG_PRIVATE void hg_request_keep_output(hg_request_t request)
{
    struct hg_context *context = hg_layer_find(NULL);
    struct hg_handle *handle =
        context != NULL ? hg_request_find(context, request) : NULL;

    if (handle != NULL && hg_request_state(handle) == HG_REQUEST_OVER)
        handle->request.out_struct = NULL;
}

/* ---- Freeing ---- */

/* Free a request that is over; the application owns it and its output. */
static HG_HOT void hg_request_end(struct hg_handle *handle)
{
    hg_proc_cb_t proc =
        handle->ret == HG_SUCCESS && handle->request.out_struct != NULL
        ? handle->rpc->out_proc
        : NULL;

    HG_ASSERT(hg_request_state(handle) == HG_REQUEST_OVER);
    if (proc != NULL)
        (void) hg_handle_release(proc, handle->request.out_struct);
    hg_request_set(handle, HG_REQUEST_NONE);
    hg_handle_unref(handle);
}

/* Free a request that was not waited for; its call may be in progress. The lock
 * is held. */
static void hg_request_abandon(struct hg_handle *handle)
{
    if (hg_request_is_ended(handle)) {
        hg_request_set(handle, HG_REQUEST_NONE);
        hg_handle_unref_locked(handle);
    } else {
        hg_request_set(handle, HG_REQUEST_ABANDONED);
        (void) hg_forward_cancel(handle);
    }
}

HG_EXPORT hg_return_t HG_Request_free(hg_request_t request)
{
    struct hg_context *context = hg_layer_find("HG_Request_free");
    struct hg_handle *handle;
    hg_return_t ret = HG_SUCCESS;

    if (context == NULL)
        return HG_FAULT;
    handle = hg_request_find(context, request);
    if (handle == NULL)
        return hg_request_unknown(request, "HG_Request_free");
    if (HG_LIKELY(hg_request_state(handle) == HG_REQUEST_OVER)) {
        hg_request_end(handle);
        return HG_SUCCESS;
    }
    hg_enter(context->lock);
    if (hg_request_state(handle) == HG_REQUEST_UNDER_WAY)
        hg_request_abandon(handle);
    else
        ret = HG_BUSY;
    hg_leave(context->lock);
    return ret == HG_SUCCESS ? ret : hg_request_refuse_wait("HG_Request_free");
}

HG_PRIVATE void hg_request_free_all(struct hg_context *context)
{
    struct hg_handle *handle;
    uint32_t cursor = 0;
    uint64_t id;

    hg_enter(context->lock);
    while ((handle = (struct hg_handle *) hg_slots_next(
                &context->sequences, &cursor, &id)) != NULL) {
        if (hg_request_state(handle) == HG_REQUEST_UNDER_WAY) {
            hg_request_abandon(handle);
        } else if (hg_request_state(handle) == HG_REQUEST_OVER) {
            hg_leave(context->lock);
            hg_request_end(handle);
            hg_enter(context->lock);
        }
    }
    hg_leave(context->lock);
    hg_request_salt = hg_ticket_next_salt(hg_request_salt);
}

HG_PRIVATE void hg_request_forget_all(void)
{
    hg_request_salt = hg_ticket_next_salt(hg_request_salt);
    hg_request_encoding = false;
}
