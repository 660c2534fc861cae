/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overflow: arguments too large for a message.
 *
 * They stay where they were encoded. The message carries a description
 * instead, and the receiver's library fetches them before anybody sees the
 * call. The sender withdraws the memory of an input when the call ends. A
 * target holds an output until the origin no longer waits for it (CANCEL, which
 * it sends once it has fetched it, too), has died, or did not fetch it within
 * output_hold_ms.
 *
 *      payload of a message with HG_HEADER_LARGE
 *      0             8             16       20
 *      +-------------+-------------+--------+---------------+
 *      | args size   | args CRC64  | length | memory handle |
 *      +-------------+-------------+--------+---------------+
 *
 * The CRC64 is that of the arguments; 0: the sender computed none, and nothing
 * is checked. The receiver's is computed piece by piece, as they come.
 *
 * The size is the peer's word. It is checked against max_args_size, and counts
 * at a target: an input of max_fetched_bytes, an output of max_held_bytes
 * (limit.h). At a target each piece of an input has output_hold_ms to come. At
 * an origin it is the caller, who chose whom to call, that waits as long as it
 * likes.
 *
 * Locking: an overflow belongs to whoever drives its handle's state. What the
 * class's lock guards is marked in handle.h.
 */
#ifndef HG_GEN_HG_OVERFLOW_H
#define HG_GEN_HG_OVERFLOW_H

#include "hg/handle.h"

/* Let the peer fetch `args`, which lie in `buf`: appends a message with their
 * description, which *message is then, to be sealed. HG_AGAIN (logged): a
 * target holds enough for this peer. */
HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, const struct hg_args *args,
    struct hg_handle_message *message);

/* The same with the output in handle->out, which is held then, with a
 * reference. HG_CANCELED: nobody waits for it any more. */
HG_PRIVATE hg_return_t hg_overflow_hold(
    struct hg_handle *handle, struct hg_handle_message *message);

/* Hold an output no longer, if it is held: once the internal lane runs, as
 * withdrawing may wait; the lock is held. The same of all in a context, without
 * the lock. Or at once, without the lock: the offer could not be sent. */
HG_PRIVATE void hg_overflow_release(struct hg_handle *handle);
HG_PRIVATE void hg_overflow_release_all(struct hg_context *context);
HG_PRIVATE void hg_overflow_take_back(struct hg_handle *handle);

/* Start fetching what a payload describes into `large`; `fetched` is called
 * once, from the internal lane, also on errors found at once. Takes a
 * reference of the handle until then. */
HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret));

/* Withdraw or free everything; nothing when there is nothing. A fetch must
 * have ended. What a slow peer is at still goes later, with the buffer that the
 * handle encoded into; see na_emul_withdraw. */
HG_PRIVATE void hg_overflow_end_large(
    struct hg_handle *handle, struct hg_overflow *large);
static inline void hg_overflow_end(
    struct hg_handle *handle, struct hg_overflow *large)
{
    if (HG_UNLIKELY(handle->large))
        hg_overflow_end_large(handle, large);
}

/* Ask a fetch to end early; its handle is marked as canceled. */
HG_PRIVATE void hg_overflow_cancel(
    struct hg_handle *handle, struct hg_overflow *large);

/* The timer of a handle to us expired: an output is held no longer, or a fetch
 * that waits for the same piece still ends with HG_CANCELED. */
HG_PRIVATE void hg_overflow_expired(struct hg_handle *handle);

#endif
