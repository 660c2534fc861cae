/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules header, registry and deadline: encoding, names and timers,
 * without a transport.
 */
#include "support/library.h"

#include "harness.h"
#include "support/fuzz.h"
#include "support/golden.h"

/* ---- Messages as bytes ---- */

struct header_vector {
    const char *name;
    struct hg_header header;
    const char *payload;
    bool checksum;
};

#define HEADER_ID 0x995DC9BBDF1939FAu
#define HEADER_SEQUENCE 0x0807060504030201u
#define HEADER_TRACE 0x2827262524232221u

static const struct header_vector header_vectors[] = {
    {"request",
        {.type = HG_HEADER_REQUEST,
            .origin_context = 3,
            .sequence = HEADER_SEQUENCE,
            .trace_id = HEADER_TRACE,
            .time_left = 1500},
        "123456789", true},
    {"request_empty",
        {.type = HG_HEADER_REQUEST,
            .sequence = HEADER_SEQUENCE,
            .trace_id = HEADER_TRACE},
        "", true},
    {"request_types",
        {.type = HG_HEADER_REQUEST,
            .sequence = HEADER_SEQUENCE,
            .trace_id = HEADER_TRACE,
            .time_left = 1500,
            .types = 0x34333231u},
        "123456789", true},
    {"request_one_way",
        {.type = HG_HEADER_REQUEST,
            .flags = HG_HEADER_ONE_WAY,
            .sequence = HEADER_SEQUENCE,
            .trace_id = HEADER_TRACE},
        "123456789", true},
    {"request_unchecked",
        {.type = HG_HEADER_REQUEST,
            .sequence = HEADER_SEQUENCE,
            .trace_id = HEADER_TRACE},
        "123456789", false},
    {"response",
        {.type = HG_HEADER_RESPONSE,
            .flags = HG_HEADER_RAW,
            .origin_context = 5,
            .sequence = HEADER_SEQUENCE},
        "123456789", true},
    {"response_error",
        {.type = HG_HEADER_RESPONSE,
            .code = HG_NOENTRY,
            .sequence = HEADER_SEQUENCE},
        "no such file", true},
    {"cancel", {.type = HG_HEADER_CANCEL, .sequence = HEADER_SEQUENCE}, "",
        true},
};

#define HEADER_VECTORS (sizeof(header_vectors) / sizeof(header_vectors[0]))

static void header_check_fields(const struct hg_header *got,
    const struct hg_header *want, const unsigned char *message)
{
    HG_CHECK_EQ_INT(got->type, want->type);
    HG_CHECK_EQ_INT(got->flags, want->flags);
    HG_CHECK_EQ_INT(got->origin_context, want->origin_context);
    HG_CHECK_EQ_INT(got->code, want->code);
    HG_CHECK_EQ_U64(got->rpc_id, want->rpc_id);
    HG_CHECK_EQ_U64(got->sequence, want->sequence);
    HG_CHECK_EQ_U64(got->trace_id, want->trace_id);
    HG_CHECK_EQ_INT(got->time_left, want->time_left);
    HG_CHECK_EQ_U64(got->types, want->types);
    HG_CHECK_EQ_U64(got->payload_size, want->payload_size);
    HG_CHECK(got->payload == message + HG_HEADER_MIN);
}

/* Encode and compare; decode and compare. */
static void header_compare(
    struct golden *golden, const struct header_vector *vector)
{
    struct hg_header header = vector->header;
    unsigned char *bytes;
    const unsigned char *want;
    struct hg_header got;
    bool answerable = false;
    size_t size;

    header.rpc_id = HEADER_ID;
    header.payload_size = strlen(vector->payload);
    want = golden_get(golden, vector->name, &size);
    HG_CHECK_EQ_U64(size, HG_HEADER_MIN + header.payload_size);
    bytes = (unsigned char *) malloc(size);
    HG_CHECK(bytes != NULL);
    memset(bytes, 0xee, size);
    memcpy(bytes + HG_HEADER_MIN, vector->payload, header.payload_size);
    hg_header_encode(&header, bytes, vector->checksum);
    HG_CHECK_EQ_MEM(bytes, want, size);
    free(bytes);
    HG_CHECK_OK(hg_header_decode(&got, want, size, &answerable));
    HG_CHECK(answerable);
    header_check_fields(&got, &header, want);
}

