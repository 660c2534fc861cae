/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== RPC: the request model ============================================ */
/**
 * @defgroup hg_request RPC: the request model
 *
 * Both sides register functions by name. A client forwards a call and waits for
 * its request. A server runs HG_Handler_process() in a loop, which runs the
 * registered callback for each call that has arrived.
 *
 * Objects and their ends:
 *
 * - HG_Init() starts the layer, of which a process has one. HG_Finalize() ends
 *   it. Afterwards every function returns HG_FAULT, or 0 or NULL, and writes a
 *   line in the log.
 * - A request (hg_request_t) is a call in the client: from HG_Forward() to
 *   HG_Request_free().
 * - A handle (hg_handle_t) is a call in the server: from the callback's start
 *   to HG_Handler_free().
 * - Requests and handles end with the layer, and must not be used after the
 *   next HG_Init().
 *
 * Every function can be called from any thread at any time, with two
 * exceptions:
 *
 * - An object is freed once. No thread uses it at the same time or afterwards.
 *   Misuse of requests and bulk requests is detected. Misuse of a handle is not
 *   always detected: the library uses its memory for later calls, and may end
 *   one of these with HG_CANCELED.
 * - No other thread calls a function of this layer during HG_Finalize().
 *
 * In a child of fork the parent's layer does not exist: every function returns
 * HG_FAULT, also those that end and free. The child may start its own layer
 * with HG_Init(), on a class that it opens. It registers its functions again;
 * the options of HG_Set_options() still hold. Handles, bulk handles and
 * addresses of the parent remain unusable, and its requests are unknown
 * (HG_INVALID_ARG). Only HG_Bulk_handle_access() works for the memory of bulk
 * handles. A handler that forks must not return in the child.
 *
 * Five names exist in both models with different meanings: HG_Init(),
 * HG_Finalize(), HG_Register(), HG_Forward() and HG_Bulk_transfer(). Each is a
 * macro for the function with 1 at the end, or with 2 if HG_API_VERSION is 2.
 *
 * Without the macros, as by dlsym, the symbols `HG_Init`, `HG_Finalize`,
 * `HG_Register`, `HG_Forward` and `HG_Bulk_transfer` are those of Mercury, the
 * functions with 2. HG_Init2() called like HG_Init1() returns NULL, which is 0
 * and looks like HG_SUCCESS. A binding of another language uses the names with
 * a digit. hg(7) lists the symbols of all functions of this model.
 * @{
 */
#if HG_API_VERSION == 1
/**
 * Start the RPC layer: HG_Init1(), or HG_Init2() in the callback model.
 *
 * @code
 * hg_return_t HG_Init(na_class_t *na_class);                  // request model
 * hg_class_t *HG_Init(const char *info_string, uint8_t listen);   // callbacks
 * @endcode
 */
#define HG_Init HG_Init1
/**
 * End the RPC layer: HG_Finalize1(), or HG_Finalize2() in the callback model.
 *
 * @code
 * hg_return_t HG_Finalize(void);                              // request model
 * hg_return_t HG_Finalize(hg_class_t *hg_class);                  // callbacks
 * @endcode
 */
#define HG_Finalize HG_Finalize1
/**
 * Register a function: HG_Register1(), or HG_Register2() in the callback model.
 *
 * @code
 * hg_id_t HG_Register(const char *func_name, hg_proc_cb_t in_proc_cb,
 *     hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);          // request model
 * hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id,
 *     hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
 *     hg_rpc_cb_t rpc_cb);                                        // callbacks
 * @endcode
 */
