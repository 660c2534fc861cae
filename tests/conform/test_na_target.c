/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: requests of an initiator that the owner of memory
 * refuses, and memory that is withdrawn and unmapped while transfers use it.
 *
 * A correct initiator would never make such requests, so the test forges: the
 * bytes of a serialized handle, which then pass every check of the initiator,
 * and whole frames of the emulation. gen/wire.md describes both formats. On
 * transports that reach other classes, owner and initiator are two classes;
 * self has one, which is both.
 */
#define _GNU_SOURCE 1
#define HG_NA_PLUGIN_API 1
#include "conform.h"

#include <sys/mman.h>

#define TARGET_SIZE 100000u
#define TARGET_HANDLE 64u /* size of a serialized handle, at most */

struct target_pair {
    struct conform_end owner;
    struct conform_end initiator; /* on self the same endpoint */
    na_addr_t addr;               /* of the owner, at the initiator */
    na_size_t handle_size;        /* serialized */
};

static void target_turn(struct target_pair *pair)
{
    (void) conform_turn(pair->initiator.na_class, pair->initiator.context, 0);
    if (!hg_test_is_self())
        (void) conform_turn(pair->owner.na_class, pair->owner.context, 0);
}

static na_return_t target_wait(
    struct target_pair *pair, struct conform_call *call)
{
    unsigned ms = 0;

    while (call->ends == 0) {
        target_turn(pair);
        if (call->ends == 0 && !hg_test_is_self()) {
            HG_CHECK(ms++ < CONFORM_TIMEOUT);
            (void) conform_turn(
                pair->owner.na_class, pair->owner.context, ms % 2);
        }
    }
    return call->ret;
}

static void target_open(struct target_pair *pair)
{
    struct na_init_info info;
    struct conform_call call;
    char name[NA_MAX_ADDR_LEN];

    conform_info(&info);
    info.rma_frame_size = 16384;
    info.rma_window = 65536;
    conform_open(&pair->owner, &info);
    if (hg_test_is_self()) {
        pair->initiator = pair->owner;
        pair->addr = pair->owner.self;
        return;
    }
    conform_open(&pair->initiator, &info);
    HG_CHECK_OK(NA_Addr_to_string(
        pair->owner.na_class, name, sizeof(name), pair->owner.self));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(pair->initiator.na_class,
        pair->initiator.context, conform_ended, &call, name, NA_OP_ID_IGNORE));
    HG_CHECK_OK(target_wait(pair, &call));
    pair->addr = call.addr;
}

static void target_close(struct target_pair *pair)
{
    if (!hg_test_is_self()) {
        HG_CHECK_OK(NA_Addr_free(pair->initiator.na_class, pair->addr));
        conform_close(&pair->initiator);
    }
    conform_close(&pair->owner);
}

static void target_serialize(struct target_pair *pair, na_mem_handle_t mem,
    unsigned char bytes[TARGET_HANDLE])
{
    pair->handle_size =
        NA_Mem_handle_get_serialize_size(pair->owner.na_class, mem);
    HG_CHECK(pair->handle_size <= TARGET_HANDLE);
    HG_CHECK_OK(NA_Mem_handle_serialize(
        pair->owner.na_class, bytes, pair->handle_size, mem));
}

static na_mem_handle_t target_deserialize(
    struct target_pair *pair, const unsigned char bytes[TARGET_HANDLE])
{
    na_mem_handle_t remote;

    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->initiator.na_class, &remote, bytes, pair->handle_size));
    return remote;
}

static na_return_t target_start(struct target_pair *pair,
    struct conform_call *call, bool put, na_mem_handle_t local,
    na_mem_handle_t remote, na_offset_t offset, na_size_t size)
{
    memset(call, 0, sizeof(*call));
    return (put ? NA_Put : NA_Get)(pair->initiator.na_class,
        pair->initiator.context, conform_ended, call, local, 0, remote, offset,
        size, pair->addr, &call->id);
}

