/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that calls a function and then reads nothing from its connection,
 * silent or with PONGs that keep the connection alive. If the function moves
 * bulk data, the server's transfer ends at its time limit. If the client calls
 * again and again, the memory for its responses is limited. Others are served
 * meanwhile.
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

/* The largest output that fits in a message, nearly. */
static hg_return_t no_reader_answer(hg_handle_t handle)
{
    static unsigned char bytes[60000];
    struct blob blob = {sizeof(bytes), bytes};
    hg_return_t ret = HG_Handler_start_output(handle, &blob);

    /* HG_DISCONNECT: its connection has just ended. */
    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN || ret == HG_DISCONNECT);
    return HG_Handler_free(handle);
}

static hg_id_t no_reader_ids[2]; /* of pull and push */
static hg_id_t no_reader_answer_id;

static void no_reader_register(void)
{
    no_reader_ids[0] =
        HG_Register("store", hg_proc_no_reader_in_t, NULL, no_reader_store);
    no_reader_ids[1] =
        HG_Register("fill", hg_proc_no_reader_in_t, NULL, no_reader_fill);
    no_reader_answer_id =
        HG_Register("answer", NULL, blob_proc, no_reader_answer);
    HG_CHECK(no_reader_ids[0] != 0 && no_reader_ids[1] != 0);
    HG_CHECK(no_reader_answer_id != 0);
}

/* ---- The client ---- */

struct no_reader_client {
    int fd;
    bool talks;
    unsigned calls; /* of the function with the large output */
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
    static const unsigned char start[] = {'h', 'z', 2, KIND_WELCOME};
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

/* Call the function with the large output. False: the connection has ended. */
static bool no_reader_ask(const struct no_reader_client *client, unsigned i)
{
    unsigned char bytes[256];
    struct calls_message message = {.type = REQUEST};
    size_t size = 2 + raw_peer_header(bytes + 2, KIND_MESSAGE);

    bytes[0] = 0;
    bytes[2 + 4] = PLANE_RPC;
    message.id = no_reader_answer_id;
    message.sequence = i;
    size += calls_make(bytes + size, &message);
    bytes[1] = (unsigned char) (size - 2);
    return send(client->fd, bytes, size, MSG_NOSIGNAL) == (ssize_t) size;
}

/* Make the calls, and write PONGs, which libzmq accepts as a sign of life. */
static void *no_reader_talk(void *arg)
{
    static const unsigned char pong[] = "\4\5\4PONG";
    struct no_reader_client *client = (struct no_reader_client *) arg;
    unsigned i;

    for (i = 1; !atomic_load(&client->stop); i++) {
        if (client->talks && (i % 64 == 0 || i > client->calls))
            (void) send(client->fd, pong, sizeof(pong) - 1, MSG_NOSIGNAL);
        if (i > client->calls || !no_reader_ask(client, i))
            endpoint_sleep(20);
    }
    return NULL;
}

static void no_reader_connect(
    struct no_reader_client *client, struct calls_server *server, bool talks)
{
    int small = 4096;

    memset(client, 0, sizeof(*client));
    client->fd = raw_peer_shake(server->name, "", 0);
    HG_CHECK(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small,
                 sizeof(small)) == 0);
    client->talks = talks;
    atomic_init(&client->stop, false);
    no_reader_greet(client, &server->stranger);
}

static void no_reader_start(struct no_reader_client *client)
{
    HG_CHECK(
        pthread_create(&client->thread, NULL, no_reader_talk, client) == 0);
}

static void no_reader_close(struct no_reader_client *client)
{
    atomic_store(&client->stop, true);
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
    calls_open(&server, string, &options, no_reader_register);
    no_reader_connect(&client, &server, talks);
    no_reader_call_server(&client, no_reader_ids[push]);
    no_reader_start(&client);
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

/* Responses that nobody reads wait at the server, where they count: the limits
 * are those of the default, or 4 MiB. */
static void no_reader_flood(const char *string, bool full, bool talks)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct no_reader_client client;
    struct calls_server server;
    uint64_t limit = full ? (uint64_t) 400 << 20 : CALLS_SLACK;
    uint64_t before;

    if (!full)
        options.max_args_size = options.max_held_bytes = (size_t) 4 << 20;
    calls_death_ms = talks ? NO_READER_DEATH_MS : 500;
    calls_open(&server, string, &options, no_reader_register);
    no_reader_connect(&client, &server, talks);
    before = calls_peak();
    client.calls = full ? 100000 : 3000;
    no_reader_start(&client);
    while (calls_counters().requests_received < client.calls) {
        if (full && calls_counters().dropped > 0)
            break; /* its refusals are too many, too */
        if (!talks && calls_counters().turned_away > 0)
            break;
        calls_serve();
        HG_CHECK(full || calls_counters().held_bytes <= (uint64_t) 8 << 20);
    }
    HG_CHECK(calls_counters().turned_away > 0);
    HG_CHECK(calls_peak() - before < limit);
    while (!talks && calls_counters().held_bytes > 0)
        calls_serve(); /* until the connection is dead */
    no_reader_close(&client);
    calls_serve();
    calls_close(&server);
}

HG_TEST(responses_that_nobody_reads_are_limited)
{
    no_reader_flood("zmq+tcp://127.0.0.1", false, true);
}

HG_TEST(responses_that_nobody_reads_end_with_the_connection)
{
    no_reader_flood("zmq+tcp://127.0.0.1", false, false);
}

HG_TEST(responses_that_nobody_reads_are_limited_on_ipc)
{
    no_reader_flood("zmq+ipc://*", false, true);
}

HG_TEST(responses_that_nobody_reads_are_limited_by_default)
{
    if (getenv("HG_TEST_FULL") == NULL || !hg_test_is_plain())
        hg_test_skip("takes 5 s; set HG_TEST_FULL in a plain build");
    no_reader_flood("zmq+tcp://127.0.0.1", true, true);
}
