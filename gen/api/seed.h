/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Names of the first reports ======================================== */
/*
 * HG_SEED_NAMES, defined above the include, declares the names of the design
 * report that came before Mercury: the function shipper (fs_...), the bulk data
 * shipper (bds_...) and their network layer (na_...). It also declares
 * HG_Foward, a misprint in the Mercury paper. New programs do not need it: each
 * name is a macro or an inline function that calls this library.
 *
 * A na_network_class_t is a class of NA_Initialize. Functions return S_SUCCESS,
 * which is HG_SUCCESS, or a code of this library. They belong to the request
 * model, so HG_API_STRICT excludes them.
 */
#if defined(HG_SEED_NAMES) && HG_API_STRICT
#error "HG_SEED_NAMES needs the request model, which HG_API_STRICT leaves out"
#endif

#if (defined(HG_SEED_NAMES) || defined(HG_NA_PLUGIN_API)) && !HG_API_STRICT

/* ---- Functions that exist only for these names ---- */

/* Open a class. The environment variable HG_SEED_ADDRESS has its address;
 * without it the default transport is used. The communicator is ignored. The
 * class listens if `flags` is not 0. Returns NULL on failure. */
HG_EXPORT na_class_t *hg_seed_open(void *intra_comm, int flags);

/* Write a memory handle as its length and its bytes, and read it back. The
 * buffer may be longer. */
HG_EXPORT na_return_t hg_seed_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_len, na_mem_handle_t mem_handle);
HG_EXPORT na_return_t hg_seed_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_len);

/* Start the RPC layer and the bulk layer, and stop them. A process may start
 * each several times on one class, as a client and as a server. The last stop
 * ends both. HG_EXIST: the layer runs on another class. Call them from one
 * thread at a time. */
HG_EXPORT hg_return_t hg_seed_init(na_class_t *na_class);
HG_EXPORT hg_return_t hg_seed_finalize(void);
HG_EXPORT hg_return_t hg_seed_bulk_init(na_class_t *na_class);

/* Wait for calls, for at most `timeout` ms. A completed call gives its result
 * and *status HG_TRUE, and its request is freed. In the array that request
 * becomes HG_REQUEST_NULL, which counts as completed. A call that has not
 * completed gives HG_SUCCESS and *status HG_FALSE, or HG_TIMEOUT if `status` is
 * NULL. */
HG_EXPORT hg_return_t hg_seed_wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status);
HG_EXPORT hg_return_t hg_seed_wait_all(int count,
    hg_request_t array_of_requests[], unsigned int timeout,
    hg_status_t array_of_statuses[]);

/* Process calls for at most `timeout` ms. HG_SUCCESS also if no call came. */
HG_EXPORT hg_return_t hg_seed_process(unsigned int timeout);
/* Respond, and free the handle. */
HG_EXPORT hg_return_t hg_seed_complete(
    hg_handle_t handle, const void *out_struct);

/* Log an error. Returns `ret`. */
HG_EXPORT hg_return_t hg_seed_refuse(
    hg_return_t ret, const char *function, const char *what);

#endif

#ifdef HG_SEED_NAMES

/* ---- Types ---- */

typedef struct na_cb_info_lookup na_cb_info_lookup;

typedef na_class_t na_network_class_t;
typedef struct hg_seed_request *na_request_t;
typedef hg_status_t na_status_t;

typedef hg_id_t fs_id_t;
typedef hg_proc_t fs_proc_t;
typedef hg_handle_t fs_handle_t;
typedef hg_request_t fs_request_t;
typedef hg_status_t fs_status_t;
typedef hg_const_string_t fs_string_t;

typedef hg_bulk_t bds_handle_t;
typedef struct hg_seed_block *bds_block_handle_t;

#define S_SUCCESS HG_SUCCESS
#define S_FAIL HG_OTHER_ERROR
#ifndef S_ERROR_DEFAULT
#define S_ERROR_DEFAULT(text) ((void) fprintf(stderr, "%s\n", text))
#endif

