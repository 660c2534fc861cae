/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stubs of MERCURY_GEN_RPC_STUB in the request model: each kind of function is
 * called. test_cb_stub.c does this for the callback model.
 */
#include "conform/rpc.h"
#include "conform/stub_timeout.h"

#include <limits.h>
#include <signal.h>

/* This process registers nothing by itself. */
static bool stub_only_calls;

/* A call that its function makes to this process itself, and that this process
 * executes while the function waits. */
MERCURY_GEN_RPC_STUB(int32_t, stub_nested, ((int32_t) (depth)), )

static na_addr_t stub_self;

int32_t stub_nested(int32_t depth)
{
    static hg_handle_t outer;
    hg_handle_t call = HG_Handler_current();
    int32_t ret = 0;

    HG_CHECK(call != HG_HANDLE_NULL && call != outer);
    outer = call;
    if (depth > 0)
        HG_CHECK_OK(stub_nested_call(stub_self, 0, depth - 1, &ret));
    HG_CHECK(HG_Handler_current() == call);
    return ret + 1;
}

/* A handler without a stub. */
static hg_return_t stub_plain(hg_handle_t handle)
{
    HG_CHECK(HG_Handler_current() == handle);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    HG_CHECK(HG_Handler_current() == handle);
    HG_CHECK_OK(HG_Handler_free(handle));
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    return HG_SUCCESS;
}

static void rpc_register(void)
{
    if (stub_only_calls)
        return;
    HG_CHECK(stubs_add_provide() == HG_Name_to_id("stubs_add"));
    HG_CHECK(stubs_divide_provide() != 0);
    HG_CHECK(stubs_nothing_provide() != 0);
    HG_CHECK(stubs_count_provide() != 0);
    HG_CHECK(stubs_set_provide() != 0);
    HG_CHECK(stubs_get_provide() != 0);
    HG_CHECK(stubs_say_provide() != 0);
    HG_CHECK(stubs_color_provide() != 0);
    HG_CHECK(stubs_move_provide() != 0);
    HG_CHECK(stubs_many_provide() != 0);
    HG_CHECK(stubs_store_provide() != 0);
    HG_CHECK(stubs_fill_provide() != 0);
    HG_CHECK(stubs_copy_provide() != 0);
    HG_CHECK(stubs_delay_provide() != 0);
    HG_CHECK(stubs_current_provide() != 0);
    HG_CHECK(stubs_plain_provide() != 0);
    HG_CHECK(stub_nested_provide() != 0);
}

HG_TEST(stub_carries_values_both_ways)
{
    struct rpc_end end;
    int32_t ret = 0;
    int32_t rest = 0;

    rpc_open(&end);
    HG_CHECK_OK(stubs_add_call(end.target, RPC_TIMEOUT, 40, 2, &ret));
    HG_CHECK_EQ_INT(ret, 42);
    HG_CHECK(stubs_divide_register() != 0); /* and still provided */
    HG_CHECK_OK(stubs_divide_call(end.target, 0, -17, 5, &rest, &ret));
    HG_CHECK_EQ_INT(ret, -3);
    HG_CHECK_EQ_INT(rest, -2);
    rpc_close(&end);
}

