/* SPDX-License-Identifier: BSD-3-Clause */
/* room: see room.h. */
#include "hg/room.h"

#include "base/lock.h"
#include "na/msg.h"

/* What the mark grows by: a call for so many that were answered. */
#define HG_ROOM_STEPS 32u
#define HG_ROOM_KNOWN_MAX (UINT64_MAX / 4)

static struct na_addr_core *hg_room_of(const struct na_addr *addr)
{
    return na_addr_core_of(addr);
}

HG_PRIVATE uint64_t hg_room_asked(
    const struct hg_context *context, const struct na_addr *addr)
{
    return addr->self ? context->asked_self : hg_room_of(addr)->asked;
}

/* Whether that much more is within the limit, where the peer has `asked` and
 * all have `all`. No sum of these overflows. */
static bool hg_room_fits(const struct hg_context *context, uint64_t asked,
    uint64_t all, uint64_t weight)
{
    uint64_t limit = context->hg_class->options.max_in_flight_bytes;

    return asked + all + 2 * weight <= 2 * limit || all == 0;
}

HG_PRIVATE HG_HOT bool hg_room_take(struct hg_handle *handle, uint64_t weight)
{
    struct hg_context *context = handle->context;
    struct na_addr *addr = handle->addr;
    uint64_t before = handle->weight; /* not one of the others */

    assert(!handle->target);
    if (HG_UNLIKELY(
            !hg_room_fits(context, hg_room_asked(context, addr) - before,
                context->asked - before, before + weight)))
        return false;
    if (addr->self)
        context->asked_self += weight;
    else
        hg_room_of(addr)->asked += weight;
    context->asked += weight;
    handle->weight += weight;
    return true;
}

/* What is refused sets the mark to what the peer has without it, and what is
 * answered raises it a little: so what it has stays near what it has room for,
 * and few calls are refused. */
HG_PRIVATE void hg_room_learn(const struct hg_handle *handle, bool refused)
{
    uint64_t *mark = &hg_room_of(handle->addr)->room;
    uint64_t asked = hg_room_asked(handle->context, handle->addr);
    uint64_t room = *mark;

    assert(asked >= handle->weight);
    if (refused) {
        if (asked - handle->weight < room)
            *mark = asked - handle->weight;
    } else if (2 * asked >= room && room < HG_ROOM_KNOWN_MAX) {
        room += handle->weight / HG_ROOM_STEPS;
        *mark = room > handle->weight ? room : handle->weight;
    }
}

HG_PRIVATE void hg_room_tell(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_link *link;

    hg_enter(core->lock);
    for (link = core->waiters.next; link != &core->waiters; link = link->next) {
        struct hg_room_waiter *waiter =
            HG_CONTAINER_OF(link, struct hg_room_waiter, link);

        waiter->wake(waiter);
    }
    hg_leave(core->lock);
}

HG_PRIVATE bool hg_room_is_there(
    struct hg_context *context, const struct na_addr *addr)
{
    uint64_t room;
    uint64_t asked;
    bool there;

    hg_enter(context->lock);
    room = hg_room_of(addr)->room;
    asked = hg_room_asked(context, addr);
    there = context->in_flight < context->hg_class->options.max_in_flight &&
        hg_room_fits(context, asked, context->asked, HG_ROOM_CALL);
    hg_leave(context->lock);
    return there &&
        (asked == 0 ? room > 0
                    : room >= HG_ROOM_CALL && asked <= room - HG_ROOM_CALL);
}

HG_PRIVATE bool hg_room_is_silent(
    struct hg_context *context, const struct na_addr *addr)
{
    bool silent;

    hg_enter(context->lock);
    silent = hg_room_asked(context, addr) == 0 && hg_room_of(addr)->room == 0;
    hg_leave(context->lock);
    return silent;
}

HG_PRIVATE void hg_room_hope(const struct na_addr *addr)
{
    struct na_class_core *core = na_class_core_of(na_addr_class(addr));

    hg_enter(core->lock);
    if (hg_room_of(addr)->room == 0)
        hg_room_of(addr)->room = HG_ROOM_CALL;
    hg_leave(core->lock);
}

HG_PRIVATE bool hg_room_join(struct na_class *na_class, unsigned number,
    const struct hg_context *layer, struct hg_room_waiter *waiter)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct hg_context *context;
    bool joined;

    assert(waiter->wake != NULL);
    hg_enter(core->lock);
    context = (struct hg_context *) na_sink_arg(core, number);
    joined = context != NULL && (context->callbacks || context == layer) &&
        !atomic_load(&context->transfers.ending);
    if (joined) {
        waiter->context = context;
        hg_list_push(&core->waiters, &waiter->link);
    }
    hg_leave(core->lock);
    return joined;
}

HG_PRIVATE void hg_room_part(
    struct na_class *na_class, struct hg_room_waiter *waiter)
{
    struct na_class_core *core = na_class_core_of(na_class);

    hg_enter(core->lock);
    hg_list_remove(&waiter->link);
    hg_leave(core->lock);
}

HG_PRIVATE bool hg_room_close(struct hg_context *context)
{
    struct na_class_core *core = na_class_core_of(context->hg_class->na_class);
    struct na_link *link;
    bool found = false;

    hg_enter(core->lock);
    for (link = core->waiters.next; link != &core->waiters; link = link->next)
        found = found ||
            HG_CONTAINER_OF(link, struct hg_room_waiter, link)->context ==
                context;
    if (!found)
        atomic_store(&context->transfers.ending, true);
    hg_leave(core->lock);
    return !found;
}
