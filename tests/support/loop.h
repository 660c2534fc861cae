/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop: a transport whose classes, in one process, reach each other.
 *
 * self:// reaches nobody else and a real transport wants a second process; with
 * loop:// a test holds both ends of a call in its hands. Messages and frames of
 * emulated RMA are copied into the inbox of the class they are for, whose
 * progress delivers them. A tap sees every message of the RPC engine before it
 * is filed, and may change, swallow or refuse it; bytes that nobody sent can be
 * put into an inbox.
 *
 * Names: loop://NAME. Uses nothing of the library but hg.h.
 */
#ifndef HG_TESTS_LOOP_H
#define HG_TESTS_LOOP_H

#ifndef HG_NA_PLUGIN_API
#define HG_NA_PLUGIN_API 1
#endif
#include "hg.h"

#include <stdbool.h>

/* Make it known; once a case. */
void loop_register(void);

/* What a message is to meet. LOOP_LATER: the transport has no room, and takes
 * it as an operation, which ends at once; LOOP_FAIL: that operation fails;
 * LOOP_STUCK: it does not end, nor can it be canceled, until loop_unstick. */
enum loop_fate { LOOP_PASS, LOOP_DROP, LOOP_LATER, LOOP_FAIL, LOOP_STUCK };

/* Called by the sender's thread with a copy of the message that it may change;
 * *size may shrink. */
typedef enum loop_fate (*loop_tap_t)(
    void *arg, na_class_t *from, unsigned char *data, size_t *size);

/* One tap at a time; NULL: everything passes. */
void loop_set_tap(loop_tap_t tap, void *arg);

/* Let a message of the RPC plane come from `source`, a peer of `to`. */
void loop_inject(
    na_class_t *to, na_addr_t source, const void *data, size_t size);

/* Fail the operation that is stuck; there is one at most. */
void loop_unstick(void);

/* Whether nothing is on its way to anybody. */
bool loop_is_idle(void);

/* The peer is dead, as `na_class` sees it. */
void loop_kill(na_class_t *na_class, na_addr_t addr);

#endif
