/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registry: functions by name.
 *
 * An id is a hash of the name (CRC-64/XZ, never 0), so that both sides compute
 * the same id in any order of registration. Names are kept to detect two names
 * with the same id: the second registration fails. The callback model can also
 * register under a number, without a name.
 *
 * An entry of an id stays until the registry is destroyed. Its `now` is the
 * registered version, or NULL. A version never changes and stays with its
 * entry, because calls point to it. Registering the same function again finds
 * the same version, so the registry does not grow.
 *
 * A stub registers the names of its types as a text. A fingerprint of the text
 * travels with each call, so that a target detects a caller with other types.
 * MERCURY_REGISTER() registers the names of its types, too, without a
 * fingerprint. The addresses of procs are not compared: each file that includes
 * the header of a type has its own.
 *
 * Locking: the class's lock around registration, data and histograms. Lookups
 * take no lock: entries and versions are complete before they can be found.
 */
#ifndef HG_GEN_HG_REGISTRY_H
#define HG_GEN_HG_REGISTRY_H

#include "base/lock.h"

struct hg_registry_entry;

/* A registered function. */
struct hg_rpc {
    hg_id_t id;
    hg_proc_cb_t in_proc;
    hg_proc_cb_t out_proc;
    hg_rpc_cb_t callback; /* NULL: not executed in this process */
    const char *name; /* owned by the registry; NULL: none, or not registered */
    struct hg_registry_entry *entry; /* NULL: not registered */
    uint32_t fingerprint;            /* of its types; 0: unknown */
};

/* Of a call without a registered function. */
static const struct hg_rpc hg_rpc_none = {0, NULL, NULL, NULL, NULL, NULL, 0};

/* A current or former registration of an id. */
struct hg_registry_version {
    struct hg_registry_version *next; /* older */
    struct hg_rpc rpc;
    const char *types; /* NULL: unknown */
    char name[];       /* behind its NUL: the types */
};

struct hg_registry_entry {
    struct hg_registry_entry *next; /* next entry of the bucket */
    hg_id_t id;
    _Atomic(const struct hg_registry_version *) now; /* NULL: not registered */
    struct hg_registry_version *versions;
    void *data; /* freed when the id is removed, and with the registry */
    void (*free_data)(void *data);
    _Atomic bool one_way;       /* its calls get no answer */
    bool timed;                 /* call times are counted */
    struct hg_histogram out_ns; /* outgoing calls; `size` is not set */
    struct hg_histogram in_ns;  /* calls executed here */
};

#define HG_REGISTRY_BUCKETS 256 /* a power of two; ids are hashes */

struct hg_registry {
    struct hg_monitor *lock; /* the class's */
    bool timed;              /* new entries count call times */
    _Atomic(struct hg_registry_entry *) buckets[HG_REGISTRY_BUCKETS];
};

HG_PRIVATE void hg_registry_init(
    struct hg_registry *registry, struct hg_monitor *lock);
HG_PRIVATE void hg_registry_fini(struct hg_registry *registry);

/* The id of a name. */
HG_PRIVATE hg_id_t hg_registry_id(const char *name);

/* Register or replace a function. `name` and `types` (the types of input and
 * output as a text) are copied; NULL: none or unknown. With `keep_callback` a
 * NULL callback keeps the current one. `entry` of *rpc is ignored. If its
 * `fingerprint` is not 0, that of the types travels with calls. HG_NOMEM;
 * HG_EXIST: another name has the id, a stub has other types, or the name is
 * reserved. All are logged. Other types of a function that is not a stub are
 * logged as a warning. */
HG_PRIVATE hg_return_t hg_registry_put(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc,
    bool keep_callback);

/* hg_registry_put with the id of the name, keeping the callback. Returns the
 * id, or 0. */
HG_PRIVATE hg_id_t hg_registry_add(struct hg_registry *registry,
    const char *name, const char *types, const struct hg_rpc *rpc);

/* The types of a stub as a text, owned by the registry; NULL: no stub. */
HG_PRIVATE const char *hg_registry_types(const struct hg_rpc *rpc);

/* Whether a handler that is not of a stub is registered. Other types than those
 * of the stub `name` are logged as a warning. */
HG_PRIVATE bool hg_registry_has_handler(struct hg_registry *registry,
    hg_id_t id, const char *name, const char *types);

/* The registered function, which never changes and stays until the registry is
 * destroyed. NULL: none. */
HG_PRIVATE const struct hg_rpc *hg_registry_find(
    struct hg_registry *registry, hg_id_t id);

/* The registered function after `before`; NULL: the first one, and no more. The
 * order is stable while nothing is registered. */
HG_PRIVATE const struct hg_rpc *hg_registry_next(
    struct hg_registry *registry, const struct hg_rpc *before);

/* Remove an id and free its data. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_remove(
    struct hg_registry *registry, hg_id_t id);

#endif
