/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host names: silent name servers, hosts with several numbers, and numbers that
 * change. This program has its own getaddrinfo, which knows a few hosts. A
 * silent one is not answered before names_answer: what happens until then has
 * not waited for the name server. On every transport over IP.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "conform.h"
#include "rpc.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMES_SHORT_MS 150u /* a time limit that passes */
#define NAMES_NUMBERS 20    /* of a host, at most */
#define NAMES_BYTES 300000u /* of bulk data */

/* ---- The name server ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool silent;     /* host "silent" */
    unsigned asked;  /* queries so far */
    unsigned asking; /* threads in getaddrinfo */
    /* Numbers of the host "moving", up to NULL. */
    const char *moving[NAMES_NUMBERS + 1];
} names = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, 0, 0,
    {"127.0.0.1", NULL}};

static _Thread_local bool names_is_main;

static int (*names_real(void))(
    const char *, const char *, const struct addrinfo *, struct addrinfo **)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
        struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    HG_CHECK(symbol != NULL);
    memcpy(&real, &symbol, sizeof(real));
    return real;
}

/* The numbers up to NULL, in order, as the host's addresses. */
static int names_list(const char *const *numbers, const struct addrinfo *hints,
    struct addrinfo **res)
{
    struct addrinfo exact = *hints;

    *res = NULL;
    exact.ai_flags |= AI_NUMERICHOST;
    for (; *numbers != NULL; numbers++) {
        HG_CHECK(names_real()(*numbers, NULL, &exact, res) == 0);
        res = &(*res)->ai_next;
    }
    return 0;
}

int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    int rc = EAI_NONAME;

    if (node == NULL || strchr(node, ':') != NULL ||
        strpbrk(node, "ghijklmnopqrstuvwxyz") == NULL ||
        (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0))
        return names_real()(node, service, hints, res);
    HG_CHECK(!names_is_main); /* it would block the application */
    if (strcmp(node, "host.invalid") == 0)
        return names_real()(node, service, hints, res);
    HG_CHECK(hints != NULL && service == NULL);
    (void) pthread_mutex_lock(&names.lock);
    names.asked++;
    names.asking++;
    (void) pthread_cond_broadcast(&names.changed);
    while (strncmp(node, "silent", 6) == 0 && names.silent)
        (void) pthread_cond_wait(&names.changed, &names.lock);
    if (strncmp(node, "silent", 6) == 0 || strcmp(node, "moving") == 0)
        rc = names_list(names.moving, hints, res);
    names.asking--;
    (void) pthread_cond_broadcast(&names.changed);
    (void) pthread_mutex_unlock(&names.lock);
    return rc;
}

/* The silent host was asked for so often, and is not answered yet. */
static void names_wait_asked(unsigned count)
{
    (void) pthread_mutex_lock(&names.lock);
    while (names.asking < count)
        (void) pthread_cond_wait(&names.changed, &names.lock);
    (void) pthread_mutex_unlock(&names.lock);
}

/* Whether the silent host is not answered yet; waits until it was asked for. */
static bool names_is_silent(void)
{
    bool silent;

    (void) pthread_mutex_lock(&names.lock);
    while (names.silent && names.asking == 0)
        (void) pthread_cond_wait(&names.changed, &names.lock);
    silent = names.silent;
    (void) pthread_mutex_unlock(&names.lock);
    return silent;
}

/* Answer, and wait until the threads have got it. */
static void names_answer(void)
{
    (void) pthread_mutex_lock(&names.lock);
    names.silent = false;
    (void) pthread_cond_broadcast(&names.changed);
    while (names.asking > 0)
        (void) pthread_cond_wait(&names.changed, &names.lock);
    (void) pthread_mutex_unlock(&names.lock);
}

static void names_move(const char *first, const char *second)
{
    (void) pthread_mutex_lock(&names.lock);
    names.moving[0] = first;
    names.moving[1] = second;
    names.moving[2] = NULL;
    (void) pthread_mutex_unlock(&names.lock);
}

/* ---- A system that lacks something ---- */

