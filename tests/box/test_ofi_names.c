/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address strings of the libfabric transport: which can be listened on and
 * looked up, and the error for each of the others.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "endpoints.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* ---- Listening ---- */

/* A listener with these options has a name that begins with this prefix. A
 * client finds it by that name, with and without the transport's prefix. */
static void names_check(
    const char *string, const struct na_init_info *info, const char *begin)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN], other[300];
    na_addr_t addr;

    endpoint_open_info(&server, string, NA_TRUE, info);
    endpoint_open_client(&client, &server, info);
    endpoint_name(&server, server.self, name);
    if (strncmp(name, begin, strlen(begin)) != 0)
        hg_test_fail(HG_TEST_HERE, "%s is %s, not %s", string, name, begin);
    HG_CHECK(strstr(name, "0.0.0.0") == NULL && strchr(name, '*') == NULL);
    addr = endpoint_lookup_both(&client, &server, name);
    endpoint_name(&client, addr, seen);
    HG_CHECK_EQ_STR(seen, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    (void) snprintf(other, sizeof(other), "%s", name + strlen("ofi+"));
    addr = endpoint_lookup_both(&client, &server, other);
    endpoint_name(&client, addr, seen);
    HG_CHECK_EQ_STR(seen, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(every_way_to_listen_gives_a_name_to_look_up)
{
    static const struct {
        const char *string;
        const char *begin;
    } ways[] = {
        {"ofi+tcp://127.0.0.1", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://127.0.0.1:0", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://localhost:*", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://lo", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://lo:0", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://lo/127.0.0.1:0", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://lo/", "ofi+tcp://127.0.0.1:"},
        {"ofi+tcp://", "ofi+tcp://"},
        {"ofi+tcp://:0", "ofi+tcp://"},
        {"ofi+tcp://*", "ofi+tcp://"},
        {"ofi+tcp://0.0.0.0:0", "ofi+tcp://"},
        {"ofi+net://lo", "ofi+net://127.0.0.1:"},
        {"ofi+tcp;ofi_rxm://lo", "ofi+tcp;ofi_rxm://127.0.0.1:"},
        {"ofi+sockets://lo", "ofi+sockets://127.0.0.1:"},
        {"ofi+udp://lo", "ofi+udp://127.0.0.1:"},
        {"ofi+udp;ofi_rxd://lo:0", "ofi+udp;ofi_rxd://127.0.0.1:"},
        {"ofi+shm://", "ofi+shm://hg-"},
        {"ofi+shm://*", "ofi+shm://hg-"},
    };
    char string[64];
    size_t i;

    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        names_check(ways[i].string, NULL, ways[i].begin);
    (void) snprintf(
        string, sizeof(string), "ofi+shm://hg-test-a:b-%ld", (long) getpid());
    names_check(string, NULL, string);
}

/* Skip the case on a host without IPv6. */
static void names_need_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 {
        sa_family_t family;
        unsigned char rest[26];
    } where = {AF_INET6, {[21] = 1}};

    if (fd < 0 ||
        bind(fd, (const struct sockaddr *) (const void *) &where,
            sizeof(where)) != 0)
        hg_test_skip("no IPv6 loopback");
    (void) close(fd);
}

HG_TEST(ipv6_works_where_the_host_has_it)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    names_need_ipv6();
    info.addr_format = NA_ADDR_IPV6;
    names_check("ofi+tcp://[::1]", &info, "ofi+tcp://[::1]:");
    names_check("ofi+tcp://lo", &info, "ofi+tcp://[::1]:");
    names_check("ofi+tcp;ofi_rxm://lo", &info, "ofi+tcp;ofi_rxm://[::1]:");
    names_check("ofi+tcp://*", &info, "ofi+tcp://[");
    names_check("ofi+tcp://[::]", &info, "ofi+tcp://[");
    info.addr_format = NA_ADDR_IPV4;
    names_check("ofi+tcp://lo", &info, "ofi+tcp://127.0.0.1:");
}

HG_TEST(ip_subnet_chooses_the_interface)
{
    static const char *const strings[] = {
        "ofi+tcp://", "ofi+tcp://:0", "ofi+tcp://*", "ofi+tcp;ofi_rxm://"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    size_t i;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        char begin[64];

        info.ip_subnet = i % 2 == 0 ? "127.0.0.0/8" : "127";
        (void) snprintf(begin, sizeof(begin),
            "%.*s127.0.0.1:", (int) (strstr(strings[i], "//") + 2 - strings[i]),
            strings[i]);
        names_check(strings[i], &info, begin);
    }
    info.ip_subnet = "127.0.0.1/32";
    names_check("ofi+tcp://lo", &info, "ofi+tcp://127.0.0.1:");
    info.ip_subnet = "";
    names_check("ofi+tcp://", &info, "ofi+tcp://");
}

/* Move memory to and from a server in the same process. */
static void names_move(
    struct conform_end *client, struct conform_end *server, na_addr_t addr)
{
    static unsigned char there[100000], here[sizeof(there)];
    na_mem_handle_t mem = endpoint_register(server, there, sizeof(there));
    na_mem_handle_t local = endpoint_register(client, here, sizeof(here));
    na_mem_handle_t remote;
    unsigned char bytes[256];
    na_size_t size = NA_Mem_handle_get_serialize_size(server->na_class, mem);
    struct conform_call call;

    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(server->na_class, bytes, sizeof(bytes), mem));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(client->na_class, &remote, bytes, size));
    conform_fill(here, sizeof(here), 1);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Put(client->na_class, client->context, conform_ended, &call,
        local, 0, remote, 0, sizeof(here), addr, &call.id));
    HG_CHECK_OK(endpoint_wait_both(client, server, &call));
    HG_CHECK_EQ_MEM(there, here, sizeof(here));
    conform_fill(there, sizeof(there), 2);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(client->na_class, client->context, conform_ended, &call,
        local, 0, remote, 0, sizeof(here), addr, &call.id));
    HG_CHECK_OK(endpoint_wait_both(client, server, &call));
    HG_CHECK_EQ_MEM(there, here, sizeof(here));
    HG_CHECK_OK(NA_Mem_handle_free(client->na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(client->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(server->na_class, mem));
}

/* They can be closed in any order. */
HG_TEST(classes_of_one_process_are_peers)
{
    static const char *const strings[] = {"ofi+shm://", "ofi+tcp://lo",
        "ofi+tcp;ofi_rxm://lo", "ofi+sockets://lo", "ofi+udp://lo"};
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    size_t i;

    for (i = 0; i < 2 * sizeof(strings) / sizeof(strings[0]); i++) {
        endpoint_open_info(&server, strings[i / 2], NA_TRUE, NULL);
        endpoint_open_client(&client, &server, NULL);
        endpoint_name(&server, server.self, name);
        addr = endpoint_lookup_both(&client, &server, name);
        names_move(&client, &server, addr);
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        conform_close(i % 2 == 0 ? &client : &server);
        conform_close(i % 2 == 0 ? &server : &client);
    }
}

/* Send a byte from another context of the client, created for this. */
static void names_send(
    struct conform_end *client, struct conform_end *server, na_addr_t addr)
{
    struct conform_end other = *client;
    struct conform_call recv, send;
    char got[8];

    other.context = NA_Context_create(client->na_class);
    HG_CHECK(other.context != NULL);
    HG_CHECK_OK(conform_recv(server, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(client->na_class, other.context,
        conform_ended, &send, "x", 1, addr, 0, &send.id));
    HG_CHECK_OK(endpoint_wait_both(&other, server, &recv));
    HG_CHECK_OK(endpoint_wait_both(&other, server, &send));
    HG_CHECK(recv.size == 1 && got[0] == 'x');
    conform_free_addr(server, &recv);
    HG_CHECK_OK(NA_Context_destroy(client->na_class, other.context));
}

/* With the longest name too, whose contexts have longer ones. */
HG_TEST(contexts_of_two_classes_of_one_process_communicate)
{
    struct conform_end server, client;
    char string[128], name[NA_MAX_ADDR_LEN];
    na_context_t *context;
    na_addr_t addr;
    unsigned i;

    (void) snprintf(
        string, sizeof(string), "ofi+shm://hg-test-%084ld", (long) getpid());
    endpoint_open(&server, string, 1000);
    context = NA_Context_create(server.na_class);
    HG_CHECK(context != NULL);
    endpoint_open_client(&client, &server, NULL);
    endpoint_name(&server, server.self, name);
    HG_CHECK_EQ_STR(name, string);
    HG_CHECK_EQ_U64(strlen(name), strlen("ofi+shm://") + 92);
    addr = endpoint_lookup_both(&client, &server, name);
    for (i = 0; i < 3; i++)
        names_send(&client, &server, addr);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Context_destroy(server.na_class, context));
    conform_close(&client);
    conform_close(&server);
}

/* If the native provider is missing, the layered one is used. */
HG_TEST(tcp_without_its_native_provider_uses_rxm)
{
    HG_CHECK(setenv("FI_PROVIDER", "^net", 1) == 0);
    names_check("ofi+tcp://lo", NULL, "ofi+tcp://127.0.0.1:");
    hg_test_expect_log("has no provider net ");
    HG_CHECK(NA_Initialize("ofi+net://lo", NA_TRUE) == NULL);
}

/* ---- What cannot be listened on ---- */

/* Opening a class with these options fails, and its one log line contains
 * `part`, a string literal. */
static void names_refused(
    const char *string, const struct na_init_info *info, const char *part)
{
    unsigned before = hg_test_log_count(part);

    if (before == 0)
        hg_test_expect_log(part);
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, info) == NULL);
    HG_CHECK_EQ_U64(hg_test_log_count(part), before + 1);
}