/* ---- The network layer ---- */

#define HG_SEED_INLINE HG_GEN_UNUSED static inline

/* A request holds a context of its class until na_wait returns its result. */
struct hg_seed_request {
    na_class_t *na_class;
    na_context_t *context;
    hg_status_t done;
    na_return_t ret;
    na_size_t *size_p; /* outputs of a receive; each may be NULL */
    na_addr_t *source_p;
    na_tag_t *tag_p;
};

HG_SEED_INLINE na_return_t hg_seed_ended(const struct na_cb_info *info)
{
    na_request_t request = HG_CAST(na_request_t, info->arg);
    const struct na_cb_info_recv_unexpected *got = &info->info.recv_unexpected;

    request->ret = info->ret;
    request->done = HG_TRUE;
    if (info->type != NA_CB_RECV_UNEXPECTED || info->ret != NA_SUCCESS)
        return NA_SUCCESS;
    if (request->size_p != HG_NULLPTR)
        *request->size_p = got->actual_buf_size;
    if (request->tag_p != HG_NULLPTR)
        *request->tag_p = got->tag;
    if (request->source_p != HG_NULLPTR)
        *request->source_p = got->source;
    else
        (void) NA_Addr_free(request->na_class, got->source);
    return NA_SUCCESS;
}

/* Create a request for an operation. Returns NULL (logged) on failure. */
HG_SEED_INLINE na_request_t hg_seed_begin(
    na_class_t *na_class, const na_request_t *request_p)
{
    na_request_t request = HG_NULLPTR;

    if (request_p == HG_NULLPTR)
        (void) hg_seed_refuse(HG_INVALID_ARG, "na_", "the request is NULL");
    else
        request = HG_CAST(
            na_request_t, hg_proc_alloc(HG_PROC_NULL, sizeof(*request)));
    if (request == HG_NULLPTR)
        return HG_NULLPTR;
    request->na_class = na_class;
    request->context = NA_Context_create(na_class);
    if (request->context != HG_NULLPTR)
        return request;
    hg_proc_release(HG_PROC_NULL, request);
    return HG_NULLPTR;
}

HG_SEED_INLINE void hg_seed_end(na_request_t request)
{
    (void) NA_Context_destroy(request->na_class, request->context);
    hg_proc_release(HG_PROC_NULL, request);
}

/* Start `operation`, an expression of type na_return_t, which uses the request
 * `made`. */
#define HG_SEED_START(operation) \
    na_return_t ret; \
    na_request_t made = hg_seed_begin(network_class, request); \
    if (made == HG_NULLPTR) \
        return NA_INVALID_ARG; \
    ret = operation; \
    if (ret == NA_SUCCESS) \
        *request = made; \
    else \
        hg_seed_end(made); \
    return ret;

HG_SEED_INLINE na_return_t na_send_unexpected(na_network_class_t *network_class,
    const void *buf, na_size_t buf_len, na_addr_t dest, na_tag_t tag,
    na_request_t *request, void *op_arg)
{
    (void) op_arg;
    HG_SEED_START(NA_Msg_send_unexpected(network_class, made->context,
        hg_seed_ended, made, buf, buf_len, dest, tag, NA_OP_ID_IGNORE))
}

/* *buf_len is the size of `buf`. On completion it is the size of the
 * message. */
HG_SEED_INLINE na_return_t na_recv_unexpected(na_network_class_t *network_class,
    void *buf, na_size_t *buf_len, na_addr_t *source, na_tag_t *tag,
    na_request_t *request, void *op_arg)
{
    (void) op_arg;
    if (buf_len == HG_NULLPTR)
        return HG_CAST(na_return_t,
            hg_seed_refuse(
                HG_INVALID_ARG, "na_recv_unexpected", "buf_len is NULL"));
    {
        HG_SEED_START(
            (made->size_p = buf_len, made->source_p = source, made->tag_p = tag,
                NA_Msg_recv_unexpected(network_class, made->context,
                    hg_seed_ended, made, buf, *buf_len, NA_OP_ID_IGNORE)))
    }
}

