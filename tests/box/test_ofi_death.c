/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport with peers that die, stop, are busy or never existed,
 * on the native tcp provider, on tcp;ofi_rxm and on shm.
 */
#include "endpoints.h"

static const char *const death_schemes[] = {
    "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+shm"};
enum { DEATH_SCHEMES = 3, DEATH_TCP = 0, DEATH_MS = 1000 };

HG_TEST_ROLE(peer)
{
    HG_CHECK_EQ_INT(argc, 2);
    endpoint_serve(argv[0], (unsigned) strtoul(argv[1], NULL, 10));
}

/* An address for a server, never the same twice. */
static void death_string(unsigned scheme, char *string, size_t size)
{
    static unsigned count;

    if (strcmp(death_schemes[scheme], "ofi+shm") == 0)
        (void) snprintf(string, size, "ofi+shm://hg-death-%ld-%u",
            (long) getpid(), ++count);
    else
        (void) snprintf(
            string, size, "%s://127.0.0.1:0", death_schemes[scheme]);
}

/* Our endpoint, which does not listen, and a process that it looked up. */
struct death_pair {
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr;
    char name[NA_MAX_ADDR_LEN];
};

static void death_open_end(
    struct conform_end *end, unsigned scheme, unsigned death_ms)
{
    char string[64];

    (void) snprintf(string, sizeof(string), "%s://", death_schemes[scheme]);
    endpoint_open_with(end, string, death_ms, 1000);
}

/* Start a server at `string`; returns its name. */
static struct hg_test_peer *death_spawn(
    const char *string, const char *death_ms, char name[NA_MAX_ADDR_LEN])
{
    struct hg_test_peer *process =
        hg_test_spawn("peer", string, death_ms, (char *) NULL);
    char *line = hg_test_read_peer(process);

    (void) snprintf(name, NA_MAX_ADDR_LEN, "%s", line);
    free(line);
    return process;
}

static void death_open(struct death_pair *pair, unsigned scheme,
    unsigned death_ms, const char *their_death_ms)
{
    char string[64];

    death_open_end(&pair->end, scheme, death_ms);
    death_string(scheme, string, sizeof(string));
    pair->process = death_spawn(string, their_death_ms, pair->name);
    HG_CHECK_OK(endpoint_lookup(&pair->end, pair->name, &pair->addr));
}

/* The file of a server that was killed stays: libfabric's shm removes it when
 * the endpoint is closed. */
static void death_close(struct death_pair *pair)
{
    static const char shm[] = "ofi+shm://";
    char path[16 + NA_MAX_ADDR_LEN];

    (void) snprintf(
        path, sizeof(path), "/dev/shm/%s", pair->name + sizeof(shm) - 1);
    if (strncmp(pair->name, shm, sizeof(shm) - 1) == 0)
        (void) unlink(path);
    HG_CHECK_OK(NA_Addr_free(pair->end.na_class, pair->addr));
    conform_close(&pair->end);
}

static void death_kill(struct death_pair *pair)
{
    hg_test_signal(pair->process, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(pair->process)));
}

/* ---- No listener ---- */

HG_TEST(address_without_a_listener_is_unreachable)
{
    static const char *const names[] = {"ofi+tcp://127.0.0.1:2",
        "ofi+tcp;ofi_rxm://127.0.0.1:2", "ofi+shm://hg-death-nobody"};
    enum { LOOKUP_MS = 300 };
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64];
    unsigned i;

    hg_test_expect_log("cannot be reached");
    for (i = 0; i < DEATH_SCHEMES; i++) {
        uint64_t start = endpoint_ms();

        (void) snprintf(string, sizeof(string), "%s://", death_schemes[i]);
        endpoint_open_with(&end, string, DEATH_MS, LOOKUP_MS);
        HG_CHECK_RET(endpoint_lookup(&end, names[i], &addr), NA_HOSTUNREACH);
        HG_CHECK(endpoint_ms() - start < 20 * LOOKUP_MS);
        HG_CHECK_RET(endpoint_lookup(&end, names[i], &addr), NA_HOSTUNREACH);
        conform_close(&end);
    }
    HG_CHECK(addr == NA_ADDR_NULL);
}

