/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit of a node, with which the figures of the transport sm are compared:
 * two processes that share a mapping and spin. It encodes and dispatches
 * nothing: its results are an upper bound.
 *
 * The peer is a child process, which sleeps between rounds on an eventfd, so
 * that a benchmark can alternate its own rounds with these. A client is used by
 * one thread at a time. This header is independent of hg.h.
 */
#ifndef HG_TESTS_PERF_RAW_SM_H
#define HG_TESTS_PERF_RAW_SM_H

#include <stddef.h>

#define RAW_SM_SIZE_MAX 16384             /* of an echo */
#define RAW_SM_WINDOW_MAX 64              /* echoes in flight */
#define RAW_SM_REGION ((size_t) 64 << 20) /* to copy from */

/* process_vm_readv of memory that the peer wrote, or memcpy from it. */
enum raw_sm_way { RAW_SM_VM_READ, RAW_SM_MEMCPY };

struct raw_sm;

/* Start the peer; -1 after a line on stderr. */
int raw_sm_open(struct raw_sm **raw_p);

/* End it; NULL is allowed. */
void raw_sm_close(struct raw_sm *raw);

/* Echoes, with their bytes copied in and out on both sides, `window` in flight;
 * returns the seconds of one, or -1 after a line on stderr. */
int raw_sm_echo(struct raw_sm *raw, size_t size, unsigned window,
    double seconds, double *per_op_p);

/* Echoes of 64 bytes for which the peer is woken, after a sleep of RAW_SM_NAP
 * each; the client spins for the response, and yields. Returns the seconds of
 * one. */
#define RAW_SM_NAP 2000 /* us */
int raw_sm_wake(struct raw_sm *raw, double seconds, double *per_op_p);

/* Copies of `size` bytes, at most RAW_SM_REGION, always the same ones; returns
 * the seconds of one, or -1 after a line on stderr if the system denies it. */
int raw_sm_copy(struct raw_sm *raw, enum raw_sm_way way, size_t size,
    double seconds, double *per_op_p);

#endif /* HG_TESTS_PERF_RAW_SM_H */
