/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a node can do with nothing in between, which the figures of the
 * transport sm are compared with: two processes that share a mapping and spin.
 * It encodes and dispatches nothing: what it measures is a ceiling.
 *
 * The peer is a child process, which waits asleep between rounds, on an
 * eventfd, so that a benchmark can let its own rounds and these alternate. A
 * client is used by one thread at a time. This header knows nothing of hg.h.
 */
#ifndef HG_TESTS_PERF_RAW_SM_H
#define HG_TESTS_PERF_RAW_SM_H

#include <stddef.h>

#define RAW_SM_SIZE_MAX 16384             /* of an echo */
#define RAW_SM_WINDOW_MAX 64              /* echoes outstanding */
#define RAW_SM_REGION ((size_t) 64 << 20) /* to copy from */

/* process_vm_readv of memory that the peer wrote, or memcpy from it. */
enum raw_sm_way { RAW_SM_VM_READ, RAW_SM_MEMCPY };

struct raw_sm;

/* Starts the peer; -1 after a line on stderr. */
int raw_sm_open(struct raw_sm **raw_p);

/* Ends it; NULL is allowed. */
void raw_sm_close(struct raw_sm *raw);

/* Echoes, their bytes copied in and out at both sides, `window` outstanding;
 * the seconds of one. -1 after a line on stderr. */
int raw_sm_echo(struct raw_sm *raw, size_t size, unsigned window,
    double seconds, double *per_op_p);

/* Echoes of 64 bytes for which the peer is woken from its sleep, after a nap of
 * RAW_SM_NAP each; the client spins for the answer, and yields. The seconds of
 * one. */
#define RAW_SM_NAP 2000 /* us */
int raw_sm_wake(struct raw_sm *raw, double seconds, double *per_op_p);

/* Copies of `size` bytes, at most RAW_SM_REGION, the same ones again; the
 * seconds of one. -1 after a line on stderr: the system does not allow it. */
int raw_sm_copy(struct raw_sm *raw, enum raw_sm_way way, size_t size,
    double seconds, double *per_op_p);

#endif /* HG_TESTS_PERF_RAW_SM_H */
