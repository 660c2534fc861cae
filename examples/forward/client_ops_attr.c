/* SPDX-License-Identifier: BSD-3-Clause */
/* client_ops_attr: requests for attributes, and what all requests share. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "client_mount.h"
#include "client_ops.h"

/* ---- What all requests share ---- */

bool ops_register(struct op *const ops[], size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (!remote_register(&ops[i]->call))
            return false;
    return true;
}

void ops_reply_error(struct slot *slot, int error)
{
    (void) fuse_reply_err(slot->req, error);
}

void ops_done(struct slot *slot, union slot_out *out)
{
    (void) out;
    ops_reply_error(slot, 0);
}

/* ---- Attributes ---- */

/* The node whose attributes a request is about. */
static struct node *attr_node(const struct slot *slot)
{
    return slot->files[0] != NULL ? slot->files[0]->node : slot->nodes[0];
}

static void attr_done(struct slot *slot, union slot_out *out)
{
    struct node *node = attr_node(slot);
    struct stat st;

    node->attr = out->attr.attr;
    node->attr_known = true;
    node_stat(node, &node->attr, &st);
    (void) fuse_reply_attr(slot->req, &st, mount_options.attr_timeout);
}

/* The server keeps the node of an open file. The inputs of fwd.getattr and
 * fwd.setattr begin with the same members. */
static void attr_prepare(struct slot *slot)
{
    if (slot->files[0] == NULL)
        return;
    slot->in.getattr.node = slot->files[0]->node->remote;
    slot->in.getattr.file = slot->files[0]->remote;
}

static struct op getattr_op = {
    {"fwd.getattr", hg_proc_fwd_getattr_in_t, hg_proc_fwd_attr_out_t, 0},
    attr_prepare, attr_done, NULL, OP_READS, 0};

static struct slot *attr_begin(fuse_req_t req, const struct op *op,
    fuse_ino_t ino, const struct fuse_file_info *fi)
{
    return fi != NULL && fi->fh != 0 ? slot_begin(req, op, NULL, file_of(fi))
                                     : slot_begin(req, op, node_of(ino), NULL);
}

static void attr_getattr(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const fwd_attr_t *changed = node_take_changed(node_of(ino));
    struct slot *slot;
    struct stat st;

    if (changed != NULL) {
        node_stat(node_of(ino), changed, &st);
        (void) fuse_reply_attr(req, &st, mount_options.attr_timeout);
        return;
    }
    slot = attr_begin(req, &getattr_op, ino, fi);
    if (slot != NULL)
        slot_run(slot);
}

static struct op setattr_op = {
    {"fwd.setattr", hg_proc_fwd_setattr_in_t, hg_proc_fwd_attr_out_t, 0},
    attr_prepare, attr_done, NULL, 0, 0};

static uint32_t attr_valid(int set)
{
    static const struct {
        int fuse;
        uint32_t fwd;
    } flags[] = {{FUSE_SET_ATTR_MODE, FWD_SET_MODE},
        {FUSE_SET_ATTR_UID, FWD_SET_UID}, {FUSE_SET_ATTR_GID, FWD_SET_GID},
        {FUSE_SET_ATTR_SIZE, FWD_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, FWD_SET_ATIME},
        {FUSE_SET_ATTR_MTIME, FWD_SET_MTIME}};
    uint32_t valid = 0;
    size_t i;

    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if ((set & flags[i].fuse) != 0)
            valid |= flags[i].fwd;
    if ((set & FUSE_SET_ATTR_ATIME_NOW) != 0)
        valid = (valid & ~(uint32_t) FWD_SET_ATIME) | FWD_SET_ATIME_NOW;
    if ((set & FUSE_SET_ATTR_MTIME_NOW) != 0)
        valid = (valid & ~(uint32_t) FWD_SET_MTIME) | FWD_SET_MTIME_NOW;
    return valid;
}

static void attr_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st,
    int set, struct fuse_file_info *fi)
{
    struct slot *slot = attr_begin(req, &setattr_op, ino, fi);
    fwd_setattr_in_t *in;

    if (slot == NULL)
        return;
    in = &slot->in.setattr;
    in->valid = attr_valid(set);
    in->mode = (uint32_t) st->st_mode & 07777;
    in->uid = (uint32_t) st->st_uid;
    in->gid = (uint32_t) st->st_gid;
    in->size = (uint64_t) st->st_size;
    in->atime.seconds = st->st_atim.tv_sec;
    in->atime.nanoseconds = st->st_atim.tv_nsec;
    in->mtime.seconds = st->st_mtim.tv_sec;
    in->mtime.nanoseconds = st->st_mtim.tv_nsec;
    slot_run(slot);
}

