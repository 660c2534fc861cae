/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which address a class has that listens on all interfaces, or names no host.
 *
 * Each case has a network namespace of its own, with these interfaces, as far
 * as it needs them:
 *
 *     lo
 *     dead    a veth whose other end is down: it has no carrier
 *     bridge  a bridge with a carrier
 *     lan     a veth with a carrier
 *
 * The namespace ends with its process. It needs root and ip(8).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "conform.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

/* Run commands of ip(8), separated by ';', without "ip". */
static void faces_ip(const char *commands)
{
    char line[128];
    size_t size;

    while (*commands != '\0') {
        size = strcspn(commands, ";");
        (void) snprintf(line, sizeof(line), "ip %.*s", (int) size, commands);
        HG_CHECK(system(line) == 0);
        commands += size + (commands[size] == ';');
    }
}

/* Wait until the system has noticed whether an interface has a carrier. */
static void faces_wait(const char *name, bool running)
{
    struct ifaddrs *all, *at;
    unsigned turns;
    bool is = !running;

    for (turns = 0; is != running; turns++) {
        HG_CHECK(turns < CONFORM_TIMEOUT);
        HG_CHECK(getifaddrs(&all) == 0);
        for (at = all; at != NULL; at = at->ifa_next) {
            if (strcmp(at->ifa_name, name) == 0)
                is = (at->ifa_flags & IFF_RUNNING) != 0;
        }
        freeifaddrs(all);
        (void) usleep(1000);
    }
}

/* A namespace with loopback; its interfaces get no addresses by themselves. */
static void faces_enter(void)
{
    if (hg_test_is_valgrind())
        hg_test_skip("valgrind also checks ip(8), which leaks");
    if (geteuid() != 0)
        hg_test_skip("only root can create network namespaces");
    if (system("ip link >/dev/null 2>&1") != 0)
        hg_test_skip("ip(8) is not installed");
    if (unshare(CLONE_NEWNET) != 0)
        hg_test_skip("network namespaces are not available");
    faces_ip("link set lo up");
    if (system("ip link add dead type veth peer name dead2 2>/dev/null && "
               "ip link add bridge type bridge 2>/dev/null && "
               "ip link add port type veth peer name port2 && "
               "ip link add lan type veth peer name lan2") != 0)
        hg_test_skip("veth pairs or bridges are not available");
    faces_ip("link set dead addrgenmode none;link set bridge addrgenmode none;"
             "link set lan addrgenmode none;link set dead up;"
             "link set port master bridge;link set port addrgenmode none up;"
             "link set port2 addrgenmode none up;link set bridge up;"
             "link set lan2 addrgenmode none up;link set lan up");
    faces_wait("dead", false);
    faces_wait("bridge", true);
    faces_wait("lan", true);
}

/* The address of a class at "scheme://HOST", without its port, is `want`. */
static void faces_check_as(na_bool_t listen, const struct na_init_info *info,
    const char *host, const char *want)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;
    char string[128], name[NA_MAX_ADDR_LEN], wanted[128];
    na_class_t *na_class;
    na_addr_t self;

    (void) snprintf(
        string, sizeof(string), "%s://%s", hg_test_transport(), host);
    na_class = NA_Initialize_opt(string, listen, info != NULL ? info : &fresh);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    *strrchr(name, ':') = '\0';
    (void) snprintf(wanted, sizeof(wanted), "%s", strstr(name, "://") + 3);
    if (strcmp(wanted, want) != 0)
        hg_test_fail(HG_TEST_HERE, "%s is at %s, not %s", string, wanted, want);
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void faces_check(
    const struct na_init_info *info, const char *host, const char *want)
{
    faces_check_as(NA_TRUE, info, host, want);
}

static bool faces_apply(void)
{
    return hg_test_crosses_hosts() && !hg_test_is_mux();
}

#define FACES_LOCAL "which other hosts cannot use"

HG_TEST_WHERE(host_for_all_is_one_that_others_reach, faces_apply)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    faces_enter();
    HG_CHECK_OK(HG_Set_log_level("debug")); /* so that every line counts */
    hg_test_expect_log("is 203.0.113.1 (dead), which other hosts cannot use");
    hg_test_expect_log(FACES_LOCAL);
    faces_check(NULL, "*", "127.0.0.1"); /* no other interface */
    HG_CHECK_EQ_INT(hg_test_log_count(FACES_LOCAL), 1);
    faces_ip("addr add 203.0.113.1/24 dev dead");
    faces_check(NULL, "*", "127.0.0.1");
    HG_CHECK_EQ_INT(hg_test_log_count(FACES_LOCAL), 2);
    faces_ip("addr add 169.254.7.7/16 dev lan");
    faces_check(NULL, "0.0.0.0", "169.254.7.7");
    faces_ip("addr add 172.17.0.1/16 dev bridge");
    faces_check(NULL, "*", "172.17.0.1");
    hg_test_expect_log("is 192.168.7.1 (lan), of: lo 127.0.0.1, dead "
                       "203.0.113.1 (no carrier), bridge 172.17.0.1, lan "
                       "169.254.7.7, lan 192.168.7.1");
    faces_ip("addr add 192.168.7.1/24 dev lan");
    faces_check(NULL, "*", "192.168.7.1");
    faces_ip("addr add 198.51.100.1/24 dev bridge");
    faces_check(NULL, "*", "198.51.100.1");
    faces_ip("addr add 192.0.2.1/24 dev lan");
    faces_check(NULL, "*", "192.0.2.1");
    HG_CHECK_EQ_INT(hg_test_log_count(FACES_LOCAL), 2);
    /* A subnet that the application names is used, even if its link is down. */
    info.ip_subnet = "203.0.113.0/24";
    faces_check(&info, "*", "203.0.113.1");
    faces_check(&info, "", "203.0.113.1");
    faces_check(NULL, "203.0.113.1", "203.0.113.1");
    if (hg_test_is_ofi())
        faces_check(NULL, "dead", "203.0.113.1");
}

