/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module proc_own, with procs of a call, for which the engine sets the
 * handle they belong to. test_mercury_proc.c covers procs that the application
 * creates.
 */
#include "support/library.h"

#include "harness.h"

HG_TEST(proc_of_a_call_knows_its_handle)
{
    long places[2];
    struct hg_class *hg_class = (struct hg_class *) (void *) &places[0];
    struct hg_handle *handle = (struct hg_handle *) (void *) &places[1];
    struct hg_buf buf = {NULL, 0, false};
    struct hg_proc proc;
    uint64_t value = 1;

    HG_CHECK_OK(hg_proc_init_encode(&proc, &buf, 8, 1024));
    HG_CHECK(hg_proc_get_class(&proc) == NULL);
    HG_CHECK(hg_proc_get_handle(&proc) == HG_HANDLE_NULL);
    proc.hg_class = hg_class;
    proc.handle = handle;
    HG_CHECK(hg_proc_get_class(&proc) == hg_class);
    HG_CHECK(hg_proc_get_handle(&proc) == handle);

    /* No other handle is. */
    HG_CHECK_EQ_INT(hg_proc_get_flags(&proc), 0);
    HG_CHECK(hg_proc_get_extra_buf(&proc) == NULL);
    HG_CHECK_EQ_U64(hg_proc_get_extra_size(&proc), 0);
    HG_CHECK_OK(hg_proc_uint64_t(&proc, &value));
    HG_CHECK_OK(hg_proc_flush(&proc));
    hg_test_expect_log("not a proc of hg_proc_create");
    HG_CHECK_RET(hg_proc_reset(&proc, &value, 8, HG_ENCODE), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_free2(&proc), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_checksum_get(&proc, &value, 8), HG_INVALID_ARG);
    hg_buf_fini(&buf);
}

/* The message grows, up to its limit. */
HG_TEST(proc_of_a_call_grows_its_buffer)
{
    struct hg_buf buf = {NULL, 0, false};
    struct hg_proc proc;

    HG_CHECK_OK(hg_proc_init_encode(&proc, &buf, 8, 4096));
    HG_CHECK_OK(hg_proc_set_size(&proc, 2000));
    HG_CHECK(hg_proc_get_size(&proc) >= 2000);
    memset(hg_proc_save_ptr(&proc, 2000), 0x55, 2000);
    HG_CHECK_EQ_U64(proc.cursor.pos, 2000);
    HG_CHECK_EQ_U64(buf.data[8], 0x55);
    hg_test_expect_log("exceed the limit of 4088");
    HG_CHECK(hg_proc_save_ptr(&proc, 2089) == NULL);
    HG_CHECK_RET(hg_proc_reserve(&proc, 1), HG_MSGSIZE);
    hg_buf_fini(&buf);
}

/* A decoded string object is freed once if decoding fails later; if decoding
 * succeeds, it belongs to the application. */
HG_TEST(proc_of_a_call_frees_string_objects)
{
    unsigned char bytes[] = {3, 0, 0, 0, 0, 0, 0, 0, 'h', 'g', 0, 0, 0, 1};
    hg_string_object_t object;
    struct hg_proc proc;
    uint8_t tail = 0;
    hg_return_t ret;

    hg_test_alloc_install();
    hg_proc_init_decode(&proc, bytes, sizeof(bytes) - 1);
    HG_CHECK_OK(hg_proc_hg_string_object_t(&proc, &object));
    HG_CHECK_EQ_STR(object.data, "hg");
    hg_test_expect_log("decoding needs 1 bytes");
    ret = hg_proc_uint8_t(&proc, &tail);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, ret), HG_OVERFLOW);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    HG_CHECK_OK(HG_Set_allocator(hg_test_allocator()));

    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_OK(hg_proc_hg_string_object_t(&proc, &object));
    HG_CHECK_OK(hg_proc_finish_decode(&proc, hg_proc_uint8_t(&proc, &tail)));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 1);
    HG_CHECK_OK(HG_Set_allocator(hg_test_allocator()));
    hg_proc_init_free(&proc);
    HG_CHECK_OK(hg_proc_hg_string_object_t(&proc, &object));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}
