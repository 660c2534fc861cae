/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Structs and their procs =========================================== */
/*
 * MERCURY_GEN_PROC(name, ((type)(field))((type)(field))...) at file scope,
 * without a semicolon, defines the struct type `name` and its proc function
 * hg_proc_name. MERCURY_GEN_STRUCT_PROC does the second for a struct that
 * exists, whose other fields stay at home. Any number of fields.
 *
 * A field is one identifier: no array, no pointer; `x[3]` and `*p` do not
 * compile. With HG_API_STRICT a field of an existing struct may be any part of
 * it, such as `x[3]` or `y.z`. A type is any single word `t` with a proc
 * function hg_proc_t, so not `int` or `unsigned int`, which are not of one size
 * everywhere:
 *
 *     int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
 *     float double hg_bool_t hg_string_t hg_const_string_t hg_bulk_t
 *     what these macros made before, structs and typedefs of one's own
 *
 * An array, a blob, an optional field is a type of one's own: a struct, and
 * its proc function written by hand, as examples/array.c shows.
 *
 * Mercury design report, "Generic Processor Macros".
 */

#define MERCURY_GEN_PROC(name, fields) \
    typedef struct { \
        HG_GEN_DECLS(fields) \
    } name; \
    HG_GEN_FUNCTION(name, fields, HG_GEN_WHOLE(fields))

#define MERCURY_GEN_STRUCT_PROC(name, fields) HG_GEN_STRUCT_PROC(name, fields)

/* The type `void` where there is nothing to carry. */
#define hg_proc_void HG_CAST(hg_proc_cb_t, HG_NULLPTR)

