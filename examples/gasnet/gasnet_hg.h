/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_hg: what the modules of the conduit share. Programs include gasnet.h.
 *
 *     boot     rank and size, the class, the addresses of all nodes
 *     job      init, attach, segments, handlers, exit, signals
 *     am       active messages, flow control, poll
 *     rma      put, get and memset of nodes whose memory is not mapped here
 *     sync     handles of operations, and waiting for them
 *     barrier  the split-phase barrier
 *     lock     handler-safe locks, no-interrupt sections, and their checks
 *
 * The conduit uses hg's public interface, and of that only NA.
 */
#ifndef GASNET_HG_INTERNAL_H
#define GASNET_HG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg.h"

/* ---- boot: how the nodes of a job find each other ---- */

/* Tags of NA's messages. Unexpected messages belong to am alone. */
enum {
    GASNET_HG_TAG_AM = 0,    /* unexpected: an active message */
    GASNET_HG_TAG_WATCH = 1, /* expected: never sent; ends if the peer dies */
    GASNET_HG_TAG_BOOT = 2   /* expected: boot, which may use all tags above */
};

/* A job as boot finds it. Arrays have `size` entries and live as long as the
 * process. */
struct gasnet_boot {
    uint32_t rank;         /* of this node, below size */
    uint32_t size;         /* nodes of the job, 1 or more */
    na_class_t *na_class;  /* listens */
    na_context_t *context; /* the only one; nothing is posted on it */
    na_addr_t *addrs;      /* of each node; that of this node is its own */
    uint32_t *hosts;       /* for each node the lowest rank on its host */
};

/*
 * Find rank, size and the peers, open the class, and look all peers up.
 *
 * Collective: it returns after all nodes of the job have called it and have
 * found each other, or after GASNET_HG_BOOT_MS (environment, milliseconds;
 * default 60,000). A job of one node needs no environment. On failure it prints
 * one line to stderr: what failed, on what, why.
 *
 * The class has NA_WAIT_ADAPTIVE, and a max_queue_bytes of 2 MiB for each node.
 *
 * Returns GASNET_OK; GASNET_ERR_RESOURCE on failure, and everything is closed.
 */
int gasnet_boot_start(struct gasnet_boot *boot);

/*
 * Give `size` bytes of each node to all nodes. Collective; all nodes pass the
 * same size, up to 4,096 bytes. It may be called again, in the same order on
 * all nodes. It uses expected messages alone: unexpected messages that come
 * meanwhile stay in NA's queue or in the receives that am has posted.
 *
 *     mine   borrowed
 *     all    boot->size times `size` bytes, in the order of the ranks
 *
 * Returns GASNET_OK; GASNET_ERR_RESOURCE (printed) if a node is lost.
 */
int gasnet_boot_exchange(
    struct gasnet_boot *boot, const void *mine, size_t size, void *all);

/*
 * Close the class: accepted messages leave first, for at most a second. Peers
 * see that this node is gone. No other thread uses the class.
 */
void gasnet_boot_stop(struct gasnet_boot *boot);

#endif
