/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Procs: one function encodes, decodes and frees ==================== */
/**
 * @defgroup hg_proc Procs: encoding and decoding
 *
 * A proc function encodes, decodes and frees the values of one type. It gets
 * a proc object, of type hg_proc_t, and a pointer to a value. The object
 * selects the operation: HG_ENCODE appends the value to a buffer; HG_DECODE
 * reads it from a buffer and may allocate memory; HG_FREE releases what
 * decoding allocated. MERCURY_GEN_PROC() writes the proc function of a struct.
 * To write one by hand, call the proc functions of the members in order.
 *
 * On the wire integers are little-endian and floating-point numbers are IEEE
 * 754, on every machine. Decoding never reads past the bytes that arrived: it
 * returns HG_OVERFLOW.
 *
 * After a step has failed, every later step of the proc object fails with the
 * same code. HG_FREE continues after a failure, so that nothing leaks.
 *
 * A proc function runs in the thread that encodes or decodes, with no lock of
 * the library held. One thread at a time uses a proc object.
 *
 * @source Mercury design report, "Generic Processor Macros"
 * @{
 */

/** The operations of a proc. */
typedef enum {
    HG_ENCODE, /**< append the value to the buffer */
    HG_DECODE, /**< read the value from the buffer */
    HG_FREE    /**< release what decoding the value allocated */
} hg_proc_op_t;

/* ---- Proc objects ---- */

/**
 * Create a proc object over a buffer.
 *
 * Calls do not need it: the library creates the proc objects for their
 * arguments. Before decoding, set the struct to zeros. After decoding, free the
 * struct with HG_FREE, also if decoding failed.
 *
 * @param buf        the buffer, borrowed until hg_proc_free(); with HG_FREE it
 *                   may be NULL.
 * @param size       bytes of the buffer; encoding past it returns HG_OVERFLOW.
 * @param op         HG_ENCODE, HG_DECODE or HG_FREE.
 * @param[out] proc  the proc object; free it with hg_proc_free().
 * @retval HG_SUCCESS      the object is created.
 * @retval HG_INVALID_ARG  an argument is NULL, or `op` is no operation.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t hg_proc_create(
    void *buf, size_t size, hg_proc_op_t op, hg_proc_t *proc);

/**
 * Free a proc object of hg_proc_create().
 *
 * A proc object that was freed already is not detected.
 *
 * @param proc  the proc object; not one that a proc function was given.
 * @retval HG_SUCCESS      the object is freed.
 * @retval HG_INVALID_ARG  it is NULL, or belongs to a call.
 */
HG_EXPORT hg_return_t hg_proc_free(hg_proc_t proc);

/**
 * Get the operation of a proc object.
 *
 * @param proc  the proc object.
 * @return HG_ENCODE, HG_DECODE or HG_FREE; HG_ENCODE (logged) for NULL.
 */
HG_EXPORT hg_proc_op_t hg_proc_get_op(hg_proc_t proc);

/**
 * Get the number of bytes that were encoded or decoded so far.
 *
 * @param proc  the proc object.
 * @return the number of bytes; 0, logged, if `proc` is NULL.
 */
HG_EXPORT size_t hg_proc_get_size_used(hg_proc_t proc);

/**
 * Get the number of bytes that are left.
 *
 * A decoder compares a count that came from a peer with this number before it
 * allocates memory for that many values.
 *
 * @param proc  the proc object.
 * @return the bytes that can still be decoded, or encoded; 0 after a step has
 *         failed; 0, logged, if `proc` is NULL.
 */
HG_EXPORT size_t hg_proc_get_size_left(hg_proc_t proc);

/**
 * Allocate zeroed memory for a decoded value.
 *
 * Proc functions use it to decode arrays. If decoding the arguments of a call
 * fails, the library frees what it allocated here. In the request model it also
 * frees that of an input with the handle of the call.
 *
 * @param proc  the proc object; NULL outside of a proc function.
 * @param size  bytes.
 * @return the memory, to be freed with hg_proc_release(); NULL if out of
 *         memory: the proc object has then failed with HG_NOMEM.
 */
HG_EXPORT void *hg_proc_alloc(hg_proc_t proc, size_t size);

