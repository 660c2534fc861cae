/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program written for Mercury 2.x: no line of it depends on hg. It has its
 * own proc for a type that Mercury lacks.
 */
#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include <stdlib.h>

#if !defined(HG_HAS_DIAG) || (defined(__linux__) && !defined(NA_HAS_SM))
#error "mercury.h does not tell what the library has"
#endif

static HG_INLINE hg_return_t hg_proc_double(hg_proc_t proc, void *data)
{
    return hg_proc_raw(proc, data, sizeof(double));
}

MERCURY_GEN_PROC(open_in_t, ((hg_const_string_t) (path))((double) (weight)))
MERCURY_GEN_PROC(open_out_t, ((int32_t) (ret))((hg_bulk_t) (bulk)))

static uint8_t done;

static hg_return_t open_handler(hg_handle_t handle)
{
    open_in_t in;
    open_out_t out = {0, HG_BULK_NULL};
    hg_return_t ret = HG_Get_input(handle, &in);

    if (unlikely(ret != HG_SUCCESS))
        return ret;
    ret = HG_Respond(handle, NULL, NULL, &out);
    HG_Free_input(handle, &in);
    HG_Destroy(handle);
    return ret;
}

static hg_return_t open_done(const struct hg_cb_info *info)
{
    done = HG_TRUE;
    return info->ret == HG_CANCELED ? HG_SUCCESS : info->ret;
}

int main(int argc, char *argv[])
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    open_in_t in = {"/tmp", 0.5};
    hg_id_t id;

    options.na_init_info.progress_mode = NA_NO_BLOCK;
    options.checksum_level = HG_CHECKSUM_RPC_HEADERS;
    HG_Set_log_level("warning");
    hg_class = HG_Init_opt(argc > 1 ? argv[1] : "na+sm", HG_FALSE, &options);
    context = HG_Context_create(hg_class);
    id =
        MERCURY_REGISTER(hg_class, "open", open_in_t, open_out_t, open_handler);
    if (HG_Addr_self(hg_class, &addr) != HG_SUCCESS ||
        HG_Create(context, addr, id, &handle) != HG_SUCCESS ||
        HG_Forward(handle, open_done, NULL, &in) != HG_SUCCESS)
        return EXIT_FAILURE;
    while (!done) {
        unsigned int count = 0;
        hg_return_t ret;

        do
            ret = HG_Trigger(context, 0, 1, &count);
        while (ret == HG_SUCCESS && count > 0);
        HG_Progress(context, 100);
    }
    HG_Destroy(handle);
    HG_Addr_free(hg_class, addr);
    HG_Context_destroy(context);
    return HG_Finalize(hg_class) == HG_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
