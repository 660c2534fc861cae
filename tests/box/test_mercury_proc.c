/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Procs as Mercury programs use them: created directly, with an extra buffer
 * and checksums, used by Mercury's macros; and string objects. Plain names are
 * those of version 2 here.
 */
#define HG_API_VERSION 2
#include "hg.h"

#include "harness.h"

/* A class that is never opened: a proc only returns the pointer. */
static hg_class_t *mproc_class(void)
{
    static long place;

    return (hg_class_t *) (void *) &place;
}

static hg_proc_t mproc_make(
    void *buf, size_t size, hg_proc_op_t op, hg_proc_hash_t hash)
{
    hg_proc_t proc = HG_PROC_NULL;

    HG_CHECK_OK(hg_proc_create_set(mproc_class(), buf, size, op, hash, &proc));
    return proc;
}

/* ---- Buffers ---- */

HG_TEST(mercury_proc_continues_in_an_extra_buffer)
{
    unsigned char small[12];
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);
    uint64_t value;
    uint64_t i;

    HG_CHECK_EQ_U64(hg_proc_get_size(proc), sizeof(small));
    value = 1;
    HG_CHECK_OK(hg_proc_uint64_t(proc, &value));
    HG_CHECK(hg_proc_get_extra_buf(proc) == NULL);
    HG_CHECK_EQ_U64(hg_proc_get_extra_size(proc), 0);
    for (i = 2; i <= 1000; i++) {
        value = i;
        HG_CHECK_OK(hg_proc_uint64_t(proc, &value));
    }
    HG_CHECK_EQ_U64(hg_proc_get_size_used(proc), 8000);
    HG_CHECK(hg_proc_get_extra_buf(proc) != NULL);
    HG_CHECK(hg_proc_get_extra_size(proc) >= 8000);
    HG_CHECK_EQ_U64(hg_proc_get_size(proc), hg_proc_get_extra_size(proc));
    for (i = 0; i < 1000; i++) {
        memcpy(&value, (char *) hg_proc_get_extra_buf(proc) + 8 * i, 8);
        HG_CHECK_EQ_U64(value, i + 1);
    }
    HG_CHECK_OK(hg_proc_free(proc));
}

/* After hg_proc_set_extra_buf_is_mine the extra buffer outlives the proc; a
 * proc that is reused does not touch it. */
HG_TEST(mercury_proc_transfers_its_extra_buffer)
{
    unsigned char small[4];
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);
    uint64_t value = 42;
    char *taken;
    size_t buffer;
    size_t i;

    hg_test_expect_log("there is no extra buffer");
    HG_CHECK_RET(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_uint64_t(proc, &value));
    taken = (char *) hg_proc_get_extra_buf(proc);
    buffer = (size_t) hg_proc_get_extra_size(proc);
    HG_CHECK_OK(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE));
    HG_CHECK_OK(hg_proc_set_extra_buf_is_mine(proc, HG_FALSE));
    HG_CHECK_OK(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE));
    HG_CHECK_OK(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE));
    for (i = 0; i < buffer; i++)
        HG_CHECK_OK(hg_proc_uint8_t(proc, &value));
    HG_CHECK(hg_proc_get_extra_buf(proc) != taken);
    HG_CHECK_EQ_MEM(hg_proc_get_extra_buf(proc), taken, 8);
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_MEM(taken, &value, 8);
    free(taken);
}

HG_TEST(mercury_proc_without_a_buffer_allocates_one)
{
    hg_proc_t proc = HG_PROC_NULL;
    uint32_t value = 7;

    HG_CHECK_OK(hg_proc_create(mproc_class(), HG_NOHASH, &proc));
    HG_CHECK_EQ_U64(hg_proc_get_size(proc), 0);
    HG_CHECK_OK(hg_proc_uint32_t(proc, &value));
    HG_CHECK_EQ_MEM(hg_proc_get_extra_buf(proc), &value, 4);
    HG_CHECK_OK(hg_proc_free(proc));
}

