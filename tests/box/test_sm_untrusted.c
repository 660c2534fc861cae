/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm with peers that it does not trust: other users, and
 * processes that connect to its socket and do not send a correct HELLO. Also:
 * what happens when either side runs out of descriptors.
 */
#include "sm_packets.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define UNTRUSTED_UID 65533 /* two users that own nothing */
#define UNTRUSTED_OTHER 65532
#define UNTRUSTED_SHARED 5000 /* bytes of memory */

static void untrusted_name(char string[64])
{
    static unsigned count;

    (void) snprintf(
        string, 64, "sm://hg-stranger-%ld-%u", (long) getpid(), count++);
}

/* ---- Other users ---- */

static void untrusted_become(const char *uid)
{
    HG_CHECK(setuid((uid_t) strtoul(uid, NULL, 10)) == 0);
}

static void untrusted_open(
    struct conform_end *end, const char *string, const char *policy)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;
    struct na_init_info info = fresh;

    info.auth_key = policy;
    info.lookup_ms = 2000;
    end->na_class = NA_Initialize_opt(
        string, strlen(string) > 5 ? NA_TRUE : NA_FALSE, &info);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

/* Listen as a user, and echo one message for each client; or send a handle of
 * memory instead. */
HG_TEST_ROLE(server)
{
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    struct conform_end end;
    struct conform_call recv;
    unsigned char wire[256];
    na_mem_handle_t mem;
    na_size_t size;
    char *memory;
    char got[64];

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("is refused: auth_key");
    untrusted_become(argv[0]);
    untrusted_open(&end, argv[2], argv[1]);
    memory = (char *) NA_Mem_alloc(end.na_class, UNTRUSTED_SHARED);
    HG_CHECK(memory != NULL);
    memset(memory, 'm', UNTRUSTED_SHARED);
    mem = conform_memory(&end, memory, UNTRUSTED_SHARED, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    HG_CHECK(size <= sizeof(wire));
    HG_CHECK_OK(NA_Mem_handle_serialize(end.na_class, wire, size, mem));
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    hg_test_write_parent("open");
    while (poll(&channel, 1, 0) == 0) {
        (void) conform_turn(end.na_class, end.context, 10);
        if (recv.ends == 0)
            continue;
        HG_CHECK_OK(recv.ret);
        (void) endpoint_send(&end, recv.addr, true,
            recv.tag == 2 ? (char *) wire : got,
            recv.tag == 2 ? size : recv.size, recv.tag);
        conform_free_addr(&end, &recv);
        HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    }
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    HG_CHECK_OK(NA_Mem_free(end.na_class, memory));
    conform_close(&end);
}

/* Memory of the library is mapped by whoever the owner lets in. */
static void untrusted_map(struct conform_end *end, na_addr_t owner)
{
    na_mem_handle_t remote = endpoint_remote(end, owner);
    void *ptr;

    if (!hg_test_is_valgrind()) { /* it refuses the system call */
        HG_CHECK_OK(NA_Mem_map(end->na_class, remote, owner, &ptr));
        HG_CHECK_EQ_INT(((char *) ptr)[UNTRUSTED_SHARED - 1], 'm');
        HG_CHECK_OK(NA_Mem_unmap(end->na_class, ptr));
    }
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
}

/* Call as a user; reports the result of the lookup, and its text. */
HG_TEST_ROLE(client)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    na_return_t ret;
    char got[8];

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("cannot be reached: process ");
    hg_test_allow_log("Permission denied");
    untrusted_become(argv[0]);
    untrusted_open(&end, "sm://", argv[1]);
    ret = NA_Addr_lookup_wait(end.na_class, argv[2], CONFORM_TIMEOUT, &addr);
    hg_test_write_parent(NA_Error_to_string(ret));
    hg_test_write_parent(
        ret != NA_SUCCESS ? HG_Get_last_error_text() : "a peer");
    HG_CHECK_EQ_INT(hg_test_log_count("cannot be reached: process "),
        ret == NA_PERMISSION ? 1 : 0);
    if (ret == NA_SUCCESS) {
        HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
        untrusted_map(&end, addr);
        HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    }
    free(hg_test_read_parent());
    conform_close(&end);
}

