/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: two RPC engines in one process, connected by the loop transport.
 *
 * For programs that include hg.c: `a` calls, `b` serves, and the test makes
 * progress for both, so that it chooses the order of events. Arguments and
 * results are blobs.
 */
#ifndef HG_TESTS_UNIT_ENGINE_H
#define HG_TESTS_UNIT_ENGINE_H

#include "harness.h"
#include "unit/locked.h"
#include "support/blob.h"
#include "support/loop.h"

struct engine_end {
    na_class_t *na_class;
    struct hg_bulk_layer *layer;
    struct hg_class *hg_class;
    struct hg_context *context;
    na_addr_t peer; /* the other end */
};

struct engine {
    struct engine_end a;
    struct engine_end b;
};

/* A call of `a`. */
struct engine_call {
    struct hg_handle *handle;
    unsigned ends;
    hg_return_t ret;
};

/* Respond as HG_Handler_start_output does, which works only with HG_Init's
 * layer. */
static inline hg_return_t engine_answer(hg_handle_t handle, struct blob *blob)
{
    return hg_serve_respond(handle, HG_SUCCESS, blob);
}

static inline struct blob engine_new_blob(size_t size, uint64_t seed)
{
    struct blob blob = {size, (unsigned char *) malloc(size > 0 ? size : 1)};
    size_t i;

    HG_CHECK(blob.bytes != NULL);
    for (i = 0; i < size; i++)
        blob.bytes[i] = (unsigned char) ((i * 31 + seed) >> (i % 7));
    return blob;
}

/* Respond with so many bytes. */
static inline hg_return_t engine_answer_size(hg_handle_t handle, size_t size)
{
    struct blob blob = engine_new_blob(size, 7);
    hg_return_t ret = engine_answer(handle, &blob);

    free(blob.bytes);
    return ret;
}

/* Respond with the input. */
static inline hg_return_t engine_echo(hg_handle_t handle)
{
    struct blob blob = {0, NULL};
    hg_return_t ret = hg_handle_decode(handle, &blob, NULL);

    if (ret != HG_SUCCESS)
        return ret;
    ret = engine_answer(handle, &blob);
    (void) hg_handle_release(blob_proc, &blob);
    (void) hg_serve_free(handle);
    return ret == HG_NOMEM ? HG_SUCCESS : ret; /* the caller got the error */
}

/* Keep the handle for later. */
static hg_handle_t engine_kept[64];
static unsigned engine_kept_count;

static inline hg_return_t engine_keep(hg_handle_t handle)
{
    HG_CHECK(engine_kept_count < 64);
    engine_kept[engine_kept_count++] = handle;
    return HG_SUCCESS;
}

static inline na_class_t *engine_open_class(const char *name, size_t eager)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.max_unexpected_size = eager;
    info.max_expected_size = eager;
    return NA_Initialize_opt(name, NA_TRUE, &info);
}

/* Returns HG_SUCCESS, or why an engine could not be opened. */
static inline hg_return_t engine_open_end(struct engine_end *end,
    const char *name, size_t eager, const struct hg_options *options)
{
    hg_return_t ret;

    memset(end, 0, sizeof(*end));
    end->na_class = engine_open_class(name, eager);
    if (end->na_class == NULL)
        return HG_NOMEM;
    ret = hg_bulk_layer_create(end->na_class, &end->layer);
    if (ret == HG_SUCCESS)
        ret =
            hg_class_create(end->na_class, end->layer, options, &end->hg_class);
    if (ret == HG_SUCCESS)
        ret = hg_context_create(end->hg_class, -1, &end->context);
    return ret;
}

static inline void engine_close_end(struct engine_end *end)
{
    if (end->peer != NULL)
        HG_CHECK_OK(NA_Addr_free(end->na_class, end->peer));
    if (end->context != NULL)
        hg_context_destroy(end->context);
    if (end->hg_class != NULL)
        hg_class_destroy(end->hg_class);
    if (end->layer != NULL)
        hg_bulk_layer_destroy(end->layer);
    if (end->na_class != NULL)
        HG_CHECK_OK(NA_Finalize(end->na_class));
}

static inline void engine_close(struct engine *engine)
{
    engine_close_end(&engine->a);
    engine_close_end(&engine->b);
}

