/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport with messages that are wrong in one place: each is
 * refused, counted and logged, and a good client is served. Then wrong answers
 * to a lookup.
 */
#include "ofi_raw_peer.h"

#include <dirent.h>
#include <fcntl.h>

#define SHAKE_UNEXPECTED 2048u /* size of the largest message */
#define SHAKE_EXPECTED 6144u
#define SHAKE_SIZE (HEADER + INTRO + 1 + RAW) /* size of a HELLO */

static void shake_open(struct attacked *server, struct raw_peer *stranger)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    HG_CHECK_OK(HG_Set_log_level("debug")); /* so that every line is written */
    info.death_ms = 2000;
    info.max_unexpected_size = SHAKE_UNEXPECTED;
    info.max_expected_size = SHAKE_EXPECTED;
    attacked_open_info(server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(stranger, attacked_turn, server);
    raw_peer_dial(stranger, server->name);
}

static void shake_close(struct attacked *server, struct raw_peer *stranger)
{
    attacked_serve(server);
    raw_peer_fini(stranger);
    attacked_close(server);
}

/* Receive the next unexpected message, which must be this one. */
static void shake_expect(struct attacked *server, struct raw_peer *stranger,
    const void *bytes, size_t size)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    struct conform_call recv;
    char got[SHAKE_UNEXPECTED];

    HG_CHECK_OK(conform_recv(&server->end, &recv, false, got, sizeof(got), 0));
    while (recv.ends == 0) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(stranger);
    }
    HG_CHECK_OK(recv.ret);
    HG_CHECK_EQ_U64(recv.size, size);
    HG_CHECK_EQ_MEM(got, bytes, size);
    conform_free_addr(&server->end, &recv);
}

/* ---- Headers ---- */

