/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * init: starts and ends the request model.
 *
 *     HG_Bulk_init   create the bulk layer
 *     HG_Init        create the bulk layer if there is none, then the context
 *     HG_Finalize    HG_BUSY, or free what is left; destroy the context; undo
 *                    HG_Bulk_init if HG_Init did it
 *
 * This module depends on every module that has something to free. It also
 * registers functions and returns counters, which concern the layer as a whole.
 *
 * Locking: layer's mutex guards `hg_init_state`. HG_Finalize releases it while
 * it frees handles, which may call procs. `context` is still set then, so that
 * no other thread starts or ends a layer.
 *
 * fork: the child forgets the layer of the parent, whose locks and tables are
 * as other threads had them. It can start its own layer.
 */
#include "base/lock.h"
#include "base/log.h"
#include "hg/inspect.h"
#include "bulk/functions.h"
#include "hg/layer.h"
#include "hg/request.h"
#include "hg/serve.h"
#include "hg/wait.h"
#include "na/live.h"

struct hg_init_state {
    struct hg_context *context; /* NULL: not initialized */
    struct hg_bulk_layer *bulk;
    bool own_bulk; /* created by HG_Init() */
    struct hg_options options;
};

static struct hg_init_state hg_init_state = {
    NULL, NULL, false, HG_OPTIONS_INITIALIZER};

/* ---- Fork ---- */

/* The memory of the parent's layer is not freed. */
static void hg_init_fork_child(void)
{
    static const struct hg_options defaults = HG_OPTIONS_INITIALIZER;
    bool was_free = hg_layer_renew_lock();

    if (!was_free) /* they may be half written */
        hg_init_state.options = defaults;
    if (was_free && hg_init_state.bulk == NULL && hg_init_state.context == NULL)
        return;
    hg_init_state.context = NULL;
    hg_init_state.bulk = NULL;
    hg_init_state.own_bulk = false;
    hg_layer_open(NULL);
    hg_bulk_set_current(NULL);
    hg_request_forget_all();
    hg_bulk_request_forget_all();
    hg_wait_forget();
    hg_layer_set_forked(true);
}

static void hg_init_watch_forks(void)
{
    hg_log_atfork(NULL, NULL, hg_init_fork_child);
}

/* Lock to start or end a layer. */
static void hg_init_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, hg_init_watch_forks);
    hg_layer_lock();
}

HG_EXPORT hg_return_t HG_Set_options(const struct hg_options *options)
{
    static const struct hg_options defaults = HG_OPTIONS_INITIALIZER;
    hg_return_t ret = HG_SUCCESS;

    if (options == NULL)
        options = &defaults;
    if (options->size != sizeof(*options))
        return hg_log_misuse(
            "rpc", "HG_Set_options", "size is not that of struct hg_options");
    hg_init_lock();
    if (hg_init_state.context != NULL)
        ret = HG_BUSY;
    else
        hg_init_state.options = *options;
    hg_layer_unlock();
    if (ret != HG_SUCCESS)
        hg_log_error("rpc", "HG_Set_options: HG_Init was already called");
    return ret;
}

HG_EXPORT hg_return_t HG_Get_options(struct hg_options *options)
{
    if (options == NULL || options->size != sizeof(*options))
        return hg_log_misuse(
            "rpc", "HG_Get_options", "size is not that of struct hg_options");
    hg_init_lock();
    hg_class_fill_options(options, &hg_init_state.options);
    hg_layer_unlock();
    return HG_SUCCESS;
}

/* Lock, and hold the class, so that NA_Finalize refuses to close it.
 * HG_INVALID_ARG, HG_FAULT (logged). */
static hg_return_t hg_init_enter(
    const char *function, struct na_class *na_class)
{
    hg_return_t ret = na_live_check(na_class, function);

    if (ret != HG_SUCCESS)
        return ret;
    na_live_hold(na_class);
    hg_init_lock();
    return HG_SUCCESS;
}

/* Unlock. The class stays held if `ret` is HG_SUCCESS. */
static hg_return_t hg_init_leave(struct na_class *na_class, hg_return_t ret)
{
    hg_layer_unlock();
    if (ret != HG_SUCCESS)
        na_live_release(na_class);
    return ret;
}

/* ---- The bulk layer ---- */

/* Create the bulk layer. With `own` it lives as long as the RPC layer, which
 * holds the class; otherwise it keeps the caller's hold. The lock is held. */
static hg_return_t hg_init_make_bulk(struct na_class *na_class, bool own)
{
    hg_return_t ret = hg_bulk_layer_create(na_class, &hg_init_state.bulk);

    if (ret != HG_SUCCESS)
        return ret;
    hg_init_state.own_bulk = own;
    hg_layer_set_forked(false);
    hg_bulk_set_current(hg_init_state.bulk);
    return HG_SUCCESS;
}

/* End the bulk layer. The lock is held. */
static void hg_init_end_bulk(void)
{
    struct hg_bulk_layer *bulk = hg_init_state.bulk;
    struct na_class *na_class = bulk->na_class;

    hg_bulk_set_current(NULL);
    hg_bulk_layer_destroy(bulk);
    if (!hg_init_state.own_bulk)
        na_live_release(na_class);
    hg_init_state.bulk = NULL;
    hg_init_state.own_bulk = false;
}

