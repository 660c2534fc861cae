/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Structs and their procs =========================================== */
/**
 * @defgroup hg_struct Structs and their procs
 *
 * A proc function encodes, decodes and frees a type. These macros generate the
 * proc function hg_proc_name of a struct `name`, and register functions by the
 * names of their types.
 *
 * A type is a single word `t` for which a function hg_proc_t exists:
 *
 * @code
 * int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
 * float double hg_bool_t hg_string_t hg_const_string_t hg_bulk_t
 * structs of these macros, and types with a proc function of the application
 * @endcode
 *
 * Fields of structs and stubs may also be `int`, `bool` and `size_t`, unless
 * HG_API_STRICT is set. On the wire they are an int32_t, an hg_bool_t and a
 * uint64_t: HG_OVERFLOW means that a size does not fit this machine. Where an
 * `int` has not 32 bits, it is not a type.
 *
 * `long` and `unsigned` are not types: write int64_t or uint32_t, for example.
 * The compiler says that hg_proc_long is not declared. For an array, a buffer
 * or an optional field, write a type and its proc function by hand, as
 * examples/array.c does.
 * @{
 */

/**
 * Define a struct type and its proc function hg_proc_name.
 *
 * It stands at file scope, without a semicolon.
 *
 * @code
 * MERCURY_GEN_PROC(open_in_t, ((hg_string_t)(path))((int32_t)(flags)))
 * @endcode
 *
 * @param name    the struct type.
 * @param fields  ((type)(field))((type)(field))..., any number. A field is one
 *                identifier: `x[3]` and `*p` do not compile.
 * @source Mercury design report, "Generic Processor Macros"
 */
#define MERCURY_GEN_PROC(name, fields) \
    typedef struct { \
        HG_GEN_DECLS(fields) \
    } name; \
    HG_GEN_FUNCTION(name, fields, HG_GEN_WHOLE(fields))

/**
 * Define the proc function hg_proc_name of a struct that exists.
 *
 * Fields that are not listed do not travel. It stands at file scope, without a
 * semicolon.
 *
 * @param name    the struct type.
 * @param fields  as for MERCURY_GEN_PROC(). With HG_API_STRICT a field may be
 *                any part of the struct, such as `x[3]` or `y.z`.
 * @source Mercury design report, "Generic Processor Macros"
 */
#define MERCURY_GEN_STRUCT_PROC(name, fields) HG_GEN_STRUCT_PROC(name, fields)

/** The proc of the type `void`, for a function without an input or output. */
#define hg_proc_void HG_CAST(hg_proc_cb_t, HG_NULLPTR)

/**
 * Register a function by the names of its types.
 *
 * In the callback model it takes the class first: MERCURY_REGISTER(hg_class,
 * name, in_type, out_type, rpc_cb).
 *
 * It is HG_Register1() or HG_Register_name(), and also registers the names of
 * the types. A second registration of a name replaces the first. If the names
 * of the types differ, one warning with both is logged. Functions that are
 * registered without this macro are not compared, since their types have no
 * names. A stub does not replace another stub with other types:
 * see MERCURY_GEN_RPC_STUB().
 *
 * @param name      the name, a string.
 * @param in_type   the type of the input, or void.
 * @param out_type  the type of the output, or void.
 * @param rpc_cb    executes the call; NULL at a client.
 * @return the id (hg_id_t), as HG_Register1() returns it; 0 on failure.
 * @source Mercury design report, "Generic Processor Macros"
 */
