/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: how the threads of a process wait together.
 *
 * Waiting is progress until a flag is up. Any number of threads may wait. One
 * at a time has the driver's role and progresses; the others sleep, each until
 * its own flag is raised, and one of them takes the role over when the driver
 * leaves or runs a handler. Handlers run outside the role, so that a slow one
 * stops nobody's progress.
 *
 *     wait:  done? --yes--> result
 *            calls queued that may run here? --yes--> run one; done? --> result
 *            time up, having looked once? --yes--> HG_TIMEOUT
 *            role free? --yes--> progress unless something completed
 *                                already, run completions; again
 *            sleep until done, the role is free, or time is up; again
 *
 * A flag is an atomic bool of whoever waits; this room knows neither calls nor
 * transfers.
 *
 * Locking: the lock of the context's class guards all of it. It is held around
 * hg_wait_until, but free while the thread sleeps, while it runs handlers and
 * callbacks, and between two turns of progress.
 */
#ifndef HG_GEN_HG_WAIT_H
#define HG_GEN_HG_WAIT_H

#include "hg/context.h"

/* Handlers that may be running inside each other in one thread. */
#define HG_WAIT_DEPTH_MAX 16

/* Set a flag and wake the thread that waits for it, which may free the flag's
 * memory as soon as the flag is set. */
HG_PRIVATE void hg_wait_raise(
    const struct hg_context *context, _Atomic bool *done);

/* Wait until *done, or for any event when `done` is NULL; handlers run here if
 * `calls`. HG_SUCCESS, HG_TIMEOUT (`deadline` passed; 0 tests), HG_INTR (a
 * signal came while this thread slept) or HG_BUSY (logged: this thread drives,
 * and runs the proc or hook that waits). If *done is set already, it returns at
 * once. A test may run one handler before it polls and one after it; a wait
 * exceeds its time by one handler at most. `done` must stay valid until this
 * returns. The lock is held, once. */
HG_PRIVATE hg_return_t hg_wait_until(struct hg_context *context,
    const _Atomic bool *done, bool calls, uint64_t deadline);

/* When a wait of so many milliseconds ends, for hg_wait_until. */
HG_PRIVATE uint64_t hg_wait_deadline(unsigned timeout);

/* Whether it is time for a wait that could do without to look for news, so that
 * nobody's have to wait for longer than about a millisecond, or than the
 * application waits for nothing. `deadline` is hg_wait_deadline's. */
HG_PRIVATE bool hg_wait_wants_news(uint64_t deadline);

/* Whether this thread drives, so that it cannot wait; log that, HG_BUSY. */
HG_PRIVATE bool hg_wait_is_driver(void);
HG_PRIVATE hg_return_t hg_wait_refuse(void);

/* Whether any thread waits; the lock is held. */
HG_PRIVATE bool hg_wait_is_any(void);

/* Whether this thread runs a handler; whether it may run (one more). */
HG_PRIVATE bool hg_wait_in_handler(void);
HG_PRIVATE bool hg_wait_may_run(void);

/* A call is queued that this thread is too deep to run, in either model: who
 * waits for it, if nobody else runs it, waits for ever. So the log tells: of
 * the first wait like that, and when there are twice as many. */
HG_PRIVATE void hg_wait_tell_depth(void);

#endif
