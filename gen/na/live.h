/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live: the classes and contexts that exist.
 *
 * A pointer that the application passes may be that of an object that is gone.
 * Every public function asks here before it looks behind a class or context, so
 * that use after the end is a code and a line in the log. Memory that may have
 * been freed is never read to find out. A new object at the same address is not
 * told from the old one.
 *
 * One table holds the classes and contexts of NA and of the RPC layer.
 *
 * fork: a child cannot use its parent's classes, whatever their transport:
 * threads that it does not have may have held their locks. They are marked
 * before fork returns, and every function given one returns NA_FAULT without
 * taking a lock. The child may open classes of its own.
 *
 * Locking: none; entries are atomics. The caller who ends an object sees to it
 * that nobody else uses it.
 */
#ifndef HG_GEN_NA_LIVE_H
#define HG_GEN_NA_LIVE_H

#include "na/core.h"

#define NA_LIVE_MAX 4096 /* objects, a power of two */

/* The low bits of an entry, which are 0 in a pointer. */
enum na_live_kind {
    NA_LIVE_NA_CLASS = 1,
    NA_LIVE_NA_CONTEXT = 2,
    NA_LIVE_CLASS = 3,
    NA_LIVE_CONTEXT = 4
};

/* An object exists from now on. NA_AGAIN (logged): NA_LIVE_MAX do. */
HG_PRIVATE na_return_t na_live_add(enum na_live_kind kind, const void *object);

/* It does not any more. False: it did not already. */
HG_PRIVATE bool na_live_remove(enum na_live_kind kind, const void *object);

/* Whether it does. */
HG_PRIVATE bool na_live_has(enum na_live_kind kind, const void *object);

/* A layer begins to use a class, which NA_Finalize then refuses to close; and
 * ends. */
static inline void na_live_hold(struct na_class *na_class)
{
    atomic_fetch_add(&na_class_core_of(na_class)->layers, 1);
}

static inline void na_live_release(struct na_class *na_class)
{
    unsigned before = atomic_fetch_sub(&na_class_core_of(na_class)->layers, 1);

    assert(before > 0);
    (void) before;
}

/* What every public function begins with, before it takes a lock:
 * NA_INVALID_ARG, logged with the function's name, for NULL and for what is not
 * open; NA_FAULT, logged once for each class, in a child of fork. */
HG_PRIVATE na_return_t na_live_check(
    const struct na_class *na_class, const char *function);
HG_PRIVATE na_return_t na_live_check_context(const struct na_class *na_class,
    const struct na_context *context, const char *function);

#endif
