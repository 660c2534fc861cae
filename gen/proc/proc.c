/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc: encodes, decodes and frees values.
 *
 * This module does not compute the CRC64 of arguments. In the Mercury design
 * report each proc updates it. Here the caller computes it when the proc has
 * run, over the same contiguous bytes: the value is the same, and faster to
 * compute.
 *
 * Error codes: HG_OVERFLOW, a decoder needs more bytes than arrived, or an
 * encoder more than the user's buffer holds; HG_MSGSIZE, arguments exceed the
 * caller's limit; HG_NOMEM; HG_PROTOCOL_ERROR, bytes that no encoder writes;
 * HG_INVALID_ARG, NULL.
 *
 * Values on the wire, without padding between fields:
 *
 *     int8_t .. uint64_t     1, 2, 4, 8 bytes, little-endian, two's complement
 *     float, double          the IEEE 754 bits as a uint32_t, a uint64_t
 *     hg_bool_t              one byte, 0 or 1
 *     raw, ignore            the bytes as they are; zeros
 *     hg_string_t            NULL:  | 0, uint64_t |
 *                            else:  | size, uint64_t | bytes | 0 | 0 |
 *
 * The size of a string includes the NUL at its end, which is the only one. The
 * two zeros are Mercury's is_const and is_owned, so that a string has the same
 * size. A decoder compares the size with what arrived before it allocates. Any
 * other value of a bool or of a zero, and a NUL elsewhere, are refused with
 * HG_PROTOCOL_ERROR.
 *
 * A string object knows whether its string must be freed. The application may
 * provide or take the string, which is freed with the same allocator.
 *
 * Locking: none, see proc.h.
 */
#include "proc/proc.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"

/* Enough for most arguments and a header. */
#define HG_BUF_FIRST_CAPACITY 512

/* ---- The buffer ---- */

HG_PRIVATE void hg_buf_fini(struct hg_buf *buf)
{
    if (!buf->on_stack)
        hg_mem_free(buf->data);
    memset(buf, 0, sizeof(*buf));
}

HG_PRIVATE hg_return_t hg_buf_grow(
    struct hg_buf *buf, size_t capacity, size_t limit)
{
    size_t larger = buf->capacity <= limit / 2 ? buf->capacity * 2 : limit;
    unsigned char *data;

    HG_ASSERT(capacity > buf->capacity);
    HG_ASSERT((buf->data == NULL) == (buf->capacity == 0));
    if (capacity > limit) {
        hg_log_error("proc", "a message of %zu bytes exceeds the limit of %zu",
            capacity, limit);
        return HG_MSGSIZE;
    }
    if (larger < HG_BUF_FIRST_CAPACITY && HG_BUF_FIRST_CAPACITY <= limit)
        larger = HG_BUF_FIRST_CAPACITY;
    if (larger < capacity)
        larger = capacity;
    data = (unsigned char *) hg_mem_realloc(
        buf->on_stack ? NULL : buf->data, larger);
    if (data == NULL) {
        hg_log_error("proc", "no memory for a buffer of %zu bytes", larger);
        return HG_NOMEM;
    }
    if (buf->on_stack)
        memcpy(data, buf->data, buf->capacity);
    buf->data = data;
    buf->capacity = larger;
    buf->on_stack = false;
    return HG_SUCCESS;
}

/* ---- Life ---- */

HG_PRIVATE HG_HOT void hg_proc_init(
    struct hg_proc *proc, hg_proc_op_t op, unsigned char *data, size_t size)
{
    HG_ASSERT(data != NULL || size == 0);

    proc->cursor.data = data;
    proc->cursor.pos = 0;
    proc->cursor.end = size;
    proc->cursor.op = op;
    proc->error = HG_SUCCESS;
    proc->keeps_const = false;
    proc->keeps = false;
    proc->function = NULL;
    proc->hg_class = NULL;
    proc->handle = NULL;
    proc->own = NULL;
    proc->layer = NULL;
    proc->addr = NULL;
    proc->buf = NULL;
}

