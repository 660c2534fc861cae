/* SPDX-License-Identifier: BSD-3-Clause */
/* progress: see progress.h. */
#include "na/progress.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "emul/emul.h"
#include "na/live.h"

/* Idle rounds between two reads of the clock; a read costs about as much as a
 * few rounds. */
#define NA_PROGRESS_LOOK 16u

/* A yield takes half as long as an echo between two processors that spin.
 * Therefore the first yield comes after this time without events, or, if the
 * application only polls, after this many rounds. */
#define NA_PROGRESS_PATIENCE (HG_CLOCK_MS / 100)
#define NA_PROGRESS_POLLS 128u

/* A yield that takes longer than this let another thread run. */
#define NA_PROGRESS_YIELDED 2000u

/* If a yield takes this much longer than the longest window, a computing thread
 * had the processor. For NA_PROGRESS_LOSS times its duration there is no
 * spinning, so that the total loss is small. */
#define NA_PROGRESS_BUSY (HG_CLOCK_MS / 5)
#define NA_PROGRESS_LOSS 64u

/* A sleep without a descriptor does not end when a message arrives. The window
 * must be longer than such a sleep. Otherwise two processes that call each
 * other would alternately sleep: each would find the other asleep and sleep
 * itself. */
#define NA_PROGRESS_NO_FD_NS HG_CLOCK_MS
#define NA_PROGRESS_NO_FD_WINDOW (2u * HG_CLOCK_MS)

HG_PRIVATE void na_progress_wake(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class)->head;
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

    HG_ASSERT(hg_is_inside(core->queue.lock));
    core->pokes++;
    na_queue_wake_all(&core->queue, NULL);
}

HG_PRIVATE void na_progress_ask(struct na_context *context)
{
    struct na_context_core *core = na_context_core_of(context);

    atomic_store(&core->asked, true);
    hg_waker_ring(&core->queue.waker);
}

/* Do what na_progress_ask asked for. The lock is held. */
static bool na_progress_obey(struct na_context_core *context)
{
    if (HG_LIKELY(!atomic_load(&context->asked)))
        return false;
    atomic_store(&context->asked, false);
    context->pokes++;
    na_queue_wake_all(&context->queue, NULL);
    return true;
}

/* Poll the transport of each part. */
static unsigned na_progress_poll(struct na_context_core *context)
{
    unsigned n = 0;

    do {
        struct na_class_core *core = na_class_core_of(context->pub.na_class);

        n += core->ops.poll(&context->pub);
        if (core->emul != NULL)
            n += na_emul_poll(core->emul);
        context = context->next;
    } while (HG_UNLIKELY(context != NULL));
    return n;
}

/* One round of progress: poll the transport, then run the library's steps. A
 * transport may release the lock in poll. */
static unsigned na_progress_turn(struct na_context_core *context)
{
    struct na_class_core *core = na_class_core_of(context->pub.na_class);
    unsigned n = 0;

    if (!core->polling) {
        core->inbox.retry = false; /* a poll under way may be past them */
        core->polling = true;
        n = na_progress_poll(context);
        core->polling = false;
    }
    return n +
        na_queue_run(
            &context->queue, NA_LANES_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);
}

/* Whether a round of progress would find nothing before *until_p, which is
 * reduced to the time when the emulation or a transport needs a round. From now
 * until wait_end, any change makes a descriptor readable. */
static bool na_progress_may_sleep(
    struct na_context_core *context, uint64_t *until_p)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    bool idle = !core->inbox.retry;

    for (; context != NULL; context = context->next) {
        uint64_t due;

        core = na_class_core_of(context->pub.na_class);
        if (!core->ops.wait_begin(&context->pub))
            idle = false;
        due = core->emul != NULL ? na_emul_due(core->emul) : HG_CLOCK_NEVER;
        due = core->due < due ? core->due : due;
        *until_p = due < *until_p ? due : *until_p;
    }
    return idle && !hg_clock_is_past(*until_p);
}

/* Get the descriptors of all parts, at most NA_CORE_PARTS. Returns their
 * number, or -1: a transport has none. */
static int na_progress_fds(struct na_context_core *context, int *fds)
{
    int count = 0;

    for (; context != NULL; context = context->next) {
        int fd = na_class_ops(context->pub.na_class)->poll_fd(&context->pub);

        if (fd == NA_POLL_FD_NONE)
            return -1;
        if (fd != NA_POLL_FD_IDLE)
            fds[count++] = fd;
    }
    return count;
}

