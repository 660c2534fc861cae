/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Bulk data ========================================================= */
/*
 * A bulk handle describes memory, contiguous or not, by which a peer moves
 * it: the client creates one and sends it as an argument, the server pulls
 * (reads) or pushes (writes) it. Offsets are logical: into the concatenation
 * of the segments. Mercury design report, "Mercury bulk API".
 */

typedef enum hg_bulk_op {
    HG_BULK_PUSH, /* local to origin */
    HG_BULK_PULL  /* origin to local */
} hg_bulk_op_t;

typedef struct hg_bulk_segment {
    void *address;
    size_t size;
} hg_bulk_segment_t;

/* How transfers may use the memory, those of this process too. */
#define HG_BULK_READ_ONLY NA_MEM_READ_ONLY   /* only the source */
#define HG_BULK_WRITE_ONLY NA_MEM_WRITE_ONLY /* only the destination */
#define HG_BULK_READWRITE NA_MEM_READWRITE

/* Prepare bulk transfers on a class of their own, before HG_Init; otherwise
 * HG_Init does it with its class. The class may be of another transport, the
 * same one at both sides: then calls go over one network and bulk data over
 * another.
 *
 * A bulk handle carries its owner's address on the bulk class, and the peer
 * connects to that. So the owner's bulk class listens. It need not over
 * libfabric and mpi+static. It need not over sm:// either, if it looked up the
 * peer's bulk class (NA_Addr_lookup_wait): the peer then uses that connection.
 *
 * HG_EXIST: done already; HG_INVALID_ARG: NULL. After HG_Bulk_init call
 * HG_Bulk_finalize, after HG_Finalize.
 * HG_FAULT: not initialised; HG_BUSY: before HG_Finalize, or a thread is making
 * or freeing a handle. Handles left are freed by HG_Bulk_handle_free, also
 * later; nothing else can be done with them then but to look at their memory
 * and sizes. */
HG_EXPORT hg_return_t HG_Bulk_init(na_class_t *na_class);
HG_EXPORT hg_return_t HG_Bulk_finalize(void);

/* Describe `count` segments (arrays copied, memory borrowed until the handle
 * is freed). With buf_ptrs NULL, or an entry of it NULL with a size, the
 * library allocates that memory, zeroed, and frees it with the handle. Over
 * sm:// it is memory that peers can map (README, "Security"), which a child of
 * fork shares with its parent; of blocks below 1 MiB what was freed stays with
 * the class, for later ones.
 * HG_INVALID_ARG: no segments, unknown flags, a NULL; HG_FAULT: the bulk layer
 * is not initialised; HG_OPNOTSUPPORT: the bulk class differs from the RPC
 * class and does not listen, and peers cannot reach it (HG_Bulk_init); or it is
 * of a transport of the application's that takes fewer segments. */
HG_EXPORT hg_return_t HG_Bulk_handle_create(size_t count, void **buf_ptrs,
    const size_t *buf_sizes, unsigned long flags, hg_bulk_t *handle);

/* Free a handle. HG_BULK_NULL is HG_INVALID_ARG. Not detected are: a handle
 * freed twice, used after that, or freed while another thread uses it.
 *
 * Nothing touches the memory once this returned. Transfers that it is the local
 * side of end with HG_CANCELED, unless they have ended: so one is given up
 * whose peer lives and makes no progress, and HG_Bulk_wait does not take long
 * then. Peers' transfers end with HG_NOENTRY there. A copy through a handle
 * that was decoded from this one, in a call to oneself or by
 * HG_Bulk_handle_deserialize, is waited for, and what begins later is
 * HG_NOENTRY.
 *
 * Waits until the network has released the memory, at most until the peer is
 * dead (death_ms). Over sm:// there is no such limit for a peer that was given
 * the memory and copies it: see NA_Mem_deregister. */
HG_EXPORT hg_return_t HG_Bulk_handle_free(hg_bulk_t handle);

/* The segments behind [offset, offset + size), without a copy; at most
 * max_count of them, the number in *actual_count. Pointers are valid as long
 * as the handle. HG_OPNOTSUPPORT: remote memory; HG_PERMISSION: `flags` asks
 * more than the handle allows; HG_OVERFLOW: out of range. */
HG_EXPORT hg_return_t HG_Bulk_handle_access(hg_bulk_t handle, size_t offset,
    size_t size, unsigned long flags, unsigned int max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned int *actual_count);

/* 0 for HG_BULK_NULL. */
HG_EXPORT size_t HG_Bulk_handle_get_size(hg_bulk_t handle);
HG_EXPORT size_t HG_Bulk_handle_get_segment_count(hg_bulk_t handle);

