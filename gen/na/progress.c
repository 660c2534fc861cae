/* SPDX-License-Identifier: BSD-3-Clause */
/* progress: see progress.h. */
#include "na/progress.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/emul.h"
#include "na/live.h"
#include "na/mux.h"
#include "na/sink.h"

/* Messages come in batches, counted in 1/256: more than 6/5 of one on average
 * are a load. After a pause the count starts again. Found by measuring. */
#define NA_PROGRESS_MESSAGE 256u
#define NA_PROGRESS_MUCH (6u * NA_PROGRESS_MESSAGE / 5)
#define NA_PROGRESS_MUCH_MAX (16u * NA_PROGRESS_MESSAGE)
#define NA_PROGRESS_PAUSE (3u * HG_CLOCK_MS)

/* A processor given up for a moment that comes back after so long is crowded,
 * and taken to stay so for a while. */
#define NA_PROGRESS_CROWDED (HG_CLOCK_MS / 5)
#define NA_PROGRESS_CROWDED_FOR (30u * HG_CLOCK_MS)

/* For who spins, and gives the processor up only so often: to nobody takes a
 * microsecond, to somebody who spins as well as long as that one. An interrupt,
 * or the host of a virtual machine, takes as long now and then: only twice in a
 * row is a sign. And whoever has the processor meanwhile may make what we wait
 * for: only a yield that brought nothing counts. */
#define NA_PROGRESS_YIELD (HG_CLOCK_MS / 100)
#define NA_PROGRESS_TAKEN (HG_CLOCK_MS / 200)

/* Turns that find nothing between two looks at the clock, each of which takes
 * about as long as a turn. */
#define NA_PROGRESS_BLIND 4

/* Of so many calls one polls, though there is something to run already: others
 * wait to be heard, too. */
#define NA_PROGRESS_UNPOLLED 8u

/* A sleep without a descriptor does not end when a message comes. A time awake
 * is longer than that, or two that call each other would take turns to sleep:
 * each would find the other asleep and fall asleep, too. */
#define NA_PROGRESS_NAP HG_CLOCK_MS
#define NA_PROGRESS_NAP_WINDOW (2u * HG_CLOCK_MS)

/* An application that only looks (timeout 0) spins, if so many looks that found
 * nothing took so short a time. */
#define NA_PROGRESS_LOOKS 16u
#define NA_PROGRESS_LOOKED HG_CLOCK_MS

HG_PRIVATE void na_progress_wake(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned i;

    hg_lock(&core->list_lock);
    for (i = 0; i < core->context_high; i++) {
        if (core->contexts[i] != NULL)
            hg_waker_ring(&core->contexts[i]->queue.waker);
    }
    hg_unlock(&core->list_lock);
}

HG_PRIVATE void na_progress_poke(struct na_context *context)
{
    struct na_context_core *core = na_context_core_of(context);

    atomic_store(&core->poked, true);
    hg_waker_ring(&core->queue.waker);
}

/* The application slept on our descriptor, and progresses now. */
static void na_progress_disarm(struct na_context_core *context)
{
    context->poll_armed = false;
    na_class_ops(context->pub.na_class)->wait_end(&context->pub);
    hg_waker_disarm(&context->queue.waker);
}

/* Take the context's role. False: it was not to be had, and *ret_p tells why:
 * whoever has it queued something for `lanes` meanwhile, `deadline` passed, or
 * a signal came. */
static bool na_progress_enter(struct na_context_core *context, unsigned lanes,
    uint64_t deadline, na_return_t *ret_p)
{
    struct na_queue *queue = &context->queue;

    while (context->progressing) {
        na_return_t ret =
            na_queue_wait(queue, lanes, &context->progressing, deadline);

        /* Whoever waited to the end, or for what is here, need not try. */
        if (ret != NA_SUCCESS || na_queue_has(queue, lanes)) {
            *ret_p = ret;
            return false;
        }
    }
    context->progressing = true;
    if (HG_UNLIKELY(context->poll_armed))
        na_progress_disarm(context);
    return true;
}

static void na_progress_leave(struct na_context_core *context)
{
    assert(context->progressing);
    context->progressing = false;
    na_queue_wake(&context->queue);
}

