/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm with a listener that answers a HELLO wrongly. The lookup
 * ends with an error, the connection is closed completely, and the next lookup
 * of another listener succeeds.
 */
#include "sm_packets.h"

#include <sys/resource.h>

/* Listen at "sm://hg-listener-..." without the library. */
static int listener_open(char name[64])
{
    static const char prefix[] = "hg/sm/";
    static unsigned count;
    struct sockaddr_un where;
    size_t length;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void) snprintf(
        name, 64, "sm://hg-listener-%ld-%u", (long) getpid(), count++);
    length = strlen(name) - 5;
    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    memcpy(where.sun_path + 1, prefix, sizeof(prefix) - 1);
    memcpy(where.sun_path + sizeof(prefix), name + 5, length);
    HG_CHECK(fd >= 0 &&
        bind(fd, (struct sockaddr *) &where,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) +
                sizeof(prefix) + length)) == 0);
    HG_CHECK(listen(fd, 8) == 0);
    return fd;
}

/* Accept the caller, which makes progress meanwhile, and read its HELLO. */
static int listener_accept(int listener, struct conform_end *caller,
    unsigned char hello[SM_PACKET_MAX])
{
    struct pollfd ready = {listener, POLLIN, 0};
    ssize_t got = -1;
    int fd;

    while (poll(&ready, 1, 0) == 0)
        if (caller != NULL)
            (void) conform_turn(caller->na_class, caller->context, 1);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    HG_CHECK(fd >= 0);
    while (got < 0) {
        got = recv(fd, hello, SM_PACKET_MAX, MSG_DONTWAIT);
        if (got < 0 && caller != NULL)
            (void) conform_turn(caller->na_class, caller->context, 1);
    }
    HG_CHECK(got >= SM_PACKET_HEAD && hello[6] == SM_HELLO);
    return fd;
}

/* How many descriptors the caller may open for the answer; -1: any number. */
static int listener_spare = -1;

/* The result of a lookup, while the process may open only so many
 * descriptors. */
