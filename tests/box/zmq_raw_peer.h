/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zmq_raw_peer: a bare libzmq socket for the ZeroMQ tests. It completes
 * libzmq's handshake and, on request, ours, and then sends any message. The
 * messages are built here from the wire format, without the library.
 */
#ifndef HG_TESTS_ZMQ_RAW_PEER_H
#define HG_TESTS_ZMQ_RAW_PEER_H

#include "attacked.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

enum { /* kinds of message; see hg_na_zmq.c */
    KIND_HELLO = 1,
    KIND_WELCOME,
    KIND_CONFIRM,
    KIND_REFUSE,
    KIND_MESSAGE,
    KIND_FRAME,
    KIND_PROBE,
    KIND_BYE,
    KIND_BYE_ACK,
    KIND_GRANT,
    KIND_END,
    PLANES = 3 /* of a MESSAGE */
};

struct raw_peer {
    void *context;
    void *socket;
    uint64_t random;
    unsigned char nonce[8];  /* nonce of the class, from its WELCOME */
    void (*turn)(void *arg); /* lets the class make progress */
    void *arg;
};

static inline void raw_peer_init(
    struct raw_peer *stranger, void (*turn)(void *arg), void *arg)
{
    memset(stranger, 0, sizeof(*stranger));
    stranger->context = zmq_ctx_new();
    HG_CHECK(stranger->context != NULL);
    stranger->random = hg_test_seed();
    stranger->turn = turn;
    stranger->arg = arg;
}

static inline void raw_peer_dial(
    struct raw_peer *stranger, const char *endpoint)
{
    int zero = 0;

    stranger->socket = zmq_socket(stranger->context, ZMQ_DEALER);
    HG_CHECK(stranger->socket != NULL);
    (void) zmq_setsockopt(stranger->socket, ZMQ_LINGER, &zero, sizeof(zero));
    (void) zmq_setsockopt(stranger->socket, ZMQ_SNDHWM, &zero, sizeof(zero));
    (void) zmq_setsockopt(stranger->socket, ZMQ_RCVHWM, &zero, sizeof(zero));
    HG_CHECK(zmq_connect(stranger->socket, endpoint) == 0);
}

static inline void raw_peer_hang_up(struct raw_peer *stranger)
{
    HG_CHECK(zmq_close(stranger->socket) == 0);
    stranger->socket = NULL;
}

/* Call this while the other side still exists: libzmq aborts if a connection
 * breaks while a socket that is being closed has read half a message from
 * it. */
static inline void raw_peer_fini(struct raw_peer *stranger)
{
    HG_CHECK(zmq_ctx_term(stranger->context) == 0);
}

static inline uint64_t raw_peer_random(struct raw_peer *stranger)
{
    return hg_test_random(&stranger->random);
}

static inline void raw_peer_noise(
    struct raw_peer *stranger, unsigned char *bytes, size_t size)
{
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) raw_peer_random(stranger);
}

/* ---- Messages ---- */

static inline void raw_peer_put(
    unsigned char *bytes, unsigned size, uint64_t value)
{
    unsigned i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) (value >> 8 * i);
}

static inline uint64_t raw_peer_get(const unsigned char *bytes, unsigned size)
{
    uint64_t value = 0;

    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

static inline size_t raw_peer_header(unsigned char *bytes, unsigned kind)
{
    memset(bytes, 0, 12);
    bytes[0] = 'h';
    bytes[1] = 'z';
    bytes[2] = 2;
    bytes[3] = (unsigned char) kind;
    return 12;
}

static inline void raw_peer_send(
    struct raw_peer *stranger, const void *bytes, size_t size, bool more)
{
    HG_CHECK(zmq_send(stranger->socket, bytes, size,
                 ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) == (int) size);
}

/* The next part received, at most `space` bytes; returns its size. */
static inline size_t raw_peer_hear(
    struct raw_peer *stranger, unsigned char *bytes, size_t space)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    int got;

    for (;;) {
        got = zmq_recv(stranger->socket, bytes, space, ZMQ_DONTWAIT);
        if (got >= 0)
            return (size_t) got;
        HG_CHECK(endpoint_ms() < end);
        stranger->turn(stranger->arg);
    }
}

/* Drop all messages received so far. */
static inline void raw_peer_ignore(struct raw_peer *stranger)
{
    char byte;

    while (zmq_recv(stranger->socket, &byte, 1, ZMQ_DONTWAIT) >= 0)
        continue;
}

/* A correct message of a kind, as far as an unconfirmed peer can make one. */
static inline size_t raw_peer_make(
    struct raw_peer *stranger, unsigned char *bytes, unsigned kind)
{
    size_t size = raw_peer_header(bytes, kind);
    size_t extra = 0;

