/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of the ZeroMQ transport match the wire format:
 * tests/golden/zmq.hex holds each kind of message, written by hand. A bare
 * libzmq socket sends them to a class, which must understand them, and compares
 * what the class sends byte by byte, as dialer and as listener. Only random
 * fields (the incarnation, nonces, the number of a transfer) are replaced.
 */
#include "zmq_raw_peer.h"

#include "support/golden.h"

/* Offsets of the random fields in a message. */
enum { AT_INCARNATION = 12, AT_NONCE = 20, AT_NONCE2 = 28, AT_ID = 20 };

#define GOLDEN_IPC "zmq+ipc://" /* probes are sent on ipc only */

/* A bare socket, and the class it talks to. */
struct speaker {
    struct conform_end end;
    void *context;
    void *socket; /* a ROUTER if the class dials, else a DEALER */
    bool router;
    unsigned char id[64]; /* for a ROUTER: routing id of the class */
    size_t id_size;
    struct golden *golden;
};

static void speaker_open(struct speaker *speaker, bool router)
{
    int zero = 0;

    memset(speaker, 0, sizeof(*speaker));
    speaker->router = router;
    speaker->golden = golden_open("tests/golden/zmq.hex");
    speaker->context = zmq_ctx_new();
    HG_CHECK(speaker->context != NULL);
    speaker->socket =
        zmq_socket(speaker->context, router ? ZMQ_ROUTER : ZMQ_DEALER);
    HG_CHECK(speaker->socket != NULL);
    (void) zmq_setsockopt(speaker->socket, ZMQ_LINGER, &zero, sizeof(zero));
}

/* Every vector of the file exists; the test's code shows which ones a case
 * uses. */
static void speaker_close(struct speaker *speaker)
{
    static const char *const names[] = {"hello", "hello_named", "hello_later",
        "welcome", "confirm", "refuse", "refuse_later", "message",
        "message_expected", "message_rpc", "frame", "frame_data",
        "frame_data_part", "handle", "probe", "bye", "bye_ack", "grant"};
    size_t size;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void) golden_get(speaker->golden, names[i], &size);
    golden_close(speaker->golden);
    conform_close(&speaker->end);
    HG_CHECK(zmq_close(speaker->socket) == 0);
    HG_CHECK(zmq_ctx_term(speaker->context) == 0);
}

static void speaker_turn(struct speaker *speaker)
{
    (void) conform_turn(speaker->end.na_class, speaker->end.context, 1);
}

/* Send a vector; `own`, if given, replaces the 8 bytes at `at`. */
static void speaker_send(struct speaker *speaker, const char *name, size_t at,
    const unsigned char *own, bool more)
{
    unsigned char copy[256];
    size_t size;
    const unsigned char *bytes = golden_get(speaker->golden, name, &size);

    HG_CHECK(size <= sizeof(copy) && at + 8 <= sizeof(copy));
    memcpy(copy, bytes, size);
    if (own != NULL)
        memcpy(copy + at, own, 8);
    if (speaker->router)
        HG_CHECK(zmq_send(speaker->socket, speaker->id, speaker->id_size,
                     ZMQ_SNDMORE) == (int) speaker->id_size);
    HG_CHECK(zmq_send(speaker->socket, copy, size, more ? ZMQ_SNDMORE : 0) ==
        (int) size);
}

/* Add a last part to a message sent with `more`. */
static void speaker_send_part(struct speaker *speaker, const char *name)
{
    size_t size;
    const unsigned char *bytes = golden_get(speaker->golden, name, &size);

    HG_CHECK(zmq_send(speaker->socket, bytes, size, 0) == (int) size);
}

/* The next message of the class, which has one part. */
static size_t speaker_receive(
    struct speaker *speaker, unsigned char *bytes, size_t buffer)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    int more = 1;
    size_t more_size = sizeof(more);
    int size;

    if (speaker->router) {
        while ((size = zmq_recv(speaker->socket, speaker->id,
                    sizeof(speaker->id), ZMQ_DONTWAIT)) < 0) {
            HG_CHECK(endpoint_ms() < end);
            speaker_turn(speaker);
        }
        speaker->id_size = (size_t) size;
    }
    while (
        (size = zmq_recv(speaker->socket, bytes, buffer, ZMQ_DONTWAIT)) < 0) {
        HG_CHECK(endpoint_ms() < end);
        speaker_turn(speaker);
    }
    HG_CHECK(
        zmq_getsockopt(speaker->socket, ZMQ_RCVMORE, &more, &more_size) == 0);
    HG_CHECK_EQ_INT(more, 0);
    return (size_t) size;
}

