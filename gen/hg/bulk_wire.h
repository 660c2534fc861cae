/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_wire: what a bulk handle looks like on the wire, and as an argument.
 *
 * Serializing publishes the handle's memory. Bytes from peers become handles
 * only after every length was compared with what came; those of this process
 * become aliases (hg/bulk).
 *
 *      serialized handle
 *      0     4   5   6      8      16        24            32    40      44
 *      +-----+---+---+------+------+---------+-------------+-----+-------+
 *      |magic|ver|flg|owner#| size | segments| incarnation | id  | mems  |
 *      +-----+---+---+------+------+---------+-------------+-----+-------+
 *      | owner's address, owner# bytes | mems x { size 8, length 4, bytes } |
 *      +---------+---------------------+------------------------------------+
 *      | context | only if bound
 *      +---------+
 *
 * `flg` is what may be done with the memory, and the flags below. `owner` is
 * empty unless bulk runs on a class of its own, or the handle is bound and its
 * owner listens. `mems` is 1 where the transport takes all segments in one
 * memory handle. What comes behind is for later versions.
 *
 * A bound handle that came from a peer is passed on as it came, but for a flag
 * that says so: else who gets it might take us for its owner.
 *
 * Locking: none of its own.
 */
#ifndef HG_GEN_HG_BULK_WIRE_H
#define HG_GEN_HG_BULK_WIRE_H

#include "hg/bulk.h"

enum hg_bulk_wire_flags {
    HG_BULK_WIRE_ACCESS = 0x03, /* a mask: 1 read, 2 written, 3 both */
    HG_BULK_WIRE_BOUND = 0x04,  /* the owner's context is told at the end */
    HG_BULK_WIRE_PASSED = 0x08  /* not by its owner */
};

/* Bytes that hg_bulk_serialize writes. */
HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk);

/* HG_MSGSIZE: the buffer is too small; HG_OPNOTSUPPORT: the handle is a peer's
 * and not bound, or nobody could find its owner; HG_NOENTRY; all logged. */
HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size);

/* A new handle with one reference. HG_PROTOCOL_ERROR, HG_NOENTRY, HG_NOMEM, all
 * logged. */
HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p);

#endif
