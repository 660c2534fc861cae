/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the transport sm: chosen, given, in use, left behind; and which
 * peers they stand for.
 */
#include "sm_sockets.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

HG_TEST(name_is_chosen_and_can_be_looked_up)
{
    struct conform_end server, client;
    na_addr_t addr = NA_ADDR_NULL, again = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN], other[NA_MAX_ADDR_LEN + 8];

    (void) snprintf(other, sizeof(other), "sm://%ld-0", (long) getpid());
    server.na_class = NA_Initialize(NULL, NA_TRUE); /* the default */
    HG_CHECK(server.na_class != NULL);
    HG_CHECK_EQ_STR(NA_Get_class_name(server.na_class), "sm");
    server.context = NA_Context_create(server.na_class);
    HG_CHECK_OK(NA_Addr_self(server.na_class, &server.self));
    endpoint_open(&client, "sm://", 1000);
    endpoint_name(&server, server.self, name);
    HG_CHECK_EQ_STR(name, other);
    HG_CHECK_OK(sm_meet(&client, &server, name, &addr));
    (void) snprintf(other, sizeof(other), "sm+%s", name);
    HG_CHECK_OK(sm_meet(&client, &server, other, &again));
    HG_CHECK(addr == again);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(client.na_class, again));
    conform_close(&client);
    conform_close(&server);
}

/* ---- Names that the library chooses: PID-N ---- */

/* A class that listens at a name of the library, which is PID-`want`, or, with
 * -1, another one that begins with the process id. */
static na_class_t *names_own(const char *scheme, int want)
{
    na_class_t *na_class = NA_Initialize(scheme, NA_TRUE);
    char name[NA_MAX_ADDR_LEN], wanted[64];
    na_addr_t self;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    (void) snprintf(wanted, sizeof(wanted), "%s%ld-%d", scheme, (long) getpid(),
        want < 0 ? 0 : want);
    if (want >= 0)
        HG_CHECK_EQ_STR(name, wanted);
    else
        HG_CHECK(strncmp(name, wanted, strlen(wanted) - 1) == 0 &&
            strlen(name) == strlen(wanted) - 1 + 16);
    return na_class;
}

/* Bind the name PID-`n` with a socket that is no class's. */
static int names_take(unsigned n)
{
    char name[64];
    struct sockaddr_un where;
    int length =
        snprintf(name, sizeof(name), "hg/sm/%ld-%u", (long) getpid(), n);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    memcpy(where.sun_path + 1, name, (size_t) length);
    HG_CHECK(fd >= 0 &&
        bind(fd, (struct sockaddr *) &where,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
                (size_t) length)) == 0);
    return fd;
}

/* The lowest free number is used, and a name in use gives no line at any
 * level. */
HG_TEST(own_name_has_the_lowest_free_number)
{
    na_class_t *classes[3];
    int fd = names_take(1);

    HG_Set_log_level("debug");
    hg_test_allow_log("cannot listen");
    hg_test_allow_log("in use");
    classes[0] = names_own("sm://", 0);
    classes[1] = names_own("na+sm://", 2);
    HG_CHECK(close(fd) == 0);
    classes[2] = names_own("na+sm://", 1);
    HG_CHECK_OK(NA_Finalize(classes[0]));
    classes[0] = names_own("na+sm://", 0);
    HG_CHECK_OK(NA_Finalize(classes[2]));
    HG_CHECK_OK(NA_Finalize(classes[1]));
    HG_CHECK_OK(NA_Finalize(classes[0]));
    HG_CHECK_EQ_INT(hg_test_log_count("cannot listen"), 0);
    HG_CHECK_EQ_INT(hg_test_log_count("in use"), 0);
}

