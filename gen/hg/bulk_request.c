/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk_request: see bulk_request.h. */
#include "hg/bulk_request.h"

#include "base/lock.h"
#include "base/log.h"
#include "hg/bulk.h"
#include "hg/bulk_transfer.h"
#include "hg/bulk_wire.h"
#include "hg/layer.h"
#include "hg/ticket.h"
#include "hg/wait.h"
#include "na/addr.h"

struct hg_bulk_request {
    struct hg_context *context;
    bool abandoned; /* by HG_Finalize */
    _Atomic bool done;
    hg_return_t ret;
    unsigned waiters; /* threads in a wait for it */
    bool taken;       /* by one of them; the last one frees it */
};

/* Stands for every transfer that had ended well when it was asked for. */
static struct hg_bulk_request hg_bulk_request_over;

/* Waits for such between two turns of progress, if they come soon enough. */
#define HG_BULK_REQUEST_TURN 16u

/* All that nobody waited for to the end; the mutex guards also what is in a
 * request. wait's own is locked inside. */
static pthread_mutex_t hg_bulk_request_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_tickets hg_bulk_request_tickets;
static unsigned hg_bulk_request_waits; /* for what was over */

/* ---- Handles ---- */

HG_EXPORT hg_return_t HG_Bulk_handle_create(size_t count, void **buf_ptrs,
    const size_t *buf_sizes, unsigned long flags, hg_bulk_t *handle)
{
    struct hg_bulk_layer *layer = hg_layer_enter_bulk("HG_Bulk_handle_create");

    if (layer == NULL)
        return HG_FAULT;
    if (handle == NULL)
        return hg_layer_leave_bulk(
            hg_layer_refuse("HG_Bulk_handle_create", "handle is NULL"));
    return hg_layer_leave_bulk(
        hg_bulk_create(layer, count, buf_ptrs, buf_sizes, flags, handle));
}

