/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns: one process at a time connects to a port of Open MPI.
 *
 * In Open MPI 4.1 the two ends of a connection find each other at a name server
 * (of mpirun, or ompi-server), and know of each other only the name of the
 * port. Each end publishes a record there, NAME:connect or NAME:accept, and
 * waits for that of the other end. A record goes to the first that asks. So of
 * two processes that connect to a port at once, one can get the record of the
 * acceptor while the acceptor gets that of the other. All three then wait for
 * minutes.
 *
 * Here each connection has a port of its own, PORT/N, and a process connects
 * to it only after it took the acceptor's record, which one alone can get:
 *
 *     acceptor                   name server     connector
 *       publish PORT = N -------->
 *       MPI_Comm_accept(PORT/N):
 *         PORT/N:accept --------->
 *                                  <------------ look up PORT: N
 *                                  <------------ look up PORT/N:accept, which
 *                                                removes it: the turn is ours
 *                                  <------------ publish it again, with a mark
 *                                  <------------ MPI_Comm_connect(PORT/N)
 *
 * In Open MPI one connection of a process waits for another that is being made.
 * So processes that connect to each other, or in a circle, would wait for ever.
 * A process that has a port and connects publishes the port that it wants, as
 * PORT:to, before it takes a turn there. One that finds itself in a circle
 * withdraws, and tries again a little later.
 *
 * If the process that took a turn dies before it connects, the next one ends
 * the turn after NA_MPI_TURN_MS. Records stay at the name server when their
 * process has ended.
 *
 * These functions block until the name server has answered, and need no lock.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

#define NA_MPI_CIRCLE_MAX 32u /* longer chains count as circles */
#define NA_MPI_TURN_LEN (MPI_MAX_PORT_NAME + 16) /* PORT/N */
#define NA_MPI_RECORD_LEN (NA_MPI_TURN_LEN + 16) /* PORT/N:connect */

/* ---- Errors that return ---- */

/* An error of a function that has no communicator ends the process, unless
 * errors return. Which communicator it belongs to depends on the version of
 * MPI. */
struct na_mpi_calm {
    pthread_mutex_t lock;
    unsigned depth; /* changes that were not undone */
    MPI_Errhandler before[2];
};

static struct na_mpi_calm na_mpi_calm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void na_mpi_calm_change(bool begin)
{
    const MPI_Comm comms[2] = {MPI_COMM_SELF, MPI_COMM_WORLD};
    unsigned i;

    (void) pthread_mutex_lock(&na_mpi_calm.lock);
    assert(begin || na_mpi_calm.depth > 0);
    if (begin ? na_mpi_calm.depth++ == 0 : --na_mpi_calm.depth == 0) {
        for (i = 0; i < 2; i++) {
            if (begin) {
                (void) MPI_Comm_get_errhandler(
                    comms[i], &na_mpi_calm.before[i]);
                (void) MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
            } else {
                (void) MPI_Comm_set_errhandler(comms[i], na_mpi_calm.before[i]);
                (void) MPI_Errhandler_free(&na_mpi_calm.before[i]);
            }
        }
    }
    (void) pthread_mutex_unlock(&na_mpi_calm.lock);
}

#ifdef OPEN_MPI

/* ---- Records ---- */

/* False: there is none. */
static bool na_mpi_record_get(
    const char *record, char value[MPI_MAX_PORT_NAME + 1])
{
    int error;

    memset(value, 0, MPI_MAX_PORT_NAME + 1);
    na_mpi_calm_change(true);
    error = MPI_Lookup_name(record, MPI_INFO_NULL, value);
    na_mpi_calm_change(false);
    return error == MPI_SUCCESS && value[0] != '\0';
}

static int na_mpi_record_put(const char *record, const char *value)
{
    int error;

    na_mpi_calm_change(true);
    error = MPI_Publish_name(record, MPI_INFO_NULL, value);
    na_mpi_calm_change(false);
    return error;
}

/* Remove all that this process published by that name. */
static void na_mpi_record_drop(const char *record)
{
    na_mpi_calm_change(true);
    (void) MPI_Unpublish_name(record, MPI_INFO_NULL, "");
    na_mpi_calm_change(false);
}

/* ---- Turns ---- */

static void na_mpi_turn_name(
    char name[NA_MPI_TURN_LEN], const char *port, unsigned number)
{
    (void) snprintf(name, NA_MPI_TURN_LEN, "%s/%u", port, number);
}

/* The record of one end of a connection. */
static void na_mpi_turn_record(
    char record[NA_MPI_RECORD_LEN], const char *name, const char *end)
{
    (void) snprintf(record, NA_MPI_RECORD_LEN, "%s:%s", name, end);
}

