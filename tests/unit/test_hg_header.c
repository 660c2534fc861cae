/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rooms header, registry and deadline: bytes, names and times, without
 * anything that moves.
 */
#include "support/house.h"

#include "harness.h"
#include "support/fuzz.h"
#include "support/golden.h"

/* ---- Messages as bytes ---- */

struct header_vector {
    const char *name;
    struct hg_header header;
    const char *args;
};

#define HEADER_ID 0x995DC9BBDF1939FAu
#define HEADER_NUMBERS \
    0x0807060504030201u, 0x1817161514131211u, 0x2827262524232221u

/* In the order of struct hg_header. */
static const struct header_vector header_vectors[] = {
    {"request",
        {HG_HEADER_REQUEST, 0, 3, 0, 0, HEADER_ID, HEADER_NUMBERS, 1500, 0, 9,
            HEADER_ID, NULL, 0, 76, NULL},
        "123456789"},
    {"request_empty",
        {HG_HEADER_REQUEST, 0, 0, 0, 0, HEADER_ID, HEADER_NUMBERS, 0, 0, 0, 0,
            NULL, 0, 76, NULL},
        ""},
    {"request_types",
        {HG_HEADER_REQUEST, 0, 0, 0, 0, HEADER_ID, HEADER_NUMBERS, 1500,
            0x34333231u, 9, HEADER_ID, NULL, 0, 76, NULL},
        "123456789"},
    {"request_one_way",
        {HG_HEADER_REQUEST, HG_HEADER_ONE_WAY, 0, 0, 0, HEADER_ID,
            HEADER_NUMBERS, 0, 0, 9, HEADER_ID, NULL, 0, 76, NULL},
        "123456789"},
    {"response",
        {HG_HEADER_RESPONSE, HG_HEADER_RAW, 5, 3, 0, HEADER_ID, HEADER_NUMBERS,
            0, 0, 9, HEADER_ID, NULL, 0, 76, NULL},
        "123456789"},
    {"response_error",
        {HG_HEADER_RESPONSE, 0, 0, 3, HG_NOENTRY, HEADER_ID, HEADER_NUMBERS, 0,
            0, 0, 0, "no such file", 12, 92, NULL},
        ""},
    {"cancel",
        {HG_HEADER_CANCEL, 0, 0, 0, 0, HEADER_ID, HEADER_NUMBERS, 0, 0, 0, 0,
            NULL, 0, 76, NULL},
        ""},
    {"ack",
        {HG_HEADER_ACK, 0, 0, 0, 0, HEADER_ID, 0x0000000100000001u,
            0x1817161514131211u, 0x2827262524232221u, 0, 0, 0, 0, NULL, 0, 76,
            NULL},
        ""},
};

#define HEADER_VECTORS (sizeof(header_vectors) / sizeof(header_vectors[0]))

static void header_check_fields(const struct hg_header *got,
    const struct hg_header *want, const unsigned char *message)
{
    HG_CHECK_EQ_INT(got->type, want->type);
    HG_CHECK_EQ_INT(got->flags, want->flags);
    HG_CHECK_EQ_INT(got->origin_context, want->origin_context);
    HG_CHECK_EQ_INT(got->target_context, want->target_context);
    HG_CHECK_EQ_INT(got->code, want->code);
    HG_CHECK_EQ_U64(got->rpc_id, want->rpc_id);
    HG_CHECK_EQ_U64(got->sequence, want->sequence);
    HG_CHECK_EQ_U64(got->incarnation, want->incarnation);
    HG_CHECK_EQ_U64(got->trace_id, want->trace_id);
    HG_CHECK_EQ_INT(got->time_left, want->time_left);
    HG_CHECK_EQ_U64(got->types, want->types);
    HG_CHECK_EQ_U64(got->payload_size, want->payload_size);
    HG_CHECK_EQ_U64(got->args_crc, want->args_crc);
    HG_CHECK_EQ_U64(got->text_size, want->text_size);
    if (want->text_size > 0)
        HG_CHECK_EQ_MEM(got->text, want->text, want->text_size);
    HG_CHECK_EQ_U64(got->size, want->size);
    HG_CHECK(got->payload == message + want->size);
}

/* Write it, compare; read it, compare. */
static void header_compare(
    struct golden *golden, const struct header_vector *vector)
{
    size_t args_size = strlen(vector->args);
    unsigned char *bytes;
    const unsigned char *want;
    struct hg_header got;
    bool answerable = false;
    size_t size;

