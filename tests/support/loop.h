/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop: a transport whose classes, in one process, reach each other.
 *
 * self:// reaches no other class, and a real transport needs a second process;
 * with loop:// one test controls both ends of a call. Messages and frames of
 * emulated RMA are copied into the inbox of the class they are sent to, whose
 * progress delivers them. A tap sees every message of the RPC engine before
 * that, and may change, drop or refuse it; a test can also put any bytes into
 * an inbox.
 *
 * Names: loop://NAME. Uses only hg.h.
 */
#ifndef HG_TESTS_LOOP_H
#define HG_TESTS_LOOP_H

#ifndef HG_NA_PLUGIN_API
#define HG_NA_PLUGIN_API 1
#endif
#include "hg.h"

#include <stdbool.h>

/* Register the transport; once a case. */
void loop_register(void);

/* The treatment of a message. LOOP_LATER: the transport is full, and accepts it
 * as an operation, which ends at once; LOOP_FAIL: that operation fails;
 * LOOP_STUCK: it neither ends nor can be canceled until loop_unstick. */
enum loop_fate { LOOP_PASS, LOOP_DROP, LOOP_LATER, LOOP_FAIL, LOOP_STUCK };

/* Called by the sender's thread with a copy of the message, which it may
 * change; *size may shrink. */
typedef enum loop_fate (*loop_tap_t)(
    void *arg, na_class_t *from, unsigned char *data, size_t *size);

/* One tap at a time; NULL: every message passes. */
void loop_set_tap(loop_tap_t tap, void *arg);

/* Deliver a message of the RPC plane as if `source`, a peer of `to`, had sent
 * it. */
void loop_inject(
    na_class_t *to, na_addr_t source, const void *data, size_t size);

/* Fail the operation that is stuck; there is at most one. The lock of its
 * class, loop_stuck_class, is held. */
void loop_unstick(void);
na_class_t *loop_stuck_class(void);

/* Whether no item is in flight. */
bool loop_is_idle(void);

/* Mark the peer dead in `na_class`. */
void loop_kill(na_class_t *na_class, na_addr_t addr);

#endif
