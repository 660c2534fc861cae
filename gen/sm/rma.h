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
/*
 * sm_reach: what is agreed on the pair's socket before an initiator touches a
 * peer's memory: a permit to do so, and how its arenas come to be mapped here.
 *
 *     initiator                          owner
 *       ASK: arena id ------------------->
 *       <------------- GRANT: arena id, + its descriptor
 *     or
 *       <------------- GRANT: arena id, without: no, or not now
 *
 * A transfer takes the other ways until the arena is there, and for good if it
 * does not come; with HG_SM_RMA=map it waits for the answer. An arena is
 * granted once in a connection, so there are at most 64 such packets each way
 * and floods of ASK come to nothing; what makes no sense is counted and
 * ignored:
 *
 *     sm_arena_granted   arenas that were given to peers
 *     sm_arena_refused   ASK for what there is not, or was granted before
 *     sm_arena_stray     GRANT that nobody asked for, or of no arena
 *     sm_rma_permits     peers that may touch memory
 *
 * Id 0 is no arena but the permit, always granted and without a descriptor.
 * From then on, and only then, the owner heeds the peer's hazard words: so who
 * withdraws memory looks at those few of its peers who move any. For the permit
 * transfers wait.
 *
 * Linux may deny all but its ancestors to read a process's memory (Yama, where
 * ptrace_scope is 1), unless the process allows it. With HG_SM_RMA=vm the owner
 * allows it to every process of its user before the first permit
 * (PR_SET_PTRACER), and logs that at level info. Otherwise the copies of peers
 * are denied there, and frames carry the data.
 *
 * The descriptor is closed once it is mapped, so a peer never has more than
 * two. A mapped arena is open to the peer as a whole.
 *
 * Locking: the lock of the class guards the table of windows, the marks of
 * grants and permits; packets are the polling thread's.
 */
/*
 * sm_rma: put and get between two processes of one node: the kernel copies
 * between their memories (process_vm_readv, process_vm_writev), and where it
 * will not, the emulation's frames carry the bytes through the rings.
 *
 * sm_mem.h tells what memory may be touched, and until when. A piece (at most
 * 1 MiB) is moved while a hazard word holds the memory's key, and only if the
 * mark is in the slot. A direction has NA_SM_HAZARDS words, so as many threads
 * can copy at a time; if none is free the piece waits.
 *
 * An initiator asks a peer once, before it first touches memory of its, for its
 * permit (ASK 0; see sm_reach.h). Operations wait for the answer, which needs
 * the peer's progress; the wait ends if the connection is closed meanwhile.
 *
 * Hazard words are valid as long as their pair, so a pair must not end while a
 * piece is copied: pieces begin in state READY only, and a BYE or BYE_ACK is
 * sent when no piece is under way. A side whose BYE is not answered in time
 * sets `over` in the pair, then looks for hazard words, and keeps the pair
 * while there are any; the initiator checks `over` after it wrote its own word.
 * A pair that breaks is kept until the process ends.
 *
 * Identity: the process is addressed by the pid of the socket's credentials.
 * This pid can be invalid in another pid namespace, and after the peer's death
 * another process may have it. So each read has one more segment, the word at
 * which the peer's incarnation lies according to its public page. The kernel
 * finds the process once in a call, so the word and the data are of one
 * process, and with a wrong word the data is discarded. The pair's socket
 * proves less: it lives as long as any process has it, a child of the peer for
 * example, and does not cover the moment of the copy; and a check of it before
 * and after costs twice as much (10 against 5 % of a read of 64 KiB). A write
 * cannot carry such a word, and a read of it costs as much as five checks, so
 * the socket is checked before and after each write. The first read from a peer
 * is of the word alone: a wrong word there is a denial; later it ends the
 * connection.
 *
 * Denied (not dumpable, Yama, another namespace, no such call): from then on,
 * as long as the connection lasts, everything goes through the rings, the rest
 * of the operation first; one line is logged. HG_SM_RMA=copy does so from the
 * start; HG_SM_RMA=vm makes a denial NA_PERMISSION. The counters sm_rma_vm and
 * sm_rma_copied tell bytes, sm_rma_calls the calls of the kernel that copied.
 *
 * Memory that the library allocated lies in an arena. Once the initiator has
 * mapped that, it copies by itself, under the same hazard words, with no call
 * of the kernel and whether or not that denies its copies; until then the
 * bytes go the other ways. HG_SM_RMA=map has them wait for the mapping, asleep
 * like those that wait for the permit. The counter sm_rma_mapped tells such
 * bytes; HG_SM_RMA=vm has none.
 *
 * Up to 256 KiB are moved in the caller's thread, at once. More is queued and
 * moved by the thread that polls, one piece of each operation in turn, so that
 * small calls pass and a cancel takes effect in between.
 *
 * Locking: the class lock guards the queue and running operations. No lock is
 * held during a copy.
 */
#ifndef HG_GEN_SM_RMA_H
#define HG_GEN_SM_RMA_H

#include "sm/peer.h"

#if HG_ENABLE_SM

/* ==== mem ==== */

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

/* ==== reach ==== */

enum na_sm_reach {
    NA_SM_REACH_HERE,
    NA_SM_REACH_ASKED, /* perhaps later */
    NA_SM_REACH_NEVER
};

/* Where bytes of a peer's arena are in this process. The lock is held,
 * and the place is good as long as it is, or as na_sm_peer_part is kept from
 * running otherwise. Asks the peer at the first use of an arena. */
HG_PRIVATE enum na_sm_reach na_sm_reach(struct na_sm_addr *addr, uint32_t id,
    uint64_t offset, uint64_t size, bool write, unsigned char **at_p);

/* Whether an arena was asked for, and the answer is still to come: then
 * na_sm_peer_resume is called after it. */
HG_PRIVATE bool na_sm_reach_awaits(struct na_sm_addr *addr, uint32_t id);

/* Ask a peer for its permit, unless that was done. A failure is found out by
 * asking again. */
HG_PRIVATE void na_sm_reach_permit(struct na_sm_addr *addr);

/* A packet came from a peer after the connection began; its descriptors stay
 * the caller's. */
HG_PRIVATE void na_sm_reach_hear(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet);

/* ==== rma ==== */

/* Begin with a class, and end: no registration is left. NA_INVALID_ARG,
 * logged: HG_SM_RMA is none of the words it may be. */
HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self);
HG_PRIVATE void na_sm_rma_fini(struct na_sm_class *self);

/* The slots put and get, rma_now and mem_end_local of struct na_plugin. */
HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op);
HG_PRIVATE na_return_t na_sm_rma_now(const struct na_op *op);
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
