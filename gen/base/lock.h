/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: mutexes, the lock of a class, and how threads sleep and are woken.
 *
 * Thin by intent: pthread mutexes are uncontended on every warm path, and
 * thread sanitizers, debuggers and profilers understand them.
 *
 * A waker wakes a thread that sleeps on descriptors. It loses no wake-up: the
 * sleeper arms the waker, THEN looks once more at what it waits for, and sleeps
 * only if there is still nothing; a thread that changes something makes the
 * change visible, THEN calls hg_waker_ring. Both read and modify `state` in one
 * step, so the later of the two sees what the earlier one did before. While
 * nobody is armed, ringing is this one atomic operation: no lock, no system
 * call. It is not even that where change and look are sequentially consistent
 * themselves: all agree on the order of the four.
 *
 * The descriptor (an eventfd, or the reading end of a pipe) stays readable
 * from a ring until the last armed sleeper disarms, so that several threads,
 * or an event loop of the application, may sleep on it together.
 */
#ifndef HG_GEN_BASE_LOCK_H
#define HG_GEN_BASE_LOCK_H

#include "base/list.h"

/* HG_NOMEM when the system refuses. */
HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex);

static inline void hg_lock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_lock(mutex);

    assert(rc == 0);
    (void) rc;
}

/* For who must not wait for it: false, it was not to be had. */
HG_PRIVATE bool hg_lock_try(pthread_mutex_t *mutex);

static inline void hg_unlock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_unlock(mutex);

    assert(rc == 0);
    (void) rc;
}

/* ---- The lock of a class ---- */

/* A mutex that a thread may take again where it has it. */
struct hg_monitor {
    pthread_mutex_t mutex;
    _Atomic(const void *) owner; /* the thread that is inside, or NULL */
    unsigned depth;              /* how often it has entered */
    _Atomic unsigned wanted;     /* threads that wait to enter */
};

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor);
HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor);

/* Stands for a thread, by its address; and how often that has entered monitors
 * and not left, which is 0 where it runs code of the application, or sleeps. */
#if HG_SPLIT
extern __attribute__((
    visibility("hidden"))) _Thread_local unsigned hg_monitor_entered;
#else
static _Thread_local unsigned hg_monitor_entered;
#endif

static inline void hg_monitor_note(int change)
{
#ifdef NDEBUG /* only assertions ask */
    (void) change;
#else
    hg_monitor_entered += (unsigned) change;
#endif
}

/* Whether this thread is inside. */
static inline bool hg_is_inside(const struct hg_monitor *monitor)
{
    return atomic_load_explicit(&monitor->owner, memory_order_relaxed) ==
        &hg_monitor_entered;
}

/* Somebody else is inside. */
HG_PRIVATE void hg_monitor_await(struct hg_monitor *monitor);

static inline void hg_enter(struct hg_monitor *monitor)
{
    hg_monitor_note(1);
    if (!hg_is_inside(monitor)) {
        if (HG_UNLIKELY(pthread_mutex_trylock(&monitor->mutex) != 0))
            hg_monitor_await(monitor);
        atomic_store_explicit(
            &monitor->owner, &hg_monitor_entered, memory_order_relaxed);
    }
    monitor->depth++;
}

static inline void hg_leave(struct hg_monitor *monitor)
{
    assert(hg_is_inside(monitor) && hg_monitor_entered > 0);
    hg_monitor_note(-1);
    if (--monitor->depth > 0)
        return;
    atomic_store_explicit(&monitor->owner, NULL, memory_order_relaxed);
    hg_unlock(&monitor->mutex);
}

/* False: it takes too long. */
HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor);

/* Enter again after a moment outside, when those are in who waited for that: a
 * thread that came back at once would keep them out. */
HG_PRIVATE void hg_reenter(struct hg_monitor *monitor);

/* Let others in who wait for that. For who goes round and round, inside
 * once. */
HG_PRIVATE void hg_pass(struct hg_monitor *monitor);

/* Leave however often this thread has entered; and enter as often again. */
static inline unsigned hg_leave_all(struct hg_monitor *monitor)
{
    unsigned depth = monitor->depth;

    assert(hg_is_inside(monitor));
    hg_monitor_note(1 - (int) depth);
    monitor->depth = 1;
    hg_leave(monitor);
    return depth;
}

static inline void hg_enter_again(struct hg_monitor *monitor, unsigned depth)
{
    hg_enter(monitor);
    assert(monitor->depth == 1 && depth > 0);
    hg_monitor_note((int) depth - 1);
    monitor->depth = depth;
}

/* Sleep for a millisecond outside, for what is too rare to be signalled; false
 * after a signal. */
HG_PRIVATE bool hg_pause(struct hg_monitor *monitor);

/* ---- Sleeping and waking ---- */

struct hg_waker {
    _Atomic unsigned state; /* sleepers, and whether it rang: see lock.c */
    int read_fd;            /* for poll; constant */
    int write_fd;           /* the same as read_fd with an eventfd; constant */
};

/* False, and errno: descriptors ran out (not logged). */
HG_PRIVATE bool hg_waker_init(struct hg_waker *waker);

/* Nobody is armed, and nobody rings any more. */
HG_PRIVATE void hg_waker_fini(struct hg_waker *waker);

/* Announce that the caller is about to sleep; pairs with hg_waker_disarm. One
 * lock is held around both, the same for all sleepers. */
HG_PRIVATE void hg_waker_arm(struct hg_waker *waker);
HG_PRIVATE void hg_waker_disarm(struct hg_waker *waker);

/* Make the descriptor readable if anyone is armed. Any thread, under any
 * lock; not from a signal handler. Keeps errno. */
HG_PRIVATE void hg_waker_ring(struct hg_waker *waker);

/* The same without an atomic step of its own, after a change that was a
 * sequentially consistent one, which sleepers look for in the same way. */
static inline void hg_waker_ring_after(struct hg_waker *waker)
{
    if (HG_UNLIKELY(atomic_load(&waker->state) != 0))
        hg_waker_ring(waker);
}

#define HG_WAKER_FDS 4 /* most descriptors that a sleeper sleeps on, too */

/* Sleep, armed, until the waker rings, one of the descriptors is readable or
 * broken, or `deadline` passes. HG_SUCCESS: something is readable; HG_TIMEOUT;
 * HG_INTR after a signal; HG_IO_ERROR (logged). */
HG_PRIVATE hg_return_t hg_waker_sleep(
    struct hg_waker *waker, const int *fds, unsigned count, uint64_t deadline);

#endif
