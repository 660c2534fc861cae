/* SPDX-License-Identifier: BSD-3-Clause */
/* wire: see wire.h. */
#include "emul/wire.h"

#include "base/wire.h"

#define NA_EMUL_WIRE_MAGIC 0x5268u
#define NA_EMUL_WIRE_VERSION 2u
#define NA_EMUL_HANDLE_MAGIC 0x4d68u
#define NA_EMUL_HANDLE_VERSION 1u

HG_PRIVATE void na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_SIZE])
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_SIZE);

    hg_wire_put16(&wire, NA_EMUL_WIRE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_WIRE_VERSION);
    hg_wire_put8(&wire, frame->type);
    hg_wire_put8(&wire, frame->flags);
    hg_wire_put8(&wire, 0);
    hg_wire_put16(&wire, frame->status);
    hg_wire_put64(&wire, frame->id);
    hg_wire_put64(&wire, frame->key);
    hg_wire_put64(&wire, frame->offset);
    hg_wire_put64(&wire, frame->length);
    hg_wire_put64(&wire, frame->sum);
    HG_ASSERT(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p)
{
    struct hg_wire wire = hg_wire_reader(header, header_size);
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    bool fits;

    frame_p->type = hg_wire_get8(&wire);
    frame_p->flags = hg_wire_get8(&wire);
    hg_wire_skip(&wire, 1);
    frame_p->status = hg_wire_get16(&wire);
    frame_p->id = hg_wire_get64(&wire);
    frame_p->key = hg_wire_get64(&wire);
    frame_p->offset = hg_wire_get64(&wire);
    frame_p->length = hg_wire_get64(&wire);
    frame_p->sum = hg_wire_get64(&wire);
    fits = data_size == frame_p->length;
    if (frame_p->type == NA_EMUL_WIRE_GET)
        fits = data_size == 0;
    else if (frame_p->type == NA_EMUL_WIRE_ANSWER && data_size == 0)
        fits = true; /* depends on the request */
    return !wire.failed && magic == NA_EMUL_WIRE_MAGIC &&
            version == NA_EMUL_WIRE_VERSION &&
            frame_p->type >= NA_EMUL_WIRE_GET &&
            frame_p->type <= NA_EMUL_WIRE_ANSWER && fits
        ? NA_SUCCESS
        : NA_PROTOCOL_ERROR;
}

HG_PRIVATE na_size_t na_emul_mem_serialize_size(const struct na_mem_handle *mem)
{
    (void) mem;
    return NA_EMUL_WIRE_HANDLE_SIZE;
}

HG_PRIVATE void na_emul_mem_serialize(
    const struct na_mem_handle *mem, void *buf)
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_HANDLE_SIZE);

    hg_wire_put16(&wire, NA_EMUL_HANDLE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_HANDLE_VERSION);
    hg_wire_put8(&wire, (uint8_t) mem->flags);
    hg_wire_put32(&wire, 0);
    hg_wire_put64(&wire, mem->key);
    hg_wire_put64(&wire, mem->size);
    HG_ASSERT(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE na_return_t na_emul_mem_deserialize(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size)
{
    struct hg_wire wire = hg_wire_reader(buf, (size_t) buf_size);
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    uint8_t flags = hg_wire_get8(&wire);
    uint32_t zero = hg_wire_get32(&wire);
    uint64_t key = hg_wire_get64(&wire);
    uint64_t size = hg_wire_get64(&wire);

    if (buf_size != NA_EMUL_WIRE_HANDLE_SIZE || magic != NA_EMUL_HANDLE_MAGIC ||
        version != NA_EMUL_HANDLE_VERSION || flags == 0 ||
        (flags & ~NA_MEM_READWRITE) != 0 || zero != 0 ||
        key == 0) /* no registration has it */
        return NA_PROTOCOL_ERROR;
    mem->flags = flags;
    mem->key = key;
    mem->size = size;
    return NA_SUCCESS;
}
