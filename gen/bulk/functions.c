/* SPDX-License-Identifier: BSD-3-Clause */
/* functions: see functions.h. */
#include "bulk/functions.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/wire.h"
#include "bulk/transfer.h"
#include "hg/check.h"
#include "hg/layer.h"
#include "hg/ticket.h"
#include "hg/wait.h"
#include "na/addr.h"
#include "na/live.h"

/* A transfer that the application started, in either model. */
struct hg_bulk_request {
    struct hg_transfer transfer;
    struct hg_context *context;
    uintptr_t ticket; /* 0: none */
    /* Request model. */
    _Atomic bool done;
    bool waited;    /* a thread waits for it in HG_Bulk_wait() */
    bool abandoned; /* by HG_Finalize */
    /* Callback model. */
    hg_cb_t callback; /* may be NULL */
    struct hg_cb_info info;
};

/* The tickets of the request model, and a free request for the next
 * transfer. */
static struct hg_tickets hg_bulk_request_tickets;
static struct hg_bulk_request *hg_bulk_request_spare;
/* Calls of HG_Bulk_wait() for transfers that had ended. */
static unsigned hg_bulk_request_waits;

/* Every so many of these calls make progress. Otherwise a thread whose
 * transfers complete at once would never make any. */
#define HG_BULK_REQUEST_SLICE 16u

/* The tickets of the callback model, each until its callback runs. */
static pthread_mutex_t hg_bulk_call_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_tickets hg_bulk_call_tickets;
static pthread_once_t hg_bulk_call_once = PTHREAD_ONCE_INIT;

/* ---- Handles and transfers: what both models do ---- */

/* NULL: out of memory (logged). */
static struct hg_bulk_request *hg_bulk_request_new(struct hg_context *context)
{
    struct hg_bulk_request *request =
        (struct hg_bulk_request *) hg_mem_calloc(1, sizeof(*request));

    if (request != NULL)
        request->context = context;
    else
        hg_log_error("bulk", "no memory for a transfer");
    return request;
}

/* Check that the handle can be used. HG_INVALID_ARG; HG_FAULT: its layer has
 * ended, or belongs to the parent process. All are logged. */
static hg_return_t hg_bulk_check(
    const struct hg_bulk *bulk, const char *function)
{
    if (bulk == NULL)
        return hg_log_misuse("bulk", function, "the handle is NULL");
    if (bulk->layer != NULL)
        return na_live_check(bulk->layer->na_class, function);
    (void) hg_log_misuse(
        "bulk", function, "the bulk layer of a handle has ended");
    return HG_FAULT;
}

/* A handle may outlive its layer. */
static hg_return_t hg_bulk_free(struct hg_bulk *bulk, const char *function)
{
    hg_return_t ret = bulk == NULL || bulk->layer != NULL
        ? hg_bulk_check(bulk, function)
        : HG_SUCCESS;

    return ret != HG_SUCCESS || hg_bulk_take_back(bulk) == HG_SUCCESS
        ? ret
        : hg_log_misuse("bulk", function,
              "the handle was freed more often than referenced");
}

static hg_return_t hg_bulk_write(
    struct hg_bulk *bulk, void *buf, size_t buf_size, const char *function)
{
    hg_return_t ret = hg_bulk_check(bulk, function);

    if (ret == HG_SUCCESS && buf == NULL)
        ret = hg_log_misuse("bulk", function, "buf is NULL");
    return ret == HG_SUCCESS ? hg_bulk_serialize(bulk, buf, buf_size) : ret;
}

static hg_return_t hg_bulk_read(struct hg_bulk_layer *layer, hg_bulk_t *handle,
    const void *buf, size_t buf_size, const char *function)
{
    if (handle == NULL || buf == NULL)
        return hg_log_misuse("bulk", function, "an argument is NULL");
    return hg_bulk_deserialize(layer, buf, buf_size, handle);
}

/* ---- Handles of the request model ---- */

