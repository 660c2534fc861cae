/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: the seeds' blocking model, a thin room on the callback engine.
 *
 * One layer a process: HG_Init makes it, HG_Finalize ends it. A request is a
 * call whose callback decodes the output and raises a flag; waiting is
 * progress until that flag is up.
 *
 * Any number of threads may wait. One at a time has the driver's role and
 * progresses; the others sleep, each until its own request completes, and one
 * of them takes the role over when the driver leaves. Handlers run outside
 * the role, so that a slow one stops nobody's progress.
 *
 *     wait:  done? --yes--> result
 *             | no
 *            calls queued that may run here? --yes--> run one, again
 *             | no
 *            role free? --yes--> progress, run completions, hand on, again
 *             | no
 *            sleep until done, the role is free, or time is up; again
 *
 * Locking: one mutex guards everything in `hg_request_layer` and every
 * request's flag. It is not held while progressing or calling anybody.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/bulk.h"
#include "hg/bulk_transfer.h"
#include "hg/context.h"
#include "hg/forward.h"
#include "hg/serve.h"
#include "na/addr.h"
#include "na/class.h"
#include "na/context.h"
#include "na/progress.h"

/* Handlers that may be running inside each other in one thread. */
#define HG_REQUEST_DEPTH_MAX 16

/* Completions run before the role is handed on. */
#define HG_REQUEST_BATCH 64

/* What a thread sleeps on, unless it drives. */
struct hg_request_waiter {
    struct na_link link;
    pthread_cond_t cond;
    const bool *done; /* its request's flag; NULL: any event */
    bool calls;       /* runs handlers */
};

/*
 *     WAITING --ended--> DECODING --> DONE --freed--> gone
 *        +-----freed--> ABANDONED --ended--> gone
 */
enum hg_request_state {
    HG_REQUEST_WAITING = 0,
    HG_REQUEST_DECODING, /* the driver writes out_struct */
    HG_REQUEST_DONE,
    HG_REQUEST_ABANDONED /* freed in flight */
};

struct hg_request {
    struct na_link link; /* of all requests not freed */
    enum hg_request_state state;
    bool done; /* state DONE: what waiters look at */
    struct hg_handle *handle;
    void *out_struct;
    bool decoded; /* out_struct holds what HG_Request_free releases */
    hg_return_t ret;
};

struct hg_bulk_request {
    struct na_link link;
    bool abandoned; /* by HG_Finalize */
    bool done;
    hg_return_t ret;
};

struct hg_request_layer {
    pthread_mutex_t lock;
    struct hg_context *context; /* NULL: not initialised */
    struct hg_bulk_layer *layer;
    bool own_layer;          /* made by HG_Init */
    bool driving;            /* a thread has the role */
    bool watching;           /* and returns from progress for queued calls */
    unsigned servers;        /* sleepers that run handlers */
    _Atomic unsigned inside; /* threads in a wait; raised with the lock */
    struct na_link waiters;
    struct na_link requests;
    struct na_link bulk_requests;
    struct hg_options options;
};

/* The layer of this process. */
static struct hg_request_layer hg_request_layer = {
    PTHREAD_MUTEX_INITIALIZER,
    NULL,
    NULL,
    false,
    false,
    false,
    0,
    0,
    {&hg_request_layer.waiters, &hg_request_layer.waiters},
    {&hg_request_layer.requests, &hg_request_layer.requests},
    {&hg_request_layer.bulk_requests, &hg_request_layer.bulk_requests},
    HG_OPTIONS_INITIALIZER,
};

/* Handlers running in this thread. */
static _Thread_local unsigned hg_request_depth;

static void hg_request_lock(void)
{
    hg_lock(&hg_request_layer.lock);
}

static void hg_request_unlock(void)
{
    hg_unlock(&hg_request_layer.lock);
}

/* The context, or NULL with a log line. */
static struct hg_context *hg_request_context(const char *function)
{
    struct hg_context *context;

    hg_request_lock();
    context = hg_request_layer.context;
    hg_request_unlock();
    if (context == NULL)
        hg_log_error("rpc", "%s: HG_Init was not called", function);
    return context;
}

/* The same for a function that waits: until hg_request_leave, HG_Finalize
 * leaves the context alone. */
static struct hg_context *hg_request_enter(const char *function)
{
    struct hg_context *context;