#define HG_Register HG_Register1
/**
 * Start a call: HG_Forward1(), or HG_Forward2() in the callback model.
 *
 * @code
 * hg_return_t HG_Forward(na_addr_t addr, hg_id_t id, void *in_struct,
 *     void *out_struct, hg_request_t *request);               // request model
 * hg_return_t HG_Forward(hg_handle_t handle, hg_cb_t callback, void *arg,
 *     void *in_struct);                                           // callbacks
 * @endcode
 *
 * In both models these codes are common; the pages of HG_Forward1() and
 * HG_Forward2() list all.
 *
 * @retval HG_SUCCESS     the call has begun.
 * @retval HG_NOENTRY     the function is not registered, or the input has a
 *                        bulk handle that was freed.
 * @retval HG_AGAIN       too many calls are in flight: HG_Wait_room().
 * @retval HG_DISCONNECT  the address is dead: look the peer up again. In the
 *                        callback model the callback gets this code.
 * @retval HG_MSGSIZE     the input is larger than max_args_size.
 */
#define HG_Forward HG_Forward1
/**
 * Start to move bulk data: HG_Bulk_transfer1(), or HG_Bulk_transfer2().
 *
 * @code
 * hg_return_t HG_Bulk_transfer(hg_bulk_op_t op, na_addr_t origin_addr,
 *     hg_bulk_t origin_handle, size_t origin_offset, hg_bulk_t local_handle,
 *     size_t local_offset, size_t size,
 *     hg_bulk_request_t *request);                            // request model
 * hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback,
 *     void *arg, hg_bulk_op_t op, hg_addr_t origin_addr,
 *     hg_bulk_t origin_handle, hg_size_t origin_offset,
 *     hg_bulk_t local_handle, hg_size_t local_offset, hg_size_t size,
 *     hg_op_id_t *op_id);                                         // callbacks
 * @endcode
 */
#define HG_Bulk_transfer HG_Bulk_transfer1
#else
#define HG_Init HG_Init2
#define HG_Finalize HG_Finalize2
#define HG_Register HG_Register2
#define HG_Forward HG_Forward2
#define HG_Bulk_transfer HG_Bulk_transfer2
#endif

#if !HG_API_STRICT

/**
 * Options and limits of the RPC layer, for HG_Set_options().
 *
 * Start from HG_OPTIONS_INITIALIZER. 0 and false select the default. The
 * callback model uses them in HG_Class_set_options().
 *
 * A limit holds for all contexts of a class together. Peers share
 * max_unanswered, max_fetched_bytes, max_held_bytes and max_in_flight_bytes:
 * one peer alone may use the whole limit, a second one then half of it in
 * addition, and a third one a quarter. Nothing is refused while all peers
 * together use at most the limit, and together they use less than twice the
 * limit. A peer is a connection: a process may have several.
 *
 * Calls, and bytes of large arguments, past a limit end with HG_AGAIN. An input
 * or output larger than max_args_size ends the call with HG_MSGSIZE. Large
 * arguments that take longer than output_hold_ms to arrive or to be fetched end
 * it with HG_CANCELED. If an output exceeds a limit, the handler has run, and
 * both sides get the code.
 *
 * A peer that does not read its responses gets its refusals later. When 65,536
 * of them wait, its connection is closed (logged). See hg-limits(7).
 */
