/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_types: the procs of the basic types, and string objects.
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
 * A string object knows whether its string is to be freed. The string may come
 * from the application, or go to it, and is freed as the application would:
 * while it is in an object, the heap does not count it as the library's.
 *
 * Locking: none, see proc.h.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "proc/proc.h"

_Static_assert(sizeof(float) == 4 && sizeof(double) == 8,
    "float and double travel as IEEE 754 single and double");

/* ---- Numbers ---- */

/* Copy a number between this machine's byte order and the wire's. */
static inline void hg_proc_order(void *to, const void *from, size_t size)
{
    size_t i;

    if (HG_WIRE_IS_NATIVE) {
        memcpy(to, from, size);
        return;
    }
    for (i = 0; i < size; i++)
        ((unsigned char *) to)[i] =
            ((const unsigned char *) from)[size - 1 - i];
}

static inline void hg_proc_number(hg_proc_t proc, void *data, size_t size)
{
    unsigned char *bytes = hg_proc_step(proc, size);

    if (proc->room.op == HG_ENCODE)
        hg_proc_order(bytes, data, size);
    else
        hg_proc_order(data, bytes, size);
}

/* Most arguments are made of numbers: one comparison while the buffer has
 * space, and everything else behind a call that ends the function. */
#define HG_PROC_NUMBER(type, size) \
    hg_return_t hg_proc_##type(hg_proc_t proc, void *data) \
    { \
        if (HG_UNLIKELY(!hg_proc_may_step(proc, data, size))) \
            return hg_proc_step_again(proc, data, size, hg_proc_##type); \
        hg_proc_number(proc, data, size); \
        return HG_SUCCESS; \
    }

HG_PROC_NUMBER(int8_t, 1)
HG_PROC_NUMBER(uint8_t, 1)
HG_PROC_NUMBER(int16_t, 2)
HG_PROC_NUMBER(uint16_t, 2)
HG_PROC_NUMBER(int32_t, 4)
HG_PROC_NUMBER(uint32_t, 4)
HG_PROC_NUMBER(int64_t, 8)
HG_PROC_NUMBER(uint64_t, 8)
HG_PROC_NUMBER(float, 4)
HG_PROC_NUMBER(double, 8)

hg_return_t hg_proc_hg_bool_t(hg_proc_t proc, void *data)
{
    hg_bool_t *truth = (hg_bool_t *) data;
    uint8_t byte = 0;
    hg_return_t ret;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    if (proc->room.op == HG_ENCODE)
        byte = *truth != HG_FALSE;
    ret = hg_proc_uint8_t(proc, &byte);
    if (ret != HG_SUCCESS || proc->room.op != HG_DECODE)
        return ret;
    if (byte > 1) {
        HG_PROC_EXPLAIN(proc, "a bool is the byte %u", byte);
        return hg_proc_fail(proc, HG_PROTOCOL_ERROR);
    }
    *truth = byte;
    return HG_SUCCESS;
}

/* ---- Bytes ---- */

hg_return_t hg_proc_raw(hg_proc_t proc, void *buf, size_t size)
{
    unsigned char *bytes;

    if (HG_UNLIKELY(proc == NULL))
        return hg_proc_refuse(proc);
    /* An array that was never decoded has nothing to free. */
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

hg_return_t hg_proc_bytes(hg_proc_t proc, void *data, hg_size_t data_size)
{
    return hg_proc_raw(
        proc, data, data_size <= SIZE_MAX ? (size_t) data_size : SIZE_MAX);
}

hg_return_t hg_proc_ignore(hg_proc_t proc, size_t size)
{
    unsigned char *bytes = NULL;

    if (HG_UNLIKELY(proc == NULL))
        return hg_proc_refuse(proc);
    if (size > 0)
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

/* The two types of strings are pointers of one representation, but not
 * compatible types: so the pointer is copied. */
static hg_return_t hg_proc_string(hg_proc_t proc, void *data, bool is_const)
{
    hg_return_t ret = HG_SUCCESS;
    char *str;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    memcpy(&str, data, sizeof(str));
    switch (proc->room.op) {
    case HG_ENCODE: return hg_proc_string_encode(proc, str);
    case HG_DECODE: ret = hg_proc_string_decode(proc, &str); break;
    case HG_FREE:
        if (!is_const || !proc->keeps_const)
            hg_proc_string_free(proc, str);
        str = NULL;
    }
    memcpy(data, &str, sizeof(str));
    return ret;
}

hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data)
{
    return hg_proc_string(proc, data, false);
}

hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data)
{
    return hg_proc_string(proc, data, true);
}

/* ---- String objects ---- */

/* Whether there is an object; logged if not. */
static bool hg_string_object_there(const hg_string_object_t *string)
{
    if (string == NULL)
        hg_log_error("proc", "a string object is NULL");
    return string != NULL;
}

static void hg_string_object_release(void *data)
{
    hg_mem_take(data);
    hg_mem_free(data);
}

hg_return_t hg_string_object_init(hg_string_object_t *string)
{
    return hg_string_object_init_char(string, NULL, 0);
}

hg_return_t hg_string_object_init_char(
    hg_string_object_t *string, char *s, uint8_t is_owned)
{
    if (!hg_string_object_there(string))
        return HG_INVALID_ARG;
    string->data = s;
    string->is_const = false;
    string->is_owned = is_owned != 0;
    return HG_SUCCESS;
}

hg_return_t hg_string_object_init_const_char(
    hg_string_object_t *string, const char *s, uint8_t is_owned)
{
    hg_return_t ret =
        hg_string_object_init_char(string, (char *) (uintptr_t) s, is_owned);

    if (ret == HG_SUCCESS)
        string->is_const = true;
    return ret;
}

hg_return_t hg_string_object_free(hg_string_object_t *string)
{
    if (!hg_string_object_there(string))
        return HG_INVALID_ARG;
    if (string->is_owned) {
        hg_string_object_release(string->data);
        string->data = NULL;
    }
    return HG_SUCCESS;
}

hg_return_t hg_string_object_dup(
    hg_string_object_t string, hg_string_object_t *new_string)
{
    char *copy = NULL;

    if (!hg_string_object_there(new_string))
        return HG_INVALID_ARG;
    if (string.data != NULL) {
        copy = hg_mem_strdup(string.data);
        if (copy == NULL) {
            hg_log_error("proc", "no memory for a copy of a string");
            return HG_NOMEM;
        }
        hg_mem_give(copy);
    }
    return hg_string_object_init_char(new_string, copy, 1);
}

char *hg_string_object_swap(hg_string_object_t *string, char *s)
{
    char *old = string != NULL ? string->data : NULL;

    (void) hg_string_object_init_char(string, s, 0);
    return old;
}

/* A string that was decoded, and is kept by the proc as the library's, becomes
 * the object's. */
static hg_return_t hg_string_object_decode(
    hg_proc_t proc, hg_string_object_t *string)
{
    hg_string_t str = NULL;
    hg_return_t ret = hg_proc_hg_string_t(proc, &str);

    (void) hg_string_object_init_char(string, NULL, 1);
    if (ret != HG_SUCCESS || str == NULL)
        return ret;
    hg_proc_forget(proc, str);
    hg_mem_give(str);
    ret = hg_proc_keep(proc, str, hg_string_object_release);
    if (ret == HG_SUCCESS)
        string->data = str;
    return ret;
}

hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string)
{
    hg_string_object_t *object = (hg_string_object_t *) string;

    if (proc == NULL || string == NULL)
        return hg_proc_refuse(proc);
    switch (proc->room.op) {
    case HG_ENCODE: return hg_proc_hg_string_t(proc, &object->data);
    case HG_DECODE: return hg_string_object_decode(proc, object);
    case HG_FREE: break;
    }
    return hg_string_object_free(object);
}
