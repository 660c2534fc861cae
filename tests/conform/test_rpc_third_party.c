/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk handles passed on, in the request model: one process owns memory and
 * returns a handle, this process passes it on, and a third one moves the data,
 * using the owner's address, or that in a bound handle. On every transport that
 * reaches other processes.
 */
#include "rpc.h"

#define THIRD_SIZE 65536u

MERCURY_GEN_PROC(third_exposed_t, ((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(
    third_move_t, ((hg_bulk_t) (bulk))((hg_string_t) (owner))((uint8_t) (push)))
MERCURY_GEN_PROC(third_moved_t, ((int32_t) (ret))((uint8_t) (same)))

static hg_id_t third_expose_id, third_free_id, third_move_id;

/* ---- The owner ---- */

static hg_bulk_t third_exposed;
static bool third_binds;
static unsigned char *third_memory;

static hg_return_t third_expose(hg_handle_t handle)
{
    size_t sizes[2] = {THIRD_SIZE / 2, THIRD_SIZE / 2};
    void *ptrs[2];
    third_exposed_t out;

    third_memory = rpc_new_pattern(THIRD_SIZE, 7);
    ptrs[0] = third_memory;
    ptrs[1] = third_memory + THIRD_SIZE / 2;
    HG_CHECK_OK(HG_Bulk_handle_create(
        2, ptrs, sizes, HG_BULK_READWRITE, &third_exposed));
    if (third_binds)
        HG_CHECK_OK(HG_Bulk_handle_bind(third_exposed));
    out.bulk = third_exposed;
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static hg_return_t third_free(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_handle_free(third_exposed));
    free(third_memory);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* ---- The third process ---- */

static hg_return_t third_transfer(
    na_addr_t addr, const third_move_t *in, hg_bulk_t local)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_return_t ret = HG_Bulk_transfer(in->push ? HG_BULK_PUSH : HG_BULK_PULL,
        addr, in->bulk, 0, local, 0, THIRD_SIZE, &request);

    return ret == HG_SUCCESS
        ? HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE)
        : ret;
}

/* The owner's address; without a name, the caller's, duplicated. "": none. */
static na_addr_t third_find(
    na_class_t *na_class, na_addr_t caller, const char *name)
{
    na_addr_t addr = NA_ADDR_NULL;

    if (name != NULL && name[0] == '\0')
        return NA_ADDR_NULL;
    if (name != NULL)
        HG_CHECK_OK(NA_Addr_lookup_wait(na_class, name, RPC_TIMEOUT, &addr));
    else
        HG_CHECK_OK(NA_Addr_dup(na_class, caller, &addr));
    return addr;
}

static na_class_t *third_class;

/* Pull, and compare with the pattern of the owner; or push another pattern. */
static hg_return_t third_move(hg_handle_t handle)
{
    unsigned char *want = rpc_new_pattern(THIRD_SIZE, 7);
    unsigned char *bytes = rpc_new_pattern(THIRD_SIZE, 8);
    size_t size = THIRD_SIZE;
    third_moved_t out = {0, 0};
    void *ptr = bytes;
    hg_bulk_t local;
    third_move_t in;
    na_addr_t addr;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(in.bulk), 2);
    addr = third_find(third_class, HG_Handler_get_addr(handle), in.owner);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &local));
    out.ret = (int32_t) third_transfer(addr, &in, local);
    out.same = memcmp(bytes, want, THIRD_SIZE) == 0;
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    if (addr != NA_ADDR_NULL)
        HG_CHECK_OK(NA_Addr_free(third_class, addr));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    free(bytes);
    free(want);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    third_expose_id =
        MERCURY_REGISTER("pass lend", void, third_exposed_t, third_expose);
    third_free_id = MERCURY_REGISTER("pass free", void, void, third_free);
    third_move_id =
        MERCURY_REGISTER("pass move", third_move_t, third_moved_t, third_move);
    HG_CHECK(third_expose_id != 0 && third_free_id != 0 && third_move_id != 0);
}

