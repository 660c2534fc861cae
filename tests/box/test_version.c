/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version: what a program can ask before it opens a class.
 */
#include "harness.h"
#include "hg.h"

HG_TEST(library_and_header_have_the_same_version)
{
    unsigned int major = 99, minor = 99, patch = 99;

    HG_CHECK_OK(HG_Version_get(&major, &minor, &patch));
    hg_test_expect_log("HG_Version_get: an argument is NULL");
    HG_CHECK_RET(HG_Version_get(NULL, &minor, &patch), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(major, HG_VERSION_MAJOR);
    HG_CHECK_EQ_U64(minor, HG_VERSION_MINOR);
    HG_CHECK_EQ_U64(patch, HG_VERSION_PATCH);
}

HG_TEST(every_code_has_a_text_of_its_own)
{
    int code, other;

    for (code = 0; code < HG_RETURN_MAX; code++) {
        HG_CHECK(HG_Error_to_string(code) != NULL);
        HG_CHECK(HG_Error_to_string(code)[0] != '\0');
        for (other = 0; other < code; other++)
            HG_CHECK(strcmp(HG_Error_to_string(code),
                         HG_Error_to_string(other)) != 0);
        if (code < NA_RETURN_MAX)
            HG_CHECK_EQ_STR(NA_Error_to_string(code), HG_Error_to_string(code));
    }
}

HG_TEST(unknown_codes_have_a_text)
{
    HG_CHECK(HG_Error_to_string(-1) != NULL);
    HG_CHECK(HG_Error_to_string(HG_RETURN_MAX) != NULL);
    HG_CHECK(NA_Error_to_string(-1) != NULL);
    HG_CHECK(NA_Error_to_string(100000) != NULL);
}