/* An address that was unreachable is looked up again by its next use. */
HG_TEST(server_that_starts_later_is_reached)
{
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN], again[NA_MAX_ADDR_LEN], got[8];

    hg_test_expect_log("cannot be reached");
    /* A port that was in use before. */
    process = death_spawn("ofi+tcp://127.0.0.1:0", "1000", name);
    hg_test_stop(process);
    endpoint_open_with(&end, "ofi+tcp://", DEATH_MS, 300);
    HG_CHECK_RET(endpoint_lookup(&end, name, &addr), NA_HOSTUNREACH);
    process = death_spawn(name, "1000", again);
    HG_CHECK_EQ_STR(again, name);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    hg_test_stop(process);
    conform_close(&end);
}

/* ---- Killed ---- */

static void death_idle(unsigned scheme)
{
    struct death_pair pair;
    struct conform_call recv, lookup;
    char got[8];
    uint64_t start;

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    HG_CHECK_OK(
        endpoint_post(&pair.end, &recv, got, sizeof(got), pair.addr, 1));
    start = endpoint_ms();
    death_kill(&pair);
    HG_CHECK_RET(conform_wait(&pair.end, &recv), NA_DISCONNECT);
    HG_CHECK(endpoint_ms() - start < 20 * DEATH_MS);
    HG_CHECK_RET(
        endpoint_send(&pair.end, pair.addr, false, "x", 1, 1), NA_DISCONNECT);
    HG_CHECK_RET(
        endpoint_post(&pair.end, &recv, got, sizeof(got), pair.addr, 1),
        NA_DISCONNECT);
    memset(&lookup, 0, sizeof(lookup));
    HG_CHECK_OK(NA_Addr_lookup(pair.end.na_class, pair.end.context,
        conform_ended, &lookup, pair.name, &lookup.id));
    HG_CHECK_RET(conform_wait(&pair.end, &lookup), NA_HOSTUNREACH);
    death_close(&pair);
}

HG_TEST(killed_process_is_dead)
{
    death_idle(DEATH_TCP);
}

HG_TEST(killed_process_is_dead_on_rxm)
{
    death_idle(1);
}

HG_TEST(killed_process_is_dead_on_shm)
{
    death_idle(2);
}

/* Messages and their responses are in flight. */
static void death_in_calls(unsigned scheme)
{
    enum { CALLS = 64 };
    struct death_pair pair;
    struct conform_call sends[CALLS], recvs[CALLS];
    char got[CALLS][8];
    unsigned i, lost = 0;

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    for (i = 0; i < CALLS; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(endpoint_post(
            &pair.end, &recvs[i], got[i], sizeof(got[i]), pair.addr, 1000 + i));
        HG_CHECK_OK(NA_Msg_send_unexpected(pair.end.na_class, pair.end.context,
            conform_ended, &sends[i], "?", 2, pair.addr,
            i < CALLS / 2 ? 1000 + i : 1, &sends[i].id));
    }
    HG_CHECK_OK(conform_wait(&pair.end, &recvs[0]));
    death_kill(&pair);
    for (i = 0; i < CALLS; i++) {
        na_return_t ret = conform_wait(&pair.end, &recvs[i]);

        HG_CHECK(ret == NA_SUCCESS || ret == NA_DISCONNECT);
        lost += ret == NA_DISCONNECT;
        ret = conform_wait(&pair.end, &sends[i]);
        HG_CHECK(ret == NA_SUCCESS || ret == NA_DISCONNECT);
    }
    HG_CHECK(lost >= CALLS / 2);
    death_close(&pair);
}

HG_TEST(calls_to_a_killed_process_end)
{
    death_in_calls(DEATH_TCP);
}

HG_TEST(calls_to_a_killed_process_end_on_rxm)
{
    death_in_calls(1);
}

HG_TEST(calls_to_a_killed_process_end_on_shm)
{
    death_in_calls(2);
}

