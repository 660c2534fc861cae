/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_class: calls on one transport, bulk data on another (HG_Bulk_init with a
 * separate class).
 *
 * Each case runs in two ways: calls on the suite's transport and bulk data over
 * sm, and the other way round. The server executes calls in its own process.
 * Whether a client's bulk class must listen depends on the transport: see
 * separate_finds_callers.
 */
#include "conform/rpc.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEPARATE_BIG ((size_t) 3 << 20)
#define SEPARATE_BLOCKING 2 /* as `push`: HG_Bulk_pull */

MERCURY_GEN_PROC(separate_move_t,
    ((hg_bulk_t) (bulk))((uint64_t) (seed))((uint8_t) (push))(
        (uint8_t) (mortal)))
MERCURY_GEN_PROC(separate_moved_t, ((int32_t) (ret))((uint64_t) (sum)))

static hg_id_t separate_move_id;
static hg_id_t separate_raw_id;
static struct hg_test_peer *separate_mortal;

static bool separate_applies(void)
{
    na_class_t *sm;

    if (!hg_test_crosses_processes() || hg_test_is_mux())
        return false;
    sm = NA_Initialize("sm://", NA_FALSE);
    if (sm == NULL)
        return false;
    HG_CHECK_OK(NA_Finalize(sm));
    return true;
}

/* ---- Classes ---- */

/* A class on sm, or on the suite's transport. */
static na_class_t *separate_class(bool sm, bool listen)
{
    static unsigned count;
    char name[64];
    na_class_t *na_class;

    if (!sm)
        return rpc_open_class(listen ? NA_TRUE : NA_FALSE);
    (void) snprintf(
        name, sizeof(name), "sm://apart-%ld-%u", (long) getpid(), ++count);
    na_class =
        NA_Initialize(listen ? name : "sm://", listen ? NA_TRUE : NA_FALSE);
    HG_CHECK(na_class != NULL);
    return na_class;
}

static void separate_open(struct rpc_end *end, bool bulk_sm, bool listen)
{
    memset(end, 0, sizeof(*end));
    end->na_class = separate_class(!bulk_sm, listen);
    end->bulk_class = separate_class(bulk_sm, listen);
    HG_CHECK_OK(HG_Bulk_init(end->bulk_class));
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
}

static void separate_send_address(na_class_t *na_class)
{
    char name[NA_MAX_ADDR_LEN];
    na_addr_t self;

    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    hg_test_write_parent(name);
}

HG_TEST_ROLE(separate_server)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log(""); /* the client checks the codes */
    separate_open(&end, strcmp(argv[0], "bulk_sm") == 0, true);
    separate_send_address(end.bulk_class);
    rpc_serve(&end);
    rpc_end(&end);
}

/* Open a client with its server. With `meet` the bulk classes are connected. */
static void separate_begin(
    struct rpc_end *end, bool bulk_sm, bool listen, bool meet)
{
    char *bulk_name;

    separate_open(end, bulk_sm, listen);
    end->peer = hg_test_spawn(
        "separate_server", bulk_sm ? "bulk_sm" : "rpc_sm", (char *) NULL);
    bulk_name = hg_test_read_peer(end->peer);
    rpc_find_peer(end);
    if (meet) {
        na_addr_t addr;

        HG_CHECK_OK(NA_Addr_lookup_wait(
            end->bulk_class, bulk_name, RPC_TIMEOUT, &addr));
        HG_CHECK_OK(NA_Addr_free(end->bulk_class, addr));
    }
    free(bulk_name);
}

/* ---- Handlers ---- */

static hg_return_t separate_transfer(hg_bulk_op_t op, na_addr_t addr,
    hg_bulk_t origin, hg_bulk_t local, size_t size)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_status_t status = HG_FALSE;
    hg_return_t ret =
        HG_Bulk_transfer(op, addr, origin, 0, local, 0, size, &request);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_wait(request, RPC_TIMEOUT, &status);
    HG_CHECK_EQ_INT(status, HG_TRUE);
    if (ret != HG_SUCCESS)
        HG_CHECK(strncmp(HG_Get_last_error_text(), "HG_Bulk_wait: ", 14) == 0);
    return ret;
}

/* Pull the caller's memory, or push a pattern there; returns the sum of the
 * bytes. */
static int32_t separate_serve_move(
    hg_handle_t handle, const separate_move_t *in, uint64_t *sum)
{
    size_t size = HG_Bulk_handle_get_size(in->bulk);
    unsigned char *bytes = rpc_new_pattern(size, in->seed);
    void *ptr = bytes;
    hg_bulk_t local;
    hg_return_t ret;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &local));
    if (in->push != 1)
        memset(bytes, 0, size);
    if (in->push == SEPARATE_BLOCKING)
        ret = HG_Bulk_pull(handle, in->bulk, 0, bytes, size);
    else
        ret = separate_transfer(in->push ? HG_BULK_PUSH : HG_BULK_PULL,
            HG_Handler_get_addr(handle), in->bulk, local, size);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    *sum = blob_sum(bytes, size);
    free(bytes);
    return (int32_t) ret;
}

