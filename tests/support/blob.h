/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blob: a length and that many bytes, as a proc that uses only hg.h.
 *
 * HG_FREE frees decoded values; encoded ones stay with the caller.
 */
#ifndef HG_TESTS_BLOB_H
#define HG_TESTS_BLOB_H

#include "hg.h"

struct blob {
    uint64_t size;
    unsigned char *bytes;
};

/* Bytes that differ from their neighbors, and a hash of them. */
static inline unsigned char blob_byte(size_t i)
{
    return (unsigned char) (i * 131 >> i % 5);
}

static inline uint64_t blob_sum(const unsigned char *bytes, size_t size)
{
    uint64_t sum = 14695981039346656037u;
    size_t i;

    for (i = 0; i < size; i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

static inline hg_return_t blob_proc(hg_proc_t proc, void *data)
{
    struct blob *blob = (struct blob *) data;
    hg_return_t ret = hg_proc_uint64_t(proc, &blob->size);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_proc_get_op(proc) == HG_FREE) {
        hg_proc_release(proc, blob->bytes);
        blob->bytes = NULL;
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        blob->bytes = NULL;
        if (blob->size > hg_proc_get_size_left(proc))
            return HG_OVERFLOW;
        if (blob->size > 0)
            blob->bytes =
                (unsigned char *) hg_proc_alloc(proc, (size_t) blob->size);
        if (blob->size > 0 && blob->bytes == NULL)
            return HG_NOMEM;
    }
    return blob->size == 0
        ? HG_SUCCESS
        : hg_proc_raw(proc, blob->bytes, (size_t) blob->size);
}

#endif
