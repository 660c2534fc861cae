/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules proc and proc_types without errors: every type in both
 * directions, the buffer that grows up to its limit, the golden vectors.
 * test_hg_proc_fail.c tests the errors.
 */
#include "support/library.h"

#include "harness.h"
#include "proc_helpers.h"
#include "support/golden.h"
#include "support/rich.h"

#include <float.h>
#include <math.h>

/* ---- Types, in both directions ---- */

/* Each of `count` values of `size` bytes is decoded unchanged, and is encoded
 * in as many bytes. */
static void proc_round(
    hg_proc_cb_t proc_cb, const void *values, size_t count, size_t size)
{
    const unsigned char *value = (const unsigned char *) values;
    unsigned char got[8];
    unsigned char *bytes;
    size_t encoded;
    size_t i;

    for (i = 0; i < count; i++, value += size) {
        bytes = proc_encode(proc_cb, value, &encoded);
        HG_CHECK_EQ_U64(encoded, size);
        memset(got, 0xa5, sizeof(got));
        HG_CHECK_OK(proc_decode(proc_cb, bytes, encoded, got));
        HG_CHECK_EQ_MEM(got, value, size);
        proc_free(proc_cb, got);
        HG_CHECK_EQ_MEM(got, value, size);
        free(bytes);
    }
}

#define PROC_ROUND(type, ...) \
    do { \
        const type values[] = {__VA_ARGS__}; \
        proc_round(hg_proc_##type, values, sizeof(values) / sizeof(values[0]), \
            sizeof(values[0])); \
    } while (0)

HG_TEST(proc_numbers_round_trip)
{
    PROC_ROUND(int8_t, 0, 1, -1, INT8_MIN, INT8_MAX);
    PROC_ROUND(uint8_t, 0, 1, 0x80, UINT8_MAX);
    PROC_ROUND(int16_t, 0, 1, -1, INT16_MIN, INT16_MAX, 0x1234);
    PROC_ROUND(uint16_t, 0, 1, 0x8000, UINT16_MAX, 0x1234);
    PROC_ROUND(int32_t, 0, 1, -1, INT32_MIN, INT32_MAX, 0x12345678);
    PROC_ROUND(uint32_t, 0, 1, 0x80000000, UINT32_MAX, 0x12345678);
    PROC_ROUND(int64_t, 0, 1, -1, INT64_MIN, INT64_MAX, 0x123456789abcdef);
    PROC_ROUND(uint64_t, 0, 1, UINT64_MAX, 0x8000000000000000);
    PROC_ROUND(float, 0, -0.0f, 1.5f, FLT_MIN, FLT_MAX, -FLT_MAX, FLT_MIN / 8,
        INFINITY);
    PROC_ROUND(double, 0, -0.0, 1.5, DBL_MIN, DBL_MAX, -DBL_MAX, DBL_MIN / 8,
        (double) INFINITY, -(double) INFINITY);
    PROC_ROUND(hg_bool_t, HG_FALSE, HG_TRUE);
}

/* Each NaN keeps its bits, signaling or not. */
HG_TEST(proc_nans_keep_their_bits)
{
    const uint32_t singles[] = {0x7fc00000, 0x7f800001, 0xffffffff};
    const uint64_t doubles[] = {
        0x7ff8000000000000, 0x7ff0000000000001, 0xffffffffffffffff};

    proc_round(hg_proc_float, singles, 3, 4);
    proc_round(hg_proc_double, doubles, 3, 8);
}

HG_TEST(proc_bool_is_zero_or_one)
{
    hg_bool_t value = 200;
    unsigned char *bytes;
    size_t size;
    unsigned byte;

    bytes = proc_encode(hg_proc_hg_bool_t, &value, &size);
    HG_CHECK_EQ_U64(size, 1);
    HG_CHECK_EQ_INT(bytes[0], 1);
    free(bytes);
    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("a bool is the byte");
    for (byte = 2; byte < 256; byte++) {
        unsigned char wire = (unsigned char) byte;

        value = 77;
        HG_CHECK_RET(proc_decode(hg_proc_hg_bool_t, &wire, 1, &value),
            HG_PROTOCOL_ERROR);
        HG_CHECK_EQ_INT(value, 77);
    }
    HG_CHECK_EQ_INT(hg_test_log_count("a bool is the byte"), 254);
}

