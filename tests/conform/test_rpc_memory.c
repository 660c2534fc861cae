/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole life of a client and a server in one process, with each allocation
 * failing once. It ends with an error or with success, never with a crash, a
 * leak, or a call that never completes.
 */
#include "rpc.h"

MERCURY_GEN_PROC(
    memory_in_t, ((hg_string_t) (name))((hg_bulk_t) (bulk))((uint64_t) (size)))

static hg_id_t memory_write_id, memory_inc_id;

/* Pull the caller's memory, and call the caller back. */
static hg_return_t memory_pull(
    hg_handle_t handle, const memory_in_t *in, struct blob *out)
{
    na_addr_t addr = HG_Handler_get_addr(handle);
    size_t size = (size_t) in->size;
    hg_bulk_request_t transfer;
    rpc_one_t one = {1};
    hg_request_t request;
    hg_bulk_t local;
    hg_return_t ret;
    void *bytes;
    unsigned count;

    ret = HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &local);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_transfer(
        HG_BULK_PULL, addr, in->bulk, 0, local, 0, size, &transfer);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_wait(transfer, RPC_TIMEOUT, HG_STATUS_IGNORE);
    if (ret != HG_SUCCESS)
        goto free_local;
    ret = HG_Forward(addr, memory_inc_id, &one, &one, &request);
    if (ret != HG_SUCCESS)
        goto free_local;
    ret = HG_Wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    HG_CHECK(ret != HG_TIMEOUT);
    HG_CHECK_OK(HG_Request_free(request));
    if (ret != HG_SUCCESS)
        goto free_local;
    HG_CHECK_OK(HG_Bulk_handle_access(
        local, 0, size, HG_BULK_READ_ONLY, 1, &bytes, &size, &count));
    out->size = size;
    out->bytes = (unsigned char *) bytes;
    /* Else the caller gets the error. */
    (void) HG_Handler_start_output(handle, out);
    ret = HG_Handler_free(handle);
free_local:
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    return ret;
}

static hg_return_t memory_write(hg_handle_t handle)
{
    struct blob out = {0, NULL};
    memory_in_t in;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    ret = memory_pull(handle, &in, &out);
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    return ret;
}

static void rpc_register(void)
{
    memory_write_id = HG_Register(
        "memory write", hg_proc_memory_in_t, blob_proc, memory_write);
    memory_inc_id =
        MERCURY_REGISTER("memory inc", rpc_one_t, rpc_one_t, rpc_inc);
}

static hg_return_t memory_call(na_addr_t self, size_t size)
{
    unsigned char *bytes = rpc_new_pattern(size, 3);
    struct blob out = {0, NULL};
    char name[] = "a name";
    memory_in_t in = {NULL, NULL, 0};
    void *ptr = bytes;
    hg_request_t request;
    hg_return_t ret;

    in.name = name;
    in.size = size;
    ret = HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &in.bulk);
    if (ret != HG_SUCCESS)
        goto free_bytes;
    ret = HG_Forward(self, memory_write_id, &in, &out, &request);
    if (ret != HG_SUCCESS)
        goto free_bulk;
    ret = HG_Wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    HG_CHECK(ret != HG_TIMEOUT);
    if (ret == HG_SUCCESS) {
        HG_CHECK_EQ_U64(out.size, size);
        HG_CHECK_EQ_MEM(out.bytes, bytes, size);
    }
    HG_CHECK_OK(HG_Request_free(request));
free_bulk:
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
free_bytes:
    free(bytes);
    return ret;
}

static int memory_scenario(void *arg)
{
    const size_t *size = (const size_t *) arg;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    na_class_t *na_class;
    na_addr_t self;
    hg_return_t ret;

    info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    options.drain_ms = 50;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    if (na_class == NULL)
        return HG_NOMEM;
    HG_CHECK_OK(HG_Set_options(&options));
    ret = HG_Init(na_class);
    if (ret != HG_SUCCESS)
        goto finalize_class;
    rpc_register();
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    ret = memory_write_id != 0 && memory_inc_id != 0 ? memory_call(self, *size)
                                                     : HG_NOMEM;
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(HG_Finalize());
finalize_class:
    HG_CHECK_OK(NA_Finalize(na_class));
    return ret;
}

/* With other transports, their own memory is not counted. */
HG_TEST_WHERE_SECONDS(allocation_may_fail_anywhere, hg_test_is_self, 60)
{
    size_t small = 100;
    size_t large = 200000;

    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(memory_scenario, &small) > 30);
    HG_CHECK(hg_test_oom_loop(memory_scenario, &large) > 30);
}
