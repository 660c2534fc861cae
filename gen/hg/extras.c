/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extras: functions of both models that Mercury does not have: deadlines,
 * cancellation, error texts, traces, histograms, the current call, peer
 * identity, and HG_Drain.
 *
 * A handle may belong to either model. Arguments are checked here; forward,
 * serve, cancel and watch do the work. No other module includes this one.
 *
 * HG_Drain marks the class, so that serve refuses all new calls, and makes
 * progress in all contexts until no accepted call is left. A call counts until
 * its handle is freed, that is until its answer has been sent and its handler
 * has returned. Other threads may hold the handle, so HG_Drain checks again
 * every millisecond.
 *
 * Locking: the class's lock, around data shared with other modules.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/cancel.h"
#include "hg/check.h"
#include "hg/layer.h"
#include "hg/request.h"
#include "hg/serve.h"
#include "hg/ticket.h"
#include "hg/wait.h"
#include "hg/watch.h"

/* HG_Drain: how long it progresses one context at a time; how long no call may
 * arrive at the end, and how long it waits for that. */
#define HG_EXTRAS_SLICE_MS 1
#define HG_EXTRAS_QUIET_MS 10
#define HG_EXTRAS_REST_MS 100

/* ---- Deadlines ---- */

HG_EXPORT hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int timeout)
{
    hg_return_t ret = hg_check_side(handle, false, "HG_Set_deadline");

    if (ret != HG_SUCCESS)
        return ret;
    if (handle->state != HG_HANDLE_IDLE) {
        hg_log_error("rpc", "HG_Set_deadline: a call is in flight");
        return HG_BUSY;
    }
    handle->timeout = timeout;
    handle->deadline = 0;
    return HG_SUCCESS;
}

HG_EXPORT uint32_t HG_Get_time_left(hg_handle_t handle)
{
    uint32_t left;

    if (handle == NULL ||
        hg_check_handle(handle, "HG_Get_time_left") != HG_SUCCESS)
        return HG_NO_DEADLINE;
    left = hg_handle_time_left(handle);
    return left == HG_NO_DEADLINE && handle->timeout != 0
        ? handle->timeout /* not forwarded yet */
        : left;
}

/* ---- Cancellation ---- */

HG_EXPORT hg_bool_t HG_Is_canceled(hg_handle_t handle)
{
    return handle != NULL &&
            hg_check_handle(handle, "HG_Is_canceled") == HG_SUCCESS &&
            handle->target && hg_handle_is_over(handle)
        ? HG_TRUE
        : HG_FALSE;
}

HG_EXPORT hg_return_t HG_Set_cancel_cb(
    hg_handle_t handle, hg_cancel_cb_t callback, void *arg)
{
    hg_return_t ret = hg_check_side(handle, true, "HG_Set_cancel_cb");

    if (ret == HG_SUCCESS)
        hg_cancel_set_callback(handle, callback, arg);
    return ret;
}

/* ---- Traces, hooks, times ---- */

HG_EXPORT uint64_t HG_Get_trace_id(hg_handle_t handle)
{
    if (handle == NULL ||
        hg_check_handle(handle, "HG_Get_trace_id") != HG_SUCCESS)
        return 0;
    return !handle->target && handle->state == HG_HANDLE_IDLE &&
            handle->trace_set != 0
        ? handle->trace_set
        : handle->trace_id;
}

HG_EXPORT hg_return_t HG_Set_trace_id(hg_handle_t handle, uint64_t trace_id)
{
    hg_return_t ret = hg_check_side(handle, false, "HG_Set_trace_id");

    if (ret == HG_SUCCESS)
        handle->trace_set = trace_id;
    return ret;
}

HG_EXPORT hg_return_t HG_Set_hook(
    hg_class_t *hg_class, hg_hook_cb_t hook, void *arg)
{
    hg_return_t ret = hg_layer_find_class(&hg_class, "HG_Set_hook");

    if (ret == HG_SUCCESS)
        hg_watch_set_hook(hg_class, hook, arg);
    return ret;
}

HG_EXPORT hg_return_t HG_Get_histogram(hg_class_t *hg_class, hg_id_t id,
    hg_bool_t target, struct hg_histogram *histogram_p)
{
    const struct hg_rpc *rpc;
    hg_return_t ret;

    if (histogram_p == NULL || histogram_p->size != sizeof(*histogram_p))
        return hg_log_misuse("rpc", "HG_Get_histogram",
            "the histogram is NULL, or its size not set");
    ret = hg_layer_find_class(&hg_class, "HG_Get_histogram");
    if (ret != HG_SUCCESS)
        return ret;
    rpc = hg_registry_find(&hg_class->registry, id);
    if (rpc == NULL) {
        hg_log_error(
            "rpc", "HG_Get_histogram: id %016" PRIx64 " is not registered", id);
        return HG_NOENTRY;
    }
    if (hg_watch_times(hg_class, rpc, target, histogram_p))
        return HG_SUCCESS;
    hg_log_error("rpc",
        "HG_Get_histogram: call times are not counted: the option histograms "
        "of struct hg_options or struct hg_init_info is not set");
    return HG_OPNOTSUPPORT;
}

/* ---- Errors ---- */

