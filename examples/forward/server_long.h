/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_long: calls that take long, which another thread than the leader
 * executes.
 *
 * These calls move bulk data, wait for the disk, or are of a kind whose last
 * call was slow: which kinds are, depends on the file system. A session has at
 * most a quarter of the threads for them. More calls wait in the session; the
 * thread that finishes one runs the next. So a client that stops in the middle
 * of a transfer, or a slow disk, leaves threads for other clients.
 *
 * Locking: session->lock for its count and its queue.
 */
#ifndef HG_EXAMPLES_SERVER_LONG_H
#define HG_EXAMPLES_SERVER_LONG_H

#include <stdatomic.h>

#include "server_calls.h"

/* Run a call that takes long, now or later. An errno, or CALLS_LATER. */
int32_t long_run(struct job *job, int32_t (*run)(struct job *job));

/* Run a call of a kind that may take long: as long_run if the last call of the
 * kind did, which `slow` tells, else at once. An errno, or CALLS_LATER. */
int32_t long_try(
    struct job *job, int32_t (*run)(struct job *job), atomic_bool *slow);

#endif
