/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The windows of the ZeroMQ transport: a peer that does not grant, grants too
 * much, sends more than it may, or sends anything before the handshake. A bare
 * libzmq socket is the peer: it calls a class that listens, or it listens and
 * the class calls it. This program has its own shutdown().
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "zmq_raw_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    WINDOW = 1 << 20, /* as in gen/wire.md */
    WINDOW_COST = 128,
    WINDOW_MESSAGE = 32768, /* bytes of a large message */
    WINDOW_WEIGHT = WINDOW_MESSAGE + 12 + WINDOW_COST,
    WINDOW_MANY = 64,
    WINDOW_BOTH = 2 /* the class listens, the class calls */
};

struct window {
    struct conform_end end; /* the class */
    na_addr_t addr;         /* of the peer */
    struct raw_peer words;  /* the peer: its context and socket */
    bool listens;           /* the peer is a ROUTER, and the class calls it */
    unsigned char id[32];
    size_t id_size;
};

static void window_turn(void *arg)
{
    struct window *window = (struct window *) arg;

    (void) conform_turn(window->end.na_class, window->end.context, 1);
}

static void window_send(struct window *window, const void *bytes, size_t size)
{
    if (window->listens)
        raw_peer_send(&window->words, window->id, window->id_size, true);
    raw_peer_send(&window->words, bytes, size, false);
}

/* The next message of the class. */
static size_t window_hear(
    struct window *window, unsigned char *bytes, size_t space)
{
    if (window->listens)
        window->id_size =
            raw_peer_hear(&window->words, window->id, sizeof(window->id));
    return raw_peer_hear(&window->words, bytes, space);
}

/* A message of the unexpected plane with a tag and `size` bytes. */
static void window_send_message(
    struct window *window, size_t size, uint32_t tag)
{
    static unsigned char bytes[12 + WINDOW_MESSAGE];

    (void) raw_peer_header(bytes, KIND_MESSAGE);
    raw_peer_put(bytes + 8, 4, tag);
    window_send(window, bytes, 12 + size);
}

static void window_grant(struct window *window, unsigned lane, uint32_t bytes)
{
    unsigned char grant[12];

    (void) raw_peer_header(grant, KIND_GRANT);
    grant[4] = (unsigned char) lane;
    raw_peer_put(grant + 8, 4, bytes);
    window_send(window, grant, sizeof(grant));
}

/* The class looks up the peer. */
static void window_be_called(struct window *window)
{
    struct conform_call lookup;
    unsigned char bytes[256], welcome[36];
    char name[128];
    size_t size = sizeof(name);
    int zero = 0;

    window->words.socket = zmq_socket(window->words.context, ZMQ_ROUTER);
    (void) zmq_setsockopt(
        window->words.socket, ZMQ_LINGER, &zero, sizeof(zero));
    (void) zmq_setsockopt(
        window->words.socket, ZMQ_RCVHWM, &zero, sizeof(zero));
    (void) zmq_setsockopt(
        window->words.socket, ZMQ_SNDHWM, &zero, sizeof(zero));
    HG_CHECK(zmq_bind(window->words.socket, "tcp://127.0.0.1:*") == 0);
    HG_CHECK(zmq_getsockopt(
                 window->words.socket, ZMQ_LAST_ENDPOINT, name, &size) == 0);
    memset(&lookup, 0, sizeof(lookup));
    HG_CHECK_OK(NA_Addr_lookup(window->end.na_class, window->end.context,
        conform_ended, &lookup, name, &lookup.id));
    HG_CHECK_EQ_U64(window_hear(window, bytes, sizeof(bytes)), 28);
    (void) raw_peer_header(welcome, KIND_WELCOME);
    memset(welcome + 12, 0x11, 24);
    memcpy(welcome + 20, bytes + 20, 8);
    window_send(window, welcome, sizeof(welcome));
    HG_CHECK_OK(conform_wait(&window->end, &lookup));
    window->addr = lookup.addr;
    HG_CHECK_EQ_U64(window_hear(window, bytes, sizeof(bytes)), 20);
}

/* The peer calls the class, whose address of it is that of its message. */
static void window_call(struct window *window)
{
    struct conform_call recv;
    char name[NA_MAX_ADDR_LEN], got[8];

    endpoint_name(&window->end, window->end.self, name);
    raw_peer_join(&window->words, name + 4);
    HG_CHECK_OK(conform_recv(&window->end, &recv, false, got, sizeof(got), 0));
    window_send_message(window, 0, 0);
    HG_CHECK_OK(conform_wait(&window->end, &recv));
    window->addr = recv.addr;
}

