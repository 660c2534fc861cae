/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bare libzmq program that the library's ZeroMQ figures are compared
 * with.  It encodes and dispatches nothing: what it measures is a ceiling.
 *
 * A server process (raw_zmq_serve) waits asleep between rounds.  A client
 * (raw_zmq_open) orders one round at a time; the order tells the server the
 * kind of work and how to wait while it lasts.  A benchmark can therefore keep
 * one pair of ends open and let its own rounds and these alternate: whichever
 * end has no round is asleep and costs nothing.
 *
 * Both ends use a ROUTER, as the transport does.  An end is used by one thread
 * at a time.  This header knows nothing of hg.h.
 */
#ifndef HG_TESTS_PERF_RAW_ZMQ_H
#define HG_TESTS_PERF_RAW_ZMQ_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* What a round does.  "Pull" and "push" are seen from the client. */
enum raw_zmq_kind { RAW_ZMQ_ECHO, RAW_ZMQ_PULL, RAW_ZMQ_PUSH };

/*
 * How both ends wait for the next message: asleep; asking again and again,
 * giving up the processor in between; asking without giving it up; or as the
 * load demands: asleep at once while much arrives (a batch will be there on
 * waking), else asking as in "yield" for RAW_ZMQ_POLL_NS, then asleep.
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

struct raw_zmq; /* a client's end */

/*
 * Serves rounds on an endpoint ("tcp://127.0.0.1:*", "ipc:///path") until a
 * client says raw_zmq_stop or *stop becomes non-zero by a signal handler.
 * ready is called once with the endpoint to connect to.  Returns 0, or -1
 * after a line on stderr.
 */
int raw_zmq_serve(const char *endpoint,
    void (*ready)(const char *endpoint, void *arg), void *arg,
    const volatile sig_atomic_t *stop);

/* Connects to a server; -1 after a line on stderr. */
int raw_zmq_open(const char *endpoint, struct raw_zmq **client_p);

/*
 * Orders and runs one round.  The data that moved is compared with what was
 * sent, outside the measured time; a difference is an error.  0, or -1 after
 * a line on stderr.
 */
int raw_zmq_run(struct raw_zmq *client, const struct raw_zmq_round *round,
    struct raw_zmq_result *result_p);

/* Asks the server to return from raw_zmq_serve. */
int raw_zmq_stop(struct raw_zmq *client);

/* Closes a client; NULL is allowed. */
void raw_zmq_close(struct raw_zmq *client);

const char *raw_zmq_kind_name(enum raw_zmq_kind kind);
const char *raw_zmq_wait_name(enum raw_zmq_wait wait);

#endif /* HG_TESTS_PERF_RAW_ZMQ_H */