HG_TEST(message_without_a_header_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[128];
    unsigned i;

    hg_test_expect_log("it is not a message of this transport");
    shake_open(&server, &stranger);
    for (i = 1; i < HEADER; i++) {
        (void) raw_peer_make(&stranger, bytes, KIND_MESSAGE);
        raw_peer_send_refused(&stranger, &server, bytes, i, "a short header");
    }
    for (i = 0; i < 2; i++) {
        (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
        bytes[i] ^= 1;
        raw_peer_send_refused(
            &stranger, &server, bytes, SHAKE_SIZE, "another magic");
    }
    for (i = 0; i < 256; i++) {
        (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
        bytes[3] = (unsigned char) i;
        if (i == 0 || i >= KIND_END)
            raw_peer_send_refused(
                &stranger, &server, bytes, SHAKE_SIZE, "an unknown kind");
    }
    /* All are refused for their headers, whatever their bodies. */
    HG_CHECK_EQ_U64(hg_test_log_count("it is not a message of this transport"),
        raw_peer_refused(&server));
    shake_close(&server, &stranger);
}

HG_TEST(message_of_an_unknown_peer_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[128];
    unsigned i;

    hg_test_expect_log("from an unknown peer: its sender is not a peer");
    shake_open(&server, &stranger);
    for (i = 0; i < 64; i++) {
        stranger.token = i == 0 ? 0 : raw_peer_random(&stranger);
        if (i >= 32) /* the low bits are an index of a table */
            stranger.token = (stranger.token << 24) | (i - 32);
        (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
        raw_peer_send_refused(
            &stranger, &server, bytes, HEADER, "a stranger's message");
    }
    stranger.token = 0;
    raw_peer_greet(&stranger);
    for (i = 0; i < 64; i++) { /* one bit is enough */
        (void) raw_peer_header(
            bytes, KIND_MESSAGE, stranger.token ^ UINT64_C(1) << i);
        raw_peer_send_refused(
            &stranger, &server, bytes, HEADER, "a message with a wrong token");
    }
    (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
    bytes[HEADER] = 'y';
    raw_peer_send(&stranger, bytes, HEADER + 1);
    shake_expect(&server, &stranger, "y", 1);
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 128);
    shake_close(&server, &stranger);
}

HG_TEST(message_of_a_wrong_plane_or_size_is_refused)
{
    static const unsigned limits[] = {
        SHAKE_UNEXPECTED, SHAKE_EXPECTED, SHAKE_UNEXPECTED};
    static unsigned char bytes[HEADER + SHAKE_EXPECTED + 1];
    unsigned char heard[RAW_PEER_ROOM];
    struct attacked server;
    struct raw_peer stranger;
    unsigned plane;

    hg_test_expect_log("there is no such plane");
    hg_test_expect_log("it is longer than the longest message");
    shake_open(&server, &stranger);
    for (plane = 0; plane < 3; plane++) { /* it ends the connection */
        raw_peer_greet(&stranger);
        memset(bytes, 7, sizeof(bytes));
        (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
        bytes[4] = (unsigned char) plane;
        raw_peer_send_refused(&stranger, &server, bytes,
            HEADER + limits[plane] + 1, "a message over its plane's limit");
        (void) raw_peer_receive_kind(&stranger, KIND_BYE, heard);
        raw_peer_start_anew(&stranger);
    }
    raw_peer_greet(&stranger);
    for (; plane < 256; plane++) {
        (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
        bytes[4] = (unsigned char) plane;
        raw_peer_send_refused(
            &stranger, &server, bytes, HEADER, "an unknown plane");
    }
    bytes[4] = 0;
    raw_peer_send(&stranger, bytes, HEADER + SHAKE_UNEXPECTED);
    shake_expect(&server, &stranger, bytes + HEADER, SHAKE_UNEXPECTED);
    shake_close(&server, &stranger);
}

/* The provider truncates it, and may close the connection. No receive buffer is
 * lost. */
HG_TEST(message_past_the_largest_limit_is_refused)
{
    static unsigned char bytes[RAW_PEER_LARGE];
    struct attacked server;
    struct raw_peer stranger;
    unsigned i;

    hg_test_expect_log("it is larger than the largest message");
    shake_open(&server, &stranger);
    for (i = 0; i < 20; i++) {
        raw_peer_fini(&stranger);
        raw_peer_init(&stranger, attacked_turn, &server);
        raw_peer_dial(&stranger, server.name);
        (void) raw_peer_header(bytes, KIND_MESSAGE, 0);
        raw_peer_send_refused(
            &stranger, &server, bytes, sizeof(bytes), "a very large message");
        attacked_serve(&server);
    }
    shake_close(&server, &stranger);
}

/* ---- Introductions ---- */

/* A HELLO with one mistake is refused; the corrected one is accepted. */
static void shake_wrong(struct attacked *server, struct raw_peer *stranger,
    unsigned at, unsigned size, uint64_t value, const char *what)
{
    unsigned char bytes[128];

    (void) raw_peer_make(stranger, bytes, KIND_HELLO);
    raw_peer_put(bytes + HEADER + at, size, value);
    raw_peer_send_refused(stranger, server, bytes, SHAKE_SIZE, what);
}

HG_TEST(introduction_with_a_wrong_field_is_refused)
{
    static unsigned char bytes[HEADER + SHAKE_EXPECTED];
    struct attacked server;
    struct raw_peer stranger;
    unsigned i;

    hg_test_expect_log("its introduction is malformed");
    shake_open(&server, &stranger);
    shake_wrong(&server, &stranger, 0, 8, 0, "incarnation 0");
    shake_wrong(&server, &stranger, 8, 8, 0, "token 0");
    shake_wrong(&server, &stranger, 20, 2, 0, "size 0");
    shake_wrong(&server, &stranger, 20, 2, RAW - 1, "a size that is small");
    shake_wrong(&server, &stranger, 20, 2, RAW + 1, "a size that is large");
    shake_wrong(&server, &stranger, 20, 2, 0xffff, "the largest size");
    shake_wrong(&server, &stranger, 22, 2, 0, "no endpoint");
    shake_wrong(&server, &stranger, 22, 2, 2, "an endpoint too many");
    shake_wrong(&server, &stranger, 22, 2, 0xffff, "the largest count");
    shake_wrong(
        &server, &stranger, 24, 1, 1, "another endpoint than the first");
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    raw_peer_put(bytes + HEADER + 25, 2, AF_INET6);
    memset(bytes + HEADER + 25 + 8, 1, 8); /* an address of that family */
    raw_peer_send_refused(
        &stranger, &server, bytes, SHAKE_SIZE, "an address of IPv6");
    shake_wrong(&server, &stranger, 25, 2, AF_UNSPEC, "no family");
    shake_wrong(&server, &stranger, 27, 2, 0, "port 0");
    shake_wrong(&server, &stranger, 29, 4, 0, "address 0.0.0.0");
    shake_wrong(&server, &stranger, 29, 1, 224, "a multicast address");
    shake_wrong(&server, &stranger, 29, 4, UINT32_MAX, "a broadcast address");
    /* Sizes that do not match the bytes: shorter, longer. */
    for (i = HEADER; i < SHAKE_SIZE; i++) {
        (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
        raw_peer_send_refused(
            &stranger, &server, bytes, i, "a short introduction");
    }
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    for (i = SHAKE_SIZE + 1; i < SHAKE_SIZE + 40; i++)
        raw_peer_send_refused(
            &stranger, &server, bytes, i, "an introduction and more");
    /* No endpoint, and no further bytes. */
    raw_peer_put(bytes + HEADER + 22, 2, 0);
    raw_peer_send_refused(
        &stranger, &server, bytes, HEADER + INTRO, "an empty introduction");
    raw_peer_greet(&stranger);
    shake_close(&server, &stranger);
}

/* A peer gets the number of the class with its first WELCOME. One that claims
 * this number is not the class itself. */
HG_TEST(peer_that_claims_to_be_the_class_is_another)
{
    unsigned char bytes[RAW_PEER_ROOM];
    struct conform_call recv;
    struct attacked server;
    struct raw_peer stranger;
    char got[8];

    shake_open(&server, &stranger);
    raw_peer_say(&stranger, KIND_HELLO);
    (void) raw_peer_receive_kind(&stranger, KIND_WELCOME, bytes);
    raw_peer_start_anew(&stranger);
    stranger.incarnation = raw_peer_get(bytes + HEADER, 8);
    raw_peer_greet(&stranger);
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    raw_peer_word(&stranger);
    while (recv.ends == 0)
        raw_peer_turn(&stranger);
    HG_CHECK(NA_Addr_cmp(server.end.na_class, recv.addr, recv.addr));
    HG_CHECK(!NA_Addr_cmp(server.end.na_class, recv.addr, server.end.self));
    HG_CHECK(!NA_Addr_cmp(server.end.na_class, server.end.self, recv.addr));
    conform_free_addr(&server.end, &recv);
    shake_close(&server, &stranger);
}

/* The largest number of further endpoints is accepted, one more is refused. */
HG_TEST(introduction_with_too_many_endpoints_is_refused)
{
    static unsigned char bytes[HEADER + INTRO + 257 * (1 + RAW)];
    struct attacked server;
    struct raw_peer stranger;
    unsigned char heard[RAW_PEER_ROOM];
    unsigned char *ends = bytes + HEADER + INTRO;
    unsigned i;

    hg_test_expect_log("its introduction is malformed");
    shake_open(&server, &stranger);
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    for (i = 1; i < 257; i++) {
        ends[i * (1 + RAW)] = (unsigned char) i;
        raw_peer_raw(ends + i * (1 + RAW) + 1, 1);
    }
    raw_peer_put(bytes + HEADER + 22, 2, 257);
    raw_peer_send_refused(
        &stranger, &server, bytes, sizeof(bytes), "257 endpoints");
    raw_peer_put(bytes + HEADER + 22, 2, 256);
    raw_peer_raw(ends + 255 * (1 + RAW) + 1, 0);
    raw_peer_send_refused(&stranger, &server, bytes, sizeof(bytes) - 1 - RAW,
        "a last endpoint of port 0");
    raw_peer_raw(ends + 255 * (1 + RAW) + 1, 1);
    raw_peer_send(&stranger, bytes, sizeof(bytes) - 1 - RAW);
    (void) raw_peer_receive_kind(&stranger, KIND_WELCOME, heard);
    shake_close(&server, &stranger);
}

/* An endpoint for each context, as many as fit into the largest message. */
#define SHAKE_FEW 512u /* size of that message */
#define SHAKE_FIT ((SHAKE_FEW - INTRO) / (1 + RAW))

HG_TEST(introduction_fits_the_largest_message)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_context_t *contexts[SHAKE_FIT + 2];
    const unsigned count = sizeof(contexts) / sizeof(contexts[0]);
    struct attacked server;
    struct raw_peer stranger;
    unsigned char heard[RAW_PEER_ROOM];
    unsigned i;

    info.max_unexpected_size = SHAKE_FEW;
    info.max_expected_size = SHAKE_FEW;
    attacked_open_info(&server, "ofi+tcp://127.0.0.1", &info);
    for (i = 0; i < count; i++) {
        contexts[i] = NA_Context_create(server.end.na_class);
        HG_CHECK(contexts[i] != NULL);
    }
    raw_peer_init(&stranger, attacked_turn, &server);
    raw_peer_dial(&stranger, server.name);
    raw_peer_say(&stranger, KIND_HELLO);
    HG_CHECK_EQ_U64(raw_peer_receive_kind(&stranger, KIND_WELCOME, heard),
        HEADER + INTRO + SHAKE_FIT * (1 + RAW));
    HG_CHECK_EQ_U64(raw_peer_get(heard + HEADER + 22, 2), SHAKE_FIT);
    for (i = 0; i < SHAKE_FIT; i++)
        HG_CHECK_EQ_INT(heard[HEADER + INTRO + i * (1 + RAW)], i);
    attacked_serve(&server);
    for (i = 0; i < count; i++)
        HG_CHECK_OK(NA_Context_destroy(server.end.na_class, contexts[i]));
    shake_close(&server, &stranger);
}

/* Send a byte from this context: it arrives without an introduction. */
static void shake_send(struct attacked *server, struct raw_peer *stranger,
    na_context_t *context, na_addr_t to)
{
    unsigned char heard[RAW_PEER_ROOM];
    struct conform_call send;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(server->end.na_class, context,
        conform_ended, &send, "x", 1, to, 1, &send.id));
    (void) raw_peer_hear(stranger, heard);
    HG_CHECK_EQ_INT(heard[3], KIND_MESSAGE);
    while (send.ends == 0)
        (void) conform_turn(server->end.na_class, context, 1);
    HG_CHECK_OK(send.ret);
}

HG_TEST(peer_learns_once_about_a_context_created_later)
{
    unsigned char heard[RAW_PEER_ROOM];
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv;
    na_context_t *context;
    char got[8];

    shake_open(&server, &stranger);
    raw_peer_greet(&stranger);
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    raw_peer_word(&stranger);
    while (recv.ends == 0)
        raw_peer_turn(&stranger);
    shake_send(&server, &stranger, server.end.context, recv.addr);
    context = NA_Context_create(server.end.na_class);
    HG_CHECK(context != NULL);
    (void) raw_peer_hear(&stranger, heard);
    HG_CHECK_EQ_INT(heard[3], KIND_WELCOME);
    HG_CHECK_EQ_U64(raw_peer_get(heard + HEADER + 22, 2), 2);
    shake_send(&server, &stranger, server.end.context, recv.addr);
    shake_send(&server, &stranger, context, recv.addr);
    conform_free_addr(&server.end, &recv);
    HG_CHECK_OK(NA_Context_destroy(server.end.na_class, context));
    shake_close(&server, &stranger);
}

/* ---- Repeated HELLO, BYE, WELCOME ---- */

/* The answer goes to the first endpoint that the HELLO names. The endpoint that
 * the HELLO claims to come from may belong to another peer. */
HG_TEST(first_endpoint_of_a_hello_is_answered)
{
    unsigned char bytes[RAW_PEER_ROOM];
    struct attacked server;
    struct raw_peer stranger, victim;
    size_t size;
    unsigned i;

    shake_open(&server, &stranger);
    raw_peer_init(&victim, attacked_turn, &server);
    size = raw_peer_introduce(&stranger, bytes, KIND_HELLO, stranger.raw);
    bytes[6] = 1; /* the claimed source */
    raw_peer_put(bytes + HEADER + 22, 2, 2);
    bytes[size] = 1;
    memcpy(bytes + size + 1, victim.raw, RAW);
    raw_peer_send(&stranger, bytes, size + 1 + RAW);
    (void) raw_peer_receive_kind(&stranger, KIND_WELCOME, bytes);
    for (i = 0; i < 1000; i++)
        raw_peer_turn(&victim);
    HG_CHECK_EQ_U64(victim.got, 0);
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 0);
    raw_peer_fini(&victim);
    shake_close(&server, &stranger);
}

/* Whether the HELLO is answered late or was sent twice, the answer is the same,
 * and it remains one peer. */
HG_TEST(repeated_hello_gets_the_same_welcome)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recvs[2];
    char got[2][8];
    uint64_t token;
    unsigned i;

    shake_open(&server, &stranger);
    raw_peer_greet(&stranger);
    token = stranger.token;
    stranger.token = 0;
    raw_peer_greet(&stranger);
    HG_CHECK_EQ_U64(stranger.token, token);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(conform_recv(
            &server.end, &recvs[i], false, got[i], sizeof(got[i]), 0));
    raw_peer_word(&stranger);
    while (recvs[0].ends == 0)
        raw_peer_turn(&stranger);
    stranger.token = 0; /* a HELLO that the message overtook */
    raw_peer_greet(&stranger);
    HG_CHECK_EQ_U64(stranger.token, token);
    raw_peer_greet(&stranger); /* a keep-alive */
    HG_CHECK_EQ_U64(stranger.token, token);
    raw_peer_word(&stranger);
    while (recvs[1].ends == 0)
        raw_peer_turn(&stranger);
    HG_CHECK(recvs[0].addr == recvs[1].addr);
    for (i = 0; i < 2; i++)
        conform_free_addr(&server.end, &recvs[i]);
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 0);
    shake_close(&server, &stranger);
}

HG_TEST(bye_with_a_body_is_refused_and_bye_of_an_unknown_peer_is_ignored)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recv, dead;
    unsigned char bytes[128];
    char got[8], never[8];

    hg_test_expect_log("a BYE with a body");
    shake_open(&server, &stranger);
    (void) raw_peer_header(bytes, KIND_BYE, 0);
    raw_peer_send(&stranger, bytes, HEADER);
    (void) raw_peer_header(bytes, KIND_BYE, raw_peer_random(&stranger));
    raw_peer_send(&stranger, bytes, HEADER);
    raw_peer_greet(&stranger);
    (void) raw_peer_header(bytes, KIND_BYE, stranger.token);
    raw_peer_send_refused(
        &stranger, &server, bytes, HEADER + 1, "a BYE with a body");
    /* The sender is still a peer: then it sends a correct one. */
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    raw_peer_word(&stranger);
    while (recv.ends == 0)
        raw_peer_turn(&stranger);
    HG_CHECK_OK(
        endpoint_post(&server.end, &dead, never, sizeof(never), recv.addr, 1));
    raw_peer_send(&stranger, bytes, HEADER);
    while (dead.ends == 0)
        raw_peer_turn(&stranger);
    HG_CHECK_RET(dead.ret, NA_DISCONNECT);
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 1);
    (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
    raw_peer_send_refused(
        &stranger, &server, bytes, HEADER, "a message after BYE");
    conform_free_addr(&server.end, &recv);
    shake_close(&server, &stranger);
}

