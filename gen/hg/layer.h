/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layer: the RPC layer and the bulk layer of the request model.
 *
 * A process has at most one of each. HG_Init sets them, HG_Finalize removes
 * them. A function that finds no layer logs an error. Calling a function while
 * HG_Finalize runs is an error of the caller, but HG_Finalize refuses while a
 * thread waits or runs a handler.
 *
 * fork: a child has no layer, since threads of the parent may have been using
 * the parent's layer. It can start its own.
 *
 * Locking: both pointers are atomic. A mutex serializes start and end.
 */
#ifndef HG_GEN_HG_LAYER_H
#define HG_GEN_HG_LAYER_H

#include "hg/context.h"

/* ---- The RPC layer ---- */

/* Get the context. NULL, logged unless `function` is NULL: HG_Init was not
 * called, or HG_Finalize was. */
HG_PRIVATE struct hg_context *hg_layer_find(const char *function);

/* Find the class; NULL stands for the class of the request model. HG_FAULT:
 * HG_Init was not called; codes of hg_check_class. All are logged. */
HG_PRIVATE hg_return_t hg_layer_find_class(
    struct hg_class **hg_class, const char *function);

/* Set the context; NULL: there is no layer any more. */
HG_PRIVATE void hg_layer_open(struct hg_context *context);

/* ---- The bulk layer ---- */

/* Get the bulk layer that creates and serializes bulk handles: hg_bulk_current.
 * NULL as above. */
HG_PRIVATE struct hg_bulk_layer *hg_layer_find_bulk(const char *function);

/* ---- Both ---- */

/* Set in a child of a process with a layer, until the child has its own. */
HG_PRIVATE void hg_layer_set_forked(bool forked);

/* Whether that is set; logged once unless `function` is NULL. */
HG_PRIVATE bool hg_layer_is_forked(const char *function);

/* The mutex around start and end. hg_layer_renew_lock is called by the only
 * thread of a child. False: another thread of the parent had the mutex. */
HG_PRIVATE bool hg_layer_renew_lock(void);
HG_PRIVATE void hg_layer_lock(void);
HG_PRIVATE void hg_layer_unlock(void);

/* Log an invalid argument. Returns HG_INVALID_ARG. */
HG_PRIVATE hg_return_t hg_layer_refuse(const char *function, const char *what);

#endif
