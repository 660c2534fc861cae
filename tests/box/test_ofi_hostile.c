/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport under attack: noise, random mistakes in messages,
 * floods, forged addresses and forged descriptions of memory. A good client is
 * served all the time.
 */
#include "ofi_raw_peer.h"

#include <sys/socket.h>

static void hostile_open(struct attacked *server, struct raw_peer *hostile)
{
    attacked_open(server, "ofi+tcp://127.0.0.1");
    raw_peer_init(hostile, attacked_turn, server);
    raw_peer_dial(hostile, server->name);
}

static void hostile_close(struct attacked *server, struct raw_peer *hostile)
{
    attacked_serve(server);
    raw_peer_fini(hostile);
    attacked_close(server);
}

/* ---- Random mistakes ---- */

/* A message with a mistake: a flipped bit, a wrong length, random bytes; or a
 * correct message at a wrong time. */
static void hostile_send_wrong(struct raw_peer *hostile, unsigned kind)
{
    unsigned char bytes[256];
    size_t size = raw_peer_make(hostile, bytes, kind);
    uint64_t how = raw_peer_random(hostile);

    switch (how % 6) {
    case 0:
        bytes[how / 8 % size] ^= (unsigned char) (1u << (how >> 40 & 7));
        break;
    case 1: size = 1 + how / 8 % size; break;
    case 2:
        memset(bytes + size, 0x5a, 32);
        size += how / 8 % 32;
        break;
    case 3:
        size = 1 + how / 8 % 128;
        raw_peer_noise(hostile, bytes, size);
        break;
    case 4: /* after a correct header */
        size = 1 + how / 8 % 128;
        raw_peer_noise(hostile, bytes, size);
        (void) raw_peer_header(bytes, kind, hostile->token);
        size += HEADER;
        break;
    default: break;
    }
    /* A forged address must not belong to another peer. */
    if (size >= HEADER + INTRO + 1 + RAW &&
        (bytes[3] == KIND_HELLO || bytes[3] == KIND_WELCOME))
        memcpy(bytes + HEADER + INTRO + 1, hostile->raw, RAW);
    raw_peer_send(hostile, bytes, size);
}

HG_TEST(good_client_is_served_beside_random_messages)
{
    struct attacked server;
    struct raw_peer hostile;
    unsigned round, kind, i;

    hg_test_allow_log("");
    hostile_open(&server, &hostile);
    for (round = 0; round < 30; round++) {
        raw_peer_start_anew(&hostile);
        if (round % 2 == 0)
            raw_peer_greet(&hostile);
        for (i = 0; i < 10; i++) {
            for (kind = 0; kind <= KIND_END; kind++)
                hostile_send_wrong(&hostile, kind);
            raw_peer_ignore(&hostile);
        }
        attacked_serve(&server);
    }
    HG_CHECK(raw_peer_refused(&server) > 300);
    /* The bytes sent leave no state behind: the raw peer can become a good
     * peer. */
    raw_peer_start_anew(&hostile);
    raw_peer_greet(&hostile);
    hostile_close(&server, &hostile);
}

/* Bytes of the provider's protocol, on a raw connection. */
HG_TEST(bytes_on_a_raw_connection_are_harmless)
{
    struct attacked server;
    uint64_t random = hg_test_seed();
    struct sockaddr_in in;
    unsigned i;

    hg_test_allow_log("");
    attacked_open(&server, "ofi+tcp://127.0.0.1");
    raw_peer_raw_of((unsigned char *) &in, server.name);
    for (i = 0; i < 40; i++) {
        unsigned char bytes[512];
        size_t size = hg_test_random(&random) % sizeof(bytes);
        size_t j;
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        HG_CHECK(fd >= 0);
        HG_CHECK(connect(fd, (struct sockaddr *) &in, sizeof(in)) == 0);
        for (j = 0; j < size; j++)
            bytes[j] = (unsigned char) hg_test_random(&random);
        (void) send(fd, bytes, size, MSG_NOSIGNAL);
        if (i % 4 == 0)
            attacked_serve(&server);
        (void) close(fd);
    }
    attacked_serve(&server);
    attacked_close(&server);
}

/* ---- Forged addresses ---- */

/* The client asks and gets an answer: both still reach each other. */
static void hostile_both_ways(struct attacked *server)
{
    struct conform_call ask, answer;
    char question[8], got[8];

    HG_CHECK_OK(endpoint_post(
        &server->good, &answer, got, sizeof(got), server->addr, 7));
    HG_CHECK_OK(
        conform_recv(&server->end, &ask, false, question, sizeof(question), 0));
    HG_CHECK_OK(endpoint_send(&server->good, server->addr, false, "ask", 4, 6));
    HG_CHECK_OK(endpoint_wait_both(&server->good, &server->end, &ask));
    HG_CHECK_OK(endpoint_send(&server->end, ask.addr, true, "answer", 7, 7));
    HG_CHECK_OK(endpoint_wait_both(&server->good, &server->end, &answer));
    HG_CHECK_EQ_STR(got, "answer");
    conform_free_addr(&server->end, &ask);
}