/* A string of `length` bytes, none of them NUL. */
static char *proc_text(size_t length)
{
    char *text = (char *) malloc(length + 1);
    size_t i;

    HG_CHECK(text != NULL);
    for (i = 0; i < length; i++)
        text[i] = (char) (1 + i % 255);
    text[length] = '\0';
    return text;
}

HG_TEST(proc_strings_round_trip)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 255, 256, 511, 512, 100000};
    unsigned char *bytes;
    size_t size;
    size_t i;

    hg_test_alloc_install();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        hg_string_t text = proc_text(lengths[i]);
        hg_const_string_t constant = NULL;
        hg_string_t got = NULL;

        bytes = proc_encode(hg_proc_hg_string_t, &text, &size);
        HG_CHECK_EQ_U64(size, 8 + lengths[i] + 1 + 2); /* as in Mercury */
        HG_CHECK_OK(proc_decode(hg_proc_hg_string_t, bytes, size, &got));
        HG_CHECK_EQ_STR(got, text);
        HG_CHECK_OK(
            proc_decode(hg_proc_hg_const_string_t, bytes, size, &constant));
        HG_CHECK_EQ_STR(constant, text);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 2);
        proc_free(hg_proc_hg_string_t, &got);
        proc_free(hg_proc_hg_const_string_t, &constant);
        HG_CHECK(got == NULL && constant == NULL);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
        free(bytes);
        free(text);
    }
}

HG_TEST(proc_null_string_stays_null)
{
    hg_string_t text = NULL;
    hg_string_t got = (hg_string_t) (uintptr_t) 1;
    hg_const_string_t constant = "not this";
    unsigned char *bytes;
    size_t size;

    hg_test_alloc_install();
    bytes = proc_encode(hg_proc_hg_string_t, &text, &size);
    HG_CHECK_EQ_U64(size, 8);
    HG_CHECK_OK(proc_decode(hg_proc_hg_string_t, bytes, size, &got));
    HG_CHECK(got == NULL);
    HG_CHECK_OK(proc_decode(hg_proc_hg_const_string_t, bytes, size, &constant));
    HG_CHECK(constant == NULL);
    /* Freeing it has no effect, however often. */
    proc_free(hg_proc_hg_string_t, &got);
    proc_free(hg_proc_hg_string_t, &got);
    proc_free(hg_proc_hg_const_string_t, &constant);
    free(bytes);
}

/* ---- Invalid strings ---- */

struct proc_bad_string {
    const char *bytes;
    size_t size;
    hg_return_t ret;
    const char *cause;
};

static const struct proc_bad_string proc_bad_strings[] = {
    {"\3\0\0\0\0\0\0\0ab\0\1\0", 13, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\3\0\0\0\0\0\0\0ab\0\0\1", 13, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\3\0\0\0\0\0\0\0ab\0\x80\xff", 13, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\3\0\0\0\0\0\0\0a\0c\0\0", 13, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\2\0\0\0\0\0\0\0\0\0\0\0", 12, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\4\0\0\0\0\0\0\0abcd\0\0", 14, HG_PROTOCOL_ERROR,
        "does not end with its"},
    {"\1\0\0\0\0\0\0\0a\0\0", 11, HG_PROTOCOL_ERROR, "does not end with its"},
    {"\4\0\0\0\0\0\0\0abc\0\0", 13, HG_OVERFLOW, "claims 4 bytes and 2 "},
    {"\3\0\0\0\0\0\0\0ab\0\0", 12, HG_OVERFLOW, "claims 3 bytes and 2 "},
    {"\1\0\0\0\0\0\0\0\0", 9, HG_OVERFLOW, "and 1 of 9 are left"},
    {"\1\0\0\0\0\0\0\0", 8, HG_OVERFLOW, "and 0 of 8 are left"},
    {"\0\0\0\0\1\0\0\0abc\0\0", 13, HG_OVERFLOW, "claims 4294967296 bytes"},
    {"\xff\xff\xff\xff\xff\xff\xff\xff"
     "abc",
        11, HG_OVERFLOW, "claims 18446744073709551615 bytes"},
    {"\xf8\xff\xff\xff\xff\xff\xff\xff"
     "ab",
        10, HG_OVERFLOW, "claims 18446744073709551608 bytes"},
    {"\3\0\0\0\0\0\0", 7, HG_OVERFLOW, "needs 8 bytes, and 7"},
    {"", 0, HG_OVERFLOW, "needs 8 bytes, and 0"},
};

