/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, keep-alives, BYE.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* Limit of peers that sent HELLO, but no message with their token yet. Each may
 * be forged, with another process's address. */
#define NA_OFI_UNPROVEN 1024u

/* Limit of proven peers at one address. They are one process that looked up
 * this class by several names. */
#define NA_OFI_ALIKE 32u

static ssize_t na_ofi_send_control(
    struct na_ofi_class *self, struct na_ofi_addr *addr, enum na_ofi_kind kind)
{
    struct na_ofi_end *end = na_ofi_end_at(self, addr, addr->home);
    unsigned char body[NA_OFI_SMALL - NA_OFI_HEADER];
    struct na_ofi_header header;
    struct na_segment segment;

    HG_ASSERT(end != NULL && !addr->base.self);
    memset(&header, 0, sizeof(header));
    header.kind = kind;
    header.source = end->id;
    header.token = atomic_load(&addr->theirs);
    segment.address = body;
    segment.size = 0;
    if (kind != NA_OFI_BYE)
        segment.size = na_ofi_put_intro(na_ofi_end_at(self, addr, 0),
            addr->token, kind == NA_OFI_WELCOME && addr->links, body,
            sizeof(body) < self->message_size - NA_OFI_HEADER
                ? sizeof(body)
                : self->message_size - NA_OFI_HEADER);
    addr->asked = self->turn;
    return na_ofi_post(end, addr, na_ofi_target(addr, addr->context), &header,
        &segment, 1, (size_t) segment.size);
}

/* An endpoint was opened: send a new introduction to all peers. The lock is
 * held. */
static void na_ofi_introduce_all(struct na_ofi_class *self)
{
    struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, link);

        if (addr->token == 0) /* still resolving its name */
            continue;
        addr->hello = true;
        na_ofi_push_due(self, addr);
    }
}

/* ---- Asking ---- */

/* Get ready to send HELLO to addr->raw; the lock is held, as below. */
static na_return_t na_ofi_aim(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    na_return_t ret = NA_SUCCESS;

    if (na_ofi_is_other(addr) && na_ofi_other_end(self) == NULL) {
        na_ofi_other_want(self); /* na_ofi_enter_late waits for it */
        addr->deadline = addr->limit;
    } else if (addr->at == FI_ADDR_UNSPEC)
        ret = na_ofi_insert(self, na_ofi_is_other(addr), addr->raw, &addr->at);
    if (ret == NA_SUCCESS || ret == NA_HOSTUNREACH) /* na_ofi_flush_addr */
        ret = na_ofi_slot_take(self, addr);
    addr->hello = ret == NA_SUCCESS;
    addr->greeted = false;
    addr->tries = 0;
    return ret;
}

/* Ask for the numbers of the host of an address. NA_NOMEM (logged). */
static na_return_t na_ofi_ask_host(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    const char *rest = strstr(addr->base.name, "://") + strlen("://");
    char host[NA_MAX_ADDR_LEN];
    unsigned port;
    na_return_t ret =
        na_plug_split(&self->base, "ofi", NA_FALSE, rest, host, &port);

    HG_ASSERT(ret == NA_SUCCESS && addr->query == NULL);
    (void) ret;
    addr->query = na_plug_ask(self->resolver, "ofi", host, na_ofi_own_af(self),
        na_ofi_has_one_af(self), addr);
    addr->hello = false;
    return addr->query != NULL ? NA_SUCCESS : NA_NOMEM;
}

/* Connect an idle address from the first endpoint, which is the one that peers
 * answer: the answer takes the same connection. */
static na_return_t na_ofi_ask(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    na_return_t ret =
        addr->has_host ? na_ofi_ask_host(self, addr) : na_ofi_aim(self, addr);

    if (ret != NA_SUCCESS)
        return ret;
    addr->home = 0;
    /* In time, not in ticks: on a busy machine the clock skips ticks. */
    addr->limit = self->base.core->now_ns() +
        (uint64_t) self->base.info->lookup_ms * NA_OFI_MS;
    addr->share = (uint64_t) self->base.info->lookup_ms * NA_OFI_MS;
    addr->deadline = addr->limit;
    addr->late = 0;
    atomic_store(&addr->sent, 0);
    atomic_store(&addr->granted, 0);
    atomic_store(&addr->taken, 0);
    addr->grant = 0;
    atomic_store(&addr->context, 0); /* the others may be closed */
    atomic_store(&addr->state, NA_OFI_ASKED);
    self->base.core->addr_ref(&addr->base);
    na_plug_list_push(&self->addrs, &addr->link);
    if (addr->hello)
        na_ofi_push_due(self, addr);
    return NA_SUCCESS;
}

