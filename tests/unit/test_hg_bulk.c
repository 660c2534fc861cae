/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules bulk and transfer: two layers in one process, connected by the
 * loop transport, so that the memory of each is remote to the other; also with
 * a separate class for bulk data.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"
#include "support/fuzz.h"
#include "support/golden.h"

#define BULK_EAGER 4096

static void bulk_begin(struct engine *engine)
{
    loop_register();
    HG_CHECK_OK(engine_open(engine, BULK_EAGER, NULL));
}

/* `bulk` of one side as the other side sees it. */
static struct hg_bulk *bulk_as_remote(
    struct hg_bulk *bulk, struct hg_bulk_layer *layer)
{
    size_t size = hg_bulk_serialize_size(bulk);
    unsigned char *bytes = (unsigned char *) malloc(size);
    struct hg_bulk *remote = NULL;

    HG_CHECK(bytes != NULL);
    HG_CHECK_OK(hg_bulk_serialize(bulk, bytes, size));
    HG_CHECK_OK(hg_bulk_deserialize(layer, bytes, size, &remote));
    HG_CHECK(remote->remote && remote != bulk);
    HG_CHECK_EQ_U64(remote->size, bulk->size);
    HG_CHECK_EQ_U64(remote->segment_count, bulk->segment_count);
    HG_CHECK_EQ_U64(remote->flags, bulk->flags);
    free(bytes);
    return remote;
}

struct bulk_result {
    struct hg_transfer transfer; /* must be first */
    unsigned ends;
    hg_return_t ret;
};

static void bulk_ended(struct hg_transfer *transfer)
{
    struct bulk_result *result = (struct bulk_result *) transfer;

    HG_CHECK_EQ_INT(result->ends++, 0);
    result->ret = transfer->ret;
    hg_enter(transfer->home->layer->lock);
    hg_transfer_fini(transfer);
    hg_leave(transfer->home->layer->lock);
}

static hg_return_t bulk_begin_transfer(struct bulk_result *result,
    struct hg_transfer_list *home, const struct hg_transfer_args *args)
{
    hg_return_t ret;

    memset(result, 0, sizeof(*result));
    hg_enter(home->layer->lock);
    ret = hg_transfer_start(&result->transfer, home, args, bulk_ended, NULL);
    hg_leave(home->layer->lock);
    return ret;
}

/* A transfer started by `b`. */
static hg_return_t bulk_start(struct engine *engine, hg_bulk_op_t op,
    struct hg_bulk *origin, size_t origin_offset, struct hg_bulk *local,
    size_t local_offset, size_t size, struct bulk_result *result)
{
    struct hg_transfer_args args = {
        op, engine->b.peer, origin, origin_offset, local, local_offset, size};

    return bulk_begin_transfer(result, &engine->b.context->transfers, &args);
}

/* ---- Serialized handles ---- */

static const char *const bulk_pictures[] = {"bulk", "bulk_owner", "bulk_bound"};

static struct hg_bulk *bulk_golden_handle(struct hg_bulk_layer *layer,
    size_t count, const size_t *sizes, unsigned long flags)
{
    unsigned char scratch[1024];
    struct hg_bulk *bulk = NULL;

    HG_CHECK_OK(hg_bulk_create(layer, count, NULL, sizes, flags, &bulk));
    /* Published once, so that the ids below do not change. */
    HG_CHECK_OK(hg_bulk_serialize(bulk, scratch, sizeof(scratch)));
    return bulk;
}

/* A bound handle, which is passed on unchanged, with a mark. */
static void bulk_compare_bound(struct engine *engine, struct golden *golden)
{
    size_t size = 16;
    size_t want_size;
    const unsigned char *want = golden_get(golden, "bulk_bound", &want_size);
    unsigned char bytes[256];
    struct hg_bulk *bulk =
        bulk_golden_handle(engine->a.layer, 1, &size, HG_BULK_WRITE_ONLY);
    struct hg_bulk *remote = NULL;
    uint64_t key = bulk->mem->key;
    uint64_t id = bulk->id;

    engine->a.layer->owner[0] = '\0';
    HG_CHECK_OK(hg_bulk_bind(bulk, 5, "a test"));
    bulk->id = 0x4847464544434241u;
    bulk->mem->key = 0x5857565554535251u;
    HG_CHECK_EQ_U64(hg_bulk_serialize_size(bulk), want_size);
    HG_CHECK_OK(hg_bulk_serialize(bulk, bytes, sizeof(bytes)));
    HG_CHECK_EQ_MEM(bytes, want, want_size);
    bulk->id = id;
    bulk->mem->key = key;

    HG_CHECK_OK(hg_bulk_deserialize(engine->b.layer, want, want_size, &remote));
    HG_CHECK(hg_bulk_is_bound(remote) && remote->context_id == 5);
    HG_CHECK_EQ_U64(remote->flags, HG_BULK_WRITE_ONLY);
    HG_CHECK_EQ_STR(remote->owner, "loop://a");
    HG_CHECK(remote->addr == NULL); /* not looked up */
    memset(bytes, 0, sizeof(bytes));
    HG_CHECK_EQ_U64(hg_bulk_serialize_size(remote), want_size);
    HG_CHECK_OK(hg_bulk_serialize(remote, bytes, sizeof(bytes)));
    HG_CHECK_EQ_INT(bytes[HG_BULK_FLAGS_AT], 0x0e);
    bytes[HG_BULK_FLAGS_AT] = 0x06;
    HG_CHECK_EQ_MEM(bytes, want, want_size);
    hg_bulk_unref(remote);
    hg_bulk_unref(bulk);
}