HG_TEST(unsolicited_welcome_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[128];

    hg_test_expect_log("it does not answer a HELLO of this class");
    shake_open(&server, &stranger);
    (void) raw_peer_make(&stranger, bytes, KIND_WELCOME);
    raw_peer_send_refused(
        &stranger, &server, bytes, SHAKE_SIZE, "a stranger's WELCOME");
    raw_peer_greet(&stranger);
    (void) raw_peer_make(&stranger, bytes, KIND_WELCOME);
    raw_peer_send_refused(
        &stranger, &server, bytes, SHAKE_SIZE, "the WELCOME of a client");
    raw_peer_word(&stranger);
    raw_peer_send_refused(
        &stranger, &server, bytes, SHAKE_SIZE, "the WELCOME of a client");
    shake_close(&server, &stranger);
}

/* ---- Another version ---- */

HG_TEST(message_of_another_version_is_refused)
{
    struct attacked server;
    struct raw_peer stranger;
    unsigned char bytes[RAW_PEER_ROOM];
    unsigned kind;

    hg_test_expect_log("it has another version of the protocol");
    shake_open(&server, &stranger);
    for (kind = KIND_WELCOME; kind < KIND_END; kind++) {
        size_t size = raw_peer_make(&stranger, bytes, kind);

        bytes[2] = 3;
        raw_peer_send_refused(
            &stranger, &server, bytes, size, "another version");
    }
    /* A HELLO of another version is answered with our version. */
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    bytes[2] = 77;
    raw_peer_send_refused(
        &stranger, &server, bytes, SHAKE_SIZE, "a HELLO of another version");
    (void) raw_peer_receive_kind(&stranger, KIND_WELCOME, bytes);
    HG_CHECK_EQ_INT(bytes[2], 2);
    HG_CHECK_EQ_U64(raw_peer_get(bytes + 8, 8), stranger.ours);
    /* A malformed HELLO gets no answer. */
    (void) raw_peer_make(&stranger, bytes, KIND_HELLO);
    bytes[2] = 77;
    raw_peer_send_refused(&stranger, &server, bytes, SHAKE_SIZE - 1,
        "a short HELLO of another version");
    raw_peer_greet(&stranger);
    (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
    bytes[2] = 0;
    raw_peer_send_refused(
        &stranger, &server, bytes, HEADER, "a peer's message of version 0");
    (void) raw_peer_header(bytes, KIND_BYE, stranger.token);
    bytes[2] = 1;
    raw_peer_send_refused(
        &stranger, &server, bytes, HEADER, "a peer's BYE of version 1");
    bytes[2] = 2;
    bytes[3] = KIND_MESSAGE;
    raw_peer_send(&stranger, bytes, HEADER);
    shake_expect(&server, &stranger, "", 0);
    shake_close(&server, &stranger);
}

/* ---- Wrong answers to a lookup ---- */

enum { ASK_DEATH_MS = 400, ASK_LOOKUP_MS = 600 };

struct asked {
    struct attacked server; /* only `end` is open */
    struct raw_peer stranger;
    struct conform_call lookup;
    unsigned char hello[RAW_PEER_ROOM];
};

/* A class looks the raw peer up, and its HELLO has arrived. */
static void asked_open(struct asked *asked)
{
    struct raw_peer *stranger = &asked->stranger;
    struct conform_end *end = &asked->server.end;
    char name[NA_MAX_ADDR_LEN];

    memset(asked, 0, sizeof(*asked));
    HG_CHECK_OK(HG_Set_log_level("debug"));
    endpoint_open_with(end, "ofi+tcp://127.0.0.1", ASK_DEATH_MS, ASK_LOOKUP_MS);
    endpoint_name(end, end->self, name);
    raw_peer_init(stranger, attacked_turn, &asked->server);
    raw_peer_dial(stranger, name);
    raw_peer_name(stranger, name);
    HG_CHECK_OK(NA_Addr_lookup(end->na_class, end->context, conform_ended,
        &asked->lookup, name, &asked->lookup.id));
    HG_CHECK_EQ_U64(
        raw_peer_receive_kind(stranger, KIND_HELLO, asked->hello), SHAKE_SIZE);
    HG_CHECK_EQ_U64(raw_peer_get(asked->hello + 8, 8), 0);
    stranger->token = raw_peer_get(asked->hello + HEADER + 8, 8);
}

static void asked_close(struct asked *asked)
{
    raw_peer_fini(&asked->stranger);
    conform_close(&asked->server.end);
}

static na_return_t asked_wait(struct asked *asked, struct conform_call *call)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (call->ends == 0) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&asked->stranger);
    }
    return call->ret;
}

