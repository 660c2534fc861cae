/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Few descriptors, or few threads, when a class is opened and used: what does
 * not work is refused with one line that says so, and nobody is aborted.
 *
 * Each number of free descriptors is tried in a process of its own, which is
 * forked from the case before it has opened a class.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "conform.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SCARCE_FDS = 30, SCARCE_THREADS = 10 };

/* How an attempt ended: its exit status. A check that fails exits with 1. */
enum { SCARCE_WORKS, SCARCE_WRONG, SCARCE_REFUSED };

static int scarce_wrong(const char *why, unsigned count)
{
    fprintf(stderr, "with %u: %s: %s\n", count, why, HG_Get_last_error_text());
    return SCARCE_WRONG;
}

/* Open a class, look up `server` unless it is NULL, and close the class. */
static int scarce_open(
    const char *string, na_bool_t listen, const char *server, unsigned count)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_addr_t addr;
    na_return_t ret = NA_SUCCESS;

    hg_test_allow_log("descriptor");
    hg_test_allow_log("");
    info.progress_thread = NA_TRUE;
    na_class = NA_Initialize_opt(string, listen, &info);
    if (na_class == NULL &&
        hg_test_log_count("descriptor") + hg_test_log_count("") != 1)
        return scarce_wrong("not one line about a refused class", count);
    if (na_class == NULL)
        return SCARCE_REFUSED;
    if (server != NULL)
        ret = NA_Addr_lookup_wait(na_class, server, CONFORM_TIMEOUT, &addr);
    /* Over libfabric another thread may have written the line. */
    if (ret != NA_SUCCESS &&
        strstr(HG_Get_last_error_text(), "descriptor") == NULL &&
        !(hg_test_is_ofi() && hg_test_log_count("descriptor") > 0))
        return scarce_wrong("the lookup does not tell why", count);
    if (server != NULL && ret == NA_SUCCESS &&
        NA_Addr_free(na_class, addr) != NA_SUCCESS)
        return scarce_wrong("NA_Addr_free", count);
    if (NA_Finalize(na_class) != NA_SUCCESS)
        return scarce_wrong("NA_Finalize", count);
    return ret == NA_SUCCESS ? SCARCE_WORKS : SCARCE_REFUSED;
}

/* Leave so many descriptors free. */
static void scarce_take_fds(unsigned count)
{
    int fds[256], n = 0, fd;
    struct rlimit limit;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 256);
    limit.rlim_cur = 256; /* valgrind does not let the other one change */
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        fds[n++] = fd;
    HG_CHECK((unsigned) n >= count);
    while (count-- > 0)
        (void) close(fds[--n]);
}

/* The status of a child of this process. */
static int scarce_ended(pid_t child, const char *string, unsigned count)
{
    int status;

    HG_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == SCARCE_WRONG)
        hg_test_fail(
            HG_TEST_HERE, "%s with %u: wait status %d", string, count, status);
    return WEXITSTATUS(status);
}

/* From some number of descriptors on it works. */
static void scarce_try_fds(
    const char *string, na_bool_t listen, const char *server)
{
    int last = SCARCE_WRONG;
    unsigned free_fds;

    for (free_fds = 0; free_fds <= SCARCE_FDS; free_fds++) {
        pid_t child = fork();

        if (child == 0) {
            scarce_take_fds(free_fds);
            hg_test_exit_child(scarce_open(string, listen, server, free_fds));
        }
        last = scarce_ended(child, string, free_fds);
    }
    HG_CHECK_EQ_INT(last, SCARCE_WORKS);
}

/* MPI opens its own descriptors when the process starts. */
static bool scarce_applies(void)
{
    return !hg_test_is_mpi();
}

HG_TEST_WHERE(class_without_descriptors_is_refused, scarce_applies)
{
    char *string = hg_test_listen_string();

    scarce_try_fds(string, NA_TRUE, NULL);
    free(string);
}

HG_TEST_ROLE(listener)
{
    struct pollfd channel = {hg_test_parent_fd(), POLLIN, 0};
    struct conform_end end;
    char name[NA_MAX_ADDR_LEN];

    (void) argc;
    (void) argv;
    hg_test_allow_log("");
    conform_open(&end, NULL);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    hg_test_write_parent(name);
    while (poll(&channel, 1, 0) == 0)
        (void) conform_turn(end.na_class, end.context, 10);
    conform_close(&end);
}

static bool scarce_has_peers(void)
{
    return scarce_applies() && hg_test_crosses_processes();
}

HG_TEST_WHERE(lookup_without_descriptors_says_so, scarce_has_peers)
{
    struct hg_test_peer *peer = hg_test_spawn("listener", (char *) NULL);
    char *name = hg_test_read_peer(peer);
    char scheme[64];

    (void) snprintf(scheme, sizeof(scheme), "%s://", hg_test_transport());
    scarce_try_fds(scheme, NA_FALSE, name);
    free(name);
    hg_test_stop(peer);
}

/* Threads of a user that has no process but this one. */
HG_TEST_WHERE(class_without_threads_is_refused, scarce_applies)
{
    char *string = hg_test_listen_string();
    uid_t uid = (uid_t) (1000000 + getpid());
    int last = SCARCE_WRONG;
    unsigned threads;

    if (geteuid() != 0)
        hg_test_skip("only root can become a user without processes");
    HG_CHECK(chmod(hg_test_dir(), 0777) == 0);
    for (threads = 0; threads <= SCARCE_THREADS; threads++) {
        struct rlimit limit = {1 + threads, 1 + threads};
        pid_t child = fork();

        if (child == 0) {
            HG_CHECK(setuid(uid) == 0);
            HG_CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
            hg_test_exit_child(scarce_open(string, NA_TRUE, NULL, threads));
        }
        last = scarce_ended(child, string, threads);
    }
    HG_CHECK_EQ_INT(last, SCARCE_WORKS);
    free(string);
}
