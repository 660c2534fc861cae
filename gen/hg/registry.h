/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registry: functions by name.
 *
 * An id is a hash of the name (CRC-64/XZ, never 0), so that both sides derive
 * the same one whatever the order of registration. Two names with one id are
 * an error of the second registration, and the names are kept to notice. The
 * callback model registers under numbers, too, then without a name.
 *
 * An id has an entry until the registry ends. Its `now` is the version that is
 * registered, or NULL. A version never changes and stays with its entry, as
 * calls that found it go by its name. Registering again what was registered
 * before finds the same version, so a registry does not grow with that.
 *
 * A stub registers the names of its types as a text. A fingerprint of that text
 * travels with each call, so that a target notices a caller with other types.
 *
 * Locking: the class's lock around registering, data and histograms. Lookups
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
    hg_rpc_cb_t callback; /* NULL: this process does not execute it */
    const char *name;     /* the registry's; NULL: none, or not registered */
    struct hg_registry_entry *entry; /* NULL: not registered */
    uint32_t fingerprint;            /* of its types; 0: they are not known */
};

/* One way in which an id is, or was, registered. */
struct hg_registry_version {
    struct hg_registry_version *next; /* older */
    struct hg_rpc rpc;
    char name[]; /* behind its NUL the types, if there is a fingerprint */
};

struct hg_registry_entry {
    struct hg_registry_entry *next; /* of the bucket, older */
    hg_id_t id;
    _Atomic(const struct hg_registry_version *) now; /* NULL: forgotten */
    struct hg_registry_version *versions;
    void *data; /* freed when the id is forgotten, and with the registry */
    void (*free_data)(void *data);
    _Atomic bool one_way;       /* its calls are not answered */
    bool timed;                 /* counts how long calls take */
    struct hg_histogram out_ns; /* of calls; `size` is not set */
    struct hg_histogram in_ns;  /* of calls executed here */
};

#define HG_REGISTRY_BUCKETS 256 /* a power of two; ids are hashes */

struct hg_registry {
    struct hg_monitor *lock; /* the class's */
    bool timed;              /* entries that are added count times */
    _Atomic(struct hg_registry_entry *) buckets[HG_REGISTRY_BUCKETS];
};

HG_PRIVATE void hg_registry_init(
    struct hg_registry *registry, struct hg_monitor *lock);
HG_PRIVATE void hg_registry_fini(struct hg_registry *registry);

/* The id of a name. */
HG_PRIVATE hg_id_t hg_registry_id(const char *name);

/* Register or replace. `name` and `types` (the types of input and output as a
 * text) are copied; NULL: none, or not known. With `keep_callback` a NULL
 * callback leaves the one that is there. `entry` and `fingerprint` of *rpc are
 * not looked at. HG_NOMEM; HG_EXIST: another name has the id, the types are
 * others, or the name is the library's (all logged). */
HG_PRIVATE hg_return_t hg_registry_put(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc,
    bool keep_callback);

/* hg_registry_put under the name's id, which keeps the callback; the id, or
 * 0. */
HG_PRIVATE hg_id_t hg_registry_add(struct hg_registry *registry,
    const char *name, const char *types, const struct hg_rpc *rpc);

/* The text of the types, the registry's; NULL: not known. */
HG_PRIVATE const char *hg_registry_types(const struct hg_rpc *rpc);

/* Copy what is registered. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p);

/* The registered function after another one; NULL: the first, and none is left.
 * The order stays while nothing is registered. */
HG_PRIVATE const struct hg_rpc *hg_registry_next(
    struct hg_registry *registry, const struct hg_rpc *before);

/* Forget an id and free its data. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_remove(
    struct hg_registry *registry, hg_id_t id);

#endif
