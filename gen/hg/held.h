/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held: outputs too large for a message, until they are fetched.
 *
 * An output that overflow has offered stays at the target, where it was
 * encoded: until the origin acknowledges that it has it, the origin dies, its
 * time (output_hold_ms) is up, or the message with the offer cannot leave.
 * Whichever comes first takes the handle out of the table of held outputs, and
 * so lets go of the output, once.
 *
 * Locking: the context's lock guards the table, the marks in its handles and
 * their timers. Nothing is withdrawn under it, as that may wait.
 */
#ifndef HG_GEN_HG_HELD_H
#define HG_GEN_HG_HELD_H

#include "hg/handle.h"

/* Let the origin fetch the output in handle->out, and hold it. *message is then
 * what tells it so, to be sealed. HG_AGAIN (logged): see hg_overflow_offer. */
HG_PRIVATE hg_return_t hg_held_offer(
    struct hg_handle *handle, struct hg_handle_message *message);

/* The offer could not be sent; nothing if the output is not held any more. */
HG_PRIVATE void hg_held_take_back(struct hg_handle *handle);

/* The origin says that it has the output. */
HG_PRIVATE void hg_held_acknowledged(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header);

/* Let go of what is held for `addr`, or for everybody when NULL. */
HG_PRIVATE void hg_held_release(
    struct hg_context *context, const struct na_addr *addr);

/* The timer of a handle expired. False: it was not that of a held output. */
HG_PRIVATE bool hg_held_expired(struct hg_handle *handle);

#endif
