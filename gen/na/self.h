/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: what a class sends to itself, and the transport that does only that.
 *
 * Loop: every transport has an address that is its own. Those inside the
 * library send to it by a loop: a message that finds room is delivered in the
 * sender's thread, copied once; one that does not waits as an operation and is
 * offered again by poll, in order. Frames of emulated RMA are copied, and
 * delivered by poll.
 *
 * Transport self://: always there. Messages and frames go through a loop,
 * memory is copied at once. Every class knows one address, its own.
 *
 * Locking: the lock of the class is held around the functions of the loop, but
 * the first and the last. Memory has a lock of its own, so that copies run side
 * by side and registration waits for them.
 */
#ifndef HG_GEN_NA_SELF_H
#define HG_GEN_NA_SELF_H

#include "na/core.h"

struct na_loop {
    struct na_link sends;  /* operations that met a full queue */
    struct na_link frames; /* on their way to ourselves */
};

HG_PRIVATE void na_loop_init(struct na_loop *loop);

/* No operation waits any more; frames that do are dropped. */
HG_PRIVATE void na_loop_fini(struct na_loop *loop);

/* The slots of struct na_plugin with the same names, for what goes to the
 * class's own address. */
HG_PRIVATE na_return_t na_loop_send(
    struct na_loop *loop, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_loop_frame_send(struct na_loop *loop,
    struct na_addr *addr, const void *header, size_t header_size,
    const void *data, size_t size, void (*release)(void *arg), void *arg);
HG_PRIVATE na_return_t na_loop_cancel(struct na_loop *loop, struct na_op *op);

/* Deliver what waits; the number of things done. */
HG_PRIVATE unsigned na_loop_poll(struct na_loop *loop);

/* Whether poll would surely find something. A send that was held back is not
 * such a thing: the core wakes us when it may go. */
static inline bool na_loop_has_work(const struct na_loop *loop)
{
    return !hg_list_is_empty(&loop->frames);
}

HG_PRIVATE const struct na_plugin *na_self_table(void);

#endif
