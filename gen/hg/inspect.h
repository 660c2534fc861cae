/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect: what is going on in a class, in words: HG_Dump, and the functions
 * that every class serves.
 *
 * HG_Dump is called when something hangs, so it waits for no lock that is not
 * free within a moment: it writes a note instead. The text is put together with
 * the class's lock held, and written to the application's stream without.
 *
 * The functions tell any peer with an address whether the class answers, its
 * version, its functions and its counters. A question and an answer have one
 * type, a number and a text of limited size. The thread that makes progress
 * executes them as steps of the library, one in a turn: they answer also when
 * all functions of the application hang, and a peer that calls them often does
 * not keep others from their calls. They are not registered: a call is looked
 * up here when the application has nothing to execute under its id.
 *
 * Locking: the list of classes, then the class.
 */
#ifndef HG_GEN_HG_INSPECT_H
#define HG_GEN_HG_INSPECT_H

#include "hg/handle.h"

/* The library's function with an id. HG_NOENTRY. */
HG_PRIVATE hg_return_t hg_inspect_find(hg_id_t id, struct hg_rpc *rpc_p);

#endif
