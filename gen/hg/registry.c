/* SPDX-License-Identifier: BSD-3-Clause */
/* registry: see registry.h. */
#include "hg/registry.h"

#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

/* One way in which an id is, or was, registered. */
struct hg_registry_version {
    struct hg_registry_version *next; /* older */
    struct hg_rpc rpc;
    char name[]; /* behind its NUL the types, if there is a fingerprint */
};

/* An id that is, or was. */
struct hg_registry_entry {
    struct hg_registry_entry *next; /* of the bucket, older */
    hg_id_t id;
    _Atomic(const struct hg_registry_version *) now; /* NULL: forgotten */
    struct hg_registry_version *versions;            /* the registry's lock */
    struct hg_registry_more *more;
};

HG_PRIVATE hg_return_t hg_registry_init(struct hg_registry *registry)
{
    unsigned i;

    registry->timed = false;
    for (i = 0; i < HG_REGISTRY_BUCKETS; i++)
        atomic_init(&registry->buckets[i], NULL);
    return hg_lock_init(&registry->lock);
}

/* Call back for an id's data, which is forgotten; without the lock. */
static void hg_registry_free_data(void *data, void (*free_data)(void *data))
{
    if (data != NULL && free_data != NULL)
        free_data(data);
}

static void hg_registry_free_more(struct hg_registry_more *more)
{
    if (more != NULL)
        hg_mem_free(more->times);
    hg_mem_free(more);
}

/* NULL: no memory. */
static struct hg_registry_more *hg_registry_new_more(
    const struct hg_registry *registry)
{
    struct hg_registry_more *more =
        (struct hg_registry_more *) hg_mem_calloc(1, sizeof(*more));

    if (more == NULL || !registry->timed)
        return more;
    more->times =
        (struct hg_histogram_live *) hg_mem_calloc(2, sizeof(more->times[0]));
    if (more->times != NULL)
        return more;
    hg_mem_free(more);
    return NULL;
}

static void hg_registry_free_entry(struct hg_registry_entry *entry)
{
    struct hg_registry_version *version;

    while ((version = entry->versions) != NULL) {
        entry->versions = version->next;
        hg_mem_free(version);
    }
    hg_registry_free_more(entry->more);
    hg_mem_free(entry);
}

/* NULL: no memory. */
static struct hg_registry_entry *hg_registry_new_entry(
    const struct hg_registry *registry, hg_id_t id)
{
    struct hg_registry_entry *entry =
        (struct hg_registry_entry *) hg_mem_calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->id = id;
    entry->more = hg_registry_new_more(registry);
    if (entry->more != NULL)
        return entry;
    hg_mem_free(entry);
    return NULL;
}

HG_PRIVATE void hg_registry_fini(struct hg_registry *registry)
{
    unsigned i;

    for (i = 0; i < HG_REGISTRY_BUCKETS; i++) {
        struct hg_registry_entry *entry = atomic_load(&registry->buckets[i]);

        while (entry != NULL) {
            struct hg_registry_entry *next = entry->next;

            hg_registry_free_data(entry->more->data, entry->more->free_data);
            hg_registry_free_entry(entry);
            entry = next;
        }
    }
    pthread_mutex_destroy(&registry->lock);
}

/* Never 0, which stands for types that are not known. */
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

/* The entry of an id, forgotten or not; NULL. */
static struct hg_registry_entry *hg_registry_look(
    struct hg_registry *registry, hg_id_t id)
{
    struct hg_registry_entry *entry = atomic_load_explicit(
        hg_registry_bucket(registry, id), memory_order_acquire);

    while (entry != NULL && entry->id != id)
        entry = entry->next;
    return entry;
}

/* The function registered in the entry, or NULL. */
static const struct hg_rpc *hg_registry_now(struct hg_registry_entry *entry)
{
    const struct hg_registry_version *now = entry != NULL
        ? atomic_load_explicit(&entry->now, memory_order_acquire)
        : NULL;

    return now != NULL ? &now->rpc : NULL;
}

/* Two texts, each of which may be NULL. */
static bool hg_registry_is_same_text(const char *one, const char *two)
{
    return one == NULL || two == NULL ? one == two : strcmp(one, two) == 0;
}

HG_PRIVATE const char *hg_registry_types(const struct hg_rpc *rpc)
{
    assert(rpc->fingerprint == 0 || rpc->name != NULL);
    return rpc->fingerprint != 0 ? rpc->name + strlen(rpc->name) + 1 : NULL;
}

