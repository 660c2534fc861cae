/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mercury's core layer, where a call's arguments are a buffer that the program
 * encodes itself. Here it is the layer of mercury.h under other names. Missing
 * are the functions that move buffers (use a proc of hg_proc_raw with
 * HG_Forward) and those that take an address without its class.
 */
#ifndef HG_COMPAT_MERCURY_CORE_H
#define HG_COMPAT_MERCURY_CORE_H

#include "mercury_core_header.h"
#include "mercury_core_types.h"
#include "na.h"

typedef hg_class_t hg_core_class_t;
typedef hg_context_t hg_core_context_t;
typedef hg_addr_t hg_core_addr_t;
typedef hg_handle_t hg_core_handle_t;
typedef hg_op_id_t hg_core_op_id_t;

#define HG_CORE_ADDR_NULL HG_ADDR_NULL
#define HG_CORE_HANDLE_NULL HG_HANDLE_NULL
#define HG_CORE_OP_ID_NULL HG_OP_ID_NULL
#define HG_CORE_OP_ID_IGNORE HG_OP_ID_IGNORE

#define HG_Core_init HG_Init
#define HG_Core_init_opt HG_Init_opt
#define HG_Core_init_opt2 HG_Init_opt2
#define HG_Core_finalize HG_Finalize
#define HG_Core_cleanup HG_Cleanup
#define HG_Core_get_na_protocol_info HG_Get_na_protocol_info
#define HG_Core_free_na_protocol_info HG_Free_na_protocol_info
#define HG_Core_class_get_name HG_Class_get_name
#define HG_Core_class_get_protocol HG_Class_get_protocol
#define HG_Core_class_is_listening HG_Class_is_listening
#define HG_Core_class_get_input_eager_size HG_Class_get_input_eager_size
#define HG_Core_class_get_output_eager_size HG_Class_get_output_eager_size
#define HG_Core_class_set_data HG_Class_set_data
#define HG_Core_class_get_data HG_Class_get_data
#define HG_Core_class_get_counters HG_Class_get_counters
#define HG_Core_context_create HG_Context_create
#define HG_Core_context_create_id HG_Context_create_id
#define HG_Core_context_destroy HG_Context_destroy
#define HG_Core_context_unpost HG_Context_unpost
#define HG_Core_context_get_class HG_Context_get_class
#define HG_Core_context_get_id HG_Context_get_id
#define HG_Core_context_set_data HG_Context_set_data
#define HG_Core_context_get_data HG_Context_get_data
#define HG_Core_registered HG_Registered
#define HG_Core_deregister HG_Deregister
#define HG_Core_register_data HG_Register_data
#define HG_Core_registered_data HG_Registered_data
#define HG_Core_registered_disable_response HG_Registered_disable_response
#define HG_Core_registered_disabled_response HG_Registered_disabled_response
#define HG_Core_addr_lookup2 HG_Addr_lookup2
#define HG_Core_addr_self HG_Addr_self
#define HG_Core_create HG_Create
#define HG_Core_destroy HG_Destroy
#define HG_Core_reset HG_Reset
#define HG_Core_ref_incr HG_Ref_incr
#define HG_Core_ref_get HG_Ref_get
#define HG_Core_set_data HG_Set_data
#define HG_Core_get_data HG_Get_data
#define HG_Core_get_input_payload_size HG_Get_input_payload_size
#define HG_Core_get_output_payload_size HG_Get_output_payload_size
#define HG_Core_set_target_id HG_Set_target_id
#define HG_Core_cancel HG_Cancel
#define HG_Core_progress HG_Progress
#define HG_Core_trigger HG_Trigger
#define HG_Core_event_get_wait_fd HG_Event_get_wait_fd
#define HG_Core_event_ready HG_Event_ready
#define HG_Core_event_progress HG_Event_progress
#define HG_Core_event_trigger HG_Event_trigger

#define HG_CORE_MISSING(name) \
    HG_MISSING(name, \
        "hg has no core layer: use a proc of hg_proc_raw and " \
        "the function of mercury.h")

#ifdef __cplusplus
extern "C" {
#endif

HG_CORE_MISSING(HG_Core_forward);
HG_CORE_MISSING(HG_Core_respond);
HG_CORE_MISSING(HG_Core_get_input);
HG_CORE_MISSING(HG_Core_release_input);
HG_CORE_MISSING(HG_Core_get_output);
HG_CORE_MISSING(HG_Core_register);
HG_CORE_MISSING(HG_Core_set_more_data_callback);
HG_CORE_MISSING(HG_Core_class_get_na);
HG_CORE_MISSING(HG_Core_class_get_na_sm);
HG_CORE_MISSING(HG_Core_context_get_na);
HG_CORE_MISSING(HG_Core_context_get_na_sm);
HG_CORE_MISSING(HG_Core_context_post);
HG_CORE_MISSING(HG_Core_context_get_completion_count);
HG_CORE_MISSING(HG_Core_context_set_handle_create_callback);
HG_CORE_MISSING(HG_Core_get_info);
HG_CORE_MISSING(HG_Core_get_rpc_data);
HG_CORE_MISSING(HG_Core_addr_lookup1);
HG_CORE_MISSING(HG_Core_addr_free);
HG_CORE_MISSING(HG_Core_addr_set_remove);
HG_CORE_MISSING(HG_Core_addr_dup);
HG_CORE_MISSING(HG_Core_addr_cmp);
HG_CORE_MISSING(HG_Core_addr_is_self);
HG_CORE_MISSING(HG_Core_addr_to_string);
HG_CORE_MISSING(HG_Core_addr_get_na);
HG_CORE_MISSING(HG_Core_addr_get_na_sm);
HG_CORE_MISSING(HG_Core_addr_get_serialize_size);
HG_CORE_MISSING(HG_Core_addr_serialize);
HG_CORE_MISSING(HG_Core_addr_deserialize);

#ifdef __cplusplus
}
#endif

#endif
