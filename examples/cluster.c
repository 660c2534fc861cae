/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster: a server and its clients, started together by mpirun or srun.
 *
 *     mpirun -n 4 cluster ADDRESS FILE
 *     srun -n 4 cluster ADDRESS FILE
 *
 * Rank 0 is the server. It writes its address to FILE, which all nodes can
 * read. The other ranks wait for the file, call the server, and report that
 * they are done. The server ends after the last report. The program does not
 * use MPI: it reads its rank from the environment.
 *
 *     rank 0                        ranks 1 to N - 1
 *       listen
 *       write FILE.new, rename  --> read FILE, look the server up
 *       sum up <-- pull ----------- cluster_sum(numbers)
 *       count  <------------------- cluster_done(rank)
 *       all done: remove FILE, drain, end
 *
 * ADDRESS is the same for all ranks, so it does not name a host:
 * "ofi+tcp://0.0.0.0", "ofi+verbs://ib0", "ofi+tcp://0.0.0.0;sm://",
 * "zmq+tcp://0.0.0.0", "sm://".
 *
 * Use a new FILE for each job, such as address.$SLURM_JOB_ID. If the file of an
 * earlier job exists, clients try its address until the server replaces it.
 *
 * A client that fails exits with status 1. mpirun then ends the other ranks
 * with SIGTERM; srun does so with --kill-on-bad-exit.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hg.h"
#include "peer.h"
#include "usage.h"

#define CLUSTER_NUMBERS 1000000u /* of each client: 8 MB */
#define CLUSTER_PIECE 65536u     /* numbers that one transfer pulls */
#define CLUSTER_CALL_MS 30000u
#define CLUSTER_START_S 60   /* how long clients wait for the server */
#define CLUSTER_RETRY_MS 200 /* between two lookups */
#define CLUSTER_LOOKUP_MS 5000u
#define CLUSTER_DRAIN_MS 5000u

static const char cluster_help[] =
    "usage: mpirun -n RANKS cluster ADDRESS FILE\n"
    "\n"
    "Rank 0 listens on ADDRESS and writes its full address to FILE. The\n"
    "other ranks read FILE and call rank 0, which sums up their numbers.\n"
    "FILE is on a file system that all nodes share.\n"
    "\n"
    "Examples:\n"
    "  mpirun -n 4 cluster \"ofi+tcp://0.0.0.0;sm://\" address.$$\n"
    "  srun --kill-on-bad-exit -n 4 cluster zmq+tcp://0.0.0.0 "
    "address.$SLURM_JOB_ID\n";

MERCURY_GEN_RPC_STUB(
    uint64_t, cluster_sum, ((hg_memory_in_t) (numbers)), ((int32_t) (error)))
MERCURY_GEN_RPC_STUB(uint32_t, cluster_done, ((uint32_t) (rank)), )

/* ---- Launchers ---- */

static bool cluster_number(const char *name, unsigned *number_p)
{
    const char *text = getenv(name);
    char *behind;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    *number_p = (unsigned) strtoul(text, &behind, 10);
    return *behind == '\0';
}

/* The order matters: an mpirun inside a Slurm job also passes on Slurm's
 * variables, which describe the step and not the rank. */