struct hg_options {
    size_t size; /**< sizeof(struct hg_options) */
    /** Calls in flight from this process. HG_Forward() returns HG_AGAIN beyond
     * it, and beyond max_in_flight_bytes. Default: 65,536. */
    unsigned int max_in_flight;
    /** Calls that have arrived and have no response. Callers get HG_AGAIN
     * beyond it. Default: 4,096; in the callback model 65,536. */
    unsigned int max_unanswered;
    /** Milliseconds that a large output waits to be fetched, and that 16 MiB of
     * a large input may take to arrive. Then the call ends with HG_CANCELED.
     * Default: 30,000. */
    unsigned int output_hold_ms;
    unsigned int drain_ms; /**< HG_Finalize() waits for sends; default 1,000 */
    size_t max_args_size;  /**< bytes of an input or output; default 1 GiB */
    /** Bytes in all large inputs of calls that have arrived. An input counts
     * from its announcement until the handle of its call is freed. Default and
     * least: max_args_size. */
    size_t max_fetched_bytes;
    /** Bytes in all large outputs that wait to be fetched, and in outputs of
     * more than 4 KiB that wait because their caller does not read. Default and
     * least: max_args_size. */
    size_t max_held_bytes;
    /** Bytes that the calls in flight from this process use: 1.5 KiB each, and
     * more if the message is not small. Arguments too large for a message do
     * not count. A single call may exceed it. Default: 40 MiB; in the callback
     * model 128 MiB. */
    size_t max_in_flight_bytes;
    bool no_builtins;   /**< do not serve HG_BUILTIN_PING and the others */
    bool histograms;    /**< measure how long calls take: HG_Get_histogram() */
    bool bulk_checksum; /**< a CRC64 in each message of bulk data */
    /** Send messages without a CRC64, also where `checksum_always` asks for it,
     * and allow a proc to leave some arguments undecoded. */
    bool no_checksum;
    /** Milliseconds that HG_Bulk_pull() and HG_Bulk_push() may take, or
     * HG_NO_DEADLINE. Default: 30,000. */
    unsigned int bulk_ms;
    /** HG_Bulk_pull(), HG_Bulk_push() and pipelines also move memory that a
     * caller has passed on. They connect to the address in its handle: the
     * caller chooses it. */
    bool passed_memory;
    /** Send messages with a CRC64 also over sm. By default they have none
     * there, because sm copies them in memory. */
    bool checksum_always;
};

/** The default options. */
#define HG_OPTIONS_INITIALIZER \
    { \
        sizeof(struct hg_options), 0, 0, 0, 0, 0, 0, 0, 0, false, false, \
            false, false, 0, false, false \
    }

/**
 * Set the options that the next HG_Init() uses.
 *
 * The callback model has HG_Class_set_options().
 *
 * @param options  copied; NULL restores the defaults.
 * @retval HG_SUCCESS      the options are set.
 * @retval HG_BUSY         the layer is running.
 * @retval HG_INVALID_ARG  the member `size` is wrong.
 */
HG_EXPORT hg_return_t HG_Set_options(const struct hg_options *options);

/**
 * Get the options that HG_Init() uses, or used, with the defaults filled in.
 *
 * The callback model has HG_Class_get_options().
 *
 * @param[in,out] options  the caller sets the member `size`.
 * @retval HG_SUCCESS      `options` is filled.
 * @retval HG_INVALID_ARG  NULL, or the member `size` is wrong.
 */
HG_EXPORT hg_return_t HG_Get_options(struct hg_options *options);

