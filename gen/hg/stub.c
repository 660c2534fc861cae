/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub: functions for MERCURY_GEN_RPC_STUB, and a blocking call of the callback
 * model.
 *
 * The functions that the macro generates are compiled into the application.
 * Functions that they need besides those of the two models are here. A blocked
 * thread makes progress and runs callbacks. It runs handlers only while it
 * waits for a call, and at most HG_WAIT_DEPTH_MAX of them inside each other. No
 * other module includes this one.
 *
 * Locking: none; a flag that is waited for is atomic.
 */
#include "base/clock.h"
#include "base/log.h"
#include "hg/check.h"
#include "hg/forward.h"
#include "hg/layer.h"
#include "hg/registry.h"
#include "hg/serve.h"
#include "hg/wait.h"
#include "na/context.h"
#include "na/progress.h"

/* At least the size of any text of HG_Get_last_error_text(). */
#define HG_STUB_TEXT_MAX 600

hg_return_t hg_stub_clear(void *call, size_t size)
{
    if (call == NULL)
        return hg_log_misuse("rpc", "the stub", "the call's struct is NULL");
    memset(call, 0, size);
    return HG_SUCCESS;
}

hg_id_t HG_Name_to_id(const char *func_name)
{
    if (func_name != NULL)
        return hg_registry_id(func_name);
    (void) hg_log_misuse("rpc", "HG_Name_to_id", "func_name is NULL");
    return 0;
}

/* ---- Calls in the callback model ---- */

struct hg_stub_forward {
    struct hg_context *context;
    _Atomic bool ended;
    hg_return_t ret;
};

static hg_return_t hg_stub_forwarded(const struct hg_cb_info *info)
{
    struct hg_stub_forward *forward = (struct hg_stub_forward *) info->arg;
    struct hg_context *context = forward->context;

    forward->ret = info->ret;
    hg_enter(context->lock);
    hg_wait_raise(context, &forward->ended);
    hg_leave(context->lock);
    return HG_SUCCESS;
}

hg_return_t HG_Forward_wait(hg_handle_t handle, void *in_struct)
{
    struct hg_stub_forward forward;
    hg_return_t ret;

    hg_log_drop_text();
    ret = hg_check_handle(handle, "HG_Forward_wait");
    if (ret == HG_SUCCESS && hg_context_is_driver())
        ret = hg_wait_refuse();
    if (ret != HG_SUCCESS)
        return ret;
    atomic_init(&forward.ended, false);
    forward.context = handle->context;
    ret = HG_Forward2(handle, hg_stub_forwarded, &forward, in_struct);
    if (ret != HG_SUCCESS) {
        hg_forward_complete_text("HG_Forward_wait", ret);
        return ret;
    }
    hg_wait_uninterrupted(
        handle->context, &forward.ended, hg_wait_lanes(), HG_CLOCK_NEVER);
    hg_forward_explain(handle, forward.ret);
    return forward.ret;
}

hg_return_t hg_stub_busy(const char *func_name)
{
    HG_LOG_EXPLAIN(
        HG_LOG_LEVEL_ERROR, "rpc", "a call of \"%s\" is not over", func_name);
    return HG_BUSY;
}

hg_return_t hg_stub_explain(const char *func_name, hg_return_t ret)
{
    char why[HG_STUB_TEXT_MAX];

    if (HG_Get_last_error_text()[0] == '"')
        return ret; /* it already names the function */
    (void) snprintf(why, sizeof(why), "%s", HG_Get_last_error_text());
    if (ret == HG_NOENTRY)
        (void) snprintf(why, sizeof(why),
            "it is not registered here: call %s_register or %s_provide first",
            func_name, func_name);
    if (ret != HG_SUCCESS)
        hg_log_keep_text("\"%s\" cannot be called: %s", func_name,
            why[0] != '\0' ? why : HG_Error_to_string(ret));
    return ret;
}