static bool na_ofi_ask_next(struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    const char *port = strrchr(addr->base.name, ':') + 1;
    struct sockaddr_storage number;
    uint64_t now = self->base.core->now_ns();

    if (!na_plug_has_next(addr->query) || now >= addr->limit)
        return false;
    number = *na_plug_next(addr->query, addr->limit - now, &addr->share);
    na_ofi_set_port(&number, (unsigned) strtoul(port, NULL, 10));
    if (memcmp(addr->raw, &number, na_ofi_sockaddr_size(number.ss_family)) !=
        0) {
        /* The entry of the last number stays until the class is closed: a HELLO
         * to it may be on its way. */
        addr->at = FI_ADDR_UNSPEC;
        memset(addr->raw, 0, sizeof(number));
        memcpy(addr->raw, &number, na_ofi_sockaddr_size(number.ss_family));
        atomic_store(&addr->other, number.ss_family != na_ofi_own_af(self));
    }
    /* With a new token, so that a late answer from the last number is not taken
     * for one of this. */
    na_ofi_slot_free(self, addr);
    addr->deadline = now + addr->share;
    addr->late = 0;
    if (na_ofi_aim(self, addr) != NA_SUCCESS)
        return false;
    na_ofi_push_due(self, addr);
    return true;
}

/* Handle the answers of name servers. */
static void na_ofi_take_answers(struct na_ofi_class *self)
{
    struct na_plug_query *query;

    while ((query = na_plug_answer(self->resolver)) != NULL) {
        struct na_ofi_addr *addr = (struct na_ofi_addr *) query->owner;

        HG_ASSERT(
            addr->query == query && atomic_load(&addr->state) == NA_OFI_ASKED);
        if (!na_ofi_ask_next(self, addr))
            addr->deadline = 0; /* fails in the next tick */
    }
}

/* A thread has resolved a host name: wake the threads that flush. */
static void na_ofi_answered(struct na_class *na_class)
{
    struct na_ofi_class *self = na_ofi_of(na_class);

    atomic_store(&self->hurry, true);
    (void) pthread_cond_signal(&self->alarm);
    self->base.core->wake(&self->base);
}

static na_return_t na_ofi_connect(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    na_return_t ret;

    addr->receives = false;
    switch (atomic_load(&addr->state)) {
    case NA_OFI_READY: return NA_SUCCESS;
    case NA_OFI_ASKED: return NA_AGAIN;
    case NA_OFI_IDLE:
        ret = na_ofi_ask(self, addr);
        return ret == NA_SUCCESS ? NA_AGAIN : ret;
    default: return NA_DISCONNECT;
    }
}

/* ---- Links ---- */

static na_return_t na_ofi_link(struct na_ofi_end *end, struct na_ofi_addr *addr)
{
    struct na_ofi_class *self = end->na_class;
    na_return_t ret = NA_AGAIN;
    uint64_t now;

    if (!addr->accepted || na_ofi_is_linked(end, addr) ||
        atomic_load(&addr->unlinked) || !na_ofi_is_tcp(self))
        return NA_SUCCESS;
    now = self->base.core->now_ns();
    na_ofi_lock(&self->lock);
    if (addr->link_asked == 0) {
        addr->link_asked = now;
        addr->links = true;
        addr->hello = true;
        na_ofi_push_due(self, addr);
    } else if (now - addr->link_asked > self->lookup_ticks * self->period) {
        self->base.core->log(HG_LOG_LEVEL_INFO, "ofi",
            "%s does not connect for puts and gets: connecting to it",
            addr->base.name);
        addr->links = false;
        atomic_store(&addr->unlinked, true);
        ret = NA_SUCCESS;
    }
    na_ofi_unlock(&self->lock);
    return ret;
}

/* Send LINK to the endpoints where one is due, soon; the lock is held. */
static void na_ofi_link_soon(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    const struct na_ofi_far *far = atomic_load(&addr->far);

    while (far != NULL && !far->due)
        far = far->next;
    if (far == NULL)
        return;
    addr->link_until = self->turn + self->lookup_ticks;
    na_ofi_push_due(self, addr);
}

