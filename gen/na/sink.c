/* SPDX-License-Identifier: BSD-3-Clause */
/* sink: see sink.h. */
#include "na/sink.h"

#include "base/lock.h"
#include "base/log.h"

/* In a gate's word, beside the number inside: nobody comes in; or not yet, for
 * which who comes waits. */
#define NA_SINK_SHUT 0x80000000u
#define NA_SINK_HELD 0x40000000u
#define NA_SINK_INSIDE (NA_SINK_HELD - 1)

struct na_sink {
    _Atomic uint32_t gate;
    uint8_t number; /* constant */
    /* Written while the gate is shut, under the context lock. */
    na_rpc_cb_t take; /* NULL: no context has this number */
    na_rpc_dead_cb_t dead;
    void *arg;
    unsigned char apart[HG_APART];
};

static struct na_sink *na_sink_at(struct na_class_core *core, unsigned number)
{
    return atomic_load_explicit(&core->sinks[number], memory_order_acquire);
}

/* The class whose poll lock this thread has. */
static _Thread_local const struct na_class_core *na_sink_polled;

HG_PRIVATE void na_sink_begin_poll(const struct na_class_core *core)
{
    assert(na_sink_polled == NULL);
    na_sink_polled = core;
}

HG_PRIVATE void na_sink_end_poll(void)
{
    na_sink_polled = NULL;
}

/* ---- The gate ---- */

/* The gate as a thread inside poll finds it, which is waited for anyhow. */
static uint32_t na_sink_look(const struct na_sink *sink)
{
    return atomic_load_explicit(&sink->gate, memory_order_acquire);
}

/* False: there are no functions. */
static HG_HOT bool na_sink_enter(
    struct na_class_core *core, struct na_sink *sink)
{
    bool polls = na_sink_polled == core;

    for (;;) {
        uint32_t before = polls
            ? na_sink_look(sink)
            : atomic_fetch_add_explicit(&sink->gate, 1, memory_order_acquire);

        if (HG_LIKELY((before & (NA_SINK_SHUT | NA_SINK_HELD)) == 0))
            return true;
        if (!polls)
            atomic_fetch_sub_explicit(&sink->gate, 1, memory_order_relaxed);
        if ((before & NA_SINK_SHUT) != 0)
            return false;
        (void) sched_yield();
    }
}

static HG_HOT void na_sink_leave(
    struct na_class_core *core, struct na_sink *sink)
{
    uint32_t before;

    if (na_sink_polled == core)
        return;
    before = atomic_fetch_sub_explicit(&sink->gate, 1, memory_order_release);
    assert((before & NA_SINK_INSIDE) > 0);
    (void) before;
}

/* Let nobody in any more, and wait until nobody is inside. */
static void na_sink_shut(struct na_class_core *core, struct na_sink *sink)
{
    assert(na_sink_polled != core);
    (void) atomic_fetch_or(&sink->gate, NA_SINK_SHUT);
    while ((na_sink_look(sink) & NA_SINK_INSIDE) != 0)
        (void) sched_yield(); /* a function only files what it is given */
    /* Who polls from now on sees the gate shut. Who found the lock taken
     * meanwhile is told that it is not. */
    hg_lock(&core->poll_lock);
    hg_unlock(&core->poll_lock);
    if (atomic_exchange(&core->poll_skipped, 0) != 0)
        core->pub.core->wake(&core->pub);
}

/* ---- Life ---- */

/* Make the place of a number; the context lock is held. */
static struct na_sink *na_sink_new(struct na_class_core *core, unsigned number)
{
    struct na_sink *sink = (struct na_sink *) hg_mem_calloc(1, sizeof(*sink));

    if (sink == NULL) {
        hg_log_error("ctx", "no memory for what a context takes in");
        return NULL;
    }
    atomic_init(&sink->gate, NA_SINK_SHUT);
    sink->number = (uint8_t) number;
    atomic_store_explicit(&core->sinks[number], sink, memory_order_release);
    return sink;
}

/* Whether nobody has that place; the context lock is held, under which alone
 * `take` changes. */
