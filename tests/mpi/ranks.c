/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks: starts a job, and finds its ranks. All initialize MPI by themselves:
 * MPI_Init of one waits for the others, and MPICH ends a job only for a rank
 * that fails after it. tests/mpi/test_*.c leave it to hg.
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

/* Of rank 0: where it listens, and channels to the ranks without a role, the
 * one that had a role last on top. */
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

/* There are more ranks than processors, and the user may be root. */
static void ranks_set_environment(void)
{
    static const char *const variables[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_mpi_yield_when_idle", "1"},
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

/* Rank 0 hears from all others before MPI_Init. */
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

/* A skipped case leaves ranks behind that mpirun ends, and their status, not
 * that of rank 0, may become mpirun's. So rank 0 leaves a file. */
static void ranks_skip_file(char *path, size_t size)
{
    int n = snprintf(path, size, "%s-skipped", getenv(RANKS_ADDRESS));

    HG_CHECK(n > 0 && (size_t) n < size);
}

void ranks_skip(void)
{
    char path[128];
    FILE *file;

    ranks_skip_file(path, sizeof(path));
    file = fopen(path, "w");
    HG_CHECK(file != NULL && fclose(file) == 0);
}

/* The status of mpirun, when the ranks that it only told to end have ended,
 * too. */
static int ranks_wait(pid_t mpirun)
{
    int status;

    HG_CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    while (waitpid(mpirun, &status, 0) < 0)
        HG_CHECK(errno == EINTR);
    while (wait(NULL) > 0 || errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void ranks_launch(const char *program, const char *test_case, unsigned count)
{
    char path[128], number[16], others[16];
    pid_t mpirun;
    int status;

    if (getenv(RANKS_ADDRESS) != NULL) {
        ranks_gather();
        ranks_init();
        return;
    }
    snprintf(
        path, sizeof(path), "%s/ranks-%ld", hg_test_dir(), (long) getpid());
    snprintf(number, sizeof(number), "%u", count);
    snprintf(others, sizeof(others), "%u", count - 1);
    HG_CHECK(count > 1);
    HG_CHECK(!setenv(RANKS_ADDRESS, path, 1));
    HG_CHECK(!setenv(RANKS_COUNT, number, 1));
    ranks_set_environment();
    mpirun = fork();
    HG_CHECK(mpirun >= 0);
    if (mpirun != 0) {
        (void) signal(SIGTERM, SIG_IGN); /* the runner tells mpirun, too */
        status = ranks_wait(mpirun);
        ranks_skip_file(path, sizeof(path));
        _exit(access(path, F_OK) == 0 ? 77 : status);
    }
    execlp(RANKS_MPIRUN, RANKS_MPIRUN, "-n", "1", program, test_case, ":", "-n",
        others, program, "--rank", (char *) NULL);
    hg_test_fail(HG_TEST_HERE, "%s: %s", RANKS_MPIRUN, strerror(errno));
}

int ranks_run(unsigned count, const char *role)
{
    char program[4096], number[16];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    pid_t mpirun;
    int status;

    HG_CHECK(n > 0);
    program[n] = '\0';
    snprintf(number, sizeof(number), "%u", count);
    ranks_set_environment();
    mpirun = fork();
    HG_CHECK(mpirun >= 0);
    if (mpirun != 0) {
        status = ranks_wait(mpirun);
        HG_CHECK(status >= 0);
        return status;
    }
    execlp(RANKS_MPIRUN, RANKS_MPIRUN, "-n", number, program, "--role", role,
        (char *) NULL);
    hg_test_fail(HG_TEST_HERE, "%s: %s", RANKS_MPIRUN, strerror(errno));
}

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