static void window_open(
    struct window *window, bool listens, const struct na_init_info *info)
{
    memset(window, 0, sizeof(*window));
    window->listens = listens;
    raw_peer_init(&window->words, window_turn, window);
    endpoint_open_info(&window->end,
        listens ? "zmq+tcp://" : "zmq+tcp://127.0.0.1",
        listens ? NA_FALSE : NA_TRUE, info);
    if (listens)
        window_be_called(window);
    else
        window_call(window);
}

static void window_close(struct window *window)
{
    HG_CHECK_OK(NA_Addr_free(window->end.na_class, window->addr));
    raw_peer_hang_up(&window->words);
    conform_close(&window->end);
    raw_peer_fini(&window->words);
}

static uint64_t window_refused(const struct window *window, unsigned kind)
{
    return raw_peer_refused(window->end.na_class, kind);
}

/* The class ends the connection, because of a message of this kind. */
static void window_until_ended(struct window *window, unsigned kind)
{
    struct conform_call never;
    char got[8];

    HG_CHECK_OK(endpoint_post(
        &window->end, &never, got, sizeof(got), window->addr, 77));
    HG_CHECK_RET(conform_wait(&window->end, &never), NA_DISCONNECT);
    HG_CHECK(window_refused(window, kind) >= 1);
}

static void window_turns(struct window *window)
{
    unsigned i;

    for (i = 0; i < 10; i++)
        window_turn(window);
}

/* ---- Grants ---- */

static unsigned window_ended(const struct conform_call *calls)
{
    unsigned i, ended = 0;

    for (i = 0; i < WINDOW_MANY; i++)
        ended += (unsigned) calls[i].ends;
    return ended;
}

/* The peer reads everything and grants nothing at first: what exceeds the
 * window waits at the class, in order, and can be canceled. */
HG_TEST(sends_wait_until_the_peer_grants)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static unsigned char bytes[12 + WINDOW_MESSAGE];
    static struct conform_call calls[WINDOW_MANY];
    const unsigned fit = WINDOW / WINDOW_WEIGHT + 1;
    struct window window;
    unsigned listens, i;

    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        for (i = 0; i < WINDOW_MANY; i++) {
            memset(&calls[i], 0, sizeof(calls[i]));
            HG_CHECK_OK(NA_Msg_send_unexpected(window.end.na_class,
                window.end.context, conform_ended, &calls[i], bytes,
                WINDOW_MESSAGE, window.addr, i, &calls[i].id));
        }
        window_turns(&window);
        HG_CHECK_EQ_INT(window_ended(calls), fit);
        HG_CHECK_OK(NA_Cancel(window.end.na_class, window.end.context,
            calls[WINDOW_MANY - 1].id));
        HG_CHECK_RET(
            conform_wait(&window.end, &calls[WINDOW_MANY - 1]), NA_CANCELED);
        window_grant(&window, 1, 0); /* of the other lane: no effect */
        window_grant(&window, 0, WINDOW_WEIGHT);
        HG_CHECK_OK(conform_wait(&window.end, &calls[fit]));
        window_turns(&window);
        HG_CHECK_EQ_INT(window_ended(calls), fit + 2);
        for (i = 0; i < WINDOW_MANY - 1; i++) {
            HG_CHECK_EQ_U64(window_hear(&window, bytes, sizeof(bytes)),
                12 + WINDOW_MESSAGE);
            HG_CHECK_EQ_U64(raw_peer_get(bytes + 8, 4), i);
            if (i > 0) /* the first was granted */
                window_grant(&window, 0, WINDOW_WEIGHT);
        }
        for (i = 0; i < WINDOW_MANY - 1; i++)
            HG_CHECK_OK(conform_wait(&window.end, &calls[i]));
        HG_CHECK_EQ_U64(window_refused(&window, KIND_GRANT), 0);
        window_close(&window);
    }
}

