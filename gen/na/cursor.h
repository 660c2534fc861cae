/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cursor: a place in described memory, moving forward.
 *
 * Memory is a list of segments addressed by a logical offset into their
 * concatenation. A cursor turns that into addresses, a contiguous run at a
 * time, and never looks at a segment twice, so that walking 65,536 segments
 * costs as many steps. Segments may be empty.
 *
 * Invariant: the cursor stands at or before the end of its memory; callers
 * check ranges before they set it. Locking: none, a cursor belongs to one
 * thread at a time; it borrows the handle's segments.
 */
#ifndef HG_GEN_NA_CURSOR_H
#define HG_GEN_NA_CURSOR_H

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

#endif