HG_TEST(stub_may_have_no_inputs_or_outputs)
{
    struct rpc_end end;
    uint32_t count = 0;

    rpc_open(&end);
    HG_CHECK_OK(stubs_set_call(end.target, 0, 5));
    HG_CHECK_OK(stubs_nothing_call(end.target, 0));
    HG_CHECK_OK(stubs_count_call(end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 6);
    HG_CHECK_OK(stubs_nothing_call(end.target, 0));
    HG_CHECK_OK(stubs_get_call(end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 7);
    rpc_close(&end);
}

/* A stub interoperates with handwritten code on the other side, both ways: they
 * encode the same bytes. An empty struct encodes to nothing. */
HG_TEST(stub_interoperates_with_handwritten_code)
{
    struct rpc_end end;
    stubs_divide_in_t in = {17, 5};
    stubs_divide_out_t out = {0, 0};
    hg_id_t id;

    rpc_open(&end);
    id = MERCURY_REGISTER(
        "stubs_divide", stubs_divide_in_t, stubs_divide_out_t, NULL);
    HG_CHECK_EQ_U64(id, HG_Name_to_id("stubs_divide"));
    HG_CHECK_OK(rpc_call(&end, id, &in, &out));
    HG_CHECK_EQ_INT(out.ret, 3);
    HG_CHECK_EQ_INT(out.rest, 2);
    id = MERCURY_REGISTER("stubs_nothing", void, void, stubs_nothing_handler);
    if (end.peer != NULL)
        HG_CHECK_OK(rpc_call(&end, id, NULL, NULL));
    rpc_close(&end);
}

HG_TEST(stub_carries_strings)
{
    struct rpc_end end;
    hg_string_t ret = NULL;
    hg_const_string_t same = NULL;
    hg_const_string_t constant = NULL;
    char unset[] = "unset";
    hg_string_t none = unset;

    rpc_open(&end);
    HG_CHECK_OK(
        stubs_say_call(end.target, 0, "world", &same, &constant, &none, &ret));
    HG_CHECK_EQ_STR(ret, "hello, world");
    HG_CHECK_EQ_STR(same, "world");
    HG_CHECK_EQ_STR(constant, "constant");
    HG_CHECK(none == NULL);
    hg_proc_release(HG_PROC_NULL, ret);
    hg_proc_release(HG_PROC_NULL, same);
    hg_proc_release(HG_PROC_NULL, constant);
    /* Outputs that the caller ignores are freed. */
    HG_CHECK_OK(
        stubs_say_call(end.target, 0, "nobody", NULL, NULL, NULL, NULL));
    rpc_close(&end);
}

HG_TEST(stub_returns_literals)
{
    struct rpc_end end;
    hg_const_string_t ret = NULL;
    stubs_label_t label = {NULL, 0};
    uint32_t id;

    rpc_open(&end);
    for (id = 0; id < 3; id++) {
        HG_CHECK_OK(stubs_color_call(end.target, 0, id, &label, &ret));
        HG_CHECK_EQ_STR(ret, id == 0 ? "red" : "green");
        HG_CHECK_EQ_U64(label.id, id);
        HG_CHECK((label.text != NULL) == (id > 0));
        if (id > 0)
            HG_CHECK_EQ_STR(label.text, "label");
        hg_proc_release(HG_PROC_NULL, ret);
        hg_proc_release(HG_PROC_NULL, label.text);
    }
    HG_CHECK_OK(stubs_color_call(end.target, 0, 1, NULL, NULL));
    rpc_close(&end);
}

HG_TEST(stub_carries_structs)
{
    struct rpc_end end;
    stubs_named_t from = {(char *) (uintptr_t) "here", {1, 2}};
    stubs_named_t to = {NULL, {0, 0}};
    stubs_point_t by = {10, 20};
    stubs_point_t ret = {0, 0};

    rpc_open(&end);
    HG_CHECK_OK(stubs_move_call(end.target, 0, from, by, &to, &ret));
    HG_CHECK_EQ_STR(to.name, "here");
    HG_CHECK_EQ_INT(to.at.x, 11);
    HG_CHECK_EQ_INT(to.at.y, 22);
    HG_CHECK_EQ_INT(ret.y, 2);
    hg_proc_release(HG_PROC_NULL, to.name);
    rpc_close(&end);
}

HG_TEST(stub_carries_many_arguments)
{
    struct rpc_end end;
    int8_t a = 0;
    uint8_t b = 0;
    int16_t c = 0;
    uint16_t d = 0;
    int32_t e = 0;
    uint32_t f = 0;
    int64_t g = 0;
    uint64_t h = 0;
    double ret = 0;

    rpc_open(&end);
    HG_CHECK_OK(stubs_many_call(end.target, 0, -1, 2, -3, 4, -5, 6, -7, 8, 9.5,
        &a, &b, &c, &d, &e, &f, &g, &h, &ret));
    HG_CHECK(a == -1 && b == 2 && c == -3 && d == 4 && e == -5 && f == 6 &&
        g == -7 && h == 8 && ret > 9.4 && ret < 9.6);
    rpc_close(&end);
}

HG_TEST(stub_moves_bulk_memory)
{
    static const size_t sizes[] = {1, 4096, 3 << 20};
    struct rpc_end end;
    size_t i;

    rpc_open(&end);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *data = stubs_new_pattern(sizes[i], i);
        unsigned char *copy = stubs_new_pattern(sizes[i], 99);
        hg_bulk_t bulk = HG_BULK_NULL;
        uint64_t sum = 0;
        int32_t ret = -1;

        HG_CHECK_OK(stubs_store_call(
            end.target, 0, sizes[i] / 3, data, sizes[i], &sum, &ret));
        HG_CHECK_OK(ret);
        HG_CHECK_EQ_U64(
            sum, stubs_sum(data + sizes[i] / 3, sizes[i] - sizes[i] / 3));
        HG_CHECK_OK(HG_Bulk_handle_create(
            1, (void **) &data, &sizes[i], HG_BULK_READ_ONLY, &bulk));
        HG_CHECK_OK(stubs_copy_call(end.target, 0, bulk, copy, sizes[i], &ret));
        HG_CHECK_OK(ret);
        HG_CHECK_EQ_MEM(copy, data, sizes[i]);
        HG_CHECK_OK(HG_Bulk_handle_free(bulk));
        HG_CHECK_OK(stubs_fill_call(end.target, 0, copy, sizes[i], 7, &ret));
        HG_CHECK_OK(ret);
        memset(data, 7, sizes[i]);
        HG_CHECK_EQ_MEM(copy, data, sizes[i]);
        free(data);
        free(copy);
    }
    rpc_close(&end);
}

/* No memory is given; then memory without the needed permission. */
HG_TEST(stub_memory_stays_within_its_bounds)
{
    struct rpc_end end;
    unsigned char data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    hg_bulk_t bulk = HG_BULK_NULL;
    void *ptr = data;
    size_t size = sizeof(data);
    uint64_t sum = 1;
    int32_t ret = -1;

    hg_test_expect_log("the stub: a memory argument is NULL");
    hg_test_allow_log("");
    rpc_open(&end);
    HG_CHECK_OK(stubs_store_call(end.target, 0, 0, NULL, 0, &sum, &ret));
    HG_CHECK_OK(ret);
    HG_CHECK_EQ_U64(sum, 0);
    HG_CHECK_RET(stubs_store_call(end.target, 0, 0, NULL, 8, &sum, &ret),
        HG_INVALID_ARG);
    HG_CHECK_OK(stubs_copy_call(end.target, 0, HG_BULK_NULL, NULL, 0, &ret));
    HG_CHECK_OK(ret);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(stubs_copy_call(end.target, 0, bulk, NULL, 0, &ret));
    HG_CHECK_RET(ret, HG_INVALID_ARG);
    HG_CHECK_OK(stubs_copy_call(end.target, 0, bulk, data, 4, &ret));
    HG_CHECK_RET(ret, HG_OVERFLOW);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_WRITE_ONLY, &bulk));
    HG_CHECK_OK(stubs_copy_call(end.target, 0, bulk, data, 8, &ret));
    HG_CHECK_RET(ret, HG_PERMISSION);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_RET(
        HG_Bulk_pull(HG_HANDLE_NULL, HG_BULK_NULL, 0, data, 8), HG_INVALID_ARG);
    rpc_close(&end);
}

