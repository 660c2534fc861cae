/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules wire and crc64: byte order and bounds; check values, and the
 * table-driven and accelerated forms compared with a bitwise one.
 */
#include "support/library.h"

#include "harness.h"

/* ---- wire ---- */

HG_TEST(wire_is_little_endian)
{
    static const unsigned char want[] = {0xab, 0x02, 0x01, 0x06, 0x05, 0x04,
        0x03, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07, 'h', 'g'};
    unsigned char buf[sizeof(want)];
    struct hg_wire wire = hg_wire_writer(buf, sizeof(buf));

    HG_CHECK_EQ_U64(hg_wire_left(&wire), sizeof(buf));
    hg_wire_put8(&wire, 0xab);
    hg_wire_put16(&wire, 0x0102);
    hg_wire_put32(&wire, 0x03040506);
    hg_wire_put64(&wire, UINT64_C(0x0708090a0b0c0d0e));
    hg_wire_put_bytes(&wire, "hg", 2);
    hg_wire_put_bytes(&wire, NULL, 0);
    HG_CHECK(!wire.failed);
    HG_CHECK_EQ_U64(hg_wire_left(&wire), 0);
    HG_CHECK_EQ_MEM(buf, want, sizeof(want));

    wire = hg_wire_reader(want, sizeof(want));
    HG_CHECK_EQ_U64(hg_wire_get8(&wire), 0xab);
    HG_CHECK_EQ_U64(hg_wire_get16(&wire), 0x0102);
    HG_CHECK_EQ_U64(hg_wire_get32(&wire), 0x03040506);
    HG_CHECK_EQ_U64(hg_wire_get64(&wire), UINT64_C(0x0708090a0b0c0d0e));
    HG_CHECK_EQ_MEM(hg_wire_get_bytes(&wire, 2), "hg", 2);
    HG_CHECK(!wire.failed);
    HG_CHECK_EQ_U64(hg_wire_left(&wire), 0);
}

static void bytes_read(struct hg_wire *wire, unsigned size)
{
    uint64_t value = 0;

    switch (size) {
    case 1: value = hg_wire_get8(wire); break;
    case 2: value = hg_wire_get16(wire); break;
    case 4: value = hg_wire_get32(wire); break;
    case 8: value = hg_wire_get64(wire); break;
    case 5: HG_CHECK(hg_wire_get_bytes(wire, size) == NULL); break;
    default: hg_wire_skip(wire, SIZE_MAX); break;
    }
    HG_CHECK_EQ_U64(value, 0);
}

static void bytes_write(struct hg_wire *wire, unsigned size)
{
    switch (size) {
    case 1: hg_wire_put8(wire, 1); break;
    case 2: hg_wire_put16(wire, 1); break;
    case 4: hg_wire_put32(wire, 1); break;
    case 8: hg_wire_put64(wire, 1); break;
    case 5: hg_wire_put_bytes(wire, "12345", size); break;
    default: hg_wire_skip(wire, SIZE_MAX); break;
    }
}

HG_TEST(wire_stops_at_the_end)
{
    static const unsigned sizes[] = {1, 2, 4, 8, 5, 9};
    unsigned i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        /* Allocated with its exact size, so that a sanitizer detects an access
         * past the end. */
        size_t space = sizes[i] - 1;
        unsigned char *buf = (unsigned char *) malloc(space > 0 ? space : 1);
        struct hg_wire wire;
        size_t j;

        HG_CHECK(buf != NULL);
        memset(buf, 0xee, space);
        wire = hg_wire_writer(space > 0 ? buf : NULL, space);
        bytes_write(&wire, sizes[i]);
        HG_CHECK(wire.failed);
        hg_wire_put8(&wire, 0);
        for (j = 0; j < space; j++)
            HG_CHECK_EQ_U64(buf[j], 0xee);

        wire = hg_wire_reader(space > 0 ? buf : NULL, space);
        bytes_read(&wire, sizes[i]);
        HG_CHECK(wire.failed);
        HG_CHECK_EQ_U64(hg_wire_left(&wire), 0);
        /* A smaller field would fit, but the record is broken. */
        HG_CHECK_EQ_U64(hg_wire_get8(&wire), 0);
        HG_CHECK(wire.failed);
        free(buf);
    }
}

