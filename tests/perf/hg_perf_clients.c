/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf --clients: one server with 1 to 16 clients (Fig. 5 of the Mercury
 * paper). They make calls of 64 bytes, or the server pulls bulk data from them:
 * at once ("pull") or in a pipeline of pieces ("write").
 *
 * The rate is what all clients did together, divided by the time from the start
 * of the first one to the end of the last one. A round measures each number of
 * clients once, so each is compared with one client at nearly the same time.
 * Clients are processes, forked for each measurement, or ranks of MPI
 * (hg_perf_mpi.c). The server executes one call at a time.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A client ---- */

static perf_move_in_t perf_clients_move(
    const struct perf_client *client, enum perf_clients_kind kind)
{
    const struct perf_options *options = client->options;
    const size_t size = options->bulk_size;
    const int whole = kind == PERF_CLIENTS_PULL;
    perf_move_in_t in = perf_move_order(client, size,
        whole ? size : options->piece, whole ? 1 : options->buffers, 0);

    in.ms = 0; /* one transfer */
    return in;
}

int perf_clients_prepare(struct perf_client *client,
    enum perf_clients_kind kind, struct perf_source *source)
{
    perf_move_in_t in = perf_clients_move(client, kind);
    double unused;

    if (kind == PERF_CLIENTS_CALLS)
        return 0;
    if (source->buf == NULL && perf_source_make(source, (size_t) in.size) != 0)
        return -1;
    return perf_move_round(client, source, &in, &unused);
}

int perf_clients_measure(struct perf_client *client,
    enum perf_clients_kind kind, const struct perf_source *source,
    struct perf_clients_share *share)
{
    const double ns = client->options->seconds * 1e9;
    perf_move_in_t in = perf_clients_move(client, kind);
    double per_op = 0;
    int rc;

    in.flags = PERF_MOVE_TRUST;
    share->amount = 0;
    share->begin = perf_now_ns();
    if (kind == PERF_CLIENTS_CALLS) {
        rc = perf_echo_round(client, 1, &per_op);
        share->end = perf_now_ns();
        share->amount = (double) (share->end - share->begin) * 1e-9 / per_op;
        return rc;
    }
    do {
        rc = perf_move_round(client, source, &in, &per_op);
        share->end = perf_now_ns();
        share->amount += (double) in.size;
    } while (rc == 0 && (double) (share->end - share->begin) < ns);
    return rc;
}

void perf_clients_add(
    struct perf_clients_share *sum, const struct perf_clients_share *share)
{
    if (sum->amount <= 0 || share->begin < sum->begin)
        sum->begin = share->begin;
    if (sum->amount <= 0 || share->end > sum->end)
        sum->end = share->end;
    sum->amount += share->amount;
}

double perf_clients_rate(const struct perf_clients_share *sum)
{
    return sum->amount * 1e9 / (double) (sum->end - sum->begin);
}

/* ---- Forked clients ---- */

/* Pipes between the parent and the clients. A share is written at once. */
struct perf_clients_pipes {
    int go[2]; /* a byte to each client: start */
    int up[2]; /* from each client: it is ready; then its share */
};

/* A client process. Does not return. */
static void perf_clients_be_one(const struct perf_clients_pipes *pipes,
    const struct perf_clients_order *order, const char *url,
    const struct perf_process *server)
{
    struct perf_clients_share share = {0, 0, 0};
    struct perf_source source;
    struct perf_client guest;
    char begin;

    memset(&source, 0, sizeof(source));
    memset(&guest, 0, sizeof(guest));
    guest.options = order->options;
    if (perf_meet(&guest, url, server) != 0)
        _exit(1);
    if (perf_clients_prepare(&guest, order->kind, &source) == 0 &&
        write(pipes->up[1], &share, sizeof(share)) == sizeof(share) &&
        read(pipes->go[0], &begin, 1) == 1 &&
        perf_clients_measure(&guest, order->kind, &source, &share) == 0)
        (void) !write(pipes->up[1], &share, sizeof(share));
    if (source.buf != NULL)
        perf_source_free(&source);
    perf_part(&guest);
    _exit(0);
}

/* Read a share from each client; -1: a client exited. Only the clients have the
 * writing end, so a read ends when they exit. */
static int perf_clients_read(const struct perf_clients_pipes *pipes,
    unsigned count, struct perf_clients_share *sum)
{
    struct perf_clients_share share;
    unsigned i;

    memset(sum, 0, sizeof(*sum));
    for (i = 0; i < count; i++) {
        if (read(pipes->up[0], &share, sizeof(share)) != sizeof(share))
            return perf_fail("a client process failed", HG_OTHER_ERROR);
        perf_clients_add(sum, &share);
    }
    return 0;
}

