/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect: describes the state of a class as text: HG_Dump, and the functions
 * that every class serves.
 *
 * HG_Dump is called when something hangs. It waits only briefly for a lock; if
 * it does not get the lock, it writes a note instead. It composes the text with
 * the class's lock held, and writes it to the application's stream without the
 * lock.
 *
 * The functions of the library tell any peer whether the class answers, its
 * version, its functions and its counters. Requests and answers have the same
 * type: a number and a text of limited size. The thread that makes progress
 * executes them as steps of the library, one per round of progress. They answer
 * even when all handlers of the application hang, and frequent calls do not
 * delay other calls. They are not registered: serve looks here when the
 * application has registered nothing under the id.
 *
 * Locking: the list of classes, then the class.
 */
#ifndef HG_GEN_HG_INSPECT_H
#define HG_GEN_HG_INSPECT_H

#include "hg/handle.h"

/* The library's function with an id. NULL: none. */
HG_PRIVATE const struct hg_rpc *hg_inspect_find(hg_id_t id);

#endif
