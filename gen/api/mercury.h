/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Version 2: Mercury's names ======================================== */
/**
 * @defgroup hg_mercury Mercury's names
 *
 * Names that only HG_API_VERSION 2 defines, for programs written for Mercury
 * 2.4. Both models have some functions with different signatures. Their names
 * end with a digit here, and version 2 maps the plain name to the function of
 * the callback model: HG_Version_get() to HG_Version_get2(), hg_proc_create()
 * to hg_proc_create2(). hg(7) has a table of them, also for bindings of other
 * languages. The other names are those of Mercury's headers:
 * versions, names of codes, types, attributes and macros for proc functions.
 * See hg-from-mercury(7).
 *
 * The macros that move bytes of a proc go to a label on failure, as in Mercury.
 *
 * @source Mercury 2.4
 * @{
 */
#if HG_API_VERSION == 2

/* ---- Plain names ---- */

#define HG_Error_to_string HG_Error_to_string2
#define HG_Version_get HG_Version_get2
#define HG_Set_log_level HG_Set_log_level2
#define HG_Set_log_subsys HG_Set_log_subsys2
#define HG_Set_log_func HG_Set_log_func2
#define hg_proc_create hg_proc_create2
#define hg_proc_free hg_proc_free2
#ifndef HG_Addr_lookup
#define HG_Addr_lookup HG_Addr_lookup1
#endif

/* ---- Versions ---- */

/** The release of Mercury whose interface this is. The release of this library
 * is that of the package hg, and of HG_Version_get() of version 1. */
#undef HG_VERSION_MAJOR
#undef HG_VERSION_MINOR
#undef HG_VERSION_PATCH
#define HG_VERSION_MAJOR HG_MERCURY_MAJOR
#define HG_VERSION_MINOR HG_MERCURY_MINOR
#define HG_VERSION_PATCH HG_MERCURY_PATCH
#define HG_MAJOR(version) ((version) >> 16)
#define HG_MINOR(version) ((version) &0xffff)
#define HG_VERSION_GE(v1, v2) ((v1) >= (v2))
#define HG_VERSION_LT(v1, v2) ((v1) < (v2))

/* ---- Return codes ---- */

/** Every return code, for a macro X. Code 23 is HG_HOSTFIREWALL, Mercury's name
 * for HG_DISCONNECT. */
#define HG_RETURN_VALUES \
    X(HG_SUCCESS) \
    X(HG_PERMISSION) \
    X(HG_NOENTRY) \
    X(HG_INTERRUPT) \
    X(HG_AGAIN) \
    X(HG_NOMEM) \
    X(HG_ACCESS) \
    X(HG_FAULT) \
    X(HG_BUSY) \
    X(HG_EXIST) \
    X(HG_NODEV) \
    X(HG_INVALID_ARG) \
    X(HG_PROTOCOL_ERROR) \
    X(HG_OVERFLOW) \
    X(HG_MSGSIZE) \
    X(HG_PROTONOSUPPORT) \
    X(HG_OPNOTSUPPORTED) \
    X(HG_ADDRINUSE) \
    X(HG_ADDRNOTAVAIL) \
    X(HG_HOSTUNREACH) \
    X(HG_TIMEOUT) \
    X(HG_CANCELED) \
    X(HG_IO_ERROR) \
    X(HG_HOSTFIREWALL) \
    X(HG_CHECKSUM_ERROR) \
    X(HG_NA_ERROR) \
    X(HG_OTHER_ERROR) \
    X(HG_RETURN_MAX)

/** Names of codes in older versions of Mercury. */
#define HG_INVALID_PARAM HG_INVALID_ARG
#define HG_SIZE_ERROR HG_MSGSIZE
#define HG_NOMEM_ERROR HG_NOMEM
#define HG_NO_MATCH HG_NOENTRY

/* ---- Types and attributes ---- */

/** Mercury's names of integer types. */
typedef int8_t hg_int8_t;
typedef int16_t hg_int16_t;
typedef int32_t hg_int32_t;
typedef int64_t hg_int64_t;
typedef uint8_t hg_uint8_t;
typedef uint16_t hg_uint16_t;
typedef uint32_t hg_uint32_t;
typedef uint64_t hg_uint64_t;
typedef uint64_t hg_ptr_t;

