/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Names of the first reports ======================================== */
/*
 * With HG_SEED_NAMES defined above the include: the names of the function
 * shipper and the bulk data shipper (fs_..., bds_...) and of the network layer
 * below them (na_...), as the design report before Mercury's prints them, for
 * programs written after it; and HG_Foward, a misprint in the Mercury paper.
 * Each name is a macro for a function of this library. New programs use that.
 *
 * A class of NA_Initialize serves wherever a na_network_class_t does. Functions
 * return S_SUCCESS, which is HG_SUCCESS, or a code of this library. They need
 * the request model: HG_API_STRICT leaves it out.
 */
#if defined(HG_SEED_NAMES) && HG_API_STRICT
#error "HG_SEED_NAMES needs the request model, which HG_API_STRICT leaves out"
#endif

#if (defined(HG_SEED_NAMES) || defined(HG_NA_PLUGIN_API)) && !HG_API_STRICT

/* ---- Functions behind names that have no other function here ---- */

/* Open the class that HG_SEED_ADDRESS in the environment names, else the
 * default transport. There is no MPI: the communicator is ignored. The class
 * listens if `flags` is not 0. NULL on failure. */
HG_EXPORT na_class_t *hg_seed_open(void *intra_comm, int flags);

/* Find a peer, within lookup_ms. */
HG_EXPORT na_return_t hg_seed_lookup(
    na_class_t *na_class, const char *name, na_addr_t *addr);

/* A request of the network layer. It takes a context of the class until
 * hg_seed_na_wait has seen its end; NA_Finalize is NA_BUSY before. */
typedef struct hg_seed_request *hg_seed_request_t;

/* Start an operation. Buffers, and what the receives fill, stay until its end.
 * *buf_len is the size of `buf`, and then that of the message. `op_arg` is
 * ignored. */
HG_EXPORT na_return_t hg_seed_send_unexpected(na_class_t *na_class,
    const void *buf, na_size_t buf_len, na_addr_t dest, na_tag_t tag,
    hg_seed_request_t *request, void *op_arg);
HG_EXPORT na_return_t hg_seed_recv_unexpected(na_class_t *na_class, void *buf,
    na_size_t *buf_len, na_addr_t *source, na_tag_t *tag,
    hg_seed_request_t *request, void *op_arg);
HG_EXPORT na_return_t hg_seed_send(na_class_t *na_class, const void *buf,
    na_size_t buf_len, na_addr_t dest, na_tag_t tag, hg_seed_request_t *request,
    void *op_arg);
HG_EXPORT na_return_t hg_seed_recv(na_class_t *na_class, void *buf,
    na_size_t buf_len, na_addr_t source, na_tag_t tag,
    hg_seed_request_t *request, void *op_arg);
HG_EXPORT na_return_t hg_seed_put(na_class_t *na_class, na_mem_handle_t local,
    na_offset_t local_offset, na_mem_handle_t remote, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr, hg_seed_request_t *request);
HG_EXPORT na_return_t hg_seed_get(na_class_t *na_class, na_mem_handle_t local,
    na_offset_t local_offset, na_mem_handle_t remote, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr, hg_seed_request_t *request);

/* Wait for `timeout` ms at most: the operation's result, with *status HG_TRUE,
 * and the request is freed. After the time: NA_SUCCESS with *status HG_FALSE,
 * or NA_TIMEOUT where `status` is NULL. */
HG_EXPORT na_return_t hg_seed_na_wait(na_class_t *na_class,
    hg_seed_request_t request, unsigned int timeout, hg_status_t *status);

/* Describe memory and let peers reach it; withdraw it and free the handle.
 * Flags of 0 are NA_MEM_READWRITE. */
HG_EXPORT na_return_t hg_seed_register(na_class_t *na_class, void *buf,
    na_size_t buf_len, unsigned long flags, na_mem_handle_t *mem_handle);
HG_EXPORT na_return_t hg_seed_deregister(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/* A memory handle as its length and its bytes, and back, from a buffer that may
 * be longer. */
HG_EXPORT na_return_t hg_seed_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_len, na_mem_handle_t mem_handle);
HG_EXPORT na_return_t hg_seed_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_len);

/* Begin and end the RPC layer, and the bulk layer. A process may begin each
 * several times with one class, as a client and as a server; the last end
 * counts. HG_EXIST: it runs on another class. In one thread at a time. */
HG_EXPORT hg_return_t hg_seed_init(na_class_t *na_class);
HG_EXPORT hg_return_t hg_seed_finalize(void);
HG_EXPORT hg_return_t hg_seed_bulk_init(na_class_t *na_class);
HG_EXPORT hg_return_t hg_seed_bulk_finalize(void);

