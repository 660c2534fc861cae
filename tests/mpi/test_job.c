/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg within a job of MPI: initializing and finalizing MPI, threads,
 * communicators, names, and ranks that end too early.
 *
 * In each case mpirun starts a job whose ranks run a role. In most, rank 0 of
 * the communicator serves and the other ranks are its clients.
 */
#define _GNU_SOURCE 1
#include <mpi.h>

#include "conform/rpc.h"
#include "mpi/ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static hg_id_t job_inc_id;
static hg_id_t job_done_id;
static int job_done_count;

static hg_return_t job_done(hg_handle_t handle)
{
    job_done_count++;
    return HG_Handler_start_output(handle, NULL) != HG_SUCCESS
        ? HG_OTHER_ERROR
        : HG_Handler_free(handle);
}

static void rpc_register(void)
{
    job_inc_id = MERCURY_REGISTER("job inc", rpc_one_t, rpc_one_t, rpc_inc);
    job_done_id = MERCURY_REGISTER("job done", void, void, job_done);
}

static na_class_t *job_open(const char *name, na_bool_t listen)
{
    na_class_t *na_class = NA_Initialize(name, listen);

    HG_CHECK(na_class != NULL);
    return na_class;
}

static void job_check_name(na_class_t *na_class, const char *want)
{
    char name[NA_MAX_ADDR_LEN];
    na_addr_t self;

    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_EQ_STR(name, want);
    HG_CHECK_OK(NA_Addr_free(na_class, self));
}