/* Update the position of the proc after the buffer has grown and possibly
 * moved. */
static inline void hg_proc_attach(struct hg_proc *proc)
{
    size_t room = proc->buf->capacity - proc->reserve;

    HG_ASSERT(proc->buf->capacity >= proc->reserve);
    proc->cursor.data = proc->buf->data + proc->reserve;
    proc->cursor.end = room < proc->limit ? room : proc->limit;
    HG_ASSERT(proc->cursor.pos <= proc->cursor.end);
}

HG_PRIVATE hg_return_t hg_proc_init_encode(
    struct hg_proc *proc, struct hg_buf *buf, size_t reserve, size_t limit)
{
    /* An empty buffer would have no address. */
    hg_return_t ret = hg_buf_reserve(buf, reserve > 0 ? reserve : 1, limit);

    HG_ASSERT(reserve <= limit);
    hg_proc_init(proc, HG_ENCODE, NULL, 0);
    proc->error = ret;
    if (ret != HG_SUCCESS)
        return ret;
    proc->buf = buf;
    proc->reserve = reserve;
    proc->limit = limit - reserve;
    hg_proc_attach(proc);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_proc_init_decode(
    struct hg_proc *proc, const void *data, size_t size)
{
    hg_proc_init(proc, HG_DECODE, (unsigned char *) (uintptr_t) data, size);
    proc->keeps = true;
    proc->owner = NULL;
    proc->kept_count = 0;
    memset(&proc->kept_more, 0, sizeof(proc->kept_more));
}

HG_PRIVATE void hg_proc_init_free(struct hg_proc *proc)
{
    hg_proc_init(proc, HG_FREE, NULL, 0);
}

/* A hint at the most likely cause when the arguments of a call do not fit. */
static const char *hg_proc_doubt(const struct hg_proc *proc)
{
    return proc->function != NULL && proc->cursor.op == HG_DECODE
        ? "; do both sides register the same types?"
        : "";
}

/* The result of a proc function: what it returned, unless HG_SUCCESS, else a
 * failure that it ignored. */
static hg_return_t hg_proc_result(const struct hg_proc *proc, hg_return_t ret)
{
    if (ret == HG_SUCCESS)
        return proc->error;
    if (proc->error == HG_SUCCESS)
        HG_PROC_EXPLAIN(proc, "the proc function fails: %s%s",
            HG_Error_to_string(ret), hg_proc_doubt(proc));
    return ret;
}

HG_PRIVATE hg_return_t hg_proc_finish_encode(
    const struct hg_proc *proc, hg_return_t ret, size_t *size_p)
{
    HG_ASSERT(proc->cursor.op == HG_ENCODE);
    ret = hg_proc_result(proc, ret);
    if (ret == HG_SUCCESS)
        *size_p = proc->cursor.pos;
    return ret;
}

/* Object `i` that decoding allocated. */
static struct hg_proc_kept *hg_proc_kept_at(struct hg_proc *proc, size_t i)
{
    return i < HG_PROC_KEPT_FIRST
        ? &proc->kept_first[i]
        : (struct hg_proc_kept *) (void *) proc->kept_more.data +
            (i - HG_PROC_KEPT_FIRST);
}

/* Pass the objects that decoding allocated to their owner. HG_NOMEM
 * (logged). */
static hg_return_t hg_proc_hand_over(struct hg_proc *proc)
{
    size_t count = proc->kept_count;
    struct hg_proc_record *record = (struct hg_proc_record *) hg_mem_alloc(
        sizeof(*record) + count * sizeof(record->kept[0]));
    size_t i;

    if (record == NULL) {
        hg_log_error("proc", "no memory to record %zu decoded values", count);
        return HG_NOMEM;
    }
    record->count = count;
    record->at = 0;
    for (i = 0; i < count; i++) {
        record->kept[i] = *hg_proc_kept_at(proc, i);
        record->kept[i].settle(record->kept[i].object, HG_PROC_HOLD);
    }
    record->next = atomic_load(proc->owner);
    while (!atomic_compare_exchange_weak(proc->owner, &record->next, record))
        ;
    return HG_SUCCESS;
}

/* Decoding has allocated objects, and ended with `ret`. */
static HG_NOINLINE hg_return_t hg_proc_finish_kept(
    struct hg_proc *proc, hg_return_t ret)
{
    if (ret == HG_SUCCESS && proc->owner != NULL)
        ret = hg_proc_hand_over(proc);
    while (ret != HG_SUCCESS && proc->kept_count > 0) {
        const struct hg_proc_kept *last =
            hg_proc_kept_at(proc, --proc->kept_count);

        last->settle(last->object, HG_PROC_RELEASE);
    }
    hg_buf_fini(&proc->kept_more);
    return ret;
}

HG_PRIVATE hg_return_t hg_proc_finish_decode(
    struct hg_proc *proc, hg_return_t ret)
{
    HG_ASSERT(proc->cursor.op == HG_DECODE && proc->keeps);

