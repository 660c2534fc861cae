/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul: remote memory access over messages, for every transport that has
 * none of its own.
 *
 * A transport that leaves put and get empty and offers frame_send gets them
 * from here. The initiator names a registration by a random 64-bit key, an
 * offset and a length; the target, while it makes progress, checks key,
 * bounds and permission, and sends the data straight from the registered
 * memory, or receives it straight into it, in frames under a window. Nothing
 * a peer says is used as a pointer, a size or an index before it is checked.
 *
 *     get:  initiator            target     put:  initiator            target
 *           GET_REQ --------------->              PUT_REQ + data -------->
 *              <------------- GET_DATA            PUT_DATA -------------->
 *              <------------- GET_DATA               <------------ PUT_ACK
 *           GET_ACK -------------->               PUT_DATA -------------->
 *              <------------- GET_DATA               <--------------- DONE
 *           GET_ACK -------------->
 *
 * A refusal is a DONE with the reason. An initiator that gives up sends
 * ABORT. Frames arrive in the order they were sent; so data of a transfer is
 * expected in sequence, and everything else is a peer's mistake.
 *
 * What it asks of a transport: frames between two addresses keep their order;
 * the answer to a frame is sent to its source, and arrives from the address
 * that the question was sent to; frame_send may say NA_AGAIN, and the
 * transport wakes progress when there is room again.
 *
 * Rooms: cursor (places in memory), emul_wire (frames as bytes), emul_xfer
 * (transfers and their life), emul_send (what goes out, and when), emul (the
 * slots, and what comes in).
 *
 * Locking: one mutex per class guards registrations and transfers. It is
 * never held while a slot of the transport or core->complete is called, nor
 * while payload is copied: memory in use is pinned by counts instead, and
 * deregistration waits for them. A slow or stopped peer holds them as long as
 * it likes to, up to its death; so the library's own memory, which no
 * application wants back at once, is withdrawn instead: what is in use is left
 * to the last who uses it.
 */
#ifndef HG_GEN_NA_EMUL_H
#define HG_GEN_NA_EMUL_H

#include "base/os.h"

struct na_emul;

/* State of one class, whose transport has frame_send; frame size and window
 * come from na_class->info. NULL: out of memory (logged). */
HG_PRIVATE struct na_emul *na_emul_create(struct na_class *na_class);

/* No context is left and the transport is closed, so every release callback
 * has run. Drops its references of addresses: they are still valid. */
HG_PRIVATE void na_emul_destroy(struct na_emul *emul);

/* The slots of struct na_plugin with the same names; see there. Deregistering
 * waits for frames that the transport still holds: their release must not
 * depend on what the waiting thread does next. */
HG_PRIVATE na_return_t na_emul_mem_register(struct na_mem_handle *mem);
HG_PRIVATE void na_emul_mem_deregister(struct na_mem_handle *mem);
HG_PRIVATE na_size_t na_emul_mem_serialize_size(
    const struct na_mem_handle *mem);
HG_PRIVATE void na_emul_mem_serialize(
    const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);
HG_PRIVATE na_return_t na_emul_put(struct na_op *op);
HG_PRIVATE na_return_t na_emul_get(struct na_op *op);

/* Take a put or get back: NA_SUCCESS (it completes with NA_CANCELED, or the
 * result it already has, once no local memory of it is in use), or NA_NOENTRY
 * when the operation of that identifier is not here (any more). */
HG_PRIVATE na_return_t na_emul_cancel(struct na_op *op, uint64_t op_id);

/* core->frame_arrived. The frames of one source come one at a time. */
HG_PRIVATE void na_emul_frame_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size);

/* core->frame_place and frame_unplace. Memory that is placed counts as a frame
 * in the transport's hands. */
HG_PRIVATE void *na_emul_frame_place(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size, size_t size,
    void **place_p);
HG_PRIVATE void na_emul_frame_unplace(struct na_class *na_class, void *place);

/* The peer is gone, and core->addr_is_dead says so already: what is in flight
 * with it ends with `ret`. */
HG_PRIVATE void na_emul_addr_dead(struct na_addr *addr, na_return_t ret);

/* Take back memory of the library's own that `user` could reach, and free its
 * handle; nobody is waited for. False: the memory is used no more, and `buf`,
 * which holds it, is the caller's as before. True: frames or copies, or pieces
 * that the transport moves, use it still. Then `buf` is taken, and freed by
 * hg_mem_free once they do not; until then its size is counted for `user`. */
HG_PRIVATE bool na_emul_withdraw(
    struct na_mem_handle *mem, void *buf, struct na_addr *user);

/* Bytes so counted. */
HG_PRIVATE uint64_t na_emul_lingering(const struct na_addr *user);

/* A context is being destroyed: its operations complete with NA_CANCELED (or
 * the result they already have) before this returns, and nothing touches
 * their memory any more. Waits as deregistering does. */
HG_PRIVATE void na_emul_context_gone(struct na_context *context);

/* The local memory of puts and gets is being freed, and no thread starts one:
 * they complete with NA_CANCELED (or the result they already have), when
 * polled, and nothing touches it any more once this returned. Waits as
 * deregistering does. A transport with RMA of its own and nothing to hand over
 * has moved the bytes when its put or get returns: nothing is to be done. */
HG_PRIVATE void na_emul_end_local(const struct na_mem_handle *mem);

/* Whether frames of puts and gets that this class starts have a CRC64 of their
 * data. NA_OPNOTSUPPORT (not logged), unless `on` is false: bytes move without
 * frames, all of them or some. No context is open yet. */
HG_PRIVATE na_return_t na_emul_sum_frames(struct na_class *na_class, bool on);

/* Send what windows and the transport allow now, a bounded number of frames;
 * the number of things done. Called by progress after each poll of the
 * transport. */
HG_PRIVATE unsigned na_emul_poll(struct na_emul *emul);

/* Whether poll has something to do. Asked by progress once it has armed its
 * waker, before it sleeps: whatever adds work later wakes. */
HG_PRIVATE bool na_emul_has_work(struct na_emul *emul);

/* When poll has something to do though nobody wakes; HG_CLOCK_NEVER. */
HG_PRIVATE uint64_t na_emul_due(struct na_emul *emul);

#endif
