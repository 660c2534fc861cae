/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mercury: the symbols of Mercury whose names are macros in hg.h.
 *
 * Configure scripts look for HG_Init in libmercury, and bindings of other
 * languages call it there. Programs that include hg.h use the numbered names.
 */
#include "base/os.h"

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

HG_EXPORT hg_class_t *HG_Init(const char *na_info_string, uint8_t na_listen);
HG_EXPORT hg_return_t HG_Finalize(hg_class_t *hg_class);
HG_EXPORT hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);
HG_EXPORT hg_return_t HG_Forward(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct);
HG_EXPORT hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id);

hg_class_t *HG_Init(const char *na_info_string, uint8_t na_listen)
{
    return HG_Init2(na_info_string, na_listen);
}

hg_return_t HG_Finalize(hg_class_t *hg_class)
{
    return HG_Finalize2(hg_class);
}

hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    return HG_Register2(hg_class, id, in_proc_cb, out_proc_cb, rpc_cb);
}

hg_return_t HG_Forward(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct)
{
    return HG_Forward2(handle, callback, arg, in_struct);
}

hg_return_t HG_Bulk_transfer(hg_context_t *context, hg_cb_t callback, void *arg,
    hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
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
