/* SPDX-License-Identifier: BSD-3-Clause */
/* emul_wire: see emul_wire.h. */
#include "na/emul_wire.h"

#include "base/wire.h"

#define NA_EMUL_WIRE_MAGIC 0x5268u
#define NA_EMUL_WIRE_HANDLE_MAGIC 0x4d68u
#define NA_EMUL_WIRE_VERSION 1u

/* What stands behind the first 16 bytes of a type. */
enum na_emul_wire_tail {
    NA_EMUL_WIRE_TAIL_UNKNOWN = 0, /* no such type */
    NA_EMUL_WIRE_TAIL_NONE,
    NA_EMUL_WIRE_TAIL_OFFSET,
    NA_EMUL_WIRE_TAIL_REQUEST
};

static const struct {
    uint8_t tail; /* enum na_emul_wire_tail */
    bool data;    /* payload may follow */
} na_emul_wire_types[] = {
    {NA_EMUL_WIRE_TAIL_UNKNOWN, false},
    {NA_EMUL_WIRE_TAIL_REQUEST, false}, /* GET_REQ */
    {NA_EMUL_WIRE_TAIL_REQUEST, true},  /* PUT_REQ */
    {NA_EMUL_WIRE_TAIL_OFFSET, true},   /* PUT_DATA */
    {NA_EMUL_WIRE_TAIL_OFFSET, false},  /* GET_ACK */
    {NA_EMUL_WIRE_TAIL_NONE, false},    /* ABORT */
    {NA_EMUL_WIRE_TAIL_OFFSET, true},   /* GET_DATA */
    {NA_EMUL_WIRE_TAIL_OFFSET, false},  /* PUT_ACK */
    {NA_EMUL_WIRE_TAIL_NONE, false},    /* DONE */
};

#define NA_EMUL_WIRE_TYPES \
    (sizeof(na_emul_wire_types) / sizeof(na_emul_wire_types[0]))

HG_PRIVATE size_t na_emul_wire_encode(
    const struct na_emul_wire *frame, unsigned char buf[NA_EMUL_WIRE_MAX])
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_MAX);
    unsigned tail;

    assert(frame->type > 0 && frame->type < NA_EMUL_WIRE_TYPES);
    tail = na_emul_wire_types[frame->type].tail;
    hg_wire_put16(&wire, NA_EMUL_WIRE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_WIRE_VERSION);
    hg_wire_put8(&wire, frame->type);
    hg_wire_put8(&wire, frame->flags);
    hg_wire_put8(&wire, 0);
    hg_wire_put16(&wire, frame->status);
    hg_wire_put64(&wire, frame->id);
    if (tail == NA_EMUL_WIRE_TAIL_REQUEST)
        hg_wire_put64(&wire, frame->key);
    if (tail != NA_EMUL_WIRE_TAIL_NONE)
        hg_wire_put64(&wire, frame->offset);
    if (tail == NA_EMUL_WIRE_TAIL_REQUEST) {
        hg_wire_put64(&wire, frame->length);
        hg_wire_put64(&wire, frame->window);
    }
    assert(!wire.failed);
    return NA_EMUL_WIRE_MAX - hg_wire_left(&wire);
}

HG_PRIVATE na_return_t na_emul_wire_decode(const void *header,
    size_t header_size, size_t data_size, struct na_emul_wire *frame_p)
{
    struct hg_wire wire = hg_wire_reader(header, header_size);
    struct na_emul_wire frame;
    uint16_t magic = hg_wire_get16(&wire);
    uint8_t version = hg_wire_get8(&wire);
    unsigned tail;

    memset(&frame, 0, sizeof(frame));
    frame.type = hg_wire_get8(&wire);
    frame.flags = hg_wire_get8(&wire);
    hg_wire_skip(&wire, 1);
    frame.status = hg_wire_get16(&wire);
    frame.id = hg_wire_get64(&wire);
    /* Of a header that is too short the rest is 0, and refused below. */
    if (magic != NA_EMUL_WIRE_MAGIC || version != NA_EMUL_WIRE_VERSION ||
        frame.type >= NA_EMUL_WIRE_TYPES)
        return NA_PROTOCOL_ERROR;
    tail = na_emul_wire_types[frame.type].tail;
    if (tail == NA_EMUL_WIRE_TAIL_UNKNOWN ||
        (data_size > 0 && !na_emul_wire_types[frame.type].data))
        return NA_PROTOCOL_ERROR;
    if (tail == NA_EMUL_WIRE_TAIL_REQUEST)
        frame.key = hg_wire_get64(&wire);
    if (tail != NA_EMUL_WIRE_TAIL_NONE)
        frame.offset = hg_wire_get64(&wire);
    if (tail == NA_EMUL_WIRE_TAIL_REQUEST) {
        frame.length = hg_wire_get64(&wire);
        frame.window = hg_wire_get64(&wire);
    }
    if (wire.failed)
        return NA_PROTOCOL_ERROR;
    *frame_p = frame;
    return NA_SUCCESS;
}

HG_PRIVATE void na_emul_wire_put_handle(
    const struct na_mem_handle *mem, void *buf)
{
    struct hg_wire wire = hg_wire_writer(buf, NA_EMUL_WIRE_HANDLE_SIZE);

    hg_wire_put16(&wire, NA_EMUL_WIRE_HANDLE_MAGIC);
    hg_wire_put8(&wire, NA_EMUL_WIRE_VERSION);
    hg_wire_put8(&wire, (uint8_t) mem->flags);
    hg_wire_put32(&wire, 0);
    hg_wire_put64(&wire, mem->key);
    hg_wire_put64(&wire, mem->size);
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE na_return_t na_emul_wire_get_handle(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size)
{
    struct hg_wire wire;
    uint16_t magic;
    uint8_t version;
    uint8_t flags;
    uint64_t key;

    if (buf_size != NA_EMUL_WIRE_HANDLE_SIZE)
        return NA_PROTOCOL_ERROR;
    wire = hg_wire_reader(buf, NA_EMUL_WIRE_HANDLE_SIZE);
    magic = hg_wire_get16(&wire);
    version = hg_wire_get8(&wire);
    flags = hg_wire_get8(&wire);
    if (magic != NA_EMUL_WIRE_HANDLE_MAGIC || version != NA_EMUL_WIRE_VERSION ||
        flags == 0 || (flags & ~NA_MEM_READWRITE) != 0 ||
        hg_wire_get32(&wire) != 0)
        return NA_PROTOCOL_ERROR;
    key = hg_wire_get64(&wire);
    if (key == 0) /* no registration has it */
        return NA_PROTOCOL_ERROR;
    mem->flags = flags;
    mem->key = key;
    mem->size = hg_wire_get64(&wire);
    return NA_SUCCESS;
}