/* Whether contexts share the transport's progress. */
static bool na_progress_is_shared(const struct na_class_core *core)
{
    return (core->ops.caps & NA_CAP_OWN_CONTEXTS) == 0 || core->emul != NULL;
}

/* One turn: ask the transport, then run the library's own steps. */
static unsigned na_progress_turn(struct na_context_core *context)
{
    struct na_class_core *core = na_class_core_of(context->pub.na_class);
    unsigned n;

    core->match.retry = false;
    if (core->polling) {
        n = 0;
    } else if (na_progress_is_shared(core)) {
        core->polling = true;
        n = core->ops.poll(&context->pub);
        if (core->emul != NULL)
            n += na_emul_poll(core->emul);
        core->polling = false;
    } else {
        hg_leave(core->lock);
        n = core->ops.poll(&context->pub);
        hg_enter(core->lock);
    }
    return n + na_queue_run_internal(&context->queue);
}

/* Whether there is something to do, or to tell, before sleeping. */
static bool na_progress_ready(struct na_context_core *context, unsigned lanes)
{
    return na_queue_has(&context->queue, lanes | NA_LANES_OWN) ||
        atomic_load(&context->poked);
}

/* Whether a turn that may poll would find nothing; from here on, until
 * wait_end, whatever changes that makes a descriptor readable. */
static bool na_progress_may_sleep(struct na_context_core *context)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    bool idle = core->ops.wait_begin(&context->pub) != NA_FALSE;

    return idle && !core->match.retry &&
        (core->emul == NULL || !na_emul_has_work(core->emul));
}

/* Sleep until something happens or `deadline`. */
static na_return_t na_progress_sleep(
    struct na_context_core *context, unsigned lanes, uint64_t deadline)
{
    const struct na_plugin *ops = na_class_ops(context->pub.na_class);
    struct hg_waker *waker = &context->queue.waker;
    na_return_t ret = NA_SUCCESS;
    int fd = ops->poll_fd(&context->pub);
    uint64_t due = na_mux_due(context->pub.na_class);

    context->load.no_fd = fd == NA_POLL_FD_NONE;
    if (fd == NA_POLL_FD_NONE) {
        uint64_t soon = hg_clock_now() + NA_PROGRESS_NAP;

        if (soon < deadline)
            deadline = soon;
    }
    if (due < deadline)
        deadline = due;
    hg_waker_arm(waker);
    if (!na_progress_ready(context, lanes)) {
        if (na_progress_may_sleep(context)) {
            na_context_leave(context);
            ret = hg_waker_sleep(waker, fd >= 0 ? fd : -1, deadline);
            na_context_enter(context);
        }
        ops->wait_end(&context->pub);
    }
    hg_waker_disarm(waker);
    return ret == NA_INTR ? NA_INTR : NA_SUCCESS;
}

/* Whether to sleep at once in this idle moment because many messages come at a
 * time: a sleeper finds a batch when it wakes up, and the transport's own
 * threads make better use of the processor. The size of a message does not
 * count: a caller that waits for one large answer should stay awake. */
static bool na_progress_is_much(struct na_context_core *context, uint64_t now)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    struct na_load *load = &context->load;
    uint64_t arrived =
        atomic_load_explicit(&core->arrived, memory_order_relaxed);
    uint64_t came = arrived - load->arrived;

    if (now - load->since > NA_PROGRESS_PAUSE)
        load->batch = 0;
    if (came > 0) {
        came = came < NA_PROGRESS_MUCH_MAX / NA_PROGRESS_MESSAGE
            ? came * NA_PROGRESS_MESSAGE
            : NA_PROGRESS_MUCH_MAX;
        load->batch = (7 * load->batch + came) / 8;
        load->arrived = arrived;
        load->since = now;
    }
    return load->batch > NA_PROGRESS_MUCH;
}

/* How long to stay awake with nothing to do. */
static uint64_t na_progress_window(const struct na_context_core *context)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    uint64_t window = (uint64_t) core->info.spin_us * 1000;

    if (core->info.wait_mode == NA_WAIT_BLOCK)
        return 0;
    if (core->info.wait_mode == NA_WAIT_SPIN)
        return HG_CLOCK_NEVER / 2;
    if (context->load.no_fd && window < NA_PROGRESS_NAP_WINDOW)
        return NA_PROGRESS_NAP_WINDOW;
    return window;
}