/* Sends that wait fail with the connection. */
HG_TEST(sends_that_wait_fail_with_the_connection)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static unsigned char bytes[WINDOW_MESSAGE];
    static struct conform_call calls[WINDOW_MANY];
    struct window window;
    unsigned listens, i;

    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        for (i = 0; i < WINDOW_MANY; i++) {
            memset(&calls[i], 0, sizeof(calls[i]));
            HG_CHECK_OK(NA_Msg_send_unexpected(window.end.na_class,
                window.end.context, conform_ended, &calls[i], bytes,
                WINDOW_MESSAGE, window.addr, i, &calls[i].id));
        }
        window_turns(&window);
        raw_peer_hang_up(&window.words);
        for (i = 0; i < WINDOW_MANY; i++)
            (void) conform_wait(&window.end, &calls[i]);
        HG_CHECK_RET(calls[WINDOW_MANY - 1].ret, NA_DISCONNECT);
        HG_CHECK_OK(calls[0].ret);
        HG_CHECK_OK(NA_Addr_free(window.end.na_class, window.addr));
        conform_close(&window.end);
        raw_peer_fini(&window.words);
    }
}

/* Sends of a class to itself wait, too. One that finds no memory then fails
 * alone: the own address stays. */
HG_TEST(sends_to_itself_that_wait_fail_alone)
{
    enum { COUNT = WINDOW / WINDOW_WEIGHT + 5 };
    static unsigned char bytes[WINDOW_MESSAGE];
    struct conform_call calls[COUNT];
    struct conform_end end;
    unsigned i, nth, failures = 0;
    bool failed = true;

    hg_test_alloc_install();
    hg_test_allow_log("");
    for (nth = 1; failed; nth++) {
        endpoint_open_info(&end, "zmq+tcp://127.0.0.1", NA_TRUE, NULL);
        memset(calls, 0, sizeof(calls));
        for (i = 0; i < COUNT; i++)
            HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
                conform_ended, &calls[i], bytes, sizeof(bytes), end.self, i,
                &calls[i].id));
        hg_test_alloc_fail_at(nth);
        for (i = 0; i < 10; i++)
            (void) conform_turn(end.na_class, end.context, 1);
        failed = hg_test_alloc_failed();
        hg_test_alloc_fail_at(0);
        for (i = 0; i < COUNT; i++) {
            na_return_t ret = conform_wait(&end, &calls[i]);

            HG_CHECK(ret == NA_SUCCESS || (failed && ret == NA_NOMEM));
            failures += ret != NA_SUCCESS;
        }
        HG_CHECK_OK(endpoint_send(&end, end.self, false, "x", 2, 1));
        conform_close(&end);
    }
    HG_CHECK(failures > 0);
}

/* More than was sent, by one byte or by all. */
HG_TEST(grants_of_too_much_end_the_connection)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static const struct {
        unsigned lane;
        uint32_t bytes;
    } wrong[] = {{0, 12 + 2 + WINDOW_COST + 1}, {0, UINT32_MAX}, {1, 1}};
    struct window window;
    unsigned listens, i;

    for (i = 0; i < WINDOW_BOTH * sizeof(wrong) / sizeof(wrong[0]); i++) {
        listens = i % 2;
        window_open(&window, listens == 1, &info);
        HG_CHECK_OK(endpoint_send(&window.end, window.addr, false, "x", 2, 1));
        window_grant(&window, 0, 0);
        window_grant(&window, wrong[i / 2].lane, wrong[i / 2].bytes);
        window_until_ended(&window, KIND_GRANT);
        window_close(&window);
    }
}

static _Atomic bool window_stays; /* shutdown() has no effect */
static _Atomic unsigned window_shutdowns;

int shutdown(int fd, int how)
{
    atomic_fetch_add(&window_shutdowns, 1);
    return atomic_load(&window_stays) ? 0
                                      : (int) syscall(SYS_shutdown, fd, how);
}

/* Once the first one has ended the connection, another connection may have the
 * descriptor. */
HG_TEST(grants_of_too_much_end_the_connection_once)
{
    struct window window;
    unsigned i;

    window_open(&window, false, NULL);
    atomic_store(&window_stays, true);
    atomic_store(&window_shutdowns, 0);
    for (i = 0; i < 3; i++)
        window_grant(&window, 0, UINT32_MAX);
    while (window_refused(&window, KIND_GRANT) < 3)
        window_turn(&window);
    HG_CHECK_EQ_INT(atomic_load(&window_shutdowns), 1);
    atomic_store(&window_stays, false);
    window_close(&window);
}

/* A grant of a lane that does not exist, with a body or a second part is
 * refused, and has no effect. */
