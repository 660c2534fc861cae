/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owed: refusals in short, for peers that send calls and take no answers yet.
 *
 * Who forwards many calls before making progress has them refused, and takes
 * the refusals later. Those that cannot leave are kept as handles at first, as
 * many as there may be calls; what comes beyond that is noted here in a few
 * bytes: whose call, of what, and what to say. The notes are paid in the
 * context's turns, when the transport takes them; without words, which there is
 * no room for. So a peer that is alive hears of each of its calls, unless it
 * has more of them than anybody keeps in flight.
 *
 *     serve    a call for which there is no handle --> add
 *     context  its turns: what is unsaid, and pay
 *
 * Locking: the context's lock guards the list. What is paid is taken off it
 * first, and put back if it was not.
 */
#ifndef HG_GEN_HG_OWED_H
#define HG_GEN_HG_OWED_H

#include "hg/handle.h"

/* As many notes as a peer may have, if no other one has any. */
#define HG_OWED_MAX 65536u

/* Note a refusal with that code. False: so many are noted, or there is no
 * memory. The lock is held. */
HG_PRIVATE bool hg_owed_add(struct hg_context *context, struct na_addr *addr,
    const struct hg_header *header, hg_return_t code);

/* Send what the transport takes. False: not all of it. */
HG_PRIVATE bool hg_owed_pay(struct hg_context *context);

/* Give up what is left. */
HG_PRIVATE void hg_owed_drop(struct hg_context *context);

#endif