HG_TEST(bulk_handle_matches_its_golden_file)
{
    static const size_t one_sizes[] = {1000, 3096};
    static const size_t two_sizes[] = {8, 16};
    struct golden *golden = golden_open("tests/golden/bulk.hex");
    struct engine engine;
    unsigned which;

    bulk_begin(&engine);
    for (which = 0; which < 2; which++) {
        struct hg_bulk_layer *layer = engine.a.layer;
        size_t want_size;
        const unsigned char *want =
            golden_get(golden, which == 0 ? "bulk" : "bulk_owner", &want_size);
        unsigned char bytes[256];
        struct hg_bulk *bulk;
        struct hg_bulk *remote = NULL;
        uint64_t key;
        uint64_t id;

        if (which == 1)
            snprintf(layer->owner, sizeof(layer->owner), "loop://b2");
        bulk = bulk_golden_handle(layer, 2, which == 0 ? one_sizes : two_sizes,
            which == 0 ? HG_BULK_READ_ONLY : HG_BULK_READWRITE);
        layer->incarnation = 0x3837363534333231u;
        id = bulk->id;
        bulk->id = 0x4847464544434241u;
        key = bulk->mem->key;
        bulk->mem->key = 0x5857565554535251u;
        HG_CHECK_EQ_U64(hg_bulk_serialize_size(bulk), want_size);
        HG_CHECK_OK(hg_bulk_serialize(bulk, bytes, sizeof(bytes)));
        HG_CHECK_EQ_MEM(bytes, want, want_size);
        HG_CHECK_OK(
            hg_bulk_deserialize(engine.b.layer, want, want_size, &remote));
        HG_CHECK_EQ_U64(remote->size, bulk->size);
        HG_CHECK_EQ_U64(remote->segment_count, 2);
        HG_CHECK_EQ_U64(remote->flags, bulk->flags);
        HG_CHECK_EQ_U64(remote->mem->key, bulk->mem->key);
        HG_CHECK_EQ_U64(remote->mem->size, bulk->mem->size);
        bulk->mem->key = key;
        /* Passed on, it is the same. */
        memset(bytes, 0, sizeof(bytes));
        HG_CHECK_EQ_U64(hg_bulk_serialize_size(remote), want_size);
        HG_CHECK_OK(hg_bulk_serialize(remote, bytes, want_size));
        HG_CHECK_EQ_MEM(bytes, want, want_size);
        if (which == 1)
            HG_CHECK_EQ_STR(remote->owner, "loop://b2");
        else
            HG_CHECK(remote->owner == NULL);
        hg_bulk_unref(remote);
        bulk->id = id;
        hg_bulk_unref(bulk);
    }
    bulk_compare_bound(&engine, golden);
    engine_close(&engine);
    golden_close(golden);
}

/* The known flags; flags of later versions are refused. */
HG_TEST(bulk_handle_with_unknown_flags_is_refused)
{
    size_t size = 16;
    unsigned char bytes[256];
    struct hg_bulk *own;
    struct engine engine;
    unsigned flags;

    hg_test_allow_log("");
    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &own));
    HG_CHECK_OK(hg_bulk_bind(own, 0, "a test"));
    size = hg_bulk_serialize_size(own);
    HG_CHECK_OK(hg_bulk_serialize(own, bytes, size));
    for (flags = 0; flags < 256; flags++) {
        struct hg_bulk *bulk = NULL;
        bool good = flags < 16 && flags % 4 != 0 && flags / 4 != 2;

        bytes[HG_BULK_FLAGS_AT] = (unsigned char) flags;
        HG_CHECK_RET(hg_bulk_deserialize(engine.b.layer, bytes, size, &bulk),
            good ? HG_SUCCESS : HG_PROTOCOL_ERROR);
        if (good) {
            HG_CHECK(hg_bulk_is_bound(bulk) == (flags >= 4));
            hg_bulk_unref(bulk);
        }
    }
    hg_bulk_unref(own);
    engine_close(&engine);
}

/* The owner opened several transports, and the caller knows it by one. */
HG_TEST(bulk_owner_is_known_by_each_address_of_a_list)
{
    static const char *const others[] = {
        "", "loop://", "loop://aa", "loop://b;loop://aa", "b;loop:///a"};
    static const char *const lists[] = {
        "loop://a", "loop://a;tcp://b", "tcp://b;loop://a"};
    struct engine engine;
    unsigned i;

    bulk_begin(&engine);
    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        HG_CHECK(hg_bulk_is_called(engine.b.peer, lists[i]));
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        HG_CHECK(!hg_bulk_is_called(engine.b.peer, others[i]));
    engine_close(&engine);
}

/* A handle that was passed on gets its owner's address from an earlier handle
 * of the same memory, and from no other. */
HG_TEST(bulk_handle_from_a_third_party_finds_its_owner)
{
    size_t size = 100;
    unsigned char bytes[2][256];
    struct hg_bulk *bulks[2];
    struct hg_bulk *first = NULL;
    struct hg_bulk *again = NULL;
    struct hg_bulk *other = NULL;
    struct engine engine;
    unsigned i;

    bulk_begin(&engine);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(hg_bulk_create(
            engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &bulks[i]));
        HG_CHECK_OK(hg_bulk_bind(bulks[i], 0, "a test"));
        HG_CHECK_OK(hg_bulk_serialize(bulks[i], bytes[i], sizeof(bytes[i])));
    }
    HG_CHECK_OK(hg_bulk_deserialize(
        engine.b.layer, bytes[0], sizeof(bytes[0]), &first));
    hg_bulk_set_addr(first, engine.b.peer);
    for (i = 0; i < 2; i++)
        bytes[i][HG_BULK_FLAGS_AT] |= HG_BULK_WIRE_PASSED;
    HG_CHECK_OK(hg_bulk_deserialize(
        engine.b.layer, bytes[0], sizeof(bytes[0]), &again));
    HG_CHECK_OK(hg_bulk_deserialize(
        engine.b.layer, bytes[1], sizeof(bytes[1]), &other));
    HG_CHECK(again->addr == engine.b.peer);
    HG_CHECK(other->addr == NULL);
    hg_bulk_unref(first);
    HG_CHECK(again->addr == engine.b.peer); /* it has its own */
    hg_bulk_unref(again);
    hg_bulk_unref(other);
    for (i = 0; i < 2; i++)
        hg_bulk_unref(bulks[i]);
    engine_close(&engine);
}

/* Random bytes give an error code and one log line, or a handle whose transfers
 * are refused or harmless; and no leak. */
HG_TEST_SECONDS(bulk_handle_may_be_garbage, 60)
{
    struct golden *golden = golden_open("tests/golden/bulk.hex");
    uint64_t state = hg_test_seed();
    unsigned accepted = 0;
    struct engine engine;
    unsigned round;

    hg_test_allow_log("");
    HG_CHECK_OK(HG_Set_log_level("none"));
    bulk_begin(&engine);
    for (round = 0; round < 100000; round++) {
        uint8_t bytes[512];
        size_t size;
        const unsigned char *want =
            golden_get(golden, bulk_pictures[round % 3], &size);
        struct hg_bulk *bulk = NULL;
        uint8_t *exact;

        memcpy(bytes, want, size);
        size = fuzz_mutate(bytes, size, sizeof(bytes), &state);
        exact = (uint8_t *) malloc(size > 0 ? size : 1);
        HG_CHECK(exact != NULL);
        memcpy(exact, bytes, size);
        if (hg_bulk_deserialize(engine.b.layer, exact, size, &bulk) ==
            HG_SUCCESS) {
            HG_CHECK(bulk->mem != NULL && bulk->segment_count > 0);
            hg_bulk_unref(bulk);
            accepted++;
        } else {
            HG_CHECK(bulk == NULL);
        }
        free(exact);
    }
    HG_CHECK(accepted < 90000);
    HG_CHECK(hg_list_is_empty(&engine.b.layer->handles));
    engine_close(&engine);
    golden_close(golden);
}

