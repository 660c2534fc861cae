/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: where messages come in and time passes.
 *
 * Takes what the RPC plane delivers, reads its header and gives it to the
 * side it concerns; what a context sends to itself it gets with its header, by
 * `file` (handle). Progress drives the NA context of the calls and, where bulk
 * has a class of its own, that one's too, and runs timers.
 *
 * Locking: the class's lock guards the timers. The sink runs on whatever
 * thread delivers and takes that lock for moments only.
 */
#ifndef HG_GEN_HG_CONTEXT_H
#define HG_GEN_HG_CONTEXT_H

#include "hg/handle.h"

/* For hg_context_create: of the request model; with the first free id. */
#define HG_CONTEXT_OWN (-1)
#define HG_CONTEXT_ANY (-2)

/* A context of a class; it makes NA contexts of its own. With an `id`, or any,
 * it is one of the callback model. HG_NOMEM; HG_AGAIN: too
 * many are open; HG_EXIST: the id is taken (all logged). */
HG_PRIVATE hg_return_t hg_context_create(
    struct hg_class *hg_class, int id, struct hg_context **context_p);

/* Add up the counters of all contexts of a class, also of those that ended.
 * `size` is not set. */
HG_PRIVATE void hg_context_sum(
    struct hg_class *hg_class, struct hg_counters *sum_p);

/* Take no more calls. */
HG_PRIVATE void hg_context_refuse(struct hg_context *context);

#define HG_CONTEXT_TEXT_MAX 640 /* of hg_context_describe */

/* Write into `text` what keeps a context from ending: how many handles, with
 * the function and the peer of the first one, sends and transfers. */
HG_PRIVATE void hg_context_describe(
    struct hg_context *context, char *text, size_t size);

/* Whether no handle, send, transfer or lookup of it is anywhere. And make
 * progress for at most `ms` until that is so, or the application alone can
 * bring it about. */
HG_PRIVATE bool hg_context_is_quiet(struct hg_context *context);
HG_PRIVATE bool hg_context_drain(struct hg_context *context, unsigned ms);

/* Cancel and answer what is left, let accepted sends leave for at most
 * drain_ms, take back what did not for as long again, free everything. What
 * the transport does not give back even then (logged) is never freed, neither
 * its buffers nor the context that its end would look at, nor its class. */
HG_PRIVATE void hg_context_destroy(struct hg_context *context);

/* Progress until one of `lanes` of the context's queue has an entry, or until
 * *done (HG_SUCCESS), `deadline` passes (HG_TIMEOUT; 0 tests) or a signal comes
 * (HG_INTR). `done` may be NULL; with a flag it also ends when somebody pokes.
 * Inside, once. */
HG_PRIVATE hg_return_t hg_context_progress(struct hg_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline);

/* Whether this thread is in hg_context_progress. Code of the application that
 * runs there, as a function may that frees data, must not wait: no other thread
 * makes progress meanwhile. */
HG_PRIVATE bool hg_context_is_driver(void);

/* In the callback model: a descriptor that is readable when there is something
 * to do, a timer of ours included; -1: none. And whether there is something to
 * do now; if not, the descriptor tells from then on, until progress is made. */
HG_PRIVATE int hg_context_event_fd(struct hg_context *context);
HG_PRIVATE bool hg_context_event_ready(struct hg_context *context);

#endif
