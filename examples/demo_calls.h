/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_calls: the calls that the demo ships, as server and client know them.
 *
 *     demo.open    name, mode                    -> error, file
 *     demo.write   file, offset, size, memory    -> error, bytes moved
 *     demo.read    file, offset, size, memory    -> error, bytes moved
 *     demo.stat    name                          -> error, size
 *     demo.close   file, keep                    -> error
 *     demo.counts                                -> what the server has done
 *
 * An error is 0 or an errno of the server's: what a file system says is an
 * answer. What goes wrong on the way is the call's own return code.
 */
#ifndef HG_EXAMPLES_DEMO_CALLS_H
#define HG_EXAMPLES_DEMO_CALLS_H

#include "hg.h"

#define DEMO_PIECE ((size_t) 4 << 20)        /* a client's usual piece */
#define DEMO_PIECE_MAX ((uint64_t) 64 << 20) /* more is refused */
#define DEMO_FILE_MAX ((uint64_t) 1 << 40)   /* the end of any file */
#define DEMO_NAME_MAX 200                    /* letters, digits, . _ - */

/* What is written gets its name when it is closed to be kept: until then, and
 * if that never happens, the name has what it had before. */
enum { DEMO_MODE_READ = 0, DEMO_MODE_WRITE = 1 };

MERCURY_GEN_PROC(
    demo_open_in_t, ((hg_const_string_t) (name))((uint32_t) (mode)))
MERCURY_GEN_PROC(demo_open_out_t, ((int32_t) (error))((uint64_t) (file)))

/* `memory` is the client's: the source of a write, the destination of a read.
 * A read at the end of the file moves less than `size`, as read(2) does. */
MERCURY_GEN_PROC(demo_move_in_t,
    ((uint64_t) (file))((uint64_t) (offset))((uint64_t) (size))(
        (hg_bulk_t) (memory)))
MERCURY_GEN_PROC(demo_move_out_t, ((int32_t) (error))((uint64_t) (moved)))

MERCURY_GEN_PROC(demo_stat_in_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(demo_stat_out_t, ((int32_t) (error))((uint64_t) (size)))

MERCURY_GEN_PROC(demo_close_in_t, ((uint64_t) (file))((hg_bool_t) (keep)))
MERCURY_GEN_PROC(demo_close_out_t, ((int32_t) (error)))

/* The server's own counts, and those of its library. */
MERCURY_GEN_PROC(demo_counts_t,
    ((uint64_t) (opens))((uint64_t) (writes))((uint64_t) (reads))(
        (uint64_t) (stats))((uint64_t) (closes))((uint64_t) (bytes_in))(
        (uint64_t) (bytes_out))((uint64_t) (requests))((uint64_t) (errors))(
        (uint64_t) (bulk_in))((uint64_t) (bulk_out)))

#endif
