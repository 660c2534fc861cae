/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_door: how a connection begins, at either end.
 *
 * The dialler connects, makes the pair's memory, says HELLO with it and waits
 * for WELCOME. The acceptor takes callers in, gives each 5 s to say HELLO, and
 * believes nothing it says: who it is (the kernel tells), that its memory is
 * sealed and of the right size, that its name is printable. A caller that
 * cannot be served hears why.
 *
 * Locking: all of it is the polling thread's, which takes the class lock where
 * it touches what others do.
 */
#ifndef HG_GEN_NA_SM_DOOR_H
#define HG_GEN_NA_SM_DOOR_H

#include "na/sm_peer.h"

#if HG_ENABLE_SM

/* Connect whom somebody asked for, connect again whoever's listener was
 * crowded, give up what takes too long, be it a call, a HELLO or the answer to
 * a goodbye; the number of things done. Sets the class's tick to when this must
 * be called again, at the latest. */
HG_PRIVATE unsigned na_sm_door_tick(struct na_sm_class *self, uint64_t now);

/* The listening socket is readable. */
HG_PRIVATE unsigned na_sm_door_accept(struct na_sm_class *self);

/* A guest's socket is. */
HG_PRIVATE unsigned na_sm_door_guest(
    struct na_sm_class *self, struct na_sm_guest *guest);

/* The socket of somebody we dial is. */
HG_PRIVATE unsigned na_sm_door_answer(
    struct na_sm_class *self, struct na_sm_addr *addr);

/* The class is closing: send every guest away. */
HG_PRIVATE void na_sm_door_close(struct na_sm_class *self);

#endif
#endif