HG_TEST(bulk_handle_truncated_anywhere_is_refused)
{
    struct golden *golden = golden_open("tests/golden/bulk.hex");
    struct engine engine;
    uint64_t refused = 0;
    unsigned which;

    hg_test_allow_log("");
    bulk_begin(&engine);
    for (which = 0; which < 3; which++) {
        size_t size;
        const unsigned char *want =
            golden_get(golden, bulk_pictures[which], &size);
        size_t cut;

        for (cut = 0; cut < size; cut++) {
            unsigned char *exact = (unsigned char *) malloc(cut > 0 ? cut : 1);
            struct hg_bulk *bulk = NULL;

            HG_CHECK(exact != NULL);
            memcpy(exact, want, cut);
            HG_CHECK_RET(hg_bulk_deserialize(engine.b.layer, exact, cut, &bulk),
                HG_PROTOCOL_ERROR);
            refused++;
            free(exact);
        }
    }
    HG_CHECK_EQ_U64(
        NA_Get_counter(engine.b.na_class, "bulk_malformed"), refused);
    engine_close(&engine);
    golden_close(golden);
}

/* A description of memory of emulated RMA, as a peer may write it. */
struct bulk_forgery {
    const char *what;
    uint32_t magic; /* added to the correct value, as all numbers here */
    uint8_t version;
    uint64_t size;
    uint64_t segments;
    size_t owner_size;
    const char *owner;     /* of so many bytes; NULL: of letters */
    uint64_t claimed_size; /* in the memory handle */
    uint32_t length;
    hg_return_t ret;
};

#define BULK_SIZE 100

static const struct bulk_forgery bulk_forgeries[] = {
    {"nothing wrong", 0, 0, 0, 0, 1, NULL, 0, 0, HG_SUCCESS},
    {"no owner", 0, 0, 0, 0, 0, NULL, 0, 0, HG_SUCCESS},
    {"the longest owner", 0, 0, 0, 0, NA_MAX_ADDR_LEN - 1, NULL, 0, 0,
        HG_SUCCESS},
    {"another magic", 1, 0, 0, 0, 1, NULL, 0, 0, HG_PROTOCOL_ERROR},
    {"another version", 0, 1, 0, 0, 1, NULL, 0, 0, HG_PROTOCOL_ERROR},
    {"no segments", 0, 0, 0, UINT64_MAX, 1, NULL, 0, 0, HG_PROTOCOL_ERROR},
    {"an owner that is too long", 0, 0, 0, 0, NA_MAX_ADDR_LEN, NULL, 0, 0,
        HG_PROTOCOL_ERROR},
    {"an owner with a NUL", 0, 0, 0, 0, 3, "a\0b", 0, 0, HG_PROTOCOL_ERROR},
    {"a memory handle of no bytes", 0, 0, 0, 0, 1, NULL, 0,
        UINT32_MAX - NA_EMUL_WIRE_HANDLE_SIZE + 1, HG_PROTOCOL_ERROR},
    {"a memory handle longer than the rest", 0, 0, 0, 0, 1, NULL, 0, 1,
        HG_PROTOCOL_ERROR},
    {"a memory handle of another size", 0, 0, 0, 0, 1, NULL, 1, 0,
        HG_PROTOCOL_ERROR},
    {"more than the memory handle has", 0, 0, 1, 0, 1, NULL, 0, 0,
        HG_PROTOCOL_ERROR},
    {"less than the memory handle has", 0, 0, UINT64_MAX, 0, 1, NULL, 0, 0,
        HG_PROTOCOL_ERROR},
};

static size_t bulk_write_forgery(
    const struct bulk_forgery *lie, unsigned char *bytes, size_t space)
{
    char letters[NA_MAX_ADDR_LEN];
    struct hg_wire wire = hg_wire_writer(bytes, space);
    struct na_mem_handle mem;

    memset(letters, 'a', sizeof(letters));
    hg_wire_put32(&wire, HG_BULK_MAGIC + lie->magic);
    hg_wire_put8(&wire, (uint8_t) (HG_BULK_VERSION + lie->version));
    hg_wire_put8(&wire, HG_BULK_READ_ONLY);
    hg_wire_put16(&wire, (uint16_t) lie->owner_size);
    hg_wire_put64(&wire, BULK_SIZE + lie->size);
    hg_wire_put64(&wire, 1 + lie->segments);
    hg_wire_put64(&wire, 0x1111); /* incarnation */
    hg_wire_put64(&wire, 0x2222); /* id */
    hg_wire_put32(&wire, NA_EMUL_WIRE_HANDLE_SIZE + lie->length);
    hg_wire_put8(&wire, 0); /* context */
    hg_wire_put_bytes(
        &wire, lie->owner != NULL ? lie->owner : letters, lie->owner_size);
    memset(&mem, 0, sizeof(mem));
    mem.flags = NA_MEM_READ_ONLY;
    mem.key = 0x3333;
    mem.size = BULK_SIZE + lie->claimed_size;
    na_emul_mem_serialize(&mem, hg_wire_take(&wire, NA_EMUL_WIRE_HANDLE_SIZE));
    HG_CHECK(!wire.failed);
    return space - hg_wire_left(&wire);
}

HG_TEST(bulk_handle_with_false_fields_is_refused)
{
    struct engine engine;
    size_t i;

    hg_test_allow_log("");
    bulk_begin(&engine);
    for (i = 0; i < sizeof(bulk_forgeries) / sizeof(bulk_forgeries[0]); i++) {
        const struct bulk_forgery *lie = &bulk_forgeries[i];
        unsigned char bytes[512];
        size_t size = bulk_write_forgery(lie, bytes, sizeof(bytes));
        unsigned char *exact = (unsigned char *) malloc(size);
        struct hg_bulk *bulk = NULL;

        (void) fprintf(stderr, "%s\n", lie->what);
        HG_CHECK(exact != NULL);
        memcpy(exact, bytes, size);
        HG_CHECK_RET(
            hg_bulk_deserialize(engine.b.layer, exact, size, &bulk), lie->ret);
        HG_CHECK((bulk != NULL) == (lie->ret == HG_SUCCESS));
        if (bulk != NULL)
            hg_bulk_unref(bulk);
        free(exact);
    }
    HG_CHECK(hg_list_is_empty(&engine.b.layer->handles));
    engine_close(&engine);
}

