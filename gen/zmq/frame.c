/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of emulated RMA: data lent to libzmq, limited per peer so that small
 * messages are not delayed.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* libzmq released borrowed bytes. Any thread, with or without the lock. */
static void na_zmq_loan_ended(void *data, void *hint)
{
    struct na_zmq_loan *loan = (struct na_zmq_loan *) hint;
    struct na_zmq_addr *addr = loan->addr;
    const struct na_core *core = addr->base.na_class->core;

    (void) data;
    if (loan->size == 0) {
        atomic_store(&addr->probed, 0);
    } else {
        atomic_fetch_sub(&addr->flight, loan->size);
        if (loan->release != NULL)
            loan->release(loan->arg);
        if (atomic_exchange(&addr->starved, false)) {
            atomic_store(&na_zmq_of(addr->base.na_class)->frame_retry, true);
            core->wake(addr->base.na_class);
        }
    }
    core->free(loan);
    core->addr_unref(&addr->base);
}

/* Create a part that lends `data` to libzmq; `size` 0: a probe. */
static struct na_zmq_loan *na_zmq_lend(struct na_zmq_addr *addr, void *data,
    size_t data_size, uint64_t size, zmq_msg_t *part)
{
    const struct na_core *core = addr->base.na_class->core;
    struct na_zmq_loan *loan =
        (struct na_zmq_loan *) core->alloc(sizeof(*loan));

    if (loan == NULL)
        return NULL;
    if (zmq_msg_init_data(part, data, data_size, na_zmq_loan_ended, loan) !=
        0) {
        core->free(loan);
        return NULL;
    }
    core->addr_ref(&addr->base);
    loan->addr = addr;
    loan->release = NULL;
    loan->arg = NULL;
    loan->size = size;
    atomic_fetch_add(&addr->flight, size);
    return loan;
}

/* Whether libzmq may hold `size` more bytes of this peer. */
static bool na_zmq_has_room(struct na_zmq_addr *addr, uint64_t size)
{
    uint64_t flight = atomic_load(&addr->flight);

    if (flight == 0 || flight + size <= NA_ZMQ_FLIGHT)
        return true;
    /* From now on, released bytes wake the class; check again for bytes
     * released before. */
    atomic_store(&addr->starved, true);
    flight = atomic_load(&addr->flight);
    return flight == 0 || flight + size <= NA_ZMQ_FLIGHT;
}

/* Send a frame to its peer, or to this class. */
static na_return_t na_zmq_frame_put(struct na_zmq_class *self,
    struct na_zmq_addr *addr, zmq_msg_t *parts, unsigned count)
{
    na_return_t ret = NA_AGAIN;

    na_zmq_lock(self);
    if (addr->state != NA_ZMQ_READY)
        ret = na_zmq_unready(self, addr);
    else if (na_zmq_may_send(addr, NA_ZMQ_FRAMES))
        ret = na_zmq_transmit(self, addr, NA_ZMQ_FRAMES, parts, count);
    /* Else the core tries again after the poll that receives a GRANT. */
    na_zmq_unlock(self);
    return ret;
}

static na_return_t na_zmq_frame_send(struct na_addr *base, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct na_zmq_class *self = na_zmq_of(base->na_class);
    struct na_zmq_addr *addr = na_zmq_addr_of(base);
    struct na_zmq_loan *loan = NULL;
    zmq_msg_t parts[2];
    unsigned char *p;
    na_return_t ret;
    /* Within a process the receiver could hold the sender's memory for any
     * time. */
    bool lend = size > NA_ZMQ_COPY_MAX && !base->self &&
        self->protocol != NA_ZMQ_INPROC;

    if (lend && !na_zmq_has_room(addr, size))
        return NA_AGAIN;
    if (zmq_msg_init_size(&parts[0], NA_ZMQ_HEADER + header_size) != 0)
        return na_zmq_failed(self, "cannot make", "a frame");
    p = (unsigned char *) zmq_msg_data(&parts[0]);
    na_zmq_put_header(p, NA_ZMQ_FRAME, NULL);
    memcpy(p + NA_ZMQ_HEADER, header, header_size);
    if (lend) {
        loan =
            na_zmq_lend(addr, (void *) (uintptr_t) data, size, size, &parts[1]);
        if (loan == NULL)
            goto no_memory;
        loan->release = release;
        loan->arg = arg;
    } else if (size > 0) {
        if (zmq_msg_init_size(&parts[1], size) != 0)
            goto no_memory;
        memcpy(zmq_msg_data(&parts[1]), data, size);
        self->base.core->count(&self->base, "zmq_bytes_copied", size);
    }
    ret = na_zmq_frame_put(self, addr, parts, size > 0 ? 2 : 1);
    if (ret != NA_SUCCESS) {
        if (loan != NULL)
            loan->release = NULL; /* not accepted: the caller keeps its frame */
        (void) zmq_msg_close(&parts[0]);
        if (size > 0)
            (void) zmq_msg_close(&parts[1]);
    } else if (!lend) {
        release(arg);
    }
    return ret;

no_memory:
    (void) zmq_msg_close(&parts[0]);
    self->base.core->log(
        HG_LOG_LEVEL_ERROR, "zmq", "no memory for a frame of %zu bytes", size);
    return NA_NOMEM;
}
