/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_check: whether bulk data came as it left.
 *
 * RMA has one side, so the other one is asked. When a transfer has moved its
 * data, the side that moved it computes the CRC-64 of its memory and calls the
 * owner of the other memory. The owner compares it with the CRC-64 of the same
 * range there, and answers with HG_SUCCESS or HG_CHECKSUM_ERROR. It does not
 * tell its own value: a peer that may only write memory does not learn what it
 * holds. The call is one like others, to a function of the library's own
 * (module builtin) that a class serves if it has the option bulk_checksum. So
 * it ends with its peer, with its context, or when it is canceled. A few bytes
 * make the owner read gigabytes, so it reads a limited part in each turn.
 *
 *     hg_transfer_drop_piece   all was moved: the checker's begin
 *       hg_bulk_check_ask      the sum, the call
 *     hg_bulk_check_serve      at the owner: compares
 *     hg_bulk_check_ended      the answer: hg_transfer_checked
 *
 * A handle is named by the owner's incarnation and its id, as on the wire; the
 * one who asks knows them as whoever may move the memory does.
 *
 * Both values are of memory as it is after the transfer, so it is to rest until
 * that has ended; a sum cannot tell a change from damage.
 *
 * Locking: none of its own. The memory is held while it is read.
 */
#ifndef HG_GEN_HG_BULK_CHECK_H
#define HG_GEN_HG_BULK_CHECK_H

#include "hg/bulk_transfer.h"

/* For homes of transfers, which are members of a context. */
HG_PRIVATE const struct hg_transfer_checker *hg_bulk_check_table(void);

/* What serves the question, and its proc; it has no output. */
HG_PRIVATE hg_return_t hg_bulk_check_serve(hg_handle_t handle);
HG_PRIVATE hg_return_t hg_bulk_check_proc(hg_proc_t proc, void *data);

#endif
