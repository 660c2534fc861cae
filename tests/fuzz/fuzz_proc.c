/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of procs: any bytes, decoded into a type with a field of each kind.
 *
 * An accepted value must encode to the same bytes and be freed completely; a
 * refused one leaves nothing, whatever the cause. Built with -DHG_FUZZER=1 and
 * clang's -fsanitize=fuzzer it is a fuzzer; otherwise a test.
 */
#include "support/library.h"

#include "support/rich.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

int hg_fuzz_proc(const uint8_t *data, size_t size);

/* Decode as the engine does; nothing is left when it fails, as it does with
 * `verdict` unless that is HG_SUCCESS. */
static hg_return_t fuzz_proc_decode(
    const uint8_t *data, size_t size, hg_return_t verdict, rich_t *rich)
{
    struct hg_proc proc;
    hg_return_t ret;

    hg_proc_init_decode(&proc, data, size);
    ret = hg_proc_rich_t(&proc, rich);
    return hg_proc_finish_decode(&proc, verdict != HG_SUCCESS ? verdict : ret);
}

static void fuzz_proc_encode_equals(
    const uint8_t *data, size_t size, rich_t *rich)
{
    struct hg_buf buf = {NULL, 0, false};
    struct hg_proc proc;
    hg_return_t ret;
    size_t encoded = 0;

    ret = hg_proc_init_encode(&proc, &buf, 3, SIZE_MAX);
    if (ret == HG_SUCCESS)
        ret = hg_proc_rich_t(&proc, rich);
    ret = hg_proc_finish_encode(&proc, ret, &encoded);
    if (ret != HG_SUCCESS || encoded != size ||
        memcmp(buf.data + 3, data, size) != 0)
        abort();
    hg_buf_fini(&buf);
}

int hg_fuzz_proc(const uint8_t *data, size_t size)
{
    struct hg_proc proc;
    rich_t rich;

    (void) HG_Set_log_level("none");
    /* A failure must not depend on the previous contents of the struct. */
    memset(&rich, 0xa5, sizeof(rich));
    if (fuzz_proc_decode(data, size, HG_PERMISSION, &rich) != HG_PERMISSION)
        abort();
    memset(&rich, 0xa5, sizeof(rich));
    if (fuzz_proc_decode(data, size, HG_SUCCESS, &rich) != HG_SUCCESS)
        return 0;
    fuzz_proc_encode_equals(data, size, &rich);
    hg_proc_init_free(&proc);
    if (hg_proc_rich_t(&proc, &rich) != HG_SUCCESS || rich.text != NULL)
        abort();
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_proc(data, size);
}

#else

#include "harness.h"
#include "support/fuzz.h"

HG_TEST(fuzz_proc_corpus)
{
    hg_test_alloc_install();
    fuzz_run_corpus("proc", hg_fuzz_proc);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST_SECONDS(fuzz_proc_random, 60)
{
    hg_test_alloc_install();
    fuzz_run_random("proc", hg_fuzz_proc, 200000);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

#endif
