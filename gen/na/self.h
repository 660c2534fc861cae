/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: messages that a class sends to itself, and the transport that does only
 * that.
 *
 * Loop: every transport has its own address. Transports inside the library send
 * to it through a loop. A message that is accepted is delivered in the sender's
 * thread with one copy. A message that is not accepted waits as an operation,
 * and poll offers it again, in order.
 *
 * Transport self://: always available. Messages use a loop; the emulation
 * copies the class's own memory at once. A class knows only its own address.
 *
 * Locking: the lock of the class is held around the functions of the loop.
 */
#ifndef HG_GEN_NA_SELF_H
#define HG_GEN_NA_SELF_H

#include "na/core.h"

/* The slots of struct na_plugin with the same names, for the class's own
 * address. `held` is the list of operations whose message was not accepted. */
HG_PRIVATE na_return_t na_loop_send(
    struct na_link *held, const struct na_msg *msg, struct na_op *op);
HG_PRIVATE na_return_t na_loop_cancel(struct na_link *held, struct na_op *op);

/* Deliver queued messages; returns their number. The core wakes a sleeping
 * thread when the queue has space. */
HG_PRIVATE unsigned na_loop_poll(struct na_link *held);

HG_PRIVATE const struct na_plugin *na_self_table(void);

#endif
