/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: the figures of every transport, at the client, and the comparison
 * with the bare program of ZeroMQ. All its waiting modes are measured; the one
 * with the best median is compared with ours.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HG_NA_ZMQ
#include "raw_zmq.h"
#endif
#if PERF_RAW_SM
#include "raw_sm.h"
#endif

#define PERF_RAW_FRAME ((size_t) 1 << 20)
#define PERF_RAW_WINDOW 8

#if HG_NA_ZMQ
/* Not spinning: it takes the processor from libzmq's thread and was never the
 * best mode. */
static const enum raw_zmq_wait perf_raw_waits[] = {
    RAW_ZMQ_BLOCK, RAW_ZMQ_YIELD, RAW_ZMQ_FOLLOW};

#define PERF_RAW_WAITS 3

static int perf_run_raw(struct perf_client *client, void *arg, double *per_op_p)
{
    struct raw_zmq_result result;

    if (raw_zmq_run(client->raw, (const struct raw_zmq_round *) arg, &result) !=
        0)
        return -1;
    *per_op_p = result.seconds / (double) result.ops;
    return 0;
}

/* Compare ours, prepared by the caller, with the bare program. */
static int perf_against_raw(struct perf_client *client,
    const struct perf_figure *figure, struct perf_contestant *contestants,
    const struct raw_zmq_round *round)
{
    static struct raw_zmq_round rounds[PERF_RAW_WAITS];
    const struct perf_series *best;
    unsigned i;

    for (i = 0; i < PERF_RAW_WAITS; i++) {
        rounds[i] = *round;
        rounds[i].wait = perf_raw_waits[i];
        contestants[i + 1].series.name = raw_zmq_wait_name(rounds[i].wait);
        contestants[i + 1].run = perf_run_raw;
        contestants[i + 1].arg = &rounds[i];
    }
    if (perf_contest(client, contestants, PERF_RAW_WAITS + 1) != 0)
        return -1;
    best = &contestants[1].series;
    for (i = 1; i < PERF_RAW_WAITS; i++) {
        if (perf_series_median(&contestants[i + 1].series) <
            perf_series_median(best))
            best = &contestants[i + 1].series;
    }
    perf_report(figure, &contestants[0].series, best);
    return 0;
}
#endif

/* ---- Echo ---- */

static int perf_figure_echo(struct perf_client *client, unsigned window,
    const struct perf_figure *figure)
{
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];

    memset(contestants, 0, sizeof(contestants));
    contestants[0].run = perf_run_echo;
    contestants[0].arg = &window;
#if HG_NA_ZMQ
    if (client->raw != NULL) {
        struct raw_zmq_round round;

        memset(&round, 0, sizeof(round));
        round.kind = RAW_ZMQ_ECHO;
        round.size = 64;
        round.window = window;
        round.seconds = client->options->seconds;
        return perf_against_raw(client, figure, contestants, &round);
    }
#endif
#if PERF_RAW_SM
    if (client->raw_sm != NULL)
        return perf_node_echo(client, figure, contestants, 64, window);
#endif
#if HG_NA_OFI
    if (client->raw_ofi != NULL)
        return perf_ofi_echo(client, figure, contestants, 64, window);
#endif
#if HG_NA_MPI
    if (client->raw_mpi != NULL)
        return perf_mpi_echo(client, figure, contestants, 64, window);
#endif
    if (perf_contest(client, contestants, 1) != 0)
        return -1;
    perf_report(figure, &contestants[0].series, NULL);
    return 0;
}

static int perf_figure_page(struct perf_client *client,
    struct perf_pages *pages, const struct perf_figure *figure)
{
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];

    memset(contestants, 0, sizeof(contestants));
    contestants[0].run = perf_run_page;
    contestants[0].arg = pages;