HG_EXPORT hg_return_t HG_Bulk_handle_free(hg_bulk_t handle)
{
    bool inside;
    hg_return_t ret;

    if (handle == NULL)
        return hg_layer_refuse("HG_Bulk_handle_free", "handle is NULL");
    if (hg_layer_is_forked("HG_Bulk_handle_free"))
        return HG_FAULT;
    inside = hg_layer_enter_bulk(NULL) != NULL;
    if (!inside)
        hg_layer_lock(); /* the layer has ended, or is about to: one by one */
    ret = hg_bulk_take_back(handle);
    if (inside)
        return hg_layer_leave_bulk(ret);
    hg_layer_unlock();
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_handle_access(hg_bulk_t handle, size_t offset,
    size_t size, unsigned long flags, unsigned int max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned int *actual_count)
{
    if (handle == NULL || actual_count == NULL ||
        (max_count > 0 && (buf_ptrs == NULL || buf_sizes == NULL)))
        return hg_layer_refuse("HG_Bulk_handle_access", "an argument is NULL");
    return hg_bulk_access(handle, offset, size, flags, max_count, buf_ptrs,
        buf_sizes, actual_count);
}

HG_EXPORT size_t HG_Bulk_handle_get_size(hg_bulk_t handle)
{
    return handle != NULL ? handle->size : 0;
}

HG_EXPORT size_t HG_Bulk_handle_get_segment_count(hg_bulk_t handle)
{
    return handle != NULL ? handle->segment_count : 0;
}

HG_EXPORT size_t HG_Bulk_handle_get_serialize_size(hg_bulk_t handle)
{
    size_t size;

    if (handle == NULL || hg_layer_enter_bulk(NULL) == NULL)
        return 0;
    size = handle->layer != NULL ? hg_bulk_serialize_size(handle) : 0;
    (void) hg_layer_leave_bulk(HG_SUCCESS);
    return size;
}

HG_EXPORT hg_return_t HG_Bulk_handle_serialize(
    void *buf, size_t buf_size, hg_bulk_t handle)
{
    if (buf == NULL || handle == NULL)
        return hg_layer_refuse(
            "HG_Bulk_handle_serialize", "an argument is NULL");
    if (hg_layer_enter_bulk("HG_Bulk_handle_serialize") == NULL)
        return HG_FAULT;
    if (handle->layer == NULL)
        return hg_layer_leave_bulk(hg_layer_refuse("HG_Bulk_handle_serialize",
            "the handle is of a bulk layer that has ended"));
    return hg_layer_leave_bulk(hg_bulk_serialize(handle, buf, buf_size));
}

HG_EXPORT hg_return_t HG_Bulk_handle_deserialize(
    hg_bulk_t *handle, const void *buf, size_t buf_size)
{
    struct hg_bulk_layer *layer =
        hg_layer_enter_bulk("HG_Bulk_handle_deserialize");

    if (layer == NULL)
        return HG_FAULT;
    if (handle == NULL || buf == NULL)
        return hg_layer_leave_bulk(hg_layer_refuse(
            "HG_Bulk_handle_deserialize", "an argument is NULL"));
    return hg_layer_leave_bulk(
        hg_bulk_deserialize(layer, buf, buf_size, handle));
}

/* ---- Transfers ---- */

static void hg_bulk_request_ended(hg_return_t ret, void *arg)
{
    struct hg_bulk_request *request = (struct hg_bulk_request *) arg;
    bool abandoned;

    hg_lock(&hg_bulk_request_lock);
    abandoned = request->abandoned;
    request->ret = ret;
    if (!abandoned)
        hg_wait_raise(request->context, &request->done);
    hg_unlock(&hg_bulk_request_lock);
    if (abandoned)
        hg_mem_free(request);
}

static hg_return_t hg_bulk_request_issue(
    struct hg_bulk_request *request, uintptr_t *ticket_p)
{
    hg_return_t ret;

    hg_lock(&hg_bulk_request_lock);
    ret = hg_ticket_issue(&hg_bulk_request_tickets, request, ticket_p);
    hg_unlock(&hg_bulk_request_lock);
    return ret;
}

static void hg_bulk_request_revoke(uintptr_t ticket)
{
    hg_lock(&hg_bulk_request_lock);
    (void) hg_ticket_take(&hg_bulk_request_tickets, ticket);
    hg_unlock(&hg_bulk_request_lock);
}

/* Move the data at once, which ends well. HG_AGAIN: not so. Another code: it
 * may not be moved. */
static hg_return_t hg_bulk_request_try(struct hg_context *context,
    const struct hg_transfer_args *args, uintptr_t *ticket_p,
    hg_return_t *result_p)
{
    uintptr_t ticket;
    hg_return_t ret = hg_bulk_request_issue(&hg_bulk_request_over, &ticket);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_transfer_now(&context->transfers, args, result_p);
    if (ret == HG_SUCCESS && *result_p == HG_SUCCESS)
        *ticket_p = ticket;
    else
        hg_bulk_request_revoke(ticket);
    return ret;
}

/* A transfer that takes longer, or, with a `result` other than HG_SUCCESS, one
 * that ended so already. */
static hg_return_t hg_bulk_request_begin(struct hg_context *context,
    const struct hg_transfer_args *args, hg_return_t result,
    uintptr_t *ticket_p)
{
    struct hg_bulk_request *made =
        (struct hg_bulk_request *) hg_mem_calloc(1, sizeof(*made));
    uintptr_t ticket;
    hg_return_t ret;

    if (made == NULL) {
        hg_log_error("bulk", "no memory for a request");
        return HG_NOMEM;
    }
    made->context = context;
    made->ret = result;
    atomic_store(&made->done, result != HG_SUCCESS);
    ret = hg_bulk_request_issue(made, &ticket);
    if (ret != HG_SUCCESS)
        goto free_request;
    if (result == HG_SUCCESS)
        ret = hg_transfer_start(
            &context->transfers, args, hg_bulk_request_ended, made);
    if (ret != HG_SUCCESS)
        goto revoke;
    *ticket_p = ticket;
    return HG_SUCCESS;

revoke:
    hg_bulk_request_revoke(ticket);
free_request:
    hg_mem_free(made);
    return ret;
}

/* HG_Bulk_transfer, inside the gate. */
static hg_return_t hg_bulk_request_start(struct hg_context *context,
    const struct hg_transfer_args *args, struct hg_bulk_request **request_p)
{
    hg_return_t result = HG_SUCCESS;
    uintptr_t ticket = 0;
    hg_return_t ret;

    if (args->origin == NULL || args->local == NULL || request_p == NULL)
        return hg_layer_refuse("HG_Bulk_transfer", "an argument is NULL");
    ret = na_addr_check(
        context->hg_class->na_class, args->addr, "HG_Bulk_transfer");
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_bulk_request_try(context, args, &ticket, &result);
    if (ret == HG_AGAIN || (ret == HG_SUCCESS && result != HG_SUCCESS))
        ret = hg_bulk_request_begin(context, args, result, &ticket);
    if (ret == HG_SUCCESS)
        *request_p = (hg_bulk_request_t) ticket;
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_transfer1(hg_bulk_op_t op, na_addr_t origin_addr,
    hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
    size_t local_offset, size_t size, hg_bulk_request_t *request)
{
    struct hg_context *context = hg_layer_enter("HG_Bulk_transfer");
    struct hg_transfer_args args = {op, origin_addr, origin_handle,
        origin_offset, local_handle, local_offset, size, 0};

    if (request != NULL) /* nothing to wait for, unless it succeeds */
        *request = HG_BULK_REQUEST_NULL;
    if (context == NULL)
        return HG_FAULT;
    return hg_layer_leave(hg_bulk_request_start(context, &args, request));
}

static hg_return_t hg_bulk_request_unknown(hg_bulk_request_t request)
{
    return hg_layer_refuse("HG_Bulk_wait",
        request == HG_BULK_REQUEST_NULL
            ? "request is NULL"
            : "no such request: waited for already?");
}

/* Wait for the request. The first thread takes its result, the last one frees
 * it. HG_TIMEOUT, HG_INTR, HG_BUSY. The lock is held, and released while the
 * thread waits. */
static hg_return_t hg_bulk_request_await(struct hg_context *context,
    struct hg_bulk_request *request, hg_bulk_request_t ticket,
    uint64_t deadline, bool *done_p, bool *taken_p)
{
    hg_return_t ret;

    request->waiters++;
    /* A wait that starts no handler, inside one or not. */
    hg_unlock(&hg_bulk_request_lock);
    hg_enter(context->lock);
    ret = hg_wait_until(context, &request->done, false, deadline);
    hg_leave(context->lock);
    hg_lock(&hg_bulk_request_lock);
    *done_p = ret == HG_SUCCESS;
    *taken_p = *done_p && request->taken; /* by another thread */
    if (*done_p && !*taken_p) {
        (void) hg_ticket_take(&hg_bulk_request_tickets, (uintptr_t) ticket);
        request->taken = true;
        ret = request->ret;
    }
    assert(request->waiters > 0);
    request->waiters--;
    if (request->taken && request->waiters == 0)
        hg_mem_free(request);
    return ret;
}

/* One turn of progress: who waits for one transfer after the other that is over
 * when it is asked for would make none. */
static void hg_bulk_request_turn(struct hg_context *context)
{
    static const _Atomic bool never = false;

    hg_enter(context->lock);
    (void) hg_wait_until(context, &never, false, 0);
    hg_leave(context->lock);
}

HG_EXPORT hg_return_t HG_Bulk_wait(
    hg_bulk_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_enter("HG_Bulk_wait");
    uint64_t deadline = hg_wait_deadline(timeout);
    struct hg_bulk_request *found;
    hg_return_t ret = HG_INVALID_ARG;
    bool done = false;
    bool taken = true;
    bool turn = false;

    if (context == NULL)
        return HG_FAULT;
    hg_lock(&hg_bulk_request_lock);
    found = (struct hg_bulk_request *) hg_ticket_get(
        &hg_bulk_request_tickets, (uintptr_t) request);
    if (found == &hg_bulk_request_over) {
        (void) hg_ticket_take(&hg_bulk_request_tickets, (uintptr_t) request);
        turn = ++hg_bulk_request_waits % HG_BULK_REQUEST_TURN == 0 ||
            hg_wait_wants_news(deadline);
        done = true;
        taken = false;
        ret = HG_SUCCESS;
    } else if (found != NULL) {
        ret = hg_bulk_request_await(
            context, found, request, deadline, &done, &taken);
    }
    hg_unlock(&hg_bulk_request_lock);
    if (turn && !hg_wait_is_driver())
        hg_bulk_request_turn(context);
    if (taken)
        return hg_layer_leave(hg_bulk_request_unknown(request));
    if (status != HG_STATUS_IGNORE)
        *status = done ? HG_TRUE : HG_FALSE;
    return hg_layer_leave(ret);
}

HG_PRIVATE void hg_bulk_request_abandon_all(void)
{
    struct hg_bulk_request *request;

    hg_lock(&hg_bulk_request_lock);
    while ((request = (struct hg_bulk_request *) hg_ticket_take_any(
                &hg_bulk_request_tickets)) != NULL) {
        if (request == &hg_bulk_request_over)
            continue;
        request->abandoned = true;
        if (request->done)
            hg_mem_free(request);
    }
    hg_unlock(&hg_bulk_request_lock);
}

/* ---- The names of the paper ---- */

HG_EXPORT hg_return_t HG_Bulk_handle_create_segments(
    const hg_bulk_segment_t *segments, size_t count, unsigned long flags,
    hg_bulk_t *handle)
{
    void **ptrs;
    size_t *sizes;
    hg_return_t ret;
    size_t i;

    if (segments == NULL || count == 0)
        return hg_layer_refuse(
            "HG_Bulk_handle_create_segments", "there are no segments");
    ptrs = (void **) hg_mem_calloc(count, sizeof(ptrs[0]));
    sizes = (size_t *) hg_mem_calloc(count, sizeof(sizes[0]));
    if (ptrs == NULL || sizes == NULL) {
        hg_log_error("bulk", "no memory for %zu segments", count);
        ret = HG_NOMEM;
        goto free_arrays;
    }
    for (i = 0; i < count; i++) {
        ptrs[i] = segments[i].address;
        sizes[i] = segments[i].size;
    }
    ret = HG_Bulk_handle_create(count, ptrs, sizes, flags, handle);
free_arrays:
    hg_mem_free(ptrs);
    hg_mem_free(sizes);
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_block_handle_create(
    void *buf, size_t size, unsigned long flags, hg_bulk_block_t *block_handle)
{
    return HG_Bulk_handle_create(1, &buf, &size, flags, block_handle);
}

HG_EXPORT hg_return_t HG_Bulk_block_handle_free(hg_bulk_block_t block_handle)
{
    return HG_Bulk_handle_free(block_handle);
}

HG_EXPORT size_t HG_Bulk_block_handle_get_size(hg_bulk_block_t block_handle)
{
    return HG_Bulk_handle_get_size(block_handle);
}

HG_EXPORT hg_return_t HG_Bulk_read(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request)
{
    return HG_Bulk_transfer1(HG_BULK_PULL, addr, handle, offset, block_handle,
        block_offset, size, request);
}

HG_EXPORT hg_return_t HG_Bulk_write(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request)
{
    return HG_Bulk_transfer1(HG_BULK_PUSH, addr, handle, offset, block_handle,
        block_offset, size, request);
}
