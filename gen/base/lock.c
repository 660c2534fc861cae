/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: see lock.h.
 *
 * Condition variables wait on the clock that deadlines are made of, so that
 * setting the wall clock neither shortens nor stretches a wait.
 */
#include "base/lock.h"

#include "base/clock.h"
#include "base/log.h"

/* A mutex is held for a few instructions, but who holds it may not run. */
#define HG_LOCK_TRIES 1000

HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_init(mutex, NULL);

    if (rc != 0) {
        hg_log_error("lock", "pthread_mutex_init: %s", strerror(rc));
        return HG_NOMEM;
    }
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_lock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc;

    rc = pthread_condattr_init(&attr);
    if (rc != 0)
        goto error;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    if (rc != 0)
        goto error;
    return HG_SUCCESS;

error:
    hg_log_error("lock", "pthread_cond_init: %s", strerror(rc));
    return HG_NOMEM;
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

HG_PRIVATE bool hg_lock_wait_until(
    pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct timespec until;
    int rc;

    if (deadline == HG_CLOCK_NEVER) {
        rc = pthread_cond_wait(cond, mutex);
        assert(rc == 0);
        return true;
    }
    until.tv_sec = (time_t) (deadline / 1000000000u);
    until.tv_nsec = (long) (deadline % 1000000000u);
    rc = pthread_cond_timedwait(cond, mutex, &until);
    assert(rc == 0 || rc == ETIMEDOUT);
    return rc != ETIMEDOUT;
}

/* ---- The lock of a class ---- */

#if HG_SPLIT
_Thread_local unsigned hg_monitor_entered;
#endif

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor)
{
    atomic_init(&monitor->owner, NULL);
    atomic_init(&monitor->wanted, 0);
    monitor->depth = 0;
    return hg_lock_init(&monitor->mutex);
}

HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor)
{
    assert(atomic_load(&monitor->wanted) == 0);
    pthread_mutex_destroy(&monitor->mutex);
}

HG_PRIVATE HG_NOINLINE void hg_monitor_await(struct hg_monitor *monitor)
{
    int tries = HG_LOCK_TRIES;

    atomic_fetch_add(&monitor->wanted, 1);
    while (tries > 0 && pthread_mutex_trylock(&monitor->mutex) != 0) {
        tries--;
        hg_clock_relax();
    }
    if (tries == 0)
        hg_lock(&monitor->mutex);
    atomic_fetch_sub(&monitor->wanted, 1);
}

HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor)
{
    if (!hg_is_inside(monitor)) {
        if (!hg_lock_try(&monitor->mutex))
            return false;
        atomic_store_explicit(
            &monitor->owner, &hg_monitor_entered, memory_order_relaxed);
    }
    hg_monitor_note(1);
    monitor->depth++;
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
    assert(monitor->depth == 1);
    hg_clock_relax();
    if (HG_LIKELY(
            atomic_load_explicit(&monitor->wanted, memory_order_relaxed) == 0))
        return;
    hg_leave(monitor);
    hg_reenter(monitor);
}

HG_PRIVATE bool hg_monitor_wait_until(
    struct hg_monitor *monitor, pthread_cond_t *cond, uint64_t deadline)
{
    unsigned depth = monitor->depth;
    bool in_time;

    assert(hg_is_inside(monitor));
    monitor->depth = 0;
    atomic_store_explicit(&monitor->owner, NULL, memory_order_relaxed);
    in_time = hg_lock_wait_until(cond, &monitor->mutex, deadline);
    atomic_store_explicit(
        &monitor->owner, &hg_monitor_entered, memory_order_relaxed);
    monitor->depth = depth;
    return in_time;
}

/* ---- Wakers ----
 *
 * Whenever a waker's mutex is free, its descriptor is readable exactly if
 * `rung`. The last sleeper to disarm drains it. A thread that arms while that
 * happens loses nothing: a ring meant for it waits for the mutex and then finds
 * `rung` false, and an earlier ring made its change visible before the new
 * sleeper looked.
 */

#if HG_ENABLE_EPOLL

static int hg_waker_open(struct hg_waker *waker)
{
    waker->read_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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
        fcntl(fds[1], F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fds[1], F_SETFL, O_NONBLOCK) != 0)
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

/* Eight bytes are an eventfd's unit; for a pipe any number would do. Neither
 * is ever full: at most one write lies between two drains. */
static void hg_waker_fill(struct hg_waker *waker)
{
    static const uint64_t one = 1;
    ssize_t written;

    do
        written = write(waker->write_fd, &one, sizeof(one));
    while (written < 0 && errno == EINTR);
    assert(written == (ssize_t) sizeof(one));
}

static void hg_waker_drain(struct hg_waker *waker)
{
    uint64_t count;
    ssize_t got;

    do
        got = read(waker->read_fd, &count, sizeof(count));
    while (got < 0 && errno == EINTR);
    assert(got == (ssize_t) sizeof(count));
}