/* Receive the vector `name`, in which the class chose the 8 bytes at the
 * `count` places of `at`: these go to `own`. Probes may come between. */
static void speaker_expect(struct speaker *speaker, const char *name,
    size_t count, const size_t *at, unsigned char own[][8])
{
    unsigned char got[256];
    size_t probe_size, size, i;
    const unsigned char *probe =
        golden_get(speaker->golden, "probe", &probe_size);
    const unsigned char *want = golden_get(speaker->golden, name, &size);
    size_t got_size;

    do
        got_size = speaker_receive(speaker, got, sizeof(got));
    while (want != probe && got_size == probe_size &&
        memcmp(got, probe, probe_size) == 0);
    HG_CHECK_EQ_U64(got_size, size);
    for (i = 0; i < count; i++) {
        memcpy(own[i], got + at[i], 8);
        memcpy(got + at[i], want + at[i], 8);
    }
    HG_CHECK_EQ_MEM(got, want, size);
}

static void speaker_expect_all(struct speaker *speaker, const char *name)
{
    speaker_expect(speaker, name, 0, NULL, NULL);
}

/* ---- The class dials ---- */

/* Bind the ROUTER, and start a lookup by the class; it has not ended on
 * return. */
static void speaker_be_called(
    struct speaker *speaker, struct conform_call *lookup)
{
    char name[NA_MAX_ADDR_LEN];
    int length =
        snprintf(name, sizeof(name), "zmq+ipc://%s/golden.sock", hg_test_dir());

    HG_CHECK(length > 0 && length < (int) sizeof(name));
    HG_CHECK(zmq_bind(speaker->socket, name + 4) == 0);
    endpoint_open(&speaker->end, GOLDEN_IPC, 2000);
    memset(lookup, 0, sizeof(*lookup));
    HG_CHECK_OK(NA_Addr_lookup(speaker->end.na_class, speaker->end.context,
        conform_ended, lookup, name, &lookup->id));
}

static void speaker_send_messages(struct speaker *speaker, na_addr_t to)
{
    HG_CHECK_OK(endpoint_send(&speaker->end, to, false, "ab", 2, 0x01020304));
    speaker_expect_all(speaker, "message");
    HG_CHECK_OK(endpoint_send(&speaker->end, to, true, "cd", 2, 0xff));
    speaker_expect_all(speaker, "message_expected");
    speaker_expect_all(speaker, "probe");
}

/* A get of the class: its frame, and our frame with the data. */
static void speaker_serve_get(struct speaker *speaker, na_addr_t from)
{
    static const size_t id_at[] = {AT_ID};
    struct conform_end *end = &speaker->end;
    struct conform_call get;
    na_mem_handle_t local, remote;
    unsigned char id[1][8];
    char buffer[16];
    size_t size;
    const unsigned char *bytes;

    memset(&get, 0, sizeof(get));
    bytes = golden_get(speaker->golden, "handle", &size);
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    local = endpoint_register(end, buffer, sizeof(buffer));
    HG_CHECK_OK(NA_Get(end->na_class, end->context, conform_ended, &get, local,
        0, remote, 32, sizeof(buffer), from, &get.id));
    speaker_expect(speaker, "frame", 1, id_at, id);
    speaker_send(speaker, "frame_data", AT_ID, id[0], true);
    speaker_send_part(speaker, "frame_data_part");
    HG_CHECK_OK(conform_wait(end, &get));
    bytes = golden_get(speaker->golden, "frame_data_part", &size);
    HG_CHECK_EQ_U64(size, sizeof(buffer));
    HG_CHECK_EQ_MEM(buffer, bytes, size);
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
}

