/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RPC layer over ZeroMQ with a peer whose messages are all valid but never
 * complete: it announces arguments and never sends them, causes outputs and
 * never fetches them, calls without end and reads no response. The memory it
 * can make the server hold is limited, and a good client in its own process is
 * answered soon, all the time. (test_zmq_forged_calls.c covers invalid
 * messages.)
 */
#include "zmq_calls.h"

#define HOSTILE_OUTPUT ((size_t) 1 << 18)

/* An output too large for a message. */
static hg_return_t hostile_large(hg_handle_t handle)
{
    static unsigned char bytes[HOSTILE_OUTPUT];
    struct blob blob = {sizeof(bytes), bytes};
    hg_return_t ret = HG_Handler_start_output(handle, &blob);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
    return HG_Handler_free(handle);
}

/* Keeps its handles unanswered until the case ends. */
static hg_handle_t hostile_kept[8192];
static unsigned hostile_kept_count;

static hg_return_t hostile_keep(hg_handle_t handle)
{
    HG_CHECK(hostile_kept_count < 8192);
    hostile_kept[hostile_kept_count++] = handle;
    return HG_SUCCESS;
}

static hg_id_t hostile_good_id, hostile_large_id, hostile_keep_id;

static void hostile_register(void)
{
    hostile_good_id = calls_register_good();
    hostile_large_id = HG_Register("large", NULL, blob_proc, hostile_large);
    hostile_keep_id = HG_Register("keep", NULL, NULL, hostile_keep);
    HG_CHECK(hostile_large_id != 0 && hostile_keep_id != 0);
}

/* ---- The server ---- */

struct hostile_server {
    struct calls_server calls;
    uint64_t resident; /* bytes, at the start */
};

static void hostile_open(
    struct hostile_server *server, const struct hg_options *options)
{
    calls_open(
        &server->calls, "zmq+tcp://127.0.0.1", options, hostile_register);
    server->resident = calls_peak();
}

/* Nothing was refused as invalid; everything held for the peer is released with
 * it. */
static void hostile_close(struct hostile_server *server)
{
    while (hostile_kept_count > 0)
        HG_CHECK_OK(HG_Handler_free(hostile_kept[--hostile_kept_count]));
    calls_serve();
    HG_CHECK_EQ_U64(calls_counters().refused, 0);
    calls_close(&server->calls);
}

/* ---- The raw peer's calls ---- */

/* Call `id`. `claim`: announce arguments of so many bytes, to be fetched. */
static void hostile_call(struct hostile_server *server, hg_id_t id,
    uint64_t sequence, uint64_t claim)
{
    unsigned char payload[64];
    struct calls_message message = {.type = REQUEST};

    message.id = id;
    message.sequence = sequence;
    if (claim > 0) {
        message.flags = LARGE;
        message.payload = payload;
        message.size = calls_describe(payload, claim);
    }
    calls_send_message(&server->calls, &message);
}

/* The server has received so many calls of the raw peer; the good client is
 * served meanwhile. */
static void hostile_until(uint64_t turned_away)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (calls_counters().turned_away < turned_away) {
        HG_CHECK(endpoint_ms() < end);
        calls_turn(NULL);
    }
    calls_serve();
}

/* As much as it may announce at once: 5 TiB in all, of which no byte
 * arrives. */
HG_TEST(inputs_that_never_arrive_are_survived)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    hostile_open(&server, &options);
    for (i = 1; i <= 5000; i++) {
        hostile_call(&server, hostile_good_id, i, (uint64_t) 1 << 30);
        if (i % 500 == 0)
            calls_serve();
    }
    /* The first peer uses everything that one peer may use; the others get half
     * of the rest. */
    hostile_until(5000 - 1);
    HG_CHECK(calls_counters().turned_away < 5000);
    HG_CHECK(calls_counters().fetched_bytes >= (uint64_t) 1 << 30);
    HG_CHECK(calls_counters().fetched_bytes < (uint64_t) 1100 << 20);
    HG_CHECK(calls_peak() - server.resident < CALLS_SLACK);
    hostile_close(&server);
}

/* Here the peer stays: after output_hold_ms nothing of it is left. */
HG_TEST(inputs_that_arrive_slowly_time_out)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    options.output_hold_ms = 300;
    hostile_open(&server, &options);
    for (i = 1; i <= 20; i++)
        hostile_call(&server, hostile_good_id, i, 100000);
    while (calls_counters().fetched_bytes < 20 * 100000)
        calls_turn(NULL);
    while (calls_counters().fetched_bytes >= 100000)
        calls_serve();
    HG_CHECK(calls_counters().errors_sent >= 20);
    hostile_close(&server);
}

/* 150 MiB of outputs that are never fetched. */
HG_TEST(outputs_that_are_never_fetched_are_survived)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t held = (uint64_t) 4 << 20;
    uint64_t i;

    options.max_args_size = (size_t) held;
    hostile_open(&server, &options);
    for (i = 1; i <= 600; i++) {
        hostile_call(&server, hostile_large_id, i, 0);
        if (i % 20 == 0)
            calls_serve();
        HG_CHECK(calls_counters().held_bytes <= 2 * held);
    }
    hostile_until(600 - 2 * held / HOSTILE_OUTPUT);
    HG_CHECK(calls_counters().held_bytes <= 2 * held);
    HG_CHECK(calls_counters().held_bytes > held - 2 * HOSTILE_OUTPUT);
    HG_CHECK(calls_peak() - server.resident < 2 * held + CALLS_SLACK);
    hostile_close(&server);
}

/* More calls than the server accepts unanswered. */
HG_TEST(calls_that_are_never_answered_are_survived)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    hostile_open(&server, &options);
    for (i = 1; i <= 10000; i++) {
        hostile_call(&server, hostile_keep_id, i, 0);
        if (i % 1000 == 0)
            calls_serve();
    }
    hostile_until(10000 - 4096);
    HG_CHECK(hostile_kept_count <= 4096 && hostile_kept_count >= 4094);
    HG_CHECK(calls_peak() - server.resident < CALLS_SLACK);
    hostile_close(&server);
}
