/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock: monotonic time in nanoseconds, and random numbers.
 *
 * Deadlines saturate: adding to a deadline never wraps into the past. Each
 * random number comes from the kernel: random numbers become keys and
 * incarnations, which must not be predictable and must not repeat in a child of
 * fork. None is drawn on a frequent path.
 *
 * Locking: none; stateless.
 */
#include "base/clock.h"

#include "base/log.h"

/* Twice the largest lag of the cheap clock, on a system with 100 ticks a
 * second. */
#define HG_CLOCK_LAG (20u * HG_CLOCK_MS)

static uint64_t hg_clock_read(clockid_t clock)
{
    struct timespec now;
    int rc = clock_gettime(clock, &now);

    HG_ASSERT(rc == 0);
    (void) rc;
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

HG_PRIVATE uint64_t hg_clock_now(void)
{
    return hg_clock_read(CLOCK_MONOTONIC);
}

/* Both clocks are read again if the thread was preempted in between. */
HG_PRIVATE void hg_clock_pair_init(struct hg_clock_pair *pair)
{
    unsigned tries = 0;

    do {
        pair->ns = hg_clock_now();
        pair->ticks = hg_clock_ticks();
    } while (hg_clock_now() - pair->ns > HG_CLOCK_MS / 50 && ++tries < 10);
}

HG_PRIVATE uint64_t hg_clock_age(
    const struct hg_clock_pair *pair, uint64_t ticks)
{
    struct hg_clock_pair now;

    hg_clock_pair_init(&now);
    if (now.ticks <= ticks || now.ticks <= pair->ticks)
        return 0;
    return (uint64_t) ((double) (now.ticks - ticks) /
        (double) (now.ticks - pair->ticks) * (double) (now.ns - pair->ns));
}

/* A cheaper clock, where there is one; it lags by up to one tick of the
 * system. */
HG_PRIVATE bool hg_clock_is_past(uint64_t deadline)
{
    uint64_t lately;

    if (deadline == HG_CLOCK_NEVER)
        return false;
#ifdef CLOCK_MONOTONIC_COARSE
    lately = hg_clock_read(CLOCK_MONOTONIC_COARSE);
    if (lately >= deadline)
        return true;
    if (deadline - lately > HG_CLOCK_LAG)
        return false;
#endif
    lately = hg_clock_now();
    return lately >= deadline;
}

HG_PRIVATE uint64_t hg_clock_after_ms(unsigned ms)
{
    uint64_t now = hg_clock_now();
    uint64_t delay = (uint64_t) ms * HG_CLOCK_MS;

    return delay < HG_CLOCK_NEVER - now ? now + delay : HG_CLOCK_NEVER;
}

HG_PRIVATE int hg_clock_ms_until(uint64_t deadline)
{
    uint64_t now;
    uint64_t ms;

    if (deadline == HG_CLOCK_NEVER)
        return INT_MAX;
    now = hg_clock_now();
    if (deadline <= now)
        return 0;
    ms = (deadline - now - 1) / HG_CLOCK_MS + 1;
    return ms < INT_MAX ? (int) ms : INT_MAX;
}

/* ---- Random numbers ---- */

/* Ask the kernel. False: it is older than Linux 3.17, it is not Linux, or the
 * process may not call it. */
static bool hg_clock_ask(uint64_t *value)
{
#ifdef SYS_getrandom
    long got;

    do
        got = syscall(SYS_getrandom, value, sizeof(*value), 0);
    while (got < 0 && errno == EINTR);
    return got == (long) sizeof(*value);
#else
    (void) value;
    return false;
#endif
}

/* Read the device. A file at its place would give numbers that others know. */
static bool hg_clock_read_device(uint64_t *value)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    struct stat is;
    ssize_t got = -1;
    int error;

    if (fd < 0)
        return false;
    errno = ENODEV;
    if (fstat(fd, &is) == 0 && S_ISCHR(is.st_mode))
        do
            got = read(fd, value, sizeof(*value));
        while (got < 0 && errno == EINTR);
    error = errno;
    (void) close(fd);
    errno = error;
    return got == (ssize_t) sizeof(*value);
}

HG_PRIVATE uint64_t hg_clock_random(void)
{
    uint64_t value;

    do {
        if (!hg_clock_ask(&value) && !hg_clock_read_device(&value)) {
            hg_log_error("clock",
                "no random numbers: getrandom is refused, and /dev/urandom: "
                "%s; allow one of them",
                strerror(errno));
            return 0;
        }
    } while (value == 0);
    return value;
}
