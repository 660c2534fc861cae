/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: the two ways into the library that the examples share, a server that
 * listens and a client that knows a server's address.
 *
 * With "self://" one process is both: it registers the server's functions,
 * and its own address is the server.
 *
 * Errors in the examples: whoever finds one writes one line to stderr, whoever
 * is told of one hands the code up. The library does so too, so that a program
 * has to tell only what it finds itself, and what came back from a server:
 * peer_say.
 */
#ifndef HG_EXAMPLES_PEER_H
#define HG_EXAMPLES_PEER_H

#include "hg.h"

#define PEER_LOOKUP_MS 5000

struct peer {
    na_class_t *na_class;
    na_addr_t addr; /* of the server */
};

/* Listen on an address such as "zmq+tcp://127.0.0.1" and start the RPC
 * layer; peer->addr is our own address. */
hg_return_t peer_listen(struct peer *peer, const char *address);

/* Start the RPC layer as a client of the server at `address`. */
hg_return_t peer_connect(struct peer *peer, const char *address);

/* Start the RPC layer as a client. `address` is what the server listens on, or
 * a list of transports; the server is yet to be looked up. */
hg_return_t peer_join(struct peer *peer, const char *address);

/* End both; for a peer that was zeroed and never started, nothing. */
void peer_close(struct peer *peer);

/* Write a line about the code that a call ended with, if it is an error; `what`
 * is the call. Returns the code. */
hg_return_t peer_say(const char *what, hg_return_t ret);

/* Print our address on stdout, for whoever starts clients. */
hg_return_t peer_announce(const struct peer *peer);

#endif