/* Checkers have a pthread_create and a calloc of their own. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define NAMES_CAN_FAIL 1

static _Atomic bool names_no_thread;
static _Atomic bool names_no_memory;
static _Atomic bool names_watches; /* the next large block is a query */
static void *_Atomic names_query;  /* it, until it is freed */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg)
{
    int (*real)(
        pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");

    HG_CHECK(symbol != NULL);
    memcpy(&real, &symbol, sizeof(real));
    return atomic_load(&names_no_thread) ? EAGAIN
                                         : real(thread, attr, run, arg);
}

/* Large blocks: a query, not what the harness allocates. */
void *calloc(size_t count, size_t size)
{
    extern void *__libc_calloc(size_t, size_t);
    bool large = count * size > 1024;
    void *memory;

    if (large && atomic_load(&names_no_memory))
        return NULL;
    memory = __libc_calloc(count, size);
    if (large && atomic_exchange(&names_watches, false))
        atomic_store(&names_query, memory);
    return memory;
}

void free(void *memory)
{
    extern void __libc_free(void *);
    void *query = memory;

    if (memory != NULL)
        (void) atomic_compare_exchange_strong(&names_query, &query, NULL);
    __libc_free(memory);
}

static void names_watch_query(void)
{
    atomic_store(&names_watches, true);
}

/* A query was made since, and is freed, perhaps later by its thread. */
static void names_wait_freed(void)
{
    unsigned turns;

    if (!hg_test_is_plain())
        return; /* valgrind has replaced calloc */
    HG_CHECK(!atomic_load(&names_watches));
    for (turns = 0; atomic_load(&names_query) != NULL; turns++) {
        HG_CHECK(turns < CONFORM_TIMEOUT);
        (void) usleep(1000);
    }
}
#else
#define NAMES_CAN_FAIL 0

static void names_watch_query(void)
{
}

static void names_wait_freed(void)
{
}
#endif

/* ---- Endpoints ---- */

/* A class with `rest` behind "://". */
static void names_open_as(struct conform_end *end, const char *rest,
    enum na_addr_format family, na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[NA_MAX_ADDR_LEN];

    names_is_main = true;
    info.addr_format = family;
    info.lookup_ms = hg_test_scaled_ms(4000);
    info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    (void) snprintf(
        string, sizeof(string), "%s://%s", hg_test_transport(), rest);
    end->na_class = NA_Initialize_opt(string, listen, &info);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

static void names_open_at(
    struct conform_end *end, const char *rest, enum na_addr_format family)
{
    names_open_as(end, rest, family, NA_TRUE);
}

/* Skip the case in make check. */
static void names_need_full(const char *why)
{
    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("%s; set HG_TEST_FULL", why);
}

/* For cases that do the same over libfabric, where a class opens slowly. */
static void names_need_zmq_or_full(void)
{
    if (hg_test_is_ofi())
        names_need_full("takes 0.5 s over libfabric");
}

static void names_open(struct conform_end *end)
{
    names_open_at(end, "127.0.0.1", NA_ADDR_UNSPEC);
}

static unsigned names_port(const struct conform_end *end)
{
    char name[NA_MAX_ADDR_LEN];

    HG_CHECK_OK(
        NA_Addr_to_string(end->na_class, name, sizeof(name), end->self));
    return (unsigned) strtoul(strrchr(name, ':') + 1, NULL, 10);
}

/* The address string of a host with the port of `end`. */
static const char *names_of(const char *host, const struct conform_end *end)
{
    static char name[NA_MAX_ADDR_LEN];

    (void) snprintf(name, sizeof(name), "%s://%s:%u", hg_test_transport(), host,
        names_port(end));
    return name;
}

static void names_look_up(
    struct conform_end *end, struct conform_call *call, const char *name)
{
    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(NA_Addr_lookup(
        end->na_class, end->context, conform_ended, call, name, &call->id));
}

/* Make progress on both until `call` has ended. */
static na_return_t names_wait(
    struct conform_end *one, struct conform_end *two, struct conform_call *call)
{
    unsigned turns = 0;

    while (call->ends == 0) {
        HG_CHECK(turns++ < CONFORM_TIMEOUT);
        (void) conform_turn(one->na_class, one->context, 1);
        (void) conform_turn(two->na_class, two->context, 0);
    }
    return call->ret;
}

/* Send a message and wait until it arrives. */
static na_return_t names_send(
    struct conform_end *from, struct conform_end *to, na_addr_t addr)
{
    struct conform_call send, recv;
    char out = 'x', in = 0;
    na_return_t ret;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(conform_recv(to, &recv, false, &in, 1, 0));
    ret = NA_Msg_send_unexpected(from->na_class, from->context, conform_ended,
        &send, &out, 1, addr, 7, &send.id);
    if (ret == NA_SUCCESS)
        ret = names_wait(from, to, &send);
    if (ret == NA_SUCCESS) {
        HG_CHECK_OK(names_wait(from, to, &recv));
        HG_CHECK_EQ_INT(in, 'x');
        conform_free_addr(to, &recv);
        return ret;
    }
    HG_CHECK_OK(NA_Cancel(to->na_class, to->context, recv.id));
    HG_CHECK_RET(names_wait(from, to, &recv), NA_CANCELED);
    return ret;
}

/* Look up a host with the port of `server`, and send to it. The address is
 * called as the application called it. */
static void names_check_reached(
    struct conform_end *client, struct conform_end *server, const char *host)
{
    struct conform_call lookup;
    char name[NA_MAX_ADDR_LEN];

    names_look_up(client, &lookup, names_of(host, server));
    HG_CHECK_OK(names_wait(client, server, &lookup));
    HG_CHECK_OK(
        NA_Addr_to_string(client->na_class, name, sizeof(name), lookup.addr));
    HG_CHECK_EQ_STR(name, names_of(host, server));
    HG_CHECK_OK(names_send(client, server, lookup.addr));
    conform_free_addr(client, &lookup);
}

/* ---- A silent name server ---- */

HG_TEST_WHERE(host_name_lookup_keeps_its_time_limit, hg_test_crosses_hosts)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    names_open(&end);
    names_watch_query();
    hg_test_expect_log("no response from");
    HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, names_of("silent", &end),
                     NAMES_SHORT_MS, &addr),
        NA_TIMEOUT);
    HG_CHECK(names_is_silent());
    conform_close(&end);
    HG_CHECK(names_is_silent());
    names_answer();
    names_wait_freed(); /* its class is gone */
}

/* Write a file, and mount it over another for this process alone. */
static void names_mount(const char *text, const char *over)
{
    char path[256];
    FILE *file;

    (void) snprintf(
        path, sizeof(path), "%s%s", hg_test_dir(), strrchr(over, '/'));
    file = fopen(path, "w");
    HG_CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    HG_CHECK(mount(path, over, "none", MS_BIND, NULL) == 0);
}

static void names_set_up_loopback(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq loopback;

    memset(&loopback, 0, sizeof(loopback));
    memcpy(loopback.ifr_name, "lo", 2);
    loopback.ifr_flags = IFF_UP;
    HG_CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0);
    (void) close(fd);
}

/* The name server of the system reads queries, but does not answer. */
static void names_mute_system(void)
{
    struct sockaddr_in where;
    int fd;

    if (geteuid() != 0 || unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
        hg_test_skip("only root can replace the name server");
    names_mount("nameserver 127.0.0.1\n", "/etc/resolv.conf");
    names_mount("hosts: files dns\n", "/etc/nsswitch.conf");
    memset(&where, 0, sizeof(where));
    where.sin_family = AF_INET;
    where.sin_port = htons(53);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    names_set_up_loopback();
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    HG_CHECK(
        fd >= 0 && bind(fd, (struct sockaddr *) &where, sizeof(where)) == 0);
}

static uint64_t names_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* glibc asks a silent name server for 10 s. */
HG_TEST_WHERE(name_server_of_the_system_is_silent, hg_test_crosses_hosts)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    uint64_t start;
    int status;
    pid_t child;

    names_need_full("replaces the name server of the system");
    names_mute_system();
    names_open(&end);
    start = names_ms();
    hg_test_expect_log("no response from");
    HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class,
                     names_of("host.invalid", &end), NAMES_SHORT_MS, &addr),
        NA_TIMEOUT);
    child = fork();
    if (child == 0)
        hg_test_exit_child(0);
    HG_CHECK(waitpid(child, &status, 0) == child && status == 0);
    conform_close(&end);
    HG_CHECK(names_ms() - start < hg_test_scaled_ms(20 * NAMES_SHORT_MS));
}

HG_TEST_WHERE(host_name_lookup_ends_by_lookup_ms, hg_test_crosses_hosts)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call lookup;
    struct conform_end end;

    names_need_zmq_or_full();
    names_is_main = true;
    info.lookup_ms = NAMES_SHORT_MS;
    conform_open(&end, &info);
    hg_test_expect_log(
        "cannot be reached: no answer of the name server in time");
    names_look_up(&end, &lookup, names_of("silent", &end));
    names_wait_asked(1);
    HG_CHECK_RET(conform_wait(&end, &lookup), NA_HOSTUNREACH);
    HG_CHECK(names_is_silent());
    conform_close(&end);
    names_answer();
}

