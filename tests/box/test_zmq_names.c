/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeroMQ transport's names and connections: which can be listened on and
 * looked up, which addresses are one peer, and what remains after they close.
 */
#include "endpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

/* No case waits for the death of a peer. A busy machine, or a sanitizer, may
 * keep one silent for seconds. */
#define NAMES_DEATH_MS 60000

/* A server that listens on `string`, and a client that has looked it up. */
static na_addr_t names_open(struct conform_end *server,
    struct conform_end *client, const char *string, unsigned death_ms)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char name[NA_MAX_ADDR_LEN];

    info.death_ms = death_ms;
    endpoint_open_info(server, string, NA_TRUE, &info);
    endpoint_open_client(client, server, &info);
    endpoint_name(server, server->self, name);
    return endpoint_lookup_both(client, server, name);
}

/* `from` sends a byte to `to`, which learns the address of `from`. */
static na_addr_t names_introduce(
    struct conform_end *from, struct conform_end *to, na_addr_t addr)
{
    struct conform_call recv;
    char got[8];

    HG_CHECK_OK(conform_recv(to, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(endpoint_send(from, addr, false, "x", 1, 0));
    HG_CHECK_OK(endpoint_wait_both(from, to, &recv));
    return recv.addr;
}

/* ---- Listening ---- */

HG_TEST(every_way_to_listen_gives_a_name_to_look_up)
{
    static const char *const strings[] = {"tcp://127.0.0.1",
        "zmq+tcp://127.0.0.1:0", "zmq+tcp://localhost:*", "zmq+tcp://:0",
        "zmq+tcp://*", "zmq+tcp://0.0.0.0:0", "zmq+ipc://*",
        "zmq+ipc://@hg-test-%ld", "zmq+ipc://relative-%ld", "zmq+inproc://*",
        "zmq+inproc://some name"};
    struct conform_end server, client;
    char string[128], name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    size_t i;

    HG_CHECK(chdir(hg_test_dir()) == 0);
    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        const char *mark = strstr(strings[i], "%ld");

        (void) snprintf(string, sizeof(string), "%.*s%ld",
            mark != NULL ? (int) (mark - strings[i]) : 0, strings[i],
            (long) getpid());
        if (mark == NULL)
            (void) snprintf(string, sizeof(string), "%s", strings[i]);
        addr = names_open(&server, &client, string, NAMES_DEATH_MS);
        endpoint_name(&server, server.self, name);
        HG_CHECK(strncmp(name, "zmq+", 4) == 0);
        HG_CHECK(strstr(name, "0.0.0.0") == NULL && !strstr(name, "*"));
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        /* The plugin's name may be omitted if only this plugin has the
         * protocol. */
        addr = endpoint_lookup_both(&client, &server, name + 4);
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        conform_close(&client);
        conform_close(&server);
    }
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
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;

    names_need_ipv6();
    addr = names_open(&server, &client, "zmq+tcp://[::1]", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    HG_CHECK(strncmp(name, "zmq+tcp://[::1]:", 16) == 0);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* A listener with these options has this name, and is found by it. A client
 * with the same options dials from that address. */
static void names_check(
    const char *string, const struct na_init_info *info, const char *begin)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;

    endpoint_open_info(&server, string, NA_TRUE, info);
    endpoint_open_client(
        &client, &server, strcmp(string, "zmq+tcp://") == 0 ? info : NULL);
    endpoint_name(&server, server.self, name);
    if (strncmp(name, begin, strlen(begin)) != 0)
        hg_test_fail(HG_TEST_HERE, "%s is %s, not %s", string, name, begin);
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(ip_subnet_chooses_the_interface)
{
    static const char *const strings[] = {
        "zmq+tcp://", "zmq+tcp://:0", "zmq+tcp://*", "zmq+tcp://0.0.0.0"};
    static const char *const subnets[] = {
        "127.0.0.0/8", "127", "127.0.0", "127.0.0.1", "127/30", "126.0.0.0/7"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    size_t i, k;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        for (k = 0; k < sizeof(subnets) / sizeof(subnets[0]); k++) {
            info.ip_subnet = subnets[k];
            names_check(strings[i], &info, "zmq+tcp://127.0.0.1:");
        }
    }
    /* A named host needs no choice. */
    info.ip_subnet = "203.0.113.0/24";
    names_check("zmq+tcp://127.0.0.1", &info, "zmq+tcp://127.0.0.1:");
    info.ip_subnet = "";
    names_check("zmq+tcp://", &info, "zmq+tcp://127.0.0.1:");
}

HG_TEST(ip_subnet_and_addr_format_choose_ipv6)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    names_need_ipv6();
    info.ip_subnet = "::1/128";
    names_check("zmq+tcp://", &info, "zmq+tcp://[::1]:");
    names_check("zmq+tcp://[::]", &info, "zmq+tcp://[::1]:");
    info.ip_subnet = "::/127";
    names_check("zmq+tcp://:0", &info, "zmq+tcp://[::1]:");
    info.ip_subnet = NULL;
    info.addr_format = NA_ADDR_IPV6;
    names_check("zmq+tcp://", &info, "zmq+tcp://[::1]:");
    names_check("zmq+tcp://*", &info, "zmq+tcp://[");
}

HG_TEST(ip_subnet_without_an_interface_opens_no_class)
{
    static const char none[] = "no interface has an address in it";
    static const char malformed[] = "not of the form \"192.0.2.0/24\"";
    static const char *const absent[] = {
        "203.0.113.0/24", "203.0.113.7", "2001:db8::/32", "::1/128"};
    static const char *const bad[] = {"127.0.0.0/0", "127.0.0.0/33",
        "127.0.0.0/", "127.0.0.0/8x", "127.0.0.0/-8", "127.0.0.0.0", "300.1",
        "127..0", "::1/129", "somewhere",
        "127.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    size_t i;

    hg_test_expect_log(none);
    hg_test_expect_log(malformed);
    for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        info.ip_subnet = absent[i];
        HG_CHECK(
            NA_Initialize_opt("zmq+tcp://0.0.0.0", NA_TRUE, &info) == NULL);
        if (i == 3)
            break; /* IPv6 is accepted if no family is asked for */
        HG_CHECK(NA_Initialize_opt("zmq+tcp://", NA_TRUE, &info) == NULL);
        HG_CHECK(NA_Initialize_opt("zmq+tcp://", NA_FALSE, &info) == NULL);
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        info.ip_subnet = bad[i];
        HG_CHECK(NA_Initialize_opt("zmq+tcp://", NA_TRUE, &info) == NULL);
    }
    HG_CHECK_EQ_INT(hg_test_log_count(none), 10);
    HG_CHECK_EQ_INT(hg_test_log_count(malformed), 11);
}

/* An address that differs from the loopback's in one bit is another one. */
HG_TEST(ip_subnet_is_compared_to_its_last_bit)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    char subnet[32];
    unsigned bit;

    hg_test_expect_log("no interface has an address in it");
    for (bit = 0; bit < 32; bit++) {
        uint32_t number = UINT32_C(0x7f000001) ^ UINT32_C(1) << bit;

        snprintf(subnet, sizeof(subnet), "%u.%u.%u.%u/32", number >> 24,
            number >> 16 & 255, number >> 8 & 255, number & 255);
        info.ip_subnet = subnet;
        HG_CHECK(NA_Initialize_opt("zmq+tcp://", NA_TRUE, &info) == NULL);
    }
    HG_CHECK_EQ_INT(hg_test_log_count("no interface has an address in it"), 32);
    info.ip_subnet = "127.0.0.1/32";
    na_class = NA_Initialize_opt("zmq+tcp://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(host_of_a_class_that_does_not_listen_is_its_source)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL;

    endpoint_open(&server, "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    endpoint_open_info(&client, "zmq+tcp://127.0.0.1", NA_FALSE, NULL);
    addr = endpoint_lookup_both(&client, &server, name);
    endpoint_name(&client, addr, seen);
    HG_CHECK_EQ_STR(seen, name);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(bad_names_are_refused)
{
    static const struct {
        const char *string;
        const char *log;
    } bad[] = {
        {"zmq+tcp://127.0.0.1:65536", ":65536: the port is not"},
        {"zmq+tcp://127.0.0.1:12x", ":12x: the port is not"},
        {"zmq+tcp://127.0.0.1:+12", ":+12: the port is not"},
        {"zmq+tcp://127.0.0.1:x", ":x: the port is not"},
        {"zmq+tcp://[::1", "the closing bracket is missing"},
        {"zmq+tcp://::1:80", "//::1:80: not host:port"},
        {"zmq+tcp://[::1]x", "[::1]x: not host:port"},
        {"zmq+tcp://203.0.113.1:0", "cannot listen on tcp"},
        {"zmq+tcp://no-such-host.invalid", "no-such-host.invalid"},
        {"zmq+ipc:///no/such/folder/at/all", "cannot listen on ipc"},
    };
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char path[200] = "zmq+ipc:///";
    char longest[NA_MAX_ADDR_LEN] = "";
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        hg_test_expect_log(bad[i].log);
        hg_test_allow_log("cannot open");
        HG_CHECK(NA_Initialize(bad[i].string, NA_TRUE) == NULL);
        HG_CHECK(hg_test_log_count(bad[i].log) > 0);
    }
    memset(path + strlen(path), 'p', 150);
    hg_test_expect_log("longer than a socket's path");
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    endpoint_open(&end, "zmq+tcp://", NAMES_DEATH_MS);
    /* A longer one never reaches the transport. */
    memset(longest, 'q', sizeof(longest) - 1);
    memcpy(longest, "zmq+tcp://", 10);
    memcpy(longest + sizeof(longest) - 3, ":1", 3);
    hg_test_expect_log("qqq:1 cannot be reached: ");
    HG_CHECK_RET(endpoint_lookup(&end, longest, &addr), NA_HOSTUNREACH);
    hg_test_expect_log("no port to connect to");
    HG_CHECK_RET(
        endpoint_lookup(&end, "tcp://127.0.0.1:0", &addr), NA_INVALID_ARG);
    hg_test_expect_log("127.0.0.1:65535 cannot be reached: refused");
    HG_CHECK_RET(
        endpoint_lookup(&end, "tcp://127.0.0.1:65535", &addr), NA_HOSTUNREACH);
    hg_test_expect_log("ipc:///tmp/x': this class was opened for zmq+tcp");
    HG_CHECK_RET(
        endpoint_lookup(&end, "zmq+ipc:///tmp/x", &addr), NA_PROTONOSUPPORT);
    hg_test_expect_log("'zmq+t://127.0.0.1:1': this class was opened");
    HG_CHECK_RET(
        endpoint_lookup(&end, "zmq+t://127.0.0.1:1", &addr), NA_PROTONOSUPPORT);
    hg_test_expect_log("'zmq+tcp' lacks its \"://host:port\"");
    HG_CHECK_RET(endpoint_lookup(&end, "zmq+tcp", &addr), NA_INVALID_ARG);
    hg_test_expect_log("self://, zmq+tcp://, zmq+ipc://, zmq+inproc://");
    HG_CHECK(NA_Initialize("zmq", NA_TRUE) == NULL);
    conform_close(&end);
    endpoint_open(&end, "zmq+ipc://", NAMES_DEATH_MS);
    hg_test_expect_log("no name to connect to");
    HG_CHECK_RET(endpoint_lookup(&end, "zmq+ipc://", &addr), NA_INVALID_ARG);
    conform_close(&end);
}

static int names_unix(const char *path, struct sockaddr_un *where_p)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    memset(where_p, 0, sizeof(*where_p));
    where_p->sun_family = AF_UNIX;
    (void) snprintf(where_p->sun_path, sizeof(where_p->sun_path), "%s", path);
    HG_CHECK(fd >= 0);
    return fd;
}

/* A listener that accepts no connection, and its callers. */
static int names_stopped(const char *path)
{
    struct sockaddr_un where;
    int listener = names_unix(path, &where);
    int fd;

    HG_CHECK(!bind(listener, (struct sockaddr *) &where, sizeof(where)));
    HG_CHECK(listen(listener, 1) == 0);
    do
        fd = names_unix(path, &where);
    while (!connect(fd, (struct sockaddr *) &where, sizeof(where)));
    HG_CHECK_EQ_INT(errno, EAGAIN);
    return listener;
}

HG_TEST(address_in_use_is_refused)
{
    struct conform_end one;
    char name[NA_MAX_ADDR_LEN], path[200];
    int fd;

    hg_test_expect_log("cannot listen on");
    hg_test_expect_log("is in use");
    hg_test_allow_log("cannot open");
    endpoint_open(&one, "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
    endpoint_name(&one, one.self, name);
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    conform_close(&one);
    (void) snprintf(path, sizeof(path), "zmq+ipc://%s/here", hg_test_dir());
    endpoint_open(&one, path, NAMES_DEATH_MS);
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("is in use"), 1);
    conform_close(&one);
    HG_CHECK(access(path + 10, F_OK) != 0); /* removed with its class */
    /* A stopped listener accepts no connection: its queue is full. */
    fd = names_stopped(path + 10);
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("is in use"), 2);
    HG_CHECK(close(fd) == 0 && unlink(path + 10) == 0);
    /* A file that is no socket is not removed. */
    fd = open(path + 10, O_CREAT | O_WRONLY, 0600);
    HG_CHECK(fd >= 0 && close(fd) == 0);
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    HG_CHECK(access(path + 10, F_OK) == 0);
    HG_CHECK(unlink(path + 10) == 0);
    endpoint_open(&one, "zmq+inproc://taken", NAMES_DEATH_MS);
    HG_CHECK(NA_Initialize("zmq+inproc://taken", NA_TRUE) == NULL);
    conform_close(&one);
}

/* libzmq closes sockets in the background; the name is free before that. */
HG_TEST(name_of_a_closed_class_is_free)
{
    struct conform_end other, one;
    unsigned i;

    endpoint_open(
        &other, "zmq+inproc://*", NAMES_DEATH_MS); /* keeps libzmq's threads */
    for (i = 0; i < 500; i++) {
        endpoint_open(&one, "zmq+inproc://free", NAMES_DEATH_MS);
        conform_close(&one);
    }
    conform_close(&other);
}

HG_TEST(stale_path_is_reused)
{
    struct sockaddr_un where;
    struct conform_end end;
    char path[200];
    int fd;

    (void) snprintf(path, sizeof(path), "zmq+ipc://%s/stale", hg_test_dir());
    fd = names_unix(path + 10, &where);
    HG_CHECK(bind(fd, (struct sockaddr *) &where, sizeof(where)) == 0);
    (void) close(fd); /* no listener any more; the path stays */
    endpoint_open(&end, path, NAMES_DEATH_MS);
    conform_close(&end);
}

/* ---- The string of a caller ---- */

/* The string that `server` has for a class that calls it. */
static void names_of_caller(struct conform_end *server, const char *string,
    na_bool_t listen, char name[NA_MAX_ADDR_LEN], char own[NA_MAX_ADDR_LEN])
{
    char listens[NA_MAX_ADDR_LEN], dials[2 * NA_MAX_ADDR_LEN];
    struct conform_end caller;
    na_addr_t addr, seen, found;

    endpoint_name(server, server->self, listens);
    (void) snprintf(dials, sizeof(dials), "zmq+tcp://%s%s",
        strchr(string, '[') != NULL ? "[::1]" : "127.0.0.1",
        strrchr(listens, ':'));
    endpoint_open_info(&caller, string, listen, NULL);
    endpoint_name(&caller, caller.self, own);
    addr = endpoint_lookup_both(&caller, server, dials);
    seen = names_introduce(&caller, server, addr);
    endpoint_name(server, seen, name);
    if (listen) { /* a lookup of the string finds the caller */
        found = endpoint_lookup_both(server, &caller, name);
        HG_CHECK(NA_Addr_cmp(server->na_class, found, seen));
        HG_CHECK_OK(NA_Addr_free(server->na_class, found));
    }
    HG_CHECK_OK(NA_Addr_free(server->na_class, seen));
    HG_CHECK_OK(NA_Addr_free(caller.na_class, addr));
    conform_close(&caller);
}

/* "zmq+tcp://peer-NUMBER" and what follows. */
static void names_is_numbered(const char *name, const char *rest)
{
    if (strncmp(name, "zmq+tcp://peer-", 15) != 0 ||
        strspn(name + 15, "0123456789abcdef") != 16 ||
        strcmp(name + 31, rest) != 0)
        hg_test_fail(HG_TEST_HERE, "%s, not peer-NUMBER%s", name, rest);
}

HG_TEST(string_of_a_caller_names_its_host)
{
    char name[NA_MAX_ADDR_LEN], second[NA_MAX_ADDR_LEN], own[NA_MAX_ADDR_LEN];
    char want[2 * NA_MAX_ADDR_LEN];
    struct conform_end server;
    na_addr_t addr = NA_ADDR_NULL;

    endpoint_open(&server, "zmq+tcp://0.0.0.0", NAMES_DEATH_MS);
    names_of_caller(&server, "zmq+tcp://", NA_FALSE, name, own);
    names_is_numbered(name, "@127.0.0.1");
    names_of_caller(&server, "zmq+tcp://", NA_FALSE, second, own);
    names_is_numbered(second, "@127.0.0.1");
    HG_CHECK(strcmp(name, second) != 0);
    names_of_caller(&server, "zmq+tcp://127.0.0.2", NA_FALSE, name, own);
    names_is_numbered(name, "@127.0.0.2");
    hg_test_expect_log("a client that does not listen cannot be looked up");
    HG_CHECK_RET(endpoint_lookup(&server, name, &addr), NA_INVALID_ARG);
    /* A caller that listens, at the host that it calls from or at another. */
    names_of_caller(&server, "zmq+tcp://127.0.0.1", NA_TRUE, name, own);
    HG_CHECK_EQ_STR(name, own);
    names_of_caller(&server, "zmq+tcp://127.0.0.3", NA_TRUE, name, own);
    (void) snprintf(want, sizeof(want), "%s@127.0.0.1", own);
    HG_CHECK_EQ_STR(name, want);
    conform_close(&server);
}

HG_TEST(string_of_a_caller_names_its_host_in_ipv6)
{
    char name[NA_MAX_ADDR_LEN], own[NA_MAX_ADDR_LEN];
    char want[2 * NA_MAX_ADDR_LEN];
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end server;

    names_need_ipv6();
    info.ip_subnet = "::1/128";
    endpoint_open_info(&server, "zmq+tcp://[::]", NA_TRUE, &info);
    names_of_caller(&server, "zmq+tcp://", NA_FALSE, name, own);
    names_is_numbered(name, "@127.0.0.1"); /* not as ::ffff:127.0.0.1 */
    names_of_caller(&server, "zmq+tcp://[::1]", NA_FALSE, name, own);
    names_is_numbered(name, "@[::1]");
    names_of_caller(&server, "zmq+tcp://[::1]", NA_TRUE, name, own);
    HG_CHECK_EQ_STR(name, own);
    names_of_caller(&server, "zmq+tcp://127.0.0.1", NA_TRUE, name, own);
    HG_CHECK_EQ_STR(name, own);
    names_of_caller(&server, "zmq+tcp://127.0.0.3", NA_TRUE, name, own);
    (void) snprintf(want, sizeof(want), "%s@127.0.0.1", own);
    HG_CHECK_EQ_STR(name, want);
    conform_close(&server);
}

/* ---- Identity of peers ---- */

HG_TEST(self_address_is_recognized_by_every_name)
{
    struct conform_end end;
    char name[NA_MAX_ADDR_LEN], other[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL;

    endpoint_open(&end, "zmq+tcp://0.0.0.0", NAMES_DEATH_MS);
    endpoint_name(&end, end.self, name);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    /* A name that is recognized as our own only by the answer. */
    (void) snprintf(
        other, sizeof(other), "tcp://localhost%s", strrchr(name, ':'));
    HG_CHECK_OK(endpoint_lookup(&end, other, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

HG_TEST(lookups_of_one_peer_give_one_address)
{
    struct conform_end server, client;
    struct conform_call calls[20];
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    unsigned i;

    endpoint_open(&server, "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
    endpoint_open(&client, "zmq+tcp://", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    memset(calls, 0, sizeof(calls));
    for (i = 0; i < 20; i++)
        HG_CHECK_OK(NA_Addr_lookup(client.na_class, client.context,
            conform_ended, &calls[i], name, &calls[i].id));
    HG_CHECK_OK(NA_Cancel(client.na_class, client.context, calls[19].id));
    for (i = 0; i < 19; i++) {
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &calls[i]));
        HG_CHECK(calls[i].addr == calls[0].addr);
        HG_CHECK_OK(NA_Addr_free(client.na_class, calls[i].addr));
    }
    HG_CHECK_RET(endpoint_wait_both(&client, &server, &calls[19]), NA_CANCELED);
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK(addr == calls[0].addr);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* Two listeners dial each other: either connection belongs to the peer. */
static void names_two_ways(const char *string)
{
    struct conform_end one, two;
    struct conform_call recv;
    char name[NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN], got[8];
    na_addr_t to_two, to_one, one_seen, two_seen;

    endpoint_open(&one, string, NAMES_DEATH_MS);
    endpoint_open(&two, string, NAMES_DEATH_MS);
    endpoint_name(&two, two.self, name);
    to_two = endpoint_lookup_both(&one, &two, name);
    one_seen = names_introduce(&one, &two, to_two);
    endpoint_name(&one, one.self, name);
    endpoint_name(&two, one_seen, seen);
    HG_CHECK_EQ_STR(seen, name); /* it sent the address at which it listens */
    to_one = endpoint_lookup_both(&two, &one, name);
    two_seen = names_introduce(&two, &one, to_one);
    HG_CHECK(to_one != one_seen);
    HG_CHECK(NA_Addr_cmp(two.na_class, to_one, one_seen) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(one.na_class, to_two, two_seen) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(one.na_class, to_two, one.self) == NA_FALSE);
    /* A receive from one address accepts messages of the other connection. */
    HG_CHECK_OK(endpoint_post(&one, &recv, got, sizeof(got), to_two, 5));
    HG_CHECK_OK(endpoint_send(&two, to_one, true, "y", 2, 5));
    HG_CHECK_OK(endpoint_wait_both(&one, &two, &recv));
    HG_CHECK_EQ_STR(got, "y");
    HG_CHECK_OK(endpoint_post(&one, &recv, got, sizeof(got), two_seen, 6));
    HG_CHECK_OK(endpoint_send(&two, one_seen, true, "z", 2, 6));
    HG_CHECK_OK(endpoint_wait_both(&one, &two, &recv));
    HG_CHECK_EQ_STR(got, "z");
    HG_CHECK_OK(NA_Addr_free(one.na_class, to_two));
    HG_CHECK_OK(NA_Addr_free(one.na_class, two_seen));
    HG_CHECK_OK(NA_Addr_free(two.na_class, to_one));
    HG_CHECK_OK(NA_Addr_free(two.na_class, one_seen));
    conform_close(&one);
    conform_close(&two);
}

HG_TEST(two_listeners_exchange_messages)
{
    names_two_ways("zmq+tcp://127.0.0.1");
    names_two_ways("zmq+ipc://*");
    names_two_ways("zmq+inproc://*");
}

/* The server closes while the client dials it. A server that is opened later at
 * the same address is the peer that the client's address stands for. */
HG_TEST(address_that_was_not_reached_stands_for_the_next_server)
{
    struct conform_end server, client;
    struct conform_call send;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr, back, seen;

    hg_test_expect_log("zmq+inproc://next cannot be reached");
    endpoint_open(&client, "zmq+inproc://*", NAMES_DEATH_MS);
    endpoint_open(&server, "zmq+inproc://next", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    HG_CHECK_OK(NA_Addr_resolve(client.na_class, name, &addr));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &send, "x", 1, addr, 0, &send.id));
    conform_close(&server);
    HG_CHECK_RET(conform_wait(&client, &send), NA_HOSTUNREACH);
    endpoint_open(&server, name, NAMES_DEATH_MS);
    endpoint_name(&client, client.self, name);
    back = endpoint_lookup_both(&server, &client, name);
    seen = names_introduce(&server, &client, back);
    HG_CHECK(NA_Addr_cmp(client.na_class, addr, seen) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    HG_CHECK_OK(NA_Addr_free(client.na_class, seen));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* ---- Many messages ---- */

/* The number of polls that receive so many messages that are all available:
 * within the process, a sent message is available at once. */
static unsigned names_turns(
    struct conform_end *from, struct conform_end *to, unsigned count)
{
    static struct conform_call sends[256], recvs[256];
    static char got[256];
    char name[NA_MAX_ADDR_LEN];
    unsigned came = 0;
    unsigned turns = 0;
    na_addr_t addr;
    unsigned i;

    endpoint_name(to, to->self, name);
    addr = endpoint_lookup_both(from, to, name);
    HG_CHECK(count <= 256);
    for (i = 0; i < count; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(NA_Msg_send_unexpected(from->na_class, from->context,
            conform_ended, &sends[i], "m", 1, addr, i, &sends[i].id));
        HG_CHECK_OK(conform_recv(to, &recvs[i], false, &got[i], 1, 0));
    }
    while (came < count) {
        unsigned n = conform_turn(to->na_class, to->context, 0);

        HG_CHECK(n <= 64); /* other threads wait for the lock meanwhile */
        came += n;
        HG_CHECK(turns++ < 1000);
    }
    for (i = 0; i < count; i++) {
        HG_CHECK_OK(conform_wait(from, &sends[i]));
        HG_CHECK_OK(recvs[i].ret);
        HG_CHECK_EQ_INT(recvs[i].tag, i);
        conform_free_addr(to, &recvs[i]);
    }
    HG_CHECK_OK(NA_Addr_free(from->na_class, addr));
    return turns;
}

/* A poll asks for as many messages as are likely available, and for more as
 * more arrive. */
HG_TEST(many_messages_are_received_in_few_polls)
{
    struct conform_end one, two;

    endpoint_open(&one, "zmq+inproc://*", NAMES_DEATH_MS);
    endpoint_open(&two, "zmq+inproc://*", NAMES_DEATH_MS);
    HG_CHECK(names_turns(&one, &two, 1) <= 2);
    HG_CHECK(names_turns(&one, &two, 256) <= 16);
    HG_CHECK(names_turns(&two, &one, 256) <= 16);
    conform_close(&one);
    conform_close(&two);
}

/* ---- Memory in both directions ---- */

/* One side's memory, and the handle of the other's. */
struct names_memory {
    struct conform_end *owner;
    unsigned char *bytes;
    na_mem_handle_t mem;
    na_mem_handle_t remote;
};

enum { NAMES_MEMORY = 2 << 20 };

static void names_share(struct names_memory *memory, struct conform_end *owner,
    struct conform_end *other, uint64_t seed)
{
    unsigned char word[64];
    na_size_t size;

    memory->owner = owner;
    memory->bytes = endpoint_map(NAMES_MEMORY);
    conform_fill(memory->bytes, NAMES_MEMORY, seed);
    memory->mem = endpoint_register(owner, memory->bytes, NAMES_MEMORY);
    size = NA_Mem_handle_get_serialize_size(owner->na_class, memory->mem);
    HG_CHECK_OK(NA_Mem_handle_serialize(
        owner->na_class, word, sizeof(word), memory->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        other->na_class, &memory->remote, word, size));
}

static void names_unshare(
    struct names_memory *memory, struct conform_end *other)
{
    HG_CHECK_OK(NA_Mem_handle_free(memory->owner->na_class, memory->mem));
    HG_CHECK_OK(NA_Mem_handle_free(other->na_class, memory->remote));
    endpoint_unmap(memory->bytes, NAMES_MEMORY);
}

/* `from` dials `to`, whether it listens or not. Then both move memory of the
 * other at the same time: they put the first half and get the second. */
static void names_both_ways(const char *one_string, const char *two_string)
{
    struct conform_end ends[2];
    struct names_memory memory[2];
    struct conform_call calls[2][2];
    na_addr_t addrs[2];
    char name[NA_MAX_ADDR_LEN];
    const na_size_t half = NAMES_MEMORY / 2;
    unsigned char *want = endpoint_map(NAMES_MEMORY);
    unsigned i;

    endpoint_open(&ends[0], one_string, NAMES_DEATH_MS);
    endpoint_open(&ends[1], two_string, NAMES_DEATH_MS);
    endpoint_name(&ends[1], ends[1].self, name);
    addrs[0] = endpoint_lookup_both(&ends[0], &ends[1], name);
    addrs[1] = names_introduce(&ends[0], &ends[1], addrs[0]);
    for (i = 0; i < 2; i++)
        names_share(&memory[i], &ends[i], &ends[1 - i], 11 * (i + 1));
    memset(calls, 0, sizeof(calls));
    for (i = 0; i < 2; i++) {
        /* The second half of the first's memory, and the first half of the
         * second's, are the sources. */
        na_offset_t at = i == 0 ? half : 0;

        HG_CHECK_OK(NA_Put(ends[i].na_class, ends[i].context, conform_ended,
            &calls[i][0], memory[i].mem, at, memory[1 - i].remote, at, half / 2,
            addrs[i], &calls[i][0].id));
        at = i == 0 ? 0 : half;
        HG_CHECK_OK(NA_Get(ends[i].na_class, ends[i].context, conform_ended,
            &calls[i][1], memory[i].mem, at + half / 2, memory[1 - i].remote,
            at + half / 2, half / 2, addrs[i], &calls[i][1].id));
    }
    for (i = 0; i < 4; i++)
        HG_CHECK_OK(
            endpoint_wait_both(&ends[0], &ends[1], &calls[i / 2][i % 2]));
    /* Each quarter is now equal on both sides, and has its owner's bytes. */
    HG_CHECK_EQ_MEM(memory[0].bytes, memory[1].bytes, NAMES_MEMORY);
    for (i = 0; i < 4; i++) {
        conform_fill(want, NAMES_MEMORY, i < 2 ? 22 : 11);
        HG_CHECK_EQ_MEM(
            memory[0].bytes + i * half / 2, want + i * half / 2, half / 2);
    }
    for (i = 0; i < 2; i++)
        names_unshare(&memory[i], &ends[1 - i]);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(NA_Addr_free(ends[i].na_class, addrs[i]));
        conform_close(&ends[i]);
    }
    endpoint_unmap(want, NAMES_MEMORY);
}

HG_TEST(class_that_does_not_listen_serves_memory)
{
    names_both_ways("zmq+tcp://", "zmq+tcp://127.0.0.1");
    names_both_ways("zmq+ipc://", "zmq+ipc://*");
    names_both_ways("zmq+inproc://", "zmq+inproc://*");
}

HG_TEST(two_listeners_move_memory_both_ways)
{
    names_both_ways("zmq+tcp://127.0.0.1", "zmq+tcp://127.0.0.1");
    names_both_ways("zmq+ipc://*", "zmq+ipc://*");
    names_both_ways("zmq+inproc://*", "zmq+inproc://*");
}

/* ---- Terminating ---- */

static void names_terminate(const char *string)
{
    struct conform_end server, client;
    struct conform_call recv, end, sends[50];
    char name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr, seen, again;
    unsigned i;

    addr = names_open(&server, &client, string, NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    seen = names_introduce(&client, &server, addr);
    /* Messages sent before arrive; the other side learns of the end. */
    memset(sends, 0, sizeof(sends));
    for (i = 0; i < 50; i++)
        HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
            conform_ended, &sends[i], "x", 1, addr, i, &sends[i].id));
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &end, addr, &end.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
    for (i = 0; i < 50; i++) {
        HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&server, &recv);
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &sends[i]));
    }
    for (i = 0; i < 100; i++) {
        (void) conform_turn(client.na_class, client.context, 1);
        (void) conform_turn(server.na_class, server.context, 1);
    }
    hg_test_allow_log("is dead");
    HG_CHECK_RET(endpoint_send(&server, seen, false, "x", 1, 1), NA_DISCONNECT);
    /* The next use dials again; this time the callee's side ends the
     * connection. */
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    memset(&sends[0], 0, sizeof(sends[0]));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &sends[0], "x", 1, addr, 7, &sends[0].id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &recv));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &sends[0]));
    again = recv.addr;
    HG_CHECK(again != seen);
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(
        server.na_class, server.context, conform_ended, &end, again, &end.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
    for (i = 0; i < 30; i++) {
        (void) conform_turn(client.na_class, client.context, 1);
        (void) conform_turn(server.na_class, server.context, 1);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(client.na_class, "zmq_malformed"), 0);
    HG_CHECK_OK(NA_Addr_free(server.na_class, seen));
    HG_CHECK_OK(NA_Addr_free(server.na_class, again));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    addr = endpoint_lookup_both(&client, &server, name);
    /* A send during the end of a connection dials again when it is over. */
    seen = names_introduce(&client, &server, addr);
    HG_CHECK_OK(NA_Addr_free(server.na_class, seen));
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &end, addr, &end.id));
    memset(&sends[0], 0, sizeof(sends[0]));
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &sends[0], "x", 1, addr, 8, &sends[0].id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &sends[0]));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &recv));
    conform_free_addr(&server, &recv);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* No listener exists when it dials again: it was reached once. */