/* Let others have the processor. Whether they took it for longer than that:
 * then who yields it waits longer than who is woken. */
static bool na_progress_yield(
    struct na_context_core *context, uint64_t now, uint64_t longest)
{
    uint64_t then;

    na_context_leave(context);
    (void) sched_yield();
    then = hg_clock_now();
    hg_reenter(context->queue.lock);
    return then - now > longest;
}

/* Let a little time pass, awake. `yield_at` is when it is time for others. */
static void na_progress_pause(
    struct na_context_core *context, uint64_t now, uint64_t *yield_at)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    struct na_load *load = &context->load;

    if ((core->ops.caps & NA_CAP_YIELD) != 0) {
        if (na_progress_yield(context, now, NA_PROGRESS_CROWDED))
            load->crowded = now + NA_PROGRESS_CROWDED_FOR;
        return;
    }
    /* The turn since then found nothing. */
    if (HG_UNLIKELY(load->missed)) {
        if (load->taken)
            load->crowded = now + NA_PROGRESS_CROWDED_FOR;
        load->taken = true;
        load->missed = false;
    }
    if (now >= *yield_at) {
        load->missed = na_progress_yield(context, now, NA_PROGRESS_TAKEN);
        load->taken = load->taken && load->missed;
        *yield_at = hg_clock_now() + NA_PROGRESS_YIELD;
        return;
    }
    hg_pass(context->queue.lock);
}

/* A look found nothing. Who spins by looking would keep peers on the same
 * processor, and the transport's threads, from doing what is waited for. */
static void na_progress_looked(struct na_context_core *context)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    struct na_load *load = &context->load;
    uint64_t now;
    bool spins;

    if (++load->looks < NA_PROGRESS_LOOKS)
        return;
    load->looks = 0;
    now = hg_clock_now();
    spins = now - load->looked < NA_PROGRESS_LOOKED;
    load->looked = now;
    if (!spins ||
        ((core->ops.caps & NA_CAP_YIELD) == 0 && now < load->yield_at))
        return;
    (void) sched_yield();
    load->yield_at = hg_clock_now() + NA_PROGRESS_YIELD;
}

/* When an adaptive wait that begins now gives the processor up: soon, or at
 * once to whom we have just woken, who may be on this one. */
static uint64_t na_progress_first_yield(
    struct na_class_core *core, uint64_t now)
{
    if (HG_LIKELY(!atomic_load_explicit(&core->woke, memory_order_relaxed)))
        return now + NA_PROGRESS_YIELD;
    atomic_store_explicit(&core->woke, false, memory_order_relaxed);
    return now;
}

/* Whether an adaptive wait is to end its time awake before its window does. Not
 * without a descriptor: a sleep takes a whole millisecond there. */
static bool na_progress_is_tired(struct na_context_core *context, uint64_t now)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);

    if (core->info.wait_mode != NA_WAIT_ADAPTIVE || context->load.no_fd)
        return false;
    return now < context->load.crowded ||
        ((core->ops.caps & NA_CAP_YIELD) != 0 &&
            na_progress_is_much(context, now));
}

/* The role is ours. Between two turns others get the lock who want it. */
static na_return_t na_progress_run(
    struct na_context_core *context, unsigned lanes, uint64_t deadline)
{
    struct na_class_core *core = na_class_core_of(context->pub.na_class);
    uint64_t window = na_progress_window(context);
    uint64_t awake_until = 0; /* not looked at the clock yet */
    uint64_t yield_at = HG_CLOCK_NEVER;
    unsigned blind = 0; /* turns that may pass before the next look at it */

