/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: the figures of ofi+...:// against its bare program (raw_ofi.h), and
 * their targets.
 *
 * With --wait spin our server is stopped by SIGSTOP during rounds of the bare
 * program, so that it does not take a processor from it.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#if HG_NA_OFI

#include "raw_ofi.h"

#include <stdlib.h>
#include <string.h>

#define PERF_OFI_ECHO 1.25     /* against bare */
#define PERF_OFI_IN_FLIGHT 0.5 /* rate, against bare */
#define PERF_OFI_BULK 0.9      /* against fi_read */
#define PERF_OFI_PIECE ((size_t) 1 << 20)

/* The bare program refers to these strings while it runs. */
static char perf_ofi_protocol[64];
static char perf_ofi_host[256];

int perf_ofi_open(const char *url, struct raw_ofi **raw_p)
{
    const char *protocol = url + strlen("ofi+");
    const char *host = strstr(url, "://");
    const size_t size = host == NULL ? 0 : (size_t) (host - protocol);
    size_t host_size;

    if (host == NULL || size >= sizeof(perf_ofi_protocol) ||
        strlen(host) >= sizeof(perf_ofi_host))
        return perf_fail(url, HG_INVALID_ARG);
    memcpy(perf_ofi_protocol, protocol, size);
    host += strlen("://");
    host_size = strcspn(host, host[0] == '[' ? "]" : ":/");
    if (host[0] == '[')
        memcpy(perf_ofi_host, host + 1, host_size - 1);
    else if (strcmp(perf_ofi_protocol, "shm") != 0) /* shm has no host */
        memcpy(perf_ofi_host, host, host_size);
    return raw_ofi_open(perf_ofi_protocol, perf_ofi_host, raw_p);
}

static int perf_ofi_run_raw(
    struct perf_client *client, void *arg, double *per_op_p)
{
    const struct raw_ofi_round *round = (const struct raw_ofi_round *) arg;
    const int stops = client->options->wait_mode == NA_WAIT_SPIN;
    int rc;

    if (stops)
        (void) kill((pid_t) client->server_pid, SIGSTOP);
    rc = raw_ofi_run(client->raw_ofi, round, per_op_p);
    if (stops)
        (void) kill((pid_t) client->server_pid, SIGCONT);
    return rc;
}

/* Compare ours, prepared by the caller, with the best mode of the bare program:
 * spinning, sleeping, and for a long transfer spinning with several pieces in
 * flight. */
static int perf_ofi_contest(struct perf_client *client,
    const struct perf_figure *figure, struct perf_contestant *contestants,
    const struct raw_ofi_round *round, double aim)
{
    static const char *const names[] = {"spin", "sleep", "pieces"};
    const unsigned count =
        round->kind == RAW_OFI_PULL && round->size > PERF_OFI_PIECE ? 3 : 2;
    struct perf_figure aimed = *figure;
    struct raw_ofi_round rounds[3];
    const struct perf_series *best = &contestants[1].series;
    unsigned i;

    for (i = 0; i < count; i++) {
        rounds[i] = *round;
        rounds[i].sleeps = i == 1;
        contestants[i + 1].series.name = names[i];
        contestants[i + 1].run = perf_ofi_run_raw;
        contestants[i + 1].arg = &rounds[i];
    }
    rounds[2].piece = PERF_OFI_PIECE;
    rounds[2].window = 2;
    if (perf_contest(client, contestants, count + 1) != 0)
        return -1;
    for (i = 2; i <= count; i++) {
        if (perf_series_median(&contestants[i].series) <
            perf_series_median(best))
            best = &contestants[i].series;
    }
    aimed.at_most = figure->inverse ? 0 : aim;
    aimed.at_least = figure->inverse ? aim : 0;
    perf_report(&aimed, &contestants[0].series, best);
    return 0;
}

int perf_ofi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window)
{
    const struct raw_ofi_round round = {RAW_OFI_ECHO, 0, size, size,
        window < RAW_OFI_WINDOW_MAX ? window : RAW_OFI_WINDOW_MAX,
        client->options->seconds};

    return perf_ofi_contest(client, figure, contestants, &round,
        figure->inverse ? PERF_OFI_IN_FLIGHT
            : size > 64 ? 0
                        : PERF_OFI_ECHO);
}

int perf_ofi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size)
{
    const struct raw_ofi_round round = {
        RAW_OFI_PULL, 0, size, size, 1, client->options->seconds};

    return perf_ofi_contest(client, figure, contestants, &round, PERF_OFI_BULK);
}

int perf_ofi_sizes(struct perf_client *client)
{
    static const char *const names[] = {
        "pull_64k", "pull_1m", "pull_4m", "pull_16m"};
    static const size_t sizes[] = {(size_t) 64 << 10, (size_t) 1 << 20,
        (size_t) 4 << 20, (size_t) 16 << 20};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    unsigned i;

    for (i = 0; i < 4; i++) {
        const struct perf_figure figure = {
            names[i], "GB/s", 1e-9 * (double) sizes[i], 1, 0, 0};
        struct perf_source source;
        struct perf_move_arg move;
        int rc;

        if (client->raw_ofi == NULL)
            return 0;
        if (perf_source_make(&source, sizes[i]) != 0)
            return -1;
        move.source = &source;
        move.in = perf_move_order(client, sizes[i], sizes[i], 1, 0);
        memset(contestants, 0, sizeof(contestants));
        contestants[0].run = perf_run_move;
        contestants[0].arg = &move;
        rc = perf_ofi_pull(client, &figure, contestants, sizes[i]);
        perf_source_free(&source);
        if (rc != 0)
            return -1;
    }
    return 0;
}

#endif
