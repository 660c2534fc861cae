/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: the figures of mpi+static:// against its bare program (raw_mpi.h),
 * and their targets. The processes are ranks of one job of mpirun.
 *
 * Rank 0 is our server and that of the bare program. It runs a round of the
 * bare program inside a handler, so hg does nothing meanwhile. Rank 1 measures.
 * The other ranks are clients of --clients; they sleep until they receive an
 * order.
 *
 * The program requests MPI_THREAD_SERIALIZED: with MPI_THREAD_MULTIPLE some
 * implementations take locks, which would slow the bare program down.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#if HG_NA_MPI

#include "raw_mpi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#define PERF_MPI_ECHO 1.3  /* against bare */
#define PERF_MPI_BULK 0.85 /* against messages of 1 MiB */
#define PERF_MPI_SERVER 0
#define PERF_MPI_CLIENT 1

enum perf_mpi_tag { PERF_MPI_ORDER, PERF_MPI_SHARE };

static struct raw_mpi *perf_mpi_raw;
static MPI_Comm perf_mpi_comm;             /* for orders and shares */
static struct perf_source perf_mpi_source; /* of this client */

/* ---- The bare program ---- */

int perf_mpi_serve_raw(void)
{
    return raw_mpi_serve(perf_mpi_raw, PERF_MPI_CLIENT);
}

/* Make progress until the server is inside the handler. */
static int perf_mpi_enter_raw(hg_request_t request)
{
    while (!raw_mpi_is_taken(perf_mpi_raw)) {
        hg_status_t ended = HG_FALSE;
        hg_return_t ret = HG_Wait(request, 1, &ended);

        if (ended || (ret != HG_TIMEOUT && ret != HG_INTR))
            return perf_fail("HG_Wait(raw)", ret);
    }
    return 0;
}

static int perf_mpi_run_raw(
    struct perf_client *client, void *arg, double *per_op_p)
{
    hg_request_t request;
    hg_return_t ret =
        HG_Forward(client->addr, client->ids.raw, NULL, NULL, &request);
    int rc;

    if (ret != HG_SUCCESS)
        return perf_fail("HG_Forward(raw)", ret);
    rc = raw_mpi_announce(
        client->raw_mpi, PERF_MPI_SERVER, (const struct raw_mpi_round *) arg);
    if (rc == 0)
        rc = perf_mpi_enter_raw(request);
    if (rc == 0)
        rc = raw_mpi_run(client->raw_mpi, per_op_p);
    if (rc == 0) {
        ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
        rc = ret == HG_SUCCESS ? 0 : perf_fail("HG_Wait(raw)", ret);
    }
    (void) HG_Request_free(request);
    return rc;
}

/* Compare ours, prepared by the caller, with the better way of the bare
 * program. For several echoes in flight it has only one. */
static int perf_mpi_contest(struct perf_client *client,
    const struct perf_figure *figure, struct perf_contestant *contestants,
    const struct raw_mpi_round *round, double aim)
{
    static const char *const names[] = {"starts", "blocks"};
    const unsigned count = round->window > 1 ? 1 : 2;
    struct perf_figure aimed = *figure;
    struct raw_mpi_round rounds[2];
    const struct perf_series *best = &contestants[1].series;
    unsigned i;

    for (i = 0; i < count; i++) {
        rounds[i] = *round;
        rounds[i].way = i == 0 ? RAW_MPI_STARTS : RAW_MPI_BLOCKS;
        contestants[i + 1].series.name = names[i];
        contestants[i + 1].run = perf_mpi_run_raw;
        contestants[i + 1].arg = &rounds[i];
    }
    if (perf_contest(client, contestants, count + 1) != 0)
        return -1;
    if (count > 1 &&
        perf_series_median(&contestants[2].series) < perf_series_median(best))
        best = &contestants[2].series;
    aimed.at_most = figure->inverse ? 0 : aim;
    aimed.at_least = figure->inverse ? aim : 0;
    perf_report(&aimed, &contestants[0].series, best);
    return 0;
}

int perf_mpi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window)
{
    const struct raw_mpi_round round = {RAW_MPI_ECHO, RAW_MPI_STARTS, size,
        window < RAW_MPI_WINDOW_MAX ? window : RAW_MPI_WINDOW_MAX,
        client->options->seconds};

    return perf_mpi_contest(client, figure, contestants, &round,
        figure->inverse || size > 64 ? 0 : PERF_MPI_ECHO);
}

int perf_mpi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size)
{
    const struct raw_mpi_round round = {
        RAW_MPI_STREAM, RAW_MPI_STARTS, size, 1, client->options->seconds};

    return perf_mpi_contest(client, figure, contestants, &round, PERF_MPI_BULK);
}

/* ---- Clients ---- */

static int perf_mpi_prepare(struct perf_client *client)
{
    if (perf_clients_prepare(client, PERF_CLIENTS_PULL, &perf_mpi_source) != 0)
        return -1;
    return perf_clients_prepare(client, PERF_CLIENTS_WRITE, &perf_mpi_source);
}

static void perf_mpi_send(const struct perf_clients_share *share)
{
    (void) MPI_Send(share, (int) sizeof(*share), MPI_BYTE, PERF_MPI_CLIENT,
        PERF_MPI_SHARE, perf_mpi_comm);
}

/* Add the shares of the ranks from 2 to `end` - 1. */
static void perf_mpi_receive(int end, struct perf_clients_share *sum)
{
    struct perf_clients_share share;
    int rank;

    for (rank = PERF_MPI_CLIENT + 1; rank < end; rank++) {
        (void) MPI_Recv(&share, (int) sizeof(share), MPI_BYTE, rank,
            PERF_MPI_SHARE, perf_mpi_comm, MPI_STATUS_IGNORE);
        perf_clients_add(sum, &share);
    }
}

