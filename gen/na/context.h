/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: places where operations complete.
 *
 * A context is the application's or the library's own (the RPC engine's, a
 * blocking lookup's, the progress thread's); only the former keep their class
 * from closing. Destroying one takes its pending operations back and
 * abandons their callbacks.
 *
 * Locking: context_lock of the class guards the changes of its table.
 */
#ifndef HG_GEN_NA_CONTEXT_H
#define HG_GEN_NA_CONTEXT_H

#include "na/core.h"

enum na_context_use {
    NA_CONTEXT_USER,  /* the application's */
    NA_CONTEXT_LAYER, /* the RPC engine's */
    NA_CONTEXT_HELPER /* a blocking lookup's, or the progress thread's */
};

/* NA_NOMEM, logged; NA_AGAIN, logged: out of descriptors, or ids. */
HG_PRIVATE na_return_t na_context_create(struct na_class *na_class,
    enum na_context_use use, struct na_context **context_p);

/* How long destruction polls for operations that were asked to end. */
#define NA_CONTEXT_DRAIN_MS 2000

/* NA_BUSY, logged, while a thread is inside. Operations that do not end within
 * `drain_ms` (logged, unless that is 0: the caller knew) keep the context's
 * memory, at which their end will look, but neither its place nor its class. */
HG_PRIVATE na_return_t na_context_destroy(
    struct na_context *context, unsigned drain_ms);

/* Whether a thread is inside now. Keeping others out from then on is the
 * application's part, as with any object it destroys. */
HG_PRIVATE bool na_context_is_busy(struct na_context *context);

/* Ask every pending operation of a context to end. */
HG_PRIVATE void na_context_cancel_all(struct na_context *context);

/* NA_Cancel, and the same for the modules above. */
HG_PRIVATE na_return_t na_context_cancel(
    struct na_context *context, na_op_id_t op_id);

#endif
