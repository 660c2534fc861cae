/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * string_object: strings that know whether they are to be freed.
 *
 * The string of an object may come from the application, or go to it, and is
 * freed as the application would: while it is in an object, the heap does not
 * count it as the library's. Only that of a proc that is still decoding is,
 * and changes hands when it was decoded.
 *
 * Locking: none, an object belongs to one thread at a time.
 */
#include "base/log.h"
#include "base/mem.h"
#include "hg/proc.h"

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
    char *old;

    if (!hg_string_object_there(string))
        return NULL;
    old = string->data;
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