/* Open both, with messages of at most `eager` bytes. */
static inline hg_return_t engine_open(
    struct engine *engine, size_t eager, const struct hg_options *options)
{
    static const struct hg_options defaults = HG_OPTIONS_INITIALIZER;
    hg_return_t ret;

    if (options == NULL)
        options = &defaults;
    memset(engine, 0, sizeof(*engine));
    ret = engine_open_end(&engine->a, "loop://a", eager, options);
    if (ret == HG_SUCCESS)
        ret = engine_open_end(&engine->b, "loop://b", eager, options);
    if (ret == HG_SUCCESS)
        ret = NA_Addr_lookup_wait(
            engine->a.na_class, "loop://b", 1000, &engine->a.peer);
    if (ret == HG_SUCCESS)
        ret = NA_Addr_lookup_wait(
            engine->b.na_class, "loop://a", 1000, &engine->b.peer);
    if (ret != HG_SUCCESS)
        engine_close(engine);
    return ret;
}

/* Register on both sides; `callback` at `b`. */
static inline hg_id_t engine_register(
    struct engine *engine, const char *name, hg_rpc_cb_t callback)
{
    struct hg_rpc rpc = {0, blob_proc, blob_proc, NULL, NULL, NULL, 0};

    if (hg_registry_add(
            &engine->a.context->hg_class->registry, name, NULL, &rpc) == 0)
        return 0;
    rpc.callback = callback;
    return hg_registry_add(
        &engine->b.context->hg_class->registry, name, NULL, &rpc);
}

/* ---- Progress ---- */

static inline hg_return_t engine_progress(
    struct hg_context *context, unsigned lanes, uint64_t deadline)
{
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_context_progress(context, lanes, NULL, deadline);
    hg_leave(context->lock);
    return ret;
}

static inline unsigned engine_run(
    struct hg_context *context, unsigned lanes, unsigned max, uint64_t deadline)
{
    unsigned n;

    hg_enter(context->lock);
    n = na_queue_run(context->queue, lanes, max, deadline);
    hg_leave(context->lock);
    return n;
}

static inline hg_return_t engine_wait_until(struct hg_context *context,
    const _Atomic bool *done, unsigned lanes, uint64_t deadline)
{
    hg_return_t ret;

    hg_enter(context->lock);
    ret = hg_wait_until(context, done, lanes, deadline);
    hg_leave(context->lock);
    return ret;
}

/* Poll, and run the entries that were queued. */
static inline void engine_turn(struct engine_end *end)
{
    hg_enter(end->context->lock);
    (void) hg_context_progress(end->context, NA_LANES_ALL, NULL, 0);
    (void) na_queue_run(
        end->context->queue, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER);
    hg_leave(end->context->lock);
}

static inline bool engine_end_is_idle(struct engine_end *end)
{
    return na_queue_count(
               end->context->queue, NA_LANES_ALL | NA_LANES_INTERNAL) == 0 &&
        na_emul_due(na_class_emul(end->na_class)) > hg_clock_now();
}

/* Make progress on both until no message is in flight. */
static inline void engine_settle(struct engine *engine)
{
    do {
        engine_turn(&engine->a);
        engine_turn(&engine->b);
    } while (!loop_is_idle() || !engine_end_is_idle(&engine->a) ||
        !engine_end_is_idle(&engine->b));
}

/* ---- Calls ---- */

/* A handle without a call. */
static inline struct hg_handle *engine_new_handle(struct hg_context *context)
{
    struct hg_handle *handle;

    hg_enter(context->lock);
    handle = hg_handle_get(context);
    hg_leave(context->lock);
    return handle;
}

static inline void engine_ended(struct hg_handle *handle, void *arg)
{
    struct engine_call *call = (struct engine_call *) arg;

    HG_CHECK(call->handle == handle);
    HG_CHECK_EQ_INT(call->ends++, 0);
    call->ret = handle->ret;
}

/* A handle for a call, as HG_Forward makes it. */
static inline hg_return_t engine_create(struct hg_context *context,
    struct na_addr *addr, hg_id_t id, struct hg_handle **handle_p)
{
    const struct hg_rpc *rpc = hg_forward_find(context, id, "HG_Forward");
    hg_return_t ret = rpc != NULL ? HG_SUCCESS : HG_NOENTRY;