static bool na_sink_is_free(struct na_class_core *core, unsigned number)
{
    const struct na_sink *sink = na_sink_at(core, number);

    return sink == NULL || sink->take == NULL;
}

/* The place wanted, or the first that nobody has; the context lock is held. */
static na_return_t na_sink_find_place(
    struct na_class_core *core, int wanted, struct na_sink **sink_p)
{
    unsigned number = wanted < 0 ? 0 : (unsigned) wanted;

    while (wanted < 0 && number < NA_CORE_CONTEXTS &&
        !na_sink_is_free(core, number))
        number++;
    if (number >= NA_CORE_CONTEXTS || !na_sink_is_free(core, number)) {
        hg_log_error("ctx", "a context that takes calls has the id %u already",
            number < NA_CORE_CONTEXTS ? number : NA_CORE_CONTEXTS - 1);
        return NA_EXIST;
    }
    *sink_p = na_sink_at(core, number);
    if (*sink_p == NULL)
        *sink_p = na_sink_new(core, number);
    return *sink_p != NULL ? NA_SUCCESS : NA_NOMEM;
}

HG_PRIVATE na_return_t na_sink_open(struct na_context *context, int number,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    struct na_sink *sink = NULL;
    na_return_t ret;

    assert(self->sink == NULL && take != NULL);
    assert(number < NA_CORE_CONTEXTS);
    hg_lock(&core->context_lock);
    ret = na_sink_find_place(core, number, &sink);
    if (ret == NA_SUCCESS) {
        assert(number < 0 || sink->number == number);
        sink->take = take;
        sink->dead = dead;
        sink->arg = arg;
        (void) atomic_fetch_xor_explicit(
            &sink->gate, NA_SINK_SHUT | NA_SINK_HELD, memory_order_release);
        self->sink = sink;
        self->engine = sink->number;
    }
    hg_unlock(&core->context_lock);
    return ret;
}

HG_PRIVATE void na_sink_let_in(struct na_context *context)
{
    struct na_sink *sink = na_context_core_of(context)->sink;

    assert(sink != NULL && (atomic_load(&sink->gate) & NA_SINK_HELD) != 0);
    (void) atomic_fetch_and_explicit(
        &sink->gate, ~NA_SINK_HELD, memory_order_release);
}

HG_PRIVATE void na_sink_close(struct na_context *context)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_context_core *self = na_context_core_of(context);
    struct na_sink *sink = self->sink;

    if (sink == NULL)
        return;
    na_sink_shut(core, sink);
    hg_lock(&core->context_lock);
    sink->take = NULL;
    sink->dead = NULL;
    sink->arg = NULL;
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
    na_return_t ret;

    if (sink == NULL || !na_sink_enter(core, sink))
        return NA_NOENTRY;
    ret = sink->take(sink->arg, source, tag, data, size);
    na_sink_leave(core, sink);
    assert(ret != NA_NOENTRY); /* that means: nobody took it */
    return ret;
}

HG_PRIVATE void *na_sink_arg(struct na_class_core *core, unsigned number)
{
    void *arg = NULL;

    hg_lock(&core->context_lock);
    if (!na_sink_is_free(core, number))
        arg = na_sink_at(core, number)->arg;
    hg_unlock(&core->context_lock);
    return arg;
}

HG_PRIVATE bool na_sink_is_set(struct na_class_core *core, uint8_t target)
{
    const struct na_sink *sink = na_sink_at(core, target);

    /* One that is being taken back is not: who polls must not wait for that. */
    return sink != NULL && (na_sink_look(sink) & NA_SINK_SHUT) == 0;
}

HG_PRIVATE void na_sink_tell_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    unsigned i;

    assert(ret != NA_SUCCESS);
    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        struct na_sink *sink = na_sink_at(core, i);

        if (sink == NULL || !na_sink_enter(core, sink))
            continue;
        if (sink->dead != NULL)
            sink->dead(sink->arg, addr, ret);
        na_sink_leave(core, sink);
    }
}
