/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_types: the procs of the basic types.
 *
 * On the wire, without padding between fields:
 *
 *     int8_t .. uint64_t     1, 2, 4, 8 bytes, little-endian, two's complement
 *     float, double          the IEEE 754 bits as a uint32_t, a uint64_t
 *     hg_bool_t              one byte, 0 or 1
 *     raw, ignore            the bytes as they are; zeros
 *     hg_string_t            NULL:  | 0, uint64_t |
 *                            else:  | size, uint64_t | bytes | 0 | 0 |
 *
 * The size of a string counts the NUL at its end, which is the only one. The
 * two zeros stand where Mercury has is_const and is_owned: a string is as large
 * as there. A decoder compares the size with what arrived before it allocates.
 * Another value of a bool or of a zero, and a NUL elsewhere, are refused with
 * HG_PROTOCOL_ERROR.
 *
 * Locking: none, see proc.h.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "hg/proc.h"

_Static_assert(sizeof(float) == 4 && sizeof(double) == 8,
    "float and double travel as IEEE 754 single and double");

/* ---- Numbers ----
 *
 * What most arguments are made of: one comparison while there is room, and
 * everything else behind a call that ends the function. */

hg_return_t hg_proc_uint8_t(hg_proc_t proc, void *data)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(!hg_proc_may_step(proc, data, 1)))
        return hg_proc_step_again(proc, data, 1, hg_proc_uint8_t);
    bytes = hg_proc_step(proc, 1);
    if (proc->room.op == HG_ENCODE)
        bytes[0] = *(const uint8_t *) data;
    else
        *(uint8_t *) data = bytes[0];
    return HG_SUCCESS;
}

hg_return_t hg_proc_uint16_t(hg_proc_t proc, void *data)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(!hg_proc_may_step(proc, data, 2)))
        return hg_proc_step_again(proc, data, 2, hg_proc_uint16_t);
    bytes = hg_proc_step(proc, 2);
    if (proc->room.op == HG_ENCODE)
        hg_wire_store16(bytes, *(const uint16_t *) data);
    else
        *(uint16_t *) data = hg_wire_load16(bytes);
    return HG_SUCCESS;
}

hg_return_t hg_proc_uint32_t(hg_proc_t proc, void *data)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(!hg_proc_may_step(proc, data, 4)))
        return hg_proc_step_again(proc, data, 4, hg_proc_uint32_t);
    bytes = hg_proc_step(proc, 4);
    if (proc->room.op == HG_ENCODE)
        hg_wire_store32(bytes, *(const uint32_t *) data);
    else
        *(uint32_t *) data = hg_wire_load32(bytes);
    return HG_SUCCESS;
}

hg_return_t hg_proc_uint64_t(hg_proc_t proc, void *data)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(!hg_proc_may_step(proc, data, 8)))
        return hg_proc_step_again(proc, data, 8, hg_proc_uint64_t);
    bytes = hg_proc_step(proc, 8);
    if (proc->room.op == HG_ENCODE)
        hg_wire_store64(bytes, *(const uint64_t *) data);
    else
        *(uint64_t *) data = hg_wire_load64(bytes);
    return HG_SUCCESS;
}

/* C allows the unsigned access to a signed object, and both are two's
 * complement. */
hg_return_t hg_proc_int8_t(hg_proc_t proc, void *data)
{
    return hg_proc_uint8_t(proc, data);
}

hg_return_t hg_proc_int16_t(hg_proc_t proc, void *data)
{
    return hg_proc_uint16_t(proc, data);
}

hg_return_t hg_proc_int32_t(hg_proc_t proc, void *data)
{
    return hg_proc_uint32_t(proc, data);
}

hg_return_t hg_proc_int64_t(hg_proc_t proc, void *data)
{
    return hg_proc_uint64_t(proc, data);
}

hg_return_t hg_proc_float(hg_proc_t proc, void *data)
{
    uint32_t bits;
    hg_return_t ret;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    memcpy(&bits, data, sizeof(bits));
    ret = hg_proc_uint32_t(proc, &bits);
    if (ret == HG_SUCCESS && proc->room.op == HG_DECODE)
        memcpy(data, &bits, sizeof(bits));
    return ret;
}

hg_return_t hg_proc_double(hg_proc_t proc, void *data)
{
    uint64_t bits;
    hg_return_t ret;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    memcpy(&bits, data, sizeof(bits));
    ret = hg_proc_uint64_t(proc, &bits);
    if (ret == HG_SUCCESS && proc->room.op == HG_DECODE)
        memcpy(data, &bits, sizeof(bits));
    return ret;
}

hg_return_t hg_proc_hg_bool_t(hg_proc_t proc, void *data)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    bytes = hg_proc_step(proc, 1);
    if (bytes == NULL)
        return proc->error;
    if (proc->room.op == HG_ENCODE) {
        bytes[0] = *(const hg_bool_t *) data != HG_FALSE;
        return HG_SUCCESS;
    }
    if (bytes[0] > 1) {
        HG_PROC_EXPLAIN(proc, "a bool is the byte %u", bytes[0]);
        return hg_proc_fail(proc, HG_PROTOCOL_ERROR);
    }
    *(hg_bool_t *) data = bytes[0];
    return HG_SUCCESS;
}

/* ---- Bytes ---- */

