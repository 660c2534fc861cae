/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_nodes: the nodes of a session, with a descriptor (O_PATH) of each.
 *
 * A node is in the table while the client has looked it up, or a handler or an
 * open file uses it. A file has one node in a session, whatever its names. At
 * the limit of descriptors a node ends that was not used for long; the client
 * then finds it again by its path.
 *
 * Locking: session->lock. These functions take it. Descriptors are closed
 * without it, since that can take long.
 */
#ifndef HG_EXAMPLES_SERVER_NODES_H
#define HG_EXAMPLES_SERVER_NODES_H

#include "server.h"
#include "server_table.h"

struct session;
struct lock_owner;

struct node {
    uint64_t number;
    fwd_id_t id;
    uint32_t type; /* S_IFREG, ... */
    int fd;
    uint64_t lookups;
    unsigned uses;            /* handlers and open files */
    bool recent;              /* used since the last search for a node to end */
    struct node *next;        /* in a bucket */
    struct lock_owner *locks; /* see server_locks */
};

struct nodes {
    struct table table;
    struct node **buckets; /* by id */
    uint32_t bucket_count; /* a power of 2, or 0 */
    uint32_t hand;         /* where the next search for a node begins */
};

/* Get a node; nodes_put gives it back. NULL: the number is unknown. */
struct node *nodes_get(struct session *session, uint64_t number);
void nodes_put(struct session *session, struct node *node);

/* Count a lookup of a node that the table has. `entry` holds the id, and gets
 * the number. False: the table does not have it. */
bool nodes_known(struct session *session, fwd_entry_t *entry);

/* As nodes_known; adds a node that the table does not have. Takes `fd`. 0 or an
 * errno. */
int nodes_enter(struct session *session, int fd, fwd_entry_t *entry);

/* Subtract lookups. */
void nodes_forget(struct session *session, uint64_t number, uint64_t lookups);

/* End nodes until there are at most `max`, as far as they are unused. */
void nodes_trim(struct session *session, uint32_t max);

/* Close all. No other thread uses the session. */
void nodes_free(struct session *session);

#endif