HG_SEED_INLINE na_return_t na_send(na_network_class_t *network_class,
    const void *buf, na_size_t buf_len, na_addr_t dest, na_tag_t tag,
    na_request_t *request, void *op_arg)
{
    (void) op_arg;
    HG_SEED_START(NA_Msg_send_expected(network_class, made->context,
        hg_seed_ended, made, buf, buf_len, dest, tag, NA_OP_ID_IGNORE))
}

HG_SEED_INLINE na_return_t na_recv(na_network_class_t *network_class, void *buf,
    na_size_t buf_len, na_addr_t source, na_tag_t tag, na_request_t *request,
    void *op_arg)
{
    (void) op_arg;
    HG_SEED_START(NA_Msg_recv_expected(network_class, made->context,
        hg_seed_ended, made, buf, buf_len, source, tag, NA_OP_ID_IGNORE))
}

HG_SEED_INLINE na_return_t na_put(na_network_class_t *network_class,
    na_mem_handle_t local_mem_handle, na_offset_t local_offset,
    na_mem_handle_t remote_mem_handle, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr,
    na_request_t *request){HG_SEED_START(NA_Put(network_class, made->context,
    hg_seed_ended, made, local_mem_handle, local_offset, remote_mem_handle,
    remote_offset, length, remote_addr, NA_OP_ID_IGNORE))}

HG_SEED_INLINE na_return_t na_get(na_network_class_t *network_class,
    na_mem_handle_t local_mem_handle, na_offset_t local_offset,
    na_mem_handle_t remote_mem_handle, na_offset_t remote_offset,
    na_size_t length, na_addr_t remote_addr,
    na_request_t *request){HG_SEED_START(NA_Get(network_class, made->context,
    hg_seed_ended, made, local_mem_handle, local_offset, remote_mem_handle,
    remote_offset, length, remote_addr, NA_OP_ID_IGNORE))}

/* Wait for an operation. A completed one gives its result and *status HG_TRUE,
 * and the request is freed. Otherwise NA_SUCCESS with *status HG_FALSE, or
 * NA_TIMEOUT if `status` is NULL. Only this operation uses the context. */
HG_SEED_INLINE na_return_t na_wait(na_network_class_t *network_class,
    na_request_t request, unsigned int timeout, na_status_t *status)
{
    na_return_t ret = NA_SUCCESS;

    if (request == HG_NULLPTR || request->na_class != network_class)
        return HG_CAST(na_return_t,
            hg_seed_refuse(
                HG_INVALID_ARG, "na_wait", "no request, or of another class"));
    if (!request->done)
        ret = NA_Progress(network_class, request->context, timeout);
    if (ret == NA_SUCCESS)
        (void) NA_Trigger(request->context, 0, 1, HG_NULLPTR);
    if (status != HG_NULLPTR)
        *status = request->done;
    if (!request->done) {
        if (ret == NA_TIMEOUT && status != HG_NULLPTR)
            ret = NA_SUCCESS;
        return ret;
    }
    ret = request->ret;
    hg_seed_end(request);
    return ret;
}

/* Look a peer up, within lookup_ms. */
HG_SEED_INLINE na_return_t na_addr_lookup(
    na_network_class_t *network_class, const char *name, na_addr_t *addr)
{
    return NA_Addr_lookup_wait(network_class, name, NA_MAX_IDLE_TIME, addr);
}

/* Describe memory and let peers reach it; end that and free the handle. Flags
 * of 0 mean NA_MEM_READWRITE. */
HG_SEED_INLINE na_return_t na_mem_register(na_network_class_t *network_class,
    void *buf, na_size_t buf_len, unsigned long flags,
    na_mem_handle_t *mem_handle)
{
    na_return_t ret = NA_Mem_handle_create(network_class, buf, buf_len,
        flags != 0 ? flags : NA_MEM_READWRITE + 0ul, mem_handle);

    if (ret != NA_SUCCESS)
        return ret;
    ret = NA_Mem_register(network_class, *mem_handle);
    if (ret != NA_SUCCESS)
        (void) NA_Mem_handle_free(network_class, *mem_handle);
    return ret;
}

