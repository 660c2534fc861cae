/* SPDX-License-Identifier: BSD-3-Clause */
/* request: see request.h. */
#include "hg/request.h"

#include "base/clock.h"
#include "base/log.h"
#include "hg/forward.h"
#include "hg/layer.h"
#include "hg/ticket.h"
#include "hg/wait.h"
#include "na/addr.h"

enum hg_request_state {
    HG_REQUEST_WAITING = 0,
    HG_REQUEST_DECODING, /* the driver writes out_struct */
    HG_REQUEST_DONE,
    HG_REQUEST_ABANDONED /* freed in flight */
};

struct hg_request {
    enum hg_request_state state;
    bool done; /* state DONE: what waiters look at */
    struct hg_handle *handle;
    void *out_struct;
    bool decoded; /* out_struct holds what HG_Request_free releases */
    hg_return_t ret;
    unsigned waiters; /* threads in a wait for it; then it is not freed */
};

/* All that are not freed; guard: wait's mutex, also of states and waiters. */
static struct hg_tickets hg_request_tickets;

/* Let go of a request that no ticket names. */
static void hg_request_delete(struct hg_request *request)
{
    if (request->decoded)
        (void) hg_handle_release(
            request->handle->rpc.out_proc, request->out_struct);
    hg_handle_unref(request->handle);
    hg_mem_free(request);
}

/* The call ended: decode, raise the flag. Runs in the driver's thread. */
static void hg_request_ended(struct hg_handle *handle, void *arg)
{
    struct hg_request *request = (struct hg_request *) arg;
    hg_return_t ret = handle->ret;
    bool abandoned;

    hg_wait_lock();
    abandoned = request->state == HG_REQUEST_ABANDONED;
    if (!abandoned)
        request->state = HG_REQUEST_DECODING;
    hg_wait_unlock();
    if (abandoned) {
        hg_request_delete(request);
        return;
    }
    if (ret == HG_SUCCESS && request->out_struct != NULL &&
        handle->rpc.out_proc != NULL) {
        ret = hg_handle_decode(handle, request->out_struct);
        request->decoded = ret == HG_SUCCESS;
    }
    request->ret = ret;
    hg_wait_lock();
    request->state = HG_REQUEST_DONE;
    hg_wait_raise(&request->done);
    hg_wait_unlock();
}

/* HG_Forward, inside the gate. */
static hg_return_t hg_request_start(struct hg_context *context,
    struct na_addr *addr, hg_id_t id, void *in_struct, void *out_struct,
    struct hg_request **request_p)
{
    struct hg_request *made;
    uintptr_t ticket;
    hg_return_t ret;

    if (request_p == NULL)
        return hg_layer_refuse("HG_Forward", "request is NULL");
    ret = na_addr_check(context->hg_class->na_class, addr, "HG_Forward");
    if (ret != HG_SUCCESS)
        return ret;
    made = (struct hg_request *) hg_mem_calloc(1, sizeof(*made));
    if (made == NULL) {
        hg_log_error("rpc", "no memory for a request");
        return HG_NOMEM;
    }
    made->out_struct = out_struct;
    ret = hg_forward_create(context, addr, id, &made->handle);
    if (ret != HG_SUCCESS)
        goto free_request;
    if (in_struct == NULL && made->handle->rpc.in_proc != NULL) {
        ret = hg_layer_refuse(
            "HG_Forward", "the function has an input, but in_struct is NULL");
        goto unref_handle;
    }
    hg_wait_lock();
    ret = hg_ticket_issue(&hg_request_tickets, made, &ticket);
    hg_wait_unlock();
    if (ret != HG_SUCCESS)
        goto unref_handle;
    ret = hg_forward_start(made->handle, in_struct, hg_request_ended, made);
    if (ret != HG_SUCCESS)
        goto take_ticket;
    *request_p = (hg_request_t) ticket;
    return HG_SUCCESS;

take_ticket:
    hg_wait_lock();
    (void) hg_ticket_take(&hg_request_tickets, ticket);
    hg_wait_unlock();
unref_handle:
    hg_handle_unref(made->handle);
free_request:
    hg_mem_free(made);
    return ret;
}

HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request)
{
    struct hg_context *context = hg_layer_enter("HG_Forward");

    /* Whoever cleans up after a failure frees nothing then, rather than what
     * the variable held before. */
    if (request != NULL)
        *request = HG_REQUEST_NULL;
    if (context == NULL)
        return HG_FAULT;
    return hg_layer_leave(
        hg_request_start(context, addr, id, in_struct, out_struct, request));
}

static void hg_request_unknown(hg_request_t ticket, const char *function)
{
    (void) hg_layer_refuse(function,
        ticket == HG_REQUEST_NULL ? "request is NULL"
                                  : "no such request: freed already?");
}

/* The request that the application means, which stays until hg_request_leave;
 * NULL, logged: there is none. */
static struct hg_request *hg_request_enter(
    hg_request_t ticket, const char *function)
{
    struct hg_request *request;

    hg_wait_lock();
    request = (struct hg_request *) hg_ticket_get(
        &hg_request_tickets, (uintptr_t) ticket);
    if (request != NULL)
        request->waiters++;
    hg_wait_unlock();
    if (request == NULL)
        hg_request_unknown(ticket, function);
    return request;
}

