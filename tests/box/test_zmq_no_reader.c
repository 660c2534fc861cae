/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that calls a function with bulk data and then reads nothing from its
 * connection, silent or with PONGs that keep the connection alive. The server's
 * transfer ends at its time limit, and others are served meanwhile.
 */
#include "zmq_calls.h"

#include <pthread.h>

/* More than the buffers of a socket hold. */
#define UNREAD_SIZE ((size_t) 64 << 20)

#define UNREAD_BULK_MS 300u

/* Longer than the time limit of the transfer. */
#define UNREAD_DEATH_MS 120000u

#define UNREAD_DESCRIPTION 69 /* bytes of a bulk handle */

MERCURY_GEN_PROC(unread_in_t, ((hg_bulk_t) (bulk)))

/* ---- The server's function ---- */

/* The call and its result. */
struct unread_call {
    hg_handle_t handle;
    hg_bulk_t bulk;
    bool push;
    pthread_t thread;
    _Atomic bool moved;
    hg_return_t ret;
};

static struct unread_call unread_call;

static void *unread_move(void *arg)
{
    struct unread_call *call = (struct unread_call *) arg;
    unsigned char *memory = endpoint_map(UNREAD_SIZE);

    call->ret = call->push
        ? HG_Bulk_push(call->handle, call->bulk, 0, memory, UNREAD_SIZE)
        : HG_Bulk_pull(call->handle, call->bulk, 0, memory, UNREAD_SIZE);
    endpoint_unmap(memory, UNREAD_SIZE);
    atomic_store(&call->moved, true);
    return NULL;
}

/* Its own thread moves the data. */
static hg_return_t unread_begin(hg_handle_t handle, bool push)
{
    unread_in_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    unread_call.handle = handle;
    unread_call.bulk = in.bulk;
    unread_call.push = push;
    HG_CHECK(pthread_create(
                 &unread_call.thread, NULL, unread_move, &unread_call) == 0);
    return HG_SUCCESS;
}

static hg_return_t unread_fill(hg_handle_t handle)
{
    return unread_begin(handle, true);
}

static hg_return_t unread_store(hg_handle_t handle)
{
    return unread_begin(handle, false);
}

static hg_id_t unread_ids[2]; /* of pull and push */

static void unread_register(void)
{
    unread_ids[0] =
        HG_Register("store", hg_proc_unread_in_t, NULL, unread_store);
    unread_ids[1] = HG_Register("fill", hg_proc_unread_in_t, NULL, unread_fill);
    HG_CHECK(unread_ids[0] != 0 && unread_ids[1] != 0);
}

/* ---- The client ---- */

struct unread_client {
    int fd;
    bool talks;
    _Atomic bool stop;
    pthread_t thread;
};

/* Write a message of one frame that is no longer than 255 bytes. */
static void unread_send(
    struct unread_client *client, struct raw_peer *words, unsigned kind)
{
    unsigned char bytes[256];

    raw_peer_frame(client->fd, bytes, raw_peer_make(words, bytes, kind));
}

/* Read until the nonce of the WELCOME was read. */
static void unread_greet(struct unread_client *client, struct raw_peer *words)
{
    static const unsigned char start[] = {'h', 'z', 1, KIND_WELCOME};
    unsigned char heard[1024];
    const unsigned char *found = NULL;
    size_t size = 0;

    unread_send(client, words, KIND_HELLO);
    while (found == NULL || found + 36 > heard + size) {
        ssize_t got =
            recv(client->fd, heard + size, sizeof(heard) - size, MSG_DONTWAIT);

        HG_CHECK(got != 0);
        size += got > 0 ? (size_t) got : 0;
        calls_turn(NULL);
        found =
            (const unsigned char *) memmem(heard, size, start, sizeof(start));
    }
    memcpy(words->nonce, found + 28, 8);
    unread_send(client, words, KIND_CONFIRM);
}