#if HG_NA_ZMQ
    if (client->raw != NULL) {
        struct raw_zmq_round round;

        memset(&round, 0, sizeof(round));
        round.kind = RAW_ZMQ_ECHO;
        round.size = pages->size;
        round.window = pages->window;
        round.seconds = client->options->seconds;
        return perf_against_raw(client, figure, contestants, &round);
    }
#endif
#if PERF_RAW_SM
    if (client->raw_sm != NULL && pages->size <= RAW_SM_SIZE_MAX)
        return perf_node_echo(
            client, figure, contestants, pages->size, pages->window);
#endif
#if HG_NA_OFI
    if (client->raw_ofi != NULL)
        return perf_ofi_echo(
            client, figure, contestants, pages->size, pages->window);
#endif
#if HG_NA_MPI
    if (client->raw_mpi != NULL)
        return perf_mpi_echo(
            client, figure, contestants, pages->size, pages->window);
#endif
    if (perf_contest(client, contestants, 1) != 0)
        return -1;
    perf_report(figure, &contestants[0].series, NULL);
    return 0;
}

/* Echoes of all sizes with few and many calls in flight, and how often the
 * calling thread slept. The times should grow smoothly with the size. */
static int perf_figure_grid(struct perf_client *client)
{
    static const struct {
        size_t size;
        const char *names[3];
        const char *sleeps;
    } rows[] = {{64, {"grid_64_1", "grid_64_8", "grid_64_64"}, "sleeps_64_1"},
        {1024, {"grid_1k_1", "grid_1k_8", "grid_1k_64"}, "sleeps_1k_1"},
        {4096, {"grid_4k_1", "grid_4k_8", "grid_4k_64"}, "sleeps_4k_1"},
        {16384, {"grid_16k_1", "grid_16k_8", "grid_16k_64"}, "sleeps_16k_1"},
        {65536, {"grid_64k_1", "grid_64k_8", "grid_64k_64"}, "sleeps_64k_1"}};
    static const unsigned windows[3] = {1, 8, 64};
    unsigned i;

    for (i = 0; i < 3 * sizeof(rows) / sizeof(rows[0]); i++) {
        const struct perf_figure figure = {
            rows[i / 3].names[i % 3], "us", 1e6, 0, 0, 0};
        const struct perf_figure sleeps = {
            rows[i / 3].sleeps, "a call", 1, 0, 0, 0};
        struct perf_pages pages = {rows[i / 3].size, windows[i % 3], 0, 0};

        if (strstr(figure.name, client->options->only) == NULL)
            continue;
        if (perf_figure_page(client, &pages, &figure) != 0)
            return -1;
        if (pages.window == 1)
            perf_report_value(
                &sleeps, (double) pages.sleeps / (double) pages.calls);
    }
    return 0;
}

/* ---- Bulk ---- */

static int perf_figure_bulk(struct perf_client *client,
    const struct perf_source *source, unsigned flags,
    const struct perf_figure *figure)
{
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    const size_t size = client->options->bulk_size;
    struct perf_move_arg move;

    memset(contestants, 0, sizeof(contestants));
    move.source = source;
    move.in = perf_move_order(client, size, size, 1, flags);
    contestants[0].run = perf_run_move;
    contestants[0].arg = &move;
#if HG_NA_ZMQ
    if (client->raw != NULL) {
        struct raw_zmq_round round;

        memset(&round, 0, sizeof(round));
        round.kind =
            (flags & PERF_MOVE_PUSH) != 0 ? RAW_ZMQ_PUSH : RAW_ZMQ_PULL;
        round.size = size;
        round.frame = PERF_RAW_FRAME;
        round.window = PERF_RAW_WINDOW;
        round.seconds = client->options->seconds;
        return perf_against_raw(client, figure, contestants, &round);
    }
#endif
#if PERF_RAW_SM
    if (client->raw_sm != NULL)
        return perf_node_pull(client, figure, contestants, size);
#endif
#if HG_NA_OFI
    if (client->raw_ofi != NULL)
        return perf_ofi_pull(client, figure, contestants, size);
#endif
#if HG_NA_MPI
    if (client->raw_mpi != NULL)
        return perf_mpi_pull(client, figure, contestants, size);
#endif
    if (perf_contest(client, contestants, 1) != 0)
        return -1;
    perf_report(figure, &contestants[0].series, NULL);
    return 0;
}

