/* SPDX-License-Identifier: BSD-3-Clause */
/* client_ops_files: requests that open and close files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client_lock.h"
#include "client_mount.h"
#include "client_ops.h"

/* ---- Flags ---- */

/* The kernel's write-back cache reads parts of pages that it will write, and
 * knows itself where the end of a file is. */
static uint32_t files_flags(int flags)
{
    flags &= ~O_NOCTTY;
    if (!mount_options.writeback)
        return (uint32_t) flags;
    if ((flags & O_ACCMODE) == O_WRONLY)
        flags = (flags & ~O_ACCMODE) | O_RDWR;
    return (uint32_t) (flags & ~O_APPEND);
}

static bool files_time_differs(const fwd_time_t *a, const fwd_time_t *b)
{
    return a->seconds != b->seconds || a->nanoseconds != b->nanoseconds;
}

static bool files_attr_differs(const fwd_attr_t *a, const fwd_attr_t *b)
{
    return a->size != b->size || a->mode != b->mode || a->uid != b->uid ||
        a->gid != b->gid || a->links != b->links ||
        files_time_differs(&a->mtime, &b->mtime) ||
        files_time_differs(&a->ctime, &b->ctime);
}

/* Programs that append must write where the server has the end of the file.
 * With O_DIRECT, programs read at once what others have appended. The kernel
 * then writes without asking for an extended attribute first. */
static bool files_is_direct(int flags)
{
    return mount_options.direct_io || (flags & O_DIRECT) != 0 ||
        ((flags & O_APPEND) != 0 && !mount_options.writeback);
}

/* Another client may have changed the file: then the attributes differ from the
 * last ones that this client got, and the kernel must not keep its pages. */
static void files_set_caching(
    struct fuse_file_info *fi, struct node *node, const fwd_attr_t *attr)
{
    bool changed = !node->attr_known || files_attr_differs(&node->attr, attr);

    fi->keep_cache =
        mount_options.kernel_cache || (mount_options.auto_cache && !changed);
    fi->direct_io = files_is_direct(fi->flags);
    if (changed && node->attr_known)
        mount_attr_changed(node);
    node->attr = *attr;
    node->attr_known = true;
}

/* ---- Release ---- */

static void release_done(struct slot *slot, union slot_out *out)
{
    (void) out;
    if (slot->unlocks == NULL)
        return;
    slot->unlocks->unlocking--;
    node_unref(slot->unlocks);
}

static bool release_failed(struct slot *slot, int error)
{
    (void) error; /* the end of the session closes the file */
    release_done(slot, NULL);
    return false;
}

static struct op release_op = {
    {"fwd.release", hg_proc_fwd_file_in_t, hg_proc_fwd_error_out_t, 0}, NULL,
    release_done, release_failed, 0, 0};

/* Nobody waits for the server to close a file, except locks of the node if the
 * file has some; then `locked` is the node, else NULL. */
static void files_close(uint64_t epoch, uint64_t remote, struct node *locked)
{
    struct slot *slot;

    if (epoch != remote_epoch() || remote == 0)
        return; /* the server has closed it with its session */
    slot = slot_begin(NULL, &release_op, NULL, NULL);
    if (slot == NULL)
        return;
    slot->in.file.file = remote;
    slot->only_epoch = epoch;
    if (locked != NULL) {
        node_ref(locked);
        locked->unlocking++;
        slot->unlocks = locked;
    }
    slot_run(slot);
}

/* The kernel does not report that the locks of an open file end with it. The
 * server releases them. */
static void files_release(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct file *file = file_of(fi);

    (void) ino;
    (void) fuse_reply_err(req, 0);
    dir_end_listing(file);
    files_close(
        file->epoch, file->remote, lock_file_owns(file) ? file->node : NULL);
    file_free(file);
}

/* ---- Open ---- */

static void open_done(struct slot *slot, union slot_out *out)
{
    struct node *node = slot->nodes[0];
    struct file *file = file_make(node, slot->in.open.flags);

    if (file == NULL) {
        files_close(slot->epoch, out->open.file, NULL);
        ops_reply_error(slot, ENOMEM);
        return;
    }
    file->epoch = slot->epoch;
    file->remote = out->open.file;
    file->flush = out->open.flush != 0;
    slot->fi.fh = (uintptr_t) file;
    if ((slot->in.open.flags & O_DIRECTORY) == 0)
        files_set_caching(&slot->fi, node, &out->open.attr);
    if ((slot->in.open.flags & O_TRUNC) != 0)
        mount_data_changed(node);
    if (fuse_reply_open(slot->req, &slot->fi) == 0)
        return;
    files_close(file->epoch, file->remote, NULL);
    file_free(file);
}

/* The kernel may know a name that another client has given to another file. The
 * error ESTALE makes it look the path up again. */
static void open_prepare(struct slot *slot)
{
    struct node *node = slot->nodes[0];
    struct node *parent = slot->nodes[1];
    bool named = parent != NULL && node->parent == parent;

    slot->in.open.parent = named ? parent->remote : 0;
    slot->in.open.name = named ? node->name : "";
}

