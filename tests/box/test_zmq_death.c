/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeroMQ transport with peers that die, stop, are busy or never existed.
 * Each rule is tested on tcp and on ipc, which detect a death differently.
 */
#include "endpoints.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

HG_TEST_ROLE(peer)
{
    HG_CHECK_EQ_INT(argc, 2);
    endpoint_serve(argv[0], (unsigned) strtoul(argv[1], NULL, 10));
}

/* Our endpoint, which does not listen, and a process that it looked up. */
struct death_pair {
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr;
    char name[NA_MAX_ADDR_LEN];
};

/* An address for a server of the protocol. */
static void death_string(const char *protocol, char *string, size_t size)
{
    (void) snprintf(string, size, "zmq+%s://%s", protocol,
        strcmp(protocol, "tcp") == 0 ? "127.0.0.1" : "*");
}

static void death_open(
    struct death_pair *pair, const char *protocol, const char *death_ms)
{
    char scheme[64], string[64];
    char *name;

    (void) snprintf(scheme, sizeof(scheme), "zmq+%s://", protocol);
    death_string(protocol, string, sizeof(string));
    endpoint_open(&pair->end, scheme, (unsigned) strtoul(death_ms, NULL, 10));
    pair->process = hg_test_spawn("peer", string, death_ms, NULL);
    name = hg_test_read_peer(pair->process);
    (void) snprintf(pair->name, sizeof(pair->name), "%s", name);
    free(name);
    HG_CHECK_OK(endpoint_lookup(&pair->end, pair->name, &pair->addr));
}

static void death_close(struct death_pair *pair)
{
    HG_CHECK_OK(NA_Addr_free(pair->end.na_class, pair->addr));
    conform_close(&pair->end);
}

static void death_kill(struct death_pair *pair)
{
    hg_test_signal(pair->process, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(pair->process)));
}

/* ---- No listener ---- */

/* A plain TCP listener; it `accepts`, then sends garbage or stays silent. */
struct death_listener {
    int fd;
    bool garbage;
    char name[64];
    pthread_t thread;
};

static void *death_listen(void *arg)
{
    struct death_listener *listener = (struct death_listener *) arg;
    static const char garbage[] = "HTTP/1.0 400 Bad request\r\n\r\n";
    int fd = accept(listener->fd, NULL, NULL);

    if (fd >= 0 && listener->garbage)
        (void) send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
    while (fd >= 0) {
        char byte;

        if (recv(fd, &byte, 1, 0) <= 0)
            break;
    }
    if (fd >= 0)
        (void) close(fd);
    return NULL;
}

static void death_start_listener(struct death_listener *listener)
{
    struct sockaddr_in where;
    socklen_t size = sizeof(where);

    memset(&where, 0, sizeof(where));
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener->fd = socket(AF_INET, SOCK_STREAM, 0);
    HG_CHECK(
        bind(listener->fd, (struct sockaddr *) &where, sizeof(where)) == 0);
    HG_CHECK(listen(listener->fd, 4) == 0);
    HG_CHECK(getsockname(listener->fd, (struct sockaddr *) &where, &size) == 0);
    (void) snprintf(listener->name, sizeof(listener->name),
        "tcp://127.0.0.1:%u", (unsigned) ntohs(where.sin_port));
    HG_CHECK(
        pthread_create(&listener->thread, NULL, death_listen, listener) == 0);
}

