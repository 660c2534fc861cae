/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch of received messages, in the polling thread, without the lock.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* Reasons to refuse messages of several kinds. */
#define NA_ZMQ_WRONG_SIZE "its size or number of parts is wrong"
#define NA_ZMQ_HELLO_AGAIN "a second HELLO of this connection"
#define NA_ZMQ_UNFIT "it does not fit the state of the connection"
#define NA_ZMQ_OTHER_VERSION "it has another version of the protocol"
#define NA_ZMQ_NO_HELLO "its sender has not finished the handshake"
/* Reasons that decide whether the connection ends: see na_zmq_is_hostile. */
static const char na_zmq_too_much[] = "it exceeds the window";
static const char na_zmq_too_long[] =
    "it is longer than the longest message of this class";
static const char na_zmq_other_version[] = NA_ZMQ_OTHER_VERSION;

/* Complete the operations in the caller's list `ops`. Each is removed with the
 * lock held; until then it can be canceled. */
static void na_zmq_complete_all(struct na_zmq_class *self, struct na_link *ops,
    na_return_t ret, struct na_addr *result)
{
    for (;;) {
        struct na_link *link;
        struct na_op *op;

        (void) pthread_mutex_lock(&self->lock);
        link = na_plug_list_pop(ops);
        (void) pthread_mutex_unlock(&self->lock);
        if (link == NULL)
            return;
        op = NA_ZMQ_OF(link, struct na_op, link);
        if (result != NULL) {
            self->base.core->addr_ref(result);
            op->result_addr = result;
        }
        self->base.core->complete(op, ret);
    }
}

/* Check the name of a peer: of this protocol, and printable. '@' separates what
 * this class appends. */
static bool na_zmq_name_ok(
    const struct na_zmq_class *self, const char *name, size_t size)
{
    char prefix[32];
    int length =
        snprintf(prefix, sizeof(prefix), "zmq+%s://", self->base.protocol);
    size_t i;

    if (size >= NA_MAX_ADDR_LEN || size <= (size_t) length ||
        memcmp(name, prefix, (size_t) length) != 0)
        return false;
    for (i = 0; i < size; i++) {
        if ((unsigned char) name[i] < 0x21 || (unsigned char) name[i] > 0x7e ||
            (name[i] == '@' && self->protocol == NA_ZMQ_TCP))
            return false;
    }
    return true;
}

/* Append '@' and the host that a connection comes from, unless the peer names
 * the same host. libzmq has asked the system for that host, so a peer cannot
 * choose it. False: too long. */
static bool na_zmq_append_source(
    const struct na_zmq_in *in, char name[NA_MAX_ADDR_LEN])
{
    static const char mapped[] = "::ffff:"; /* IPv4 to an IPv6 listener */
    const char *source = zmq_msg_gets(&in->parts[0], "Peer-Address");
    const char *host = strstr(name, "://") + 3;
    size_t used = strlen(name);
    bool v6;
    int n;

    if (source == NULL)
        source = "unknown"; /* the connection has ended already */
    if (strncmp(source, mapped, sizeof(mapped) - 1) == 0)
        source += sizeof(mapped) - 1;
    v6 = strchr(source, ':') != NULL;
    n = snprintf(
        name + used, NA_MAX_ADDR_LEN - used, v6 ? "@[%s]" : "@%s", source);
    if (n < 0 || (size_t) n >= NA_MAX_ADDR_LEN - used)
        return false;
    if (strncmp(host, name + used + 1, (size_t) n - 1) == 0 &&
        host[n - 1] == ':')
        name[used] = '\0';
    return true;
}

/* The name of a peer, from its HELLO: its own if it listens. False: that is
 * not a name that a listener can have. */
static bool na_zmq_name_peer(struct na_zmq_class *self,
    const struct na_zmq_in *in, const char *claim, size_t size,
    char name[NA_MAX_ADDR_LEN])
{
    if (size > 0) {
        if (!na_zmq_name_ok(self, claim, size))
            return false;
        memcpy(name, claim, size);
        name[size] = '\0';
    } else {
        na_zmq_unique_name(self, name);
    }
    return self->protocol != NA_ZMQ_TCP || na_zmq_append_source(in, name);
}

