/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Bodies of MERCURY_GEN_RPC_STUB ==================================== */

/* ---- Functions that the macro calls ---- */

#define hg_proc_hg_memory_in_t hg_proc_hg_bulk_t
#define hg_proc_hg_memory_out_t hg_proc_hg_bulk_t

HG_EXPORT hg_return_t hg_stub_clear(void *data, size_t size);
/* Register a function, with its types as a text (copied). NULL for rpc_cb keeps
 * the registered callback. Returns 0 (logged) on out-of-memory, or if the name
 * is registered with other types. */
HG_EXPORT hg_id_t hg_stub_register(hg_class_t *hg_class, const char *func_name,
    const char *types, hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb);
HG_EXPORT hg_return_t hg_stub_create(hg_context_t *context, hg_addr_t addr,
    const char *func_name, unsigned int timeout, hg_handle_t *handle_p);
HG_EXPORT hg_return_t hg_stub_expose(hg_context_t *context, const void *memory,
    size_t size, unsigned long flags, hg_bulk_t *bulk_p);
/* Respond with the outputs, unless the function has responded. If they cannot
 * be sent, the caller gets the code. */
HG_EXPORT hg_return_t hg_stub_respond(hg_handle_t handle, void *out_struct);
/* The function threw an exception (logged): respond with HG_OTHER_ERROR and the
 * text, unless the function has responded. */
HG_EXPORT void hg_stub_threw(hg_handle_t handle, const char *what);
HG_EXPORT void hg_stub_release(hg_proc_cb_t proc_cb, void *data);
HG_EXPORT hg_return_t hg_stub_busy(const char *func_name);
/* Name the function, whose call could not begin, in the thread's last error
 * text. Returns `ret`. */
HG_EXPORT hg_return_t hg_stub_explain(const char *func_name, hg_return_t ret);
#if !HG_API_STRICT
HG_EXPORT hg_id_t hg_stub_register_layer(const char *func_name,
    const char *types, hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb);
HG_EXPORT hg_return_t hg_stub_wait(hg_request_t request);
#endif

/* ---- Sequences ----
 *
 * Walked as in MERCURY_GEN_PROC. The expansion of an element begins with a
 * comma, or is a statement. */

#define HG_STUB_END(...) HG_STUB_PASTE_END(__VA_ARGS__)
#define HG_STUB_PASTE_END(...) __VA_ARGS__##_END
#define HG_STUB_CAT(a, b) HG_STUB_PASTE(a, b)
#define HG_STUB_PASTE(a, b) a##b

/* 1 for a sequence with at least one element, else 0. */
#define HG_STUB_HAS(fields) HG_STUB_PICK_HAS(HG_STUB_IS_ONE fields, 0, 0)
#define HG_STUB_PICK_HAS(...) HG_GEN_SECOND(__VA_ARGS__, 0)
#define HG_STUB_IS_ONE(field) ~, 1,

/* A list without its first comma; `none` for an empty list. */
#define HG_STUB_LIST(has, none, ...) \
    HG_STUB_CAT(HG_STUB_LIST_, has)(none, __VA_ARGS__)
#define HG_STUB_LIST_0(none, ...) none
#define HG_STUB_LIST_1(none, ...) HG_STUB_REST(__VA_ARGS__)
#define HG_STUB_REST(first, ...) __VA_ARGS__

/* The kind of an input: a VALUE, a bulk handle of the caller (BULK), or memory
 * that the stub describes (SOURCE, TARGET). */
#define HG_STUB_KIND(type) HG_GEN_PICK(HG_STUB_KIND_##type, VALUE, 0)
#define HG_STUB_KIND_hg_bulk_t ~, BULK
#define HG_STUB_KIND_hg_memory_in_t ~, SOURCE
#define HG_STUB_KIND_hg_memory_out_t ~, SINK