/* A process that takes all of them does not prevent a class. */
HG_TEST(own_name_is_random_if_all_are_taken)
{
    static int fds[256];
    na_class_t *na_class;
    unsigned i;

    for (i = 0; i < 256; i++)
        fds[i] = names_take(i);
    na_class = names_own("sm://", -1);
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK(close(fds[255]) == 0);
    na_class = names_own("sm://", 255);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A launcher opens a class, writes its address down, and executes the server in
 * its place. argv: how often to do so, and whether the class is closed
 * first. */
HG_TEST_ROLE(names_launcher)
{
    char role[] = "--role", name[] = "names_launcher", next[] = "0";
    char program[] = "/proc/self/exe";
    char *words[] = {program, role, name, next, argv[1], NULL};
    na_class_t *na_class;
    na_addr_t self;
    char text[NA_MAX_ADDR_LEN];

    HG_CHECK_EQ_INT(argc, 2);
    na_class = NA_Initialize("na+sm://", NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, text, sizeof(text), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    hg_test_write_parent(text);
    if (strcmp(argv[1], "close") == 0 || strcmp(argv[0], "0") == 0)
        HG_CHECK_OK(NA_Finalize(na_class));
    if (strcmp(argv[0], "0") == 0)
        return;
    (void) execv(program, words);
    HG_CHECK(false);
}

HG_TEST(own_name_is_the_same_after_exec)
{
    static const char *const how[] = {"close", "leave"};
    unsigned i;

    for (i = 0; i < 2; i++) {
        struct hg_test_peer *peer =
            hg_test_spawn("names_launcher", "1", how[i], (char *) NULL);
        char *before = hg_test_read_peer(peer);
        char *after = hg_test_read_peer(peer);
        char want[64];

        (void) snprintf(
            want, sizeof(want), "na+sm://%ld-0", (long) hg_test_peer_pid(peer));
        HG_CHECK_EQ_STR(before, want);
        HG_CHECK_EQ_STR(after, want);
        free(before);
        free(after);
        hg_test_stop(peer);
    }
}

#define NAMES_THREADS 8

static void *names_open(void *arg)
{
    pthread_barrier_t *start = (pthread_barrier_t *) arg;
    int rc = pthread_barrier_wait(start);

    HG_CHECK(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
    return NA_Initialize("sm://", NA_TRUE);
}

HG_TEST(own_names_of_threads_differ)
{
    pthread_t threads[NAMES_THREADS];
    na_class_t *classes[NAMES_THREADS];
    pthread_barrier_t start;
    void *opened;
    unsigned seen = 0;
    unsigned i;

    HG_CHECK(pthread_barrier_init(&start, NULL, NAMES_THREADS) == 0);
    for (i = 0; i < NAMES_THREADS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, names_open, &start) == 0);
    for (i = 0; i < NAMES_THREADS; i++) {
        char name[NA_MAX_ADDR_LEN];
        na_addr_t self;

        HG_CHECK(pthread_join(threads[i], &opened) == 0 && opened != NULL);
        classes[i] = (na_class_t *) opened;
        HG_CHECK_OK(NA_Addr_self(classes[i], &self));
        HG_CHECK_OK(NA_Addr_to_string(classes[i], name, sizeof(name), self));
        HG_CHECK_OK(NA_Addr_free(classes[i], self));
        seen |= 1u << strtoul(strchr(name, '-') + 1, NULL, 10);
    }
    HG_CHECK_EQ_INT(seen, (1 << NAMES_THREADS) - 1);
    for (i = 0; i < NAMES_THREADS; i++)
        HG_CHECK_OK(NA_Finalize(classes[i]));
    HG_CHECK(pthread_barrier_destroy(&start) == 0);
}

/* Process 1 of a process namespace of its own, in this network namespace.
 * argv: the number that its name gets. */
HG_TEST_ROLE(names_contained)
{
    pid_t child;
    int status = 0;

    HG_CHECK_EQ_INT(argc, 1);
    if (unshare(CLONE_NEWPID) != 0) {
        hg_test_write_parent("no namespaces");
        return;
    }
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        na_class_t *na_class =
            names_own("sm://", (int) strtol(argv[0], NULL, 10));

        HG_CHECK_EQ_INT(getpid(), 1);
        hg_test_write_parent("open");
        free(hg_test_read_parent());
        HG_CHECK_OK(NA_Finalize(na_class));
        _exit(0);
    }
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(status, 0);
    _exit(0); /* this process cannot create another one */
}

/* Containers that share a network namespace, and each have a process 1. */
HG_TEST(own_names_of_containers_differ)
{
    struct hg_test_peer *peers[2];
    bool can = true;
    unsigned i;

    for (i = 0; i < 2; i++) {
        char *line;

        peers[i] =
            hg_test_spawn("names_contained", i == 0 ? "0" : "1", (char *) NULL);
        line = hg_test_read_peer(peers[i]);
        can = can && strcmp(line, "open") == 0;
        free(line);
    }
    for (i = 0; i < 2; i++)
        hg_test_stop(peers[i]);
    if (!can)
        hg_test_skip("needs root for process namespaces");
}

/* Address strings of Mercury: the class's addresses keep the prefix it was
 * opened with, and each kind of class finds the other by both spellings. */
static void names_meet(const char *server_string, const char *client_string)
{
    bool spelled = strncmp(client_string, "na+", 3) == 0;
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN], other[NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL, again = NA_ADDR_NULL;
    const char *plain;

    endpoint_open_info(&server, server_string, NA_TRUE, NULL);
    HG_CHECK_EQ_STR(NA_Get_class_name(server.na_class), "sm");
    endpoint_open(&client, client_string, 1000);
    endpoint_name(&server, server.self, name);
    HG_CHECK(strncmp(name, server_string, strlen(server_string)) == 0);
    plain = strstr(name, "sm://");
    (void) snprintf(other, sizeof(other), "na+%s", plain);
    HG_CHECK_OK(sm_meet(&client, &server, other, &addr));
    HG_CHECK_OK(sm_meet(&client, &server, plain, &again));
    HG_CHECK(addr == again);
    endpoint_name(&client, addr, seen);
    HG_CHECK_EQ_STR(seen, spelled ? other : plain);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(client.na_class, again));
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(mercury_address_names_are_understood)
{
    names_meet("na+sm://", "na+sm://");
    names_meet("na+sm://", "sm://");
    names_meet("sm://", "na+sm://");
    hg_test_expect_log("no transport here speaks na+self");
    HG_CHECK(NA_Initialize("na+self", NA_FALSE) == NULL);
}

/* Mercury programs build one string from transport, host and port. */
HG_TEST(name_may_have_a_port)
{
    char name[64];

    (void) snprintf(
        name, sizeof(name), "na+sm://hg-test-%ld:7000", (long) getpid());
    names_meet(name, "na+sm://");
}

HG_TEST(name_without_a_listener_is_ignored)
{
    char name[64], self[NA_MAX_ADDR_LEN];
    struct conform_end end, other;

    (void) snprintf(name, sizeof(name), "na+sm://hg-test-%ld", (long) getpid());
    memset(&end, 0, sizeof(end));
    end.na_class = NA_Initialize(name, NA_FALSE);
    HG_CHECK(end.na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    endpoint_name(&end, end.self, self);
    HG_CHECK(strncmp(self, "na+sm://", 8) == 0 && strcmp(self, name) != 0);
    endpoint_open(&other, name, 1000); /* the name is free */
    conform_close(&other);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.self));
    HG_CHECK_OK(NA_Finalize(end.na_class));
}

