/* SPDX-License-Identifier: BSD-3-Clause */
/* watch: see watch.h. */
#include "hg/watch.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"

/* The call that this thread executes; NULL: none. */
static _Thread_local struct hg_handle *hg_watch_current;

/* ---- Traces ---- */

HG_PRIVATE void hg_watch_trace(struct hg_handle *handle)
{
    HG_ASSERT(!handle->target && handle->number != 0);
    handle->trace_id = handle->trace_set;
    if (handle->trace_id == 0 && hg_watch_current != NULL)
        handle->trace_id = hg_watch_current->trace_id;
    if (handle->trace_id == 0)
        handle->trace_id =
            handle->context->hg_class->trace_base + handle->sequence;
    if (HG_UNLIKELY(handle->trace_id == 0)) /* 0 means none */
        handle->trace_id = 1;
}

HG_PRIVATE struct hg_handle *hg_watch_executed(void)
{
    return hg_watch_current;
}

HG_PRIVATE struct hg_handle *hg_watch_execute(struct hg_handle *handle)
{
    struct hg_handle *before = hg_watch_current;

    hg_watch_current = handle;
    return before;
}

/* ---- Moments ---- */

/* Call the hook, if there is one. */
static hg_return_t hg_watch_run_hook(struct hg_handle *handle,
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
    info.name = handle->rpc->name;
    info.id = handle->id;
    info.addr = handle->addr;
    info.trace_id = handle->trace_id;
    info.elapsed_ns = elapsed_ns;
    ret = hook(&info, hg_class->hook_arg);
    return ret == HG_SUCCESS ? HG_SUCCESS : hg_handle_result(ret);
}

/* Time since `began`; 0 if the call was not watched when it started. */
static uint64_t hg_watch_since(uint64_t began, uint64_t now)
{
    return began != 0 && now > began ? now - began : 0;
}

/* Count the time of a call, if its function has histograms. */
static void hg_watch_count(struct hg_handle *handle, uint64_t ns)
{
    struct hg_registry_entry *entry = handle->rpc->entry;

    if (entry == NULL || !entry->timed)
        return;
    hg_enter(handle->context->lock);
    (void) HG_Histogram_add(
        handle->target ? &entry->in_ns : &entry->out_ns, ns);
    hg_leave(handle->context->lock);
}

HG_PRIVATE hg_return_t hg_watch_forward(struct hg_handle *handle)
{
    handle->watch.began = hg_clock_now();
    return hg_watch_run_hook(handle, HG_HOOK_FORWARD, HG_SUCCESS, 0);
}

HG_PRIVATE void hg_watch_arrive(struct hg_handle *handle)
{
    handle->watch.began = hg_clock_now();
}

HG_PRIVATE void hg_watch_complete(struct hg_handle *handle)
{
    uint64_t ns = hg_watch_since(handle->watch.began, hg_clock_now());

    HG_ASSERT(!handle->target);
    hg_watch_count(handle, ns);
    (void) hg_watch_run_hook(handle, HG_HOOK_COMPLETE, handle->ret, ns);
}

HG_PRIVATE hg_return_t hg_watch_handle(struct hg_handle *handle)
{
    HG_ASSERT(handle->target);
    handle->watch.executed = hg_clock_now();
    return hg_watch_run_hook(handle, HG_HOOK_HANDLE, HG_SUCCESS, 0);
}

HG_PRIVATE void hg_watch_respond(struct hg_handle *handle, hg_return_t ret)
{
    uint64_t now = hg_clock_now();

    if (handle->refused || handle->rpc->entry == NULL)
        return; /* not executed, or executed by the library */
    /* An answer that failed may be followed by another. */
    if (!handle->watch.counted)
        hg_watch_count(handle, hg_watch_since(handle->watch.began, now));
    handle->watch.counted = true;
    if (handle->one_way && ret == HG_CANCELED)
        ret = HG_SUCCESS; /* one-way: done without an answer */
    (void) hg_watch_run_hook(handle, HG_HOOK_RESPOND, ret,
        hg_watch_since(handle->watch.executed, now));
}

/* ---- Histograms ---- */

/* The bucket of a time: the position of its highest bit. */
static unsigned hg_watch_bucket(uint64_t ns)
{
    unsigned bucket = 0;

    while (bucket < HG_HISTOGRAM_BUCKETS - 1 && ns >> bucket > 1)
        bucket++;
    return bucket;
}

/* The longest time that a bucket counts. */
static uint64_t hg_watch_bucket_end(
    const struct hg_histogram *histogram, unsigned bucket)
{
    uint64_t end = ((uint64_t) 2 << bucket) - 1;

    HG_ASSERT(bucket < HG_HISTOGRAM_BUCKETS);
    return bucket == HG_HISTOGRAM_BUCKETS - 1 || end > histogram->max_ns
        ? histogram->max_ns
        : end;
}

hg_return_t HG_Histogram_add(struct hg_histogram *histogram, uint64_t ns)
{
    if (histogram == NULL) {
        hg_log_error("rpc", "HG_Histogram_add: the histogram is NULL");
        return HG_INVALID_ARG;
    }
    if (histogram->count == 0 || ns < histogram->min_ns)
        histogram->min_ns = ns;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
    histogram->count++;
    histogram->sum_ns += ns;
    histogram->bucket[hg_watch_bucket(ns)]++;
    return HG_SUCCESS;
}

uint64_t HG_Histogram_percentile(
    const struct hg_histogram *histogram, double percent)
{
    uint64_t passed = 0;
    double wanted;
    unsigned i;

    if (histogram == NULL || histogram->count == 0)
        return 0;
    wanted = percent / 100 * (double) histogram->count;
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        passed += histogram->bucket[i];
        if (passed > 0 && (double) passed >= wanted)
            return hg_watch_bucket_end(histogram, i);
    }
    return histogram->max_ns; /* more than 100 per cent */
}

HG_PRIVATE bool hg_watch_times(struct hg_class *hg_class,
    const struct hg_rpc *rpc, bool target, struct hg_histogram *histogram_p)
{
    size_t size = histogram_p->size;

    if (!rpc->entry->timed)
        return false;
    hg_enter(hg_class->lock);
    *histogram_p = target ? rpc->entry->in_ns : rpc->entry->out_ns;
    hg_leave(hg_class->lock);
    histogram_p->size = size;
    return true;
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