/* It is accepted only as the answer to our HELLO. */
HG_TEST(welcome_of_another_version_does_not_end_a_peer)
{
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call recvs[2];
    unsigned char bytes[128];
    char got[2][8];
    unsigned i;

    hg_test_expect_log("it has another version of the protocol");
    attacked_open(&server, "ofi+tcp://127.0.0.1");
    raw_peer_init(&stranger, attacked_turn, &server);
    raw_peer_dial(&stranger, server.name);
    raw_peer_greet(&stranger);
    for (i = 0; i < 2; i++) {
        uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

        HG_CHECK_OK(conform_recv(
            &server.end, &recvs[i], false, got[i], sizeof(got[i]), 0));
        raw_peer_word(&stranger);
        while (recvs[i].ends == 0) {
            HG_CHECK(endpoint_ms() < end);
            raw_peer_turn(&stranger);
        }
        (void) raw_peer_make(&stranger, bytes, KIND_WELCOME);
        bytes[2] = 3;
        raw_peer_send_refused(&stranger, &server, bytes,
            HEADER + INTRO + 1 + RAW, "a WELCOME of another version");
    }
    for (i = 0; i < 2; i++)
        conform_free_addr(&server.end, &recvs[i]);
    attacked_serve(&server);
    raw_peer_fini(&stranger);
    attacked_close(&server);
}

