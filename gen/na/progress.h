/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress: one turn of the wheel, and what to do between turns.
 *
 * A turn polls the transport, lets the emulation send, and runs the
 * library's own steps. Between turns with nothing to do a context stays awake
 * for a while (spinning, or yielding where the transport's threads need the
 * core), then arms its waker, looks once more, and sleeps on the waker and
 * the transport's descriptor.
 *
 * Locking: the lock of the class is held around these functions, once; others
 * get it between two turns, and while the thread sleeps. One thread at a time
 * has a context's progress role; who finds it taken waits as for an entry of
 * the queue. Whoever has a context of the library's own, with a role of its own
 * around progress, does without this one. One thread at a time is in poll, also
 * where that leaves the lock for a while.
 */
#ifndef HG_GEN_NA_PROGRESS_H
#define HG_GEN_NA_PROGRESS_H

#include "na/core.h"

/* Progress until one of `lanes` has an entry or somebody poked (NA_SUCCESS),
 * `deadline` passes (NA_TIMEOUT, after at least one turn) or a signal comes
 * (NA_INTR). */
HG_PRIVATE na_return_t na_progress(
    struct na_context *context, unsigned lanes, uint64_t deadline);

/* Progress until *done, which whoever sets it follows by na_progress_tell:
 * NA_SUCCESS, with or without a turn. Runs no entry but the library's own
 * steps. NA_TIMEOUT, NA_INTR. */
HG_PRIVATE na_return_t na_progress_until(
    struct na_context *context, const _Atomic bool *done, uint64_t deadline);
HG_PRIVATE void na_progress_tell(struct na_context *context);

/* As na_progress for one of the library's own contexts, where the caller's role
 * keeps others away. */
HG_PRIVATE na_return_t na_progress_alone(
    struct na_context *context, unsigned lanes, uint64_t deadline);

/* Make the thread that progresses a context, or the next one that does,
 * return soon. */
HG_PRIVATE void na_progress_poke(struct na_context *context);

/* Whether an application that sleeps on the descriptor of NA_Poll_get_fd will
 * be told of whatever there is to do, until progress is made; and, asked after
 * that, whether it will be at `when`, or when emulation is due, if that is
 * sooner. False: there is something now. */
HG_PRIVATE bool na_progress_arm(struct na_context *context);
HG_PRIVATE bool na_progress_set_alarm(
    struct na_context *context, uint64_t when);

/* One descriptor for two, readable when either is; -1: none was to be had
 * (logged), or the system has nothing of the kind. */
HG_PRIVATE int na_progress_join_fds(int first, int second);

/* Wake every context of a class that sleeps: core->wake. */
HG_PRIVATE void na_progress_wake(struct na_class *na_class);

#endif