HG_TEST(stub_can_be_asynchronous)
{
    struct rpc_end end;
    stubs_add_call_t adds[32];
    stubs_say_call_t say;
    stubs_store_call_t store;
    unsigned char data[1000] = {5};
    int i;

    rpc_open(&end);
    for (i = 0; i < 32; i++)
        HG_CHECK_OK(stubs_add_start(&adds[i], end.target, 0, i, 1));
    HG_CHECK_OK(stubs_say_start(&say, end.target, 0, "you"));
    HG_CHECK_OK(stubs_store_start(&store, end.target, 0, 0, data, 1000));
    HG_CHECK_OK(rpc_wait(store.request));
    HG_CHECK_EQ_U64(store.out.sum, stubs_sum(data, sizeof(data)));
    HG_CHECK_OK(rpc_wait(say.request));
    HG_CHECK_EQ_STR(say.out.ret, "hello, you");
    HG_CHECK_OK(stubs_say_end(&say));
    HG_CHECK_OK(stubs_say_end(&say)); /* it is empty */
    HG_CHECK_OK(stubs_store_end(&store));
    for (i = 0; i < 31; i++) {
        HG_CHECK_OK(rpc_wait(adds[i].request));
        HG_CHECK_EQ_INT(adds[i].out.ret, i + 1);
        HG_CHECK_OK(stubs_add_end(&adds[i]));
    }
    HG_CHECK_OK(stubs_add_end(&adds[31])); /* canceled */
    rpc_close(&end);
}