    if (ret != HG_SUCCESS)
        return ret;
    hg_enter(context->lock);
    ret = hg_forward_create(context, addr, rpc, handle_p);
    hg_leave(context->lock);
    return ret;
}

/* Encode its arguments, and send them. */
static inline hg_return_t engine_send(struct hg_handle *handle, void *in,
    void (*ended)(struct hg_handle *handle, void *arg), void *arg)
{
    hg_return_t ret = hg_handle_encode(handle, in);

    if (ret != HG_SUCCESS)
        return ret;
    hg_enter(handle->context->lock);
    ret = hg_forward_start(handle, &handle->in, ended, arg);
    hg_leave(handle->context->lock);
    return ret;
}

/* Start a call; the record owns the handle until engine_forget. */
static inline hg_return_t engine_start(struct engine *engine, hg_id_t id,
    const struct blob *in, struct engine_call *call)
{
    struct blob copy = *in;
    hg_return_t ret;

    memset(call, 0, sizeof(*call));
    ret = engine_create(engine->a.context, engine->a.peer, id, &call->handle);
    if (ret != HG_SUCCESS)
        return ret;
    ret = engine_send(call->handle, &copy, engine_ended, call);
    if (ret != HG_SUCCESS) {
        locked_forward_forget(call->handle);
        hg_handle_unref(call->handle);
        call->handle = NULL;
    }
    return ret;
}

static inline void engine_forget(struct engine_call *call)
{
    hg_handle_unref(call->handle);
    call->handle = NULL;
}

/* As HG_Request_free does for a call in flight: cancel it and release the
 * handle, without a callback. */
static inline void engine_ignore(struct hg_handle *handle, void *arg)
{
    (void) arg;
    hg_handle_unref_locked(handle);
}

static inline void engine_abandon(struct engine_call *call)
{
    if (call->ends > 0) {
        engine_forget(call);
        return;
    }
    hg_enter(call->handle->context->lock);
    call->handle->callback = engine_ignore;
    hg_leave(call->handle->context->lock);
    (void) locked_forward_cancel(call->handle);
    call->handle = NULL;
}

/* The decoded output of a successful call; freed with blob_proc. */
static inline hg_return_t engine_output(
    const struct engine_call *call, struct blob *out)
{
    return hg_handle_decode(call->handle, out, NULL);
}

/* The number of handles with references. */
static inline unsigned engine_live(struct hg_context *context)
{
    hg_enter(context->lock);
    hg_handle_collect(context);
    hg_leave(context->lock);
    return (unsigned) context->live;
}

/* How many outputs are held; returns one of them. */
static inline unsigned engine_held(
    struct hg_context *context, struct hg_handle **held_p)
{
    struct na_link *link;
    unsigned count = 0;

    hg_enter(context->lock);
    for (link = context->targets.next; link != &context->targets;
         link = link->next) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(link, struct hg_handle, link);

        count += handle->held;
        if (handle->held && held_p != NULL)
            *held_p = handle;
    }
    hg_leave(context->lock);
    return count;
}

/* No call has left any state, on either side. */
static inline void engine_check_empty(struct engine *engine)
{
    struct hg_context *contexts[2] = {engine->a.context, engine->b.context};
    const struct hg_handle *handle;
    unsigned i;

    for (i = 0; i < 2; i++) {
        uint32_t cursor = 0;
        uint64_t id;

        HG_CHECK_EQ_INT(engine_live(contexts[i]), 0);
        HG_CHECK_EQ_INT(contexts[i]->sending, 0);
        HG_CHECK_EQ_INT(contexts[i]->hg_class->in_flight, 0);
        HG_CHECK_EQ_U64(hg_handle_count_targets(contexts[i], false), 0);
        while ((handle = (struct hg_handle *) hg_slots_next(
                    &contexts[i]->sequences, &cursor, &id)) != NULL)
            HG_CHECK_EQ_INT(handle->state, HG_HANDLE_IDLE);
        HG_CHECK(engine_held(contexts[i], NULL) == 0);
        HG_CHECK_EQ_INT(contexts[i]->deadline.count, 0);
    }
}

#endif
