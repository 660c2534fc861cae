/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: memory handles, cursors, and the checks before data moves.
 *
 * A handle describes memory by segments; everything else speaks of logical
 * offsets into their concatenation. Bounds and permissions of both sides are
 * checked here as far as the descriptions tell; the target checks its own
 * side again, because a description came over the wire.
 *
 * A cursor turns a logical offset into addresses, a contiguous run at a time.
 * It never looks at a segment twice, so walking 65,536 segments takes as many
 * steps. Segments may be empty. It belongs to one thread at a time and borrows
 * the handle's segments. It stands at or before the end of its memory: callers
 * check ranges before they set it.
 *
 * Locking: the lock of the class guards the list of handles; use and
 * registration are atomics of the handle.
 */
#ifndef HG_GEN_NA_RMA_H
#define HG_GEN_NA_RMA_H

#include "na/core.h"

struct na_cursor {
    const struct na_segment *segments;
    na_size_t count;
    na_size_t index;  /* segment it stands in */
    na_size_t offset; /* into that segment; at most its size */
};

/* Stand at a logical offset of memory whose segments are known, at most its
 * size. */
HG_PRIVATE void na_cursor_init(struct na_cursor *cursor,
    const struct na_mem_handle *mem, na_offset_t offset);

/* The contiguous bytes here: their address, and in *size_p how many, 1 to
 * `limit`. There must be a byte left, and `limit` not 0. */
HG_PRIVATE char *na_cursor_run(
    struct na_cursor *cursor, na_size_t limit, na_size_t *size_p);

/* Pass over `size` bytes of the run. */
HG_PRIVATE void na_cursor_advance(struct na_cursor *cursor, na_size_t size);

/* Copy runs shorter than `piece` to `buf`, up to `size` bytes, which must be
 * there; stop before a longer one. The number of bytes copied. */
HG_PRIVATE na_size_t na_cursor_gather(
    struct na_cursor *cursor, void *buf, na_size_t size, na_size_t piece);

/* Copy `size` bytes of `data` into the memory from here on. */
HG_PRIVATE void na_cursor_scatter(
    struct na_cursor *cursor, const void *data, na_size_t size);

/* Copy between two local descriptions, which may overlap within a segment;
 * ranges are checked already. */
HG_PRIVATE void na_rma_copy(const struct na_mem_handle *to,
    na_offset_t to_offset, const struct na_mem_handle *from,
    na_offset_t from_offset, na_size_t size);

/* Start a put or get whose end goes to `lane`; NA_Put and NA_Get, and the
 * bulk room, end here. Checked arguments: none of them NULL. */
HG_PRIVATE na_return_t na_rma_start(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr, na_op_id_t *op_id);

/* Do one at once, in this thread: its result. NA_AGAIN: it is to be started.
 * Both handles are kept by the caller. The lock of the class is held, and left
 * during a copy that is not small. As na_rma_start else, but that it does not
 * log that the peer is dead. */
HG_PRIVATE na_return_t na_rma_now(struct na_context *context, na_cb_type_t type,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr);

/* A handle of one part alone, for memory that is for one peer. */
HG_PRIVATE na_return_t na_rma_create(struct na_class *part, void *buf,
    na_size_t size, unsigned long flags, struct na_mem_handle **mem_p);

/* The two halves of freeing a handle that nobody uses: the class forgets it,
 * and its memory goes, deregistered if it was not yet. */
HG_PRIVATE void na_rma_forget(struct na_mem_handle *handle);
HG_PRIVATE void na_rma_delete(struct na_mem_handle *handle);

/* Memory of the library's own, zeroed, for a handle with `flags`: the
 * transport's, or ordinary. The block may outlive the class. NA_NOMEM, not
 * logged. */
HG_PRIVATE na_return_t na_rma_alloc(struct na_class *na_class, na_size_t size,
    unsigned long flags, struct na_mem_block *block_p);

/* Free it; a block of zeros is allowed. */
HG_PRIVATE void na_rma_free(struct na_mem_block *block);

/* Release leaked handles; the number. The class is closing. */
HG_PRIVATE unsigned na_rma_release_all(struct na_class *na_class);

#endif
