/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul_wire: the frames of emulated RMA as bytes.
 *
 * A frame is a header and, where its type says so, payload. All numbers are
 * little-endian. Every header begins with
 *
 *      0    1    2    3    4    5    6    7    8                     15
 *     +----+----+----+----+----+----+---------+-------------------------+
 *     |0x68|0x52| 1  |type|flag| 0  | status  |           id            |
 *     +----+----+----+----+----+----+---------+-------------------------+
 *       'h'  'R'  version
 *
 * `id` is the initiator's number of the transfer. What follows:
 *
 *     type               16         24         32         40
 *     1 GET_REQ    i>t   | key      | offset   | length   | window   |
 *     2 PUT_REQ    i>t   | key      | offset   | length   | window   | data
 *     3 PUT_DATA   i>t   | position | data
 *     4 GET_ACK    i>t   | received |
 *     5 ABORT      i>t   |
 *     6 GET_DATA   t>i   | position | data
 *     7 PUT_ACK    t>i   | received |
 *     8 DONE       t>i   |                     (the only one with a status)
 *
 * i>t goes from the initiator to the target, t>i back. `position` counts from
 * the transfer's beginning. flag 1 of a frame with data: acknowledge it.
 * A header may be longer than shown, for later versions to add to; what is
 * behind is skipped, as are unknown flags.
 *
 * Knows bytes only: what a frame means is emul's business. No locking.
 */
#ifndef HG_GEN_NA_EMUL_WIRE_H
#define HG_GEN_NA_EMUL_WIRE_H

#include "base/os.h"

#define NA_EMUL_WIRE_MAX 48 /* the longest header written */

enum na_emul_wire_type {
    NA_EMUL_WIRE_GET_REQ = 1,
    NA_EMUL_WIRE_PUT_REQ = 2,
    NA_EMUL_WIRE_PUT_DATA = 3,
    NA_EMUL_WIRE_GET_ACK = 4,
    NA_EMUL_WIRE_ABORT = 5,
    NA_EMUL_WIRE_GET_DATA = 6,
    NA_EMUL_WIRE_PUT_ACK = 7,
    NA_EMUL_WIRE_DONE = 8
};

enum { NA_EMUL_WIRE_WANT_ACK = 0x01 };

struct na_emul_wire {
    uint8_t type;
    uint8_t flags;
    uint16_t status;
    uint64_t id;
    uint64_t key;    /* requests */
    uint64_t offset; /* requests: in the memory; data: position; acks:
                        received */
    uint64_t length; /* requests */
    uint64_t window; /* requests */
};

/* Write a header; its size. */
HG_PRIVATE size_t na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_MAX]);

/* Read a header (borrowed) that came with `data_size` bytes of payload; only
 * the members its type has are meaningful. NA_PROTOCOL_ERROR: no header of
 * this version, too short, or payload where none belongs. */
HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p);

/* A registered handle as bytes: how peers name the memory.
 *
 *      0    1    2    3    4    5    6    7    8          16         24
 *     +----+----+----+----+----+----+----+----+----------+----------+
 *     |0x68|0x4d| 1  |flag| 0  | 0  | 0  | 0  |   key    |   size   |
 *     +----+----+----+----+----+----+----+----+----------+----------+
 */
#define NA_EMUL_WIRE_HANDLE_SIZE 24

HG_PRIVATE void na_emul_wire_put_handle(
    const struct na_mem_handle *mem, void *buf);

/* Fill flags, size and key. NA_PROTOCOL_ERROR. */
HG_PRIVATE na_return_t na_emul_wire_get_handle(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

#endif