    hg_request_lock();
    context = hg_request_layer.context;
    if (context != NULL)
        atomic_fetch_add(&hg_request_layer.inside, 1);
    hg_request_unlock();
    if (context == NULL)
        hg_log_error("rpc", "%s: HG_Init was not called", function);
    return context;
}

/* Hands `ret` through. */
static hg_return_t hg_request_leave(hg_return_t ret)
{
    unsigned before = atomic_fetch_sub(&hg_request_layer.inside, 1);

    assert(before > 0);
    (void) before;
    return ret;
}

static hg_return_t hg_request_refuse(const char *function, const char *what)
{
    hg_log_error("rpc", "%s: %s", function, what);
    return HG_INVALID_ARG;
}

/* ---- Waiting ---- */

/* Raise a flag and wake who waits for it. Lock held. */
static void hg_request_complete(bool *done)
{
    struct na_link *link;

    *done = true;
    for (link = hg_request_layer.waiters.next;
         link != &hg_request_layer.waiters; link = link->next) {
        struct hg_request_waiter *waiter =
            HG_CONTAINER_OF(link, struct hg_request_waiter, link);

        if (waiter->done == done)
            pthread_cond_signal(&waiter->cond);
    }
}

/* If the role is free, wake a sleeper, who takes it over. Whoever leaves a
 * wait does this too: it may have been woken for the role, and not need it
 * any more. Lock held. */
static void hg_request_hand_on(void)
{
    struct na_link *first = hg_request_layer.waiters.next;

    if (!hg_request_layer.driving && first != &hg_request_layer.waiters)
        pthread_cond_signal(
            &HG_CONTAINER_OF(first, struct hg_request_waiter, link)->cond);
}

/* A call is queued: wake a sleeper that runs handlers. Lock held. */
static void hg_request_wake_server(void)
{
    struct na_link *link;

    for (link = hg_request_layer.waiters.next;
         link != &hg_request_layer.waiters; link = link->next) {
        struct hg_request_waiter *waiter =
            HG_CONTAINER_OF(link, struct hg_request_waiter, link);

        if (waiter->calls) {
            pthread_cond_signal(&waiter->cond);
            return;
        }
    }
}

/* Sleep until woken or `deadline`; lock held. False: time is up. */
static bool hg_request_sleep(
    struct hg_context *context, const bool *done, bool calls, uint64_t deadline)
{
    struct hg_request_waiter waiter;
    bool in_time;

    if (hg_lock_cond_init(&waiter.cond) != HG_SUCCESS) {
        /* Nothing to sleep on: look again in a moment. */
        hg_request_unlock();
        (void) sched_yield();
        hg_request_lock();
        return hg_clock_now() < deadline;
    }
    hg_list_init(&waiter.link);
    waiter.done = done;
    waiter.calls = calls;
    hg_list_push(&hg_request_layer.waiters, &waiter.link);
    if (calls) {
        hg_request_layer.servers++;
        if (!hg_request_layer.watching) /* let the driver look for calls */
            na_progress_poke(context->na_context);
    }
    in_time =
        hg_lock_wait_until(&waiter.cond, &hg_request_layer.lock, deadline);
    if (calls)
        hg_request_layer.servers--;
    hg_list_remove(&waiter.link);
    pthread_cond_destroy(&waiter.cond);
    return in_time;
}

/* Run queued calls, counting the depth; the number run. */
static unsigned hg_request_run_calls(struct hg_context *context, unsigned max)
{
    unsigned n;

    hg_request_depth++;
    n = na_context_run(context->na_context, 1u << NA_LANE_CALL, max);
    hg_request_depth--;
    return n;
}

/* Drive for one round: progress, then run what completed. Adds to *events_p.
 * Lock held and role free, before and after. */
static hg_return_t hg_request_drive(struct hg_context *context, bool calls,
    uint64_t deadline, unsigned *events_p)
{
    hg_return_t ret;

    assert(!hg_request_layer.driving);
    hg_request_layer.driving = true;
    hg_request_layer.watching = calls || hg_request_layer.servers > 0;
    hg_request_unlock();
    ret = hg_context_progress(context,
        hg_request_layer.watching ? NA_LANES_ALL : NA_LANES_DONE, deadline);
    *events_p +=
        na_context_run(context->na_context, NA_LANES_DONE, HG_REQUEST_BATCH);
    hg_request_lock();
    if (!calls && na_queue_has(context->queue, 1u << NA_LANE_CALL))
        hg_request_wake_server();
    hg_request_layer.driving = false;
    hg_request_hand_on();
    return ret;
}

