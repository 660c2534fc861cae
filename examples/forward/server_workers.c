/* SPDX-License-Identifier: BSD-3-Clause */
/* server_workers: see server_workers.h. */
#define _GNU_SOURCE 1
#include "server_workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <linux/securebits.h>

#include "server.h"
#include "server_sessions.h"

/* After this time a thread looks whether to end, if WORKERS_SIGNAL came just
 * before it went to sleep. */
#define WORKERS_WAIT_MS 500
#define WORKERS_SIGNAL SIGUSR1

/* The buffers of a pipeline. */
#define WORKERS_PIECES 3
#define WORKERS_PIECE_SIZE ((size_t) 256 << 10)

struct worker {
    pthread_t thread;
    atomic_bool follows; /* it is not the leader any more */
    /* Odd while a handler runs: it counts their beginnings and ends. */
    atomic_uint_least64_t calls;
    void *io_buffer;
    hg_bulk_pipeline_t pipeline;
    _Alignas(16) unsigned char buffer[WORKERS_BUFFER_SIZE];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker *all[WORKERS_MAX];
    unsigned count, max;
    unsigned sleeping;
    unsigned offers; /* of the lead, which no thread has taken yet */
    struct worker *leader;
    atomic_bool ending;

    pthread_t monitor;
    bool monitored; /* there is a monitor */
    pthread_cond_t monitor_wake;
    atomic_bool monitor_sleeps;
} workers = {.lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .monitor_wake = PTHREAD_COND_INITIALIZER};

static _Thread_local struct worker *workers_self;

/* ---- A thread ---- */

/* Sleep until the lead is offered. False: the threads end. The lock is held. */
static bool workers_take_lead(struct worker *worker)
{
    workers.sleeping++;
    while (workers.offers == 0 && !atomic_load(&workers.ending))
        (void) pthread_cond_wait(&workers.wake, &workers.lock);
    workers.sleeping--;
    if (workers.offers == 0)
        return false;
    workers.offers--;
    workers.leader = worker;
    atomic_store(&worker->follows, false);
    return true;
}

/* Creating a file as another user must not take away the rights of root that
 * the creation itself needs. It may fail in a container: then the user's own
 * rights decide. */
static void workers_keep_rights(void)
{
    if (server.is_root)
        (void) prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
}

static void *workers_work(void *arg)
{
    struct worker *worker = (struct worker *) arg;
    bool leads;

    workers_self = worker;
    workers_keep_rights();
    do {
        while (!atomic_load_explicit(&worker->follows, memory_order_relaxed) &&
            !atomic_load_explicit(&workers.ending, memory_order_relaxed)) {
            (void) HG_Handler_process(WORKERS_WAIT_MS, HG_STATUS_IGNORE);
            sessions_reap();
        }
        (void) pthread_mutex_lock(&workers.lock);
        leads = !atomic_load(&workers.ending) && workers_take_lead(worker);
        (void) pthread_mutex_unlock(&workers.lock);
    } while (leads);
    return NULL;
}

/* Start a thread, as the leader. The lock is held. */
static bool workers_add(void)
{
    struct worker *worker;

    if (workers.count == workers.max)
        return false;
    worker = (struct worker *) calloc(1, sizeof(*worker));
    if (worker == NULL)
        return false;
    if (pthread_create(&worker->thread, NULL, workers_work, worker) != 0) {
        free(worker);
        return false;
    }
    workers.all[workers.count++] = worker;
    workers.leader = worker;
    return true;
}

/* Another thread leads in place of this one. Without one, the first thread
 * that has finished its call does. The lock is held. */
static void workers_replace(struct worker *worker)
{
    atomic_store(&worker->follows, true);
    if (workers.sleeping <= workers.offers && workers_add())
        return;
    workers.offers++;
    (void) pthread_cond_signal(&workers.wake);
}

void workers_hand_over(void)
{
    struct worker *worker = workers_self;

    if (atomic_load_explicit(&worker->follows, memory_order_relaxed))
        return;
    (void) pthread_mutex_lock(&workers.lock);
    if (!atomic_load(&worker->follows)) /* the monitor may have been faster */
        workers_replace(worker);
    (void) pthread_mutex_unlock(&workers.lock);
}

/* ---- The monitor ---- */