HG_TEST(mercury_proc_can_be_reset)
{
    unsigned char small[4];
    hg_handle_t handle = (hg_handle_t) (void *) small;
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);
    uint64_t value = 0x0807060504030201;
    uint32_t half = 0;

    HG_CHECK(hg_proc_get_class(proc) == mproc_class());
    HG_CHECK(hg_proc_get_handle(proc) == HG_HANDLE_NULL);
    hg_proc_set_handle(proc, handle);
    hg_proc_set_flags(proc, HG_PROC_SM);
    HG_CHECK_EQ_INT(hg_proc_get_flags(proc), HG_PROC_SM);
    HG_CHECK_OK(hg_proc_uint64_t(proc, &value));
    HG_CHECK_OK(hg_proc_reset(proc, &value, sizeof(value), HG_DECODE));
    HG_CHECK_EQ_INT(hg_proc_get_flags(proc), 0);
    HG_CHECK(hg_proc_get_handle(proc) == handle);
    HG_CHECK(hg_proc_get_extra_buf(proc) == NULL);
    HG_CHECK_EQ_INT(hg_proc_get_op(proc), HG_DECODE);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 8);
    HG_CHECK_OK(hg_proc_uint32_t(proc, &half));
    HG_CHECK_EQ_U64(half, 0x04030201);
    HG_CHECK_OK(hg_proc_reset(proc, NULL, 0, HG_FREE));
    HG_CHECK_OK(hg_proc_uint64_t(proc, &value));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(proc), 0);
    HG_CHECK_OK(hg_proc_free(proc));
}

HG_TEST(mercury_proc_does_not_decode_past_the_end)
{
    unsigned char bytes[6] = {1, 2, 3, 4, 5, 6};
    hg_proc_t proc = mproc_make(bytes, sizeof(bytes), HG_DECODE, HG_NOHASH);
    uint64_t value = 99;

    hg_test_expect_log("6 of 6 are left");
    HG_CHECK_RET(hg_proc_uint64_t(proc, &value), HG_OVERFLOW);
    HG_CHECK_RET(hg_proc_set_size(proc, 100), HG_OVERFLOW);
    HG_CHECK_RET(hg_proc_reserve(proc, 0), HG_OVERFLOW);
    HG_CHECK(hg_proc_save_ptr(proc, 1) == NULL);
    HG_CHECK_RET(hg_proc_flush(proc), HG_OVERFLOW);
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_U64(value, 99);
}

HG_TEST(mercury_proc_grows_its_buffer)
{
    unsigned char small[4] = {0};
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);

    HG_CHECK_OK(hg_proc_set_size(proc, 4));
    HG_CHECK(hg_proc_get_extra_buf(proc) == NULL);
    HG_CHECK_OK(hg_proc_reserve(proc, 0));
    HG_CHECK_OK(hg_proc_set_size(proc, 5000));
    HG_CHECK(hg_proc_get_size(proc) >= 5000);
    HG_CHECK_OK(hg_proc_set_size(proc, 1));
    HG_CHECK(hg_proc_get_size(proc) >= 5000);
    hg_test_expect_log("exceed the limit of");
    HG_CHECK_RET(hg_proc_reserve(proc, HG_SIZE_MAX), HG_MSGSIZE);
    HG_CHECK_OK(hg_proc_free(proc));
    proc = mproc_make(NULL, 0, HG_FREE, HG_NOHASH);
    HG_CHECK_OK(hg_proc_set_size(proc, 5000));
    HG_CHECK_EQ_U64(hg_proc_get_size(proc), 0);
    HG_CHECK_OK(hg_proc_free(proc));
}