HG_TEST(missing_provider_is_reported_with_those_available)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

#define NAMES_NONE " has no interface, domain or address of that name"
#define NAMES_NOT NAMES_NONE "; here: lo "
#define NAMES_NO_HOST NAMES_NONE " (as a host name: "
    names_refused(
        "ofi+tcp://eth77", NULL, "//eth77: libfabric's net" NAMES_NO_HOST);
    names_refused("ofi+tcp://203.0.113.9:1", NULL,
        "//203.0.113.9:1: libfabric's net" NAMES_NOT);
    names_refused("ofi+tcp://no-such-host.invalid", NULL,
        "//no-such-host.invalid: libfabric's net" NAMES_NO_HOST);
    names_refused(
        "ofi+tcp://eth77/lo", NULL, "//eth77/lo: libfabric's net" NAMES_NOT);
    names_refused("ofi+sockets://eth78", NULL,
        "//eth78: libfabric's sockets" NAMES_NO_HOST);
    names_refused("ofi+gni://", NULL,
        "has no provider gni that works here; these do: net, tcp;ofi_rxm, ");
    info.ip_subnet = "203.0.113.0/24";
    names_refused("ofi+tcp://", &info,
        "// with ip_subnet 203.0.113.0/24: libfabric's net" NAMES_NOT);
    names_refused("ofi+tcp://*", &info,
        "//* with ip_subnet 203.0.113.0/24: libfabric's net" NAMES_NOT);