HG_TEST(wire_reads_of_zero_bytes_succeed)
{
    unsigned char byte = 7;
    struct hg_wire wire = hg_wire_reader(&byte, 1);

    hg_wire_skip(&wire, 0);
    HG_CHECK(hg_wire_get_bytes(&wire, 0) == NULL);
    HG_CHECK(!wire.failed);
    hg_wire_skip(&wire, 1);
    HG_CHECK(hg_wire_get_bytes(&wire, 0) == NULL);
    HG_CHECK(!wire.failed);
    HG_CHECK_EQ_U64(hg_wire_get8(&wire), 0);
    HG_CHECK(wire.failed);
}

/* ---- crc64 ---- */

#define BYTES_MAX 4096u

/* The definition, bit by bit. */
static uint64_t bytes_crc64(const unsigned char *p, size_t size)
{
    uint64_t crc = UINT64_MAX;
    unsigned bit;

    for (; size > 0; size--, p++) {
        crc ^= *p;
        for (bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT64_C(0xc96c5795d7870f42) : crc >> 1;
    }
    return ~crc;
}

static unsigned char *bytes_random(uint64_t *state, size_t size)
{
    unsigned char *buf = (unsigned char *) malloc(size);
    size_t i;

    HG_CHECK(buf != NULL);
    for (i = 0; i < size; i++)
        buf[i] = (unsigned char) hg_test_random(state);
    return buf;
}

HG_TEST(crc_matches_the_check_values)
{
    static const char digits[] = "123456789";
    uint64_t crc64 = 0;
    unsigned i;

    HG_CHECK_EQ_U64(
        hg_crc64_update(0, digits, 9), UINT64_C(0x995dc9bbdf1939fa));
    HG_CHECK_EQ_U64(
        hg_crc64_update_table(0, digits, 9), UINT64_C(0x995dc9bbdf1939fa));
    for (i = 0; i < 9; i++)
        crc64 = hg_crc64_update(crc64, digits + i, 1);
    HG_CHECK_EQ_U64(crc64, UINT64_C(0x995dc9bbdf1939fa));
    HG_CHECK_EQ_U64(hg_crc64_update(crc64, NULL, 0), crc64);
    HG_CHECK_EQ_U64(hg_crc64_update(0, NULL, 0), 0);
}

/* The narrow form, whatever the processor supports. */
static uint64_t bytes_crc64_narrow(const unsigned char *p, size_t size)
{
#if HG_ENABLE_CRC_SIMD
    if (size >= HG_CRC64_FOLD_MIN && __builtin_cpu_supports("pclmul") &&
        __builtin_cpu_supports("sse4.1"))
        return hg_crc64_update_fold(0, p, size);
#endif
    return hg_crc64_update_table(0, p, size);
}

HG_TEST(crc_forms_agree_on_every_small_size)
{
    uint64_t state = hg_test_seed();
    size_t size;

    for (size = 0; size <= 600; size++) {
        unsigned char *buf = bytes_random(&state, size + 1);
        uint64_t want = bytes_crc64(buf, size);

        HG_CHECK_EQ_U64(hg_crc64_update_table(0, buf, size), want);
        HG_CHECK_EQ_U64(hg_crc64_update(0, buf, size), want);
        HG_CHECK_EQ_U64(bytes_crc64_narrow(buf, size), want);
        free(buf);
    }
}

HG_TEST(crc_forms_agree_on_random_pieces)
{
    uint64_t state = hg_test_seed();
    unsigned round;

    for (round = 0; round < 3000; round++) {
        size_t shift = (size_t) (hg_test_random(&state) % 64);
        size_t size = (size_t) (hg_test_random(&state) % (BYTES_MAX + 1));
        /* Allocated with its exact size, so that a sanitizer detects an access
         * past the end. */
        unsigned char *buf = bytes_random(&state, shift + size + 1);
        unsigned char *p = buf + shift + 1;
        uint64_t want = hg_crc64_update_table(0, p, size);
        uint64_t crc = 0;
        size_t done = 0;

        HG_CHECK_EQ_U64(hg_crc64_update(0, p, size), want);
        HG_CHECK_EQ_U64(bytes_crc64_narrow(p, size), want);
        while (done < size) {
            size_t limit = hg_test_random(&state) % 2 ? 40 : size - done;
            size_t piece = (size_t) (hg_test_random(&state) % (limit + 1));

            if (piece > size - done)
                piece = size - done;
            crc = hg_crc64_update(crc, p + done, piece);
            done += piece;
        }
        HG_CHECK_EQ_U64(crc, want);
        if (round % 100 == 0)
            HG_CHECK_EQ_U64(want, bytes_crc64(p, size));
        free(buf);
    }
}