hg_id_t hg_stub_register(hg_class_t *hg_class, const char *func_name,
    const char *types, hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb)
{
    struct hg_rpc rpc = {0, in_proc_cb, out_proc_cb, rpc_cb, NULL, NULL, 1};
    hg_id_t id;

    if (hg_check_class(hg_class, "the stub") != HG_SUCCESS)
        return 0;
    id = hg_registry_id(func_name);
    /* A handler that the application registered keeps its procs. */
    if (rpc_cb == NULL &&
        hg_registry_has_handler(&hg_class->registry, id, func_name, types))
        return id;
    return hg_registry_add(&hg_class->registry, func_name, types, &rpc);
}

hg_id_t hg_stub_register_layer(const char *func_name, const char *types,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    struct hg_context *context = hg_layer_find("the stub");

    return context != NULL ? hg_stub_register(context->hg_class, func_name,
                                 types, in_proc_cb, out_proc_cb, rpc_cb)
                           : 0;
}

hg_return_t hg_stub_create(hg_context_t *context, hg_addr_t addr,
    const char *func_name, unsigned int timeout, hg_handle_t *handle_p)
{
    hg_return_t ret;

    hg_log_drop_text();
    if (context == NULL || addr == NULL)
        ret = hg_log_misuse("rpc", "the stub",
            context == NULL ? "the context is NULL" : "the address is NULL");
    else
        ret = HG_Create(context, addr, HG_Name_to_id(func_name), handle_p);
    if (ret == HG_SUCCESS)
        return HG_Set_deadline(*handle_p, timeout);
    return hg_stub_explain(func_name, ret);
}

/* ---- Calls in the request model ---- */

hg_return_t hg_stub_wait(hg_request_t request)
{
    hg_status_t done = HG_FALSE;
    hg_return_t ret;

    do {
        ret = HG_Wait(request, HG_MAX_IDLE_TIME, &done);
    } while (!done && (ret == HG_TIMEOUT || ret == HG_INTR));
    return ret;
}

/* ---- Memory ---- */

hg_return_t hg_stub_expose(hg_context_t *context, const void *memory,
    size_t size, unsigned long flags, hg_bulk_t *bulk_p)
{
    /* The flags make it read-only. */
    void *address = (void *) (uintptr_t) memory;
    hg_size_t bytes = size;
    hg_return_t ret;

    if (memory == NULL && size > 0)
        return hg_log_misuse(
            "rpc", "the stub", "a memory argument is NULL, its size is not 0");
    if (size == 0) {
        *bulk_p = HG_BULK_NULL;
        return HG_SUCCESS;
    }
    if (context == NULL)
        return HG_Bulk_handle_create(1, &address, &size, flags, bulk_p);
    ret = hg_check_context(context, "the stub");
    if (ret != HG_SUCCESS)
        return ret;
    return HG_Bulk_create(
        context->hg_class, 1, &address, &bytes, (uint8_t) flags, bulk_p);
}

/* ---- The answer ---- */

hg_return_t hg_stub_respond(hg_handle_t handle, void *out_struct)
{
    return hg_serve_is_answered(handle)
        ? HG_SUCCESS
        : hg_serve_respond(handle, HG_SUCCESS, out_struct);
}

void hg_stub_threw(hg_handle_t handle, const char *what)
{
    char text[HG_STUB_TEXT_MAX];

    (void) snprintf(
        text, sizeof(text), "the function threw an exception: %s", what);
    hg_log_warning("rpc", "\"%s\" with %s: the function threw an exception: %s",
        hg_handle_function(handle), hg_handle_peer(handle), what);
    if (!hg_serve_is_answered(handle))
        (void) hg_serve_respond_error(handle, HG_OTHER_ERROR, text);
}

/* ---- Arguments ---- */

void hg_stub_release(hg_proc_cb_t proc_cb, void *data)
{
    struct hg_proc proc;

    hg_proc_init_free(&proc);
    proc.keeps_const = true;
    (void) proc_cb(&proc, data);
}