/* These functions return NULL, or the reason why the message is refused. */

/* HELLO of a new peer: create an address, and send WELCOME. */
static const char *na_zmq_hello(struct na_zmq_class *self, struct na_zmq_in *in,
    const unsigned char *body, size_t size)
{
    char name[NA_MAX_ADDR_LEN];
    struct na_zmq_addr *addr;
    unsigned char answer[24];
    struct na_zmq_fd *record = NULL;
    uint64_t nonce = self->base.core->random();
    bool fresh;

    if (in->addr != NULL)
        return NA_ZMQ_HELLO_AGAIN;
    if (in->count != 1 || size < 16 || in->id_size == 0)
        return NA_ZMQ_WRONG_SIZE;
    if (nonce == 0)
        return NULL; /* the dialler will time out */
    if (!na_zmq_name_peer(self, in, (const char *) body + 16, size - 16, name))
        return "not a name that a listener can have";
    addr = na_zmq_addr_new(self, name, NA_FALSE, NULL);
    if (addr == NULL)
        return NULL; /* the dialler will time out */
    addr->fd = in->fd;
    addr->nonce = nonce;
    atomic_store(&addr->incarnation, na_plug_get64(body));
    memcpy(addr->id, in->id, in->id_size);
    addr->id_size = in->id_size;
    na_plug_put64(answer, self->base.incarnation);
    na_plug_put64(answer + 8, na_plug_get64(body + 8));
    na_plug_put64(answer + 16, addr->nonce);
    na_zmq_lock(self);
    fresh = na_zmq_find(self, NA_ZMQ_BY_ID, in->id, in->id_size) == NULL;
    if (self->protocol != NA_ZMQ_INPROC) {
        record = na_zmq_fd_of(self, in->fd);
        fresh = fresh && record != NULL && record->live;
    }
    if (fresh) {
        addr->state = NA_ZMQ_ACCEPTED;
        if (record != NULL) {
            addr->fd_generation = record->generation;
            record->contested = record->contested || record->last_hello != NULL;
            record->last_hello = addr;
            record->accepted = 0;
        }
        na_zmq_enter(self, addr, NA_ZMQ_BY_ID);
        na_plug_list_push(&self->addrs, &addr->link);
        if (na_zmq_control(self, addr, NA_ZMQ_WELCOME, answer,
                sizeof(answer)) != NA_SUCCESS)
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
    }
    na_zmq_unlock(self);
    if (!fresh) {
        addr->state = NA_ZMQ_DEAD;
        self->base.core->addr_unref(&addr->base);
    }
    return NULL;
}

/* Send the messages that waited for the connection or the window; completed
 * operations go to `sent`. The lock is held. */
static void na_zmq_flush(
    struct na_zmq_class *self, struct na_zmq_addr *addr, struct na_link *sent)
{
    while (addr->state == NA_ZMQ_READY &&
        na_zmq_may_send(addr, NA_ZMQ_MESSAGES) &&
        !na_plug_list_empty(&addr->sends)) {
        struct na_op *op = NA_ZMQ_OF(addr->sends.next, struct na_op, link);
        na_return_t ret = na_zmq_send_msg(self, addr, &op->msg);

        if (ret != NA_SUCCESS && !addr->base.self) {
            na_zmq_lose(self, addr, NA_DISCONNECT);
            return; /* the others fail with the connection */
        }
        na_plug_list_remove(&op->link);
        if (ret == NA_SUCCESS)
            na_plug_list_push(sent, &op->link);
        else /* calls no slot: the class keeps its own address */
            self->base.core->complete(op, ret);
    }
    if (addr->state == NA_ZMQ_READY && na_plug_list_empty(&addr->sends) &&
        !na_plug_list_empty(&addr->closers)) {
        addr->state = NA_ZMQ_CLOSING;
        (void) na_zmq_control(self, addr, NA_ZMQ_BYE, NULL, 0);
    }
}

