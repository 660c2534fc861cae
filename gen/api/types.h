/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Types ============================================================== */

typedef struct na_class na_class_t;
typedef struct na_context na_context_t;
typedef struct na_addr *na_addr_t;
typedef struct na_mem_handle *na_mem_handle_t;
typedef struct na_op_id *na_op_id_t; /* an index and a generation, no memory */
typedef uint8_t na_bool_t;
typedef uint64_t na_size_t;
typedef uint64_t na_offset_t;
typedef uint32_t na_tag_t;

#define NA_TRUE 1
#define NA_FALSE 0
#define NA_ADDR_NULL HG_CAST(na_addr_t, HG_NULLPTR)
#define NA_MEM_HANDLE_NULL HG_CAST(na_mem_handle_t, HG_NULLPTR)
#define NA_OP_ID_NULL HG_CAST(na_op_id_t, HG_NULLPTR)
#define NA_OP_ID_IGNORE \
    HG_CAST(na_op_id_t *, HG_NULLPTR)  /* where one is returned */
#define NA_MAX_ADDR_LEN 256            /* with the terminating NUL */
#define NA_MAX_IDLE_TIME (3600 * 1000) /* an hour, in milliseconds */

typedef uint64_t hg_id_t;    /* of a registered name; 0: none */
typedef uint8_t hg_bool_t;   /* HG_TRUE, HG_FALSE */
typedef uint8_t hg_status_t; /* HG_TRUE once completed, whatever came out */
typedef char *hg_string_t;   /* on the wire NULL stays NULL */
typedef const char *hg_const_string_t;
typedef struct hg_handle *hg_handle_t;
#if !HG_API_STRICT
typedef struct hg_request *hg_request_t;
#endif
typedef struct hg_bulk *hg_bulk_t, *hg_bulk_block_t;
typedef struct hg_bulk_request *hg_bulk_request_t;
typedef struct hg_proc *hg_proc_t;
typedef struct hg_checksum *hg_checksum_t;

#define HG_TRUE 1
#define HG_FALSE 0
#define HG_HANDLE_NULL HG_CAST(hg_handle_t, HG_NULLPTR)
#define HG_REQUEST_NULL HG_CAST(hg_request_t, HG_NULLPTR)
#define HG_BULK_NULL HG_CAST(hg_bulk_t, HG_NULLPTR)
#define HG_BULK_REQUEST_NULL HG_CAST(hg_bulk_request_t, HG_NULLPTR)
#define HG_PROC_NULL HG_CAST(hg_proc_t, HG_NULLPTR)
#define HG_CHECKSUM_NULL HG_CAST(hg_checksum_t, HG_NULLPTR)
#define HG_STATUS_IGNORE HG_CAST(hg_status_t *, HG_NULLPTR)
#define HG_MAX_IDLE_TIME NA_MAX_IDLE_TIME /* an hour, in milliseconds */

/* HG_SUCCESS, or the code the call ends with. After a step failed all others
 * of the same proc object fail with the same code, which counts even if the
 * function returns HG_SUCCESS. */
typedef hg_return_t (*hg_proc_cb_t)(hg_proc_t proc, void *data);

/* Executes a call. It may answer now or later, from any thread. A code other
 * than HG_SUCCESS before the output was started goes to the caller, and the
 * library frees the handle. HG_TIMEOUT and HG_INTR, which tell a caller that
 * the call has not completed, and numbers that are no code travel as
 * HG_OTHER_ERROR (logged). Results of the application are best a field of the
 * output, and codes left to what goes wrong. A call that is neither answered
 * nor freed leaves its caller waiting; HG_Finalize logs how many there are. */
typedef hg_return_t (*hg_rpc_cb_t)(hg_handle_t handle);