/* Sum of both endpoints: which of them detects a forgery differs. */
static uint64_t target_counter(struct target_pair *pair, const char *name)
{
    uint64_t value = NA_Get_counter(pair->owner.na_class, name);

    if (!hg_test_is_self())
        value += NA_Get_counter(pair->initiator.na_class, name);
    return value;
}

static void target_store64(unsigned char *bytes, uint64_t value)
{
    unsigned i;

    for (i = 0; i < 8; i++)
        bytes[i] = (unsigned char) (value >> 8 * i);
}

/* ---- A put with a message ---- */

/* Not if sm copies through its rings: the message then waits for the owner's
 * answer. */
static bool target_is_told_at_once(void)
{
    const char *scheme = hg_test_transport();
    const char *mode = getenv("HG_SM_RMA");

    return !strncmp(scheme, "zmq+", 4) ||
        (!strcmp(scheme, "sm") && (mode == NULL || strcmp(mode, "copy") != 0));
}

/* No answer is waited for: the owner has data and message while the initiator
 * makes no progress. */
HG_TEST_WHERE(put_with_a_message_is_one_way, target_is_told_at_once)
{
    static unsigned char from[10000], to[10000];
    struct conform_call put, recv;
    unsigned char bytes[TARGET_HANDLE];
    struct target_pair pair;
    na_mem_handle_t local, mem, remote;
    unsigned ms = 0;
    char got[8];

    target_open(&pair);
    conform_fill(from, sizeof(from), 5);
    local =
        conform_memory(&pair.initiator, from, sizeof(from), NA_MEM_READ_ONLY);
    mem = conform_memory(&pair.owner, to, sizeof(to), NA_MEM_WRITE_ONLY);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    target_serialize(&pair, mem, bytes);
    remote = target_deserialize(&pair, bytes);
    HG_CHECK_OK(conform_recv(&pair.owner, &recv, false, got, sizeof(got), 0));
    memset(&put, 0, sizeof(put));
    HG_CHECK_OK(NA_Put_notify(pair.initiator.na_class, pair.initiator.context,
        conform_ended, &put, local, 0, remote, 0, sizeof(from), pair.addr,
        "there", 6, 1, &put.id));
    while (recv.ends == 0) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(pair.owner.na_class, pair.owner.context, 1);
    }
    HG_CHECK_OK(recv.ret);
    HG_CHECK_EQ_STR(got, "there");
    HG_CHECK_EQ_MEM(to, from, sizeof(from));
    conform_free_addr(&pair.owner, &recv);
    HG_CHECK_OK(target_wait(&pair, &put));
    HG_CHECK_OK(NA_Mem_handle_free(pair.initiator.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair.initiator.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(pair.owner.na_class, mem));
    target_close(&pair);
}

/* ---- Forged handles ---- */

/* The memory is unchanged, and a valid transfer succeeds. */
static void target_is_well(struct target_pair *pair, unsigned char *memory,
    const unsigned char *model, unsigned long flags)
{
    static unsigned char buf[TARGET_SIZE];
    na_mem_handle_t local =
        conform_memory(&pair->initiator, buf, TARGET_SIZE, NA_MEM_READWRITE);
    na_mem_handle_t mem =
        conform_memory(&pair->owner, memory, TARGET_SIZE, flags);
    bool put = flags == NA_MEM_WRITE_ONLY;
    unsigned char bytes[TARGET_HANDLE];
    struct conform_call call;
    na_mem_handle_t remote;

    HG_CHECK_EQ_MEM(memory, model, TARGET_SIZE);
    memcpy(buf, put ? model : memory, TARGET_SIZE);
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, mem));
    target_serialize(pair, mem, bytes);
    remote = target_deserialize(pair, bytes);
    HG_CHECK_OK(target_start(pair, &call, put, local, remote, 0, TARGET_SIZE));
    HG_CHECK_OK(target_wait(pair, &call));
    HG_CHECK_EQ_MEM(memory, model, TARGET_SIZE);
    HG_CHECK_EQ_MEM(buf, model, TARGET_SIZE);
    HG_CHECK_OK(NA_Mem_handle_free(pair->initiator.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair->initiator.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner.na_class, mem));
}

