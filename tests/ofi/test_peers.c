/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that have exited, and addresses that were closed: what remains of them
 * in libfabric's objects.
 */
#include "../box/endpoints.h"
#include "hook.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define PEERS_CONTEXTS 3u /* of a peer */

/* A peer with that many contexts looks a class up, sends it a byte, and exits.
 * Returns the address of the peer, which is dead. */
static na_addr_t peers_visit(struct conform_end *server)
{
    na_context_t *others[PEERS_CONTEXTS - 1];
    struct conform_call recv, send, dead;
    struct conform_end client;
    char name[NA_MAX_ADDR_LEN], got[8], never[8];
    na_addr_t addr;
    unsigned i;

    endpoint_open_client(&client, server, NULL);
    for (i = 0; i < PEERS_CONTEXTS - 1; i++) {
        others[i] = NA_Context_create(client.na_class);
        HG_CHECK(others[i] != NULL);
    }
    endpoint_name(server, server->self, name);
    addr = endpoint_lookup_both(&client, server, name);
    HG_CHECK_OK(conform_recv(server, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_OK(endpoint_wait_both(&client, server, &recv));
    HG_CHECK_OK(endpoint_wait_both(&client, server, &send));
    HG_CHECK_OK(
        endpoint_post(server, &dead, never, sizeof(never), recv.addr, 1));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    for (i = 0; i < PEERS_CONTEXTS - 1; i++)
        HG_CHECK_OK(NA_Context_destroy(client.na_class, others[i]));
    conform_close(&client);
    HG_CHECK_RET(conform_wait(server, &dead), NA_DISCONNECT);
    return recv.addr;
}

/* All its endpoints are removed from the address vector with the last
 * reference. */
HG_TEST(dead_peer_is_removed_from_the_address_vector)
{
    struct conform_end server;
    unsigned i;

    hg_test_ofi_configure("plain");
    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    for (i = 0; i < 3; i++) {
        uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
        na_addr_t addr = peers_visit(&server);
        uint64_t removed = hg_test_ofi_count("removed");

        HG_CHECK_OK(NA_Addr_free(server.na_class, addr));
        while (hg_test_ofi_count("removed") != removed + PEERS_CONTEXTS) {
            HG_CHECK(endpoint_ms() < end);
            (void) conform_turn(server.na_class, server.context, 1);
        }
    }
    conform_close(&server);
    HG_CHECK_EQ_U64(hg_test_ofi_count("delivery"), 0);
}

/* The last message to it may still be in flight. */
HG_TEST(closed_address_can_be_looked_up_again_at_once)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    unsigned i;

    hg_test_ofi_configure("plain");
    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    endpoint_open_client(&client, &server, NULL);
    endpoint_name(&server, server.self, name);
    for (i = 0; i < 100; i++) {
        na_addr_t addr = endpoint_lookup_both(&client, &server, name);
        struct conform_call call;

        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
            conform_ended, &call, addr, &call.id));
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &call));
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    }
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "ofi_malformed"), 0);
    conform_close(&client);
    conform_close(&server);
}

/* Send a byte from a context of one to the first context of another; returns
 * its source. */
static na_addr_t peers_send(struct conform_end *from, na_context_t *context,
    struct conform_end *to, na_addr_t addr)
{
    struct conform_call recv, send;
    char got[8];