HG_TEST_WHERE(silent_name_server_delays_nothing_else, hg_test_crosses_hosts)
{
    struct conform_call lookups[4];
    struct conform_end one, two;
    na_addr_t addr, other;
    unsigned i;

    names_open(&one);
    names_open(&two);
    HG_CHECK_OK(
        NA_Addr_resolve(one.na_class, names_of("127.0.0.1", &two), &other));
    HG_CHECK_OK(NA_Addr_resolve(one.na_class, names_of("silent", &two), &addr));
    for (i = 0; i < 4; i++)
        names_look_up(&one, &lookups[i], names_of("silent", &two));
    names_wait_asked(1);
    for (i = 0; i < 10; i++)
        HG_CHECK_OK(names_send(&one, &two, other));
    HG_CHECK(names_is_silent());
    HG_CHECK_OK(NA_Cancel(one.na_class, one.context, lookups[3].id));
    HG_CHECK_RET(names_wait(&one, &two, &lookups[3]), NA_CANCELED);
    HG_CHECK(names_is_silent());
    names_answer();
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(names_wait(&one, &two, &lookups[i]));
        HG_CHECK(lookups[i].addr == addr);
        conform_free_addr(&one, &lookups[i]);
    }
    HG_CHECK_EQ_INT(names.asked, 1);
    HG_CHECK_OK(names_send(&one, &two, addr));
    HG_CHECK_OK(NA_Addr_free(one.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(one.na_class, other));
    conform_close(&one);
    conform_close(&two);
}

HG_TEST_WHERE(many_silent_names_are_looked_up, hg_test_crosses_hosts)
{
    struct conform_call lookups[20]; /* more than there are threads for */
    struct conform_end one, two;
    char host[32];
    unsigned i;

    names_need_zmq_or_full();
    names_open(&one);
    names_open(&two);
    for (i = 0; i < 20; i++) {
        (void) snprintf(host, sizeof(host), "silent%u", i);
        names_look_up(&one, &lookups[i], names_of(host, &two));
    }
    for (i = 15; i < 20; i++) {
        HG_CHECK_OK(NA_Cancel(one.na_class, one.context, lookups[i].id));
        HG_CHECK_RET(names_wait(&one, &two, &lookups[i]), NA_CANCELED);
    }
    names_wait_asked(2);
    HG_CHECK(names_is_silent());
    names_answer();
    for (i = 0; i < 15; i++) {
        HG_CHECK_OK(names_wait(&one, &two, &lookups[i]));
        HG_CHECK_OK(names_send(&one, &two, lookups[i].addr));
        HG_CHECK(NA_Addr_cmp(one.na_class, lookups[0].addr, lookups[i].addr));
    }
    for (i = 0; i < 15; i++)
        conform_free_addr(&one, &lookups[i]);
    conform_close(&one);
    conform_close(&two);
}

HG_TEST_WHERE(fork_does_not_wait_for_a_name_server, hg_test_crosses_hosts)
{
    struct conform_call lookup;
    struct conform_end one, two;
    int status;
    pid_t child;

    names_need_zmq_or_full();
    names_open(&one);
    names_open(&two);
    names_look_up(&one, &lookup, names_of("silent", &two));
    names_wait_asked(1);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        struct conform_end other, server;

        if (!hg_test_is_plain()) /* ThreadSanitizer allows no new threads */
            hg_test_exit_child(0);
        names.asking = 0; /* the thread is in the parent */
        names_open(&other);
        names_open(&server);
        names_check_reached(&other, &server, "moving");
        conform_close(&other);
        conform_close(&server);
        hg_test_exit_child(0);
    }
    HG_CHECK(waitpid(child, &status, 0) == child && status == 0);
    HG_CHECK(names_is_silent());
    names_answer();
    HG_CHECK_OK(names_wait(&one, &two, &lookup));
    conform_free_addr(&one, &lookup);
    conform_close(&one);
    conform_close(&two);
}

/* ---- Several numbers ---- */

/* A port of a number where nothing answers: the queue of its listener is full,
 * so the kernel drops further packets. */
struct names_hole {
    int listener;
    int queued[4];
};

static void names_dig(
    struct names_hole *hole, const char *number, unsigned port)
{
    struct sockaddr_in where;
    unsigned i;

    memset(&where, 0, sizeof(where));
    where.sin_family = AF_INET;
    where.sin_port = htons((uint16_t) port);
    HG_CHECK(inet_pton(AF_INET, number, &where.sin_addr) == 1);
    hole->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HG_CHECK(hole->listener >= 0 &&
        bind(hole->listener, (struct sockaddr *) &where, sizeof(where)) == 0 &&
        listen(hole->listener, 0) == 0);
    for (i = 0; i < 4; i++) {
        hole->queued[i] =
            socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void) connect(
            hole->queued[i], (struct sockaddr *) &where, sizeof(where));
    }
}

static void names_fill(struct names_hole *hole)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        (void) close(hole->queued[i]);
    (void) close(hole->listener);
}

HG_TEST_WHERE(
    second_number_is_tried_if_the_first_refuses, hg_test_crosses_hosts)
{
    struct conform_end client, server;

    names_need_zmq_or_full();
    /* It does not listen, and connects from a host of its own. */
    names_open_as(&client, "127.0.0.1", NA_ADDR_UNSPEC, NA_FALSE);
    names_open(&server);
    names_move("127.0.0.9", "127.0.0.1");
    names_check_reached(&client, &server, "moving");
    conform_close(&client);
    conform_close(&server);
}

HG_TEST_WHERE(
    second_number_is_tried_if_the_first_is_mute, hg_test_crosses_hosts)
{
    struct conform_end client, server;
    struct names_hole hole;

    names_open(&client);
    names_open(&server);
    names_dig(&hole, "127.0.0.9", names_port(&server));
    names_move("127.0.0.9", "127.0.0.1");
    names_check_reached(&client, &server, "moving");
    names_fill(&hole);
    conform_close(&client);
    conform_close(&server);
}

