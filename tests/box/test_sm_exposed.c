/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm: a class that does not listen, and has bound bulk memory, so
 * that any process can reach it. The cases say what such a process can
 * do, and what it cannot.
 */
#include "sm_packets.h"

#include <sys/resource.h>

/* A client of the request model, and a listener that it does not know. */
struct exposed {
    struct conform_end client, stranger;
    char name[NA_MAX_ADDR_LEN]; /* of the client */
    hg_bulk_t bulk;             /* not bound yet */
    unsigned char bytes[100];
};

static void exposed_open(struct exposed *e)
{
    size_t size = sizeof(e->bytes);
    char string[64];
    void *memory;

    memset(e, 0, sizeof(*e));
    memory = e->bytes;
    (void) snprintf(
        string, sizeof(string), "sm://exposed-%ld", (long) getpid());
    endpoint_open(&e->client, "sm://", 1000);
    endpoint_open(&e->stranger, string, 1000);
    endpoint_name(&e->client, e->client.self, e->name);
    HG_CHECK_OK(HG_Init(e->client.na_class));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READWRITE, &e->bulk));
}

static void exposed_close(struct exposed *e)
{
    HG_CHECK_OK(HG_Bulk_handle_free(e->bulk));
    HG_CHECK_OK(HG_Finalize());
    conform_close(&e->client);
    conform_close(&e->stranger);
}

static bool exposed_is_listening(const char *name)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512], want[NA_MAX_ADDR_LEN];
    bool found = false;

    HG_CHECK(file != NULL);
    (void) snprintf(want, sizeof(want), "@hg/sm/%s", name + 5);
    while (fgets(line, sizeof(line), file) != NULL)
        found = found || strstr(line, want) != NULL;
    (void) fclose(file);
    return found;
}

/* A socket exists from the first bind to the end of the class. */
HG_TEST(exposed_client_has_a_socket_once_it_has_bound_memory)
{
    struct exposed e;
    na_addr_t addr;
    unsigned fds;

    hg_test_expect_log("does not listen and is not connected to this class");
    exposed_open(&e);
    HG_CHECK(!exposed_is_listening(e.name));
    HG_CHECK_RET(endpoint_lookup(&e.stranger, e.name, &addr), NA_HOSTUNREACH);
    fds = hg_test_fd_count();
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk));
    HG_CHECK(exposed_is_listening(e.name));
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds + 1);
    HG_CHECK_OK(sm_meet(&e.stranger, &e.client, e.name, &addr));
    HG_CHECK_OK(NA_Addr_free(e.stranger.na_class, addr));
    hg_test_expect_log("HG_Bulk_handle_bind: the handle is bound already");
    HG_CHECK_RET(HG_Bulk_handle_bind(e.bulk), HG_INVALID_ARG);
    exposed_close(&e);
    HG_CHECK(!exposed_is_listening(e.name));
}

/* Messages of NA are dropped, whether a receive waits for them or not. */
HG_TEST(exposed_client_takes_no_messages_of_strangers)
{
    struct conform_call recv, send;
    struct exposed e;
    na_addr_t addr;
    char got[8], text[2] = "x";
    uint64_t count;
    unsigned i;

    exposed_open(&e);
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk));
    HG_CHECK_OK(sm_meet(&e.stranger, &e.client, e.name, &addr));
    HG_CHECK_OK(conform_recv(&e.client, &recv, false, got, sizeof(got), 0));
    for (i = 0; i < 2; i++) {
        memset(&send, 0, sizeof(send));
        HG_CHECK_OK((i == 0 ? NA_Msg_send_unexpected : NA_Msg_send_expected)(
            e.stranger.na_class, e.stranger.context, conform_ended, &send, text,
            sizeof(text), addr, 1, &send.id));
        HG_CHECK_OK(sm_wait(&e.stranger, &e.client, &send));
        do {
            conform_idle(&e.client);
            count = NA_Get_counter(e.client.na_class, "msg_dropped");
        } while (count == i);
        HG_CHECK_EQ_U64(count, i + 1);
    }
    HG_CHECK_EQ_INT(recv.ends, 0);
    HG_CHECK_OK(NA_Cancel(e.client.na_class, e.client.context, recv.id));
    HG_CHECK_RET(conform_wait(&e.client, &recv), NA_CANCELED);
    HG_CHECK_OK(NA_Addr_free(e.stranger.na_class, addr));
    exposed_close(&e);
}

