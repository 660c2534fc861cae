/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeroMQ transport with hostile peers: a bare libzmq socket that completes
 * libzmq's handshake and sends anything, from noise to messages with one
 * flipped bit, in any state of the protocol; listeners that answer wrongly; and
 * bytes on the raw TCP connection. A good client is served all the time, and
 * every kind of message is refused at least once.
 */
#include "zmq_raw_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The message with a mistake: a flipped bit, the length, the number of
 * parts. */
static void hostile_send_wrong(struct raw_peer *hostile, unsigned kind)
{
    unsigned char bytes[256];
    size_t size = raw_peer_make(hostile, bytes, kind);
    uint64_t how = raw_peer_random(hostile);
    unsigned parts = 0;

    switch (how % 7) {
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
        size = how / 8 % 64;
        raw_peer_noise(hostile, bytes, size);
        break;
    case 5: /* parts in the wrong order */
        raw_peer_send(hostile, bytes + 4, size - 4, true);
        break;
    default: break; /* correct, but at a wrong time */
    }
    while (parts > 0) {
        raw_peer_send(hostile, bytes, size, true);
        parts--;
    }
    raw_peer_send(hostile, bytes, size, false);
}

/* Hang up while the class may end the connection: libzmq aborts if that happens
 * in the middle of a message, unless it sends the rest. */
static void hostile_leave(struct raw_peer *hostile)
{
    int always = -1;

    (void) zmq_setsockopt(hostile->socket, ZMQ_LINGER, &always, sizeof(always));
    raw_peer_hang_up(hostile);
}

static uint64_t hostile_refused(struct attacked *server, unsigned kind)
{
    return raw_peer_refused(server->end.na_class, kind);
}

/* Connect as a peer that is unknown, greeted, or confirmed. */
static void hostile_come(
    struct raw_peer *hostile, const struct attacked *server, unsigned how)
{
    raw_peer_dial(hostile, server->name + 4);
    if (how >= 1)
        raw_peer_greet(hostile);
    if (how >= 2)
        raw_peer_confirm(hostile);
}

/* Of each kind, messages that are wrong in any state: truncated, or of 3 to 5
 * parts. Each is refused, whatever the random state. In the states before the
 * confirmation it ends its connection. */
static void hostile_send_all_kinds(
    struct raw_peer *hostile, struct attacked *server, unsigned how)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned char bytes[256];
    unsigned kind, parts, i;

    for (kind = 0; kind < KIND_END; kind++) {
        for (parts = 2; parts <= 5; parts++) {
            uint64_t before = hostile_refused(server, kind);
            size_t size = raw_peer_make(hostile, bytes, kind);

            if (parts == 2) /* short, and of one part */
                raw_peer_send(hostile, bytes, 11, false);
            for (i = 1; parts > 2 && i <= parts; i++)
                raw_peer_send(hostile, bytes, size, i < parts);
            while (hostile_refused(server, kind) == before) {
                HG_CHECK(endpoint_ms() < end);
                attacked_turn(server);
            }
            HG_CHECK_EQ_U64(hostile_refused(server, kind), before + 1);
            if (how == 2)
                continue;
            hostile_leave(hostile);
            hostile_come(hostile, server, how);
        }
    }
}

static void hostile_attack(const char *string)
{
    struct attacked server;
    struct raw_peer hostile;
    unsigned round, kind, i;

    hg_test_allow_log("");
    raw_peer_init(&hostile, attacked_turn, &server);
    attacked_open(&server, string);
    for (round = 0; round < 3; round++) {
        hostile_come(&hostile, &server, round);
        hostile_send_all_kinds(&hostile, &server, round);
        attacked_serve(&server);
        hostile_leave(&hostile);
    }
    /* Random messages. Every other round, no BYE ends it early. */
    for (round = 0; round < 24; round++) {
        unsigned kinds = round % 2 == 0 ? KIND_END + 1 : KIND_BYE;

        hostile_come(&hostile, &server, round % 3);
        for (i = 0; i < 20; i++) {
            for (kind = 0; kind < kinds; kind++)
                hostile_send_wrong(&hostile, kind);
            /* A whole part shorter than a header; an empty part. */
            raw_peer_send(&hostile, "hz", i % 3, false);
        }
        attacked_serve(&server);
        hostile_leave(&hostile);
    }
    attacked_serve(&server);
    raw_peer_fini(&hostile);
    attacked_close(&server);
}

