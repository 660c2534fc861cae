/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other family of internet addresses.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * An endpoint of libfabric has one family. With one at [::] and IPv4 addresses
 * mapped to IPv6, two peers would not agree which of two connections that cross
 * each other is the better one, and rxd would deliver nothing. So a class has
 * one family, that of its own address. If a class does not listen, and names no
 * host, it may open the other family, too, when it connects to such an address:
 * a number, or one of a host name whose earlier numbers failed. That is another
 * fabric, domain and address vector, and one endpoint, which all contexts share
 * (ends[NA_OFI_OTHER]).
 *
 *     na_ofi_aim          the address is asked: the family is wanted
 *     (a thread)          opens it, which takes a while
 *     na_ofi_enter_late   enters the address, to which HELLO is sent
 *
 * All memory is then registered twice, with the same keys. So what peers know
 * of memory holds for both families. This works only with providers whose keys
 * the class chooses, and that need no other registration of memory.
 */
#include "ofi/ofi.h"

/* Open all objects of the other family. */
static na_return_t na_ofi_other_open_all(
    struct na_ofi_class *self, struct na_ofi_end **end_p)
{
    na_return_t ret =
        na_plug_check_needs(&self->base, "ofi", NA_OFI_FDS, NA_OFI_THREADS);

    if (ret == NA_SUCCESS)
        ret = na_ofi_choose_other(self);
    if (ret == NA_SUCCESS)
        ret = na_ofi_fabric_open(self, &self->families[1]);
    if (ret == NA_SUCCESS)
        ret = na_ofi_end_open(self, NA_OFI_OTHER, end_p);
    if (ret == NA_SUCCESS)
        ret = na_ofi_mems_register_other(self);
    return ret;
}

/* The thread. */
static void *na_ofi_other_open(void *arg)
{
    struct na_ofi_class *self = (struct na_ofi_class *) arg;
    struct na_ofi_end *end = NULL;
    na_return_t ret = na_ofi_other_open_all(self, &end);
    char name[NA_MAX_ADDR_LEN];

    if (ret != NA_SUCCESS) {
        if (end != NULL)
            na_ofi_end_close(end);
        na_ofi_fabric_close(self, &self->families[1]);
    } else {
        na_ofi_name_of(self, end->raw, end->raw_size, name);
        self->base.core->log(HG_LOG_LEVEL_INFO, "ofi",
            "%s is also at %s, for peers of that family",
            self->base.self_addr->name, name);
    }
    na_ofi_lock(&self->clock_lock);
    na_ofi_lock(&self->lock);
    if (ret == NA_SUCCESS) {
        self->ends[NA_OFI_OTHER] = end;
        atomic_fetch_add(&self->end_count, 1);
    }
    /* If it failed, the next address of that family is another attempt. */
    atomic_store(&self->other,
        ret == NA_SUCCESS ? NA_OFI_OTHER_OPEN : NA_OFI_OTHER_CLOSED);
    na_ofi_unlock(&self->lock);
    na_ofi_unlock(&self->clock_lock);
    return NULL;
}

static void na_ofi_other_want(struct na_ofi_class *self)
{
    sigset_t before;
    int rc;

    HG_ASSERT(atomic_load(&self->other) != NA_OFI_OTHER_NEVER);
    if (atomic_load(&self->other) != NA_OFI_OTHER_CLOSED)
        return;
    if (self->opening)
        (void) pthread_join(self->opener, NULL); /* it needs no lock any more */
    na_ofi_block_signals(&before);
    rc = pthread_create(&self->opener, NULL, na_ofi_other_open, self);
    na_ofi_restore_signals(&before);
    self->opening = rc == 0;
    if (rc == 0)
        atomic_store(&self->other, NA_OFI_OTHER_WANTED);
    else
        (void) na_ofi_failed(self, "cannot start", "a thread", rc);
}
