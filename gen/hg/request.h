/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: calls of ours, as the request model has them.
 *
 * A request is a call whose callback decodes the output and raises a flag;
 * HG_Wait waits for the flag. Freed in flight, the call is taken back and
 * its callback frees the request, so that nobody waits for an answer that may
 * never come.
 *
 *     WAITING --ended--> DECODING --> DONE --freed--> gone
 *        +-----freed--> ABANDONED --ended--> gone
 *
 * Locking: wait's mutex guards the list of requests, their states and flags.
 * No proc runs under it.
 */
#ifndef HG_GEN_HG_REQUEST_H
#define HG_GEN_HG_REQUEST_H

#include "base/os.h"

/* Free the requests the application left; the gate is closed. */
HG_PRIVATE void hg_request_free_all(void);

#endif
