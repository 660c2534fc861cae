/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: outgoing calls of the request model.
 *
 * A request is part of its call's handle. Its ticket (ticket.h) is derived from
 * the number of the call. The thread that waits for a request decodes the
 * output, in HG_Wait, without the lock. Therefore only one thread at a time
 * waits for a request. A request that is freed before its call has ended is
 * canceled, and freed when the call ends.
 *
 *     UNDER_WAY --HG_Wait--> WAITED --ended, decoded--> OVER --freed--> NONE
 *         |                    +----time up----> UNDER_WAY
 *         +--freed--> ABANDONED --ended--> NONE
 *
 * The ticket owns the handle's reference; after ABANDONED the call owns it.
 *
 * Locking: the class's lock guards all of it, with two exceptions. In WAITED
 * the waiting thread owns the request, and sets OVER without the lock. In OVER
 * the application owns it, and frees it without the lock.
 */
#ifndef HG_GEN_HG_REQUEST_H
#define HG_GEN_HG_REQUEST_H

#include "hg/context.h"

/* Whether this thread runs the proc of a call that is being forwarded. */
HG_PRIVATE bool hg_request_in_proc(void);

/* The error text of a request that ended; "": none. */
HG_PRIVATE const char *hg_request_text(hg_request_t request);

/* The caller takes over the memory that decoding the output allocated;
 * HG_Request_free does not free it. The request has ended. */
HG_PRIVATE void hg_request_keep_output(hg_request_t request);

/* Free the requests that the application did not free. No thread waits any
 * more. */
HG_PRIVATE void hg_request_free_all(struct hg_context *context);

/* In a child of fork: the requests of the parent are unknown. */
HG_PRIVATE void hg_request_forget_all(void);

#endif
