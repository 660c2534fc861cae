/* SPDX-License-Identifier: BSD-3-Clause */
/* ---- Bulk data of the callback model ----------------------------------- */
/**
 * @defgroup hg_callback_bulk Bulk data of the callback model
 * @ingroup hg_callback
 *
 * A bulk handle describes memory that peers can read or write, in one or more
 * segments. Offsets are into all segments in a row. The client sends the handle
 * as an argument of a call. The server pulls the data with HG_Bulk_transfer2(),
 * or pushes it. See hg-bulk(7).
 *
 * A handle belongs to a class and counts references. Functions of both models
 * that take a bulk handle accept it.
 *
 * @source Mercury 2.4; Mercury design report, "Mercury bulk API"
 * @{
 */

/** The kinds of memory of the network layer. */
enum na_mem_type {
    NA_MEM_TYPE_HOST = 0,                 /**< of the host */
    NA_MEM_TYPE_CUDA = 1,                 /**< not supported */
    NA_MEM_TYPE_ROCM = 2,                 /**< not supported */
    NA_MEM_TYPE_ZE = 3,                   /**< not supported */
    NA_MEM_TYPE_MAX = 4,                  /**< the number of kinds */
    NA_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_MAX /**< not supported */
};

/** The kinds of memory. Only that of the host can be moved. */
typedef enum hg_mem_type {
    HG_MEM_TYPE_HOST = NA_MEM_TYPE_HOST,      /**< of the host */
    HG_MEM_TYPE_CUDA = NA_MEM_TYPE_CUDA,      /**< not supported */
    HG_MEM_TYPE_ROCM = NA_MEM_TYPE_ROCM,      /**< not supported */
    HG_MEM_TYPE_ZE = NA_MEM_TYPE_ZE,          /**< not supported */
    HG_MEM_TYPE_MAX = NA_MEM_TYPE_MAX,        /**< the number of kinds */
    HG_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_UNKNOWN /**< not supported */
} hg_mem_type_t;

/** Properties of memory, for HG_Bulk_create_attr(). */
struct hg_bulk_attr {
    hg_mem_type_t mem_type; /**< HG_MEM_TYPE_HOST */
    uint64_t device;        /**< ignored */
};

/* ---- Bulk handles ---- */

/**
 * Create a bulk handle of memory of this process.
 *
 * @param hg_class     the class.
 * @param count        the number of segments.
 * @param buf_ptrs     the segments. The array is copied, the memory is borrowed
 *                     until the handle is freed. If the array or an entry is
 *                     NULL, the library allocates the memory, zeroed, and frees
 *                     it with the handle.
 * @param buf_sizes    bytes of each segment, copied; 0 is allowed.
 * @param flags        HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or
 *                     HG_BULK_READWRITE.
 * @param[out] handle  the handle with one reference, for HG_Bulk_free().
 * @retval HG_SUCCESS       the handle is created.
 * @retval HG_INVALID_ARG   `count` is 0, the flags are unknown, or an argument
 *                          is NULL.
 * @retval HG_NOMEM         out of memory.
 * @retval HG_OPNOTSUPPORT  the transport is one of the application's and takes
 *                          fewer segments (max_segments).
 * @retval HG_FAULT         the class belongs to the parent process.
 * @lifetime Until HG_Bulk_free() has dropped the last reference. Until then the
 * memory stays valid and is not moved.
 */
HG_EXPORT hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    hg_bulk_t *handle);

/**
 * Create a bulk handle of memory with properties.
 *
 * @param hg_class     as for HG_Bulk_create().
 * @param count        as for HG_Bulk_create().
 * @param buf_ptrs     as for HG_Bulk_create().
 * @param buf_sizes    as for HG_Bulk_create().
 * @param flags        as for HG_Bulk_create().
 * @param attrs        the properties of the memory.
 * @param[out] handle  the handle with one reference, for HG_Bulk_free().
 * @retval HG_SUCCESS       the handle is created.
 * @retval HG_OPNOTSUPPORT  the memory is not that of the host; or as
 *                          HG_Bulk_create() returns it.
 * @retval HG_INVALID_ARG   `attrs` is NULL; or as HG_Bulk_create() returns it.
 * @retval HG_NOMEM         out of memory.
 */
