/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many peers of one class: all are answered; how many descriptors and how much
 * memory each takes; and what happens when descriptors run out.
 *
 * make check uses a few dozen processes and some hundred endpoints; with
 * HG_TEST_FULL it is 1,000 and 5,000.
 */
#include "sm_sockets.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#define SCALE_MESSAGE ((size_t) 32 << 10)
#define SCALE_PEER_MAX ((uint64_t) 300 << 10) /* bytes of memory for each */

static char scale_message[SCALE_MESSAGE];

static bool scale_full(void)
{
    return getenv("HG_TEST_FULL") != NULL && hg_test_is_plain();
}

/* Raise the limit as far as the system allows; returns whether it suffices. */
static bool scale_raise(rlim_t wanted)
{
    struct rlimit limit;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return limit.rlim_cur >= wanted;
}

/* ---- The clients ---- */

struct scale_order {
    const char *server;
    unsigned processes;
    unsigned endpoints; /* of each process */
    unsigned calls;     /* of each endpoint */
    size_t size;        /* of a message, in both directions */
};

static void scale_call(
    struct conform_end *end, na_addr_t to, size_t size, na_tag_t tag)
{
    static char got[SCALE_MESSAGE];
    struct conform_call recv;

    HG_CHECK_OK(endpoint_post(end, &recv, got, sizeof(got), to, tag));
    HG_CHECK_OK(endpoint_send(end, to, false, scale_message, size, tag));
    HG_CHECK_OK(conform_wait(end, &recv));
    HG_CHECK_EQ_U64(recv.size, size);
    HG_CHECK_EQ_MEM(got, scale_message, size);
}

/* One process: connect every endpoint, call, report, and stay until the end. */
static void scale_be_client(
    const struct scale_order *order, int ready, const int leave[2])
{
    struct conform_end *ends =
        (struct conform_end *) calloc(order->endpoints, sizeof(*ends));
    na_addr_t *addrs = (na_addr_t *) calloc(order->endpoints, sizeof(*addrs));
    unsigned i, n;
    char end;

    HG_CHECK(ends != NULL && addrs != NULL);
    HG_CHECK(close(leave[1]) == 0);
    conform_fill(scale_message, sizeof(scale_message), 1);
    for (i = 0; i < order->endpoints; i++) {
        endpoint_open_with(&ends[i], "sm://", 0, CONFORM_TIMEOUT);
        HG_CHECK_OK(endpoint_lookup(&ends[i], order->server, &addrs[i]));
        for (n = 0; n < order->calls; n++)
            scale_call(&ends[i], addrs[i], order->size, n + 1);
    }
    HG_CHECK(write(ready, "", 1) == 1);
    HG_CHECK(read(leave[0], &end, 1) == 0);
    for (i = 0; i < order->endpoints; i++) {
        HG_CHECK_OK(NA_Addr_free(ends[i].na_class, addrs[i]));
        conform_close(&ends[i]);
    }
    free(addrs);
    free(ends);
}