    ret = hg_proc_result(proc, ret);
    if (ret == HG_SUCCESS && proc->cursor.pos < proc->cursor.end) {
        HG_PROC_EXPLAIN(proc,
            "the proc left %zu of %zu bytes of arguments undecoded%s",
            proc->cursor.end - proc->cursor.pos, proc->cursor.end,
            hg_proc_doubt(proc));
        ret = HG_CHECKSUM_ERROR;
    }
    if (HG_UNLIKELY(proc->kept_count > 0))
        ret = hg_proc_finish_kept(proc, ret);
    proc->keeps = false;
    return ret;
}

/* ---- What decoding made ---- */

HG_PRIVATE hg_return_t hg_proc_keep(struct hg_proc *proc, void *object,
    void (*settle)(void *object, enum hg_proc_fate fate))
{
    const struct hg_proc_kept kept = {object, settle};
    size_t more = proc->kept_count >= HG_PROC_KEPT_FIRST
        ? proc->kept_count - HG_PROC_KEPT_FIRST + 1
        : 0;

    HG_ASSERT(object != NULL);
    /* Procs of the application record nothing: it frees with HG_FREE. */
    if (!proc->keeps)
        return HG_SUCCESS;
    if (hg_buf_reserve(&proc->kept_more, more * sizeof(kept), SIZE_MAX / 2) !=
        HG_SUCCESS) {
        settle(object, HG_PROC_RELEASE);
        return hg_proc_fail(proc, HG_NOMEM);
    }
    *hg_proc_kept_at(proc, proc->kept_count++) = kept;
    return HG_SUCCESS;
}

/* The latest objects are searched first. */
HG_PRIVATE void hg_proc_forget(struct hg_proc *proc, const void *object)
{
    size_t i = proc->keeps ? proc->kept_count : 0;

    while (i > 0 && hg_proc_kept_at(proc, i - 1)->object != object)
        i--;
    if (i > 0)
        *hg_proc_kept_at(proc, i - 1) =
            *hg_proc_kept_at(proc, --proc->kept_count);
    if (i > 0 && proc->kept_count == 0)
        hg_buf_fini(&proc->kept_more);
}

HG_PRIVATE void hg_proc_record_settle(
    struct hg_proc_record *record, enum hg_proc_fate fate)
{
    while (record != NULL) {
        struct hg_proc_record *next = record->next;
        size_t i = record->count;

        while (i-- > 0) {
            if (record->kept[i].object != NULL)
                record->kept[i].settle(record->kept[i].object, fate);
        }
        hg_mem_free(record);
        record = next;
    }
}

/* Remove an object from a record, if it is there. */
static bool hg_proc_record_remove(
    struct hg_proc_record *record, const void *object)
{
    struct hg_proc_kept *kept = record->kept;
    size_t at = record->at;
    size_t step;

