/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RPC layer over ZeroMQ with a peer that has proved who it is and then
 * sends false calls: in the header, in the description of arguments too large
 * for a message, in the response to a call. Messages are built from the wire
 * format (gen/wire.md). Of each kind a known number is certainly wrong and
 * counted as refused; as many again have random mistakes. A good client is
 * answered all the time.
 */
#include "zmq_calls.h"

#include "support/fuzz.h"

/* The raw peer, as the server knows it once it has called "meet". */
static na_class_t *calls_class;
static na_addr_t calls_stranger = NA_ADDR_NULL;

static hg_return_t calls_meet(hg_handle_t handle)
{
    HG_CHECK_OK(
        NA_Addr_dup(calls_class, HG_Handler_get_addr(handle), &calls_stranger));
    return HG_Handler_free(handle);
}

static hg_id_t calls_victim_id, calls_meet_id;
static unsigned calls_victims; /* calls that were answered with an output */

static hg_return_t calls_victim(hg_handle_t handle)
{
    hg_return_t ret = calls_echo(handle);

    calls_victims += ret == HG_SUCCESS;
    return ret;
}

static void calls_register(void)
{
    calls_victim_id = HG_Register("victim", blob_proc, blob_proc, calls_victim);
    calls_meet_id = HG_Register("meet", NULL, NULL, calls_meet);
    HG_CHECK(calls_victim_id != 0 && calls_meet_id != 0);
}

static void calls_begin(struct calls_server *server, const char *string)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    hg_test_allow_log("");
    options.max_args_size = 1 << 20;
    calls_open(server, string, &options, calls_register);
    calls_class = server->na_class;
}

static struct calls_message calls_message(unsigned type)
{
    static const unsigned char args[10] = {[0] = 2, [8] = 'h', 'g'};
    struct calls_message message = {0};

    message.type = type;
    message.id = calls_victim_id;
    message.sequence = UINT64_C(0x4242424200000007);
    message.payload = args;
    message.size = sizeof(args);
    return message;
}

/* ---- Certainly wrong ---- */

/* Wait until a counter of the layer has grown by exactly so much. */
static void calls_expect(const char *of, size_t offset, uint64_t before,
    uint64_t count, unsigned type)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    uint64_t grown;

    do {
        struct hg_counters counters = calls_counters();
        uint64_t now;

        memcpy(&now, (const char *) &counters + offset, sizeof(now));
        grown = now - before;
        calls_turn(NULL);
    } while (grown < count && endpoint_ms() < end);
    if (grown != count)
        hg_test_fail(HG_TEST_HERE,
            "type %u: %s grew by %" PRIu64 ", not by %" PRIu64, type, of, grown,
            count);
}

#define CALLS_EXPECT(member, before, count, type) \
    calls_expect(#member, offsetof(struct hg_counters, member), \
        (before).member, count, type)

/* Invalid headers of a type. */
static void calls_break_header(struct calls_server *server, unsigned type)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(type);
    unsigned char good[128], bytes[128];
    size_t size = calls_make(good, &message);
    unsigned i;

    for (i = 0; i < 9; i++) {
        size_t sent = size;

        memcpy(bytes, good, sizeof(good));
        switch (i) {
        case 0: bytes[8] ^= 1; break; /* the magic */
        case 1: sent = 35; break;
        case 2: sent = HEAD - 1; break;
        case 3: bytes[10] = 1; break; /* the version */
        case 4: raw_peer_put(bytes + 14, 2, HEAD - 1); break;
        case 5: raw_peer_put(bytes + 14, 2, size + 1); break;
        case 6: raw_peer_put(bytes + 14, 2, UINT16_MAX); break;
        case 7: sent = size - 1; break;    /* the checksum reveals it */
        default: bytes[20] ^= 0x10; break; /* here, too */
        }
        if (i < 7)
            calls_sign(bytes, sent);
        calls_send(server, bytes, sent);
    }
    CALLS_EXPECT(refused, before, i, type);
    /* A request with a sequence number is answered with the error; a response
     * without a matching call is not. */
    if (type == REQUEST)
        CALLS_EXPECT(errors_sent, before, i - 2, type);
    if (type == RESPONSE)
        CALLS_EXPECT(late, before, i - 2, type);
}

/* Arguments without a checksum are decoded with the same care, and valid ones
 * are executed. */
static void calls_break_unchecked(struct calls_server *server)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(REQUEST);
    unsigned char bytes[10];
    size_t size;
    unsigned i;

    message.no_checksum = true;
    for (size = 0; size < sizeof(bytes); size++) { /* truncated everywhere */
        message.size = size;
        calls_send_message(server, &message);
    }
    message.size = sizeof(bytes);
    message.payload = bytes;
    for (i = 0; i < 8; i++) { /* more bytes announced than there are */
        memset(bytes, 0, sizeof(bytes));
        bytes[i] = 0xff;
        calls_send_message(server, &message);
    }
    memset(bytes, 0, sizeof(bytes)); /* fewer than there are */
    calls_send_message(server, &message);
    CALLS_EXPECT(errors_sent, before, sizeof(bytes) + i + 1, REQUEST);
    message = calls_message(REQUEST);
    message.no_checksum = true;
    i = calls_victims;
    calls_send_message(server, &message);
    while (calls_victims == i)
        calls_turn(NULL);
}

