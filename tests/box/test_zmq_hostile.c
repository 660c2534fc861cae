/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeroMQ transport and peers that are none: a bare libzmq socket that
 * gets through libzmq's handshake and sends anything, from noise to messages
 * that are right but for a bit, at any moment of the protocol; listeners that
 * answer wrongly; and bytes on the bare TCP connection. A good client is
 * served all along, and every kind of message is refused at least once.
 */
#include "zmq_ends.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

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
    KIND_END
};

/* ---- The bare socket ---- */

struct hostile {
    void *context;
    void *socket;
    uint64_t random;
    unsigned char nonce[8]; /* of the class, from its WELCOME */
};

static void hostile_dial(struct hostile *hostile, const char *endpoint)
{
    int zero = 0;

    hostile->socket = zmq_socket(hostile->context, ZMQ_DEALER);
    HG_CHECK(hostile->socket != NULL);
    (void) zmq_setsockopt(hostile->socket, ZMQ_LINGER, &zero, sizeof(zero));
    (void) zmq_setsockopt(hostile->socket, ZMQ_SNDHWM, &zero, sizeof(zero));
    HG_CHECK(zmq_connect(hostile->socket, endpoint) == 0);
}

static void hostile_hang_up(struct hostile *hostile)
{
    HG_CHECK(zmq_close(hostile->socket) == 0);
    hostile->socket = NULL;
}

static size_t hostile_header(unsigned char *bytes, unsigned kind)
{
    memset(bytes, 0, 12);
    bytes[0] = 'h';
    bytes[1] = 'z';
    bytes[2] = 1;
    bytes[3] = (unsigned char) kind;
    return 12;
}

static void hostile_send(
    struct hostile *hostile, const void *bytes, size_t size, bool more)
{
    HG_CHECK(zmq_send(hostile->socket, bytes, size,
                 ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) == (int) size);
}

/* A correct message of a kind, as far as an outsider can make one. */
static size_t hostile_make(
    struct hostile *hostile, unsigned char *bytes, unsigned kind)
{
    size_t size = hostile_header(bytes, kind);
    size_t extra = 0;
    size_t i;

    switch (kind) {
    case KIND_HELLO: extra = 16; break;
    case KIND_WELCOME: extra = 24; break;
    case KIND_CONFIRM: memcpy(bytes + size, hostile->nonce, 8); return size + 8;
    case KIND_MESSAGE:
        bytes[4] = (unsigned char) (hg_test_random(&hostile->random) % 3);
        extra = hg_test_random(&hostile->random) % 64;
        break;
    case KIND_FRAME: extra = hg_test_random(&hostile->random) % 80; break;
    default: break;
    }
    for (i = 0; i < extra; i++)
        bytes[size + i] = (unsigned char) hg_test_random(&hostile->random);
    return size + extra;
}

/* The same with something wrong: a bit, the length, the number of parts. */
static void hostile_send_wrong(struct hostile *hostile, unsigned kind)
{
    unsigned char bytes[256];
    size_t size = hostile_make(hostile, bytes, kind);
    uint64_t how = hg_test_random(&hostile->random);
    unsigned parts = 0;

    switch (how % 6) {
    case 0: /* a bit */
        bytes[how / 8 % size] ^= (unsigned char) (1u << (how >> 40 & 7));
        break;
    case 1: size = how / 8 % size; break;
    case 2:
        memset(bytes + size, 0x5a, 32);
        size += how / 8 % 32;
        break;
    case 3: parts = (unsigned) (how / 8 % 4) + 1; break;
    case 4:
        for (size = 0; size < how / 8 % 64; size++)
            bytes[size] = (unsigned char) hg_test_random(&hostile->random);
        break;
    default: break; /* right, but out of place */
    }
    while (parts > 0) {
        hostile_send(hostile, bytes, size, true);
        parts--;
    }
    hostile_send(hostile, bytes, size, false);
}

/* Say hello correctly, and learn the class's nonce. */
static void hostile_greet(struct hostile *hostile, struct conform_end *server)
{
    unsigned char bytes[256];
    uint64_t end = ends_ms() + CONFORM_PATIENCE;
    size_t size = hostile_make(hostile, bytes, KIND_HELLO);
    int got;

    hostile_send(hostile, bytes, size, false);
    do {
        HG_CHECK(ends_ms() < end);
        (void) conform_turn(server->na_class, server->context, 1);
        got = zmq_recv(hostile->socket, bytes, sizeof(bytes), ZMQ_DONTWAIT);
    } while (got < 0);
    HG_CHECK_EQ_INT(got, 36);
    HG_CHECK_EQ_INT(bytes[3], KIND_WELCOME);
    memcpy(hostile->nonce, bytes + 28, 8);
}