HG_TEST(malformed_grants_are_refused)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct window window;
    unsigned char bytes[16] = {0};
    unsigned listens;

    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        window_grant(&window, 2, 0);
        (void) raw_peer_header(bytes, KIND_GRANT);
        window_send(&window, bytes, 13);
        if (listens == 1)
            raw_peer_send(&window.words, window.id, window.id_size, true);
        raw_peer_send(&window.words, bytes, 12, true);
        raw_peer_send(&window.words, "", 0, false);
        while (window_refused(&window, KIND_GRANT) < 3)
            window_turn(&window);
        HG_CHECK_OK(endpoint_send(&window.end, window.addr, false, "x", 2, 1));
        HG_CHECK_EQ_U64(window_hear(&window, bytes, sizeof(bytes)), 14);
        window_close(&window);
    }
}

/* ---- Frames ---- */

enum { WINDOW_PIECE = 4096 };

/* The request for a piece of memory. */
static void window_get(
    struct window *window, const unsigned char *handle, uint64_t id)
{
    unsigned char bytes[12 + 48] = {0};

    (void) raw_peer_header(bytes, KIND_FRAME);
    memcpy(bytes + 12, "hR\2\1", 4);
    raw_peer_put(bytes + 12 + 8, 8, id);
    memcpy(bytes + 12 + 16, handle + 8, 8); /* the key */
    raw_peer_put(bytes + 12 + 32, 8, WINDOW_PIECE);
    window_send(window, bytes, sizeof(bytes));
}

/* Small pieces are copied into libzmq. A peer that requests more of them and
 * does not grant is disconnected, when 1,024 requests wait. */
HG_TEST(answers_to_requests_for_memory_are_limited)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static unsigned char memory[WINDOW_PIECE];
    enum { REQUESTS = 4000 };
    struct window window;
    unsigned char handle[64];
    na_mem_handle_t mem;
    unsigned listens, i;

    hg_test_allow_log("closing the connection");
    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

        window_open(&window, listens == 1, &info);
        mem = endpoint_register(&window.end, memory, sizeof(memory));
        HG_CHECK_OK(NA_Mem_handle_serialize(
            window.end.na_class, handle, sizeof(handle), mem));
        for (i = 0; i < REQUESTS; i++)
            window_get(&window, handle, i);
        while (NA_Get_counter(window.end.na_class, "rma_dropped") == 0) {
            HG_CHECK(endpoint_ms() < end);
            window_turn(&window);
            HG_CHECK(NA_Get_counter(window.end.na_class, "rma_frames") <
                WINDOW / WINDOW_PIECE + 1);
        }
        HG_CHECK_OK(NA_Mem_handle_free(window.end.na_class, mem));
        window_close(&window);
    }
}

/* With grants all are answered. */
HG_TEST(answers_to_requests_for_memory_continue_with_grants)
{
    static const struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static unsigned char memory[WINDOW_PIECE], bytes[12 + WINDOW_PIECE];
    enum { REQUESTS = 600 };
    struct window window;
    unsigned char handle[64];
    na_mem_handle_t mem;
    unsigned listens, i;

    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        mem = endpoint_register(&window.end, memory, sizeof(memory));
        HG_CHECK_OK(NA_Mem_handle_serialize(
            window.end.na_class, handle, sizeof(handle), mem));
        for (i = 0; i < REQUESTS; i++)
            window_get(&window, handle, i);
        for (i = 0; i < REQUESTS; i++) {
            HG_CHECK_EQ_U64(
                window_hear(&window, bytes, sizeof(bytes)), 12 + 48);
            HG_CHECK_EQ_U64(raw_peer_hear(&window.words, bytes, sizeof(bytes)),
                WINDOW_PIECE);
            window_grant(&window, 1, 12 + 48 + WINDOW_PIECE + WINDOW_COST);
        }
        window_turns(&window);
        HG_CHECK_EQ_U64(window_refused(&window, KIND_GRANT), 0);
        HG_CHECK_OK(NA_Mem_handle_free(window.end.na_class, mem));
        window_close(&window);
    }
}

/* ---- Messages that the class does not take ---- */

static void window_small_queue(struct na_init_info *info)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;

    *info = fresh;
    info->max_queue_bytes = 100000;
}

/* The peer sends until its window is full, and goes on when the class grants,
 * which takes one message after the other: none is lost. */
