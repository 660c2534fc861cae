/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_node: the files, directories and links that the kernel knows.
 *
 * A node is found by its identity, so all names of a file have one node, and by
 * its parent and name. It remembers one name, under which it is found again
 * when the server has restarted or has ended the node. The kernel's number of a
 * node (fuse_ino_t) is its address.
 *
 * A node lives while the kernel knows it, a file or slot uses it, or another
 * node has it as its parent.
 */
#ifndef HG_EXAMPLES_CLIENT_NODE_H
#define HG_EXAMPLES_CLIENT_NODE_H

#define HG_API_VERSION 2
#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
#include <stdbool.h>

#include "forward.h"

struct owner; /* client_lock.h */

struct node {
    struct node *next_by_id;
    struct node *next_by_name;
    struct node *parent; /* referenced; NULL for the root, or without a name */
    char *name;          /* NULL: removed, or unknown */
    fwd_id_t id;
    uint64_t epoch;               /* of the session in which `remote` counts */
    uint64_t remote;              /* its number at the server */
    uint64_t remote_lookups;      /* that the server counts */
    uint64_t lookups;             /* that the kernel counts */
    unsigned refs;                /* of slots, files and nodes below */
    uint64_t no_capability_until; /* ms; it has no security.capability */
    bool attr_known;
    fwd_attr_t attr;      /* as the kernel got it last */
    struct owner *owners; /* of locks of fcntl(2) */
    unsigned unlocking;   /* closes of files with locks that are in flight */
};

/* Take the root of a new session. */
void node_set_root(const fwd_entry_t *entry);

/* The node of the kernel's number, and the reverse. */
struct node *node_of(fuse_ino_t ino);
fuse_ino_t node_ino(struct node *node);

/* Find or make the node of an entry that a call of this session returned. The
 * server has counted a lookup. The kernel is about to count one: the caller
 * adds it to `lookups`. `parent` and `name` are where it was found; NULL if
 * that is not known. Returns NULL without memory; the lookup is given back. */
struct node *node_seen(
    const fwd_entry_t *entry, struct node *parent, const char *name);

/* Find the node with an identity; NULL if the kernel does not know it. */
struct node *node_known(const fwd_id_t *id);

/* Give the kernel's lookups back. The node may end. */
void node_forget(struct node *node, uint64_t lookups);

void node_ref(struct node *node);
void node_unref(struct node *node);

/* A name was removed, or changed from one to another. */
void node_name_removed(struct node *parent, const char *name);
void node_name_changed(struct node *parent, const char *name,
    struct node *new_parent, const char *new_name, bool exchanged);

/* Write the path below the root. Returns 0, ESTALE or ENAMETOOLONG. */
int node_path(const struct node *node, char path[FWD_PATH_MAX + 1]);

/* A call that changes the node begins. */
void node_change_begins(const struct node *node);

/* A call has changed a folder, and returned its attributes. The kernel asks for
 * them next, once; node_take_changed has them for that. It returns NULL if they
 * are not known, or too old. One folder at a time is remembered. */
void node_changed_by_call(struct node *folder, const fwd_attr_t *attr);
const fwd_attr_t *node_take_changed(struct node *node);

/* Call `visit` for each node. */
void node_each(void (*visit)(struct node *node));

/* Convert attributes for the kernel. */
void node_stat(
    const struct node *node, const fwd_attr_t *attr, struct stat *st);

#endif
