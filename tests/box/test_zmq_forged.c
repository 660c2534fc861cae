/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeroMQ transport with peers that have proved who they are and then send
 * false descriptions of memory in the frames of emulated RMA. All frames are
 * built from the wire format (gen/wire.md). Of each kind a known number is
 * certainly wrong and counted as refused; as many again have random mistakes.
 */
#include "zmq_raw_peer.h"

#include "support/fuzz.h"

enum { GET = 1, PUT, ANSWER, TYPE_END }; /* types */

enum { MORE = 1 }; /* a flag of ANSWER */

enum {
    FORGED_MEMORY = 64 << 10,
    FORGED_GUARD = 4096,
    FORGED_LENGTH = 32 << 10, /* size of a transfer */
    FORGED_DATA = 4096,       /* size of a put */
    FORGED_ALL = FORGED_MEMORY + 2 * FORGED_GUARD
};

struct forged {
    unsigned type;
    unsigned flags;
    uint64_t id;
    uint64_t key; /* key of requests */
    uint64_t offset;
    uint64_t length;
    unsigned status;
};

/* A frame as the transport's message; returns its size. */
static size_t forged_make(unsigned char *bytes, const struct forged *frame)
{
    size_t size = raw_peer_header(bytes, KIND_FRAME);

    memcpy(bytes + size, "hR\2", 3);
    bytes[size + 3] = (unsigned char) frame->type;
    bytes[size + 4] = (unsigned char) frame->flags;
    bytes[size + 5] = 0;
    raw_peer_put(bytes + size + 6, 2, frame->status);
    raw_peer_put(bytes + size + 8, 8, frame->id);
    raw_peer_put(bytes + size + 16, 8, frame->key);
    raw_peer_put(bytes + size + 24, 8, frame->offset);
    raw_peer_put(bytes + size + 32, 8, frame->length);
    raw_peer_put(bytes + size + 40, 8, 0);
    return size + 48;
}

static void forged_send(
    struct raw_peer *stranger, const struct forged *frame, size_t data)
{
    static const unsigned char zeros[8192] = {0};
    unsigned char bytes[128];
    size_t size = forged_make(bytes, frame);

    HG_CHECK(data <= sizeof(zeros));
    raw_peer_send(stranger, bytes, size, data > 0);
    if (data > 0)
        raw_peer_send(stranger, zeros, data, false);
}

/* ---- What is attacked ---- */

struct forged_target {
    struct attacked server;
    struct raw_peer stranger;
    unsigned char *memory; /* guard, registered memory, guard */
    na_mem_handle_t mem;
    uint64_t key;
    uint64_t expected; /* refusals so far */
    uint64_t next_id;
};

/* The number of frames that were refused. */
static uint64_t forged_refused(const struct forged_target *target)
{
    static const char *const names[] = {
        "rma_malformed", "rma_refused", "rma_stale", "rma_dropped"};
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        sum += NA_Get_counter(target->server.end.na_class, names[i]);
    return sum;
}

/* Exactly so many more are refused; `of` names the check. */
static void forged_expect(
    struct forged_target *target, const char *of, unsigned count)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    uint64_t before = target->expected;

    target->expected += count;
    while (forged_refused(target) < target->expected && endpoint_ms() < end)
        attacked_turn(&target->server);
    if (forged_refused(target) != target->expected)
        hg_test_fail(HG_TEST_HERE, "%s: %" PRIu64 " refused, not %u", of,
            forged_refused(target) - before, count);
    raw_peer_ignore(&target->stranger);
}

static void forged_open(struct forged_target *target, const char *string)
{
    unsigned char bytes[128];

    memset(target, 0, sizeof(*target));
    hg_test_allow_log("");
    raw_peer_init(&target->stranger, attacked_turn, &target->server);
    attacked_open(&target->server, string);
    target->memory = endpoint_map(FORGED_ALL);
    conform_fill(target->memory, FORGED_ALL, 1);
    target->mem = endpoint_register(
        &target->server.end, target->memory + FORGED_GUARD, FORGED_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_serialize(
        target->server.end.na_class, bytes, sizeof(bytes), target->mem));
    target->key = raw_peer_get(bytes + 8, 8);
    target->next_id = 1000;
    raw_peer_join(&target->stranger, target->server.name + 4);
}