/* The libfabric transport has another format: see
 * tests/box/test_ofi_hostile.c. */
static bool target_knows_handles(void)
{
    return !hg_test_is_ofi();
}

HG_TEST_WHERE(forged_handles_are_refused_by_the_target, target_knows_handles)
{
    static const struct {
        unsigned long flags; /* as registered; forged: all */
        bool put;
        uint64_t key; /* flips these bits of the key */
        na_offset_t offset;
        na_size_t size;
        na_return_t ret;
    } cases[] = {
        {NA_MEM_READ_ONLY, true, 0, 0, 10, NA_PERMISSION},
        {NA_MEM_READ_ONLY, true, 0, 0, TARGET_SIZE, NA_PERMISSION},
        {NA_MEM_WRITE_ONLY, false, 0, 0, 10, NA_PERMISSION},
        {NA_MEM_READWRITE, true, 0, TARGET_SIZE - 9, 10, NA_OVERFLOW},
        {NA_MEM_READWRITE, false, 0, TARGET_SIZE - 9, 10, NA_OVERFLOW},
        {NA_MEM_READWRITE, true, 0, TARGET_SIZE - 1, TARGET_SIZE, NA_OVERFLOW},
        {NA_MEM_READWRITE, false, 0, TARGET_SIZE + 1, 0, NA_OVERFLOW},
        {NA_MEM_READWRITE, true, 0, UINT64_MAX - 10, 10, NA_OVERFLOW},
        {NA_MEM_READWRITE, false, 0, UINT64_MAX - TARGET_SIZE, TARGET_SIZE,
            NA_OVERFLOW},
        {NA_MEM_READWRITE, true, 1, 0, 10, NA_NOENTRY},
        {NA_MEM_READWRITE, true, 1, 0, TARGET_SIZE, NA_NOENTRY},
        {NA_MEM_READWRITE, false, UINT64_C(1) << 63, 0, 10, NA_NOENTRY},
    };
    static unsigned char memory[TARGET_SIZE], model[TARGET_SIZE];
    static unsigned char buf[TARGET_SIZE];
    struct target_pair pair;
    na_mem_handle_t local;
    unsigned i;

    hg_test_allow_log("a transfer was refused");
    target_open(&pair);
    conform_fill(memory, TARGET_SIZE, 1);
    memcpy(model, memory, TARGET_SIZE);
    local = conform_memory(&pair.initiator, buf, TARGET_SIZE, NA_MEM_READWRITE);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* Two segments: memory behind an offset does not make it valid. */
        struct na_segment segments[2] = {
            {memory, 1000}, {memory + 1000, TARGET_SIZE - 1000}};
        uint64_t refused = target_counter(&pair, "rma_refused");
        unsigned char bytes[TARGET_HANDLE];
        struct conform_call call;
        na_mem_handle_t mem, remote;
        unsigned k;

        HG_CHECK_OK(NA_Mem_handle_create_segments(
            pair.owner.na_class, segments, 2, cases[i].flags, &mem));
        HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
        target_serialize(&pair, mem, bytes);
        bytes[3] = NA_MEM_READWRITE;
        for (k = 0; k < 8; k++)
            bytes[8 + k] ^= (unsigned char) (cases[i].key >> 8 * k);
        target_store64(bytes + 16, UINT64_MAX);
        remote = target_deserialize(&pair, bytes);
        HG_CHECK_OK(target_start(&pair, &call, cases[i].put, local, remote,
            cases[i].offset, cases[i].size));
        HG_CHECK_RET(target_wait(&pair, &call), cases[i].ret);
        /* Each frame is refused separately. */
        HG_CHECK(target_counter(&pair, "rma_refused") > refused);
        /* The frames of this transfer come before those of the next one. */
        target_is_well(&pair, memory, model, cases[i].flags);
        refused = target_counter(&pair, "rma_refused");
        HG_CHECK_OK(NA_Mem_handle_free(pair.owner.na_class, mem));
        /* A key that was valid a moment ago. */
        bytes[8] ^= (unsigned char) cases[i].key;
        HG_CHECK_OK(NA_Mem_handle_free(pair.initiator.na_class, remote));
        remote = target_deserialize(&pair, bytes);
        HG_CHECK_OK(
            target_start(&pair, &call, cases[i].put, local, remote, 0, 10));
        HG_CHECK_RET(target_wait(&pair, &call), NA_NOENTRY);
        HG_CHECK_EQ_U64(target_counter(&pair, "rma_refused"), refused + 1);
        HG_CHECK_OK(NA_Mem_handle_free(pair.initiator.na_class, remote));
        target_is_well(&pair, memory, model, cases[i].flags);
    }
    HG_CHECK_EQ_U64(target_counter(&pair, "rma_malformed"), 0);
    HG_CHECK_OK(NA_Mem_handle_free(pair.initiator.na_class, local));
    target_close(&pair);
}

