/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * header: the first 48 bytes of every message of the RPC layer.
 *
 *      0               8      10  11  12  13  14     16              24
 *      +---------------+------+---+---+---+---+------+---------------+
 *      | CRC64         | "HG" |maj|typ|flg|org| size | RPC id        |
 *      +---------------+------+---+---+---+---+------+---------------+
 *     24              32       36      40              48     size
 *      +---------------+--------+-------+---------------+------+---------
 *      | sequence      | code,  | types | trace id      | ...  | payload
 *      |               | time   |       |               |      |
 *      +---------------+--------+-------+---------------+------+---------
 *
 * All fields are little-endian. The CRC64 covers all bytes that follow it; 0:
 * the sender computed none, and nothing is checked. `org` is the id of the
 * sender's context. `size` is the offset of the payload: a later version with
 * the same major number may add fields in front of it. Bytes 32 to 35 are the
 * code of a response, or the milliseconds left until the deadline of a request
 * (0: no deadline). `types` is the sender's fingerprint of the function's
 * types, in a request and in a response that refuses other types; 0: unknown. A
 * response with a code other than HG_SUCCESS has a text as its payload, without
 * NUL.
 *
 * All major versions share bytes 8 to 35, so that a peer with another version
 * gets an error as its answer.
 *
 * Decoding trusts nothing: sizes are compared with the size of the message. The
 * sender may be able to write to the message while it is decoded, so the header
 * is copied before it is checked. The CRC64 is computed in place: it detects
 * accidental damage, and a peer that changes a message on purpose can also
 * change the CRC64. No state.
 */
#ifndef HG_GEN_HG_HEADER_H
#define HG_GEN_HG_HEADER_H

#include "base/os.h"

#define HG_HEADER_MAGIC 0x4748u /* "HG" */
#define HG_HEADER_MAJOR 2
#define HG_HEADER_MIN 48    /* bytes that this version writes and reads */
#define HG_HEADER_STABLE 36 /* the last byte that all versions share */
#define HG_HEADER_TEXT_MAX (HG_ERROR_TEXT_MAX - 1)

enum hg_header_type {
    HG_HEADER_REQUEST = 1,
    HG_HEADER_RESPONSE = 2,
    HG_HEADER_CANCEL =
        3 /* the origin no longer waits for the request with this sequence,
             or has fetched its large output */
};

enum hg_header_flags {
    HG_HEADER_LARGE = 0x01, /* the payload describes where the arguments are */
    HG_HEADER_ONE_WAY = 0x02, /* one-way call: no answer */
    HG_HEADER_RAW =
        0x04, /* arguments of a fixed size: a proc may leave bytes unread */
    HG_HEADER_REFUSED =
        0x08 /* the call was not executed; the code is not the handler's */
};

struct hg_header {
    uint8_t type;
    uint8_t flags;
    uint8_t origin_context;
    int32_t code; /* of a response */
    uint64_t rpc_id;
    uint64_t sequence; /* the origin's number of the call */
    uint64_t trace_id;
    uint32_t time_left; /* of a request, ms; 0: no deadline */
    uint32_t types;     /* the sender's fingerprint; 0: unknown */
    size_t payload_size;
    const unsigned char *payload; /* decoded: borrowed from the message */
};

/* Write the header into the first HG_HEADER_MIN bytes of `message`; the payload
 * follows them. `checksum`: compute the CRC64. */
HG_PRIVATE void hg_header_encode(
    const struct hg_header *header, void *message, bool checksum);

/* Decode a message of `size` bytes, which may change meanwhile; the result is
 * consistent anyway. HG_PROTOCOL_ERROR: not a message of this major version, or
 * truncated; HG_CHECKSUM_ERROR. On failure *answerable_p tells whether type,
 * sequence, id, code and context could be decoded, so that the sender gets an
 * answer; the other fields are zero. Errors are not logged: the caller knows
 * the sender. */
HG_PRIVATE hg_return_t hg_header_decode(struct hg_header *header,
    const void *message, size_t size, bool *answerable_p);

#endif