HG_TEST(messages_of_untrusted_peers_are_checked)
{
    hostile_attack("zmq+tcp://127.0.0.1");
}

HG_TEST(messages_of_untrusted_peers_are_checked_on_ipc)
{
    hostile_attack("zmq+ipc://*");
}

/* ---- Refusals of each kind ---- */

/* A class over tcp, and a raw peer that has dialed it. */
static void hostile_open(struct attacked *server, struct raw_peer *hostile)
{
    raw_peer_init(hostile, attacked_turn, server);
    attacked_open(server, "zmq+tcp://127.0.0.1");
    raw_peer_dial(hostile, server->name + 4);
}

static void hostile_close(struct attacked *server, struct raw_peer *hostile)
{
    raw_peer_hang_up(hostile);
    raw_peer_fini(hostile);
    attacked_close(server);
}

HG_TEST(messages_before_the_confirmation_are_refused)
{
    struct attacked server;
    struct raw_peer hostile;
    const int forever = -1;
    unsigned char bytes[256];
    size_t size;

    hg_test_expect_log(
        "a message (2 bytes, parts: 1) from an unknown peer, host "
        "127.0.0.1: it is shorter than a header (zmq_bad_other)");
    hg_test_expect_log(
        "its sender has not finished the handshake (zmq_bad_message)");
    hg_test_expect_log("it does not confirm the handshake (zmq_bad_confirm)");
    hg_test_expect_log("a second HELLO of this connection (zmq_bad_hello)");
    HG_CHECK_OK(HG_Set_log_level("debug")); /* so that every line is written */
    hostile_open(&server, &hostile);
    raw_peer_send(&hostile, "hz", 2, false);
    while (hostile_refused(&server, 0) == 0)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    /* It is greeted, but has not confirmed. */
    size = raw_peer_make(&hostile, bytes, KIND_MESSAGE);
    bytes[4] = 0;
    raw_peer_redial(&hostile, server.name + 4);
    raw_peer_greet(&hostile);
    raw_peer_send(&hostile, bytes, size, false);
    while (hostile_refused(&server, KIND_MESSAGE) == 0)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    /* A wrong nonce is not a confirmation; the right one is, once. */
    raw_peer_redial(&hostile, server.name + 4);
    raw_peer_greet(&hostile);
    hostile.nonce[0] ^= 1;
    raw_peer_confirm(&hostile);
    while (hostile_refused(&server, KIND_CONFIRM) == 0)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    /* A wrong nonce is refused behind the end of its connection, too. */
    raw_peer_redial(&hostile, server.name + 4);
    raw_peer_greet(&hostile);
    hostile.nonce[0] ^= 1;
    raw_peer_confirm(&hostile);
    HG_CHECK(zmq_setsockopt(
                 hostile.socket, ZMQ_LINGER, &forever, sizeof(forever)) == 0);
    raw_peer_hang_up(&hostile);
    endpoint_sleep(20); /* libzmq reports the end of the connection */
    while (hostile_refused(&server, KIND_CONFIRM) < 2)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    raw_peer_dial(&hostile, server.name + 4);
    raw_peer_greet(&hostile);
    raw_peer_confirm(&hostile);
    raw_peer_send(&hostile, bytes, size, false);
    raw_peer_confirm(&hostile);
    while (hostile_refused(&server, KIND_CONFIRM) < 3)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    HG_CHECK_EQ_U64(hostile_refused(&server, KIND_MESSAGE), 1);
    /* A second HELLO, and a plane that does not exist. */
    size = raw_peer_make(&hostile, bytes, KIND_HELLO);
    raw_peer_send(&hostile, bytes, size, false);
    size = raw_peer_make(&hostile, bytes, KIND_MESSAGE);
    bytes[4] = 3;
    raw_peer_send(&hostile, bytes, size, false);
    while (hostile_refused(&server, KIND_MESSAGE) < 2)
        (void) conform_turn(server.end.na_class, server.end.context, 1);
    HG_CHECK_EQ_U64(hostile_refused(&server, KIND_HELLO), 1);
    attacked_serve(&server);
    hostile_close(&server, &hostile);
}

