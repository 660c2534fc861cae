/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Bulk data ========================================================= */
/**
 * @defgroup hg_bulk_data Bulk data
 *
 * A bulk handle describes memory of a process, contiguous or not, so that a
 * peer can read or write it. The client creates a handle and sends it as an
 * argument. The server pulls (reads) or pushes (writes) the data. The client
 * keeps the memory, and frees the handle, after the call has ended.
 *
 * Offsets are logical: they count bytes of the concatenated segments.
 *
 * These are the functions of the request model. HG_Bulk_pull(), HG_Bulk_push()
 * and pipelines are simpler, and serve both models. See hg-bulk(7).
 *
 * Not detected are: a handle that is freed twice, used after that, or freed
 * while another thread uses it.
 * @{
 */

/** The direction of a transfer, as the caller of HG_Bulk_transfer() sees it. */
typedef enum hg_bulk_op {
    HG_BULK_PUSH, /**< from local memory to the owner's memory */
    HG_BULK_PULL  /**< from the owner's memory to local memory */
} hg_bulk_op_t;

/** A contiguous piece of memory. */
typedef struct hg_bulk_segment {
    void *address; /**< its first byte */
    size_t size;   /**< its bytes */
} hg_bulk_segment_t;

/* How transfers may use the memory, those of this process too. */
#define HG_BULK_READ_ONLY NA_MEM_READ_ONLY   /**< only as the source */
#define HG_BULK_WRITE_ONLY NA_MEM_WRITE_ONLY /**< only as the destination */
#define HG_BULK_READWRITE NA_MEM_READWRITE   /**< both */

/**
 * Start the bulk layer on a class of its own, before HG_Init().
 *
 * Without it HG_Init() starts the bulk layer on its own class. The bulk class
 * may be of another transport, the same at both sides: calls then use one
 * network and bulk data another.
 *
 * A bulk handle carries the address of its owner's bulk class, and the peer
 * connects to it. So over ZeroMQ and mpi+dynamic the owner's bulk class must
 * listen; over sm, libfabric and mpi+static it need not. Over sm a class that
 * does not listen can be reached from when its first handle is encoded: see
 * HG_Bulk_handle_bind().
 *
 * @param na_class  borrowed until HG_Bulk_finalize().
 * @retval HG_SUCCESS      the bulk layer is running.
 * @retval HG_EXIST        it is running already.
 * @retval HG_INVALID_ARG  NULL, or a class that is closed.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_NODEV        the system provides no random numbers.
 * @retval HG_FAULT        the class belongs to the parent process.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_init(na_class_t *na_class);

/**
 * End the bulk layer of HG_Bulk_init(), after HG_Finalize().
 *
 * Bulk handles that were not freed can still be freed, and their memory and
 * sizes read. All else fails for them.
 *
 * @retval HG_SUCCESS  the bulk layer has ended.
 * @retval HG_FAULT    it is not running.
 * @retval HG_BUSY     HG_Finalize() was not called.
 * @threads No other thread calls a function of this layer meanwhile.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_finalize(void);

/**
 * Create a bulk handle for memory of this process.
 *
 * Where an address is NULL, the library allocates that memory, zeroed, and
 * frees it with the handle. HG_Bulk_handle_access() gives its address. Over sm
 * peers can map this memory (see hg-security(7)), a child of fork shares it
 * with its parent, and blocks below 1 MiB stay with the class for later
 * handles.
 *
 * @param count        segments, at least one.
 * @param buf_ptrs     their addresses, copied; the memory is borrowed until the
 *                     handle is freed. NULL: all addresses are NULL.
 * @param buf_sizes    their sizes in bytes, copied.
 * @param flags        HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or
 *                     HG_BULK_READWRITE.
 * @param[out] handle  for HG_Bulk_handle_free().
 * @retval HG_SUCCESS       the handle is created.
 * @retval HG_INVALID_ARG   no segment, unknown flags, sizes that overflow, or a
 *                          NULL.
 * @retval HG_NOMEM         out of memory.
 * @retval HG_FAULT         the bulk layer is not running.
 * @retval HG_OPNOTSUPPORT  peers cannot reach a bulk class that does not listen
 *                          (see HG_Bulk_init()), or the transport supports
 *                          fewer segments.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_handle_create(size_t count, void **buf_ptrs,
    const size_t *buf_sizes, unsigned long flags, hg_bulk_t *handle);

/**
 * Free a bulk handle, of this process or a peer.
 *
 * When it returns, nothing touches the memory any more. Transfers with it as
 * the local side end with HG_CANCELED, unless they have completed; this is the
 * way to give up a transfer whose peer makes no progress. Transfers of peers
 * end with HG_NOENTRY, there.
 *
 * It waits until the network has released the memory, at most until the peer is
 * dead (death_ms). Over sm it waits without a limit for a peer that was given
 * the memory and is copying it: see NA_Mem_deregister().
 *
 * A handle can be decoded again in this process, in a call to itself or by
 * HG_Bulk_handle_deserialize(). Freeing the original waits for a copy through
 * such a handle. Later transfers with it fail with HG_NOENTRY.
 *
 * @param handle  taken.
 * @retval HG_SUCCESS      the handle is freed.
 * @retval HG_INVALID_ARG  HG_BULK_NULL.
 * @retval HG_FAULT        the layer belongs to the parent process.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_handle_free(hg_bulk_t handle);

/**
 * Get the addresses behind a range of a handle, without a copy.
 *
 * @param handle             of memory of this process.
 * @param offset             where the range begins.
 * @param size               its bytes.
 * @param flags              HG_BULK_..., the access that is needed.
 * @param max_count          elements in the arrays.
 * @param[out] buf_ptrs      the addresses.
 * @param[out] buf_sizes     their sizes.
 * @param[out] actual_count  how many there are, at most max_count.
 * @retval HG_SUCCESS       the arrays are filled.
 * @retval HG_OVERFLOW      the range ends behind the memory.
 * @retval HG_PERMISSION    the handle does not allow `flags`.
 * @retval HG_OPNOTSUPPORT  the memory is a peer's.
 * @retval HG_NOENTRY       the handle that this one was decoded from is freed.
 * @retval HG_INVALID_ARG   an argument is NULL.
 * @lifetime The addresses are valid until the handle is freed.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_handle_access(hg_bulk_t handle, size_t offset,
    size_t size, unsigned long flags, unsigned int max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned int *actual_count);

/**
 * Get the bytes that a handle describes.
 *
 * @param handle  of this process or a peer.
 * @return the bytes; 0 for HG_BULK_NULL.
 */
