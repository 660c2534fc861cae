/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State shared by the classes of a process: the lock, start and end of MPI, and
 * error codes for errors of MPI.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

struct na_mpi_job {
    pthread_mutex_t lock;
    struct na_link classes;      /* na_mpi_class */
    bool begun;                  /* `classes` is initialized */
    bool watched;                /* na_mpi_job_ends will be called */
    bool ended;                  /* this file has called MPI_Finalize */
    _Atomic pid_t pid;           /* the process that uses MPI; 0: none yet */
    int level;                   /* MPI_THREAD_... */
    unsigned numbers;            /* numbers given to classes */
    unsigned bodies;             /* bodies requested, to choose their tags */
    bool used[NA_MPI_BODY_TAGS]; /* the tag is in use by a receive */
};

static struct na_mpi_job na_mpi_job = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static void na_mpi_lock(void)
{
    int rc = pthread_mutex_lock(&na_mpi_job.lock);

    HG_ASSERT(rc == 0);
    (void) rc;
}

static void na_mpi_unlock(void)
{
    int rc = pthread_mutex_unlock(&na_mpi_job.lock);

    HG_ASSERT(rc == 0);
    (void) rc;
}

/* ---- Errors ---- */

static na_return_t na_mpi_code(int error)
{
    int kind = MPI_ERR_OTHER;

    (void) MPI_Error_class(error, &kind);
    switch (kind) {
    case MPI_ERR_NO_MEM: return NA_NOMEM;
    case MPI_ERR_TRUNCATE: return NA_MSGSIZE;
    case MPI_ERR_ARG:
    case MPI_ERR_COMM:
    case MPI_ERR_RANK:
    case MPI_ERR_TAG: return NA_INVALID_ARG;
    case MPI_ERR_NAME:
    case MPI_ERR_PORT:
    case MPI_ERR_SERVICE: return NA_HOSTUNREACH;
    default: return NA_IO_ERROR;
    }
}

/* The text of an MPI error, several lines joined to one. */
static void na_mpi_text(int error, char text[MPI_MAX_ERROR_STRING])
{
    int size = 0;
    char *p;

    text[0] = '\0';
    (void) MPI_Error_string(error, text, &size);
    for (p = text; *p != '\0'; p++) {
        if (*p == '\n')
            *p = ' ';
    }
}

/* Log why a function of MPI failed. Returns the error code. A truncation error
 * is caused by a peer. */
static na_return_t na_mpi_failed(
    struct na_mpi_class *self, const char *what, const char *which, int error)
{
    char text[MPI_MAX_ERROR_STRING];
    na_return_t ret = na_mpi_code(error);
    bool too_long = ret == NA_MSGSIZE;

    na_mpi_text(error, text);
    if (too_long)
        self->base.core->count(&self->base, "mpi_malformed", 1);
    self->base.core->log(too_long ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR,
        "mpi", "%s %s: %s", what, which, text);
    return ret;
}

/* ---- The beginning and the end of MPI ---- */

static const char *na_mpi_level_name(int level)
{
    return level == MPI_THREAD_SINGLE    ? "MPI_THREAD_SINGLE"
        : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
        : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                         : "MPI_THREAD_MULTIPLE";
}

/* Log the classes that are open in MPI_Finalize. The lock is held. */
static void na_mpi_job_name_open(int level)
{
    struct na_link *link;

    for (link = na_mpi_job.classes.next; link != &na_mpi_job.classes;
         link = link->next) {
        const struct na_class *na_class =
            &NA_MPI_OF(link, struct na_mpi_class, link)->base;

        na_class->core->log(level, "mpi",
            "MPI_Finalize is called while %s is open: what uses that class "
            "from now on ends the process. Call NA_Finalize first",
            na_class->self_addr != NULL ? na_class->self_addr->name
                                        : "a class");
    }
}

/* MPI calls this when MPI_Finalize begins. */
static int na_mpi_job_ends(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) value;
    (void) extra;
    if (!na_mpi_job.ended) {
        na_mpi_lock();
        na_mpi_job_name_open(HG_LOG_LEVEL_ERROR);
        na_mpi_unlock();
    }
    na_mpi_port_end();
    return MPI_SUCCESS;
}

/* The lock is held. */
static na_return_t na_mpi_job_watch(struct na_mpi_class *self)
{
    int key = MPI_KEYVAL_INVALID;
    int error;

    if (na_mpi_job.watched)
        return NA_SUCCESS;
    error = MPI_Comm_create_keyval(
        MPI_COMM_NULL_COPY_FN, na_mpi_job_ends, &key, NULL);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    if (error != MPI_SUCCESS)
        return na_mpi_failed(self, "cannot watch for", "MPI_Finalize", error);
    na_mpi_job.watched = true;
    return NA_SUCCESS;
}

