/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules proc and proc_types with errors: truncated or changed bytes,
 * procs that fail, checksums, failing allocations, wrong arguments.
 */
#include "support/library.h"

#include "harness.h"
#include "proc_helpers.h"
#include "support/fuzz.h"
#include "support/rich.h"

/* ---- Wrong bytes ---- */

/* Every truncation of a valid message is refused, because bytes are missing,
 * and leaves nothing allocated, whatever the struct held before. */
HG_TEST(proc_every_truncation_is_refused)
{
    unsigned char *bytes;
    unsigned char *exact;
    hg_proc_t proc = NULL;
    size_t size;
    size_t given;
    rich_t got;

    hg_test_alloc_install();
    hg_test_allow_log("");
    bytes = proc_encode_rich(&size);
    for (given = 0; given < size; given++) {
        exact = (unsigned char *) malloc(given > 0 ? given : 1);
        HG_CHECK(exact != NULL);
        memcpy(exact, bytes, given);
        memset(&got, 0xa5, sizeof(got));
        HG_CHECK_RET(
            proc_decode(hg_proc_rich_t, exact, given, &got), HG_OVERFLOW);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);

        /* As an application does: zeroed before, freed after. */
        memset(&got, 0, sizeof(got));
        HG_CHECK_OK(hg_proc_create(exact, given, HG_DECODE, &proc));
        HG_CHECK_RET(hg_proc_rich_t(proc, &got), HG_OVERFLOW);
        HG_CHECK_OK(hg_proc_free(proc));
        HG_CHECK_OK(hg_proc_create(NULL, 0, HG_FREE, &proc));
        HG_CHECK_OK(hg_proc_rich_t(proc, &got));
        HG_CHECK_OK(hg_proc_free(proc));
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
        free(exact);
    }
    free(bytes);
}

/* Changed bytes with a correct checksum are refused, or give a value that
 * encodes to those bytes; never a leak, never an access past the end. */
HG_TEST_SECONDS(proc_mutated_bytes_are_safe, 60)
{
    uint64_t state = hg_test_seed();
    unsigned char *bytes;
    unsigned char *changed;
    unsigned refused = 0;
    unsigned accepted = 0;
    size_t size;
    unsigned i;

    hg_test_alloc_install();
    HG_CHECK_OK(HG_Set_log_level("none"));
    bytes = proc_encode_rich(&size);
    for (i = 0; i < 200000; i++) {
        size_t capacity = size + 16;
        size_t given;
        rich_t got;

        changed = (unsigned char *) malloc(capacity);
        HG_CHECK(changed != NULL);
        memcpy(changed, bytes, size);
        given = fuzz_mutate(changed, size, capacity, &state);
        changed = (unsigned char *) realloc(changed, given > 0 ? given : 1);
        HG_CHECK(changed != NULL);
        memset(&got, 0xa5, sizeof(got));
        if (proc_decode(hg_proc_rich_t, changed, given, &got) != HG_SUCCESS) {
            refused++;
        } else {
            size_t again;
            unsigned char *encoded = proc_encode(hg_proc_rich_t, &got, &again);

            accepted++;
            HG_CHECK_EQ_U64(again, given);
            HG_CHECK_EQ_MEM(encoded, changed, given);
            free(encoded);
            proc_free(hg_proc_rich_t, &got);
        }
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
        free(changed);
    }
    printf("%u refused, %u accepted\n", refused, accepted);
    HG_CHECK(refused > 1000 && accepted > 1000);
    free(bytes);
}

/* ---- Failures ---- */

/* One step of each type, which must return `want`; returns how many. */
static unsigned proc_try_all(hg_proc_t proc, hg_return_t want)
{
    static const hg_proc_cb_t steps[] = {hg_proc_int8_t, hg_proc_uint8_t,
        hg_proc_int16_t, hg_proc_uint16_t, hg_proc_int32_t, hg_proc_uint32_t,
        hg_proc_int64_t, hg_proc_uint64_t, hg_proc_float, hg_proc_double,
        hg_proc_hg_bool_t, hg_proc_hg_string_t, hg_proc_hg_const_string_t,
        hg_proc_hg_bulk_t};
    unsigned count = sizeof(steps) / sizeof(steps[0]);
    unsigned i;

    for (i = 0; i < count; i++) {
        unsigned char space[8] = {0};

        HG_CHECK_RET(steps[i](proc, space), want);
        HG_CHECK_EQ_MEM(space, "\0\0\0\0\0\0\0\0", 8);
    }
    HG_CHECK_RET(hg_proc_raw(proc, &count, sizeof(count)), want);
    HG_CHECK_RET(hg_proc_raw(proc, &count, 0), want);
    HG_CHECK_RET(hg_proc_ignore(proc, 1), want);
    HG_CHECK_RET(hg_proc_ignore(proc, 0), want);
    return count + 4;
}