#undef NAMES_NOT
#undef NAMES_NO_HOST
#undef NAMES_NONE
    info.ip_subnet = "somewhere";
    names_refused("ofi+tcp://", &info, "ip_subnet \"somewhere\": not of");
}

HG_TEST(host_without_an_interface_has_none)
{
    if (unshare(CLONE_NEWNET) != 0)
        hg_test_skip("network namespaces are not available");
    names_refused("ofi+tcp://lo", NULL, "; here: none");
}

/* Each is served by its own provider. */
HG_TEST(providers_layered_differently_are_listed_separately)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;

    endpoint_open_info(
        &server, "ofi+tcp://lo;ofi+tcp;ofi_rxm://lo", NA_TRUE, NULL);
    endpoint_name(&server, server.self, name);
    HG_CHECK(strncmp(name, "ofi+tcp://127.0.0.1:", 20) == 0);
    HG_CHECK(strstr(name, ";ofi+tcp;ofi_rxm://127.0.0.1:") != NULL);
    endpoint_open_info(&client, "ofi+tcp;ofi_rxm://", NA_FALSE, NULL);
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* The environment variable hides providers. */
HG_TEST(hidden_provider_is_not_found)
{
    HG_CHECK(setenv("FI_PROVIDER", "shm", 1) == 0);
    names_refused("ofi+tcp://", NULL,
        "has no provider net that works here; these do: shm; "
        "FI_PROVIDER is shm");
}

