/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os: what the operating system and the compiler provide.
 *
 * The first module. It selects the feature macros, includes every system header
 * that private modules use, and sets defaults of the configuration macros, each
 * 0 or 1 and tested with #if. No other module checks for the operating system.
 *
 * HG_PRIVATE marks a function that other modules call: static when all modules
 * are pasted into hg.c, hidden when they are compiled one by one (HG_SPLIT).
 */
#ifndef HG_GEN_BASE_OS_H
#define HG_GEN_BASE_OS_H

#if defined(__cplusplus)
#error "hg.c is C: compile it as that, and link; hg.h is for C++, too"
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "hg.c is C11: compile it with -std=c11, or what came after"
#elif defined(__STDC_NO_ATOMICS__)
#error "hg.c needs stdatomic.h, and this compiler says that it has none"
#endif

/* A unity build may include system headers before hg.c. Including a file that
 * does not exist stops the compilation, so that this is the only error. */
#if defined(_FEATURES_H) && \
    (!defined(_GNU_SOURCE) || (defined(__GLIBC__) && !defined(__USE_GNU)))
#error "hg.c comes after a system header that was included without \
_GNU_SOURCE: compile hg.c by itself (in CMake: set_source_files_properties\
(hg.c PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)), put it first, or define \
_GNU_SOURCE for all files"
#include <stopped-by-the-error-above>
#elif defined(HG_H) && \
    (!defined(NA_PLUGIN_ABI) || HG_API_VERSION != 1 || HG_API_STRICT || \
        defined(HG_SEED_NAMES))
#error "hg.c comes after hg.h: compile hg.c by itself (in CMake: \
set_source_files_properties(hg.c PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)), \
or put it first"
#include <stopped-by-the-error-above>
#elif defined(__INCLUDE_LEVEL__) && !defined(HG_SPLIT)
#if __INCLUDE_LEVEL__ > 0 && \
    ((defined(HG_API_VERSION) && HG_API_VERSION != 1) || \
        (defined(HG_API_STRICT) && HG_API_STRICT) || defined(HG_SEED_NAMES))
#error "hg.c is included by a file of HG_API_VERSION 2, HG_API_STRICT or \
HG_SEED_NAMES, and declares version 1: compile hg.c by itself (in CMake: \
set_source_files_properties(hg.c PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON))"
#include <stopped-by-the-error-above>
#endif
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Check the invariants, as in all tests: -DHG_DEBUG. */
#ifndef HG_DEBUG
#define HG_DEBUG 0
#endif

/* Modules are compiled one by one instead of pasted into hg.c. */
#ifndef HG_SPLIT
#define HG_SPLIT 0
#endif

/* Sleep on epoll and eventfd; 0 falls back to poll and a pipe. */
#ifndef HG_ENABLE_EPOLL
#ifdef __linux__
#define HG_ENABLE_EPOLL 1
#else
#define HG_ENABLE_EPOLL 0
#endif
#endif

/* The transport sm, between processes of one node: needs Linux's memfd, socket
 * credentials and epoll, even if HG_ENABLE_EPOLL is 0. Without it and epoll,
 * hg.c uses only POSIX. */
#ifndef HG_ENABLE_SM
#ifdef __linux__
#define HG_ENABLE_SM 1
#else
#define HG_ENABLE_SM 0
#endif
#endif

#if HG_ENABLE_SM && (ATOMIC_LLONG_LOCK_FREE != 2 || ATOMIC_CHAR_LOCK_FREE != 2)
#error "sm needs atomics of 8 and 64 bits without locks: -DHG_ENABLE_SM=0"
#endif

/* Carry-less multiplication for CRC64, used if the processor has it; 0 uses
 * only the tables, for compilers that do not support the wide form. */
#ifndef HG_ENABLE_CRC_SIMD
#if defined(__x86_64__) && \
    (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 8))
#define HG_ENABLE_CRC_SIMD 1
#else
#define HG_ENABLE_CRC_SIMD 0
#endif
#endif

/* Transports compiled in besides the built-in ones. A macro defined without a
 * value counts as 1: `0 - - 1`. */
#ifndef HG_NA_ZMQ
#define HG_NA_ZMQ 0
#elif 0 - HG_NA_ZMQ - 1 == 1
#undef HG_NA_ZMQ
#define HG_NA_ZMQ 1
#endif
#ifndef HG_NA_OFI
#define HG_NA_OFI 0
#elif 0 - HG_NA_OFI - 1 == 1
#undef HG_NA_OFI
#define HG_NA_OFI 1
#endif
#ifndef HG_NA_MPI
#define HG_NA_MPI 0
#elif 0 - HG_NA_MPI - 1 == 1
#undef HG_NA_MPI
#define HG_NA_MPI 1
#endif

#if HG_ENABLE_EPOLL || HG_ENABLE_SM
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#endif
#ifdef __linux__
#include <sys/syscall.h> /* getrandom, also where the C library lacks it */
#endif
#if HG_ENABLE_SM
#include <dirent.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/vfs.h>
#endif
#if HG_ENABLE_CRC_SIMD
#include <smmintrin.h>
#include <wmmintrin.h>
#endif

/* With HG_EXPORT static, functions that the program does not call are unused.
 * hg/names.c restores the warning. */
#if defined(HG_EXPORT) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define HG_WARNING_OFF 1
#else
#define HG_WARNING_OFF 0
#endif

/* hg.c is written for version 1, even if the program uses another. */
#ifndef HG_H
#undef HG_API_VERSION
#undef HG_API_STRICT
#undef HG_SEED_NAMES
#endif
#ifndef HG_NA_PLUGIN_API
#define HG_NA_PLUGIN_API 1
#endif
#include "hg.h"

#if HG_SPLIT
#define HG_PRIVATE __attribute__((visibility("hidden")))
#define HG_HOT
#else
#define HG_PRIVATE static
#define HG_HOT inline /* used in every call; inlined */
#endif

/* States an invariant; without HG_DEBUG the condition is not evaluated. */
#if HG_DEBUG
#include <assert.h>
#define HG_ASSERT(condition) assert(condition)
#else
#define HG_ASSERT(condition) ((void) 0)
#endif

/* Distance between data that threads of two contexts write, in objects that may
 * be adjacent in the heap, so that they do not share a cache line. */
#define HG_APART 64

#if defined(__GNUC__)
#define HG_LIKELY(x) __builtin_expect(!!(x), 1)
#define HG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HG_PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
/* The rare part of a HG_HOT function. */
#define HG_NOINLINE __attribute__((noinline))
#define HG_COLD __attribute__((cold)) /* code that leads to it is rare, too */
#else
#define HG_NOINLINE
#define HG_COLD
#define HG_LIKELY(x) (x)
#define HG_UNLIKELY(x) (x)
#define HG_PRINTF_LIKE(f, a)
#endif

/* The object of type `type` whose `member` is at `ptr`. */
#define HG_CONTAINER_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

#endif
