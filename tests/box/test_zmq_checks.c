/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of the ZeroMQ transport, one by one: a message that only this
 * check refuses, from a peer that dials and from a peer that listens. Also the
 * growth of the address tables with many peers.
 */
#include "zmq_raw_peer.h"

/* ---- HELLO ---- */

enum { CHECKS_LONG = 70000 };

/* A HELLO with a name of `size` bytes. */
static void checks_hello(
    struct raw_peer *stranger, const char *name, size_t size)
{
    static unsigned char bytes[64 + CHECKS_LONG];
    size_t head = raw_peer_make(stranger, bytes, KIND_HELLO);

    HG_CHECK(head + size <= sizeof(bytes));
    memcpy(bytes + head, name, size);
    raw_peer_send(stranger, bytes, head + size, false);
}

static void checks_until_refused(
    struct attacked *server, unsigned kind, uint64_t count)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (raw_peer_refused(server->end.na_class, kind) < count) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(server);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(server->end.na_class, kind), count);
}

static void checks_open(struct attacked *server, struct raw_peer *stranger)
{
    attacked_open(server, "zmq+tcp://127.0.0.1");
    raw_peer_init(stranger, attacked_turn, server);
}

static void checks_close(struct attacked *server, struct raw_peer *stranger)
{
    attacked_serve(server);
    raw_peer_hang_up(stranger);
    raw_peer_fini(stranger);
    attacked_close(server);
}

/* The raw peer's next message, of the unexpected plane. */
static void checks_receive(struct attacked *server, struct raw_peer *stranger,
    struct conform_call *recv)
{
    unsigned char bytes[64];
    static char got[64];
    size_t size = raw_peer_header(bytes, KIND_MESSAGE);

    HG_CHECK_OK(conform_recv(&server->end, recv, false, got, sizeof(got), 0));
    raw_peer_send(stranger, bytes, size, false);
    HG_CHECK_OK(conform_wait(&server->end, recv));
}

/* A peer has said HELLO: confirm, and read the name that the class gives it. */
static void checks_welcomed(
    struct attacked *server, struct raw_peer *stranger, char *name)
{
    struct conform_call recv;
    unsigned char bytes[64];

    HG_CHECK_EQ_U64(raw_peer_hear(stranger, bytes, sizeof(bytes)), 36);
    memcpy(stranger->nonce, bytes + 28, 8);
    raw_peer_confirm(stranger);
    checks_receive(server, stranger, &recv);
    endpoint_name(&server->end, recv.addr, name);
    conform_free_addr(&server->end, &recv);
}

HG_TEST(hellos_with_wrong_names_are_refused)
{
    static const char source[] = "@127.0.0.1";
    enum { LONGEST = NA_MAX_ADDR_LEN - sizeof(source) };
    static char name[CHECKS_LONG];
    static const struct {
        const char *name;
        size_t size;
    } wrong[] = {
        {name, CHECKS_LONG}, {name, NA_MAX_ADDR_LEN}, {"zmq+tcp://", 10},
        {"zmq+ipc://x", 11}, {"sm://x", 6}, {"zmq+tcp://a b", 13},
        {"zmq+tcp://a\x1f", 12}, {"zmq+tcp://a\x7f", 12},
        {"zmq+tcp://a\x80", 12}, {"zmq+tcp://a\xff", 12},
        {"zmq+tcp://a\0b", 13},
        {"zmq+tcp://peer-0123456789abcdef@192.0.2.1", 41},
        {"zmq+tcp://192.0.2.1:1@127.0.0.1", 31},
        {name, LONGEST + 1}, /* with the host behind it, too long */
    };
    struct attacked server;
    struct raw_peer stranger;
    char text[NA_MAX_ADDR_LEN];
    unsigned char bytes[64];
    unsigned i;

    memset(name, 'a', sizeof(name));
    memcpy(name, "zmq+tcp://", 10);
    checks_open(&server, &stranger);
    raw_peer_dial(&stranger, server.name + 4);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        checks_hello(&stranger, wrong[i].name, wrong[i].size);
        checks_until_refused(&server, KIND_HELLO, i + 1);
        raw_peer_redial(&stranger, server.name + 4);
    }
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    raw_peer_send(&stranger, bytes, 27, false);
    checks_until_refused(&server, KIND_HELLO, i + 1);
    /* A correct HELLO, except for a second part. */
    raw_peer_redial(&stranger, server.name + 4);
    raw_peer_send(
        &stranger, bytes, raw_peer_make(&stranger, bytes, KIND_HELLO), true);
    raw_peer_send(&stranger, "", 0, false);
    checks_until_refused(&server, KIND_HELLO, i + 2);
    raw_peer_redial(&stranger, server.name + 4);
    /* The peer has the longest name that is allowed. */
    checks_hello(&stranger, name, LONGEST);
    checks_welcomed(&server, &stranger, text);
    HG_CHECK_EQ_U64(strlen(text), NA_MAX_ADDR_LEN - 1);
    HG_CHECK_EQ_MEM(text, name, LONGEST);
    HG_CHECK_EQ_STR(text + LONGEST, source);
    checks_close(&server, &stranger);
}

