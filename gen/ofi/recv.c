/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions: messages that arrived, and operations that ended.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* ---- Receive buffers ---- */

/* Post used buffers again, as far as the provider accepts them now; failures
 * are logged. The endpoint's lock is held. */
static na_return_t na_ofi_recv_post(struct na_ofi_end *end)
{
    struct fi_msg msg;
    struct iovec iov;

    while (end->spent != NULL) {
        struct na_ofi_buffer *buffer = end->spent;
        struct fid_ep *ep =
            buffer->request.work == NA_OFI_DRAIN ? end->rma : end->ep;
        ssize_t rc = 0;

        memset(&msg, 0, sizeof(msg));
        iov.iov_base = buffer->bytes;
        iov.iov_len = buffer->size;
        msg.msg_iov = &iov;
        msg.desc = &buffer->desc;
        msg.iov_count = 1;
        msg.addr = FI_ADDR_UNSPEC;
        msg.context = &buffer->request;
        na_ofi_keys_lock(end->na_class);
        if (ep != NULL) /* otherwise it was closed, and is not open again yet */
            rc =
                fi_recvmsg(ep, &msg, end->na_class->is_rxm ? 0 : FI_MULTI_RECV);
        na_ofi_keys_unlock(end->na_class);
        if (rc == -FI_EAGAIN)
            return NA_SUCCESS; /* poll retries */
        if (rc != 0)
            return na_ofi_failed(
                end->na_class, "cannot post", "a receive buffer", (int) rc);
        end->spent = buffer->next;
    }
    return NA_SUCCESS;
}

static na_return_t na_ofi_recv_begin(struct na_ofi_end *end)
{
    size_t size = 4 * end->na_class->message_size;
    unsigned count = NA_OFI_RECVS;
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    if (size < NA_OFI_RECV_MIN)
        size = NA_OFI_RECV_MIN;
    if (end->na_class->is_rxm) {
        size = end->na_class->message_size;
        count = NA_OFI_RXM_RECVS;
    }
    na_ofi_lock(&end->lock);
    for (i = 0; i < count; i++) {
        struct na_ofi_buffer *buffer;

        ret = na_ofi_buffer_new(end, size, NA_OFI_RECV, &buffer);
        if (ret != NA_SUCCESS)
            break;
        buffer->next = end->spent;
        end->spent = buffer;
    }
    if (ret == NA_SUCCESS)
        ret = na_ofi_recv_post(end);
    na_ofi_unlock(&end->lock);
    return ret;
}

static na_return_t na_ofi_drain_begin(struct na_ofi_end *end)
{
    struct na_ofi_buffer *buffer;
    na_return_t ret;

    na_ofi_lock(&end->lock);
    ret = na_ofi_buffer_new(
        end, end->na_class->message_size, NA_OFI_DRAIN, &buffer);
    if (ret == NA_SUCCESS) {
        buffer->next = end->spent;
        end->spent = buffer;
        ret = na_ofi_recv_post(end);
    }
    na_ofi_unlock(&end->lock);
    return ret;
}

/* ---- Messages ---- */

/* Count and log a refused message. */
static void na_ofi_refuse(struct na_ofi_class *self,
    const struct na_ofi_addr *addr, size_t size, const char *why)
{
    self->base.core->count(&self->base, "ofi_malformed", 1);
    self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
        "refused a message (%zu bytes) from %s: %s", size,
        addr != NULL ? addr->base.name : "an unknown peer", why);
}

/* A peer has proved its address: an earlier incarnation at that address is
 * dead. */
static void na_ofi_replace(
    struct na_ofi_class *self, const struct na_ofi_addr *addr)
{
    uint64_t incarnation = atomic_load(&addr->incarnation);
    struct na_ofi_addr *old;
    struct na_link *link;