/* The bulk handle of a client that does not listen. */
static size_t unread_describe(unsigned char *bytes)
{
    memset(bytes, 0, 4 + UNREAD_DESCRIPTION);
    raw_peer_put(bytes, 4, UNREAD_DESCRIPTION);
    memcpy(bytes + 4, "HGB1\2\3", 6);
    raw_peer_put(bytes + 4 + 8, 8, UNREAD_SIZE);
    raw_peer_put(bytes + 4 + 16, 8, 1);  /* segments */
    raw_peer_put(bytes + 4 + 24, 8, 99); /* incarnation */
    raw_peer_put(bytes + 4 + 32, 8, 1);  /* id */
    raw_peer_put(bytes + 4 + 40, 4, 24); /* bytes of the memory handle */
    memcpy(bytes + 4 + 45, "hM\1\3", 4);
    raw_peer_put(bytes + 4 + 53, 8, 77);
    raw_peer_put(bytes + 4 + 61, 8, UNREAD_SIZE);
    return 4 + UNREAD_DESCRIPTION;
}

static void unread_call_server(struct unread_client *client, hg_id_t id)
{
    unsigned char payload[4 + UNREAD_DESCRIPTION];
    unsigned char bytes[256];
    struct calls_message message = {.type = REQUEST};
    size_t size = raw_peer_header(bytes, KIND_MESSAGE);

    bytes[4] = PLANE_RPC;
    message.id = id;
    message.sequence = 1;
    message.payload = payload;
    message.size = unread_describe(payload);
    size += calls_make(bytes + size, &message);
    raw_peer_frame(client->fd, bytes, size);
}

/* Write PONGs, which libzmq accepts as a sign of life. */
static void *unread_talk(void *arg)
{
    static const unsigned char pong[] = "\4\5\4PONG";
    struct unread_client *client = (struct unread_client *) arg;

    while (!atomic_load(&client->stop)) {
        (void) send(client->fd, pong, sizeof(pong) - 1, MSG_NOSIGNAL);
        endpoint_sleep(20);
    }
    return NULL;
}

static void unread_open(struct unread_client *client,
    struct calls_server *server, bool push, bool talks)
{
    int small = 4096;

    client->fd = raw_peer_shake(server->name, "", 0);
    HG_CHECK(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small,
                 sizeof(small)) == 0);
    client->talks = talks;
    atomic_init(&client->stop, false);
    unread_greet(client, &server->stranger);
    unread_call_server(client, unread_ids[push]);
    if (talks)
        HG_CHECK(
            pthread_create(&client->thread, NULL, unread_talk, client) == 0);
}

static void unread_close(struct unread_client *client)
{
    atomic_store(&client->stop, true);
    if (client->talks)
        HG_CHECK(pthread_join(client->thread, NULL) == 0);
    HG_CHECK(close(client->fd) == 0);
}

/* ---- Cases ---- */

static void unread_run(const char *string, bool push, bool talks)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct unread_client client;
    struct calls_server server;

    hg_test_expect_log(push ? "HG_Bulk_push of 67108864 bytes of zmq+"
                            : "HG_Bulk_pull of 67108864 bytes of zmq+");
    options.bulk_ms = UNREAD_BULK_MS;
    calls_death_ms = UNREAD_DEATH_MS;
    HG_CHECK_OK(HG_Set_log_level("warning"));
    calls_open(&server, string, &options, CONFORM_TIMEOUT, unread_register);
    unread_open(&client, &server, push, talks);
    do
        calls_serve();
    while (!atomic_load(&unread_call.moved));
    HG_CHECK(pthread_join(unread_call.thread, NULL) == 0);
    HG_CHECK_RET(unread_call.ret, HG_TIMEOUT);
    HG_CHECK_OK(HG_Bulk_handle_free(unread_call.bulk));
    HG_CHECK_OK(HG_Handler_free(unread_call.handle));
    calls_serve();
    unread_close(&client);
    calls_close(&server);
}

HG_TEST(push_to_a_client_that_reads_nothing_ends)
{
    unread_run("zmq+tcp://127.0.0.1", true, false);
}

HG_TEST(push_to_a_client_that_reads_nothing_and_writes_ends)
{
    unread_run("zmq+tcp://127.0.0.1", true, true);
}

HG_TEST(push_to_a_client_that_reads_nothing_ends_on_ipc)
{
    unread_run("zmq+ipc://*", true, true);
}

HG_TEST(pull_from_a_client_that_reads_nothing_ends)
{
    unread_run("zmq+tcp://127.0.0.1", false, false);
}

HG_TEST(pull_from_a_client_that_reads_nothing_and_writes_ends)
{
    unread_run("zmq+tcp://127.0.0.1", false, true);
}