/* A HELLO names the endpoint of a good client. That client gets an unsolicited
 * WELCOME, and nothing else changes, not even when the forged peer is
 * dropped. */
HG_TEST(forged_address_does_not_affect_its_owner)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer hostile;
    unsigned char bytes[128], raw[RAW];
    char name[NA_MAX_ADDR_LEN];
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned i;

    hg_test_expect_log(
        "from an unknown peer: it does not answer a HELLO of this class");
    hg_test_expect_log("lost the peer");
    HG_CHECK_OK(HG_Set_log_level("debug"));
    info.death_ms = 2000;
    info.lookup_ms = 300;
    attacked_open_info(&server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(&hostile, attacked_turn, &server);
    raw_peer_dial(&hostile, server.name);
    hostile_both_ways(&server);
    endpoint_name(&server.good, server.good.self, name);
    raw_peer_raw_of(raw, name);
    for (i = 0; i < 20; i++) {
        raw_peer_start_anew(&hostile);
        raw_peer_send(&hostile, bytes,
            raw_peer_introduce(&hostile, bytes, KIND_HELLO, raw));
    }
    while (NA_Get_counter(server.good.na_class, "ofi_malformed") < 20 ||
        hg_test_log_count("lost the peer") < 20) {
        HG_CHECK(endpoint_ms() < end);
        attacked_turn(&server);
        (void) conform_turn(server.good.na_class, server.good.context, 0);
        if (i++ % 16 == 0)
            hostile_both_ways(&server);
    }
    hostile_both_ways(&server);
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 0);
    hostile_close(&server, &hostile);
}

/* A HELLO names the class itself: the class sends itself a WELCOME, and nothing
 * else happens. */
HG_TEST(forged_address_that_is_the_class_is_harmless)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer hostile;
    struct conform_call recv, send;
    unsigned char bytes[128], raw[RAW];
    char got[8];
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    hg_test_expect_log("lost the peer");
    HG_CHECK_OK(HG_Set_log_level("debug"));
    info.death_ms = 2000;
    info.lookup_ms = 300;
    attacked_open_info(&server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(&hostile, attacked_turn, &server);
    raw_peer_dial(&hostile, server.name);
    raw_peer_raw_of(raw, server.name);
    raw_peer_send(
        &hostile, bytes, raw_peer_introduce(&hostile, bytes, KIND_HELLO, raw));
    while (hg_test_log_count("lost the peer") == 0) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&hostile);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 1); /* the WELCOME */
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(conform_send(&server.end, &send, false, "self", 5, 1));
    HG_CHECK_OK(conform_wait(&server.end, &recv));
    HG_CHECK_EQ_STR(got, "self");
    HG_CHECK_OK(conform_wait(&server.end, &send));
    conform_free_addr(&server.end, &recv);
    hostile_close(&server, &hostile);
}

/* A process that looks a class up again and again makes it keep a limited
 * number of addresses. */
HG_TEST(lookups_from_one_address_are_limited)
{
    enum { ALIKE = 32 };
    struct attacked server;
    struct raw_peer hostile;
    unsigned char bytes[128];
    unsigned i;

    hg_test_expect_log("too many peers have its address");
    attacked_open(&server, "ofi+tcp://127.0.0.1");
    raw_peer_init(&hostile, attacked_turn, &server);
    raw_peer_dial(&hostile, server.name);
    for (i = 0; i < ALIKE; i++) {
        uint64_t incarnation = hostile.incarnation;

        raw_peer_start_anew(&hostile);
        if (i > 0)
            hostile.incarnation = incarnation;
        raw_peer_greet(&hostile);
        raw_peer_word(&hostile);
        attacked_serve(&server);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 0);
    hostile.token = 0;
    hostile.ours = raw_peer_random(&hostile);
    raw_peer_send_refused(&hostile, &server, bytes,
        raw_peer_make(&hostile, bytes, KIND_HELLO), "one HELLO more");
    attacked_serve(&server);
    hostile_close(&server, &hostile);
}

/* HELLOs of peers that do not exist are limited in number. The good client is
 * served meanwhile, and a new one after their timeout. */