    do {
        old = NULL;
        na_ofi_lock(&self->lock);
        for (link = self->addrs.next; link != &self->addrs && old == NULL;
             link = link->next) {
            old = NA_OFI_OF(link, struct na_ofi_addr, link);
            if (atomic_load(&old->state) != NA_OFI_READY ||
                atomic_load(&old->incarnation) == incarnation ||
                old->at != addr->at || old->other != addr->other)
                old = NULL;
        }
        if (old != NULL)
            self->base.core->addr_ref(&old->base);
        na_ofi_unlock(&self->lock);
        if (old != NULL) {
            na_ofi_lost(self, old, NA_DISCONNECT);
            self->base.core->addr_unref(&old->base);
        }
    } while (old != NULL);
}

/* Whether the application has looked up a peer that looked up this class: the
 * token of that peer was sent to the same endpoint, which is that of its name,
 * unless an address translation is in between. The class's lock is held. */
static bool na_ofi_is_known(
    struct na_ofi_class *self, const struct na_ofi_addr *addr)
{
    struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        const struct na_ofi_addr *other =
            NA_OFI_OF(link, struct na_ofi_addr, link);

        if (other->looked_up && other->at == addr->at &&
            other->other == addr->other &&
            atomic_load(&other->state) == NA_OFI_READY)
            return true;
    }
    for (link = self->named.next; link != &self->named; link = link->next) {
        const struct na_ofi_addr *other =
            NA_OFI_OF(link, struct na_ofi_addr, named);

        /* The name of a peer is a number, so a host name never equals it. */
        if (other->looked_up && addr->host.ss_family == 0 &&
            strcmp(other->base.name, addr->base.name) == 0)
            return true;
    }
    return false;
}

/* The sender of a message, with a reference; NULL: unknown. A sender that uses
 * this class's token has completed the handshake. */
static struct na_ofi_addr *na_ofi_sender(
    struct na_ofi_class *self, const struct na_ofi_header *header)
{
    struct na_ofi_addr *addr;
    bool proven = false;

    if (header->token == 0)
        return NULL;
    na_ofi_lock(&self->lock);
    addr = na_ofi_slot_find(self, header->token);
    if (addr != NULL) {
        self->base.core->addr_ref(&addr->base);
        proven = atomic_load(&addr->state) == NA_OFI_ACCEPTED;
        if (proven) {
            addr->base.stranger =
                !self->base.listen && !na_ofi_is_known(self, addr);
            atomic_store(&addr->state, NA_OFI_READY);
            atomic_store(&addr->open, true);
            addr->deadline = NA_OFI_NEVER;
        }
        atomic_store_explicit(&addr->heard, self->turn, memory_order_relaxed);
    }
    na_ofi_unlock(&self->lock);
    if (proven)
        na_ofi_replace(self, addr);
    return addr;
}

/* ---- The window ---- */

static ssize_t na_ofi_send_grant(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    struct na_ofi_header header;
    ssize_t rc;

    if (addr->grant == 0 || atomic_load(&addr->state) != NA_OFI_READY)
        return 0;
    memset(&header, 0, sizeof(header));
    header.kind = NA_OFI_GRANT;
    header.source = addr->home;
    header.token = atomic_load(&addr->theirs);
    header.tag = (na_tag_t) addr->grant;
    rc = na_ofi_post(na_ofi_end_at(self, addr, addr->home), addr, addr->at,
        &header, NULL, 0, 0);
    if (rc == 0)
        addr->grant = 0;
    return rc;
}

/* The peer grants `bytes`: send what waits for that. The class's lock is
 * held. */
static void na_ofi_granted(
    struct na_ofi_class *self, struct na_ofi_addr *addr, uint64_t bytes)
{
    uint64_t granted = atomic_load(&addr->granted);
    uint64_t left = atomic_load(&addr->sent) - granted;

    atomic_store(&addr->granted, granted + (bytes < left ? bytes : left));
    if (!na_plug_list_empty(&addr->sends))
        na_ofi_push_due(self, addr);
}