HG_EXPORT hg_return_t HG_Bulk_handle_create(size_t count, void **buf_ptrs,
    const size_t *buf_sizes, unsigned long flags, hg_bulk_t *handle)
{
    struct hg_bulk_layer *layer = hg_layer_find_bulk("HG_Bulk_handle_create");

    if (layer == NULL)
        return HG_FAULT;
    if (handle == NULL || buf_sizes == NULL)
        return hg_log_misuse("bulk", "HG_Bulk_handle_create",
            handle == NULL ? "handle is NULL"
                           : "it needs the sizes of its segments");
    return hg_bulk_create(layer, count, buf_ptrs, buf_sizes, flags, handle);
}

HG_EXPORT hg_return_t HG_Bulk_handle_free(hg_bulk_t handle)
{
    return hg_bulk_free(handle, "HG_Bulk_handle_free");
}

HG_EXPORT hg_return_t HG_Bulk_handle_access(hg_bulk_t handle, size_t offset,
    size_t size, unsigned long flags, unsigned int max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned int *actual_count)
{
    hg_return_t ret;

    if (handle == NULL || actual_count == NULL ||
        (max_count > 0 && (buf_ptrs == NULL || buf_sizes == NULL)))
        return hg_log_misuse(
            "bulk", "HG_Bulk_handle_access", "an argument is NULL");
    ret = hg_bulk_check_access(handle, offset, size, flags);
    if (ret == HG_SUCCESS)
        *actual_count = hg_bulk_list(
            handle, offset, size, max_count, buf_ptrs, buf_sizes, NULL);
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_handle_bind(hg_bulk_t handle)
{
    hg_return_t ret = hg_bulk_check(handle, "HG_Bulk_handle_bind");

    return ret == HG_SUCCESS ? hg_bulk_bind(handle, 0, "HG_Bulk_handle_bind")
                             : ret;
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
    return handle != NULL && hg_layer_find_bulk(NULL) != NULL &&
            handle->layer != NULL && !hg_bulk_is_forked(handle)
        ? hg_bulk_serialize_size(handle)
        : 0;
}

HG_EXPORT hg_return_t HG_Bulk_handle_serialize(
    void *buf, size_t buf_size, hg_bulk_t handle)
{
    if (hg_layer_find_bulk("HG_Bulk_handle_serialize") == NULL)
        return HG_FAULT;
    return hg_bulk_write(handle, buf, buf_size, "HG_Bulk_handle_serialize");
}

HG_EXPORT hg_return_t HG_Bulk_handle_deserialize(
    hg_bulk_t *handle, const void *buf, size_t buf_size)
{
    struct hg_bulk_layer *layer =
        hg_layer_find_bulk("HG_Bulk_handle_deserialize");

    if (layer == NULL)
        return HG_FAULT;
    return hg_bulk_read(
        layer, handle, buf, buf_size, "HG_Bulk_handle_deserialize");
}

/* ---- Pointers, in both models ---- */

HG_EXPORT hg_return_t HG_Bulk_map(
    hg_bulk_t handle, hg_size_t segment, void **ptr)
{
    hg_return_t ret = hg_bulk_check(handle, "HG_Bulk_map");

    if (ret == HG_SUCCESS && (ptr == NULL || segment >= handle->segment_count))
        ret = hg_log_misuse("bulk", "HG_Bulk_map",
            ptr == NULL ? "ptr is NULL" : "there is no such segment");
    return ret == HG_SUCCESS ? hg_bulk_map(handle, segment, ptr) : ret;
}

HG_EXPORT hg_return_t HG_Bulk_unmap(hg_bulk_t handle, void *ptr)
{
    hg_return_t ret = hg_bulk_check(handle, "HG_Bulk_unmap");

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_bulk_unmap(handle, ptr);
    return ret == HG_NOENTRY
        ? hg_log_misuse("bulk", "HG_Bulk_unmap",
              "it is no pointer of HG_Bulk_map with this handle")
        : ret;
}

/* ---- Handles of the callback model ---- */

hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    hg_bulk_t *handle)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Bulk_create");
    struct hg_bulk *bulk;
    uint32_t i;

    if (ret == HG_SUCCESS && (handle == NULL || buf_sizes == NULL))
        ret = hg_log_misuse("bulk", "HG_Bulk_create", "an argument is NULL");
    if (ret == HG_SUCCESS)
        ret = hg_bulk_begin(hg_class->layer, count, flags, &bulk);
    if (ret != HG_SUCCESS)
        return ret;
    for (i = 0; i < count; i++) {
        bulk->segments[i].address = buf_ptrs != NULL ? buf_ptrs[i] : NULL;
        bulk->segments[i].size = buf_sizes[i];
    }
    return hg_bulk_finish(bulk, handle);
}

hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    const struct hg_bulk_attr *attrs, hg_bulk_t *handle)
{
    if (attrs == NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_create_attr", "an argument is NULL");
    if (attrs->mem_type != HG_MEM_TYPE_HOST) {
        hg_log_error(
            "bulk", "HG_Bulk_create_attr: only the host's memory can be moved");
        return HG_OPNOTSUPPORT;
    }
    return HG_Bulk_create(hg_class, count, buf_ptrs, buf_sizes, flags, handle);
}

hg_return_t HG_Bulk_free(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? hg_bulk_free(handle, "HG_Bulk_free")
                                  : HG_SUCCESS;
}

hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle)
{
    hg_return_t ret = handle == HG_BULK_NULL || handle->layer != NULL
        ? hg_bulk_check(handle, "HG_Bulk_ref_incr")
        : HG_SUCCESS;

    if (ret == HG_SUCCESS)
        hg_bulk_give(handle);
    return ret;
}

hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context)
{
    hg_return_t ret = hg_bulk_check(handle, "HG_Bulk_bind");

    if (ret == HG_SUCCESS)
        ret = hg_check_context(context, "HG_Bulk_bind");
    if (ret != HG_SUCCESS)
        return ret;
    if (context->hg_class->layer != handle->layer)
        return hg_log_misuse("bulk", "HG_Bulk_bind",
            "handle and context are of different classes");
    return hg_bulk_bind(handle, context->id, "HG_Bulk_bind");
}

hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle)
{
    struct na_addr *addr;

    if (hg_bulk_check(handle, "HG_Bulk_get_addr") != HG_SUCCESS ||
        !hg_bulk_is_bound(handle))
        return HG_ADDR_NULL;
    if (!handle->remote)
        return handle->layer->na_class->self_addr;
    if (handle->addr == NULL && handle->owner != NULL &&
        hg_bulk_look_up(handle, &addr) == HG_SUCCESS)
        na_addr_unref(addr); /* the handle has its own reference */
    return handle->addr;
}

uint8_t HG_Bulk_get_context_id(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL) {
        (void) hg_log_misuse(
            "bulk", "HG_Bulk_get_context_id", "the handle is NULL");
        return 0;
    }
    return hg_bulk_is_bound(handle) ? hg_bulk_source(handle)->context_id : 0;
}

hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size,
    uint8_t flags, uint32_t max_count, void **buf_ptrs, hg_size_t *buf_sizes,
    uint32_t *actual_count)
{
    uint32_t count;
    hg_return_t ret;

    (void) flags;
    if (handle == HG_BULK_NULL)
        return hg_log_misuse("bulk", "HG_Bulk_access", "the handle is NULL");
    if (size == 0 || max_count == 0)
        return HG_SUCCESS;
    ret = hg_bulk_check_access(handle, offset, size, 0);
    if (ret != HG_SUCCESS)
        return ret;
    count = hg_bulk_list(handle, (size_t) offset, (size_t) size, max_count,
        buf_ptrs, NULL, buf_sizes);
    if (actual_count != NULL)
        *actual_count = count;
    return HG_SUCCESS;
}

hg_size_t HG_Bulk_get_size(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->size : 0;
}

/* A handle of the request model may have more segments than the return type
 * holds. */
uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL)
        return 0;
    return handle->segment_count < UINT32_MAX ? (uint32_t) handle->segment_count
                                              : UINT32_MAX;
}

uint8_t HG_Bulk_get_flags(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? (uint8_t) handle->flags : 0;
}

hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags)
{
    (void) flags;
    return hg_bulk_check(handle, "HG_Bulk_get_serialize_size") == HG_SUCCESS
        ? hg_bulk_serialize_size(handle)
        : 0;
}

hg_return_t HG_Bulk_serialize(
    void *buf, hg_size_t buf_size, unsigned long flags, hg_bulk_t handle)
{
    hg_return_t ret = hg_bulk_write(handle, buf,
        buf_size <= SIZE_MAX ? (size_t) buf_size : SIZE_MAX,
        "HG_Bulk_serialize");

    (void) flags;
    return ret == HG_MSGSIZE ? HG_OVERFLOW : ret;
}

hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class, hg_bulk_t *handle,
    const void *buf, hg_size_t buf_size)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Bulk_deserialize");

    if (ret != HG_SUCCESS)
        return ret;
    return hg_bulk_read(
        hg_class->layer, handle, buf, (size_t) buf_size, "HG_Bulk_deserialize");
}

/* ---- As an argument ---- */

static hg_return_t hg_bulk_encode(hg_proc_t proc, struct hg_bulk *bulk)
{
    unsigned char *bytes;
    hg_return_t ret = HG_SUCCESS;
    size_t size = 0;

    if (bulk != NULL && (bulk->layer == NULL || hg_bulk_is_forked(bulk))) {
        hg_log_error("bulk", "the bulk layer of a handle has ended");
        return hg_proc_fail(proc, HG_FAULT);
    }
    if (bulk != NULL)
        size = hg_bulk_serialize_size(bulk);
    if (size > UINT32_MAX) {
        hg_log_error("bulk", "a description of %zu bytes is too large", size);
        return hg_proc_fail(proc, HG_MSGSIZE);
    }
    bytes = hg_proc_step(proc, 4 + size);
    if (bytes == NULL)
        return proc->error;
    hg_wire_store32(bytes, (uint32_t) size);
    if (bulk != NULL)
        ret = hg_bulk_serialize(bulk, bytes + 4, size);
    return ret == HG_SUCCESS ? ret : hg_proc_fail(proc, ret);
}

/* The bulk layer of decoded handles. HG_FAULT, or codes of hg_check_class; all
 * are logged. */
static hg_return_t hg_bulk_find_layer(
    hg_proc_t proc, struct hg_bulk_layer **layer_p)
{
    hg_return_t ret = HG_SUCCESS;

    if (proc->layer != NULL) {
        *layer_p = proc->layer;
    } else if (proc->hg_class != NULL) { /* it may have been destroyed */
        ret = hg_check_class(proc->hg_class, "hg_proc_hg_bulk_t");
        if (ret == HG_SUCCESS)
            *layer_p = proc->hg_class->layer;
    } else {
        *layer_p = hg_bulk_current();
        if (*layer_p == NULL) {
            hg_log_error(
                "bulk", "a bulk handle was passed, but there is no bulk layer");
            ret = HG_FAULT;
        }
    }
    return ret;
}

/* Tell a decoded handle which peer sent its description, `bytes`. A standalone
 * proc does not know its call, but the bytes are in the message of one. */
static void hg_bulk_find_owner(
    hg_proc_t proc, struct hg_bulk *bulk, const unsigned char *bytes)
{
    struct hg_handle *handle;

    if (HG_LIKELY(proc->own == NULL || proc->hg_class == NULL)) {
        hg_bulk_set_owner_peer(bulk, proc->addr);
        return;
    }
    if (!hg_bulk_is_bound(bulk))
        return;
    handle = hg_handle_find_input(proc->hg_class, bytes);
    if (handle == NULL)
        return;
    hg_bulk_set_owner_peer(bulk, handle->addr);
    hg_handle_unref(handle);
}