static void hostile_confirm(struct hostile *hostile)
{
    unsigned char bytes[64];
    size_t size = hostile_make(hostile, bytes, KIND_CONFIRM);

    hostile_send(hostile, bytes, size, false);
}

/* ---- A server, a good client, and the other ---- */

struct hostile_server {
    struct conform_end end;
    struct conform_end good;
    na_addr_t addr; /* of the server, for the good one */
    char name[NA_MAX_ADDR_LEN];
};

static void hostile_open(struct hostile_server *server, const char *string)
{
    struct conform_call call;
    char scheme[32];

    ends_open(&server->end, string, 2000);
    ends_name(&server->end, server->end.self, server->name);
    (void) snprintf(scheme, sizeof(scheme), "zmq+%s://",
        NA_Get_class_protocol(server->end.na_class));
    ends_open(&server->good, scheme, 2000);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(server->good.na_class, server->good.context,
        conform_ended, &call, server->name, &call.id));
    while (call.ends == 0) {
        (void) conform_turn(server->end.na_class, server->end.context, 1);
        (void) conform_turn(server->good.na_class, server->good.context, 1);
    }
    HG_CHECK_OK(call.ret);
    server->addr = call.addr;
}

static void hostile_close(struct hostile_server *server)
{
    HG_CHECK_OK(NA_Addr_free(server->good.na_class, server->addr));
    conform_close(&server->good);
    conform_close(&server->end);
}

/* The good client's message arrives; what else does is let go. */
static void hostile_serve(struct hostile_server *server)
{
    static const char want[] = "may I have a word";
    struct conform_call recv, send;
    uint64_t end = ends_ms() + CONFORM_PATIENCE;
    char got[70000];
    bool came = false;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(server->good.na_class,
        server->good.context, conform_ended, &send, want, sizeof(want),
        server->addr, 99, &send.id));
    while (!came) {
        HG_CHECK_OK(
            conform_recv(&server->end, &recv, false, got, sizeof(got), 0));
        while (recv.ends == 0) {
            HG_CHECK(ends_ms() < end);
            (void) conform_turn(server->end.na_class, server->end.context, 1);
        }
        HG_CHECK_OK(recv.ret);
        came = recv.tag == 99 && recv.size == sizeof(want) &&
            memcmp(got, want, sizeof(want)) == 0;
        conform_free_addr(&server->end, &recv);
    }
    while (send.ends == 0)
        (void) conform_turn(server->good.na_class, server->good.context, 1);
    HG_CHECK_OK(send.ret);
}

static uint64_t hostile_refused(struct hostile_server *server, unsigned kind)
{
    static const char *const names[KIND_END] = {"zmq_bad_other",
        "zmq_bad_hello", "zmq_bad_welcome", "zmq_bad_confirm", "zmq_bad_refuse",
        "zmq_bad_message", "zmq_bad_frame", "zmq_bad_probe", "zmq_bad_bye",
        "zmq_bad_bye_ack"};

    return NA_Get_counter(server->end.na_class, names[kind]);
}

static void hostile_attack(const char *string)
{
    struct hostile_server server;
    struct hostile hostile;
    unsigned round, kind, i;

    hg_test_allow_log("");
    hostile.random = hg_test_seed();
    hostile.context = zmq_ctx_new();
    hostile_open(&server, string);
    memset(hostile.nonce, 0, sizeof(hostile.nonce));
    for (round = 0; round < 24; round++) {
        hostile_dial(&hostile, server.name + 4);
        if (round % 3 >= 1)
            hostile_greet(&hostile, &server.end);
        if (round % 3 == 2)
            hostile_confirm(&hostile);
        for (i = 0; i < 20; i++) {
            for (kind = 0; kind <= KIND_END; kind++)
                hostile_send_wrong(&hostile, kind);
            /* A whole part less than a header; no byte at all. */
            hostile_send(&hostile, "hz", i % 3, false);
        }
        hostile_serve(&server);
        hostile_hang_up(&hostile);
    }
    hostile_serve(&server);
    for (kind = 0; kind < KIND_END; kind++) {
        if (hostile_refused(&server, kind) == 0)
            hg_test_fail(HG_TEST_HERE, "nothing of kind %u was refused", kind);
    }
    HG_CHECK(NA_Get_counter(server.end.na_class, "rma_malformed") > 0);
    hostile_close(&server);
    HG_CHECK(zmq_ctx_term(hostile.context) == 0);
}

