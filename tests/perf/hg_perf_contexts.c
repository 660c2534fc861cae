/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: contexts of one class side by side, in the callback model.
 *
 * contexts: two threads, each on a processor of its own, each with an origin
 * and a target context of its own, calling nobody but itself, against one such
 * thread. A thread has one call under way. What is compared are the calls in a
 * second of all threads, on the same class, in turns.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* pthread_setaffinity_np */
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hg_perf.h"

#if PERF_RAW_SM

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERF_CONTEXTS_MAX 2u

struct perf_contexts;

/* A thread with its origin context and what it calls. */
struct perf_contexts_caller {
    const struct perf_contexts *all;
    unsigned number;
    hg_context_t *origin;
    hg_context_t *target;
    hg_handle_t handle;
    perf_echo_t in;
    int done;
    hg_return_t ret;
    uint64_t calls;
    unsigned char apart[64]; /* from the other's cache lines */
};

struct perf_contexts {
    double seconds;
    hg_class_t *hg_class;
    hg_addr_t addr;
    hg_id_t id;
    struct perf_contexts_caller callers[PERF_CONTEXTS_MAX];
};

/* ---- What is called ---- */

static hg_return_t perf_contexts_echo(hg_handle_t handle)
{
    perf_echo_t value;
    hg_return_t ret = HG_Get_input(handle, &value);

    if (ret == HG_SUCCESS) {
        (void) HG_Free_input(handle, &value);
        ret = HG_Respond(handle, NULL, NULL, &value);
    }
    (void) HG_Destroy(handle);
    return ret;
}

/* ---- A thread ---- */

static void perf_contexts_pin(unsigned processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
        fprintf(stderr, "hg_perf: cannot pin to processor %u\n", processor);
}

static hg_return_t perf_contexts_ended(const struct hg_cb_info *info)
{
    struct perf_contexts_caller *caller =
        (struct perf_contexts_caller *) info->arg;
    perf_echo_t out;

    caller->ret = info->ret;
    if (info->ret == HG_SUCCESS)
        caller->ret = HG_Get_output(caller->handle, &out);
    if (caller->ret == HG_SUCCESS) {
        if (out.a != caller->in.a || out.h != caller->in.h)
            caller->ret = HG_FAULT;
        (void) HG_Free_output(caller->handle, &out);
    }
    caller->done = 1;
    return HG_SUCCESS;
}

static void perf_contexts_turn(hg_context_t *context)
{
    unsigned count;

    if (HG_Progress(context, 0) == HG_SUCCESS)
        (void) HG_Trigger(context, 0, 8, &count);
}

/* A call from beginning to end. */
static hg_return_t perf_contexts_call(struct perf_contexts_caller *caller)
{
    hg_return_t ret;

    caller->in.a = caller->calls;
    caller->in.h = ~caller->calls;
    caller->done = 0;
    ret = HG_Forward2(caller->handle, perf_contexts_ended, caller, &caller->in);
    if (ret != HG_SUCCESS)
        return ret;
    while (!caller->done) {
        perf_contexts_turn(caller->target);
        perf_contexts_turn(caller->origin);
    }
    return caller->ret;
}

static void *perf_contexts_live(void *arg)
{
    struct perf_contexts_caller *caller = (struct perf_contexts_caller *) arg;
    uint64_t until = perf_now_ns() + (uint64_t) (caller->all->seconds * 1e9);

    perf_contexts_pin(caller->number);
    caller->calls = 0;
    caller->ret = HG_SUCCESS;
    while (caller->ret == HG_SUCCESS && perf_now_ns() < until) {
        caller->ret = perf_contexts_call(caller);
        caller->calls++;
    }
    return NULL;
}

/* ---- Rounds ---- */

struct perf_contexts_round {
    struct perf_contexts *all;
    unsigned threads;
};

/* The seconds between two calls of any. */
static int perf_contexts_run(
    struct perf_client *client, void *arg, double *per_op_p)
{
    const struct perf_contexts_round *round =
        (const struct perf_contexts_round *) arg;
    struct perf_contexts_caller *callers = round->all->callers;
    pthread_t threads[PERF_CONTEXTS_MAX];
    uint64_t start = perf_now_ns();
    uint64_t calls = 0;
    hg_return_t ret = HG_SUCCESS;
    unsigned i;