/* The result for a client of one user and policy with a server of another. A
 * refusal names the server's process and user, then `why`, and the cure. */
static void untrusted_meet(const char *server_policy, const char *client_uid,
    const char *client_policy, const char *why)
{
    na_return_t want = why == NULL ? NA_SUCCESS : NA_PERMISSION;
    struct hg_test_peer *server, *client;
    char string[64], uid[16], text[256];
    char *line;

    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    untrusted_name(string);
    server = hg_test_spawn("server", uid, server_policy, string, NULL);
    free(hg_test_read_peer(server));
    client = hg_test_spawn("client", client_uid, client_policy, string, NULL);
    line = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(line, NA_Error_to_string(want));
    free(line);
    line = hg_test_read_peer(client);
    (void) snprintf(text, sizeof(text),
        "NA_Addr_lookup_wait: %s cannot be reached: process %ld of user %s "
        "listens there: %s; auth_key of each side must allow the other's user "
        "(here %s)",
        string, (long) hg_test_peer_pid(server), uid, why, client_uid);
    HG_CHECK_EQ_STR(line, why != NULL ? text : "a peer");
    free(line);
    hg_test_stop(client);
    hg_test_stop(server);
}

HG_TEST_SECONDS(another_user_is_refused_unless_allowed, 60)
{
    static const char here[] = "auth_key does not allow it";
    static const char there[] = "it does not allow this process";
    char other[16], uid[16];

    if (geteuid() != 0)
        hg_test_skip("only root can act as two users");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    (void) snprintf(other, sizeof(other), "%d", UNTRUSTED_OTHER);
    untrusted_meet("", uid, "", NULL);
    untrusted_meet("", other, "", here); /* the dialing side refuses */
    untrusted_meet("", other, "any-user", there);
    untrusted_meet("any-user", other, "", here);
    untrusted_meet("any-user", other, "any-user", NULL);
    untrusted_meet(other, other, uid, NULL);
    untrusted_meet("1,2,65532", other, uid, NULL);
    untrusted_meet("1,2,3", other, uid, there);
}

/* A class that does not listen, and has bound memory, asks who connects, as a
 * listener does. */
HG_TEST(client_with_bound_memory_refuses_another_user)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char name[NA_MAX_ADDR_LEN], uid[16];
    size_t size = sizeof(name);
    struct hg_test_peer *client;
    struct conform_end end;
    void *memory = name;
    hg_bulk_t bulk;
    char *line;

    if (geteuid() != 0)
        hg_test_skip("only root can act as two users");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    info.progress_thread = NA_TRUE;
    endpoint_open_info(&end, "sm://", NA_FALSE, &info);
    endpoint_name(&end, end.self, name);
    HG_CHECK_OK(HG_Init(end.na_class));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(HG_Bulk_handle_bind(bulk));
    client = hg_test_spawn("client", uid, "any-user", name, NULL);
    line = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(line, NA_Error_to_string(NA_PERMISSION));
    free(line);
    line = hg_test_read_peer(client);
    HG_CHECK(strstr(line, ": it does not allow this process") != NULL);
    free(line);
    hg_test_stop(client);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_OK(HG_Finalize());
    conform_close(&end);
}

/* Call as a user, and report how many descriptors the peer took. */
HG_TEST_ROLE(counter)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned before;
    char got[8], took[16];

    HG_CHECK_EQ_INT(argc, 2);
    if (argv[0][0] != '\0')
        untrusted_become(argv[0]);
    untrusted_open(&end, "sm://", "any-user");
    before = hg_test_fd_count();
    HG_CHECK_OK(endpoint_lookup(&end, argv[1], &addr));
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    (void) snprintf(took, sizeof(took), "%u", hg_test_fd_count() - before);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    hg_test_write_parent(took);
    free(hg_test_read_parent());
    conform_close(&end);
}

/* Processes of one user exchange wakeup descriptors. Another user could make
 * the ringing side block with one, so none is given to it or taken from it. */