/* The first failure holds for all later steps, and is logged once. */
HG_TEST(proc_failure_is_permanent)
{
    unsigned char bytes[64];
    struct hg_buf buf = {NULL, 0, false};
    struct hg_proc proc;
    size_t size = 0;
    hg_bool_t flag = 0;

    hg_test_expect_log("a bool is the byte 34");
    hg_test_expect_log("");
    memset(bytes, 0x22, sizeof(bytes));
    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_RET(hg_proc_hg_bool_t(&proc, &flag), HG_PROTOCOL_ERROR);
    proc_try_all(&proc, HG_PROTOCOL_ERROR);
    HG_CHECK_RET(hg_proc_uint8_t(&proc, NULL), HG_PROTOCOL_ERROR);
    HG_CHECK_RET(hg_proc_fail(&proc, HG_OTHER_ERROR), HG_PROTOCOL_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count("a bool is the byte 34"), 1);
    /* The failure stays although the proc function ignores it. */
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_SUCCESS), HG_PROTOCOL_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count("a bool is the byte 34"), 1);

    HG_CHECK_OK(hg_proc_init_encode(&proc, &buf, 0, 100));
    HG_CHECK_RET(hg_proc_ignore(&proc, 101), HG_MSGSIZE);
    proc_try_all(&proc, HG_MSGSIZE);
    HG_CHECK_RET(hg_proc_finish_encode(&proc, HG_SUCCESS, &size), HG_MSGSIZE);
    HG_CHECK_EQ_INT(hg_test_log_count(""), 1);
    hg_buf_fini(&buf);
}

/* The proc function's code precedes the codes of its steps; each is logged. */
HG_TEST(proc_finish_returns_the_cause)
{
    unsigned char bytes[8] = {0};
    struct hg_proc proc;
    uint32_t number;

    hg_test_expect_log("the proc left 4 of 8 bytes of arguments undecoded");
    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_OK(hg_proc_uint32_t(&proc, &number));
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_SUCCESS), HG_CHECKSUM_ERROR);

    hg_test_expect_log("decoding needs 9 bytes");
    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_RET(hg_proc_ignore(&proc, 9), HG_OVERFLOW);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_SUCCESS), HG_OVERFLOW);

    hg_test_expect_log("the proc function fails");
    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_PERMISSION), HG_PERMISSION);

    hg_proc_init_decode(&proc, bytes, sizeof(bytes));
    HG_CHECK_RET(hg_proc_ignore(&proc, 9), HG_OVERFLOW);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_OTHER_ERROR), HG_OTHER_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count("the proc function fails"), 1);
}

/* The encoded bytes do not depend on how the proc splits them into steps. */
static unsigned proc_split;

static hg_return_t proc_split_24(hg_proc_t proc, void *data)
{
    unsigned char *bytes = (unsigned char *) data;
    hg_return_t ret = HG_SUCCESS;
    size_t i;

    for (i = 0; i < 24 && ret == HG_SUCCESS; i += proc_split)
        ret = hg_proc_raw(proc, bytes + i, proc_split);
    return ret;
}

HG_TEST(proc_bytes_do_not_depend_on_the_size_of_steps)
{
    static const unsigned splits[] = {1, 2, 3, 4, 6, 8, 12, 24};
    struct hg_buf buf = {NULL, 0, false};
    unsigned char bytes[24];
    size_t size = 0;
    size_t i;

    for (i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char) (i * 37 + 5);
    for (i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        proc_split = splits[i];
        HG_CHECK_OK(proc_encode_up_to(24, proc_split_24, bytes, &buf, &size));
        HG_CHECK_EQ_U64(size, 24);
        HG_CHECK_EQ_MEM(buf.data + PROC_RESERVE, bytes, 24);
    }
    hg_buf_fini(&buf);
}