static void death_in_transfer(unsigned scheme, bool put)
{
    struct death_pair pair;
    struct conform_call call;
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, pair.addr);
    memset(&call, 0, sizeof(call));
    hg_test_signal(pair.process, SIGSTOP); /* so that it cannot complete */
    HG_CHECK_OK((put ? NA_Put : NA_Get)(pair.end.na_class, pair.end.context,
        conform_ended, &call, local, 0, remote, 0, ENDPOINT_MEMORY, pair.addr,
        &call.id));
    (void) conform_turn(pair.end.na_class, pair.end.context, 0);
    death_kill(&pair);
    HG_CHECK_RET(conform_wait(&pair.end, &call), NA_DISCONNECT);
    HG_CHECK_RET(
        endpoint_send(&pair.end, pair.addr, false, "x", 1, 1), NA_DISCONNECT);
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    death_close(&pair);
}

HG_TEST(get_from_a_killed_process_ends)
{
    death_in_transfer(DEATH_TCP, false);
    death_in_transfer(1, false);
}

HG_TEST(put_to_a_killed_process_ends)
{
    death_in_transfer(DEATH_TCP, true);
    death_in_transfer(1, true);
}

/* Sends its largest messages to the peer that writes to it, until it is
 * killed. */
HG_TEST_ROLE(flood)
{
    static char bytes[65536];
    struct conform_end end;
    struct conform_call recv;
    na_size_t size;
    char name[NA_MAX_ADDR_LEN], got[8];

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    endpoint_open(&end, argv[0], DEATH_MS);
    size = NA_Msg_get_max_expected_size(end.na_class);
    size = size < sizeof(bytes) ? size : sizeof(bytes);
    endpoint_name(&end, end.self, name);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    hg_test_write_parent(name);
    HG_CHECK_OK(conform_wait(&end, &recv));
    for (;;)
        (void) endpoint_send(&end, recv.addr, true, bytes, size, 9);
}

/* A message breaks off: the receive buffers stay usable for other peers. */
static void death_in_message(unsigned scheme)
{
    struct death_pair pair;
    char string[64], name[NA_MAX_ADDR_LEN], got[8];
    unsigned round;

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    death_string(scheme, string, sizeof(string));
    for (round = 0; round < 8; round++) {
        static char bytes[65536];
        struct hg_test_peer *flood =
            hg_test_spawn("flood", string, (char *) NULL);
        struct conform_call recv;
        na_addr_t addr = NA_ADDR_NULL;
        char *line = hg_test_read_peer(flood);
        unsigned i;

        (void) snprintf(name, sizeof(name), "%s", line);
        free(line);
        HG_CHECK_OK(endpoint_lookup(&pair.end, name, &addr));
        HG_CHECK_OK(endpoint_send(&pair.end, addr, false, "go", 3, 1));
        for (i = 0; i < 20 + round; i++) {
            HG_CHECK_OK(
                endpoint_post(&pair.end, &recv, bytes, sizeof(bytes), addr, 9));
            HG_CHECK_OK(conform_wait(&pair.end, &recv));
        }
        HG_CHECK_OK(
            endpoint_post(&pair.end, &recv, bytes, sizeof(bytes), addr, 8));
        hg_test_signal(flood, SIGKILL);
        HG_CHECK(WIFSIGNALED(hg_test_wait(flood)));
        HG_CHECK_RET(conform_wait(&pair.end, &recv), NA_DISCONNECT);
        HG_CHECK_OK(NA_Addr_free(pair.end.na_class, addr));
        HG_CHECK_OK(
            endpoint_ask(&pair.end, pair.addr, 1, got, sizeof(got), NULL));
    }
    hg_test_stop(pair.process);
    death_close(&pair);
}

HG_TEST(process_killed_while_it_sends_affects_no_other)
{
    death_in_message(DEATH_TCP);
}

HG_TEST(process_killed_while_it_sends_affects_no_other_on_rxm)
{
    death_in_message(1);
}

HG_TEST(process_killed_while_it_sends_affects_no_other_on_shm)
{
    death_in_message(2);
}

/* ---- Restarted at the same address ---- */