/* Whether this class has sent a WELCOME with `nonce`. The lock is held. */
static bool na_zmq_has_accepted(const struct na_zmq_class *self, uint64_t nonce)
{
    const struct na_link *link = self->addrs.next;

    for (; link != &self->addrs; link = link->next) {
        const struct na_zmq_addr *addr =
            NA_ZMQ_OF(link, struct na_zmq_addr, link);

        if (addr->state == NA_ZMQ_ACCEPTED && addr->nonce == nonce)
            return true;
    }
    return false;
}

/* WELCOME: the answer to HELLO. */
static const char *na_zmq_welcome(struct na_zmq_class *self,
    struct na_zmq_in *in, const unsigned char *body, size_t size)
{
    struct na_zmq_addr *addr = in->addr;
    struct na_addr *result;
    struct na_link lookups;
    struct na_link sent;
    unsigned char nonce[8];
    bool good, is_self;

    if (addr == NULL)
        return NA_ZMQ_NO_HELLO;
    if (in->count != 1 || size != 24)
        return NA_ZMQ_WRONG_SIZE;
    na_plug_list_init(&lookups);
    na_plug_list_init(&sent);
    result = &addr->base;
    na_zmq_lock(self);
    good = addr->state == NA_ZMQ_DIALLING &&
        na_plug_get64(body + 8) == addr->nonce;
    HG_ASSERT(!good || (addr->dialled != NULL && addr->endpoint != NULL));
    /* The own address by another name is connected, too. */
    is_self = na_plug_get64(body) == self->base.incarnation;
    if (good && is_self &&
        !na_zmq_has_accepted(self, na_plug_get64(body + 16))) {
        na_zmq_unlock(self);
        return NA_PLUG_IMPOSTOR;
    }
    if (good && is_self)
        result = self->base.self_addr;
    if (good)
        na_plug_list_move(&lookups, &addr->lookups);
    if (good) {
        atomic_store(&addr->incarnation, na_plug_get64(body));
        addr->state = NA_ZMQ_READY;
        addr->reached = true;
        addr->open = true;
        na_plug_drop(addr->query);
        addr->query = NULL;
        na_plug_put64(nonce, na_plug_get64(body + 16));
        (void) na_zmq_control(self, addr, NA_ZMQ_CONFIRM, nonce, sizeof(nonce));
        na_zmq_flush(self, addr, &sent);
    }
    na_zmq_unlock(self);
    na_zmq_complete_all(self, &lookups, NA_SUCCESS, result);
    na_zmq_complete_all(self, &sent, NA_SUCCESS, NULL);
    if (good)
        self->base.core->addr_connected(&addr->base, NA_SUCCESS);
    return good ? NULL : "it does not answer a HELLO of this class";
}

/* CONFIRM proves that this connection existed after HELLO was read. */
static const char *na_zmq_confirm(struct na_zmq_class *self,
    struct na_zmq_in *in, const unsigned char *body, size_t size)
{
    struct na_zmq_addr *addr = in->addr;
    bool accepted, good;

    if (addr == NULL)
        return NA_ZMQ_NO_HELLO;
    if (in->count != 1 || size != 8)
        return NA_ZMQ_WRONG_SIZE;
    na_zmq_lock(self);
    accepted = addr->state == NA_ZMQ_ACCEPTED;
    /* An accepted connection may have ended since, after its peer's messages,
     * which follow. */
    good = (accepted ||
               (addr->state == NA_ZMQ_DYING && addr->endpoint == NULL &&
                   !addr->reached)) &&
        na_plug_get64(body) == addr->nonce;
    HG_ASSERT(!good || (addr->dialled == NULL && !addr->reached));
    if (good && accepted && self->protocol != NA_ZMQ_INPROC) {
        struct na_zmq_fd *record = &self->fds[addr->fd];

        HG_ASSERT(record->live && record->generation == addr->fd_generation);
        if (record->owner == NULL)
            record->owner = addr;
        good = record->owner == addr;
    }
    if (good) {
        if (accepted)
            addr->state = NA_ZMQ_READY;
        addr->reached = true;
        addr->open = true;
    }
    na_zmq_unlock(self);
    return good ? NULL : "it does not confirm the handshake";
}