HG_EXPORT hg_id_t hg_seed_register_call(
    const char *func_name, hg_proc_cb_t enc_routine, hg_proc_cb_t dec_routine);
HG_EXPORT void hg_seed_register_handler(const char *func_name,
    hg_return_t (*fs_routine)(hg_handle_t handle), hg_proc_cb_t dec_routine,
    hg_proc_cb_t enc_routine);

/* Strings in a struct, and bulk handles. At a server hg_seed_get_input decodes
 * them; they stay until the function that it was called in has completed the
 * call and has returned, and the library frees them. A bulk handle may be freed
 * by bds_handle_free before. In outputs they are the caller's: strings are
 * freed by hg_proc_release(HG_PROC_NULL, string). */
HG_EXPORT hg_return_t hg_seed_proc_string(hg_proc_t proc, void *data);
HG_EXPORT hg_return_t hg_seed_proc_bulk(hg_proc_t proc, void *data);

HG_EXPORT hg_return_t hg_seed_forward(na_addr_t addr, hg_id_t id,
    const void *in_struct, void *out_struct, hg_request_t *request);

/* Wait as hg_seed_na_wait does. The request is freed at its end; in the array
 * it becomes HG_REQUEST_NULL, which counts as ended. */
HG_EXPORT hg_return_t hg_seed_wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status);
HG_EXPORT hg_return_t hg_seed_wait_all(int count,
    hg_request_t array_of_requests[], unsigned int timeout,
    hg_status_t array_of_statuses[]);

/* Process calls for `timeout` ms at most. HG_SUCCESS also if none came. */
HG_EXPORT hg_return_t hg_seed_process(unsigned int timeout);
HG_EXPORT hg_return_t hg_seed_get_input(hg_handle_t handle, void *in_struct);
/* Answer, and free the handle. */
HG_EXPORT hg_return_t hg_seed_complete(
    hg_handle_t handle, const void *out_struct);

/* Flags of 0 are HG_BULK_READWRITE. */
HG_EXPORT hg_return_t hg_seed_bulk_create(
    void *buf, size_t buf_len, unsigned long flags, hg_bulk_t *handle);
HG_EXPORT hg_return_t hg_seed_bulk_free(hg_bulk_t handle);

/* Local memory, and the transfer that it is in: one at a time (HG_BUSY). It
 * moves as many bytes as the smaller one of both has. */
typedef struct hg_seed_block *hg_seed_block_t;

HG_EXPORT hg_return_t hg_seed_block_create(
    void *buf, size_t block_size, unsigned long flags, hg_seed_block_t *handle);
HG_EXPORT hg_return_t hg_seed_block_free(hg_seed_block_t block_handle);
HG_EXPORT size_t hg_seed_block_get_size(hg_seed_block_t block_handle);
HG_EXPORT hg_return_t hg_seed_block_write(
    hg_bulk_t handle, na_addr_t dest, hg_seed_block_t block_handle);
HG_EXPORT hg_return_t hg_seed_block_read(
    hg_bulk_t handle, na_addr_t source, hg_seed_block_t block_handle);
/* The transfer's result; HG_TIMEOUT: it goes on; HG_SUCCESS without one. */
HG_EXPORT hg_return_t hg_seed_block_wait(
    hg_seed_block_t block_handle, unsigned int timeout);

#endif

#ifdef HG_SEED_NAMES

/* ---- Types ---- */

typedef struct na_cb_info_lookup na_cb_info_lookup;

typedef na_class_t na_network_class_t;
typedef hg_seed_request_t na_request_t;
typedef hg_status_t na_status_t;

typedef hg_id_t fs_id_t;
typedef hg_proc_t fs_proc_t;
typedef hg_handle_t fs_handle_t;
typedef hg_request_t fs_request_t;
typedef hg_status_t fs_status_t;
typedef hg_const_string_t fs_string_t;

typedef hg_bulk_t bds_handle_t;
typedef hg_seed_block_t bds_block_handle_t;

#define S_SUCCESS HG_SUCCESS
#define S_FAIL HG_OTHER_ERROR
#ifndef S_ERROR_DEFAULT
#define S_ERROR_DEFAULT(text) ((void) fprintf(stderr, "%s\n", text))
#endif

/* ---- The network layer ---- */

