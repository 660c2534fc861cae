/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time limits over libfabric, on a machine that is so busy that each wait of a
 * thread ends late. This program has its own pthread_cond_timedwait.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "harness.h"

#include "hg.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { CLOCK_LOOKUP_MS = 240, CLOCK_LATE_MS = 80 };

static _Atomic unsigned clock_waits;

/* Every wait is one that ends late. */
int pthread_cond_timedwait(
    pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until)
{
    (void) cond;
    (void) until;
    atomic_fetch_add(&clock_waits, 1);
    (void) pthread_mutex_unlock(lock);
    (void) usleep(1000 * CLOCK_LATE_MS);
    (void) pthread_mutex_lock(lock);
    return ETIMEDOUT;
}

/* The class's clock ticks eight times within lookup_ms if it is on time. */
HG_TEST(lookup_ends_in_time_though_ticks_are_late)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned before;

    info.lookup_ms = CLOCK_LOOKUP_MS;
    na_class = NA_Initialize_opt("ofi+tcp://127.0.0.1", NA_FALSE, &info);
    HG_CHECK(na_class != NULL);
    hg_test_expect_log("cannot be reached: no answer, or refused");
    before = atomic_load(&clock_waits);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(na_class, "ofi+tcp://127.0.0.9:9", 60000, &addr),
        NA_HOSTUNREACH);
    /* At least one each CLOCK_LATE_MS. */
    HG_CHECK(atomic_load(&clock_waits) - before <
        CLOCK_LOOKUP_MS / CLOCK_LATE_MS + 4);
    HG_CHECK_OK(NA_Finalize(na_class));
}