/* ---- Windows ---- */

/* The peer grants `bytes` of a lane. False: it was not sent so many. */
static bool na_zmq_granted(struct na_zmq_class *self, struct na_zmq_addr *addr,
    enum na_zmq_lane lane, uint64_t bytes)
{
    struct na_link sent;
    bool good;

    na_plug_list_init(&sent);
    na_zmq_lock(self);
    good = bytes <= addr->unread[lane];
    if (good) {
        addr->unread[lane] -= bytes;
        na_zmq_flush(self, addr, &sent);
    }
    na_zmq_unlock(self);
    na_zmq_complete_all(self, &sent, NA_SUCCESS, NULL);
    return good;
}

/* The core has taken what counts `weight`. Half a window is granted at a
 * time. */
static void na_zmq_taken(struct na_zmq_class *self, struct na_zmq_addr *addr,
    enum na_zmq_lane lane, uint64_t weight)
{
    uint64_t bytes = addr->taken[lane] + weight;

    addr->taken[lane] = bytes;
    if (bytes < NA_ZMQ_WINDOW / 2)
        return;
    HG_ASSERT(addr->received[lane] >= bytes);
    addr->received[lane] -= bytes;
    addr->taken[lane] = 0;
    if (addr->base.self) {
        (void) na_zmq_granted(self, addr, lane, bytes);
        return;
    }
    na_zmq_lock(self);
    if (addr->state == NA_ZMQ_READY) /* else no more messages are expected */
        na_zmq_send_grant(self, addr, lane, bytes);
    na_zmq_unlock(self);
}

static const char *na_zmq_grant(
    struct na_zmq_class *self, const struct na_zmq_in *in, size_t size)
{
    const unsigned char *p =
        (const unsigned char *) zmq_msg_data((zmq_msg_t *) &in->parts[0]);

    if (in->count != 1 || size != 0 || p[4] >= NA_ZMQ_LANES)
        return NA_ZMQ_WRONG_SIZE;
    return na_zmq_granted(
               self, in->addr, (enum na_zmq_lane) p[4], na_plug_get32(p + 8))
        ? NULL
        : na_zmq_too_much;
}

/* BYE: the peer closes the connection; BYE_ACK: it answers BYE. After both, the
 * side that dialled closes the connection. */
static const char *na_zmq_bye(
    struct na_zmq_class *self, struct na_zmq_addr *addr, bool ack)
{
    bool good = true;

    na_zmq_lock(self);
    if (!ack && addr->state == NA_ZMQ_READY) {
        addr->state = NA_ZMQ_LEAVING;
        (void) na_zmq_control(self, addr, NA_ZMQ_BYE_ACK, NULL, 0);
        if (!addr->dialled)
            na_zmq_lose(self, addr, NA_DISCONNECT);
    } else if (!ack && addr->state == NA_ZMQ_CLOSING) {
        (void) na_zmq_control(self, addr, NA_ZMQ_BYE_ACK, NULL, 0);
    } else if (ack &&
        (addr->state == NA_ZMQ_CLOSING || addr->state == NA_ZMQ_LEAVING)) {
        if (!addr->dialled)
            (void) na_zmq_control(self, addr, NA_ZMQ_BYE_ACK, NULL, 0);
        na_zmq_lose(self, addr, NA_DISCONNECT);
    } else
        good = addr->state == NA_ZMQ_DYING;
    na_zmq_unlock(self);
    return good ? NULL : NA_ZMQ_UNFIT;
}

/* Whether a HELLO of another version is answered: a peer that does not read
 * could send any number. Those that may be of an earlier connection of the
 * descriptor do not count. */
