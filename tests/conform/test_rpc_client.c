/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that do not listen: which peers can call them, and which ones can
 * move their memory.
 */
#include "rpc.h"

#define CLIENT_NONE "" /* as the name of a process: no such process */

/* A call to the middle process, which passes it on to the process `third`. That
 * one moves the memory, and calls the process `callee`. */
MERCURY_GEN_PROC(client_move_t,
    ((hg_bulk_t) (bulk))((hg_string_t) (third))((hg_string_t) (callee))(
        (uint8_t) (push)))
MERCURY_GEN_PROC(
    client_moved_t, ((int32_t) (ret))((int32_t) (called))((uint64_t) (sum)))

MERCURY_GEN_PROC(client_lend_t, ((hg_string_t) (third)))
MERCURY_GEN_PROC(client_lent_t, ((hg_bulk_t) (bulk)))

static hg_id_t client_inc_id, client_move_id, client_lend_id;
static atomic_uint client_incs;  /* executed here */
static na_class_t *client_class; /* of a server */
static hg_bulk_t client_lent;    /* by this server, or NULL */

static hg_return_t client_inc(hg_handle_t handle)
{
    atomic_fetch_add(&client_incs, 1);
    return rpc_inc(handle);
}

/* Pull or push all bytes of a handle, without an address. */
static hg_return_t client_transfer(
    const client_move_t *in, unsigned char *bytes, size_t size)
{
    hg_bulk_request_t request;
    void *memory = bytes;
    hg_bulk_t local;
    hg_return_t ret;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READWRITE, &local));
    ret = HG_Bulk_transfer(in->push ? HG_BULK_PUSH : HG_BULK_PULL, NA_ADDR_NULL,
        in->bulk, 0, local, 0, size, &request);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    return ret;
}

/* The result of a call to a process. */
static hg_return_t client_ask(const char *name, hg_id_t id, void *in, void *out)
{
    struct rpc_end end;
    hg_return_t ret;

    memset(&end, 0, sizeof(end));
    ret = NA_Addr_lookup_wait(
        client_class, name, hg_test_scaled_ms(5000), &end.target);
    if (ret != HG_SUCCESS)
        return ret;
    ret = rpc_call(&end, id, in, out);
    HG_CHECK_OK(NA_Addr_free(client_class, end.target));
    return ret;
}

static hg_return_t client_move(hg_handle_t handle)
{
    client_moved_t out = {-1, -1, 0};
    rpc_one_t one = {1};
    client_move_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.third[0] != '\0') {
        client_move_t next = in;
        char none[] = CLIENT_NONE;

        next.third = none;
        HG_CHECK_OK(client_ask(in.third, client_move_id, &next, &out));
    } else {
        size_t size = HG_Bulk_handle_get_size(in.bulk);
        unsigned char *bytes = rpc_new_pattern(size, 8);

        if (in.bulk != HG_BULK_NULL)
            out.ret = (int32_t) client_transfer(&in, bytes, size);
        out.sum = blob_sum(bytes, size);
        if (in.callee[0] != '\0')
            out.called =
                (int32_t) client_ask(in.callee, client_inc_id, &one, &one);
        free(bytes);
    }
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

/* Memory of the application, or of the library if `bytes` is NULL, bound. */
static hg_bulk_t client_lend(unsigned char *bytes, size_t size)
{
    unsigned int count;
    void *memory = bytes;
    hg_bulk_t bulk;
    size_t i;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, size, HG_BULK_READWRITE, 1, &memory, &size, &count));
    for (i = 0; i < size; i++)
        ((unsigned char *) memory)[i] = blob_byte(i);
    HG_CHECK_OK(HG_Bulk_handle_bind(bulk));
    return bulk;
}

/* Lend memory of this process, or of the process `third`. */
static hg_return_t client_lend_any(hg_handle_t handle)
{
    static unsigned char bytes[1000];
    client_lent_t out = {HG_BULK_NULL};
    char none[] = CLIENT_NONE;
    client_lend_t in, next = {none};
    hg_request_t request;
    struct rpc_end end;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    if (in.third[0] != '\0') {
        memset(&end, 0, sizeof(end));
        HG_CHECK_OK(NA_Addr_lookup_wait(
            client_class, in.third, hg_test_scaled_ms(5000), &end.target));
        request = rpc_start_call(&end, client_lend_id, &next, &out);
        HG_CHECK_OK(rpc_wait(request));
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        HG_CHECK_OK(HG_Request_free(request));
        HG_CHECK_OK(NA_Addr_free(client_class, end.target));
    } else {
        out.bulk = client_lend(bytes, sizeof(bytes));
        HG_CHECK_OK(HG_Handler_start_output(handle, &out));
        client_lent = out.bulk;
    }
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    client_lend_id = MERCURY_REGISTER(
        "client lend", client_lend_t, client_lent_t, client_lend_any);
    client_inc_id =
        MERCURY_REGISTER("client inc", rpc_one_t, rpc_one_t, client_inc);
    client_move_id = MERCURY_REGISTER(
        "client move", client_move_t, client_moved_t, client_move);
}