/* End the sleep in the context. */
static void na_progress_wait_end(struct na_context_core *context)
{
    for (; context != NULL; context = context->next)
        na_class_ops(context->pub.na_class)->wait_end(&context->pub);
}

/* ---- Waiting ---- */

/* The maximum of the window. */
static uint64_t na_progress_limit(const struct na_context_core *context)
{
    const struct na_class_core *core = na_class_core_of(context->pub.na_class);
    uint64_t limit = (uint64_t) core->info.spin_us * 1000;

    return context->no_fd && limit < NA_PROGRESS_NO_FD_WINDOW
        ? NA_PROGRESS_NO_FD_WINDOW
        : limit;
}

/* The time to spin. */
static uint64_t na_progress_window(
    const struct na_context_core *context, uint64_t now)
{
    switch (na_class_core_of(context->pub.na_class)->info.wait_mode) {
    case NA_WAIT_BLOCK: return 0;
    case NA_WAIT_SPIN: return HG_CLOCK_NEVER;
    default: return now < context->busy_until ? 0 : context->window;
    }
}

/* Yield the processor, and detect whether another thread ran. */
static void na_progress_yield(struct na_context_core *context)
{
    uint64_t before;
    uint64_t took;

    na_context_leave(context);
    before = hg_clock_now();
    (void) sched_yield();
    took = hg_clock_now() - before;
    hg_reenter(context->queue.lock);
    context->yielded = took > NA_PROGRESS_YIELDED;
    if (took > na_progress_limit(context) + NA_PROGRESS_BUSY)
        context->busy_until = before + NA_PROGRESS_LOSS * took;
}

/* The events that a thread in na_progress waits for. */
struct na_progress_goal {
    unsigned lanes;
    unsigned pokes; /* count when the wait began */
    const _Atomic bool *done;
};

static HG_HOT bool na_progress_is_there(
    const struct na_context_core *context, const struct na_progress_goal *goal)
{
    return na_queue_has(&context->queue, goal->lanes) ||
        context->pokes != goal->pokes ||
        (goal->done != NULL &&
            atomic_load_explicit(goal->done, memory_order_acquire));
}

/* Sleep until an event or `deadline`. */
static na_return_t na_progress_sleep(struct na_context_core *context,
    const struct na_progress_goal *goal, uint64_t deadline)
{
    struct hg_waker *waker = &context->queue.waker;
    na_return_t ret = NA_SUCCESS;
    int fds[NA_CORE_PARTS];
    int count = na_progress_fds(context, fds);

    context->no_fd = count < 0;
    if (context->no_fd) {
        uint64_t soon = hg_clock_now() + NA_PROGRESS_NO_FD_NS;

        deadline = soon < deadline ? soon : deadline;
    }
    hg_waker_arm(waker);
    if (!na_queue_has(&context->queue, NA_LANES_INTERNAL) &&
        !na_progress_is_there(context, goal) && !na_progress_obey(context)) {
        if (na_progress_may_sleep(context, &deadline)) {
            na_context_leave(context);
            ret = hg_waker_sleep(
                waker, fds, count < 0 ? 0 : (unsigned) count, deadline);
            na_context_enter(context);
        } else {
            /* Another thread may have to do the work, and needs the lock. */
            hg_pass(context->queue.lock);
        }
        na_progress_wait_end(context);
    }
    hg_waker_disarm(waker);
    return ret == NA_INTR ? NA_INTR : NA_SUCCESS;
}

/* Adapt the window: an event came `idle` ns after the first idle round. */
static void na_progress_adapt(struct na_context_core *context, uint64_t idle)
{
    uint64_t limit = na_progress_limit(context);

    context->window = idle <= limit ? limit : context->window / 2;
}

/* Whether a thread that only polls must yield now: it does so from time to
 * time. */
static bool na_progress_is_tired(const struct na_context_core *context)
{
    return context->idle % NA_PROGRESS_POLLS == 0 && context->idle != 0 &&
        na_class_core_of(context->pub.na_class)->info.wait_mode != NA_WAIT_SPIN;
}

/* Make progress and wait. Only one thread at a time does so in a context.
 * NA_AGAIN: the time is over, and the thread must yield. */