/* The turn `number` of our port begins: its name, to accept by. An error of
 * MPI. */
static int na_mpi_turn_offer(
    const char *port, unsigned number, char name[NA_MPI_TURN_LEN])
{
    char value[16];

    na_mpi_turn_name(name, port, number);
    (void) snprintf(value, sizeof(value), "%u", number);
    na_mpi_record_drop(port);
    return na_mpi_record_put(port, value);
}

/* Our port `own` is not about to connect any more. */
static void na_mpi_turn_withdraw(const char *own)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_turn_record(record, own, "to");
    na_mpi_record_drop(record);
}

/* The process of the port `own` is about to connect to `port`, until
 * na_mpi_turn_withdraw. False: others would then wait in a circle; not now. */
static bool na_mpi_turn_aim(const char *own, const char *port)
{
    char record[NA_MPI_RECORD_LEN];
    char value[MPI_MAX_PORT_NAME + 1];
    unsigned i;

    na_mpi_turn_withdraw(own);
    na_mpi_turn_record(record, own, "to");
    if (na_mpi_record_put(record, port) != MPI_SUCCESS)
        return false;
    for (i = 0; i < NA_MPI_CIRCLE_MAX; i++) {
        na_mpi_turn_record(record, port, "to");
        if (!na_mpi_record_get(record, value))
            return true;
        if (strcmp(value, own) == 0)
            break;
        port = value;
    }
    na_mpi_turn_withdraw(own);
    return false;
}

/* Try to get a turn at the port. NULL: we have it, and na_mpi_turn_end ends it.
 * Otherwise why not; `name` is the turn that is another process's, or "". */
static const char *na_mpi_turn_take(
    const char *port, char name[NA_MPI_TURN_LEN])
{
    char record[NA_MPI_RECORD_LEN];
    char value[MPI_MAX_PORT_NAME + 1];
    unsigned long number;

    assert(port[0] != '\0');
    name[0] = '\0';
    if (!na_mpi_record_get(port, value) ||
        na_mpi_digits(value, UINT32_MAX, &number) == NULL)
        return "the name server does not know this port: its process has "
               "ended, or the jobs do not share an ompi-server";
    na_mpi_turn_name(name, port, (unsigned) number);
    na_mpi_turn_record(record, name, "accept");
    /* MPI ignores the mark, which tells this record from the acceptor's. */
    if (!na_mpi_record_get(record, value) || value[strlen(value) - 1] == ':')
        return "others are connecting to it, or it has died";
    if (strlen(value) + 1 < sizeof(value))
        memcpy(value + strlen(value), ":", sizeof(":"));
    if (na_mpi_record_put(record, value) != MPI_SUCCESS)
        return "MPI_Publish_name failed";
    return NULL;
}

/* MPI_Comm_connect has returned. */
static void na_mpi_turn_end(const char *name)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_turn_record(record, name, "accept");
    na_mpi_record_drop(record);
}

/* End the MPI_Comm_accept of a turn that nobody else is going to end: it is our
 * own, or the process that took it seems to have died. MPI writes two lines to
 * stderr there. No effect once the two ends have found each other. */
static void na_mpi_turn_break(const char *name)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_turn_record(record, name, "connect");
    (void) na_mpi_record_put(record, "closed");
}

/* Our port has no more turns after `number`. False: MPI_Comm_accept will not
 * end. */
static bool na_mpi_turn_close(const char *port, unsigned number)
{
    char name[NA_MPI_TURN_LEN];

    na_mpi_record_drop(port);
    na_mpi_turn_name(name, port, number);
    na_mpi_turn_break(name);
    return true;
}

#else /* an MPI whose ports serve any number of processes */

static int na_mpi_turn_offer(
    const char *port, unsigned number, char name[NA_MPI_TURN_LEN])
{
    (void) number;
    (void) snprintf(name, NA_MPI_TURN_LEN, "%s", port);
    return MPI_SUCCESS;
}

static void na_mpi_turn_withdraw(const char *own)
{
    (void) own;
}

static bool na_mpi_turn_aim(const char *own, const char *port)
{
    (void) own;
    (void) port;
    return true;
}

static const char *na_mpi_turn_take(
    const char *port, char name[NA_MPI_TURN_LEN])
{
    (void) na_mpi_turn_offer(port, 0, name);
    return NULL;
}

static void na_mpi_turn_end(const char *name)
{
    (void) name;
}

static void na_mpi_turn_break(const char *name)
{
    (void) name;
}

static bool na_mpi_turn_close(const char *port, unsigned number)
{
    (void) port;
    (void) number;
    return false;
}

#endif