/* The process ends. MPI_Finalize waits for the other processes of the job, so a
 * process that failed ends the job instead: its status is that of mpirun. An
 * end without a call would leave mpirun the choice between its status and the
 * signal that ends the others. */
static void na_mpi_job_end(int status)
{
    int finalized = 0;

    if (getpid() != atomic_load(&na_mpi_job.pid))
        return;
    (void) MPI_Finalized(&finalized);
    if (finalized)
        return;
    if (status != 0)
        (void) MPI_Abort(MPI_COMM_WORLD, status);
    na_mpi_port_end(); /* its threads need the lock */
    na_mpi_lock();     /* never released: no thread calls MPI any more */
    na_mpi_job_name_open(HG_LOG_LEVEL_WARNING);
    na_mpi_job.ended = true;
    (void) MPI_Finalize();
}

#ifdef __GLIBC__
static void na_mpi_job_exit(int status, void *arg)
{
    (void) arg;
    na_mpi_job_end(status);
}
#else
static void na_mpi_job_exit(void)
{
    na_mpi_job_end(0);
}
#endif

/* MPI takes so many while it is initialized, on one node. With fewer, Open MPI
 * 4.1 and MPICH 4.0 end the process. */
#define NA_MPI_FDS 16u
#define NA_MPI_THREADS 4u

/* Initialize MPI. NA_AGAIN, NA_NOMEM, NA_IO_ERROR (logged). The lock is
 * held. */
static na_return_t na_mpi_job_initialise(struct na_mpi_class *self)
{
    na_return_t ret =
        na_plug_check_needs(&self->base, "mpi", NA_MPI_FDS, NA_MPI_THREADS);
    int error, rc;

    if (ret != NA_SUCCESS)
        return ret;
    error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &na_mpi_job.level);
    if (error != MPI_SUCCESS)
        return na_mpi_failed(self, "cannot initialize", "MPI", error);
    (void) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void) MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#ifdef __GLIBC__
    rc = on_exit(na_mpi_job_exit, NULL);
#else
    rc = atexit(na_mpi_job_exit);
#endif
    return rc == 0 ? NA_SUCCESS : NA_NOMEM;
}

/* Whether this is a child of the process that uses MPI, and so cannot use it
 * (logged). Without the lock, which a thread of the parent may have held at
 * fork. */
static bool na_mpi_job_is_forked(const struct na_mpi_class *self)
{
    pid_t pid = atomic_load(&na_mpi_job.pid);

    if (pid == 0 || pid == getpid())
        return false;
    self->base.core->log(HG_LOG_LEVEL_ERROR, "mpi",
        "MPI was initialized before fork: only the parent can use it");
    return true;
}

/* Ensure that MPI is initialized. NA_OPNOTSUPPORT: not for threads; NA_FAULT:
 * it was finalized (both logged). The lock is held. */
static na_return_t na_mpi_job_begin(struct na_mpi_class *self)
{
    const struct na_core *core = self->base.core;
    int initialised = 0;
    int finalized = 0;
    na_return_t ret = NA_SUCCESS;

    (void) MPI_Initialized(&initialised);
    (void) MPI_Finalized(&finalized);
    if (finalized) {
        core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "MPI was finalized, and cannot be initialized again");
        return NA_FAULT;
    }
    if (!na_mpi_job.begun)
        na_plug_list_init(&na_mpi_job.classes);
    na_mpi_job.begun = true;
    atomic_store(&na_mpi_job.pid, getpid());
    if (!initialised)
        ret = na_mpi_job_initialise(self);
    else
        (void) MPI_Query_thread(&na_mpi_job.level);
    if (ret == NA_SUCCESS && na_mpi_job.level < MPI_THREAD_SERIALIZED) {
        core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "MPI was initialized with %s: MPI_THREAD_SERIALIZED or "
            "MPI_THREAD_MULTIPLE is needed (MPI_Init_thread)",
            na_mpi_level_name(na_mpi_job.level));
        return NA_OPNOTSUPPORT;
    }
    return ret == NA_SUCCESS ? na_mpi_job_watch(self) : ret;
}

/* Whether a class of the process has this number. The lock is held. */
static bool na_mpi_job_has(unsigned number)
{
    struct na_link *link;

    for (link = na_mpi_job.classes.next; link != &na_mpi_job.classes;
         link = link->next) {
        if (NA_MPI_OF(link, struct na_mpi_class, link)->number == number)
            return true;
    }
    return false;
}