static hg_return_t hg_bulk_decode(hg_proc_t proc, hg_bulk_t *bulk_p)
{
    struct hg_bulk_layer *layer = NULL;
    struct hg_bulk *bulk = NULL;
    const unsigned char *bytes;
    uint32_t length = 0;
    hg_return_t ret;

    *bulk_p = NULL;
    ret = hg_proc_uint32_t(proc, &length);
    if (ret != HG_SUCCESS || length == 0)
        return ret;
    bytes = hg_proc_step(proc, length);
    if (bytes == NULL)
        return proc->error;
    ret = hg_bulk_find_layer(proc, &layer);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_deserialize(layer, bytes, length, &bulk);
    if (ret == HG_PROTOCOL_ERROR)
        HG_PROC_EXPLAIN(
            proc, "%" PRIu32 " bytes are not a bulk handle", length);
    if (ret == HG_SUCCESS)
        ret = hg_proc_keep(proc, bulk, hg_bulk_settle);
    if (ret != HG_SUCCESS)
        return hg_proc_fail(proc, ret);
    hg_bulk_find_owner(proc, bulk, bytes);
    *bulk_p = bulk;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data)
{
    hg_bulk_t *bulk = (hg_bulk_t *) data;

    if (proc == NULL || data == NULL)
        return hg_proc_refuse(proc);
    switch (proc->cursor.op) {
    case HG_ENCODE: return hg_bulk_encode(proc, *bulk);
    case HG_DECODE: return hg_bulk_decode(proc, bulk);
    default:
        if (*bulk != NULL && !proc->keeps_const && !hg_bulk_is_forked(*bulk))
            (void) hg_bulk_free(*bulk, "hg_proc_hg_bulk_t");
        *bulk = NULL;
        return HG_SUCCESS;
    }
}

/* ---- Transfers of the request model ---- */

/* Callback of the transfer. */
static void hg_bulk_request_ended(struct hg_transfer *transfer)
{
    struct hg_bulk_request *request =
        HG_CONTAINER_OF(transfer, struct hg_bulk_request, transfer);
    struct hg_context *context = request->context;
    struct hg_monitor *bulk_lock = transfer->home->layer->lock;

    hg_enter(bulk_lock);
    hg_transfer_fini(transfer);
    hg_leave(bulk_lock);
    hg_enter(context->lock);
    if (request->abandoned)
        hg_mem_free(request);
    else
        hg_wait_raise(context, &request->done);
    hg_leave(context->lock);
}