HG_TEST(messages_that_are_taken_slowly_arrive)
{
    static unsigned char got[WINDOW_MESSAGE], grant[64];
    enum { COUNT = 100 };
    struct na_init_info info;
    struct window window;
    struct conform_call recv;
    unsigned listens, i, sent;

    window_small_queue(&info);
    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        uint64_t unread = listens == 0 ? 12 + WINDOW_COST : 0;

        window_open(&window, listens == 1, &info);
        sent = 0;
        for (i = 0; i < COUNT; i++) {
            while (sent < COUNT && unread < WINDOW) {
                window_send_message(&window, WINDOW_MESSAGE, ++sent);
                unread += WINDOW_WEIGHT;
            }
            HG_CHECK_OK(
                conform_recv(&window.end, &recv, false, got, sizeof(got), 0));
            HG_CHECK_OK(conform_wait(&window.end, &recv));
            HG_CHECK_EQ_U64(recv.size, WINDOW_MESSAGE);
            HG_CHECK_EQ_INT(recv.tag, i + 1);
            conform_free_addr(&window.end, &recv);
            if (unread < WINDOW || sent == COUNT)
                continue;
            HG_CHECK(sent - i <= WINDOW / WINDOW_WEIGHT + 2);
            if (sent - i > 16) /* nothing can have been granted */
                continue;
            HG_CHECK_EQ_U64(window_hear(&window, grant, sizeof(grant)), 12);
            HG_CHECK_EQ_INT(grant[3], KIND_GRANT);
            HG_CHECK_EQ_INT(grant[4], 0);
            HG_CHECK(raw_peer_get(grant + 8, 4) <= unread);
            unread -= raw_peer_get(grant + 8, 4);
        }
        HG_CHECK_EQ_U64(NA_Get_counter(window.end.na_class, "msg_dropped"), 0);
        HG_CHECK_EQ_U64(window_refused(&window, KIND_MESSAGE), 0);
        window_close(&window);
    }
}

/* Messages that are refused count, too: others follow. */
HG_TEST(messages_that_are_refused_are_granted)
{
    static unsigned char bytes[12 + WINDOW_MESSAGE];
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct window window;
    unsigned char grant[64];
    unsigned listens, i;

    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        (void) raw_peer_header(bytes, KIND_MESSAGE);
        bytes[4] = 3; /* no plane */
        for (i = 0; i < WINDOW / WINDOW_WEIGHT; i++)
            window_send(&window, bytes, sizeof(bytes));
        HG_CHECK_EQ_U64(window_hear(&window, grant, sizeof(grant)), 12);
        HG_CHECK_EQ_INT(grant[3], KIND_GRANT);
        window_close(&window);
    }
}

/* The peer has a larger maximum. It learns that its message is lost. */
HG_TEST(message_longer_than_the_maximum_ends_the_connection)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct window window;
    unsigned listens;

    info.max_unexpected_size = WINDOW_MESSAGE - 1;
    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        window_send_message(&window, WINDOW_MESSAGE, 1);
        window_until_ended(&window, KIND_MESSAGE);
        window_close(&window);
    }
}

/* The peer ignores its window. */
HG_TEST(messages_beyond_the_window_end_the_connection)
{
    struct na_init_info info;
    struct window window;
    unsigned listens, i;

    hg_test_allow_log("no receive was posted");
    window_small_queue(&info);
    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        for (i = 0; i < 3 * WINDOW / WINDOW_WEIGHT; i++)
            window_send_message(&window, WINDOW_MESSAGE, i);
        window_until_ended(&window, KIND_MESSAGE);
        HG_CHECK(NA_Get_counter(window.end.na_class, "msg_dropped") <=
            WINDOW / WINDOW_WEIGHT + 1);
        window_close(&window);
    }
}

/* A BYE lets the messages before it pass, and nothing follows it. */
HG_TEST(bye_adds_held_messages_to_the_queue)
{
    static unsigned char got[WINDOW_MESSAGE], bytes[64];
    enum { COUNT = 10 };
    struct na_init_info info;
    struct window window;
    struct conform_call recv;
    unsigned listens, i;

    window_small_queue(&info);
    for (listens = 0; listens < WINDOW_BOTH; listens++) {
        window_open(&window, listens == 1, &info);
        for (i = 0; i < COUNT; i++)
            window_send_message(&window, WINDOW_MESSAGE, i);
        window_send(&window, bytes, raw_peer_header(bytes, KIND_BYE));
        HG_CHECK_EQ_U64(window_hear(&window, bytes, sizeof(bytes)), 12);
        HG_CHECK_EQ_INT(bytes[3], KIND_BYE_ACK);
        window_send_message(&window, 0, COUNT);
        while (window_refused(&window, KIND_MESSAGE) == 0)
            window_turn(&window);
        for (i = 0; i < COUNT; i++) {
            HG_CHECK_OK(
                conform_recv(&window.end, &recv, false, got, sizeof(got), 0));
            HG_CHECK_OK(conform_wait(&window.end, &recv));
            HG_CHECK_EQ_INT(recv.tag, i);
            conform_free_addr(&window.end, &recv);
        }
        HG_CHECK_EQ_U64(NA_Get_counter(window.end.na_class, "msg_dropped"), 0);
        window_close(&window);
    }
}