/* A peer gets the number of the class with its first WELCOME. One that claims
 * this number, and the name of the class, is not the class itself. */
HG_TEST(peer_that_claims_to_be_the_class_is_another)
{
    unsigned char hello[64 + NA_MAX_ADDR_LEN], bytes[64];
    char text[NA_MAX_ADDR_LEN];
    struct conform_call recv;
    struct attacked server;
    struct raw_peer stranger;
    size_t head, size;

    checks_open(&server, &stranger);
    size = strlen(server.name);
    raw_peer_dial(&stranger, server.name + 4);
    checks_hello(&stranger, "", 0);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 36);
    raw_peer_redial(&stranger, server.name + 4);
    head = raw_peer_make(&stranger, hello, KIND_HELLO);
    memcpy(hello + 12, bytes + 12, 8);
    memcpy(hello + head, server.name, size);
    raw_peer_send(&stranger, hello, head + size, false);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 36);
    HG_CHECK_EQ_MEM(bytes + 12, hello + 12, 8);
    memcpy(stranger.nonce, bytes + 28, 8);
    raw_peer_confirm(&stranger);
    checks_receive(&server, &stranger, &recv);
    endpoint_name(&server.end, recv.addr, text);
    HG_CHECK_EQ_STR(text, server.name);
    HG_CHECK(NA_Addr_cmp(server.end.na_class, recv.addr, recv.addr));
    HG_CHECK(!NA_Addr_cmp(server.end.na_class, recv.addr, server.end.self));
    HG_CHECK(!NA_Addr_cmp(server.end.na_class, server.end.self, recv.addr));
    conform_free_addr(&server.end, &recv);
    checks_close(&server, &stranger);
}

/* Whatever a HELLO claims, the string names the host of the connection. */
HG_TEST(peer_cannot_choose_the_host_in_its_name)
{
    static const struct {
        const char *claim;
        const char *name;
    } claims[] = {
        {"zmq+tcp://192.0.2.1:5000", "zmq+tcp://192.0.2.1:5000@127.0.0.1"},
        {"zmq+tcp://127.0.0.1:5000", "zmq+tcp://127.0.0.1:5000"},
        {"zmq+tcp://127.0.0.10:5000", "zmq+tcp://127.0.0.10:5000@127.0.0.1"},
        {"zmq+tcp://127.0.0.:5000", "zmq+tcp://127.0.0.:5000@127.0.0.1"},
        {"zmq+tcp://peer-0123456789abcdef",
            "zmq+tcp://peer-0123456789abcdef@127.0.0.1"},
        {"zmq+tcp://127.0.0.1", "zmq+tcp://127.0.0.1@127.0.0.1"},
    };
    struct attacked server;
    struct raw_peer stranger;
    char name[NA_MAX_ADDR_LEN];
    size_t i;

    checks_open(&server, &stranger);
    for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        if (i > 0)
            raw_peer_hang_up(&stranger);
        raw_peer_dial(&stranger, server.name + 4);
        checks_hello(&stranger, claims[i].claim, strlen(claims[i].claim));
        checks_welcomed(&server, &stranger, name);
        HG_CHECK_EQ_STR(name, claims[i].name);
    }
    checks_close(&server, &stranger);
}

/* A peer may claim any name in its HELLO. Its messages are not delivered as
 * those of an unconnected address with that name. */