/**
 * Start the RPC layer on a class.
 *
 * It also starts the bulk layer on this class, unless HG_Bulk_init() was
 * called. The layer has a context of its own; the application may have others
 * on the class.
 *
 * @param na_class  borrowed until HG_Finalize(); NA_Finalize() returns NA_BUSY
 *                  until then.
 * @retval HG_SUCCESS       the layer is running.
 * @retval HG_EXIST         it is running already.
 * @retval HG_INVALID_ARG   NULL, or a class that is closed.
 * @retval HG_OPNOTSUPPORT  bulk_checksum is set, and the transport moves bulk
 *                          data itself.
 * @retval HG_AGAIN         too many classes or contexts.
 * @retval HG_NOMEM         out of memory.
 * @retval HG_NODEV         the system provides no random numbers.
 * @retval HG_FAULT         the class belongs to the parent process.
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Init1(na_class_t *na_class);

/**
 * End the RPC layer.
 *
 * It cancels requests in flight, ends calls without a response with
 * HG_CANCELED, waits until accepted sends have left, and frees everything, also
 * requests that were not freed. It waits at most twice drain_ms. Memory that a
 * transport still uses then is logged, and never freed.
 *
 * @retval HG_SUCCESS  the layer has ended.
 * @retval HG_FAULT    it is not running.
 * @retval HG_BUSY     a thread waits or runs a handler, or this one runs a proc
 *                     of a call; nothing has changed.
 * @threads No other thread calls a function of this layer meanwhile.
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Finalize1(void);

/**
 * Register a function by its name.
 *
 * Both sides register a function, and get the same id. Registering a name again
 * replaces the procs, and the callback unless the new one is NULL.
 *
 * @param func_name    copied.
 * @param in_proc_cb   for the input; NULL without one.
 * @param out_proc_cb  for the output; NULL without one.
 * @param rpc_cb       executes a call; NULL at a client.
 * @return the id; 0 if the layer is not running, the name is NULL or empty, or
 * another name has the same id (logged).
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_id_t HG_Register1(const char *func_name, hg_proc_cb_t in_proc_cb,
    hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/**
 * Start a call.
 *
 * The input is encoded before the function returns. `in_struct`, what it points
 * to, and `addr` may then be freed. A call to this process itself is queued,
 * and a later wait executes it. HG_Forward_timed() sets a deadline.
 *
 * HG_SUCCESS does not mean that the peer was reached. The loss of a peer is
 * noticed while a thread makes progress: HG_Wait() may then return
 * HG_DISCONNECT. It also returns HG_HOSTUNREACH.
 *
 * @param addr          the server.
 * @param id            what HG_Register() returned.
 * @param in_struct     the input, borrowed; NULL if the function has none.
 * @param out_struct    HG_Wait() writes the output here; NULL: not needed.
 * @param[out] request  the call, for HG_Wait() and HG_Request_free();
 *                      HG_REQUEST_NULL on failure.
 * @retval HG_SUCCESS      the call has begun.
 * @retval HG_NOENTRY      the id is not registered, or the input has a bulk
 *                         handle that was freed.
 * @retval HG_AGAIN        too many calls are in flight: HG_Wait_room().
 * @retval HG_DISCONNECT   the address is dead: look the peer up again.
 * @retval HG_INVALID_ARG  an argument is wrong, or in_struct is NULL and the
 *                         function has an input.
 * @retval HG_MSGSIZE      the input is larger than max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval others          the code that the proc of the input, or a hook,
 *                         returned.
 * @lifetime What the output points to lives until HG_Request_free().
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request);

/**
 * Wait until a call has completed, or the time is over.
 *
 * If `status` is HG_TRUE, the return code is the result of the call. The server
 * may return any code; the list has the codes of the library. If it is
 * HG_FALSE, the call goes on and can be waited for again.
 *
 * It makes progress for the whole process and runs handlers meanwhile, also
 * inside a handler, to a depth of 16. Deeper, it runs no more handlers: a call
 * that only this thread could execute ends only at its deadline (logged).
 *
 * It checks for events at least once. It exceeds its time by at most two
 * handlers, the first and the last one that it runs; with 0 it runs at most
 * two. If the call has completed, it returns at once.
 *
 * HG_INTR is for signal handlers that run in this thread while it sleeps here.
 * A thread that is awake does not notice signals: if one must not be missed,
 * wait with a finite timeout.
 *
 * @param request      the call, of HG_Forward().
 * @param timeout      milliseconds; 0 tests without waiting.
 * @param[out] status  HG_TRUE once the call has completed; HG_STATUS_IGNORE if
 *                     it is not needed.
 * @retval HG_SUCCESS         the call has completed, and the output is decoded.
 * @retval HG_TIMEOUT         HG_FALSE: not completed in this time; HG_TRUE: the
 *                            deadline of HG_Forward_timed() is over.
 * @retval HG_INTR            HG_FALSE: a signal ended the wait.
 * @retval HG_BUSY            HG_FALSE: another thread waits for this request,
 *                            or this thread is in a function that must not wait
 *                            (logged): see hg-threads(7).
 * @retval HG_DISCONNECT      HG_TRUE: the connection to the server is lost.
 * @retval HG_HOSTUNREACH     HG_TRUE: the server was never reached.
 * @retval HG_NOENTRY         HG_TRUE: the function is unknown to the server.
 * @retval HG_AGAIN           HG_TRUE: a limit of the server, or it drains.
 * @retval HG_MSGSIZE         HG_TRUE: the input or output is larger than
 *                            max_args_size of one side.
 * @retval HG_CANCELED        HG_TRUE: the server freed the handle or ended, or
 *                            large arguments took too long (output_hold_ms).
 * @retval HG_PROTOCOL_ERROR  HG_TRUE: the sides have different types of a stub,
 *                            or protocols.
 * @retval HG_CHECKSUM_ERROR  HG_TRUE: a message changed on the way, or the proc
 *                            left some of the output.
 * @retval HG_OVERFLOW        HG_TRUE: the proc wants more output than came.
 * @retval HG_INVALID_ARG     the request is NULL or was freed.
 * @threads Any thread. One thread at a time waits for a request, and decodes
 * its output.
 * @lifetime What was decoded lives until HG_Request_free().
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status);

/**
 * Wait until several calls have completed, or the time is over.
 *
 * It waits as HG_Wait() does, with one timeout for all.
 *
 * @param count                   elements in the arrays.
 * @param array_of_requests       the calls.
 * @param timeout                 milliseconds; 0 tests without waiting.
 * @param[out] array_of_statuses  HG_TRUE for each call that has completed; NULL
 *                                if they are not needed.
 * @retval HG_SUCCESS      all calls have completed with HG_SUCCESS.
 * @retval HG_TIMEOUT      not all have completed.
 * @retval HG_INTR         a signal ended the wait.
 * @retval HG_BUSY         as for HG_Wait().
 * @retval HG_INVALID_ARG  a request is NULL or was freed, before any wait.
 * @retval others          the first error of a completed call, in the order of
 *                         the array.
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[]);

/**
 * Free a request and what decoding its output allocated.
 *
 * A call in flight is canceled, and its out_struct is not written any more.
 *
 * @param request  the call; taken.
 * @retval HG_SUCCESS      the request is freed.
 * @retval HG_INVALID_ARG  HG_REQUEST_NULL, or a request that was freed before.
 * @retval HG_BUSY         a thread waits for it or decodes its output, perhaps
 *                         this one; it is not freed (logged).
 * @source Mercury design report, "Mercury API (client)"
 */
