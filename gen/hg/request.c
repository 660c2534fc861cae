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

/* Changes from one layer to the next; written while the gate is closed. */
static uint32_t hg_request_salt;

/* ---- The end of a call ---- */

/* Let go of a request that no ticket names. */
static void hg_request_delete(struct hg_handle *handle)
{
    if (handle->request.decoded)
        (void) hg_handle_release(
            handle->rpc.out_proc, handle->request.out_struct);
    hg_handle_unref(handle);
}

/* Take a request whose call is under way out of WAITING. False: it ended, or
 * is about to. */
static bool hg_request_claim(
    struct hg_request_part *request, enum hg_request_state state)
{
    enum hg_request_state waiting = HG_REQUEST_WAITING;

    return atomic_compare_exchange_strong(&request->state, &waiting, state);
}

/* The call ended: decode, raise the flag, with which the ticket has the
 * handle's reference. Runs in the driver's thread. */
static void hg_request_ended(struct hg_handle *handle, void *arg)
{
    struct hg_context *context = handle->context;
    struct hg_request_part *request = &handle->request;
    hg_return_t ret = handle->ret;

    (void) arg;
    if (!hg_request_claim(request, HG_REQUEST_ENDING)) {
        assert(atomic_load(&request->state) == HG_REQUEST_ABANDONED);
        hg_leave(context->lock);
        hg_request_delete(handle);
        hg_enter(context->lock);
        return;
    }
    if (ret == HG_SUCCESS && request->out_struct != NULL &&
        handle->rpc.out_proc != NULL) {
        hg_leave(context->lock);
        assert(hg_monitor_entered == 0);
        ret = hg_handle_decode(handle, request->out_struct);
        request->decoded = ret == HG_SUCCESS;
        if (ret != HG_SUCCESS)
            hg_forward_keep_why(handle);
        hg_enter(context->lock);
    }
    request->ret = ret;
    hg_wait_raise(context, &request->done);
}

/* ---- Its beginning ---- */

/* Whether the context's class, which is there as the gate was passed, has such
 * an address. */
static inline bool hg_request_may_call(
    const struct hg_context *context, const struct na_addr *addr)
{
    return addr != NULL && addr->na_class == context->hg_class->na_class;
}

/* HG_Forward, inside the gate. */
static hg_return_t hg_request_start(struct hg_context *context,
    struct na_addr *addr, hg_id_t id, void *in_struct, void *out_struct,
    unsigned timeout, hg_request_t *request_p)
{
    struct hg_handle *handle = NULL;
    uint64_t number;
    hg_return_t ret;

    if (request_p == NULL)
        return hg_layer_refuse("HG_Forward", "request is NULL");
    if (HG_UNLIKELY(!hg_request_may_call(context, addr)))
        return na_addr_check(context->hg_class->na_class, addr, "HG_Forward");
    ret = hg_forward_create(context, addr, id, &handle);
    if (ret != HG_SUCCESS)
        return ret;
    if (in_struct == NULL && handle->rpc.in_proc != NULL) {
        ret = hg_layer_refuse(
            "HG_Forward", "the function has an input, but in_struct is NULL");
        goto forget_call;
    }
    handle->request.out_struct = out_struct;
    handle->timeout = timeout;
    number = handle->number;
    atomic_store_explicit(&handle->issued, true, memory_order_relaxed);
    ret = hg_forward_start(handle, in_struct, hg_request_ended, NULL);
    if (ret != HG_SUCCESS)
        goto take_ticket;
    *request_p = (hg_request_t) hg_ticket_of(hg_request_salt, number);
    return HG_SUCCESS;

take_ticket:
    atomic_store(&handle->issued, false);
forget_call:
    hg_forward_forget(handle);
    hg_handle_unref(handle);
    return ret;
}

HG_EXPORT hg_return_t HG_Forward_timed(na_addr_t addr, hg_id_t id,
    void *in_struct, void *out_struct, unsigned int timeout,
    hg_request_t *request)
{
    struct hg_context *context;
    hg_return_t ret;

    /* Freeing the variable after a failure must not free another request. */
    if (request != NULL)
        *request = HG_REQUEST_NULL;
    hg_log_drop_text();
    context = hg_layer_enter("HG_Forward");
    if (context == NULL)
        return HG_FAULT;
    ret = hg_request_start(
        context, addr, id, in_struct, out_struct, timeout, request);
    if (HG_UNLIKELY(ret != HG_SUCCESS))
        hg_forward_complete_text("HG_Forward", ret);
    return hg_layer_leave(ret);
}

HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request)
{
    return HG_Forward_timed(addr, id, in_struct, out_struct, 0, request);
}

/* ---- Waiting ---- */

static void hg_request_unknown(hg_request_t ticket, const char *function)
{
    (void) hg_layer_refuse(function,
        ticket == HG_REQUEST_NULL ? "request is NULL"
                                  : "no such request: freed already?");
}

/* The request that the application means, or NULL. The lock is held. */
static HG_HOT struct hg_handle *hg_request_find(
    struct hg_context *context, hg_request_t ticket)
{
    uint64_t id;
    struct hg_handle *handle = (struct hg_handle *) hg_ticket_find(
        &context->sequences, hg_request_salt, (uintptr_t) ticket, &id);

    return handle != NULL && atomic_load(&handle->issued) ? handle : NULL;
}

/* How a thread that waits holds a request. */
enum hg_request_hold {
    HG_REQUEST_DONE = 0, /* not at all: the result stands */
    HG_REQUEST_ALONE,    /* by the mark, which nobody else has */
    HG_REQUEST_COUNTED
};

/* The same, and it stays until hg_request_let_be; unless its result stands,
 * which is *ret_p then. Without the lock. */
static HG_HOT struct hg_handle *hg_request_hold(struct hg_context *context,
    hg_request_t ticket, enum hg_request_hold *hold_p, hg_return_t *ret_p)
{
    struct hg_request_part *request;
    struct hg_handle *handle;

    *hold_p = HG_REQUEST_DONE;
    hg_enter(context->lock);
    handle = hg_request_find(context, ticket);
    request = handle != NULL ? &handle->request : NULL;
    if (request != NULL && atomic_load(&request->done)) {
        *ret_p = request->ret;
        if (*ret_p != HG_SUCCESS)
            hg_forward_explain(handle, *ret_p);
    } else if (request != NULL && !atomic_load(&request->marked)) {
        atomic_store_explicit(&request->marked, true, memory_order_relaxed);
        *hold_p = HG_REQUEST_ALONE;
    } else if (request != NULL) {
        request->waits++;
        *hold_p = HG_REQUEST_COUNTED;
    }
    hg_leave(context->lock);
    return handle;
}

/* Whether a thread is in a wait for it; the context's lock is held. */
static bool hg_request_is_waited_for(const struct hg_request_part *request)
{
    return atomic_load_explicit(&request->marked, memory_order_acquire) ||
        atomic_load_explicit(&request->waited, memory_order_acquire) !=
        request->waits;
}

static void hg_request_let_be(
    struct hg_handle *handle, enum hg_request_hold hold)
{
    struct hg_request_part *request = &handle->request;

    assert(hold != HG_REQUEST_DONE);
    if (HG_LIKELY(hold == HG_REQUEST_ALONE))
        atomic_store_explicit(&request->marked, false, memory_order_release);
    else
        atomic_fetch_add_explicit(&request->waited, 1, memory_order_release);
}

HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context;
    enum hg_request_hold hold;
    struct hg_handle *handle;
    hg_return_t ret = HG_SUCCESS;
    bool done = true;

    hg_log_drop_text();
    context = hg_layer_enter("HG_Wait");
    if (context == NULL)
        return HG_FAULT;
    hg_enter(context->lock);
    handle = hg_request_hold(context, request, &hold, &ret);
    if (handle != NULL && hold != HG_REQUEST_DONE) {
        ret = hg_wait_until(context, &handle->request.done, hg_wait_may_run(),
            hg_wait_deadline(timeout));
        done = ret == HG_SUCCESS;
        if (done) {
            ret = handle->request.ret;
            hg_forward_explain(handle, ret);
        }
        hg_request_let_be(handle, hold);
    }
    hg_leave(context->lock);
    if (handle == NULL) {
        hg_request_unknown(request, "HG_Wait");
        return hg_layer_leave(HG_INVALID_ARG);
    }
    if (status != HG_STATUS_IGNORE)
        *status = done ? HG_TRUE : HG_FALSE;
    return hg_layer_leave(ret);
}

