/* SPDX-License-Identifier: BSD-3-Clause */
/* ---- Procs as the callback model has them ----
 *
 * A proc function is written once for both models, and what it may call is the
 * same, with this in addition. What follows is about any proc object unless it
 * says "of one's own": made by hg_proc_create2 or hg_proc_create_set.
 *
 * Where Mercury decodes on past the end of what arrived, here it is
 * HG_OVERFLOW.
 */

/* The checksum that hg_proc_flush computes over the bytes: CRC-16/T10-DIF,
 * CRC-32C, CRC-64/XZ or none. */
typedef enum { HG_CRC16, HG_CRC32, HG_CRC64, HG_NOHASH } hg_proc_hash_t;

/* Flags of a proc; the library sets none. */
#define HG_PROC_SM 0x01
#define HG_PROC_BULK_EAGER 0x02

/* A proc of one's own, without a buffer until hg_proc_reset, or over `buf_size`
 * bytes at `buf` (borrowed until then; NULL to free). An encoder that they are
 * too few for goes on in an extra buffer, which it makes. HG_INVALID_ARG: a
 * NULL. */
HG_EXPORT hg_return_t hg_proc_create2(
    hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p);
HG_EXPORT hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf,
    hg_size_t buf_size, hg_proc_op_t op, hg_proc_hash_t hash,
    hg_proc_t *proc_p);

/* Free one's own, and its extra buffer unless that was taken. NULL is no
 * mistake. */
HG_EXPORT hg_return_t hg_proc_free2(hg_proc_t proc);

/* Begin anew with one's own, as if it were just made; the handle stays. */
HG_EXPORT hg_return_t hg_proc_reset(
    hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op);

/* Whose arguments these are: of one's own, what was set; of a call of the
 * callback model, its class and handle; else NULL. Setting is for one's own. */
HG_EXPORT hg_class_t *hg_proc_get_class(hg_proc_t proc);
HG_EXPORT hg_handle_t hg_proc_get_handle(hg_proc_t proc);
HG_EXPORT void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle);

/* Flags of one's own, 0 after hg_proc_reset. */
HG_EXPORT uint8_t hg_proc_get_flags(hg_proc_t proc);
HG_EXPORT void hg_proc_set_flags(hg_proc_t proc, uint8_t flags);

/* How many bytes the buffer has. Ask for as many at least, or for room for
 * `size` more: HG_OVERFLOW where a decoder has not got them, HG_MSGSIZE past
 * the limit of a message; then the proc has failed. */
HG_EXPORT hg_size_t hg_proc_get_size(hg_proc_t proc);
HG_EXPORT hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size);
HG_EXPORT hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size);

/* The next `data_size` bytes themselves, to be written when encoding, to be
 * read when decoding, until the proc is used again; hg_proc_restore_ptr says
 * that it was done. NULL: there are not so many, or the proc frees. */
HG_EXPORT void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size);
HG_EXPORT hg_return_t hg_proc_restore_ptr(
    hg_proc_t proc, void *data, hg_size_t data_size);

/* The extra buffer of one's own encoder, with everything encoded so far, and
 * its size; NULL and 0: there was no need of one. With `theirs` true it is the
 * caller's, who frees it with free() (or what HG_Set_allocator put in its
 * place); HG_INVALID_ARG: there is none. */
HG_EXPORT void *hg_proc_get_extra_buf(hg_proc_t proc);
HG_EXPORT hg_size_t hg_proc_get_extra_size(hg_proc_t proc);
HG_EXPORT hg_return_t hg_proc_set_extra_buf_is_mine(
    hg_proc_t proc, uint8_t theirs);

/* Compute the hash over the bytes encoded or decoded so far, of one's own that
 * has one; copy it (little-endian; HG_INVALID_ARG: no hash, or hash_size is
 * less than 2, 4, or 8 bytes), or compare it: HG_CHECKSUM_ERROR. */
HG_EXPORT hg_return_t hg_proc_flush(hg_proc_t proc);
HG_EXPORT hg_return_t hg_proc_checksum_get(
    hg_proc_t proc, void *hash, hg_size_t hash_size);
HG_EXPORT hg_return_t hg_proc_checksum_verify(
    hg_proc_t proc, const void *hash, hg_size_t hash_size);

/* Nothing: bytes are hashed as they lie in the buffer, however they came
 * there. */
HG_EXPORT void hg_proc_checksum_update(
    hg_proc_t proc, void *data, hg_size_t data_size);

/* hg_proc_raw by another name. */
HG_EXPORT hg_return_t hg_proc_bytes(
    hg_proc_t proc, void *data, hg_size_t data_size);

/* ---- Strings that know whose they are ---- */

typedef struct hg_string_object {
    char *data;
    bool is_const;
    bool is_owned; /* data is freed with free() */
} hg_string_object_t;

/* An empty one; one of `s`, which is borrowed, or with is_owned taken; what
 * frees it if it is owned; an owned copy (of NULL, NULL); another string in its
 * place, borrowed, and the old one returned, which is the caller's. HG_NOMEM;
 * HG_INVALID_ARG: no object. */
HG_EXPORT hg_return_t hg_string_object_init(hg_string_object_t *string);
HG_EXPORT hg_return_t hg_string_object_init_char(
    hg_string_object_t *string, char *s, uint8_t is_owned);
HG_EXPORT hg_return_t hg_string_object_init_const_char(
    hg_string_object_t *string, const char *s, uint8_t is_owned);
HG_EXPORT hg_return_t hg_string_object_free(hg_string_object_t *string);
HG_EXPORT hg_return_t hg_string_object_dup(
    hg_string_object_t string, hg_string_object_t *new_string);
HG_EXPORT char *hg_string_object_swap(hg_string_object_t *string, char *s);

/* Travels as hg_string_t does; what is decoded is owned. */
HG_EXPORT hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string);