HG_TEST_WHERE(dead_numbers_fail_once_all_were_tried, hg_test_crosses_hosts)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call lookup;
    struct conform_end end;

    names_need_zmq_or_full();
    names_is_main = true;
    info.lookup_ms = NAMES_SHORT_MS;
    conform_open(&end, &info);
    names_move("127.0.0.9", "127.0.0.8");
    hg_test_expect_log("cannot be reached:");
    names_look_up(&end, &lookup, names_of("moving", &end));
    HG_CHECK_RET(conform_wait(&end, &lookup), NA_HOSTUNREACH);
    conform_close(&end);
}

static bool names_has_both(void)
{
    return hg_test_crosses_hosts() && !hg_test_is_ofi();
}

static bool names_is_ofi(void)
{
    return hg_test_crosses_hosts() && hg_test_is_ofi();
}

/* Memory of a class as its peer knows it. */
static na_mem_handle_t names_pass(
    struct conform_end *owner, na_mem_handle_t memory, struct conform_end *peer)
{
    char bytes[1024];
    na_size_t size;
    na_mem_handle_t remote;

    HG_CHECK_OK(NA_Mem_register(owner->na_class, memory));
    size = NA_Mem_handle_get_serialize_size(owner->na_class, memory);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_serialize(owner->na_class, bytes, size, memory));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(peer->na_class, &remote, bytes, size));
    return remote;
}

/* Whether this host has an IPv6 loopback. */
static void names_need_ipv6(void)
{
    struct sockaddr_in6 where;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc;

    memset(&where, 0, sizeof(where));
    where.sin6_family = AF_INET6;
    where.sin6_addr = in6addr_loopback;
    rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *) &where, sizeof(where));
    if (fd >= 0)
        (void) close(fd);
    if (rc != 0)
        hg_test_skip("no IPv6 loopback");
}

/* Over libfabric a class that listens has one family. */
HG_TEST_WHERE(server_of_either_family_is_reached, hg_test_crosses_hosts)
{
    struct conform_end client, server;

    names_need_zmq_or_full();
    names_need_ipv6();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    names_move("127.0.0.1", "::1");
    names_check_reached(&client, &server, "moving");
    names_check_reached(&client, &server, "[::1]");
    names_move("::1", "127.0.0.1");
    conform_close(&server);
    names_open(&server);
    names_check_reached(&client, &server, "moving");
    names_check_reached(&client, &server, "127.0.0.1");
    conform_close(&server);
    conform_close(&client);
}

/* The first use of an address, whose host has numbers of both families, moves
 * memory. Then messages follow, and the address of the same server by another
 * name equals it. */
HG_TEST_WHERE(first_use_of_the_other_family_is_a_put, names_is_ofi)
{
    static unsigned char from[NAMES_BYTES], to[NAMES_BYTES];
    struct conform_end client, server;
    na_mem_handle_t memory, local, remote;
    struct conform_call call;
    na_addr_t addr, number;

    names_need_zmq_or_full();
    names_need_ipv6();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    names_move("127.0.0.9", "::1");
    conform_fill(from, sizeof(from), 5);
    memory = conform_memory(&server, to, sizeof(to), NA_MEM_READWRITE);
    local = conform_memory(&client, from, sizeof(from), NA_MEM_READWRITE);
    remote = names_pass(&server, memory, &client);
    HG_CHECK_OK(
        NA_Addr_resolve(client.na_class, names_of("moving", &server), &addr));
    HG_CHECK_OK(
        NA_Addr_resolve(client.na_class, names_of("[::1]", &server), &number));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Put(client.na_class, client.context, conform_ended, &call,
        local, 0, remote, 0, sizeof(from), addr, &call.id));
    HG_CHECK_OK(names_wait(&client, &server, &call));
    HG_CHECK_EQ_MEM(to, from, sizeof(from));
    HG_CHECK_OK(names_send(&client, &server, addr));
    HG_CHECK_OK(names_send(&client, &server, number));
    HG_CHECK(NA_Addr_cmp(client.na_class, addr, number));
    HG_CHECK_OK(names_send(&client, &client, client.self));
    HG_CHECK_OK(NA_Addr_free(client.na_class, number));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(server.na_class, memory));
    conform_close(&server);
    conform_close(&client);
}

HG_TEST_WHERE(numbers_of_another_family_are_left_out, names_is_ofi)
{
    struct conform_call lookup;
    struct conform_end client, server;

    names_need_zmq_or_full();
    names_need_ipv6();
    names_open_at(&client, "[::1]", NA_ADDR_IPV6);
    names_open_at(&server, "[::1]", NA_ADDR_IPV6);
    names_move("127.0.0.1", "::1");
    names_check_reached(&client, &server, "moving");
    names_move("127.0.0.1", NULL);
    hg_test_expect_log("the host has only IPv4 addresses, and this class has "
                       "only IPv6. For IPv4 open it at 0.0.0.0, or with "
                       "addr_format NA_ADDR_IPV4");
    names_look_up(&client, &lookup, names_of("silent", &server));
    names_answer();
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    conform_close(&server);
    conform_close(&client);
}

/* A client that names no host has IPv4. The error says how to get IPv6, and
 * that is true. */