static void listener_wait(struct conform_end *caller, struct conform_call *call)
{
    struct rlimit limit, low;
    int next = dup(0);

    HG_CHECK(next >= 0 && close(next) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    if (listener_spare >= 0)
        low.rlim_cur = (rlim_t) (next + listener_spare);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    (void) conform_wait(caller, call);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* The result of a lookup that is answered with `answer`, of that kind. NULL:
 * the listener closes the connection. */
static na_return_t listener_answer(struct conform_end *caller,
    const struct sm_packet *answer, unsigned char kind, uint32_t reason)
{
    unsigned char bytes[SM_PACKET_MAX];
    int fds[SM_FDS_MAX];
    struct conform_call call;
    unsigned count = 0;
    char name[64];
    int listener = listener_open(name);
    int fd;

    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(caller->na_class, caller->context, conform_ended,
        &call, name, &call.id));
    fd = listener_accept(listener, caller, bytes);
    if (answer != NULL) {
        size_t size = sm_bytes(answer, kind, bytes);
        unsigned i;

        for (i = 0; i < 4 && reason != 0; i++)
            bytes[20 + i] = (unsigned char) (reason >> (8 * i));
        count = kind == SM_REFUSE ? 0 : sm_make_fds(answer, kind, fds);
        sm_send(fd, bytes, size, fds, count);
    } else {
        (void) close(fd);
        fd = -1;
    }
    HG_CHECK(call.ends == 0);
    listener_wait(caller, &call);
    if (call.ret == NA_SUCCESS)
        HG_CHECK_OK(NA_Addr_free(caller->na_class, call.addr));
    while (count > 0)
        (void) close(fds[--count]);
    if (fd >= 0)
        (void) close(fd);
    (void) close(listener);
    return call.ret;
}

HG_TEST(malformed_welcome_is_refused)
{
    static const struct sm_packet bad[] = {
        {.at = 1, .value = 'X'}, /* magic */
        {.at = 4, .value = 1},   /* version */
        {.at = 6, .value = 0},   /* no such kind */
        {.at = 6, .value = SM_HELLO},
        {.at = 6, .value = 77},
        {.at = 7, .value = 255},             /* descriptors that do not exist */
        {.at = 7, .value = SM_FDS_BELL | 1}, /* the right number, but others */
        {.at = 8, .value = 0},               /* an incarnation of 0 */
        {.at = 18, .value = 1},              /* a slot past the page */
        {.name = "\x1f"},
        {.name = "ab\x7f"},
        {.longer = -1},
        {.longer = -33},
        {.longer = 6},
        {.more = -2}, /* no memory */
        {.more = -1},
        {.more = 1}, /* the third is no wakeup descriptor */
        {.more = 6},
        {.missing = SM_SEALED},
        {.missing = F_SEAL_GROW, .only = 1},
        {.missing = F_SEAL_GROW, .only = 2},
        {.missing = F_SEAL_SHRINK, .only = 1},
        {.missing = F_SEAL_SHRINK, .only = 2},
        {.grow = -4096, .only = 1},
        {.grow = 4096, .only = 1},
        {.grow = 4096, .only = 2},
        {.seal = F_SEAL_WRITE, .only = 2}, /* it cannot be written */
        {.read_only = true, .only = 2},
        {.bell = SM_BELL_BLOCKING},
        {.bell = SM_BELL_SOCKET},
        {.bell = SM_BELL_FILE},
        {.more = -1, .bell = SM_BELL_GOOD},
        {.bell = SM_BELL_GOOD, .after = 1},
        /* last; left out where the system has no huge pages */
        {.huge = true, .only = 1},
    };
    static const struct sm_packet empty = {.longer = -SM_PACKET_SIZE};
    struct sm_packet good = {.at = 0};
    size_t count = sizeof(bad) / sizeof(bad[0]) - !sm_has_huge_pages();
    struct conform_end caller;
    unsigned fds, maps;
    size_t i;

    hg_test_allow_log("");
    endpoint_open(&caller, "sm://", 1000);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < count; i++) {
        HG_CHECK_RET(listener_answer(&caller, &bad[i], SM_WELCOME, 0),
            NA_PROTOCOL_ERROR);
        sm_settle(&caller, fds, maps);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(caller.na_class, "sm_met"), 0);
    /* An empty packet looks like the end of the stream, but has descriptors. */
    HG_CHECK_RET(
        listener_answer(&caller, &empty, SM_WELCOME, 0), NA_HOSTUNREACH);
    sm_settle(&caller, fds, maps);
    HG_CHECK_RET(listener_answer(&caller, NULL, 0, 0), NA_HOSTUNREACH);
    sm_settle(&caller, fds, maps);
    /* Without a mistake the connection is established. */
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(listener_answer(&caller, &good, SM_WELCOME, 0));
        sm_settle(&caller, fds, maps);
        good.bell = SM_BELL_GOOD;
    }
    HG_CHECK_EQ_U64(NA_Get_counter(caller.na_class, "sm_met"), 2);
    conform_close(&caller);
}

/* A packet of another version may be shorter. */
HG_TEST(welcome_of_another_version_is_named)
{
    static const struct sm_packet old = {.at = 4, .value = 1, .longer = -20};
    struct conform_end caller;

    hg_test_expect_log("has version 1 of the protocol, not 6");
    endpoint_open(&caller, "sm://", 1000);
    HG_CHECK_RET(
        listener_answer(&caller, &old, SM_WELCOME, 0), NA_PROTOCOL_ERROR);
    conform_close(&caller);
}

/* The caller has no descriptors for the memory in the answer. */
HG_TEST(caller_without_descriptors_fails_with_again)
{
    struct sm_packet good = {.at = 0};
    struct conform_end caller;
    unsigned fds, maps;
    unsigned bell;

    hg_test_expect_log("the limit nofile is");
    endpoint_open(&caller, "sm://", 1000);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (bell = 0; bell < 2; bell++) {
        good.bell = bell == 1 ? SM_BELL_GOOD : SM_BELL_NONE;
        for (listener_spare = 0; listener_spare < 2; listener_spare++) {
            HG_CHECK_RET(
                listener_answer(&caller, &good, SM_WELCOME, 0), NA_AGAIN);
            sm_settle(&caller, fds, maps);
        }
        listener_spare = -1;
        HG_CHECK_OK(listener_answer(&caller, &good, SM_WELCOME, 0));
        sm_settle(&caller, fds, maps);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(caller.na_class, "sm_met"), 2);
    conform_close(&caller);
}