/* 65 characters. */
static const char names_too_long[] =
    "sm://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0";

HG_TEST(bad_names_are_refused)
{
    static const char *const bad[] = {
        "sm://a b", "sm://a/b", "sm://a@b", names_too_long};
    char path[NA_MAX_ADDR_LEN];
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    size_t i;

    hg_test_expect_log("neither letters");
    hg_test_expect_log("1 to 64 characters");
    hg_test_expect_log("longer than a socket's path");
    hg_test_allow_log("cannot open");
    endpoint_open(&end, "sm://", 1000);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        HG_CHECK(NA_Initialize(bad[i], NA_TRUE) == NULL);
        HG_CHECK_RET(endpoint_lookup(&end, bad[i], &addr), NA_INVALID_ARG);
    }
    HG_CHECK_RET(endpoint_lookup(&end, "sm://", &addr), NA_INVALID_ARG);
    memset(path, 'p', sizeof(path));
    memcpy(path, "sm:///", 6);
    path[150] = '\0';
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    conform_close(&end);
}

HG_TEST(name_has_one_listener)
{
    struct conform_end end;
    char name[64], path[200];

    hg_test_expect_log("cannot listen on");
    hg_test_allow_log("cannot open");
    (void) snprintf(name, sizeof(name), "sm://hg-test-%ld", (long) getpid());
    endpoint_open(&end, name, 1000);
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    conform_close(&end);
    endpoint_open(&end, name, 1000); /* free again at once */
    conform_close(&end);
    (void) snprintf(path, sizeof(path), "sm://%s/taken", hg_test_dir());
    endpoint_open(&end, path, 1000);
    HG_CHECK(NA_Initialize(path, NA_TRUE) == NULL);
    conform_close(&end);
    HG_CHECK_EQ_INT(access(path + 5, F_OK), -1); /* nothing is left */
}

