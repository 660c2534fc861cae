/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions: the public bulk functions of both models.
 *
 * Arguments are checked here and by hg_transfer_check; handles are the module
 * bulk's, and moving the data is transfer's. The models differ in how a
 * transfer ends:
 *
 *     request model   its request is done: HG_Bulk_wait takes the result, and
 *                     runs no handler while it waits
 *     callback model  the callback runs; until then HG_Bulk_cancel finds the
 *                     transfer by its ticket, if the application wanted one
 *
 * The Mercury paper's names stand at the end.
 *
 * Locking: the lock of the bulk class guards the tickets of requests. The lock
 * of the request model's class guards the rest of them, and is the outer one.
 * One mutex guards the tickets of the callback model, of all classes; the lock
 * of a class is taken inside. A process that forks holds it, so that
 * HG_Bulk_cancel recognises a parent's transfer in the child.
 */
#ifndef HG_GEN_BULK_FUNCTIONS_H
#define HG_GEN_BULK_FUNCTIONS_H

#include "hg/context.h"

/* Free the requests nobody waited for; one whose transfer is under way is freed
 * when that ends. */
HG_PRIVATE void hg_bulk_request_abandon_all(struct hg_context *context);

#endif