/* Also a handle that this process serialized, and that came back truncated. */
HG_TEST(bulk_handle_of_this_process_is_refused_when_truncated)
{
    size_t size = 16;
    unsigned char bytes[256];
    struct hg_bulk *bulk = NULL;
    struct engine engine;
    struct hg_bulk *own;
    size_t cut;

    hg_test_expect_log("bytes are not a bulk handle");
    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &own));
    HG_CHECK_OK(hg_bulk_serialize(own, bytes, sizeof(bytes)));
    for (cut = 0; cut < hg_bulk_serialize_size(own); cut++)
        HG_CHECK_RET(hg_bulk_deserialize(engine.a.layer, bytes, cut, &bulk),
            HG_PROTOCOL_ERROR);
    HG_CHECK_OK(hg_bulk_deserialize(engine.a.layer, bytes, cut, &bulk));
    HG_CHECK(bulk != NULL);
    hg_bulk_unref(bulk);
    hg_bulk_unref(own);
    engine_close(&engine);
}

/* ---- Transfers, compared with a model ---- */

#define BULK_MAX_SEGMENTS 40

struct bulk_shape {
    struct hg_bulk *bulk;
    size_t count;
    size_t size;
    size_t sizes[BULK_MAX_SEGMENTS];
    void *ptrs[BULK_MAX_SEGMENTS];
    unsigned char *memory; /* segments with gaps of one byte between them */
    size_t memory_size;
};

static void bulk_new_shape(
    struct bulk_shape *shape, struct hg_bulk_layer *layer, uint64_t *state)
{
    size_t i;
    size_t at = 1;

    memset(shape, 0, sizeof(*shape));
    shape->count = 1 + hg_test_random(state) % BULK_MAX_SEGMENTS;
    shape->memory_size = 1;
    for (i = 0; i < shape->count; i++) {
        uint64_t dice = hg_test_random(state);

        shape->sizes[i] = dice % 4 == 0 ? 0 : (dice >> 8) % 300;
        shape->size += shape->sizes[i];
        shape->memory_size += shape->sizes[i] + 1;
    }
    shape->memory = (unsigned char *) malloc(shape->memory_size);
    HG_CHECK(shape->memory != NULL);
    for (i = 0; i < shape->memory_size; i++)
        shape->memory[i] = (unsigned char) hg_test_random(state);
    for (i = 0; i < shape->count; i++) {
        shape->ptrs[i] = shape->memory + at;
        at += shape->sizes[i] + 1;
    }
    HG_CHECK_OK(hg_bulk_create(layer, shape->count, shape->ptrs, shape->sizes,
        HG_BULK_READWRITE, &shape->bulk));
}

static void bulk_free_shape(struct bulk_shape *shape)
{
    hg_bulk_withdraw(shape->bulk);
    hg_bulk_unref(shape->bulk);
    free(shape->memory);
}

/* Where logical byte `offset` of a layout is in its memory. */
static size_t bulk_place(const struct bulk_shape *shape, size_t offset)
{
    size_t at = 1;
    size_t i = 0;

    while (offset >= shape->sizes[i]) {
        offset -= shape->sizes[i];
        at += shape->sizes[i] + 1;
        i++;
    }
    return at + offset;
}

static void bulk_try_shapes(struct engine *engine, uint64_t *state)
{
    struct bulk_shape origin;
    struct bulk_shape local;
    struct bulk_shape *to;
    const struct bulk_shape *from;
    struct bulk_result result;
    struct hg_bulk *remote;
    unsigned char *want;
    size_t most;
    size_t size;
    size_t at[2];
    size_t i;
    bool pull = hg_test_random(state) % 2 == 0;

    bulk_new_shape(&origin, engine->a.layer, state);
    bulk_new_shape(&local, engine->b.layer, state);
    remote = bulk_as_remote(origin.bulk, engine->b.layer);
    most = origin.size < local.size ? origin.size : local.size;
    size = hg_test_random(state) % (most + 1);
    at[0] = hg_test_random(state) % (origin.size - size + 1);
    at[1] = hg_test_random(state) % (local.size - size + 1);
    from = pull ? &origin : &local;
    to = pull ? &local : &origin;
    want = (unsigned char *) malloc(to->memory_size);
    HG_CHECK(want != NULL);
    memcpy(want, to->memory, to->memory_size);
    for (i = 0; i < size; i++)
        want[bulk_place(to, at[pull ? 1 : 0] + i)] =
            from->memory[bulk_place(from, at[pull ? 0 : 1] + i)];
    HG_CHECK_OK(bulk_start(engine, pull ? HG_BULK_PULL : HG_BULK_PUSH, remote,
        at[0], local.bulk, at[1], size, &result));
    HG_CHECK_EQ_INT(result.ends, 0); /* never inside the call */
    engine_settle(engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    HG_CHECK_OK(result.ret);
    HG_CHECK_EQ_MEM(to->memory, want, to->memory_size);
    free(want);
    hg_bulk_unref(remote);
    bulk_free_shape(&origin);
    bulk_free_shape(&local);
}

HG_TEST_SECONDS(bulk_moves_every_segment_layout, 60)
{
    uint64_t state = hg_test_seed();
    struct engine engine;
    unsigned round;

    bulk_begin(&engine);
    for (round = 0; round < 900; round++)
        bulk_try_shapes(&engine, &state);
    HG_CHECK_EQ_INT(engine.b.context->transfers.count, 0);
    engine_close(&engine);
}

/* A transfer that fails while it runs. */
HG_TEST(bulk_transfer_completes_once_with_the_first_error)
{
    enum { COUNT = 300, PIECE = 20000 };
    static size_t sizes[COUNT];
    struct engine engine;
    struct hg_bulk *origin;
    struct hg_bulk *local;
    struct hg_bulk *remote;
    struct bulk_result result;
    unsigned i;

    for (i = 0; i < COUNT; i++)
        sizes[i] = PIECE;
    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, COUNT, NULL, sizes, HG_BULK_READ_ONLY, &origin));
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, COUNT, NULL, sizes, HG_BULK_READWRITE, &local));
    remote = bulk_as_remote(origin, engine.b.layer);
    HG_CHECK_OK(bulk_start(
        &engine, HG_BULK_PULL, remote, 0, local, 0, COUNT * PIECE, &result));
    engine_settle(&engine);
    HG_CHECK_OK(result.ret);
    HG_CHECK_EQ_INT(result.ends, 1);

    /* The memory is withdrawn while the transfer runs. */
    HG_CHECK_OK(bulk_start(
        &engine, HG_BULK_PULL, remote, 0, local, 0, COUNT * PIECE, &result));
    engine_turn(&engine.a);
    hg_bulk_withdraw(origin);
    hg_bulk_unref(origin);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    HG_CHECK_RET(result.ret, HG_NOENTRY);

    /* The peer dies, and handles are freed before the end. */
    hg_test_allow_log("bytes from loop://a failed: peer disconnected");
    HG_CHECK_OK(bulk_start(
        &engine, HG_BULK_PULL, remote, 0, local, 0, COUNT * PIECE, &result));
    hg_bulk_unref(remote);
    hg_bulk_unref(local);
    locked_kill(engine.b.na_class, engine.b.peer);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    HG_CHECK_RET(result.ret, HG_DISCONNECT);
    HG_CHECK_EQ_INT(
        hg_test_log_count("bytes from loop://a failed: peer disconnected"), 1);
    HG_CHECK(hg_list_is_empty(&engine.b.layer->handles));
    HG_CHECK_EQ_INT(engine.b.context->transfers.count, 0);
    engine_close(&engine);
}

