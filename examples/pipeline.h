/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline: moves a caller's memory through a few buffers of the server, of
 * any size through little memory: while one piece is worked on, the others
 * are on their way. Mercury paper (2013), Section IV-A, Table I.
 *
 *      caller's memory   |  0  |  1  |  2  |  3  |  4  |  5  |  6 |
 *                                      in flight     worked on
 *      buffers                       [ 3 ][ 4 ][ 5 ]    [ 2 ]
 *
 * Piece i passes through buffer i modulo the number of buffers; the last
 * piece may be short. The caller's memory may be in many segments: offsets
 * are logical.
 *
 * A pipeline is used by one transfer at a time. Handlers of one thread that
 * do not nest may share one.
 */
#ifndef HG_EXAMPLES_PIPELINE_H
#define HG_EXAMPLES_PIPELINE_H

#include "hg.h"

#define PIPELINE_BUFFERS_MAX 16

/* Does its work with a piece that is in `data`: takes it (pull) or fills it
 * (push). Another code than HG_SUCCESS ends the transfer with that code. */
typedef hg_return_t (*pipeline_work_t)(
    void *arg, void *data, size_t size, uint64_t offset);

struct pipeline_buffer {
    void *data;
    hg_bulk_block_t block; /* its memory is the library's */
    hg_bulk_request_t request;
    size_t size; /* of the piece in flight; 0: none */
    uint64_t offset;
};

struct pipeline {
    size_t buffer_size;
    unsigned patience_s; /* for one piece; 10 unless changed */
    size_t count;
    struct pipeline_buffer buffers[PIPELINE_BUFFERS_MAX];
};

/* Make `count` buffers (1 to PIPELINE_BUFFERS_MAX) of `buffer_size` bytes. */
hg_return_t pipeline_init(
    struct pipeline *pipeline, size_t count, size_t buffer_size);
void pipeline_fini(struct pipeline *pipeline);

/* Move `size` bytes of `origin`, which belongs to `addr`: here, working on
 * each piece that came, in order; or there, piece by piece as `work` filled
 * it. When it returns nothing is in flight any more. HG_CANCELED: a piece took
 * longer than patience_s, though its peer lives. */
hg_return_t pipeline_pull(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg);
hg_return_t pipeline_push(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg);

#endif