HG_EXPORT hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    const struct hg_bulk_attr *attrs, hg_bulk_t *handle);

/**
 * Drop a reference to a bulk handle.
 *
 * The last reference of the application withdraws the memory, as
 * HG_Bulk_handle_free() does: nothing reads or writes it afterwards. Transfers
 * that have the handle as local handle end with HG_CANCELED.
 *
 * A decoded handle has one reference, which HG_Free_input() drops.
 *
 * @param handle  the handle; HG_BULK_NULL does nothing.
 * @retval HG_SUCCESS      the reference is dropped.
 * @retval HG_INVALID_ARG  no reference is left; this is not always detected.
 * @retval HG_FAULT        the handle belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_free(hg_bulk_t handle);

/**
 * Add a reference to a bulk handle.
 *
 * @param handle  the handle.
 * @retval HG_SUCCESS      the reference is added.
 * @retval HG_INVALID_ARG  the handle is NULL.
 * @retval HG_FAULT        the handle belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle);

/**
 * Put the address of the class into a bulk handle.
 *
 * HG_Bulk_bind_transfer() then needs no address, also in a process that got the
 * handle from another one. HG_Bulk_pull(), HG_Bulk_push() and pipelines of that
 * process move the memory, too.
 *
 * The class need not listen, except over ZeroMQ and mpi+dynamic: see
 * HG_Bulk_handle_bind().
 *
 * @param handle   the handle, of memory of this process.
 * @param context  the context whose id goes into the handle.
 * @retval HG_SUCCESS      the handle is bound.
 * @retval HG_INVALID_ARG  the handle is bound already, is of a peer's memory,
 *                         is of another class than the context, or an argument
 *                         is NULL.
 * @retval HG_AGAIN        as HG_Bulk_handle_bind() returns it.
 * @retval HG_ADDRINUSE    as HG_Bulk_handle_bind() returns it.
 * @retval HG_FAULT        the handle belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context);

/**
 * Get the address that HG_Bulk_bind() put into a bulk handle.
 *
 * The address of a handle that was passed on is resolved now, as
 * HG_Addr_lookup2() does, but without a name server.
 *
 * @param handle  the handle, bound in this or another process.
 * @return the address, borrowed from the handle; HG_ADDR_NULL if the handle is
 *         not bound, the address is of another transport or cannot be resolved,
 *         or out of memory.
 */
HG_EXPORT hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle);

/**
 * Get the context id that HG_Bulk_bind() put into a bulk handle.
 *
 * @param handle  the handle, bound in this or another process.
 * @return the id; 0 if the handle is not bound.
 */
HG_EXPORT uint8_t HG_Bulk_get_context_id(hg_bulk_t handle);

/**
 * Get the segments of a part of a bulk handle, without a copy.
 *
 * @param handle             the handle, of memory of this process.
 * @param offset             the first byte.
 * @param size               bytes; 0 does nothing.
 * @param flags              ignored.
 * @param max_count          entries of the arrays; 0 does nothing.
 * @param[out] buf_ptrs      the segments, valid as long as the handle; NULL is
 *                           allowed.
 * @param[out] buf_sizes     bytes of each; NULL is allowed.
 * @param[out] actual_count  the number of segments; NULL is allowed.
 * @retval HG_SUCCESS       done.
 * @retval HG_OVERFLOW      the part is past the end of the handle.
 * @retval HG_OPNOTSUPPORT  the memory is a peer's.
 * @retval HG_NOENTRY       the handle was decoded from one of this process,
 *                          which was freed.
 * @retval HG_INVALID_ARG   the handle is NULL.
 */
HG_EXPORT hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset,
    hg_size_t size, uint8_t flags, uint32_t max_count, void **buf_ptrs,
    hg_size_t *buf_sizes, uint32_t *actual_count);

/**
 * Get the size of a bulk handle's memory.
 *
 * @param handle  the handle.
 * @return bytes of all segments; 0 for HG_BULK_NULL.
 */
