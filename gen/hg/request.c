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
    HG_REQUEST_ENDING,   /* its driver's, who decodes; then it is `done` */
    HG_REQUEST_ABANDONED /* freed in flight */
};

struct hg_request {
    /* Who takes it out of WAITING, by comparison, has the call's end. */
    _Atomic enum hg_request_state state;
    bool done; /* the result stands */
    struct hg_handle *handle;
    void *out_struct;
    bool decoded; /* out_struct holds what HG_Request_free releases */
    hg_return_t ret;
    unsigned waiters; /* threads in a wait for it; then it is not freed */
};

/* All that are not freed; guard: wait's mutex, also of `done` and
 * `waiters`. */
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

/* Take a request whose call is under way out of WAITING. False: it ended, or
 * is about to. */
static bool hg_request_claim(
    struct hg_request *request, enum hg_request_state state)
{
    enum hg_request_state waiting = HG_REQUEST_WAITING;

    return atomic_compare_exchange_strong(&request->state, &waiting, state);
}

/* The call ended: decode, raise the flag. Runs in the driver's thread. */
static void hg_request_ended(struct hg_handle *handle, void *arg)
{
    struct hg_request *request = (struct hg_request *) arg;
    hg_return_t ret = handle->ret;

    if (!hg_request_claim(request, HG_REQUEST_ENDING)) {
        assert(atomic_load(&request->state) == HG_REQUEST_ABANDONED);
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

/* The request that the application means, or NULL. The lock is held. */
static struct hg_request *hg_request_find(hg_request_t ticket)
{
    return (struct hg_request *) hg_ticket_get(
        &hg_request_tickets, (uintptr_t) ticket);
}

/* Wait until it is done; it stays meanwhile. HG_TIMEOUT, HG_INTR. The lock is
 * held. */
static hg_return_t hg_request_await(
    struct hg_context *context, struct hg_request *request, uint64_t deadline)
{
    hg_return_t ret;

    request->waiters++;
    ret = hg_wait_until(context, &request->done, hg_wait_may_run(), deadline);
    assert(request->waiters > 0);
    request->waiters--;
    return ret;
}

HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_enter("HG_Wait");
    uint64_t deadline = hg_wait_deadline(timeout);
    struct hg_request *found;
    hg_return_t ret = HG_INVALID_ARG;
    bool done = false;

    if (context == NULL)
        return HG_FAULT;
    hg_wait_lock();
    found = hg_request_find(request);
    if (found != NULL) {
        ret = hg_request_await(context, found, deadline);
        done = ret == HG_SUCCESS;
        if (done)
            ret = found->ret;
    }
    hg_wait_unlock();
    if (found == NULL)
        hg_request_unknown(request, "HG_Wait");
    else if (status != HG_STATUS_IGNORE)
        *status = done ? HG_TRUE : HG_FALSE;
    return hg_layer_leave(ret);
}

/* HG_Wait_all with an array. The lock is held. *missing_p becomes the place of
 * a ticket that names nothing, if there is one. */
static hg_return_t hg_request_wait_all(struct hg_context *context, int count,
    hg_request_t requests[], uint64_t deadline, hg_status_t statuses[],
    const hg_request_t **missing_p)
{
    hg_return_t first = HG_SUCCESS;
    bool in_time = true; /* or not waited yet at all */
    bool undone = false;
    int i;

    for (i = 0; i < count; i++) {
        struct hg_request *request = hg_request_find(requests[i]);
        hg_return_t ret = HG_SUCCESS;

        if (request == NULL) {
            *missing_p = &requests[i];
            return HG_INVALID_ARG;
        }
        if (!request->done && in_time) {
            ret = hg_request_await(context, request, deadline);
            in_time = hg_clock_now() < deadline; /* a handler may take long */
        } else if (!request->done) {
            ret = HG_TIMEOUT;
        }
        if (ret == HG_SUCCESS && first == HG_SUCCESS)
            first = request->ret;
        if (statuses != NULL)
            statuses[i] = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
        if (ret == HG_INTR)
            return HG_INTR;
        undone = undone || ret != HG_SUCCESS;
    }
    return first == HG_SUCCESS && undone ? HG_TIMEOUT : first;
}

HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    struct hg_context *context = hg_layer_enter("HG_Wait_all");
    uint64_t deadline = hg_wait_deadline(timeout);
    const hg_request_t *missing = NULL;
    hg_return_t ret = HG_INVALID_ARG;
    int i;

    if (context == NULL)
        return HG_FAULT;
    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_layer_leave(hg_layer_refuse(
            "HG_Wait_all", "the array is NULL, or the count negative"));
    hg_wait_lock();
    for (i = 0; i < count && missing == NULL; i++) {
        if (hg_request_find(array_of_requests[i]) == NULL)
            missing = &array_of_requests[i];
    }
    if (missing == NULL) {
        for (i = 0; array_of_statuses != NULL && i < count; i++)
            array_of_statuses[i] = HG_FALSE;
        ret = hg_request_wait_all(context, count, array_of_requests, deadline,
            array_of_statuses, &missing);
    }
    hg_wait_unlock();
    if (missing != NULL)
        hg_request_unknown(*missing, "HG_Wait_all");
    return hg_layer_leave(ret);
}

/* Free a request, in whatever state, that no ticket names any more; one in
 * flight is taken back. The lock is held on entry, and free on return. */
static void hg_request_let_go(struct hg_request *request)
{
    struct hg_handle *handle = request->handle;
    bool done;

    hg_handle_ref(handle);
    while (!request->done && !hg_request_claim(request, HG_REQUEST_ABANDONED)) {
        hg_wait_unlock(); /* another thread is about to finish it */
        (void) sched_yield();
        hg_wait_lock();
    }
    done = request->done;
    hg_wait_unlock();
    if (done)
        hg_request_delete(request);
    else
        (void) hg_forward_cancel(handle);
    hg_handle_unref(handle);
}

HG_EXPORT hg_return_t HG_Request_free(hg_request_t request)
{
    struct hg_request *found;

    if (hg_layer_enter("HG_Request_free") == NULL)
        return HG_FAULT;
    hg_wait_lock();
    found = hg_request_find(request);
    if (found != NULL && found->waiters == 0) {
        (void) hg_ticket_take(&hg_request_tickets, (uintptr_t) request);
        hg_request_let_go(found);
        return hg_layer_leave(HG_SUCCESS);
    }
    hg_wait_unlock();
    if (found == NULL) {
        hg_request_unknown(request, "HG_Request_free");
        return hg_layer_leave(HG_INVALID_ARG);
    }
    hg_log_error("rpc", "HG_Request_free: a thread waits for the request");
    return hg_layer_leave(HG_BUSY);
}

HG_PRIVATE void hg_request_free_all(void)
{
    struct hg_request *request;

    hg_wait_lock();
    while ((request = (struct hg_request *) hg_ticket_take_any(
                &hg_request_tickets)) != NULL) {
        hg_request_let_go(request);
        hg_wait_lock();
    }
    hg_wait_unlock();
}
