/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock: monotonic time in nanoseconds, and random numbers.
 *
 * Only this module reads the time. A deadline is an absolute time of this
 * clock; HG_CLOCK_NEVER is later than any.
 */
#ifndef HG_GEN_BASE_CLOCK_H
#define HG_GEN_BASE_CLOCK_H

#include "base/os.h"

#define HG_CLOCK_NEVER UINT64_MAX
#define HG_CLOCK_MS 1000000u

/* The current time. Any thread. */
HG_PRIVATE uint64_t hg_clock_now(void);

/* Whether a deadline has passed; cheap if it is far away. */
HG_PRIVATE bool hg_clock_is_past(uint64_t deadline);

/* Now plus `ms` milliseconds, saturating at HG_CLOCK_NEVER. */
HG_PRIVATE uint64_t hg_clock_after_ms(unsigned ms);

/* Milliseconds until `deadline`, rounded up, for poll(2); 0 if it has passed;
 * at most INT_MAX, also for HG_CLOCK_NEVER. */
HG_PRIVATE int hg_clock_ms_until(uint64_t deadline);

/* 64 unpredictable random bits, not 0. 0, logged: the system refuses to provide
 * them. */
HG_PRIVATE uint64_t hg_clock_random(void);

/* ---- Ages ----
 *
 * The age of an event, for texts. Recording the event only reads a counter of
 * the processor, whose frequency is unknown. A pair of both clocks, read at the
 * start, gives the age on request. */

struct hg_clock_pair {
    uint64_t ns;
    uint64_t ticks;
};

static inline uint64_t hg_clock_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return hg_clock_now();
#endif
}

HG_PRIVATE void hg_clock_pair_init(struct hg_clock_pair *pair);

/* How many ns ago `ticks` was read; 0 if the counters of two processors
 * disagree. */
HG_PRIVATE uint64_t hg_clock_age(
    const struct hg_clock_pair *pair, uint64_t ticks);

/* Tell the processor that this thread spins. */
static inline void hg_clock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
