/* SPDX-License-Identifier: BSD-3-Clause */
/* watch: see watch.h. */
#include "hg/watch.h"

#include "base/clock.h"

/* Of what this thread executes; 0: nothing. */
static _Thread_local uint64_t hg_watch_current;

/* ---- Traces ---- */

HG_PRIVATE void hg_watch_trace(struct hg_handle *handle)
{
    assert(!handle->target && handle->number != 0);
    handle->trace_id = handle->trace_set;
    if (handle->trace_id == 0)
        handle->trace_id = hg_watch_current;
    if (handle->trace_id == 0)
        handle->trace_id =
            handle->context->hg_class->trace_base + handle->sequence;
    if (HG_UNLIKELY(handle->trace_id == 0)) /* that is none */
        handle->trace_id = 1;
}

HG_PRIVATE uint64_t hg_watch_inherit(uint64_t trace_id)
{
    uint64_t before = hg_watch_current;

    hg_watch_current = trace_id;
    return before;
}

/* ---- Moments ---- */

/* Tell the hook, if there is one. */
static hg_return_t hg_watch_tell(struct hg_handle *handle,
    hg_hook_point_t point, hg_return_t ret, uint64_t elapsed_ns)
{
    const struct hg_context *context = handle->context;
    struct hg_class *hg_class = context->hg_class;
    hg_hook_cb_t hook =
        atomic_load_explicit(&hg_class->hook, memory_order_acquire);
    struct hg_hook_info info;

    if (hook == NULL)
        return HG_SUCCESS;
    memset(&info, 0, sizeof(info));
    info.size = sizeof(info);
    info.point = point;
    info.ret = ret;
    info.handle = handle->target || context->callbacks ? handle : NULL;
    info.name = handle->rpc.name;
    info.id = handle->rpc.id;
    info.addr = handle->addr;
    info.trace_id = handle->trace_id;
    info.elapsed_ns = elapsed_ns;
    ret = hook(&info, hg_class->hook_arg);
    return ret == HG_SUCCESS ? HG_SUCCESS : hg_handle_result(ret);
}

/* 0 where nobody watched when it began. */
static uint64_t hg_watch_since(uint64_t began, uint64_t now)
{
    return began != 0 && now > began ? now - began : 0;
}

/* Count how long a call took, where that is wanted. */
static void hg_watch_count(struct hg_handle *handle, uint64_t ns)
{
    struct hg_registry_more *more = handle->rpc.more;

    if (more != NULL && more->times != NULL)
        hg_histogram_count(&more->times[handle->target ? 1 : 0], ns);
}

HG_PRIVATE hg_return_t hg_watch_forward(struct hg_handle *handle)
{
    handle->watch.began = hg_clock_now();
    return hg_watch_tell(handle, HG_HOOK_FORWARD, HG_SUCCESS, 0);
}

HG_PRIVATE void hg_watch_arrive(struct hg_handle *handle)
{
    handle->watch.began = hg_clock_now();
}

HG_PRIVATE void hg_watch_complete(struct hg_handle *handle)
{
    uint64_t ns = hg_watch_since(handle->watch.began, hg_clock_now());

    assert(!handle->target);
    hg_watch_count(handle, ns);
    (void) hg_watch_tell(handle, HG_HOOK_COMPLETE, handle->ret, ns);
}

HG_PRIVATE hg_return_t hg_watch_handle(struct hg_handle *handle)
{
    assert(handle->target);
    handle->watch.executed = hg_clock_now();
    return hg_watch_tell(handle, HG_HOOK_HANDLE, HG_SUCCESS, 0);
}

HG_PRIVATE void hg_watch_respond(struct hg_handle *handle, hg_return_t ret)
{
    uint64_t now = hg_clock_now();

    if (handle->refused || handle->rpc.more == NULL)
        return; /* not executed, or by the library */
    /* One that could not be answered so may be answered again. */
    if (!handle->watch.counted)
        hg_watch_count(handle, hg_watch_since(handle->watch.began, now));
    handle->watch.counted = true;
    if (handle->one_way && ret == HG_CANCELED)
        ret = HG_SUCCESS; /* nobody waits for an answer: it is done */
    (void) hg_watch_tell(handle, HG_HOOK_RESPOND, ret,
        hg_watch_since(handle->watch.executed, now));
}

/* ---- Whether anybody does ---- */

HG_PRIVATE void hg_watch_set_hook(
    struct hg_class *hg_class, hg_hook_cb_t hook, void *arg)
{
    hg_class->hook_arg = arg;
    atomic_store_explicit(&hg_class->hook, hook, memory_order_release);
    atomic_store(
        &hg_class->watched, hook != NULL || hg_class->options.histograms);
}