HG_TEST(malformed_names_are_refused)
{
    char longest[128] = "ofi+shm://";

    memset(longest + strlen(longest), 'p', 93);
    names_refused("ofi+tcp://127.0.0.1:65536", NULL,
        "ofi+tcp://127.0.0.1:65536: the port is not");
    names_refused("ofi+tcp;rxm://", NULL,
        "'ofi+tcp;rxm://' is not [plugin+]protocol://... (of layers, there are "
        ";ofi_rxm and ;ofi_rxd)");
    names_refused("ofi+tpc://", NULL,
        "ofi+tcp://, ofi+tcp;ofi_rxm://, ofi+shm://, ofi+sockets://");
    HG_CHECK_EQ_U64(hg_test_log_count("; if you have"), 0);
    names_refused("ofi+tcp://lo:12x", NULL, ":12x: the port is not");
    names_refused("ofi+tcp://[::1", NULL, "the closing bracket is missing");
    names_refused("ofi+tcp://::1:80", NULL, "//::1:80: not host:port");
    names_refused("ofi+shm://a/b", NULL, "//a/b: not a name");
    names_refused("ofi+shm://a b", NULL, "//a b: not a name");
    names_refused(longest, NULL, "ppp: not a name");
}

HG_TEST(auth_key_is_not_ignored)
{
    static const char *const strings[] = {"ofi+tcp://lo",
        "ofi+tcp;ofi_rxm://lo", "ofi+shm://", "ofi+sockets://lo",
        "ofi+udp://lo"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    size_t i;

    info.auth_key = "12:34";
    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        names_refused(strings[i], &info, "does not support auth_key");
}

/* The first class keeps working. */
HG_TEST(port_in_use_is_refused)
{
    static const char *const strings[] = {"ofi+tcp://lo",
        "ofi+tcp;ofi_rxm://lo", "ofi+udp://lo", "ofi+shm://hg-test-%ld"};
    struct conform_end server, client;
    char string[64], name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    size_t i;

    hg_test_expect_log("Address already in use");
    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        const char *mark = strstr(strings[i], "%ld");

        (void) snprintf(string, sizeof(string), "%.*s%ld",
            mark != NULL ? (int) (mark - strings[i]) : 0, strings[i],
            (long) getpid());
        endpoint_open(&server, mark != NULL ? string : strings[i], 1000);
        endpoint_name(&server, server.self, name);
        HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
        HG_CHECK_EQ_U64(hg_test_log_count("Address already in use"), i + 1);
        endpoint_open_client(&client, &server, NULL);
        addr = endpoint_lookup_both(&client, &server, name);
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        conform_close(&client);
        conform_close(&server);
    }
}

/* A port is free again when its class is closed; a shared-memory name is then
 * free for other processes. */
HG_TEST(class_that_does_not_listen_takes_no_port)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;

    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    endpoint_name(&server, server.self, name);
    client.na_class = NA_Initialize(name, NA_FALSE);
    HG_CHECK(client.na_class != NULL);
    client.context = NA_Context_create(client.na_class);
    HG_CHECK_OK(NA_Addr_self(client.na_class, &client.self));
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(port_can_be_used_again)
{
    struct conform_end server;
    char name[NA_MAX_ADDR_LEN], again[NA_MAX_ADDR_LEN];

    endpoint_open(&server, "ofi+tcp://lo", 1000);
    endpoint_name(&server, server.self, name);
    conform_close(&server);
    endpoint_open(&server, name, 1000);
    endpoint_name(&server, server.self, again);
    HG_CHECK_EQ_STR(again, name);
    conform_close(&server);
}

HG_TEST_ROLE(names_server)
{
    HG_CHECK_EQ_INT(argc, 1);
    endpoint_serve(argv[0], 1000);
}