/*
 * The remote write of the Mercury paper, which pulls through a pipeline of
 * buffers, against one pull of the same size. Pieces are only received, or also
 * copied by memcpy in place of a write.
 */
static int perf_figure_write(struct perf_client *client)
{
    static const struct perf_figure figure = {
        "write", "GB/s", 1e-9, 1, 0, 0.95};
    static const struct perf_figure copying = {
        "write_copy", "GB/s", 1e-9, 1, 0, 0};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    const struct perf_options *options = client->options;
    struct perf_figure scaled = figure;
    struct perf_source source;
    struct perf_move_arg moves[4];
    double ignored;
    unsigned i;
    int rc;

    if (perf_source_make(&source, options->write_size) != 0)
        return -1;
    memset(contestants, 0, sizeof(contestants));
    contestants[1].series.name = "pull";
    moves[0].in = perf_move_order(
        client, source.size, options->piece, options->buffers, 0);
    moves[1].in = perf_move_order(client, source.size, source.size, 1, 0);
    moves[2].in = moves[0].in;
    moves[2].in.flags = PERF_MOVE_COPY;
    moves[3].in = moves[0].in; /* once; compares every byte */
    moves[3].in.flags = PERF_MOVE_COPY | PERF_MOVE_VERIFY;
    moves[3].in.ms = 0;
    for (i = 0; i < 4; i++)
        moves[i].source = &source;
    for (i = 0; i < 3; i++) {
        contestants[i].run = perf_run_move;
        contestants[i].arg = &moves[i];
    }
    rc = perf_run_move(client, &moves[3], &ignored);
    if (rc == 0)
        rc = perf_contest(client, contestants, 3);
    if (rc == 0) {
        scaled.scale *= (double) source.size;
        perf_report(&scaled, &contestants[0].series, &contestants[1].series);
        scaled = copying;
        scaled.scale *= (double) source.size;
        perf_report(&scaled, &contestants[2].series, &contestants[1].series);
    }
    perf_source_free(&source);
    return rc;
}

/* ---- Small calls during bulk transfers ---- */

static int perf_start_job(struct perf_client *client,
    const struct perf_source *source, perf_move_in_t *in, perf_move_out_t *out,
    hg_request_t *job_p)
{
    hg_return_t ret;

    in->bulk = source->bulk;
    if ((in->flags & PERF_MOVE_PUSH) != 0)
        memset(source->buf, 0, (size_t) in->size);
    ret = HG_Forward(client->addr, client->ids.background, in, out, job_p);
    return ret == HG_SUCCESS ? 0 : perf_fail("HG_Forward(background)", ret);
}

/* Calls during transfers of `size` bytes (0: alone); adds their 99th
 * percentile. */
static int perf_p99_round(struct perf_client *client,
    const struct perf_source *source, size_t size, unsigned flags,
    struct perf_samples *samples, struct perf_series *p99)
{
    hg_request_t job = HG_REQUEST_NULL;
    perf_move_out_t out;
    perf_move_in_t in = perf_move_order(client, size, size, 1, flags);
    int rc;

    if (size > 0 && perf_start_job(client, source, &in, &out, &job) != 0)
        return -1;
    rc = perf_echo_sample(client, job, samples);
    if (job != HG_REQUEST_NULL) {
        if (rc == 0)
            rc = perf_judge_move(&in, &out, source);
        (void) HG_Request_free(job);
    }
    if (rc == 0)
        perf_series_add(
            p99, perf_quantile(samples->ns, samples->count, 0.99) * 1e-9);
    return rc;
}

