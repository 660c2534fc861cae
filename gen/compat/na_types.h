/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of Mercury's network layer. Where hg.h has another type of that name, a
 * macro gives the name to the one here: Mercury's na_addr_t is a struct, hg's
 * a pointer to it.
 */
#ifndef HG_COMPAT_NA_TYPES_H
#define HG_COMPAT_NA_TYPES_H

#include "na_config.h"

#include <limits.h>

/* ---- hg.h's own, for na.h ---- */

typedef na_op_id_t na_hg_op_id_t;
typedef na_cb_type_t na_hg_cb_type_t;
typedef struct na_cb_info na_hg_cb_info_t;
typedef struct na_segment na_hg_segment_t;

/* ---- Types ---- */

typedef struct na_addr na_addr2_t;
typedef struct na_mem_handle na_mem_handle2_t;
typedef struct na_op_id2 na_op_id2_t;
#define na_addr_t na_addr2_t
#define na_mem_handle_t na_mem_handle2_t
#define na_op_id_t na_op_id2_t

#undef NA_ADDR_NULL
#undef NA_MEM_HANDLE_NULL
#undef NA_OP_ID_NULL
#undef NA_OP_ID_IGNORE
#define NA_ADDR_NULL HG_CAST(na_addr_t *, HG_NULLPTR)
#define NA_MEM_HANDLE_NULL HG_CAST(na_mem_handle_t *, HG_NULLPTR)
#define NA_OP_ID_NULL HG_CAST(na_op_id_t *, HG_NULLPTR)

enum na_addr_flags { NA_ADDR_FIREWALL = 1 << 0 };

/* Of the same layout as hg.h's. */
struct na_segment2 {
    void *base;
    na_size_t len;
};
#define na_segment na_segment2

#define NA_CB_TYPES \
    X(NA_CB_SEND_UNEXPECTED) \
    X(NA_CB_RECV_UNEXPECTED) \
    X(NA_CB_MULTI_RECV_UNEXPECTED) \
    X(NA_CB_SEND_EXPECTED) \
    X(NA_CB_RECV_EXPECTED) \
    X(NA_CB_PUT) \
    X(NA_CB_GET) \
    X(NA_CB_MAX)
#define NA_CB_SEND_UNEXPECTED NA_CB2_SEND_UNEXPECTED
#define NA_CB_RECV_UNEXPECTED NA_CB2_RECV_UNEXPECTED
#define NA_CB_MULTI_RECV_UNEXPECTED NA_CB2_MULTI_RECV_UNEXPECTED
#define NA_CB_SEND_EXPECTED NA_CB2_SEND_EXPECTED
#define NA_CB_RECV_EXPECTED NA_CB2_RECV_EXPECTED
#define NA_CB_PUT NA_CB2_PUT
#define NA_CB_GET NA_CB2_GET
#define na_cb_type na_cb_type2
#define na_cb_type_t na_cb_type2_t
#define X(type) type,
typedef enum na_cb_type { NA_CB_TYPES } na_cb_type_t;
#undef X

struct na_cb_info_multi_recv_unexpected2 {
    size_t actual_buf_size;
    na_addr_t *source;
    na_tag_t tag;
    void *actual_buf;
    bool last;
};
#define na_cb_info_multi_recv_unexpected na_cb_info_multi_recv_unexpected2

struct na_cb_info2 {
    union {
        struct na_cb_info_recv_unexpected recv_unexpected;
        struct na_cb_info_multi_recv_unexpected multi_recv_unexpected;
        struct na_cb_info_recv_expected recv_expected;
    } info;
    void *arg;
    na_cb_type_t type;
    na_return_t ret;
};
#define na_cb_info na_cb_info2
typedef void (*na_cb2_t)(const struct na_cb_info *callback_info);
#define na_cb_t na_cb2_t

/* ---- Return codes ---- */

#define NA_RETURN_VALUES \
    X(NA_SUCCESS) \
    X(NA_PERMISSION) \
    X(NA_NOENTRY) \
    X(NA_INTERRUPT) \
    X(NA_AGAIN) \
    X(NA_NOMEM) \
    X(NA_ACCESS) \
    X(NA_FAULT) \
    X(NA_BUSY) \
    X(NA_EXIST) \
    X(NA_NODEV) \
    X(NA_INVALID_ARG) \
    X(NA_PROTOCOL_ERROR) \
    X(NA_OVERFLOW) \
    X(NA_MSGSIZE) \
    X(NA_PROTONOSUPPORT) \
    X(NA_OPNOTSUPPORTED) \
    X(NA_ADDRINUSE) \
    X(NA_ADDRNOTAVAIL) \
    X(NA_HOSTUNREACH) \
    X(NA_TIMEOUT) \
    X(NA_CANCELED) \
    X(NA_IO_ERROR) \
    X(NA_HOSTFIREWALL) \
    X(NA_RETURN_MAX)

/* ---- Constants ---- */

#define NA_VERSION(major, minor) (((major) << 16) | (minor))
#define NA_MAJOR(version) ((version) >> 16)
#define NA_MINOR(version) ((version) &0xffff)
#define NA_VERSION_GE(v1, v2) ((v1) >= (v2))
#define NA_VERSION_LT(v1, v2) ((v1) < (v2))

#define NA_OPT_MULTI_RECV (1 << 0)
#define NA_OPT_FIREWALL_ADDR (1 << 1)
#define NA_CONTEXT_ID_MAX UINT8_MAX
#define NA_SEND (1 << 0)
#define NA_RECV (1 << 1)
#define NA_MULTI_RECV (1 << 2)
#define NA_ALLOC_MAX (1 << 3)
#define NA_OP_SINGLE 0x00
#define NA_OP_MULTI 0x01
#define NA_TAG_MAX UINT_MAX

/* A value, as in Mercury: it can be assigned, too. */
#undef NA_INIT_INFO_INITIALIZER
#ifdef __cplusplus
static inline na_init_info na_init_info_default()
{
    na_init_info info = na_init_info();

    info.size = sizeof(info);
    return info;
}
#define NA_INIT_INFO_INITIALIZER na_init_info_default()
#else
#define NA_INIT_INFO_INITIALIZER \
    ((struct na_init_info){.size = sizeof(struct na_init_info)})
#endif

#endif