/* A request with a correct header and wrong arguments. */
static void calls_break_request(struct calls_server *server)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(REQUEST);
    unsigned char bytes[128];
    size_t size;

    message.id++; /* a function that does not exist */
    calls_send_message(server, &message);
    message.id--;
    message.payload =
        (const unsigned char *) "\377\377\377\377\377\377\377\377x";
    message.size = 9; /* more bytes announced than there are */
    calls_send_message(server, &message);
    message.size = 3;
    calls_send_message(server, &message);
    message.size = 0;
    calls_send_message(server, &message);
    message = calls_message(REQUEST);
    size = calls_make(bytes, &message);
    bytes[HEAD + 5] ^= 4; /* the checksum reveals it */
    calls_send(server, bytes, size);
    CALLS_EXPECT(errors_sent, before, 5, REQUEST);
}

/* A wrong description of large arguments; `wrong` chooses the mistake. */
static size_t calls_describe_wrongly(unsigned char *bytes, unsigned wrong)
{
    size_t size = calls_describe(bytes, 100000);

    switch (wrong) {
    case 1: return size - 1;
    case 2: return 19;
    case 3: return 0;
    case 4: raw_peer_put(bytes + 16, 4, UINT32_MAX); break;
    case 5: raw_peer_put(bytes + 16, 4, 0); break;
    case 6: bytes[20] ^= 1; break;                 /* the handle's magic */
    case 7: bytes[23] = 0; break;                  /* its rights */
    case 8: raw_peer_put(bytes + 28, 8, 0); break; /* its key */
    case 9: raw_peer_put(bytes, 8, UINT64_MAX); break;
    case 10: raw_peer_put(bytes, 8, (1 << 20) + 1); break; /* a limit */
    case 11: raw_peer_put(bytes + 36, 8, 99999); break;    /* less than that */
    default: break;
    }
    return size;
}

static void calls_break_description(struct calls_server *server)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(REQUEST);
    unsigned char bytes[64];
    unsigned wrong;

    message.flags = LARGE;
    message.payload = bytes;
    for (wrong = 1; wrong <= 11; wrong++) {
        message.size = calls_describe_wrongly(bytes, wrong);
        calls_send_message(server, &message);
    }
    CALLS_EXPECT(errors_sent, before, wrong - 1, REQUEST);
    /* A correct description of memory that is never sent. */
    message.size = calls_describe(bytes, 100000);
    calls_send_message(server, &message);
    while (calls_counters().unanswered == before.unanswered)
        calls_turn(NULL);
}

/* ---- Random mistakes ---- */

static void calls_by_chance(struct calls_server *server, unsigned rounds)
{
    struct raw_peer *stranger = &server->stranger;
    unsigned char description[64], bytes[400];
    unsigned round, type;

    for (round = 0; round < rounds; round++) {
        for (type = 0; type <= TYPE_END; type++) {
            uint64_t how = raw_peer_random(stranger);
            struct calls_message message = calls_message(type);
            size_t size;

            if (how % 2 == 0) {
                message.flags = LARGE;
                message.payload = description;
                message.size = calls_describe_wrongly(
                    description, (unsigned) (how / 2 % 16));
            }
            message.sequence = how / 64 % 8;
            message.no_checksum = how / 512 % 2 == 0;
            size = calls_make(bytes, &message);
            if (how / 1024 % 4 != 0)
                size = fuzz_mutate(bytes, size, 300, &stranger->random);
            if (how / 4096 % 4 == 0) {
                size = how / 16384 % 200;
                raw_peer_noise(stranger, bytes, size);
            }
            if (how / 16384 % 4 != 0)
                calls_sign(bytes, size);
            calls_send(server, bytes, size);
        }
        if (round % 32 == 0)
            calls_serve();
        raw_peer_ignore(stranger);
    }
    calls_serve();
}

static void calls_attack(const char *string)
{
    struct calls_server server;
    struct hg_counters before;
    unsigned type;

    calls_begin(&server, string);
    for (type = REQUEST; type < TYPE_END; type++) {
        calls_break_header(&server, type);
        calls_serve();
    }
    calls_break_request(&server);
    calls_break_unchecked(&server);
    calls_break_description(&server);
    calls_serve();
    /* Valid, but about a call that does not exist. */
    before = calls_counters();
    for (type = 0; type < 256; type++) {
        struct calls_message message = calls_message(type);

        if (type != REQUEST)
            calls_send_message(&server, &message);
    }
    CALLS_EXPECT(late, before, 1, RESPONSE);
    /* Canceling a call that does not exist has no effect. */
    CALLS_EXPECT(refused, before, 253, CANCEL);
    raw_peer_ignore(&server.stranger);
    calls_by_chance(&server, 200);
    raw_peer_hang_up(&server.stranger);
    /* Again, with the state the last round left. */
    raw_peer_join(&server.stranger, server.name + 4);
    calls_by_chance(&server, 50);
    calls_close(&server);
}

