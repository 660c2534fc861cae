/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Permits: one process at a time connects to a port of Open MPI.
 *
 * In Open MPI 4.1 the two ends of a connection find each other through a name
 * server (of mpirun, or ompi-server). They only know the name of the port. Each
 * end publishes a record there, NAME:connect or NAME:accept, and waits for the
 * record of the other end. A lookup removes the record. If two processes
 * connect to a port at once, one of them can get the acceptor's record while
 * the acceptor gets the record of the other. All three then wait for minutes.
 *
 * Therefore each connection has its own port, PORT/N. A process connects to it
 * only after it has taken the acceptor's record. That record is the permit:
 * only one process can take it.
 *
 *     acceptor                   name server     connector
 *       publish PORT = N -------->
 *       MPI_Comm_accept(PORT/N):
 *         PORT/N:accept --------->
 *                                  <------------ look up PORT: N
 *                                  <------------ look up PORT/N:accept, which
 *                                                removes it: permit taken
 *                                  <------------ publish it again, with a mark
 *                                  <------------ MPI_Comm_connect(PORT/N)
 *
 * In Open MPI a process makes one connection at a time. Processes that connect
 * to each other, or in a circle, would wait for ever. Therefore a process that
 * has a port publishes the port it connects to, as PORT:to, before it takes the
 * permit. A process that is part of a circle withdraws and tries again later.
 *
 * If the process that took a permit dies before it connects, the next process
 * revokes the permit after NA_MPI_PERMIT_MS. Records stay at the name server
 * after their process has ended.
 *
 * These functions block until the name server has answered. They need no lock.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

#define NA_MPI_CIRCLE_MAX 32u /* longer chains count as circles */
#define NA_MPI_PERMIT_LEN (MPI_MAX_PORT_NAME + 16) /* PORT/N */
#define NA_MPI_RECORD_LEN (NA_MPI_PERMIT_LEN + 16) /* PORT/N:connect */

/* ---- Errors that return ---- */

/* An error of a function without a communicator aborts the process, unless the
 * error handler of MPI_COMM_SELF or MPI_COMM_WORLD returns errors. Which of the
 * two is used depends on the version of MPI. */
struct na_mpi_errhandler {
    pthread_mutex_t lock;
    unsigned depth; /* changes that were not undone */
    MPI_Errhandler before[2];
};

static struct na_mpi_errhandler na_mpi_errhandler = {
    .lock = PTHREAD_MUTEX_INITIALIZER};

static void na_mpi_errhandler_change(bool begin)
{
    const MPI_Comm comms[2] = {MPI_COMM_SELF, MPI_COMM_WORLD};
    unsigned i;

    (void) pthread_mutex_lock(&na_mpi_errhandler.lock);
    HG_ASSERT(begin || na_mpi_errhandler.depth > 0);
    if (begin ? na_mpi_errhandler.depth++ == 0
              : --na_mpi_errhandler.depth == 0) {
        for (i = 0; i < 2; i++) {
            if (begin) {
                (void) MPI_Comm_get_errhandler(
                    comms[i], &na_mpi_errhandler.before[i]);
                (void) MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
            } else {
                (void) MPI_Comm_set_errhandler(
                    comms[i], na_mpi_errhandler.before[i]);
                (void) MPI_Errhandler_free(&na_mpi_errhandler.before[i]);
            }
        }
    }
    (void) pthread_mutex_unlock(&na_mpi_errhandler.lock);
}

#ifdef OPEN_MPI

/* ---- Records ---- */

/* Take a record from the name server. False: there is none. */
static bool na_mpi_record_get(
    const char *record, char value[MPI_MAX_PORT_NAME + 1])
{
    int error;

    memset(value, 0, MPI_MAX_PORT_NAME + 1);
    na_mpi_errhandler_change(true);
    error = MPI_Lookup_name(record, MPI_INFO_NULL, value);
    na_mpi_errhandler_change(false);
    return error == MPI_SUCCESS && value[0] != '\0';
}

static int na_mpi_record_put(const char *record, const char *value)
{
    int error;

    na_mpi_errhandler_change(true);
    error = MPI_Publish_name(record, MPI_INFO_NULL, value);
    na_mpi_errhandler_change(false);
    return error;
}

/* Remove all records that this process published with that name. */
static void na_mpi_record_drop(const char *record)
{
    na_mpi_errhandler_change(true);
    (void) MPI_Unpublish_name(record, MPI_INFO_NULL, "");
    na_mpi_errhandler_change(false);
}

/* ---- Turns ---- */

static void na_mpi_permit_name(
    char name[NA_MPI_PERMIT_LEN], const char *port, unsigned number)
{
    (void) snprintf(name, NA_MPI_PERMIT_LEN, "%s/%u", port, number);
}

/* The record of one end of a connection. */
static void na_mpi_permit_record(
    char record[NA_MPI_RECORD_LEN], const char *name, const char *end)
{
    (void) snprintf(record, NA_MPI_RECORD_LEN, "%s:%s", name, end);
}

