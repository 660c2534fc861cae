/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: mutexes, the lock of a class, and how threads sleep and wake up.
 *
 * Deliberately thin: the lock of a class is a word, since each call takes it,
 * and all other locks are pthread mutexes. Thread sanitizers understand both.
 *
 * A waker wakes a thread that sleeps on descriptors. No wake-up is lost: the
 * sleeper arms the waker, then checks its condition again, and sleeps only if
 * it still does not hold; a thread that changes something makes the change
 * visible, then calls hg_waker_ring. Both read and modify `state` in one step,
 * so the later of the two sees what the earlier one did before. While no
 * sleeper is armed, ringing is a single atomic operation: no lock, no system
 * call. If both change and check are sequentially consistent, even that is
 * unnecessary, because all threads agree on the order of the four.
 *
 * The descriptor (an eventfd, or the read end of a pipe) stays readable from a
 * ring until the last armed sleeper disarms, so that several threads, or an
 * event loop of the application, may sleep on it together.
 */
#ifndef HG_GEN_BASE_LOCK_H
#define HG_GEN_BASE_LOCK_H

#include "base/list.h"

/* HG_NOMEM when the system refuses. */
HG_PRIVATE hg_return_t hg_lock_init(pthread_mutex_t *mutex);

static inline void hg_lock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_lock(mutex);

    HG_ASSERT(rc == 0);
    (void) rc;
}

/* Take the lock without waiting; false: it is held. */
HG_PRIVATE bool hg_lock_try(pthread_mutex_t *mutex);

static inline void hg_unlock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_unlock(mutex);

    HG_ASSERT(rc == 0);
    (void) rc;
}

/* ---- The lock of a class ---- */

/* Not recursive. A function that needs it held says so and asserts it. It is a
 * word: held for a short time, and mostly by one thread. A thread that waits
 * longer sleeps, so that it does not keep a holder of lower priority from
 * running. */
struct hg_monitor {
    _Atomic unsigned held;   /* 1: a thread has it */
    _Atomic unsigned wanted; /* threads waiting to enter */
#if HG_DEBUG
    _Atomic(const void *) owner; /* the thread that holds it, or NULL */
#endif
};

HG_PRIVATE hg_return_t hg_monitor_init(struct hg_monitor *monitor);
HG_PRIVATE void hg_monitor_fini(struct hg_monitor *monitor);

/* How many monitors a thread holds, for assertions; its address identifies the
 * thread where nothing cheaper does. It is 0 while the thread runs application
 * code or sleeps. */
#if HG_SPLIT
extern __attribute__((
    visibility("hidden"))) _Thread_local unsigned hg_monitor_entered;
#else
static __attribute__((unused)) _Thread_local unsigned hg_monitor_entered;
#endif

/* An identity of this thread, which no other living thread has. In a shared
 * library the address of a thread's variable takes a call, and the thread's
 * pointer an instruction. */
static inline const void *hg_monitor_self(void)
{
#if defined(__linux__) && defined(__x86_64__) && !defined(__ILP32__)
    const void *self;

    __asm__("mov %%fs:0, %0" : "=r"(self)); /* points to itself: psABI, TLS */
    return self;
#elif defined(__linux__) && defined(__aarch64__)
    return __builtin_thread_pointer();
#else
    return &hg_monitor_entered;
#endif
}

#if HG_DEBUG
/* Whether this thread holds the monitor. */
static inline bool hg_is_inside(const struct hg_monitor *monitor)
{
    return atomic_load_explicit(&monitor->owner, memory_order_relaxed) ==
        hg_monitor_self();
}
#endif

/* For assertions: this thread has taken the lock, or is about to release it. */
static inline void hg_monitor_own(struct hg_monitor *monitor, bool owned)
{
#if HG_DEBUG
    HG_ASSERT(hg_is_inside(monitor) != owned);
    hg_monitor_entered += owned ? 1u : -1u;
    atomic_store_explicit(&monitor->owner, owned ? hg_monitor_self() : NULL,
        memory_order_relaxed);
#else
    (void) monitor;
    (void) owned;
#endif
}

/* Another thread holds the monitor: wait for it. */
HG_PRIVATE void hg_monitor_await(struct hg_monitor *monitor);

static inline void hg_enter(struct hg_monitor *monitor)
{
    HG_ASSERT(!hg_is_inside(monitor));
    if (HG_UNLIKELY(atomic_exchange_explicit(
                        &monitor->held, 1, memory_order_acquire) != 0))
        hg_monitor_await(monitor);
    hg_monitor_own(monitor, true);
}

static inline void hg_leave(struct hg_monitor *monitor)
{
    hg_monitor_own(monitor, false);
    atomic_store_explicit(&monitor->held, 0, memory_order_release);
}

/* Enter or leave a second lock, which may be the same as the first one, which
 * is held. */
static inline void hg_enter_also(
    struct hg_monitor *monitor, const struct hg_monitor *held)
{
    if (monitor != held)
        hg_enter(monitor);
}

static inline void hg_leave_also(
    struct hg_monitor *monitor, const struct hg_monitor *held)
{
    if (monitor != held)
        hg_leave(monitor);
}

/* Enter; false: it takes too long. */
HG_PRIVATE bool hg_enter_try(struct hg_monitor *monitor);

/* Enter again after leaving briefly, once the threads that were waiting have
 * entered: a thread that re-entered at once would starve them. */
HG_PRIVATE void hg_reenter(struct hg_monitor *monitor);

/* Let waiting threads enter. For a thread that loops. */
HG_PRIVATE void hg_pass(struct hg_monitor *monitor);

/* Leave, sleep for a millisecond and enter again, for events that are too rare
 * to be signalled. False: a signal arrived. */
HG_PRIVATE bool hg_pause(struct hg_monitor *monitor);

/* ---- Sleeping and waking ---- */

struct hg_waker {
    _Atomic unsigned state; /* sleepers, and whether it was rung: see lock.c */
    int read_fd;            /* for poll; constant */
    int write_fd;           /* equal to read_fd with an eventfd; constant */
};

/* False, with errno: out of descriptors (not logged). */
HG_PRIVATE bool hg_waker_init(struct hg_waker *waker);

/* No sleeper is armed, and no thread rings it any more. */
HG_PRIVATE void hg_waker_fini(struct hg_waker *waker);

/* Announce that the caller is about to sleep; pairs with hg_waker_disarm. One
 * lock is held around both, the same for all sleepers. */
HG_PRIVATE void hg_waker_arm(struct hg_waker *waker);
HG_PRIVATE void hg_waker_disarm(struct hg_waker *waker);

/* Make the descriptor readable if anyone is armed. Any thread, under any lock,
 * and a signal handler that interrupts any of these functions. Keeps errno. */
HG_PRIVATE void hg_waker_ring(struct hg_waker *waker);

/* As hg_waker_ring without an atomic step, after a sequentially consistent
 * change that sleepers check sequentially consistently. */
static inline void hg_waker_ring_after(struct hg_waker *waker)
{
    if (HG_UNLIKELY(atomic_load(&waker->state) != 0))
        hg_waker_ring(waker);
}

#define HG_WAKER_FDS 4 /* maximum of additional descriptors of a sleep */

/* Sleep, armed, until the waker rings, one of the descriptors is readable or
 * broken, or `deadline` passes. HG_SUCCESS: something is readable; HG_TIMEOUT;
 * HG_INTR after a signal; HG_IO_ERROR (logged). */
HG_PRIVATE hg_return_t hg_waker_sleep(
    struct hg_waker *waker, const int *fds, unsigned count, uint64_t deadline);

#endif
