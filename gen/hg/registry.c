/* SPDX-License-Identifier: BSD-3-Clause */
/* registry: see registry.h. */
#include "hg/registry.h"

#include "base/crc64.h"
#include "base/log.h"
#include "base/mem.h"

HG_PRIVATE void hg_registry_init(
    struct hg_registry *registry, struct hg_monitor *lock)
{
    memset(registry, 0, sizeof(*registry));
    registry->lock = lock;
}

/* Remove an id's data, and free it without the lock. */
static void hg_registry_free_data(
    struct hg_registry *registry, struct hg_registry_entry *entry)
{
    void (*free_data)(void *data);
    void *data;

    hg_enter(registry->lock);
    data = entry->data;
    free_data = entry->free_data;
    entry->data = NULL;
    entry->free_data = NULL;
    hg_leave(registry->lock);
    if (data != NULL && free_data != NULL)
        free_data(data);
}

HG_PRIVATE void hg_registry_fini(struct hg_registry *registry)
{
    struct hg_registry_version *version;
    struct hg_registry_entry *entry;
    unsigned i;

    for (i = 0; i < HG_REGISTRY_BUCKETS; i++) {
        while ((entry = atomic_load(&registry->buckets[i])) != NULL) {
            atomic_store(&registry->buckets[i], entry->next);
            hg_registry_free_data(registry, entry);
            while ((version = entry->versions) != NULL) {
                entry->versions = version->next;
                hg_mem_free(version);
            }
            hg_mem_free(entry);
        }
    }
}

/* The fingerprint of a type list; never 0, which means unknown. */
static uint32_t hg_registry_fingerprint(const char *types)
{
    uint64_t crc = hg_crc64_update(0, types, strlen(types));
    uint32_t folded = (uint32_t) (crc ^ crc >> 32);

    return folded != 0 ? folded : 1;
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

/* The entry of an id, registered or not; NULL: none. */
static struct hg_registry_entry *hg_registry_look(
    struct hg_registry *registry, hg_id_t id)
{
    struct hg_registry_entry *entry = atomic_load_explicit(
        hg_registry_bucket(registry, id), memory_order_acquire);

    while (entry != NULL && entry->id != id)
        entry = entry->next;
    return entry;
}

/* The version registered in the entry, or NULL. */
static const struct hg_registry_version *hg_registry_current(
    struct hg_registry_entry *entry)
{
    return entry != NULL
        ? atomic_load_explicit(&entry->now, memory_order_acquire)
        : NULL;
}

/* The function registered in the entry, or NULL. */
static const struct hg_rpc *hg_registry_now(struct hg_registry_entry *entry)
{
    const struct hg_registry_version *now = hg_registry_current(entry);

    return now != NULL ? &now->rpc : NULL;
}

/* Compare two texts; either may be NULL. */
static bool hg_registry_is_same_text(const char *one, const char *two)
{
    return one == NULL || two == NULL ? one == two : strcmp(one, two) == 0;
}

HG_PRIVATE const char *hg_registry_types(const struct hg_rpc *rpc)
{
    HG_ASSERT(rpc->fingerprint == 0 || rpc->name != NULL);
    return rpc->fingerprint != 0 ? rpc->name + strlen(rpc->name) + 1 : NULL;
}

static bool hg_registry_is_same(const struct hg_registry_version *before,
    const struct hg_rpc *now, const char *name, const char *types)
{
    const struct hg_rpc *rpc = &before->rpc;

    return now->in_proc == rpc->in_proc && now->out_proc == rpc->out_proc &&
        now->callback == rpc->callback &&
        (now->fingerprint != 0) == (rpc->fingerprint != 0) &&
        hg_registry_is_same_text(rpc->name, name) &&
        hg_registry_is_same_text(before->types, types);
}

/* Find the version of an entry with these properties, or create it. The lock is
 * held. NULL: out of memory. */
static const struct hg_registry_version *hg_registry_version(
    struct hg_registry_entry *entry, const char *name, const char *types,
    const struct hg_rpc *rpc)
{
    size_t name_size = name != NULL ? strlen(name) + 1 : 0;
    size_t types_size = types != NULL ? strlen(types) + 1 : 0;
    struct hg_registry_version *version = entry->versions;

    HG_ASSERT(types == NULL ? rpc->fingerprint == 0 : name != NULL);
    while (version != NULL && !hg_registry_is_same(version, rpc, name, types))
        version = version->next;
    if (version != NULL)
        return version;
    version = (struct hg_registry_version *) hg_mem_alloc(
        sizeof(*version) + name_size + types_size);
    if (version == NULL)
        return NULL;
    version->rpc = *rpc;
    version->rpc.id = entry->id;
    version->rpc.entry = entry;
    version->rpc.name = name != NULL ? version->name : NULL;
    version->types = types != NULL ? version->name + name_size : NULL;
    if (rpc->fingerprint != 0)
        version->rpc.fingerprint = hg_registry_fingerprint(types);
    if (name != NULL)
        memcpy(version->name, name, name_size);
    if (types != NULL)
        memcpy(version->name + name_size, types, types_size);
    version->next = entry->versions;
    entry->versions = version;
    return version;
}

/* Create an entry for an id. The lock is held. NULL: out of memory. */
static struct hg_registry_entry *hg_registry_new_entry(
    struct hg_registry *registry, hg_id_t id)
{
    _Atomic(struct hg_registry_entry *) *bucket =
        hg_registry_bucket(registry, id);
    struct hg_registry_entry *entry =
        (struct hg_registry_entry *) hg_mem_calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->id = id;
    entry->timed = registry->timed;
    entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, entry, memory_order_release);
    return entry;
}