static bool hg_registry_is_same(const struct hg_rpc *before,
    const struct hg_rpc *now, const char *name, const char *types)
{
    return now->in_proc == before->in_proc &&
        now->out_proc == before->out_proc &&
        now->callback == before->callback &&
        hg_registry_is_same_text(before->name, name) &&
        hg_registry_is_same_text(hg_registry_types(before), types);
}

/* The version of an entry that is so: the one there was, or a new one. The lock
 * is held. NULL: no memory. */
static const struct hg_registry_version *hg_registry_version(
    struct hg_registry_entry *entry, const char *name, const char *types,
    const struct hg_rpc *rpc)
{
    size_t name_size = name != NULL ? strlen(name) + 1 : 0;
    size_t types_size = types != NULL ? strlen(types) + 1 : 0;
    struct hg_registry_version *version = entry->versions;

    assert(types == NULL || name != NULL);
    while (version != NULL &&
        !hg_registry_is_same(&version->rpc, rpc, name, types))
        version = version->next;
    if (version != NULL)
        return version;
    version = (struct hg_registry_version *) hg_mem_alloc(
        sizeof(*version) + name_size + types_size);
    if (version == NULL)
        return NULL;
    version->rpc = *rpc;
    version->rpc.id = entry->id;
    version->rpc.more = entry->more;
    version->rpc.name = name != NULL ? version->name : NULL;
    version->rpc.fingerprint =
        types != NULL ? hg_registry_fingerprint(types) : 0;
    if (name != NULL)
        memcpy(version->name, name, name_size);
    if (types != NULL)
        memcpy(version->name + name_size, types, types_size);
    version->next = entry->versions;
    entry->versions = version;
    return version;
}

/* Make it what is registered. The lock is held. HG_NOMEM (logged). */
static hg_return_t hg_registry_insert(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc)
{
    _Atomic(struct hg_registry_entry *) *bucket =
        hg_registry_bucket(registry, id);
    struct hg_registry_entry *before = hg_registry_look(registry, id);
    struct hg_registry_entry *entry =
        before != NULL ? before : hg_registry_new_entry(registry, id);
    const struct hg_registry_version *version =
        entry != NULL ? hg_registry_version(entry, name, types, rpc) : NULL;

    if (version == NULL) {
        hg_log_error("rpc", "no memory to register '%s' (%016" PRIx64 ")",
            name != NULL ? name : "", id);
        if (entry != NULL && before == NULL)
            hg_registry_free_entry(entry);
        return HG_NOMEM;
    }
    atomic_store_explicit(&entry->now, version, memory_order_release);
    if (before != NULL)
        return HG_SUCCESS;
    entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, entry, memory_order_release);
    return HG_SUCCESS;
}

/* Whether `name` may stand for an id that is registered already. The lock is
 * held. HG_EXIST (logged). */
static hg_return_t hg_registry_check_name(
    const struct hg_rpc *before, const char *name)
{
    if (before == NULL || before->name == NULL || name == NULL ||
        strcmp(before->name, name) == 0)
        return HG_SUCCESS;
    hg_log_error(
        "rpc", "'%s' has the same id as '%s': rename one", name, before->name);
    return HG_EXIST;
}

/* Whether the types are those that are registered already, as far as both are
 * known: calls of either definition would use the procs of the other. The lock
 * is held. HG_EXIST (logged). */
static hg_return_t hg_registry_check_types(
    const struct hg_rpc *before, const char *name, const char *types)
{
    const char *other = before != NULL ? hg_registry_types(before) : NULL;

    if (other == NULL || types == NULL || strcmp(other, types) == 0)
        return HG_SUCCESS;
    hg_log_error("rpc",
        "'%s' with the types %s is registered here with other types already: "
        "%s",
        name, types, other);
    return HG_EXIST;
}

/* Whether the library serves a name itself: then nobody else does. HG_EXIST
 * (logged). */
static hg_return_t hg_registry_check_own(
    const char *name, const struct hg_rpc *rpc)
{
    if (name == NULL || rpc->callback == NULL ||
        strncmp(name, HG_BUILTIN_PREFIX, strlen(HG_BUILTIN_PREFIX)) != 0)
        return HG_SUCCESS;
    hg_log_error("rpc",
        "'%s': names that begin with " HG_BUILTIN_PREFIX
        " are served by the library itself",
        name);
    return HG_EXIST;
}

