/* SPDX-License-Identifier: BSD-3-Clause */
/* wait: see wait.h. */
#include "hg/wait.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/serve.h"
#include "na/progress.h"

/* Completions that run in one batch. */
#define HG_WAIT_BATCH 64

/* Nested handlers in this thread. */
static _Thread_local unsigned hg_wait_depth;

HG_PRIVATE bool hg_wait_in_handler(void)
{
    return hg_wait_depth > 0;
}

HG_PRIVATE void hg_wait_forget(void)
{
    hg_wait_depth = 0;
}

HG_PRIVATE unsigned hg_wait_lanes(void)
{
    return hg_wait_depth < HG_WAIT_DEPTH_MAX ? NA_LANES_ALL : NA_LANES_DONE;
}

HG_PRIVATE uint64_t hg_wait_deadline(unsigned timeout)
{
    return timeout == 0 ? 0 : hg_clock_after_ms(timeout);
}

HG_PRIVATE HG_HOT void hg_wait_raise(
    struct hg_context *context, _Atomic bool *done)
{
    HG_ASSERT(hg_is_inside(context->lock));
    atomic_store_explicit(&context->raised, true, memory_order_relaxed);
    na_queue_raise(context->queue, done);
}

/* A call is queued, but too many handlers are nested in this thread to run it.
 * If no other thread runs it, its caller waits for ever. This is logged for the
 * first such wait, and then each time their number has doubled. */
static void hg_wait_log_depth(void)
{
    static _Atomic uint64_t waits;
    uint64_t count =
        atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed) + 1;

    if ((count & (count - 1)) == 0)
        hg_log_error("rpc",
            "a call waits for another thread to run it: this thread already "
            "has %d nested handlers, which is the maximum",
            HG_WAIT_DEPTH_MAX);
}

HG_PRIVATE HG_NOINLINE hg_return_t hg_wait_refuse(void)
{
    HG_LOG_EXPLAIN(HG_LOG_LEVEL_ERROR, "rpc",
        "cannot wait here: this thread makes progress, and would wait "
        "for itself");
    return HG_BUSY;
}

/* Run completed entries, and one call unless *done. Returns whether anything
 * was run, or a call is queued for a wait without a flag. */
static HG_HOT bool hg_wait_run(
    struct hg_context *context, const _Atomic bool *done, unsigned lanes)
{
    unsigned n = na_queue_run(
        context->queue, lanes & NA_LANES_DONE, HG_WAIT_BATCH, HG_CLOCK_NEVER);

    lanes &= 1u << NA_LANE_CALL;
    if (done == NULL)
        return n > 0 || na_queue_has(context->queue, lanes);
    if (lanes == 0 || atomic_load_explicit(done, memory_order_acquire))
        return n > 0;
    hg_wait_depth++;
    n += na_queue_run(context->queue, lanes, 1, HG_CLOCK_NEVER);
    hg_wait_depth--;
    return n > 0;
}

static void hg_wait_set_deadline(struct hg_wait_end *end)
{
    if (end->timeout != 0)
        end->deadline = hg_clock_after_ms(end->timeout);
    end->timeout = 0;
}

HG_PRIVATE HG_HOT hg_return_t hg_wait_for(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, struct hg_wait_end *end)
{
    const _Atomic bool *flag = done != NULL ? done : &context->raised;
    bool logged = false;
    hg_return_t ret;

    if (done == NULL) {
        atomic_store_explicit(&context->raised, false, memory_order_relaxed);
        if (HG_UNLIKELY(hg_context_is_woken()))
            *end = (struct hg_wait_end){0, 0};
    } else if (atomic_load_explicit(done, memory_order_acquire))
        return HG_SUCCESS;
    if (HG_UNLIKELY(hg_context_is_driver()))
        return hg_wait_refuse();
    HG_ASSERT(hg_is_inside(context->lock) && (lanes & ~NA_LANES_ALL) == 0);
    context->waits++;
    for (;;) {
        bool first = end->timeout != 0;
        bool any;

        ret = hg_context_progress(
            context, lanes, flag, first ? 0 : end->deadline);
        any = hg_wait_run(context, done, lanes);
        if (HG_UNLIKELY(hg_wait_depth >= HG_WAIT_DEPTH_MAX) && !logged &&
            na_queue_has(context->queue, 1u << NA_LANE_CALL)) {
            hg_wait_log_depth();
            logged = true;
        }
        if (atomic_load_explicit(flag, memory_order_acquire) ||
            (done == NULL && any)) {
            ret = HG_SUCCESS;
            break;
        }
        if (ret != HG_SUCCESS && !(first && ret == HG_TIMEOUT))
            break;
        if (done == NULL && hg_context_is_woken()) {
            ret = HG_TIMEOUT;
            break;
        }
        /* A steady stream of calls must not delay the deadline. */
        hg_wait_set_deadline(end);
        if (!first && hg_clock_now() >= end->deadline) {
            ret = HG_TIMEOUT;
            break;
        }
    }
    HG_ASSERT(context->waits > 0);
    context->waits--;
    return ret;
}

HG_PRIVATE hg_return_t hg_wait_until(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline)
{
    struct hg_wait_end end = {deadline, 0};

    return hg_wait_for(context, done, lanes, &end);
}

HG_PRIVATE void hg_wait_uninterrupted(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline)
{
    hg_return_t ret;

    hg_enter(context->lock);
    do
        ret = hg_wait_until(context, done, lanes, deadline);
    while (ret == HG_INTR);
    hg_leave(context->lock);
}

HG_PRIVATE HG_HOT hg_return_t hg_wait_serve(
    struct hg_context *context, struct hg_wait_end end)
{
    struct hg_handle *handle;
    unsigned n = 0;
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_wait_for(context, NULL, NA_LANES_ALL, &end);
    while (ret != HG_BUSY && (handle = hg_serve_next(context)) != NULL) {
        bool more = na_queue_has(context->queue, 1u << NA_LANE_CALL) &&
            ++n < HG_WAIT_BATCH;

        context->waits += more;
        if (more)
            hg_wait_set_deadline(&end);
        hg_leave(context->lock);
        hg_wait_depth++;
        hg_serve_call(handle);
        hg_wait_depth--;
        if (!more) /* the context may be freed */
            return ret;
        hg_enter(context->lock);
        context->waits--;
        if (hg_clock_is_past(end.deadline))
            break;
    }
    hg_leave(context->lock);
    return ret;
}
