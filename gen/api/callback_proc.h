/* SPDX-License-Identifier: BSD-3-Clause */
/* ---- Procs of the callback model --------------------------------------- */
/**
 * @defgroup hg_callback_proc Procs of the callback model
 * @ingroup hg_proc
 *
 * A proc function works with both models. These functions are Mercury's
 * additions. A proc object of hg_proc_create(), hg_proc_create2() or
 * hg_proc_create_set() is standalone. Some functions are only for standalone
 * proc objects. The others also work on the proc object of a call.
 *
 * Decoding past the bytes that arrived returns HG_OVERFLOW, where Mercury
 * decodes on.
 *
 * @source Mercury 2.4
 * @{
 */

/** The hash that hg_proc_flush() computes over the encoded or decoded bytes. */
typedef enum {
    HG_CRC16, /**< CRC-16/T10-DIF, 2 bytes */
    HG_CRC32, /**< CRC-32C, 4 bytes */
    HG_CRC64, /**< CRC-64/XZ, 8 bytes */
    HG_NOHASH /**< none */
} hg_proc_hash_t;

/** A flag for hg_proc_set_flags(). The library never sets it. */
#define HG_PROC_SM 0x01
/** A flag for hg_proc_set_flags(). The library never sets it. */
#define HG_PROC_BULK_EAGER 0x02

/* ---- Standalone proc objects ---- */

/**
 * Create an encoding proc object without a buffer.
 *
 * Encoding allocates an extra buffer: see hg_proc_get_extra_buf(). With
 * HG_API_VERSION 2 the name is hg_proc_create.
 *
 * @param hg_class     the class.
 * @param hash         the hash to compute, or HG_NOHASH.
 * @param[out] proc_p  the proc object; free it with hg_proc_free2().
 * @retval HG_SUCCESS      the object is created.
 * @retval HG_INVALID_ARG  an argument is NULL.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t hg_proc_create2(
    hg_class_t *hg_class, hg_proc_hash_t hash, hg_proc_t *proc_p);

/**
 * Create a proc object over a buffer.
 *
 * When the buffer of an encoder is full, encoding continues in an extra buffer:
 * see hg_proc_get_extra_buf(). A decoder of the bytes of HG_Get_input_buf() or
 * HG_Get_input_extra_buf() decodes bulk handles as HG_Get_input() does.
 *
 * @param hg_class     the class, also of the bulk handles that are decoded.
 * @param buf          the buffer, borrowed until hg_proc_free2() or
 *                     hg_proc_reset(); NULL if `buf_size` is 0 or with HG_FREE.
 * @param buf_size     bytes of the buffer.
 * @param op           HG_ENCODE, HG_DECODE or HG_FREE.
 * @param hash         the hash to compute, or HG_NOHASH.
 * @param[out] proc_p  the proc object; free it with hg_proc_free2().
 * @retval HG_SUCCESS      the object is created.
 * @retval HG_INVALID_ARG  an argument is NULL, or `op` is no operation.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t hg_proc_create_set(hg_class_t *hg_class, void *buf,
    hg_size_t buf_size, hg_proc_op_t op, hg_proc_hash_t hash,
    hg_proc_t *proc_p);

/**
 * Free a standalone proc object.
 *
 * Its extra buffer is freed too, unless the application took it. With
 * HG_API_VERSION 2 the name is hg_proc_free. A proc object that was freed
 * already is not detected.
 *
 * @param proc  the proc object; NULL does nothing.
 * @retval HG_SUCCESS      the object is freed.
 * @retval HG_INVALID_ARG  it belongs to a call.
 */
HG_EXPORT hg_return_t hg_proc_free2(hg_proc_t proc);

/**
 * Start again with a standalone proc object.
 *
 * The object becomes as new, with another buffer and operation. The class, the
 * hash method and the handle stay. An extra buffer is freed, unless the
 * application took it.
 *
 * @param proc      the proc object.
 * @param buf       the buffer, borrowed until hg_proc_free2() or the next
 *                  reset; NULL if `buf_size` is 0 or with HG_FREE.
 * @param buf_size  bytes of the buffer.
 * @param op        HG_ENCODE, HG_DECODE or HG_FREE.
 * @retval HG_SUCCESS      the object is reset.
 * @retval HG_INVALID_ARG  an argument is NULL, `op` is no operation, or the
 *                         object belongs to a call.
 */
HG_EXPORT hg_return_t hg_proc_reset(
    hg_proc_t proc, void *buf, hg_size_t buf_size, hg_proc_op_t op);

/**
 * Get the class of a proc object.
 *
 * @param proc  the proc object.
 * @return the class of a standalone proc object, or of a call of the callback
 *         model; else NULL.
 */
HG_EXPORT hg_class_t *hg_proc_get_class(hg_proc_t proc);