static bool na_zmq_may_answer(
    struct na_zmq_class *self, const struct na_zmq_in *in)
{
    struct na_zmq_fd *record;
    bool few = true;

    na_zmq_lock(self);
    record = na_zmq_fd_of(self, in->fd);
    if (record != NULL && na_zmq_is_before(record->round, in))
        few = ++record->hellos <= NA_ZMQ_HELLOS;
    na_zmq_unlock(self);
    return few;
}

/* A message of another version. */
static const char *na_zmq_foreign(
    struct na_zmq_class *self, struct na_zmq_in *in, const unsigned char *p)
{
    struct na_zmq_addr unknown;
    struct na_zmq_addr *addr = in->addr;
    int level = HG_LOG_LEVEL_ERROR;
    bool dialled = false;
    bool hello = addr == NULL && p[3] == NA_ZMQ_HELLO;

    if (hello && !na_zmq_may_answer(self, in))
        return NA_ZMQ_HELLO_AGAIN;
    na_zmq_lock(self);
    if (addr != NULL && addr->state == NA_ZMQ_DIALLING) {
        dialled = true;
        if (addr->from_peer)
            level = HG_LOG_LEVEL_WARNING;
        na_zmq_lose(self, addr, NA_PROTOCOL_ERROR);
    } else if (hello) {
        memset(&unknown, 0, sizeof(unknown));
        unknown.state = NA_ZMQ_DEAD;
        unknown.id_size = in->id_size;
        memcpy(unknown.id, in->id, in->id_size);
        (void) na_zmq_control(self, &unknown, NA_ZMQ_REFUSE, NULL, 0);
    }
    na_zmq_unlock(self);
    if (dialled)
        self->base.core->log(level, "zmq",
            "%s cannot be reached: it has version %u of this transport's "
            "protocol, not %u",
            addr->base.name, p[2], NA_ZMQ_VERSION);
    if (dialled)
        return NULL;
    /* The connection stays, so that the answer arrives. */
    return hello ? na_zmq_other_version : NA_ZMQ_OTHER_VERSION;
}

/* Offer a message to the core. False: its queue is full. `last`: the connection
 * has ended. */
static bool na_zmq_offer(
    struct na_zmq_class *self, struct na_zmq_in *in, bool last)
{
    const struct na_core *core = self->base.core;
    const unsigned char *p =
        (const unsigned char *) zmq_msg_data(&in->parts[0]);
    size_t size = zmq_msg_size(&in->parts[0]);

    if ((last ? core->msg_last : core->msg_arrived)(&self->base,
            &in->addr->base, p[4], p[5], na_plug_get32(p + 8),
            p + NA_ZMQ_HEADER, size - NA_ZMQ_HEADER) == NA_AGAIN)
        return false;
    na_zmq_taken(self, in->addr, NA_ZMQ_MESSAGES, na_zmq_weight(size, 0));
    return true;
}

/* Hold a message until the core takes it. */
static void na_zmq_hold(struct na_zmq_class *self, struct na_zmq_in *in)
{
    na_plug_list_push(&in->addr->held, &in->link);
    if (na_plug_list_empty(&in->addr->holding))
        na_plug_list_push(&self->holding, &in->addr->holding);
}

/* Free an envelope, or keep it for reuse; the polling thread. */
static void na_zmq_spend(struct na_zmq_class *self, struct na_zmq_in *in)
{
    na_zmq_close_parts(self, in);
    na_plug_list_push(&self->spent, &in->link);
}

/* Offer held messages to the core again. `last`: the connection has ended, and
 * the core takes all. Without the lock, as below. */
static unsigned na_zmq_offer_held(
    struct na_zmq_class *self, struct na_zmq_addr *addr, bool last)
{
    unsigned n;

    for (n = 0; !na_plug_list_empty(&addr->held); n++) {
        struct na_zmq_in *in =
            NA_ZMQ_OF(addr->held.next, struct na_zmq_in, link);

        if (!na_zmq_offer(self, in, last))
            return n;
        na_plug_list_remove(&in->link);
        na_zmq_spend(self, in);
    }
    na_plug_list_remove(&addr->holding);
    return n;
}

