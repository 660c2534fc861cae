/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op: an operation from its start to its callback.
 *
 *     FREE --get--> PENDING --complete--> DONE --callback ran--> FREE
 *
 * Each way an operation can end (success, error, cancel, death of the peer) is
 * one call of na_op_complete. The module that executes the operation calls it
 * exactly once. Operations stay in their context's table until the context is
 * destroyed, and are reused. An identifier contains index and generation, so
 * that an outdated one finds nothing.
 *
 * A receive of many messages has a callback for each: na_op_add_result. It is
 * PENDING until its last result is added, then DONE until that callback ran.
 *
 * Locking: the lock of the class guards the table and the free list. The module
 * that executes a pending operation owns its fields.
 */
#ifndef HG_GEN_NA_OP_H
#define HG_GEN_NA_OP_H

#include "na/core.h"

/* Below, the lock is held unless a contract says otherwise. */

/* Get an operation, now pending, that completes with `callback` in `lane`,
 * without any references. *op_id gets its public identifier, unless it is
 * NA_OP_ID_IGNORE. NULL: out of memory (logged). */
HG_PRIVATE struct na_op_core *na_op_get(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    na_op_id_t *op_id);

/* Release an operation that was never started: its callback does not run. */
HG_PRIVATE void na_op_put(struct na_op_core *op);

/* The last step of a function that starts an operation: returns `ret`. On error
 * *op_id becomes NA_OP_ID_NULL, unless `op_id` is NA_OP_ID_IGNORE. */
HG_PRIVATE na_return_t na_op_started(na_return_t ret, na_op_id_t *op_id);

/* Set the part of the class that executes the operation. */
HG_PRIVATE void na_op_set_part(
    struct na_op_core *op, const struct na_class *part);

/* Store the message to send. The array of segments is copied. NA_NOMEM. */
HG_PRIVATE na_return_t na_op_set_msg(
    struct na_op_core *op, const struct na_msg *msg);

/* Take a reference of `addr` for the operation. */
HG_PRIVATE void na_op_set_addr(struct na_op_core *op, struct na_addr *addr);

/* Mark both handles as used until the operation ends. */
HG_PRIVATE void na_op_set_mems(struct na_op_core *op,
    struct na_mem_handle *local, struct na_mem_handle *remote);

/* The public identifier. */
HG_PRIVATE na_op_id_t na_op_public_id(const struct na_op_core *op);

/* core->complete: the operation ended. If it has no callback, it releases its
 * references. */
HG_PRIVATE void na_op_complete(struct na_op *op, na_return_t ret);

/* A message of a receive of many; all pointers are borrowed. */
struct na_result {
    struct na_addr *source; /* NULL if `ret` is not NA_SUCCESS */
    void *buf;
    na_size_t size;
    na_tag_t tag;
    na_return_t ret;
    bool last;
};

/* Let an operation have several results. NA_NOMEM, logged. */
HG_PRIVATE na_return_t na_op_open_results(struct na_op_core *op);

/* Add a result: the callback will run for it. Returns whether it is the last
 * one, which it also is if there is no memory for another. */
HG_PRIVATE bool na_op_add_result(struct na_op *op, struct na_result added);

/* The pending operation behind a public identifier, or NULL. */
HG_PRIVATE struct na_op_core *na_op_find(
    struct na_context_core *context, na_op_id_t op_id);

/* Free the operations; none is pending. */
HG_PRIVATE void na_op_table_fini(struct na_context_core *context);

/* The number of pending operations of a context. */
HG_PRIVATE uint32_t na_op_table_pending(const struct na_context_core *context);

#endif
