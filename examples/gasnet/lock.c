/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: handler-safe locks and no-interrupt sections, and their checks.
 *
 * A lock is a mutex. Handlers run only in threads that poll, and a thread that
 * holds a lock must not poll, so nothing else is needed. No-interrupt sections
 * do nothing.
 *
 * With GASNET_DEBUG in the object that calls gasnet_init(), and before that
 * call, these end the job:
 *
 *     a lock that this thread holds is locked again
 *     a lock is unlocked that is not the one that was locked last
 *     a handler leaves, or replies, while it holds a lock
 *     a thread communicates in a handler, in a no-interrupt section, or while
 *     it holds a lock
 *     no-interrupt sections that nest, or end without a begin
 *     with version 0.4: the begin or end of such a section in a handler, or
 *     while a lock is held; version 1.8 ignores these
 *
 *     a lock is initialized twice
 *     a call comes before gasnet_attach(), or an address is outside a segment
 *
 * A lock that is destroyed twice, or while it is locked, ends the job always.
 */
#define _GNU_SOURCE
#include "gasnet_hg.h"

#include <time.h>

#define LOCK_LONG_NS 1000000000u /* longer than this is a warning */

static uint64_t lock_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* Others wait for a thread that takes its time. */
static void lock_check_time(const char *what, uint64_t since)
{
    uint64_t ns = lock_now() - since;

    if (ns > LOCK_LONG_NS)
        gasnet_hg_warn("%s took %u ms: while it lasts, nodes wait", what,
            (unsigned) (ns / 1000000u));
}

/* ---- Locks ---- */

static void lock_check(const gasnet_hsl_t *hsl, const char *what)
{
    if (hsl->tag != GASNET_HG_HSL_TAG)
        gasnet_hg_fatal(
            "%s: the lock at %p is not initialized", what, (const void *) hsl);
}

void gasnet_hsl_init(gasnet_hsl_t *hsl)
{
    if (hsl->tag == GASNET_HG_HSL_TAG && gasnet_hg.checked)
        gasnet_hg_fatal("gasnet_hsl_init: the lock at %p is initialized "
                        "already",
            (void *) hsl);
    if (pthread_mutex_init(&hsl->mutex, NULL) != 0)
        gasnet_hg_fatal("gasnet_hsl_init: no memory for a lock");
    hsl->outer = NULL;
    hsl->owner = NULL;
    hsl->tag = GASNET_HG_HSL_TAG;
}

void gasnet_hsl_destroy(gasnet_hsl_t *hsl)
{
    lock_check(hsl, "gasnet_hsl_destroy");
    if (pthread_mutex_destroy(&hsl->mutex) != 0)
        gasnet_hg_fatal(
            "gasnet_hsl_destroy: the lock at %p is locked", (void *) hsl);
    hsl->tag = 0;
}

/* The lock was taken: it is the innermost of this thread. */
static void lock_taken(gasnet_hsl_t *hsl)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    hsl->owner = self;
    hsl->since = lock_now();
    hsl->outer = self->innermost;
    self->innermost = hsl;
}

/* Another thread may write the owner meanwhile, but it never writes ours. */
static void lock_check_owner(const gasnet_hsl_t *hsl, const char *what)
{
    lock_check(hsl, what);
    if (__atomic_load_n(&hsl->owner, __ATOMIC_RELAXED) == gasnet_hg_self())
        gasnet_hg_fatal("%s: this thread holds the lock at %p already", what,
            (const void *) hsl);
}

void gasnet_hsl_lock(gasnet_hsl_t *hsl)
{
    if (gasnet_hg.checked)
        lock_check_owner(hsl, "gasnet_hsl_lock");
    (void) pthread_mutex_lock(&hsl->mutex);
    if (gasnet_hg.checked)
        lock_taken(hsl);
}

int gasnet_hsl_trylock(gasnet_hsl_t *hsl)
{
    if (gasnet_hg.checked)
        lock_check_owner(hsl, "gasnet_hsl_trylock");
    if (pthread_mutex_trylock(&hsl->mutex) != 0)
        return GASNET_ERR_NOT_READY;
    if (gasnet_hg.checked)
        lock_taken(hsl);
    return GASNET_OK;
}

