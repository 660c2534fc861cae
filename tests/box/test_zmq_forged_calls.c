/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RPC layer over ZeroMQ and a peer that has proven who it is and then lies
 * about calls: in the header, in the description of what is too large for a
 * message, in the acknowledgement of an output held, in the answer to a call.
 * Messages are forged from the pictures of the wire (gen/README.md). Of each
 * kind a known number is wrong beyond doubt, and counted as refused; as many
 * again are wrong by chance. Meanwhile a good client in a process of its own
 * calls and calls, with small arguments and with ones that overflow.
 */
#include "zmq_stranger.h"

#include "support/fuzz.h"

enum { /* types of the RPC layer's messages */
    REQUEST = 1,
    RESPONSE,
    CANCEL,
    ACK,
    TYPE_END
};

enum { HEAD = 76, LARGE = 1, PLANE_RPC = 2 };

/* ---- The good client ---- */

struct calls_blob {
    uint32_t size;
    unsigned char *bytes;
};

static hg_return_t calls_proc_blob(hg_proc_t proc, void *data)
{
    struct calls_blob *blob = (struct calls_blob *) data;
    hg_return_t ret = hg_proc_uint32_t(proc, &blob->size);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_proc_get_op(proc) == HG_FREE) {
        hg_proc_release(proc, blob->bytes);
        blob->bytes = NULL;
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (blob->size > hg_proc_get_size_left(proc))
            return HG_OVERFLOW;
        blob->bytes = (unsigned char *) hg_proc_alloc(proc, blob->size + 1u);
        if (blob->bytes == NULL)
            return HG_NOMEM;
    }
    return hg_proc_raw(proc, blob->bytes, blob->size);
}

static unsigned calls_served; /* of the good client's */

static hg_return_t calls_echo(hg_handle_t handle)
{
    struct calls_blob blob = {0, NULL};
    hg_return_t ret = HG_Handler_get_input(handle, &blob);

    if (ret != HG_SUCCESS)
        return ret;
    (void) HG_Handler_start_output(handle, &blob);
    (void) HG_Handler_free_input(handle, &blob);
    return HG_Handler_free(handle);
}

static hg_return_t calls_good(hg_handle_t handle)
{
    calls_served++;
    return calls_echo(handle);
}

/* The stranger, as the server knows it once it called "meet". */
static na_class_t *calls_class;
static na_addr_t calls_stranger = NA_ADDR_NULL;

static hg_return_t calls_meet(hg_handle_t handle)
{
    HG_CHECK_OK(
        NA_Addr_dup(calls_class, HG_Handler_get_addr(handle), &calls_stranger));
    return HG_Handler_free(handle);
}

static hg_id_t calls_good_id, calls_victim_id, calls_meet_id;

static void calls_register(void)
{
    calls_good_id =
        HG_Register("good", calls_proc_blob, calls_proc_blob, calls_good);
    calls_victim_id =
        HG_Register("victim", calls_proc_blob, calls_proc_blob, calls_echo);
    calls_meet_id = HG_Register("meet", NULL, NULL, calls_meet);
    HG_CHECK(calls_good_id != 0 && calls_victim_id != 0 && calls_meet_id != 0);
}

/* Calls until told to stop; each must be answered, and rightly. */
HG_TEST_ROLE(caller)
{
    static unsigned char bytes[150000];
    struct pollfd channel = {ENDS_CHANNEL, POLLIN, 0};
    na_class_t *na_class = NA_Initialize(argv[0], NA_FALSE);
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    HG_CHECK_EQ_INT(argc, 2);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    calls_register();
    conform_fill(bytes, sizeof(bytes), 5);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(na_class, argv[1], CONFORM_PATIENCE, &addr));
    for (i = 0; poll(&channel, 1, 0) == 0; i++) {
        struct calls_blob in = {i % 8 == 7 ? sizeof(bytes) : i % 100, bytes};
        struct calls_blob out = {0, NULL};
        hg_request_t request = HG_REQUEST_NULL;

        HG_CHECK_OK(HG_Forward(addr, calls_good_id, &in, &out, &request));
        HG_CHECK_OK(HG_Wait(request, CONFORM_PATIENCE, HG_STATUS_IGNORE));
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, in.size);
        HG_CHECK_OK(HG_Request_free(request));
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- The server ---- */

