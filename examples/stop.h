/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stop: how the examples end well on Ctrl-C.
 *
 * A signal only raises a flag. It also ends a wait of the library, which
 * returns HG_INTR; a loop then looks at the flag. A signal that comes just
 * before a wait begins does not end it, so no wait here is longer than
 * half a second.
 */
#ifndef HG_EXAMPLES_STOP_H
#define HG_EXAMPLES_STOP_H

#include <stdbool.h>

#include "hg.h"

/* Call once, at the start of main: SIGINT and SIGTERM raise the flag. */
void stop_on_signals(void);

/* Whether a signal came. */
bool stop_wanted(void);

/* A server's main loop: execute calls until a signal comes. */
hg_return_t stop_serve(void);

/* A client's wait: the call's own result, or HG_CANCELED after a signal. The
 * request stays the caller's to free, which takes back a call in flight. */
hg_return_t stop_wait(hg_request_t request);

#endif