/* ---- Connections one after the other ---- */

enum { WINDOW_ROUNDS = 3 };

/* `from` sends almost as much as is granted at a time. Returns the address of
 * `from`. */
static na_addr_t window_almost_half(
    struct conform_end *from, struct conform_end *to, na_addr_t addr)
{
    static unsigned char bytes[WINDOW_MESSAGE], got[WINDOW_MESSAGE];
    const unsigned count = WINDOW / 2 / WINDOW_WEIGHT;
    struct conform_call send, recv;
    na_addr_t seen = NA_ADDR_NULL;
    unsigned i;

    for (i = 0; i < count; i++) {
        HG_CHECK_OK(conform_recv(to, &recv, false, got, sizeof(got), 0));
        memset(&send, 0, sizeof(send));
        HG_CHECK_OK(NA_Msg_send_unexpected(from->na_class, from->context,
            conform_ended, &send, bytes, sizeof(bytes), addr, i, &send.id));
        HG_CHECK_OK(endpoint_wait_both(from, to, &recv));
        HG_CHECK_OK(endpoint_wait_both(from, to, &send));
        if (i > 0)
            conform_free_addr(to, &recv);
        else
            seen = recv.addr;
    }
    return seen;
}

/* Bytes that one connection did not grant do not count on the next one. */
HG_TEST(windows_are_open_on_each_new_connection)
{
    struct conform_end server, client;
    struct conform_call end;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr, seen;
    unsigned round;

    endpoint_open(&server, "zmq+tcp://127.0.0.1", 5000);
    endpoint_open(&client, "zmq+tcp://", 5000);
    endpoint_name(&server, server.self, name);
    addr = endpoint_lookup_both(&client, &server, name);
    for (round = 0; round < WINDOW_ROUNDS; round++) {
        seen = window_almost_half(&client, &server, addr);
        HG_CHECK_OK(NA_Addr_free(
            client.na_class, window_almost_half(&server, &client, seen)));
        memset(&end, 0, sizeof(end));
        HG_CHECK_OK(NA_Addr_terminate(client.na_class, client.context,
            conform_ended, &end, addr, &end.id));
        HG_CHECK_OK(endpoint_wait_both(&client, &server, &end));
        HG_CHECK_OK(NA_Addr_free(server.na_class, seen));
    }
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    HG_CHECK_EQ_U64(NA_Get_counter(client.na_class, "zmq_malformed"), 0);
    HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "zmq_malformed"), 0);
    conform_close(&client);
    conform_close(&server);
}

/* ---- Before the handshake ---- */

/* Open a class whose heartbeats end no connection. */
static void window_attacked(struct attacked *server, const char *string)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.death_ms = 120000;
    attacked_open_info(server, string, &info);
}

/* Wait until the class closes the connection, and return what it sent. */
static size_t window_until_closed(
    struct attacked *server, int fd, unsigned char *bytes, size_t space)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    size_t size = 0;

    for (;;) {
        ssize_t got = recv(fd, bytes + size, space - size, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN))
            return size;
        size += got > 0 ? (size_t) got : 0;
        HG_CHECK(size < space && endpoint_ms() < end);
        attacked_turn(server);
    }
}

static void window_before_hello(const char *string)
{
    struct attacked server;
    unsigned char bytes[4096];
    unsigned kind, i;
    int fd;

    window_attacked(&server, string);
    for (kind = 0; kind <= KIND_END; kind++) {
        if (kind == KIND_HELLO)
            continue;
        fd = raw_peer_shake(server.name, "", 0);
        for (i = 0; i < 5; i++)
            attacked_turn(&server); /* its connection is known */
        raw_peer_frame(fd, bytes, raw_peer_header(bytes, kind));
        (void) window_until_closed(&server, fd, bytes, sizeof(bytes));
        (void) close(fd);
    }
    HG_CHECK_EQ_U64(
        NA_Get_counter(server.end.na_class, "zmq_malformed"), KIND_END);
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "zmq_silent"), 0);
    attacked_serve(&server);
    attacked_close(&server);
}