HG_TEST(address_without_a_listener_is_unreachable)
{
    static const char *const names[] = {"tcp://127.0.0.1:1",
        "zmq+tcp://[::1]:1", "tcp://no-such-host.invalid:80"};
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char path[256];
    size_t i;

    hg_test_expect_log("tcp://127.0.0.1:1 cannot be reached: refused");
    hg_test_expect_log("none cannot be reached: No such file");
    hg_test_expect_log("inproc://nobody cannot be reached: nobody listens");
    hg_test_expect_log("no-such-host.invalid");
    hg_test_allow_log("[::1]:1 cannot be reached");
    endpoint_open(&end, "zmq+tcp://", 1000);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        HG_CHECK_RET(endpoint_lookup(&end, names[i], &addr), NA_HOSTUNREACH);
    conform_close(&end);
    endpoint_open(&end, "zmq+ipc://", 1000);
    (void) snprintf(path, sizeof(path), "zmq+ipc://%s/none", hg_test_dir());
    HG_CHECK_RET(endpoint_lookup(&end, path, &addr), NA_HOSTUNREACH);
    conform_close(&end);
    endpoint_open(&end, "zmq+inproc://", 1000);
    HG_CHECK_RET(
        endpoint_lookup(&end, "zmq+inproc://nobody", &addr), NA_HOSTUNREACH);
    conform_close(&end);
    HG_CHECK(addr == NA_ADDR_NULL);
}

static void death_meet(bool garbage)
{
    struct death_listener listener = {.garbage = garbage};
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_expect_log(garbage
            ? "cannot be reached: the process that listens there closed the "
              "connection: it is not hg"
            : "cannot be reached: a process listens there, but does not answer "
              "as hg");
    death_start_listener(&listener);
    endpoint_open_with(&end, "zmq+tcp://", 1000, 300);
    if (!garbage) { /* its timeout differs from that of the lookup */
        hg_test_expect_log("no response from");
        HG_CHECK_RET(
            NA_Addr_lookup_wait(end.na_class, listener.name, 300, &addr),
            NA_TIMEOUT);
    }
    HG_CHECK_RET(endpoint_lookup(&end, listener.name, &addr), NA_HOSTUNREACH);
    conform_close(&end);
    (void) pthread_join(listener.thread, NULL);
    (void) close(listener.fd);
}

HG_TEST(peer_that_sends_garbage_is_unreachable)
{
    death_meet(true);
}

HG_TEST(silent_peer_is_unreachable)
{
    death_meet(false);
}

HG_TEST(stopped_process_cannot_be_looked_up)
{
    struct death_pair pair;
    struct conform_end other;
    na_addr_t addr = NA_ADDR_NULL;

    hg_test_expect_log("cannot be reached");
    death_open(&pair, "tcp", "1000");
    hg_test_signal(pair.process, SIGSTOP);
    endpoint_open_with(&other, "zmq+tcp://", 1000, 300);
    HG_CHECK_RET(endpoint_lookup(&other, pair.name, &addr), NA_HOSTUNREACH);
    conform_close(&other);
    hg_test_signal(pair.process, SIGCONT);
    death_kill(&pair);
    death_close(&pair);
}

/* ---- Killed ---- */

static void death_in_transfer(const char *protocol, bool put)
{
    struct death_pair pair;
    struct conform_call call;
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);

    hg_test_allow_log("");
    death_open(&pair, protocol, "1000");
    local = endpoint_register(&pair.end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, pair.addr);
    memset(&call, 0, sizeof(call));
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
    death_in_transfer("tcp", false);
    death_in_transfer("ipc", false);
}

HG_TEST(put_to_a_killed_process_ends)
{
    death_in_transfer("tcp", true);
    death_in_transfer("ipc", true);
}