/* Long transfers should not delay small calls more than short ones do. */
static int perf_figure_p99(struct perf_client *client,
    const struct perf_source *source, unsigned flags)
{
    const int push = (flags & PERF_MOVE_PUSH) != 0;
    const struct perf_figure alone = {
        push ? "p99_alone_push" : "p99_alone", "us", 1e6, 0, 0, 0};
    const struct perf_figure during_short = {
        push ? "p99_short_push" : "p99_short_pull", "us", 1e6, 0, 0, 0};
    const struct perf_figure during_long = {
        push ? "p99_long_push" : "p99_long_pull", "us", 1e6, 0, 1.25, 0};
    static struct perf_series series[3];
    struct perf_samples samples;
    size_t sizes[3];
    unsigned round;
    unsigned turn;
    int rc = 0;

    sizes[0] = 0;
    sizes[1] = client->options->bulk_size;
    sizes[2] = client->options->large_size;
    memset(series, 0, sizeof(series));
    series[0].name = "alone";
    series[1].name = "short";
    samples.ns = (double *) malloc(PERF_SAMPLES_MAX * sizeof(double));
    if (samples.ns == NULL)
        return perf_fail("malloc", HG_NOMEM);
    for (round = 0; rc == 0 && round < client->options->rounds; round++) {
        for (turn = 0; rc == 0 && turn < 3; turn++) {
            const unsigned i = (round + turn) % 3;

            rc = perf_p99_round(
                client, source, sizes[i], flags, &samples, &series[i]);
        }
    }
    free(samples.ns);
    if (rc != 0)
        return rc;
    perf_report(&alone, &series[0], NULL);
    perf_report(&during_short, &series[1], &series[0]);
    perf_report(&during_long, &series[2], &series[1]);
    return 0;
}

/* ---- Memory and copies ---- */

static int perf_remote_counter(
    struct perf_client *client, const char *name, uint64_t *value_p)
{
    perf_name_t in;
    perf_value_t out;
    hg_request_t request;
    hg_return_t ret;

    in.name = name;
    ret = HG_Forward(client->addr, client->ids.counter, &in, &out, &request);
    if (ret != HG_SUCCESS)
        return perf_fail("HG_Forward(counter)", ret);
    ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    (void) HG_Request_free(request);
    if (ret != HG_SUCCESS)
        return perf_fail("HG_Wait(counter)", ret);
    *value_p = out.value;
    return 0;
}

/* By how many MiB the peak of a process exceeds `before`. */
static int perf_risen(long pid, uint64_t before, double *mib_p)
{
    uint64_t peak;
    uint64_t now;

    if (perf_memory(pid, &peak, &now) != 0)
        return -1;
    *mib_p = peak > before ? (double) (peak - before) / 1048576 : 0;
    return 0;
}

static int perf_figure_memory(
    struct perf_client *client, const struct perf_source *source)
{
    const double limit =
        (double) client->na_class->info->rma_window / 1048576 + 16;
    const struct perf_figure at_source = {
        "memory_source", "MiB", 1, 0, limit, 0};
    const struct perf_figure at_destination = {
        "memory_destination", "MiB", 1, 0, limit, 0};
    perf_move_in_t in =
        perf_move_order(client, source->size, source->size, 1, 0);
    const long here = (long) getpid();
    uint64_t before[2];
    uint64_t peak;
    double risen[2];
    double ignored;

    if (client->server_pid == 0)
        return 0; /* the server is elsewhere */
    in.ms = 0;
    /* Once before, so that the destination is allocated and touched. */
    if (perf_move_round(client, source, &in, &ignored) != 0)
        return -1;
    if (perf_memory_reset(here) != 0 ||
        perf_memory_reset(client->server_pid) != 0 ||
        perf_memory(here, &peak, &before[0]) != 0 ||
        perf_memory(client->server_pid, &peak, &before[1]) != 0) {
        printf("# no figure of memory: /proc does not have it\n");
        return 0;
    }
    if (perf_move_round(client, source, &in, &ignored) != 0 ||
        perf_risen(here, before[0], &risen[0]) != 0 ||
        perf_risen(client->server_pid, before[1], &risen[1]) != 0)
        return -1;
    perf_report_value(&at_source, risen[0]);
    perf_report_value(&at_destination, risen[1]);
    return 0;
}

