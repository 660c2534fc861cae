/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * header: what stands in front of every message of the RPC layer.
 *
 *      0      4   5   6   7   8     10  11  12      16              24
 *      +------+---+---+---+---+-----+---+---+-------+---------------+
 *      | magic|maj|min|typ|flg| size|org|tgt| code  | RPC id        |
 *      +------+---+---+---+---+-----+---+---+-------+---------------+
 *     24              32              40              48    52      56
 *      +---------------+---------------+---------------+-----+-------+
 *      | sequence      | incarnation   | trace id      |time | types |
 *      +---------------+---------------+---------------+-----+-------+
 *     56              64              72           size-4  size
 *      +---------------+---------------+---------------+-----+----------
 *      | payload size  | CRC64 of args | options ...   |CRC32| payload
 *      +---------------+---------------+---------------+-----+----------
 *
 * Little-endian throughout. `size` is that of the whole header; its last four
 * bytes are the CRC-32C of all before. `org` and `tgt` are context ids at
 * the sender and at the destination of an answer. `time` is what is left of
 * the call's deadline in milliseconds, 0: none. `types` is the sender's
 * fingerprint of the function's types, in a request and in a response that
 * refuses other types; 0: not known, as older peers send it. The CRC64 is 0 if
 * the sender computed none; the receiver does not check it then. An option is a
 * u16 kind, a u16 length and that many bytes; unknown kinds are skipped. A peer
 * of another major version shares bytes 0 to 31, so that it can be told so.
 *
 * Decoding trusts nothing: sizes are compared with what arrived, and a message
 * may lie where its sender can still write, so that the header is copied before
 * it is looked at. For that it has a largest size. No state.
 */
#ifndef HG_GEN_HG_HEADER_H
#define HG_GEN_HG_HEADER_H

#include "base/os.h"

#define HG_HEADER_MAGIC 0x31524748u /* "HGR1" */
#define HG_HEADER_MAJOR 1
#define HG_HEADER_MINOR 0
#define HG_HEADER_FIXED 72 /* bytes before the options */
#define HG_HEADER_MIN (HG_HEADER_FIXED + 4)
#define HG_HEADER_MAX 1024  /* with all options; longer ones are refused */
#define HG_HEADER_STABLE 32 /* bytes every version shares */
#define HG_HEADER_TEXT_MAX (HG_ERROR_TEXT_MAX - 1)

enum hg_header_type {
    HG_HEADER_REQUEST = 1,
    HG_HEADER_RESPONSE = 2,
    HG_HEADER_CANCEL = 3, /* nobody waits for the request of this sequence */
    HG_HEADER_ACK = 4     /* the output held under this sequence was fetched */
};

enum hg_header_flags {
    HG_HEADER_LARGE = 0x01,   /* the payload describes where the args are */
    HG_HEADER_ONE_WAY = 0x02, /* nobody waits for an answer */
    HG_HEADER_RAW = 0x04,     /* args of a fixed size: a proc may leave some */
    HG_HEADER_REFUSED = 0x08  /* a response's code is not the handler's: the
                                 call was not executed */
};

enum hg_header_option {
    HG_HEADER_OPTION_TEXT = 1 /* of an error, without NUL */
};

struct hg_header {
    uint8_t type;
    uint8_t flags;
    uint8_t origin_context;
    uint8_t target_context;
    int32_t code; /* of a response */
    uint64_t rpc_id;
    uint64_t sequence;    /* the origin's identifier of the call */
    uint64_t incarnation; /* of the sender */
    uint64_t trace_id;
    uint32_t time_left; /* ms; 0: no deadline */
    uint32_t types;     /* fingerprint of the sender's; 0: not known */
    uint64_t payload_size;
    uint64_t args_crc; /* 0: not computed */
    const char *text;  /* borrowed from the message; NULL: none */
    size_t text_size;
    /* Set by decoding. */
    size_t size;                  /* of the header: where the payload starts */
    const unsigned char *payload; /* borrowed: copied before it is judged */
};

/* Nothing but what every version shares: the rest is zero. */
static inline void hg_header_clear_rest(struct hg_header *header)
{
    header->incarnation = 0;
    header->trace_id = 0;
    header->time_left = 0;
    header->types = 0;
    header->payload_size = 0;
    header->args_crc = 0;
    header->text = NULL;
    header->text_size = 0;
}

/* Bytes the encoded header takes. */
static inline size_t hg_header_size(const struct hg_header *header)
{
    assert(header->text_size <= HG_HEADER_TEXT_MAX);
    return HG_HEADER_MIN + (header->text_size > 0 ? 4 + header->text_size : 0);
}

/* Write the header into `buf`, which has room for it. */
HG_PRIVATE void hg_header_encode(const struct hg_header *header, void *buf);

/* Read a message of `size` bytes, which may change meanwhile: what is left in
 * `header` fits together all the same. HG_PROTOCOL_ERROR: not a message of this
 * major version, damaged, or cut; *answerable_p then tells whether type and
 * sequence could be read, so that its sender can be told. No logging: the
 * caller knows whom it came from. */
HG_PRIVATE hg_return_t hg_header_decode(struct hg_header *header,
    const void *message, size_t size, bool *answerable_p);

#endif