/* Wait until *done, or for any event when `done` is NULL; handlers run here if
 * `calls`. HG_SUCCESS, HG_TIMEOUT or HG_INTR. */
static hg_return_t hg_request_wait(
    struct hg_context *context, const bool *done, bool calls, uint64_t deadline)
{
    hg_return_t ret = HG_SUCCESS;
    unsigned events = 0;

    hg_request_lock();
    for (;;) {
        if (done != NULL ? *done : events > 0) {
            ret = HG_SUCCESS;
            break;
        }
        if (calls && na_queue_has(context->queue, 1u << NA_LANE_CALL)) {
            hg_request_unlock();
            events += hg_request_run_calls(
                context, done != NULL ? 1 : HG_REQUEST_BATCH);
            hg_request_lock();
            continue;
        }
        if (ret != HG_SUCCESS)
            break;
        if (!hg_request_layer.driving)
            ret = hg_request_drive(context, calls, deadline, &events);
        else if (!hg_request_sleep(context, done, calls, deadline))
            ret = HG_TIMEOUT;
    }
    hg_request_hand_on();
    hg_request_unlock();
    return ret;
}

static uint64_t hg_request_deadline(unsigned timeout)
{
    return timeout == 0 ? 0 : hg_clock_after_ms(timeout);
}

/* ---- Life ---- */