static void forged_close(struct forged_target *target)
{
    unsigned char *want = (unsigned char *) malloc(FORGED_ALL);

    attacked_serve(&target->server);
    HG_CHECK(want != NULL);
    conform_fill(want, FORGED_ALL, 1);
    HG_CHECK_EQ_MEM(target->memory, want, FORGED_GUARD);
    HG_CHECK_EQ_MEM(target->memory + FORGED_GUARD + FORGED_MEMORY,
        want + FORGED_GUARD + FORGED_MEMORY, FORGED_GUARD);
    free(want);
    HG_CHECK_OK(NA_Mem_handle_free(target->server.end.na_class, target->mem));
    endpoint_unmap(target->memory, FORGED_ALL);
    raw_peer_hang_up(&target->stranger);
    raw_peer_fini(&target->stranger);
    attacked_close(&target->server);
}

/* A frame of the type that is correct by itself, with a new id. */
static struct forged forged_frame(struct forged_target *target, unsigned type)
{
    struct forged frame = {0};

    frame.type = type;
    frame.id = target->next_id++;
    frame.key = target->key;
    frame.length = type == PUT ? FORGED_DATA : FORGED_LENGTH;
    return frame;
}

/* ---- Certainly wrong ---- */

/* A frame that is invalid in any state. */
static void forged_break_header(struct forged_target *target, unsigned type)
{
    struct forged frame = forged_frame(target, type);
    unsigned char bytes[128];
    size_t size = forged_make(bytes, &frame);
    unsigned count = 4;

    raw_peer_send(&target->stranger, bytes, size - 1, false);
    raw_peer_send(&target->stranger, bytes, 12, false);
    bytes[12] ^= 1; /* the magic */
    raw_peer_send(&target->stranger, bytes, size, false);
    bytes[12] ^= 1;
    bytes[14]++; /* the version */
    raw_peer_send(&target->stranger, bytes, size, false);
    bytes[14]--;
    if (type == GET) {
        raw_peer_send(&target->stranger, bytes, size, true);
        raw_peer_send(&target->stranger, bytes, size, false);
        count++;
    }
    /* Data before its header. */
    raw_peer_send(&target->stranger, "data", 4, true);
    raw_peer_send(&target->stranger, bytes, size, false);
    forged_expect(target, "headers", count); /* the last is no frame */
}

/* A request with a mistake is refused. */
static void forged_break_request(struct forged_target *target, unsigned type)
{
    struct forged frame = forged_frame(target, type);
    size_t data = type == PUT ? FORGED_DATA : 0;
    unsigned i;

    for (i = 0; i < 6; i++) {
        struct forged wrong = frame;

        wrong.id += i;
        switch (i) {
        case 0: wrong.key ^= UINT64_C(1) << 40; break;
        case 1: wrong.offset = FORGED_MEMORY + 1; break;
        case 2: wrong.offset = FORGED_MEMORY - FORGED_DATA + 1; break;
        case 3: wrong.offset = UINT64_MAX - 4095; break; /* wraps */
        case 4: wrong.length = FORGED_MEMORY + 1; break;
        default: wrong.length = UINT64_MAX; break;
        }
        forged_send(&target->stranger, &wrong, data);
    }
    target->next_id += i;
    forged_expect(target, "requests", i);
    if (type == PUT) { /* more and less data than the request names */
        frame = forged_frame(target, type);
        forged_send(&target->stranger, &frame, FORGED_DATA + 1);
        forged_send(&target->stranger, &frame, FORGED_DATA - 1);
        forged_send(&target->stranger, &frame, 0);
        forged_expect(target, "puts of another size", 3);
    }
    /* A number may be in use: the target does not check it. */
    frame = forged_frame(target, type);
    forged_send(&target->stranger, &frame, data);
    forged_send(&target->stranger, &frame, data);
    forged_expect(target, "requests that are right", 0);
}

/* ---- Random mistakes ---- */

/* A correct get and a correct put, with frames of all types between them, each
 * with a random change. */
static void forged_by_chance(struct forged_target *target, unsigned rounds)
{
    struct raw_peer *stranger = &target->stranger;
    unsigned char data[4096];
    unsigned round, type;

    memset(data, 0, sizeof(data));
    for (round = 0; round < rounds; round++) {
        uint64_t ids[2];
        unsigned i;

        for (i = 0; i < 2; i++) {
            struct forged frame = forged_frame(target, i + 1);

            ids[i] = frame.id;
            forged_send(stranger, &frame, i * FORGED_DATA);
        }
        for (type = 0; type <= TYPE_END; type++) {
            uint64_t how = raw_peer_random(stranger);
            struct forged frame = forged_frame(target, type);
            unsigned char bytes[128];
            size_t size;
            unsigned parts;

            frame.id = how % 4 == 0 ? frame.id : ids[how / 4 % 2];
            frame.offset = 4096;
            size = forged_make(bytes, &frame) - 12;
            if (how / 8 % 4 != 0)
                size = fuzz_mutate(
                    bytes + 12, size, sizeof(bytes) - 12, &stranger->random);
            if (how / 32 % 8 == 0) /* data first */
                raw_peer_send(stranger, data, how / 256 % 4097, true);
            for (parts = (unsigned) (how >> 40) % 5; parts > 0; parts--) {
                raw_peer_send(stranger, bytes, size + 12, true);
                if (parts == 2)
                    raw_peer_send(stranger, data, how / 256 % 4097, true);
            }
            raw_peer_send(stranger, bytes, size + 12, false);
        }
        if (round % 16 == 0)
            attacked_serve(&target->server);
        raw_peer_ignore(stranger);
    }
}

