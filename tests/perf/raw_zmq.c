/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses libzmq alone; see raw_zmq.h for its purpose.
 *
 * Wire: every message is the peer's routing id and one payload frame.  A round
 * begins with a raw_zmq_order, which the server sends back when it is ready,
 * and ends with a raw_zmq_note of NOTE_END, which the server answers with a
 * verdict.  In between
 *
 *   echo  any payload is sent back unchanged; its first 8 bytes are a number
 *   pull  client: NOTE_GO, NOTE_CREDIT …  server: frames of the source buffer
 *   push  client: frames of the source    server: NOTE_CREDIT …
 *
 * A frame is sent without a copy (zmq_msg_init_data) and copied once on arrival
 * to its place in the destination, as in the library. Both sides are this
 * binary on one machine, so structures are sent as they are in memory; the
 * format is not meant for a network.
 */
#define _POSIX_C_SOURCE 200809L

#include "raw_zmq.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#define RAW_ZMQ_ID_MAX 32
#define RAW_ZMQ_SERVER_ID "\001raw-server"
#define RAW_ZMQ_ORDER_MAGIC UINT64_C(0x72617a6f72646572)
#define RAW_ZMQ_NOTE_MAGIC UINT64_C(0x72617a6e6f746521)
#define RAW_ZMQ_PATIENCE_MS 20000

enum raw_zmq_note_type {
    RAW_ZMQ_NOTE_GO = 1, /* client of a pull: send the frames of one transfer */
    RAW_ZMQ_NOTE_CREDIT, /* value more frames have been copied out */
    /* The round is over; the answer's value is 1 on success. */
    RAW_ZMQ_NOTE_END,
    RAW_ZMQ_NOTE_STOP /* the server may exit */
};

struct raw_zmq_order {
    uint64_t magic;
    struct raw_zmq_round round;
};

struct raw_zmq_note {
    uint64_t magic;
    uint64_t type;
    uint64_t value;
};

/* The load of the last intervals, for RAW_ZMQ_FOLLOW. */
struct raw_zmq_load {
    uint64_t since; /* start of this interval */
    uint64_t messages;
    uint64_t bytes;
    int was_much; /* in the interval before */
};

/* One side: a socket, the peer it talks to now, and a buffer for bulk data. */
struct raw_zmq {
    void *context;
    void *socket;
    unsigned char id[RAW_ZMQ_ID_MAX];
    size_t id_size;
    struct raw_zmq_load load;
    const volatile sig_atomic_t *stop; /* server only, else NULL */
    unsigned char *buf;                /* source or destination of transfers */
    size_t buf_size;
};

static int raw_zmq_fail(const char *what)
{
    fprintf(stderr, "raw_zmq: %s: %s\n", what, zmq_strerror(errno));
    return -1;
}

static uint64_t raw_zmq_now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) +
        (uint64_t) now.tv_nsec;
}

const char *raw_zmq_kind_name(enum raw_zmq_kind kind)
{
    static const char *const names[] = {"echo", "pull", "push"};

    return names[kind];
}

const char *raw_zmq_wait_name(enum raw_zmq_wait wait)
{
    static const char *const names[] = {"block", "yield", "spin", "follow"};

    return names[wait];
}

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

static int raw_zmq_stopped(const struct raw_zmq *end)
{
    return end->stop != NULL && *end->stop != 0;
}

/* One attempt to read one frame. 1: read, 0: none, -1: error. */
static int raw_zmq_try_frame(struct raw_zmq *end, zmq_msg_t *msg, int flags)
{
    for (;;) {
        if (zmq_msg_recv(msg, end->socket, flags) >= 0)
            return 1;
        if (errno == EAGAIN && flags == ZMQ_DONTWAIT)
            return 0;
        if (errno != EINTR || raw_zmq_stopped(end))
            return -1;
    }
}

