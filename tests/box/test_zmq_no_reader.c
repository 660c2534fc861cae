/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that calls a function with bulk data and then reads nothing from its
 * connection, silent or with PONGs that keep the connection alive. The server's
 * transfer ends at its time limit, and others are served meanwhile.
 */
#include "zmq_calls.h"

#include <pthread.h>

/* More than the buffers of a socket hold. */
#define NO_READER_SIZE ((size_t) 64 << 20)

#define NO_READER_BULK_MS 300u

/* Longer than the time limit of the transfer. */
#define NO_READER_DEATH_MS 120000u

#define NO_READER_DESCRIPTION 69 /* bytes of a bulk handle */

MERCURY_GEN_PROC(no_reader_in_t, ((hg_bulk_t) (bulk)))

/* ---- The server's function ---- */

/* The call and its result. */
struct no_reader_call {
    hg_handle_t handle;
    hg_bulk_t bulk;
    bool push;
    pthread_t thread;
    _Atomic bool moved;
    hg_return_t ret;
};

static struct no_reader_call no_reader_call;

static void *no_reader_move(void *arg)
{
    struct no_reader_call *call = (struct no_reader_call *) arg;
    unsigned char *memory = endpoint_map(NO_READER_SIZE);

    call->ret = call->push
        ? HG_Bulk_push(call->handle, call->bulk, 0, memory, NO_READER_SIZE)
        : HG_Bulk_pull(call->handle, call->bulk, 0, memory, NO_READER_SIZE);
    endpoint_unmap(memory, NO_READER_SIZE);
    atomic_store(&call->moved, true);
    return NULL;
}

/* Its own thread moves the data. */
static hg_return_t no_reader_begin(hg_handle_t handle, bool push)
{
    no_reader_in_t in;

    HG_CHECK_OK(HG_Handler_get_input(handle, &in));
    no_reader_call.handle = handle;
    no_reader_call.bulk = in.bulk;
    no_reader_call.push = push;
    HG_CHECK(pthread_create(&no_reader_call.thread, NULL, no_reader_move,
                 &no_reader_call) == 0);
    return HG_SUCCESS;
}

static hg_return_t no_reader_fill(hg_handle_t handle)
{
    return no_reader_begin(handle, true);
}

static hg_return_t no_reader_store(hg_handle_t handle)
{
    return no_reader_begin(handle, false);
}

static hg_id_t no_reader_ids[2]; /* of pull and push */

static void no_reader_register(void)
{
    no_reader_ids[0] =
        HG_Register("store", hg_proc_no_reader_in_t, NULL, no_reader_store);
    no_reader_ids[1] =
        HG_Register("fill", hg_proc_no_reader_in_t, NULL, no_reader_fill);
    HG_CHECK(no_reader_ids[0] != 0 && no_reader_ids[1] != 0);
}

/* ---- The client ---- */

struct no_reader_client {
    int fd;
    bool talks;
    _Atomic bool stop;
    pthread_t thread;
};

/* Write a message of one frame that is no longer than 255 bytes. */
static void no_reader_send(
    struct no_reader_client *client, struct raw_peer *words, unsigned kind)
{
    unsigned char bytes[256];

    raw_peer_frame(client->fd, bytes, raw_peer_make(words, bytes, kind));
}

/* Read until the nonce of the WELCOME was read. */
static void no_reader_greet(
    struct no_reader_client *client, struct raw_peer *words)
{
    static const unsigned char start[] = {'h', 'z', 1, KIND_WELCOME};
    unsigned char heard[1024];
    const unsigned char *found = NULL;
    size_t size = 0;

    no_reader_send(client, words, KIND_HELLO);
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
    no_reader_send(client, words, KIND_CONFIRM);
}

/* The bulk handle of a client that does not listen. */
static size_t no_reader_describe(unsigned char *bytes)
{
    memset(bytes, 0, 4 + NO_READER_DESCRIPTION);
    raw_peer_put(bytes, 4, NO_READER_DESCRIPTION);
    memcpy(bytes + 4, "HGB1\2\3", 6);
    raw_peer_put(bytes + 4 + 8, 8, NO_READER_SIZE);
    raw_peer_put(bytes + 4 + 16, 8, 1);  /* segments */
    raw_peer_put(bytes + 4 + 24, 8, 99); /* incarnation */
    raw_peer_put(bytes + 4 + 32, 8, 1);  /* id */
    raw_peer_put(bytes + 4 + 40, 4, 24); /* bytes of the memory handle */
    memcpy(bytes + 4 + 45, "hM\1\3", 4);
    raw_peer_put(bytes + 4 + 53, 8, 77);
    raw_peer_put(bytes + 4 + 61, 8, NO_READER_SIZE);
    return 4 + NO_READER_DESCRIPTION;
}