/* An input as a parameter of NAME_call and NAME_start. */
#define HG_STUB_IN(type) HG_STUB_CAT(HG_STUB_IN_, HG_STUB_KIND(type))(type)
#define HG_STUB_IN_VALUE(type) , type HG_STUB_NAME
#define HG_STUB_IN_BULK(type) , hg_bulk_t HG_STUB_NAME
#define HG_STUB_IN_SOURCE(type) , const void *HG_STUB_NAME_AND_SIZE
#define HG_STUB_IN_SINK(type) , void *HG_STUB_NAME_AND_SIZE
#define HG_STUB_NAME(field) field
#define HG_STUB_NAME_AND_SIZE(field) field, size_t field##_size
#define HG_STUB_INS(fields) HG_STUB_END(HG_STUB_IN_A fields)
#define HG_STUB_IN_A(field) HG_STUB_IN field HG_STUB_IN_B
#define HG_STUB_IN_B(field) HG_STUB_IN field HG_STUB_IN_A
#define HG_STUB_IN_A_END
#define HG_STUB_IN_B_END

/* An input as an argument of the inner function. */
#define HG_STUB_PASS(type) HG_STUB_CAT(HG_STUB_PASS_, HG_STUB_KIND(type))
#define HG_STUB_PASS_VALUE(field) , field
#define HG_STUB_PASS_BULK(field) , field
#define HG_STUB_PASS_SOURCE(field) , field, field##_size
#define HG_STUB_PASS_SINK(field) , field, field##_size
#define HG_STUB_PASSES(fields) HG_STUB_END(HG_STUB_PASS_A fields)
#define HG_STUB_PASS_A(field) HG_STUB_PASS field HG_STUB_PASS_B
#define HG_STUB_PASS_B(field) HG_STUB_PASS field HG_STUB_PASS_A
#define HG_STUB_PASS_A_END
#define HG_STUB_PASS_B_END

