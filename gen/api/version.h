/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg: remote procedure calls with bulk data.
 *
 * The whole public interface, in reading order: version, return codes, the
 * network abstraction (NA), procs, checksums, bulk data, the request model
 * of RPC, logging, macros, and, with HG_NA_PLUGIN_API defined above the
 * include, what a transport implements.
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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What stands before every function. A library that brings its own hg.c keeps
 * the copy to itself with -fvisibility=hidden -DHG_EXPORT= (nothing). */
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

#ifndef NA_EXPORT
#define NA_EXPORT HG_EXPORT
#endif
#define NA_WARN_UNUSED_RESULT HG_WARN_UNUSED_RESULT

/* One number from a version's three parts, for comparisons with #if. */
#define HG_VERSION(major, minor, patch) \
    (((major) << 16) | ((minor) << 8) | (patch))