/* The core has taken messages that count `weight`. Half a window is granted at
 * a time. No lock is held. */
static void na_ofi_taken(
    struct na_ofi_class *self, struct na_ofi_addr *addr, uint64_t weight)
{
    uint64_t taken =
        atomic_fetch_add_explicit(&addr->taken, weight, memory_order_relaxed);

    if (taken + weight < NA_OFI_WINDOW / 2)
        return;
    na_ofi_lock(&self->lock);
    taken = atomic_exchange(&addr->taken, 0);
    if (addr->base.self)
        na_ofi_granted(self, addr, taken);
    else
        addr->grant += taken;
    if (na_ofi_send_grant(self, addr) != 0)
        na_ofi_push_due(self, addr); /* again, or an error ends it there */
    na_ofi_unlock(&self->lock);
}

/* Hold a message until the core takes it. Its connection ends if its sender
 * exceeds the window, or if there is no memory. */
static const char *na_ofi_hold(struct na_ofi_class *self,
    struct na_ofi_addr *addr, const struct na_ofi_header *header,
    const unsigned char *body, size_t size)
{
    const struct na_core *core = self->base.core;
    struct na_ofi_held *held =
        (struct na_ofi_held *) core->alloc(sizeof(*held) + size);
    bool too_much;

    if (held == NULL) {
        core->count(&self->base, "msg_dropped", 1);
        core->log(HG_LOG_LEVEL_ERROR, "ofi",
            "no memory for a message of %s: the connection ends",
            addr->base.name);
        na_ofi_addr_abandon(&addr->base);
        return NULL;
    }
    na_plug_list_init(&held->link);
    held->token = header->token;
    held->tag = header->tag;
    held->plane = header->plane;
    held->target = header->target;
    held->size = size;
    memcpy(held->bytes, body, size);
    na_ofi_lock(&self->lock);
    too_much = addr->held_bytes >= NA_OFI_WINDOW;
    if (!too_much) {
        addr->held_bytes += size + NA_OFI_HEADER + NA_OFI_COST;
        na_plug_list_push(&addr->held, &held->link);
        atomic_store(&addr->holds, true);
        if (na_plug_list_empty(&addr->holding)) {
            na_plug_list_push(&self->holding, &addr->holding);
            atomic_fetch_add(&self->holders, 1);
        }
    }
    na_ofi_unlock(&self->lock);
    if (too_much) {
        core->free(held);
        na_ofi_addr_abandon(&addr->base);
        return "it exceeds the window";
    }
    if (atomic_load(&addr->state) != NA_OFI_READY)
        (void) na_ofi_offer(self, addr); /* it has ended meanwhile */
    else if (na_ofi_in_clock)
        core->wake(&self->base); /* a receive may have been posted meanwhile */
    return NULL;
}

static unsigned na_ofi_offer(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    const struct na_core *core = self->base.core;
    uint64_t weight = 0;
    unsigned n = 0;

    na_ofi_lock(&self->lock);
    if (addr->offering || na_plug_list_empty(&addr->held)) {
        na_ofi_unlock(&self->lock);
        return 0;
    }
    addr->offering = true;
    while (!na_plug_list_empty(&addr->held)) {
        struct na_ofi_held *held =
            NA_OFI_OF(addr->held.next, struct na_ofi_held, link);
        bool last = atomic_load(&addr->state) != NA_OFI_READY;
        na_return_t ret;

        na_ofi_unlock(&self->lock);
        ret = (last ? core->msg_last : core->msg_arrived)(&self->base,
            &addr->base, held->plane, held->target, held->tag, held->bytes,
            held->size);
        na_ofi_lock(&self->lock);
        if (ret == NA_AGAIN && atomic_load(&addr->state) == NA_OFI_READY)
            break;
        if (ret == NA_AGAIN)
            continue; /* it has ended meanwhile */
        na_plug_list_remove(&held->link);
        addr->held_bytes -= held->size + NA_OFI_HEADER + NA_OFI_COST;
        if (held->token == addr->token)
            weight += held->size + NA_OFI_HEADER + NA_OFI_COST;
        core->free(held);
        n++;
    }
    addr->offering = false;
    if (na_plug_list_empty(&addr->held)) {
        atomic_store(&addr->holds, false);
        na_plug_list_remove(&addr->holding);
        atomic_fetch_sub(&self->holders, 1);
    }
    na_ofi_unlock(&self->lock);
    na_ofi_taken(self, addr, weight);
    return n;
}

