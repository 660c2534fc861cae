/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Procs: one function encodes, decodes and frees ==================== */
/*
 * A proc function handles one type: called with a proc object that encodes
 * it appends the value, with one that decodes it reads the value and may
 * allocate, with one that frees it releases what decoding allocated. Write
 * one for your own type by calling those of its members, or let
 * MERCURY_GEN_PROC do it.
 *
 * On the wire integers are little-endian and floats are IEEE 754, on every
 * machine. Decoding never reads past what arrived: it fails with
 * HG_OVERFLOW. Mercury design report, "Generic Processor Macros".
 *
 * A proc runs in the thread that encodes or decodes, with no lock held.
 */

typedef enum { HG_ENCODE, HG_DECODE, HG_FREE } hg_proc_op_t;

/* A proc over `size` bytes at `buf` (borrowed until hg_proc_free). Encoding
 * past the end is HG_OVERFLOW. With HG_FREE, `buf` may be NULL. Before
 * decoding, set the struct to zeros; after it, free the struct with HG_FREE,
 * whatever decoding returned. HG_INVALID_ARG: a NULL, or no such operation. */
HG_EXPORT hg_return_t hg_proc_create(
    void *buf, size_t size, hg_proc_op_t op, hg_proc_t *proc);
/* Not detected are: a proc freed twice or used after that, and one that is not
 * of hg_proc_create, as a proc function gets it. */
HG_EXPORT hg_return_t hg_proc_free(hg_proc_t proc);

/* What the proc does now; how many bytes were encoded or decoded so far; how
 * many are left (0 once a step has failed). A decoder checks a count that
 * came from a peer against hg_proc_get_size_left before it allocates. A NULL
 * is logged, and gives HG_ENCODE and 0. */
HG_EXPORT hg_proc_op_t hg_proc_get_op(hg_proc_t proc);
HG_EXPORT size_t hg_proc_get_size_used(hg_proc_t proc);
HG_EXPORT size_t hg_proc_get_size_left(hg_proc_t proc);

/* Allocate `size` bytes, zeroed, for a decoded value, and free them (NULL
 * allowed): the library's allocator, for procs that decode arrays. When
 * decoding the arguments of a call fails, what it allocated here is freed by
 * the library. NULL: out of memory, and the proc has failed with HG_NOMEM.
 * `proc` is NULL outside of proc functions. */
HG_EXPORT void *hg_proc_alloc(hg_proc_t proc, size_t size);
HG_EXPORT void hg_proc_release(hg_proc_t proc, const void *ptr);

/* Basic types: `data` points to a value of the type. A string is decoded into
 * memory of its own, const or not, which HG_FREE releases, leaving NULL; a
 * string that cannot be decoded is NULL. HG_OVERFLOW: more than there is;
 * HG_PROTOCOL_ERROR: bytes that stand for no value; HG_NOMEM; HG_INVALID_ARG:
 * a NULL. */
HG_EXPORT hg_return_t hg_proc_int8_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_uint8_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_int16_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_uint16_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_int32_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_uint32_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_int64_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_uint64_t(hg_proc_t proc, void *data);
#if !HG_API_STRICT
HG_EXPORT hg_return_t hg_proc_float(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_double(hg_proc_t proc, void *data);
#endif
HG_EXPORT hg_return_t hg_proc_hg_bool_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data);

/* A bulk handle. Encoding does not take it; decoding makes one of remote
 * memory (of the same memory in a call to oneself), which HG_FREE frees.
 * HG_BULK_NULL travels as itself. */
HG_EXPORT hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data);

/* `size` bytes as they are. */
HG_EXPORT hg_return_t hg_proc_raw(hg_proc_t proc, void *buf, size_t size);

/* Skip `size` bytes on purpose: decoding passes over them and they count as
 * decoded; encoding writes zeros. */
HG_EXPORT hg_return_t hg_proc_ignore(hg_proc_t proc, size_t size);

/* What a proc object begins with, for the macros alone: they compile the steps
 * of numbers into the proc functions they make. Its layout does not change
 * within a major version. */
struct hg_proc_room {
    unsigned char *data; /* the first byte */
    size_t pos;          /* bytes encoded or decoded so far */
    size_t end;          /* bytes there are, or room there is; pos if freeing */
    hg_proc_op_t op;
};

/* ==== Checksums ========================================================= */
/*
 * The Mercury design report, "Abstract checksums and Checksum API". Methods:
 * "crc64" (CRC-64/XZ; 8 bytes, little-endian). The functions return 0, or -1
 * with one log line. Not detected are: a checksum destroyed twice, or used
 * after that.
 */
HG_EXPORT int hg_checksum_init(
    const char *hash_method, hg_checksum_t *checksum);
HG_EXPORT int hg_checksum_destroy(hg_checksum_t checksum);
HG_EXPORT int hg_checksum_reset(hg_checksum_t checksum);
HG_EXPORT size_t hg_checksum_get_size(hg_checksum_t checksum);
/* Copy the value into buf. With `finalize` nonzero no update may follow
 * before a reset; with 0 the checksum can be continued. */
HG_EXPORT int hg_checksum_get(
    hg_checksum_t checksum, void *buf, size_t size, int finalize);
HG_EXPORT int hg_checksum_update(
    hg_checksum_t checksum, const void *data, size_t size);
