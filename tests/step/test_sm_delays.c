/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delays at every step of the transport sm: in a race of wakeups both sides
 * delay at random wherever the other side could see a difference, and no wakeup
 * is lost. Each race prints its seed.
 */
#include "step.h"

#include "support/sm_wake.h"

#include <time.h>

#define DELAYS_NAP 50000 /* ns, at most */
#define DELAYS_SPIN 8000u

static _Atomic uint64_t delays_seed; /* for the next thread */
static _Thread_local uint64_t delays_random;

/* Mostly no delay, now and then a spin, a yield or a sleep. */
static void delays_delay(const char *function, unsigned line)
{
    uint64_t pick, until;

    (void) function;
    (void) line;
    if (delays_random == 0)
        delays_random = atomic_fetch_add(&delays_seed, 1);
    pick = hg_test_random(&delays_random);
    if (pick % 16 == 0) {
        until = hg_clock_now() + (pick >> 8) % DELAYS_SPIN;
        while (hg_clock_now() < until)
            hg_clock_relax();
    } else if (pick % 128 == 1) {
        (void) sched_yield();
    } else if (pick % 1024 == 3) {
        struct timespec nap = {0, (long) ((pick >> 10) % DELAYS_NAP)};

        (void) nanosleep(&nap, NULL);
    }
}

/* Each round has two wakeups, of which about half find a sleeper. */
static void delays_race(unsigned mode, bool by_fd, bool by_socket)
{
    const bool full = getenv("HG_TEST_FULL") != NULL;
    unsigned rounds = 1000;

    if (hg_test_is_plain())
        rounds = (full ? 1500000 : 30000) / (by_socket ? 4u : 1u);
    atomic_store(&delays_seed, hg_test_seed() | 1);
    step_hook = delays_delay;
    wake_race(mode, by_fd, by_socket, rounds);
    step_hook = NULL;
}

HG_TEST_SECONDS(sm_delays_lose_no_wakeup, 3600)
{
    delays_race(NA_WAIT_BLOCK, false, false);
}

HG_TEST_SECONDS(sm_delays_lose_no_wakeup_of_a_thread_that_spins_first, 3600)
{
    delays_race(NA_WAIT_ADAPTIVE, false, false);
}

HG_TEST_SECONDS(sm_delays_lose_no_wakeup_of_an_event_loop, 3600)
{
    delays_race(NA_WAIT_BLOCK, true, false);
}

HG_TEST_SECONDS(sm_delays_lose_no_wakeup_through_the_socket, 3600)
{
    delays_race(NA_WAIT_BLOCK, false, true);
}