HG_TEST(restarted_server_is_another_peer)
{
    struct death_pair pair;
    struct conform_call dead;
    na_addr_t again = NA_ADDR_NULL;
    char *name;
    char got[8], late[8];

    hg_test_allow_log("");
    death_open(&pair, "tcp", "1000");
    HG_CHECK_OK(endpoint_ask(&pair.end, pair.addr, 1, got, sizeof(got), NULL));
    /* Until its death is known, a lookup finds the old connection. */
    HG_CHECK_OK(
        endpoint_post(&pair.end, &dead, late, sizeof(late), pair.addr, 1000));
    death_kill(&pair);
    HG_CHECK_RET(conform_wait(&pair.end, &dead), NA_DISCONNECT);
    HG_CHECK_RET(endpoint_lookup(&pair.end, pair.name, &again), NA_HOSTUNREACH);
    HG_CHECK(again == NA_ADDR_NULL);
    pair.process = hg_test_spawn("peer", pair.name, "1000", NULL);
    name = hg_test_read_peer(pair.process);
    HG_CHECK_EQ_STR(name, pair.name);
    free(name);
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

/* Two servers: operations with one are not affected by the other's end. */
static void death_of_another(const char *protocol)
{
    struct death_pair pair;
    struct hg_test_peer *other;
    struct conform_call move, lost, recv;
    na_mem_handle_t local, remote, remote_lost;
    unsigned char *memory = endpoint_map(2 * ENDPOINT_MEMORY);
    unsigned char *want = endpoint_map(ENDPOINT_MEMORY);
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *name;

    hg_test_allow_log("");
    death_open(&pair, protocol, "1000");
    death_string(protocol, string, sizeof(string));
    other = hg_test_spawn("peer", string, "1000", NULL);
    name = hg_test_read_peer(other);
    HG_CHECK_OK(endpoint_lookup(&pair.end, name, &addr));
    free(name);
    local = endpoint_register(&pair.end, memory, 2 * ENDPOINT_MEMORY);
    remote = endpoint_remote(&pair.end, addr);
    remote_lost = endpoint_remote(&pair.end, pair.addr);
    HG_CHECK_OK(endpoint_post(&pair.end, &recv, got, sizeof(got), addr, 1));
    memset(&move, 0, sizeof(move));
    memset(&lost, 0, sizeof(lost));
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
    death_of_another("tcp");
    death_of_another("ipc");
}

/* ---- Stopped ---- */

/* A peer that is stopped, and the operations in flight with it. */
struct death_stopped {
    struct death_pair pair;
    bool put; /* much data is being sent to it */
    struct conform_call recv;
    struct conform_call move;
    na_mem_handle_t local;
    na_mem_handle_t remote;
    unsigned char *memory;
    char got[8];
};

static void death_stop(struct death_stopped *stopped, const char *protocol,
    bool put, const char *death_ms)
{
    struct death_pair *pair = &stopped->pair;

    memset(stopped, 0, sizeof(*stopped));
    stopped->put = put;
    stopped->memory = endpoint_map(ENDPOINT_MEMORY);
    death_open(pair, protocol, death_ms);
    stopped->local =
        endpoint_register(&pair->end, stopped->memory, ENDPOINT_MEMORY);
    stopped->remote = endpoint_remote(&pair->end, pair->addr);
    HG_CHECK_OK(endpoint_post(&pair->end, &stopped->recv, stopped->got,
        sizeof(stopped->got), pair->addr, 1));
    hg_test_signal(pair->process, SIGSTOP);
    /* The peer answers this when it continues; the answer must not arrive. */
    HG_CHECK_OK(endpoint_send(&pair->end, pair->addr, false, "?", 2, 1));
    if (put)
        HG_CHECK_OK(NA_Put(pair->end.na_class, pair->end.context, conform_ended,
            &stopped->move, stopped->local, 0, stopped->remote, 0,
            ENDPOINT_MEMORY, pair->addr, &stopped->move.id));
}

/* When it continues, it finds itself disconnected, and may be looked up
 * again. */
static void death_go_on(struct death_stopped *stopped)
{
    struct death_pair *pair = &stopped->pair;
    na_addr_t again = NA_ADDR_NULL;

    HG_CHECK_RET(conform_wait(&pair->end, &stopped->recv), NA_DISCONNECT);
    if (stopped->put)
        HG_CHECK_RET(conform_wait(&pair->end, &stopped->move), NA_DISCONNECT);
    HG_CHECK_OK(NA_Mem_handle_free(pair->end.na_class, stopped->local));
    endpoint_unmap(stopped->memory, ENDPOINT_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_free(pair->end.na_class, stopped->remote));
    hg_test_signal(pair->process, SIGCONT);
    HG_CHECK_OK(endpoint_lookup(&pair->end, pair->name, &again));
    HG_CHECK(again != pair->addr);
    HG_CHECK_OK(endpoint_ask(
        &pair->end, again, 1, stopped->got, sizeof(stopped->got), NULL));
    HG_CHECK_OK(NA_Addr_free(pair->end.na_class, again));
    hg_test_stop(pair->process);
    death_close(pair);
}

/* On tcp and ipc, with few and with many operations: all at once, since each
 * case takes death_ms. */
static void death_stop_all(const char *death_ms, unsigned timeout_ms)
{
    struct death_stopped stopped[4];
    uint64_t end;
    unsigned ended, i;

    hg_test_allow_log("");
    for (i = 0; i < 4; i++)
        death_stop(
            &stopped[i], i % 2 == 0 ? "tcp" : "ipc", i / 2 == 1, death_ms);
    end = endpoint_ms() + timeout_ms;
    do {
        ended = 0;
        for (i = 0; i < 4; i++) {
            (void) conform_turn(
                stopped[i].pair.end.na_class, stopped[i].pair.end.context, 5);
            ended += stopped[i].recv.ends > 0;
        }
        HG_CHECK(endpoint_ms() < end);
    } while (ended < 4);
    for (i = 0; i < 4; i++)
        death_go_on(&stopped[i]);
}

HG_TEST_SECONDS(stopped_process_is_dead, 40)
{
    death_stop_all("1000", 20000);
}

/* With the default options it takes 5 s. */
HG_TEST_SECONDS(stopped_process_is_dead_by_default, 200)
{
    uint64_t start = endpoint_ms();

    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("takes 6 s; set HG_TEST_FULL");
    death_stop_all("0", 100000);
    HG_CHECK(endpoint_ms() - start > 3500);
}

/* Asks its parent for a handle, gets all of the memory, and repeats. */
HG_TEST_ROLE(getter)
{
    struct conform_end end;
    struct conform_call call;
    na_mem_handle_t local, remote;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    char scheme[64];
    na_addr_t addr = NA_ADDR_NULL;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_allow_log("");
    (void) snprintf(scheme, sizeof(scheme), "zmq+%s://", argv[1]);
    endpoint_open(&end, scheme, 1000);
    HG_CHECK_OK(endpoint_lookup(&end, argv[0], &addr));
    remote = endpoint_remote(&end, addr);
    local = endpoint_register(&end, memory, ENDPOINT_MEMORY);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &call, local,
        0, remote, 0, ENDPOINT_MEMORY, addr, &call.id));
    (void) conform_wait(&end, &call);
    hg_test_write_parent("got it");
    for (;;)
        (void) conform_turn(end.na_class, end.context, 100);
}