/* Offer the messages held of all addresses, each once. */
static unsigned na_ofi_offer_all(struct na_ofi_class *self)
{
    unsigned left = atomic_load_explicit(&self->holders, memory_order_relaxed);
    unsigned n = 0;

    for (; left > 0; left--) {
        struct na_ofi_addr *addr = NULL;
        struct na_link *link;

        na_ofi_lock(&self->lock);
        link = na_plug_list_pop(&self->holding);
        if (link != NULL) {
            na_plug_list_push(&self->holding, link);
            addr = NA_OFI_OF(link, struct na_ofi_addr, holding);
            self->base.core->addr_ref(&addr->base);
        }
        na_ofi_unlock(&self->lock);
        if (addr == NULL)
            break;
        n += na_ofi_offer(self, addr);
        self->base.core->addr_unref(&addr->base);
    }
    return n;
}

/* Deliver a message, after those that are held. */
static const char *na_ofi_message(struct na_ofi_class *self,
    struct na_ofi_addr *addr, const struct na_ofi_header *header,
    const unsigned char *body, size_t size)
{
    if (atomic_load_explicit(&addr->holds, memory_order_acquire) ||
        self->base.core->msg_arrived(&self->base, &addr->base, header->plane,
            header->target, header->tag, body, size) == NA_AGAIN)
        return na_ofi_hold(self, addr, header, body, size);
    na_ofi_taken(self, addr, size + NA_OFI_HEADER + NA_OFI_COST);
    return NULL;
}

/* Deliver a message, or return why its sender may not send it. */
static const char *na_ofi_deliver(struct na_ofi_end *end,
    struct na_ofi_addr *addr, const struct na_ofi_header *header,
    const unsigned char *body, size_t size)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_intro intro;

    if (header->kind == NA_OFI_MESSAGE) {
        if (addr == NULL || atomic_load(&addr->state) != NA_OFI_READY)
            return "its sender is not a peer (any more)";
        if (header->plane >= NA_MSG_PLANE_MAX)
            return "there is no such plane";
        if (size > (header->plane == NA_MSG_EXPECTED
                           ? self->base.max_expected_size
                           : self->base.max_unexpected_size)) {
            na_ofi_addr_abandon(&addr->base); /* it learns that one is lost */
            return "it is longer than the longest message of this class";
        }
        atomic_store_explicit(
            &addr->context, header->source, memory_order_relaxed);
        return na_ofi_message(self, addr, header, body, size);
    }
    if (header->kind == NA_OFI_GRANT) {
        if (size != 0)
            return "a GRANT with a body";
        if (addr == NULL)
            return NULL; /* it was given up before the message arrived */
        na_ofi_lock(&self->lock);
        na_ofi_granted(self, addr, header->tag);
        na_ofi_unlock(&self->lock);
        return NULL;
    }
    if (header->kind == NA_OFI_BYE) {
        if (size != 0)
            return "a BYE with a body";
        if (addr == NULL)
            return NULL; /* it was given up before the message arrived */
        /* Not at once: earlier messages of its other endpoints may still
         * arrive. */
        na_ofi_lock(&self->lock);
        if (addr->deadline > self->turn + 1)
            addr->deadline = self->turn + 1;
        na_ofi_unlock(&self->lock);
        return NULL;
    }
    if (!na_ofi_get_intro(end, body, size, &intro))
        return "its introduction is malformed";
    if (header->kind == NA_OFI_HELLO)
        return na_ofi_handle_hello(end, addr, header, &intro);
    return na_ofi_handle_welcome(self, addr, &intro);
}