/* A refusal is an error, whatever its reason code. */
HG_TEST(refusal_fails_the_lookup)
{
    static const struct {
        uint32_t reason;
        na_return_t want;
    } cases[] = {{NA_PERMISSION, NA_PERMISSION},
        {NA_PROTOCOL_ERROR, NA_PROTOCOL_ERROR}, {NA_AGAIN, NA_AGAIN},
        {NA_NOMEM, NA_AGAIN}, {NA_IO_ERROR, NA_AGAIN},
        {NA_SUCCESS, NA_HOSTUNREACH}, {NA_CANCELED, NA_HOSTUNREACH},
        {255, NA_HOSTUNREACH}, {UINT32_MAX, NA_HOSTUNREACH},
        {0x80000000, NA_HOSTUNREACH}};
    static const struct sm_packet plain = {.at = 0};
    struct conform_end caller;
    unsigned fds, maps;
    unsigned i;

    hg_test_allow_log("refuses the connection");
    hg_test_allow_log("cannot be reached");
    endpoint_open(&caller, "sm://", 1000);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HG_CHECK_RET(
            listener_answer(&caller, &plain, SM_REFUSE, cases[i].reason),
            cases[i].want);
        sm_settle(&caller, fds, maps);
    }
    conform_close(&caller);
}

/* Answer a HELLO with the caller's own incarnation. */
HG_TEST_ROLE(impostor)
{
    static const struct sm_packet good = {.at = 0};
    unsigned char hello[SM_PACKET_MAX], bytes[SM_PACKET_MAX];
    int fds[SM_FDS_MAX];
    char name[64];
    int listener = listener_open(name);
    unsigned count;
    size_t size;
    int fd;

    HG_CHECK_EQ_INT(argc, 0);
    (void) argv;
    hg_test_write_parent(name);
    fd = listener_accept(listener, NULL, hello);
    size = sm_bytes(&good, SM_WELCOME, bytes);
    count = sm_make_fds(&good, SM_WELCOME, fds);
    memcpy(bytes + 8, hello + 8, 8);
    sm_send(fd, bytes, size, fds, count);
    free(hg_test_read_parent());
}

/* Another process is never taken for the process itself, whatever it sends. */
HG_TEST(listener_cannot_pretend_to_be_the_caller)
{
    struct hg_test_peer *peer = hg_test_spawn("impostor", NULL);
    char *name = hg_test_read_peer(peer);
    struct conform_end caller;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_allow_log("");
    endpoint_open(&caller, "sm://", 1000);
    HG_CHECK_RET(endpoint_lookup(&caller, name, &addr), NA_PROTOCOL_ERROR);
    conform_close(&caller);
    hg_test_stop(peer);
    free(name);
}

/* A listener that accepts and then stays silent is dropped after lookup_ms. */
HG_TEST(silent_listener_is_dropped)
{
    unsigned char hello[SM_PACKET_MAX];
    struct conform_end caller;
    struct conform_call call;
    unsigned fds, maps;
    char name[64];
    int listener = listener_open(name);
    int fd;

    hg_test_allow_log("the process that listens there does not answer");
    endpoint_open_with(&caller, "sm://", 1000, 200);
    fds = hg_test_fd_count();
    maps = sm_maps();
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(
        caller.na_class, caller.context, conform_ended, &call, name, &call.id));
    fd = listener_accept(listener, &caller, hello);
    HG_CHECK_RET(conform_wait(&caller, &call), NA_HOSTUNREACH);
    (void) close(fd);
    sm_settle(&caller, fds, maps);
    (void) close(listener);
    conform_close(&caller);
}
