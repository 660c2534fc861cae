/* SPDX-License-Identifier: BSD-3-Clause */
/* sink: see sink.h. */
#include "na/sink.h"

#include "base/lock.h"
#include "base/log.h"

struct na_sink {
    /* Held while a function runs; guards what follows. */
    pthread_mutex_t lock;
    na_rpc_cb_t take; /* NULL: no context has this number */
    na_rpc_dead_cb_t dead;
    void *arg;
    uint8_t number; /* constant */
};

static struct na_sink *na_sink_at(struct na_class_core *core, unsigned number)
{
    return atomic_load_explicit(&core->sinks[number], memory_order_acquire);
}

/* ---- Life ---- */

/* Make the place of a number; the context lock is held. */
static struct na_sink *na_sink_new(struct na_class_core *core, unsigned number)
{
    struct na_sink *sink = (struct na_sink *) hg_mem_calloc(1, sizeof(*sink));

    if (sink == NULL || hg_lock_init(&sink->lock) != NA_SUCCESS) {
        hg_log_error("ctx", "no memory for what a context takes in");
        hg_mem_free(sink);
        return NULL;
    }
    sink->number = (uint8_t) number;
    atomic_store_explicit(&core->sinks[number], sink, memory_order_release);
    return sink;
}

/* The first place that nobody has; the context lock is held, under which
 * alone `take` changes. */
static struct na_sink *na_sink_find_free(struct na_class_core *core)
{
    unsigned number = 0;
    struct na_sink *sink;

    while ((sink = na_sink_at(core, number)) != NULL && sink->take != NULL)
        number++;
    assert(number < NA_CORE_CONTEXTS);
    return sink != NULL ? sink : na_sink_new(core, number);
}

HG_PRIVATE na_return_t na_sink_open(struct na_context *context,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    struct na_sink *sink;

    assert(self->sink == NULL && take != NULL);
    hg_lock(&core->context_lock);
    sink = na_sink_find_free(core);
    if (sink != NULL) {
        hg_lock(&sink->lock);
        sink->take = take;
        sink->dead = dead;
        sink->arg = arg;
        self->sink = sink;
        self->engine = sink->number;
    }
    hg_unlock(&core->context_lock);
    return sink != NULL ? NA_SUCCESS : NA_NOMEM;
}

HG_PRIVATE void na_sink_let_in(struct na_context *context)
{
    assert(na_context_core_of(context)->sink != NULL);
    hg_unlock(&na_context_core_of(context)->sink->lock);
}

HG_PRIVATE void na_sink_close(struct na_context *context)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    struct na_sink *sink;

    hg_lock(&core->context_lock);
    sink = self->sink;
    if (sink != NULL) {
        hg_lock(&sink->lock);
        sink->take = NULL;
        sink->dead = NULL;
        sink->arg = NULL;
        hg_unlock(&sink->lock);
    }
    self->sink = NULL;
    hg_unlock(&core->context_lock);
}

HG_PRIVATE void na_sink_fini(struct na_class_core *core)
{
    unsigned i;

    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        struct na_sink *sink = na_sink_at(core, i);

        if (sink == NULL)
            continue;
        assert(sink->take == NULL);
        pthread_mutex_destroy(&sink->lock);
        hg_mem_free(sink);
    }
}

/* ---- Use ---- */

HG_PRIVATE uint8_t na_sink_number(const struct na_context *context)
{
    return na_context_core_of(context)->engine;
}

HG_PRIVATE na_return_t na_sink_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    struct na_sink *sink = na_sink_at(core, target);
    na_return_t ret = NA_NOENTRY;

    if (sink == NULL)
        return NA_NOENTRY;
    hg_lock(&sink->lock);
    if (sink->take != NULL) {
        ret = sink->take(sink->arg, source, tag, data, size);
        assert(ret != NA_NOENTRY); /* that means: nobody took it */
    }
    hg_unlock(&sink->lock);
    return ret;
}

HG_PRIVATE bool na_sink_is_set(struct na_class_core *core, uint8_t target)
{
    struct na_sink *sink;
    bool is_set;

    hg_lock(&core->context_lock);
    sink = na_sink_at(core, target);
    is_set = sink != NULL && sink->take != NULL;
    hg_unlock(&core->context_lock);
    return is_set;
}

HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    unsigned i;

    assert(ret != NA_SUCCESS);
    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        struct na_sink *sink = na_sink_at(core, i);

        if (sink == NULL)
            return;
        hg_lock(&sink->lock);
        if (sink->dead != NULL)
            sink->dead(sink->arg, addr, ret);
        hg_unlock(&sink->lock);
    }
}
