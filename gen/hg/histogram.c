/* SPDX-License-Identifier: BSD-3-Clause */
/* histogram: see histogram.h. */
#include "hg/histogram.h"

#include "base/log.h"

/* The bucket of a time: the place of its highest bit. */
static unsigned hg_histogram_bucket(uint64_t ns)
{
    unsigned bucket = 0;
    unsigned step;

    for (step = 32; step > 0; step /= 2) {
        if (ns >> step != 0) {
            ns >>= step;
            bucket += step;
        }
    }
    return bucket < HG_HISTOGRAM_BUCKETS ? bucket : HG_HISTOGRAM_BUCKETS - 1;
}

/* The longest time that a bucket stands for. */
static uint64_t hg_histogram_end(
    const struct hg_histogram *histogram, unsigned bucket)
{
    uint64_t end = ((uint64_t) 2 << bucket) - 1;

    assert(bucket < HG_HISTOGRAM_BUCKETS);
    return bucket == HG_HISTOGRAM_BUCKETS - 1 || end > histogram->max_ns
        ? histogram->max_ns
        : end;
}

hg_return_t HG_Histogram_add(struct hg_histogram *histogram, uint64_t ns)
{
    if (histogram == NULL) {
        hg_log_error("rpc", "HG_Histogram_add: the histogram is NULL");
        return HG_INVALID_ARG;
    }
    if (histogram->count == 0 || ns < histogram->min_ns)
        histogram->min_ns = ns;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
    histogram->count++;
    histogram->sum_ns += ns;
    histogram->bucket[hg_histogram_bucket(ns)]++;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_histogram_count(struct hg_histogram_live *live, uint64_t ns)
{
    uint64_t min = atomic_load_explicit(&live->min_ns, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&live->max_ns, memory_order_relaxed);

    while ((min == 0 || ns < min - 1) &&
        !atomic_compare_exchange_weak_explicit(&live->min_ns, &min, ns + 1,
            memory_order_relaxed, memory_order_relaxed)) {
    }
    while (ns > max &&
        !atomic_compare_exchange_weak_explicit(&live->max_ns, &max, ns,
            memory_order_relaxed, memory_order_relaxed)) {
    }
    atomic_fetch_add_explicit(&live->sum_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(
        &live->bucket[hg_histogram_bucket(ns)], 1, memory_order_relaxed);
}

HG_PRIVATE void hg_histogram_read(
    struct hg_histogram_live *live, struct hg_histogram *histogram_p)
{
    uint64_t min = atomic_load(&live->min_ns);
    unsigned i;

    histogram_p->count = 0;
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        histogram_p->bucket[i] = atomic_load(&live->bucket[i]);
        histogram_p->count += histogram_p->bucket[i];
    }
    histogram_p->sum_ns = atomic_load(&live->sum_ns);
    histogram_p->min_ns = min > 0 ? min - 1 : 0;
    histogram_p->max_ns = atomic_load(&live->max_ns);
}

uint64_t HG_Histogram_percentile(
    const struct hg_histogram *histogram, double percent)
{
    uint64_t passed = 0;
    double wanted;
    unsigned i;

    if (histogram == NULL || histogram->count == 0)
        return 0;
    wanted = percent / 100 * (double) histogram->count;
    for (i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        passed += histogram->bucket[i];
        if (passed > 0 && (double) passed >= wanted)
            return hg_histogram_end(histogram, i);
    }
    return histogram->max_ns; /* of more than 100 per cent */
}