/* A handle as bytes, and back. A handle that came from a peer may be serialized
 * or sent again. HG_MSGSIZE: buf_size is too small; HG_PROTOCOL_ERROR: not a
 * serialized handle; HG_FAULT: the bulk layer is not initialised, or that of
 * the handle has ended; HG_INVALID_ARG: a NULL. */
HG_EXPORT size_t HG_Bulk_handle_get_serialize_size(hg_bulk_t handle);
HG_EXPORT hg_return_t HG_Bulk_handle_serialize(
    void *buf, size_t buf_size, hg_bulk_t handle);
HG_EXPORT hg_return_t HG_Bulk_handle_deserialize(
    hg_bulk_t *handle, const void *buf, size_t buf_size);

/* Start moving `size` bytes between the origin's memory and local memory.
 *
 * origin_addr is the address, on the RPC class, of the process that created the
 * origin handle: that of the caller, as HG_Handler_get_addr gives it, or
 * another one if the caller passed the handle on. With the address of another
 * process the transfer ends with HG_NOENTRY. With the own address the data is
 * copied, or, if the memory is a peer's, the result is HG_INVALID_ARG.
 *
 * HG_Bulk_wait frees the request; on failure it is HG_BULK_REQUEST_NULL.
 * HG_OVERFLOW: past the end of a handle; HG_PERMISSION: its flags forbid the
 * direction; HG_NOENTRY: the local memory was withdrawn, by freeing the handle
 * that this one was decoded from; HG_DISCONNECT: the origin is dead.
 *
 * Data that needs no action of the peer is moved in this thread before the
 * function returns: data of this process and, over sm://, up to some 100 KiB.
 * A transfer ends when its peer makes progress or dies. To end it earlier, free
 * the local handle.
 *
 * The option `bulk_checksum` (struct hg_options, struct hg_init_info) is for
 * transports that move bulk data in messages: ZeroMQ, MPI, and others with
 * force_rma_emulation. Each message of a transfer that this side starts then
 * carries a CRC64 of its data. If one does not match, the transfer ends with
 * HG_CHECKSUM_ERROR and counts as bulk_damaged. Where the transport moves the
 * bytes itself (sm://, libfabric, self://) the option is refused with
 * HG_OPNOTSUPPORT. Data of this process does not travel, and has no CRC64. */
HG_EXPORT hg_return_t HG_Bulk_transfer1(hg_bulk_op_t op, na_addr_t origin_addr,
    hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
    size_t local_offset, size_t size, hg_bulk_request_t *request);

/* Wait for a transfer: its result, with *status HG_TRUE, and the request is
 * freed. Results but HG_SUCCESS: HG_NOENTRY, the origin freed its handle;
 * HG_CANCELED, the local one was freed; HG_DISCONNECT; HG_HOSTUNREACH, also
 * where the origin's bulk class does not listen and is not connected; HG_NODEV,
 * this bulk class cannot read the address that the handle carries; HG_AGAIN
 * (the origin has too many transfers), HG_PERMISSION, HG_NOMEM; and
 * HG_CHECKSUM_ERROR, with the option bulk_checksum. With *status HG_FALSE the
 * transfer is not over, and can be waited for again: HG_TIMEOUT (0 ms tests);
 * HG_INTR: a signal came (see HG_Wait); HG_BUSY (logged): another thread waits
 * for it, or where HG_Wait is HG_BUSY, before the transfer is over.
 * HG_INVALID_ARG: NULL, or freed by an earlier wait or by HG_Finalize. Runs no
 * handler. */
HG_EXPORT hg_return_t HG_Bulk_wait(
    hg_bulk_request_t request, unsigned int timeout, hg_status_t *status);

/* The names of the Mercury paper (2013), Section IV-A: segments as an array of
 * structs, a contiguous local block, reading and writing with it. */
HG_EXPORT hg_return_t HG_Bulk_handle_create_segments(
    const hg_bulk_segment_t *segments, size_t count, unsigned long flags,
    hg_bulk_t *handle);
HG_EXPORT hg_return_t HG_Bulk_block_handle_create(
    void *buf, size_t size, unsigned long flags, hg_bulk_block_t *block_handle);
HG_EXPORT hg_return_t HG_Bulk_block_handle_free(hg_bulk_block_t block_handle);
HG_EXPORT size_t HG_Bulk_block_handle_get_size(hg_bulk_block_t block_handle);
HG_EXPORT hg_return_t HG_Bulk_read(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request);
HG_EXPORT hg_return_t HG_Bulk_write(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request);