struct calls_server {
    na_class_t *na_class;
    struct hg_test_peer *good;
    struct stranger stranger;
    char name[NA_MAX_ADDR_LEN];
};

static void calls_turn(void *arg)
{
    hg_return_t ret = HG_Handler_process(1, HG_STATUS_IGNORE);

    (void) arg;
    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
}

static struct hg_counters calls_counters(void)
{
    struct hg_counters counters;

    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    return counters;
}

/* Two calls of the good client's begin: of one the answer has arrived. */
static void calls_serve(void)
{
    uint64_t end = ends_ms() + CONFORM_PATIENCE;
    unsigned before = calls_served;

    while (calls_served < before + 2) {
        HG_CHECK(ends_ms() < end);
        calls_turn(NULL);
    }
}

static void calls_come(struct calls_server *server)
{
    stranger_dial(&server->stranger, server->name + 4);
    stranger_greet(&server->stranger);
    stranger_confirm(&server->stranger);
}

static void calls_open(struct calls_server *server, const char *string)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    na_addr_t self = NA_ADDR_NULL;
    char scheme[32];

    memset(server, 0, sizeof(*server));
    hg_test_allow_log("");
    options.max_args_size = 1 << 20;
    HG_CHECK_OK(HG_Set_options(&options));
    server->na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(server->na_class != NULL);
    calls_class = server->na_class;
    HG_CHECK_OK(HG_Init(server->na_class));
    calls_register();
    HG_CHECK_OK(NA_Addr_self(server->na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(
        server->na_class, server->name, sizeof(server->name), self));
    HG_CHECK_OK(NA_Addr_free(server->na_class, self));
    (void) snprintf(scheme, sizeof(scheme), "zmq+%s://",
        NA_Get_class_protocol(server->na_class));
    server->good = hg_test_spawn("caller", scheme, server->name, (char *) NULL);
    calls_serve();
    stranger_init(&server->stranger, calls_turn, NULL);
    calls_come(server);
}

/* The stranger leaves, the good client stops, and nothing is left. */
static void calls_close(struct calls_server *server)
{
    struct hg_counters counters;
    siginfo_t info;

    stranger_hang_up(&server->stranger);
    calls_serve();
    hg_test_say(server->good, "stop");
    do {
        memset(&info, 0, sizeof(info));
        calls_turn(NULL);
    } while (waitid(P_PID, (id_t) hg_test_peer_pid(server->good), &info,
                 WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0);
    HG_CHECK_EQ_INT(hg_test_wait(server->good), 0);
    do {
        calls_turn(NULL);
        counters = calls_counters();
    } while (counters.unanswered > 0 || counters.in_flight > 0);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(server->na_class));
    stranger_fini(&server->stranger);
}

/* ---- Messages ---- */

struct calls_message {
    unsigned type;
    unsigned flags;
    unsigned code;
    uint64_t id;
    uint64_t sequence;
    const unsigned char *payload;
    size_t size; /* of the payload */
};