HG_TEST(first_message_before_the_hello_ends_the_connection)
{
    window_before_hello("zmq+tcp://127.0.0.1");
}

HG_TEST(first_message_before_the_hello_ends_the_connection_on_ipc)
{
    window_before_hello("zmq+ipc://*");
}

/* HELLO alone does not finish the handshake. */
HG_TEST(first_message_before_the_confirm_ends_the_connection)
{
    static const unsigned kinds[] = {
        KIND_HELLO, KIND_CONFIRM, KIND_MESSAGE, KIND_FRAME, KIND_BYE};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    struct attacked server;
    struct raw_peer words;
    unsigned char bytes[4096];
    unsigned i, turns;
    int fd;

    memset(&words, 0, sizeof(words));
    words.random = hg_test_seed();
    window_attacked(&server, "zmq+tcp://127.0.0.1");
    for (i = 0; i < KINDS; i++) {
        fd = raw_peer_shake(server.name, "", 0);
        raw_peer_frame(fd, bytes, raw_peer_make(&words, bytes, KIND_HELLO));
        for (turns = 0; turns < 5; turns++)
            attacked_turn(&server); /* its connection is known */
        raw_peer_frame(fd, bytes, raw_peer_header(bytes, kinds[i]));
        (void) window_until_closed(&server, fd, bytes, sizeof(bytes));
        (void) close(fd);
    }
    HG_CHECK_EQ_U64(
        NA_Get_counter(server.end.na_class, "zmq_malformed"), KINDS);
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "zmq_silent"), 0);
    attacked_serve(&server);
    attacked_close(&server);
}

/* The messages follow libzmq's handshake at once. */
HG_TEST(flood_before_the_hello_ends_the_connection)
{
    static unsigned char frame[2 + 200] = {0, 200};
    unsigned char bytes[4096];
    struct attacked server;
    unsigned i;
    int fd;

    hg_test_allow_log("");
    window_attacked(&server, "zmq+tcp://127.0.0.1");
    (void) raw_peer_header(frame + 2, KIND_MESSAGE);
    fd = raw_peer_shake(server.name, "", 0);
    for (i = 0; i < 20000; i++) {
        if (send(fd, frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            attacked_turn(&server);
    }
    (void) window_until_closed(&server, fd, bytes, sizeof(bytes));
    (void) close(fd);
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "zmq_silent"), 0);
    attacked_serve(&server);
    attacked_close(&server);
}

/* Each HELLO of another version is answered, but not for ever. */
HG_TEST(hellos_of_another_version_end_the_connection)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    struct attacked server;
    struct raw_peer words;
    unsigned char bytes[4096], hello[64];
    unsigned answers, i;
    size_t heard = 0, size;
    ssize_t got = 1;
    int fd;

    memset(&words, 0, sizeof(words));
    words.random = hg_test_seed();
    window_attacked(&server, "zmq+tcp://127.0.0.1");
    fd = raw_peer_shake(server.name, "", 0);
    for (i = 0; i < 5; i++)
        attacked_turn(&server);
    for (answers = 0; got != 0; answers++) {
        const unsigned char *found = NULL;

        size = raw_peer_make(&words, hello, KIND_HELLO);
        hello[2] = 77;
        raw_peer_frame(fd, hello, size);
        for (heard = 0; got != 0 && found == NULL;
             heard += got > 0 ? (size_t) got : 0) {
            HG_CHECK(endpoint_ms() < end && heard < sizeof(bytes));
            attacked_turn(&server);
            got = recv(fd, bytes + heard, sizeof(bytes) - heard, MSG_DONTWAIT);
            if (got < 0 && errno != EAGAIN)
                got = 0; /* closed */
            found = (const unsigned char *) memmem(
                bytes, heard + (got > 0 ? (size_t) got : 0), "hz\2\4", 4);
        }
    }
    HG_CHECK_EQ_U64(NA_Get_counter(server.end.na_class, "zmq_silent"), 0);
    HG_CHECK(answers >= 2 && answers <= 20); /* with the last, unanswered one */
    (void) close(fd);
    attacked_serve(&server);
    attacked_close(&server);
}