/* The call carries its deadline: without it the function would not return. Its
 * response may still be in time. */
HG_TEST(stub_times_out)
{
    struct rpc_end end;
    unsigned char data[8] = {0};
    int32_t ret = 77;
    hg_return_t code;

    rpc_open(&end);
    code = stubs_delay_call(end.target, 20, data, sizeof(data), &ret);
    HG_CHECK(code == HG_TIMEOUT ? ret == 77 : code == HG_SUCCESS);
    HG_CHECK_OK(stubs_add_call(end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_INT(ret, 3);
    rpc_close(&end);
}

HG_TEST(stub_knows_its_call)
{
    struct rpc_end end;
    hg_string_t id = NULL;
    uint32_t left = 0;
    int32_t ret = 0;

    rpc_open(&end);
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    HG_CHECK_OK(stubs_current_call(
        end.target, RPC_TIMEOUT, STUBS_TELL, &id, &left, &ret));
    HG_CHECK_EQ_INT(ret, 1);
    HG_CHECK(left > 0 && left <= RPC_TIMEOUT);
    HG_CHECK((id[0] != '\0') == (strcmp(hg_test_transport(), "sm") == 0));
    hg_proc_release(HG_PROC_NULL, id);
    HG_CHECK_OK(
        stubs_current_call(end.target, 0, STUBS_TELL, NULL, &left, NULL));
    HG_CHECK_EQ_U64(left, HG_NO_DEADLINE);
    ret = (int32_t) stubs_current_call(
        end.target, 20, STUBS_WAIT, NULL, NULL, NULL);
    HG_CHECK(ret == HG_TIMEOUT || ret == HG_SUCCESS);
    HG_CHECK(HG_Handler_current() == HG_HANDLE_NULL);
    rpc_close(&end);
}

/* The stub does not respond a second time: that would log an error. */
HG_TEST(stub_may_respond_with_an_error)
{
    struct rpc_end end;
    hg_string_t id = NULL;
    int32_t ret = 77;
    int i;

    rpc_open(&end);
    for (i = 0; i < 3; i++) {
        HG_CHECK_RET(
            stubs_current_call(end.target, 0, STUBS_REFUSE, &id, NULL, &ret),
            HG_PERMISSION);
        HG_CHECK(strstr(HG_Get_last_error_text(), "not for you") != NULL);
        HG_CHECK(id == NULL && ret == 77);
    }
    HG_CHECK_OK(stubs_add_call(end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_INT(ret, 3);
    rpc_close(&end);
}

HG_TEST(current_call_is_the_innermost)
{
    struct rpc_end end;
    hg_id_t id;
    int32_t ret = 0;

    rpc_open(&end);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &stub_self));
    HG_CHECK_OK(stub_nested_call(stub_self, 0, 3, &ret));
    HG_CHECK_EQ_INT(ret, 4);
    id = MERCURY_REGISTER("plain", void, void, stub_plain);
    if (end.peer == NULL)
        HG_CHECK_OK(rpc_call(&end, id, NULL, NULL));
    HG_CHECK_OK(NA_Addr_free(end.na_class, stub_self));
    rpc_close(&end);
}

/* int, size_t and bool, and the types that they are on the wire. */
HG_TEST(stub_carries_plain_types)
{
    struct rpc_end end;
    int a = 0;
    size_t b = 0;
    bool c = false;
    int32_t a_wire = 0;
    uint64_t b_wire = 0;
    hg_bool_t c_wire = HG_TRUE;

    stub_only_calls = hg_test_crosses_processes();
    rpc_open(&end);
    HG_CHECK(stubs_plain_register() != 0);
    HG_CHECK_OK(stubs_plain_call(
        end.target, 0, INT_MIN, SIZE_MAX - 1, true, &a, &b, &c));
    HG_CHECK(a == INT_MIN && b == SIZE_MAX - 1 && c);
    HG_CHECK(stubs_other_plain_register() != 0);
    HG_CHECK_OK(stubs_other_plain_call(
        end.target, 0, 7, UINT32_MAX, HG_FALSE, &a_wire, &b_wire, &c_wire));
    HG_CHECK(a_wire == 7 && b_wire == UINT32_MAX && c_wire == HG_FALSE);
    rpc_close(&end);
}

/* Two modules of a process register a name with other types. */
HG_TEST_WHERE(other_types_of_a_name_are_logged, hg_test_is_self)
{
    struct rpc_end end;

    hg_test_expect_log("'twice' is registered with the types void -> rpc_one_t,"
                       " and was with other types: rpc_one_t -> void");
    hg_test_expect_log("the types rpc_one_t -> rpc_one_t, and was with other "
                       "types: (int32_t, int32_t) -> (int32_t)");
    hg_test_expect_log("the types (int32_t) -> (int32_t), and was with other "
                       "types: void -> void");
    rpc_open(&end);
    HG_CHECK(MERCURY_REGISTER("twice", rpc_one_t, void, NULL) != 0);
    HG_CHECK(MERCURY_REGISTER("twice", void, rpc_one_t, NULL) != 0);
    HG_CHECK(MERCURY_REGISTER("stubs_add", rpc_one_t, rpc_one_t, rpc_inc) != 0);
    HG_CHECK(MERCURY_REGISTER("stub_nested", void, void, stub_plain) != 0);
    /* The handler stays. */
    HG_CHECK(stub_nested_register() != 0);
    rpc_close(&end);
}

static void stub_turn_layer(void *unused)
{
    (void) unused;
    (void) HG_Handler_process(1, HG_STATUS_IGNORE);
}

static bool stub_reaches_others(void)
{
    return !hg_test_is_self();
}

static unsigned stub_lines;

/* The lines of late_run's last transfer are not counted: it may end either way,
 * and the log omits some lines that repeat. */
static void stub_sink(
    int level, const char *subsys, const char *line, void *arg)
{
    (void) subsys;
    (void) arg;
    fprintf(stderr, "%s\n", line);
    HG_CHECK(level != HG_LOG_LEVEL_ERROR);
    if (level == HG_LOG_LEVEL_WARNING && late_bulk == HG_BULK_NULL &&
        strstr(line, "did not end in") != NULL) {
        bool pull = strstr(line, "HG_Bulk_pull") != NULL;

        HG_CHECK(
            strstr(line,
                pull ? " for \"stubs_store\" did not end in 50 ms"
                     : " for \"stubs_fill\" did not end in 40 ms") != NULL);
        stub_lines++;
    }
}

HG_TEST_WHERE(stub_bulk_transfer_times_out, stub_reaches_others)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;
    char address[NA_MAX_ADDR_LEN];
    unsigned timeouts;

    options.bulk_ms = LATE_OPTION_MS;
    rpc_start(&end, &options, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), end.target));
    HG_CHECK_OK(HG_Set_log_level("warning"));
    HG_Set_log_func(stub_sink, NULL);
    timeouts =
        late_run(rpc_open_class(NA_FALSE), address, stub_turn_layer, NULL);
    HG_CHECK_EQ_INT(stub_lines, timeouts);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    rpc_end(&end);
}