/* SERVER PROCESSES ENDPOINTS CALLS SIZE: forks before any class exists. */
HG_TEST_ROLE(clients)
{
    struct scale_order order;
    int ready[2], leave[2];
    unsigned i;
    char one;

    HG_CHECK_EQ_INT(argc, 5);
    order.server = argv[0];
    order.processes = (unsigned) strtoul(argv[1], NULL, 10);
    order.endpoints = (unsigned) strtoul(argv[2], NULL, 10);
    order.calls = (unsigned) strtoul(argv[3], NULL, 10);
    order.size = (size_t) strtoul(argv[4], NULL, 10);
    (void) scale_raise(0);
    HG_CHECK(pipe(ready) == 0 && pipe(leave) == 0);
    (void) fflush(NULL);
    for (i = 0; i < order.processes; i++) {
        pid_t pid = fork();

        HG_CHECK(pid >= 0);
        if (pid == 0) {
            (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
            scale_be_client(&order, ready[1], leave);
            _exit(0);
        }
    }
    HG_CHECK(close(ready[1]) == 0);
    for (i = 0; i < order.processes; i++)
        HG_CHECK(read(ready[0], &one, 1) == 1); /* else one has failed */
    hg_test_write_parent("ready");
    free(hg_test_read_parent());
    HG_CHECK(close(leave[1]) == 0);
    for (i = 0; i < order.processes; i++) {
        int status = -1;

        HG_CHECK(wait(&status) > 0);
        HG_CHECK_EQ_INT(status, 0);
    }
}

static struct hg_test_peer *scale_spawn(const struct scale_order *order)
{
    char text[4][24];

    (void) snprintf(text[0], sizeof(text[0]), "%u", order->processes);
    (void) snprintf(text[1], sizeof(text[1]), "%u", order->endpoints);
    (void) snprintf(text[2], sizeof(text[2]), "%u", order->calls);
    (void) snprintf(text[3], sizeof(text[3]), "%zu", order->size);
    return hg_test_spawn(
        "clients", order->server, text[0], text[1], text[2], text[3], NULL);
}

/* ---- The server ---- */

/* Send back the message that arrived, and free its source. */
static void scale_answer(struct conform_end *end, struct conform_call *recv)
{
    HG_CHECK_OK(recv->ret);
    HG_CHECK_OK(endpoint_send(
        end, recv->addr, true, scale_message, recv->size, recv->tag));
    conform_free_addr(end, recv);
}

static void scale_serve(struct conform_end *end, uint64_t wanted)
{
    struct conform_call recv;

    for (; wanted > 0; wanted--) {
        HG_CHECK_OK(conform_recv(
            end, &recv, false, scale_message, sizeof(scale_message), 0));
        while (recv.ends == 0)
            (void) conform_turn(end->na_class, end->context, 1000);
        scale_answer(end, &recv);
    }
}

/* Memory that the transport has mapped, as far as it was touched here. */
static uint64_t scale_mapped(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    uint64_t total = 0;
    bool ours = false;

    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Rss:", 4) == 0 && ours)
            total += strtoull(line + 4, NULL, 10) << 10;
        else if (strstr(line, "-") != NULL && strstr(line, " r") != NULL)
            ours = strstr(line, "memfd:hg-") != NULL;
    }
    (void) fclose(file);
    return total;
}

/* Bytes in use on the heap; 0 if unknown. */
static uint64_t scale_heap(void)
{
#if defined(__GLIBC__)
    struct mallinfo2 info = mallinfo2();

    return (uint64_t) info.uordblks + (uint64_t) info.hblkhd;
#else
    return 0;
#endif
}

/* All clients connect, are answered, and are connected at the same time;
 * returns the resources that takes. */
static void scale_run(unsigned processes, unsigned endpoints, size_t size)
{
    struct scale_order order = {NULL, processes, endpoints, 8, size};
    const unsigned peers = processes * endpoints;
    struct hg_test_peer *clients;
    struct conform_end server;
    char name[NA_MAX_ADDR_LEN];
    uint64_t memory;
    unsigned fds;

    if (!scale_raise(2 * (rlim_t) peers + 64) || !scale_raise(endpoints * 10))
        hg_test_skip("the hard limit nofile is too low for %u peers", peers);
    server.na_class = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(server.na_class != NULL);
    server.context = NA_Context_create(server.na_class);
    HG_CHECK(server.context != NULL);
    HG_CHECK_OK(NA_Addr_self(server.na_class, &server.self));
    endpoint_name(&server, server.self, name);
    order.server = name;
    clients = scale_spawn(&order);
    fds = hg_test_fd_count();
    memory = scale_mapped() + scale_heap();
    scale_serve(&server, (uint64_t) peers * order.calls);
    free(hg_test_read_peer(clients));
    fds = hg_test_fd_count() - fds;
    memory = scale_mapped() + scale_heap() - memory;
    HG_CHECK(fds >= peers && fds <= 2 * peers);
    HG_CHECK_EQ_INT(sm_maps(), 4 + 5 * (intmax_t) peers);
    printf("# %u peers: %.2f descriptors, %.1f KiB each\n", peers,
        (double) fds / peers, (double) memory / peers / 1024);
    HG_CHECK(!hg_test_is_plain() || memory / peers <= SCALE_PEER_MAX);
    hg_test_stop(clients);
    conform_close(&server);
}

HG_TEST_SECONDS(many_processes_are_served, 300)
{
    scale_run(scale_full() ? 1000 : 60, 1, 64);
}

HG_TEST_SECONDS(many_endpoints_are_served, 300)
{
    scale_run(scale_full() ? 20 : 2, scale_full() ? 250 : 150, 64);
}

/* Enough messages to fill both rings once. */
HG_TEST(peer_takes_little_memory)
{
    scale_run(4, 8, 30000);
}

/* ---- Limits ---- */

