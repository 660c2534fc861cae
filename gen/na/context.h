/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: contexts, in which operations complete.
 *
 * A context belongs to the application, or to the library (the RPC layer, a
 * blocking lookup, the progress thread). Only contexts of the application
 * prevent their class from being closed. Destroying a context cancels its
 * pending operations and drops their callbacks.
 *
 * Locking: context_lock of the class guards its table.
 */
#ifndef HG_GEN_NA_CONTEXT_H
#define HG_GEN_NA_CONTEXT_H

#include "na/core.h"

enum na_context_use {
    NA_CONTEXT_USER,  /* the application's */
    NA_CONTEXT_LAYER, /* the RPC layer's */
    NA_CONTEXT_HELPER /* a blocking lookup's, or the progress thread's */
};

/* NA_NOMEM; NA_AGAIN: out of descriptors or ids. Both are logged. */
HG_PRIVATE na_return_t na_context_create(struct na_class *na_class,
    enum na_context_use use, struct na_context **context_p);

/* How long destruction waits for canceled operations. */
#define NA_CONTEXT_DRAIN_MS 2000

/* NA_BUSY, logged: a thread uses the context. If operations do not end within
 * `drain_ms` (logged unless that is 0), the memory of the context is leaked,
 * since they still refer to it; its id and its class are freed. */
HG_PRIVATE na_return_t na_context_destroy(
    struct na_context *context, unsigned drain_ms);

/* Whether a thread uses the context now. The application must keep other
 * threads out, as with any object that it destroys. The lock is held. */
HG_PRIVATE bool na_context_is_busy(struct na_context *context);

/* Cancel all pending operations of a context. */
HG_PRIVATE void na_context_cancel_all(struct na_context *context);

/* Implements NA_Cancel(), also for other modules. The lock is held. */
HG_PRIVATE na_return_t na_context_cancel(
    struct na_context *context, na_op_id_t op_id);

#endif
