/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_request: the blocking bulk functions.
 *
 * Making, serializing and reading handles is bulk's, moving the data is
 * bulk_transfer's; here arguments are checked, and a transfer gets a flag that
 * HG_Bulk_wait waits for, running no handler meanwhile. The Mercury paper's
 * names for the same functions stand at the end.
 *
 * Locking: wait's mutex guards the list of requests and their flags.
 */
#ifndef HG_GEN_HG_BULK_REQUEST_H
#define HG_GEN_HG_BULK_REQUEST_H

#include "base/os.h"

/* Let go of the requests nobody waited for; what is still on its way frees its
 * own when it ends. The gate is closed. */
HG_PRIVATE void hg_bulk_request_abandon_all(void);

#endif
