/* SPDX-License-Identifier: BSD-3-Clause */
/* client_node: see client_node.h. */
#define _GNU_SOURCE
#include "client_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_mount.h"
#include "client_remote.h"

#define NODE_BUCKETS ((size_t) 1 << 16) /* of each table */

static struct node node_root;
static struct node *node_ids[NODE_BUCKETS];
static struct node *node_names[NODE_BUCKETS];

/* ---- Tables ---- */

static size_t node_mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t) (value >> 40);
}

static struct node **node_id_bucket(const fwd_id_t *id)
{
    size_t mixed = node_mix(id->inode ^ id->device << 32 ^ id->born);

    return &node_ids[mixed % NODE_BUCKETS];
}

static struct node **node_name_bucket(
    const struct node *parent, const char *name)
{
    uint64_t sum = (uintptr_t) parent;

    for (; *name != '\0'; name++)
        sum = sum * 31 + (unsigned char) *name;
    return &node_names[node_mix(sum) % NODE_BUCKETS];
}

struct node *node_known(const fwd_id_t *id)
{
    struct node *node = *node_id_bucket(id);

    if (memcmp(&node_root.id, id, sizeof(*id)) == 0)
        return &node_root;
    while (node != NULL && memcmp(&node->id, id, sizeof(*id)) != 0)
        node = node->next_by_id;
    return node;
}

static struct node *node_by_name(const struct node *parent, const char *name)
{
    struct node *node = *node_name_bucket(parent, name);

    while (node != NULL &&
        (node->parent != parent || strcmp(node->name, name) != 0))
        node = node->next_by_name;
    return node;
}

static void node_remove_id(struct node *node)
{
    struct node **at = node_id_bucket(&node->id);

    while (*at != node)
        at = &(*at)->next_by_id;
    *at = node->next_by_id;
}

static void node_remove_name(struct node *node)
{
    struct node **at = node_name_bucket(node->parent, node->name);

    while (*at != node)
        at = &(*at)->next_by_name;
    *at = node->next_by_name;
}

void node_each(void (*visit)(struct node *node))
{
    struct node *node, *next;
    size_t i;

    visit(&node_root);
    for (i = 0; i < NODE_BUCKETS; i++)
        for (node = node_ids[i]; node != NULL; node = next) {
            next = node->next_by_id;
            visit(node);
        }
}

/* ---- A folder that a call has changed ----
 *
 * Its attributes are used for a tenth of attr_timeout, since the kernel keeps
 * them for attr_timeout from then on. */

static struct {
    const struct node *node; /* NULL: none */
    fwd_attr_t attr;
    uint64_t until;
} node_changed;

void node_change_begins(const struct node *node)
{
    if (node_changed.node == node)
        node_changed.node = NULL;
}

/* The kernel locks a folder while a call changes it, so no other call of this
 * client changes it at the same time. */
void node_changed_by_call(struct node *folder, const fwd_attr_t *attr)
{
    if (attr->mode == 0)
        return;
    node_changed.node = folder;
    node_changed.attr = *attr;
    node_changed.until =
        remote_now() + (uint64_t) (mount_options.attr_timeout * 100);
}

const fwd_attr_t *node_take_changed(struct node *node)
{
    if (node_changed.node != node || remote_now() >= node_changed.until)
        return NULL;
    node_changed.node = NULL;
    node->attr = node_changed.attr;
    node->attr_known = true;
    return &node->attr;
}

/* ---- References ---- */

static bool node_is_used(const struct node *node)
{
    return node->lookups > 0 || node->refs > 0;
}

/* End a node that is not used, then its parent if that is not used any more. */
static void node_end(struct node *node)
{
    struct node *parent;

    while (node != &node_root && !node_is_used(node)) {
        assert(node->owners == NULL);
        parent = node->parent;
        if (node->name != NULL)
            node_remove_name(node);
        node_remove_id(node);
        node_change_begins(node);
        if (node->epoch == remote_epoch())
            remote_forget(node->remote, node->remote_lookups);
        free(node->name);
        free(node);
        if (parent == NULL)
            return;
        parent->refs--;
        node = parent;
    }
}

void node_ref(struct node *node)
{
    node->refs++;
}

void node_unref(struct node *node)
{
    assert(node->refs > 0);
    node->refs--;
    node_end(node);
}

void node_forget(struct node *node, uint64_t lookups)
{
    if (node == &node_root)
        return;
    assert(node->lookups >= lookups);
    node->lookups -= lookups;
    node_end(node);
}

/* ---- Names ---- */

static void node_unname(struct node *node)
{
    struct node *parent = node->parent;

    if (node->name == NULL)
        return;
    node_remove_name(node);
    free(node->name);
    node->name = NULL;
    node->parent = NULL;
    node_unref(parent);
}