    for (step = 0; step < record->count; step++) {
        if (step <= at && kept[at - step].object == object)
            record->at = at - step;
        else if (step < record->count - at && kept[at + step].object == object)
            record->at = at + step;
        else
            continue;
        kept[record->at].object = NULL;
        return true;
    }
    return false;
}

/* A peer chooses the number of objects. The search begins where the last one
 * ended: in the order of decoding, or in reverse, it ends at once. */
HG_PRIVATE void hg_proc_record_forget(
    struct hg_proc_record *record, const void *object)
{
    while (record != NULL && !hg_proc_record_remove(record, object))
        record = record->next;
}

/* ---- Steps ---- */

HG_PRIVATE hg_return_t hg_proc_fail(struct hg_proc *proc, hg_return_t ret)
{
    HG_ASSERT(ret != HG_SUCCESS);

    /* Freeing continues, or the objects that follow would leak. */
    if (proc->cursor.op == HG_FREE)
        return ret;
    if (proc->error == HG_SUCCESS)
        proc->error = ret;
    proc->cursor.end = proc->cursor.pos;
    return proc->error;
}

HG_PRIVATE hg_return_t hg_proc_refuse(struct hg_proc *proc)
{
    if (proc != NULL && proc->error != HG_SUCCESS)
        return proc->error;
    hg_log_error(
        "proc", proc == NULL ? "the proc is NULL" : "a proc's data is NULL");
    return proc == NULL ? HG_INVALID_ARG : hg_proc_fail(proc, HG_INVALID_ARG);
}

/* Grow the buffer, so that `size` more bytes fit. If the application provided
 * or took a buffer, the bytes encoded so far are copied. */
static hg_return_t hg_proc_grow(struct hg_proc *proc, hg_size_t size)
{
    const unsigned char *elsewhere =
        proc->buf->data == NULL ? proc->cursor.data : NULL;
    hg_return_t ret;

    if (size > proc->limit - proc->cursor.pos) {
        HG_PROC_EXPLAIN(proc,
            "arguments of %zu bytes and %" PRIu64 " more exceed the limit of "
            "%zu",
            proc->cursor.pos, size, proc->limit);
        return HG_MSGSIZE;
    }
    ret = hg_buf_reserve(proc->buf,
        proc->reserve + proc->cursor.pos + (size_t) size,
        proc->reserve + proc->limit);
    if (ret != HG_SUCCESS)
        return ret;
    hg_proc_attach(proc);
    if (elsewhere != NULL)
        memcpy(proc->cursor.data, elsewhere, proc->cursor.pos);
    return HG_SUCCESS;
}

hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size)
{
    hg_return_t ret = HG_OVERFLOW;

    if (proc == NULL)
        return hg_proc_refuse(NULL);
    if (proc->error != HG_SUCCESS || proc->cursor.op == HG_FREE ||
        size <= proc->cursor.end - proc->cursor.pos)
        return proc->error;
    if (proc->buf != NULL)
        ret = hg_proc_grow(proc, size);
    else
        HG_PROC_EXPLAIN(proc,
            "%s needs %" PRIu64 " bytes, and %zu of %zu are left%s",
            proc->cursor.op == HG_DECODE ? "decoding" : "encoding", size,
            proc->cursor.end - proc->cursor.pos, proc->cursor.end,
            hg_proc_doubt(proc));
    return ret != HG_SUCCESS ? hg_proc_fail(proc, ret) : HG_SUCCESS;
}

HG_PRIVATE unsigned char *hg_proc_step_slow(struct hg_proc *proc, size_t size)
{
    if (proc->cursor.op == HG_FREE || hg_proc_reserve(proc, size) != HG_SUCCESS)
        return NULL;
    return hg_proc_step(proc, size);
}