static void names_terminate_for_good(const char *string)
{
    struct conform_end server, client;
    struct conform_call end;
    na_addr_t addr = names_open(&server, &client, string, NAMES_DEATH_MS);

    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &end, addr, &end.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
    conform_close(&server);
    HG_CHECK_RET(endpoint_send(&client, addr, false, "x", 1, 1), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
}

HG_TEST(terminated_peer_that_exits_is_disconnected)
{
    names_terminate_for_good("zmq+tcp://127.0.0.1");
    names_terminate_for_good("zmq+ipc://*");
    names_terminate_for_good("zmq+inproc://*");
}

HG_TEST(terminate_sends_everything_and_can_be_undone)
{
    names_terminate("zmq+tcp://127.0.0.1");
    names_terminate("zmq+ipc://*");
    names_terminate("zmq+inproc://*");
}

/* One of the two ends a connection. At any moment the dialing side looks its
 * peer up or, if it ended the connection itself, sends to it: that succeeds.
 * Within a process each step takes one poll. */
static void names_meanwhile(bool by_server)
{
    enum { TURNS = 60 };
    static struct conform_call lookups[TURNS], sends[TURNS];
    struct conform_end server, client;
    struct conform_end *who = by_server ? &server : &client;
    struct conform_call end;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr, seen;
    unsigned i;

    addr = names_open(&server, &client, "zmq+inproc://*", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    seen = names_introduce(&client, &server, addr);
    memset(&end, 0, sizeof(end));
    memset(lookups, 0, sizeof(lookups));
    memset(sends, 0, sizeof(sends));
    HG_CHECK_OK(NA_Addr_terminate(who->na_class, who->context, conform_ended,
        &end, by_server ? seen : addr, &end.id));
    for (i = 0; i < TURNS; i++) {
        HG_CHECK_OK(NA_Addr_lookup(client.na_class, client.context,
            conform_ended, &lookups[i], name, &lookups[i].id));
        if (!by_server)
            HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
                conform_ended, &sends[i], "x", 1, addr, i, &sends[i].id));
        (void) conform_turn(client.na_class, client.context, 0);
        (void) conform_turn(server.na_class, server.context, 0);
    }
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
    for (i = 0; i < TURNS; i++) {
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &lookups[i]));
        conform_free_addr(&client, &lookups[i]);
        if (!by_server)
            HG_CHECK_OK(endpoint_wait_both(&client, &server, &sends[i]));
    }
    HG_CHECK_OK(NA_Addr_free(server.na_class, seen));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(terminated_peer_is_looked_up_again_at_every_moment)
{
    names_meanwhile(false);
    names_meanwhile(true);
}