/* Within one process, a copy references both handles or none: if it does not
 * start, the other handle can be freed. */
HG_TEST(bulk_copy_that_does_not_start_references_neither_handle)
{
    size_t size = 100;
    struct bulk_result result;
    struct engine engine;
    struct hg_bulk *bulks[2];
    unsigned freed;

    hg_test_expect_log("a bulk handle of this process was freed");
    bulk_begin(&engine);
    for (freed = 0; freed < 2; freed++) {
        unsigned i;

        for (i = 0; i < 2; i++)
            HG_CHECK_OK(hg_bulk_create(
                engine.b.layer, 1, NULL, &size, HG_BULK_READWRITE, &bulks[i]));
        hg_bulk_withdraw(bulks[freed]);
        HG_CHECK_RET(bulk_start(&engine, HG_BULK_PULL, bulks[0], 0, bulks[1], 0,
                         size, &result),
            HG_NOENTRY);
        HG_CHECK_EQ_INT(result.ends, 0);
        for (i = 0; i < 2; i++) {
            HG_CHECK_EQ_INT(bulks[i]->holds, 0);
            hg_bulk_unref(bulks[i]);
        }
    }
    engine_close(&engine);
}

/* ---- Transfers that must be refused ---- */

/* Transfers that must be refused, and their log lines, which are limited for
 * peers' handles. */
static void bulk_try_wrong(struct engine *engine, struct hg_bulk *read_only,
    struct hg_bulk *write_only, struct hg_bulk *remote_read,
    struct hg_bulk *remote_write)
{
    const struct {
        struct hg_transfer_args args;
        hg_return_t ret;
        const char *log;
    } wrong[] = {
        {{HG_BULK_PULL, engine->b.peer, remote_read, 100, write_only, 0, 1},
            HG_OVERFLOW, "past the end of the origin's handle"},
        {{HG_BULK_PUSH, engine->b.peer, remote_read, 0, read_only, 0, 1},
            HG_PERMISSION, "forbidden by the flags of the origin's"},
        {{HG_BULK_PULL, engine->b.peer, remote_write, 0, write_only, 0, 1},
            HG_PERMISSION, NULL},
        {{HG_BULK_PULL, engine->b.peer, remote_read, 0, read_only, 0, 1},
            HG_PERMISSION, "forbidden by the flags of the local"},
        {{HG_BULK_PUSH, engine->b.peer, remote_write, 0, write_only, 0, 1},
            HG_PERMISSION, NULL},
        {{HG_BULK_PULL, engine->b.peer, remote_read, 0, write_only, SIZE_MAX,
             2},
            HG_OVERFLOW, "past the end of the local handle"},
        {{HG_BULK_PULL, engine->b.peer, remote_read, 1, write_only, 1,
             SIZE_MAX},
            HG_OVERFLOW, NULL},
        {{HG_BULK_PULL, engine->b.peer, remote_read, 0, remote_write, 0, 1},
            HG_INVALID_ARG, "the local handle is of a peer's memory"},
    };
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (wrong[i].log != NULL)
            hg_test_expect_log(wrong[i].log);
        HG_CHECK_RET(hg_transfer_check(&engine->b.context->transfers,
                         &wrong[i].args, "a transfer"),
            wrong[i].ret);
    }
}

HG_TEST(bulk_transfer_checks_arguments_before_it_starts)
{
    struct engine engine;
    struct hg_bulk *read_only;
    struct hg_bulk *write_only;
    struct hg_bulk *remote_read;
    struct hg_bulk *remote_write;
    size_t size = 100;

    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &read_only));
    remote_read = bulk_as_remote(read_only, engine.b.layer);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_WRITE_ONLY, &write_only));
    remote_write = bulk_as_remote(write_only, engine.b.layer);
    hg_bulk_unref(read_only);
    hg_bulk_unref(write_only);
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &read_only));
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, 1, NULL, &size, HG_BULK_WRITE_ONLY, &write_only));

    bulk_try_wrong(&engine, read_only, write_only, remote_read, remote_write);
    hg_test_expect_log("the memory is a peer's");
    HG_CHECK_RET(hg_bulk_check_access(remote_read, 0, 1, HG_BULK_READ_ONLY),
        HG_OPNOTSUPPORT);
    HG_CHECK_EQ_INT(engine.b.context->transfers.count, 0);
    /* Errors caused by a peer's memory. */
    HG_CHECK_EQ_U64(NA_Get_counter(engine.b.na_class, "bulk_refused"), 4);
    hg_bulk_unref(read_only);
    hg_bulk_unref(write_only);
    hg_bulk_unref(remote_read);
    hg_bulk_unref(remote_write);
    engine_close(&engine);
}

/* Abandon a transfer of many pieces after so many rounds of progress on both
 * sides; from then on the local memory is used for something else. */
