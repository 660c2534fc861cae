/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: calls of ours, as the request model has them.
 *
 * A request is a call whose callback decodes the output and raises a flag;
 * HG_Wait waits for the flag. It is a part of the call's handle, and its ticket
 * (ticket.h) is made from the number that the call has anyhow. Freed in flight,
 * the call is taken back and its callback frees the request, so that nobody
 * waits for an answer that may never come.
 *
 *     WAITING --ended--> ENDING --> done --freed--> gone
 *        +-----freed--> ABANDONED --ended--> gone
 *
 * The call has the handle's reference until the flag is up, and the ticket has
 * it from then on; an abandoned request stays the call's.
 *
 * Locking: a ticket is looked up under the context's lock, and whoever then
 * waits is counted before it is free, so that nobody frees the request. Who
 * frees one that ended puts its handle back before the lock is free. States and
 * flags are atomics. No proc runs under a lock.
 */
#ifndef HG_GEN_HG_REQUEST_H
#define HG_GEN_HG_REQUEST_H

#include "hg/context.h"

/* Error text of a request that ended; "" if it has none. */
HG_PRIVATE const char *hg_request_text(hg_request_t request);

/* Give the caller the memory that decoding the output allocated, once the
 * request has ended: HG_Request_free leaves it. */
HG_PRIVATE void hg_request_keep_output(hg_request_t request);

/* Free the requests the application left; the gate is closed. */
HG_PRIVATE void hg_request_free_all(struct hg_context *context);

#endif
