/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer: one move of bulk data between local memory and an origin's.
 *
 *     hg_transfer_start   checks, takes references, and moves:
 *       memory of this process      copied
 *       na_rma_now                  moved within the call, if the transport can
 *       na_rma_start                else started
 *     hg_transfer_end     the result stands
 *     hg_transfer_run     from the DONE lane of the queue: runs the callback
 *
 * A transfer that is canceled ends when its operation has ended, so that
 * nothing uses its memory any more. It ends with HG_SUCCESS if all data was
 * moved all the same.
 *
 * A transfer that outlives its context never ends, and its memory is left to
 * the transport.
 *
 * Locking: the lock of the bulk class guards transfers and their home. It is
 * free while data is copied, and in callbacks. The queue's lock is another one
 * if bulk has a class of its own, and is never taken inside this one.
 */
#ifndef HG_GEN_BULK_TRANSFER_H
#define HG_GEN_BULK_TRANSFER_H

#include "bulk/bulk.h"

/* Where transfers run: a context's part. */
struct hg_transfer_list {
    struct na_context *context; /* on the bulk layer's class */
    struct na_queue *queue;     /* for callbacks */
    struct hg_bulk_layer *layer;
    bool left; /* transfers outlived the context: they never end */
    unsigned count;
    struct na_link transfers; /* each until hg_transfer_fini */
};

HG_PRIVATE void hg_transfer_list_init(
    struct hg_transfer_list *home, struct hg_bulk_layer *layer);

/* How many transfers there are. */
HG_PRIVATE unsigned hg_transfer_list_count(struct hg_transfer_list *home);

/* The context ends, and transfers with it that do not end. */
HG_PRIVATE void hg_transfer_list_leave(struct hg_transfer_list *home);

/* What a transfer is to do. */
struct hg_transfer_args {
    hg_bulk_op_t op;
    struct na_addr *addr; /* of the origin, on the RPC class; NULL: the handle,
                             which is bound, has it */
    struct hg_bulk *origin;
    uint64_t origin_offset;
    struct hg_bulk *local;
    uint64_t local_offset;
    uint64_t size;
};

/* Part of what its caller keeps of it, all zeros at first. */
struct hg_transfer {
    struct na_completion done;
    struct na_link link; /* of its home */
    struct hg_transfer_list *home;
    struct hg_transfer_args args; /* with references */
    struct na_addr *owner; /* of the origin's memory; NULL: to be looked up */
    uint64_t began;        /* in ticks */
    na_op_id_t op_id;      /* under way */
    bool canceled;
    hg_return_t ret;
    void (*callback)(struct hg_transfer *transfer);
};

/* Whether such a transfer may be made. HG_INVALID_ARG, HG_FAULT (a layer has
 * ended), HG_OVERFLOW, HG_PERMISSION, all logged; what a peer's handle is the
 * cause of is a warning, counted as "bulk_refused". */
HG_PRIVATE hg_return_t hg_transfer_check(const struct hg_transfer_list *home,
    const struct hg_transfer_args *args, const char *function);

/* Start what was checked; the lock is held once. `callback` runs once, from the
 * DONE lane of the home's queue, with the result in `ret`. It never runs if
 * `ended_p` is not NULL and *ended_p tells that the transfer ended within the
 * call. Then, or in the callback, hg_transfer_fini follows. It never runs on an
 * error: HG_NOENTRY (memory was withdrawn), HG_HOSTUNREACH, HG_PROTOCOL_ERROR
 * (no way to the owner), all logged. */
HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer *transfer,
    struct hg_transfer_list *home, const struct hg_transfer_args *args,
    void (*callback)(struct hg_transfer *transfer), bool *ended_p);

/* Drop its references; its home does not know it any more. The lock is
 * held. */
HG_PRIVATE void hg_transfer_fini(struct hg_transfer *transfer);

/* Ask a transfer of this home, started or not, to end: HG_CANCELED, or the
 * result that won. */
HG_PRIVATE void hg_transfer_cancel(
    struct hg_transfer_list *home, struct hg_transfer *transfer);

/* Where the origin's memory is. */
HG_PRIVATE const char *hg_transfer_peer_name(
    const struct hg_transfer_args *args);

#endif