/* Whether the types are the structs that the stub `name` generates. */
static bool hg_registry_is_of_stub(const char *types, const char *name)
{
    size_t size = strlen(name);

    return strlen(types) == 2 * size + strlen("_in_t -> _out_t") &&
        strncmp(types, name, size) == 0 &&
        strncmp(types + size, "_in_t -> ", 9) == 0 &&
        strncmp(types + size + 9, name, size) == 0 &&
        strcmp(types + 2 * size + 9, "_out_t") == 0;
}

/* Log that a registration has other types than the current one, which may be
 * NULL: from now on calls of one use the procs of the other. */
static void hg_registry_compare(const struct hg_registry_version *before,
    const char *name, const char *types, bool stub)
{
    bool was_stub = before != NULL && before->rpc.fingerprint != 0;

    if (before == NULL || before->types == NULL || types == NULL ||
        strcmp(before->types, types) == 0 ||
        (stub && !was_stub && hg_registry_is_of_stub(before->types, name)) ||
        (was_stub && !stub && hg_registry_is_of_stub(types, name)))
        return;
    hg_log_warning("rpc",
        "'%s' is registered with the types %s, and was with other types: %s",
        name, types, before->types);
}

/* Make it the registered version. The lock is held. HG_NOMEM (logged). */
static hg_return_t hg_registry_insert(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc)
{
    struct hg_registry_entry *entry = hg_registry_look(registry, id);
    const struct hg_registry_version *newest;
    const struct hg_registry_version *version;

    if (entry == NULL)
        entry = hg_registry_new_entry(registry, id);
    newest = entry != NULL ? entry->versions : NULL;
    version =
        entry != NULL ? hg_registry_version(entry, name, types, rpc) : NULL;
    if (version == NULL) {
        hg_log_error("rpc", "no memory to register '%s' (%016" PRIx64 ")",
            name != NULL ? name : "", id);
        return HG_NOMEM;
    }
    if (entry->versions != newest) /* otherwise it was logged before */
        hg_registry_compare(
            hg_registry_current(entry), name, types, rpc->fingerprint != 0);
    atomic_store_explicit(&entry->now, version, memory_order_release);
    return HG_SUCCESS;
}

