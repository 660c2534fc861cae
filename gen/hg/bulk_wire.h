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
 * A handle that came from a peer is passed on as it came. A bound one gets the
 * flag PASSED, or its receiver could take us for the owner. Whoever gets an
 * unbound one tells the owner's address with the transfer.
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

/* HG_MSGSIZE: the buffer is too small; HG_OPNOTSUPPORT: see hg_bulk_check_mute;
 * HG_NOENTRY: the memory was withdrawn; all logged. */
HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size);

/* A new handle with one reference. HG_PROTOCOL_ERROR, HG_NOENTRY, HG_NOMEM, all
 * logged. */
HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p);

#endif