/* Offer the permit `number` of the own port; `name` is the port to accept with.
 * Returns an error of MPI. */
static int na_mpi_permit_offer(
    const char *port, unsigned number, char name[NA_MPI_PERMIT_LEN])
{
    char value[16];

    na_mpi_permit_name(name, port, number);
    (void) snprintf(value, sizeof(value), "%u", number);
    na_mpi_record_drop(port);
    return na_mpi_record_put(port, value);
}

/* The process of the port `own` no longer connects. */
static void na_mpi_permit_withdraw(const char *own)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_permit_record(record, own, "to");
    na_mpi_record_drop(record);
}

/* Publish that the process of the port `own` connects to `port`, until
 * na_mpi_permit_withdraw. False: processes would wait for each other in a
 * circle, so it must not connect now. */
static bool na_mpi_permit_announce(const char *own, const char *port)
{
    char record[NA_MPI_RECORD_LEN];
    char value[MPI_MAX_PORT_NAME + 1];
    unsigned i;

    na_mpi_permit_withdraw(own);
    na_mpi_permit_record(record, own, "to");
    if (na_mpi_record_put(record, port) != MPI_SUCCESS)
        return false;
    for (i = 0; i < NA_MPI_CIRCLE_MAX; i++) {
        na_mpi_permit_record(record, port, "to");
        if (!na_mpi_record_get(record, value))
            return true;
        if (strcmp(value, own) == 0)
            break;
        port = value;
    }
    na_mpi_permit_withdraw(own);
    return false;
}

/* Try to take the permit of the port. NULL: taken, and na_mpi_permit_end gives
 * it back. Otherwise the reason; `name` is the port of the connection whose
 * permit another process holds, or "". */
static const char *na_mpi_permit_take(
    const char *port, char name[NA_MPI_PERMIT_LEN])
{
    char record[NA_MPI_RECORD_LEN];
    char value[MPI_MAX_PORT_NAME + 1];
    unsigned long number;

    HG_ASSERT(port[0] != '\0');
    name[0] = '\0';
    if (!na_mpi_record_get(port, value) ||
        na_mpi_digits(value, UINT32_MAX, &number) == NULL)
        return "the name server does not know this port: its process has "
               "ended, or the jobs do not share an ompi-server";
    na_mpi_permit_name(name, port, (unsigned) number);
    na_mpi_permit_record(record, name, "accept");
    /* MPI ignores the mark, which distinguishes this record from the
     * acceptor's. */
    if (!na_mpi_record_get(record, value) || value[strlen(value) - 1] == ':')
        return "others are connecting to it, or it has died";
    if (strlen(value) + 1 < sizeof(value))
        memcpy(value + strlen(value), ":", sizeof(":"));
    if (na_mpi_record_put(record, value) != MPI_SUCCESS)
        return "MPI_Publish_name failed";
    return NULL;
}

/* MPI_Comm_connect has returned. */
static void na_mpi_permit_end(const char *name)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_permit_record(record, name, "accept");
    na_mpi_record_drop(record);
}

/* End an MPI_Comm_accept whose permit nobody will use: this process accepts, or
 * the process that took the permit seems to have died. MPI in the acceptor then
 * writes two lines to stderr. No effect once the two ends have found each
 * other. */
static void na_mpi_permit_revoke(const char *name)
{
    char record[NA_MPI_RECORD_LEN];

    na_mpi_permit_record(record, name, "connect");
    (void) na_mpi_record_put(record, "closed");
}

/* Offer no permit after `number` at the own port. False: MPI_Comm_accept will
 * not end. */
static bool na_mpi_permit_close(const char *port, unsigned number)
{
    char name[NA_MPI_PERMIT_LEN];

    na_mpi_record_drop(port);
    na_mpi_permit_name(name, port, number);
    na_mpi_permit_revoke(name);
    return true;
}

#else /* an MPI whose ports serve any number of processes */

static int na_mpi_permit_offer(
    const char *port, unsigned number, char name[NA_MPI_PERMIT_LEN])
{
    (void) number;
    (void) snprintf(name, NA_MPI_PERMIT_LEN, "%s", port);
    return MPI_SUCCESS;
}

static void na_mpi_permit_withdraw(const char *own)
{
    (void) own;
}

static bool na_mpi_permit_announce(const char *own, const char *port)
{
    (void) own;
    (void) port;
    return true;
}

static const char *na_mpi_permit_take(
    const char *port, char name[NA_MPI_PERMIT_LEN])
{
    (void) na_mpi_permit_offer(port, 0, name);
    return NULL;
}

static void na_mpi_permit_end(const char *name)
{
    (void) name;
}

static void na_mpi_permit_revoke(const char *name)
{
    (void) name;
}

static bool na_mpi_permit_close(const char *port, unsigned number)
{
    (void) port;
    (void) number;
    return false;
}

#endif