/* ---- A client that is stopped while its memory is moved ---- */

static na_addr_t stub_open_client(struct rpc_end *end, const char *address)
{
    na_addr_t target = NA_ADDR_NULL;

    memset(end, 0, sizeof(*end));
    end->na_class = rpc_open_class(NA_FALSE);
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &target));
    return target;
}

HG_TEST_ROLE(stopped)
{
    unsigned char *data = stubs_new_pattern(LATE_SIZE, 3);
    struct rpc_end end;
    uint64_t sum = 0;
    int32_t ret = 0;

    HG_CHECK_EQ_INT(argc, 1);
    end.target = stub_open_client(&end, argv[0]);
    (void) stubs_store_call(end.target, 0, 0, data, LATE_SIZE, &sum, &ret);
    free(data);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    rpc_end(&end);
}

HG_TEST_ROLE(other)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    end.target = stub_open_client(&end, argv[0]);
    HG_CHECK_OK(stubs_set_call(end.target, 0, 77));
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    rpc_end(&end);
}

static struct hg_test_peer *stub_stopped;
static struct hg_test_peer *stub_other;
static char stub_address[NA_MAX_ADDR_LEN];

/* Runs in the function, before it moves the memory. */
static void stub_stop_client(void)
{
    hg_test_freeze(stub_stopped);
    stub_other = hg_test_spawn("other", stub_address, (char *) NULL);
}

