/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks: the processes of a test under MPI.
 *
 * MPI fixes the processes of a job when it starts them, so the harness cannot
 * fork peers there. Instead the case's process starts the same program again
 * with mpirun: `prog CASE` is rank 0 and runs the case, and `prog --rank` are
 * the others. They connect to a socket of rank 0 and wait for a role, which
 * hg_test_spawn gives them; the connection is the channel between the two until
 * the role ends. Then the rank connects again, and is the first to get another
 * role, so a peer that is restarted has the address of the former one. Ranks
 * without a role end with the case. A rank that ends in any other way, such as
 * a failing check, ends the whole job. Over mpi+dynamic each rank is a job.
 *
 * Only programs of the flavours ompi and mpich are linked with ranks.c; the
 * harness knows its functions as weak symbols.
 */
#ifndef HG_TESTS_MPI_RANKS_H
#define HG_TESTS_MPI_RANKS_H

#include <stdbool.h>
#include <sys/types.h>

#define RANKS_MAX_WORDS 32 /* of a role: its name and its arguments */

/* Under mpirun, become its rank 0. Otherwise let mpirun start `count` ranks,
 * and end with their status. With `apart` each rank is its own job, and an
 * ompi-server is started, by which they can connect. */
void ranks_launch(const char *program, const char *test_case, unsigned count,
    bool apart) __attribute__((weak));

/* Run `role` of this program in all ranks of a job, and wait for its end;
 * returns the exit status of mpirun, at most 255. If a signal ends it, the case
 * fails. */
int ranks_run(unsigned count, const char *role) __attribute__((weak));

struct ranks_job {
    unsigned count; /* of ranks */
    const char *role;
};

/* Run jobs that are started separately and find each other by an ompi-server.
 * All roles get the same argument, a path for their files. Returns as
 * ranks_run. */
int ranks_run_apart(const struct ranks_job *jobs, unsigned count)
    __attribute__((weak));

#define RANKS_TURN_LEN 300

/* Without hg: take the permit of an Open MPI port and connect to it; accept
 * connection `number`, counted from 1, at a port of this process. See
 * gen/mpi/permit.c. */
void ranks_take_turn(const char *port, char turn[RANKS_TURN_LEN])
    __attribute__((weak));
void ranks_offer_turn(const char *port, unsigned number,
    char turn[RANKS_TURN_LEN]) __attribute__((weak));

/* Rank 0: the channel to a rank that has no role yet, and its process; -1: none
 * is left. */
int ranks_take(pid_t *pid_p) __attribute__((weak));

/* Rank 0: the role of a rank has ended; it can get another one. */
void ranks_return(void) __attribute__((weak));

/* Rank 0: the case is skipped. */
void ranks_skip(void) __attribute__((weak));

/* Another rank: a channel to rank 0, for one role. */
int ranks_join(void) __attribute__((weak));

/* At the end of a case or a rank. Rank 0 ends those without a role. */
void ranks_leave(void) __attribute__((weak));

#endif
