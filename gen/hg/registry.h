/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registry: functions by name.
 *
 * An id is a hash of the name (CRC-64/XZ, never 0), so that both sides derive
 * the same one whatever the order of registration. Two names with one id are
 * an error of the second registration, and the names are kept to notice.
 *
 * An id has an entry as long as the registry lives, which says what is
 * registered now: a version, or nothing. Versions never change and stay with
 * their entry, as calls that found them may still go by their names: who
 * registers again what was registered before has the same one. So a registry
 * grows with what is registered, not with how often. What an id has besides
 * (data, whether its calls are answered) is shared by its versions.
 *
 * The callback model registers under numbers, too; such a version has no name.
 *
 * A stub registers the names of its types as a text. A fingerprint of that text
 * travels with each call, so that a target notices a caller with other types.
 *
 * Locking: a mutex for who registers. Calls read without: entries and versions
 * are complete before they can be found, and stay where they are.
 */
#ifndef HG_GEN_HG_REGISTRY_H
#define HG_GEN_HG_REGISTRY_H

#include "hg/histogram.h"

/* A registered function. It is copied out, so that a call never sees half of a
 * change. */
struct hg_rpc {
    hg_id_t id;
    hg_proc_cb_t in_proc;
    hg_proc_cb_t out_proc;
    hg_rpc_cb_t callback; /* NULL: this process does not execute it */
    const char *name;     /* the registry's; NULL: none, or not registered */
    struct hg_registry_more *more; /* the registry's */
    uint32_t fingerprint; /* of its types, which travels with calls; 0: they are
                             not known, and not compared */
};

/* Of an id, as long as the registry. */
struct hg_registry_more {
    void *data; /* the registry's lock */
    void (*free_data)(void *data);
    _Atomic bool one_way;            /* its calls are not answered */
    struct hg_histogram_live *times; /* of calls, of those executed; or NULL */
};

struct hg_registry_entry;

#define HG_REGISTRY_BUCKETS 256 /* a power of two; ids are hashes */

struct hg_registry {
    pthread_mutex_t lock;
    bool timed; /* entries that are added count how long calls take */
    _Atomic(struct hg_registry_entry *) buckets[HG_REGISTRY_BUCKETS];
};

HG_PRIVATE hg_return_t hg_registry_init(struct hg_registry *registry);
HG_PRIVATE void hg_registry_fini(struct hg_registry *registry);

/* The id of a name. */
HG_PRIVATE hg_id_t hg_registry_id(const char *name);

/* Register or replace; the id, or 0 (logged). A NULL callback leaves one that
 * is there. `more` and `fingerprint` of *rpc are not looked at. */
HG_PRIVATE hg_id_t hg_registry_add(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc);

/* hg_registry_add with the types of input and output as a text (copied; NULL:
 * not known). 0 also if the name is registered with other types. */
HG_PRIVATE hg_id_t hg_registry_add_typed(struct hg_registry *registry,
    const char *name, const char *types, const struct hg_rpc *rpc);

/* The text of the types, the registry's; NULL: not known. */
HG_PRIVATE const char *hg_registry_types(const struct hg_rpc *rpc);

/* Copy an entry out. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p);

/* Have `see` called with each entry that counts, in an order that stays as long
 * as nothing is registered, until it returns false. */
HG_PRIVATE void hg_registry_walk(struct hg_registry *registry,
    bool (*see)(const struct hg_rpc *rpc, void *arg), void *arg);

/* Register or replace all, under an id of the application's; `name` may be
 * NULL. HG_NOMEM (logged); HG_EXIST (logged): another name has the id. */
HG_PRIVATE hg_return_t hg_registry_put(struct hg_registry *registry, hg_id_t id,
    const char *name, const struct hg_rpc *rpc);

/* Forget an id and free its data. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_remove(
    struct hg_registry *registry, hg_id_t id);

/* Data of an id, which is freed when it is forgotten, and with the registry.
 * HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_set_data(struct hg_registry *registry,
    hg_id_t id, void *data, void (*free_data)(void *data));
HG_PRIVATE void *hg_registry_get_data(struct hg_registry *registry, hg_id_t id);

#endif