/* A name that a HELLO gives is logged, so it must be printable. */
HG_TEST(hello_with_an_unprintable_name_is_refused)
{
    static const char *const names[] = {"zmq+tcp://a\nb:1", "zmq+tcp://a b:1",
        "zmq+tcp://\x7f:1", "zmq+tcp://\xc3\xa4:1", "zmq+ipc://a:1",
        "zmq+tcp://"};
    struct attacked server;
    struct raw_peer hostile;
    unsigned char bytes[256];
    uint64_t i;

    hg_test_expect_log("not a name that a listener can have (zmq_bad_hello)");
    hostile_open(&server, &hostile);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t size = raw_peer_make(&hostile, bytes, KIND_HELLO);

        memcpy(bytes + size, names[i], strlen(names[i]));
        raw_peer_send(&hostile, bytes, size + strlen(names[i]), false);
        while (hostile_refused(&server, KIND_HELLO) == i)
            (void) conform_turn(server.end.na_class, server.end.context, 1);
        raw_peer_redial(&hostile, server.name + 4);
    }
    attacked_serve(&server);
    hostile_close(&server, &hostile);
}

HG_TEST(hello_of_another_version_is_answered_with_our_version)
{
    struct attacked server;
    struct raw_peer hostile;
    unsigned char bytes[256];
    size_t size;
    int got;

    hostile_open(&server, &hostile);
    size = raw_peer_make(&hostile, bytes, KIND_HELLO);
    bytes[2] = 77;
    raw_peer_send(&hostile, bytes, size, false);
    do {
        (void) conform_turn(server.end.na_class, server.end.context, 1);
        got = zmq_recv(hostile.socket, bytes, sizeof(bytes), ZMQ_DONTWAIT);
    } while (got < 0);
    HG_CHECK_EQ_INT(got, 12);
    HG_CHECK_EQ_MEM(bytes, "hz\2\4", 4);
    hostile_close(&server, &hostile);
}

/* ---- Listeners that answer wrongly ---- */

struct hostile_listener {
    void *context;
    char name[128];
    unsigned version; /* version in the answer; 0: none */
    bool lies;        /* it answers with the nonce and number of the caller */
    pthread_t thread;
    _Atomic bool stop;
};

/* A ROUTER that answers every HELLO with a REFUSE of a version, with a WELCOME
 * with a wrong nonce, or with one that claims to be the caller. */
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
        unsigned char id[64], bytes[256], hello[16];
        int id_size = zmq_recv(socket, id, sizeof(id), 0);
        size_t answer;

        if (id_size < 0)
            continue;
        (void) zmq_recv(socket, bytes, sizeof(bytes), 0);
        memcpy(hello, bytes + 12, sizeof(hello)); /* number, nonce */
        answer = raw_peer_header(
            bytes, listener->version == 2 ? KIND_WELCOME : KIND_REFUSE);
        bytes[2] = (unsigned char) listener->version;
        memset(bytes + answer, 0x11, 24);
        if (listener->lies)
            memcpy(bytes + answer, hello, sizeof(hello));
        answer += listener->version == 2 ? 24 : 0;
        (void) zmq_send(socket, id, (size_t) id_size, ZMQ_SNDMORE);
        (void) zmq_send(socket, bytes, answer, 0);
    }
    (void) zmq_close(socket);
    return NULL;
}

static void hostile_listen(
    struct hostile_listener *listener, unsigned version, bool lies)
{
    memset(listener->name, 0, sizeof(listener->name));
    listener->lies = lies;
    listener->context = zmq_ctx_new();
    listener->version = version;
    atomic_init(&listener->stop, true);
    HG_CHECK(
        pthread_create(&listener->thread, NULL, hostile_answer, listener) == 0);
    while (atomic_load(&listener->stop))
        endpoint_sleep(1);
}

static void hostile_end_listening(struct hostile_listener *listener)
{
    atomic_store(&listener->stop, true);
    HG_CHECK(pthread_join(listener->thread, NULL) == 0);
    HG_CHECK(zmq_ctx_term(listener->context) == 0);
}

HG_TEST(listener_of_another_version_is_a_protocol_error)
{
    struct hostile_listener listener;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_expect_log("has version 9");
    hostile_listen(&listener, 9, false);
    endpoint_open(&end, "zmq+tcp://", 1000);
    HG_CHECK_RET(NA_Addr_lookup_wait(
                     end.na_class, listener.name, CONFORM_TIMEOUT, &addr),
        NA_PROTOCOL_ERROR);
    HG_CHECK(strstr(HG_Get_last_error_text(),
                 "cannot be reached: it has version 9") != NULL);
    conform_close(&end);
    hostile_end_listening(&listener);
}

