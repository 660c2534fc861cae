/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch: hooks, traces and histograms, at four points of a call:
 *
 *     origin   FORWARD   before its input is encoded
 *              COMPLETE  before its callback
 *     target   HANDLE    before it is executed
 *              RESPOND   when it is answered
 *
 * A class is watched if it has a hook or counts call times. Otherwise this
 * module only costs a check of that flag.
 *
 * Every call belongs to a trace. Each request has a field for the trace id, so
 * the id always travels; the target's handle has it. A call that is forwarded
 * while another is executed belongs to the trace of the latter, so each thread
 * stores the trace it executes.
 *
 * A histogram has buckets by powers of two; the sum of the buckets is its
 * count. A percentile is as exact as a bucket is wide.
 *
 * Locking: the class's lock around the histograms of functions. The hook is
 * constant while calls are in flight; no lock is held when it runs.
 */
#ifndef HG_GEN_HG_WATCH_H
#define HG_GEN_HG_WATCH_H

#include "hg/handle.h"

static inline bool hg_watch_is_on(const struct hg_class *hg_class)
{
    return HG_UNLIKELY(
        atomic_load_explicit(&hg_class->watched, memory_order_relaxed));
}

/* The four points, and the arrival of a request; called only if the class is
 * watched. A result of FORWARD or HANDLE other than HG_SUCCESS ends the call.
 * RESPOND gets the code of the answer as `ret`. */
HG_PRIVATE HG_NOINLINE hg_return_t hg_watch_forward(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_arrive(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_complete(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE hg_return_t hg_watch_handle(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_respond(
    struct hg_handle *handle, hg_return_t ret);

/* Set the trace id of a numbered outgoing call. */
HG_PRIVATE void hg_watch_trace(struct hg_handle *handle);

/* hg_watch_executed: the call that this thread executes; NULL: none.
 * hg_watch_execute: set it; returns the previous one. The caller holds a
 * reference of the handle until it sets another one. */
HG_PRIVATE struct hg_handle *hg_watch_executed(void);
HG_PRIVATE struct hg_handle *hg_watch_execute(struct hg_handle *handle);

/* Copy the histogram of a registered function: of its outgoing calls, or with
 * `target` of the calls executed here. False: it has none. `size` is not
 * set. */
HG_PRIVATE bool hg_watch_times(struct hg_class *hg_class,
    const struct hg_rpc *rpc, bool target, struct hg_histogram *histogram_p);

/* Implements HG_Set_hook(). */
HG_PRIVATE void hg_watch_set_hook(
    struct hg_class *hg_class, hg_hook_cb_t hook, void *arg);

#endif
