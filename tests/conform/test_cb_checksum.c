/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checksum_level: classes of every level call each other and the request model,
 * which uses RPC_PAYLOAD. The receiver's level decides about a proc that
 * decodes only the first part of its arguments. On every transport.
 */
#include "cb.h"

MERCURY_GEN_PROC(sum_one_t, ((uint32_t) (front)))
MERCURY_GEN_PROC(sum_two_t, ((uint32_t) (front))((uint64_t) (rest)))

static const hg_checksum_level_t sum_levels[] = {
    HG_CHECKSUM_NONE, HG_CHECKSUM_RPC_HEADERS, HG_CHECKSUM_RPC_PAYLOAD};

enum { SUM_LEVELS = 3 };

static size_t sum_extra; /* bytes after the first part */

/* The first part, and as many more bytes as the case wants. */
static hg_return_t sum_all_proc(hg_proc_t proc, void *data)
{
    static unsigned char bytes[200000];
    hg_return_t ret = hg_proc_sum_one_t(proc, data);

    HG_CHECK(sum_extra <= sizeof(bytes));
    return ret != HG_SUCCESS ? ret : hg_proc_raw(proc, bytes, sum_extra);
}

static hg_id_t sum_in_id, sum_out_id, sum_two_id;
static hg_return_t sum_decoded; /* what HG_Get_input returned */

/* Decodes the first part of its input. */
static hg_return_t sum_in(hg_handle_t handle)
{
    sum_one_t in = {0};

    sum_decoded = HG_Get_input(handle, &in);
    if (sum_decoded == HG_SUCCESS) {
        HG_CHECK_EQ_INT(in.front, 7);
        HG_CHECK_OK(HG_Free_input(handle, &in));
    }
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* Responds with more than its caller decodes. */
static hg_return_t sum_out(hg_handle_t handle)
{
    sum_one_t out = {8};

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static hg_return_t sum_two(hg_handle_t handle)
{
    sum_two_t two = {0, 0};

    sum_decoded = HG_Get_input(handle, &two);
    if (sum_decoded == HG_SUCCESS)
        HG_CHECK_OK(HG_Free_input(handle, &two));
    two.rest++;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &two));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    (void) hg_class;
}

/* If the target is the process itself, both sides of a call share one
 * registration, so the operation chooses what a side decodes. */
static hg_return_t sum_in_proc(hg_proc_t proc, void *data)
{
    return hg_proc_get_op(proc) == HG_ENCODE ? sum_all_proc(proc, data)
                                             : hg_proc_sum_one_t(proc, data);
}

static void sum_register(hg_class_t *hg_class)
{
    sum_in_id = HG_Register_name(hg_class, "sum in", sum_in_proc, NULL, sum_in);
    sum_out_id =
        HG_Register_name(hg_class, "sum out", NULL, sum_in_proc, sum_out);
    sum_two_id =
        MERCURY_REGISTER(hg_class, "sum two", sum_two_t, sum_two_t, sum_two);
    HG_CHECK(sum_in_id != 0 && sum_out_id != 0 && sum_two_id != 0);
}

static na_class_t *sum_open_na(void)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    na_class_t *na_class;

    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    HG_CHECK(na_class != NULL);
    free(string);
    return na_class;
}

static void sum_start(struct cb_end *end, hg_checksum_level_t level)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    end->na_class = sum_open_na();
    info.na_class = end->na_class;
    info.checksum_level = level;
    end->hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->contexts[0] != NULL);
    end->count = 1;
    end->context = end->contexts[0];
    sum_register(end->hg_class);
}

/* ---- Two classes, or one that calls itself ---- */

struct sum_pair {
    struct cb_end from;
    struct cb_end to;
    bool one; /* `from` is both */
};

static void sum_open(
    struct sum_pair *pair, hg_checksum_level_t from, hg_checksum_level_t to)
{
    memset(pair, 0, sizeof(*pair));
    pair->one = hg_test_is_self();
    sum_start(&pair->from, from);
    if (pair->one) {
        HG_CHECK_OK(NA_Addr_self(pair->from.na_class, &pair->from.target));
        return;
    }
    sum_start(&pair->to, to);
    cb_find(&pair->from, &pair->to);
}

