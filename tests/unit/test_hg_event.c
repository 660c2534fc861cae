/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events that wake an event loop of the callback model besides the network,
 * which tests/conform covers: the library's own timers.
 */
#include "engine.h"

#include <poll.h>

struct event_end {
    struct engine_end end;
    struct hg_context *context; /* of the callback model */
    struct hg_handle *handle;
    struct pollfd pfd;
};

static void event_open(struct event_end *event)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;

    HG_CHECK_OK(engine_open_end(&event->end, "self://", 0, &options));
    HG_CHECK_OK(hg_context_create(event->end.hg_class, 5, &event->context));
    HG_CHECK_EQ_INT(event->context->id, 5);
    event->handle = engine_new_handle(event->context);
    event->pfd.fd = hg_context_event_fd(event->context);
    event->pfd.events = POLLIN;
    HG_CHECK_EQ_INT(event->pfd.fd >= 0, HG_ENABLE_EPOLL);
    HG_CHECK_EQ_INT(hg_context_event_fd(event->context), event->pfd.fd);
}

static void event_close(struct event_end *event)
{
    hg_handle_unref(event->handle);
    hg_context_destroy(event->context);
    engine_close_end(&event->end);
}

static void event_set_timer(struct event_end *event, uint64_t when)
{
    hg_enter(event->context->lock);
    HG_CHECK_OK(hg_handle_set_timer(event->handle, when));
    hg_leave(event->context->lock);
}

HG_TEST(event_loop_is_woken_for_a_timer)
{
    struct event_end event;
    unsigned rounds;

    event_open(&event);
    for (rounds = 0; rounds < 2 && event.pfd.fd >= 0; rounds++) {
        uint64_t when;

        HG_CHECK(!hg_context_event_ready(event.context));
        HG_CHECK_EQ_INT(poll(&event.pfd, 1, 0), 0);
        /* It is set while the loop sleeps, and shortens the sleep. */
        when = hg_clock_after_ms(50);
        event_set_timer(&event, when);
        HG_CHECK_EQ_INT(poll(&event.pfd, 1, 10000), 1);
        while (hg_clock_now() < when) {
            HG_CHECK_RET(
                engine_progress(event.context, NA_LANES_ALL, 0), HG_TIMEOUT);
            if (!hg_context_event_ready(event.context))
                HG_CHECK_EQ_INT(poll(&event.pfd, 1, 10000), 1);
        }
        HG_CHECK(hg_context_event_ready(event.context));
        HG_CHECK_RET(
            engine_progress(event.context, NA_LANES_ALL, 0), HG_TIMEOUT);
        HG_CHECK_EQ_INT(event.context->deadline.count, 0);
    }
    event_close(&event);
}

/* A poke alone gives HG_Trigger nothing to run. */
HG_TEST(poked_progress_returns_timeout)
{
    struct event_end event;

    event_open(&event);
    locked_poke(event.context->na_context);
    HG_CHECK_RET(engine_progress(event.context, NA_LANES_ALL, 0), HG_TIMEOUT);
    locked_poke(event.context->na_context);
    HG_CHECK_RET(
        engine_progress(event.context, NA_LANES_ALL, hg_clock_after_ms(1)),
        HG_TIMEOUT);
    event_close(&event);
}

/* After a while the emulation asks a transport whether it still moves pieces of
 * withdrawn memory: it does until `due`. */
static struct na_mem_core event_mem;
static uint64_t event_due;

static na_bool_t event_retract(struct na_mem_handle *mem)
{
    (void) mem;
    return hg_clock_now() < event_due;
}

static void event_touch(struct na_emul *emul, uint64_t due)
{
    struct na_class_core *core = na_class_core_of(emul->na_class);

    hg_enter(core->lock);
    core->ops.mem_retract = event_retract;
    event_due = due;
    memset(&event_mem, 0, sizeof(event_mem));
    event_mem.refs = 2; /* it is not freed */
    hg_list_push(&emul->touched, &event_mem.link);
    hg_leave(core->lock);
}

/* Retries of emulated RMA after a while wake the loop, too. */
HG_TEST(event_loop_is_woken_for_emulation)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hg_context *context;
    struct engine_end end;
    struct na_emul *emul;
    struct pollfd pfd;
    uint64_t due;

    loop_register();
    HG_CHECK_OK(engine_open_end(&end, "loop://a", 4096, &options));
    HG_CHECK_OK(hg_context_create(end.hg_class, 5, &context));
    pfd.fd = hg_context_event_fd(context);
    pfd.events = POLLIN;
    emul = na_class_emul(end.na_class);
    HG_CHECK(emul != NULL);
    due = hg_clock_after_ms(50);
    event_touch(emul, due);
    if (pfd.fd >= 0) {
        while (!hg_list_is_empty(&emul->touched)) {
            if (!hg_context_event_ready(context))
                HG_CHECK_EQ_INT(poll(&pfd, 1, 10000), 1);
            HG_CHECK_RET(engine_progress(context, NA_LANES_ALL, 0), HG_TIMEOUT);
        }
        HG_CHECK(hg_clock_now() >= due);
    }
    hg_enter(na_class_core_of(end.na_class)->lock);
    hg_list_remove(&event_mem.link);
    hg_leave(na_class_core_of(end.na_class)->lock);
    hg_context_destroy(context);
    engine_close_end(&end);
}

/* As above without the RPC engine, for a class or one of its parts: its
 * application asked for the descriptor before there was anything to wait
 * for. */
static void event_try_na(const char *string, unsigned part)
{
    na_class_t *na_class = NA_Initialize(string, NA_TRUE);
    na_context_t *context;
    struct na_class_core *core;
    struct na_emul *emul;
    struct pollfd pfd;
    unsigned rounds;

    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    for (core = na_class_core_of(na_class); part > 0; part--)
        core = core->next;
    emul = core->emul;
    HG_CHECK(emul != NULL);
    pfd.fd = NA_Poll_get_fd(na_class, context);
    pfd.events = POLLIN;
    HG_CHECK_EQ_INT(pfd.fd >= 0, HG_ENABLE_EPOLL);
    for (rounds = 0; rounds < 2 && pfd.fd >= 0; rounds++) {
        uint64_t due = hg_clock_after_ms(50);

        event_touch(emul, due);
        HG_CHECK_EQ_INT(NA_Poll_get_fd(na_class, context), pfd.fd);
        while (!hg_list_is_empty(&emul->touched)) {
            if (NA_Poll_try_wait(na_class, context) == NA_TRUE)
                HG_CHECK_EQ_INT(poll(&pfd, 1, 10000), 1);
            HG_CHECK_RET(NA_Progress(na_class, context, 0), NA_TIMEOUT);
        }
        HG_CHECK(hg_clock_now() >= due);
        /* It is not readable again. */
        while (NA_Poll_try_wait(na_class, context) == NA_FALSE)
            HG_CHECK_RET(NA_Progress(na_class, context, 0), NA_TIMEOUT);
        HG_CHECK_EQ_INT(poll(&pfd, 1, 0), 0);
    }
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(descriptor_of_a_class_is_readable_for_emulation)
{
    loop_register();
    event_try_na("loop://a", 0);
}

#if HG_ENABLE_SM
HG_TEST(descriptor_of_several_transports_is_readable_for_emulation)
{
    event_try_na("self://;sm://", 1);
}
#endif
