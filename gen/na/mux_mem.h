/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux_mem: memory of a class of several transports, and moving it.
 *
 * A handle stands for one of each part, made when it is first asked for: of
 * local memory from its segments, of a peer's from that part's description in
 * what came. A transfer is the part's that the address is of. Descriptions that
 * do not agree on size and permissions are a peer's mistake.
 *
 * Locking: the class's mutex guards the making of handles.
 */
#ifndef HG_GEN_NA_MUX_MEM_H
#define HG_GEN_NA_MUX_MEM_H

#include "na/mux_part.h"

/* Slots; move is put and get, move_now is rma_now. */
HG_PRIVATE na_return_t na_mux_mem_register(struct na_mem_handle *base);
HG_PRIVATE void na_mux_mem_deregister(struct na_mem_handle *base);
HG_PRIVATE void na_mux_mem_release(struct na_mem_handle *base);
HG_PRIVATE na_size_t na_mux_mem_serialize_size(
    const struct na_mem_handle *base);
HG_PRIVATE void na_mux_mem_serialize(
    const struct na_mem_handle *base, void *buf);
HG_PRIVATE na_return_t na_mux_mem_deserialize(
    struct na_mem_handle *base, const void *buf, na_size_t buf_size);
HG_PRIVATE na_return_t na_mux_mem_alloc(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block);
HG_PRIVATE na_return_t na_mux_mem_move(struct na_op *op);
HG_PRIVATE na_return_t na_mux_mem_move_now(const struct na_op *op);

#endif
