/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames and memory handles of emulated RMA as bytes. test_na_emul.c tests
 * their meaning.
 */
#include "support/library.h"

#include "harness.h"
#include "support/golden.h"

#define WIRE_ID 0x0807060504030201u
#define WIRE_KEY 0xa8a7a6a5a4a3a2a1u
#define WIRE_SUM 0xc8c7c6c5c4c3c2c1u

/* In the order of struct na_emul_wire. */
static const struct {
    const char *name;
    struct na_emul_wire frame;
    size_t data; /* size of the data after it */
} wire_vectors[] = {
    {"get", {NA_EMUL_WIRE_GET, 0, 0, WIRE_ID, WIRE_KEY, 0x10000, 0x20000, 0},
        0},
    {"get_sum",
        {NA_EMUL_WIRE_GET, NA_EMUL_WIRE_SUM, 0, WIRE_ID, WIRE_KEY, 0x10000,
            0x20000, 0},
        0},
    {"put", {NA_EMUL_WIRE_PUT, 0, 0, WIRE_ID, WIRE_KEY, 0x10000, 0x8000, 0},
        0x8000},
    {"put_sum",
        {NA_EMUL_WIRE_PUT, NA_EMUL_WIRE_SUM, 0, WIRE_ID, WIRE_KEY, 0x10000,
            0x8000, WIRE_SUM},
        0x8000},
    {"answer_data",
        {NA_EMUL_WIRE_ANSWER, 0, 0, WIRE_ID, 0, 0x100000000, 0x8000, 0},
        0x8000},
    {"answer_data_more",
        {NA_EMUL_WIRE_ANSWER, NA_EMUL_WIRE_MORE | NA_EMUL_WIRE_SUM, 0, WIRE_ID,
            0, 0x10000, 0x8000, WIRE_SUM},
        0x8000},
    {"answer_put", {NA_EMUL_WIRE_ANSWER, 0, 0, WIRE_ID, 0, 0x10000, 0x8000, 0},
        0},
    {"answer_refused",
        {NA_EMUL_WIRE_ANSWER, 0, NA_NOENTRY, WIRE_ID, 0, 0x10000, 0x20000, 0},
        0},
};

#define WIRE_VECTORS (sizeof(wire_vectors) / sizeof(wire_vectors[0]))

static void wire_check(
    const struct na_emul_wire *got, const struct na_emul_wire *want)
{
    HG_CHECK_EQ_INT(got->type, want->type);
    HG_CHECK_EQ_INT(got->flags, want->flags);
    HG_CHECK_EQ_INT(got->status, want->status);
    HG_CHECK_EQ_U64(got->id, want->id);
    HG_CHECK_EQ_U64(got->key, want->key);
    HG_CHECK_EQ_U64(got->offset, want->offset);
    HG_CHECK_EQ_U64(got->length, want->length);
    HG_CHECK_EQ_U64(got->sum, want->sum);
}

/* Truncated anywhere, with other data, of another version or type. */
static void wire_refuse(const unsigned char *bytes, size_t size, size_t data)
{
    unsigned char copy[NA_EMUL_WIRE_SIZE];
    struct na_emul_wire got;
    size_t i;

    for (i = 0; i < size; i++) {
        unsigned char *exact = (unsigned char *) malloc(i > 0 ? i : 1);

        HG_CHECK(exact != NULL);
        memcpy(exact, bytes, i);
        HG_CHECK_RET(
            na_emul_wire_decode(exact, i, data, &got), NA_PROTOCOL_ERROR);
        free(exact);
    }
    HG_CHECK_RET(
        na_emul_wire_decode(bytes, size, data + 1, &got), NA_PROTOCOL_ERROR);
    HG_CHECK(size <= sizeof(copy));
    for (i = 0; i < 3; i++) { /* magic and version */
        memcpy(copy, bytes, size);
        copy[i]++;
        HG_CHECK_RET(
            na_emul_wire_decode(copy, size, data, &got), NA_PROTOCOL_ERROR);
    }
    memcpy(copy, bytes, size);
    for (i = 0; i < 256; i++) {
        copy[3] = (unsigned char) i;
        if (i < NA_EMUL_WIRE_GET || i > NA_EMUL_WIRE_ANSWER)
            HG_CHECK_RET(
                na_emul_wire_decode(copy, size, data, &got), NA_PROTOCOL_ERROR);
    }
}

