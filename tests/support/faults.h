/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: transports around transports.
 *
 * Each wraps the table of another one, found in a unit test that includes
 * hg.c, and is registered under a name of its own with NA_Register_plugin. The
 * first spoils what passes, from a printed seed; the second writes down which
 * slots are called. One wrapped table of each kind at a time.
 */
#ifndef HG_TESTS_FAULTS_H
#define HG_TESTS_FAULTS_H

#include <stddef.h>
#include <stdint.h>

struct na_plugin;

/* How often, of 1,000 messages or frames. All zero: nothing is spoiled. */
struct hg_test_faults {
    unsigned drop;      /* it vanishes */
    unsigned delay;     /* it leaves in a later poll, order kept */
    unsigned reorder;   /* it may overtake what it need not follow: messages
                           of another plane or tag; never frames */
    unsigned duplicate; /* it comes twice */
    unsigned cut;       /* its end is missing */
    unsigned again;     /* refused with NA_AGAIN, once */
    unsigned refuse;    /* refused with NA_DISCONNECT */
    unsigned kill;      /* the address it goes to dies */
};

/* What was done so far. */
struct hg_test_faults_count {
    uint64_t passed, dropped, delayed, reordered, duplicated, cut, again,
        refused, killed;
};

/* A table with `inner` behind it, borrowed like `name`. The rates are read at
 * each step: change them as you go. */
const struct na_plugin *hg_test_faults_wrap(const struct na_plugin *inner,
    const char *name, uint64_t seed, const struct hg_test_faults *rates);

struct hg_test_faults_count hg_test_faults_counts(void);

/* A table that notes every call of a slot but poll's. */
const struct na_plugin *hg_test_trace_wrap(
    const struct na_plugin *inner, const char *name);

/* The names of the slots called since the last time, with a space after each;
 * valid until the next call. */
const char *hg_test_trace_take(void);

#endif
