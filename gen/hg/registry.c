/* SPDX-License-Identifier: BSD-3-Clause */
/* registry: see registry.h. */
#include "hg/registry.h"

#include "base/crc64.h"
#include "base/log.h"
#include "base/mem.h"

struct hg_registry_entry {
    struct hg_rpc rpc;
    char name[];
};

HG_PRIVATE hg_return_t hg_registry_init(struct hg_registry *registry)
{
    if (pthread_rwlock_init(&registry->lock, NULL) != 0) {
        hg_log_error("rpc", "no memory for a lock");
        return HG_NOMEM;
    }
    hg_map_init(&registry->map);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_registry_fini(struct hg_registry *registry)
{
    size_t cursor = 0;
    uint64_t key;
    void *entry;

    while ((entry = hg_map_next(&registry->map, &cursor, &key)) != NULL)
        hg_mem_free(entry);
    hg_map_fini(&registry->map);
    pthread_rwlock_destroy(&registry->lock);
}

HG_PRIVATE hg_id_t hg_registry_id(const char *name)
{
    hg_id_t id = hg_crc64_update(0, name, strlen(name));

    return id != 0 ? id : 1;
}

/* A new entry; the lock is held for writing. */
static hg_id_t hg_registry_insert(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc)
{
    size_t size = strlen(name) + 1;
    struct hg_registry_entry *entry =
        (struct hg_registry_entry *) hg_mem_alloc(sizeof(*entry) + size);

    if (entry == NULL)
        goto no_memory;
    entry->rpc = *rpc;
    entry->rpc.id = hg_registry_id(name);
    entry->rpc.name = entry->name;
    memcpy(entry->name, name, size);
    if (hg_map_put(&registry->map, entry->rpc.id, entry) == HG_SUCCESS)
        return entry->rpc.id;
    hg_mem_free(entry);
no_memory:
    hg_log_error("rpc", "no memory to register '%s'", name);
    return 0;
}

HG_PRIVATE hg_id_t hg_registry_add(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc)
{
    struct hg_registry_entry *entry;
    hg_id_t id = hg_registry_id(name);

    (void) pthread_rwlock_wrlock(&registry->lock);
    entry = (struct hg_registry_entry *) hg_map_get(&registry->map, id);
    if (entry == NULL) {
        id = hg_registry_insert(registry, name, rpc);
    } else if (strcmp(entry->name, name) != 0) {
        hg_log_error("rpc", "'%s' has the same id as '%s': rename one", name,
            entry->name);
        id = 0;
    } else {
        entry->rpc.in_proc = rpc->in_proc;
        entry->rpc.out_proc = rpc->out_proc;
        if (rpc->callback != NULL)
            entry->rpc.callback = rpc->callback;
    }
    (void) pthread_rwlock_unlock(&registry->lock);
    return id;
}

HG_PRIVATE hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p)
{
    const struct hg_registry_entry *entry;
    hg_return_t ret = HG_NOENTRY;

    (void) pthread_rwlock_rdlock(&registry->lock);
    entry = (const struct hg_registry_entry *) hg_map_get(&registry->map, id);
    if (entry != NULL) {
        *rpc_p = entry->rpc;
        ret = HG_SUCCESS;
    }
    (void) pthread_rwlock_unlock(&registry->lock);
    return ret;
}
