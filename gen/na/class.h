/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: transports known by name, and endpoints opened on them.
 *
 * Registration copies nothing but remembers the table; opening a class copies
 * it, at most as much as both sides know of, and fills every empty slot, so
 * that no path tests a pointer. A table without remote memory but with
 * frame_send gets the emulation's.
 *
 * Locking: one mutex for the registry and the list of live classes, which
 * tells a class that was finalized already from one in use.
 */
#ifndef HG_GEN_NA_CLASS_H
#define HG_GEN_NA_CLASS_H

#include "na/core.h"

/* Whether this is a class that is open now; takes the registry's mutex. */
HG_PRIVATE bool na_class_is_live(const struct na_class *na_class);

#endif
