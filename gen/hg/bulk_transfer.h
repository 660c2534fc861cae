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
 * Where bulk has a class of its own, and in a bound handle, the owner's address
 * travels along and is looked up the first time.
 *
 * One that is canceled starts no more pieces, and those under way are asked to
 * end: it ends when they have, so that nothing touches its memory any more. If
 * all data was moved all the same, it has gone well.
 *
 * One that does not end with its context is abandoned: it tells nobody, and its
 * memory is left to the transport.
 *
 * Locking: a transfer's own mutex guards its counts and slots; it is not held
 * while a piece is started, or canceled. Its home's guards the list of those
 * there are, and may be held when a transfer's is taken.
 */
#ifndef HG_GEN_HG_BULK_TRANSFER_H
#define HG_GEN_HG_BULK_TRANSFER_H

#include "hg/bulk.h"

struct hg_transfer;

/* Where transfers run: a context's part. */
struct hg_transfer_home {
    struct na_context *context; /* on the bulk layer's class */
    struct na_queue *queue;     /* for callbacks */
    _Atomic uint32_t under_way;
    _Atomic bool ending;     /* its context is */
    _Atomic bool left;       /* by its context: those under way are abandoned */
    struct hg_monitor *lock; /* the bulk class's */
    struct na_link transfers; /* until their callbacks have run */
};

/* Its list; HG_NOMEM (logged). The end: none is left. */
HG_PRIVATE void hg_transfer_home_init(
    struct hg_transfer_home *home, struct hg_monitor *lock);
HG_PRIVATE void hg_transfer_home_fini(struct hg_transfer_home *home);

/* What a transfer is to do. The handles and the address are borrowed: the
 * transfer takes references. */
struct hg_transfer_args {
    hg_bulk_op_t op;
    struct na_addr *addr; /* of the origin, on the RPC class; NULL: the handle,
                             which is bound, tells it */
    struct hg_bulk *origin;
    size_t origin_offset;
    struct hg_bulk *local;
    size_t local_offset;
    size_t size;
    uint8_t origin_context; /* of the origin, where it has several */
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

/* ---- What is known of one ---- */

#define HG_TRANSFER_PEER_MAX 128

struct hg_transfer_view {
    hg_bulk_op_t op;
    size_t size;
    size_t begun;                    /* bytes of it */
    bool ended;                      /* its callback is queued, or runs */
    uint64_t began;                  /* in ticks */
    char peer[HG_TRANSFER_PEER_MAX]; /* its name, cut where it is longer */
};

/* Tell of the first `max` transfers of a home; *count_p of them. False: its
 * lock, which is not waited for, was not to be had. */
HG_PRIVATE bool hg_transfer_look(struct hg_transfer_home *home,
    struct hg_transfer_view *views, unsigned max, unsigned *count_p);

/* ---- The same in steps, for what can be canceled ---- */

/* One that has not begun; then hg_transfer_begin, or hg_transfer_forget: it
 * never was. */
HG_PRIVATE hg_return_t hg_transfer_create(struct hg_transfer_home *home,
    const struct hg_transfer_args *args,
    void (*callback)(hg_return_t ret, void *arg), void *arg,
    struct hg_transfer **transfer_p);
HG_PRIVATE void hg_transfer_begin(struct hg_transfer *transfer);
HG_PRIVATE void hg_transfer_forget(struct hg_transfer *transfer);

/* Keep one that ends meanwhile in place for hg_transfer_cancel, before its
 * callback has run. False: it has ended. */
HG_PRIVATE bool hg_transfer_hold(struct hg_transfer *transfer);

/* The class on which it moves data. */
HG_PRIVATE const struct na_class *hg_transfer_class(
    const struct hg_transfer *transfer);

/* Ask it to end, and let go of it: HG_CANCELED, or the result that won. */
HG_PRIVATE void hg_transfer_cancel(struct hg_transfer *transfer);

#endif