HG_TEST(header_matches_its_golden_file)
{
    struct golden *golden = golden_open("tests/golden/header.hex");
    const unsigned char *bytes;
    struct hg_header header;
    bool answerable = false;
    size_t size;
    size_t i;

    for (i = 0; i < HEADER_VECTORS; i++)
        header_compare(golden, &header_vectors[i]);

    bytes = golden_get(golden, "request_longer", &size);
    HG_CHECK_OK(hg_header_decode(&header, bytes, size, &answerable));
    HG_CHECK_EQ_U64(header.trace_id, HEADER_TRACE);
    HG_CHECK_EQ_U64(header.payload_size, 9);
    HG_CHECK_EQ_MEM(header.payload, "123456789", 9);

    bytes = golden_get(golden, "request_major", &size);
    HG_CHECK_RET(
        hg_header_decode(&header, bytes, size, &answerable), HG_PROTOCOL_ERROR);
    HG_CHECK(answerable);
    HG_CHECK_EQ_INT(header.type, HG_HEADER_REQUEST);
    HG_CHECK_EQ_U64(header.rpc_id, HEADER_ID);
    HG_CHECK_EQ_U64(header.sequence, HEADER_SEQUENCE);

    bytes = golden_get(golden, "request_damaged", &size);
    HG_CHECK_RET(
        hg_header_decode(&header, bytes, size, &answerable), HG_CHECKSUM_ERROR);
    HG_CHECK(answerable);
    HG_CHECK_EQ_U64(header.sequence, HEADER_SEQUENCE);
    golden_close(golden);
}

/* Each truncation and each flipped bit is detected, in the header and in the
 * payload: by the CRC64, except for bits of the magic and the major version. */
HG_TEST(header_refuses_every_truncation_and_every_flipped_bit)
{
    struct golden *golden = golden_open("tests/golden/header.hex");
    const unsigned char *bytes;
    unsigned char copy[256];
    struct hg_header header;
    bool answerable;
    size_t size;
    size_t i;
    size_t v;

    for (v = 0; v < HEADER_VECTORS; v++) {
        bytes = golden_get(golden, header_vectors[v].name, &size);
        HG_CHECK(size < sizeof(copy));
        if (!header_vectors[v].checksum)
            continue;
        for (i = 0; i < size; i++) {
            unsigned char *exact = (unsigned char *) malloc(i > 0 ? i : 1);

            HG_CHECK(exact != NULL);
            memcpy(exact, bytes, i);
            HG_CHECK_RET(hg_header_decode(&header, exact, i, &answerable),
                i < HG_HEADER_MIN ? HG_PROTOCOL_ERROR : HG_CHECKSUM_ERROR);
            HG_CHECK_EQ_INT(answerable, i >= HG_HEADER_STABLE);
            free(exact);
        }
        for (i = 0; i < size * 8; i++) {
            bool magic = i / 8 == 8 || i / 8 == 9;

            memcpy(copy, bytes, size);
            copy[i / 8] = (unsigned char) (copy[i / 8] ^ (1u << i % 8));
            HG_CHECK_RET(hg_header_decode(&header, copy, size, &answerable),
                magic || i / 8 == 10 ? HG_PROTOCOL_ERROR : HG_CHECKSUM_ERROR);
            HG_CHECK_EQ_INT(answerable, !magic);
        }
        memcpy(copy, bytes, size);
        copy[size] = 0;
        HG_CHECK_RET(hg_header_decode(&header, copy, size + 1, &answerable),
            HG_CHECKSUM_ERROR);
    }
    /* The others are compared above. */
    (void) golden_get(golden, "request_longer", &size);
    (void) golden_get(golden, "request_major", &size);
    (void) golden_get(golden, "request_damaged", &size);
    golden_close(golden);
}

/* A message without a checksum is checked by its sizes alone: its header is at
 * least as long as its fields, and not longer than the message, whatever bytes
 * follow in memory. */