/* HG_Wait_all with an array. *missing_p becomes the place of a ticket that
 * names nothing, if there is one. */
static hg_return_t hg_request_wait_all(struct hg_context *context, int count,
    hg_request_t requests[], uint64_t deadline, hg_status_t statuses[],
    const hg_request_t **missing_p)
{
    hg_return_t first = HG_SUCCESS;
    bool in_time = true; /* or not waited yet at all */
    bool undone = false;
    int i;

    for (i = 0; i < count; i++) {
        hg_return_t result = HG_SUCCESS;
        hg_return_t ret = HG_SUCCESS;
        enum hg_request_hold hold;
        struct hg_handle *handle =
            hg_request_hold(context, requests[i], &hold, &result);

        if (handle == NULL) {
            *missing_p = &requests[i];
            return HG_INVALID_ARG;
        }
        if (hold != HG_REQUEST_DONE) {
            ret = in_time ? hg_wait_until(context, &handle->request.done,
                                hg_wait_may_run(), deadline)
                          : HG_TIMEOUT;
            in_time = in_time && !hg_clock_is_past(deadline);
            if (ret == HG_SUCCESS) {
                result = handle->request.ret;
                if (result != HG_SUCCESS)
                    hg_forward_explain(handle, result);
            }
            hg_request_let_be(handle, hold);
        }
        if (ret == HG_SUCCESS && first == HG_SUCCESS)
            first = result;
        if (statuses != NULL)
            statuses[i] = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
        if (ret == HG_INTR || ret == HG_BUSY)
            return ret;
        undone = undone || ret != HG_SUCCESS;
    }
    return first == HG_SUCCESS && undone ? HG_TIMEOUT : first;
}

/* The place of the first ticket that names nothing; NULL. */
static const hg_request_t *hg_request_find_missing(
    struct hg_context *context, int count, const hg_request_t requests[])
{
    const hg_request_t *missing = NULL;
    int i;

    hg_enter(context->lock);
    for (i = 0; i < count && missing == NULL; i++) {
        if (hg_request_find(context, requests[i]) == NULL)
            missing = &requests[i];
    }
    hg_leave(context->lock);
    return missing;
}

HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    struct hg_context *context;
    uint64_t deadline = hg_wait_deadline(timeout);
    const hg_request_t *missing;
    hg_return_t ret = HG_INVALID_ARG;
    int i;

    hg_log_drop_text();
    context = hg_layer_enter("HG_Wait_all");
    if (context == NULL)
        return HG_FAULT;
    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_layer_leave(hg_layer_refuse(
            "HG_Wait_all", "the array is NULL, or the count negative"));
    missing = hg_request_find_missing(context, count, array_of_requests);
    if (missing == NULL) {
        for (i = 0; array_of_statuses != NULL && i < count; i++)
            array_of_statuses[i] = HG_FALSE;
        hg_enter(context->lock);
        ret = hg_request_wait_all(context, count, array_of_requests, deadline,
            array_of_statuses, &missing);
        hg_leave(context->lock);
    }
    if (missing != NULL)
        hg_request_unknown(*missing, "HG_Wait_all");
    return hg_layer_leave(ret);
}

/* ---- How it ended ---- */

HG_PRIVATE const char *hg_request_text(hg_request_t request)
{
    struct hg_context *context = hg_layer_enter("HG_Get_error_text");
    struct hg_handle *handle;
    const char *text = NULL;

    if (context == NULL)
        return "";
    hg_enter(context->lock);
    handle = hg_request_find(context, request);
    if (handle != NULL && atomic_load(&handle->request.done))
        text = handle->text;
    hg_leave(context->lock);
    if (handle == NULL)
        hg_request_unknown(request, "HG_Get_error_text");
    (void) hg_layer_leave(HG_SUCCESS);
    return text != NULL ? text : "";
}

HG_PRIVATE void hg_request_keep_output(hg_request_t request)
{
    struct hg_context *context = hg_layer_enter(NULL);
    struct hg_handle *handle;

    if (context == NULL)
        return;
    hg_enter(context->lock);
    handle = hg_request_find(context, request);
    if (handle != NULL && atomic_load(&handle->request.done))
        handle->request.decoded = false;
    hg_leave(context->lock);
    (void) hg_layer_leave(HG_SUCCESS);
}

