/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: the transport of a process that talks to itself. Always there.
 *
 * A send finds its receive at once, in the sender's thread; memory is copied
 * at once. What meets a full queue waits here for the next poll. With
 * force_rma_emulation memory moves through frames that loop back, so that
 * the emulation can be tried without a network.
 *
 * Every class is its own world: it knows one address, its own.
 */
#ifndef HG_GEN_NA_SELF_H
#define HG_GEN_NA_SELF_H

#include "base/os.h"

HG_PRIVATE const struct na_plugin *na_self_table(void);

#endif