    context->load.missed = false;
    for (;;) {
        unsigned n = na_progress_turn(context);
        uint64_t now;
        na_return_t ret;

        if (na_queue_has(&context->queue, lanes))
            return NA_SUCCESS;
        if (atomic_load_explicit(&context->poked, memory_order_relaxed) &&
            atomic_exchange(&context->poked, false))
            return NA_SUCCESS;
        if (deadline == 0) {
            if (n == 0)
                na_progress_looked(context);
            return NA_TIMEOUT;
        }
        if (n == 0 && blind > 0) {
            blind--;
            hg_pass(core->lock);
            continue;
        }
        now = hg_clock_now();
        if (now >= deadline)
            return NA_TIMEOUT;
        if (n > 0 || awake_until == 0) {
            awake_until = now + window;
            if (core->info.wait_mode == NA_WAIT_ADAPTIVE)
                yield_at = na_progress_first_yield(core, now);
        }
        if (now < awake_until && !na_progress_is_tired(context, now)) {
            na_progress_pause(context, now, &yield_at);
            if ((core->ops.caps & NA_CAP_YIELD) == 0)
                blind = NA_PROGRESS_BLIND - 1;
            continue;
        }
        ret = na_progress_sleep(context, lanes, deadline);
        if (ret != NA_SUCCESS)
            return ret;
    }
}

HG_PRIVATE na_return_t na_progress(
    struct na_context *context, unsigned lanes, uint64_t deadline)
{
    struct na_context_core *core = na_context_core_of(context);
    na_return_t ret;

    if (!na_progress_enter(core, lanes, deadline, &ret))
        return ret;
    /* A transport's thread may have queued an answer, and before it the end of
     * the send that it answers, which is to be seen first. */
    if (na_queue_has(&core->queue, lanes) &&
        !na_queue_has(&core->queue, 1u << NA_LANE_INTERNAL) &&
        ++core->load.unpolled < NA_PROGRESS_UNPOLLED) {
        ret = NA_SUCCESS;
    } else {
        core->load.unpolled = 0;
        ret = na_progress_run(core, lanes, deadline);
    }
    na_progress_leave(core);
    return ret;
}

/* Another thread has the role: sleep until it leaves, or *done, or `deadline`;
 * or for less. */
static na_return_t na_progress_nap(
    struct na_context *context, uint64_t deadline)
{
    struct na_queue *queue = &na_context_core_of(context)->queue;
    na_return_t ret;
    struct hg_nap nap;

    if (hg_clock_now() >= deadline)
        return NA_TIMEOUT;
    queue->waiters++;
    ret = hg_waker_nap(&nap, &queue->naps, queue->lock, deadline);
    queue->waiters--;
    return ret;
}

HG_PRIVATE na_return_t na_progress_until(
    struct na_context *context, const _Atomic bool *done, uint64_t deadline)
{
    struct na_context_core *core = na_context_core_of(context);
    na_return_t ret = NA_SUCCESS;

    while (ret == NA_SUCCESS && !atomic_load(done)) {
        if (core->progressing) {
            ret = na_progress_nap(context, deadline);
            continue;
        }
        core->progressing = true;
        if (HG_UNLIKELY(core->poll_armed))
            na_progress_disarm(core);
        /* Who made it so before we had the role may have poked another. */
        while (ret == NA_SUCCESS && !atomic_load(done))
            ret = na_progress_run(core, 0, deadline);
        na_progress_leave(core);
    }
    return atomic_load(done) ? NA_SUCCESS : ret;
}

HG_PRIVATE void na_progress_tell(struct na_context *context)
{
    na_progress_poke(context);
    na_queue_wake(&na_context_core_of(context)->queue);
}

HG_PRIVATE na_return_t na_progress_alone(
    struct na_context *context, unsigned lanes, uint64_t deadline)
{
    struct na_context_core *core = na_context_core_of(context);

    assert(core->own && core->queue.waiters == 0);
    if (HG_UNLIKELY(core->poll_armed))
        na_progress_disarm(core);
    return na_progress_run(core, lanes, deadline);
}

NA_EXPORT na_return_t NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout)
{
    na_return_t ret = na_live_check_context(na_class, context, "NA_Progress");

    if (ret != NA_SUCCESS)
        return ret;
    na_context_enter(na_context_core_of(context));
    ret = na_progress(
        context, NA_LANES_ALL, timeout == 0 ? 0 : hg_clock_after_ms(timeout));
    na_context_leave(na_context_core_of(context));
    return ret;
}

/* ---- Event loops ---- */

#if HG_ENABLE_EPOLL

HG_PRIVATE int na_progress_join_fds(int first, int second)
{
    struct epoll_event event;
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0)
        goto failed;
    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    event.data.fd = first;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, first, &event) != 0)
        goto close_fd;
    event.data.fd = second;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, second, &event) != 0)
        goto close_fd;
    return fd;

