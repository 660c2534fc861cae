/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses MPI alone, with which the figures of mpi+static:// are
 * compared. It encodes and dispatches nothing: its results are an upper bound.
 *
 * One rank is the client and decides what a round does. Another one serves a
 * round at a time. Between rounds neither waits in MPI, so that a benchmark can
 * alternate its own rounds with these. Messages have their own communicator.
 * The caller initializes MPI. This header is independent of hg.h.
 */
#ifndef HG_TESTS_PERF_RAW_MPI_H
#define HG_TESTS_PERF_RAW_MPI_H

#include <stddef.h>
#include <stdint.h>

/* The kind of a round: messages in both directions, or transfers from the
 * client to the server in messages of RAW_MPI_PIECE bytes, each answered when
 * all of it has arrived. */
enum raw_mpi_kind { RAW_MPI_ECHO, RAW_MPI_STREAM };

/* MPI_Send and MPI_Recv, or MPI_Isend and receives posted before. */
enum raw_mpi_way { RAW_MPI_BLOCKS, RAW_MPI_STARTS };

#define RAW_MPI_PIECE ((size_t) 1 << 20)
#define RAW_MPI_WINDOW_MAX 64
#define RAW_MPI_ECHO_MAX ((size_t) 65536)
#define RAW_MPI_STREAM_MAX ((size_t) 1 << 30)

struct raw_mpi_round {
    uint64_t kind;
    uint64_t way;    /* for echoes, RAW_MPI_BLOCKS requires a window of 1 */
    uint64_t size;   /* of an echo, or of a transfer; a multiple of 8 */
    uint64_t window; /* echoes in flight, 1 to RAW_MPI_WINDOW_MAX */
    /* The round takes at least this long; negative: no more rounds follow. */
    double seconds;
};

struct raw_mpi;

/* All ranks of MPI_COMM_WORLD call these together. Returns -1 after a line on
 * stderr. */
int raw_mpi_open(struct raw_mpi **raw_p);
void raw_mpi_close(struct raw_mpi *raw);

/* At the client: announce a round to the rank that serves; ask until it has
 * accepted it (1); then run it. Returns the seconds of one operation. The data
 * is compared with what was sent: each echo, and the last transfer after the
 * measured time. Returns -1 after a line on stderr. */
int raw_mpi_announce(
    struct raw_mpi *raw, int server, const struct raw_mpi_round *round);
int raw_mpi_is_taken(struct raw_mpi *raw);
int raw_mpi_run(struct raw_mpi *raw, double *per_op_p);

/* At the server: wait for a round of that client and run it. Returns 1 if there
 * are no more, -1 after a line on stderr. */
int raw_mpi_serve(struct raw_mpi *raw, int client);

#endif /* HG_TESTS_PERF_RAW_MPI_H */
