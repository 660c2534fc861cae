/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_own: what the callback model asks of procs, and procs that an
 * application makes for itself.
 *
 * One of its own encodes into a buffer of the application's until that is full,
 * then into an extra one on the heap, which begins with all that was encoded
 * before. A hash is computed when it is asked for, over the bytes as they lie
 * there, which is what updating it with each value would have given.
 *
 * Invariants: the room lies in `extra` once that has data; extra that was taken
 * is not touched again but to read.
 *
 * Locking: none, a proc belongs to one thread at a time.
 */
#include "base/crc64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "hg/proc.h"

struct hg_proc_own {
    struct hg_proc proc;
    struct hg_proc_owner owner;
    hg_proc_hash_t hash;
    uint8_t flags;
    bool extra_taken; /* the application frees it */
    struct hg_buf extra;
    uint64_t value; /* of the hash, at the last flush */
};

/* ---- Which is which ---- */

/* NULL: not one of the application's own. */
static struct hg_proc_own *hg_proc_own_is(hg_proc_t proc)
{
    return proc->owner != NULL ? proc->owner->own : NULL;
}

/* Like hg_proc_own_is, but any other proc is an error, and logged. */
static struct hg_proc_own *hg_proc_own_of(hg_proc_t proc, const char *function)
{
    struct hg_proc_own *own = proc != NULL ? hg_proc_own_is(proc) : NULL;

    if (own == NULL)
        (void) hg_log_misuse("proc", function, "not a proc of hg_proc_create");
    return own;
}

/* ---- The extra buffer ---- */

static void hg_proc_own_drop_extra(struct hg_proc_own *own)
{
    if (!own->extra_taken)
        hg_buf_fini(&own->extra);
    own->extra.data = NULL;
    own->extra.capacity = 0;
    own->extra_taken = false;
}

static hg_return_t hg_proc_own_spill(struct hg_proc *proc, size_t size)
{
    struct hg_proc_own *own = hg_proc_own_is(proc);
    struct hg_buf extra = {NULL, 0};
    bool first = own->extra.data == NULL || own->extra_taken;
    hg_return_t ret;

    assert(own != NULL && proc == &own->proc && proc->room.op == HG_ENCODE);
    if (size > SIZE_MAX / 2 - proc->room.pos) {
        hg_log_error("proc", "%zu bytes are more than a buffer can have", size);
        return HG_MSGSIZE;
    }
    if (!first)
        extra = own->extra;
    ret = hg_buf_reserve(&extra, proc->room.pos + size, SIZE_MAX / 2);
    if (ret != HG_SUCCESS)
        return ret;
    if (first && proc->room.pos > 0)
        memcpy(extra.data, proc->room.data, proc->room.pos);
    own->extra = extra;
    own->extra_taken = false;
    proc->room.data = extra.data;
    proc->room.end = extra.capacity;
    assert(size <= proc->room.end - proc->room.pos);
    return HG_SUCCESS;
}

/* ---- Life ---- */

/* Also with no buffer at all: the first byte encoded makes the extra one. */
static void hg_proc_own_begin(
    struct hg_proc_own *own, void *buf, size_t size, hg_proc_op_t op)
{
    if (op == HG_FREE)
        hg_proc_init_free(&own->proc);
    else
        hg_proc_init_user(&own->proc, op, buf, size);
    hg_proc_set_owner(&own->proc, &own->owner);
    own->flags = 0;
    own->value = 0;
}