/* A remainder, bit by bit, of the reflected polynomial given. */
static uint64_t calls_crc(
    uint64_t polynomial, uint64_t ones, const unsigned char *p, size_t size)
{
    uint64_t crc = ones;
    unsigned i;

    while (size-- > 0) {
        crc ^= *p++;
        for (i = 0; i < 8; i++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    }
    return crc ^ ones;
}

/* Make the header's checksum right, where there is one. */
static void calls_sign(unsigned char *bytes, size_t size)
{
    size_t head = size >= HEAD ? (size_t) stranger_get(bytes + 8, 2) : 0;

    if (head >= HEAD && head <= size)
        stranger_put(bytes + head - 4, 4,
            calls_crc(0x82f63b78u, UINT32_MAX, bytes, head - 4));
}

/* The message of the RPC layer, without the transport's header. */
static size_t calls_make(
    unsigned char *bytes, const struct calls_message *message)
{
    memset(bytes, 0, HEAD);
    memcpy(bytes, "HGR1\1", 5);
    bytes[6] = (unsigned char) message->type;
    bytes[7] = (unsigned char) message->flags;
    stranger_put(bytes + 8, 2, HEAD);
    stranger_put(bytes + 12, 4, message->code);
    stranger_put(bytes + 16, 8, message->id);
    stranger_put(bytes + 24, 8, message->sequence);
    stranger_put(bytes + 56, 8, message->size);
    stranger_put(bytes + 64, 8,
        calls_crc(UINT64_C(0xc96c5795d7870f42), UINT64_MAX, message->payload,
            message->size));
    if (message->size > 0)
        memcpy(bytes + HEAD, message->payload, message->size);
    calls_sign(bytes, HEAD + message->size);
    return HEAD + message->size;
}

static void calls_send(
    struct calls_server *server, const unsigned char *bytes, size_t size)
{
    unsigned char all[512];
    size_t head = stranger_header(all, KIND_MESSAGE);

    HG_CHECK(head + size <= sizeof(all));
    all[4] = PLANE_RPC;
    memcpy(all + head, bytes, size);
    stranger_send(&server->stranger, all, head + size, false);
}

static void calls_send_message(
    struct calls_server *server, const struct calls_message *message)
{
    unsigned char bytes[400];

    calls_send(server, bytes, calls_make(bytes, message));
}

static struct calls_message calls_message(unsigned type)
{
    static const unsigned char args[6] = {2, 0, 0, 0, 'h', 'g'};
    struct calls_message message = {0};

    message.type = type;
    message.id = calls_victim_id;
    message.sequence = UINT64_C(0x4242424200000007);
    message.payload = args;
    message.size = sizeof(args);
    return message;
}

/* ---- Wrong beyond doubt ---- */

/* Wait until a counter of the layer's has grown by exactly so much. */
static void calls_expect(const char *of, size_t offset, uint64_t before,
    uint64_t count, unsigned type)
{
    uint64_t end = ends_ms() + CONFORM_PATIENCE;
    uint64_t grown;

    do {
        struct hg_counters counters = calls_counters();
        uint64_t now;

        memcpy(&now, (const char *) &counters + offset, sizeof(now));
        grown = now - before;
        calls_turn(NULL);
    } while (grown < count && ends_ms() < end);
    if (grown != count)
        hg_test_fail(HG_TEST_HERE,
            "type %u: %s grew by %" PRIu64 ", not by %" PRIu64, type, of, grown,
            count);
}

#define CALLS_EXPECT(member, before, count, type) \
    calls_expect(#member, offsetof(struct hg_counters, member), \
        (before).member, count, type)

/* Headers that are none, of a type. */
static void calls_break_header(struct calls_server *server, unsigned type)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(type);
    unsigned char good[128], bytes[128];
    size_t size = calls_make(good, &message);
    unsigned i;

    for (i = 0; i < 11; i++) {
        size_t sent = size;

        memcpy(bytes, good, sizeof(good));
        switch (i) {
        case 0: bytes[0] ^= 1; break; /* the magic */
        case 1: sent = 31; break;
        case 2: sent = HEAD - 1; break;
        case 3: sent = size - 1; break;
        case 4: bytes[4] = 2; break; /* the version */
        case 5: stranger_put(bytes + 8, 2, HEAD - 4); break;
        case 6: stranger_put(bytes + 8, 2, size + 1); break;
        case 7: stranger_put(bytes + 56, 8, message.size + 1); break;
        case 8: stranger_put(bytes + 56, 8, UINT64_MAX); break;
        case 9: /* an option that is longer than the header */
            memmove(bytes + HEAD, bytes + 72, 4);
            stranger_put(bytes + 8, 2, HEAD + 4);
            stranger_put(bytes + 56, 8, message.size - 4);
            stranger_put(bytes + 72, 4, 0x00640001);
            break;
        default: bytes[20] ^= 0x10; break; /* the checksum tells */
        }
        if (i != 10)
            calls_sign(bytes, sent);
        calls_send(server, bytes, sent);
    }
    CALLS_EXPECT(refused, before, i, type);
    /* The caller is told of all that carry a sequence; of who waits for an
     * answer nobody is known. */
    if (type == REQUEST)
        CALLS_EXPECT(errors_sent, before, i - 2, type);
    if (type == RESPONSE)
        CALLS_EXPECT(late, before, i - 2, type);
}

