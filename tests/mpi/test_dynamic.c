/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic mode without what it needs: threads, and a way to connect jobs. With
 * them it runs the conformance suite, as the transport mpi+dynamic.
 */
#include <mpi.h>

#include "harness.h"
#include "hg.h"
#include "mpi/ranks.h"

#define DYNAMIC_PATIENCE hg_test_patience(20000u)

HG_TEST_ROLE(serialized)
{
    int level;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
        MPI_SUCCESS);
    HG_CHECK_EQ_INT(level, MPI_THREAD_SERIALIZED);
    hg_test_expect_log("mpi+dynamic needs MPI_THREAD_MULTIPLE");
    HG_CHECK(NA_Initialize("mpi+dynamic://", NA_FALSE) == NULL);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(dynamic_needs_all_threads)
{
    HG_CHECK_EQ_INT(ranks_run(1, "serialized"), 0);
}

#ifdef OPEN_MPI
/* Names of no port, and a port of a job that this one cannot find. */
HG_TEST_ROLE(lonely)
{
    static const char *const names[] = {"mpi+dynamic://", "mpi+dynamic:///1",
        "mpi+dynamic://%", "mpi+dynamic://%0", "mpi+dynamic://%zz",
        "mpi+dynamic://%00", "mpi+dynamic://a/", "mpi+dynamic://a/x",
        "mpi+dynamic://a/99999", "mpi+dynamic://a/1/2"};
    na_class_t *na_class = NA_Initialize("mpi+dynamic://", NA_TRUE);
    char name[NA_MAX_ADDR_LEN], *digit;
    na_addr_t self, addr;
    na_return_t ret;
    size_t i;

    (void) argc;
    (void) argv;
    HG_CHECK(na_class != NULL);
    hg_test_expect_log("ompi-server");
    hg_test_allow_log("");
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ret = NA_Addr_lookup_wait(na_class, names[i], DYNAMIC_PATIENCE, &addr);
        if (ret != NA_INVALID_ARG)
            hg_test_fail(
                HG_TEST_HERE, "%s: %s", names[i], NA_Error_to_string(ret));
    }
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    digit = strpbrk(name, "0123456789"); /* the first one of the job */
    HG_CHECK(digit != NULL);
    *digit = *digit == '9' ? '1' : (char) (*digit + 1);
    HG_CHECK_RET(NA_Addr_lookup_wait(na_class, name, DYNAMIC_PATIENCE, &addr),
        NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(without_a_server_other_jobs_are_unreachable)
{
    HG_CHECK_EQ_INT(ranks_run(1, "lonely"), 0);
}
#else
/* MPICH of Debian, which is built with ucx, has no ports. */
HG_TEST_ROLE(refused)
{
    (void) argc;
    (void) argv;
    hg_test_expect_log("this MPI cannot accept connections");
    HG_CHECK(NA_Initialize("mpi+dynamic://", NA_TRUE) == NULL);
}

HG_TEST(dynamic_is_refused_where_mpi_has_no_ports)
{
    HG_CHECK_EQ_INT(ranks_run(1, "refused"), 0);
}
#endif