HG_TEST(answer_of_another_version_is_a_protocol_error)
{
    struct asked asked;
    unsigned char bytes[128];

    hg_test_expect_log("it has another version");
    asked_open(&asked);
    (void) raw_peer_make(&asked.stranger, bytes, KIND_WELCOME);
    bytes[2] = 3;
    raw_peer_send(&asked.stranger, bytes, SHAKE_SIZE);
    HG_CHECK_RET(asked_wait(&asked, &asked.lookup), NA_PROTOCOL_ERROR);
    asked_close(&asked);
}

HG_TEST(answer_that_claims_to_be_the_class_is_a_protocol_error)
{
    struct asked asked;

    hg_test_expect_log("it claims to be this class");
    asked_open(&asked);
    asked.stranger.incarnation = raw_peer_get(asked.hello + HEADER, 8);
    raw_peer_say(&asked.stranger, KIND_WELCOME);
    HG_CHECK_RET(asked_wait(&asked, &asked.lookup), NA_PROTOCOL_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count("it claims to be this class"), 1);
    asked_close(&asked);
}

/* Two peers look each other up at once. That the peer has proved itself does
 * not end our lookup, which waits for its own answer. */
HG_TEST(peer_that_looks_us_up_does_not_end_our_lookup_of_it)
{
    struct asked asked;
    struct conform_end *end = &asked.server.end;
    struct conform_call recv;
    uint64_t token;
    char got[8];

    asked_open(&asked);
    token = asked.stranger.token;
    HG_CHECK_OK(conform_recv(end, &recv, false, got, sizeof(got), 0));
    asked.stranger.token = 0;
    raw_peer_greet(&asked.stranger);
    HG_CHECK(asked.stranger.token != token);
    raw_peer_word(&asked.stranger);
    HG_CHECK_OK(asked_wait(&asked, &recv));
    HG_CHECK_EQ_INT(asked.lookup.ends, 0);
    asked.stranger.token = token;
    raw_peer_say(&asked.stranger, KIND_WELCOME);
    HG_CHECK_OK(asked_wait(&asked, &asked.lookup));
    HG_CHECK_OK(endpoint_send(end, asked.lookup.addr, false, "x", 1, 1));
    HG_CHECK(NA_Addr_cmp(end->na_class, recv.addr, asked.lookup.addr));
    conform_free_addr(end, &recv);
    conform_free_addr(end, &asked.lookup);
    asked_close(&asked);
}

/* After a wrong answer the lookup waits for another one. */
HG_TEST(wrong_answer_to_a_lookup_is_refused)
{
    struct asked asked;
    unsigned char bytes[128];

    hg_test_expect_log("its introduction is malformed");
    hg_test_expect_log(
        "from an unknown peer: it does not answer a HELLO of this class");
    hg_test_expect_log("its sender is not a peer");
    asked_open(&asked);
    (void) raw_peer_make(&asked.stranger, bytes, KIND_WELCOME);
    raw_peer_send_refused(&asked.stranger, &asked.server, bytes, SHAKE_SIZE - 1,
        "a short WELCOME");
    raw_peer_put(bytes + HEADER, 8, 0);
    raw_peer_send_refused(&asked.stranger, &asked.server, bytes, SHAKE_SIZE,
        "a WELCOME of incarnation 0");
    (void) raw_peer_make(&asked.stranger, bytes, KIND_WELCOME);
    bytes[8] ^= 1;
    raw_peer_send_refused(&asked.stranger, &asked.server, bytes, SHAKE_SIZE,
        "a WELCOME with a wrong token");
    (void) raw_peer_header(bytes, KIND_MESSAGE, asked.stranger.token);
    raw_peer_send_refused(&asked.stranger, &asked.server, bytes, HEADER,
        "a message in front of WELCOME");
    HG_CHECK_EQ_INT(asked.lookup.ends, 0);
    raw_peer_say(&asked.stranger, KIND_WELCOME);
    HG_CHECK_OK(asked_wait(&asked, &asked.lookup));
    conform_free_addr(&asked.server.end, &asked.lookup);
    asked_close(&asked);
}

