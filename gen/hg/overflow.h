/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overflow: arguments too large for a message.
 *
 * The arguments stay in the buffer where they were encoded. The message carries
 * a description instead, and the receiver's library fetches them before the
 * application sees the call. The sender withdraws the memory of an input when
 * the call ends. A target holds an output until the origin has fetched it or no
 * longer waits (both send CANCEL), has died, or did not fetch it within
 * output_hold_ms.
 *
 *      payload of a message with HG_HEADER_LARGE
 *      0             8             16       20
 *      +-------------+-------------+--------+---------------+
 *      | args size   | args CRC64  | length | memory handle |
 *      +-------------+-------------+--------+---------------+
 *
 * The CRC64 covers the arguments; 0: the sender computed none, and nothing is
 * checked. The receiver computes it piece by piece.
 *
 * The size is not trusted. It is checked against max_args_size, and a target
 * counts it: an input in max_fetched_bytes, an output in max_held_bytes
 * (limit.h). At a target each piece of an input must arrive within
 * output_hold_ms. At an origin only the deadline of the call limits the fetch.
 *
 * Locking: the owner of the handle's state owns its overflow. Fields guarded by
 * the class's lock are marked in handle.h.
 */
#ifndef HG_GEN_HG_OVERFLOW_H
#define HG_GEN_HG_OVERFLOW_H

#include "hg/handle.h"

/* Expose `args`, which are in `buf`, to the peer. Appends a message with their
 * description; *message is that message, to be sealed. HG_AGAIN, logged: a
 * target holds too much for this peer. */
HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, const struct hg_args *args,
    struct hg_handle_message *message);

/* Expose the output in handle->out, and hold it with a reference. HG_CANCELED:
 * the origin no longer waits. */
HG_PRIVATE hg_return_t hg_overflow_hold(
    struct hg_handle *handle, struct hg_handle_message *message);

/* hg_overflow_release: release a held output, if any, from the internal lane,
 * since withdrawing may wait; the lock is held. hg_overflow_release_all:
 * release all outputs of a context; without the lock. hg_overflow_take_back:
 * release an output at once, since it could not be sent; without the lock. */
HG_PRIVATE void hg_overflow_release(struct hg_handle *handle);
HG_PRIVATE void hg_overflow_release_all(struct hg_context *context);
HG_PRIVATE void hg_overflow_take_back(struct hg_handle *handle);

/* Start fetching the arguments that a payload describes into `large`. `fetched`
 * is called once from the internal lane, even if an error is found at once.
 * Holds a reference of the handle until then. */
HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret));

/* Withdraw and free the arguments, if any. A fetch must have ended. Memory that
 * a slow peer still reads is freed later, along with the buffer that the handle
 * encoded into; see na_emul_withdraw. The lock is not held. */
HG_PRIVATE void hg_overflow_end_large(
    struct hg_handle *handle, struct hg_overflow *large);
static inline void hg_overflow_end(
    struct hg_handle *handle, struct hg_overflow *large)
{
    if (HG_UNLIKELY(handle->large))
        hg_overflow_end_large(handle, large);
}

/* Cancel a fetch; its handle is marked as canceled. The lock is held. */
HG_PRIVATE void hg_overflow_cancel(
    struct hg_handle *handle, struct hg_overflow *large);

/* The timer of a target's handle expired: release its output, or cancel a fetch
 * that still waits for the same piece. The lock is held. */
HG_PRIVATE void hg_overflow_expired(struct hg_handle *handle);

#endif
