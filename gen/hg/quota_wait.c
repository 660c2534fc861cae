/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quota_wait: waiting until a call need not be refused (HG_Wait_room).
 *
 * A call may be made while it fits the limits of the class (limit.h) and the
 * window of the peer. A waiting thread makes progress in each context of the
 * class in turn. It checks the limits again when a call of that context has
 * ended, or after HG_QUOTA_WAIT_MS. With no call to the peer in flight, no
 * response shows that its window has grown: after that time the peer is assumed
 * to accept a call.
 *
 * Nothing above includes this module: it has no header.
 *
 * Locking: the lock of the class is held, and free in hg_wait_until. A context
 * is not destroyed while a thread waits in it: HG_Context_destroy returns
 * HG_BUSY. It may be gone when the thread comes back to it.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/layer.h"
#include "hg/wait.h"
#include "na/addr.h"
#include "na/msg.h"

#define HG_QUOTA_WAIT_MS 10

/* The context with that number if it forwards calls: one of the callback model,
 * or the request model's `layer`. NULL: none. */
static struct hg_context *hg_quota_wait_context(
    struct na_class_core *core, unsigned number, const struct hg_context *layer)
{
    struct hg_context *context =
        (struct hg_context *) na_sink_arg(core, number);

    return context != NULL && !context->ending &&
            (context->callbacks || context == layer)
        ? context
        : NULL;
}

/* Whether a small call is within the known limits. After `hope` a peer without
 * a call in flight is assumed to accept one. */
static bool hg_quota_wait_is_over(
    const struct hg_class *hg_class, const struct na_addr *addr, uint64_t hope)
{
    uint64_t *window = &na_addr_core_of(addr)->window;
    uint64_t used = *hg_limit_of(addr, HG_LIMIT_IN_FLIGHT);

    if (used == 0 && *window < HG_LIMIT_CALL && hg_clock_now() >= hope)
        *window = HG_LIMIT_CALL;
    return hg_class->in_flight < hg_class->options.max_in_flight &&
        hg_limit_fits(
            hg_class->limits, addr, HG_LIMIT_IN_FLIGHT, HG_LIMIT_CALL) &&
        used + HG_LIMIT_CALL <= *window;
}

/* Make progress until a call of the context ends, or until `until`. In the
 * callback model the application triggers callbacks. */
static hg_return_t hg_quota_wait_once(
    struct hg_context *context, uint64_t until)
{
    hg_return_t ret;

    context->quota_waits++;
    atomic_store(&context->quota_changed, false);
    ret = hg_wait_until(context, &context->quota_changed,
        context->callbacks ? 0 : NA_LANES_DONE, until);
    context->quota_waits--;
    return ret;
}

static hg_return_t hg_quota_wait(struct na_class_core *core,
    const struct na_addr *addr, const struct hg_context *layer,
    uint64_t deadline)
{
    uint64_t hope = hg_clock_after_ms(HG_QUOTA_WAIT_MS);
    uint64_t until = 0; /* first, receive answers that have arrived */
    bool found;

    do {
        unsigned number;

        found = false;
        for (number = 0; number < NA_CORE_CONTEXTS; number++) {
            struct hg_context *context =
                hg_quota_wait_context(core, number, layer);
            hg_return_t ret = HG_SUCCESS;

            if (context == NULL)
                continue;
            found = true;
            if (until != 0 ||
                (context->hg_class->in_flight > 0 && !hg_context_is_driver()))
                ret = hg_quota_wait_once(context, until);
            if (na_addr_is_dead(addr))
                return HG_DISCONNECT;
            if (hg_quota_wait_is_over(context->hg_class, addr, hope))
                return HG_SUCCESS;
            if (ret == HG_INTR || ret == HG_BUSY)
                return ret;
        }
        if (hg_clock_now() >= deadline)
            return found ? HG_TIMEOUT : HG_INVALID_ARG;
        until = hg_clock_after_ms(HG_QUOTA_WAIT_MS);
        if (until > deadline)
            until = deadline;
    } while (found);
    return HG_INVALID_ARG;
}

HG_EXPORT hg_return_t HG_Wait_room(na_addr_t addr, unsigned int timeout)
{
    struct na_class_core *core;
    hg_return_t ret;

    if (addr == NULL)
        ret = hg_layer_refuse("HG_Wait_room", "the address is NULL");
    else
        ret = na_addr_check(na_addr_class(addr), addr, "HG_Wait_room");
    if (ret != HG_SUCCESS)
        return ret;
    core = na_class_core_of(na_addr_class(addr));
    hg_enter(core->lock);
    ret = hg_quota_wait(
        core, addr, hg_layer_find(NULL), hg_wait_deadline(timeout));
    hg_leave(core->lock);
    if (ret == HG_INVALID_ARG)
        hg_log_error("rpc",
            "HG_Wait_room: the class has no context that forwards calls");
    return ret;
}
