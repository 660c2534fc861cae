/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: calls of ours, as the request model has them.
 *
 * A request is a part of its call's handle. Its ticket (ticket.h) is made from
 * the number that the call has anyhow. The thread that waits for a request
 * decodes the output, in HG_Wait, outside the lock. So one thread at a time
 * waits for a request. One that is freed under way is taken back, and freed
 * when the call ends.
 *
 *     UNDER_WAY --HG_Wait--> WAITED --ended, decoded--> OVER --freed--> NONE
 *         |                    +----time up----> UNDER_WAY
 *         +--freed--> ABANDONED --ended--> NONE
 *
 * The ticket has the handle's reference, or the call once it is abandoned.
 *
 * Locking: the class's lock guards all of it, but for the last steps: who
 * waits owns the request in WAITED, and makes it OVER without the lock. In OVER
 * it is the application's, which frees it without the lock.
 */
#ifndef HG_GEN_HG_REQUEST_H
#define HG_GEN_HG_REQUEST_H

#include "hg/context.h"

/* Whether this thread runs the proc of a call that is to begin. */
HG_PRIVATE bool hg_request_in_proc(void);

/* Error text of a request that ended; "" if it has none. */
HG_PRIVATE const char *hg_request_text(hg_request_t request);

/* Give the caller the memory that decoding the output allocated, once the
 * request has ended: HG_Request_free leaves it. */
HG_PRIVATE void hg_request_keep_output(hg_request_t request);

/* Free the requests the application left. No thread waits any more. */
HG_PRIVATE void hg_request_free_all(struct hg_context *context);

#endif
