/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: frames and memory handles of emulated RMA, as bytes.
 *
 * gen/wire.md shows the bytes. Flag MORE of an answer says that it is not the
 * last one of its request. Flag SUM of a request asks for sums; of a frame with
 * data it says that there is one. No state.
 */
#ifndef HG_GEN_EMUL_WIRE_H
#define HG_GEN_EMUL_WIRE_H

#include "na/core.h"

#define NA_EMUL_WIRE_SIZE 48 /* of a header */

enum { NA_EMUL_WIRE_GET = 1, NA_EMUL_WIRE_PUT = 2, NA_EMUL_WIRE_ANSWER = 3 };

enum { NA_EMUL_WIRE_MORE = 0x01, NA_EMUL_WIRE_SUM = 0x02 };

/* What a type does not use is 0 when written, and ignored when read. */
struct na_emul_wire {
    uint8_t type;
    uint8_t flags;
    uint16_t status; /* answers */
    uint64_t id;     /* of the initiator's transfer */
    uint64_t key;    /* requests */
    uint64_t offset; /* in the memory */
    uint64_t length; /* bytes asked for, put, or answered */
    uint64_t sum;    /* data, with NA_EMUL_WIRE_SUM */
};

HG_PRIVATE void na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_SIZE]);

/* Read a header that came with `data_size` bytes of data. NA_PROTOCOL_ERROR: no
 * header of this version, too short, or not of so much data. */
HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p);

/* A registered handle as bytes, which name the memory to peers. The slots of
 * struct na_plugin with the same names; see there. */
#define NA_EMUL_WIRE_HANDLE_SIZE 24

HG_PRIVATE na_size_t na_emul_mem_serialize_size(
    const struct na_mem_handle *mem);
HG_PRIVATE void na_emul_mem_serialize(
    const struct na_mem_handle *mem, void *buf);
HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size);

#endif
