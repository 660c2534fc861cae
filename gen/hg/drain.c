/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drain: an orderly end of serving, in both models.
 *
 * From the moment its class is marked, serve refuses whatever comes; what it
 * took before is waited for here, by turning the wheels of all contexts. It
 * looks at each context under that one's lock, under which calls are taken:
 * who takes one later has seen the mark. A call counts until its handle is
 * back, and so until its answer has left and its handler has returned.
 *
 * Who called before the end lies in the transport perhaps, and nobody has told
 * him: so the wheels turn on until for a moment nobody was refused, or, as some
 * call again at once, a few such moments are over.
 *
 * Other threads may turn the same wheels, and end what is waited for here
 * without anything happening in this thread; so it looks again now and then.
 * Nothing above includes this room: it has no header.
 *
 * Locking: the class's lock around its list of contexts, and inside it theirs.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/check.h"
#include "hg/layer.h"
#include "hg/serve.h"
#include "hg/wait.h"
#include "na/context.h"

/* How long to wait for news of one context: where it is the only one, and
 * where others wait behind it. */
#define HG_DRAIN_TURN_MS 10
#define HG_DRAIN_SHORT_MS 1

/* How long to go on refusing, at most, when all is done. */
#define HG_DRAIN_LAST_MS 100

static struct hg_context *hg_drain_context_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct hg_context, sibling);
}

/* Whether a call that was taken is left in any context. */
static bool hg_drain_has_calls(struct hg_class *hg_class)
{
    bool found = false;
    struct na_link *link;

    hg_enter(hg_class->lock);
    for (link = hg_class->contexts.next; link != &hg_class->contexts && !found;
         link = link->next)
        found = hg_serve_has_calls(hg_drain_context_of(link));
    hg_leave(hg_class->lock);
    return found;
}

/* The context behind `context`, or the first one for NULL; NULL: no more. */
static struct hg_context *hg_drain_next(
    struct hg_class *hg_class, struct hg_context *context)
{
    struct na_link *link;

    hg_enter(hg_class->lock);
    link = context != NULL ? context->sibling.next : hg_class->contexts.next;
    hg_leave(hg_class->lock);
    return link != &hg_class->contexts ? hg_drain_context_of(link) : NULL;
}

/* Turn the wheel of each context once. */
static void hg_drain_turn(struct hg_class *hg_class, uint64_t deadline)
{
    struct hg_context *context = hg_drain_next(hg_class, NULL);
    bool alone = hg_drain_next(hg_class, context) == NULL;
    uint64_t until;

    for (; context != NULL; context = hg_drain_next(hg_class, context)) {
        until = hg_clock_after_ms(alone ? HG_DRAIN_TURN_MS : HG_DRAIN_SHORT_MS);
        if (until > deadline)
            until = deadline;
        hg_enter(context->lock);
        if (context->callbacks) {
            (void) hg_context_progress(context, NA_LANES_ALL, until);
            (void) na_queue_run(
                context->queue, NA_LANES_ALL, UINT_MAX, deadline);
        } else {
            (void) hg_wait_until(context, NULL, true, until);
        }
        hg_leave(context->lock);
    }
}

/* How many calls were refused, ever. */
static uint64_t hg_drain_count_refused(struct hg_class *hg_class)
{
    uint64_t count = 0;
    struct na_link *link;

    hg_enter(hg_class->lock);
    for (link = hg_class->contexts.next; link != &hg_class->contexts;
         link = link->next)
        count += atomic_load(
            &hg_drain_context_of(link)->counts[HG_COUNT_TURNED_AWAY]);
    hg_leave(hg_class->lock);
    return count;
}

/* Have those hear of the end who have called, and of whom nothing was read. */
static void hg_drain_refuse_rest(struct hg_class *hg_class, uint64_t deadline)
{
    uint64_t until = hg_clock_after_ms(HG_DRAIN_LAST_MS);
    uint64_t before;

    if (until > deadline)
        until = deadline;
    do {
        before = hg_drain_count_refused(hg_class);
        hg_drain_turn(hg_class, until);
    } while (
        hg_drain_count_refused(hg_class) != before && !hg_clock_is_past(until));
}

static hg_return_t hg_drain_until(struct hg_class *hg_class, uint64_t deadline)
{
    atomic_store(&hg_class->draining, true);
    while (hg_drain_has_calls(hg_class)) {
        if (hg_clock_is_past(deadline))
            return HG_TIMEOUT;
        hg_drain_turn(hg_class, deadline);
    }
    if (deadline != 0)
        hg_drain_refuse_rest(hg_class, deadline);
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Drain(hg_class_t *hg_class, unsigned int timeout)
{
    uint64_t deadline = timeout == 0 ? 0 : hg_clock_after_ms(timeout);
    struct hg_context *context;
    hg_return_t ret;

    if (hg_class != NULL) {
        ret = hg_check_class(hg_class, "HG_Drain");
        return ret == HG_SUCCESS ? hg_drain_until(hg_class, deadline) : ret;
    }
    context = hg_layer_enter("HG_Drain");
    if (context == NULL)
        return HG_FAULT;
    if (timeout > 0 && hg_wait_is_driver()) {
        ret = hg_wait_refuse();
    } else if (timeout > 0 && hg_wait_in_handler()) {
        hg_log_error("rpc", "HG_Drain inside a handler");
        ret = HG_BUSY;
    } else {
        ret = hg_drain_until(context->hg_class, deadline);
    }
    return hg_layer_leave(ret);
}
