/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer: one transfer of bulk data between local memory and an origin's.
 *
 *     hg_transfer_start   checks, takes references, and moves the data:
 *       memory of this process      copied
 *       na_rma_now                  moved within the call, if the transport can
 *       na_rma_start                otherwise started
 *     hg_transfer_end     sets the result
 *     hg_transfer_run     runs the callback, from the DONE lane of the queue
 *
 * A canceled transfer ends when its operation has ended, so that nothing uses
 * its memory any more. It ends with HG_SUCCESS if all data was moved anyway.
 *
 * A transfer that outlives its context never ends, and its memory is leaked.
 *
 * Locking: the lock of the bulk class guards transfers and their lists. It is
 * released while data is copied, and in callbacks. If bulk data uses its own
 * class, the queue has another lock, which is never taken inside this one.
 */
#ifndef HG_GEN_BULK_TRANSFER_H
#define HG_GEN_BULK_TRANSFER_H

#include "bulk/bulk.h"

/* The transfers of a context. */
struct hg_transfer_list {
    struct na_context *context; /* on the bulk layer's class */
    struct na_queue *queue;     /* for callbacks */
    struct hg_bulk_layer *layer;
    bool left;                /* transfers outlived the context and never end */
    _Atomic unsigned count;   /* written with the lock held */
    struct na_link transfers; /* each transfer until hg_transfer_fini */
};

HG_PRIVATE void hg_transfer_list_init(
    struct hg_transfer_list *home, struct hg_bulk_layer *layer);

/* The number of transfers; with the lock or without. */
HG_PRIVATE unsigned hg_transfer_list_count(const struct hg_transfer_list *home);

/* The context is destroyed: transfers that have not ended never end. */
HG_PRIVATE void hg_transfer_list_leave(struct hg_transfer_list *home);

/* The arguments of a transfer. */
struct hg_transfer_args {
    hg_bulk_op_t op;
    /* The origin's address on the RPC class; NULL: in the bound handle. */
    struct na_addr *addr;
    struct hg_bulk *origin;
    uint64_t origin_offset;
    struct hg_bulk *local;
    uint64_t local_offset;
    uint64_t size;
};

/* Embedded in the caller's struct, initially zeroed. */
struct hg_transfer {
    struct na_completion done;
    struct na_link link; /* in its list */
    struct hg_transfer_list *home;
    struct hg_transfer_args args; /* with references */
    struct na_addr *owner; /* of the origin's memory; NULL: must be looked up */
    uint64_t began;        /* in ticks */
    na_op_id_t op_id;      /* in progress */
    bool canceled;
    hg_return_t ret;
    void (*callback)(struct hg_transfer *transfer);
};

/* Check a transfer. HG_INVALID_ARG, HG_FAULT (a layer has ended), HG_OVERFLOW,
 * HG_PERMISSION, all logged. An error caused by a peer's handle is a warning,
 * counted as "bulk_refused". */
HG_PRIVATE hg_return_t hg_transfer_check(const struct hg_transfer_list *home,
    const struct hg_transfer_args *args, const char *function);

/* Start a checked transfer; the lock is held. `callback` runs once, from
 * the DONE lane of the queue, with the result in `ret`. If `ended_p` is not
 * NULL and *ended_p becomes true, the transfer ended within the call and the
 * callback does not run. hg_transfer_fini follows then, or in the callback. The
 * callback does not run on an error: HG_NOENTRY (memory was withdrawn),
 * HG_HOSTUNREACH, HG_PROTOCOL_ERROR (the owner cannot be reached), all
 * logged. */
HG_PRIVATE hg_return_t hg_transfer_start(struct hg_transfer *transfer,
    struct hg_transfer_list *home, const struct hg_transfer_args *args,
    void (*callback)(struct hg_transfer *transfer), bool *ended_p);

/* Release its references and remove it from its list. The lock is held, and
 * released to free memory. */
HG_PRIVATE void hg_transfer_fini(struct hg_transfer *transfer);

/* Cancel a transfer of this list, started or not: it ends with HG_CANCELED, or
 * with a result that arrived first. */
HG_PRIVATE void hg_transfer_cancel(
    struct hg_transfer_list *home, struct hg_transfer *transfer);

/* The name of the peer that has the origin's memory. */
HG_PRIVATE const char *hg_transfer_peer_name(
    const struct hg_transfer_args *args);

#endif
