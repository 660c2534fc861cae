/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: registered functions, and the settings of calls and services.
 *
 * A class uses one NA class for messages and a bulk layer for memory. Its calls
 * run in contexts. Each context has its own counters, so that contexts do not
 * write to the same cache line. A context adds its counters to those of the
 * class when it is destroyed.
 *
 * Locking: the class's lock guards the list of contexts and the counters of
 * destroyed contexts. The registry has its own rules. Everything else is
 * constant while contexts exist. One lock guards the list of all classes: while
 * it is held, no class is destroyed. Lock order: list of classes, class,
 * context. A child of fork starts with an empty list.
 */
#ifndef HG_GEN_HG_CLASS_H
#define HG_GEN_HG_CLASS_H

#include "base/clock.h"
#include "bulk/bulk.h"
#include "hg/limit.h"
#include "hg/registry.h"

/* The counters of a context, in the order of struct hg_counters. */
enum hg_count {
    /* Written with the class's lock held. */
    HG_COUNT_REQUESTS_SENT = 0, /* including calls about to be sent */
    HG_COUNT_RESPONSES_RECEIVED,
    HG_COUNT_REQUESTS_RECEIVED,
    HG_COUNT_RESPONSES_SENT, /* including refusals whose handles were freed */
    /* Written without the lock. */
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
    struct na_link link; /* in the list of all classes */
    struct na_class *na_class;
    struct hg_bulk_layer *layer; /* borrowed */
    struct hg_options options;   /* defaults filled in */
    struct hg_registry registry;
    /* Functions of the library, for ids that are not registered; NULL: none. */
    const struct hg_rpc *(*builtin)(hg_id_t id);
    uint64_t trace_base;       /* trace id = this + sequence */
    struct hg_clock_pair born; /* start of the clock for ages */
    _Atomic bool watched; /* it has a hook or counts call times: see watch.h */
    _Atomic(hg_hook_cb_t) hook;
    void *hook_arg;
    /* Callback model only; constant while calls are in flight. */
    size_t input_offset; /* application bytes in front of an input */
    size_t output_offset;
    bool sum_messages;        /* even with the option no_checksum */
    bool no_overflow;         /* arguments must fit a message */
    bool release_input_early; /* as soon as it is decoded */
    _Atomic bool draining;    /* no more calls are accepted */
    hg_return_t (*handle_made)(hg_handle_t handle, void *arg);
    void *handle_made_arg;
    bool own_na; /* this class closes the NA class */
    bool stats;  /* log the counters when it is destroyed */
    uint8_t max_contexts;
    unsigned max_unanswered;        /* the default */
    _Atomic unsigned contexts_made; /* including contexts being created */
    void *data;
    void (*free_data)(void *data);
    bool leaked; /* a context could not be freed, so the class is not freed
                   either */
    struct hg_monitor *lock; /* the lock of the NA class */
    struct hg_limit limits[HG_LIMIT_KINDS];
    uint32_t in_flight; /* outgoing calls */
    struct na_link contexts;
    uint64_t counted[HG_COUNTS]; /* counters of destroyed contexts */
};

/* Whether its messages to other processes have a checksum where bytes may be
 * damaged. */
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

/* Set the options of a class without contexts. Functions registered before keep
 * their histograms, or have none. HG_OPNOTSUPPORT, logged: bulk_checksum is
 * set, but the transport moves bulk data itself; nothing is changed. */
HG_PRIVATE hg_return_t hg_class_set_options(
    struct hg_class *hg_class, const struct hg_options *options);

/* Create a class without a context. `layer` and the NA class must outlive it.
 * HG_NOMEM; HG_AGAIN: too many classes and contexts are open. Both are
 * logged. */
HG_PRIVATE hg_return_t hg_class_create(struct na_class *na_class,
    struct hg_bulk_layer *layer, const struct hg_options *options,
    struct hg_class **hg_class_p);

/* Call `see` with each class of both models; none is destroyed meanwhile.
 * False: `wait` is false and the list is locked. */
HG_PRIVATE bool hg_class_each(
    bool wait, void (*see)(struct hg_class *hg_class, void *arg), void *arg);

/* Destroy a class. All contexts were destroyed; a context that
 * hg_context_destroy could not free keeps the class in memory. */
HG_PRIVATE void hg_class_destroy(struct hg_class *hg_class);

#endif