HG_TEST(message_of_a_peer_with_a_false_name_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv, falsely;
    unsigned char bytes[64];
    char text[NA_MAX_ADDR_LEN], got[64];
    static const char name[] = "zmq+tcp://127.0.0.1:1";
    na_addr_t addr;
    size_t size;

    checks_open(&server, &stranger);
    HG_CHECK_OK(NA_Addr_resolve(server.end.na_class, name, &addr));
    HG_CHECK_OK(
        endpoint_post(&server.end, &falsely, got, sizeof(got), addr, 7));
    raw_peer_dial(&stranger, server.name + 4);
    checks_hello(&stranger, name, sizeof(name) - 1);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 36);
    memcpy(stranger.nonce, bytes + 28, 8);
    raw_peer_confirm(&stranger);
    size = raw_peer_header(bytes, KIND_MESSAGE);
    bytes[4] = NA_MSG_EXPECTED;
    bytes[8] = 7; /* the tag */
    raw_peer_send(&stranger, bytes, size, false);
    checks_receive(&server, &stranger, &recv); /* it arrives after that */
    HG_CHECK_EQ_INT(falsely.ends, 0);
    /* The application sees that the names are equal. */
    endpoint_name(&server.end, recv.addr, text);
    HG_CHECK_EQ_STR(text, name);
    HG_CHECK(NA_Addr_cmp(server.end.na_class, recv.addr, addr));
    HG_CHECK(NA_Addr_cmp(server.end.na_class, addr, addr));
    HG_CHECK_OK(NA_Cancel(server.end.na_class, server.end.context, falsely.id));
    HG_CHECK_RET(conform_wait(&server.end, &falsely), NA_CANCELED);
    conform_free_addr(&server.end, &recv);
    HG_CHECK_OK(NA_Addr_free(server.end.na_class, addr));
    checks_close(&server, &stranger);
}

/* A peer claims the name of a listener. Only the listener's own messages are
 * delivered as those of its address. */
HG_TEST(message_of_a_peer_with_the_name_of_a_listener_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_end listener;
    struct conform_call from_stranger, recvs[2], send;
    unsigned char bytes[64];
    char name[NA_MAX_ADDR_LEN], text[NA_MAX_ADDR_LEN], got[2][8];
    na_addr_t addr, to_server;
    size_t size;
    unsigned i;

    checks_open(&server, &stranger);
    endpoint_open(&listener, "zmq+tcp://127.0.0.1", 1000);
    endpoint_name(&listener, listener.self, name);
    HG_CHECK_OK(NA_Addr_resolve(server.end.na_class, name, &addr));
    HG_CHECK_OK(NA_Addr_resolve(listener.na_class, server.name, &to_server));
    raw_peer_dial(&stranger, server.name + 4);
    checks_hello(&stranger, name, strlen(name));
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 36);
    memcpy(stranger.nonce, bytes + 28, 8);
    raw_peer_confirm(&stranger);
    for (i = 0; i < 2; i++) { /* before the receive, and after it */
        size = raw_peer_header(bytes, KIND_MESSAGE);
        bytes[4] = NA_MSG_EXPECTED;
        bytes[8] = 7; /* the tag */
        raw_peer_send(&stranger, bytes, size, false);
        checks_receive(&server, &stranger, &from_stranger);
        HG_CHECK_OK(endpoint_post(&server.end, &recvs[i], got[i], 8, addr, 7));
        if (i == 0)
            conform_free_addr(&server.end, &from_stranger);
    }
    for (i = 0; i < 2; i++) {
        memset(&send, 0, sizeof(send));
        HG_CHECK_OK(NA_Msg_send_expected(listener.na_class, listener.context,
            conform_ended, &send, "true", 5, to_server, 7, &send.id));
        HG_CHECK_OK(endpoint_wait_both(&server.end, &listener, &recvs[i]));
        HG_CHECK_EQ_STR(got[i], "true");
        HG_CHECK_OK(endpoint_wait_both(&server.end, &listener, &send));
    }
    /* The names are still equal. */
    endpoint_name(&server.end, from_stranger.addr, text);
    HG_CHECK_EQ_STR(text, name);
    HG_CHECK(!NA_Addr_cmp(server.end.na_class, from_stranger.addr, addr));
    conform_free_addr(&server.end, &from_stranger);
    HG_CHECK_OK(NA_Addr_free(server.end.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(listener.na_class, to_server));
    conform_close(&listener);
    checks_close(&server, &stranger);
}

