/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mercury's network layer by that of hg.h. Functions that hg.h has with the
 * same arguments are those of hg.h. The rest are inline functions here, some of
 * which get the name of hg.h's by a macro at the end.
 *
 * The object that NA_Op_create makes is for one operation at a time. It keeps
 * the callback and hg's id of the operation. The ids of contexts (dest_id and
 * the like) have no effect.
 */
#ifndef HG_COMPAT_NA_H
#define HG_COMPAT_NA_H

#include "na_types.h"

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Library and classes ---- */

static NA_INLINE void NA_Version_get(
    unsigned int *major, unsigned int *minor, unsigned int *patch)
{
    if (major != NULL)
        *major = NA_VERSION_MAJOR;
    if (minor != NULL)
        *minor = NA_VERSION_MINOR;
    if (patch != NULL)
        *patch = NA_VERSION_PATCH;
}

/* The name of the code; NULL out of range. */
static NA_INLINE const char *NA_Error_to_string2(na_return_t errnum)
{
#define X(code) #code,
    static const char *const names[] = {NA_RETURN_VALUES};
#undef X

    return (int) errnum >= 0 && errnum < NA_RETURN_MAX ? names[errnum] : NULL;
}

static NA_INLINE na_return_t NA_Get_protocol_info(
    const char *info_string, struct na_protocol_info **na_protocol_info_p)
{
    return (na_return_t) HG_Get_na_protocol_info(
        info_string, na_protocol_info_p);
}

static NA_INLINE void NA_Free_protocol_info(
    struct na_protocol_info *na_protocol_info)
{
    HG_Free_na_protocol_info(na_protocol_info);
}

/* Mercury's structs do not contain their size, and 1 context is its default:
 * here, no limit. */
static NA_INLINE na_class_t *NA_Initialize_opt2(const char *info_string,
    bool listen, unsigned int version, const struct na_init_info *na_init_info)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    (void) version;
    if (na_init_info != NULL)
        info = *na_init_info;
    if (info.size == 0)
        info.size = sizeof(info);
    if (info.max_contexts == 1)
        info.max_contexts = 0;
    return NA_Initialize_opt(info_string, listen, &info);
}
#define NA_Initialize_opt(info_string, listen, na_init_info) \
    NA_Initialize_opt2(info_string, listen, NA_VERSION(4, 0), na_init_info)

static NA_INLINE void NA_Cleanup(void)
{
    HG_Cleanup();
}

static NA_INLINE bool NA_Has_opt_feature(
    na_class_t *na_class, unsigned long flags)
{
    return na_class != NULL && (flags & NA_OPT_MULTI_RECV) != 0;
}

static NA_INLINE void NA_Set_log_level(const char *level)
{
    HG_Set_log_level(level);
}

static NA_INLINE void NA_Diag_dump_counters(void)
{
    HG_Diag_dump_counters();
}

static NA_INLINE na_context_t *NA_Context_create_id(
    na_class_t *na_class, uint8_t id)
{
    (void) id;
    return NA_Context_create(na_class);
}

/* ---- Addresses ---- */

static NA_INLINE na_return_t NA_Addr_lookup2(
    na_class_t *na_class, const char *name, na_addr_t **addr_p)
{
    return NA_Addr_resolve(na_class, name, addr_p);
}

/* No effect: hg detects the death of a peer by itself. */
static NA_INLINE na_return_t NA_Addr_set_remove(
    na_class_t *na_class, na_addr_t *addr)
{
    (void) na_class;
    (void) addr;
    return NA_SUCCESS;
}

/* Also with a NULL buffer, which gives the size with the NUL.
 * NA_OVERFLOW: the buffer is too small, and *buf_size is what it needs. */
static NA_INLINE na_return_t NA_Addr_to_string2(
    na_class_t *na_class, char *buf, size_t *buf_size, na_addr_t *addr)
{
    char text[NA_MAX_ADDR_LEN];
    size_t size;
    na_return_t ret = NA_Addr_to_string(na_class, text, sizeof(text), addr);

    if (ret != NA_SUCCESS)
        return ret;
    size = strlen(text) + 1;
    if (buf != NULL && *buf_size < size)
        ret = NA_OVERFLOW;
    else if (buf != NULL)
        memcpy(buf, text, size);
    *buf_size = size;
    return ret;
}

static NA_INLINE na_return_t NA_Addr_serialize2(
    na_class_t *na_class, void *buf, size_t buf_size, na_addr_t *addr)
{
    na_return_t ret = NA_Addr_serialize(na_class, buf, buf_size, addr);

    return ret == NA_MSGSIZE ? NA_OVERFLOW : ret;
}