static hg_return_t separate_move(hg_handle_t handle)
{
    separate_move_t in;
    separate_moved_t out = {0, 0};

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.mortal) {
        hg_test_signal(separate_mortal, SIGKILL);
        HG_CHECK(WIFSIGNALED(hg_test_wait(separate_mortal)));
        separate_mortal = NULL;
    }
    out.ret = separate_serve_move(handle, &in, &out.sum);
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    if (in.mortal)
        HG_CHECK(out.ret == HG_DISCONNECT || out.ret == HG_HOSTUNREACH);
    (void) HG_Handler_start_output(handle, &out); /* else the caller is dead */
    return HG_Handler_free(handle);
}

/* A handle as plain bytes: decoding it, or the transfer, fails. */
static hg_return_t separate_raw(hg_handle_t handle)
{
    struct blob in;
    separate_moved_t out = {0, 0};
    separate_move_t move = {HG_BULK_NULL, 0, 0, 0};

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    out.ret = (int32_t) HG_Bulk_handle_deserialize(
        &move.bulk, in.bytes, (size_t) in.size);
    if (out.ret == HG_SUCCESS) {
        out.ret = separate_serve_move(handle, &move, &out.sum);
        HG_CHECK_OK(HG_Bulk_handle_free(move.bulk));
    }
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    separate_move_id = MERCURY_REGISTER(
        "apart move", separate_move_t, separate_moved_t, separate_move);
    separate_raw_id = HG_Register(
        "apart raw", blob_proc, hg_proc_separate_moved_t, separate_raw);
    HG_CHECK(separate_move_id != 0 && separate_raw_id != 0);
}

/* ---- Data ---- */

/* A handle of `size` bytes in three segments, which carries an address of the
 * bulk class. */
static hg_bulk_t separate_expose(
    const struct rpc_end *end, unsigned char *bytes, size_t size)
{
    void *ptrs[3] = {bytes, bytes + size / 3, bytes + size / 2};
    size_t sizes[3] = {size / 3, size / 2 - size / 3, size - size / 2};
    char name[NA_MAX_ADDR_LEN];
    unsigned char *described;
    size_t length;
    hg_bulk_t bulk;
    na_addr_t self;

    HG_CHECK_OK(NA_Addr_self(end->bulk_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(end->bulk_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(end->bulk_class, self));
    HG_CHECK_OK(
        HG_Bulk_handle_create(3, ptrs, sizes, HG_BULK_READWRITE, &bulk));
    length = HG_Bulk_handle_get_serialize_size(bulk);
    described = (unsigned char *) malloc(length);
    HG_CHECK(described != NULL && length > 45 + strlen(name));
    HG_CHECK_OK(HG_Bulk_handle_serialize(described, length, bulk));
    HG_CHECK_EQ_MEM(described + 45, name, strlen(name));
    free(described);
    return bulk;
}

static int32_t separate_ask(
    const struct rpc_end *end, separate_move_t *in, uint64_t *sum)
{
    separate_moved_t out = {-1, 0};

    HG_CHECK_OK(rpc_call(end, separate_move_id, in, &out));
    *sum = out.sum;
    return out.ret;
}

static void separate_check_size(const struct rpc_end *end, size_t size)
{
    unsigned char *bytes = rpc_new_pattern(size, 7);
    unsigned char *want = rpc_new_pattern(size, 9);
    separate_move_t in = {HG_BULK_NULL, 9, 0, 0};
    uint64_t sum;

    in.bulk = separate_expose(end, bytes, size);
    HG_CHECK_RET(separate_ask(end, &in, &sum), HG_SUCCESS);
    HG_CHECK_EQ_U64(sum, blob_sum(bytes, size));
    in.push = 1;
    HG_CHECK_RET(separate_ask(end, &in, &sum), HG_SUCCESS);
    HG_CHECK_EQ_MEM(bytes, want, size);
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    free(want);
    free(bytes);
}

static void separate_check_data(bool bulk_sm, bool listen, bool meet)
{
    static const size_t sizes[] = {3, 4096, 100000, SEPARATE_BIG + 1};
    struct rpc_end end;
    size_t i;

    separate_begin(&end, bulk_sm, listen, meet);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        separate_check_size(&end, sizes[i]);
    rpc_close(&end);
}

HG_TEST_WHERE(bulk_class_sm_and_calls_on_the_transport, separate_applies)
{
    separate_check_data(true, true, false);
}

HG_TEST_WHERE(bulk_class_on_the_transport_and_calls_over_sm, separate_applies)
{
    separate_check_data(false, true, false);
}

/* A handle with an address, from its owner. The option passed_memory is not
 * set. */
HG_TEST_WHERE(bulk_class_pulls_memory_that_is_bound, separate_applies)
{
    unsigned char *bytes = rpc_new_pattern(1000, 7);
    separate_move_t in = {HG_BULK_NULL, 9, SEPARATE_BLOCKING, 0};
    struct rpc_end end;
    uint64_t sum;

    separate_begin(&end, true, true, false);
    in.bulk = separate_expose(&end, bytes, 1000);
    HG_CHECK_OK(HG_Bulk_handle_bind(in.bulk));
    HG_CHECK_RET(separate_ask(&end, &in, &sum), HG_SUCCESS);
    HG_CHECK_EQ_U64(sum, blob_sum(bytes, 1000));
    HG_CHECK_OK(HG_Bulk_handle_free(in.bulk));
    free(bytes);
    rpc_close(&end);
}

/* ---- A client that does not listen ---- */

/* Whether a class that does not listen can expose memory on a separate class:
 * its address is enough to reach it. */
static bool separate_finds_callers(bool sm)
{
    return sm || hg_test_finds_callers();
}

static void separate_check_refused(bool bulk_sm)
{
    struct rpc_end end;
    size_t size = 10;
    hg_bulk_t bulk;

    separate_open(&end, bulk_sm, false);
    hg_test_expect_log("does not listen");
    HG_CHECK_RET(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &bulk),
        HG_OPNOTSUPPORT);
    rpc_end(&end);
}

static void separate_check_callers(bool bulk_sm)
{
    if (separate_finds_callers(bulk_sm))
        separate_check_data(bulk_sm, false, false);
    else
        separate_check_refused(bulk_sm);
}

HG_TEST_WHERE(bulk_class_of_a_client_over_sm_need_not_listen, separate_applies)
{
    separate_check_callers(true);
}

HG_TEST_WHERE(bulk_class_of_a_client_need_not_listen, separate_applies)
{
    separate_check_callers(false);
}

/* Over sm the server then uses the connection that the client made. */
HG_TEST_WHERE(bulk_class_of_a_client_may_connect, separate_applies)
{
    separate_check_data(true, false, true);
}

/* ---- Death, and wrong handles ---- */

/* A client that calls, and is killed by the handler. */
HG_TEST_ROLE(separate_victim)
{
    unsigned char *bytes = rpc_new_pattern(SEPARATE_BIG, 7);
    separate_move_t in = {HG_BULK_NULL, 0, 0, 1};
    struct rpc_end end;
    bool bulk_sm;
    na_addr_t addr;
    uint64_t sum;

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("");
    bulk_sm = strcmp(argv[0], "bulk_sm") == 0;
    separate_open(&end, bulk_sm, !separate_finds_callers(bulk_sm));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[1], RPC_TIMEOUT, &end.target));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.bulk_class, argv[2], RPC_TIMEOUT, &addr));
    in.bulk = separate_expose(&end, bytes, SEPARATE_BIG);
    (void) separate_ask(&end, &in, &sum);
    hg_test_fail(HG_TEST_HERE, "the handler did not kill this process");
}