/* libzmq lets a peer have a routing id of up to 255 bytes. */
HG_TEST(peers_with_long_routing_ids_are_refused)
{
    static const unsigned sizes[] = {33, 255};
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[256];
    unsigned char id[255];
    int zero = 0;
    size_t size;
    unsigned i;

    memset(id, 'i', sizeof(id));
    checks_open(&server, &stranger);
    for (i = 0; i < 4; i++) {
        id[0] =
            (unsigned char) ('a' + i); /* the last one may not be free yet */
        stranger.socket = zmq_socket(stranger.context, ZMQ_DEALER);
        HG_CHECK(zmq_setsockopt(
                     stranger.socket, ZMQ_ROUTING_ID, id, sizes[i / 2]) == 0);
        (void) zmq_setsockopt(stranger.socket, ZMQ_LINGER, &zero, sizeof(zero));
        HG_CHECK(zmq_connect(stranger.socket, server.name + 4) == 0);
        size = raw_peer_make(&stranger, bytes, KIND_HELLO);
        if (i % 2 == 1)
            bytes[2] = 77; /* another version, which would be answered */
        raw_peer_send(&stranger, bytes, size, false);
        checks_until_refused(&server, KIND_HELLO, i + 1);
        HG_CHECK(zmq_recv(stranger.socket, bytes, 1, ZMQ_DONTWAIT) < 0);
        raw_peer_hang_up(&stranger);
    }
    raw_peer_dial(&stranger, server.name + 4);
    checks_close(&server, &stranger);
}

/* The HELLO is read after its connection is closed: nothing is kept of the
 * peer, because nothing would ever remove it. */
HG_TEST(hellos_of_closed_connections_leave_nothing)
{
    enum { PEERS = 100 };
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[64];
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    int64_t before;
    unsigned i;

    hg_test_alloc_install();
    checks_open(&server, &stranger);
    raw_peer_join(&stranger, server.name + 4);
    attacked_serve(&server);
    before = hg_test_alloc_live();
    for (i = 0; i < PEERS; i++) {
        int fd = raw_peer_shake(server.name, "", 0);

        raw_peer_frame(fd, bytes, raw_peer_make(&stranger, bytes, KIND_HELLO));
        (void) close(fd);
    }
    endpoint_sleep(50);
    for (i = 0; i < 4; i++)
        attacked_serve(&server);
    while (hg_test_alloc_live() > before + PEERS / 2) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
    }
    checks_close(&server, &stranger);
}

/* Only a HELLO of an unknown peer is answered with REFUSE. Answers arrive in
 * order, so the next one shows that there was none before. */
HG_TEST(messages_of_another_version_get_no_answer)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[64];
    size_t size;

    checks_open(&server, &stranger);
    raw_peer_dial(&stranger, server.name + 4);
    size = raw_peer_make(&stranger, bytes, KIND_PROBE);
    bytes[2] = 77;
    raw_peer_send(&stranger, bytes, size, false);
    checks_until_refused(&server, KIND_PROBE, 1);
    HG_CHECK(zmq_recv(stranger.socket, bytes, 1, ZMQ_DONTWAIT) < 0);
    raw_peer_redial(&stranger, server.name + 4);
    raw_peer_greet(&stranger); /* receives WELCOME */
    raw_peer_confirm(&stranger);
    size = raw_peer_make(&stranger, bytes, KIND_HELLO);
    bytes[2] = 77;
    raw_peer_send(&stranger, bytes, size, false);
    checks_until_refused(&server, KIND_HELLO, 1);
    raw_peer_send(
        &stranger, bytes, raw_peer_make(&stranger, bytes, KIND_BYE), false);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 12);
    HG_CHECK_EQ_INT(bytes[3], KIND_BYE_ACK);
    checks_close(&server, &stranger);
}

