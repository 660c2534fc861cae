/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first part of each transport that is a separate file: system headers, and
 * hg.h with the plugin interface.
 *
 * The files of gen/plug are pasted into each transport. Several transports may
 * be in one translation unit: include guards keep one copy.
 *
 * Must not know: anything of hg but hg.h, nor any library.
 */
#ifndef HG_GEN_PLUG_PLUG_H
#define HG_GEN_PLUG_PLUG_H

#if defined(_FEATURES_H) && \
    (!defined(_GNU_SOURCE) || (defined(__GLIBC__) && !defined(__USE_GNU)))
#error "hg_na_*.c comes after a system header that was included without \
_GNU_SOURCE: compile it by itself (in CMake: SKIP_UNITY_BUILD_INCLUSION), or \
define _GNU_SOURCE for all files"
#include <stopped-by-the-error-above>
#elif defined(HG_H) && !defined(NA_PLUGIN_ABI)
#error "hg_na_*.c comes after hg.h: compile it by itself (in CMake: \
SKIP_UNITY_BUILD_INCLUSION), or put it behind hg.c"
#include <stopped-by-the-error-above>
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Behind hg.c both are defined. */
#ifndef HG_DEBUG
#define HG_DEBUG 0
#endif
#ifndef HG_ASSERT
#if HG_DEBUG
#include <assert.h>
#define HG_ASSERT(condition) assert(condition)
#else
#define HG_ASSERT(condition) ((void) 0)
#endif
#endif

#ifndef HG_NA_PLUGIN_API
#define HG_NA_PLUGIN_API 1
#endif
#ifndef NA_PLUGIN_ABI
/* Like hg.c: version 1, even if the program defines another. */
#undef HG_API_VERSION
#undef HG_API_STRICT
#undef HG_SEED_NAMES
#include "hg.h"
#endif

/* For functions that are declared in one file and defined in a later one. */
#define HG_PRIVATE static

/* For functions of these files that not every transport calls. */
#define NA_PLUG_PERHAPS __attribute__((unused))

/* An address whose process answers a HELLO with the number of this class is the
 * class's own one, by another name, if this class has received that HELLO. Else
 * the connection ends, and this is the reason in the log. */
#define NA_PLUG_IMPOSTOR \
    "it claims to be this class, which did not receive the connection"

/* Log what is wrong with `rest`, the part behind "://". `subsys` is also the
 * name of the transport. Returns NA_INVALID_ARG. */
static inline NA_PLUG_PERHAPS na_return_t na_plug_bad_name(
    const struct na_class *na_class, const char *subsys, na_bool_t from_peer,
    const char *rest, const char *why)
{
    na_class->core->log(from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR,
        subsys, "%s+%s://%s: %s", subsys, na_class->protocol, rest, why);
    return NA_INVALID_ARG;
}

#endif