HG_TEST(flood_of_hellos_is_limited)
{
    enum { LOOKUP_MS = 4000 };
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer hostile;
    struct conform_end client;
    unsigned char bytes[128], raw[RAW];
    na_addr_t addr;
    unsigned i;

    hg_test_expect_log("too many others have not finished the handshake");
    info.death_ms = 2000;
    info.lookup_ms = LOOKUP_MS;
    attacked_open_info(&server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(&hostile, attacked_turn, &server);
    raw_peer_dial(&hostile, server.name);
    for (i = 0; raw_peer_refused(&server) < 10; i++) {
        HG_CHECK(i < 20000);
        raw_peer_start_anew(&hostile);
        raw_peer_raw(raw, 2 + i % 8); /* no process listens on these */
        raw_peer_send(&hostile, bytes,
            raw_peer_introduce(&hostile, bytes, KIND_HELLO, raw));
        if (i % 64 == 0)
            attacked_serve(&server);
    }
    HG_CHECK(i > 1000);
    attacked_serve(&server);
    endpoint_open_client(&client, &server.end, NULL);
    addr = endpoint_lookup_both(&client, &server.end, server.name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    hostile_close(&server, &hostile);
}

/* Peers that prove themselves and then stay silent: each is dead after the
 * timeout that it announced, and is no longer counted. */
HG_TEST(silent_peers_are_dropped)
{
    enum { PEERS = 200 };
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct attacked server;
    struct raw_peer hostile;
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned i;

    hg_test_expect_log("lost the peer");
    HG_CHECK_OK(HG_Set_log_level("debug"));
    info.death_ms = 300;
    attacked_open_info(&server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(&hostile, attacked_turn, &server);
    raw_peer_dial(&hostile, server.name);
    for (i = 0; i < PEERS; i++) {
        raw_peer_start_anew(&hostile);
        raw_peer_greet(&hostile);
        raw_peer_word(&hostile);
    }
    while (hg_test_log_count("lost the peer") < PEERS) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&hostile);
    }
    hostile_close(&server, &hostile);
}

/* ---- Forged descriptions of memory ---- */

enum { MEMORY = 4096, DESCRIPTION = 16 + 24 };

static void hostile_no_handle(const struct conform_end *end,
    const unsigned char *bytes, size_t size, const char *what)
{
    uint64_t before = NA_Get_counter(end->na_class, "rma_malformed");
    na_mem_handle_t mem;
    na_return_t ret =
        NA_Mem_handle_deserialize(end->na_class, &mem, bytes, size);

    if (ret != NA_PROTOCOL_ERROR)
        hg_test_fail(HG_TEST_HERE, "%s: %d", what, (int) ret);
    HG_CHECK_EQ_U64(NA_Get_counter(end->na_class, "rma_malformed"), before + 1);
}

static void hostile_no_field(const struct conform_end *end,
    const unsigned char good[DESCRIPTION], unsigned at, unsigned size,
    uint64_t value, const char *what)
{
    unsigned char bytes[2 * DESCRIPTION];

    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, good, DESCRIPTION);
    raw_peer_put(bytes + at, size, value);
    hostile_no_handle(end, bytes, DESCRIPTION, what);
}

HG_TEST(description_with_a_wrong_field_is_refused)
{
    struct conform_end end;
    unsigned char bytes[DESCRIPTION + 24];
    static unsigned char memory[MEMORY];
    na_mem_handle_t mem, remote;
    unsigned i;

    hg_test_allow_log("these");
    endpoint_open(&end, "ofi+tcp://127.0.0.1", 1000);
    mem = endpoint_register(&end, memory, sizeof(memory));
    HG_CHECK_EQ_U64(
        NA_Mem_handle_get_serialize_size(end.na_class, mem), DESCRIPTION);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(end.na_class, bytes, sizeof(bytes), mem));
    for (i = 0; i < DESCRIPTION; i++)
        hostile_no_handle(&end, bytes, i, "a short description");
    hostile_no_field(&end, bytes, 0, 1, 'H', "another magic");
    hostile_no_field(&end, bytes, 1, 1, 'o', "another magic");
    hostile_no_field(&end, bytes, 2, 1, 2, "another version");
    hostile_no_field(&end, bytes, 3, 1, 0, "no permission");
    hostile_no_field(&end, bytes, 3, 1, 4, "an unknown permission");
    hostile_no_field(&end, bytes, 4, 1, 8, "a raw key");
    hostile_no_field(&end, bytes, 5, 1, 1, "a reserved byte");
    hostile_no_field(&end, bytes, 6, 1, 1, "a reserved byte");
    hostile_no_field(&end, bytes, 7, 1, 1, "a reserved byte");
    hostile_no_field(&end, bytes, 12, 4, 1, "reserved bytes");
    hostile_no_field(&end, bytes, 8, 4, 2, "a segment too many");
    hostile_no_field(&end, bytes, 8, 4, 0xffffffff, "the largest count");
    hostile_no_field(&end, bytes, 24, 8, 0, "an empty segment");
    hostile_no_field(&end, bytes, 16, 8, UINT64_MAX - MEMORY + 2,
        "a segment past the last address");
    /* Two segments whose total size is too large. */
    memcpy(bytes + DESCRIPTION, bytes + 16, 24);
    raw_peer_put(bytes + 8, 4, 2);
    raw_peer_put(bytes + 24, 8, UINT64_MAX - MEMORY + 1);
    hostile_no_handle(&end, bytes, sizeof(bytes), "sizes that wrap around");
    raw_peer_put(bytes + 24, 8, MEMORY);
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(end.na_class, &remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    conform_close(&end);
}