    want = golden_get(golden, vector->name, &size);
    HG_CHECK_EQ_U64(hg_header_size(&vector->header), vector->header.size);
    HG_CHECK_EQ_U64(size, vector->header.size + args_size);
    bytes = (unsigned char *) malloc(size);
    HG_CHECK(bytes != NULL);
    memset(bytes, 0xee, size);
    hg_header_encode(&vector->header, bytes);
    memcpy(bytes + vector->header.size, vector->args, args_size);
    HG_CHECK_EQ_MEM(bytes, want, size);
    free(bytes);
    HG_CHECK_OK(hg_header_decode(&got, want, size, &answerable));
    HG_CHECK(answerable);
    header_check_fields(&got, &vector->header, want);
}

HG_TEST(header_matches_its_picture)
{
    struct golden *golden = golden_open("tests/golden/header.hex");
    const unsigned char *bytes;
    struct hg_header header;
    bool answerable = false;
    size_t size;
    size_t i;

    for (i = 0; i < HEADER_VECTORS; i++)
        header_compare(golden, &header_vectors[i]);

    bytes = golden_get(golden, "request_options", &size);
    HG_CHECK_OK(hg_header_decode(&header, bytes, size, &answerable));
    HG_CHECK_EQ_INT(header.code, HG_OTHER_ERROR);
    HG_CHECK_EQ_U64(header.text_size, 3);
    HG_CHECK_EQ_MEM(header.text, "why", 3);

    bytes = golden_get(golden, "request_minor", &size);
    HG_CHECK_OK(hg_header_decode(&header, bytes, size, &answerable));
    HG_CHECK_EQ_MEM(header.payload, "123456789", 9);

    bytes = golden_get(golden, "request_major", &size);
    HG_CHECK_RET(
        hg_header_decode(&header, bytes, size, &answerable), HG_PROTOCOL_ERROR);
    HG_CHECK(answerable);
    HG_CHECK_EQ_INT(header.type, HG_HEADER_REQUEST);
    HG_CHECK_EQ_U64(header.rpc_id, HEADER_ID);
    HG_CHECK_EQ_U64(header.sequence, 0x0807060504030201u);

    bytes = golden_get(golden, "request_damaged", &size);
    HG_CHECK_RET(
        hg_header_decode(&header, bytes, size, &answerable), HG_PROTOCOL_ERROR);
    HG_CHECK(answerable);
    golden_close(golden);
}

/* Whatever is cut off or changed is noticed: the header by its CRC-32C and
 * sizes, never by luck. */
HG_TEST(header_refuses_every_cut_and_every_turned_bit)
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
        for (i = 0; i < size; i++) {
            unsigned char *exact = (unsigned char *) malloc(i > 0 ? i : 1);

            HG_CHECK(exact != NULL);
            memcpy(exact, bytes, i);
            HG_CHECK_RET(hg_header_decode(&header, exact, i, &answerable),
                HG_PROTOCOL_ERROR);
            HG_CHECK_EQ_INT(answerable, i >= HG_HEADER_STABLE);
            free(exact);
        }
        for (i = 0; i < header_vectors[v].header.size * 8; i++) {
            memcpy(copy, bytes, size);
            copy[i / 8] = (unsigned char) (copy[i / 8] ^ (1u << i % 8));
            HG_CHECK_RET(hg_header_decode(&header, copy, size, &answerable),
                HG_PROTOCOL_ERROR);
            HG_CHECK_EQ_INT(answerable, i / 8 >= 4);
        }
        memcpy(copy, bytes, size);
        HG_CHECK_RET(hg_header_decode(&header, copy, size + 1, &answerable),
            HG_PROTOCOL_ERROR);
    }
    /* The others are compared above. */
    (void) golden_get(golden, "request_options", &size);
    (void) golden_get(golden, "request_minor", &size);
    (void) golden_get(golden, "request_major", &size);
    (void) golden_get(golden, "request_damaged", &size);
    golden_close(golden);
}

/* Give a header's bytes a right CRC-32C again. */
static void header_sign(unsigned char *bytes, size_t header_size)
{
    hg_wire_store32(
        bytes + header_size - 4, hg_crc32c_update(0, bytes, header_size - 4));
}

/* Nor is a header believed that is too short for its fields: as long as the
 * message, in memory of just that size. */
