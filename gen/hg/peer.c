/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: addresses of the callback model.
 *
 * An address is one of NA, on the class's NA class; what counts references is
 * there. Here arguments are checked as Mercury's users expect it, and the end
 * of a lookup becomes a callback of theirs. A lookup is counted in its context,
 * which does not end while one is under way.
 *
 * Nothing above includes this room: it has no header.
 *
 * Locking: none of its own; the count is an atomic.
 */
#include "base/log.h"
#include "base/mem.h"
#include "hg/check.h"
#include "hg/context.h"
#include "na/addr.h"
#include "na/lookup.h"

/* A lookup under way. */
struct hg_peer_lookup {
    struct hg_context *context;
    hg_cb_t callback;
    void *arg;
};

/* Whether the class is one and has the address. */
static hg_return_t hg_peer_check(const hg_class_t *hg_class,
    const struct na_addr *addr, const char *function)
{
    hg_return_t ret = hg_check_class(hg_class, function);

    return ret == HG_SUCCESS ? na_addr_check(hg_class->na_class, addr, function)
                             : ret;
}

/* ---- Lookups ---- */

/* Mercury's code of a lookup. A string that the class cannot read is HG_NODEV
 * if it names a protocol, else HG_INVALID_ARG. */
static hg_return_t hg_peer_lookup_code(hg_return_t ret, const char *name)
{
    assert(name != NULL);
    if (ret != HG_PROTONOSUPPORT && ret != HG_INVALID_ARG)
        return ret;
    return strstr(name, "://") != NULL ? HG_NODEV : HG_INVALID_ARG;
}

static void hg_peer_end_lookup(struct hg_peer_lookup *lookup)
{
    uint32_t before = atomic_fetch_sub(&lookup->context->lookups, 1);

    assert(before > 0);
    (void) before;
    hg_mem_free(lookup);
}

/* From the queue: the address is the application's. */
static na_return_t hg_peer_found(const struct na_cb_info *na_info)
{
    struct hg_peer_lookup *lookup = (struct hg_peer_lookup *) na_info->arg;
    struct hg_cb_info info;

    assert(na_info->type == NA_CB_LOOKUP && lookup->callback != NULL);
    memset(&info, 0, sizeof(info));
    info.arg = lookup->arg;
    info.type = HG_CB_LOOKUP;
    info.ret = na_info->ret;
    if (na_info->ret == NA_SUCCESS)
        info.info.lookup.addr = na_info->info.lookup.addr;
    (void) lookup->callback(&info);
    hg_peer_end_lookup(lookup);
    return NA_SUCCESS;
}

hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback, void *arg,
    const char *name, hg_op_id_t *op_id_p)
{
    struct hg_peer_lookup *lookup;
    hg_return_t ret;

    (void) op_id_p;
    ret = hg_check_context(context, "HG_Addr_lookup");
    if (ret != HG_SUCCESS)
        return ret;
    if (name == NULL)
        return hg_log_misuse("addr", "HG_Addr_lookup", "the name is NULL");
    if (callback == NULL) /* the transport knows the peer then: that is all */
        return hg_peer_lookup_code(
            na_lookup_start(context->na_context, NA_LANE_DONE, NULL, NULL, name,
                NA_OP_ID_IGNORE),
            name);
    lookup = (struct hg_peer_lookup *) hg_mem_calloc(1, sizeof(*lookup));
    if (lookup == NULL) {
        hg_log_error("addr", "no memory for the lookup of '%s'", name);
        return HG_NOMEM;
    }
    lookup->context = context;
    lookup->callback = callback;
    lookup->arg = arg;
    atomic_fetch_add(&context->lookups, 1);
    ret = na_lookup_start(context->na_context, NA_LANE_DONE, hg_peer_found,
        lookup, name, NA_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        hg_peer_end_lookup(lookup);
    return hg_peer_lookup_code(ret, name);
}

hg_return_t HG_Addr_lookup2(
    hg_class_t *hg_class, const char *name, hg_addr_t *addr_p)
{
    struct na_addr *addr = NULL;
    hg_return_t ret = hg_check_class(hg_class, "HG_Addr_lookup");

    if (ret != HG_SUCCESS)
        return ret;
    if (name == NULL || addr_p == NULL)
        return hg_log_misuse("addr", "HG_Addr_lookup", "an argument is NULL");
    ret = na_lookup_resolve(hg_class->na_class, name, NA_FALSE, &addr);
    if (ret != HG_SUCCESS)
        return hg_peer_lookup_code(ret, name);
    na_addr_give(addr);
    *addr_p = addr;
    return HG_SUCCESS;
}

/* ---- References ---- */

hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Addr_free");

    if (ret != HG_SUCCESS)
        return ret;
    return addr != HG_ADDR_NULL
        ? na_addr_take_back(hg_class->na_class, addr, "HG_Addr_free")
        : HG_SUCCESS;
}

hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr)
{
    hg_return_t ret = hg_peer_check(hg_class, addr, "HG_Addr_set_remove");

    if (ret == HG_SUCCESS)
        na_addr_abandon(addr);
    return ret;
}

hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Addr_self");

    return ret == HG_SUCCESS ? na_addr_hand_out(hg_class->na_class->self_addr,
                                   addr_p, "HG_Addr_self")
                             : ret;
}

hg_return_t HG_Addr_dup(
    hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p)
{
    hg_return_t ret = hg_peer_check(hg_class, addr, "HG_Addr_dup");

    return ret == HG_SUCCESS ? na_addr_hand_out(addr, new_addr_p, "HG_Addr_dup")
                             : ret;
}

/* ---- What is known of it ---- */

uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1, hg_addr_t addr2)
{
    if (hg_check_class(hg_class, "HG_Addr_cmp") != HG_SUCCESS)
        return HG_FALSE;
    if (addr1 == HG_ADDR_NULL || addr2 == HG_ADDR_NULL)
        return addr1 == addr2 ? HG_TRUE : HG_FALSE;
    if (hg_peer_check(hg_class, addr1, "HG_Addr_cmp") != HG_SUCCESS ||
        hg_peer_check(hg_class, addr2, "HG_Addr_cmp") != HG_SUCCESS)
        return HG_FALSE;
    return NA_Addr_cmp(hg_class->na_class, addr1, addr2) ? HG_TRUE : HG_FALSE;
}

hg_return_t HG_Addr_to_string(
    hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p, hg_addr_t addr)
{
    hg_return_t ret = hg_peer_check(hg_class, addr, "HG_Addr_to_string");
    hg_size_t size;

    if (ret != HG_SUCCESS)
        return ret;
    if (buf_size_p == NULL)
        return hg_log_misuse("addr", "HG_Addr_to_string", "buf_size_p is NULL");
    size = *buf_size_p;
    *buf_size_p = NA_Addr_get_serialize_size(hg_class->na_class, addr);
    if (buf == NULL)
        return HG_SUCCESS;
    ret =
        na_addr_write(hg_class->na_class, buf, size, addr, "HG_Addr_to_string");
    return ret == HG_MSGSIZE ? HG_OVERFLOW : ret;
}
