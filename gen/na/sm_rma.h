/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef HG_GEN_NA_SM_RMA_H
#define HG_GEN_NA_SM_RMA_H

#include "na/sm_mem.h"
#include "na/sm_reach.h"

#if HG_ENABLE_SM

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
