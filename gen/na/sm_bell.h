/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_bell: the doorbell of a class: an eventfd that its peers write to.
 *
 * A byte on the pair's socket would do, and does for peers of other users. But
 * the kernel takes who writes to a socket for somebody about to sleep, and has
 * the sleeper run on the same processor, where it waits for whoever rings to
 * stop spinning; and a byte is to be read again. An eventfd wakes it on a free
 * processor, and is never read: its owner watches for edges, one for each
 * write.
 *
 *     class            peers
 *     eventfd <------- write, once for each of the owner's sleeps
 *        | edge
 *     epoll -- poll(): the sleeper
 *
 * All descriptors of it share their mode and their count: whoever has one can
 * have a write to it block. So a class gives its bell to processes of its own
 * user alone, which can stop it anyway, and rings no other.
 *
 * Locking: none.
 */
#ifndef HG_GEN_NA_SM_BELL_H
#define HG_GEN_NA_SM_BELL_H

#include "na/sm_step.h"

#if HG_ENABLE_SM

/* A fresh bell, or -1 with errno. */
HG_PRIVATE int na_sm_bell_open(void);

/* Have epoll tell of each ring as `what`, once; false, and errno: it cannot. */
HG_PRIVATE bool na_sm_bell_watch(int epoll_fd, int bell, void *what);

/* Whether a peer's descriptor will do as a bell: a write to it neither waits,
 * nor reaches a file or a socket, nor raises a signal. */
HG_PRIVATE bool na_sm_bell_is_one(int fd);

HG_PRIVATE void na_sm_bell_ring(int bell);

#endif
#endif