/* Lower the limit to the number of descriptors in use. */
static void scale_limit_low(void)
{
    struct rlimit now;
    int highest = dup(0);

    HG_CHECK(highest >= 0 && close(highest) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    now.rlim_cur = (rlim_t) highest;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
}

static void scale_limit(rlim_t limit)
{
    struct rlimit now;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    now.rlim_cur = limit;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
}

static rlim_t scale_limit_now(void)
{
    struct rlimit now;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    return now.rlim_cur;
}

/* NAME: echoes. A line lowers its limit, the next one raises it again. */
HG_TEST_ROLE(limited)
{
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    const rlim_t limit = scale_limit_now();
    struct conform_end end;
    struct conform_call recv;
    bool low = false;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_expect_log("the limit nofile is");
    endpoint_open(&end, argv[0], 0);
    HG_CHECK_OK(conform_recv(
        &end, &recv, false, scale_message, sizeof(scale_message), 0));
    hg_test_write_parent("open");
    for (;;) {
        if (poll(&channel, 1, 0) > 0) {
            char *line = hg_test_read_parent();

            if (line == NULL)
                break;
            free(line);
            low = !low;
            if (low)
                scale_limit_low();
            else
                scale_limit(limit);
            hg_test_write_parent("done");
        }
        (void) conform_turn(end.na_class, end.context, 10);
        if (recv.ends == 0)
            continue;
        scale_answer(&end, &recv);
        HG_CHECK_OK(conform_recv(
            &end, &recv, false, scale_message, sizeof(scale_message), 0));
    }
    conform_close(&end);
}

static void scale_toggle(struct hg_test_peer *process)
{
    hg_test_write_peer(process, "limit");
    free(hg_test_read_peer(process));
}

/* `early` is served all the time; `late` is served when descriptors are free
 * again. */
HG_TEST(server_without_descriptors_continues_and_recovers)
{
    struct hg_test_peer *process;
    struct conform_end early, late;
    na_addr_t to = NA_ADDR_NULL, late_to = NA_ADDR_NULL;
    char string[64];

    hg_test_expect_log("its limit of peers or descriptors is reached");
    (void) snprintf(string, sizeof(string), "sm://scale-%ld", (long) getpid());
    process = hg_test_spawn("limited", string, NULL);
    free(hg_test_read_peer(process));
    endpoint_open(&early, "sm://", 0);
    endpoint_open(&late, "sm://", 0);
    HG_CHECK_OK(endpoint_lookup(&early, string, &to));
    scale_call(&early, to, 64, 1);
    scale_toggle(process);
    HG_CHECK_RET(endpoint_lookup(&late, string, &late_to), NA_AGAIN);
    scale_call(&early, to, 64, 2);
    scale_toggle(process);
    HG_CHECK_OK(endpoint_lookup(&late, string, &late_to));
    scale_call(&late, late_to, 64, 3);
    scale_call(&early, to, 64, 4);
    HG_CHECK_OK(NA_Addr_free(late.na_class, late_to));
    HG_CHECK_OK(NA_Addr_free(early.na_class, to));
    conform_close(&late);
    conform_close(&early);
    hg_test_stop(process);
}

HG_TEST(client_without_descriptors_continues_and_recovers)
{
    const rlim_t limit = scale_limit_now();
    struct conform_end server, early, late;
    na_addr_t to = NA_ADDR_NULL, late_to = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    hg_test_expect_log("the limit nofile is");
    server.na_class = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(server.na_class != NULL);
    server.context = NA_Context_create(server.na_class);
    HG_CHECK_OK(NA_Addr_self(server.na_class, &server.self));
    endpoint_name(&server, server.self, name);
    endpoint_open(&early, "sm://", 0);
    endpoint_open(&late, "sm://", 0);
    HG_CHECK_OK(sm_meet(&early, &server, name, &to));
    scale_limit_low();
    HG_CHECK_RET(endpoint_lookup(&late, name, &late_to), NA_AGAIN);
    HG_CHECK_OK(endpoint_send(&early, to, false, "!", 2, 1));
    scale_limit(limit);
    HG_CHECK_OK(sm_meet(&late, &server, name, &late_to));
    HG_CHECK_OK(endpoint_send(&late, late_to, false, "!", 2, 1));
    HG_CHECK_OK(NA_Addr_free(late.na_class, late_to));
    HG_CHECK_OK(NA_Addr_free(early.na_class, to));
    conform_close(&late);
    conform_close(&early);
    conform_close(&server);
}
