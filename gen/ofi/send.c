/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outgoing messages: copied into buffers of the transport, in order.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* ---- Buffers ---- */

/* Create a buffer of `size` bytes, in the endpoint's list. Errors are logged.
 * The endpoint's lock is held, as below. */
static na_return_t na_ofi_buffer_new(struct na_ofi_end *end, size_t size,
    enum na_ofi_work work, struct na_ofi_buffer **buffer_p)
{
    struct na_ofi_class *self = end->na_class;
    const struct na_core *core = self->base.core;
    struct na_ofi_buffer *buffer =
        (struct na_ofi_buffer *) core->alloc(sizeof(*buffer) + size);

    if (buffer == NULL) {
        core->log(HG_LOG_LEVEL_ERROR, "ofi", "no memory for a message");
        return NA_NOMEM;
    }
    memset(buffer, 0, sizeof(*buffer));
    buffer->request.work = work;
    buffer->size = size;
    buffer->bytes = (unsigned char *) (buffer + 1);
    if ((self->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
        na_return_t ret = na_ofi_mr_open(self, end->ep, buffer->bytes, size,
            work == NA_OFI_SEND ? FI_SEND : FI_RECV, &buffer->mr);

        if (ret != NA_SUCCESS) {
            core->free(buffer);
            return ret;
        }
        buffer->desc = fi_mr_desc(buffer->mr);
    }
    buffer->all = end->all;
    end->all = buffer;
    *buffer_p = buffer;
    return NA_SUCCESS;
}

/* Get a buffer for sending `size` bytes; NULL: out of memory (logged). */
static struct na_ofi_buffer *na_ofi_buffer_get(
    struct na_ofi_end *end, size_t size)
{
    bool small = size <= NA_OFI_SMALL;
    struct na_ofi_buffer **list = small ? &end->small : &end->large;
    struct na_ofi_buffer *buffer = *list;

    if (buffer != NULL)
        *list = buffer->next;
    else
        (void) na_ofi_buffer_new(end,
            small ? NA_OFI_SMALL : end->na_class->message_size, NA_OFI_SEND,
            &buffer);
    return buffer;
}

static void na_ofi_buffer_put(
    struct na_ofi_end *end, struct na_ofi_buffer *buffer)
{
    struct na_ofi_buffer **list =
        buffer->size <= NA_OFI_SMALL ? &end->small : &end->large;