HG_EXPORT hg_return_t HG_Bulk_transfer1(hg_bulk_op_t op, na_addr_t origin_addr,
    hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
    size_t local_offset, size_t size, hg_bulk_request_t *request)
{
    struct hg_context *context = hg_layer_find("HG_Bulk_transfer");
    const struct hg_transfer_args args = {op, origin_addr, origin_handle,
        origin_offset, local_handle, local_offset, size};
    struct hg_bulk_request *made = NULL;
    struct hg_monitor *lock;
    bool ended = false;
    hg_return_t ret;

    if (request != NULL) /* NULL unless the call succeeds */
        *request = HG_BULK_REQUEST_NULL;
    if (context == NULL)
        return HG_FAULT;
    if (request == NULL)
        return hg_log_misuse("bulk", "HG_Bulk_transfer", "request is NULL");
    if (origin_addr == NULL && origin_handle != NULL &&
        hg_bulk_is_bound(origin_handle))
        ret = HG_SUCCESS; /* the address is in the handle */
    else
        ret = na_addr_check(
            context->hg_class->na_class, origin_addr, "HG_Bulk_transfer");
    if (ret == HG_SUCCESS)
        ret = hg_transfer_check(&context->transfers, &args, "HG_Bulk_transfer");
    if (ret != HG_SUCCESS)
        return ret;
    lock = context->transfers.layer->lock;
    hg_enter(lock);
    made = hg_bulk_request_spare;
    hg_bulk_request_spare = NULL;
    if (made == NULL)
        made = hg_bulk_request_new(context);
    if (made == NULL) {
        hg_leave(lock);
        return HG_NOMEM;
    }
    ret = hg_ticket_issue(&hg_bulk_request_tickets, made, &made->ticket);
    if (ret == HG_SUCCESS)
        ret = hg_transfer_start(&made->transfer, &context->transfers, &args,
            hg_bulk_request_ended, &ended);
    if (ended) {
        hg_transfer_fini(&made->transfer);
        atomic_store_explicit(&made->done, true, memory_order_relaxed);
    }
    if (ret == HG_SUCCESS)
        *request = (hg_bulk_request_t) made->ticket;
    else
        (void) hg_ticket_take(&hg_bulk_request_tickets, made->ticket);
    hg_leave(lock);
    if (ret != HG_SUCCESS)
        hg_mem_free(made);
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_wait(
    hg_bulk_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_find("HG_Bulk_wait");
    struct hg_monitor *bulk_lock;
    struct hg_bulk_request *found;
    const char *wrong = NULL;
    bool done = false;
    hg_return_t ret = HG_SUCCESS;

    if (context == NULL)
        return HG_FAULT;
    bulk_lock = context->transfers.layer->lock;
    hg_enter(context->lock);
    hg_enter_also(bulk_lock, context->lock);
    found = (struct hg_bulk_request *) hg_ticket_get(
        &hg_bulk_request_tickets, (uintptr_t) request);
    hg_leave_also(bulk_lock, context->lock);
    if (found == NULL) {
        wrong = request == HG_BULK_REQUEST_NULL
            ? "request is NULL"
            : "no such request; it may have been waited for";
        ret = HG_INVALID_ARG;
    } else if (found->waited) {
        wrong = "another thread waits for the request";
        ret = HG_BUSY;
    } else {
        found->waited = true;
        if (!found->done)
            ret = hg_wait_until(context, &found->done, NA_LANES_DONE,
                hg_wait_deadline(timeout));
        else if (++hg_bulk_request_waits % HG_BULK_REQUEST_SLICE == 0 &&
            !hg_context_is_driver())
            (void) hg_wait_until(context, NULL, NA_LANES_DONE, 0);
        found->waited = false;
        done = ret == HG_SUCCESS;
        if (done) {
            ret = found->transfer.ret;
            if (ret != HG_SUCCESS)
                hg_log_keep_text("HG_Bulk_wait: %s", HG_Error_to_string(ret));
            hg_enter_also(bulk_lock, context->lock);
            (void) hg_ticket_take(&hg_bulk_request_tickets, found->ticket);
            hg_mem_free(hg_bulk_request_spare);
            memset(found, 0, sizeof(*found));
            found->context = context;
            hg_bulk_request_spare = found;
            hg_leave_also(bulk_lock, context->lock);
        }
    }
    hg_leave(context->lock);
    if (wrong != NULL)
        (void) hg_log_misuse("bulk", "HG_Bulk_wait", wrong);
    if (status != HG_STATUS_IGNORE && ret != HG_INVALID_ARG)
        *status = done ? HG_TRUE : HG_FALSE;
    return ret;
}

HG_PRIVATE void hg_bulk_request_abandon_all(struct hg_context *context)
{
    struct hg_monitor *bulk_lock = context->transfers.layer->lock;
    struct hg_bulk_request *request;

    hg_enter(context->lock);
    hg_enter_also(bulk_lock, context->lock);
    while ((request = (struct hg_bulk_request *) hg_ticket_take_any(
                &hg_bulk_request_tickets)) != NULL) {
        request->abandoned = true;
        if (request->done)
            hg_mem_free(request);
    }
    hg_mem_free(hg_bulk_request_spare);
    hg_bulk_request_spare = NULL;
    hg_leave_also(bulk_lock, context->lock);
    hg_leave(context->lock);
}

/* Another thread may have been changing the table. */
HG_PRIVATE void hg_bulk_request_forget_all(void)
{
    hg_ticket_forget_all(&hg_bulk_request_tickets);
    hg_bulk_request_spare = NULL;
}

/* ---- Transfers of the callback model ---- */

static void hg_bulk_call_fork_prepare(void)
{
    hg_lock(&hg_bulk_call_lock);
}

static void hg_bulk_call_fork_end(void)
{
    hg_unlock(&hg_bulk_call_lock);
}

static void hg_bulk_call_begin(void)
{
    hg_log_atfork(hg_bulk_call_fork_prepare, hg_bulk_call_fork_end,
        hg_bulk_call_fork_end);
}

/* Issue a ticket, by which HG_Bulk_cancel() finds the transfer. */
static hg_return_t hg_bulk_call_issue(
    struct hg_bulk_request *call, hg_op_id_t *op_id)
{
    hg_return_t ret;

    (void) pthread_once(&hg_bulk_call_once, hg_bulk_call_begin);
    hg_lock(&hg_bulk_call_lock);
    ret = hg_ticket_issue(&hg_bulk_call_tickets, call, &call->ticket);
    hg_unlock(&hg_bulk_call_lock);
    *op_id = (hg_op_id_t) call->ticket;
    return ret;
}

/* Revoke the ticket. The table is freed with the last one. */
static void hg_bulk_call_revoke(struct hg_bulk_request *call)
{
    if (call->ticket == 0)
        return;
    hg_lock(&hg_bulk_call_lock);
    (void) hg_ticket_take(&hg_bulk_call_tickets, call->ticket);
    if (hg_bulk_call_tickets.slots.count == 0)
        (void) hg_ticket_take_any(&hg_bulk_call_tickets);
    hg_unlock(&hg_bulk_call_lock);
}

/* Callback of the transfer. */
static void hg_bulk_call_ended(struct hg_transfer *transfer)
{
    struct hg_bulk_request *call =
        HG_CONTAINER_OF(transfer, struct hg_bulk_request, transfer);

    hg_bulk_call_revoke(call);
    call->info.ret = transfer->ret;
    if (call->callback != NULL)
        (void) call->callback(&call->info);
    hg_enter(transfer->home->layer->lock);
    hg_transfer_fini(transfer);
    hg_leave(transfer->home->layer->lock);
    hg_mem_free(call);
}

/* Check arguments that only the callback model can get wrong. `bind`: the
 * origin's handle must be bound. */
static hg_return_t hg_bulk_call_check(struct hg_context *context,
    const struct hg_transfer_args *args, bool bind, const char *function)
{
    const char *wrong = NULL;

    if (args->origin != NULL && hg_bulk_is_bound(args->origin) != bind)
        wrong = bind ? "the origin's handle is not bound"
                     : "the origin's handle is bound: HG_Bulk_bind_transfer is "
                       "for it";
    else if (!bind && args->addr == NULL)
        wrong = "the address is NULL";
    else if (!bind && na_addr_class(args->addr) != context->hg_class->na_class)
        wrong = "context, handles and address are of different classes";
    return wrong != NULL ? hg_log_misuse("bulk", function, wrong) : HG_SUCCESS;
}

static hg_return_t hg_bulk_call_start(struct hg_context *context,
    const struct hg_transfer_args *args, bool bind, hg_cb_t callback, void *arg,
    hg_op_id_t *op_id, const char *function)
{
    struct hg_bulk_request *call;
    struct hg_transfer_list *home;
    hg_return_t ret = hg_check_context(context, function);

    if (op_id != HG_OP_ID_IGNORE)
        *op_id = HG_OP_ID_NULL;
    if (ret == HG_SUCCESS)
        ret = hg_bulk_call_check(context, args, bind, function);
    if (ret == HG_SUCCESS)
        ret = hg_transfer_check(&context->transfers, args, function);
    if (ret != HG_SUCCESS)
        return ret == HG_OVERFLOW ? HG_INVALID_ARG : ret; /* as in Mercury */
    home = &context->transfers;
    call = hg_bulk_request_new(context);
    if (call == NULL)
        return HG_NOMEM;
    call->callback = callback;
    call->info.arg = arg;
    call->info.type = HG_CB_BULK;
    call->info.info.bulk.origin_handle = args->origin;
    call->info.info.bulk.local_handle = args->local;
    call->info.info.bulk.op = args->op;
    call->info.info.bulk.size = args->size;
    if (op_id != HG_OP_ID_IGNORE)
        ret = hg_bulk_call_issue(call, op_id);
    if (ret == HG_SUCCESS) {
        hg_enter(home->layer->lock);
        ret = hg_transfer_start(
            &call->transfer, home, args, hg_bulk_call_ended, NULL);
        hg_leave(home->layer->lock);
    }
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    if (op_id != HG_OP_ID_IGNORE)
        *op_id = HG_OP_ID_NULL;
    hg_bulk_call_revoke(call);
    hg_mem_free(call);
    return ret;
}

hg_return_t HG_Bulk_transfer2(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id)
{
    const struct hg_transfer_args args = {op, origin_addr, origin_handle,
        origin_offset, local_handle, local_offset, size};

    return hg_bulk_call_start(
        context, &args, false, callback, arg, op_id, "HG_Bulk_transfer");
}

hg_return_t HG_Bulk_bind_transfer(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id)
{
    const struct hg_transfer_args args = {op, NULL, origin_handle,
        origin_offset, local_handle, local_offset, size};

    return hg_bulk_call_start(
        context, &args, true, callback, arg, op_id, "HG_Bulk_bind_transfer");
}

/* Any context of the origin that makes progress serves its memory. */
hg_return_t HG_Bulk_transfer_id(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, uint8_t origin_id,
    hg_bulk_t origin_handle, hg_size_t origin_offset, hg_bulk_t local_handle,
    hg_size_t local_offset, hg_size_t size, hg_op_id_t *op_id)
{
    (void) origin_id;
    return HG_Bulk_transfer2(context, callback, arg, op, origin_addr,
        origin_handle, origin_offset, local_handle, local_offset, size, op_id);
}

hg_return_t HG_Bulk_cancel(hg_op_id_t op_id)
{
    const struct na_class *na_class = NULL;
    struct hg_bulk_request *call;
    bool forked = false;

    if (op_id == HG_OP_ID_NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_cancel", "the operation's id is NULL");
    hg_lock(&hg_bulk_call_lock);
    call = (struct hg_bulk_request *) hg_ticket_get(
        &hg_bulk_call_tickets, (uintptr_t) op_id);
    if (call != NULL) { /* otherwise it has ended */
        na_class = call->context->hg_class->layer->na_class;
        forked = na_class_is_forked(na_class);
        if (!forked)
            hg_transfer_cancel(&call->context->transfers, &call->transfer);
    }
    hg_unlock(&hg_bulk_call_lock);
    return forked ? na_live_check(na_class, "HG_Bulk_cancel") : HG_SUCCESS;
}

/* ---- The names of the paper ---- */

HG_EXPORT hg_return_t HG_Bulk_handle_create_segments(
    const hg_bulk_segment_t *segments, size_t count, unsigned long flags,
    hg_bulk_t *handle)
{
    struct hg_bulk_layer *layer =
        hg_layer_find_bulk("HG_Bulk_handle_create_segments");
    struct hg_bulk *bulk;
    hg_return_t ret;
    size_t i;

    if (layer == NULL)
        return HG_FAULT;
    if (segments == NULL || handle == NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_handle_create_segments", "an argument is NULL");
    ret = hg_bulk_begin(layer, count, flags, &bulk);
    if (ret != HG_SUCCESS)
        return ret;
    for (i = 0; i < count; i++) {
        bulk->segments[i].address = segments[i].address;
        bulk->segments[i].size = segments[i].size;
    }
    return hg_bulk_finish(bulk, handle);
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