int perf_clients_fork(const struct perf_clients_order *order, const char *url,
    const struct perf_process *server, double *rate_p)
{
    static const char begin[PERF_CLIENTS_MAX] = {0};
    struct perf_clients_pipes pipes;
    struct perf_clients_share sum;
    pid_t pids[PERF_CLIENTS_MAX];
    unsigned i;
    int rc;

    if (pipe(pipes.go) != 0 || pipe(pipes.up) != 0)
        return perf_fail("pipe", HG_IO_ERROR);
    for (i = 0; i < order->count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            perf_clients_be_one(&pipes, order, url, server);
    }
    (void) close(pipes.up[1]);
    (void) close(pipes.go[0]);
    rc = perf_clients_read(&pipes, order->count, &sum);
    if (rc == 0 &&
        write(pipes.go[1], begin, order->count) == (ssize_t) order->count)
        rc = perf_clients_read(&pipes, order->count, &sum);
    (void) close(pipes.up[0]);
    (void) close(pipes.go[1]);
    for (i = 0; i < order->count; i++) {
        if (pids[i] > 0)
            (void) waitpid(pids[i], NULL, 0);
    }
    if (rc == 0)
        *rate_p = perf_clients_rate(&sum);
    return rc;
}

/* ---- The table ---- */

#define PERF_CLIENTS_LINES 5 /* 1, 2, 4, 8, 16 clients */

static struct perf_series perf_clients_series[PERF_CLIENTS_KINDS]
                                             [PERF_CLIENTS_LINES];

/* The values of a series are seconds per call or per byte. */
static double perf_clients_line(unsigned kind, unsigned line)
{
    return 1 / perf_series_median(&perf_clients_series[kind][line]);
}

static void perf_clients_print(const char *url, unsigned lines)
{
    unsigned line;

    for (line = 0; line < lines; line++)
        printf("hg_perf clients=%u calls_per_s=%.0f pull_gb_per_s=%.3f "
               "write_gb_per_s=%.3f\n",
            1u << line, perf_clients_line(PERF_CLIENTS_CALLS, line),
            1e-9 * perf_clients_line(PERF_CLIENTS_PULL, line),
            1e-9 * perf_clients_line(PERF_CLIENTS_WRITE, line));
    printf("\n%s, one server\n%8s %12s %12s %12s\n", url, "clients", "calls/s",
        "pull GB/s", "write GB/s");
    for (line = 0; line < lines; line++)
        printf("%8u %12.0f %12.3f %12.3f\n", 1u << line,
            perf_clients_line(PERF_CLIENTS_CALLS, line),
            1e-9 * perf_clients_line(PERF_CLIENTS_PULL, line),
            1e-9 * perf_clients_line(PERF_CLIENTS_WRITE, line));
}

/* 8 clients against one, in the same round. */
static void perf_clients_compare(void)
{
    static const struct perf_figure figures[PERF_CLIENTS_KINDS] = {
        {"clients_8_calls", "calls/s", 1, 1, 0, 0},
        {"clients_8_pull", "GB/s", 1e-9, 1, 0, 1.0},
        {"clients_8_write", "GB/s", 1e-9, 1, 0, 1.0}};
    unsigned kind;

    for (kind = 0; kind < PERF_CLIENTS_KINDS; kind++) {
        perf_clients_series[kind][0].name = "one";
        perf_report(&figures[kind], &perf_clients_series[kind][3],
            &perf_clients_series[kind][0]);
    }
}

int perf_clients_figures(const char *url, const struct perf_options *options,
    unsigned max, perf_clients_run_t *run, void *arg)
{
    struct perf_clients_order order;
    unsigned lines = 0;
    unsigned round;
    unsigned kind;
    unsigned line;
    double rate;

    while (lines < PERF_CLIENTS_LINES && 1u << lines <= max)
        lines++;
    order.options = options;
    for (round = 0; round < options->rounds; round++) {
        for (kind = 0; kind < PERF_CLIENTS_KINDS; kind++) {
            for (line = 0; line < lines; line++) {
                order.kind = (enum perf_clients_kind) kind;
                order.count = 1u << line;
                if (run(&order, arg, &rate) != 0)
                    return -1;
                perf_series_add(&perf_clients_series[kind][line], 1 / rate);
            }
        }
    }
    perf_clients_print(url, lines);
    if (lines > 3)
        perf_clients_compare();
    return 0;
}

/* ---- Without MPI ---- */

struct perf_clients_place {
    const char *url;
    struct perf_process server;
};

static int perf_clients_run_forked(
    const struct perf_clients_order *order, void *arg, double *rate_p)
{
    const struct perf_clients_place *place =
        (const struct perf_clients_place *) arg;

    return perf_clients_fork(order, place->url, &place->server, rate_p);
}

int perf_clients(const char *url, const char *address,
    const struct perf_options *options, unsigned max)
{
    struct perf_clients_place place;
    int rc;

    memset(&place, 0, sizeof(place));
    place.url = url;
    if (address != NULL)
        (void) snprintf(
            place.server.address, sizeof(place.server.address), "%s", address);
    else if (perf_start_server(url, PERF_OURS, options, &place.server) != 0)
        return -1;
    rc = perf_clients_figures(
        url, options, max, perf_clients_run_forked, &place);
    perf_stop_server(&place.server);
    return rc;
}