HG_TEST(shm_name_is_for_one_process)
{
    char string[64];
    struct hg_test_peer *peer;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char *name;

    (void) snprintf(
        string, sizeof(string), "ofi+shm://hg-test-%ld", (long) getpid());
    hg_test_expect_log("cannot open a name again");
    peer = hg_test_spawn("names_server", string, (char *) NULL);
    name = hg_test_read_peer(peer);
    HG_CHECK_EQ_STR(name, string);
    free(name);
    names_refused(string, NULL, "cannot listen on ofi+shm://hg-test-");
    endpoint_open(&end, "ofi+shm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, string, &addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    hg_test_signal(peer, SIGKILL);
    (void) hg_test_wait(peer);
    /* The memory of the dead process still exists; its name can be taken
     * once. */
    endpoint_open(&end, string, 1000);
    conform_close(&end);
    HG_CHECK(NA_Initialize(string, NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("cannot open a name again"), 1);
}

/* ---- Names of peers ---- */

HG_TEST(bad_names_of_peers_are_refused)
{
    static const struct {
        const char *name;
        na_return_t ret;
    } bad[] = {
        {"ofi+tcp", NA_INVALID_ARG},
        {"ofi+tcp://127.0.0.1", NA_INVALID_ARG},
        {"ofi+tcp://127.0.0.1:0", NA_INVALID_ARG},
        {"ofi+tcp://127.0.0.1:x", NA_INVALID_ARG},
        {"ofi+tcp://[::1]:1", NA_INVALID_ARG},
        {"ofi+tcp://0.0.0.0:1", NA_INVALID_ARG},
        {"ofi+tcp://127.0.0.1:65536", NA_INVALID_ARG},
        {"ofi+tcp://224.0.0.0:1", NA_INVALID_ARG},
        {"ofi+tcp://255.255.255.255:1", NA_INVALID_ARG},
        {"ofi+sockets://127.0.0.1:1", NA_PROTONOSUPPORT},
        {"ofi+tcp;ofi_rxm://127.0.0.1:1", NA_PROTONOSUPPORT},
        {"ofi+shm://name", NA_PROTONOSUPPORT},
        {"zmq+tcp://127.0.0.1:1", NA_PROTONOSUPPORT},
    };
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    size_t i;

    hg_test_expect_log("");
    endpoint_open(&end, "ofi+tcp://lo", 1000);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        na_return_t ret = NA_Addr_resolve(end.na_class, bad[i].name, &addr);

        if (ret != bad[i].ret || hg_test_log_count("") != i + 1)
            hg_test_fail(HG_TEST_HERE, "%s: %s, %u lines", bad[i].name,
                NA_Error_to_string(ret), hg_test_log_count("") - (unsigned) i);
    }
    HG_CHECK(addr == NA_ADDR_NULL);
    HG_CHECK_OK(
        NA_Addr_resolve(end.na_class, "ofi+tcp://127.0.0.1:65535", &addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

HG_TEST(unknown_host_is_reported_by_the_callback)
{
    struct conform_end end;
    struct conform_call call;

    hg_test_expect_log("no-such-host.invalid:1 cannot be reached: ");
    endpoint_open(&end, "ofi+tcp://lo", 1000);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(end.na_class, end.context, conform_ended, &call,
        "ofi+tcp://no-such-host.invalid:1", &call.id));
    HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
    conform_close(&end);
}

/* Each use of the address fails at once, with one error line, and tries
 * again. */
HG_TEST(shm_name_that_nobody_has_is_unreachable)
{
    struct conform_end end;
    struct conform_call call;
    na_addr_t addr = NA_ADDR_NULL;
    char name[64];
    unsigned i;

    (void) snprintf(
        name, sizeof(name), "ofi+shm://hg-test-%ld-nobody", (long) getpid());
    hg_test_expect_log("nobody cannot be reached: ");
    endpoint_open_with(&end, "ofi+shm://", 1000, 600000);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &addr));
    for (i = 0; i < 3; i++) {
        na_addr_t none = NA_ADDR_NULL;

        HG_CHECK_RET(endpoint_lookup(&end, name, &none), NA_HOSTUNREACH);
        HG_CHECK_EQ_U64(
            hg_test_log_count("nobody cannot be reached: "), 2 * i + 1);
        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
            conform_ended, &call, "x", 1, addr, 1, &call.id));
        HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
        HG_CHECK_EQ_U64(
            hg_test_log_count("nobody cannot be reached: "), 2 * i + 2);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* libfabric's shm crashes the process of another user, or hangs. */
HG_TEST(shm_name_of_another_user_is_refused)
{
    struct conform_end end;
    char path[64], name[64];
    na_addr_t addr = NA_ADDR_NULL;
    uint64_t start;
    int fd;

    if (geteuid() != 0)
        hg_test_skip("only root can give a file to another user");
    (void) snprintf(
        path, sizeof(path), "/dev/shm/hg-test-%ld", (long) getpid());
    (void) snprintf(name, sizeof(name), "ofi+shm://%s", path + 9);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    HG_CHECK(fd >= 0);
    HG_CHECK(ftruncate(fd, 16 << 20) == 0 && fchown(fd, 65534, 65534) == 0);
    hg_test_expect_log("Permission denied");
    hg_test_expect_log("cannot be reached");
    endpoint_open_with(&end, "ofi+shm://", 1000, 600000);
    start = endpoint_ms();
    HG_CHECK_RET(endpoint_lookup(&end, name, &addr), NA_HOSTUNREACH);
    HG_CHECK(endpoint_ms() - start < CONFORM_TIMEOUT);
    HG_CHECK_RET(endpoint_lookup(&end, "ofi+shm://..", &addr), NA_HOSTUNREACH);
    conform_close(&end);
    (void) close(fd);
    HG_CHECK(unlink(path) == 0);
}

/* "tcp" and "net" are one provider, and so are "udp" and "udp;ofi_rxd". */
HG_TEST(provider_aliases_are_understood)
{
    static const char *const pairs[][2] = {
        {"ofi+tcp://lo", "ofi+net"}, {"ofi+udp://lo", "ofi+udp;ofi_rxd"}};
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN], other[2 * NA_MAX_ADDR_LEN];
    na_addr_t addr, same;
    size_t i;

    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        endpoint_open(&server, pairs[i][0], 1000);
        endpoint_open_client(&client, &server, NULL);
        endpoint_name(&server, server.self, name);
        (void) snprintf(
            other, sizeof(other), "%s%s", pairs[i][1], strstr(name, "://"));
        addr = endpoint_lookup_both(&client, &server, name);
        same = endpoint_lookup_both(&client, &server, other);
        HG_CHECK(NA_Addr_cmp(client.na_class, addr, same));
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        HG_CHECK_OK(NA_Addr_free(client.na_class, same));
        conform_close(&client);
        conform_close(&server);
    }
}