/* A server that knows the class on which it looks up owners. */
HG_TEST_ROLE(third)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_allow_log(""); /* the client checks the results it gets */
    options.bulk_checksum = strcmp(argv[1], "checked") == 0;
    third_binds = strcmp(argv[1], "bound") == 0;
    rpc_start(&end, &options, strcmp(argv[0], "separate") == 0);
    third_class = end.na_class;
    rpc_serve(&end);
    rpc_end(&end);
}

/* ---- The process between ---- */

struct third_case {
    struct rpc_end end; /* its target is the third process */
    struct hg_test_peer *owner;
    char *name; /* the owner's name */
    na_addr_t owner_addr;
    hg_request_t lend; /* its output holds the handle */
    third_exposed_t lent;
};

static void third_open(struct third_case *c, bool separate, const char *how)
{
    const char *layers = separate ? "separate" : "one";

    memset(c, 0, sizeof(*c));
    rpc_start(&c->end, NULL, separate);
    c->end.peer = hg_test_spawn("third", layers, how, (char *) NULL);
    rpc_find_peer(&c->end);
    c->owner = hg_test_spawn("third", layers, how, (char *) NULL);
    c->name = hg_test_read_peer(c->owner);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        c->end.na_class, c->name, RPC_TIMEOUT, &c->owner_addr));
    HG_CHECK_OK(
        HG_Forward(c->owner_addr, third_expose_id, NULL, &c->lent, &c->lend));
    HG_CHECK_OK(rpc_wait(c->lend));
}

static void third_close(struct third_case *c)
{
    HG_CHECK_OK(HG_Request_free(c->lend));
    HG_CHECK_OK(NA_Addr_free(c->end.na_class, c->owner_addr));
    rpc_close(&c->end);
    hg_test_stop(c->owner);
    free(c->name);
}