HG_TEST(stale_path_is_reused)
{
    struct conform_end server, client;
    struct sockaddr_un where;
    na_addr_t addr = NA_ADDR_NULL;
    char name[200];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    (void) snprintf(
        where.sun_path, sizeof(where.sun_path), "%s/stale", hg_test_dir());
    HG_CHECK(bind(fd, (struct sockaddr *) &where, sizeof(where)) == 0);
    (void) close(fd); /* no listener any more; the path stays */
    (void) snprintf(name, sizeof(name), "sm://%s", where.sun_path);
    endpoint_open(&server, name, 1000);
    endpoint_open(&client, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&client, &server, name, &addr));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* A class removes the file of its own socket, not that of another listener that
 * took the path meanwhile. */
HG_TEST(path_of_another_listener_is_kept)
{
    struct conform_end one, two;
    char name[200];

    (void) snprintf(name, sizeof(name), "sm://%s/moved", hg_test_dir());
    endpoint_open(&one, name, 1000);
    HG_CHECK(unlink(name + 5) == 0);
    endpoint_open(&two, name, 1000);
    conform_close(&one);
    HG_CHECK_EQ_INT(access(name + 5, F_OK), 0);
    conform_close(&two);
    HG_CHECK_EQ_INT(access(name + 5, F_OK), -1);
}

HG_TEST(file_that_is_no_socket_is_kept)
{
    char name[200];
    FILE *file;

    hg_test_expect_log("/file: Address already in use");
    hg_test_expect_log(": Address already in use");
    hg_test_expect_log("/no/folder: No such file");
    hg_test_allow_log("cannot open");
    (void) snprintf(name, sizeof(name), "sm://%s", hg_test_dir());
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    (void) snprintf(name, sizeof(name), "sm://%s/file", hg_test_dir());
    file = fopen(name + 5, "w");
    HG_CHECK(file != NULL && fclose(file) == 0);
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(access(name + 5, F_OK), 0);
    (void) snprintf(name, sizeof(name), "sm://%s/no/folder", hg_test_dir());
    HG_CHECK(NA_Initialize(name, NA_TRUE) == NULL);
}

HG_TEST(address_without_a_listener_is_unreachable)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char name[200];

    hg_test_expect_log("nobody-at-all cannot be reached: nobody listens");
    hg_test_expect_log("none cannot be reached: No such file");
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_RET(
        endpoint_lookup(&end, "sm://nobody-at-all", &addr), NA_HOSTUNREACH);
    (void) snprintf(name, sizeof(name), "sm://%s/none", hg_test_dir());
    HG_CHECK_RET(endpoint_lookup(&end, name, &addr), NA_HOSTUNREACH);
    HG_CHECK(addr == NA_ADDR_NULL);
    conform_close(&end);
}

#define NAMES_AT_ONCE 100u

/* Look up many names that are links to one socket, and end the connections
 * again. */
static void names_visit(
    struct conform_end *client, struct conform_end *server, const char *name)
{
    static struct conform_call lookups[NAMES_AT_ONCE], ends[NAMES_AT_ONCE];
    char link_name[220];
    unsigned i;

    memset(lookups, 0, sizeof(lookups));
    memset(ends, 0, sizeof(ends));
    for (i = 0; i < NAMES_AT_ONCE; i++) {
        (void) snprintf(link_name, sizeof(link_name), "%s-%u", name, i);
        HG_CHECK(link(name + 5, link_name + 5) == 0);
        HG_CHECK_OK(NA_Addr_lookup(client->na_class, client->context,
            conform_ended, &lookups[i], link_name, &lookups[i].id));
    }
    for (i = 0; i < NAMES_AT_ONCE; i++) {
        HG_CHECK_OK(sm_wait(client, server, &lookups[i]));
        HG_CHECK_OK(NA_Addr_terminate(client->na_class, client->context,
            conform_ended, &ends[i], lookups[i].addr, &ends[i].id));
        (void) snprintf(link_name, sizeof(link_name), "%s-%u", name, i);
        HG_CHECK(unlink(link_name + 5) == 0);
    }
    for (i = 0; i < NAMES_AT_ONCE; i++) {
        HG_CHECK_OK(sm_wait(client, server, &ends[i]));
        HG_CHECK_OK(NA_Addr_free(client->na_class, lookups[i].addr));
    }
}

