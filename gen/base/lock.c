/* SPDX-License-Identifier: BSD-3-Clause */
/* lock: see lock.h. */
#include "base/lock.h"

#include "base/clock.h"
#include "base/log.h"

/* How often to try a mutex that is held for a few instructions: its holder may
 * not be running. */
#define HG_LOCK_TRIES 1000

/* How often a thread that waits for the lock of a class yields before it
 * sleeps, and for how long it sleeps, in ns. */
#define HG_LOCK_YIELDS 20
#define HG_LOCK_NAP 50000

HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_init(mutex, NULL);

    if (rc != 0) {
        hg_log_error("lock", "pthread_mutex_init: %s", strerror(rc));
        return HG_NOMEM;
    }
    return HG_SUCCESS;
}

HG_PRIVATE bool hg_lock_try(pthread_mutex_t *mutex)
{
    int tries;

    for (tries = 0; tries < HG_LOCK_TRIES; tries++) {
        if (pthread_mutex_trylock(mutex) == 0)
            return true;
        (void) sched_yield();
    }
    return false;
}

/* ---- The lock of a class ---- */

#if HG_SPLIT
_Thread_local unsigned hg_monitor_entered;
#endif

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor)
{
    memset(monitor, 0, sizeof(*monitor));
    return HG_SUCCESS;
}

HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor)
{
    HG_ASSERT(atomic_load(&monitor->wanted) == 0);
    HG_ASSERT(atomic_load(&monitor->held) == 0);
    (void) monitor;
}

/* Take the lock if it is free. */
static bool hg_monitor_try(struct hg_monitor *monitor)
{
    return atomic_load_explicit(&monitor->held, memory_order_relaxed) == 0 &&
        atomic_exchange_explicit(&monitor->held, 1, memory_order_acquire) == 0;
}

HG_PRIVATE HG_NOINLINE void hg_monitor_await(struct hg_monitor *monitor)
{
    const struct timespec nap = {0, HG_LOCK_NAP};
    int tries;

    atomic_fetch_add(&monitor->wanted, 1);
    for (tries = 0; !hg_monitor_try(monitor); tries++) {
        if (tries < HG_LOCK_TRIES)
            hg_clock_relax();
        else if (tries < HG_LOCK_TRIES + HG_LOCK_YIELDS)
            (void) sched_yield();
        else
            (void) nanosleep(&nap, NULL);
    }
    atomic_fetch_sub(&monitor->wanted, 1);
}

HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor)
{
    int tries = HG_LOCK_TRIES;

    while (!hg_monitor_try(monitor)) {
        if (--tries == 0)
            return false;
        (void) sched_yield();
    }
    hg_monitor_own(monitor, true);
    return true;
}

HG_PRIVATE void hg_reenter(struct hg_monitor *monitor)
{
    int tries;

    for (tries = 0; tries < HG_LOCK_TRIES &&
         atomic_load_explicit(&monitor->wanted, memory_order_relaxed) > 0;
         tries++)
        (void) sched_yield();
    hg_enter(monitor);
}

HG_PRIVATE void hg_pass(struct hg_monitor *monitor)
{
    HG_ASSERT(hg_is_inside(monitor));
    hg_clock_relax();
    if (HG_LIKELY(
            atomic_load_explicit(&monitor->wanted, memory_order_relaxed) == 0))
        return;
    hg_leave(monitor);
    hg_reenter(monitor);
}

HG_PRIVATE bool hg_pause(struct hg_monitor *monitor)
{
    int rc;

    hg_leave(monitor);
    rc = poll(NULL, 0, 1);
    hg_enter(monitor);
    return rc == 0;
}

/* ---- Wakers ----
 *
 * `state` counts the armed sleepers in steps of HG_WAKER_ARMED; HG_WAKER_RUNG
 * says that one thread has written, or is about to write, to the descriptor.
 * One write comes from the first ring after a thread armed until the last one
 * disarmed, which takes it out again: it blocks until the write is there. */

#define HG_WAKER_RUNG 1u
#define HG_WAKER_ARMED 2u

#if HG_ENABLE_EPOLL

static int hg_waker_open(struct hg_waker *waker)
{
    waker->read_fd = eventfd(0, EFD_CLOEXEC);
    waker->write_fd = waker->read_fd;
    return waker->read_fd < 0 ? -1 : 0;
}