/* Refused with its cause, and before any allocation. */
HG_TEST(proc_bad_strings_are_refused)
{
    size_t i;

    hg_test_alloc_install();
    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    for (i = 0; i < sizeof(proc_bad_strings) / sizeof(proc_bad_strings[0]);
         i++) {
        const struct proc_bad_string *bad = &proc_bad_strings[i];
        hg_string_t got = (hg_string_t) (uintptr_t) 1;
        hg_const_string_t constant = "not this";
        void *exact = malloc(bad->size > 0 ? bad->size : 1);

        HG_CHECK(exact != NULL);
        memcpy(exact, bad->bytes, bad->size);
        if (i == 0 || strcmp(bad->cause, bad[-1].cause) != 0)
            hg_test_expect_log(bad->cause);
        hg_test_alloc_fail_at(1);
        HG_CHECK_RET(
            proc_decode(hg_proc_hg_string_t, exact, bad->size, &got), bad->ret);
        HG_CHECK(got == NULL);
        HG_CHECK_RET(
            proc_decode(hg_proc_hg_const_string_t, exact, bad->size, &constant),
            bad->ret);
        HG_CHECK(constant == NULL);
        HG_CHECK(!hg_test_alloc_failed());
        free(exact);
    }
}

/* ---- The rich type ---- */

static void proc_check_rich(const rich_t *got)
{
    HG_CHECK_EQ_INT(got->i8, -8);
    HG_CHECK_EQ_INT(got->u8, 8);
    HG_CHECK_EQ_INT(got->i16, -1616);
    HG_CHECK_EQ_INT(got->u16, 1616);
    HG_CHECK_EQ_INT(got->i32, -323232);
    HG_CHECK_EQ_INT(got->u32, 323232);
    HG_CHECK_EQ_INT(got->i64, -646464646464);
    HG_CHECK_EQ_U64(got->u64, 646464646464);
    HG_CHECK(got->f == 0.5f && got->d == -0.25);
    HG_CHECK_EQ_INT(got->flag, HG_TRUE);
    HG_CHECK_EQ_STR(got->text, "a text");
    HG_CHECK_EQ_MEM(got->tag.bytes, "\1\2\3\4\5\6", 6);
    HG_CHECK_EQ_INT(got->names.count, 3);
    HG_CHECK_EQ_STR(got->names.items[0].text, "first");
    HG_CHECK_EQ_STR(got->names.items[1].text, "");
    HG_CHECK(got->names.items[2].text == NULL);
    HG_CHECK_EQ_INT(got->names.items[2].at.y, 6);
    HG_CHECK_EQ_INT(got->some.present, HG_TRUE);
    HG_CHECK_EQ_U64(got->some.value, 17);
    HG_CHECK_EQ_INT(got->none.present, HG_FALSE);
    HG_CHECK_EQ_STR(got->constant, "third");
}

HG_TEST(proc_rich_type_round_trips)
{
    unsigned char *bytes;
    size_t size;
    rich_t got;

    hg_test_alloc_install();
    bytes = proc_encode_rich(&size);
    memset(&got, 0xa5, sizeof(got));
    HG_CHECK_OK(proc_decode(hg_proc_rich_t, bytes, size, &got));
    proc_check_rich(&got);
    proc_free(hg_proc_rich_t, &got);
    HG_CHECK(got.names.items == NULL && got.text == NULL);
    /* Once freed, it can be freed again. */
    proc_free(hg_proc_rich_t, &got);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    memset(&got, 0, sizeof(got));
    proc_free(hg_proc_rich_t, &got);
    free(bytes);
}

/* With a public proc: no checksum, a fixed buffer, a struct zeroed before. */
HG_TEST(proc_fixed_buffer_is_filled_and_not_passed)
{
    unsigned char *bytes;
    unsigned char *buffer;
    rich_name_t items[3];
    rich_t rich = rich_example(items);
    hg_proc_t proc = NULL;
    size_t size;
    size_t given;

    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("encoding needs");
    bytes = proc_encode_rich(&size);
    for (given = 0; given <= size; given++) {
        buffer = (unsigned char *) malloc(given > 0 ? given : 1);
        HG_CHECK(buffer != NULL);
        HG_CHECK_OK(hg_proc_create(buffer, given, HG_ENCODE, &proc));
        HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), given);
        HG_CHECK_RET(hg_proc_rich_t(proc, &rich),
            given < size ? HG_OVERFLOW : HG_SUCCESS);
        HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
        HG_CHECK(hg_proc_get_size_used(proc) <= given);
        HG_CHECK_EQ_MEM(buffer, bytes, hg_proc_get_size_used(proc));
        HG_CHECK_OK(hg_proc_free(proc));
        free(buffer);
    }
    HG_CHECK_EQ_U64(hg_test_log_count("encoding needs"), size);
    free(bytes);
}