/* ---- File system ---- */

static void statfs_done(struct slot *slot, union slot_out *out)
{
    const fwd_statfs_out_t *in = &out->statfs;
    struct statvfs st = {0};

    st.f_bsize = in->block_size;
    st.f_frsize = in->fragment_size;
    st.f_namemax = in->name_max;
    st.f_blocks = in->blocks;
    st.f_bfree = in->blocks_free;
    st.f_bavail = in->blocks_available;
    st.f_files = in->files;
    st.f_ffree = in->files_free;
    st.f_favail = in->files_free;
    (void) fuse_reply_statfs(slot->req, &st);
}

static struct op statfs_op = {
    {"fwd.statfs", hg_proc_fwd_node_in_t, hg_proc_fwd_statfs_out_t, 0}, NULL,
    statfs_done, NULL, OP_READS, 0};

static void attr_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct slot *slot = slot_begin(
        req, &statfs_op, node_of(ino != 0 ? ino : FUSE_ROOT_ID), NULL);

    if (slot != NULL)
        slot_run(slot);
}

/* ---- Extended attributes ---- */

/* The kernel asks for this one before each write. */
static bool xattr_is_capability(const char *name)
{
    return strcmp(name, "security.capability") == 0;
}

static void getxattr_done(struct slot *slot, union slot_out *out)
{
    const fwd_data_t *data = &out->getxattr.data;

    if (slot->in.getxattr.size == 0)
        (void) fuse_reply_xattr(slot->req, out->getxattr.size);
    else if (data->size > slot->in.getxattr.size)
        ops_reply_error(slot, ERANGE);
    else
        (void) fuse_reply_buf(
            slot->req, (const char *) data->bytes, data->size);
}

static bool getxattr_failed(struct slot *slot, int error)
{
    if (error == ENODATA && xattr_is_capability(slot->in.getxattr.name))
        slot->nodes[0]->no_capability_until =
            remote_now() + (uint64_t) (mount_options.attr_timeout * 1000);
    ops_reply_error(slot, error);
    return false;
}

static struct op getxattr_op = {
    {"fwd.getxattr", hg_proc_fwd_getxattr_in_t, hg_proc_fwd_getxattr_out_t, 0},
    NULL, getxattr_done, getxattr_failed, OP_READS, 0};

static void attr_getxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct node *node = node_of(ino);
    struct slot *slot;

    if (xattr_is_capability(name) && remote_now() < node->no_capability_until) {
        (void) fuse_reply_err(req, ENODATA);
        return;
    }
    slot = slot_begin(req, &getxattr_op, node, NULL);
    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.getxattr.name = name;
    slot->in.getxattr.size =
        size < FWD_XATTR_MAX ? (uint32_t) size : FWD_XATTR_MAX;
    slot_run(slot);
}

static void attr_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    attr_getxattr(req, ino, "", size);
}

static struct op setxattr_op = {
    {"fwd.setxattr", hg_proc_fwd_setxattr_in_t, hg_proc_fwd_error_out_t, 0},
    NULL, ops_done, NULL, 0, offsetof(fwd_setxattr_in_t, again)};

static void attr_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
    const char *value, size_t size, int flags)
{
    struct slot *slot;

    if (size > FWD_XATTR_MAX) {
        (void) fuse_reply_err(req, E2BIG);
        return;
    }
    slot = slot_begin(req, &setxattr_op, node_of(ino), NULL);
    if (slot == NULL)
        return;
    slot->nodes[0]->no_capability_until = 0;
    slot_keep_buffer(slot);
    slot->in.setxattr.name = name;
    slot->in.setxattr.value.bytes = (void *) (uintptr_t) value;
    slot->in.setxattr.value.size = (uint32_t) size;
    slot->in.setxattr.flags = (uint32_t) flags;
    slot_run(slot);
}

static struct op removexattr_op = {
    {"fwd.removexattr", hg_proc_fwd_removexattr_in_t, hg_proc_fwd_error_out_t,
        0},
    NULL, ops_done, NULL, 0, offsetof(fwd_removexattr_in_t, again)};

static void attr_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct slot *slot = slot_begin(req, &removexattr_op, node_of(ino), NULL);

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.removexattr.name = name;
    slot_run(slot);
}

bool ops_attr_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {&getattr_op, &setattr_op, &statfs_op,
        &getxattr_op, &setxattr_op, &removexattr_op};

    table->getattr = attr_getattr;
    table->setattr = attr_setattr;
    table->statfs = attr_statfs;
    table->getxattr = attr_getxattr;
    table->listxattr = attr_listxattr;
    table->setxattr = attr_setxattr;
    table->removexattr = attr_removexattr;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
