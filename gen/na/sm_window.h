/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_window: a peer's arenas as this process maps them, by their ids.
 *
 *     unknown --asked--> asked --opened--> open
 *        ^                 |  \
 *        +-----again-------+   +--refused--> shut
 *
 * A descriptor is checked before it is mapped: it is a memfd of normal pages,
 * sealed against shrinking and growing, and of a size that an arena can have.
 * So no access in the mapping can fault. It is mapped writable if the
 * descriptor allows that.
 *
 * Locking: its user's; for a pair, the class's lock. Must not know: peers, and
 * how descriptors come.
 */
#ifndef HG_GEN_NA_SM_WINDOW_H
#define HG_GEN_NA_SM_WINDOW_H

#include "na/sm_arena.h"

#if HG_ENABLE_SM

enum na_sm_window_state {
    NA_SM_WINDOW_UNKNOWN,
    NA_SM_WINDOW_ASKED,
    NA_SM_WINDOW_OPEN,
    NA_SM_WINDOW_SHUT /* it cannot be had */
};

struct na_sm_window {
    unsigned char *base;
    uint64_t size;
    bool writable;
    uint8_t state; /* enum na_sm_window_state */
};

struct na_sm_windows {
    struct na_sm_window window[NA_SM_ARENAS]; /* by id - 1 */
};

/* Map what was asked for. NA_PROTOCOL_ERROR: it is no arena; NA_NOMEM: the
 * system does not map it. Logged; the window is shut then. The descriptor stays
 * the caller's. */
HG_PRIVATE na_return_t na_sm_window_open(struct na_sm_window *window, int fd);

/* Where a range of an open window is. NULL: past its end, or to be written
 * where that cannot be. */
HG_PRIVATE unsigned char *na_sm_window_at(const struct na_sm_window *window,
    uint64_t offset, uint64_t size, bool write);

/* Unmap everything, and free the table. NULL is allowed. */
HG_PRIVATE void na_sm_windows_free(struct na_sm_windows *windows);

#endif
#endif