/* libzmq holds frames of ours for a getter that is stopped, and no thread makes
 * progress: withdrawing the memory still completes. */
static void death_withdraw(const char *protocol)
{
    struct conform_end end;
    struct conform_call recv, send;
    struct hg_test_peer *process;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    unsigned char bytes[256];
    na_mem_handle_t mem;
    na_size_t size;
    char name[NA_MAX_ADDR_LEN], string[64], got[8];
    uint64_t start;

    hg_test_allow_log("");
    death_string(protocol, string, sizeof(string));
    endpoint_open(&end, string, 1000);
    endpoint_name(&end, end.self, name);
    mem = endpoint_register(&end, memory, ENDPOINT_MEMORY);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    process = hg_test_spawn("getter", name, protocol, NULL);
    HG_CHECK_OK(conform_wait(&end, &recv));
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(end.na_class, bytes, sizeof(bytes), mem));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_expected(end.na_class, end.context, conform_ended,
        &send, bytes, size, recv.addr, 2, &send.id));
    /* Until the first data is sent. */
    while (NA_Get_counter(end.na_class, "rma_frames") < 2)
        (void) conform_turn(end.na_class, end.context, 1);
    hg_test_signal(process, SIGSTOP);
    while (NA_Get_counter(end.na_class, "rma_frames") < 3 &&
        conform_turn(end.na_class, end.context, 20) > 0)
        continue;
    start = endpoint_ms();
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, mem));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    HG_CHECK(endpoint_ms() - start < 20 * 1000);
    hg_test_signal(process, SIGCONT);
    hg_test_signal(process, SIGKILL);
    (void) hg_test_wait(process);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    conform_free_addr(&end, &recv);
    conform_close(&end);
}

