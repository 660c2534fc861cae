/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses libzmq alone, with which the library's ZeroMQ figures are
 * compared. It encodes and dispatches nothing: its results are an upper bound.
 *
 * A server process (raw_zmq_serve) sleeps between rounds. A client
 * (raw_zmq_open) orders one round at a time; the order tells the server the
 * kind of work and how to wait meanwhile. A benchmark can therefore keep one
 * pair of sides open and alternate its own rounds with these: a side without a
 * round sleeps and costs nothing.
 *
 * Both sides use a ROUTER, as the transport does. A side is used by one thread
 * at a time. This header is independent of hg.h.
 */
#ifndef HG_TESTS_PERF_RAW_ZMQ_H
#define HG_TESTS_PERF_RAW_ZMQ_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a round. "Pull" and "push" are seen from the client. */
enum raw_zmq_kind { RAW_ZMQ_ECHO, RAW_ZMQ_PULL, RAW_ZMQ_PUSH };

/*
 * How both sides wait for the next message: asleep; polling and yielding the
 * processor; polling without yielding; or depending on the load: asleep at once
 * while much arrives (several messages are there on waking), else polling as in
 * "yield" for RAW_ZMQ_POLL_NS, then asleep.
 */
enum raw_zmq_wait {
    RAW_ZMQ_BLOCK,
    RAW_ZMQ_YIELD,
    RAW_ZMQ_SPIN,
    RAW_ZMQ_FOLLOW
};

/* "Much", within one interval: more messages, or more bytes, than these. */
#define RAW_ZMQ_INTERVAL_NS 1000000
#define RAW_ZMQ_MUCH_MESSAGES 100
#define RAW_ZMQ_MUCH_BYTES 262144
#define RAW_ZMQ_POLL_NS 300000

struct raw_zmq_round {
    enum raw_zmq_kind kind;
    enum raw_zmq_wait wait;
    size_t size;     /* bytes of an echo (8 or more), or of one transfer */
    size_t frame;    /* bytes of a frame of a transfer; an echo has none */
    unsigned window; /* echoes or frames in flight, 1 or more */
    double seconds;  /* the round lasts at least so long */
};

struct raw_zmq_result {
    uint64_t ops; /* echoes or whole transfers */
    double seconds;
};

struct raw_zmq; /* a client */

/*
 * Serve rounds on an endpoint ("tcp://127.0.0.1:*", "ipc:///path") until a
 * client calls raw_zmq_stop or a signal handler sets *stop. ready is called
 * once with the endpoint to connect to. Returns 0, or -1 after a line on
 * stderr.
 */
int raw_zmq_serve(const char *endpoint,
    void (*ready)(const char *endpoint, void *arg), void *arg,
    const volatile sig_atomic_t *stop);

/* Connect to a server; -1 after a line on stderr. */
int raw_zmq_open(const char *endpoint, struct raw_zmq **client_p);

/*
 * Order and run one round. The data is compared with what was sent, outside the
 * measured time; a difference is an error. 0, or -1 after a line on stderr.
 */
int raw_zmq_run(struct raw_zmq *client, const struct raw_zmq_round *round,
    struct raw_zmq_result *result_p);

/* Ask the server to return from raw_zmq_serve. */
int raw_zmq_stop(struct raw_zmq *client);

/* Close a client; NULL is allowed. */
void raw_zmq_close(struct raw_zmq *client);

const char *raw_zmq_kind_name(enum raw_zmq_kind kind);
const char *raw_zmq_wait_name(enum raw_zmq_wait wait);

#endif /* HG_TESTS_PERF_RAW_ZMQ_H */