static void sum_close(struct sum_pair *pair)
{
    cb_close(&pair->from);
    if (!pair->one)
        cb_end(&pair->to);
}

static hg_return_t sum_do(
    struct sum_pair *pair, hg_id_t id, void *in, void *out)
{
    hg_handle_t handle = cb_new_handle(&pair->from, id);
    struct cb_call call;
    hg_return_t ret;

    HG_CHECK_OK(cb_forward(&call, handle, in));
    while (call.ends == 0) {
        (void) cb_turn(pair->from.context, 1);
        if (!pair->one)
            (void) cb_turn(pair->to.context, 1);
    }
    ret = call.ret == HG_SUCCESS && out != NULL ? HG_Get_output(handle, out)
                                                : call.ret;
    if (ret == HG_SUCCESS && out != NULL)
        HG_CHECK_OK(HG_Free_output(handle, out));
    HG_CHECK_OK(HG_Destroy(handle));
    /* A fetched output is acknowledged, so that the contexts can be
     * destroyed. */
    if (!pair->one)
        (void) cb_turn(pair->to.context, 1);
    return ret;
}

static void sum_try(hg_checksum_level_t from, hg_checksum_level_t to)
{
    static const size_t extras[] = {0, 1, 500, 200000};
    struct sum_pair pair;
    size_t i;

    sum_open(&pair, from, to);
    if (pair.one)
        to = from;
    for (i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        bool whole = extras[i] == 0;
        sum_one_t in = {7};
        sum_one_t out = {0};
        hg_return_t ret;

        sum_extra = extras[i];
        HG_CHECK_OK(sum_do(&pair, sum_in_id, &in, NULL));
        HG_CHECK_RET(sum_decoded,
            whole || to != HG_CHECKSUM_RPC_PAYLOAD ? HG_SUCCESS
                                                   : HG_CHECKSUM_ERROR);
        ret = sum_do(&pair, sum_out_id, NULL, &out);
        HG_CHECK_RET(ret,
            whole || from != HG_CHECKSUM_RPC_PAYLOAD ? HG_SUCCESS
                                                     : HG_CHECKSUM_ERROR);
        HG_CHECK(ret != HG_SUCCESS || out.front == 8);
    }
    sum_close(&pair);
}

HG_TEST(first_part_suffices_without_a_checksum)
{
    static const char left[] = "bytes of arguments undecoded";
    unsigned from, to;

    /* Without RPC_PAYLOAD at either side no line is logged. */
    for (from = 0; from < 2; from++)
        for (to = 0; to < 2; to++)
            sum_try(sum_levels[from], sum_levels[to]);
    hg_test_expect_log(left);
    for (from = 0; from < SUM_LEVELS; from++)
        sum_try(sum_levels[from], HG_CHECKSUM_RPC_PAYLOAD);
    for (to = 0; to < SUM_LEVELS; to++)
        sum_try(HG_CHECKSUM_RPC_PAYLOAD, sum_levels[to]);
}

static bool sum_class_computes_none(hg_class_t *hg_class)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    HG_CHECK_OK(HG_Class_get_options(hg_class, &options));
    return options.no_checksum;
}