#define HG_CORE_SM (1 << 0)
#define HG_HAS_CHECKSUMS 1 /**< hg_proc_checksum_get() exists */
#define HG_INLINE __inline__
#define HG_PUBLIC HG_EXPORT
#if defined(__GNUC__)
#define HG_UNUSED __attribute__((unused))
#define HG_PACKED(declaration) declaration __attribute__((packed))
#else
#define HG_UNUSED
#define HG_PACKED(declaration) declaration
#endif
#if defined(__GNUC__) && (__GNUC__ >= 7 || defined(__clang__))
#define HG_FALLTHROUGH __attribute__((fallthrough))
#else
#define HG_FALLTHROUGH \
    do { \
    } while (0)
#endif

/* ---- Procs ---- */

/** Mercury's names of proc functions. An id has 64 bits, of which Mercury's
 * proc function moves 32. */
#define hg_proc_hg_id_t hg_proc_uint64_t
#define hg_proc_hg_size_t hg_proc_uint64_t
#define hg_proc_hg_ptr_t hg_proc_uint64_t
#define hg_proc_hg_bool_t hg_proc_uint8_t
#define hg_proc_hg_int8_t hg_proc_int8_t
#define hg_proc_hg_int16_t hg_proc_int16_t
#define hg_proc_hg_int32_t hg_proc_int32_t
#define hg_proc_hg_int64_t hg_proc_int64_t
#define hg_proc_hg_uint8_t hg_proc_uint8_t
#define hg_proc_hg_uint16_t hg_proc_uint16_t
#define hg_proc_hg_uint32_t hg_proc_uint32_t
#define hg_proc_hg_uint64_t hg_proc_uint64_t
#define hg_proc_raw hg_proc_bytes
#define hg_proc_memcpy hg_proc_raw

/* The beginning of a proc object. */
#define HG_PROC_CURSOR(proc) \
    (HG_CAST(struct hg_proc_cursor *, HG_CAST(void *, proc)))

/** Go to `label` unless `size` bytes can be encoded or decoded. */
#define HG_PROC_CHECK_SIZE(proc, size, label, ret) \
    do { \
        ret = hg_proc_reserve(proc, size); \
        if (ret != HG_SUCCESS) \
            goto label; \
    } while (0)

/** Copy bytes to the proc's position, copy bytes from it, move it. Call
 * HG_PROC_CHECK_SIZE first. They do nothing when the proc frees. */
#define HG_PROC_TYPE_ENCODE(proc, source, size) \
    do { \
        if (HG_PROC_CURSOR(proc)->op != HG_FREE) \
            memcpy(HG_PROC_CURSOR(proc)->data + HG_PROC_CURSOR(proc)->pos, \
                source, size); \
    } while (0)
#define HG_PROC_TYPE_DECODE(proc, target, size) \
    do { \
        if (HG_PROC_CURSOR(proc)->op != HG_FREE) \
            memcpy(target, \
                HG_PROC_CURSOR(proc)->data + HG_PROC_CURSOR(proc)->pos, size); \
    } while (0)
#define HG_PROC_UPDATE(proc, size) \
    do { \
        if (HG_PROC_CURSOR(proc)->op != HG_FREE) \
            HG_PROC_CURSOR(proc)->pos += (size); \
    } while (0)
#define HG_PROC_CHECKSUM_UPDATE(proc, source, size) \
    hg_proc_checksum_update(proc, source, size)

/** Copy the bytes of an object as they are; go to `label` on failure, and when
 * the proc frees. */
#define HG_PROC_BYTES(proc, object, size, label, ret) \
    do { \
        if (hg_proc_get_op(proc) == HG_FREE) \
            goto label; \
        ret = hg_proc_bytes(proc, object, size); \
        if (ret != HG_SUCCESS) \
            goto label; \
    } while (0)
#define HG_PROC_TYPE(proc, type, object, label, ret) \
    HG_PROC_BYTES(proc, object, sizeof(type), label, ret)

#endif /* HG_API_VERSION == 2 */
/** @} */