/* HG_IO_ERROR, with errno and not logged: no descriptor. */
static hg_return_t hg_waker_try_init(struct hg_waker *waker)
{
    hg_return_t ret = hg_lock_init(&waker->mutex);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_waker_open(waker) != 0) {
        ret = HG_IO_ERROR;
        goto destroy_mutex;
    }
    atomic_init(&waker->armed, 0);
    waker->rung = false;
    return HG_SUCCESS;

destroy_mutex:
    pthread_mutex_destroy(&waker->mutex);
    return ret;
}

HG_PRIVATE hg_return_t hg_waker_init(struct hg_waker *waker)
{
    hg_return_t ret = hg_waker_try_init(waker);

    return ret == HG_IO_ERROR ? hg_log_no_fd("waker", "a sleeper") : ret;
}

HG_PRIVATE void hg_waker_fini(struct hg_waker *waker)
{
    assert(atomic_load(&waker->armed) == 0);
    close(waker->read_fd);
    if (waker->write_fd != waker->read_fd)
        close(waker->write_fd);
    pthread_mutex_destroy(&waker->mutex);
}

HG_PRIVATE void hg_waker_arm(struct hg_waker *waker)
{
    atomic_fetch_add(&waker->armed, 1);
}

HG_PRIVATE void hg_waker_disarm(struct hg_waker *waker)
{
    int saved_errno = errno;
    uint32_t before;

    hg_lock(&waker->mutex);
    before = atomic_fetch_sub_explicit(&waker->armed, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1 && waker->rung) {
        hg_waker_drain(waker);
        waker->rung = false;
    }
    hg_unlock(&waker->mutex);
    errno = saved_errno;
}

HG_PRIVATE void hg_waker_ring(struct hg_waker *waker)
{
    int saved_errno;

    /* Adding nothing: a load alone might miss a sleeper that, in turn, does
     * not see the caller's change yet. */
    if (HG_LIKELY(atomic_fetch_add_explicit(
                      &waker->armed, 0, memory_order_acq_rel) == 0))
        return;
    saved_errno = errno;
    hg_lock(&waker->mutex);
    /* With nobody armed any more, nobody would drain it. */
    if (!waker->rung &&
        atomic_load_explicit(&waker->armed, memory_order_relaxed) > 0) {
        hg_waker_fill(waker);
        waker->rung = true;
    }
    hg_unlock(&waker->mutex);
    errno = saved_errno;
}

HG_PRIVATE hg_return_t hg_waker_sleep(
    struct hg_waker *waker, int fd, uint64_t deadline)
{
    struct pollfd fds[2];
    nfds_t count = fd >= 0 ? 2 : 1;

    assert(atomic_load(&waker->armed) > 0);
    fds[0].fd = waker->read_fd;
    fds[0].events = POLLIN;
    fds[1].fd = fd;
    fds[1].events = POLLIN;
    for (;;) {
        int ms = hg_clock_ms_until(deadline);
        int rc = poll(fds, count, ms);

        if (rc > 0)
            return HG_SUCCESS;
        if (rc < 0 && errno == EINTR)
            return HG_INTR;
        if (rc < 0) {
            hg_log_error("waker", "poll: %s", strerror(errno));
            return HG_IO_ERROR;
        }
        /* INT_MAX ms is as far as poll looks ahead, not yet the deadline. */
        if (ms != INT_MAX)
            return HG_TIMEOUT;
    }
}

/* ---- Naps ---- */

/* A nap without a descriptor: so short that nobody need wake it. */
static hg_return_t hg_waker_doze(struct hg_monitor *monitor, uint64_t deadline)
{
    int rc;

    hg_leave(monitor);
    rc = poll(NULL, 0, 1);
    hg_enter(monitor);
    if (rc < 0)
        return HG_INTR;
    return hg_clock_now() < deadline ? HG_SUCCESS : HG_TIMEOUT;
}

HG_PRIVATE hg_return_t hg_waker_nap(struct hg_nap *nap, struct na_link *naps,
    struct hg_monitor *monitor, uint64_t deadline)
{
    hg_return_t ret;

    if (hg_waker_try_init(&nap->waker) != HG_SUCCESS)
        return hg_waker_doze(monitor, deadline);
    hg_list_init(&nap->link);
    hg_list_push(naps, &nap->link);
    hg_waker_arm(&nap->waker);
    hg_leave(monitor);
    assert(hg_monitor_entered == 0);
    ret = hg_waker_sleep(&nap->waker, -1, deadline);
    hg_enter(monitor);
    hg_list_remove(&nap->link);
    hg_waker_disarm(&nap->waker);
    hg_waker_fini(&nap->waker);
    return ret == HG_IO_ERROR ? HG_SUCCESS : ret;
}
