/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layer: the RPC layer and the bulk layer of the request model.
 *
 * A process has one of each at a time. HG_Init sets them, HG_Finalize takes
 * them back. A function that finds none says so. Calling one beside HG_Finalize
 * is the caller's error, as with any object that is being destroyed; but
 * HG_Finalize refuses while a thread waits or runs a handler.
 *
 * fork: a child has no part in its parent's layer, in which a thread may have
 * been that it does not have. It finds none.
 *
 * Locking: both are atomics. A mutex serializes beginnings and endings.
 */
#ifndef HG_GEN_HG_LAYER_H
#define HG_GEN_HG_LAYER_H

#include "hg/context.h"

/* ---- The RPC layer ---- */

/* The context. NULL (logged, unless `function` is NULL): HG_Init was not
 * called, or HG_Finalize was. */
HG_PRIVATE struct hg_context *hg_layer_find(const char *function);

/* `context` is the layer from now on; NULL: there is none. */
HG_PRIVATE void hg_layer_open(struct hg_context *context);

/* ---- The bulk layer ---- */

/* The same for what makes and serializes bulk handles: hg_bulk_current. */
HG_PRIVATE struct hg_bulk_layer *hg_layer_find_bulk(const char *function);

/* ---- Both ---- */

/* This process is a child of one whose layer was not at rest: there is none,
 * nor may one begin. By the only thread. */
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