HG_EXPORT size_t HG_Bulk_handle_get_size(hg_bulk_t handle);

/**
 * Get the number of segments that a handle describes.
 *
 * @param handle  of this process or a peer.
 * @return the number; 0 for HG_BULK_NULL.
 */
HG_EXPORT size_t HG_Bulk_handle_get_segment_count(hg_bulk_t handle);

/**
 * Get the size of a handle as bytes.
 *
 * @param handle  of this process or a peer.
 * @return the size; 0 for HG_BULK_NULL, or if the bulk layer is not running.
 */
HG_EXPORT size_t HG_Bulk_handle_get_serialize_size(hg_bulk_t handle);

/**
 * Write a handle as bytes, for a peer.
 *
 * Arguments of type hg_bulk_t do this by themselves. A handle that came from a
 * peer may be sent to another one.
 *
 * @param[out] buf  the bytes.
 * @param buf_size  at least HG_Bulk_handle_get_serialize_size().
 * @param handle    of this process or a peer.
 * @retval HG_SUCCESS       `buf` holds the handle.
 * @retval HG_MSGSIZE       `buf_size` is too small.
 * @retval HG_INVALID_ARG   an argument is NULL.
 * @retval HG_NOENTRY       the handle that this one was decoded from is freed.
 * @retval HG_OPNOTSUPPORT  peers cannot reach the bulk class.
 * @retval HG_NODEV         the system provides no random numbers.
 * @retval HG_FAULT         the bulk layer, or that of the handle, has ended.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_handle_serialize(
    void *buf, size_t buf_size, hg_bulk_t handle);

/**
 * Create a handle from the bytes of HG_Bulk_handle_serialize().
 *
 * The memory may be of this process, and may have been freed since: then
 * transfers with the handle fail with HG_NOENTRY.
 *
 * @param[out] handle  for HG_Bulk_handle_free().
 * @param buf          the bytes, borrowed.
 * @param buf_size     how many.
 * @retval HG_SUCCESS         the handle is created.
 * @retval HG_PROTOCOL_ERROR  the bytes are not a serialized handle.
 * @retval HG_INVALID_ARG     an argument is NULL.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_FAULT           the bulk layer is not running.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_handle_deserialize(
    hg_bulk_t *handle, const void *buf, size_t buf_size);

/**
 * Put the address of this process into a bulk handle.
 *
 * A process that gets the handle may pass it on: a third process then moves the
 * data directly. It gives HG_Bulk_transfer() NA_ADDR_NULL, or, with the option
 * passed_memory, calls HG_Bulk_pull(), HG_Bulk_push() or a pipeline. See
 * hg-bulk(7).
 *
 * The bulk class need not listen, except over ZeroMQ and mpi+dynamic, where a
 * third process can reach only a listener: its transfer ends with
 * HG_HOSTUNREACH. Over sm the class can be reached from the first bind on, as
 * long as it is open. A process that connects in this way can move memory of
 * which it has a handle. Its calls and messages are refused: see
 * hg-security(7).
 *
 * @param handle  of memory of this process.
 * @retval HG_SUCCESS      the handle is bound: copies that are sent from now on
 *                         have the address.
 * @retval HG_INVALID_ARG  the handle is bound already, is of a peer's memory,
 *                         or is HG_BULK_NULL.
 * @retval HG_AGAIN        over sm, a class that does not listen has no
 *                         descriptor for its socket.
 * @retval HG_ADDRINUSE    over sm, another process has the address of the
 *                         class.
 * @retval HG_FAULT        the bulk layer of the handle has ended, or belongs to
 *                         the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_handle_bind(hg_bulk_t handle);

/**
 * Start to move bytes between memory of its owner and local memory.
 *
 * The owner is the process that created origin_handle. Mercury, after which the
 * parameters are named, calls it the origin. Its address is that of
 * HG_Handler_get_addr(), or another one if the caller passed a handle on.
 * NA_ADDR_NULL stands for the address in a bound handle. With the address of
 * this process the data is copied.
 *
 * Data that needs no action of the peer is moved before the function returns:
 * data of this process and, over sm, up to some 256 KiB. Other transfers move
 * while this process makes progress. Over ZeroMQ and MPI the owner must make
 * progress, too. Over sm it may even be stopped. To end a transfer, free the
 * local handle.
 *
 * With the option bulk_checksum, each message of a transfer that this side
 * starts carries a CRC64 of its data. It is for transports that move bulk data
 * in messages: ZeroMQ, MPI, and all with force_rma_emulation. With sm and
 * libfabric, which move the data themselves, the option is refused. A copy
 * within this process, as with self, has no CRC64.
 *
 * @param op             HG_BULK_PULL reads the owner's memory, HG_BULK_PUSH
 *                       writes it.
 * @param origin_addr    the owner's address on the RPC class, borrowed; or
 *                       NA_ADDR_NULL: see HG_Bulk_handle_bind().
 * @param origin_handle  the owner's memory.
 * @param origin_offset  where to begin there.
 * @param local_handle   memory of this process; keep it until the end.
 * @param local_offset   where to begin there.
 * @param size           bytes.
 * @param[out] request   for HG_Bulk_wait(); HG_BULK_REQUEST_NULL on failure.
 * @retval HG_SUCCESS         the transfer has begun.
 * @retval HG_OVERFLOW        past the end of a handle.
 * @retval HG_PERMISSION      the flags of a handle forbid this direction.
 * @retval HG_NOENTRY         a handle was decoded from one of this process,
 *                            which was freed.
 * @retval HG_INVALID_ARG     an argument is wrong; the local handle is a
 *                            peer's; or the address is of this process, and the
 *                            owner's memory is a peer's.
 * @retval HG_HOSTUNREACH     the handle was passed on, and its owner does not
 *                            listen.
 * @retval HG_PROTOCOL_ERROR  the handle lacks its owner's address on the bulk
 *                            class.
 * @retval HG_FAULT           the bulk layer of a handle has ended.
 * @retval HG_NOMEM           out of memory.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_transfer1(hg_bulk_op_t op, na_addr_t origin_addr,
    hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
    size_t local_offset, size_t size, hg_bulk_request_t *request);

/**
 * Wait until a transfer has completed, or the time is over.
 *
 * If `status` is HG_TRUE, the return code is the result of the transfer, and
 * the request is freed. If it is HG_FALSE, the transfer goes on and can be
 * waited for again. The function makes progress, and runs no handler.
 *
 * @param request      of HG_Bulk_transfer(); taken if the transfer has
 *                     completed.
 * @param timeout      milliseconds; 0 tests without waiting.
 * @param[out] status  HG_TRUE once the transfer has completed; HG_STATUS_IGNORE
 *                     if it is not needed.
 * @retval HG_SUCCESS         all bytes are moved.
 * @retval HG_TIMEOUT         HG_FALSE: not completed in this time.
 * @retval HG_INTR            HG_FALSE: a signal ended the wait: see HG_Wait().
 * @retval HG_BUSY            HG_FALSE: another thread waits for this transfer,
 *                            or this thread is in a function that must not wait
 *                            (logged): see hg-threads(7).
 * @retval HG_NOENTRY         the owner freed its handle, or has another
 *                            address.
 * @retval HG_CANCELED        the local handle was freed.
 * @retval HG_DISCONNECT      the owner is dead.
 * @retval HG_HOSTUNREACH     the owner was never reached, or its bulk class
 *                            neither listens nor is connected.
 * @retval HG_NODEV           this bulk class cannot use the address in the
 *                            handle.
 * @retval HG_AGAIN           the owner has too many transfers.
 * @retval HG_PERMISSION      the owner does not allow it.
 * @retval HG_FAULT           memory of one side cannot be accessed, see
 *                            hg-bulk(7).
 * @retval HG_CHECKSUM_ERROR  the data changed on the way (option
 *                            bulk_checksum), counted as bulk_damaged.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     NULL, or freed by a wait or by HG_Finalize().
 * @threads Any thread. One thread at a time waits for a transfer.
 * @source Mercury design report, "Mercury bulk API"
 */