static void workers_deadline(struct timespec *deadline)
{
    (void) clock_gettime(CLOCK_REALTIME, deadline);
    deadline->tv_nsec += WORKERS_PATIENCE_MS * 1000000;
    if (deadline->tv_nsec >= 1000000000) {
        deadline->tv_nsec -= 1000000000;
        deadline->tv_sec++;
    }
}

/* Watch the leader while it executes calls, else sleep. */
static void *workers_monitor(void *unused)
{
    struct worker *leader = NULL;
    uint64_t seen = 0;

    (void) pthread_mutex_lock(&workers.lock);
    while (!atomic_load(&workers.ending)) {
        struct timespec deadline;
        uint64_t now = atomic_load(&workers.leader->calls);

        if (leader == workers.leader && now == seen && now % 2 == 1) {
            if (!atomic_load(&leader->follows))
                workers_replace(leader);
        } else if (leader == workers.leader && now == seen) {
            atomic_store(&workers.monitor_sleeps, true);
            if (atomic_load(&leader->calls) == now)
                (void) pthread_cond_wait(&workers.monitor_wake, &workers.lock);
            atomic_store(&workers.monitor_sleeps, false);
        }
        leader = workers.leader;
        seen = atomic_load(&leader->calls);
        workers_deadline(&deadline);
        (void) pthread_cond_timedwait(
            &workers.monitor_wake, &workers.lock, &deadline);
    }
    (void) pthread_mutex_unlock(&workers.lock);
    return unused;
}

void workers_enter(void)
{
    (void) atomic_fetch_add(&workers_self->calls, 1);
    if (!atomic_load(&workers.monitor_sleeps))
        return;
    (void) pthread_mutex_lock(&workers.lock);
    (void) pthread_cond_signal(&workers.monitor_wake);
    (void) pthread_mutex_unlock(&workers.lock);
}

void workers_leave(void)
{
    (void) atomic_fetch_add(&workers_self->calls, 1);
}

/* ---- Buffers ---- */

void *workers_buffer(void)
{
    return workers_self->buffer;
}

void *workers_io_buffer(void)
{
    if (workers_self->io_buffer == NULL)
        workers_self->io_buffer = malloc(FWD_IO_MAX);
    return workers_self->io_buffer;
}

hg_bulk_pipeline_t workers_pipeline(void)
{
    struct worker *worker = workers_self;

    if (worker->pipeline == NULL &&
        HG_Bulk_pipeline_create(NULL, WORKERS_PIECES, WORKERS_PIECE_SIZE,
            &worker->pipeline) != HG_SUCCESS)
        worker->pipeline = NULL;
    return worker->pipeline;
}

/* ---- Start and end ---- */

unsigned workers_max(void)
{
    return workers.max;
}

/* A signal ends the sleep of a thread in the library. */
static void workers_catch(int signal_number)
{
    (void) signal_number;
}

bool workers_start(unsigned max)
{
    struct sigaction action;
    bool started;

    memset(&action, 0, sizeof(action));
    action.sa_handler = workers_catch;
    (void) sigaction(WORKERS_SIGNAL, &action, NULL);
    workers.max = max;
    (void) pthread_mutex_lock(&workers.lock);
    started = workers_add();
    (void) pthread_mutex_unlock(&workers.lock);
    if (!started)
        return false;
    workers.monitored =
        pthread_create(&workers.monitor, NULL, workers_monitor, NULL) == 0;
    if (!workers.monitored)
        workers_stop();
    return workers.monitored;
}

void workers_stop(void)
{
    unsigned i;

    (void) pthread_mutex_lock(&workers.lock);
    atomic_store(&workers.ending, true);
    (void) pthread_cond_broadcast(&workers.wake);
    (void) pthread_cond_signal(&workers.monitor_wake);
    (void) pthread_mutex_unlock(&workers.lock);
    if (workers.monitored)
        (void) pthread_join(workers.monitor, NULL);
    for (i = 0; i < workers.count; i++) {
        (void) pthread_kill(workers.all[i]->thread, WORKERS_SIGNAL);
        (void) pthread_join(workers.all[i]->thread, NULL);
        if (workers.all[i]->pipeline != NULL)
            (void) HG_Bulk_pipeline_free(workers.all[i]->pipeline);
        free(workers.all[i]->io_buffer);
        free(workers.all[i]);
    }
    workers.count = 0;
}
