/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live: the classes and contexts that exist.
 *
 * The application may pass a pointer to an object that was destroyed. Every
 * public function asks this module before it reads a class or context, so that
 * use after destroy returns an error and logs a line. Memory that may have been
 * freed is not read. A new object at the same address cannot be distinguished
 * from the old one.
 *
 * One table holds the classes and contexts of NA and of the RPC layer.
 *
 * fork: a child cannot use the classes of its parent, with any transport: other
 * threads may have held their locks at fork. The classes are marked before fork
 * returns, and every function that gets one returns NA_FAULT without taking a
 * lock. The child may open its own classes.
 *
 * Locking: none; entries are atomic. The caller that destroys an object must
 * ensure that no other thread uses it.
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

/* Add an object. NA_AGAIN, logged: the table is full. */
HG_PRIVATE na_return_t na_live_add(enum na_live_kind kind, const void *object);

/* Remove an object. False: it was removed before. */
HG_PRIVATE bool na_live_remove(enum na_live_kind kind, const void *object);

/* Whether the object exists. */
HG_PRIVATE bool na_live_has(enum na_live_kind kind, const void *object);

/* na_live_hold: a layer starts to use a class, so that NA_Finalize refuses to
 * close it. na_live_release: it stops. */
static inline void na_live_hold(struct na_class *na_class)
{
    atomic_fetch_add(&na_class_core_of(na_class)->layers, 1);
}

static inline void na_live_release(struct na_class *na_class)
{
    unsigned before = atomic_fetch_sub(&na_class_core_of(na_class)->layers, 1);

    HG_ASSERT(before > 0);
    (void) before;
}

/* Check the class in a public function, before a lock is taken. NA_INVALID_ARG,
 * logged with the function's name: NULL, or not an open class. NA_FAULT, logged
 * once for each class: a child of fork. */
HG_PRIVATE na_return_t na_live_check(
    const struct na_class *na_class, const char *function);
HG_PRIVATE na_return_t na_live_check_context(const struct na_class *na_class,
    const struct na_context *context, const char *function);

#endif