static na_return_t na_progress_run(struct na_context_core *context,
    const struct na_progress_goal *goal, uint64_t deadline)
{
    uint64_t since = 0; /* the first idle round */
    uint64_t now = 0;

    for (;;) {
        unsigned n = na_progress_turn(context);
        bool done = na_progress_is_there(context, goal);
        na_return_t ret;
        bool look;

        context->idle = n > 0 ? 0 : context->idle + 1;
        look = context->idle % NA_PROGRESS_LOOK == 0;
        if ((n > 0 || done) && since != 0) {
            na_progress_adapt(context, now - since);
            since = 0;
        }
        if (done)
            return NA_SUCCESS;
        if (deadline == 0) {
            (void) na_progress_obey(context);
            return na_progress_is_tired(context) ? NA_AGAIN : NA_TIMEOUT;
        }
        if (since == 0 || look || context->yielded)
            now = hg_clock_now();
        if (now >= deadline)
            return NA_TIMEOUT;
        if (n > 0) {
            hg_pass(context->queue.lock);
            continue;
        }
        if (look && HG_UNLIKELY(na_progress_obey(context)))
            return NA_SUCCESS;
        if (since == 0)
            since = now;
        if (now - since < na_progress_window(context, now)) {
            if (context->yielded ||
                (look && now - since >= NA_PROGRESS_PATIENCE))
                na_progress_yield(context);
            else
                hg_pass(context->queue.lock);
            continue;
        }
        ret = na_progress_sleep(context, goal, deadline);
        now = hg_clock_now();
        if (ret != NA_SUCCESS)
            return ret;
    }
}

HG_PRIVATE void na_progress_disarm(struct na_context_core *context)
{
    context->poll_armed = false;
    na_progress_wait_end(context);
    hg_waker_disarm(&context->queue.waker);
}

/* Sleep while another thread makes progress. False: *ret_p ends the wait; true:
 * this thread may take over. */
static HG_NOINLINE bool na_progress_await_driver(
    struct na_context_core *context, const struct na_progress_goal *goal,
    uint64_t deadline, na_return_t *ret_p)
{
    *ret_p = NA_SUCCESS;
    while (context->progressing && *ret_p == NA_SUCCESS) {
        if (na_progress_is_there(context, goal))
            return false;
        *ret_p = na_queue_sleep(&context->queue, goal->lanes | NA_LANES_DRIVER,
            goal->done, deadline);
    }
    if (!na_progress_is_there(context, goal))
        return *ret_p == NA_SUCCESS;
    *ret_p = NA_SUCCESS;
    return false;
}

HG_PRIVATE HG_HOT na_return_t na_progress(struct na_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline)
{
    struct na_context_core *core = na_context_core_of(context);
    struct na_progress_goal goal = {lanes, core->pokes, done};
    na_return_t ret;

    HG_ASSERT(hg_is_inside(core->queue.lock));
    if (HG_LIKELY(!core->progressing) ||
        na_progress_await_driver(core, &goal, deadline, &ret)) {
        core->progressing = true;
        if (HG_UNLIKELY(core->poll_armed))
            na_progress_disarm(core);
        ret = na_progress_run(core, &goal, deadline);
        core->progressing = false;
    }
    /* Wake another thread to make progress. */
    if (HG_UNLIKELY(!hg_list_is_empty(&core->queue.sleepers)) &&
        !core->progressing)
        na_queue_wake_one(&core->queue, NA_LANES_DRIVER);
    if (HG_UNLIKELY(ret == NA_AGAIN)) {
        core->flags++;           /* the context is in use */
        na_progress_yield(core); /* now other threads may make progress */
        core->flags--;
        ret = NA_TIMEOUT;
    }
    return ret;
}

NA_EXPORT na_return_t NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout)
{
    na_return_t ret = na_live_check_context(na_class, context, "NA_Progress");

    if (ret != NA_SUCCESS)
        return ret;
    na_context_enter(na_context_core_of(context));
    ret = na_progress(context, NA_LANES_ALL, NULL,
        timeout == 0 ? 0 : hg_clock_after_ms(timeout));
    na_context_leave(na_context_core_of(context));
    return ret;
}

_Static_assert(sizeof(_Atomic bool) == sizeof(na_bool_t), "one is the other");

NA_EXPORT na_return_t NA_Progress_until(na_class_t *na_class,
    na_context_t *context, const na_bool_t *flag, unsigned int timeout)
{
    na_return_t ret =
        na_live_check_context(na_class, context, "NA_Progress_until");
    const _Atomic bool *done = (const _Atomic bool *) (const void *) flag;
    struct na_context_core *core;

    if (ret == NA_SUCCESS && flag == NULL)
        ret = hg_log_misuse("ctx", "NA_Progress_until", "flag is NULL");
    if (ret != NA_SUCCESS)
        return ret;
    core = na_context_core_of(context);
    na_context_enter(core);
    core->flags++;
    ret = na_progress(context, NA_LANES_ALL, done,
        timeout == 0 ? 0 : hg_clock_after_ms(timeout));
    core->flags--;
    na_context_leave(core);
    return ret;
}

