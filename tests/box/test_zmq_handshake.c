/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes of the ZeroMQ transport that fail: routing ids that a peer claims,
 * peers that send no HELLO, wrong HELLOs. A good client is served meanwhile.
 */
#include "zmq_raw_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

/* ---- Routing ids that a peer claims ---- */

enum { CLAIMS = 8, CLAIM_SIZE = 5 };

/* The routing id that libzmq gives to the first peer of a ROUTER that is opened
 * with this state of the random numbers. */
static void claim_predict(char *state, size_t size, unsigned char *id)
{
    char name[64] = "";
    size_t name_size = sizeof(name);
    char *old = initstate(1, state, size);
    void *context = zmq_ctx_new();
    void *router = zmq_socket(context, ZMQ_ROUTER);
    void *dealer = zmq_socket(context, ZMQ_DEALER);

    HG_CHECK(zmq_bind(router, "tcp://127.0.0.1:*") == 0);
    HG_CHECK(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, name, &name_size) == 0);
    HG_CHECK(zmq_connect(dealer, name) == 0);
    HG_CHECK(zmq_send(dealer, "", 0, 0) == 0);
    HG_CHECK(zmq_recv(router, id, CLAIM_SIZE, 0) == CLAIM_SIZE);
    HG_CHECK(zmq_close(dealer) == 0 && zmq_close(router) == 0);
    HG_CHECK(zmq_ctx_term(context) == 0);
    (void) setstate(old);
}

/* The id after so many more peers. */
static void claim_next(
    unsigned char *id, const unsigned char *first, unsigned count)
{
    uint32_t number = (uint32_t) first[1] << 24 | (uint32_t) first[2] << 16 |
        (uint32_t) first[3] << 8 | first[4];
    unsigned i;

    number += count;
    id[0] = 0;
    for (i = 0; i < 4; i++)
        id[1 + i] = (unsigned char) (number >> 8 * (3 - i));
}

/* libzmq aborts the process if a peer has claimed the id that it gives next. */
static void claim_ids(const char *string)
{
    static char predicted[64], used[64];
    unsigned char first[CLAIM_SIZE], id[CLAIM_SIZE];
    struct attacked server;
    int fds[2 * CLAIMS];
    unsigned i;
    char *old;

    claim_predict(predicted, sizeof(predicted), first);
    old = initstate(1, used, sizeof(used));
    attacked_open(&server, string);
    (void) setstate(old);
    for (i = 0; i < CLAIMS; i++) {
        claim_next(id, first, i);
        fds[i] = raw_peer_shake(server.name, id, sizeof(id));
    }
    attacked_serve(&server);
    for (i = CLAIMS; i < 2 * CLAIMS; i++) {
        fds[i] = raw_peer_shake(server.name, "", 0);
        attacked_serve(&server);
    }
    for (i = 0; i < 2 * CLAIMS; i++)
        (void) close(fds[i]);
    attacked_close(&server);
}

HG_TEST(routing_ids_are_not_predictable)
{
    claim_ids("zmq+tcp://127.0.0.1");
}

HG_TEST(routing_ids_are_not_predictable_on_ipc)
{
    claim_ids("zmq+ipc://*");
}

HG_TEST(open_does_not_disturb_rand_of_the_application)
{
    struct conform_end end;
    long want;

    srandom(7);
    want = random();
    srandom(7);
    endpoint_open(&end, "zmq+tcp://127.0.0.1", 1000);
    HG_CHECK_EQ_INT(random(), want);
    conform_close(&end);
}

/* ---- Peers that send no HELLO ---- */

enum { SILENT_MS = 300 };

static void silent_open(struct attacked *server, const char *string)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.lookup_ms = SILENT_MS;
    attacked_open_info(server, string, &info);
}

struct silent_watch {
    struct attacked *server;
    int fd;
    uint64_t closed; /* time */
};