static unsigned na_zmq_offer_all_held(struct na_zmq_class *self)
{
    struct na_link *link = self->holding.next;
    unsigned n = 0;

    while (link != &self->holding) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, holding);

        link = link->next;
        n += na_zmq_offer_held(self, addr, false);
    }
    return n;
}

static const char *na_zmq_message(struct na_zmq_class *self,
    struct na_zmq_in *in, const unsigned char *p, size_t size)
{
    uint64_t *received = &in->addr->received[NA_ZMQ_MESSAGES];
    uint64_t weight = na_zmq_weight(NA_ZMQ_HEADER + size, 0);

    if (*received >= NA_ZMQ_WINDOW)
        return na_zmq_too_much;
    if (size > (p[4] == NA_MSG_EXPECTED ? self->base.max_expected_size
                                        : self->base.max_unexpected_size))
        return na_zmq_too_long;
    *received += weight;
    if (in->count != 1 || p[4] >= NA_MSG_PLANE_MAX) {
        na_zmq_taken(self, in->addr, NA_ZMQ_MESSAGES, weight);
        return NA_ZMQ_WRONG_SIZE;
    }
    if (!na_plug_list_empty(&in->addr->held) || !na_zmq_offer(self, in, false))
        na_zmq_hold(self, in);
    return NULL;
}

/* BYE comes after all messages, so the core takes those that are held. Nothing
 * but probes, and the answer to another BYE, follows it. */
static const char *na_zmq_parting(
    struct na_zmq_class *self, struct na_zmq_in *in, bool ack, size_t size)
{
    struct na_zmq_addr *addr = in->addr;
    bool open;

    if (addr == NULL)
        return NA_ZMQ_NO_HELLO;
    if (in->count != 1 || size != 0)
        return NA_ZMQ_WRONG_SIZE;
    if (ack)
        return na_zmq_bye(self, addr, true);
    na_zmq_lock(self);
    open = addr->open || addr->state == NA_ZMQ_DYING;
    na_zmq_unlock(self);
    if (!open)
        return NA_ZMQ_UNFIT;
    addr->open = false;
    (void) na_zmq_offer_held(self, addr, true);
    return na_zmq_bye(self, addr, false);
}

static const char *na_zmq_frame(struct na_zmq_class *self, struct na_zmq_in *in,
    const unsigned char *p, size_t size)
{
    bool data = in->count == 2;
    size_t data_size = data ? zmq_msg_size(&in->parts[1]) : 0;
    uint64_t weight = na_zmq_weight(NA_ZMQ_HEADER + size, data_size);

    if (in->count > 2)
        return NA_ZMQ_WRONG_SIZE;
    self->base.core->frame_arrived(&self->base, &in->addr->base,
        p + NA_ZMQ_HEADER, size, data ? zmq_msg_data(&in->parts[1]) : NULL,
        data_size);
    in->addr->received[NA_ZMQ_FRAMES] += weight;
    na_zmq_taken(self, in->addr, NA_ZMQ_FRAMES, weight);
    return NULL;
}

/* Deliver a message, or return why its sender may not send it now. A message
 * that is held is on a list then. */
static const char *na_zmq_deliver(
    struct na_zmq_class *self, struct na_zmq_in *in)
{
    struct na_zmq_addr *addr = in->addr;
    const unsigned char *p;
    size_t size;