HG_EXPORT hg_return_t HG_Bulk_wait(
    hg_bulk_request_t request, unsigned int timeout, hg_status_t *status);

/* ---- Pointers ---- */

/**
 * Get a pointer to memory of a peer, to load and store it without a transfer.
 *
 * It works over sm, for memory that the owner's library allocated: with
 * HG_Bulk_handle_create() and NULL, or with NA_Mem_alloc(). For memory of this
 * process the pointer is its address. It serves both models.
 *
 * The pointer holds a reference of the handle. It stays valid until
 * HG_Bulk_unmap(), also when the owner frees its handle or ends. Call that
 * function before the layer of the handle ends. NA_Mem_map() says how to order
 * stores.
 *
 * @param handle    the memory.
 * @param segment   which segment; 0 is the first.
 * @param[out] ptr  its first byte. The segments of a peer's memory follow each
 *                  other.
 * @retval HG_SUCCESS         the pointer is valid. If the handle of a peer has
 *                            HG_BULK_READ_ONLY, a store raises SIGSEGV.
 * @retval HG_OPNOTSUPPORT    the memory cannot be mapped, or the segment is
 *                            empty: use a transfer. Not logged.
 * @retval HG_AGAIN           this process is not connected to the owner over
 *                            sm: call the owner first. Not logged.
 * @retval HG_NOENTRY         the owner has freed its handle.
 * @retval HG_PERMISSION      the description claims more rights than there are.
 * @retval HG_OVERFLOW        the description is larger than the memory.
 * @retval HG_PROTOCOL_ERROR  the description is malformed.
 * @retval HG_NOMEM           out of memory, or of mappings (vm.max_map_count).
 * @retval HG_INVALID_ARG     an argument is NULL, or there is no such segment.
 * @retval HG_FAULT           the bulk layer of the handle has ended, or belongs
 *                            to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_map(
    hg_bulk_t handle, hg_size_t segment, void **ptr);

/**
 * Unmap a pointer of HG_Bulk_map(), and drop its reference of the handle.
 *
 * @param handle  the handle; the application may have freed it meanwhile.
 * @param ptr     the pointer.
 * @retval HG_SUCCESS      it is unmapped. Memory of this process stays as it
 *                         is, unless the handle had no other reference.
 * @retval HG_INVALID_ARG  the handle is NULL, or this is no pointer to its
 *                         memory.
 * @retval HG_FAULT        the bulk layer of the handle has ended, or belongs to
 *                         the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_unmap(hg_bulk_t handle, void *ptr);

/* ---- Pipelines ---- */
/**
 * @defgroup hg_pipeline Bulk data in pieces
 * @ingroup hg_bulk_data
 *
 * A pipeline moves memory of any size through a few buffers of the server.
 * While a function of the application works on one piece, the next ones are in
 * flight. It serves both models.
 *
 * A transfer occupies its pipeline. A server that executes calls in several
 * threads creates a pipeline for each thread.
 * @{
 */

