/* SPDX-License-Identifier: BSD-3-Clause */
/* client_ops_names: requests that look up, make and remove names. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client_mount.h"
#include "client_ops.h"

/* ---- Entries ---- */

struct node *ops_entry(const fwd_entry_t *entry, struct node *parent,
    const char *name, struct fuse_entry_param *param)
{
    struct node *node = node_seen(entry, parent, name);

    if (node == NULL)
        return NULL;
    memset(param, 0, sizeof(*param));
    param->ino = node_ino(node);
    param->attr_timeout = mount_options.attr_timeout;
    param->entry_timeout = mount_options.entry_timeout;
    node_stat(node, &entry->attr, &param->attr);
    node->attr = entry->attr;
    node->attr_known = true;
    return node;
}

static void ops_reply_entry(struct slot *slot, const fwd_entry_t *entry,
    struct node *parent, const char *name)
{
    struct fuse_entry_param param;
    struct node *node = ops_entry(entry, parent, name, &param);

    if (node == NULL) {
        ops_reply_error(slot, ENOMEM);
        return;
    }
    node->lookups++;
    if (fuse_reply_entry(slot->req, &param) != 0)
        node_forget(node, 1);
}

/* ---- Lookup ---- */

static void lookup_done(struct slot *slot, union slot_out *out)
{
    ops_reply_entry(
        slot, &out->entry.entry, slot->nodes[0], slot->in.name.name);
}

static bool lookup_failed(struct slot *slot, int error)
{
    struct fuse_entry_param none = {0};

    if (error == ENOENT)
        node_name_removed(slot->nodes[0], slot->in.name.name);
    if (error == ENOENT && mount_options.negative_timeout > 0) {
        none.entry_timeout = mount_options.negative_timeout;
        (void) fuse_reply_entry(slot->req, &none);
        return false;
    }
    ops_reply_error(slot, error);
    return false;
}

static struct op lookup_op = {
    {"fwd.lookup", hg_proc_fwd_name_in_t, hg_proc_fwd_entry_out_t, 0}, NULL,
    lookup_done, lookup_failed, OP_READS | OP_OF_SESSION, 0};

static void names_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct slot *slot = slot_begin(req, &lookup_op, node_of(parent), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.name.name = name;
    slot_run(slot);
}

static void names_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    node_forget(node_of(ino), lookups);
    fuse_reply_none(req);
}

static void names_forget_multi(
    fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    size_t i;

    for (i = 0; i < count; i++)
        node_forget(node_of(forgets[i].ino), forgets[i].nlookup);
    fuse_reply_none(req);
}

/* ---- Make ---- */

static void make_done(struct slot *slot, union slot_out *out)
{
    node_changed_by_call(slot->nodes[0], &out->make.parent);
    ops_reply_entry(slot, &out->make.entry, slot->nodes[0], slot->in.make.name);
}

static struct op make_op = {
    {"fwd.make", hg_proc_fwd_make_in_t, hg_proc_fwd_make_out_t, 0}, NULL,
    make_done, NULL, OP_OF_SESSION, offsetof(fwd_make_in_t, again)};

static void names_make(fuse_req_t req, fuse_ino_t parent, const char *name,
    mode_t mode, dev_t rdev, const char *target)
{
    const struct fuse_ctx *caller = fuse_req_ctx(req);
    struct slot *slot = slot_begin(req, &make_op, node_of(parent), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.make.name = name;
    slot->in.make.target = target;
    slot->in.make.rdev = rdev;
    slot->in.make.mode = (uint32_t) mode;
    slot->in.make.uid = (uint32_t) caller->uid;
    slot->in.make.gid = (uint32_t) caller->gid;
    slot->in.make.mark = (uint32_t) random() % 1000000000;
    slot_run(slot);
}

static void names_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
    mode_t mode, dev_t rdev)
{
    names_make(req, parent, name, mode, rdev, "");
}

static void names_mkdir(
    fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    names_make(req, parent, name, (mode & ~(mode_t) S_IFMT) | S_IFDIR, 0, "");
}

