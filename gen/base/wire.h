/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: reads and writes little-endian bytes with bounds checks.
 *
 * Everything on the wire is little-endian, written field by field: no struct is
 * copied. A cursor (struct hg_wire) knows where its buffer ends. A read or
 * write beyond the end does nothing, yields 0 and sets the cursor to failed: a
 * decoder may read a whole record and check once at the end.
 *
 * All functions are inline: compilers turn the byte shifts of a load into a
 * single instruction on little-endian machines. They split a store if they know
 * some of its bytes, and a processor that reads the whole soon after must wait;
 * therefore a store is explicitly one instruction.
 *
 * Locking: none, a cursor belongs to one thread.
 */
#ifndef HG_GEN_BASE_WIRE_H
#define HG_GEN_BASE_WIRE_H

#include "base/os.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HG_WIRE_IS_NATIVE 1
#else
#define HG_WIRE_IS_NATIVE 0
#endif

struct hg_wire {
    unsigned char *data; /* reading never writes through it */
    size_t pos;          /* at most size */
    size_t size;
    bool failed;
};

/* ---- Numbers at an address, aligned or not, without bounds ---- */

static inline uint16_t hg_wire_load16(const void *ptr)
{
    const unsigned char *p = (const unsigned char *) ptr;

    return (uint16_t) (p[0] | (unsigned) p[1] << 8);
}

static inline uint32_t hg_wire_load32(const void *ptr)
{
    const unsigned char *p = (const unsigned char *) ptr;

    return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 |
        (uint32_t) p[3] << 24;
}

static inline uint64_t hg_wire_load64(const void *ptr)
{
    const unsigned char *p = (const unsigned char *) ptr;

    return (uint64_t) p[0] | (uint64_t) p[1] << 8 | (uint64_t) p[2] << 16 |
        (uint64_t) p[3] << 24 | (uint64_t) p[4] << 32 | (uint64_t) p[5] << 40 |
        (uint64_t) p[6] << 48 | (uint64_t) p[7] << 56;
}

static inline void hg_wire_store16(void *ptr, uint16_t value)
{
    unsigned char *p = (unsigned char *) ptr;

    p[0] = (unsigned char) value;
    p[1] = (unsigned char) (value >> 8);
}

static inline void hg_wire_store32(void *ptr, uint32_t value)
{
#if HG_WIRE_IS_NATIVE
    memcpy(ptr, &value, sizeof(value));
#else
    hg_wire_store16(ptr, (uint16_t) value);
    hg_wire_store16((unsigned char *) ptr + 2, (uint16_t) (value >> 16));
#endif
}

static inline void hg_wire_store64(void *ptr, uint64_t value)
{
#if HG_WIRE_IS_NATIVE
    memcpy(ptr, &value, sizeof(value));
#else
    hg_wire_store32(ptr, (uint32_t) value);
    hg_wire_store32((unsigned char *) ptr + 4, (uint32_t) (value >> 32));
#endif
}

/* ---- Cursors ---- */

/* Begin at `buf`, which is borrowed while the cursor is used. NULL is
 * allowed where `size` is 0. */
static inline struct hg_wire hg_wire_writer(void *buf, size_t size)
{
    struct hg_wire wire;

    HG_ASSERT(buf != NULL || size == 0);
    wire.data = (unsigned char *) buf;
    wire.pos = 0;
    wire.size = size;
    wire.failed = false;
    return wire;
}

static inline struct hg_wire hg_wire_reader(const void *buf, size_t size)
{
    return hg_wire_writer((void *) (uintptr_t) buf, size);
}

/* Bytes that may still be read or written; 0 once failed. */
static inline size_t hg_wire_left(const struct hg_wire *wire)
{
    return wire->size - wire->pos;
}

/* Skip `size` bytes, more than 0, and return their address; NULL: there are
 * fewer, and the cursor has failed. */
static inline unsigned char *hg_wire_take(struct hg_wire *wire, size_t size)
{
    size_t start = wire->pos;

    HG_ASSERT(size > 0);
    if (HG_UNLIKELY(size > wire->size - start)) {
        wire->pos = wire->size;
        wire->failed = true;
        return NULL;
    }
    wire->pos = start + size;
    return wire->data + start;
}

static inline void hg_wire_skip(struct hg_wire *wire, size_t size)
{
    if (size > 0)
        (void) hg_wire_take(wire, size);
}

/* ---- Reading ---- */

static inline uint8_t hg_wire_get8(struct hg_wire *wire)
{
    const unsigned char *p = hg_wire_take(wire, 1);

    return p != NULL ? p[0] : 0;
}

static inline uint16_t hg_wire_get16(struct hg_wire *wire)
{
    const unsigned char *p = hg_wire_take(wire, 2);

    return p != NULL ? hg_wire_load16(p) : 0;
}

static inline uint32_t hg_wire_get32(struct hg_wire *wire)
{
    const unsigned char *p = hg_wire_take(wire, 4);

    return p != NULL ? hg_wire_load32(p) : 0;
}

static inline uint64_t hg_wire_get64(struct hg_wire *wire)
{
    const unsigned char *p = hg_wire_take(wire, 8);

    return p != NULL ? hg_wire_load64(p) : 0;
}

/* The next `size` bytes, in place; NULL: there are fewer, or `size` is 0 (which
 * does not fail). */
static inline const void *hg_wire_get_bytes(struct hg_wire *wire, size_t size)
{
    return size > 0 ? hg_wire_take(wire, size) : NULL;
}

/* ---- Writing ---- */

static inline void hg_wire_put8(struct hg_wire *wire, uint8_t value)
{
    unsigned char *p = hg_wire_take(wire, 1);

    if (p != NULL)
        p[0] = value;
}

static inline void hg_wire_put16(struct hg_wire *wire, uint16_t value)
{
    unsigned char *p = hg_wire_take(wire, 2);

    if (p != NULL)
        hg_wire_store16(p, value);
}

static inline void hg_wire_put32(struct hg_wire *wire, uint32_t value)
{
    unsigned char *p = hg_wire_take(wire, 4);

    if (p != NULL)
        hg_wire_store32(p, value);
}

static inline void hg_wire_put64(struct hg_wire *wire, uint64_t value)
{
    unsigned char *p = hg_wire_take(wire, 8);

    if (p != NULL)
        hg_wire_store64(p, value);
}

/* Write `size` bytes; `ptr` may be NULL if `size` is 0. */
static inline void hg_wire_put_bytes(
    struct hg_wire *wire, const void *ptr, size_t size)
{
    unsigned char *p = size > 0 ? hg_wire_take(wire, size) : NULL;

    if (p != NULL)
        memcpy(p, ptr, size);
}

#endif