/* Wait for the end of the connection. Then wake the class. */
static void *silent_watch(void *arg)
{
    struct silent_watch *watch = (struct silent_watch *) arg;
    struct pollfd event = {watch->fd, POLLIN, 0};
    unsigned char bytes[256];

    do
        HG_CHECK(poll(&event, 1, -1) == 1);
    while (recv(watch->fd, bytes, sizeof(bytes), 0) > 0);
    watch->closed = endpoint_ms();
    HG_CHECK_OK(endpoint_send(
        &watch->server->good, watch->server->addr, false, "wake", 5, 1));
    return NULL;
}

/* The class closes the connection. For that it must wake up by itself. */
static void silent_until_closed(struct attacked *server, int fd)
{
    struct silent_watch watch = {server, fd, 0};
    uint64_t end = endpoint_ms() + 20 * (SILENT_MS + 500);
    struct conform_call recv;
    pthread_t thread;
    char got[256];

    HG_CHECK_OK(conform_recv(&server->end, &recv, false, got, sizeof(got), 0));
    HG_CHECK(pthread_create(&thread, NULL, silent_watch, &watch) == 0);
    while (recv.ends == 0)
        (void) conform_turn(
            server->end.na_class, server->end.context, 2 * CONFORM_TIMEOUT);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(watch.closed < end);
    conform_free_addr(&server->end, &recv);
    (void) close(fd);
}

static uint64_t silent_closed(const struct attacked *server)
{
    return NA_Get_counter(server->end.na_class, "zmq_silent");
}

/* A peer sends nothing. */
static void silent_peers(const char *string)
{
    struct attacked server;
    int fd;

    silent_open(&server, string);
    fd = raw_peer_shake(server.name, "", 0);
    silent_until_closed(&server, fd);
    HG_CHECK_EQ_U64(silent_closed(&server), 1);
    attacked_serve(&server); /* still by its old connection */
    attacked_close(&server);
}

HG_TEST(peer_without_hello_is_disconnected)
{
    silent_peers("zmq+tcp://127.0.0.1");
}

HG_TEST(peer_without_hello_is_disconnected_on_ipc)
{
    silent_peers("zmq+ipc://*");
}

/* Keep some thousand frames in flight, which are malformed. */
static void silent_flood(
    struct raw_peer *flood, const struct attacked *server, uint64_t *sent)
{
    enum { AHEAD = 50000 };
    uint64_t read = NA_Get_counter(server->end.na_class, "rma_malformed");
    unsigned char bytes[64];
    size_t size = raw_peer_header(bytes, KIND_FRAME);

    for (; *sent < read + AHEAD; ++*sent)
        raw_peer_send(flood, bytes, size, false);
}

/* Another peer sends faster than the class reads: there are always unread
 * messages. */
HG_TEST(peer_without_hello_is_disconnected_while_another_sends)
{
    uint64_t end = endpoint_ms() + 20 * (SILENT_MS + 500);
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer flood;
    uint64_t sent = 0;
    int fd;

    info.lookup_ms = SILENT_MS;
    attacked_open_info(&server, "zmq+tcp://127.0.0.1", &info);
    raw_peer_init(&flood, attacked_turn, &server);
    raw_peer_join(&flood, server.name + 4);
    fd = raw_peer_shake(server.name, "", 0);
    while (silent_closed(&server) == 0) {
        HG_CHECK(endpoint_ms() < end);
        silent_flood(&flood, &server, &sent);
        attacked_turn(&server);
    }
    (void) close(fd);
    raw_peer_hang_up(&flood);
    raw_peer_fini(&flood);
    attacked_close(&server);
}

/* The class makes no progress for longer than the limit, then finds 60 HELLOs,
 * which it reads in several rounds. */