HG_TEST(header_shorter_than_its_fields_is_refused)
{
    size_t size;

    for (size = HG_HEADER_STABLE; size < HG_HEADER_MIN; size++) {
        unsigned char *bytes = (unsigned char *) calloc(1, size);
        struct hg_header header;
        bool answerable = false;

        HG_CHECK(bytes != NULL);
        hg_wire_store32(bytes, HG_HEADER_MAGIC);
        bytes[4] = HG_HEADER_MAJOR;
        bytes[6] = HG_HEADER_REQUEST;
        hg_wire_store16(bytes + 8, (uint16_t) size);
        header_sign(bytes, size);
        HG_CHECK_RET(hg_header_decode(&header, bytes, size, &answerable),
            HG_PROTOCOL_ERROR);
        HG_CHECK(answerable);
        free(bytes);
    }
}

/* Store at `at` what is the CRC-32C of the fixed part with it. The CRC is
 * linear: each bit changes it in its own way, whatever the others are. False:
 * there is no such value. */
static bool header_sign_inside(unsigned char *bytes, size_t at)
{
    uint32_t changes[32] = {0};
    uint32_t bits[32] = {0};
    uint32_t none, left, value = 0;
    int i, b;

    hg_wire_store32(bytes + at, 0);
    none = left = hg_crc32c_update(0, bytes, HG_HEADER_FIXED);
    for (i = 0; i < 32; i++) {
        uint32_t bit = (uint32_t) 1 << i;
        uint32_t change;

        hg_wire_store32(bytes + at, bit);
        change = hg_crc32c_update(0, bytes, HG_HEADER_FIXED) ^ bit ^ none;
        for (b = 31; b >= 0 && change != 0; b--) {
            if ((change >> b & 1) == 0)
                continue;
            if (changes[b] == 0) {
                changes[b] = change;
                bits[b] = bit;
                break;
            }
            change ^= changes[b];
            bit ^= bits[b];
        }
    }
    for (b = 31; b >= 0; b--) {
        if ((left >> b & 1) == 0)
            continue;
        left ^= changes[b];
        value ^= bits[b];
    }
    hg_wire_store32(bytes + at, value);
    return left == 0;
}

/* A header that claims to be shorter than its fields is refused, even if the
 * bytes that would be its checksum are right. */
HG_TEST(header_with_its_checksum_inside_its_fields_is_refused)
{
    unsigned char bytes[HG_HEADER_MIN + 8];
    unsigned signed_right = 0;
    size_t size;

    for (size = 36; size < HG_HEADER_MIN; size++) {
        struct hg_header header;
        bool answerable = false;

        if (size - 4 > 52 && size - 4 < 64)
            continue; /* the payload's size stands there */
        memset(bytes, 0, sizeof(bytes));
        hg_wire_store32(bytes, HG_HEADER_MAGIC);
        bytes[4] = HG_HEADER_MAJOR;
        bytes[6] = HG_HEADER_REQUEST;
        hg_wire_store16(bytes + 8, (uint16_t) size);
        hg_wire_store64(bytes + 56, sizeof(bytes) - size);
        signed_right += header_sign_inside(bytes, size - 4);
        HG_CHECK_RET(
            hg_header_decode(&header, bytes, sizeof(bytes), &answerable),
            HG_PROTOCOL_ERROR);
        HG_CHECK(answerable);
    }
    HG_CHECK(signed_right > 0);
}

/* A header that claims to be longer than its message is refused, even if what
 * lies behind the message in memory makes it right. */
HG_TEST(header_longer_than_its_message_is_refused)
{
    unsigned char bytes[HG_HEADER_MIN + 8] = {0};
    struct hg_header header;
    bool answerable = false;
    size_t size;

    for (size = HG_HEADER_STABLE; size < sizeof(bytes); size++) {
        hg_wire_store32(bytes, HG_HEADER_MAGIC);
        bytes[4] = HG_HEADER_MAJOR;
        bytes[6] = HG_HEADER_REQUEST;
        hg_wire_store16(bytes + 8, sizeof(bytes));
        hg_wire_store64(bytes + 56, (uint64_t) size - sizeof(bytes));
        header_sign(bytes, sizeof(bytes));
        HG_CHECK_RET(hg_header_decode(&header, bytes, size, &answerable),
            HG_PROTOCOL_ERROR);
        HG_CHECK(answerable);
    }
}