/* Connections that send nothing, nonsense, or end at once. */
HG_TEST(exposed_client_survives_connections_that_are_no_peers)
{
    static const char junk[400] = "HGsm";
    struct exposed e;
    na_addr_t addr;
    char got[8];
    int fds[3], i;

    exposed_open(&e);
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk));
    for (i = 0; i < 3; i++)
        fds[i] = sm_connect(e.name);
    HG_CHECK(send(fds[0], junk, sizeof(junk), 0) == sizeof(junk));
    HG_CHECK(close(fds[1]) == 0);
    while (recv(fds[0], got, sizeof(got), MSG_DONTWAIT) < 0)
        (void) conform_turn(e.client.na_class, e.client.context, 1);
    HG_CHECK_OK(sm_meet(&e.stranger, &e.client, e.name, &addr));
    HG_CHECK_OK(NA_Addr_free(e.stranger.na_class, addr));
    HG_CHECK(close(fds[0]) == 0 && close(fds[2]) == 0);
    exposed_close(&e);
}

/* Another process has the name of the client, which it may know from the
 * client's connection to it. */
HG_TEST(exposed_client_whose_name_is_taken_binds_no_memory)
{
    struct sockaddr_un where;
    struct exposed e;
    int length, fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    exposed_open(&e);
    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    length = snprintf(
        where.sun_path + 1, sizeof(where.sun_path) - 1, "hg/sm/%s", e.name + 5);
    HG_CHECK(fd >= 0 &&
        bind(fd, (struct sockaddr *) &where,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
                (size_t) length)) == 0);
    hg_test_expect_log("cannot listen on sm://~");
    HG_CHECK_RET(HG_Bulk_handle_bind(e.bulk), HG_ADDRINUSE);
    HG_CHECK(close(fd) == 0);
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk));
    HG_CHECK(exposed_is_listening(e.name));
    exposed_close(&e);
}

HG_TEST(exposed_client_without_a_descriptor_binds_no_memory)
{
    struct rlimit limit, none;
    struct exposed e;
    int fd;

    exposed_open(&e);
    fd = dup(STDERR_FILENO);
    HG_CHECK(fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = (rlim_t) fd;
    HG_CHECK(close(fd) == 0 && setrlimit(RLIMIT_NOFILE, &none) == 0);
    hg_test_expect_log("descriptor");
    HG_CHECK_RET(HG_Bulk_handle_bind(e.bulk), HG_AGAIN);
    HG_CHECK_EQ_INT(hg_test_log_count("descriptor"), 1);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    HG_CHECK(!exposed_is_listening(e.name));
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk)); /* it was not bound */
    HG_CHECK(exposed_is_listening(e.name));
    exposed_close(&e);
}

/* A forked child does not keep the socket. */
HG_TEST(exposed_client_closes_its_socket_in_a_child)
{
    struct exposed e;
    int ends[2], status;
    char byte = 'x';
    pid_t child;

    exposed_open(&e);
    HG_CHECK_OK(HG_Bulk_handle_bind(e.bulk));
    HG_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        (void) close(ends[0]);
        _exit(write(ends[1], &byte, 1) == 1 && read(ends[1], &byte, 1) == 0
                ? 0
                : 1);
    }
    HG_CHECK(close(ends[1]) == 0 && read(ends[0], &byte, 1) == 1);
    exposed_close(&e);
    HG_CHECK(!exposed_is_listening(e.name));
    HG_CHECK(close(ends[0]) == 0);
    HG_CHECK(waitpid(child, &status, 0) == child && status == 0);
}