HG_TEST(messages_of_strangers_are_judged)
{
    hostile_attack("zmq+tcp://127.0.0.1");
}

HG_TEST(messages_of_strangers_are_judged_on_ipc)
{
    hostile_attack("zmq+ipc://*");
}

/* ---- What each kind is refused for ---- */

HG_TEST(a_stranger_is_not_heard_before_the_proof)
{
    struct hostile_server server;
    struct hostile hostile;
    unsigned char bytes[64];
    size_t size;
    uint64_t before;

    hostile.random = 1;
    hostile.context = zmq_ctx_new();
    hostile_open(&server, "zmq+tcp://127.0.0.1");
    hostile_dial(&hostile, server.name + 4);
    hostile_greet(&hostile, &server.end);
    /* Greeted, it has not proven itself. */
    size = hostile_make(&hostile, bytes, KIND_MESSAGE);
    bytes[4] = 0;
    hostile_send(&hostile, bytes, size, false);
    while (hostile_refused(&server, KIND_MESSAGE) == 0)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    /* A wrong nonce proves nothing, the right one does; once. */
    hostile.nonce[0] ^= 1;
    hostile_confirm(&hostile);
    hostile.nonce[0] ^= 1;
    hostile_confirm(&hostile);
    hostile_send(&hostile, bytes, size, false);
    hostile_confirm(&hostile);
    while (hostile_refused(&server, KIND_CONFIRM) < 2)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    before = hostile_refused(&server, KIND_MESSAGE);
    HG_CHECK_EQ_U64(before, 1);
    /* A second hello, and a plane that there is not. */
    size = hostile_make(&hostile, bytes, KIND_HELLO);
    hostile_send(&hostile, bytes, size, false);
    size = hostile_make(&hostile, bytes, KIND_MESSAGE);
    bytes[4] = 3;
    hostile_send(&hostile, bytes, size, false);
    while (hostile_refused(&server, KIND_MESSAGE) < 2)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    HG_CHECK_EQ_U64(hostile_refused(&server, KIND_HELLO), 1);
    hostile_serve(&server);
    hostile_hang_up(&hostile);
    hostile_close(&server);
    HG_CHECK(zmq_ctx_term(hostile.context) == 0);
}

HG_TEST(a_hello_of_another_version_is_answered_with_ours)
{
    struct hostile_server server;
    struct hostile hostile;
    unsigned char bytes[64];
    size_t size;
    int got;

    hostile.random = 1;
    hostile.context = zmq_ctx_new();
    hostile_open(&server, "zmq+tcp://127.0.0.1");
    hostile_dial(&hostile, server.name + 4);
    size = hostile_make(&hostile, bytes, KIND_HELLO);
    bytes[2] = 77;
    hostile_send(&hostile, bytes, size, false);
    do {
        (void) conform_turn(server.end.na_class, server.end.context, 1);
        got = zmq_recv(hostile.socket, bytes, sizeof(bytes), ZMQ_DONTWAIT);
    } while (got < 0);
    HG_CHECK_EQ_INT(got, 12);
    HG_CHECK_EQ_MEM(bytes, "hz\1\4", 4);
    hostile_hang_up(&hostile);
    hostile_close(&server);
    HG_CHECK(zmq_ctx_term(hostile.context) == 0);
}

/* ---- Listeners that answer wrongly ---- */

struct hostile_listener {
    void *context;
    char name[128];
    unsigned version; /* of the answer; 0: none */
    pthread_t thread;
    _Atomic bool stop;
};

/* A ROUTER that answers every hello with a REFUSE of a version, or with
 * a WELCOME whose nonce is not the one asked with. */
