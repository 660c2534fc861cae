/* SPDX-License-Identifier: BSD-3-Clause */
/* server_long: see server_long.h. */
#define _GNU_SOURCE 1
#include "server_long.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "server_sessions.h"
#include "server_workers.h"

#define LONG_SLOW_NS 200000u

/* Calls of all sessions that take long. */
static atomic_uint long_calls;

/* ---- Slow kinds ---- */

static uint64_t long_clock(void)
{
    struct timespec now = {0, 0};

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* How often this thread has waited. */
static long long_waits(void)
{
    struct rusage usage = {0};

    (void) getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* Run a call and note whether it was slow. On a busy machine a call takes long
 * because other threads run. So a kind stays slow only while its calls wait. */
static int32_t long_time(struct job *job)
{
    bool before = atomic_load_explicit(job->slow, memory_order_relaxed);
    long waits = before ? long_waits() : 0;
    uint64_t begun = long_clock();
    int32_t error = job->run(job);
    bool slow = long_clock() - begun > LONG_SLOW_NS;

    if (slow && before)
        slow = long_waits() != waits;
    if (slow != before)
        atomic_store_explicit(job->slow, slow, memory_order_relaxed);
    return error;
}

/* ---- The share of a session ---- */

/* Whether a call may run now; else a copy of it waits. */
static int long_begin(struct job *job)
{
    struct session *session = job->session;
    unsigned all = atomic_load(&long_calls);
    struct job *later = NULL;
    bool now;

    (void) pthread_mutex_lock(&session->lock);
    now = session->long_calls == 0 ||
        session->long_calls + all < workers_max() / 2;
    if (now) {
        session->long_calls++;
        (void) atomic_fetch_add(&long_calls, 1);
    } else {
        later = (struct job *) malloc(sizeof(*later));
    }
    if (later != NULL) {
        *later = *job;
        later->next = NULL;
        *session->waiting_end = later;
        session->waiting_end = &later->next;
    }
    (void) pthread_mutex_unlock(&session->lock);
    if (now)
        return 0;
    return later != NULL ? CALLS_LATER : ENOMEM;
}

/* A call has ended. Returns one that waited and runs now. */
static struct job *long_end(struct session *session)
{
    struct job *next;

    (void) pthread_mutex_lock(&session->lock);
    next = session->waiting;
    if (next != NULL) {
        session->waiting = next->next;
        if (session->waiting == NULL)
            session->waiting_end = &session->waiting;
    } else {
        session->long_calls--;
        (void) atomic_fetch_sub(&long_calls, 1);
    }
    (void) pthread_mutex_unlock(&session->lock);
    return next;
}

/* Run a call, and then those that waited for it. */
static int32_t long_start(struct job *job)
{
    struct job *first = job;
    int32_t error = long_begin(job);

    if (error != 0)
        return error;
    while (job != NULL) {
        struct job *next;

        /* Bulk data of a client on this node moves fast. */
        if (!job->bulk || !job->session->near)
            workers_hand_over();
        error = job->slow != NULL ? long_time(job) : job->run(job);
        next = long_end(job->session);
        calls_finish(job, error);
        if (job != first)
            free(job);
        job = next;
    }
    return CALLS_LATER;
}

int32_t long_run(struct job *job, int32_t (*run)(struct job *job))
{
    job->run = run;
    job->slow = NULL;
    return long_start(job);
}

int32_t long_try(
    struct job *job, int32_t (*run)(struct job *job), atomic_bool *slow)
{
    job->run = run;
    job->slow = slow;
    return atomic_load_explicit(slow, memory_order_relaxed) ? long_start(job)
                                                            : long_time(job);
}
