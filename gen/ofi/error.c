/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error codes for errors of libfabric.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* The code for a positive error number of the system or of libfabric
 * (FI_...). */
static na_return_t na_ofi_code(int error)
{
    switch (error) {
    case 0: return NA_SUCCESS;
    case FI_ENOMEM: return NA_NOMEM;
    case FI_EAGAIN:
    case FI_EMFILE:
    case ENFILE: return NA_AGAIN;
    case FI_EACCES:
    case FI_EPERM: return NA_ACCESS;
    case FI_ENOKEY:
    case FI_EKEYREJECTED: return NA_PERMISSION;
    case FI_EADDRINUSE: return NA_ADDRINUSE;
    case FI_EADDRNOTAVAIL: return NA_ADDRNOTAVAIL;
    case FI_ENODEV: return NA_NODEV;
    case FI_EINVAL: return NA_INVALID_ARG;
    case FI_EMSGSIZE:
    case FI_ETRUNC: return NA_MSGSIZE;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP: return NA_OPNOTSUPPORT;
    case FI_ECONNREFUSED:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT: return NA_HOSTUNREACH;
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case EPIPE: return NA_DISCONNECT;
    case FI_ECANCELED: return NA_CANCELED;
    default: return NA_IO_ERROR;
    }
}

/* Whether the process has no free descriptor. */
static bool na_ofi_is_full(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return errno == EMFILE;
    (void) close(fd);
    return false;
}

/* Log the failure of a function of libfabric or the system; returns the error
 * code. `rc` is an error number of either sign. libfabric may also return other
 * errors when descriptors run out. */
static na_return_t na_ofi_failed(const struct na_ofi_class *self,
    const char *what, const char *which, int rc)
{
    int error = rc < 0 ? -rc : rc;

    HG_ASSERT(error != 0);
    if (na_ofi_is_full())
        error = FI_EMFILE;
    self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi", "%s %s: %s", what, which,
        fi_strerror(error));
    return na_ofi_code(error);
}