HG_SEED_INLINE na_return_t na_mem_deregister(
    na_network_class_t *network_class, na_mem_handle_t mem_handle)
{
    na_return_t ret = NA_Mem_deregister(network_class, mem_handle);

    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_free(network_class, mem_handle);
    return ret;
}

#define na_mpi_init hg_seed_open
#define na_finalize NA_Finalize
#define na_get_unexpected_size NA_Msg_get_max_unexpected_size
#define na_addr_free NA_Addr_free
#define na_mem_handle_serialize hg_seed_serialize
#define na_mem_handle_deserialize hg_seed_deserialize
#define na_mem_handle_free NA_Mem_handle_free

/* ---- The function shipper ---- */

HG_SEED_INLINE fs_id_t fs_register(
    const char *func_name, hg_proc_cb_t enc_routine, hg_proc_cb_t dec_routine)
{
    return HG_Register1(
        func_name, enc_routine, dec_routine, HG_CAST(hg_rpc_cb_t, HG_NULLPTR));
}

HG_SEED_INLINE void fs_handler_register(const char *func_name,
    hg_rpc_cb_t fs_routine, hg_proc_cb_t dec_routine, hg_proc_cb_t enc_routine)
{
    (void) HG_Register1(func_name, dec_routine, enc_routine, fs_routine);
}

HG_SEED_INLINE hg_return_t fs_forward(na_addr_t addr, fs_id_t id,
    const void *in_struct, void *out_struct, fs_request_t *request)
{
#ifdef __cplusplus
    void *in = const_cast<void *>(in_struct);
#else
    void *in = (void *) (uintptr_t) in_struct;
#endif

    return HG_Forward1(addr, id, in, out_struct, request);
}

#define fs_init hg_seed_init
#define fs_finalize hg_seed_finalize
#define fs_wait hg_seed_wait
#define fs_wait_all hg_seed_wait_all
#define fs_handler_init hg_seed_init
#define fs_handler_finalize hg_seed_finalize
#define fs_handler_get_input HG_Handler_get_input
#define fs_handler_get_addr HG_Handler_get_addr
#define fs_handler_process hg_seed_process
#define fs_handler_complete hg_seed_complete

/* ---- The bulk data shipper ---- */

/* Local memory and its transfer. A second transfer at the same time gives
 * HG_BUSY. A transfer moves as many bytes as the smaller side has. */
struct hg_seed_block {
    hg_bulk_block_t block;
    hg_bulk_request_t request; /* NULL: no transfer */
};

/* Flags of 0 mean HG_BULK_READWRITE. */
HG_SEED_INLINE hg_return_t bds_handle_create(
    void *buf, size_t buf_len, unsigned long flags, bds_handle_t *handle)
{
    return HG_Bulk_handle_create(1, &buf, &buf_len,
        flags != 0 ? flags : HG_BULK_READWRITE + 0ul, handle);
}

HG_SEED_INLINE hg_return_t bds_block_handle_create(void *buf, size_t block_size,
    unsigned long flags, bds_block_handle_t *handle)
{
    bds_block_handle_t made =
        HG_CAST(bds_block_handle_t, hg_proc_alloc(HG_PROC_NULL, sizeof(*made)));
    hg_return_t ret = HG_NOMEM;

    if (made != HG_NULLPTR)
        ret = HG_Bulk_block_handle_create(buf, block_size,
            flags != 0 ? flags : HG_BULK_READWRITE + 0ul, &made->block);
    if (ret == HG_SUCCESS)
        *handle = made;
    else
        hg_proc_release(HG_PROC_NULL, made);
    return ret;
}

HG_SEED_INLINE size_t bds_block_handle_get_size(bds_block_handle_t block_handle)
{
    return HG_Bulk_block_handle_get_size(block_handle->block);
}