static void separate_name(na_class_t *na_class, char name[NA_MAX_ADDR_LEN])
{
    na_addr_t self;

    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, NA_MAX_ADDR_LEN, self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
}

static void separate_check_death(bool bulk_sm)
{
    char rpc_name[NA_MAX_ADDR_LEN];
    char bulk_name[NA_MAX_ADDR_LEN];
    struct rpc_end end;

    hg_test_allow_log("");
    separate_open(&end, bulk_sm, true);
    separate_name(end.na_class, rpc_name);
    separate_name(end.bulk_class, bulk_name);
    separate_mortal = hg_test_spawn("separate_victim",
        bulk_sm ? "bulk_sm" : "rpc_sm", rpc_name, bulk_name, (char *) NULL);
    while (separate_mortal != NULL) {
        hg_return_t ret = HG_Handler_process(20, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    rpc_end(&end);
}

HG_TEST_WHERE(bulk_class_owner_dies_on_sm, separate_applies)
{
    separate_check_death(true);
}

HG_TEST_WHERE(bulk_class_owner_dies, separate_applies)
{
    separate_check_death(false);
}

/* Handles with a wrong address of their owner. */
HG_TEST_WHERE(bulk_class_owner_has_a_wrong_address, separate_applies)
{
    static const struct {
        const char *begins; /* by that many bytes of the address */
        hg_return_t ret;
    } wrong[] = {{"sm://~zz", HG_HOSTUNREACH}, {"sm://a b", HG_NODEV},
        {"si://abc", HG_NODEV}, {"no_name_", HG_NODEV},
        {"sm\0//abc", HG_PROTOCOL_ERROR}};
    unsigned char *bytes = rpc_new_pattern(1000, 7);
    struct rpc_end end;
    struct blob in;
    hg_bulk_t bulk;
    unsigned i;

    separate_begin(&end, true, true, false);
    bulk = separate_expose(&end, bytes, 1000);
    in.size = HG_Bulk_handle_get_serialize_size(bulk);
    in.bytes = (unsigned char *) malloc((size_t) in.size);
    HG_CHECK(in.bytes != NULL);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        separate_moved_t out = {-1, 0};

        HG_CHECK_OK(HG_Bulk_handle_serialize(in.bytes, (size_t) in.size, bulk));
        memcpy(in.bytes + 45, wrong[i].begins, 8);
        HG_CHECK_OK(rpc_call(&end, separate_raw_id, &in, &out));
        HG_CHECK_RET(out.ret, wrong[i].ret);
    }
    separate_check_size(&end, 5000); /* the server continues */
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    rpc_close(&end);
    free(in.bytes);
    free(bytes);
}
