/* SPDX-License-Identifier: BSD-3-Clause */
/* cursor: see cursor.h. */
#include "na/cursor.h"

/* The segment that holds logical `offset` (less than the size of `mem`), and
 * where in it: a binary search. */
static na_size_t na_cursor_find(
    const struct na_mem_handle *mem, na_offset_t offset, na_size_t *within_p)
{
    const na_offset_t *starts = na_mem_core_of(mem)->starts;
    na_size_t low = 0;
    na_size_t high = mem->segment_count;

    assert(offset < mem->size);
    /* The last segment that starts at or before the offset; of several that
     * start there (empty ones) the last is the one with bytes. */
    while (high - low > 1) {
        na_size_t middle = low + (high - low) / 2;

        if (starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    *within_p = offset - starts[low];
    assert(*within_p < mem->segments[low].size);
    return low;
}

HG_PRIVATE void na_cursor_init(struct na_cursor *cursor,
    const struct na_mem_handle *mem, na_offset_t offset)
{
    assert(mem->segments != NULL || mem->size == 0);
    assert(offset <= mem->size);
    cursor->segments = mem->segments;
    cursor->count = mem->segment_count;
    cursor->index = mem->segment_count;
    cursor->offset = 0;
    if (offset < mem->size)
        cursor->index = na_cursor_find(mem, offset, &cursor->offset);
}

HG_PRIVATE char *na_cursor_run(
    struct na_cursor *cursor, na_size_t limit, na_size_t *size_p)
{
    const struct na_segment *segment;
    na_size_t left;

    assert(limit > 0);
    for (;;) {
        assert(cursor->index < cursor->count);
        segment = &cursor->segments[cursor->index];
        assert(cursor->offset <= segment->size);
        left = segment->size - cursor->offset;
        if (left > 0)
            break;
        cursor->index++;
        cursor->offset = 0;
    }
    *size_p = left < limit ? left : limit;
    return (char *) segment->address + cursor->offset;
}

HG_PRIVATE void na_cursor_advance(struct na_cursor *cursor, na_size_t size)
{
    cursor->offset += size;
    assert(cursor->offset <= cursor->segments[cursor->index].size);
}

HG_PRIVATE na_size_t na_cursor_gather(
    struct na_cursor *cursor, void *buf, na_size_t size, na_size_t piece)
{
    char *to = (char *) buf;
    na_size_t done = 0;

    while (done < size) {
        na_size_t run;
        const char *from = na_cursor_run(cursor, size - done, &run);

        if (run >= piece)
            break;
        memcpy(to + done, from, (size_t) run);
        na_cursor_advance(cursor, run);
        done += run;
    }
    return done;
}

HG_PRIVATE void na_cursor_scatter(
    struct na_cursor *cursor, const void *data, na_size_t size)
{
    const char *from = (const char *) data;

    while (size > 0) {
        na_size_t run;
        char *to = na_cursor_run(cursor, size, &run);

        memcpy(to, from, (size_t) run);
        na_cursor_advance(cursor, run);
        from += run;
        size -= run;
    }
}
