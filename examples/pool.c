/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool: a server that executes calls in a pool of threads and refuses calls
 * while its queue is full, in the callback model.
 *
 *     pool server ADDRESS THREADS LIMIT    listens, prints its address, serves
 *                                          until Ctrl-C with THREADS threads
 *                                          and a queue of LIMIT calls
 *     pool client ADDRESS CALLS            makes CALLS calls at once, repeats
 *                                          refused ones, adds up the results
 *
 * For example, in two terminals:
 *
 *     pool server sm://pool 4 64
 *     pool client sm://pool 1000
 *
 *     one thread    makes progress and puts calls into the queue
 *        |          the queue is full: answer HG_AGAIN at once
 *     queue
 *      | | |
 *     threads       decode, compute, respond, destroy the handle
 *
 * The network is served while the pool computes. An overloaded server refuses
 * calls at once, so that its clients do not wait longer and longer.
 */
#define _POSIX_C_SOURCE 200809L
#include "endpoint.h"
#include "usage.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define POOL_THREADS_MAX 64
#define POOL_LIMIT_MAX 4096
#define POOL_CALLS_MAX 1000000
#define POOL_PAUSE_MS 5 /* before refused calls are made again */

static const char pool_help[] =
    "usage: pool server ADDRESS THREADS LIMIT\n"
    "       pool client ADDRESS CALLS\n"
    "\n"
    "The server executes calls in THREADS threads (1 to 64) and refuses\n"
    "calls while LIMIT calls (1 to 4096) are queued. The client makes CALLS\n"
    "calls at once (1 to 1000000) and repeats the refused ones.\n"
    "\n"
    "Examples:\n"
    "  pool server sm://pool 4 64 &\n"
    "  pool client sm://pool 1000\n";

MERCURY_GEN_PROC(pool_in_t, ((uint64_t) (number)))
MERCURY_GEN_PROC(pool_out_t, ((uint64_t) (steps)))

/* ---- Server ---- */

static struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hg_handle_t queue[POOL_LIMIT_MAX]; /* a ring */
    unsigned first, count, limit;
    bool ending;
    unsigned long served, refused;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The length of the Collatz sequence of a number: some work. */
static uint64_t pool_steps(uint64_t number)
{
    uint64_t steps = 0;

    while (number > 1) {
        number = number % 2 == 0 ? number / 2 : number * 3 + 1;
        steps++;
    }
    return steps;
}

/* The RPC callback. It runs in the thread that makes progress, so it does not
 * block. The handle stays valid until pool_execute destroys it. */
static hg_return_t pool_take(hg_handle_t handle)
{
    bool taken;

    (void) pthread_mutex_lock(&pool.lock);
    taken = !pool.ending && pool.count < pool.limit;
    if (taken) {
        pool.queue[(pool.first + pool.count++) % POOL_LIMIT_MAX] = handle;
        (void) pthread_cond_signal(&pool.changed);
    } else {
        pool.refused++;
    }
    (void) pthread_mutex_unlock(&pool.lock);
    if (taken)
        return HG_SUCCESS;
    (void) HG_Respond_error(handle, HG_AGAIN, "the queue is full");
    return HG_Destroy(handle);
}

static void pool_execute(hg_handle_t handle)
{
    pool_in_t in;
    pool_out_t out;
    /* The client may have canceled a call that was queued for long. */
    hg_return_t ret =
        HG_Is_canceled(handle) ? HG_CANCELED : HG_Get_input(handle, &in);

    if (ret == HG_SUCCESS) {
        out.steps = pool_steps(in.number);
        (void) HG_Free_input(handle, &in);
        (void) HG_Respond(handle, NULL, NULL, &out);
    } else {
        (void) HG_Respond_error(handle, ret, NULL);
    }
    (void) HG_Destroy(handle);
}

/* A thread of the pool. It executes calls in the order of their arrival; after
 * a signal it empties the queue before it ends. */
