/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rich: a type with one field of each kind that procs support.
 *
 * Generated procs, and three written by hand as an application writes them: an
 * array with its length, an optional field, bytes of fixed size. Only hg.h is
 * used, and the file is also valid C++. Each value has one encoding, so a
 * decoded value encodes to the same bytes.
 */
#ifndef HG_TESTS_RICH_H
#define HG_TESTS_RICH_H

#include "hg.h"

#include <string.h>

MERCURY_GEN_PROC(rich_point_t, ((int16_t) (x))((int16_t) (y)))
MERCURY_GEN_PROC(rich_name_t, ((hg_string_t) (text))((rich_point_t) (at)))

/* ---- An array with its length ---- */

typedef struct {
    uint32_t count;
    rich_name_t *items;
} rich_names_t;

/* A name that is NULL, and its point: the smallest item. */
#define RICH_NAME_MIN 5

/* The count is set together with the items, never before, so that a free after
 * a failure frees what exists. */
static inline hg_return_t rich_names_decode(hg_proc_t proc, rich_names_t *names)
{
    uint32_t count = 0;
    hg_return_t ret = hg_proc_uint32_t(proc, &count);

    names->count = 0;
    names->items = NULL;
    if (ret != HG_SUCCESS || count == 0)
        return ret;
    if (count > hg_proc_get_size_left(proc) / RICH_NAME_MIN)
        return HG_OVERFLOW;
    names->items =
        (rich_name_t *) hg_proc_alloc(proc, count * sizeof(rich_name_t));
    if (names->items == NULL)
        return HG_NOMEM;
    names->count = count;
    return HG_SUCCESS;
}

static inline hg_return_t hg_proc_rich_names_t(hg_proc_t proc, void *data)
{
    rich_names_t *names = (rich_names_t *) data;
    hg_return_t ret = HG_SUCCESS;
    uint32_t i;

    if (hg_proc_get_op(proc) == HG_DECODE)
        ret = rich_names_decode(proc, names);
    else
        ret = hg_proc_uint32_t(proc, &names->count);
    for (i = 0; i < names->count && ret == HG_SUCCESS; i++)
        ret = hg_proc_rich_name_t(proc, &names->items[i]);
    if (hg_proc_get_op(proc) == HG_FREE) {
        hg_proc_release(proc, names->items);
        names->items = NULL;
        names->count = 0;
    }
    return ret;
}

/* ---- An optional field ---- */

typedef struct {
    hg_bool_t present;
    uint64_t value;
} rich_optional_t;

static inline hg_return_t hg_proc_rich_optional_t(hg_proc_t proc, void *data)
{
    rich_optional_t *optional = (rich_optional_t *) data;
    hg_return_t ret = hg_proc_hg_bool_t(proc, &optional->present);

    if (ret != HG_SUCCESS || !optional->present)
        return ret;
    return hg_proc_uint64_t(proc, &optional->value);
}

/* ---- Bytes of fixed size, and ignored bytes ---- */

typedef struct {
    unsigned char bytes[6];
} rich_tag_t;

static inline hg_return_t hg_proc_rich_tag_t(hg_proc_t proc, void *data)
{
    rich_tag_t *tag = (rich_tag_t *) data;

    return hg_proc_raw(proc, tag->bytes, sizeof(tag->bytes));
}

/* ---- All fields ---- */

MERCURY_GEN_PROC(rich_t,
    ((int8_t) (i8))((uint8_t) (u8))((int16_t) (i16))((uint16_t) (u16))(
        (int32_t) (i32))((uint32_t) (u32))((int64_t) (i64))((uint64_t) (u64))(
        (float) (f))((double) (d))((hg_bool_t) (flag))((hg_string_t) (text))(
        (rich_tag_t) (tag))((rich_names_t) (names))((rich_optional_t) (some))(
        (rich_optional_t) (none))((hg_const_string_t) (constant)))

/* A value whose strings and array are the caller's three `items` and constants:
 * for encoding, not for HG_FREE. */
static inline rich_t rich_example(rich_name_t items[3])
{
    static char texts[3][8] = {"first", "", "third"};
    static char text[] = "a text";
    rich_t rich;

    memset(&rich, 0, sizeof(rich));
    rich.i8 = -8;
    rich.u8 = 8;
    rich.i16 = -1616;
    rich.u16 = 1616;
    rich.i32 = -323232;
    rich.u32 = 323232;
    rich.i64 = -646464646464;
    rich.u64 = 646464646464;
    rich.f = 0.5f;
    rich.d = -0.25;
    rich.flag = HG_TRUE;
    rich.text = text;
    memcpy(rich.tag.bytes, "\1\2\3\4\5\6", sizeof(rich.tag.bytes));
    items[0].text = texts[0];
    items[0].at.x = 1;
    items[0].at.y = 2;
    items[1].text = texts[1];
    items[1].at.x = 3;
    items[1].at.y = 4;
    items[2].text = NULL;
    items[2].at.x = 5;
    items[2].at.y = 6;
    rich.names.count = 3;
    rich.names.items = items;
    rich.some.present = HG_TRUE;
    rich.some.value = 17;
    rich.constant = texts[2];
    return rich;
}

#endif