HG_TEST(hello_that_is_read_late_is_accepted)
{
    enum { PEERS = 60 };
    struct attacked server;
    struct raw_peer words;
    int fds[PEERS];
    unsigned char bytes[256];
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned i;

    memset(&words, 0, sizeof(words));
    words.random = hg_test_seed();
    silent_open(&server, "zmq+tcp://127.0.0.1");
    for (i = 0; i < PEERS; i++)
        fds[i] = raw_peer_shake(server.name, "", 0);
    for (i = 0; i < 10; i++) { /* to read the monitor */
        endpoint_sleep(2);
        attacked_turn(&server);
    }
    for (i = 0; i < PEERS; i++)
        raw_peer_frame(fds[i], bytes, raw_peer_make(&words, bytes, KIND_HELLO));
    endpoint_sleep(2 * (SILENT_MS + 500));
    for (i = 0; i < PEERS; i++) {
        size_t heard = 0;

        while (memmem(bytes, heard, "hz\2\2", 4) == NULL) { /* WELCOME */
            ssize_t got = recv(
                fds[i], bytes + heard, sizeof(bytes) - heard, MSG_DONTWAIT);

            HG_CHECK(got != 0 && endpoint_ms() < end);
            heard += got > 0 ? (size_t) got : 0;
            attacked_turn(&server);
        }
    }
    HG_CHECK_EQ_U64(silent_closed(&server), 0);
    for (i = 0; i < PEERS; i++)
        (void) close(fds[i]);
    attacked_close(&server);
}

/* For each line from the parent, opens as many connections to the class, with
 * ZMTP's handshake, and keeps them. */
HG_TEST_ROLE(silent)
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
            (void) raw_peer_shake(argv[0], "", 0);
        hg_test_write_parent("here");
    }
}

/* 800 connections without HELLO, in a process limited to 300 descriptors. */
HG_TEST(peers_without_hello_hold_no_descriptors)
{
    struct rlimit old, limit;
    struct attacked server;
    struct hg_test_peer *peers;
    uint64_t end = endpoint_ms() + 2 * CONFORM_TIMEOUT;
    unsigned round;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    limit = old;
    limit.rlim_cur = 300;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    silent_open(&server, "zmq+tcp://127.0.0.1");
    peers = hg_test_spawn("silent", server.name, (char *) NULL);
    for (round = 1; round <= 4; round++) {
        hg_test_write_peer(peers, "200");
        free(hg_test_read_peer(peers));
        while (silent_closed(&server) < 200 * round) {
            HG_CHECK(endpoint_ms() < end);
            attacked_turn(&server);
        }
        attacked_serve(&server);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "zmq_turned_away"), 0);
    hg_test_stop(peers);
    attacked_close(&server);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
}

/* When descriptors run out, connections without HELLO are closed, the oldest
 * first: a client is served long before their timeout. */
HG_TEST(connections_without_hello_are_closed_for_others)
{
    struct rlimit old, limit;
    struct attacked server;
    struct conform_end client;
    struct hg_test_peer *peers;
    na_addr_t addr;
    uint64_t end = endpoint_ms() + 2 * CONFORM_TIMEOUT;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    unsigned came;

    hg_test_expect_log("new connections are rejected");
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    limit = old;
    limit.rlim_cur = 300;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    info.lookup_ms = 60000;
    info.death_ms = 60000; /* they answer no heartbeat */
    attacked_open_info(&server, "zmq+tcp://127.0.0.1", &info);
    peers = hg_test_spawn("silent", server.name, (char *) NULL);
    for (came = 10; came <= 400; came += 10) {
        hg_test_write_peer(peers, "10");
        free(hg_test_read_peer(peers));
        do {
            HG_CHECK(endpoint_ms() < end);
            attacked_turn(&server);
        } while (NA_Get_counter(server.end.na_class, "zmq_turned_away") + 260 <
            came);
    }
    HG_CHECK_EQ_U64(silent_closed(&server), 0);
    endpoint_open_client(&client, &server.end, NULL);
    addr = endpoint_lookup_both(&client, &server.end, server.name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    attacked_serve(&server);
    hg_test_stop(peers);
    attacked_close(&server);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
}