static void forged_attack_memory(const char *string)
{
    struct forged_target target;
    unsigned type;

    forged_open(&target, string);
    for (type = 1; type < TYPE_END; type++) {
        forged_break_header(&target, type);
        if (type != ANSWER) {
            forged_break_request(&target, type);
        } else { /* about a transfer that does not exist */
            struct forged frame = forged_frame(&target, type);

            forged_send(&target.stranger, &frame, 0);
            forged_expect(&target, "a frame of no transfer", 1);
        }
        attacked_serve(&target.server);
    }
    for (type = 0; type <= 255; type += type == 0 ? TYPE_END : 1) {
        struct forged frame = forged_frame(&target, type);

        forged_send(&target.stranger, &frame, 0);
    }
    forged_expect(&target, "types", 256 - TYPE_END + 1);
    forged_by_chance(&target, 100);
    raw_peer_hang_up(&target.stranger);
    /* Again, with the state the last round left. */
    raw_peer_join(&target.stranger, target.server.name + 4);
    forged_by_chance(&target, 20);
    forged_close(&target);
}

HG_TEST(frames_with_false_memory_fields_are_refused)
{
    forged_attack_memory("zmq+tcp://127.0.0.1");
}

HG_TEST(frames_with_false_memory_fields_are_refused_on_ipc)
{
    forged_attack_memory("zmq+ipc://*");
}

/* ---- Wrong answers to a request ---- */

/* The server's operation on the raw peer's memory. */
struct forged_op {
    struct conform_call call;
    na_addr_t addr;
    na_mem_handle_t remote;
    uint64_t id; /* as in its request */
};

static void forged_learn(struct forged_target *target, struct forged_op *op)
{
    struct conform_end *end = &target->server.end;
    unsigned char bytes[128];
    struct conform_call recv;
    char got[64];
    size_t size;

    memset(op, 0, sizeof(*op));
    HG_CHECK_OK(conform_recv(end, &recv, false, got, sizeof(got), 0));
    size = raw_peer_header(bytes, KIND_MESSAGE);
    raw_peer_send(&target->stranger, bytes, size, false);
    HG_CHECK_OK(conform_wait(end, &recv));
    op->addr = recv.addr;
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, "hM\1\3", 4);
    raw_peer_put(bytes + 8, 8, 77);
    raw_peer_put(bytes + 16, 8, FORGED_MEMORY);
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(end->na_class, &op->remote, bytes, 24));
}

/* Start it, and receive its request. */
static void forged_start(
    struct forged_target *target, struct forged_op *op, bool put)
{
    struct conform_end *end = &target->server.end;
    unsigned char bytes[128];

    memset(&op->call, 0, sizeof(op->call));
    HG_CHECK_OK((put ? NA_Put : NA_Get)(end->na_class, end->context,
        conform_ended, &op->call, target->mem, 0, op->remote, 0, FORGED_LENGTH,
        op->addr, &op->call.id));
    do {
        memset(bytes, 0, sizeof(bytes));
        (void) raw_peer_hear(&target->stranger, bytes, sizeof(bytes));
    } while (memcmp(bytes, "hz\2\6", 4) != 0 || bytes[15] != (put ? PUT : GET));
    op->id = raw_peer_get(bytes + 20, 8);
}

/* Answer wrongly; the operation ends. */
static void forged_answer(struct forged_target *target, struct forged_op *op,
    bool put, const struct forged *answer, size_t data)
{
    struct forged frame = *answer;

    forged_start(target, op, put);
    frame.id = op->id;
    forged_send(&target->stranger, &frame, data);
    HG_CHECK_RET(
        conform_wait(&target->server.end, &op->call), NA_PROTOCOL_ERROR);
    forged_expect(target, "an answer", 1);
}