/* ---- Devices of this host ---- */

static bool names_lists(const struct na_protocol_info *list, const char *device)
{
    while (list != NULL && strcmp(list->device_name, device) != 0)
        list = list->next;
    return list != NULL;
}

HG_TEST(devices_are_listed_and_can_be_opened)
{
    static const char *const strings[] = {
        "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+sockets", "ofi+udp"};
    struct na_protocol_info *list;
    const struct na_protocol_info *entry;
    size_t i;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        HG_CHECK_OK(HG_Get_na_protocol_info(strings[i], &list));
        HG_CHECK(names_lists(list, "lo"));
        for (entry = list; entry != NULL; entry = entry->next) {
            char string[NA_MAX_ADDR_LEN];
            na_class_t *na_class;

            HG_CHECK(!names_lists(entry->next, entry->device_name));
            (void) snprintf(string, sizeof(string), "%s+%s://%s",
                entry->class_name, entry->protocol_name, entry->device_name);
            na_class = NA_Initialize(string, NA_TRUE);
            HG_CHECK(na_class != NULL);
            HG_CHECK_OK(NA_Finalize(na_class));
        }
        HG_Free_na_protocol_info(list);
    }
    HG_CHECK_OK(HG_Get_na_protocol_info("ofi+gni", &list));
    HG_CHECK(list == NULL);
}

/* Each context has its own endpoint, closed with the context. */
HG_TEST(contexts_can_be_created_and_destroyed_repeatedly)
{
    static const char *const strings[] = {
        "ofi+tcp://lo", "ofi+tcp;ofi_rxm://lo", "ofi+shm://"};
    na_context_t *contexts[3];
    struct conform_end end;
    size_t i;
    unsigned before = 0, turn, k;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        endpoint_open(&end, strings[i], 1000);
        for (turn = 0; turn < 5; turn++) {
            for (k = 0; k < 3; k++) {
                contexts[k] = NA_Context_create(end.na_class);
                HG_CHECK(contexts[k] != NULL);
            }
            for (k = 0; k < 3; k++)
                HG_CHECK_OK(NA_Context_destroy(end.na_class, contexts[k]));
            if (turn == 0)
                before = hg_test_fd_count();
        }
        HG_CHECK_EQ_INT(hg_test_fd_count(), before);
        conform_close(&end);
    }
}