    (void) client;
    for (i = 0; i < round->threads; i++) {
        if (pthread_create(
                &threads[i], NULL, perf_contexts_live, &callers[i]) != 0)
            abort();
    }
    for (i = 0; i < round->threads; i++) {
        (void) pthread_join(threads[i], NULL);
        calls += callers[i].calls;
        if (callers[i].ret != HG_SUCCESS)
            ret = callers[i].ret;
    }
    *per_op_p = 1e-9 * (double) (perf_now_ns() - start) / (double) calls;
    return ret == HG_SUCCESS ? 0 : perf_fail("calls between contexts", ret);
}

/* One thread against two. */
static int perf_contexts_compare(struct perf_contexts *all,
    const struct perf_options *options, const struct perf_figure *figure)
{
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    struct perf_contexts_round rounds[2];
    struct perf_client client;
    unsigned i;

    memset(&client, 0, sizeof(client));
    client.options = options;
    memset(contestants, 0, sizeof(contestants));
    for (i = 0; i < 2; i++) {
        rounds[i].all = all;
        rounds[i].threads = 2 - i;
        contestants[i].run = perf_contexts_run;
        contestants[i].arg = &rounds[i];
    }
    contestants[1].series.name = "one thread";
    if (perf_contest(&client, contestants, 2) != 0)
        return -1;
    perf_report(figure, &contestants[0].series, &contestants[1].series);
    return 0;
}

/* ---- Classes ---- */

static int perf_contexts_open(struct perf_contexts *all, const char *url,
    const struct perf_options *options)
{
    unsigned i;

    memset(all, 0, sizeof(*all));
    all->seconds = options->seconds;
    all->hg_class = HG_Init2(url, HG_TRUE);
    if (all->hg_class == NULL)
        return perf_fail(url, HG_NA_ERROR);
    all->id = HG_Register_name(all->hg_class, "contexts echo",
        hg_proc_perf_echo_t, hg_proc_perf_echo_t, perf_contexts_echo);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        struct perf_contexts_caller *caller = &all->callers[i];

        caller->all = all;
        caller->number = i;
        caller->target = HG_Context_create_id(all->hg_class, (uint8_t) i);
        caller->origin = HG_Context_create_id(
            all->hg_class, (uint8_t) (PERF_CONTEXTS_MAX + i));
        if (caller->origin == NULL || caller->target == NULL)
            return perf_fail("HG_Context_create_id", HG_OTHER_ERROR);
    }
    return 0;
}

/* Thread i calls the target's context i at `addr`. */
static int perf_contexts_aim(struct perf_contexts *all)
{
    unsigned i;

    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        struct perf_contexts_caller *caller = &all->callers[i];
        hg_return_t ret =
            HG_Create(caller->origin, all->addr, all->id, &caller->handle);

        if (ret == HG_SUCCESS)
            ret = HG_Set_target_id(caller->handle, (uint8_t) i);
        if (ret != HG_SUCCESS)
            return perf_fail("HG_Create", ret);
    }
    return 0;
}

static void perf_contexts_close(struct perf_contexts *all)
{
    unsigned i;

    for (i = 0; i < PERF_CONTEXTS_MAX; i++)
        (void) HG_Destroy(all->callers[i].handle);
    (void) HG_Addr_free(all->hg_class, all->addr);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        (void) HG_Context_destroy(all->callers[i].target);
        (void) HG_Context_destroy(all->callers[i].origin);
    }
    (void) HG_Finalize2(all->hg_class);
}

int perf_contexts(const char *url, const struct perf_options *options)
{
    static const struct perf_figure figure = {
        "contexts", "calls/s", 1, 1, 0, 1.6};
    struct perf_contexts all;

    if (sysconf(_SC_NPROCESSORS_ONLN) < (long) PERF_CONTEXTS_MAX) {
        printf("# one processor: no figure contexts\n");
        return 0;
    }
    if (perf_contexts_open(&all, url, options) != 0 ||
        HG_Addr_self(all.hg_class, &all.addr) != HG_SUCCESS ||
        perf_contexts_aim(&all) != 0 ||
        perf_contexts_compare(&all, options, &figure) != 0)
        return -1; /* the program ends */
    perf_contexts_close(&all);
    return 0;
}
#endif
