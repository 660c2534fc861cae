/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify: a put, and a message that is delivered after its data.
 *
 * The operation of the application has two steps, each an operation of the
 * library: the put, then the message, which starts when the put has completed.
 * If the transport delivers messages after the frames that were sent before
 * (NA_CAP_FRAMES_FIRST), the message starts as soon as all frames are sent. The
 * operation ends with the last step, with the first error.
 *
 * Locking: the lock of the class.
 */
#ifndef HG_GEN_NA_NOTIFY_H
#define HG_GEN_NA_NOTIFY_H

#include "na/core.h"

/* The pending steps of an operation, to cancel them; NULL: none. */
HG_PRIVATE void na_notify_steps(
    const struct na_op_core *op, na_op_id_t *put_p, na_op_id_t *send_p);

#endif