HG_TEST(welcome_with_a_wrong_nonce_is_a_protocol_error)
{
    struct hostile_listener listener;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    hostile_listen(&listener, 2, false);
    endpoint_open(&end, "zmq+tcp://", 1000);
    HG_CHECK_RET(
        endpoint_lookup(&end, listener.name, &addr), NA_PROTOCOL_ERROR);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "zmq_bad_welcome"), 1);
    conform_close(&end);
    hostile_end_listening(&listener);
}

/* The caller could have connected to itself, since it listens. */
HG_TEST(listener_that_claims_to_be_the_class_is_a_protocol_error)
{
    struct hostile_listener listener;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_expect_log("it claims to be this class");
    hostile_listen(&listener, 2, true);
    endpoint_open(&end, "zmq+tcp://127.0.0.1", 1000);
    HG_CHECK_RET(
        endpoint_lookup(&end, listener.name, &addr), NA_PROTOCOL_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count("it claims to be this class"), 1);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "zmq_bad_welcome"), 1);
    conform_close(&end);
    hostile_end_listening(&listener);
}

/* ---- Bytes on the raw connection ---- */

HG_TEST(bytes_on_a_raw_connection_are_harmless)
{
    struct attacked server;
    struct sockaddr_in where;
    uint64_t random = hg_test_seed();
    unsigned i;

    hg_test_allow_log("");
    attacked_open(&server, "zmq+tcp://127.0.0.1");
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
            attacked_serve(&server);
        (void) close(fd);
    }
    attacked_serve(&server);
    attacked_close(&server);
}

/* ZMTP 1.0 and 2.0: libzmq would accept the name that follows, and abort if the
 * socket closes just then. */
HG_TEST(old_protocol_is_disconnected)
{
    static const struct {
        const char *bytes;
        size_t size;
    } old[] = {
        {"\3\0ab\2\0cdddddd", 12},                  /* unversioned */
        {"\377\0\0\0\0\0\0\0\1\177\0\5\0\2ab", 16}, /* 1.0 */
        {"\377\0\0\0\0\0\0\0\1\177\1\5\0\2ab", 16}, /* 2.0 */
    };
    struct attacked server;
    unsigned i;

    hg_test_allow_log("");
    attacked_open(&server, "zmq+tcp://127.0.0.1");
    for (i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        char bytes[64];
        struct timeval wait = {4, 0}; /* if accepted, it would last 10 s */
        int fd = raw_peer_connect(server.name);
        ssize_t got;

        HG_CHECK(
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0);

        HG_CHECK(send(fd, old[i].bytes, old[i].size, MSG_NOSIGNAL) ==
            (ssize_t) old[i].size);
        do /* its greeting, then the end */
            got = recv(fd, bytes, sizeof(bytes), 0);
        while (got > 0);
        HG_CHECK(got == 0 || errno == ECONNRESET);
        (void) close(fd);
    }
    attacked_serve(&server);
    attacked_close(&server);
}

/* ---- Many connections ---- */

/* For each line from the parent, opens as many more connections to the class;
 * closes all at the end. */
HG_TEST_ROLE(crowd)
{
    struct rlimit limit;
    char *line;

    HG_CHECK_EQ_INT(argc, 1);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 1024 ? limit.rlim_max : 1024;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((line = hg_test_read_parent()) != NULL) {
        unsigned long i = strtoul(line, NULL, 10);

        for (free(line); i > 0; i--)
            (void) raw_peer_connect(argv[0]);
        hg_test_write_parent("here");
    }
}

enum { HOSTILE_FDS = 300 };