/* Set an input in the struct to send; free the bulk handle of memory. */
#define HG_STUB_SET(type) HG_STUB_CAT(HG_STUB_SET_, HG_STUB_KIND(type))
#define HG_STUB_SET_VALUE(field) hg_call->in.field = field;
#define HG_STUB_SET_BULK(field) hg_call->in.field = field;
#define HG_STUB_SET_SOURCE(field) HG_STUB_SET_MEMORY(field, HG_BULK_READ_ONLY)
#define HG_STUB_SET_SINK(field) HG_STUB_SET_MEMORY(field, HG_BULK_WRITE_ONLY)
#define HG_STUB_SET_MEMORY(field, flags) \
    if (hg_ret == HG_SUCCESS) \
        hg_ret = hg_stub_expose( \
            hg_context, field, field##_size, flags, &hg_call->in.field);
#define HG_STUB_SETS(fields) HG_STUB_END(HG_STUB_SET_A fields)
#define HG_STUB_SET_A(field) HG_STUB_SET field HG_STUB_SET_B
#define HG_STUB_SET_B(field) HG_STUB_SET field HG_STUB_SET_A
#define HG_STUB_SET_A_END
#define HG_STUB_SET_B_END
#define HG_STUB_FREE(type) HG_STUB_CAT(HG_STUB_FREE_, HG_STUB_KIND(type))
#define HG_STUB_FREE_VALUE(field)
#define HG_STUB_FREE_BULK(field)
#define HG_STUB_FREE_SOURCE(field) (void) HG_Bulk_free(hg_call->in.field);
#define HG_STUB_FREE_SINK(field) (void) HG_Bulk_free(hg_call->in.field);
#define HG_STUB_FREES(fields) HG_STUB_END(HG_STUB_FREE_A fields)
#define HG_STUB_FREE_A(field) HG_STUB_FREE field HG_STUB_FREE_B
#define HG_STUB_FREE_B(field) HG_STUB_FREE field HG_STUB_FREE_A
#define HG_STUB_FREE_A_END
#define HG_STUB_FREE_B_END

/* An input as a parameter of the target's function, and its argument. */
#define HG_STUB_TAKE(type) HG_STUB_CAT(HG_STUB_TAKE_, HG_STUB_KIND(type))(type)
#define HG_STUB_TAKE_VALUE(type) , type HG_STUB_NAME
#define HG_STUB_TAKE_BULK(type) , hg_memory_t HG_STUB_NAME
#define HG_STUB_TAKE_SOURCE(type) , hg_memory_t HG_STUB_NAME
#define HG_STUB_TAKE_SINK(type) , hg_memory_t HG_STUB_NAME
#define HG_STUB_TAKES(fields) HG_STUB_END(HG_STUB_TAKE_A fields)
#define HG_STUB_TAKE_A(field) HG_STUB_TAKE field HG_STUB_TAKE_B
#define HG_STUB_TAKE_B(field) HG_STUB_TAKE field HG_STUB_TAKE_A
#define HG_STUB_TAKE_A_END
#define HG_STUB_TAKE_B_END
#define HG_STUB_GIVE(type) HG_STUB_CAT(HG_STUB_GIVE_, HG_STUB_KIND(type))
#define HG_STUB_GIVE_VALUE(field) , hg_in.field
#define HG_STUB_GIVE_BULK(field) , hg_stub_memory(hg_handle, hg_in.field)
#define HG_STUB_GIVE_SOURCE(field) , hg_stub_memory(hg_handle, hg_in.field)
#define HG_STUB_GIVE_SINK(field) , hg_stub_memory(hg_handle, hg_in.field)
#define HG_STUB_GIVES(fields) HG_STUB_END(HG_STUB_GIVE_A fields)
#define HG_STUB_GIVE_A(field) HG_STUB_GIVE field HG_STUB_GIVE_B
#define HG_STUB_GIVE_B(field) HG_STUB_GIVE field HG_STUB_GIVE_A
#define HG_STUB_GIVE_A_END
#define HG_STUB_GIVE_B_END

/* An output as a parameter of both sides; the argument of the target's
 * function; and the copy to the caller, who owns it then. */
#define HG_STUB_OUT(type) , type *HG_STUB_NAME
#define HG_STUB_OUTS(fields) HG_STUB_END(HG_STUB_OUT_A fields)
#define HG_STUB_OUT_A(field) HG_STUB_OUT field HG_STUB_OUT_B
#define HG_STUB_OUT_B(field) HG_STUB_OUT field HG_STUB_OUT_A
#define HG_STUB_OUT_A_END
#define HG_STUB_OUT_B_END
#define HG_STUB_FILL(type) , HG_STUB_FILL_NAME
#define HG_STUB_FILL_NAME(field) &hg_out.field
#define HG_STUB_FILLS(fields) HG_STUB_END(HG_STUB_FILL_A fields)
#define HG_STUB_FILL_A(field) HG_STUB_FILL field HG_STUB_FILL_B
#define HG_STUB_FILL_B(field) HG_STUB_FILL field HG_STUB_FILL_A
#define HG_STUB_FILL_A_END
#define HG_STUB_FILL_B_END
#define HG_STUB_MOVE(type) HG_STUB_MOVE_NAME
#define HG_STUB_MOVE_NAME(field) \
    if (field != HG_NULLPTR) { \
        *field = hg_state.out.field; \
        (void) hg_stub_clear(&hg_state.out.field, sizeof(hg_state.out.field)); \
    }
#define HG_STUB_MOVES(fields) HG_STUB_END(HG_STUB_MOVE_A fields)
#define HG_STUB_MOVE_A(field) HG_STUB_MOVE field HG_STUB_MOVE_B
#define HG_STUB_MOVE_B(field) HG_STUB_MOVE field HG_STUB_MOVE_A
#define HG_STUB_MOVE_A_END
#define HG_STUB_MOVE_B_END

/* The return value of the function is the last output, ret. */
#define HG_STUB_RET(type) HG_GEN_PICK(HG_STUB_RETURNS_##type, ((type) (ret)), 0)
#define HG_STUB_RETURNS_void ~,
#define HG_STUB_ASSIGN(type) \
    HG_GEN_PICK(HG_STUB_RETURNS_##type, hg_out.ret =, 0)

/* The types in order as a text, "(int32_t, hg_string_t) -> (int32_t)", which
 * both sides compare. Types with one encoding and one meaning have one name
 * there. */
#define HG_STUB_TYPES(ins, outs) \
    "(" HG_STUB_LIST_TYPES(ins) ") -> (" HG_STUB_LIST_TYPES(outs) ")"
#define HG_STUB_LIST_TYPES(fields) HG_STUB_END(HG_STUB_TYPE_FIRST fields)
#define HG_STUB_TYPE_FIRST(field) HG_STUB_TYPE field HG_STUB_TYPE_A
#define HG_STUB_TYPE_A(field) ", " HG_STUB_TYPE field HG_STUB_TYPE_B
#define HG_STUB_TYPE_B(field) ", " HG_STUB_TYPE field HG_STUB_TYPE_A
#define HG_STUB_TYPE_FIRST_END
#define HG_STUB_TYPE_A_END
#define HG_STUB_TYPE_B_END
#define HG_STUB_TYPE(type) \
    HG_STUB_TEXT(HG_GEN_PICK(HG_STUB_ALIAS_##type, type, 0)) HG_STUB_TYPE_SKIP
#define HG_STUB_TYPE_SKIP(field)
#define HG_STUB_TEXT(tokens) HG_STUB_QUOTE(tokens)
#define HG_STUB_QUOTE(tokens) #tokens
#define HG_STUB_ALIAS_hg_const_string_t ~, hg_string_t
#define HG_STUB_ALIAS_hg_memory_in_t ~, hg_bulk_t
#define HG_STUB_ALIAS_hg_memory_out_t ~, hg_bulk_t
#define HG_STUB_ALIAS_bool ~, hg_bool_t
#define HG_STUB_ALIAS__Bool ~, hg_bool_t
#define HG_STUB_ALIAS_size_t ~, uint64_t
#define HG_STUB_ALIAS_int ~, int32_t
#define HG_STUB_ALIAS_hg_int8_t ~, int8_t
#define HG_STUB_ALIAS_hg_int16_t ~, int16_t
#define HG_STUB_ALIAS_hg_int32_t ~, int32_t
#define HG_STUB_ALIAS_hg_int64_t ~, int64_t
#define HG_STUB_ALIAS_hg_uint8_t ~, uint8_t
#define HG_STUB_ALIAS_hg_uint16_t ~, uint16_t
#define HG_STUB_ALIAS_hg_uint32_t ~, uint32_t
#define HG_STUB_ALIAS_hg_uint64_t ~, uint64_t

/* ---- Structs and functions ---- */

/* A struct and its proc. C needs a member in a struct. */
#define HG_STUB_STRUCT(name, fields) \
    HG_STUB_CAT(HG_STUB_STRUCT_, HG_STUB_HAS(fields))(name, fields)
#define HG_STUB_STRUCT_1(name, fields) MERCURY_GEN_PROC(name, fields)
#define HG_STUB_STRUCT_0(name, fields) \
    typedef struct { \
        char hg_nothing; \
    } name; \
    HG_GEN_FUNCTION(name, , 0)

#define HG_STUB_INLINE HG_GEN_UNUSED static inline

HG_STUB_INLINE hg_memory_t hg_stub_memory(hg_handle_t call, hg_bulk_t bulk)
{
    hg_memory_t memory;

    memory.call = call;
    memory.bulk = bulk;
    memory.size = bulk != HG_BULK_NULL ? HG_Bulk_handle_get_size(bulk) : 0;
    return memory;
}

/* The two structs, the declaration of the function, and the handler. */
#define HG_STUB_TARGET(type, name, ins, outs, all_outs) \
    HG_STUB_STRUCT(name##_in_t, ins) \
    HG_STUB_STRUCT(name##_out_t, all_outs) \
    type name(HG_STUB_LIST( \
        HG_STUB_HAS(ins outs), void, HG_STUB_TAKES(ins) HG_STUB_OUTS(outs))); \
    HG_STUB_INLINE hg_return_t name##_handler(hg_handle_t hg_handle) \
    { \
        name##_in_t hg_in; \
        name##_out_t hg_out; \
        hg_return_t hg_ret = HG_STUB_GET_INPUT(hg_handle, &hg_in); \
        if (hg_ret != HG_SUCCESS) \
            return HG_STUB_FAIL(hg_handle, hg_ret); \
        (void) hg_stub_clear(&hg_out, sizeof(hg_out)); \
        HG_GEN_TRY(hg_stub_threw(hg_handle, hg_what), \
                   HG_STUB_ASSIGN(type) \
                       name(HG_STUB_LIST(HG_STUB_HAS(ins outs), , \
                           HG_STUB_GIVES(ins) HG_STUB_FILLS(outs)));) \
        (void) hg_stub_respond(hg_handle, &hg_out); \
        hg_stub_release(hg_proc_##name##_out_t, &hg_out); \
        (void) HG_STUB_FREE_INPUT(hg_handle, &hg_in); \
        return HG_STUB_DONE(hg_handle); \
    }

#if HG_API_VERSION == 1

#define HG_STUB_GET_INPUT HG_Handler_get_input
#define HG_STUB_FREE_INPUT HG_Handler_free_input
#define HG_STUB_FAIL(handle, ret) (ret)
#define HG_STUB_DONE HG_Handler_free

#define HG_STUB_ORIGIN(name, text, ins, outs) \
    typedef struct { \
        name##_in_t in; \
        name##_out_t out; \
        hg_request_t request; \
    } name##_call_t; \
    HG_STUB_INLINE hg_id_t name##_register(void) \
    { \
        return hg_stub_register_layer(text, HG_STUB_TYPES(ins, outs), \
            hg_proc_##name##_in_t, hg_proc_##name##_out_t, \
            HG_CAST(hg_rpc_cb_t, HG_NULLPTR)); \
    } \
    HG_STUB_INLINE hg_id_t name##_provide(void) \
    { \
        return hg_stub_register_layer(text, HG_STUB_TYPES(ins, outs), \
            hg_proc_##name##_in_t, hg_proc_##name##_out_t, name##_handler); \
    } \
    HG_STUB_INLINE hg_return_t name##_end(name##_call_t *hg_call) \
    { \
        hg_return_t hg_ret = HG_SUCCESS; \
        if (hg_call == HG_NULLPTR) \
            return hg_stub_clear(hg_call, 0); \
        if (hg_call->request != HG_REQUEST_NULL) \
            hg_ret = HG_Request_free(hg_call->request); \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        HG_STUB_FREES(ins) \
        return hg_stub_clear(hg_call, sizeof(*hg_call)); \
    } \
    HG_STUB_INLINE hg_return_t name##_start(name##_call_t *hg_call, \
        na_addr_t hg_addr, unsigned int hg_timeout HG_STUB_INS(ins)) \
    { \
        hg_context_t *hg_context = HG_CAST(hg_context_t *, HG_NULLPTR); \
        hg_return_t hg_ret = hg_stub_clear(hg_call, sizeof(*hg_call)); \
        (void) hg_context; \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        HG_STUB_SETS(ins) \
        if (hg_ret == HG_SUCCESS) \
            hg_ret = HG_Forward_timed(hg_addr, HG_Name_to_id(text), \
                &hg_call->in, &hg_call->out, hg_timeout, &hg_call->request); \
        if (hg_ret != HG_SUCCESS) { \
            (void) hg_stub_explain(text, hg_ret); \
            (void) name##_end(hg_call); \
        } \
        return hg_ret; \
    } \
    HG_STUB_INLINE hg_return_t name##_call(na_addr_t hg_addr, \
        unsigned int hg_timeout HG_STUB_INS(ins) HG_STUB_OUTS(outs)) \
    { \
        name##_call_t hg_state; \
        hg_return_t hg_ret = \
            name##_start(&hg_state, hg_addr, hg_timeout HG_STUB_PASSES(ins)); \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        hg_ret = hg_stub_wait(hg_state.request); \
        if (hg_ret == HG_SUCCESS) { \
            HG_STUB_MOVES(outs) \
        } \
        (void) name##_end(&hg_state); \
        return hg_ret; \
    }

#else

#define HG_STUB_GET_INPUT HG_Get_input
#define HG_STUB_FREE_INPUT HG_Free_input
#define HG_STUB_FAIL(handle, ret) ((void) HG_Destroy(handle), (ret))
#define HG_STUB_DONE HG_Destroy

#define HG_STUB_ORIGIN(name, text, ins, outs) \
    typedef struct name##_call_t name##_call_t; \
    struct name##_call_t { \
        name##_in_t in; \
        name##_out_t out; \
        hg_handle_t handle; \
        void (*done)(name##_call_t * call, hg_return_t ret); \
        void *arg; \
        hg_bool_t under_way; \
        hg_bool_t has_out; \
    }; \
    HG_STUB_INLINE hg_id_t name##_register(hg_class_t *hg_class) \
    { \
        return hg_stub_register(hg_class, text, HG_STUB_TYPES(ins, outs), \
            hg_proc_##name##_in_t, hg_proc_##name##_out_t, \
            HG_CAST(hg_rpc_cb_t, HG_NULLPTR)); \
    } \
    HG_STUB_INLINE hg_id_t name##_provide(hg_class_t *hg_class) \
    { \
        return hg_stub_register(hg_class, text, HG_STUB_TYPES(ins, outs), \
            hg_proc_##name##_in_t, hg_proc_##name##_out_t, name##_handler); \
    } \
    HG_STUB_INLINE hg_return_t name##_end(name##_call_t *hg_call) \
    { \
        if (hg_call == HG_NULLPTR) \
            return hg_stub_clear(hg_call, 0); \
        if (hg_call->under_way) \
            return hg_stub_busy(text); \
        if (hg_call->has_out) \
            (void) HG_Free_output(hg_call->handle, &hg_call->out); \
        HG_STUB_FREES(ins) \
        (void) HG_Destroy(hg_call->handle); \
        return hg_stub_clear(hg_call, sizeof(*hg_call)); \
    } \
    HG_STUB_INLINE hg_return_t hg_stub_open_##name(name##_call_t *hg_call, \
        hg_context_t *hg_context, hg_addr_t hg_addr, \
        unsigned int hg_timeout HG_STUB_INS(ins)) \
    { \
        hg_return_t hg_ret = hg_stub_clear(hg_call, sizeof(*hg_call)); \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        hg_ret = hg_stub_create( \
            hg_context, hg_addr, text, hg_timeout, &hg_call->handle); \
        HG_STUB_SETS(ins) \
        if (hg_ret != HG_SUCCESS) \
            (void) name##_end(hg_call); \
        return hg_ret; \
    } \
    HG_STUB_INLINE hg_return_t hg_stub_close_##name( \
        name##_call_t *hg_call, hg_return_t hg_ret) \
    { \
        if (hg_ret == HG_SUCCESS) \
            hg_ret = HG_Get_output(hg_call->handle, &hg_call->out); \
        hg_call->has_out = hg_ret == HG_SUCCESS ? HG_TRUE : HG_FALSE; \
        hg_call->under_way = HG_FALSE; \
        return hg_ret; \
    } \
    HG_STUB_INLINE hg_return_t hg_stub_done_##name( \
        const struct hg_cb_info *hg_info) \
    { \
        name##_call_t *hg_call = HG_CAST(name##_call_t *, hg_info->arg); \
        hg_return_t hg_ret = hg_stub_close_##name(hg_call, hg_info->ret); \
        if (hg_call->done != HG_NULLPTR) \
            hg_call->done(hg_call, hg_ret); \
        return HG_SUCCESS; \
    } \
    HG_STUB_INLINE hg_return_t name##_start(name##_call_t *hg_call, \
        hg_context_t *hg_context, hg_addr_t hg_addr, \
        unsigned int hg_timeout HG_STUB_INS(ins), \
        void (*hg_done)(name##_call_t * call, hg_return_t ret), void *hg_arg) \
    { \
        hg_return_t hg_ret = hg_stub_open_##name( \
            hg_call, hg_context, hg_addr, hg_timeout HG_STUB_PASSES(ins)); \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        hg_call->done = hg_done; \
        hg_call->arg = hg_arg; \
        hg_call->under_way = HG_TRUE; \
        hg_ret = HG_Forward2( \
            hg_call->handle, hg_stub_done_##name, hg_call, &hg_call->in); \
        if (hg_ret != HG_SUCCESS) { \
            hg_call->under_way = HG_FALSE; \
            (void) hg_stub_explain(text, hg_ret); \
            (void) name##_end(hg_call); \
        } \
        return hg_ret; \
    } \
    HG_STUB_INLINE hg_return_t name##_call(hg_context_t *hg_context, \
        hg_addr_t hg_addr, \
        unsigned int hg_timeout HG_STUB_INS(ins) HG_STUB_OUTS(outs)) \
    { \
        name##_call_t hg_state; \
        hg_return_t hg_ret = hg_stub_open_##name( \
            &hg_state, hg_context, hg_addr, hg_timeout HG_STUB_PASSES(ins)); \
        if (hg_ret != HG_SUCCESS) \
            return hg_ret; \
        hg_ret = hg_stub_close_##name( \
            &hg_state, HG_Forward_wait(hg_state.handle, &hg_state.in)); \
        if (hg_ret == HG_SUCCESS) { \
            HG_STUB_MOVES(outs) \
        } \
        (void) name##_end(&hg_state); \
        return hg_ret; \
    }

#endif

/* `text` is the name as the application wrote it: it may be a macro. */
#define HG_STUB_BOTH(type, name, text, inputs, outputs) \
    HG_STUB_TARGET(type, name, inputs, outputs, outputs HG_STUB_RET(type)) \
    HG_STUB_ORIGIN(name, text, inputs, outputs HG_STUB_RET(type))
