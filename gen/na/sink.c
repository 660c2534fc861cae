/* SPDX-License-Identifier: BSD-3-Clause */
/* sink: see sink.h. */
#include "na/sink.h"

#include "base/lock.h"

HG_PRIVATE void na_sink_open(struct na_context *context, na_rpc_cb_t sink,
    na_rpc_dead_cb_t dead, void *arg)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    unsigned number = 0;

    hg_lock(&core->context_lock);
    hg_lock(&self->sink_lock);
    assert(self->sink == NULL && sink != NULL);
    while (core->engines[number] != NULL)
        number++;
    assert(number < NA_CORE_CONTEXTS);
    self->engine = (uint8_t) number;
    core->engines[number] = self;
    self->sink = sink;
    self->sink_dead = dead;
    self->sink_arg = arg;
    hg_unlock(&core->context_lock);
}

HG_PRIVATE void na_sink_let_in(struct na_context *context)
{
    assert(na_context_core_of(context)->sink != NULL);
    hg_unlock(&na_context_core_of(context)->sink_lock);
}

HG_PRIVATE void na_sink_close(struct na_context *context)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);

    hg_lock(&core->context_lock);
    hg_lock(&self->sink_lock);
    if (self->sink != NULL)
        core->engines[self->engine] = NULL;
    self->sink = NULL;
    self->sink_dead = NULL;
    self->sink_arg = NULL;
    hg_unlock(&self->sink_lock);
    hg_unlock(&core->context_lock);
}

HG_PRIVATE uint8_t na_sink_number(const struct na_context *context)
{
    return na_context_core_of(context)->engine;
}

/* The context of that number with its sink lock held; NULL. The context lock
 * is held until then, so that it cannot be destroyed in between. */
static struct na_context_core *na_sink_lock_context(
    struct na_class_core *core, uint8_t target)
{
    struct na_context_core *context;

    hg_lock(&core->context_lock);
    context = core->engines[target];
    if (context != NULL)
        hg_lock(&context->sink_lock);
    hg_unlock(&core->context_lock);
    return context;
}

HG_PRIVATE na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    struct na_context_core *context = na_sink_lock_context(core, target);
    na_return_t ret;

    if (context == NULL)
        return NA_NOENTRY;
    ret = context->sink(context->sink_arg, source, tag, data, size);
    hg_unlock(&context->sink_lock);
    assert(ret != NA_NOENTRY); /* that means: nobody took it */
    return ret;
}

HG_PRIVATE bool na_sink_is_set(struct na_class_core *core, uint8_t target)
{
    bool is_set;

    hg_lock(&core->context_lock);
    is_set = core->engines[target] != NULL;
    hg_unlock(&core->context_lock);
    return is_set;
}

HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    unsigned i;

    assert(ret != NA_SUCCESS);
    hg_lock(&core->context_lock);
    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        struct na_context_core *context = core->engines[i];

        if (context == NULL)
            continue;
        hg_lock(&context->sink_lock);
        if (context->sink_dead != NULL)
            context->sink_dead(context->sink_arg, addr, ret);
        hg_unlock(&context->sink_lock);
    }
    hg_unlock(&core->context_lock);
}