HG_TEST(only_the_same_user_gets_the_wakeup_descriptor)
{
    struct hg_test_peer *server, *client;
    char string[64], uid[16], other[16];
    char *line;

    if (geteuid() != 0)
        hg_test_skip("only root can act as two users");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    (void) snprintf(other, sizeof(other), "%d", UNTRUSTED_OTHER);
    untrusted_name(string);
    server = hg_test_spawn("server", uid, "any-user", string, NULL);
    free(hg_test_read_peer(server));
    client = hg_test_spawn("counter", uid, string, NULL);
    line = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(line, "2"); /* the socket and the wakeup descriptor */
    free(line);
    hg_test_stop(client);
    client = hg_test_spawn("counter", other, string, NULL);
    line = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(line, "1");
    free(line);
    hg_test_stop(client);
    hg_test_stop(server);
}

/* An address belongs to one user, also when it is dialed again. */
HG_TEST(address_stays_bound_to_one_user)
{
    struct conform_end end;
    struct conform_call term;
    struct hg_test_peer *server;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], user[16], got[8];
    unsigned round;

    if (geteuid() != 0)
        hg_test_skip("only root can act as two users");
    hg_test_expect_log(" of user 65532 now");
    untrusted_name(string);
    untrusted_open(&end, "sm://", "any-user");
    for (round = 0; round < 3; round++) {
        (void) snprintf(user, sizeof(user), "%d",
            round < 2 ? UNTRUSTED_UID : UNTRUSTED_OTHER);
        server = hg_test_spawn("server", user, "any-user", string, NULL);
        free(hg_test_read_peer(server));
        if (addr == NA_ADDR_NULL)
            HG_CHECK_OK(endpoint_lookup(&end, string, &addr));
        HG_CHECK_RET(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL),
            round < 2 ? NA_SUCCESS : NA_DISCONNECT);
        if (round < 2) {
            memset(&term, 0, sizeof(term));
            HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context,
                conform_ended, &term, addr, NA_OP_ID_IGNORE));
            HG_CHECK_OK(conform_wait(&end, &term));
        }
        hg_test_stop(server);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

#define UNTRUSTED_FLOOD 20u /* log lines: for the 1st, 2nd, 4th, 8th, 16th */
#define UNTRUSTED_LINES 5u

/* Connect again and again, as another user. */
HG_TEST_ROLE(flooder)
{
    unsigned i;

    HG_CHECK_EQ_INT(argc, 2);
    untrusted_become(argv[0]);
    for (i = 0; i < UNTRUSTED_FLOOD; i++)
        (void) close(sm_connect(argv[1]));
}

/* Many untrusted connections cause few lines in the log. */
HG_TEST(untrusted_peers_cannot_fill_the_log)
{
    struct conform_end server;
    struct hg_test_peer *flooder;
    char string[64], uid[16];

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    hg_test_expect_log("auth_key does not allow it");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    untrusted_name(string);
    endpoint_open(&server, string, 1000);
    flooder = hg_test_spawn("flooder", uid, string, NULL);
    while (NA_Get_counter(server.na_class, "sm_refused") < UNTRUSTED_FLOOD)
        (void) conform_turn(server.na_class, server.context, 1);
    HG_CHECK_EQ_INT(
        hg_test_log_count("auth_key does not allow it"), UNTRUSTED_LINES);
    hg_test_stop(flooder);
    conform_close(&server);
}

/* In a user namespace without mappings, the overflow uid stands for the caller,
 * for us and for all other users. */
HG_TEST_ROLE(unmapped)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    if (unshare(CLONE_NEWUSER) != 0) {
        hg_test_write_parent("alone");
        return;
    }
    untrusted_open(&end, "sm://", "");
    hg_test_write_parent(
        NA_Error_to_string(endpoint_lookup(&end, argv[0], &addr)));
    free(hg_test_read_parent());
    conform_close(&end);
}

HG_TEST(overflow_uid_is_refused)
{
    struct hg_test_peer *server, *client;
    char string[64], uid[16];
    char *line;

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    untrusted_name(string);
    server = hg_test_spawn("server", uid, "any-user", string, NULL);
    free(hg_test_read_peer(server));
    client = hg_test_spawn("unmapped", string, NULL);
    line = hg_test_read_peer(client);
    if (strcmp(line, "alone") != 0)
        HG_CHECK_EQ_STR(line, NA_Error_to_string(NA_PERMISSION));
    free(line);
    hg_test_stop(client);
    hg_test_stop(server);
}

