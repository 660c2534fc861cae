/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk handles passed on, in the request model: one process owns memory and
 * returns a handle, this process passes it on, and a third one moves the data,
 * using the owner's address. On every transport that reaches other processes.
 */
#include "rpc.h"

#define PASS_SIZE 65536u

MERCURY_GEN_PROC(pass_exposed_t, ((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(
    pass_move_t, ((hg_bulk_t) (bulk))((hg_string_t) (owner))((uint8_t) (push)))
MERCURY_GEN_PROC(pass_moved_t, ((int32_t) (ret))((uint8_t) (same)))

static hg_id_t pass_expose_id, pass_free_id, pass_move_id;

/* ---- The owner ---- */

static hg_bulk_t pass_exposed;
static unsigned char *pass_memory;

static hg_return_t pass_expose(hg_handle_t handle)
{
    size_t sizes[2] = {PASS_SIZE / 2, PASS_SIZE / 2};
    void *ptrs[2];
    pass_exposed_t out;

    pass_memory = rpc_new_pattern(PASS_SIZE, 7);
    ptrs[0] = pass_memory;
    ptrs[1] = pass_memory + PASS_SIZE / 2;
    HG_CHECK_OK(HG_Bulk_handle_create(
        2, ptrs, sizes, HG_BULK_READWRITE, &pass_exposed));
    out.bulk = pass_exposed;
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static hg_return_t pass_free(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_handle_free(pass_exposed));
    free(pass_memory);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* ---- The third process ---- */

static hg_return_t pass_transfer(
    na_addr_t addr, const pass_move_t *in, hg_bulk_t local)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_return_t ret = HG_Bulk_transfer(in->push ? HG_BULK_PUSH : HG_BULK_PULL,
        addr, in->bulk, 0, local, 0, PASS_SIZE, &request);

    return ret == HG_SUCCESS
        ? HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE)
        : ret;
}

/* The owner's address; without a name, the caller's, duplicated. */
static na_addr_t pass_find(
    na_class_t *na_class, na_addr_t caller, const char *name)
{
    na_addr_t addr = NA_ADDR_NULL;

    if (name != NULL)
        HG_CHECK_OK(NA_Addr_lookup_wait(na_class, name, RPC_TIMEOUT, &addr));
    else
        HG_CHECK_OK(NA_Addr_dup(na_class, caller, &addr));
    return addr;
}

static na_class_t *pass_class;

/* Pull, and compare with the pattern of the owner; or push another pattern. */
static hg_return_t pass_move(hg_handle_t handle)
{
    unsigned char *want = rpc_new_pattern(PASS_SIZE, 7);
    unsigned char *bytes = rpc_new_pattern(PASS_SIZE, 8);
    size_t size = PASS_SIZE;
    pass_moved_t out = {0, 0};
    void *ptr = bytes;
    hg_bulk_t local;
    pass_move_t in;
    na_addr_t addr;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    HG_CHECK_EQ_U64(HG_Bulk_handle_get_segment_count(in.bulk), 2);
    addr = pass_find(pass_class, HG_Handler_get_addr(handle), in.owner);
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &local));
    out.ret = (int32_t) pass_transfer(addr, &in, local);
    out.same = memcmp(bytes, want, PASS_SIZE) == 0;
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(NA_Addr_free(pass_class, addr));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    free(bytes);
    free(want);
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    pass_expose_id =
        MERCURY_REGISTER("pass lend", void, pass_exposed_t, pass_expose);
    pass_free_id = MERCURY_REGISTER("pass free", void, void, pass_free);
    pass_move_id =
        MERCURY_REGISTER("pass move", pass_move_t, pass_moved_t, pass_move);
    HG_CHECK(pass_expose_id != 0 && pass_free_id != 0 && pass_move_id != 0);
}

/* A server that knows the class on which it looks up owners. */
HG_TEST_ROLE(third)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_allow_log(""); /* the client checks the results it gets */
    options.bulk_checksum = strcmp(argv[1], "checked") == 0;
    rpc_start(&end, &options, strcmp(argv[0], "separate") == 0);
    pass_class = end.na_class;
    rpc_serve(&end);
    rpc_end(&end);
}

/* ---- The process between ---- */

struct pass_case {
    struct rpc_end end; /* its target is the third process */
    struct hg_test_peer *owner;
    char *name; /* the owner's name */
    na_addr_t owner_addr;
    hg_request_t lend; /* its output holds the handle */
    pass_exposed_t lent;
};

static void pass_open(struct pass_case *c, bool separate, const char *how)
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
        HG_Forward(c->owner_addr, pass_expose_id, NULL, &c->lent, &c->lend));
    HG_CHECK_OK(rpc_wait(c->lend));
}

static void pass_close(struct pass_case *c)
{
    HG_CHECK_OK(HG_Request_free(c->lend));
    HG_CHECK_OK(NA_Addr_free(c->end.na_class, c->owner_addr));
    rpc_close(&c->end);
    hg_test_stop(c->owner);
    free(c->name);
}

/* The owner frees its handle. */
static void pass_return(struct pass_case *c)
{
    hg_request_t request;

    HG_CHECK_OK(HG_Forward(c->owner_addr, pass_free_id, NULL, NULL, &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
}

static hg_return_t pass_ask(
    struct pass_case *c, hg_string_t owner, bool push, bool *same_p)
{
    pass_move_t in = {c->lent.bulk, owner, push};
    pass_moved_t out = {0, 0};

    HG_CHECK_OK(rpc_call(&c->end, pass_move_id, &in, &out));
    *same_p = out.same != 0;
    return (hg_return_t) out.ret;
}

static void pass_try(bool separate, const char *how)
{
    struct pass_case c;
    bool same;

    pass_open(&c, separate, how);
    HG_CHECK_OK(pass_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    HG_CHECK_OK(pass_ask(&c, c.name, true, &same));
    HG_CHECK_OK(pass_ask(&c, c.name, false, &same));
    HG_CHECK(!same); /* data was pushed to it */
    pass_return(&c);
    pass_close(&c);
}

HG_TEST_WHERE(third_party_moves_data, hg_test_crosses_processes)
{
    pass_try(false, "plain");
}

static bool pass_may_check(void)
{
    return hg_test_crosses_processes() && hg_test_moves_in_messages();
}

HG_TEST_WHERE(third_party_with_checksums, pass_may_check)
{
    pass_try(false, "checked");
}

/* The handle carries its address on the bulk class. */
HG_TEST_WHERE(third_party_on_a_separate_class, hg_test_crosses_processes)
{
    pass_try(true, "plain");
}

HG_TEST_WHERE(third_party_of_freed_memory_fails, hg_test_crosses_processes)
{
    struct pass_case c;
    bool same;

    pass_open(&c, false, "plain");
    HG_CHECK_OK(pass_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    pass_return(&c);
    HG_CHECK_RET(pass_ask(&c, c.name, false, &same), HG_NOENTRY);
    pass_close(&c);
}

HG_TEST_WHERE(third_party_with_a_wrong_address_fails, hg_test_crosses_processes)
{
    struct pass_case c;
    bool same;

    pass_open(&c, false, "plain");
    HG_CHECK_RET(pass_ask(&c, NULL, false, &same), HG_NOENTRY);
    HG_CHECK(!same);
    HG_CHECK_RET(pass_ask(&c, NULL, true, &same), HG_NOENTRY);
    HG_CHECK_OK(pass_ask(&c, c.name, false, &same));
    HG_CHECK(same);
    pass_return(&c);
    pass_close(&c);
}
