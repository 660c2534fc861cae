/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: what a class sends to itself, and the transport that does only that.
 *
 * Loop: every transport has an address that is its own. Those inside the
 * library send to it by a loop: a message that finds room is delivered in the
 * sender's thread, copied once; one that does not waits as an operation and is
 * offered again by poll, in order.
 *
 * Transport self://: always there. Messages go through a loop; the emulation
 * copies memory of the class's own at once. Every class knows one address, its
 * own.
 *
 * Locking: the lock of the class is held around the functions of the loop.
 */
#ifndef HG_GEN_NA_SELF_H
#define HG_GEN_NA_SELF_H

#include "na/core.h"

/* The slots of struct na_plugin with the same names, for what goes to the
 * class's own address. `held` is the list of operations that met a full
 * queue. */
HG_PRIVATE na_return_t na_loop_send(
    struct na_link *held, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_loop_cancel(struct na_link *held, struct na_op *op);

/* Deliver what waits; the number of things done. The core wakes a sleeper when
 * there is room. */
HG_PRIVATE unsigned na_loop_poll(struct na_link *held);

HG_PRIVATE const struct na_plugin *na_self_table(void);

#endif