/* ---- Raw bytes and ignored bytes ---- */

static hg_return_t proc_gap(hg_proc_t proc, void *data)
{
    uint16_t *pair = (uint16_t *) data;
    hg_return_t ret = hg_proc_uint16_t(proc, &pair[0]);

    if (ret == HG_SUCCESS)
        ret = hg_proc_ignore(proc, 1000);
    if (ret == HG_SUCCESS)
        ret = hg_proc_ignore(proc, 0);
    return ret == HG_SUCCESS ? hg_proc_uint16_t(proc, &pair[1]) : ret;
}

HG_TEST(proc_ignored_bytes_are_zeros_and_count)
{
    static const unsigned char zeros[1000] = {0};
    uint16_t pair[2] = {0x1111, 0x2222};
    uint16_t got[2] = {0, 0};
    struct hg_buf buf = {NULL, 0, false};
    size_t size = 0;
    unsigned char *bytes;

    /* Where a larger message left its bytes. */
    HG_CHECK_OK(hg_buf_reserve(&buf, 4096, 4096));
    memset(buf.data, 0xee, 4096);
    HG_CHECK_OK(proc_encode_up_to(1 << 20, proc_gap, pair, &buf, &size));
    bytes = buf.data + PROC_RESERVE;
    HG_CHECK_EQ_U64(size, 1004);
    HG_CHECK_EQ_MEM(bytes + 2, zeros, 1000);
    /* The sender's bytes there do not affect the value. */
    memset(bytes + 2, 0x77, 1000);
    HG_CHECK_OK(proc_decode(proc_gap, bytes, size, got));
    HG_CHECK_EQ_MEM(got, pair, sizeof(pair));
    hg_test_expect_log("decoding needs 1000 bytes, and 999 of 1001 are left");
    HG_CHECK_RET(proc_decode(proc_gap, bytes, 1001, got), HG_OVERFLOW);
    proc_free(proc_gap, got);
    hg_buf_fini(&buf);
}

static hg_return_t proc_raw_10(hg_proc_t proc, void *data)
{
    hg_return_t ret = hg_proc_raw(proc, NULL, 0);

    return ret == HG_SUCCESS ? hg_proc_raw(proc, data, 10) : ret;
}

HG_TEST(proc_raw_bytes_round_trip)
{
    unsigned char got[12];
    unsigned char *bytes;
    struct hg_proc proc;
    size_t size;

    bytes = proc_encode(proc_raw_10, "ab\0cdefghi", &size);
    HG_CHECK_EQ_U64(size, 10);
    HG_CHECK_EQ_MEM(bytes, "ab\0cdefghi", 10);
    memset(got, '.', sizeof(got));
    HG_CHECK_OK(proc_decode(proc_raw_10, bytes, size, got));
    HG_CHECK_EQ_MEM(got, "ab\0cdefghi..", 12);
    /* Nothing to free, not even what decoding did not reach. */
    hg_proc_init_free(&proc);
    HG_CHECK_OK(hg_proc_raw(&proc, NULL, 1 << 20));
    HG_CHECK_OK(hg_proc_ignore(&proc, 1 << 20));
    free(bytes);
}

/* ---- The buffer ---- */

/* Encode `count` numbers, the first of which is 0. */
static uint32_t proc_many_count;

static hg_return_t proc_many(hg_proc_t proc, void *data)
{
    hg_return_t ret = HG_SUCCESS;
    uint32_t i;

    (void) data;
    for (i = 0; i < proc_many_count && ret == HG_SUCCESS; i++) {
        uint32_t value = i;

        ret = hg_proc_uint32_t(proc, &value);
        if (ret == HG_SUCCESS)
            HG_CHECK_EQ_INT(value, i);
    }
    return ret;
}

