/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_own: procs that the application creates, and checksums.
 *
 * A proc of hg_proc_create2 encodes into a buffer of the application until that
 * is full, then into an extra one on the heap, which starts with a copy of
 * everything encoded before. A hash is computed over the encoded bytes on
 * request.
 *
 * The Mercury design report's abstract checksum is an object with a method
 * chosen by name, and any number of updates. The only method is "crc64". The
 * library's own messages use base/crc64 directly.
 *
 * Invariant: an extra buffer that the application took is `taken`, not `extra`,
 * and is only read.
 *
 * Locking: none, a proc or checksum belongs to one thread at a time.
 */
#include "base/crc64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "proc/proc.h"

struct hg_proc_own {
    struct hg_proc proc;
    hg_proc_hash_t hash;
    uint8_t flags;
    struct hg_buf extra;
    struct hg_buf taken; /* the application frees it */
    uint64_t value;      /* the hash at the last flush */
};

/* NULL, logged: the proc of a call, or NULL. */
static struct hg_proc_own *hg_proc_own_of(hg_proc_t proc, const char *function)
{
    if (proc != NULL && proc->own != NULL)
        return proc->own;
    (void) hg_log_misuse("proc", function, "not a proc of hg_proc_create");
    return NULL;
}

/* Check the arguments of a proc; logged. */
static hg_return_t hg_proc_own_check(
    const void *buf, hg_size_t size, hg_proc_op_t op, const char *function)
{
    if ((unsigned) op <= (unsigned) HG_FREE && size <= SIZE_MAX / 2 &&
        (buf != NULL || size == 0 || op == HG_FREE))
        return HG_SUCCESS;
    return hg_log_misuse("proc", function,
        "an argument is NULL, or the operation or size is invalid");
}

/* ---- Life ---- */

/* With no buffer, the first encoded byte creates the extra one. */
static void hg_proc_own_begin(
    struct hg_proc_own *own, void *buf, size_t size, hg_proc_op_t op)
{
    static const struct hg_buf none = {NULL, 0, false};
    struct hg_class *hg_class = own->proc.hg_class;
    struct hg_handle *handle = own->proc.handle;

    hg_buf_fini(&own->extra);
    own->taken = none;
    own->flags = 0;
    own->value = 0;
    hg_proc_init(&own->proc, op, op != HG_FREE ? (unsigned char *) buf : NULL,
        op != HG_FREE ? size : 0);
    own->proc.hg_class = hg_class;
    own->proc.handle = handle;
    own->proc.own = own;
    if (op != HG_ENCODE)
        return;
    own->proc.buf = &own->extra;
    own->proc.reserve = 0;
    own->proc.limit = SIZE_MAX / 2;
}

static hg_return_t hg_proc_own_new(hg_class_t *hg_class, void *buf,
    hg_size_t size, hg_proc_op_t op, hg_proc_hash_t hash, hg_proc_t *proc_p,
    const char *function)
{
    struct hg_proc_own *own;
    hg_return_t ret = hg_proc_own_check(
        buf, proc_p != NULL ? size : HG_SIZE_MAX, op, function);

    if (ret != HG_SUCCESS)
        return ret;
    own = (struct hg_proc_own *) hg_mem_calloc(1, sizeof(*own));
    if (own == NULL) {
        hg_log_error("proc", "no memory for a proc");
        return HG_NOMEM;
    }
    own->proc.hg_class = hg_class;
    own->hash = hash;
    hg_proc_own_begin(own, buf, (size_t) size, op);
    *proc_p = &own->proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_create(
    void *buf, size_t size, hg_proc_op_t op, hg_proc_t *proc)
{
    hg_return_t ret =
        hg_proc_own_new(NULL, buf, size, op, HG_NOHASH, proc, "hg_proc_create");

    if (ret == HG_SUCCESS)
        (*proc)->buf = NULL; /* the end is an error */
    return ret;
}

hg_return_t hg_proc_create2(
    hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    return hg_class == NULL
        ? hg_log_misuse("proc", "hg_proc_create", "the class is NULL")
        : hg_proc_own_new(
              hg_class, NULL, 0, HG_ENCODE, hash, proc_p, "hg_proc_create");
}

hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf,
    hg_size_t buf_size, hg_proc_op_t op, hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    return hg_class == NULL
        ? hg_log_misuse("proc", "hg_proc_create_set", "the class is NULL")
        : hg_proc_own_new(
              hg_class, buf, buf_size, op, hash, proc_p, "hg_proc_create_set");
}

hg_return_t hg_proc_free(hg_proc_t proc)
{
    return proc == NULL ? hg_proc_refuse(NULL) : hg_proc_free2(proc);
}

