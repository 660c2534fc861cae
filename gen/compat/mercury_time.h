/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of the monotonic clock, as a struct timespec. */
#ifndef HG_COMPAT_MERCURY_TIME_H
#define HG_COMPAT_MERCURY_TIME_H

#include "mercury_util_config.h"

#include <sched.h> /* struct timespec, also with -std=c99 */
#include <time.h>

typedef struct timespec hg_time_t;

#if HG_UTIL_DECLARE_POSIX
int clock_gettime(int clock, struct timespec *now);
int nanosleep(const struct timespec *time, struct timespec *left);
struct tm *localtime_r(const time_t *time, struct tm *day);
#endif

#ifdef CLOCK_MONOTONIC
#define HG_TIME_MONOTONIC CLOCK_MONOTONIC
#else
#define HG_TIME_MONOTONIC 1 /* Linux's number of the clock */
#endif

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE int hg_time_get_current(hg_time_t *tv)
{
    return clock_gettime(HG_TIME_MONOTONIC, tv) == 0 ? HG_UTIL_SUCCESS
                                                     : HG_UTIL_FAIL;
}

static HG_UTIL_INLINE int hg_time_get_current_ms(hg_time_t *tv)
{
#ifdef CLOCK_MONOTONIC_COARSE
    return clock_gettime(CLOCK_MONOTONIC_COARSE, tv) == 0 ? HG_UTIL_SUCCESS
                                                          : HG_UTIL_FAIL;
#else
    return hg_time_get_current(tv);
#endif
}

static HG_UTIL_INLINE double hg_time_to_double(hg_time_t tv)
{
    return (double) tv.tv_sec + (double) tv.tv_nsec / 1e9;
}

static HG_UTIL_INLINE hg_time_t hg_time_from_double(double seconds)
{
    hg_time_t tv;

    tv.tv_sec = (time_t) seconds;
    tv.tv_nsec = (long) ((seconds - (double) tv.tv_sec) * 1e9);
    return tv;
}

/* Rounded up, so that a wait of that time is not too short. */
static HG_UTIL_INLINE unsigned int hg_time_to_ms(hg_time_t tv)
{
    return (unsigned int) (tv.tv_sec * 1000 + (tv.tv_nsec + 999999) / 1000000);
}

static HG_UTIL_INLINE hg_time_t hg_time_from_ms(unsigned int ms)
{
    hg_time_t tv;

    tv.tv_sec = (time_t) (ms / 1000);
    tv.tv_nsec = (long) (ms % 1000) * 1000000;
    return tv;
}

static HG_UTIL_INLINE bool hg_time_less(hg_time_t in1, hg_time_t in2)
{
    return in1.tv_sec != in2.tv_sec ? in1.tv_sec < in2.tv_sec
                                    : in1.tv_nsec < in2.tv_nsec;
}

/* in2 - in1, in seconds. */
static HG_UTIL_INLINE double hg_time_diff(hg_time_t in2, hg_time_t in1)
{
    return hg_time_to_double(in2) - hg_time_to_double(in1);
}

static HG_UTIL_INLINE hg_time_t hg_time_add(hg_time_t in1, hg_time_t in2)
{
    in1.tv_sec += in2.tv_sec;
    in1.tv_nsec += in2.tv_nsec;
    if (in1.tv_nsec >= 1000000000) {
        in1.tv_nsec -= 1000000000;
        in1.tv_sec++;
    }
    return in1;
}

static HG_UTIL_INLINE hg_time_t hg_time_subtract(hg_time_t in1, hg_time_t in2)
{
    in1.tv_sec -= in2.tv_sec;
    in1.tv_nsec -= in2.tv_nsec;
    if (in1.tv_nsec < 0) {
        in1.tv_nsec += 1000000000;
        in1.tv_sec--;
    }
    return in1;
}

static HG_UTIL_INLINE int hg_time_sleep(const hg_time_t rqt)
{
    return nanosleep(&rqt, NULL) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

#define HG_UTIL_STAMP_MAX 128

/* Date and time of day; the string is valid in this thread until its next
 * call. */
static HG_UTIL_INLINE char *hg_time_stamp(void)
{
    static __thread char text[HG_UTIL_STAMP_MAX];
    time_t now = time(NULL);
    struct tm day;

    if (localtime_r(&now, &day) == NULL ||
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S %Z", &day) == 0)
        return NULL;
    return text;
}

#ifdef __cplusplus
}
#endif

#endif
