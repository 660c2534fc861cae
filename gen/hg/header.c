/* SPDX-License-Identifier: BSD-3-Clause */
/* header: see header.h. */
#include "hg/header.h"

#include "base/crc64.h"
#include "base/wire.h"

/* The CRC64 comes first and does not cover itself. */
#define HG_HEADER_CRC 8

/* Magic and major version. */
#define HG_HEADER_START (HG_HEADER_MAGIC | (uint64_t) HG_HEADER_MAJOR << 16)

/* The header is written in words of eight bytes: reading recently written bytes
 * in other sizes stalls the processor. */
HG_PRIVATE void hg_header_encode(
    const struct hg_header *header, void *message, bool checksum)
{
    unsigned char *p = (unsigned char *) message;
    uint32_t word = header->type == HG_HEADER_RESPONSE ? (uint32_t) header->code
                                                       : header->time_left;

    hg_wire_store64(p + 8,
        HG_HEADER_START | (uint64_t) header->type << 24 |
            (uint64_t) header->flags << 32 |
            (uint64_t) header->origin_context << 40 |
            (uint64_t) HG_HEADER_MIN << 48);
    hg_wire_store64(p + 16, header->rpc_id);
    hg_wire_store64(p + 24, header->sequence);
    hg_wire_store64(p + 32, word | (uint64_t) header->types << 32);
    hg_wire_store64(p + 40, header->trace_id);
    hg_wire_store64(p,
        checksum ? hg_crc64_update(0, p + HG_HEADER_CRC,
                       HG_HEADER_MIN - HG_HEADER_CRC + header->payload_size)
                 : 0);
}

/* Decode the fields that all versions share; the rest is zero. */
static void hg_header_get_stable(
    struct hg_header *header, const unsigned char *p)
{
    memset(header, 0, sizeof(*header));
    header->type = p[11];
    header->origin_context = p[13];
    header->rpc_id = hg_wire_load64(p + 16);
    header->sequence = hg_wire_load64(p + 24);
    if (header->type == HG_HEADER_RESPONSE)
        header->code = (int32_t) hg_wire_load32(p + 32);
}

HG_PRIVATE hg_return_t hg_header_decode(struct hg_header *header,
    const void *message, size_t size, bool *answerable_p)
{
    const unsigned char *from = (const unsigned char *) message;
    unsigned char p[HG_HEADER_MIN];
    size_t header_size;
    uint64_t crc;

    *answerable_p = false;
    if (size < HG_HEADER_STABLE)
        return HG_PROTOCOL_ERROR;
    if (HG_LIKELY(size >= HG_HEADER_MIN))
        memcpy(p, from, HG_HEADER_MIN);
    else
        memcpy(p, from, HG_HEADER_STABLE);
    if (hg_wire_load16(p + 8) != HG_HEADER_MAGIC)
        return HG_PROTOCOL_ERROR;
    hg_header_get_stable(header, p);
    *answerable_p = true;
    if (p[10] != HG_HEADER_MAJOR || size < HG_HEADER_MIN)
        return HG_PROTOCOL_ERROR;
    crc = hg_wire_load64(p);
    if (crc != 0 &&
        crc != hg_crc64_update(0, from + HG_HEADER_CRC, size - HG_HEADER_CRC))
        return HG_CHECKSUM_ERROR;
    header_size = hg_wire_load16(p + 14);
    if (header_size < HG_HEADER_MIN || header_size > size)
        return HG_PROTOCOL_ERROR;
    header->flags = p[12];
    if (header->type != HG_HEADER_RESPONSE)
        header->time_left = hg_wire_load32(p + 32);
    header->types = hg_wire_load32(p + 36);
    header->trace_id = hg_wire_load64(p + 40);
    header->payload = from + header_size;
    header->payload_size = size - header_size;
    return HG_SUCCESS;
}