/* ---- Forged frames ---- */

/* In hg_na_zmq.c, which not every build has. */
extern const struct na_plugin hg_na_zmq_plugin __attribute__((weak));

static void target_release(void *arg)
{
    (*(unsigned *) arg)++;
}

/* Deliver a frame to the owner as if its peer's emulation had sent it. */
static void target_forge(struct target_pair *pair, const unsigned char *header,
    size_t header_size, const void *data, size_t size)
{
    unsigned released = 0;

    HG_CHECK(!strncmp(hg_test_transport(), "zmq+", 4));
    HG_CHECK_OK(hg_na_zmq_plugin.frame_send(pair->addr, header, header_size,
        data, size, target_release, &released));
    HG_CHECK_EQ_INT(released, 1); /* small: it was copied */
}

/* Wait until a counter of the owner has changed. */
static void target_await(
    struct target_pair *pair, const char *name, uint64_t before)
{
    unsigned ms = 0;

    while (target_counter(pair, name) == before) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        target_turn(pair);
        (void) conform_turn(pair->owner.na_class, pair->owner.context, 1);
    }
}

/* A request's header; see emulated RMA in gen/wire.md. */
static void target_request(unsigned char header[48], bool put, uint64_t key,
    uint64_t offset, uint64_t length)
{
    static uint64_t id = UINT64_C(0x7700000000000000);

    memset(header, 0, 48);
    header[0] = 'h';
    header[1] = 'R';
    header[2] = 2;
    header[3] = put ? 2 : 1;
    target_store64(header + 8, ++id);
    target_store64(header + 16, key);
    target_store64(header + 24, offset);
    target_store64(header + 32, length);
}

/* The function can be called only if its table is visible here. */
static bool target_can_forge(void)
{
    return !strncmp(hg_test_transport(), "zmq+", 4);
}