/* ---- What remains ---- */

HG_TEST(callers_leave_no_descriptor)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    unsigned before = 0;
    unsigned i;

    endpoint_open(&server, "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
    endpoint_name(&server, server.self, name);
    for (i = 0; i < 100; i++) {
        uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
        na_addr_t addr, seen;

        endpoint_open(&client, "zmq+tcp://", NAMES_DEATH_MS);
        addr = endpoint_lookup_both(&client, &server, name);
        seen = names_introduce(&client, &server, addr);
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
        conform_close(&client);
        HG_CHECK_OK(NA_Addr_free(server.na_class, seen));
        if (i == 0)
            before = hg_test_fd_count();
        while (hg_test_fd_count() > before && endpoint_ms() < end)
            (void) conform_turn(server.na_class, server.context, 1);
        HG_CHECK_EQ_INT(hg_test_fd_count() <= before, 1);
    }
    conform_close(&server);
}

enum { NAMES_MANY = 12 };

HG_TEST(many_classes_in_one_process_reach_each_other)
{
    struct conform_end ends[NAMES_MANY];
    struct conform_call calls[NAMES_MANY][NAMES_MANY];
    char names[NAMES_MANY][NA_MAX_ADDR_LEN];
    unsigned missing;
    unsigned i, j;
    uint64_t until = endpoint_ms() + CONFORM_TIMEOUT;

    memset(calls, 0, sizeof(calls));
    for (i = 0; i < NAMES_MANY; i++) {
        endpoint_open(&ends[i], "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
        endpoint_name(&ends[i], ends[i].self, names[i]);
    }
    for (i = 0; i < NAMES_MANY; i++)
        for (j = 0; j < NAMES_MANY; j++)
            HG_CHECK_OK(NA_Addr_lookup(ends[i].na_class, ends[i].context,
                conform_ended, &calls[i][j], names[j], &calls[i][j].id));
    do {
        missing = 0;
        for (i = 0; i < NAMES_MANY; i++) {
            (void) conform_turn(ends[i].na_class, ends[i].context, 0);
            for (j = 0; j < NAMES_MANY; j++)
                missing += calls[i][j].ends == 0;
        }
        HG_CHECK(endpoint_ms() < until);
    } while (missing > 0);
    for (i = 0; i < NAMES_MANY; i++) {
        for (j = 0; j < NAMES_MANY; j++) {
            HG_CHECK_OK(calls[i][j].ret);
            HG_CHECK_EQ_INT(
                NA_Addr_is_self(ends[i].na_class, calls[i][j].addr), i == j);
            HG_CHECK_OK(NA_Addr_free(ends[i].na_class, calls[i][j].addr));
        }
    }
    for (i = 0; i < NAMES_MANY; i++)
        conform_close(&ends[i]);
}

/* A get sends the source's memory in place. */
HG_TEST(source_of_a_get_copies_nothing)
{
    enum { SIZE = 16 << 20 };
    struct conform_end server, client;
    struct conform_call call;
    unsigned char *from = endpoint_map(SIZE), *to = endpoint_map(SIZE);
    unsigned char bytes[256];
    na_mem_handle_t source, local, remote;
    na_addr_t addr;
    na_size_t size;

    addr = names_open(&server, &client, "zmq+tcp://127.0.0.1", NAMES_DEATH_MS);
    conform_fill(from, SIZE, 3);
    source = endpoint_register(&server, from, SIZE);
    local = endpoint_register(&client, to, SIZE);
    size = NA_Mem_handle_get_serialize_size(server.na_class, source);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(server.na_class, bytes, sizeof(bytes), source));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(client.na_class, &remote, bytes, size));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(client.na_class, client.context, conform_ended, &call,
        local, 0, remote, 0, SIZE, addr, &call.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &call));
    HG_CHECK_EQ_MEM(to, from, SIZE);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "rma_bytes_sent"), SIZE);
    HG_CHECK_EQ_U64(
        NA_Get_counter(server.na_class, "rma_bytes_copied_source"), 0);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "zmq_bytes_copied"), 0);
    HG_CHECK_OK(NA_Mem_handle_free(server.na_class, source));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
    endpoint_unmap(from, SIZE);
    endpoint_unmap(to, SIZE);
}

