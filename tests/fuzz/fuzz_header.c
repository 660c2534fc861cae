/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of message headers: any bytes, unchanged and with a corrected
 * checksum, so that the code after the checksum test is reached.
 *
 * An accepted header refers to bytes of the message only, and does not change
 * when it is encoded again. Built with -DHG_FUZZER=1 and clang's
 * -fsanitize=fuzzer it is a fuzzer; otherwise a test.
 */
#include "support/library.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

int hg_fuzz_header(const uint8_t *data, size_t size);

static bool fuzz_is_inside(
    const void *part, size_t part_size, const uint8_t *data, size_t size)
{
    const uint8_t *p = (const uint8_t *) part;

    return p >= data && p + part_size <= data + size;
}

/* Encoded again, it is the same, except for unknown bits. */
static void fuzz_again(const struct hg_header *header)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header again;
    struct hg_header want = *header;
    bool answerable;

    want.payload_size = 0;
    hg_header_encode(&want, bytes, true);
    if (hg_header_decode(&again, bytes, sizeof(bytes), &answerable) !=
        HG_SUCCESS)
        abort();
    if (again.type != want.type || again.flags != want.flags ||
        again.origin_context != want.origin_context ||
        again.code != want.code || again.rpc_id != want.rpc_id ||
        again.sequence != want.sequence || again.trace_id != want.trace_id ||
        again.time_left != want.time_left || again.types != want.types ||
        again.payload_size != 0)
        abort();
}

static void fuzz_header_decode(const uint8_t *data, size_t size)
{
    struct hg_header header;
    bool answerable = true;
    hg_return_t ret = hg_header_decode(&header, data, size, &answerable);

    if (ret != HG_SUCCESS && ret != HG_PROTOCOL_ERROR &&
        ret != HG_CHECKSUM_ERROR)
        abort();
    if (answerable && size < HG_HEADER_STABLE)
        abort();
    if (ret != HG_SUCCESS)
        return;
    if (!answerable ||
        !fuzz_is_inside(header.payload, header.payload_size, data, size))
        abort();
    fuzz_again(&header);
}

int hg_fuzz_header(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    fuzz_header_decode(data, size);
    if (size < HG_HEADER_MIN)
        return 0;
    copy = (uint8_t *) malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, data, size);
    hg_wire_store16(copy + 8, HG_HEADER_MAGIC);
    copy[10] = HG_HEADER_MAJOR;
    hg_wire_store64(copy, hg_crc64_update(0, copy + 8, size - 8));
    fuzz_header_decode(copy, size);
    free(copy);
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_header(data, size);
}

#else

#include "harness.h"
#include "support/fuzz.h"

HG_TEST(fuzz_header_corpus)
{
    fuzz_run_corpus("header", hg_fuzz_header);
}

HG_TEST_SECONDS(fuzz_header_random, 60)
{
    fuzz_run_random("header", hg_fuzz_header, 300000);
}

#endif