    HG_ASSERT(buffer->request.work == NA_OFI_SEND ||
        buffer->request.work == NA_OFI_SEND_LINK);
    buffer->addr = NULL;
    buffer->next = *list;
    *list = buffer;
}

static void na_ofi_buffers_free(struct na_ofi_end *end)
{
    const struct na_core *core = end->na_class->base.core;

    while (end->all != NULL) {
        struct na_ofi_buffer *buffer = end->all;

        end->all = buffer->all;
        if (buffer->mr != NULL)
            na_ofi_mr_close(end->na_class, buffer->mr);
        if (buffer->addr != NULL)
            core->addr_unref(&buffer->addr->base);
        core->free(buffer);
    }
    end->small = NULL;
    end->large = NULL;
    end->spent = NULL;
}

/* ---- Posting ---- */

/* Gather a message. */
static void na_ofi_gather(unsigned char *p, const struct na_ofi_header *header,
    const struct na_segment *segments, na_size_t count)
{
    na_size_t i;

    na_ofi_put_header(p, header);
    p += NA_OFI_HEADER;
    for (i = 0; i < count; i++) {
        size_t size = (size_t) segments[i].size;

        if (size > 0)
            memcpy(p, segments[i].address, size);
        p += size;
    }
}

/* Whether the window of the peer is full: messages wait for its GRANT. */
static bool na_ofi_must_wait(struct na_ofi_addr *addr)
{
    return atomic_load_explicit(&addr->sent, memory_order_relaxed) -
        atomic_load_explicit(&addr->granted, memory_order_relaxed) >=
        NA_OFI_WINDOW;
}

/* A message of `size` bytes, header included, was sent. */
static void na_ofi_count_sent(struct na_ofi_addr *addr, size_t size)
{
    uint64_t sent = atomic_load_explicit(&addr->sent, memory_order_relaxed);

    atomic_store_explicit(
        &addr->sent, sent + size + NA_OFI_COST, memory_order_relaxed);
}

/* Send a message of `size` bytes and a header, which are copied. 0, or a
 * negative error of libfabric; -FI_EAGAIN: not now. */
static ssize_t na_ofi_post(struct na_ofi_end *end, struct na_ofi_addr *addr,
    fi_addr_t at, const struct na_ofi_header *header,
    const struct na_segment *segments, na_size_t count, size_t size)
{
    struct na_ofi_class *self = end->na_class;
    bool message = header->kind == NA_OFI_MESSAGE;
    struct na_ofi_buffer *buffer;
    ssize_t rc;

    size += NA_OFI_HEADER;
    HG_ASSERT(size <= self->message_size && at != FI_ADDR_UNSPEC);
    if (message && na_ofi_must_wait(addr))
        return -FI_EAGAIN;
    if (message && size <= NA_OFI_INJECT_MAX &&
        size <= self->info->tx_attr->inject_size) {
        unsigned char bytes[NA_OFI_INJECT_MAX];

        na_ofi_gather(bytes, header, segments, count);
        rc = fi_inject(end->ep, bytes, size, at);
        if (rc == 0)
            na_ofi_count_sent(addr, size);
        return rc;
    }
    na_ofi_lock(&end->lock);
    buffer = na_ofi_buffer_get(end, size);
    if (buffer == NULL) {
        na_ofi_unlock(&end->lock);
        return -FI_ENOMEM;
    }
    na_ofi_gather(buffer->bytes, header, segments, count);
    buffer->request.work =
        header->kind == NA_OFI_LINK ? NA_OFI_SEND_LINK : NA_OFI_SEND;
    rc = fi_send(
        end->ep, buffer->bytes, size, buffer->desc, at, &buffer->request);
    if (rc == 0) {
        buffer->addr = addr;
        self->base.core->addr_ref(&addr->base);
    } else
        na_ofi_buffer_put(end, buffer);
    na_ofi_unlock(&end->lock);
    if (rc == 0 && message)
        na_ofi_count_sent(addr, size);
    return rc;
}

/* A send has ended. The caller gets the buffer's reference to the address. */
static struct na_ofi_addr *na_ofi_sent(
    struct na_ofi_end *end, struct na_ofi_request *request)
{
    struct na_ofi_buffer *buffer =
        NA_OFI_OF(request, struct na_ofi_buffer, request);
    struct na_ofi_addr *addr;

    na_ofi_lock(&end->lock);
    addr = buffer->addr; /* set by na_ofi_post, maybe after the completion */
    na_ofi_buffer_put(end, buffer);
    na_ofi_unlock(&end->lock);
    return addr;
}

/* Whether a send is in flight, other than a HELLO that was not answered: the
 * peer may not exist. */
static bool na_ofi_is_sending(struct na_ofi_end *end)
{
    const struct na_ofi_buffer *buffer;

    na_ofi_lock(&end->lock);
    for (buffer = end->all; buffer != NULL; buffer = buffer->all) {
        if (buffer->addr != NULL &&
            atomic_load(&buffer->addr->state) != NA_OFI_ASKED)
            break;
    }
    na_ofi_unlock(&end->lock);
    return buffer != NULL;
}

/* ---- Messages ---- */

/* Send a message of the core to a ready peer. */
static ssize_t na_ofi_post_msg(
    struct na_ofi_end *end, struct na_ofi_addr *addr, const struct na_msg *msg)
{
    struct na_ofi_header header;

