/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving messages from the socket, with the lock held.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

static void na_zmq_close_part(struct na_zmq_class *self, zmq_msg_t *part)
{
    (void) zmq_msg_close(part);
    atomic_fetch_sub_explicit(&self->parts, 1, memory_order_relaxed);
}

static void na_zmq_close_parts(struct na_zmq_class *self, struct na_zmq_in *in)
{
    unsigned i;

    for (i = 0; i < 2 && i < in->count; i++)
        na_zmq_close_part(self, &in->parts[i]);
    in->count = 0;
}

/* Receive one part; like zmq_msg_recv, but not interrupted by signals. */
static int na_zmq_receive_part(struct na_zmq_class *self, zmq_msg_t *part)
{
    int size;

    (void) zmq_msg_init(part);
    do
        size = zmq_msg_recv(part, self->socket, ZMQ_DONTWAIT);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        (void) zmq_msg_close(part);
    else
        atomic_fetch_add_explicit(&self->parts, 1, memory_order_relaxed);
    return size;
}

/* Receive one message into the inbox. False: there is none, or memory is
 * short. */
static bool na_zmq_receive(struct na_zmq_class *self, bool *control_p)
{
    struct na_zmq_in *in = na_zmq_envelope(self);
    zmq_msg_t extra;
    zmq_msg_t *last = &extra;
    const unsigned char *p;
    int size;

    self->touched = true;
    if (in == NULL)
        return false;
    size = na_zmq_receive_part(self, &extra);
    if (size < 0) {
        na_plug_list_push(&self->spare, &in->link);
        self->spare_count++;
        if (errno == EAGAIN) {
            self->drained = self->round;
            self->touched = false;
        }
        return false;
    }
    if ((size_t) size <= sizeof(in->id)) {
        in->id_size = (size_t) size;
        memcpy(in->id, zmq_msg_data(&extra), in->id_size);
    }
    while (zmq_msg_more(last)) {
        if (last == &extra)
            na_zmq_close_part(self, &extra);
        last = in->count < 2 ? &in->parts[in->count] : &extra;
        if (na_zmq_receive_part(self, last) < 0)
            break; /* impossible: messages arrive whole */
        in->count++;
    }
    if (last == &extra)
        na_zmq_close_part(self, &extra);
    HG_ASSERT(in->count > 0); /* a part follows the routing id */
    in->past = self->drained;
    if (self->round > in->past + NA_ZMQ_BATCH)
        in->past = self->round - NA_ZMQ_BATCH;
    p = (const unsigned char *) zmq_msg_data(&in->parts[0]);
    /* Only for control messages: getting the descriptor costs a call. */
    if (zmq_msg_size(&in->parts[0]) < NA_ZMQ_HEADER ||
        (p[3] != NA_ZMQ_MESSAGE && p[3] != NA_ZMQ_FRAME)) {
        in->fd = zmq_msg_get(&in->parts[0], ZMQ_SRCFD);
        *control_p = true;
    }
    na_plug_list_push(&self->inbox, &in->link);
    return true;
}

/* Receive the messages that are probably available, then read the monitor:
 * messages must be received before events that end their connections. Asking
 * libzmq in vain costs two system calls, which would delay a single message; so
 * the limit adapts to the traffic, and the next round receives the rest. If the
 * class was woken without a message, the monitor or the answer of a name server
 * may have caused it. */
static void na_zmq_pump(struct na_zmq_class *self)
{
    uint64_t now = self->base.core->now_ns();
    unsigned limit =
        na_plug_list_empty(&self->dying) ? self->batch : NA_ZMQ_BATCH;
    bool control = false;
    unsigned n = 0;

    HG_ASSERT(limit >= 1 && limit <= NA_ZMQ_BATCH);
    self->round++;
    while (n < limit && na_zmq_receive(self, &control))
        n++;
    if (n < limit)
        self->batch = n > 0 ? n : 1;
    else if (2 * n <= NA_ZMQ_BATCH)
        self->batch = 2 * n;
    if (control || !na_plug_list_empty(&self->dying) ||
        (n == 0 && self->slept) || now - self->monitor_read > NA_ZMQ_MS) {
        self->monitor_read = now;
        na_zmq_read_monitor(self);
        na_zmq_take_answers(self);
    }
    self->slept = false;
    if (now >= self->tick)
        na_zmq_tick(self, now);
    na_zmq_check_inproc(self);
}