/* ---- Memory allocated by decoding ---- */

static unsigned proc_unmade;

static unsigned proc_held;

static void proc_settle(void *object, enum hg_proc_fate fate)
{
    HG_CHECK(object != NULL);
    proc_unmade += fate == HG_PROC_RELEASE;
    proc_held += fate == HG_PROC_HOLD;
}

static void proc_keep_100(struct hg_proc *proc)
{
    static char objects[100];
    unsigned i;

    hg_proc_init_decode(proc, "", 0);
    for (i = 0; i < 100; i++)
        HG_CHECK_OK(hg_proc_keep(proc, &objects[i], proc_settle));
    proc_unmade = 0;
    proc_held = 0;
}

HG_TEST(proc_failure_frees_what_was_decoded)
{
    struct hg_proc proc;

    hg_test_alloc_install();
    proc_keep_100(&proc);
    HG_CHECK_OK(hg_proc_finish_decode(&proc, HG_SUCCESS));
    HG_CHECK_EQ_INT(proc_unmade, 0);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);

    hg_test_expect_log("the proc function fails");
    proc_keep_100(&proc);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_PERMISSION), HG_PERMISSION);
    HG_CHECK_EQ_INT(proc_unmade, 100);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* With an owner, what was decoded is recorded; out of memory, it is freed. */
HG_TEST(proc_owner_records_what_was_decoded)
{
    hg_proc_records_t owner = NULL;
    struct hg_proc proc;
    char *first;

    hg_test_alloc_install();
    proc_keep_100(&proc);
    proc.owner = &owner;
    HG_CHECK_OK(hg_proc_finish_decode(&proc, HG_SUCCESS));
    HG_CHECK_EQ_INT(proc_held, 100);
    HG_CHECK_EQ_INT(proc_unmade, 0);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 1);
    first = (char *) atomic_load(&owner)->kept[0].object;
    hg_proc_record_forget(atomic_load(&owner), first + 99);
    hg_proc_record_forget(atomic_load(&owner), first + 100);

    proc_keep_100(&proc);
    proc.owner = &owner;
    hg_test_expect_log("no memory to record 100 decoded values");
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_SUCCESS), HG_NOMEM);
    HG_CHECK_EQ_INT(proc_unmade, 100);
    HG_CHECK_EQ_INT(proc_held, 0);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 1);

    proc_unmade = 0;
    hg_proc_record_settle(atomic_load(&owner), HG_PROC_RELEASE);
    HG_CHECK_EQ_INT(proc_unmade, 99);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    hg_proc_record_settle(NULL, HG_PROC_DROP);
}

static uint64_t proc_used_ms(void)
{
    struct timespec used;

    HG_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (uint64_t) used.tv_sec * 1000 + (uint64_t) used.tv_nsec / 1000000;
}

/* A client chooses how many values an input has. The time to free them one by
 * one, in their order or in reverse, grows with their number only. */
HG_TEST(proc_owner_forgets_many_values_fast)
{
    enum { COUNT = 200000 };
    static char objects[COUNT];
    hg_proc_records_t owner = NULL;
    struct hg_proc proc;
    uint64_t before = proc_used_ms();
    unsigned turn, i;

    for (turn = 0; turn < 2; turn++) {
        hg_proc_init_decode(&proc, "", 0);
        proc.owner = &owner;
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(hg_proc_keep(&proc, &objects[i], proc_settle));
        HG_CHECK_OK(hg_proc_finish_decode(&proc, HG_SUCCESS));
        for (i = 0; i < COUNT; i++)
            hg_proc_record_forget(
                atomic_load(&owner), &objects[turn == 0 ? i : COUNT - 1 - i]);
        proc_unmade = 0;
        hg_proc_record_settle(atomic_exchange(&owner, NULL), HG_PROC_RELEASE);
        HG_CHECK_EQ_INT(proc_unmade, 0);
    }
    HG_CHECK(proc_used_ms() - before < 1000); /* 10 ms; 12 s if quadratic */
}

