/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: the target's side of a call.
 *
 * A request that arrived is checked, fetched if it is large, and queued for
 * whoever runs handlers. Every request whose header could be read gets an
 * answer: an output, a handler's code, or why it was not executed. Where there
 * is no memory for that, and where a peer takes no answers, so that they pile
 * up here, the connection ends.
 *
 * What a peer may have here at a time is limited (limit.h): calls unanswered,
 * bytes of input being fetched or with a handler, bytes of output not fetched
 * yet. What is past a limit ends with HG_AGAIN.
 *
 * Nobody waits any more for a call that was canceled (cancel.h), or whose time
 * is over: it is dropped where it was not executed yet, and what answers it
 * goes nowhere.
 *
 * A handle is the application's from the start of the handler until
 * HG_Handler_free, or until the handler fails without having answered.
 *
 * Locking: as forward.
 */
#ifndef HG_GEN_HG_SERVE_H
#define HG_GEN_HG_SERVE_H

#include "hg/handle.h"

/* A request came; borrowed. `damaged` is the code of a header that could be
 * read only in part: its sender is told that it will not be executed. HG_NOMEM
 * (logged): a call to oneself could not be filed. */
HG_PRIVATE hg_return_t hg_serve_request(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header,
    hg_return_t damaged);

/* The next call that is to be executed, taken out of the queue, or NULL; and
 * execute it. The first inside, the second with no lock held: the call is gone
 * then. And whether one that was taken so is being executed; inside. */
HG_PRIVATE struct hg_handle *hg_serve_next(struct hg_context *context);
HG_PRIVATE void hg_serve_call(struct hg_handle *handle);
HG_PRIVATE bool hg_serve_is_executing(struct hg_context *context);

/* Answer: with `data` encoded by the output proc, or with a `code` alone. An
 * output that cannot be encoded or sent becomes a code, and is returned.
 * HG_EXIST: answered already. */
HG_PRIVATE hg_return_t hg_serve_respond(
    struct hg_handle *handle, hg_return_t code, void *data);

/* Answer with a code and a text, which may be NULL, and is left out when there
 * is no memory for it. HG_EXIST: answered already. */
HG_PRIVATE hg_return_t hg_serve_respond_error(
    struct hg_handle *handle, hg_return_t code, const char *text);

/* Answer with an output, as HG_Respond. With a `callback`, `left` is called
 * when the answer has left, or could not, with a reference of the handle that
 * it gives back; it finds `callback` and `arg` in handle->call. On an error it
 * is not called, and the call is still unanswered, but with HG_EXIST. */
HG_PRIVATE hg_return_t hg_serve_respond_notify(struct hg_handle *handle,
    void *data, hg_handle_left_t left, hg_cb_t callback, void *arg);

/* See HG_Handler_start_response. */
HG_PRIVATE hg_return_t hg_serve_respond_raw(
    struct hg_handle *handle, const void *extra, size_t extra_size);

/* A buffer for an output encoded by hand. HG_EXIST: answered already. */
HG_PRIVATE hg_return_t hg_serve_output_buf(
    struct hg_handle *handle, void **buf_p, size_t *size_p);

/* The application is done with the handle; HG_INVALID_ARG: it was before. */
HG_PRIVATE hg_return_t hg_serve_free(struct hg_handle *handle);

/* The last reference of a call to us went, and nobody has answered it: its
 * caller is told HG_CANCELED. */
HG_PRIVATE void hg_serve_abandon(struct hg_handle *handle);

/* Log, as an error, how many handles the application did not answer, with the
 * function and the peer of the first one. */
HG_PRIVATE void hg_serve_log_unanswered(struct hg_context *context);

/* Whether a call is there that was not refused as it came: unanswered, or its
 * answer on its way, or its handle not given back. */
HG_PRIVATE bool hg_serve_has_calls(struct hg_context *context);

/* Free every handle the application has, as it should have done itself. */
HG_PRIVATE void hg_serve_end_all(struct hg_context *context);

#endif