#else

static int hg_waker_open(struct hg_waker *waker)
{
    int fds[2];
    int saved_errno;

    if (pipe(fds) != 0)
        return -1;
    if (fcntl(fds[0], F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(fds[1], F_SETFD, FD_CLOEXEC) != 0)
        goto close_fds;
    waker->read_fd = fds[0];
    waker->write_fd = fds[1];
    return 0;

close_fds:
    saved_errno = errno;
    close(fds[0]);
    close(fds[1]);
    errno = saved_errno;
    return -1;
}

#endif

/* An eventfd takes eight bytes; a pipe takes any number. Neither is ever full:
 * there is at most one write between two drains. */
static void hg_waker_fill(struct hg_waker *waker)
{
    static const uint64_t one = 1;
    ssize_t written;

    do
        written = write(waker->write_fd, &one, sizeof(one));
    while (written < 0 && errno == EINTR);
    HG_ASSERT(written == (ssize_t) sizeof(one));
}

static void hg_waker_drain(struct hg_waker *waker)
{
    uint64_t count;
    ssize_t got;

    do
        got = read(waker->read_fd, &count, sizeof(count));
    while (got < 0 && errno == EINTR);
    HG_ASSERT(got == (ssize_t) sizeof(count));
}

HG_PRIVATE bool hg_waker_init(struct hg_waker *waker)
{
    atomic_init(&waker->state, 0);
    return hg_waker_open(waker) == 0;
}

HG_PRIVATE void hg_waker_fini(struct hg_waker *waker)
{
    HG_ASSERT(atomic_load(&waker->state) == 0);
    close(waker->read_fd);
    if (waker->write_fd != waker->read_fd)
        close(waker->write_fd);
}

HG_PRIVATE void hg_waker_arm(struct hg_waker *waker)
{
    atomic_fetch_add(&waker->state, HG_WAKER_ARMED);
}

HG_PRIVATE void hg_waker_disarm(struct hg_waker *waker)
{
    int saved_errno = errno;
    unsigned before = atomic_fetch_sub(&waker->state, HG_WAKER_ARMED);

    HG_ASSERT(before >= HG_WAKER_ARMED);
    if (before == (HG_WAKER_ARMED | HG_WAKER_RUNG)) {
        hg_waker_drain(waker);
        atomic_store(&waker->state, 0);
    }
    errno = saved_errno;
}

HG_PRIVATE void hg_waker_ring(struct hg_waker *waker)
{
    int saved_errno = errno;
    /* Adding 0 instead of a load, which might miss a sleeper that in turn does
     * not see the caller's change. */
    unsigned state = atomic_fetch_add(&waker->state, 0);

    while (
        HG_UNLIKELY(state >= HG_WAKER_ARMED) && (state & HG_WAKER_RUNG) == 0) {
        if (!atomic_compare_exchange_weak(
                &waker->state, &state, state | HG_WAKER_RUNG))
            continue;
        hg_waker_fill(waker);
        break;
    }
    errno = saved_errno;
}

HG_PRIVATE hg_return_t hg_waker_sleep(
    struct hg_waker *waker, const int *fds, unsigned count, uint64_t deadline)
{
    struct pollfd polled[1 + HG_WAKER_FDS];
    unsigned i;

    HG_ASSERT(atomic_load(&waker->state) >= HG_WAKER_ARMED);
    HG_ASSERT(count <= HG_WAKER_FDS);
    for (i = 0; i <= count; i++) {
        polled[i].fd = i == 0 ? waker->read_fd : fds[i - 1];
        polled[i].events = POLLIN;
    }
    for (;;) {
        int ms = hg_clock_ms_until(deadline);
        int rc = poll(polled, count + 1, ms);

        if (rc > 0)
            return HG_SUCCESS;
        if (rc < 0 && errno == EINTR)
            return HG_INTR;
        if (rc < 0) {
            hg_log_error("waker", "poll: %s", strerror(errno));
            return HG_IO_ERROR;
        }
        /* poll waits at most INT_MAX ms, which may be before the deadline. */
        if (ms != INT_MAX)
            return HG_TIMEOUT;
    }
}