/* Begin a new interval when the current one is over. */
static void raw_zmq_turn_load(struct raw_zmq_load *load, uint64_t now)
{
    const uint64_t age = now - load->since;

    if (age <= RAW_ZMQ_INTERVAL_NS)
        return;
    load->was_much = load->messages > RAW_ZMQ_MUCH_MESSAGES ||
        load->bytes > RAW_ZMQ_MUCH_BYTES;
    if (age > 3 * RAW_ZMQ_INTERVAL_NS)
        load->was_much = 0; /* a pause: the interval before does not count */
    load->since = now;
    load->messages = 0;
    load->bytes = 0;
}

static int raw_zmq_is_much(const struct raw_zmq_load *load)
{
    return load->was_much || load->messages > RAW_ZMQ_MUCH_MESSAGES ||
        load->bytes > RAW_ZMQ_MUCH_BYTES;
}

/*
 * Poll for a frame until it arrives or the time in limit_ns is over. 1: read,
 * 0: timeout, -1: error.
 */
static int raw_zmq_poll_frame(struct raw_zmq *end, zmq_msg_t *msg, int yields,
    uint64_t start, uint64_t limit_ns)
{
    int got = 0;

    while (got == 0 && raw_zmq_now_ns() - start < limit_ns) {
        if (yields)
            (void) sched_yield();
        got = raw_zmq_try_frame(end, msg, ZMQ_DONTWAIT);
        if (got == 0 && raw_zmq_stopped(end)) {
            errno = EINTR;
            return -1;
        }
    }
    return got;
}

/*
 * Wait for a frame in the given mode. A client times out after
 * RAW_ZMQ_PATIENCE_MS: its server is gone.
 */
static int raw_zmq_wait_frame(
    struct raw_zmq *end, zmq_msg_t *msg, enum raw_zmq_wait wait)
{
    uint64_t limit_ns = RAW_ZMQ_PATIENCE_MS * UINT64_C(1000000);
    uint64_t now;
    int got;

    if (wait == RAW_ZMQ_BLOCK)
        return raw_zmq_try_frame(end, msg, 0) > 0 ? 0 : -1;
    got = raw_zmq_try_frame(end, msg, ZMQ_DONTWAIT);
    if (got != 0)
        return got > 0 ? 0 : -1;

    now = raw_zmq_now_ns();
    if (wait == RAW_ZMQ_FOLLOW) {
        raw_zmq_turn_load(&end->load, now);
        limit_ns = raw_zmq_is_much(&end->load) ? 0 : RAW_ZMQ_POLL_NS;
    }
    got = raw_zmq_poll_frame(end, msg, wait != RAW_ZMQ_SPIN, now, limit_ns);
    if (got != 0)
        return got > 0 ? 0 : -1;
    if (wait == RAW_ZMQ_FOLLOW)
        return raw_zmq_try_frame(end, msg, 0) > 0 ? 0 : -1;
    errno = ETIMEDOUT;
    return -1;
}

/*
 * Receive a message: its sender becomes the peer, its payload is moved into
 * msg, which the caller has initialized and closes.
 */
static int raw_zmq_recv(
    struct raw_zmq *end, zmq_msg_t *msg, enum raw_zmq_wait wait)
{
    if (raw_zmq_wait_frame(end, msg, wait) != 0)
        return -1;
    if (zmq_msg_size(msg) > sizeof(end->id) || !zmq_msg_more(msg)) {
        errno = EPROTO;
        return -1;
    }
    end->id_size = zmq_msg_size(msg);
    memcpy(end->id, zmq_msg_data(msg), end->id_size);
    /* The frames of a message become readable together: this does not wait. */
    if (raw_zmq_try_frame(end, msg, 0) <= 0)
        return -1;
    end->load.messages++;
    end->load.bytes += zmq_msg_size(msg);
    return 0;
}

/* Send msg to the peer; libzmq owns it unless this fails. */
static int raw_zmq_send(struct raw_zmq *end, zmq_msg_t *msg)
{
    if (zmq_send(end->socket, end->id, end->id_size, ZMQ_SNDMORE) < 0)
        return -1;
    return zmq_msg_send(msg, end->socket, 0) < 0 ? -1 : 0;
}

