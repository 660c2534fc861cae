/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mercury's utility library as headers: every function of mercury_time.h,
 * mercury_thread.h and the like is static inline, so that nothing has to be
 * linked but pthreads. hg-from-mercury(7) lists what is mapped.
 */
#ifndef HG_COMPAT_MERCURY_UTIL_CONFIG_H
#define HG_COMPAT_MERCURY_UTIL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

#define HG_UTIL_VERSION_MAJOR 4
#define HG_UTIL_VERSION_MINOR 1
#define HG_UTIL_VERSION_PATCH 0

#define HG_UTIL_SUCCESS 0
#define HG_UTIL_FAIL (-1)

/* With -std=c99 or -std=c11 the C library's headers hide POSIX. Then these
 * headers declare the functions that they call. */
#if defined(__linux__) && defined(__LP64__) && !defined(__cplusplus) && \
    (!defined(_POSIX_C_SOURCE) || _POSIX_C_SOURCE < 200112L)
#define HG_UTIL_DECLARE_POSIX 1
#else
#define HG_UTIL_DECLARE_POSIX 0
#endif

#define HG_UTIL_INLINE __inline__
#define HG_UTIL_ALIGNED(declaration, bytes) HG_ATTR_ALIGNED(declaration, bytes)
#define HG_UTIL_PRINTF(text, first) HG_ATTR_PRINTF(text, first)
#define HG_UTIL_PUBLIC HG_ATTR_ABI_EXPORT
#define HG_UTIL_PRIVATE HG_ATTR_ABI_HIDDEN
#define HG_UTIL_PLUGIN HG_ATTR_ABI_EXPORT

/* Of Mercury 2.0. */
typedef bool hg_util_bool_t;
#define HG_UTIL_TRUE 1
#define HG_UTIL_FALSE 0

#endif