HG_EXPORT hg_return_t HG_Set_options(const struct hg_options *options)
{
    static const struct hg_options defaults = HG_OPTIONS_INITIALIZER;
    hg_return_t ret = HG_SUCCESS;

    if (options == NULL)
        options = &defaults;
    if (options->size != sizeof(*options))
        return hg_request_refuse(
            "HG_Set_options", "size is not that of struct hg_options");
    hg_request_lock();
    if (hg_request_layer.context != NULL)
        ret = HG_BUSY;
    else
        hg_request_layer.options = *options;
    hg_request_unlock();
    if (ret != HG_SUCCESS)
        hg_log_error("rpc", "HG_Set_options: HG_Init was called already");
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_init(na_class_t *na_class)
{
    struct hg_bulk_layer *layer;
    hg_return_t ret;

    if (!na_class_is_live(na_class))
        return hg_request_refuse("HG_Bulk_init", "no such class is open");
    hg_request_lock();
    if (hg_request_layer.layer != NULL) {
        ret = HG_EXIST;
        hg_log_error("bulk", "HG_Bulk_init: initialised already");
        goto unlock;
    }
    ret = hg_bulk_layer_create(na_class, &layer);
    if (ret == HG_SUCCESS) {
        hg_request_layer.layer = layer;
        hg_request_layer.own_layer = false;
        hg_bulk_set_current(layer);
    }
unlock:
    hg_request_unlock();
    return ret;
}

/* End the bulk layer; lock held. */
static void hg_request_end_bulk(void)
{
    struct hg_bulk_layer *layer = hg_request_layer.layer;

    hg_bulk_set_current(NULL);
    hg_request_layer.layer = NULL;
    hg_bulk_layer_destroy(layer);
}

HG_EXPORT hg_return_t HG_Bulk_finalize(void)
{
    hg_return_t ret = HG_SUCCESS;

    hg_request_lock();
    if (hg_request_layer.layer == NULL)
        ret = HG_FAULT;
    else if (hg_request_layer.context != NULL)
        ret = HG_BUSY;
    else
        hg_request_end_bulk();
    hg_request_unlock();
    if (ret != HG_SUCCESS)
        hg_log_error("bulk", "HG_Bulk_finalize: %s",
            ret == HG_BUSY ? "HG_Finalize comes first" : "not initialised");
    return ret;
}

/* Make layer and context; lock held. */
static hg_return_t hg_request_begin(na_class_t *na_class)
{
    hg_return_t ret;

    hg_request_layer.own_layer = hg_request_layer.layer == NULL;
    if (hg_request_layer.own_layer) {
        ret = hg_bulk_layer_create(na_class, &hg_request_layer.layer);
        if (ret != HG_SUCCESS)
            return ret;
        hg_bulk_set_current(hg_request_layer.layer);
    }
    ret = hg_context_create(na_class, hg_request_layer.layer,
        &hg_request_layer.options, &hg_request_layer.context);
    if (ret != HG_SUCCESS && hg_request_layer.own_layer)
        hg_request_end_bulk();
    return ret;
}

HG_EXPORT hg_return_t HG_Init1(na_class_t *na_class)
{
    hg_return_t ret;

    if (!na_class_is_live(na_class))
        return hg_request_refuse("HG_Init", "no such class is open");
    hg_request_lock();
    if (hg_request_layer.context != NULL) {
        ret = HG_EXIST;
        hg_log_error("rpc", "HG_Init: initialised already");
    } else {
        ret = hg_request_begin(na_class);
    }
    hg_request_unlock();
    return ret;
}

static void hg_request_free_one(struct hg_request *request);

/* Free the requests the application left. */
static void hg_request_free_all(void)
{
    struct na_link *link;

    hg_request_lock();
    while (
        (link = hg_request_layer.requests.next) != &hg_request_layer.requests) {
        hg_request_unlock();
        hg_request_free_one(HG_CONTAINER_OF(link, struct hg_request, link));
        hg_request_lock();
    }
    while ((link = hg_list_pop(&hg_request_layer.bulk_requests)) != NULL) {
        struct hg_bulk_request *request =
            HG_CONTAINER_OF(link, struct hg_bulk_request, link);

        request->abandoned = true; /* freed when its transfer ends */
        if (request->done)
            hg_mem_free(request);
    }
    hg_request_unlock();
}

HG_EXPORT hg_return_t HG_Finalize1(void)
{
    struct hg_context *context;
    hg_return_t ret = HG_SUCCESS;

    hg_request_lock();
    context = hg_request_layer.context;
    if (context == NULL)
        ret = HG_FAULT;
    else if (hg_request_depth > 0 || atomic_load(&hg_request_layer.inside) > 0)
        ret = HG_BUSY;
    else
        hg_request_layer.context = NULL;
    hg_request_unlock();
    if (ret != HG_SUCCESS) {
        hg_log_error("rpc", "HG_Finalize: %s",
            ret == HG_FAULT ? "not initialised"
                            : "inside a handler, or a thread is in a wait");
        return ret;
    }
    hg_request_free_all();
    hg_context_destroy(context);
    hg_request_lock();
    if (hg_request_layer.own_layer)
        hg_request_end_bulk();
    hg_request_unlock();
    return HG_SUCCESS;
}

HG_EXPORT hg_id_t HG_Register1(const char *func_name, hg_proc_cb_t in_proc_cb,
    hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    struct hg_context *context = hg_request_context("HG_Register");
    struct hg_rpc rpc = {0, in_proc_cb, out_proc_cb, rpc_cb};

    if (context == NULL)
        return 0;
    if (func_name == NULL || func_name[0] == '\0') {
        (void) hg_request_refuse("HG_Register", "the name is NULL or empty");
        return 0;
    }
    return hg_registry_add(&context->hg_class->registry, func_name, &rpc);
}

/* ---- Calls ---- */

/* Let go of a request that is on no list. */
static void hg_request_delete(struct hg_request *request)
{
    if (request->decoded)
        (void) hg_handle_release(
            request->handle->rpc.out_proc, request->out_struct);
    hg_handle_unref(request->handle);
    hg_mem_free(request);
}

/* The call ended: decode, raise the flag. Runs in the driver's thread. */
static void hg_request_ended(struct hg_handle *handle, void *arg)
{
    struct hg_request *request = (struct hg_request *) arg;
    hg_return_t ret = handle->ret;
    bool abandoned;

    hg_request_lock();
    abandoned = request->state == HG_REQUEST_ABANDONED;
    if (!abandoned)
        request->state = HG_REQUEST_DECODING;
    hg_request_unlock();
    if (abandoned) {
        hg_request_delete(request);
        return;
    }
    if (ret == HG_SUCCESS && request->out_struct != NULL &&
        handle->rpc.out_proc != NULL) {
        ret = hg_handle_decode(
            &handle->out_args, handle->rpc.out_proc, request->out_struct);
        request->decoded = ret == HG_SUCCESS;
    }
    request->ret = ret;
    hg_request_lock();
    request->state = HG_REQUEST_DONE;
    hg_request_complete(&request->done);
    hg_request_unlock();
}

HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request)
{
    struct hg_context *context = hg_request_context("HG_Forward");
    struct hg_request *made;
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (request == NULL)
        return hg_request_refuse("HG_Forward", "request is NULL");
    ret = na_addr_check(context->hg_class->na_class, addr, "HG_Forward");
    if (ret != HG_SUCCESS)
        return ret;
    made = (struct hg_request *) hg_mem_calloc(1, sizeof(*made));
    if (made == NULL) {
        hg_log_error("rpc", "no memory for a request");
        return HG_NOMEM;
    }
    hg_list_init(&made->link);
    made->out_struct = out_struct;
    ret = hg_forward_create(context, addr, id, &made->handle);
    if (ret != HG_SUCCESS)
        goto free_request;
    if (in_struct == NULL && made->handle->rpc.in_proc != NULL) {
        ret = hg_request_refuse(
            "HG_Forward", "the function has an input, but in_struct is NULL");
        goto unref_handle;
    }
    hg_request_lock();
    hg_list_push(&hg_request_layer.requests, &made->link);
    hg_request_unlock();
    ret = hg_forward_start(made->handle, in_struct, hg_request_ended, made);
    if (ret != HG_SUCCESS)
        goto unlist_request;
    *request = made;
    return HG_SUCCESS;

unlist_request:
    hg_request_lock();
    hg_list_remove(&made->link);
    hg_request_unlock();
unref_handle:
    hg_handle_unref(made->handle);
free_request:
    hg_mem_free(made);
    return ret;
}

HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_request_enter("HG_Wait");
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (request == NULL)
        return hg_request_leave(
            hg_request_refuse("HG_Wait", "request is NULL"));
    ret = hg_request_wait(context, &request->done,
        hg_request_depth < HG_REQUEST_DEPTH_MAX, hg_request_deadline(timeout));
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    return hg_request_leave(ret == HG_SUCCESS ? request->ret : ret);
}

/* HG_Wait_all with arguments that were checked. */
static hg_return_t hg_request_wait_all(struct hg_context *context, int count,
    hg_request_t requests[], uint64_t deadline, hg_status_t statuses[])
{
    hg_return_t first = HG_SUCCESS;
    bool waiting = false;
    int i;

    for (i = 0; i < count; i++) {
        hg_return_t ret = hg_request_wait(context, &requests[i]->done,
            hg_request_depth < HG_REQUEST_DEPTH_MAX, deadline);

        if (statuses != NULL)
            statuses[i] = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
        if (ret == HG_INTR)
            return HG_INTR;
        if (ret == HG_TIMEOUT)
            waiting = true;
        else if (first == HG_SUCCESS)
            first = requests[i]->ret;
    }
    return first == HG_SUCCESS && waiting ? HG_TIMEOUT : first;
}

HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    struct hg_context *context = hg_request_enter("HG_Wait_all");
    uint64_t deadline = hg_request_deadline(timeout);
    const char *wrong = NULL;
    int i;

    if (context == NULL)
        return HG_FAULT;
    if (count < 0 || (count > 0 && array_of_requests == NULL))
        wrong = "the array is NULL, or the count negative";
    for (i = 0; wrong == NULL && i < count; i++) {
        if (array_of_requests[i] == NULL)
            wrong = "a request is NULL";
    }
    if (wrong != NULL)
        return hg_request_leave(hg_request_refuse("HG_Wait_all", wrong));
    for (i = 0; array_of_statuses != NULL && i < count; i++)
        array_of_statuses[i] = HG_FALSE;
    return hg_request_leave(hg_request_wait_all(
        context, count, array_of_requests, deadline, array_of_statuses));
}

/* Free a request in whatever state; one in flight is taken back. */
static void hg_request_free_one(struct hg_request *request)
{
    struct hg_handle *handle = request->handle;
    bool done;

    hg_request_lock();
    while (request->state == HG_REQUEST_DECODING) {
        hg_request_unlock(); /* another thread is about to finish it */
        (void) sched_yield();
        hg_request_lock();
    }
    hg_list_remove(&request->link);
    done = request->state == HG_REQUEST_DONE;
    if (!done) {
        hg_handle_ref(handle);
        request->state = HG_REQUEST_ABANDONED;
        request->out_struct = NULL;
    }
    hg_request_unlock();
    if (done) {
        hg_request_delete(request);
        return;
    }
    (void) hg_forward_cancel(handle);
    hg_handle_unref(handle);
}

HG_EXPORT hg_return_t HG_Request_free(hg_request_t request)
{
    if (hg_request_context("HG_Request_free") == NULL)
        return HG_FAULT;
    if (request == NULL)
        return hg_request_refuse("HG_Request_free", "request is NULL");
    hg_request_free_one(request);
    return HG_SUCCESS;
}