HG_TEST(checksum_level_is_an_option_of_both_models)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    char *string = hg_test_listen_string();
    hg_class_t *hg_class = HG_Init(string, HG_TRUE);
    struct cb_end end;
    unsigned i;

    HG_CHECK(hg_class != NULL);
    HG_CHECK(sum_class_computes_none(hg_class)); /* Mercury's default */
    HG_CHECK_OK(HG_Finalize(hg_class));
    free(string);
    for (i = 0; i < SUM_LEVELS; i++) {
        sum_start(&end, sum_levels[i]);
        HG_CHECK_EQ_INT(sum_class_computes_none(end.hg_class),
            sum_levels[i] != HG_CHECKSUM_RPC_PAYLOAD);
        HG_CHECK_OK(HG_Class_get_options(end.hg_class, &options));
        HG_CHECK_EQ_INT(
            options.checksum_always, sum_levels[i] != HG_CHECKSUM_NONE);
        cb_end(&end);
    }
    options = (struct hg_options) HG_OPTIONS_INITIALIZER;
    HG_CHECK_OK(HG_Set_options(&options));
    HG_CHECK_OK(HG_Get_options(&options));
    HG_CHECK(!options.no_checksum && !options.checksum_always);
    options.no_checksum = true;
    HG_CHECK_OK(HG_Set_options(&options));
    options.no_checksum = false;
    HG_CHECK_OK(HG_Get_options(&options));
    HG_CHECK(options.no_checksum);
}

/* ---- The request model ---- */

/* Responds after a call back to its caller, so that both directions are
 * used. */
static hg_return_t sum_request_two(hg_handle_t handle)
{
    sum_two_t two = {0, 0};
    sum_two_t more = {0, 0};
    hg_request_t request = HG_REQUEST_NULL;

    HG_CHECK_OK(HG_Handler_get_input(handle, &two));
    HG_CHECK_OK(HG_Forward1(HG_Handler_get_addr(handle),
        HG_Handler_get_id(handle), &two, &more, &request));
    HG_CHECK_OK(HG_Wait(request, CB_TIMEOUT, HG_STATUS_IGNORE));
    more.rest++;
    HG_CHECK_OK(HG_Handler_start_output(handle, &more));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Handler_free_input(handle, &two));
    return HG_Handler_free(handle);
}

/* Decodes the first part; the caller gets the code. */
static hg_return_t sum_request_in(hg_handle_t handle)
{
    sum_one_t in = {0};
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    HG_CHECK_EQ_INT(in.front, 7);
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* A server of the request model. It serves until it gets a line from its
 * parent. */
HG_TEST_ROLE(request)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    na_class_t *na_class = sum_open_na();
    char address[NA_MAX_ADDR_LEN];
    _Atomic unsigned stop = 0;
    na_addr_t self;
    pthread_t listener;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("bytes of arguments undecoded");
    options.no_checksum = strcmp(argv[0], "none") == 0;
    HG_CHECK_OK(HG_Set_options(&options));
    HG_CHECK_OK(HG_Init1(na_class));
    HG_CHECK(HG_Register1("sum two", hg_proc_sum_two_t, hg_proc_sum_two_t,
                 sum_request_two) != 0);
    HG_CHECK(HG_Register1("sum in", sum_in_proc, NULL, sum_request_in) != 0);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, address, sizeof(address), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    hg_test_write_parent(address);
    HG_CHECK(pthread_create(&listener, NULL, cb_listen_parent, &stop) == 0);
    while (atomic_load(&stop) == 0)
        (void) HG_Handler_process(20, HG_STATUS_IGNORE);
    HG_CHECK(pthread_join(listener, NULL) == 0);
    HG_CHECK_OK(HG_Finalize1());
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void sum_try_request_model(hg_checksum_level_t level, bool none)
{
    sum_two_t two = {7, 41};
    sum_one_t one = {7};
    struct cb_end end;

    sum_extra = 100;
    sum_start(&end, level);
    end.peer =
        hg_test_spawn("request", none ? "none" : "payload", (char *) NULL);
    cb_find_peer(&end);
    HG_CHECK_OK(cb_call(&end, sum_two_id, &two, &two));
    HG_CHECK(two.front == 7 && two.rest == 43);
    HG_CHECK_OK(sum_decoded);
    HG_CHECK_RET(cb_call(&end, sum_in_id, &one, NULL),
        none ? HG_SUCCESS : HG_CHECKSUM_ERROR);
    cb_close(&end);
}

HG_TEST_WHERE(both_models_interoperate, hg_test_crosses_processes)
{
    unsigned i;

    for (i = 0; i < SUM_LEVELS; i++) {
        sum_try_request_model(sum_levels[i], false);
        sum_try_request_model(sum_levels[i], true);
    }
}