HG_TEST_WHERE(host_for_all_is_link_local_as_a_last_resort, faces_apply)
{
    static const char scoped[] =
        "is fe80::7%lan (lan), which other hosts cannot use";
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    faces_enter();
    if (system("ip addr add fe80::7/64 dev lan nodad") != 0)
        hg_test_skip("no IPv6");
    info.addr_format = NA_ADDR_IPV6;
    hg_test_expect_log(scoped);
    faces_check(NULL, "[::]", "[fe80::7%lan]");
    faces_ip("addr add fd00::7/64 dev lan nodad");
    faces_check(NULL, "[::]", "[fd00::7]");
    faces_check(&info, "*", "[fd00::7]");
    faces_ip("addr add 2001:db8::7/64 dev bridge nodad");
    faces_check(NULL, "[::]", "[2001:db8::7]");
    faces_check(&info, "", "[::1]");
    HG_CHECK_EQ_INT(hg_test_log_count(scoped), 1);
}

/* The scope counts more than the family. Over ZeroMQ "*" is IPv4. */
HG_TEST_WHERE(host_for_all_is_of_the_widest_scope, faces_apply)
{
    const bool any = hg_test_is_ofi();
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    faces_enter();
    if (system("ip addr add fe80::7/64 dev lan nodad") != 0)
        hg_test_skip("no IPv6");
    faces_ip("addr add 169.254.7.7/16 dev lan");
    faces_check(NULL, "*", "169.254.7.7");
    faces_ip("addr add fd00::7/64 dev lan nodad");
    faces_check(NULL, "*", any ? "[fd00::7]" : "169.254.7.7");
    faces_ip("addr add 172.17.0.1/16 dev bridge");
    faces_check(NULL, "*", any ? "[fd00::7]" : "172.17.0.1");
    faces_ip("addr add 10.7.0.1/24 dev lan");
    faces_check(NULL, "*", "10.7.0.1");
    faces_ip("addr add 2001:db8::7/64 dev lan nodad");
    faces_check(NULL, "*", any ? "[2001:db8::7]" : "10.7.0.1");
    faces_check(NULL, "0.0.0.0", "10.7.0.1");
    info.addr_format = NA_ADDR_IPV4;
    faces_check(&info, "*", "10.7.0.1");
    faces_ip("addr add 192.0.2.1/24 dev lan");
    faces_check(NULL, "*", "192.0.2.1");
}

/* A client that names no host has IPv4, unless only IPv6 reaches others. */
HG_TEST_WHERE(host_of_a_client_has_ipv4_if_that_reaches_others, hg_test_is_ofi)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    faces_enter();
    if (system("ip addr add fd00::7/64 dev lan nodad") != 0)
        hg_test_skip("no IPv6");
    faces_ip("addr add 169.254.7.7/16 dev lan");
    faces_check_as(NA_FALSE, NULL, "", "[fd00::7]");
    faces_ip("addr add 10.7.0.1/24 dev lan");
    faces_ip("addr add 2001:db8::7/64 dev lan nodad");
    faces_check_as(NA_FALSE, NULL, "", "10.7.0.1");
    faces_check_as(NA_FALSE, NULL, "*", "[2001:db8::7]");
    info.addr_format = NA_ADDR_IPV6;
    faces_check_as(NA_FALSE, &info, "", "[2001:db8::7]");
}

static void faces_open(struct conform_end *end, na_bool_t listen)
{
    char scheme[64];

    (void) snprintf(scheme, sizeof(scheme), "%s://", hg_test_transport());
    end->na_class = NA_Initialize(scheme, listen);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

/* A server without a host is reached from its own host, by a client without a
 * host, which has an address that other hosts reach. */
HG_TEST_WHERE(host_that_is_not_given_is_loopback, faces_apply)
{
    struct conform_end server, client;
    struct conform_call call;
    char name[NA_MAX_ADDR_LEN];

    faces_enter();
    faces_ip("addr add 192.0.2.1/24 dev lan");
    faces_check(NULL, "", "127.0.0.1");
    faces_check(NULL, ":0", "127.0.0.1");
    faces_open(&server, NA_TRUE);
    faces_open(&client, NA_FALSE);
    HG_CHECK_OK(
        NA_Addr_to_string(server.na_class, name, sizeof(name), server.self));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(
        client.na_class, client.context, conform_ended, &call, name, &call.id));
    while (call.ends == 0) {
        (void) conform_turn(server.na_class, server.context, 0);
        (void) conform_turn(client.na_class, client.context, 0);
    }
    HG_CHECK_OK(call.ret);
    HG_CHECK_OK(NA_Addr_free(client.na_class, call.addr));
    conform_close(&client);
    conform_close(&server);
}
