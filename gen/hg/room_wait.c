/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room_wait: waiting until a call need not be refused.
 *
 * Where an address is that of several contexts, as its class may have, there is
 * room when all of them have some: which of them the caller means is not known.
 * A peer that said it has none, and has no call of ours whose answer could tell
 * that it has some again, is left alone for a moment, and then taken to have
 * some.
 *
 *     wait:  calls are in flight? one turn of progress, for their answers
 *            the peer is dead? --> HG_DISCONNECT
 *            all contexts have room? --> HG_SUCCESS
 *            time up, having looked once? --> HG_TIMEOUT
 *            make progress until told (room); again
 *
 * What a context's progress may run while one waits here: its own steps, and
 * in the request model what completes calls of ours. Nothing above includes
 * this module: it has no header.
 *
 * Locking: none of its own.
 * A context of the callback model is not destroyed while a thread waits in it:
 * HG_Context_destroy returns HG_BUSY.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/layer.h"
#include "hg/room.h"
#include "hg/wait.h"
#include "na/addr.h"
#include "na/progress.h"

/* How long a peer is left alone that has no room and will not say more. */
#define HG_ROOM_WAIT_MS 10

/* A thread that waits for room in one context. */
struct hg_room_wait {
    struct hg_room_waiter waiter;
    _Atomic bool told;
};

/* With the context's lock held, or another's. */
static void hg_room_wait_wake(struct hg_room_waiter *waiter)
{
    hg_wait_raise(waiter->context,
        &HG_CONTAINER_OF(waiter, struct hg_room_wait, waiter)->told);
}

/* Make progress until told, or `until`. In the callback model the application
 * runs what the queue has. */
static hg_return_t hg_room_wait_once(struct hg_room_wait *wait, uint64_t until)
{
    struct hg_context *context = wait->waiter.context;
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_wait_until(
        context, &wait->told, context->callbacks ? 0 : NA_LANES_DONE, until);
    hg_leave(context->lock);
    return ret;
}

/* Process answers that arrived, so that a caller that only waits for quota
 * notices the end of its calls. */
static void hg_room_wait_look(struct hg_room_wait *wait)
{
    struct hg_context *context = wait->waiter.context;
    bool calls;

    hg_enter(context->lock);
    calls = context->in_flight > 0;
    hg_leave(context->lock);
    if (calls && !hg_context_is_driver())
        (void) hg_room_wait_once(wait, 0);
}

/* Whether the wait is over, with *ret_p: a call may be made, or never will. */
static bool hg_room_wait_is_over(
    struct hg_context *context, const struct na_addr *addr, hg_return_t *ret_p)
{
    if (na_addr_is_dead(addr))
        *ret_p = HG_DISCONNECT;
    else if (hg_room_is_there(context, addr))
        *ret_p = HG_SUCCESS;
    else
        return false;
    return true;
}

/* Wait in the context that the thread has joined. */
static hg_return_t hg_room_wait_in(
    struct hg_room_wait *wait, const struct na_addr *addr, uint64_t deadline)
{
    struct hg_context *context = wait->waiter.context;
    uint64_t hope = hg_clock_after_ms(HG_ROOM_WAIT_MS);
    hg_return_t ret = HG_SUCCESS;

    assert(context->hg_class->na_class == na_addr_class(addr));
    atomic_init(&wait->told, false);
    hg_room_wait_look(wait);
    for (;;) {
        bool silent = hg_room_is_silent(context, addr);

        atomic_store(&wait->told, false);
        if (silent && hg_clock_now() >= hope)
            hg_room_hope(addr);
        if (hg_room_wait_is_over(context, addr, &ret))
            return ret;
        if (ret == HG_INTR || ret == HG_BUSY ||
            (ret == HG_TIMEOUT && hg_clock_now() >= deadline))
            return ret;
        ret = hg_room_wait_once(
            wait, silent && hope < deadline ? hope : deadline);
    }
}

/* Wait in all contexts of the address's class: those of the callback model, and
 * `layer`, the request model's, or NULL. */
static hg_return_t hg_room_wait_in_all(const struct na_addr *addr,
    const struct hg_context *layer, uint64_t deadline)
{
    struct hg_room_wait wait;
    hg_return_t ret = HG_INVALID_ARG;
    unsigned number;

    wait.waiter.wake = hg_room_wait_wake;
    for (number = 0; number < NA_CORE_CONTEXTS; number++) {
        if (!hg_room_join(na_addr_class(addr), number, layer, &wait.waiter))
            continue;
        ret = hg_room_wait_in(&wait, addr, deadline);
        hg_room_part(na_addr_class(addr), &wait.waiter);
        if (ret != HG_SUCCESS)
            return ret;
    }
    if (ret == HG_INVALID_ARG)
        hg_log_error(
            "rpc", "HG_Wait_room: no context makes calls on that class");
    return ret;
}

HG_EXPORT hg_return_t HG_Wait_room(na_addr_t addr, unsigned int timeout)
{
    hg_return_t ret;

    if (addr == NULL)
        ret = hg_layer_refuse("HG_Wait_room", "the address is NULL");
    else
        ret = na_addr_check(na_addr_class(addr), addr, "HG_Wait_room");
    if (ret == HG_SUCCESS)
        ret = hg_room_wait_in_all(
            addr, hg_layer_find(NULL), hg_wait_deadline(timeout));
    return ret;
}
