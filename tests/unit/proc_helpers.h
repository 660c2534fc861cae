/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_helpers: functions that encode, decode and free as the engine does, for
 * the tests of procs. Included after hg.c.
 */
#ifndef HG_TESTS_PROC_HELPERS_H
#define HG_TESTS_PROC_HELPERS_H

#include "harness.h"
#include "support/rich.h"

#define PROC_RESERVE 72

/* The encoded bytes begin at buf->data + PROC_RESERVE. */
static inline hg_return_t proc_encode_up_to(size_t limit, hg_proc_cb_t proc_cb,
    const void *value, struct hg_buf *buf, size_t *size_p)
{
    struct hg_proc proc;
    hg_return_t ret;

    ret = hg_proc_init_encode(&proc, buf, PROC_RESERVE, PROC_RESERVE + limit);
    if (ret == HG_SUCCESS)
        ret = proc_cb(&proc, (void *) (uintptr_t) value);
    return hg_proc_finish_encode(&proc, ret, size_p);
}

/* A copy of exactly the encoded bytes, which the caller frees. */
static inline unsigned char *proc_encode(
    hg_proc_cb_t proc_cb, const void *value, size_t *size_p)
{
    struct hg_buf buf = {NULL, 0, false};
    unsigned char *bytes;

    *size_p = 0;
    HG_CHECK_OK(proc_encode_up_to(1 << 24, proc_cb, value, &buf, size_p));
    bytes = (unsigned char *) malloc(*size_p > 0 ? *size_p : 1);
    HG_CHECK(bytes != NULL);
    memcpy(bytes, buf.data + PROC_RESERVE, *size_p);
    hg_buf_fini(&buf);
    return bytes;
}

static inline hg_return_t proc_decode(
    hg_proc_cb_t proc_cb, const void *bytes, size_t size, void *value)
{
    struct hg_proc proc;
    hg_return_t ret;

    hg_proc_init_decode(&proc, bytes, size);
    ret = proc_cb(&proc, value);
    return hg_proc_finish_decode(&proc, ret);
}

static inline void proc_free(hg_proc_cb_t proc_cb, void *value)
{
    struct hg_proc proc;

    hg_proc_init_free(&proc);
    HG_CHECK_OK(proc_cb(&proc, value));
}

/* The bytes of rich_example. */
static inline unsigned char *proc_encode_rich(size_t *size_p)
{
    rich_name_t items[3];
    rich_t rich = rich_example(items);

    return proc_encode(hg_proc_rich_t, &rich, size_p);
}

#endif
