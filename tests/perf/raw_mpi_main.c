/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_mpi: the program that uses MPI alone; see raw_mpi.h for its purpose.
 *
 * mpicc -O2 tests/perf/raw_mpi.c tests/perf/raw_mpi_main.c -o raw_mpi
 * mpirun -n 2 raw_mpi [SECONDS [single|serialized|multiple]]
 *     prints a line for each figure, with that level of threads
 *
 * hg_perf links raw_mpi.c without this file.
 */
#include "raw_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

static int raw_mpi_figure(
    struct raw_mpi *raw, const struct raw_mpi_round *round)
{
    const char *way = round->way == RAW_MPI_BLOCKS ? "blocks" : "starts";
    double per_op;

    if (raw_mpi_announce(raw, 0, round) != 0 || raw_mpi_run(raw, &per_op) != 0)
        return -1;
    if (round->seconds < 0)
        return 0;
    if (round->kind == RAW_MPI_ECHO)
        printf("raw_mpi echo %s size=%lu window=%lu us_per_op=%.3f "
               "ops_per_s=%.0f\n",
            way, (unsigned long) round->size, (unsigned long) round->window,
            per_op * 1e6, 1 / per_op);
    else
        printf("raw_mpi stream %s size=%lu gb_per_s=%.3f\n", way,
            (unsigned long) round->size, (double) round->size / per_op * 1e-9);
    (void) fflush(stdout);
    return 0;
}

static int raw_mpi_figures(struct raw_mpi *raw, double seconds)
{
    static const struct raw_mpi_round rounds[] = {
        {RAW_MPI_ECHO, RAW_MPI_BLOCKS, 64, 1, 0},
        {RAW_MPI_ECHO, RAW_MPI_STARTS, 64, 1, 0},
        {RAW_MPI_ECHO, RAW_MPI_STARTS, 64, 64, 0},
        {RAW_MPI_ECHO, RAW_MPI_STARTS, 65536, 64, 0},
        {RAW_MPI_STREAM, RAW_MPI_BLOCKS, 64 << 20, 1, 0},
        {RAW_MPI_STREAM, RAW_MPI_STARTS, 64 << 20, 1, 0},
        {RAW_MPI_ECHO, RAW_MPI_BLOCKS, 64, 1, -1}};
    size_t i;

    for (i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        struct raw_mpi_round round = rounds[i];

        if (round.seconds >= 0)
            round.seconds = seconds;
        if (raw_mpi_figure(raw, &round) != 0)
            return -1;
    }
    return 0;
}

/* A lower level of thread support suffices. */
static int raw_mpi_level(const char *name)
{
    return strcmp(name, "single") == 0  ? MPI_THREAD_SINGLE
        : strcmp(name, "multiple") == 0 ? MPI_THREAD_MULTIPLE
                                        : MPI_THREAD_SERIALIZED;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    struct raw_mpi *raw;
    int level;
    int rank;
    int size;
    int rc = -1;

    (void) MPI_Init_thread(
        &argc, &argv, raw_mpi_level(argc > 2 ? argv[2] : "serialized"), &level);
    (void) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "usage: mpirun -n 2 raw_mpi [SECONDS [LEVEL]]\n");
    } else if (raw_mpi_open(&raw) == 0) {
        if (rank == 1)
            rc = raw_mpi_figures(raw, seconds);
        else
            rc = 0;
        while (rank == 0 && rc == 0)
            rc = raw_mpi_serve(raw, 1);
        raw_mpi_close(raw);
    }
    if (rc < 0)
        (void) MPI_Abort(MPI_COMM_WORLD, 1);
    (void) MPI_Finalize();
    return 0;
}