HG_TEST_WHERE(forged_frames_are_refused_by_the_target, target_can_forge)
{
    static const struct {
        bool put;
        bool good_key;
        na_offset_t offset;
        na_size_t length;
        size_t size; /* size of the data after it */
        const char *counter;
    } cases[] = {
        {false, false, 0, 10, 0, "rma_refused"},
        {true, false, 0, 10, 10, "rma_refused"},
        /* Offset and length wrap around 2^64, into the memory. */
        {false, true, UINT64_MAX - 9, 20, 0, "rma_refused"},
        {true, true, UINT64_MAX - 9, 20, 20, "rma_refused"},
        {false, true, 10, UINT64_MAX - 4, 0, "rma_refused"},
        {true, true, TARGET_SIZE, 1, 1, "rma_refused"},
        {true, true, UINT64_MAX, 20, 20, "rma_refused"},
        {false, true, UINT64_MAX, UINT64_MAX, 0, "rma_refused"},
        /* More data than the request names, and less. */
        {true, true, 0, 10, 20, "rma_malformed"},
        {true, true, 10, UINT64_MAX - 4, 20, "rma_malformed"},
    };
    static unsigned char memory[TARGET_SIZE], model[TARGET_SIZE];
    static const unsigned char junk[32] = {0xee};
    unsigned char bytes[TARGET_HANDLE], header[48];
    struct target_pair pair;
    na_mem_handle_t mem;
    uint64_t key, before;
    unsigned i;

    target_open(&pair);
    conform_fill(memory, TARGET_SIZE, 1);
    memcpy(model, memory, TARGET_SIZE);
    mem = conform_memory(&pair.owner, memory, TARGET_SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    target_serialize(&pair, mem, bytes);
    for (key = 0, i = 8; i-- > 0;)
        key = key << 8 | bytes[8 + i];
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        before = target_counter(&pair, cases[i].counter);
        target_request(header, cases[i].put, cases[i].good_key ? key : key ^ 2,
            cases[i].offset, cases[i].length);
        target_forge(&pair, header, sizeof(header), junk, cases[i].size);
        target_await(&pair, cases[i].counter, before);
        HG_CHECK_EQ_U64(target_counter(&pair, cases[i].counter), before + 1);
        target_is_well(&pair, memory, model, NA_MEM_READWRITE);
    }
    /* Data of no transfer; half a header; an unknown type. */
    target_request(header, true, key, 0, sizeof(junk));
    header[3] = 3;
    before = target_counter(&pair, "rma_stale");
    target_forge(&pair, header, sizeof(header), junk, sizeof(junk));
    target_await(&pair, "rma_stale", before);
    before = target_counter(&pair, "rma_malformed");
    target_forge(&pair, header, 11, NULL, 0);
    target_await(&pair, "rma_malformed", before);
    header[3] = 99;
    target_forge(&pair, header, sizeof(header), NULL, 0);
    target_await(&pair, "rma_malformed", before + 1);
    target_is_well(&pair, memory, model, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_handle_free(pair.owner.na_class, mem));
    target_close(&pair);
}

/* ---- Memory that is withdrawn ---- */

/* Deregistered memory belongs to the application again at once: here it is
 * unmapped, so that any access crashes. Returns how many transfers were ended
 * by that. */
static unsigned target_withdraw(
    struct target_pair *pair, bool put, unsigned turns)
{
    enum { COUNT = 6, SIZE = 1 << 20 };
    static unsigned char local_memory[SIZE];
    struct conform_call calls[COUNT];
    unsigned char *memory = (unsigned char *) mmap(
        NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    na_mem_handle_t local =
        conform_memory(&pair->initiator, local_memory, SIZE, NA_MEM_READWRITE);
    unsigned char bytes[TARGET_HANDLE];
    na_mem_handle_t mem, remote;
    unsigned i, cut = 0;

    HG_CHECK(memory != MAP_FAILED);
    mem = conform_memory(&pair->owner, memory, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, mem));
    target_serialize(pair, mem, bytes);
    remote = target_deserialize(pair, bytes);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(target_start(pair, &calls[i], put, local, remote, 0, SIZE));
    for (i = 0; i < turns; i++)
        target_turn(pair);
    HG_CHECK_OK(NA_Mem_deregister(pair->owner.na_class, mem));
    HG_CHECK_EQ_INT(munmap(memory, SIZE), 0);
    for (i = 0; i < COUNT; i++) {
        na_return_t ret = target_wait(pair, &calls[i]);

        HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
        cut += ret == NA_NOENTRY;
    }
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(pair->initiator.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(pair->initiator.na_class, remote));
    return cut;
}

HG_TEST(withdrawn_memory_can_be_unmapped_during_transfers)
{
    struct target_pair pair;
    unsigned round, cut[2] = {0, 0};

    hg_test_allow_log("a transfer was refused");
    target_open(&pair);
    for (round = 0; round < 60; round++)
        cut[round & 1] += target_withdraw(&pair, (round & 1) != 0, round / 2);
    if (!hg_test_is_self()) /* there a transfer completes when it is started */
        HG_CHECK(cut[0] > 10 && cut[1] > 10);
    target_close(&pair);
}
