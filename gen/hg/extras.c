/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extras: time limits, cancellation, errors with a text, and what is to be seen
 * of calls, for both models.
 *
 * Arguments are checked here; what happens is forward's, serve's and cancel's.
 * A handle may be one of either model. One of the request model is gone with
 * its layer, so these functions pass that one's gate if it is open. Nothing
 * above includes this room: it has no header.
 *
 * Locking: the context's lock around what is to be set before a call begins.
 */
#include "base/lock.h"
#include "base/log.h"
#include "hg/cancel.h"
#include "hg/check.h"
#include "hg/layer.h"
#include "hg/request.h"
#include "hg/serve.h"
#include "hg/ticket.h"
#include "hg/watch.h"

static bool hg_extras_enter(void)
{
    return hg_layer_enter(NULL) != NULL;
}

static void hg_extras_leave(bool inside)
{
    if (inside)
        (void) hg_layer_leave(HG_SUCCESS);
}

/* ---- Deadlines ---- */

HG_EXPORT hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int timeout)
{
    bool inside = hg_extras_enter();
    hg_return_t ret = hg_check_side(handle, false, "HG_Set_deadline");

    if (ret == HG_SUCCESS) {
        hg_enter(handle->context->lock);
        if (handle->state != HG_HANDLE_IDLE || handle->number != 0)
            ret = HG_BUSY;
        if (ret == HG_SUCCESS) {
            handle->timeout = timeout;
            handle->deadline = 0;
        }
        hg_leave(handle->context->lock);
        if (ret != HG_SUCCESS)
            hg_log_error("rpc", "HG_Set_deadline: a call is in flight");
    }
    hg_extras_leave(inside);
    return ret;
}

HG_EXPORT uint32_t HG_Get_time_left(hg_handle_t handle)
{
    bool inside;
    uint32_t left = HG_NO_DEADLINE;

    if (handle == NULL)
        return HG_NO_DEADLINE;
    inside = hg_extras_enter();
    if (hg_check_handle(handle, "HG_Get_time_left") == HG_SUCCESS) {
        left = hg_handle_time_left(handle);
        if (left == HG_NO_DEADLINE && handle->timeout != 0)
            left = handle->timeout; /* it has not begun */
    }
    hg_extras_leave(inside);
    return left;
}

/* ---- Cancellation ---- */

HG_EXPORT hg_bool_t HG_Is_canceled(hg_handle_t handle)
{
    bool inside;
    bool over;

    if (handle == NULL)
        return HG_FALSE;
    inside = hg_extras_enter();
    over = hg_check_handle(handle, "HG_Is_canceled") == HG_SUCCESS &&
        handle->target && hg_handle_is_over(handle);
    hg_extras_leave(inside);
    return over ? HG_TRUE : HG_FALSE;
}

HG_EXPORT hg_return_t HG_Set_cancel_cb(
    hg_handle_t handle, hg_cancel_cb_t callback, void *arg)
{
    bool inside = hg_extras_enter();
    hg_return_t ret = hg_check_side(handle, true, "HG_Set_cancel_cb");

    if (ret == HG_SUCCESS)
        hg_cancel_set_callback(handle, callback, arg);
    hg_extras_leave(inside);
    return ret;
}

/* ---- A look inside ---- */

/* The class that is meant: for NULL that of the request model's layer, whose
 * gate is passed (*inside_p). HG_FAULT: no layer; codes of hg_check_class. All
 * logged. */
static hg_return_t hg_extras_enter_class(
    struct hg_class **hg_class, bool *inside_p, const char *function)
{
    struct hg_context *context;

    *inside_p = false;
    if (*hg_class != NULL)
        return hg_check_class(*hg_class, function);
    context = hg_layer_enter(function);
    if (context == NULL)
        return HG_FAULT;
    *inside_p = true;
    *hg_class = context->hg_class;
    return HG_SUCCESS;
}

HG_EXPORT uint64_t HG_Get_trace_id(hg_handle_t handle)
{
    uint64_t trace_id = 0;
    bool inside;

    if (handle == NULL)
        return 0;
    inside = hg_extras_enter();
    if (hg_check_handle(handle, "HG_Get_trace_id") == HG_SUCCESS)
        trace_id = !handle->target && handle->state == HG_HANDLE_IDLE &&
                handle->trace_set != 0
            ? handle->trace_set
            : handle->trace_id;
    hg_extras_leave(inside);
    return trace_id;
}

HG_EXPORT hg_return_t HG_Set_trace_id(hg_handle_t handle, uint64_t trace_id)
{
    bool inside = hg_extras_enter();
    hg_return_t ret = hg_check_side(handle, false, "HG_Set_trace_id");

    if (ret == HG_SUCCESS)
        handle->trace_set = trace_id;
    hg_extras_leave(inside);
    return ret;
}

HG_EXPORT hg_return_t HG_Set_hook(
    hg_class_t *hg_class, hg_hook_cb_t hook, void *arg)
{
    bool inside;
    hg_return_t ret = hg_extras_enter_class(&hg_class, &inside, "HG_Set_hook");

    if (ret != HG_SUCCESS)
        return ret;
    hg_watch_set_hook(hg_class, hook, arg);
    hg_extras_leave(inside);
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Get_histogram(hg_class_t *hg_class, hg_id_t id,
    hg_bool_t target, struct hg_histogram *histogram_p)
{
    struct hg_rpc rpc;
    hg_return_t ret;
    bool inside;

    if (histogram_p == NULL || histogram_p->size != sizeof(*histogram_p))
        return hg_layer_refuse(
            "HG_Get_histogram", "the histogram is NULL, or its size not set");
    ret = hg_extras_enter_class(&hg_class, &inside, "HG_Get_histogram");
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_registry_find(&hg_class->registry, id, &rpc);
    if (ret != HG_SUCCESS) {
        hg_log_error("rpc", "id %016" PRIx64 " is not registered", id);
    } else if (!hg_watch_times(hg_class, &rpc, target, histogram_p)) {
        ret = HG_OPNOTSUPPORT;
        hg_log_error("rpc", "HG_Get_histogram: histograms were not asked for");
    }
    hg_extras_leave(inside);
    return ret;
}

/* ---- Errors ---- */

HG_EXPORT hg_return_t HG_Respond_error(
    hg_handle_t handle, hg_return_t code, const char *text)
{
    bool inside = hg_extras_enter();
    hg_return_t ret = hg_check_side(handle, true, "HG_Respond_error");

    if (ret == HG_SUCCESS && (code <= HG_SUCCESS || code >= HG_RETURN_MAX))
        ret = hg_layer_refuse("HG_Respond_error", "that is no error");
    if (ret == HG_SUCCESS)
        ret = hg_serve_respond_error(handle, code, text);
    hg_extras_leave(inside);
    return ret;
}

/* The words that an origin's handle has; they are the handle's. */
static const char *hg_extras_text(const struct hg_handle *handle)
{
    return handle != NULL &&
            hg_check_handle(handle, "HG_Get_error_text") == HG_SUCCESS &&
            !handle->target && handle->text != NULL
        ? handle->text
        : "";
}

HG_EXPORT const char *HG_Get_error_text(const void *call)
{
    hg_handle_t handle = (hg_handle_t) (uintptr_t) call;

    return hg_ticket_is_one((uintptr_t) call)
        ? hg_request_text((hg_request_t) (uintptr_t) call)
        : hg_extras_text(handle);
}
