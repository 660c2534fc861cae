/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: serialized frames and memory handles of emulated RMA.
 *
 * gen/wire.md shows the bytes. Flag MORE: the answer is not the last one of its
 * request. Flag SUM in a request asks for checksums; in a frame with data it
 * says that there is one. No state.
 */
#ifndef HG_GEN_EMUL_WIRE_H
#define HG_GEN_EMUL_WIRE_H

#include "na/core.h"

#define NA_EMUL_WIRE_SIZE 48 /* of a header */

enum { NA_EMUL_WIRE_GET = 1, NA_EMUL_WIRE_PUT = 2, NA_EMUL_WIRE_ANSWER = 3 };

enum { NA_EMUL_WIRE_MORE = 0x01, NA_EMUL_WIRE_SUM = 0x02 };

/* Unused fields of a type are written as 0 and ignored when read. */
struct na_emul_wire {
    uint8_t type;
    uint8_t flags;
    uint16_t status; /* answers */
    uint64_t id;     /* id of the initiator's transfer */
    uint64_t key;    /* requests */
    uint64_t offset; /* in the memory */
    uint64_t length; /* bytes requested, put, or answered */
    uint64_t sum;    /* data, with NA_EMUL_WIRE_SUM */
};

HG_PRIVATE void na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_SIZE]);

/* Decode a header that came with `data_size` bytes of data. NA_PROTOCOL_ERROR:
 * not a header of this version, too short, or inconsistent with that size. */
HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p);

/* The serialized form of a registered handle. The slots of struct na_plugin
 * with the same names. */
#define NA_EMUL_WIRE_HANDLE_SIZE 24

HG_PRIVATE na_size_t na_emul_mem_serialize_size(
    const struct na_mem_handle *mem);
HG_PRIVATE void na_emul_mem_serialize(
    const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

#endif