    header.kind = NA_OFI_MESSAGE;
    header.plane = msg->plane;
    header.target = msg->target;
    header.source = end->id;
    header.token = atomic_load_explicit(&addr->theirs, memory_order_relaxed);
    header.tag = msg->tag;
    return na_ofi_post(end, addr, na_ofi_target(addr, msg->target), &header,
        msg->segments, msg->segment_count, (size_t) msg->size);
}

/* Set in the clock threads, which leave messages to the threads that make
 * progress. */
static _Thread_local bool na_ofi_in_clock;

/* Whether messages can be sent. Those that wait for a GRANT cannot. */
static bool na_ofi_has_sends(struct na_ofi_addr *addr)
{
    return atomic_load(&addr->state) == NA_OFI_READY &&
        !na_plug_list_empty(&addr->sends) && !na_ofi_must_wait(addr);
}

/* Whether a lookup was not answered in time. A thread that makes progress ends
 * it: it may be the one that waits, which gets the log line as its error text.
 * The class's lock is held, as below. */
static bool na_ofi_is_late(
    const struct na_ofi_class *self, const struct na_ofi_addr *addr)
{
    return atomic_load(&addr->state) == NA_OFI_ASKED &&
        !na_plug_list_empty(&addr->lookups) &&
        self->base.core->now_ns() > addr->deadline;
}

/* Send LINK where it is due. -FI_EAGAIN: some could not be sent yet. */
static ssize_t na_ofi_flush_links(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    struct na_ofi_far *far = atomic_load(&addr->far);
    struct na_ofi_header header;
    bool waits = false;

    memset(&header, 0, sizeof(header));
    header.kind = NA_OFI_LINK;
    header.token = atomic_load(&addr->theirs);
    for (; far != NULL; far = far->next) {
        ssize_t rc;

        if (!far->due || far->other != na_ofi_is_other(addr))
            continue;
        rc = na_ofi_post(
            na_ofi_end_at(self, addr, 0), addr, far->at, &header, NULL, 0, 0);
        far->due = rc == -FI_EAGAIN || rc == -FI_ENOMEM;
        waits |= far->due;
    }
    return waits && self->turn <= addr->link_until ? -FI_EAGAIN : 0;
}

/* An address is not in the address vector. 0: it is now; -FI_EAGAIN: its family
 * is being opened, which does not count as time for the address. */
static ssize_t na_ofi_enter_late(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    int other = atomic_load(&self->other);
    uint64_t until = self->base.core->now_ns() + addr->share;

    if (na_ofi_is_other(addr) && other == NA_OFI_OTHER_WANTED)
        return -FI_EAGAIN;
    if (!na_ofi_is_other(addr) || other != NA_OFI_OTHER_OPEN ||
        na_ofi_insert(self, true, addr->raw, &addr->at) != NA_SUCCESS)
        return -FI_EHOSTUNREACH;
    if (until < addr->limit)
        addr->deadline = until;
    return 0;
}

/* Send what waits for an address: HELLO, WELCOME, GRANT, messages. 0,
 * -FI_EAGAIN, or the error that ends it. The class's lock is held. A send is
 * completed with it held, before another thread can deliver an answer: the
 * class still holds a reference to the address, so no slot is called. */
static ssize_t na_ofi_flush_addr(
    struct na_ofi_class *self, struct na_ofi_addr *addr, unsigned *n_p)
{
    ssize_t rc = 0;

