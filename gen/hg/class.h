/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: what is registered, and the settings it is called and served with.
 *
 * A class stands on one NA class for messages and on a bulk layer for memory;
 * contexts are where its calls happen. It knows nothing of what they do, except
 * how much of it: each counts in its class.
 *
 * Locking: none. What stands in it is constant while contexts exist, or guards
 * itself (the registry), or is an atomic.
 */
#ifndef HG_GEN_HG_CLASS_H
#define HG_GEN_HG_CLASS_H

#include "hg/bulk.h"
#include "hg/registry.h"

struct hg_class {
    struct na_class *na_class;
    struct hg_bulk_layer *layer; /* borrowed */
    struct hg_options options;   /* defaults filled in */
    struct hg_registry registry;
    uint64_t trace_base; /* a sequence and this are a trace id */
    /* Of the callback model; constant while calls are under way. */
    hg_return_t (*handle_made)(hg_handle_t handle, void *arg);
    void *handle_made_arg;
    bool haunted; /* by a context that could not be freed: nor can this */
    /* Counters, by the members of struct hg_counters. The first four are
     * written under the context's lock. */
    _Atomic uint64_t requests_sent; /* or about to be */
    _Atomic uint64_t responses_received;
    _Atomic uint64_t requests_received;
    _Atomic uint64_t responses_sent; /* refusals, too, of handles put back */
    _Atomic uint64_t errors_sent;
    _Atomic uint64_t inputs_fetched;
    _Atomic uint64_t outputs_fetched;
    _Atomic uint64_t refused;
    _Atomic uint64_t late;
    _Atomic uint64_t turned_away;
    _Atomic uint64_t dropped;
    _Atomic uint64_t expired;
    _Atomic uint64_t canceled;
};

/* How many bytes of encoded arguments go into a message. */
HG_PRIVATE size_t hg_class_input_eager(const struct hg_class *hg_class);
HG_PRIVATE size_t hg_class_output_eager(const struct hg_class *hg_class);

/* A class without a context, in front of what makes it `size` bytes, zeroed.
 * `layer` outlives it, and so does the NA class. HG_NOMEM (logged). */
HG_PRIVATE hg_return_t hg_class_create(size_t size, struct na_class *na_class,
    struct hg_bulk_layer *layer, const struct hg_options *options,
    struct hg_class **hg_class_p);

/* No context is left, but those which hg_context_destroy could not free: they
 * keep the class. */
HG_PRIVATE void hg_class_destroy(struct hg_class *hg_class);

#endif
