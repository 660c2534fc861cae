/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The macros of hg.h, and procs written by hand as an application writes them.
 * Only the public interface is used. tests/lint also compiles this file as C99
 * and as C++11 to C++20.
 */
#include "hg.h"

#include "harness.h"
#include "support/rich.h"

/* ---- Both ways through a public proc ---- */

static size_t macros_encode(
    hg_proc_cb_t proc_cb, void *value, void *buffer, size_t room_size)
{
    hg_proc_t proc = HG_PROC_NULL;
    size_t size;

    HG_CHECK_OK(hg_proc_create(buffer, room_size, HG_ENCODE, &proc));
    HG_CHECK_OK(proc_cb(proc, value));
    size = hg_proc_get_size_used(proc);
    HG_CHECK_OK(hg_proc_free(proc));
    return size;
}

/* No prefix of the bytes suffices. */
static void macros_decode(
    hg_proc_cb_t proc_cb, void *value, void *bytes, size_t size)
{
    hg_proc_t proc = HG_PROC_NULL;

    HG_CHECK_OK(hg_proc_create(bytes, size, HG_DECODE, &proc));
    HG_CHECK_OK(proc_cb(proc, value));
    HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
    HG_CHECK_OK(hg_proc_free(proc));
}

static void macros_free(hg_proc_cb_t proc_cb, void *value)
{
    hg_proc_t proc = HG_PROC_NULL;

    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_FREE, &proc));
    HG_CHECK_OK(proc_cb(proc, value));
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- The Mercury design report's own lines, with its blanks ---- */

/* clang-format off */
MERCURY_GEN_PROC( function_in_t, ((int32_t)(func_param1)) )
IOFSL_SHIPPER_GEN_PROC( function_out_t, ((int32_t)(func_ret)) )
/* clang-format on */

HG_TEST(macros_compile_the_lines_of_the_design_report)
{
    unsigned char buffer[4];
    function_in_t in = {-5};
    function_out_t out = {0};

    HG_CHECK_EQ_U64(macros_encode(hg_proc_function_in_t, &in, buffer, 4), 4);
    macros_decode(hg_proc_function_out_t, &out, buffer, 4);
    HG_CHECK_EQ_INT(out.func_ret, -5);
}

/* ---- How many fields ---- */