    if (na_ofi_is_late(self, addr)) {
        rc = na_ofi_in_clock ? -FI_EAGAIN : -FI_EHOSTUNREACH;
    } else if (addr->at == FI_ADDR_UNSPEC) {
        rc = na_ofi_enter_late(self, addr);
    }
    if (rc == 0 && addr->hello) {
        rc = na_ofi_send_control(
            self, addr, addr->accepted ? NA_OFI_WELCOME : NA_OFI_HELLO);
        addr->tries += na_ofi_in_clock;
    }
    if (rc == 0) {
        addr->greeted |= addr->hello;
        addr->hello = false;
        addr->tries = 0;
    }
    if (rc == 0)
        rc = na_ofi_send_grant(self, addr);
    if (rc == 0 && na_ofi_in_clock && na_ofi_has_sends(addr))
        rc = -FI_EAGAIN;
    while (rc == 0 && na_ofi_has_sends(addr)) {
        struct na_op *op = NA_OFI_OF(addr->sends.next, struct na_op, link);

        rc = na_ofi_post_msg(na_ofi_end_to(op->context, addr), addr, &op->msg);
        if (rc == 0) {
            na_plug_list_remove(&op->link);
            self->base.core->complete(op, NA_SUCCESS);
            (*n_p)++;
        }
    }
    if (rc != 0 || atomic_load(&addr->state) != NA_OFI_READY)
        return rc;
    if (!na_plug_list_empty(&addr->sends))
        return na_ofi_flush_links(self, addr);
    atomic_store(&addr->open, true);
    return na_plug_list_empty(&addr->closers) ? na_ofi_flush_links(self, addr)
                                              : 0;
}

/* Whether to retry in a millisecond. After NA_OFI_TRIES of them a HELLO or
 * WELCOME waits for the next tick: the address is probably not in use, each
 * attempt costs system calls, and unknown peers can name any number of
 * addresses. */
static bool na_ofi_flush_soon(struct na_ofi_addr *addr)
{
    return addr->tries < NA_OFI_TRIES || na_ofi_has_sends(addr);
}

static unsigned na_ofi_flush(struct na_ofi_class *self)
{
    struct na_ofi_addr *ended = NULL; /* lost, or being closed */
    struct na_link again;
    struct na_link *link;
    ssize_t rc = 0;
    unsigned n = 0;

    if (!atomic_load_explicit(&self->hurry, memory_order_relaxed))
        return 0;
    na_plug_list_init(&again);
    na_ofi_lock(&self->lock);
    na_ofi_take_answers(self);
    while (ended == NULL && (link = na_plug_list_pop(&self->due)) != NULL) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, due);

        rc = na_ofi_flush_addr(self, addr, &n);
        if (rc == -FI_EAGAIN || rc == -FI_ENOMEM) {
            if (na_ofi_flush_soon(addr))
                na_plug_list_push(&again, link);
        } else if (rc != 0 ||
            (!na_plug_list_empty(&addr->closers) &&
                na_plug_list_empty(&addr->sends))) {
            ended = addr;
            self->base.core->addr_ref(&addr->base);
        }
    }
    na_plug_list_move(&self->due, &again);
    na_ofi_unlock(&self->lock);
    if (ended == NULL)
        return n;
    if (rc != 0)
        na_ofi_lost(self, ended, NA_HOSTUNREACH);
    else
        na_ofi_part(self, ended);
    self->base.core->addr_unref(&ended->base);
    return n + 1;
}

/* Queue a send that cannot be sent at once. */
static na_return_t na_ofi_send_later(
    struct na_ofi_class *self, struct na_ofi_addr *addr, struct na_op *op)
{
    na_return_t ret;

    na_ofi_lock(&self->lock);
    ret = na_ofi_connect(self, addr);
    if (ret == NA_SUCCESS || ret == NA_AGAIN) {
        atomic_store(&addr->open, false);
        na_plug_list_push(&addr->sends, &op->link);
        if (ret == NA_SUCCESS && !na_ofi_must_wait(addr))
            na_ofi_push_due(self, addr);
        ret = NA_SUCCESS;
    }
    na_ofi_unlock(&self->lock);
    return ret;
}

/* The slot. */
static na_return_t na_ofi_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_ofi_class *self = na_ofi_of(context->na_class);
    struct na_ofi_addr *addr = na_ofi_addr_of(msg->addr);
    ssize_t rc = -FI_EAGAIN;

    /* The sends of calls are completed in na_ofi_flush_addr. */
    if (atomic_load_explicit(&addr->open, memory_order_acquire) &&
        (op == NULL || msg->plane != NA_MSG_RPC))
        rc = na_ofi_post_msg(na_ofi_end_to(context, addr), addr, msg);
    if (rc == 0) {
        if (op != NULL)
            self->base.core->complete(op, NA_SUCCESS);
        return NA_SUCCESS;
    }
    if (rc == -FI_EAGAIN || rc == -FI_ENOMEM)
        return op != NULL ? na_ofi_send_later(self, addr, op) : NA_AGAIN;
    na_ofi_lost(self, addr, NA_HOSTUNREACH);
    return NA_DISCONNECT;
}
