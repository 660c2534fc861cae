/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc64: the cyclic redundancy check on the wire.
 *
 * The table form takes eight bytes a step: table k contains the effect of a
 * byte on the check value when k bytes follow it. The tables are computed on
 * first use.
 *
 * The fast form of CRC-64 folds 16 bytes at a time with carry-less
 * multiplication. If the processor multiplies two pairs at once, a wide form
 * folds 128 bytes at a time. In bit-reflected order, bit i of a register stands
 * for the power 127 - i of x. A product of two halves is one power too high:
 * moving a half by n bits takes the constant x^(n - 1) mod P.
 *
 * Invariants: all forms give the same value for the same bytes, in pieces of
 * any size at any alignment. Locking: none; the tables are made once.
 */
#include "base/crc64.h"

#include "base/wire.h"

/* Included here and not in os.h: it takes longer to compile than everything
 * else. */
#if HG_ENABLE_CRC_SIMD
#include <immintrin.h>
#endif

/* ---- With tables ---- */

#define HG_CRC64_POLYNOMIAL UINT64_C(0xC96C5795D7870F42)

static uint64_t hg_crc64_table[8][256];
static pthread_once_t hg_crc64_once = PTHREAD_ONCE_INIT;

static void hg_crc64_make_tables(void)
{
    uint64_t(*t)[256] = hg_crc64_table;
    unsigned i;
    unsigned k;

    for (i = 0; i < 256; i++) {
        uint64_t crc = i;

        for (k = 0; k < 8; k++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? HG_CRC64_POLYNOMIAL : 0);
        t[0][i] = crc;
    }
    for (k = 1; k < 8; k++)
        for (i = 0; i < 256; i++)
            t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xff];
}

HG_PRIVATE uint64_t hg_crc64_update_table(
    uint64_t crc, const void *data, size_t size)
{
    uint64_t(*t)[256] = hg_crc64_table;
    const unsigned char *p = (const unsigned char *) data;

    (void) pthread_once(&hg_crc64_once, hg_crc64_make_tables);
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        crc ^= hg_wire_load64(p);
        crc = t[7][crc & 0xff] ^ t[6][crc >> 8 & 0xff] ^
            t[5][crc >> 16 & 0xff] ^ t[4][crc >> 24 & 0xff] ^
            t[3][crc >> 32 & 0xff] ^ t[2][crc >> 40 & 0xff] ^
            t[1][crc >> 48 & 0xff] ^ t[0][crc >> 56];
    }
    if (size >= 4) {
        crc ^= hg_wire_load32(p);
        crc = crc >> 32 ^ t[3][crc & 0xff] ^ t[2][crc >> 8 & 0xff] ^
            t[1][crc >> 16 & 0xff] ^ t[0][crc >> 24 & 0xff];
        size -= 4;
        p += 4;
    }
    for (; size > 0; size--, p++)
        crc = crc >> 8 ^ t[0][(crc ^ *p) & 0xff];
    return ~crc;
}

/* ---- With the processor's instructions ---- */

#if HG_ENABLE_CRC_SIMD

/* Below this size the tables are as fast, and a fold needs a full register. */
#define HG_CRC64_FOLD_MIN 16

/* The wide form needs four registers of 32 bytes. */
#define HG_CRC64_WIDE_MIN 128

#define HG_CRC64_FOLD_TARGET __attribute__((target("pclmul,sse4.1")))
#define HG_CRC64_WIDE_TARGET \
    __attribute__((target("vpclmulqdq,avx2,pclmul,sse4.1")))

HG_CRC64_FOLD_TARGET
static inline __m128i hg_crc64_load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *) (const void *) p);
}

