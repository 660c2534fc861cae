/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that do not listen: which peers can call them.
 */
#include "rpc.h"

static hg_id_t client_inc_id;
static atomic_uint client_incs; /* executed here */

static hg_return_t client_inc(hg_handle_t handle)
{
    atomic_fetch_add(&client_incs, 1);
    return rpc_inc(handle);
}

static void rpc_register(void)
{
    client_inc_id =
        MERCURY_REGISTER("client inc", rpc_one_t, rpc_one_t, client_inc);
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
