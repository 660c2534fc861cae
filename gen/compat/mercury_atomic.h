/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic integers: those of <stdatomic.h> in C, of <atomic> in C++. */
#ifndef HG_COMPAT_MERCURY_ATOMIC_H
#define HG_COMPAT_MERCURY_ATOMIC_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C++" {
#include <atomic>
}
typedef std::atomic<int32_t> hg_atomic_int32_t;
typedef std::atomic<int64_t> hg_atomic_int64_t;
#define HG_ATOMIC_STD(name) std::name
#define HG_ATOMIC_VAR_INIT(x) \
    { \
        (x) \
    }
#else
#include <stdatomic.h>
typedef atomic_int_least32_t hg_atomic_int32_t;
typedef atomic_int_least64_t hg_atomic_int64_t;
#define HG_ATOMIC_STD(name) name
#define HG_ATOMIC_VAR_INIT(x) (x)
#endif

#define HG_ATOMIC_RMW(function) \
    HG_ATOMIC_STD(function)(ptr, value, HG_ATOMIC_STD(memory_order_acq_rel))

/* A load acquires, a store releases. incr and decr give the new value; or, xor
 * and and the old one; cas whether it swapped. */
#define HG_ATOMIC_FUNCTIONS(bits) \
    static HG_UTIL_INLINE void hg_atomic_init##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t value) \
    { \
        HG_ATOMIC_STD(atomic_init)(ptr, value); \
    } \
    static HG_UTIL_INLINE void hg_atomic_set##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t value) \
    { \
        HG_ATOMIC_STD(atomic_store_explicit) \
        (ptr, value, HG_ATOMIC_STD(memory_order_release)); \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_get##bits( \
        const hg_atomic_int##bits##_t *ptr) \
    { \
        return HG_ATOMIC_STD(atomic_load_explicit)( \
            ptr, HG_ATOMIC_STD(memory_order_acquire)); \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_incr##bits( \
        hg_atomic_int##bits##_t *ptr) \
    { \
        int##bits##_t value = 1; \
        return HG_ATOMIC_RMW(atomic_fetch_add_explicit) + 1; \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_decr##bits( \
        hg_atomic_int##bits##_t *ptr) \
    { \
        int##bits##_t value = 1; \
        return HG_ATOMIC_RMW(atomic_fetch_sub_explicit) - 1; \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_or##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t value) \
    { \
        return HG_ATOMIC_RMW(atomic_fetch_or_explicit); \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_xor##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t value) \
    { \
        return HG_ATOMIC_RMW(atomic_fetch_xor_explicit); \
    } \
    static HG_UTIL_INLINE int##bits##_t hg_atomic_and##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t value) \
    { \
        return HG_ATOMIC_RMW(atomic_fetch_and_explicit); \
    } \
    static HG_UTIL_INLINE bool hg_atomic_cas##bits( \
        hg_atomic_int##bits##_t *ptr, int##bits##_t compare_value, \
        int##bits##_t swap_value) \
    { \
        return HG_ATOMIC_STD(atomic_compare_exchange_strong_explicit)(ptr, \
            &compare_value, swap_value, HG_ATOMIC_STD(memory_order_acq_rel), \
            HG_ATOMIC_STD(memory_order_acquire)); \
    }

#ifdef __cplusplus
extern "C" {
#endif

HG_ATOMIC_FUNCTIONS(32)
HG_ATOMIC_FUNCTIONS(64)

static HG_UTIL_INLINE void hg_atomic_fence(void)
{
    HG_ATOMIC_STD(atomic_thread_fence)(HG_ATOMIC_STD(memory_order_acq_rel));
}

#ifdef __cplusplus
}
#endif

#endif