/**
 * Get the handle of a proc object.
 *
 * @param proc  the proc object.
 * @return the handle that was set, or that of a call of the callback model;
 *         else HG_HANDLE_NULL.
 */
HG_EXPORT hg_handle_t hg_proc_get_handle(hg_proc_t proc);

/**
 * Set the handle of a standalone proc object.
 *
 * @param proc    the proc object; one of a call is not changed (logged).
 * @param handle  the handle, borrowed.
 */
HG_EXPORT void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle);

/**
 * Get the flags of a standalone proc object.
 *
 * @param proc  the proc object.
 * @return the flags that were set; 0 after hg_proc_reset(), and for a call.
 */
HG_EXPORT uint8_t hg_proc_get_flags(hg_proc_t proc);

/**
 * Set the flags of a standalone proc object.
 *
 * @param proc   the proc object; one of a call is not changed (logged).
 * @param flags  any value: the library does not read it.
 */
HG_EXPORT void hg_proc_set_flags(hg_proc_t proc, uint8_t flags);

/* ---- The buffer ---- */

/**
 * Get the size of a proc object's buffer.
 *
 * @param proc  the proc object.
 * @return bytes, used or not; the buffer of an encoder may grow.
 */
HG_EXPORT hg_size_t hg_proc_get_size(hg_proc_t proc);

/**
 * Make the buffer of a proc object at least as large as given.
 *
 * @param proc      the proc object; later steps fail if this function fails.
 * @param buf_size  bytes, with those that are used.
 * @retval HG_SUCCESS      the buffer has the size.
 * @retval HG_OVERFLOW     it cannot grow: that of a decoder, or of
 *                         hg_proc_create().
 * @retval HG_MSGSIZE      the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `proc` is NULL.
 */
HG_EXPORT hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size);

/**
 * Make sure that a number of bytes can be encoded or decoded.
 *
 * @param proc  the proc object; later steps fail if this function fails.
 * @param size  bytes, beyond those that are used.
 * @retval HG_SUCCESS      the bytes are there.
 * @retval HG_OVERFLOW     fewer bytes are left.
 * @retval HG_MSGSIZE      the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `proc` is NULL.
 */
HG_EXPORT hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size);

/**
 * Get a pointer to the next bytes of the buffer.
 *
 * An encoder writes the bytes there, a decoder reads them. They count as
 * encoded or decoded. Call hg_proc_restore_ptr() afterwards.
 *
 * @param proc       the proc object.
 * @param data_size  bytes.
 * @return the bytes, valid until the proc object is used again; NULL if fewer
 *         are left, or the proc object frees.
 */
HG_EXPORT void *hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size);

/**
 * End the use of a pointer of hg_proc_save_ptr().
 *
 * @param proc       the proc object.
 * @param data       the pointer.
 * @param data_size  bytes.
 * @retval HG_SUCCESS      done.
 * @retval HG_INVALID_ARG  `proc` is NULL or frees.
 */
HG_EXPORT hg_return_t hg_proc_restore_ptr(
    hg_proc_t proc, void *data, hg_size_t data_size);

/**
 * Get the extra buffer of a standalone encoder.
 *
 * The extra buffer exists once the first buffer was too small. It then holds
 * everything that was encoded, from the first byte on.
 *
 * @param proc  the proc object.
 * @return the extra buffer; NULL without one.
 */
HG_EXPORT void *hg_proc_get_extra_buf(hg_proc_t proc);

/**
 * Get the size of the extra buffer of a standalone encoder.
 *
 * @param proc  the proc object.
 * @return bytes; 0 if there is no extra buffer.
 */
HG_EXPORT hg_size_t hg_proc_get_extra_size(hg_proc_t proc);

/**
 * Take the extra buffer of a standalone encoder, or give it back.
 *
 * @param proc    the proc object.
 * @param theirs  true: the application frees the buffer with free(), or with
 *                the allocator of HG_Set_allocator(); false: the proc object
 *                frees it.
 * @retval HG_SUCCESS      done.
 * @retval HG_INVALID_ARG  there is no extra buffer, or the object belongs to a
 *                         call.
 */
HG_EXPORT hg_return_t hg_proc_set_extra_buf_is_mine(
    hg_proc_t proc, uint8_t theirs);

/**
 * Copy bytes as they are, as hg_proc_raw() does.
 *
 * With HG_API_VERSION 2 it is also named hg_proc_raw and hg_proc_memcpy.
 *
 * @param proc           the proc object.
 * @param[in,out] data   the bytes; NULL is allowed if `data_size` is 0, or with
 *                       HG_FREE, which does nothing.
 * @param data_size      bytes.
 * @retval HG_SUCCESS      done.
 * @retval HG_OVERFLOW     fewer bytes are left.
 * @retval HG_MSGSIZE      the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_bytes(
    hg_proc_t proc, void *data, hg_size_t data_size);

/* ---- Hashes ---- */