HG_TEST_WHERE(server_of_the_other_family_is_explained, names_is_ofi)
{
    static const char *const opens[] = {"", "[::]"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call lookup;
    struct conform_end client, server;
    unsigned i;

    names_need_ipv6();
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    names_is_main = true;
    info.lookup_ms = NAMES_SHORT_MS;
    info.addr_format = NA_ADDR_IPV4;
    conform_open(&client, &info);
    /* A number, at once. */
    hg_test_expect_log("it is of IPv6, and this class has only IPv4. For IPv6 "
                       "open it at [::], or with addr_format NA_ADDR_IPV6");
    HG_CHECK_RET(NA_Addr_lookup(client.na_class, client.context, conform_ended,
                     &lookup, names_of("[::1]", &server), &lookup.id),
        NA_INVALID_ARG);
    names_move("::1", NULL);
    hg_test_expect_log("the host has only IPv6 addresses, and this class has "
                       "only IPv4. For IPv6 open it at [::], or with "
                       "addr_format NA_ADDR_IPV6");
    names_look_up(&client, &lookup, names_of("moving", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    names_move("127.0.0.9", "::1");
    hg_test_expect_log("cannot be reached: no answer, or refused. The host has "
                       "IPv6, too, but this class has only IPv4. For IPv6 "
                       "open it at [::], or with addr_format NA_ADDR_IPV6");
    names_look_up(&client, &lookup, names_of("moving", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    conform_close(&client);
    for (i = 0; i < 2; i++) {
        names_open_as(&client, opens[i], i == 0 ? NA_ADDR_IPV6 : NA_ADDR_UNSPEC,
            NA_FALSE);
        names_check_reached(&client, &server, "moving");
        conform_close(&client);
    }
    conform_close(&server);
}

/* Over libfabric a client without a host has one family if the host has. */
HG_TEST_WHERE(other_family_is_missing_here, names_is_ofi)
{
    struct conform_call lookup;
    struct conform_end client, server;
    FILE *file;

    names_need_zmq_or_full();
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        hg_test_skip("only root can create network namespaces");
    file = fopen("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w");
    if (file == NULL || fputs("1", file) < 0 || fclose(file) != 0)
        hg_test_skip("IPv6 cannot be disabled");
    names_set_up_loopback();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open(&server);
    names_move("::1", "127.0.0.1");
    names_check_reached(&client, &server, "moving");
    names_move("::1", NULL);
    names_answer();
    hg_test_expect_log("the host has only IPv6 addresses, and this class has "
                       "only IPv4.");
    names_look_up(&client, &lookup, names_of("silent", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    conform_close(&client);
    conform_close(&server);
}

/* How many descriptors an epoll has. */
static unsigned names_watched(int fd)
{
    char line[128];
    unsigned count = 0;
    FILE *file;

    (void) snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", fd);
    file = fopen(line, "r");
    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strncmp(line, "tfd:", 4) == 0;
    (void) fclose(file);
    return count;
}

/* An event loop has the descriptor of a context since before the other family
 * was opened. */
HG_TEST_WHERE(descriptor_reports_the_other_family, names_is_ofi)
{
    struct conform_end client, server;
    struct conform_call asked, answered, call;
    struct pollfd poll_fd = {-1, POLLIN, 0};
    char in = 0;
    unsigned before;

    names_need_zmq_or_full();
    names_need_ipv6();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    poll_fd.fd = NA_Poll_get_fd(client.na_class, client.context);
    if (poll_fd.fd < 0) {
        conform_close(&client);
        conform_close(&server);
        hg_test_skip("the provider has no descriptor");
    }
    before = names_watched(poll_fd.fd);
    names_look_up(&client, &call, names_of("[::1]", &server));
    HG_CHECK_OK(names_wait(&client, &server, &call));
    (void) NA_Poll_try_wait(client.na_class, client.context);
    HG_CHECK_EQ_INT(names_watched(poll_fd.fd), before + 1);
    HG_CHECK_OK(conform_recv(&server, &asked, false, &in, 1, 0));
    memset(&answered, 0, sizeof(answered));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &answered, "q", 1, call.addr, 7, &answered.id));
    HG_CHECK_OK(names_wait(&client, &server, &asked));
    HG_CHECK_OK(names_wait(&client, &server, &answered));
    conform_free_addr(&client, &call);
    HG_CHECK_OK(conform_recv(&client, &answered, false, &in, 1, 0));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Msg_send_unexpected(server.na_class, server.context,
        conform_ended, &call, "a", 1, asked.addr, 7, &call.id));
    while (call.ends == 0)
        (void) conform_turn(server.na_class, server.context, 1);
    while (answered.ends == 0) {
        if (NA_Poll_try_wait(client.na_class, client.context))
            HG_CHECK_EQ_INT(poll(&poll_fd, 1, (int) CONFORM_TIMEOUT), 1);
        (void) conform_turn(client.na_class, client.context, 0);
    }
    HG_CHECK_EQ_INT(in, 'a');
    conform_free_addr(&client, &answered);
    conform_free_addr(&server, &asked);
    conform_close(&client);
    conform_close(&server);
}

/* ---- Names that move ---- */

HG_TEST_WHERE(address_is_reached_at_its_new_number, hg_test_crosses_hosts)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end client, server;
    struct conform_call end;
    na_addr_t addr;

    names_is_main = true;
    info.lookup_ms = hg_test_scaled_ms(1000);
    conform_open(&client, &info);
    names_open(&server);
    names_move("127.0.0.9", NULL);
    HG_CHECK_OK(
        NA_Addr_resolve(client.na_class, names_of("moving", &server), &addr));
    hg_test_expect_log("cannot be reached");
    HG_CHECK_RET(names_send(&client, &server, addr), NA_HOSTUNREACH);
    /* Never reached. */
    names_move("127.0.0.1", NULL);
    HG_CHECK_OK(names_send(&client, &server, addr));
    /* Closed in order. */
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &end, addr, &end.id));
    HG_CHECK_OK(names_wait(&client, &server, &end));
    names_move("127.0.0.9", "127.0.0.1");
    HG_CHECK_OK(names_send(&client, &server, addr));
    HG_CHECK_EQ_INT(names.asked, 3);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* Close a class that connects again to a server that has gone. Returns how long
 * that took. */
static uint64_t names_close_dialling(void)
{
    struct conform_end client, server;
    struct conform_call call;
    uint64_t start;
    na_addr_t addr;

    names_open(&client);
    names_open(&server);
    HG_CHECK_OK(NA_Addr_resolve(
        client.na_class, names_of("127.0.0.1", &server), &addr));
    HG_CHECK_OK(names_send(&client, &server, addr));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &call, addr, &call.id));
    HG_CHECK_OK(names_wait(&client, &server, &call));
    conform_close(&server);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &call, "x", 1, addr, 7, &call.id));
    HG_CHECK_OK(NA_Cancel(client.na_class, client.context, call.id));
    HG_CHECK_RET(conform_wait(&client, &call), NA_CANCELED);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    start = names_ms();
    conform_close(&client);
    return names_ms() - start;
}

/* A message that was accepted may take 1 s to leave, a dial may not. */
HG_TEST_WHERE(closing_does_not_wait_for_a_dial, hg_test_crosses_hosts)
{
    unsigned slow = 0;

    names_need_zmq_or_full();
    while (names_close_dialling() >= 1000)
        HG_CHECK(slow++ < 5);
}

/* ---- Other names ---- */

HG_TEST_WHERE(unknown_host_is_reported, hg_test_crosses_hosts)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    names_need_zmq_or_full();
    names_open(&end);
    hg_test_expect_log("cannot be reached: Name or service not known");
    HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, names_of("nohost", &end),
                     CONFORM_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    HG_CHECK(strstr(HG_Get_last_error_text(), "nohost") != NULL);
    conform_close(&end);
}

