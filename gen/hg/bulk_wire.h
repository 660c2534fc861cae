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
 *      +-------------------------------+------------------------------------+
 *
 * `owner` is empty unless bulk runs on a class of its own. `mems` is 1 where
 * the transport takes all segments in one memory handle.
 *
 * Locking: none of its own.
 */
#ifndef HG_GEN_HG_BULK_WIRE_H
#define HG_GEN_HG_BULK_WIRE_H

#include "hg/bulk.h"

/* Bytes that hg_bulk_serialize writes. */
HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk);

/* HG_MSGSIZE: the buffer is too small; HG_OPNOTSUPPORT: the handle is a peer's,
 * or nobody could find its owner; HG_NOENTRY; all logged. */
HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size);

/* A new handle with one reference. HG_PROTOCOL_ERROR, HG_NOENTRY, HG_NOMEM, all
 * logged. */
HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p);

#endif
