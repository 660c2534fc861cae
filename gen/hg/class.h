/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: registered functions, and the settings of calls and services.
 *
 * A class uses one NA class for messages and a bulk layer for memory; its calls
 * run in contexts. Each context has its own counters, so that contexts do not
 * write to the same cache line, and adds them to the class's when it ends.
 *
 * Locking: the class's lock guards the list of contexts and what those that
 * ended have counted. The rest is constant while contexts exist, or guards
 * itself (the registry). One lock guards the list of all classes: while it is
 * held none of them ends. A class's lock is taken inside it, and a context's
 * inside that. In a child of fork the list is empty at first.
 */
#ifndef HG_GEN_HG_CLASS_H
#define HG_GEN_HG_CLASS_H

#include "base/clock.h"
#include "bulk/bulk.h"
#include "hg/limit.h"
#include "hg/registry.h"

/* What each context counts, by the members of struct hg_counters. */
enum hg_count {
    /* Written under the class's lock. */
    HG_COUNT_REQUESTS_SENT = 0, /* or about to be */
    HG_COUNT_RESPONSES_RECEIVED,
    HG_COUNT_REQUESTS_RECEIVED,
    HG_COUNT_RESPONSES_SENT, /* refusals, too, of handles put back */
    /* Written without. */
    HG_COUNT_ERRORS_SENT,
    HG_COUNT_INPUTS_FETCHED,
    HG_COUNT_OUTPUTS_FETCHED,
    HG_COUNT_REFUSED,
    HG_COUNT_LATE,
    HG_COUNT_TURNED_AWAY,
    HG_COUNT_DROPPED,
    HG_COUNT_EXPIRED,
    HG_COUNT_CANCELED,
    HG_COUNTS
};

struct hg_class {
    struct na_link link; /* of all classes */
    struct na_class *na_class;
    struct hg_bulk_layer *layer; /* borrowed */
    struct hg_options options;   /* defaults filled in */
    struct hg_registry registry;
    /* The library's own, which are executed where nothing is registered; NULL:
     * none. */
    hg_return_t (*builtin)(hg_id_t id, struct hg_rpc *rpc_p);
    uint64_t trace_base;       /* a sequence and this are a trace id */
    struct hg_clock_pair born; /* for ages */
    _Atomic bool watched;      /* it has a hook, or times calls (watch.h) */
    _Atomic(hg_hook_cb_t) hook;
    void *hook_arg;
    /* Of the callback model; constant while calls are under way. */
    size_t input_offset; /* bytes of the application's before an input */
    size_t output_offset;
    bool sum_messages;        /* also with the option no_checksum */
    bool no_overflow;         /* arguments fit a message */
    bool release_input_early; /* with the decoding of it */
    _Atomic bool draining;    /* takes no more calls */
    hg_return_t (*handle_made)(hg_handle_t handle, void *arg);
    void *handle_made_arg;
    bool own_na; /* it closes the NA class */
    bool stats;  /* tell the counters at the end */
    uint8_t max_contexts;
    unsigned max_unanswered;        /* by default */
    _Atomic unsigned contexts_made; /* also those being created */
    void *data;
    void (*free_data)(void *data);
    bool leaked; /* by a context that could not be freed: nor can this */
    struct hg_monitor *lock; /* the NA class's */
    struct hg_limit limits[HG_LIMIT_KINDS];
    uint32_t in_flight; /* calls of ours */
    struct na_link contexts;
    uint64_t counted[HG_COUNTS]; /* by those that ended */
};

/* Whether its messages to other processes have a checksum. */
static inline bool hg_class_sums_messages(const struct hg_class *hg_class)
{
    return !hg_class->options.no_checksum || hg_class->sum_messages;
}

/* How many bytes of encoded arguments go into a message. */
HG_PRIVATE size_t hg_class_input_eager(const struct hg_class *hg_class);
HG_PRIVATE size_t hg_class_output_eager(const struct hg_class *hg_class);

/* Copy options, with defaults for what is 0. */
HG_PRIVATE void hg_class_fill_options(
    struct hg_options *mine, const struct hg_options *options);

/* The class has these from now on, and no context yet. Functions that are
 * registered already keep their histograms, or have none. HG_OPNOTSUPPORT
 * (logged): bulk_checksum, where the transport moves the bytes itself; then
 * nothing has changed. */
HG_PRIVATE hg_return_t hg_class_set_options(
    struct hg_class *hg_class, const struct hg_options *options);

/* Create a class without a context. `layer` and the NA class outlive it.
 * HG_NOMEM; HG_AGAIN: too many classes and contexts are open (both logged). */
HG_PRIVATE hg_return_t hg_class_create(struct na_class *na_class,
    struct hg_bulk_layer *layer, const struct hg_options *options,
    struct hg_class **hg_class_p);

/* Have `see` called with each class there is, of both models; none ends
 * meanwhile. False: without `wait`, and the list was not to be had. */
HG_PRIVATE bool hg_class_each(
    bool wait, void (*see)(struct hg_class *hg_class, void *arg), void *arg);

/* No context is left, but those which hg_context_destroy could not free: they
 * keep the class. */
HG_PRIVATE void hg_class_destroy(struct hg_class *hg_class);

#endif
