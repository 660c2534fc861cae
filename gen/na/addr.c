/* SPDX-License-Identifier: BSD-3-Clause */
/* addr: see addr.h. */
#include "na/addr.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/live.h"

HG_PRIVATE struct na_addr *na_addr_create(
    struct na_class *na_class, const char *name, na_bool_t self)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_addr_core *addr = (struct na_addr_core *) na_core_alloc(
        offsetof(struct na_addr_core, pub), sizeof(struct na_addr),
        core->ops.addr_size);
    char *copy = name != NULL ? hg_mem_strdup(name) : NULL;

    if (addr == NULL || (name != NULL && copy == NULL))
        goto no_memory;
    addr->pub.name = copy;
    addr->window = UINT64_MAX;
    hg_list_init(&addr->emul.parked);
    atomic_init(&addr->refs, 1);
    atomic_init(&addr->given, 0);
    atomic_init(&addr->dead, NA_SUCCESS);
    addr->named = NA_ADDR_NOT_NAMED;
    addr->pub.na_class = na_class;
    addr->pub.self = self;
    hg_lock(&core->list_lock);
    hg_list_push(&core->addrs, &addr->link);
    hg_unlock(&core->list_lock);
    return &addr->pub;

no_memory:
    hg_mem_free(copy);
    hg_mem_free(addr);
    hg_log_error("addr", "no memory for the address %s",
        name != NULL ? name : "of a new peer");
    return NULL;
}

HG_PRIVATE na_return_t na_addr_set_name(struct na_addr *addr, const char *name)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    char *copy = hg_mem_strdup(name);

    if (copy == NULL) {
        hg_log_error("addr", "no memory for the name %s", name);
        return NA_NOMEM;
    }
    hg_lock(&core->list_lock);
    if (addr->name == NULL) {
        addr->name = copy;
        copy = NULL;
    }
    hg_unlock(&core->list_lock);
    hg_mem_free(copy); /* it already had one, which stays */
    return NA_SUCCESS;
}

/* Write what users call an address, truncated to `size`. Returns its length.
 * The list_lock is held. */
static size_t na_addr_user_name(
    const struct na_addr_core *addr, char *buf, size_t size)
{
    const struct na_class_core *core = na_class_core_of(addr->pub.na_class);
    int n;

    if (addr->label != NULL)
        n = snprintf(buf, size, "%s", addr->label);
    else if (addr->pub.name != NULL)
        n = snprintf(buf, size, "%s%s", core->prefix, addr->pub.name);
    else
        n = snprintf(buf, size, "%s+%s://peer-%p", core->ops.name,
            core->pub.protocol, (const void *) &addr->pub);
    return n < 0 ? 0 : (size_t) n;
}

HG_PRIVATE size_t na_addr_print(
    const struct na_addr *addr, char *buf, size_t size)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    size_t length;

    hg_lock(&core->list_lock);
    length = na_addr_user_name(na_addr_core_of(addr), buf, size);
    hg_unlock(&core->list_lock);
    return length;
}

HG_PRIVATE bool na_addr_is_called(const struct na_addr *addr, const char *name)
{
    char spoken[NA_MAX_ADDR_LEN];

    (void) na_addr_print(addr, spoken, sizeof(spoken));
    return strcmp(spoken, name) == 0;
}

HG_PRIVATE na_return_t na_addr_set_label(
    struct na_addr *addr, const char *label)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    char *copy = NULL;

    if (na_addr_is_called(addr, label))
        return NA_SUCCESS;
    copy = hg_mem_strdup(label);
    if (copy == NULL) {
        hg_log_error("addr", "no memory for the name %s", label);
        return NA_NOMEM;
    }
    hg_lock(&core->list_lock);
    if (na_addr_core_of(addr)->label == NULL) {
        na_addr_core_of(addr)->label = copy;
        copy = NULL;
    }
    hg_unlock(&core->list_lock);
    hg_mem_free(copy);
    return NA_SUCCESS;
}

HG_PRIVATE void na_addr_ref(struct na_addr *addr)
{
    uint32_t before = atomic_fetch_add_explicit(
        &na_addr_core_of(addr)->refs, 1, memory_order_relaxed);

    HG_ASSERT(before > 0);
    (void) before;
}