static int raw_zmq_send_bytes(
    struct raw_zmq *end, const void *bytes, size_t size)
{
    zmq_msg_t msg;

    if (zmq_msg_init_size(&msg, size) != 0)
        return -1;
    memcpy(zmq_msg_data(&msg), bytes, size);
    if (raw_zmq_send(end, &msg) == 0)
        return 0;
    (void) zmq_msg_close(&msg);
    return -1;
}

static int raw_zmq_send_note(
    struct raw_zmq *end, enum raw_zmq_note_type type, uint64_t value)
{
    struct raw_zmq_note note;

    note.magic = RAW_ZMQ_NOTE_MAGIC;
    note.type = (uint64_t) type;
    note.value = value;
    return raw_zmq_send_bytes(end, &note, sizeof(note));
}

/* Send a frame from memory that stays in place until the round's end. */
static int raw_zmq_send_frame(struct raw_zmq *end, size_t offset, size_t size)
{
    zmq_msg_t msg;

    if (zmq_msg_init_data(&msg, end->buf + offset, size, NULL, NULL) != 0)
        return -1;
    if (raw_zmq_send(end, &msg) == 0)
        return 0;
    (void) zmq_msg_close(&msg);
    return -1;
}

/* 1 and *note_p if the payload is a note, else 0. */
static int raw_zmq_is_note(zmq_msg_t *msg, struct raw_zmq_note *note_p)
{
    struct raw_zmq_note note;

    if (zmq_msg_size(msg) != sizeof(note))
        return 0;
    memcpy(&note, zmq_msg_data(msg), sizeof(note));
    if (note.magic != RAW_ZMQ_NOTE_MAGIC)
        return 0;
    *note_p = note;
    return 1;
}

/* Receives a message that must be a note of the given type. */
static int raw_zmq_recv_note(struct raw_zmq *end, enum raw_zmq_note_type type,
    enum raw_zmq_wait wait, uint64_t *value_p)
{
    struct raw_zmq_note note;
    zmq_msg_t msg;
    int rc;

    (void) zmq_msg_init(&msg);
    rc = raw_zmq_recv(end, &msg, wait);
    if (rc == 0 &&
        (!raw_zmq_is_note(&msg, &note) || note.type != (uint64_t) type)) {
        errno = EPROTO;
        rc = -1;
    }
    (void) zmq_msg_close(&msg);
    if (rc == 0)
        *value_p = note.value;
    return rc;
}

/* ------------------------------------------------------------------------ */
/* Data                                                                     */

