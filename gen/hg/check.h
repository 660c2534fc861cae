/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: whether the application may use what it passes.
 *
 * A public function that is given a class, a context or a handle of the RPC
 * layer begins here, before it takes a lock. HG_INVALID_ARG, logged with the
 * function's name: NULL; a class or a context that does not exist (live); a
 * handle whose last reference was given back, as long as it waits to be used
 * again. HG_FAULT, logged once for each class: this process is a child of the
 * one that made it (live).
 *
 * Locking: none.
 */
#ifndef HG_GEN_HG_CHECK_H
#define HG_GEN_HG_CHECK_H

#include "hg/handle.h"

HG_PRIVATE hg_return_t hg_check_class(
    const struct hg_class *hg_class, const char *function);
HG_PRIVATE hg_return_t hg_check_context(
    const struct hg_context *context, const char *function);

/* The cause, for hg_check_handle, which has found one: HG_INVALID_ARG or
 * HG_FAULT, logged. */
HG_PRIVATE hg_return_t hg_check_handle_slowly(
    const struct hg_handle *handle, const char *function);

static inline hg_return_t hg_check_handle(
    const struct hg_handle *handle, const char *function)
{
    if (HG_LIKELY(handle != NULL &&
            atomic_load_explicit(&handle->refs, memory_order_relaxed) %
                    HG_HANDLE_DECODED >
                0 &&
            !na_class_is_forked(handle->context->hg_class->na_class)))
        return HG_SUCCESS;
    return hg_check_handle_slowly(handle, function);
}

/* Checks the handle, and its side: `target` for a call that arrived.
 * HG_INVALID_ARG (logged): it is of the other side. */
HG_PRIVATE hg_return_t hg_check_side(
    const struct hg_handle *handle, bool target, const char *function);

#endif
