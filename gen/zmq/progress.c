/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of progress: poll, and sleep without lost wake-ups.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

static unsigned na_zmq_poll(struct na_context *context)
{
    struct na_zmq_class *self = na_zmq_of(context->na_class);
    struct na_link batch;
    struct na_link *link;
    struct na_zmq_addr *dead;
    unsigned n = 0;

    na_plug_list_init(&batch);
    /* The core retries it afterwards. */
    atomic_store(&self->frame_retry, false);
    na_zmq_lock(self);
    while ((link = na_plug_list_pop(&self->spent)) != NULL) {
        if (self->spare_count < NA_ZMQ_KEEP) {
            na_plug_list_push(&self->spare, link);
            self->spare_count++;
        } else
            self->base.core->free(NA_ZMQ_OF(link, struct na_zmq_in, link));
    }
    na_zmq_pump(self);
    na_plug_list_move(&batch, &self->inbox);
    for (link = batch.next; link != &batch; link = link->next) {
        struct na_zmq_in *in = NA_ZMQ_OF(link, struct na_zmq_in, link);

        if (in->addr == NULL)
            in->addr = na_zmq_find(self, NA_ZMQ_BY_ID, in->id, in->id_size);
    }
    na_zmq_unlock(self);
    n = na_zmq_offer_all_held(self);
    while ((link = na_plug_list_pop(&batch)) != NULL) {
        struct na_zmq_in *in = NA_ZMQ_OF(link, struct na_zmq_in, link);
        const char *wrong = na_zmq_deliver(self, in);

        if (wrong != NULL) {
            na_zmq_refuse(self, in, wrong);
            na_zmq_expel(self, in, wrong);
        }
        if (na_plug_list_empty(&in->link)) /* not held */
            na_zmq_spend(self, in);
        n++;
    }
    for (;;) {
        na_zmq_lock(self);
        if (self->hello_round != 0)
            na_zmq_close_silent(self);
        dead = na_zmq_next_drained(self);
        na_zmq_unlock(self);
        if (dead == NULL)
            return n;
        na_zmq_end(self, dead);
        n++;
    }
}

/* A thread waits for borrowed frames, perhaps of dead peers, and perhaps no
 * thread polls: frames are released when their connection was closed and its
 * messages were read. */
static void na_zmq_reclaim(struct na_class *na_class)
{
    struct na_zmq_class *self = na_zmq_of(na_class);
    struct na_link *link;

    na_zmq_lock(self);
    self->monitor_read = 0;
    na_zmq_pump(self);
    for (link = self->dying.next; link != &self->dying; link = link->next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, dying);

        if (na_zmq_is_past(self, addr->round))
            na_zmq_hang_up(self, addr);
    }
    (void) na_zmq_readable(self);
    na_zmq_unlock(self);
}

static int na_zmq_poll_fd(struct na_context *context)
{
    return na_zmq_of(context->na_class)->epoll_fd;
}

#if HG_ENABLE_EPOLL
static void na_zmq_set_timer(struct na_zmq_class *self)
{
    struct itimerspec when;

    if (self->tick == self->timer)
        return;
    self->timer = self->tick;
    memset(&when, 0, sizeof(when));
    if (self->tick != NA_ZMQ_NEVER) {
        when.it_value.tv_sec = (time_t) (self->tick / 1000000000u);
        when.it_value.tv_nsec = (long) (self->tick % 1000000000u);
    }
    (void) timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}
#else
static void na_zmq_set_timer(struct na_zmq_class *self)
{
    self->timer = self->tick; /* it was polled */
}
#endif

static na_bool_t na_zmq_wait_begin(struct na_context *base)
{
    struct na_zmq_context *context = (struct na_zmq_context *) base;
    struct na_zmq_class *self = na_zmq_of(base->na_class);
    bool busy;

    na_zmq_lock(self);
    busy = na_zmq_has_work(self) ||
        (self->protocol == NA_ZMQ_INPROC &&
            atomic_load(&na_zmq_inproc.epoch) != self->epoch) ||
        self->tick <= self->base.core->now_ns();
    if (!busy && !context->sleeping) {
        context->sleeping = true;
        self->sleepers++;
    }
    self->slept = self->slept || !busy;
    na_zmq_set_timer(self);
    (void) pthread_mutex_unlock(&self->lock);
    return busy ? NA_FALSE : NA_TRUE;
}

static void na_zmq_wait_end(struct na_context *base)
{
    struct na_zmq_context *context = (struct na_zmq_context *) base;
    struct na_zmq_class *self = na_zmq_of(base->na_class);

    na_zmq_lock(self);
    if (context->sleeping)
        self->sleepers--;
    context->sleeping = false;
    (void) pthread_mutex_unlock(&self->lock);
}

static na_return_t na_zmq_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_zmq_class *self = na_zmq_of(op->context->na_class);
    const struct na_core *core = self->base.core;
    struct na_link sent;
    bool found;

    na_plug_list_init(&sent);
    na_zmq_lock(self);
    found = core->op_id(op) == op_id && !na_plug_list_empty(&op->link);
    if (found)
        na_plug_list_remove(&op->link);
    if (found && op->addr != NULL) /* perhaps BYE waited for this message */
        na_zmq_flush(self, na_zmq_addr_of(op->addr), &sent);
    HG_ASSERT(na_plug_list_empty(&sent));
    na_zmq_unlock(self);
    if (!found)
        return NA_NOENTRY;
    core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* End the connection, and do not dial again. A dial in progress continues:
 * events of libzmq contain only the endpoint, so events of an abandoned dial
 * could not be distinguished from those of the next one. */
static void na_zmq_addr_abandon(struct na_addr *base)
{
    struct na_zmq_class *self = na_zmq_of(base->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(base);

    na_zmq_lock(self);
    if (addr->state != NA_ZMQ_DIALLING) {
        if (addr->state == NA_ZMQ_IDLE) {
            na_zmq_adopt(self, addr);
            na_zmq_begin_end(self, addr, NA_DISCONNECT);
        } else
            na_zmq_lose(self, addr, NA_DISCONNECT);
        na_zmq_close_accepted(self, addr);
        addr->closing = false;
        addr->failed = false;
        addr->again = false;
    }
    na_zmq_unlock(self);
}

static na_return_t na_zmq_addr_terminate(struct na_op *op)
{
    struct na_zmq_class *self = na_zmq_of(op->context->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(op->addr);
    struct na_link sent;
    bool closed;

    na_plug_list_init(&sent);
    na_zmq_lock(self);
    closed = addr->base.self || addr->state == NA_ZMQ_IDLE ||
        addr->state == NA_ZMQ_DEAD;
    if (!closed) {
        na_plug_list_push(&addr->closers, &op->link);
        na_zmq_flush(self, addr, &sent);
    }
    na_zmq_unlock(self);
    HG_ASSERT(na_plug_list_empty(&sent)); /* ready: no message waits */
    if (closed)
        self->base.core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}
