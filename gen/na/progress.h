/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress: polls the transport, and waits between polls.
 *
 * A round of progress polls the transport, lets the emulation send, and runs
 * the library's own steps. A thread that finds nothing spins for a time, the
 * window, then sleeps on the waker of the queue and the descriptor of the
 * transport:
 *
 * - The window is 0 with NA_WAIT_BLOCK and infinite with NA_WAIT_SPIN.
 *   Otherwise it adapts to the time between the first idle round and the next
 *   event: it becomes `spin_us` if that time was at most `spin_us`, else half
 *   of its previous value.
 * - A spinning thread reads the clock every NA_PROGRESS_LOOK idle rounds, and
 *   after NA_PROGRESS_PATIENCE it then yields the processor each time. If
 *   another thread ran meanwhile, it yields after every round, until a yield
 *   returns at once. If that took much longer than `spin_us`, other threads
 *   need the processor, and the window is 0 for a while.
 *
 * Locking: the lock of the class is held around these functions. It is
 * released between two rounds and while the thread sleeps. One thread at a time
 * makes progress in a context, and one at a time polls a class. Other threads
 * sleep. An entry wakes one thread that waits for its lane, a flag wakes the
 * threads that wait for it. When the thread that makes progress returns, it
 * wakes one to take over.
 */
#ifndef HG_GEN_NA_PROGRESS_H
#define HG_GEN_NA_PROGRESS_H

#include "na/core.h"

/* Make progress until one of `lanes` has an entry, *done is set
 * (na_queue_raise; `done` may be NULL) or na_progress_poke is called
 * (NA_SUCCESS), `deadline` passes (NA_TIMEOUT, after at least one round) or a
 * signal arrives (NA_INTR). */
HG_PRIVATE na_return_t na_progress(struct na_context *context, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline);

/* Make all threads return that are in na_progress of a context. The lock is
 * held. */
HG_PRIVATE void na_progress_poke(struct na_context *context);

/* As na_progress_poke, from a signal handler: the next round does it. */
HG_PRIVATE void na_progress_ask(struct na_context *context);

/* Prepare for the application to sleep on the descriptor of NA_Poll_get_fd():
 * it becomes readable when there is work, at `when`, or when the emulation is
 * due, until the next progress. False: there is work now. The lock is held. */
HG_PRIVATE bool na_progress_arm(struct na_context *context, uint64_t when);

/* The application no longer sleeps on that descriptor. */
HG_PRIVATE void na_progress_disarm(struct na_context_core *context);

/* core->wake: wake all sleeping contexts of a class. */
HG_PRIVATE void na_progress_wake(struct na_class *na_class);

#endif