HG_EXPORT hg_return_t HG_Request_free(hg_request_t request);

/* ---- Handlers ---- */

/**
 * Make progress and run the calls that have arrived.
 *
 * It waits for an event: a call, a response, a transfer. Then it runs the
 * queued calls, at most 64, while there is time. It exceeds its time by at most
 * one handler; with 0 it runs one.
 *
 * @param timeout      milliseconds; 0 does not wait.
 * @param[out] status  HG_TRUE after HG_SUCCESS; HG_STATUS_IGNORE if it is not
 *                     needed.
 * @retval HG_SUCCESS  at least one event.
 * @retval HG_TIMEOUT  no event.
 * @retval HG_INTR     a signal ended the wait: see HG_Wait().
 * @retval HG_BUSY     inside a handler, or in another function that must not
 *                     wait: see hg-threads(7).
 * @threads Several threads may serve: each call runs in one of them.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_process(
    unsigned int timeout, hg_status_t *status);

/**
 * Get the address of the caller.
 *
 * NA_Addr_to_string() writes it, for a log: over zmq+tcp with the host that the
 * connection comes from. hg-transports(7) has the form for each transport.
 *
 * @param handle  the call.
 * @return the address, which NA_Addr_free() does not accept; NA_ADDR_NULL for
 * HG_HANDLE_NULL.
 * @lifetime Until the handle is freed. NA_Addr_dup() gives a reference to keep.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT na_addr_t HG_Handler_get_addr(hg_handle_t handle);

/**
 * Get the id of the called function.
 *
 * @param handle  the call.
 * @return the id; 0 for HG_HANDLE_NULL.
 */
HG_EXPORT hg_id_t HG_Handler_get_id(hg_handle_t handle);