/* A peer that was found once and is no longer connected or referenced takes no
 * memory. */
HG_TEST(disconnected_names_take_no_memory)
{
    unsigned rounds = hg_test_is_plain() ? 100 : 5;
    struct conform_end server, client;
    char name[120], fresh[160];
    int64_t blocks = 0;
    unsigned i;

    hg_test_alloc_install();
    (void) snprintf(name, sizeof(name), "sm://%s/known", hg_test_dir());
    endpoint_open(&server, name, 1000);
    endpoint_open(&client, "sm://", 1000);
    for (i = 0; i < rounds; i++) {
        (void) snprintf(fresh, sizeof(fresh), "%s-%u", name, i);
        HG_CHECK(link(name + 5, fresh + 5) == 0);
        names_visit(&client, &server, fresh);
        HG_CHECK(unlink(fresh + 5) == 0);
        if (i == 1)
            blocks = hg_test_alloc_live();
    }
    HG_CHECK_EQ_INT(hg_test_alloc_live(), blocks);
    conform_close(&client);
    conform_close(&server);
}

/* An address of a disconnected peer is used again. It finds the peer, which was
 * meanwhile looked up by another address as well. */
HG_TEST(address_is_reused_beside_another_of_its_name)
{
    struct conform_end server, client;
    struct conform_call term, recv;
    na_addr_t old = NA_ADDR_NULL, fresh = NA_ADDR_NULL, again = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN], got[8];

    (void) snprintf(name, sizeof(name), "sm://hg-again-%ld", (long) getpid());
    endpoint_open(&server, name, 1000);
    endpoint_open(&client, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&client, &server, name, &old));
    memset(&term, 0, sizeof(term));
    HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
        conform_ended, &term, old, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&client, &server, &term));
    HG_CHECK_OK(sm_meet(&client, &server, name, &fresh));
    HG_CHECK(NA_Addr_cmp(client.na_class, old, fresh) == NA_TRUE);
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context, NULL,
        NULL, "old", 4, old, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&client, &server, &recv));
    HG_CHECK_EQ_STR(got, "old");
    conform_free_addr(&server, &recv);
    HG_CHECK_OK(sm_meet(&client, &server, name, &again));
    HG_CHECK(again == fresh); /* it kept the name */
    HG_CHECK_OK(NA_Addr_free(client.na_class, again));
    HG_CHECK_OK(NA_Addr_free(client.na_class, fresh));
    HG_CHECK_OK(NA_Addr_free(client.na_class, old));
    conform_close(&client);
    conform_close(&server);
}

/* An address of a disconnected peer is used again before any lookup. A lookup
 * of its name then finds this address: there is one connection. */
HG_TEST(reused_address_has_its_name_again)
{
    struct conform_end server, client;
    struct conform_call term, recv;
    na_addr_t old = NA_ADDR_NULL, again = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN], got[8];

    (void) snprintf(name, sizeof(name), "sm://hg-anew-%ld", (long) getpid());
    endpoint_open(&server, name, 1000);
    endpoint_open(&client, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&client, &server, name, &old));
    memset(&term, 0, sizeof(term));
    HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
        conform_ended, &term, old, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&client, &server, &term));
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context, NULL,
        NULL, "old", 4, old, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&client, &server, &recv));
    HG_CHECK_EQ_STR(got, "old");
    conform_free_addr(&server, &recv);
    HG_CHECK_OK(sm_meet(&client, &server, name, &again));
    HG_CHECK(again == old);
    HG_CHECK_OK(NA_Addr_free(client.na_class, again));
    HG_CHECK_OK(NA_Addr_free(client.na_class, old));
    conform_close(&client);
    conform_close(&server);
}