HG_TEST(header_fits_its_fields_and_its_message)
{
    unsigned char bytes[2 * HG_HEADER_MIN] = {0};
    struct hg_header header = {.type = HG_HEADER_REQUEST};
    bool checksum = true;
    bool answerable;
    size_t size;

    do {
        checksum = !checksum;
        for (size = 0; size <= sizeof(bytes); size++) {
            struct hg_header got;
            uint64_t crc;

            hg_header_encode(&header, bytes, false);
            hg_wire_store16(bytes + 14, (uint16_t) size);
            crc = hg_crc64_update(0, bytes + 8, HG_HEADER_MIN);
            if (checksum)
                hg_wire_store64(bytes, crc);
            HG_CHECK_RET(
                hg_header_decode(&got, bytes, HG_HEADER_MIN + 8, &answerable),
                size < HG_HEADER_MIN || size > HG_HEADER_MIN + 8
                    ? HG_PROTOCOL_ERROR
                    : HG_SUCCESS);
            HG_CHECK(answerable);
        }
    } while (!checksum);
}

/* Old contents of the struct are not mistaken for fields of a refused message:
 * only the fields common to all versions are set. */
HG_TEST(header_of_a_refused_message_is_cleared)
{
    static const hg_return_t rets[] = {HG_PROTOCOL_ERROR, HG_CHECKSUM_ERROR};
    struct hg_header all = {
        HG_HEADER_RESPONSE, 0xff, 7, HG_NOMEM, 8, 9, 10, 0, 11, 0, NULL};
    struct hg_header want = {
        HG_HEADER_RESPONSE, 0, 7, HG_NOMEM, 8, 9, 0, 0, 0, 0, NULL};
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;
    bool answerable;
    size_t i;

    hg_header_encode(&all, bytes, true);
    bytes[40] ^= 1;
    for (i = 0; i < 2; i++) {
        memset(&header, 0xff, sizeof(header));
        HG_CHECK_RET(
            hg_header_decode(&header, bytes,
                i == 0 ? HG_HEADER_STABLE : HG_HEADER_MIN, &answerable),
            rets[i]);
        HG_CHECK(answerable);
        HG_CHECK_EQ_INT(header.type, want.type);
        HG_CHECK_EQ_INT(header.flags, want.flags);
        HG_CHECK_EQ_INT(header.origin_context, want.origin_context);
        HG_CHECK_EQ_INT(header.code, want.code);
        HG_CHECK(header.rpc_id == want.rpc_id);
        HG_CHECK(header.sequence == want.sequence && header.trace_id == 0);
        HG_CHECK(header.time_left == 0 && header.types == 0);
        HG_CHECK(header.payload == NULL && header.payload_size == 0);
    }
}

/* ---- Names ---- */

static hg_return_t header_proc(hg_proc_t proc, void *data)
{
    return hg_proc_uint8_t(proc, data);
}

static hg_return_t header_callback(hg_handle_t handle)
{
    return HG_Handler_free(handle);
}

static struct hg_monitor registry_lock;

static void registry_begin(struct hg_registry *registry)
{
    HG_CHECK_OK(hg_monitor_init(&registry_lock));
    hg_registry_init(registry, &registry_lock);
}

static void registry_end(struct hg_registry *registry)
{
    hg_registry_fini(registry);
    hg_monitor_fini(&registry_lock);
}