/* ---- Receiving HELLO and WELCOME ---- */

/* These functions return NULL, or the reason why the message is refused. They
 * are called by the thread that polls the endpoint, with no other lock held. */

/* Answer a HELLO with WELCOME, from the endpoint that received it. */
static void na_ofi_answer(struct na_ofi_end *end, struct na_ofi_addr *addr,
    uint8_t source, const struct na_ofi_intro *intro)
{
    struct na_ofi_class *self = end->na_class;

    na_ofi_lock(&self->lock);
    if (atomic_load(&addr->state) != NA_OFI_DEAD) {
        addr->home = end->id;
        /* Until the peer is proven, answers are sent to its first endpoint
         * only: a forged HELLO that names another process's address there gets
         * no answer. */
        if (atomic_load(&addr->state) == NA_OFI_READY)
            atomic_store(&addr->context, source);
        addr->hello = na_ofi_send_control(self, addr, NA_OFI_WELCOME) != 0 &&
            !na_ofi_answer_translated(end, addr, intro);
        if (addr->hello)
            na_ofi_push_due(self, addr);
    }
    na_ofi_unlock(&self->lock);
}

/* Ticks between keep-alives to a peer: four keep-alives fit into its death_ms
 * and into this class's. */
static uint64_t na_ofi_often(
    const struct na_ofi_class *self, const struct na_ofi_intro *intro)
{
    uint64_t turns = intro->death_ms * NA_OFI_MS / self->period + 1;

    return (turns < self->death_ticks ? turns : self->death_ticks) / 4;
}

/* Whether a peer sent this HELLO before. */
static bool na_ofi_is_of(
    const struct na_ofi_addr *addr, const struct na_ofi_intro *intro)
{
    return addr->accepted && atomic_load(&addr->theirs) == intro->token &&
        atomic_load(&addr->incarnation) == intro->incarnation;
}

/* The peer that sent this HELLO before and missed the answer, or NULL. *why_p:
 * the reason to refuse a new peer, or NULL. The lock is held. */
static struct na_ofi_addr *na_ofi_find_accepted(struct na_ofi_class *self,
    const struct na_ofi_intro *intro, const char *name, const char **why_p)
{
    unsigned unproven = 0;
    unsigned alike = 0;
    struct na_link *link;

    *why_p = NULL;
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, link);

        if (na_ofi_is_of(addr, intro))
            return addr;
        unproven += atomic_load(&addr->state) == NA_OFI_ACCEPTED;
        alike += addr->accepted && addr->deadline == NA_OFI_NEVER &&
            strcmp(addr->base.name, name) == 0;
    }
    if (unproven >= NA_OFI_UNPROVEN)
        *why_p = "too many others have not finished the handshake";
    else if (alike >= NA_OFI_ALIKE)
        *why_p = "too many peers have its address";
    return NULL;
}

/* Accept a new peer, which sent HELLO to an endpoint; NULL: refused
 * (logged). */
static struct na_ofi_addr *na_ofi_accept(
    struct na_ofi_end *end, const struct na_ofi_intro *intro, const char *name)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_addr *addr = na_ofi_addr_new(self, name, NA_FALSE);
    na_return_t ret;

    if (addr == NULL)
        return NULL;
    addr->accepted = true;
    addr->reached = true;
    atomic_store(&addr->other, end->family != &self->families[0]);
    atomic_store(&addr->theirs, intro->token);
    atomic_store(&addr->incarnation, intro->incarnation);
    memcpy(addr->raw, intro->ends + 1, intro->raw_size);
    na_ofi_lock(&self->lock);
    ret = na_ofi_set_ends(self, addr, intro);
    if (ret == NA_SUCCESS)
        ret = na_ofi_slot_take(self, addr);
    if (ret == NA_SUCCESS) {
        addr->deadline = self->turn + self->lookup_ticks;
        atomic_store(&addr->heard, self->turn);
        atomic_store(&addr->state, NA_OFI_ACCEPTED);
        self->base.core->addr_ref(&addr->base);
        na_plug_list_push(&self->addrs, &addr->link);
    } else
        atomic_store(&addr->state, NA_OFI_DEAD);
    na_ofi_unlock(&self->lock);
    if (ret == NA_SUCCESS)
        return addr;
    self->base.core->addr_unref(&addr->base);
    return NULL;
}