/**
 * Free memory of hg_proc_alloc(), or a string that a stub's NAME_call returned.
 *
 * The memory of an input belongs to the handle of its call, in the request
 * model. The handler may free it in its own thread. Elsewhere
 * HG_Handler_free_input() frees it. Values that are freed in the order of
 * decoding, or in reverse, take a constant time each. In another order the time
 * of each grows with their number, which a client may choose.
 *
 * @param proc  the proc object; NULL outside of a proc function.
 * @param ptr   the memory; NULL does nothing.
 */
HG_EXPORT void hg_proc_release(hg_proc_t proc, const void *ptr);

/* ---- Basic types ---- */

/**
 * Encode or decode an int8_t.
 *
 * @param proc          the proc object.
 * @param[in,out] data  points to a value of the type.
 * @retval HG_SUCCESS         done; with HG_FREE there is nothing to do.
 * @retval HG_OVERFLOW        fewer bytes are left than the value has.
 * @retval HG_AGAIN           a bulk class of its own over sm, which does not
 *                            listen, cannot be reached: see
 *                            HG_Bulk_handle_bind(), also for HG_ADDRINUSE.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_int8_t(hg_proc_t proc, void *data);

/** Encode or decode a uint8_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_uint8_t(hg_proc_t proc, void *data);

/** Encode or decode an int16_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_int16_t(hg_proc_t proc, void *data);

/** Encode or decode a uint16_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_uint16_t(hg_proc_t proc, void *data);

/** Encode or decode an int32_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_int32_t(hg_proc_t proc, void *data);

/** Encode or decode a uint32_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_uint32_t(hg_proc_t proc, void *data);

/** Encode or decode an int64_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_int64_t(hg_proc_t proc, void *data);

/** Encode or decode a uint64_t.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_uint64_t(hg_proc_t proc, void *data);

#if !HG_API_STRICT
/** Encode or decode a float.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_float(hg_proc_t proc, void *data);

/** Encode or decode a double.
 * @copydetails hg_proc_int8_t */
HG_EXPORT hg_return_t hg_proc_double(hg_proc_t proc, void *data);
#endif

/**
 * Encode or decode an hg_bool_t.
 *
 * @param proc          the proc object.
 * @param[in,out] data  points to an hg_bool_t; decoding sets HG_TRUE or
 *                      HG_FALSE.
 * @retval HG_SUCCESS         done; with HG_FREE there is nothing to do.
 * @retval HG_OVERFLOW        no byte is left.
 * @retval HG_PROTOCOL_ERROR  the byte that arrived is neither 0 nor 1.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_hg_bool_t(hg_proc_t proc, void *data);

/**
 * Encode, decode or free a string.
 *
 * A NULL string stays NULL on the wire. Decoding allocates a copy. If it fails,
 * the string is NULL.
 *
 * @param proc          the proc object.
 * @param[in,out] data  points to an hg_string_t; HG_FREE frees the string and
 *                      sets it to NULL.
 * @retval HG_SUCCESS         done.
 * @retval HG_OVERFLOW        fewer bytes are left than the string has.
 * @retval HG_PROTOCOL_ERROR  the bytes that arrived are not a string.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data);

/** Encode, decode or free a const string: an hg_const_string_t.
 *
 * It is hg_proc_hg_string_t() for another type.
 *
 * @param proc          the proc object.
 * @param[in,out] data  points to an hg_const_string_t; HG_FREE frees the string
 *                      and sets it to NULL.
 * @retval HG_SUCCESS         done.
 * @retval HG_OVERFLOW        fewer bytes are left than the string has.
 * @retval HG_PROTOCOL_ERROR  the bytes that arrived are not a string.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data);

/**
 * Encode, decode or free a bulk handle.
 *
 * Encoding does not take the handle. Decoding creates a handle of the peer's
 * memory; if the process calls itself, it is a handle of the same memory.
 * HG_BULK_NULL stays HG_BULK_NULL on the wire.
 *
 * A decoded handle belongs to the class of the call or of hg_proc_create_set();
 * without a class, to the request model. A bound handle may name no address,
 * because its owner does not listen. Then the peer of the call is the owner. A
 * standalone proc object finds the call if it decodes the bytes of
 * HG_Get_input_buf() or HG_Get_input_extra_buf() in place. From a copy of them
 * the handle has no owner: HG_Bulk_bind_transfer() fails.
 *
 * @param proc          the proc object.
 * @param[in,out] data  points to an hg_bulk_t; HG_FREE frees the handle and
 *                      sets it to HG_BULK_NULL.
 * @retval HG_SUCCESS         done.
 * @retval HG_OVERFLOW        fewer bytes are left than the handle has.
 * @retval HG_PROTOCOL_ERROR  the bytes that arrived are not a bulk handle.
 * @retval HG_NOENTRY         HG_ENCODE: the handle was decoded from one of this
 *                            process, which was freed.
 * @retval HG_FAULT           bulk transfers are not initialised, or no longer,
 *                            or the handle is of the parent of this process.
 * @retval HG_OPNOTSUPPORT    peers cannot reach the memory: the bulk class is
 *                            not the RPC class and does not listen.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL, or the class of
 *                            hg_proc_create_set() was destroyed.
 */
