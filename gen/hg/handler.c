/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handler: the target's functions of the request model.
 *
 * HG_Handler_process waits and runs the handlers of calls that arrived. A
 * handler uses the other functions on its handle, then or later, in any thread.
 * This module checks arguments; serve does the work.
 *
 * Locking: none of its own.
 */
#include "base/log.h"
#include "base/mem.h"
#include "hg/layer.h"
#include "hg/serve.h"
#include "hg/wait.h"
#include "hg/watch.h"
#include "na/live.h"

HG_EXPORT hg_return_t HG_Handler_process(
    unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_find("HG_Handler_process");
    struct hg_wait_end end = {0, timeout};
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (hg_wait_in_handler()) {
        hg_log_error("rpc", "HG_Handler_process inside a handler");
        return HG_BUSY;
    }
    ret = hg_wait_serve(context, end);
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    return ret;
}

/* ---- What is done with a handle ---- */

/* Check that the layer, the handle and the other arguments exist. Without a
 * layer the handle may be freed. It may also be of a class of the callback
 * model, or of the parent process. */
static HG_HOT hg_return_t hg_handler_check(
    const struct hg_handle *handle, bool others, const char *function)
{
    const struct hg_context *context;

    if (HG_UNLIKELY(handle == NULL || !others))
        return hg_layer_refuse(function,
            handle == NULL ? "handle is NULL" : "an argument is NULL");
    context = hg_layer_find(function);
    if (HG_UNLIKELY(context == NULL))
        return HG_FAULT;
    return HG_LIKELY(handle->context == context)
        ? HG_SUCCESS
        : na_live_check(handle->context->hg_class->na_class, function);
}

/* As hg_handler_check; the function must have an input proc. */
static HG_HOT hg_return_t hg_handler_check_input(
    const struct hg_handle *handle, const void *in, const char *function)
{
    hg_return_t ret = hg_handler_check(handle, in != NULL, function);

    return HG_LIKELY(ret != HG_SUCCESS || handle->rpc->in_proc != NULL)
        ? ret
        : hg_layer_refuse(function, "the function has no input proc");
}

HG_EXPORT na_addr_t HG_Handler_get_addr(hg_handle_t handle)
{
    return hg_handler_check(handle, true, "HG_Handler_get_addr") == HG_SUCCESS
        ? handle->addr
        : NA_ADDR_NULL;
}

HG_EXPORT hg_id_t HG_Handler_get_id(hg_handle_t handle)
{
    return hg_handler_check(handle, true, "HG_Handler_get_id") == HG_SUCCESS
        ? handle->id
        : 0;
}

HG_EXPORT hg_return_t HG_Handler_get_input(hg_handle_t handle, void *in_struct)
{
    hg_return_t ret =
        hg_handler_check_input(handle, in_struct, "HG_Handler_get_input");

    return ret == HG_SUCCESS
        ? hg_handle_decode(handle, in_struct, &handle->decoded)
        : ret;
}

HG_EXPORT hg_return_t HG_Handler_free_input(hg_handle_t handle, void *in_struct)
{
    hg_return_t ret =
        hg_handler_check_input(handle, in_struct, "HG_Handler_free_input");

    return ret == HG_SUCCESS ? hg_handle_free_input(handle, in_struct) : ret;
}

/* A handler may free a value of its input itself. */
HG_EXPORT void hg_proc_release(hg_proc_t proc, const void *ptr)
{
    struct hg_handle *handle = hg_watch_executed();

    if (ptr == NULL)
        return;
    if (proc != NULL)
        hg_proc_forget(proc, ptr);
    else if (handle != NULL)
        hg_proc_record_forget(atomic_load(&handle->decoded), ptr);
    hg_mem_free((void *) (uintptr_t) ptr);
}

HG_EXPORT hg_return_t HG_Handler_start_output(
    hg_handle_t handle, void *out_struct)
{
    hg_return_t ret = hg_handler_check(handle, true, "HG_Handler_start_output");

    if (ret == HG_SUCCESS && out_struct == NULL &&
        handle->rpc->out_proc != NULL)
        ret = hg_layer_refuse("HG_Handler_start_output",
            "the function has an output, but out_struct is NULL");
    return ret == HG_SUCCESS ? hg_serve_respond(handle, HG_SUCCESS, out_struct)
                             : ret;
}

HG_EXPORT hg_return_t HG_Handler_get_input_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    hg_return_t ret = hg_handler_check(
        handle, buf != NULL && size != NULL, "HG_Handler_get_input_buf");

    if (ret != HG_SUCCESS)
        return ret;
    *buf = (void *) (uintptr_t) handle->in_args.data;
    *size = handle->in_args.size;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Handler_get_output_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    hg_return_t ret = hg_handler_check(
        handle, buf != NULL && size != NULL, "HG_Handler_get_output_buf");

    return ret == HG_SUCCESS ? hg_serve_output_buf(handle, buf, size) : ret;
}

HG_EXPORT hg_return_t HG_Handler_start_response(
    hg_handle_t handle, void *extra_buf, size_t extra_size)
{
    hg_return_t ret =
        hg_handler_check(handle, true, "HG_Handler_start_response");

    return ret == HG_SUCCESS
        ? hg_serve_respond_raw(handle, extra_buf, extra_size)
        : ret;
}

HG_EXPORT hg_return_t HG_Handler_free(hg_handle_t handle)
{
    hg_return_t ret = hg_handler_check(handle, true, "HG_Handler_free");

    return ret == HG_SUCCESS ? hg_serve_free(handle) : ret;
}