/* The number of descriptors in use, found without opening one. */
static unsigned hostile_fds(void)
{
    unsigned count = 0;
    int fd;

    for (fd = 0; fd < HOSTILE_FDS; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* 600 raw peers connect, `each` at a time, where 300 descriptors are
 * available. */
static void hostile_many(const char *string, unsigned each)
{
    struct rlimit old, limit;
    struct attacked server;
    struct hg_test_peer *crowd;
    char line[16];
    unsigned came, before, fds;
    uint64_t end = endpoint_ms() + 2 * CONFORM_TIMEOUT;

    /* A line of the level error would fail the case: this is a warning. */
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    limit = old;
    limit.rlim_cur = HOSTILE_FDS;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    attacked_open(&server, string);
    crowd = hg_test_spawn("crowd", server.name, (char *) NULL);
    (void) snprintf(line, sizeof(line), "%u", each);
    before = hostile_fds();
    for (came = each; came <= 600; came += each) {
        hg_test_write_peer(crowd, line);
        free(hg_test_read_peer(crowd));
        /* Until each was accepted or refused, and some descriptors are free. */
        do {
            HG_CHECK(endpoint_ms() < end);
            attacked_turn(&server);
            fds = hostile_fds();
        } while (fds > HOSTILE_FDS - 30 ||
            fds + NA_Get_counter(server.end.na_class, "zmq_turned_away") <
                before + came);
    }
    while (NA_Get_counter(server.end.na_class, "zmq_turned_away") < 200) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
    }
    attacked_serve(&server);
    hg_test_stop(crowd);
    /* When the connections are closed, descriptors are free again. */
    while (hostile_fds() > 150) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
    }
    attacked_close(&server);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
}

HG_TEST_SECONDS(many_connections_leave_descriptors_to_the_process, 60)
{
    hostile_many("zmq+tcp://127.0.0.1", 600);
}

/* Few at a time: with all at once, libzmq 4.3.4 would end the process. */
HG_TEST_SECONDS(many_connections_leave_descriptors_to_the_process_on_ipc, 60)
{
    hostile_many("zmq+ipc://*", 10);
}

/* Blocks that may stay: envelopes kept for reuse, grown tables. */
enum { HOSTILE_KEPT = 300, HOSTILE_MANY = 150, HOSTILE_HELLOS = 5000 };

static void hostile_settle(struct attacked *server, int64_t blocks)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (hg_test_alloc_live() > blocks) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(server);
    }
}

/* Repeated HELLOs of one peer, and HELLOs of many peers that never confirm. */
HG_TEST_SECONDS(endless_hellos_leave_nothing, 60)
{
    static struct raw_peer strangers[HOSTILE_MANY];
    struct attacked server;
    unsigned char bytes[256];
    uint64_t end = endpoint_ms() + 2 * CONFORM_TIMEOUT;
    int64_t before;
    unsigned i, round;

    hg_test_alloc_install();
    hostile_open(&server, &strangers[0]);
    raw_peer_greet(&strangers[0]);
    raw_peer_confirm(&strangers[0]);
    before = hg_test_alloc_live();
    for (i = 0; i < HOSTILE_HELLOS; i++) {
        size_t size = raw_peer_make(&strangers[0], bytes, KIND_HELLO);

        raw_peer_send(&strangers[0], bytes, size, false);
    }
    while (hostile_refused(&server, KIND_HELLO) < HOSTILE_HELLOS) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
        HG_CHECK(hg_test_alloc_live() < before + HOSTILE_KEPT);
    }
    for (round = 0; round < 3; round++) {
        for (i = 1; i < HOSTILE_MANY; i++) {
            strangers[i] = strangers[0];
            raw_peer_dial(&strangers[i], server.name + 4);
            raw_peer_greet(&strangers[i]);
        }
        attacked_serve(&server);
        HG_CHECK(hg_test_alloc_live() >= before + HOSTILE_MANY - 1);
        for (i = 1; i < HOSTILE_MANY; i++)
            raw_peer_hang_up(&strangers[i]);
        hostile_settle(&server, before + HOSTILE_KEPT / 3);
    }
    attacked_serve(&server);
    hostile_close(&server, &strangers[0]);
}

/* ---- Floods ---- */

enum { FLOOD_QUEUE = 1 << 18, FLOOD_TAG = 1000000 };

/* Unsolicited messages of all planes. */
static void flood_send(struct raw_peer *flood, unsigned count)
{
    unsigned char bytes[64];
    unsigned i;

    for (i = 0; i < count; i++) {
        size_t size = raw_peer_header(bytes, KIND_MESSAGE);

        bytes[4] = (unsigned char) (i % 3);
        raw_peer_put(bytes + 8, 4, FLOOD_TAG + i);
        raw_peer_send(flood, bytes, size, false);
    }
}

