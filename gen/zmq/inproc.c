/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State shared by the classes of a process: one lock, and the list of the
 * inproc classes. The list tells whether a peer is alive, since libzmq does not
 * say when an inproc connection ends.
 *
 * fork takes the lock, and the child starts with an empty list and no context:
 * a context of libzmq does not work without its threads, which the child does
 * not have. No line is logged under the lock.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

static struct {
    pthread_mutex_t lock;
    void *context; /* shared by all inproc classes */
    unsigned users;
    struct na_link classes;
    _Atomic unsigned epoch; /* incremented when a class closes */
} na_zmq_inproc = {PTHREAD_MUTEX_INITIALIZER, NULL, 0,
    {&na_zmq_inproc.classes, &na_zmq_inproc.classes}, 0};

static void na_zmq_fork_prepare(void)
{
    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
}

static void na_zmq_fork_parent(void)
{
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
}

static void na_zmq_fork_child(void)
{
    na_zmq_inproc.context = NULL;
    na_zmq_inproc.users = 0;
    na_plug_list_init(&na_zmq_inproc.classes);
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
}

static void na_zmq_fork_begin(void)
{
    (void) pthread_atfork(
        na_zmq_fork_prepare, na_zmq_fork_parent, na_zmq_fork_child);
}

/* The incarnation of the class bound to `endpoint`, or with that incarnation;
 * 0: there is none. */
static uint64_t na_zmq_inproc_find(const char *endpoint, uint64_t incarnation)
{
    struct na_link *link;
    uint64_t found = 0;

    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
    for (link = na_zmq_inproc.classes.next;
         link != &na_zmq_inproc.classes && found == 0; link = link->next) {
        struct na_zmq_class *other = NA_ZMQ_OF(link, struct na_zmq_class, live);

        if (other->base.incarnation == incarnation ||
            (endpoint != NULL && strcmp(endpoint, other->endpoint) == 0))
            found = other->base.incarnation;
    }
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
    return found;
}

static void *na_zmq_inproc_join(struct na_zmq_class *self)
{
    void *context;

    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
    if (na_zmq_inproc.context == NULL)
        na_zmq_inproc.context = zmq_ctx_new();
    context = na_zmq_inproc.context;
    if (context != NULL)
        na_zmq_inproc.users++;
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
    self->epoch = atomic_load(&na_zmq_inproc.epoch);
    return context;
}

/* Add the class to the list. */
static void na_zmq_inproc_enter(struct na_zmq_class *self)
{
    HG_ASSERT(
        self->protocol == NA_ZMQ_INPROC && na_plug_list_empty(&self->live));
    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
    na_plug_list_push(&na_zmq_inproc.classes, &self->live);
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
}

/* The class's socket is closed: remove it from the list and wake the others. */
static void na_zmq_inproc_leave(struct na_zmq_class *self)
{
    struct na_link *link;
    void *last = NULL;

    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
    na_plug_list_remove(&self->live);
    atomic_fetch_add(&na_zmq_inproc.epoch, 1);
    for (link = na_zmq_inproc.classes.next; link != &na_zmq_inproc.classes;
         link = link->next) {
        struct na_zmq_class *other = NA_ZMQ_OF(link, struct na_zmq_class, live);

        other->base.core->wake(&other->base);
    }
    HG_ASSERT(na_zmq_inproc.users > 0);
    if (--na_zmq_inproc.users == 0) {
        last = na_zmq_inproc.context;
        na_zmq_inproc.context = NULL;
    }
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
    if (last != NULL)
        while (zmq_ctx_term(last) != 0 && errno == EINTR)
            continue;
}
