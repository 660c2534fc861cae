/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG_Wake() ends the waits for events of all threads, at any moment, also from
 * a signal handler. All waits here have a timeout of an hour: the watchdog ends
 * a case in which a wake is lost.
 */
#define _POSIX_C_SOURCE 200809L
#include "rpc.h"

#include <signal.h>

#define WAKE_THREADS 4

static _Atomic bool wake_ending;
static hg_id_t wake_inc;

static void rpc_register(void)
{
    wake_inc = MERCURY_REGISTER("inc", rpc_one_t, rpc_one_t, rpc_inc);
}

static void *wake_serve(void *unused)
{
    while (!atomic_load(&wake_ending)) {
        hg_return_t ret =
            HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT || ret == HG_INTR);
    }
    return unused;
}

static void wake_on_signal(int number)
{
    (void) number;
    atomic_store(&wake_ending, true);
    HG_Wake(NULL);
}

/* Threads that serve, wait, or have not begun yet. */
static void wake_round(bool by_signal, unsigned pause)
{
    pthread_t threads[WAKE_THREADS];
    unsigned i;

    atomic_store(&wake_ending, false);
    for (i = 0; i < WAKE_THREADS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, wake_serve, NULL) == 0);
    for (i = 0; i < pause; i++)
        (void) sched_yield();
    if (by_signal)
        HG_CHECK(pthread_kill(threads[0], SIGUSR1) == 0);
    else
        wake_on_signal(0);
    for (i = 0; i < WAKE_THREADS; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
}

static void wake_rounds(struct rpc_end *end, unsigned rounds)
{
    uint64_t state = hg_test_seed();
    struct sigaction action;
    unsigned i;

    memset(&action, 0, sizeof(action));
    action.sa_handler = wake_on_signal;
    HG_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (i = 0; i < rounds; i++)
        wake_round(i % 2 == 0, (unsigned) (hg_test_random(&state) % 200));
    rpc_end(end);
    HG_Wake(NULL); /* no layer */
}

static void wake_run(bool separate)
{
    /* With a separate class each round may take 100 ms. */
    unsigned full = separate ? 100 : 1000;
    struct rpc_end end;

    rpc_start(&end, NULL, separate);
    wake_rounds(&end, getenv("HG_TEST_FULL") != NULL ? full : 30);
}

HG_TEST(wake_ends_all_waits_at_any_moment)
{
    wake_run(false);
}

HG_TEST(wake_ends_all_waits_with_a_separate_bulk_class)
{
    wake_run(true);
}

/* A thread that never sleeps looks for wakes, too. */
HG_TEST(wake_ends_a_wait_that_spins)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    struct rpc_end end;

    info.wait_mode = NA_WAIT_SPIN;
    memset(&end, 0, sizeof(end));
    end.na_class = NA_Initialize_opt(string, NA_TRUE, &info);
    HG_CHECK(end.na_class != NULL);
    free(string);
    HG_CHECK_OK(HG_Init(end.na_class));
    wake_rounds(&end, 10);
}

/* A wake before the wait counts, once; a call is not disturbed. */
HG_TEST(wake_is_not_lost_and_ends_no_call)
{
    struct rpc_end end;
    rpc_one_t one = {1};
    hg_request_t request;
    unsigned i;

    rpc_open(&end);
    for (i = 0; i < 3; i++) {
        HG_Wake(NULL);
        request = rpc_start_call(&end, wake_inc, &one, &one);
        HG_CHECK_OK(rpc_wait(request));
        HG_CHECK_OK(HG_Request_free(request));
        HG_Wake(NULL);
        (void) HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    }
    HG_CHECK_EQ_INT(one.value, 4);
    HG_CHECK_RET(HG_Handler_process(1, HG_STATUS_IGNORE), HG_TIMEOUT);
    rpc_close(&end);
}