static void no_reader_call_server(struct no_reader_client *client, hg_id_t id)
{
    unsigned char payload[4 + NO_READER_DESCRIPTION];
    unsigned char bytes[256];
    struct calls_message message = {.type = REQUEST};
    size_t size = raw_peer_header(bytes, KIND_MESSAGE);

    bytes[4] = PLANE_RPC;
    message.id = id;
    message.sequence = 1;
    message.payload = payload;
    message.size = no_reader_describe(payload);
    size += calls_make(bytes + size, &message);
    raw_peer_frame(client->fd, bytes, size);
}

/* Write PONGs, which libzmq accepts as a sign of life. */
static void *no_reader_talk(void *arg)
{
    static const unsigned char pong[] = "\4\5\4PONG";
    struct no_reader_client *client = (struct no_reader_client *) arg;

    while (!atomic_load(&client->stop)) {
        (void) send(client->fd, pong, sizeof(pong) - 1, MSG_NOSIGNAL);
        endpoint_sleep(20);
    }
    return NULL;
}

static void no_reader_open(struct no_reader_client *client,
    struct calls_server *server, bool push, bool talks)
{
    int small = 4096;

    client->fd = raw_peer_shake(server->name, "", 0);
    HG_CHECK(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small,
                 sizeof(small)) == 0);
    client->talks = talks;
    atomic_init(&client->stop, false);
    no_reader_greet(client, &server->stranger);
    no_reader_call_server(client, no_reader_ids[push]);
    if (talks)
        HG_CHECK(
            pthread_create(&client->thread, NULL, no_reader_talk, client) == 0);
}

static void no_reader_close(struct no_reader_client *client)
{
    atomic_store(&client->stop, true);
    if (client->talks)
        HG_CHECK(pthread_join(client->thread, NULL) == 0);
    HG_CHECK(close(client->fd) == 0);
}

/* ---- Cases ---- */

static void no_reader_run(const char *string, bool push, bool talks)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct no_reader_client client;
    struct calls_server server;

    hg_test_expect_log(push ? "HG_Bulk_push of 67108864 bytes of zmq+"
                            : "HG_Bulk_pull of 67108864 bytes of zmq+");
    options.bulk_ms = NO_READER_BULK_MS;
    calls_death_ms = NO_READER_DEATH_MS;
    HG_CHECK_OK(HG_Set_log_level("warning"));
    calls_open(&server, string, &options, CONFORM_TIMEOUT, no_reader_register);
    no_reader_open(&client, &server, push, talks);
    do
        calls_serve();
    while (!atomic_load(&no_reader_call.moved));
    HG_CHECK(pthread_join(no_reader_call.thread, NULL) == 0);
    HG_CHECK_RET(no_reader_call.ret, HG_TIMEOUT);
    HG_CHECK_OK(HG_Bulk_handle_free(no_reader_call.bulk));
    HG_CHECK_OK(HG_Handler_free(no_reader_call.handle));
    calls_serve();
    no_reader_close(&client);
    calls_close(&server);
}

HG_TEST(push_to_a_client_that_reads_nothing_ends)
{
    no_reader_run("zmq+tcp://127.0.0.1", true, false);
}

HG_TEST(push_to_a_client_that_reads_nothing_and_writes_ends)
{
    no_reader_run("zmq+tcp://127.0.0.1", true, true);
}

HG_TEST(push_to_a_client_that_reads_nothing_ends_on_ipc)
{
    no_reader_run("zmq+ipc://*", true, true);
}

HG_TEST(pull_from_a_client_that_reads_nothing_ends)
{
    no_reader_run("zmq+tcp://127.0.0.1", false, false);
}

HG_TEST(pull_from_a_client_that_reads_nothing_and_writes_ends)
{
    no_reader_run("zmq+tcp://127.0.0.1", false, true);
}