/** Buffers of a server for one transfer at a time. */
typedef struct hg_bulk_pipeline *hg_bulk_pipeline_t;

/**
 * Works on a piece: uses the data of a pull, or fills the buffer of a push.
 *
 * It runs in the thread that called HG_Bulk_pipeline_pull() or
 * HG_Bulk_pipeline_push(), for one piece after the other. No lock is held: it
 * may wait, call HG_Bulk_pull(), and use other pipelines.
 *
 * To end the transfer early, it reduces `*size`. A push then moves only these
 * bytes of the piece. The result is HG_SUCCESS.
 *
 * @param arg           the argument of the transfer.
 * @param data          the buffer; borrowed until it returns.
 * @param[in,out] size  bytes of this piece: those of a buffer, or the rest.
 * @param offset        where the piece begins, counted from the beginning of
 *                      the transfer.
 * @return HG_SUCCESS to go on; any other code ends the transfer with this code.
 */
typedef hg_return_t (*hg_bulk_piece_cb_t)(
    void *arg, void *data, size_t *size, size_t offset);

/**
 * Create a pipeline, and allocate its buffers.
 *
 * Over sm a piece of up to 256 KiB moves at once. Over a network a larger piece
 * may be faster. With one buffer no piece is in flight while the application
 * works.
 *
 * @param hg_class       the class; NULL: the layer of the request model.
 * @param count          buffers, at least 1; 2 to 4 are enough.
 * @param buffer_size    bytes of each, the size of a piece.
 * @param[out] pipeline  for HG_Bulk_pipeline_free().
 * @retval HG_SUCCESS       the pipeline is created.
 * @retval HG_INVALID_ARG   0, NULL, sizes that overflow, or no such class.
 * @retval HG_NOMEM         out of memory.
 * @retval HG_FAULT         NULL, and the layer is not running; or it belongs to
 *                          the parent process.
 * @retval HG_OPNOTSUPPORT  peers cannot reach a bulk class that does not listen
 *                          (see HG_Bulk_init()).
 */
