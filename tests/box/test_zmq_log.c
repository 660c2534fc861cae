/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of a server whose stderr is a pipe that no process reads, and a
 * hostile peer that causes thousands of warnings. The number of lines is
 * limited, the server never blocks on the pipe, and a good client is served.
 */
#include "zmq_calls.h"

#include <fcntl.h>

enum { LOG_CALLS = 200, LOG_EACH = 20, LOG_KINDS = 3, LOG_LINES_MAX = 99 };

/* Redirect stderr to a pipe; returns the reading end. `full`: the pipe is full.
 * The former stderr goes to *old_p. */
static int log_redirect(bool full, int *old_p)
{
    char fill[4000];
    int ends[2];

    HG_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    if (full) {
        memset(fill, '-', sizeof(fill));
        fill[sizeof(fill) - 1] = '\n';
        HG_CHECK(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
        HG_CHECK(write(ends[1], fill, sizeof(fill)) == sizeof(fill));
        HG_CHECK(write(ends[1], fill, 80) == 80);
    }
    *old_p = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    HG_CHECK(*old_p >= 0);
    HG_Set_log_func(NULL, NULL);
    HG_CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    (void) close(ends[1]);
    HG_CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    return ends[0];
}

/* Read the pipe; returns how many of its lines are the library's. */
static unsigned log_read(int pipe, char text[70000])
{
    size_t size = 0;
    unsigned lines = 0;
    const char *at;
    ssize_t got;

    while ((got = read(pipe, text + size, 69999 - size)) > 0)
        size += (size_t) got;
    text[size] = '\0';
    for (at = text; (at = strstr(at, "hg: ")) != NULL; at++)
        lines++;
    return lines;
}

/* Serve until told to stop and all bad messages were refused; then report how
 * many lines the pipe holds, how many messages were refused, and whether the
 * log reports dropped lines. */
HG_TEST_ROLE(logging)
{
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    static char text[70000];
    na_class_t *na_class;
    na_addr_t self;
    struct hg_counters counters;
    char line[NA_MAX_ADDR_LEN];
    unsigned lines;
    int old, pipe;

    HG_CHECK_EQ_INT(argc, 1);
    na_class = NA_Initialize("zmq+tcp://127.0.0.1", NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    (void) calls_register_good();
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, line, sizeof(line), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    hg_test_write_parent(line);
    pipe = log_redirect(strcmp(argv[0], "full") == 0, &old);
    do { /* the last message may still be in flight */
        calls_turn(NULL);
        counters = calls_counters();
    } while (poll(&channel, 1, 0) == 0 ||
        counters.refused < LOG_KINDS * LOG_EACH * LOG_CALLS);
    free(hg_test_read_parent());
    lines = log_read(pipe, text);
    /* A line of our own, which fits into the pipe again. */
    HG_CHECK(NA_Initialize("nothing://", NA_FALSE) == NULL);
    (void) log_read(pipe, text);
    HG_CHECK(dup2(old, STDERR_FILENO) == STDERR_FILENO);
    (void) snprintf(line, sizeof(line), "%u %" PRIu64 " %s", lines,
        counters.refused, strstr(text, "dropped") != NULL ? "dropped" : "all");
    hg_test_write_parent(line);
    free(hg_test_read_parent()); /* NULL: it has ended */
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Malformed messages of each kind; the server counts each. */
static void log_attack(struct calls_server *server, hg_id_t id)
{
    struct calls_message message = {0};
    unsigned char bytes[400];
    unsigned i;

    message.type = REQUEST;
    message.id = id;
    message.sequence = UINT64_C(0x4242424200000007);
    for (i = 0; i < LOG_EACH; i++) {
        message.flags = 0;
        message.size = 0;
        (void) calls_make(bytes, &message);
        bytes[8] ^= 1; /* the magic */
        calls_send(server, bytes, HEAD);
        message.flags = LARGE;
        calls_send_message(server, &message); /* without a description */
        message.size = calls_describe(bytes, UINT64_C(1) << 60);
        message.payload = bytes;
        calls_send_message(server, &message); /* past the largest limit */
    }
}

static void log_pause(void *arg)
{
    (void) arg;
    endpoint_sleep(1);
}

/* A good call after each attack succeeds. */
static void log_call(na_class_t *na_class, struct calls_server *server)
{
    unsigned char bytes[100] = {1, 2, 3};
    hg_id_t id = calls_register_good();
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    HG_CHECK_OK(
        NA_Addr_lookup_wait(na_class, server->name, CONFORM_TIMEOUT, &addr));
    for (i = 0; i < LOG_CALLS; i++) {
        struct blob in = {i % 100, bytes};
        struct blob out = {0, NULL};
        hg_request_t request = HG_REQUEST_NULL;

        log_attack(server, id);
        HG_CHECK_OK(HG_Forward(addr, id, &in, &out, &request));
        HG_CHECK_OK(HG_Wait(request, CONFORM_TIMEOUT, HG_STATUS_IGNORE));
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_OK(HG_Request_free(request));
        raw_peer_ignore(&server->stranger);
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
}

/* The lines in the pipe go to *lines_p. */
static void log_flood(const char *how, unsigned *lines_p, char dropped[16])
{
    struct calls_server server;
    struct hg_test_peer *peer = hg_test_spawn("logging", how, (char *) NULL);
    na_class_t *na_class;
    unsigned long refused = 0;
    char *line;

    memset(&server, 0, sizeof(server));
    line = hg_test_read_peer(peer);
    (void) snprintf(server.name, sizeof(server.name), "%s", line);
    free(line);
    raw_peer_init(&server.stranger, log_pause, NULL);
    raw_peer_join(&server.stranger, server.name + 4);
    na_class = NA_Initialize("zmq+tcp://", NA_FALSE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    log_call(na_class, &server);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
    hg_test_write_peer(peer, "tell");
    line = hg_test_read_peer(peer);
    HG_CHECK_EQ_INT(sscanf(line, "%u %lu %15s", lines_p, &refused, dropped), 3);
    free(line);
    HG_CHECK_EQ_U64(refused, LOG_KINDS * LOG_EACH * LOG_CALLS);
    raw_peer_hang_up(&server.stranger);
    hg_test_stop(peer);
    raw_peer_fini(&server.stranger);
}

HG_TEST(peer_causes_few_log_lines)
{
    unsigned lines = 0;
    char dropped[16];

    log_flood("empty", &lines, dropped);
    HG_CHECK(lines >= LOG_KINDS);
    HG_CHECK(lines <= LOG_LINES_MAX);
    HG_CHECK_EQ_STR(dropped, "all");
}

HG_TEST(server_does_not_block_on_a_full_log_pipe)
{
    unsigned lines = 1;
    char dropped[16];

    log_flood("full", &lines, dropped);
    HG_CHECK_EQ_INT(lines, 0);
    HG_CHECK_EQ_STR(dropped, "dropped");
}
