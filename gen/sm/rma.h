/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: memory registered with sm, and put and get between two processes of one
 * node.
 *
 * Memory that is serialized for peers gets a slot in the owner's public page. A
 * serialized handle is that of the emulation, followed by
 *
 *     24            32     36     40
 *     +-------------+------+------+
 *     | incarnation | slot | zero |
 *     +-------------+------+------+
 *
 * `slot` counts from 1; 0: the memory has none, and frames of the emulation
 * move its data. The handle contains no address. The initiator reads address,
 * size and access of the memory from the slot, that is from the owner itself,
 * if the mark there matches the handle's key. So with a forged handle an
 * initiator accesses only memory of the owner that the author of the handle
 * could access by frames. Memory of several segments is described by an array
 * in the owner's memory, which is fetched on first use.
 *
 * A piece (at most 1 MiB) is moved in the first possible way; HG_SM_RMA selects
 * the ways:
 * - Memory that the library allocated is in an arena, which the initiator has
 *   mapped: it copies the data itself (counter sm_rma_mapped).
 * - The kernel copies between the two processes: process_vm_readv and
 *   process_vm_writev (sm_rma_vm; sm_rma_calls counts the calls).
 * - If the kernel refuses (not dumpable, Yama, another namespace, no such
 *   call), frames of the emulation pass through the rings (sm_rma_copied),
 *   until the connection ends; one line is logged. With HG_SM_RMA=vm the result
 *   is NA_PERMISSION instead.
 *
 * EFAULT means that the memory of one side cannot be accessed: the operation
 * ends with NA_FAULT, and no process accesses that memory itself. The library's
 * own memory cannot fault, but the initiator's side of a copy through a mapping
 * can: that is the memory of the process that makes the copy.
 *
 * With HG_SM_RMA=vm a class lets the processes of its user read its memory
 * (PR_SET_PTRACER), since Yama may permit that only to ancestors.
 *
 * Hazard words: withdrawn memory must not be accessed any more. Before each
 * piece the initiator writes the key into a hazard word of the pair, then
 * checks that the mark is in the slot. The owner clears the mark, then searches
 * the hazard words of its peers for the key, and waits until no living peer has
 * it. Both publish before they check, so at least one of them sees the other. A
 * peer that did not get the description does not know the key, so it cannot
 * hold the memory. No peer knows memory that was never serialized.
 *
 * There is no time limit: a peer that is stopped during a copy (SIGSTOP, a
 * debugger) finishes it when it continues. After death_ms a log line names the
 * process. The library does not wait for its own buffers: the emulation frees
 * them when no hazard word has the key.
 *
 * Identity: the kernel addresses a process by the pid in the socket's
 * credentials. The pid can be invalid in another pid namespace, and after the
 * peer's death it may belong to another process. So each read has one more
 * segment, the word that contains the peer's incarnation according to its
 * public page. The kernel looks up the process once per call, so the word and
 * the data come from one process; with a wrong word the data is discarded. The
 * first read from a peer reads only the word: if it is wrong there, the
 * kernel's copy is not used; if it is wrong later, the connection ends. A write
 * cannot check such a word, so the socket is checked before and after it.
 *
 * Up to 256 KiB are moved at once in the caller's thread. More is queued and
 * moved by the polling thread, one piece of each operation in turn, so that
 * small calls are not delayed and a cancel takes effect between pieces.
 *
 * Locking: the class's lock, which is released during a copy, unless the caller
 * already held it.
 */
#ifndef HG_GEN_SM_RMA_H
#define HG_GEN_SM_RMA_H

#include "sm/flow.h"

#if HG_ENABLE_SM

#define NA_SM_MEM_HANDLE 40u /* bytes of a serialized handle */
/* Memory with more segments has no slot. */
#define NA_SM_MEM_SEGMENTS ((na_size_t) 1 << 20)

/* Memory of this process or a peer. */
struct na_sm_mem {
    struct na_mem_handle base;
    uint32_t slot; /* NA_SM_SLOTS: none */
    /* Of a peer: */
    uint64_t owner;      /* its incarnation */
    uint64_t mark;       /* of the key */
    na_size_t described; /* size of the fetched segments */
};

static inline struct na_sm_mem *na_sm_mem_of(const struct na_mem_handle *mem)
{
    return (struct na_sm_mem *) (uintptr_t) mem;
}

/* Initialize a class. NA_INVALID_ARG, logged: HG_SM_RMA has an invalid
 * value. */
HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self);

/* The slots of struct na_plugin with such names. */
HG_PRIVATE na_return_t na_sm_mem_register(struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_deregister(struct na_mem_handle *mem);
HG_PRIVATE na_bool_t na_sm_mem_retract(struct na_mem_handle *mem);
HG_PRIVATE na_size_t na_sm_mem_serialize_size(const struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_serialize(const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_sm_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

HG_PRIVATE na_return_t na_sm_mem_map(struct na_mem_handle *mem,
    struct na_addr *owner, na_size_t segment, struct na_mem_block *block);

/* The slots put and get, rma_now and mem_end_local. */
HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op);
HG_PRIVATE na_return_t na_sm_rma_now(const struct na_op *op);
HG_PRIVATE void na_sm_rma_end_local(const struct na_mem_handle *mem);

/* The slot context_destroy: wait until no piece of an operation of `context` is
 * in progress. */
HG_PRIVATE void na_sm_rma_context_gone(struct na_context *context);

/* Make the running operation end with NA_CANCELED after its piece, unless that
 * is the last; false: another one runs. */
HG_PRIVATE bool na_sm_rma_cancel_running(
    struct na_sm_class *self, const struct na_op *op, uint64_t op_id);

/* Move a piece of the next operation; returns the number of things done. */
HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self);

#endif
#endif