/* A path that has two names is one listener. */
HG_TEST(self_address_is_recognized_by_every_name)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char name[200], other[220];
    unsigned fds;

    (void) snprintf(name, sizeof(name), "sm://%s/self", hg_test_dir());
    (void) snprintf(other, sizeof(other), "sm://%s/./self", hg_test_dir());
    endpoint_open(&end, name, 1000);
    fds = hg_test_fd_count();
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_OK(endpoint_lookup(&end, other, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_idle(&end);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    conform_close(&end);
}

/* ---- Network namespaces ---- */

HG_TEST_ROLE(names_server)
{
    HG_CHECK_EQ_INT(argc, 1);
    endpoint_serve(argv[0], 1000);
}

/* Leave the network namespace. Without root this needs a new user namespace, in
 * which the user id stays the same. */
static bool names_leave(void)
{
    unsigned long uid = (unsigned long) geteuid();
    char map[64];
    int fd;

    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (uid == 65534 || unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false; /* or the number stands for unmapped users */
    (void) snprintf(map, sizeof(map), "%lu %lu 1\n", uid, uid);
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (write(fd, map, strlen(map)) != (ssize_t) strlen(map)) {
        (void) close(fd);
        return false;
    }
    return close(fd) == 0;
}

/* Call a path and a name: "there", in another namespace, or "here". */
HG_TEST_ROLE(names_client)
{
    struct conform_end end;
    char got[8];
    int i;

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("cannot be reached: nobody listens there");
    if (strcmp(argv[0], "there") == 0 && !names_leave()) {
        hg_test_write_parent("no namespaces");
        return;
    }
    endpoint_open(&end, "sm://", 1000);
    for (i = 1; i < argc; i++) {
        na_addr_t addr = NA_ADDR_NULL;
        na_return_t ret = endpoint_lookup(&end, argv[i], &addr);

        if (ret == NA_SUCCESS) {
            HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
            HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
        }
        hg_test_write_parent(NA_Error_to_string(ret));
    }
    conform_close(&end);
}

/* Whether a client could run there; the answers it got for a path and a
 * name. */
static bool names_call(const char *where, const char *path, const char *name,
    na_return_t want_path, na_return_t want_name)
{
    struct hg_test_peer *client =
        hg_test_spawn("names_client", where, path, name, NULL);
    char *line = hg_test_read_peer(client);
    bool can = strcmp(line, "no namespaces") != 0;

    if (can) {
        HG_CHECK_EQ_STR(line, NA_Error_to_string(want_path));
        free(line);
        line = hg_test_read_peer(client);
        HG_CHECK_EQ_STR(line, NA_Error_to_string(want_name));
    }
    free(line);
    hg_test_stop(client);
    return can;
}

HG_TEST(paths_cross_network_namespaces_but_names_do_not)
{
    struct hg_test_peer *at_path, *at_name;
    char path[200], name[64];
    bool can;

    (void) snprintf(path, sizeof(path), "sm://%s/crossed", hg_test_dir());
    (void) snprintf(name, sizeof(name), "sm://hg-cross-%ld", (long) getpid());
    at_path = hg_test_spawn("names_server", path, NULL);
    at_name = hg_test_spawn("names_server", name, NULL);
    free(hg_test_read_peer(at_path));
    free(hg_test_read_peer(at_name));
    HG_CHECK(names_call("here", path, name, NA_SUCCESS, NA_SUCCESS));
    can = names_call("there", path, name, NA_SUCCESS, NA_HOSTUNREACH);
    hg_test_stop(at_name);
    hg_test_stop(at_path);
    if (!can)
        hg_test_skip("network namespaces are not available");
}

/* ---- Identity of peers ---- */

/* Two listeners dial each other: either connection belongs to the peer. */
HG_TEST(two_listeners_exchange_messages)
{
    struct conform_end one, two;
    struct conform_call recv, send;
    char name[NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN], got[8];
    na_addr_t to_two = NA_ADDR_NULL, to_one = NA_ADDR_NULL;

    (void) snprintf(name, sizeof(name), "sm://one-%ld", (long) getpid());
    endpoint_open(&one, name, 1000);
    (void) snprintf(name, sizeof(name), "sm://two-%ld", (long) getpid());
    endpoint_open(&two, name, 1000);
    HG_CHECK_OK(sm_meet(&one, &two, name, &to_two));
    endpoint_name(&one, one.self, name);
    HG_CHECK_OK(sm_meet(&two, &one, name, &to_one));
    /* The source of an unexpected message is the address at which its sender
     * listens. */
    HG_CHECK_OK(conform_recv(&two, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(one.na_class, one.context, conform_ended,
        &send, "x", 2, to_two, 3, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&one, &two, &recv));
    HG_CHECK_OK(sm_wait(&one, &two, &send));
    endpoint_name(&two, recv.addr, seen);
    HG_CHECK_EQ_STR(seen, name);
    HG_CHECK(recv.addr != to_one);
    HG_CHECK(NA_Addr_cmp(two.na_class, recv.addr, to_one) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(two.na_class, recv.addr, two.self) == NA_FALSE);
    conform_free_addr(&two, &recv);
    /* A receive from one address accepts messages of the other connection. */
    HG_CHECK_OK(endpoint_post(&one, &recv, got, sizeof(got), to_two, 5));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_expected(two.na_class, two.context, conform_ended,
        &send, "y", 2, to_one, 5, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&one, &two, &recv));
    HG_CHECK_OK(sm_wait(&one, &two, &send));
    HG_CHECK_EQ_STR(got, "y");
    HG_CHECK_OK(NA_Addr_free(one.na_class, to_two));
    HG_CHECK_OK(NA_Addr_free(two.na_class, to_one));
    conform_close(&one);
    conform_close(&two);
}

/* Claims that it listens at the name of another process, with a last letter
 * that differs from its own, and sends to a listener. */
HG_TEST_ROLE(names_impostor)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char *last;

    HG_CHECK_EQ_INT(argc, 3);
    endpoint_open(&end, argv[0], 1000);
    HG_CHECK_EQ_U64(strlen(end.self->name), strlen(argv[1]));
    last = (char *) (uintptr_t) end.self->name + strlen(argv[1]) - 1;
    *last = argv[1][strlen(argv[1]) - 1];
    HG_CHECK_EQ_STR(end.self->name, argv[1]);
    HG_CHECK_OK(endpoint_lookup(&end, argv[2], &addr));
    HG_CHECK_OK(endpoint_send(&end, addr, true, "false", 6, 7));
    HG_CHECK_OK(endpoint_send(&end, addr, false, "hello", 6, 0));
    free(hg_test_read_parent());
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* Its message is not delivered as that of the process which listens there. */
HG_TEST(peer_with_the_name_of_a_listener_is_not_taken_for_it)
{
    struct conform_end server, victim;
    struct conform_call recv, hello, send;
    char names[3][NA_MAX_ADDR_LEN], seen[NA_MAX_ADDR_LEN], got[8], text[8];
    na_addr_t addr = NA_ADDR_NULL, to_server = NA_ADDR_NULL;
    struct hg_test_peer *peer;
    unsigned i;

    for (i = 0; i < 3; i++)
        (void) snprintf(names[i], sizeof(names[i]), "sm://names-%ld-%u",
            (long) getpid(), i);
    endpoint_open(&server, names[0], 1000);
    endpoint_open(&victim, names[1], 1000);
    HG_CHECK_OK(conform_recv(&server, &hello, false, text, sizeof(text), 0));
    peer = hg_test_spawn(
        "names_impostor", names[2], names[1], names[0], (char *) NULL);
    HG_CHECK_OK(conform_wait(&server, &hello));
    endpoint_name(&server, hello.addr, seen);
    HG_CHECK_EQ_STR(seen, names[1]);
    HG_CHECK_OK(NA_Addr_resolve(server.na_class, names[1], &addr));
    HG_CHECK_OK(endpoint_post(&server, &recv, got, sizeof(got), addr, 7));
    HG_CHECK_OK(NA_Addr_resolve(victim.na_class, names[0], &to_server));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_expected(victim.na_class, victim.context,
        conform_ended, &send, "true", 5, to_server, 7, &send.id));
    HG_CHECK_OK(sm_wait(&server, &victim, &recv));
    HG_CHECK_EQ_STR(got, "true");
    HG_CHECK_OK(sm_wait(&server, &victim, &send));
    HG_CHECK(NA_Addr_cmp(server.na_class, hello.addr, addr) == NA_FALSE);
    hg_test_write_peer(peer, "end");
    HG_CHECK_EQ_INT(hg_test_wait(peer), 0);
    conform_free_addr(&server, &hello);
    HG_CHECK_OK(NA_Addr_free(server.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(victim.na_class, to_server));
    conform_close(&victim);
    conform_close(&server);
}

/* An executed program inherits no descriptor of either side: it would keep the
 * connection of a dead process open. */
HG_TEST(exec_closes_connections)
{
    enum { FDS = 1024 };
    static bool before[FDS];
    struct conform_end one, two;
    na_addr_t to_one = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];
    unsigned made = 0;
    int fd;

    for (fd = 0; fd < FDS; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    (void) snprintf(name, sizeof(name), "sm://exec-%ld", (long) getpid());
    endpoint_open(&one, name, 1000);
    endpoint_open(&two, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&two, &one, name, &to_one));
    for (fd = 0; fd < FDS; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (before[fd] || flags < 0)
            continue;
        made++;
        if ((flags & FD_CLOEXEC) == 0)
            hg_test_fail(HG_TEST_HERE, "descriptor %d is inherited", fd);
    }
    HG_CHECK(made > 2);
    HG_CHECK_OK(NA_Addr_free(two.na_class, to_one));
    conform_close(&two);
    conform_close(&one);
}

/* A class that does not listen is found by its name while it is connected. */
HG_TEST(caller_is_found_by_its_name)
{
    struct conform_end server, client;
    struct conform_call recv, send;
    na_addr_t to_server = NA_ADDR_NULL, to_client = NA_ADDR_NULL;
    na_addr_t own = NA_ADDR_NULL;
    char server_name[NA_MAX_ADDR_LEN], name[NA_MAX_ADDR_LEN];
    char got[8] = "", text[2] = "x";
    na_return_t ret;

    (void) snprintf(
        server_name, sizeof(server_name), "sm://called-%ld", (long) getpid());
    endpoint_open(&server, server_name, 1000);
    endpoint_open(&client, "sm://", 1000);
    endpoint_name(&client, client.self, name);
    HG_CHECK_OK(endpoint_lookup(&client, name, &own));
    HG_CHECK(NA_Addr_is_self(client.na_class, own));
    hg_test_expect_log("does not listen and is not connected");
    HG_CHECK_RET(endpoint_lookup(&server, name, &to_client), NA_HOSTUNREACH);
    HG_CHECK_OK(sm_meet(&client, &server, server_name, &to_server));
    HG_CHECK_OK(endpoint_lookup(&server, name, &to_client));
    HG_CHECK_OK(conform_recv(&client, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(server.na_class, server.context,
        conform_ended, &send, text, sizeof(text), to_client, 1, &send.id));
    HG_CHECK_OK(sm_wait(&server, &client, &recv));
    HG_CHECK_EQ_STR(got, "x");
    HG_CHECK(NA_Addr_cmp(client.na_class, recv.addr, to_server));
    conform_free_addr(&client, &recv);
    HG_CHECK_OK(sm_wait(&server, &client, &send));
    HG_CHECK_OK(NA_Addr_free(client.na_class, own));
    HG_CHECK_OK(NA_Addr_free(client.na_class, to_server));
    conform_close(&client);
    do
        ret = endpoint_send(&server, to_client, false, text, sizeof(text), 1);
    while (ret == NA_SUCCESS);
    HG_CHECK_RET(ret, NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(server.na_class, to_client));
    HG_CHECK_RET(endpoint_lookup(&server, name, &to_client), NA_HOSTUNREACH);
    HG_CHECK_EQ_INT(
        hg_test_log_count("does not listen and is not connected"), 2);
    conform_close(&server);
}

/* The advice differs: looking up a class that does not listen fails, too. */
HG_TEST(caller_is_not_found_by_another_caller)
{
    struct conform_end one, two;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;

    hg_test_expect_log(", which does not listen, either: one of the two must");
    endpoint_open(&one, "sm://", 1000);
    endpoint_open(&two, "sm://", 1000);
    endpoint_name(&two, two.self, name);
    HG_CHECK_RET(endpoint_lookup(&one, name, &addr), NA_HOSTUNREACH);
    conform_close(&two);
    conform_close(&one);
}

/* The application waits for the lookup: its failure is an error, and ends the
 * receives, although these had begun to connect. */
HG_TEST(failed_lookup_ends_the_receives)
{
    static const char name[] = "sm://nobody-at-all";
    struct conform_end end;
    struct conform_call recv;
    na_addr_t addr, found;
    char got[8];

    hg_test_expect_log("sm://nobody-at-all cannot be reached: nobody listens");
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &addr));
    HG_CHECK_OK(endpoint_post(&end, &recv, got, sizeof(got), addr, 7));
    HG_CHECK_RET(endpoint_lookup(&end, name, &found), NA_HOSTUNREACH);
    HG_CHECK_RET(conform_wait(&end, &recv), NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

HG_TEST(listener_takes_no_name_of_a_caller)
{
    hg_test_expect_log("sm://~1: a listener's name does not begin with '~'");
    HG_CHECK(NA_Initialize("sm://~1", NA_TRUE) == NULL);
}
