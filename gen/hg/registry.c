/* SPDX-License-Identifier: BSD-3-Clause */
/* registry: see registry.h. */
#include "hg/registry.h"

#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

struct hg_registry_entry {
    struct hg_registry_entry *next; /* of the bucket, older */
    struct hg_rpc rpc;
    char name[];
};

HG_PRIVATE hg_return_t hg_registry_init(struct hg_registry *registry)
{
    unsigned i;

    for (i = 0; i < HG_REGISTRY_BUCKETS; i++)
        atomic_init(&registry->buckets[i], NULL);
    return hg_lock_init(&registry->lock);
}

HG_PRIVATE void hg_registry_fini(struct hg_registry *registry)
{
    unsigned i;

    for (i = 0; i < HG_REGISTRY_BUCKETS; i++) {
        struct hg_registry_entry *entry = atomic_load(&registry->buckets[i]);

        while (entry != NULL) {
            struct hg_registry_entry *next = entry->next;

            hg_mem_free(entry);
            entry = next;
        }
    }
    pthread_mutex_destroy(&registry->lock);
}

HG_PRIVATE hg_id_t hg_registry_id(const char *name)
{
    hg_id_t id = hg_crc64_update(0, name, strlen(name));

    return id != 0 ? id : 1;
}

static _Atomic(struct hg_registry_entry *) *hg_registry_bucket(
    struct hg_registry *registry, hg_id_t id)
{
    return &registry->buckets[id & (HG_REGISTRY_BUCKETS - 1)];
}

/* The latest entry of an id, or NULL. */
static const struct hg_registry_entry *hg_registry_get(
    struct hg_registry *registry, hg_id_t id)
{
    const struct hg_registry_entry *entry = atomic_load_explicit(
        hg_registry_bucket(registry, id), memory_order_acquire);

    while (entry != NULL && entry->rpc.id != id)
        entry = entry->next;
    return entry;
}

/* A new entry in front; the lock is held. */
static hg_id_t hg_registry_insert(struct hg_registry *registry, hg_id_t id,
    const char *name, const struct hg_rpc *rpc)
{
    _Atomic(struct hg_registry_entry *) *bucket =
        hg_registry_bucket(registry, id);
    size_t size = strlen(name) + 1;
    struct hg_registry_entry *entry =
        (struct hg_registry_entry *) hg_mem_alloc(sizeof(*entry) + size);

    if (entry == NULL) {
        hg_log_error("rpc", "no memory to register '%s'", name);
        return 0;
    }
    entry->rpc = *rpc;
    entry->rpc.id = id;
    entry->rpc.name = entry->name;
    memcpy(entry->name, name, size);
    entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, entry, memory_order_release);
    return id;
}

HG_PRIVATE hg_id_t hg_registry_add(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc)
{
    const struct hg_registry_entry *before;
    struct hg_rpc now = *rpc;
    hg_id_t id = hg_registry_id(name);

    hg_lock(&registry->lock);
    before = hg_registry_get(registry, id);
    if (before != NULL && now.callback == NULL)
        now.callback = before->rpc.callback;
    if (before == NULL) {
        id = hg_registry_insert(registry, id, name, &now);
    } else if (strcmp(before->name, name) != 0) {
        hg_log_error("rpc", "'%s' has the same id as '%s': rename one", name,
            before->name);
        id = 0;
    } else if (now.in_proc != before->rpc.in_proc ||
        now.out_proc != before->rpc.out_proc ||
        now.callback != before->rpc.callback) {
        id = hg_registry_insert(registry, id, name, &now);
    }
    hg_unlock(&registry->lock);
    return id;
}

HG_PRIVATE hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p)
{
    const struct hg_registry_entry *entry = hg_registry_get(registry, id);

    if (entry == NULL)
        return HG_NOENTRY;
    *rpc_p = entry->rpc;
    return HG_SUCCESS;
}