/* ---- Wakeups ---- */

struct names_echo {
    struct conform_end end;
    unsigned rounds;
    _Atomic bool stop;
};

/* Answer so many messages, sleeping in between, at times a little late. */
static void *names_answer(void *arg)
{
    struct names_echo *echo = (struct names_echo *) arg;
    uint64_t random = 1;
    unsigned i;

    for (i = 0; i < echo->rounds; i++) {
        struct conform_call recv;
        char got[8];

        HG_CHECK_OK(
            conform_recv(&echo->end, &recv, false, got, sizeof(got), 0));
        while (recv.ends == 0)
            (void) conform_turn(
                echo->end.na_class, echo->end.context, CONFORM_TIMEOUT);
        if (hg_test_random(&random) % 64 == 0)
            sched_yield();
        HG_CHECK_OK(endpoint_send(
            &echo->end, recv.addr, true, got, recv.size, recv.tag));
        conform_free_addr(&echo->end, &recv);
    }
    return NULL;
}

HG_TEST_SECONDS(no_wakeup_is_lost, 60)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct names_echo echo;
    struct conform_end client;
    pthread_t thread;
    uint64_t random = hg_test_seed();
    char name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    info.wait_mode = NA_WAIT_BLOCK;
    echo.rounds = getenv("HG_TEST_FULL") != NULL ? 5000 : 2000;
    endpoint_open_info(&echo.end, "zmq+tcp://127.0.0.1", NA_TRUE, &info);
    endpoint_open_client(&client, &echo.end, &info);
    endpoint_name(&echo.end, echo.end.self, name);
    HG_CHECK(pthread_create(&thread, NULL, names_answer, &echo) == 0);
    HG_CHECK_OK(endpoint_lookup(&client, name, &addr));
    for (i = 0; i < echo.rounds; i++) {
        uint64_t start = endpoint_ms();

        if (hg_test_random(&random) % 64 == 0)
            endpoint_sleep(1);
        HG_CHECK_OK(endpoint_ask(&client, addr, i, got, sizeof(got), NULL));
        HG_CHECK(endpoint_ms() - start < CONFORM_TIMEOUT / 2);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&echo.end);
}