/* HELLO of a new peer, or a repeated one, which is a keep-alive of `addr`. */
static const char *na_ofi_handle_hello(struct na_ofi_end *end,
    struct na_ofi_addr *addr, const struct na_ofi_header *header,
    const struct na_ofi_intro *intro)
{
    struct na_ofi_class *self = end->na_class;
    char name[NA_MAX_ADDR_LEN];
    const char *why = NULL;
    struct na_ofi_addr *peer = addr;

    na_ofi_name_of(self, intro->ends + 1, intro->raw_size, name);
    na_ofi_lock(&self->lock);
    if (peer == NULL || !na_ofi_is_of(peer, intro))
        peer = na_ofi_find_accepted(self, intro, name, &why);
    if (peer != NULL) {
        (void) na_ofi_set_ends(self, peer, intro);
        self->base.core->addr_ref(&peer->base);
    }
    na_ofi_unlock(&self->lock);
    if (peer == NULL && why == NULL)
        peer = na_ofi_accept(end, intro, name);
    if (peer != NULL) {
        na_ofi_answer(end, peer, header->source, intro);
        self->base.core->addr_unref(&peer->base);
    }
    return why;
}

/* Whether this class has sent this WELCOME, to itself. The lock is held. */
static bool na_ofi_is_own(const struct na_ofi_class *self,
    const struct na_ofi_addr *addr, const struct na_ofi_intro *intro)
{
    const struct na_ofi_addr *peer = na_ofi_slot_find(self, intro->token);

    return peer != NULL && peer->accepted &&
        atomic_load(&peer->theirs) == addr->token;
}

/* A WELCOME: the answer to our HELLO, be that the first or a keep-alive; or an
 * acceptor's list of endpoints after it opened another. */
static const char *na_ofi_handle_welcome(struct na_ofi_class *self,
    struct na_ofi_addr *addr, const struct na_ofi_intro *intro)
{
    struct na_addr *result;
    struct na_link lookups;
    bool asked;
    bool other = false;
    bool is_self = intro->incarnation == self->base.incarnation;

    if (addr == NULL || addr->accepted)
        return "it does not answer a HELLO of this class";
    result = &addr->base;
    na_plug_list_init(&lookups);
    na_ofi_lock(&self->lock);
    asked = atomic_load(&addr->state) == NA_OFI_ASKED;
    if (asked && is_self && !na_ofi_is_own(self, addr, intro)) {
        na_ofi_unlock(&self->lock);
        na_ofi_end_addr(self, addr, NA_PROTOCOL_ERROR, NA_PLUG_IMPOSTOR);
        return NULL;
    }
    if (asked) {
        atomic_store(&addr->theirs, intro->token);
        atomic_store(&addr->incarnation, intro->incarnation);
        atomic_store(&addr->state, NA_OFI_READY);
        na_plug_drop(addr->query);
        addr->query = NULL;
        addr->reached = true;
        addr->deadline = NA_OFI_NEVER;
        addr->often = na_ofi_often(self, intro);
        na_plug_list_move(&lookups, &addr->lookups);
        addr->hello = true; /* with the token, which proves this class */
        /* To send its messages, too, and open it. */
        na_ofi_push_due(self, addr);
        if (is_self)
            result = self->base.self_addr; /* the own address by another name */
    } else if (atomic_load(&addr->state) == NA_OFI_READY)
        /* It was restarted, or has abandoned this class. */
        other = atomic_load(&addr->incarnation) != intro->incarnation ||
            atomic_load(&addr->theirs) != intro->token;
    if (atomic_load(&addr->state) == NA_OFI_READY && !other) {
        (void) na_ofi_set_ends(self, addr, intro);
        na_ofi_link_soon(self, addr);
    }
    na_ofi_unlock(&self->lock);
    if (other)
        na_ofi_lost(self, addr, NA_DISCONNECT);
    (void) na_ofi_complete_all(self, &lookups, NA_SUCCESS, result);
    if (asked)
        self->base.core->addr_connected(&addr->base, NA_SUCCESS);
    (void) na_ofi_flush(self);
    return NULL;
}