/* Serve until so many clients are done. */
static void job_serve(na_class_t *na_class, int clients)
{
    HG_CHECK_OK(HG_Init(na_class));
    rpc_register();
    while (job_done_count < clients) {
        hg_return_t ret = HG_Handler_process(100, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    HG_CHECK_OK(HG_Drain(NULL, RPC_TIMEOUT));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Make so many calls, `pause_us` apart, then one that ends the server. */
static void job_call(na_class_t *na_class, int32_t calls, unsigned pause_us)
{
    struct rpc_end end;
    int32_t i;

    memset(&end, 0, sizeof(end));
    end.na_class = na_class;
    HG_CHECK_OK(HG_Init(na_class));
    rpc_register();
    HG_CHECK_OK(NA_Addr_lookup_wait(
        na_class, "mpi+static://0", RPC_TIMEOUT, &end.target));
    for (i = 0; i < calls; i++) {
        rpc_one_t one = {i};

        HG_CHECK_OK(rpc_call(&end, job_inc_id, &one, &one));
        HG_CHECK_EQ_INT(one.value, i + 1);
        (void) usleep(pause_us);
    }
    HG_CHECK_OK(rpc_call(&end, job_done_id, NULL, NULL));
    HG_CHECK_OK(NA_Addr_free(na_class, end.target));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

static int job_rank(void)
{
    int rank;

    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    return rank;
}

static bool job_is_finalized(void)
{
    int finalized;

    HG_CHECK_EQ_INT(MPI_Finalized(&finalized), MPI_SUCCESS);
    return finalized != 0;
}

static void job_init(int level)
{
    int got;

    HG_CHECK_EQ_INT(MPI_Init_thread(NULL, NULL, level, &got), MPI_SUCCESS);
    HG_CHECK_EQ_INT(got, level);
}

/* ---- Initializing and finalizing MPI ---- */

/* hg initializes MPI when the first class is opened, and finalizes it when the
 * process exits: until then the application uses MPI and opens classes. */
HG_TEST_ROLE(plain)
{
    na_class_t *na_class = job_open("mpi+static://", NA_TRUE);
    char name[NA_MAX_ADDR_LEN];
    int rank = job_rank();

    (void) argc;
    (void) argv;
    (void) snprintf(name, sizeof(name), "mpi+static://%d", rank);
    job_check_name(na_class, name);
    if (rank == 0)
        job_serve(na_class, 2);
    else
        job_call(na_class, 100, 0);
    HG_CHECK(!job_is_finalized());
    HG_CHECK_EQ_INT(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    HG_CHECK_OK(NA_Finalize(job_open("mpi+static://", NA_FALSE)));
}

HG_TEST(hg_initializes_and_finalizes_mpi)
{
    HG_CHECK_EQ_INT(ranks_run(3, "plain"), 0);
}

/* The application initializes MPI, perhaps with no more thread support than
 * this. */
HG_TEST_ROLE(application)
{
    (void) argc;
    (void) argv;
    job_init(MPI_THREAD_SERIALIZED);
    if (job_rank() == 0)
        job_serve(job_open("mpi+static://", NA_TRUE), 1);
    else
        job_call(job_open("mpi+static://", NA_FALSE), 100, 0);
    HG_CHECK(!job_is_finalized());
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
    hg_test_expect_log("MPI was finalized");
    HG_CHECK(NA_Initialize("mpi+static://", NA_FALSE) == NULL);
}

HG_TEST(application_initializes_and_finalizes_mpi)
{
    HG_CHECK_EQ_INT(ranks_run(2, "application"), 0);
}

/* A process that exits with an open class ends. */
HG_TEST_ROLE(left_open)
{
    na_class_t *na_class = job_open("mpi+static://", NA_TRUE);

    (void) argc;
    (void) argv;
    if (job_rank() != 0)
        HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(class_may_be_left_open)
{
    HG_CHECK_EQ_INT(ranks_run(2, "left_open"), 0);
}

/* MPI would end the process: it is not even initialized. */
HG_TEST_ROLE(scarce)
{
    static const char few[] = "no descriptors for a class, which needs 16";
    struct rlimit limit = {256, 256};
    na_class_t *na_class;
    int fds[256], n = 0;
    unsigned k;

    (void) argc;
    (void) argv;
    hg_test_expect_log(few);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((fds[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    HG_CHECK(n > 18);
    for (k = 0; k < 2; k++) /* hg's own, for checks of memory */
        (void) close(fds[--n]);
    for (k = 0; k < 16; k++) {
        HG_CHECK(NA_Initialize("mpi+static://", NA_TRUE) == NULL);
        HG_CHECK_EQ_INT(hg_test_log_count(few), k + 1);
        (void) close(fds[--n]);
    }
    na_class = job_open("mpi+static://", NA_TRUE);
    while (n > 0)
        (void) close(fds[--n]);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(class_without_descriptors_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(1, "scarce"), 0);
}

/* An application that calls MPI_Finalize too early gets a line that names the
 * class that is still open. */
HG_TEST_ROLE(finalized_early)
{
    static char line[96];

    (void) argc;
    (void) argv;
    job_init(MPI_THREAD_MULTIPLE);
    (void) job_open("mpi+static://", NA_TRUE);
    (void) snprintf(line, sizeof(line),
        "MPI_Finalize is called while mpi+static://%d is open", job_rank());
    hg_test_expect_log(line);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(mpi_finalized_before_a_class_is_reported)
{
    HG_CHECK_EQ_INT(ranks_run(2, "finalized_early"), 0);
}

/* Less thread support is refused. */
HG_TEST_ROLE(funneled)
{
    (void) argc;
    (void) argv;
    job_init(MPI_THREAD_FUNNELED);
    hg_test_expect_log("MPI was initialized with MPI_THREAD_FUNNELED");
    HG_CHECK(NA_Initialize("mpi+static://", NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(insufficient_thread_support_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(2, "funneled"), 0);
}

HG_TEST_ROLE(parent)
{
    na_class_t *na_class = job_open("mpi+static://", NA_TRUE);
    int status;
    pid_t child;

    (void) argc;
    (void) argv;
    (void) fflush(NULL);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        hg_test_expect_log("mpi");
        _exit(NA_Initialize("mpi+static://", NA_TRUE) == NULL ? 7 : 8);
    }
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK(WIFEXITED(status));
    HG_CHECK_EQ_INT(WEXITSTATUS(status), 7);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(child_of_fork_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(1, "parent"), 0);
}

/* ---- Communicators ---- */

/* Of ranks 2, 1 and 0 of four, in this order; the fourth is not a member. */
HG_TEST_ROLE(reversed)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    char name[NA_MAX_ADDR_LEN];
    MPI_Comm comm;
    int rank;

    (void) argc;
    (void) argv;
    job_init(MPI_THREAD_MULTIPLE);
    rank = job_rank();
    HG_CHECK_EQ_INT(MPI_Comm_split(MPI_COMM_WORLD, rank < 3 ? 0 : MPI_UNDEFINED,
                        -rank, &comm),
        MPI_SUCCESS);
    if (rank < 3) {
        info.max_unexpected_size = 5000;
        if (rank == 2)
            na_class = NA_MPI_Init(&comm, NA_MPI_LISTEN);
        else
            na_class = NA_MPI_Init_opt(&comm, 0, &info);
        HG_CHECK(na_class != NULL);
        HG_CHECK(
            (NA_Msg_get_max_unexpected_size(na_class) == 5000) == (rank != 2));
        HG_CHECK(NA_Is_listening(na_class) == (rank == 2));
        (void) snprintf(name, sizeof(name), "mpi+static://%d", 2 - rank);
        job_check_name(na_class, name);
        if (rank == 2)
            job_serve(na_class, 2);
        else
            job_call(na_class, 100, 0);
        HG_CHECK_EQ_INT(MPI_Comm_free(&comm), MPI_SUCCESS);
    }
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(ranks_are_those_of_the_communicator)
{
    HG_CHECK_EQ_INT(ranks_run(4, "reversed"), 0);
}

/* A communicator between two groups is refused, and MPI_COMM_NULL; NULL means
 * all ranks. */
HG_TEST_ROLE(between)
{
    na_class_t *na_class;
    MPI_Comm half, both, none;
    int rank;

    (void) argc;
    (void) argv;
    job_init(MPI_THREAD_MULTIPLE);
    rank = job_rank();
    HG_CHECK_EQ_INT(
        MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half), MPI_SUCCESS);
    HG_CHECK_EQ_INT(
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank, 1, &both),
        MPI_SUCCESS);
    hg_test_expect_log("the communicator is an inter-communicator");
    HG_CHECK(NA_MPI_Init(&both, NA_MPI_LISTEN) == NULL);
    none = MPI_COMM_NULL;
    hg_test_expect_log("the communicator is MPI_COMM_NULL");
    HG_CHECK(NA_MPI_Init(&none, NA_MPI_LISTEN) == NULL);
    na_class = NA_MPI_Init(NULL, 0);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_EQ_INT(MPI_Comm_free(&both), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Comm_free(&half), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(communicator_between_groups_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(2, "between"), 0);
}

/* ---- Names ---- */

static const struct {
    const char *name;
    na_return_t want;
} job_names[] = {
    {"mpi+static://2", NA_HOSTUNREACH},
    {"mpi+static://2147483647", NA_HOSTUNREACH},
    {"mpi+static://2147483648", NA_INVALID_ARG},
    {"mpi+static://99999999999999999999", NA_INVALID_ARG},
    {"mpi+static://-1", NA_INVALID_ARG},
    {"mpi+static://", NA_INVALID_ARG},
    {"mpi+static:// 0", NA_INVALID_ARG},
    {"mpi+static://0 ", NA_INVALID_ARG},
    {"mpi+static://0x0", NA_INVALID_ARG},
    {"mpi+static://0:", NA_INVALID_ARG},
    {"mpi+static://0:8192", NA_INVALID_ARG},
    {"mpi+static://0:-1", NA_INVALID_ARG},
    {"mpi+static://0:1:2", NA_INVALID_ARG},
    {"mpi+static://nobody", NA_INVALID_ARG},
    {"mpi+static:/0", NA_INVALID_ARG},
};

HG_TEST_ROLE(names)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char name[NA_MAX_ADDR_LEN];
    na_class_t *na_class, *other;
    na_addr_t addr;
    int rank;
    size_t i;

    (void) argc;
    (void) argv;
    hg_test_expect_log("this process has rank ");
    hg_test_expect_log("another class of this process");
    hg_test_expect_log("me: neither RANK nor RANK:N");
    hg_test_allow_log("");
    info.lookup_ms = 200;
    na_class = NA_Initialize_opt("mpi+static://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    rank = job_rank();
    for (i = 0; i < sizeof(job_names) / sizeof(job_names[0]); i++) {
        na_return_t ret = NA_Addr_lookup_wait(
            na_class, job_names[i].name, RPC_TIMEOUT, &addr);

        if (ret != job_names[i].want)
            hg_test_fail(HG_TEST_HERE, "%s: %s, want %s", job_names[i].name,
                NA_Error_to_string(ret), NA_Error_to_string(job_names[i].want));
    }
    HG_CHECK_RET(
        NA_Addr_lookup_wait(na_class, job_names[0].name, RPC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "NA_Addr_lookup_wait: mpi+static://2 cannot be reached: the "
        "communicator has 2 ranks");
    /* Names of a class that this process never had. */
    (void) snprintf(name, sizeof(name), "mpi+static://%d:77", rank);
    HG_CHECK_RET(NA_Addr_lookup_wait(na_class, name, RPC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    /* The name of another rank, and our own twice. */
    (void) snprintf(name, sizeof(name), "mpi+static://%d:5", 1 - rank);
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    (void) snprintf(name, sizeof(name), "mpi+static://%d", rank);
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    HG_CHECK(NA_Initialize("mpi+static://me", NA_TRUE) == NULL);
    (void) snprintf(name, sizeof(name), "mpi+static://%d:77", rank);
    other = job_open(name, NA_TRUE);
    job_check_name(other, name);
    HG_CHECK_OK(NA_Finalize(other));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(bad_names_are_refused)
{
    HG_CHECK_EQ_INT(ranks_run(2, "names"), 0);
}

/* ---- Ranks that end ---- */

/* A rank that has ended does not disturb the others. */
HG_TEST_ROLE(early)
{
    na_class_t *na_class = job_open("mpi+static://", NA_TRUE);

    (void) argc;
    (void) argv;
    switch (job_rank()) {
    case 0: job_serve(na_class, 1); break;
    case 1: job_call(na_class, 200, 5000); break;
    default: HG_CHECK_OK(NA_Finalize(na_class)); break;
    }
}

HG_TEST(rank_may_end_before_the_others)
{
    HG_CHECK_EQ_INT(ranks_run(3, "early"), 0);
}

/* A rank that dies ends the job, also ranks that wait for it. If it calls
 * exit(), its status is that of mpirun. */
static void job_die(void (*die)(void))
{
    na_class_t *na_class = job_open("mpi+static://", NA_TRUE);

    hg_test_allow_log("");
    switch (job_rank()) {
    case 0: job_serve(na_class, 1); break;
    case 1:
        (void) usleep(100000);
        die();
        break;
    default: job_call(na_class, INT32_MAX, 0); break;
    }
}

static void job_exit(void)
{
    _exit(3);
}

static void job_kill(void)
{
    (void) kill(getpid(), SIGKILL);
}

static void job_abort(void)
{
    (void) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void job_return(void)
{
    exit(3);
}

HG_TEST_ROLE(exits)
{
    (void) argc;
    (void) argv;
    job_die(job_exit);
}

HG_TEST_ROLE(returns)
{
    (void) argc;
    (void) argv;
    job_die(job_return);
}

HG_TEST_ROLE(killed)
{
    (void) argc;
    (void) argv;
    job_die(job_kill);
}

HG_TEST_ROLE(aborts)
{
    (void) argc;
    (void) argv;
    job_die(job_abort);
}

HG_TEST(rank_that_dies_ends_the_job)
{
    HG_CHECK(ranks_run(3, "exits") != 0);
    HG_CHECK_EQ_INT(ranks_run(3, "returns"), 3);
    HG_CHECK(ranks_run(3, "killed") != 0);
    HG_CHECK(ranks_run(3, "aborts") != 0);
}
