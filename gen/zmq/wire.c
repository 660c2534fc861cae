/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of every message, and error codes for errors of libzmq.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/*
 * The header, whose first four bytes stay as they are in every version:
 *
 *     0    1    2        3     4      5       6  7   8        12
 *     +----+----+--------+-----+------+-------+------+--------+------
 *     | h  | z  |version |kind |plane |target | 0  0 | tag    | body
 *     +----+----+--------+-----+------+-------+------+--------+------
 */
static void na_zmq_put_header(
    unsigned char *p, enum na_zmq_kind kind, const struct na_msg *msg)
{
    memset(p, 0, NA_ZMQ_HEADER);
    p[0] = 'h';
    p[1] = 'z';
    p[2] = NA_ZMQ_VERSION;
    p[3] = (unsigned char) kind;
    if (msg == NULL)
        return;
    p[4] = msg->plane;
    p[5] = msg->target;
    na_plug_put32(p + 8, msg->tag);
}

/* The bytes that a message or frame counts in its window. Data that is lent has
 * another limit. */
static uint64_t na_zmq_weight(size_t header_size, size_t data_size)
{
    return NA_ZMQ_COST + header_size +
        (data_size <= NA_ZMQ_COPY_MAX ? data_size : 0);
}

/* ---- Errors ---- */

static na_return_t na_zmq_code(int error)
{
    switch (error) {
    case ENOMEM: return NA_NOMEM;
    case EMFILE:
    case ENFILE: return NA_AGAIN;
    case EACCES:
    case EPERM: return NA_ACCESS;
    case EADDRINUSE: return NA_ADDRINUSE;
    case EADDRNOTAVAIL:
    case ENODEV: return NA_ADDRNOTAVAIL;
    case EINVAL: return NA_INVALID_ARG;
    case EHOSTUNREACH: return NA_DISCONNECT;
    default: return NA_IO_ERROR;
    }
}

/* Log the failure of a function of libzmq or the system. Returns the error
 * code. */
static na_return_t na_zmq_failed(
    const struct na_zmq_class *self, const char *what, const char *which)
{
    int error = errno;

    self->base.core->log(HG_LOG_LEVEL_ERROR, "zmq", "%s %s: %s", what, which,
        zmq_strerror(error));
    return na_zmq_code(error);
}