static struct op open_op = {
    {"fwd.open", hg_proc_fwd_open_in_t, hg_proc_fwd_open_out_t, 0},
    open_prepare, open_done, NULL, OP_READS | OP_OF_SESSION, 0};

static void files_open_as(fuse_req_t req, fuse_ino_t ino,
    const struct fuse_file_info *fi, uint32_t flags)
{
    struct node *node = node_of(ino);
    struct slot *slot = slot_begin(req, &open_op, node, NULL);

    if (slot == NULL)
        return;
    slot_set_node(slot, 1, node->parent);
    slot->fi = *fi;
    slot->in.open.flags = flags;
    slot_run(slot);
}

static void files_open(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    files_open_as(req, ino, fi, files_flags(fi->flags));
}

static void files_opendir(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    files_open_as(req, ino, fi, O_RDONLY | O_DIRECTORY);
}

/* ---- Create ---- */

static void create_done(struct slot *slot, union slot_out *out)
{
    const fwd_entry_t *entry = &out->create.entry;
    struct fuse_entry_param param;
    struct node *node =
        ops_entry(entry, slot->nodes[0], slot->in.create.name, &param);
    struct file *file =
        node != NULL ? file_make(node, slot->in.create.flags) : NULL;

    node_changed_by_call(slot->nodes[0], &out->create.parent);
    if (file == NULL) {
        files_close(slot->epoch, out->create.file, NULL);
        ops_reply_error(slot, ENOMEM);
        return;
    }
    file->epoch = slot->epoch;
    file->remote = out->create.file;
    file->flush = out->create.flush != 0;
    slot->fi.fh = (uintptr_t) file;
    files_set_caching(&slot->fi, node, &entry->attr);
    node->lookups++;
    if (fuse_reply_create(slot->req, &param, &slot->fi) == 0)
        return;
    files_close(file->epoch, file->remote, NULL);
    file_free(file);
    node_forget(node, 1);
}

static struct op create_op = {
    {"fwd.create", hg_proc_fwd_create_in_t, hg_proc_fwd_create_out_t, 0}, NULL,
    create_done, NULL, OP_OF_SESSION, offsetof(fwd_create_in_t, again)};

static void files_create(fuse_req_t req, fuse_ino_t parent, const char *name,
    mode_t mode, struct fuse_file_info *fi)
{
    const struct fuse_ctx *caller = fuse_req_ctx(req);
    struct slot *slot = slot_begin(req, &create_op, node_of(parent), NULL);
    fwd_create_in_t *in;

    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->fi = *fi;
    in = &slot->in.create;
    in->name = name;
    in->flags = files_flags(fi->flags) & ~(uint32_t) O_CREAT;
    in->mode = (uint32_t) mode;
    in->uid = (uint32_t) caller->uid;
    in->gid = (uint32_t) caller->gid;
    in->mark = (uint32_t) random() % 1000000000;
    slot_run(slot);
}

/* ---- Flush ---- */

static struct op flush_op = {
    {"fwd.flush", hg_proc_fwd_file_in_t, hg_proc_fwd_error_out_t, 0}, NULL,
    ops_done, NULL, 0, 0};

/* All writes have reached the server before, but on some file systems not yet
 * the disk. */
static void files_flush_data(fuse_req_t req, struct file *file)
{
    struct slot *slot;

    if (!file->flush) {
        (void) fuse_reply_err(req, 0);
        return;
    }
    slot = slot_begin(req, &flush_op, NULL, file);
    if (slot != NULL)
        slot_run(slot);
}

static void unlock_done(struct slot *slot, union slot_out *out)
{
    (void) out;
    lock_owner_ends(slot->files[0]->node, slot->in.lock.owner);
    /* The request gets another slot: a signal must not reach this one. */
    fuse_req_interrupt_func(slot->req, NULL, NULL);
    files_flush_data(slot->req, slot->files[0]);
}

static bool unlock_failed(struct slot *slot, int error)
{
    (void) error; /* the server releases them with the file, or session */
    unlock_done(slot, NULL);
    return false;
}

static struct op unlock_op = {
    {"fwd.lock", hg_proc_fwd_lock_in_t, hg_proc_fwd_lock_out_t, 0}, NULL,
    unlock_done, unlock_failed, 0, 0};

/* A program closes one descriptor of a file. That releases the locks of its
 * process. */
static void files_flush(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct file *file = file_of(fi);
    struct slot *slot;

    (void) ino;
    if (!lock_owner_known(file->node, fi->lock_owner)) {
        files_flush_data(req, file);
        return;
    }
    slot = slot_begin(req, &unlock_op, NULL, file);
    if (slot == NULL)
        return;
    slot->in.lock.owner = fi->lock_owner;
    slot->in.lock.op = FWD_LOCK_RELEASE;
    slot_run(slot);
}

bool ops_files_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {
        &release_op, &open_op, &create_op, &flush_op, &unlock_op};

    table->open = files_open;
    table->opendir = files_opendir;
    table->create = files_create;
    table->release = files_release;
    table->releasedir = files_release;
    table->flush = files_flush;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
