/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: what the examples of the request model share: how a server or a client
 * starts, waits and ends, also on Ctrl-C. endpoint.h is its counterpart for
 * the callback model.
 *
 * With "self://" one process is both: it registers the server's functions and
 * calls its own address.
 *
 * Signals. SIGINT and SIGTERM only set a flag. A signal also ends a wait of the
 * library, which then returns HG_INTR. A signal that arrives just before a wait
 * begins does not end that wait, so no wait here is longer than half a second.
 *
 * Errors. The function that detects an error prints one line to stderr; its
 * callers only return the code. The library logs what it detects. So a program
 * prints what it detects itself, and with peer_report the result of a call.
 */
#ifndef HG_EXAMPLES_PEER_H
#define HG_EXAMPLES_PEER_H

#include <stdbool.h>

#include "hg.h"

#define PEER_LOOKUP_MS 5000

struct peer {
    na_class_t *na_class;
    na_addr_t addr; /* of the server */
};

/* ---- Start and end ---- */

/* Listen on an address such as "zmq+tcp://127.0.0.1" and start the RPC layer.
 * peer->addr is then this process's own address. */
hg_return_t peer_listen(struct peer *peer, const char *address);

/* Start the RPC layer as a client of the server at `address`. */
hg_return_t peer_connect(struct peer *peer, const char *address);

/* Start the RPC layer as a client, without a lookup. `address` is the one on
 * which the server listens, or a list of transports. */
hg_return_t peer_open(struct peer *peer, const char *address);

/* End the RPC layer and close the transport. Does nothing to a peer of zeros
 * that was never started. */
void peer_close(struct peer *peer);

/* ---- Signals and waiting ---- */

/* Call once, at the start of main: SIGINT and SIGTERM set the flag. */
void peer_catch_signals(void);

/* Whether a signal has arrived. */
bool peer_is_stopped(void);

/* A server's main loop: execute calls until a signal arrives. */
hg_return_t peer_serve(void);

/* Wait for a call. Returns the result of the call, or HG_CANCELED after a
 * signal. The caller frees the request, which cancels a call in flight. */
hg_return_t peer_wait(hg_request_t request);

/* ---- Output ---- */

/* Print a line to stderr if `ret` is an error. `what` names the call that
 * ended with it. Returns `ret`. */
hg_return_t peer_report(const char *what, hg_return_t ret);

/* Print this process's address to stdout, for the clients. */
hg_return_t peer_print_address(const struct peer *peer);

#endif
