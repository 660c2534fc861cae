/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uri: takes an address string apart: [plugin+]protocol[://[rest]].
 *
 * Knows no transport; what stands behind "://" is the transport's to read.
 * No state, no lock.
 */
#ifndef HG_GEN_NA_URI_H
#define HG_GEN_NA_URI_H

#include "base/os.h"

#define NA_URI_NAME_MAX 32

struct na_uri {
    char plugin[NA_URI_NAME_MAX];   /* "" when not named */
    char protocol[NA_URI_NAME_MAX]; /* "tcp" */
    const char *rest;               /* into the parsed string */
};

/* Parse `string` (borrowed as long as uri->rest is used). NA_INVALID_ARG,
 * logged: not of that form, too long, or with control characters. */
HG_PRIVATE na_return_t na_uri_read(
    int level, const char *string, struct na_uri *uri);

static inline na_return_t na_uri_parse(const char *string, struct na_uri *uri)
{
    return na_uri_read(HG_LOG_LEVEL_ERROR, string, uri);
}

#endif
