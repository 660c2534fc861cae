/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool: a server that computes in a pool of threads, and says no in time.
 *
 *     pool server ADDRESS THREADS ROOM    listens, prints its address, serves
 *                                         till Ctrl-C: that many threads, and
 *                                         room for so many calls that wait
 *     pool client ADDRESS CALLS           makes so many calls at once, those
 *                                         that were refused again, and adds up
 *
 *     one thread    makes progress, and hands calls over
 *        |          no room in the queue? --> HG_AGAIN, at once
 *     queue
 *      | | |
 *     threads       decode, compute, answer, let go of the handle
 *
 * So the network is served while others compute, and a server with more to do
 * than it can do tells so, rather than to let its callers wait for ever longer.
 */
#define _POSIX_C_SOURCE 200809L
#include "end.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define POOL_THREADS_MAX 64
#define POOL_ROOM_MAX 4096
#define POOL_LOOK_MS 500 /* how soon a thread sees that it is to end */
#define POOL_PAUSE_MS 5  /* between a refusal and another try */

MERCURY_GEN_PROC(pool_in_t, ((uint64_t) (number)))
MERCURY_GEN_PROC(pool_out_t, ((uint64_t) (steps)))

/* ---- Server ---- */

static struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hg_handle_t queue[POOL_ROOM_MAX]; /* a ring */
    unsigned first, count, room;
    bool ending;
    unsigned long served, refused;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Until the Collatz sequence of a number is at 1; something to do. */
static uint64_t pool_steps(uint64_t number)
{
    uint64_t steps = 0;

    while (number > 1) {
        number = number % 2 == 0 ? number / 2 : number * 3 + 1;
        steps++;
    }
    return steps;
}

/* In the thread of progress: nothing here takes long. The handle is kept until
 * its call was answered. */
static hg_return_t pool_take(hg_handle_t handle)
{
    bool taken;

    (void) pthread_mutex_lock(&pool.lock);
    taken = !pool.ending && pool.count < pool.room;
    if (taken) {
        pool.queue[(pool.first + pool.count++) % POOL_ROOM_MAX] = handle;
        (void) pthread_cond_signal(&pool.changed);
    } else {
        pool.refused++;
    }
    (void) pthread_mutex_unlock(&pool.lock);
    if (taken)
        return HG_SUCCESS;
    (void) HG_Respond_error(handle, HG_AGAIN, "no room for another call");
    return HG_Destroy(handle);
}

static void pool_execute(hg_handle_t handle)
{
    pool_in_t in;
    pool_out_t out;
    /* One that waited for too long need not be computed any more. */
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

/* A thread of the pool: calls in their order, and those that are left at the
 * end, too. */
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
        pool.first = (pool.first + 1) % POOL_ROOM_MAX;
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
        (void) HG_Progress(context, POOL_LOOK_MS);
        while (HG_Trigger(context, 0, 64, NULL) == HG_SUCCESS) {
        }
    }
    return NULL;
}

/* Begin the threads, wait for a signal, end them in the other order: the pool
 * answers what it took while there is progress. */
static hg_return_t pool_serve(struct end *end, unsigned size)
{
    pthread_t threads[POOL_THREADS_MAX];
    pthread_t progress;
    unsigned started = 0;
    sigset_t signals;
    int caught;

    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGTERM);
    (void) pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the threads inherit */
    if (pthread_create(&progress, NULL, pool_progress, end->context) != 0)
        return HG_NOMEM;
    while (started < size &&
        pthread_create(&threads[started], NULL, pool_work, NULL) == 0)
        started++;
    if (started > 0 && end_announce(end) == HG_SUCCESS)
        (void) sigwait(&signals, &caught);
    (void) pthread_mutex_lock(&pool.lock);
    pool.ending = true;
    (void) pthread_cond_broadcast(&pool.changed);
    (void) pthread_mutex_unlock(&pool.lock);
    while (started > 0)
        (void) pthread_join(threads[--started], NULL);
    atomic_store(&pool_stop_progress, true);
    (void) pthread_join(progress, NULL);
    printf("%lu calls served, %lu refused\n", pool.served, pool.refused);
    return HG_SUCCESS;
}

static int pool_server(const char *address, unsigned size, unsigned room)
{
    struct end end;
    hg_return_t ret = end_listen(&end, address);

    if (ret != HG_SUCCESS)
        return 1;
    pool.room = room;
    ret = HG_OTHER_ERROR;
    if (MERCURY_REGISTER(
            end.hg_class, "pool_steps", pool_in_t, pool_out_t, pool_take) != 0)
        ret = pool_serve(&end, size);
    end_close(&end);
    return ret != HG_SUCCESS;
}

/* ---- Client ---- */

static struct pool_client {
    unsigned left;  /* calls under way */
    unsigned again; /* refused in this round */
    unsigned failed;
    uint64_t sum;
} client;

/* A handle's call is over; one that was refused is to be made again. */
static hg_return_t pool_answered(const struct hg_cb_info *info)
{
    hg_handle_t handle = info->info.forward.handle;
    bool *done = (bool *) info->arg;
    hg_return_t ret = info->ret;
    pool_out_t out;

    client.left--;
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
        (void) fprintf(stderr, "a call: %s %s\n", HG_Error_to_string(ret),
            HG_Get_error_text(handle));
    }
    return HG_SUCCESS;
}

/* Make all calls that are not done, and wait for all of them. */
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
            client.left++;
        } else if (ret == HG_AGAIN) {
            client.again++;
        } else {
            client.failed++;
            done[i] = true;
        }
    }
    while (client.left > 0) {
        (void) HG_Progress(context, POOL_LOOK_MS);
        while (HG_Trigger(context, 0, 64, NULL) == HG_SUCCESS) {
        }
    }
}

/* Calls, in rounds, with a pause in between. */
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
    struct end end;
    hg_addr_t server;
    hg_id_t id;

    if (end_connect(&end, address) != HG_SUCCESS)
        return 1;
    client.failed = count;
    id = MERCURY_REGISTER(
        end.hg_class, "pool_steps", pool_in_t, pool_out_t, NULL);
    if (id != 0 &&
        HG_Addr_lookup2(end.hg_class, address, &server) == HG_SUCCESS) {
        pool_call(end.context, server, id, count);
        (void) HG_Addr_free(end.hg_class, server);
    }
    end_close(&end);
    return client.failed != 0;
}

/* A number from 1 to `max`; 0: it is none. */
static unsigned pool_number(const char *text, unsigned max)
{
    char *behind;
    unsigned long number = strtoul(text, &behind, 10);

    return *behind == '\0' && number <= max ? (unsigned) number : 0;
}

int main(int argc, char *argv[])
{
    unsigned size, room;

    if (argc == 5 && strcmp(argv[1], "server") == 0) {
        size = pool_number(argv[3], POOL_THREADS_MAX);
        room = pool_number(argv[4], POOL_ROOM_MAX);
        if (size > 0 && room > 0)
            return pool_server(argv[2], size, room);
    }
    if (argc == 4 && strcmp(argv[1], "client") == 0) {
        size = pool_number(argv[3], 1000000);
        if (size > 0)
            return pool_client(argv[2], size);
    }
    (void) fprintf(stderr,
        "usage: pool server ADDRESS THREADS ROOM |"
        " pool client ADDRESS CALLS\n");
    return 2;
}
