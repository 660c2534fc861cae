/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: transports that wrap other transports.
 *
 * Each wraps the table of another one, found in a unit test that includes hg.c,
 * and is registered under its own name with NA_Register_plugin. The first
 * injects faults, from a printed seed; the second records which slots are
 * called. Only one wrapped table of each kind at a time.
 */
#ifndef HG_TESTS_FAULTS_H
#define HG_TESTS_FAULTS_H

#include <stddef.h>
#include <stdint.h>

struct na_plugin;

/* Rates, per 1,000 messages or frames. All zero: no faults. */
struct hg_test_faults {
    unsigned drop;  /* it is lost */
    unsigned delay; /* it is sent in a later poll, in order */
    /* It may overtake messages of another plane or tag; never frames. */
    unsigned reorder;
    unsigned duplicate; /* it arrives twice */
    unsigned cut;       /* its end is missing */
    unsigned again;     /* refused with NA_AGAIN, once */
    unsigned refuse;    /* refused with NA_DISCONNECT */
    unsigned kill;      /* its destination dies */
};

/* The faults injected so far. */
struct hg_test_faults_count {
    uint64_t passed, dropped, delayed, reordered, duplicated, cut, again,
        refused, killed;
};

/* A table that wraps `inner`, which is borrowed like `name`. The rates are read
 * at each step: they may be changed at any time. */
const struct na_plugin *hg_test_faults_wrap(const struct na_plugin *inner,
    const char *name, uint64_t seed, const struct hg_test_faults *rates);

struct hg_test_faults_count hg_test_faults_counts(void);

/* A table that records every call of a slot except poll. */
const struct na_plugin *hg_test_trace_wrap(
    const struct na_plugin *inner, const char *name);

/* The names of the slots called since the last time, with a space after each;
 * valid until the next call. */
const char *hg_test_trace_take(void);

#endif
