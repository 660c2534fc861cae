/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * builtin: the functions that every class serves.
 *
 * They tell any peer with an address whether the class answers, its version,
 * its functions and its counters. A question and an answer have one type, a
 * number and a text. Their size is limited, and so is the work for each.
 * They are executed as slow steps of the library's own by the thread that makes
 * progress, one in a turn: they answer when the application's functions all
 * hang, and a peer that calls them often does not keep others from their calls.
 *
 * They are not registered. A call is looked for here when the application has
 * nothing to execute under its id; so what that registers always comes first.
 *
 * Locking: none of its own.
 */
#ifndef HG_GEN_HG_BUILTIN_H
#define HG_GEN_HG_BUILTIN_H

#include "hg/registry.h"

/* The function with an id; its procs, too. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_builtin_find(hg_id_t id, struct hg_rpc *rpc_p);

#endif
