/* SPDX-License-Identifier: BSD-3-Clause */
/* header: see header.h. */
#include "hg/header.h"

#include "base/crc64.h"
#include "base/mem.h"
#include "base/wire.h"

/* Magic, major and minor. */
#define HG_HEADER_START \
    (HG_HEADER_MAGIC | (uint64_t) HG_HEADER_MAJOR << 32 | \
        (uint64_t) HG_HEADER_MINOR << 40)

/* The fixed part has its place for every field, so it is written and read
 * without a cursor; what follows needs one. It is written, and copied, eight
 * bytes at a time, as the CRC reads it: a processor waits for what it wrote
 * last where the pieces are others. */
HG_PRIVATE void hg_header_encode(const struct hg_header *header, void *buf)
{
    size_t size = hg_header_size(header);
    unsigned char *p = (unsigned char *) buf;

    hg_wire_store64(p,
        HG_HEADER_START | (uint64_t) header->type << 48 |
            (uint64_t) header->flags << 56);
    hg_wire_store64(p + 8,
        size | (uint64_t) header->origin_context << 16 |
            (uint64_t) header->target_context << 24 |
            (uint64_t) (uint32_t) header->code << 32);
    hg_wire_store64(p + 16, header->rpc_id);
    hg_wire_store64(p + 24, header->sequence);
    hg_wire_store64(p + 32, header->incarnation);
    hg_wire_store64(p + 40, header->trace_id);
    hg_wire_store64(p + 48, header->time_left | (uint64_t) header->types << 32);
    hg_wire_store64(p + 56, header->payload_size);
    hg_wire_store64(p + 64, header->args_crc);
    if (header->text_size > 0) {
        hg_wire_store16(p + HG_HEADER_FIXED, HG_HEADER_OPTION_TEXT);
        hg_wire_store16(p + HG_HEADER_FIXED + 2, (uint16_t) header->text_size);
        memcpy(p + HG_HEADER_FIXED + 4, header->text, header->text_size);
    }
    hg_wire_store32(p + size - 4, hg_crc32c_update(0, p, size - 4));
}

/* Read the options, which fill `wire` to its end. */
static bool hg_header_get_options(
    struct hg_header *header, struct hg_wire *wire)
{
    while (hg_wire_left(wire) > 0) {
        uint16_t kind = hg_wire_get16(wire);
        uint16_t length = hg_wire_get16(wire);
        const void *bytes = hg_wire_get_bytes(wire, length);

        if (wire->failed)
            return false;
        if (kind == HG_HEADER_OPTION_TEXT && length <= HG_HEADER_TEXT_MAX) {
            header->text = (const char *) bytes;
            header->text_size = length;
        }
    }
    return true;
}

/* What every version shares: enough to tell the sender. The rest is zero. */
static void hg_header_get_stable(
    struct hg_header *header, const unsigned char *p)
{
    header->type = p[6];
    header->flags = p[7];
    header->size = hg_wire_load16(p + 8);
    header->origin_context = p[10];
    header->target_context = p[11];
    header->code = (int32_t) hg_wire_load32(p + 12);
    header->rpc_id = hg_wire_load64(p + 16);
    header->sequence = hg_wire_load64(p + 24);
    header->payload = NULL;
    hg_header_clear_rest(header);
}

/* Nothing could be read. */
static hg_return_t hg_header_get_nothing(struct hg_header *header)
{
    memset(header, 0, sizeof(*header));
    return HG_PROTOCOL_ERROR;
}

/* Read what follows the fixed part, of which the copy at `p` has a copy too. */
static hg_return_t hg_header_get_rest(
    struct hg_header *header, const unsigned char *from, const unsigned char *p)
{
    struct hg_wire options =
        hg_wire_reader(p + HG_HEADER_FIXED, header->size - HG_HEADER_MIN);

    if (!hg_header_get_options(header, &options))
        return HG_PROTOCOL_ERROR;
    if (header->text != NULL)
        header->text =
            (const char *) from + ((const unsigned char *) header->text - p);
    return HG_SUCCESS;
}

HG_PRIVATE hg_return_t hg_header_decode(struct hg_header *header,
    const void *message, size_t size, bool *answerable_p)
{
    const unsigned char *from = (const unsigned char *) message;
    unsigned char p[HG_HEADER_MAX];
    uint32_t crc = 0;

    *answerable_p = false;
    if (size < HG_HEADER_STABLE)
        return hg_header_get_nothing(header);
    if (HG_LIKELY(size >= HG_HEADER_MIN)) {
        crc = hg_crc32c_copy(p, from, HG_HEADER_FIXED);
        memcpy(p + HG_HEADER_FIXED, from + HG_HEADER_FIXED, 4);
    } else {
        memcpy(p, from, size);
    }
    if (hg_wire_load32(p) != HG_HEADER_MAGIC)
        return hg_header_get_nothing(header);
    hg_header_get_stable(header, p);
    *answerable_p = true;
    /* Minor versions, p[5], understand each other. */
    if (p[4] != HG_HEADER_MAJOR || header->size < HG_HEADER_MIN ||
        header->size > HG_HEADER_MAX || header->size > size)
        return HG_PROTOCOL_ERROR;
    if (HG_UNLIKELY(header->size > HG_HEADER_MIN)) {
        memcpy(p + HG_HEADER_MIN, from + HG_HEADER_MIN,
            header->size - HG_HEADER_MIN);
        crc = hg_crc32c_update(
            crc, p + HG_HEADER_FIXED, header->size - HG_HEADER_MIN);
    }
    if (hg_wire_load32(p + header->size - 4) != crc)
        return HG_PROTOCOL_ERROR;
    header->incarnation = hg_wire_load64(p + 32);
    header->trace_id = hg_wire_load64(p + 40);
    header->time_left = hg_wire_load32(p + 48);
    header->types = hg_wire_load32(p + 52);
    header->payload_size = hg_wire_load64(p + 56);
    header->args_crc = hg_wire_load64(p + 64);
    if (header->payload_size != size - header->size)
        return HG_PROTOCOL_ERROR;
    if (header->size > HG_HEADER_MIN &&
        hg_header_get_rest(header, from, p) != HG_SUCCESS)
        return HG_PROTOCOL_ERROR;
    header->payload = from + header->size;
    return HG_SUCCESS;
}