/* A rank from 2 on: execute orders until one has no clients. */
static int perf_mpi_obey(struct perf_client *client)
{
    const struct timespec pause = {0, 1000 * 1000};

    for (;;) {
        struct perf_clients_share share = {0, 0, 0};
        int order[2]; /* clients, kind */
        int here = 0;

        (void) MPI_Iprobe(PERF_MPI_CLIENT, PERF_MPI_ORDER, perf_mpi_comm, &here,
            MPI_STATUS_IGNORE);
        if (!here) {
            (void) nanosleep(&pause, NULL);
            continue;
        }
        (void) MPI_Recv(order, 2, MPI_INT, PERF_MPI_CLIENT, PERF_MPI_ORDER,
            perf_mpi_comm, MPI_STATUS_IGNORE);
        if (order[0] == 0)
            return 0;
        if (perf_clients_measure(client, (enum perf_clients_kind) order[1],
                &perf_mpi_source, &share) != 0)
            return -1;
        perf_mpi_send(&share);
    }
}

static void perf_mpi_command(int first, int end, int clients, int kind)
{
    const int order[2] = {clients, kind};
    int rank;

    for (rank = first; rank < end; rank++)
        (void) MPI_Send(order, 2, MPI_INT, rank, PERF_MPI_ORDER, perf_mpi_comm);
}

/* Execute an order with this rank and the next ones. */
static int perf_mpi_run_clients(
    const struct perf_clients_order *order, void *arg, double *rate_p)
{
    struct perf_client *client = (struct perf_client *) arg;
    const int end = PERF_MPI_CLIENT + (int) order->count;
    struct perf_clients_share sum;

    perf_mpi_command(
        PERF_MPI_CLIENT + 1, end, (int) order->count, (int) order->kind);
    if (perf_clients_measure(client, order->kind, &perf_mpi_source, &sum) != 0)
        return -1;
    perf_mpi_receive(end, &sum);
    *rate_p = perf_clients_rate(&sum);
    return 0;
}

/* ---- Ranks ---- */

static int perf_mpi_end_server(struct perf_client *client)
{
    hg_request_t request;
    hg_return_t ret =
        HG_Forward(client->addr, client->ids.end, NULL, NULL, &request);

    if (ret == HG_SUCCESS) {
        ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
        (void) HG_Request_free(request);
    }
    return ret == HG_SUCCESS ? 0 : perf_fail("ending the server", ret);
}

/* The rank that measures. */
static int perf_mpi_lead(struct perf_client *client, const char *url,
    unsigned clients, unsigned ranks)
{
    struct perf_clients_share ready = {0, 0, 0};
    int rc;

    if (clients > ranks - 1)
        clients = ranks - 1;
    perf_mpi_receive((int) ranks, &ready);
    rc = clients > 0 ? perf_clients_figures(url, client->options, clients,
                           perf_mpi_run_clients, client)
                     : perf_figures_pair(client);
    perf_mpi_command(PERF_MPI_CLIENT + 1, (int) ranks, 0, 0);
    return rc == 0 ? perf_mpi_end_server(client) : rc;
}

static int perf_mpi_be_client(const char *url,
    const struct perf_options *options, unsigned clients, int rank, int ranks,
    pid_t server_pid)
{
    const struct perf_clients_share ready = {0, 0, 0};
    struct perf_process server;
    struct perf_client client;
    int rc;

    memset(&client, 0, sizeof(client));
    client.options = options;
    client.raw_mpi = options->alone ? NULL : perf_mpi_raw;
    server.pid = server_pid;
    (void) snprintf(
        server.address, sizeof(server.address), "%s%d", url, PERF_MPI_SERVER);
    if (perf_meet(&client, url, &server) != 0)
        return -1;
    rc = clients > 0 ? perf_mpi_prepare(&client) : 0;
    if (rc == 0 && rank == PERF_MPI_CLIENT) {
        rc = perf_mpi_lead(&client, url, clients, (unsigned) ranks);
    } else if (rc == 0) {
        perf_mpi_send(&ready);
        rc = perf_mpi_obey(&client);
    }
    if (perf_mpi_source.buf != NULL)
        perf_source_free(&perf_mpi_source);
    perf_part(&client);
    return rc;
}

/* Between MPI_Init and MPI_Finalize. */
static int perf_mpi_be_rank(
    const char *url, const struct perf_options *options, unsigned clients)
{
    static const volatile sig_atomic_t never = 0;
    int server_pid = (int) getpid();
    int ranks;
    int rank;

    (void) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        return perf_fail("start it with mpirun -n 2, or more", HG_INVALID_ARG);
    (void) MPI_Comm_dup(MPI_COMM_WORLD, &perf_mpi_comm);
    if (raw_mpi_open(&perf_mpi_raw) != 0)
        return -1;
    (void) MPI_Bcast(&server_pid, 1, MPI_INT, PERF_MPI_SERVER, perf_mpi_comm);
    return rank == PERF_MPI_SERVER
        ? perf_serve(url, -1, options, &never)
        : perf_mpi_be_client(url, options, clients, rank, ranks, server_pid);
}

int perf_mpi_main(
    const char *url, const struct perf_options *options, unsigned clients)
{
    int level;
    int rank;

    (void) MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    (void) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (perf_mpi_be_rank(url, options, clients) != 0)
        (void) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    if (rank == PERF_MPI_CLIENT)
        (void) perf_print_table();
    raw_mpi_close(perf_mpi_raw);
    (void) MPI_Comm_free(&perf_mpi_comm);
    (void) MPI_Finalize();
    return 0;
}

#endif
