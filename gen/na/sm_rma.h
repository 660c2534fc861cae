/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_rma: put and get between two processes of one node: the kernel copies
 * between their memories (process_vm_readv, process_vm_writev), and where it
 * will not, the emulation's frames carry the bytes through the rings.
 *
 * A registration is a slot of the owner's public page and the generation that
 * stands there; odd while somebody is registered. A serialized handle is the
 * emulation's, and behind it
 *
 *     24            32           40      44     46      47      48           56
 *     +-------------+------------+-------+------+-------+-------+------------+
 *     | incarnation | place      | count | slot | arena | width | generation |
 *     +-------------+------------+-------+------+-------+-------+------------+
 *     56             64
 *     +--------------+
 *     | arena offset |
 *     +--------------+
 *
 * `place` is where the one segment lies, or, if `count` is not 1, the array of
 * them: the initiator fetches that on first use. `width` is the size of a
 * pointer, 0 where the memory has no slot. Arena 0: none; the owner's memory
 * is the application's own.
 *
 * Memory that is withdrawn is not touched any more. Before each piece (at most
 * 1 MiB) the initiator writes the slot into a hazard word of the pair, then
 * looks whether the generation is still that of the handle; the owner raises
 * the generation, then looks whether a hazard word names the slot, and waits
 * until none of a living peer does. Of two who publish before they look, one
 * sees the other. A direction has NA_SM_HAZARDS words, so that as many threads
 * can copy at a time; none is free: later.
 *
 * Hazards count as long as their pair does, so a pair must not end under a
 * piece: pieces begin while the state is READY only, and the words of a goodbye
 * wait for those under way. A pair that breaks ends with the process.
 *
 * Whose memory it is: a process is named by the number that the socket's
 * credentials told, which is good as long as that socket lives: looked at
 * before and after each piece. A number can be meaningless in another namespace
 * of processes: so the first thing read from a peer is its incarnation, from
 * where its public page says that it lies; another value is a denial.
 *
 * Denied (not dumpable, Yama, another namespace, no such call): from then on,
 * as long as the connection lasts, everything goes through the rings, the rest
 * of the operation first; one line tells. HG_SM_RMA=copy has it so from the
 * start; HG_SM_RMA=vm makes a denial NA_PERMISSION. The counters sm_rma_vm and
 * sm_rma_copied tell bytes, sm_rma_calls the calls of the kernel that copied.
 *
 * Memory that the library allocated lies in an arena. Once the initiator has
 * mapped that, it copies by itself, under the same hazard words, with no call
 * of the kernel and whether or not that denies its copies; until then the
 * bytes go the other ways. HG_SM_RMA=map has them wait for the mapping. The
 * counter sm_rma_mapped tells such bytes; HG_SM_RMA=vm has none.
 *
 * Up to 256 KiB are moved in the caller's thread, at once. More is queued and
 * moved by who polls, a piece of each operation in turns, so that small calls
 * pass and cancel takes effect in between.
 *
 * Locking: the class lock guards slots, the queue and what runs; the address
 * lock the set of hazard words in use. None is held during a copy.
 */
#ifndef HG_GEN_NA_SM_RMA_H
#define HG_GEN_NA_SM_RMA_H

#include "na/sm_reach.h"

#if HG_ENABLE_SM

/* Memory, ours or a peer's. */
struct na_sm_mem {
    struct na_mem_handle base;
    uint32_t slot; /* NA_SM_SLOTS: none */
    uint64_t generation;
    uint32_t arena; /* that it lies in, of its owner's; 0: none */
    uint64_t arena_offset;
    /* A peer's. */
    bool direct;           /* the fields below mean something */
    _Atomic bool known;    /* the segments were fetched; base has them */
    uint64_t owner;        /* its incarnation */
    uint64_t place;        /* of the array of segments */
    uint32_t count;        /* of them */
    struct na_segment one; /* where there is one */
};

/* Begin with a class, and end: no registration is left. NA_INVALID_ARG,
 * logged: HG_SM_RMA is none of the words it may be. */
HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self);
HG_PRIVATE void na_sm_rma_fini(struct na_sm_class *self);

/* The slots of struct na_plugin with the same names. */
HG_PRIVATE na_return_t na_sm_rma_register(struct na_mem_handle *mem);
HG_PRIVATE void na_sm_rma_deregister(struct na_mem_handle *mem);
HG_PRIVATE void na_sm_rma_retract(struct na_mem_handle *mem);
HG_PRIVATE na_size_t na_sm_rma_serialize_size(const struct na_mem_handle *mem);
HG_PRIVATE void na_sm_rma_serialize(const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_sm_rma_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);
HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op);
HG_PRIVATE void na_sm_rma_end_local(const struct na_mem_handle *mem);

/* Wait until no piece of an operation of `context` is under way. */
HG_PRIVATE void na_sm_rma_context_gone(const struct na_context *context);

/* Have the operation that runs end with NA_CANCELED after its piece, unless
 * that is the last; false: it is another. The class lock is held. */
HG_PRIVATE bool na_sm_rma_cancel_running(
    struct na_sm_class *self, uint64_t op_id);

/* Move a piece of the operation whose turn it is; the number of things
 * done. */
HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self);

/* Whether poll has something to move; the class lock is held. */
static inline bool na_sm_rma_has_work(const struct na_sm_class *self)
{
    return !hg_list_is_empty(&self->transfers);
}

#endif
#endif
