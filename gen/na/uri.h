/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uri: parses address strings.
 *
 *     [plugin+]protocol[://[rest]]
 *     zmq+tcp://10.0.0.1:5000;zmq+ipc:///run/a;sm://NAME
 *
 * The transport parses what follows "://". In a list of addresses a semicolon
 * is a separator only if a scheme and "://" follow it, so that it may be part
 * of a path. A protocol may name layers of libfabric: "tcp;ofi_rxm".
 *
 * Knows no transport. No state, no lock.
 */
#ifndef HG_GEN_NA_URI_H
#define HG_GEN_NA_URI_H

#include "base/os.h"

#define NA_URI_NAME_MAX 32

struct na_uri {
    char plugin[NA_URI_NAME_MAX];   /* "" when not named */
    char protocol[NA_URI_NAME_MAX]; /* "tcp" */
    const char *rest;               /* points into the parsed string */
};

/* Parse `string` (borrowed as long as uri->rest is used). NA_INVALID_ARG,
 * logged: not of that form, too long, or with control characters. */
HG_PRIVATE na_return_t na_uri_read(
    int level, const char *string, struct na_uri *uri);

static inline na_return_t na_uri_parse(const char *string, struct na_uri *uri)
{
    return na_uri_read(HG_LOG_LEVEL_ERROR, string, uri);
}

/* Whether a string lists several addresses. */
HG_PRIVATE bool na_uri_is_list(const char *string);

/* Copy the first address of *at_p, and advance. False: there is none, or it is
 * too long. */
HG_PRIVATE bool na_uri_next(const char **at_p, char part[NA_MAX_ADDR_LEN]);

#endif