/**
 * Compute the hash of the bytes that were encoded or decoded so far.
 *
 * It does nothing if the proc object has no hash or belongs to a call. After a
 * failed step it returns the code of that step.
 *
 * @param proc  the proc object.
 * @retval HG_SUCCESS      the hash is computed.
 * @retval HG_INVALID_ARG  `proc` is NULL.
 */
HG_EXPORT hg_return_t hg_proc_flush(hg_proc_t proc);

/**
 * Copy the hash of the last hg_proc_flush().
 *
 * @param proc       a standalone proc object.
 * @param[out] hash  the hash, little-endian.
 * @param hash_size  bytes of `hash`: at least 2, 4 or 8, by the hash.
 * @retval HG_SUCCESS      the hash is copied.
 * @retval HG_INVALID_ARG  the proc object has no hash, `hash` is NULL or too
 *                         small, or the object belongs to a call.
 */
HG_EXPORT hg_return_t hg_proc_checksum_get(
    hg_proc_t proc, void *hash, hg_size_t hash_size);

/**
 * Compare the hash of the last hg_proc_flush() with another.
 *
 * @param proc       a standalone proc object.
 * @param hash       the other hash, little-endian.
 * @param hash_size  bytes of `hash`: at least 2, 4 or 8, by the hash.
 * @retval HG_SUCCESS         the hashes are equal.
 * @retval HG_CHECKSUM_ERROR  they differ.
 * @retval HG_INVALID_ARG     as hg_proc_checksum_get() returns it.
 */
HG_EXPORT hg_return_t hg_proc_checksum_verify(
    hg_proc_t proc, const void *hash, hg_size_t hash_size);

/**
 * Do nothing: the hash covers all bytes of the buffer.
 *
 * Programs that write through hg_proc_save_ptr() call it in Mercury.
 *
 * @param proc       ignored.
 * @param data       ignored.
 * @param data_size  ignored.
 */
HG_EXPORT void hg_proc_checksum_update(
    hg_proc_t proc, void *data, hg_size_t data_size);

/* ---- String objects ---- */

/** A string with a flag that says whether to free it. */
typedef struct hg_string_object {
    char *data;    /**< the string, or NULL */
    bool is_const; /**< made by hg_string_object_init_const_char() */
    bool is_owned; /**< hg_string_object_free() frees `data` with free() */
} hg_string_object_t;

/**
 * Make a string object with a NULL string.
 *
 * @param[out] string  the object.
 * @retval HG_SUCCESS      the object is set.
 * @retval HG_INVALID_ARG  `string` is NULL.
 */
HG_EXPORT hg_return_t hg_string_object_init(hg_string_object_t *string);

/**
 * Make a string object of a string.
 *
 * @param[out] string  the object.
 * @param s            the string; borrowed, or taken if `is_owned` is true.
 * @param is_owned     true: hg_string_object_free() frees the string.
 * @retval HG_SUCCESS      the object is set.
 * @retval HG_INVALID_ARG  `string` is NULL.
 */
HG_EXPORT hg_return_t hg_string_object_init_char(
    hg_string_object_t *string, char *s, uint8_t is_owned);

/** Make a string object of a const string.
 * @copydetails hg_string_object_init_char */
HG_EXPORT hg_return_t hg_string_object_init_const_char(
    hg_string_object_t *string, const char *s, uint8_t is_owned);

/**
 * Free the string of a string object, if the object owns it.
 *
 * @param[in,out] string  the object; `data` becomes NULL if it was freed.
 * @retval HG_SUCCESS      done.
 * @retval HG_INVALID_ARG  `string` is NULL.
 */
HG_EXPORT hg_return_t hg_string_object_free(hg_string_object_t *string);

/**
 * Copy a string object.
 *
 * @param string           the object.
 * @param[out] new_string  the copy; it owns its string, which is NULL if that
 *                         of `string` is NULL.
 * @retval HG_SUCCESS      the object is copied.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `new_string` is NULL.
 */
HG_EXPORT hg_return_t hg_string_object_dup(
    hg_string_object_t string, hg_string_object_t *new_string);

/**
 * Replace the string of a string object.
 *
 * @param[in,out] string  the object.
 * @param s               the new string, borrowed.
 * @return the old string, which the caller frees if the object owned it; NULL
 *         if `string` is NULL.
 */
HG_EXPORT char *hg_string_object_swap(hg_string_object_t *string, char *s);

/**
 * Encode, decode or free a string object.
 *
 * On the wire it equals an hg_string_t. A decoded object owns its string.
 *
 * @param proc            the proc object.
 * @param[in,out] string  points to an hg_string_object_t.
 * @retval HG_SUCCESS         done.
 * @retval HG_OVERFLOW        fewer bytes are left than the string has.
 * @retval HG_PROTOCOL_ERROR  the bytes that arrived are not a string.
 * @retval HG_MSGSIZE         the arguments of the call exceed max_args_size.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string);

/** @} */
