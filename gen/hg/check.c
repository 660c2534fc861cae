/* SPDX-License-Identifier: BSD-3-Clause */
/* check: see check.h. */
#include "hg/check.h"

#include "base/log.h"
#include "na/live.h"

/* The NA class exists, because the class holds it. */
static hg_return_t hg_check_fork(
    const struct hg_class *hg_class, const char *function)
{
    return na_class_is_forked(hg_class->na_class)
        ? na_live_check(hg_class->na_class, function)
        : HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_check_class(
    const struct hg_class *hg_class, const char *function)
{
    if (HG_UNLIKELY(!na_live_has(NA_LIVE_CLASS, hg_class)))
        return hg_log_misuse("cls", function,
            hg_class == NULL ? "the class is NULL" : "no such class is open");
    return hg_check_fork(hg_class, function);
}

HG_PRIVATE hg_return_t hg_check_context(
    const struct hg_context *context, const char *function)
{
    if (HG_UNLIKELY(!na_live_has(NA_LIVE_CONTEXT, context)))
        return hg_log_misuse("ctx", function,
            context == NULL ? "the context is NULL"
                            : "there is no such context");
    return hg_check_fork(context->hg_class, function);
}

HG_PRIVATE HG_NOINLINE hg_return_t hg_check_handle_slowly(
    const struct hg_handle *handle, const char *function)
{
    if (handle == NULL)
        return hg_log_misuse("rpc", function, "the handle is NULL");
    return na_class_is_forked(handle->context->hg_class->na_class)
        ? hg_check_fork(handle->context->hg_class, function)
        : hg_log_misuse("rpc", function, "the handle was destroyed");
}

HG_PRIVATE hg_return_t hg_check_side(
    const struct hg_handle *handle, bool target, const char *function)
{
    hg_return_t ret = hg_check_handle(handle, function);

    if (HG_UNLIKELY(ret != HG_SUCCESS))
        return ret;
    if (HG_LIKELY(handle->target == target))
        return HG_SUCCESS;
    return hg_log_misuse("rpc", function,
        target ? "the handle belongs to an outgoing call"
               : "the handle belongs to an incoming call");
}
