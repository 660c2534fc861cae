/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that decoding an input allocates is freed once, with the handle. The
 * handler may have freed, taken or passed on parts of it, and any thread may
 * free the handle. The server counts its allocations.
 */
#include "rpc.h"

#define INPUTS_SIZE ((size_t) 1 << 16)

typedef struct blob inputs_blob_t;
#define hg_proc_inputs_blob_t blob_proc

MERCURY_GEN_PROC(inputs_in_t,
    ((uint32_t) (mode))((hg_string_t) (name))((inputs_blob_t) (blob))(
        (hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(inputs_live_t, ((int64_t) (live)))

/* Actions of the handler with its input. */
enum {
    INPUTS_NOTHING,
    INPUTS_FREE_INPUT,
    INPUTS_FREE_LATE, /* after the handle, in the handler */
    INPUTS_TWICE,     /* decode it twice */
    INPUTS_TAKE,      /* take the values out of the struct, and free the rest */
    INPUTS_FREE_ALL,  /* free each value, and not the input */
    INPUTS_FREE_OLD,  /* decode it twice, and free each value of the first */
    INPUTS_FREE_BULK, /* free the bulk handle, and then the rest */
    INPUTS_KEEP_BULK, /* keep the bulk handle with a reference of its own */
    INPUTS_PASS_BULK, /* another user takes and frees a reference */
    INPUTS_FAIL,
    INPUTS_THREAD, /* a thread uses it, and frees the handle */
    INPUTS_MODES
};

static hg_id_t inputs_id, inputs_live_id, inputs_go_id;

__attribute__((constructor)) static void inputs_count_allocations(void)
{
    hg_test_alloc_install();
}

/* ---- The server ---- */

/* Values that the last handlers kept, and the thread that one has started. */
static struct {
    char *name;
    unsigned char *bytes;
    hg_bulk_t bulk;
    hg_handle_t handle;
    inputs_in_t in;
    pthread_t thread;
    bool threaded;
    _Atomic bool go;
} inputs;

static void inputs_check(const inputs_in_t *in)
{
    HG_CHECK_EQ_STR(in->name, "a name");
    HG_CHECK_EQ_U64(in->blob.size, INPUTS_SIZE);
    HG_CHECK_EQ_INT(in->blob.bytes[INPUTS_SIZE - 1], 'x');
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(in->bulk), 3);
}

/* Free what was kept: the library must not have. */
static void inputs_free_kept(void)
{
    if (inputs.threaded)
        HG_CHECK(pthread_join(inputs.thread, NULL) == 0);
    inputs.threaded = false;
    if (inputs.name != NULL)
        HG_CHECK_EQ_STR(inputs.name, "a name");
    if (inputs.bytes != NULL)
        HG_CHECK_EQ_INT(inputs.bytes[INPUTS_SIZE - 1], 'x');
    hg_proc_release(HG_PROC_NULL, inputs.name);
    hg_proc_release(HG_PROC_NULL, inputs.bytes);
    if (inputs.bulk != HG_BULK_NULL) {
        HG_CHECK_EQ_U64(HG_Bulk_handle_get_size(inputs.bulk), 3);
        HG_CHECK_OK(HG_Bulk_handle_free(inputs.bulk));
    }
    inputs.name = NULL;
    inputs.bytes = NULL;
    inputs.bulk = HG_BULK_NULL;
}

static void *inputs_work(void *unused)
{
    while (!atomic_load(&inputs.go)) /* until the handler has returned */
        sched_yield();
    inputs_check(&inputs.in);
    HG_CHECK_OK(HG_Handler_start_output(inputs.handle, NULL));
    inputs_check(&inputs.in);
    HG_CHECK_OK(HG_Handler_free(inputs.handle));
    return unused;
}

static void inputs_free_values(const inputs_in_t *in)
{
    hg_proc_release(HG_PROC_NULL, in->name);
    HG_CHECK_OK(HG_Bulk_handle_free(in->bulk));
    hg_proc_release(HG_PROC_NULL, in->blob.bytes);
}

static hg_return_t inputs_serve(hg_handle_t handle)
{
    inputs_in_t in;
    inputs_in_t again;

    inputs_free_kept();
    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    inputs_check(&in);
    switch (in.mode) {
    case INPUTS_FREE_INPUT:
        HG_CHECK_OK(HG_Handler_free_input(handle, &in));
        break;
    case INPUTS_TWICE:
        HG_CHECK_OK(HG_Handler_get_input(handle, &again));
        inputs_check(&again);
        break;
    case INPUTS_TAKE:
        inputs.name = in.name;
        inputs.bytes = in.blob.bytes;
        inputs.bulk = in.bulk;
        in.name = NULL;
        in.blob.bytes = NULL;
        in.bulk = HG_BULK_NULL;
        HG_CHECK_OK(HG_Handler_free_input(handle, &in));
        break;
    case INPUTS_FREE_OLD:
        HG_CHECK_OK(HG_Handler_get_input(handle, &again));
        inputs_free_values(&in);
        inputs_check(&again);
        break;
    case INPUTS_FREE_ALL: inputs_free_values(&in); break;
    case INPUTS_FREE_BULK:
        HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
        in.bulk = HG_BULK_NULL;
        HG_CHECK_OK(HG_Handler_free_input(handle, &in));
        break;
    case INPUTS_KEEP_BULK:
        HG_CHECK_OK(HG_Bulk_ref_incr(in.bulk));
        inputs.bulk = in.bulk;
        break;
    case INPUTS_PASS_BULK:
        HG_CHECK_OK(HG_Bulk_ref_incr(in.bulk));
        HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
        break;
    case INPUTS_FAIL: return HG_OTHER_ERROR;
    case INPUTS_THREAD:
        inputs.in = in;
        inputs.handle = handle;
        inputs.threaded = true;
        atomic_store(&inputs.go, false);
        HG_CHECK(pthread_create(&inputs.thread, NULL, inputs_work, NULL) == 0);
        return HG_SUCCESS;
    default: break;
    }
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    HG_CHECK_OK(HG_Handler_free(handle));
    if (in.mode == INPUTS_FREE_LATE)
        HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    return HG_SUCCESS;
}

/* Whether there is a thread: its handler has returned, and it may go on. */
static hg_return_t inputs_go(hg_handle_t handle)
{
    inputs_live_t out = {inputs.threaded};

    atomic_store(&inputs.go, inputs.threaded);
    inputs_free_kept();
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static hg_return_t inputs_live(hg_handle_t handle)
{
    inputs_live_t out;

    inputs_free_kept();
    out.live = hg_test_alloc_live();
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* A handle that is neither answered nor freed: HG_Finalize frees it. */
static hg_return_t inputs_leave(hg_handle_t handle)
{
    inputs_in_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    inputs_check(&in);
    return HG_SUCCESS;
}

/* The bulk handle is freed, and then the input with it. */
static hg_return_t inputs_free_both(hg_handle_t handle)
{
    inputs_in_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    HG_CHECK_RET(HG_Bulk_handle_free(in.bulk), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* The input is the handle's, although the handler looked at its bytes. */
static hg_return_t inputs_look(hg_handle_t handle)
{
    void *bytes = NULL;
    inputs_in_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    HG_CHECK_OK(HG_Get_input_buf(handle, &bytes, NULL));
    HG_CHECK(bytes != NULL);
    HG_CHECK_RET(HG_Free_input(handle, &in), HG_INVALID_ARG);
    inputs_check(&in);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    inputs_id = MERCURY_REGISTER("inputs", inputs_in_t, void, inputs_serve);
    inputs_go_id =
        MERCURY_REGISTER("inputs go", void, inputs_live_t, inputs_go);
    inputs_live_id =
        MERCURY_REGISTER("inputs live", void, inputs_live_t, inputs_live);
    HG_CHECK(inputs_id != 0 && inputs_go_id != 0 && inputs_live_id != 0);
}

/* ---- The client ---- */

static int64_t inputs_get_live(const struct rpc_end *end)
{
    inputs_live_t out = {0};

    HG_CHECK_OK(rpc_call(end, inputs_live_id, NULL, &out));
    return out.live;
}

static inputs_in_t inputs_new(uint32_t mode)
{
    static char name[] = "a name";
    static unsigned char bytes[INPUTS_SIZE];
    inputs_in_t in;
    void *ptr = name;
    size_t size = 3;

    memset(bytes, 'x', sizeof(bytes));
    in.mode = mode;
    in.name = name;
    in.blob.size = sizeof(bytes);
    in.blob.bytes = bytes;
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &in.bulk));
    return in;
}

static void inputs_call(const struct rpc_end *end, inputs_in_t *in)
{
    hg_request_t request = rpc_start_call(end, inputs_id, in, NULL);
    inputs_live_t out = {in->mode != INPUTS_THREAD};

    while (out.live == 0) /* a large input arrives later than this call */
        HG_CHECK_OK(rpc_call(end, inputs_go_id, NULL, &out));
    HG_CHECK_RET(rpc_wait(request),
        in->mode == INPUTS_FAIL ? HG_OTHER_ERROR : HG_SUCCESS);
    HG_CHECK_OK(HG_Request_free(request));
}

/* Without the mend, each call of most modes leaves three allocations. */
HG_TEST(inputs_are_freed_once_with_their_handles)
{
    unsigned calls = getenv("HG_TEST_FULL") != NULL ? 300 : 4;
    struct rpc_end end;
    uint32_t mode;
    unsigned i;

    rpc_open(&end);
    for (mode = 0; mode < INPUTS_MODES; mode++) {
        inputs_in_t in = inputs_new(mode);
        int64_t before;

        for (i = 0; i < 3; i++) /* fill the pools of the library */
            inputs_call(&end, &in);
        before = inputs_get_live(&end);
        for (i = 0; i < calls; i++)
            inputs_call(&end, &in);
        if (inputs_get_live(&end) >= before + (int64_t) calls)
            hg_test_fail(HG_TEST_HERE, "mode %u leaks", (unsigned) mode);
        HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    }
    rpc_close(&end);
}

/* One call is executed and left, a second one is not executed. */
HG_TEST_WHERE(inputs_that_are_left_are_freed_with_the_layer, hg_test_is_self)
{
    struct rpc_end end;
    inputs_in_t in;
    hg_request_t request;
    hg_id_t id;

    hg_test_expect_log("1 calls were never answered");
    rpc_open(&end);
    id = MERCURY_REGISTER("inputs left", inputs_in_t, void, inputs_leave);
    in = inputs_new(INPUTS_NOTHING);
    request = rpc_start_call(&end, id, &in, NULL);
    HG_CHECK_OK(HG_Handler_process(RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST_WHERE(bulk_handle_that_is_freed_twice_is_reported, hg_test_is_self)
{
    struct rpc_end end;
    inputs_in_t in;
    hg_id_t id;

    hg_test_expect_log("HG_Bulk_handle_free: the handle was freed more often");
    hg_test_expect_log("hg_proc_hg_bulk_t: the handle was freed more often");
    rpc_open(&end);
    id = MERCURY_REGISTER("inputs both", inputs_in_t, void, inputs_free_both);
    in = inputs_new(INPUTS_NOTHING);
    HG_CHECK_OK(rpc_call(&end, id, &in, NULL));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST_WHERE(inputs_are_not_freed_by_the_other_model_as_well, hg_test_is_self)
{
    struct rpc_end end;
    inputs_in_t in;
    hg_id_t id;

    hg_test_expect_log("HG_Free_input: there is no decoded struct");
    rpc_open(&end);
    id = MERCURY_REGISTER("inputs look", inputs_in_t, void, inputs_look);
    in = inputs_new(INPUTS_NOTHING);
    HG_CHECK_OK(rpc_call(&end, id, &in, NULL));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    rpc_close(&end);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}
