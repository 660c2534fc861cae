/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: validates classes, contexts and handles that the application passes.
 *
 * Every public function that takes a class, a context or a handle of the RPC
 * layer begins here, before it takes a lock. It returns HG_INVALID_ARG, logged
 * with the function's name, for NULL, for a class or context that does not
 * exist (see live), and for a handle whose last reference was freed, as long as
 * the handle is in the pool. It returns HG_FAULT, logged once for each class,
 * in a child process of the process that opened the class.
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

/* The slow path of hg_check_handle: find and log the cause. HG_INVALID_ARG or
 * HG_FAULT. */
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

/* Check the handle and its side: `target` for an incoming call. HG_INVALID_ARG,
 * logged: the handle belongs to the other side. */
HG_PRIVATE hg_return_t hg_check_side(
    const struct hg_handle *handle, bool target, const char *function);

#endif