static void death_restart(unsigned scheme, bool at_once)
{
    struct death_pair pair;
    struct conform_call dead;
    na_addr_t again = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN], got[8], late[8];

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    HG_CHECK_OK(endpoint_ask(&pair.end, pair.addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(
        endpoint_post(&pair.end, &dead, late, sizeof(late), pair.addr, 1000));
    death_kill(&pair);
    if (!at_once)
        HG_CHECK_RET(conform_wait(&pair.end, &dead), NA_DISCONNECT);
    pair.process = death_spawn(pair.name, "1000", name);
    HG_CHECK_EQ_STR(name, pair.name);
    /* A response would come from the new process. */
    (void) NA_Msg_send_unexpected(pair.end.na_class, pair.end.context, NULL,
        NULL, "?", 2, pair.addr, 1000, NA_OP_ID_IGNORE);
    HG_CHECK_RET(conform_wait(&pair.end, &dead), NA_DISCONNECT);
    HG_CHECK_OK(endpoint_lookup(&pair.end, pair.name, &again));
    HG_CHECK(again != pair.addr);
    HG_CHECK(NA_Addr_cmp(pair.end.na_class, again, pair.addr) == NA_FALSE);
    HG_CHECK_OK(endpoint_ask(&pair.end, again, 1, got, sizeof(got), NULL));
    HG_CHECK_RET(endpoint_ask(&pair.end, pair.addr, 1, got, sizeof(got), NULL),
        NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(pair.end.na_class, again));
    hg_test_stop(pair.process);
    death_close(&pair);
}

HG_TEST(restarted_server_is_another_peer)
{
    death_restart(DEATH_TCP, false);
    death_restart(1, false);
}

HG_TEST(server_restarted_at_once_is_another_peer)
{
    death_restart(DEATH_TCP, true);
}

HG_TEST(server_restarted_at_once_is_another_peer_on_rxm)
{
    death_restart(1, true);
}

HG_TEST(server_restarted_at_once_is_another_peer_on_shm)
{
    death_restart(2, true);
}

/* ---- One of two peers ---- */

static void death_of_another(unsigned scheme)
{
    struct death_pair pair;
    struct hg_test_peer *other;
    struct conform_call move, lost, recv;
    na_mem_handle_t local, remote, remote_lost;
    unsigned char *memory = endpoint_map(2 * ENDPOINT_MEMORY);
    unsigned char *want = endpoint_map(ENDPOINT_MEMORY);
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], name[NA_MAX_ADDR_LEN], got[8];

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    death_string(scheme, string, sizeof(string));
    other = death_spawn(string, "1000", name);
    HG_CHECK_OK(endpoint_lookup(&pair.end, name, &addr));
    local = endpoint_register(&pair.end, memory, 2 * ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, addr);
    remote_lost = endpoint_remote(&pair.end, pair.addr);
    HG_CHECK_OK(endpoint_post(&pair.end, &recv, got, sizeof(got), addr, 1));
    memset(&move, 0, sizeof(move));
    memset(&lost, 0, sizeof(lost));
    hg_test_signal(pair.process, SIGSTOP);
    HG_CHECK_OK(NA_Get(pair.end.na_class, pair.end.context, conform_ended,
        &lost, local, ENDPOINT_MEMORY, remote_lost, 0, ENDPOINT_MEMORY,
        pair.addr, &lost.id));
    HG_CHECK_OK(NA_Get(pair.end.na_class, pair.end.context, conform_ended,
        &move, local, 0, remote, 0, ENDPOINT_MEMORY, addr, &move.id));
    (void) conform_turn(pair.end.na_class, pair.end.context, 0);
    death_kill(&pair);
    HG_CHECK_RET(conform_wait(&pair.end, &lost), NA_DISCONNECT);
    HG_CHECK_OK(conform_wait(&pair.end, &move));
    conform_fill(want, ENDPOINT_MEMORY, 7);
    HG_CHECK_EQ_MEM(memory, want, ENDPOINT_MEMORY);
    HG_CHECK_EQ_INT(recv.ends, 0);
    HG_CHECK_OK(endpoint_send(&pair.end, addr, false, "?", 2, 1));
    HG_CHECK_OK(conform_wait(&pair.end, &recv));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote_lost));
    endpoint_unmap(memory, 2 * ENDPOINT_MEMORY);
    endpoint_unmap(want, ENDPOINT_MEMORY);
    HG_CHECK_OK(NA_Addr_free(pair.end.na_class, addr));
    hg_test_stop(other);
    death_close(&pair);
}