/* A message of less than four bytes has no kind. */
HG_TEST(messages_too_short_for_a_kind_are_counted)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned size;

    checks_open(&server, &stranger);
    raw_peer_dial(&stranger, server.name + 4);
    for (size = 0; size < 4; size++) {
        raw_peer_send(&stranger, "hz\2", size, false);
        checks_until_refused(&server, 0, size + 1);
        raw_peer_redial(&stranger, server.name + 4);
    }
    checks_close(&server, &stranger);
}

/* All have the right nonce, and only the last has the right shape. */
HG_TEST(confirms_of_a_wrong_shape_are_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv;
    unsigned char bytes[64];
    size_t size;
    unsigned i;

    checks_open(&server, &stranger);
    for (i = 0; i < 3; i++) {
        raw_peer_dial(&stranger, server.name + 4);
        raw_peer_greet(&stranger);
        size = raw_peer_make(&stranger, bytes, KIND_CONFIRM);
        bytes[size] = 0;
        size += i == 0 ? (size_t) -1 : i == 1 ? 1 : 0;
        raw_peer_send(&stranger, bytes, size, i == 2);
        if (i == 2)
            raw_peer_send(&stranger, "", 0, false);
        checks_until_refused(&server, KIND_CONFIRM, i + 1);
        raw_peer_hang_up(&stranger);
    }
    raw_peer_join(&stranger, server.name + 4);
    checks_receive(&server, &stranger, &recv);
    conform_free_addr(&server.end, &recv);
    checks_close(&server, &stranger);
}

/* A peer without a connection cannot close one. */
HG_TEST(byes_before_the_confirmation_are_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv;
    unsigned char bytes[64];

    checks_open(&server, &stranger);
    raw_peer_dial(&stranger, server.name + 4);
    raw_peer_greet(&stranger);
    raw_peer_send(&stranger, bytes, raw_peer_header(bytes, KIND_BYE), false);
    checks_until_refused(&server, KIND_BYE, 1);
    raw_peer_redial(&stranger, server.name + 4);
    raw_peer_greet(&stranger);
    raw_peer_send(
        &stranger, bytes, raw_peer_header(bytes, KIND_BYE_ACK), false);
    checks_until_refused(&server, KIND_BYE_ACK, 1);
    raw_peer_redial(&stranger, server.name + 4);
    raw_peer_greet(&stranger);
    raw_peer_confirm(&stranger);
    checks_receive(&server, &stranger, &recv);
    conform_free_addr(&server.end, &recv);
    /* The first answer is to the BYE after the confirmation. */
    raw_peer_send(&stranger, bytes, raw_peer_header(bytes, KIND_BYE), false);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 12);
    HG_CHECK_EQ_INT(bytes[3], KIND_BYE_ACK);
    /* Its address is gone, although it does not close the connection. */
    attacked_serve(&server);
    raw_peer_greet(&stranger);
    raw_peer_confirm(&stranger);
    checks_receive(&server, &stranger, &recv);
    conform_free_addr(&server.end, &recv);
    checks_close(&server, &stranger);
}

/* ---- Messages of a known peer ---- */

HG_TEST(messages_past_the_limit_of_their_plane_are_refused)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv;
    static unsigned char bytes[12 + 3001];
    static char got[2000];
    unsigned plane;

    info.max_unexpected_size = 2000;
    info.max_expected_size = 3000;
    attacked_open_info(&server, "zmq+tcp://127.0.0.1", &info);
    raw_peer_init(&stranger, attacked_turn, &server);
    raw_peer_join(&stranger, server.name + 4);
    for (plane = 0; plane < PLANES; plane++) {
        (void) raw_peer_header(bytes, KIND_MESSAGE);
        bytes[4] = (unsigned char) plane;
        raw_peer_send(&stranger, bytes, 12 + (plane == 1 ? 3001 : 2001), false);
        checks_until_refused(&server, KIND_MESSAGE, plane + 1);
        raw_peer_hang_up(&stranger); /* it ended the connection */
        raw_peer_join(&stranger, server.name + 4);
    }
    bytes[4] = PLANES;
    raw_peer_send(&stranger, bytes, 12, false); /* the connection goes on */
    checks_until_refused(&server, KIND_MESSAGE, PLANES + 1);
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    bytes[4] = 0;
    raw_peer_send(&stranger, bytes, 12 + 2000, false);
    HG_CHECK_OK(conform_wait(&server.end, &recv));
    HG_CHECK_EQ_U64(recv.size, 2000);
    conform_free_addr(&server.end, &recv);
    checks_close(&server, &stranger);
}