HG_TEST_WHERE(listener_resolves_its_host, hg_test_crosses_hosts)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[64];
    char name[NA_MAX_ADDR_LEN];
    struct conform_end end;

    names_need_zmq_or_full();
    names_open_at(&end, "moving", NA_ADDR_UNSPEC);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    HG_CHECK(strstr(name, "://127.0.0.1:") != NULL);
    conform_close(&end);
    info.lookup_ms = NAMES_SHORT_MS;
    (void) snprintf(
        string, sizeof(string), "%s://silent:0", hg_test_transport());
    hg_test_expect_log(hg_test_is_ofi()
            ? "as a host name: no answer of the name server in time"
            : "silent: no answer of the name server in time");
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    names_answer();
}

HG_TEST_WHERE(own_host_name_is_recognized, hg_test_crosses_hosts)
{
    struct conform_call lookup;
    struct conform_end end;
    na_addr_t addr;

    names_open(&end);
    names_look_up(&end, &lookup, names_of("moving", &end));
    HG_CHECK_OK(conform_wait(&end, &lookup));
    HG_CHECK(NA_Addr_is_self(end.na_class, lookup.addr));
    conform_free_addr(&end, &lookup);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, names_of("moving", &end), &addr));
    HG_CHECK_OK(names_send(&end, &end, addr));
    HG_CHECK(NA_Addr_cmp(end.na_class, addr, end.self));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* More numbers than are tried, after some that no host has: the kernel would
 * take 0.0.0.0 for this one. */
HG_TEST_WHERE(useless_numbers_are_left_out, hg_test_crosses_hosts)
{
    struct conform_call lookup;
    struct conform_end client, server;
    unsigned i;

    names_need_zmq_or_full();
    names_open(&client);
    names_open(&server);
    for (i = 0; i < NAMES_NUMBERS; i++)
        names.moving[i] = i == 0 ? "0.0.0.0"
            : i == 1             ? "224.0.0.1"
                                 : "127.0.0.1";
    names.moving[NAMES_NUMBERS] = NULL;
    names_check_reached(&client, &server, "moving");
    names_move("0.0.0.0", NULL);
    names_answer();
    hg_test_expect_log("the host has no ");
    names_look_up(&client, &lookup, names_of("silent", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    conform_close(&client);
    conform_close(&server);
}

/* Each name of a number has a connection of its own, which ends alone. */
HG_TEST_WHERE(names_of_one_number_are_limited, names_has_both)
{
    enum { MOST = 128 };
    static struct conform_call lookups[MOST + 1];
    struct conform_end client, server;
    struct conform_call end;
    char host[32];
    unsigned i;

    names_open(&client);
    names_open(&server);
    names_answer();
    for (i = 0; i < MOST; i++) {
        (void) snprintf(host, sizeof(host), "silent%u", i);
        names_look_up(&client, &lookups[i], names_of(host, &server));
    }
    for (i = 0; i < MOST; i++)
        HG_CHECK_OK(names_wait(&client, &server, &lookups[i]));
    hg_test_expect_log("128 other names of that host are in use");
    names_look_up(&client, &lookups[MOST], names_of("silent", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookups[MOST]), NA_NOMEM);
    memset(&end, 0, sizeof(end));
    HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
        conform_ended, &end, lookups[1].addr, &end.id));
    HG_CHECK_OK(names_wait(&client, &server, &end));
    names_look_up(&client, &lookups[MOST], names_of("silent", &server));
    HG_CHECK_OK(names_wait(&client, &server, &lookups[MOST]));
    HG_CHECK_OK(names_send(&client, &server, lookups[0].addr));
    for (i = 0; i <= MOST; i++)
        conform_free_addr(&client, &lookups[i]);
    conform_close(&client);
    conform_close(&server);
}

/* ---- Failures ---- */

/* A class, or false. */
static bool names_try_open(
    struct conform_end *end, const char *rest, na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[NA_MAX_ADDR_LEN];

    info.lookup_ms = hg_test_scaled_ms(200);
    (void) snprintf(
        string, sizeof(string), "%s://%s", hg_test_transport(), rest);
    end->self = NA_ADDR_NULL;
    end->context = NULL;
    end->na_class = NA_Initialize_opt(string, listen, &info);
    if (end->na_class != NULL)
        end->context = NA_Context_create(end->na_class);
    return end->context != NULL &&
        NA_Addr_self(end->na_class, &end->self) == NA_SUCCESS;
}

static void names_try_close(struct conform_end *end)
{
    if (end->self != NA_ADDR_NULL)
        HG_CHECK_OK(NA_Addr_free(end->na_class, end->self));
    if (end->context != NULL)
        HG_CHECK_OK(NA_Context_destroy(end->na_class, end->context));
    if (end->na_class != NULL)
        HG_CHECK_OK(NA_Finalize(end->na_class));
}

/* Look up a host with two numbers, the second alive, at `arg`. The client has
 * memory. Nonzero: it failed. */
static int names_play(void *arg)
{
    static char bytes[64];
    struct conform_end server, client;
    struct conform_call call;
    na_mem_handle_t memory = NA_MEM_HANDLE_NULL;
    na_return_t ret = NA_NOMEM;

    memset(&client, 0, sizeof(client));
    memset(&call, 0, sizeof(call));
    if (names_try_open(&server, (const char *) arg, NA_TRUE) &&
        names_try_open(&client, "", NA_FALSE))
        ret = NA_Mem_handle_create(
            client.na_class, bytes, sizeof(bytes), NA_MEM_READWRITE, &memory);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_register(client.na_class, memory);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_lookup(client.na_class, client.context, conform_ended,
            &call, names_of("moving", &server), &call.id);
    if (ret == NA_SUCCESS)
        ret = names_wait(&client, &server, &call);
    if (ret == NA_SUCCESS)
        conform_free_addr(&client, &call);
    if (memory != NA_MEM_HANDLE_NULL)
        HG_CHECK_OK(NA_Mem_handle_free(client.na_class, memory));
    names_try_close(&client);
    names_try_close(&server);
    return (int) ret;
}

HG_TEST_WHERE(host_name_is_looked_up_without_memory, hg_test_crosses_hosts)
{
    char v4[] = "127.0.0.1", v6[] = "[::1]";

    names_need_full("takes 6 s over ZeroMQ, 20 s over libfabric");
    names_need_ipv6();
    names_is_main = true;
    hg_test_alloc_install();
    names_move("127.0.0.9", "127.0.0.1");
    HG_CHECK(hg_test_oom_loop(names_play, v4) > 5);
    names_move("127.0.0.9", "::1");
    HG_CHECK(hg_test_oom_loop(names_play, v6) > 5);
}