HG_SEED_INLINE hg_return_t hg_seed_transfer(hg_bulk_op_t op,
    bds_handle_t handle, na_addr_t addr, bds_block_handle_t block_handle)
{
    size_t size = HG_Bulk_handle_get_size(handle);
    size_t limit = bds_block_handle_get_size(block_handle);

    if (block_handle->request != HG_BULK_REQUEST_NULL)
        return hg_seed_refuse(HG_BUSY,
            op == HG_BULK_PULL ? "bds_read" : "bds_write",
            "the block handle is in a transfer: call bds_wait first");
    return HG_Bulk_transfer1(op, addr, handle, 0, block_handle->block, 0,
        size < limit ? size : limit, &block_handle->request);
}

HG_SEED_INLINE hg_return_t bds_write(
    bds_handle_t handle, na_addr_t dest, bds_block_handle_t block_handle)
{
    return hg_seed_transfer(HG_BULK_PUSH, handle, dest, block_handle);
}

HG_SEED_INLINE hg_return_t bds_read(
    bds_handle_t handle, na_addr_t source, bds_block_handle_t block_handle)
{
    return hg_seed_transfer(HG_BULK_PULL, handle, source, block_handle);
}

/* Wait for the transfer. HG_TIMEOUT: it has not completed and goes on.
 * HG_SUCCESS: it has completed, or none was started. */
HG_SEED_INLINE hg_return_t bds_wait(
    bds_block_handle_t block_handle, unsigned int timeout)
{
    hg_return_t ret = HG_SUCCESS;

    if (block_handle->request != HG_BULK_REQUEST_NULL)
        ret = HG_Bulk_wait(block_handle->request, timeout, HG_STATUS_IGNORE);
    if (ret != HG_TIMEOUT && ret != HG_INTR)
        block_handle->request = HG_BULK_REQUEST_NULL;
    return ret;
}

/* This ends a transfer that is under way. */
HG_SEED_INLINE hg_return_t bds_block_handle_free(
    bds_block_handle_t block_handle)
{
    hg_return_t ret = HG_Bulk_block_handle_free(block_handle->block);

    if (ret != HG_SUCCESS)
        return ret;
    (void) bds_wait(block_handle, HG_MAX_IDLE_TIME);
    hg_proc_release(HG_PROC_NULL, block_handle);
    return HG_SUCCESS;
}

#define bds_init hg_seed_bulk_init
#define bds_finalize hg_seed_finalize
#define bds_handle_free HG_Bulk_handle_free
#define bds_handle_get_size HG_Bulk_handle_get_size
#define bds_handle_serialize HG_Bulk_handle_serialize
#define bds_handle_deserialize HG_Bulk_handle_deserialize

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
#define fs_proc_fs_string_t hg_proc_hg_const_string_t
#define fs_proc_bds_handle_t hg_proc_hg_bulk_t
#define hg_proc_fs_string_t hg_proc_hg_const_string_t
#define hg_proc_bds_handle_t hg_proc_hg_bulk_t

/* IOFSL_SHIPPER_GEN_PROC declares the struct `name` and its proc, with the
 * names fs_proc_name and hg_proc_name. The type of each field has a function
 * fs_proc_type. */
#define HG_SEED_GEN_PROC(name, fields) \
    typedef struct { \
        HG_GEN_DECLS(fields) \
    } name; \
    HG_GEN_UNUSED static inline hg_return_t fs_proc_##name( \
        fs_proc_t proc, void *data) \
    { \
        name *hg_data = HG_CAST(name *, data); \
        hg_return_t hg_ret = HG_SUCCESS; \
        HG_GEN_CHECKS(fields) \
        if (hg_data == HG_NULLPTR) \
            return hg_proc_raw(proc, HG_NULLPTR, 1); \
        HG_SEED_STEPS(fields) \
        return hg_ret; \
    } \
    HG_GEN_UNUSED static inline hg_return_t hg_proc_##name( \
        fs_proc_t proc, void *data) \
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