HG_TEST(memory_used_by_a_stopped_process_can_be_deregistered)
{
    death_withdraw("tcp");
    death_withdraw("ipc");
}

/* ---- Alive but busy ---- */

/* A busy server: the call that waits for it, and a lookup, get their answers. A
 * client that is as busy does too. Both protocols run at once to save time. */
static void death_busy(unsigned death, unsigned busy_ms)
{
    static const char *const protocols[] = {"tcp", "ipc"};
    struct death_pair pairs[2];
    struct conform_end others[2];
    struct conform_call recvs[2];
    char got[2][8], line[32], death_ms[16];
    uint64_t start;
    unsigned i;

    (void) snprintf(line, sizeof(line), "sleep %u", busy_ms);
    (void) snprintf(death_ms, sizeof(death_ms), "%u", death);
    for (i = 0; i < 2; i++) {
        death_open(&pairs[i], protocols[i], death_ms);
        HG_CHECK_OK(endpoint_post(&pairs[i].end, &recvs[i], got[i],
            sizeof(got[i]), pairs[i].addr, 1));
        hg_test_write_peer(pairs[i].process, line);
        free(hg_test_read_peer(pairs[i].process));
        HG_CHECK_OK(
            endpoint_send(&pairs[i].end, pairs[i].addr, false, "?", 2, 1));
    }
    start = endpoint_ms();
    for (i = 0; i < 2; i++) {
        na_addr_t addr = NA_ADDR_NULL;
        char other[8];

        endpoint_open(&others[i], i == 0 ? "zmq+tcp://" : "zmq+ipc://", death);
        HG_CHECK_OK(NA_Addr_lookup_wait(
            others[i].na_class, pairs[i].name, 20 * busy_ms, &addr));
        HG_CHECK_OK(endpoint_ask(&others[i], addr, 1, other, 8, NULL));
        HG_CHECK_OK(NA_Addr_free(others[i].na_class, addr));
        conform_close(&others[i]);
    }
    HG_CHECK(endpoint_ms() - start > 2 * death);
    /* Meanwhile these endpoints made no progress. */
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(conform_wait(&pairs[i].end, &recvs[i]));
        HG_CHECK_OK(
            endpoint_ask(&pairs[i].end, pairs[i].addr, 1, got[i], 8, NULL));
        hg_test_stop(pairs[i].process);
        death_close(&pairs[i]);
    }
}

HG_TEST_SECONDS(busy_process_stays_alive, 40)
{
    death_busy(hg_test_scaled_ms(500), hg_test_scaled_ms(2000));
}

HG_TEST_SECONDS(process_busy_for_ten_seconds_stays_alive, 200)
{
    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("takes 10 s; set HG_TEST_FULL");
    death_busy(hg_test_scaled_ms(1000), hg_test_scaled_ms(10000));
}