/* A buffer grows by doubling: a MiB takes a dozen steps, and round-trips. */
HG_TEST(proc_buffer_grows_geometrically)
{
    struct hg_buf buf = {NULL, 0, false};
    unsigned growths = 0;
    size_t last = 0;
    size_t size = 0;

    hg_test_alloc_install();
    for (proc_many_count = 0; proc_many_count < 20000;
         proc_many_count += 1 + proc_many_count / 8) {
        HG_CHECK_OK(proc_encode_up_to(1 << 20, proc_many, NULL, &buf, &size));
        HG_CHECK_EQ_U64(size, proc_many_count * (size_t) 4);
        HG_CHECK(buf.capacity >= PROC_RESERVE + size);
        HG_CHECK(buf.capacity <= 2 * (PROC_RESERVE + size) + 512);
        growths += buf.capacity != last;
        last = buf.capacity;
        HG_CHECK_OK(
            proc_decode(proc_many, buf.data + PROC_RESERVE, size, NULL));
    }
    HG_CHECK(growths > 4 && growths < 12);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 1);
    hg_buf_fini(&buf);
}

/* The bytes before the arguments survive a move of the buffer. */
HG_TEST(proc_growth_keeps_the_reserve)
{
    struct hg_buf buf = {NULL, 0, false};
    unsigned char header[PROC_RESERVE];
    struct hg_proc proc;
    size_t size = 0;

    memset(header, 0x5a, sizeof(header));
    HG_CHECK_OK(hg_proc_init_encode(&proc, &buf, PROC_RESERVE, 1 << 20));
    HG_CHECK_EQ_U64(buf.capacity, 512);
    memcpy(buf.data, header, sizeof(header));
    proc_many_count = 10000;
    HG_CHECK_OK(hg_proc_finish_encode(&proc, proc_many(&proc, NULL), &size));
    HG_CHECK(buf.capacity > 40000);
    HG_CHECK_EQ_MEM(buf.data, header, sizeof(header));
    HG_CHECK_EQ_U64(size, 40000);
    hg_buf_fini(&buf);
}

/* The limit is exact, with a new buffer and with one that is already larger
 * than the limit. */
HG_TEST(proc_limit_is_exact)
{
    struct hg_buf buf = {NULL, 0, false};
    size_t size = 0;
    unsigned round;

    hg_test_expect_log("exceed the limit of 3999");
    for (round = 0; round < 2; round++) {
        proc_many_count = 1000;
        HG_CHECK_OK(proc_encode_up_to(4000, proc_many, NULL, &buf, &size));
        HG_CHECK_EQ_U64(size, 4000);
        HG_CHECK(round > 0 || buf.capacity == PROC_RESERVE + 4000);
        size = 1;
        HG_CHECK_RET(
            proc_encode_up_to(3999, proc_many, NULL, &buf, &size), HG_MSGSIZE);
        HG_CHECK_EQ_U64(size, 1);
        HG_CHECK_OK(hg_buf_reserve(&buf, 10000, 10000));
    }
    HG_CHECK_EQ_INT(hg_test_log_count("exceed the limit of 3999"), 2);
    hg_buf_fini(&buf);
}

HG_TEST(proc_buf_reserve_keeps_its_limit)
{
    struct hg_buf buf = {NULL, 0, false};

    HG_CHECK_OK(hg_buf_reserve(&buf, 10, 100));
    HG_CHECK_EQ_U64(buf.capacity, 10);
    HG_CHECK_OK(hg_buf_reserve(&buf, 11, 10000));
    HG_CHECK_EQ_U64(buf.capacity, 512);
    HG_CHECK_OK(hg_buf_reserve(&buf, 513, 1000));
    HG_CHECK_EQ_U64(buf.capacity, 1000);
    HG_CHECK_OK(hg_buf_reserve(&buf, 1000, 1));
    hg_test_expect_log("a message of 1001 bytes exceeds the limit of 1000");
    HG_CHECK_RET(hg_buf_reserve(&buf, 1001, 1000), HG_MSGSIZE);
    HG_CHECK_EQ_U64(buf.capacity, 1000);
    hg_buf_fini(&buf);
}

/* A message without arguments is valid. */
HG_TEST(proc_empty_value_round_trips)
{
    struct hg_buf buf = {NULL, 0, false};
    size_t size = 1;

    proc_many_count = 0;
    HG_CHECK_OK(proc_encode_up_to(0, proc_many, NULL, &buf, &size));
    HG_CHECK(buf.capacity >= PROC_RESERVE);
    HG_CHECK_EQ_U64(size, 0);
    HG_CHECK_OK(proc_decode(proc_many, NULL, 0, NULL));
    hg_buf_fini(&buf);
}