HG_TEST(registry_keeps_a_handler_when_registered_without_one)
{
    struct hg_rpc served = {
        0, header_proc, NULL, header_callback, NULL, NULL, 0};
    struct hg_rpc called = {0, NULL, header_proc, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    const struct hg_rpc *found;
    hg_id_t id;

    registry_begin(&registry);
    HG_CHECK(hg_registry_find(&registry, 1) == NULL);
    id = hg_registry_add(&registry, "123456789", NULL, &served);
    HG_CHECK_EQ_U64(id, HEADER_ID);
    HG_CHECK_EQ_U64(hg_registry_id("123456789"), HEADER_ID);
    HG_CHECK_EQ_U64(hg_registry_add(&registry, "123456789", NULL, &called), id);
    found = hg_registry_find(&registry, id);
    HG_CHECK(found != NULL);
    HG_CHECK_EQ_U64(found->id, id);
    HG_CHECK(found->in_proc == NULL && found->out_proc == header_proc);
    HG_CHECK(found->callback == header_callback);
    registry_end(&registry);
}

/* Two names with one CRC-64, found by solving for the bits in which they
 * differ. */
HG_TEST(registry_refuses_a_collision)
{
    static const char first[] = "aaaaaaaaaaaaaaaaaa";
    static const char second[] = "injdfejggfnbaiklaa";
    struct hg_rpc rpc = {0, NULL, NULL, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    const struct hg_rpc *found;
    hg_id_t id;

    registry_begin(&registry);
    HG_CHECK_EQ_U64(hg_registry_id(first), hg_registry_id(second));
    id = hg_registry_add(&registry, first, NULL, &rpc);
    HG_CHECK(id != 0);
    hg_test_expect_log("has the same id as");
    rpc.in_proc = header_proc;
    HG_CHECK_EQ_U64(hg_registry_add(&registry, second, NULL, &rpc), 0);
    found = hg_registry_find(&registry, id);
    HG_CHECK(found != NULL);
    HG_CHECK(found->in_proc == NULL);
    registry_end(&registry);
}

HG_TEST(registry_holds_many_names)
{
    struct hg_rpc rpc = {0, NULL, NULL, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    const struct hg_rpc *found;
    char name[32];
    unsigned i;

    registry_begin(&registry);
    for (i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "function %u", i);
        HG_CHECK(hg_registry_add(&registry, name, NULL, &rpc) != 0);
    }
    for (i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "function %u", i);
        found = hg_registry_find(&registry, hg_registry_id(name));
        HG_CHECK(found != NULL);
        HG_CHECK_EQ_U64(found->id, hg_registry_id(name));
    }
    registry_end(&registry);
}

static const char *registry_line; /* a warning that is expected */
static unsigned registry_lines;   /* so many of it, or of another line */

static void registry_log(
    int level, const char *subsys, const char *line, void *arg)
{
    (void) subsys;
    (void) arg;
    HG_CHECK_EQ_INT(level, HG_LOG_LEVEL_WARNING);
    HG_CHECK(strstr(line, registry_line) != NULL);
    registry_lines++;
}

/* The text is copied, its hash is never 0, and two definitions with other types
 * are refused until one is removed. */
HG_TEST(registry_keeps_type_hashes)
{
    char types[] = "(int32_t) -> (float)";
    struct hg_rpc rpc = {0, header_proc, header_proc, NULL, NULL, NULL, 1};
    struct hg_rpc plain = {0, header_proc, header_proc, NULL, NULL, NULL, 0};
    const struct hg_rpc *found;
    struct hg_registry registry;
    uint32_t fingerprint;
    hg_id_t id;

    registry_begin(&registry);
    id = hg_registry_add(&registry, "typed", types, &rpc);
    HG_CHECK(id != 0);
    found = hg_registry_find(&registry, id);
    HG_CHECK(found != NULL);
    HG_CHECK_EQ_STR(found->name, "typed");
    HG_CHECK_EQ_STR(hg_registry_types(found), types);
    HG_CHECK(found->fingerprint != 0);
    fingerprint = found->fingerprint;
    HG_CHECK(hg_registry_add(&registry, "typed", types, &rpc) == id);

    types[1] = 'f';
    HG_CHECK_EQ_STR(hg_registry_types(found), "(int32_t) -> (float)");
    hg_test_expect_log("'typed' with the types (fnt32_t) -> (float)");
    HG_CHECK(hg_registry_add(&registry, "typed", types, &rpc) == 0);
    HG_CHECK_OK(hg_registry_remove(&registry, id));
    HG_CHECK(hg_registry_add(&registry, "typed", types, &rpc) == id);
    found = hg_registry_find(&registry, id);
    HG_CHECK(found != NULL);
    HG_CHECK(found->fingerprint != 0 && found->fingerprint != fingerprint);

    /* Registered by hand: it has no types, and any definition may follow. */
    HG_CHECK(hg_registry_add(&registry, "typed", NULL, &plain) == id);
    found = hg_registry_find(&registry, id);
    HG_CHECK(found != NULL);
    HG_CHECK(hg_registry_types(found) == NULL && found->fingerprint == 0);
    HG_CHECK(hg_registry_add(&registry, "typed", "()", &rpc) == id);
    registry_end(&registry);
}

/* Register with types, and return whether one line names both types. */
static bool registry_warns(struct hg_registry *registry, bool stub,
    const char *types, const char *before)
{
    struct hg_rpc rpc = {0, NULL, NULL, NULL, NULL, NULL, stub};
    char line[200];

    (void) snprintf(line, sizeof(line),
        "'typed' is registered with the types %s, and was with other types: %s",
        types, before);
    registry_line = line;
    registry_lines = 0;
    HG_CHECK(hg_registry_add(registry, "typed", types, &rpc) != 0);
    HG_CHECK(registry_lines <= 1);
    return registry_lines == 1;
}

/* Two modules of a process register a name with other types: one warning, once.
 * The structs of a stub are not other types. */
HG_TEST(registry_warns_of_other_types)
{
    struct hg_registry registry;

    HG_Set_log_level("debug"); /* no line is omitted */
    HG_Set_log_func(registry_log, NULL);
    registry_begin(&registry);
    HG_CHECK(!registry_warns(&registry, false, "a_t -> b_t", ""));
    HG_CHECK(!registry_warns(&registry, false, "a_t -> b_t", ""));
    HG_CHECK(registry_warns(&registry, false, "c_t -> b_t", "a_t -> b_t"));
    HG_CHECK(!registry_warns(&registry, false, "c_t -> b_t", "a_t -> b_t"));
    /* The first module again, and the second. */
    HG_CHECK(!registry_warns(&registry, false, "a_t -> b_t", "c_t -> b_t"));
    HG_CHECK(!registry_warns(&registry, false, "c_t -> b_t", "a_t -> b_t"));
    HG_CHECK(registry_warns(&registry, true, "(int32_t) -> ()", "c_t -> b_t"));
    HG_CHECK(!registry_warns(
        &registry, false, "typed_in_t -> typed_out_t", "(int32_t) -> ()"));
    HG_CHECK(!registry_warns(
        &registry, true, "(int32_t) -> ()", "typed_in_t -> typed_out_t"));
    HG_CHECK(registry_warns(
        &registry, false, "typed_in_t -> typed_outs", "(int32_t) -> ()"));
    HG_CHECK(registry_warns(
        &registry, false, "void -> void", "typed_in_t -> typed_outs"));
    registry_end(&registry);
}

/* Repeated with other procs, and removed in between: the memory held is that of
 * one registration of each kind. */
HG_TEST(registry_does_not_grow_with_time)
{
    static const char name[] = "function";
    struct hg_rpc ways[4] = {{0, NULL, NULL, NULL, NULL, NULL, 0},
        {0, header_proc, NULL, header_callback, NULL, NULL, 0},
        {0, header_proc, NULL, NULL, NULL, NULL, 0},
        {0, NULL, header_proc, NULL, NULL, NULL, 0}};
    struct hg_registry registry;
    const struct hg_rpc *found;
    const char *known[8] = {NULL};
    hg_id_t id = hg_registry_id(name);
    int64_t live = 0;
    unsigned i;

    hg_test_alloc_install();
    registry_begin(&registry);
    for (i = 0; i < 800; i++) {
        unsigned way = i % 8;

        if (i == 8)
            live = hg_test_alloc_live();
        HG_CHECK_OK(hg_registry_put(
            &registry, id, way < 4 ? name : NULL, NULL, &ways[way % 4], false));
        found = hg_registry_find(&registry, id);
        HG_CHECK(found != NULL);
        HG_CHECK(found->in_proc == ways[way % 4].in_proc);
        HG_CHECK(found->out_proc == ways[way % 4].out_proc);
        HG_CHECK(found->callback == ways[way % 4].callback);
        HG_CHECK((found->name != NULL) == (way < 4));
        HG_CHECK(i < 8 || found->name == known[way]);
        known[way] = found->name;
        if (way % 2 == 0)
            continue;
        HG_CHECK_OK(hg_registry_remove(&registry, id));
        HG_CHECK(hg_registry_find(&registry, id) == NULL);
        HG_CHECK_RET(hg_registry_remove(&registry, id), HG_NOENTRY);
    }
    HG_CHECK_EQ_INT(hg_test_alloc_live(), live);
    registry_end(&registry);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* ---- Timers ---- */

#define HEADER_TIMERS 500

/* Compared with the simplest model: check all of them. */
HG_TEST(deadline_pops_in_the_order_of_time)
{
    static struct hg_timer timers[HEADER_TIMERS];
    struct hg_deadline deadline;
    uint64_t state = hg_test_seed();
    uint64_t last = 0;
    unsigned round;
    unsigned i;

    hg_deadline_init(&deadline);
    HG_CHECK_EQ_U64(hg_deadline_next(&deadline), HG_CLOCK_NEVER);
    HG_CHECK(hg_deadline_pop(&deadline, HG_CLOCK_NEVER) == NULL);
    for (round = 0; round < 20000; round++) {
        struct hg_timer *timer =
            &timers[hg_test_random(&state) % HEADER_TIMERS];
        uint64_t first = HG_CLOCK_NEVER;

        if (timer->index != 0)
            hg_deadline_remove(&deadline, timer);
        else
            HG_CHECK_OK(hg_deadline_add(
                &deadline, timer, 1 + hg_test_random(&state) % 1000));
        if (round % 100 != 0)
            continue;
        for (i = 0; i < HEADER_TIMERS; i++)
            if (timers[i].index != 0 && timers[i].when < first)
                first = timers[i].when;
        HG_CHECK_EQ_U64(hg_deadline_next(&deadline), first);
        HG_CHECK(hg_deadline_pop(&deadline, first - 1) == NULL);
    }
    while (deadline.count > 0) {
        struct hg_timer *timer = hg_deadline_pop(&deadline, 1000);

        HG_CHECK(timer != NULL && timer->index == 0 && timer->when >= last);
        last = timer->when;
    }
    hg_deadline_remove(&deadline, &timers[0]); /* it is in none: no effect */
    hg_deadline_fini(&deadline);
}

HG_TEST(deadline_survives_a_failing_allocation)
{
    struct hg_deadline deadline;
    struct hg_timer timer = {0, 0};

    hg_test_alloc_install();
    hg_test_expect_log("no memory for 16 timers");
    hg_deadline_init(&deadline);
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(hg_deadline_add(&deadline, &timer, 1), HG_NOMEM);
    HG_CHECK_EQ_INT(timer.index, 0);
    HG_CHECK_OK(hg_deadline_add(&deadline, &timer, 1));
    HG_CHECK(hg_deadline_pop(&deadline, 1) == &timer);
    hg_deadline_fini(&deadline);
}

/* ---- Tickets ---- */

/* A ticket of one generation of the layer is invalid in the next. */
HG_TEST(ticket_of_an_earlier_generation_is_invalid)
{
    static struct hg_tickets tickets; /* as in the layer: no initialization */
    int objects[3];
    uintptr_t before[3];
    uintptr_t now = 0;
    unsigned i;

    for (i = 0; i < 3; i++)
        HG_CHECK_OK(hg_ticket_issue(&tickets, &objects[i], &before[i]));
    HG_CHECK(hg_ticket_take(&tickets, before[1]) == &objects[1]);
    HG_CHECK(hg_ticket_take(&tickets, before[1]) == NULL);
    while (hg_ticket_take_any(&tickets) != NULL)
        continue;
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(hg_ticket_issue(&tickets, &objects[i], &now));
        HG_CHECK(hg_ticket_get(&tickets, now) == &objects[i]);
        HG_CHECK(hg_ticket_get(&tickets, before[i]) == NULL);
        HG_CHECK(hg_ticket_take(&tickets, before[i]) == NULL);
    }
    while (hg_ticket_take_any(&tickets) != NULL)
        continue;
}
