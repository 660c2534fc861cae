/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end: the way into the callback model that the examples share: a class, and
 * one context on it. peer.h is the same for the request model, and says how
 * the examples tell errors.
 */
#ifndef HG_EXAMPLES_END_H
#define HG_EXAMPLES_END_H

#define HG_API_VERSION 2
#include "hg.h"

struct end {
    hg_class_t *hg_class;
    hg_context_t *context;
};

/* Open an end that listens on an address such as "sm://name"; or one for calls
 * to such an address, of which only the scheme counts then. */
hg_return_t end_listen(struct end *end, const char *address);
hg_return_t end_connect(struct end *end, const char *address);

/* Close both. What is under way ends first. */
void end_close(struct end *end);

/* Print our address on stdout, for whoever calls. */
hg_return_t end_announce(const struct end *end);

#endif