/* A refusal by file permissions is reported as such. */
HG_TEST(inaccessible_directory_is_reported)
{
    struct hg_test_peer *client;
    struct conform_end server;
    char string[200], folder[180], uid[16];
    char *line;

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    (void) snprintf(folder, sizeof(folder), "%.150s/closed", hg_test_dir());
    HG_CHECK(mkdir(folder, 0700) == 0);
    (void) snprintf(string, sizeof(string), "sm://%s/x", folder);
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    endpoint_open(&server, string, 1000);
    client = hg_test_spawn("client", uid, "", string, NULL);
    line = hg_test_read_peer(client);
    HG_CHECK_EQ_STR(line, NA_Error_to_string(NA_ACCESS));
    free(line);
    line = hg_test_read_peer(client);
    HG_CHECK(strstr(line, "x cannot be reached: Permission denied") != NULL);
    free(line);
    hg_test_stop(client);
    conform_close(&server);
}

HG_TEST(unreadable_policy_fails_the_open)
{
    static const char *const bad[] = {"any", "1,", ",1", "-1", "1 2", "1,x",
        "99999999999999999999", "0x10", "1;2",
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;
    struct na_init_info info = fresh;
    size_t i;

    hg_test_expect_log("neither \"any-user\"");
    hg_test_allow_log("cannot open");
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        info.auth_key = bad[i];
        HG_CHECK(NA_Initialize_opt("sm://", NA_FALSE, &info) == NULL);
    }
}

/* ---- Wrong HELLOs ---- */

/* The longest name there can be. */
#define UNTRUSTED_TENS "0123456789"
#define UNTRUSTED_HUNDRED \
    UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS \
        UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS \
            UNTRUSTED_TENS
#define UNTRUSTED_LONG \
    "sm://" UNTRUSTED_HUNDRED UNTRUSTED_HUNDRED UNTRUSTED_TENS UNTRUSTED_TENS \
        UNTRUSTED_TENS UNTRUSTED_TENS UNTRUSTED_TENS

/* Send a HELLO, and read the answer. */
static void untrusted_greet(struct conform_end *server, const char *name,
    const struct sm_packet *how, char answer_p[64], ssize_t *got_p)
{
    unsigned char bytes[SM_PACKET_MAX];
    int fds[SM_FDS_MAX];
    int fd = sm_connect(name);
    unsigned count = sm_make_fds(how, SM_HELLO, fds);
    unsigned i;

    sm_send(fd, bytes, sm_bytes(how, SM_HELLO, bytes), fds, count);
    for (i = 0; i < 100; i++) {
        (void) conform_turn(server->na_class, server->context, 1);
        *got_p = recv(fd, answer_p, 64, MSG_DONTWAIT);
        if (*got_p >= 0)
            break;
    }
    (void) close(fd);
    for (i = 0; i < count; i++)
        (void) close(fds[i]);
    for (i = 0; i < 3; i++)
        (void) conform_turn(server->na_class, server->context, 1);
}

