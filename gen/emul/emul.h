/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: remote memory access over messages, for transports that do not support
 * it.
 *
 * A transport that leaves the slots put and get empty and offers frame_send
 * uses this emulation. The initiator names registered memory by a random 64-bit
 * key, an offset and a length. The target checks key, bounds and access while
 * it makes progress. Nothing that a peer sends is used as a pointer, a size or
 * an index before it is checked.
 *
 *     get:  initiator            target     put:  initiator            target
 *           GET ------------------->              PUT + data ----------->
 *           GET ------------------->              PUT + data ----------->
 *              <------ ANSWER + data                  <---------- ANSWER
 *              <------ ANSWER + data              PUT + data ----------->
 *           GET ------------------->                  <---------- ANSWER
 *              <------ ANSWER + data                  <---------- ANSWER
 *
 * An operation is a series of requests. Each names its piece of the memory and
 * is answered separately, in any order; the target does not know the operation.
 * Only the initiator limits what is in flight to each peer, in requests and in
 * bytes (rma_window), in both directions. A canceled operation sends no more
 * requests. It waits for outstanding answers, because they still count, but
 * ignores their results.
 *
 * Memory of the class itself is copied at once, without a frame.
 *
 * At the initiator a transfer belongs to an operation; at the target, it
 * answers one request.
 *
 *     moving --end--> ended --no pin--> memory released --answered--> freed
 *
 * na_emul_end sets the result of a transfer, and no more data is sent. A frame
 * that the transport holds pins the memory of its transfer. When the last pin
 * of an ended transfer is released, the operation completes and the
 * registration is released. The transfer is freed when all answers have
 * arrived, or its own was sent.
 *
 * Requirements of a transport: the answer to a frame is sent to its source, and
 * arrives from the address that the request was sent to; frame_send may return
 * NA_AGAIN, and then the transport wakes progress when it accepts frames again.
 *
 * Locking: the lock of the class guards everything. It is held around the slots
 * of the transport, core->complete, and the copy or checksum of a frame, which
 * is at most rma_frame_size. Pins are atomic: the transport releases frames in
 * any thread, with any lock held. Deregistering application memory waits with
 * the lock released; a peer that does not read its frames within a second loses
 * its connection. The library's own memory is withdrawn without waiting: the
 * last transfer that uses it frees it.
 */
#ifndef HG_GEN_EMUL_EMUL_H
#define HG_GEN_EMUL_EMUL_H

#include "emul/wire.h"

/* Create the state of a class whose transport has frame_send; frame size and
 * window come from na_class->info. NULL: out of memory (logged). */
HG_PRIVATE struct na_emul *na_emul_create(struct na_class *na_class);

/* Destroy the state. No context is left and the transport is closed, so it has
 * released every frame. Releases references of addresses, which are still
 * valid. */
HG_PRIVATE void na_emul_destroy(struct na_emul *emul);

/* Set whether puts and gets that this class starts have a CRC64 in each frame
 * with data. Data that does not match ends the operation with
 * NA_CHECKSUM_ERROR; its receiver counts rma_damaged. NA_OPNOTSUPPORT (not
 * logged), unless `on` is false: the transport itself moves all or some of the
 * bytes. */
HG_PRIVATE na_return_t na_emul_sum_frames(struct na_class *na_class, bool on);

/* The slots of struct na_plugin with the same names. The lock is held, except
 * for deregistering, which waits for frames that the transport still holds. */
HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *handle);
HG_PRIVATE void na_emul_mem_deregister(struct na_mem_handle *handle);
HG_PRIVATE na_return_t na_emul_put(struct na_op *op);
HG_PRIVATE na_return_t na_emul_get(struct na_op *op);

/* The registered memory of this class that a handle names; NULL: none. The lock
 * is held. */
HG_PRIVATE const struct na_mem_handle *na_emul_mem_find(
    const struct na_mem_handle *remote);

/* Cancel a put or get. NA_SUCCESS: it completes with NA_CANCELED, or the result
 * it already has, when its local memory is not in use. NA_NOENTRY: there is no
 * such operation. The lock is held. */
HG_PRIVATE na_return_t na_emul_cancel(struct na_op *op, uint64_t op_id);

/* core->frame_arrived. Frames of one source arrive one at a time. The lock is
 * held. */
HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size);

/* core->frame_place and frame_unplace. The lock is held around the first. */
HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p);
HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place);

/* The peer died: operations in flight with it end with `ret`. The caller holds
 * a reference and the lock. */
HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret);

/* Deregister memory of the library that `user` can access, and free its handle,
 * without waiting. False: the memory is not in use, and the caller still owns
 * `buf`, which contains it. True: `buf` is taken, and freed by hg_mem_free when
 * its last frame was sent and the transport no longer moves it. Until then its
 * size is counted for `user`. The lock is not held. */
HG_PRIVATE bool na_emul_withdraw(
    struct na_mem_handle *handle, void *buf, struct na_addr *user);

/* The bytes counted by na_emul_withdraw. */
HG_PRIVATE uint64_t na_emul_lingering(const struct na_addr *user);

/* A context is being destroyed: its operations complete with NA_CANCELED (or
 * the result they already have) before this returns, and nothing uses their
 * memory any more. Waits like deregistering. The lock is held, and released
 * while it waits. */
HG_PRIVATE void na_emul_context_gone(struct na_context *context);

/* The local memory of puts and gets is being freed, and no thread starts one:
 * they complete with NA_CANCELED (or the result they already have), and nothing
 * uses the memory after this returned. Waits like deregistering. The lock is
 * not held. */
HG_PRIVATE void na_emul_end_local(const struct na_mem_handle *mem);

/* Send frames as windows and the transport allow, a limited number; returns the
 * number of things done. Called by progress after each poll of the transport.
 * The lock is held, also for na_emul_due. */
HG_PRIVATE unsigned na_emul_poll(struct na_emul *emul);

/* When to poll without being woken. 0: there is work; a short time: transfers
 * exist, whose frames the transport may return; HG_CLOCK_NEVER: no transfers.
 * Called by progress after it armed its waker, before it sleeps: work that is
 * added later wakes it. */
HG_PRIVATE uint64_t na_emul_due(const struct na_emul *emul);

#endif