static hg_return_t bulk_abandon(
    struct engine *engine, hg_bulk_op_t op, unsigned turns)
{
    enum { COUNT = 100, PIECE = 100 };
    /* The origin's, then the local one. */
    static unsigned char memory[2][COUNT * PIECE];
    struct bulk_result result;
    struct hg_bulk *bulks[2];
    struct hg_bulk *remote;
    size_t sizes[COUNT];
    void *ptrs[COUNT];
    size_t i;

    for (i = 0; i < 2; i++) {
        struct engine_end *end = i == 0 ? &engine->a : &engine->b;
        size_t k;

        memset(memory[i], (int) i + 1, sizeof(memory[i]));
        for (k = 0; k < COUNT; k++) {
            sizes[k] = PIECE;
            ptrs[k] = memory[i] + k * PIECE;
        }
        HG_CHECK_OK(hg_bulk_create(
            end->layer, COUNT, ptrs, sizes, HG_BULK_READWRITE, &bulks[i]));
    }
    remote = bulk_as_remote(bulks[0], engine->b.layer);
    HG_CHECK_OK(bulk_start(
        engine, op, remote, 0, bulks[1], 0, sizeof(memory[0]), &result));
    for (i = 0; i < turns; i++)
        engine_turn(i % 2 == 0 ? &engine->b : &engine->a);
    hg_bulk_withdraw(bulks[1]);
    hg_bulk_unref(bulks[1]);
    memset(memory[1], 0xee, sizeof(memory[1]));
    engine_settle(engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    for (i = 0; i < sizeof(memory[0]); i++) {
        HG_CHECK_EQ_INT(memory[1][i], 0xee); /* no data was written there */
        HG_CHECK(memory[0][i] != 0xee);      /* or read there */
    }
    hg_bulk_unref(remote);
    hg_bulk_unref(bulks[0]);
    return result.ret;
}

/* A transfer that is refused leaves no ticket. */
HG_TEST(bulk_transfer_that_is_refused_leaves_no_ticket)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_bulk_t from, to;
    size_t size = 100;
    na_addr_t self = NA_ADDR_NULL;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &from));
    HG_CHECK_OK(HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &to));
    hg_test_expect_log("past the end of the origin's handle");
    HG_CHECK_RET(HG_Bulk_transfer(
                     HG_BULK_PULL, self, from, 0, to, 0, size + 1, &request),
        HG_OVERFLOW);
    HG_CHECK(request == HG_BULK_REQUEST_NULL);
    HG_CHECK_EQ_U64(hg_bulk_request_tickets.slots.count, 0);
    HG_CHECK_OK(
        HG_Bulk_transfer(HG_BULK_PULL, self, from, 0, to, 0, size, &request));
    HG_CHECK_EQ_U64(hg_bulk_request_tickets.slots.count, 1);
    HG_CHECK_OK(HG_Bulk_wait(request, 0, HG_STATUS_IGNORE));
    HG_CHECK_EQ_U64(hg_bulk_request_tickets.slots.count, 0);
    HG_CHECK_OK(HG_Bulk_handle_free(from));
    HG_CHECK_OK(HG_Bulk_handle_free(to));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(bulk_transfer_ends_when_its_local_handle_is_freed)
{
    struct engine engine;
    unsigned canceled = 0;
    unsigned whole = 0;
    unsigned turns;

    bulk_begin(&engine);
    for (turns = 0; turns < 40; turns++) {
        hg_return_t ret = bulk_abandon(
            &engine, turns % 2 == 0 ? HG_BULK_PULL : HG_BULK_PUSH, turns * 10);

        if (ret == HG_SUCCESS)
            whole++;
        else
            canceled++;
        if (ret != HG_SUCCESS)
            HG_CHECK_RET(ret, HG_CANCELED);
    }
    HG_CHECK(canceled > 0 && whole > 0);
    HG_CHECK_EQ_INT(engine.b.context->transfers.count, 0);
    engine_close(&engine);
}

/* Cancel a transfer of many pieces after so many rounds of progress on both
 * sides; once it has completed, its local memory is used for something else. */
static hg_return_t bulk_cancel_early(
    struct engine *engine, hg_bulk_op_t op, unsigned turns)
{
    enum { COUNT = 100, PIECE = 100 };
    /* The origin's, then the local one. */
    static unsigned char memory[2][COUNT * PIECE];
    struct hg_transfer_list *home = &engine->b.context->transfers;
    struct bulk_result result;
    struct hg_bulk *remote;
    struct hg_bulk *bulks[2];
    size_t sizes[COUNT];
    void *ptrs[COUNT];
    size_t i;