/* Only wrong answers arrive. HELLO is repeated. */
HG_TEST(peer_that_never_answers_correctly_is_unreachable)
{
    struct asked asked;
    uint64_t start = endpoint_ms();
    unsigned char bytes[128];

    hg_test_expect_log("connected, but its answer does not arrive");
    asked_open(&asked);
    (void) raw_peer_make(&asked.stranger, bytes, KIND_WELCOME);
    bytes[8] ^= 1;
    raw_peer_send_refused(&asked.stranger, &asked.server, bytes, SHAKE_SIZE,
        "a WELCOME with a wrong token");
    (void) raw_peer_receive_kind(&asked.stranger, KIND_HELLO, asked.hello);
    HG_CHECK_EQ_U64(
        raw_peer_get(asked.hello + HEADER + 8, 8), asked.stranger.token);
    HG_CHECK_RET(asked_wait(&asked, &asked.lookup), NA_HOSTUNREACH);
    HG_CHECK(endpoint_ms() - start >= ASK_LOOKUP_MS);
    HG_CHECK(endpoint_ms() - start < 20 * ASK_LOOKUP_MS);
    asked_close(&asked);
}

/* The peer is ready, and we wait for a message from it. */
static void asked_ready(
    struct asked *asked, struct conform_call *recv, char got[8])
{
    asked_open(asked);
    raw_peer_say(&asked->stranger, KIND_WELCOME);
    HG_CHECK_OK(asked_wait(asked, &asked->lookup));
    HG_CHECK_OK(
        endpoint_post(&asked->server.end, recv, got, 8, asked->lookup.addr, 5));
}

/* Answer the next keep-alive with another incarnation or another token: it is
 * not the process that was looked up, or it has forgotten us. */
static void asked_restart(bool incarnation)
{
    uint64_t end = endpoint_ms() + 2 * CONFORM_TIMEOUT;
    struct asked asked;
    struct conform_call recv;
    char got[8];
    unsigned round;

    asked_ready(&asked, &recv, got);
    for (round = 0; round < 12; round++) { /* longer than death_ms */
        (void) raw_peer_receive_kind(&asked.stranger, KIND_HELLO, asked.hello);
        HG_CHECK_EQ_U64(raw_peer_get(asked.hello + 8, 8), asked.stranger.ours);
        HG_CHECK_EQ_INT(recv.ends, 0);
        raw_peer_say(&asked.stranger, KIND_WELCOME);
    }
    if (incarnation)
        asked.stranger.incarnation++;
    else
        asked.stranger.ours++;
    while (recv.ends == 0) { /* it is not silent */
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&asked.stranger);
        if (asked.stranger.got > 0) {
            (void) raw_peer_hear(&asked.stranger, asked.hello);
            raw_peer_say(&asked.stranger, KIND_WELCOME);
        }
    }
    HG_CHECK_RET(recv.ret, NA_DISCONNECT);
    HG_CHECK_RET(
        endpoint_send(&asked.server.end, asked.lookup.addr, false, "x", 1, 1),
        NA_DISCONNECT);
    conform_free_addr(&asked.server.end, &asked.lookup);
    asked_close(&asked);
}

HG_TEST(keep_alive_answered_by_another_incarnation_is_a_death)
{
    asked_restart(true);
}

HG_TEST(keep_alive_answered_with_another_token_is_a_death)
{
    asked_restart(false);
}

/* The provider acknowledges its bytes, but the peer sends nothing. */
HG_TEST(peer_that_leaves_keep_alives_unanswered_is_dead)
{
    struct asked asked;
    struct conform_call recv;
    char got[8];
    uint64_t start;

    asked_ready(&asked, &recv, got);
    start = endpoint_ms();
    HG_CHECK_RET(asked_wait(&asked, &recv), NA_DISCONNECT);
    HG_CHECK(endpoint_ms() - start >= ASK_DEATH_MS / 2);
    HG_CHECK(endpoint_ms() - start < 20 * ASK_DEATH_MS);
    conform_free_addr(&asked.server.end, &asked.lookup);
    asked_close(&asked);
}

HG_TEST(bye_disconnects_the_peer_at_once)
{
    struct asked asked;
    struct conform_call recv;
    char got[8];

    asked_ready(&asked, &recv, got);
    raw_peer_say(&asked.stranger, KIND_BYE);
    HG_CHECK_RET(asked_wait(&asked, &recv), NA_DISCONNECT);
    conform_free_addr(&asked.server.end, &asked.lookup);
    asked_close(&asked);
}

/* A process that accepts connections and answers no HELLO. */
HG_TEST_ROLE(mute)
{
    struct pollfd parent = {hg_test_parent_fd(), POLLIN, 0};
    char name[NA_MAX_ADDR_LEN];
    struct conform_end end;
    struct attacked nobody;
    struct raw_peer peer;

    (void) argv;
    HG_CHECK_EQ_INT(argc, 0);
    memset(&nobody, 0, sizeof(nobody));
    endpoint_open(&end, "ofi+tcp://127.0.0.1", 1000);
    nobody.end = end;
    raw_peer_init(&peer, attacked_turn, &nobody);
    raw_peer_name(&peer, name);
    hg_test_write_parent(name);
    while (poll(&parent, 1, 0) == 0)
        raw_peer_turn(&peer);
    raw_peer_fini(&peer);
    conform_close(&end);
}

/* The waiting thread gets the reason as its error text. */
HG_TEST(lookup_without_an_answer_explains_itself)
{
    struct hg_test_peer *peer = hg_test_spawn("mute", (char *) NULL);
    char *name = hg_test_read_peer(peer);
    struct conform_end end;
    na_addr_t addr;

    hg_test_expect_log("connected, but its answer does not arrive");
    endpoint_open_with(
        &end, "ofi+tcp://127.0.0.1", ASK_DEATH_MS, ASK_LOOKUP_MS);
    HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, name,
                     20 * hg_test_scaled_ms(ASK_LOOKUP_MS), &addr),
        NA_HOSTUNREACH);
    HG_CHECK(strstr(HG_Get_last_error_text(), "firewall") != NULL);
    HG_CHECK(strstr(HG_Get_last_error_text(), name) != NULL);
    conform_close(&end);
    hg_test_stop(peer);
    free(name);
}

