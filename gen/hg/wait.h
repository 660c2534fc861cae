/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: makes progress until a flag is up, and runs queued entries meanwhile.
 *
 * Any number of threads may wait. One of them makes progress for all, the
 * others sleep (na/progress.h). Callbacks and handlers run while another thread
 * may make progress. They may wait themselves, up to a maximum depth.
 *
 *     wait:  *done? --> HG_SUCCESS
 *            progress until *done, a lane has an entry, or the deadline
 *            run entries of the lanes; repeat
 *
 * A flag is an atomic bool of the caller; this module knows neither calls nor
 * transfers.
 *
 * Locking: the lock of the context's class guards the flags, and is held once
 * around hg_wait_until. It is released while the thread sleeps or runs handlers
 * and callbacks, and between two rounds of progress.
 */
#ifndef HG_GEN_HG_WAIT_H
#define HG_GEN_HG_WAIT_H

#include "hg/context.h"

/* Maximum number of nested handlers in one thread. */
#define HG_WAIT_DEPTH_MAX 16

/* Set a flag and wake the thread that waits for it. That thread may free the
 * flag when the lock, which is held, is released. */
HG_PRIVATE void hg_wait_raise(struct hg_context *context, _Atomic bool *done);

/* When a wait ends. A wait of `timeout` ms reads the clock when it first finds
 * nothing: `deadline` is set then, and `timeout` becomes 0. */
struct hg_wait_end {
    uint64_t deadline;
    unsigned timeout;
};

/* Wait until *done, or, with `done` NULL, for any event: an entry was run, the
 * flag of another wait was raised, or a call is queued, which the caller
 * executes. Entries of `lanes` are run meanwhile, calls one at a time.
 * HG_SUCCESS at once if *done is set. Otherwise after at least one round of
 * progress: HG_TIMEOUT (the time is over; both members 0: one round), HG_INTR
 * (a signal arrived while this thread slept) or HG_BUSY (logged: this thread is
 * inside progress). A wait may exceed its deadline by one handler, and its
 * `timeout` by one more, of the first round. */
HG_PRIVATE hg_return_t hg_wait_for(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, struct hg_wait_end *end);

/* As hg_wait_for, until `deadline`; 0: one round. */
HG_PRIVATE hg_return_t hg_wait_until(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline);

/* Wait until *done or `deadline`, as hg_wait_until; a signal does not end the
 * wait. The lock is not held. */
HG_PRIVATE void hg_wait_uninterrupted(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline);

/* Wait for any event, then execute queued calls, at most a batch. The lock is
 * not held, and is not taken after the last call. */
HG_PRIVATE hg_return_t hg_wait_serve(
    struct hg_context *context, struct hg_wait_end end);

/* The lanes of a wait that runs handlers unless this thread has too many nested
 * ones. */
HG_PRIVATE unsigned hg_wait_lanes(void);

/* The deadline of a wait of `timeout` ms. */
HG_PRIVATE uint64_t hg_wait_deadline(unsigned timeout);

/* Log that this thread makes progress and therefore cannot wait. Returns
 * HG_BUSY. */
HG_PRIVATE hg_return_t hg_wait_refuse(void);

/* Whether this thread runs an entry inside a wait. */
HG_PRIVATE bool hg_wait_in_handler(void);

/* In a child of fork: it is not inside the handler that forked. */
HG_PRIVATE void hg_wait_forget(void);

#endif