    for (i = 0; i < 2; i++) {
        struct engine_end *end = i == 0 ? &engine->a : &engine->b;
        size_t k;

        memset(memory[i], (int) i + 1, sizeof(memory[i]));
        for (k = 0; k < COUNT; k++) {
            sizes[k] = PIECE;
            ptrs[k] = memory[i] + k * PIECE;
        }
        HG_CHECK_OK(hg_bulk_create(
            end->layer, COUNT, ptrs, sizes, HG_BULK_READWRITE, &bulks[i]));
    }
    remote = bulk_as_remote(bulks[0], engine->b.layer);
    HG_CHECK_OK(bulk_start(
        engine, op, remote, 0, bulks[1], 0, sizeof(memory[0]), &result));
    for (i = 0; i < turns && result.ends == 0; i++)
        engine_turn(i % 2 == 0 ? &engine->b : &engine->a);
    if (result.ends == 0) {
        hg_transfer_cancel(home, &result.transfer);
        while (result.ends == 0) /* progress on its own side suffices */
            engine_turn(&engine->b);
    }
    for (i = 0; i < sizeof(memory[0]); i++) /* all of it, or a part */
        HG_CHECK(result.ret != HG_SUCCESS || memory[0][i] == memory[1][i]);
    memset(memory[1], 0xee, sizeof(memory[1]));
    engine_settle(engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    for (i = 0; i < sizeof(memory[0]); i++) {
        HG_CHECK_EQ_INT(memory[1][i], 0xee); /* no data was written there */
        HG_CHECK(memory[0][i] != 0xee);      /* or read there */
    }
    hg_bulk_unref(remote);
    hg_bulk_unref(bulks[0]);
    hg_bulk_unref(bulks[1]);
    return result.ret;
}

HG_TEST(bulk_transfer_ends_when_it_is_canceled)
{
    struct engine engine;
    unsigned canceled = 0;
    unsigned whole = 0;
    unsigned turns;

    bulk_begin(&engine);
    for (turns = 0; turns < 40; turns++) {
        hg_return_t ret = bulk_cancel_early(
            &engine, turns % 2 == 0 ? HG_BULK_PULL : HG_BULK_PUSH, turns * 10);

        if (ret == HG_SUCCESS)
            whole++;
        else
            canceled++;
        if (ret != HG_SUCCESS)
            HG_CHECK_RET(ret, HG_CANCELED);
    }
    HG_CHECK(canceled > 0 && whole > 0);
    HG_CHECK_EQ_INT(engine.b.context->transfers.count, 0);
    engine_close(&engine);
}

/* An RMA operation that neither completes in time nor can be canceled. */
static struct na_op *bulk_stuck;

static na_return_t bulk_stuck_get(struct na_op *op)
{
    bulk_stuck = op;
    return NA_SUCCESS;
}

/* Its transfer outlives the RPC layer: it keeps using its handles, and no
 * callback runs when it completes. */
HG_TEST(bulk_transfer_that_does_not_complete_is_abandoned)
{
    static struct hg_context *left; /* for leak checkers: on purpose */
    static struct hg_transfer *transfer;
    static struct bulk_result result; /* reachable until the process ends */
    struct na_class_core *core;
    struct engine engine;
    struct na_emul *emul;
    struct hg_bulk *origin;
    struct hg_bulk *remote;
    struct hg_bulk *local;
    size_t size = 1000;

    bulk_begin(&engine);
    left = engine.b.context;
    left->hg_class->options.drain_ms = 10;
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &origin));
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, 1, NULL, &size, HG_BULK_READWRITE, &local));
    remote = bulk_as_remote(origin, engine.b.layer);
    core = na_class_core_of(engine.b.na_class);
    emul = core->emul;
    core->emul = NULL; /* as with a transport that has native RMA */
    core->ops.get = bulk_stuck_get;
    HG_CHECK_OK(
        bulk_start(&engine, HG_BULK_PULL, remote, 0, local, 0, size, &result));
    transfer = &result.transfer;
    HG_CHECK(na_op_core_of(bulk_stuck)->arg == transfer);
    hg_bulk_unref(remote);
    hg_bulk_unref(local);
    hg_test_expect_log("0 calls, 0 sends and 1 transfers did not end");
    /* Including its own. */
    hg_test_expect_log("2 bulk handles outlive the layer");
    hg_test_expect_log("addresses 1, memory handles 0");
    hg_context_destroy(left);
    engine.b.context = NULL;
    HG_CHECK(transfer->op_id != NA_OP_ID_NULL);
    locked_complete(bulk_stuck, NA_DISCONNECT);
    hg_enter(left->lock);
    (void) na_queue_run(
        left->queue, NA_LANES_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);
    hg_leave(left->lock);
    HG_CHECK(transfer->op_id == NA_OP_ID_NULL);
    HG_CHECK_RET(transfer->ret, HG_DISCONNECT);
    HG_CHECK_EQ_INT(na_queue_count(left->queue, NA_LANES_ALL), 0);
    HG_CHECK_EQ_INT(result.ends, 0);
    core->emul = emul;
    hg_bulk_unref(origin);
    engine_close(&engine);
}

/* A peer may send any code, but a waiting caller takes these two for "not
 * yet". */
HG_TEST(bulk_transfer_does_not_end_with_a_code_that_means_not_yet)
{
    static const na_return_t codes[] = {NA_TIMEOUT, NA_INTR};
    struct bulk_result result;
    struct na_class_core *core;
    struct engine engine;
    struct na_emul *emul;
    struct hg_bulk *origin;
    struct hg_bulk *remote;
    struct hg_bulk *local;
    size_t size = 1000;
    unsigned i;

    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &origin));
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, 1, NULL, &size, HG_BULK_READWRITE, &local));
    remote = bulk_as_remote(origin, engine.b.layer);
    core = na_class_core_of(engine.b.na_class);
    emul = core->emul;
    core->emul = NULL; /* as with a transport that has native RMA */
    core->ops.get = bulk_stuck_get;
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(bulk_start(
            &engine, HG_BULK_PULL, remote, 0, local, 0, size, &result));
        locked_complete(bulk_stuck, codes[i]);
        (void) engine_progress(engine.b.context, NA_LANES_ALL, 0);
        (void) engine_run(
            engine.b.context, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER);
        HG_CHECK_EQ_INT(result.ends, 1);
        HG_CHECK_RET(result.ret, HG_OTHER_ERROR);
    }
    core->emul = emul;
    hg_bulk_unref(remote);
    hg_bulk_unref(local);
    hg_bulk_unref(origin);
    engine_close(&engine);
}

/* ---- Segments ---- */

/* A transport whose handles take a limited number of segments. */
HG_TEST(bulk_handle_takes_as_many_segments_as_the_transport)
{
    static const size_t sizes[] = {10, 10, 10};
    struct hg_bulk *bulk = NULL;
    struct engine engine;

    bulk_begin(&engine);
    na_class_core_of(engine.a.na_class)->ops.max_segments = 2;
    hg_test_expect_log("this transport supports 2 segments");
    HG_CHECK_RET(hg_bulk_create(
                     engine.a.layer, 3, NULL, sizes, HG_BULK_READ_ONLY, &bulk),
        HG_OPNOTSUPPORT);
    HG_CHECK(bulk == NULL && hg_list_is_empty(&engine.a.layer->handles));
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 2, NULL, sizes, HG_BULK_READ_ONLY, &bulk));
    hg_bulk_unref(bulk);
    engine_close(&engine);
}

/* ---- A separate class for bulk data ---- */

struct bulk_separate {
    na_class_t *rpc_class;
    na_class_t *bulk_class;
    struct hg_bulk_layer *layer;
    struct hg_class *hg_class;
    struct hg_context *context;
    na_addr_t peer;
};

static void bulk_open_separate(struct bulk_separate *side, const char *rpc,
    const char *bulk, na_bool_t bulk_listens)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;

    memset(side, 0, sizeof(*side));
    side->rpc_class = engine_open_class(rpc, BULK_EAGER);
    side->bulk_class = NA_Initialize(bulk, bulk_listens);
    HG_CHECK(side->rpc_class != NULL && side->bulk_class != NULL);
    HG_CHECK_OK(hg_bulk_layer_create(side->bulk_class, &side->layer));
    HG_CHECK_OK(hg_class_create(
        side->rpc_class, side->layer, &options, &side->hg_class));
    HG_CHECK_OK(hg_context_create(side->hg_class, -1, &side->context));
    HG_CHECK(side->context->transfers.context->na_class == side->bulk_class);
}