/* The lock is held. */
static hg_return_t hg_registry_set(struct hg_registry *registry, hg_id_t id,
    const char *name, const char *types, const struct hg_rpc *rpc,
    bool keep_callback)
{
    const struct hg_rpc *before =
        hg_registry_now(hg_registry_look(registry, id));
    hg_return_t ret = hg_registry_check_name(before, name);
    struct hg_rpc now = *rpc;

    if (ret == HG_SUCCESS)
        ret = hg_registry_check_types(before, name, types);
    if (ret == HG_SUCCESS)
        ret = hg_registry_check_own(name, rpc);
    if (ret != HG_SUCCESS)
        return ret;
    if (before != NULL && now.callback == NULL && keep_callback)
        now.callback = before->callback;
    return hg_registry_insert(registry, id, name, types, &now);
}

HG_PRIVATE hg_id_t hg_registry_add(
    struct hg_registry *registry, const char *name, const struct hg_rpc *rpc)
{
    return hg_registry_add_typed(registry, name, NULL, rpc);
}

HG_PRIVATE hg_id_t hg_registry_add_typed(struct hg_registry *registry,
    const char *name, const char *types, const struct hg_rpc *rpc)
{
    hg_id_t id = hg_registry_id(name);
    hg_return_t ret;

    hg_lock(&registry->lock);
    ret = hg_registry_set(registry, id, name, types, rpc, true);
    hg_unlock(&registry->lock);
    return ret == HG_SUCCESS ? id : 0;
}

HG_PRIVATE hg_return_t hg_registry_put(struct hg_registry *registry, hg_id_t id,
    const char *name, const struct hg_rpc *rpc)
{
    hg_return_t ret;

    hg_lock(&registry->lock);
    ret = hg_registry_set(registry, id, name, NULL, rpc, false);
    hg_unlock(&registry->lock);
    return ret;
}

HG_PRIVATE HG_HOT hg_return_t hg_registry_find(
    struct hg_registry *registry, hg_id_t id, struct hg_rpc *rpc_p)
{
    const struct hg_rpc *now = hg_registry_now(hg_registry_look(registry, id));

    if (now == NULL)
        return HG_NOENTRY;
    *rpc_p = *now;
    return HG_SUCCESS;
}

HG_PRIVATE void hg_registry_walk(struct hg_registry *registry,
    bool (*see)(const struct hg_rpc *rpc, void *arg), void *arg)
{
    unsigned i;

    for (i = 0; i < HG_REGISTRY_BUCKETS; i++) {
        struct hg_registry_entry *entry =
            atomic_load_explicit(&registry->buckets[i], memory_order_acquire);

        for (; entry != NULL; entry = entry->next) {
            const struct hg_rpc *now = hg_registry_now(entry);

            if (now != NULL && !see(now, arg))
                return;
        }
    }
}

/* ---- What an id has besides ---- */

/* Exchange an id's data; the lock is held. */
static void hg_registry_swap_data(
    struct hg_registry_more *more, void **data, void (**free_data)(void *data))
{
    void *data_before = more->data;
    void (*free_before)(void *data) = more->free_data;

    more->data = *data;
    more->free_data = *free_data;
    *data = data_before;
    *free_data = free_before;
}

HG_PRIVATE hg_return_t hg_registry_remove(
    struct hg_registry *registry, hg_id_t id)
{
    void (*free_data)(void *data) = NULL;
    struct hg_registry_entry *entry;
    hg_return_t ret = HG_NOENTRY;
    void *data = NULL;

    hg_lock(&registry->lock);
    entry = hg_registry_look(registry, id);
    if (hg_registry_now(entry) != NULL) {
        ret = HG_SUCCESS;
        atomic_store(&entry->now, NULL);
        hg_registry_swap_data(entry->more, &data, &free_data);
        atomic_store(&entry->more->one_way, false);
    }
    hg_unlock(&registry->lock);
    hg_registry_free_data(data, free_data);
    return ret;
}

HG_PRIVATE hg_return_t hg_registry_set_data(struct hg_registry *registry,
    hg_id_t id, void *data, void (*free_data)(void *data))
{
    const struct hg_rpc *now;

    hg_lock(&registry->lock);
    now = hg_registry_now(hg_registry_look(registry, id));
    if (now != NULL)
        hg_registry_swap_data(now->more, &data, &free_data);
    hg_unlock(&registry->lock);
    return now != NULL ? HG_SUCCESS : HG_NOENTRY;
}

HG_PRIVATE void *hg_registry_get_data(struct hg_registry *registry, hg_id_t id)
{
    const struct hg_rpc *now;
    void *data = NULL;

    hg_lock(&registry->lock);
    now = hg_registry_now(hg_registry_look(registry, id));
    if (now != NULL)
        data = now->more->data;
    hg_unlock(&registry->lock);
    return data;
}