/* Move `x` by the number of bits that `keys` is for, and add `next`. */
HG_CRC64_FOLD_TARGET
static inline __m128i hg_crc64_fold(__m128i x, __m128i keys, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, keys, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, keys, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Fold in the last `size` bytes, 1 to 15, which end at `end`; at least 16
 * bytes lie before `end`. The register's first `size` bytes move behind the
 * rest and the tail; shuffling with a byte past 15 gives 0. */
HG_CRC64_FOLD_TARGET
static inline __m128i hg_crc64_fold_tail(
    __m128i x, __m128i keys, const unsigned char *end, size_t size)
{
    static const unsigned char window[48] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 2, 3,
        4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    __m128i to_end = hg_crc64_load(window + size);
    __m128i to_front = hg_crc64_load(window + 16 + size);
    __m128i first = _mm_shuffle_epi8(x, to_end);
    __m128i rest = _mm_shuffle_epi8(x, to_front);
    /* Where `to_front` gives 0, its sign bit picks the tail's bytes. */
    __m128i last = _mm_blendv_epi8(rest, hg_crc64_load(end - 16), to_front);

    HG_ASSERT(size > 0 && size < 16);
    return hg_crc64_fold(first, keys, last);
}

/* The register times x^64, modulo P (Barrett). */
HG_CRC64_FOLD_TARGET
static inline uint64_t hg_crc64_reduce(__m128i x, __m128i keys)
{
    /* x^128 / P and P, each without its highest power. */
    const __m128i barrett = _mm_set_epi64x(
        (int64_t) 0x92D8AF2BAF0E1E85, (int64_t) 0x9C3E466C172963D5);
    __m128i y = _mm_xor_si128(
        _mm_clmulepi64_si128(x, keys, 0x10), _mm_srli_si128(x, 8));
    __m128i q = _mm_clmulepi64_si128(y, barrett, 0x00);
    __m128i r = _mm_clmulepi64_si128(q, barrett, 0x10);

    r = _mm_xor_si128(_mm_xor_si128(r, _mm_slli_si128(q, 8)), y);
    return (uint64_t) _mm_extract_epi64(r, 1);
}

/* Fold in the bytes from `p` to `end`, after at least 16 bytes; returns the
 * check value. */
HG_CRC64_FOLD_TARGET
static inline uint64_t hg_crc64_fold_rest(
    __m128i x, __m128i by16, const unsigned char *p, const unsigned char *end)
{
    for (; end - p >= 16; p += 16)
        x = hg_crc64_fold(x, by16, hg_crc64_load(p));
    if (p < end)
        x = hg_crc64_fold_tail(x, by16, end, (size_t) (end - p));
    return ~hg_crc64_reduce(x, by16);
}

/* `size` is at least HG_CRC64_FOLD_MIN. */
HG_CRC64_FOLD_TARGET
static uint64_t hg_crc64_update_fold(
    uint64_t crc, const unsigned char *p, size_t size)
{
    /* Low half: x^(n + 63), high half: x^(n - 1), for n = 128. */
    const __m128i by16 = _mm_set_epi64x(
        (int64_t) 0xDABE95AFC7875F40, (int64_t) 0xE05DD497CA393AE4);
    const unsigned char *end = p + size;
    __m128i x =
        _mm_xor_si128(hg_crc64_load(p), _mm_set_epi64x(0, (int64_t) ~crc));

    return hg_crc64_fold_rest(x, by16, p + 16, end);
}

HG_CRC64_WIDE_TARGET
static inline __m256i hg_crc64_wide_load(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *) (const void *) p);
}

/* As hg_crc64_fold, for two registers at once. */
HG_CRC64_WIDE_TARGET
static inline __m256i hg_crc64_wide_fold(__m256i x, __m256i keys, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(x, keys, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(x, keys, 0x11);

    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

/* Fold a wide register's halves, which follow `x`, behind it. */
HG_CRC64_WIDE_TARGET
static inline __m128i hg_crc64_wide_join(
    __m128i x, __m128i keys, __m256i halves)
{
    x = hg_crc64_fold(x, keys, _mm256_castsi256_si128(halves));
    return hg_crc64_fold(x, keys, _mm256_extracti128_si256(halves, 1));
}

/* `size` is at least HG_CRC64_WIDE_MIN. */
HG_CRC64_WIDE_TARGET
static uint64_t hg_crc64_update_wide(
    uint64_t crc, const unsigned char *p, size_t size)
{
    /* As above, for n = 128 and 1024. */
    const __m128i by16 = _mm_set_epi64x(
        (int64_t) 0xDABE95AFC7875F40, (int64_t) 0xE05DD497CA393AE4);
    const __m256i by128 = _mm256_broadcastsi128_si256(_mm_set_epi64x(
        (int64_t) 0xD7D86B2AF73DE740, (int64_t) 0x8757D71D4FCC1000));
    const unsigned char *end = p + size;
    __m256i x0 = _mm256_xor_si256(
        hg_crc64_wide_load(p), _mm256_set_epi64x(0, 0, 0, (int64_t) ~crc));
    __m256i x1 = hg_crc64_wide_load(p + 32);
    __m256i x2 = hg_crc64_wide_load(p + 64);
    __m256i x3 = hg_crc64_wide_load(p + 96);
    __m128i x;

    HG_ASSERT(size >= HG_CRC64_WIDE_MIN);
    for (p += 128; end - p >= 128; p += 128) {
        x0 = hg_crc64_wide_fold(x0, by128, hg_crc64_wide_load(p));
        x1 = hg_crc64_wide_fold(x1, by128, hg_crc64_wide_load(p + 32));
        x2 = hg_crc64_wide_fold(x2, by128, hg_crc64_wide_load(p + 64));
        x3 = hg_crc64_wide_fold(x3, by128, hg_crc64_wide_load(p + 96));
    }
    x = hg_crc64_fold(
        _mm256_castsi256_si128(x0), by16, _mm256_extracti128_si256(x0, 1));
    x = hg_crc64_wide_join(x, by16, x1);
    x = hg_crc64_wide_join(x, by16, x2);
    x = hg_crc64_wide_join(x, by16, x3);
    return hg_crc64_fold_rest(x, by16, p, end);
}

#endif /* HG_ENABLE_CRC_SIMD */

HG_PRIVATE uint64_t hg_crc64_update(uint64_t crc, const void *data, size_t size)
{
#if HG_ENABLE_CRC_SIMD
    if (HG_LIKELY(size < HG_CRC64_WIDE_MIN) ||
        !__builtin_cpu_supports("vpclmulqdq") ||
        !__builtin_cpu_supports("avx2")) {
        if (size >= HG_CRC64_FOLD_MIN && __builtin_cpu_supports("pclmul") &&
            __builtin_cpu_supports("sse4.1"))
            return hg_crc64_update_fold(
                crc, (const unsigned char *) data, size);
    } else {
        return hg_crc64_update_wide(crc, (const unsigned char *) data, size);
    }
#endif
    return hg_crc64_update_table(crc, data, size);
}
