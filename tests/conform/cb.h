/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cb: shared by the conformance programs of the callback model: an endpoint,
 * and a target to call.
 *
 * As in rpc.h: if the transport reaches other processes, the target is the role
 * `server` in its own process, which makes progress until it is stopped;
 * otherwise the target is the process itself. Both register the same functions
 * in cb_register, which each program defines. An endpoint with handles left
 * cannot be closed, so each case destroys them on both sides.
 *
 * Every record of a call checks the rules that always hold: its callback runs
 * inside HG_Trigger, once, and gets the handle that was forwarded.
 */
#ifndef HG_TESTS_CONFORM_CB_H
#define HG_TESTS_CONFORM_CB_H

#define HG_API_VERSION 2
#include "hg.h"

#include "harness.h"
#include "support/blob.h"

#include <pthread.h>
#include <stdatomic.h>

#define CB_TIMEOUT HG_TEST_WAIT_MS
#define CB_CONTEXTS 4u /* of an endpoint, at most */

struct cb_end {
    na_class_t *na_class;
    hg_class_t *hg_class;
    hg_context_t *contexts[CB_CONTEXTS]; /* by id */
    unsigned count;
    hg_context_t *context; /* the first */
    hg_addr_t target;
    struct hg_test_peer *peer; /* NULL: the target is this process */
};

/* Register the functions of both sides; defined by each program. */
static void cb_register(hg_class_t *hg_class);

/* A class on its own NA class, so that the transport's options can be set; with
 * so many contexts, whose ids are 0, 1, ... */
static inline void cb_start(struct cb_end *end, unsigned contexts)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    unsigned i;

    memset(end, 0, sizeof(*end));
    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    na_info.lookup_ms = hg_test_lookup_ms();
    end->na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    HG_CHECK(end->na_class != NULL);
    free(string);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    HG_CHECK(end->hg_class != NULL && contexts <= CB_CONTEXTS);
    for (i = 0; i < contexts; i++) {
        end->contexts[i] = HG_Context_create_id(end->hg_class, (uint8_t) i);
        HG_CHECK(end->contexts[i] != NULL);
    }
    end->count = contexts;
    end->context = end->contexts[0];
    cb_register(end->hg_class);
}

static inline void cb_end(struct cb_end *end)
{
    unsigned i;

    for (i = 0; i < end->count; i++)
        HG_CHECK_OK(HG_Context_destroy(end->contexts[i]));
    HG_CHECK_OK(HG_Finalize(end->hg_class));
    HG_CHECK_OK(NA_Finalize(end->na_class));
}

static inline void cb_find_peer(struct cb_end *end)
{
    char *address = hg_test_read_peer(end->peer);

    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, CB_TIMEOUT, &end->target));
    free(address);
}

static inline void cb_open_with(struct cb_end *end, unsigned contexts)
{
    char text[16];

    cb_start(end, contexts);
    if (!hg_test_crosses_processes()) {
        HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
        return;
    }
    snprintf(text, sizeof(text), "%u", contexts);
    end->peer = hg_test_spawn("server", text, (char *) NULL);
    cb_find_peer(end);
}

static inline void cb_open(struct cb_end *end)
{
    cb_open_with(end, 1);
}

static inline void cb_close(struct cb_end *end)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    cb_end(end);
    if (end->peer != NULL)
        hg_test_stop(end->peer);
}

/* ---- Progress ---- */

/* How many calls of HG_Trigger this thread is in. */
static _Thread_local unsigned cb_triggering;

/* Run at most `max` callbacks; returns how many ran. */
static inline unsigned cb_trigger(
    hg_context_t *context, unsigned timeout, unsigned max)
{
    unsigned count = 77;
    hg_return_t ret;

    cb_triggering++;
    ret = HG_Trigger(context, timeout, max, &count);
    cb_triggering--;
    HG_CHECK_RET(ret, count > 0 ? HG_SUCCESS : HG_TIMEOUT);
    HG_CHECK(count <= max);
    return count;
}

/* Make progress once in a context, for at most `ms`; returns how many callbacks
 * ran. */
static inline unsigned cb_turn(hg_context_t *context, unsigned ms)
{
    hg_return_t ret = HG_Progress(context, ms);
    unsigned count = 0;
    unsigned n;

    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    do {
        n = cb_trigger(context, 0, 100);
        count += n;
    } while (n > 0);
    return count;
}

/* Make progress until `flag` is set. */
static inline void cb_turn_until(
    hg_context_t *context, const _Atomic unsigned *flag)
{
    unsigned turns = 0;

    while (atomic_load(flag) == 0) {
        HG_CHECK(turns++ < CB_TIMEOUT); /* each idle round takes 1 ms */
        (void) cb_turn(context, 1);
    }
}

/* ---- Calls ---- */

struct cb_call {
    _Atomic unsigned ends;
    hg_return_t ret;
    hg_handle_t handle;
    int32_t refs; /* in the callback */
};

static inline hg_return_t cb_ended(const struct hg_cb_info *info)
{
    struct cb_call *call = (struct cb_call *) info->arg;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(info->type, HG_CB_FORWARD);
    HG_CHECK(info->info.forward.handle == call->handle);
    call->ret = info->ret;
    call->refs = HG_Ref_get(call->handle);
    HG_CHECK_EQ_INT(atomic_fetch_add(&call->ends, 1), 0);
    return HG_SUCCESS;
}