static void *hostile_answer(void *arg)
{
    struct hostile_listener *listener = (struct hostile_listener *) arg;
    void *socket = zmq_socket(listener->context, ZMQ_ROUTER);
    size_t size = sizeof(listener->name);
    int ms = 20, zero = 0;

    HG_CHECK(socket != NULL);
    (void) zmq_setsockopt(socket, ZMQ_RCVTIMEO, &ms, sizeof(ms));
    (void) zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof(zero));
    HG_CHECK(zmq_bind(socket, "tcp://127.0.0.1:*") == 0);
    HG_CHECK(
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, listener->name, &size) == 0);
    atomic_store(&listener->stop, false);
    while (!atomic_load(&listener->stop)) {
        unsigned char id[64], bytes[64];
        int id_size = zmq_recv(socket, id, sizeof(id), 0);
        size_t answer;

        if (id_size < 0)
            continue;
        (void) zmq_recv(socket, bytes, sizeof(bytes), 0);
        answer = hostile_header(
            bytes, listener->version == 1 ? KIND_WELCOME : KIND_REFUSE);
        bytes[2] = (unsigned char) listener->version;
        memset(bytes + answer, 0x11, 24);
        answer += listener->version == 1 ? 24 : 0;
        (void) zmq_send(socket, id, (size_t) id_size, ZMQ_SNDMORE);
        (void) zmq_send(socket, bytes, answer, 0);
    }
    (void) zmq_close(socket);
    return NULL;
}

static void hostile_listen(struct hostile_listener *listener, unsigned version)
{
    memset(listener->name, 0, sizeof(listener->name));
    listener->context = zmq_ctx_new();
    listener->version = version;
    atomic_init(&listener->stop, true);
    HG_CHECK(
        pthread_create(&listener->thread, NULL, hostile_answer, listener) == 0);
    while (atomic_load(&listener->stop))
        ends_sleep(1);
}

static void hostile_end_listening(struct hostile_listener *listener)
{
    atomic_store(&listener->stop, true);
    HG_CHECK(pthread_join(listener->thread, NULL) == 0);
    HG_CHECK(zmq_ctx_term(listener->context) == 0);
}

HG_TEST(who_speaks_another_version_is_a_protocol_error)
{
    struct hostile_listener listener;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_expect_log("speaks version 9");
    hostile_listen(&listener, 9);
    ends_open(&end, "zmq+tcp://", 1000);
    HG_CHECK_RET(ends_lookup(&end, listener.name, &addr), NA_PROTOCOL_ERROR);
    conform_close(&end);
    hostile_end_listening(&listener);
}

HG_TEST(a_welcome_with_a_wrong_nonce_is_none)
{
    struct hostile_listener listener;
    struct conform_end end;
    struct conform_call call;

    hostile_listen(&listener, 1);
    ends_open(&end, "zmq+tcp://", 1000);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(end.na_class, end.context, conform_ended, &call,
        listener.name, &call.id));
    while (NA_Get_counter(end.na_class, "zmq_bad_welcome") == 0)
        (void) conform_turn(end.na_class, end.context, 1);
    HG_CHECK_EQ_INT(call.ends, 0);
    hg_test_expect_log("cannot be reached");
    hostile_end_listening(&listener);
    HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
    conform_close(&end);
}

/* ---- Bytes on the bare connection ---- */

HG_TEST(bytes_on_the_bare_connection_hurt_nobody)
{
    struct hostile_server server;
    struct sockaddr_in where;
    uint64_t random = hg_test_seed();
    unsigned i;

    hg_test_allow_log("");
    hostile_open(&server, "zmq+tcp://127.0.0.1");
    memset(&where, 0, sizeof(where));
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port =
        htons((uint16_t) strtoul(strrchr(server.name, ':') + 1, NULL, 10));
    for (i = 0; i < 40; i++) {
        unsigned char bytes[512];
        size_t size = hg_test_random(&random) % sizeof(bytes);
        size_t j;
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        HG_CHECK(fd >= 0);
        HG_CHECK(connect(fd, (struct sockaddr *) &where, sizeof(where)) == 0);
        for (j = 0; j < size; j++)
            bytes[j] = (unsigned char) hg_test_random(&random);
        if (i % 2 == 0 && size > 11) /* the start of a greeting */
            memcpy(bytes, "\377\0\0\0\0\0\0\0\1\177\3", 11);
        (void) send(fd, bytes, size, MSG_NOSIGNAL);
        if (i % 4 == 0)
            hostile_serve(&server);
        (void) close(fd);
    }
    hostile_serve(&server);
    hostile_close(&server);
}
