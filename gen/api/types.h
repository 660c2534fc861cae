/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Types ============================================================== */
/**
 * @defgroup hg_types Types
 *
 * Handles of objects are opaque. The functions that create and free each object
 * say how long it lives.
 * @{
 */

/** An endpoint of one transport, or of several: NA_Initialize(). */
typedef struct na_class na_class_t;
/** A place where operations complete: NA_Context_create(). */
typedef struct na_context na_context_t;
/** A reference to a peer's address: NA_Addr_lookup_wait(), NA_Addr_free(). */
typedef struct na_addr *na_addr_t;
/** A description of memory for NA_Put() and NA_Get(). */
typedef struct na_mem_handle *na_mem_handle_t;
/** An operation in flight, for NA_Cancel(): a number, never freed. */
typedef struct na_op_id *na_op_id_t;
typedef uint8_t na_bool_t;    /**< NA_TRUE or NA_FALSE */
typedef uint64_t na_size_t;   /**< a size in bytes */
typedef uint64_t na_offset_t; /**< an offset in bytes */
typedef uint32_t na_tag_t;    /**< the tag of a message */

#define NA_TRUE 1                                   /**< true */
#define NA_FALSE 0                                  /**< false */
#define NA_ADDR_NULL HG_CAST(na_addr_t, HG_NULLPTR) /**< no address */
#define NA_MEM_HANDLE_NULL \
    HG_CAST(na_mem_handle_t, HG_NULLPTR)              /**< no handle */
#define NA_OP_ID_NULL HG_CAST(na_op_id_t, HG_NULLPTR) /**< no operation */
/** The argument `op_id` of a caller that does not need the operation. */
#define NA_OP_ID_IGNORE HG_CAST(na_op_id_t *, HG_NULLPTR)
/** The longest address string, with its terminating NUL. */
#define NA_MAX_ADDR_LEN 256
/** An hour in milliseconds, for waits without a limit of their own. */
#define NA_MAX_IDLE_TIME (3600 * 1000)

typedef uint64_t hg_size_t;  /**< a size in bytes */
typedef uint64_t hg_id_t;    /**< the id of a registered function; 0: none */
typedef uint8_t hg_bool_t;   /**< HG_TRUE or HG_FALSE */
typedef uint8_t hg_status_t; /**< HG_TRUE once completed, with any result */
typedef char *hg_string_t;   /**< a string; NULL arrives as NULL */
typedef const char *hg_const_string_t; /**< a string that is not changed */
/** A call, of the client or the server. */
typedef struct hg_handle *hg_handle_t;
/** A class of the callback model, an endpoint: HG_Init2(). */
typedef struct hg_class hg_class_t;
/** A completion queue of such a class: HG_Context_create(). */
typedef struct hg_context hg_context_t;
#if !HG_API_STRICT
/** A call of the request model: HG_Forward1(), HG_Request_free(). */
typedef struct hg_request *hg_request_t;
#endif
/** A description of memory for bulk transfers: HG_Bulk_handle_create(). */
typedef struct hg_bulk *hg_bulk_t;
/** A bulk handle of one segment, in the names of the first paper. */
typedef struct hg_bulk *hg_bulk_block_t;
/** A bulk transfer of the request model: HG_Bulk_transfer1(). */
typedef struct hg_bulk_request *hg_bulk_request_t;
/** The state of encoding, decoding or freeing, which a proc function gets. */
typedef struct hg_proc *hg_proc_t;
/** A checksum object of Mercury's interface. */
typedef struct hg_checksum *hg_checksum_t;

#define HG_TRUE 1  /**< true */
#define HG_FALSE 0 /**< false */
/** No call. */
#define HG_HANDLE_NULL HG_CAST(hg_handle_t, HG_NULLPTR)
/** No request. */
#define HG_REQUEST_NULL HG_CAST(hg_request_t, HG_NULLPTR)
/** No bulk handle. */
#define HG_BULK_NULL HG_CAST(hg_bulk_t, HG_NULLPTR)
/** No bulk transfer. */
#define HG_BULK_REQUEST_NULL HG_CAST(hg_bulk_request_t, HG_NULLPTR)
/** No proc object, for hg_proc_alloc() and hg_proc_release(). */
#define HG_PROC_NULL HG_CAST(hg_proc_t, HG_NULLPTR)
/** No checksum. */
#define HG_CHECKSUM_NULL HG_CAST(hg_checksum_t, HG_NULLPTR)
/** The argument `status` of a caller that does not need the status. */
#define HG_STATUS_IGNORE HG_CAST(hg_status_t *, HG_NULLPTR)
/** An hour in milliseconds, for waits without a limit of their own. */
#define HG_MAX_IDLE_TIME NA_MAX_IDLE_TIME

/**
 * Encodes, decodes or frees one value.
 *
 * After one step has failed, all later steps of the same proc object fail with
 * the same code. The call then ends with that code, even if this function
 * returns HG_SUCCESS.
 *
 * It may call the library, but must not end the class, the context or the call
 * that it works for.
 *
 * One that is registered with HG_Register() must not throw an exception of C++.
 * If that of a field throws one, the proc function that MERCURY_GEN_PROC() or a
 * stub generates catches it and returns HG_OTHER_ERROR (logged).
 *
 * @param proc  what to do, and with which bytes.
 * @param data  the value.
 * @return HG_SUCCESS, or the code that the call ends with.
 * @threads It runs in the thread that encodes, decodes or frees the value, with
 * no lock held.
 */
typedef hg_return_t (*hg_proc_cb_t)(hg_proc_t proc, void *data);

/**
 * Executes a call in the server.
 *
 * It runs in a thread that makes progress. It may respond at once or later,
 * from any thread. A call without a response, whose handle is not freed, leaves
 * its caller waiting; HG_Finalize() logs how many there are.
 *
 * If it returns an error and has not responded, the library sends that code to
 * the caller. In the request model the library then also frees the handle. In
 * the callback model the function itself calls HG_Destroy() in any case.
 * HG_TIMEOUT, HG_INTR and numbers that are no code travel as HG_OTHER_ERROR
 * (logged), since the first two tell a caller that its call has not completed.
 *
 * It is called from C: it must not throw an exception of C++. The handler that
 * MERCURY_GEN_RPC_STUB() generates catches those of the stub's function.
 *
 * In the callback model it may call every function, except HG_Context_destroy()
 * of its context and HG_Finalize2() of its class. See hg-threads(7).
 *
 * Prefer a field of the output for results of the application, and return codes
 * for failures.
 *
 * @param handle  the call, for HG_Handler_free() or HG_Destroy().
 * @return HG_SUCCESS, or the code for the caller.
 */
typedef hg_return_t (*hg_rpc_cb_t)(hg_handle_t handle);
/** @} */