HG_EXPORT hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data);

/**
 * Copy bytes as they are.
 *
 * @param proc         the proc object.
 * @param[in,out] buf  the bytes; NULL is allowed if `size` is 0, or with
 *                     HG_FREE, which does nothing.
 * @param size         bytes.
 * @retval HG_SUCCESS      done.
 * @retval HG_OVERFLOW     fewer bytes are left.
 * @retval HG_MSGSIZE      the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_raw(hg_proc_t proc, void *buf, size_t size);

/**
 * Skip bytes.
 *
 * Encoding writes zeros. Decoding skips the bytes and counts them as decoded.
 *
 * @param proc  the proc object.
 * @param size  bytes.
 * @retval HG_SUCCESS      done.
 * @retval HG_OVERFLOW     fewer bytes are left.
 * @retval HG_MSGSIZE      the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `proc` is NULL.
 */
HG_EXPORT hg_return_t hg_proc_ignore(hg_proc_t proc, size_t size);

/** @} */

/* The beginning of a proc object. Only the macros use it: the proc functions
 * that they define copy numbers inline. The layout does not change within a
 * major version. */
struct hg_proc_cursor {
    unsigned char *data; /* the first byte */
    size_t pos;          /* bytes encoded or decoded so far */
    size_t end;          /* bytes of the buffer; pos if the proc frees */
    hg_proc_op_t op;
};

/* ==== Checksums ========================================================= */
/**
 * @defgroup hg_checksum Checksums
 *
 * A checksum over any number of pieces of data. The one method is "crc64":
 * CRC-64/XZ, 8 bytes, little-endian. Calls do not need these functions: the
 * library computes the checksums of messages itself.
 *
 * The functions return 0, or -1 with a line in the log. A checksum that was
 * destroyed already is not detected. One thread at a time uses a checksum.
 *
 * @source Mercury design report, "Abstract checksums and Checksum API"
 * @{
 */

/**
 * Create a checksum.
 *
 * @param hash_method    "crc64".
 * @param[out] checksum  the checksum; free it with hg_checksum_destroy().
 * @return 0; -1 if an argument is NULL, the method is unknown, or there is no
 *         memory.
 */
HG_EXPORT int hg_checksum_init(
    const char *hash_method, hg_checksum_t *checksum);

/**
 * Free a checksum.
 *
 * @param checksum  the checksum.
 * @return 0; -1 if it is NULL.
 */
HG_EXPORT int hg_checksum_destroy(hg_checksum_t checksum);

/**
 * Set a checksum to that of no data.
 *
 * @param checksum  the checksum.
 * @return 0; -1 if it is NULL.
 */
HG_EXPORT int hg_checksum_reset(hg_checksum_t checksum);

/**
 * Get the size of a checksum's value.
 *
 * @param checksum  the checksum.
 * @return bytes: 8; 0 if it is NULL.
 */
HG_EXPORT size_t hg_checksum_get_size(hg_checksum_t checksum);

/**
 * Copy the value of a checksum into a buffer.
 *
 * @param checksum  the checksum.
 * @param[out] buf  the value, little-endian.
 * @param size      bytes of `buf`, at least 8.
 * @param finalize  0: more data may follow; else hg_checksum_reset() must come
 *                  before the next hg_checksum_update().
 * @return 0; -1 if an argument is NULL, or the buffer is too small.
 */
HG_EXPORT int hg_checksum_get(
    hg_checksum_t checksum, void *buf, size_t size, int finalize);

/**
 * Add data to a checksum.
 *
 * @param checksum  the checksum.
 * @param data      the bytes; NULL is allowed if `size` is 0.
 * @param size      bytes.
 * @return 0; -1 if an argument is NULL, or the checksum is finalized.
 */
HG_EXPORT int hg_checksum_update(
    hg_checksum_t checksum, const void *data, size_t size);

/** @} */