HG_TEST_WHERE(
    stub_client_that_is_stopped_ends_with_a_timeout, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;

    options.bulk_ms = 300;
    rpc_start(&end, &options, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(NA_Addr_to_string(
        end.na_class, stub_address, sizeof(stub_address), end.target));
    stubs_hook = stub_stop_client;
    stub_stopped = hg_test_spawn("stopped", stub_address, (char *) NULL);
    while (stubs_counter != 77) /* the watchdog ends it */
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
    HG_CHECK_EQ_INT(stubs_pulls, 1);
    late_judge(stubs_pulled, HG_TIMEOUT);
    HG_CHECK_EQ_INT(hg_test_wait(stub_other), 0);
    hg_test_signal(stub_stopped, SIGCONT);
    hg_test_stop(stub_stopped);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    rpc_end(&end);
}

/* The target has other types: it does not execute the call, and the error text
 * names both. */
HG_TEST_WHERE(stub_with_other_types_is_refused, hg_test_crosses_processes)
{
    struct rpc_end end;
    stubs_other_set_call_t call;
    uint32_t count = 77;

    stub_only_calls = true;
    hg_test_allow_log("has the types");
    rpc_open(&end);
    HG_CHECK(stubs_other_set_register() == HG_Name_to_id("stubs_set"));
    HG_CHECK_OK(stubs_other_set_start(&call, end.target, 0, 1.5f));
    HG_CHECK_RET(rpc_wait(call.request), HG_PROTOCOL_ERROR);
    HG_CHECK_EQ_STR(HG_Get_error_text(call.request), STUBS_OTHER_SET_TEXT);
    HG_CHECK_OK(stubs_other_set_end(&call));
    HG_CHECK_RET(stubs_other_set_call(end.target, 0, 1.5f), HG_PROTOCOL_ERROR);
    HG_CHECK(strstr(HG_Get_last_error_text(), STUBS_OTHER_SET_TEXT) != NULL);
    HG_CHECK(stubs_count_register() != 0);
    HG_CHECK_OK(stubs_count_call(end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 0);
    rpc_close(&end);
}

HG_TEST(stub_with_other_types_is_not_registered)
{
    struct rpc_end end;
    uint32_t count = 0;

    hg_test_expect_log("'stubs_set' with the types (float) -> () is");
    rpc_open(&end);
    HG_CHECK_EQ_U64(stubs_other_set_register(), 0);
    HG_CHECK_OK(stubs_set_call(end.target, 0, 5));
    HG_CHECK_OK(stubs_count_call(end.target, 0, &count));
    HG_CHECK_EQ_U64(count, 5);
    rpc_close(&end);
}

HG_TEST(stub_with_types_that_mean_the_same_is_served)
{
    unsigned char data[100] = {1, 2, 3};
    void *ptr = data;
    size_t size = sizeof(data);
    struct rpc_end end;
    hg_bulk_t bulk = HG_BULK_NULL;
    hg_const_string_t ret = NULL;
    hg_string_t same = NULL;
    char name[] = "you";
    uint64_t sum = 0;
    int32_t code = -1;

    stub_only_calls = hg_test_crosses_processes();
    rpc_open(&end);
    HG_CHECK(stubs_other_say_register() != 0);
    HG_CHECK_OK(
        stubs_other_say_call(end.target, 0, name, &same, NULL, NULL, &ret));
    HG_CHECK_EQ_STR(ret, "hello, you");
    HG_CHECK_EQ_STR(same, "you");
    hg_proc_release(HG_PROC_NULL, ret);
    hg_proc_release(HG_PROC_NULL, same);
    HG_CHECK(stubs_other_store_register() != 0);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(stubs_other_store_call(end.target, 0, 0, bulk, &sum, &code));
    HG_CHECK_OK(code);
    HG_CHECK_EQ_U64(sum, stubs_sum(data, sizeof(data)));
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    rpc_close(&end);
}

HG_TEST(stub_reports_errors)
{
    struct rpc_end end;
    stubs_add_call_t call;
    int32_t ret = 77;

    hg_test_allow_log("");
    rpc_open(&end);
    HG_CHECK_RET(stubs_absent_call(end.target, 0, &ret), HG_NOENTRY);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "\"stubs_absent\" cannot be called: it is not registered here: call "
        "stubs_absent_register or stubs_absent_provide first");
    HG_CHECK(stubs_absent_register() == HG_Name_to_id("stubs_absent"));
    HG_CHECK_RET(stubs_absent_call(end.target, 0, &ret), HG_NOENTRY);
    HG_CHECK(strstr(HG_Get_last_error_text(), "\"stubs_absent\" with "));
    HG_CHECK(strstr(HG_Get_last_error_text(), "regist"));
    HG_CHECK_OK(stubs_add_call(end.target, 0, 1, 2, &ret));
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "");
    ret = 77;
    HG_CHECK_RET(stubs_add_call(NA_ADDR_NULL, 0, 1, 2, &ret), HG_INVALID_ARG);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "\"stubs_add\" cannot be called: HG_Forward: the address is NULL");
    HG_CHECK_EQ_INT(ret, 77);
    HG_CHECK_RET(stubs_add_start(NULL, end.target, 0, 1, 2), HG_INVALID_ARG);
    HG_CHECK_RET(stubs_add_start(&call, NA_ADDR_NULL, 0, 1, 2), HG_INVALID_ARG);
    HG_CHECK_RET(stubs_add_end(NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(HG_Name_to_id(NULL), 0);
    rpc_close(&end);
    HG_CHECK_EQ_U64(stubs_add_register(), 0);
    HG_CHECK_RET(stubs_add_call(end.target, 0, 1, 2, &ret), HG_FAULT);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "\"stubs_add\" cannot be called: HG_Forward: HG_Init was not called, "
        "or HG_Finalize was");
    HG_CHECK_RET(HG_Wait(HG_REQUEST_NULL, 0, HG_STATUS_IGNORE), HG_FAULT);
    HG_CHECK_EQ_STR(HG_Get_last_error_text(),
        "HG_Wait: HG_Init was not called, or HG_Finalize was");
}

static int stub_try(void *arg)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    unsigned char data[1000] = {1};
    na_class_t *na_class;
    hg_string_t text = NULL;
    uint64_t sum = 0;
    na_addr_t self;
    hg_return_t ret;

    (void) arg;
    info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    if (na_class == NULL)
        return HG_NOMEM;
    ret = HG_Init(na_class);
    if (ret != HG_SUCCESS)
        goto finalize_class;
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    ret = HG_NOMEM;
    if (stubs_say_provide() != 0 && stubs_store_provide() != 0)
        ret = stubs_say_call(self, 0, "you", NULL, NULL, NULL, &text);
    hg_proc_release(HG_PROC_NULL, text);
    if (ret == HG_SUCCESS)
        ret = stubs_store_call(self, 0, 0, data, sizeof(data), &sum, NULL);
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(HG_Finalize());
finalize_class:
    HG_CHECK_OK(NA_Finalize(na_class));
    return ret;
}

HG_TEST_WHERE(stub_survives_allocation_failures, hg_test_is_self)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(stub_try, NULL) > 20);
}
