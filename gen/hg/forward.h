/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward: the origin's side of a call.
 *
 * A call ends in one place. The answer, a cancel, the peer's death or the end
 * of the layer takes the call out of the table of calls in flight, sets its
 * result and queues its callback. Only one of them can take it out, so the
 * callback runs once. If the call was sent and ends for another reason, such as
 * its deadline, the target is told to cancel it. A later answer is ignored.
 *
 * A call of the request model takes the lock once. Its arguments are encoded
 * before it has a handle, on the caller's stack if they are small, and are sent
 * from there. A handle of the callback model keeps its arguments; the lock is
 * taken once to claim the handle and once to send.
 *
 * Locking: the class's lock. It is not held around procs, hooks and callbacks.
 */
#ifndef HG_GEN_HG_FORWARD_H
#define HG_GEN_HG_FORWARD_H

#include "hg/handle.h"

/* The function registered under an id. NULL: none (logged, with the `function`
 * of the library that was called). */
HG_PRIVATE const struct hg_rpc *hg_forward_find(
    struct hg_context *context, hg_id_t id, const char *function);

/* Encode the arguments of a call that has no handle yet, leaving space for its
 * header in front. Failures are logged. */
HG_PRIVATE hg_return_t hg_forward_encode(const struct hg_context *context,
    struct na_addr *addr, const struct hg_rpc *rpc, void *data,
    struct hg_buf *buf, size_t *size_p);

/* Create a handle to call a function at `addr`, with a number. HG_AGAIN,
 * logged: too many calls are in flight. The lock is held. */
HG_PRIVATE hg_return_t hg_forward_create(struct hg_context *context,
    struct na_addr *addr, const struct hg_rpc *rpc,
    struct hg_handle **handle_p);

/* Create a handle that can be used for several calls, without a call, and
 * without a peer if `addr` is NULL. NULL: out of memory (logged). */
HG_PRIVATE struct hg_handle *hg_forward_new(
    struct hg_context *context, struct na_addr *addr, const struct hg_rpc *rpc);

/* Claim an idle handle, to encode or change a call, until hg_forward_forget.
 * HG_BUSY, logged: its call is in progress. */
HG_PRIVATE hg_return_t hg_forward_claim(
    struct hg_handle *handle, const char *function);

/* Whether hg_forward_claim would return HG_BUSY. */
HG_PRIVATE bool hg_forward_is_under_way(struct hg_handle *handle);

/* Number the next call of a claimed handle. HG_AGAIN, HG_NOMEM (logged). The
 * lock is held. */
HG_PRIVATE hg_return_t hg_forward_number(struct hg_handle *handle);

/* The call has ended or did not start: the handle is idle. The lock is held. */
HG_PRIVATE void hg_forward_forget(struct hg_handle *handle);

/* Send the encoded arguments, in_args.size bytes behind the space for the
 * header. They are in handle->in or in `buf`, a buffer of the caller that is
 * moved to the handle if it is on the heap. The deadline starts now. The lock
 * is held. `callback` runs once, from the queue's DONE lane, with the lock
 * held, which it may release and take again. It owns the caller's reference of
 * the handle. It does not run before this function has returned. On an error
 * the callback never runs, and the caller calls hg_forward_forget. In the
 * callback model a failure to send is reported to the callback instead of
 * returned. */
HG_PRIVATE hg_return_t hg_forward_start(struct hg_handle *handle,
    struct hg_buf *buf, void (*callback)(struct hg_handle *handle, void *arg),
    void *arg);

/* The timer of an outgoing call expired. The lock is held. */
HG_PRIVATE void hg_forward_expired(struct hg_handle *handle);

/* Cancel a call: its callback runs with HG_CANCELED, or with a result that
 * arrived first. HG_NOENTRY: it has ended. The lock is held. */
HG_PRIVATE hg_return_t hg_forward_cancel(struct hg_handle *handle);

/* An answer arrived; `header` is borrowed. `damaged` is the error code if the
 * header could be decoded only in part. */
HG_PRIVATE void hg_forward_answer(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header,
    hg_return_t damaged);

/* End every call to `addr`, which is dead or was disconnected, with `ret`.
 * NULL: end all calls. The lock is held. */
HG_PRIVATE void hg_forward_end_all(
    struct hg_context *context, const struct na_addr *addr, hg_return_t ret);

/* Keep for HG_Get_last_error_text() why a call ended with `ret`. With
 * HG_SUCCESS the text becomes empty, because handlers that ran meanwhile may
 * have set it. */
HG_COLD HG_PRIVATE void hg_forward_explain_failure(
    const struct hg_handle *handle, hg_return_t ret);

static inline void hg_forward_explain(
    const struct hg_handle *handle, hg_return_t ret)
{
    if (HG_LIKELY(ret == HG_SUCCESS))
        hg_log_drop_text();
    else
        hg_forward_explain_failure(handle, ret);
}

/* A call could not start: if no text is set, keep `function` and the text of
 * the code. */
HG_COLD HG_PRIVATE void hg_forward_complete_text(
    const char *function, hg_return_t ret);

/* This thread failed to decode the output: keep the reason as the call's
 * text. */
HG_COLD HG_PRIVATE void hg_forward_keep_why(struct hg_handle *handle);

#endif