HG_NOINLINE HG_PRIVATE hg_return_t hg_proc_step_again(
    struct hg_proc *proc, void *data, size_t size, hg_proc_cb_t step)
{
    hg_return_t ret;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    ret = hg_proc_reserve(proc, size);
    /* A number has nothing to free. */
    return ret == HG_SUCCESS && proc->cursor.op != HG_FREE ? step(proc, data)
                                                           : ret;
}

/* ---- What hg.h offers ---- */

HG_PRIVATE bool hg_proc_is_there(const struct hg_proc *proc)
{
    if (proc == NULL)
        (void) hg_proc_refuse(NULL);
    return proc != NULL;
}

hg_proc_op_t hg_proc_get_op(hg_proc_t proc)
{
    return hg_proc_is_there(proc) ? proc->cursor.op : HG_ENCODE;
}

size_t hg_proc_get_size_used(hg_proc_t proc)
{
    return hg_proc_is_there(proc) ? proc->cursor.pos : 0;
}

size_t hg_proc_get_size_left(hg_proc_t proc)
{
    if (!hg_proc_is_there(proc))
        return 0;
    return proc->buf != NULL && proc->own == NULL && proc->error == HG_SUCCESS
        ? proc->limit - proc->cursor.pos
        : proc->cursor.end - proc->cursor.pos;
}

hg_class_t *hg_proc_get_class(hg_proc_t proc)
{
    return hg_proc_is_there(proc) ? proc->hg_class : NULL;
}

hg_handle_t hg_proc_get_handle(hg_proc_t proc)
{
    return hg_proc_is_there(proc) ? proc->handle : HG_HANDLE_NULL;
}

hg_size_t hg_proc_get_size(hg_proc_t proc)
{
    return hg_proc_is_there(proc) ? proc->cursor.end : 0;
}

hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size)
{
    if (proc == NULL)
        return hg_proc_refuse(NULL);
    return hg_proc_reserve(
        proc, buf_size > proc->cursor.pos ? buf_size - proc->cursor.pos : 0);
}

/* Whether there is a proc with bytes to return. */
static bool hg_proc_has_bytes(const struct hg_proc *proc, const char *function)
{
    if (proc != NULL && proc->cursor.op != HG_FREE)
        return true;
    (void) hg_log_misuse("proc", function, "the proc is NULL, or frees");
    return false;
}

void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size)
{
    if (!hg_proc_has_bytes(proc, "hg_proc_save_ptr") ||
        hg_proc_reserve(proc, data_size) != HG_SUCCESS)
        return NULL;
    proc->cursor.pos += (size_t) data_size;
    return proc->cursor.data + proc->cursor.pos - (size_t) data_size;
}

hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void *data, hg_size_t data_size)
{
    (void) data;
    (void) data_size;
    return hg_proc_has_bytes(proc, "hg_proc_restore_ptr") ? HG_SUCCESS
                                                          : HG_INVALID_ARG;
}

static void hg_proc_settle_memory(void *object, enum hg_proc_fate fate)
{
    if (fate == HG_PROC_RELEASE)
        hg_mem_free(object);
}

void *hg_proc_alloc(hg_proc_t proc, size_t size)
{
    void *ptr = hg_mem_calloc(1, size);

    if (ptr == NULL) {
        hg_log_error("proc", "no memory for a value of %zu bytes", size);
        if (proc != NULL)
            (void) hg_proc_fail(proc, HG_NOMEM);
        return NULL;
    }
    if (proc != NULL &&
        hg_proc_keep(proc, ptr, hg_proc_settle_memory) != HG_SUCCESS)
        return NULL;
    return ptr;
}

hg_return_t hg_gen_threw(hg_proc_t proc, const char *what)
{
    if (proc == NULL)
        return hg_proc_refuse(NULL);
    HG_PROC_EXPLAIN(proc, "the proc function threw an exception: %s", what);
    return hg_proc_fail(proc, HG_OTHER_ERROR);
}

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

    if (proc->cursor.op == HG_ENCODE)
        hg_proc_order(bytes, data, size);
    else
        hg_proc_order(data, bytes, size);
}