/* Both sides say BYE at the same time. */
HG_TEST(crossing_bye_is_answered)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv, end;
    unsigned char bytes[64];

    checks_open(&server, &stranger);
    raw_peer_join(&stranger, server.name + 4);
    checks_receive(&server, &stranger, &recv);
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(server.end.na_class, server.end.context,
        conform_ended, &end, recv.addr, &end.id));
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 12);
    HG_CHECK_EQ_INT(bytes[3], KIND_BYE);
    raw_peer_send(&stranger, bytes, raw_peer_header(bytes, KIND_BYE), false);
    HG_CHECK_EQ_U64(raw_peer_hear(&stranger, bytes, sizeof(bytes)), 12);
    HG_CHECK_EQ_INT(bytes[3], KIND_BYE_ACK);
    HG_CHECK_EQ_INT(end.ends, 0);
    raw_peer_send(
        &stranger, bytes, raw_peer_header(bytes, KIND_BYE_ACK), false);
    HG_CHECK_OK(conform_wait(&server.end, &end));
    conform_free_addr(&server.end, &recv);
    checks_close(&server, &stranger);
}

/* ---- A listener that breaks the rules ---- */

struct checks_listener {
    struct conform_end end; /* dials it */
    struct raw_peer words;  /* makes messages */
    void *context;
    void *socket;
    char name[128];
    struct conform_call lookup;
    bool ready; /* the handshake is finished */
    unsigned char id[32];
    int id_size;
    unsigned char hello[300];
    uint64_t refused[KIND_END]; /* so far */
};

/* The next message from the class that dials; returns its size. */
static size_t checks_hear(
    struct checks_listener *listener, unsigned char *bytes, size_t space)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while ((listener->id_size = zmq_recv(listener->socket, listener->id,
                sizeof(listener->id), ZMQ_DONTWAIT)) < 0) {
        HG_CHECK(endpoint_ms() < end);
        (void) conform_turn(listener->end.na_class, listener->end.context, 1);
    }
    return (size_t) zmq_recv(listener->socket, bytes, space, 0);
}

static void checks_send(struct checks_listener *listener, const void *bytes,
    size_t size, unsigned parts)
{
    HG_CHECK(zmq_send(listener->socket, listener->id,
                 (size_t) listener->id_size, ZMQ_SNDMORE) > 0);
    while (parts-- > 0)
        HG_CHECK(zmq_send(listener->socket, bytes, size,
                     parts > 0 ? ZMQ_SNDMORE : 0) == (int) size);
}

/* The class dials, and its HELLO was read. */
static void checks_meet(struct checks_listener *listener)
{
    memset(&listener->lookup, 0, sizeof(listener->lookup));
    HG_CHECK_OK(NA_Addr_lookup(listener->end.na_class, listener->end.context,
        conform_ended, &listener->lookup, listener->name,
        &listener->lookup.id));
    HG_CHECK_EQ_U64(
        checks_hear(listener, listener->hello, sizeof(listener->hello)), 28);
}

/* Send a message that must be refused and counted as of this kind. Before the
 * handshake is finished, it ends the lookup; the class dials again. */
static void checks_send_wrong(struct checks_listener *listener, unsigned kind,
    const void *bytes, size_t size, unsigned parts)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    uint64_t want = ++listener->refused[kind];

    checks_send(listener, bytes, size, parts);
    while (raw_peer_refused(listener->end.na_class, kind) < want) {
        HG_CHECK(endpoint_ms() < end);
        (void) conform_turn(listener->end.na_class, listener->end.context, 1);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(listener->end.na_class, kind), want);
    if (listener->ready)
        return;
    HG_CHECK_RET(
        conform_wait(&listener->end, &listener->lookup), NA_PROTOCOL_ERROR);
    checks_meet(listener);
}

/* Of each kind: messages that are always wrong, and those that are wrong from a
 * listener. */
