/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses libfabric alone, with which the figures of ofi+...:// are
 * compared. It encodes and dispatches nothing: its results are an upper bound.
 *
 * The peer is a child process. Between rounds it sleeps, and neither process
 * has an endpoint open, so that a benchmark can alternate its own rounds with
 * these. A client is used by one thread at a time. This header does not know
 * hg.h or libfabric.
 */
#ifndef HG_TESTS_PERF_RAW_OFI_H
#define HG_TESTS_PERF_RAW_OFI_H

#include <stddef.h>
#include <stdint.h>

/* The kinds of rounds: messages in both directions, or fi_read of peer
 * memory. */
enum raw_ofi_kind { RAW_OFI_ECHO, RAW_OFI_PULL };

struct raw_ofi_round {
    enum raw_ofi_kind kind;
    int sleeps;      /* both processes wait in fi_cq_sread, or yield where the
                      * provider cannot sleep; 0: they spin */
    size_t size;     /* bytes of an echo (at most 64 KiB) or of a transfer, a
                      * multiple of 8 */
    size_t piece;    /* bytes of one fi_read */
    unsigned window; /* echoes or pieces in flight, 1 to RAW_OFI_WINDOW_MAX */
    double seconds;  /* the round takes at least this long */
};

#define RAW_OFI_WINDOW_MAX 64

struct raw_ofi;

/* Start the peer. `protocol` is a provider of libfabric, or "tcp" for its
 * native tcp provider; `host` is an address of this machine, "" for none. Both
 * are borrowed. Returns -1 after a line on stderr. */
int raw_ofi_open(
    const char *protocol, const char *host, struct raw_ofi **raw_p);

/* End the peer; NULL is allowed. */
void raw_ofi_close(struct raw_ofi *raw);

/* Run one round; returns the seconds of one operation. The data is compared
 * with what was sent: each echo, and the last transfer after the measured time.
 * Returns -1 after a line on stderr. */
int raw_ofi_run(
    struct raw_ofi *raw, const struct raw_ofi_round *round, double *per_op_p);

#endif /* HG_TESTS_PERF_RAW_OFI_H */
