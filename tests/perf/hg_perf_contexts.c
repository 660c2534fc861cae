/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: several contexts of one class, in the callback model.
 *
 * contexts: two threads against one thread. Each thread runs on a processor of
 * its own, has an origin context and a target context of its own, and calls
 * itself, one call at a time.
 *
 * handlers: two threads of a client against one. Each thread calls a context of
 * a server, which has a thread of its own and works 5 us for a call. Each
 * thread has several calls in flight and is not bound to a processor.
 *
 * Compared are the calls per second of all threads together, on one class.
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
#define PERF_CONTEXTS_WINDOW 8u
#define PERF_CONTEXTS_WORK ((uint64_t) 5000) /* ns */

struct perf_contexts;
struct perf_contexts_caller;

/* A handle that is used for one call after the other. */
struct perf_contexts_slot {
    struct perf_contexts_caller *caller;
    hg_handle_t handle;
    perf_echo_t in;
};

/* A thread that makes calls, with its contexts. */
struct perf_contexts_caller {
    const struct perf_contexts *all;
    unsigned number;
    hg_context_t *origin;
    hg_context_t *target; /* NULL: in another process */
    struct perf_contexts_slot slots[PERF_CONTEXTS_WINDOW];
    unsigned in_flight;
    uint64_t until;
    hg_return_t ret;
    uint64_t calls;
    unsigned char padding[64]; /* keeps threads in different cache lines */
};

struct perf_contexts {
    double seconds;
    unsigned window; /* calls in flight of each thread */
    hg_class_t *hg_class;
    hg_addr_t addr;
    hg_id_t id;
    struct perf_contexts_caller callers[PERF_CONTEXTS_MAX];
};

/* ---- The function ---- */

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

static void perf_contexts_call(struct perf_contexts_slot *slot);

/* A call ended: start the next one until the time is over. */
static hg_return_t perf_contexts_ended(const struct hg_cb_info *info)
{
    struct perf_contexts_slot *slot = (struct perf_contexts_slot *) info->arg;
    struct perf_contexts_caller *caller = slot->caller;
    hg_return_t ret = info->ret;
    perf_echo_t out;

    caller->in_flight--;
    caller->calls++;
    if (ret == HG_SUCCESS)
        ret = HG_Get_output(slot->handle, &out);
    if (ret == HG_SUCCESS) {
        if (out.a != slot->in.a || out.h != slot->in.h)
            ret = HG_FAULT;
        (void) HG_Free_output(slot->handle, &out);
    }
    if (ret != HG_SUCCESS)
        caller->ret = ret;
    if (caller->ret == HG_SUCCESS && perf_now_ns() < caller->until)
        perf_contexts_call(slot);
    return HG_SUCCESS;
}

static void perf_contexts_call(struct perf_contexts_slot *slot)
{
    struct perf_contexts_caller *caller = slot->caller;
    hg_return_t ret;

    slot->in.a = caller->calls;
    slot->in.h = ~caller->calls;
    ret = HG_Forward2(slot->handle, perf_contexts_ended, slot, &slot->in);
    if (ret == HG_SUCCESS)
        caller->in_flight++;
    else
        caller->ret = ret;
}

static void perf_contexts_progress(hg_context_t *context, unsigned ms)
{
    unsigned count;

    if (HG_Progress(context, ms) == HG_SUCCESS)
        (void) HG_Trigger(context, 0, PERF_CONTEXTS_WINDOW, &count);
}

static void *perf_contexts_thread(void *arg)
{
    struct perf_contexts_caller *caller = (struct perf_contexts_caller *) arg;
    unsigned i;

    if (caller->target != NULL)
        perf_contexts_pin(caller->number);
    caller->until = perf_now_ns() + (uint64_t) (caller->all->seconds * 1e9);
    caller->calls = 0;
    caller->ret = HG_SUCCESS;
    for (i = 0; i < caller->all->window; i++)
        perf_contexts_call(&caller->slots[i]);
    while (caller->in_flight > 0) {
        if (caller->target != NULL) {
            perf_contexts_progress(caller->target, 0);
            perf_contexts_progress(caller->origin, 0);
        } else
            perf_contexts_progress(caller->origin, 100);
    }
    return NULL;
}

/* ---- Rounds ---- */

struct perf_contexts_round {
    struct perf_contexts *all;
    unsigned threads;
};

/* Seconds per call of all threads together. */
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
                &threads[i], NULL, perf_contexts_thread, &callers[i]) != 0)
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

/* Two threads against one. */
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
    const struct perf_options *options, bool alone)
{
    unsigned i;

    memset(all, 0, sizeof(*all));
    all->seconds = options->seconds;
    all->window = alone ? 1 : PERF_CONTEXTS_WINDOW;
    all->hg_class = HG_Init2(url, alone ? HG_TRUE : HG_FALSE);
    if (all->hg_class == NULL)
        return perf_fail(url, HG_NA_ERROR);
    all->id =
        HG_Register_name(all->hg_class, "contexts echo", hg_proc_perf_echo_t,
            hg_proc_perf_echo_t, alone ? perf_contexts_echo : (hg_rpc_cb_t) 0);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        struct perf_contexts_caller *caller = &all->callers[i];

        caller->all = all;
        caller->number = i;
        if (alone)
            caller->target = HG_Context_create_id(all->hg_class, (uint8_t) i);
        caller->origin = HG_Context_create_id(
            all->hg_class, (uint8_t) (PERF_CONTEXTS_MAX + i));
        if (caller->origin == NULL || (alone && caller->target == NULL))
            return perf_fail("HG_Context_create_id", HG_OTHER_ERROR);
    }
    return 0;
}