/* What stood in the struct before is not taken for what a refused message
 * says: of one that is none, nothing is left; of one that is cut, what every
 * version shares. */
HG_TEST(header_of_a_refused_message_has_nothing_of_before)
{
    unsigned char bytes[HG_HEADER_STABLE] = {0};
    struct hg_header nothing;
    struct hg_header header;
    bool answerable;
    size_t size;

    memset(&nothing, 0, sizeof(nothing));
    for (size = HG_HEADER_STABLE - 1; size <= HG_HEADER_STABLE; size++) {
        memset(&header, 0xff, sizeof(header));
        HG_CHECK_RET(hg_header_decode(&header, bytes, size, &answerable),
            HG_PROTOCOL_ERROR);
        HG_CHECK(!answerable);
        HG_CHECK(memcmp(&header, &nothing, sizeof(header)) == 0);
    }
    hg_wire_store32(bytes, HG_HEADER_MAGIC);
    memset(&header, 0xff, sizeof(header));
    HG_CHECK_RET(hg_header_decode(&header, bytes, sizeof(bytes), &answerable),
        HG_PROTOCOL_ERROR);
    HG_CHECK(answerable && header.size == 0 && header.code == 0);
    HG_CHECK(header.rpc_id == 0 && header.sequence == 0);
    HG_CHECK(header.incarnation == 0 && header.trace_id == 0);
    HG_CHECK(header.time_left == 0 && header.types == 0);
    HG_CHECK(header.args_crc == 0);
    HG_CHECK(header.text == NULL && header.text_size == 0);
    HG_CHECK(header.payload == NULL && header.payload_size == 0);
}

HG_TEST(header_checks_options_behind_a_right_checksum)
{
    unsigned char bytes[HG_HEADER_MIN + 16];
    struct hg_header header;
    struct hg_header got;
    bool answerable;

    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_RESPONSE;
    header.text = "0123456789ab";
    header.text_size = 12;
    HG_CHECK_EQ_U64(hg_header_size(&header), sizeof(bytes));
    hg_header_encode(&header, bytes);
    HG_CHECK_OK(hg_header_decode(&got, bytes, sizeof(bytes), &answerable));
    /* A length past the header's end, and a header that ends inside an
     * option's first four bytes. */
    hg_wire_store16(bytes + HG_HEADER_FIXED + 2, 13);
    header_sign(bytes, sizeof(bytes));
    HG_CHECK_RET(hg_header_decode(&got, bytes, sizeof(bytes), &answerable),
        HG_PROTOCOL_ERROR);
    hg_wire_store16(bytes + HG_HEADER_FIXED + 2, 9);
    header_sign(bytes, sizeof(bytes));
    HG_CHECK_RET(hg_header_decode(&got, bytes, sizeof(bytes), &answerable),
        HG_PROTOCOL_ERROR);
    hg_wire_store16(bytes + HG_HEADER_FIXED + 2, 8);
    hg_wire_store32(bytes + HG_HEADER_FIXED + 12, 2);
    header_sign(bytes, sizeof(bytes));
    HG_CHECK_OK(hg_header_decode(&got, bytes, sizeof(bytes), &answerable));
    HG_CHECK_EQ_U64(got.text_size, 8);
}

HG_TEST(header_ignores_an_error_text_that_is_too_long)
{
    size_t text_size = HG_HEADER_TEXT_MAX + 1;
    size_t size = HG_HEADER_MIN + 4 + text_size;
    unsigned char *bytes = (unsigned char *) calloc(1, size);
    struct hg_header header;
    bool answerable;

    HG_CHECK(bytes != NULL);
    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_RESPONSE;
    hg_header_encode(&header, bytes);
    hg_wire_store16(bytes + 8, (uint16_t) size);
    hg_wire_store16(bytes + HG_HEADER_FIXED, HG_HEADER_OPTION_TEXT);
    hg_wire_store16(bytes + HG_HEADER_FIXED + 2, (uint16_t) text_size);
    memset(bytes + HG_HEADER_FIXED + 4, 'x', text_size);
    header_sign(bytes, size);
    HG_CHECK_OK(hg_header_decode(&header, bytes, size, &answerable));
    HG_CHECK(header.text == NULL && header.text_size == 0);
    free(bytes);
}

