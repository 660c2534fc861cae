/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks: starts a job, and finds its ranks. All ranks initialize MPI by
 * themselves: MPI_Init of one waits for the others, and MPICH ends a job only
 * for a rank that fails after MPI_Init. In tests/mpi/test_*.c hg initializes
 * it.
 */
#define _GNU_SOURCE 1
#include "mpi/ranks.h"

#include "harness.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_ADDRESS "HG_TEST_RANKS" /* where rank 0 listens */
#define RANKS_COUNT "HG_TEST_RANK_COUNT"
#define RANKS_MAX 8

#ifdef OPEN_MPI
#define RANKS_MPIRUN "mpirun.openmpi"
#else
#define RANKS_MPIRUN "mpirun.mpich"
#endif

/* In rank 0: the listening socket, and the channels to ranks without a role;
 * the one that had a role last is on top. */
static int ranks_listener;
static int ranks_idle[RANKS_MAX];
static unsigned ranks_idle_count;

static struct sockaddr_un ranks_address(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s",
        getenv(RANKS_ADDRESS));

    HG_CHECK(n > 0 && (size_t) n < sizeof(address.sun_path));
    return address;
}

/* There are more ranks than processors, and the user may be root. Open MPI uses
 * ob1 on one node; if it is named, the start of a job takes half the time. */
static void ranks_set_environment(void)
{
    static const char *const variables[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_mpi_yield_when_idle", "1"},
        {"OMPI_MCA_pml", "ob1"},
    };
    size_t i;

    for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        HG_CHECK(!setenv(variables[i][0], variables[i][1], 1));
}

void ranks_return(void)
{
    int channel;

    do
        channel = accept4(ranks_listener, NULL, NULL, SOCK_CLOEXEC);
    while (channel < 0 && errno == EINTR);
    HG_CHECK(channel >= 0 && ranks_idle_count < RANKS_MAX);
    ranks_idle[ranks_idle_count++] = channel;
}

/* Rank 0 accepts all others before MPI_Init. */
static void ranks_gather(void)
{
    struct sockaddr_un address = ranks_address();
    unsigned long count = strtoul(getenv(RANKS_COUNT), NULL, 10);

    ranks_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HG_CHECK(ranks_listener >= 0);
    HG_CHECK(
        !bind(ranks_listener, (struct sockaddr *) &address, sizeof(address)));
    HG_CHECK(!listen(ranks_listener, SOMAXCONN));
    while (ranks_idle_count + 1 < count)
        ranks_return();
}

static void ranks_init(void)
{
    int got;

    HG_CHECK_EQ_INT(MPI_Initialized(&got), MPI_SUCCESS);
    if (got)
        return;
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &got), MPI_SUCCESS);
    HG_CHECK_EQ_INT(got, MPI_THREAD_MULTIPLE);
}

/* After a skipped case mpirun ends the other ranks, and may exit with their
 * status, not with that of rank 0. So rank 0 creates a file. */
static void ranks_skip_file(char *path, size_t size)
{
    (void) snprintf(path, size, "%s-skipped", getenv(RANKS_ADDRESS));
}

void ranks_skip(void)
{
    char path[128];
    FILE *file;

    ranks_skip_file(path, sizeof(path));
    file = fopen(path, "w");
    HG_CHECK(file != NULL && fclose(file) == 0);
}

/* ---- Jobs ---- */

static pid_t ranks_jobs[RANKS_MAX]; /* process id of mpirun; 0: it has ended */
static unsigned ranks_job_count;
/* The ompi-server, by which jobs of Open MPI find each other; or 0. */
static pid_t ranks_server;

static pid_t ranks_execute(const char *const *words)
{
    pid_t pid = fork();

    HG_CHECK(pid >= 0);
    if (pid != 0)
        return pid;
    (void) execvp(words[0], (char *const *) (uintptr_t) words);
    hg_test_fail(HG_TEST_HERE, "%s: %s", words[0], strerror(errno));
}

static void ranks_start(const char *const *words)
{
    HG_CHECK(ranks_job_count < RANKS_MAX);
    ranks_jobs[ranks_job_count++] = ranks_execute(words);
}

static void ranks_report_all(int signal_number)
{
    unsigned i;

    for (i = 0; i < ranks_job_count; i++)
        if (ranks_jobs[i] != 0)
            (void) kill(ranks_jobs[i], signal_number);
}

/* Wait for all jobs, and for ranks that mpirun only asked to end. A job that
 * fails ends the others. Returns the status of the first that failed; -1: a
 * signal. */
static int ranks_wait(void)
{
    unsigned left = ranks_job_count;
    int first = 0;

    HG_CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    for (;;) {
        int status;
        pid_t pid = wait(&status);
        unsigned i = 0;

        if (pid < 0 && errno != EINTR) {
            ranks_job_count = 0;
            return first;
        }
        while (i < ranks_job_count && ranks_jobs[i] != pid)
            i++;
        if (pid < 0 || i == ranks_job_count)
            continue;
        ranks_jobs[i] = 0;
        if (status != 0 && first == 0) {
            first = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            ranks_report_all(SIGTERM);
        }
        if (--left == 0 && ranks_server != 0)
            (void) kill(ranks_server, SIGTERM);
    }
}

/* Start the server; `uri` is its address: a file, named after `path`. */
static void ranks_serve(const char *path, char *uri, size_t size)
{
    const char *const words[] = {
        "ompi-server", "--no-daemonize", "--report-uri", uri + 5, NULL};
    const struct timespec tick = {0, 5000000};

    (void) snprintf(uri, size, "file:%s-server", path);
    ranks_server = ranks_execute(words);
    while (access(uri + 5, F_OK) != 0)
        (void) nanosleep(&tick, NULL);
}