HG_EXPORT hg_size_t HG_Bulk_get_size(hg_bulk_t handle);

/**
 * Get the number of segments of a bulk handle.
 *
 * @param handle  the handle.
 * @return the number; 0 for HG_BULK_NULL.
 */
HG_EXPORT uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle);

/**
 * Get the flags of a bulk handle.
 *
 * @param handle  the handle.
 * @return HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or HG_BULK_READWRITE; 0 for
 *         HG_BULK_NULL.
 */
HG_EXPORT uint8_t HG_Bulk_get_flags(hg_bulk_t handle);

/* ---- Serializing ---- */

/**
 * Get the size of a serialized bulk handle.
 *
 * @param handle  the handle.
 * @param flags   ignored.
 * @return bytes; 0 if the handle is NULL or cannot be used.
 */
HG_EXPORT hg_size_t HG_Bulk_get_serialize_size(
    hg_bulk_t handle, unsigned long flags);

/**
 * Write a bulk handle as bytes.
 *
 * A handle that came from a peer can be serialized, too.
 *
 * @param[out] buf   the bytes.
 * @param buf_size   bytes of `buf`, at least HG_Bulk_get_serialize_size().
 * @param flags      ignored.
 * @param handle     the handle.
 * @retval HG_SUCCESS      the handle is written.
 * @retval HG_OVERFLOW     `buf` is too small.
 * @retval HG_NOENTRY      the handle was decoded from one of this process,
 *                         which was freed.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_FAULT        the handle belongs to the parent process.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Bulk_serialize(
    void *buf, hg_size_t buf_size, unsigned long flags, hg_bulk_t handle);

/**
 * Make a bulk handle of bytes of HG_Bulk_serialize().
 *
 * The memory may be of this process, and may have been freed since: then
 * transfers with the handle fail with HG_NOENTRY.
 *
 * @param hg_class     the class.
 * @param[out] handle  the handle, for HG_Bulk_free().
 * @param buf          the bytes.
 * @param buf_size     their number; more bytes after the handle are ignored.
 * @retval HG_SUCCESS         `handle` is set.
 * @retval HG_PROTOCOL_ERROR  the bytes are not a whole bulk handle.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_FAULT           the class belongs to the parent process.
 * @retval HG_INVALID_ARG     an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class,
    hg_bulk_t *handle, const void *buf, hg_size_t buf_size);

/* ---- Transfers ---- */

