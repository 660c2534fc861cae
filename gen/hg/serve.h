/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: the target's side of a call.
 *
 * A request that arrived is checked, its arguments are fetched if they are
 * large, and it is queued for a thread that runs handlers. Every request with a
 * readable header gets an answer: an output, the code of the handler, or the
 * reason why it was not executed. If there is no memory for the answer, or a
 * peer does not read answers so that they accumulate, the connection is ended.
 *
 * The use of each peer is limited (limit.h): unanswered calls, bytes of input
 * being fetched or with a handler, bytes of output not fetched yet. Calls
 * beyond a limit end with HG_AGAIN.
 *
 * If a call was canceled (cancel.h) or its deadline has passed, the origin no
 * longer waits. A call that was not executed yet is dropped, and an answer is
 * not sent.
 *
 * The application owns a handle from the start of the handler until
 * HG_Handler_free, or until the handler fails without an answer.
 *
 * Locking: as forward.
 */
#ifndef HG_GEN_HG_SERVE_H
#define HG_GEN_HG_SERVE_H

#include "hg/handle.h"

/* A request arrived; `header` is borrowed. `damaged` is the error code if the
 * header could be decoded only in part: the sender is told that the call will
 * not be executed. HG_NOMEM (logged): a call from this process could not be
 * queued. */
HG_PRIVATE hg_return_t hg_serve_request(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header,
    hg_return_t damaged);

/* hg_serve_next: dequeue the next call to be executed, or NULL; the lock is
 * held. hg_serve_call: execute and release it; the lock is not held.
 * hg_serve_is_executing: whether such a call is being executed; the lock is
 * held. */
HG_PRIVATE struct hg_handle *hg_serve_next(struct hg_context *context);
HG_PRIVATE void hg_serve_call(struct hg_handle *handle);
HG_PRIVATE bool hg_serve_is_executing(struct hg_context *context);

/* Whether the call has its answer. */
static inline bool hg_serve_is_answered(struct hg_handle *handle)
{
    return atomic_load(&handle->state) == HG_HANDLE_ANSWERED;
}

/* Answer with `data`, encoded by the output proc, or with a `code` alone. If an
 * output cannot be encoded or sent, the origin gets the error code, which is
 * also returned. HG_EXIST: already answered. */
HG_PRIVATE hg_return_t hg_serve_respond(
    struct hg_handle *handle, hg_return_t code, void *data);

/* Answer with a code and a text. The text may be NULL, and is omitted if memory
 * is short. HG_EXIST: already answered. */
HG_PRIVATE hg_return_t hg_serve_respond_error(
    struct hg_handle *handle, hg_return_t code, const char *text);

/* Implements HG_Respond(). With a `callback`, `left` is called when the answer
 * was sent or could not be sent. It gets a reference of the handle, which it
 * releases, and finds `callback` and `arg` in handle->call. On an error it is
 * not called, and the call is still unanswered, except with HG_EXIST. */
HG_PRIVATE hg_return_t hg_serve_respond_notify(struct hg_handle *handle,
    void *data, hg_handle_left_t left, hg_cb_t callback, void *arg);

/* Implements HG_Handler_start_response(). */
HG_PRIVATE hg_return_t hg_serve_respond_raw(
    struct hg_handle *handle, const void *extra, size_t extra_size);

/* A buffer for an output that the application encodes. HG_EXIST: already
 * answered. */
HG_PRIVATE hg_return_t hg_serve_output_buf(
    struct hg_handle *handle, void **buf_p, size_t *size_p);

/* The application frees the handle. HG_INVALID_ARG: it was freed before. */
HG_PRIVATE hg_return_t hg_serve_free(struct hg_handle *handle);

/* The last reference of an unanswered call was released: answer HG_CANCELED. */
HG_PRIVATE void hg_serve_abandon(struct hg_handle *handle);

/* Log an error with the number of handles that the application did not answer,
 * and the function and the peer of the first. */
HG_PRIVATE void hg_serve_log_unanswered(struct hg_context *context);

/* Whether there is a call that was not refused on arrival and is unanswered, or
 * whose answer is not sent, or whose handle is not freed. The lock is held. */
HG_PRIVATE bool hg_serve_has_calls(struct hg_context *context);

/* Free all handles that the application did not free. */
HG_PRIVATE void hg_serve_end_all(struct hg_context *context);

#endif