/* A careful proc function, which frees what it allocated itself. */
static hg_return_t proc_careful(hg_proc_t proc, void *data)
{
    void **kept = (void **) data;
    void *first = hg_proc_alloc(proc, 10);
    void *second = hg_proc_alloc(proc, 20);
    void *third = hg_proc_alloc(proc, 30);

    HG_CHECK(first != NULL && second != NULL && third != NULL);
    HG_CHECK_EQ_MEM(first, "\0\0\0\0\0\0\0\0\0\0", 10);
    hg_proc_release(proc, NULL);
    hg_proc_release(proc, first);
    hg_proc_release(proc, third);
    *kept = second;
    return HG_SUCCESS;
}

HG_TEST(proc_released_memory_is_not_freed_again)
{
    struct hg_proc proc;
    void *kept = NULL;
    void *all[10];
    unsigned i;

    hg_test_alloc_install();
    HG_CHECK_OK(proc_decode(proc_careful, "", 0, &kept));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 1);
    hg_proc_release(NULL, kept);
    hg_test_expect_log("the proc function fails");
    hg_proc_init_decode(&proc, "", 0);
    HG_CHECK_OK(proc_careful(&proc, &kept));
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_PERMISSION), HG_PERMISSION);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    kept = hg_proc_alloc(NULL, 0);
    HG_CHECK(kept != NULL);
    hg_proc_release(NULL, kept);
    hg_proc_init_decode(&proc, "", 0); /* everything is released */
    for (i = 0; i < 10; i++)
        all[i] = hg_proc_alloc(&proc, 1);
    for (i = 0; i < 10; i++)
        hg_proc_release(&proc, all[i]);
    HG_CHECK_OK(hg_proc_finish_decode(&proc, HG_SUCCESS));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* If the allocation cannot be recorded for lack of memory, it is not made. */
HG_TEST(proc_decodes_everything_or_fails)
{
    struct hg_proc proc;
    unsigned i;

    hg_test_alloc_install();
    hg_test_expect_log("no memory for a buffer of 512 bytes");
    hg_proc_init_decode(&proc, "", 0);
    for (i = 0; i < HG_PROC_KEPT_FIRST; i++)
        HG_CHECK(hg_proc_alloc(&proc, 1) != NULL);
    hg_test_alloc_fail_at(2);
    HG_CHECK(hg_proc_alloc(&proc, 1) == NULL);
    HG_CHECK(hg_test_alloc_failed());
    HG_CHECK_EQ_INT(hg_test_alloc_live(), HG_PROC_KEPT_FIRST);
    HG_CHECK_RET(hg_proc_finish_decode(&proc, HG_SUCCESS), HG_NOMEM);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* No memory is allocated for a count alone. */
HG_TEST(proc_claimed_counts_allocate_nothing)
{
    static const char claim[] = "\xff\xff\xff\xff"
                                "\0\0\0\0\0";
    rich_names_t names;

    hg_test_alloc_install();
    hg_test_alloc_fail_at(1);
    hg_test_expect_log("the proc function fails");
    HG_CHECK_RET(
        proc_decode(hg_proc_rich_names_t, claim, 9, &names), HG_OVERFLOW);
    HG_CHECK(!hg_test_alloc_failed());
}

/* ---- Out of memory ---- */

static int proc_oom_round(void *arg)
{
    struct hg_buf buf = {NULL, 0, false};
    rich_name_t items[3];
    rich_name_t *many = NULL;
    rich_t rich = rich_example(items);
    hg_proc_t proc = NULL;
    size_t size = 0;
    hg_return_t ret;
    rich_t got;
    int i;

    (void) arg;
    many = (rich_name_t *) calloc(40, sizeof(*many));
    HG_CHECK(many != NULL);
    for (i = 0; i < 40; i++)
        many[i].text = items[i % 2].text;
    rich.names.items = many;
    rich.names.count = 40;
    ret = proc_encode_up_to(1 << 20, hg_proc_rich_t, &rich, &buf, &size);
    if (ret != HG_SUCCESS)
        goto free_buf;
    memset(&got, 0xa5, sizeof(got));
    ret = proc_decode(hg_proc_rich_t, buf.data + PROC_RESERVE, size, &got);
    if (ret != HG_SUCCESS)
        goto free_buf;
    proc_free(hg_proc_rich_t, &got);

    /* As an application does. */
    ret = hg_proc_create(buf.data + PROC_RESERVE, size, HG_DECODE, &proc);
    if (ret != HG_SUCCESS)
        goto free_buf;
    memset(&got, 0, sizeof(got));
    ret = hg_proc_rich_t(proc, &got);
    HG_CHECK_OK(hg_proc_free(proc));
    proc_free(hg_proc_rich_t, &got);
free_buf:
    HG_CHECK(ret == HG_SUCCESS || ret == HG_NOMEM);
    free(many);
    hg_buf_fini(&buf);
    return ret;
}

HG_TEST(proc_survives_every_failing_allocation)
{
    hg_test_alloc_install();
    /* 43 strings and arrays twice, the records of them, the buffer. */
    HG_CHECK(hg_test_oom_loop(proc_oom_round, NULL) > 90);
}

/* ---- Wrong arguments ---- */

HG_TEST(proc_null_data_is_refused)
{
    static const hg_proc_op_t ops[] = {HG_ENCODE, HG_DECODE};
    static const hg_proc_cb_t steps[] = {hg_proc_int8_t, hg_proc_uint8_t,
        hg_proc_int16_t, hg_proc_uint16_t, hg_proc_int32_t, hg_proc_uint32_t,
        hg_proc_int64_t, hg_proc_uint64_t, hg_proc_float, hg_proc_double,
        hg_proc_hg_bool_t, hg_proc_hg_string_t, hg_proc_hg_const_string_t,
        hg_proc_hg_bulk_t, hg_proc_rich_t};
    unsigned char buffer[64] = {0};
    hg_proc_t proc = NULL;
    unsigned lines = 0;
    size_t i;
    size_t j;

    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("a proc's data is NULL");
    for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++, lines++) {
            HG_CHECK_OK(hg_proc_create(buffer, sizeof(buffer), ops[i], &proc));
            HG_CHECK_RET(steps[j](proc, NULL), HG_INVALID_ARG);
            HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
            HG_CHECK_OK(hg_proc_free(proc));
        }
        HG_CHECK_OK(hg_proc_create(buffer, sizeof(buffer), ops[i], &proc));
        HG_CHECK_RET(hg_proc_raw(proc, NULL, 1), HG_INVALID_ARG);
        HG_CHECK_OK(hg_proc_free(proc));
        lines++;
    }
    HG_CHECK_EQ_INT(hg_test_log_count("a proc's data is NULL"), lines);
}

