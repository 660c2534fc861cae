/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel: see cancel.h. */
#include "hg/cancel.h"

#include "base/lock.h"
#include "hg/overflow.h"

static struct hg_handle *hg_cancel_of(struct na_completion *notice)
{
    return HG_CONTAINER_OF(notice, struct hg_handle, cancel.notice);
}

/* Queue the notice, with a reference of the handle, unless it is queued already
 * or the handle is about to return to the pool. The lock is held. */
static void hg_cancel_push(struct hg_handle *handle, enum na_lane lane,
    void (*run)(struct na_completion *notice))
{
    HG_ASSERT(handle->target);
    if (handle->cancel.queued || !hg_handle_try_ref(handle))
        return;
    handle->cancel.used = true;
    handle->cancel.queued = true;
    handle->cancel.notice.run = run;
    na_queue_push(handle->context->queue, lane, &handle->cancel.notice);
}

/* Step of the internal lane: the sink must not end a transfer. */
static void hg_cancel_run_fetch(struct na_completion *notice)
{
    struct hg_handle *handle = hg_cancel_of(notice);

    HG_ASSERT(handle->cancel.queued && handle->canceled);
    hg_overflow_cancel(handle, &handle->in_large);
    handle->cancel.queued = false;
    hg_handle_unref_locked(handle);
}

/* Whether the application has the call and has not answered it. */
static bool hg_cancel_is_open(struct hg_handle *handle)
{
    return atomic_load(&handle->state) == HG_HANDLE_ARRIVED &&
        hg_handle_given(handle) > 0;
}

/* Entry of the DONE lane. */
static void hg_cancel_run_callback(struct na_completion *notice)
{
    struct hg_handle *handle = hg_cancel_of(notice);
    struct hg_cancel_part *part = &handle->cancel;
    struct hg_monitor *lock = handle->context->lock;
    const hg_cancel_cb_t none = NULL;
    hg_cancel_cb_t callback = none;
    void *arg = part->arg;

    HG_ASSERT(part->queued);
    if (hg_cancel_is_open(handle)) {
        callback = part->callback;
        part->callback = none;
    }
    part->queued = false;
    hg_leave(lock);
    if (callback != NULL)
        callback(handle, arg);
    hg_handle_unref(handle);
    hg_enter(lock);
}

/* Whether the call still exists; it may be answered. The lock is held. */
static bool hg_cancel_is_there(struct hg_handle *handle)
{
    enum hg_handle_state state = atomic_load(&handle->state);

    return state == HG_HANDLE_FETCHING || state == HG_HANDLE_QUEUED ||
        state == HG_HANDLE_ARRIVED || state == HG_HANDLE_ANSWERED;
}

/* The origin no longer waits for the call, or has fetched its output. The lock
 * is held. */
static void hg_cancel_mark(struct hg_handle *handle)
{
    if (handle->held) { /* the origin may have fetched its output */
        hg_overflow_release(handle);
        return;
    }
    if (atomic_exchange(&handle->unwanted, true))
        return;
    if (atomic_load(&handle->state) == HG_HANDLE_FETCHING) {
        handle->canceled = true;
        hg_cancel_push(handle, NA_LANE_INTERNAL, hg_cancel_run_fetch);
    } else if (hg_handle_wants_cancel(handle)) {
        hg_cancel_push(handle, NA_LANE_DONE, hg_cancel_run_callback);
    }
}

/* A notice is valid only if it comes from the address of the call: pointers are
 * compared. */
static bool hg_cancel_is_meant(const struct hg_handle *handle,
    const struct na_addr *source, const struct hg_header *header)
{
    return handle->sequence == header->sequence && handle->addr == source &&
        atomic_load_explicit(&handle->peer_context, memory_order_relaxed) ==
        header->origin_context;
}

/* Index the calls that arrived since the last notice, oldest first. Calls that
 * are not indexed are therefore the newest of the list. Each call is visited
 * once, however many notices arrive. On out-of-memory some calls are not
 * indexed. */
static void hg_cancel_index(struct hg_context *context)
{
    struct na_link *link = context->targets.prev;
    hg_return_t ret = HG_SUCCESS;

    while (link != &context->targets &&
        !HG_CONTAINER_OF(link, struct hg_handle, link)->indexed)
        link = link->prev;
    for (link = link->next; ret == HG_SUCCESS && link != &context->targets;
         link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        ret = hg_map_put(&context->by_call, hg_handle_call_key(handle), handle);
        handle->indexed = ret == HG_SUCCESS;
    }
}

HG_PRIVATE void hg_cancel_arrived(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header)
{
    struct hg_handle *handle;

    HG_ASSERT(hg_is_inside(context->lock));
    hg_cancel_index(context);
    handle = (struct hg_handle *) hg_map_get(&context->by_call,
        hg_handle_key(
            context, source, header->origin_context, header->sequence));
    if (handle != NULL && hg_cancel_is_meant(handle, source, header) &&
        hg_cancel_is_there(handle))
        hg_cancel_mark(handle);
}

/* The scan starts at the newest call and stops when it has found all calls that
 * count as unanswered or as held. A peer that dies soon after its calls costs
 * little, however many calls of other peers exist. A call is counted until it
 * is answered or dropped, so none is missed. An answer in the send queue counts
 * until it is sent, with its buffer, and is not subtracted here: then all calls
 * are visited. */
HG_PRIVATE void hg_cancel_peer(
    struct hg_context *context, const struct na_addr *addr)
{
    struct na_link *link;
    uint64_t left;

    HG_ASSERT(hg_is_inside(context->lock));
    left =
        *hg_limit_of(addr, HG_LIMIT_CALLS) + *hg_limit_of(addr, HG_LIMIT_HELD);
    for (link = context->targets.prev; left > 0 && link != &context->targets;
         link = link->prev) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        if (handle->addr != addr || !hg_cancel_is_there(handle))
            continue;
        if (atomic_load(&handle->state) != HG_HANDLE_ANSWERED &&
            !handle->refused_early)
            left--;
        left -= handle->out_large.counted;
        if (!handle->one_way)
            hg_cancel_mark(handle);
    }
}

HG_PRIVATE void hg_cancel_reopen(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    hg_enter(context->lock);
    HG_ASSERT(handle->state == HG_HANDLE_ANSWERED);
    atomic_store(&handle->state, HG_HANDLE_ARRIVED);
    if (hg_handle_wants_cancel(handle) && atomic_load(&handle->unwanted))
        hg_cancel_push(handle, NA_LANE_DONE, hg_cancel_run_callback);
    hg_leave(context->lock);
}

HG_PRIVATE void hg_cancel_set_callback(
    struct hg_handle *handle, hg_cancel_cb_t callback, void *arg)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(handle->target);
    hg_enter(context->lock);
    handle->cancel.used = true;
    handle->cancel.callback = callback;
    handle->cancel.arg = arg;
    if (callback != NULL && hg_handle_is_over(handle))
        hg_cancel_push(handle, NA_LANE_DONE, hg_cancel_run_callback);
    hg_leave(context->lock);
}