/* The byte pattern of a source: 8-byte words, each a hash of its place. */
static uint64_t raw_zmq_word(size_t index)
{
    uint64_t x = (uint64_t) index * UINT64_C(0x9e3779b97f4a7c15) + 1;

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

/* Memory for size bytes, with every page touched. */
static int raw_zmq_room(struct raw_zmq *end, size_t size)
{
    const size_t rounded = (size + 7) / 8 * 8;

    if (rounded < size || rounded > SIZE_MAX / 2) {
        errno = EINVAL;
        return -1;
    }
    if (rounded > end->buf_size) {
        free(end->buf);
        end->buf_size = 0;
        end->buf = (unsigned char *) malloc(rounded);
        if (end->buf == NULL)
            return -1;
        end->buf_size = rounded;
    }
    memset(end->buf, 0, rounded);
    return 0;
}

static int raw_zmq_fill(struct raw_zmq *end, size_t size)
{
    size_t i;

    if (raw_zmq_room(end, size) != 0)
        return -1;
    for (i = 0; i < end->buf_size / 8; i++) {
        const uint64_t word = raw_zmq_word(i);

        memcpy(end->buf + 8 * i, &word, 8);
    }
    return 0;
}

static int raw_zmq_is_filled(const struct raw_zmq *end, size_t size)
{
    size_t at;

    for (at = 0; at < size; at += 8) {
        const uint64_t word = raw_zmq_word(at / 8);

        if (memcmp(end->buf + at, &word, size - at < 8 ? size - at : 8) != 0)
            return 0;
    }
    return 1;
}

/* The progress of a transfer, at its source or at its destination. */
struct raw_zmq_flow {
    size_t moved;    /* bytes sent, or copied out */
    unsigned flying; /* source: frames without credit so far */
    /* Destination: frames copied out, credit not sent yet. */
    unsigned uncredited;
};

/* Source: send as many frames of one transfer as the window allows. */
static int raw_zmq_pump(struct raw_zmq *end, const struct raw_zmq_round *round,
    struct raw_zmq_flow *flow)
{
    while (flow->flying < round->window && flow->moved < round->size) {
        const size_t left = round->size - flow->moved;
        const size_t size = left < round->frame ? left : round->frame;

        if (raw_zmq_send_frame(end, flow->moved, size) != 0)
            return -1;
        flow->moved += size;
        flow->flying++;
    }
    return 0;
}

/*
 * Destination: copy a frame to its place and give credit for a quarter of a
 * window at a time, and at the end of the transfer.
 */
static int raw_zmq_take(struct raw_zmq *end, const struct raw_zmq_round *round,
    struct raw_zmq_flow *flow, zmq_msg_t *msg)
{
    const size_t size = zmq_msg_size(msg);

    if (size > round->size - flow->moved) {
        errno = EPROTO;
        return -1;
    }
    memcpy(end->buf + flow->moved, zmq_msg_data(msg), size);
    flow->moved += size;
    flow->uncredited++;
    if (flow->uncredited < (round->window + 3) / 4 && flow->moved < round->size)
        return 0;
    if (raw_zmq_send_note(end, RAW_ZMQ_NOTE_CREDIT, flow->uncredited) != 0)
        return -1;
    flow->uncredited = 0;
    return 0;
}

static int raw_zmq_check_round(const struct raw_zmq_round *round)
{
    const int known = round->kind <= RAW_ZMQ_PUSH &&
        round->wait <= RAW_ZMQ_FOLLOW && round->window > 0;

    if (known && round->kind == RAW_ZMQ_ECHO && round->size >= 8)
        return 0;
    if (known && round->kind != RAW_ZMQ_ECHO && round->size >= 8 &&
        round->frame > sizeof(struct raw_zmq_note))
        return 0;
    errno = EINVAL;
    return -1;
}

/* ------------------------------------------------------------------------ */
/* Server                                                                   */

/*
 * Handle one payload of a running round. 1: the round is over, 0: it continues,
 * -1: error.
 */
static int raw_zmq_serve_one(struct raw_zmq *end,
    const struct raw_zmq_round *round, struct raw_zmq_flow *flow,
    zmq_msg_t *msg)
{
    struct raw_zmq_note note;
    uint64_t good;

    if (!raw_zmq_is_note(msg, &note)) {
        if (round->kind == RAW_ZMQ_ECHO)
            return raw_zmq_send(end, msg);
        if (round->kind == RAW_ZMQ_PUSH) {
            if (flow->moved == round->size)
                flow->moved = 0; /* the next transfer begins */
            return raw_zmq_take(end, round, flow, msg);
        }
        errno = EPROTO;
        return -1;
    }
    switch (note.type) {
    case RAW_ZMQ_NOTE_GO: memset(flow, 0, sizeof(*flow)); break;
    case RAW_ZMQ_NOTE_CREDIT:
        if (note.value > flow->flying) {
            errno = EPROTO;
            return -1;
        }
        flow->flying -= (unsigned) note.value;
        break;
    case RAW_ZMQ_NOTE_END:
        good = round->kind != RAW_ZMQ_PUSH ||
            (flow->moved == round->size && raw_zmq_is_filled(end, round->size));
        return raw_zmq_send_note(end, RAW_ZMQ_NOTE_END, good) != 0 ? -1 : 1;
    default: errno = EPROTO; return -1;
    }
    return raw_zmq_pump(end, round, flow);
}

/* Run a round that a client ordered. 0, or -1 with errno. */
static int raw_zmq_serve_round(
    struct raw_zmq *end, const struct raw_zmq_order *order)
{
    const struct raw_zmq_round *round = &order->round;
    struct raw_zmq_flow flow;
    zmq_msg_t msg;
    int rc = 0;

    if (raw_zmq_check_round(round) != 0)
        return -1;
    memset(&flow, 0, sizeof(flow));
    if (round->kind == RAW_ZMQ_PULL)
        rc = raw_zmq_fill(end, round->size);
    else if (round->kind == RAW_ZMQ_PUSH)
        rc = raw_zmq_room(end, round->size);
    if (rc != 0 || raw_zmq_send_bytes(end, order, sizeof(*order)) != 0)
        return -1;
    if (round->kind == RAW_ZMQ_PULL)
        flow.moved = round->size; /* nothing to send before NOTE_GO */

    (void) zmq_msg_init(&msg);
    while (rc == 0) {
        rc = raw_zmq_recv(end, &msg, round->wait);
        if (rc == 0)
            rc = raw_zmq_serve_one(end, round, &flow, &msg);
    }
    (void) zmq_msg_close(&msg);
    return rc > 0 ? 0 : -1;
}

/* Makes a context and a ROUTER without high-water marks. */
static int raw_zmq_init(struct raw_zmq *end)
{
    static const int zero = 0;
    static const int one = 1;

    memset(end, 0, sizeof(*end));
    end->context = zmq_ctx_new();
    if (end->context == NULL)
        return raw_zmq_fail("zmq_ctx_new");
    end->socket = zmq_socket(end->context, ZMQ_ROUTER);
    if (end->socket == NULL)
        goto no_socket;
    if (zmq_setsockopt(end->socket, ZMQ_SNDHWM, &zero, sizeof(zero)) != 0 ||
        zmq_setsockopt(end->socket, ZMQ_RCVHWM, &zero, sizeof(zero)) != 0 ||
        zmq_setsockopt(end->socket, ZMQ_LINGER, &zero, sizeof(zero)) != 0 ||
        zmq_setsockopt(end->socket, ZMQ_ROUTER_MANDATORY, &one, sizeof(one)) !=
            0)
        goto no_options;
    return 0;

no_options:
    (void) zmq_close(end->socket);
no_socket:
    (void) raw_zmq_fail("cannot make a socket");
    (void) zmq_ctx_term(end->context);
    return -1;
}

static void raw_zmq_fini(struct raw_zmq *end)
{
    (void) zmq_close(end->socket);
    while (zmq_ctx_term(end->context) != 0 && errno == EINTR)
        ;
    free(end->buf);
}

/* Wait for orders and run them. A bad round is reported, not fatal. */
static int raw_zmq_serve_orders(struct raw_zmq *end)
{
    struct raw_zmq_order order;
    struct raw_zmq_note note;
    zmq_msg_t msg;
    int rc;

    for (;;) {
        (void) zmq_msg_init(&msg);
        rc = raw_zmq_recv(end, &msg, RAW_ZMQ_BLOCK);
        order.magic = 0;
        note.type = 0;
        if (rc == 0 && zmq_msg_size(&msg) == sizeof(order))
            memcpy(&order, zmq_msg_data(&msg), sizeof(order));
        else if (rc == 0)
            (void) raw_zmq_is_note(&msg, &note);
        (void) zmq_msg_close(&msg);
        if (raw_zmq_stopped(end) || note.type == RAW_ZMQ_NOTE_STOP)
            return 0;
        if (rc != 0)
            return raw_zmq_fail("cannot receive");
        if (order.magic == RAW_ZMQ_ORDER_MAGIC &&
            raw_zmq_serve_round(end, &order) != 0 && !raw_zmq_stopped(end))
            (void) raw_zmq_fail("a round failed");
    }
}

int raw_zmq_serve(const char *endpoint,
    void (*ready)(const char *endpoint, void *arg), void *arg,
    const volatile sig_atomic_t *stop)
{
    struct raw_zmq end;
    char bound[256];
    size_t size = sizeof(bound);
    int rc = -1;

    if (raw_zmq_init(&end) != 0)
        return -1;
    end.stop = stop;
    if (zmq_bind(end.socket, endpoint) != 0)
        (void) raw_zmq_fail(endpoint);
    else if (zmq_getsockopt(end.socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        (void) raw_zmq_fail("ZMQ_LAST_ENDPOINT");
    else {
        ready(bound, arg);
        rc = raw_zmq_serve_orders(&end);
    }
    raw_zmq_fini(&end);
    return rc;
}

/* ------------------------------------------------------------------------ */
/* Client                                                                   */

int raw_zmq_open(const char *endpoint, struct raw_zmq **client_p)
{
    static const int patience = RAW_ZMQ_PATIENCE_MS;
    struct raw_zmq *end = (struct raw_zmq *) malloc(sizeof(*end));

    if (end == NULL)
        return raw_zmq_fail("malloc");
    if (raw_zmq_init(end) != 0)
        goto no_end;
    end->id_size = sizeof(RAW_ZMQ_SERVER_ID) - 1;
    memcpy(end->id, RAW_ZMQ_SERVER_ID, end->id_size);
    if (zmq_setsockopt(
            end->socket, ZMQ_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        zmq_setsockopt(
            end->socket, ZMQ_CONNECT_ROUTING_ID, end->id, end->id_size) != 0 ||
        zmq_connect(end->socket, endpoint) != 0) {
        (void) raw_zmq_fail(endpoint);
        goto no_connection;
    }
    *client_p = end;
    return 0;

no_connection:
    raw_zmq_fini(end);
no_end:
    free(end);
    return -1;
}

void raw_zmq_close(struct raw_zmq *client)
{
    if (client == NULL)
        return;
    raw_zmq_fini(client);
    free(client);
}

/* Send numbers and receive them back in order, window of them in flight. */
static int raw_zmq_run_echo(struct raw_zmq *end,
    const struct raw_zmq_round *round, struct raw_zmq_result *result)
{
    const uint64_t start = raw_zmq_now_ns();
    const uint64_t until = start + (uint64_t) (round->seconds * 1e9);
    uint64_t now = start;
    uint64_t sent = 0;
    uint64_t taken = 0;
    uint64_t number;
    zmq_msg_t msg;

    while (taken < sent || now < until) {
        while (sent - taken < round->window && now < until) {
            if (zmq_msg_init_size(&msg, round->size) != 0)
                return -1;
            memset(zmq_msg_data(&msg), 0, round->size);
            memcpy(zmq_msg_data(&msg), &sent, sizeof(sent));
            if (raw_zmq_send(end, &msg) != 0)
                goto failed;
            sent++;
        }
        (void) zmq_msg_init(&msg);
        if (raw_zmq_recv(end, &msg, round->wait) != 0)
            goto failed;
        if (zmq_msg_size(&msg) != round->size)
            goto garbled;
        memcpy(&number, zmq_msg_data(&msg), sizeof(number));
        if (number != taken)
            goto garbled;
        (void) zmq_msg_close(&msg);
        taken++;
        if (taken % 16 == 0 || round->window == 1)
            now = raw_zmq_now_ns();
    }
    result->ops = taken;
    result->seconds = (double) (raw_zmq_now_ns() - start) * 1e-9;
    return 0;

garbled:
    errno = EPROTO;
failed:
    (void) zmq_msg_close(&msg);
    return -1;
}

/* One transfer to the client, from the request to the last byte. */
static int raw_zmq_pull(struct raw_zmq *end, const struct raw_zmq_round *round)
{
    struct raw_zmq_flow flow;
    zmq_msg_t msg;
    int rc;

    memset(&flow, 0, sizeof(flow));
    rc = raw_zmq_send_note(end, RAW_ZMQ_NOTE_GO, 0);
    (void) zmq_msg_init(&msg);
    while (rc == 0 && flow.moved < round->size) {
        rc = raw_zmq_recv(end, &msg, round->wait);
        if (rc == 0)
            rc = raw_zmq_take(end, round, &flow, &msg);
    }
    (void) zmq_msg_close(&msg);
    return rc;
}

/* One transfer to the server, until it reports the last byte. */
static int raw_zmq_push(struct raw_zmq *end, const struct raw_zmq_round *round)
{
    struct raw_zmq_flow flow;
    uint64_t credit;

    memset(&flow, 0, sizeof(flow));
    while (flow.moved < round->size || flow.flying > 0) {
        if (raw_zmq_pump(end, round, &flow) != 0 ||
            raw_zmq_recv_note(end, RAW_ZMQ_NOTE_CREDIT, round->wait, &credit) !=
                0)
            return -1;
        if (credit > flow.flying) {
            errno = EPROTO;
            return -1;
        }
        flow.flying -= (unsigned) credit;
    }
    return 0;
}

static int raw_zmq_run_bulk(struct raw_zmq *end,
    const struct raw_zmq_round *round, struct raw_zmq_result *result)
{
    const uint64_t start = raw_zmq_now_ns();
    const uint64_t until = start + (uint64_t) (round->seconds * 1e9);
    uint64_t now = start;
    uint64_t done = 0;

    while (done == 0 || now < until) {
        const int rc = round->kind == RAW_ZMQ_PULL ? raw_zmq_pull(end, round)
                                                   : raw_zmq_push(end, round);

        if (rc != 0)
            return -1;
        done++;
        now = raw_zmq_now_ns();
    }
    result->ops = done;
    result->seconds = (double) (now - start) * 1e-9;
    return 0;
}

/* Send the order to the server and wait until it is ready. */
static int raw_zmq_place_order(
    struct raw_zmq *end, const struct raw_zmq_round *round)
{
    struct raw_zmq_order order;
    zmq_msg_t msg;
    int rc;

    memset(&order, 0, sizeof(order));
    order.magic = RAW_ZMQ_ORDER_MAGIC;
    order.round = *round;
    if (raw_zmq_send_bytes(end, &order, sizeof(order)) != 0)
        return -1;
    (void) zmq_msg_init(&msg);
    rc = raw_zmq_recv(end, &msg, RAW_ZMQ_BLOCK);
    if (rc == 0 && zmq_msg_size(&msg) != sizeof(order)) {
        errno = EPROTO;
        rc = -1;
    }
    (void) zmq_msg_close(&msg);
    return rc;
}

int raw_zmq_run(struct raw_zmq *client, const struct raw_zmq_round *round,
    struct raw_zmq_result *result_p)
{
    struct raw_zmq_result result;
    uint64_t good = 0;
    int rc = raw_zmq_check_round(round);

    if (rc == 0 && round->kind == RAW_ZMQ_PULL)
        rc = raw_zmq_room(client, round->size);
    else if (rc == 0 && round->kind == RAW_ZMQ_PUSH)
        rc = raw_zmq_fill(client, round->size);
    if (rc != 0 || raw_zmq_place_order(client, round) != 0)
        return raw_zmq_fail("cannot begin a round");

    rc = round->kind == RAW_ZMQ_ECHO ? raw_zmq_run_echo(client, round, &result)
                                     : raw_zmq_run_bulk(client, round, &result);
    if (rc != 0 || raw_zmq_send_note(client, RAW_ZMQ_NOTE_END, 0) != 0 ||
        raw_zmq_recv_note(client, RAW_ZMQ_NOTE_END, RAW_ZMQ_BLOCK, &good) != 0)
        return raw_zmq_fail("a round failed");
    if (round->kind == RAW_ZMQ_PULL)
        good = (uint64_t) raw_zmq_is_filled(client, round->size);
    if (!good) {
        fprintf(stderr, "raw_zmq: the data arrived changed\n");
        return -1;
    }
    *result_p = result;
    return 0;
}

int raw_zmq_stop(struct raw_zmq *client)
{
    static const int second = 1000;

    /* The note must be sent before the socket is closed. */
    if (zmq_setsockopt(client->socket, ZMQ_LINGER, &second, sizeof(second)) !=
            0 ||
        raw_zmq_send_note(client, RAW_ZMQ_NOTE_STOP, 0) != 0)
        return raw_zmq_fail("cannot stop the server");
    return 0;
}