    switch (kind) {
    case KIND_HELLO: extra = 16; break;
    case KIND_WELCOME: extra = 24; break;
    case KIND_CONFIRM:
        memcpy(bytes + size, stranger->nonce, 8);
        return size + 8;
    case KIND_MESSAGE:
        bytes[4] = (unsigned char) (raw_peer_random(stranger) % 3);
        extra = raw_peer_random(stranger) % 64;
        break;
    case KIND_FRAME: extra = raw_peer_random(stranger) % 80; break;
    default: break;
    }
    raw_peer_noise(stranger, bytes + size, extra);
    return size + extra;
}

/* How many messages of a kind a class has refused. */
static inline uint64_t raw_peer_refused(na_class_t *na_class, unsigned kind)
{
    static const char *const names[KIND_END] = {"zmq_bad_other",
        "zmq_bad_hello", "zmq_bad_welcome", "zmq_bad_confirm", "zmq_bad_refuse",
        "zmq_bad_message", "zmq_bad_frame", "zmq_bad_probe", "zmq_bad_bye",
        "zmq_bad_bye_ack", "zmq_bad_grant"};

    return NA_Get_counter(na_class, names[kind]);
}

/* Send a correct HELLO, and learn the class's nonce. */
static inline void raw_peer_greet(struct raw_peer *stranger)
{
    unsigned char bytes[256];
    size_t size = raw_peer_make(stranger, bytes, KIND_HELLO);

    raw_peer_send(stranger, bytes, size, false);
    HG_CHECK_EQ_U64(raw_peer_hear(stranger, bytes, sizeof(bytes)), 36);
    HG_CHECK_EQ_INT(bytes[3], KIND_WELCOME);
    memcpy(stranger->nonce, bytes + 28, 8);
}

static inline void raw_peer_confirm(struct raw_peer *stranger)
{
    unsigned char bytes[256];
    size_t size = raw_peer_make(stranger, bytes, KIND_CONFIRM);

    raw_peer_send(stranger, bytes, size, false);
}

/* Dial again: a message that is refused before the handshake is finished ends
 * its connection. */
static inline void raw_peer_redial(
    struct raw_peer *stranger, const char *endpoint)
{
    raw_peer_hang_up(stranger);
    raw_peer_dial(stranger, endpoint);
}

/* Dial, and confirm. */
static inline void raw_peer_join(
    struct raw_peer *stranger, const char *endpoint)
{
    raw_peer_dial(stranger, endpoint);
    raw_peer_greet(stranger);
    raw_peer_confirm(stranger);
}

/* ---- Raw connections ---- */

/* Connect a plain socket to the address at which a class listens. */
static inline int raw_peer_connect(const char *name)
{
    struct sockaddr_in in;
    struct sockaddr_un un;
    bool tcp = strncmp(name, "zmq+tcp://", 10) == 0;
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);

    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (tcp)
        in.sin_port =
            htons((uint16_t) strtoul(strrchr(name, ':') + 1, NULL, 10));
    memset(&un, 0, sizeof(un));
    un.sun_family = AF_UNIX;
    (void) snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", name + 10);
    HG_CHECK(fd >= 0);
    HG_CHECK((tcp ? connect(fd, (struct sockaddr *) &in, sizeof(in))
                  : connect(fd, (struct sockaddr *) &un, sizeof(un))) == 0);
    return fd;
}

static inline void raw_peer_write(int fd, const void *bytes, size_t size)
{
    HG_CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t) size);
}

/* A message of one short frame on a raw connection. */
static inline void raw_peer_frame(int fd, const void *bytes, size_t size)
{
    unsigned char head[2] = {0, (unsigned char) size};

    HG_CHECK(size < 256);
    raw_peer_write(fd, head, sizeof(head));
    raw_peer_write(fd, bytes, size);
}

/* Connect, finish ZMTP's handshake with the given routing id, and send nothing
 * more. libzmq's thread answers, so the class need not make progress. */
static inline int raw_peer_shake(
    const char *name, const void *id, size_t id_size)
{
    static const unsigned char start[] = "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL";
    static const unsigned char ready[] =
        "\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0";
    unsigned char bytes[256] = {0};
    size_t size = sizeof(ready) - 1;
    size_t heard = 0;
    int fd = raw_peer_connect(name);

    HG_CHECK(id_size < 32);
    memcpy(bytes, start, sizeof(start) - 1);
    raw_peer_write(fd, bytes, 64);
    memcpy(bytes + 2, ready, size);
    bytes[2 + size] = (unsigned char) id_size;
    memcpy(bytes + 2 + size + 1, id, id_size);
    size += 1 + id_size;
    bytes[0] = 4; /* a command */
    bytes[1] = (unsigned char) size;
    raw_peer_write(fd, bytes, 2 + size);
    do {
        ssize_t got = recv(fd, bytes + heard, sizeof(bytes) - heard, 0);

        HG_CHECK(got > 0);
        heard += (size_t) got;
    } while (memmem(bytes, heard, "\5READY", 6) == NULL);
    return fd;
}

#endif
