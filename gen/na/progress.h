/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress: polling the transport, and waiting between polls.
 *
 * A turn polls the transport, lets the emulation send, and runs the library's
 * own steps. A thread that finds nothing spins for a window of time, then
 * sleeps on the waker of the queue and the descriptor of the transport:
 *
 * - The window is 0 with NA_WAIT_BLOCK and has no end with NA_WAIT_SPIN. In
 *   between it adapts to the time from the first turn without news to the next
 *   one with news: `spin_us` if that was at most `spin_us`, else half of what
 *   it was.
 * - Every NA_PROGRESS_LOOK idle turns a spinner looks at the clock, and after
 *   NA_PROGRESS_PATIENCE it yields the processor each time. If another thread
 *   ran meanwhile, it yields after every turn, until a yield returns at once.
 *   If that took much longer than `spin_us`, others want the processor, and the
 *   window is 0 for a while.
 *
 * Locking: the lock of the class is held around these functions, once; others
 * get it between two turns, and while the thread sleeps. One thread at a time
 * makes progress on a context, and one at a time polls a class. Others sleep:
 * an entry wakes one thread that waits for its lane, a flag those that wait for
 * it, and the end of the role one that takes it over.
 */
#ifndef HG_GEN_NA_PROGRESS_H
#define HG_GEN_NA_PROGRESS_H

#include "na/core.h"

/* Progress until one of `lanes` has an entry, *done (na_queue_raise; `done` may
 * be NULL) or somebody pokes (NA_SUCCESS), `deadline` passes (NA_TIMEOUT, after
 * at least one turn) or a signal comes (NA_INTR). */
HG_PRIVATE na_return_t na_progress(struct na_context *context, unsigned lanes,
    const _Atomic bool *done, uint64_t deadline);

/* Make all threads that are in na_progress of a context return. Any thread,
 * with the lock or without. */
HG_PRIVATE void na_progress_poke(struct na_context *context);

/* Whether an application that sleeps on the descriptor of NA_Poll_get_fd is
 * woken for whatever there is to do, until progress is made, and at `when`, or
 * when emulation is due, if that is sooner. False: there is something now. The
 * lock is held. */
HG_PRIVATE bool na_progress_arm(struct na_context *context, uint64_t when);

/* The application slept on that descriptor, and does not any more. */
HG_PRIVATE void na_progress_disarm(struct na_context_core *context);

/* Wake every context of a class that sleeps: core->wake. */
HG_PRIVATE void na_progress_wake(struct na_class *na_class);

#endif