/* ---- Event loops ---- */

#if HG_ENABLE_EPOLL

/* Create one descriptor for waker, timer and transports. The lock is held. */
static void na_progress_open_fd(struct na_context_core *context)
{
    struct epoll_event event;
    int fds[2 + NA_CORE_PARTS];
    int count = na_progress_fds(context, fds + 2);
    int joined;
    int i;

    if (count < 0)
        return;
    for (i = count; i < NA_CORE_PARTS; i++)
        fds[2 + i] = -1;
    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    joined = epoll_create1(EPOLL_CLOEXEC);
    fds[0] = context->queue.waker.read_fd;
    fds[1] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    for (i = 0; i < 2 + count; i++) {
        if (joined < 0 || fds[1] < 0 ||
            epoll_ctl(joined, EPOLL_CTL_ADD, fds[i], &event) != 0)
            goto close_fds;
    }
    context->epoll_fd = joined;
    context->timer_fd = fds[1];
    memcpy(context->fds, fds + 2, sizeof(context->fds));
    return;

close_fds:
    (void) hg_log_no_fd("ctx", "what an application polls");
    if (fds[1] >= 0)
        (void) close(fds[1]);
    if (joined >= 0)
        (void) close(joined);
}

/* Whether the descriptor still covers the transports: they may use another one
 * later. Adds it. */
static bool na_progress_renew_fd(struct na_context_core *context)
{
    struct epoll_event event;
    int fds[NA_CORE_PARTS];
    int count = na_progress_fds(context, fds);
    int i;

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    for (i = 0; i < count; i++) {
        if (fds[i] != context->fds[i] &&
            epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fds[i], &event) != 0 &&
            errno != EEXIST)
            return false;
        context->fds[i] = fds[i];
    }
    return count >= 0;
}

/* Set the timer to expire at `when`. An expired timer becomes unreadable. */
static void na_progress_set_timer(
    struct na_context_core *context, uint64_t when)
{
    struct itimerspec spec;

    memset(&spec, 0, sizeof(spec)); /* 0: never */
    if (when != HG_CLOCK_NEVER) {
        spec.it_value.tv_sec = (time_t) (when / (1000 * HG_CLOCK_MS));
        spec.it_value.tv_nsec = (long) (when % (1000 * HG_CLOCK_MS));
    }
    if (context->timer_fd >= 0 && context->timer_set != when) {
        int rc =
            timerfd_settime(context->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);

        HG_ASSERT(rc == 0);
        (void) rc;
        context->timer_set = when;
    }
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
    na_context_enter(core);
#if HG_ENABLE_EPOLL
    if (core->epoll_fd < 0)
        na_progress_open_fd(core);
#endif
    fd = core->epoll_fd;
    na_context_leave(core);
    return fd;
}

HG_PRIVATE bool na_progress_arm(struct na_context *context, uint64_t when)
{
    struct na_context_core *core = na_context_core_of(context);
    bool idle;

    HG_ASSERT(hg_is_inside(core->queue.lock));
    if (!core->poll_armed)
        hg_waker_arm(&core->queue.waker);
    core->poll_armed = true;
    idle = na_progress_may_sleep(core, &when);
#if HG_ENABLE_EPOLL
    if (core->epoll_fd >= 0 && !na_progress_renew_fd(core) &&
        when > hg_clock_now() + NA_PROGRESS_NO_FD_NS)
        when = hg_clock_now() + NA_PROGRESS_NO_FD_NS;
    na_progress_set_timer(core, when);
#endif
    return idle && !atomic_load(&core->asked) &&
        !na_queue_has(&core->queue, NA_LANES_ALL | NA_LANES_INTERNAL);
}

NA_EXPORT na_bool_t NA_Poll_try_wait(
    na_class_t *na_class, na_context_t *context)
{
    bool idle;

    if (na_live_check_context(na_class, context, "NA_Poll_try_wait") !=
        NA_SUCCESS)
        return NA_FALSE;
    na_context_enter(na_context_core_of(context));
    idle = na_progress_arm(context, HG_CLOCK_NEVER);
    na_context_leave(na_context_core_of(context));
    return idle ? NA_TRUE : NA_FALSE;
}