/* Whether an id may be registered with these properties; `before`: the current
 * registration, or NULL. With different definitions, calls would use the wrong
 * procs. The lock is held. HG_EXIST (logged). */
static hg_return_t hg_registry_check(const struct hg_rpc *before,
    const char *name, const char *types, const struct hg_rpc *rpc)
{
    const char *other_name = before != NULL ? before->name : NULL;
    const char *other = before != NULL ? hg_registry_types(before) : NULL;

    if (other_name != NULL && name != NULL && strcmp(other_name, name) != 0)
        hg_log_error("rpc", "'%s' has the same id as '%s': rename one", name,
            other_name);
    else if (other != NULL && rpc->fingerprint != 0 &&
        strcmp(other, types) != 0)
        hg_log_error("rpc",
            "'%s' with the types %s is already registered with other types: "
            "%s",
            name, types, other);
    else if (name != NULL && rpc->callback != NULL &&
        strncmp(name, HG_BUILTIN_PREFIX, strlen(HG_BUILTIN_PREFIX)) == 0)
        hg_log_error("rpc",
            "'%s': names that begin with " HG_BUILTIN_PREFIX
            " are reserved for the library",
            name);
    else
        return HG_SUCCESS;
    return HG_EXIST;
}

HG_PRIVATE hg_return_t hg_registry_put(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc,
    bool keep_callback)
{
    const struct hg_rpc *before;
    struct hg_rpc now = *rpc;
    hg_return_t ret;

    hg_enter(registry->lock);
    before = hg_registry_now(hg_registry_look(registry, id));
    ret = hg_registry_check(before, name, types, rpc);
    if (before != NULL && now.callback == NULL && keep_callback)
        now.callback = before->callback;
    if (ret == HG_SUCCESS)
        ret = hg_registry_insert(registry, id, name, types, &now);
    hg_leave(registry->lock);
    return ret;
}

HG_PRIVATE hg_id_t hg_registry_add(struct hg_registry *registry,
    const char *name, const char *types, const struct hg_rpc *rpc)
{
    hg_id_t id = hg_registry_id(name);

    return hg_registry_put(registry, id, name, types, rpc, true) == HG_SUCCESS
        ? id
        : 0;
}

HG_PRIVATE bool hg_registry_has_handler(struct hg_registry *registry,
    hg_id_t id, const char *name, const char *types)
{
    const struct hg_registry_version *now =
        hg_registry_current(hg_registry_look(registry, id));

    if (now == NULL || now->rpc.callback == NULL || now->rpc.fingerprint != 0)
        return false;
    hg_registry_compare(now, name, types, true);
    return true;
}

HG_PRIVATE HG_HOT const struct hg_rpc *hg_registry_find(
    struct hg_registry *registry, hg_id_t id)
{
    return hg_registry_now(hg_registry_look(registry, id));
}

HG_PRIVATE const struct hg_rpc *hg_registry_next(
    struct hg_registry *registry, const struct hg_rpc *before)
{
    struct hg_registry_entry *entry = before != NULL ? before->entry : NULL;
    unsigned i = 0;

    if (entry != NULL) {
        i = (unsigned) (entry->id & (HG_REGISTRY_BUCKETS - 1)) + 1;
        entry = entry->next;
    }
    for (;;) {
        for (; entry != NULL; entry = entry->next) {
            const struct hg_rpc *now = hg_registry_now(entry);

            if (now != NULL)
                return now;
        }
        if (i == HG_REGISTRY_BUCKETS)
            return NULL;
        entry =
            atomic_load_explicit(&registry->buckets[i++], memory_order_acquire);
    }
}

HG_PRIVATE hg_return_t hg_registry_remove(
    struct hg_registry *registry, hg_id_t id)
{
    struct hg_registry_entry *entry = hg_registry_look(registry, id);

    if (entry == NULL || atomic_exchange(&entry->now, NULL) == NULL)
        return HG_NOENTRY;
    atomic_store(&entry->one_way, false);
    hg_registry_free_data(registry, entry);
    return HG_SUCCESS;
}
