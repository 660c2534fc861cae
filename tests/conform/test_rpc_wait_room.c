/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More calls than the limits allow, and HG_Wait_room.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOM_MANY 100000
/* KiB more than when idle, for some 27,000 calls. Over libfabric one that waits
 * to be sent takes 1.7 KiB more. */
#define ROOM_MEMORY (hg_test_is_ofi() ? 131072 : 65536)

static hg_id_t room_slow_id, room_inc_id, room_keep_id;

/* Works for a millisecond. */
static hg_return_t room_slow(hg_handle_t handle)
{
    struct timespec left = {0, 1000000};

    while (nanosleep(&left, &left) != 0)
        continue;
    return rpc_inc(handle);
}

static hg_return_t room_keep(hg_handle_t handle)
{
    (void) handle; /* HG_Finalize answers it */
    return HG_SUCCESS;
}

static void rpc_register(void)
{
    room_inc_id = MERCURY_REGISTER("room inc", rpc_one_t, rpc_one_t, rpc_inc);
    room_keep_id =
        MERCURY_REGISTER("room keep", rpc_one_t, rpc_one_t, room_keep);
    room_slow_id =
        MERCURY_REGISTER("room slow", rpc_one_t, rpc_one_t, room_slow);
}

/* A line of /proc/PID/status, in KiB. */
static long room_memory(pid_t pid, const char *what)
{
    char name[64], line[256];
    long kib = -1;
    FILE *file;

    (void) snprintf(name, sizeof(name), "/proc/%ld/status", (long) pid);
    file = fopen(name, "r");
    HG_CHECK(file != NULL);
    while (kib < 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtol(line + strlen(what) + 1, NULL, 10);
    }
    (void) fclose(file);
    HG_CHECK(kib > 0);
    return kib;
}

/* Forward so many calls without a wait in between; returns how many were
 * started. The others have HG_REQUEST_NULL. */
static int room_forward(
    const struct rpc_end *end, hg_id_t id, hg_request_t *requests, int count)
{
    rpc_one_t one = {1};
    int begun = 0;
    int i;

    for (i = 0; i < count; i++) {
        hg_return_t ret = HG_Forward(end->target, id, &one, NULL, &requests[i]);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
        begun += ret == HG_SUCCESS;
    }
    return begun;
}

/* Wait for all of them; returns how many succeeded. */
static int room_wait(hg_request_t *requests, int count, int *again_p)
{
    int good = 0;
    int i;

    *again_p = 0;
    for (i = 0; i < count; i++) {
        hg_return_t ret = HG_AGAIN;

        if (requests[i] != HG_REQUEST_NULL) {
            ret = HG_Wait(requests[i], 120000, HG_STATUS_IGNORE);
            HG_CHECK_OK(HG_Request_free(requests[i]));
        }
        HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
        good += ret == HG_SUCCESS;
        *again_p += ret == HG_AGAIN;
    }
    return good;
}