static void *pool_work(void *unused)
{
    (void) pthread_mutex_lock(&pool.lock);
    for (;;) {
        hg_handle_t handle;

        while (pool.count == 0 && !pool.ending)
            (void) pthread_cond_wait(&pool.changed, &pool.lock);
        if (pool.count == 0)
            break;
        handle = pool.queue[pool.first];
        pool.first = (pool.first + 1) % POOL_LIMIT_MAX;
        pool.count--;
        pool.served++;
        (void) pthread_mutex_unlock(&pool.lock);
        pool_execute(handle);
        (void) pthread_mutex_lock(&pool.lock);
    }
    (void) pthread_mutex_unlock(&pool.lock);
    return unused;
}

static atomic_bool pool_stop_progress;

static void *pool_progress(void *arg)
{
    hg_context_t *context = (hg_context_t *) arg;

    while (!atomic_load(&pool_stop_progress)) {
        (void) HG_Progress(context, HG_MAX_IDLE_TIME);
        while (HG_Trigger(context, 0, 64, NULL) == HG_SUCCESS) {
        }
    }
    return NULL;
}

/* Start the threads, wait for a signal, and stop the threads: first the pool,
 * because its last responses need progress, then the thread of progress. */
static hg_return_t pool_serve(struct endpoint *endpoint, unsigned size)
{
    pthread_t threads[POOL_THREADS_MAX];
    pthread_t progress;
    unsigned started = 0;
    sigset_t signals;
    int caught;

    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGTERM);
    (void) pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads */
    if (pthread_create(&progress, NULL, pool_progress, endpoint->context) != 0)
        return HG_NOMEM;
    while (started < size &&
        pthread_create(&threads[started], NULL, pool_work, NULL) == 0)
        started++;
    if (started > 0 && endpoint_print_address(endpoint) == HG_SUCCESS)
        (void) sigwait(&signals, &caught);
    (void) pthread_mutex_lock(&pool.lock);
    pool.ending = true;
    (void) pthread_cond_broadcast(&pool.changed);
    (void) pthread_mutex_unlock(&pool.lock);
    while (started > 0)
        (void) pthread_join(threads[--started], NULL);
    atomic_store(&pool_stop_progress, true);
    HG_Wake(endpoint->context);
    (void) pthread_join(progress, NULL);
    printf("%lu calls served, %lu refused\n", pool.served, pool.refused);
    return HG_SUCCESS;
}

static int pool_server(const char *address, unsigned size, unsigned limit)
{
    struct endpoint endpoint;
    hg_return_t ret = endpoint_listen(&endpoint, address);

    if (ret != HG_SUCCESS)
        return 1;
    pool.limit = limit;
    ret = HG_OTHER_ERROR;
    if (MERCURY_REGISTER(endpoint.hg_class, "pool_steps", pool_in_t, pool_out_t,
            pool_take) != 0)
        ret = pool_serve(&endpoint, size);
    endpoint_close(&endpoint);
    return ret != HG_SUCCESS;
}

/* ---- Client ---- */

static struct pool_client {
    unsigned in_flight;
    unsigned again; /* calls refused in this round */
    unsigned failed;
    uint64_t sum;
} client;

/* A call ended. A refused one is not done: the next round makes it again. */
static hg_return_t pool_answered(const struct hg_cb_info *info)
{
    hg_handle_t handle = info->info.forward.handle;
    bool *done = (bool *) info->arg;
    hg_return_t ret = info->ret;
    pool_out_t out;

    client.in_flight--;
    if (ret == HG_SUCCESS)
        ret = HG_Get_output(handle, &out);
    if (ret == HG_SUCCESS) {
        client.sum += out.steps;
        ret = HG_Free_output(handle, &out);
    }
    if (ret == HG_AGAIN)
        client.again++;
    else
        *done = true;
    if (ret != HG_SUCCESS && ret != HG_AGAIN) {
        client.failed++;
        (void) fprintf(stderr, "pool_steps: %s %s\n", HG_Error_to_string(ret),
            HG_Get_error_text(handle));
    }
    return HG_SUCCESS;
}