HG_TEST(proc_reports_op_and_sizes)
{
    unsigned char buffer[16] = {0};
    struct hg_buf buf = {NULL, 0, false};
    struct hg_proc proc;
    uint64_t number = 1;

    HG_CHECK_OK(hg_proc_init_encode(&proc, &buf, 8, 24));
    HG_CHECK_EQ_INT(hg_proc_get_op(&proc), HG_ENCODE);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 16);
    HG_CHECK_OK(hg_proc_uint64_t(&proc, &number));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(&proc), 8);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 8);
    hg_test_expect_log("exceed the limit of 16");
    HG_CHECK_RET(hg_proc_ignore(&proc, SIZE_MAX), HG_MSGSIZE);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 0);
    HG_CHECK_EQ_U64(hg_proc_get_size_used(&proc), 8);
    hg_buf_fini(&buf);

    hg_proc_init_decode(&proc, buffer, 16);
    HG_CHECK_EQ_INT(hg_proc_get_op(&proc), HG_DECODE);
    HG_CHECK_OK(hg_proc_uint64_t(&proc, &number));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(&proc), 8);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 8);
    hg_test_expect_log("decoding needs");
    HG_CHECK_RET(hg_proc_ignore(&proc, SIZE_MAX), HG_OVERFLOW);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 0);

    hg_proc_init_free(&proc);
    HG_CHECK_EQ_INT(hg_proc_get_op(&proc), HG_FREE);
    HG_CHECK_OK(hg_proc_uint64_t(&proc, &number));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(&proc), 0);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(&proc), 0);
}

/* ---- Golden vectors ---- */

MERCURY_GEN_PROC(proc_edge_t,
    ((rich_point_t) (from))((rich_point_t) (to))((hg_string_t) (name))(
        (hg_bool_t) (closed)))

static hg_return_t proc_golden_raw(hg_proc_t proc, void *data)
{
    return hg_proc_raw(proc, data, 4);
}

static hg_return_t proc_golden_ignore(hg_proc_t proc, void *data)
{
    (void) data;
    return hg_proc_ignore(proc, 3);
}

/* Encode `value`, and compare with the golden bytes. */
static const unsigned char *proc_golden_encode(struct golden *golden,
    const char *name, hg_proc_cb_t proc_cb, const void *value, size_t *size_p)
{
    const unsigned char *want = golden_get(golden, name, size_p);
    size_t size;
    unsigned char *bytes = proc_encode(proc_cb, value, &size);

    HG_CHECK_EQ_U64(size, *size_p);
    HG_CHECK_EQ_MEM(bytes, want, size);
    free(bytes);
    return want;
}

/* `value`, of `size` bytes and without pointers, encodes to the golden bytes,
 * and they decode to it. */
static void proc_golden(struct golden *golden, const char *name,
    hg_proc_cb_t proc_cb, const void *value, size_t size)
{
    unsigned char got[8] = {0};
    size_t want_size;
    const unsigned char *want =
        proc_golden_encode(golden, name, proc_cb, value, &want_size);

    HG_CHECK_OK(proc_decode(proc_cb, want, want_size, got));
    HG_CHECK_EQ_MEM(got, value, size);
}