static void room_overload(const struct hg_options *options, int count)
{
    static hg_request_t requests[ROOM_MANY];
    struct rpc_end end;
    rpc_one_t one = {1};
    long idle[2], peak[2];
    int begun, good, again;

    hg_test_allow_log("");
    memset(requests, 0xff, sizeof(requests)); /* our memory is resident */
    rpc_open_with(&end, options, false);
    HG_CHECK_OK(rpc_call(&end, room_slow_id, &one, &one));
    idle[0] = room_memory(getpid(), "VmRSS:");
    idle[1] = room_memory(hg_test_peer_pid(end.peer), "VmRSS:");
    begun = room_forward(&end, room_slow_id, requests, count);
    good = room_wait(requests, count, &again);
    peak[0] = room_memory(getpid(), "VmHWM:");
    peak[1] = room_memory(hg_test_peer_pid(end.peer), "VmHWM:");
    printf("# %d begun, %d good, %d again; KiB: origin %ld + %ld, target %ld + "
           "%ld\n",
        begun, good, again, idle[0], peak[0] - idle[0], idle[1],
        peak[1] - idle[1]);
    HG_CHECK(good > 0 && again > 0 && good + again == count);
    /* Other providers of libfabric keep messages in their own memory. */
    if (hg_test_is_plain() &&
        (!hg_test_is_ofi() || strcmp(hg_test_transport(), "ofi+tcp") == 0)) {
        HG_CHECK(peak[0] - idle[0] < ROOM_MEMORY);
        HG_CHECK(peak[1] - idle[1] < ROOM_MEMORY);
    }
    one.value = 1;
    HG_CHECK_OK(rpc_call(&end, room_slow_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_EQ_U64(rpc_counters().in_flight, 0);
    rpc_close(&end);
}

HG_TEST_WHERE(overload_ends_every_call, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    options.max_in_flight = 400;
    options.max_unanswered = 40;
    room_overload(&options, 1000);
}

/* As above, with the default limits. */
HG_TEST_WHERE_SECONDS(
    hundred_thousand_calls_at_once, hg_test_crosses_processes, 600)
{
    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("takes 70 s; set HG_TEST_FULL");
    room_overload(NULL, ROOM_MANY);
}

/* ---- HG_Wait_room ---- */

HG_TEST(wait_room_returns_at_once_when_there_is_room)
{
    struct rpc_end end;

    hg_test_expect_log("HG_Wait_room: the address is NULL");
    rpc_open(&end);
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    HG_CHECK_OK(HG_Wait_room(end.target, RPC_TIMEOUT));
    HG_CHECK_RET(HG_Wait_room(NA_ADDR_NULL, 0), HG_INVALID_ARG);
    rpc_close(&end);
}

/* As many calls as may be in flight, by number or by bytes; the last one
 * ends. */
static void room_fill(const struct hg_options *options, int most)
{
    hg_request_t requests[64];
    rpc_one_t one = {1};
    struct rpc_end end;
    int begun, i;

    hg_test_allow_log("were never answered");
    rpc_open_with(&end, options, false);
    begun = room_forward(&end, room_keep_id, requests, 64);
    HG_CHECK(begun > 0 && begun <= most);
    HG_CHECK_RET(HG_Wait_room(end.target, 0), HG_TIMEOUT);
    HG_CHECK_OK(HG_Request_free(requests[--begun]));
    requests[begun] = rpc_start_call(&end, room_slow_id, &one, &one);
    if (end.peer == NULL) /* no other process executes it */
        HG_CHECK_OK(rpc_wait(requests[begun]));
    HG_CHECK_OK(HG_Wait_room(end.target, RPC_TIMEOUT));
    HG_CHECK_OK(rpc_call(&end, room_inc_id, &one, NULL));
    HG_CHECK_OK(rpc_wait(requests[begun]));
    HG_CHECK_EQ_INT(one.value, 2);
    for (i = 0; i <= begun; i++)
        HG_CHECK_OK(HG_Request_free(requests[i]));
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    rpc_close(&end);
}

HG_TEST(wait_room_returns_when_a_call_ends)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    options.max_in_flight = 4;
    room_fill(&options, 4);
}

HG_TEST(wait_room_for_bytes_returns_when_a_call_ends)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    options.max_in_flight_bytes = 16384;
    room_fill(&options, 16);
}

/* However small the limit and however large the call. */
HG_TEST(wait_room_always_admits_one_call)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    rpc_one_t one = {1};
    struct rpc_end end;

    options.max_in_flight_bytes = 1;
    rpc_open_with(&end, &options, false);
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    HG_CHECK_OK(rpc_call(&end, room_slow_id, &one, &one));
    HG_CHECK_OK(rpc_call(&end, room_slow_id, &one, &one));
    rpc_close(&end);
}

/* A full target reports so, and its next response reports that it is not full
 * any more. */
