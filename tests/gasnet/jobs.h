/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * jobs: programs of GASNet for tests/gasnet_jobs, all in one.
 *
 *     gasnetrun_hg -n N jobs CASE
 *
 * All nodes run the same case. A file has its own GASNET_... macros, and so the
 * objects of this program are a mixture, as those of a client may be. A case
 * ends with gasnet_exit(0), or with another code and a line that says why.
 */
#ifndef HG_TESTS_GASNET_JOBS_H
#define HG_TESTS_GASNET_JOBS_H

#include <stdio.h>

#include "gasnet.h"

/* End the job unless the condition holds. */
#define CHECK(condition) \
    do { \
        if (!(condition)) \
            jobs_fail(__FILE__, __LINE__, #condition); \
    } while (0)
void jobs_fail(const char *file, int line, const char *condition)
    __attribute__((noreturn));

struct jobs_case {
    const char *name;
    void (*run)(int argc, char *argv[]);
};

/* The cases of each file; the last name is NULL. */
extern const struct jobs_case jobs_core[], jobs_names[], jobs_data[],
    jobs_every[], jobs_old[], jobs_checks[], jobs_hostile[], jobs_ends[],
    jobs_steps[];

/* Whether long versions run. */
int jobs_is_full(void);

/* Barrier without a name. */
#define BARRIER() \
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK)

/* gasnet_init() and gasnet_attach(). */
#define START(table, count, size) \
    do { \
        CHECK(gasnet_init(&argc, &argv) == GASNET_OK); \
        CHECK(gasnet_attach(table, count, size, 0) == GASNET_OK); \
    } while (0)

/* An entry of a handler table; the functions have many types. */
#define HANDLER(index, function) \
    { \
        index, (void (*)()) function \
    }

#endif
