/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: endpoints, from NA_Initialize to NA_Finalize.
 *
 * Opening a class puts together what the other rooms need: the transport's
 * table, filled; the options with their defaults, their strings copied; the
 * emulation where the transport moves no memory or the application asks for
 * it; the progress thread. Closing takes it apart in reverse: the thread, the
 * handles, the transport, the emulation, messages that wait, addresses. Here
 * are also the table of functions a transport calls the core by, and the named
 * counters.
 *
 * Locking: a mutex guards the list of live classes, which tells one that was
 * finalized already from one in use. Counters are atomics.
 */
#ifndef HG_GEN_NA_CLASS_H
#define HG_GEN_NA_CLASS_H

#include "na/core.h"

/* Whether this is a class that is open now; takes the registry's mutex. */
HG_PRIVATE bool na_class_is_live(const struct na_class *na_class);

#endif