/* With flags at the end, as in Mercury 2.4, or without; they have no effect. */
static NA_INLINE na_return_t NA_Addr_deserialize2(na_class_t *na_class,
    na_addr_t **addr_p, const void *buf, size_t buf_size, ...)
{
    return memchr(buf, '\0', buf_size) != NULL
        ? NA_Addr_resolve(na_class, (const char *) buf, addr_p)
        : NA_PROTOCOL_ERROR;
}

/* ---- Operations ---- */

struct na_op_id2 {
    na_hg_op_id_t id;
    na_cb_t callback;
    void *arg;
    na_class_t *na_class; /* of a receive of many messages */
};

/* NULL: out of memory. */
static NA_INLINE na_op_id_t *NA_Op_create(
    na_class_t *na_class, unsigned long flags)
{
    (void) na_class;
    (void) flags;
    return (na_op_id_t *) calloc(1, sizeof(na_op_id_t));
}

static NA_INLINE void NA_Op_destroy(na_class_t *na_class, na_op_id_t *op_id)
{
    (void) na_class;
    free(op_id);
}

static NA_INLINE na_op_id_t *na_op_id2_set(
    na_op_id_t *op_id, na_cb_t callback, void *arg)
{
    op_id->callback = callback;
    op_id->arg = arg;
    return op_id;
}

/* hg.h counts lookups. Receives of many messages have na_op_id2_came. */
static NA_INLINE na_cb_type_t na_cb_type_of(na_hg_cb_type_t type)
{
    int n = (int) type;

    return (na_cb_type_t) (n < (int) NA_CB_SEND_EXPECTED ? n - 1 : n);
}

static NA_INLINE na_return_t na_op_id2_done(const na_hg_cb_info_t *hg_info)
{
    na_op_id_t *op_id = (na_op_id_t *) hg_info->arg;
    struct na_cb_info info;

    memset(&info, 0, sizeof(info));
    info.arg = op_id->arg;
    info.type = na_cb_type_of(hg_info->type);
    info.ret = hg_info->ret;
    if (info.type == NA_CB_RECV_UNEXPECTED)
        info.info.recv_unexpected = hg_info->info.recv_unexpected;
    else if (info.type == NA_CB_RECV_EXPECTED)
        info.info.recv_expected = hg_info->info.recv_expected;
    if (op_id->callback != NULL)
        op_id->callback(&info);
    return NA_SUCCESS;
}

/* Canceling a completed operation succeeds, as in Mercury. */
static NA_INLINE na_return_t NA_Cancel2(
    na_class_t *na_class, na_context_t *context, na_op_id_t *op_id)
{
    na_return_t ret = NA_Cancel(na_class, context, op_id->id);

    return ret == NA_NOENTRY ? NA_SUCCESS : ret;
}

/* ---- Messages ---- */

static NA_INLINE void *NA_Msg_buf_alloc2(na_class_t *na_class, size_t buf_size,
    unsigned long flags, void **plugin_data_p)
{
    (void) flags;
    *plugin_data_p = NULL;
    return NA_Msg_buf_alloc(na_class, buf_size);
}

static NA_INLINE void NA_Msg_buf_free2(
    na_class_t *na_class, void *buf, void *plugin_data)
{
    (void) plugin_data;
    (void) NA_Msg_buf_free(na_class, buf);
}

/* hg puts its header in front of the buffer by itself. */
static NA_INLINE size_t NA_Msg_get_unexpected_header_size(
    const na_class_t *na_class)
{
    (void) na_class;
    return 0;
}

static NA_INLINE size_t NA_Msg_get_expected_header_size(
    const na_class_t *na_class)
{
    (void) na_class;
    return 0;
}

static NA_INLINE na_return_t NA_Msg_init_unexpected(
    na_class_t *na_class, void *buf, size_t buf_size)
{
    (void) na_class;
    (void) buf;
    (void) buf_size;
    return NA_SUCCESS;
}

static NA_INLINE na_return_t NA_Msg_init_expected(
    na_class_t *na_class, void *buf, size_t buf_size)
{
    return NA_Msg_init_unexpected(na_class, buf, buf_size);
}

static NA_INLINE na_return_t NA_Msg_send_unexpected2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    size_t buf_size, void *plugin_data, na_addr_t *dest_addr, uint8_t dest_id,
    na_tag_t tag, na_op_id_t *op_id)
{
    (void) plugin_data;
    (void) dest_id;
    return NA_Msg_send_unexpected(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), buf, buf_size, dest_addr, tag,
        &op_id->id);
}