static void names_symlink(
    fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    names_make(req, parent, name, S_IFLNK | 0777, 0, target);
}

/* ---- Link ---- */

static void link_done(struct slot *slot, union slot_out *out)
{
    ops_reply_entry(
        slot, &out->entry.entry, slot->nodes[1], slot->in.link.name);
}

static struct op link_op = {
    {"fwd.link", hg_proc_fwd_link_in_t, hg_proc_fwd_entry_out_t, 0}, NULL,
    link_done, NULL, OP_OF_SESSION, offsetof(fwd_link_in_t, again)};

static void names_link(
    fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct slot *slot = slot_begin(req, &link_op, node_of(ino), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot_set_node(slot, 1, node_of(parent));
    slot->in.link.name = name;
    slot_run(slot);
}

/* ---- Remove ---- */

static void remove_done(struct slot *slot, union slot_out *out)
{
    node_name_removed(slot->nodes[0], slot->in.remove.name);
    node_changed_by_call(slot->nodes[0], &out->remove.parent);
    ops_done(slot, out);
}

static struct op remove_op = {
    {"fwd.remove", hg_proc_fwd_remove_in_t, hg_proc_fwd_remove_out_t, 0}, NULL,
    remove_done, NULL, 0, offsetof(fwd_remove_in_t, again)};

static void names_remove(
    fuse_req_t req, fuse_ino_t parent, const char *name, bool directory)
{
    struct slot *slot = slot_begin(req, &remove_op, node_of(parent), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.remove.name = name;
    slot->in.remove.directory = directory;
    slot_run(slot);
}

static void names_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    names_remove(req, parent, name, false);
}

static void names_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    names_remove(req, parent, name, true);
}

/* ---- Rename ---- */

static void rename_done(struct slot *slot, union slot_out *out)
{
    const fwd_rename_in_t *in = &slot->in.rename;

    node_name_changed(slot->nodes[0], in->name, slot->nodes[1], in->new_name,
        (in->flags & RENAME_EXCHANGE) != 0);
    ops_done(slot, out);
}

static struct op rename_op = {
    {"fwd.rename", hg_proc_fwd_rename_in_t, hg_proc_fwd_error_out_t, 0}, NULL,
    rename_done, NULL, 0, offsetof(fwd_rename_in_t, again)};

static void names_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
    fuse_ino_t new_parent, const char *new_name, unsigned int flags)
{
    struct slot *slot = slot_begin(req, &rename_op, node_of(parent), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot_set_node(slot, 1, node_of(new_parent));
    slot->in.rename.name = name;
    slot->in.rename.new_name = new_name;
    slot->in.rename.flags = flags;
    slot_run(slot);
}

/* ---- Readlink ---- */

static void readlink_done(struct slot *slot, union slot_out *out)
{
    char target[FWD_PATH_MAX + 1];
    const fwd_data_t *data = &out->data.data;

    if (data->size > FWD_PATH_MAX) {
        ops_reply_error(slot, ENAMETOOLONG);
        return;
    }
    memcpy(target, data->bytes, data->size);
    target[data->size] = '\0';
    (void) fuse_reply_readlink(slot->req, target);
}

static struct op readlink_op = {
    {"fwd.readlink", hg_proc_fwd_node_in_t, hg_proc_fwd_data_out_t, 0}, NULL,
    readlink_done, NULL, OP_READS, 0};

static void names_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct slot *slot = slot_begin(req, &readlink_op, node_of(ino), NULL);

    if (slot != NULL)
        slot_run(slot);
}

bool ops_names_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {
        &lookup_op, &make_op, &link_op, &remove_op, &rename_op, &readlink_op};

    table->lookup = names_lookup;
    table->forget = names_forget;
    table->forget_multi = names_forget_multi;
    table->mknod = names_mknod;
    table->mkdir = names_mkdir;
    table->symlink = names_symlink;
    table->link = names_link;
    table->unlink = names_unlink;
    table->rmdir = names_rmdir;
    table->rename = names_rename;
    table->readlink = names_readlink;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
