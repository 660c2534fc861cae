/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overflow: arguments too large for a message.
 *
 * They stay where they were encoded. The message carries a description
 * instead, and the receiver's library fetches them before anybody sees the
 * call. The sender withdraws the memory when the call ends (a request), or
 * when the fetch was acknowledged, the peer died or time ran out (an answer).
 *
 *      payload of a message with HG_HEADER_LARGE
 *      0          8             16            24       28
 *      +----------+-------------+-------------+--------+---------------+
 *      | held id  | args size   | args CRC64  | length | memory handle |
 *      +----------+-------------+-------------+--------+---------------+
 *
 * The CRC64 is that of the arguments; 0: the sender computed none, and nothing
 * is checked. The receiver's is computed piece by piece, as they come.
 *
 * The size is the peer's word. It is checked against max_args_size before
 * anything is done, but memory is not granted on that word: arguments come in
 * pieces, and the room for them is at most twice what has come, and one piece.
 * At a target that room counts as part of the peer's share (share.h) of
 * max_fetched_bytes, piece by piece: an announcement alone takes little away
 * from others. An output, which is there, counts as a whole, of max_held_bytes.
 * At a target each piece has output_hold_ms to come. At an origin it is the
 * caller, who chose whom to call, that waits as long as it likes.
 *
 * Locking: none of its own; an overflow belongs to whoever drives its handle's
 * state. What the context's lock guards is marked in handle.h.
 */
#ifndef HG_GEN_HG_OVERFLOW_H
#define HG_GEN_HG_OVERFLOW_H

#include "hg/handle.h"

/* Let the peer fetch `args`, which lie in `buf`: appends a message with their
 * description, which *message is then, to be sealed. HG_AGAIN (logged): a
 * target holds enough for this peer. */
HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, const struct hg_args *args,
    uint64_t held_id, struct hg_handle_message *message);

/* Start fetching what a payload describes into `large`; `fetched` is called
 * once, from the internal lane, also on errors found at once. Takes a
 * reference of the handle until then. */
HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret));

/* The held id of a payload, 0 when it is malformed. */
HG_PRIVATE uint64_t hg_overflow_held_id(
    const unsigned char *payload, size_t size);

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

/* The timer of a handle expired: a fetch of its input that waits for the same
 * piece still is ended, with HG_CANCELED. */
HG_PRIVATE void hg_overflow_expired(struct hg_handle *handle);

#endif