/* Bytes copied at the source so far: here by pulls, at the server by pushes. */
static int perf_figure_copies(struct perf_client *client)
{
    static const struct perf_figure pull = {
        "copied_pull_source", "bytes", 1, 0, 0.5, 0};
    static const struct perf_figure push = {
        "copied_push_source", "bytes", 1, 0, 0.5, 0};
    uint64_t there = 0;

    if (perf_remote_counter(client, "rma_bytes_copied_source", &there) != 0)
        return -1;
    perf_report_value(&pull,
        (double) NA_Get_counter(client->na_class, "rma_bytes_copied_source"));
    perf_report_value(&push, (double) there);
    return 0;
}

/* ---- Deadlines ---- */

#define PERF_LATE_DEADLINE 2u /* ms */
#define PERF_LATE_AIM 5.0     /* ms */
#define PERF_LATE_MAX 1000u

/* The seconds from the deadline of an unanswered call to its end. */
static int perf_late(struct perf_client *client, double *seconds_p)
{
    uint64_t start = perf_now_ns();
    uint64_t ns;
    hg_status_t status = HG_FALSE;
    hg_request_t request;
    hg_return_t ret = HG_Forward_timed(client->addr, client->ids.keep, NULL,
        NULL, PERF_LATE_DEADLINE, &request);

    if (ret != HG_SUCCESS)
        return perf_fail("HG_Forward_timed(keep)", ret);
    do {
        ret = HG_Wait(request, HG_MAX_IDLE_TIME, &status);
    } while (!status && ret == HG_INTR);
    ns = perf_now_ns() - start;
    (void) HG_Request_free(request);
    if (!status || ret != HG_TIMEOUT || ns < PERF_LATE_DEADLINE * 1000000u)
        return perf_fail("an unanswered call", ret);
    *seconds_p = 1e-9 * (double) ns - 1e-3 * PERF_LATE_DEADLINE;
    return 0;
}

static int perf_figure_late(struct perf_client *client)
{
    static const struct perf_figure median = {
        "late_median", "ms", 1e3, 0, PERF_LATE_AIM, 0};
    static const struct perf_figure p99 = {
        "late_p99", "ms", 1e3, 0, PERF_LATE_AIM, 0};
    static double times[PERF_LATE_MAX];
    /* One round: --quick. */
    unsigned count = client->options->rounds > 1 ? PERF_LATE_MAX : 2;
    unsigned i;

    for (i = 0; i < count; i++) {
        if (perf_late(client, &times[i]) != 0)
            return -1;
    }
    perf_sort(times, count);
    perf_report_value(&median, 1e3 * perf_quantile(times, count, 0.5));
    perf_report_value(&p99, 1e3 * perf_quantile(times, count, 0.99));
    return 0;
}

/* ---- Groups of figures ---- */

static int perf_step_echo(struct perf_client *client)
{
    static const struct perf_figure figure = {"echo", "us", 1e6, 0, 1.15, 0};

    return perf_figure_echo(client, 1, &figure);
}

static int perf_step_page(struct perf_client *client)
{
    static const struct perf_figure figure = {"page", "us", 1e6, 0, 0, 0};
    struct perf_pages pages = {4096, 1, 0, 0};

    return perf_figure_page(client, &pages, &figure);
}

static int perf_step_in_flight(struct perf_client *client)
{
    static const struct perf_figure figure = {
        "in_flight", "calls/s", 1, 1, 0, 0.6};

    return perf_figure_echo(client, client->options->window, &figure);
}

