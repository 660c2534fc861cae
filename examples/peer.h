/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: the two ways into the library that the examples share, a server that
 * listens and a client that knows a server's address.
 *
 * With "self://" one process is both: it registers the server's functions,
 * and its own address is the server.
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

/* End both; for a peer that was zeroed and never started, nothing. */
void peer_close(struct peer *peer);

/* Write one line about a failure to stderr. */
void peer_complain(const char *what, hg_return_t ret);

/* Print our address on stdout, for whoever starts clients. */
hg_return_t peer_announce(const struct peer *peer);

#endif
