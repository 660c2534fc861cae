/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors: a text for every return code, and the versions.
 *
 * NA and HG share one table; NA knows its first part.
 */
#include "base/log.h"

static const char *const hg_errors_texts[HG_RETURN_MAX] = {
    "success",
    "operation not permitted",
    "no such entry",
    "interrupted by a signal",
    "limit reached, try again later",
    "out of memory",
    "access denied by the system",
    "object unusable",
    "busy",
    "exists already",
    "no such device",
    "invalid argument",
    "protocol error",
    "out of range",
    "size does not fit",
    "protocol not supported",
    "operation not supported",
    "address in use",
    "address not available",
    "host unreachable",
    "timed out",
    "canceled",
    "input/output error",
    "peer disconnected",
    "checksum error",
    "network layer error",
    "other error",
};

/* Mercury's words for the same codes. */
static const char *const hg_errors_names[HG_RETURN_MAX] = {
    "HG_SUCCESS",
    "HG_PERMISSION",
    "HG_NOENTRY",
    "HG_INTERRUPT",
    "HG_AGAIN",
    "HG_NOMEM",
    "HG_ACCESS",
    "HG_FAULT",
    "HG_BUSY",
    "HG_EXIST",
    "HG_NODEV",
    "HG_INVALID_ARG",
    "HG_PROTOCOL_ERROR",
    "HG_OVERFLOW",
    "HG_MSGSIZE",
    "HG_PROTONOSUPPORT",
    "HG_OPNOTSUPPORTED",
    "HG_ADDRINUSE",
    "HG_ADDRNOTAVAIL",
    "HG_HOSTUNREACH",
    "HG_TIMEOUT",
    "HG_CANCELED",
    "HG_IO_ERROR",
    "HG_DISCONNECT",
    "HG_CHECKSUM_ERROR",
    "HG_NA_ERROR",
    "HG_OTHER_ERROR",
};

NA_EXPORT const char *NA_Error_to_string(na_return_t ret)
{
    if (ret < 0 || ret >= NA_RETURN_MAX)
        return "unknown error";
    return hg_errors_texts[ret];
}

HG_EXPORT const char *HG_Error_to_string(hg_return_t ret)
{
    if (ret < 0 || ret >= HG_RETURN_MAX)
        return "unknown error";
    return hg_errors_texts[ret];
}

HG_EXPORT const char *HG_Error_to_string2(hg_return_t errnum)
{
    if (errnum < 0 || errnum >= HG_RETURN_MAX)
        return NULL;
    return hg_errors_names[errnum];
}

HG_EXPORT hg_return_t HG_Version_get(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    if (major_p == NULL || minor_p == NULL || patch_p == NULL) {
        hg_log_error("log", "HG_Version_get: an argument is NULL");
        return HG_INVALID_ARG;
    }
    *major_p = HG_VERSION_MAJOR;
    *minor_p = HG_VERSION_MINOR;
    *patch_p = HG_VERSION_PATCH;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Version_get2(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    if (major_p != NULL)
        *major_p = HG_MERCURY_MAJOR;
    if (minor_p != NULL)
        *minor_p = HG_MERCURY_MINOR;
    if (patch_p != NULL)
        *patch_p = HG_MERCURY_PATCH;
    return HG_SUCCESS;
}
