/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts whose link loses packets or goes down.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "hosts.h"

/* Wait for operations that the link failure ends, not longer than
 * documented. */
static void hosts_disconnects(hg_request_t request, uint64_t cut)
{
    uint64_t took;

    HG_CHECK_RET(rpc_wait(request), HG_DISCONNECT);
    took = hosts_now_ms() - cut;
    if (took > HOSTS_LATE * HOSTS_DEATH_MS)
        hg_test_fail(HG_TEST_HERE, "%" PRIu64 " ms after the cut", took);
    HG_CHECK_OK(HG_Request_free(request));
}

/* The address is dead, and a lookup of its name fails. */
static void hosts_is_gone(const struct rpc_end *end, const char *address)
{
    uint64_t started = hosts_now_ms();
    na_addr_t addr;
    hg_request_t late;
    rpc_one_t one = {1};

    HG_CHECK_RET(HG_Forward(end->target, hosts_inc_id, &one, NULL, &late),
        HG_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    HG_CHECK(hosts_now_ms() - started <= HOSTS_LATE * HOSTS_LOOKUP_MS);
}

/* The link is up again. */
static void hosts_is_back(struct rpc_end *end, const char *address)
{
    uint64_t started = hosts_now_ms();

    /* The first packets may be lost before the link is up again. */
    while (NA_Addr_lookup_wait(
               end->na_class, address, RPC_TIMEOUT, &end->target) != NA_SUCCESS)
        HG_CHECK(hosts_now_ms() - started < RPC_TIMEOUT);
    hosts_call(end);
    hosts_exchange(end);
}

/* ---- Cases ---- */

HG_TEST_WHERE(hosts_lose_packets, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN], prefix[32];
    struct rpc_end end;

    hosts_open(&end, true, address);
    (void) snprintf(prefix, sizeof(prefix), "nsenter -t %ld -n",
        (long) hg_test_peer_pid(end.peer));
    do {
        hosts_call_many(&end);
        hosts_exchange(&end);
    } while (hosts_lost("") < 5 || hosts_lost(prefix) < 5);
    rpc_close(&end);
}

HG_TEST_WHERE(hosts_without_a_link_end_their_calls, hg_test_crosses_hosts)
{
    enum { COUNT = 20 };
    char address[NA_MAX_ADDR_LEN];
    hg_request_t requests[COUNT];
    rpc_one_t one = {1};
    struct rpc_end end;
    uint64_t cut;
    int i;

    hosts_open(&end, false, address);
    for (i = 0; i < COUNT; i++)
        requests[i] = rpc_start_call(&end, hosts_keep_id, &one, NULL);
    hosts_call(&end); /* all have arrived */
    HG_CHECK(hosts_try("ip link set here down"));
    cut = hosts_now_ms();
    for (i = 0; i < COUNT; i++)
        hosts_disconnects(requests[i], cut);
    hosts_is_gone(&end, address);
    HG_CHECK(hosts_try("ip link set here up"));
    hosts_is_back(&end, address);
    rpc_close(&end);
}

HG_TEST_WHERE(hosts_without_a_link_end_their_transfers, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN];
    hg_request_t request;
    hosts_move_t move;
    unsigned char *bytes, first;
    struct rpc_end end;
    char *line, *took;
    uint64_t cut;

    hosts_open(&end, false, address);
    bytes = hosts_describe(&move, 0);
    first = bytes[0];
    request = rpc_start_call(&end, hosts_move_id, &move, NULL);
    while ((unsigned char) (bytes[0] - first) < 2) /* until the second round */
        HG_CHECK_RET(HG_Wait(request, 1, HG_STATUS_IGNORE), HG_TIMEOUT);
    line = hg_test_read_peer(end.peer); /* of the first one */
    HG_CHECK_OK(strtol(line, NULL, 10));
    free(line);
    HOSTS_THERE_DO(&end, "ip link set there down");
    cut = hosts_now_ms();
    hosts_disconnects(request, cut);
    HG_CHECK_OK(HG_Bulk_handle_free(move.bulk));
    free(bytes);
    line = hg_test_read_peer(end.peer);
    HG_CHECK_RET(strtol(line, &took, 10), HG_DISCONNECT);
    HG_CHECK(strtoul(took, NULL, 10) <= HOSTS_LATE * HOSTS_DEATH_MS);
    free(line);
    hosts_is_gone(&end, address);
    HOSTS_THERE_DO(&end, "ip link set there up");
    hosts_is_back(&end, address);
    rpc_close(&end);
}

/* A link failure shorter than death_ms ends nothing. */
HG_TEST_WHERE(hosts_survive_a_short_link_failure, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN];
    hg_request_t request;
    rpc_one_t one = {1};
    struct rpc_end end;

    hosts_open(&end, false, address);
    hosts_call(&end);
    HOSTS_THERE_DO(&end, "ip link set there down");
    request = rpc_start_call(&end, hosts_inc_id, &one, &one);
    HG_CHECK_RET(
        HG_Wait(request, HOSTS_DEATH_MS / 4, HG_STATUS_IGNORE), HG_TIMEOUT);
    HOSTS_THERE_DO(&end, "ip link set there up");
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Request_free(request));
    hosts_exchange(&end);
    rpc_close(&end);
}