/* Most arguments consist of numbers: one comparison while the buffer has space;
 * the rest is a tail call. */
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
    if (proc->cursor.op == HG_ENCODE)
        byte = *truth != HG_FALSE;
    ret = hg_proc_uint8_t(proc, &byte);
    if (ret != HG_SUCCESS || proc->cursor.op != HG_DECODE)
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
    if (size == 0 || proc->cursor.op == HG_FREE)
        return proc->error;
    if (HG_UNLIKELY(buf == NULL))
        return hg_proc_refuse(proc);
    bytes = hg_proc_step(proc, size);
    if (bytes == NULL)
        return proc->error;
    if (proc->cursor.op == HG_ENCODE)
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
    if (proc->cursor.op == HG_ENCODE)
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
    const unsigned char *bytes = proc->cursor.data + proc->cursor.pos;
    size_t left = proc->cursor.end - proc->cursor.pos;

    if (left < HG_PROC_STRING_ZEROS || size > left - HG_PROC_STRING_ZEROS) {
        HG_PROC_EXPLAIN(proc,
            "a string claims %" PRIu64 " bytes and %d behind them, and %zu of "
            "%zu are left",
            size, HG_PROC_STRING_ZEROS, left, proc->cursor.end);
        return hg_proc_fail(proc, HG_OVERFLOW);
    }
    if (memchr(bytes, 0, (size_t) size) != bytes + size - 1 ||
        bytes[size] != 0 || bytes[size + 1] != 0) {
        HG_PROC_EXPLAIN(proc,
            "a string of %" PRIu64 " bytes does not end with its first NUL and "
            "two zeros",
            size);
        return hg_proc_fail(proc, HG_PROTOCOL_ERROR);
    }
    return HG_SUCCESS;
}

/* *str becomes an allocated string, or NULL, also on failure. */
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
    copy = (char *) hg_proc_alloc(proc, (size_t) size);
    if (copy == NULL)
        return proc->error;
    memcpy(copy, proc->cursor.data + proc->cursor.pos, (size_t) size);
    proc->cursor.pos += (size_t) size + HG_PROC_STRING_ZEROS;
    *str = copy;
    return HG_SUCCESS;
}

/* The two string types have the same representation, but are not compatible
 * types: so the pointer is copied. */
static hg_return_t hg_proc_string(hg_proc_t proc, void *data, bool is_const)
{
    hg_return_t ret = HG_SUCCESS;
    char *str;

    if (HG_UNLIKELY(proc == NULL || data == NULL))
        return hg_proc_refuse(proc);
    memcpy(&str, data, sizeof(str));
    switch (proc->cursor.op) {
    case HG_ENCODE: return hg_proc_string_encode(proc, str);
    case HG_DECODE: ret = hg_proc_string_decode(proc, &str); break;
    case HG_FREE:
        if (!is_const || !proc->keeps_const)
            hg_mem_free(str);
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

/* Whether the object is not NULL; logged if it is. */
static bool hg_string_object_there(const hg_string_object_t *string)
{
    if (string == NULL)
        hg_log_error("proc", "a string object is NULL");
    return string != NULL;
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
        hg_mem_free(string->data);
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
    }
    return hg_string_object_init_char(new_string, copy, 1);
}

char *hg_string_object_swap(hg_string_object_t *string, char *s)
{
    char *old = string != NULL ? string->data : NULL;

    (void) hg_string_object_init_char(string, s, 0);
    return old;
}

hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string)
{
    hg_string_object_t *object = (hg_string_object_t *) string;

    if (proc == NULL || string == NULL)
        return hg_proc_refuse(proc);
    switch (proc->cursor.op) {
    case HG_ENCODE: return hg_proc_hg_string_t(proc, &object->data);
    case HG_DECODE:
        (void) hg_string_object_init_char(object, NULL, 1);
        return hg_proc_hg_string_t(proc, &object->data);
    default: return hg_string_object_free(object);
    }
}