static int perf_step_bulk(
    struct perf_client *client, const char *name, unsigned flags)
{
    struct perf_figure figure = {name, "GB/s", 1e-9, 1, 0, 0.85};
    struct perf_source source;
    int rc;

    figure.scale *= (double) client->options->bulk_size;
    if (perf_source_make(&source, client->options->bulk_size) != 0)
        return -1;
    rc = perf_figure_bulk(client, &source, flags, &figure);
    perf_source_free(&source);
    return rc;
}

static int perf_step_pull(struct perf_client *client)
{
    return perf_step_bulk(client, "pull", 0);
}

static int perf_step_push(struct perf_client *client)
{
    return perf_step_bulk(client, "push", PERF_MOVE_PUSH);
}

static int perf_step_p99(struct perf_client *client, unsigned flags)
{
    struct perf_source source;
    int rc;

    if (perf_source_make(&source, client->options->large_size) != 0)
        return -1;
    rc = perf_figure_p99(client, &source, flags);
    perf_source_free(&source);
    return rc;
}

static int perf_step_p99_pull(struct perf_client *client)
{
    return perf_step_p99(client, 0);
}

static int perf_step_p99_push(struct perf_client *client)
{
    return perf_step_p99(client, PERF_MOVE_PUSH);
}

static int perf_step_memory(struct perf_client *client)
{
    struct perf_source source;
    int rc;

    if (perf_source_make(&source, client->options->large_size) != 0)
        return -1;
    rc = perf_figure_memory(client, &source);
    perf_source_free(&source);
    return rc;
}

static int perf_step_self_echo(struct perf_client *client)
{
    static const struct perf_figure figure = {"self_echo", "ns", 1e9, 0, 0, 0};

    return perf_figure_echo(client, 1, &figure);
}

static int perf_step_self_in_flight(struct perf_client *client)
{
    static const struct perf_figure figure = {
        "self_in_flight", "calls/s", 1, 1, 0, 0};

    return perf_figure_echo(client, client->options->window, &figure);
}

struct perf_step {
    const char *name;
    int (*run)(struct perf_client *client);
};

int perf_is_asked(const struct perf_options *options, const char *name)
{
    if (strcmp(name, "grid") == 0) /* takes minutes */
        return options->only != NULL && strncmp(options->only, name, 4) == 0;
    if (options->only != NULL && options->only[0] == '=')
        return strcmp(name, options->only + 1) == 0;
    return options->only == NULL || strstr(name, options->only) != NULL;
}

/* Run the steps that the options select. */
static int perf_run_steps(
    struct perf_client *client, const struct perf_step *steps, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        if (!perf_is_asked(client->options, steps[i].name))
            continue;
        if (steps[i].run(client) != 0)
            return -1;
    }
    return 0;
}

int perf_figures_self(struct perf_client *client)
{
    static const struct perf_step steps[] = {{"self_echo", perf_step_self_echo},
        {"self_in_flight", perf_step_self_in_flight}};

    return perf_run_steps(client, steps, sizeof(steps) / sizeof(steps[0]));
}

int perf_figures_pair(struct perf_client *client)
{
    static const struct perf_step steps[] = {
        {"echo", perf_step_echo},
        {"page", perf_step_page},
        {"grid", perf_figure_grid},
        {"in_flight", perf_step_in_flight},
#if PERF_RAW_SM
        {"pages", perf_node_pages},
        {"asleep", perf_node_asleep},
        {"sizes", perf_node_sizes},
        {"mapped", perf_node_mapped},
#endif
#if HG_NA_OFI
        {"sizes", perf_ofi_sizes},
#endif
        {"pull", perf_step_pull},
        {"push", perf_step_push},
        {"write", perf_figure_write},
        {"p99_pull", perf_step_p99_pull},
        {"p99_push", perf_step_p99_push},
        {"memory", perf_step_memory},
        {"copied", perf_figure_copies},
        {"late", perf_figure_late}
    };

    return perf_run_steps(client, steps, sizeof(steps) / sizeof(steps[0]));
}
