/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live: which classes and contexts there are.
 *
 * A pointer that the application gives may be one of an object that is gone.
 * Every public function asks here before it looks behind its class or context,
 * so that use after the end is a code and a line in the log, not chance. A
 * pointer is known or it is not: what is behind it is never read to find out.
 * One that the allocator has given to a new object meanwhile is that object's.
 *
 * fork: a child has no part in its parent's classes, of whatever transport:
 * threads that it does not have may have held their locks, and left them in
 * pieces. They are marked before fork returns, and whatever is tried with them
 * is NA_FAULT, which is found out without a lock. Classes of its own it may
 * open: so this room's own lock is held while a process forks.
 *
 * Locking: a mutex guards the table of classes, a class's context_lock its
 * table of contexts. Looking up takes neither: entries are atomics, and there
 * are few. Who ends an object while others use it is on his own.
 */
#ifndef HG_GEN_NA_LIVE_H
#define HG_GEN_NA_LIVE_H

#include "na/core.h"

#define NA_LIVE_CLASSES 256

/* A class was opened. NA_AGAIN (logged): so many are open. */
HG_PRIVATE na_return_t na_live_add(struct na_class *na_class);

/* A layer begins to use a class, which can then not be retired; false: no such
 * class is open here. And it ends. */
HG_PRIVATE bool na_live_hold(struct na_class *na_class);
HG_PRIVATE void na_live_let_go(struct na_class *na_class);

/* Take a class out, so that one thread closes it. NA_EXIST: a layer uses it;
 * NA_BUSY: it has contexts of the application's; NA_INVALID_ARG: no such class
 * is open; NA_FAULT: it is the parent's. None of these is logged. */
HG_PRIVATE na_return_t na_live_retire(struct na_class *na_class);

/* Contexts of the application's. */
HG_PRIVATE unsigned na_live_contexts(struct na_class *na_class);

/* What every public function begins with, before it takes a lock:
 * NA_INVALID_ARG, logged with the function's name, for NULL and for what is not
 * open; NA_FAULT, logged once for each class, in a child of fork. */
HG_PRIVATE na_return_t na_live_check(
    const struct na_class *na_class, const char *function);
HG_PRIVATE na_return_t na_live_check_context(const struct na_class *na_class,
    const struct na_context *context, const char *function);

#endif
