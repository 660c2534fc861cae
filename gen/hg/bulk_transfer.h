/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_transfer: moving bulk data.
 *
 * A transfer is cut where a memory handle of either side ends, which is
 * nowhere for transports that take all segments in one, and its pieces run
 * side by side up to a window. It ends once: when all pieces did, with the
 * first error among them. Memory of this process is copied at once, and so is a
 * peer's as far as the transport can: then nothing is allocated, queued, or to
 * be waited for.
 *
 * Where bulk has a class of its own, the owner's address there travels in the
 * handle and is looked up the first time.
 *
 * One that does not end with its context is abandoned: it tells nobody, and its
 * memory is left to the transport.
 *
 * Locking: a transfer's own mutex guards its counts; it is not held while a
 * piece is started.
 */
#ifndef HG_GEN_HG_BULK_TRANSFER_H
#define HG_GEN_HG_BULK_TRANSFER_H

#include "hg/bulk.h"

/* Where transfers run: a context's part. */
struct hg_transfer_home {
    struct na_context *context; /* on the bulk layer's class */
    struct na_queue *queue;     /* for callbacks */
    _Atomic uint32_t under_way;
    _Atomic bool left; /* by its context: those under way are abandoned */
};

/* What a transfer is to do. The handles and the address are borrowed: the
 * transfer takes references. */
struct hg_transfer_args {
    hg_bulk_op_t op;
    struct na_addr *addr; /* of the origin, on the RPC class */
    struct hg_bulk *origin;
    size_t origin_offset;
    struct hg_bulk *local;
    size_t local_offset;
    size_t size;
};

/* Do it at once, in this thread, where that can be: HG_SUCCESS, and *result_p
 * tells how it ended. HG_AGAIN: it is to be started; another code: it may not
 * be. */
HG_PRIVATE hg_return_t hg_transfer_now(struct hg_transfer_home *home,
    const struct hg_transfer_args *args, hg_return_t *result_p);

/* Start; `callback` runs once, from the DONE lane of the home's queue, after
 * which the transfer is gone. On an error it never runs. */
HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer_home *home,
    const struct hg_transfer_args *args,
    void (*callback)(hg_return_t ret, void *arg), void *arg);

#endif