#if HG_API_VERSION == 1
#define MERCURY_REGISTER(name, in_type, out_type, rpc_cb) \
    hg_gen_register1(name, #in_type " -> " #out_type, hg_proc_##in_type, \
        hg_proc_##out_type, rpc_cb)
#else
#define MERCURY_REGISTER(hg_class, name, in_type, out_type, rpc_cb) \
    hg_gen_register2(hg_class, name, #in_type " -> " #out_type, \
        hg_proc_##in_type, hg_proc_##out_type, rpc_cb)
#endif

#if !HG_API_STRICT
/**
 * Register a function at a client, in the request model.
 *
 * @param name      the name, a string.
 * @param in_type   the type of the input, or void.
 * @param out_type  the type of the output, or void.
 * @return the id (hg_id_t), as HG_Register1() returns it; 0 on failure.
 * @source Mercury paper (2013), Section IV-A
 */
#define HG_REGISTER(name, in_type, out_type) \
    hg_gen_register1(name, #in_type " -> " #out_type, hg_proc_##in_type, \
        hg_proc_##out_type, HG_CAST(hg_rpc_cb_t, HG_NULLPTR))

/**
 * Register a function at a server, in the request model.
 *
 * @param name      the name, a string.
 * @param rpc_cb    executes the call.
 * @param in_type   the type of the input, or void.
 * @param out_type  the type of the output, or void.
 * @return the id (hg_id_t), as HG_Register1() returns it; 0 on failure.
 * @source Mercury paper (2013), Section IV-A
 */
#define HG_HANDLER_REGISTER(name, rpc_cb, in_type, out_type) \
    hg_gen_register1(name, #in_type " -> " #out_type, hg_proc_##in_type, \
        hg_proc_##out_type, rpc_cb)
#endif
/** @} */

/* ==== Stubs ============================================================= */
/**
 * @defgroup hg_stubs Stubs
 *
 * MERCURY_GEN_RPC_STUB() makes a C function remote: one line generates the
 * functions that a client calls and the handler that calls the function at the
 * server. It is the recommended way to use hg.
 * @{
 */

/**
 * Generate the client functions and the handler of a remote C function.
 *
 * It stands at file scope, without a semicolon, in a header that both sides
 * include:
 *
 * @code
 * MERCURY_GEN_RPC_STUB(int32_t, divide,
 *     ((int32_t)(a))((int32_t)(b)), ((int32_t)(rest)))
 * @endcode
 *
 * The server defines the plain function that this line declares. A client does
 * not define it. Outputs are pointers:
 *
 * @code
 * int32_t divide(int32_t a, int32_t b, int32_t *rest);
 * @endcode
 *
 * These functions are generated:
 *
 * - divide_provide registers the function at a server, which then executes it.
 * - divide_register registers it at a client, which may also be a server. Both
 *   return the id of the function, or 0 (logged) if this class has registered
 *   the name with other types.
 * - divide_call calls the function and waits. `timeout` is in milliseconds; 0
 *   means no deadline. The inputs follow, then pointers to the outputs, and to
 *   the return value unless `type` is void. Pass NULL for an output that is not
 *   needed.
 * - divide_start calls the function and does not wait. The application owns the
 *   divide_call_t and keeps it until divide_end. If divide_start fails, there
 *   is nothing to end.
 * - divide_end frees the call once, and all memory that its outputs point to.
 *
 * In the request model:
 *
 * @code
 * hg_id_t divide_register(void);
 * hg_id_t divide_provide(void);
 * hg_return_t divide_call(na_addr_t addr, unsigned int timeout,
 *     int32_t a, int32_t b, int32_t *rest, int32_t *ret);
 * hg_return_t divide_start(divide_call_t *call, na_addr_t addr,
 *     unsigned int timeout, int32_t a, int32_t b);
 * hg_return_t divide_end(divide_call_t *call);
 * @endcode
 *
 * HG_Wait() waits for `call->request`. When it has returned HG_SUCCESS,
 * `call->out` holds the outputs, and `call->out.ret` the return value.
 * divide_end cancels a call in flight.
 *
 * In the callback model:
 *
 * @code
 * hg_id_t divide_register(hg_class_t *hg_class);
 * hg_id_t divide_provide(hg_class_t *hg_class);
 * hg_return_t divide_call(hg_context_t *context, hg_addr_t addr,
 *     unsigned int timeout, int32_t a, int32_t b, int32_t *rest, int32_t *ret);
 * hg_return_t divide_start(divide_call_t *call, hg_context_t *context,
 *     hg_addr_t addr, unsigned int timeout, int32_t a, int32_t b,
 *     void (*done)(divide_call_t *call, hg_return_t ret), void *arg);
 * hg_return_t divide_end(divide_call_t *call);
 * @endcode
 *
 * `done` runs as a callback in HG_Trigger(), and may call divide_end. With
 * HG_SUCCESS `call->out` holds the outputs. `call->arg` is `arg`. Before `done`
 * runs, divide_end returns HG_BUSY, and HG_Cancel(call->handle) cancels the
 * call. divide_call makes progress in its context: it runs callbacks and
 * handlers.
 *
 * **Return codes** are those of HG_Forward() and of the call. HG_NOENTRY means
 * that the function is not registered at one side. To report errors of its own,
 * the function returns them or has an output for them.
 *
 * **Types.** Both sides declare the same types in the same order. A fingerprint
 * of the type names travels with the call. If it differs, the server does not
 * execute the call, which ends with HG_PROTOCOL_ERROR. HG_Get_error_text() and
 * HG_Get_last_error_text() name the function and the types of both sides.
 *
 * Only names are compared. hg_const_string_t equals hg_string_t, and memory
 * equals hg_bulk_t. A typedef or struct with the same name and another layout
 * is not detected: the server decodes wrong values, or the call ends with a
 * decoding error. When a layout changes, rename the type or the function.
 * Functions of HG_Register() or MERCURY_REGISTER() are not compared with the
 * other side.
 *
 * **Memory** does not travel with the call: the function moves it. These types
 * of inputs describe memory. The function gets an hg_memory_t for each, and
 * calls HG_Bulk_pull() or HG_Bulk_push().
 *
 * - hg_memory_in_t: the function reads it. The caller passes two arguments,
 *   `const void *x, size_t x_size`. NULL is allowed with a size of 0.
 * - hg_memory_out_t: the function writes it. The caller passes `void *x, size_t
 *   x_size`. NULL is allowed with a size of 0.
 * - hg_bulk_t: a bulk handle that the caller creates and frees.
 *
 * After divide_start the memory of the first two stays in use until
 * divide_end. The memory of an hg_bulk_t stays in use until
 * HG_Bulk_handle_free().
 *
 * The member `call` of hg_memory_t is the handle of the call, which
 * HG_Handler_current() returns to any function.
 *
 * **The caller.** HG_Handler_current() returns the handle of the call while the
 * function runs: for HG_Get_peer_id(), HG_Is_canceled() and others. If the
 * function calls HG_Respond_error() with it, that is the response: the outputs
 * and the return value are ignored.
 *
 * **Exceptions.** If the function throws an exception, in C++, the call ends
 * with HG_OTHER_ERROR. Its error text is "the function threw an exception: "
 * and what() of the exception, or "no std::exception". The server logs a
 * warning. Memory of outputs of type hg_string_t that the function has set is
 * freed.
 *
 * **Strings** of inputs live until the function returns. An output of type
 * hg_const_string_t stays the function's, as a literal or a static buffer: the
 * library copies it when the function returns. An output of type hg_string_t
 * belongs to the library, which frees it: allocate it with
 * hg_proc_alloc(HG_PROC_NULL, size). A literal as hg_string_t crashes. The same
 * rules hold inside structs. Bulk handles among the outputs stay the
 * function's.
 *
 * @code
 * MERCURY_GEN_RPC_STUB(hg_const_string_t, color, ((uint32_t)(number)), )
 * hg_const_string_t color(uint32_t number)
 * {
 *     return number == 0 ? "red" : "green";
 * }
 * @endcode
 *
 * The caller of divide_call owns the strings that it stores, const or not, and
 * frees them with hg_proc_release(HG_PROC_NULL, string).
 *
 * The types divide_in_t and divide_out_t, their procs, and divide_handler are
 * generated, too. A server may register divide_handler with HG_Register().
 *
 * @param type     what the function returns: void, or a type of
 *                 MERCURY_GEN_PROC().
 * @param name     the name of the function, which cannot be static.
 * @param inputs   ((type)(name))..., any number or nothing. Names that begin
 *                 with hg_, and the name ret, are reserved.
 * @param outputs  ((type)(name))..., any number or nothing.
 */
#define MERCURY_GEN_RPC_STUB(type, name, inputs, outputs) \
    HG_STUB_BOTH(type, name, #name, inputs, outputs)

typedef hg_bulk_t hg_memory_in_t; /**< an input: memory of the caller to read */
typedef hg_bulk_t hg_memory_out_t; /**< an input: memory to write */

/**
 * Get the id that both sides derive from a name.
 *
 * @param func_name  the name; borrowed.
 * @return the id; 0 if the name is NULL.
 */
HG_EXPORT hg_id_t HG_Name_to_id(const char *func_name);

/**
 * Memory of a caller, as a function of MERCURY_GEN_RPC_STUB() gets it.
 *
 * It is valid until that function returns.
 */
typedef struct hg_memory {
    hg_handle_t call; /**< the call that is executed */
    hg_bulk_t bulk;   /**< the memory; HG_BULK_NULL: the caller gave none */
    size_t size;      /**< bytes */
} hg_memory_t;

/**
 * Read memory of the caller into a buffer, and wait.
 *
 * A function calls it while it executes a call, in either model, or another
 * thread before the handle of the call is freed. The transfer may take as long
 * as the option bulk_ms says.
 *
 * It moves memory of the caller. With the option passed_memory it also moves
 * memory of another process that the caller passed on, if its owner called
 * HG_Bulk_handle_bind() or HG_Bulk_bind().
 *
 * A client that is stopped delays this thread for that time. Over ZeroMQ and
 * MPI a client that makes no progress does so, too. Over sm the server copies
 * the memory itself and does not need the client, except where it goes through
 * shared memory (HG_SM_RMA). If the client does not read from the network, its
 * connection is closed 1 s later, and then the function returns.
 *
 * After HG_TIMEOUT the same bytes can be transferred again, while the client is
 * connected. Signals do not end the wait.
 *
 * It runs no handler. In the callback model it runs callbacks of the context of
 * the call.
 *
 * @param call      the call that this function executes.
 * @param bulk      the memory of its caller, or with passed_memory that its
 *                  owner has bound.
 * @param offset    where in that memory to begin.
 * @param[out] buf  the data; borrowed.
 * @param size      bytes; 0 is allowed.
 * @retval HG_SUCCESS         all bytes are in `buf`.
 * @retval HG_TIMEOUT         it was canceled after this time; a part may have
 *                            been moved. A warning names peer and function.
 * @retval HG_CANCELED        the caller does not wait any more: its deadline is
 *                            over, or it canceled the call; or the memory was
 *                            freed, or is of another process and not bound,
 *                            or passed_memory is not set.
 * @retval HG_DISCONNECT      the client or the owner of the memory died.
 * @retval HG_OVERFLOW        past the end of the memory.
 * @retval HG_PERMISSION      the flags of the memory forbid this direction.
 * @retval HG_INVALID_ARG     NULL with a size above 0, or `call` is a handle
 *                            of the client.
 * @retval HG_AGAIN           the client has too many transfers.
 * @retval HG_HOSTUNREACH     no connection to the owner of the memory; or the
 *                            memory was passed on, and its owner does not
 *                            listen.
 * @retval HG_NODEV           this side's bulk class cannot use the owner's
 *                            address.
 * @retval HG_FAULT           memory of one side cannot be accessed, see
 *                            hg-bulk(7).
 * @retval HG_CHECKSUM_ERROR  the data changed on the way (bulk_checksum).
 * @retval HG_PROTOCOL_ERROR  the handle lacks its owner's address on the bulk
 *                            class.
 * @retval HG_BUSY            this thread makes progress already.
 * @retval HG_NOMEM           out of memory.
 * @threads Any thread, while the call is not freed.
 */
HG_EXPORT hg_return_t HG_Bulk_pull(
    hg_handle_t call, hg_bulk_t bulk, size_t offset, void *buf, size_t size);

/**
 * Write a buffer to memory of the caller, and wait.
 *
 * Rules and return codes are those of HG_Bulk_pull().
 *
 * @param call    the call that this function executes.
 * @param bulk    the memory of its caller.
 * @param offset  where in that memory to begin.
 * @param buf     the data; borrowed.
 * @param size    bytes; 0 is allowed.
 * @retval HG_SUCCESS  all bytes are in the caller's memory.
 * @retval others      as HG_Bulk_pull().
 */
HG_EXPORT hg_return_t HG_Bulk_push(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, const void *buf, size_t size);

/**
 * Read memory of the caller within a given time, and wait.
 *
 * To allow a transfer more time than one call should block, split it.
 *
 * @param call      the call that this function executes.
 * @param bulk      the memory of its caller.
 * @param offset    where in that memory to begin.
 * @param[out] buf  the data; borrowed.
 * @param size      bytes; 0 is allowed.
 * @param timeout   milliseconds for the whole transfer; 0: no limit.
 * @retval HG_SUCCESS  all bytes are in `buf`.
 * @retval others      as HG_Bulk_pull().
 */
HG_EXPORT hg_return_t HG_Bulk_pull_timed(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, void *buf, size_t size, unsigned int timeout);

/**
 * Write to memory of the caller within a given time, and wait.
 *
 * To allow a transfer more time than one call should block, split it.
 *
 * @param call     the call that this function executes.
 * @param bulk     the memory of its caller.
 * @param offset   where in that memory to begin.
 * @param buf      the data; borrowed.
 * @param size     bytes; 0 is allowed.
 * @param timeout  milliseconds for the whole transfer; 0: no limit.
 * @retval HG_SUCCESS  all bytes are in the caller's memory.
 * @retval others      as HG_Bulk_pull().
 */
HG_EXPORT hg_return_t HG_Bulk_push_timed(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, const void *buf, size_t size, unsigned int timeout);
/** @} */