/* A call of the RPC layer begins as in the golden file. */
static void speaker_receive_call(struct speaker *speaker, na_addr_t to)
{
    unsigned char got[256];
    size_t size, probe_size;
    const unsigned char *want =
        golden_get(speaker->golden, "message_rpc", &size);
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_request_t request;

    (void) golden_get(speaker->golden, "probe", &probe_size);
    options.no_checksum = true; /* it differs between classes */
    HG_CHECK_OK(HG_Set_options(&options));
    HG_CHECK_OK(HG_Init(speaker->end.na_class));
    HG_CHECK_OK(HG_Forward(to, MERCURY_REGISTER("golden", void, void, NULL),
        NULL, NULL, &request));
    while (speaker_receive(speaker, got, sizeof(got)) == probe_size)
        continue;
    HG_CHECK_EQ_MEM(got, want, size);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Finalize());
}

HG_TEST(dialer_messages_match_the_golden_file)
{
    static const size_t hello_at[] = {AT_INCARNATION, AT_NONCE};
    struct speaker speaker;
    struct conform_call lookup, close;
    unsigned char own[2][8];

    speaker_open(&speaker, true);
    speaker_be_called(&speaker, &lookup);
    speaker_expect(&speaker, "hello", 2, hello_at, own);
    speaker_send(&speaker, "welcome", AT_NONCE, own[1], false);
    speaker_expect_all(&speaker, "confirm");
    HG_CHECK_OK(conform_wait(&speaker.end, &lookup));

    speaker_send_messages(&speaker, lookup.addr);
    speaker_serve_get(&speaker, lookup.addr);
    speaker_receive_call(&speaker, lookup.addr);

    memset(&close, 0, sizeof(close));
    HG_CHECK_OK(NA_Addr_terminate(speaker.end.na_class, speaker.end.context,
        conform_ended, &close, lookup.addr, &close.id));
    for (;;) { /* what the call sent when it ended does not matter */
        unsigned char got[256];
        size_t size;
        const unsigned char *bye = golden_get(speaker.golden, "bye", &size);

        if (speaker_receive(&speaker, got, sizeof(got)) == size &&
            got[3] == KIND_BYE) {
            HG_CHECK_EQ_MEM(got, bye, size);
            break;
        }
    }
    speaker_send(&speaker, "bye_ack", 0, NULL, false);
    HG_CHECK_OK(conform_wait(&speaker.end, &close));
    HG_CHECK_EQ_U64(NA_Get_counter(speaker.end.na_class, "zmq_malformed"), 0);
    HG_CHECK_OK(NA_Addr_free(speaker.end.na_class, lookup.addr));
    speaker_close(&speaker);
}

/* Eight messages count as many bytes as the grant in the golden file: each its
 * 12 bytes of header, its content, and 128 more. */
HG_TEST(grants_match_the_golden_file)
{
    enum { COUNT = 8, SIZE = 65536 - 128 - 12 };
    static const size_t hello_at[] = {AT_INCARNATION, AT_NONCE};
    static unsigned char large[12 + SIZE], got[SIZE];
    struct speaker speaker;
    struct conform_call lookup, call;
    unsigned char own[2][8];
    unsigned i;

    speaker_open(&speaker, true);
    speaker_be_called(&speaker, &lookup);
    speaker_expect(&speaker, "hello", 2, hello_at, own);
    speaker_send(&speaker, "welcome", AT_NONCE, own[1], false);
    speaker_expect_all(&speaker, "confirm");
    HG_CHECK_OK(conform_wait(&speaker.end, &lookup));

    (void) raw_peer_header(large, KIND_MESSAGE);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK(zmq_send(speaker.socket, speaker.id, speaker.id_size,
                     ZMQ_SNDMORE) == (int) speaker.id_size);
        HG_CHECK(zmq_send(speaker.socket, large, sizeof(large), 0) ==
            (int) sizeof(large));
        HG_CHECK_OK(
            conform_recv(&speaker.end, &call, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&speaker.end, &call));
        conform_free_addr(&speaker.end, &call);
    }
    speaker_expect_all(&speaker, "grant");

    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(
            endpoint_send(&speaker.end, lookup.addr, false, got, SIZE, i));
        while (speaker_receive(&speaker, large, sizeof(large)) < SIZE)
            continue; /* a probe */
    }
    HG_CHECK_OK(endpoint_post(
        &speaker.end, &call, got, sizeof(got), lookup.addr, 0xff));
    speaker_send(&speaker, "grant", 0, NULL, false);
    speaker_send(&speaker, "message_expected", 0, NULL, false);
    HG_CHECK_OK(conform_wait(&speaker.end, &call));
    HG_CHECK_EQ_U64(NA_Get_counter(speaker.end.na_class, "zmq_malformed"), 0);
    HG_CHECK_OK(NA_Addr_free(speaker.end.na_class, lookup.addr));
    speaker_close(&speaker);
}