/* Register a name with its types; an expression of type hg_id_t. */
#if HG_API_VERSION == 1
#define MERCURY_REGISTER(name, in_type, out_type, rpc_cb) \
    HG_Register1(name, hg_proc_##in_type, hg_proc_##out_type, rpc_cb)
#else
#define MERCURY_REGISTER(hg_class, name, in_type, out_type, rpc_cb) \
    hg_gen_register( \
        hg_class, name, hg_proc_##in_type, hg_proc_##out_type, rpc_cb)
#endif

/* The names of the Mercury paper (2013), Section IV-A. */
#if !HG_API_STRICT
#define HG_REGISTER(name, in_type, out_type) \
    HG_Register1(name, hg_proc_##in_type, hg_proc_##out_type, \
        HG_CAST(hg_rpc_cb_t, HG_NULLPTR))
#define HG_HANDLER_REGISTER(name, rpc_cb, in_type, out_type) \
    HG_Register1(name, hg_proc_##in_type, hg_proc_##out_type, rpc_cb)
#endif

/* ==== Stubs ============================================================= */
/*
 * MERCURY_GEN_RPC_STUB(type, name, inputs, outputs) at file scope, without a
 * semicolon, makes all that stands between a call here and a C function there:
 *
 *     MERCURY_GEN_RPC_STUB(int32_t, divide,
 *         ((int32_t)(a))((int32_t)(b)), ((int32_t)(rest)))
 *
 * `type` is what the function returns, void or a type of MERCURY_GEN_PROC;
 * inputs and outputs are fields as there, any number, or nothing. It stands in
 * a header that both sides include, and gives (<in> are the inputs, <out>
 * pointers to the outputs and, unless void, to what the function returns)
 *
 *     int32_t divide(int32_t a, int32_t b, int32_t *rest);
 *                      declared: a plain function, which the target defines;
 *     divide_register  register it at an origin, which may be a target, too;
 *     divide_provide   ... at a target, to be executed;
 *     divide_call      call it and wait, for `timeout` ms, 0: without a
 *                      deadline. What an output points to is the caller's then;
 *                      a NULL is not wanted;
 *     divide_start     call it and go on, with a divide_call_t of the
 *                      application's for what belongs to the call;
 *     divide_end       free that, once: whatever the outputs point to, too.
 *
 * and the types and functions these are made of: divide_in_t, divide_out_t
 * (`ret` is what the function returned), their procs, and divide_handler, which
 * a target may register under HG_Register itself. In the request model
 *
 *     hg_id_t divide_register(void);
 *     hg_id_t divide_provide(void);
 *     hg_return_t divide_call(na_addr_t addr, unsigned int timeout, <in>,
 *         <out>);
 *     hg_return_t divide_start(divide_call_t *call, na_addr_t addr,
 *         unsigned int timeout, <in>);
 *     hg_return_t divide_end(divide_call_t *call);
 *
 * where call->request is waited for by HG_Wait, call->out is filled when it is
 * over, and divide_end of one in flight takes it back. In the callback model
 *
 *     hg_id_t divide_register(hg_class_t *hg_class);
 *     hg_id_t divide_provide(hg_class_t *hg_class);
 *     hg_return_t divide_call(hg_context_t *context, hg_addr_t addr,
 *         unsigned int timeout, <in>, <out>);
 *     hg_return_t divide_start(divide_call_t *call, hg_context_t *context,
 *         hg_addr_t addr, unsigned int timeout, <in>,
 *         void (*done)(divide_call_t *call, hg_return_t ret), void *arg);
 *     hg_return_t divide_end(divide_call_t *call);
 *
 * where `done` runs as a callback does, finds `arg` in call->arg and, with
 * HG_SUCCESS, the outputs in call->out, and may end the call; before, HG_BUSY
 * is what divide_end returns, and HG_Cancel(call->handle) makes an end.
 * divide_call makes progress in its context, and so runs callbacks and calls.
 * Where a function fails, there is nothing to end.
 *
 * What is returned are the codes of HG_Forward and of the call: HG_NOENTRY: the
 * function is registered not here, or not there. A function that wants to
 * report errors of its own returns them, or has an output for them.
 *
 * Types: both sides must declare the same types in the same order. A
 * fingerprint of their names travels with the call. If it differs from that of
 * the target's function, the target does not execute the call, which ends with
 * HG_PROTOCOL_ERROR; HG_Get_error_text and HG_Get_last_error_text name the
 * function and the types of both sides.
 *
 * Only names are compared (hg_const_string_t counts as hg_string_t, and memory
 * as hg_bulk_t). A typedef of the same name for another type, or a struct of
 * MERCURY_GEN_PROC of the same name with other fields, is not noticed: the
 * target then decodes wrong values, or the call ends with a decoding error.
 * When a layout changes, give the type or the function a new name. A function
 * registered by HG_Register or MERCURY_REGISTER is not compared. NAME_register
 * and NAME_provide return 0 (logged) if the class has NAME with other types.
 *
 * Memory: inputs of these types are moved by the function, not with the call;
 * there each is a hg_memory_t, for HG_Bulk_pull and HG_Bulk_push.
 *
 *     hg_memory_in_t     two arguments here, const void *x, size_t x_size: the
 *                        function reads it; NULL only with a size of 0
 *     hg_memory_out_t    void *x, size_t x_size: the function writes it
 *     hg_bulk_t          a bulk handle, which the caller made, and frees
 *
 * Strings: those of the inputs live until the function returns. An output of
 * type hg_const_string_t stays the function's: it may be a literal or a static
 * buffer, is copied when the function returns, and is not freed. An
 * output of type hg_string_t passes to the library, which frees it: allocate it
 * with hg_proc_alloc(HG_PROC_NULL, size). A literal returned as hg_string_t is
 * wrong and crashes, since free gets memory that was not allocated. The same
 * holds for strings inside structs. Bulk handles among the outputs stay the
 * function's.
 *
 *     MERCURY_GEN_RPC_STUB(hg_const_string_t, color, ((uint32_t)(number)), )
 *     hg_const_string_t color(uint32_t number)
 *     {
 *         return number == 0 ? "red" : "green";
 *     }
 *
 * The caller owns the strings that NAME_call stores, const or not, and frees
 * them with hg_proc_release(HG_PROC_NULL, string).
 *
 * Names that begin with hg_, and the name ret, are not for parameters; nor can
 * the function be static.
 */

#define MERCURY_GEN_RPC_STUB(type, name, inputs, outputs) \
    HG_STUB_BOTH(type, name, inputs, outputs)

typedef hg_bulk_t hg_memory_in_t;
typedef hg_bulk_t hg_memory_out_t;

/* The id that both sides derive from a name; 0 for a NULL. */
HG_EXPORT hg_id_t HG_Name_to_id(const char *func_name);

/* Memory of a caller, as a function of MERCURY_GEN_RPC_STUB gets it: good until
 * that returns. */
typedef struct hg_memory {
    hg_handle_t call;
    hg_bulk_t bulk; /* HG_BULK_NULL: the caller gave none */
    size_t size;
} hg_memory_t;

/* Move `size` bytes of a caller's memory, from `offset` on, to `buf` (pull) or
 * from there (push), and wait until they are moved: while a call is executed,
 * in either model. `call` is the handle of that call. `buf` is borrowed. Like
 * HG_Bulk_wait they run no handler; in the callback model they run callbacks of
 * the call's context.
 *
 * The whole transfer may take `timeout` ms; with 0 it has no limit. Without
 * _timed the limit is the option bulk_ms. A client that stops making progress
 * in the middle holds the calling thread up for that long at most, and 1 s more
 * if it does not read from the network: then it loses its connection. Split a
 * transfer that is allowed to take longer.
 *
 * Returns what HG_Bulk_transfer1 and HG_Bulk_wait return, but for HG_NOENTRY,
 * and
 *     HG_TIMEOUT       the time is over: the transfer was canceled, a part of
 *                      the data may have been moved, the log names the peer
 *                      and the function (a warning)
 *     HG_CANCELED      nobody waits for the call any more: its deadline is
 *                      over, it was canceled, or the caller gave the memory
 *                      back
 *     HG_DISCONNECT    the client died
 *     HG_INVALID_ARG   a NULL, with a size other than 0, or a handle of a call
 *                      made from here */
HG_EXPORT hg_return_t HG_Bulk_pull(
    hg_handle_t call, hg_bulk_t bulk, size_t offset, void *buf, size_t size);
HG_EXPORT hg_return_t HG_Bulk_push(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, const void *buf, size_t size);
HG_EXPORT hg_return_t HG_Bulk_pull_timed(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, void *buf, size_t size, unsigned int timeout);
HG_EXPORT hg_return_t HG_Bulk_push_timed(hg_handle_t call, hg_bulk_t bulk,
    size_t offset, const void *buf, size_t size, unsigned int timeout);