static inline hg_handle_t cb_new_handle(const struct cb_end *end, hg_id_t id)
{
    hg_handle_t handle = HG_HANDLE_NULL;

    HG_CHECK_OK(HG_Create(end->context, end->target, id, &handle));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    return handle;
}

/* Start a call; its record is new. */
static inline hg_return_t cb_forward(
    struct cb_call *call, hg_handle_t handle, void *in)
{
    memset(call, 0, sizeof(*call));
    call->handle = handle;
    return HG_Forward(handle, cb_ended, call, in);
}

/* Wait for its result, which must arrive in time. */
static inline hg_return_t cb_wait(
    const struct cb_end *end, const struct cb_call *call)
{
    cb_turn_until(end->context, &call->ends);
    return call->ret;
}

/* A complete call. If the code is HG_SUCCESS and `out` is not NULL, free it
 * with HG_Free_output. */
static inline hg_return_t cb_do(
    const struct cb_end *end, hg_handle_t handle, void *in, void *out)
{
    struct cb_call call;
    hg_return_t ret;

    HG_CHECK_OK(cb_forward(&call, handle, in));
    ret = cb_wait(end, &call);
    HG_CHECK_EQ_INT(call.refs, 2);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    return ret == HG_SUCCESS && out != NULL ? HG_Get_output(handle, out) : ret;
}

/* A complete call with its own handle, destroyed afterwards; `out` must not
 * need freeing. */
static inline hg_return_t cb_call(
    const struct cb_end *end, hg_id_t id, void *in, void *out)
{
    hg_handle_t handle = cb_new_handle(end, id);
    hg_return_t ret = cb_do(end, handle, in, out);

    if (ret == HG_SUCCESS && out != NULL)
        HG_CHECK_OK(HG_Free_output(handle, out));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    return ret;
}

/* ---- The server's process ---- */

static void *cb_listen_parent(void *arg)
{
    _Atomic unsigned *stop = (_Atomic unsigned *) arg;

    free(hg_test_read_parent());
    atomic_store(stop, 1);
    return NULL;
}

struct cb_worker {
    hg_context_t *context;
    const _Atomic unsigned *stop;
};

static void *cb_work(void *arg)
{
    struct cb_worker *worker = (struct cb_worker *) arg;

    while (atomic_load(worker->stop) == 0)
        (void) cb_turn(worker->context, 20);
    return NULL;
}

/* Report the address, and serve each context in its own thread until told to
 * stop. */
static void cb_serve(struct cb_end *end)
{
    char address[NA_MAX_ADDR_LEN];
    struct cb_worker workers[CB_CONTEXTS];
    pthread_t threads[CB_CONTEXTS];
    _Atomic unsigned stop = 0;
    pthread_t listener;
    unsigned i;

    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
    HG_CHECK_OK(NA_Addr_to_string(
        end->na_class, address, sizeof(address), end->target));
    hg_test_write_parent(address);
    HG_CHECK(pthread_create(&listener, NULL, cb_listen_parent, &stop) == 0);
    for (i = 0; i < end->count; i++) {
        workers[i].context = end->contexts[i];
        workers[i].stop = &stop;
        if (i > 0)
            HG_CHECK(
                pthread_create(&threads[i], NULL, cb_work, &workers[i]) == 0);
    }
    (void) cb_work(&workers[0]);
    for (i = 1; i < end->count; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    HG_CHECK(pthread_join(listener, NULL) == 0);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
}

/* Look up another endpoint of this process, which makes progress meanwhile. */
static inline void cb_find(struct cb_end *end, const struct cb_end *other)
{
    char address[NA_MAX_ADDR_LEN];
    _Atomic unsigned stop = 0;
    struct cb_worker worker;
    pthread_t thread;
    hg_addr_t self;

    HG_CHECK_OK(NA_Addr_self(other->na_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(other->na_class, address, sizeof(address), self));
    HG_CHECK_OK(NA_Addr_free(other->na_class, self));
    worker.context = other->context;
    worker.stop = &stop;
    HG_CHECK(pthread_create(&thread, NULL, cb_work, &worker) == 0);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, CB_TIMEOUT, &end->target));
    atomic_store(&stop, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
}

HG_TEST_ROLE(server)
{
    struct cb_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log(""); /* the client checks the results it gets */
    cb_start(&end, (unsigned) strtoul(argv[0], NULL, 10));
    cb_serve(&end);
    cb_end(&end);
}

/* ---- A number, and a function that adds one to it ---- */

MERCURY_GEN_PROC(cb_one_t, ((int32_t) (value)))

static inline hg_return_t cb_inc(hg_handle_t handle)
{
    cb_one_t value;

    HG_CHECK_OK(HG_Get_input(handle, &value));
    HG_CHECK_OK(HG_Free_input(handle, &value));
    value.value++;
    /* The caller may be dead by now: it gets no response then. */
    (void) HG_Respond(handle, NULL, NULL, &value);
    return HG_Destroy(handle);
}

#endif