/* A HELLO of another version: answer with a WELCOME of this version. */
static void na_ofi_refuse_version(struct na_ofi_end *end,
    const struct na_ofi_header *header, const struct na_ofi_intro *intro)
{
    struct na_ofi_class *self = end->na_class;
    struct na_ofi_addr *addr = na_ofi_addr_new(self, NULL, NA_FALSE);

    if (addr == NULL)
        return;
    na_ofi_lock(&self->lock);
    atomic_store(&addr->state, NA_OFI_DEAD);
    atomic_store(&addr->theirs, intro->token);
    atomic_store(&addr->context, header->source);
    atomic_store(&addr->other, end->family != &self->families[0]);
    addr->home = end->id;
    if (na_ofi_set_ends(self, addr, intro) == NA_SUCCESS)
        (void) na_ofi_send_control(self, addr, NA_OFI_WELCOME);
    na_ofi_unlock(&self->lock);
    self->base.core->addr_unref(&addr->base);
}

/* ---- BYE ---- */

static void na_ofi_part(struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    struct na_link closers;
    bool ready;

    na_plug_list_init(&closers);
    na_ofi_lock(&self->lock);
    ready = atomic_load(&addr->state) == NA_OFI_READY;
    if (ready && !na_plug_list_empty(&addr->sends)) {
        na_ofi_push_due(self, addr); /* after them */
        ready = false;
    }
    if (ready)
        (void) na_ofi_send_control(self, addr, NA_OFI_BYE);
    if (ready && !addr->accepted) {
        atomic_store(&addr->open, false);
        atomic_store(&addr->state, NA_OFI_IDLE);
        atomic_store(&addr->theirs, 0);
        /* Another process may listen there next. */
        atomic_store(&addr->incarnation, 0);
        na_ofi_slot_free(self, addr);
        na_plug_list_remove(&addr->link);
        na_plug_list_remove(&addr->due);
        addr->hello = false;
        na_plug_list_move(&closers, &addr->closers);
    }
    na_ofi_unlock(&self->lock);
    if (ready)
        (void) na_ofi_offer(self, addr);
    (void) na_ofi_complete_all(self, &closers, NA_SUCCESS, NULL);
    if (ready && addr->accepted) {
        na_ofi_lost(self, addr, NA_DISCONNECT);
    } else if (ready) {
        self->base.core->addr_parted(&addr->base);
        self->base.core->addr_unref(&addr->base);
    }
}

/* The slot: close in order. */
static na_return_t na_ofi_addr_terminate(struct na_op *op)
{
    struct na_ofi_class *self = na_ofi_of(op->context->na_class);
    struct na_ofi_addr *addr = na_ofi_addr_of(op->addr);
    int state;

    na_ofi_lock(&self->lock);
    state = atomic_load(&addr->state);
    if (!addr->base.self && (state == NA_OFI_ASKED || state == NA_OFI_READY)) {
        na_plug_list_push(&addr->closers, &op->link);
        if (state == NA_OFI_READY)
            na_ofi_push_due(self, addr);
        op = NULL;
    }
    na_ofi_unlock(&self->lock);
    if (op != NULL)
        self->base.core->complete(op, NA_SUCCESS);
    else
        (void) na_ofi_flush(self);
    return NA_SUCCESS;
}

/* Poll all endpoints until their sends have ended, or until `end_at`. */
static void na_ofi_wait_sent(struct na_ofi_class *self, uint64_t end_at)
{
    unsigned id;

    for (id = 0; id < NA_OFI_ENDS; id++) {
        struct na_ofi_end *end = self->ends[id];

        while (end != NULL && na_ofi_is_sending(end) &&
            self->base.core->now_ns() < end_at) {
            if (na_ofi_poll_end(end) == 0)
                (void) sched_yield();
        }
    }
}

/* Send BYE to every peer after all messages, and wait up to `linger_ms` until
 * it was sent. No context is left, and the clock has stopped. */
static void na_ofi_send_bye(struct na_ofi_class *self, unsigned linger_ms)
{
    uint64_t end_at = self->base.core->now_ns() + linger_ms * NA_OFI_MS;
    struct na_link *link;

    self->base.core->enter(&self->base); /* for messages that still arrive */
    na_ofi_wait_sent(self, end_at);
    na_ofi_lock(&self->lock);
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, link);

        atomic_store(&addr->open, false);
        if (atomic_load(&addr->theirs) != 0)
            (void) na_ofi_send_control(self, addr, NA_OFI_BYE);
    }
    na_ofi_unlock(&self->lock);
    na_ofi_wait_sent(self, end_at);
    self->base.core->leave(&self->base);
}
