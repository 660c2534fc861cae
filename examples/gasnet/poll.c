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

#define POLL_YIELDS 200u /* polls without an event, before it sleeps */

/* Returns whether anything happened. `timeout_ms`: how long to sleep if not. */
static GASNET_HG_INLINE bool poll_once(unsigned timeout_ms)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    bool happened;

    gasnet_hg_enter(self);
    happened = gasnet_hg_progress(timeout_ms);
    gasnet_hg_leave(self);
    gasnet_hg_advance_barrier();
    return happened;
}

void gasnet_hg_poll(void)
{
    (void) poll_once(0);
}

int gasnet_AMPoll(void)
{
    if (!gasnet_hg.plain) {
        if (!gasnet_hg.attached)
            return GASNET_ERR_NOT_INIT;
        gasnet_hg_check_call("gasnet_AMPoll");
    }
    (void) poll_once(0);
    return GASNET_OK;
}

void gasnet_hg_wait(unsigned *tries)
{
    bool sleeps = *tries >= POLL_YIELDS;

    if (poll_once(sleeps ? 1 : 0))
        *tries = 0;
    else if (gasnet_hg.wait_mode != GASNET_WAIT_SPIN && !sleeps) {
        (void) sched_yield();
        ++*tries;
    }
}