HG_EXPORT hg_return_t HG_Respond_error(
    hg_handle_t handle, hg_return_t code, const char *text)
{
    hg_return_t ret = hg_check_side(handle, true, "HG_Respond_error");

    if (ret != HG_SUCCESS)
        return ret;
    if (code <= HG_SUCCESS || code >= HG_RETURN_MAX)
        return hg_log_misuse(
            "rpc", "HG_Respond_error", "the code is not an error");
    return hg_serve_respond_error(handle, code, text);
}

HG_EXPORT const char *HG_Get_error_text(const void *call)
{
    hg_handle_t handle = (hg_handle_t) (uintptr_t) call;

    if (hg_ticket_is_one((uintptr_t) call))
        return hg_request_text((hg_request_t) (uintptr_t) call);
    return handle != NULL &&
            hg_check_handle(handle, "HG_Get_error_text") == HG_SUCCESS &&
            !handle->target && handle->text != NULL
        ? handle->text
        : "";
}

/* ---- Who calls ---- */

HG_EXPORT hg_handle_t HG_Handler_current(void)
{
    struct hg_handle *handle = hg_watch_executed();

    return handle != NULL && hg_handle_given(handle) > 0 ? handle
                                                         : HG_HANDLE_NULL;
}

/* The identity in a peer's address never changes, and the handle holds a
 * reference of the address. */
HG_EXPORT const char *HG_Get_peer_id(hg_handle_t handle)
{
    return handle != NULL &&
            hg_check_handle(handle, "HG_Get_peer_id") == HG_SUCCESS &&
            handle->target && handle->addr != NULL
        ? na_class_ops(handle->addr->na_class)->addr_identity(handle->addr)
        : "";
}

/* ---- Waking ---- */

HG_EXPORT void HG_Wake(hg_context_t *context)
{
    hg_context_wake(context != NULL ? context : hg_layer_find(NULL));
}

/* ---- An orderly end ---- */

/* Make progress once in each context. The lock is held. */
static void hg_extras_progress(struct hg_class *hg_class, uint64_t deadline)
{
    const struct na_link *link;

    for (link = hg_class->contexts.next; link != &hg_class->contexts;
         link = link->next) {
        struct hg_context *context =
            HG_CONTAINER_OF(link, struct hg_context, sibling);
        uint64_t until = hg_clock_after_ms(HG_EXTRAS_SLICE_MS);

        if (until > deadline)
            until = deadline;
        hg_leave(hg_class->lock);
        (void) hg_wait_serve(context, (struct hg_wait_end){until, 0});
        hg_enter(hg_class->lock);
    }
}

/* Whether any context has an accepted call. The lock is held. */
static bool hg_extras_has_calls(const struct hg_class *hg_class)
{
    const struct na_link *link = hg_class->contexts.next;

    while (link != &hg_class->contexts &&
        !hg_serve_has_calls(HG_CONTAINER_OF(link, struct hg_context, sibling)))
        link = link->next;
    return link != &hg_class->contexts;
}

/* Refuse calls that the transport has received already, until none arrives for
 * HG_EXTRAS_QUIET_MS. Without a refusal the caller would not know that its call
 * was not executed. The lock is not held. */
static void hg_extras_refuse_rest(struct hg_class *hg_class, uint64_t deadline)
{
    uint64_t end = hg_clock_after_ms(HG_EXTRAS_REST_MS);
    uint64_t quiet = hg_clock_after_ms(HG_EXTRAS_QUIET_MS);
    struct hg_counters before;
    struct hg_counters now;

    hg_context_sum(hg_class, &before);
    while (!hg_clock_is_past(quiet) && !hg_clock_is_past(end) &&
        !hg_clock_is_past(deadline)) {
        hg_enter(hg_class->lock);
        hg_extras_progress(hg_class, deadline);
        hg_leave(hg_class->lock);
        hg_context_sum(hg_class, &now);
        if (now.turned_away != before.turned_away)
            quiet = hg_clock_after_ms(HG_EXTRAS_QUIET_MS);
        before = now;
    }
}

static hg_return_t hg_extras_drain(struct hg_class *hg_class, uint64_t deadline)
{
    hg_return_t ret = HG_SUCCESS;

    atomic_store(&hg_class->draining, true);
    hg_enter(hg_class->lock);
    while (ret == HG_SUCCESS && hg_extras_has_calls(hg_class)) {
        if (hg_clock_is_past(deadline))
            ret = HG_TIMEOUT;
        else
            hg_extras_progress(hg_class, deadline);
    }
    hg_leave(hg_class->lock);
    if (ret == HG_SUCCESS && deadline != 0)
        hg_extras_refuse_rest(hg_class, deadline);
    return ret;
}

HG_EXPORT hg_return_t HG_Drain(hg_class_t *hg_class, unsigned int timeout)
{
    bool layer = hg_class == NULL;
    hg_return_t ret = hg_layer_find_class(&hg_class, "HG_Drain");

    if (ret != HG_SUCCESS)
        return ret;
    if (layer && timeout > 0 && hg_context_is_driver())
        return hg_wait_refuse();
    if (layer && timeout > 0 && hg_wait_in_handler()) {
        hg_log_error("rpc", "HG_Drain inside a handler");
        return HG_BUSY;
    }
    return hg_extras_drain(
        hg_class, timeout == 0 ? 0 : hg_clock_after_ms(timeout));
}
