/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_mem: memory that is registered with sm: how peers learn of it, and how it
 * is withdrawn from them.
 *
 * A registration is a slot of the owner's public page. A serialized handle is
 * the emulation's, and behind it
 *
 *     24            32     36     40
 *     +-------------+------+------+
 *     | incarnation | slot | zero |
 *     +-------------+------+------+
 *
 * `slot` counts from 1; 0: the memory has none. There is no place in it: where
 * the memory is, how much of it there is, and what may be done with it, the
 * initiator learns from the slot, of the owner itself, if the mark there is
 * that of the handle's key. So whoever forges a handle gets an honest initiator
 * to touch nothing of the owner's but what it could touch by frames. Memory of
 * several segments is described by an array in the owner's memory, which is
 * fetched on first use.
 *
 * Memory that is withdrawn is not touched any more. Before each piece the
 * initiator writes the key into a hazard word of the pair, then looks whether
 * the mark is in the slot; the owner clears the mark, then looks for the key in
 * the hazard words, and waits until no living peer has it there. Both publish
 * before they look, so one of them sees the other. Only peers that asked for
 * the owner's permit are looked at (sm_reach.h): the others cost nothing. A
 * peer to whom the memory was not described does not know the key, so it cannot
 * keep the memory.
 *
 * An honest initiator is done with a piece within milliseconds unless it is
 * stopped (SIGSTOP, a debugger, a frozen control group, a page fault that
 * waits for a disk). Once a second NA_Mem_deregister looks at the threads of
 * each peer that still has the key in a hazard word. If all of them sleep the
 * connection ends. So it does after death_ms if some of them run: the scheduler
 * has let them finish a piece by then. If one is stopped, or if that cannot be
 * found out, the peer is waited for until it goes on or dies: the application
 * may unmap the memory next.
 *
 * The library's own buffers are not waited for. They are left to the emulation,
 * which frees them once no hazard word has the key (the counter rma_touched
 * tells how often that was not at once).
 *
 * Locking: the class lock guards the slots in use and the list of peers to look
 * at.
 */
#ifndef HG_GEN_NA_SM_MEM_H
#define HG_GEN_NA_SM_MEM_H

#include "na/sm_peer.h"

#if HG_ENABLE_SM

#define NA_SM_MEM_HANDLE 40u /* bytes of a serialized handle */
#define NA_SM_MEM_SEGMENTS ((na_size_t) 1 << 20) /* more have no slot */

/* Whether a handle of a peer's memory has the segments. */
enum na_sm_mem_state {
    NA_SM_MEM_UNKNOWN,
    NA_SM_MEM_LEARNING, /* one thread lays them down */
    NA_SM_MEM_KNOWN
};

/* Memory, ours or a peer's. */
struct na_sm_mem {
    struct na_mem_handle base;
    uint32_t slot; /* NA_SM_SLOTS: none */
    /* A peer's. */
    uint64_t owner;      /* its incarnation */
    uint64_t mark;       /* of the key */
    _Atomic int known;   /* enum na_sm_mem_state; KNOWN: base has them */
    na_size_t described; /* their bytes */
};

static inline struct na_sm_mem *na_sm_mem_of(const struct na_mem_handle *mem)
{
    return (struct na_sm_mem *) (uintptr_t) mem;
}

/* Begin with a class: NA_NOMEM (logged); and end: no registration is left. */
HG_PRIVATE na_return_t na_sm_mem_init(struct na_sm_class *self);
HG_PRIVATE void na_sm_mem_fini(struct na_sm_class *self);

/* The slots of struct na_plugin with such names. */
HG_PRIVATE na_return_t na_sm_mem_register(struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_deregister(struct na_mem_handle *mem);
HG_PRIVATE na_bool_t na_sm_mem_retract(struct na_mem_handle *mem);
HG_PRIVATE na_size_t na_sm_mem_serialize_size(const struct na_mem_handle *mem);
HG_PRIVATE void na_sm_mem_serialize(const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_sm_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

#endif
#endif
