/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: memory that is registered with sm, and put and get between two processes
 * of one node.
 *
 * Memory that is serialized for peers gets a slot in the owner's public page. A
 * serialized handle is the emulation's, and behind it
 *
 *     24            32     36     40
 *     +-------------+------+------+
 *     | incarnation | slot | zero |
 *     +-------------+------+------+
 *
 * `slot` counts from 1; 0: the memory has none, and frames of the emulation
 * carry it. There is no place in the handle: where the memory is, how much of
 * it there is, and what may be done with it, the initiator learns from the
 * slot, of the owner itself, if the mark there is that of the handle's key. So
 * a forged handle gets an honest initiator to touch nothing of the owner's but
 * what its author could touch by frames. Memory of several segments is
 * described by an array in the owner's memory, which is fetched on first use.
 *
 * Ways to move a piece (at most 1 MiB), in this order; HG_SM_RMA chooses:
 *   - Memory that the library allocated lies in an arena, which the initiator
 *     has mapped: it copies by itself (counter sm_rma_mapped).
 *   - The kernel copies between the two processes: process_vm_readv and
 *     process_vm_writev (sm_rma_vm; sm_rma_calls counts the calls).
 *   - Where the kernel will not (not dumpable, Yama, another namespace, no such
 *     call), frames of the emulation go through the rings (sm_rma_copied): from
 *     then on, as long as the connection lasts; one line is logged. With
 *     HG_SM_RMA=vm this is NA_PERMISSION instead.
 * With HG_SM_RMA=vm a class lets the processes of its user read its memory
 * (PR_SET_PTRACER): Yama may let only ancestors do that.
 *
 * Hazard words: memory that is withdrawn is not touched any more. Before each
 * piece the initiator writes the key into a hazard word of the pair, then looks
 * whether the mark is in the slot; the owner clears the mark, then looks for
 * the key in the hazard words of its peers, and waits until no living peer has
 * it. Both publish before they look, so one of them sees the other. A peer to
 * whom the memory was not described does not know the key, so it cannot keep
 * the memory. Memory that was never serialized is known to nobody.
 *
 * There is no time limit: a peer that is stopped in the middle of a copy
 * (SIGSTOP, a debugger) finishes it when it goes on. After death_ms a line in
 * the log names the process. The library's own buffers are not waited for: the
 * emulation frees them once no hazard word has the key.
 *
 * Identity: the process is addressed by the pid of the socket's credentials.
 * This pid can be invalid in another pid namespace, and after the peer's death
 * another process may have it. So each read has one more segment, the word at
 * which the peer's incarnation lies according to its public page. The kernel
 * finds the process once in a call, so the word and the data are of one
 * process, and with a wrong word the data is discarded. The first read from a
 * peer is of the word alone: a wrong word there is a denial; later it ends the
 * connection. A write cannot carry such a word, so the socket is checked before
 * and after it.
 *
 * Up to 256 KiB are moved in the caller's thread, at once. More is queued and
 * moved by the thread that polls, one piece of each operation in turn, so that
 * small calls pass and a cancel takes effect in between.
 *
 * Locking: the class's lock, which is left during a copy, unless the caller
 * entered with it.
 */
#ifndef HG_GEN_SM_RMA_H
#define HG_GEN_SM_RMA_H

#include "sm/flow.h"

#if HG_ENABLE_SM

#define NA_SM_MEM_HANDLE 40u /* bytes of a serialized handle */
#define NA_SM_MEM_SEGMENTS ((na_size_t) 1 << 20) /* more have no slot */

/* Memory, ours or a peer's. */
struct na_sm_mem {
    struct na_mem_handle base;
    uint32_t slot; /* NA_SM_SLOTS: none */
    /* A peer's. */
    uint64_t owner;      /* its incarnation */
    uint64_t mark;       /* of the key */
    na_size_t described; /* bytes of base's segments, when it has them */
};

static inline struct na_sm_mem *na_sm_mem_of(const struct na_mem_handle *mem)
{
    return (struct na_sm_mem *) (uintptr_t) mem;
}

/* Begin with a class. NA_INVALID_ARG, logged: HG_SM_RMA is none of the words it
 * may be. */
HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self);

/* The slots of struct na_plugin with such names. */
HG_PRIVATE na_return_t na_sm_mem_register(struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_deregister(struct na_mem_handle *mem);
HG_PRIVATE na_bool_t na_sm_mem_retract(struct na_mem_handle *mem);
HG_PRIVATE na_size_t na_sm_mem_serialize_size(const struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_serialize(const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_sm_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

/* The slots put and get, rma_now and mem_end_local. */
HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op);
HG_PRIVATE na_return_t na_sm_rma_now(const struct na_op *op);
HG_PRIVATE void na_sm_rma_end_local(const struct na_mem_handle *mem);

/* The slot context_destroy: wait until no piece of an operation of `context` is
 * under way. */
HG_PRIVATE void na_sm_rma_context_gone(struct na_context *context);

/* Have the operation that runs end with NA_CANCELED after its piece, unless
 * that is the last; false: it is another. */
HG_PRIVATE bool na_sm_rma_cancel_running(
    struct na_sm_class *self, const struct na_op *op, uint64_t op_id);

/* Move a piece of the operation whose turn it is; the number of things
 * done. */
HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self);

#endif
#endif
