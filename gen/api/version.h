/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg: remote procedure calls with bulk data.
 *
 * The whole public interface, in the order in which a user needs it: version,
 * return codes, types, endpoints and addresses, structs and stubs, the request
 * model, bulk data, the callback model, what both models have beyond Mercury,
 * memory and logging, procs in depth, Mercury's names, and NA, the network
 * layer. A divider ends the reference. Macro bodies and, with HG_NA_PLUGIN_API
 * defined above the include, the interface for transports follow it.
 *
 * HG_API_VERSION above the include chooses what the names mean that both models
 * have, HG_Init for one: 1, the default, the request model; 2, the callback
 * model, and with it every name of Mercury 2.4. What is called HG_Init1 and
 * HG_Init2 can be called under both, and files compiled with one and the other
 * may be linked together.
 *
 * HG_API_STRICT 1 leaves out what Mercury has not and its programs may define
 * themselves: the request model, levels of the log as numbers, and the procs of
 * float and double. The headers of gen/compat define both.
 *
 * Everything may be called from any thread unless a contract says otherwise.
 * Sizes are bytes, times are milliseconds. A function that fails writes one
 * log line with the cause and leaves its output arguments alone. "Borrowed"
 * pointers are used during the call only; "taken" ones belong to the library
 * from then on; "copied" ones may be freed at once.
 *
 * Semantics come from the Mercury design report on the function shipper
 * ("API and Protocol Additions and Changes") and the Mercury paper (2013);
 * contracts name the section where it matters.
 */
#ifndef HG_API_VERSION
#define HG_API_VERSION 1
#endif
#ifndef HG_API_STRICT
#define HG_API_STRICT 0
#endif
#if HG_API_VERSION != 1 && HG_API_VERSION != 2
#error "HG_API_VERSION is 1 (the request model) or 2 (the callback model)"
#endif
/* The version of this inclusion, for the check at the end of hg.h. */
#if HG_API_VERSION == 1
#define HG_H_VERSION 1
#else
#define HG_H_VERSION 2
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#if HG_API_VERSION == 2
#include <limits.h>
#include <string.h>
#endif

/* Stands before every function. A shared library that brings its own hg.c
 * keeps the copy to itself with -fvisibility=hidden and HG_EXPORT empty; a
 * single source file, with `#define HG_EXPORT static` above #include "hg.c".
 * The latter serves the request model only: a file of HG_API_VERSION 2 cannot
 * include hg.c. For the callback model, compile hg.c separately with the flags
 * of the former; `objcopy --localize-hidden` keeps a static copy to itself. */
#ifndef HG_EXPORT
#if defined(__GNUC__)
#define HG_EXPORT __attribute__((visibility("default")))
#else
#define HG_EXPORT
#endif
#endif

#if defined(__GNUC__)
#define HG_WARN_UNUSED_RESULT __attribute__((warn_unused_result))
#else
#define HG_WARN_UNUSED_RESULT
#endif

/* A cast that C++ has no name for but "old". */
#ifdef __cplusplus
#define HG_CAST(type, value) static_cast<type>(value)
#else
#define HG_CAST(type, value) ((type) (value))
#endif

/* A null pointer, which C++ does not want written as a number. */
#ifdef __cplusplus
#define HG_NULLPTR nullptr
#else
#define HG_NULLPTR NULL
#endif

#ifndef NA_EXPORT
#define NA_EXPORT HG_EXPORT
#endif
#define NA_WARN_UNUSED_RESULT HG_WARN_UNUSED_RESULT

/* The release of Mercury whose interface the callback model is. */
#define HG_MERCURY_MAJOR 2
#define HG_MERCURY_MINOR 4
#define HG_MERCURY_PATCH 1

/* One number from a version's three parts, for comparisons with #if. Version 2
 * has Mercury's, of two. */
#if HG_API_VERSION == 1
#define HG_VERSION(major, minor, patch) \
    (((major) << 16) | ((minor) << 8) | (patch))
#else
#define HG_VERSION(major, minor) (((major) << 16) | (minor))
#endif