    HG_CHECK_OK(conform_recv(to, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(from->na_class, context, conform_ended,
        &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_OK(endpoint_wait_both(from, to, &recv));
    while (send.ends == 0)
        (void) conform_turn(from->na_class, context, 1);
    HG_CHECK_OK(send.ret);
    return recv.addr;
}

/* Get `size` bytes of the other's memory. */
static na_return_t peers_get(struct conform_end *from, struct conform_end *of,
    na_addr_t addr, unsigned char *memory, size_t size)
{
    unsigned char *got = (unsigned char *) malloc(size);
    na_mem_handle_t mem = endpoint_register(of, memory, size);
    na_mem_handle_t local = conform_memory(from, got, size, NA_MEM_READWRITE);
    na_mem_handle_t remote;
    unsigned char bytes[256];
    struct conform_call call;
    na_return_t ret;

    HG_CHECK(got != NULL);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(of->na_class, bytes, sizeof(bytes), mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        from->na_class, &remote, bytes, sizeof(bytes)));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(from->na_class, from->context, conform_ended, &call,
        local, 0, remote, 0, size, addr, &call.id));
    ret = endpoint_wait_both(from, of, &call);
    HG_CHECK(ret != NA_SUCCESS || memcmp(got, memory, size) == 0);
    HG_CHECK_OK(NA_Mem_handle_free(from->na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(from->na_class, local));
    HG_CHECK_OK(NA_Mem_deregister(of->na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(of->na_class, mem));
    free(got);
    return ret;
}

/* A class that does not listen connects to one that gets its memory: by LINK, a
 * header alone. If that fails, the other class connects; no peer is lost. */
HG_TEST(link_that_fails_does_not_end_the_connection)
{
    struct conform_end server, client;
    unsigned char memory[4096];
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr, back, source;

    conform_fill(memory, sizeof(memory), 1);
    hg_test_ofi_configure("fault=short:1:104");
    endpoint_open_with(&server, "ofi+tcp://127.0.0.1:0", 60000, 200);
    endpoint_open_client(&client, &server, NULL);
    endpoint_name(&server, server.self, name);
    addr = endpoint_lookup_both(&client, &server, name);
    back = peers_send(&client, client.context, &server, addr);
    HG_CHECK_OK(peers_get(&server, &client, back, memory, sizeof(memory)));
    HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 1);
    source = peers_send(&client, client.context, &server, addr);
    HG_CHECK(source == back);
    HG_CHECK_OK(NA_Addr_free(server.na_class, source));
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* The endpoint of the last message was removed with the old peer. The next
 * peer's endpoints are learned, each by its own address. */
HG_TEST(closed_address_reaches_the_next_process)
{
    struct conform_end server, client;
    na_addr_t addr, back, source;
    struct conform_call call;
    unsigned char memory[4096];
    char name[NA_MAX_ADDR_LEN];
    na_context_t *other;
    uint64_t inserted;

    conform_fill(memory, sizeof(memory), 1);
    hg_test_ofi_configure("plain");
    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    other = NA_Context_create(server.na_class);
    HG_CHECK(other != NULL);
    endpoint_name(&server, server.self, name);
    endpoint_open_client(&client, &server, NULL);
    addr = endpoint_lookup_both(&client, &server, name);
    back = peers_send(&client, client.context, &server, addr);
    source = peers_send(&server, other, &client, back);
    HG_CHECK_OK(NA_Addr_free(client.na_class, source));
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &call, addr, &call.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &call));
    HG_CHECK_OK(NA_Context_destroy(server.na_class, other));
    conform_close(&server);
    inserted = hg_test_ofi_count("inserted");
    endpoint_open(&server, name, 2000);
    other = NA_Context_create(server.na_class);
    HG_CHECK(other != NULL);
    back = peers_send(&client, client.context, &server, addr);
    source = peers_send(&server, other, &client, back);
    /* The server, the client there, and the server's second endpoint here. */
    HG_CHECK_EQ_U64(hg_test_ofi_count("inserted"), inserted + 3);
    HG_CHECK_OK(peers_get(&client, &server, addr, memory, sizeof(memory)));
    HG_CHECK_OK(NA_Addr_free(client.na_class, source));
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Context_destroy(server.na_class, other));
    conform_close(&client);
    conform_close(&server);
}

/* The lookup has a context of its own, which shares the endpoint. */
HG_TEST(blocking_lookup_does_not_disturb_transfers)
{
    const size_t size = (size_t) 16 << 20;
    struct conform_end owner, client;
    unsigned char *memory = endpoint_map(2 * size);
    na_mem_handle_t mem, local, remote;
    unsigned char bytes[256];
    struct conform_call get;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr, again;

    endpoint_open(&owner, "ofi+tcp://127.0.0.1:0", 10000);
    endpoint_open_client(&client, &owner, NULL);
    endpoint_name(&owner, owner.self, name);
    addr = endpoint_lookup_both(&client, &owner, name);
    mem = endpoint_register(&owner, memory, size);
    local = endpoint_register(&client, memory + size, size);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(owner.na_class, bytes, sizeof(bytes), mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        client.na_class, &remote, bytes, sizeof(bytes)));
    memset(&get, 0, sizeof(get));
    HG_CHECK_OK(NA_Get(client.na_class, client.context, conform_ended, &get,
        local, 0, remote, 0, size, addr, &get.id));
    HG_CHECK_OK(NA_Addr_lookup_wait(client.na_class, name, 1000, &again));
    HG_CHECK_OK(endpoint_wait_both(&client, &owner, &get));
    HG_CHECK_OK(NA_Addr_free(client.na_class, again));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(client.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, mem));
    conform_close(&client);
    conform_close(&owner);
    endpoint_unmap(memory, 2 * size);
}

