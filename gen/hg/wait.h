/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: progress until a flag is up, and run what the queue has meanwhile.
 *
 * Any number of threads may wait. One of them makes progress for all, the
 * others sleep (na/progress.h). Callbacks and handlers run while another thread
 * may make progress. They may wait in turn, up to a depth.
 *
 *     wait:  *done? --> HG_SUCCESS
 *            progress until *done, a lane has an entry, or time is up
 *            run entries of the lanes; again
 *
 * A flag is an atomic bool of whoever waits; this module knows neither calls
 * nor transfers.
 *
 * Locking: the lock of the context's class guards the flags, and is held around
 * hg_wait_until, once. It is free while the thread sleeps, while it runs
 * handlers and callbacks, and between two turns of progress.
 */
#ifndef HG_GEN_HG_WAIT_H
#define HG_GEN_HG_WAIT_H

#include "hg/context.h"

/* Handlers that may be running inside each other in one thread. */
#define HG_WAIT_DEPTH_MAX 16

/* Set a flag and wake the thread that waits for it, which may free the flag's
 * memory as soon as the flag is set. */
HG_PRIVATE void hg_wait_raise(struct hg_context *context, _Atomic bool *done);

/* Wait until *done, or for any event when `done` is NULL: an entry was run, or
 * a flag of another wait was raised, or a call is to be executed, which the
 * caller does. `lanes` are run meanwhile, of calls one at
 * a time. HG_SUCCESS, at once if *done is set already; else after one turn of
 * progress at least: HG_TIMEOUT (`deadline` passed; 0 tests), HG_INTR (a signal
 * came while this thread slept) or HG_BUSY (logged: this thread makes progress,
 * and runs code that waits). A wait exceeds its time by one handler at
 * most. */
HG_PRIVATE hg_return_t hg_wait_until(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline);

/* Wait for any event, and execute the calls that are there then, a batch at
 * most. The lock is not held. After the last call it is not taken again. */
HG_PRIVATE hg_return_t hg_wait_serve(
    struct hg_context *context, uint64_t deadline);

/* What a wait runs that may run handlers if the thread is not too deep. */
HG_PRIVATE unsigned hg_wait_lanes(void);

/* When a wait of so many milliseconds ends. */
HG_PRIVATE uint64_t hg_wait_deadline(unsigned timeout);

/* Log that this thread makes progress, so that it cannot wait: HG_BUSY. */
HG_PRIVATE hg_return_t hg_wait_refuse(void);

/* Whether this thread runs an entry inside a wait. */
HG_PRIVATE bool hg_wait_in_handler(void);

#endif
