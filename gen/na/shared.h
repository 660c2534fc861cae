/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shared: memory of the library for the application, and pointers to the memory
 * of peers.
 *
 * NA_Mem_alloc allocates from the transport, or page-aligned from the heap. A
 * pointer of NA_Mem_map is a mapping of its own (slot mem_map), independent of
 * the connection and the handle: it stays valid until it is unmapped. Memory of
 * this process is not mapped; the pointer is the address itself.
 *
 * The class records both, so that they are freed by their address. Records that
 * are left when the class is closed are freed then.
 *
 * Locking: the lock of the class guards the records.
 */
#ifndef HG_GEN_NA_SHARED_H
#define HG_GEN_NA_SHARED_H

#include "na/core.h"

/* Get a pointer to a segment of memory of a peer. `owner` NULL: a transport
 * finds it by the handle. `user`: who may unmap it; NULL: NA_Mem_unmap.
 * NA_OPNOTSUPPORT, NA_AGAIN (not logged), and others: see slot mem_map. */
HG_PRIVATE na_return_t na_shared_map(struct na_mem_handle *remote,
    struct na_addr *owner, na_size_t segment, const void *user, void **ptr_p);

/* Record a pointer to memory of this process, for na_shared_unmap. NA_NOMEM,
 * logged. */
HG_PRIVATE na_return_t na_shared_lend(
    struct na_class *na_class, void *ptr, const void *user);

/* Release a pointer. NA_NOENTRY (not logged): `user` has no such pointer. */
HG_PRIVATE na_return_t na_shared_unmap(
    struct na_class *na_class, const void *ptr, const void *user);

/* Free allocations and pointers that are left; returns their number. The class
 * is closing. */
HG_PRIVATE unsigned na_shared_release_all(struct na_class *na_class);

#endif