/* The owner frees its handle. */
static void third_return(struct third_case *c)
{
    hg_request_t request;

    HG_CHECK_OK(HG_Forward(c->owner_addr, third_free_id, NULL, NULL, &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
}

static hg_return_t third_ask(
    struct third_case *c, hg_string_t owner, bool push, bool *same_p)
{
    third_move_t in = {c->lent.bulk, owner, push};
    third_moved_t out = {0, 0};

    HG_CHECK_OK(rpc_call(&c->end, third_move_id, &in, &out));
    *same_p = out.same != 0;
    return (hg_return_t) out.ret;
}

static void third_try(bool separate, const char *how)
{
    struct third_case c;
    bool same;

    third_open(&c, separate, how);
    HG_CHECK_OK(third_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    HG_CHECK_OK(third_ask(&c, c.name, true, &same));
    HG_CHECK_OK(third_ask(&c, c.name, false, &same));
    HG_CHECK(!same); /* data was pushed to it */
    third_return(&c);
    third_close(&c);
}

HG_TEST_WHERE(third_party_moves_data, hg_test_crosses_processes)
{
    third_try(false, "plain");
}

static bool third_may_check(void)
{
    return hg_test_crosses_processes() && hg_test_moves_in_messages();
}

HG_TEST_WHERE(third_party_with_checksums, third_may_check)
{
    third_try(false, "checked");
}

/* The handle carries its address on the bulk class. */
HG_TEST_WHERE(third_party_on_a_separate_class, hg_test_crosses_processes)
{
    third_try(true, "plain");
}

/* With the address in the handle, and with another one. */
static void third_try_bound(bool separate)
{
    char none[] = "";
    struct third_case c;
    bool same;

    third_open(&c, separate, "bound");
    HG_CHECK_OK(third_ask(&c, none, false, &same));
    HG_CHECK(same);
    HG_CHECK_OK(third_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    HG_CHECK_OK(third_ask(&c, none, true, &same));
    HG_CHECK_OK(third_ask(&c, none, false, &same));
    HG_CHECK(!same); /* data was pushed to it */
    hg_test_expect_log("HG_Bulk_handle_bind: the handle is of a peer's memory");
    HG_CHECK_RET(HG_Bulk_handle_bind(c.lent.bulk), HG_INVALID_ARG);
    third_return(&c);
    third_close(&c);
}

HG_TEST_WHERE(third_party_moves_bound_memory, hg_test_crosses_processes)
{
    third_try_bound(false);
}

HG_TEST_WHERE(third_party_moves_bound_memory_on_a_separate_class,
    hg_test_crosses_processes)
{
    third_try_bound(true);
}

/* A peer wrote the address in the handle. */
HG_TEST_WHERE(
    third_party_follows_the_address_it_is_given, hg_test_crosses_processes)
{
    struct third_case c;
    bool same;

    third_open(&c, false, "bound");
    HG_CHECK_RET(third_ask(&c, NULL, false, &same), HG_NOENTRY);
    HG_CHECK_RET(third_ask(&c, NULL, true, &same), HG_NOENTRY);
    HG_CHECK(!same);
    third_return(&c);
    third_close(&c);
}

/* The handle is not bound. */
HG_TEST_WHERE(third_party_needs_an_address, hg_test_crosses_processes)
{
    char none[] = "";
    struct third_case c;
    bool same;

    third_open(&c, false, "plain");
    HG_CHECK_RET(third_ask(&c, none, false, &same), HG_INVALID_ARG);
    third_return(&c);
    third_close(&c);
}

/* Memory of this process needs no address. */
HG_TEST(bound_handle_of_this_process)
{
    unsigned char bytes[2][1000] = {{1}, {2}};
    void *ptrs[2] = {bytes[0], bytes[1]};
    size_t size = sizeof(bytes[0]);
    hg_bulk_request_t request;
    hg_bulk_t bulks[2];
    struct rpc_end end;
    int i;

    rpc_start(&end, NULL, false);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_handle_create(
            1, &ptrs[i], &size, HG_BULK_READWRITE, &bulks[i]));
    hg_test_expect_log("the address is NULL");
    HG_CHECK_RET(HG_Bulk_transfer(HG_BULK_PULL, NA_ADDR_NULL, bulks[0], 0,
                     bulks[1], 0, size, &request),
        HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_handle_bind(bulks[0]));
    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, NA_ADDR_NULL, bulks[0], 0, bulks[1], 0, size, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_EQ_MEM(bytes[1], bytes[0], size);
    hg_test_expect_log("HG_Bulk_handle_bind: the handle is bound already");
    HG_CHECK_RET(HG_Bulk_handle_bind(bulks[0]), HG_INVALID_ARG);
    hg_test_expect_log("HG_Bulk_handle_bind: the handle is NULL");
    HG_CHECK_RET(HG_Bulk_handle_bind(HG_BULK_NULL), HG_INVALID_ARG);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_handle_free(bulks[i]));
    rpc_end(&end);
}

HG_TEST_WHERE(third_party_of_freed_memory_fails, hg_test_crosses_processes)
{
    struct third_case c;
    bool same;

    third_open(&c, false, "plain");
    HG_CHECK_OK(third_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    third_return(&c);
    HG_CHECK_RET(third_ask(&c, c.name, false, &same), HG_NOENTRY);
    third_close(&c);
}

HG_TEST_WHERE(third_party_with_a_wrong_address_fails, hg_test_crosses_processes)
{
    struct third_case c;
    bool same;

    third_open(&c, false, "plain");
    HG_CHECK_RET(third_ask(&c, NULL, false, &same), HG_NOENTRY);
    HG_CHECK(!same);
    HG_CHECK_RET(third_ask(&c, NULL, true, &same), HG_NOENTRY);
    HG_CHECK_OK(third_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    third_return(&c);
    third_close(&c);
}
