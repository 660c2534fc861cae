/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdicts of hg_perf. */
#include "harness.h"
#include "support/library.h"

#include "../perf/hg_perf_stats.c"

/* The verdict on rounds that took `ours` and `base` seconds. */
static const char *stats_verdict(
    double ours, double base, int inverse, double at_most, double at_least)
{
    const struct perf_figure figure = {
        "name", "unit", 1, inverse, at_most, at_least};
    struct perf_series mine = {"mine", 0, {0}};
    struct perf_series other = {"other", 0, {0}};
    int i;

    for (i = 0; i < 5; i++) {
        perf_series_add(&mine, ours);
        perf_series_add(&other, base);
    }
    perf_report(&figure, &mine, base > 0 ? &other : NULL);
    return perf_aim(&perf_rows[perf_row_count - 1]);
}

HG_TEST(perf_target_is_met_only_with_a_base)
{
    HG_CHECK_EQ_STR(stats_verdict(1.1, 1, 0, 1.15, 0), "met");
    HG_CHECK_EQ_STR(stats_verdict(1.2, 1, 0, 1.15, 0), "missed");
    HG_CHECK_EQ_STR(stats_verdict(1000, 1, 0, 1.15, 0), "missed");
    HG_CHECK_EQ_STR(stats_verdict(0.2, 1, 0, 1.15, 0), "met");
    HG_CHECK_EQ_STR(stats_verdict(0.001, 1, 0, 1.15, 0), "not_measured");
    HG_CHECK_EQ_STR(stats_verdict(1, 0.95, 1, 0, 0.9), "met");
    HG_CHECK_EQ_STR(stats_verdict(1, 0.8, 1, 0, 0.9), "missed");
    HG_CHECK_EQ_STR(stats_verdict(1, 0.001, 1, 0, 0.9), "missed");
    HG_CHECK_EQ_STR(stats_verdict(1, 1000, 1, 0, 0.9), "not_measured");
    HG_CHECK_EQ_STR(stats_verdict(1, 1000, 1, 0, 0), "none");
    HG_CHECK_EQ_STR(stats_verdict(1, 0, 0, 1.15, 0), "none");
}

/* The value of a figure without a base may be as small as it likes. */
HG_TEST(perf_value_needs_no_base)
{
    const struct perf_figure figure = {"late", "ms", 1, 0, 100, 0};

    perf_report_value(&figure, 0.001);
    HG_CHECK_EQ_STR(perf_aim(&perf_rows[0]), "met");
    perf_report_value(&figure, 101);
    HG_CHECK_EQ_STR(perf_aim(&perf_rows[1]), "missed");
    HG_CHECK_EQ_INT(perf_print_table(), 0);
}
