/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_calls: the calls of the demo, included by server and client.
 *
 *     demo.open    name, mode                    -> error, file
 *     demo.write   file, offset, size, memory    -> error, bytes moved, times
 *     demo.read    file, offset, size, memory    -> error, bytes moved, times
 *     demo.stat    name                          -> error, size
 *     demo.close   file, keep                    -> error
 *     demo.counts                                -> counters of the server
 *
 * `error` is 0 or an errno of the server: an error of its file system is an
 * output like any other. The call's own return code tells errors of hg.
 */
#ifndef HG_EXAMPLES_DEMO_CALLS_H
#define HG_EXAMPLES_DEMO_CALLS_H

#include "hg.h"

#define DEMO_PIECE ((size_t) 4 << 20)        /* what the client moves at once */
#define DEMO_PIECE_MAX ((uint64_t) 64 << 20) /* the server refuses more */
#define DEMO_FILE_MAX ((uint64_t) 1 << 40)   /* size of a file */
#define DEMO_NAME_MAX 200                    /* letters, digits, . _ - */

/* A written file replaces the file of that name only when it is closed with
 * `keep`. */
enum { DEMO_MODE_READ = 0, DEMO_MODE_WRITE = 1 };

MERCURY_GEN_PROC(
    demo_open_in_t, ((hg_const_string_t) (name))((uint32_t) (mode)))
MERCURY_GEN_PROC(demo_open_out_t, ((int32_t) (error))((uint64_t) (file)))

/* `memory` describes memory of the client: the source of a write or the
 * destination of a read. At the end of the file a read moves less than `size`
 * bytes, as read(2) does. `file_ns` is the time that the server spent in
 * read(2) and write(2), `hg_ns` the rest: transfers and waiting for them. */
MERCURY_GEN_PROC(demo_move_in_t,
    ((uint64_t) (file))((uint64_t) (offset))((uint64_t) (size))(
        (hg_bulk_t) (memory)))
MERCURY_GEN_PROC(demo_move_out_t,
    ((int32_t) (error))((uint64_t) (moved))((uint64_t) (file_ns))(
        (uint64_t) (hg_ns)))

MERCURY_GEN_PROC(demo_stat_in_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(demo_stat_out_t, ((int32_t) (error))((uint64_t) (size)))

MERCURY_GEN_PROC(demo_close_in_t, ((uint64_t) (file))((hg_bool_t) (keep)))
MERCURY_GEN_PROC(demo_close_out_t, ((int32_t) (error)))

/* Counters of the server and of its library. */
MERCURY_GEN_PROC(demo_counts_t,
    ((uint64_t) (opens))((uint64_t) (writes))((uint64_t) (reads))(
        (uint64_t) (stats))((uint64_t) (closes))((uint64_t) (bytes_in))(
        (uint64_t) (bytes_out))((uint64_t) (requests))((uint64_t) (errors))(
        (uint64_t) (bulk_in))((uint64_t) (bulk_out)))

#endif