/* ---- Freeing ---- */

/* Free a request, in whatever state, that no ticket names any more; one in
 * flight is taken back. */
static void hg_request_let_go(struct hg_handle *handle)
{
    while (!atomic_load(&handle->request.done)) {
        hg_handle_ref(handle); /* the claim gives the request's away */
        if (hg_request_claim(&handle->request, HG_REQUEST_ABANDONED)) {
            (void) hg_forward_cancel(handle);
            hg_handle_unref(handle);
            return;
        }
        hg_handle_unref(handle);
        (void) sched_yield(); /* another thread is about to finish it */
    }
    hg_request_delete(handle);
}

/* What is left of a request when its handle is back in the pool. */
struct hg_request_rest {
    struct na_addr *addr;
    hg_proc_cb_t proc; /* NULL: nothing is to be released */
    void *out_struct;
};

/* Put back a request that ended, as most have when they are freed; the lock is
 * held. False: it takes longer than that. */
static bool hg_request_put(
    struct hg_handle *handle, struct hg_request_rest *rest)
{
    if (!atomic_load(&handle->request.done)) /* what follows is being written */
        return false;
    rest->proc = handle->request.decoded ? handle->rpc.out_proc : NULL;
    rest->out_struct = handle->request.out_struct;
    return hg_handle_unref_locked(handle, &rest->addr);
}

static void hg_request_end_rest(const struct hg_request_rest *rest)
{
    hg_handle_leave_addr(rest->addr);
    if (rest->proc != NULL)
        (void) hg_handle_release(rest->proc, rest->out_struct);
}

/* Whether freeing it would wait for a thread that is in a wait for it, or for
 * this one, which decodes its output. The context's lock is held. */
static bool hg_request_is_busy(struct hg_request_part *request)
{
    return hg_request_is_waited_for(request) ||
        (hg_wait_is_driver() && !atomic_load(&request->done) &&
            atomic_load(&request->state) == HG_REQUEST_ENDING);
}

/* HG_Request_free, inside the gate. */
static hg_return_t hg_request_free(
    struct hg_context *context, hg_request_t request)
{
    struct hg_request_rest rest = {NULL, NULL, NULL};
    struct hg_handle *handle;
    bool busy = false;
    bool put = false;

    hg_enter(context->lock);
    handle = hg_request_find(context, request);
    if (handle != NULL)
        busy = hg_request_is_busy(&handle->request);
    if (handle != NULL && !busy) {
        atomic_store_explicit(&handle->issued, false, memory_order_relaxed);
        put = hg_request_put(handle, &rest);
    }
    hg_leave(context->lock);
    if (put) {
        hg_request_end_rest(&rest);
        return HG_SUCCESS;
    }
    if (handle == NULL) {
        hg_request_unknown(request, "HG_Request_free");
        return HG_INVALID_ARG;
    }
    if (busy) {
        hg_log_error("rpc", "HG_Request_free: a thread waits for the request");
        return HG_BUSY;
    }
    hg_request_let_go(handle);
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Request_free(hg_request_t request)
{
    struct hg_context *context = hg_layer_enter("HG_Request_free");

    if (context == NULL)
        return HG_FAULT;
    return hg_layer_leave(hg_request_free(context, request));
}

/* The next request, which no ticket names from now on; NULL. */
static struct hg_handle *hg_request_take_next(
    struct hg_context *context, uint32_t *cursor)
{
    struct hg_handle *handle;
    uint64_t id;

    hg_enter(context->lock);
    do
        handle = (struct hg_handle *) hg_slots_next(
            &context->sequences, cursor, &id);
    while (handle != NULL && !atomic_exchange(&handle->issued, false));
    hg_leave(context->lock);
    return handle;
}

HG_PRIVATE void hg_request_free_all(struct hg_context *context)
{
    struct hg_handle *handle;
    uint32_t cursor = 0;

    while ((handle = hg_request_take_next(context, &cursor)) != NULL)
        hg_request_let_go(handle);
    hg_request_salt = hg_ticket_next_salt(hg_request_salt);
}