static void flood_await(
    struct attacked *server, const struct conform_call *call)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (call->ends == 0) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(server);
    }
    HG_CHECK_OK(call->ret);
}

/* A peer that floods fills its own share, and loses its connection when it
 * ignores the window. Messages of others are kept for a receive that is posted
 * later. */
HG_TEST(flood_does_not_drop_messages_of_others)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer flood;
    struct conform_call recv, mark;
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    char got[256], marked[8];

    raw_peer_init(&flood, attacked_turn, &server);
    info.max_queue_bytes = FLOOD_QUEUE;
    attacked_open_info(&server, "zmq+tcp://127.0.0.1", &info);
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(endpoint_send(&server.good, server.addr, false, "me", 3, 1));
    flood_await(&server, &recv);
    HG_CHECK_OK(endpoint_post(
        &server.end, &mark, marked, sizeof(marked), recv.addr, 5));
    conform_free_addr(&server.end, &recv);
    raw_peer_join(&flood, server.name + 4);
    flood_send(&flood, FLOOD_QUEUE / 16);
    while (hostile_refused(&server, KIND_MESSAGE) == 0) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
    }
    HG_CHECK_OK(endpoint_send(&server.good, server.addr, false, "kept", 5, 2));
    HG_CHECK_OK(endpoint_send(&server.good, server.addr, true, "mark", 5, 5));
    flood_await(&server, &mark); /* all earlier messages have arrived, too */
    do {
        HG_CHECK_OK(
            conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
        flood_await(&server, &recv);
        conform_free_addr(&server.end, &recv);
    } while (recv.tag >= FLOOD_TAG);
    HG_CHECK_EQ_INT(recv.tag, 2);
    HG_CHECK_EQ_STR(got, "kept");
    hostile_close(&server, &flood);
}

/* A part past the largest limit is refused by libzmq: its sender is
 * disconnected. */
HG_TEST(message_past_the_largest_limit_is_refused)
{
    struct attacked server;
    struct raw_peer hostile;
    size_t size = (size_t) 17 << 20;
    unsigned char *bytes = endpoint_map(size);

    hostile_open(&server, &hostile);
    raw_peer_greet(&hostile);
    raw_peer_confirm(&hostile);
    (void) raw_peer_header(bytes, KIND_MESSAGE);
    raw_peer_send(&hostile, bytes, size, false);
    /* It dials again by itself, and is unknown now. */
    do {
        raw_peer_send(&hostile, bytes, 12, false);
        attacked_turn(&server);
    } while (hostile_refused(&server, KIND_MESSAGE) == 0);
    attacked_serve(&server);
    hostile_close(&server, &hostile);
    endpoint_unmap(bytes, size);
}

/* ---- A peer that reads nothing ---- */

/* One message fills the connection: the system reports it full early, and lets
 * one heartbeat pass after every message. */
enum { MUTE_DEATH = 400, MUTE_SIZE = 1 << 20 };

/* A raw peer without libzmq, which would read on and answer heartbeats. */
struct mute {
    struct attacked server; /* used for its good client only */
    struct raw_peer words;  /* used to build messages only */
    int fd;
    unsigned char heard[1024];
    size_t received_size;
};

static void mute_write(const struct mute *mute, const void *bytes, size_t size)
{
    HG_CHECK(write(mute->fd, bytes, size) == (ssize_t) size);
}

static void mute_send(struct mute *mute, unsigned kind)
{
    unsigned char bytes[256] = {0}; /* a short frame, the last of a message */
    size_t size = raw_peer_make(&mute->words, bytes + 2, kind);

    if (kind == KIND_MESSAGE)
        bytes[2 + 4] = 0; /* the unexpected plane */
    bytes[1] = (unsigned char) size;
    mute_write(mute, bytes, 2 + size);
}

/* Read until `mark` and the `size` bytes that belong to it were read. */
static void mute_receive(struct mute *mute, const char *mark, size_t size)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    const unsigned char *found = NULL;

    while (found == NULL || found + size > mute->heard + mute->received_size) {
        ssize_t got = recv(mute->fd, mute->heard + mute->received_size,
            sizeof(mute->heard) - mute->received_size, MSG_DONTWAIT);

        HG_CHECK(got != 0 && endpoint_ms() < end);
        mute->received_size += got > 0 ? (size_t) got : 0;
        attacked_turn(&mute->server);
        found = (const unsigned char *) memmem(
            mute->heard, mute->received_size, mark, strlen(mark));
    }
    memmove(mute->heard, found, size);
    mute->received_size = size;
}