/* Serve until told to stop, never without an event for long. */
static void *names_serve(void *arg)
{
    struct names_echo *echo = (struct names_echo *) arg;

    while (!atomic_load(&echo->stop))
        (void) NA_Progress(
            echo->end.na_class, echo->end.context, CONFORM_TIMEOUT);
    return NULL;
}

/* Frames that found no space are sent when there is some: no thread sleeps
 * through that. */
static void names_transfer(const char *string)
{
    enum { SIZE = 12 << 20 };
    const unsigned rounds = getenv("HG_TEST_FULL") != NULL ? 20 : 8;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct names_echo echo;
    struct conform_end client;
    struct conform_call recv;
    char got[8];
    pthread_t thread;
    unsigned char *from = endpoint_map(SIZE), *to = endpoint_map(SIZE);
    unsigned char bytes[256];
    char name[NA_MAX_ADDR_LEN];
    na_mem_handle_t source, local, remote;
    na_addr_t addr = NA_ADDR_NULL;
    na_size_t size;
    unsigned i;

    info.wait_mode = NA_WAIT_BLOCK;
    atomic_init(&echo.stop, false);
    endpoint_open_info(&echo.end, string, NA_TRUE, &info);
    endpoint_open_client(&client, &echo.end, &info);
    endpoint_name(&echo.end, echo.end.self, name);
    conform_fill(from, SIZE, 9);
    source = endpoint_register(&echo.end, from, SIZE);
    size = NA_Mem_handle_get_serialize_size(echo.end.na_class, source);
    HG_CHECK_OK(NA_Mem_handle_serialize(
        echo.end.na_class, bytes, sizeof(bytes), source));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(client.na_class, &remote, bytes, size));
    local = endpoint_register(&client, to, SIZE);
    HG_CHECK_OK(conform_recv(&echo.end, &recv, false, got, sizeof(got), 0));
    HG_CHECK(pthread_create(&thread, NULL, names_serve, &echo) == 0);
    HG_CHECK_OK(endpoint_lookup(&client, name, &addr));
    for (i = 0; i < rounds; i++) {
        struct conform_call call;

        memset(&call, 0, sizeof(call));
        HG_CHECK_OK((i % 2 == 0 ? NA_Get : NA_Put)(client.na_class,
            client.context, conform_ended, &call, local, 0, remote, 0, SIZE,
            addr, &call.id));
        while (call.ends == 0) {
            HG_CHECK_OK(NA_Progress(
                client.na_class, client.context, CONFORM_TIMEOUT / 2));
            (void) conform_trigger(client.context, 0, 10);
        }
        HG_CHECK_OK(call.ret);
    }
    atomic_store(&echo.stop, true);
    HG_CHECK_OK(endpoint_send(&client, addr, false, "stop", 5, 0));
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_EQ_MEM(to, from, SIZE);
    HG_CHECK_OK(conform_wait(&echo.end, &recv));
    conform_free_addr(&echo.end, &recv);
    HG_CHECK_OK(NA_Mem_handle_free(echo.end.na_class, source));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&echo.end);
    endpoint_unmap(from, SIZE);
    endpoint_unmap(to, SIZE);
}

HG_TEST_SECONDS(no_wakeup_is_lost_by_transfers, 60)
{
    names_transfer("zmq+tcp://127.0.0.1");
    names_transfer("zmq+ipc://*");
#if !defined(__SANITIZE_THREAD__)
    /* libzmq passes the memory of a message from one thread to the other. The
     * thread sanitizer does not see how, and reports each access to it. */
    names_transfer("zmq+inproc://*");
#endif
}
