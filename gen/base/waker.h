/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waker: how a thread that sleeps on a descriptor hears of a change made by
 * another thread.
 *
 * The protocol loses no wake-up: the sleeper arms the waker, THEN looks once
 * more at what it waits for, and sleeps only if there is still nothing; who
 * changes something makes the change visible, THEN calls hg_waker_ring. Both
 * read and modify `armed` in one step, so of the two the later sees what the
 * earlier did before. While nobody is armed, ringing is this one atomic
 * operation: no lock, no system call. It is not even that where change and look
 * are sequentially consistent themselves: all agree on the order of the four.
 *
 * The descriptor (an eventfd, or the reading end of a pipe) stays readable
 * from a ring until the last armed sleeper disarms, so that several threads,
 * or an event loop of the application, may sleep on it together.
 *
 * Who waits under a mutex of its room's takes a nap instead: it sleeps on a
 * waker of its own, so that one can be woken and not all, and, unlike on a
 * condition variable, a signal ends its sleep.
 *
 * Locking: `armed` is an atomic. Writing to the descriptor and draining it
 * must not overlap, and have a private mutex, a leaf, held for one system
 * call; a ring takes it only while somebody is armed.
 */
#ifndef HG_GEN_BASE_WAKER_H
#define HG_GEN_BASE_WAKER_H

#include "base/list.h"
#include "base/lock.h"

struct hg_waker {
    _Atomic uint32_t armed; /* sleepers, or threads about to sleep */
    pthread_mutex_t mutex;
    bool rung;    /* the descriptor is readable; guard: mutex */
    int read_fd;  /* for poll; constant */
    int write_fd; /* the same as read_fd with an eventfd; constant */
};

/* HG_NOMEM, or HG_AGAIN when descriptors ran out (logged). */
HG_PRIVATE hg_return_t hg_waker_init(struct hg_waker *waker);

/* Nobody is armed, and nobody rings any more. */
HG_PRIVATE void hg_waker_fini(struct hg_waker *waker);

/* Announce that the caller is about to sleep; pairs with hg_waker_disarm. */
HG_PRIVATE void hg_waker_arm(struct hg_waker *waker);
HG_PRIVATE void hg_waker_disarm(struct hg_waker *waker);

/* Make the descriptor readable if anyone is armed. Any thread, under any
 * lock; not from a signal handler. Keeps errno. */
HG_PRIVATE void hg_waker_ring(struct hg_waker *waker);

/* The same without an atomic step of its own, after a change that was a
 * sequentially consistent one, which sleepers look for in the same way. */
static inline void hg_waker_ring_after(struct hg_waker *waker)
{
    if (HG_UNLIKELY(atomic_load(&waker->armed) != 0))
        hg_waker_ring(waker);
}

/* Sleep, armed, until the waker rings, `fd` (-1: none) is readable or broken,
 * or `deadline` passes. HG_SUCCESS: something is readable; HG_TIMEOUT; HG_INTR
 * after a signal; HG_IO_ERROR (logged). */
HG_PRIVATE hg_return_t hg_waker_sleep(
    struct hg_waker *waker, int fd, uint64_t deadline);

/* A thread that sleeps; on a list of its room's meanwhile. */
struct hg_nap {
    struct na_link link; /* guard: the room's mutex */
    struct hg_waker waker;
};

/* Sleep on the list `naps` until woken (HG_SUCCESS, also for no reason), until
 * `deadline` (HG_TIMEOUT) or a signal (HG_INTR). The monitor, which guards the
 * list and is held, is free meanwhile. Where descriptors ran out the nap is on
 * no list, and ends after a millisecond. */
HG_PRIVATE hg_return_t hg_waker_nap(struct hg_nap *nap, struct na_link *naps,
    struct hg_monitor *monitor, uint64_t deadline);

/* Wake one that sleeps on a list; the list's mutex is held. */
static inline void hg_waker_wake(struct hg_nap *nap)
{
    hg_waker_ring(&nap->waker);
}

#endif