    if (zmq_msg_size(&in->parts[0]) < NA_ZMQ_HEADER)
        return "it is shorter than a header";
    p = (const unsigned char *) zmq_msg_data(&in->parts[0]);
    size = zmq_msg_size(&in->parts[0]) - NA_ZMQ_HEADER;
    if (p[0] != 'h' || p[1] != 'z')
        return "it does not begin with \"hz\"";
    if (p[2] != NA_ZMQ_VERSION)
        return na_zmq_foreign(self, in, p);
    switch (p[3]) {
    case NA_ZMQ_HELLO: return na_zmq_hello(self, in, p + NA_ZMQ_HEADER, size);
    case NA_ZMQ_WELCOME:
        return na_zmq_welcome(self, in, p + NA_ZMQ_HEADER, size);
    case NA_ZMQ_CONFIRM:
        return na_zmq_confirm(self, in, p + NA_ZMQ_HEADER, size);
    case NA_ZMQ_BYE: return na_zmq_parting(self, in, false, size);
    case NA_ZMQ_BYE_ACK: return na_zmq_parting(self, in, true, size);
    default: break;
    }
    if (p[3] < NA_ZMQ_MESSAGE || p[3] >= NA_ZMQ_KIND_MAX)
        return "there is no such kind";
    /* A probe may follow a BYE. */
    if (addr == NULL ||
        !(addr->open || (addr->reached && p[3] == NA_ZMQ_PROBE)))
        return NA_ZMQ_NO_HELLO;
    atomic_store_explicit(&addr->heard, true, memory_order_relaxed);
    if (p[3] == NA_ZMQ_MESSAGE)
        return na_zmq_message(self, in, p, size);
    if (p[3] == NA_ZMQ_FRAME)
        return na_zmq_frame(self, in, p, size);
    if (p[3] == NA_ZMQ_GRANT)
        return na_zmq_grant(self, in, size);
    return in->count == 1 ? NULL : NA_ZMQ_WRONG_SIZE;
}

/* Count a refused message by the kind it claims to be, and log why. */
static void na_zmq_refuse(
    struct na_zmq_class *self, struct na_zmq_in *in, const char *why)
{
    static const char *const names[NA_ZMQ_KIND_MAX] = {"zmq_bad_other",
        "zmq_bad_hello", "zmq_bad_welcome", "zmq_bad_confirm", "zmq_bad_refuse",
        "zmq_bad_message", "zmq_bad_frame", "zmq_bad_probe", "zmq_bad_bye",
        "zmq_bad_bye_ack", "zmq_bad_grant"};
    const char *host = zmq_msg_gets(&in->parts[0], "Peer-Address");
    size_t size = zmq_msg_size(&in->parts[0]);
    unsigned kind = 0;

    if (size >= 4)
        kind = ((const unsigned char *) zmq_msg_data(&in->parts[0]))[3];
    if (kind >= NA_ZMQ_KIND_MAX)
        kind = 0;
    self->base.core->count(&self->base, "zmq_malformed", 1);
    self->base.core->count(&self->base, names[kind], 1);
    self->base.core->log(HG_LOG_LEVEL_WARNING, "zmq",
        "refused a message (%zu bytes, parts: %u) from %s, host %s: %s "
        "(%s)",
        size, in->count,
        in->addr != NULL ? in->addr->base.name : "an unknown peer",
        host != NULL ? host : "unknown", why, names[kind]);
}

/* Whether a refused message ends its connection: the handshake is not finished,
 * the sender ignores the windows, or it has a larger maximum, and must learn
 * that the message is lost. */
static bool na_zmq_is_hostile(const struct na_zmq_addr *addr, const char *why)
{
    return why == na_zmq_too_much || why == na_zmq_too_long ||
        (why != na_zmq_other_version &&
            (addr == NULL || addr->state == NA_ZMQ_DIALLING ||
                addr->state == NA_ZMQ_ACCEPTED));
}

/* End the connection that a refused message came by, if its sender breaks the
 * protocol. */
static void na_zmq_expel(
    struct na_zmq_class *self, struct na_zmq_in *in, const char *why)
{
    struct na_zmq_addr *addr = in->addr;

    na_zmq_lock(self);
    if (na_zmq_is_hostile(addr, why)) {
        if (addr != NULL && addr->dialled != NULL)
            na_zmq_lose(self, addr, NA_PROTOCOL_ERROR);
        else if (self->protocol != NA_ZMQ_INPROC)
            na_zmq_close_sender(self, in);
    }
    na_zmq_unlock(self);
}