hg_return_t hg_proc_raw(hg_proc_t proc, void *buf, size_t size)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(proc == NULL))
        return hg_proc_refuse(proc);
    /* Of an array that was never decoded there is nothing to free. */
    if (size == 0 || proc->room.op == HG_FREE)
        return proc->error;
    if (HG_UNLIKELY(buf == NULL))
        return hg_proc_refuse(proc);
    bytes = hg_proc_step(proc, size);
    if (bytes == NULL)
        return proc->error;
    if (proc->room.op == HG_ENCODE)
        memcpy(bytes, buf, size);
    else
        memcpy(buf, bytes, size);
    return HG_SUCCESS;
}

hg_return_t hg_proc_ignore(hg_proc_t proc, size_t size)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(proc == NULL))
        return hg_proc_refuse(proc);
    if (size == 0)
        return proc->error;
    bytes = hg_proc_step(proc, size);
    if (bytes == NULL)
        return proc->error;
    if (proc->room.op == HG_ENCODE)
        memset(bytes, 0, size);
    return HG_SUCCESS;
}

/* ---- Strings ---- */

#define HG_PROC_STRING_ZEROS 2 /* bytes behind a string */

static hg_return_t hg_proc_string_encode(hg_proc_t proc, const char *str)
{
    size_t size = str != NULL ? strlen(str) + 1 : 0;
    unsigned char *bytes =
        hg_proc_step(proc, size > 0 ? 8 + size + HG_PROC_STRING_ZEROS : 8);

    if (bytes == NULL)
        return proc->error;
    hg_wire_store64(bytes, size);
    if (size > 0) {
        memcpy(bytes + 8, str, size);
        memset(bytes + 8 + size, 0, HG_PROC_STRING_ZEROS);
    }
    return HG_SUCCESS;
}

/* HG_SUCCESS if a string of `size` bytes comes next. */
static hg_return_t hg_proc_string_check(hg_proc_t proc, uint64_t size)
{
    const unsigned char *bytes = proc->room.data + proc->room.pos;
    size_t left = proc->room.end - proc->room.pos;

    if (left < HG_PROC_STRING_ZEROS || size > left - HG_PROC_STRING_ZEROS) {
        HG_PROC_EXPLAIN(proc,
            "a string claims %" PRIu64 " bytes and %d behind them, and %zu of "
            "%zu are left",
            size, HG_PROC_STRING_ZEROS, left, proc->room.end);
        return hg_proc_fail(proc, HG_OVERFLOW);
    }
    if (memchr(bytes, 0, (size_t) size) != bytes + size - 1) {
        HG_PROC_EXPLAIN(proc,
            "a string of %" PRIu64 " bytes does not end with its first NUL",
            size);
        return hg_proc_fail(proc, HG_PROTOCOL_ERROR);
    }
    if (bytes[size] != 0 || bytes[size + 1] != 0) {
        HG_PROC_EXPLAIN(proc, "a string is followed by the bytes %u and %u",
            bytes[size], bytes[size + 1]);
        return hg_proc_fail(proc, HG_PROTOCOL_ERROR);
    }
    return HG_SUCCESS;
}

/* *str becomes a string of its own, or NULL, as in every failure. */
static hg_return_t hg_proc_string_decode(hg_proc_t proc, char **str)
{
    const unsigned char *bytes = hg_proc_step(proc, 8);
    uint64_t size;
    char *copy;

    *str = NULL;
    if (bytes == NULL)
        return proc->error;
    size = hg_wire_load64(bytes);
    if (size == 0)
        return HG_SUCCESS;
    if (hg_proc_string_check(proc, size) != HG_SUCCESS)
        return proc->error;
    copy = (char *) hg_mem_alloc((size_t) size);
    if (copy == NULL) {
        hg_log_error(
            "proc", "no memory for a string of %" PRIu64 " bytes", size);
        return hg_proc_fail(proc, HG_NOMEM);
    }
    if (hg_proc_keep(proc, copy, hg_mem_free) != HG_SUCCESS)
        return proc->error;
    memcpy(copy, proc->room.data + proc->room.pos, (size_t) size);
    proc->room.pos += (size_t) size + HG_PROC_STRING_ZEROS;
    *str = copy;
    return HG_SUCCESS;
}

static void hg_proc_string_free(hg_proc_t proc, char *str)
{
    if (proc->made_outside)
        hg_mem_take(str);
    hg_mem_free(str);
}

/* Two objects of different types, though alike: each is accessed as what it
 * is. */
hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data)
{
    hg_string_t *str = (hg_string_t *) data;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    switch (proc->room.op) {
    case HG_ENCODE: return hg_proc_string_encode(proc, *str);
    case HG_DECODE: return hg_proc_string_decode(proc, str);
    case HG_FREE: break;
    }
    hg_proc_string_free(proc, *str);
    *str = NULL;
    return HG_SUCCESS;
}

hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data)
{
    hg_const_string_t *str = (hg_const_string_t *) data;
    hg_return_t ret;
    char *copy;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    switch (proc->room.op) {
    case HG_ENCODE: return hg_proc_string_encode(proc, *str);
    case HG_DECODE:
        ret = hg_proc_string_decode(proc, &copy);
        *str = copy;
        return ret;
    case HG_FREE: break;
    }
    if (!proc->keeps_const)
        hg_proc_string_free(proc, (char *) (uintptr_t) *str);
    *str = NULL;
    return HG_SUCCESS;
}