/* A peer sent LINK to an endpoint for puts and gets. */
static const char *na_ofi_handle_link(
    struct na_ofi_end *end, const unsigned char *bytes, size_t size)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_header header;
    struct na_ofi_addr *addr;

    if (!na_ofi_get_header(bytes, size, &header) ||
        header.kind != NA_OFI_LINK || size != NA_OFI_HEADER)
        return "it came to an endpoint for puts and gets";
    addr = na_ofi_sender(self, &header);
    if (addr == NULL)
        return "its sender is not a peer (any more)";
    na_ofi_lock(&self->lock);
    addr->link_asked = 0;
    atomic_fetch_or(&addr->linked[end->id / 64], UINT64_C(1) << (end->id % 64));
    na_ofi_unlock(&self->lock);
    self->base.core->addr_unref(&addr->base);
    return NULL;
}

/* A message of another version of the protocol. */
static void na_ofi_handle_foreign(struct na_ofi_end *end,
    struct na_ofi_addr *addr, const struct na_ofi_header *header,
    const unsigned char *body, size_t size)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_intro intro;

    if (header->kind == NA_OFI_WELCOME && addr != NULL &&
        atomic_load(&addr->state) == NA_OFI_ASKED) {
        na_ofi_end_addr(self, addr, NA_PROTOCOL_ERROR,
            "it has another version of this transport's protocol");
        return;
    }
    if (header->kind == NA_OFI_HELLO && addr == NULL &&
        na_ofi_get_intro(end, body, size, &intro))
        na_ofi_refuse_version(end, header, &intro);
    na_ofi_refuse(self, addr, size, "it has another version of the protocol");
}

static void na_ofi_dispatch(
    struct na_ofi_end *end, const unsigned char *bytes, size_t size)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_header header;
    struct na_ofi_addr *addr;
    const char *wrong = NULL;

    if (!na_ofi_get_header(bytes, size, &header)) {
        na_ofi_refuse(
            self, NULL, size, "it is not a message of this transport");
        return;
    }
    addr = na_ofi_sender(self, &header);
    if (bytes[2] != NA_OFI_VERSION)
        na_ofi_handle_foreign(
            end, addr, &header, bytes + NA_OFI_HEADER, size - NA_OFI_HEADER);
    else
        wrong = na_ofi_deliver(
            end, addr, &header, bytes + NA_OFI_HEADER, size - NA_OFI_HEADER);
    if (wrong != NULL)
        na_ofi_refuse(self, addr, size, wrong);
    if (addr != NULL)
        self->base.core->addr_unref(&addr->base);
}

/* ---- Completions ---- */

/* A receive ended: set its buffer aside if it is used up. */
static void na_ofi_recv_ended(
    struct na_ofi_end *end, struct na_ofi_request *request, uint64_t flags)
{
    struct na_ofi_buffer *buffer =
        NA_OFI_OF(request, struct na_ofi_buffer, request);

    HG_ASSERT(request->work == NA_OFI_RECV || request->work == NA_OFI_DRAIN);
    if ((flags & FI_MULTI_RECV) == 0 && !end->na_class->is_rxm)
        return;
    buffer->next = end->used;
    end->used = buffer;
}

/* A buffer has a message, or is used up, or both. */
static void na_ofi_received(
    struct na_ofi_end *end, const struct fi_cq_data_entry *entry)
{
    struct na_ofi_request *request =
        (struct na_ofi_request *) entry->op_context;
    const unsigned char *bytes = (const unsigned char *) entry->buf;

