/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of message headers: any bytes, as they are and with the checksum put
 * right, so that what stands behind it is reached.
 *
 * What is accepted points into the message only, and says the same after it
 * was encoded again. Built with -DHG_FUZZER=1 and clang's -fsanitize=fuzzer it
 * is a fuzzer; otherwise a test.
 */
#include "support/house.h"

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

/* Unknown options fall away, and the rest is the same. */
static void fuzz_again(const struct hg_header *header)
{
    unsigned char bytes[HG_HEADER_MIN + 4 + HG_HEADER_TEXT_MAX];
    struct hg_header again;
    struct hg_header want = *header;
    size_t size = hg_header_size(header);
    bool answerable;

    want.payload_size = 0;
    hg_header_encode(&want, bytes);
    if (hg_header_decode(&again, bytes, size, &answerable) != HG_SUCCESS)
        abort();
    if (again.type != want.type || again.flags != want.flags ||
        again.origin_context != want.origin_context ||
        again.target_context != want.target_context ||
        again.code != want.code || again.rpc_id != want.rpc_id ||
        again.sequence != want.sequence ||
        again.incarnation != want.incarnation ||
        again.trace_id != want.trace_id || again.time_left != want.time_left ||
        again.types != want.types || again.args_crc != want.args_crc ||
        again.text_size != want.text_size ||
        (want.text_size > 0 &&
            memcmp(again.text, want.text, want.text_size) != 0))
        abort();
}

static void fuzz_header_decode(const uint8_t *data, size_t size)
{
    struct hg_header header;
    bool answerable = true;
    hg_return_t ret = hg_header_decode(&header, data, size, &answerable);

    if (ret != HG_SUCCESS && ret != HG_PROTOCOL_ERROR)
        abort();
    if (answerable && size < HG_HEADER_STABLE)
        abort();
    if (ret != HG_SUCCESS)
        return;
    if (!answerable || header.size > size ||
        !fuzz_is_inside(
            header.payload, (size_t) header.payload_size, data, size))
        abort();
    if (header.text_size > 0 &&
        !fuzz_is_inside(header.text, header.text_size, data, size))
        abort();
    fuzz_again(&header);
}

int hg_fuzz_header(const uint8_t *data, size_t size)
{
    uint8_t *copy;
    size_t header_size;

    fuzz_header_decode(data, size);
    if (size < HG_HEADER_STABLE)
        return 0;
    copy = (uint8_t *) malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, data, size);
    hg_wire_store32(copy, HG_HEADER_MAGIC);
    copy[4] = HG_HEADER_MAJOR;
    header_size = hg_wire_load16(copy + 8);
    /* One that is too short for its fields stays so. */
    if (header_size < HG_HEADER_STABLE || header_size > size) {
        header_size = size < 0xffff ? size : 0xffff;
        hg_wire_store16(copy + 8, (uint16_t) header_size);
    }
    if (header_size >= HG_HEADER_FIXED)
        hg_wire_store64(copy + 56, size - header_size);
    hg_wire_store32(
        copy + header_size - 4, hg_crc32c_update(0, copy, header_size - 4));
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