/* An error while freeing does not keep the rest from being freed. */
HG_TEST(proc_free_continues_after_a_failure)
{
    struct hg_proc proc;
    hg_string_t text = NULL;

    hg_test_alloc_install();
    hg_test_expect_log("a proc's data is NULL");
    text = (hg_string_t) hg_proc_alloc(NULL, 4);
    hg_proc_init_free(&proc);
    HG_CHECK_RET(hg_proc_uint8_t(&proc, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_hg_string_t(&proc, &text));
    HG_CHECK(text == NULL);
    HG_CHECK_OK(hg_proc_uint8_t(&proc, &text));
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST(proc_null_proc_is_refused)
{
    unsigned lines;

    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("the proc is NULL");
    lines = proc_try_all(NULL, HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_free(NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(hg_proc_get_op(NULL), HG_ENCODE);
    HG_CHECK_EQ_U64(hg_proc_get_size_used(NULL), 0);
    HG_CHECK_EQ_U64(hg_proc_get_size_left(NULL), 0);
    HG_CHECK_EQ_INT(hg_test_log_count("the proc is NULL"), lines + 4);
}

HG_TEST(proc_create_refuses_invalid_arguments)
{
    unsigned char buffer[4];
    hg_proc_t proc = NULL;

    hg_test_expect_log("hg_proc_create: an argument is NULL");
    HG_CHECK_RET(hg_proc_create(buffer, 4, HG_ENCODE, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_create(NULL, 4, HG_ENCODE, &proc), HG_INVALID_ARG);
    HG_CHECK_RET(hg_proc_create(NULL, 4, HG_DECODE, &proc), HG_INVALID_ARG);
    HG_CHECK_RET(
        hg_proc_create(buffer, 4, (hg_proc_op_t) 3, &proc), HG_INVALID_ARG);
    HG_CHECK(proc == NULL);
    HG_CHECK_EQ_INT(
        hg_test_log_count("hg_proc_create: an argument is NULL"), 4);
    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_DECODE, &proc));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_OK(hg_proc_create(NULL, 4, HG_FREE, &proc));
    HG_CHECK_OK(hg_proc_free(proc));
}