hg_return_t hg_proc_create2(
    hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    struct hg_proc_own *own;

    if (hg_class == NULL || proc_p == NULL) {
        hg_log_error("proc", "hg_proc_create: a NULL");
        return HG_INVALID_ARG;
    }
    own = (struct hg_proc_own *) hg_mem_calloc(1, sizeof(*own));
    if (own == NULL) {
        hg_log_error("proc", "no memory for a proc");
        return HG_NOMEM;
    }
    own->owner.hg_class = hg_class;
    own->owner.own = own;
    own->owner.spill = hg_proc_own_spill;
    own->hash = hash;
    hg_proc_own_begin(own, NULL, 0, HG_ENCODE);
    *proc_p = &own->proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf,
    hg_size_t buf_size, hg_proc_op_t op, hg_proc_hash_t hash, hg_proc_t *proc_p)
{
    hg_proc_t proc;
    hg_return_t ret;

    if (proc_p == NULL) {
        hg_log_error("proc", "hg_proc_create_set: nowhere to put it");
        return HG_INVALID_ARG;
    }
    ret = hg_proc_create2(hg_class, hash, &proc);
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_proc_reset(proc, buf, buf_size, op);
    if (ret != HG_SUCCESS) {
        (void) hg_proc_free2(proc);
        return ret;
    }
    *proc_p = proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_free2(hg_proc_t proc)
{
    struct hg_proc_own *own;

    if (proc == NULL)
        return HG_SUCCESS;
    own = hg_proc_own_of(proc, "hg_proc_free");
    if (own == NULL)
        return HG_INVALID_ARG;
    hg_proc_own_drop_extra(own);
    hg_mem_free(own);
    return HG_SUCCESS;
}

hg_return_t hg_proc_reset(
    hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op)
{
    struct hg_proc_own *own = hg_proc_own_of(proc, "hg_proc_reset");

    if (own == NULL)
        return HG_INVALID_ARG;
    if ((op != HG_ENCODE && op != HG_DECODE && op != HG_FREE) ||
        (buf == NULL && op != HG_FREE) || buf_size > SIZE_MAX / 2) {
        hg_log_error("proc", "hg_proc_reset: no buffer, or no such operation");
        return HG_INVALID_ARG;
    }
    hg_proc_own_drop_extra(own);
    hg_proc_own_begin(own, buf, (size_t) buf_size, op);
    return HG_SUCCESS;
}

/* ---- Whose it is ---- */

hg_class_t *hg_proc_get_class(hg_proc_t proc)
{
    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return NULL;
    }
    return proc->owner != NULL ? proc->owner->hg_class : NULL;
}

hg_handle_t hg_proc_get_handle(hg_proc_t proc)
{
    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return HG_HANDLE_NULL;
    }
    return proc->owner != NULL ? proc->owner->handle : HG_HANDLE_NULL;
}

void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle)
{
    struct hg_proc_own *own = hg_proc_own_of(proc, "hg_proc_set_handle");

    if (own != NULL)
        own->owner.handle = handle;
}

uint8_t hg_proc_get_flags(hg_proc_t proc)
{
    const struct hg_proc_own *own;

    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return 0;
    }
    own = hg_proc_own_is(proc);
    return own != NULL ? own->flags : 0;
}

void hg_proc_set_flags(hg_proc_t proc, uint8_t flags)
{
    struct hg_proc_own *own = hg_proc_own_of(proc, "hg_proc_set_flags");

    if (own != NULL)
        own->flags = flags;
}

/* ---- Room ---- */

hg_size_t hg_proc_get_size(hg_proc_t proc)
{
    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return 0;
    }
    return proc->room.end;
}

hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size)
{
    if (proc == NULL)
        return hg_proc_refuse(NULL);
    if (proc->room.op == HG_FREE || size <= proc->room.end - proc->room.pos)
        return proc->error;
    /* What no memory has is refused below like any other size. */
    return hg_proc_make_room(proc, size <= SIZE_MAX ? (size_t) size : SIZE_MAX);
}

hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size)
{
    if (proc == NULL)
        return hg_proc_refuse(NULL);
    return hg_proc_reserve(
        proc, buf_size > proc->room.pos ? buf_size - proc->room.pos : 0);
}

void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size)
{
    hg_return_t ret;
    unsigned char *bytes;

    if (proc == NULL || proc->room.op == HG_FREE) {
        hg_log_error("proc", "hg_proc_save_ptr: no proc, or one that frees");
        return NULL;
    }
    ret = hg_proc_reserve(proc, data_size);
    if (ret != HG_SUCCESS)
        return NULL;
    bytes = proc->room.data + proc->room.pos;
    proc->room.pos += (size_t) data_size;
    return bytes;
}

hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void *data, hg_size_t data_size)
{
    (void) data;
    (void) data_size;
    if (proc == NULL || proc->room.op == HG_FREE) {
        hg_log_error("proc", "hg_proc_restore_ptr: no proc, or one that frees");
        return HG_INVALID_ARG;
    }
    return HG_SUCCESS;
}

void *hg_proc_get_extra_buf(hg_proc_t proc)
{
    const struct hg_proc_own *own;

    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return NULL;
    }
    own = hg_proc_own_is(proc);
    return own != NULL ? own->extra.data : NULL;
}

