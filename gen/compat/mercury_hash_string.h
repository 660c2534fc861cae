/* SPDX-License-Identifier: BSD-3-Clause */
/* Bernstein's hash of a string: times 33, plus the next byte. */
#ifndef HG_COMPAT_MERCURY_HASH_STRING_H
#define HG_COMPAT_MERCURY_HASH_STRING_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE unsigned int hg_hash_string(const char *string)
{
    unsigned int hash = 5381;

    for (; *string != '\0'; string++)
        hash = hash * 33 + (unsigned char) *string;
    return hash;
}

#ifdef __cplusplus
}
#endif

#endif