#define na_mpi_init hg_seed_open
#define na_finalize NA_Finalize
#define na_get_unexpected_size NA_Msg_get_max_unexpected_size
#define na_addr_lookup hg_seed_lookup
#define na_addr_free NA_Addr_free
#define na_send_unexpected hg_seed_send_unexpected
#define na_recv_unexpected hg_seed_recv_unexpected
#define na_send hg_seed_send
#define na_recv hg_seed_recv
#define na_mem_register hg_seed_register
#define na_mem_deregister hg_seed_deregister
#define na_mem_handle_serialize hg_seed_serialize
#define na_mem_handle_deserialize hg_seed_deserialize
#define na_mem_handle_free NA_Mem_handle_free
#define na_put hg_seed_put
#define na_get hg_seed_get
#define na_wait hg_seed_na_wait

/* ---- The function shipper ---- */

#define fs_init hg_seed_init
#define fs_finalize hg_seed_finalize
#define fs_register hg_seed_register_call
#define fs_forward hg_seed_forward
#define fs_wait hg_seed_wait
#define fs_wait_all hg_seed_wait_all

#define fs_handler_init hg_seed_init
#define fs_handler_finalize hg_seed_finalize
#define fs_handler_register hg_seed_register_handler
#define fs_handler_get_input hg_seed_get_input
#define fs_handler_get_addr HG_Handler_get_addr
#define fs_handler_process hg_seed_process
#define fs_handler_complete hg_seed_complete

/* ---- The bulk data shipper ---- */

#define bds_init hg_seed_bulk_init
#define bds_finalize hg_seed_bulk_finalize
#define bds_handle_create hg_seed_bulk_create
#define bds_handle_free hg_seed_bulk_free
#define bds_handle_get_size HG_Bulk_handle_get_size
#define bds_handle_serialize HG_Bulk_handle_serialize
#define bds_handle_deserialize HG_Bulk_handle_deserialize
#define bds_write hg_seed_block_write
#define bds_read hg_seed_block_read
#define bds_wait hg_seed_block_wait
#define bds_block_handle_create hg_seed_block_create
#define bds_block_handle_free hg_seed_block_free
#define bds_block_handle_get_size hg_seed_block_get_size

/* ---- Procs ---- */

#define fs_proc_int8_t hg_proc_int8_t
#define fs_proc_uint8_t hg_proc_uint8_t
#define fs_proc_int16_t hg_proc_int16_t
#define fs_proc_uint16_t hg_proc_uint16_t
#define fs_proc_int32_t hg_proc_int32_t
#define fs_proc_uint32_t hg_proc_uint32_t
#define fs_proc_int64_t hg_proc_int64_t
#define fs_proc_uint64_t hg_proc_uint64_t
#define fs_proc_float hg_proc_float
#define fs_proc_double hg_proc_double
#define fs_proc_fs_string_t hg_seed_proc_string
#define fs_proc_bds_handle_t hg_seed_proc_bulk
#define hg_proc_fs_string_t hg_seed_proc_string
#define hg_proc_bds_handle_t hg_seed_proc_bulk

/* IOFSL_SHIPPER_GEN_PROC: the struct `name` with its proc, which is called
 * fs_proc_name and hg_proc_name. The type of each field has a function
 * fs_proc_type. */
#define HG_SEED_GEN_PROC(name, fields) \
    typedef struct { \
        HG_GEN_DECLS(fields) \
    } name; \
    HG_GEN_UNUSED static inline int fs_proc_##name(fs_proc_t proc, void *data) \
    { \
        name *hg_data = HG_CAST(name *, data); \
        hg_return_t hg_ret = HG_SUCCESS; \
        HG_GEN_CHECKS(fields) \
        if (hg_data == HG_NULLPTR) \
            return hg_proc_raw(proc, HG_NULLPTR, 1); \
        HG_SEED_STEPS(fields) \
        return hg_ret; \
    } \
    HG_GEN_UNUSED static inline int hg_proc_##name(fs_proc_t proc, void *data) \
    { \
        return fs_proc_##name(proc, data); \
    }
#define HG_SEED_STEP(type) \
    if (hg_ret == HG_SUCCESS) \
    hg_ret = fs_proc_##type HG_GEN_STEP_NAME
#define HG_SEED_STEPS(fields) HG_GEN_END(HG_SEED_STEP_A fields)
#define HG_SEED_STEP_A(field) HG_SEED_STEP field HG_SEED_STEP_B
#define HG_SEED_STEP_B(field) HG_SEED_STEP field HG_SEED_STEP_A
#define HG_SEED_STEP_A_END
#define HG_SEED_STEP_B_END

/* ---- The Mercury paper, Section IV-A ---- */

#define HG_Foward HG_Forward1

#endif /* HG_SEED_NAMES */