#if NAMES_CAN_FAIL
/* No thread starts, then no memory of libc. */
HG_TEST_WHERE(host_name_is_not_resolved_without_a_thread, hg_test_crosses_hosts)
{
    struct conform_call lookup;
    struct conform_end end;

    names_need_zmq_or_full();
    names_open(&end);
    hg_test_expect_log("no thread to resolve the host name moving: ");
    atomic_store(&names_no_thread, true);
    memset(&lookup, 0, sizeof(lookup));
    if (NA_Addr_lookup(end.na_class, end.context, conform_ended, &lookup,
            names_of("moving", &end), &lookup.id) == NA_SUCCESS)
        HG_CHECK_RET(conform_wait(&end, &lookup), NA_NOMEM);
    atomic_store(&names_no_thread, false);
    if (!hg_test_is_valgrind()) { /* it has replaced calloc */
        hg_test_expect_log("no memory to resolve the host name moving");
        atomic_store(&names_no_memory, true);
        memset(&lookup, 0, sizeof(lookup));
        if (NA_Addr_lookup(end.na_class, end.context, conform_ended, &lookup,
                names_of("moving", &end), &lookup.id) == NA_SUCCESS)
            HG_CHECK_RET(conform_wait(&end, &lookup), NA_NOMEM);
        atomic_store(&names_no_memory, false);
    }
    names_check_reached(&end, &end, "127.0.0.1");
    names_look_up(&end, &lookup, names_of("moving", &end));
    HG_CHECK_OK(conform_wait(&end, &lookup));
    conform_free_addr(&end, &lookup);
    conform_close(&end);
}

/* The next address of that family is another attempt. */
HG_TEST_WHERE(other_family_is_not_opened_without_a_thread, names_is_ofi)
{
    struct conform_end client, server;
    struct conform_call lookup;

    names_need_zmq_or_full();
    names_need_ipv6();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    hg_test_expect_log("cannot start a thread");
    hg_test_expect_log("cannot be reached: no answer, or refused");
    atomic_store(&names_no_thread, true);
    names_look_up(&client, &lookup, names_of("[::1]", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    atomic_store(&names_no_thread, false);
    names_check_reached(&client, &server, "[::1]");
    conform_close(&client);
    conform_close(&server);
}
#endif

/* The lookup fails if the thread that opens the other family finds no
 * descriptors. */
HG_TEST_WHERE(other_family_is_not_opened_without_descriptors, names_is_ofi)
{
    struct conform_end client, server;
    struct conform_call lookup;
    struct rlimit limit, none;

    names_need_ipv6();
    names_open_as(&client, "", NA_ADDR_UNSPEC, NA_FALSE);
    names_open_at(&server, "[::1]", NA_ADDR_UNSPEC);
    hg_test_expect_log("descriptors");
    hg_test_expect_log("cannot be reached: no descriptor is free");
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 8; /* fewer than are open */
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    names_look_up(&client, &lookup, names_of("[::1]", &server));
    HG_CHECK_RET(names_wait(&client, &server, &lookup), NA_HOSTUNREACH);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    names_check_reached(&client, &server, "[::1]");
    conform_close(&client);
    conform_close(&server);
}

/* ---- Calls ---- */

static hg_id_t names_inc_id, names_ask_id, names_end_id;
static hg_id_t names_lend_id, names_free_id, names_add_id;
static hg_request_t names_pending = HG_REQUEST_NULL;
static na_class_t *names_class;

/* A server that calls a host which is not resolved yet. */
static hg_return_t names_ask(hg_handle_t handle)
{
    char string[64];
    rpc_one_t one = {1};
    na_addr_t addr;

    (void) snprintf(
        string, sizeof(string), "%s://silent:1", hg_test_transport());
    HG_CHECK_OK(NA_Addr_resolve(names_class, string, &addr));
    HG_CHECK_OK(HG_Forward(addr, names_inc_id, &one, &one, &names_pending));
    HG_CHECK_OK(NA_Addr_free(names_class, addr));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* Abandon the call to that host. */
static hg_return_t names_end(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Request_free(names_pending));
    HG_CHECK(names_is_silent());
    names_answer();
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* Memory that is described with the address of this class, a number. */
static char names_memory[64];
static hg_bulk_t names_lent;

MERCURY_GEN_PROC(names_lend_t, ((hg_bulk_t) (bulk)))

static hg_return_t names_lend(hg_handle_t handle)
{
    size_t size = sizeof(names_memory);
    void *ptr = names_memory;
    names_lend_t out;

    memset(names_memory, 'm', sizeof(names_memory));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READ_ONLY, &names_lent));
    HG_CHECK_OK(HG_Bulk_handle_bind(names_lent));
    out.bulk = names_lent;
    HG_CHECK_OK(HG_Handler_start_output(handle, &out));
    return HG_Handler_free(handle);
}

MERCURY_GEN_PROC(names_move_t, ((hg_bulk_t) (bulk)))

/* Add 1 to each byte of the caller's memory, and call the caller. */
static hg_return_t names_add(hg_handle_t handle)
{
    static unsigned char bytes[NAMES_BYTES];
    hg_request_t request;
    names_move_t in;
    rpc_one_t one = {1};
    size_t i;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    HG_CHECK_OK(HG_Bulk_pull(handle, in.bulk, 0, bytes, sizeof(bytes)));
    for (i = 0; i < sizeof(bytes); i++)
        bytes[i]++;
    HG_CHECK_OK(HG_Bulk_push(handle, in.bulk, 0, bytes, sizeof(bytes)));
    HG_CHECK_OK(HG_Forward(
        HG_Handler_get_addr(handle), names_inc_id, &one, &one, &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static hg_return_t names_free(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_handle_free(names_lent));
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    names_lend_id =
        MERCURY_REGISTER("names lend", void, names_lend_t, names_lend);
    names_free_id = MERCURY_REGISTER("names free", void, void, names_free);
    names_add_id = MERCURY_REGISTER("names add", names_move_t, void, names_add);
    names_inc_id = MERCURY_REGISTER("names inc", rpc_one_t, rpc_one_t, rpc_inc);
    names_ask_id = MERCURY_REGISTER("names ask", void, void, names_ask);
    names_end_id = MERCURY_REGISTER("names end", void, void, names_end);
}

HG_TEST_ROLE(names_server)
{
    struct rpc_end end;

    HG_CHECK(argc == 0 && argv != NULL);
    hg_test_allow_log("silent:1 cannot be reached"); /* after that */
    rpc_start(&end, NULL, false);
    names_class = end.na_class;
    rpc_serve(&end);
    rpc_end(&end);
}

/* ---- Calls, to servers of two families ---- */

static void names_start(struct rpc_end *end, const char *rest, na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[NA_MAX_ADDR_LEN];

    memset(end, 0, sizeof(*end));
    info.lookup_ms = hg_test_scaled_ms(4000);
    (void) snprintf(
        string, sizeof(string), "%s://%s", hg_test_transport(), rest);
    end->na_class = NA_Initialize_opt(string, listen, &info);
    HG_CHECK(end->na_class != NULL);
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
}

HG_TEST_ROLE(names_host)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    names_start(&end, argv[0], NA_TRUE);
    rpc_serve(&end);
    rpc_end(&end);
}

/* Start a server, and look it up by a name with these numbers. */
static void names_find(struct rpc_end *client, struct rpc_end *server,
    const char *host, const char *first, const char *second)
{
    char name[NA_MAX_ADDR_LEN];
    char *address;

    memset(server, 0, sizeof(*server));
    server->peer = hg_test_spawn("names_host", host, (char *) NULL);
    address = hg_test_read_peer(server->peer);
    names_move(first, second);
    (void) snprintf(name, sizeof(name), "%s://moving%s", hg_test_transport(),
        strrchr(address, ':'));
    HG_CHECK_OK(NA_Addr_lookup_wait(
        client->na_class, name, RPC_TIMEOUT, &server->target));
    free(address);
}

/* The server calls this process, and moves its memory. */
static void names_exchange(
    struct rpc_end *server, hg_bulk_t bulk, const unsigned char *bytes)
{
    names_move_t in = {bulk};
    unsigned char before = bytes[NAMES_BYTES - 1];

    HG_CHECK_OK(rpc_call(server, names_add_id, &in, NULL));
    HG_CHECK_EQ_INT(bytes[NAMES_BYTES - 1], (unsigned char) (before + 1));
}

/* By a class that does not listen, and names no host. The first memory was
 * registered, and known to a peer, before the second family was used. */
HG_TEST_WHERE(servers_of_both_families_are_called, hg_test_crosses_hosts)
{
    static unsigned char bytes[2][NAMES_BYTES];
    struct rpc_end client, servers[2];
    size_t size = sizeof(bytes[0]);
    hg_bulk_t bulks[2];
    unsigned round, i;
    void *memory;

    names_need_ipv6();
    names_is_main = true;
    names_start(&client, "", NA_FALSE);
    for (i = 0; i < 2; i++) {
        names_find(&client, &servers[i], i == 0 ? "127.0.0.1" : "[::1]",
            i == 0 ? "127.0.0.1" : "::1", NULL);
        memory = bytes[i];
        HG_CHECK_OK(HG_Bulk_handle_create(
            1, &memory, &size, HG_BULK_READWRITE, &bulks[i]));
        names_exchange(&servers[0], bulks[i], bytes[i]);
    }
    for (round = 0; round < 4; round++) {
        for (i = 0; i < 4; i++)
            names_exchange(&servers[i / 2], bulks[i % 2], bytes[i % 2]);
    }
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(HG_Bulk_handle_free(bulks[i]));
        HG_CHECK_OK(NA_Addr_free(client.na_class, servers[i].target));
    }
    rpc_end(&client);
    for (i = 0; i < 2; i++)
        hg_test_stop(servers[i].peer);
}

HG_TEST_WHERE(server_that_waits_for_a_name_server_serves, hg_test_crosses_hosts)
{
    rpc_one_t in = {1}, out;
    struct rpc_end end;
    int i;

    rpc_start(&end, NULL, false);
    end.peer = hg_test_spawn("names_server", (char *) NULL);
    rpc_find_peer(&end);
    HG_CHECK_OK(rpc_call(&end, names_ask_id, NULL, NULL));
    for (i = 0; i < 20; i++) {
        in.value = i;
        HG_CHECK_OK(rpc_call(&end, names_inc_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, i + 1);
    }
    HG_CHECK_OK(rpc_call(&end, names_end_id, NULL, NULL));
    rpc_close(&end);
}

/* Start a server, and get its address with a host name instead. */
static void names_open_named(struct rpc_end *end, const char *host)
{
    char name[NA_MAX_ADDR_LEN];
    char *address;

    names_is_main = true;
    rpc_start(end, NULL, false);
    end->peer = hg_test_spawn("names_server", (char *) NULL);
    address = hg_test_read_peer(end->peer);
    (void) snprintf(name, sizeof(name), "%s://%s%s", hg_test_transport(), host,
        strrchr(address, ':'));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, name, RPC_TIMEOUT, &end->target));
    free(address);
}