/* Complete the handshakes, then never read again. */
static void mute_dial(struct mute *mute)
{
    static const unsigned char start[] = "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL";
    static const unsigned char ready[] =
        "\x04\x1c\5READY\13Socket-Type\0\0\0\6DEALER";
    unsigned char greeting[64] = {0};
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    (void) snprintf(where.sun_path, sizeof(where.sun_path), "%s",
        mute->server.name + strlen("zmq+ipc://"));
    mute->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    HG_CHECK(mute->fd >= 0);
    HG_CHECK(!connect(mute->fd, (struct sockaddr *) &where, sizeof(where)));
    memcpy(greeting, start, sizeof(start) - 1);
    mute_write(mute, greeting, sizeof(greeting));
    mute_write(mute, ready, sizeof(ready) - 1);
    mute_receive(mute, "\5READY", 6);
    mute_send(mute, KIND_HELLO);
    mute_receive(mute, "hz\2\2", 36);
    memcpy(mute->words.nonce, mute->heard + 28, 8);
    mute_send(mute, KIND_CONFIRM);
}

/* Open a class, connect the peer, and send it more than it reads. `recv` gets
 * the peer's address, and `last` ends when the class loses the peer. */
static void mute_begin(
    struct mute *mute, struct conform_call *recv, struct conform_call *last)
{
    static char flood[MUTE_SIZE], got[256], never[8];
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end *end = &mute->server.end;

    memset(mute, 0, sizeof(*mute));
    mute->words.random = hg_test_seed();
    info.death_ms = MUTE_DEATH;
    info.max_expected_size = MUTE_SIZE;
    endpoint_open_info(end, "zmq+ipc://*", NA_TRUE, &info);
    endpoint_name(end, end->self, mute->server.name);
    mute_dial(mute);
    HG_CHECK_OK(conform_recv(end, recv, false, got, sizeof(got), 0));
    mute_send(mute, KIND_MESSAGE);
    HG_CHECK_OK(conform_wait(end, recv));
    HG_CHECK_OK(endpoint_post(end, last, never, sizeof(never), recv->addr, 5));
    HG_CHECK_OK(NA_Msg_send_expected(end->na_class, end->context, NULL, NULL,
        flood, sizeof(flood), recv->addr, 5, NA_OP_ID_IGNORE));
}

/* The class loses the peer, which reads nothing. */
static void mute_end(
    struct mute *mute, struct conform_call *recv, struct conform_call *last)
{
    struct conform_end *end = &mute->server.end;

    HG_CHECK_RET(conform_wait(end, last), NA_DISCONNECT);
    HG_CHECK_EQ_U64(NA_Get_counter(end->na_class, "zmq_stalled"), 1);
    conform_free_addr(end, recv);
    conform_close(end);
    HG_CHECK(close(mute->fd) == 0);
}

/* A peer that sends something while a probe is in flight gets as much time
 * again, once: then it is dead, as any peer that reads nothing. */
HG_TEST(peer_that_reads_nothing_is_dead_although_it_sends)
{
    struct mute mute;
    struct conform_call recv, last;
    uint64_t begin;

    mute_begin(&mute, &recv, &last);
    begin = endpoint_ms();
    while (
        endpoint_ms() < begin + MUTE_DEATH / 2) /* a probe is sent after half */
        attacked_turn(&mute.server);
    mute_send(&mute, KIND_MESSAGE);
    mute_end(&mute, &recv, &last);
}

/* Every message of the peer gives it more time. */
HG_TEST(peer_that_reads_nothing_is_alive_while_it_sends)
{
    struct mute mute;
    struct conform_call recv, last;
    uint64_t begin;

    mute_begin(&mute, &recv, &last);
    begin = endpoint_ms();
    while (endpoint_ms() < begin + 3 * MUTE_DEATH) {
        mute_send(&mute, KIND_PROBE);
        attacked_turn(&mute.server);
        HG_CHECK_EQ_INT(last.ends, 0);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(mute.server.end.na_class, "zmq_stalled"), 0);
    mute_end(&mute, &recv, &last);
}
