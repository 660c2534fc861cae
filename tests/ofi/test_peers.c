/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left of peers in libfabric's objects when they are gone.
 */
#include "../box/ends.h"
#include "hook.h"

#define PEERS_CONTEXTS 3u /* of a peer */

/* A peer with that many contexts looks a class up, sends it a byte, and goes.
 * The address of the peer is returned, which is dead. */
static na_addr_t peers_visit(struct conform_end *server)
{
    na_context_t *others[PEERS_CONTEXTS - 1];
    struct conform_call recv, send, dead;
    struct conform_end client;
    char name[NA_MAX_ADDR_LEN], got[8], never[8];
    na_addr_t addr;
    unsigned i;

    ends_open_client(&client, server, NULL);
    for (i = 0; i < PEERS_CONTEXTS - 1; i++) {
        others[i] = NA_Context_create(client.na_class);
        HG_CHECK(others[i] != NULL);
    }
    ends_name(server, server->self, name);
    addr = ends_lookup_both(&client, server, name);
    HG_CHECK_OK(conform_recv(server, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
        conform_ended, &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_OK(ends_wait_both(&client, server, &recv));
    HG_CHECK_OK(ends_wait_both(&client, server, &send));
    HG_CHECK_OK(ends_post(server, &dead, never, sizeof(never), recv.addr, 1));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    for (i = 0; i < PEERS_CONTEXTS - 1; i++)
        HG_CHECK_OK(NA_Context_destroy(client.na_class, others[i]));
    conform_close(&client);
    HG_CHECK_RET(conform_wait(server, &dead), NA_DISCONNECT);
    return recv.addr;
}

/* All of its endpoints leave the address vector with the last reference. */
HG_TEST(a_peer_that_is_gone_leaves_the_address_vector)
{
    struct conform_end server;
    unsigned i;

    hg_test_ofi_configure("plain");
    ends_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    for (i = 0; i < 3; i++) {
        uint64_t end = ends_ms() + CONFORM_PATIENCE;
        na_addr_t addr = peers_visit(&server);
        uint64_t removed = hg_test_ofi_count("removed");

        HG_CHECK_OK(NA_Addr_free(server.na_class, addr));
        while (hg_test_ofi_count("removed") != removed + PEERS_CONTEXTS) {
            HG_CHECK(ends_ms() < end);
            (void) conform_turn(server.na_class, server.context, 1);
        }
    }
    conform_close(&server);
    HG_CHECK_EQ_U64(hg_test_ofi_count("delivery"), 0);
}

/* What was sent to it last may still be in flight. */
HG_TEST(an_address_is_looked_up_again_at_once_after_it_was_closed)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    unsigned i;

    hg_test_ofi_configure("plain");
    ends_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    ends_open_client(&client, &server, NULL);
    ends_name(&server, server.self, name);
    for (i = 0; i < 100; i++) {
        na_addr_t addr = ends_lookup_both(&client, &server, name);
        struct conform_call call;

        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
            conform_ended, &call, addr, &call.id));
        HG_CHECK_OK(ends_wait_both(&client, &server, &call));
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    }
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "ofi_malformed"), 0);
    conform_close(&client);
    conform_close(&server);
}

/* A byte from a context of one to the first one of another; its source. */
static na_addr_t peers_send(struct conform_end *from, na_context_t *context,
    struct conform_end *to, na_addr_t addr)
{
    struct conform_call recv, send;
    char got[8];

    HG_CHECK_OK(conform_recv(to, &recv, false, got, sizeof(got), 0));
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(from->na_class, context, conform_ended,
        &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_OK(ends_wait_both(from, to, &recv));
    while (send.ends == 0)
        (void) conform_turn(from->na_class, context, 1);
    HG_CHECK_OK(send.ret);
    return recv.addr;
}

/* Get `size` bytes of memory of the other's. */
static na_return_t peers_get(struct conform_end *from, struct conform_end *of,
    na_addr_t addr, unsigned char *memory, size_t size)
{
    unsigned char *got = (unsigned char *) malloc(size);
    na_mem_handle_t mem = ends_register(of, memory, size);
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
    ret = ends_wait_both(from, of, &call);
    HG_CHECK(ret != NA_SUCCESS || memcmp(got, memory, size) == 0);
    HG_CHECK_OK(NA_Mem_handle_free(from->na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(from->na_class, local));
    HG_CHECK_OK(NA_Mem_deregister(of->na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(of->na_class, mem));
    free(got);
    return ret;
}

/* The endpoint that the last message came from has gone with the old one. */
HG_TEST(an_address_that_was_closed_reaches_the_next_process_there)
{
    struct conform_end server, client;
    na_addr_t addr, back, source;
    struct conform_call call;
    unsigned char memory[4096];
    char name[NA_MAX_ADDR_LEN];
    na_context_t *other;

    conform_fill(memory, sizeof(memory), 1);
    hg_test_ofi_configure("plain");
    ends_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    other = NA_Context_create(server.na_class);
    HG_CHECK(other != NULL);
    ends_name(&server, server.self, name);
    ends_open_client(&client, &server, NULL);
    addr = ends_lookup_both(&client, &server, name);
    back = peers_send(&client, client.context, &server, addr);
    source = peers_send(&server, other, &client, back);
    HG_CHECK_OK(NA_Addr_free(client.na_class, source));
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(
        client.na_class, client.context, conform_ended, &call, addr, &call.id));
    HG_CHECK_OK(ends_wait_both(&client, &server, &call));
    HG_CHECK_OK(NA_Context_destroy(server.na_class, other));
    conform_close(&server);
    ends_open(&server, name, 2000);
    other = NA_Context_create(server.na_class);
    HG_CHECK(other != NULL);
    back = peers_send(&client, client.context, &server, addr);
    source = peers_send(&server, other, &client, back);
    HG_CHECK_OK(peers_get(&client, &server, addr, memory, sizeof(memory)));
    HG_CHECK_OK(NA_Addr_free(client.na_class, source));
    HG_CHECK_OK(NA_Addr_free(server.na_class, back));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_OK(NA_Context_destroy(server.na_class, other));
    conform_close(&client);
    conform_close(&server);
}