/* ---- Peers that cannot be answered ---- */

/* Instead of that of the C library: counts the searches for a host. */
static _Atomic unsigned ask_searches;

DIR *opendir(const char *name)
{
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (strcmp(name, "/dev/fd") == 0)
        atomic_fetch_add(&ask_searches, 1);
    return fd >= 0 ? fdopendir(fd) : NULL;
}

HG_TEST(hello_that_cannot_be_answered_is_logged_once)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned char bytes[128], raw[RAW];
    struct attacked server;
    struct raw_peer stranger;
    char name[NA_MAX_ADDR_LEN];
    size_t size;
    unsigned i;

    hg_test_expect_log("which cannot send to it");
    memset(&server, 0, sizeof(server));
    HG_CHECK_OK(HG_Set_log_level("debug"));
    endpoint_open_with(
        &server.end, "ofi+tcp://127.0.0.1", ASK_DEATH_MS, ASK_LOOKUP_MS);
    endpoint_name(&server.end, server.end.self, name);
    raw_peer_init(&stranger, attacked_turn, &server);
    raw_peer_dial(&stranger, name);
    raw_peer_raw(raw, 1); /* nobody listens there */
    size = raw_peer_introduce(&stranger, bytes, KIND_HELLO, raw);
    for (i = 0; i < 8; i++) /* as a client repeats it */
        raw_peer_send(&stranger, bytes, size);
    while (hg_test_log_count("which cannot send to it") == 0) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&stranger);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "ofi_unanswered"), 1);
    HG_CHECK_EQ_U64(hg_test_log_count("which cannot send to it"), 1);
    HG_CHECK_EQ_U64(hg_test_log_count("lost the peer"), 0);
    HG_CHECK(atomic_load(&ask_searches) > 1);
    HG_CHECK(atomic_load(&ask_searches) <= 4);
    raw_peer_fini(&stranger);
    conform_close(&server.end);
}

/* ---- Connections for puts and gets ---- */

struct linked {
    struct attacked server;
    struct raw_peer stranger;
    struct conform_call word; /* its source is the stranger */
    struct conform_call get;
    na_mem_handle_t local, remote;
    fi_addr_t messages; /* addresses of the server's two endpoints */
    fi_addr_t transfers;
};

/* The class reads memory of the raw peer, and asks it to connect. */
static void linked_open(struct linked *linked)
{
    static unsigned char memory[64];
    struct raw_peer *stranger = &linked->stranger;
    struct conform_end *end = &linked->server.end;
    unsigned char bytes[RAW_PEER_ROOM], got[8];
    size_t size;

    memset(linked, 0, sizeof(*linked));
    shake_open(&linked->server, stranger);
    linked->messages = stranger->at;
    raw_peer_greet(stranger);
    raw_peer_word(stranger);
    HG_CHECK_OK(conform_recv(end, &linked->word, false, got, sizeof(got), 0));
    while (linked->word.ends == 0)
        raw_peer_turn(stranger);
    HG_CHECK_OK(linked->word.ret);
    linked->local = endpoint_register(end, memory, sizeof(memory));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        end->na_class, bytes, sizeof(bytes), linked->local));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        end->na_class, &linked->remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Get(end->na_class, end->context, conform_ended, &linked->get,
        linked->local, 0, linked->remote, 0, sizeof(memory), linked->word.addr,
        &linked->get.id));
    do
        size = raw_peer_receive_kind(stranger, KIND_WELCOME, bytes);
    while (size == SHAKE_SIZE);
    HG_CHECK_EQ_U64(size, SHAKE_SIZE + 1 + RAW);
    HG_CHECK_EQ_INT(bytes[SHAKE_SIZE], 0); /* again: its other endpoint */
    linked->transfers = raw_peer_enter(stranger, bytes + SHAKE_SIZE + 1);
    HG_CHECK(linked->transfers != linked->messages);
}

static void linked_close(struct linked *linked)
{
    na_class_t *na_class = linked->server.end.na_class;

    linked->stranger.at = linked->messages;
    HG_CHECK_OK(NA_Mem_handle_free(na_class, linked->remote));
    HG_CHECK_OK(NA_Mem_handle_free(na_class, linked->local));
    conform_free_addr(&linked->server.end, &linked->word);
    shake_close(&linked->server, &linked->stranger);
}

HG_TEST(link_is_checked)
{
    struct linked linked;
    struct raw_peer *stranger = &linked.stranger;
    unsigned char bytes[RAW_PEER_ROOM];
    size_t size = RAW_PEER_ROOM;
    unsigned links = 0;
    uint64_t before;
    unsigned kind;

    hg_test_allow_log("refused a message");
    hg_test_allow_log("a transfer");
    linked_open(&linked);
    (void) raw_peer_header(bytes, KIND_LINK, stranger->token);
    raw_peer_send_refused(stranger, &linked.server, bytes, HEADER,
        "a LINK to an endpoint for messages");
    stranger->at = linked.transfers;
    for (kind = 0; kind <= KIND_END; kind++) {
        (void) raw_peer_header(bytes, kind, stranger->token);
        if (kind != KIND_LINK)
            raw_peer_send_refused(stranger, &linked.server, bytes, HEADER,
                "another kind to an endpoint for puts and gets");
    }
    (void) raw_peer_header(bytes, KIND_LINK, stranger->token);
    raw_peer_send_refused(
        stranger, &linked.server, bytes, HEADER + 1, "a LINK with a body");
    raw_peer_send_refused(
        stranger, &linked.server, bytes, HEADER - 1, "a short LINK");
    (void) raw_peer_header(bytes, KIND_LINK, stranger->token ^ 1);
    raw_peer_send_refused(
        stranger, &linked.server, bytes, HEADER, "a LINK of an unknown peer");
    HG_CHECK_EQ_INT(linked.get.ends, 0);
    before = raw_peer_refused(&linked.server);
    /* The get begins, and the provider of the raw peer refuses it. It is
     * retried over another connection, for which the peer is asked again. */
    while (linked.get.ends == 0) {
        if (size > SHAKE_SIZE) {
            (void) raw_peer_header(bytes, KIND_LINK, stranger->token);
            raw_peer_send(stranger, bytes, HEADER);
            links++;
        }
        for (size = 0; linked.get.ends == 0 && size == 0;) {
            raw_peer_turn(stranger);
            if (stranger->got > 0)
                size = raw_peer_hear(stranger, bytes);
        }
    }
    HG_CHECK(links > 1);
    HG_CHECK_RET(linked.get.ret, NA_NOENTRY);
    HG_CHECK_EQ_U64(raw_peer_refused(&linked.server), before);
    linked_close(&linked);
}