/* ---- Bulk ---- */

/* The layer handles are made in, or NULL with a log line. */
static struct hg_bulk_layer *hg_request_bulk(const char *function)
{
    struct hg_bulk_layer *layer = hg_bulk_current();

    if (layer == NULL)
        hg_log_error("bulk", "%s: HG_Bulk_init was not called", function);
    return layer;
}

HG_EXPORT hg_return_t HG_Bulk_handle_create(size_t count, void **buf_ptrs,
    const size_t *buf_sizes, unsigned long flags, hg_bulk_t *handle)
{
    struct hg_bulk_layer *layer = hg_request_bulk("HG_Bulk_handle_create");

    if (layer == NULL)
        return HG_FAULT;
    if (handle == NULL)
        return hg_request_refuse("HG_Bulk_handle_create", "handle is NULL");
    return hg_bulk_create(layer, count, buf_ptrs, buf_sizes, flags, handle);
}

HG_EXPORT hg_return_t HG_Bulk_handle_free(hg_bulk_t handle)
{
    if (handle == NULL)
        return hg_request_refuse("HG_Bulk_handle_free", "handle is NULL");
    if (!handle->remote)
        hg_bulk_withdraw(handle);
    hg_bulk_unref(handle);
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Bulk_handle_access(hg_bulk_t handle, size_t offset,
    size_t size, unsigned long flags, unsigned int max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned int *actual_count)
{
    if (handle == NULL || actual_count == NULL ||
        (max_count > 0 && (buf_ptrs == NULL || buf_sizes == NULL)))
        return hg_request_refuse(
            "HG_Bulk_handle_access", "an argument is NULL");
    return hg_bulk_access(handle, offset, size, flags, max_count, buf_ptrs,
        buf_sizes, actual_count);
}

HG_EXPORT size_t HG_Bulk_handle_get_size(hg_bulk_t handle)
{
    return handle != NULL ? handle->size : 0;
}

HG_EXPORT size_t HG_Bulk_handle_get_segment_count(hg_bulk_t handle)
{
    return handle != NULL ? handle->segment_count : 0;
}

HG_EXPORT size_t HG_Bulk_handle_get_serialize_size(hg_bulk_t handle)
{
    return handle != NULL && handle->layer != NULL
        ? hg_bulk_serialize_size(handle)
        : 0;
}

HG_EXPORT hg_return_t HG_Bulk_handle_serialize(
    void *buf, size_t buf_size, hg_bulk_t handle)
{
    if (buf == NULL || handle == NULL || handle->layer == NULL)
        return hg_request_refuse("HG_Bulk_handle_serialize",
            "an argument is NULL, or the bulk layer has ended");
    return hg_bulk_serialize(handle, buf, buf_size);
}

HG_EXPORT hg_return_t HG_Bulk_handle_deserialize(
    hg_bulk_t *handle, const void *buf, size_t buf_size)
{
    struct hg_bulk_layer *layer = hg_request_bulk("HG_Bulk_handle_deserialize");

    if (layer == NULL)
        return HG_FAULT;
    if (handle == NULL || buf == NULL)
        return hg_request_refuse(
            "HG_Bulk_handle_deserialize", "an argument is NULL");
    return hg_bulk_deserialize(layer, buf, buf_size, handle);
}

static void hg_request_bulk_ended(hg_return_t ret, void *arg)
{
    struct hg_bulk_request *request = (struct hg_bulk_request *) arg;
    bool abandoned;

    hg_request_lock();
    abandoned = request->abandoned;
    request->ret = ret;
    if (!abandoned)
        hg_request_complete(&request->done);
    hg_request_unlock();
    if (abandoned)
        hg_mem_free(request);
}

HG_EXPORT hg_return_t HG_Bulk_transfer1(hg_bulk_op_t op, na_addr_t origin_addr,
    hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
    size_t local_offset, size_t size, hg_bulk_request_t *request)
{
    struct hg_context *context = hg_request_context("HG_Bulk_transfer");
    struct hg_transfer_args args = {op, origin_addr, origin_handle,
        origin_offset, local_handle, local_offset, size};
    struct hg_bulk_request *made;
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (origin_handle == NULL || local_handle == NULL || request == NULL)
        return hg_request_refuse("HG_Bulk_transfer", "an argument is NULL");
    ret = na_addr_check(
        context->hg_class->na_class, origin_addr, "HG_Bulk_transfer");
    if (ret != HG_SUCCESS)
        return ret;
    made = (struct hg_bulk_request *) hg_mem_calloc(1, sizeof(*made));
    if (made == NULL) {
        hg_log_error("bulk", "no memory for a request");
        return HG_NOMEM;
    }
    hg_list_init(&made->link);
    hg_request_lock();
    hg_list_push(&hg_request_layer.bulk_requests, &made->link);
    hg_request_unlock();
    ret = hg_transfer_start(context->queue, &args, hg_request_bulk_ended, made);
    if (ret != HG_SUCCESS) {
        hg_request_lock();
        hg_list_remove(&made->link);
        hg_request_unlock();
        hg_mem_free(made);
        return ret;
    }
    *request = made;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Bulk_wait(
    hg_bulk_request_t request, unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_request_enter("HG_Bulk_wait");
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (request == NULL)
        return hg_request_leave(
            hg_request_refuse("HG_Bulk_wait", "request is NULL"));
    /* A wait that starts no handler, inside one or not. */
    ret = hg_request_wait(
        context, &request->done, false, hg_request_deadline(timeout));
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    if (ret != HG_SUCCESS)
        return hg_request_leave(ret);
    ret = request->ret;
    hg_request_lock();
    hg_list_remove(&request->link);
    hg_request_unlock();
    hg_mem_free(request);
    return hg_request_leave(ret);
}

/* ---- The names of the paper ---- */

HG_EXPORT hg_return_t HG_Bulk_handle_create_segments(
    const hg_bulk_segment_t *segments, size_t count, unsigned long flags,
    hg_bulk_t *handle)
{
    void **ptrs;
    size_t *sizes;
    hg_return_t ret;
    size_t i;

    if (segments == NULL || count == 0)
        return hg_request_refuse(
            "HG_Bulk_handle_create_segments", "there are no segments");
    ptrs = (void **) hg_mem_calloc(count, sizeof(ptrs[0]));
    sizes = (size_t *) hg_mem_calloc(count, sizeof(sizes[0]));
    if (ptrs == NULL || sizes == NULL) {
        hg_log_error("bulk", "no memory for %zu segments", count);
        ret = HG_NOMEM;
        goto free_arrays;
    }
    for (i = 0; i < count; i++) {
        ptrs[i] = segments[i].address;
        sizes[i] = segments[i].size;
    }
    ret = HG_Bulk_handle_create(count, ptrs, sizes, flags, handle);
free_arrays:
    hg_mem_free(ptrs);
    hg_mem_free(sizes);
    return ret;
}

HG_EXPORT hg_return_t HG_Bulk_block_handle_create(
    void *buf, size_t size, unsigned long flags, hg_bulk_block_t *block_handle)
{
    return HG_Bulk_handle_create(1, &buf, &size, flags, block_handle);
}

HG_EXPORT hg_return_t HG_Bulk_block_handle_free(hg_bulk_block_t block_handle)
{
    return HG_Bulk_handle_free(block_handle);
}

HG_EXPORT size_t HG_Bulk_block_handle_get_size(hg_bulk_block_t block_handle)
{
    return HG_Bulk_handle_get_size(block_handle);
}

HG_EXPORT hg_return_t HG_Bulk_read(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request)
{
    return HG_Bulk_transfer1(HG_BULK_PULL, addr, handle, offset, block_handle,
        block_offset, size, request);
}

HG_EXPORT hg_return_t HG_Bulk_write(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request)
{
    return HG_Bulk_transfer1(HG_BULK_PUSH, addr, handle, offset, block_handle,
        block_offset, size, request);
}

/* ---- Handlers ---- */

HG_EXPORT hg_return_t HG_Handler_process(
    unsigned int timeout, hg_status_t *status)
{
    struct hg_context *context = hg_request_enter("HG_Handler_process");
    hg_return_t ret;

    if (context == NULL)
        return HG_FAULT;
    if (hg_request_depth > 0) {
        hg_log_error("rpc", "HG_Handler_process inside a handler");
        return hg_request_leave(HG_BUSY);
    }
    ret = hg_request_wait(context, NULL, true, hg_request_deadline(timeout));
    if (status != HG_STATUS_IGNORE)
        *status = ret == HG_SUCCESS ? HG_TRUE : HG_FALSE;
    return hg_request_leave(ret);
}

HG_EXPORT na_addr_t HG_Handler_get_addr(hg_handle_t handle)
{
    return handle != NULL ? handle->addr : NULL;
}

HG_EXPORT hg_id_t HG_Handler_get_id(hg_handle_t handle)
{
    return handle != NULL ? handle->rpc.id : 0;
}

HG_EXPORT hg_return_t HG_Handler_get_input(hg_handle_t handle, void *in_struct)
{
    if (handle == NULL || in_struct == NULL)
        return hg_request_refuse("HG_Handler_get_input", "an argument is NULL");
    if (handle->rpc.in_proc == NULL)
        return hg_request_refuse(
            "HG_Handler_get_input", "the function has no input proc");
    return hg_handle_decode(&handle->in_args, handle->rpc.in_proc, in_struct);
}

HG_EXPORT hg_return_t HG_Handler_free_input(hg_handle_t handle, void *in_struct)
{
    if (handle == NULL || in_struct == NULL)
        return hg_request_refuse(
            "HG_Handler_free_input", "an argument is NULL");
    if (handle->rpc.in_proc == NULL)
        return hg_request_refuse(
            "HG_Handler_free_input", "the function has no input proc");
    return hg_handle_release(handle->rpc.in_proc, in_struct);
}

HG_EXPORT hg_return_t HG_Handler_start_output(
    hg_handle_t handle, void *out_struct)
{
    if (handle == NULL)
        return hg_request_refuse("HG_Handler_start_output", "handle is NULL");
    if (out_struct == NULL && handle->rpc.out_proc != NULL)
        return hg_request_refuse("HG_Handler_start_output",
            "the function has an output, but out_struct is NULL");
    return hg_serve_respond(handle, HG_SUCCESS, out_struct);
}

HG_EXPORT hg_return_t HG_Handler_get_input_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    if (handle == NULL || buf == NULL || size == NULL)
        return hg_request_refuse(
            "HG_Handler_get_input_buf", "an argument is NULL");
    *buf = (void *) (uintptr_t) handle->in_args.data;
    *size = handle->in_args.size;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Handler_get_output_buf(
    hg_handle_t handle, void **buf, size_t *size)
{
    if (handle == NULL || buf == NULL || size == NULL)
        return hg_request_refuse(
            "HG_Handler_get_output_buf", "an argument is NULL");
    return hg_serve_output_buf(handle, buf, size);
}

HG_EXPORT hg_return_t HG_Handler_start_response(
    hg_handle_t handle, void *extra_buf, size_t extra_size)
{
    if (handle == NULL)
        return hg_request_refuse("HG_Handler_start_response", "handle is NULL");
    return hg_serve_respond_raw(handle, extra_buf, extra_size);
}

HG_EXPORT hg_return_t HG_Handler_free(hg_handle_t handle)
{
    if (handle == NULL)
        return hg_request_refuse("HG_Handler_free", "handle is NULL");
    return hg_serve_free(handle);
}

/* ---- Counters ---- */

HG_EXPORT hg_return_t HG_Get_counters(struct hg_counters *counters)
{
    struct hg_context *context = hg_request_context("HG_Get_counters");
    struct hg_class *hg_class;

    if (context == NULL)
        return HG_FAULT;
    if (counters == NULL || counters->size != sizeof(*counters))
        return hg_request_refuse(
            "HG_Get_counters", "counters is NULL, or its size not set");
    hg_class = context->hg_class;
    counters->requests_sent = atomic_load(&hg_class->requests_sent);
    counters->responses_received = atomic_load(&hg_class->responses_received);
    counters->requests_received = atomic_load(&hg_class->requests_received);
    counters->responses_sent = atomic_load(&hg_class->responses_sent);
    counters->errors_sent = atomic_load(&hg_class->errors_sent);
    counters->inputs_fetched = atomic_load(&hg_class->inputs_fetched);
    counters->outputs_fetched = atomic_load(&hg_class->outputs_fetched);
    counters->refused = atomic_load(&hg_class->refused);
    counters->late = atomic_load(&hg_class->late);
    counters->bulk_bytes_pulled = atomic_load(&context->layer->bytes_pulled);
    counters->bulk_bytes_pushed = atomic_load(&context->layer->bytes_pushed);
    hg_lock(&context->lock);
    counters->in_flight = context->in_flight;
    counters->unanswered = context->unanswered;
    hg_unlock(&context->lock);
    return HG_SUCCESS;
}
