/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch: what is done at the four moments of a call for who looks on.
 *
 *     origin   FORWARD   before its input is encoded
 *              COMPLETE  before its callback
 *     target   HANDLE    before it is executed
 *              RESPOND   when it is answered
 *
 * A class is watched if it has a hook, or counts how long calls take. Nothing
 * of this module costs more than a look at that mark where it is not.
 *
 * Every call belongs to a trace. Its id has a place of its own in each request,
 * so it travels always; the target's handle has it. A call that is made while
 * another is executed is of that one's trace: so each thread knows which it
 * executes just now.
 *
 * A histogram has buckets by powers of two, which sum up to its count; a
 * percentile is as exact as a bucket is wide.
 *
 * Locking: the class's lock around the histograms of functions. The hook is
 * constant while calls are under way; no lock is held when it runs.
 */
#ifndef HG_GEN_HG_WATCH_H
#define HG_GEN_HG_WATCH_H

#include "hg/handle.h"

static inline bool hg_watch_is_on(const struct hg_class *hg_class)
{
    return HG_UNLIKELY(
        atomic_load_explicit(&hg_class->watched, memory_order_relaxed));
}

/* The moments, and an arrival before them; only where the class is watched.
 * What FORWARD and HANDLE return, if not HG_SUCCESS, ends the call. RESPOND:
 * with `ret`. */
HG_PRIVATE HG_NOINLINE hg_return_t hg_watch_forward(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_arrive(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_complete(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE hg_return_t hg_watch_handle(struct hg_handle *handle);
HG_PRIVATE HG_NOINLINE void hg_watch_respond(
    struct hg_handle *handle, hg_return_t ret);

/* Give a call of ours, which is numbered, its trace id. */
HG_PRIVATE void hg_watch_trace(struct hg_handle *handle);

/* This thread executes what belongs to a trace from now on, 0: to none; to
 * which it did before. */
HG_PRIVATE uint64_t hg_watch_inherit(uint64_t trace_id);

/* Copy how long calls of a registered function took, or those executed here.
 * False: it is not counted. `size` stays. */
HG_PRIVATE bool hg_watch_times(struct hg_class *hg_class,
    const struct hg_rpc *rpc, bool target, struct hg_histogram *histogram_p);

/* See HG_Set_hook. */
HG_PRIVATE void hg_watch_set_hook(
    struct hg_class *hg_class, hg_hook_cb_t hook, void *arg);

#endif
