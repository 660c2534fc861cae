/* SPDX-License-Identifier: BSD-3-Clause */
/* held: see held.h. */
#include "hg/held.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/overflow.h"
#include "na/addr.h"

/* ---- Letting go ---- */

/* Take an output out of the table: who gets true lets go of it. The lock is
 * held. */
static bool hg_held_take(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    if (!handle->held)
        return false;
    handle->held = false;
    (void) hg_slots_remove(&context->held, handle->held_id);
    hg_deadline_remove(&context->deadline, &handle->timer);
    return true;
}

static void hg_held_let_go(struct hg_handle *handle)
{
    hg_overflow_end(handle, &handle->out_large);
    hg_handle_unref(handle);
}

static void hg_held_run_let_go(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    hg_held_let_go(handle);
    hg_enter(lock);
}

/* For the sink, which must not wait, as a transport's own withdrawing may. */
static void hg_held_push_let_go(struct hg_handle *handle)
{
    hg_handle_push(handle, NA_LANE_INTERNAL, hg_held_run_let_go);
}

HG_PRIVATE void hg_held_take_back(struct hg_handle *handle)
{
    bool taken;

    hg_enter(handle->context->lock);
    taken = hg_held_take(handle);
    hg_leave(handle->context->lock);
    if (taken)
        hg_held_let_go(handle);
}

HG_PRIVATE void hg_held_acknowledged(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header)
{
    struct hg_handle *handle;

    hg_enter(context->lock);
    handle =
        (struct hg_handle *) hg_slots_get(&context->held, header->sequence);
    if (handle != NULL &&
        (!na_addr_is_from(handle->addr, source) || !hg_held_take(handle)))
        handle = NULL;
    hg_leave(context->lock);
    if (handle != NULL)
        hg_held_push_let_go(handle);
    else
        hg_handle_count(context, HG_COUNT_LATE);
}

HG_PRIVATE void hg_held_release(
    struct hg_context *context, const struct na_addr *addr)
{
    uint32_t cursor = 0;
    struct hg_handle *handle;
    uint64_t id;

    hg_enter(context->lock);
    while ((handle = (struct hg_handle *) hg_slots_next(
                &context->held, &cursor, &id)) != NULL) {
        if ((addr == NULL || handle->addr == addr) && hg_held_take(handle))
            hg_held_push_let_go(handle);
    }
    hg_leave(context->lock);
}

HG_PRIVATE bool hg_held_expired(struct hg_handle *handle)
{
    bool taken;

    hg_enter(handle->context->lock);
    taken = hg_held_take(handle);
    hg_leave(handle->context->lock);
    if (!taken)
        return false;
    hg_log_warning("rpc", "%s did not fetch the output of \"%s\" in time",
        hg_handle_peer(handle), hg_handle_function(handle));
    hg_held_let_go(handle);
    return true;
}

/* ---- Holding ---- */

static void hg_held_unsent(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    (void) sequence;
    (void) ret;
    hg_held_take_back(handle);
}

/* A place in the table, which numbers the output. Nobody takes it yet. */
static hg_return_t hg_held_reserve(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_slots_add(&context->held, handle, &handle->held_id);
    hg_leave(context->lock);
    return ret;
}

/* From now on anybody may take it: a reference and a timer. */
static hg_return_t hg_held_begin(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    uint64_t until =
        hg_clock_after_ms(context->hg_class->options.output_hold_ms);
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_handle_set_timer(handle, until);
    handle->held = ret == HG_SUCCESS;
    if (handle->held)
        hg_handle_ref(handle);
    hg_leave(context->lock);
    return ret;
}

HG_PRIVATE hg_return_t hg_held_offer(
    struct hg_handle *handle, struct hg_handle_message *message)
{
    struct hg_context *context = handle->context;
    hg_return_t ret = hg_held_reserve(handle);

    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_overflow_offer(handle, &handle->out_large, &handle->out,
        &handle->out_args, handle->held_id, message);
    if (ret != HG_SUCCESS)
        goto give_place;
    handle->unsent = hg_held_unsent;
    ret = hg_held_begin(handle);
    if (ret != HG_SUCCESS)
        goto end_large;
    return HG_SUCCESS;

end_large:
    hg_overflow_end(handle, &handle->out_large);
give_place:
    hg_enter(context->lock);
    (void) hg_slots_remove(&context->held, handle->held_id);
    hg_leave(context->lock);
    return ret;
}
