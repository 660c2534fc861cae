/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * hg: remote procedure calls with bulk data.
 *
 * This header is the whole public interface, in the order in which a user needs
 * it. Version, return codes, types, endpoints and addresses come first. Stubs,
 * the request model and bulk data follow, then deadlines, flow control and
 * inspection for both models, and the callback model. Logging, procs in depth,
 * Mercury's names and NA, the network layer, end the reference. Macro bodies
 * and the interface for transports stand below a divider.
 *
 * These rules hold for every function, unless its contract says otherwise:
 *
 * - It can be called from any thread.
 * - Sizes are in bytes, times in milliseconds.
 * - A function that fails does not change its output arguments. If this process
 *   made a mistake, or a lookup fails, the log has one line with the cause.
 * - A "borrowed" pointer is used during the call only. A "taken" pointer
 *   belongs to the library from then on. The caller may free what is "copied"
 *   as soon as the function returns.
 *
 * The semantics come from the Mercury design report on the function shipper
 * ("API and Protocol Additions and Changes") and the Mercury paper (2013).
 * Contracts name the section where it matters.
 */

/* ==== Version and configuration ========================================= */
/**
 * @defgroup hg_version Version and configuration
 *
 * Macros that a program defines above the include, and macros that tell the
 * version.
 *
 * - HG_API_VERSION chooses the model.
 * - HG_API_STRICT leaves out what Mercury does not have.
 * - HG_EXPORT stands before every function, NA_EXPORT before those of NA. By
 *   default they make the function visible.
 * - HG_NA_PLUGIN_API adds the interface for transports.
 * - HG_SEED_NAMES adds the names of the first reports.
 *
 * A shared library that contains its own hg.c hides that copy in one of two
 * ways:
 *
 * - It compiles hg.c separately, with -fvisibility=hidden and HG_EXPORT empty.
 *   `objcopy --localize-hidden` does the same for a static library.
 * - A single source file defines HG_EXPORT as static above \#include "hg.c".
 *   This works for the request model only: a file with HG_API_VERSION 2 cannot
 *   include hg.c.
 *
 * HG_VERSION_MAJOR, HG_VERSION_MINOR and HG_VERSION_PATCH are the version of
 * this header, and HG_Version_get() gives that of the library. With
 * HG_API_VERSION 2 these names give the version of Mercury, as in Mercury.
 * @{
 */

/**
 * The model that the common names, such as HG_Init, stand for: 1 or 2.
 *
 * 1, the default, is the request model. 2 is the callback model, and also gives
 * every name of Mercury 2.4. The numbered names, HG_Init1() and HG_Init2(), can
 * be called under both. Files compiled with 1 and files compiled with 2 can be
 * linked together.
 */
#ifndef HG_API_VERSION
#define HG_API_VERSION 1
#endif
/**
 * 1 leaves out names that programs written for Mercury may define themselves.
 *
 * These are the request model, the log levels as numbers, and the procs of
 * float and double. The headers of gen/compat define it, and set HG_API_VERSION
 * to 2.
 */
#ifndef HG_API_STRICT
#define HG_API_STRICT 0
#endif
/** @} */

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
#include <limits.h>
#include <stdio.h>
#if HG_API_VERSION == 2
#include <string.h>
#endif

/* Stands before every function. */
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

/* A cast without a warning of C++ about old-style casts. */
#ifdef __cplusplus
#define HG_CAST(type, value) static_cast<type>(value)
#else
#define HG_CAST(type, value) ((type) (value))
#endif

/* Run statements of the application. If they throw an exception, run `caught`,
 * where `hg_what` is the text of the exception. In C, and in C++ without
 * exceptions, only run them. */
#if defined(__cplusplus) && \
    (defined(__cpp_exceptions) || defined(__EXCEPTIONS) || \
        defined(_CPPUNWIND))
extern "C++" { /* the include may stand inside extern "C" */
#include <exception>
}
#define HG_GEN_TRY(caught, ...) \
    try { \
        __VA_ARGS__ \
    } catch (const std::exception &hg_exception) { \
        const char *hg_what = hg_exception.what(); \
        caught; \
    } catch (...) { \
        const char *hg_what = "no std::exception"; \
        caught; \
    }
#else
#define HG_GEN_TRY(caught, ...) __VA_ARGS__
#endif

/* A null pointer without a warning of C++ about a number as a pointer. */
#ifdef __cplusplus
#define HG_NULLPTR nullptr
#else
#define HG_NULLPTR NULL
#endif

#ifndef NA_EXPORT
#define NA_EXPORT HG_EXPORT
#endif
#define NA_WARN_UNUSED_RESULT HG_WARN_UNUSED_RESULT

/**
 * @addtogroup hg_version
 * @{
 */
#define HG_MERCURY_MAJOR 2 /**< Mercury's version that version 2 implements */
#define HG_MERCURY_MINOR 4 /**< its second number */
#define HG_MERCURY_PATCH 1 /**< its third number */

/**
 * Make one number of a version's three parts, for comparisons with \#if.
 *
 * Under HG_API_VERSION 2 it is Mercury's macro, which takes two parts.
 */
#if HG_API_VERSION == 1
#define HG_VERSION(major, minor, patch) \
    (((major) << 16) | ((minor) << 8) | (patch))
#else
#define HG_VERSION(major, minor) (((major) << 16) | (minor))
#endif
/** @} */
