/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: remote memory access over messages, for every transport that has
 * none of its own.
 *
 * A transport that leaves put and get empty and offers frame_send gets them
 * from here. The initiator names a registration by a random 64-bit key, an
 * offset and a length. The target checks key, bounds and permission while it
 * makes progress. Nothing that a peer sends is used as a pointer, a size or an
 * index before it is checked.
 *
 *     get:  initiator            target     put:  initiator            target
 *           GET ------------------->              PUT + data ----------->
 *           GET ------------------->              PUT + data ----------->
 *              <------ ANSWER + data                  <---------- ANSWER
 *              <------ ANSWER + data              PUT + data ----------->
 *           GET ------------------->                  <---------- ANSWER
 *              <------ ANSWER + data                  <---------- ANSWER
 *
 * An operation is a series of requests, each of which names its piece of the
 * memory and is answered by itself, in any order: the target knows of no
 * operation. The initiator alone limits what is on its way, by requests and by
 * bytes (rma_window) to each peer, in both directions. When an operation is
 * canceled it sends no more requests; their answers are awaited, because they
 * count until then, but end nothing any more.
 *
 * Memory of the class itself is copied at once, without a frame.
 *
 * A transfer, at the initiator, belongs to an operation; at the target, it
 * answers one request.
 *
 *     moving --end--> ended --no pin--> memory released --answered--> freed
 *
 * na_emul_end gives a transfer its result, and no more data is sent. A frame in
 * the transport's hands pins the memory of its transfer. When the last pin of
 * an ended transfer is gone, the operation completes and the registration is
 * released. The transfer is freed when all answers came, or its own has left.
 *
 * What it asks of a transport: the answer to a frame is sent to its source, and
 * arrives from the address that the question was sent to; frame_send may return
 * NA_AGAIN, and the transport wakes progress when it takes frames again.
 *
 * Locking: the lock of the class guards everything. It is held around the slots
 * of the transport, core->complete, and the copy or checksum of a frame, which
 * is at most rma_frame_size. Pins are atomic: the transport gives frames back
 * in any thread, with any lock held. Application memory that is deregistered is
 * waited for with the lock free; a peer that does not read its frames within a
 * second loses its connection. The library's own memory is withdrawn instead:
 * nobody waits, and the last transfer that uses it frees it.
 */
#ifndef HG_GEN_EMUL_EMUL_H
#define HG_GEN_EMUL_EMUL_H

#include "emul/wire.h"

/* State of one class, whose transport has frame_send; frame size and window
 * come from na_class->info. NULL: out of memory (logged). */
HG_PRIVATE struct na_emul *na_emul_create(struct na_class *na_class);

/* No context is left and the transport is closed, so it has returned every
 * frame. Drops references of addresses: they are still valid. */
HG_PRIVATE void na_emul_destroy(struct na_emul *emul);

/* Whether puts and gets that this class starts have a CRC64 in each frame with
 * data. Data that does not match it ends the operation with NA_CHECKSUM_ERROR;
 * its receiver counts that as rma_damaged. NA_OPNOTSUPPORT (not logged), unless
 * `on` is false: the transport moves bytes itself, all of them or some. */
HG_PRIVATE na_return_t na_emul_sum_frames(struct na_class *na_class, bool on);

/* The slots of struct na_plugin with the same names; see there. Deregistering
 * waits for frames that the transport still holds. */
HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *handle);
HG_PRIVATE void na_emul_mem_deregister(struct na_mem_handle *handle);
HG_PRIVATE na_return_t na_emul_put(struct na_op *op);
HG_PRIVATE na_return_t na_emul_get(struct na_op *op);

/* Cancel a put or get. NA_SUCCESS: it completes with NA_CANCELED, or the result
 * it already has, once its local memory is not in use. NA_NOENTRY: the
 * operation of that identifier is not here. */
HG_PRIVATE na_return_t na_emul_cancel(struct na_op *op, uint64_t op_id);

/* core->frame_arrived. The frames of one source come one at a time. */
HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size);

/* core->frame_place and frame_unplace. */
HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p);
HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place);

/* The peer is gone: what is in flight with it ends with `ret`. The caller holds
 * a reference. */
HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret);

/* Deregister memory of the library's own that `user` could reach, and free its
 * handle, without waiting. False: the memory is not in use, and `buf`, which
 * holds it, is the caller's as before. True: `buf` is taken, and freed by
 * hg_mem_free when the last frame of it has left and the transport moves no
 * piece of it. Until then its size is counted for `user`. */
HG_PRIVATE bool na_emul_withdraw(
    struct na_mem_handle *handle, void *buf, struct na_addr *user);

/* Bytes so counted. */
HG_PRIVATE uint64_t na_emul_lingering(const struct na_addr *user);

/* A context is being destroyed: its operations complete with NA_CANCELED (or
 * the result they already have) before this returns, and nothing touches
 * their memory any more. Waits as deregistering does. */
HG_PRIVATE void na_emul_context_gone(struct na_context *context);

/* The local memory of puts and gets is being freed, and no thread starts one:
 * they complete with NA_CANCELED (or the result they already have), and nothing
 * touches it any more once this returned. Waits as deregistering does. */
HG_PRIVATE void na_emul_end_local(const struct na_mem_handle *mem);

/* Send what windows and the transport allow now, a bounded number of frames;
 * the number of things done. Called by progress after each poll of the
 * transport, with the lock held, as the next is. */
HG_PRIVATE unsigned na_emul_poll(struct na_emul *emul);

/* When to poll though nothing wakes progress: 0, there is work, or soon, while
 * there are transfers, for frames that the transport returns. HG_CLOCK_NEVER:
 * nothing is left. Asked by progress once it has armed its waker, before it
 * sleeps: whatever adds work later wakes it. */
HG_PRIVATE uint64_t na_emul_due(const struct na_emul *emul);

#endif