static bool node_is_below(const struct node *node, const struct node *folder)
{
    while (node != NULL && node != folder)
        node = node->parent;
    return node != NULL;
}

/* Give a node a name. Another node that had it loses it. If a folder is found
 * below itself, the server has moved folders in between: it gets no name, so
 * that nodes never form a circle. The root never gets one. */
static void node_name(struct node *node, struct node *parent, const char *name)
{
    struct node *other = node_by_name(parent, name);
    struct node **bucket;
    char *copy;

    if (node == &node_root || other == node || node_is_below(parent, node))
        return;
    copy = strdup(name);
    if (copy == NULL)
        return; /* it keeps the earlier name, which ends in ESTALE at worst */
    node_ref(parent);
    if (other != NULL)
        node_unname(other);
    node_unname(node);
    bucket = node_name_bucket(parent, name);
    node->name = copy;
    node->parent = parent;
    node->next_by_name = *bucket;
    *bucket = node;
}

void node_name_removed(struct node *parent, const char *name)
{
    struct node *node = node_by_name(parent, name);

    if (node != NULL)
        node_unname(node);
}

void node_name_changed(struct node *parent, const char *name,
    struct node *new_parent, const char *new_name, bool exchanged)
{
    struct node *node = node_by_name(parent, name);
    struct node *other = node_by_name(new_parent, new_name);

    if (node == other)
        return; /* two names of one file: nothing has changed */
    if (other != NULL)
        node_unname(other);
    if (node != NULL)
        node_name(node, new_parent, new_name);
    if (other != NULL && exchanged)
        node_name(other, parent, name);
}

int node_path(const struct node *node, char path[FWD_PATH_MAX + 1])
{
    char *at = path + FWD_PATH_MAX;
    size_t size;

    *at = '\0';
    for (; node != &node_root; node = node->parent) {
        if (node->name == NULL)
            return ESTALE;
        size = strlen(node->name);
        if ((size_t) (at - path) < size + 1)
            return ENAMETOOLONG;
        if (*at != '\0')
            *--at = '/';
        at -= size;
        memcpy(at, node->name, size);
    }
    memmove(path, at, strlen(at) + 1);
    return 0;
}

/* ---- Nodes ---- */

void node_set_root(const fwd_entry_t *entry)
{
    node_root.id = entry->id;
    node_root.epoch = remote_epoch();
    node_root.remote = entry->node;
    node_root.lookups = 1;
}

struct node *node_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &node_root : (struct node *) (uintptr_t) ino;
}

fuse_ino_t node_ino(struct node *node)
{
    return node == &node_root ? FUSE_ROOT_ID : (fuse_ino_t) (uintptr_t) node;
}

static struct node *node_make(const fwd_id_t *id)
{
    struct node **bucket = node_id_bucket(id);
    struct node *node = (struct node *) calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->id = *id;
    node->next_by_id = *bucket;
    *bucket = node;
    return node;
}

struct node *node_seen(
    const fwd_entry_t *entry, struct node *parent, const char *name)
{
    struct node *node = node_known(&entry->id);

    if (node == NULL)
        node = node_make(&entry->id);
    if (node == NULL) {
        remote_forget(entry->node, 1);
        return NULL;
    }
    if (node->epoch != remote_epoch() || node->remote != entry->node) {
        node->epoch = remote_epoch();
        node->remote = entry->node;
        node->remote_lookups = 0;
    }
    node->remote_lookups++;
    if (parent != NULL)
        node_name(node, parent, name);
    return node;
}

void node_stat(const struct node *node, const fwd_attr_t *attr, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_ino = (ino_t) node->id.inode;
    if (node->id.device !=
        node_root.id.device) /* another mount at the server */
        st->st_ino ^= (ino_t) node_mix(node->id.device) << 40;
    st->st_mode = (mode_t) attr->mode;
    st->st_nlink = (nlink_t) attr->links;
    st->st_uid =
        (uid_t) (mount_options.uid >= 0 ? mount_options.uid : (int) attr->uid);
    st->st_gid =
        (gid_t) (mount_options.gid >= 0 ? mount_options.gid : (int) attr->gid);
    st->st_rdev = (dev_t) attr->rdev;
    st->st_size = (off_t) attr->size;
    st->st_blocks = (blkcnt_t) attr->blocks;
    st->st_blksize = (blksize_t) attr->block_size;
    st->st_atim.tv_sec = (time_t) attr->atime.seconds;
    st->st_atim.tv_nsec = (long) attr->atime.nanoseconds;
    st->st_mtim.tv_sec = (time_t) attr->mtime.seconds;
    st->st_mtim.tv_nsec = (long) attr->mtime.nanoseconds;
    st->st_ctim.tv_sec = (time_t) attr->ctime.seconds;
    st->st_ctim.tv_nsec = (long) attr->ctime.nanoseconds;
}
