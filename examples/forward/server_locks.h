/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_locks: the locks of fcntl(2) and flock(2).
 *
 * Each process of a client that locks a file has a descriptor of its own here,
 * with locks of open file descriptions. So the kernel decides between all
 * clients, and the programs of this node. Nothing waits here.
 *
 * Locking: session->locking for the lists of the nodes and their descriptors.
 * It is taken before session->lock.
 */
#ifndef HG_EXAMPLES_SERVER_LOCKS_H
#define HG_EXAMPLES_SERVER_LOCKS_H

#include "server_calls.h"

struct file;

int32_t locks_lock(struct job *job);

/* Release the locks of all owners that locked with this file last. */
void locks_end_file(struct session *session, const struct file *file);

#endif
