/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: how long calls took, counted by powers of two.
 *
 * Adding is a few steps; a percentile is as exact as a bucket is wide, a factor
 * of two. There are two kinds: an application's own, plain numbers; and those
 * of a function's calls, to which any thread adds while others read.
 *
 * Invariants: the buckets sum up to the count; min <= max unless that is 0.
 * Locking: none. An application guards its own; a function's are atomics, which
 * who reads them meanwhile may find one call apart.
 */
#ifndef HG_GEN_HG_HISTOGRAM_H
#define HG_GEN_HG_HISTOGRAM_H

#include "base/os.h"

/* Of the calls to a function, or of those executed here. Begins as zeros. */
struct hg_histogram_live {
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t min_ns; /* the least, plus 1; 0: none yet */
    _Atomic uint64_t max_ns;
    _Atomic uint64_t bucket[HG_HISTOGRAM_BUCKETS];
};

/* Count one more. */
HG_PRIVATE void hg_histogram_count(struct hg_histogram_live *live, uint64_t ns);

/* What was counted; `size` is not set. */
HG_PRIVATE void hg_histogram_read(
    struct hg_histogram_live *live, struct hg_histogram *histogram_p);

#endif