HG_TEST(calls_with_false_fields_are_refused)
{
    calls_attack("zmq+tcp://127.0.0.1");
}

HG_TEST(calls_with_false_fields_are_refused_on_ipc)
{
    calls_attack("zmq+ipc://*");
}

/* ---- Responses to a call ---- */

/* A call from the server to the raw peer, which receives it. */
struct calls_call {
    struct blob in;
    struct blob out;
    hg_request_t request;
    uint64_t sequence;
};

static void calls_start(struct calls_server *server, struct calls_call *call)
{
    unsigned char bytes[400];

    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(HG_Forward(calls_stranger, calls_victim_id, &call->in,
        &call->out, &call->request));
    do {
        memset(bytes, 0, sizeof(bytes));
        (void) raw_peer_hear(&server->stranger, bytes, sizeof(bytes));
    } while (memcmp(bytes, "hz\2\5\2", 5) != 0 || bytes[12 + 11] != REQUEST);
    call->sequence = raw_peer_get(bytes + 12 + 24, 8);
}

/* It completes once, in one way or another. */
static hg_return_t calls_end(struct calls_call *call)
{
    hg_return_t ret = HG_Wait(call->request, CONFORM_TIMEOUT, HG_STATUS_IGNORE);

    HG_CHECK(ret != HG_TIMEOUT);
    HG_CHECK_OK(HG_Request_free(call->request));
    return ret;
}

/* Response number `wrong`; each of these ends the call with an error. */
static hg_return_t calls_answer(struct calls_server *server, unsigned wrong)
{
    struct calls_message answer = calls_message(RESPONSE);
    unsigned char description[64], bytes[128];
    struct calls_call call;
    size_t size;

    calls_start(server, &call);
    answer.sequence = call.sequence;
    if (wrong >= 1 && wrong <= 11) {
        answer.flags = LARGE;
        answer.payload = description;
        answer.size = calls_describe_wrongly(description, wrong);
    }
    if (wrong == 12)
        answer.code = 9999;
    if (wrong == 13 || wrong == 16)
        answer.size = 9; /* the output is truncated */
    answer.no_checksum = wrong >= 16;
    size = calls_make(bytes, &answer);
    if (wrong == 0)
        bytes[10] ^= 1; /* the version */
    if (wrong == 14)
        bytes[HEAD + 5] ^= 1; /* the checksum reveals it */
    calls_send(server, bytes, size);
    return calls_end(&call);
}

static void calls_answer_by_chance(struct calls_server *server, unsigned rounds)
{
    struct raw_peer *stranger = &server->stranger;
    unsigned round, i;

    for (round = 0; round < rounds; round++) {
        struct calls_message answer = calls_message(RESPONSE);
        unsigned char bytes[400];
        struct calls_call call;
        size_t size;

        calls_start(server, &call);
        answer.sequence = call.sequence;
        for (i = 0; i < 4; i++) {
            answer.no_checksum = i / 2 == 0;
            size = calls_make(bytes, &answer);
            size = fuzz_mutate(bytes, size, 300, &stranger->random);
            if (i % 2 == 0)
                calls_sign(bytes, size);
            if (size >= HEAD && raw_peer_get(bytes + 24, 8) == call.sequence)
                bytes[12] &= (unsigned char) ~LARGE; /* as if large */
            calls_send(server, bytes, size);
        }
        answer.code = HG_NOENTRY; /* unless it ended already */
        calls_send_message(server, &answer);
        (void) calls_end(&call);
        raw_peer_ignore(stranger);
    }
}

HG_TEST(responses_with_false_fields_end_the_call_with_an_error)
{
    struct calls_server server;
    struct calls_message meet = calls_message(REQUEST);
    struct calls_call call;
    unsigned wrong;

    calls_begin(&server, "zmq+tcp://127.0.0.1");
    meet.id = calls_meet_id;
    meet.size = 0;
    calls_send_message(&server, &meet);
    while (calls_stranger == NA_ADDR_NULL)
        calls_turn(NULL);
    HG_CHECK_RET(calls_answer(&server, 0), HG_PROTOCOL_ERROR);
    for (wrong = 1; wrong <= 11; wrong++)
        HG_CHECK(calls_answer(&server, wrong) != HG_SUCCESS);
    HG_CHECK_RET(calls_answer(&server, 12), HG_OTHER_ERROR);
    HG_CHECK(calls_answer(&server, 13) != HG_SUCCESS);
    HG_CHECK_RET(calls_answer(&server, 14), HG_CHECKSUM_ERROR);
    HG_CHECK_RET(calls_answer(&server, 15), HG_SUCCESS); /* valid */
    HG_CHECK_RET(calls_answer(&server, 16), HG_OVERFLOW);
    HG_CHECK_RET(calls_answer(&server, 17), HG_SUCCESS); /* valid */
    calls_answer_by_chance(&server, 100);
    /* A call that is not answered ends with its peer. */
    calls_start(&server, &call);
    raw_peer_hang_up(&server.stranger);
    HG_CHECK_RET(calls_end(&call), HG_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(server.na_class, calls_stranger));
    raw_peer_join(&server.stranger, server.name + 4);
    calls_close(&server);
}
