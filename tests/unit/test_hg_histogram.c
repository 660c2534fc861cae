/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histograms: the bucket of a latency, and percentiles.
 */
#include "support/library.h"

#include "harness.h"

static struct hg_histogram histogram_new(void)
{
    struct hg_histogram histogram;

    memset(&histogram, 0, sizeof(histogram));
    histogram.size = sizeof(histogram);
    return histogram;
}

HG_TEST(histogram_has_a_bucket_for_every_time)
{
    struct hg_histogram histogram = histogram_new();
    unsigned i;

    HG_CHECK_EQ_U64(hg_watch_bucket(0), 0);
    HG_CHECK_EQ_U64(hg_watch_bucket(1), 0);
    for (i = 1; i < 64; i++) {
        uint64_t first = (uint64_t) 1 << i;
        unsigned want = i < HG_HISTOGRAM_BUCKETS ? i : HG_HISTOGRAM_BUCKETS - 1;

        HG_CHECK_EQ_U64(hg_watch_bucket(first), want);
        HG_CHECK_EQ_U64(hg_watch_bucket(first + (first - 1)), want);
        HG_CHECK_OK(HG_Histogram_add(&histogram, first));
    }
    HG_CHECK_EQ_U64(histogram.count, 63);
    HG_CHECK_EQ_U64(histogram.sum_ns, UINT64_MAX - 1);
    HG_CHECK_EQ_U64(histogram.min_ns, 2);
    HG_CHECK_EQ_U64(histogram.max_ns, (uint64_t) 1 << 63);
    HG_CHECK_EQ_U64(histogram.bucket[0], 0);
    HG_CHECK_EQ_U64(histogram.bucket[1], 1);
    HG_CHECK_EQ_U64(histogram.bucket[HG_HISTOGRAM_BUCKETS - 1], 25);
    HG_CHECK_EQ_U64(
        HG_Histogram_percentile(&histogram, 100), (uint64_t) 1 << 63);
}

HG_TEST(histogram_computes_percentiles)
{
    struct hg_histogram histogram = histogram_new();
    unsigned i;

    hg_test_expect_log("the histogram is NULL");
    HG_CHECK_RET(HG_Histogram_add(NULL, 1), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(NULL, 50), 0);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 50), 0);
    for (i = 0; i < 98; i++)
        HG_CHECK_OK(HG_Histogram_add(&histogram, 1000)); /* 512 to 1,023 */
    HG_CHECK_OK(HG_Histogram_add(&histogram, 5000));
    HG_CHECK_OK(HG_Histogram_add(&histogram, 100000)); /* 65,536 to 131,071 */
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 0), 1023);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, -5), 1023);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 50), 1023);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 98), 1023);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 98.5), 8191);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 99), 8191);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 99.5), 100000);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 100), 100000);
    HG_CHECK_EQ_U64(HG_Histogram_percentile(&histogram, 200), 100000);
}
