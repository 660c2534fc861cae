/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: memory handles, cursors, and the checks before a transfer.
 *
 * A handle describes memory by segments; all other modules use logical offsets
 * into their concatenation. Bounds and access of both sides are checked here
 * according to the descriptions. The target checks its own side again, because
 * it cannot trust the description that the peer sends.
 *
 * A cursor converts a logical offset to addresses, one contiguous run at a
 * time. It visits each segment once, so passing over 65,536 segments takes as
 * many steps. Segments may be empty. A cursor belongs to one thread at a time
 * and borrows the handle's segments. Its position is at most the size of the
 * memory: callers check ranges first.
 *
 * Locking: the lock of the class guards the list of handles; the use count and
 * the registration of a handle are atomic.
 */
#ifndef HG_GEN_NA_RMA_H
#define HG_GEN_NA_RMA_H

#include "na/core.h"

struct na_cursor {
    const struct na_segment *segments;
    na_size_t count;
    na_size_t index;  /* current segment */
    na_size_t offset; /* offset in the segment, at most its size */
};

/* Set a cursor to a logical offset, at most the size of the memory, whose
 * segments are known. */
HG_PRIVATE void na_cursor_init(struct na_cursor *cursor,
    const struct na_mem_handle *mem, na_offset_t offset);

/* The contiguous bytes at the cursor: their address, and their number, 1 to
 * `limit`, in *size_p. At least one byte must be left, and `limit` must not be
 * 0. */
HG_PRIVATE char *na_cursor_run(
    struct na_cursor *cursor, na_size_t limit, na_size_t *size_p);

/* Advance by `size` bytes of the run. */
HG_PRIVATE void na_cursor_advance(struct na_cursor *cursor, na_size_t size);

/* Copy runs shorter than `piece` to `buf`, up to `size` bytes, which must
 * exist; stop at a longer run. Returns the number of bytes copied. The first
 * run is shorter; 0: the memory cannot be read. */
HG_PRIVATE na_size_t na_cursor_gather(
    struct na_cursor *cursor, void *buf, na_size_t size, na_size_t piece);

/* Copy `size` bytes of `data` into the memory at the cursor. False: it cannot
 * be written. */
HG_PRIVATE bool na_cursor_scatter(
    struct na_cursor *cursor, const void *data, na_size_t size);

/* Log that memory of this process cannot be accessed; returns NA_FAULT. */
HG_PRIVATE na_return_t na_rma_fault(na_size_t size, bool write);

#if HG_ENABLE_SM
/* Whether local memory can be read, or written. */
HG_PRIVATE bool na_rma_can_access(const struct na_mem_handle *mem,
    na_offset_t offset, na_size_t size, bool write);
#endif

/* Copy between two local handles, which may overlap within a segment. Ranges
 * were checked. */
HG_PRIVATE void na_rma_copy(const struct na_mem_handle *to,
    na_offset_t to_offset, const struct na_mem_handle *from,
    na_offset_t from_offset, na_size_t size);

/* Start a put or get that completes in `lane`. NA_Put, NA_Get and the bulk
 * modules call this. Arguments were checked; none is NULL. The lock is held,
 * and released during a copy that is not small. */
HG_PRIVATE na_return_t na_rma_start(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr, na_op_id_t *op_id);

/* Execute a put or get at once in this thread; returns its result. NA_AGAIN: it
 * must be started with na_rma_start. The caller keeps both handles. The lock of
 * the class is held, and released during a copy that is not small. Unlike
 * na_rma_start, it does not log that the peer is dead. */
HG_PRIVATE na_return_t na_rma_now(struct na_context *context, na_cb_type_t type,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size,
    struct na_addr *addr);

/* Create a handle of a single part, for memory that one peer uses. */
HG_PRIVATE na_return_t na_rma_create(struct na_class *part, void *buf,
    na_size_t size, unsigned long flags, struct na_mem_handle **mem_p);

/* Register a handle in all parts; the lock is held. On error some parts may
 * have it: deregister it. na_rma_deregister waits for the peers that use the
 * memory; the lock is not held. */
HG_PRIVATE na_return_t na_rma_register(struct na_mem_handle *handle);
HG_PRIVATE void na_rma_deregister(struct na_mem_handle *handle);

/* The two steps of freeing an unused handle: na_rma_forget removes it from its
 * class, na_rma_delete deregisters it if needed and frees it. The lock is not
 * held, except to delete a handle that is not registered. */
HG_PRIVATE void na_rma_forget(struct na_mem_handle *handle);
HG_PRIVATE void na_rma_delete(struct na_mem_handle *handle);

/* Allocate zeroed memory of the library for a handle with `flags`, from the
 * transport or from the heap. The block may outlive the class. NA_NOMEM, not
 * logged. */
HG_PRIVATE na_return_t na_rma_alloc(struct na_class *na_class, na_size_t size,
    unsigned long flags, struct na_mem_block *block_p);

/* As na_rma_alloc, from a transport only: block->size bytes. */
HG_PRIVATE na_return_t na_rma_alloc_shared(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block);

/* Free a block; a zeroed struct is allowed. */
HG_PRIVATE void na_rma_free(struct na_mem_block *block);

/* Refuse to map a peer's memory with `ret`: log and count it; returns `ret`. */
HG_PRIVATE na_return_t na_rma_refuse_map(
    const struct na_mem_handle *remote, na_return_t ret);

/* Whether a handle that a peer sent describes no more than the memory has.
 * NA_OVERFLOW, NA_PERMISSION, as na_rma_refuse_map. */
HG_PRIVATE na_return_t na_rma_check_described(
    const struct na_mem_handle *remote, na_size_t size, unsigned long flags);

/* Check arguments of the application: a class and a handle of it. Errors as
 * na_live_check; NA_INVALID_ARG, logged. */
HG_PRIVATE na_return_t na_rma_check_mem(const struct na_class *na_class,
    const struct na_mem_handle *mem, const char *function);

/* Replace *handle_p by the handle of a part. NA_PROTOCOL_ERROR, logged: the
 * peer did not describe its memory for that part. */
HG_PRIVATE na_return_t na_rma_pick(
    const struct na_class *part, struct na_mem_handle **handle_p);

/* Release leaked handles; returns their number. The class is closing. */
HG_PRIVATE unsigned na_rma_release_all(struct na_class *na_class);

#endif