HG_TEST(mercury_proc_exposes_its_buffer)
{
    unsigned char small[4];
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);
    void *bytes = hg_proc_save_ptr(proc, 3);
    char got[8] = "";

    HG_CHECK(bytes == small);
    memcpy(bytes, "abc", 3);
    HG_CHECK_OK(hg_proc_restore_ptr(proc, bytes, 3));
    bytes = hg_proc_save_ptr(proc, 5);
    HG_CHECK(bytes == (char *) hg_proc_get_extra_buf(proc) + 3);
    memcpy(bytes, "defg", 5);
    HG_CHECK_OK(hg_proc_restore_ptr(proc, bytes, 5));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(proc), 8);
    memcpy(got, hg_proc_get_extra_buf(proc), 8);
    HG_CHECK_OK(hg_proc_reset(proc, got, 8, HG_DECODE));
    HG_CHECK(hg_proc_save_ptr(proc, 0) == got);
    HG_CHECK(hg_proc_save_ptr(proc, 8) == got);
    HG_CHECK_EQ_STR(got, "abcdefg");
    HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
    HG_CHECK_OK(hg_proc_reset(proc, NULL, 0, HG_FREE));
    hg_test_expect_log("the proc is NULL, or frees");
    HG_CHECK(hg_proc_save_ptr(proc, 1) == NULL);
    HG_CHECK_RET(hg_proc_restore_ptr(proc, got, 1), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- Checksums ---- */

HG_TEST(mercury_proc_checksums_what_it_encoded)
{
    static const struct {
        hg_proc_hash_t hash;
        size_t size;
        unsigned char value[8]; /* checksum of "123456789" */
    } cases[] = {{HG_CRC16, 2, {0xdb, 0xd0}},
        {HG_CRC32, 4, {0x83, 0x92, 0x06, 0xe3}},
        {HG_CRC64, 8, {0xfa, 0x39, 0x19, 0xdf, 0xbb, 0xc9, 0x5d, 0x99}}};
    char digits[] = "123456789";
    char buffer[16];
    unsigned char got[8];
    size_t i;

    hg_test_expect_log("no space for it");
    hg_test_expect_log("the hash of 9 bytes does not match");
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hg_proc_t proc = mproc_make(buffer, 16, HG_ENCODE, cases[i].hash);
        size_t size = cases[i].size;

        memset(got, 0xff, sizeof(got));
        HG_CHECK_OK(hg_proc_checksum_get(proc, got, 8));
        HG_CHECK_EQ_MEM(got, "\0\0\0\0\0\0\0\0", size); /* not computed yet */
        HG_CHECK_OK(hg_proc_bytes(proc, digits, 4));
        hg_proc_checksum_update(proc, digits, 4); /* has no effect */
        memcpy(hg_proc_save_ptr(proc, 5), digits + 4, 5);
        HG_CHECK_OK(hg_proc_flush(proc));
        HG_CHECK_OK(hg_proc_checksum_get(proc, got, size));
        HG_CHECK_EQ_MEM(got, cases[i].value, size);
        HG_CHECK_RET(hg_proc_checksum_get(proc, got, size - 1), HG_INVALID_ARG);
        HG_CHECK_RET(hg_proc_checksum_get(proc, NULL, 8), HG_INVALID_ARG);

        HG_CHECK_OK(hg_proc_reset(proc, digits, 9, HG_DECODE));
        HG_CHECK(hg_proc_save_ptr(proc, 9) == digits);
        HG_CHECK_OK(hg_proc_flush(proc));
        HG_CHECK_OK(hg_proc_checksum_verify(proc, cases[i].value, size));
        HG_CHECK_OK(hg_proc_checksum_verify(proc, got, 100));
        got[0] ^= 1;
        HG_CHECK_RET(
            hg_proc_checksum_verify(proc, got, size), HG_CHECKSUM_ERROR);
        HG_CHECK_OK(hg_proc_free(proc));
    }
}