#define PROC_GOLDEN(golden, name, type, ...) \
    do { \
        const type value = __VA_ARGS__; \
        proc_golden(golden, name, hg_proc_##type, &value, sizeof(value)); \
    } while (0)

static void proc_golden_numbers(struct golden *golden)
{
    PROC_GOLDEN(golden, "int8_t", int8_t, -2);
    PROC_GOLDEN(golden, "uint8_t", uint8_t, 200);
    PROC_GOLDEN(golden, "int16_t", int16_t, -2);
    PROC_GOLDEN(golden, "uint16_t", uint16_t, 0x0102);
    PROC_GOLDEN(golden, "int32_t", int32_t, -2);
    PROC_GOLDEN(golden, "uint32_t", uint32_t, 0x01020304);
    PROC_GOLDEN(golden, "int64_t", int64_t, INT64_MIN);
    PROC_GOLDEN(golden, "uint64_t", uint64_t, 0x0102030405060708);
    PROC_GOLDEN(golden, "float", float, 1.5f);
    PROC_GOLDEN(golden, "float_zero", float, -0.0f);
    PROC_GOLDEN(golden, "double", double, -2.5);
    PROC_GOLDEN(golden, "double_infinity", double, (double) INFINITY);
    PROC_GOLDEN(golden, "false", hg_bool_t, HG_FALSE);
    PROC_GOLDEN(golden, "true", hg_bool_t, HG_TRUE);
    proc_golden(golden, "raw", proc_golden_raw, "hg\0\xff", 4);
    proc_golden(golden, "ignore", proc_golden_ignore, "", 0);
}

static void proc_golden_string(
    struct golden *golden, const char *name, const char *value)
{
    hg_const_string_t constant = value;
    hg_string_t text = (hg_string_t) (uintptr_t) value;
    const unsigned char *want;
    size_t want_size;

    (void) proc_golden_encode(
        golden, name, hg_proc_hg_const_string_t, &constant, &want_size);
    want = proc_golden_encode(
        golden, name, hg_proc_hg_string_t, &text, &want_size);
    HG_CHECK_OK(proc_decode(hg_proc_hg_string_t, want, want_size, &text));
    HG_CHECK((text == NULL) == (value == NULL));
    if (value != NULL)
        HG_CHECK_EQ_STR(text, value);
    proc_free(hg_proc_hg_string_t, &text);
}

static void proc_golden_struct(struct golden *golden)
{
    static char name[] = "edge";
    const proc_edge_t edge = {{1, -1}, {INT16_MIN, INT16_MAX}, name, HG_TRUE};
    size_t want_size;
    const unsigned char *want = proc_golden_encode(
        golden, "struct", hg_proc_proc_edge_t, &edge, &want_size);
    proc_edge_t got;

    HG_CHECK_OK(proc_decode(hg_proc_proc_edge_t, want, want_size, &got));
    HG_CHECK(got.from.x == 1 && got.from.y == -1);
    HG_CHECK(got.to.x == INT16_MIN && got.to.y == INT16_MAX);
    HG_CHECK_EQ_STR(got.name, "edge");
    HG_CHECK_EQ_INT(got.closed, HG_TRUE);
    proc_free(hg_proc_proc_edge_t, &got);
}

static void proc_golden_array(struct golden *golden)
{
    static char a[] = "a";
    rich_name_t items[2] = {{a, {1, 2}}, {NULL, {3, 4}}};
    const rich_names_t names = {2, items};
    size_t want_size;
    const unsigned char *want = proc_golden_encode(
        golden, "array", hg_proc_rich_names_t, &names, &want_size);
    rich_names_t got;

    HG_CHECK_OK(proc_decode(hg_proc_rich_names_t, want, want_size, &got));
    HG_CHECK_EQ_INT(got.count, 2);
    HG_CHECK_EQ_STR(got.items[0].text, "a");
    HG_CHECK(got.items[1].text == NULL);
    HG_CHECK(got.items[0].at.y == 2 && got.items[1].at.x == 3);
    proc_free(hg_proc_rich_names_t, &got);
}

/* The checksum of `size` bytes equals the golden one. */
static void proc_golden_crc(
    struct golden *golden, const char *name, const void *bytes, size_t size)
{
    unsigned char value[8];
    size_t want_size;
    const unsigned char *want = golden_get(golden, name, &want_size);

    hg_wire_store64(value, hg_crc64_update(0, bytes, size));
    HG_CHECK_EQ_U64(want_size, sizeof(value));
    HG_CHECK_EQ_MEM(value, want, sizeof(value));
}

HG_TEST(proc_golden_vectors)
{
    struct golden *golden = golden_open("tests/golden/proc.hex");
    const unsigned char *bytes;
    size_t size;

    proc_golden_numbers(golden);
    proc_golden_string(golden, "string_null", NULL);
    proc_golden_string(golden, "string_empty", "");
    proc_golden_string(golden, "string", "hello");
    proc_golden_string(golden, "const_string", "\xc3\xa9");
    proc_golden_struct(golden);
    proc_golden_array(golden);
    proc_golden_crc(golden, "crc_empty", "", 0);
    proc_golden_crc(golden, "crc_check", "123456789", 9);
    bytes = golden_get(golden, "struct", &size);
    proc_golden_crc(golden, "crc_struct", bytes, size);
    golden_close(golden);
}
