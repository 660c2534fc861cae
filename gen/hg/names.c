/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names: functions under other names: those of the first reports (api/seed.h)
 * that need a state of the process or thread, and Mercury's symbols whose names
 * are macros in hg.h. They use the public functions. This is the last part of
 * hg.c: it restores the warnings for the code that follows in a unity build.
 *
 * Locking: none. One thread at a time uses `hg_seed_layers`, as api/seed.h
 * says.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "bulk/bulk.h"
#include "hg/request.h"
#include "proc/proc.h"

/* ---- The network layer ---- */

hg_return_t hg_seed_refuse(
    hg_return_t ret, const char *function, const char *what)
{
    HG_ASSERT(ret != HG_SUCCESS);
    (void) hg_log_misuse("rpc", function, what);
    return ret;
}

/* A client needs only the scheme. */
na_class_t *hg_seed_open(void *intra_comm, int flags)
{
    const char *name = getenv("HG_SEED_ADDRESS");
    const char *end = name != NULL ? strstr(name, "://") : NULL;
    char scheme[NA_MAX_ADDR_LEN];

    (void) intra_comm;
    if (flags == 0 && end != NULL) {
        (void) snprintf(
            scheme, sizeof(scheme), "%.*s", (int) (end + 3 - name), name);
        name = scheme;
    }
    return NA_Initialize(name, flags != 0 ? NA_TRUE : NA_FALSE);
}

/* The reports have no function that returns the size of a serialized handle.
 * Therefore its length precedes it, as a uint32_t. */
#define HG_SEED_LENGTH 4

na_return_t hg_seed_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_len, na_mem_handle_t mem_handle)
{
    na_size_t size = NA_Mem_handle_get_serialize_size(na_class, mem_handle);
    unsigned char *bytes = (unsigned char *) buf;

    if (buf == NULL || size == 0)
        return hg_log_misuse(
            "rpc", "na_mem_handle_serialize", "an argument is NULL");
    if (buf_len < HG_SEED_LENGTH || buf_len - HG_SEED_LENGTH < size) {
        hg_log_error("rma",
            "a memory handle has %" PRIu64
            " bytes, but the buffer only %" PRIu64,
            size + HG_SEED_LENGTH, buf_len);
        return NA_MSGSIZE;
    }
    HG_ASSERT(size <= UINT32_MAX);
    hg_wire_store32(bytes, (uint32_t) size);
    return NA_Mem_handle_serialize(
        na_class, bytes + HG_SEED_LENGTH, size, mem_handle);
}

na_return_t hg_seed_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_len)
{
    const unsigned char *bytes = (const unsigned char *) buf;

    if (buf == NULL)
        return hg_log_misuse(
            "rpc", "na_mem_handle_deserialize", "an argument is NULL");
    if (buf_len < HG_SEED_LENGTH ||
        hg_wire_load32(bytes) > buf_len - HG_SEED_LENGTH) {
        hg_log_error("rma",
            "these %" PRIu64 " bytes are not a memory handle with its length",
            buf_len);
        return NA_PROTOCOL_ERROR;
    }
    return NA_Mem_handle_deserialize(
        na_class, mem_handle, bytes + HG_SEED_LENGTH, hg_wire_load32(bytes));
}

/* ---- Layers, which begin several times ---- */

/* Both layers end together, when the last user of either ends. */
static struct hg_seed_layers {
    na_class_t *rpc;  /* set by HG_Init1; NULL: not called */
    na_class_t *bulk; /* set by HG_Bulk_init; NULL: not called */
    unsigned users;
} hg_seed_layers;

/* A child of fork has none of its parent's layers. */
static void hg_seed_check_fork(void)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    const na_class_t *any = layers->rpc != NULL ? layers->rpc : layers->bulk;

    if (any != NULL && na_class_is_forked(any))
        memset(layers, 0, sizeof(*layers));
}

static hg_return_t hg_seed_use(na_class_t **layer, na_class_t *na_class,
    hg_return_t (*begin)(na_class_t *na_class))
{
    hg_return_t ret = HG_SUCCESS;

    if (*layer == NULL) {
        ret = begin(na_class);
    } else if (*layer != na_class) {
        hg_log_error("rpc", "the layer already runs on another class");
        ret = HG_EXIST;
    }
    if (ret != HG_SUCCESS)
        return ret;
    *layer = na_class;
    hg_seed_layers.users++;
    return HG_SUCCESS;
}

hg_return_t hg_seed_init(na_class_t *na_class)
{
    hg_seed_check_fork();
    return hg_seed_use(&hg_seed_layers.rpc, na_class, HG_Init1);
}

hg_return_t hg_seed_bulk_init(na_class_t *na_class)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    /* The RPC layer starts the bulk layer on its class, unless it was started
     * before. */
    bool begun;

    hg_seed_check_fork();
    begun = layers->rpc != NULL && layers->bulk == NULL;
    return hg_seed_use(
        begun ? &layers->rpc : &layers->bulk, na_class, HG_Bulk_init);
}

hg_return_t hg_seed_finalize(void)
{
    struct hg_seed_layers *layers = &hg_seed_layers;
    hg_return_t ret = HG_SUCCESS;

    hg_seed_check_fork();
    if (layers->users > 1) {
        layers->users--;
        return HG_SUCCESS;
    }
    if (layers->rpc != NULL || layers->bulk == NULL)
        ret = HG_Finalize1(); /* logs that there is no layer */
    if (ret != HG_SUCCESS)
        return ret;
    layers->rpc = NULL;
    if (layers->bulk != NULL)
        ret = HG_Bulk_finalize();
    if (ret == HG_SUCCESS)
        memset(layers, 0, sizeof(*layers));
    return ret;
}

