/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that MERCURY_GEN_RPC_STUB generates, in the callback model:
 * each kind is defined at the target and called here. test_rpc_stub.c does this
 * for the request model.
 */
#include "conform/cb.h"
#include "conform/stub_timeout.h"

static unsigned stub_nest_ms; /* wait time of the last nested call */

/* Calls itself that often, each call nested in the one before. */
static hg_return_t stub_nest(hg_handle_t call)
{
    const struct hg_info *info = HG_Get_info(call);
    hg_return_t ret = HG_SUCCESS;
    hg_handle_t next;
    cb_one_t value;

    HG_CHECK(HG_Handler_current() == call);
    HG_CHECK_OK(HG_Get_input(call, &value));
    HG_CHECK_OK(HG_Free_input(call, &value));
    if (--value.value >= 0) {
        HG_CHECK_OK(HG_Create(info->context, info->addr, info->id, &next));
        HG_CHECK_OK(HG_Set_deadline(next, value.value == 0 ? stub_nest_ms : 0));
        ret = HG_Forward_wait(next, &value);
        HG_CHECK_OK(HG_Destroy(next));
    }
    /* The last one answers its caller, which has timed out meanwhile. */
    value.value = (int32_t) ret;
    HG_CHECK(HG_Handler_current() == call);
    HG_CHECK_OK(HG_Respond(call, NULL, NULL, &value));
    HG_CHECK_OK(HG_Destroy(call));
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    return HG_SUCCESS;
}

static hg_id_t stub_nest_id;

/* This process registers nothing by itself. */
static bool stub_only_calls;

static void cb_register(hg_class_t *hg_class)
{
    if (stub_only_calls)
        return;
    stub_nest_id =
        MERCURY_REGISTER(hg_class, "nest", cb_one_t, cb_one_t, stub_nest);
    HG_CHECK(stubs_add_provide(hg_class) == HG_Name_to_id("stubs_add"));
    HG_CHECK(stubs_divide_provide(hg_class) != 0);
    HG_CHECK(stubs_nothing_provide(hg_class) != 0);
    HG_CHECK(stubs_count_provide(hg_class) != 0);
    HG_CHECK(stubs_set_provide(hg_class) != 0);
    HG_CHECK(stubs_get_provide(hg_class) != 0);
    HG_CHECK(stubs_say_provide(hg_class) != 0);
    HG_CHECK(stubs_color_provide(hg_class) != 0);
    HG_CHECK(stubs_move_provide(hg_class) != 0);
    HG_CHECK(stubs_many_provide(hg_class) != 0);
    HG_CHECK(stubs_store_provide(hg_class) != 0);
    HG_CHECK(stubs_fill_provide(hg_class) != 0);
    HG_CHECK(stubs_copy_provide(hg_class) != 0);
    HG_CHECK(stubs_delay_provide(hg_class) != 0);
    HG_CHECK(stubs_current_provide(hg_class) != 0);
}

HG_TEST(stub_carries_values_both_ways)
{
    struct cb_end end;
    int32_t ret = 0;
    int32_t rest = 0;

    cb_open(&end);
    HG_CHECK_OK(
        stubs_add_call(end.context, end.target, CB_TIMEOUT, 40, 2, &ret));
    HG_CHECK_EQ_INT(ret, 42);
    HG_CHECK(stubs_divide_register(end.hg_class) != 0); /* and still provided */
    HG_CHECK_OK(
        stubs_divide_call(end.context, end.target, 0, -17, 5, &rest, &ret));
    HG_CHECK_EQ_INT(ret, -3);
    HG_CHECK_EQ_INT(rest, -2);
    cb_close(&end);
}

