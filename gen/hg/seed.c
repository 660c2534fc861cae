/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seed: what the names of the first reports call (api/seed.h), where that is
 * more than one function of hg.h. It uses the public functions.
 *
 * Those reports have no function that frees the input of a call. So decoding
 * an input records each string and bulk handle that it allocates, in a list of
 * the thread. hg_seed_complete marks those of its call, and the list is cleaned
 * when the thread leaves its outermost wait: then no handler runs in it that
 * could still use them.
 *
 * Locking: none. The list belongs to a thread; the counts of layers are for one
 * thread at a time, as api/seed.h says.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "hg/layer.h"
#include "hg/proc.h"
#include "hg/request.h"

/* ---- The network layer ---- */

struct hg_seed_request {
    na_class_t *na_class;
    na_context_t *context; /* its own */
    bool done;
    na_return_t ret;
    na_size_t *size_p; /* of a receive; each may be NULL */
    na_addr_t *source_p;
    na_tag_t *tag_p;
};

/* A client needs the scheme alone. */
na_class_t *hg_seed_open(void *intra_comm, int flags)
{
    const char *name = getenv("HG_SEED_ADDRESS");
    const char *end = name != NULL ? strstr(name, "://") : NULL;
    char scheme[NA_MAX_ADDR_LEN];

    (void) intra_comm;
    if (flags == 0 && end != NULL) {
        (void) snprintf(
            scheme, sizeof(scheme), "%.*s", (int) (end + 3 - name), name);
        name = scheme;
    }
    return NA_Initialize(name, flags != 0 ? NA_TRUE : NA_FALSE);
}

na_return_t hg_seed_lookup(
    na_class_t *na_class, const char *name, na_addr_t *addr)
{
    return NA_Addr_lookup_wait(na_class, name, NA_MAX_IDLE_TIME, addr);
}

/* Run by NA_Trigger in hg_seed_na_wait. */
static na_return_t hg_seed_ended(const struct na_cb_info *info)
{
    struct hg_seed_request *request = (struct hg_seed_request *) info->arg;
    bool unexpected = info->type == NA_CB_RECV_UNEXPECTED;

    request->ret = info->ret;
    request->done = true;
    if (!unexpected || info->ret != NA_SUCCESS)
        return NA_SUCCESS;
    if (request->size_p != NULL)
        *request->size_p = info->info.recv_unexpected.actual_buf_size;
    if (request->tag_p != NULL)
        *request->tag_p = info->info.recv_unexpected.tag;
    if (request->source_p != NULL)
        *request->source_p = info->info.recv_unexpected.source;
    else
        (void) NA_Addr_free(
            request->na_class, info->info.recv_unexpected.source);
    return NA_SUCCESS;
}

/* A request for an operation that is about to start. NULL: it cannot (*ret_p,
 * logged). */
static struct hg_seed_request *hg_seed_begin(na_class_t *na_class,
    const hg_seed_request_t *request_p, na_return_t *ret_p)
{
    struct hg_seed_request *request;

    *ret_p = NA_INVALID_ARG;
    if (na_class == NULL || request_p == NULL) {
        (void) hg_layer_refuse("na_", "the class or the request is NULL");
        return NULL;
    }
    *ret_p = NA_NOMEM;
    request = (struct hg_seed_request *) hg_mem_calloc(1, sizeof(*request));
    if (request == NULL) {
        hg_log_error("rpc", "no memory for a request");
        return NULL;
    }
    request->na_class = na_class;
    request->context = NA_Context_create(na_class);
    if (request->context != NULL)
        return request;
    hg_mem_free(request);
    *ret_p = NA_AGAIN;
    return NULL;
}

static void hg_seed_end(struct hg_seed_request *request)
{
    (void) NA_Context_destroy(request->na_class, request->context);
    hg_mem_free(request);
}

/* The operation started, or failed with `ret`. */
static na_return_t hg_seed_begun(struct hg_seed_request *request,
    na_return_t ret, hg_seed_request_t *request_p)
{
    if (ret == NA_SUCCESS)
        *request_p = request;
    else
        hg_seed_end(request);
    return ret;
}

