/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc64: the two cyclic redundancy checks on the wire.
 *
 * The table-driven forms take eight bytes a step: table k says what a byte
 * does to the check value when k bytes follow it. The tables are constants.
 * They are linear, so only the entries of single bits are written down, and a
 * macro adds them up; the entry of bit j in table k is the polynomial after
 * 8k + 7 - j further steps of the shift register.
 *
 * The fast form of CRC-64 folds 16 bytes at a time with carry-less
 * multiplication. Where the processor multiplies two pairs at once, a wide form
 * folds 128 bytes at a time. In bit-reflected order, bit i of a register stands
 * for the power 127 - i of x. A product of two halves is one power too high:
 * moving a half by n bits takes the constant x^(n - 1) mod P.
 *
 * Invariants: both forms give the same value for the same bytes, in pieces of
 * any size at any alignment. Locking: none; stateless.
 */
#include "base/crc64.h"

#include "base/wire.h"

/* Here and not in os.h: it takes longer to read than everything else. */
#if HG_ENABLE_CRC_SIMD
#include <immintrin.h>
#endif

/* The 256 sums of eight constants, in the order of their index; the first
 * constant belongs to its highest bit. */
#define HG_CRC64_T1(c, b) (c), (c) ^ (b)
#define HG_CRC64_T2(c, b, ...) \
    HG_CRC64_T1(c, __VA_ARGS__), HG_CRC64_T1((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T3(c, b, ...) \
    HG_CRC64_T2(c, __VA_ARGS__), HG_CRC64_T2((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T4(c, b, ...) \
    HG_CRC64_T3(c, __VA_ARGS__), HG_CRC64_T3((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T5(c, b, ...) \
    HG_CRC64_T4(c, __VA_ARGS__), HG_CRC64_T4((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T6(c, b, ...) \
    HG_CRC64_T5(c, __VA_ARGS__), HG_CRC64_T5((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T7(c, b, ...) \
    HG_CRC64_T6(c, __VA_ARGS__), HG_CRC64_T6((c) ^ (b), __VA_ARGS__)
#define HG_CRC64_T8(c, b, ...) \
    HG_CRC64_T7(c, __VA_ARGS__), HG_CRC64_T7((c) ^ (b), __VA_ARGS__)

static const uint64_t hg_crc64_table[8][256] = {
    {HG_CRC64_T8(0, UINT64_C(0xC96C5795D7870F42), UINT64_C(0x64B62BCAEBC387A1),
        UINT64_C(0xFB374270A266CC92), UINT64_C(0x7D9BA13851336649),
        UINT64_C(0xF7A18709FF1EBC66), UINT64_C(0x7BD0C384FF8F5E33),
        UINT64_C(0xF4843657A840A05B), UINT64_C(0xB32E4CBE03A75F6F))},
    {HG_CRC64_T8(0, UINT64_C(0x90FB71CAD654A0F5), UINT64_C(0x8111EF70BCAD5F38),
        UINT64_C(0x4088F7B85E56AF9C), UINT64_C(0x20447BDC2F2B57CE),
        UINT64_C(0x10223DEE1795ABE7), UINT64_C(0xC17D4962DC4DDAB1),
        UINT64_C(0xA9D2F324B9A1E21A), UINT64_C(0x54E979925CD0F10D))},
    {HG_CRC64_T8(0, UINT64_C(0xE318EB5CF9EF77C4), UINT64_C(0x718C75AE7CF7BBE2),
        UINT64_C(0x38C63AD73E7BDDF1), UINT64_C(0xD50F4AFE48BAE1BA),
        UINT64_C(0x6A87A57F245D70DD), UINT64_C(0xFC2F852A45A9B72C),
        UINT64_C(0x7E17C29522D4DB96), UINT64_C(0x3F0BE14A916A6DCB))},
    {HG_CRC64_T8(0, UINT64_C(0xD6E9A7309F3239A7), UINT64_C(0xA218840D981E1391),
        UINT64_C(0x986015931B88068A), UINT64_C(0x4C300AC98DC40345),
        UINT64_C(0xEF7452F111650EE0), UINT64_C(0x77BA297888B28770),
        UINT64_C(0x3BDD14BC445943B8), UINT64_C(0x1DEE8A5E222CA1DC))},
    {HG_CRC64_T8(0, UINT64_C(0x0EF7452F111650EE), UINT64_C(0x077BA297888B2877),
        UINT64_C(0xCAD186DE13C29B79), UINT64_C(0xAC0494FADE6642FE),
        UINT64_C(0x56024A7D6F33217F), UINT64_C(0xE26D72AB601E9FFD),
        UINT64_C(0xB85AEEC0678840BC), UINT64_C(0x5C2D776033C4205E))},
    {HG_CRC64_T8(0, UINT64_C(0x2E16BBB019E2102F), UINT64_C(0xDE670A4DDB760755),
        UINT64_C(0xA65FD2B33A3C0CE8), UINT64_C(0x532FE9599D1E0674),
        UINT64_C(0x2997F4ACCE8F033A), UINT64_C(0x14CBFA566747819D),
        UINT64_C(0xC309AABEE424CF8C), UINT64_C(0x6184D55F721267C6))},
    {HG_CRC64_T8(0, UINT64_C(0x30C26AAFB90933E3), UINT64_C(0xD10D62C20B0396B3),
        UINT64_C(0xA1EAE6F4D206C41B), UINT64_C(0x999924EFBE846D4F),
        UINT64_C(0x85A0C5E208C539E5), UINT64_C(0x8BBC3564D3E593B0),
        UINT64_C(0x45DE1AB269F2C9D8), UINT64_C(0x22EF0D5934F964EC))},
    {HG_CRC64_T8(0, UINT64_C(0x117786AC9A7CB276), UINT64_C(0x08BBC3564D3E593B),
        UINT64_C(0xCD31B63EF11823DF), UINT64_C(0xAFF48C8AAF0B1EAD),
        UINT64_C(0x9E9611D080028014), UINT64_C(0x4F4B08E84001400A),
        UINT64_C(0x27A584742000A005), UINT64_C(0xDABE95AFC7875F40))},
};

/* ---- With tables ---- */

HG_PRIVATE uint64_t hg_crc64_update_table(
    uint64_t crc, const void *data, size_t size)
{
    const uint64_t(*t)[256] = hg_crc64_table;
    const unsigned char *p = (const unsigned char *) data;

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

/* Below this size the tables are as fast, and a fold needs a register full. */
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

/* Move `x` by the number of bits that `keys` stands for, and add `next`. */
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

    assert(size > 0 && size < 16);
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

/* Fold in what lies between `p` and `end`, behind at least 16 bytes; the check
 * value. */
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

    assert(size >= HG_CRC64_WIDE_MIN);
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