HG_TEST(stub_may_have_no_inputs_or_outputs)
{
    struct cb_end end;
    uint32_t count = 0;

    cb_open(&end);
    HG_CHECK_OK(stubs_set_call(end.context, end.target, 0, 5));
    HG_CHECK_OK(stubs_nothing_call(end.context, end.target, 0));
    HG_CHECK_OK(stubs_count_call(end.context, end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 6);
    HG_CHECK_OK(stubs_nothing_call(end.context, end.target, 0));
    HG_CHECK_OK(stubs_get_call(end.context, end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 7);
    cb_close(&end);
}

/* A stub interoperates with handwritten code on the other side, both ways: they
 * encode the same bytes. An empty struct encodes to nothing. */
HG_TEST(stub_interoperates_with_handwritten_code)
{
    struct cb_end end;
    stubs_divide_in_t in = {17, 5};
    stubs_divide_out_t out = {0, 0};
    hg_id_t id;

    cb_open(&end);
    id = MERCURY_REGISTER(end.hg_class, "stubs_divide", stubs_divide_in_t,
        stubs_divide_out_t, end.peer == NULL ? stubs_divide_handler : NULL);
    HG_CHECK_EQ_U64(id, HG_Name_to_id("stubs_divide"));
    HG_CHECK_OK(cb_call(&end, id, &in, &out));
    HG_CHECK_EQ_INT(out.ret, 3);
    HG_CHECK_EQ_INT(out.rest, 2);
    id = MERCURY_REGISTER(
        end.hg_class, "stubs_nothing", void, void, stubs_nothing_handler);
    if (end.peer != NULL)
        HG_CHECK_OK(cb_call(&end, id, NULL, NULL));
    cb_close(&end);
}

HG_TEST(stub_carries_strings)
{
    struct cb_end end;
    hg_string_t ret = NULL;
    hg_const_string_t same = NULL;
    hg_const_string_t constant = NULL;
    char unset[] = "unset";
    hg_string_t none = unset;

    cb_open(&end);
    HG_CHECK_OK(stubs_say_call(
        end.context, end.target, 0, "world", &same, &constant, &none, &ret));
    HG_CHECK_EQ_STR(ret, "hello, world");
    HG_CHECK_EQ_STR(same, "world");
    HG_CHECK_EQ_STR(constant, "constant");
    HG_CHECK(none == NULL);
    hg_proc_release(HG_PROC_NULL, ret);
    hg_proc_release(HG_PROC_NULL, same);
    hg_proc_release(HG_PROC_NULL, constant);
    /* Outputs that the caller ignores are freed. */
    HG_CHECK_OK(stubs_say_call(
        end.context, end.target, 0, "nobody", NULL, NULL, NULL, NULL));
    cb_close(&end);
}

HG_TEST(stub_returns_literals)
{
    struct cb_end end;
    hg_const_string_t ret = NULL;
    stubs_label_t label = {NULL, 0};
    uint32_t id;

    cb_open(&end);
    for (id = 0; id < 3; id++) {
        HG_CHECK_OK(
            stubs_color_call(end.context, end.target, 0, id, &label, &ret));
        HG_CHECK_EQ_STR(ret, id == 0 ? "red" : "green");
        HG_CHECK_EQ_U64(label.id, id);
        HG_CHECK((label.text != NULL) == (id > 0));
        if (id > 0)
            HG_CHECK_EQ_STR(label.text, "label");
        hg_proc_release(HG_PROC_NULL, ret);
        hg_proc_release(HG_PROC_NULL, label.text);
    }
    HG_CHECK_OK(stubs_color_call(end.context, end.target, 0, 1, NULL, NULL));
    cb_close(&end);
}

HG_TEST(stub_carries_structs)
{
    struct cb_end end;
    stubs_named_t from = {(char *) (uintptr_t) "here", {1, 2}};
    stubs_named_t to = {NULL, {0, 0}};
    stubs_point_t by = {10, 20};
    stubs_point_t ret = {0, 0};

    cb_open(&end);
    HG_CHECK_OK(
        stubs_move_call(end.context, end.target, 0, from, by, &to, &ret));
    HG_CHECK_EQ_STR(to.name, "here");
    HG_CHECK_EQ_INT(to.at.x, 11);
    HG_CHECK_EQ_INT(to.at.y, 22);
    HG_CHECK_EQ_INT(ret.y, 2);
    hg_proc_release(HG_PROC_NULL, to.name);
    cb_close(&end);
}

HG_TEST(stub_carries_many_arguments)
{
    struct cb_end end;
    int8_t a = 0;
    uint8_t b = 0;
    int16_t c = 0;
    uint16_t d = 0;
    int32_t e = 0;
    uint32_t f = 0;
    int64_t g = 0;
    uint64_t h = 0;
    double ret = 0;

    cb_open(&end);
    HG_CHECK_OK(stubs_many_call(end.context, end.target, 0, -1, 2, -3, 4, -5, 6,
        -7, 8, 9.5, &a, &b, &c, &d, &e, &f, &g, &h, &ret));
    HG_CHECK(a == -1 && b == 2 && c == -3 && d == 4 && e == -5 && f == 6 &&
        g == -7 && h == 8 && ret > 9.4 && ret < 9.6);
    cb_close(&end);
}

HG_TEST(stub_moves_bulk_memory)
{
    static const size_t sizes[] = {1, 4096, 3 << 20};
    struct cb_end end;
    size_t i;

    cb_open(&end);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *data = stubs_new_pattern(sizes[i], i);
        unsigned char *copy = stubs_new_pattern(sizes[i], 99);
        hg_bulk_t bulk = HG_BULK_NULL;
        hg_size_t size = sizes[i];
        uint64_t sum = 0;
        int32_t ret = -1;

        HG_CHECK_OK(stubs_store_call(end.context, end.target, 0, sizes[i] / 3,
            data, sizes[i], &sum, &ret));
        HG_CHECK_OK(ret);
        HG_CHECK_EQ_U64(
            sum, stubs_sum(data + sizes[i] / 3, sizes[i] - sizes[i] / 3));
        HG_CHECK_OK(HG_Bulk_create(
            end.hg_class, 1, (void **) &data, &size, HG_BULK_READ_ONLY, &bulk));
        HG_CHECK_OK(stubs_copy_call(
            end.context, end.target, 0, bulk, copy, sizes[i], &ret));
        HG_CHECK_OK(ret);
        HG_CHECK_EQ_MEM(copy, data, sizes[i]);
        HG_CHECK_OK(HG_Bulk_free(bulk));
        HG_CHECK_OK(stubs_fill_call(
            end.context, end.target, 0, copy, sizes[i], 7, &ret));
        HG_CHECK_OK(ret);
        memset(data, 7, sizes[i]);
        HG_CHECK_EQ_MEM(copy, data, sizes[i]);
        free(data);
        free(copy);
    }
    cb_close(&end);
}

/* No memory is given; then memory without the needed permission. */
HG_TEST(stub_memory_stays_within_its_bounds)
{
    struct cb_end end;
    unsigned char data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    hg_bulk_t bulk = HG_BULK_NULL;
    void *ptr = data;
    hg_size_t size = sizeof(data);
    uint64_t sum = 1;
    int32_t ret = -1;

    hg_test_expect_log("the stub: a memory argument is NULL");
    hg_test_allow_log("");
    cb_open(&end);
    HG_CHECK_OK(
        stubs_store_call(end.context, end.target, 0, 0, NULL, 0, &sum, &ret));
    HG_CHECK_OK(ret);
    HG_CHECK_EQ_U64(sum, 0);
    HG_CHECK_RET(
        stubs_store_call(end.context, end.target, 0, 0, NULL, 8, &sum, &ret),
        HG_INVALID_ARG);
    HG_CHECK_OK(stubs_copy_call(
        end.context, end.target, 0, HG_BULK_NULL, NULL, 0, &ret));
    HG_CHECK_OK(ret);
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 1, &ptr, &size, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(
        stubs_copy_call(end.context, end.target, 0, bulk, NULL, 0, &ret));
    HG_CHECK_RET(ret, HG_INVALID_ARG);
    HG_CHECK_OK(
        stubs_copy_call(end.context, end.target, 0, bulk, data, 4, &ret));
    HG_CHECK_RET(ret, HG_OVERFLOW);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_OK(HG_Bulk_create(
        end.hg_class, 1, &ptr, &size, HG_BULK_WRITE_ONLY, &bulk));
    HG_CHECK_OK(
        stubs_copy_call(end.context, end.target, 0, bulk, data, 8, &ret));
    HG_CHECK_RET(ret, HG_PERMISSION);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_RET(
        HG_Bulk_pull(HG_HANDLE_NULL, HG_BULK_NULL, 0, data, 8), HG_INVALID_ARG);
    cb_close(&end);
}

static unsigned stub_ends;

static void stub_added(stubs_add_call_t *call, hg_return_t ret)
{
    HG_CHECK_OK(ret);
    HG_CHECK_EQ_INT(call->out.ret, *(const int *) call->arg + 1);
    HG_CHECK_OK(stubs_add_end(call));
    stub_ends++;
}

static void stub_sent(stubs_say_call_t *call, hg_return_t ret)
{
    HG_CHECK_OK(ret);
    HG_CHECK_EQ_STR(call->out.ret, "hello, you");
    stub_ends++;
}

static void stub_stored(stubs_store_call_t *call, hg_return_t ret)
{
    HG_CHECK_OK(ret);
    HG_CHECK_OK(call->out.ret);
    HG_CHECK_EQ_U64(call->out.sum, *(const uint64_t *) call->arg);
    HG_CHECK_OK(stubs_store_end(call));
    stub_ends++;
}

static void stub_turn_until(const struct cb_end *end, unsigned ends)
{
    while (stub_ends < ends) /* the watchdog ends it */
        (void) cb_turn(end->context, 20);
    HG_CHECK_EQ_U64(stub_ends, ends);
}

HG_TEST(stub_can_be_asynchronous)
{
    struct cb_end end;
    stubs_add_call_t adds[32];
    int numbers[32];
    stubs_say_call_t say;
    int i;

    hg_test_allow_log("is not over");
    cb_open(&end);
    for (i = 0; i < 32; i++) {
        numbers[i] = i;
        HG_CHECK_OK(stubs_add_start(&adds[i], end.context, end.target, 0, i, 1,
            stub_added, &numbers[i]));
    }
    HG_CHECK_OK(stubs_say_start(
        &say, end.context, end.target, 0, "you", stub_sent, NULL));
    HG_CHECK_RET(stubs_say_end(&say), HG_BUSY);
    stub_turn_until(&end, 33);
    HG_CHECK_OK(stubs_say_end(&say));
    HG_CHECK_OK(stubs_say_end(&say)); /* it is empty */
    cb_close(&end);
}

/* Functions that wait for memory, more of them than may be nested; the first
 * callbacks run while others wait. */
HG_TEST(stub_moves_bulk_memory_of_many_calls_at_once)
{
    enum { CALLS = 40 };
    const size_t size = 300000;
    struct cb_end end;
    stubs_store_call_t stores[CALLS];
    unsigned char *data[CALLS];
    uint64_t sums[CALLS];
    int i;

    cb_open(&end);
    for (i = 0; i < CALLS; i++) {
        data[i] = stubs_new_pattern(size, (uint64_t) i);
        sums[i] = stubs_sum(data[i], size);
        HG_CHECK_OK(stubs_store_start(&stores[i], end.context, end.target, 0, 0,
            data[i], size, stub_stored, &sums[i]));
    }
    stub_turn_until(&end, CALLS);
    for (i = 0; i < CALLS; i++)
        free(data[i]);
    cb_close(&end);
}

static void stub_canceled(stubs_add_call_t *call, hg_return_t ret)
{
    HG_CHECK(ret == HG_CANCELED || ret == HG_SUCCESS);
    HG_CHECK_OK(stubs_add_end(call));
    stub_ends++;
}

HG_TEST(stub_is_canceled_by_its_handle)
{
    struct cb_end end;
    stubs_add_call_t add;

    cb_open(&end);
    HG_CHECK_OK(stubs_add_start(
        &add, end.context, end.target, 0, 1, 2, stub_canceled, NULL));
    HG_CHECK_OK(HG_Cancel(add.handle));
    stub_turn_until(&end, 1);
    /* Without a callback. */
    HG_CHECK_OK(
        stubs_add_start(&add, end.context, end.target, 0, 1, 2, NULL, NULL));
    while (add.under_way)
        (void) cb_turn(end.context, 20);
    HG_CHECK_EQ_INT(add.out.ret, 3);
    HG_CHECK_OK(stubs_add_end(&add));
    cb_close(&end);
}

/* Several threads make progress in the context in which one waits. */
struct stub_worker {
    const struct cb_end *end;
    _Atomic unsigned stop;
};

static void *stub_work(void *arg)
{
    struct stub_worker *worker = (struct stub_worker *) arg;

    while (atomic_load(&worker->stop) == 0)
        (void) cb_turn(worker->end->context, 20);
    return NULL;
}

HG_TEST(stub_waits_while_others_trigger)
{
    struct cb_end end;
    struct stub_worker worker = {&end, 0};
    pthread_t threads[3];
    unsigned char *data = stubs_new_pattern(300000, 3);
    uint64_t want = stubs_sum(data, 300000);
    int i;

    cb_open(&end);
    for (i = 0; i < 3; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, stub_work, &worker) == 0);
    for (i = 0; i < 300; i++) {
        int32_t sum = 0;

        HG_CHECK_OK(stubs_add_call(end.context, end.target, 0, i, i, &sum));
        HG_CHECK_EQ_INT(sum, 2 * i);
    }
    for (i = 0; i < 20; i++) {
        uint64_t sum = 0;

        HG_CHECK_OK(stubs_store_call(
            end.context, end.target, 0, 0, data, 300000, &sum, NULL));
        HG_CHECK_EQ_U64(sum, want);
    }
    atomic_store(&worker.stop, 1);
    for (i = 0; i < 3; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    free(data);
    cb_close(&end);
}

/* The call carries its deadline: without it the function would not return. Its
 * response may still be in time. */
HG_TEST(stub_times_out)
{
    struct cb_end end;
    unsigned char data[8] = {0};
    int32_t ret = 77;
    hg_return_t code;

    cb_open(&end);
    code =
        stubs_delay_call(end.context, end.target, 20, data, sizeof(data), &ret);
    HG_CHECK(code == HG_TIMEOUT ? ret == 77 : code == HG_SUCCESS);
    HG_CHECK_OK(stubs_add_call(end.context, end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_INT(ret, 3);
    cb_close(&end);
}

HG_TEST(stub_knows_its_call)
{
    struct cb_end end;
    hg_string_t id = NULL;
    uint32_t left = 0;
    int32_t ret = 0;

    cb_open(&end);
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    HG_CHECK_OK(stubs_current_call(
        end.context, end.target, CB_TIMEOUT, STUBS_TELL, &id, &left, &ret));
    HG_CHECK_EQ_INT(ret, 1);
    HG_CHECK(left > 0 && left <= CB_TIMEOUT);
    HG_CHECK((id[0] != '\0') == (strcmp(hg_test_transport(), "sm") == 0));
    hg_proc_release(HG_PROC_NULL, id);
    HG_CHECK_OK(stubs_current_call(
        end.context, end.target, 0, STUBS_TELL, NULL, &left, NULL));
    HG_CHECK_EQ_U64(left, HG_NO_DEADLINE);
    ret = (int32_t) stubs_current_call(
        end.context, end.target, 20, STUBS_WAIT, NULL, NULL, NULL);
    HG_CHECK(ret == HG_TIMEOUT || ret == HG_SUCCESS);
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    cb_close(&end);
}

/* The stub does not respond a second time: that would log an error. */
HG_TEST(stub_may_respond_with_an_error)
{
    struct cb_end end;
    hg_string_t id = NULL;
    int32_t ret = 77;
    int i;

    cb_open(&end);
    for (i = 0; i < 3; i++) {
        HG_CHECK_RET(stubs_current_call(end.context, end.target, 0,
                         STUBS_REFUSE, &id, NULL, &ret),
            HG_PERMISSION);
        HG_CHECK(strstr(HG_Get_last_error_text(), "not for you") != NULL);
        HG_CHECK(id == NULL && ret == 77);
    }
    HG_CHECK_OK(stubs_add_call(end.context, end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_INT(ret, 3);
    cb_close(&end);
}

/* Two modules of a process register a name with other types. */
HG_TEST_WHERE(other_types_of_a_name_are_logged, hg_test_is_self)
{
    struct cb_end end;

    hg_test_expect_log("'nest' is registered with the types void -> cb_one_t,"
                       " and was with other types: cb_one_t -> cb_one_t");
    cb_open(&end);
    HG_CHECK(MERCURY_REGISTER(end.hg_class, "nest", void, cb_one_t, NULL) != 0);
    cb_close(&end);
}

static void stub_turn_target(void *arg)
{
    (void) cb_turn(((const struct cb_end *) arg)->context, 1);
}

static bool stub_reaches_others(void)
{
    return !hg_test_is_self();
}

HG_TEST_WHERE(stub_bulk_transfer_times_out, stub_reaches_others)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    char *scheme = hg_test_listen_string();
    struct cb_end end;
    char address[NA_MAX_ADDR_LEN];

    options.bulk_ms = LATE_OPTION_MS;
    cb_start(&end, 0);
    HG_CHECK_OK(HG_Class_set_options(end.hg_class, &options));
    end.context = HG_Context_create(end.hg_class);
    HG_CHECK(end.context != NULL);
    end.contexts[0] = end.context;
    end.count = 1;
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), end.target));
    strstr(scheme, "://")[3] = '\0';
    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    (void) late_run(NA_Initialize_opt(scheme, NA_FALSE, &na_info), address,
        stub_turn_target, &end);
    free(scheme);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    cb_end(&end);
}

/* Sixteen calls wait nested in each other; the seventeenth times out, and the
 * log says why. */
HG_TEST_WHERE(stub_waits_nested_too_deep_run_no_handlers, hg_test_is_self)
{
    struct cb_end end;
    cb_one_t value;
    int32_t deep;

    cb_open(&end);
    for (deep = 16; deep <= 17; deep++) {
        value.value = deep;
        stub_nest_ms = deep == 16 ? 0 : 50;
        if (deep == 17)
            hg_test_expect_log("this thread already has 16 nested handlers");
        HG_CHECK_OK(cb_call(&end, stub_nest_id, &value, &value));
        HG_CHECK_EQ_INT(value.value, HG_SUCCESS);
    }
    cb_close(&end);
}

static void stub_refused(stubs_other_set_call_t *call, hg_return_t ret)
{
    HG_CHECK_RET(ret, HG_PROTOCOL_ERROR);
    *(bool *) call->arg = true;
}

/* The target has other types: it does not execute the call, and the error text
 * names both. */
HG_TEST_WHERE(stub_with_other_types_is_refused, hg_test_crosses_processes)
{
    struct cb_end end;
    stubs_other_set_call_t call;
    bool ended = false;
    uint32_t count = 77;

    stub_only_calls = true;
    hg_test_allow_log("has the types");
    cb_open(&end);
    HG_CHECK(
        stubs_other_set_register(end.hg_class) == HG_Name_to_id("stubs_set"));
    HG_CHECK_OK(stubs_other_set_start(
        &call, end.context, end.target, 0, 1.5f, stub_refused, &ended));
    while (!ended) /* the watchdog ends it */
        (void) cb_turn(end.context, 10);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.handle), STUBS_OTHER_SET_TEXT);
    HG_CHECK_OK(stubs_other_set_end(&call));
    HG_CHECK_RET(stubs_other_set_call(end.context, end.target, 0, 1.5f),
        HG_PROTOCOL_ERROR);
    HG_CHECK(strstr(HG_Get_last_error_text(), STUBS_OTHER_SET_TEXT) != NULL);
    HG_CHECK(stubs_count_register(end.hg_class) != 0);
    HG_CHECK_OK(stubs_count_call(end.context, end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 0);
    cb_close(&end);
}

