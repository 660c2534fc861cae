/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The windows of libfabric connections, with a peer that keeps its own or
 * exceeds it, and that grants more than it was sent.
 */
#include "ofi_raw_peer.h"

#define WINDOW ((uint64_t) 1 << 20)
#define WINDOW_COST 128u
#define WINDOW_SIZE 8000u /* bytes of a message */
#define WINDOW_WEIGHT (HEADER + WINDOW_SIZE + WINDOW_COST)
#define WINDOW_MANY 400u

/* A class with a short queue, and a peer that has looked it up. */
static void window_open(struct attacked *server, struct raw_peer *peer)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.max_queue_bytes = 100000;
    attacked_open_info(server, "ofi+tcp://127.0.0.1", &info);
    raw_peer_init(peer, attacked_turn, server);
    raw_peer_dial(peer, server->name);
    raw_peer_greet(peer);
}

static void window_close(struct attacked *server, struct raw_peer *peer)
{
    attacked_serve(server);
    raw_peer_fini(peer);
    attacked_close(server);
}

static void window_send(struct raw_peer *peer)
{
    static unsigned char bytes[HEADER + WINDOW_SIZE];

    (void) raw_peer_header(bytes, KIND_MESSAGE, peer->token);
    raw_peer_send(peer, bytes, sizeof(bytes));
}

HG_TEST(messages_beyond_the_window_end_the_connection)
{
    struct attacked server;
    struct raw_peer peer;
    unsigned char bytes[RAW_PEER_ROOM];
    unsigned i = 0;

    window_open(&server, &peer);
    while (raw_peer_refused(&server) == 0) {
        HG_CHECK(i++ < WINDOW_MANY);
        window_send(&peer);
    }
    HG_CHECK(i > WINDOW / WINDOW_WEIGHT);
    (void) raw_peer_receive_kind(&peer, KIND_BYE, bytes);
    window_close(&server, &peer);
}

HG_TEST(what_was_taken_is_granted)
{
    static unsigned char got[WINDOW_SIZE];
    struct attacked server;
    struct raw_peer peer;
    struct conform_call recv;
    unsigned char bytes[RAW_PEER_ROOM];
    uint64_t sent = 0, granted = 0;
    unsigned i;

    window_open(&server, &peer);
    for (i = 0; sent - granted < WINDOW; i++, sent += WINDOW_WEIGHT)
        window_send(&peer);
    while (i-- > 0) {
        HG_CHECK_OK(
            conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&server.end, &recv));
        HG_CHECK_EQ_U64(recv.size, WINDOW_SIZE);
        conform_free_addr(&server.end, &recv);
    }
    while (granted + WINDOW / 2 <= sent) {
        HG_CHECK_EQ_U64(
            raw_peer_receive_kind(&peer, KIND_GRANT, bytes), HEADER);
        granted += raw_peer_get(bytes + 16, 4);
        HG_CHECK(granted % WINDOW_WEIGHT == 0 && granted <= sent);
    }
    HG_CHECK_EQ_U64(raw_peer_refused(&server), 0);
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "msg_dropped"), 0);
    window_close(&server, &peer);
}

/* How many of these sends have completed, after some progress. */
static uint64_t window_sent(
    struct raw_peer *peer, const struct conform_call *calls)
{
    uint64_t sent = 0;
    unsigned i;

    for (i = 0; i < 100; i++)
        raw_peer_ignore(peer);
    for (i = 0; i < WINDOW_MANY; i++)
        sent += calls[i].ends;
    return sent;
}

/* A GRANT opens the window for as much as was sent, whatever it says. */
HG_TEST(grant_of_too_much_opens_one_window)
{
    static struct conform_call calls[WINDOW_MANY];
    static char got[WINDOW_SIZE];
    struct attacked server;
    struct raw_peer peer;
    struct conform_call recv;
    unsigned char bytes[HEADER + 1] = {0};
    uint64_t most = WINDOW / WINDOW_WEIGHT + 1;
    unsigned i;

    window_open(&server, &peer);
    HG_CHECK_OK(conform_recv(&server.end, &recv, false, got, sizeof(got), 0));
    raw_peer_word(&peer);
    HG_CHECK_OK(conform_wait(&server.end, &recv));
    for (i = 0; i < WINDOW_MANY; i++)
        HG_CHECK_OK(NA_Msg_send_unexpected(server.end.na_class,
            server.end.context, conform_ended, &calls[i], got, sizeof(got),
            recv.addr, i, &calls[i].id));
    HG_CHECK_EQ_U64(window_sent(&peer, calls), most);
    (void) raw_peer_header(bytes, KIND_GRANT, peer.token);
    raw_peer_send_refused(
        &peer, &server, bytes, HEADER + 1, "a GRANT with a body");
    raw_peer_put(bytes + 16, 4, UINT32_MAX);
    raw_peer_send(&peer, bytes, HEADER);
    HG_CHECK_EQ_U64(window_sent(&peer, calls), 2 * most);
    conform_free_addr(&server.end, &recv);
    window_close(&server, &peer);
}