close_fd:
    (void) close(fd);
failed:
    (void) hg_log_no_fd("ctx", "what an application polls");
    return -1;
}

/* One descriptor for waker, timer and transport (-1: needs none); the queue's
 * lock is held. */
static void na_progress_open_fd(struct na_context_core *context, int fd)
{
    struct epoll_event event;

    context->timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (context->timer_fd < 0) {
        (void) hg_log_no_fd("ctx", "a timer");
        return;
    }
    context->epoll_fd =
        na_progress_join_fds(context->queue.waker.read_fd, context->timer_fd);
    if (context->epoll_fd < 0)
        goto close_timer;
    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (fd < 0 || epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return;
    (void) hg_log_no_fd("ctx", "what an application polls");
    (void) close(context->epoll_fd);
    context->epoll_fd = -1;
close_timer:
    (void) close(context->timer_fd);
    context->timer_fd = -1;
}

/* Let the timer ring at `when`. One that rang is silent again. */
static void na_progress_set_timer(
    struct na_context_core *context, uint64_t when)
{
    struct itimerspec spec;

    memset(&spec, 0, sizeof(spec)); /* never */
    if (when != HG_CLOCK_NEVER) {
        spec.it_value.tv_sec = (time_t) (when / (1000 * HG_CLOCK_MS));
        spec.it_value.tv_nsec = (long) (when % (1000 * HG_CLOCK_MS));
    }
    hg_enter(context->queue.lock);
    if (context->timer_fd >= 0 && context->timer_set != when) {
        int rc =
            timerfd_settime(context->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);

        assert(rc == 0);
        (void) rc;
        context->timer_set = when;
    }
    hg_leave(context->queue.lock);
}

#else

HG_PRIVATE int na_progress_join_fds(int first, int second)
{
    (void) first;
    (void) second;
    return -1;
}

/* Nothing stands for a timer here: who has one is polled. */
static void na_progress_open_fd(struct na_context_core *context, int fd)
{
    (void) context;
    (void) fd;
}

static void na_progress_set_timer(
    struct na_context_core *context, uint64_t when)
{
    (void) context;
    (void) when;
}

#endif

NA_EXPORT int NA_Poll_get_fd(na_class_t *na_class, na_context_t *context)
{
    struct na_context_core *core;
    int fd;

    if (na_live_check_context(na_class, context, "NA_Poll_get_fd") !=
        NA_SUCCESS)
        return -1;
    core = na_context_core_of(context);
    fd = na_class_ops(na_class)->poll_fd(context);
    if (fd == NA_POLL_FD_NONE)
        return -1;
    hg_enter(core->queue.lock);
    if (core->epoll_fd < 0)
        na_progress_open_fd(core, fd == NA_POLL_FD_IDLE ? -1 : fd);
    fd = core->epoll_fd;
    hg_leave(core->queue.lock);
    return fd;
}

HG_PRIVATE bool na_progress_arm(struct na_context *context)
{
    struct na_context_core *core = na_context_core_of(context);

    bool idle;

    if (na_class_is_forked(context->na_class))
        return false;
    na_context_enter(core);
    if (!core->poll_armed)
        hg_waker_arm(&core->queue.waker);
    core->poll_armed = true;
    /* Stays armed until the next progress, so that a ring makes the
     * descriptor readable while the application sleeps on it. */
    idle =
        na_progress_may_sleep(core) && !na_progress_ready(core, NA_LANES_ALL);
    na_context_leave(core);
    return idle;
}

HG_PRIVATE bool na_progress_set_alarm(struct na_context *context, uint64_t when)
{
    uint64_t due = na_mux_due(context->na_class);

    if (due < when)
        when = due;
    if (hg_clock_is_past(when))
        return false;
    na_progress_set_timer(na_context_core_of(context), when);
    return true;
}

NA_EXPORT na_bool_t NA_Poll_try_wait(
    na_class_t *na_class, na_context_t *context)
{
    if (na_live_check_context(na_class, context, "NA_Poll_try_wait") !=
        NA_SUCCESS)
        return NA_FALSE;
    return na_progress_arm(context) &&
            na_progress_set_alarm(context, HG_CLOCK_NEVER)
        ? NA_TRUE
        : NA_FALSE;
}