/* Make all calls that are not done and wait for them. */
static void pool_round(
    hg_context_t *context, hg_handle_t *handles, bool *done, unsigned count)
{
    unsigned i;

    client.again = 0;
    for (i = 0; i < count; i++) {
        pool_in_t in = {1000000 + i};
        hg_return_t ret = HG_AGAIN;

        if (done[i])
            continue;
        ret = HG_Forward(handles[i], pool_answered, &done[i], &in);
        if (ret == HG_SUCCESS) {
            client.in_flight++;
        } else if (ret == HG_AGAIN) {
            client.again++;
        } else {
            client.failed++;
            done[i] = true;
        }
    }
    while (client.in_flight > 0) {
        (void) HG_Progress(context, HG_MAX_IDLE_TIME);
        while (HG_Trigger(context, 0, 64, NULL) == HG_SUCCESS) {
        }
    }
}

/* Make all calls, in rounds with a pause between them. */
static void pool_call(
    hg_context_t *context, hg_addr_t server, hg_id_t id, unsigned count)
{
    hg_handle_t *handles = (hg_handle_t *) calloc(count, sizeof(handles[0]));
    bool *done = (bool *) calloc(count, sizeof(done[0]));
    const struct timespec pause = {0, POOL_PAUSE_MS * 1000000};
    unsigned long refused = 0;
    unsigned i = 0;

    client.failed = handles != NULL && done != NULL ? 0 : count;
    while (client.failed == 0 && i < count) {
        if (HG_Create(context, server, id, &handles[i]) == HG_SUCCESS)
            i++;
        else
            client.failed++;
    }
    while (client.failed == 0) {
        pool_round(context, handles, done, count);
        refused += client.again;
        if (client.again == 0)
            break;
        (void) nanosleep(&pause, NULL);
    }
    while (i > 0)
        (void) HG_Destroy(handles[--i]);
    free(handles);
    free(done);
    printf("%u calls, refused %lu times, %u failed, sum %" PRIu64 "\n", count,
        refused, client.failed, client.sum);
}

static int pool_client(const char *address, unsigned count)
{
    struct endpoint endpoint;
    hg_addr_t server;
    hg_id_t id;

    if (endpoint_connect(&endpoint, address) != HG_SUCCESS)
        return 1;
    client.failed = count;
    id = MERCURY_REGISTER(
        endpoint.hg_class, "pool_steps", pool_in_t, pool_out_t, NULL);
    if (id != 0 &&
        HG_Addr_lookup2(endpoint.hg_class, address, &server) == HG_SUCCESS) {
        pool_call(endpoint.context, server, id, count);
        (void) HG_Addr_free(endpoint.hg_class, server);
    }
    endpoint_close(&endpoint);
    return client.failed != 0;
}

int main(int argc, char *argv[])
{
    bool server = argc == 5 && strcmp(argv[1], "server") == 0;
    bool caller = argc == 4 && strcmp(argv[1], "client") == 0;
    unsigned long size, limit;

    if (usage_is_printed(argc, argv, "pool", pool_help))
        return 0;
    if (server) {
        size = usage_number(argv[3], POOL_THREADS_MAX);
        limit = usage_number(argv[4], POOL_LIMIT_MAX);
        if (size == 0 || limit == 0)
            return usage_error("pool", "THREADS is 1 to %d, LIMIT 1 to %d",
                POOL_THREADS_MAX, POOL_LIMIT_MAX);
        return pool_server(argv[2], (unsigned) size, (unsigned) limit);
    }
    if (caller) {
        size = usage_number(argv[3], POOL_CALLS_MAX);
        if (size == 0)
            return usage_error("pool", "CALLS is 1 to %d", POOL_CALLS_MAX);
        return pool_client(argv[2], (unsigned) size);
    }
    return usage_error("pool",
        "expects server ADDRESS THREADS LIMIT, "
        "or client ADDRESS CALLS");
}