HG_EXPORT hg_return_t HG_Bulk_pipeline_create(hg_class_t *hg_class,
    size_t count, size_t buffer_size, hg_bulk_pipeline_t *pipeline);

/**
 * Free a pipeline.
 *
 * Free it before its class ends. Later it is still freed, with a warning of the
 * class about its buffers.
 *
 * @param pipeline  taken.
 * @retval HG_SUCCESS      the pipeline is freed.
 * @retval HG_BUSY         a transfer uses it.
 * @retval HG_INVALID_ARG  NULL.
 * @retval HG_FAULT        the layer belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Bulk_pipeline_free(hg_bulk_pipeline_t pipeline);

/**
 * Read memory of the caller piece by piece, and wait.
 *
 * `work` gets each piece that has arrived, in order. The last piece may be
 * shorter than the others. When the function returns, nothing is in flight, and
 * the pipeline can be used again.
 *
 * The rules of HG_Bulk_pull() hold: whose memory it is, how the transfer ends
 * early, and that signals do not end the wait.
 *
 * @param pipeline  of the class of the call.
 * @param call      the call that this function executes.
 * @param bulk      the memory of its caller, or memory that its owner has
 *                  bound.
 * @param offset    where in that memory to begin.
 * @param size      bytes; 0 is allowed: `work` does not run.
 * @param work      runs for each piece.
 * @param arg       passed to it.
 * @param timeout   milliseconds for the whole transfer, with the time that
 *                  `work` takes; 0: no limit.
 * @retval HG_SUCCESS      `work` got all bytes, or ended the transfer.
 * @retval HG_BUSY         another transfer uses the pipeline (logged), or this
 *                         thread makes progress already.
 * @retval HG_INVALID_ARG  an argument is NULL, `call` is a handle of the client
 *                         or of another class than the pipeline, or `work`
 *                         enlarged `*size` (logged).
 * @retval others          a code of `work`, or as HG_Bulk_pull().
 * @threads Any thread, while the call is not freed.
 */
HG_EXPORT hg_return_t HG_Bulk_pipeline_pull(hg_bulk_pipeline_t pipeline,
    hg_handle_t call, hg_bulk_t bulk, size_t offset, size_t size,
    hg_bulk_piece_cb_t work, void *arg, unsigned int timeout);

