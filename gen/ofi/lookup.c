/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups: from an address string to an address, and to one that is ready.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* Find the address of a name, with a reference, or NULL. The class's lock is
 * held. */
static struct na_ofi_addr *na_ofi_known(
    struct na_ofi_class *self, const char *name)
{
    struct na_link *link;

    for (link = self->named.next; link != &self->named; link = link->next) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, named);

        if (strcmp(addr->base.name, name) == 0 &&
            self->base.core->addr_try_ref(&addr->base))
            return addr;
    }
    return NULL;
}

/* The slot: find an address, or create an idle one. */
static na_return_t na_ofi_addr_resolve(struct na_class *na_class,
    const char *string, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct na_ofi_class *self = na_ofi_of(na_class);
    const struct na_core *core = self->base.core;
    const char *rest = NULL;
    unsigned char raw[NA_OFI_RAW_MAX];
    char name[NA_MAX_ADDR_LEN];
    struct na_ofi_addr *fresh;
    struct na_ofi_addr *addr;
    size_t size = 0;
    na_return_t ret;

    memset(raw, 0, sizeof(raw));
    ret = na_ofi_rest_of(self, string, from_peer, &rest);
    if (ret == NA_SUCCESS)
        ret = na_ofi_raw_of(self, rest, from_peer, raw, &size);
    if (ret != NA_SUCCESS)
        return ret;
    if (size > 0)
        na_ofi_name_of(self, raw, size, name);
    else if (snprintf(name, sizeof(name), "ofi+%s://%s", self->base.protocol,
                 rest) >= (int) sizeof(name))
        return na_ofi_bad_name(self, from_peer, rest, "too long");
    if (strcmp(name, self->base.self_addr->name) == 0) {
        core->addr_ref(self->base.self_addr);
        *addr_p = self->base.self_addr;
        return NA_SUCCESS;
    }
    fresh = na_ofi_addr_new(self, name, NA_FALSE);
    if (fresh == NULL)
        return NA_NOMEM;
    memcpy(fresh->raw, raw, sizeof(raw));
    fresh->has_host = size == 0;
    if (size > 0 && na_ofi_is_inet(self))
        fresh->other = size != self->ends[0]->raw_size;
    na_ofi_lock(&self->lock);
    addr = na_ofi_known(self, name);
    if (addr == NULL) {
        addr = fresh;
        fresh = NULL;
        na_plug_list_push(&self->named, &addr->named);
    }
    if (!from_peer)
        addr->looked_up = true;
    na_ofi_unlock(&self->lock);
    if (fresh != NULL)
        core->addr_unref(&fresh->base);
    *addr_p = &addr->base;
    return NA_SUCCESS;
}

/* The slot: a receive waits for messages of the address. */
static na_bool_t na_ofi_addr_connect(struct na_addr *base)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_addr *addr = na_ofi_addr_of(base);
    bool asked;

    na_ofi_lock(&self->lock);
    if (atomic_load(&addr->state) == NA_OFI_IDLE) {
        (void) na_ofi_connect(self, addr);
        addr->receives = true;
    }
    asked = atomic_load(&addr->state) == NA_OFI_ASKED;
    na_ofi_unlock(&self->lock);
    return asked ? NA_TRUE : NA_FALSE;
}

/* The slot: resolve, then connect to the peer. */
static na_return_t na_ofi_addr_lookup(struct na_op *op)
{
    struct na_ofi_class *self = na_ofi_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    struct na_addr *base = NULL;
    struct na_ofi_addr *addr;
    na_return_t ret =
        na_ofi_addr_resolve(&self->base, op->name, NA_FALSE, &base);

    if (ret != NA_SUCCESS)
        return ret;
    addr = na_ofi_addr_of(base);
    na_ofi_lock(&self->lock);
    ret = na_ofi_connect(self, addr);
    if (ret == NA_AGAIN)
        na_plug_list_push(&addr->lookups, &op->link);
    na_ofi_unlock(&self->lock);
    if (ret == NA_SUCCESS) {
        op->result_addr = base;
        core->complete(op, NA_SUCCESS);
        return NA_SUCCESS;
    }
    core->addr_unref(base); /* while it connects, the class holds another */
    if (ret != NA_AGAIN)
        core->complete(op, ret);
    return NA_SUCCESS;
}
