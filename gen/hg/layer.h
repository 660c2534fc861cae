/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layer: the door of the request model.
 *
 * A process has one RPC layer and one bulk layer at a time. Each has a gate,
 * and a public function that uses it is inside the gate from its first line
 * to its last. HG_Init opens the gate; HG_Finalize closes it, which it can
 * only do while nobody is inside. So who comes late finds the gate closed and
 * is told so, and what is behind it does not go away under anybody's feet:
 *
 *     enter:  count one more;  closed? --> count one less, no entry
 *     leave:  count one less
 *     close:  from "open, 0 inside" to "closed" in one step, or not at all;
 *             to close both, the bulk gate is held meanwhile: who comes waits
 *
 * fork: a child has no part in its parent's layer, in which a thread may have
 * been that it does not have. It finds the gates closed, for good.
 *
 * Locking: a gate is one atomic word, so passing it waits for nobody, but for a
 * moment while both are being closed. A mutex serializes beginnings and endings
 * (rooms above this one do both), and guards what they decide by. It is not
 * held while entering.
 */
#ifndef HG_GEN_HG_LAYER_H
#define HG_GEN_HG_LAYER_H

#include "hg/context.h"

/* ---- The RPC layer ---- */

/* The context, which stays until hg_layer_leave. NULL (logged): HG_Init was
 * not called, or HG_Finalize was. `function` NULL: the caller knows what to do
 * without, and nothing is logged. */
HG_PRIVATE struct hg_context *hg_layer_enter(const char *function);

/* Hands `ret` through, so that a function can end with it. */
HG_PRIVATE hg_return_t hg_layer_leave(hg_return_t ret);

/* Let functions in; `context` is what they get. */
HG_PRIVATE void hg_layer_open(struct hg_context *context);

/* Let nobody in any more. False: somebody is inside (the caller, if it runs
 * in a handler or a proc), or the gate is closed already. */
HG_PRIVATE bool hg_layer_close(void);

/* ---- The bulk layer ---- */

/* The same for what makes and serializes bulk handles. `function` NULL: the
 * caller knows what to do without, and nothing is logged. */
HG_PRIVATE struct hg_bulk_layer *hg_layer_enter_bulk(const char *function);
HG_PRIVATE hg_return_t hg_layer_leave_bulk(hg_return_t ret);
HG_PRIVATE void hg_layer_open_bulk(struct hg_bulk_layer *bulk);
HG_PRIVATE bool hg_layer_close_bulk(void);

/* ---- Both ---- */

/* Close both gates, or neither: nobody is turned away by the attempt. */
HG_PRIVATE bool hg_layer_close_both(void);

/* This process is a child of one whose layer was not at rest: close both
 * gates, whoever is inside, and let no layer begin. By the only thread. */
HG_PRIVATE void hg_layer_fork(void);

/* Whether it is such a child (logged once, unless `function` is NULL):
 * HG_FAULT. Asked before a lock is taken by what does not enter. */
HG_PRIVATE bool hg_layer_is_forked(const char *function);

/* Around beginnings and endings. */
HG_PRIVATE bool hg_layer_try_lock(void);
HG_PRIVATE void hg_layer_lock(void);
HG_PRIVATE void hg_layer_unlock(void);

/* Log what is wrong with an argument: HG_INVALID_ARG. */
HG_PRIVATE hg_return_t hg_layer_refuse(const char *function, const char *what);

#endif
