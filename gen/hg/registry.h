/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registry: functions by name.
 *
 * An id is a hash of the name (CRC-64/XZ, never 0), so that both sides derive
 * the same one whatever the order of registration. Two names with one id are
 * an error of the second registration, and the names are kept to notice.
 * Entries live as long as the registry and never change: who registers a name
 * again puts a new one in front of the old one.
 *
 * Locking: a mutex for who registers. Calls read without: an entry is complete
 * before it can be found, and stays where it is.
 */
#ifndef HG_GEN_HG_REGISTRY_H
#define HG_GEN_HG_REGISTRY_H

#include "base/os.h"

/* What is known of a function; copied out, so that a change while a call is
 * under way does not tear it. */
struct hg_rpc {
    hg_id_t id;
    hg_proc_cb_t in_proc;
    hg_proc_cb_t out_proc;
    hg_rpc_cb_t callback; /* NULL: this process does not execute it */
    const char *name;     /* the registry's; NULL: not registered */
};

struct hg_registry_entry;

#define HG_REGISTRY_BUCKETS 256 /* a power of two; ids are hashes */

struct hg_registry {
    pthread_mutex_t lock;
    _Atomic(struct hg_registry_entry *) buckets[HG_REGISTRY_BUCKETS];
};

HG_PRIVATE hg_return_t hg_registry_init(struct hg_registry *registry);
HG_PRIVATE void hg_registry_fini(struct hg_registry *registry);

/* The id of a name. */
HG_PRIVATE hg_id_t hg_registry_id(const char *name);

/* Register or replace; the id, or 0 (logged). A NULL callback leaves one that
 * is there. */
HG_PRIVATE hg_id_t hg_registry_add(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc);

/* Copy an entry out. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p);

#endif