/* A class that closes disappears for the other classes of its process. */
HG_TEST(closed_class_is_disconnected_for_other_classes)
{
    struct conform_end server, client;
    struct conform_call recv;
    na_addr_t addr;
    char name[NA_MAX_ADDR_LEN], got[8];

    endpoint_open(&server, "zmq+inproc://here", 1000);
    endpoint_open(&client, "zmq+inproc://", 1000);
    endpoint_name(&server, server.self, name);
    HG_CHECK_EQ_STR(name, "zmq+inproc://here");
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(endpoint_post(&client, &recv, got, sizeof(got), addr, 1));
    conform_close(&server);
    HG_CHECK_RET(conform_wait(&client, &recv), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
}

/* ---- Unread messages ---- */

/* The death is noticed while many messages are unread: all of them are
 * delivered. */
HG_TEST(messages_sent_before_death_arrive)
{
    enum { COUNT = 200 }; /* more than one poll reads */
    struct conform_end server, client, other;
    struct conform_call sends[COUNT], recv, lookup;
    char name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr;
    unsigned i;

    endpoint_open(&server, "zmq+tcp://127.0.0.1", 1000);
    endpoint_open(&other, "zmq+tcp://127.0.0.1", 1000);
    endpoint_open(&client, "zmq+tcp://", 1000);
    endpoint_name(&server, server.self, name);
    addr = endpoint_lookup_both(&client, &server, name);
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(endpoint_send(&client, addr, false, "x", 1, 0));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &recv));
    conform_free_addr(&server, &recv);
    conform_idle(&server); /* has read all messages */
    for (i = 0; i < COUNT; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
            conform_ended, &sends[i], "x", 1, addr, i, &sends[i].id));
    }
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_wait(&client, &sends[i]));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    /* The server does not poll, but its transport receives. */
    endpoint_sleep(20);
    /* A lookup first processes the death. */
    endpoint_name(&other, other.self, name);
    memset(&lookup, 0, sizeof(lookup));
    HG_CHECK_OK(NA_Addr_lookup(server.na_class, server.context, conform_ended,
        &lookup, name, &lookup.id));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&server, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&server, &recv);
    }
    HG_CHECK_OK(endpoint_wait_both(&server, &other, &lookup));
    conform_free_addr(&server, &lookup);
    conform_close(&other);
    conform_close(&server);
}

/* The client sends and closes its class before the server reads CONFIRM. Over
 * tcp the server reads of the end of the connection first, over inproc it looks
 * there. All messages are delivered. */
static void death_unconfirmed(const char *listen, const char *scheme)
{
    enum { COUNT = 200 };
    struct conform_end server, client;
    struct conform_call sends[COUNT], recv, lookup;
    char name[NA_MAX_ADDR_LEN], got[8];
    unsigned i;

    endpoint_open(&server, listen, 1000);
    endpoint_open(&client, scheme, 1000);
    endpoint_name(&server, server.self, name);
    memset(&lookup, 0, sizeof(lookup));
    HG_CHECK_OK(NA_Addr_lookup(client.na_class, client.context, conform_ended,
        &lookup, name, &lookup.id));
    while (lookup.ends == 0) { /* the server does not poll after WELCOME */
        (void) conform_turn(server.na_class, server.context, 1);
        (void) conform_turn(client.na_class, client.context, 1);
    }
    HG_CHECK_OK(lookup.ret);
    for (i = 0; i < COUNT; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
            conform_ended, &sends[i], "x", 1, lookup.addr, i, &sends[i].id));
    }
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_wait(&client, &sends[i]));
    conform_free_addr(&client, &lookup);
    conform_close(&client);
    endpoint_sleep(20); /* libzmq reports the end of the connection */
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&server, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&server, &recv);
    }
    conform_close(&server);
}

HG_TEST(messages_sent_before_an_unconfirmed_death_arrive)
{
    death_unconfirmed("zmq+tcp://127.0.0.1", "zmq+tcp://");
    death_unconfirmed("zmq+ipc://*", "zmq+ipc://");
}

HG_TEST(messages_sent_before_an_unconfirmed_close_arrive_on_inproc)
{
    death_unconfirmed("zmq+inproc://*", "zmq+inproc://");
}
