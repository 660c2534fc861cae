/* SPDX-License-Identifier: BSD-3-Clause */
/* layer: see layer.h. */
#include "hg/layer.h"

#include "base/lock.h"
#include "base/log.h"
#include "hg/check.h"

/* NULL: no layer. */
static _Atomic(struct hg_context *) hg_layer_context;

static pthread_mutex_t hg_layer_mutex = PTHREAD_MUTEX_INITIALIZER;

static _Atomic bool hg_layer_forked; /* no layer since fork; the parent had */
static _Atomic bool hg_layer_fork_logged;

/* ---- The RPC layer ---- */

/* Log that there is no layer. */
static HG_NOINLINE void hg_layer_log_none(
    const char *subsys, const char *function)
{
    if (function != NULL && !hg_layer_is_forked(function))
        (void) hg_log_misuse(
            subsys, function, "HG_Init was not called, or HG_Finalize was");
}

HG_PRIVATE HG_HOT struct hg_context *hg_layer_find(const char *function)
{
    struct hg_context *context =
        atomic_load_explicit(&hg_layer_context, memory_order_acquire);

    if (HG_UNLIKELY(context == NULL))
        hg_layer_log_none("rpc", function);
    return context;
}

HG_PRIVATE hg_return_t hg_layer_find_class(
    struct hg_class **hg_class, const char *function)
{
    struct hg_context *context;

    if (*hg_class != NULL)
        return hg_check_class(*hg_class, function);
    context = hg_layer_find(function);
    if (context == NULL)
        return HG_FAULT;
    *hg_class = context->hg_class;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_layer_open(struct hg_context *context)
{
    atomic_store(&hg_layer_context, context);
}

/* ---- The bulk layer ---- */

HG_PRIVATE struct hg_bulk_layer *hg_layer_find_bulk(const char *function)
{
    struct hg_bulk_layer *bulk = hg_bulk_current();

    if (HG_UNLIKELY(bulk == NULL))
        hg_layer_log_none("bulk", function);
    return bulk;
}

/* ---- Both ---- */

HG_PRIVATE void hg_layer_set_forked(bool forked)
{
    atomic_store(&hg_layer_forked, forked);
    atomic_store(&hg_layer_fork_logged, false);
}

static HG_NOINLINE void hg_layer_log_forked(const char *function)
{
    if (function != NULL)
        hg_log_keep_text("%s: the layer is of the parent process", function);
    if (function != NULL && !atomic_exchange(&hg_layer_fork_logged, true))
        hg_log_error("rpc",
            "%s: the layer belongs to the process that forked this one: call "
            "HG_Init with a new class",
            function);
}

HG_PRIVATE bool hg_layer_is_forked(const char *function)
{
    bool forked = atomic_load(&hg_layer_forked);

    if (forked)
        hg_layer_log_forked(function);
    return forked;
}

HG_PRIVATE bool hg_layer_renew_lock(void)
{
    if (pthread_mutex_trylock(&hg_layer_mutex) == 0) {
        hg_unlock(&hg_layer_mutex);
        return true;
    }
    (void) pthread_mutex_init(&hg_layer_mutex, NULL);
    return false;
}

HG_PRIVATE void hg_layer_lock(void)
{
    hg_lock(&hg_layer_mutex);
}

HG_PRIVATE void hg_layer_unlock(void)
{
    hg_unlock(&hg_layer_mutex);
}

HG_PRIVATE hg_return_t hg_layer_refuse(const char *function, const char *what)
{
    return hg_log_misuse("rpc", function, what);
}