/* A listener that passes on what it gets. */
HG_TEST_ROLE(passer)
{
    struct rpc_end end;

    (void) argv;
    HG_CHECK_EQ_INT(argc, 0);
    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    client_class = end.na_class;
    rpc_serve(&end);
    if (client_lent != HG_BULK_NULL)
        HG_CHECK_OK(HG_Bulk_handle_free(client_lent));
    rpc_end(&end);
}

/* Looks up the listener with that name, and calls it, or, for "nobody",
 * executes no call. */
HG_TEST_ROLE(client)
{
    struct rpc_end end;
    rpc_one_t one = {1};

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    memset(&end, 0, sizeof(end));
    end.na_class = rpc_open_class(NA_FALSE);
    HG_CHECK_OK(HG_Init(end.na_class));
    rpc_register();
    if (strcmp(argv[0], "nobody") != 0) {
        HG_CHECK_OK(NA_Addr_lookup_wait(
            end.na_class, argv[0], RPC_TIMEOUT, &end.target));
        HG_CHECK_OK(rpc_call(&end, client_inc_id, &one, &one));
        HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
    }
    rpc_serve(&end);
    if (strcmp(argv[0], "nobody") == 0) {
        HG_CHECK_EQ_U64(rpc_counters().refused, hg_test_is_ofi() ? 1 : 0);
        HG_CHECK(atomic_load(&client_incs) == 0);
    }
    rpc_end(&end);
}

/* Whether the client can be looked up; then the result of a call to it. */
static bool client_call(struct rpc_end *end, hg_return_t *ret_p)
{
    char *address = hg_test_read_peer(end->peer);
    rpc_one_t one = {1};
    bool found = NA_Addr_lookup_wait(end->na_class, address,
                     hg_test_lookup_ms(), &end->target) == NA_SUCCESS;

    free(address);
    if (!found)
        return false;
    *ret_p = rpc_call(end, client_inc_id, &one, &one);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    return true;
}

/* Where such a client can be looked up, to move its bulk data, it refuses
 * calls. */
HG_TEST_WHERE(client_is_not_called_by_a_stranger, hg_test_crosses_processes)
{
    struct rpc_end end;
    hg_return_t ret;

    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    end.peer = hg_test_spawn("client", "nobody", (char *) NULL);
    if (client_call(&end, &ret)) {
        HG_CHECK_RET(ret, HG_PERMISSION);
        HG_CHECK(strstr(HG_Get_last_error_text(), "does not listen") != NULL);
    }
    hg_test_stop(end.peer);
    rpc_end(&end);
}

HG_TEST_WHERE(
    client_is_called_by_the_peer_it_looked_up, hg_test_crosses_processes)
{
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;
    na_addr_t self;
    hg_return_t ret;
    bool found;

    hg_test_allow_log("");
    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), self));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    end.peer = hg_test_spawn("client", address, (char *) NULL);
    while (atomic_load(&client_incs) == 0)
        (void) HG_Handler_process(20, HG_STATUS_IGNORE);
    found = client_call(&end, &ret);
    HG_CHECK(found || !hg_test_is_ofi());
    if (hg_test_is_ofi())
        HG_CHECK_OK(ret);
    hg_test_stop(end.peer);
    rpc_end(&end);
}

/* ---- Memory of a client, moved by a process that it does not know ---- */

struct client_case {
    struct rpc_end end; /* a client; its target is the middle process */
    struct hg_test_peer *third;
    char *third_name;
    char own[NA_MAX_ADDR_LEN];
};

static void client_open(struct client_case *c)
{
    na_addr_t self;

    memset(c, 0, sizeof(*c));
    c->end.na_class = rpc_open_class(NA_FALSE);
    HG_CHECK_OK(HG_Init(c->end.na_class));
    rpc_register();
    c->third = hg_test_spawn("passer", (char *) NULL);
    c->third_name = hg_test_read_peer(c->third);
    c->end.peer = hg_test_spawn("passer", (char *) NULL);
    rpc_find_peer(&c->end);
    HG_CHECK_OK(NA_Addr_self(c->end.na_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(c->end.na_class, c->own, sizeof(c->own), self));
    HG_CHECK_OK(NA_Addr_free(c->end.na_class, self));
}

static void client_close(struct client_case *c)
{
    rpc_close(&c->end);
    hg_test_stop(c->third);
    free(c->third_name);
}

/* Let a process move all of it: the third one, or, without, the middle one. */
static client_moved_t client_pass(
    struct client_case *c, hg_bulk_t bulk, char *third, char *callee, bool push)
{
    client_move_t in = {bulk, third, callee, push};
    client_moved_t out = {0, 0, 0};

    HG_CHECK_OK(rpc_call(&c->end, client_move_id, &in, &out));
    return out;
}

static void client_check_moves(
    struct client_case *c, unsigned char *bytes, size_t size)
{
    hg_bulk_t bulk = client_lend(bytes, size);
    uint64_t sum, pushed;
    char none[] = CLIENT_NONE;
    client_moved_t out;
    unsigned char *pattern = rpc_new_pattern(size, 8);
    void *memory;
    unsigned int count;

    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, size, HG_BULK_READ_ONLY, 1, &memory, &size, &count));
    sum = blob_sum((unsigned char *) memory, size);
    pushed = blob_sum(pattern, size);
    out = client_pass(c, bulk, none, none, false); /* of its own caller */
    HG_CHECK_OK(out.ret);
    HG_CHECK_EQ_U64(out.sum, sum);
    out = client_pass(c, bulk, c->third_name, none, false);
    HG_CHECK_RET(
        out.ret, hg_test_finds_callers() ? HG_SUCCESS : HG_HOSTUNREACH);
    if (hg_test_finds_callers())
        HG_CHECK_EQ_U64(out.sum, sum);
    out = client_pass(c, bulk, c->third_name, none, true);
    HG_CHECK_RET(
        out.ret, hg_test_finds_callers() ? HG_SUCCESS : HG_HOSTUNREACH);
    HG_CHECK_EQ_U64(blob_sum((unsigned char *) memory, size),
        hg_test_finds_callers() ? pushed : sum);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    free(pattern);
}