/* clang-format off */
#define MACROS_TEN(type, n) \
    ((type)(f##n##0))((type)(f##n##1))((type)(f##n##2))((type)(f##n##3)) \
    ((type)(f##n##4))((type)(f##n##5))((type)(f##n##6))((type)(f##n##7)) \
    ((type)(f##n##8))((type)(f##n##9))

MERCURY_GEN_PROC(macros_64_t,
    MACROS_TEN(uint16_t, 0) MACROS_TEN(uint16_t, 1) MACROS_TEN(uint16_t, 2)
    MACROS_TEN(uint16_t, 3) MACROS_TEN(uint16_t, 4) MACROS_TEN(uint16_t, 5)
    ((uint16_t)(f60))((uint16_t)(f61))((uint16_t)(f62))((uint16_t)(f63)))

MERCURY_GEN_PROC(macros_301_t,
    MACROS_TEN(uint16_t, 0) MACROS_TEN(uint16_t, 1) MACROS_TEN(uint16_t, 2)
    MACROS_TEN(uint16_t, 3) MACROS_TEN(uint16_t, 4) MACROS_TEN(uint16_t, 5)
    MACROS_TEN(uint16_t, 6) MACROS_TEN(uint16_t, 7) MACROS_TEN(uint16_t, 8)
    MACROS_TEN(uint16_t, 9) MACROS_TEN(uint16_t, 10) MACROS_TEN(uint16_t, 11)
    MACROS_TEN(uint16_t, 12) MACROS_TEN(uint16_t, 13) MACROS_TEN(uint16_t, 14)
    MACROS_TEN(uint16_t, 15) MACROS_TEN(uint16_t, 16) MACROS_TEN(uint16_t, 17)
    MACROS_TEN(uint16_t, 18) MACROS_TEN(uint16_t, 19) MACROS_TEN(uint16_t, 20)
    MACROS_TEN(uint16_t, 21) MACROS_TEN(uint16_t, 22) MACROS_TEN(uint16_t, 23)
    MACROS_TEN(uint16_t, 24) MACROS_TEN(uint16_t, 25) MACROS_TEN(uint16_t, 26)
    MACROS_TEN(uint16_t, 27) MACROS_TEN(uint16_t, 28) MACROS_TEN(uint16_t, 29)
    ((uint16_t)(last)))
/* clang-format on */

/* `count` fields of 16 bits are encoded in their order, and nothing else. */
static void macros_try_wide(hg_proc_cb_t proc_cb, size_t count)
{
    uint16_t values[301];
    uint16_t got[301];
    unsigned char buffer[602];
    size_t i;

    for (i = 0; i < count; i++)
        values[i] = (uint16_t) (i * 211 + 1);
    HG_CHECK_EQ_U64(
        macros_encode(proc_cb, values, buffer, sizeof(buffer)), 2 * count);
    for (i = 0; i < count; i++)
        HG_CHECK_EQ_INT(buffer[2 * i] | buffer[2 * i + 1] << 8, values[i]);
    macros_decode(proc_cb, got, buffer, 2 * count);
    HG_CHECK_EQ_MEM(got, values, 2 * count);
}

HG_TEST(macros_accept_64_fields_and_more)
{
    HG_CHECK_EQ_U64(sizeof(macros_64_t), 128);
    macros_try_wide(hg_proc_macros_64_t, 64);
    HG_CHECK_EQ_U64(sizeof(macros_301_t), 602);
    macros_try_wide(hg_proc_macros_301_t, 301);
}

/* ---- Structs that exist, structs in structs ---- */

typedef struct {
    uint32_t here; /* is not encoded */
    int64_t size;
    uint8_t kind;
} macros_stat_t;

/* clang-format off */
MERCURY_GEN_STRUCT_PROC(macros_stat_t, ((int64_t)(size))((uint8_t)(kind)))
MERCURY_GEN_PROC(macros_file_t,
    ((hg_const_string_t)(name))((macros_stat_t)(stat))((hg_bulk_t)(data)))
MERCURY_GEN_PROC(macros_pair_t,
    ((macros_file_t)(from))((macros_file_t)(to))((hg_bool_t)(move)))
/* clang-format on */

HG_TEST(macros_nest)
{
    unsigned char buffer[256];
    macros_pair_t pair = {{"old", {1, -2, 3}, HG_BULK_NULL},
        {NULL, {4, INT64_MAX, 6}, HG_BULK_NULL}, HG_TRUE};
    macros_pair_t got;
    size_t size;

    /* A string of 3 bytes, a NULL, two stats without `here`, two bulks, a
     * bool. */
    size = macros_encode(hg_proc_macros_pair_t, &pair, buffer, sizeof(buffer));
    HG_CHECK_EQ_U64(size, (14 + 9 + 4) + (8 + 9 + 4) + 1);
    memset(&got, 0, sizeof(got));
    got.to.stat.here = 77;
    macros_decode(hg_proc_macros_pair_t, &got, buffer, size);
    HG_CHECK_EQ_STR(got.from.name, "old");
    HG_CHECK(got.to.name == NULL);
    HG_CHECK_EQ_INT(got.from.stat.size, -2);
    HG_CHECK_EQ_INT(got.to.stat.size, INT64_MAX);
    HG_CHECK_EQ_INT(got.to.stat.kind, 6);
    HG_CHECK_EQ_INT(got.to.stat.here, 77);
    HG_CHECK(got.from.data == HG_BULK_NULL && got.to.data == HG_BULK_NULL);
    HG_CHECK_EQ_INT(got.move, HG_TRUE);
    macros_free(hg_proc_macros_pair_t, &got);
    HG_CHECK(got.from.name == NULL);
}

/* A generated proc stops at the first step that fails. */
static unsigned macros_steps;

typedef struct {
    int code;
} macros_step_t;

static hg_return_t hg_proc_macros_step_t(hg_proc_t proc, void *data)
{
    (void) proc;
    macros_steps++;
    return ((const macros_step_t *) data)->code;
}

/* clang-format off */
MERCURY_GEN_PROC(macros_steps_t,
    ((macros_step_t)(a))((macros_step_t)(b))((macros_step_t)(c)))
/* clang-format on */

HG_TEST(macros_return_the_first_failure)
{
    macros_steps_t steps = {{HG_SUCCESS}, {HG_PERMISSION}, {HG_NOENTRY}};
    hg_proc_t proc = HG_PROC_NULL;

    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_ENCODE, &proc));
    HG_CHECK_RET(hg_proc_macros_steps_t(proc, &steps), HG_PERMISSION);
    HG_CHECK_EQ_INT(macros_steps, 2);
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- Procs written by hand ---- */

HG_TEST(macros_mix_with_procs_written_by_hand)
{
    unsigned char buffer[512];
    rich_name_t items[3];
    rich_t rich = rich_example(items);
    rich_t got;
    size_t size;

    hg_test_alloc_install();
    size = macros_encode(hg_proc_rich_t, &rich, buffer, sizeof(buffer));
    memset(&got, 0, sizeof(got));
    macros_decode(hg_proc_rich_t, &got, buffer, size);
    HG_CHECK_EQ_INT(got.names.count, 3);
    HG_CHECK_EQ_STR(got.names.items[0].text, "first");
    HG_CHECK(got.names.items[2].text == NULL);
    HG_CHECK_EQ_INT(got.names.items[2].at.x, 5);
    HG_CHECK_EQ_U64(got.some.value, 17);
    HG_CHECK_EQ_INT(got.none.present, HG_FALSE);
    macros_free(hg_proc_rich_t, &got);
    HG_CHECK(got.names.items == NULL && got.constant == NULL);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* An absent field takes one byte, an empty array four. */
HG_TEST(macros_absent_fields_are_small)
{
    unsigned char buffer[16];
    rich_optional_t optional = {HG_FALSE, 0};
    rich_names_t names = {0, NULL};

    HG_CHECK_EQ_U64(
        macros_encode(hg_proc_rich_optional_t, &optional, buffer, 16), 1);
    optional.present = HG_TRUE;
    HG_CHECK_EQ_U64(
        macros_encode(hg_proc_rich_optional_t, &optional, buffer, 16), 9);
    HG_CHECK_EQ_U64(macros_encode(hg_proc_rich_names_t, &names, buffer, 16), 4);
    names.count = 17;
    names.items = (rich_name_t *) (void *) buffer;
    macros_decode(hg_proc_rich_names_t, &names, buffer, 4);
    HG_CHECK(names.count == 0 && names.items == NULL);
}

/* ---- Registering ---- */

static hg_return_t macros_rpc(hg_handle_t handle)
{
    return HG_Handler_free(handle);
}

HG_TEST(macros_register_all_types)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    hg_id_t id;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    id = MERCURY_REGISTER("both", function_in_t, function_out_t, macros_rpc);
    HG_CHECK(id != 0);
    HG_CHECK_EQ_U64(HG_REGISTER("both", function_in_t, function_out_t), id);
    HG_CHECK_EQ_U64(
        HG_HANDLER_REGISTER("both", macros_rpc, function_in_t, void), id);
    HG_CHECK(MERCURY_REGISTER("none", void, void, NULL) != 0);
    HG_CHECK(MERCURY_REGISTER("in", function_in_t, void, NULL) != id);
    HG_CHECK(MERCURY_REGISTER("out", void, function_out_t, macros_rpc) != id);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- Numbers, which the macros encode inline ---- */

MERCURY_GEN_PROC(macros_numbers_t,
    ((int8_t) (a))((uint8_t) (b))((int16_t) (c))((uint16_t) (d))((int32_t) (e))(
        (uint32_t) (f))((int64_t) (g))((uint64_t) (h))((float) (i))(
        (double) (j)))

/* Encodes the same bytes as the functions, in the order of the fields. */
static hg_return_t macros_proc_numbers(hg_proc_t proc, void *data)
{
    macros_numbers_t *n = HG_CAST(macros_numbers_t *, data);
    hg_return_t ret[10];
    int i;

    ret[0] = hg_proc_int8_t(proc, &n->a);
    ret[1] = hg_proc_uint8_t(proc, &n->b);
    ret[2] = hg_proc_int16_t(proc, &n->c);
    ret[3] = hg_proc_uint16_t(proc, &n->d);
    ret[4] = hg_proc_int32_t(proc, &n->e);
    ret[5] = hg_proc_uint32_t(proc, &n->f);
    ret[6] = hg_proc_int64_t(proc, &n->g);
    ret[7] = hg_proc_uint64_t(proc, &n->h);
    ret[8] = hg_proc_float(proc, &n->i);
    ret[9] = hg_proc_double(proc, &n->j);
    for (i = 0; i < 10; i++) {
        if (ret[i] != HG_SUCCESS)
            return ret[i];
    }
    return HG_SUCCESS;
}

HG_TEST(macros_encode_numbers_like_the_functions)
{
    macros_numbers_t in = {-1, 2, -300, 400, -500000, 600000u, -7000000000,
        8000000000u, 9.5f, -10.25};
    macros_numbers_t out;
    unsigned char made[64];
    unsigned char want[64];
    size_t size = macros_encode(macros_proc_numbers, &in, want, sizeof(want));

    HG_CHECK_EQ_U64(size, 42);
    HG_CHECK_EQ_U64(
        macros_encode(hg_proc_macros_numbers_t, &in, made, sizeof(made)), size);
    HG_CHECK(memcmp(made, want, size) == 0);
    memset(&out, 0, sizeof(out));
    macros_decode(hg_proc_macros_numbers_t, &out, want, size);
    HG_CHECK(out.a == in.a && out.b == in.b && out.c == in.c && out.d == in.d &&
        out.e == in.e && out.f == in.f && out.g == in.g && out.h == in.h &&
        out.i == in.i && out.j == in.j);
    macros_free(hg_proc_macros_numbers_t, &out);
}

/* With a truncated buffer, nothing is read or written past its end. */
HG_TEST(macros_numbers_stop_at_the_end_of_the_buffer)
{
    const hg_proc_op_t ops[2] = {HG_ENCODE, HG_DECODE};
    macros_numbers_t numbers;
    unsigned char *buffer;
    hg_proc_t proc;
    size_t size;
    int i;

    memset(&numbers, 0, sizeof(numbers));
    hg_test_expect_log("needs");
    for (size = 0; size < 42; size++) {
        for (i = 0; i < 2; i++) {
            buffer = HG_CAST(unsigned char *, calloc(1, size + 1));
            HG_CHECK(buffer != NULL);
            buffer[size] = 0xa5;
            HG_CHECK_OK(hg_proc_create(buffer, size, ops[i], &proc));
            HG_CHECK_RET(hg_proc_macros_numbers_t(proc, &numbers), HG_OVERFLOW);
            HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
            HG_CHECK_EQ_INT(buffer[size], 0xa5);
            HG_CHECK_OK(hg_proc_free(proc));
            free(buffer);
        }
    }
    hg_test_expect_log("the proc is NULL");
    HG_CHECK_RET(
        hg_proc_macros_numbers_t(HG_PROC_NULL, &numbers), HG_INVALID_ARG);
}

/* ---- Structs of numbers only, which are encoded in one step ---- */

/* clang-format off */
MERCURY_GEN_PROC(macros_plain_t,
    ((uint32_t)(a))((int16_t)(b))((uint16_t)(c))((int64_t)(d))((double)(e)))
MERCURY_GEN_PROC(macros_gap_t, ((uint32_t)(a))((uint64_t)(b)))
/* clang-format on */

typedef struct {
    uint32_t a;
    uint32_t b;
} macros_turned_t;

/* Not in the order of their offsets. */
MERCURY_GEN_STRUCT_PROC(macros_turned_t, ((uint32_t) (b))((uint32_t) (a)))

/* The same bytes as the functions encode, in the order of the fields. */
static hg_return_t macros_proc_plain(hg_proc_t proc, void *data)
{
    macros_plain_t *plain = HG_CAST(macros_plain_t *, data);

    HG_CHECK_OK(hg_proc_uint32_t(proc, &plain->a));
    HG_CHECK_OK(hg_proc_int16_t(proc, &plain->b));
    HG_CHECK_OK(hg_proc_uint16_t(proc, &plain->c));
    HG_CHECK_OK(hg_proc_int64_t(proc, &plain->d));
    return hg_proc_double(proc, &plain->e);
}

HG_TEST(macros_encode_adjacent_numbers_at_once)
{
    macros_plain_t in = {1, -2, 3, -4, 5.5};
    macros_plain_t out = {0, 0, 0, 0, 0};
    unsigned char made[25];
    unsigned char want[24];

    HG_CHECK_EQ_U64(sizeof(in), 24);
    HG_CHECK_EQ_U64(macros_encode(macros_proc_plain, &in, want, 24), 24);
    HG_CHECK_EQ_U64(
        macros_encode(hg_proc_macros_plain_t, &in, made + 1, 24), 24);
    HG_CHECK_EQ_MEM(made + 1, want, 24);
    macros_decode(hg_proc_macros_plain_t, &out, made + 1, 24);
    HG_CHECK_EQ_MEM(&out, &in, 24);
    macros_free(hg_proc_macros_plain_t, &out);
    HG_CHECK_EQ_MEM(&out, &in, 24);
}

HG_TEST(macros_skip_padding_and_keep_the_order)
{
    macros_gap_t gap = {1, 2};
    macros_turned_t turned = {1, 2};
    unsigned char buffer[16];

    HG_CHECK_EQ_U64(macros_encode(hg_proc_macros_gap_t, &gap, buffer, 16), 12);
    HG_CHECK_EQ_INT(buffer[4], 2);
    HG_CHECK_EQ_U64(
        macros_encode(hg_proc_macros_turned_t, &turned, buffer, 16), 8);
    HG_CHECK_EQ_INT(buffer[0], 2);
    HG_CHECK_EQ_INT(buffer[4], 1);
}

/* With a truncated buffer, nothing is read or written past its end. */
HG_TEST(macros_adjacent_numbers_stop_at_the_end_of_the_buffer)
{
    const hg_proc_op_t ops[2] = {HG_ENCODE, HG_DECODE};
    macros_plain_t plain = {1, -2, 3, -4, 5.5};
    unsigned char *buffer;
    hg_proc_t proc;
    size_t size;
    int i;

    hg_test_expect_log("needs");
    for (size = 0; size < 24; size++) {
        for (i = 0; i < 2; i++) {
            buffer = HG_CAST(unsigned char *, calloc(1, size + 1));
            HG_CHECK(buffer != NULL);
            buffer[size] = 0xa5;
            HG_CHECK_OK(hg_proc_create(buffer, size, ops[i], &proc));
            HG_CHECK_RET(hg_proc_macros_plain_t(proc, &plain), HG_OVERFLOW);
            HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
            HG_CHECK_EQ_INT(buffer[size], 0xa5);
            HG_CHECK_OK(hg_proc_free(proc));
            free(buffer);
        }
    }
    hg_test_expect_log("the proc is NULL");
    HG_CHECK_RET(hg_proc_macros_plain_t(HG_PROC_NULL, &plain), HG_INVALID_ARG);
    hg_test_expect_log("data is NULL");
    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_ENCODE, &proc));
    HG_CHECK_RET(hg_proc_macros_plain_t(proc, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_free(proc));
}