HG_TEST(dialer_understands_a_refusal)
{
    static const size_t hello_at[] = {AT_INCARNATION, AT_NONCE};
    struct speaker speaker;
    struct conform_call lookup;
    unsigned char own[2][8];

    hg_test_expect_log("has version 3");
    speaker_open(&speaker, true);
    speaker_be_called(&speaker, &lookup);
    speaker_expect(&speaker, "hello", 2, hello_at, own);
    speaker_send(&speaker, "refuse_later", 0, NULL, false);
    HG_CHECK_RET(conform_wait(&speaker.end, &lookup), NA_PROTOCOL_ERROR);
    speaker_close(&speaker);
}

/* ---- The class listens ---- */

/* Listen, and connect the DEALER. */
static void speaker_call(struct speaker *speaker)
{
    char name[NA_MAX_ADDR_LEN];

    endpoint_open(&speaker->end, GOLDEN_IPC "*", 2000);
    endpoint_name(&speaker->end, speaker->end.self, name);
    HG_CHECK(zmq_connect(speaker->socket, name + 4) == 0);
}

HG_TEST(listener_messages_match_the_golden_file)
{
    static const size_t welcome_at[] = {AT_INCARNATION, AT_NONCE2};
    struct speaker speaker;
    struct conform_call recv, expected;
    char name[NA_MAX_ADDR_LEN];
    char got[64], got_expected[64];
    unsigned char own[2][8];
    struct hg_counters counters;

    speaker_open(&speaker, false);
    speaker_call(&speaker);
    HG_CHECK_OK(conform_recv(&speaker.end, &recv, false, got, sizeof(got), 0));
    speaker_send(&speaker, "hello_named", 0, NULL, false);
    speaker_expect(&speaker, "welcome", 2, welcome_at, own);
    speaker_send(&speaker, "confirm", AT_INCARNATION, own[1], false);
    speaker_send(&speaker, "probe", 0, NULL, false);

    speaker_send(&speaker, "message", 0, NULL, false);
    HG_CHECK_OK(conform_wait(&speaker.end, &recv));
    HG_CHECK_EQ_U64(recv.size, 2);
    HG_CHECK_EQ_MEM(got, "ab", 2);
    HG_CHECK_EQ_U64(recv.tag, 0x01020304);
    endpoint_name(&speaker.end, recv.addr, name);
    HG_CHECK_EQ_STR(name, "zmq+ipc:///hg");

    speaker_send(&speaker, "message_expected", 0, NULL, false);
    HG_CHECK_OK(endpoint_post(&speaker.end, &expected, got_expected,
        sizeof(got_expected), recv.addr, 0xff));
    HG_CHECK_OK(conform_wait(&speaker.end, &expected));
    HG_CHECK_EQ_U64(expected.size, 2);
    HG_CHECK_EQ_MEM(got_expected, "cd", 2);

    /* The RPC layer accepts a payload that begins like one of its messages, and
     * no other. */
    HG_CHECK_OK(HG_Init(speaker.end.na_class));
    speaker_send(&speaker, "message_rpc", 0, NULL, false);
    do {
        counters.size = sizeof(counters);
        speaker_turn(&speaker);
        HG_CHECK_OK(HG_Get_counters(&counters));
    } while (counters.refused == 0);
    HG_CHECK_OK(HG_Finalize());

    HG_CHECK_EQ_U64(NA_Get_counter(speaker.end.na_class, "zmq_malformed"), 0);
    speaker_send(&speaker, "bye", 0, NULL, false);
    speaker_expect_all(&speaker, "bye_ack");
    conform_free_addr(&speaker.end, &recv);
    speaker_close(&speaker);
}

HG_TEST(refusal_of_a_later_version_matches_the_golden_file)
{
    struct speaker speaker;

    speaker_open(&speaker, false);
    speaker_call(&speaker);
    speaker_send(&speaker, "hello_later", 0, NULL, false);
    speaker_expect_all(&speaker, "refuse");
    speaker_close(&speaker);
}