HG_TEST(death_of_one_peer_does_not_affect_another)
{
    death_of_another(DEATH_TCP);
    death_of_another(1);
}

/* ---- Stopped ---- */

/* The peer is dead after death_ms. Once continued, it may be looked up
 * again. */
static void death_stopped(unsigned scheme, bool put)
{
    struct death_pair pair;
    struct conform_call recv, move;
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    na_addr_t again = NA_ADDR_NULL;
    char got[8], late[8];
    uint64_t start;

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, pair.addr);
    HG_CHECK_OK(
        endpoint_post(&pair.end, &recv, late, sizeof(late), pair.addr, 1));
    memset(&move, 0, sizeof(move));
    if (put) { /* the connection for puts: the next ones will be in flight */
        HG_CHECK_OK(NA_Put(pair.end.na_class, pair.end.context, conform_ended,
            &move, local, 0, remote, 0, 1, pair.addr, &move.id));
        HG_CHECK_OK(conform_wait(&pair.end, &move));
    }
    hg_test_signal(pair.process, SIGSTOP);
    start = endpoint_ms();
    /* The peer answers this when it continues; the answer must not arrive. */
    HG_CHECK_OK(endpoint_send(&pair.end, pair.addr, false, "?", 2, 1));
    memset(&move, 0, sizeof(move));
    if (put)
        HG_CHECK_OK(NA_Put(pair.end.na_class, pair.end.context, conform_ended,
            &move, local, 0, remote, 0, ENDPOINT_MEMORY, pair.addr, &move.id));
    HG_CHECK_RET(conform_wait(&pair.end, &recv), NA_DISCONNECT);
    HG_CHECK(endpoint_ms() - start < 20 * DEATH_MS);
    if (put)
        HG_CHECK_RET(conform_wait(&pair.end, &move), NA_DISCONNECT);
    hg_test_signal(pair.process, SIGCONT);
    HG_CHECK_OK(endpoint_lookup(&pair.end, pair.name, &again));
    HG_CHECK(again != pair.addr);
    HG_CHECK_OK(endpoint_ask(&pair.end, again, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(pair.end.na_class, again));
    hg_test_stop(pair.process);
    death_close(&pair);
}

HG_TEST(stopped_process_is_dead)
{
    death_stopped(DEATH_TCP, false);
}

HG_TEST(put_to_a_stopped_process_ends)
{
    death_stopped(DEATH_TCP, true);
}

HG_TEST(stopped_process_is_dead_on_rxm)
{
    death_stopped(1, false);
}

HG_TEST(stopped_process_is_dead_on_shm)
{
    death_stopped(2, false);
}

/* Start a get of all its memory, and stop the process halfway. */
static void death_stop_sending(struct death_pair *pair,
    struct conform_call *get, na_mem_handle_t local, na_mem_handle_t remote,
    volatile unsigned char *memory)
{
    unsigned char before = (unsigned char) (memory[0] + 1);

    memset(get, 0, sizeof(*get));
    memory[0] = before;
    HG_CHECK_OK(NA_Get(pair->end.na_class, pair->end.context, conform_ended,
        get, local, 0, remote, 0, ENDPOINT_MEMORY, pair->addr, &get->id));
    while (memory[0] == before)
        (void) conform_turn(pair->end.na_class, pair->end.context, 0);
    hg_test_signal(pair->process, SIGSTOP);
}