/* A client of ours is served, whatever happened before. */
static void untrusted_serve(struct conform_end *server, const char *name)
{
    struct conform_end client;
    struct conform_call send, recv;
    na_addr_t addr = NA_ADDR_NULL;
    char got[8];

    endpoint_open(&client, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&client, server, name, &addr));
    HG_CHECK_OK(conform_recv(server, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &send, "good", 5, addr, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(sm_wait(&client, server, &recv));
    HG_CHECK_EQ_STR(got, "good");
    HG_CHECK_OK(sm_wait(&client, server, &send));
    conform_free_addr(server, &recv);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_idle(server);
}

static const struct sm_packet untrusted_wrong[] = {
    {.at = 1, .value = 'X'}, /* magic */
    {.at = 4, .value = 1},   /* version */
    {.at = 6, .value = SM_WELCOME},
    {.at = 8, .value = 0},  /* an incarnation of 0 */
    {.at = 18, .value = 1}, /* a slot past the page */
    {.name = "\x1f"},
    {.name = "ab\x7f"},
    {.name = UNTRUSTED_LONG "a"}, /* one byte too long */
    {.longer = -1},
    {.longer = -33},
    {.longer = 6},
    {.more = -3}, /* no memory */
    {.more = -1},
    {.more = 5},
    {.missing = SM_SEALED},
    {.missing = F_SEAL_SHRINK},
    {.missing = F_SEAL_GROW, .only = 1},
    {.missing = F_SEAL_GROW, .only = 2},
    {.missing = F_SEAL_GROW, .only = 3},
    {.missing = F_SEAL_SHRINK, .only = 1},
    {.missing = F_SEAL_SHRINK, .only = 2},
    {.missing = F_SEAL_SHRINK, .only = 3},
    {.grow = -4096},
    {.grow = 4096},
    {.grow = -4096, .only = 1},
    {.grow = 4096, .only = 2},
    {.grow = -4096, .only = 3},
    {.seal = F_SEAL_WRITE, .only = 2}, /* it cannot be written */
    {.read_only = true, .only = 2},
    {.seal = F_SEAL_WRITE, .only = 3},
    /* a descriptor that is no wakeup descriptor, or blocks the process that
     * rings it */
    {.bell = SM_BELL_BLOCKING},
    {.bell = SM_BELL_SOCKET},
    {.bell = SM_BELL_FILE},
    {.more = -1, .bell = SM_BELL_GOOD},
    {.bell = SM_BELL_GOOD, .after = 1},
    /* last; left out where the system has no huge pages */
    {.huge = true, .only = 1},
};

HG_TEST(malformed_hello_is_refused)
{
    static const struct sm_packet longest = {.name = UNTRUSTED_LONG};
    static const struct sm_packet empty = {.longer = -SM_PACKET_SIZE};
    struct sm_packet good = {.at = 0}, own = {.at = 0};
    size_t count = sizeof(untrusted_wrong) / sizeof(untrusted_wrong[0]) -
        !sm_has_huge_pages();
    struct conform_end server;
    char string[64], answer[64];
    unsigned fds, maps;
    ssize_t got;
    size_t i;

    hg_test_allow_log("has version 1 of the protocol, not 6");
    hg_test_allow_log("another size or is unsealed");
    untrusted_name(string);
    endpoint_open(&server, string, 1000);
    untrusted_serve(&server, string);
    conform_idle(&server);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < count; i++) {
        untrusted_greet(&server, string, &untrusted_wrong[i], answer, &got);
        if (i == 0) /* without the magic number no version is read */
            HG_CHECK_EQ_INT(
                hg_test_log_count("another size or is unsealed"), 1);
        /* REFUSE with a protocol error; the connection leaves nothing. */
        HG_CHECK_EQ_INT(answer[20], NA_PROTOCOL_ERROR);
        HG_CHECK(got == (ssize_t) sizeof(answer) && answer[6] == 3);
        HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_refused"), i + 1);
        sm_settle(&server, fds, maps);
        HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_met"), 1);
    }
    /* It claims to be the server. */
    memcpy(&own.incarnation, answer + 8, 8);
    untrusted_greet(&server, string, &own, answer, &got);
    HG_CHECK_EQ_INT(answer[20], NA_HOSTUNREACH);
    HG_CHECK(got == (ssize_t) sizeof(answer) && answer[6] == 3);
    sm_settle(&server, fds, maps);
    /* An empty packet looks like the end of the stream, but has descriptors. */
    untrusted_greet(&server, string, &empty, answer, &got);
    HG_CHECK_EQ_INT(got, 0);
    sm_settle(&server, fds, maps);
    /* Without the mistake the packet is accepted. */
    untrusted_greet(&server, string, &good, answer, &got);
    HG_CHECK(got == (ssize_t) sizeof(answer) && answer[6] == 2);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_met"), 2);
    good.bell = SM_BELL_GOOD;
    untrusted_greet(&server, string, &good, answer, &got);
    HG_CHECK(got == (ssize_t) sizeof(answer) && answer[6] == 2);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_met"), 3);
    untrusted_greet(&server, string, &longest, answer, &got);
    HG_CHECK(got == (ssize_t) sizeof(answer) && answer[6] == 2);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_met"), 4);
    untrusted_serve(&server, string);
    sm_settle(&server, fds, maps);
    conform_close(&server);
}

/* Send HELLO with a wakeup descriptor, as another user, and report how many
 * descriptors the answer carries. */