/* A request whose header is right and whose arguments are not. */
static void calls_break_request(struct calls_server *server)
{
    struct hg_counters before = calls_counters();
    struct calls_message message = calls_message(REQUEST);
    unsigned char bytes[128];
    size_t size;

    message.id++; /* a function that there is not */
    calls_send_message(server, &message);
    message.id--;
    message.payload = (const unsigned char *) "\377\377\377\377x";
    message.size = 5; /* more bytes promised than there are */
    calls_send_message(server, &message);
    message.size = 3;
    calls_send_message(server, &message);
    message.size = 0;
    calls_send_message(server, &message);
    message = calls_message(REQUEST);
    size = calls_make(bytes, &message);
    bytes[HEAD + 5] ^= 4; /* the checksum of the arguments tells */
    calls_send(server, bytes, size);
    CALLS_EXPECT(errors_sent, before, 5, REQUEST);
}

/* A description of large arguments; `wrong` says how. */
static size_t calls_describe(unsigned char *bytes, unsigned wrong)
{
    size_t size = 20 + 24;

    memset(bytes, 0, size);
    stranger_put(bytes + 8, 8, 100000);
    stranger_put(bytes + 16, 4, 24);
    memcpy(bytes + 20, "hM\1\3", 4);
    stranger_put(bytes + 28, 8, 77);
    stranger_put(bytes + 36, 8, 100000);
    switch (wrong) {
    case 1: return size - 1;
    case 2: return 19;
    case 3: return 0;
    case 4: stranger_put(bytes + 16, 4, UINT32_MAX); break;
    case 5: stranger_put(bytes + 16, 4, 0); break;
    case 6: bytes[20] ^= 1; break;                 /* the handle's magic */
    case 7: bytes[23] = 0; break;                  /* its rights */
    case 8: stranger_put(bytes + 28, 8, 0); break; /* its key */
    case 9: stranger_put(bytes + 8, 8, UINT64_MAX); break;
    case 10: stranger_put(bytes + 8, 8, (1 << 20) + 1); break; /* a limit */
    case 11: stranger_put(bytes + 36, 8, 99999); break; /* less than that */
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
        message.size = calls_describe(bytes, wrong);
        calls_send_message(server, &message);
    }
    CALLS_EXPECT(errors_sent, before, wrong - 1, REQUEST);
    /* One that is right, of memory that nobody will ever send. */
    message.size = calls_describe(bytes, 0);
    calls_send_message(server, &message);
    while (calls_counters().unanswered == before.unanswered)
        calls_turn(NULL);
}

/* ---- Wrong by chance ---- */

static void calls_by_chance(struct calls_server *server, unsigned rounds)
{
    struct stranger *stranger = &server->stranger;
    unsigned char description[64], bytes[400];
    unsigned round, type;

    for (round = 0; round < rounds; round++) {
        for (type = 0; type <= TYPE_END; type++) {
            uint64_t how = stranger_random(stranger);
            struct calls_message message = calls_message(type);
            size_t size;

            if (how % 2 == 0) {
                message.flags = LARGE;
                message.payload = description;
                message.size =
                    calls_describe(description, (unsigned) (how / 2 % 16));
            }
            message.sequence = how / 64 % 8;
            size = calls_make(bytes, &message);
            if (how / 1024 % 4 != 0)
                size = fuzz_mutate(bytes, size, 300, &stranger->random);
            if (how / 4096 % 4 == 0) {
                size = how / 16384 % 200;
                stranger_noise(stranger, bytes, size);
            }
            if (how / 16384 % 4 != 0)
                calls_sign(bytes, size);
            calls_send(server, bytes, size);
        }
        if (round % 32 == 0)
            calls_serve();
        stranger_ignore(stranger);
    }
    calls_serve();
}

