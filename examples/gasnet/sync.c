/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sync: handles of operations, and waiting for them.
 *
 * A handle points to an operation of the thread that started it. NA's callbacks
 * count its parts down, in any thread; all else is done by its own thread, so
 * the list of free operations has no lock. Operations on mapped segments are
 * complete when they return and have no handle.
 */
#include "gasnet_hg.h"

#include <stdlib.h>

#define SYNC_BLOCK 64 /* operations that are allocated at a time */

/* The first of a list of new ones. */
struct gasnet_hg_op *gasnet_hg_op_new(void)
{
    struct gasnet_hg_op *op =
        (struct gasnet_hg_op *) calloc(SYNC_BLOCK, sizeof(*op));
    int i;

    if (op == NULL)
        gasnet_hg_fatal("out of memory for operations");
    for (i = 0; i < SYNC_BLOCK - 1; i++)
        op[i].next = &op[i + 1];
    return op;
}

static bool sync_is_done(struct gasnet_hg_op *op)
{
    return atomic_load_explicit(&op->pending, memory_order_acquire) == 0;
}

/* The fence is that of operations on mapped segments, which are complete. */
static void sync_enter(const char *what)
{
    atomic_thread_fence(memory_order_acq_rel);
    if (gasnet_hg.checked)
        gasnet_hg_check_call(what);
}

/* ---- Handles ---- */

void gasnet_hg_wait_syncnb(gasnet_handle_t handle)
{
    sync_enter("gasnet_wait_syncnb");
    if (handle == GASNET_INVALID_HANDLE)
        return;
    gasnet_hg_wait_for(&handle->pending);
    gasnet_hg_op_put(gasnet_hg_self(), handle);
}

/* Free the handles that are done. Returns how many are not; *done_p counts
 * those that are. */
static size_t sync_sweep(gasnet_handle_t *handles, size_t count, size_t *done_p)
{
    size_t i, left = 0, done = 0;

    for (i = 0; i < count; i++) {
        if (handles[i] == GASNET_INVALID_HANDLE)
            continue;
        if (sync_is_done(handles[i])) {
            gasnet_hg_op_put(gasnet_hg_self(), handles[i]);
            handles[i] = GASNET_INVALID_HANDLE;
            done++;
        } else
            left++;
    }
    *done_p = done;
    return left;
}

int gasnet_try_syncnb(gasnet_handle_t handle)
{
    return gasnet_try_syncnb_all(&handle, 1);
}

int gasnet_try_syncnb_all(gasnet_handle_t *handles, size_t numhandles)
{
    size_t done;

    sync_enter("gasnet_try_syncnb");
    gasnet_hg_poll();
    return sync_sweep(handles, numhandles, &done) == 0 ? GASNET_OK
                                                       : GASNET_ERR_NOT_READY;
}

int gasnet_try_syncnb_some(gasnet_handle_t *handles, size_t numhandles)
{
    size_t done, left;

    sync_enter("gasnet_try_syncnb_some");
    gasnet_hg_poll();
    left = sync_sweep(handles, numhandles, &done);
    return done > 0 || left == 0 ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void gasnet_wait_syncnb_all(gasnet_handle_t *handles, size_t numhandles)
{
    size_t i;

    for (i = 0; i < numhandles; i++) {
        gasnet_wait_syncnb(handles[i]);
        handles[i] = GASNET_INVALID_HANDLE;
    }
}

void gasnet_wait_syncnb_some(gasnet_handle_t *handles, size_t numhandles)
{
    unsigned tries = 0;
    size_t done;

    sync_enter("gasnet_wait_syncnb_some");
    while (sync_sweep(handles, numhandles, &done) > 0 && done == 0)
        gasnet_hg_wait(&tries);
}

/* ---- Implicit handles ---- */

/* The operations of a region are waited for by its handle. */
static GASNET_HG_INLINE void sync_enter_nbi(const char *what)
{
    sync_enter(what);
    if (gasnet_hg.checked && gasnet_hg_self()->region != NULL)
        gasnet_hg_fatal("%s: called in an access region", what);
}

void gasnet_wait_syncnbi_gets(void)
{
    sync_enter_nbi("gasnet_wait_syncnbi_gets");
    gasnet_hg_wait_for(&gasnet_hg_self()->gets.pending);
}

void gasnet_wait_syncnbi_puts(void)
{
    sync_enter_nbi("gasnet_wait_syncnbi_puts");
    gasnet_hg_wait_for(&gasnet_hg_self()->puts.pending);
}

void gasnet_wait_syncnbi_all(void)
{
    gasnet_wait_syncnbi_gets();
    gasnet_wait_syncnbi_puts();
}

static int sync_try(bool gets, bool puts)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    sync_enter_nbi("gasnet_try_syncnbi");
    gasnet_hg_poll();
    return (!gets || sync_is_done(&self->gets)) &&
            (!puts || sync_is_done(&self->puts))
        ? GASNET_OK
        : GASNET_ERR_NOT_READY;
}

int gasnet_try_syncnbi_gets(void)
{
    return sync_try(true, false);
}

int gasnet_try_syncnbi_puts(void)
{
    return sync_try(false, true);
}

int gasnet_try_syncnbi_all(void)
{
    return sync_try(true, true);
}

/* ---- Regions ---- */

void gasnet_begin_nbi_accessregion(void)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    if (self->region != NULL)
        gasnet_hg_fatal("gasnet_begin_nbi_accessregion: regions do not nest");
    self->region = gasnet_hg_op_get(self);
}

gasnet_handle_t gasnet_end_nbi_accessregion(void)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_op *op = self->region;

    if (op == NULL)
        gasnet_hg_fatal("gasnet_end_nbi_accessregion: there is no region");
    self->region = NULL;
    if (!sync_is_done(op))
        return op;
    gasnet_hg_op_put(self, op);
    return GASNET_INVALID_HANDLE;
}

/* ---- Values ---- */

gasnet_valget_handle_t gasnet_get_nb_val(
    gasnet_node_t node, const void *src, size_t nbytes)
{
    struct gasnet_hg_op *op;
    gasnet_handle_t parts;

    gasnet_hg_check(node, src, nbytes);
    op = gasnet_hg_op_get(gasnet_hg_self());
    op->value = 0;
    parts = gasnet_get_nb(gasnet_hg_low(&op->value, nbytes), node, src, nbytes);
    op->next = parts;
    return op;
}

gasnet_register_value_t gasnet_wait_syncnb_valget(gasnet_valget_handle_t handle)
{
    gasnet_register_value_t value;

    gasnet_wait_syncnb(handle->next);
    value = handle->value;
    gasnet_hg_op_put(gasnet_hg_self(), handle);
    return value;
}
