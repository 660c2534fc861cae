/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline: moves memory of a client through a few buffers of the server, so
 * that the server needs little memory for a transfer of any size. While the
 * server works on one piece, the next pieces are in flight. Mercury paper
 * (2013), Section IV-A, Table I.
 *
 *      client's memory   |  0  |  1  |  2  |  3  |  4  |  5  |  6 |
 *                                       in flight     in work
 *      buffers                        [ 3 ][ 4 ][ 5 ]  [ 2 ]
 *
 * Piece i uses buffer i modulo the number of buffers. The last piece may be
 * shorter. The client's memory may have many segments; offsets count across
 * them.
 *
 * A pipeline is used by one transfer at a time. Handlers may share one if they
 * all run in one thread.
 */
#ifndef HG_EXAMPLES_PIPELINE_H
#define HG_EXAMPLES_PIPELINE_H

#include "hg.h"

#define PIPELINE_BUFFERS_MAX 16

/* Works on a piece: uses what a pull put into `data`, or fills `data` for a
 * push. A code other than HG_SUCCESS ends the transfer with that code. */
typedef hg_return_t (*pipeline_work_t)(
    void *arg, void *data, size_t size, uint64_t offset);

struct pipeline_buffer {
    void *data;
    hg_bulk_block_t block; /* the library allocated its memory */
    hg_bulk_request_t request;
    size_t size; /* of the piece in flight; 0: none */
    uint64_t offset;
};

struct pipeline {
    size_t buffer_size;
    unsigned timeout_s; /* of one piece; 10 after pipeline_init */
    size_t count;
    struct pipeline_buffer buffers[PIPELINE_BUFFERS_MAX];
};

/* Allocate 1 to PIPELINE_BUFFERS_MAX buffers of `buffer_size` bytes. */
hg_return_t pipeline_init(
    struct pipeline *pipeline, size_t count, size_t buffer_size);
void pipeline_fini(struct pipeline *pipeline);

/* Move the first `size` bytes of `origin`, the memory of the client `addr`. A
 * pull calls `work` with each piece that has arrived, in order; a push calls it
 * to fill each piece. No transfer is in flight when these functions return.
 * HG_CANCELED: a piece took longer than timeout_s. */
hg_return_t pipeline_pull(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg);
hg_return_t pipeline_push(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg);

#endif