static void calls_attack(const char *string)
{
    struct calls_server server;
    struct hg_counters before;
    unsigned type;

    calls_open(&server, string);
    for (type = REQUEST; type < TYPE_END; type++) {
        calls_break_header(&server, type);
        calls_serve();
    }
    calls_break_request(&server);
    calls_break_description(&server);
    calls_serve();
    /* Right, and about nothing that there is. */
    before = calls_counters();
    for (type = 0; type < 256; type++) {
        struct calls_message message = calls_message(type);

        if (type != REQUEST)
            calls_send_message(&server, &message);
    }
    CALLS_EXPECT(late, before, 2, RESPONSE);
    CALLS_EXPECT(refused, before, 253, CANCEL);
    stranger_ignore(&server.stranger);
    calls_by_chance(&server, 200);
    stranger_hang_up(&server.stranger);
    calls_come(&server); /* with what the last one left undone */
    calls_by_chance(&server, 50);
    calls_close(&server);
}

HG_TEST(calls_that_lie_are_refused)
{
    calls_attack("zmq+tcp://127.0.0.1");
}

HG_TEST(calls_that_lie_are_refused_on_ipc)
{
    calls_attack("zmq+ipc://*");
}

/* ---- Answers to a call ---- */

/* A call of the server's to the stranger, who hears it. */
struct calls_call {
    struct calls_blob in;
    struct calls_blob out;
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
        (void) stranger_hear(&server->stranger, bytes, sizeof(bytes));
    } while (memcmp(bytes, "hz\1\5\2", 5) != 0 || bytes[18] != REQUEST);
    call->sequence = stranger_get(bytes + 12 + 24, 8);
}

/* It ends, in whichever way, and once. */
static hg_return_t calls_end(struct calls_call *call)
{
    hg_return_t ret =
        HG_Wait(call->request, CONFORM_PATIENCE, HG_STATUS_IGNORE);

    HG_CHECK(ret != HG_TIMEOUT);
    HG_CHECK_OK(HG_Request_free(call->request));
    return ret;
}

/* The answer number `wrong`, all of which end the call with an error. */
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
        answer.size = calls_describe(description, wrong);
    }
    if (wrong == 12)
        answer.code = 9999;
    if (wrong == 13)
        answer.size = 5; /* the output is cut */
    size = calls_make(bytes, &answer);
    if (wrong == 0)
        bytes[40] ^= 1; /* the checksum of the header tells */
    if (wrong == 14)
        bytes[HEAD + 5] ^= 1; /* that of the output tells */
    calls_send(server, bytes, size);
    return calls_end(&call);
}

static void calls_answer_by_chance(struct calls_server *server, unsigned rounds)
{
    struct stranger *stranger = &server->stranger;
    unsigned round, i;

    for (round = 0; round < rounds; round++) {
        struct calls_message answer = calls_message(RESPONSE);
        unsigned char bytes[400];
        struct calls_call call;
        size_t size;

        calls_start(server, &call);
        answer.sequence = call.sequence;
        for (i = 0; i < 4; i++) {
            size = calls_make(bytes, &answer);
            size = fuzz_mutate(bytes, size, 300, &stranger->random);
            if (i % 2 == 0)
                calls_sign(bytes, size);
            if (size >= HEAD && stranger_get(bytes + 24, 8) == call.sequence)
                bytes[7] &= (unsigned char) ~LARGE; /* would have it wait */
            calls_send(server, bytes, size);
        }
        answer.code = HG_NOENTRY; /* unless it ended already */
        calls_send_message(server, &answer);
        (void) calls_end(&call);
        stranger_ignore(stranger);
    }
}

HG_TEST(answers_that_lie_end_the_call_with_an_error)
{
    struct calls_server server;
    struct calls_message meet = calls_message(REQUEST);
    struct calls_call call;
    unsigned wrong;

    calls_open(&server, "zmq+tcp://127.0.0.1");
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
    HG_CHECK_RET(calls_answer(&server, 15), HG_SUCCESS); /* which is right */
    calls_answer_by_chance(&server, 100);
    /* What never ends by itself ends with its peer. */
    calls_start(&server, &call);
    stranger_hang_up(&server.stranger);
    HG_CHECK_RET(calls_end(&call), HG_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(server.na_class, calls_stranger));
    calls_come(&server);
    calls_close(&server);
}