hg_size_t hg_proc_get_extra_size(hg_proc_t proc)
{
    const struct hg_proc_own *own;

    if (proc == NULL) {
        (void) hg_proc_refuse(NULL);
        return 0;
    }
    own = hg_proc_own_is(proc);
    return own != NULL ? own->extra.capacity : 0;
}

hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t theirs)
{
    struct hg_proc_own *own =
        hg_proc_own_of(proc, "hg_proc_set_extra_buf_is_mine");

    if (own == NULL)
        return HG_INVALID_ARG;
    if (own->extra.data == NULL) {
        hg_log_error(
            "proc", "hg_proc_set_extra_buf_is_mine: there is no extra buffer");
        return HG_INVALID_ARG;
    }
    if (own->extra_taken == (theirs != 0))
        return HG_SUCCESS;
    own->extra_taken = theirs != 0;
    if (own->extra_taken)
        hg_mem_give(own->extra.data);
    else
        hg_mem_take(own->extra.data);
    return HG_SUCCESS;
}

/* ---- Hashes ---- */

/* CRC-16/T10-DIF: polynomial 0x8BB7, nothing reflected; "123456789" gives
 * 0xD0DB. Bit by bit: nobody hashes much with it. */
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

/* CRC-32C: reflected polynomial 0x82F63B78, all ones in and out; "123456789"
 * gives 0xE3069283. Four bits at a time, for the same reason. */
static uint32_t hg_proc_own_crc32c(const unsigned char *data, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede,
        0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d, 0x82f63b78,
        0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a,
        0xf36e6f75};
    uint32_t crc = UINT32_MAX;
    size_t i;

    for (i = 0; i < size; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* How many bytes a hash has; 0: none. */
static size_t hg_proc_own_hash_size(hg_proc_hash_t hash)
{
    switch (hash) {
    case HG_CRC16: return 2;
    case HG_CRC32: return 4;
    case HG_CRC64: return 8;
    case HG_NOHASH: break;
    }
    return 0;
}

hg_return_t hg_proc_flush(hg_proc_t proc)
{
    struct hg_proc_own *own;

    if (proc == NULL)
        return hg_proc_refuse(NULL);
    own = hg_proc_own_is(proc);
    if (own == NULL || proc->error != HG_SUCCESS)
        return proc->error;
    switch (own->hash) {
    case HG_CRC16:
        own->value = hg_proc_own_crc16(proc->room.data, proc->room.pos);
        break;
    case HG_CRC32:
        own->value = hg_proc_own_crc32c(proc->room.data, proc->room.pos);
        break;
    case HG_CRC64:
        own->value = hg_crc64_update(0, proc->room.data, proc->room.pos);
        break;
    case HG_NOHASH: break;
    }
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
    if (size == 0 || hash == NULL || hash_size < size) {
        hg_log_error("proc",
            "hg_proc_checksum_get: no hash, or no room for its %zu bytes",
            size);
        return HG_INVALID_ARG;
    }
    hg_wire_store64(bytes, own->value);
    memcpy(hash, bytes, size);
    return HG_SUCCESS;
}

hg_return_t hg_proc_checksum_verify(
    hg_proc_t proc, const void *hash, hg_size_t hash_size)
{
    unsigned char bytes[8] = {0};
    size_t size;
    hg_return_t ret;

    if (hash == NULL) {
        hg_log_error("proc", "hg_proc_checksum_verify: the hash is NULL");
        return HG_INVALID_ARG;
    }
    ret = hg_proc_checksum_get(
        proc, bytes, hash_size < sizeof(bytes) ? hash_size : sizeof(bytes));
    if (ret != HG_SUCCESS)
        return ret;
    size = hg_proc_own_hash_size(hg_proc_own_is(proc)->hash);
    if (memcmp(hash, bytes, size) == 0)
        return HG_SUCCESS;
    HG_PROC_EXPLAIN(
        proc, "the hash of %zu bytes is not the one that came", proc->room.pos);
    return HG_CHECKSUM_ERROR;
}

void hg_proc_checksum_update(hg_proc_t proc, void *data, hg_size_t data_size)
{
    (void) proc;
    (void) data;
    (void) data_size;
}

/* ---- Bytes ---- */

hg_return_t hg_proc_bytes(hg_proc_t proc, void *data, hg_size_t data_size)
{
    return hg_proc_raw(
        proc, data, data_size <= SIZE_MAX ? (size_t) data_size : SIZE_MAX);
}