/* ---- The function shipper ---- */

hg_return_t hg_seed_wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status)
{
    hg_status_t done = HG_FALSE;
    hg_return_t ret = HG_Wait(request, timeout, &done);

    if (status != NULL)
        *status = done;
    if (!done)
        return ret == HG_TIMEOUT && status != NULL ? HG_SUCCESS : ret;
    hg_request_keep_output(request);
    (void) HG_Request_free(request);
    return ret;
}

hg_return_t hg_seed_wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[])
{
    uint64_t deadline = hg_clock_after_ms(timeout);
    hg_return_t first = HG_SUCCESS;
    bool all = true;
    int i;

    if (count < 0 || (count > 0 && array_of_requests == NULL))
        return hg_log_misuse("rpc", "fs_wait_all", "the requests are NULL");
    for (i = 0; i < count; i++) {
        hg_status_t done = HG_TRUE;
        hg_return_t ret = HG_SUCCESS;

        if (array_of_requests[i] != HG_REQUEST_NULL)
            ret = hg_seed_wait(array_of_requests[i],
                (unsigned) hg_clock_ms_until(deadline), &done);
        if (done)
            array_of_requests[i] = HG_REQUEST_NULL;
        if (array_of_statuses != NULL)
            array_of_statuses[i] = done;
        if (first == HG_SUCCESS)
            first = ret;
        all = all && done;
    }
    if (first != HG_SUCCESS || all || array_of_statuses != NULL)
        return first;
    return HG_TIMEOUT;
}

hg_return_t hg_seed_process(unsigned int timeout)
{
    hg_return_t ret = HG_Handler_process(timeout, HG_STATUS_IGNORE);

    return ret == HG_TIMEOUT ? HG_SUCCESS : ret;
}

hg_return_t hg_seed_complete(hg_handle_t handle, const void *out_struct)
{
    hg_return_t ret =
        HG_Handler_start_output(handle, (void *) (uintptr_t) out_struct);
    hg_return_t freed;

    if (handle == HG_HANDLE_NULL)
        return ret;
    freed = HG_Handler_free(handle);
    return ret != HG_SUCCESS ? ret : freed;
}

/* ---- The request model's symbols ---- */

/* These names have another meaning in version 2. Bindings of other languages
 * call the symbol that says which one it is; hg(7) has the table. C programs
 * need no declaration. */

HG_EXPORT const char *HG_Error_to_string1(hg_return_t ret)
{
    return HG_Error_to_string(ret);
}

HG_EXPORT hg_return_t HG_Version_get1(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    return HG_Version_get(major_p, minor_p, patch_p);
}

HG_EXPORT hg_return_t HG_Set_log_level1(const char *level)
{
    return HG_Set_log_level(level);
}

HG_EXPORT hg_return_t HG_Set_log_subsys1(const char *subsys)
{
    return HG_Set_log_subsys(subsys);
}

HG_EXPORT void HG_Set_log_func1(
    void (*func)(int level, const char *subsys, const char *line, void *arg),
    void *arg)
{
    HG_Set_log_func(func, arg);
}

HG_EXPORT hg_return_t hg_proc_create1(
    void *buf, size_t size, hg_proc_op_t op, hg_proc_t *proc_p)
{
    return hg_proc_create(buf, size, op, proc_p);
}

HG_EXPORT hg_return_t hg_proc_free1(hg_proc_t proc)
{
    return hg_proc_free(proc);
}

/* ---- Mercury's symbols ---- */

/* Configure scripts look for HG_Init in libmercury, and bindings of other
 * languages call these symbols. Programs that include hg.h use the numbered
 * names. */
#if defined(__GNUC__)
#pragma push_macro("HG_Init")
#pragma push_macro("HG_Finalize")
#pragma push_macro("HG_Register")
#pragma push_macro("HG_Forward")
#pragma push_macro("HG_Bulk_transfer")
#undef HG_Init
#undef HG_Finalize
#undef HG_Register
#undef HG_Forward
#undef HG_Bulk_transfer

HG_EXPORT hg_class_t *HG_Init(const char *na_info_string, uint8_t na_listen)
{
    return HG_Init2(na_info_string, na_listen);
}

HG_EXPORT hg_return_t HG_Finalize(hg_class_t *hg_class)
{
    return HG_Finalize2(hg_class);
}

HG_EXPORT hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    return HG_Register2(hg_class, id, in_proc_cb, out_proc_cb, rpc_cb);
}

HG_EXPORT hg_return_t HG_Forward(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct)
{
    return HG_Forward2(handle, callback, arg, in_struct);
}

HG_EXPORT hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id)
{
    return HG_Bulk_transfer2(context, callback, arg, op, origin_addr,
        origin_handle, origin_offset, local_handle, local_offset, size, op_id);
}

#pragma pop_macro("HG_Init")
#pragma pop_macro("HG_Finalize")
#pragma pop_macro("HG_Register")
#pragma pop_macro("HG_Forward")
#pragma pop_macro("HG_Bulk_transfer")
#endif

#if HG_WARNING_OFF
#pragma GCC diagnostic pop
#endif