/* A partly answered get ends with its peer, and later gets work. */
static void death_half_answered(unsigned scheme)
{
    enum { ROUNDS = 3, GETS = 8 };
    struct death_pair pair;
    struct conform_call gets[GETS];
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    unsigned char *want = endpoint_map(ENDPOINT_MEMORY);
    unsigned round, i;

    hg_test_allow_log("");
    death_open(&pair, scheme, DEATH_MS, "1000");
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    conform_fill(want, ENDPOINT_MEMORY, 7);
    memcpy(memory, want, ENDPOINT_MEMORY);
    for (round = 0; round < ROUNDS; round++) {
        remote = endpoint_remote(&pair.end, pair.addr);
        death_stop_sending(&pair, &gets[0], local, remote, memory);
        HG_CHECK_RET(conform_wait(&pair.end, &gets[0]), NA_DISCONNECT);
        hg_test_signal(pair.process, SIGCONT);
        HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
        HG_CHECK_OK(NA_Addr_free(pair.end.na_class, pair.addr));
        HG_CHECK_OK(endpoint_lookup(&pair.end, pair.name, &pair.addr));
        remote = endpoint_remote(&pair.end, pair.addr);
        memset(memory, 0, ENDPOINT_MEMORY);
        memset(gets, 0, sizeof(gets));
        for (i = 0; i < GETS; i++)
            HG_CHECK_OK(NA_Get(pair.end.na_class, pair.end.context,
                conform_ended, &gets[i], local, i * (ENDPOINT_MEMORY / GETS),
                remote, i * (ENDPOINT_MEMORY / GETS), ENDPOINT_MEMORY / GETS,
                pair.addr, &gets[i].id));
        for (i = 0; i < GETS; i++)
            HG_CHECK_OK(conform_wait(&pair.end, &gets[i]));
        HG_CHECK_EQ_MEM(memory, want, ENDPOINT_MEMORY);
        HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    }
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    endpoint_unmap(want, ENDPOINT_MEMORY);
    hg_test_stop(pair.process);
    death_close(&pair);
}

HG_TEST(partly_answered_get_ends)
{
    death_half_answered(DEATH_TCP);
}

HG_TEST(partly_answered_get_ends_on_rxm)
{
    death_half_answered(1);
}

/* A context can be destroyed although a get of its own does not complete. Other
 * peers notice nothing. */
static void death_abandoned(unsigned scheme)
{
    enum { GIVE_UP_MS = 4000, LONG_MS = 60000 };
    static na_context_t *kept; /* destroyed with an operation: never freed */
    struct death_pair pair;
    struct conform_end other;
    struct hg_test_peer *process;
    struct conform_call get, recv;
    na_mem_handle_t local, remote;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    char string[64], name[NA_MAX_ADDR_LEN], got[8];
    uint64_t start;

    hg_test_allow_log("");
    /* The get that did not complete still refers to the peer's address. */
    hg_test_expect_log("released what was not freed: addresses 1, memory "
                       "handles 0 (first address: none)");
    death_open(&pair, scheme, LONG_MS, "60000");
    other = pair.end;
    other.context = NA_Context_create(pair.end.na_class);
    HG_CHECK(other.context != NULL);
    death_string(scheme, string, sizeof(string));
    process = death_spawn(string, "1000", name);
    HG_CHECK_OK(endpoint_lookup(&other, name, &addr));
    HG_CHECK_OK(endpoint_ask(&other, addr, 1, got, sizeof(got), NULL));
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, pair.addr);
    HG_CHECK_OK(endpoint_post(&other, &recv, got, sizeof(got), pair.addr, 1));
    death_stop_sending(&pair, &get, local, remote, memory);
    kept = pair.end.context;
    start = endpoint_ms();
    HG_CHECK_OK(NA_Context_destroy(pair.end.na_class, kept));
    HG_CHECK(endpoint_ms() - start >= GIVE_UP_MS);
    pair.end.context = other.context;
    HG_CHECK_RET(conform_wait(&other, &recv), NA_DISCONNECT);
    /* Not because it was silent. */
    HG_CHECK(endpoint_ms() - start < LONG_MS / 2);
    HG_CHECK_OK(endpoint_ask(&other, addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(pair.end.na_class, addr));
    hg_test_signal(pair.process, SIGCONT);
    hg_test_stop(pair.process);
    hg_test_stop(process);
    death_close(&pair);
}

HG_TEST(peer_that_blocks_a_context_is_dropped)
{
    death_abandoned(DEATH_TCP);
}

HG_TEST(peer_that_blocks_a_context_is_dropped_on_rxm)
{
    death_abandoned(1);
}

/* For each line "lookup" it looks the address up, for "ask" it asks; it reports
 * the result. */