/* The owner of a bulk handle is called by a number, but reached by a name. Over
 * ZeroMQ another connection has another descriptor. */
HG_TEST_WHERE(bulk_data_uses_the_connection_of_a_host_name, names_has_both)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_request_t call;
    names_lend_t out;
    struct rpc_end end;
    hg_bulk_t local;
    char bytes[sizeof(names_memory)] = "";
    size_t size = sizeof(bytes);
    void *ptr = bytes;
    unsigned fds;

    names_open_named(&end, "moving");
    call = rpc_start_call(&end, names_lend_id, NULL, &out);
    HG_CHECK_OK(rpc_wait(call));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &local));
    fds = hg_test_fd_count();
    HG_CHECK_OK(HG_Bulk_transfer(
        HG_BULK_PULL, NA_ADDR_NULL, out.bulk, 0, local, 0, size, &request));
    HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_EQ_INT(bytes[size - 1], 'm');
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    HG_CHECK_OK(HG_Request_free(call));
    HG_CHECK_OK(rpc_call(&end, names_free_id, NULL, NULL));
    rpc_close(&end);
}

HG_TEST_WHERE(call_ends_at_its_deadline_before_its_host_is_resolved,
    hg_test_crosses_hosts)
{
    rpc_one_t one = {1};
    hg_request_t request;
    struct rpc_end end;
    char string[64];
    na_addr_t addr;

    names_need_zmq_or_full();
    names_is_main = true;
    rpc_start(&end, NULL, false);
    (void) snprintf(
        string, sizeof(string), "%s://silent:1", hg_test_transport());
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, string, &addr));
    HG_CHECK_OK(HG_Forward_timed(
        addr, names_inc_id, &one, &one, NAMES_SHORT_MS, &request));
    HG_CHECK_RET(rpc_wait(request), HG_TIMEOUT);
    HG_CHECK(names_is_silent());
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    rpc_end(&end);
    HG_CHECK(names_is_silent());
    names_answer();
}
