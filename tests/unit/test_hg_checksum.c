/* SPDX-License-Identifier: BSD-3-Clause */
/* The module checksum: checksums as objects. */
#include "support/library.h"

#include "harness.h"

HG_TEST(checksum_is_crc64)
{
    hg_checksum_t checksum = NULL;
    unsigned char value[8];
    unsigned char again[8];

    hg_test_alloc_install();
    HG_CHECK_EQ_INT(hg_checksum_init("crc64", &checksum), 0);
    HG_CHECK_EQ_U64(hg_checksum_get_size(checksum), 8);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, value, 8, 0), 0);
    HG_CHECK_EQ_MEM(value, "\0\0\0\0\0\0\0\0", 8);
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, "1234", 4), 0);
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, NULL, 0), 0);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, value, 8, 0), 0);
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, "56789", 5), 0);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, value, 8, 1), 0);
    HG_CHECK_EQ_MEM(value, "\xfa\x39\x19\xdf\xbb\xc9\x5d\x99", 8);

    /* After finalizing it can be read, not continued; a reset starts again. */
    hg_test_expect_log("finalized; reset it first");
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, "x", 1), -1);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, again, 8, 0), 0);
    HG_CHECK_EQ_MEM(again, value, 8);
    HG_CHECK_EQ_INT(hg_checksum_reset(checksum), 0);
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, "123456789", 9), 0);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, again, 8, 0), 0);
    HG_CHECK_EQ_MEM(again, value, 8);
    HG_CHECK_EQ_INT(hg_checksum_destroy(checksum), 0);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST(checksum_refuses_invalid_arguments)
{
    hg_checksum_t checksum = NULL;
    unsigned char value[8];

    hg_test_alloc_install();
    hg_test_expect_log("the method is not");
    HG_CHECK_EQ_INT(hg_checksum_init("crc32", &checksum), -1);
    HG_CHECK_EQ_INT(hg_checksum_init("", &checksum), -1);
    HG_CHECK_EQ_INT(hg_test_log_count("the method is not"), 2);
    hg_test_expect_log("an argument is NULL");
    HG_CHECK_EQ_INT(hg_checksum_init(NULL, &checksum), -1);
    HG_CHECK_EQ_INT(hg_checksum_init("crc64", NULL), -1);
    HG_CHECK_EQ_INT(hg_checksum_destroy(NULL), -1);
    HG_CHECK_EQ_INT(hg_checksum_reset(NULL), -1);
    HG_CHECK_EQ_U64(hg_checksum_get_size(NULL), 0);
    HG_CHECK_EQ_INT(hg_checksum_get(NULL, value, 8, 0), -1);
    HG_CHECK_EQ_INT(hg_checksum_update(NULL, "x", 1), -1);
    HG_CHECK_EQ_INT(hg_test_log_count("an argument is NULL"), 7);
    HG_CHECK(checksum == NULL);
    hg_test_expect_log("no memory");
    hg_test_alloc_fail_at(1);
    HG_CHECK_EQ_INT(hg_checksum_init("crc64", &checksum), -1);
    HG_CHECK(checksum == NULL);

    HG_CHECK_EQ_INT(hg_checksum_init("crc64", &checksum), 0);
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, NULL, 8, 0), -1);
    HG_CHECK_EQ_INT(hg_checksum_update(checksum, NULL, 1), -1);
    hg_test_expect_log("fewer than 8 bytes");
    HG_CHECK_EQ_INT(hg_checksum_get(checksum, value, 7, 0), -1);
    HG_CHECK_EQ_INT(hg_checksum_destroy(checksum), 0);
}
