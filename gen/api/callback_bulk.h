/* SPDX-License-Identifier: BSD-3-Clause */
/* ---- Bulk data ----
 *
 * Handles as HG_Bulk_handle_create makes them, of a class, with references
 * counted; they may be passed to the functions of both models that take one.
 */

enum na_mem_type {
    NA_MEM_TYPE_HOST = 0,
    NA_MEM_TYPE_CUDA = 1,
    NA_MEM_TYPE_ROCM = 2,
    NA_MEM_TYPE_ZE = 3,
    NA_MEM_TYPE_MAX = 4,
    NA_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_MAX
};

/* Where memory is. Nobody here moves other memory than the host's. */
typedef enum hg_mem_type {
    HG_MEM_TYPE_HOST = NA_MEM_TYPE_HOST,
    HG_MEM_TYPE_CUDA = NA_MEM_TYPE_CUDA,
    HG_MEM_TYPE_ROCM = NA_MEM_TYPE_ROCM,
    HG_MEM_TYPE_ZE = NA_MEM_TYPE_ZE,
    HG_MEM_TYPE_MAX = NA_MEM_TYPE_MAX,
    HG_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_UNKNOWN
} hg_mem_type_t;

struct hg_bulk_attr {
    hg_mem_type_t mem_type;
    uint64_t device;
};

/* Describe `count` segments, some of which, or all, may have size 0. The arrays
 * are copied, the memory is borrowed until the handle is freed. With buf_ptrs
 * NULL the library allocates it, zeroed, and frees it with the handle.
 * HG_INVALID_ARG: no segments, no sizes, flags that are not one of
 * HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY and HG_BULK_READWRITE.
 * HG_OPNOTSUPPORT: memory that is not the host's; or the transport is one of
 * the application's that takes fewer segments (max_segments). */
HG_EXPORT hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    hg_bulk_t *handle);
HG_EXPORT hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    const struct hg_bulk_attr *attrs, hg_bulk_t *handle);

/* Drop a reference. The last one of the application's withdraws the memory, as
 * HG_Bulk_handle_free does: nothing touches it any more, and transfers that it
 * is the local side of end with HG_CANCELED. A handle that was decoded has one
 * reference, which HG_Free_input drops. HG_INVALID_ARG: there is no reference
 * left; this is not always noticed. HG_Bulk_ref_incr adds a reference. */
HG_EXPORT hg_return_t HG_Bulk_free(hg_bulk_t handle);
HG_EXPORT hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle);

/* Put the address of the class, and the id of the context, into a local handle,
 * so that HG_Bulk_bind_transfer needs no address, also in a process to which
 * the handle was passed on. The address of a class that does not listen serves
 * only the peer that got the handle from it, as long as that peer keeps it.
 * HG_INVALID_ARG: the handle is bound, is of a peer's memory, or is of another
 * class than the context. */
HG_EXPORT hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context);

/* The address and the context that HG_Bulk_bind put into a handle, here or in
 * the process that it came from. The address is borrowed from the handle. The
 * address of a handle that was passed on is resolved now, as HG_Addr_lookup2
 * does, but no name server is asked. HG_ADDR_NULL and 0: the handle is not
 * bound, or the address is of another transport. */
HG_EXPORT hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle);
HG_EXPORT uint8_t HG_Bulk_get_context_id(hg_bulk_t handle);

/* The segments behind [offset, offset + size), without a copy, at most
 * max_count; buf_ptrs, buf_sizes and actual_count may be NULL. A size or
 * max_count of 0 is HG_SUCCESS and sets nothing. `flags` is ignored.
 * HG_OPNOTSUPPORT: remote memory; HG_OVERFLOW: past the end. */
HG_EXPORT hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset,
    hg_size_t size, uint8_t flags, uint32_t max_count, void **buf_ptrs,
    hg_size_t *buf_sizes, uint32_t *actual_count);

/* 0 for HG_BULK_NULL. */
HG_EXPORT hg_size_t HG_Bulk_get_size(hg_bulk_t handle);
HG_EXPORT uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle);
HG_EXPORT uint8_t HG_Bulk_get_flags(hg_bulk_t handle);

/* A handle as bytes, and back. `flags` is ignored. HG_OVERFLOW: buf_size is too
 * small; HG_PROTOCOL_ERROR: not a serialized handle, or not all of one. Bytes
 * behind a handle are ignored. A handle that came from a peer may be serialized
 * or sent again. */
HG_EXPORT hg_size_t HG_Bulk_get_serialize_size(
    hg_bulk_t handle, unsigned long flags);
HG_EXPORT hg_return_t HG_Bulk_serialize(
    void *buf, hg_size_t buf_size, unsigned long flags, hg_bulk_t handle);
HG_EXPORT hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class,
    hg_bulk_t *handle, const void *buf, hg_size_t buf_size);

/* Start moving `size` bytes, 0 allowed, between the origin's memory and local
 * memory; offsets are logical. The callback's `size` is that of the transfer,
 * its `ret` what became of it. *op_id (NULL allowed) is written before it can
 * run. A transfer holds references to both handles and to the address.
 * `origin_addr` is the address of the process that created the origin handle;
 * this process may have got the handle from another one. With the address of
 * another process `ret` is HG_NOENTRY, with the own address for a peer's memory
 * the function returns HG_INVALID_ARG.
 * HG_INVALID_ARG: past the end of a handle, objects of different classes, or a
 * local handle of a peer's memory. An origin handle with an address of its own
 * must be passed to HG_Bulk_bind_transfer, and any other must not: else
 * HG_INVALID_ARG. HG_PERMISSION: flags forbid the direction; HG_NOENTRY: a
 * handle of this process, which this one was decoded from, was freed;
 * HG_HOSTUNREACH: the handle was passed on and its owner does not listen.
 * HG_NODEV in `ret`: the address that the handle
 * names is of another transport, or needs a name server. */
HG_EXPORT hg_return_t HG_Bulk_transfer2(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id);
HG_EXPORT hg_return_t HG_Bulk_bind_transfer(hg_context_t *context,
    hg_cb_t callback, void *arg, hg_bulk_op_t op, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id);

/* The same with the context of the origin that serves it. */
HG_EXPORT hg_return_t HG_Bulk_transfer_id(hg_context_t *context,
    hg_cb_t callback, void *arg, hg_bulk_op_t op, hg_addr_t origin_addr,
    uint8_t origin_id, hg_bulk_t origin_handle, hg_size_t origin_offset,
    hg_bulk_t local_handle, hg_size_t local_offset, hg_size_t size,
    hg_op_id_t *op_id);

/* Ask that a transfer end: its callback comes, once, with HG_CANCELED or with
 * the result that won; nothing touches the local memory after it. HG_SUCCESS
 * also when it has ended. HG_INVALID_ARG: HG_OP_ID_NULL. */
HG_EXPORT hg_return_t HG_Bulk_cancel(hg_op_id_t op_id);