hg_return_t hg_proc_free2(hg_proc_t proc)
{
    struct hg_proc_own *own;

    if (proc == NULL)
        return HG_SUCCESS;
    own = hg_proc_own_of(proc, "hg_proc_free");
    if (own == NULL)
        return HG_INVALID_ARG;
    hg_buf_fini(&own->extra);
    hg_mem_free(own);
    return HG_SUCCESS;
}

hg_return_t hg_proc_reset(
    hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op)
{
    struct hg_proc_own *own = hg_proc_own_of(proc, "hg_proc_reset");

    if (own == NULL ||
        hg_proc_own_check(buf, buf_size, op, "hg_proc_reset") != HG_SUCCESS)
        return HG_INVALID_ARG;
    hg_proc_own_begin(own, buf, (size_t) buf_size, op);
    return HG_SUCCESS;
}

/* ---- Handle, flags, extra buffer ---- */

void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle)
{
    if (hg_proc_own_of(proc, "hg_proc_set_handle") != NULL)
        proc->handle = handle;
}

uint8_t hg_proc_get_flags(hg_proc_t proc)
{
    return hg_proc_is_there(proc) && proc->own != NULL ? proc->own->flags : 0;
}

void hg_proc_set_flags(hg_proc_t proc, uint8_t flags)
{
    struct hg_proc_own *own = hg_proc_own_of(proc, "hg_proc_set_flags");

    if (own != NULL)
        own->flags = flags;
}

/* The extra buffer, taken or not; empty if there is none. */
static struct hg_buf hg_proc_own_extra(hg_proc_t proc)
{
    static const struct hg_buf none = {NULL, 0, false};

    if (!hg_proc_is_there(proc) || proc->own == NULL)
        return none;
    return proc->own->extra.data != NULL ? proc->own->extra : proc->own->taken;
}

void *hg_proc_get_extra_buf(hg_proc_t proc)
{
    return hg_proc_own_extra(proc).data;
}

hg_size_t hg_proc_get_extra_size(hg_proc_t proc)
{
    return hg_proc_own_extra(proc).capacity;
}

hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t theirs)
{
    static const struct hg_buf none = {NULL, 0, false};
    struct hg_proc_own *own =
        hg_proc_own_of(proc, "hg_proc_set_extra_buf_is_mine");

    if (own == NULL)
        return HG_INVALID_ARG;
    if (own->extra.data == NULL && own->taken.data == NULL)
        return hg_log_misuse("proc", "hg_proc_set_extra_buf_is_mine",
            "there is no extra buffer");
    if (theirs != 0 && own->extra.data != NULL) {
        own->taken = own->extra;
        own->extra = none;
    } else if (theirs == 0 && own->extra.data == NULL) {
        own->extra = own->taken;
        own->taken = none;
    }
    return HG_SUCCESS;
}

/* ---- Hashes ---- */

/* CRC-16/T10-DIF: polynomial 0x8BB7, not reflected; "123456789" gives 0xD0DB.
 * Computed bit by bit: it is rarely used. */
static uint16_t hg_proc_own_crc16(const unsigned char *data, size_t size)
{
    unsigned crc = 0;
    size_t i;
    int bit;

    for (i = 0; i < size; i++) {
        crc ^= (unsigned) data[i] << 8;
        for (bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000u) != 0 ? crc << 1 ^ 0x8bb7u : crc << 1;
        crc &= 0xffffu;
    }
    return (uint16_t) crc;
}

/* CRC-32C: reflected polynomial 0x82F63B78, initial value and final XOR all
 * ones; "123456789" gives 0xE3069283. Computed bit by bit: it is rarely
 * used. */
