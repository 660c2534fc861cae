/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that its server cannot connect to: responses and bulk data take the
 * connections that the client made. Over TCP; the other providers of libfabric
 * make no such promise.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "hosts.h"

#define FIREWALL_INSIDE "198.51.100.1" /* which the server cannot reach */
#define FIREWALL_SNAT "-j SNAT --to-source " HOSTS_HERE

static bool firewall_is_passed(void)
{
    return hg_test_crosses_hosts() && strstr(hg_test_transport(), "tcp") &&
        !hg_test_is_mux();
}

/* Run commands that change the firewall of this host. */
#define FIREWALL_DO(...) \
    do { \
        if (!hosts_try(__VA_ARGS__)) \
            hg_test_skip("iptables(8) does not work"); \
    } while (0)

static na_return_t firewall_found(const struct na_cb_info *info)
{
    na_addr_t *addr = (na_addr_t *) info->arg;

    HG_CHECK_OK(info->ret);
    *addr = info->info.lookup.addr;
    return NA_SUCCESS;
}

/* Look up the other host, from a context of its own. */
static void firewall_lookup(struct rpc_end *end, const char *address)
{
    na_context_t *context = NA_Context_create(end->na_class);
    uint64_t stop = hosts_now_ms() + RPC_TIMEOUT;

    HG_CHECK(context != NULL);
    HG_CHECK_OK(NA_Addr_lookup(end->na_class, context, firewall_found,
        &end->target, address, NA_OP_ID_IGNORE));
    while (end->target == NA_ADDR_NULL) {
        HG_CHECK(hosts_now_ms() < stop);
        (void) NA_Progress(end->na_class, context, 20);
        (void) NA_Trigger(context, 0, 1, NULL);
    }
    HG_CHECK_OK(NA_Context_destroy(end->na_class, context));
}

/* This host, at `host`, does not listen; it calls the other, which moves its
 * memory. */
static void firewall_pass(
    struct rpc_end *end, const char *host, const char *address)
{
    hosts_start(end, host, NA_FALSE);
    firewall_lookup(end, address);
    hosts_call_many(end);
    hosts_exchange(end);
    hosts_call_many(end);
    rpc_close(end);
}

HG_TEST_WHERE(firewall_that_drops_is_passed, firewall_is_passed)
{
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;

    hosts_join(&end, false, address);
    FIREWALL_DO("iptables -A INPUT -i here -p tcp --syn -j DROP");
    firewall_pass(&end, HOSTS_HERE, address);
}

HG_TEST_WHERE(firewall_that_rejects_is_passed, firewall_is_passed)
{
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;

    hosts_join(&end, false, address);
    FIREWALL_DO("iptables -A INPUT -i here -p tcp --syn -j REJECT");
    firewall_pass(&end, HOSTS_HERE, address);
}

/* The server sees another address than the client's own one. */
HG_TEST_WHERE(address_translation_is_passed, firewall_is_passed)
{
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;

    hosts_join(&end, false, address);
    FIREWALL_DO("ip addr add " FIREWALL_INSIDE "/32 dev lo && "
                "iptables -t nat -A POSTROUTING -o here " FIREWALL_SNAT);
    firewall_pass(&end, FIREWALL_INSIDE, address);
}

/* Over libfabric the client cannot connect to the server's endpoint for puts
 * and gets: after lookup_ms the server connects to the client. */
HG_TEST_WHERE(server_with_one_open_port_is_passed, firewall_is_passed)
{
    char address[NA_MAX_ADDR_LEN];
    struct rpc_end end;

    hosts_join(&end, false, address);
    FIREWALL_DO("iptables -A OUTPUT -o here -p tcp --syn ! --dport %s "
                "-j REJECT --reject-with tcp-reset",
        strrchr(address, ':') + 1);
    firewall_pass(&end, HOSTS_HERE, address);
    if (hg_test_is_ofi()) /* the rule has met packets */
        HG_CHECK(hosts_try(
            "iptables -nvxL OUTPUT | awk '/REJECT/ { exit $1 == 0 }'"));
}
