/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel: incoming calls whose origin no longer waits.
 *
 * The origin sends CANCEL when it cancels a call, when the deadline of the call
 * passes, and when it has fetched a large output. The death of a peer cancels
 * all its calls. A call is found by its origin and its number at the origin.
 * The index for that is filled when a notice arrives; without notices it costs
 * nothing. The call is marked. What happens then depends on its state:
 *
 *     FETCHING    the fetch is canceled, then as QUEUED
 *     QUEUED      serve drops the call when it is dequeued: the call is
 *                 neither executed nor answered
 *     ARRIVED     HG_Is_canceled() is true, and the callback of
 *                 HG_Set_cancel_cb() runs
 *     ANSWERED    a large output is released
 *
 * One-way calls of a peer that died are still executed: nobody waits for an
 * answer.
 *
 * The notice is an entry of the completion queue. While queued it holds a
 * reference of the handle. When it runs, it checks that the application still
 * has the call and has not answered it.
 *
 * Locking: the class's lock guards the marks, the callback that is set, and
 * handle->cancel. Callbacks and transports are called without the lock.
 */
#ifndef HG_GEN_HG_CANCEL_H
#define HG_GEN_HG_CANCEL_H

#include "hg/handle.h"

/* A CANCEL message arrived; the call may be unknown here. The lock is held. */
HG_PRIVATE void hg_cancel_arrived(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header);

/* A peer died: cancel all its calls. The lock is held. */
HG_PRIVATE void hg_cancel_peer(
    struct hg_context *context, const struct na_addr *addr);

/* The output could not be encoded: the call is in state ARRIVED again. */
HG_PRIVATE void hg_cancel_reopen(struct hg_handle *handle);

/* Implements HG_Set_cancel_cb(). */
HG_PRIVATE void hg_cancel_set_callback(
    struct hg_handle *handle, hg_cancel_cb_t callback, void *arg);

#endif