static uint32_t hg_proc_own_crc32c(const unsigned char *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    size_t i;
    int bit;

    for (i = 0; i < size; i++) {
        crc ^= data[i];
        for (bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

/* The size of a hash; 0: none. */
static size_t hg_proc_own_hash_size(hg_proc_hash_t hash)
{
    return hash == HG_CRC16 ? 2
        : hash == HG_CRC32  ? 4
        : hash == HG_CRC64  ? 8
                            : 0;
}

hg_return_t hg_proc_flush(hg_proc_t proc)
{
    struct hg_proc_own *own;
    const unsigned char *data;
    size_t size;

    if (proc == NULL)
        return hg_proc_refuse(NULL);
    own = proc->own;
    if (own == NULL || proc->error != HG_SUCCESS)
        return proc->error;
    data = proc->cursor.data;
    size = proc->cursor.pos;
    if (own->hash == HG_CRC16)
        own->value = hg_proc_own_crc16(data, size);
    else if (own->hash == HG_CRC32)
        own->value = hg_proc_own_crc32c(data, size);
    else if (own->hash == HG_CRC64)
        own->value = hg_crc64_update(0, data, size);
    return HG_SUCCESS;
}

hg_return_t hg_proc_checksum_get(
    hg_proc_t proc, void *hash, hg_size_t hash_size)
{
    const struct hg_proc_own *own =
        hg_proc_own_of(proc, "hg_proc_checksum_get");
    unsigned char bytes[8];
    size_t size;

    if (own == NULL)
        return HG_INVALID_ARG;
    size = hg_proc_own_hash_size(own->hash);
    if (size == 0 || hash == NULL || hash_size < size)
        return hg_log_misuse("proc", "hg_proc_checksum_get",
            "there is no hash, or no space for it");
    hg_wire_store64(bytes, own->value);
    memcpy(hash, bytes, size);
    return HG_SUCCESS;
}

hg_return_t hg_proc_checksum_verify(
    hg_proc_t proc, const void *hash, hg_size_t hash_size)
{
    unsigned char bytes[8] = {0};
    hg_return_t ret;

    if (hash == NULL)
        return hg_log_misuse(
            "proc", "hg_proc_checksum_verify", "the hash is NULL");
    ret = hg_proc_checksum_get(
        proc, bytes, hash_size < sizeof(bytes) ? hash_size : sizeof(bytes));
    if (ret != HG_SUCCESS)
        return ret;
    if (memcmp(hash, bytes, hg_proc_own_hash_size(proc->own->hash)) == 0)
        return HG_SUCCESS;
    HG_PROC_EXPLAIN(
        proc, "the hash of %zu bytes does not match", proc->cursor.pos);
    return HG_CHECKSUM_ERROR;
}

void hg_proc_checksum_update(hg_proc_t proc, void *data, hg_size_t data_size)
{
    (void) proc;
    (void) data;
    (void) data_size;
}

/* ---- Checksums ---- */

#define HG_CHECKSUM_SIZE 8

struct hg_checksum {
    uint64_t crc;
    bool finalized; /* no update is allowed before a reset */
};

/* Log a line and return the error code of all functions except get_size. */
static int hg_checksum_refuse(const char *function, const char *cause)
{
    (void) hg_log_misuse("checksum", function, cause);
    return -1;
}

int hg_checksum_init(const char *hash_method, hg_checksum_t *checksum)
{
    hg_checksum_t made;

    if (hash_method == NULL || checksum == NULL)
        return hg_checksum_refuse("hg_checksum_init", "an argument is NULL");
    if (strcmp(hash_method, "crc64") != 0)
        return hg_checksum_refuse(
            "hg_checksum_init", "the method is not \"crc64\"");
    made = (hg_checksum_t) hg_mem_calloc(1, sizeof(*made));
    if (made == NULL)
        return hg_checksum_refuse("hg_checksum_init", "no memory");
    *checksum = made;
    return 0;
}

int hg_checksum_destroy(hg_checksum_t checksum)
{
    if (checksum == NULL)
        return hg_checksum_refuse("hg_checksum_destroy", "an argument is NULL");
    hg_mem_free(checksum);
    return 0;
}

int hg_checksum_reset(hg_checksum_t checksum)
{
    if (checksum == NULL)
        return hg_checksum_refuse("hg_checksum_reset", "an argument is NULL");
    checksum->crc = 0;
    checksum->finalized = false;
    return 0;
}

size_t hg_checksum_get_size(hg_checksum_t checksum)
{
    if (checksum == NULL) {
        (void) hg_checksum_refuse(
            "hg_checksum_get_size", "an argument is NULL");
        return 0;
    }
    return HG_CHECKSUM_SIZE;
}

int hg_checksum_get(
    hg_checksum_t checksum, void *buf, size_t size, int finalize)
{
    if (checksum == NULL || buf == NULL)
        return hg_checksum_refuse("hg_checksum_get", "an argument is NULL");
    if (size < HG_CHECKSUM_SIZE)
        return hg_checksum_refuse(
            "hg_checksum_get", "the buffer has fewer than 8 bytes");
    hg_wire_store64(buf, checksum->crc);
    if (finalize != 0)
        checksum->finalized = true;
    return 0;
}

int hg_checksum_update(hg_checksum_t checksum, const void *data, size_t size)
{
    if (checksum == NULL || (data == NULL && size > 0))
        return hg_checksum_refuse("hg_checksum_update", "an argument is NULL");
    if (checksum->finalized)
        return hg_checksum_refuse(
            "hg_checksum_update", "finalized; reset it first");
    checksum->crc = hg_crc64_update(checksum->crc, data, size);
    return 0;
}