static NA_INLINE na_return_t NA_Msg_recv_unexpected2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    size_t buf_size, void *plugin_data, na_op_id_t *op_id)
{
    (void) plugin_data;
    return NA_Msg_recv_unexpected(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), buf, buf_size, &op_id->id);
}

/* Each callback has a reference of its source. */
static NA_INLINE na_return_t na_op_id2_came(const na_hg_cb_info_t *hg_info)
{
    na_op_id_t *op_id = (na_op_id_t *) hg_info->arg;
    struct na_cb_info info;

    memset(&info, 0, sizeof(info));
    info.arg = op_id->arg;
    info.type = NA_CB_MULTI_RECV_UNEXPECTED;
    info.ret = hg_info->ret;
    info.info.multi_recv_unexpected.actual_buf_size =
        hg_info->info.multi_recv_unexpected.actual_buf_size;
    if (info.ret == NA_SUCCESS)
        (void) NA_Addr_dup(op_id->na_class,
            hg_info->info.multi_recv_unexpected.source,
            &info.info.multi_recv_unexpected.source);
    info.info.multi_recv_unexpected.tag =
        hg_info->info.multi_recv_unexpected.tag;
    info.info.multi_recv_unexpected.actual_buf =
        hg_info->info.multi_recv_unexpected.actual_buf;
    info.info.multi_recv_unexpected.last =
        hg_info->info.multi_recv_unexpected.last != NA_FALSE;
    if (op_id->callback != NULL)
        op_id->callback(&info);
    return NA_SUCCESS;
}

/* The buffer holds at least a message of the largest size. */
static NA_INLINE na_return_t NA_Msg_multi_recv_unexpected2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    size_t buf_size, void *plugin_data, na_op_id_t *op_id)
{
    (void) plugin_data;
    op_id->na_class = na_class;
    return NA_Msg_multi_recv_unexpected(na_class, context, na_op_id2_came,
        na_op_id2_set(op_id, callback, arg), buf, buf_size, &op_id->id);
}

static NA_INLINE na_return_t NA_Msg_send_expected2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    size_t buf_size, void *plugin_data, na_addr_t *dest_addr, uint8_t dest_id,
    na_tag_t tag, na_op_id_t *op_id)
{
    (void) plugin_data;
    (void) dest_id;
    return NA_Msg_send_expected(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), buf, buf_size, dest_addr, tag,
        &op_id->id);
}

static NA_INLINE na_return_t NA_Msg_recv_expected2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    size_t buf_size, void *plugin_data, na_addr_t *source_addr,
    uint8_t source_id, na_tag_t tag, na_op_id_t *op_id)
{
    (void) plugin_data;
    (void) source_id;
    return NA_Msg_recv_expected(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), buf, buf_size, source_addr, tag,
        &op_id->id);
}

/* ---- Remote memory ---- */

static NA_INLINE na_return_t NA_Mem_handle_create_segments2(
    na_class_t *na_class, struct na_segment *segments, size_t segment_count,
    unsigned long flags, na_mem_handle_t **mem_handle_p)
{
    return NA_Mem_handle_create_segments(na_class,
        (na_hg_segment_t *) (void *) segments, segment_count, flags,
        mem_handle_p);
}

static NA_INLINE size_t NA_Mem_handle_get_max_segments(
    const na_class_t *na_class)
{
    (void) na_class;
    return 1 << 20;
}

static NA_INLINE na_return_t NA_Mem_register2(na_class_t *na_class,
    na_mem_handle_t *mem_handle, enum na_mem_type mem_type, uint64_t device)
{
    (void) device;
    return mem_type == NA_MEM_TYPE_HOST || mem_type == NA_MEM_TYPE_UNKNOWN
        ? NA_Mem_register(na_class, mem_handle)
        : NA_OPNOTSUPPORTED;
}

/* The bytes of a handle begin with their number, 4 bytes, least significant
 * first. As in Mercury, bytes behind a handle are ignored. */
static NA_INLINE size_t NA_Mem_handle_get_serialize_size2(
    na_class_t *na_class, na_mem_handle_t *mem_handle)
{
    size_t size = NA_Mem_handle_get_serialize_size(na_class, mem_handle);

    return size > 0 ? size + 4 : 0;
}

static NA_INLINE na_return_t NA_Mem_handle_serialize2(na_class_t *na_class,
    void *buf, size_t buf_size, na_mem_handle_t *mem_handle)
{
    size_t i, size = NA_Mem_handle_get_serialize_size(na_class, mem_handle);
    unsigned char *bytes = (unsigned char *) buf;

    if (buf_size < 4 || buf_size - 4 < size)
        return NA_OVERFLOW;
    for (i = 0; i < 4; i++)
        bytes[i] = (unsigned char) (size >> 8 * i & 0xff);
    return NA_Mem_handle_serialize(na_class, bytes + 4, size, mem_handle);
}