void ranks_launch(
    const char *program, const char *test_case, unsigned count, bool apart)
{
    char path[128], uri[160], number[16], others[16];
    const char *const job[] = {RANKS_MPIRUN, "-n", "1", program, test_case, ":",
        "-n", others, program, "--rank", NULL};
    const char *words[] = {RANKS_MPIRUN, "--ompi-server", uri, "-n", "1",
        program, test_case, NULL};
    unsigned i;
    int status;

    if (getenv(RANKS_ADDRESS) != NULL) {
        ranks_gather();
        ranks_init();
        return;
    }
    (void) snprintf(
        path, sizeof(path), "%s/ranks-%ld", hg_test_dir(), (long) getpid());
    (void) snprintf(number, sizeof(number), "%u", count);
    (void) snprintf(others, sizeof(others), "%u", count - 1);
    HG_CHECK(!setenv(RANKS_ADDRESS, path, 1));
    HG_CHECK(!setenv(RANKS_COUNT, number, 1));
    ranks_set_environment();
    if (!apart)
        ranks_start(job);
    else
        ranks_serve(path, uri, sizeof(uri));
    for (i = 0; i < count && apart; i++) {
        ranks_start(words);
        words[6] = "--rank";
    }
    (void) signal(SIGTERM, SIG_IGN); /* the runner signals mpirun, too */
    status = ranks_wait();
    ranks_skip_file(path, sizeof(path));
    _exit(access(path, F_OK) == 0 ? 77 : status);
}

static void ranks_program(char *program, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", program, size - 1);

    HG_CHECK(n > 0);
    program[n] = '\0';
}

int ranks_run(unsigned count, const char *role)
{
    char program[4096], number[16];
    const char *const job[] = {
        RANKS_MPIRUN, "-n", number, program, "--role", role, NULL};
    int status;

    ranks_program(program, sizeof(program));
    (void) snprintf(number, sizeof(number), "%u", count);
    ranks_set_environment();
    ranks_start(job);
    status = ranks_wait();
    HG_CHECK(status >= 0);
    return status;
}

int ranks_run_apart(const struct ranks_job *jobs, unsigned count)
{
    char program[4096], number[16], path[128], uri[160];
    int status;
    unsigned i;

    ranks_program(program, sizeof(program));
    (void) snprintf(
        path, sizeof(path), "%s/apart-%ld", hg_test_dir(), (long) getpid());
    ranks_set_environment();
    ranks_serve(path, uri, sizeof(uri));
    for (i = 0; i < count; i++) {
        const char *const job[] = {RANKS_MPIRUN, "--ompi-server", uri, "-n",
            number, program, "--role", jobs[i].role, path, NULL};

        (void) snprintf(number, sizeof(number), "%u", jobs[i].count);
        ranks_start(job);
    }
    status = ranks_wait();
    HG_CHECK(status >= 0);
    return status;
}

/* ---- The queue of a port ---- */

static bool ranks_look_up(const char *record, char value[MPI_MAX_PORT_NAME + 2])
{
    memset(value, 0, MPI_MAX_PORT_NAME + 2);
    return MPI_Lookup_name(record, MPI_INFO_NULL, value) == MPI_SUCCESS;
}

/* The number at the port may still belong to the previous process, whose record
 * has a mark. */
void ranks_take_turn(const char *port, char turn[RANKS_TURN_LEN])
{
    const struct timespec tick = {0, 5000000};
    char record[RANKS_TURN_LEN + 8], value[MPI_MAX_PORT_NAME + 2];
    bool found;

    HG_CHECK_EQ_INT(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
        MPI_SUCCESS);
    for (;;) {
        found = ranks_look_up(port, value);
        HG_CHECK(snprintf(turn, RANKS_TURN_LEN, "%s/%s", port, value) <
            RANKS_TURN_LEN);
        (void) snprintf(record, sizeof(record), "%s:accept", turn);
        if (found && ranks_look_up(record, value) &&
            value[strlen(value) - 1] != ':')
            break;
        (void) nanosleep(&tick, NULL);
    }
    memcpy(value + strlen(value), ":", sizeof(":"));
    HG_CHECK_EQ_INT(
        MPI_Publish_name(record, MPI_INFO_NULL, value), MPI_SUCCESS);
}

void ranks_offer_turn(
    const char *port, unsigned number, char turn[RANKS_TURN_LEN])
{
    char value[16];

    (void) snprintf(value, sizeof(value), "%u", number);
    HG_CHECK(
        snprintf(turn, RANKS_TURN_LEN, "%s/%s", port, value) < RANKS_TURN_LEN);
    if (number > 1)
        HG_CHECK_EQ_INT(
            MPI_Unpublish_name(port, MPI_INFO_NULL, value), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Publish_name(port, MPI_INFO_NULL, value), MPI_SUCCESS);
}

/* ---- Ranks ---- */

int ranks_take(pid_t *pid_p)
{
    struct ucred rank;
    socklen_t size = sizeof(rank);
    int channel;

    if (ranks_idle_count == 0)
        return -1;
    channel = ranks_idle[--ranks_idle_count];
    HG_CHECK(!getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &rank, &size));
    *pid_p = rank.pid;
    return channel;
}

/* Rank 0 may not listen yet. */
int ranks_join(void)
{
    const struct timespec tick = {0, 5000000};
    struct sockaddr_un address = ranks_address();
    int channel = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    HG_CHECK(channel >= 0);
    while (connect(channel, (struct sockaddr *) &address, sizeof(address)) < 0)
        (void) nanosleep(&tick, NULL);
    ranks_init();
    return channel;
}

void ranks_leave(void)
{
    while (ranks_idle_count > 0)
        (void) close(ranks_idle[--ranks_idle_count]);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}
