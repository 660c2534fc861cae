/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint: what the examples of the callback model share: a class and one
 * context on it. peer.h is its counterpart for the request model, and says how
 * the examples report errors.
 */
#ifndef HG_EXAMPLES_ENDPOINT_H
#define HG_EXAMPLES_ENDPOINT_H

#define HG_API_VERSION 2
#include "hg.h"

struct endpoint {
    hg_class_t *hg_class;
    hg_context_t *context;
};

/* Open an endpoint that listens on an address such as "sm://name". */
hg_return_t endpoint_listen(struct endpoint *endpoint, const char *address);

/* Open an endpoint that calls servers over the transport of `address`. Only the
 * scheme of the address counts here: nothing is looked up. */
hg_return_t endpoint_connect(struct endpoint *endpoint, const char *address);

/* Close context and class. Calls in flight end first. */
void endpoint_close(struct endpoint *endpoint);

/* Print the address of a listening endpoint to stdout, for the clients. */
hg_return_t endpoint_print_address(const struct endpoint *endpoint);

#endif
