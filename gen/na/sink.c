/* SPDX-License-Identifier: BSD-3-Clause */
/* sink: see sink.h. */
#include "na/sink.h"

#include "base/lock.h"
#include "base/log.h"

/* The place wanted, or the first that nobody has; NULL (logged). */
static struct na_sink *na_sink_find_place(
    struct na_class_core *core, int wanted)
{
    unsigned number = wanted < 0 ? 0 : (unsigned) wanted;

    while (wanted < 0 && number < NA_CORE_CONTEXTS &&
        core->sinks[number].take != NULL)
        number++;
    if (number < NA_CORE_CONTEXTS && core->sinks[number].take == NULL)
        return &core->sinks[number];
    hg_log_error("ctx", "a context that takes calls has the id %u already",
        number < NA_CORE_CONTEXTS ? number : NA_CORE_CONTEXTS - 1);
    return NULL;
}

HG_PRIVATE na_return_t na_sink_open(struct na_context *context, int number,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    struct na_sink *sink = na_sink_find_place(core, number);

    assert(self->sink == NULL && take != NULL);
    if (sink == NULL)
        return NA_EXIST;
    sink->take = take;
    sink->dead = dead;
    sink->arg = arg;
    self->sink = sink;
    self->engine = (uint8_t) (sink - core->sinks);
    return NA_SUCCESS;
}

HG_PRIVATE void na_sink_close(struct na_context *context)
{
    struct na_context_core *self = na_context_core_of(context);

    na_context_enter(self);
    if (self->sink != NULL)
        memset(self->sink, 0, sizeof(*self->sink));
    self->sink = NULL;
    na_context_leave(self);
}

HG_PRIVATE uint8_t na_sink_number(const struct na_context *context)
{
    return na_context_core_of(context)->engine;
}

HG_PRIVATE na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    const struct na_sink *sink = &core->sinks[target];

    assert(hg_is_inside(core->lock));
    return sink->take != NULL ? sink->take(sink->arg, source, tag, data, size)
                              : NA_NOENTRY;
}

HG_PRIVATE void *na_sink_arg(const struct na_class_core *core, unsigned number)
{
    void *arg;

    hg_enter(core->lock);
    arg = core->sinks[number].arg;
    hg_leave(core->lock);
    return arg;
}

HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    unsigned i;

    assert(ret != NA_SUCCESS);
    hg_enter(core->lock);
    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        if (core->sinks[i].dead != NULL)
            core->sinks[i].dead(core->sinks[i].arg, addr, ret);
    }
    hg_leave(core->lock);
}
