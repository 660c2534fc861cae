/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mercury's name for hg.h, which every header beside this one includes: version
 * 2 of its interface, and nothing that a program for Mercury may define itself.
 * A file that includes hg.h before must have chosen that version.
 */
#ifndef HG_COMPAT_MERCURY_CONFIG_H
#define HG_COMPAT_MERCURY_CONFIG_H

#ifndef HG_H
#ifndef HG_API_VERSION
#define HG_API_VERSION 2
#endif
#ifndef HG_API_STRICT
#define HG_API_STRICT 1
#endif
#endif

#include "hg.h"
#include "mercury_compiler_attributes.h"

#if HG_API_VERSION != 2
#error "Mercury's headers and version 1 of hg.h are in one file"
#endif

/* As in hg.h. Find modules read the version from the text of this file. */
#undef HG_VERSION_MAJOR
#undef HG_VERSION_MINOR
#undef HG_VERSION_PATCH
#define HG_VERSION_MAJOR 2
#define HG_VERSION_MINOR 4
#define HG_VERSION_PATCH 1

#define HG_BUILD_SHARED_LIBS

/* HG_Class_get_counters() exists. */
#define HG_HAS_DIAG

/* Several threads may make progress on a context. */
#define HG_HAS_MULTI_PROGRESS

/* Boost's preprocessor is installed, and mercury_macros.h includes it for the
 * program. MERCURY_GEN_PROC needs no Boost. */
#if !defined(HG_HAS_BOOST) && defined(__has_include)
#if __has_include(<boost/preprocessor.hpp>)
#define HG_HAS_BOOST 1
#endif
#endif

/* Visible only inside a program's own library. */
#ifndef HG_PRIVATE
#if defined(__GNUC__)
#define HG_PRIVATE __attribute__((visibility("hidden")))
#else
#define HG_PRIVATE
#endif
#endif

#endif