/**
 * Decode the input of a call.
 *
 * A message that changed on the way does not get here. The call is not
 * executed, and ends with HG_CHECKSUM_ERROR in the client.
 *
 * The handle owns what the proc function allocates with hg_proc_alloc(), and
 * the strings and bulk handles of the input: they are freed with the handle.
 * `in_struct` itself is not used after this function. The application may free
 * them earlier, or keep them:
 *
 * - HG_Handler_free_input() frees the input now.
 * - HG_Bulk_handle_free() frees a bulk handle of the input now. A bulk handle
 *   is kept with HG_Bulk_ref_incr().
 * - hg_proc_release() with HG_PROC_NULL frees a string, or memory of
 *   hg_proc_alloc(), inside the handler of the call. A handler keeps one as
 *   HG_Handler_free_input() says.
 *
 * Memory that a proc function allocates in another way is freed by
 * HG_Handler_free_input() only.
 *
 * @param handle          the call.
 * @param[out] in_struct  the input.
 * @retval HG_SUCCESS         the input is decoded.
 * @retval HG_CHECKSUM_ERROR  the proc did not decode all bytes. The two sides
 *                            registered different types. The option no_checksum
 *                            allows it.
 * @retval HG_OVERFLOW        the proc wants more bytes than arrived. The two
 *                            sides registered different types.
 * @retval HG_INVALID_ARG     the function has no input proc, or an argument is
 *                            NULL.
 * @retval HG_NOMEM           out of memory.
 * @retval others             the code that the proc returned.
 * @lifetime Until the handle is freed, and while its handler runs. Nothing
 * stays allocated on failure.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_get_input(hg_handle_t handle, void *in_struct);

/**
 * Free what decoding an input allocated, before the handle is freed.
 *
 * The proc function frees what `in_struct` points to. The handle then owns
 * nothing of its inputs any more. To keep a string, or other memory, set its
 * member to NULL first: the application then frees it with hg_proc_release().
 * If the input was decoded several times, free each struct.
 *
 * @param handle     the call.
 * @param in_struct  the input, of HG_Handler_get_input().
 * @retval HG_SUCCESS      it is freed.
 * @retval HG_INVALID_ARG  the function has no input proc, or an argument is
 *                         NULL.
 */
HG_EXPORT hg_return_t HG_Handler_free_input(
    hg_handle_t handle, void *in_struct);

/**
 * Encode the output and send it as the response to a call.
 *
 * The handle is freed with HG_Handler_free(), before or after the response has
 * left. On failure, except HG_EXIST and HG_INVALID_ARG, the call ends in the
 * client with the code that this function returns. If nobody waits for the
 * response any more, it is dropped: that is HG_SUCCESS.
 *
 * @param handle      the call.
 * @param out_struct  the output, borrowed; NULL if the function has none.
 * @retval HG_SUCCESS      the response is sent, or queued.
 * @retval HG_EXIST        the call has a response already.
 * @retval HG_AGAIN        a limit: max_held_bytes.
 * @retval HG_MSGSIZE      the output is larger than max_args_size.
 * @retval HG_NOENTRY      the output has a bulk handle that was freed.
 * @retval HG_INVALID_ARG  the handle is NULL, or out_struct is NULL and the
 *                         function has an output.
 * @retval HG_NOMEM        out of memory.
 * @retval others          the code that the proc returned.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_start_output(
    hg_handle_t handle, void *out_struct);

/**
 * Get the input of a call as it arrived.
 *
 * @param handle     the call.
 * @param[out] buf   the bytes.
 * @param[out] size  how many.
 * @retval HG_SUCCESS      both are set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 * @lifetime Until the handle is freed, which owns the bytes.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_get_input_buf(
    hg_handle_t handle, void **buf, size_t *size);

/**
 * Get a buffer for an output that the application encodes itself.
 *
 * The buffer is zeroed at first. HG_Handler_start_response() sends it.
 *
 * @param handle     the call.
 * @param[out] buf   the buffer.
 * @param[out] size  its bytes.
 * @retval HG_SUCCESS      both are set.
 * @retval HG_EXIST        the call has a response already.
 * @retval HG_INVALID_ARG  an argument is NULL.
 * @retval HG_NOMEM        out of memory.
 * @lifetime Until the handle is freed, which owns the buffer.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_get_output_buf(
    hg_handle_t handle, void **buf, size_t *size);

/**
 * Send an output that the application has encoded.
 *
 * With `extra_buf` NULL it sends the whole buffer of
 * HG_Handler_get_output_buf(), else `extra_size` bytes from `extra_buf`.
 *
 * @param handle      the call.
 * @param extra_buf   copied; may be NULL.
 * @param extra_size  bytes in `extra_buf`; 0 if that is NULL.
 * @retval HG_SUCCESS      the response is sent, or queued.
 * @retval HG_EXIST        the call has a response already.
 * @retval HG_MSGSIZE      `extra_size` is larger than max_args_size.
 * @retval HG_AGAIN        a limit: max_held_bytes.
 * @retval HG_INVALID_ARG  the handle is NULL, or `extra_buf` is NULL and
 *                         `extra_size` is not 0.
 * @retval HG_NOMEM        out of memory.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_start_response(
    hg_handle_t handle, void *extra_buf, size_t extra_size);

/**
 * Free the handle of a call.
 *
 * A call without a response ends at the client with HG_CANCELED, or, while its
 * handler runs, with the code that the handler returns.
 *
 * The input of HG_Handler_get_input() is freed, too: now, or if the handler of
 * the call runs, when it has returned. A response that waits to be sent may
 * delay that.
 *
 * @param handle  the call; taken.
 * @retval HG_SUCCESS      the handle is freed.
 * @retval HG_INVALID_ARG  NULL, or it was freed already. That is not detected
 *                         once the library uses it for another call.
 * @source Mercury design report, "Mercury handler API (server)"
 */