HG_TEST_WHERE(
    wait_room_returns_when_a_full_target_answers, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_request_t requests[4];
    struct rpc_end end;
    rpc_one_t one = {1};
    int good, again;

    options.max_unanswered = 1;
    rpc_open_with(&end, &options, false);
    do { /* until they arrive together */
        HG_CHECK_EQ_INT(room_forward(&end, room_slow_id, requests, 4), 4);
        good = room_wait(requests, 4, &again);
    } while (again == 0 || good == 0);
    HG_CHECK_OK(HG_Wait_room(end.target, RPC_TIMEOUT));
    HG_CHECK_OK(rpc_call(&end, room_slow_id, &one, &one));
    rpc_close(&end);
}

/* It may be full of the calls of other peers, and report nothing more. */
HG_TEST_WHERE(
    wait_room_retries_when_a_full_target_is_silent, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    rpc_one_t one = {1};
    hg_request_t kept;
    struct rpc_end end;

    options.max_unanswered = 1;
    rpc_open_with(&end, &options, false);
    HG_CHECK_OK(HG_Forward(end.target, room_keep_id, &one, NULL, &kept));
    HG_CHECK_RET(rpc_call(&end, room_slow_id, &one, NULL), HG_AGAIN);
    HG_CHECK_RET(HG_Wait_room(end.target, 0), HG_TIMEOUT);
    HG_CHECK_RET(HG_Wait_room(end.target, 30), HG_TIMEOUT); /* it will report */
    HG_CHECK_OK(HG_Request_free(kept)); /* freed: it will not report */
    HG_CHECK_OK(HG_Wait_room(end.target, RPC_TIMEOUT));
    HG_CHECK_OK(HG_Wait_room(end.target, 0));
    rpc_close(&end);
}

HG_TEST_WHERE(wait_room_fails_when_the_target_dies, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    rpc_one_t one = {1};
    hg_request_t kept;
    struct rpc_end end;

    hg_test_allow_log("");
    options.max_in_flight = 1;
    rpc_open_with(&end, &options, false);
    HG_CHECK_OK(HG_Forward(end.target, room_keep_id, &one, NULL, &kept));
    HG_CHECK_RET(HG_Wait_room(end.target, 0), HG_TIMEOUT);
    hg_test_signal(end.peer, SIGKILL);
    HG_CHECK_RET(HG_Wait_room(end.target, RPC_TIMEOUT), HG_DISCONNECT);
    HG_CHECK_RET(HG_Wait_room(end.target, 0), HG_DISCONNECT);
    HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
    end.peer = NULL;
    HG_CHECK_RET(rpc_wait(kept), HG_DISCONNECT);
    HG_CHECK_OK(HG_Request_free(kept));
    rpc_close(&end);
}

/* ---- Many threads and a small limit ---- */

#define ROOM_THREADS 3
#define ROOM_CALLS 300 /* of each */

struct room_many {
    const struct rpc_end *end;
    _Atomic unsigned refused;
};

static void *room_push(void *arg)
{
    struct room_many *crowd = (struct room_many *) arg;
    unsigned done = 0;

    while (done < ROOM_CALLS) {
        rpc_one_t one = {1};
        hg_request_t request;
        hg_return_t ret =
            HG_Forward(crowd->end->target, room_inc_id, &one, &one, &request);

        if (ret == HG_AGAIN) {
            atomic_fetch_add(&crowd->refused, 1);
            HG_CHECK_OK(HG_Wait_room(crowd->end->target, RPC_TIMEOUT));
            continue;
        }
        HG_CHECK_OK(ret);
        HG_CHECK_OK(rpc_wait(request));
        HG_CHECK_OK(HG_Request_free(request));
        HG_CHECK_EQ_INT(one.value, 2);
        done++;
    }
    return NULL;
}

HG_TEST_WHERE(
    wait_room_for_one_call_wakes_many_threads, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    pthread_t threads[ROOM_THREADS];
    struct room_many crowd;
    struct rpc_end end;
    int i;

    options.max_in_flight = 1;
    rpc_open_with(&end, &options, false);
    crowd.end = &end;
    atomic_init(&crowd.refused, 0);
    for (i = 0; i < ROOM_THREADS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, room_push, &crowd) == 0);
    for (i = 0; i < ROOM_THREADS; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    HG_CHECK(atomic_load(&crowd.refused) > 0);
    rpc_close(&end);
}