static NA_INLINE na_return_t NA_Mem_handle_deserialize2(na_class_t *na_class,
    na_mem_handle_t **mem_handle_p, const void *buf, size_t buf_size)
{
    const unsigned char *bytes = (const unsigned char *) buf;
    size_t i, size = 0;

    for (i = 0; i < 4 && i < buf_size; i++)
        size |= (size_t) bytes[i] << 8 * i;
    if (buf_size < 4 || buf_size - 4 < size)
        return NA_PROTOCOL_ERROR;
    return NA_Mem_handle_deserialize(na_class, mem_handle_p, bytes + 4, size);
}

static NA_INLINE na_return_t NA_Put2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
    na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset,
    size_t data_size, na_addr_t *remote_addr, uint8_t remote_id,
    na_op_id_t *op_id)
{
    (void) remote_id;
    return NA_Put(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), local_mem_handle, local_offset,
        remote_mem_handle, remote_offset, data_size, remote_addr, &op_id->id);
}

static NA_INLINE na_return_t NA_Get2(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
    na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset,
    size_t data_size, na_addr_t *remote_addr, uint8_t remote_id,
    na_op_id_t *op_id)
{
    (void) remote_id;
    return NA_Get(na_class, context, na_op_id2_done,
        na_op_id2_set(op_id, callback, arg), local_mem_handle, local_offset,
        remote_mem_handle, remote_offset, data_size, remote_addr, &op_id->id);
}

/* ---- Progress ---- */

/* *count_p, if not NULL: 1 if callbacks wait for NA_Trigger; NA_Poll sets it to
 * 0 if none do. NA_Poll_wait then returns NA_TIMEOUT and sets nothing. */
static NA_INLINE na_return_t NA_Poll_wait(na_class_t *na_class,
    na_context_t *context, unsigned int timeout_ms, unsigned int *count_p)
{
    na_return_t ret = NA_Progress(na_class, context, timeout_ms);

    if (ret == NA_SUCCESS && count_p != NULL)
        *count_p = 1;
    return ret;
}

static NA_INLINE na_return_t NA_Poll(
    na_class_t *na_class, na_context_t *context, unsigned int *count_p)
{
    na_return_t ret = NA_Poll_wait(na_class, context, 0, count_p);

    if (ret != NA_TIMEOUT)
        return ret;
    if (count_p != NULL)
        *count_p = 0;
    return NA_SUCCESS;
}

static NA_INLINE na_return_t NA_Trigger2(
    na_context_t *context, unsigned int max_count, unsigned int *actual_count)
{
    na_return_t ret = NA_Trigger(context, 0, max_count, actual_count);

    return ret == NA_TIMEOUT ? NA_SUCCESS : ret;
}

unsigned int NA_Context_get_completion_count(const na_context_t *context)
    HG_ATTR_MISSING("hg has no NA_Context_get_completion_count: NA_Poll tells "
                    "whether NA_Trigger has something to do");

#ifdef __cplusplus
}
#endif

/* ---- Names that hg.h has with other arguments ---- */

#define NA_Error_to_string NA_Error_to_string2
#define NA_Addr_lookup NA_Addr_lookup2
#define NA_Addr_to_string NA_Addr_to_string2
#define NA_Addr_serialize NA_Addr_serialize2
#define NA_Addr_deserialize NA_Addr_deserialize2
#define NA_Cancel NA_Cancel2
#define NA_Msg_buf_alloc NA_Msg_buf_alloc2
#define NA_Msg_buf_free NA_Msg_buf_free2
#define NA_Msg_send_unexpected NA_Msg_send_unexpected2
#define NA_Msg_recv_unexpected NA_Msg_recv_unexpected2
#define NA_Msg_multi_recv_unexpected NA_Msg_multi_recv_unexpected2
#define NA_Msg_send_expected NA_Msg_send_expected2
#define NA_Msg_recv_expected NA_Msg_recv_expected2
#define NA_Mem_handle_create_segments NA_Mem_handle_create_segments2
#define NA_Mem_handle_get_serialize_size NA_Mem_handle_get_serialize_size2
#define NA_Mem_handle_serialize NA_Mem_handle_serialize2
#define NA_Mem_handle_deserialize NA_Mem_handle_deserialize2
#define NA_Mem_register NA_Mem_register2
#define NA_Put NA_Put2
#define NA_Get NA_Get2
#define NA_Trigger NA_Trigger2

#endif
