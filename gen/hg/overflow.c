/* SPDX-License-Identifier: BSD-3-Clause */
/* overflow: see overflow.h. */
#include "hg/overflow.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/wire.h"
#include "na/context.h"
#include "na/rma.h"

#define HG_OVERFLOW_FIXED 20

HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, struct hg_header *header,
    const struct hg_args *args, uint64_t held_id, const void **message_p,
    size_t *size_p)
{
    struct na_class *na_class = handle->context->hg_class->na_class;
    size_t header_size = hg_header_size(header);
    size_t args_end = HG_HEADER_MIN + args->size;
    struct hg_wire wire;
    size_t mem_size;
    size_t total;
    hg_return_t ret;

    /* Room first: what is exposed must not move afterwards. The memory
     * handle's size does not depend on the address. */
    total = args_end + header_size + HG_OVERFLOW_FIXED + NA_MAX_ADDR_LEN;
    ret = hg_buf_reserve(buf, total, total);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Mem_handle_create(na_class, buf->data + HG_HEADER_MIN, args->size,
        NA_MEM_READ_ONLY, &large->mem);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Mem_register(na_class, large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    mem_size = (size_t) NA_Mem_handle_get_serialize_size(na_class, large->mem);
    if (mem_size > NA_MAX_ADDR_LEN) {
        hg_log_error("rpc", "a memory handle of %zu bytes", mem_size);
        ret = HG_MSGSIZE;
        goto end_large;
    }
    header->flags |= HG_HEADER_LARGE;
    header->payload_size = HG_OVERFLOW_FIXED + mem_size;
    hg_header_encode(header, buf->data + args_end);
    wire = hg_wire_writer(
        buf->data + args_end + header_size, HG_OVERFLOW_FIXED + mem_size);
    hg_wire_put64(&wire, held_id);
    hg_wire_put64(&wire, args->size);
    hg_wire_put32(&wire, (uint32_t) mem_size);
    ret = NA_Mem_handle_serialize(
        na_class, hg_wire_take(&wire, mem_size), mem_size, large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    *message_p = buf->data + args_end;
    *size_p = header_size + HG_OVERFLOW_FIXED + mem_size;
    return HG_SUCCESS;

end_large:
    hg_overflow_end(large);
    return ret;
}

HG_PRIVATE uint64_t hg_overflow_held_id(
    const unsigned char *payload, size_t size)
{
    return size >= HG_OVERFLOW_FIXED ? hg_wire_load64(payload) : 0;
}

HG_PRIVATE void hg_overflow_end(struct hg_overflow *large)
{
    if (large->mem != NULL)
        (void) NA_Mem_handle_free(large->mem->na_class, large->mem);
    if (large->remote != NULL)
        (void) NA_Mem_handle_free(large->remote->na_class, large->remote);
    hg_mem_free(large->data);
    memset(large, 0, sizeof(*large));
}

/* The local half of a fetch is described by `mem` until it ended. */
static na_return_t hg_overflow_got(const struct na_cb_info *info)
{
    struct hg_handle *handle = (struct hg_handle *) info->arg;
    struct hg_overflow *large =
        handle->target ? &handle->in_large : &handle->out_large;

    (void) NA_Mem_handle_free(large->mem->na_class, large->mem);
    large->mem = NULL;
    (void) NA_Mem_handle_free(large->remote->na_class, large->remote);
    large->remote = NULL;
    large->fetched(handle, info->ret);
    hg_handle_unref(handle);
    return NA_SUCCESS;
}

/* Take a description apart and make room. */
static hg_return_t hg_overflow_prepare(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size)
{
    struct na_class *na_class = handle->context->hg_class->na_class;
    struct hg_wire wire = hg_wire_reader(payload, size);
    uint64_t args_size;
    uint32_t mem_size;
    hg_return_t ret;

    (void) hg_wire_get64(&wire);
    args_size = hg_wire_get64(&wire);
    mem_size = hg_wire_get32(&wire);
    if (wire.failed || mem_size == 0 || mem_size != hg_wire_left(&wire)) {
        hg_log_error("rpc", "malformed description of large arguments");
        return HG_PROTOCOL_ERROR;
    }
    if (args_size > handle->context->hg_class->options.max_args_size) {
        hg_log_error("rpc", "arguments of %" PRIu64 " bytes are past the limit",
            args_size);
        return HG_MSGSIZE;
    }
    ret = NA_Mem_handle_deserialize(
        na_class, &large->remote, hg_wire_get_bytes(&wire, mem_size), mem_size);
    if (ret != HG_SUCCESS)
        return ret;
    large->size = (size_t) args_size;
    large->data = (unsigned char *) hg_mem_alloc(large->size);
    if (large->data == NULL) {
        hg_log_error(
            "rpc", "no memory for arguments of %" PRIu64 " bytes", args_size);
        return HG_NOMEM;
    }
    return NA_Mem_handle_create(
        na_class, large->data, large->size, NA_MEM_WRITE_ONLY, &large->mem);
}

HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret))
{
    struct hg_context *context = handle->context;
    na_op_id_t op_id = NA_OP_ID_NULL;
    hg_return_t ret;

    large->fetched = fetched;
    hg_handle_ref(handle); /* for the fetch */
    hg_handle_ref(handle); /* for this function, which may outlast it */
    ret = hg_overflow_prepare(handle, large, payload, size);
    if (ret == HG_SUCCESS)
        ret = na_rma_start(context->na_context, NA_CB_GET, NA_LANE_INTERNAL,
            hg_overflow_got, handle, large->mem, 0, large->remote, 0,
            large->size, handle->addr, &op_id);
    if (ret == HG_SUCCESS) {
        hg_lock(&context->lock);
        large->op_id = op_id;
        hg_unlock(&context->lock);
    } else {
        hg_overflow_end(large);
        fetched(handle, ret);
        hg_handle_unref(handle);
    }
    hg_handle_unref(handle);
}

HG_PRIVATE void hg_overflow_cancel(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    na_op_id_t op_id;

    hg_lock(&context->lock);
    op_id = large->op_id;
    hg_unlock(&context->lock);
    /* Stale once the fetch ended, and not yet known before it started: then
     * it runs to its end, whose result the caller ignores. */
    (void) na_context_cancel(context->na_context, op_id);
}
