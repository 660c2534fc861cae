/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: receives messages, makes progress and runs timers.
 *
 * The sink of the RPC plane decodes the header of a message and passes it to
 * forward (answers), serve (requests) or cancel. A context receives messages to
 * itself through `file` (see handle), with the header already decoded. Progress
 * drives the NA context of the calls and, if bulk data uses its own class, the
 * NA context of that class.
 *
 * Locking: the class's lock guards the timers. The sink runs in any thread that
 * delivers messages, and holds the lock only briefly.
 */
#ifndef HG_GEN_HG_CONTEXT_H
#define HG_GEN_HG_CONTEXT_H

#include "hg/handle.h"

/* For hg_context_create: a context of the request model; the first free id. */
#define HG_CONTEXT_OWN (-1)
#define HG_CONTEXT_ANY (-2)

/* Create a context of a class, with its own NA contexts. An `id` of 0 or more,
 * or HG_CONTEXT_ANY, makes it a context of the callback model. HG_NOMEM;
 * HG_AGAIN: too many contexts are open; HG_EXIST: the id is in use. All are
 * logged. */
HG_PRIVATE hg_return_t hg_context_create(
    struct hg_class *hg_class, int id, struct hg_context **context_p);

/* Sum the counters of all contexts of a class, including destroyed ones. `size`
 * is not set. */
HG_PRIVATE void hg_context_sum(
    struct hg_class *hg_class, struct hg_counters *sum_p);

/* Accept no more calls. */
HG_PRIVATE void hg_context_refuse(struct hg_context *context);

#define HG_CONTEXT_TEXT_MAX 704 /* buffer size for hg_context_describe */

/* Describe in `text` what keeps a context from being destroyed: the number of
 * handles, sends and transfers, and of the first handle the function, the peer
 * and what is missing. The lock is held. */
HG_PRIVATE void hg_context_describe(
    struct hg_context *context, char *text, size_t size);

/* Whether no handle, send, transfer or lookup of the context is in use.
 * hg_context_drain makes progress for at most `ms` until that is so, or until
 * only the application can free what is left. */
HG_PRIVATE bool hg_context_is_quiet(struct hg_context *context);
HG_PRIVATE bool hg_context_drain(struct hg_context *context, unsigned ms);

/* Destroy a context: cancel and answer pending calls, let accepted sends
 * complete for at most drain_ms, cancel the rest and wait for as long again,
 * free everything. If the transport does not release an operation even then
 * (logged), its buffers, the context and the class are leaked, since the
 * operation still refers to them. */
HG_PRIVATE void hg_context_destroy(struct hg_context *context);

/* Make progress until one of `lanes` of the context's queue has an entry or
 * *done is set (HG_SUCCESS), `deadline` passes (HG_TIMEOUT; 0: one turn) or a
 * signal arrives (HG_INTR). `done` may be NULL. With a flag, it also returns
 * when na_progress_poke is called. The lock is held. */
HG_PRIVATE hg_return_t hg_context_progress(struct hg_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline);

/* hg_context_wake: make the threads return that wait in a context for any
 * event; NULL: none. May be called in a signal handler. hg_context_is_woken:
 * whether it was called since this thread asked last. */
HG_PRIVATE void hg_context_wake(struct hg_context *context);
HG_PRIVATE bool hg_context_is_woken(void);

/* Whether this thread is in hg_context_progress. Application code that runs
 * there, such as a function that frees data, must not wait: no other thread
 * makes progress meanwhile. */
HG_PRIVATE bool hg_context_is_driver(void);

/* Callback model: a descriptor that is readable when there is work, including
 * timers; -1: none. hg_context_event_ready returns whether there is work now;
 * if not, the descriptor becomes readable when there is, until the next
 * progress. */
HG_PRIVATE int hg_context_event_fd(struct hg_context *context);
HG_PRIVATE bool hg_context_event_ready(struct hg_context *context);

#endif