/**
 * Write memory of the caller piece by piece, and wait.
 *
 * `work` fills each piece, in order. A piece is moved while `work` fills the
 * next ones. If the transfer fails, any piece that `work` has filled may have
 * been moved or not. Other rules and return codes are those of
 * HG_Bulk_pipeline_pull().
 *
 * @param pipeline  of the class of the call.
 * @param call      the call that this function executes.
 * @param bulk      the memory of its caller, or memory that its owner has
 *                  bound.
 * @param offset    where in that memory to begin.
 * @param size      bytes; 0 is allowed: `work` does not run.
 * @param work      runs for each piece.
 * @param arg       passed to it.
 * @param timeout   milliseconds for the whole transfer, with the time that
 *                  `work` takes; 0: no limit.
 * @retval HG_SUCCESS  all bytes that `work` filled are in the memory.
 * @retval others      as HG_Bulk_pipeline_pull().
 * @threads Any thread, while the call is not freed.
 */
HG_EXPORT hg_return_t HG_Bulk_pipeline_push(hg_bulk_pipeline_t pipeline,
    hg_handle_t call, hg_bulk_t bulk, size_t offset, size_t size,
    hg_bulk_piece_cb_t work, void *arg, unsigned int timeout);
/** @} */

/* ---- Names of the Mercury paper ---- */

/**
 * Create a bulk handle from an array of segments.
 *
 * @param segments     the array, copied; the memory is borrowed until the
 *                     handle is freed.
 * @param count        its elements.
 * @param flags        HG_BULK_...
 * @param[out] handle  for HG_Bulk_handle_free().
 * @retval HG_SUCCESS  the handle is created.
 * @retval others      as HG_Bulk_handle_create().
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT hg_return_t HG_Bulk_handle_create_segments(
    const hg_bulk_segment_t *segments, size_t count, unsigned long flags,
    hg_bulk_t *handle);

/**
 * Create a bulk handle of one segment.
 *
 * @param buf                its address; NULL: the library allocates it.
 * @param size               its bytes.
 * @param flags              HG_BULK_...
 * @param[out] block_handle  for HG_Bulk_block_handle_free().
 * @retval HG_SUCCESS  the handle is created.
 * @retval others      as HG_Bulk_handle_create().
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT hg_return_t HG_Bulk_block_handle_create(
    void *buf, size_t size, unsigned long flags, hg_bulk_block_t *block_handle);

/**
 * Free a bulk handle of one segment, as HG_Bulk_handle_free() does.
 *
 * @param block_handle  taken.
 * @retval HG_SUCCESS      the handle is freed.
 * @retval HG_INVALID_ARG  HG_BULK_NULL.
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT hg_return_t HG_Bulk_block_handle_free(hg_bulk_block_t block_handle);

/**
 * Get the bytes that a bulk handle of one segment describes.
 *
 * @param block_handle  the handle.
 * @return the bytes; 0 for HG_BULK_NULL.
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT size_t HG_Bulk_block_handle_get_size(hg_bulk_block_t block_handle);

/**
 * Start to read memory of its owner: HG_Bulk_transfer() with HG_BULK_PULL.
 *
 * @param addr          the owner's address on the RPC class.
 * @param handle        the owner's memory.
 * @param offset        where to begin there.
 * @param block_handle  memory of this process.
 * @param block_offset  where to begin there.
 * @param size          bytes.
 * @param[out] request  for HG_Bulk_wait(); HG_BULK_REQUEST_NULL on failure.
 * @retval HG_SUCCESS  the transfer has begun.
 * @retval others      as HG_Bulk_transfer1().
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT hg_return_t HG_Bulk_read(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request);

/**
 * Start to write memory of its owner: HG_Bulk_transfer() with HG_BULK_PUSH.
 *
 * @param addr          the owner's address on the RPC class.
 * @param handle        the owner's memory.
 * @param offset        where to begin there.
 * @param block_handle  memory of this process.
 * @param block_offset  where to begin there.
 * @param size          bytes.
 * @param[out] request  for HG_Bulk_wait(); HG_BULK_REQUEST_NULL on failure.
 * @retval HG_SUCCESS  the transfer has begun.
 * @retval others      as HG_Bulk_transfer1().
 * @source Mercury paper (2013), Section IV-A
 */
HG_EXPORT hg_return_t HG_Bulk_write(na_addr_t addr, hg_bulk_t handle,
    size_t offset, hg_bulk_block_t block_handle, size_t block_offset,
    size_t size, hg_bulk_request_t *request);
/** @} */
