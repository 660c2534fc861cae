/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of serialized bulk handles: any bytes, and any bytes after a valid
 * beginning.
 *
 * An accepted handle describes remote memory of its size; nothing is left after
 * it was freed or refused. Built with -DHG_FUZZER=1 and clang's
 * -fsanitize=fuzzer it is a fuzzer; otherwise a test.
 */
#include "support/library.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

int hg_fuzz_bulk(const uint8_t *data, size_t size);

/* One layer for all inputs. */
static struct hg_bulk_layer *fuzz_layer(void)
{
    static struct hg_bulk_layer *layer;

    if (layer == NULL) {
        na_class_t *na_class = NA_Initialize("self://", NA_TRUE);

        (void) HG_Set_log_level("none");
        if (na_class == NULL ||
            hg_bulk_layer_create(na_class, &layer) != HG_SUCCESS)
            abort();
    }
    return layer;
}

static void fuzz_check(const struct hg_bulk *bulk)
{
    if (!bulk->remote || bulk->segment_count == 0 ||
        bulk->mem->size != bulk->size)
        abort();
}

static void fuzz_deserialize(const uint8_t *data, size_t size)
{
    struct hg_bulk_layer *layer = fuzz_layer();
    struct hg_bulk *bulk = NULL;

    if (hg_bulk_deserialize(layer, data, size, &bulk) == HG_SUCCESS) {
        fuzz_check(bulk);
        hg_bulk_unref(bulk);
    }
    if (!hg_list_is_empty(&layer->handles))
        abort();
}

int hg_fuzz_bulk(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    fuzz_deserialize(data, size);
    if (size < HG_BULK_FIXED)
        return 0;
    copy = (uint8_t *) malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, data, size);
    hg_wire_store32(copy, HG_BULK_MAGIC);
    copy[4] = HG_BULK_VERSION;
    copy[5] = (uint8_t) (copy[5] & 15);
    fuzz_deserialize(copy, size);
    free(copy);
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_bulk(data, size);
}

#else

#include "harness.h"
#include "support/fuzz.h"

HG_TEST(fuzz_bulk_corpus)
{
    fuzz_run_corpus("bulk", hg_fuzz_bulk);
}

HG_TEST_SECONDS(fuzz_bulk_random, 60)
{
    fuzz_run_random("bulk", hg_fuzz_bulk, 200000);
}

#endif