HG_PRIVATE na_bool_t na_addr_try_ref(struct na_addr *addr)
{
    _Atomic uint32_t *refs = &na_addr_core_of(addr)->refs;
    uint32_t before = atomic_load_explicit(refs, memory_order_relaxed);

    while (before > 0) {
        if (atomic_compare_exchange_weak(refs, &before, before + 1))
            return NA_TRUE;
    }
    return NA_FALSE;
}

/* Unlink the address, release it in the transport, and free it. The lock may be
 * held: see na_addr_drop. */
static void na_addr_destroy(struct na_addr *addr)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    struct na_addr_core *addr_core = na_addr_core_of(addr);

    HG_ASSERT(
        addr_core->queued_bytes == 0); /* each message holds a reference */
    hg_lock(&core->list_lock);
    hg_list_remove(&addr_core->link);
    hg_unlock(&core->list_lock);
    core->ops.addr_release(addr);
    hg_mem_free((void *) (uintptr_t) addr->name);
    hg_mem_free(addr_core->label);
    hg_mem_free(addr_core);
}

/* Whether the reference that is released is the last one. */
static bool na_addr_is_last(struct na_addr *addr)
{
    uint32_t before = atomic_fetch_sub_explicit(
        &na_addr_core_of(addr)->refs, 1, memory_order_acq_rel);

    HG_ASSERT(before > 0);
    return before == 1;
}