static void bulk_close_separate(struct bulk_separate *side)
{
    if (side->peer != NULL)
        HG_CHECK_OK(NA_Addr_free(side->rpc_class, side->peer));
    hg_context_destroy(side->context);
    hg_class_destroy(side->hg_class);
    hg_bulk_layer_destroy(side->layer);
    HG_CHECK_OK(NA_Finalize(side->rpc_class));
    HG_CHECK_OK(NA_Finalize(side->bulk_class));
}

static void bulk_turn_separate(struct bulk_separate *side)
{
    (void) engine_progress(side->context, NA_LANES_ALL, 0);
    hg_enter(side->context->lock);
    (void) na_queue_run(
        side->context->queue, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER);
    hg_leave(side->context->lock);
}

static hg_return_t bulk_pull_separate(struct bulk_separate *a,
    struct bulk_separate *b, struct hg_bulk *remote, struct hg_bulk *local)
{
    struct hg_transfer_args args = {
        HG_BULK_PULL, b->peer, remote, 0, local, 0, local->size};
    struct bulk_result result;
    hg_return_t ret =
        bulk_begin_transfer(&result, &b->context->transfers, &args);

    if (ret != HG_SUCCESS)
        return ret;
    while (result.ends == 0) {
        bulk_turn_separate(a);
        bulk_turn_separate(b);
    }
    return result.ret;
}

HG_TEST(bulk_may_use_a_separate_na_class)
{
    struct bulk_separate a;
    struct bulk_separate b;
    struct hg_bulk *origin;
    struct hg_bulk *local;
    struct hg_bulk *remote;
    size_t size = 200000;
    void *bytes;
    na_addr_t owner;

    loop_register();
    bulk_open_separate(&a, "loop://a", "loop://a2", NA_TRUE);
    bulk_open_separate(&b, "loop://b", "loop://b2", NA_TRUE);
    HG_CHECK_OK(NA_Addr_lookup_wait(b.rpc_class, "loop://a", 1000, &b.peer));
    HG_CHECK_OK(
        hg_bulk_create(a.layer, 1, NULL, &size, HG_BULK_READWRITE, &origin));
    bytes = origin->segments[0].address;
    memset(bytes, 0x5a, size);
    HG_CHECK_OK(
        hg_bulk_create(b.layer, 1, NULL, &size, HG_BULK_READWRITE, &local));
    remote = bulk_as_remote(origin, b.layer);
    HG_CHECK_EQ_STR(remote->owner, "loop://a2");
    HG_CHECK_OK(bulk_pull_separate(&a, &b, remote, local));
    HG_CHECK_EQ_MEM(local->segments[0].address, bytes, size);

    /* The owner was looked up once; after its death it is looked up again. */
    owner = remote->addr;
    HG_CHECK(owner != NULL);
    HG_CHECK_OK(bulk_pull_separate(&a, &b, remote, local));
    HG_CHECK(remote->addr == owner);
    locked_kill(b.bulk_class, owner);
    HG_CHECK_OK(bulk_pull_separate(&a, &b, remote, local));

    hg_bulk_unref(remote);
    hg_bulk_unref(origin);
    hg_bulk_unref(local);
    bulk_close_separate(&a);
    bulk_close_separate(&b);
}

/* Also a class whose transport has no descriptor: a sleeping thread still polls
 * it. */
HG_TEST(bulk_class_without_a_descriptor_is_polled)
{
    struct bulk_separate side;
    uint64_t deadline;

    loop_register();
    bulk_open_separate(&side, "loop://a", "loop://a2", NA_TRUE);
    na_class_core_of(side.bulk_class)->ops.poll_fd = na_plugins_poll_fd;
    while (
        !NA_Poll_try_wait(side.bulk_class, side.context->transfers.context) ||
        !NA_Poll_try_wait(side.rpc_class, side.context->na_context))
        bulk_turn_separate(&side);
    deadline = hg_clock_after_ms(HG_TEST_WAIT_MS);
    HG_CHECK_OK(hg_context_sleep(side.context, deadline));
    HG_CHECK(hg_clock_now() < deadline);
    bulk_close_separate(&side);
}

/* Also a transfer whose owner is known by its name only. */
HG_TEST(bulk_transfer_to_a_named_owner_is_canceled)
{
    struct hg_transfer_args args = {HG_BULK_PULL, NULL, NULL, 0, NULL, 0, 100};
    struct hg_transfer_list *home;
    struct bulk_result result;
    size_t size = 100;
    struct engine engine;
    struct hg_bulk *origin;
    unsigned char bytes[256];

    bulk_begin(&engine);
    HG_CHECK_OK(hg_bulk_create(
        engine.a.layer, 1, NULL, &size, HG_BULK_READ_ONLY, &origin));
    HG_CHECK_OK(hg_bulk_create(
        engine.b.layer, 1, NULL, &size, HG_BULK_READWRITE, &args.local));
    HG_CHECK_OK(hg_bulk_bind(origin, 0, "a test"));
    HG_CHECK_OK(hg_bulk_serialize(origin, bytes, sizeof(bytes)));
    HG_CHECK_OK(hg_bulk_deserialize(
        engine.b.layer, bytes, sizeof(bytes), &args.origin));
    home = &engine.b.context->transfers;
    HG_CHECK_OK(bulk_begin_transfer(&result, home, &args));
    hg_transfer_cancel(home, &result.transfer);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    HG_CHECK_RET(result.ret, HG_CANCELED);

    /* Without a cancellation it succeeds. */
    HG_CHECK_OK(bulk_begin_transfer(&result, home, &args));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(result.ends, 1);
    HG_CHECK_OK(result.ret);
    hg_bulk_unref(args.origin);
    hg_bulk_unref(args.local);
    hg_bulk_unref(origin);
    engine_close(&engine);
}

HG_TEST(bulk_class_that_does_not_listen_exposes_nothing)
{
    struct bulk_separate a;
    struct hg_bulk *bulk;
    size_t size = 10;

    loop_register();
    bulk_open_separate(&a, "loop://a", "loop://a2", NA_FALSE);
    hg_test_expect_log("does not listen");
    HG_CHECK_RET(
        hg_bulk_create(a.layer, 1, NULL, &size, HG_BULK_READWRITE, &bulk),
        HG_OPNOTSUPPORT);
    bulk_close_separate(&a);
}