HG_EXPORT hg_return_t HG_Bulk_init(na_class_t *na_class)
{
    hg_return_t ret = hg_init_enter("HG_Bulk_init", na_class);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_init_state.bulk != NULL) {
        ret = HG_EXIST;
        hg_log_error("bulk", "HG_Bulk_init: already initialized");
    } else {
        ret = hg_init_make_bulk(na_class, false);
    }
    return hg_init_leave(na_class, ret);
}

HG_EXPORT hg_return_t HG_Bulk_finalize(void)
{
    const char *why = NULL;
    hg_return_t ret = HG_BUSY;

    hg_init_lock();
    if (hg_init_state.bulk == NULL) {
        ret = HG_FAULT;
        why = hg_layer_is_forked("HG_Bulk_finalize") ? NULL : "not initialized";
    } else if (hg_init_state.context != NULL) {
        why = "call HG_Finalize first";
    } else {
        hg_init_end_bulk();
        ret = HG_SUCCESS;
    }
    hg_layer_unlock();
    if (why != NULL)
        hg_log_error("bulk", "HG_Bulk_finalize: %s", why);
    return ret;
}

/* ---- The RPC layer ---- */

/* Create the missing layers. They become visible when nothing can fail any
 * more. The lock is held. */
static hg_return_t hg_init_begin(struct na_class *na_class)
{
    bool own_bulk = hg_init_state.bulk == NULL;
    struct hg_class *hg_class;
    hg_return_t ret;

    if (own_bulk) {
        ret = hg_init_make_bulk(na_class, true);
        if (ret != HG_SUCCESS)
            return ret;
    }
    ret = hg_class_create(
        na_class, hg_init_state.bulk, &hg_init_state.options, &hg_class);
    if (ret != HG_SUCCESS)
        goto end_bulk;
    if (!hg_init_state.options.no_builtins)
        hg_class->builtin = hg_inspect_find;
    ret = hg_context_create(hg_class, HG_CONTEXT_OWN, &hg_init_state.context);
    if (ret != HG_SUCCESS)
        goto destroy_class;
    hg_layer_open(hg_init_state.context);
    return HG_SUCCESS;

destroy_class:
    hg_class_destroy(hg_class);
end_bulk:
    if (own_bulk)
        hg_init_end_bulk();
    return ret;
}

HG_EXPORT hg_return_t HG_Init1(na_class_t *na_class)
{
    hg_return_t ret = hg_init_enter("HG_Init", na_class);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_init_state.context != NULL) {
        ret = HG_EXIST;
        hg_log_error("rpc", "HG_Init: already initialized");
    } else {
        ret = hg_init_begin(na_class);
    }
    return hg_init_leave(na_class, ret);
}

/* End the layer for other threads. HG_BUSY: a thread waits or runs a handler,
 * or this thread runs a proc. */
static hg_return_t hg_init_close(struct hg_context *context)
{
    bool busy;

    hg_enter(context->lock);
    busy = context->waits > 0 || hg_request_in_proc() ||
        hg_serve_is_executing(context);
    if (!busy)
        hg_layer_open(NULL);
    hg_leave(context->lock);
    return busy ? HG_BUSY : HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Finalize1(void)
{
    struct hg_context *context;
    struct hg_class *hg_class = NULL;
    struct na_class *na_class = NULL;
    hg_return_t ret;

    hg_init_lock();
    context = hg_init_state.context;
    ret = context == NULL ? HG_FAULT : hg_init_close(context);
    if (ret == HG_SUCCESS)
        hg_class = context->hg_class;
    hg_layer_unlock();
    if (ret == HG_FAULT && hg_layer_is_forked("HG_Finalize"))
        return ret;
    if (ret != HG_SUCCESS) {
        hg_log_error("rpc", "HG_Finalize: %s",
            ret == HG_FAULT ? "not initialized"
                            : "a thread waits or runs a handler or a proc");
        return ret;
    }
    hg_request_free_all(context);
    hg_bulk_request_abandon_all(context);
    na_class = hg_class->na_class;
    hg_context_destroy(context);
    hg_class_destroy(hg_class);
    hg_layer_lock();
    if (hg_init_state.own_bulk)
        hg_init_end_bulk();
    hg_init_state.context = NULL;
    hg_layer_unlock();
    na_live_release(na_class);
    return HG_SUCCESS;
}

/* ---- The layer as a whole ---- */

HG_EXPORT hg_id_t HG_Register1(const char *func_name, hg_proc_cb_t in_proc_cb,
    hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    return hg_gen_register1(func_name, NULL, in_proc_cb, out_proc_cb, rpc_cb);
}

HG_EXPORT hg_id_t hg_gen_register1(const char *func_name, const char *types,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    struct hg_context *context = hg_layer_find("HG_Register");
    struct hg_rpc rpc = {0, in_proc_cb, out_proc_cb, rpc_cb, NULL, NULL, 0};
    hg_id_t id = 0;

    if (context == NULL)
        return 0;
    if (func_name == NULL || func_name[0] == '\0')
        (void) hg_log_misuse("rpc", "HG_Register", "the name is NULL or empty");
    else
        id = hg_registry_add(
            &context->hg_class->registry, func_name, types, &rpc);
    return id;
}

HG_EXPORT hg_return_t HG_Get_counters(struct hg_counters *counters)
{
    struct hg_context *context = hg_layer_find("HG_Get_counters");

    if (context == NULL)
        return HG_FAULT;
    if (counters == NULL || counters->size != sizeof(*counters))
        return hg_log_misuse(
            "rpc", "HG_Get_counters", "counters is NULL, or its size not set");
    hg_context_sum(context->hg_class, counters);
    return HG_SUCCESS;
}
