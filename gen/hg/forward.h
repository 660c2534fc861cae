/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward: the origin's side of a call.
 *
 * A call ends in one place: whoever takes it out of the table of calls in
 * flight (the answer, a cancel, the peer's death, the end of the layer) sets
 * its result and queues its callback. Nobody else can, so it comes once. Who
 * ends it though it was sent, because its time is over for one, tells the
 * target. What comes of it later is let go of.
 *
 * A call of the request model takes the lock once: its arguments are encoded
 * before it has a handle, on the caller's stack if they are small, and are sent
 * from there. A handle of the callback model keeps its arguments: the lock is
 * taken to claim it, and again to send.
 *
 * Locking: the class's lock, which is free around procs, hooks and callbacks.
 */
#ifndef HG_GEN_HG_FORWARD_H
#define HG_GEN_HG_FORWARD_H

#include "hg/handle.h"

/* What is registered under an id. HG_NOENTRY (logged). */
HG_PRIVATE hg_return_t hg_forward_find(
    struct hg_context *context, hg_id_t id, struct hg_rpc *rpc_p);

/* Encode the arguments of a call that has no handle yet, behind room for its
 * header. Failures are logged. */
HG_PRIVATE hg_return_t hg_forward_encode(const struct hg_context *context,
    struct na_addr *addr, const struct hg_rpc *rpc, void *data,
    struct hg_buf *buf, size_t *size_p);

/* A handle to call a function at `addr`, numbered. HG_AGAIN: so many calls are
 * in flight (logged). Inside. */
HG_PRIVATE hg_return_t hg_forward_create(struct hg_context *context,
    struct na_addr *addr, const struct hg_rpc *rpc,
    struct hg_handle **handle_p);

/* The same in steps, for handles that are used again: one without a call, and
 * without a peer if `addr` is NULL; NULL: no memory (logged). */
HG_PRIVATE struct hg_handle *hg_forward_new(
    struct hg_context *context, struct na_addr *addr, const struct hg_rpc *rpc);

/* Have an idle handle for oneself, to encode a call or to change it, until it
 * is forgotten. HG_BUSY (logged): its call is not over. */
HG_PRIVATE hg_return_t hg_forward_claim(
    struct hg_handle *handle, const char *function);

/* Whether it would be HG_BUSY. */
HG_PRIVATE bool hg_forward_is_under_way(struct hg_handle *handle);

/* Number a call of a handle that was claimed. HG_AGAIN, HG_NOMEM (logged).
 * Inside. */
HG_PRIVATE hg_return_t hg_forward_number(struct hg_handle *handle);

/* The call is over, or did not begin: the handle is idle. */
HG_PRIVATE void hg_forward_forget(struct hg_handle *handle);

/* Send what was encoded, of in_args.size bytes behind room for the header: in
 * handle->in, or in a buffer of the caller's, which goes to the handle if it is
 * on the heap. The call's time begins. Inside. `callback` runs once, from the
 * queue's DONE lane, with the lock held, which it may leave and enter again; it
 * has the caller's reference of the handle from then on;
 * until then the caller keeps it, and so does the callback until this returned.
 * On an error the callback never runs, and the caller forgets the call. In the
 * callback model what cannot be sent is no error here, but the callback's. */
HG_PRIVATE hg_return_t hg_forward_start(struct hg_handle *handle,
    struct hg_buf *buf, void (*callback)(struct hg_handle *handle, void *arg),
    void *arg);

/* The timer of a call of ours expired. */
HG_PRIVATE void hg_forward_expired(struct hg_handle *handle);

/* Take a call back: its callback comes with HG_CANCELED, or with the result
 * that won. HG_NOENTRY: it ended already. */
HG_PRIVATE hg_return_t hg_forward_cancel(struct hg_handle *handle);

/* An answer came; borrowed. `damaged` is the code of a header that could be
 * read only in part. */
HG_PRIVATE void hg_forward_answer(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header,
    hg_return_t damaged);

/* End every call to `addr`, which is dead, or whose connection ended, or to
 * anybody when NULL, with `ret`. */
HG_PRIVATE void hg_forward_end_all(
    struct hg_context *context, const struct na_addr *addr, hg_return_t ret);

/* Keep for HG_Get_last_error_text why a call ended with `ret`. With HG_SUCCESS
 * the text becomes empty, as handlers that ran meanwhile may have set it. */
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

/* A call could not begin: unless the text tells why, keep `function` and the
 * code's text. */
HG_COLD HG_PRIVATE void hg_forward_complete_text(
    const char *function, hg_return_t ret);

/* This thread has just failed to decode the output: keep the reason as the
 * call's text. */
HG_COLD HG_PRIVATE void hg_forward_keep_why(struct hg_handle *handle);

#endif
