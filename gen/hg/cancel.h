/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel: calls to us for which nobody waits any more.
 *
 * The origin says so (CANCEL) when it takes a call back, when the time of the
 * call is over, and when it has fetched a large output; its death says so of
 * all its calls. A call is found by its origin and its number there. The table
 * for that is filled when a notice comes: without notices it costs nothing. The
 * call is marked; what that does depends on its state:
 *
 *     FETCHING    its fetch is ended, then as QUEUED
 *     QUEUED      serve drops it when its turn comes: neither executed nor
 *                 answered
 *     ARRIVED     whoever executes it may ask, or has a callback run
 *     ANSWERED    a large output is held no longer
 *
 * An origin that dies wants no answer of what nobody waits for, a call one way,
 * and its last words are executed all the same.
 *
 * The callback is an entry of the queue like others. It has a reference of the
 * handle while it is queued, and finds out in its turn whether the application
 * still has the call and has not answered it.
 *
 * Locking: the class's lock guards marks, being set, and what is in
 * handle->cancel. Callbacks, and transports, are called without.
 */
#ifndef HG_GEN_HG_CANCEL_H
#define HG_GEN_HG_CANCEL_H

#include "hg/handle.h"

/* Somebody does not wait any more for a call of theirs; it need not be here. */
HG_PRIVATE void hg_cancel_arrived(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header);

/* A peer died. */
HG_PRIVATE void hg_cancel_peer(
    struct hg_context *context, const struct na_addr *addr);

/* An answer could not be encoded: the call is ARRIVED again. */
HG_PRIVATE void hg_cancel_reopen(struct hg_handle *handle);

/* See HG_Set_cancel_cb. */
HG_PRIVATE void hg_cancel_set_callback(
    struct hg_handle *handle, hg_cancel_cb_t callback, void *arg);

#endif
