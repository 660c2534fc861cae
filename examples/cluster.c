/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster: a server and its clients, started together by a launcher.
 *
 *     mpirun -n 4 cluster ADDRESS FILE
 *     srun -n 4 cluster ADDRESS FILE
 *
 * Rank 0 serves and writes its address to FILE, which all nodes can read. The
 * others wait for the file, call the server, and tell it when they are done.
 * The server ends with the last one. MPI is not used: the launcher puts the
 * rank into the environment.
 *
 *     rank 0                        ranks 1 to N - 1
 *       listen
 *       write FILE.new, rename  --> read FILE, look the server up
 *       sum up <-- pull ----------- cluster_sum(numbers)
 *       count  <------------------- cluster_done(rank)
 *       all done: remove FILE, drain, end
 *
 * ADDRESS is the same for all ranks, so it names no single host: "ofi+tcp://",
 * "ofi+verbs://ib0", "ofi+tcp://;sm://", "zmq+tcp://0.0.0.0", "sm://".
 *
 * FILE should be new for each job, as address.$SLURM_JOB_ID is. If an old one
 * is there, clients try its address until the server has replaced it.
 *
 * A client that fails ends with status 1. mpirun then ends the other ranks by
 * SIGTERM; srun does so with --kill-on-bad-exit.
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
#include "stop.h"

#define CLUSTER_NUMBERS 1000000u /* 8 MB, pulled from each client */
#define CLUSTER_PIECE 65536u     /* of them, pulled at a time */
#define CLUSTER_CALL_MS 30000u
#define CLUSTER_START_S 60  /* until the server must be there */
#define CLUSTER_LOOK_MS 200 /* between two tries */
#define CLUSTER_LOOKUP_MS 5000u
#define CLUSTER_DRAIN_MS 5000u

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

/* An mpirun within a Slurm job sees Slurm's variables, too. They are of the
 * step that mpirun runs in, so they come last. */
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

/* Readers see the whole file or none: it gets its name when it is complete. */
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

static unsigned cluster_waits_for; /* clients that are not done */

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
    if (cluster_waits_for > 0)
        cluster_waits_for--;
    return cluster_waits_for;
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
        return HG_OTHER_ERROR; /* the library has said why */
    cluster_waits_for = clients;
    if (!cluster_write_file(path, address))
        return HG_IO_ERROR;
    printf("serving %u clients at %s\n", clients, address);
    (void) fflush(stdout);
    ret = HG_SUCCESS;
    while (cluster_waits_for > 0 && !stop_wanted() &&
        (ret == HG_SUCCESS || ret == HG_TIMEOUT || ret == HG_INTR))
        ret = HG_Handler_process(500, HG_STATUS_IGNORE);
    (void) unlink(path);
    (void) HG_Drain(NULL, CLUSTER_DRAIN_MS); /* the last answer leaves */
    if (cluster_waits_for == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "%u clients are not done\n", cluster_waits_for);
    return HG_CANCELED;
}

/* ---- Clients ---- */

/* Wait for the file and find the server. An address of an earlier job leads
 * nowhere, and is tried until the file has another one. */
static hg_return_t cluster_find(struct peer *peer, const char *path)
{
    const struct timespec pause = {0, CLUSTER_LOOK_MS * 1000000L};
    char address[NA_MAX_ADDR_LEN];
    time_t end = time(NULL) + CLUSTER_START_S;

    while (!stop_wanted() && time(NULL) < end) {
        if (cluster_read_file(path, address) &&
            NA_Addr_lookup_wait(peer->na_class, address, CLUSTER_LOOKUP_MS,
                &peer->addr) == NA_SUCCESS)
            return HG_SUCCESS;
        (void) nanosleep(&pause, NULL);
    }
    (void) fprintf(stderr, "%s: %s\n", path,
        stop_wanted() ? "interrupted" : "no server is at its address");
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
    ret = peer_say("sum", ret != HG_SUCCESS ? ret : error);
    if (ret != HG_SUCCESS)
        return ret;
    if (sum != wanted) {
        (void) fprintf(
            stderr, "the sum is %" PRIu64 ", not %" PRIu64 "\n", sum, wanted);
        return HG_CHECKSUM_ERROR;
    }
    printf("rank %u: the sum is %" PRIu64 "\n", rank, sum);
    return peer_say(
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

    if (argc != 3) {
        (void) fprintf(stderr, "usage: mpirun -n 4 cluster ADDRESS FILE\n");
        return 2;
    }
    if (!cluster_rank(&rank, &size)) {
        (void) fprintf(stderr,
            "cluster: no rank of Open MPI, MPICH or Slurm in the "
            "environment: start it by mpirun or srun\n");
        return 2;
    }
    stop_on_signals();
    ret = rank == 0 ? peer_listen(&peer, argv[1]) : peer_join(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = rank == 0 ? cluster_serve(&peer, argv[2], size - 1)
                    : cluster_client(&peer, argv[2], rank);
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
