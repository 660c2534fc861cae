/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop: messages and frames that a class sends to itself.
 *
 * Every transport has an address that is its own. For those inside the library
 * this room carries what is sent there: a message that finds room is delivered
 * in the sender's thread, copied once; one that does not waits as an operation
 * and is offered again by poll, in order. Frames of emulated RMA are copied
 * and delivered by poll.
 *
 * Locking: `lock` guards what waits. Nothing of the core that may call a slot
 * runs under it.
 */
#ifndef HG_GEN_NA_LOOP_H
#define HG_GEN_NA_LOOP_H

#include "na/core.h"

struct na_loop {
    pthread_mutex_t lock;
    struct na_link sends;     /* operations that met a full queue */
    struct na_op *offered;    /* one of them, offered again; guarded by lock */
    bool offer_canceled;      /* it is to end if nobody takes it; lock */
    struct na_link frames;    /* on their way to ourselves */
    _Atomic unsigned waiting; /* elements of both lists */
};

HG_PRIVATE na_return_t na_loop_init(struct na_loop *loop);

/* No operation waits any more; frames that do are dropped. */
HG_PRIVATE void na_loop_fini(struct na_loop *loop, struct na_class *na_class);

/* The slots of struct na_plugin with the same names, for what goes to the
 * class's own address. */
HG_PRIVATE na_return_t na_loop_send(struct na_loop *loop,
    struct na_class *na_class, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_loop_frame_send(struct na_loop *loop,
    struct na_addr *addr, const void *header, size_t header_size,
    const void *data, size_t size, void (*release)(void *arg), void *arg);
HG_PRIVATE na_return_t na_loop_cancel(
    struct na_loop *loop, struct na_op *op, uint64_t op_id);

/* Deliver what waits; the number of things done. */
HG_PRIVATE unsigned na_loop_poll(
    struct na_loop *loop, struct na_class *na_class);

/* Whether poll would surely find something. A send that was held back is not
 * such a thing: the core wakes us when it may go. */
HG_PRIVATE bool na_loop_has_work(struct na_loop *loop);

#endif