HG_TEST(stub_with_other_types_is_not_registered)
{
    struct cb_end end;
    uint32_t count = 0;

    hg_test_expect_log("'stubs_set' with the types (float) -> () is");
    cb_open(&end);
    HG_CHECK_EQ_U64(stubs_other_set_register(end.hg_class), 0);
    HG_CHECK_OK(stubs_set_call(end.context, end.target, 0, 5));
    HG_CHECK_OK(stubs_count_call(end.context, end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 5);
    cb_close(&end);
}

HG_TEST(stub_with_types_that_mean_the_same_is_served)
{
    struct cb_end end;
    hg_const_string_t ret = NULL;
    hg_string_t same = NULL;
    char name[] = "you";

    stub_only_calls = hg_test_crosses_processes();
    cb_open(&end);
    HG_CHECK(stubs_other_say_register(end.hg_class) != 0);
    HG_CHECK_OK(stubs_other_say_call(
        end.context, end.target, 0, name, &same, NULL, NULL, &ret));
    HG_CHECK_EQ_STR(ret, "hello, you");
    HG_CHECK_EQ_STR(same, "you");
    hg_proc_release(HG_PROC_NULL, ret);
    hg_proc_release(HG_PROC_NULL, same);
    cb_close(&end);
}

HG_TEST(stub_reports_errors)
{
    struct cb_end end;
    stubs_add_call_t call;
    int32_t ret = 77;

    hg_test_allow_log("");
    cb_open(&end);
    HG_CHECK_RET(
        stubs_absent_call(end.context, end.target, 0, &ret), HG_NOENTRY);
    HG_CHECK(strstr(HG_Get_last_error_text(), "\"stubs_absent\" cannot be"));
    HG_CHECK(strstr(HG_Get_last_error_text(), "call stubs_absent_register or"));
    HG_CHECK_OK(stubs_add_call(end.context, end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "");
    ret = 77;
    HG_CHECK(
        stubs_absent_register(end.hg_class) == HG_Name_to_id("stubs_absent"));
    HG_CHECK_RET(stubs_absent_call(end.context, end.target, 0, &ret),
        end.peer == NULL ? HG_INVALID_ARG : HG_NOENTRY);
    HG_CHECK(strstr(HG_Get_last_error_text(), "\"stubs_absent\" with "));
    HG_CHECK(strstr(HG_Get_last_error_text(), "regist"));
    HG_CHECK_RET(stubs_add_call(end.context, NA_ADDR_NULL, 0, 1, 2, &ret),
        HG_INVALID_ARG);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "\"stubs_add\" cannot be called: the stub: the address is NULL");
    HG_CHECK_EQ_INT(ret, 77);
    HG_CHECK_RET(
        stubs_add_start(NULL, end.context, end.target, 0, 1, 2, NULL, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        stubs_add_start(&call, end.context, HG_ADDR_NULL, 0, 1, 2, NULL, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(stubs_add_end(NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(HG_Name_to_id(NULL), 0);
    HG_CHECK_RET(
        stubs_add_call(NULL, end.target, 0, 1, 2, &ret), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(stubs_add_register(NULL), 0);
    HG_CHECK_RET(HG_Forward_wait(HG_HANDLE_NULL, NULL), HG_INVALID_ARG);
    cb_close(&end);
}

/* A class and a context, and calls of both kinds. */
static hg_return_t stub_try_calls(hg_class_t *hg_class, hg_context_t *context)
{
    unsigned char data[1000] = {1};
    hg_string_t text = NULL;
    uint64_t sum = 0;
    hg_addr_t self;
    hg_return_t ret;

    HG_CHECK_OK(HG_Addr_self(hg_class, &self));
    ret = HG_NOMEM;
    if (stubs_say_provide(hg_class) != 0 && stubs_store_provide(hg_class) != 0)
        ret = stubs_say_call(context, self, 0, "you", NULL, NULL, NULL, &text);
    hg_proc_release(HG_PROC_NULL, text);
    if (ret == HG_SUCCESS)
        ret = stubs_store_call(
            context, self, 0, 0, data, sizeof(data), &sum, NULL);
    HG_CHECK_OK(HG_Addr_free(hg_class, self));
    return ret;
}

static int stub_try(void *arg)
{
    hg_class_t *hg_class = HG_Init("self://", HG_TRUE);
    hg_context_t *context;
    hg_return_t ret = HG_NOMEM;

    (void) arg;
    if (hg_class == NULL)
        return HG_NOMEM;
    context = HG_Context_create(hg_class);
    if (context != NULL) {
        ret = stub_try_calls(hg_class, context);
        HG_CHECK_OK(HG_Context_destroy(context));
    }
    HG_CHECK_OK(HG_Finalize(hg_class));
    return (int) ret;
}

HG_TEST_WHERE(stub_survives_allocation_failures, hg_test_is_self)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(stub_try, NULL) > 20);
}