/**
 * Start to move data between a peer's memory and memory of this process.
 *
 * The owner is the process that created `origin_handle`. Mercury, after which
 * the parameters are named, calls it the origin. If the owner is this process,
 * the data is copied. A transfer holds references to both handles
 * and to the address. With HG_API_VERSION 2 the name is HG_Bulk_transfer.
 *
 * The callback gets the result:
 *
 * - HG_SUCCESS: the data is moved.
 * - HG_NOENTRY: the owner has freed its handle, or `origin_addr` is that of
 *   another process.
 * - HG_CANCELED: the transfer was canceled, or the local handle was freed.
 * - HG_DISCONNECT: the peer was reached and is gone.
 * - HG_HOSTUNREACH: the peer cannot be reached.
 * - HG_AGAIN: the peer serves too many transfers.
 * - HG_PERMISSION, HG_NOMEM: the peer refuses, or has no memory.
 * - HG_NODEV: the address in the handle is of another transport, or needs a
 *   name server.
 * - HG_FAULT: memory of one side cannot be accessed, see hg-bulk(7).
 * - HG_CHECKSUM_ERROR: the data changed on the way (bulk_checksum).
 *
 * @param context        the context.
 * @param callback       called with HG_CB_BULK; NULL is allowed.
 * @param arg            passed to the callback.
 * @param op             HG_BULK_PULL: from the owner; HG_BULK_PUSH: to it.
 * @param origin_addr    the address of the owner; this process may have got the
 *                       handle from another one.
 * @param origin_handle  the handle of the owner's memory.
 * @param origin_offset  the first byte in the owner's memory.
 * @param local_handle   the handle of memory of this process.
 * @param local_offset   the first byte in the local memory.
 * @param size           bytes; 0 is allowed.
 * @param[out] op_id     for HG_Bulk_cancel(), written before the callback can
 *                       run; HG_OP_ID_NULL after a failure; NULL is allowed.
 * @retval HG_SUCCESS      the transfer is started.
 * @retval HG_PERMISSION   the flags of a handle forbid the direction.
 * @retval HG_NOENTRY      a handle was decoded from one of this process, which
 *                         was freed.
 * @retval HG_HOSTUNREACH  the handle was passed on, and over ZeroMQ or
 *                         mpi+dynamic its owner does not listen.
 * @retval HG_INVALID_ARG  past the end of a handle; objects of different
 *                         classes; the local memory is a peer's; the
 *                         owner's handle is bound: HG_Bulk_bind_transfer()
 *                         takes it; the address is that of this class, and the
 *                         owner's memory is a peer's; or an argument is NULL.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_FAULT        the bulk layer of a handle has ended, or the context
 *                         belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_transfer2(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id);

/**
 * Start to move data of a bound handle, without an address.
 *
 * The results that the callback gets are those of HG_Bulk_transfer2().
 *
 * @param context        as for HG_Bulk_transfer2().
 * @param callback       as for HG_Bulk_transfer2().
 * @param arg            as for HG_Bulk_transfer2().
 * @param op             as for HG_Bulk_transfer2().
 * @param origin_handle  the handle of the owner's memory, of HG_Bulk_bind().
 * @param origin_offset  as for HG_Bulk_transfer2().
 * @param local_handle   as for HG_Bulk_transfer2().
 * @param local_offset   as for HG_Bulk_transfer2().
 * @param size           as for HG_Bulk_transfer2().
 * @param[out] op_id     as for HG_Bulk_transfer2().
 * @retval HG_SUCCESS      the transfer is started.
 * @retval HG_INVALID_ARG  the owner's handle is not bound; or as
 *                         HG_Bulk_transfer2() returns it.
 * @retval others          as HG_Bulk_transfer2() returns them.
 */
HG_EXPORT hg_return_t HG_Bulk_bind_transfer(hg_context_t *context,
    hg_cb_t callback, void *arg, hg_bulk_op_t op, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id);

/**
 * Start to move data, with a context id that has no effect.
 *
 * Any context of the owner that makes progress serves the transfer. Otherwise
 * it is HG_Bulk_transfer2().
 *
 * @param context        as for HG_Bulk_transfer2().
 * @param callback       as for HG_Bulk_transfer2().
 * @param arg            as for HG_Bulk_transfer2().
 * @param op             as for HG_Bulk_transfer2().
 * @param origin_addr    as for HG_Bulk_transfer2().
 * @param origin_id      ignored.
 * @param origin_handle  as for HG_Bulk_transfer2().
 * @param origin_offset  as for HG_Bulk_transfer2().
 * @param local_handle   as for HG_Bulk_transfer2().
 * @param local_offset   as for HG_Bulk_transfer2().
 * @param size           as for HG_Bulk_transfer2().
 * @param[out] op_id     as for HG_Bulk_transfer2().
 * @retval HG_SUCCESS  the transfer is started.
 * @retval others      as HG_Bulk_transfer2() returns them.
 */
HG_EXPORT hg_return_t HG_Bulk_transfer_id(hg_context_t *context,
    hg_cb_t callback, void *arg, hg_bulk_op_t op, hg_addr_t origin_addr,
    uint8_t origin_id, hg_bulk_t origin_handle, hg_size_t origin_offset,
    hg_bulk_t local_handle, hg_size_t local_offset, hg_size_t size,
    hg_op_id_t *op_id);

/**
 * Cancel a transfer.
 *
 * The callback runs once, with HG_CANCELED, or with the result if the transfer
 * completed first. Afterwards nothing reads or writes the local memory.
 *
 * @param op_id  the id that the function which started the transfer has set.
 * @retval HG_SUCCESS      the transfer is canceled, or has ended.
 * @retval HG_INVALID_ARG  it is HG_OP_ID_NULL.
 * @retval HG_FAULT        the transfer belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_cancel(hg_op_id_t op_id);

/** @} */