static void checks_send_all_wrong(struct checks_listener *listener)
{
    unsigned char bytes[256];
    unsigned kind;
    size_t size;

    for (kind = 0; kind < KIND_END; kind++) {
        size = raw_peer_make(&listener->words, bytes, kind);
        checks_send_wrong(listener, kind, bytes, 11, 1);
        checks_send_wrong(listener, kind, bytes, size, 3);
        if (kind == KIND_FRAME || kind == KIND_MESSAGE || kind == KIND_PROBE)
            continue;
        checks_send_wrong(listener, kind, bytes, size + 1, 1);
        if (kind != KIND_BYE && kind != KIND_GRANT)
            checks_send_wrong(listener, kind, bytes, size, 1);
    }
    size = raw_peer_make(&listener->words, bytes, KIND_MESSAGE);
    bytes[0] = 'H';
    checks_send_wrong(listener, KIND_MESSAGE, bytes, size, 1);
    bytes[0] = 'h';
    bytes[1] = 'Z';
    checks_send_wrong(listener, KIND_MESSAGE, bytes, size, 1);
    bytes[1] = 'z';
    bytes[4] = PLANES;
    checks_send_wrong(listener, KIND_MESSAGE, bytes, size, 1);
    bytes[4] = 0;
    checks_send_wrong(listener, KIND_MESSAGE, bytes, size, 2);
}

/* Answer the class's HELLO correctly, except for one byte. */
static size_t checks_welcome(
    const struct checks_listener *listener, unsigned char *bytes)
{
    (void) raw_peer_header(bytes, KIND_WELCOME);
    memset(bytes + 12, 0x11, 24);
    memcpy(bytes + 20, listener->hello + 20, 8);
    return 36;
}

HG_TEST(messages_of_listeners_are_checked)
{
    struct checks_listener listener;
    struct conform_call recv;
    char got[64];
    size_t size = sizeof(listener.name);
    unsigned char bytes[256];
    int zero = 0;

    memset(&listener, 0, sizeof(listener));
    listener.words.random = hg_test_seed();
    listener.context = zmq_ctx_new();
    listener.socket = zmq_socket(listener.context, ZMQ_ROUTER);
    (void) zmq_setsockopt(listener.socket, ZMQ_LINGER, &zero, sizeof(zero));
    HG_CHECK(zmq_bind(listener.socket, "tcp://127.0.0.1:*") == 0);
    HG_CHECK(zmq_getsockopt(listener.socket, ZMQ_LAST_ENDPOINT, listener.name,
                 &size) == 0);
    endpoint_open_with(&listener.end, "zmq+tcp://", 5000, 5000);
    checks_meet(&listener);
    /* Before the WELCOME, no other message is valid. */
    checks_send_all_wrong(&listener);
    (void) raw_peer_header(bytes, KIND_PROBE);
    checks_send_wrong(&listener, KIND_PROBE, bytes, 12, 1);
    (void) raw_peer_header(bytes, KIND_GRANT);
    checks_send_wrong(&listener, KIND_GRANT, bytes, 12, 1);
    (void) raw_peer_header(bytes, KIND_FRAME);
    checks_send_wrong(&listener, KIND_FRAME, bytes, 12, 2);
    size = checks_welcome(&listener, bytes);
    checks_send_wrong(&listener, KIND_WELCOME, bytes, size - 1, 1);
    (void) checks_welcome(&listener, bytes);
    checks_send_wrong(&listener, KIND_WELCOME, bytes, size + 1, 1);
    (void) checks_welcome(&listener, bytes);
    checks_send_wrong(&listener, KIND_WELCOME, bytes, size, 2);
    (void) checks_welcome(&listener, bytes);
    bytes[27] ^= 1;
    checks_send_wrong(&listener, KIND_WELCOME, bytes, size, 1);
    checks_send(&listener, bytes, checks_welcome(&listener, bytes), 1);
    HG_CHECK_OK(conform_wait(&listener.end, &listener.lookup));
    listener.ready = true;
    HG_CHECK_EQ_U64(checks_hear(&listener, bytes, sizeof(bytes)), 20);
    HG_CHECK_EQ_INT(bytes[3], KIND_CONFIRM);
    /* After it, a second WELCOME is wrong as well. */
    checks_send_all_wrong(&listener);
    size = checks_welcome(&listener, bytes);
    checks_send_wrong(&listener, KIND_WELCOME, bytes, size, 1);
    (void) raw_peer_header(bytes, KIND_MESSAGE);
    bytes[2] = 9;
    checks_send_wrong(&listener, KIND_MESSAGE, bytes, 12, 1);
    bytes[2] = 2;
    HG_CHECK_OK(conform_recv(&listener.end, &recv, false, got, sizeof(got), 0));
    checks_send(&listener, bytes, 12, 1);
    HG_CHECK_OK(conform_wait(&listener.end, &recv));
    HG_CHECK_EQ_U64(recv.size, 0);
    conform_free_addr(&listener.end, &recv);
    /* A PROBE may follow a BYE, as on ipc; a message may not. */
    checks_send(&listener, bytes, raw_peer_header(bytes, KIND_BYE), 1);
    HG_CHECK_EQ_U64(checks_hear(&listener, bytes, sizeof(bytes)), 12);
    HG_CHECK_EQ_INT(bytes[3], KIND_BYE_ACK);
    checks_send(&listener, bytes, raw_peer_header(bytes, KIND_PROBE), 1);
    (void) raw_peer_header(bytes, KIND_MESSAGE);
    checks_send_wrong(&listener, KIND_MESSAGE, bytes, 12, 1);
    HG_CHECK_EQ_U64(raw_peer_refused(listener.end.na_class, KIND_PROBE),
        listener.refused[KIND_PROBE]);
    conform_free_addr(&listener.end, &listener.lookup);
    conform_close(&listener.end);
    HG_CHECK(zmq_close(listener.socket) == 0);
    HG_CHECK(zmq_ctx_term(listener.context) == 0);
}

