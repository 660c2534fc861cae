/* SPDX-License-Identifier: BSD-3-Clause */
/* ========================================================================
 *
 * End of the reference. Below are the bodies of the macros, the names of the
 * first reports (with HG_SEED_NAMES), and the interface for transports (with
 * HG_NA_PLUGIN_API).
 *
 * ======================================================================== */

/* ==== Bodies of MERCURY_GEN_PROC ======================================== */
/* Declare a field. */
#define HG_GEN_DECL(type) type HG_GEN_DECL_NAME
#define HG_GEN_DECL_NAME(field) field;

/* Compile-time checks. A field whose size differs from its type divides by
 * zero. A field that is no identifier cannot name the enumeration constant. */
/* clang-format off */
#define HG_GEN_CHECK(type) \
    { enum { hg_fits = 1 / (sizeof(type) == HG_GEN_CHECK_NAME
#define HG_GEN_CHECK_NAME(field) \
    sizeof(hg_data->field)) }; enum { hg_field_##field }; }
/* HG_API_STRICT follows Mercury: a field of an existing struct may be any part
 * of it, such as `a[0]` or `b.c`, and larger than its type. */
#define HG_GEN_PART(type) \
    { enum { hg_fits = 1 / (sizeof(type) <= HG_GEN_PART_NAME
#define HG_GEN_PART_NAME(field) sizeof(hg_data->field)) }; }
/* clang-format on */

/* Encode, decode or free a field. */
#define HG_GEN_STEP(type) \
    if (hg_ret == HG_SUCCESS) \
    hg_ret = HG_GEN_STEP_OF(type) HG_GEN_STEP_NAME
#define HG_GEN_STEP_NAME(field) (proc, &hg_data->field);

/* Choose the function of a type. For a number, HG_GEN_NUMBER_type expands to a
 * list; its commas shift the arguments of HG_GEN_PICK to the inline
 * function. */
#define HG_GEN_STEP_OF(type) \
    HG_GEN_PICK(HG_GEN_NUMBER_##type, hg_proc_##type, 0)
#define HG_GEN_PICK(maybe, type, rest) HG_GEN_SECOND(maybe, type, rest)
#define HG_GEN_SECOND(first, second, ...) second

#if !HG_API_STRICT
/* Types whose size differs between machines. On the wire a bool is an
 * hg_bool_t, and a size_t a uint64_t. */
static inline hg_return_t hg_gen_step_bool(hg_proc_t proc, void *data)
{
    hg_proc_op_t op = hg_proc_get_op(proc);
    bool *truth = HG_CAST(bool *, data);
    hg_bool_t value = op == HG_ENCODE && *truth ? HG_TRUE : HG_FALSE;
    hg_return_t ret = hg_proc_hg_bool_t(proc, &value);
    if (ret == HG_SUCCESS && op == HG_DECODE)
        *truth = value != HG_FALSE;
    return ret;
}
static inline hg_return_t hg_gen_step_size(hg_proc_t proc, void *data)
{
    hg_proc_op_t op = hg_proc_get_op(proc);
    size_t *size = HG_CAST(size_t *, data);
    uint64_t value = op == HG_ENCODE ? *size : 0;
    hg_return_t ret = hg_proc_uint64_t(proc, &value);
    if (ret != HG_SUCCESS || op != HG_DECODE)
        return ret;
    *size = HG_CAST(size_t, value);
    return *size == value ? HG_SUCCESS : HG_OVERFLOW;
}
/* Their numbers of bytes are never added up to the size of a struct. */
#define HG_GEN_NUMBER_bool ~, hg_gen_step_bool, (sizeof(*hg_data) + 1)
#define HG_GEN_NUMBER__Bool HG_GEN_NUMBER_bool
#define HG_GEN_NUMBER_size_t ~, hg_gen_step_size, (sizeof(*hg_data) + 1)
#if INT_MAX == 2147483647
#define HG_GEN_NUMBER_int ~, hg_proc_int32_t, (sizeof(*hg_data) + 1)
#endif
#endif

/* On little-endian machines numbers are copied inline. The library handles all
 * other cases, such as a full buffer. */
#if defined(__GNUC__) && defined(__BYTE_ORDER__)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HG_GEN_INLINE_STEP(bytes, proc_type) \
    static inline hg_return_t hg_gen_step_##bytes(hg_proc_t proc, void *data) \
    { \
        struct hg_proc_cursor *cursor = \
            HG_CAST(struct hg_proc_cursor *, HG_CAST(void *, proc)); \
        unsigned char *at; \
        if (cursor == HG_CAST(struct hg_proc_cursor *, HG_NULLPTR)) \
            return hg_proc_##proc_type(proc, data); \
        if (cursor->end - cursor->pos < bytes) \
            return cursor->op == HG_FREE ? HG_SUCCESS \
                                         : hg_proc_##proc_type(proc, data); \
        at = cursor->data + cursor->pos; \
        cursor->pos += bytes; \
        if (cursor->op == HG_ENCODE) \
            __builtin_memcpy(at, data, bytes); \
        else \
            __builtin_memcpy(data, at, bytes); \
        return HG_SUCCESS; \
    }
HG_GEN_INLINE_STEP(2, uint16_t)
HG_GEN_INLINE_STEP(4, uint32_t)
HG_GEN_INLINE_STEP(8, uint64_t)
#define HG_GEN_NUMBER_int16_t ~, hg_gen_step_2, 2u
#define HG_GEN_NUMBER_uint16_t ~, hg_gen_step_2, 2u
#define HG_GEN_NUMBER_int32_t ~, hg_gen_step_4, 4u
#define HG_GEN_NUMBER_uint32_t ~, hg_gen_step_4, 4u
#define HG_GEN_NUMBER_int64_t ~, hg_gen_step_8, 8u
#define HG_GEN_NUMBER_uint64_t ~, hg_gen_step_8, 8u
#if !HG_API_STRICT
#if INT_MAX == 2147483647
#undef HG_GEN_NUMBER_int
#define HG_GEN_NUMBER_int ~, hg_gen_step_4, 4u
#endif
#define HG_GEN_NUMBER_float ~, hg_gen_step_4, 4u
#define HG_GEN_NUMBER_double ~, hg_gen_step_8, 8u
#endif

/* Copy a struct of numbers without padding in one step, since its bytes in
 * memory are those on the wire. False: each field needs a step of its own. */
static inline int hg_gen_step_whole(hg_proc_t proc, void *data, size_t bytes)
{
    struct hg_proc_cursor *cursor =
        HG_CAST(struct hg_proc_cursor *, HG_CAST(void *, proc));
    unsigned char *at;
    if (cursor == HG_CAST(struct hg_proc_cursor *, HG_NULLPTR))
        return 0;
    if (cursor->end - cursor->pos < bytes)
        return cursor->op == HG_FREE;
    at = cursor->data + cursor->pos;
    cursor->pos += bytes;
    if (cursor->op == HG_ENCODE)
        __builtin_memcpy(at, data, bytes);
    else
        __builtin_memcpy(data, at, bytes);
    return 1;
}
#define HG_GEN_WHOLE(fields) \
    (HG_GEN_SIZES(fields) == sizeof(*hg_data) && \
        hg_gen_step_whole(proc, data, sizeof(*hg_data)))

/* Add up the sizes of the fields. A field that is no number adds more than any
 * struct has, so that the sum differs from the size of the struct. */
#define HG_GEN_SIZE(type) +HG_GEN_SIZE_OF(type) HG_GEN_SIZE_NAME
#define HG_GEN_SIZE_NAME(field)
#define HG_GEN_SIZE_OF(type) \
    HG_GEN_PICK_SIZE(HG_GEN_NUMBER_##type, ~, (sizeof(*hg_data) + 1), 0)
#define HG_GEN_PICK_SIZE(maybe, none, size, rest) \
    HG_GEN_THIRD(maybe, none, size, rest)
#define HG_GEN_THIRD(first, second, third, ...) third
#endif
#endif
#ifndef HG_GEN_WHOLE
#define HG_GEN_WHOLE(fields) 0
#endif

/* Walk a sequence. Two macros alternate, since a macro cannot expand itself.
 * The name of the last one, pasted with _END, is an empty macro. */
#define HG_GEN_DECLS(fields) HG_GEN_END(HG_GEN_DECL_A fields)
#define HG_GEN_DECL_A(field) HG_GEN_DECL field HG_GEN_DECL_B
#define HG_GEN_DECL_B(field) HG_GEN_DECL field HG_GEN_DECL_A
#define HG_GEN_DECL_A_END
#define HG_GEN_DECL_B_END
#define HG_GEN_CHECKS(fields) HG_GEN_END(HG_GEN_CHECK_A fields)
#define HG_GEN_CHECK_A(field) HG_GEN_CHECK field HG_GEN_CHECK_B
#define HG_GEN_CHECK_B(field) HG_GEN_CHECK field HG_GEN_CHECK_A
#define HG_GEN_CHECK_A_END
#define HG_GEN_CHECK_B_END
#define HG_GEN_PARTS(fields) HG_GEN_END(HG_GEN_PART_A fields)
#define HG_GEN_PART_A(field) HG_GEN_PART field HG_GEN_PART_B
#define HG_GEN_PART_B(field) HG_GEN_PART field HG_GEN_PART_A
#define HG_GEN_PART_A_END
#define HG_GEN_PART_B_END
#define HG_GEN_SIZES(fields) HG_GEN_END(HG_GEN_SIZE_A fields)
#define HG_GEN_SIZE_A(field) HG_GEN_SIZE field HG_GEN_SIZE_B
#define HG_GEN_SIZE_B(field) HG_GEN_SIZE field HG_GEN_SIZE_A
#define HG_GEN_SIZE_A_END
#define HG_GEN_SIZE_B_END
#define HG_GEN_STEPS(fields) HG_GEN_END(HG_GEN_STEP_A fields)
#define HG_GEN_STEP_A(field) HG_GEN_STEP field HG_GEN_STEP_B
#define HG_GEN_STEP_B(field) HG_GEN_STEP field HG_GEN_STEP_A
#define HG_GEN_STEP_A_END
#define HG_GEN_STEP_B_END
#define HG_GEN_END(tokens) HG_GEN_PASTE_END(tokens)
#define HG_GEN_PASTE_END(tokens) tokens##_END

/* A client may never decode a type, and a server may never encode it. */
#if defined(__GNUC__)
#define HG_GEN_UNUSED __attribute__((unused))
#else
#define HG_GEN_UNUSED
#endif

/* A proc function threw an exception (logged). Returns HG_OTHER_ERROR. */
HG_EXPORT hg_return_t hg_gen_threw(hg_proc_t proc, const char *what);

/* hg_proc_raw logs and returns an error for NULL, except when it frees. */
#define HG_GEN_FUNCTION_OF(name, fields, CHECKS, whole) \
    HG_GEN_UNUSED static inline hg_return_t hg_proc_##name( \
        hg_proc_t proc, void *data) \
    { \
        name *hg_data = HG_CAST(name *, data); \
        hg_return_t hg_ret = HG_SUCCESS; \
        CHECKS(fields) \
        if (hg_data == HG_NULLPTR) \
            return hg_proc_raw(proc, HG_NULLPTR, 1); \
        if (whole) \
            return HG_SUCCESS; \
        HG_GEN_TRY(hg_ret = hg_gen_threw(proc, hg_what), HG_GEN_STEPS(fields)) \
        return hg_ret; \
    }
#define HG_GEN_FUNCTION(name, fields, whole) \
    HG_GEN_FUNCTION_OF(name, fields, HG_GEN_CHECKS, whole)

#if HG_API_STRICT
#define HG_GEN_STRUCT_PROC(name, fields) \
    HG_GEN_FUNCTION_OF(name, fields, HG_GEN_PARTS, 0)
#else
#define HG_GEN_STRUCT_PROC(name, fields) HG_GEN_FUNCTION(name, fields, 0)
#endif

#ifdef HG_SEED_NAMES /* the proc has the name fs_proc_name */
#define IOFSL_SHIPPER_GEN_PROC HG_SEED_GEN_PROC
#else
#define IOFSL_SHIPPER_GEN_PROC MERCURY_GEN_PROC
#endif

/* HG_Register1() and HG_Register_name() with the types as a text (copied). A
 * server may ignore the id. */
#if !HG_API_STRICT
HG_EXPORT hg_id_t hg_gen_register1(const char *func_name, const char *types,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);
#endif
HG_EXPORT hg_id_t hg_gen_register2(hg_class_t *hg_class, const char *func_name,
    const char *types, hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb);