HG_TEST_ROLE(asker)
{
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *line;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    (void) snprintf(string, sizeof(string), "%.*s",
        (int) (strstr(argv[0], "://") + 3 - argv[0]), argv[0]);
    endpoint_open(&end, string, DEATH_MS);
    while ((line = hg_test_read_parent()) != NULL) {
        na_return_t ret = NA_SUCCESS;

        if (strcmp(line, "lookup") == 0) {
            if (addr != NA_ADDR_NULL)
                HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
            ret = endpoint_lookup(&end, argv[0], &addr);
        } else
            ret = endpoint_ask(&end, addr, 1, got, sizeof(got), NULL);
        free(line);
        hg_test_write_parent(ret == NA_SUCCESS ? "good"
                : ret == NA_DISCONNECT         ? "lost"
                                               : "other");
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* Give the asker a command, and answer it. */
static void death_report(struct hg_test_peer *asker, struct conform_end *end,
    const char *line, const char *want)
{
    struct conform_call recv;
    char got[8];
    char *heard;

    HG_CHECK_OK(conform_recv(end, &recv, false, got, sizeof(got), 0));
    hg_test_write_peer(asker, line);
    if (strcmp(line, "ask") == 0 && strcmp(want, "good") == 0) {
        HG_CHECK_OK(conform_wait(end, &recv));
        HG_CHECK_OK(endpoint_send(end, recv.addr, true, "!", 2, 1));
        conform_free_addr(end, &recv);
    }
    heard = hg_test_read_peer(asker);
    HG_CHECK_EQ_STR(heard, want);
    free(heard);
    if (recv.ends == 0)
        HG_CHECK_OK(NA_Cancel(end->na_class, end->context, recv.id));
    while (recv.ends == 0)
        (void) conform_turn(end->na_class, end->context, 1);
}

/* A client is stopped until it counts as dead. When it continues, it drops the
 * address at which it gets no answer. */
static void death_of_a_client(unsigned scheme)
{
    struct conform_end end;
    struct hg_test_peer *asker;
    struct conform_call recv, dead;
    char string[64], name[NA_MAX_ADDR_LEN], got[8], never[8];
    char *line;

    hg_test_allow_log("");
    death_string(scheme, string, sizeof(string));
    endpoint_open(&end, string, DEATH_MS);
    endpoint_name(&end, end.self, name);
    asker = hg_test_spawn("asker", name, (char *) NULL);
    hg_test_write_peer(asker, "lookup");
    line = hg_test_read_peer(asker); /* the clock thread answers HELLO */
    HG_CHECK_EQ_STR(line, "good");
    free(line);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    hg_test_write_peer(asker, "ask");
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_OK(endpoint_send(&end, recv.addr, true, "!", 2, 1));
    line = hg_test_read_peer(asker);
    HG_CHECK_EQ_STR(line, "good");
    free(line);
    HG_CHECK_OK(endpoint_post(&end, &dead, never, sizeof(never), recv.addr, 3));
    hg_test_signal(asker, SIGSTOP);
    HG_CHECK_RET(conform_wait(&end, &dead), NA_DISCONNECT);
    hg_test_signal(asker, SIGCONT);
    death_report(asker, &end, "ask", "lost");
    death_report(asker, &end, "lookup", "good");
    death_report(asker, &end, "ask", "good");
    hg_test_stop(asker);
    conform_free_addr(&end, &recv);
    conform_close(&end);
}

HG_TEST(stopped_client_finds_itself_disconnected)
{
    death_of_a_client(DEATH_TCP);
}

HG_TEST(stopped_client_finds_itself_disconnected_on_rxm)
{
    death_of_a_client(1);
}

HG_TEST(stopped_client_finds_itself_disconnected_on_shm)
{
    death_of_a_client(2);
}

/* ---- Alive but busy ---- */

/* A busy server still answers keep-alives and lookups and serves its memory; it
 * answers calls afterwards. A busy client does the same. */
static void death_busy(unsigned scheme, unsigned death_ms, const char *theirs)
{
    struct death_pair pair;
    struct conform_end other;
    struct conform_call recv, move;
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    unsigned char *want = endpoint_map(ENDPOINT_MEMORY);
    na_addr_t addr = NA_ADDR_NULL;
    char got[8], line[32];
    unsigned busy_ms = 3 * death_ms + 4000;
    uint64_t start;

    (void) snprintf(line, sizeof(line), "sleep %u", busy_ms);
    death_open(&pair, scheme, death_ms, theirs);
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, pair.addr);
    HG_CHECK_OK(
        endpoint_post(&pair.end, &recv, got, sizeof(got), pair.addr, 1));
    hg_test_write_peer(pair.process, line);
    free(hg_test_read_peer(pair.process));
    start = endpoint_ms();
    HG_CHECK_OK(endpoint_send(&pair.end, pair.addr, false, "?", 2, 1));
    death_open_end(&other, scheme, death_ms);
    HG_CHECK_OK(endpoint_lookup(&other, pair.name, &addr));
    HG_CHECK_OK(NA_Addr_free(other.na_class, addr));
    conform_close(&other);
    memset(&move, 0, sizeof(move));
    HG_CHECK_OK(NA_Get(pair.end.na_class, pair.end.context, conform_ended,
        &move, local, 0, remote, 0, ENDPOINT_MEMORY, pair.addr, &move.id));
    HG_CHECK_OK(conform_wait(&pair.end, &move));
    conform_fill(want, ENDPOINT_MEMORY, 7);
    HG_CHECK_EQ_MEM(memory, want, ENDPOINT_MEMORY);
    HG_CHECK_EQ_INT(recv.ends, 0); /* it is still busy */
    HG_CHECK_OK(conform_wait(&pair.end, &recv));
    HG_CHECK(endpoint_ms() - start > 3 * death_ms);
    endpoint_sleep(3 * death_ms); /* now we are busy */
    HG_CHECK_OK(endpoint_ask(&pair.end, pair.addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(pair.end.na_class, remote));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    endpoint_unmap(want, ENDPOINT_MEMORY);
    hg_test_stop(pair.process);
    death_close(&pair);
}

HG_TEST(busy_process_stays_alive)
{
    death_busy(DEATH_TCP, 500, "500");
}

HG_TEST(busy_process_stays_alive_on_rxm)
{
    death_busy(1, 500, "500");
}

HG_TEST(busy_process_stays_alive_on_shm)
{
    death_busy(2, 500, "500");
}

/* A class with a long death_ms seldom polls an idle endpoint. Its peer waits as
 * long as that. */
HG_TEST(busy_process_stays_alive_for_a_peer_with_a_short_timeout)
{
    death_busy(DEATH_TCP, 100, "8000");
}

/* ---- Closed ---- */

/* A class that closes sends BYE: no peer waits for death_ms. Messages sent
 * before are received. */
static void death_closed(unsigned scheme)
{
    enum { COUNT = 200, LONG_MS = 600000 };
    struct conform_end server, client;
    struct conform_call sends[COUNT], recv, dead;
    char string[64], name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr;
    unsigned i;

    /* The BYE may have arrived by then. */
    hg_test_allow_log("the source is gone");
    death_string(scheme, string, sizeof(string));
    endpoint_open(&server, string, LONG_MS);
    death_open_end(&client, scheme, LONG_MS);
    endpoint_name(&server, server.self, name);
    addr = endpoint_lookup_both(&client, &server, name);
    for (i = 0; i < COUNT; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
            conform_ended, &sends[i], "x", 1, addr, i, &sends[i].id));
    }
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &sends[i]));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&server, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        if (i + 1 < COUNT)
            conform_free_addr(&server, &recv);
    }
    memset(&dead, 0, sizeof(dead));
    if (endpoint_post(&server, &dead, got, sizeof(got), recv.addr, 1) ==
        NA_SUCCESS)
        HG_CHECK_RET(conform_wait(&server, &dead), NA_DISCONNECT);
    conform_free_addr(&server, &recv);
    /* As above, with the server closing. */
    death_open_end(&client, scheme, LONG_MS);
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(endpoint_post(&client, &dead, got, sizeof(got), addr, 1));
    HG_CHECK_OK(endpoint_send(&client, addr, false, "x", 1, 1));
    conform_close(&server);
    HG_CHECK_RET(conform_wait(&client, &dead), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
}

HG_TEST(closed_class_is_dead_at_once)
{
    death_closed(DEATH_TCP);
}

HG_TEST(closed_class_is_dead_at_once_on_rxm)
{
    death_closed(1);
}

HG_TEST(closed_class_is_dead_at_once_on_shm)
{
    death_closed(2);
}
