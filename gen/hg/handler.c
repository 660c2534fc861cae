/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handler: the target's functions of the request model.
 *
 * HG_Handler_process waits and runs the callbacks of calls that arrived; the
 * others are what a callback does with its handle, then or later, in any
 * thread. What they do is serve's; here arguments are checked and the gate is
 * passed, so that a handle is not looked at once the layer ended, which
 * answered and freed it. A thread that runs a handler is inside the gate
 * already. Nothing above includes this room: it has no header.
 *
 * Locking: none of its own.
 */
#include "base/log.h"
#include "hg/layer.h"
#include "hg/serve.h"
#include "hg/wait.h"

HG_EXPORT hg_return_t HG_Handler_process(
    unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_layer_enter("HG_Handler_process");
    uint64_t deadline;
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (hg_wait_in_handler()) {
        hg_log_error("rpc", "HG_Handler_process inside a handler");
        return hg_layer_leave(HG_BUSY);
    }
    deadline = hg_wait_deadline(timeout);
    hg_enter(context->lock);
    ret = hg_wait_until(context, NULL, NA_LANES_ALL, deadline);
    hg_leave(context->lock);
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    return hg_layer_leave(ret);
}

/* ---- What is done with a handle ---- */

static HG_HOT bool hg_handler_enter(const char *function)
{
    return hg_wait_in_handler() ? !hg_layer_is_forked(function)
                                : hg_layer_enter(function) != NULL;
}

static HG_HOT hg_return_t hg_handler_leave(hg_return_t ret)
{
    return hg_wait_in_handler() ? ret : hg_layer_leave(ret);
}

HG_EXPORT na_addr_t HG_Handler_get_addr(hg_handle_t handle)
{
    na_addr_t addr;

    if (handle == NULL) {
        (void) hg_layer_refuse("HG_Handler_get_addr", "handle is NULL");
        return NA_ADDR_NULL;
    }
    if (!hg_handler_enter("HG_Handler_get_addr"))
        return NA_ADDR_NULL;
    addr = handle->addr;
    (void) hg_handler_leave(HG_SUCCESS);
    return addr;
}

HG_EXPORT hg_id_t HG_Handler_get_id(hg_handle_t handle)
{
    hg_id_t id;

    if (handle == NULL) {
        (void) hg_layer_refuse("HG_Handler_get_id", "handle is NULL");
        return 0;
    }
    if (!hg_handler_enter("HG_Handler_get_id"))
        return 0;
    id = handle->rpc.id;
    (void) hg_handler_leave(HG_SUCCESS);
    return id;
}

HG_EXPORT hg_return_t HG_Handler_get_input(hg_handle_t handle, void *in_struct)
{
    hg_return_t ret;

    if (handle == NULL || in_struct == NULL)
        return hg_layer_refuse("HG_Handler_get_input", "an argument is NULL");
    if (!hg_handler_enter("HG_Handler_get_input"))
        return HG_FAULT;
    if (handle->rpc.in_proc == NULL)
        ret = hg_layer_refuse(
            "HG_Handler_get_input", "the function has no input proc");
    else
        ret = hg_handle_decode(handle, in_struct);
    return hg_handler_leave(ret);
}

HG_EXPORT hg_return_t HG_Handler_free_input(hg_handle_t handle, void *in_struct)
{
    hg_return_t ret;

    if (handle == NULL || in_struct == NULL)
        return hg_layer_refuse("HG_Handler_free_input", "an argument is NULL");
    if (!hg_handler_enter("HG_Handler_free_input"))
        return HG_FAULT;
    if (handle->rpc.in_proc == NULL)
        ret = hg_layer_refuse(
            "HG_Handler_free_input", "the function has no input proc");
    else
        ret = hg_handle_release(handle->rpc.in_proc, in_struct);
    return hg_handler_leave(ret);
}

HG_EXPORT hg_return_t HG_Handler_start_output(
    hg_handle_t handle, void *out_struct)
{
    hg_return_t ret;

    if (handle == NULL)
        return hg_layer_refuse("HG_Handler_start_output", "handle is NULL");
    if (!hg_handler_enter("HG_Handler_start_output"))
        return HG_FAULT;
    if (out_struct == NULL && handle->rpc.out_proc != NULL)
        ret = hg_layer_refuse("HG_Handler_start_output",
            "the function has an output, but out_struct is NULL");
    else
        ret = hg_serve_respond(handle, HG_SUCCESS, out_struct);
    return hg_handler_leave(ret);
}

HG_EXPORT hg_return_t HG_Handler_get_input_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    if (handle == NULL || buf == NULL || size == NULL)
        return hg_layer_refuse(
            "HG_Handler_get_input_buf", "an argument is NULL");
    if (!hg_handler_enter("HG_Handler_get_input_buf"))
        return HG_FAULT;
    *buf = (void *) (uintptr_t) handle->in_args.data;
    *size = handle->in_args.size;
    return hg_handler_leave(HG_SUCCESS);
}

HG_EXPORT hg_return_t HG_Handler_get_output_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    if (handle == NULL || buf == NULL || size == NULL)
        return hg_layer_refuse(
            "HG_Handler_get_output_buf", "an argument is NULL");
    if (!hg_handler_enter("HG_Handler_get_output_buf"))
        return HG_FAULT;
    return hg_handler_leave(hg_serve_output_buf(handle, buf, size));
}

HG_EXPORT hg_return_t HG_Handler_start_response(
    hg_handle_t handle, void *extra_buf, size_t extra_size)
{
    if (handle == NULL)
        return hg_layer_refuse("HG_Handler_start_response", "handle is NULL");
    if (!hg_handler_enter("HG_Handler_start_response"))
        return HG_FAULT;
    return hg_handler_leave(
        hg_serve_respond_raw(handle, extra_buf, extra_size));
}

HG_EXPORT hg_return_t HG_Handler_free(hg_handle_t handle)
{
    if (handle == NULL)
        return hg_layer_refuse("HG_Handler_free", "handle is NULL");
    if (!hg_handler_enter("HG_Handler_free"))
        return HG_FAULT;
    return hg_handler_leave(hg_serve_free(handle));
}