HG_TEST(mercury_proc_without_a_checksum_has_none)
{
    char buffer[4];
    hg_proc_t proc = mproc_make(buffer, 4, HG_ENCODE, HG_NOHASH);
    uint64_t got = 0;

    HG_CHECK_OK(hg_proc_flush(proc));
    hg_test_expect_log("there is no hash");
    HG_CHECK_RET(hg_proc_checksum_get(proc, &got, 8), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_checksum_verify(proc, &got, 8), HG_INVALID_ARG);
    hg_test_expect_log("the hash is NULL");
    HG_CHECK_RET(hg_proc_checksum_verify(proc, NULL, 8), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- What is refused ---- */

HG_TEST(mercury_proc_refuses_nulls)
{
    unsigned char buffer[4] = {0};
    hg_proc_t proc = HG_PROC_NULL;

    hg_test_expect_log("hg_proc_create: the class is NULL");
    hg_test_expect_log("hg_proc_create: an argument is NULL");
    hg_test_expect_log("hg_proc_create_set: the class is NULL");
    hg_test_expect_log("hg_proc_create_set: an argument is NULL");
    hg_test_allow_log("NULL");
    hg_test_allow_log("not a proc of hg_proc_create");
    hg_test_allow_log("nowhere to put it");
    hg_test_allow_log("no buffer, or no such operation");
    hg_test_allow_log("the proc is NULL, or frees");
    HG_CHECK_RET(hg_proc_create(NULL, HG_NOHASH, &proc), HG_INVALID_ARG);
    HG_CHECK_RET(
        hg_proc_create(mproc_class(), HG_NOHASH, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(
        hg_proc_create_set(NULL, buffer, 4, HG_ENCODE, HG_NOHASH, &proc),
        HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_create_set(
                     mproc_class(), buffer, 4, HG_ENCODE, HG_NOHASH, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        hg_proc_create_set(mproc_class(), NULL, 4, HG_ENCODE, HG_NOHASH, &proc),
        HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_create_set(mproc_class(), buffer, 4, (hg_proc_op_t) 3,
                     HG_NOHASH, &proc),
        HG_INVALID_ARG);
    HG_CHECK(proc == HG_PROC_NULL);
    HG_CHECK_OK(hg_proc_free(HG_PROC_NULL));
    HG_CHECK_RET(
        hg_proc_reset(HG_PROC_NULL, buffer, 4, HG_ENCODE), HG_INVALID_ARG);
    HG_CHECK(hg_proc_get_class(HG_PROC_NULL) == NULL);
    HG_CHECK(hg_proc_get_handle(HG_PROC_NULL) == HG_HANDLE_NULL);
    hg_proc_set_handle(HG_PROC_NULL, HG_HANDLE_NULL);
    HG_CHECK_EQ_INT(hg_proc_get_flags(HG_PROC_NULL), 0);
    hg_proc_set_flags(HG_PROC_NULL, 1);
    HG_CHECK_EQ_U64(hg_proc_get_size(HG_PROC_NULL), 0);
    HG_CHECK_RET(hg_proc_reserve(HG_PROC_NULL, 1), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_set_size(HG_PROC_NULL, 1), HG_INVALID_ARG);
    HG_CHECK(hg_proc_save_ptr(HG_PROC_NULL, 1) == NULL);
    HG_CHECK_RET(hg_proc_restore_ptr(HG_PROC_NULL, buffer, 1), HG_INVALID_ARG);
    HG_CHECK(hg_proc_get_extra_buf(HG_PROC_NULL) == NULL);
    HG_CHECK_EQ_U64(hg_proc_get_extra_size(HG_PROC_NULL), 0);
    HG_CHECK_RET(
        hg_proc_set_extra_buf_is_mine(HG_PROC_NULL, 1), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_flush(HG_PROC_NULL), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_checksum_get(HG_PROC_NULL, buffer, 4), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_bytes(HG_PROC_NULL, buffer, 4), HG_INVALID_ARG);
}

HG_TEST(mercury_proc_without_memory)
{
    unsigned char small[4];
    hg_proc_t proc = HG_PROC_NULL;
    uint64_t value = 5;

    hg_test_alloc_install();
    hg_test_expect_log("no memory for a proc");
    hg_test_expect_log("no memory for a buffer");
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(hg_proc_create_set(
                     mproc_class(), small, 4, HG_ENCODE, HG_NOHASH, &proc),
        HG_NOMEM);
    hg_test_alloc_fail_at(0);
    proc = mproc_make(small, 4, HG_ENCODE, HG_NOHASH);
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(hg_proc_uint64_t(proc, &value), HG_NOMEM);
    hg_test_alloc_fail_at(0);
    HG_CHECK_RET(hg_proc_uint64_t(proc, &value), HG_NOMEM);
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* ---- Mercury's macros in a proc function ---- */

typedef struct {
    uint64_t id;
    char name[5];
    int tail;
} mproc_t;

static hg_return_t hg_proc_mproc_t(hg_proc_t proc, void *data)
{
    mproc_t *value = (mproc_t *) data;
    hg_return_t ret = HG_SUCCESS;

    HG_PROC_CHECK_SIZE(proc, sizeof(value->name), done, ret);
    if (hg_proc_get_op(proc) == HG_ENCODE)
        HG_PROC_TYPE_ENCODE(proc, value->name, sizeof(value->name));
    else
        HG_PROC_TYPE_DECODE(proc, value->name, sizeof(value->name));
    HG_PROC_UPDATE(proc, sizeof(value->name));
    HG_PROC_CHECKSUM_UPDATE(proc, value->name, sizeof(value->name));
    HG_PROC_TYPE(proc, uint64_t, &value->id, done, ret);
    HG_PROC_BYTES(proc, &value->tail, sizeof(value->tail), done, ret);

done:
    return ret;
}

MERCURY_GEN_PROC(mproc_outer_t,
    ((mproc_t) (inner))((hg_bool_t) (flag))((hg_id_t) (id))((hg_size_t) (size)))

HG_TEST(mercury_proc_macros_move_values)
{
    unsigned char small[10];
    mproc_outer_t in = {{1, "four", -2}, 7, UINT64_MAX - 1, 99};
    mproc_outer_t out;
    hg_proc_t proc = mproc_make(small, sizeof(small), HG_ENCODE, HG_NOHASH);
    size_t used;
    size_t cut;
    void *bytes;

    HG_CHECK_OK(hg_proc_mproc_outer_t(proc, &in));
    used = hg_proc_get_size_used(proc);
    HG_CHECK_EQ_U64(used, 8 + 5 + sizeof(int) + 1 + 8 + 8);
    bytes = hg_proc_get_extra_buf(proc);
    HG_CHECK_OK(hg_proc_set_extra_buf_is_mine(proc, 1));

    memset(&out, 0, sizeof(out));
    HG_CHECK_OK(hg_proc_reset(proc, bytes, used, HG_DECODE));
    HG_CHECK_OK(hg_proc_mproc_outer_t(proc, &out));
    HG_CHECK_EQ_U64(out.inner.id, 1);
    HG_CHECK_EQ_STR(out.inner.name, "four");
    HG_CHECK_EQ_INT(out.inner.tail, -2);
    HG_CHECK_EQ_INT(out.flag, 7); /* Mercury's bools may be any byte */
    HG_CHECK_EQ_U64(out.id, UINT64_MAX - 1);
    HG_CHECK_EQ_U64(out.size, 99);

    hg_test_allow_log("decoding needs");
    for (cut = 0; cut < used; cut++) {
        HG_CHECK_OK(hg_proc_reset(proc, bytes, cut, HG_DECODE));
        HG_CHECK_RET(hg_proc_mproc_outer_t(proc, &out), HG_OVERFLOW);
    }
    HG_CHECK_OK(hg_proc_reset(proc, NULL, 0, HG_FREE));
    HG_CHECK_OK(hg_proc_mproc_outer_t(proc, &out));
    HG_CHECK_EQ_STR(out.inner.name, "four");
    HG_CHECK_EQ_U64(hg_proc_get_size_used(proc), 0);
    HG_CHECK_OK(hg_proc_free(proc));
    free(bytes);
}

/* ---- String objects ---- */

HG_TEST(mercury_strings_know_who_owns_them)
{
    hg_string_object_t string;
    hg_string_object_t copy;
    char *mine = (char *) malloc(6);
    char *old;

    HG_CHECK(mine != NULL);
    memcpy(mine, "hello", 6);
    HG_CHECK_OK(hg_string_object_init(&string));
    HG_CHECK(string.data == NULL && !string.is_const && !string.is_owned);
    HG_CHECK_OK(hg_string_object_dup(string, &copy));
    HG_CHECK(copy.data == NULL && copy.is_owned);
    HG_CHECK_OK(hg_string_object_init_const_char(&string, "world", 0));
    HG_CHECK(string.is_const && !string.is_owned);
    HG_CHECK_OK(hg_string_object_dup(string, &copy));
    HG_CHECK(copy.data != string.data && copy.is_owned && !copy.is_const);
    HG_CHECK_EQ_STR(copy.data, "world");
    HG_CHECK_OK(hg_string_object_free(&string));
    HG_CHECK_EQ_STR(string.data, "world"); /* borrowed: not freed */

    old = hg_string_object_swap(&copy, mine);
    HG_CHECK_EQ_STR(old, "world");
    free(old);
    HG_CHECK(copy.data == mine && !copy.is_owned);
    HG_CHECK_OK(hg_string_object_init_char(&string, mine, 2));
    HG_CHECK(string.is_owned);
    HG_CHECK_OK(hg_string_object_free(&string));
    HG_CHECK(string.data == NULL);
    HG_CHECK_OK(hg_string_object_free(&string));
}

HG_TEST(mercury_strings_refuse_nulls)
{
    hg_string_object_t string = {NULL, false, false};

    hg_test_allow_log("a string object is NULL");
    HG_CHECK_RET(hg_string_object_init(NULL), HG_INVALID_ARG);
    HG_CHECK_RET(hg_string_object_init_char(NULL, NULL, 0), HG_INVALID_ARG);
    HG_CHECK_RET(
        hg_string_object_init_const_char(NULL, NULL, 0), HG_INVALID_ARG);
    HG_CHECK_RET(hg_string_object_free(NULL), HG_INVALID_ARG);
    HG_CHECK_RET(hg_string_object_dup(string, NULL), HG_INVALID_ARG);
    HG_CHECK(hg_string_object_swap(NULL, NULL) == NULL);
    hg_test_allow_log("NULL");
    HG_CHECK_RET(
        hg_proc_hg_string_object_t(HG_PROC_NULL, &string), HG_INVALID_ARG);
}

/* An object on one side may be a plain string on the other. */
HG_TEST(mercury_strings_round_trip)
{
    char buffer[64];
    hg_proc_t proc = mproc_make(buffer, sizeof(buffer), HG_ENCODE, HG_NOHASH);
    hg_string_object_t strings[2];
    hg_string_object_t got;
    hg_string_t plain = NULL;
    size_t used;

    HG_CHECK_OK(hg_string_object_init_const_char(&strings[0], "over", 0));
    HG_CHECK_OK(hg_string_object_init(&strings[1]));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &strings[0]));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &strings[0]));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &strings[1]));
    used = hg_proc_get_size_used(proc);
    /* Mercury's encoding. */
    HG_CHECK_EQ_U64(used, 2 * (8 + sizeof("over") + 2) + 8);

    HG_CHECK_OK(hg_proc_reset(proc, buffer, used, HG_DECODE));
    HG_CHECK_OK(hg_proc_hg_string_t(proc, &plain));
    HG_CHECK_EQ_STR(plain, "over");
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &got));
    HG_CHECK_EQ_STR(got.data, "over");
    HG_CHECK(got.is_owned && !got.is_const);
    memset(&strings[1], 0xff, sizeof(strings[1]));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &strings[1]));
    HG_CHECK(strings[1].data == NULL);
    hg_test_expect_log("needs 8 bytes");
    HG_CHECK_RET(hg_proc_hg_string_object_t(proc, &strings[0]), HG_OVERFLOW);
    HG_CHECK(strings[0].data == NULL);

    HG_CHECK_OK(hg_proc_reset(proc, NULL, 0, HG_FREE));
    HG_CHECK_OK(hg_proc_hg_string_t(proc, &plain));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &got));
    HG_CHECK_OK(hg_proc_hg_string_object_t(proc, &strings[1]));
    HG_CHECK(got.data == NULL);
    HG_CHECK_OK(hg_proc_free(proc));
}

HG_TEST(mercury_strings_without_memory)
{
    hg_string_object_t copy = {NULL, false, false};
    hg_string_object_t string;

    hg_test_alloc_install();
    HG_CHECK_OK(hg_string_object_init_const_char(&string, "long", 0));
    hg_test_expect_log("no memory for a copy of a string");
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(hg_string_object_dup(string, &copy), HG_NOMEM);
    hg_test_alloc_fail_at(0);
    HG_CHECK(copy.data == NULL);
}