/* ---- Many peers ---- */

/* The table of routing ids grows twice, and all 150 peers can still call. */
HG_TEST(many_peers_are_known_while_their_table_grows)
{
    enum { PEERS = 150 };
    static struct raw_peer strangers[PEERS];
    na_addr_t addrs[PEERS];
    struct attacked server;
    struct conform_call recv;
    unsigned i, j;

    checks_open(&server, &strangers[0]);
    for (i = 0; i < PEERS; i++) {
        strangers[i] = strangers[0];
        raw_peer_join(&strangers[i], server.name + 4);
        checks_receive(&server, &strangers[i], &recv);
        addrs[i] = recv.addr;
        for (j = 0; j < i; j += 37) {
            checks_receive(&server, &strangers[j], &recv);
            HG_CHECK(recv.addr == addrs[j]);
            conform_free_addr(&server.end, &recv);
        }
    }
    for (i = 0; i < PEERS; i++) {
        checks_receive(&server, &strangers[i], &recv);
        HG_CHECK(recv.addr == addrs[i]);
        conform_free_addr(&server.end, &recv);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(server.end.na_class, KIND_MESSAGE), 0);
    for (i = 0; i < PEERS; i++)
        HG_CHECK_OK(NA_Addr_free(server.end.na_class, addrs[i]));
    for (i = 1; i < PEERS; i++)
        raw_peer_hang_up(&strangers[i]);
    checks_close(&server, &strangers[0]);
}

/* The table of endpoints grows twice, and each name can be looked up again. */
HG_TEST(many_endpoints_are_known_while_their_table_grows)
{
    enum { NAMES = 150 };
    struct conform_end server, client;
    na_addr_t addrs[NAMES], again;
    char own[NA_MAX_ADDR_LEN], name[NA_MAX_ADDR_LEN];
    unsigned i;

    endpoint_open(&server, "zmq+tcp://0.0.0.0", 1000);
    endpoint_name(&server, server.self, own);
    endpoint_open(&client, "zmq+tcp://", 1000);
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "zmq+tcp://127.0.0.%u%s", i + 1,
            strrchr(own, ':'));
        addrs[i] = endpoint_lookup_both(&client, &server, name);
    }
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "zmq+tcp://127.0.0.%u%s", i + 1,
            strrchr(own, ':'));
        again = endpoint_lookup_both(&client, &server, name);
        HG_CHECK(again == addrs[i]);
        HG_CHECK_OK(NA_Addr_free(client.na_class, again));
        HG_CHECK_OK(NA_Addr_free(client.na_class, addrs[i]));
    }
    conform_close(&client);
    conform_close(&server);
}