/* An option that nobody knows, which makes a header of `size` bytes. */
static hg_return_t header_decode_long(size_t size)
{
    unsigned char *bytes = (unsigned char *) calloc(1, size + 5);
    struct hg_header header;
    bool answerable;
    hg_return_t ret;

    HG_CHECK(bytes != NULL);
    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_REQUEST;
    header.payload_size = 5;
    hg_header_encode(&header, bytes);
    hg_wire_store16(bytes + 8, (uint16_t) size);
    hg_wire_store16(bytes + HG_HEADER_FIXED, 77);
    hg_wire_store16(
        bytes + HG_HEADER_FIXED + 2, (uint16_t) (size - HG_HEADER_MIN - 4));
    header_sign(bytes, size);
    ret = hg_header_decode(&header, bytes, size + 5, &answerable);
    HG_CHECK(answerable);
    if (ret == HG_SUCCESS)
        HG_CHECK(header.payload == bytes + size && header.text == NULL);
    free(bytes);
    return ret;
}

HG_TEST(header_has_a_largest_size)
{
    HG_CHECK_OK(header_decode_long(HG_HEADER_MIN + 4));
    HG_CHECK_OK(header_decode_long(HG_HEADER_MAX));
    HG_CHECK_RET(header_decode_long(HG_HEADER_MAX + 1), HG_PROTOCOL_ERROR);
    HG_CHECK_RET(header_decode_long(UINT16_MAX), HG_PROTOCOL_ERROR);
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

HG_TEST(registry_replaces_but_never_unserves)
{
    struct hg_rpc served = {
        0, header_proc, NULL, header_callback, NULL, NULL, 0};
    struct hg_rpc called = {0, NULL, header_proc, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    struct hg_rpc found = {0, NULL, NULL, NULL, NULL, NULL, 0};
    hg_id_t id;

    HG_CHECK_OK(hg_registry_init(&registry));
    HG_CHECK_RET(hg_registry_find(&registry, 1, &found), HG_NOENTRY);
    id = hg_registry_add(&registry, "123456789", &served);
    HG_CHECK_EQ_U64(id, HEADER_ID);
    HG_CHECK_EQ_U64(hg_registry_id("123456789"), HEADER_ID);
    HG_CHECK_EQ_U64(hg_registry_add(&registry, "123456789", &called), id);
    HG_CHECK_OK(hg_registry_find(&registry, id, &found));
    HG_CHECK_EQ_U64(found.id, id);
    HG_CHECK(found.in_proc == NULL && found.out_proc == header_proc);
    HG_CHECK(found.callback == header_callback);
    hg_registry_fini(&registry);
}

/* Two names with one CRC-64, found by solving for the bits in which they
 * differ. */
HG_TEST(registry_refuses_a_collision)
{
    static const char first[] = "aaaaaaaaaaaaaaaaaa";
    static const char second[] = "injdfejggfnbaiklaa";
    struct hg_rpc rpc = {0, NULL, NULL, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    struct hg_rpc found = {0, NULL, NULL, NULL, NULL, NULL, 0};
    hg_id_t id;

    HG_CHECK_OK(hg_registry_init(&registry));
    HG_CHECK_EQ_U64(hg_registry_id(first), hg_registry_id(second));
    id = hg_registry_add(&registry, first, &rpc);
    HG_CHECK(id != 0);
    hg_test_expect_log("has the same id as");
    rpc.in_proc = header_proc;
    HG_CHECK_EQ_U64(hg_registry_add(&registry, second, &rpc), 0);
    HG_CHECK_OK(hg_registry_find(&registry, id, &found));
    HG_CHECK(found.in_proc == NULL);
    hg_registry_fini(&registry);
}

HG_TEST(registry_holds_many_names)
{
    struct hg_rpc rpc = {0, NULL, NULL, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    struct hg_rpc found = {0, NULL, NULL, NULL, NULL, NULL, 0};
    char name[32];
    unsigned i;

    HG_CHECK_OK(hg_registry_init(&registry));
    for (i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "function %u", i);
        HG_CHECK(hg_registry_add(&registry, name, &rpc) != 0);
    }
    for (i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "function %u", i);
        HG_CHECK_OK(hg_registry_find(&registry, hg_registry_id(name), &found));
        HG_CHECK_EQ_U64(found.id, hg_registry_id(name));
    }
    hg_registry_fini(&registry);
}

/* The text is copied, its fingerprint is never 0, and two definitions with
 * other types exclude each other until one is forgotten. */
HG_TEST(registry_keeps_types)
{
    char types[] = "(int32_t) -> (float)";
    struct hg_rpc rpc = {0, header_proc, header_proc, NULL, NULL, NULL, 0};
    struct hg_rpc found = {0, NULL, NULL, NULL, NULL, NULL, 0};
    struct hg_registry registry;
    uint32_t fingerprint;
    hg_id_t id;

    HG_CHECK_OK(hg_registry_init(&registry));
    id = hg_registry_add_typed(&registry, "typed", types, &rpc);
    HG_CHECK(id != 0);
    HG_CHECK_OK(hg_registry_find(&registry, id, &found));
    HG_CHECK_EQ_STR(found.name, "typed");
    HG_CHECK_EQ_STR(hg_registry_types(&found), types);
    HG_CHECK(found.fingerprint != 0);
    fingerprint = found.fingerprint;
    HG_CHECK(hg_registry_add_typed(&registry, "typed", types, &rpc) == id);

    types[1] = 'f';
    HG_CHECK_EQ_STR(hg_registry_types(&found), "(int32_t) -> (float)");
    hg_test_expect_log("'typed' with the types (fnt32_t) -> (float)");
    HG_CHECK(hg_registry_add_typed(&registry, "typed", types, &rpc) == 0);
    HG_CHECK_OK(hg_registry_remove(&registry, id));
    HG_CHECK(hg_registry_add_typed(&registry, "typed", types, &rpc) == id);
    HG_CHECK_OK(hg_registry_find(&registry, id, &found));
    HG_CHECK(found.fingerprint != 0 && found.fingerprint != fingerprint);

    /* By hand: it has no types, and any may follow. */
    HG_CHECK(hg_registry_add(&registry, "typed", &rpc) == id);
    HG_CHECK_OK(hg_registry_find(&registry, id, &found));
    HG_CHECK(hg_registry_types(&found) == NULL && found.fingerprint == 0);
    HG_CHECK(hg_registry_add_typed(&registry, "typed", "()", &rpc) == id);
    hg_registry_fini(&registry);
}

/* Again and again, with other procs and forgotten in between: what is held is
 * what there was, each way of it once. */
HG_TEST(registry_does_not_grow_with_time)
{
    static const char name[] = "function";
    struct hg_rpc ways[3] = {{0, NULL, NULL, NULL, NULL, NULL, 0},
        {0, header_proc, NULL, header_callback, NULL, NULL, 0},
        {0, NULL, header_proc, NULL, NULL, NULL, 0}};
    struct hg_registry registry;
    struct hg_rpc found = {0, NULL, NULL, NULL, NULL, NULL, 0};
    const char *known[6] = {NULL};
    hg_id_t id = hg_registry_id(name);
    int64_t live = 0;
    unsigned i;

    hg_test_alloc_install();
    HG_CHECK_OK(hg_registry_init(&registry));
    for (i = 0; i < 600; i++) {
        unsigned way = i % 6;

        if (i == 6)
            live = hg_test_alloc_live();
        HG_CHECK_OK(hg_registry_put(
            &registry, id, way < 3 ? name : NULL, &ways[way % 3]));
        HG_CHECK_OK(hg_registry_find(&registry, id, &found));
        HG_CHECK(found.in_proc == ways[way % 3].in_proc);
        HG_CHECK(found.out_proc == ways[way % 3].out_proc);
        HG_CHECK(found.callback == ways[way % 3].callback);
        HG_CHECK((found.name != NULL) == (way < 3));
        HG_CHECK(i < 6 || found.name == known[way]);
        known[way] = found.name;
        if (way % 2 == 0)
            continue;
        HG_CHECK_OK(hg_registry_remove(&registry, id));
        HG_CHECK_RET(hg_registry_find(&registry, id, &found), HG_NOENTRY);
        HG_CHECK_RET(hg_registry_remove(&registry, id), HG_NOENTRY);
    }
    HG_CHECK_EQ_INT(hg_test_alloc_live(), live);
    hg_registry_fini(&registry);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* ---- Times ---- */

#define HEADER_TIMERS 500

/* Against the simplest model: look at all of them. */
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
    hg_deadline_remove(&deadline, &timers[0]); /* is in none: nothing */
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

/* No ticket of one life of the layer names anything in the next. */
HG_TEST(ticket_of_an_earlier_life_names_nothing)
{
    static struct hg_tickets tickets; /* as the layer's: never made */
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