/* Let thread i call the target's context i at `addr`. */
static int perf_contexts_connect(struct perf_contexts *all)
{
    unsigned i;

    for (i = 0; i < PERF_CONTEXTS_MAX * all->window; i++) {
        struct perf_contexts_caller *caller = &all->callers[i / all->window];
        struct perf_contexts_slot *slot = &caller->slots[i % all->window];
        hg_return_t ret =
            HG_Create(caller->origin, all->addr, all->id, &slot->handle);

        if (ret == HG_SUCCESS)
            ret = HG_Set_target_id(slot->handle, (uint8_t) caller->number);
        if (ret != HG_SUCCESS)
            return perf_fail("HG_Create", ret);
        slot->caller = caller;
    }
    return 0;
}

static void perf_contexts_close(struct perf_contexts *all)
{
    unsigned i;

    for (i = 0; i < PERF_CONTEXTS_MAX * all->window; i++)
        (void) HG_Destroy(
            all->callers[i / all->window].slots[i % all->window].handle);
    (void) HG_Addr_free(all->hg_class, all->addr);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        if (all->callers[i].target != NULL)
            (void) HG_Context_destroy(all->callers[i].target);
        (void) HG_Context_destroy(all->callers[i].origin);
    }
    (void) HG_Finalize2(all->hg_class);
}

static bool perf_contexts_has_cpus(const char *figure)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) >= (long) PERF_CONTEXTS_MAX)
        return true;
    printf("# one processor: no figure %s\n", figure);
    return false;
}

int perf_contexts(const char *url, const struct perf_options *options)
{
    static const struct perf_figure figure = {
        "contexts", "calls/s", 1, 1, 0, 1.6};
    struct perf_contexts all;

    if (!perf_contexts_has_cpus(figure.name))
        return 0;
    if (perf_contexts_open(&all, url, options, true) != 0 ||
        HG_Addr_self(all.hg_class, &all.addr) != HG_SUCCESS ||
        perf_contexts_connect(&all) != 0 ||
        perf_contexts_compare(&all, options, &figure) != 0)
        return -1; /* the program exits */
    perf_contexts_close(&all);
    return 0;
}

/* ---- Slow handlers in another process ---- */

static hg_return_t perf_contexts_work(hg_handle_t handle)
{
    uint64_t until = perf_now_ns() + PERF_CONTEXTS_WORK;

    while (perf_now_ns() < until)
        continue;
    return perf_contexts_echo(handle);
}

struct perf_contexts_server {
    hg_context_t *context;
    const volatile sig_atomic_t *stop;
    pthread_t thread;
};

static void *perf_contexts_process(void *arg)
{
    const struct perf_contexts_server *server =
        (const struct perf_contexts_server *) arg;

    while (!*server->stop)
        perf_contexts_progress(server->context, 100);
    return NULL;
}

int perf_contexts_serve(
    const char *url, int ready_fd, const volatile sig_atomic_t *stop)
{
    struct perf_contexts_server servers[PERF_CONTEXTS_MAX];
    hg_class_t *hg_class = HG_Init2(url, HG_TRUE);
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    hg_addr_t self;
    unsigned i;

    if (hg_class == NULL || HG_Addr_self(hg_class, &self) != HG_SUCCESS ||
        HG_Addr_to_string(hg_class, name, &size, self) != HG_SUCCESS)
        return perf_fail(url, HG_NA_ERROR);
    (void) HG_Addr_free(hg_class, self);
    if (HG_Register_name(hg_class, "contexts echo", hg_proc_perf_echo_t,
            hg_proc_perf_echo_t, perf_contexts_work) == 0)
        return perf_fail("HG_Register_name", HG_OTHER_ERROR);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        servers[i].stop = stop;
        servers[i].context = HG_Context_create_id(hg_class, (uint8_t) i);
        if (servers[i].context == NULL)
            return perf_fail("HG_Context_create_id", HG_OTHER_ERROR);
    }
    for (i = 0; i < PERF_CONTEXTS_MAX; i++) {
        if (pthread_create(&servers[i].thread, NULL, perf_contexts_process,
                &servers[i]) != 0)
            abort();
    }
    if (dprintf(ready_fd, "%s\n", name) < 0)
        return perf_fail("write", HG_IO_ERROR);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++)
        (void) pthread_join(servers[i].thread, NULL);
    for (i = 0; i < PERF_CONTEXTS_MAX; i++)
        (void) HG_Context_destroy(servers[i].context);
    (void) HG_Finalize2(hg_class);
    return 0;
}

int perf_contexts_handlers(const char *url, const struct perf_options *options)
{
    static const struct perf_figure figure = {
        "handlers", "calls/s", 1, 1, 0, 0};
    struct perf_process server;
    struct perf_contexts all;
    hg_return_t ret;

    if (!perf_contexts_has_cpus(figure.name))
        return 0;
    if (perf_start_server(url, PERF_POOL, options, &server) != 0 ||
        perf_contexts_open(&all, url, options, false) != 0)
        return -1; /* the program exits, and the server with it */
    ret = HG_Addr_lookup2(all.hg_class, server.address, &all.addr);
    if (ret != HG_SUCCESS)
        return perf_fail(server.address, ret);
    if (perf_contexts_connect(&all) != 0 ||
        perf_contexts_compare(&all, options, &figure) != 0)
        return -1;
    perf_contexts_close(&all);
    perf_stop_server(&server);
    return 0;
}
#endif