/* ---- A class that does not listen ---- */

/* It answers a peer that looks it up, which may move its bulk data, but takes
 * no messages from it. */
HG_TEST(class_that_does_not_listen_takes_no_messages_of_strangers)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned char bytes[HEADER];
    struct attacked client;
    struct raw_peer stranger;
    char name[NA_MAX_ADDR_LEN];
    unsigned plane;

    hg_test_expect_log("dropped a message of 0 bytes");
    memset(&client, 0, sizeof(client));
    HG_CHECK_OK(HG_Set_log_level("debug"));
    info.death_ms = 2000;
    endpoint_open_info(&client.end, "ofi+tcp://127.0.0.1", NA_FALSE, &info);
    endpoint_name(&client.end, client.end.self, name);
    raw_peer_init(&stranger, attacked_turn, &client);
    raw_peer_dial(&stranger, name);
    raw_peer_greet(&stranger);
    for (plane = 0; plane < 2; plane++) { /* the third is that of calls */
        (void) raw_peer_header(bytes, KIND_MESSAGE, stranger.token);
        bytes[4] = (unsigned char) plane;
        raw_peer_send(&stranger, bytes, HEADER);
    }
    while (NA_Get_counter(client.end.na_class, "msg_dropped") < 2) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&stranger);
    }
    HG_CHECK_EQ_U64(hg_test_log_count("dropped a message of 0 bytes"), 2);
    raw_peer_fini(&stranger);
    conform_close(&client.end);
}

/* Open a raw peer that announces `host`, with its own port. The class has
 * resolved that address, and answers. */
static na_addr_t shake_announce(
    struct attacked *client, struct raw_peer *peer, const char *host)
{
    unsigned char bytes[RAW_PEER_ROOM], raw[RAW];
    char name[NA_MAX_ADDR_LEN];
    struct sockaddr_in in;
    na_addr_t addr;
    unsigned turns = 0;

    raw_peer_init(peer, attacked_turn, client);
    raw_peer_dial(peer, client->name);
    memcpy(&in, peer->raw, RAW);
    peer->incarnation ^= in.sin_port; /* all raw peers have one seed */
    peer->ours ^= in.sin_port;
    (void) snprintf(name, sizeof(name), "ofi+tcp://%s:%u", host,
        (unsigned) ntohs(in.sin_port));
    HG_CHECK_OK(NA_Addr_resolve(client->end.na_class, name, &addr));
    raw_peer_raw_of(raw, name);
    while (peer->got == 0) {
        if (turns++ % 100 == 0) /* as a client repeats it */
            raw_peer_send(
                peer, bytes, raw_peer_introduce(peer, bytes, KIND_HELLO, raw));
        raw_peer_turn(peer);
    }
    (void) raw_peer_receive_kind(peer, KIND_WELCOME, bytes);
    peer->token = raw_peer_get(bytes + HEADER + 8, 8);
    return addr;
}

static void shake_letter(struct raw_peer *peer, char letter)
{
    unsigned char bytes[HEADER + 1];

    (void) raw_peer_header(bytes, KIND_MESSAGE, peer->token);
    bytes[HEADER] = (unsigned char) letter;
    raw_peer_send(peer, bytes, sizeof(bytes));
}

/* It takes messages of a peer that it has resolved, even if that peer connects
 * first. A peer that is connected from another host than it announces, as
 * behind an address translation, may be any process. */
HG_TEST(peer_that_announces_another_host_is_a_stranger)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    struct attacked client;
    struct raw_peer known, stranger;
    struct conform_call recv;
    na_addr_t addrs[2];
    char got[8];

    hg_test_expect_log("dropped a message of 1 bytes");
    memset(&client, 0, sizeof(client));
    info.death_ms = 2000;
    endpoint_open_info(&client.end, "ofi+tcp://127.0.0.1", NA_FALSE, &info);
    endpoint_name(&client.end, client.end.self, client.name);
    addrs[0] = shake_announce(&client, &known, "127.0.0.1");
    addrs[1] = shake_announce(&client, &stranger, "127.0.0.9");
    HG_CHECK_OK(conform_recv(&client.end, &recv, false, got, sizeof(got), 0));
    shake_letter(&stranger, 's');
    while (NA_Get_counter(client.end.na_class, "msg_dropped") == 0) {
        HG_CHECK_EQ_INT(recv.ends, 0);
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(&stranger);
    }
    shake_letter(&known, 'k');
    HG_CHECK_OK(conform_wait(&client.end, &recv));
    HG_CHECK_EQ_U64(recv.size, 1);
    HG_CHECK_EQ_MEM(got, "k", 1);
    HG_CHECK_EQ_U64(NA_Get_counter(client.end.na_class, "msg_dropped"), 1);
    conform_free_addr(&client.end, &recv);
    HG_CHECK_OK(NA_Addr_free(client.end.na_class, addrs[0]));
    HG_CHECK_OK(NA_Addr_free(client.end.na_class, addrs[1]));
    raw_peer_fini(&stranger);
    raw_peer_fini(&known);
    conform_close(&client.end);
}
