/* SPDX-License-Identifier: BSD-3-Clause */
/* The version, and the level of the log outlets of mercury_log.h. */
#ifndef HG_COMPAT_MERCURY_UTIL_H
#define HG_COMPAT_MERCURY_UTIL_H

#include "mercury_log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL is allowed. */
static HG_UTIL_INLINE void HG_Util_version_get(
    unsigned int *major, unsigned int *minor, unsigned int *patch)
{
    if (major != NULL)
        *major = HG_UTIL_VERSION_MAJOR;
    if (minor != NULL)
        *minor = HG_UTIL_VERSION_MINOR;
    if (patch != NULL)
        *patch = HG_UTIL_VERSION_PATCH;
}

static HG_UTIL_INLINE void HG_Util_set_log_level(const char *level)
{
    hg_log_set_subsys_level("hg_util", hg_log_name_to_level(level));
}

#ifdef __cplusplus
}
#endif

#endif