HG_TEST_ROLE(other_user)
{
    unsigned char bytes[SM_PACKET_SIZE];
    char answer[64], control[256], count[32];
    struct iovec part = {answer, sizeof(answer)};
    struct msghdr message;
    struct cmsghdr *header;
    struct pollfd socket;
    int fds[4];
    unsigned i;

    HG_CHECK_EQ_INT(argc, 2);
    untrusted_become(argv[0]);
    memset(bytes, 0, sizeof(bytes));
    sm_head(bytes, SM_HELLO, 99);
    bytes[7] = SM_FDS_HELLO | SM_FDS_BELL;
    for (i = 0; i < 3; i++)
        fds[i] = sm_memory(sm_sizes[i], SM_SEALED, false);
    fds[3] = sm_bell(SM_BELL_GOOD);
    socket.fd = sm_connect(argv[1]);
    socket.events = POLLIN;
    sm_send(socket.fd, bytes, sizeof(bytes), fds, 4);
    HG_CHECK_EQ_INT(poll(&socket, 1, (int) CONFORM_TIMEOUT), 1);
    memset(&message, 0, sizeof(message));
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    HG_CHECK_EQ_INT(recvmsg(socket.fd, &message, MSG_CMSG_CLOEXEC),
        sizeof(answer));           /* and more */
    HG_CHECK_EQ_INT(answer[6], 2); /* WELCOME */
    header = CMSG_FIRSTHDR(&message);
    HG_CHECK(header != NULL);
    (void) snprintf(count, sizeof(count), "%zu",
        (size_t) (header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    hg_test_write_parent(count);
    free(hg_test_read_parent());
}

HG_TEST(wakeup_descriptor_of_another_user_is_refused)
{
    struct hg_test_peer *other_user;
    struct conform_end server;
    char string[64], uid[16];
    unsigned fds;
    char *line;

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    (void) snprintf(uid, sizeof(uid), "%d", UNTRUSTED_UID);
    untrusted_name(string);
    untrusted_open(&server, string, "any-user");
    other_user = hg_test_spawn("other_user", uid, string, NULL);
    fds = hg_test_fd_count();
    while (NA_Get_counter(server.na_class, "sm_met") == 0)
        (void) conform_turn(server.na_class, server.context, 1);
    HG_CHECK_EQ_U64(hg_test_fd_count(), fds + 1); /* the socket */
    line = hg_test_read_peer(other_user);
    HG_CHECK_EQ_STR(line, "4"); /* the two pages, and no wakeup descriptor */
    free(line);
    hg_test_stop(other_user);
    conform_close(&server);
}

HG_TEST(malformed_hellos_cannot_fill_the_log)
{
    static const struct sm_packet bad = {.longer = -1};
    static const struct sm_packet old = {.at = 4, .value = 1};
    struct conform_end server;
    char string[64], answer[64];
    ssize_t got;
    unsigned i;

    hg_test_expect_log("is refused: it is not hg");
    hg_test_expect_log("has version 1 of the protocol, not 6");
    untrusted_name(string);
    endpoint_open(&server, string, 1000);
    for (i = 1; i <= UNTRUSTED_FLOOD; i++)
        untrusted_greet(&server, string, i < 16 ? &bad : &old, answer, &got);
    HG_CHECK_EQ_INT(
        hg_test_log_count("is refused: it is not hg"), UNTRUSTED_LINES - 1);
    HG_CHECK_EQ_INT(
        hg_test_log_count("has version 1 of the protocol, not 6"), 3);
    conform_close(&server);
}

HG_TEST(random_hellos_are_harmless)
{
    struct conform_end server;
    uint64_t random = hg_test_seed();
    char string[64];
    unsigned fds, maps, i, k;

    hg_test_allow_log("");
    untrusted_name(string);
    endpoint_open(&server, string, 1000);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < 300; i++) {
        unsigned char bytes[400];
        int fd = sm_connect(string);
        int files[8];
        uint64_t pick = hg_test_random(&random);
        unsigned count = (unsigned) (pick % 9);
        size_t size = (size_t) (hg_test_random(&random) % sizeof(bytes));

        for (k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char) hg_test_random(&random);
        if (pick & 16) {
            sm_head(bytes, SM_HELLO, pick);
            bytes[hg_test_random(&random) % SM_PACKET_HEAD] ^=
                (unsigned char) (1u << (pick >> 8) % 8);
            bytes[SM_PACKET_HEAD] = 0; /* no name */
            size = pick & 32 ? SM_PACKET_SIZE : size;
        }
        for (k = 0; k < count; k++)
            files[k] = open("/dev/zero", O_RDWR | O_CLOEXEC);
        sm_send(fd, bytes, size, files, count);
        if (pick & 64)
            (void) conform_turn(server.na_class, server.context, 0);
        (void) close(fd);
        for (k = 0; k < count; k++)
            (void) close(files[k]);
    }
    untrusted_serve(&server, string);
    sm_settle(&server, fds, maps);
    HG_CHECK(NA_Get_counter(server.na_class, "sm_refused") > 100);
    conform_close(&server);
}

/* More than may be connected at once, one after the other. */
HG_TEST(callers_that_hang_up_release_their_slot)
{
    struct conform_end server;
    char string[64];
    unsigned fds, maps, i;

    untrusted_name(string);
    endpoint_open(&server, string, 1000);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < 1100; i++) {
        (void) close(sm_connect(string));
        (void) conform_turn(server.na_class, server.context, 0);
    }
    untrusted_serve(&server, string);
    sm_settle(&server, fds, maps);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "sm_refused"), 0);
    conform_close(&server);
}