HG_EXPORT hg_return_t HG_Handler_free(hg_handle_t handle);

/* ---- Counters ---- */

/** Counts since HG_Init(), and current numbers. */
struct hg_counters {
    size_t size; /**< sizeof(struct hg_counters): HG_COUNTERS_INITIALIZER */
    uint64_t requests_sent;      /**< calls from here */
    uint64_t responses_received; /**< responses to them, with errors */
    uint64_t requests_received;  /**< calls that have arrived */
    uint64_t responses_sent;     /**< responses to them, with errors */
    uint64_t errors_sent;        /**< responses with a code, no output */
    uint64_t inputs_fetched;     /**< inputs too large for a message */
    uint64_t outputs_fetched;    /**< outputs too large for a message */
    uint64_t refused;     /**< malformed messages and arguments; and calls to a
                           class that does not listen, of a peer that it has
                           not looked up: HG_PERMISSION */
    uint64_t late;        /**< responses that nobody waited for */
    uint64_t turned_away; /**< calls and outputs beyond a limit: HG_AGAIN */
    uint64_t dropped;     /**< calls of peers that were disconnected for them */
    uint64_t expired;  /**< arrived calls past their deadline, not executed */
    uint64_t canceled; /**< arrived calls, not executed: nobody waited */
    uint64_t bulk_bytes_pulled; /**< bytes that transfers from here read */
    uint64_t bulk_bytes_pushed; /**< bytes that transfers from here wrote */
    uint64_t in_flight;         /**< calls from here, now */
    uint64_t unanswered;        /**< arrived calls without response, now */
    uint64_t fetched_bytes;     /**< of max_fetched_bytes, now */
    uint64_t held_bytes;        /**< of max_held_bytes, now */
    uint64_t bulk_damaged; /**< transfers from here with HG_CHECKSUM_ERROR */
};

/** Counters for HG_Get_counters() to fill. */
#define HG_COUNTERS_INITIALIZER \
    { \
        sizeof(struct hg_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0 \
    }

/**
 * Get the counters of the layer.
 *
 * HG_Class_get_counters() gives those of a class of the callback model.
 *
 * @param[in,out] counters  the caller sets the member `size`.
 * @retval HG_SUCCESS      `counters` is filled.
 * @retval HG_FAULT        the layer is not running.
 * @retval HG_INVALID_ARG  NULL, or the member `size` is wrong.
 */
HG_EXPORT hg_return_t HG_Get_counters(struct hg_counters *counters);
#endif
/** @} */
