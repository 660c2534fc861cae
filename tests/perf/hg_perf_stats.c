/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: medians of paired ratios, and their output.
 *
 * The speed of a machine can change by a factor of two within seconds. So a
 * ratio is never computed from two medians: each round gives one ratio of two
 * measurements next to each other in time, and the median of these ratios is
 * the result. The absolute medians are printed for orientation.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PERF_ROWS_MAX 48

/* A ratio that is so many times better than its target says that something kept
 * the base from running, such as other programs. */
#define PERF_TOO_GOOD 10

struct perf_row {
    struct perf_figure figure;
    const char *base_name; /* NULL: no ratio */
    double ours;
    double base;
    double quartiles[3]; /* of the ratios */
};

static struct perf_row perf_rows[PERF_ROWS_MAX];
static unsigned perf_row_count;

void perf_series_add(struct perf_series *series, double value)
{
    assert(series->count < PERF_ROUNDS_MAX);
    series->values[series->count++] = value;
}

static int perf_compare(const void *a, const void *b)
{
    const double x = *(const double *) a;
    const double y = *(const double *) b;

    return (x > y) - (x < y);
}

void perf_sort(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), perf_compare);
}

double perf_quantile(const double *sorted, unsigned count, double p)
{
    const double place = p * (double) (count - 1);
    const unsigned below = (unsigned) place;
    const double part = place - (double) below;

    assert(count > 0 && p >= 0 && p <= 1);
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

double perf_series_median(const struct perf_series *series)
{
    double sorted[PERF_ROUNDS_MAX];

    memcpy(sorted, series->values, series->count * sizeof(sorted[0]));
    perf_sort(sorted, series->count);
    return perf_quantile(sorted, series->count, 0.5);
}

static const char *perf_aim(const struct perf_row *row)
{
    const double low = row->figure.at_least;
    const double high = row->figure.at_most;
    const double ratio = row->quartiles[1];
    const double value = row->base_name != NULL ? ratio : row->ours;

    if (low <= 0 && high <= 0)
        return "none";
    if (row->base_name != NULL &&
        ((high > 0 && ratio < high / PERF_TOO_GOOD) ||
            (low > 0 && ratio > low * PERF_TOO_GOOD)))
        return "not_measured";
    return (high > 0 ? value <= high : value >= low) ? "met" : "missed";
}

/* "<= 1.15", or "-". */
static const char *perf_bound(
    const struct perf_figure *figure, char *buf, size_t size)
{
    if (figure->at_most > 0)
        (void) snprintf(buf, size, "<= %g", figure->at_most);
    else if (figure->at_least > 0)
        (void) snprintf(buf, size, ">= %g", figure->at_least);
    else
        (void) snprintf(buf, size, "-");
    return buf;
}

static void perf_add_row(const struct perf_row *row, unsigned rounds)
{
    assert(perf_row_count < PERF_ROWS_MAX);
    perf_rows[perf_row_count++] = *row;
    printf("hg_perf figure=%s ours=%.4g unit=%s rounds=%u", row->figure.name,
        row->ours, row->figure.unit, rounds);
    if (row->base_name != NULL)
        printf(" base=%.4g base_is=%s ratio=%.3f q1=%.3f q3=%.3f", row->base,
            row->base_name, row->quartiles[1], row->quartiles[0],
            row->quartiles[2]);
    if (row->figure.at_most > 0)
        printf(" at_most=%g", row->figure.at_most);
    if (row->figure.at_least > 0)
        printf(" at_least=%g", row->figure.at_least);
    printf(" aim=%s\n", perf_aim(row));
    fflush(stdout);
}

static double perf_in_unit(const struct perf_figure *figure, double value)
{
    return figure->inverse ? figure->scale / value : figure->scale * value;
}

void perf_report(const struct perf_figure *figure,
    const struct perf_series *ours, const struct perf_series *base)
{
    struct perf_row row;
    double ratios[PERF_ROUNDS_MAX];
    unsigned i;

    memset(&row, 0, sizeof(row));
    row.figure = *figure;
    row.ours = perf_in_unit(figure, perf_series_median(ours));
    if (base == NULL) { /* the targets are for the ratio */
        row.figure.at_most = 0;
        row.figure.at_least = 0;
    } else {
        assert(base->count == ours->count);
        row.base_name = base->name;
        row.base = perf_in_unit(figure, perf_series_median(base));
        for (i = 0; i < ours->count; i++)
            ratios[i] = perf_in_unit(figure, ours->values[i]) /
                perf_in_unit(figure, base->values[i]);
        perf_sort(ratios, ours->count);
        for (i = 0; i < 3; i++)
            row.quartiles[i] =
                perf_quantile(ratios, ours->count, 0.25 * (i + 1));
    }
    perf_add_row(&row, ours->count);
}

void perf_report_value(const struct perf_figure *figure, double value)
{
    struct perf_row row;

    memset(&row, 0, sizeof(row));
    row.figure = *figure;
    row.ours = value;
    perf_add_row(&row, 1);
}

int perf_print_table(void)
{
    char bound[32];
    unsigned i;

    if (perf_row_count == 0)
        return -1;
    printf("\n%-22s %12s %12s %-7s %7s  %-15s %-8s %-6s %s\n", "figure", "hg",
        "other", "unit", "ratio", "quartiles", "target", "", "other is");
    for (i = 0; i < perf_row_count; i++) {
        const struct perf_row *row = &perf_rows[i];

        printf("%-22s %12.4g ", row->figure.name, row->ours);
        if (row->base_name != NULL)
            printf("%12.4g %-7s %7.3f  %6.3f – %6.3f %-8s %-6s %s\n", row->base,
                row->figure.unit, row->quartiles[1], row->quartiles[0],
                row->quartiles[2],
                perf_bound(&row->figure, bound, sizeof(bound)), perf_aim(row),
                row->base_name);
        else
            printf("%12s %-7s %7s  %-15s %-8s %s\n", "", row->figure.unit, "",
                "", perf_bound(&row->figure, bound, sizeof(bound)),
                perf_aim(row));
    }
    return 0;
}