/* ---- No descriptors left ---- */

/* Listen with such a low limit that the first caller is one too many. */
HG_TEST_ROLE(few_descriptors)
{
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    struct conform_end end;
    struct rlimit limit;
    int highest;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_expect_log("the limit nofile is");
    endpoint_open(&end, argv[0], 1000);
    highest = dup(0);
    HG_CHECK(highest >= 0 && close(highest) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t) highest + strtoul(argv[1], NULL, 10);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    hg_test_write_parent("open");
    while (poll(&channel, 1, 0) == 0)
        (void) conform_turn(end.na_class, end.context, 10);
    conform_close(&end);
}

static void untrusted_poor(const char *spare)
{
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64];

    untrusted_name(string);
    process = hg_test_spawn("few_descriptors", string, spare, NULL);
    free(hg_test_read_peer(process));
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_RET(endpoint_lookup(&end, string, &addr), NA_AGAIN);
    conform_close(&end);
    hg_test_stop(process);
}

HG_TEST(missing_descriptors_are_reported)
{
    hg_test_expect_log("its limit of peers or descriptors is reached");
    untrusted_poor("0"); /* for the socket */
    untrusted_poor("1"); /* for the memory that arrived */
    untrusted_poor("3");
}

HG_TEST(low_descriptor_limit_is_reported)
{
    struct conform_end end;
    struct rlimit limit, low;
    na_addr_t addr = NA_ADDR_NULL;
    int highest;

    hg_test_expect_log("the limit nofile is");
    hg_test_allow_log("cannot open");
    endpoint_open(&end, "sm://", 1000);
    highest = dup(0);
    HG_CHECK(highest >= 0 && close(highest) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = (rlim_t) highest;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    HG_CHECK_RET(endpoint_lookup(&end, "sm://nobody", &addr), NA_AGAIN);
    HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, "sm://nobody", 1000, &addr),
        NA_AGAIN);
    HG_CHECK_RET(HG_Init(end.na_class), HG_AGAIN);
    HG_CHECK(NA_Initialize("sm://", NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("the limit nofile is"), 4);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    conform_close(&end);
}

/* Shared memory counts against the file size limit; exceeding it would raise a
 * signal. */
HG_TEST(file_size_limit_kills_no_process)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end server, end;
    struct rlimit limit, low;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    hg_test_expect_log("File too large");
    hg_test_allow_log("cannot open");
    endpoint_open_info(&server, "sm://", NA_TRUE, &info);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(
        NA_Addr_to_string(server.na_class, name, sizeof(name), server.self));
    HG_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    low = limit;
    low.rlim_cur = 100000;
    HG_CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
    HG_CHECK_RET(endpoint_lookup(&end, name, &addr), NA_IO_ERROR);
    HG_CHECK(NA_Initialize("sm://", NA_TRUE) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("File too large"), 2);
    HG_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    conform_close(&end);
    conform_close(&server);
}
