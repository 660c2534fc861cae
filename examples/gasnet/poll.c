/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll: progress, and waiting.
 *
 * A thread that waits polls. How it does so is the wait mode of the node: with
 * GASNET_WAIT_SPIN without a pause; else it yields the processor after each
 * poll without an event, and sleeps in NA if none comes for long. A peer on
 * this host writes to memory without a message, so it sleeps for a millisecond
 * at a time.
 */
#include "gasnet_hg.h"

#include <sched.h>

#define POLL_BURST 16u   /* callbacks of one poll */
#define POLL_YIELDS 200u /* polls without an event, before it sleeps */

/* Returns whether anything happened. `timeout_ms`: how long to sleep if not. */
static inline bool poll_once(unsigned timeout_ms)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    unsigned count = 0;

    gasnet_hg_enter(self);
    if (NA_Progress(gasnet_hg.boot.na_class, gasnet_hg.boot.context,
            timeout_ms) == NA_SUCCESS)
        (void) NA_Trigger(gasnet_hg.boot.context, 0, POLL_BURST, &count);
    gasnet_hg_leave(self);
    if (atomic_load_explicit(&gasnet_hg_barrier_active, memory_order_relaxed))
        gasnet_hg_barrier_kick();
    return count > 0;
}

void gasnet_hg_poll(void)
{
    (void) poll_once(0);
}

int gasnet_AMPoll(void)
{
    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (gasnet_hg.checked)
        gasnet_hg_check_call("gasnet_AMPoll");
    gasnet_hg_poll();
    return GASNET_OK;
}

void gasnet_hg_wait(unsigned *tries)
{
    bool sleeps = *tries >= POLL_YIELDS;

    if (poll_once(sleeps ? 1 : 0)) {
        *tries = 0;
        return;
    }
    if (gasnet_hg.wait_mode == GASNET_WAIT_SPIN)
        return;
    if (!sleeps) {
        (void) sched_yield();
        ++*tries;
    }
}
