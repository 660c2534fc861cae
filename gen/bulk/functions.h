/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions: the public bulk functions of both models, and the proc of bulk
 * handles.
 *
 * This module and hg_transfer_check check the arguments. The module bulk
 * implements handles, transfer moves the data. The models differ in how a
 * transfer ends:
 *
 *     request model   its request is done: HG_Bulk_wait returns the result, and
 *                     runs no handler while it waits
 *     callback model  the callback runs; until then HG_Bulk_cancel finds the
 *                     transfer by its ticket, if the application wants one
 *
 * The functions with names of the Mercury paper are at the end.
 *
 * Locking: the lock of the bulk class guards the tickets of requests. The lock
 * of the request model's class guards the rest of the requests, and is taken
 * first. One mutex guards the tickets of the callback model of all classes; the
 * lock of a class is taken inside it. A process that forks holds the mutex, so
 * that HG_Bulk_cancel detects a parent's transfer in the child.
 */
#ifndef HG_GEN_BULK_FUNCTIONS_H
#define HG_GEN_BULK_FUNCTIONS_H

#include "hg/context.h"

/* Free the requests that were not waited for. If the transfer is in progress,
 * its request is freed when it ends. */
HG_PRIVATE void hg_bulk_request_abandon_all(struct hg_context *context);

/* In a child of fork: the requests of the parent are unknown. */
HG_PRIVATE void hg_bulk_request_forget_all(void);

#endif
