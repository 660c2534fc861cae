/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_alone: replaces the harness in a fuzzer, which has its own main: checks
 * that abort. Included by one file of a program.
 */
#ifndef HG_TESTS_FUZZ_ALONE_H
#define HG_TESTS_FUZZ_ALONE_H

#include "harness.h"

#include <stdarg.h>

void hg_test_at(const char *here)
{
    (void) here;
}

void hg_test_fail(const char *here, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", here);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void hg_test_eq_int(
    const char *here, const char *text, intmax_t got, intmax_t want)
{
    if (got != want)
        hg_test_fail(here, "%s is %jd, not %jd", text, got, want);
}

void hg_test_eq_u64(
    const char *here, const char *text, uint64_t got, uint64_t want)
{
    if (got != want)
        hg_test_fail(here, "%s is %" PRIu64 ", not %" PRIu64, text, got, want);
}

void hg_test_eq_mem(const char *here, const char *text, const void *got,
    const void *want, size_t size)
{
    if (memcmp(got, want, size) != 0)
        hg_test_fail(here, "%s differs", text);
}

void hg_test_eq_ret(const char *here, const char *text, int got, int want)
{
    if (got != want)
        hg_test_fail(here, "%s is %d, not %d", text, got, want);
}

#endif