static bool cluster_rank(unsigned *rank_p, unsigned *size_p)
{
    static const char *const launchers[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, /* Open MPI */
        {"PMI_RANK", "PMI_SIZE"},                         /* MPICH, Intel */
        {"SLURM_PROCID", "SLURM_NTASKS"}};
    size_t i;

    for (i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (cluster_number(launchers[i][0], rank_p) &&
            cluster_number(launchers[i][1], size_p))
            return *rank_p < *size_p;
    return false;
}

/* ---- The file with the address ---- */

/* Write a new file and rename it, so that readers never see a part of it. */
static bool cluster_write_file(const char *path, const char *address)
{
    char fresh[4096];
    FILE *file = NULL;
    bool written;

    if (snprintf(fresh, sizeof(fresh), "%s.new", path) < (int) sizeof(fresh))
        file = fopen(fresh, "w");
    written = file != NULL && fprintf(file, "%s\n", address) > 0;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (written && rename(fresh, path) == 0)
        return true;
    (void) fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
}

static bool cluster_read_file(const char *path, char address[NA_MAX_ADDR_LEN])
{
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fgets(address, NA_MAX_ADDR_LEN, file) != NULL;

    if (file != NULL)
        (void) fclose(file);
    if (read)
        address[strcspn(address, "\n")] = '\0';
    return read;
}

/* ---- Server ---- */

static unsigned cluster_clients_left; /* clients that are not done */

uint64_t cluster_sum(hg_memory_t numbers, int32_t *error)
{
    static uint64_t piece[CLUSTER_PIECE];
    uint64_t sum = 0;
    size_t at, i;

    for (at = 0; at < numbers.size; at += sizeof(piece)) {
        size_t left = numbers.size - at;
        size_t size = left < sizeof(piece) ? left : sizeof(piece);

        *error = HG_Bulk_pull(numbers.call, numbers.bulk, at, piece, size);
        if (*error != HG_SUCCESS)
            return 0;
        for (i = 0; i < size / sizeof(piece[0]); i++)
            sum += piece[i];
    }
    return sum;
}

uint32_t cluster_done(uint32_t rank)
{
    printf("rank %u is done\n", (unsigned) rank);
    if (cluster_clients_left > 0)
        cluster_clients_left--;
    return cluster_clients_left;
}

static hg_return_t cluster_serve(
    const struct peer *peer, const char *path, unsigned clients)
{
    char address[NA_MAX_ADDR_LEN];
    hg_return_t ret =
        NA_Addr_to_string(peer->na_class, address, sizeof(address), peer->addr);

    if (ret != HG_SUCCESS)
        return ret;
    if (cluster_sum_provide() == 0 || cluster_done_provide() == 0)
        return HG_OTHER_ERROR; /* the library has logged the cause */
    cluster_clients_left = clients;
    if (!cluster_write_file(path, address))
        return HG_IO_ERROR;
    printf("serving %u clients at %s\n", clients, address);
    (void) fflush(stdout);
    ret = HG_SUCCESS;
    while (cluster_clients_left > 0 && !peer_is_stopped() &&
        (ret == HG_SUCCESS || ret == HG_TIMEOUT || ret == HG_INTR))
        ret = HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    (void) unlink(path);
    (void) HG_Drain(NULL, CLUSTER_DRAIN_MS); /* sends the last response */
    if (cluster_clients_left == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "%u clients are not done\n", cluster_clients_left);
    return HG_CANCELED;
}

/* ---- Clients ---- */

/* Wait for the file and look the server up. The lookup of an address of an
 * earlier job fails and is tried again, until the file has another address. */
static hg_return_t cluster_find(struct peer *peer, const char *path)
{
    const struct timespec pause = {0, CLUSTER_RETRY_MS * 1000000L};
    char address[NA_MAX_ADDR_LEN];
    time_t end = time(NULL) + CLUSTER_START_S;

    while (!peer_is_stopped() && time(NULL) < end) {
        if (cluster_read_file(path, address) &&
            NA_Addr_lookup_wait(peer->na_class, address, CLUSTER_LOOKUP_MS,
                &peer->addr) == NA_SUCCESS)
            return HG_SUCCESS;
        (void) nanosleep(&pause, NULL);
    }
    (void) fprintf(stderr, "%s: %s\n", path,
        peer_is_stopped() ? "interrupted" : "no server at its address");
    return HG_TIMEOUT;
}

static hg_return_t cluster_call(na_addr_t server, unsigned rank)
{
    static uint64_t numbers[CLUSTER_NUMBERS];
    uint64_t sum = 0, wanted = 0;
    uint32_t left;
    int32_t error = 0;
    hg_return_t ret;
    size_t i;

    for (i = 0; i < CLUSTER_NUMBERS; i++)
        wanted += numbers[i] = rank * i;
    ret = cluster_sum_call(
        server, CLUSTER_CALL_MS, numbers, sizeof(numbers), &error, &sum);
    ret = peer_report("sum", ret != HG_SUCCESS ? ret : error);
    if (ret != HG_SUCCESS)
        return ret;
    if (sum != wanted) {
        (void) fprintf(
            stderr, "the sum is %" PRIu64 ", not %" PRIu64 "\n", sum, wanted);
        return HG_CHECKSUM_ERROR;
    }
    printf("rank %u: the sum is %" PRIu64 "\n", rank, sum);
    return peer_report(
        "done", cluster_done_call(server, CLUSTER_CALL_MS, rank, &left));
}

static hg_return_t cluster_client(
    struct peer *peer, const char *path, unsigned rank)
{
    hg_return_t ret;

    if (cluster_sum_register() == 0 || cluster_done_register() == 0)
        return HG_OTHER_ERROR;
    ret = cluster_find(peer, path);
    return ret == HG_SUCCESS ? cluster_call(peer->addr, rank) : ret;
}

int main(int argc, char *argv[])
{
    struct peer peer;
    unsigned rank, size;
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "cluster", cluster_help))
        return 0;
    if (argc != 3)
        return usage_error("cluster", "expects ADDRESS and FILE");
    if (!cluster_rank(&rank, &size))
        return usage_error("cluster",
            "no rank in the environment: start it with mpirun or srun");
    peer_catch_signals();
    ret = rank == 0 ? peer_listen(&peer, argv[1]) : peer_open(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = rank == 0 ? cluster_serve(&peer, argv[2], size - 1)
                    : cluster_client(&peer, argv[2], rank);
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