/* Closing waits for the answer, and then informs the peer. */
HG_TEST(address_in_lookup_is_closed_after_its_answer)
{
    struct conform_end client, server;
    struct conform_call send, close;
    struct conform_call recv, dead;
    char name[NA_MAX_ADDR_LEN], got[8], never[8];
    na_addr_t addr;

    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 3600000);
    endpoint_open_client(&client, &server, NULL);
    endpoint_name(&server, server.self, name);
    HG_CHECK_OK(NA_Addr_resolve(client.na_class, name, &addr));
    memset(&send, 0, sizeof(send));
    memset(&close, 0, sizeof(close));
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
        conform_ended, &close, addr, &close.id));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &close));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &send));
    HG_CHECK_OK(endpoint_wait_both(&client, &server, &recv));
    HG_CHECK_OK(
        endpoint_post(&server, &dead, never, sizeof(never), recv.addr, 1));
    HG_CHECK_RET(endpoint_wait_both(&client, &server, &dead), NA_DISCONNECT);
    conform_free_addr(&server, &recv);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* Without BYE it would wait until death_ms is over. */
HG_TEST(abandoned_peer_gets_a_bye)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct conform_end client, peer;
    struct conform_call recv, dead;
    char name[NA_MAX_ADDR_LEN], got[8], never[8];
    hg_class_t *hg_class;
    na_addr_t addr;
    uint64_t end;

    endpoint_open(&peer, "ofi+tcp://127.0.0.1:0", 3600000);
    endpoint_name(&peer, peer.self, name);
    client.na_class = NA_Initialize("ofi+tcp://", NA_FALSE);
    client.context = NA_Context_create(client.na_class);
    HG_CHECK_OK(NA_Addr_self(client.na_class, &client.self));
    info.na_class = client.na_class;
    hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(hg_class != NULL);
    addr = endpoint_lookup_both(&client, &peer, name);
    HG_CHECK_OK(conform_recv(&peer, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(endpoint_send(&client, addr, false, "x", 1, 1));
    HG_CHECK_OK(conform_wait(&peer, &recv));
    HG_CHECK_OK(
        endpoint_post(&peer, &dead, never, sizeof(never), recv.addr, 1));
    end = endpoint_ms() + CONFORM_TIMEOUT;
    HG_CHECK_OK(HG_Addr_set_remove(hg_class, (hg_addr_t) addr));
    while (dead.ends == 0) {
        HG_CHECK(endpoint_ms() < end);
        (void) conform_turn(peer.na_class, peer.context, 1);
    }
    HG_CHECK_RET(dead.ret, NA_DISCONNECT);
    conform_free_addr(&peer, &recv);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(HG_Finalize2(hg_class));
    conform_close(&client);
    conform_close(&peer);
}

/* Another peer's connection to the same host is not affected. */
HG_TEST_ROLE(peer)
{
    HG_CHECK_EQ_INT(argc, 2);
    endpoint_serve(argv[0], (unsigned) strtoul(argv[1], NULL, 10));
}

HG_TEST(death_of_a_peer_breaks_only_its_connections)
{
    struct conform_end end;
    struct conform_call get;
    struct sockaddr_in in;
    socklen_t length = sizeof(in);
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    na_mem_handle_t local, remote;
    na_addr_t addr = NA_ADDR_NULL;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    int two;
    char c = 'x';
    struct hg_test_peer *process =
        hg_test_spawn("peer", "ofi+tcp://127.0.0.1:0", "1000", (char *) NULL);
    char *name = hg_test_read_peer(process);

    hg_test_allow_log("");
    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HG_CHECK(bind(listener, (struct sockaddr *) &in, sizeof(in)) == 0 &&
        listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *) &in, &length) == 0 &&
        connect(one, (struct sockaddr *) &in, sizeof(in)) == 0);
    two = accept(listener, NULL, NULL);
    HG_CHECK(two >= 0);
    endpoint_open(&end, "ofi+tcp://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    local = endpoint_register(&end, memory, ENDPOINT_MEMORY);
    remote = endpoint_remote(&end, addr);
    memset(&get, 0, sizeof(get));
    memory[0] = 99;
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &get, local, 0,
        remote, 0, ENDPOINT_MEMORY, addr, &get.id));
    while (*(volatile unsigned char *) memory == 99)
        (void) conform_turn(end.na_class, end.context, 0);
    hg_test_signal(process, SIGSTOP);
    HG_CHECK_RET(conform_wait(&end, &get), NA_DISCONNECT);
    HG_CHECK_EQ_INT(send(one, &c, 1, MSG_NOSIGNAL), 1);
    HG_CHECK_EQ_INT(recv(two, &c, 1, 0), 1);
    hg_test_signal(process, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(process)));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    (void) close(one);
    (void) close(two);
    (void) close(listener);
    free(name);
}