void gasnet_hsl_unlock(gasnet_hsl_t *hsl)
{
    if (gasnet_hg.checked) {
        struct gasnet_hg_thread *self = gasnet_hg_self();

        lock_check(hsl, "gasnet_hsl_unlock");
        if (__atomic_load_n(&hsl->owner, __ATOMIC_RELAXED) != self)
            gasnet_hg_fatal("gasnet_hsl_unlock: this thread does not hold the "
                            "lock at %p",
                (void *) hsl);
        if (self->innermost != hsl)
            gasnet_hg_fatal("gasnet_hsl_unlock: the lock at %p is not the one "
                            "that was locked last",
                (void *) hsl);
        lock_check_time("a handler-safe lock", hsl->since);
        self->innermost = hsl->outer;
        __atomic_store_n(&hsl->owner, NULL, __ATOMIC_RELAXED);
    }
    (void) pthread_mutex_unlock(&hsl->mutex);
}

/* ---- No-interrupt sections ---- */

/* 1.8 ignores both calls in a handler and while a lock is held. */
static bool lock_is_ignored(
    const struct gasnet_hg_thread *self, const char *what)
{
    if (self->handlers == 0 && self->innermost == NULL)
        return false;
    if (gasnet_hg.strict)
        gasnet_hg_fatal("%s: in a handler, or while a lock is held", what);
    return true;
}

void gasnet_hold_interrupts(void)
{
    struct gasnet_hg_thread *self;

    if (!gasnet_hg.checked)
        return;
    self = gasnet_hg_self();
    if (lock_is_ignored(self, "gasnet_hold_interrupts"))
        return;
    if (self->held)
        gasnet_hg_fatal("gasnet_hold_interrupts: the section has begun "
                        "already; sections do not nest");
    self->held = true;
    self->held_since = lock_now();
}

void gasnet_resume_interrupts(void)
{
    struct gasnet_hg_thread *self;

    if (!gasnet_hg.checked)
        return;
    self = gasnet_hg_self();
    if (lock_is_ignored(self, "gasnet_resume_interrupts"))
        return;
    if (!self->held)
        gasnet_hg_fatal("gasnet_resume_interrupts: without "
                        "gasnet_hold_interrupts");
    self->held = false;
    lock_check_time("a no-interrupt section", self->held_since);
}

/* ---- Checks of other modules ---- */

void gasnet_hg_check_call(const char *what)
{
    const struct gasnet_hg_thread *self = gasnet_hg_self();

    if (!gasnet_hg.attached)
        gasnet_hg_fatal("%s: called before gasnet_attach()", what);
    if (self->handlers > 0)
        gasnet_hg_fatal("%s: called in a handler", what);
    if (self->innermost != NULL)
        gasnet_hg_fatal("%s: this thread holds the handler-safe lock at %p",
            what, (void *) self->innermost);
    if (self->held)
        gasnet_hg_fatal("%s: called in a no-interrupt section", what);
}

void gasnet_hg_check(gasnet_node_t node, const void *remote, size_t nbytes)
{
    if (!gasnet_hg.checked)
        return;
    gasnet_hg_check_call("a put, get or long message");
    if (node >= gasnet_hg_size)
        gasnet_hg_fatal("a put or get of node %u, but the job has %u nodes",
            node, gasnet_hg_size);
    if (!gasnet_hg_has(&gasnet_hg.peers[node], remote, nbytes))
        gasnet_hg_fatal("a put or get of %zu bytes at %p, outside the segment "
                        "of node %u: %zu bytes at %p",
            nbytes, remote, node, (size_t) gasnet_hg.peers[node].size,
            (void *) gasnet_hg.peers[node].base);
}

void gasnet_hg_check_reply(bool may)
{
    const struct gasnet_hg_thread *self = gasnet_hg_self();

    if (self->innermost != NULL)
        gasnet_hg_fatal("gasnet_AMReply: the handler holds the lock at %p",
            (void *) self->innermost);
    if (self->handlers == 0)
        gasnet_hg_fatal("gasnet_AMReply: called outside a handler");
    if (!may)
        gasnet_hg_fatal("gasnet_AMReply: a request is replied to once, a reply "
                        "never");
}

void gasnet_hg_begin_handler(struct gasnet_hg_thread *self)
{
    if (self->innermost != NULL)
        gasnet_hg_fatal("a handler begins while a lock is held");
    self->handlers++;
}

void gasnet_hg_end_handler(struct gasnet_hg_thread *self, unsigned handler)
{
    self->handlers--;
    if (self->innermost != NULL)
        gasnet_hg_fatal("handler %u leaves while it holds the lock at %p",
            handler, (void *) self->innermost);
}