static void hg_request_leave(struct hg_request *request)
{
    hg_wait_lock();
    assert(request->waiters > 0);
    request->waiters--;
    hg_wait_unlock();
}

HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_enter("HG_Wait");
    struct hg_request *found;
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    found = hg_request_enter(request, "HG_Wait");
    if (found == NULL)
        return hg_layer_leave(HG_INVALID_ARG);
    ret = hg_wait_until(
        context, &found->done, hg_wait_may_run(), hg_wait_deadline(timeout));
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    if (ret == HG_SUCCESS)
        ret = found->ret;
    hg_request_leave(found);
    return hg_layer_leave(ret);
}

/* HG_Wait_all with an array. */
static hg_return_t hg_request_wait_all(struct hg_context *context, int count,
    hg_request_t requests[], uint64_t deadline, hg_status_t statuses[])
{
    hg_return_t first = HG_SUCCESS;
    bool in_time = true; /* or not waited yet at all */
    bool missing = false;
    int i;

    for (i = 0; i < count; i++) {
        struct hg_request *request =
            hg_request_enter(requests[i], "HG_Wait_all");
        hg_return_t ret = HG_TIMEOUT;
        bool done;

        if (request == NULL)
            return HG_INVALID_ARG;
        done = hg_wait_is_raised(&request->done);
        if (!done && in_time) {
            ret = hg_wait_until(
                context, &request->done, hg_wait_may_run(), deadline);
            done = ret == HG_SUCCESS;
            in_time = hg_clock_now() < deadline; /* a handler may take long */
        }
        if (done && first == HG_SUCCESS)
            first = request->ret;
        hg_request_leave(request);
        if (statuses != NULL)
            statuses[i] = done ? HG_TRUE : HG_FALSE;
        if (ret == HG_INTR)
            return HG_INTR;
        missing = missing || !done;
    }
    return first == HG_SUCCESS && missing ? HG_TIMEOUT : first;
}

HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    struct hg_context *context = hg_layer_enter("HG_Wait_all");
    uint64_t deadline = hg_wait_deadline(timeout);
    int i;

    if (context == NULL)
        return HG_FAULT;
    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_layer_leave(hg_layer_refuse(
            "HG_Wait_all", "the array is NULL, or the count negative"));
    for (i = 0; i < count; i++) {
        struct hg_request *request =
            hg_request_enter(array_of_requests[i], "HG_Wait_all");

        if (request == NULL)
            return hg_layer_leave(HG_INVALID_ARG);
        hg_request_leave(request);
    }
    for (i = 0; array_of_statuses != NULL && i < count; i++)
        array_of_statuses[i] = HG_FALSE;
    return hg_layer_leave(hg_request_wait_all(
        context, count, array_of_requests, deadline, array_of_statuses));
}

/* Free a request, in whatever state, that no ticket names any more; one in
 * flight is taken back. */
static void hg_request_free_one(struct hg_request *request)
{
    struct hg_handle *handle = request->handle;
    bool done;

    hg_wait_lock();
    while (request->state == HG_REQUEST_DECODING) {
        hg_wait_unlock(); /* another thread is about to finish it */
        (void) sched_yield();
        hg_wait_lock();
    }
    done = request->state == HG_REQUEST_DONE;
    if (!done) {
        hg_handle_ref(handle);
        request->state = HG_REQUEST_ABANDONED;
        request->out_struct = NULL;
    }
    hg_wait_unlock();
    if (done) {
        hg_request_delete(request);
        return;
    }
    (void) hg_forward_cancel(handle);
    hg_handle_unref(handle);
}

HG_EXPORT hg_return_t HG_Request_free(hg_request_t request)
{
    struct hg_request *found;
    bool awaited;

    if (hg_layer_enter("HG_Request_free") == NULL)
        return HG_FAULT;
    hg_wait_lock();
    found = (struct hg_request *) hg_ticket_get(
        &hg_request_tickets, (uintptr_t) request);
    awaited = found != NULL && found->waiters > 0;
    if (found != NULL && !awaited)
        (void) hg_ticket_take(&hg_request_tickets, (uintptr_t) request);
    hg_wait_unlock();
    if (awaited) {
        hg_log_error("rpc", "HG_Request_free: a thread waits for the request");
        return hg_layer_leave(HG_BUSY);
    }
    if (found == NULL) {
        hg_request_unknown(request, "HG_Request_free");
        return hg_layer_leave(HG_INVALID_ARG);
    }
    hg_request_free_one(found);
    return hg_layer_leave(HG_SUCCESS);
}

/* Any request that is left. */
static struct hg_request *hg_request_take_any(void)
{
    struct hg_request *request;

    hg_wait_lock();
    request = (struct hg_request *) hg_ticket_take_any(&hg_request_tickets);
    hg_wait_unlock();
    return request;
}

HG_PRIVATE void hg_request_free_all(void)
{
    struct hg_request *request;

    while ((request = hg_request_take_any()) != NULL)
        hg_request_free_one(request);
}