HG_TEST(emul_wire_frames_match_their_golden_file)
{
    struct golden *golden = golden_open("tests/golden/rma.hex");
    const unsigned char *bytes;
    struct na_emul_wire got;
    unsigned types = 0;
    size_t size;
    size_t i;

    for (i = 0; i < WIRE_VECTORS; i++) {
        unsigned char buffer[NA_EMUL_WIRE_SIZE];

        bytes = golden_get(golden, wire_vectors[i].name, &size);
        HG_CHECK_EQ_U64(size, sizeof(buffer));
        na_emul_wire_encode(&wire_vectors[i].frame, buffer);
        HG_CHECK_EQ_MEM(buffer, bytes, size);
        HG_CHECK_OK(
            na_emul_wire_decode(bytes, size, wire_vectors[i].data, &got));
        wire_check(&got, &wire_vectors[i].frame);
        wire_refuse(bytes, size, wire_vectors[i].data);
        types |= 1u << wire_vectors[i].frame.type;
    }
    HG_CHECK_EQ_INT(types, 0xe); /* all types are covered */

    bytes = golden_get(golden, "answer_longer", &size);
    HG_CHECK_OK(na_emul_wire_decode(bytes, size, 0, &got));
    HG_CHECK_EQ_INT(got.type, NA_EMUL_WIRE_ANSWER);
    HG_CHECK_EQ_U64(got.length, 0x8000);

    (void) golden_get(golden, "handle", &size);
    (void) golden_get(golden, "handle_read", &size);
    golden_close(golden);
}

static void wire_check_handle(struct golden *golden, const char *name,
    unsigned long flags, uint64_t key, uint64_t memory_size)
{
    unsigned char buffer[NA_EMUL_WIRE_HANDLE_SIZE];
    struct na_mem_handle mem;
    size_t size;
    const unsigned char *bytes = golden_get(golden, name, &size);
    size_t i;

    memset(&mem, 0, sizeof(mem));
    mem.flags = flags;
    mem.key = key;
    mem.size = memory_size;
    HG_CHECK_EQ_U64(size, sizeof(buffer));
    na_emul_mem_serialize(&mem, buffer);
    HG_CHECK_EQ_MEM(buffer, bytes, size);
    memset(&mem, 0, sizeof(mem));
    HG_CHECK_OK(na_emul_mem_deserialize(&mem, bytes, size));
    HG_CHECK_EQ_U64(mem.flags, flags);
    HG_CHECK_EQ_U64(mem.key, key);
    HG_CHECK_EQ_U64(mem.size, memory_size);

    for (i = 0; i <= size + 1; i++) {
        if (i != size)
            HG_CHECK_RET(
                na_emul_mem_deserialize(&mem, bytes, i), NA_PROTOCOL_ERROR);
    }
    for (i = 0; i < 8; i++) { /* magic, version, flags, zeros */
        memcpy(buffer, bytes, size);
        buffer[i] ^= 0x80;
        HG_CHECK_RET(
            na_emul_mem_deserialize(&mem, buffer, size), NA_PROTOCOL_ERROR);
    }
    memcpy(buffer, bytes, size);
    buffer[3] = 0; /* neither readable nor writable */
    HG_CHECK_RET(
        na_emul_mem_deserialize(&mem, buffer, size), NA_PROTOCOL_ERROR);
    memcpy(buffer, bytes, size);
    memset(buffer + 8, 0, 8); /* no key */
    HG_CHECK_RET(
        na_emul_mem_deserialize(&mem, buffer, size), NA_PROTOCOL_ERROR);
}

HG_TEST(emul_wire_handles_match_their_golden_file)
{
    struct golden *golden = golden_open("tests/golden/rma.hex");
    size_t size;
    size_t i;

    wire_check_handle(golden, "handle", NA_MEM_READWRITE, WIRE_KEY, 0x30000);
    wire_check_handle(
        golden, "handle_read", NA_MEM_READ_ONLY, 0x8000000000000001u, 0);
    /* The frames are compared above. */
    for (i = 0; i < WIRE_VECTORS; i++)
        (void) golden_get(golden, wire_vectors[i].name, &size);
    (void) golden_get(golden, "answer_longer", &size);
    golden_close(golden);
}