HG_TEST_WHERE(
    client_memory_is_moved_by_a_third_process, hg_test_crosses_processes)
{
    static const size_t sizes[] = {100, 1u << 20};
    struct client_case c;
    unsigned i;

    client_open(&c);
    for (i = 0; i < 2; i++) {
        unsigned char *bytes = rpc_new_pattern(sizes[i], 7);

        client_check_moves(&c, bytes, sizes[i]);
        client_check_moves(&c, NULL, sizes[i]);
        free(bytes);
    }
    client_close(&c);
}

/* It has moved memory of the client; before that, over sm, it did not even find
 * the client. Its calls are refused, those of the middle process are not. */
HG_TEST_WHERE(client_is_not_called_by_the_process_that_moves_its_memory,
    hg_test_crosses_processes)
{
    unsigned char *bytes = rpc_new_pattern(1000, 7);
    bool sm = strncmp(hg_test_transport(), "sm", 2) == 0;
    size_t size = 1000;
    char none[] = CLIENT_NONE;
    struct client_case c;
    void *memory = bytes;
    client_moved_t out;
    hg_bulk_t bulk;

    hg_test_allow_log("refused a call of");
    client_open(&c);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READWRITE, &bulk));
    out = client_pass(&c, bulk, c.third_name, c.own, false);
    HG_CHECK(out.called != HG_SUCCESS);
    if (sm)
        HG_CHECK_RET(out.called, HG_HOSTUNREACH);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    bulk = client_lend(bytes, size);
    out = client_pass(&c, bulk, c.third_name, c.own, false);
    HG_CHECK_RET(
        out.ret, hg_test_finds_callers() ? HG_SUCCESS : HG_HOSTUNREACH);
    HG_CHECK(out.called != HG_SUCCESS);
    if (hg_test_finds_callers())
        HG_CHECK_RET(out.called, HG_PERMISSION);
    HG_CHECK(atomic_load(&client_incs) == 0);
    if (sm) { /* the connection that the client made */
        out = client_pass(&c, bulk, none, c.own, false);
        HG_CHECK_OK(out.called);
        HG_CHECK(atomic_load(&client_incs) == 1);
    }
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    client_close(&c);
    free(bytes);
}

/* The client has moved memory of the third process, by a connection that the
 * client made: it has the name from the handle, and never looked it up. Its
 * calls are refused. */
HG_TEST_WHERE(client_is_not_called_by_the_process_whose_memory_it_moves,
    hg_test_crosses_processes)
{
    unsigned char *bytes = rpc_new_pattern(1000, 7);
    client_lend_t in = {NULL};
    client_move_t move = {HG_BULK_NULL, NULL, NULL, 0};
    client_lent_t theirs = {HG_BULK_NULL};
    struct client_case c;
    client_moved_t out;
    hg_request_t lend;
    hg_bulk_t own;
    unsigned i;

    hg_test_allow_log("refused a call of");
    client_open(&c);
    in.third = c.third_name;
    own = client_lend(bytes, 1000); /* sm: it can be reached from now on */
    lend = rpc_start_call(&c.end, client_lend_id, &in, &theirs);
    HG_CHECK_OK(rpc_wait(lend));
    move.bulk = theirs.bulk;
    for (i = 0; i < 2; i++) {
        memset(bytes, 0, 1000);
        HG_CHECK_OK(client_transfer(&move, bytes, 1000));
        HG_CHECK_EQ_U64(bytes[999], blob_byte(999));
        out = client_pass(&c, HG_BULK_NULL, c.third_name, c.own, false);
        HG_CHECK(out.called != HG_SUCCESS);
        if (hg_test_finds_callers())
            HG_CHECK_RET(out.called, HG_PERMISSION);
    }
    HG_CHECK(atomic_load(&client_incs) == 0);
    HG_CHECK_OK(HG_Request_free(lend));
    HG_CHECK_OK(HG_Bulk_handle_free(own));
    client_close(&c);
    free(bytes);
}