/* Another peer, which has guessed the number of an operation. */
static void forged_guess(struct forged_target *target, struct forged_op *op)
{
    struct forged frame = {
        .type = ANSWER, .status = NA_NOENTRY, .length = FORGED_LENGTH};
    struct raw_peer other;

    raw_peer_init(&other, attacked_turn, &target->server);
    raw_peer_join(&other, target->server.name + 4);
    forged_start(target, op, false);
    frame.id = op->id;
    forged_send(&other, &frame, 0);
    forged_expect(target, "a guess", 1);
    HG_CHECK_EQ_INT(op->call.ends, 0);
    forged_send(&target->stranger, &frame, 0);
    HG_CHECK_RET(conform_wait(&target->server.end, &op->call), NA_NOENTRY);
    raw_peer_hang_up(&other);
    raw_peer_fini(&other);
}

static void forged_answer_by_chance(
    struct forged_target *target, struct forged_op *op, unsigned rounds)
{
    struct raw_peer *stranger = &target->stranger;
    static unsigned char data[8200];
    unsigned round, i;

    for (round = 0; round < rounds; round++) {
        struct forged end = {
            .type = ANSWER, .status = NA_NOENTRY, .length = FORGED_LENGTH};
        bool put = round % 2 != 0;

        forged_start(target, op, put);
        for (i = 0; i < 3; i++) {
            struct forged frame = {.id = op->id};
            uint64_t how = raw_peer_random(stranger);
            unsigned char bytes[128];
            size_t size;

            frame.type = ANSWER;
            frame.flags = (unsigned) (how % 2);
            frame.status =
                how / 2 % 2 == 0 ? NA_SUCCESS : (unsigned) (how / 4 % 40);
            frame.offset = how / 256 % 2 * 4096;
            frame.length = put ? how / 2048 % FORGED_LENGTH : how / 2048 % 8200;
            size = forged_make(bytes, &frame);
            if (how / 512 % 2 == 0)
                size = 12 +
                    fuzz_mutate(bytes + 12, size - 12, sizeof(bytes) - 12,
                        &stranger->random);
            if (how / 1024 % 2 == 0) {
                raw_peer_send(stranger, bytes, size, true);
                raw_peer_send(stranger, data, how / 2048 % 8200, false);
            } else
                raw_peer_send(stranger, bytes, size, false);
        }
        end.id = op->id; /* of a peer that may be gone */
        forged_send(stranger, &end, 0);
        (void) conform_wait(&target->server.end, &op->call);
        HG_CHECK_EQ_INT(op->call.ends, 1);
        raw_peer_ignore(stranger);
    }
}

HG_TEST(responses_with_false_memory_fields_end_the_operation)
{
    static const struct {
        struct forged frame;
        size_t data;
        bool put;
    } wrong[] = {
        {{ANSWER, MORE, .offset = FORGED_LENGTH, .length = 64}, 64, false},
        {{ANSWER, MORE, .offset = UINT64_MAX, .length = 64}, 64, false},
        {{ANSWER, MORE, .length = 64}, 0, false},
        {{ANSWER, MORE, .length = 64}, 64, true},
        {{ANSWER, 0, .length = 64}, 64, false},
        {{ANSWER, 0, .length = FORGED_LENGTH + 1}, 0, true},
        {{ANSWER, 0, .length = FORGED_LENGTH, .status = 0}, 0, false},
        {{ANSWER, 0, .length = FORGED_LENGTH, .status = 9999}, 0, false},
        {{ANSWER, 0, .length = FORGED_LENGTH, .status = 9999}, 0, true},
        {{ANSWER, 0, .length = 0, .status = NA_NOENTRY}, 0, true},
    };
    struct forged_target target;
    struct forged_op op;
    size_t i;

    forged_open(&target, "zmq+tcp://127.0.0.1");
    forged_learn(&target, &op);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        forged_answer(
            &target, &op, wrong[i].put, &wrong[i].frame, wrong[i].data);
    forged_guess(&target, &op);
    forged_answer_by_chance(&target, &op, 100);
    /* An operation that is not answered ends with its peer. */
    forged_start(&target, &op, false);
    raw_peer_hang_up(&target.stranger);
    HG_CHECK_RET(conform_wait(&target.server.end, &op.call), NA_DISCONNECT);
    HG_CHECK_OK(NA_Mem_handle_free(target.server.end.na_class, op.remote));
    HG_CHECK_OK(NA_Addr_free(target.server.end.na_class, op.addr));
    raw_peer_join(&target.stranger, target.server.name + 4);
    forged_close(&target);
}