HG_PRIVATE void na_addr_unref_locked(struct na_addr *addr)
{
    HG_ASSERT(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (na_addr_is_last(addr))
        na_addr_destroy(addr);
}

HG_PRIVATE void na_addr_unref(struct na_addr *addr)
{
    struct hg_monitor *lock = na_class_core_of(addr->na_class)->lock;

    if (!na_addr_is_last(addr))
        return;
    hg_enter(lock);
    na_addr_destroy(addr);
    hg_leave(lock);
}

HG_PRIVATE void na_addr_drop(struct na_addr *addr)
{
    if (na_addr_is_last(addr))
        na_addr_destroy(addr);
}

HG_PRIVATE void na_addr_set_named(struct na_addr *addr, na_bool_t from_peer)
{
    enum na_addr_named *named = &na_addr_core_of(addr)->named;

    HG_ASSERT(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (!from_peer) {
        *named = NA_ADDR_LOOKED_UP;
        addr->stranger = NA_FALSE;
    } else if (*named == NA_ADDR_NOT_NAMED && !addr->self &&
        !addr->na_class->listen) {
        *named = NA_ADDR_NAMED_BY_PEER;
        addr->stranger = NA_TRUE;
    }
}

HG_PRIVATE void na_addr_give(struct na_addr *addr)
{
    atomic_fetch_add_explicit(
        &na_addr_core_of(addr)->given, 1, memory_order_relaxed);
}

HG_PRIVATE bool na_addr_mark_dead(struct na_addr *addr, na_return_t ret)
{
    int alive = NA_SUCCESS;

    HG_ASSERT(ret != NA_SUCCESS);
    return atomic_compare_exchange_strong(
        &na_addr_core_of(addr)->dead, &alive, ret);
}

HG_PRIVATE na_return_t na_addr_state(const struct na_addr *addr)
{
    return atomic_load_explicit(
        &na_addr_core_of(addr)->dead, memory_order_acquire);
}

HG_PRIVATE na_bool_t na_addr_is_dead(const struct na_addr *addr)
{
    return na_addr_state(addr) != NA_SUCCESS ? NA_TRUE : NA_FALSE;
}

HG_PRIVATE na_return_t na_addr_check_alive(
    const struct na_addr *addr, const char *function)
{
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret = na_addr_state(addr);

    if (HG_UNLIKELY(ret != NA_SUCCESS)) {
        (void) na_addr_print(addr, name, sizeof(name));
        hg_log_warning("addr", "%s: the peer %s is dead: %s", function, name,
            NA_Error_to_string(ret));
    }
    return ret;
}

HG_PRIVATE void na_addr_abandon(struct na_addr *addr)
{
    HG_ASSERT(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (!addr->self && !na_addr_is_dead(addr))
        na_class_ops(addr->na_class)->addr_abandon(addr);
}

/* Calls the slot addr_cmp. Both addresses belong to one class. */
static bool na_addr_is_proven(
    const struct na_addr *addr1, const struct na_addr *addr2)
{
    if (addr1->na_class != addr2->na_class)
        return addr1->self && addr2->self;
    return na_class_ops(addr1->na_class)->addr_cmp(addr1, addr2) != NA_FALSE;
}

HG_PRIVATE bool na_addr_is_known(const struct na_addr *addr)
{
    return na_addr_is_proven(addr, addr);
}

HG_PRIVATE bool na_addr_same(
    const struct na_addr *addr1, const struct na_addr *addr2)
{
    return addr1 == addr2 || na_addr_is_proven(addr1, addr2);
}

HG_PRIVATE bool na_addr_is_from(
    const struct na_addr *peer, const struct na_addr *source)
{
    return peer == source ||
        (!na_addr_is_dead(source) && na_addr_same(peer, source));
}

HG_PRIVATE na_return_t na_addr_check(const struct na_class *na_class,
    const struct na_addr *addr, const char *function)
{
    na_return_t ret = na_live_check(na_class, function);

    if (ret != NA_SUCCESS)
        return ret;
    if (addr != NULL && na_addr_class(addr) == na_class)
        return NA_SUCCESS;
    return hg_log_misuse("addr", function,
        addr == NULL ? "the address is NULL"
                     : "the address is of another class");
}

HG_PRIVATE void na_addr_write_reachable(
    const struct na_class *na_class, char name[NA_MAX_ADDR_LEN])
{
    const struct na_class_core *part = na_class_core_of(na_class);
    size_t size = 0;

    if (na_class->listen)
        part = NULL;
    (void) snprintf(name, NA_MAX_ADDR_LEN, "%s", na_class->self_addr->name);
    for (; part != NULL; part = part->next) {
        size += (size_t) snprintf(name + size, NA_MAX_ADDR_LEN - size, "%s%s",
            size > 0 ? ";" : "", part->pub.self_addr->name);
        if (!part->pub.finds_callers || size >= NA_MAX_ADDR_LEN) {
            name[0] = '\0';
            return;
        }
    }
}

HG_PRIVATE na_return_t na_addr_expose(struct na_class *na_class)
{
    struct na_class_core *part = na_class_core_of(na_class);
    na_return_t ret = NA_SUCCESS;

    HG_ASSERT(hg_is_inside(part->lock));
    if (na_class->listen)
        return NA_SUCCESS;
    for (; part != NULL && ret == NA_SUCCESS; part = part->next)
        ret = part->ops.addr_expose(&part->pub);
    return ret;
}

HG_PRIVATE unsigned na_addr_count_given(
    struct na_class *na_class, char *first, size_t size)
{
    struct na_class_core *part = na_class_core_of(na_class);
    const struct na_link *link;
    unsigned count = 0;

    for (; part != NULL; part = part->next) {
        hg_lock(&part->list_lock);
        for (link = part->addrs.next; link != &part->addrs; link = link->next) {
            const struct na_addr_core *addr =
                HG_CONTAINER_OF(link, struct na_addr_core, link);

            if (atomic_load(&addr->given) > 0 && count++ == 0)
                (void) snprintf(first, size, "%s",
                    addr->pub.name != NULL ? addr->pub.name : "a peer");
        }
        hg_unlock(&part->list_lock);
    }
    return count;
}

HG_PRIVATE unsigned na_addr_release_all(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned n = 0;

    hg_enter(core->lock);
    for (;;) {
        struct na_link *link;

        hg_lock(&core->list_lock);
        link = core->addrs.next;
        hg_unlock(&core->list_lock);
        if (link == &core->addrs)
            break;
        na_addr_destroy(&HG_CONTAINER_OF(link, struct na_addr_core, link)->pub);
        n++;
    }
    hg_leave(core->lock);
    return n;
}

HG_PRIVATE na_return_t na_addr_take_back(
    na_class_t *na_class, na_addr_t addr, const char *function)
{
    struct na_class_core *core;
    na_return_t ret = na_addr_check(na_class, addr, function);
    _Atomic uint32_t *given;

    if (ret != NA_SUCCESS)
        return ret;
    core = na_class_core_of(na_class);
    given = &na_addr_core_of(addr)->given;
    if (atomic_fetch_sub(given, 1) == 0) {
        (void) atomic_fetch_add(given, 1);
        return hg_log_misuse(
            "addr", function, "it was freed more often than it was returned");
    }
    if (na_addr_is_dead(addr)) {
        hg_enter(core->lock);
        if (na_addr_core_of(addr)->queued_bytes > 0) {
            core->inbox.has_dead = true; /* see na_msg_is_orphan */
            na_core_retry(core);
        }
        hg_leave(core->lock);
    }
    na_addr_unref(addr);
    return NA_SUCCESS;
}

NA_EXPORT na_return_t NA_Addr_free(na_class_t *na_class, na_addr_t addr)
{
    return na_addr_take_back(na_class, addr, "NA_Addr_free");
}

HG_PRIVATE na_return_t na_addr_hand_out(
    struct na_addr *addr, na_addr_t *addr_p, const char *function)
{
    if (addr_p == NULL)
        return hg_log_misuse(
            "addr", function, "the pointer for the address is NULL");
    na_addr_ref(addr);
    na_addr_give(addr);
    *addr_p = addr;
    return NA_SUCCESS;
}

NA_EXPORT na_return_t NA_Addr_self(na_class_t *na_class, na_addr_t *addr)
{
    na_return_t ret = na_live_check(na_class, "NA_Addr_self");

    if (ret != NA_SUCCESS)
        return ret;
    return na_addr_hand_out(na_class->self_addr, addr, "NA_Addr_self");
}

NA_EXPORT na_return_t NA_Addr_dup(
    na_class_t *na_class, na_addr_t addr, na_addr_t *new_addr)
{
    na_return_t ret = na_addr_check(na_class, addr, "NA_Addr_dup");

    if (ret != NA_SUCCESS)
        return ret;
    return na_addr_hand_out(addr, new_addr, "NA_Addr_dup");
}

NA_EXPORT na_bool_t NA_Addr_is_self(na_class_t *na_class, na_addr_t addr)
{
    if (na_addr_check(na_class, addr, "NA_Addr_is_self") != NA_SUCCESS)
        return NA_FALSE;
    return addr->self;
}

NA_EXPORT na_bool_t NA_Addr_cmp(
    na_class_t *na_class, na_addr_t addr1, na_addr_t addr2)
{
    if (na_addr_check(na_class, addr1, "NA_Addr_cmp") != NA_SUCCESS ||
        na_addr_check(na_class, addr2, "NA_Addr_cmp") != NA_SUCCESS)
        return NA_FALSE;
    if (na_addr_same(addr1, addr2))
        return NA_TRUE;
    /* If a peer is not identified yet, names are compared, except those of dead
     * addresses. */
    if (na_addr_is_known(addr1) && na_addr_is_known(addr2))
        return NA_FALSE;
    return addr1->name != NULL && addr2->name != NULL &&
            strcmp(addr1->name, addr2->name) == 0 && !na_addr_is_dead(addr1) &&
            !na_addr_is_dead(addr2)
        ? NA_TRUE
        : NA_FALSE;
}

HG_PRIVATE na_return_t na_addr_write(na_class_t *na_class, char *buf,
    na_size_t buf_size, na_addr_t addr, const char *function)
{
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret = na_addr_check(na_class, addr, function);
    size_t size;

    if (ret != NA_SUCCESS)
        return ret;
    if (buf == NULL)
        return hg_log_misuse("addr", function, "buf is NULL");
    size = na_addr_print(addr, name, sizeof(name));
    if (size >= sizeof(name) || size >= buf_size) {
        hg_log_error("addr", "%s: %zu bytes do not fit into %" PRIu64, function,
            size + 1, buf_size);
        return NA_MSGSIZE;
    }
    memcpy(buf, name, size + 1);
    return NA_SUCCESS;
}

NA_EXPORT na_return_t NA_Addr_to_string(
    na_class_t *na_class, char *buf, na_size_t buf_size, na_addr_t addr)
{
    return na_addr_write(na_class, buf, buf_size, addr, "NA_Addr_to_string");
}

NA_EXPORT na_size_t NA_Addr_get_serialize_size(
    na_class_t *na_class, na_addr_t addr)
{
    char name[NA_MAX_ADDR_LEN];

    if (na_addr_check(na_class, addr, "NA_Addr_get_serialize_size") !=
        NA_SUCCESS)
        return 0;
    return na_addr_print(addr, name, sizeof(name)) + 1;
}

NA_EXPORT na_return_t NA_Addr_serialize(
    na_class_t *na_class, void *buf, na_size_t buf_size, na_addr_t addr)
{
    return na_addr_write(
        na_class, (char *) buf, buf_size, addr, "NA_Addr_serialize");
}