    if (end->na_class->is_rxm) /* one message, at the beginning */
        bytes = NA_OFI_OF(request, struct na_ofi_buffer, request)->bytes;
    if ((entry->flags & FI_RECV) != 0 && entry->len > 0) {
        const char *wrong = NULL;

        if (request->work == NA_OFI_RECV)
            na_ofi_dispatch(end, bytes, entry->len);
        else
            wrong = na_ofi_handle_link(end, bytes, entry->len);
        if (wrong != NULL)
            na_ofi_refuse(end->na_class, NULL, entry->len, wrong);
    }
    na_ofi_recv_ended(end, request, entry->flags);
}

/* A send failed: its peer is dead. But a HELLO is repeated until the lookup
 * ends: this one may have used a connection to an earlier process at that
 * address. */
static void na_ofi_send_failed(
    struct na_ofi_end *end, struct na_ofi_request *request)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_addr *addr = na_ofi_sent(end, request);

    if (atomic_load(&addr->state) != NA_OFI_ASKED)
        na_ofi_lost(self, addr, NA_HOSTUNREACH);
    self->base.core->addr_unref(&addr->base);
}

/* Read the errors of the queue; returns their number. */
static unsigned na_ofi_read_errors(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    struct fi_cq_err_entry error;
    unsigned n = 0;

    for (;;) {
        struct na_ofi_request *request;

        memset(&error, 0, sizeof(error));
        if (fi_cq_readerr(end->cq, &error, 0) != 1)
            return n;
        n++;
        request = (struct na_ofi_request *) error.op_context;
        if (request == NULL)
            continue; /* of an inject */
        if (request->work == NA_OFI_SEND) {
            na_ofi_send_failed(end, request);
        } else if (request->work == NA_OFI_SEND_LINK) {
            self->base.core->addr_unref(&na_ofi_sent(end, request)->base);
        } else if (request->work == NA_OFI_RMA) {
            na_ofi_rma_done(end, request, error.err);
        } else {
            /* A receive also fails when its sender dies, or when the endpoint
             * is closed. */
            if (request->work == NA_OFI_RECV || error.err != FI_ECANCELED)
                na_ofi_refuse(self, NULL, error.len,
                    error.err == FI_ETRUNC
                        ? "it is larger than the largest message"
                        : fi_strerror(error.err));
            na_ofi_recv_ended(end, request, error.flags);
        }
    }
}

static unsigned na_ofi_poll_end(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    struct fi_cq_data_entry entries[NA_OFI_BATCH];
    unsigned done = 0;
    ssize_t n;
    ssize_t i;

    na_ofi_keys_lock(self);
    n = fi_cq_read(end->cq, entries, NA_OFI_BATCH);
    na_ofi_keys_unlock(self);
    if (n == -FI_EAVAIL)
        done = na_ofi_read_errors(end);
    for (i = 0; i < n; i++) {
        struct na_ofi_request *request =
            (struct na_ofi_request *) entries[i].op_context;
        struct na_ofi_addr *addr;

        if (request == NULL)
            continue;
        switch (request->work) {
        case NA_OFI_RECV:
        case NA_OFI_DRAIN: na_ofi_received(end, &entries[i]); break;
        case NA_OFI_RMA: na_ofi_rma_done(end, request, 0); break;
        default:
            addr = na_ofi_sent(end, request);
            self->base.core->addr_unref(&addr->base);
            break;
        }
        done++;
    }
    /* After the whole batch: a completion that reports a used-up buffer may
     * precede others with messages in it. */
    if (end->used != NULL || end->spent != NULL) {
        na_ofi_lock(&end->lock);
        while (end->used != NULL) {
            struct na_ofi_buffer *buffer = end->used;

            end->used = buffer->next;
            buffer->next = end->spent;
            end->spent = buffer;
        }
        (void) na_ofi_recv_post(end);
        na_ofi_unlock(&end->lock);
    }
    return done;
}
