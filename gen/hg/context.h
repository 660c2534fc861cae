/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: where messages come in and time passes.
 *
 * Takes what the RPC plane delivers, reads its header and gives it to the
 * side it concerns. Progress drives the NA context of the calls and, where
 * bulk has a class of its own, that one's too, and runs timers.
 *
 * Locking: the context's lock guards the timers. The sink runs on whatever
 * thread delivers and takes that lock for moments only.
 */
#ifndef HG_GEN_HG_CONTEXT_H
#define HG_GEN_HG_CONTEXT_H

#include "hg/handle.h"

/* A context of a class; it makes NA contexts of its own. With `id` not negative
 * it is one of the callback model, of that id. HG_NOMEM (logged). */
HG_PRIVATE hg_return_t hg_context_create(
    struct hg_class *hg_class, int id, struct hg_context **context_p);

/* Take no more calls. */
HG_PRIVATE void hg_context_refuse(struct hg_context *context);

/* Whether no handle, send, transfer or lookup of it is anywhere. */
HG_PRIVATE bool hg_context_is_quiet(struct hg_context *context);

/* Cancel and answer what is left, let accepted sends leave for at most
 * drain_ms, take back what did not for as long again, free everything. What
 * the transport does not give back even then (logged) is never freed, neither
 * its buffers nor the context that its end would look at, nor its class. */
HG_PRIVATE void hg_context_destroy(struct hg_context *context);

/* Progress until one of `lanes` of the context's queue has an entry
 * (HG_SUCCESS), `deadline` passes (HG_TIMEOUT; 0 tests) or a signal comes
 * (HG_INTR). One thread at a time, but in the callback model. */
HG_PRIVATE hg_return_t hg_context_progress(
    struct hg_context *context, unsigned lanes, uint64_t deadline);

#endif