na_return_t hg_seed_send_unexpected(na_class_t *na_class, const void *buf,
    na_size_t buf_len, na_addr_t dest, na_tag_t tag, hg_seed_request_t *request,
    void *op_arg)
{
    na_return_t ret;
    struct hg_seed_request *made = hg_seed_begin(na_class, request, &ret);

    (void) op_arg;
    if (made == NULL)
        return ret;
    ret = NA_Msg_send_unexpected(na_class, made->context, hg_seed_ended, made,
        buf, buf_len, dest, tag, NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

na_return_t hg_seed_recv_unexpected(na_class_t *na_class, void *buf,
    na_size_t *buf_len, na_addr_t *source, na_tag_t *tag,
    hg_seed_request_t *request, void *op_arg)
{
    na_return_t ret;
    struct hg_seed_request *made;

    (void) op_arg;
    if (buf_len == NULL)
        return hg_layer_refuse("na_recv_unexpected", "buf_len is NULL");
    made = hg_seed_begin(na_class, request, &ret);
    if (made == NULL)
        return ret;
    made->size_p = buf_len;
    made->source_p = source;
    made->tag_p = tag;
    ret = NA_Msg_recv_unexpected(na_class, made->context, hg_seed_ended, made,
        buf, *buf_len, NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

na_return_t hg_seed_send(na_class_t *na_class, const void *buf,
    na_size_t buf_len, na_addr_t dest, na_tag_t tag, hg_seed_request_t *request,
    void *op_arg)
{
    na_return_t ret;
    struct hg_seed_request *made = hg_seed_begin(na_class, request, &ret);

    (void) op_arg;
    if (made == NULL)
        return ret;
    ret = NA_Msg_send_expected(na_class, made->context, hg_seed_ended, made,
        buf, buf_len, dest, tag, NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

na_return_t hg_seed_recv(na_class_t *na_class, void *buf, na_size_t buf_len,
    na_addr_t source, na_tag_t tag, hg_seed_request_t *request, void *op_arg)
{
    na_return_t ret;
    struct hg_seed_request *made = hg_seed_begin(na_class, request, &ret);

    (void) op_arg;
    if (made == NULL)
        return ret;
    ret = NA_Msg_recv_expected(na_class, made->context, hg_seed_ended, made,
        buf, buf_len, source, tag, NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

na_return_t hg_seed_put(na_class_t *na_class, na_mem_handle_t local,
    na_offset_t local_offset, na_mem_handle_t remote, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr, hg_seed_request_t *request)
{
    na_return_t ret;
    struct hg_seed_request *made = hg_seed_begin(na_class, request, &ret);

    if (made == NULL)
        return ret;
    ret = NA_Put(na_class, made->context, hg_seed_ended, made, local,
        local_offset, remote, remote_offset, length, remote_addr,
        NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

na_return_t hg_seed_get(na_class_t *na_class, na_mem_handle_t local,
    na_offset_t local_offset, na_mem_handle_t remote, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr, hg_seed_request_t *request)
{
    na_return_t ret;
    struct hg_seed_request *made = hg_seed_begin(na_class, request, &ret);

    if (made == NULL)
        return ret;
    ret = NA_Get(na_class, made->context, hg_seed_ended, made, local,
        local_offset, remote, remote_offset, length, remote_addr,
        NA_OP_ID_IGNORE);
    return hg_seed_begun(made, ret, request);
}

/* Until it is done: NA_SUCCESS. */
static na_return_t hg_seed_await(
    struct hg_seed_request *request, unsigned timeout)
{
    uint64_t deadline = hg_clock_after_ms(timeout);
    na_return_t ret;

    for (;;) {
        (void) NA_Trigger(request->context, 0, 1, NULL);
        if (request->done)
            return NA_SUCCESS;
        ret = NA_Progress(request->na_class, request->context,
            (unsigned) hg_clock_ms_until(deadline));
        if (ret != NA_SUCCESS)
            return ret;
    }
}

na_return_t hg_seed_na_wait(na_class_t *na_class, hg_seed_request_t request,
    unsigned int timeout, hg_status_t *status)
{
    na_return_t ret;

    if (request == NULL || request->na_class != na_class)
        return hg_layer_refuse("na_wait", "no request, or of another class");
    ret = hg_seed_await(request, timeout);
    if (status != NULL)
        *status = ret == NA_SUCCESS ? HG_TRUE : HG_FALSE;
    if (ret != NA_SUCCESS)
        return ret == NA_TIMEOUT && status != NULL ? NA_SUCCESS : ret;
    ret = request->ret;
    hg_seed_end(request);
    return ret;
}

na_return_t hg_seed_register(na_class_t *na_class, void *buf, na_size_t buf_len,
    unsigned long flags, na_mem_handle_t *mem_handle)
{
    na_mem_handle_t made;
    na_return_t ret;

    if (mem_handle == NULL)
        return hg_layer_refuse("na_mem_register", "mem_handle is NULL");
    ret = NA_Mem_handle_create(na_class, buf, buf_len,
        flags != 0 ? flags : (unsigned long) NA_MEM_READWRITE, &made);
    if (ret != NA_SUCCESS)
        return ret;
    ret = NA_Mem_register(na_class, made);
    if (ret == NA_SUCCESS)
        *mem_handle = made;
    else
        (void) NA_Mem_handle_free(na_class, made);
    return ret;
}

na_return_t hg_seed_deregister(na_class_t *na_class, na_mem_handle_t mem_handle)
{
    na_return_t ret = NA_Mem_deregister(na_class, mem_handle);

    return ret == NA_SUCCESS ? NA_Mem_handle_free(na_class, mem_handle) : ret;
}

/* The report has no function that tells the size of a serialized handle. So its
 * length comes first, a uint32_t. */
#define HG_SEED_LENGTH 4

na_return_t hg_seed_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_len, na_mem_handle_t mem_handle)
{
    na_size_t size = NA_Mem_handle_get_serialize_size(na_class, mem_handle);
    unsigned char *bytes = (unsigned char *) buf;

    if (buf == NULL || size == 0)
        return hg_layer_refuse("na_mem_handle_serialize", "a NULL");
    if (buf_len < HG_SEED_LENGTH || buf_len - HG_SEED_LENGTH < size) {
        hg_log_error("rma",
            "a memory handle has %" PRIu64 " bytes, the buffer %" PRIu64,
            size + HG_SEED_LENGTH, buf_len);
        return NA_MSGSIZE;
    }
    assert(size <= UINT32_MAX);
    hg_wire_store32(bytes, (uint32_t) size);
    return NA_Mem_handle_serialize(
        na_class, bytes + HG_SEED_LENGTH, size, mem_handle);
}

na_return_t hg_seed_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_len)
{
    const unsigned char *bytes = (const unsigned char *) buf;

    if (buf == NULL)
        return hg_layer_refuse("na_mem_handle_deserialize", "a NULL");
    if (buf_len < HG_SEED_LENGTH ||
        hg_wire_load32(bytes) > buf_len - HG_SEED_LENGTH) {
        hg_log_error("rma",
            "these %" PRIu64 " bytes are no memory handle with its length",
            buf_len);
        return NA_PROTOCOL_ERROR;
    }
    return NA_Mem_handle_deserialize(
        na_class, mem_handle, bytes + HG_SEED_LENGTH, hg_wire_load32(bytes));
}

/* ---- Layers, which begin several times ---- */

static struct hg_seed_layers {
    unsigned rpc;
    unsigned bulk;
    na_class_t *rpc_class;
    na_class_t *bulk_class; /* of HG_Bulk_init; NULL: it was not called */
} hg_seed_layers;

static hg_return_t hg_seed_same(const na_class_t *now, const na_class_t *wanted)
{
    if (now == wanted)
        return HG_SUCCESS;
    hg_log_error("rpc", "a layer runs on another class already");
    return HG_EXIST;
}

hg_return_t hg_seed_init(na_class_t *na_class)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    hg_return_t ret = layers->rpc > 0
        ? hg_seed_same(layers->rpc_class, na_class)
        : HG_Init1(na_class);

    if (ret != HG_SUCCESS)
        return ret;
    layers->rpc++;
    layers->rpc_class = na_class;
    return HG_SUCCESS;
}

/* End the bulk layer once neither needs it: it ends after the RPC layer. */
static hg_return_t hg_seed_end_bulk(void)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    hg_return_t ret;

    if (layers->rpc > 0 || layers->bulk > 0 || layers->bulk_class == NULL)
        return HG_SUCCESS;
    ret = HG_Bulk_finalize();
    if (ret == HG_SUCCESS)
        layers->bulk_class = NULL;
    return ret;
}

hg_return_t hg_seed_finalize(void)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    hg_return_t ret = layers->rpc > 1 ? HG_SUCCESS : HG_Finalize1();

    if (ret != HG_SUCCESS)
        return ret;
    layers->rpc -= layers->rpc > 0 ? 1 : 0;
    return hg_seed_end_bulk();
}

hg_return_t hg_seed_bulk_init(na_class_t *na_class)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    hg_return_t ret;

    if (layers->bulk_class != NULL)
        ret = hg_seed_same(layers->bulk_class, na_class);
    else if (layers->rpc > 0) /* which began bulk on its class */
        ret = hg_seed_same(layers->rpc_class, na_class);
    else
        ret = HG_Bulk_init(na_class);
    if (ret != HG_SUCCESS)
        return ret;
    if (layers->rpc == 0)
        layers->bulk_class = na_class;
    layers->bulk++;
    return HG_SUCCESS;
}

hg_return_t hg_seed_bulk_finalize(void)
{
    struct hg_seed_layers *layers = &hg_seed_layers;

    if (layers->bulk == 0)
        return HG_Bulk_finalize(); /* which says that there is none */
    layers->bulk--;
    return hg_seed_end_bulk();
}

/* ---- What inputs allocated ---- */

struct hg_seed_value {
    struct hg_seed_value *next;
    hg_handle_t handle; /* of the call; compared, not used */
    void *object;
    bool is_bulk;  /* else a string */
    bool finished; /* the call was completed */
};

static _Thread_local struct hg_seed_value *hg_seed_values;
static _Thread_local hg_handle_t hg_seed_decoding; /* NULL: no input */
static _Thread_local unsigned hg_seed_depth;       /* waits inside each other */

static hg_return_t hg_seed_record(hg_proc_t proc, void *object, bool is_bulk)
{
    struct hg_seed_value *value;

    if (proc->room.op != HG_DECODE || hg_seed_decoding == NULL ||
        object == NULL)
        return HG_SUCCESS;
    value = (struct hg_seed_value *) hg_mem_calloc(1, sizeof(*value));
    if (value == NULL) {
        hg_log_error("proc", "no memory to record a decoded value");
        return hg_proc_fail(proc, HG_NOMEM);
    }
    value->handle = hg_seed_decoding;
    value->object = object;
    value->is_bulk = is_bulk;
    value->next = hg_seed_values;
    hg_seed_values = value;
    return HG_SUCCESS;
}

hg_return_t hg_seed_proc_string(hg_proc_t proc, void *data)
{
    hg_return_t ret = hg_proc_hg_const_string_t(proc, data);

    if (ret != HG_SUCCESS)
        return ret;
    return hg_seed_record(
        proc, (void *) (uintptr_t) * (hg_const_string_t *) data, false);
}

hg_return_t hg_seed_proc_bulk(hg_proc_t proc, void *data)
{
    hg_return_t ret = hg_proc_hg_bulk_t(proc, data);

    if (ret != HG_SUCCESS)
        return ret;
    return hg_seed_record(proc, *(hg_bulk_t *) data, true);
}

static void hg_seed_finish(hg_handle_t handle)
{
    struct hg_seed_value *value;

    for (value = hg_seed_values; value != NULL; value = value->next)
        value->finished = value->finished || value->handle == handle;
}

/* Forget values; with `object`, that one, else those of an input whose decoding
 * failed: the library has freed them. */
static void hg_seed_forget(hg_handle_t handle, const void *object)
{
    struct hg_seed_value **at = &hg_seed_values;

    while (*at != NULL) {
        struct hg_seed_value *value = *at;

        if (object != NULL ? value->object == object
                           : !value->finished && value->handle == handle) {
            *at = value->next;
            hg_mem_free(value);
        } else {
            at = &value->next;
        }
    }
}

/* Leave a wait. With the outermost one every handler of this thread is over. */
static void hg_seed_leave(void)
{
    struct hg_seed_value **at = &hg_seed_values;

    assert(hg_seed_depth > 0);
    if (--hg_seed_depth > 0)
        return;
    while (*at != NULL) {
        struct hg_seed_value *value = *at;

        if (!value->finished) {
            at = &value->next;
            continue;
        }
        *at = value->next;
        if (value->is_bulk)
            (void) HG_Bulk_handle_free((hg_bulk_t) value->object);
        else
            hg_mem_free(value->object);
        hg_mem_free(value);
    }
}

/* ---- The function shipper ---- */

hg_id_t hg_seed_register_call(
    const char *func_name, hg_proc_cb_t enc_routine, hg_proc_cb_t dec_routine)
{
    return HG_Register1(func_name, enc_routine, dec_routine, NULL);
}

void hg_seed_register_handler(const char *func_name,
    hg_return_t (*fs_routine)(hg_handle_t handle), hg_proc_cb_t dec_routine,
    hg_proc_cb_t enc_routine)
{
    (void) HG_Register1(func_name, dec_routine, enc_routine, fs_routine);
}

hg_return_t hg_seed_forward(na_addr_t addr, hg_id_t id, const void *in_struct,
    void *out_struct, hg_request_t *request)
{
    return HG_Forward1(
        addr, id, (void *) (uintptr_t) in_struct, out_struct, request);
}

hg_return_t hg_seed_wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    hg_status_t done = HG_FALSE;
    hg_return_t ret;

    hg_seed_depth++;
    ret = HG_Wait(request, timeout, &done);
    hg_seed_leave();
    if (status != NULL)
        *status = done;
    if (!done)
        return ret == HG_TIMEOUT && status != NULL ? HG_SUCCESS : ret;
    hg_request_keep_output(request);
    (void) HG_Request_free(request);
    return ret;
}

hg_return_t hg_seed_wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    uint64_t deadline = hg_clock_after_ms(timeout);
    hg_return_t first = HG_SUCCESS;
    bool all = true;
    int i;

    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_layer_refuse("fs_wait_all", "the requests are NULL");
    for (i = 0; i < count; i++) {
        hg_status_t done = HG_TRUE;
        hg_return_t ret = HG_SUCCESS;

        if (array_of_requests[i] != HG_REQUEST_NULL)
            ret = hg_seed_wait(array_of_requests[i],
                (unsigned) hg_clock_ms_until(deadline), &done);
        if (done)
            array_of_requests[i] = HG_REQUEST_NULL;
        if (array_of_statuses != NULL)
            array_of_statuses[i] = done;
        if (first == HG_SUCCESS)
            first = ret;
        all = all && done;
    }
    if (first != HG_SUCCESS || all || array_of_statuses != NULL)
        return first;
    return HG_TIMEOUT;
}

hg_return_t hg_seed_process(unsigned int timeout)
{
    hg_return_t ret;

    hg_seed_depth++;
    ret = HG_Handler_process(timeout, HG_STATUS_IGNORE);
    hg_seed_leave();
    return ret == HG_TIMEOUT ? HG_SUCCESS : ret;
}

hg_return_t hg_seed_get_input(hg_handle_t handle, void *in_struct)
{
    hg_handle_t outer = hg_seed_decoding;
    hg_return_t ret;

    hg_seed_finish(handle); /* an earlier call that had the same handle */
    hg_seed_decoding = handle;
    ret = HG_Handler_get_input(handle, in_struct);
    hg_seed_decoding = outer;
    if (ret != HG_SUCCESS)
        hg_seed_forget(handle, NULL);
    return ret;
}

hg_return_t hg_seed_complete(hg_handle_t handle, const void *out_struct)
{
    hg_return_t ret =
        HG_Handler_start_output(handle, (void *) (uintptr_t) out_struct);
    hg_return_t freed;

    if (handle == HG_HANDLE_NULL)
        return ret;
    hg_seed_finish(handle);
    freed = HG_Handler_free(handle);
    return ret != HG_SUCCESS ? ret : freed;
}

/* ---- The bulk data shipper ---- */

struct hg_seed_block {
    hg_bulk_block_t block;
    hg_bulk_request_t request; /* NULL: no transfer */
};

hg_return_t hg_seed_bulk_create(
    void *buf, size_t buf_len, unsigned long flags, hg_bulk_t *handle)
{
    return HG_Bulk_handle_create(1, &buf, &buf_len,
        flags != 0 ? flags : (unsigned long) HG_BULK_READWRITE, handle);
}

hg_return_t hg_seed_bulk_free(hg_bulk_t handle)
{
    if (handle != HG_BULK_NULL)
        hg_seed_forget(HG_HANDLE_NULL, handle);
    return HG_Bulk_handle_free(handle);
}

hg_return_t hg_seed_block_create(
    void *buf, size_t block_size, unsigned long flags, hg_seed_block_t *handle)
{
    struct hg_seed_block *block;
    hg_return_t ret;

    if (handle == NULL)
        return hg_layer_refuse("bds_block_handle_create", "handle is NULL");
    block = (struct hg_seed_block *) hg_mem_calloc(1, sizeof(*block));
    if (block == NULL) {
        hg_log_error("bulk", "no memory for a block handle");
        return HG_NOMEM;
    }
    ret = HG_Bulk_block_handle_create(buf, block_size,
        flags != 0 ? flags : (unsigned long) HG_BULK_READWRITE, &block->block);
    if (ret == HG_SUCCESS)
        *handle = block;
    else
        hg_mem_free(block);
    return ret;
}

hg_return_t hg_seed_block_free(hg_seed_block_t block_handle)
{
    hg_return_t ret;

    if (block_handle == NULL)
        return hg_layer_refuse("bds_block_handle_free", "the handle is NULL");
    ret = HG_Bulk_block_handle_free(block_handle->block);
    if (ret != HG_SUCCESS)
        return ret;
    if (block_handle->request != HG_BULK_REQUEST_NULL) /* it ends now */
        (void) HG_Bulk_wait(
            block_handle->request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    hg_mem_free(block_handle);
    return HG_SUCCESS;
}

size_t hg_seed_block_get_size(hg_seed_block_t block_handle)
{
    return block_handle != NULL
        ? HG_Bulk_block_handle_get_size(block_handle->block)
        : 0;
}

static hg_return_t hg_seed_transfer(hg_bulk_op_t op, hg_bulk_t handle,
    na_addr_t addr, struct hg_seed_block *block)
{
    size_t size = HG_Bulk_handle_get_size(handle);
    size_t room = hg_seed_block_get_size(block);

    if (block == NULL)
        return hg_layer_refuse("a transfer", "the block handle is NULL");
    if (block->request != HG_BULK_REQUEST_NULL) {
        hg_log_error(
            "bulk", "the block handle is in a transfer: call bds_wait");
        return HG_BUSY;
    }
    return HG_Bulk_transfer1(op, addr, handle, 0, block->block, 0,
        size < room ? size : room, &block->request);
}

hg_return_t hg_seed_block_write(
    hg_bulk_t handle, na_addr_t dest, hg_seed_block_t block_handle)
{
    return hg_seed_transfer(HG_BULK_PUSH, handle, dest, block_handle);
}

hg_return_t hg_seed_block_read(
    hg_bulk_t handle, na_addr_t source, hg_seed_block_t block_handle)
{
    return hg_seed_transfer(HG_BULK_PULL, handle, source, block_handle);
}

hg_return_t hg_seed_block_wait(
    hg_seed_block_t block_handle, unsigned int timeout)
{
    hg_return_t ret;

    if (block_handle == NULL)
        return hg_layer_refuse("bds_wait", "the block handle is NULL");
    if (block_handle->request == HG_BULK_REQUEST_NULL)
        return HG_SUCCESS;
    ret = HG_Bulk_wait(block_handle->request, timeout, HG_STATUS_IGNORE);
    if (ret != HG_TIMEOUT && ret != HG_INTR)
        block_handle->request = HG_BULK_REQUEST_NULL;
    return ret;
}
